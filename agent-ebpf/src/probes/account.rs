//! What a thread spends its time on: kept in `THREADS`, a time off the CPU at a time.
//!
//! A time off begins when the thread leaves its CPU, with a cause that is known by then, and ends when the thread gets
//! one. How much of it the thread was runnable, the scheduler itself has added up by the time that the thread runs
//! (`sched_info.run_delay`), so there is no hook on wake-ups. What is left was the wait. A time off is put into the
//! account by the thread itself, when it first makes a record or leaves the CPU again.

use agent_ebpf::{Account, Cause, Op, SocketKey, Thread, role};
use aya_ebpf::{
    cty::c_void,
    helpers::{bpf_get_current_task_btf, bpf_probe_read_user, generated::bpf_task_pt_regs},
};

use super::field;
use crate::{
    emit::now_ns,
    maps::{SOCKETS, THREADS, offset, op},
};

const TASK_UNINTERRUPTIBLE: u32 = 2;
/// Levels of cgroups that may each have a limit: those of the container, the pod and its quality-of-service class.
const LEVELS: usize = 3;

/// Puts the time off that ended with the current run into the account.
///
/// # Safety
/// `task` is the task_struct of the thread, which runs.
#[inline(always)]
pub unsafe fn settle(thread: &mut Thread, task: *const c_void) {
    if thread.left_ns == 0 {
        return;
    }
    if thread.arrived_ns < thread.left_ns {
        // A kernel that was changed for its host may switch from its idle loop without a word (seen of a 6.18 in a
        // microVM). What the thread has used since, it has used until now; the scheduler adds that up at each of its
        // ticks and switches.
        let now = now_ns();
        // SAFETY: a task_struct and its offset.
        let cpu_ns = unsafe { field::<u64>(task, offset!(task_cpu)) }.wrapping_sub(thread.cpu_base_ns);
        let ran_ns = cpu_ns.wrapping_sub(thread.account.cpu_ns).min(now - thread.left_ns);
        thread.arrived_ns = now - ran_ns;
    }
    let off_ns = thread.arrived_ns - thread.left_ns;
    let delay = offset!(task_run_delay);
    // SAFETY: a task_struct and its offset.
    let run_delay_ns = if delay == 0 { 0 } else { unsafe { field::<u64>(task, delay) } };
    let mut runnable_ns = run_delay_ns.wrapping_sub(thread.run_delay_ns).min(off_ns);
    thread.run_delay_ns = run_delay_ns;
    let account = &mut thread.account;
    let cause = account.leaving;
    if cause == Cause::Runnable as u32 {
        runnable_ns = off_ns;
    }
    // SAFETY: the caller's promise.
    let group_ns = unsafe { throttled_ns(task) };
    let throttled_ns = group_ns.wrapping_sub(thread.throttled_base_ns).min(runnable_ns);
    account.run_queue_ns += runnable_ns - throttled_ns;
    account.throttled_ns += throttled_ns;
    // The verifier wants the bound where it sees the index used.
    let waited = (cause as usize).wrapping_sub(1);
    if waited < account.waits_ns.len() {
        account.waits_ns[waited] += off_ns - runnable_ns;
    }
    account.off_ns = thread.left_ns;
    account.on_ns = thread.arrived_ns;
    account.off_run_queue_ns = runnable_ns - throttled_ns;
    account.off_throttled_ns = throttled_ns;
    account.off_cause = cause;
    thread.left_ns = 0;
}

/// Account of the current thread by now; zeros when it has none.
#[inline(always)]
pub fn current(tid: u32) -> Account {
    let Some(thread) = THREADS.get_ptr_mut(tid) else { return Account::default() };
    // SAFETY: only the thread itself writes its entry while it runs; it stays valid until the program ends.
    let thread = unsafe { &mut *thread };
    // SAFETY: a helper without arguments; the current thread runs.
    unsafe { settle(thread, bpf_get_current_task_btf().cast()) };
    thread.account
}

/// How long the cgroups of a thread have been throttled.
///
/// # Safety
/// `task` is a task_struct.
#[inline(always)]
pub unsafe fn throttled_ns(task: *const c_void) -> u64 {
    let offset = offset!(task_group);
    if offset == 0 {
        return 0;
    }
    // SAFETY: a task_struct, its task_group and the group's parents; a read through null gives zero.
    unsafe {
        let mut group = field::<*const c_void>(task, offset);
        let mut sum_ns = 0u64;
        for _ in 0..LEVELS {
            if group.is_null() {
                break;
            }
            sum_ns += field::<u64>(group, offset!(group_throttled));
            group = field::<*const c_void>(group, offset!(group_parent));
        }
        sum_ns
    }
}

/// Why a thread leaves its CPU.
///
/// # Safety
/// `task` is the task_struct of the current thread, which leaves.
#[inline(always)]
pub unsafe fn cause(task: *const c_void, tgid: u32, preempted: bool) -> Cause {
    // SAFETY: a task_struct and its offsets; the helper takes one and gives its registers on entry to the kernel.
    let (nr, first, second) = unsafe {
        let state = field::<u32>(task, offset!(task_state));
        if preempted || state == 0 {
            return Cause::Runnable;
        }
        if u32::from(field::<u8>(task, offset!(task_iowait))) & offset!(task_iowait_mask) as u32 != 0 {
            return Cause::Disk;
        }
        if offset!(has_task_regs) == 0 {
            return Cause::Other;
        }
        let regs = bpf_task_pt_regs(task.cast_mut().cast()) as *const c_void;
        let nr = field::<i32>(regs, offset!(regs_nr));
        // A page fault that waits for no I/O waits for the lock of the memory map.
        if nr < 0 {
            return if state & TASK_UNINTERRUPTIBLE != 0 { Cause::Lock } else { Cause::Other };
        }
        (nr, field::<u64>(regs, offset!(regs_arg[0])), field::<u64>(regs, offset!(regs_arg[1])))
    };
    let op = op(nr.into());
    if op == Op::Lock as u8 {
        return Cause::Lock;
    }
    if op == Op::Accept as u8 || op == Op::EpollWait as u8 {
        return Cause::Poll;
    }
    if op == Op::Connect as u8 {
        return Cause::Socket;
    }
    let fd = if op == Op::Poll as u8 {
        if second != 1 {
            return Cause::Poll;
        }
        // SAFETY: the helper checks the address: that of a struct pollfd, which begins with the fd.
        match unsafe { bpf_probe_read_user(first as *const i32) } {
            Ok(fd) => fd,
            Err(_) => return Cause::Other,
        }
    } else {
        first as i32
    };
    if op == Op::None as u8 {
        return Cause::Other;
    }
    // SAFETY: only read.
    match unsafe { SOCKETS.get(SocketKey { tgid, fd }) } {
        Some(socket) if socket.role == role::OUTBOUND => Cause::Socket,
        Some(socket) if socket.role == role::ACCEPTED => Cause::Client,
        _ => Cause::Other,
    }
}

/// The thread gets a CPU.
#[inline(always)]
pub fn arrived(tid: u32) {
    if let Some(thread) = THREADS.get_ptr_mut(tid) {
        // SAFETY: a thread that is off its CPU writes nothing; it left in an earlier switch.
        unsafe { (*thread).arrived_ns = now_ns() };
    }
}
