//! Accounts of threads that no record tells: of those that were there before, that are idle, and at the end.

use agent_ebpf::{ACCOUNT_SPAN_NS, Account, Cause, Thread};

use super::{Tracker, counted};
use crate::{clock::boot_ns, events::account, identity::Task, probes::Maps};

/// A thread that left its CPU is idle after so long: it would have told its account when it left again.
const IDLE_NS: u64 = 20 * ACCOUNT_SPAN_NS;

impl Tracker {
    /// Tells what idle threads of cold JVMs have used and no record has told. To be done about once a second, so that
    /// it is booked where it belongs.
    pub fn tell_idle(&mut self) {
        let now = boot_ns();
        for (&pid, followed) in self.followed.iter_mut().filter(|(_, followed)| followed.is_cold()) {
            if let Some(counted) = counted(&self.maps, pid) {
                followed.worked(now, counted);
            }
            for tid in self.config.proc.tids(pid) {
                let Some(thread) = self.maps.thread(tid).filter(|thread| thread.tgid == pid) else {
                    continue;
                };
                let untold = thread.left_ns > thread.told_ns;
                if untold && now.saturating_sub(thread.left_ns) >= IDLE_NS {
                    tell(followed, tid, &thread);
                }
            }
        }
    }

    /// Tells what the threads of a process have used and the probes have not told yet, and forgets the threads.
    pub(super) fn sweep(&mut self, pid: u32) {
        let Some(followed) = self.followed.get_mut(&pid) else { return };
        let now = boot_ns();
        for task in self.config.proc.tasks(pid) {
            let Some(thread) = self.maps.thread(task.tid).filter(|thread| thread.tgid == pid) else {
                continue;
            };
            self.maps.remove_thread(task.tid);
            let cpu_ns = task.cpu_ns.saturating_sub(thread.cpu_base_ns);
            if cpu_ns <= thread.account.cpu_ns && thread.left_ns != 0 {
                tell(followed, task.tid, &thread);
                continue;
            }
            // It runs: what it has used since it got its CPU is not in its account.
            let waited_ns = task.run_queue_ns.saturating_sub(thread.run_delay_ns);
            let run_queue_ns = thread.account.run_queue_ns + waited_ns;
            let raw = Account { cpu_ns, run_queue_ns, ..thread.account };
            if let Some(account) = account::of(&raw) {
                followed.account(task.tid, now, account, timeline::Cause::Runnable);
            }
        }
    }
}

fn tell(followed: &mut super::Followed, tid: u32, thread: &Thread) {
    if let Some(account) = account::of(&thread.account) {
        followed.account(tid, thread.left_ns, account, account::cause(thread.account.leaving));
    }
}

/// Accounts a thread from `start_ns` on, at which it had used `(cpu, run queue)`. Whether there was room.
pub(super) fn add_thread(
    maps: &mut Maps,
    tgid: u32,
    task: &Task,
    start_ns: u64,
    (cpu_base_ns, run_queue_base_ns): (u64, u64),
) -> bool {
    let account = Account {
        since_ns: start_ns,
        cpu_ns: task.cpu_ns.saturating_sub(cpu_base_ns),
        run_queue_ns: task.run_queue_ns.saturating_sub(run_queue_base_ns),
        // What it waits for, if it does, nobody knows.
        leaving: Cause::Other as u32,
        ..Account::default()
    };
    let thread = Thread {
        account,
        cpu_base_ns,
        run_delay_ns: task.run_queue_ns,
        left_ns: boot_ns(),
        told_ns: start_ns,
        tgid,
        ..Thread::default()
    };
    maps.add_thread(task.tid, thread).is_ok()
}
