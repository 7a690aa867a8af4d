//! Files that are made for one thing to be told of each.

use agent_ebpf::{Arg, NO_INDEX, Probe, how};

use super::{
    made::{CODE_BYTES, CODE_OFFSET, Made},
    *,
};
use crate::jvm::usdt::{arg::NOWHERE, noted::MOST_SITES};

const X86_64: Machine = Machine::X86_64;
const AARCH64: Machine = Machine::Aarch64;

fn check(change: impl Fn(&mut Made), probed: Probed, problems: &[&str]) -> Sites {
    let mut made = Made::of(X86_64);
    change(&mut made);
    let all = scanned(&made.bytes()).unwrap();
    assert_eq!((all.probed, all.problems.iter().map(String::as_str).collect()), (probed, problems.to_vec()));
    all
}

fn found(all: &Sites, probe: Probe) -> Vec<u64> {
    let of_it = all.sites.iter().filter(|found| found.site.probe == probe as u32);
    of_it.map(|found| found.offset - CODE_OFFSET).collect()
}

#[test]
fn both_architectures_are_read_on_any_host() {
    let register = |base, size, signed| Arg { base, how: how::REGISTER, size, signed, ..NOWHERE };
    let memory = |base, value, size, signed| Arg { base, value, how: how::MEMORY, size, signed, ..NOWHERE };
    let expected = [
        (
            X86_64,
            [register(96, 8, 0), register(80, 4, 1), register(88, 1, 0)],
            memory(8, 37, 1, 0),
            [register(16, 8, 0), memory(32, -60, 4, 1)],
        ),
        (
            AARCH64,
            [register(16, 8, 0), register(0, 4, 1), register(24, 1, 0)],
            memory(168, 37, 1, 0),
            [memory(248, 72, 8, 0), memory(232, -12, 4, 1)],
        ),
    ];
    for (machine, loaded, success, started) in expected {
        let all = scanned(&Made::of(machine).bytes()).unwrap();
        assert_eq!((all.probed, all.problems), (every(Source::Usdt), Vec::new()), "{machine}");
        let offsets: Vec<u64> = all.sites.iter().map(|found| found.offset).collect();
        assert_eq!(offsets, (0..8).map(|at| CODE_OFFSET + 16 * at).collect::<Vec<_>>());
        assert_eq!(all.sites[0].site.args[..3], loaded, "{machine}");
        assert_eq!(all.sites[2].site.args[2], success, "{machine}");
        assert_eq!(all.sites[7].site.args[..2], started, "{machine}");
        assert_eq!(all.sites[0].site.args[3].index, NO_INDEX);
    }
}

#[test]
fn only_the_architecture_that_runs_is_probed() {
    let read = |machine| sites(Cursor::new(Made::of(machine).bytes()));
    let (own, other) = if cfg!(target_arch = "x86_64") { (X86_64, AARCH64) } else { (AARCH64, X86_64) };
    assert_eq!(read(own).unwrap().probed, every(Source::Usdt));
    assert_eq!(read(other), Err(SitesError::OtherMachine(other)));
}

#[test]
fn files_of_other_kinds() {
    let good = Made::of(X86_64).bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        scanned(&bytes).unwrap_err()
    };
    assert_eq!(scanned(b"").unwrap_err(), SitesError::NotElf);
    assert_eq!(scanned(b"#!/bin/sh\nexec java\n").unwrap_err(), SitesError::NotElf);
    assert_eq!(with(4, 1), SitesError::Not64Bit);
    assert_eq!(with(5, 2), SitesError::BigEndian);
    assert_eq!(with(0x12, 243), SitesError::UnknownMachine(243));
    let malformed = |error| matches!(error, SitesError::Malformed { .. });
    assert!(malformed(scanned(&good[..40]).unwrap_err()));
    assert!(malformed(scanned(&good[..good.len() - 1]).unwrap_err()), "section headers are at the end");
    // A length that no honest file has, of the program headers and of the section headers.
    assert!(malformed(with(0x27, 0x80)) && malformed(with(0x2f, 0x80)));
}

#[test]
fn addresses_are_moved_as_prelink_moved_the_file() {
    let all = check(|made| made.moved = 0x5000, every(Source::Usdt), &[]);
    assert_eq!(found(&all, Probe::ThreadStart), [0x70]);
}

#[test]
fn several_sites_of_a_probe_are_all_used_and_each_once() {
    let twice = |made: &mut Made| {
        let mut again = made.notes.clone();
        again.retain(|note| note.probe == "hotspot:gc__begin");
        made.notes.extend(again.clone());
        again[0].at = 0x200;
        made.notes.extend(again);
    };
    let all = check(twice, every(Source::Usdt), &[]);
    assert_eq!(found(&all, Probe::GcBegin), [0x30, 0x200]);
}

/// A change, and the problem that comes of it.
type Case = (fn(&mut Made), &'static str);

#[test]
fn a_group_with_a_site_that_cannot_be_used_is_not_half_counted() {
    let no_gc = Probed { gc: Source::None, ..every(Source::Usdt) };
    let cases: [Case; 3] = [
        (
            |made| made.notes[4].semaphore = 0x60_0000,
            "hotspot:gc__end at 0x401040: it is off until a semaphore in the JVM's memory is raised, which jcold does not touch",
        ),
        (|made| made.code[0x40] = 0xc3, "hotspot:gc__end at 0x401040: its instruction is no nop"),
        (|made| made.notes[4].at = 0x10_0000, "hotspot:gc__end at 0x501000: no code of this file is there"),
    ];
    let whole = "gc: a site of its static probes cannot be used, and no function stands for them";
    for (change, why) in cases {
        let all = check(change, no_gc, &[why, whole]);
        assert!(found(&all, Probe::GcBegin).is_empty());
    }
    let missing = "gc: no static probe hotspot:gc__end, and no function stands for them";
    check(|made| drop(made.notes.remove(4)), no_gc, &[missing]);
}

#[test]
fn functions_stand_for_a_group_that_is_not_whole() {
    let compiles = Probed { compiles: Source::Symbol, ..every(Source::Usdt) };
    let line = "compiles: no static probe hotspot:method__compile__end; counted at functions, \
                which tell neither names nor failures: every compilation counts as done";
    let all = check(|made| drop(made.notes.remove(2)), compiles, &[line]);
    assert_eq!(found(&all, Probe::CompileBegin), [0x810]);
    assert_eq!(found(&all, Probe::CompileEnd), [0x820]);
    let end = all.sites.iter().find(|found| found.site.probe == Probe::CompileEnd as u32).unwrap();
    assert_eq!(
        (end.site.args[0].how, end.site.args[2].how, end.site.args[2].value),
        (how::NONE, how::CONSTANT, 1)
    );
}

#[test]
fn functions_are_used_where_a_probe_is_cheap() {
    let with = |machine, code: &[u8]| {
        let mut made = Made::of(machine);
        made.notes.clear();
        made.code[0x800..][..code.len()].copy_from_slice(code);
        let all = scanned(&made.bytes()).unwrap();
        assert_eq!(all.probed.compiles, Source::Symbol);
        (found(&all, Probe::ClassLoaded), all)
    };
    let cheap =
        |machine, code: &[u8], at: u64| assert_eq!(with(machine, code).0, [0x800 + at], "{code:02x?}");
    cheap(X86_64, &[0x55, 0x89, 0xf1], 0);
    cheap(X86_64, &[0x41, 0x57], 0);
    cheap(X86_64, &[0xf3, 0x0f, 0x1e, 0xfa, 0x55], 4);
    cheap(X86_64, &[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54], 4);
    cheap(AARCH64, &0x9000_0003_u32.to_le_bytes(), 0);
    cheap(AARCH64, &0xb400_0040_u32.to_le_bytes(), 0);
    let dear = |machine, code: &[u8]| {
        let (offsets, all) = with(machine, code);
        assert!(offsets.is_empty() && all.probed.classes == Source::None, "{code:02x?}");
        let said = all.problems.iter().find(|line| line.starts_with("classes: ")).unwrap();
        assert!(said.ends_with("which the kernel does not emulate"), "{said}");
    };
    // mov %rsp,%rbp; a nop of four bytes; endbr64 before another; xchg %r8,%rax; push $0.
    for code in [
        &[0x48, 0x89, 0xe5][..],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0xf3, 0x0f, 0x1e, 0xfa, 0x89, 0xf1],
        &[0x49, 0x90],
        &[0x6a, 0x00],
    ] {
        dear(X86_64, code);
    }
    // stp x29, x30, [sp, -32]!; bti c; paciasp.
    for word in [0xa9be_7bfd_u32, 0xd503_245f, 0xd503_233f] {
        dear(AARCH64, &word.to_le_bytes());
    }
}

#[test]
fn an_argument_that_cannot_be_used_leaves_its_site() {
    let line = "hotspot:class__loaded at 0x401000: argument 0 is \"8@%xmm0\": a register that cannot be read";
    let all = check(
        |made| made.notes[0].args = "8@%xmm0 -4@%eax 8@%rdi 1@%cl".into(),
        every(Source::Usdt),
        &[line],
    );
    assert_eq!(
        all.sites[0].site.args.map(|arg| arg.how),
        [how::NONE, how::REGISTER, how::REGISTER, how::NONE]
    );
    let line = "hotspot:class__loaded at 0x401000: it has no argument 3";
    check(|made| made.notes[0].args = "8@%rdx -4@%eax 8@%rdi".into(), every(Source::Usdt), &[line]);
    let line = "hotspot:class__loaded at 0x401000: its arguments are too long";
    check(|made| made.notes[0].args = "8@%rdx ".repeat(600), every(Source::Usdt), &[line]);
}

#[test]
fn notes_that_are_cut_short_are_not_used() {
    let whole = Made::of(X86_64);
    let bytes = {
        let mut only = whole.clone();
        only.notes.truncate(1);
        only.bytes()
    };
    let section = &bytes[usize::try_from(CODE_OFFSET).unwrap() + CODE_BYTES..];
    for length in [12 + 8 + 20, 12 + 5] {
        let mut made = whole.clone();
        made.raw_notes = Some(section[..length].to_vec());
        let all = scanned(&made.bytes()).unwrap();
        assert_eq!(all.probed, by_functions());
        assert!(all.problems[0].starts_with(".note.stapsdt: "), "{:?}", all.problems);
    }
}

#[test]
fn what_is_read_is_bounded() {
    let many = |made: &mut Made| {
        let gc = made.notes[3].clone();
        made.notes = vec![gc; MOST_SITES + 1];
    };
    let mut made = Made::of(X86_64);
    many(&mut made);
    let all = scanned(&made.bytes()).unwrap();
    assert_eq!(all.probed, by_functions());
    assert_eq!(all.problems[0], "there are more than 64 sites of interest: none is used");
    let mut made = Made::of(X86_64);
    made.raw_notes = Some(vec![0; (1 << 20) + 1]);
    let all = scanned(&made.bytes()).unwrap();
    assert_eq!(all.problems[0], ".note.stapsdt: it has 1048577 bytes, more than the 1048576 that are read");
}
