//! A 64-bit ELF file, of which only what is asked for is read.
//!
//! The file comes out of a container and may be made to hurt: every length in it is checked against a bound before
//! memory is taken for it.

use std::{
    cell::Cell,
    io::{Read, Seek},
    ops::Range,
};

use object::{
    LittleEndian,
    elf::{EM_AARCH64, EM_X86_64, FileHeader64, PF_X, PT_LOAD, ProgramHeader64, SHT_NOBITS, SectionHeader64},
    read::{
        ReadCache, ReadCacheOps, ReadRef,
        elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable},
    },
};

use super::{Machine, SitesError};

pub type Header = FileHeader64<LittleEndian>;
pub type Section = SectionHeader64<LittleEndian>;

/// What is read of one file in all. The symbol table of a release build and its names take 4.5 MiB.
const MOST_BYTES: u64 = 24 << 20;
/// What is read at once at most.
const MOST_AT_ONCE: u64 = 8 << 20;
/// What the cache reads at most to find the end of a name (`read_bytes_at_until` of [`ReadCache`]).
const NAME_BYTES: u64 = 4096;

/// Bytes of a file that have been read, and how many more may be.
pub struct Budget<R: Read + Seek> {
    cache: ReadCache<R>,
    left: Cell<u64>,
}

impl<R: Read + Seek> Budget<R> {
    pub fn new(file: R) -> Self {
        Self { cache: ReadCache::new(file), left: Cell::new(MOST_BYTES) }
    }
}

/// Reads within the budget.
pub struct Bounded<'a, R: ReadCacheOps> {
    cache: &'a ReadCache<R>,
    left: &'a Cell<u64>,
}

impl<R: ReadCacheOps> Clone for Bounded<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ReadCacheOps> Copy for Bounded<'_, R> {}

impl<R: ReadCacheOps> Bounded<'_, R> {
    fn take(self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes).filter(|_| bytes <= MOST_AT_ONCE).ok_or(())?;
        self.left.set(left);
        Ok(())
    }
}

impl<'a, R: ReadCacheOps> ReadRef<'a> for Bounded<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.take(NAME_BYTES)?;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}

/// An ELF file of a machine whose registers and instructions are known here.
pub struct Image<'a, R: ReadCacheOps> {
    pub machine: Machine,
    data: Bounded<'a, R>,
    sections: SectionTable<'a, Header, Bounded<'a, R>>,
    segments: &'a [ProgramHeader64<LittleEndian>],
}

impl<'a, R: Read + Seek> Image<'a, R> {
    pub fn open(budget: &'a Budget<R>) -> Result<Self, SitesError> {
        let data = Bounded { cache: &budget.cache, left: &budget.left };
        // The identification is the same in both classes (elf(5)).
        let ident = data.read_bytes_at(0, 16).map_err(|()| SitesError::NotElf)?;
        match ident {
            [0x7f, b'E', b'L', b'F', 2, 1, ..] => {}
            [0x7f, b'E', b'L', b'F', 2, ..] => return Err(SitesError::BigEndian),
            [0x7f, b'E', b'L', b'F', ..] => return Err(SitesError::Not64Bit),
            _ => return Err(SitesError::NotElf),
        }
        let malformed = |source| SitesError::Malformed { what: "header", source };
        let header = Header::parse(data).map_err(malformed)?;
        let machine = match header.e_machine(LittleEndian) {
            EM_X86_64 => Machine::X86_64,
            EM_AARCH64 => Machine::Aarch64,
            other => return Err(SitesError::UnknownMachine(other)),
        };
        let segments = header
            .program_headers(LittleEndian, data)
            .map_err(|source| SitesError::Malformed { what: "program headers", source })?;
        let sections = header
            .sections(LittleEndian, data)
            .map_err(|source| SitesError::Malformed { what: "section headers", source })?;
        Ok(Self { machine, data, sections, segments })
    }

    pub fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections.section_by_name(LittleEndian, name.as_bytes()).map(|(_, section)| section)
    }

    pub fn sections(&self) -> impl Iterator<Item = &'a Section> + use<'a, R> {
        self.sections.iter()
    }

    /// The section that another one names as its `sh_link`.
    pub fn linked(&self, section: &Section) -> Option<&'a Section> {
        self.sections.section(section.link(LittleEndian)).ok()
    }

    /// Contents of a section of at most `most` bytes.
    pub fn bytes(&self, section: &Section, most: u64) -> Result<&'a [u8], String> {
        let bytes = section.sh_size(LittleEndian);
        if section.sh_type(LittleEndian) == SHT_NOBITS {
            return Err("it has no contents in this file".to_owned());
        }
        if bytes > most {
            return Err(format!("it has {bytes} bytes, more than the {most} that are read"));
        }
        section.data(LittleEndian, self.data).map_err(|error| error.to_string())
    }

    /// Where in the file the code of an address is.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            if segment.p_type(LittleEndian) != PT_LOAD || segment.p_flags(LittleEndian) & PF_X == 0 {
                return None;
            }
            let into = address.checked_sub(segment.p_vaddr(LittleEndian))?;
            let offset = segment.p_offset(LittleEndian).checked_add(into)?;
            (into < segment.p_filesz(LittleEndian)).then_some(offset)
        })
    }

    /// The bytes of code at an offset.
    pub fn code<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.data.read_bytes_at(offset, u64::try_from(N).ok()?).ok()?.try_into().ok()
    }
}
