//! Accounts of threads on the running kernel: this process plays the JVM, and each of its threads waits for one thing.
//!
//! One test, since all tests of a binary share the process that the probes follow. It needs root.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use agent::{
    events::{
        account,
        raw::{self, Record},
    },
    probes::Probes,
};
use timeline::{Account, Cause, Offs};

/// Longer than what tells the cause apart from everything else that a thread does here.
const LONG: Duration = Duration::from_millis(80);
const LONG_NS: u64 = 80_000_000;

/// Runs `work` on a thread of its own; its id.
fn on_a_thread(work: impl FnOnce() + Send + 'static) -> u32 {
    let run = move || {
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        work();
        tid
    };
    thread::spawn(run).join().unwrap()
}

fn sum(off: Offs) -> u64 {
    let Offs { run_queue_ns, throttled_ns, socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns } = off;
    run_queue_ns + throttled_ns + socket_ns + client_ns + poll_ns + disk_ns + lock_ns + other_ns
}

fn burn(length: Duration) {
    let until = Instant::now() + length;
    while Instant::now() < until {
        std::hint::black_box(0);
    }
}

/// A cgroup whose tasks get a tenth of a CPU.
struct Throttled {
    dir: PathBuf,
    members: &'static str,
}

impl Throttled {
    fn new() -> Self {
        let (root, v1) = match Path::new("/sys/fs/cgroup/cpu") {
            v1 if v1.join("cpu.cfs_quota_us").exists() || v1.join("cpu.shares").exists() => (v1, true),
            _ => (Path::new("/sys/fs/cgroup"), false),
        };
        let dir = root.join(format!("jcold-test-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (file, limit) = if v1 { ("cpu.cfs_quota_us", "10000") } else { ("cpu.max", "10000 100000") };
        let throttled = Self { dir, members: if v1 { "tasks" } else { "cgroup.procs" } };
        fs::write(throttled.dir.join(file), limit).unwrap();
        throttled
    }

    /// Moves the current thread in (cgroup v1) or the whole process (v2).
    fn enter(&self) {
        let id = if self.members == "tasks" { nix::unistd::gettid() } else { nix::unistd::getpid() };
        fs::write(self.dir.join(self.members), id.to_string()).unwrap();
    }

    fn leave(&self) {
        let id = if self.members == "tasks" { nix::unistd::gettid() } else { nix::unistd::getpid() };
        fs::write(self.dir.parent().unwrap().join(self.members), id.to_string()).unwrap();
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        // Nobody is in it any more.
        let _ = fs::remove_dir(&self.dir);
    }
}

fn read_past_the_page_cache(path: &Path) {
    const BLOCK: usize = 1 << 20;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let mut buffer = vec![0u8; BLOCK + 4096];
    let aligned = buffer.as_ptr().align_offset(4096);
    let until = Instant::now() + LONG * 4;
    while Instant::now() < until {
        file.read_exact_at(&mut buffer[aligned..aligned + BLOCK], 0).unwrap();
    }
}

fn epoll_wait(fd: i32) {
    // SAFETY: plain syscalls on fds and structures of this function.
    unsafe {
        let epoll = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
        assert_eq!(libc::epoll_wait(epoll, &raw mut event, 1, 80), 0);
        libc::close(epoll);
    }
}

#[test]
fn each_thread_is_booked_for_what_it_waited_for() {
    let (mut probes, _maps, mut ring) =
        Probes::load(false).expect("this test needs root and a kernel with BTF");
    let measures = probes.measures();
    thread::Builder::new().name("VM Thread".to_owned()).spawn(|| {}).unwrap().join().unwrap();
    probes.arm().unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (said, heard) = mpsc::channel::<()>();
    // The client's side of both conversations takes its time.
    let slow = thread::spawn(move || {
        let mut served = listener.accept().unwrap().0;
        heard.recv_timeout(LONG).unwrap_err();
        served.write_all(b"x").unwrap();
        (listener, served)
    });
    let socket = on_a_thread(move || {
        let mut outbound = TcpStream::connect(address).unwrap();
        outbound.read_exact(&mut [0; 1]).unwrap();
    });
    let (listener, _served) = slow.join().unwrap();
    let mut patient = TcpStream::connect(address).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let client = thread::spawn(move || on_a_thread(move || accepted.read_exact(&mut [0; 1]).unwrap()));
    let lock = on_a_thread(|| {
        let (_unused, silence) = mpsc::channel::<()>();
        silence.recv_timeout(LONG).unwrap_err();
    });
    patient.write_all(b"x").unwrap();
    let client = client.join().unwrap();
    let idle = listener.as_raw_fd();
    let poll = on_a_thread(move || epoll_wait(idle));
    let busy = on_a_thread(|| burn(LONG));
    // A file of the build is on a real file system, which /tmp need not be.
    let big = std::env::current_exe().unwrap();
    let disk = File::open(&big).unwrap().metadata().unwrap().len() > 2 << 20;
    let disk = disk.then(|| on_a_thread(move || read_past_the_page_cache(&big)));
    let group = Throttled::new();
    let throttled = thread::scope(|scope| {
        let run = || {
            group.enter();
            burn(LONG * 4);
            group.leave();
            nix::unistd::gettid().as_raw().unsigned_abs()
        };
        scope.spawn(run).join().unwrap()
    });
    drop((said, group));
    probes.disarm();

    let mut accounts = std::collections::HashMap::new();
    while let Some(bytes) = ring.next() {
        let (_, record) = raw::decode(&bytes).expect("agent and probes share their layout");
        if let Record::ThreadAccount(told) = record
            && told.head.tgid == std::process::id()
        {
            let leaving = account::cause(told.account.leaving);
            accounts.insert(told.head.tid, (told.head.at_ns, account::of(&told.account).unwrap(), leaving));
        }
    }
    let of = |tid: u32| -> Account {
        let (at_ns, account, leaving) = accounts[&tid];
        assert_eq!(leaving, Cause::Exited, "the last word of a thread");
        // All its time is accounted for: what it was not off, it ran. The switches themselves count as either.
        let lived_ns = at_ns - account.since_ns;
        let ran_ns = lived_ns - sum(account.off);
        let difference_ns = ran_ns.abs_diff(account.cpu_ns);
        assert!(difference_ns < lived_ns / 8 + 2_000_000, "{account:?} ran for {ran_ns}");
        account
    };
    assert!(measures.waits && measures.run_queue && measures.throttling);
    let is_mostly = |name: &str, tid: u32, part: fn(&Offs) -> u64| {
        let off = of(tid).off;
        assert!(part(&off) * 2 > sum(off) && part(&off) >= LONG_NS / 2, "{name}: {off:?}");
    };
    is_mostly("socket", socket, |off| off.socket_ns);
    is_mostly("client", client, |off| off.client_ns);
    is_mostly("lock", lock, |off| off.lock_ns);
    is_mostly("poll", poll, |off| off.poll_ns);
    is_mostly("throttled", throttled, |off| off.throttled_ns);
    let ran = of(busy);
    assert!(ran.cpu_ns + ran.off.run_queue_ns >= LONG_NS * 9 / 10, "{ran:?}");
    if let Some(disk) = disk {
        let off = of(disk).off;
        assert!(off.disk_ns > off.lock_ns + off.other_ns, "{off:?}");
    }
}
