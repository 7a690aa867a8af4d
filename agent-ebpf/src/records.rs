//! Records of the ring buffer.

use crate::{Account, NAME_CAPTURE, Work};

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
    /// What the JVM did so far.
    Worked = 26 => Worked,
    /// The same, after something with a name.
    WorkedOn = 27 => WorkedOn,
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

/// See [`Kind::Worked`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Worked {
    /// Start; the thread did something, or is about to make another record.
    pub head: Head,
    /// When the JVM last did something of this.
    pub as_of_ns: u64,
    /// By then, and until now.
    pub work: Work,
}

/// See [`Kind::WorkedOn`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct WorkedOn {
    /// Start; the thread did something, at this instant.
    pub head: Head,
    /// The [`crate::Probe`] that was hit.
    pub probe: u32,
    /// A [`compiler`], of a compilation.
    pub compiler: u32,
    /// How many of `name` are valid.
    pub captured: u32,
    /// Bytes of the whole name.
    pub len: u32,
    /// By then.
    pub work: Work,
    /// Of the class, of the method's class, or of the thread.
    pub name: [u8; NAME_CAPTURE],
}

/// Values of [`WorkedOn::compiler`].
pub mod compiler {
    /// No compilation.
    pub const NONE: u32 = 0;
    /// C1.
    pub const C1: u32 = 1;
    /// C2, or whatever is not C1.
    pub const C2: u32 = 2;
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
const _: () = assert!(size_of::<Worked>() == 160);
const _: () = assert!(size_of::<WorkedOn>() == 264);
