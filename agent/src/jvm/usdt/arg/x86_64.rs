//! Operands of x86-64 in AT&T's syntax.

use super::{Operand, Refused, address, number};

/// Names by width, and the offset in `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h, also the `user_regs_struct` of
/// tracers). `%ah` and its like are no first byte of a register, and not here.
const REGISTERS: [([&str; 4], u16); 16] = [
    (["r15", "r15d", "r15w", "r15b"], 0),
    (["r14", "r14d", "r14w", "r14b"], 8),
    (["r13", "r13d", "r13w", "r13b"], 16),
    (["r12", "r12d", "r12w", "r12b"], 24),
    (["rbp", "ebp", "bp", "bpl"], 32),
    (["rbx", "ebx", "bx", "bl"], 40),
    (["r11", "r11d", "r11w", "r11b"], 48),
    (["r10", "r10d", "r10w", "r10b"], 56),
    (["r9", "r9d", "r9w", "r9b"], 64),
    (["r8", "r8d", "r8w", "r8b"], 72),
    (["rax", "eax", "ax", "al"], 80),
    (["rcx", "ecx", "cx", "cl"], 88),
    (["rdx", "edx", "dx", "dl"], 96),
    (["rsi", "esi", "si", "sil"], 104),
    (["rdi", "edi", "di", "dil"], 112),
    (["rsp", "esp", "sp", "spl"], 152),
];
const STACK: u16 = 152;
const WIDTHS: [u8; 4] = [8, 4, 2, 1];

pub fn operand(text: &str) -> Result<Operand, Refused> {
    if let Some(constant) = text.strip_prefix('$') {
        return number(constant).map(Operand::Constant).ok_or("a constant that is no number");
    }
    if let Some(memory) = text.strip_suffix(')') {
        let (displacement, inside) = memory.split_once('(').ok_or("not understood")?;
        return memory_of(displacement, inside);
    }
    register(text).map(|(offset, width)| Operand::Register(offset, width))
}

fn register(text: &str) -> Result<(u16, u8), Refused> {
    let name = text.strip_prefix('%').ok_or("not understood")?;
    let found = REGISTERS.iter().find_map(|(names, offset)| {
        let at = names.iter().position(|known| *known == name)?;
        Some((*offset, WIDTHS[at]))
    });
    found.ok_or("a register that cannot be read")
}

/// `displacement(base, index, scale)`.
fn memory_of(displacement: &str, inside: &str) -> Result<Operand, Refused> {
    let mut parts = inside.split(',').map(str::trim);
    let mut part = || parts.next().map(|part| address(register(part)?)).transpose();
    let base = part()?.ok_or("no address")?;
    let index = part()?;
    let shift = match parts.next() {
        None | Some("1") => 0,
        Some("2") => 1,
        Some("4") => 2,
        Some("8") => 3,
        Some(_) => return Err("not understood"),
    };
    if parts.next().is_some() || index == Some(STACK) {
        return Err("not understood");
    }
    let displacement = match displacement {
        "" => 0,
        displacement => number(displacement).ok_or("relative to a symbol")?,
    };
    Ok(Operand::Memory { base, index, shift, displacement })
}

#[cfg(test)]
mod tests {
    use agent_ebpf::{Arg, NO_INDEX, how};

    use super::super::{Machine, NOWHERE, parse};

    fn check(spec: &str, expect: Arg) {
        assert_eq!(parse(Machine::X86_64, spec), Ok(expect), "{spec}");
    }

    #[test]
    fn registers() {
        let check = |spec, base, size, signed| {
            check(spec, Arg { base, how: how::REGISTER, size, signed, ..NOWHERE });
        };
        check("8@%rdi", 112, 8, 0);
        check("-4@%eax", 80, 4, 1);
        check("2@%bx", 40, 2, 0);
        check("1@%dil", 112, 1, 0);
        check("-1@%r9b", 64, 1, 1);
        check("8@%rsp", 152, 8, 0);
        check("8@%r15", 0, 8, 0);
        check("4@%r12d", 24, 4, 0);
        check("2@%r8w", 72, 2, 0);
        // No more of a register than its name says.
        check("8@%eax", 80, 4, 0);
        check("%cl", 88, 1, 0);
    }

    #[test]
    fn memory() {
        let check = |spec, value, base, index, shift| {
            check(spec, Arg { value, base, index, shift, how: how::MEMORY, size: 8, ..NOWHERE });
        };
        check("8@(%rax)", 0, 80, NO_INDEX, 0);
        check("8@-56(%rbp)", -56, 32, NO_INDEX, 0);
        check("8@0x10(%rsp)", 16, 152, NO_INDEX, 0);
        check("8@8(%rax,%rdx)", 8, 80, 96, 0);
        check("8@8(%rax,%rdx,4)", 8, 80, 96, 2);
        check("8@-8(%r8, %r9, 8)", -8, 72, 64, 3);
        check("152(%rdi)", 152, 112, NO_INDEX, 0);
    }

    #[test]
    fn what_cannot_be_read() {
        for operand in [
            "%ah",
            "%ch",
            "%xmm0",
            "%st(0)",
            "%rip",
            "%fs:40",
            "%",
            "rax",
            "%RAX",
            "%r16",
            "%r08",
            "8(%rip)",
            "sym(%rip)",
            "sym+8(%rip)",
            "sym",
            "8",
            "(%eax)",
            "(%rax,%edx)",
            "(,%rdx,8)",
            "()",
            "(",
            ")",
            "8(%rax",
            "8%rax)",
            "(%rax,%rsp)",
            "(%rax,%rdx,3)",
            "(%rax,%rdx,4,1)",
            "(%rax,)",
            "((%rax))",
            "*%rax",
            "+8(%rax)",
            "99999999999999999999(%rax)",
            "$1(%rax)",
        ] {
            assert!(parse(Machine::X86_64, &format!("8@{operand}")).is_err(), "{operand}");
        }
    }
}
