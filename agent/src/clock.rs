//! The two clocks: boot time, which everything is measured in, and wall time, which people read.

use nix::time::{ClockId, clock_gettime};

/// Turns boot time into wall time. Durations never touch wall time.
#[derive(Clone, Copy, Debug)]
pub struct TimeAnchor {
    offset_ns: i64,
}

impl TimeAnchor {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self { offset_ns: read(ClockId::CLOCK_REALTIME) - read(ClockId::CLOCK_BOOTTIME) }
    }

    /// Wall time minus boot time, nanoseconds.
    pub fn offset_ns(self) -> i64 {
        self.offset_ns
    }
}

/// Nanoseconds of `CLOCK_BOOTTIME`.
pub fn boot_ns() -> u64 {
    read(ClockId::CLOCK_BOOTTIME).unsigned_abs()
}

fn read(clock: ClockId) -> i64 {
    // Both clocks exist on every kernel that the probes load on (clock_gettime(2): Linux 2.6.39).
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}
