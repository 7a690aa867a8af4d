//! Hot, where the kernel lets uprobes be attached: HotSpot's static probes, or its functions.
//!
//! Such a program may be preempted by others on its CPU, and since Linux 6.13 by itself on a private stack of that CPU
//! once it uses 64 bytes of stack (kernel/bpf/verifier.c, `BPF_PRIV_STACK_MIN_SIZE`): it stays below, which a test
//! reads from the object, and adds atomically.

use agent_ebpf::{Arg, Jvm, NO_INDEX, Probe, Process, Site, Work, compiler, how};
use aya_ebpf::{
    EbpfContext as _,
    cty::c_void,
    helpers::{
        bpf_get_attach_cookie, bpf_get_current_comm, bpf_probe_read_kernel,
        generated::bpf_probe_read_user as read_user_raw,
    },
    macros::uprobe,
    programs::ProbeContext,
};

use super::work;
use crate::{
    emit::{add, current, followed, now_ns},
    maps::{JVMS, SITES, THREADS},
};

/// Who came by where.
struct Visit {
    regs: *const c_void,
    site: &'static Site,
    process: &'static Process,
    jvm: *mut Jvm,
    work: *const Work,
}

/// The visit of a followed JVM's thread to a site.
#[inline(always)]
fn visit(ctx: &ProbeContext) -> Option<Visit> {
    let (tgid, _) = current();
    let process = followed(tgid)?;
    let jvm = JVMS.get_ptr_mut(tgid)?;
    let regs: *const c_void = ctx.as_ptr();
    // SAFETY: the helper takes the context that the program was given.
    let number = unsafe { bpf_get_attach_cookie(regs.cast_mut()) };
    let site = SITES.get(number as u32)?;
    // SAFETY: the entry of the current process stays valid until the program ends.
    unsafe {
        work::after_a_while(process, jvm);
        Some(Visit { regs, site, process, jvm, work: &raw const (*jvm).work })
    }
}

/// See [`Probe::ClassLoaded`].
#[uprobe]
pub fn jvm_class_loaded(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        add(&(*visit.work).classes, 1);
        if arg(visit.regs, &visit.site.args[2]) & 1 != 0 {
            add(&(*visit.work).classes_shared, 1);
        }
        if work::may_name(visit.jvm) {
            name(&visit, Probe::ClassLoaded, compiler::NONE);
        } else {
            work::did(visit.process, visit.jvm, Probe::ClassLoaded);
        }
    }
    0
}

/// See [`Probe::CompileBegin`].
#[uprobe]
pub fn jvm_compile_begin(_: ProbeContext) -> u32 {
    let (_, tid) = current();
    if let Some(thread) = THREADS.get_ptr_mut(tid) {
        // SAFETY: only the thread itself writes this; its entry stays valid until the program ends.
        unsafe { (*thread).compile_since_ns = now_ns() };
    }
    0
}

/// See [`Probe::CompileEnd`].
#[uprobe]
pub fn jvm_compile_end(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    let (_, tid) = current();
    // SAFETY: a visit's pointers are valid until the program ends, and so is a thread's entry.
    unsafe {
        let compile_ns = match THREADS.get_ptr_mut(tid) {
            Some(thread) => elapsed(&raw mut (*thread).compile_since_ns),
            None => 0,
        };
        let by_c1 = is_c1();
        let succeeded = arg(visit.regs, &visit.site.args[2]) & 0xff != 0;
        let work = visit.work;
        if by_c1 {
            add(&(*work).compile_c1_ns, compile_ns);
        } else {
            add(&(*work).compile_c2_ns, compile_ns);
        }
        match (succeeded, by_c1) {
            (false, _) => add(&(*work).compiles_failed, 1),
            (true, true) => add(&(*work).compiles_c1, 1),
            (true, false) => add(&(*work).compiles_c2, 1),
        }
        if succeeded && work::may_name(visit.jvm) {
            name(&visit, Probe::CompileEnd, if by_c1 { compiler::C1 } else { compiler::C2 });
        } else {
            work::did(visit.process, visit.jvm, Probe::CompileEnd);
        }
    }
    0
}

/// See [`Probe::GcBegin`].
#[uprobe]
pub fn jvm_gc_begin(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        if (*visit.jvm).gc_since_ns == 0 {
            (*visit.jvm).gc_since_ns = now_ns();
        }
        work::did(visit.process, visit.jvm, Probe::GcBegin);
    }
    0
}

/// See [`Probe::GcEnd`].
#[uprobe]
pub fn jvm_gc_end(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        // A collection for the metaspace says begin and end within those of its operation (since JDK 21,
        // src/hotspot/share/gc/shared/gcVMOperations.cpp): it is one.
        let gc_ns = elapsed(&raw mut (*visit.jvm).gc_since_ns);
        if gc_ns == 0 {
            return 0;
        }
        add(&(*visit.work).gc_ns, gc_ns);
        add(&(*visit.work).collections, 1);
        work::did(visit.process, visit.jvm, Probe::GcEnd);
    }
    0
}

/// See [`Probe::SafepointBegin`].
#[uprobe]
pub fn jvm_safepoint_begin(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        (*visit.jvm).safepoint_since_ns = now_ns();
        work::did(visit.process, visit.jvm, Probe::SafepointBegin);
    }
    0
}

/// See [`Probe::SafepointEnd`].
#[uprobe]
pub fn jvm_safepoint_end(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        add(&(*visit.work).safepoint_ns, elapsed(&raw mut (*visit.jvm).safepoint_since_ns));
        add(&(*visit.work).safepoints, 1);
        work::did(visit.process, visit.jvm, Probe::SafepointEnd);
    }
    0
}

/// See [`Probe::ThreadStart`].
#[uprobe]
pub fn jvm_thread_start(ctx: ProbeContext) -> u32 {
    let Some(visit) = visit(&ctx) else { return 0 };
    // SAFETY: a visit's pointers are valid until the program ends.
    unsafe {
        add(&(*visit.work).threads, 1);
        name(&visit, Probe::ThreadStart, compiler::NONE);
    }
    0
}

/// Whether the current thread is one of C1's, by its name (src/hotspot/share/compiler/compileBroker.cpp).
#[inline(always)]
fn is_c1() -> bool {
    bpf_get_current_comm().is_ok_and(|comm| comm[0] == b'C' && comm[1] == b'1')
}

/// Time since an instant that is over by now; 0 when its begin was not seen.
///
/// # Safety
/// `since_ns` may be read and written.
#[inline(always)]
unsafe fn elapsed(since_ns: *mut u64) -> u64 {
    // SAFETY: the caller's promise; only the thread that is at the end writes it.
    let since_ns = unsafe { core::mem::replace(&mut *since_ns, 0) };
    if since_ns == 0 { 0 } else { now_ns() - since_ns }
}

/// Tells what a thread came by for, with its name.
///
/// # Safety
/// The visit's pointers are valid.
#[inline(always)]
unsafe fn name(visit: &Visit, probe: Probe, compiler: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let (name, len) = (arg(visit.regs, &visit.site.args[0]), arg(visit.regs, &visit.site.args[1]) as u32);
        let what = probe as u64 | u64::from(compiler) << 32;
        work::did_named(visit.process, visit.jvm, what, name, len);
    }
}

/// A function of its own, with a stack of its own.
///
/// # Safety
/// `regs` are the registers that the program was given.
#[inline(never)]
unsafe fn arg(regs: *const c_void, arg: &Arg) -> u64 {
    if arg.how == how::NONE {
        return 0;
    }
    if arg.how == how::CONSTANT {
        return arg.value as u64;
    }
    // SAFETY: the caller's promise.
    let mut value = unsafe { register(regs, arg.base) };
    // 1, 2, 4 or 8, as the verifier sees it.
    let size = u32::from(arg.size) & 0xf;
    if size > 8 {
        return 0;
    }
    if arg.how == how::MEMORY {
        let mut address = value.wrapping_add(arg.value as u64);
        if arg.index != NO_INDEX {
            // SAFETY: the caller's promise.
            address = address.wrapping_add(unsafe { register(regs, arg.index) } << (arg.shift & 3));
        }
        value = 0;
        // SAFETY: `value` has 8 bytes, and `size` is at most 8; the helper checks the address.
        if unsafe { read_user_raw((&raw mut value).cast(), size, address as *const _) } != 0 {
            return 0;
        }
    }
    // What is above the size is of something else.
    let above = 64 - 8 * u64::from(size);
    let high = value << (above & 63);
    if arg.signed != 0 { ((high as i64) >> (above & 63)) as u64 } else { high >> (above & 63) }
}

/// # Safety
/// As [`arg`].
#[inline(always)]
unsafe fn register(regs: *const c_void, offset: u16) -> u64 {
    // SAFETY: the caller's promise; the context cannot be read at an offset that is no constant, the helper can.
    unsafe { bpf_probe_read_kernel(regs.byte_add(usize::from(offset)).cast::<u64>()) }.unwrap_or(0)
}
