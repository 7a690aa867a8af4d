//! On the `libjvm.so`s of this machine.

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
};

use agent_ebpf::{Probe, how};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _,
    elf::{SHT_DYNSYM, SHT_SYMTAB},
    read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _},
};

use super::*;
use crate::jvm::usdt::wanted::{WANTED, Wanted};

/// Those of `JCOLD_JAVA_HOME`, or all that are installed.
fn libjvms() -> Vec<PathBuf> {
    let homes: Vec<PathBuf> = match env::var_os("JCOLD_JAVA_HOME") {
        Some(home) => vec![home.into()],
        None => fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|dir| dir.path()).collect(),
    };
    let of = |home: &PathBuf| home.join("lib/server/libjvm.so").canonicalize().ok();
    let mut paths: Vec<PathBuf> = homes.iter().filter_map(of).collect();
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        eprintln!("skipped: no JDK in /usr/lib/jvm, and JCOLD_JAVA_HOME is not set to one");
    }
    paths
}

/// How many notes of a probe are in a file, by their text alone.
fn noted(libjvm: &[u8], wanted: &Wanted) -> usize {
    let file = ElfFile64::<object::Endianness>::parse(libjvm).unwrap();
    let notes = file.section_by_name(".note.stapsdt").unwrap().data().unwrap();
    let text = format!("{}\0{}\0", wanted.provider, wanted.name);
    notes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

#[test]
fn every_group_has_static_probes() {
    for path in libjvms() {
        let all = sites(File::open(&path).unwrap()).unwrap();
        assert_eq!((all.probed, &all.problems), (every(Source::Usdt), &Vec::new()), "{}", path.display());
        let libjvm = fs::read(&path).unwrap();
        // HotSpot 25 has two sites of gc__begin and of gc__end.
        for wanted in &WANTED {
            let found = all.sites.iter().filter(|found| found.site.probe == wanted.probe as u32);
            assert_eq!(found.count(), noted(&libjvm, wanted), "{wanted} of {}", path.display());
        }
        if cfg!(target_arch = "x86_64") {
            for found in &all.sites {
                let byte = libjvm[usize::try_from(found.offset).unwrap()];
                assert_eq!(byte, 0x90, "{found:?} of {}", path.display());
            }
        }
        // Every argument that the probes read is somewhere.
        for (probe, args) in [(Probe::ClassLoaded, 3), (Probe::CompileEnd, 3), (Probe::ThreadStart, 2)] {
            let found = all.sites.iter().find(|found| found.site.probe == probe as u32).unwrap();
            let told = found.site.args.iter().filter(|arg| arg.how != how::NONE);
            assert_eq!(told.count(), args, "{found:?} of {}", path.display());
        }
    }
}

/// Makes the note section unfindable, as if there was none.
fn without_notes(libjvm: &mut [u8]) {
    const NAME: &[u8] = b"\0.note.stapsdt\0";
    let at = libjvm.windows(NAME.len()).rposition(|window| window == NAME).unwrap();
    libjvm[at + 1] = b'x';
}

/// Makes sections of these types unfindable.
fn without_sections(libjvm: &mut [u8], types: &[u32]) {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let headers = usize::try_from(number(libjvm, 0x28)).unwrap();
    let count = usize::from(u16::from_le_bytes(*libjvm[0x3c..].first_chunk().unwrap()));
    for header in libjvm[headers..].chunks_exact_mut(64).take(count) {
        if types.iter().any(|kind| header[4..8] == kind.to_le_bytes()) {
            header[4..8].fill(0);
        }
    }
}

/// Where in the file a function is, by the library's own way to look.
fn offset_of(libjvm: &[u8], symbol: &str) -> u64 {
    let file = ElfFile64::<object::Endianness>::parse(libjvm).unwrap();
    let found = file.symbols().find(|found| found.name() == Ok(symbol)).expect(symbol);
    let segments = file.elf_header().program_headers(file.endian(), libjvm).unwrap();
    let address = found.address();
    let of = |segment: &&object::elf::ProgramHeader64<_>| {
        segment.data_range(file.endian(), libjvm, address, 1).ok().flatten().is_some()
    };
    let segment = segments.iter().find(of).unwrap();
    address - segment.p_vaddr(file.endian()) + segment.p_offset(file.endian())
}

#[cfg(target_arch = "x86_64")]
#[test]
fn functions_stand_for_the_probes_of_a_build_without() {
    for path in libjvms() {
        let mut libjvm = fs::read(&path).unwrap();
        without_notes(&mut libjvm);
        let all = scanned(&libjvm).unwrap();
        assert_eq!(all.probed, by_functions(), "{}: {:?}", path.display(), all.problems);
        let expected = [
            (Probe::ClassLoaded, "_ZN19ClassLoadingService19notify_class_loadedEP13InstanceKlassb"),
            (Probe::CompileBegin, "_ZN13CompileBroker25invoke_compiler_on_methodEP11CompileTask"),
            (
                Probe::CompileEnd,
                "_ZN13CompileBroker18collect_statisticsEP14CompilerThread12elapsedTimerP11CompileTask",
            ),
            (Probe::SafepointBegin, "_ZN20SafepointSynchronize5beginEv"),
            (Probe::SafepointEnd, "_ZN20SafepointSynchronize3endEv"),
        ];
        let found: Vec<(u32, u64)> = all.sites.iter().map(|found| (found.site.probe, found.offset)).collect();
        let expected = expected.map(|(probe, symbol)| (probe as u32, offset_of(&libjvm, symbol)));
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn nothing_stands_for_the_probes_of_a_stripped_build_without() {
    for path in libjvms() {
        let mut libjvm = fs::read(&path).unwrap();
        without_notes(&mut libjvm);
        without_sections(&mut libjvm, &[SHT_SYMTAB]);
        let exported = scanned(&libjvm).unwrap();
        without_sections(&mut libjvm, &[SHT_DYNSYM]);
        let stripped = scanned(&libjvm).unwrap();
        for (all, why) in [(exported, "there is no symbol _ZN"), (stripped, "there are no symbols")] {
            assert_eq!((all.probed, all.sites), (every(Source::None), Vec::new()), "{}", path.display());
            assert_eq!(
                all.problems[0],
                "no section .note.stapsdt: this HotSpot was built without static probes"
            );
            let said = all.problems.iter().filter(|problem| problem.contains(why));
            assert_eq!(said.count(), 3, "{why}: {:#?}", all.problems);
            assert_eq!(all.problems[3], "gc: no static probes, and no function stands for them");
        }
    }
}
