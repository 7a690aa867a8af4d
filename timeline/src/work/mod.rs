//! What the JVM did, in any span: counted by probes since it is probed, by its own sampled counters before.
//!
//! Each counter is one curve that never falls: the base and what probes have counted, and before the instant of
//! [`crate::What::Probed`] what hsperfdata says, when that is less. The base is what the JVM had done before, from
//! a sample at whose instant the probes' counters are known as well. So the parts of a span make the whole, and a span
//! between two instants since then needs no base.
//!
//! A span's source is the probes' when it ends since the JVM is probed; also when it begins before: then its begin, some
//! hundred classes after exec at most, is hsperfdata's. Without hsperfdata nothing is known of such a span.

mod base;
mod counters;
mod samples;
mod steps;

use std::collections::{BTreeMap, HashMap, VecDeque};

use proto::v1;

use self::{
    base::Base,
    counters::{
        CLASS_LOAD_NS, CLASSES_LOADED, CLASSES_SHARED, COMPILE_NS, COMPILES, Counters, GC_COLLECTIONS, GC_NS,
        SAFEPOINT_NS, SAFEPOINTS, THREADS_STARTED, of_counted, of_sample, source,
    },
    samples::Samples,
    steps::Steps,
};
use crate::{
    counted::{Counted, Probed, Source},
    cpu::PhaseSpan,
    event::Start,
    sample::Sample,
};

/// A span's work is final so long after its end: a sample has come by then.
pub(crate) const SETTLE_NS: u64 = 200_000_000;
/// Instants whose counters are fixed: ends of phases and stages, each of which comes once.
const FIXED_MAX: usize = 64;

/// What is known of an instant, nanoseconds since exec.
#[derive(Clone, Copy, Debug)]
struct Instant {
    at_ns: u64,
    sampled: Option<Counters>,
    counted: Counted,
}

/// The work of one JVM.
#[derive(Debug, Default)]
pub(crate) struct Work {
    samples: Samples,
    steps: Steps,
    /// Since when, and how.
    probed: Option<(u64, Probed)>,
    base: Base,
    /// Ends of phases and stages: what they begin and end with stays the same when samples and steps are thinned out.
    fixed: BTreeMap<u64, Instant>,
    /// Work of phases that have ended, by kind.
    phases: HashMap<i32, v1::JvmWork>,
}

impl Work {
    /// A JVM that was seen from its exec on had done nothing then.
    pub fn new(start: &Start) -> Self {
        Self { samples: Samples::new(!start.late), ..Self::default() }
    }

    /// Goes on with the phases that an earlier agent had seen; what was done until now is not told apart any more.
    pub fn resume(&mut self, phases: &[v1::Phase]) {
        let phases = phases.iter().filter_map(|phase| Some((phase.kind, phase.jvm.clone()?))).collect();
        *self = Self { phases, ..Self::default() };
    }

    /// Takes a sample, and what probes had counted when it was read; instants are since exec. Its instant is the reader's,
    /// microseconds off: it is no step of what is counted.
    pub fn sampled(&mut self, at_ns: u64, sample: &Sample, counted: Option<&Counted>) {
        let counters = of_sample(sample);
        self.samples.sampled(at_ns, counters);
        if let Some(counted) = counted {
            let is_probed = self.probed.is_some_and(|(since_ns, _)| since_ns <= at_ns);
            self.base.tell(&counters, &of_counted(counted), is_probed);
        }
    }

    /// The JVM is probed from now on.
    pub fn probed(&mut self, at_ns: u64, probed: Probed) {
        self.probed.get_or_insert((at_ns, probed));
        self.steps.begin(at_ns);
    }

    /// Takes what probes have counted.
    pub fn counted(&mut self, at_ns: u64, counted: &Counted) {
        self.steps.counted(at_ns, *counted);
    }

    /// What was done from one instant to another; `None` when nothing tells.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Option<v1::JvmWork> {
        let (from, to) = (self.at(from_ns), self.at(to_ns));
        let done = |index| self.done(index, &from, &to);
        let source = |group: [usize; 2]| match self.source(group[0], &from, &to) {
            Source::None if group.iter().any(|index| done(*index).is_some()) => Source::Hsperfdata,
            source => source,
        };
        let compiles = source([COMPILES, COMPILE_NS]);
        let counts_compiles = !matches!(compiles, Source::Hsperfdata | Source::None);
        let of_probes = |is_told: bool, of: fn(&Counted) -> u64| {
            is_told.then(|| of(&to.counted).saturating_sub(of(&from.counted)))
        };
        let reads = self.steps.had_begun(to_ns);
        let work = v1::JvmWork {
            classes_loaded: done(CLASSES_LOADED),
            classes_shared: done(CLASSES_SHARED),
            class_load_ns: done(CLASS_LOAD_NS),
            compiles: done(COMPILES),
            compile_ns: done(COMPILE_NS),
            gc_collections: done(GC_COLLECTIONS),
            gc_ns: done(GC_NS),
            safepoints: done(SAFEPOINTS),
            safepoint_ns: done(SAFEPOINT_NS),
            threads_started: done(THREADS_STARTED),
            compiles_c1: of_probes(counts_compiles, |counted| counted.compiles_c1),
            compiles_c2: of_probes(counts_compiles, |counted| counted.compiles_c2),
            compiles_failed: of_probes(counts_compiles, |counted| counted.compiles_failed),
            jar_reads: of_probes(reads, |counted| counted.jar_reads),
            jar_bytes: of_probes(reads, |counted| counted.jar_bytes),
            modules_reads: of_probes(reads, |counted| counted.modules_reads),
            modules_bytes: of_probes(reads, |counted| counted.modules_bytes),
            ..v1::JvmWork::default()
        };
        (work != v1::JvmWork::default()).then(|| v1::JvmWork {
            classes_source: source([CLASSES_LOADED, CLASSES_SHARED]).as_str().to_owned(),
            compiles_source: compiles.as_str().to_owned(),
            gc_source: source([GC_COLLECTIONS, GC_NS]).as_str().to_owned(),
            safepoints_source: source([SAFEPOINTS, SAFEPOINT_NS]).as_str().to_owned(),
            ..work
        })
    }

    /// Fixes the work of the phases that have ended; of all when `now_ns` is `None`.
    pub fn settle(&mut self, now_ns: Option<u64>, phases: &[PhaseSpan]) {
        for phase in phases {
            self.fix(now_ns, phase.start_ns);
            let Some(end_ns) = phase.end_ns else { continue };
            if !self.fix(now_ns, end_ns) || self.phases.contains_key(&phase.kind.into()) {
                continue;
            }
            if let Some(work) = self.between(phase.start_ns, end_ns) {
                self.phases.insert(phase.kind.into(), work);
            }
        }
    }

    /// Fixes what is known of an instant. Whether it is final.
    pub fn fix(&mut self, now_ns: Option<u64>, at_ns: u64) -> bool {
        let is_due = now_ns.is_none_or(|now_ns| at_ns.saturating_add(SETTLE_NS) <= now_ns);
        if is_due && self.fixed.len() < FIXED_MAX && !self.fixed.contains_key(&at_ns) {
            self.fixed.insert(at_ns, self.at(at_ns));
        }
        is_due
    }

    /// Work of a phase, once that is known.
    pub fn of_phase(&self, kind: i32) -> Option<v1::JvmWork> {
        self.phases.get(&kind).cloned()
    }

    fn at(&self, at_ns: u64) -> Instant {
        let fixed = self.fixed.get(&at_ns);
        let sampled = fixed.and_then(|fixed| Some(self.samples.completed(fixed.sampled?)));
        Instant {
            at_ns,
            sampled: sampled.or_else(|| self.samples.at(at_ns)),
            counted: fixed.map_or_else(|| self.steps.at(at_ns), |fixed| fixed.counted),
        }
    }

    /// Whether probes count at an instant.
    fn is_counted(&self, index: usize, at_ns: u64) -> bool {
        let differs = matches!(index, GC_COLLECTIONS | GC_NS) && self.base.differs_in_collections();
        let counts =
            |(since_ns, probed)| since_ns <= at_ns && source(probed, index) != Source::None && !differs;
        self.probed.is_some_and(counts)
    }

    /// What had been done before the JVM was probed, if it is.
    fn base(&self, index: usize) -> Option<u64> {
        self.base.of(index).filter(|_| self.is_counted(index, u64::MAX))
    }

    /// The probes' source when they tell what was done in a span.
    fn source(&self, index: usize, from: &Instant, to: &Instant) -> Source {
        let begins = self.is_counted(index, from.at_ns)
            || (self.base(index).is_some() && self.by_samples(index, from).is_some());
        let counts = begins && self.is_counted(index, to.at_ns);
        self.probed.filter(|_| counts).map_or(Source::None, |(_, probed)| source(probed, index))
    }

    fn done(&self, index: usize, from: &Instant, to: &Instant) -> Option<u64> {
        let counted = |instant: &Instant| of_counted(&instant.counted)[index];
        if self.is_counted(index, to.at_ns) {
            if self.is_counted(index, from.at_ns) {
                return Some(counted(to)?.saturating_sub(counted(from)?));
            }
            if let Some(base) = self.base(index) {
                return Some(base.saturating_add(counted(to)?).saturating_sub(self.by_samples(index, from)?));
            }
        }
        Some(self.by_samples(index, to)?.saturating_sub(self.by_samples(index, from)?))
    }

    /// What hsperfdata says of an instant, and no more than was done by then. Probes are attached one after the other, so
    /// that some have counted before they all do.
    fn by_samples(&self, index: usize, instant: &Instant) -> Option<u64> {
        let sampled = instant.sampled?[index]?;
        let counted = of_counted(&instant.counted)[index];
        let most = self.base(index).and_then(|base| Some(base.saturating_add(counted?)));
        Some(most.map_or(sampled, |most| most.min(sampled)))
    }
}

/// Leaves every other one of the first half of `most`.
fn thin_older<T>(points: &mut VecDeque<T>, most: usize) {
    let mut index = 0;
    points.retain(|_| {
        index += 1;
        index > most / 2 || index % 2 == 1
    });
}

#[cfg(test)]
mod tests;
