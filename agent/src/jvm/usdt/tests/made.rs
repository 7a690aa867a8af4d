//! The smallest file in which there are notes and symbols.

use super::*;

/// Where the code is in memory, and in the file.
pub const CODE_ADDRESS: u64 = 0x40_1000;
pub const CODE_OFFSET: u64 = 0x1000;
pub const CODE_BYTES: usize = 0x1000;
const BASE_ADDRESS: u64 = 0x70_0000;

/// What a note says; its site is `at` bytes into the code.
#[derive(Clone, Debug)]
pub struct MadeNote {
    pub at: u64,
    pub probe: &'static str,
    pub args: String,
    pub semaphore: u64,
}

/// What goes into a file.
#[derive(Clone, Debug)]
pub struct Made {
    pub machine: u16,
    pub code: Vec<u8>,
    pub notes: Vec<MadeNote>,
    /// Replaces the notes.
    pub raw_notes: Option<Vec<u8>>,
    /// How far `prelink` has moved the file since the linker wrote its notes.
    pub moved: u64,
    /// Functions, by bytes into the code.
    pub symbols: Vec<(&'static str, u64)>,
}

/// The notes of a HotSpot: a site each 16 bytes.
pub fn notes(machine: Machine) -> Vec<MadeNote> {
    let (loaded, ended, started) = match machine {
        Machine::X86_64 => ("8@%rdx -4@%eax 8@152(%rdi) 1@%cl", "1@37(%r14)", "8@%r13 -4@-60(%rbp)"),
        Machine::Aarch64 => ("8@x2 -4@w0 8@[x19, 152] 1@w3", "1@[x21, 37]", "8@[sp, 72] -4@[x29, -12]"),
    };
    let ended = format!("{loaded} {loaded} {ended}");
    let probes: [(&str, &str); 8] = [
        ("hotspot:class__loaded", loaded),
        ("hotspot:method__compile__begin", ""),
        ("hotspot:method__compile__end", &ended),
        ("hotspot:gc__begin", "1@$1"),
        ("hotspot:gc__end", ""),
        ("hs_private:safepoint__begin", ""),
        ("hs_private:safepoint__end", ""),
        ("hotspot:thread__start", started),
    ];
    let note = |(at, (probe, args)): (u64, (&'static str, &str))| MadeNote {
        at: 16 * at,
        probe,
        args: args.to_owned(),
        semaphore: 0,
    };
    (0..).zip(probes).map(note).collect()
}

/// Functions that stand for them, behind them.
pub fn symbols() -> Vec<(&'static str, u64)> {
    let names = [
        "_ZN19ClassLoadingService19notify_class_loadedEP13InstanceKlassb",
        "_ZN13CompileBroker25invoke_compiler_on_methodEP11CompileTask",
        "_ZN13CompileBroker18collect_statisticsEP14CompilerThread12elapsedTimerP11CompileTask",
        "_ZN20SafepointSynchronize5beginEv",
        "_ZN20SafepointSynchronize3endEv",
    ];
    names.into_iter().zip((0x800..).step_by(16)).collect()
}

impl Made {
    /// A file of the architecture with everything, all its code nops.
    pub fn of(machine: Machine) -> Self {
        let (number, nop): (u16, &[u8]) = match machine {
            Machine::X86_64 => (62, &[0x90]),
            Machine::Aarch64 => (183, &[0x1f, 0x20, 0x03, 0xd5]),
        };
        Self {
            machine: number,
            code: nop.iter().copied().cycle().take(CODE_BYTES).collect(),
            notes: notes(machine),
            raw_notes: None,
            moved: 0,
            symbols: symbols(),
        }
    }

    fn notes_section(&self) -> Vec<u8> {
        let mut section = Vec::new();
        for note in &self.notes {
            let mut desc = Vec::new();
            for number in [CODE_ADDRESS + note.at - self.moved, BASE_ADDRESS - self.moved, note.semaphore] {
                desc.extend(number.to_le_bytes());
            }
            desc.extend(note.probe.replace(':', "\0").bytes());
            desc.extend(format!("\0{}\0", note.args).bytes());
            let length = u32::try_from(desc.len()).unwrap();
            for number in [8, length, 3] {
                section.extend(number.to_le_bytes());
            }
            section.extend(b"stapsdt\0");
            section.extend(desc);
            section.resize(section.len().next_multiple_of(4), 0);
        }
        section
    }

    /// Its bytes, as elf(5) has them.
    pub fn bytes(&self) -> Vec<u8> {
        let (mut symbols, mut names) = (vec![0; 24], vec![0]);
        for (name, at) in &self.symbols {
            symbols.extend(u32::try_from(names.len()).unwrap().to_le_bytes());
            // A global function of the first section.
            symbols.extend([0x12, 0, 1, 0]);
            symbols.extend((CODE_ADDRESS + at).to_le_bytes());
            symbols.extend(16_u64.to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        let notes = self.raw_notes.clone().unwrap_or_else(|| self.notes_section());
        // Name, type, address, contents, linked section.
        let sections: [(&str, u32, u64, Vec<u8>, u32); 5] = [
            (".note.stapsdt", 7, 0, notes, 0),
            (".stapsdt.base", 1, BASE_ADDRESS, vec![0], 0),
            (".symtab", 2, 0, symbols, 4),
            (".strtab", 3, 0, names, 0),
            (".shstrtab", 3, 0, b"\0.note.stapsdt\0.stapsdt.base\0.symtab\0.strtab\0.shstrtab\0".to_vec(), 0),
        ];
        let mut file = vec![0; usize::try_from(CODE_OFFSET).unwrap()];
        file.extend(&self.code);
        // The null section is first.
        let mut headers = vec![0; 64];
        let mut name = 1_u32;
        for (title, kind, address, contents, link) in sections {
            headers.extend(name.to_le_bytes());
            headers.extend(kind.to_le_bytes());
            for number in [0, address, file.len() as u64, contents.len() as u64] {
                headers.extend(number.to_le_bytes());
            }
            headers.extend(link.to_le_bytes());
            headers.extend([0; 4]);
            headers.extend(4_u64.to_le_bytes());
            headers.extend([0; 8]);
            name += u32::try_from(title.len()).unwrap() + 1;
            file.extend(contents);
        }
        let sections_at = file.len() as u64;
        file.extend(headers);
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x10, &3_u16.to_le_bytes());
        put(0x12, &self.machine.to_le_bytes());
        put(0x14, &1_u32.to_le_bytes());
        put(0x20, &64_u64.to_le_bytes());
        put(0x28, &sections_at.to_le_bytes());
        for (at, number) in [(0x34, 64_u16), (0x36, 56), (0x38, 1), (0x3a, 64), (0x3c, 6), (0x3e, 5)] {
            put(at, &number.to_le_bytes());
        }
        // One segment, read and executed.
        put(64, &1_u32.to_le_bytes());
        put(68, &5_u32.to_le_bytes());
        let bytes = self.code.len() as u64;
        for (at, number) in [(72, CODE_OFFSET), (80, CODE_ADDRESS), (96, bytes), (104, bytes)] {
            put(at, &number.to_le_bytes());
        }
        file
    }
}
