//! Accounts of threads, from the shared layout to the core's words.

use agent_ebpf::Account as Raw;
use timeline::{Account, Cause, LastOff, Offs};

/// [`agent_ebpf::Cause`] as a record holds it.
pub fn cause(raw: u32) -> Cause {
    const SOCKET: u32 = agent_ebpf::Cause::Socket as u32;
    const CLIENT: u32 = agent_ebpf::Cause::Client as u32;
    const POLL: u32 = agent_ebpf::Cause::Poll as u32;
    const DISK: u32 = agent_ebpf::Cause::Disk as u32;
    const LOCK: u32 = agent_ebpf::Cause::Lock as u32;
    const EXITED: u32 = agent_ebpf::Cause::Exited as u32;
    const RUNNABLE: u32 = agent_ebpf::Cause::Runnable as u32;
    match raw {
        RUNNABLE => Cause::Runnable,
        SOCKET => Cause::Socket,
        CLIENT => Cause::Client,
        POLL => Cause::Poll,
        DISK => Cause::Disk,
        LOCK => Cause::Lock,
        EXITED => Cause::Exited,
        _ => Cause::Other,
    }
}

/// An account; `None` when the thread has none.
pub fn of(raw: &Raw) -> Option<Account> {
    let [socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns] = raw.waits_ns;
    let last = (raw.on_ns > raw.off_ns).then(|| LastOff {
        off_ns: raw.off_ns,
        on_ns: raw.on_ns,
        run_queue_ns: raw.off_run_queue_ns,
        throttled_ns: raw.off_throttled_ns,
        cause: cause(raw.off_cause),
    });
    (raw.since_ns != 0).then_some(Account {
        since_ns: raw.since_ns,
        cpu_ns: raw.cpu_ns,
        off: Offs {
            run_queue_ns: raw.run_queue_ns,
            throttled_ns: raw.throttled_ns,
            socket_ns,
            client_ns,
            poll_ns,
            disk_ns,
            lock_ns,
            other_ns,
        },
        last,
    })
}
