//! On the `libjvm.so`s of this machine.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::*;

/// Those of `JCOLD_JAVA_HOME`, or all that are installed.
fn libjvms() -> Vec<PathBuf> {
    let homes: Vec<PathBuf> = match env::var_os("JCOLD_JAVA_HOME") {
        Some(home) => vec![home.into()],
        None => fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|dir| dir.path()).collect(),
    };
    let of = |home: &PathBuf| home.join("lib/server/libjvm.so").canonicalize().ok();
    let mut paths: Vec<PathBuf> = homes.iter().filter_map(of).collect();
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        eprintln!("skipped: no JDK in /usr/lib/jvm, and JCOLD_JAVA_HOME is not set to one");
    }
    paths
}

/// Major version of the JDK that a `libjvm.so` belongs to.
fn version(libjvm: &Path) -> u32 {
    let release = fs::read_to_string(libjvm.ancestors().nth(3).unwrap().join("release")).unwrap_or_default();
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\"")).unwrap_or_default();
    version.split(['.', '"']).next().and_then(|major| major.parse().ok()).unwrap_or_default()
}

fn every(source: Source) -> Probed {
    Probed {
        classes: source,
        compiles: source,
        gc: source,
        safepoints: source,
        threads: source,
        vm_init: source,
    }
}

#[test]
fn every_group_of_an_installed_jdk_has_static_probes() {
    for path in libjvms() {
        let libjvm = File::open(&path).unwrap();
        let all = sites(&libjvm).unwrap();
        assert_eq!((all.probed, &all.problems), (every(Source::Usdt), &Vec::new()), "{}", path.display());
        for probe in Probe::ALL {
            let found = all.sites.iter().filter(|found| found.site.probe == *probe as u32);
            let doubled = version(&path) >= 25 && matches!(probe, Probe::GcBegin | Probe::GcEnd);
            assert_eq!(found.count(), if doubled { 2 } else { 1 }, "{probe:?} of {}", path.display());
        }
        if cfg!(target_arch = "x86_64") {
            for found in &all.sites {
                let mut byte = [0];
                libjvm.read_exact_at(&mut byte, found.offset).unwrap();
                assert_eq!(byte, [0x90], "{found:?} of {}", path.display());
            }
        }
    }
}
