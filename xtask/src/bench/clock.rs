//! Boot time, which samples are stamped with, and the way to it from a timeline's wall time.

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_BOOTTIME`, nanoseconds.
pub fn boot_ns() -> Result<u64> {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Boot time of an RFC 3339 instant in UTC. The agent made that instant of boot time with the offset between the clocks
/// at its start, so this is right to what wall time was adjusted by since.
pub fn boot_ns_of(timestamp: &str) -> Result<u64> {
    let offset_ns = read(ClockId::CLOCK_REALTIME)?.saturating_sub(boot_ns()?);
    let epoch_ns = epoch_ns(timestamp).with_context(|| format!("`{timestamp}` is no instant in UTC"))?;
    epoch_ns.checked_sub(offset_ns).with_context(|| format!("{timestamp} is before this machine's boot"))
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
}
