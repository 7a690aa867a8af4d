//! Which instructions can be probed cheaply.
//!
//! The kernel replaces the instruction of a uprobe by a breakpoint. What it knows to emulate it does on the spot; another
//! instruction is copied elsewhere and stepped there, which is a second exception.

use super::Machine;

/// Bytes that are looked at: `endbr64` and the longest `push`.
pub const BYTES: usize = 8;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const A64_NOP: u32 = 0xd503_201f;

/// Instructions that Linux simulates from 4.10 on wherever they stand (`arm_probe_decode_insn` in
/// arch/arm64/kernel/probes/decode-insn.c), as mask and value; the nop only from 6.13 on. It steps `bti`, `paciasp` and `stp`.
const A64_SIMULATED: [(u32, u32); 5] = [
    // adr, adrp
    (0x1f00_0000, 0x1000_0000),
    // cbz, cbnz
    (0x7e00_0000, 0x3400_0000),
    // tbz, tbnz
    (0x7e00_0000, 0x3600_0000),
    // b.cond
    (0xff00_0010, 0x5400_0000),
    // b
    (0xfc00_0000, 0x1400_0000),
];

/// Whether this is the instruction that `sys/sdt.h` leaves at a site. Anywhere else a breakpoint could land within an
/// instruction, and kill the JVM.
pub fn is_site(machine: Machine, code: [u8; BYTES]) -> bool {
    match machine {
        Machine::X86_64 => code[0] == 0x90,
        Machine::Aarch64 => word(code) == A64_NOP,
    }
}

/// How many bytes after a function's entry a probe is cheap and the arguments are still in their registers.
pub fn cheap_entry(machine: Machine, code: [u8; BYTES]) -> Option<u64> {
    match machine {
        // `branch_setup_xol_ops` and `push_setup_xol_ops` in arch/x86/kernel/uprobes.c, alike since 5.10. Nops of several
        // bytes are stepped by all but new kernels, endbr64 by all: the instruction after it is as good as the entry.
        Machine::X86_64 => match code {
            [0x90 | 0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => Some(0),
            [a, b, c, d, 0x90 | 0x50..=0x57, ..] | [a, b, c, d, 0x41, 0x50..=0x57, ..]
                if [a, b, c, d] == ENDBR64 =>
            {
                Some(4)
            }
            _ => None,
        },
        Machine::Aarch64 => {
            let word = word(code);
            let simulated = A64_SIMULATED.iter().any(|(mask, value)| word & mask == *value);
            (simulated || word == A64_NOP).then_some(0)
        }
    }
}

fn word(code: [u8; BYTES]) -> u32 {
    u32::from_le_bytes([code[0], code[1], code[2], code[3]])
}
