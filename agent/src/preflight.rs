//! What the agent needs of its node, checked one by one: `doctor`'s report, and the first line of every other command.

use std::{fmt, fs, path::Path};

use crate::probes::{Maps, ProbeError, Probes, offsets::BTF_PATH};

/// What came out of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be; with what was found.
    Good(String),
    /// Works without it, and what is lost.
    Reduced(String),
    /// Does not work: what is missing, and what mends it.
    Missing(String),
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What came out.
    pub outcome: Outcome,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, text) = match &self.outcome {
            Outcome::Good(text) => ("ok", text),
            Outcome::Reduced(text) => ("warn", text),
            Outcome::Missing(text) => ("FAIL", text),
        };
        write!(f, "{mark:<5} {:<20} {text}", self.name)
    }
}

/// First kernel with ring buffers and the boot-time clock (kernel/bpf/ringbuf.c, `bpf_ktime_get_boot_ns`), long-term.
const KERNEL_FLOOR: (u32, u32) = (5, 10);

// include/uapi/linux/capability.h
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Inode of the initial PID namespace (include/linux/proc_ns.h, `PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The checks that cost nothing, in the order in which a failure explains those behind it.
pub fn quick(root: &Path) -> Vec<Check> {
    vec![
        check("capabilities", capabilities(root)),
        check("kernel", kernel(root)),
        check("btf", btf(root)),
        check("pid namespace", pid_namespace(root)),
        check("tracefs", tracefs(root)),
    ]
}

/// Loads and attaches every probe, each by itself, then all of them as the agent does.
pub fn probes() -> Vec<Check> {
    let examined = match Probes::examine() {
        Ok(examined) => examined,
        Err(error) => return vec![check("probes", refused(error))],
    };
    let outcome = |result: Result<(), ProbeError>| match result {
        Ok(()) => Outcome::Good("loads and attaches".to_owned()),
        Err(error) => refused(error),
    };
    let mut checks: Vec<Check> =
        examined.into_iter().map(|(name, result)| check(name, outcome(result))).collect();
    if first_missing(&checks).is_none() {
        match Probes::load(true) {
            Ok((probes, maps, _)) => {
                checks.push(check("usdt", usdt(&probes)));
                checks.push(check("maps", measured(&probes, &maps)));
            }
            Err(error) => checks.push(check("maps", refused(error))),
        }
    }
    checks
}

/// Whether a JVM's work can be counted as it happens.
fn usdt(probes: &Probes) -> Outcome {
    match probes.uprobes() {
        Ok(how) => Outcome::Good(format!("can be attached to libjvm.so ({how})")),
        Err(reason) => {
            let instead = "classes, compilations and collections are sampled from the JVMs' own counters";
            Outcome::Reduced(format!("{reason}; {instead}"))
        }
    }
}

fn measured(probes: &Probes, maps: &Maps) -> Outcome {
    let text = format!("{} KiB", maps.memory_bytes() / 1024);
    let lacks = probes.measures().lacks();
    if lacks.is_empty() {
        Outcome::Good(text)
    } else {
        Outcome::Reduced(format!("{text}; this kernel does not tell {}", lacks.join(", ")))
    }
}

fn refused(error: ProbeError) -> Outcome {
    Outcome::Missing(format!("{:#}", anyhow::Error::from(error)))
}

/// The first thing that is missing, as one line.
pub fn first_missing(checks: &[Check]) -> Option<String> {
    checks.iter().find_map(|check| match &check.outcome {
        Outcome::Missing(text) => Some(format!("{}: {text}", check.name)),
        _ => None,
    })
}

fn check(name: &'static str, outcome: Outcome) -> Check {
    Check { name, outcome }
}

fn capabilities(root: &Path) -> Outcome {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective & (1 << capability) != 0;
    let admin = has(CAP_SYS_ADMIN);
    let needed = [
        ("CAP_BPF", has(CAP_BPF) || admin),
        ("CAP_PERFMON", has(CAP_PERFMON) || admin),
        ("CAP_SYS_PTRACE", has(CAP_SYS_PTRACE)),
    ];
    let missing: Vec<&str> = needed.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Outcome::Good("CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE".to_owned());
    }
    Outcome::Missing(format!("{} missing: run as root, or add it to the container", missing.join(", ")))
}

fn kernel(root: &Path) -> Outcome {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= KERNEL_FLOOR {
        return Outcome::Good(release.to_owned());
    }
    let (major, minor) = KERNEL_FLOOR;
    Outcome::Missing(format!("{release} is too old: Linux {major}.{minor} or later is needed"))
}

fn btf(root: &Path) -> Outcome {
    let path = root.join(BTF_PATH.trim_start_matches('/'));
    match fs::metadata(&path) {
        Ok(meta) => Outcome::Good(format!("{BTF_PATH}, {} KiB", meta.len() / 1024)),
        Err(_) => Outcome::Missing(format!(
            "{BTF_PATH} is not there: mount it with `mount -t sysfs sysfs /sys`, or boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
        )),
    }
}

fn pid_namespace(root: &Path) -> Outcome {
    match fs::read_link(root.join("proc/self/ns/pid")) {
        Ok(link) if link.as_os_str() == INITIAL_PID_NAMESPACE => Outcome::Good("the node's own".to_owned()),
        Ok(_) => Outcome::Missing(
            "not the node's own: the probes' process ids mean nothing here; set hostPID: true".to_owned(),
        ),
        Err(error) => {
            Outcome::Missing(format!("/proc/self/ns/pid: {error}; mount it with `mount -t proc proc /proc`"))
        }
    }
}

fn tracefs(root: &Path) -> Outcome {
    let mounted = ["sys/kernel/tracing", "sys/kernel/debug/tracing"]
        .iter()
        .find(|dir| root.join(dir).join("events").is_dir());
    Outcome::Good(match mounted {
        Some(dir) => format!("/{dir}; not needed: every hook in the kernel is a BTF tracepoint"),
        None => {
            "not mounted; not needed: every hook in the kernel is a BTF tracepoint (`mount -t tracefs tracefs /sys/kernel/tracing` would)"
                .to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(capabilities: &str, release: &str, btf: bool, namespace: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/status", &format!("Name:\tx\nCapEff:\t{capabilities}\n"));
        write("proc/sys/kernel/osrelease", release);
        fs::create_dir_all(dir.path().join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink(namespace, dir.path().join("proc/self/ns/pid")).unwrap();
        if btf {
            write("sys/kernel/btf/vmlinux", "x");
        }
        dir
    }

    #[test]
    fn the_first_thing_missing_is_named_with_what_mends_it() {
        const ROOT: &str = "000001ffffffffff";
        const HOST: &str = INITIAL_PID_NAMESPACE;
        for (capabilities, release, btf, namespace, expect) in [
            (ROOT, "6.18.44-cloud", true, HOST, None),
            ("0000000000000000", "6.18.44", true, HOST, Some("CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE")),
            ("000000c000000000", "6.1.0-13-amd64", true, HOST, Some("CAP_SYS_PTRACE missing")),
            ("0000000000280000", "5.10.0", true, HOST, None),
            (ROOT, "5.4.0-150-generic", true, HOST, Some("Linux 5.10 or later")),
            (ROOT, "5.15.0", false, HOST, Some("mount -t sysfs")),
            (ROOT, "5.15.0", true, "pid:[4026532777]", Some("hostPID: true")),
        ] {
            let dir = tree(capabilities, release, btf, namespace);
            let missing = first_missing(&quick(dir.path()));
            match expect {
                None => assert_eq!(missing, None),
                Some(part) => assert!(missing.as_deref().unwrap_or("").contains(part), "{missing:?}"),
            }
        }
    }
}
