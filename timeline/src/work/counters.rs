//! The counters that are followed, from the JVM itself and from probes.

use crate::{
    counted::{Counted, Probed, Source},
    sample::Sample,
};

pub(super) const CLASSES_LOADED: usize = 0;
pub(super) const CLASSES_SHARED: usize = 1;
pub(super) const CLASS_LOAD_NS: usize = 2;
pub(super) const COMPILES: usize = 3;
pub(super) const COMPILE_NS: usize = 4;
pub(super) const GC_COLLECTIONS: usize = 5;
pub(super) const GC_NS: usize = 6;
pub(super) const SAFEPOINTS: usize = 7;
pub(super) const SAFEPOINT_NS: usize = 8;
pub(super) const THREADS_STARTED: usize = 9;
pub(super) const COUNTERS: usize = 10;

/// Counters by their index.
pub(super) type Counters = [Option<u64>; COUNTERS];

/// Those that the JVM keeps, since its start.
pub(super) fn of_sample(sample: &Sample) -> Counters {
    [
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
    ]
}

/// Those that probes count, since the JVM is probed.
pub(super) fn of_counted(counted: &Counted) -> Counters {
    [
        Some(counted.classes),
        Some(counted.classes_shared),
        None,
        Some(counted.compiles_c1.saturating_add(counted.compiles_c2)),
        Some(counted.compile_c1_ns.saturating_add(counted.compile_c2_ns)),
        Some(counted.collections),
        Some(counted.gc_ns),
        Some(counted.safepoints),
        Some(counted.safepoint_ns),
        Some(counted.threads),
    ]
}

/// How probes count a counter.
pub(super) fn source(probed: Probed, index: usize) -> Source {
    match index {
        CLASSES_LOADED | CLASSES_SHARED => probed.classes,
        COMPILES | COMPILE_NS => probed.compiles,
        GC_COLLECTIONS | GC_NS => probed.gc,
        SAFEPOINTS | SAFEPOINT_NS => probed.safepoints,
        THREADS_STARTED => probed.threads,
        _ => Source::None,
    }
}

/// Times are not counted alike: the JVM and the probes begin and end elsewhere.
pub(super) fn is_time(index: usize) -> bool {
    matches!(index, CLASS_LOAD_NS | COMPILE_NS | GC_NS | SAFEPOINT_NS)
}
