//! Files that a process has mapped, from `/proc/PID/maps`.

use std::{fs, path::Path};

use super::{
    perf::{Unavailable, not_allowed},
    root::errno,
};
use crate::identity::Proc;

/// What the kernel puts behind the path of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// The mapped files, each once.
#[derive(Debug)]
pub struct Maps(Vec<String>);

impl Maps {
    /// Reads the maps of a process.
    ///
    /// # Errors
    /// When it has gone or the agent may not look at it.
    pub fn read(proc: &Proc, pid: u32) -> Result<Self, Unavailable> {
        let bytes = fs::read(proc.root().join(pid.to_string()).join("maps"))
            .map_err(|error| not_allowed(proc, pid, "maps", errno(&error)))?;
        // One that is ending has no memory any more.
        if bytes.is_empty() {
            return Err(Unavailable::Gone);
        }
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> Self {
        let mut paths = Vec::new();
        for line in text.lines() {
            // Address, permissions, offset, device and inode hold no slash (proc_pid_maps(5)).
            let Some(path) = line.find('/').map(|at| &line[at..]) else { continue };
            // A file's mappings follow each other.
            if paths.last().is_none_or(|last| last != path) {
                paths.push(path.to_owned());
            }
        }
        Self(paths)
    }

    /// Their paths, as the process sees them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The first path whose last part `wanted` accepts.
    pub fn named(&self, wanted: impl Fn(&str) -> bool) -> Option<&str> {
        self.paths().find(|path| {
            let path = path.strip_suffix(DELETED).unwrap_or(path);
            path.rsplit('/').next().is_some_and(&wanted)
        })
    }

    /// Path of `libjvm.so`.
    pub fn libjvm(&self) -> Option<&str> {
        self.named(|name| name == "libjvm.so")
    }

    /// A virtual machine that is not HotSpot: OpenJ9 has a `libjvm.so` too, which hands on to its own library.
    pub fn other_vm(&self) -> Option<&'static str> {
        self.named(|name| name.starts_with("libj9vm")).map(|_| "openj9")
    }

    /// Path of the mapped hsperfdata file, and whether it was deleted: `…/hsperfdata_<user>/<pid>`.
    pub fn hsperfdata(&self) -> Option<(&str, bool)> {
        self.paths().find_map(|path| {
            let kept = path.strip_suffix(DELETED);
            let plain = kept.unwrap_or(path);
            let (dir, name) = plain.rsplit_once('/')?;
            let of_jvm = Path::new(dir).file_name()?.to_str()?.starts_with("hsperfdata_")
                && !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_digit());
            of_jvm.then_some((plain, kept.is_some()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_jvm() {
        let maps = Maps::parse(
            "7f00-7f01 r--p 00000000 08:01 99  /opt/jdk 25/lib/server/libjvm.so\n\
             7f01-7f02 r-xp 00000000 08:01 99  /opt/jdk 25/lib/server/libjvm.so\n\
             7f02-7f03 rw-p 00000000 00:00 0\n\
             7f03-7f04 rw-p 00000000 00:00 0   [heap]\n\
             7f04-7f05 rw-s 00000000 fe:00 12  /tmp/hsperfdata_a/b/31471\n\
             7f05-7f06 rw-s 00000000 fe:00 12  /tmp/hsperfdata_me/31471x\n\
             7f06-7f07 rw-s 00000000 fe:00 12  /tmp/hsperfdata_me/31471\n",
        );
        assert_eq!(maps.libjvm(), Some("/opt/jdk 25/lib/server/libjvm.so"));
        assert_eq!(maps.hsperfdata(), Some(("/tmp/hsperfdata_me/31471", false)));
        assert_eq!(maps.other_vm(), None);
        assert_eq!(maps.paths().count(), 4);
        let gone = Maps::parse("7f06-7f07 rw-s 00000000 fe:00 12  /tmp/hsperfdata_me/7 (deleted)\n");
        assert_eq!(gone.hsperfdata(), Some(("/tmp/hsperfdata_me/7", true)));
        let j9 = Maps::parse("7f00-7f01 r--p 00000000 08:01 99  /opt/j9/lib/default/libj9vm29.so\n");
        assert_eq!(j9.other_vm(), Some("openj9"));
    }
}
