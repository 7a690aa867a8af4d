//! The layout that the probes and the agent share: records of the ring buffer, values of the maps, and the offsets
//! that the agent resolves before it loads the probes.
//!
//! Everything here is `repr(C)`, of fixed-width integers with explicit padding, and its size is asserted below, so
//! that the BPF target and the host agree or the build fails. A record starts with a [`Head`]; its kind is decoded
//! with [`Kind::try_from`], never transmuted. Times are nanoseconds of `CLOCK_BOOTTIME`.
#![no_std]

/// Bytes of a thread's name in the kernel, NUL included (`TASK_COMM_LEN`, include/linux/sched.h).
pub const COMM_LEN: usize = 16;
/// First bytes of a request that are copied, for its request line and the prober's User-Agent.
pub const REQUEST_CAPTURE: usize = 512;
/// First bytes of an answer or of an outbound protocol that are copied, for the status or the protocol's greeting.
pub const OPENING_CAPTURE: usize = 32;
/// Bytes of a poller's array that are copied: 85 `struct epoll_event`s on x86-64, 64 on arm64, 128 `struct pollfd`s.
pub const READY_CAPTURE: usize = 1024;
/// Syscall numbers that the dispatch table covers; both x86-64 and arm64 stay below.
pub const SYSCALLS: usize = 512;
/// CPU time of a thread is reported at most once in this span.
pub const CPU_SPAN_NS: u64 = 100_000_000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal => $record:ty),+ $(,)?) => {
        /// What a record says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Kind { $($(#[$doc])* $name = $value),+ }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),+];

            /// Bytes of a record of this kind.
            pub const fn size(self) -> usize {
                match self { $(Kind::$name => size_of::<$record>()),+ }
            }
        }

        impl TryFrom<u32> for Kind {
            type Error = u32;

            fn try_from(value: u32) -> Result<Self, u32> {
                match value { $($value => Ok(Kind::$name),)+ other => Err(other) }
            }
        }

        $(const _: () = assert!(size_of::<$record>() % 8 == 0 && size_of::<$record>() >= size_of::<Head>());)+
    };
}

kinds! {
    /// A thread took a name that only a JVM gives: the process is followed from here.
    JvmSeen = 1 => JvmSeen,
    /// A thread of a followed process took a name.
    ThreadNamed = 2 => ThreadNamed,
    /// CPU that a thread of a followed process used.
    ThreadCpu = 3 => ThreadCpu,
    /// The last thread of a process that was seen to be a JVM has exited.
    ProcessExited = 4 => ProcessExited,
    /// A process that was seen to be a JVM runs another program now.
    ProcessReplaced = 5 => Head,
    /// A TCP socket went to state LISTEN.
    Listening = 6 => TcpState,
    /// An outbound TCP socket sent its SYN.
    Connecting = 7 => TcpState,
    /// An outbound TCP socket is established.
    Established = 8 => TcpState,
    /// An outbound TCP socket is closed.
    Disconnected = 9 => TcpState,
    /// connect() returned; the fd of the preceding `Connecting` of the same thread.
    Connected = 10 => Connected,
    /// accept() or accept4() returned a connection.
    Accepted = 11 => Accepted,
    /// A poller returned with one fd, an accepted connection that has data.
    Ready = 12 => Head,
    /// Bytes were read from a followed socket, with the first of them.
    Received = 13 => Received,
    /// Bytes were written to a followed socket, with the first of them.
    Sent = 14 => Sent,
    /// The fd of a followed socket is closed.
    Closed = 15 => Head,
    /// An epoll instance returned with several fds: `struct epoll_event`s.
    EpollReady = 16 => ReadyMany,
    /// poll() returned of several fds: `struct pollfd`s.
    PollReady = 17 => ReadyMany,
}

/// Start of every record.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Head {
    /// A [`Kind`].
    pub kind: u32,
    /// Process id in the initial PID namespace.
    pub tgid: u32,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// The socket's fd; -1 in records that have none.
    pub fd: i32,
    /// Instant.
    pub at_ns: u64,
}

/// See [`Kind::JvmSeen`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct JvmSeen {
    /// Start.
    pub head: Head,
    /// Instant of the process's exec; 0 when it was not seen.
    pub exec_ns: u64,
    /// CPU time of the first thread at that instant, not the JVM's.
    pub exec_cpu_ns: u64,
    /// The name.
    pub comm: [u8; COMM_LEN],
}

/// See [`Kind::ThreadNamed`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ThreadNamed {
    /// Start.
    pub head: Head,
    /// The name.
    pub comm: [u8; COMM_LEN],
}

/// See [`Kind::ThreadCpu`]; the span ends at the head's instant.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ThreadCpu {
    /// Start.
    pub head: Head,
    /// Begin of the span.
    pub start_ns: u64,
    /// Time on a CPU in the span.
    pub cpu_ns: u64,
    /// Time runnable, waiting for a CPU, in the span; 0 as well when the kernel does not account it.
    pub run_queue_ns: u64,
}

/// See [`Kind::ProcessExited`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ProcessExited {
    /// Start.
    pub head: Head,
    /// Status as wait(2) encodes it.
    pub status: u32,
    /// Zero.
    pub pad: u32,
}

/// See [`Kind::Listening`] and the three kinds after it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TcpState {
    /// Start; tid is the thread that made the socket connect or listen.
    pub head: Head,
    /// Tells sockets apart; means nothing else.
    pub socket: u64,
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
    /// Host byte order.
    pub local_port: u16,
    /// Host byte order.
    pub peer_port: u16,
    /// Zero.
    pub pad: u16,
    /// An IPv4 address stands in the first four bytes.
    pub local_addr: [u8; 16],
    /// An IPv4 address stands in the first four bytes.
    pub peer_addr: [u8; 16],
}

/// A socket address as the process passed it: `sockaddr_in` or `sockaddr_in6`, zero when there was none.
pub type SockAddr = [u8; 28];

/// See [`Kind::Connected`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Connected {
    /// Start.
    pub head: Head,
    /// 0, or a negative errno.
    pub result: i32,
    /// The peer.
    pub peer: SockAddr,
}

/// See [`Kind::Accepted`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Accepted {
    /// Start.
    pub head: Head,
    /// The listening socket.
    pub listen_fd: i32,
    /// The peer.
    pub peer: SockAddr,
}

/// See [`Kind::Received`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Received {
    /// Start.
    pub head: Head,
    /// Bytes read; 0 at the end of the stream.
    pub bytes: u32,
    /// How many of `data` are valid.
    pub captured: u32,
    /// The first bytes since the socket was last written to.
    pub data: [u8; REQUEST_CAPTURE],
}

/// See [`Kind::Sent`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sent {
    /// Start.
    pub head: Head,
    /// Bytes written.
    pub bytes: u32,
    /// How many of `data` are valid.
    pub captured: u32,
    /// The first bytes since the socket was last read from.
    pub data: [u8; OPENING_CAPTURE],
}

/// See [`Kind::EpollReady`] and [`Kind::PollReady`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ReadyMany {
    /// Start; the fd is -1.
    pub head: Head,
    /// Entries of the array; those that did not fit are counted as dropped.
    pub entries: u32,
    /// How many bytes of `data` are valid.
    pub captured: u32,
    /// The array as the process sees it.
    pub data: [u8; READY_CAPTURE],
}

const _: () = assert!(size_of::<Head>() == 24);
const _: () = assert!(size_of::<JvmSeen>() == 56);
const _: () = assert!(size_of::<ThreadNamed>() == 40);
const _: () = assert!(size_of::<ThreadCpu>() == 48);
const _: () = assert!(size_of::<ProcessExited>() == 32);
const _: () = assert!(size_of::<TcpState>() == 72);
const _: () = assert!(size_of::<Connected>() == 56);
const _: () = assert!(size_of::<Accepted>() == 56);
const _: () = assert!(size_of::<Received>() == 544);
const _: () = assert!(size_of::<Sent>() == 64);
const _: () = assert!(size_of::<ReadyMany>() == 1056);

/// Bits of [`Process::flags`].
pub mod process {
    /// A thread had a JVM's name, or the agent found `libjvm.so` mapped.
    pub const SEEN: u32 = 1;
    /// Events of this process are wanted.
    pub const FOLLOWED: u32 = 2;
}

/// Value of the map `PROCESSES`, by tgid.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Process {
    /// Instant of exec; 0 when it was not seen.
    pub exec_ns: u64,
    /// CPU time of the first thread at that instant.
    pub exec_cpu_ns: u64,
    /// Records that were made of this process, dropped ones included.
    pub produced: u64,
    /// Records that found no room in the ring buffer, and map entries that found no room in their map.
    pub dropped: u64,
    /// See [`process`].
    pub flags: u32,
    /// Zero.
    pub pad: u32,
}

/// Value of the map `THREADS`, by tid: what was already reported of a thread.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Thread {
    /// Begin of the span that is not reported yet.
    pub start_ns: u64,
    /// When the thread last left a CPU.
    pub off_ns: u64,
    /// `se.sum_exec_runtime` at the begin of the span.
    pub cpu_base_ns: u64,
    /// `se.sum_exec_runtime` when the thread last left a CPU.
    pub cpu_ns: u64,
    /// `sched_info.run_delay` at the begin of the span.
    pub run_queue_base_ns: u64,
    /// `sched_info.run_delay` when the thread last left a CPU.
    pub run_queue_ns: u64,
    /// Process id.
    pub tgid: u32,
    /// 1 once the thread has begun to exit.
    pub exiting: u32,
}

/// Key of the map `SOCKETS`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct SocketKey {
    /// Process id.
    pub tgid: u32,
    /// Its fd.
    pub fd: i32,
}

/// Values of [`Socket::role`].
pub mod role {
    /// accept() returned it.
    pub const ACCEPTED: u32 = 1;
    /// connect() was called on it; silent once its first answer was read.
    pub const OUTBOUND: u32 = 2;
}

/// Value of the map `SOCKETS`: TCP connections of followed processes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Socket {
    /// See [`role`].
    pub role: u32,
    /// Bytes captured since the socket was last written to.
    pub captured: u32,
    /// 1 while the last operation was a write.
    pub written: u32,
    /// Zero.
    pub pad: u32,
}

/// Value of the map `CONNECTS`, by the socket's address: who connects.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Connect {
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal),+ $(,)?) => {
        /// What the map `COUNTERS` counts, over all processes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Counter { $($(#[$doc])* $name),+ }

        impl Counter {
            /// Every counter with its label.
            pub const ALL: &'static [(Counter, &'static str)] = &[$((Counter::$name, $label)),+];
        }
    };
}

counters! {
    /// Records made, dropped ones included.
    Produced = "produced",
    /// Records that found no room in the ring buffer.
    RingFull = "ring_full",
    /// Processes that found no room in `PROCESSES`.
    ProcessesFull = "processes_full",
    /// Threads that found no room in `THREADS`.
    ThreadsFull = "threads_full",
    /// Connections that found no room in `SOCKETS`.
    SocketsFull = "sockets_full",
    /// Connects that found no room in `CONNECTS`.
    ConnectsFull = "connects_full",
    /// Returns of a poller with more fds than a record holds.
    ReadyCut = "ready_cut",
}

/// What a syscall is to the probes: the values of the dispatch table `SYSCALL_OPS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Not looked at.
    None = 0,
    /// accept, accept4.
    Accept = 1,
    /// read, recvfrom: the second argument is the buffer.
    Read = 2,
    /// readv: the second argument is an iovec.
    ReadVec = 3,
    /// recvmsg: the second argument is a msghdr.
    ReadMsg = 4,
    /// write, sendto.
    Write = 5,
    /// writev.
    WriteVec = 6,
    /// sendmsg.
    WriteMsg = 7,
    /// connect.
    Connect = 8,
    /// poll, ppoll.
    Poll = 9,
    /// `epoll_wait`, `epoll_pwait`, `epoll_pwait2`.
    EpollWait = 10,
    /// dup2, dup3: the JDK's pre-close puts a marker on the connection's fd.
    Dup = 11,
    /// close, at its entry: after it another thread may have the fd.
    Close = 12,
}

/// Byte offsets in the running kernel's structures, from its BTF; the global `OFFSETS`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Offsets {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.se.sum_exec_runtime`.
    pub task_cpu: u32,
    /// `task_struct.sched_info.run_delay`; 0 when the kernel does not account it.
    pub task_run_delay: u32,
    /// `task_struct.exit_code`.
    pub task_exit_code: u32,
    /// `task_struct.signal`.
    pub task_signal: u32,
    /// `signal_struct.live`.
    pub signal_live: u32,
    /// `sock.__sk_common.skc_family`.
    pub sock_family: u32,
    /// `sock.__sk_common.skc_num`, the local port.
    pub sock_local_port: u32,
    /// `sock.__sk_common.skc_dport`.
    pub sock_peer_port: u32,
    /// `sock.__sk_common.skc_rcv_saddr`.
    pub sock_local_v4: u32,
    /// `sock.__sk_common.skc_daddr`.
    pub sock_peer_v4: u32,
    /// `sock.__sk_common.skc_v6_rcv_saddr`.
    pub sock_local_v6: u32,
    /// `sock.__sk_common.skc_v6_daddr`.
    pub sock_peer_v6: u32,
    /// `sock.sk_protocol`.
    pub sock_protocol: u32,
    /// `pt_regs`: the syscall's number.
    pub regs_nr: u32,
    /// `pt_regs`: the syscall's first three arguments, still there at its exit.
    pub regs_arg: [u32; 3],
    /// Bytes of `struct epoll_event`: packed on x86-64 only.
    pub epoll_event_size: u32,
    /// Offset of `data` in `struct epoll_event`.
    pub epoll_event_data: u32,
}

const _: () = assert!(size_of::<Process>() == 40);
const _: () = assert!(size_of::<Thread>() == 56);
const _: () = assert!(size_of::<SocketKey>() == 8);
const _: () = assert!(size_of::<Socket>() == 16);
const _: () = assert!(size_of::<Connect>() == 8);
const _: () = assert!(size_of::<Offsets>() == 84);
