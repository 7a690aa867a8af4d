//! What the JVM did, by its own counters: samples in, sums for any span out.

use std::collections::{HashMap, VecDeque};

use proto::v1;

use crate::{cpu::PhaseSpan, event::Start, sample::Sample};

/// Where these numbers come from, in the contract's words.
pub(crate) const SOURCE: &str = "hsperfdata";
/// Samples that are kept; of more, every other one of the older half goes.
const POINTS_MAX: usize = 4096;
/// A phase's work is final so long after its end: a sample has come by then.
const SETTLE_NS: u64 = 200_000_000;
/// Counters that are followed.
const COUNTERS: usize = 10;

/// Counters since the JVM's start, in the order of [`v1::JvmWork`]'s fields.
type Counters = [Option<u64>; COUNTERS];

/// The counters at an instant since exec.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at_ns: u64,
    counters: Counters,
}

/// The work of one JVM.
#[derive(Debug, Default)]
pub(crate) struct Work {
    points: VecDeque<Point>,
    /// It was seen from its exec on: what it did not tell at first was nothing.
    from_exec: bool,
    /// Work of phases that have ended, by kind.
    phases: HashMap<i32, v1::JvmWork>,
}

impl Work {
    /// A JVM that was seen from its exec on had done nothing then.
    pub fn new(start: &Start) -> Self {
        let mut work = Self { from_exec: !start.late, ..Self::default() };
        if work.from_exec {
            work.points.push_back(Point { at_ns: 0, counters: [Some(0); COUNTERS] });
        }
        work
    }

    /// Goes on with the phases that an earlier agent had seen; what was done until now is not told apart any more.
    pub fn resume(&mut self, phases: &[v1::Phase]) {
        self.points.clear();
        self.from_exec = false;
        self.phases = phases.iter().filter_map(|phase| Some((phase.kind, phase.jvm.clone()?))).collect();
    }

    /// Takes a sample; instants are since exec.
    pub fn sampled(&mut self, at_ns: u64, sample: &Sample) {
        let counters = [
            sample.classes_loaded,
            sample.classes_shared,
            sample.class_load_ns,
            sample.compiles,
            sample.compile_ns,
            sample.gc_collections,
            sample.gc_ns,
            sample.safepoints,
            sample.safepoint_ns,
            sample.threads_started,
        ];
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
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index > POINTS_MAX / 2 || index % 2 == 1
            });
        }
    }

    /// What was done from one instant to another; `None` when no sample tells.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Option<v1::JvmWork> {
        let (from, to) = (self.at(from_ns)?, self.at(to_ns)?);
        let done = |index: usize| Some(to[index]?.saturating_sub(from[index]?));
        Some(v1::JvmWork {
            classes_loaded: done(0),
            classes_shared: done(1),
            class_load_ns: done(2),
            compiles: done(3),
            compile_ns: done(4),
            gc_collections: done(5),
            gc_ns: done(6),
            safepoints: done(7),
            safepoint_ns: done(8),
            threads_started: done(9),
            ..v1::JvmWork::default()
        })
    }

    /// Fixes the work of the phases that have ended; of all when `now_ns` is `None`.
    pub fn settle(&mut self, now_ns: Option<u64>, phases: &[PhaseSpan]) {
        for phase in phases {
            let Some(end_ns) = phase.end_ns else { continue };
            let is_due = now_ns.is_none_or(|now_ns| end_ns + SETTLE_NS <= now_ns);
            if !is_due || self.phases.contains_key(&phase.kind.into()) {
                continue;
            }
            if let Some(work) = self.between(phase.start_ns, end_ns) {
                self.phases.insert(phase.kind.into(), work);
            }
        }
    }

    /// Work of a phase, once that is known.
    pub fn of_phase(&self, kind: i32) -> Option<v1::JvmWork> {
        self.phases.get(&kind).cloned()
    }

    /// The counters at an instant: between two samples in proportion, after the last as it said.
    fn at(&self, at_ns: u64) -> Option<Counters> {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        let before = self.points.get(after.checked_sub(1)?)?;
        // With nothing but the begin the JVM has no counters.
        let latest = self.points.back().filter(|_| self.points.len() > 1)?;
        let next = self.points.get(after).unwrap_or(before);
        let (part_ns, whole_ns) = (at_ns - before.at_ns, next.at_ns.saturating_sub(before.at_ns));
        let mut counters = before.counters;
        for (index, counter) in counters.iter_mut().enumerate() {
            // A counter appears with the first thing that it counts.
            let begin = latest.counters[index].filter(|_| self.from_exec).map(|_| 0);
            let (from, to) = (counter.or(begin), next.counters[index].or(begin));
            *counter = from.zip(to).map(|(from, to)| {
                let grown =
                    u128::from(to.saturating_sub(from)) * u128::from(part_ns) / u128::from(whole_ns.max(1));
                from.saturating_add(u64::try_from(grown).unwrap_or(0))
            });
        }
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn sample(classes: u64) -> Sample {
        Sample { classes_loaded: Some(classes), gc_ns: Some(classes * 10), ..Sample::default() }
    }

    fn classes(work: &Work, from_ms: u64, to_ms: u64) -> Option<u64> {
        work.between(from_ms * MS, to_ms * MS)?.classes_loaded
    }

    #[test]
    fn what_falls_between_two_samples_is_shared_out() {
        let mut work = Work::new(&Start::default());
        assert_eq!(classes(&work, 0, 10), None, "no sample, no number");
        work.sampled(40 * MS, &sample(400));
        work.sampled(50 * MS, &sample(450));
        work.sampled(60 * MS, &sample(450));
        work.sampled(70 * MS, &sample(450));
        work.sampled(80 * MS, &sample(460));
        assert_eq!(classes(&work, 0, 40), Some(400));
        assert_eq!(classes(&work, 40, 45), Some(25));
        assert_eq!(classes(&work, 50, 70), Some(0));
        assert_eq!(classes(&work, 0, 1_000), Some(460));
        assert_eq!(work.between(0, 80 * MS).unwrap().compiles, None, "it does not tell them");
    }

    #[test]
    fn a_counter_that_appears_late_counted_nothing_before() {
        let mut work = Work::new(&Start::default());
        work.sampled(40 * MS, &Sample { classes_loaded: Some(400), ..Sample::default() });
        work.sampled(50 * MS, &sample(450));
        assert_eq!(work.between(0, 50 * MS).unwrap().gc_ns, Some(4_500));
        assert_eq!(work.between(40 * MS, 50 * MS).unwrap().gc_ns, Some(4_500));
    }

    #[test]
    fn of_a_jvm_that_was_running_nothing_is_known_before_the_first_sample() {
        let mut work = Work::new(&Start { late: true, ..Start::default() });
        work.sampled(50 * MS, &sample(9_000));
        work.sampled(60 * MS, &sample(9_007));
        assert_eq!(classes(&work, 0, 60), None);
        assert_eq!(classes(&work, 50, 60), Some(7));
    }

    proptest! {
        #[test]
        fn parts_make_the_whole_however_long_it_goes_on(
            steps in prop::collection::vec((1u64..30, 0u64..50), 1..6_000),
            cut in 0u64..200_000,
        ) {
            let mut work = Work::new(&Start::default());
            let (mut at_ms, mut total) = (0, 0);
            for (length_ms, loaded) in steps {
                at_ms += length_ms;
                total += loaded;
                work.sampled(at_ms * MS, &sample(total));
            }
            let cut = cut % at_ms;
            let parts = classes(&work, 0, cut).unwrap() + classes(&work, cut, at_ms).unwrap();
            prop_assert_eq!(parts, total);
            prop_assert!(work.points.len() <= POINTS_MAX);
        }
    }
}
