//! When a process counts as steady: latency has settled and the compilers have little left to do.

use std::collections::VecDeque;

use crate::requests::median;

/// Requests in each of the two windows that are compared.
const WINDOW: usize = 50;
/// How far the medians of the two windows may be apart.
const TOLERANCE: f64 = 0.10;
/// For so long the compiler threads must have been quiet.
const QUIET_NS: u64 = 5_000_000_000;
/// CPU that the compiler threads may use in that time: 5 % of a core.
const QUIET_CPU_NS: u64 = QUIET_NS / 20;

/// When observation ends without a verdict of the rule: at the first of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After the first user request, nanoseconds.
    pub after_first_request_ns: u64,
    /// After exec, nanoseconds.
    pub after_exec_ns: u64,
}

impl Default for Limits {
    /// Ten minutes and an hour.
    fn default() -> Self {
        Self { after_first_request_ns: 600_000_000_000, after_exec_ns: 3_600_000_000_000 }
    }
}

/// What the rule says at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Cold,
    Steady { p50_ns: u64 },
    Limit,
}

/// The observations that the rule needs.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    limits: Limits,
    latencies_ns: VecDeque<u64>,
    /// (end, CPU) of compiler threads' recent spans; instants since exec.
    jit: VecDeque<(u64, u64)>,
    first_request_ns: Option<u64>,
}

impl Detector {
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub fn first_request(&mut self, at_ns: u64) {
        self.first_request_ns.get_or_insert(at_ns);
    }

    pub fn request(&mut self, latency_ns: u64) {
        if self.latencies_ns.len() == 2 * WINDOW {
            self.latencies_ns.pop_front();
        }
        self.latencies_ns.push_back(latency_ns);
    }

    pub fn jit(&mut self, end_ns: u64, cpu_ns: u64) {
        self.jit.push_back((end_ns, cpu_ns));
    }

    /// The verdict at an instant since exec.
    pub fn verdict(&mut self, now_ns: u64) -> Verdict {
        let from = now_ns.saturating_sub(QUIET_NS);
        while self.jit.front().is_some_and(|(end, _)| *end < from) {
            self.jit.pop_front();
        }
        let Limits { after_first_request_ns, after_exec_ns } = self.limits;
        let after_first = self.first_request_ns.map(|first| first.saturating_add(after_first_request_ns));
        let limit = after_first.map_or(after_exec_ns, |after_first| after_first.min(after_exec_ns));
        let jit_ns: u64 = self.jit.iter().map(|(_, cpu)| cpu).sum();
        if self.latencies_ns.len() == 2 * WINDOW && jit_ns < QUIET_CPU_NS && now_ns >= QUIET_NS {
            let (before, last) = self.latencies_ns.make_contiguous().split_at(WINDOW);
            if let (Some(before), Some(last)) = (median(before), median(last))
                && (last as f64 - before as f64).abs() <= before as f64 * TOLERANCE
            {
                return Verdict::Steady { p50_ns: last };
            }
        }
        if now_ns >= limit { Verdict::Limit } else { Verdict::Cold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn detector(latencies: impl IntoIterator<Item = u64>, jit: &[(u64, u64)]) -> Detector {
        let mut detector = Detector::default();
        detector.first_request(S);
        for latency in latencies {
            detector.request(latency);
        }
        for &(end_ns, cpu_ns) in jit {
            detector.jit(end_ns, cpu_ns);
        }
        detector
    }

    #[test]
    fn verdicts() {
        let level = || std::iter::repeat_n(1_000_000, 100);
        let falling = || (0..100).map(|n| 3_000_000 - n * 20_000);
        for (mut detector, now, expect) in [
            (detector(level(), &[]), 20 * S, Verdict::Steady { p50_ns: 1_000_000 }),
            (detector(level().take(99), &[]), 20 * S, Verdict::Cold),
            (detector(falling(), &[]), 20 * S, Verdict::Cold),
            (detector(level(), &[(18 * S, S / 2)]), 20 * S, Verdict::Cold),
            (detector(level(), &[(14 * S, S / 2)]), 20 * S, Verdict::Steady { p50_ns: 1_000_000 }),
            (detector([], &[]), 602 * S, Verdict::Limit),
            (Detector::default(), 602 * S, Verdict::Cold),
            (Detector::default(), 3_600 * S, Verdict::Limit),
        ] {
            assert_eq!(detector.verdict(now), expect);
        }
    }
}
