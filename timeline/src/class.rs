//! Thread classes, decided by a thread's name through one table of data: its own, where that is known, else the 15 bytes of it
//! that the kernel keeps.

use serde::{Deserialize, Serialize};

/// Class of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadClass {
    /// The launcher's first thread and the one that runs `main`.
    Main,
    /// C1 compiler.
    JitC1,
    /// C2 compiler.
    JitC2,
    /// Garbage collector.
    Gc,
    /// The VM's other threads.
    Vm,
    /// Runs requests.
    Worker,
    /// Accepts connections.
    Acceptor,
    /// Waits for data on many connections.
    Poller,
    /// Belongs to a connection pool.
    Pool,
    /// Anything else.
    #[default]
    Other,
}

impl ThreadClass {
    /// Every class, in the order in which they are shown.
    pub const ALL: [ThreadClass; 10] = [
        ThreadClass::Main,
        ThreadClass::JitC1,
        ThreadClass::JitC2,
        ThreadClass::Gc,
        ThreadClass::Vm,
        ThreadClass::Worker,
        ThreadClass::Acceptor,
        ThreadClass::Poller,
        ThreadClass::Pool,
        ThreadClass::Other,
    ];

    /// The word for it in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            ThreadClass::Main => "main",
            ThreadClass::JitC1 => "jit_c1",
            ThreadClass::JitC2 => "jit_c2",
            ThreadClass::Gc => "gc",
            ThreadClass::Vm => "vm",
            ThreadClass::Worker => "worker",
            ThreadClass::Acceptor => "acceptor",
            ThreadClass::Poller => "poller",
            ThreadClass::Pool => "pool",
            ThreadClass::Other => "other",
        }
    }
}

/// How a name leads to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Class(ThreadClass),
    /// A server's own thread whose role the cut name hides: the syscalls that it makes tell.
    Server,
}

/// How a name begins, and what follows somewhere: the first row that fits decides. The parts in the middle are of whole
/// names; a name that the kernel cut passes them by. Names as seen of JDK 17 and 25 and of the servers' current releases.
const TABLE: &[(&str, &str, Verdict)] = {
    use ThreadClass::{Acceptor, Gc, JitC1, JitC2, Other, Poller, Pool, Vm, Worker};
    use Verdict::{Class, Server};
    &[
        ("C1 Com", "", Class(JitC1)),
        ("C2 Com", "", Class(JitC2)),
        ("GC Thread#", "", Class(Gc)),
        ("GC task thread", "", Class(Gc)),
        ("G1 ", "", Class(Gc)),
        ("ZDirector", "", Class(Gc)),
        ("ZDriver", "", Class(Gc)),
        ("ZStat", "", Class(Gc)),
        ("ZUn", "", Class(Gc)),
        ("ZWorker", "", Class(Gc)),
        ("RuntimeWorker#", "", Class(Gc)),
        ("Shenandoah", "", Class(Gc)),
        ("VM Thread", "", Class(Vm)),
        ("VM Periodic", "", Class(Vm)),
        ("Reference Handl", "", Class(Vm)),
        ("Finalizer", "", Class(Vm)),
        ("Signal Dispatch", "", Class(Vm)),
        ("Service Thread", "", Class(Vm)),
        ("Monitor Deflati", "", Class(Vm)),
        ("Notification Th", "", Class(Vm)),
        ("Common-Cleaner", "", Class(Vm)),
        ("Attach Listener", "", Class(Vm)),
        ("Sweeper thread", "", Class(Vm)),
        ("ArchiveWorkerTh", "", Class(Vm)),
        ("JFR ", "", Class(Vm)),
        ("HikariPool-", "", Class(Pool)),
        ("", "connection adder", Class(Pool)),
        ("", "connection-adder", Class(Pool)),
        ("", "connection closer", Class(Pool)),
        ("", "connection-closer", Class(Pool)),
        ("", "-Acceptor", Class(Acceptor)),
        ("http", "Poller", Class(Poller)),
        ("http", "-exec-", Class(Worker)),
        ("http-nio", "", Server),
        ("https-jsse-nio", "", Server),
        ("https-openssl-n", "", Server),
        ("http-apr", "", Server),
        ("tomcat-handler", "", Class(Worker)),
        ("qtp", "-acceptor-", Class(Acceptor)),
        ("qtp", "-selector-", Class(Poller)),
        ("qtp", "", Server),
        ("XNIO-", " I/O", Class(Poller)),
        ("XNIO-", " Accept", Class(Acceptor)),
        ("XNIO-", "", Class(Worker)),
        ("reactor-http", "", Server),
        ("nioEventLoop", "", Server),
        ("epollEventLoop", "", Server),
        ("multiThreadIoEv", "", Server),
        ("vert.x-acceptor", "", Class(Acceptor)),
        ("vert.x-eventloo", "", Server),
        ("vert.x-worker", "", Class(Worker)),
        ("HTTP-Dispatcher", "", Class(Poller)),
        ("MasterPoller", "", Class(Poller)),
        ("Read-Poller", "", Class(Poller)),
        ("Write-Poller", "", Class(Poller)),
        ("ForkJoinPool", "", Class(Worker)),
        ("grpc-default", "", Class(Worker)),
        ("HttpClient-", "", Class(Other)),
        ("pool-", "", Class(Worker)),
    ]
};

/// The table, with what a site adds to it.
#[derive(Clone, Debug, Default)]
pub struct ThreadClasses {
    extra: Vec<(String, ThreadClass)>,
}

impl ThreadClasses {
    /// The built-in table behind a site's own prefixes, which are asked first.
    pub fn with(extra: Vec<(String, ThreadClass)>) -> Self {
        Self { extra }
    }

    /// Class of a thread by its name, and whether its syscalls may tell better.
    pub(crate) fn of(&self, name: &str, launcher: &str) -> (ThreadClass, bool) {
        if let Some((_, class)) = self.extra.iter().find(|(prefix, _)| name.starts_with(prefix.as_str())) {
            return (*class, false);
        }
        let fits =
            |begin: &str, middle: &str| name.strip_prefix(begin).is_some_and(|rest| rest.contains(middle));
        match TABLE.iter().find(|(begin, middle, _)| fits(begin, middle)) {
            Some((.., Verdict::Class(class))) => (*class, false),
            Some((.., Verdict::Server)) => server_thread(name),
            None if name == launcher => (ThreadClass::Main, false),
            None => (ThreadClass::Other, false),
        }
    }
}

/// Tomcat's `http-nio-8080-Acceptor`, `-Poller` and `-exec-1` are cut to one letter on a port of four digits; on a
/// longer one nothing is left.
fn server_thread(name: &str) -> (ThreadClass, bool) {
    match name.rsplit_once('-') {
        Some((_, role)) if role.starts_with('A') => (ThreadClass::Acceptor, false),
        Some((_, role)) if role.starts_with('P') => (ThreadClass::Poller, false),
        Some((_, role)) if role.starts_with('e') && name.starts_with("http") => (ThreadClass::Worker, false),
        _ => (ThreadClass::Worker, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_the_kernel_keeps_them() {
        let classes = ThreadClasses::with(vec![("acme-io".into(), ThreadClass::Poller)]);
        for (name, expect) in [
            ("java", (ThreadClass::Main, false)),
            ("C1 CompilerThre", (ThreadClass::JitC1, false)),
            ("C2 Com..hread4", (ThreadClass::JitC2, false)),
            ("G1 Main Marker", (ThreadClass::Gc, false)),
            ("ZWorkerYoung#0", (ThreadClass::Gc, false)),
            ("VM Periodic Tas", (ThreadClass::Vm, false)),
            ("http-nio-8080-A", (ThreadClass::Acceptor, false)),
            ("http-nio-8080-P", (ThreadClass::Poller, false)),
            ("http-nio-8080-e", (ThreadClass::Worker, false)),
            ("http-nio-18117-", (ThreadClass::Worker, true)),
            ("https-jsse-nio-", (ThreadClass::Worker, true)),
            ("HikariPool-1 co", (ThreadClass::Pool, false)),
            ("HikariPool-1:co", (ThreadClass::Pool, false)),
            ("acme-io-3", (ThreadClass::Poller, false)),
            ("RMI TCP Connect", (ThreadClass::Other, false)),
            ("", (ThreadClass::Other, false)),
            ("XNIO-1 I/O-2", (ThreadClass::Poller, false)),
            ("XNIO-1 task-1", (ThreadClass::Worker, false)),
            ("qtp1234567890-2", (ThreadClass::Worker, true)),
            ("reactor-http-ep", (ThreadClass::Worker, true)),
        ] {
            assert_eq!(classes.of(name, "java"), expect, "{name}");
        }
    }

    #[test]
    fn whole_names_say_what_cut_ones_hide() {
        let classes = ThreadClasses::with(vec![("http-nio-9090-exec".into(), ThreadClass::Other)]);
        for (name, expect) in [
            ("C1 CompilerThread0", (ThreadClass::JitC1, false)),
            ("Notification Thread", (ThreadClass::Vm, false)),
            ("http-nio-18117-exec-1", (ThreadClass::Worker, false)),
            ("http-nio-8080-Acceptor", (ThreadClass::Acceptor, false)),
            ("http-nio-8080-Acceptor-0", (ThreadClass::Acceptor, false)),
            ("http-nio-18117-Poller", (ThreadClass::Poller, false)),
            ("http-nio-8080-ClientPoller-0", (ThreadClass::Poller, false)),
            ("http-nio-127.0.0.1-18117-exec-10", (ThreadClass::Worker, false)),
            ("https-jsse-nio-8443-Poller", (ThreadClass::Poller, false)),
            ("https-openssl-nio-8443-exec-3", (ThreadClass::Worker, false)),
            ("http-nio-9090-exec-3", (ThreadClass::Other, false)),
            ("qtp1930240356-28-acceptor-0@5f2108b5-ServerConnector@1d29cf23", (ThreadClass::Acceptor, false)),
            ("qtp1930240356-30-selector-ServerConnectorManager@7c/0", (ThreadClass::Poller, false)),
            ("qtp1930240356-31", (ThreadClass::Worker, true)),
            ("XNIO-2 Accept", (ThreadClass::Acceptor, false)),
            ("vert.x-acceptor-thread-0", (ThreadClass::Acceptor, false)),
            ("vert.x-worker-thread-7", (ThreadClass::Worker, false)),
            ("vert.x-eventloop-thread-1", (ThreadClass::Worker, true)),
            ("reactor-http-epoll-2", (ThreadClass::Worker, true)),
            ("nioEventLoopGroup-3-1", (ThreadClass::Worker, true)),
            ("orders:connection-adder", (ThreadClass::Pool, false)),
            ("orders connection closer", (ThreadClass::Pool, false)),
            ("HikariPool-1:housekeeper", (ThreadClass::Pool, false)),
        ] {
            assert_eq!(classes.of(name, "java"), expect, "{name}");
        }
    }
}
