//! What /proc says of a process. A process that has gone is `None`, not an error.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Kernel ticks a second in /proc/PID/stat (`USER_HZ`, fixed at 100 by the ABI on x86-64 and arm64).
const TICK_NS: u64 = 10_000_000;

/// A /proc file system, or a tree that looks like one.
#[derive(Clone, Debug)]
pub struct Proc {
    root: PathBuf,
}

/// A thread and its CPU account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// Time on a CPU since it was made.
    pub cpu_ns: u64,
    /// Time runnable, waiting for a CPU.
    pub run_queue_ns: u64,
}

impl Proc {
    /// Below `root`, which is `/proc` but in tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn read(&self, pid: u32, file: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(pid.to_string()).join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Ids of all processes.
    pub fn pids(&self) -> Vec<u32> {
        numbers_in(&self.root)
    }

    /// Whether the process is there.
    pub fn exists(&self, pid: u32) -> bool {
        self.root.join(pid.to_string()).exists()
    }

    /// Path of the `libjvm.so` that a process has mapped: what makes it a JVM, whatever launched it.
    pub fn libjvm(&self, pid: u32) -> Option<String> {
        let maps = self.read(pid, "maps")?;
        let line = maps.lines().find(|line| line.trim_end_matches(" (deleted)").ends_with("/libjvm.so"))?;
        line.find('/').map(|at| line[at..].to_owned())
    }

    /// Path of the executable, as the process sees it.
    pub fn executable(&self, pid: u32) -> Option<String> {
        let path = fs::read_link(self.root.join(pid.to_string()).join("exe")).ok()?;
        Some(path.to_string_lossy().into_owned())
    }

    /// Command line.
    pub fn command(&self, pid: u32) -> Option<Vec<String>> {
        let text = self.read(pid, "cmdline")?;
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Text of the cgroup file.
    pub fn cgroup(&self, pid: u32) -> Option<String> {
        self.read(pid, "cgroup")
    }

    /// (parent's pid, start time in ticks since boot).
    pub fn parent_and_start(&self, pid: u32) -> Option<(u32, u64)> {
        let stat = self.read(pid, "stat")?;
        // The name may hold blanks and parentheses; the last one ends it (proc_pid_stat(5)).
        let rest = stat.rsplit_once(')')?.1;
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(17)?.parse().ok()?;
        Some((parent, start_ticks))
    }

    /// Whether `ancestor` is the process or one of its ancestors.
    pub fn descends(&self, pid: u32, ancestor: u32) -> bool {
        let mut at = pid;
        // Bounded, since parents change while they are read.
        for _ in 0..64 {
            if at == ancestor {
                return true;
            }
            match self.parent_and_start(at) {
                Some((parent, _)) if parent != 0 => at = parent,
                _ => return false,
            }
        }
        false
    }

    /// Start of a process, from its ticks, nanoseconds of boot time.
    pub fn start_ns(ticks: u64) -> u64 {
        ticks.saturating_mul(TICK_NS)
    }

    /// Process id in the innermost PID namespace, when that is another than the one of this /proc.
    pub fn container_pid(&self, pid: u32) -> Option<u32> {
        let status = self.read(pid, "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let mut pids = line.split_ascii_whitespace();
        pids.next()?;
        pids.next_back()?.parse().ok()
    }

    /// Ids of a process's threads.
    pub fn tids(&self, pid: u32) -> Vec<u32> {
        numbers_in(&self.root.join(pid.to_string()).join("task"))
    }

    /// Whether a process has a network namespace of its own: not the one of the node's first process.
    pub fn has_own_network(&self, pid: u32) -> bool {
        let of = |pid: u32| fs::read_link(self.root.join(pid.to_string()).join("ns/net")).ok();
        of(pid).zip(of(1)).is_some_and(|(own, first)| own != first)
    }

    /// Threads with their accounts.
    pub fn tasks(&self, pid: u32) -> Vec<Task> {
        self.tids(pid).into_iter().filter_map(|tid| self.task(pid, tid)).collect()
    }

    /// One thread with its account.
    pub fn task(&self, pid: u32, tid: u32) -> Option<Task> {
        let name = self.read(pid, &format!("task/{tid}/comm"))?.trim_end_matches('\n').to_owned();
        let schedstat = self.read(pid, &format!("task/{tid}/schedstat")).unwrap_or_default();
        let mut numbers = schedstat.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0));
        let cpu_ns = numbers.next().unwrap_or(0);
        Some(Task { tid, name, cpu_ns, run_queue_ns: numbers.next().unwrap_or(0) })
    }

    /// fds of files that a JVM has open to load classes from, with what they are ([`agent_ebpf::role`]).
    pub fn class_files(&self, pid: u32) -> Vec<(i32, u32)> {
        let dir = self.root.join(pid.to_string()).join("fd");
        let role = |fd: u32| {
            let path = fs::read_link(dir.join(fd.to_string())).ok()?;
            match path.file_name()?.to_str()? {
                "modules" => Some(agent_ebpf::role::MODULES),
                name if name.as_bytes().ends_with(b".jar") => Some(agent_ebpf::role::JAR),
                _ => None,
            }
        };
        numbers_in(&dir).into_iter().filter_map(|fd| Some((i32::try_from(fd).ok()?, role(fd)?))).collect()
    }

    /// fds of connections that the process has accepted: TCP sockets whose local port it listens on.
    pub fn accepted(&self, pid: u32) -> Vec<i32> {
        let tables: Vec<Socket> = ["net/tcp", "net/tcp6"]
            .iter()
            .filter_map(|file| self.read(pid, file))
            .flat_map(|text| text.lines().filter_map(Socket::parse).collect::<Vec<_>>())
            .collect();
        let fds = self.root.join(pid.to_string()).join("fd");
        let own: Vec<(i32, u64)> = numbers_in(&fds)
            .into_iter()
            .filter_map(|fd| {
                let target = fs::read_link(fds.join(fd.to_string())).ok()?;
                let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
                Some((i32::try_from(fd).ok()?, inode))
            })
            .collect();
        let inodes: HashSet<u64> = own.iter().map(|(_, inode)| *inode).collect();
        let listening: HashSet<u16> = tables
            .iter()
            .filter(|socket| socket.state == LISTEN && inodes.contains(&socket.inode))
            .map(|socket| socket.local_port)
            .collect();
        let accepted: HashSet<u64> = tables
            .iter()
            .filter(|socket| socket.state == ESTABLISHED && listening.contains(&socket.local_port))
            .map(|socket| socket.inode)
            .collect();
        own.into_iter().filter(|(_, inode)| accepted.contains(inode)).map(|(fd, _)| fd).collect()
    }
}

// include/net/tcp_states.h, as /proc/net/tcp prints them.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

struct Socket {
    local_port: u16,
    state: String,
    inode: u64,
}

impl Socket {
    /// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …` (proc_pid_net(5)).
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let local_port = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        Some(Self { local_port, state: (*fields.get(3)?).to_owned(), inode: fields.get(9)?.parse().ok()? })
    }
}

fn numbers_in(dir: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn fake() -> (tempfile::TempDir, Proc) {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::new(dir.path());
        (dir, proc)
    }

    fn write(dir: &Path, file: &str, text: &str) {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_jvm_under_another_name() {
        let (dir, proc) = fake();
        write(dir.path(), "42/maps", "7f00-7f01 r-xp 00000000 08:01 99  /opt/jdk 25/lib/server/libjvm.so\n");
        write(
            dir.path(),
            "42/stat",
            "42 (my (odd) name) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 30 0 12345 0 0",
        );
        write(dir.path(), "42/status", "Name:\tx\nNSpid:\t42\t9\t1\n");
        write(dir.path(), "42/cmdline", "launcher\0-jar\0app.jar\0");
        write(dir.path(), "42/task/42/comm", "launcher\n");
        write(dir.path(), "42/task/42/schedstat", "1500 20 3\n");
        write(dir.path(), "42/task/43/comm", "VM Thread\n");
        assert_eq!(proc.pids(), [42]);
        assert_eq!(proc.libjvm(42).as_deref(), Some("/opt/jdk 25/lib/server/libjvm.so"));
        assert_eq!(proc.parent_and_start(42), Some((7, 12345)));
        assert_eq!(proc.container_pid(42), Some(1));
        assert_eq!(proc.command(42).unwrap(), ["launcher", "-jar", "app.jar"]);
        let task =
            |tid, name: &str, cpu_ns, run_queue_ns| Task { tid, name: name.into(), cpu_ns, run_queue_ns };
        assert_eq!(proc.tasks(42), [task(42, "launcher", 1500, 20), task(43, "VM Thread", 0, 0)]);
    }

    #[test]
    fn a_process_that_has_gone() {
        let (_dir, proc) = fake();
        assert_eq!((proc.libjvm(1), proc.parent_and_start(1), proc.command(1)), (None, None, None));
        assert!(proc.tasks(1).is_empty() && proc.accepted(1).is_empty() && !proc.descends(1, 2));
    }

    #[test]
    fn accepted_connections_are_those_on_a_port_it_listens_on() {
        let (dir, proc) = fake();
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 100 1\n\
            1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000 0 0 101 1\n\
            2: 0100007F:C002 0100007F:1538 01 00000000:00000000 00:00000000 00000000 0 0 102 1\n\
            3: 0100007F:1F90 0100007F:C003 01 00000000:00000000 00:00000000 00000000 0 0 999 1\n";
        write(dir.path(), "5/net/tcp", table);
        fs::create_dir_all(dir.path().join("5/fd")).unwrap();
        for (fd, inode) in [(3, 100), (4, 101), (5, 102)] {
            symlink(format!("socket:[{inode}]"), dir.path().join(format!("5/fd/{fd}"))).unwrap();
        }
        assert_eq!(proc.accepted(5), [4]);
    }
}
