//! The layout that the probes and the agent share: records of the ring buffer, values of the maps, and the offsets
//! that the agent resolves before it loads the probes.
//!
//! Everything here is `repr(C)`, of fixed-width integers with explicit padding, and its size is asserted below, so
//! that the BPF target and the host agree or the build fails. A record starts with a [`Head`]; its kind is decoded
//! with [`Kind::try_from`], never transmuted. Times are nanoseconds of `CLOCK_BOOTTIME`.
#![no_std]

/// Bytes of a thread's name in the kernel, NUL included (`TASK_COMM_LEN`, include/linux/sched.h).
pub const COMM_LEN: usize = 16;
/// First bytes of a request that are copied at most, for its request line and the prober's User-Agent, and for the
/// heads of those that were sent behind it.
pub const REQUEST_CAPTURE: usize = 4096;
/// The same, when they are few: what nearly all reads need.
pub const SHORT_CAPTURE: usize = 512;
/// First bytes of an answer's continuation or of an outbound protocol that are copied.
pub const OPENING_CAPTURE: usize = 32;
/// First bytes of a write of HTTP/2 frames that are copied, of its parts one after the other: see [`part_capture`].
pub const PARTS_CAPTURE: usize = 2048;
/// Parts of a write (`struct iovec`s) that are looked at: servers gather the frames of many answers.
pub const PARTS: usize = 128;
/// Captures of [`part_capture`]: of a small write, of one with few parts, and of any other.
pub const PART_CAPTURES: [usize; 3] = [512, 256, 32];
/// So many parts are few.
pub const FEW_PARTS: usize = PARTS_CAPTURE / PART_CAPTURES[1];

/// First bytes of each part that are copied, by how many parts and bytes there are in all. Copying ends where the next
/// part would not have room for so many.
pub const fn part_capture(parts: usize, bytes: usize) -> usize {
    if bytes <= PARTS_CAPTURE - PART_CAPTURES[0] {
        PART_CAPTURES[0]
    } else if parts <= FEW_PARTS {
        PART_CAPTURES[1]
    } else {
        PART_CAPTURES[2]
    }
}
/// Bytes of a poller's array that are copied: 85 `struct epoll_event`s on x86-64, 64 on arm64, 128 `struct pollfd`s.
pub const READY_CAPTURE: usize = 1024;
/// The same, when there are more: 1,024 `struct epoll_event`s on x86-64, as many as the JDK asks for at once
/// (sun.nio.ch.EPollSelectorImpl).
pub const READY_LONG_CAPTURE: usize = 12 << 10;
/// Syscall numbers that the dispatch table covers; both x86-64 and arm64 stay below.
pub const SYSCALLS: usize = 512;
/// A thread that leaves a CPU tells its account when it has not for so long.
pub const ACCOUNT_SPAN_NS: u64 = 5_000_000;
/// A thread that was off its CPU for so long tells its account when it next leaves one.
pub const ACCOUNT_OFF_NS: u64 = 1_000_000;

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
    /// What a thread of a followed process has spent its time on; it leaves its CPU.
    ThreadAccount = 3 => ThreadAccount,
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
    /// Bytes were read from an accepted connection, with the first of them.
    Received = 13 => Received,
    /// Bytes were written to an accepted connection, with the first of them.
    Sent = 14 => Sent,
    /// The fd of a followed socket is closed.
    Closed = 15 => Head,
    /// An epoll instance returned with several fds: `struct epoll_event`s.
    EpollReady = 16 => ReadyMany,
    /// poll() returned of several fds: `struct pollfd`s.
    PollReady = 17 => ReadyMany,
    /// A client's handshake with a port of a followed process is done; the socket waits to be accepted.
    Handshake = 18 => TcpState,
    /// [`Kind::Received`] with more of them.
    ReceivedLong = 19 => ReceivedLong,
    /// [`Kind::Sent`] of an answer's head, with more of them.
    SentHead = 20 => SentHead,
    /// [`Kind::Sent`] of HTTP/2 frames, with the first bytes of each part.
    SentParts = 21 => SentParts,
    /// The first bytes since the peer's last were written to an outbound connection.
    Asked = 22 => Sent,
    /// The first bytes since this side's last were read from an outbound connection.
    Answered = 23 => Sent,
    /// The process set up an io_uring: what it does through it is not seen.
    IoUring = 24 => Head,
    /// [`Kind::EpollReady`] of more fds.
    EpollReadyLong = 25 => ReadyLong,
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

/// Why a thread is off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// It is not: it could run, and waits for a CPU.
    Runnable = 0,
    /// The peer of an outbound socket.
    Socket = 1,
    /// The client of an accepted connection.
    Client = 2,
    /// Events of many fds, or a connection to accept.
    Poll = 3,
    /// I/O, as the kernel counts it (`task_struct.in_iowait`).
    Disk = 4,
    /// A futex, a sleep, a lock on the memory map.
    Lock = 5,
    /// Anything else.
    Other = 6,
    /// It has exited: its last account.
    Exited = 7,
}

/// Causes that a thread waits for.
pub const CAUSES: usize = 6;

/// What a thread has spent its time on since it was first accounted. All but the CPU time add up to the time since
/// then, less the time that it ran.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Account {
    /// Begin.
    pub since_ns: u64,
    /// Time on a CPU (`se.sum_exec_runtime`) until the thread last left one.
    pub cpu_ns: u64,
    /// Time runnable, waiting for a CPU.
    pub run_queue_ns: u64,
    /// Time runnable, while the cgroup had used up its CPU bandwidth.
    pub throttled_ns: u64,
    /// Time off a CPU by [`Cause`], without [`Cause::Runnable`].
    pub waits_ns: [u64; CAUSES],
    /// Begin of the last time off a CPU that is over; 0 when there was none.
    pub off_ns: u64,
    /// Its end.
    pub on_ns: u64,
    /// The part of it that the thread was runnable.
    pub off_run_queue_ns: u64,
    /// The part of it that the thread was runnable and throttled.
    pub off_throttled_ns: u64,
    /// Its [`Cause`].
    pub off_cause: u32,
    /// The [`Cause`] for which the thread leaves its CPU now, in a record that says so; meaningless in others.
    pub leaving: u32,
}

/// See [`Kind::ThreadAccount`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ThreadAccount {
    /// Start.
    pub head: Head,
    /// Up to the head's instant.
    pub account: Account,
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

/// See [`Kind::Listening`], the three kinds after it, and [`Kind::Handshake`].
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
    /// errno that ended the connection, 0 when an end closed it.
    pub error: u16,
    /// An IPv4 address stands in the first four bytes.
    pub local_addr: [u8; 16],
    /// An IPv4 address stands in the first four bytes.
    pub peer_addr: [u8; 16],
}

/// A socket address as the process passed it: `sockaddr_in`, `sockaddr_in6` or the begin of a `sockaddr_un`, zero when
/// there was none.
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

macro_rules! payload {
    ($($(#[$doc:meta])* $name:ident[$capture:expr] { $($(#[$field_doc:meta])* $field:ident: $ty:ty)? })+) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// Start.
            pub head: Head,
            /// Bytes read or written; 0 at the end of the stream.
            pub bytes: u32,
            /// How many of `data` are valid.
            pub captured: u32,
            $($(#[$field_doc])* pub $field: $ty,)?
            /// Of the thread, on its CPU.
            pub account: Account,
            /// The first bytes.
            pub data: [u8; $capture],
        })+
    };
}
payload! {
    /// See [`Kind::Received`].
    Received[SHORT_CAPTURE] {
        /// When the first bytes since the last read came; 0 when that is not known.
        arrived_ns: u64
    }
    /// See [`Kind::ReceivedLong`].
    ReceivedLong[REQUEST_CAPTURE] {
        /// As in [`Received`].
        arrived_ns: u64
    }
    /// See [`Kind::Sent`], [`Kind::Asked`] and [`Kind::Answered`].
    Sent[OPENING_CAPTURE] {}
    /// See [`Kind::SentHead`].
    SentHead[SHORT_CAPTURE] {}
}

/// See [`Kind::SentParts`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SentParts {
    /// Start.
    pub head: Head,
    /// Bytes written.
    pub bytes: u32,
    /// Parts; more than [`PARTS`] when some have no place in `lengths`.
    pub parts: u32,
    /// Of the thread, on its CPU.
    pub account: Account,
    /// How many of `data` are valid, when there are several parts.
    pub copied: u32,
    /// Zero.
    pub pad: u32,
    /// Bytes of each part, of as many as there are.
    pub lengths: [u32; PARTS],
    /// The first bytes of each part, at most [`part_capture`] of each, one after the other; of a single part as many as
    /// there is room for.
    pub data: [u8; PARTS_CAPTURE],
}

macro_rules! ready {
    ($($(#[$doc:meta])* $name:ident[$capture:expr])+) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// Start; the fd is -1.
            pub head: Head,
            /// Entries of the array; those that did not fit are counted as dropped.
            pub entries: u32,
            /// How many bytes of `data` are valid.
            pub captured: u32,
            /// The array as the process sees it.
            pub data: [u8; $capture],
        })+
    };
}
ready! {
    /// See [`Kind::EpollReady`] and [`Kind::PollReady`].
    ReadyMany[READY_CAPTURE]
    /// See [`Kind::EpollReadyLong`].
    ReadyLong[READY_LONG_CAPTURE]
}

const _: () = assert!(size_of::<Head>() == 24);
const _: () = assert!(size_of::<JvmSeen>() == 56);
const _: () = assert!(size_of::<ThreadNamed>() == 40);
const _: () = assert!(size_of::<Account>() == 120);
const _: () = assert!(size_of::<ThreadAccount>() == 144);
const _: () = assert!(size_of::<ProcessExited>() == 32);
const _: () = assert!(size_of::<TcpState>() == 72);
const _: () = assert!(size_of::<Connected>() == 56);
const _: () = assert!(size_of::<Accepted>() == 56);
const _: () = assert!(size_of::<Received>() == 672);
const _: () = assert!(size_of::<ReceivedLong>() == 4256);
const _: () = assert!(size_of::<Sent>() == 184);
const _: () = assert!(size_of::<SentHead>() == 664);
const _: () = assert!(size_of::<SentParts>() == 2720);
const _: () = assert!(size_of::<ReadyMany>() == 1056);
const _: () = assert!(size_of::<ReadyLong>() == 12_320);

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

/// Value of the map `THREADS`, by tid.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Thread {
    /// Up to when the thread last left a CPU, and the time off before it last ran.
    pub account: Account,
    /// `se.sum_exec_runtime` at the begin of the account.
    pub cpu_base_ns: u64,
    /// `sched_info.run_delay`, as far as it is in the account.
    pub run_delay_ns: u64,
    /// When the thread left its CPU, until that time off is in the account; else 0.
    pub left_ns: u64,
    /// When the thread last got a CPU.
    pub arrived_ns: u64,
    /// When the account was last told.
    pub told_ns: u64,
    /// How long the thread's cgroups had been throttled when it left its CPU.
    pub throttled_base_ns: u64,
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
    /// connect() was called on it.
    pub const OUTBOUND: u32 = 2;
}

/// Values of [`Socket::speech`]: how much of what is said on an accepted connection is copied.
pub mod speech {
    /// Nothing was said yet.
    pub const NONE: u32 = 0;
    /// The first bytes since it was last written to.
    pub const PLAIN: u32 = 1;
    /// TLS: the client's hello, then the first bytes of each read, for the records' headers.
    pub const RECORDS: u32 = 2;
    /// HTTP/2, or what an upgrade led to: the first bytes of each read and of each part of a write.
    pub const FRAMES: u32 = 3;
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
    /// See [`speech`].
    pub speech: u32,
    /// Address of an accepted connection's `struct sock`; 0 when it is not known.
    pub sock: u64,
}

/// Key of the map `LISTENERS`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ListenerKey {
    /// Address of the network namespace's `struct net`.
    pub net: u64,
    /// Port.
    pub port: u32,
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
    /// Ports that found no room in `LISTENERS`.
    ListenersFull = "listeners_full",
    /// Connections that found no room in `ARRIVALS`: their data is ready when a poller says so.
    ArrivalsFull = "arrivals_full",
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
    /// futex and sleeps, and what takes the lock of the memory map: only as a place to wait in.
    Lock = 13,
    /// sendfile: the first argument is the socket.
    SendFile = 14,
    /// io_uring_setup.
    IoUring = 15,
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
    /// `task_struct.__state`, `state` before Linux 5.14.
    pub task_state: u32,
    /// The byte of `task_struct.in_iowait`.
    pub task_iowait: u32,
    /// Its bit there.
    pub task_iowait_mask: u32,
    /// `task_struct.sched_task_group`; 0 when the kernel does not limit CPU bandwidth.
    pub task_group: u32,
    /// `task_group.parent`.
    pub group_parent: u32,
    /// `task_group.cfs_bandwidth.throttled_time`.
    pub group_throttled: u32,
    /// 1 when the kernel has the helper `bpf_task_pt_regs` (Linux 5.15).
    pub has_task_regs: u32,
    /// `task_struct.files`.
    pub task_files: u32,
    /// `files_struct.fdt`.
    pub files_fdt: u32,
    /// `fdtable.fd`.
    pub fdt_fd: u32,
    /// `file.private_data`: of a socket's file its `struct socket`.
    pub file_private: u32,
    /// `socket.sk`.
    pub socket_sk: u32,
    /// `task_struct.exit_code`.
    pub task_exit_code: u32,
    /// `task_struct.signal`.
    pub task_signal: u32,
    /// `signal_struct.live`.
    pub signal_live: u32,
    /// `sock.__sk_common.skc_family`.
    pub sock_family: u32,
    /// `sock.__sk_common.skc_net.net`.
    pub sock_net: u32,
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
    /// `sock.sk_err`.
    pub sock_error: u32,
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
const _: () = assert!(size_of::<Thread>() == 176);
const _: () = assert!(size_of::<SocketKey>() == 8);
const _: () = assert!(size_of::<Socket>() == 24);
const _: () = assert!(size_of::<ListenerKey>() == 16);
const _: () = assert!(size_of::<Connect>() == 8);
const _: () = assert!(size_of::<Offsets>() == 140);
