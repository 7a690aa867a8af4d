//! Operands of aarch64.

use super::{Operand, Refused, address, number};

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
        base => address(register(base)?)?,
    };
    let memory = |index, shift, displacement| Ok(Operand::Memory { base, index, shift, displacement });
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => memory(None, 0, 0),
        (Some(second), None, None) => match constant(second) {
            Some(displacement) => memory(None, 0, displacement),
            None => memory(Some(address(register(second)?)?), 0, 0),
        },
        (Some(index), Some(shifted), None) => {
            let by = shifted.strip_prefix("lsl").and_then(|by| constant(by.trim()));
            let by = by.and_then(|by| u8::try_from(by).ok()).filter(|by| *by <= MOST_SHIFT);
            memory(Some(address(register(index)?)?), by.ok_or("an index that is extended")?, 0)
        }
        _ => Err("not understood"),
    }
}

#[cfg(test)]
mod tests {
    use agent_ebpf::{Arg, NO_INDEX, how};

    use super::super::{Machine, NOWHERE, parse};

    fn check(spec: &str, expect: Arg) {
        assert_eq!(parse(Machine::Aarch64, spec), Ok(expect), "{spec}");
    }

    #[test]
    fn registers_and_constants() {
        let register = |spec, base, size, signed| {
            check(spec, Arg { base, how: how::REGISTER, size, signed, ..NOWHERE });
        };
        register("8@x0", 0, 8, 0);
        register("8@x30", 240, 8, 0);
        register("-4@w19", 152, 4, 1);
        register("8@w1", 8, 4, 0);
        register("8@sp", 248, 8, 0);
        let constant = |spec, value, size, signed| {
            check(spec, Arg { value, how: how::CONSTANT, size, signed, ..NOWHERE });
        };
        constant("8@xzr", 0, 8, 0);
        constant("-4@wzr", 0, 4, 1);
        constant("1@5", 5, 1, 0);
        constant("-4@-5", -5, 4, 1);
        constant("-4@#-5", -5, 4, 1);
    }

    #[test]
    fn memory() {
        let check = |spec, value, base, index, shift| {
            check(spec, Arg { value, base, index, shift, how: how::MEMORY, size: 8, ..NOWHERE });
        };
        check("8@[x0]", 0, 0, NO_INDEX, 0);
        check("8@[sp, 16]", 16, 248, NO_INDEX, 0);
        check("8@[sp, #16]", 16, 248, NO_INDEX, 0);
        check("8@[x29,-12]", -12, 232, NO_INDEX, 0);
        check("8@[x1, x2]", 0, 8, 16, 0);
        check("8@[x1, x2, lsl 3]", 0, 8, 16, 3);
        check("8@[x1, x2, lsl #2]", 0, 8, 16, 2);
    }

    #[test]
    fn what_cannot_be_read() {
        for operand in [
            "x31",
            "x00",
            "w",
            "x",
            "wsp",
            "v0",
            "d0",
            "pc",
            "[",
            "]",
            "[]",
            "[x0",
            "x0]",
            "[x0], 16",
            "[x0, 16]!",
            "[w0]",
            "[xzr]",
            "[x0, w1, uxtw]",
            "[x0, w1, sxtw 2]",
            "[x0, w1]",
            "[x0, x1, lsl]",
            "[x0, x1, lsl 4]",
            "[x0, x1, lsl -1]",
            "[x0, x1, asr 2]",
            "[x0, sp]",
            "[x0, 8, lsl 3]",
            "[x0, x1, lsl 3, 4]",
            "[x0, sym]",
            "sym",
        ] {
            assert!(parse(Machine::Aarch64, &format!("8@{operand}")).is_err(), "{operand}");
        }
    }
}
