//! Keys and values of the maps.

use crate::Account;

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
    /// 1 while the JVM has done something that no record has told.
    pub untold: u32,
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
    /// Begin of the compilation under way, else 0.
    pub compile_since_ns: u64,
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
    /// No socket, but a jar.
    pub const JAR: u32 = 3;
    /// No socket, but `lib/modules`.
    pub const MODULES: u32 = 4;
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

/// Value of the map `SOCKETS`: TCP connections of followed processes, and the files that they load classes from.
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
    /// JVMs that found no room in `JVMS`.
    JvmsFull = "jvms_full",
    /// Connects that found no room in `CONNECTS`.
    ConnectsFull = "connects_full",
    /// Ports that found no room in `LISTENERS`.
    ListenersFull = "listeners_full",
    /// Connections that found no room in `ARRIVALS`: their data is ready when a poller says so.
    ArrivalsFull = "arrivals_full",
    /// Returns of a poller with more fds than a record holds.
    ReadyCut = "ready_cut",
}

const _: () = assert!(size_of::<Process>() == 40);
const _: () = assert!(size_of::<Thread>() == 184);
const _: () = assert!(size_of::<SocketKey>() == 8);
const _: () = assert!(size_of::<Socket>() == 24);
const _: () = assert!(size_of::<ListenerKey>() == 16);
const _: () = assert!(size_of::<Connect>() == 8);
