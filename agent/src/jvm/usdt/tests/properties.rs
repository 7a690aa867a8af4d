//! On whatever there may be.

use agent_ebpf::{Arg, NO_INDEX, Probe, how};
use proptest::prelude::*;

use super::{
    made::{Made, MadeNote},
    *,
};
use crate::jvm::usdt::{arg, noted::MOST_SITES};

/// Offset of the last register of `struct pt_regs` on any architecture.
const LAST_REGISTER: u16 = 248;

fn machine() -> impl Strategy<Value = Machine> {
    prop_oneof![Just(Machine::X86_64), Just(Machine::Aarch64)]
}

/// Pieces of operands, put together in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "8@",
        "-4@",
        "1@",
        "@",
        "%",
        "$",
        "-",
        "0x",
        "rax",
        "eax",
        "r15b",
        "x30",
        "w7",
        "sp",
        "xzr",
        "lsl",
        "#",
        "(",
        ")",
        "[",
        "]",
        ",",
        " ",
        "4",
        "18446744073709551616",
        "-9223372036854775808",
        "é",
        "+",
        "sym",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn check_arg(arg: Arg) -> Result<(), TestCaseError> {
    let is_register = |offset: u16| offset.is_multiple_of(8) && offset <= LAST_REGISTER;
    prop_assert!([1, 2, 4, 8].contains(&arg.size) && arg.signed <= 1 && arg.shift <= 3, "{arg:?}");
    match arg.how {
        how::CONSTANT => {}
        how::REGISTER => prop_assert!(is_register(arg.base), "{arg:?}"),
        how::MEMORY => {
            prop_assert!(is_register(arg.base), "{arg:?}");
            prop_assert!(arg.index == NO_INDEX || is_register(arg.index), "{arg:?}");
        }
        _ => prop_assert!(false, "{arg:?}"),
    }
    Ok(())
}

fn check_args(machine: Machine, text: &str) -> Result<(), TestCaseError> {
    for spec in arg::split(text.as_bytes()).into_iter().flatten().chain([text]) {
        if let Ok(arg) = arg::parse(machine, spec) {
            check_arg(arg)?;
        }
    }
    Ok(())
}

/// Every place that is given is one where a probe does no harm, and their number is bounded.
fn check_sites(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(all) = scanned(bytes) else { return Ok(()) };
    prop_assert!(all.sites.len() <= MOST_SITES + 5 && all.problems.len() <= 4 * MOST_SITES + 7);
    for found in &all.sites {
        let code = &bytes[usize::try_from(found.offset).unwrap()..];
        // No function stands for these.
        let is_noted = [Probe::GcBegin, Probe::GcEnd, Probe::ThreadStart]
            .iter()
            .any(|probe| found.site.probe == *probe as u32);
        match bytes[0x12] {
            62 if is_noted => prop_assert_eq!(code[0], 0x90),
            62 => prop_assert!(matches!(code, [0x90 | 0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..])),
            _ if is_noted => prop_assert_eq!(&code[..4], &[0x1f, 0x20, 0x03, 0xd5][..]),
            _ => {}
        }
        for arg in found.site.args {
            if arg.how != how::NONE {
                check_arg(arg)?;
            }
        }
    }
    Ok(())
}

fn note() -> impl Strategy<Value = MadeNote> {
    let probe = prop::sample::select(vec![
        "hotspot:class__loaded",
        "hotspot:method__compile__end",
        "hotspot:gc__begin",
        "hotspot:gc__end",
        "hotspot:object__alloc",
    ]);
    let semaphore = prop_oneof![9 => Just(0), 1 => any::<u64>()];
    let args = prop_oneof![pieces(), "[ -~]{0,60}"];
    (0_u64..0x2000, probe, args, semaphore).prop_map(|(at, probe, args, semaphore)| MadeNote {
        at,
        probe,
        args,
        semaphore,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_as_arguments(machine in machine(), text in prop_oneof![pieces(), any::<String>()]) {
        check_args(machine, &text)?;
    }

    #[test]
    fn memory_is_read_as_the_assembler_writes_it(
        displacement in any::<i32>(), base in 0_u16..31, index in prop::option::of((0_u16..31, 0_u8..4)),
    ) {
        const NAMES: [&str; 16] = [
            "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "rsp",
        ];
        let index_x86 = index.map(|(index, shift)| (index % 15, shift));
        let expected = |base, index: Option<(u16, u8)>, displacement: i32| Arg {
            value: displacement.into(),
            base,
            index: index.map_or(NO_INDEX, |(index, _)| index * 8),
            how: how::MEMORY,
            size: 4,
            signed: 1,
            shift: index.map_or(0, |(_, shift)| shift),
        };
        let inside = match index_x86 {
            Some((index, shift)) => format!(",%{},{}", NAMES[usize::from(index)], 1 << shift),
            None => String::new(),
        };
        let number = base % 15;
        let spec = format!("-4@{displacement}(%{}{inside})", NAMES[usize::from(number)]);
        prop_assert_eq!(arg::parse(Machine::X86_64, &spec), Ok(expected(number * 8, index_x86, displacement)));
        // There an index excludes a displacement.
        let (spec, displacement) = match index {
            Some((index, shift)) => (format!("-4@[x{base}, x{index}, lsl {shift}]"), 0),
            None => (format!("-4@[x{base}, {displacement}]"), displacement),
        };
        prop_assert_eq!(arg::parse(Machine::Aarch64, &spec), Ok(expected(base * 8, index, displacement)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_as_a_file(head in any::<bool>(), mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if head && bytes.len() > 20 {
            bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            bytes[18..20].copy_from_slice(&62_u16.to_le_bytes());
        }
        check_sites(&bytes)?;
    }

    #[test]
    fn any_bytes_as_notes(machine in machine(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check_sites(&Made { raw_notes: Some(bytes), ..Made::of(machine) }.bytes())?;
    }

    #[test]
    fn any_notes(machine in machine(), notes in prop::collection::vec(note(), 0..80)) {
        check_sites(&Made { notes, ..Made::of(machine) }.bytes())?;
    }

    #[test]
    fn a_file_that_was_damaged(
        machine in machine(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        outside_code in any::<bool>(),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Made::of(machine).bytes();
        for (at, byte) in changes {
            // What is not code is the smaller part, and the one that is read most.
            let at = if outside_code { (0x2000 + at.index(bytes.len() - 0x2000 + 120)) % bytes.len() } else { at.index(bytes.len()) };
            bytes[at] = byte;
        }
        check_sites(&bytes)?;
        bytes.truncate(length.index(bytes.len()));
        check_sites(&bytes)?;
    }
}
