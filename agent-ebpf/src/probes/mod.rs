//! The hooks, a family a file.

mod account;
mod files;
mod process;
mod sched;
mod sockets;
mod syscalls;
mod tcp;
mod usdt;
mod user;
mod work;

use aya_ebpf::cty::c_void;

/// Reads a field of a kernel structure that the verifier knows (a BTF pointer).
///
/// # Safety
/// `base` must come from a BTF tracepoint's arguments, and `offset` from the running kernel's BTF.
#[inline(always)]
unsafe fn field<T: Copy>(base: *const c_void, offset: usize) -> T {
    // SAFETY: the verifier checks the access against the kernel's BTF.
    unsafe { base.byte_add(offset).cast::<T>().read_volatile() }
}
