//! Probes in `libjvm.so`, attached to each file once while some JVM is cold.
//!
//! A layer that can be absent: without it a JVM's work is sampled from its own counters.

mod multi;

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    thread::JoinHandle,
};

use agent_ebpf::{Probe, SITES, Site};
use aya::{
    Ebpf,
    maps::{Array, MapData},
    programs::{
        ProgramError, UProbe,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope},
    },
};
use timeline::Probed;

use super::{OBJECT, ProbeError, evidence, maps, maps::Shared};
use crate::jvm::usdt;

/// The program for each kind of site.
const fn name(probe: Probe) -> &'static str {
    match probe {
        Probe::ClassLoaded => "jvm_class_loaded",
        Probe::CompileBegin => "jvm_compile_begin",
        Probe::CompileEnd => "jvm_compile_end",
        Probe::GcBegin => "jvm_gc_begin",
        Probe::GcEnd => "jvm_gc_end",
        Probe::SafepointBegin => "jvm_safepoint_begin",
        Probe::SafepointEnd => "jvm_safepoint_end",
        Probe::ThreadStart => "jvm_thread_start",
    }
}

/// Sites of one file at most.
const PER_FILE: usize = 32;
/// Files that are probed at once at most.
const FILES: usize = SITES / PER_FILE;

/// Attaches the programs to `libjvm.so`s.
pub struct Uprobes {
    how: How,
    sites: Array<MapData, Shared<Site>>,
    /// By the place of their sites in the table.
    files: [Option<Probing>; FILES],
    leaving: Option<JoinHandle<()>>,
}

/// By which of the kernel's interfaces.
enum How {
    Multi(Vec<OwnedFd>),
    /// perf's, which asks for `CAP_SYS_ADMIN` since the mending of CVE-2025-38466 in mid-2025.
    Perf,
    Not(String),
}

/// Detaches when it is dropped, which may take a tenth of a second.
#[expect(dead_code, reason = "held for their drop")]
enum Link {
    Multi(OwnedFd),
    Perf(UProbeLink),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
    changed_ns: (i64, i64),
}

struct Probing {
    file: FileId,
    sites: Vec<Place>,
    attached: Attached,
    /// Cold JVMs that have it mapped.
    jvms: Vec<u32>,
    /// While there are any.
    links: Vec<Link>,
}

/// A site of a file, and its number in the table.
struct Place {
    probe: u32,
    offset: u64,
    cookie: u64,
}

/// What of a JVM's work is counted as it happens.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// And how.
    pub probed: Probed,
    /// What is not, and why; one line each.
    pub problems: Vec<String>,
}

impl Attached {
    /// Nothing is.
    pub fn not(reason: impl Into<String>) -> Self {
        Self { probed: Probed::default(), problems: vec![reason.into()] }
    }
}

/// Why a file's sites are not probed.
#[derive(Debug, thiserror::Error)]
enum NotAttached {
    #[error(transparent)]
    Sites(#[from] usdt::SitesError),
    #[error("there is nothing to probe")]
    Nowhere(Vec<String>),
    #[error("it has {0} sites, more than the {PER_FILE} that there is room for")]
    TooMany(usize),
    #[error("{FILES} other files are probed already")]
    Full,
    #[error("the table of sites: {0}")]
    Table(#[from] aya::maps::MapError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Perf(String),
}

impl Uprobes {
    /// Loads the programs, unless they are not `wanted`. That they cannot be is no error.
    ///
    /// # Errors
    /// When the object is not the agent's.
    pub fn load(ebpf: &mut Ebpf, wanted: bool) -> Result<Self, ProbeError> {
        let how = if wanted { how(ebpf) } else { How::Not("switched off".to_owned()) };
        let sites = maps::typed(ebpf, "SITES")?;
        Ok(Self { how, sites, files: [const { None }; FILES], leaving: None })
    }

    /// How probes are attached, or why they cannot be.
    pub fn how(&self) -> Result<&'static str, &str> {
        match &self.how {
            How::Multi(_) => Ok("uprobe_multi"),
            How::Perf => Ok("perf"),
            How::Not(reason) => Err(reason),
        }
    }

    /// Programs that are not the loader's.
    pub fn programs(&self) -> &[OwnedFd] {
        match &self.how {
            How::Multi(programs) => programs,
            How::Perf | How::Not(_) => &[],
        }
    }

    /// Probes the `libjvm.so` of a JVM, if it is not.
    pub fn attach(&mut self, ebpf: &mut Ebpf, pid: u32, libjvm: &File) -> Attached {
        if let How::Not(reason) = &self.how {
            return Attached::not(reason);
        }
        match self.try_attach(ebpf, pid, libjvm) {
            Ok(attached) => attached,
            Err(NotAttached::Nowhere(problems)) => Attached { probed: Probed::default(), problems },
            Err(error) => Attached::not(error.to_string()),
        }
    }

    fn try_attach(&mut self, ebpf: &mut Ebpf, pid: u32, libjvm: &File) -> Result<Attached, NotAttached> {
        let metadata = libjvm.metadata()?;
        let file = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let place = match self.place_of(file) {
            Some(place) => place,
            None => self.find_sites(libjvm, file)?,
        };
        let probing = self.files[place].as_mut().expect("it was just put there");
        if probing.links.is_empty() {
            probing.links = match &self.how {
                How::Multi(programs) => multi(programs, libjvm.as_fd(), &probing.sites)?,
                How::Perf | How::Not(_) => perf(ebpf, libjvm.as_fd(), &probing.sites)
                    .map_err(|error| NotAttached::Perf(evidence(&error)))?,
            };
        }
        if !probing.jvms.contains(&pid) {
            probing.jvms.push(pid);
        }
        Ok(probing.attached.clone())
    }

    fn place_of(&self, file: FileId) -> Option<usize> {
        self.files.iter().position(|known| known.as_ref().is_some_and(|known| known.file == file))
    }

    /// Reads what a file offers and takes a place in the table for it.
    fn find_sites(&mut self, libjvm: &File, file: FileId) -> Result<usize, NotAttached> {
        let usdt::Sites { sites, probed, problems } = usdt::sites(libjvm)?;
        if sites.is_empty() {
            return Err(NotAttached::Nowhere(problems));
        }
        if sites.len() > PER_FILE {
            // Some of them would be a wrong count.
            return Err(NotAttached::TooMany(sites.len()));
        }
        let unused = |known: &Option<Probing>| known.as_ref().is_none_or(|known| known.links.is_empty());
        let free = self.files.iter().position(Option::is_none).or_else(|| self.files.iter().position(unused));
        let place = free.ok_or(NotAttached::Full)?;
        // Threads may still be in the probes of the file that was here.
        if let Some(leaving) = self.leaving.take() {
            let _ = leaving.join();
        }
        let mut places = Vec::with_capacity(sites.len());
        for (number, found) in (place * PER_FILE..).zip(&sites) {
            let number = u32::try_from(number).expect("the table is small");
            self.sites.set(number, Shared(found.site), 0)?;
            places.push(Place { probe: found.site.probe, offset: found.offset, cookie: number.into() });
        }
        let attached = Attached { probed, problems };
        self.files[place] =
            Some(Probing { file, sites: places, attached, jvms: Vec::new(), links: Vec::new() });
        Ok(place)
    }

    /// A JVM is not cold any more. A file that no other has mapped is left alone: links keep it, and so the file system of
    /// its container. On a thread of its own, as the kernel waits until no thread is in a probe any more.
    pub fn release(&mut self, pid: u32) {
        let mut links = Vec::new();
        for known in self.files.iter_mut().flatten() {
            known.jvms.retain(|jvm| *jvm != pid);
            if known.jvms.is_empty() {
                links.append(&mut known.links);
            }
        }
        if links.is_empty() {
            return;
        }
        let before = self.leaving.take();
        let leave = move || {
            drop(links);
            if let Some(before) = before {
                let _ = before.join();
            }
        };
        // Without a thread they are dropped here and now.
        self.leaving = std::thread::Builder::new().name("detach".to_owned()).spawn(leave).ok();
    }
}

fn how(ebpf: &mut Ebpf) -> How {
    let names: Vec<&str> = Probe::ALL.iter().copied().map(name).collect();
    let multi = match multi::load(OBJECT, &names, ebpf) {
        Ok(programs) => return How::Multi(programs),
        Err(error) => error,
    };
    match Probe::ALL.iter().try_for_each(|&probe| program(ebpf, probe)?.load()) {
        Ok(()) => How::Perf,
        Err(error) => How::Not(format!("{multi}; {}", evidence(&error))),
    }
}

fn program(ebpf: &mut Ebpf, probe: Probe) -> Result<&mut UProbe, ProgramError> {
    ebpf.program_mut(name(probe)).expect("it is a program of the object").try_into()
}

/// A link for each program, at all its sites.
fn multi(programs: &[OwnedFd], file: BorrowedFd<'_>, sites: &[Place]) -> io::Result<Vec<Link>> {
    let mut links = Vec::with_capacity(programs.len());
    for (&probe, program) in Probe::ALL.iter().zip(programs) {
        let (offsets, cookies): (Vec<u64>, Vec<u64>) = sites
            .iter()
            .filter(|site| site.probe == probe as u32)
            .map(|site| (site.offset, site.cookie))
            .unzip();
        if !offsets.is_empty() {
            links.push(Link::Multi(multi::attach(program.as_fd(), file, &offsets, &cookies)?));
        }
    }
    Ok(links)
}

/// A link for each site.
fn perf(ebpf: &mut Ebpf, file: BorrowedFd<'_>, sites: &[Place]) -> Result<Vec<Link>, ProgramError> {
    let path = path(file);
    let mut links = Vec::with_capacity(sites.len());
    for &probe in Probe::ALL {
        for site in sites.iter().filter(|site| site.probe == probe as u32) {
            let location = UProbeAttachLocation::AbsoluteOffset(site.offset);
            let point = UProbeAttachPoint { location, cookie: Some(site.cookie) };
            let program = program(ebpf, probe)?;
            let link = program.attach(point, &path, UProbeScope::AllProcesses)?;
            links.push(Link::Perf(program.take_link(link)?));
        }
    }
    Ok(links)
}

/// A path that names this very file, in whatever root it is.
fn path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aya_obj::{Object, generated::bpf_insn};

    use super::*;

    const FRAME: u8 = 10;

    /// Bytes of stack that a function uses: how far below the frame pointer it reads, writes or points.
    fn stack(instructions: &[bpf_insn]) -> i32 {
        const ADD_IMMEDIATE: u8 = 0x07;
        const MOVE: u8 = 0xbf;
        const MEMORY: std::ops::RangeInclusive<u8> = 1..=3;
        let mut copies = [false; 11];
        copies[usize::from(FRAME)] = true;
        let mut lowest = 0;
        for instruction in instructions {
            let (to, from) = (usize::from(instruction.dst_reg()), usize::from(instruction.src_reg()));
            match instruction.code {
                MOVE => copies[to] = copies[from],
                ADD_IMMEDIATE if copies[to] => lowest = lowest.min(instruction.imm),
                code if MEMORY.contains(&(code & 7)) => {
                    let base = if code & 7 == 1 { from } else { to };
                    if copies[base] {
                        lowest = lowest.min(i32::from(instruction.off));
                    }
                    if code & 7 == 1 {
                        copies[to] = false;
                    }
                }
                _ => {}
            }
        }
        -lowest
    }

    #[test]
    fn programs_in_uprobes_get_no_private_stack() {
        /// A function with so much stack may get a stack of the CPU, which preemption corrupts (Linux 6.13,
        /// kernel/bpf/verifier.c), after its stack is rounded up to 16 bytes.
        const PRIVATE: i32 = 64;
        let object = Object::parse(OBJECT).unwrap();
        let functions: HashMap<&str, i32> = object
            .functions
            .values()
            .map(|function| (function.name.as_str(), stack(&function.instructions)))
            .collect();
        // Functions without a section of their own are what the programs call; those of other programs are named.
        let called = |name: &&str| name.contains("usdt") || name.contains("4work");
        let ours = Probe::ALL.iter().map(|&probe| name(probe));
        let mut seen = 0;
        for function in ours.chain(functions.keys().copied().filter(called)) {
            let stack = functions[function];
            assert!((stack + 15) / 16 * 16 < PRIVATE, "{function} uses {stack} bytes");
            seen += 1;
        }
        assert!(seen > Probe::ALL.len(), "they call functions with stacks of their own");
        let most = functions.values().max().unwrap();
        assert!(*most >= PRIVATE, "no other program uses a stack: this test does not see them");
    }
}
