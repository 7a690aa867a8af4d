//! The collector's only look at the clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Wall time, nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the collector's clock")]
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// An instant of the contract as nanoseconds since 1970; instants past the year 2262 are its last nanosecond.
pub fn timestamp_ns(at: &prost_types::Timestamp) -> i64 {
    at.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(at.nanos))
}
