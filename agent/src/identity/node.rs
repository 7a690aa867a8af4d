//! The node that the agent runs on.

use std::{fs, io, path::Path};

/// Name and boot of the node.
#[derive(Clone, Debug)]
pub struct Node {
    /// As told, else the kernel's host name.
    pub name: String,
    boot_id: String,
}

impl Node {
    /// Reads the node's identity below `proc`.
    ///
    /// # Errors
    /// When the boot id cannot be read.
    pub fn read(proc: &Path, name: Option<String>) -> io::Result<Self> {
        let kernel = proc.join("sys/kernel");
        let boot_id = fs::read_to_string(kernel.join("random/boot_id"))?.trim().to_owned();
        let name = match name {
            Some(name) => name,
            None => fs::read_to_string(kernel.join("hostname"))?.trim().to_owned(),
        };
        Ok(Self { name, boot_id })
    }

    /// Identity of a process's timeline: 16 hexadecimal digits. The start time can be read again by the agent's next
    /// run, the exec time cannot; `programs` counts the programs that took this process over while it was a JVM.
    pub fn timeline_id(&self, pid: u32, start_ticks: u64, programs: u32) -> String {
        let text = format!("{}/{pid}/{start_ticks}/{programs}", self.boot_id);
        format!("{:016x}", fnv1a(text.as_bytes()))
    }
}

/// FNV-1a, which stays the same from build to build as std's hasher does not promise to.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
