//! Sentinel: exec, exit, new threads and their names. Rare events; only a process that takes a JVM's thread name
//! makes a record.

use agent_ebpf::{
    Account, COMM_LEN, Cause, Counter, Head, Jvm, JvmSeen, Kind, Process, ProcessExited, Thread, ThreadNamed,
    process,
};
use aya_ebpf::{
    cty::c_void, helpers::bpf_probe_read_kernel_str_bytes, macros::btf_tracepoint,
    programs::BtfTracePointContext,
};

use super::{field, work};
use crate::{
    emit::{Wake, count, emit, followed, now_ns, refused},
    maps::{JVMS, PROCESSES, THREADS, offset},
};

/// include/uapi/linux/sched.h
const CLONE_THREAD: u64 = 0x0001_0000;

/// The first eight bytes of thread names that only a JVM gives its own threads: HotSpot in every version from 8 on
/// (src/hotspot/share/runtime/vmThread.cpp, compiler/compileBroker.cpp), OpenJ9 ("JIT Compilation Thread-000",
/// runtime/compiler/control/CompilationThread.cpp), and GraalVM's native images, which keep the last 15 bytes of a name
/// ("ference Handler"). The agent looks for better evidence afterwards.
const JVM_NAMES: [[u8; 8]; 5] = [*b"VM Threa", *b"C1 Compi", *b"C2 Compi", *b"JIT Comp", *b"ference "];

/// `trace_sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`, fs/exec.c: the
/// thread that called exec is the process's leader by now, whichever it was.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    let task: *const c_void = ctx.arg(0);
    // SAFETY: a task_struct and its offsets.
    let (tgid, exec_cpu_ns) =
        unsafe { (field::<u32>(task, offset!(task_tgid)), field::<u64>(task, offset!(task_cpu))) };
    let at_ns = now_ns();
    // SAFETY: only read.
    if let Some(before) = unsafe { PROCESSES.get(tgid) }
        && before.flags & process::SEEN != 0
    {
        let head = Head { kind: Kind::ProcessReplaced as u32, tgid, tid: tgid, fd: -1, at_ns };
        emit::<Head>(before, head, Wake::Now, |_| {});
    }
    let entry = Process { exec_ns: at_ns, exec_cpu_ns, ..Process::default() };
    if PROCESSES.insert(tgid, entry, 0).is_err() {
        count(Counter::ProcessesFull);
    }
    0
}

/// `trace_sched_process_exit(struct task_struct *p, …)`, kernel/exit.c: after `signal->live` was counted down and
/// `exit_code` set.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    let task: *const c_void = ctx.arg(0);
    // SAFETY: a task_struct, its signal_struct, and their offsets.
    let (tgid, tid, status, live) = unsafe {
        let signal = field::<*const c_void>(task, offset!(task_signal));
        (
            field::<u32>(task, offset!(task_tgid)),
            field::<u32>(task, offset!(task_pid)),
            field::<u32>(task, offset!(task_exit_code)),
            field::<i32>(signal, offset!(signal_live)),
        )
    };
    if let Some(thread) = THREADS.get_ptr_mut(tid) {
        // SAFETY: only the exiting thread itself writes this; its last time slice is reported when it leaves the CPU.
        unsafe { (*thread).exiting = 1 };
    }
    if live != 0 {
        return 0;
    }
    // SAFETY: only read.
    let Some(entry) = (unsafe { PROCESSES.get(tgid) }) else { return 0 };
    if entry.flags & process::SEEN == 0 {
        let _ = PROCESSES.remove(tgid);
        return 0;
    }
    work::before_record(entry);
    let head = Head { kind: Kind::ProcessExited as u32, tgid, tid, fd: -1, at_ns: now_ns() };
    emit::<ProcessExited>(entry, head, Wake::Now, |record| {
        record.write(ProcessExited { head, status, pad: 0 });
    });
    0
}

/// `trace_task_newtask(struct task_struct *task, u64 clone_flags)`, kernel/fork.c
#[btf_tracepoint(function = "task_newtask")]
pub fn task_newtask(ctx: BtfTracePointContext) -> i32 {
    let task: *const c_void = ctx.arg(0);
    let flags: u64 = ctx.arg(1);
    if flags & CLONE_THREAD == 0 {
        return 0;
    }
    // SAFETY: a task_struct and its offsets.
    let (tgid, tid) =
        unsafe { (field::<u32>(task, offset!(task_tgid)), field::<u32>(task, offset!(task_pid))) };
    let Some(process) = followed(tgid) else { return 0 };
    let now = now_ns();
    // It is runnable from its birth on.
    let account = Account { since_ns: now, leaving: Cause::Runnable as u32, ..Account::default() };
    let thread = Thread { account, left_ns: now, told_ns: now, tgid, ..Thread::default() };
    if THREADS.insert(tid, thread, 0).is_err() {
        refused(process, Counter::ThreadsFull);
    }
    0
}

/// `trace_task_rename(struct task_struct *task, const char *comm)`, fs/exec.c: before the name is set.
#[btf_tracepoint(function = "task_rename")]
pub fn task_rename(ctx: BtfTracePointContext) -> i32 {
    let task: *const c_void = ctx.arg(0);
    let name: *const u8 = ctx.arg(1);
    // SAFETY: a task_struct and its offsets.
    let (tgid, tid) =
        unsafe { (field::<u32>(task, offset!(task_tgid)), field::<u32>(task, offset!(task_pid))) };
    let mut comm = [0u8; COMM_LEN];
    // SAFETY: a kernel string; the helper bounds the copy.
    if unsafe { bpf_probe_read_kernel_str_bytes(name, &mut comm) }.is_err() {
        return 0;
    }
    let at_ns = now_ns();
    if let Some(process) = followed(tgid) {
        work::before_record(process);
        let head = Head { kind: Kind::ThreadNamed as u32, tgid, tid, fd: -1, at_ns };
        emit::<ThreadNamed>(process, head, Wake::Later, |record| {
            record.write(ThreadNamed { head, comm });
        });
        return 0;
    }
    let first = [comm[0], comm[1], comm[2], comm[3], comm[4], comm[5], comm[6], comm[7]];
    if !JVM_NAMES.contains(&first) {
        return 0;
    }
    if PROCESSES.get_ptr_mut(tgid).is_none() && PROCESSES.insert(tgid, Process::default(), 0).is_err() {
        count(Counter::ProcessesFull);
        return 0;
    }
    let Some(entry) = PROCESSES.get_ptr_mut(tgid) else { return 0 };
    // SAFETY: the value stays valid until the program ends. Two threads that race here make two records of which
    // the agent takes the first.
    let entry = unsafe { &mut *entry };
    if entry.flags & process::SEEN != 0 {
        return 0;
    }
    entry.flags = process::SEEN | process::FOLLOWED;
    if JVMS.insert(tgid, Jvm::default(), 0).is_err() {
        refused(entry, Counter::JvmsFull);
    }
    let (exec_ns, exec_cpu_ns) = (entry.exec_ns, entry.exec_cpu_ns);
    let head = Head { kind: Kind::JvmSeen as u32, tgid, tid, fd: -1, at_ns };
    emit::<JvmSeen>(entry, head, Wake::Now, |record| {
        record.write(JvmSeen { head, exec_ns, exec_cpu_ns, comm });
    });
    0
}
