//! The counters of a JVM that runs: finds its hsperfdata file, opens it, reads it.
//!
//! jstat and the JVM share the file as mapped memory. It is read with `pread` here, not mapped: memory that another
//! process changes cannot be a Rust slice (its bytes must not change under a shared reference), and a mapping of a file
//! that its owner cuts short kills the reader with SIGBUS. One read copies what is in use, 8 to 14 KiB; aligned numbers
//! do not tear in it on the processors that are supported, and two numbers may be an update apart, as for jstat.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use timeline::Sample;

use super::{
    counters::Index,
    hsperfdata::{self, Entry, Malformed, PROLOGUE_BYTES, Prologue},
    kind::is_native_image,
    maps::Maps,
    reason,
    root::{NotOpened, Root, errno},
};
use crate::identity::Proc;

/// -XX:PerfDataMemorySize is 32 KiB by default; nothing that a JVM counts needs so much.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes that are read before it is known how many are in use.
const FIRST_BYTES: usize = 32 << 10;

/// Why a JVM's own counters are not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The process has ended.
    #[error("the process has ended")]
    Gone,
    /// The agent may not look at it.
    #[error("{path} cannot be read ({errno}): the agent needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")]
    NotAllowed {
        /// What was asked for.
        path: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// It is another kind of virtual machine.
    #[error("{0} keeps no hsperfdata")]
    OtherVm(&'static str),
    /// It is a GraalVM native image.
    #[error("a native image keeps no hsperfdata unless it was built with --enable-monitoring=jvmstat")]
    NativeImage,
    /// It was told not to.
    #[error("the JVM runs with {0}")]
    SwitchedOff(&'static str),
    /// HotSpot names the file after the user.
    #[error("uid {uid} has no entry in /etc/passwd, without which a JVM makes no hsperfdata file")]
    NoPasswd {
        /// Of the process, as its container sees it.
        uid: u32,
    },
    /// There is no place for the file.
    #[error("/tmp is {0}, so the JVM could make no hsperfdata file")]
    NoTmp(&'static str),
    /// No known reason holds.
    #[error("the JVM has mapped no hsperfdata file")]
    NotMapped,
    /// It was there.
    #[error("{path} was deleted")]
    Deleted {
        /// As the process sees it.
        path: String,
    },
    /// The mapped file is of another process, such as one that forked this.
    #[error("{path} is another process's: this one is {pid} in its namespace")]
    Foreign {
        /// As the process sees it.
        path: String,
        /// In the innermost namespace.
        pid: u32,
    },
    /// It was not opened.
    #[error("{path} was not opened: {source}")]
    NotOpened {
        /// As the process sees it.
        path: String,
        /// Why.
        source: NotOpened,
    },
    /// It cannot be read.
    #[error("{path} cannot be read: {errno}")]
    NotRead {
        /// As the process sees it.
        path: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// It is not what it should be.
    #[error("{path} is not hsperfdata: {source}")]
    Malformed {
        /// As the process sees it.
        path: String,
        /// What is wrong.
        source: Malformed,
    },
}

impl Unavailable {
    /// Whether it may be otherwise a moment later: a JVM that starts has not mapped the file yet, and says so by none
    /// of its reasons.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::NotMapped | Self::NoPasswd { .. } | Self::NoTmp(_))
    }
}

/// The open file of a JVM.
#[derive(Debug)]
pub(super) struct Perf {
    path: String,
    file: File,
    bytes: Vec<u8>,
    /// How many of `bytes` the latest read gave and are in use.
    used: usize,
    index: Option<Index>,
}

impl Perf {
    /// Finds and opens the file.
    ///
    /// Only what the process has mapped counts: a file that merely has the right name is a stale or a planted one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(proc: &Proc, pid: u32) -> Result<Self, Unavailable> {
        let maps = Maps::read(proc, pid)?;
        if let Some(other) = maps.other_vm() {
            return Err(Unavailable::OtherVm(other));
        }
        let Some((path, deleted)) = maps.hsperfdata() else {
            let native = maps.libjvm().is_none() && is_native_image(proc, pid);
            return Err(if native { Unavailable::NativeImage } else { reason::of_no_file(proc, pid) });
        };
        let name = || path.to_owned();
        let own = proc.container_pid(pid).unwrap_or(pid);
        if path.rsplit('/').next() != Some(own.to_string().as_str()) {
            return Err(Unavailable::Foreign { path: name(), pid: own });
        }
        if deleted {
            return Err(Unavailable::Deleted { path: name() });
        }
        let root = Root::open(proc, pid).map_err(|errno| not_allowed(proc, pid, "root", errno))?;
        let file = root.file(Path::new(path), MOST_BYTES);
        let file = file.map_err(|source| match source {
            NotOpened::Refused(errno @ (Errno::EACCES | Errno::EPERM)) => {
                Unavailable::NotAllowed { path: name(), errno }
            }
            source => Unavailable::NotOpened { path: name(), source },
        })?;
        Ok(Self { path: name(), file, bytes: vec![0; FIRST_BYTES], used: 0, index: None })
    }

    /// Reads the part in use.
    fn read(&mut self) -> Result<Prologue, Unavailable> {
        let (mut length, mut prologue) = self.fill()?;
        if prologue.used_bytes > self.bytes.len() {
            let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
            self.bytes.resize(prologue.used_bytes.min(most), 0);
            (length, prologue) = self.fill()?;
        }
        self.used = length.min(prologue.used_bytes);
        // The next read needs what is in use now, and some room for what is added.
        let enough = (self.used + PROLOGUE_BYTES).next_multiple_of(4 << 10);
        self.bytes.truncate(enough);
        Ok(prologue)
    }

    fn fill(&mut self) -> Result<(usize, Prologue), Unavailable> {
        let read = self.file.read_at(&mut self.bytes, 0);
        let length =
            read.map_err(|error| Unavailable::NotRead { path: self.path.clone(), errno: errno(&error) })?;
        let prologue = Prologue::parse(&self.bytes[..length]).map_err(|source| self.malformed(source))?;
        Ok((length, prologue))
    }

    fn used(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    fn malformed(&self, source: Malformed) -> Unavailable {
        Unavailable::Malformed { path: self.path.clone(), source }
    }

    /// The wanted counters as they are now.
    ///
    /// # Errors
    /// When the file is not, or no longer, what it should be.
    pub fn sample(&mut self) -> Result<Sample, Unavailable> {
        let prologue = self.read()?;
        let index = match self.index.take().filter(|index| index.fits(&prologue)) {
            Some(index) => index,
            None => Index::build(self.used(), prologue).map_err(|source| self.malformed(source))?,
        };
        let sample = index.sample(self.used());
        self.index = Some(index);
        Ok(sample)
    }

    /// All counters that are there.
    ///
    /// # Errors
    /// When the file is not, or no longer, what it should be.
    pub fn entries(&mut self) -> Result<Vec<Entry<'_>>, Unavailable> {
        let prologue = self.read()?;
        let mut entries = Vec::new();
        for entry in hsperfdata::entries(self.used(), &prologue) {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(Malformed::Unfinished { .. }) => break,
                Err(source) => return Err(self.malformed(source)),
            }
        }
        Ok(entries)
    }
}

/// What an errno of a look at `/proc/PID/file` means.
pub(super) fn not_allowed(proc: &Proc, pid: u32, file: &str, errno: Errno) -> Unavailable {
    match errno {
        Errno::ENOENT | Errno::ESRCH => Unavailable::Gone,
        errno => {
            let path: PathBuf = proc.root().join(pid.to_string()).join(file);
            Unavailable::NotAllowed { path: path.display().to_string(), errno }
        }
    }
}
