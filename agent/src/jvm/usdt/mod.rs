//! Where a `libjvm.so` can be probed: at HotSpot's static probes (USDT), or at functions that stand for them where it was
//! built without.
//!
//! Only headers, the notes and, where those lack something, the tables of symbols are read.

mod arg;
mod elf;
mod instruction;
mod note;
mod noted;
mod symbols;
#[cfg(test)]
mod tests;
mod wanted;

use std::{
    fmt,
    io::{Read, Seek},
};

use agent_ebpf::Site;
use timeline::{Probed, Source};

use self::{
    elf::{Budget, Image},
    noted::Noted,
    symbols::Symbols,
    wanted::Group,
};

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

/// Finds the sites of a `libjvm.so` of the architecture that the agent runs on.
///
/// A group of probes is used whole: where one of its sites is missing or cannot be used, counts would be silently low, so
/// functions take its place, or nothing does.
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
    let noted = Noted::read(image, &mut all.problems);
    let symbols = Symbols::of(image);
    for group in Group::ALL {
        let (name, source) = group.source(&mut all.probed);
        let why_not = match noted.of(group) {
            Ok(found) => {
                *source = Source::Usdt;
                all.sites.extend(found);
                continue;
            }
            Err(why) => why,
        };
        all.problems.push(match symbols.sites(group) {
            Ok((found, worse)) => {
                *source = Source::Symbol;
                all.sites.extend(found);
                format!("{name}: {why_not}; counted at functions, which {worse}")
            }
            Err(why) => format!("{name}: {why_not}, and {why}"),
        });
    }
    all
}
