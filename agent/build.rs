//! Builds the probes for the BPF target, with a toolchain that can build `core` for it, and leaves the object in
//! `OUT_DIR/jcold-probes`.

use std::{env, error::Error, process::Command};

use aya_build::{Package, Toolchain};

/// The toolchain that `cargo xtask setup` links on Debian.
const LINKED: &str = "jcold-ebpf";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=JCOLD_EBPF_TOOLCHAIN");
    let toolchain = match env::var("JCOLD_EBPF_TOOLCHAIN") {
        Ok(named) => named,
        Err(_) if is_linked() => LINKED.to_owned(),
        Err(_) => "nightly".to_owned(),
    };
    // SAFETY: a build script's main thread, before it starts any other. A distribution's stable compiler builds
    // `core` for BPF when it is told that it may.
    unsafe { env::set_var("RUSTC_BOOTSTRAP", "1") };
    // SAFETY: as above. Whatever the inner cargo prints would come out as a warning of this package.
    unsafe { env::set_var("CARGO_TERM_QUIET", "true") };
    let probes = Package {
        name: "agent-ebpf",
        root_dir: concat!(env!("CARGO_MANIFEST_DIR"), "/../agent-ebpf"),
        no_default_features: false,
        features: &["probes"],
    };
    aya_build::build_ebpf([probes], Toolchain::Custom(&toolchain)).map_err(|error| {
        format!("the probes were not built with toolchain {toolchain}: {error:#}; `cargo xtask setup` installs what they need")
    })?;
    Ok(())
}

fn is_linked() -> bool {
    Command::new("rustup")
        .args(["run", LINKED, "rustc", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}
