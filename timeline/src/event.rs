//! What the core is told: decoded events of one JVM process, free of payload.
//!
//! The same types are the lines of a recorded file, so a recording replays exactly what was seen.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The first line of a recording, and what a timeline starts from.
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
    /// The thread used CPU in a span that ends at the event's instant.
    ThreadCpu {
        /// Begin of the span.
        start_ns: u64,
        /// Time on a CPU.
        cpu_ns: u64,
        /// Time runnable, waiting for a CPU.
        run_queue_ns: u64,
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
    },
    /// `connect()` returned.
    Connected {
        /// The fd of the thread's latest connecting socket.
        fd: i32,
        /// errno, unless it succeeded or goes on in the background.
        errno: Option<i32>,
    },
    /// A connection was accepted.
    Accepted {
        /// Its fd.
        fd: i32,
        /// The other end, when the process asked for it.
        peer: Option<SocketAddr>,
    },
    /// A connection that was accepted before the process was followed.
    Adopted {
        /// Its fd.
        fd: i32,
    },
    /// The peer of an outbound connection sent its first bytes.
    Answered {
        /// The socket's fd.
        fd: i32,
        /// Protocol, when they tell.
        service: Option<Service>,
    },
    /// A poller returned: the accepted connection has data.
    Ready {
        /// Its fd.
        fd: i32,
    },
    /// Bytes were read.
    Received {
        /// The socket's fd.
        fd: i32,
        /// How many; 0 at the end of the stream.
        bytes: u32,
        /// What they open, once that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opening: Option<Opening>,
    },
    /// Bytes were written.
    Sent {
        /// The socket's fd.
        fd: i32,
        /// How many.
        bytes: u32,
        /// Status code, when they open an HTTP answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Protocol, when they open an outbound conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<Service>,
    },
    /// The socket is closed.
    Closed {
        /// Its fd.
        fd: i32,
    },
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

/// What the first bytes on a connection, or after an answer, open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// An HTTP/1 request.
    Request {
        /// Method.
        method: String,
        /// Path template.
        route: String,
        /// The User-Agent is a kubelet's prober.
        prober: bool,
        /// The next request came with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pipelined: bool,
    },
    /// Not a request line that can be read.
    Unparsed,
    /// A TLS handshake.
    Tls,
    /// The preface of HTTP/2.
    Http2,
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
