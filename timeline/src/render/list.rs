//! Many timelines, one a line.

use proto::headline::Headline;
use proto::v1::Timeline;

use super::format::{ABSENT, age, cut, maybe};
use super::table::Table;

/// One column: its heading, whether it stands only where a row fills it, and its cell.
struct Column {
    heading: &'static str,
    wide: bool,
    optional: bool,
    cell: fn(&Entry<'_>) -> String,
}

struct Entry<'a> {
    timeline: &'a Timeline,
    headline: Headline<'a>,
    now_ns: i64,
}

const COLUMNS: [Column; 16] = [
    always("ID", |entry| entry.timeline.id.clone()),
    always("NODE", |entry| cut(&entry.timeline.node, 20)),
    optional("NAMESPACE", |entry| pod(entry, |pod| pod.namespace.as_ref())),
    optional("WORKLOAD", |entry| cut(&pod(entry, |pod| pod.workload.as_ref()), 24)),
    wide("POD", |entry| pod(entry, |pod| pod.name.as_ref().or(pod.uid.as_ref()))),
    wide("PID", |entry| entry.timeline.jvm.as_ref().map_or_else(absent, |jvm| jvm.pid.to_string())),
    always("MAIN", |entry| main(entry.timeline)),
    always(">AGE", |entry| {
        let exec_at = entry.timeline.jvm.as_ref().and_then(|jvm| jvm.exec_at.as_ref());
        exec_at.map_or_else(absent, |at| {
            age(entry.now_ns.saturating_sub(at.seconds.saturating_mul(1_000_000_000)))
        })
    }),
    always(">READY", |entry| maybe(entry.headline.ready_ns)),
    always(">FIRST REQUEST", |entry| maybe(entry.headline.first_request_ns)),
    always(">P50 LATER", |entry| maybe(entry.headline.later_p50_ns)),
    always(">COLD PENALTY", |entry| maybe(entry.headline.cold_penalty_ns)),
    wide("ROUTE", |entry| {
        entry.headline.route.map_or_else(absent, |route| format!("{} {}", route.method, route.route))
    }),
    always(">STEADY", |entry| maybe(entry.headline.steady_ns)),
    always("COMPLETE", |entry| match entry.headline.complete {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => absent(),
    }),
    wide("EXECUTABLE", |entry| entry.timeline.jvm.as_ref().map_or_else(absent, |jvm| jvm.executable.clone())),
];

/// A table of timelines, without intervals and requests or whole; `now_ns` is wall time, for the age.
pub fn list(timelines: &[Timeline], now_ns: i64, wide: bool) -> String {
    let entries: Vec<_> = timelines
        .iter()
        .map(|timeline| Entry { timeline, headline: Headline::of(timeline), now_ns })
        .collect();
    let stands = |column: &&Column| {
        let filled = || entries.iter().any(|entry| (column.cell)(entry) != ABSENT);
        wide || !column.wide && (!column.optional || filled())
    };
    let columns: Vec<_> = COLUMNS.iter().filter(stands).collect();
    let mut table = Table::new("", columns.iter().map(|column| column.heading));
    for entry in &entries {
        table.row(columns.iter().map(|column| (column.cell)(entry)));
    }
    table.text()
}

const fn always(heading: &'static str, cell: fn(&Entry<'_>) -> String) -> Column {
    Column { heading, wide: false, optional: false, cell }
}

const fn optional(heading: &'static str, cell: fn(&Entry<'_>) -> String) -> Column {
    Column { heading, wide: false, optional: true, cell }
}

const fn wide(heading: &'static str, cell: fn(&Entry<'_>) -> String) -> Column {
    Column { heading, wide: true, optional: false, cell }
}

fn absent() -> String {
    ABSENT.to_owned()
}

fn pod<'a>(entry: &Entry<'a>, field: impl Fn(&'a proto::v1::Pod) -> Option<&'a String>) -> String {
    entry.timeline.pod.as_ref().and_then(field).map_or_else(absent, Clone::clone)
}

/// File name of a jar or source, or the end of a class name: the part that tells services apart.
fn main(timeline: &Timeline) -> String {
    let Some(main) = timeline.jvm.as_ref().and_then(|jvm| jvm.main.as_deref()) else { return absent() };
    let name = match (main.rsplit_once('/'), main.rsplit_once('.')) {
        (Some((_, file)), _) => file,
        (None, Some((_, class))) if class != "jar" => class,
        _ => main,
    };
    cut(name, 24)
}
