//! What the core is told: decoded events of one JVM process, free of payload.
//!
//! The same types are the lines of a recorded file, so a recording replays exactly what was seen.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    counted::{Compiler, Counted, Probed},
    sample::{Fact, Memory, Sample},
    wire::{Answer, Opening},
};

/// The first line of a recording, and what a timeline starts from.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each a field of the recording")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// Identity of the timeline.
    pub id: String,
    /// Name of the node.
    pub node: String,
    /// Instant of exec, nanoseconds of `CLOCK_BOOTTIME`.
    pub exec_ns: u64,
    /// Wall time minus boot time, nanoseconds.
    pub wall_offset_ns: i64,
    /// The exec itself was seen.
    pub armed_before_exec: bool,
    /// The process was running before the agent was; `exec_ns` is then when it was forked.
    pub late: bool,
    /// When the hot probes were on, nanoseconds of `CLOCK_BOOTTIME`.
    pub hot_ns: Option<u64>,
    /// The kernel accounts the time that threads wait for a CPU.
    pub run_queue: bool,
    /// The kernel limits the CPU bandwidth of cgroups, and accounts for how long it kept them off.
    pub throttling: bool,
    /// The kernel tells in which syscall a thread waits.
    pub waits: bool,
    /// The process has a network namespace of its own, not the node's.
    pub own_network: bool,
    /// The process.
    pub jvm: StartJvm,
    /// Its container, if it has one.
    pub pod: Option<StartPod>,
}

/// The process behind a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartJvm {
    /// Process id on the node.
    pub pid: u32,
    /// Process id in its innermost PID namespace, when that is another.
    pub container_pid: Option<u32>,
    /// Path of the executable.
    pub executable: String,
    /// Main class or jar.
    pub main: Option<String>,
    /// Path of `libjvm.so`.
    pub libjvm: String,
}

/// The container behind a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartPod {
    /// Container id.
    pub container_id: String,
    /// Pod UID.
    pub uid: Option<String>,
    /// Quality-of-service class.
    pub qos_class: Option<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Instant, nanoseconds of `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The thread took a name.
    ThreadNamed {
        /// As the kernel keeps it, at most 15 bytes.
        name: String,
    },
    /// The thread was found under a name that it took at some time before.
    ThreadFound {
        /// As the kernel keeps it, at most 15 bytes.
        name: String,
    },
    /// What the thread has spent its time on.
    ThreadAccount {
        /// Up to the event's instant.
        account: Account,
        /// Why it leaves its CPU at that instant; absent when it goes on running.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leaving: Option<Cause>,
    },
    /// A TCP port is open.
    Listening {
        /// Where.
        address: SocketAddr,
    },
    /// An outbound connection sent its SYN.
    Connecting {
        /// Tells sockets apart.
        socket: u64,
        /// To whom.
        peer: SocketAddr,
    },
    /// An outbound connection is established.
    Established {
        /// Tells sockets apart.
        socket: u64,
        /// This end.
        local: SocketAddr,
    },
    /// An outbound connection is closed.
    Disconnected {
        /// Tells sockets apart.
        socket: u64,
        /// errno, unless an end closed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<i32>,
    },
    /// `connect()` returned.
    Connected {
        /// The fd of the thread's latest connecting socket.
        fd: i32,
        /// errno, unless it succeeded or goes on in the background.
        errno: Option<i32>,
    },
    /// A client's handshake with a port of the process is done.
    Handshake {
        /// This end.
        local: SocketAddr,
        /// The client.
        peer: SocketAddr,
    },
    /// A connection was accepted.
    Accepted {
        /// Its fd.
        fd: i32,
        /// The other end, when the process asked for it.
        peer: Option<SocketAddr>,
        /// It is one of a Unix socket, and nothing on it is seen.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unix: bool,
    },
    /// A connection that was accepted before the process was followed.
    Adopted {
        /// Its fd.
        fd: i32,
    },
    /// This side begins a turn of an outbound conversation.
    Asked {
        /// The socket's fd.
        fd: i32,
        /// Protocol, when its bytes tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<Service>,
        /// They belong to the protocol's own handshake.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        setup: bool,
    },
    /// The peer begins its turn of an outbound conversation.
    Answered {
        /// The socket's fd.
        fd: i32,
        /// Protocol, when its bytes tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<Service>,
    },
    /// A poller returned: the accepted connection has data.
    Ready {
        /// Its fd.
        fd: i32,
    },
    /// Bytes were read from an accepted connection.
    Received {
        /// Its fd.
        fd: i32,
        /// How many; 0 at the end of the stream.
        bytes: u32,
        /// When the first of them came, where the kernel tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arrived_ns: Option<u64>,
        /// What they open.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        openings: Vec<Opening>,
        /// Some of them belong to a request that an earlier read opened.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continues: bool,
        /// The last of them open something that only later ones, or an answer, will tell.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        undecided: bool,
    },
    /// The client of an accepted connection offers HTTP/2 inside TLS; nobody sees whether it is spoken.
    MayMultiplex {
        /// The connection's fd.
        fd: i32,
    },
    /// Bytes were written to an accepted connection.
    Sent {
        /// Its fd.
        fd: i32,
        /// How many.
        bytes: u32,
        /// What they are of the answers.
        answers: Vec<Answer>,
    },
    /// The socket is closed.
    Closed {
        /// Its fd.
        fd: i32,
    },
    /// What the JVM's own counters say.
    Sampled {
        /// Since its start.
        sample: Box<Sample>,
        /// What probes have counted at the same instant: nothing was done while both were read. Absent when something
        /// was, and without probes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<Box<Counted>>,
    },
    /// What the JVM does is counted as it happens from now on.
    Probed {
        /// How.
        probed: Probed,
    },
    /// What the JVM did by now.
    Counted {
        /// Since it is probed.
        counted: Box<Counted>,
    },
    /// A class was loaded; told of the first some only.
    ClassLoaded {
        /// See [`crate::package`].
        package: String,
    },
    /// A method was compiled; told of the first some only.
    Compiled {
        /// By which compiler.
        compiler: Compiler,
        /// That of its class, see [`crate::package`].
        package: String,
    },
    /// A Java thread starts to run.
    ThreadStarted {
        /// Its own name, whole.
        name: String,
    },
    /// What the JVM shows of itself.
    Facts {
        /// All that is known at this moment.
        facts: Vec<Fact>,
    },
    /// How much memory it takes.
    Memory {
        /// At this moment.
        memory: Memory,
    },
    /// The process set up an io_uring; what it does through it is not seen.
    IoUring,
    /// The process has ended.
    Exited {
        /// Status as wait(2) encodes it; absent when another program took its place.
        status: Option<u32>,
    },
    /// Something was missed.
    Missed {
        /// How long; 0 when it has no extent.
        length_ns: u64,
        /// What and why.
        reason: String,
    },
}

/// Why a thread is off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It is not: it could run, and waits for a CPU.
    Runnable,
    /// The peer of an outbound socket.
    Socket,
    /// The client of an accepted connection.
    Client,
    /// Events of many fds, or a connection to accept.
    Poll,
    /// I/O of a file or a page.
    Disk,
    /// A futex, a sleep, the memory map's lock.
    Lock,
    /// Anything else.
    Other,
    /// It has exited.
    Exited,
}

/// What a thread has spent its time on since it was first accounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Begin.
    pub since_ns: u64,
    /// Time on a CPU, until the thread last left one.
    pub cpu_ns: u64,
    /// What kept it off.
    pub off: Offs,
    /// Its last time off a CPU that is over, which `off` contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastOff>,
}

/// Time off a CPU, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offs {
    /// See [`Cause::Runnable`], less what follows.
    #[serde(skip_serializing_if = "is_zero")]
    pub run_queue_ns: u64,
    /// Runnable, while the cgroup had used up its CPU bandwidth.
    #[serde(skip_serializing_if = "is_zero")]
    pub throttled_ns: u64,
    /// See [`Cause::Socket`].
    #[serde(skip_serializing_if = "is_zero")]
    pub socket_ns: u64,
    /// See [`Cause::Client`].
    #[serde(skip_serializing_if = "is_zero")]
    pub client_ns: u64,
    /// See [`Cause::Poll`].
    #[serde(skip_serializing_if = "is_zero")]
    pub poll_ns: u64,
    /// See [`Cause::Disk`].
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_ns: u64,
    /// See [`Cause::Lock`].
    #[serde(skip_serializing_if = "is_zero")]
    pub lock_ns: u64,
    /// See [`Cause::Other`].
    #[serde(skip_serializing_if = "is_zero")]
    pub other_ns: u64,
}

/// One time off a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastOff {
    /// Begin.
    pub off_ns: u64,
    /// End.
    pub on_ns: u64,
    /// The part of it that the thread was runnable.
    pub run_queue_ns: u64,
    /// The part of it that it was runnable and throttled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_ns: u64,
    /// Why.
    pub cause: Cause,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Protocol of an outbound connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// PostgreSQL.
    Postgresql,
    /// `MySQL` or `MariaDB`.
    Mysql,
    /// Redis.
    Redis,
    /// Kafka.
    Kafka,
    /// DNS over TCP.
    Dns,
    /// HTTP/1 or the preface of HTTP/2.
    Http,
    /// TLS, whatever is inside.
    Tls,
    /// Not recognised.
    Unknown,
}

impl Service {
    /// The word for it in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::Postgresql => "postgresql",
            Service::Mysql => "mysql",
            Service::Redis => "redis",
            Service::Kafka => "kafka",
            Service::Dns => "dns",
            Service::Http => "http",
            Service::Tls => "tls",
            Service::Unknown => "unknown",
        }
    }

    /// A database that is reached through a pool as a rule.
    pub fn is_database(self) -> bool {
        matches!(self, Service::Postgresql | Service::Mysql)
    }
}
