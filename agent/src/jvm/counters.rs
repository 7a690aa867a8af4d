//! The counters that make a [`Sample`], found once by name and then read at their offsets.
//!
//! What each counts was read in share/services/{classLoadingService,threadService,runtimeService}.cpp,
//! share/classfile/classLoader.cpp, share/compiler/compileBroker.cpp and share/gc/shared/{collectorCounters,
//! generationCounters,hSpaceCounters}.cpp of the JDK.

use timeline::{COLLECTORS, Collector, Sample};

use super::hsperfdata::{self, Malformed, Prologue, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// As it stands.
    Plain,
    /// Ticks of the JVM's clock.
    Ticks,
    /// As it stands, once it is counted: before it is zero.
    SinceFirst,
}

type Field = fn(&mut Sample) -> &mut Option<u64>;

/// Counters and where they go; several for one field add up.
const COUNTERS: [(&str, Unit, Field); 32] = [
    ("java.cls.loadedClasses", Unit::Plain, |s| &mut s.classes_loaded),
    ("java.cls.sharedLoadedClasses", Unit::Plain, |s| &mut s.classes_loaded),
    ("java.cls.sharedLoadedClasses", Unit::Plain, |s| &mut s.classes_shared),
    ("java.cls.unloadedClasses", Unit::Plain, |s| &mut s.classes_unloaded),
    ("java.cls.sharedUnloadedClasses", Unit::Plain, |s| &mut s.classes_unloaded),
    ("sun.cls.time", Unit::Ticks, |s| &mut s.class_load_ns),
    ("sun.cls.classLinkedTime", Unit::Ticks, |s| &mut s.class_link_ns),
    ("sun.cls.classVerifyTime", Unit::Ticks, |s| &mut s.class_verify_ns),
    ("sun.cls.classInitTime", Unit::Ticks, |s| &mut s.class_init_ns),
    ("sun.ci.totalCompiles", Unit::Plain, |s| &mut s.compiles),
    ("java.ci.totalTime", Unit::Ticks, |s| &mut s.compile_ns),
    ("sun.ci.standardCompiles", Unit::Plain, |s| &mut s.standard_compiles),
    ("sun.ci.standardTime", Unit::Ticks, |s| &mut s.standard_compile_ns),
    ("sun.ci.osrCompiles", Unit::Plain, |s| &mut s.osr_compiles),
    ("sun.ci.osrTime", Unit::Ticks, |s| &mut s.osr_compile_ns),
    ("sun.ci.totalBailouts", Unit::Plain, |s| &mut s.compile_bailouts),
    ("sun.ci.totalInvalidates", Unit::Plain, |s| &mut s.compile_invalidations),
    ("sun.threads.total_gc_cpu_time", Unit::Ticks, |s| &mut s.gc_cpu_ns),
    ("sun.rt.safepoints", Unit::Plain, |s| &mut s.safepoints),
    ("sun.rt.safepointTime", Unit::Ticks, |s| &mut s.safepoint_ns),
    ("sun.rt.safepointSyncTime", Unit::Ticks, |s| &mut s.safepoint_sync_ns),
    ("sun.rt.applicationTime", Unit::Ticks, |s| &mut s.application_ns),
    ("java.threads.live", Unit::Plain, |s| &mut s.threads_live),
    ("java.threads.started", Unit::Plain, |s| &mut s.threads_started),
    ("java.threads.livePeak", Unit::Plain, |s| &mut s.threads_peak),
    ("sun.gc.generation.0.space.0.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    ("sun.gc.generation.0.space.1.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    ("sun.gc.generation.0.space.2.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    ("sun.gc.generation.1.space.0.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    // The permanent generation of JDK 7 would be generation 2: it is not heap.
    ("sun.gc.generation.1.space.1.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    ("sun.gc.generation.1.space.2.used", Unit::SinceFirst, |s| &mut s.heap_used_bytes),
    ("sun.gc.metaspace.used", Unit::SinceFirst, |s| &mut s.metaspace_used_bytes),
];

const COLLECTIONS: [(&str, &str); COLLECTORS] = [
    ("sun.gc.collector.0.invocations", "sun.gc.collector.0.time"),
    ("sun.gc.collector.1.invocations", "sun.gc.collector.1.time"),
    ("sun.gc.collector.2.invocations", "sun.gc.collector.2.time"),
];

const FREQUENCY: &str = "sun.os.hrt.frequency";

/// Where the wanted counters stand in the file of one JVM.
#[derive(Debug)]
pub struct Index {
    /// What the prologue said when they were looked up.
    of: Prologue,
    /// All of the entries were written.
    whole: bool,
    counters: [Option<usize>; COUNTERS.len()],
    collections: [(Option<usize>, Option<usize>); COLLECTORS],
    frequency: Option<usize>,
}

impl Index {
    /// Looks the wanted counters up.
    ///
    /// # Errors
    /// When the entries are not those of hsperfdata. That the JVM is still writing some is no error.
    pub fn build(bytes: &[u8], of: Prologue) -> Result<Self, Malformed> {
        let mut index = Self {
            of,
            whole: true,
            counters: [None; COUNTERS.len()],
            collections: [(None, None); COLLECTORS],
            frequency: None,
        };
        for entry in hsperfdata::entries(bytes, &of) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Malformed::Unfinished { .. }) => {
                    index.whole = false;
                    break;
                }
                Err(error) => return Err(error),
            };
            if !matches!(entry.value, Value::Long(_)) {
                continue;
            }
            for (offset, (name, ..)) in index.counters.iter_mut().zip(&COUNTERS) {
                if *name == entry.name {
                    *offset = Some(entry.at);
                }
            }
            for (offsets, (collections, time)) in index.collections.iter_mut().zip(&COLLECTIONS) {
                if *collections == entry.name {
                    offsets.0 = Some(entry.at);
                } else if *time == entry.name {
                    offsets.1 = Some(entry.at);
                }
            }
            if entry.name == FREQUENCY {
                index.frequency = Some(entry.at);
            }
        }
        Ok(index)
    }

    /// Whether it is still right for a file that begins with `prologue`: counters are added while a JVM starts, and
    /// never moved.
    pub fn fits(&self, prologue: &Prologue) -> bool {
        self.whole && (self.of.first, self.of.entries) == (prologue.first, prologue.entries)
    }

    /// The counters as they are in `bytes`.
    pub fn sample(&self, bytes: &[u8]) -> Sample {
        let number = |at: Option<usize>| {
            at.and_then(|at| hsperfdata::long_at(bytes, at)).and_then(|value| u64::try_from(value).ok())
        };
        let frequency = number(self.frequency).filter(|frequency| *frequency > 0);
        let time_ns = |at: Option<usize>| {
            let ns = u128::from(number(at)?) * 1_000_000_000 / u128::from(frequency?);
            u64::try_from(ns).ok()
        };
        let mut sample = Sample::default();
        for (at, (_, unit, field)) in self.counters.iter().zip(&COUNTERS) {
            let value = match unit {
                Unit::Plain => number(*at),
                Unit::Ticks => time_ns(*at),
                Unit::SinceFirst => number(*at).filter(|value| *value > 0),
            };
            add(field(&mut sample), value);
        }
        for (collector, (collections, time)) in sample.collectors.iter_mut().zip(self.collections) {
            *collector = number(collections)
                .zip(time_ns(time))
                .map(|(collections, pause_ns)| Collector { collections, pause_ns });
        }
        for Collector { collections, pause_ns } in sample.collectors.into_iter().flatten() {
            add(&mut sample.gc_collections, Some(collections));
            add(&mut sample.gc_ns, Some(pause_ns));
        }
        sample
    }
}

fn add(to: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *to = Some(to.unwrap_or(0).saturating_add(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::hsperfdata::tests::{Made, file};

    fn sample(counters: &[(&str, i64)]) -> Sample {
        let made: Vec<(&str, Made)> =
            counters.iter().map(|(name, value)| (*name, Made::Long(*value))).collect();
        let bytes = file(&made);
        Index::build(&bytes, Prologue::parse(&bytes).unwrap()).unwrap().sample(&bytes)
    }

    #[test]
    fn own_and_shared_classes_add_up_and_ticks_become_nanoseconds() {
        let found = sample(&[
            ("java.cls.loadedClasses", 4),
            ("java.cls.sharedLoadedClasses", 400),
            ("java.ci.totalTime", 50),
            (FREQUENCY, 100),
            ("sun.gc.collector.0.invocations", 2),
            ("sun.gc.collector.0.time", 1),
            ("sun.gc.collector.2.invocations", 3),
            ("sun.gc.collector.2.time", 2),
            ("sun.gc.collector.1.invocations", 9),
            ("sun.gc.generation.0.space.0.used", 0),
            ("sun.gc.generation.1.space.0.used", 77),
            ("sun.gc.metaspace.used", 0),
            ("sun.rt.safepoints", -1),
        ]);
        let collector = |collections, pause_ns| Some(Collector { collections, pause_ns });
        let expect = Sample {
            classes_loaded: Some(404),
            classes_shared: Some(400),
            compile_ns: Some(500_000_000),
            gc_collections: Some(5),
            gc_ns: Some(30_000_000),
            heap_used_bytes: Some(77),
            collectors: [collector(2, 10_000_000), None, collector(3, 20_000_000)],
            ..Sample::default()
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn without_a_frequency_there_are_no_times() {
        for clock in [("x", 1), (FREQUENCY, 0), (FREQUENCY, -1)] {
            let found = sample(&[("java.ci.totalTime", 50), ("sun.rt.safepoints", 1), clock]);
            assert_eq!(found, Sample { safepoints: Some(1), ..Sample::default() });
        }
        let found = sample(&[("java.ci.totalTime", i64::MAX), (FREQUENCY, 1)]);
        assert_eq!(found, Sample::default(), "beyond what nanoseconds can count");
    }

    #[test]
    fn an_entry_that_is_being_written_is_looked_up_again() {
        let made = [("sun.rt.safepoints", Made::Long(5)), ("java.threads.live", Made::Long(6))];
        let whole = file(&made);
        let prologue = Prologue::parse(&whole).unwrap();
        let mut bytes = whole.clone();
        let second = bytes.len() - file(&made[1..]).len() + hsperfdata::PROLOGUE_BYTES;
        bytes[second..].fill(0);
        let index = Index::build(&bytes, prologue).unwrap();
        assert_eq!(index.sample(&bytes), Sample { safepoints: Some(5), ..Sample::default() });
        assert!(!index.fits(&prologue));
        let index = Index::build(&whole, prologue).unwrap();
        assert_eq!(index.sample(&whole).threads_live, Some(6));
        assert!(index.fits(&prologue));
        assert!(!index.fits(&Prologue { entries: 3, ..prologue }));
    }
}
