//! What the JVM did meanwhile, by its own counters.

use proto::v1::{JvmWork, Timeline};

use super::WIDTH;
use super::format::{count, duration, word};
use super::sections::{INDENT, section};
use super::table::{Column, Columns};

const TITLE: &str = "JVM by its own counters (hsperfdata), by phase";

/// Nothing when no phase tells anything.
pub(super) fn work(timeline: &Timeline) -> String {
    if timeline.phases.iter().all(|phase| phase.jvm.clone().unwrap_or_default() == JvmWork::default()) {
        return String::new();
    }
    let mut table = Columns::new([
        Column::fixed("PHASE"),
        Column::fixed(">CLASSES"),
        Column::spare(">SHARED", 5),
        Column::spare(">LOAD", 4),
        Column::fixed(">COMPILES"),
        Column::spare(">COMPILE", 3),
        Column::fixed(">GC"),
        Column::spare(">PAUSES", 2),
        Column::spare(">SAFEPOINTS", 6),
        Column::spare(">IN THEM", 7),
        Column::spare(">THREADS", 8),
    ]);
    for phase in &timeline.phases {
        let work = phase.jvm.clone().unwrap_or_default();
        table.row([
            Some(word(phase.kind().as_str_name(), "PHASE_KIND_")),
            work.classes_loaded.map(count),
            work.classes_shared.map(count),
            work.class_load_ns.map(duration),
            work.compiles.map(count),
            work.compile_ns.map(duration),
            work.gc_collections.map(count),
            work.gc_ns.map(duration),
            work.safepoints.map(count),
            work.safepoint_ns.map(duration),
            work.threads_started.map(count),
        ]);
    }
    let (table, left_out) = table.fitted(INDENT, WIDTH);
    let title = if left_out.is_empty() {
        TITLE.to_owned()
    } else {
        format!("{TITLE}; no room for {}", left_out.join(", "))
    };
    section(&title, &table, None)
}
