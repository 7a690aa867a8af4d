//! Reads of a process's memory.

use aya_ebpf::helpers::{bpf_probe_read_user, generated::bpf_probe_read_user as read_user_raw};

/// The value at an address.
#[inline(always)]
pub fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// Copies the first `len` bytes of user memory, or as many as there is room for; returns how many it could.
#[inline(always)]
pub fn copy<const N: usize>(to: *mut [u8; N], len: u32, from: u64) -> u32 {
    let mut len = u64::from(len);
    // SAFETY: plain arithmetic. The compiler would compare one register and pass another; the verifier wants the
    // bound on the one that it sees passed.
    unsafe { core::arch::asm!("if {0} <= {1} goto +1", "{0} = {1}", inout(reg) len, in(reg) N as u64) };
    // SAFETY: `to` has N bytes, and `len` is at most N.
    if unsafe { read_user_raw(to.cast(), len as u32, from as *const _) } == 0 { len as u32 } else { 0 }
}
