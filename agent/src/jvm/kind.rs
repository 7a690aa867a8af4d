//! Which virtual machine a process runs.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
};

use timeline::Fact;

use super::{maps::Maps, root::Root};
use crate::identity::Proc;

/// Native images reach hundreds of megabytes; only their section names are read.
const IMAGE_BYTES: u64 = 4 << 30;
const NAMES_BYTES: u64 = 1 << 16;

/// The kind and its evidence.
pub fn kind(proc: &Proc, pid: u32, maps: Option<&Maps>) -> Fact {
    let fact = |kind: &str, source: &str| Fact::new("jvm_kind", kind, source);
    let Some(maps) = maps else { return fact("unknown", "maps (not readable)") };
    match (maps.other_vm(), maps.libjvm()) {
        (Some(other), _) => fact(other, "maps: libj9vm"),
        (None, Some(_)) => fact("hotspot", "maps: libjvm.so"),
        (None, None) if is_native_image(proc, pid) => {
            fact("graalvm_native", "section .svm_heap of its executable")
        }
        (None, None) => fact("unknown", "maps: no libjvm.so"),
    }
}

/// GraalVM puts the heap of a native image into an ELF section of its own (`SectionName.SVM_HEAP`).
pub fn is_native_image(proc: &Proc, pid: u32) -> bool {
    let Ok(path) = fs::read_link(proc.root().join(pid.to_string()).join("exe")) else { return false };
    let Ok(root) = Root::open(proc, pid) else { return false };
    let Ok(file) = root.file(&path, IMAGE_BYTES) else { return false };
    section_names(&file).is_some_and(|names| names.split(|byte| *byte == 0).any(|name| name == b".svm_heap"))
}

/// The table of section names of a 64-bit little-endian ELF file (elf(5)).
fn section_names(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (entry_bytes, index) = (u16_at(&header, 0x3a)?, u16_at(&header, 0x3e)?);
    let at = u64_at(&header, 0x28)?.checked_add(u64::from(entry_bytes) * u64::from(index))?;
    let mut section = [0; 64];
    file.read_exact_at(&mut section, at).ok()?;
    let (at, bytes) = (u64_at(&section, 0x18)?, u64_at(&section, 0x20)?);
    let mut names = vec![0; usize::try_from(bytes.min(NAMES_BYTES)).ok()?];
    file.read_exact_at(&mut names, at).ok()?;
    Some(names)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Path of a file of the JVM's own directory, where `libjvm.so` is.
pub fn is_beside_libjvm(path: &str, maps: &Maps) -> bool {
    maps.libjvm().is_some_and(|libjvm| Path::new(libjvm).parent() == Path::new(path).parent())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::jvm::{Jvm, Unavailable};

    fn check(maps: &str, image: &[u8], expect: &str) {
        let dir = tempfile::tempdir().unwrap();
        let of = dir.path().join("8");
        fs::create_dir_all(of.join("root")).unwrap();
        fs::write(of.join("maps"), maps).unwrap();
        fs::write(of.join("root/app"), image).unwrap();
        symlink("/app", of.join("exe")).unwrap();
        let proc = Proc::new(dir.path());
        let maps = Maps::read(&proc, 8).ok();
        assert_eq!(kind(&proc, 8, maps.as_ref()).value, expect, "{maps:?}");
        let said = Jvm::open(&proc, 8).sample().unwrap_err();
        assert_eq!(said == Unavailable::OtherVm("openj9"), expect == "openj9", "{said}");
        assert_eq!(said == Unavailable::NativeImage, expect == "graalvm_native", "{said}");
    }

    /// The smallest file with section names.
    fn image(names: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 64 + 64];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        image[0x28] = 64;
        image[0x3a] = 64;
        image[64 + 0x18] = 128;
        image[64 + 0x20] = u8::try_from(names.len()).unwrap();
        image.extend(names);
        image
    }

    #[test]
    fn kinds() {
        let line = |path: &str| format!("1-2 r-xp 00000000 08:01 9 {path}\n");
        let hotspot = line("/jdk/lib/server/libjvm.so");
        check(&hotspot, b"", "hotspot");
        check(&(hotspot + &line("/jdk/lib/default/libj9vm29.so")), b"", "openj9");
        let other = line("/app");
        check(&other, &image(b"\0.text\0.svm_heap\0"), "graalvm_native");
        check(&other, &image(b"\0.text\0.svm_heapx\0"), "unknown");
        check(&other, &image(b"\0.svm_heap\0")[..130], "unknown");
        check(&other, b"#!/bin/sh\n", "unknown");
        check("", b"", "unknown");
    }
}
