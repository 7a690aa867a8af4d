//! The kernel's clocks, and the ways between them.

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// How often two clocks are read to find a pair of readings that lie close together.
const TRIES: u32 = 16;

/// `CLOCK_BOOTTIME`, nanoseconds.
pub fn boot_ns() -> Result<u64> {
    read(ClockId::CLOCK_BOOTTIME)
}

/// CPU that a process has used, threads that have ended included, nanoseconds; none when it has ended.
pub fn cpu_ns(pid: u32) -> Option<u64> {
    let clock = nix::time::clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    read(clock).ok()
}

/// Another clock beside boot time. Right to what either was adjusted by since.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    boot_ns: u64,
    other_ns: u64,
}

impl Anchor {
    /// Wall time.
    pub fn wall() -> Result<Self> {
        Self::of(ClockId::CLOCK_REALTIME)
    }

    /// `CLOCK_MONOTONIC`, which is HotSpot's javaTimeNanos.
    pub fn monotonic() -> Result<Self> {
        Self::of(ClockId::CLOCK_MONOTONIC)
    }

    fn of(clock: ClockId) -> Result<Self> {
        let mut best = None;
        for _ in 0..TRIES {
            let (before_ns, other_ns, after_ns) = (boot_ns()?, read(clock)?, boot_ns()?);
            let anchor = Self { boot_ns: before_ns.midpoint(after_ns), other_ns };
            let width_ns = after_ns - before_ns;
            if best.is_none_or(|(narrowest_ns, _)| width_ns < narrowest_ns) {
                best = Some((width_ns, anchor));
            }
        }
        best.map(|(_, anchor)| anchor).context("no reading of the clocks")
    }

    /// Boot time of an instant of the other clock, nanoseconds; none when that is before boot.
    pub fn boot_ns(&self, other_ns: u64) -> Option<u64> {
        (self.boot_ns + other_ns).checked_sub(self.other_ns)
    }

    /// Boot time of an RFC 3339 instant in UTC, for an anchor on wall time.
    pub fn boot_ns_of(&self, timestamp: &str) -> Result<u64> {
        let epoch_ns = epoch_ns(timestamp).with_context(|| format!("`{timestamp}` is no instant in UTC"))?;
        self.boot_ns(epoch_ns).with_context(|| format!("{timestamp} is before this machine's boot"))
    }
}

fn read(clock: ClockId) -> Result<u64> {
    let time = clock_gettime(clock).with_context(|| format!("clock {clock}"))?;
    Ok(u64::try_from(time.tv_sec())? * 1_000_000_000 + u64::try_from(time.tv_nsec())?)
}

/// Nanoseconds since the epoch of `2026-01-31T12:00:00.123Z`.
fn epoch_ns(timestamp: &str) -> Option<u64> {
    let (date, time) = timestamp.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let nanos: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    // Years that begin in March put the leap day last, so that a month's first day is a formula.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let since_year_0 = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = since_year_0.checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let numbers: Vec<u64> =
        text.split(separator).map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_from_rfc_3339() {
        assert_eq!(epoch_ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(epoch_ns("2000-02-29T23:59:59.5Z"), Some(951_868_799_500_000_000));
        assert_eq!(epoch_ns("2026-11-30T13:45:25.000000001Z"), Some(1_796_046_325_000_000_001));
        assert_eq!(epoch_ns("2026-11-30 13:45"), None);
    }

    #[test]
    fn an_instant_keeps_its_distance_to_the_anchor() {
        let anchor = Anchor { boot_ns: 500, other_ns: 1_000_000_000_000_000_400 };
        assert_eq!(anchor.boot_ns(1_000_000_000_000_000_300), Some(400));
        assert_eq!(anchor.boot_ns_of("2001-09-09T01:46:40.0000005Z").unwrap(), 600);
        assert_eq!(anchor.boot_ns(3), None);
    }

    #[test]
    fn a_process_that_works_uses_cpu() {
        let me = std::process::id();
        let before_ns = cpu_ns(me).unwrap();
        while cpu_ns(me).unwrap() == before_ns {}
        assert_eq!(cpu_ns(u32::MAX), None);
    }
}
