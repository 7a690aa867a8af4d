//! `cargo xtask build`: the three binaries and the testbed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::{jdk, repo, step};

/// Builds the released binaries, with the BPF object inside the agent, and the testbed's jar.
pub fn run() -> Result<()> {
    step::run_loud(
        "binaries",
        cargo().args(["build", "--release", "-p", "agent", "-p", "collector", "-p", "cli"]),
    )?;
    testbed()
}

/// Builds the testbed's jars, each when a source is newer than it.
pub fn testbed() -> Result<()> {
    maven("testbed", &repo::spring(), "testbed.jar")?;
    maven("testbed's servers", &repo::servers(), "servers.jar")
}

fn maven(what: &str, folder: &Path, jar: &str) -> Result<()> {
    let jar = folder.join("target").join(jar);
    let built = fs::metadata(&jar).and_then(|meta| meta.modified()).ok();
    let changed = newest(&folder.join("src"))?.max(newest(&folder.join("pom.xml"))?);
    if built.is_some_and(|built| built >= changed) {
        step::say("ok", &format!("{what}: {}", jar.display()));
        return Ok(());
    }
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "package"]).current_dir(folder).env("JAVA_HOME", jdk::choose()?.home);
    step::run("build", &format!("{what} (Maven)"), &mut maven)
}

/// cargo as this workspace's user has it, without the marks that `cargo run` puts on its children.
pub fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(repo::root());
    cargo
}

/// Time of the newest change at or below `path`.
fn newest(path: &Path) -> Result<SystemTime> {
    let meta = fs::metadata(path).with_context(|| path.display().to_string())?;
    let mut newest = meta.modified().with_context(|| path.display().to_string())?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}
