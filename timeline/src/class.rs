//! Thread classes, decided by the kernel's 15-byte thread name through one table of data.

use serde::{Deserialize, Serialize};

/// Class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// The first prefix that fits decides. Names as seen of JDK 17 and 25 and of the servers' current releases.
const TABLE: &[(&str, Verdict)] = {
    use ThreadClass::{Gc, JitC1, JitC2, Other, Poller, Pool, Vm, Worker};
    use Verdict::{Class, Server};
    &[
        ("C1 Com", Class(JitC1)),
        ("C2 Com", Class(JitC2)),
        ("GC Thread#", Class(Gc)),
        ("GC task thread", Class(Gc)),
        ("G1 ", Class(Gc)),
        ("ZDirector", Class(Gc)),
        ("ZDriver", Class(Gc)),
        ("ZStat", Class(Gc)),
        ("ZUn", Class(Gc)),
        ("ZWorker", Class(Gc)),
        ("RuntimeWorker#", Class(Gc)),
        ("Shenandoah", Class(Gc)),
        ("VM Thread", Class(Vm)),
        ("VM Periodic", Class(Vm)),
        ("Reference Handl", Class(Vm)),
        ("Finalizer", Class(Vm)),
        ("Signal Dispatch", Class(Vm)),
        ("Service Thread", Class(Vm)),
        ("Monitor Deflati", Class(Vm)),
        ("Notification Th", Class(Vm)),
        ("Common-Cleaner", Class(Vm)),
        ("Attach Listener", Class(Vm)),
        ("Sweeper thread", Class(Vm)),
        ("ArchiveWorkerTh", Class(Vm)),
        ("JFR ", Class(Vm)),
        ("HikariPool-", Class(Pool)),
        ("http-nio", Server),
        ("https-jsse-nio", Server),
        ("https-openssl-n", Server),
        ("http-apr", Server),
        ("tomcat-handler", Class(Worker)),
        ("qtp", Server),
        ("XNIO-1 I/O", Class(Poller)),
        ("XNIO-", Class(Worker)),
        ("reactor-http", Server),
        ("nioEventLoop", Server),
        ("epollEventLoop", Server),
        ("multiThreadIoEv", Server),
        ("HTTP-Dispatcher", Class(Poller)),
        ("MasterPoller", Class(Poller)),
        ("Read-Poller", Class(Poller)),
        ("Write-Poller", Class(Poller)),
        ("ForkJoinPool", Class(Worker)),
        ("grpc-default", Class(Worker)),
        ("HttpClient-", Class(Other)),
        ("pool-", Class(Worker)),
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
        match TABLE.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            Some((_, Verdict::Class(class))) => (*class, false),
            Some((_, Verdict::Server)) => server_thread(name),
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
    fn names_seen_in_the_kernel() {
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
        ] {
            assert_eq!(classes.of(name, "java"), expect, "{name}");
        }
    }
}
