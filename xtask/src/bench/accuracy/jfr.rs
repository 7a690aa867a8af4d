//! What Flight Recorder, which ran in the JVM, told of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::truth::{Compiler, Event, Share, Truth, What};
use crate::clock::Anchor;
use crate::jdk::Jdk;
use crate::timeline::list;
use crate::{process, repo};

/// The events that [`settings`] enables, less what nobody reads.
const EVENTS: &str = "ThreadCPULoad,ClassLoadingStatistics,Compilation,CompilationFailure,GCPhasePause,SafepointBegin,SafepointEnd";

/// What is recorded.
fn settings() -> PathBuf {
    repo::root().join("xtask/testbed/truth.jfc")
}

/// The JVM's option that records.
pub fn option(file: &Path) -> String {
    format!("-XX:StartFlightRecording:filename={},settings={}", file.display(), settings().display())
}

/// Reads the recording with the JDK's own tool.
pub fn read(file: &Path, jdk: &Jdk) -> Result<Truth> {
    let mut jfr = Command::new(jdk.home.join("bin/jfr"));
    // Its instants are printed in the time zone that it runs in.
    jfr.args(["print", "--json", "--events", EVENTS]).arg(file).env("TZ", "UTC");
    let output = jfr.output().with_context(|| format!("start {}", process::line(&jfr)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}` failed ({})\n{words}", process::line(&jfr), output.status);
    }
    let recording = serde_json::from_slice(&output.stdout).with_context(|| process::line(&jfr))?;
    let cpus = std::thread::available_parallelism().context("number of CPUs")?.get();
    parse(&recording, Anchor::wall()?, cpus as f64).with_context(|| file.display().to_string())
}

fn parse(recording: &Value, wall: Anchor, cpus: f64) -> Result<Truth> {
    let mut truth = Truth::default();
    let mut loads = Vec::new();
    let mut safepoints = BTreeMap::new();
    for event in list(&recording["recording"]["events"]) {
        let values = &event["values"];
        let begin_ns =
            wall.boot_ns_of(values["startTime"].as_str().context("an event without its instant")?)?;
        let length_ns = values["duration"].as_str().and_then(duration_ns).unwrap_or(0);
        // A thread that has ended before the recording does may have no name there.
        let thread = &values["eventThread"];
        let id = thread["osThreadId"].as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let mut add =
            |what, length_ns, at_ns| truth.events.push(Event { at_ns, thread: id, what, length_ns });
        match event["type"].as_str().unwrap_or_default() {
            "jdk.Compilation" => {
                let level = values["compileLevel"].as_u64().and_then(|level| u32::try_from(level).ok());
                let compiler = level.and_then(Compiler::of_level);
                match compiler {
                    // JFR's own spelling.
                    Some(compiler) if values["succeded"] == true => {
                        add(What::Compile(compiler), 0, begin_ns + length_ns);
                    }
                    Some(_) => add(What::CompileFailed, 0, begin_ns + length_ns),
                    None => {}
                }
            }
            "jdk.GCPhasePause" => add(What::Pause, length_ns, begin_ns + length_ns),
            "jdk.SafepointBegin" => {
                safepoints.insert(values["safepointId"].as_u64(), begin_ns);
            }
            "jdk.SafepointEnd" => {
                if let Some(begun_ns) = safepoints.remove(&values["safepointId"].as_u64()) {
                    let end_ns = begin_ns + length_ns;
                    add(What::Safepoint, end_ns.saturating_sub(begun_ns), end_ns);
                }
            }
            "jdk.ClassLoadingStatistics" => {
                let count = values["loadedClassCount"].as_u64().context("no count of classes")?;
                truth.class_counts.push((begin_ns, count));
            }
            "jdk.ThreadCPULoad" => {
                let load = values["user"].as_f64().unwrap_or(0.0) + values["system"].as_f64().unwrap_or(0.0);
                loads.push((begin_ns, compiler_of(thread["osName"].as_str().unwrap_or_default()), load));
            }
            _ => {}
        }
    }
    truth.events.sort_by_key(|event| event.at_ns);
    truth.class_counts.sort_unstable();
    // Its samples come as long as it records; the last one is some time before the process's end.
    truth.from_ns = truth.class_counts.first().context("no sample of its class count")?.0;
    truth.to_ns = truth.class_counts.last().map_or(0, |&(at_ns, _)| at_ns);
    truth.shares = shares(&loads, &truth.class_counts, cpus);
    Ok(truth)
}

/// A thread's share is of the time since the round of samples before (JfrThreadCPULoadEvent,
/// jfr/periodic/jfrThreadCPULoadEvent.cpp), as a part of what all CPUs have. Rounds are known by the count of classes, which
/// comes with each; of threads, also those that end are told of, whenever that is.
fn shares(loads: &[(u64, Option<Compiler>, f64)], rounds: &[(u64, u64)], cpus: f64) -> Vec<Share> {
    let share = |&(at_ns, compiler, load): &(u64, Option<Compiler>, f64)| {
        let distance = |&round: &usize| rounds[round].0.abs_diff(at_ns);
        let round = (0..rounds.len()).min_by_key(distance)?;
        // The first round tells of the time since the thread began, which nobody knows.
        let (from_ns, to_ns) = (rounds[round.checked_sub(1)?].0, rounds[round].0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is neither large nor negative"
        )]
        let cpu_ns = (load * cpus * (to_ns - from_ns) as f64) as u64;
        Some(Share { compiler: compiler?, from_ns, to_ns, cpu_ns })
    };
    loads.iter().filter_map(share).collect()
}

fn compiler_of(thread: &str) -> Option<Compiler> {
    match thread {
        _ if thread.starts_with("C1 CompilerThread") => Some(Compiler::C1),
        _ if thread.starts_with("C2 CompilerThread") => Some(Compiler::C2),
        _ => None,
    }
}

/// ISO 8601 as java.time.Duration prints it: `PT0.000368108S`, `PT1M2S`.
fn duration_ns(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix("PT")?;
    let mut total_ns = 0;
    for (unit, unit_ns) in [('H', 3_600_000_000_000), ('M', 60_000_000_000), ('S', 1_000_000_000)] {
        let Some((number, after)) = rest.split_once(unit) else { continue };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let nanos: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        total_ns += whole.parse::<u64>().ok()? * unit_ns + nanos;
        rest = after;
    }
    rest.is_empty().then_some(total_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recording(events: &[Value]) -> Value {
        json!({"recording": {"events": events}})
    }

    fn event(kind: &str, second: &str, more: &Value) -> Value {
        let mut values = more.clone();
        values["startTime"] = format!("2026-11-30T18:40:{second}Z").into();
        json!({"type": format!("jdk.{kind}"), "values": values})
    }

    #[test]
    fn durations_are_read_as_java_prints_them() {
        let expect = [Some(368_108), Some(62_000_000_000), Some(3_600_500_000_000), None, None];
        let texts = ["PT0.000368108S", "PT1M2S", "PT1H0.5S", "PT3", "368"];
        assert_eq!(texts.map(duration_ns), expect);
    }

    /// Events of JDK 17.0.15 and 25.0.3, cut to what is read.
    #[test]
    fn events_of_a_recording() {
        let on = |name: &str, id: u32| json!({"osName": name, "osThreadId": id});
        let recording = recording(&[
            event(
                "ClassLoadingStatistics",
                "38.721135136",
                &json!({"loadedClassCount": 1430, "unloadedClassCount": 0}),
            ),
            event(
                "Compilation",
                "38.726067058",
                &json!({"duration": "PT0.000368108S", "eventThread": on("C1 CompilerThread0", 17378), "compileId": 1170,
                    "compiler": "c1", "compileLevel": 2, "succeded": true, "isOsr": false}),
            ),
            event(
                "Compilation",
                "38.727",
                &json!({"duration": "PT0.5S", "eventThread": on("C2 CompilerThread0", 17377), "compileLevel": 4, "succeded": false}),
            ),
            event(
                "SafepointBegin",
                "39.169273438",
                &json!({"duration": "PT0.000957404S", "eventThread": on("VM Thread", 17371), "safepointId": 5}),
            ),
            event(
                "GCPhasePause",
                "39.170429618",
                &json!({"duration": "PT0.012513811S", "eventThread": on("VM Thread", 17371), "gcId": 1, "name": "GC Pause"}),
            ),
            event(
                "SafepointEnd",
                "39.182973322",
                &json!({"duration": "PT0.000022613S", "eventThread": on("VM Thread", 17371), "safepointId": 5}),
            ),
        ]);
        let truth = parse(&recording, Anchor::wall().unwrap(), 2.0).unwrap();
        let told: Vec<_> =
            truth.events.iter().map(|event| (event.what.clone(), event.thread, event.length_ns)).collect();
        let expect = [
            (What::Compile(Compiler::C1), 17378, 0),
            (What::Pause, 17371, 12_513_811),
            (What::Safepoint, 17371, 13_722_497),
            (What::CompileFailed, 17377, 0),
        ];
        assert_eq!(told, expect);
        assert_eq!(truth.class_counts, [(truth.from_ns, 1430)]);
    }

    #[test]
    fn a_share_is_of_the_time_since_the_round_before() {
        let loads = [
            (101, Some(Compiler::C2), 0.9),
            (201, None, 0.1),
            (250, None, 0.1),
            (299, Some(Compiler::C2), 0.25),
        ];
        let rounds = [(100, 1430), (200, 1500), (300, 1500)];
        let expect = [Share { compiler: Compiler::C2, from_ns: 200, to_ns: 300, cpu_ns: 50 }];
        assert_eq!(shares(&loads, &rounds, 2.0), expect);
    }
}
