//! Functions that stand for static probes in a HotSpot that was built without those.

use std::{
    cell::OnceCell,
    io::{Read, Seek},
};

use agent_ebpf::{ARGS, Arg, Probe, Site, how};
use object::{
    LittleEndian,
    elf::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Sym64},
    read::elf::{SectionHeader as _, Sym as _},
};

use super::{Found, Machine, arg::NOWHERE, elf::Image, instruction, wanted::Group};

/// A release build has 60,000 symbols, 1.4 MiB, with 2.7 MiB of names.
const MOST_BYTES: u64 = 8 << 20;

/// A function that a thread enters when it would come by a probe.
struct Function {
    symbol: &'static str,
    probe: Probe,
    args: fn(Machine) -> [Arg; ARGS],
}

const CLASSES: &[Function] = &[Function {
    // Its own probe is in it (share/services/classLoadingService.cpp).
    symbol: "_ZN19ClassLoadingService19notify_class_loadedEP13InstanceKlassb",
    probe: Probe::ClassLoaded,
    args: shared,
}];

const COMPILES: &[Function] = &[
    Function {
        symbol: "_ZN13CompileBroker25invoke_compiler_on_methodEP11CompileTask",
        probe: Probe::CompileBegin,
        args: none,
    },
    Function {
        // Called by that one alone, once, just behind the probe of the compilation's end (share/compiler/compileBroker.cpp).
        symbol: "_ZN13CompileBroker18collect_statisticsEP14CompilerThread12elapsedTimerP11CompileTask",
        probe: Probe::CompileEnd,
        args: succeeded,
    },
];

/// Their probes are near the entry of the first and the end of the second (share/runtime/safepoint.cpp).
const SAFEPOINTS: &[Function] = &[
    Function { symbol: "_ZN20SafepointSynchronize5beginEv", probe: Probe::SafepointBegin, args: none },
    Function { symbol: "_ZN20SafepointSynchronize3endEv", probe: Probe::SafepointEnd, args: none },
];

fn none(_: Machine) -> [Arg; ARGS] {
    [NOWHERE; ARGS]
}

/// `ClassLoadingService::notify_class_loaded(InstanceKlass*, bool shared_class)`: the second argument is in %sil or w1 by
/// the calling conventions.
fn shared(machine: Machine) -> [Arg; ARGS] {
    let base = match machine {
        Machine::X86_64 => 104,
        Machine::Aarch64 => 8,
    };
    [NOWHERE, NOWHERE, Arg { base, how: how::REGISTER, size: 1, ..NOWHERE }, NOWHERE]
}

/// Whether a compilation succeeded is in a field of its task, which moves from release to release.
fn succeeded(_: Machine) -> [Arg; ARGS] {
    [NOWHERE, NOWHERE, Arg { value: 1, how: how::CONSTANT, size: 1, ..NOWHERE }, NOWHERE]
}

/// The functions of a group, and what they do worse than its static probes.
fn functions(group: Group) -> (&'static [Function], &'static str) {
    match group {
        Group::Classes => (CLASSES, "do not tell names"),
        Group::Compiles => (COMPILES, "tell neither names nor failures: every compilation counts as done"),
        Group::Safepoints => (SAFEPOINTS, "end a safepoint a little early"),
        Group::Gc | Group::Threads => (&[], ""),
    }
}

/// The symbols of a file, read when the first is looked for.
pub struct Symbols<'i, 'a, R: Read + Seek> {
    image: &'i Image<'a, R>,
    table: OnceCell<Result<Table<'a>, String>>,
}

struct Table<'a> {
    entries: &'a [Sym64<LittleEndian>],
    names: &'a [u8],
}

impl<'i, 'a, R: Read + Seek> Symbols<'i, 'a, R> {
    /// Those of `image`.
    pub fn of(image: &'i Image<'a, R>) -> Self {
        Self { image, table: OnceCell::new() }
    }

    /// The sites of functions that stand for the probes of a group, and what they do worse.
    ///
    /// # Errors
    /// Why there are none, in one line.
    pub fn sites(&self, group: Group) -> Result<(Vec<Found>, &'static str), String> {
        let (functions, worse) = functions(group);
        if functions.is_empty() {
            return Err("no function stands for them".to_owned());
        }
        let sites = functions.iter().map(|function| self.site(function)).collect::<Result<_, _>>()?;
        Ok((sites, worse))
    }

    fn site(&self, function: &Function) -> Result<Found, String> {
        let (Function { symbol, probe, args }, machine) = (function, self.image.machine);
        let table = self.table.get_or_init(|| Table::read(self.image)).as_ref().map_err(String::clone)?;
        let address = table.address(symbol)?;
        let offset = self.image.file_offset(address).ok_or(format!("{symbol} is at no code of this file"))?;
        let code = self.image.code(offset).ok_or(format!("{symbol} cannot be read"))?;
        let Some(into) = instruction::cheap_entry(machine, code) else {
            return Err(format!("{symbol} starts with {code:02x?}, which the kernel does not emulate"));
        };
        Ok(Found { offset: offset + into, site: Site { args: args(machine), probe: *probe as u32, pad: 0 } })
    }
}

impl<'a> Table<'a> {
    /// Reads the table of all symbols, or else that of the exported ones.
    fn read<R: Read + Seek>(image: &Image<'a, R>) -> Result<Self, String> {
        let table = |kind| image.sections().find(|section| section.sh_type(LittleEndian) == kind);
        let table = table(SHT_SYMTAB).or_else(|| table(SHT_DYNSYM)).ok_or("there are no symbols")?;
        let names = image.linked(table).ok_or("symbols have no names")?;
        let names = image.bytes(names, MOST_BYTES).map_err(|why| format!("names of symbols: {why}"))?;
        let entries = image.bytes(table, MOST_BYTES).map_err(|why| format!("symbols: {why}"))?;
        let entries = object::pod::slice_from_all_bytes(entries)
            .map_err(|()| "symbols are not a whole number of entries")?;
        Ok(Self { entries, names })
    }

    fn address(&self, symbol: &str) -> Result<u64, String> {
        let is_it = |name: u32| {
            let name = usize::try_from(name).ok().and_then(|at| self.names.get(at..));
            let rest = name.and_then(|name| name.strip_prefix(symbol.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        };
        let mut found = self.entries.iter().filter(|entry| {
            entry.st_type() == STT_FUNC
                && entry.st_shndx(LittleEndian) != SHN_UNDEF
                && is_it(entry.st_name(LittleEndian))
        });
        let first = found.next().ok_or(format!("there is no symbol {symbol}"))?;
        match found.next() {
            None => Ok(first.st_value(LittleEndian)),
            Some(_) => Err(format!("there are several symbols {symbol}")),
        }
    }
}
