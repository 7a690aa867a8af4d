//! The compiler and linker of BPF objects. Which linker fits is decided by the compiler's LLVM.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::apt::Apt;
use super::needs::{self, Look};
use crate::step;

/// Name under which the compiler of the distribution is linked into rustup.
const LINKED: &str = "jcold-ebpf";
const LINKER_VERSION: &str = "0.13.0";

/// A toolchain of rustup that compiles BPF objects: it has the source of `core`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// rustup's name of it.
    pub name: String,
    /// Its compiler, `rustc 1.96.0 (…)`.
    pub compiler: String,
    /// Major version of its LLVM.
    pub llvm: u32,
}

/// The toolchain that the agent's build takes: `JCOLD_EBPF_TOOLCHAIN`, else `jcold-ebpf`, else `nightly`.
pub fn toolchain() -> Option<Toolchain> {
    match env::var("JCOLD_EBPF_TOOLCHAIN") {
        Ok(name) => inspect(&name),
        Err(_) => inspect(LINKED).or_else(|| inspect("nightly")),
    }
}

fn inspect(name: &str) -> Option<Toolchain> {
    // `rustup run` would install a toolchain that is not there.
    let installed = step::ask(Command::new("rustup").args(["toolchain", "list"]))?;
    if !installed.lines().any(|line| {
        line == name || line.starts_with(&format!("{name}-")) || line.starts_with(&format!("{name} "))
    }) {
        return None;
    }
    let sysroot = step::ask(Command::new("rustup").args(["run", name, "rustc", "--print", "sysroot"]))?;
    let source = PathBuf::from(sysroot).join("lib/rustlib/src/rust/library/core/Cargo.toml");
    if !source.is_file() {
        return None;
    }
    let version = step::ask(Command::new("rustup").args(["run", name, "rustc", "-vV"]))?;
    let compiler = version.lines().next()?.to_owned();
    Some(Toolchain { name: name.to_owned(), compiler, llvm: llvm_of(&version)? })
}

/// Major version of LLVM in the answer of `rustc -vV`.
fn llvm_of(version: &str) -> Option<u32> {
    version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?.split('.').next()?.parse().ok()
}

/// Looks for a compiler.
pub fn look_compiler() -> Look {
    match toolchain() {
        Some(found) => {
            Look::There(format!("toolchain {}, {}, LLVM {}", found.name, found.compiler, found.llvm))
        }
        None => {
            Look::Missing("no rustup toolchain with rust-src that compiles for bpfel-unknown-none".into())
        }
    }
}

/// Looks for a linker that understands what the compiler writes.
pub fn look_linker() -> Look {
    let Look::There(path) = needs::on_path("bpf-linker") else {
        return Look::Missing("no `bpf-linker` on the PATH".into());
    };
    let (Some(linker), Some(compiler)) = (linker_llvm(&path), toolchain()) else {
        // A release with LLVM built in does not tell which; it is always a recent one.
        return Look::There(path);
    };
    if linker < compiler.llvm {
        return Look::Missing(format!(
            "{path} is built for LLVM {linker}, the eBPF compiler has {}",
            compiler.llvm
        ));
    }
    Look::There(format!("{path}, LLVM {linker}"))
}

/// Major version of the LLVM that a linker is dynamically linked against.
fn linker_llvm(path: &str) -> Option<u32> {
    let libraries = step::ask(Command::new("ldd").arg(path))?;
    let (_, version) = libraries.split_once("libLLVM.so.").or_else(|| libraries.split_once("libLLVM-"))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Debian's compiler with its library source, which fits the LLVM of the same archive.
pub const DEBIAN: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "libzstd-dev"];

/// What apt cannot do alone: links Debian's compiler into rustup and builds the linker for that compiler's LLVM. A
/// nightly without a linker gives way to it, since Debian may not have the LLVM of that nightly.
pub fn complete(apt: &Apt) -> Result<()> {
    let lacks = [look_compiler(), look_linker()].iter().any(|look| matches!(look, Look::Missing(_)));
    if lacks && env::var_os("JCOLD_EBPF_TOOLCHAIN").is_none() && inspect(LINKED).is_none() {
        step::run(
            "link",
            "toolchain jcold-ebpf → /usr",
            Command::new("rustup").args(["toolchain", "link", LINKED, "/usr"]),
        )?;
    }
    if matches!(look_linker(), Look::There(_)) {
        return Ok(());
    }
    let llvm = toolchain().context("no eBPF compiler although Debian's packages are installed")?.llvm;
    apt.install(&[&format!("llvm-{llvm}-dev"), &format!("libpolly-{llvm}-dev"), "libzstd-dev"])?;
    let features = format!("llvm-{llvm}");
    let mut command = Command::new("cargo");
    command.args([
        "install",
        "bpf-linker",
        "--version",
        LINKER_VERSION,
        "--force",
        "--no-default-features",
        "--features",
        &features,
    ]);
    command.env("LLVM_PREFIX", format!("/usr/lib/llvm-{llvm}")).env_remove("CARGO_TARGET_DIR");
    step::run("build", &format!("bpf-linker {LINKER_VERSION} for LLVM {llvm}"), &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_is_read_from_the_compiler() {
        let answer = "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\nLLVM version: 22.1.8";
        assert_eq!(llvm_of(answer), Some(22));
        assert_eq!(llvm_of("rustc 1.96.0"), None);
    }
}
