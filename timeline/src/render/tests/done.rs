//! What the JVM of a Spring service did.

use proto::v1::{JvmWork, Package, PhaseKind, Stage, StageKind};

use super::messages::MS;

/// Classes loaded and shared, methods compiled by C1 and C2 and how long that took, in microseconds.
fn done(classes: [u64; 2], compiles: [u64; 3]) -> JvmWork {
    let usdt = || "usdt".to_owned();
    JvmWork {
        classes_loaded: Some(classes[0]),
        classes_shared: Some(classes[1]),
        compiles: Some(compiles[0] + compiles[1]),
        compiles_c1: Some(compiles[0]),
        compiles_c2: Some(compiles[1]),
        compiles_failed: Some(compiles[1] / 200),
        compile_ns: Some(compiles[2] * 1_000),
        gc_collections: Some(0),
        gc_ns: Some(0),
        safepoints: Some(0),
        safepoint_ns: Some(0),
        threads_started: Some(1),
        jar_reads: Some(2 * (classes[0] - classes[1])),
        jar_bytes: Some(4_321 * (classes[0] - classes[1])),
        modules_reads: Some(classes[1] / 3),
        modules_bytes: Some(2_345 * (classes[1] / 3)),
        classes_source: usdt(),
        compiles_source: usdt(),
        gc_source: usdt(),
        safepoints_source: usdt(),
        ..JvmWork::default()
    }
}

/// Collections and how long they took, in microseconds; each has a safepoint, and there are others.
fn with_gc(work: JvmWork, collections: u64, gc_us: u64, others: u64) -> JvmWork {
    JvmWork {
        gc_collections: Some(collections),
        gc_ns: Some(gc_us * 1_000),
        safepoints: Some(collections + others),
        safepoint_ns: Some(gc_us * 1_000 + 35_000 * others),
        ..work
    }
}

/// The JVM tells no time to load classes while it boots.
pub(super) fn work(kind: PhaseKind) -> Option<JvmWork> {
    let loading = |ns, work| Some(JvmWork { class_load_ns: Some(ns), ..work });
    match kind {
        PhaseKind::JvmBoot => Some(done([446, 443], [24, 0, 3_700])),
        PhaseKind::AppStart => {
            loading(2_104_000_000, with_gc(done([14_208, 1_366], [6_214, 698, 3_494_000]), 14, 141_200, 47))
        }
        PhaseKind::Listening => loading(18_400_000, with_gc(done([212, 12], [171, 17, 39_600]), 0, 0, 3)),
        PhaseKind::FirstRequest => {
            loading(141_000_000, with_gc(done([1_812, 96], [812, 131, 229_300]), 0, 0, 4))
        }
        PhaseKind::Warming => {
            loading(4_100_000, with_gc(done([97, 3], [3_507, 903, 5_007_000]), 3, 21_900, 15))
        }
        _ => None,
    }
}

pub(super) fn stages() -> Vec<Stage> {
    let stage = |kind: StageKind, ms: u64, length_ms: u64, to_ordinal, jvm| Stage {
        kind: kind.into(),
        since_exec_ns: ms * MS,
        length_ns: length_ms * MS,
        to_ordinal,
        jvm: Some(jvm),
    };
    let before = with_gc(done([14_866, 1_821], [6_409, 715, 3_537_300]), 14, 141_200, 50);
    let first = with_gc(done([1_812, 96], [812, 131, 229_300]), 0, 0, 4);
    vec![
        stage(StageKind::BeforeReady, 0, 4_618, None, before),
        stage(StageKind::ReadyToFirst, 4_618, 1_502, None, done([42, 0], [58, 3, 12_300])),
        stage(StageKind::First, 6_120, 291, Some(1), first),
        stage(StageKind::StageKind2To10, 6_411, 840, Some(10), done([61, 3], [402, 38, 120_400])),
        stage(StageKind::StageKind11To200, 7_251, 14_402, Some(200), done([30, 0], [2_204, 611, 3_104_000])),
    ]
}

/// More than are shown, of more than are named.
pub(super) fn packages() -> Vec<Package> {
    let package = |name: &str, classes, compiles_c1, compiles_c2| Package {
        name: name.into(),
        classes,
        compiles_c1,
        compiles_c2,
    };
    vec![
        package("com.fasterxml.jackson.databind", 112, 28, 0),
        package("(generated)", 50, 4, 0),
        package("org.postgresql.core", 44, 12, 1),
        package("com.zaxxer.hikari.pool", 31, 9, 0),
        package("org.springframework.web.servlet.mvc.method.annotation", 29, 41, 2),
        package("java.util.concurrent", 21, 85, 27),
        package("io.micrometer.core.instrument", 20, 68, 1),
        package("org.apache.catalina.core", 18, 105, 6),
        package("java.sql", 15, 0, 0),
        package("org.springframework.jdbc.core.simple.a_package_with_a_name_past_its_column", 9, 3, 0),
        package("java.lang", 6, 60, 40),
        package("(other)", 95, 97, 14),
    ]
}
