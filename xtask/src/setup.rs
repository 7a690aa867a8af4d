//! `cargo xtask setup`: looks at the machine, installs what is missing where it can, and names it where it cannot.
//!
//! The look is by evidence (a tool that runs, a file that is there), never by package names, so a machine that was
//! set up in another way counts as set up; and it is quick, because `demo` and `test` begin with it.

mod apt;
mod ebpf;
mod needs;

use std::time::Instant;

use anyhow::{Result, bail};

pub use ebpf::{Toolchain, toolchain};

use crate::step::say;
use needs::{Look, Need};

/// What the set-up is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Compiling everything, the testbed too.
    Build,
    /// Running the demo.
    Demo,
    /// Running all tests.
    Test,
}

/// Makes the machine fit for `purpose`, saying each step on stderr.
pub fn run(purpose: Purpose) -> Result<()> {
    let started = Instant::now();
    let mut blockers = Vec::new();
    for fact in needs::facts(purpose) {
        match fact.look {
            Look::There(evidence) => say("ok", &format!("{}: {evidence}", fact.name)),
            Look::Missing(remedy) => {
                say("MISSING", fact.name);
                blockers.push(format!("{}: {remedy}", fact.name));
            }
        }
    }

    let missing = look(purpose, true);
    if !missing.is_empty() {
        if apt::usable() && blockers.is_empty() {
            install(purpose, &missing)?;
        } else {
            blockers.extend(missing.iter().map(|need| format!("{}: {}", need.name, need.elsewhere)));
        }
    }
    if !blockers.is_empty() {
        bail!(
            "this machine lacks\n  - {}\nMend these and run the same command again.",
            blockers.join("\n  - ")
        );
    }
    say("done", &format!("set up ({:.1} s)", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Fails when the kernel or the user is not fit for `purpose`, with the remedy. Installs nothing.
pub fn check_machine(purpose: Purpose) -> Result<()> {
    for fact in needs::facts(purpose) {
        if let Look::Missing(remedy) = fact.look {
            bail!("{}: {remedy}", fact.name);
        }
    }
    Ok(())
}

/// What is missing; says what is there.
fn look(purpose: Purpose, loud: bool) -> Vec<Need> {
    let mut missing = Vec::new();
    for need in needs::all().into_iter().filter(|need| need.purpose <= purpose) {
        match (need.look)() {
            Look::There(evidence) if loud => say("ok", &format!("{}: {evidence}", need.name)),
            Look::There(_) => {}
            Look::Missing(evidence) => {
                if loud {
                    say("missing", &format!("{} ({evidence})", need.name));
                }
                missing.push(need);
            }
        }
    }
    missing
}

/// Installs on Debian. The compiler decides which LLVM the linker of BPF objects needs, so it comes before both.
fn install(purpose: Purpose, missing: &[Need]) -> Result<()> {
    let apt = apt::Apt::open()?;
    let mut packages: Vec<&str> = missing.iter().flat_map(|need| need.debian).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        apt.install(&packages)?;
    }
    ebpf::complete(&apt)?;
    let left = look(purpose, false);
    if !left.is_empty() {
        let left: Vec<String> =
            left.iter().map(|need| format!("{}: {}", need.name, need.elsewhere)).collect();
        bail!("installed what Debian's archive has, and still missing:\n  - {}", left.join("\n  - "));
    }
    Ok(())
}
