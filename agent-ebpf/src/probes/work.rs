//! What a JVM did: sums in `JVMS`, told when they have grown for a millisecond and before each record that may be the
//! boundary of a span.

use agent_ebpf::{
    Head, Jvm, Kind, NAME_CAPTURE, NAMES, NAMES_A_REQUEST, Probe, Process, WORK_SPAN_NS, Worked, WorkedOn,
};

use super::user;
use crate::{
    emit::{Wake, current, emit, now_ns, set},
    maps::JVMS,
};

/// The JVM is about to do something after a while: what it did before and nobody has told is told, so that it is not
/// taken for what it does now.
///
/// # Safety
/// `jvm` is the current process's value of `JVMS`.
#[inline(always)]
pub unsafe fn after_a_while(process: &Process, jvm: *mut Jvm) {
    // SAFETY: the caller's promise.
    if now_ns() - unsafe { (*jvm).last_ns } >= WORK_SPAN_NS {
        before_record(process);
    }
}

/// The JVM has done something, which `jvm` counts by now.
///
/// # Safety
/// As [`after_a_while`].
#[inline(always)]
pub unsafe fn did(process: &Process, jvm: *mut Jvm, probe: Probe) {
    let now = now_ns();
    // SAFETY: the caller's promise; threads that race here tell something twice, or a microsecond apart.
    unsafe {
        (*jvm).last_ns = now;
        if now - (*jvm).told_ns >= WORK_SPAN_NS || is_mark(probe) {
            (*jvm).told_ns = now;
            tell(process, jvm, now);
        } else {
            set(&process.untold, 1);
        }
    }
}

/// The JVM has done something that has a name of `len` bytes in its memory: `probe`, and in the upper half the
/// [`agent_ebpf::compiler`] that did it. A function of its own, with a stack of its own.
///
/// # Safety
/// As [`after_a_while`].
#[inline(never)]
pub unsafe fn did_named(process: &Process, jvm: *mut Jvm, what: u64, name: u64, len: u32) {
    let now = now_ns();
    let (tgid, tid) = current();
    let head = Head { kind: Kind::WorkedOn as u32, tgid, tid, fd: -1, at_ns: now };
    // SAFETY: the caller's promise.
    unsafe {
        (*jvm).last_ns = now;
        (*jvm).told_ns = now;
    }
    emit::<WorkedOn>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record; the caller's promise.
        unsafe {
            (*record).probe = what as u32;
            (*record).compiler = (what >> 32) as u32;
            (*record).len = len;
            (*record).work = (*jvm).work;
            (*record).captured = user::copy::<NAME_CAPTURE>(&raw mut (*record).name, len, name);
        }
    });
}

/// A rare event that is the begin or the end of something.
#[inline(always)]
fn is_mark(probe: Probe) -> bool {
    matches!(probe, Probe::GcBegin | Probe::GcEnd | Probe::SafepointBegin | Probe::SafepointEnd)
}

/// Tells what the current process has done, if no record has: another record is about to be made.
#[inline(always)]
pub fn before_record(process: &Process) {
    // SAFETY: a reference is valid to read; volatile, since other CPUs write it.
    if unsafe { (&raw const process.untold).read_volatile() } == 0 {
        return;
    }
    let (tgid, _) = current();
    if let Some(jvm) = JVMS.get_ptr_mut(tgid) {
        set(&process.untold, 0);
        // SAFETY: the entry stays valid until the program ends.
        unsafe {
            let as_of_ns = (*jvm).last_ns;
            tell(process, jvm, as_of_ns);
        }
    }
}

/// A request may begin: the next classes are told by name.
#[inline(always)]
pub fn allow_names(tgid: u32) {
    if let Some(jvm) = JVMS.get_ptr_mut(tgid) {
        // SAFETY: the entry stays valid until the program ends; requests that race here allow for a few names less.
        unsafe {
            let more = NAMES_A_REQUEST - (*jvm).names_left.min(NAMES_A_REQUEST);
            if more > 0 && (*jvm).names < NAMES {
                (*jvm).names += more;
                (*jvm).names_left += more;
            }
        }
    }
}

/// Whether something may be told by name; takes its place when it may.
///
/// # Safety
/// As [`after_a_while`].
#[inline(always)]
pub unsafe fn may_name(jvm: *mut Jvm) -> bool {
    // SAFETY: the caller's promise; threads that race here tell a name more.
    unsafe {
        let may = (*jvm).names_left > 0;
        if may {
            (*jvm).names_left -= 1;
        }
        may
    }
}

/// A function of its own, with a stack of its own.
///
/// # Safety
/// As [`after_a_while`].
#[inline(never)]
unsafe fn tell(process: &Process, jvm: *const Jvm, as_of_ns: u64) {
    let (tgid, tid) = current();
    let head = Head { kind: Kind::Worked as u32, tgid, tid, fd: -1, at_ns: now_ns() };
    emit::<Worked>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record; the caller's promise.
        unsafe {
            (*record).as_of_ns = as_of_ns;
            (*record).work = (*jvm).work;
        }
    });
}
