//! A JVM in a cgroup with limits, of whichever version this machine has.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agent::{
    identity::Proc,
    jvm::{Jvm, memory},
};

use crate::java::{Java, jdks};

const LIMIT_BYTES: u64 = 1 << 30;

/// A group of its own in each hierarchy that is needed.
struct Groups {
    dirs: Vec<PathBuf>,
    usage: PathBuf,
}

impl Groups {
    fn make() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = |kind: &str, controller: &str| {
            let line = mounts.lines().find(|line| {
                let of = line.split_once(" - ").unwrap().1;
                of.starts_with(&format!("{kind} ")) && (controller.is_empty() || of.ends_with(controller))
            })?;
            let at = Path::new(line.split(' ').nth(4).unwrap());
            Some(at.join(format!("jcold-test-{}", std::process::id())))
        };
        let write = |dir: &Path, file: &str, text: &str| fs::write(dir.join(file), text).unwrap();
        let limit = LIMIT_BYTES.to_string();
        if let (Some(memory), Some(cpu)) = (mount("cgroup", ",memory"), mount("cgroup", ",cpu")) {
            fs::create_dir(&memory).unwrap();
            fs::create_dir(&cpu).unwrap();
            write(&memory, "memory.limit_in_bytes", &limit);
            write(&cpu, "cpu.cfs_quota_us", "150000");
            return Self { usage: memory.join("memory.usage_in_bytes"), dirs: vec![memory, cpu] };
        }
        let both = mount("cgroup2", "").expect("cgroups of version 1 or 2");
        write(both.parent().unwrap(), "cgroup.subtree_control", "+memory +cpu");
        fs::create_dir(&both).unwrap();
        write(&both, "memory.max", &limit);
        write(&both, "cpu.max", "150000 100000");
        Self { usage: both.join("memory.current"), dirs: vec![both] }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in &self.dirs {
            // A group of processes that just ended may be busy for a moment; an empty one left behind does no harm.
            let _ = fs::remove_dir(dir);
        }
    }
}

#[test]
fn limits_and_usage_are_those_of_its_cgroup() {
    let groups = Groups::make();
    let join = |dir: &PathBuf| format!("echo $$ > {}/cgroup.procs && ", dir.display());
    let join = groups.dirs.iter().map(join).collect::<Vec<_>>().concat();
    let wrap = ["sh", "-c", &format!("{join} exec \"$@\""), "sh"];
    let proc = Proc::new("/proc");
    for jdk in jdks() {
        let java = Java::with(&jdk, &wrap, &[], |_| {});
        let facts = Jvm::open(&proc, java.pid).facts();
        let fact = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
        assert_eq!(fact("container_memory_limit_bytes"), Some(LIMIT_BYTES.to_string()));
        assert_eq!(fact("container_cpu_limit_millicores"), Some("1500".into()));
        // A quarter of the limit is what a JVM takes for its heap when nobody says anything.
        assert_eq!(fact("heap_max_bytes"), Some((LIMIT_BYTES / 4).to_string()), "{facts:?}");
        let told = memory(&proc, java.pid).cgroup_bytes.unwrap();
        let truth: u64 = fs::read_to_string(&groups.usage).unwrap().trim().parse().unwrap();
        assert!(told.abs_diff(truth) < truth / 10, "{told} beside {truth} of an idle process");
    }
}
