//! Bounded waiting for what another process does and announces nowhere.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::interrupt;

/// Asks `probe` every `every` until it has an answer, at most `bound` long. An interrupt ends the wait with an error.
pub fn until<T>(
    what: &str,
    every: Duration,
    bound: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        interrupt::check()?;
        if let Some(found) = probe()? {
            return Ok(found);
        }
        if started.elapsed() >= bound {
            bail!("{what}: not within {:.0} s", bound.as_secs_f64());
        }
        pause(every);
    }
}

/// Lets time pass, where time itself is what a run is about (a load's schedule, a poll's period).
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where xtask sleeps; nothing announces the event"
)]
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}
