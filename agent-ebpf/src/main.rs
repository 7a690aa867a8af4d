//! The probes. One hook family a file; every hook is a BTF tracepoint, so that the kernel itself counts the runs it
//! skips (`recursion_misses`), and what is read of a kernel structure stands at an offset in [`maps::OFFSETS`].
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod emit;
mod maps;
mod probes;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: the probes have no path that panics; a verifier that finds one refuses the program.
    unsafe { core::hint::unreachable_unchecked() }
}

/// The kernel asks for a GPL-compatible licence before it lends out its tracing helpers.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
