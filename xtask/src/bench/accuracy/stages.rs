//! What is loaded and compiled before ready, before the first request, in it and after it: the tables that an engineer of a
//! Spring service makes by hand from logs. And what the flags that make those logs change.

use std::collections::BTreeMap;

use serde_json::Value;

use super::spans::stage;
use super::start::{Kind, Start};
use super::truth::{Compiler, Truth, What};
use crate::bench::table::{Column, Row, Table};
use crate::report::p50;
use crate::timeline::{Timeline, list, number};

/// Kinds of stages, in their order.
const KINDS: [&str; 5] = ["BEFORE_READY", "READY_TO_FIRST", "FIRST", "2_TO_10", "11_TO_200"];
const STAGES: &[Column] = &[
    Column { key: "before_ready", heading: "→ ready" },
    Column { key: "ready_to_first", heading: "→ 1st" },
    Column { key: "first", heading: "in the 1st" },
    Column { key: "requests_2_to_10", heading: "2–10" },
    Column { key: "requests_11_to_200", heading: "11–200" },
];
const DISTORTION: &[Column] = &[
    Column { key: "port_listen_ns", heading: "→ port" },
    Column { key: "started_ns", heading: "→ Started" },
    Column { key: "first_asked_ns", heading: "1st, asked" },
    Column { key: "first_unasked_ns", heading: "1st, not" },
    Column { key: "classes_before_ready", heading: "classes" },
    Column { key: "compiles_before_ready", heading: "compiles" },
    Column { key: "jit_c1_before_first_ns", heading: "C1 CPU" },
    Column { key: "jit_c2_before_first_ns", heading: "C2 CPU" },
];
const EDGES: &[Column] = &[
    Column { key: "sent_to_ready_ns", heading: "sent→data" },
    Column { key: "last_to_received_ns", heading: "last→client" },
    Column { key: "received_10_ns", heading: "10th" },
    Column { key: "received_200_ns", heading: "200th" },
];
/// Most packages that are listed.
const PACKAGES: usize = 12;
/// Packages past the limit of a timeline.
const OTHER: &str = "(other)";

/// A number of stages: its key, its name, where a timeline has it, and what counts in a truth.
type Counted = (&'static str, &'static str, &'static str, fn(&What) -> bool);

const COUNTED: [Counted; 4] = [
    ("classes", "classes", "classesLoaded", |what| matches!(what, What::Class(_))),
    (
        "classes_shared",
        "from an archive",
        "classesShared",
        |what| matches!(what, What::Class(class) if class.shared),
    ),
    ("compiles_c1", "C1 compiles", "compilesC1", |what| *what == What::Compile(Compiler::C1)),
    ("compiles_c2", "C2 compiles", "compilesC2", |what| *what == What::Compile(Compiler::C2)),
];

/// Tables of stages, medians of the starts: each number with and without a readiness request.
pub fn tables(starts: &[Start]) -> Vec<Table> {
    let mut tables = Vec::new();
    for (asked, words) in [(true, "asked"), (false, "unasked")] {
        for (key, name, field, is) in COUNTED {
            let by_jcold = |kind: Kind| {
                let of_kind = of(starts, kind, asked);
                medians(
                    of_kind
                        .map(|start| KINDS.map(|kind| number(&stage(&start.timeline, kind)?["jvm"][field]))),
                )
            };
            let by_log = of(starts, Kind::Xlog, asked)
                .filter_map(|start| Some(by_client(start, start.truth.as_ref()?, is)));
            let rows = vec![
                Row { measured_by: "jcold, plain start", cells: by_jcold(Kind::Plain) },
                Row { measured_by: "jcold, start with log", cells: by_jcold(Kind::Xlog) },
                Row { measured_by: "log, client's clock", cells: medians(by_log) },
            ];
            let key = match (key, asked) {
                ("classes", true) => "classes_asked",
                ("classes", false) => "classes_unasked",
                ("classes_shared", true) => "classes_shared_asked",
                ("classes_shared", false) => "classes_shared_unasked",
                ("compiles_c1", true) => "compiles_c1_asked",
                ("compiles_c1", false) => "compiles_c1_unasked",
                ("compiles_c2", true) => "compiles_c2_asked",
                _ => "compiles_c2_unasked",
            };
            tables.push(Table { key, title: format!("{name}, {words}"), columns: STAGES, rows });
        }
    }
    tables
}

/// The truth's counts between the instants that the client and Spring saw.
fn by_client(start: &Start, truth: &Truth, is: fn(&What) -> bool) -> [Option<u64>; 5] {
    let ready_ns = start.ready_ns.unwrap_or(start.started_ns);
    let call = |number: usize| start.calls.get(number - 1).copied();
    let count = |from_ns: Option<u64>, to_ns: Option<u64>| Some(truth.count((from_ns?, to_ns?), is).value);
    let (sent, received) =
        (call(1).map(|(sent_ns, _)| sent_ns), |number| call(number).map(|(_, received_ns)| received_ns));
    [
        count(Some(0), Some(ready_ns)),
        count(Some(ready_ns), sent),
        count(sent, received(1)),
        count(received(1), received(10)),
        count(received(10), received(200)),
    ]
}

/// What the flags do to a start: medians by kind of start, by jcold and the client.
pub fn distortion(starts: &[Start]) -> Table {
    let rows = Kind::ALL.map(|kind| {
        let of_kind = starts.iter().filter(move |start| start.kind == kind);
        Row { measured_by: kind.name(), cells: medians(of_kind.map(distortion_of)) }
    });
    Table { key: "distortion", title: "with flags".into(), columns: DISTORTION, rows: rows.into() }
}

fn distortion_of(start: &Start) -> [Option<u64>; 8] {
    let timeline = &start.timeline;
    let first_ns = first(timeline).and_then(|request| number(&request["latencyNs"]));
    let work = |field: &str| number(&stage(timeline, "BEFORE_READY")?["jvm"][field]);
    let first_at = timeline.at("FIRST_REQUEST");
    let cpu = |class: &str| {
        let before = |phase: &&Value| number(&phase["sinceExecNs"]).unwrap_or(0) < first_at.unwrap_or(0);
        first_at?;
        Some(
            list(&timeline.value["phases"])
                .filter(before)
                .filter_map(|phase| number(&phase["cpuNs"][class]))
                .sum(),
        )
    };
    [
        timeline.at("PORT_LISTEN"),
        Some(start.started_ns.saturating_sub(start.exec_ns)),
        first_ns.filter(|_| start.asked),
        first_ns.filter(|_| !start.asked),
        work("classesLoaded"),
        work("compiles"),
        cpu("jit_c1"),
        cpu("jit_c2"),
    ]
}

/// How far jcold's instants are from the client's, which sends before and receives after: medians of all starts.
pub fn edges(starts: &[Start]) -> Table {
    let of_start = |start: &Start| {
        let request = |ordinal: u64| {
            let found =
                start.timeline.user_requests().into_iter().find(|request| request.ordinal == ordinal)?;
            let ready_ns = start.exec_ns + found.since_exec_ns;
            Some((ready_ns, ready_ns + found.latency_ns))
        };
        let behind = |ordinal: u64| {
            let (_, received_ns) = start.calls.get(usize::try_from(ordinal).ok()?.checked_sub(1)?)?;
            received_ns.checked_sub(request(ordinal)?.1)
        };
        let to_ready = request(1).and_then(|(ready_ns, _)| ready_ns.checked_sub(start.calls.first()?.0));
        [to_ready, behind(1), behind(10), behind(200)]
    };
    let row = Row { measured_by: "jcold and client", cells: medians(starts.iter().map(of_start)) };
    Table { key: "edges", title: "edges".into(), columns: EDGES, rows: vec![row] }
}

/// Classes by package in the first request: jcold's list of a plain start, that of a start with the log, and the log's.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Medians of the three.
    pub classes: [u64; 3],
}

/// The packages of most classes, of the starts with or without a readiness request.
pub fn packages(starts: &[Start], asked: bool) -> Vec<Package> {
    let by_jcold =
        |kind: Kind| of(starts, kind, asked).map(|start| told(&start.timeline)).collect::<Vec<_>>();
    let by_log = of(starts, Kind::Xlog, asked).filter_map(logged).collect();
    let lists = [by_jcold(Kind::Plain), by_jcold(Kind::Xlog), by_log];
    let names: std::collections::BTreeSet<&String> =
        lists.iter().flatten().flat_map(BTreeMap::keys).collect();
    let median = |list: &[BTreeMap<String, u64>], name: &str| {
        let values: Vec<u64> = list.iter().map(|counts| counts.get(name).copied().unwrap_or(0)).collect();
        p50(&values, 1, values.len()).unwrap_or(0)
    };
    let mut packages: Vec<Package> = names
        .into_iter()
        .map(|name| Package {
            name: name.clone(),
            classes: [&lists[0], &lists[1], &lists[2]].map(|list| median(list, name)),
        })
        .filter(|package| package.classes != [0; 3])
        .collect();
    packages.sort_by_key(|package| std::cmp::Reverse(package.classes.iter().max().copied()));
    packages.truncate(PACKAGES);
    packages
}

fn told(timeline: &Timeline) -> BTreeMap<String, u64> {
    let packages = first(timeline).map(|request| &request["overlap"]["packages"]);
    let of_package = |package: &Value| {
        Some((package["name"].as_str()?.to_owned(), number(&package["classes"]).unwrap_or(0)))
    };
    packages.into_iter().flat_map(list).filter_map(of_package).collect()
}

/// The log's classes between data ready and last byte, by jcold's instants. Packages that jcold's list of that start has no
/// room for are others here too.
fn logged(start: &Start) -> Option<BTreeMap<String, u64>> {
    let request = first(&start.timeline)?;
    let from_ns = start.exec_ns + number(&request["sinceExecNs"])?;
    let span = (from_ns, from_ns + number(&request["latencyNs"])?);
    let named = told(&start.timeline);
    let mut counts = BTreeMap::new();
    for event in start.truth.as_ref()?.within(span, &|what: &What| matches!(what, What::Class(_))) {
        if let What::Class(class) = &event.what {
            let named = named.is_empty() || named.contains_key(class.package());
            let name = if named { class.package() } else { OTHER };
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    Some(counts)
}

/// The first user request.
fn first(timeline: &Timeline) -> Option<&Value> {
    list(&timeline.value["requests"]).find(|request| number(&request["ordinal"]) == Some(1))
}

fn of(starts: &[Start], kind: Kind, asked: bool) -> impl Iterator<Item = &Start> {
    starts.iter().filter(move |start| start.kind == kind && start.asked == asked)
}

/// Cell by cell the median of those that are there.
fn medians<const N: usize>(rows: impl Iterator<Item = [Option<u64>; N]>) -> Vec<Option<u64>> {
    let rows: Vec<_> = rows.collect();
    let column = |cell: usize| {
        let values: Vec<u64> = rows.iter().filter_map(|row| row[cell]).collect();
        p50(&values, 1, values.len())
    };
    (0..N).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_some_lack_is_the_median_of_the_others() {
        let rows = [[Some(3), None], [Some(1), Some(7)], [Some(2), None]];
        assert_eq!(medians(rows.into_iter()), [Some(2), Some(7)]);
        assert_eq!(medians(std::iter::empty::<[Option<u64>; 2]>()), [None, None]);
    }
}
