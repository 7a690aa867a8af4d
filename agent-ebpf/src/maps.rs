//! Every map with its bound, and the globals that the agent sets before it loads the probes.

use agent_ebpf::{
    Connect, Counter, Jvm, ListenerKey, Offsets, Op, Process, SITES as SITES_MAX, SYSCALLS, Site, Socket,
    SocketKey, Thread,
};
use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};

/// Bytes of the ring buffer: 7,000 requests' heads, or 80,000 small records.
pub const EVENTS_BYTES: u32 = 4 << 20;

/// Records on their way to the agent.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(EVENTS_BYTES, 0);

/// Every process that was exec'd since the agent started, until it exits. The agent removes those that were JVMs.
#[map]
pub static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(4096, 0);

/// Threads of followed processes.
#[map]
pub static THREADS: HashMap<u32, Thread> = HashMap::with_max_entries(8192, 0);

/// What followed JVMs did.
#[map]
pub static JVMS: HashMap<u32, Jvm> = HashMap::with_max_entries(1024, 0);

/// Places in HotSpot that are probed, by their cookies.
#[map]
pub static SITES: Array<Site> = Array::with_max_entries(SITES_MAX as u32, 0);

/// Connections of followed processes, and the files that they load classes from.
#[map]
pub static SOCKETS: HashMap<SocketKey, Socket> = HashMap::with_max_entries(16384, 0);

/// Outbound sockets of followed processes, from SYN to close.
#[map]
pub static CONNECTS: HashMap<u64, Connect> = HashMap::with_max_entries(4096, 0);

/// Ports of followed processes, with the process.
#[map]
pub static LISTENERS: HashMap<ListenerKey, u32> = HashMap::with_max_entries(1024, 0);

/// When the data came that nobody has read yet, 0 while there is none: by the `struct sock` of each connection to a port
/// of a followed process.
#[map]
pub static ARRIVALS: HashMap<u64, u64> = HashMap::with_max_entries(8192, 0);

/// What was made and what found no room, by [`Counter`].
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::ALL.len() as u32, 0);

/// Where the running kernel keeps what the probes read.
#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets {
    task_pid: 0,
    task_tgid: 0,
    task_cpu: 0,
    task_run_delay: 0,
    task_state: 0,
    task_iowait: 0,
    task_iowait_mask: 0,
    task_group: 0,
    group_parent: 0,
    group_throttled: 0,
    has_task_regs: 0,
    task_files: 0,
    files_fdt: 0,
    fdt_fd: 0,
    file_private: 0,
    file_dentry: 0,
    dentry_name: 0,
    dentry_name_len: 0,
    socket_sk: 0,
    task_exit_code: 0,
    task_signal: 0,
    signal_live: 0,
    sock_family: 0,
    sock_net: 0,
    sock_local_port: 0,
    sock_peer_port: 0,
    sock_local_v4: 0,
    sock_peer_v4: 0,
    sock_local_v6: 0,
    sock_peer_v6: 0,
    sock_protocol: 0,
    sock_error: 0,
    regs_nr: 0,
    regs_arg: [0; 3],
    epoll_event_size: 0,
    epoll_event_data: 0,
};

/// An [`Op`] for each syscall number of the running architecture.
#[unsafe(no_mangle)]
static SYSCALL_OPS: [u8; SYSCALLS] = [Op::None as u8; SYSCALLS];

/// One of [`OFFSETS`], as a constant that the verifier knows.
macro_rules! offset {
    ($($field:tt)+) => { $crate::maps::load(&$crate::maps::OFFSETS.$($field)+) as usize };
}
pub(crate) use offset;

/// Reads a global that the agent sets after compilation.
#[inline(always)]
pub fn load<T: Copy>(global: &T) -> T {
    // SAFETY: a reference is valid to read; volatile, or the compiler would take the value it sees here.
    unsafe { core::ptr::read_volatile(global) }
}

/// The [`Op`] of a syscall.
#[inline(always)]
pub fn op(nr: i64) -> u8 {
    if !(0..SYSCALLS as i64).contains(&nr) {
        return Op::None as u8;
    }
    // SAFETY: in bounds by the check above.
    load(unsafe { SYSCALL_OPS.get_unchecked(nr as usize) })
}
