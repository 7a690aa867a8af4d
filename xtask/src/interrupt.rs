//! Ctrl-C and SIGTERM become an error at the next wait, so that every child is ended in order before xtask goes.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nix::libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn remember(_signal: c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Replaces the default action of SIGINT, SIGTERM and SIGHUP. Handlers, unlike blocked signals, end with exec: children
/// have the default action again.
pub fn install() -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(remember), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        handle(signal, &action).with_context(|| format!("handle {signal}"))?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "nix has no safe way to install a handler")]
fn handle(signal: Signal, action: &SigAction) -> nix::Result<SigAction> {
    // SAFETY: the handler only stores to an atomic, which is async-signal-safe; no handler is replaced that anybody
    // would want back.
    unsafe { sigaction(signal, action) }
}

/// Fails once a signal has come.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
