//! Notes of static probes (USDT), as `sys/sdt.h` of SystemTap makes the assembler write them.

use std::io::{Read, Seek};

use object::{
    LittleEndian,
    read::elf::{NoteIterator, SectionHeader as _},
};

use super::elf::{Header, Image};

const SECTION: &str = ".note.stapsdt";
/// Its only purpose is its address, from which a file that was moved by prelink is told (`_.stapsdt.base` in sys/sdt.h).
const BASE: &str = ".stapsdt.base";
const OWNER: &[u8] = b"stapsdt";
const KIND: u32 = 3;
/// The 500 sites of HotSpot's probes take 57 KiB.
const MOST_BYTES: u64 = 1 << 20;

/// One site of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Address of its instruction, as the linker saw it.
    pub pc: u64,
    /// Address of [`BASE`], as the linker saw it.
    pub base: u64,
    /// Address of a counter of those who look, or 0.
    pub semaphore: u64,
    pub provider: &'a [u8],
    pub name: &'a [u8],
    /// Where its arguments are.
    pub args: &'a [u8],
}

impl<'a> Note<'a> {
    fn parse(mut desc: &'a [u8]) -> Option<Self> {
        let mut number = || {
            let (number, rest) = desc.split_first_chunk()?;
            desc = rest;
            Some(u64::from_le_bytes(*number))
        };
        let (pc, base, semaphore) = (number()?, number()?, number()?);
        let mut texts = desc.splitn(4, |byte| *byte == 0);
        let (provider, name, args) = (texts.next()?, texts.next()?, texts.next()?);
        // The third text is closed when there is a fourth part, be it empty.
        texts.next()?;
        Some(Self { pc, base, semaphore, provider, name, args })
    }
}

/// Gives the notes of a file to `each`, their addresses as they are now.
///
/// # Errors
/// Why they were not all read, in one line; that of `each` ends it.
pub fn each<'a, R: Read + Seek>(
    image: &Image<'a, R>,
    each: impl FnMut(Note<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let Some(section) = image.section(SECTION) else {
        return Err(format!("no section {SECTION}: this HotSpot was built without static probes"));
    };
    let bytes = image.bytes(section, MOST_BYTES).map_err(|why| format!("{SECTION}: {why}"))?;
    let base = image.section(BASE).map(|base| base.sh_addr(LittleEndian));
    notes(bytes, section.sh_addralign(LittleEndian), base, each)
}

fn notes<'a>(
    bytes: &'a [u8],
    align: u64,
    base: Option<u64>,
    mut each: impl FnMut(Note<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let broken = |error: object::read::Error| format!("{SECTION}: {error}: none is used");
    let mut notes = NoteIterator::<Header>::new(LittleEndian, align, bytes).map_err(broken)?;
    while let Some(note) = notes.next().map_err(broken)? {
        if note.n_type(LittleEndian) != KIND || note.name() != OWNER {
            continue;
        }
        let Some(mut note) = Note::parse(note.desc()) else {
            return Err(format!("{SECTION}: a note is cut short: none is used"));
        };
        if let Some(base) = base {
            note.pc = note.pc.wrapping_add(base.wrapping_sub(note.base));
        }
        each(note)?;
    }
    Ok(())
}
