//! Functions that stand for static probes in a HotSpot that was built without those.

use std::io::{Read, Seek};

use agent_ebpf::{ARGS, Arg, NO_INDEX, Probe, Site, how};
use object::{
    LittleEndian,
    elf::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Sym64},
    read::elf::{SectionHeader as _, Sym as _},
};

use super::{Found, Group, Machine, elf::Image, instruction};

/// A release build has 60,000 symbols, 1.4 MiB, with 2.7 MiB of names.
const MOST_BYTES: u64 = 24 << 20;

/// A function that a thread enters when it would come by a probe.
struct Function {
    symbol: &'static str,
    probe: Probe,
    args: fn(Machine) -> [Arg; ARGS],
}

const NOWHERE: Arg = Arg { value: 0, base: 0, index: NO_INDEX, how: how::NONE, size: 0, signed: 0, shift: 0 };
const YES: Arg = Arg { value: 1, how: how::CONSTANT, size: 1, ..NOWHERE };

fn none(_: Machine) -> [Arg; ARGS] {
    [NOWHERE; ARGS]
}

/// `ClassLoadingService::notify_class_loaded(InstanceKlass*, bool shared_class)`: the second argument by the calling
/// conventions, in %sil and in w1.
fn shared(machine: Machine) -> [Arg; ARGS] {
    let base = match machine {
        Machine::X86_64 => 104,
        Machine::Aarch64 => 8,
    };
    [NOWHERE, NOWHERE, Arg { base, how: how::REGISTER, size: 1, ..NOWHERE }, NOWHERE]
}

/// Whether a compilation succeeded is in a field of its task that moves from release to release.
fn succeeded(_: Machine) -> [Arg; ARGS] {
    [NOWHERE, NOWHERE, YES, NOWHERE]
}

/// The functions of a group, and what they do not tell.
fn functions(group: Group) -> (&'static [Function], &'static str) {
    match group {
        // Its own probe is in it (share/services/classLoadingService.cpp).
        Group::Classes => (
            &[Function {
                symbol: "_ZN19ClassLoadingService19notify_class_loadedEP13InstanceKlassb",
                probe: Probe::ClassLoaded,
                args: shared,
            }],
            "they do not tell names",
        ),
        // The first calls the second once, just behind the probe of a compilation's end, and nothing else does, in 8 to 25
        // (share/compiler/compileBroker.cpp).
        Group::Compiles => (
            &[
                Function {
                    symbol: "_ZN13CompileBroker25invoke_compiler_on_methodEP11CompileTask",
                    probe: Probe::CompileBegin,
                    args: none,
                },
                Function {
                    symbol: "_ZN13CompileBroker18collect_statisticsEP14CompilerThread12elapsedTimerP11CompileTask",
                    probe: Probe::CompileEnd,
                    args: succeeded,
                },
            ],
            "they do not tell names, and failed compilations count as successful ones",
        ),
        Group::Safepoints => (
            &[
                Function {
                    symbol: "_ZN20SafepointSynchronize5beginEv",
                    probe: Probe::SafepointBegin,
                    args: none,
                },
                Function {
                    symbol: "_ZN20SafepointSynchronize3endEv",
                    probe: Probe::SafepointEnd,
                    args: none,
                },
            ],
            "a safepoint ends when threads are about to be released",
        ),
        Group::Gc | Group::Threads | Group::VmInit => (&[], ""),
    }
}

/// The sites of functions that stand for the probes of a group, and what they do not tell.
///
/// # Errors
/// Why they cannot be used, in one line.
pub fn sites<R: Read + Seek>(
    image: &Image<'_, R>,
    group: Group,
) -> Result<(Vec<Found>, &'static str), String> {
    let (functions, lacks) = functions(group);
    if functions.is_empty() {
        return Err("no function stands for them".to_owned());
    }
    let site = |function: &Function| {
        let symbol = function.symbol;
        let address = address(image, symbol)?;
        let offset = image.file_offset(address).ok_or(format!("{symbol} is at no code of this file"))?;
        let code = image.code(offset).ok_or(format!("{symbol} cannot be read"))?;
        let Some(into) = instruction::cheap_entry(image.machine, code) else {
            return Err(format!("{symbol} starts with {code:02x?}, which the kernel cannot emulate"));
        };
        let args = (function.args)(image.machine);
        Ok(Found { offset: offset + into, site: Site { args, probe: function.probe as u32, pad: 0 } })
    };
    Ok((functions.iter().map(site).collect::<Result<_, _>>()?, lacks))
}

/// Address of a function, from the table of all symbols or else that of the exported ones.
fn address<R: Read + Seek>(image: &Image<'_, R>, symbol: &str) -> Result<u64, String> {
    let table = |kind| image.sections().find(|section| section.sh_type(LittleEndian) == kind);
    let Some(table) = table(SHT_SYMTAB).or_else(|| table(SHT_DYNSYM)) else {
        return Err("there is no table of symbols".to_owned());
    };
    let names = image.linked(table).ok_or("the table of symbols has no names")?;
    let names = image.bytes(names, MOST_BYTES).map_err(|why| format!("names of symbols: {why}"))?;
    let bytes = image.bytes(table, MOST_BYTES).map_err(|why| format!("table of symbols: {why}"))?;
    let symbols = object::pod::slice_from_all_bytes::<Sym64<LittleEndian>>(bytes)
        .map_err(|()| "the table of symbols is cut short")?;
    let is_it = |name: u32| {
        let rest = usize::try_from(name).ok().and_then(|at| names.get(at..));
        rest.and_then(|rest| rest.strip_prefix(symbol.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut found = symbols.iter().filter(|entry| {
        entry.st_type() == STT_FUNC
            && entry.st_shndx(LittleEndian) != SHN_UNDEF
            && is_it(entry.st_name(LittleEndian))
    });
    let first = found.next().ok_or(format!("there is no symbol {symbol}"))?;
    if found.next().is_some() {
        return Err(format!("there are several symbols {symbol}"));
    }
    Ok(first.st_value(LittleEndian))
}
