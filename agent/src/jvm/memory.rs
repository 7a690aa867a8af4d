//! Memory of a process and its cgroup.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};
use timeline::Memory;

use super::cgroup::Cgroup;
use crate::identity::Proc;

/// Memory as it is now. What cannot be read is absent.
///
/// The resident size is the kernel's running count (`/proc/PID/statm`), as in `ps`; it may lag by some pages for each
/// CPU. A process in the topmost cgroup has none.
pub fn memory(proc: &Proc, pid: u32) -> Memory {
    Memory {
        rss_bytes: rss_bytes(proc, pid),
        cgroup_bytes: Cgroup::find(proc, pid, "memory").and_then(|group| group.memory_bytes()),
    }
}

fn rss_bytes(proc: &Proc, pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(proc.root().join(pid.to_string()).join("statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()?;
    // One that is ending has none.
    pages.checked_mul(page_bytes).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_gone_has_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::new(dir.path());
        assert_eq!(memory(&proc, 3), Memory::default());
        fs::create_dir(dir.path().join("3")).unwrap();
        for (statm, expect) in [("9 2 1 1 0 1 0\n", true), ("0 0 0 0 0 0 0\n", false), ("x\n", false)] {
            fs::write(dir.path().join("3/statm"), statm).unwrap();
            assert_eq!(memory(&proc, 3).rss_bytes.is_some(), expect, "{statm}");
        }
    }
}
