//! CPU and run-queue time of threads, booked by thread class to intervals and phases.
//!
//! A span of a thread's CPU arrives up to a tenth of a second after it began, its thread's name may come later still,
//! and a phase's end is known only when its last request has ended. So spans wait a little before they are booked.

use std::collections::{BTreeMap, VecDeque};

use proto::v1;

use crate::{class::ThreadClass, requests::median};

/// How long a span waits for what is not known yet.
const SETTLE_NS: u64 = 1_500_000_000;
/// How long before it ends a span may begin, as a rule.
const SPAN_NS: u64 = 500_000_000;
/// Length of an interval while the process is cold.
const INTERVAL_NS: u64 = 100_000_000;
/// Length of an interval later.
const LONG_INTERVAL_NS: u64 = 1_000_000_000;
/// From here on intervals are long.
const LONG_FROM_NS: u64 = 300_000_000_000;
/// Latencies that one interval's median is taken of.
const LATENCIES_MAX: usize = 10_000;

/// CPU by class, indexed as [`ThreadClass::ALL`].
type ByClass = [u64; ThreadClass::ALL.len()];

/// A span of one thread; instants since exec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub tid: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cpu_ns: u64,
    pub run_queue_ns: u64,
    pub throttled_ns: u64,
}

/// What is shared out of a span: CPU, run queue, throttled.
type Parts = [u64; 3];

/// Which of these the kernel accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accounted {
    pub run_queue: bool,
    pub throttling: bool,
}

/// A phase that has begun; instants since exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseSpan {
    pub kind: v1::PhaseKind,
    pub start_ns: u64,
    /// Absent while it lasts.
    pub end_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Booked {
    cpu_ns: ByClass,
    run_queue_ns: u64,
    throttled_ns: u64,
    requests: u64,
    latencies_ns: Vec<u64>,
}

/// The CPU account of one process.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    waiting: VecDeque<Span>,
    /// By begin.
    intervals: BTreeMap<u64, Booked>,
    /// Intervals before this instant are closed.
    closed_ns: u64,
    phases: BTreeMap<i32, Booked>,
}

impl Cpu {
    /// Goes on with the phases that an earlier agent had booked.
    pub fn resume(&mut self, phases: &[v1::Phase]) {
        for phase in phases {
            let booked = self.phases.entry(phase.kind).or_default();
            for (class, cpu_ns) in ThreadClass::ALL.iter().zip(&mut booked.cpu_ns) {
                *cpu_ns = phase.cpu_ns.get(class.as_str()).copied().unwrap_or(0);
            }
            booked.run_queue_ns = phase.run_queue_ns.unwrap_or(0);
            booked.throttled_ns = phase.throttled_ns.unwrap_or(0);
            booked.requests = phase.requests;
        }
    }

    pub fn add(&mut self, span: Span) {
        self.waiting.push_back(span);
    }

    /// A request ended.
    pub fn request(&mut self, end_ns: u64, latency_ns: u64, phases: &[PhaseSpan]) {
        let interval = self.intervals.entry(interval_of(end_ns.max(self.closed_ns)).0).or_default();
        interval.requests += 1;
        if interval.latencies_ns.len() < LATENCIES_MAX {
            interval.latencies_ns.push(latency_ns);
        }
        // The request that ends a phase belongs to it.
        let inside = |p: &&PhaseSpan| p.start_ns < end_ns && p.end_ns.is_none_or(|end| end_ns <= end);
        if let Some(phase) = phases.iter().find(inside) {
            self.phases.entry(phase.kind.into()).or_default().requests += 1;
        }
    }

    /// Books what has waited long enough; everything when `now_ns` is `None`.
    pub fn settle(&mut self, now_ns: Option<u64>, phases: &[PhaseSpan], class: impl Fn(u32) -> ThreadClass) {
        let due = |end_ns: u64| now_ns.is_none_or(|now| end_ns + SETTLE_NS <= now);
        let mut still = VecDeque::with_capacity(self.waiting.len());
        for span in std::mem::take(&mut self.waiting) {
            if due(span.end_ns) {
                self.book_interval(&span, class(span.tid));
                book_phases(&mut self.phases, &span, class(span.tid), phases);
            } else {
                still.push_back(span);
            }
        }
        self.waiting = still;
    }

    fn book_interval(&mut self, span: &Span, class: ThreadClass) {
        // A thread alone on its CPU may run for seconds without leaving it; what falls into closed intervals is booked
        // to the first open one, so that sums hold.
        let start_ns = span.start_ns.max(self.closed_ns);
        let end_ns = span.end_ns.max(start_ns);
        let mut rest = span.parts();
        let mut at = start_ns;
        loop {
            let (begin, length) = interval_of(at);
            let until = (begin + length).min(end_ns);
            let last = until >= end_ns;
            let part = if last { rest } else { share(span, until - at, end_ns - start_ns, rest) };
            self.intervals.entry(begin).or_default().add(class, part);
            if last {
                break;
            }
            rest = less(rest, part);
            at = until;
        }
    }

    /// Takes the intervals that have closed; all of them when `now_ns` is `None`.
    pub fn close_intervals(&mut self, now_ns: Option<u64>, accounted: Accounted) -> Vec<v1::Interval> {
        let horizon = now_ns.map(|now| interval_of(now.saturating_sub(SETTLE_NS + SPAN_NS)).0);
        let open = horizon.map_or_else(BTreeMap::new, |horizon| self.intervals.split_off(&horizon));
        let closed = std::mem::replace(&mut self.intervals, open);
        self.closed_ns = self.closed_ns.max(horizon.unwrap_or(0));
        closed.iter().map(|(&begin, booked)| interval(begin, booked, accounted)).collect()
    }

    /// The intervals that are still open.
    pub fn open_intervals(&self, accounted: Accounted) -> Vec<v1::Interval> {
        self.intervals.iter().map(|(&begin, booked)| interval(begin, booked, accounted)).collect()
    }

    /// The phases that have ended, with what waits booked as it looks now.
    pub fn phases(
        &self,
        spans: &[PhaseSpan],
        accounted: Accounted,
        class: impl Fn(u32) -> ThreadClass,
    ) -> Vec<v1::Phase> {
        let mut booked = self.phases.clone();
        for span in &self.waiting {
            book_phases(&mut booked, span, class(span.tid), spans);
        }
        let ended = spans.iter().filter_map(|phase| Some((phase, phase.end_ns?)));
        ended
            .map(|(phase, end_ns)| {
                let booked = booked.remove(&phase.kind.into()).unwrap_or_default();
                v1::Phase {
                    kind: phase.kind.into(),
                    since_exec_ns: phase.start_ns,
                    length_ns: end_ns - phase.start_ns,
                    cpu_ns: by_class(&booked.cpu_ns),
                    run_queue_ns: accounted.run_queue.then_some(booked.run_queue_ns),
                    requests: booked.requests,
                    throttled_ns: accounted.throttling.then_some(booked.throttled_ns),
                    jvm: None,
                }
            })
            .collect()
    }
}

fn book_phases(booked: &mut BTreeMap<i32, Booked>, span: &Span, class: ThreadClass, phases: &[PhaseSpan]) {
    let length = span.end_ns.saturating_sub(span.start_ns);
    let mut rest = span.parts();
    for phase in phases {
        let from = span.start_ns.max(phase.start_ns);
        let until = phase.end_ns.map_or(span.end_ns, |end| span.end_ns.min(end));
        let reaches_end = until == span.end_ns && from <= until;
        if from >= until && !(reaches_end && length == 0) {
            continue;
        }
        let part = if reaches_end { rest } else { share(span, until - from, length, rest) };
        booked.entry(phase.kind.into()).or_default().add(class, part);
        rest = less(rest, part);
        if reaches_end {
            return;
        }
    }
}

impl Span {
    fn parts(&self) -> Parts {
        [self.cpu_ns, self.run_queue_ns, self.throttled_ns]
    }
}

impl Booked {
    fn add(&mut self, class: ThreadClass, [cpu_ns, run_queue_ns, throttled_ns]: Parts) {
        self.cpu_ns[class as usize] += cpu_ns;
        self.run_queue_ns += run_queue_ns;
        self.throttled_ns += throttled_ns;
    }
}

/// What of a span falls on `part_ns` of `whole_ns`, at most what is left of it.
fn share(span: &Span, part_ns: u64, whole_ns: u64, rest: Parts) -> Parts {
    let mut parts = span.parts();
    for (value, left) in parts.iter_mut().zip(rest) {
        let exact = u128::from(*value) * u128::from(part_ns) / u128::from(whole_ns.max(1));
        *value = u64::try_from(exact).unwrap_or(*value).min(left);
    }
    parts
}

fn less(mut rest: Parts, part: Parts) -> Parts {
    for (left, taken) in rest.iter_mut().zip(part) {
        *left -= taken;
    }
    rest
}

/// Begin and length of the interval that an instant falls into.
fn interval_of(at_ns: u64) -> (u64, u64) {
    let length = if at_ns < LONG_FROM_NS { INTERVAL_NS } else { LONG_INTERVAL_NS };
    (at_ns - at_ns % length, length)
}

fn interval(begin: u64, booked: &Booked, accounted: Accounted) -> v1::Interval {
    v1::Interval {
        since_exec_ns: begin,
        length_ns: interval_of(begin).1,
        cpu_ns: by_class(&booked.cpu_ns),
        run_queue_ns: accounted.run_queue.then_some(booked.run_queue_ns),
        throttled_ns: accounted.throttling.then_some(booked.throttled_ns),
        requests: booked.requests,
        latency_p50_ns: median(&booked.latencies_ns),
        latency_max_ns: booked.latencies_ns.iter().max().copied(),
        ..v1::Interval::default()
    }
}

fn by_class(cpu_ns: &ByClass) -> std::collections::HashMap<String, u64> {
    let used = ThreadClass::ALL.iter().zip(cpu_ns).filter(|(_, ns)| **ns > 0);
    used.map(|(class, ns)| (class.as_str().to_owned(), *ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_nanosecond_is_booked_once(
            spans in prop::collection::vec((0u64..4_000_000_000, 0u64..5_000_000_000, 0u64..9_000_000_000, any::<u16>()), 1..20),
            cuts in prop::collection::vec(0u64..5_000_000_000, 0..4),
            ticks in prop::collection::vec(0u64..9_000_000_000, 0..4),
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let kinds = [v1::PhaseKind::JvmBoot, v1::PhaseKind::AppStart, v1::PhaseKind::Listening, v1::PhaseKind::ReadyIdle, v1::PhaseKind::Warming];
            let starts: Vec<u64> = std::iter::once(0).chain(cuts).collect();
            let phases: Vec<PhaseSpan> = starts.iter().enumerate().map(|(i, &start_ns)| PhaseSpan {
                kind: kinds[i], start_ns, end_ns: Some(starts.get(i + 1).copied().unwrap_or(u64::MAX)),
            }).collect();
            let mut cpu = Cpu::default();
            let mut intervals = Vec::new();
            let accounted = Accounted { run_queue: true, throttling: true };
            let (mut cpu_ns, mut run_queue_ns, mut throttled_ns) = (0, 0, 0);
            for &(start_ns, length, used, waited) in &spans {
                cpu.add(Span { tid: 1, start_ns, end_ns: start_ns + length, cpu_ns: used, run_queue_ns: waited.into(), throttled_ns: used / 3 });
                cpu_ns += used;
                run_queue_ns += u64::from(waited);
                throttled_ns += used / 3;
            }
            let class = |_| ThreadClass::JitC1;
            for tick in ticks {
                cpu.settle(Some(tick), &phases, class);
                intervals.extend(cpu.close_intervals(Some(tick), accounted));
            }
            cpu.settle(None, &phases, class);
            intervals.extend(cpu.close_intervals(None, accounted));
            let total = |maps: &mut dyn Iterator<Item = u64>| maps.sum::<u64>();
            prop_assert_eq!(total(&mut intervals.iter().flat_map(|i| i.cpu_ns.values().copied())), cpu_ns);
            prop_assert_eq!(total(&mut intervals.iter().filter_map(|i| i.run_queue_ns)), run_queue_ns);
            prop_assert_eq!(total(&mut intervals.iter().filter_map(|i| i.throttled_ns)), throttled_ns);
            let phases = cpu.phases(&phases, accounted, class);
            prop_assert_eq!(total(&mut phases.iter().flat_map(|p| p.cpu_ns.values().copied())), cpu_ns);
            prop_assert_eq!(total(&mut phases.iter().filter_map(|p| p.run_queue_ns)), run_queue_ns);
        }
    }
}
