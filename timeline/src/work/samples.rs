//! The JVM's own counters, sampled: between two samples in proportion.

use std::collections::VecDeque;

use super::{
    counters::{COUNTERS, Counters},
    thin_older,
};

/// Samples that are kept; of more, every other one of the older half goes.
const POINTS_MAX: usize = 4096;

/// The counters at an instant since exec.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at_ns: u64,
    counters: Counters,
}

/// The samples of one JVM.
#[derive(Debug, Default)]
pub(super) struct Samples {
    points: VecDeque<Point>,
    /// It was seen from its exec on: what it did not tell at first was nothing.
    from_exec: bool,
}

impl Samples {
    /// A JVM that was seen from its exec on had done nothing then.
    pub fn new(from_exec: bool) -> Self {
        let mut samples = Self { from_exec, ..Self::default() };
        if from_exec {
            samples.points.push_back(Point { at_ns: 0, counters: [Some(0); COUNTERS] });
        }
        samples
    }

    pub fn sampled(&mut self, at_ns: u64, counters: Counters) {
        let len = self.points.len();
        if self.points.back().is_some_and(|last| last.at_ns > at_ns) {
            return;
        }
        // A stretch without change needs no more than its ends.
        if len > 1 && self.points.range(len - 2..).all(|point| point.counters == counters) {
            self.points[len - 1].at_ns = at_ns;
            return;
        }
        self.points.push_back(Point { at_ns, counters });
        if self.points.len() > POINTS_MAX {
            thin_older(&mut self.points, POINTS_MAX);
        }
    }

    /// The counters at an instant: between two samples in proportion, after the last as it said. `None` when no sample
    /// tells.
    pub fn at(&self, at_ns: u64) -> Option<Counters> {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        let before = self.points.get(after.checked_sub(1)?)?;
        // With nothing but the begin the JVM has no counters.
        if self.points.len() < 2 {
            return None;
        }
        let next = self.points.get(after).unwrap_or(before);
        let (part_ns, whole_ns) = (at_ns - before.at_ns, next.at_ns.saturating_sub(before.at_ns));
        let (from, to) = (self.completed(before.counters), self.completed(next.counters));
        Some(std::array::from_fn(|index| {
            let (from, to) = (from[index]?, to[index]?);
            let grown =
                u128::from(to.saturating_sub(from)) * u128::from(part_ns) / u128::from(whole_ns.max(1));
            Some(from.saturating_add(u64::try_from(grown).unwrap_or(0)))
        }))
    }

    /// Counters as they were at an instant, with those that the JVM tells by now: a counter appears with the first thing that
    /// it counts.
    pub fn completed(&self, counters: Counters) -> Counters {
        let told = self.points.back().filter(|_| self.from_exec).map(|latest| latest.counters);
        let begin = |index: usize| told.and_then(|told| told[index]).map(|_| 0);
        std::array::from_fn(|index| counters[index].or_else(|| begin(index)))
    }
}
