//! Hot: CPU and run-queue time of each thread of a followed process.
//!
//! The scheduler accounts both itself (`se.sum_exec_runtime`, `sched_info.run_delay`: what /proc/PID/schedstat
//! shows), so one look at a thread that leaves the CPU is enough: no hook on wake-ups, none on arrival.

use agent_ebpf::{CPU_SPAN_NS, Head, Kind, Thread, ThreadCpu};
use aya_ebpf::{cty::c_void, macros::btf_tracepoint, programs::BtfTracePointContext};

use super::field;
use crate::{
    emit::{Wake, emit, followed, now_ns},
    maps::{THREADS, offset},
};

/// `trace_sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`, kernel/sched/core.c:
/// after `update_curr` has charged `prev`.
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let task: *const c_void = ctx.arg(1);
    // SAFETY: a task_struct and its offset.
    let tid = unsafe { field::<u32>(task, offset!(task_pid)) };
    let Some(thread) = THREADS.get_ptr_mut(tid) else { return 0 };
    // SAFETY: a thread leaves one CPU at a time, so nobody else writes its entry; it stays valid until the program
    // ends.
    let thread = unsafe { &mut *thread };
    // SAFETY: a task_struct and its offsets.
    let (cpu_ns, run_queue_ns) = unsafe {
        let delay = offset!(task_run_delay);
        (field::<u64>(task, offset!(task_cpu)), if delay == 0 { 0 } else { field::<u64>(task, delay) })
    };
    let now = now_ns();

    // This slice began where the time since the last one was neither run nor waited.
    let used = cpu_ns.wrapping_sub(thread.cpu_ns) + run_queue_ns.wrapping_sub(thread.run_queue_ns);
    let begin = now.saturating_sub(used).max(thread.off_ns);
    if begin.saturating_sub(thread.start_ns) >= CPU_SPAN_NS {
        report(tid, thread, thread.off_ns);
        thread.start_ns = begin;
        thread.cpu_base_ns = thread.cpu_ns;
        thread.run_queue_base_ns = thread.run_queue_ns;
    }
    thread.cpu_ns = cpu_ns;
    thread.run_queue_ns = run_queue_ns;
    thread.off_ns = now;
    if thread.exiting != 0 || now.saturating_sub(thread.start_ns) >= CPU_SPAN_NS {
        report(tid, thread, now);
        thread.start_ns = now;
        thread.cpu_base_ns = cpu_ns;
        thread.run_queue_base_ns = run_queue_ns;
    }
    if thread.exiting != 0 {
        let _ = THREADS.remove(tid);
    }
    0
}

#[inline(always)]
fn report(tid: u32, thread: &Thread, end_ns: u64) {
    let cpu_ns = thread.cpu_ns.wrapping_sub(thread.cpu_base_ns);
    let run_queue_ns = thread.run_queue_ns.wrapping_sub(thread.run_queue_base_ns);
    if cpu_ns == 0 && run_queue_ns == 0 {
        return;
    }
    let Some(process) = followed(thread.tgid) else { return };
    let head = Head { kind: Kind::ThreadCpu as u32, tgid: thread.tgid, tid, fd: -1, at_ns: end_ns };
    emit::<ThreadCpu>(process, head, Wake::Later, |record| {
        record.write(ThreadCpu { head, start_ns: thread.start_ns, cpu_ns, run_queue_ns });
    });
}
