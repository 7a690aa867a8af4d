//! Loads the probes once and arms them in two tiers: the sentinel for as long as the agent runs, the hot tier while
//! some JVM has not come to its verdict.

mod btf;
mod dispatch;
mod maps;
pub mod offsets;
pub mod ring;
mod uprobes;

use std::{
    fs::File,
    os::fd::{AsFd as _, AsRawFd as _},
    time::{Duration, Instant},
};

use agent_ebpf::Offsets;
use aya::{
    Btf, Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{MapData, RingBuf},
    programs::{BtfTracePoint, Program, ProgramError, tp_btf::BtfTracePointLink},
};

pub use self::{
    maps::{Counters, Maps, Usage},
    uprobes::Attached,
};
use self::{
    offsets::{OffsetError, Resolved},
    uprobes::Uprobes,
};

/// Rare events, always on.
const SENTINEL: &[&str] =
    &["sched_process_exec", "sched_process_exit", "task_newtask", "task_rename", "inet_sock_set_state"];
/// On while some JVM is cold.
const HOT: &[&str] = &["sys_enter", "sys_exit", "sched_switch"];
/// The same, where the kernel has it.
const DATA_READY: &str = "sk_data_ready";

/// The probes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The running kernel lacks something.
    #[error(transparent)]
    Offsets(#[from] OffsetError),
    /// The kernel's BTF cannot be read by the loader.
    #[error("{path} cannot be parsed", path = offsets::BTF_PATH)]
    Btf(#[from] aya::BtfError),
    /// The object or one of its maps was refused.
    #[error("the probes were refused")]
    Load(#[from] Box<aya::EbpfError>),
    /// A program was refused.
    #[error("probe {name} was refused: {}", evidence(cause))]
    Program {
        /// Its name, that of its tracepoint.
        name: &'static str,
        /// What the kernel said.
        cause: Box<ProgramError>,
    },
    /// A map is not what the agent expects.
    #[error("map {name} of the probes")]
    Map {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        source: aya::maps::MapError,
    },
}

/// The probes, as they were compiled.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/jcold-probes"));

/// Lines of the verifier's log that are kept: the last ones say what it refused.
const VERIFIER_LINES: usize = 6;

fn evidence(error: &ProgramError) -> String {
    if let ProgramError::LoadError { io_error, verifier_log } = error {
        let log = verifier_log.to_string();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(VERIFIER_LINES)..];
        return format!("{io_error}; the verifier's last words: {}", last.join(" | "));
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// What a kernel lets the probes measure beyond what they need.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the kernel")]
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Time that threads wait for a CPU (`CONFIG_SCHED_INFO`).
    pub run_queue: bool,
    /// Time that cgroups have used up their CPU bandwidth (`CONFIG_CFS_BANDWIDTH`).
    pub throttling: bool,
    /// What threads wait for (`bpf_task_pt_regs`, Linux 5.15).
    pub waits: bool,
    /// When data comes (`sk_data_ready`, Linux 6.3); else it is ready when a poller says so, or a read has it.
    pub arrivals: bool,
}

impl Measures {
    /// What cannot be measured, and what it takes.
    pub fn lacks(&self) -> Vec<&'static str> {
        let all = [
            (self.run_queue, "run-queue time (CONFIG_SCHED_INFO)"),
            (self.throttling, "throttled time (CONFIG_CFS_BANDWIDTH)"),
            (self.waits, "what threads wait for (Linux 5.15)"),
            (self.arrivals, "when data arrives (Linux 6.3)"),
        ];
        all.into_iter().filter(|(measured, _)| !measured).map(|(_, what)| what).collect()
    }

    fn of(offsets: &Offsets, arrivals: bool) -> Self {
        Self {
            arrivals,
            run_queue: offsets.task_run_delay != 0,
            throttling: offsets.task_group != 0,
            waits: offsets.has_task_regs != 0,
        }
    }
}

/// A probe's name, and what is wrong with it.
pub type Examined = (&'static str, Result<(), ProbeError>);

/// The loaded probes.
pub struct Probes {
    ebpf: Ebpf,
    measures: Measures,
    uprobes: Uprobes,
    _sentinel: Vec<BtfTracePointLink>,
    hot: Hot,
}

#[derive(Default)]
struct Hot {
    links: Vec<BtfTracePointLink>,
    since: Option<Instant>,
    total: Duration,
}

impl Probes {
    /// Loads all probes and arms the sentinel; those in the JVMs themselves only when they are wanted.
    ///
    /// # Errors
    /// When the kernel lacks a structure, or refuses the object, a map or a program.
    pub fn load(with_uprobes: bool) -> Result<(Self, Maps, RingBuf<MapData>), ProbeError> {
        let Resolved { offsets, data_ready } = offsets::resolve()?;
        let measures = Measures::of(&offsets, data_ready);
        let btf = Btf::from_sys_fs()?;
        let mut ebpf = object(offsets, &btf)?;
        for name in SENTINEL.iter().copied().chain(hot(data_ready)) {
            program(&mut ebpf, name)?.load(name, &btf).map_err(|e| refused(name, e))?;
        }
        drop(btf);
        let uprobes = Uprobes::load(&mut ebpf, with_uprobes)?;
        let mut maps = Maps::take(&mut ebpf)?;
        let ring = maps.ring.take().expect("taken once");
        let sentinel = SENTINEL.iter().map(|&name| attach(&mut ebpf, name)).collect::<Result<_, _>>()?;
        trim_heap();
        Ok((Self { ebpf, measures, uprobes, _sentinel: sentinel, hot: Hot::default() }, maps, ring))
    }

    /// Loads and attaches each probe by itself.
    ///
    /// # Errors
    /// When the kernel lacks a structure, or refuses the object or a map.
    pub fn examine() -> Result<Vec<Examined>, ProbeError> {
        let Resolved { offsets, data_ready } = offsets::resolve()?;
        let btf = Btf::from_sys_fs()?;
        let mut ebpf = object(offsets, &btf)?;
        let mut examine = |name| {
            program(&mut ebpf, name)?.load(name, &btf).map_err(|e| refused(name, e))?;
            attach(&mut ebpf, name).map(drop)
        };
        Ok(SENTINEL.iter().copied().chain(hot(data_ready)).map(|name| (name, examine(name))).collect())
    }

    /// Attaches the hot tier, if it is not.
    ///
    /// # Errors
    /// When the kernel refuses to attach.
    pub fn arm(&mut self) -> Result<(), ProbeError> {
        if self.hot.since.is_none() {
            self.hot.links = hot(self.measures.arrivals)
                .map(|name| attach(&mut self.ebpf, name))
                .collect::<Result<_, _>>()?;
            self.hot.since = Some(Instant::now());
        }
        Ok(())
    }

    /// Detaches the hot tier, if it is attached: a tenth of a millisecond for each BTF tracepoint.
    pub fn disarm(&mut self) {
        if let Some(since) = self.hot.since.take() {
            self.hot.links.clear();
            self.hot.total += since.elapsed();
        }
    }

    /// Counts what a JVM does as it happens, from now on, as far as that can be: its `libjvm.so` is probed until it is
    /// released.
    pub fn attach_jvm(&mut self, pid: u32, libjvm: &File) -> Attached {
        self.uprobes.attach(&mut self.ebpf, pid, libjvm)
    }

    /// Counts no more what a JVM does.
    pub fn release_jvm(&mut self, pid: u32) {
        self.uprobes.release(pid);
    }

    /// How JVMs are probed, or why they cannot be.
    pub fn uprobes(&self) -> Result<&'static str, &str> {
        self.uprobes.how()
    }

    /// What this kernel lets the probes measure.
    pub fn measures(&self) -> Measures {
        self.measures
    }

    /// Whether the hot tier is attached.
    pub fn is_hot(&self) -> bool {
        self.hot.since.is_some()
    }

    /// How long the hot tier was attached so far.
    pub fn hot_time(&self) -> Duration {
        self.hot.total + self.hot.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Runs that the kernel skipped because the same probe was running on that CPU (`recursion_misses`, Linux 5.12).
    pub fn misses(&self) -> u64 {
        let fd = |program: &Program| match program {
            Program::BtfTracePoint(program) => Some(program.fd().ok()?.as_fd().as_raw_fd()),
            Program::UProbe(program) => Some(program.fd().ok()?.as_fd().as_raw_fd()),
            _ => None,
        };
        let fds = self.ebpf.programs().filter_map(|(_, program)| fd(program));
        let fds = fds.chain(self.uprobes.programs().iter().map(std::os::fd::AsRawFd::as_raw_fd));
        fds.filter_map(|fd| maps::fdinfo(fd, "recursion_misses")).sum()
    }
}

/// Names of the hot tier's probes.
fn hot(data_ready: bool) -> impl Iterator<Item = &'static str> {
    HOT.iter().copied().chain(data_ready.then_some(DATA_READY))
}

/// The object with its maps and globals; no program is loaded yet.
fn object(offsets: Offsets, btf: &Btf) -> Result<Ebpf, ProbeError> {
    let offsets = maps::Shared(offsets);
    let ops = dispatch::table();
    let loaded = EbpfLoader::new()
        .btf(Some(btf))
        .verifier_log_level(VerifierLogLevel::DEBUG)
        .override_global("OFFSETS", &offsets, true)
        .override_global("SYSCALL_OPS", &ops[..], true)
        .load(OBJECT);
    Ok(loaded.map_err(Box::new)?)
}

/// The loader takes some 20 MB while it parses the kernel's BTF; glibc would keep them.
fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut BtfTracePoint, ProbeError> {
    let program = ebpf.program_mut(name).expect("every name of the tiers is a program of the object");
    program.try_into().map_err(|e| refused(name, e))
}

fn attach(ebpf: &mut Ebpf, name: &'static str) -> Result<BtfTracePointLink, ProbeError> {
    let program = program(ebpf, name)?;
    let id = program.attach().map_err(|e| refused(name, e))?;
    program.take_link(id).map_err(|e| refused(name, e))
}

fn refused(name: &'static str, cause: ProgramError) -> ProbeError {
    ProbeError::Program { name, cause: Box::new(cause) }
}
