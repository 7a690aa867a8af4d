//! The cgroup of a process as files: what it is charged with, and what it may use. Versions 1 and 2.

use std::path::{Component, Path, PathBuf};

use super::root::Root;
use crate::identity::Proc;

/// A file of a cgroup holds a number or two.
const FILE_BYTES: u64 = 1 << 12;
/// The kernel writes "no limit" of v1 as the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// The cgroup of a process in the hierarchy of one controller.
#[derive(Debug)]
pub struct Cgroup {
    root: Root,
    /// Its directory, and those above that can be seen.
    dirs: Vec<PathBuf>,
    v2: bool,
}

impl Cgroup {
    /// Finds it: seen from the node's first process, which may see the parents too, else from the process itself, which
    /// in a container sees only its own.
    pub fn find(proc: &Proc, pid: u32, controller: &str) -> Option<Self> {
        let text = proc.cgroup(pid)?;
        let (path, v2) = path_of(&text, controller)?;
        // The topmost is the machine, not a group.
        if path == "/" {
            return None;
        }
        [1, pid].into_iter().find_map(|viewer| {
            let root = Root::open(proc, viewer).ok()?;
            let dirs = root.mounts().iter().rev().find_map(|mount| {
                let right = if v2 {
                    mount.kind == "cgroup2"
                } else {
                    mount.kind == "cgroup" && mount.options.split(',').any(|option| option == controller)
                };
                // Both paths are told from the agent's own cgroup namespace, so what is above it may be `..` in both.
                let below = right.then(|| Path::new(path).strip_prefix(&mount.root).ok())??;
                let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
                inside.then(|| {
                    let dirs = below.ancestors().map(|dir| mount.at.join(dir));
                    dirs.collect::<Vec<_>>()
                })
            })?;
            let group = Self { root, dirs, v2 };
            group.text(&group.dirs[0], "cgroup.procs").map(|_| group)
        })
    }

    /// Bytes that it is charged with.
    pub fn memory_bytes(&self) -> Option<u64> {
        let file = if self.v2 { "memory.current" } else { "memory.usage_in_bytes" };
        self.text(&self.dirs[0], file)?.trim().parse().ok()
    }

    /// The lowest limit of its memory and its parents', and the file that holds it.
    pub fn memory_limit_bytes(&self) -> Option<(u64, String)> {
        let file = if self.v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limits = self.dirs.iter().filter_map(|dir| {
            let limit: u64 = self.text(dir, file)?.trim().parse().ok()?;
            (limit < NO_LIMIT).then_some((limit, dir))
        });
        limits.min().map(|(limit, dir)| (limit, self.source(dir, file)))
    }

    /// The lowest limit of its CPU bandwidth and its parents', in thousandths of a CPU, and the file that holds it.
    pub fn cpu_limit_millicores(&self) -> Option<(u64, String)> {
        let file = if self.v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
        let limits = self.dirs.iter().filter_map(|dir| {
            let mut text = self.text(dir, file)?;
            if !self.v2 {
                text = format!("{} {}", text.trim(), self.text(dir, "cpu.cfs_period_us")?.trim());
            }
            // "max" and -1 are no limit, and no such numbers.
            let (quota_us, period_us) = text.trim().split_once(' ')?;
            let (quota_us, period_us): (u64, u64) = (quota_us.parse().ok()?, period_us.parse().ok()?);
            Some((quota_us.checked_mul(1000)?.checked_div(period_us)?, dir))
        });
        limits.min().map(|(limit, dir)| (limit, self.source(dir, file)))
    }

    fn source(&self, dir: &Path, file: &str) -> String {
        let version = if self.v2 { "cgroup v2" } else { "cgroup v1" };
        let of = if self.dirs[0] == dir { "" } else { " of a parent" };
        format!("{version} {file}{of}")
    }

    fn text(&self, dir: &Path, file: &str) -> Option<String> {
        self.root.text(&dir.join(file), FILE_BYTES).ok()
    }
}

/// The path for a controller, and whether it is of version 2, whose line names no controllers (cgroups(7)).
fn path_of<'a>(text: &'a str, controller: &str) -> Option<(&'a str, bool)> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|found| found == controller));
    let v1 = v1.map(|(_, path)| (path, false));
    v1.or_else(|| lines().find(|(controllers, _)| controllers.is_empty()).map(|(_, path)| (path, true)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(cgroup: &str, mounts: &[(u32, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("9/cgroup", cgroup);
            for (pid, mountinfo) in mounts {
                tree.write(&format!("{pid}/mountinfo"), mountinfo);
                tree.write(&format!("{pid}/root/x"), "");
            }
            tree
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn find(&self, controller: &str) -> Option<Cgroup> {
            Cgroup::find(&Proc::new(self.0.path()), 9, controller)
        }
    }

    const V2: &str = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn version_2_seen_from_the_node() {
        let tree = Tree::new("0::/kubepods/pod1/c1\n", &[(1, V2), (9, "")]);
        let at = "1/root/sys/fs/cgroup/kubepods";
        tree.write(&format!("{at}/pod1/c1/cgroup.procs"), "9\n");
        tree.write(&format!("{at}/pod1/c1/memory.current"), "4096\n");
        tree.write(&format!("{at}/pod1/c1/memory.max"), "max\n");
        tree.write(&format!("{at}/pod1/memory.max"), "1000\n");
        tree.write(&format!("{at}/memory.max"), "2000\n");
        tree.write(&format!("{at}/pod1/c1/cpu.max"), "50000 100000\n");
        tree.write(&format!("{at}/pod1/cpu.max"), "max 100000\n");
        let group = tree.find("memory").unwrap();
        assert_eq!(group.memory_bytes(), Some(4096));
        assert_eq!(group.memory_limit_bytes(), Some((1000, "cgroup v2 memory.max of a parent".into())));
        assert_eq!(group.cpu_limit_millicores(), Some((500, "cgroup v2 cpu.max".into())));
    }

    #[test]
    fn version_2_seen_from_the_container_by_an_agent_in_a_namespace() {
        let own = "30 25 0:26 /../../pod1/c1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::new("0::/../../pod1/c1\n", &[(1, V2), (9, own)]);
        tree.write("9/root/sys/fs/cgroup/cgroup.procs", "1\n");
        tree.write("9/root/sys/fs/cgroup/memory.current", "8192\n");
        // The node's own file is not the container's.
        tree.write("1/root/sys/fs/cgroup/memory.current", "1\n");
        assert_eq!(tree.find("memory").unwrap().memory_bytes(), Some(8192));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let mounts = "31 25 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 25 0:28 / /cg/mem rw - cgroup cgroup rw,memory\n";
        let tree = Tree::new("4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/\n", &[(1, mounts)]);
        tree.write("1/root/cg/mem/a/b/cgroup.procs", "");
        tree.write("1/root/cg/mem/a/b/memory.usage_in_bytes", "12288\n");
        tree.write("1/root/cg/mem/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        tree.write("1/root/cg/cpu/c/cgroup.procs", "");
        tree.write("1/root/cg/cpu/c/cpu.cfs_quota_us", "150000\n");
        tree.write("1/root/cg/cpu/c/cpu.cfs_period_us", "100000\n");
        tree.write("1/root/cg/cpu/cpu.cfs_quota_us", "-1\n");
        tree.write("1/root/cg/cpu/cpu.cfs_period_us", "100000\n");
        let memory = tree.find("memory").unwrap();
        assert_eq!((memory.memory_bytes(), memory.memory_limit_bytes()), (Some(12288), None));
        let limit = tree.find("cpu").unwrap().cpu_limit_millicores();
        assert_eq!(limit, Some((1500, "cgroup v1 cpu.cfs_quota_us".into())));
    }

    #[test]
    fn no_group_and_no_limit() {
        assert!(Tree::new("0::/\n", &[(1, V2)]).find("memory").is_none());
        assert!(Tree::new("0::/a\n", &[(1, "")]).find("memory").is_none());
        assert!(Tree::new("", &[(1, V2)]).find("cpu").is_none());
        let tree = Tree::new("0::/a\n", &[(1, V2)]);
        tree.write("1/root/sys/fs/cgroup/a/cgroup.procs", "");
        tree.write("1/root/sys/fs/cgroup/a/cpu.max", "100 0\n");
        tree.write("1/root/sys/fs/cgroup/a/memory.current", "garbage\n");
        let group = tree.find("memory").unwrap();
        assert_eq!(
            (group.memory_bytes(), group.memory_limit_bytes(), group.cpu_limit_millicores()),
            (None, None, None)
        );
    }
}
