//! Hot: the account of each thread of a followed process, at its switches.

use agent_ebpf::{ACCOUNT_OFF_NS, ACCOUNT_SPAN_NS, Cause, Head, Kind, ThreadAccount};
use aya_ebpf::{cty::c_void, macros::btf_tracepoint, programs::BtfTracePointContext};

use super::{account, field};
use crate::{
    emit::{Wake, emit, followed, now_ns},
    maps::{THREADS, offset},
};

/// `trace_sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`, kernel/sched/core.c:
/// after `update_curr` has charged `prev`.
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next): (*const c_void, *const c_void) = (ctx.arg(1), ctx.arg(2));
    // SAFETY: task_structs and an offset.
    let (tid, next) =
        unsafe { (field::<u32>(prev, offset!(task_pid)), field::<u32>(next, offset!(task_pid))) };
    account::arrived(next);
    let Some(thread) = THREADS.get_ptr_mut(tid) else { return 0 };
    // SAFETY: a thread leaves one CPU at a time, so nobody else writes its entry; it stays valid until the program
    // ends.
    let thread = unsafe { &mut *thread };
    let now = now_ns();
    // SAFETY: a task_struct, of the thread that has run until now.
    unsafe {
        let cpu_ns = field::<u64>(prev, offset!(task_cpu)).wrapping_sub(thread.cpu_base_ns);
        account::settle(thread, prev);
        thread.account.cpu_ns = cpu_ns;
        let preempted = ctx.arg::<u64>(0) & 1 != 0;
        // The last switch of a thread is the one that does not return (do_task_dead, kernel/exit.c).
        let cause = if thread.exiting != 0 && !preempted && field::<u32>(prev, offset!(task_state)) != 0 {
            Cause::Exited
        } else {
            account::cause(prev, thread.tgid, preempted)
        };
        thread.account.leaving = cause as u32;
        thread.throttled_base_ns = account::throttled_ns(prev);
    }
    thread.left_ns = now;
    let exits = thread.account.leaving == Cause::Exited as u32;
    let tgid = thread.tgid;
    let account = &thread.account;
    let was_off = account.off_ns >= thread.told_ns && account.on_ns - account.off_ns >= ACCOUNT_OFF_NS;
    if exits || was_off || now - thread.told_ns >= ACCOUNT_SPAN_NS {
        thread.told_ns = now;
        if let Some(process) = followed(tgid) {
            let head = Head { kind: Kind::ThreadAccount as u32, tgid, tid, fd: -1, at_ns: now };
            emit::<ThreadAccount>(process, head, Wake::Later, |record| {
                record.write(ThreadAccount { head, account: thread.account });
            });
        }
    }
    if exits {
        let _ = THREADS.remove(tid);
    }
    0
}
