//! What jcold needs of a machine: what cannot be installed, and what can.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::utsname::uname;
use nix::unistd::geteuid;

use super::{Purpose, ebpf};
use crate::{jdk, postgres, step};

/// Oldest kernel that the agent runs on: ring buffer and boot-time clock.
const KERNEL: (u32, u32) = (5, 10);

/// What a look found.
pub enum Look {
    /// It is there, with what shows it.
    There(String),
    /// It is not, with what was seen or what to do.
    Missing(String),
}

/// A property of the machine that no package changes.
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// What a look found; the text of a missing one is the remedy.
    pub look: Look,
}

/// A tool.
pub struct Need {
    /// Its name.
    pub name: &'static str,
    /// The least that needs it.
    pub purpose: Purpose,
    /// Looks for it.
    pub look: fn() -> Look,
    /// Packages of Debian that bring it.
    pub debian: &'static [&'static str],
    /// How to get it where there is no apt, or no root.
    pub elsewhere: &'static str,
}

/// The machine's properties that `purpose` needs.
pub fn facts(purpose: Purpose) -> Vec<Fact> {
    let mut facts = vec![Fact { name: "Linux ≥ 5.10", look: kernel() }];
    if purpose >= Purpose::Demo {
        facts.push(Fact { name: "kernel BTF", look: btf() });
        facts.push(Fact { name: "root", look: root() });
    }
    facts
}

fn kernel() -> Look {
    let Ok(name) = uname() else { return Look::Missing("uname failed; jcold needs Linux".into()) };
    let release = name.release().to_string_lossy().into_owned();
    let system = name.sysname().to_string_lossy().into_owned();
    if system == "Linux" && version(&release).is_some_and(|version| version >= KERNEL) {
        return Look::There(release);
    }
    Look::Missing(format!("this is {system} {release}; the agent needs Linux 5.10 or later"))
}

/// Major and minor number of a kernel's release, `6.1.0-21-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn btf() -> Look {
    const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
    if Path::new(VMLINUX).is_file() {
        return Look::There(VMLINUX.into());
    }
    Look::Missing(format!("no {VMLINUX}; needs a kernel with CONFIG_DEBUG_INFO_BTF=y and sysfs on /sys"))
}

fn root() -> Look {
    if geteuid().is_root() {
        return Look::There("uid 0".into());
    }
    Look::Missing("probes load with CAP_BPF and CAP_PERFMON; run the same command with sudo -E; on Debian that also installs the rest".into())
}

/// The tools, in the order in which they are needed.
pub fn all() -> Vec<Need> {
    vec![
        Need {
            name: "C compiler",
            purpose: Purpose::Build,
            look: || on_path("cc"),
            debian: &["build-essential"],
            elsewhere: "gcc or clang, as `cc` on the PATH",
        },
        Need {
            name: "rust ≥ 1.95",
            purpose: Purpose::Build,
            look: rust,
            debian: &[],
            elsewhere: "`rustup update stable` (https://rustup.rs)",
        },
        Need {
            name: "eBPF compiler",
            purpose: Purpose::Build,
            look: ebpf::look_compiler,
            debian: ebpf::DEBIAN,
            elsewhere: "`rustup toolchain install nightly --component rust-src`, or name another toolchain with \
                        rust-src in JCOLD_EBPF_TOOLCHAIN",
        },
        Need {
            name: "bpf-linker",
            purpose: Purpose::Build,
            look: ebpf::look_linker,
            debian: ebpf::DEBIAN,
            elsewhere: "`cargo install bpf-linker` with the LLVM of the eBPF compiler, or its prebuilt release, on the PATH",
        },
        Need {
            name: "jdk ≥ 17",
            purpose: Purpose::Build,
            look: jdk,
            debian: &["openjdk-17-jdk-headless"],
            elsewhere: "a JDK from 17 on under /usr/lib/jvm, on the PATH or in JAVA_HOME (25 is preferred)",
        },
        Need {
            name: "maven",
            purpose: Purpose::Build,
            look: || on_path("mvn"),
            debian: &["maven"],
            elsewhere: "Maven 3.8 or later, as `mvn` on the PATH",
        },
        Need {
            name: "postgresql server",
            purpose: Purpose::Demo,
            look: || match postgres::programs() {
                Some(dir) => Look::There(dir.display().to_string()),
                None => Look::Missing("no initdb in /usr/lib/postgresql/*/bin or on the PATH".into()),
            },
            debian: &["postgresql"],
            elsewhere: "PostgreSQL's server programs (initdb, postgres, psql); none needs to be running",
        },
        Need {
            name: "promtool",
            purpose: Purpose::Test,
            look: || on_path("promtool"),
            debian: &["prometheus"],
            elsewhere: "Prometheus's promtool on the PATH; none needs to be running",
        },
    ]
}

/// A program of the PATH.
pub fn on_path(program: &str) -> Look {
    let found = env::var_os("PATH")
        .and_then(|path| env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file()));
    match found {
        Some(file) => Look::There(file.display().to_string()),
        None => Look::Missing(format!("no `{program}` on the PATH")),
    }
}

fn rust() -> Look {
    let Some(answer) = step::ask(Command::new("rustc").arg("-V")) else {
        return Look::Missing("no rustc".into());
    };
    match answer.split(' ').nth(1).and_then(version) {
        Some(version) if version >= (1, 95) => Look::There(answer),
        _ => Look::Missing(answer),
    }
}

fn jdk() -> Look {
    match jdk::choose() {
        Ok(jdk) => Look::There(format!("{} ({})", jdk.home.display(), jdk.version)),
        Err(error) => Look::Missing(error.to_string()),
    }
}

/// Whether this is Debian or made from it.
pub fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| {
        line.strip_prefix("ID=")
            .or_else(|| line.strip_prefix("ID_LIKE="))
            .is_some_and(|ids| ids.trim_matches('"').split(' ').any(|id| id == "debian"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        assert_eq!(version("5.9.16-generic"), Some((5, 9)));
        assert!(version("5.10.240").unwrap() >= KERNEL && version("5.9.16").unwrap() < KERNEL);
        assert!(version("6.1.0-21-amd64").unwrap() >= KERNEL);
        assert_eq!(version("unknown"), None);
    }
}
