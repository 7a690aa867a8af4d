//! The one way into the ring buffer, and the only place that counts what found no room.

use core::mem::MaybeUninit;

use agent_ebpf::{Counter, Head, Kind, Process};
use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_boot_ns},
};

use crate::maps::{COUNTERS, EVENTS, EVENTS_BYTES, PROCESSES};

/// When the agent is to be woken for a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At once: a change in the life of a process.
    Now,
    /// When it next looks, or when a quarter of the ring buffer is full.
    Later,
}

/// Nanoseconds of `CLOCK_BOOTTIME`.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// (tgid, tid) of the current thread.
#[inline(always)]
pub fn current() -> (u32, u32) {
    let id = bpf_get_current_pid_tgid();
    ((id >> 32) as u32, id as u32)
}

/// The process, if events of it are wanted.
#[inline(always)]
pub fn followed(tgid: u32) -> Option<&'static Process> {
    // SAFETY: the value stays readable until the program ends; its counters are only touched atomically.
    let process = unsafe { PROCESSES.get(tgid) }?;
    (process.flags & agent_ebpf::process::FOLLOWED != 0).then_some(process)
}

/// Counts over all processes.
#[inline(always)]
pub fn count(counter: Counter) {
    if let Some(value) = COUNTERS.get_ptr(counter as u32) {
        // SAFETY: the slot stays valid until the program ends. It is this CPU's own, and still programs in uprobes may be
        // preempted in the middle of an addition by others that add here.
        add(unsafe { &*value }, 1);
    }
}

/// Counts an entry that a map had no room for.
#[inline(always)]
pub fn refused(process: &Process, counter: Counter) {
    add(&process.dropped, 1);
    add(&process.produced, 1);
    count(counter);
}

/// Makes a record of a process: `fill` gets its memory, uninitialised behind the head.
#[inline(always)]
pub fn emit<T: 'static>(process: &Process, head: Head, wake: Wake, fill: impl FnOnce(&mut MaybeUninit<T>)) {
    add(&process.produced, 1);
    count(Counter::Produced);
    let Some(mut record) = EVENTS.reserve::<T>(0) else {
        add(&process.dropped, 1);
        count(Counter::RingFull);
        return;
    };
    // SAFETY: every record starts with a Head (asserted where the kinds are declared).
    unsafe { record.as_mut_ptr().cast::<Head>().write(head) };
    fill(&mut record);
    let wake = wake == Wake::Now || EVENTS.query(u64::from(BPF_RB_AVAIL_DATA)) > u64::from(EVENTS_BYTES / 4);
    record.submit(u64::from(if wake { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }));
}

/// A head of the current thread, now.
#[inline(always)]
pub fn head(kind: Kind, fd: i32) -> Head {
    let (tgid, tid) = current();
    Head { kind: kind as u32, tgid, tid, fd, at_ns: now_ns() }
}

/// BPF's plain atomic add, without the fetch that kernels before 5.12 lack; `core` offers only the other on this target.
#[inline(always)]
pub fn add(value: &u64, more: u64) {
    // SAFETY: an aligned u64 in a map's value, which only atomic adds write while it is shared.
    unsafe {
        core::arch::asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) core::ptr::from_ref(value), in(reg) more)
    }
}

/// Stores into a map's value that others read and write.
#[inline(always)]
pub fn set(value: &u32, to: u32) {
    // SAFETY: an aligned u32 in a map's value, which is only read volatile and written here while it is shared.
    unsafe {
        core::arch::asm!("*(u32 *)({0} + 0) = {1}", in(reg) core::ptr::from_ref(value), in(reg) u64::from(to))
    }
}
