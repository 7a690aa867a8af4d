//! Operands of aarch64.

use super::{Operand, Refused, number};

/// Offsets in `struct user_pt_regs` (arch/arm64/include/uapi/asm/ptrace.h), with which `struct pt_regs` begins: `regs[31]`,
/// then the stack pointer.
const REGISTER_BYTES: u16 = 8;
const STACK: u16 = 31 * REGISTER_BYTES;

/// Largest shift of an index: that of 8 bytes.
const MOST_SHIFT: u8 = 3;

pub fn operand(text: &str) -> Result<Operand, Refused> {
    if let Some(constant) = constant(text) {
        return Ok(Operand::Constant(constant));
    }
    if let Some(memory) = text.strip_prefix('[') {
        // Nothing may follow: `[x0], 16` and `[x0, 16]!` change the register.
        return memory_of(memory.strip_suffix(']').ok_or("not understood")?);
    }
    match text {
        "xzr" | "wzr" => Ok(Operand::Constant(0)),
        "sp" => Ok(Operand::Register(STACK, 8)),
        _ => register(text).map(|(offset, width)| Operand::Register(offset, width)),
    }
}

fn constant(text: &str) -> Option<i64> {
    number(text.strip_prefix('#').unwrap_or(text))
}

fn register(text: &str) -> Result<(u16, u8), Refused> {
    let refused = "a register that cannot be read";
    let (width, number) = match (text.strip_prefix('x'), text.strip_prefix('w')) {
        (Some(number), _) => (8, number),
        (_, Some(number)) => (4, number),
        _ => return Err(refused),
    };
    let known = (0..31).find(|known: &u16| known.to_string() == number);
    known.map(|number| (number * REGISTER_BYTES, width)).ok_or(refused)
}

/// `base`, `base, displacement`, `base, index` or `base, index, lsl shift`.
fn memory_of(inside: &str) -> Result<Operand, Refused> {
    let mut parts = inside.split(',').map(str::trim);
    let base = match parts.next().unwrap_or_default() {
        "sp" => STACK,
        base => whole(base)?,
    };
    let memory = |index, shift, displacement| Ok(Operand::Memory { base, index, shift, displacement });
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => memory(None, 0, 0),
        (Some(second), None, None) => match constant(second) {
            Some(displacement) => memory(None, 0, displacement),
            None => memory(Some(whole(second)?), 0, 0),
        },
        (Some(index), Some(shifted), None) => {
            let by = shifted.strip_prefix("lsl").and_then(|by| constant(by.trim()));
            let by = by.and_then(|by| u8::try_from(by).ok()).filter(|by| *by <= MOST_SHIFT);
            memory(Some(whole(index)?), by.ok_or("an index that is extended")?, 0)
        }
        _ => Err("not understood"),
    }
}

/// A register that makes an address.
fn whole(text: &str) -> Result<u16, Refused> {
    match register(text)? {
        (offset, 8) => Ok(offset),
        _ => Err("an address of fewer than 64 bits"),
    }
}
