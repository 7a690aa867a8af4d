//! Where a probe's arguments are, from the operands that the compiler wrote into its note: `8@%rdx -4@-60(%rbp)`.

mod aarch64;
mod x86_64;

use agent_ebpf::{Arg, NO_INDEX, how};

use super::Machine;

/// Arguments of one note that are read, in bytes; HotSpot's longest have 90.
const MOST_BYTES: usize = 4 << 10;

/// No place.
pub const NOWHERE: Arg =
    Arg { value: 0, base: 0, index: NO_INDEX, how: how::NONE, size: 0, signed: 0, shift: 0 };

/// A place that an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Constant(i64),
    /// Offset of the register, and how many bytes of it are meant.
    Register(u16, u8),
    Memory {
        base: u16,
        index: Option<u16>,
        shift: u8,
        displacement: i64,
    },
}

/// Why an argument cannot be read.
pub type Refused = &'static str;

/// The arguments of a note, one after the other.
///
/// # Errors
/// When they are no text, or too long.
pub fn split(args: &[u8]) -> Result<Vec<&str>, Refused> {
    if args.len() > MOST_BYTES {
        return Err("too long");
    }
    let args = std::str::from_utf8(args).map_err(|_| "no text")?;
    let mut depth = 0_usize;
    // Blanks separate arguments, and also what is inside of aarch64's brackets.
    let parts = args.split(|c: char| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c.is_ascii_whitespace() && depth == 0
    });
    Ok(parts.filter(|part| !part.is_empty()).collect())
}

/// Reads one argument: `N@OPERAND`, where N has a minus when it has a sign. Old notes have no N.
///
/// # Errors
/// When the probes cannot look there.
pub fn parse(machine: Machine, spec: &str) -> Result<Arg, Refused> {
    let (size, operand) = spec.split_once('@').unwrap_or(("8", spec));
    let (signed, size) = match size.strip_prefix('-') {
        Some(size) => (true, size),
        None => (false, size),
    };
    let size = match size {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return Err("no integer"),
    };
    let operand = match machine {
        Machine::X86_64 => x86_64::operand(operand)?,
        Machine::Aarch64 => aarch64::operand(operand)?,
    };
    let plain = Arg { size, signed: u8::from(signed), ..NOWHERE };
    Ok(match operand {
        Operand::Constant(value) => Arg { how: how::CONSTANT, value: cut(value, size, signed), ..plain },
        Operand::Register(base, width) => Arg { how: how::REGISTER, base, size: size.min(width), ..plain },
        Operand::Memory { base, index, shift, displacement } => Arg {
            how: how::MEMORY,
            value: displacement,
            base,
            index: index.unwrap_or(NO_INDEX),
            shift,
            ..plain
        },
    })
}

/// The offset of a register that makes an address, of which all bytes are meant.
fn address((offset, bytes): (u16, u8)) -> Result<u16, Refused> {
    if bytes == 8 { Ok(offset) } else { Err("an address of fewer than 64 bits") }
}

/// A constant as a variable of that size has it.
fn cut(value: i64, size: u8, signed: bool) -> i64 {
    let unused = 64 - 8 * u32::from(size);
    let shifted = value << unused;
    if signed { shifted >> unused } else { (shifted.cast_unsigned() >> unused).cast_signed() }
}

/// A number of the assembler that fits 64 bits, with or without a sign.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { Some(magnitude.cast_signed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_told_apart() {
        let check = |text: &str, expect: &[&str]| assert_eq!(split(text.as_bytes()).as_deref(), Ok(expect));
        check("", &[]);
        check(
            "8@%rdx -4@-60(%rbp)  1@$1\t8@8(%rax, %rdx, 4)",
            &["8@%rdx", "-4@-60(%rbp)", "1@$1", "8@8(%rax, %rdx, 4)"],
        );
        check("8@[sp, 16] 4@w0", &["8@[sp, 16]", "4@w0"]);
        check("8@[sp, 16 4@w0", &["8@[sp, 16 4@w0"]);
        check("8@)x0 4@w0", &["8@)x0", "4@w0"]);
        assert_eq!(split(b"8@\xff"), Err("no text"));
        assert_eq!(split(&[b' '; MOST_BYTES + 1]), Err("too long"));
    }

    #[test]
    fn constants_are_as_their_variables_have_them() {
        let check = |spec: &str, expect: i64| {
            let arg = parse(Machine::X86_64, spec).unwrap();
            assert_eq!((arg.how, arg.value), (how::CONSTANT, expect), "{spec}");
        };
        check("1@$1", 1);
        check("-4@$-5", -5);
        check("4@$-1", 0xffff_ffff);
        check("1@$256", 0);
        check("-1@$255", -1);
        check("8@$0xffffffffffffffff", -1);
        check("8@$-9223372036854775808", i64::MIN);
        check("$7", 7);
    }

    #[test]
    fn sizes_and_numbers_that_are_none() {
        for spec in [
            "",
            "@",
            "8@",
            "3@$1",
            "--4@$1",
            "+4@$1",
            "16@$1",
            "8f@$1",
            "8@$",
            "8@$-",
            "8@$+1",
            "8@$0x",
            "8@$0x-1",
            "8@$1x",
            "8@$18446744073709551616",
            "8@$-9223372036854775809",
            "8@$sym",
            "8@ $1",
        ] {
            assert!(parse(Machine::X86_64, spec).is_err(), "{spec:?}");
        }
    }
}
