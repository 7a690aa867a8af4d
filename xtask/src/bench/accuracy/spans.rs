//! Spans of a timeline, in boot time, with what jcold told of each.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::start::Start;
use crate::timeline::{Timeline, list, number};

/// Where a JvmWork says what its numbers are from.
const SOURCES: [&str; 4] = ["classesSource", "compilesSource", "gcSource", "safepointsSource"];
/// What a phase has and an interval has too.
const PARTS: [&str; 5] = ["classesLoaded", "compiles", "compilesC1", "compilesC2", "gcNs"];

/// A span.
#[derive(Debug, Clone)]
pub struct Span {
    /// `phase app_start`, `stage first`.
    pub name: String,
    /// Begin and end, boot time, nanoseconds.
    pub edges: (u64, u64),
    /// What the JVM did, as in the contract's JvmWork.
    pub work: Value,
    /// CPU by thread class; nothing for stages, which have none.
    pub cpu_ns: Value,
    /// It is a part of a phase, made of intervals.
    pub is_part: bool,
}

/// The phases, then all of them as one, then the stages.
pub fn of(start: &Start) -> Vec<Span> {
    let phases = listed(start, "phases", "phase", "PHASE_KIND_");
    let whole = whole(&phases);
    phases.into_iter().chain(whole).chain(listed(start, "stages", "stage", "STAGE_KIND_")).collect()
}

fn listed(start: &Start, key: &str, what: &str, prefix: &str) -> Vec<Span> {
    list(&start.timeline.value[key])
        .filter_map(|span| {
            let kind = span["kind"].as_str()?.trim_start_matches(prefix).to_lowercase();
            let from = start.exec_ns + number(&span["sinceExecNs"]).unwrap_or(0);
            Some(Span {
                name: format!("{what} {kind}"),
                edges: (from, from + number(&span["lengthNs"]).unwrap_or(0)),
                work: span["jvm"].clone(),
                cpu_ns: span["cpuNs"].clone(),
                is_part: false,
            })
        })
        .collect()
}

/// From exec to the end of the last phase. A number that some phase does not tell is not told of the whole.
fn whole(phases: &[Span]) -> Option<Span> {
    let (first, last) = (phases.first()?, phases.last()?);
    let mut work = sum(phases.iter().map(|phase| &phase.work));
    work.retain(|name, _| phases.iter().all(|phase| !phase.work[name].is_null()));
    for source in SOURCES {
        let told: BTreeSet<&str> = phases.iter().filter_map(|phase| phase.work[source].as_str()).collect();
        let told: Vec<&str> = told.into_iter().collect();
        work.insert(source.to_owned(), told.join("/").into());
    }
    Some(Span {
        name: "all phases".into(),
        edges: (first.edges.0, last.edges.1),
        work: Value::Object(work),
        cpu_ns: Value::Object(sum(phases.iter().map(|phase| &phase.cpu_ns))),
        is_part: false,
    })
}

/// Number by number the sum.
fn sum<'a>(objects: impl Iterator<Item = &'a Value>) -> Map<String, Value> {
    let mut sums = Map::new();
    for (name, value) in objects.filter_map(Value::as_object).flatten() {
        if let Some(value) = number(value) {
            let so_far = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
            sums.insert(name.clone(), json!(so_far + value));
        }
    }
    sums
}

/// The intervals that lie in both `phase` and another span, as one span with a phase's fields: a truth that begins or ends
/// within a phase is compared with that part. None when there is no interval in it.
pub fn part_of(start: &Start, phase: &Span, within: (u64, u64)) -> Option<Span> {
    let edges = |interval: &Value| {
        let from = start.exec_ns + number(&interval["sinceExecNs"]).unwrap_or(0);
        (from, from + number(&interval["lengthNs"]).unwrap_or(0))
    };
    let inside = |interval: &&Value| {
        let (from, to) = edges(interval);
        from >= phase.edges.0.max(within.0) && to <= phase.edges.1.min(within.1)
    };
    let intervals: Vec<&Value> = list(&start.timeline.value["intervals"]).filter(inside).collect();
    let (first, last) = (intervals.first()?, intervals.last()?);
    let mut work = sum(intervals.iter().copied());
    work.retain(|name, _| PARTS.contains(&name.as_str()));
    for source in SOURCES {
        work.insert(source.to_owned(), phase.work[source].clone());
    }
    Some(Span {
        name: format!("{}, part", phase.name),
        edges: (edges(first).0, edges(last).1),
        work: Value::Object(work),
        cpu_ns: Value::Object(sum(intervals.iter().map(|slice| &slice["cpuNs"]))),
        is_part: true,
    })
}

/// A number of a timeline's stage, by the kind without its prefix.
pub fn stage<'a>(timeline: &'a Timeline, kind: &str) -> Option<&'a Value> {
    list(&timeline.value["stages"]).find(|stage| stage["kind"] == format!("STAGE_KIND_{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::accuracy::start::Kind;
    use crate::bench::sampler::History;

    fn start(timeline: Value) -> Start {
        Start {
            kind: Kind::Jfr,
            asked: false,
            exec_ns: 1_000,
            started_ns: 1_400,
            ready_ns: None,
            calls: Vec::new(),
            timeline: Timeline { value: timeline },
            history: History::default(),
            truth: None,
        }
    }

    #[test]
    fn the_whole_has_what_every_phase_tells() {
        let start = start(json!({
            "phases": [
                {"kind": "PHASE_KIND_JVM_BOOT", "lengthNs": "100", "cpuNs": {"jit_c1": "3"},
                 "jvm": {"classesLoaded": "400", "compiles": "2", "compilesSource": "hsperfdata"}},
                {"kind": "PHASE_KIND_APP_START", "sinceExecNs": "100", "lengthNs": "300", "cpuNs": {"jit_c1": "9"},
                 "jvm": {"classesLoaded": "8000", "compiles": "5", "compilesC1": "5", "compilesSource": "usdt"}},
            ],
            "stages": [{"kind": "STAGE_KIND_BEFORE_READY", "lengthNs": "400", "jvm": {"classesLoaded": "8400"}}],
        }));
        let spans = of(&start);
        let names: Vec<(&str, (u64, u64))> =
            spans.iter().map(|span| (span.name.as_str(), span.edges)).collect();
        let expect = [
            ("phase jvm_boot", (1_000, 1_100)),
            ("phase app_start", (1_100, 1_400)),
            ("all phases", (1_000, 1_400)),
            ("stage before_ready", (1_000, 1_400)),
        ];
        assert_eq!(names, expect);
        let whole = &spans[2];
        assert_eq!((&whole.work["classesLoaded"], &whole.cpu_ns["jit_c1"]), (&json!(8400), &json!(12)));
        assert_eq!(whole.work["compilesSource"], "hsperfdata/usdt");
        assert!(whole.work["compilesC1"].is_null(), "one phase does not tell it");
    }

    #[test]
    fn a_part_of_a_phase_is_made_of_the_intervals_that_lie_in_it() {
        let interval = |since: u64| {
            json!({"sinceExecNs": since.to_string(), "lengthNs": "100", "classesLoaded": "10", "gcNs": "1",
                   "cpuNs": {"jit_c2": "50"}})
        };
        let start = start(json!({
            "phases": [{"kind": "PHASE_KIND_APP_START", "sinceExecNs": "50", "lengthNs": "390",
                        "jvm": {"classesSource": "usdt"}}],
            "intervals": [interval(0), interval(100), interval(200), interval(300), interval(400)],
        }));
        let phase = &of(&start)[0];
        let part = part_of(&start, phase, (1_150, 9_999)).unwrap();
        assert_eq!((part.name.as_str(), part.edges), ("phase app_start, part", (1_200, 1_400)));
        assert_eq!((&part.work["classesLoaded"], &part.cpu_ns["jit_c2"]), (&json!(20), &json!(100)));
        assert_eq!(part.work["classesSource"], "usdt");
        assert!(part_of(&start, phase, (1_350, 9_999)).is_none());
    }
}
