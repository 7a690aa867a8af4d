//! What a thread spends its time on.

/// A thread that leaves a CPU tells its account when it has not for so long.
pub const ACCOUNT_SPAN_NS: u64 = 5_000_000;
/// A thread that was off its CPU for so long tells its account when it next leaves one.
pub const ACCOUNT_OFF_NS: u64 = 1_000_000;

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

const _: () = assert!(size_of::<Account>() == 120);
