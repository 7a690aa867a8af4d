//! Where things are in this repository.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The workspace's root folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A released binary of this workspace; an error that says how to build it when it is not there.
pub fn binary(name: &str) -> Result<PathBuf> {
    let dir = env::var_os("JCOLD_BIN_DIR").map_or_else(|| target().join("release"), PathBuf::from);
    built(dir.join(name))
}

/// Folder of the Spring testbed.
pub fn spring() -> PathBuf {
    root().join("xtask/testbed/spring")
}

/// The Spring testbed's jar; an error that says how to build it when it is not there.
pub fn spring_jar() -> Result<PathBuf> {
    built(env::var_os("JCOLD_TESTBED_JAR").map_or_else(|| spring().join("target/testbed.jar"), PathBuf::from))
}

/// Folder of the testbed's other servers.
pub fn servers() -> PathBuf {
    root().join("xtask/testbed/servers")
}

/// Their jar, which finds its libraries beside it; an error that says how to build it when it is not there.
pub fn servers_jar() -> Result<PathBuf> {
    built(servers().join("target/servers.jar"))
}

fn built(path: PathBuf) -> Result<PathBuf> {
    if !path.is_file() {
        bail!("{} is not built: run `cargo xtask build`", path.display());
    }
    Ok(path)
}
