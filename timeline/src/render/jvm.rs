//! What the JVM did, by phase and by user requests.

use proto::headline::milestone_ns;
use proto::v1::{JvmWork, MilestoneKind, Stage, StageKind, Timeline};

use super::WIDTH;
use super::format::{count, cut, duration, mib, word, wrapped};
use super::sections::{INDENT, section};
use super::table::{Column, Columns, Table};

/// Columns of the terminal for the sources in a title.
const SOURCES_WIDTH: usize = 76;

/// A row: what it is of, how long that took, what was done.
type Row = (String, Option<u64>, JvmWork);

/// Nothing when no phase tells anything.
pub(super) fn by_phase(timeline: &Timeline) -> String {
    let row = |phase: &proto::v1::Phase| {
        (word(phase.kind().as_str_name(), "PHASE_KIND_"), None, phase.jvm.clone().unwrap_or_default())
    };
    titled("JVM by phase", Column::fixed("PHASE"), timeline.phases.iter().map(row).collect())
}

/// Nothing when no stage tells anything.
pub(super) fn by_requests(timeline: &Timeline) -> String {
    let row = |stage: &Stage| {
        let work = stage.jvm.clone().unwrap_or_default();
        // They have a place by phase.
        let work = JvmWork { class_load_ns: None, safepoint_ns: None, threads_started: None, ..work };
        (name(timeline, stage), Some(stage.length_ns), work)
    };
    let rows = timeline.stages.iter().map(row).collect();
    titled("Classes and compiles by user requests", Column::fixed("STAGE"), rows)
}

/// `before ready`, `ready → first`, `first request`, `2–10`, `11–57`; without readiness, of the port.
fn name(timeline: &Timeline, stage: &Stage) -> String {
    let last = |most: u64| stage.to_ordinal.unwrap_or(most);
    match stage.kind() {
        StageKind::BeforeReady => format!("before {}", begin(timeline)),
        StageKind::ReadyToFirst => format!("{} → first", begin(timeline)),
        StageKind::First => "first request".to_owned(),
        StageKind::StageKind2To10 => format!("2–{}", last(10)),
        StageKind::StageKind11To200 => format!("11–{}", last(200)),
        StageKind::Unspecified => word(stage.kind().as_str_name(), "STAGE_KIND_"),
    }
}

/// What the first stage ends with.
pub(super) fn begin(timeline: &Timeline) -> &'static str {
    let [ready, first] =
        [MilestoneKind::Ready, MilestoneKind::FirstRequest].map(|kind| milestone_ns(timeline, kind));
    let is_ready = ready.is_some_and(|ready| first.is_none_or(|first| ready <= first));
    if is_ready { "ready" } else { "port open" }
}

fn titled(title: &str, heading: Column, rows: Vec<Row>) -> String {
    if rows.iter().all(|(.., work)| !tells(work)) {
        return String::new();
    }
    let title = format!("{title}{}", sources(&rows));
    let (table, left_out) = table(heading, rows);
    let footer = (!left_out.is_empty()).then(|| {
        let note = format!("no room for {}: see -o json", left_out.join(", "));
        format!("{INDENT}{}\n", wrapped(&note, INDENT.len()))
    });
    section(&title, &table, footer)
}

fn table(heading: Column, rows: Vec<Row>) -> (Table, Vec<&'static str>) {
    let counts = |of: fn(&JvmWork) -> bool| rows.iter().filter(|(.., work)| of(work)).count();
    let (compiles, apart) =
        (counts(|work| work.compiles.is_some()), counts(|work| work.compiles_c1.is_some()));
    let mut table = Columns::new([
        heading,
        Column::fixed(">LENGTH"),
        Column::fixed(">CLASSES"),
        Column::spare(">SHARED", 5),
        Column::spare(">LOAD", 4),
        Column::spare(">COMPILES", if apart > 0 { 14 } else { 1 }),
        Column::fixed(">C1"),
        Column::fixed(">C2"),
        Column::spare(">FAILED", 7),
        Column::spare(">COMPILE", 3),
        Column::spare(">GC", 1),
        Column::spare(">PAUSES", 2),
        Column::spare(">SAFEPOINTS", 6),
        Column::spare(">IN THEM", 10),
        Column::spare(">THREADS", 13),
        Column::spare(">JAR READS", 8),
        Column::spare(">JAR MIB", 9),
        Column::spare(">MODULES READS", 11),
        Column::spare(">MODULES MIB", 12),
    ]);
    for (name, length_ns, work) in rows {
        table.row([
            Some(name),
            length_ns.map(duration),
            work.classes_loaded.map(count),
            work.classes_shared.map(count),
            work.class_load_ns.map(duration),
            // The sum says nothing more where both are told.
            work.compiles.filter(|_| apart < compiles).map(count),
            work.compiles_c1.map(count),
            work.compiles_c2.map(count),
            work.compiles_failed.map(count),
            work.compile_ns.map(duration),
            work.gc_collections.map(count),
            work.gc_ns.map(duration),
            work.safepoints.map(count),
            work.safepoint_ns.map(duration),
            work.threads_started.map(count),
            work.jar_reads.map(count),
            work.jar_bytes.map(mib),
            work.modules_reads.map(count),
            work.modules_bytes.map(mib),
        ]);
    }
    table.fitted(INDENT, WIDTH)
}

/// Whether there is any number in it.
fn tells(work: &JvmWork) -> bool {
    let sources = JvmWork {
        classes_source: work.classes_source.clone(),
        compiles_source: work.compiles_source.clone(),
        gc_source: work.gc_source.clone(),
        safepoints_source: work.safepoints_source.clone(),
        ..JvmWork::default()
    };
    *work != sources
}

/// ` (usdt)`, or ` (usdt; jvm_boot: hsperfdata)` where a row differs from the most, or ` (classes, compiles: usdt; gc:
/// hsperfdata)` where groups do. Empty when nobody says.
fn sources(rows: &[Row]) -> String {
    let told: Vec<(&str, String)> = rows
        .iter()
        .map(|(name, _, work)| (name.as_str(), sources_of(work)))
        .filter(|(_, sources)| !sources.is_empty())
        .collect();
    let times = |sources: &String| told.iter().filter(|(_, other)| other == sources).count();
    // Of equals the last: a JVM is probed by then.
    let Some((_, most)) = told.iter().max_by_key(|(_, sources)| times(sources)) else {
        return String::new();
    };
    let others = told.iter().filter(|(_, sources)| sources != most);
    let others = others.map(|(name, sources)| format!("; {name}: {sources}"));
    format!(" ({})", cut(&(most.clone() + &others.collect::<String>()), SOURCES_WIDTH))
}

/// The source of a row, or those of its groups.
fn sources_of(work: &JvmWork) -> String {
    let mut sources: Vec<(&str, Vec<&str>)> = Vec::new();
    for (group, source) in [
        ("classes", &work.classes_source),
        ("compiles", &work.compiles_source),
        ("gc", &work.gc_source),
        ("safepoints", &work.safepoints_source),
    ] {
        if ["", "none"].contains(&source.as_str()) {
            continue;
        }
        match sources.iter_mut().find(|(known, _)| known == source) {
            Some((_, groups)) => groups.push(group),
            None => sources.push((source, vec![group])),
        }
    }
    match sources.as_slice() {
        [(source, _)] => (*source).to_owned(),
        several => {
            let named = several.iter().map(|(source, groups)| format!("{}: {source}", groups.join(", ")));
            named.collect::<Vec<_>>().join("; ")
        }
    }
}
