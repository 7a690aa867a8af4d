//! Which of HotSpot's probes are attached to.

use std::fmt;

use agent_ebpf::Probe;
use timeline::{Probed, Source};

/// Work that is counted together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Classes,
    Compiles,
    Gc,
    Safepoints,
    Threads,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 5] = [Self::Classes, Self::Compiles, Self::Gc, Self::Safepoints, Self::Threads];

    /// Its name, and its place in what is probed.
    pub fn source(self, probed: &mut Probed) -> (&'static str, &mut Source) {
        match self {
            Self::Classes => ("classes", &mut probed.classes),
            Self::Compiles => ("compiles", &mut probed.compiles),
            Self::Gc => ("gc", &mut probed.gc),
            Self::Safepoints => ("safepoints", &mut probed.safepoints),
            Self::Threads => ("threads", &mut probed.threads),
        }
    }
}

/// A static probe that is attached to.
pub struct Wanted {
    pub group: Group,
    pub provider: &'static str,
    pub name: &'static str,
    pub probe: Probe,
    /// Which of its arguments make those of [`Probe`].
    pub args: &'static [usize],
}

impl Wanted {
    /// Whether a note is of this probe.
    pub fn is(&self, provider: &[u8], name: &[u8]) -> bool {
        (provider, name) == (self.provider.as_bytes(), self.name.as_bytes())
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.name)
    }
}

/// Their arguments are in hotspot.d and hs_private.d of hotspot/os/posix/dtrace.
pub const WANTED: [Wanted; 8] = {
    use Group::{Classes, Compiles, Gc, Safepoints, Threads};
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
    ]
};
