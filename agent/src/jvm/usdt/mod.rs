//! Where a `libjvm.so` can be probed: at HotSpot's static probes (USDT), or at functions that stand for them where it was
//! built without.
//!
//! Only headers, the notes and, where those lack something, the tables of symbols are read.

mod arg;
mod elf;
mod instruction;
mod note;
mod symbols;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{Read, Seek},
};

use agent_ebpf::{ARGS, Probe, Site};
use timeline::{Probed, Source};

use self::{
    elf::{Budget, Image},
    note::Note,
};

/// Sites of one file that are used. HotSpot 25 has 11 of interest.
const MOST_SITES: usize = 64;
/// Bytes of an argument that are shown when it cannot be used.
const SHOWN: usize = 64;

/// What can be probed in a `libjvm.so`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// Where, each place once.
    pub sites: Vec<Found>,
    /// What they count, and by which kind of site.
    pub probed: Probed,
    /// What cannot be used and why, a line each.
    pub problems: Vec<String>,
}

/// A place where a probe is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What it is to the probes.
    pub site: Site,
}

/// Why a file cannot be probed at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitesError {
    /// Another kind of file.
    #[error("it is no ELF file")]
    NotElf,
    /// Of an architecture that is not supported.
    #[error("it is not a 64-bit file")]
    Not64Bit,
    /// Of an architecture that is not supported.
    #[error("it is a big-endian file")]
    BigEndian,
    /// Of an architecture that is not supported.
    #[error("it is for machine {0} of elf.h, neither x86-64 nor aarch64")]
    UnknownMachine(u16),
    /// A breakpoint of this machine means something else to the other one: an emulated JVM would die of it.
    #[error("it is for {0}, which this node is not")]
    OtherMachine(Machine),
    /// It is cut short, or not what it says.
    #[error("its {what} cannot be read: {source}")]
    Malformed {
        /// The part.
        what: &'static str,
        /// What is wrong with it.
        source: object::read::Error,
    },
}

/// An architecture whose registers and instructions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Machine {
    /// The one that the agent runs on.
    fn running() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
        })
    }
}

/// Work that is counted together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Classes,
    Compiles,
    Gc,
    Safepoints,
    Threads,
    VmInit,
}

impl Group {
    const ALL: [Self; 6] =
        [Self::Classes, Self::Compiles, Self::Gc, Self::Safepoints, Self::Threads, Self::VmInit];

    fn source(self, probed: &mut Probed) -> (&'static str, &mut Source) {
        match self {
            Self::Classes => ("classes", &mut probed.classes),
            Self::Compiles => ("compiles", &mut probed.compiles),
            Self::Gc => ("gc", &mut probed.gc),
            Self::Safepoints => ("safepoints", &mut probed.safepoints),
            Self::Threads => ("threads", &mut probed.threads),
            Self::VmInit => ("vm_init", &mut probed.vm_init),
        }
    }
}

/// A static probe that is attached to.
struct Wanted {
    group: Group,
    provider: &'static str,
    name: &'static str,
    probe: Probe,
    /// Which of its arguments make those of [`Probe`].
    args: &'static [usize],
}

/// Their arguments are those of share/utilities/dtrace.hpp and of the D scripts in hotspot/os/posix/dtrace.
const WANTED: [Wanted; 9] = {
    use Group::{Classes, Compiles, Gc, Safepoints, Threads, VmInit};
    const fn wanted(
        group: Group,
        provider: &'static str,
        name: &'static str,
        probe: Probe,
        args: &'static [usize],
    ) -> Wanted {
        Wanted { group, provider, name, probe, args }
    }
    [
        wanted(Classes, "hotspot", "class__loaded", Probe::ClassLoaded, &[0, 1, 3]),
        wanted(Compiles, "hotspot", "method__compile__begin", Probe::CompileBegin, &[]),
        wanted(Compiles, "hotspot", "method__compile__end", Probe::CompileEnd, &[2, 3, 8]),
        wanted(Gc, "hotspot", "gc__begin", Probe::GcBegin, &[]),
        wanted(Gc, "hotspot", "gc__end", Probe::GcEnd, &[]),
        wanted(Safepoints, "hs_private", "safepoint__begin", Probe::SafepointBegin, &[]),
        wanted(Safepoints, "hs_private", "safepoint__end", Probe::SafepointEnd, &[]),
        wanted(Threads, "hotspot", "thread__start", Probe::ThreadStart, &[0, 1]),
        wanted(VmInit, "hotspot", "vm__init__end", Probe::VmInitEnd, &[]),
    ]
};

/// Finds the sites of a `libjvm.so` of the architecture that the agent runs on.
///
/// A group of probes is used whole: if one of its sites is missing or cannot be used, counts would be silently low, so
/// functions are used in its place, or nothing.
///
/// # Errors
/// When it is no such file, or cannot be read.
pub fn sites<R: Read + Seek>(libjvm: R) -> Result<Sites, SitesError> {
    let budget = Budget::new(libjvm);
    let image = Image::open(&budget)?;
    if Machine::running() != Some(image.machine) {
        return Err(SitesError::OtherMachine(image.machine));
    }
    Ok(scan(&image))
}

fn scan<R: Read + Seek>(image: &Image<'_, R>) -> Sites {
    let mut all = Sites::default();
    let mut noted = Noted::read(image, &mut all.problems);
    for group in Group::ALL {
        let (name, source) = group.source(&mut all.probed);
        let why_not = match noted.take(group) {
            Ok(found) => {
                *source = Source::Usdt;
                all.sites.extend(found);
                continue;
            }
            Err(why) => why,
        };
        all.problems.push(match symbols::sites(image, group) {
            Ok((found, lacks)) => {
                *source = Source::Symbol;
                all.sites.extend(found);
                format!("{name}: {why_not}; counted at functions, {lacks}")
            }
            Err(why) => format!("{name}: {why_not}, and {why}"),
        });
    }
    all
}

/// What the notes of a file give.
#[derive(Default)]
struct Noted {
    sites: Vec<(Group, Found)>,
    spoiled: Vec<Group>,
}

impl Noted {
    fn read<R: Read + Seek>(image: &Image<'_, R>, problems: &mut Vec<String>) -> Self {
        let mut noted = Self::default();
        let mut more = 0_usize;
        let read = note::each(image, |note| {
            let is_it = |wanted: &&Wanted| {
                note.provider == wanted.provider.as_bytes() && note.name == wanted.name.as_bytes()
            };
            let Some(wanted) = WANTED.iter().find(is_it) else { return true };
            more += 1;
            if more > MOST_SITES {
                return false;
            }
            noted.add(image, wanted, &note, problems);
            true
        });
        if let Err(why) = read {
            problems.push(why);
        }
        if more > MOST_SITES {
            problems.push(format!("more than {MOST_SITES} sites: none is used"));
            noted.sites.clear();
        }
        noted
    }

    fn add<R: Read + Seek>(
        &mut self,
        image: &Image<'_, R>,
        wanted: &Wanted,
        note: &Note<'_>,
        problems: &mut Vec<String>,
    ) {
        let Note { pc, .. } = *note;
        let mut problem = |why: &str| {
            problems.push(format!("{}:{} at {pc:#x}: {why}", wanted.provider, wanted.name));
        };
        let offset = match usable(image, note) {
            Ok(offset) => offset,
            Err(why) => {
                problem(why);
                self.spoiled.push(wanted.group);
                return;
            }
        };
        let mut args = [agent_ebpf::Arg::default(); ARGS];
        let specs = if wanted.args.is_empty() { Ok(Vec::new()) } else { arg::split(note.args) };
        let specs = specs.unwrap_or_else(|why| {
            problem(&format!("its arguments are {why}"));
            Vec::new()
        });
        for (arg, index) in args.iter_mut().zip(wanted.args) {
            let Some(spec) = specs.get(*index) else {
                problem(&format!("argument {index} is missing"));
                continue;
            };
            match arg::parse(image.machine, spec) {
                Ok(parsed) => *arg = parsed,
                Err(why) => {
                    let shown: String = spec.chars().take(SHOWN).collect();
                    problem(&format!("argument {index}, {shown:?}: {why}"));
                }
            }
        }
        let found = Found { offset, site: Site { args, probe: wanted.probe as u32, pad: 0 } };
        if !self.sites.iter().any(|(_, other)| other.offset == offset && other.site.probe == found.site.probe)
        {
            self.sites.push((wanted.group, found));
        }
    }

    /// The sites of a group, if it is whole.
    fn take(&mut self, group: Group) -> Result<Vec<Found>, String> {
        if self.spoiled.contains(&group) {
            return Err("a site cannot be used".to_owned());
        }
        let found: Vec<Found> =
            self.sites.iter().filter(|(of, _)| *of == group).map(|(_, found)| *found).collect();
        let missing = WANTED.iter().find(|wanted| {
            wanted.group == group && !found.iter().any(|found| found.site.probe == wanted.probe as u32)
        });
        match missing {
            Some(wanted) => Err(format!("no static probe {}:{}", wanted.provider, wanted.name)),
            None => Ok(found),
        }
    }
}

/// Where in the file a site is.
fn usable<R: Read + Seek>(image: &Image<'_, R>, note: &Note<'_>) -> Result<u64, &'static str> {
    if note.semaphore != 0 {
        return Err("it waits for a semaphore, which would have to be written into the JVM");
    }
    let offset = image.file_offset(note.pc).ok_or("it is at no code of this file")?;
    let code = image.code(offset).ok_or("it cannot be read")?;
    if !instruction::is_site(image.machine, code) {
        return Err("the instruction there is no nop");
    }
    Ok(offset)
}
