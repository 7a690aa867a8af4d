//! What a JVM tells about itself without being asked: its own counters, its flags and files, its memory.
//!
//! Nothing here makes the JVM do anything. What cannot be known is absent, and [`Unavailable`] says why in one line.

#![forbid(unsafe_code)]

mod archives;
pub mod args;
mod cgroup;
mod counters;
mod facts;
pub mod hsperfdata;
mod kind;
mod maps;
mod memory;
mod perf;
mod reason;
mod root;
pub mod usdt;

use std::{fs::File, path::Path};

use timeline::{Fact, Sample};

use self::{facts::Told, perf::Perf, root::Root};
pub use self::{kind::is_native_image, memory::memory, perf::Unavailable, root::NotOpened};
use crate::identity::Proc;

/// How often a file that is not there is looked for. A JVM maps it milliseconds after its exec, before its first thread
/// has a name; each look reads all of its maps.
const LOOKS: u32 = 10;

/// Bytes of the largest `libjvm.so` that is looked at: builds with debug information have some hundred million.
const LIBJVM_MOST: u64 = 1 << 30;

/// Opens a file that `pid` has mapped, such as its `libjvm.so`, by its path in the process's own root.
///
/// # Errors
/// Why it cannot be opened.
pub fn libjvm(proc: &Proc, pid: u32, path: &str) -> Result<File, NotOpened> {
    Root::open(proc, pid).map_err(NotOpened::Refused)?.file(Path::new(path), LIBJVM_MOST)
}

/// One process, as it shows itself.
///
/// It holds the counters' file open, and so keeps the file system of a container from being unmounted: drop it when the
/// process has ended. Until then the last counters stay readable, also of a JVM that removed its file at its exit.
#[derive(Debug)]
pub struct Jvm {
    proc: Proc,
    pid: u32,
    perf: Result<Perf, Unavailable>,
    looks: u32,
}

impl Jvm {
    /// Looks for the counters of `pid`, a process id of `proc`.
    pub fn open(proc: &Proc, pid: u32) -> Self {
        Self { proc: proc.clone(), pid, perf: Perf::find(proc, pid), looks: 1 }
    }

    /// The counters as they are now. One that had none yet is looked at again, a bounded number of times.
    ///
    /// # Errors
    /// Why there are none; when that is final, looking again costs nothing.
    pub fn sample(&mut self) -> Result<Sample, Unavailable> {
        self.perf()?.sample()
    }

    /// What is known of the process at this moment. Reads several files of /proc: for milestones, not for every tick.
    pub fn facts(&mut self) -> Vec<Fact> {
        let (proc, pid) = (self.proc.clone(), self.pid);
        let told = self.perf().and_then(|perf| perf.entries().map(Told));
        facts::facts(&proc, pid, &told)
    }

    fn perf(&mut self) -> Result<&mut Perf, Unavailable> {
        if self.perf.as_ref().is_err_and(Unavailable::may_pass) && self.looks < LOOKS {
            self.looks += 1;
            self.perf = Perf::find(&self.proc, self.pid);
        }
        self.perf.as_mut().map_err(|error| error.clone())
    }
}
