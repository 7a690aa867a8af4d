//! Ctrl-C and SIGTERM become an error at the next wait, so that every child is ended in order before xtask goes.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Takes SIGINT, SIGTERM and SIGHUP away from their default action. Call once, before any other thread exists:
/// threads inherit the mask; children do not, `std::process` clears it for them.
pub fn install() -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block().context("block signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while signals.wait().is_ok() {
                INTERRUPTED.store(true, Ordering::Relaxed);
            }
        })
        .context("start the signal thread")?;
    Ok(())
}

/// Fails once a signal has come.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
