//! The JDKs of this machine, by the `release` file that every JDK carries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The oldest Java release that the testbed runs on.
pub const OLDEST: u32 = 17;
/// The Java release that measurements prefer.
pub const PREFERRED: u32 = 25;

/// A JDK: it has `java` and `javac`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jdk {
    /// Its folder.
    pub home: PathBuf,
    /// Its whole version, `25.0.3`.
    pub version: String,
    /// The feature release, `25`.
    pub feature: u32,
}

impl Jdk {
    /// Its launcher.
    pub fn java(&self) -> PathBuf {
        self.home.join("bin/java")
    }

    /// Reads the JDK in `home`; none when it is something else, as a JRE is.
    pub fn at(home: &Path) -> Option<Self> {
        let home = home.canonicalize().ok()?;
        if !home.join("bin/java").is_file() || !home.join("bin/javac").is_file() {
            return None;
        }
        let release = fs::read_to_string(home.join("release")).ok()?;
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?.trim_matches('"');
        let feature = version.split('.').next()?.parse().ok()?;
        Some(Self { home, version: version.to_owned(), feature })
    }
}

/// Release 25 where the machine has one, else the newest from 17 on. `JCOLD_JAVA_HOME` overrules.
pub fn choose() -> Result<Jdk> {
    if let Some(home) = env::var_os("JCOLD_JAVA_HOME") {
        let home = PathBuf::from(home);
        return Jdk::at(&home).with_context(|| format!("JCOLD_JAVA_HOME={}: no JDK there", home.display()));
    }
    pick(all()).context(
        "no JDK ≥ 17 in JAVA_HOME, on the PATH or under /usr/lib/jvm; `cargo xtask setup` installs one",
    )
}

/// The JDKs of these releases that the machine has, one each, in their order; `JCOLD_JAVA_HOME` overrules with one.
pub fn of_features(features: &[u32]) -> Result<Vec<Jdk>> {
    if env::var_os("JCOLD_JAVA_HOME").is_some() {
        return Ok(vec![choose()?]);
    }
    let all = all();
    let newest = |feature: &u32| {
        all.iter().filter(|jdk| jdk.feature == *feature).max_by_key(|jdk| jdk.version.clone()).cloned()
    };
    Ok(features.iter().filter_map(newest).collect())
}

fn pick(jdks: Vec<Jdk>) -> Option<Jdk> {
    jdks.into_iter()
        .filter(|jdk| jdk.feature >= OLDEST)
        .max_by_key(|jdk| (jdk.feature == PREFERRED, jdk.feature, jdk.version.clone()))
}

fn all() -> Vec<Jdk> {
    let named = env::var_os("JAVA_HOME").map(PathBuf::from);
    let on_path = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path)
            .map(|dir| dir.join("javac"))
            .find_map(|javac| javac.canonicalize().ok())
            .and_then(|javac| Some(javac.parent()?.parent()?.to_path_buf()))
    });
    let installed = ["/usr/lib/jvm", "/opt/java", "/opt"]
        .into_iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut jdks: Vec<Jdk> =
        named.into_iter().chain(on_path).chain(installed).filter_map(|home| Jdk::at(&home)).collect();
    jdks.sort_by(|a, b| a.home.cmp(&b.home));
    jdks.dedup();
    jdks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jdk(version: &str, feature: u32) -> Jdk {
        Jdk { home: PathBuf::from("/jvm").join(version), version: version.to_owned(), feature }
    }

    fn picked(versions: &[(&str, u32)]) -> Option<String> {
        pick(versions.iter().map(|(version, feature)| jdk(version, *feature)).collect())
            .map(|jdk| jdk.version)
    }

    #[test]
    fn release_25_is_taken_before_newer_and_older_ones() {
        assert_eq!(picked(&[("17.0.15", 17), ("25.0.3", 25), ("26", 26)]).as_deref(), Some("25.0.3"));
    }

    #[test]
    fn without_25_the_newest_that_can_run_the_testbed_is_taken() {
        assert_eq!(picked(&[("11.0.2", 11), ("17.0.15", 17), ("21.0.1", 21)]).as_deref(), Some("21.0.1"));
        assert_eq!(picked(&[("11.0.2", 11)]), None);
    }

    #[test]
    fn a_folder_is_a_jdk_by_its_release_file_and_compiler() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::write(dir.path().join("bin/java"), "").unwrap();
        fs::write(dir.path().join("release"), "IMPLEMENTOR=\"X\"\nJAVA_VERSION=\"17.0.15\"\n").unwrap();
        assert_eq!(Jdk::at(dir.path()), None, "a JRE is no JDK");
        fs::write(dir.path().join("bin/javac"), "").unwrap();
        let jdk = Jdk::at(dir.path()).unwrap();
        assert_eq!((jdk.version.as_str(), jdk.feature), ("17.0.15", 17));
    }
}
