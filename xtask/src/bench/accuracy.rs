//! What the JVM did, by jcold and by the JVM itself: starts of the Spring testbed with nothing, with Flight Recorder and with
//! HotSpot's log, on each JDK that is measured.

mod compare;
mod jfr;
mod spans;
mod stages;
mod start;
mod summary;
mod truth;
mod xlog;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::launch::Grounds;
use super::table::Table;
use super::{show, to_json};
use crate::jdk::{self, Jdk, OLDEST, PREFERRED};
use crate::step::say;
use compare::Comparison;
use start::{Kind, Start};
use summary::Summary;

/// What the tables' reader must know.
const NOTES: &str = "\
Each number stands beside another's of the same process and the same span; spans are jcold's. known: HotSpot counts its own
JFR event classes twice and logs them once. allowed: the bound (GC and safepoint time 5 % and 0.2 ms each, CPU 2 % and
5 ms); what is within 2 ms of an edge, or one event of each thread within 20; a compilation under way when a recording began
or the process ended; of C1 and C2 apart, what jcold has in `compiles` only. A recording begins after the JVM and ends
before it: `part` is what it has of a phase, by the intervals in it; it samples ThreadCPULoad and its count of classes every
100 ms, and knows user time to 10 ms only. schedstat: /proc/PID/task/*/schedstat, read every 10 ms. Stages of the log are cut
by the client's clock; when nobody asked, they begin with `Started`, jcold's with port_listen.";

/// Runs the starts on each JDK and prints what came of them; the report as JSON.
pub fn run(starts: u32, as_json: bool) -> Result<Value> {
    let jdks = jdk::of_features(&[OLDEST, PREFERRED])?;
    if jdks.is_empty() {
        bail!(
            "no JDK {OLDEST} or {PREFERRED}: `cargo xtask setup` installs one, JCOLD_JAVA_HOME names another"
        );
    }
    if jdks.len() < 2 {
        say(
            "WARNING",
            &format!("only java {} is here: one of two that this is meant to measure", jdks[0].version),
        );
    }
    let grounds = Grounds::prepare("bench/accuracy")?;
    let mut report = serde_json::Map::new();
    for jdk in &jdks {
        let done = (0..starts)
            .map(|number| {
                let (kind, asked) = plan(number);
                say("start", &format!("{} of {starts}, java {}, {}", number + 1, jdk.version, kind.name()));
                let name = format!("{}-{}-{}", jdk.feature, number + 1, kind.name());
                start::run(&grounds, &name, kind, asked, jdk)
                    .with_context(|| format!("start {} of {starts}, java {}", number + 1, jdk.version))
            })
            .collect::<Result<Vec<_>>>()?;
        report.insert(jdk.version.clone(), of_jdk(jdk, &done, as_json));
    }
    if !as_json {
        println!("{NOTES}");
    }
    Ok(Value::Object(report))
}

/// Kinds take turns, and so does the readiness probe: six starts have every pair.
fn plan(number: u32) -> (Kind, bool) {
    (Kind::ALL[number as usize % Kind::ALL.len()], number.is_multiple_of(2))
}

fn of_jdk(jdk: &Jdk, starts: &[Start], as_json: bool) -> Value {
    for start in starts.iter().filter(|start| !start.timeline.complete()) {
        say("WARNING", &format!("{}: {}", start.title(), start.timeline.summary()));
    }
    for (number, start) in (1..).zip(starts) {
        for span in spans::of(start).iter().filter(|span| span.work["compilesSource"] == "hsperfdata") {
            say(
                "WARNING",
                &format!("start {number}, {}: {} was sampled, not probed", start.title(), span.name),
            );
        }
    }
    let comparisons: Vec<Vec<Comparison>> = starts.iter().map(compare::all).collect();
    let summaries = summary::summaries(comparisons.iter().flatten().cloned());
    let mut tables: Vec<Table> = stages::tables(starts);
    tables.extend([stages::distortion(starts), stages::edges(starts)]);
    let packages = [true, false].map(|asked| stages::packages(starts, asked));
    if !as_json {
        println!("=== java {}, {} starts, same process", jdk.version, starts.len());
        println!("{}", summary::heading());
        for summary in summaries.iter().filter(|summary| !summary.is_zero()) {
            println!("{summary}");
        }
        let zeros = summaries.iter().filter(|summary| summary.is_zero()).count();
        println!("and {zeros} lines of zeros; all: {}\n", summary::outcome(&summaries));
        tables.retain(|table| !table.is_empty());
        show(&format!("java {}, GET {} × 200, medians", jdk.version, start::PATH), &tables);
        show_packages(&packages);
    }
    let of_start = |(start, comparisons): (&Start, &Vec<Comparison>)| {
        let mut json = start.to_json();
        json["comparisons"] = comparisons.iter().map(Comparison::to_json).collect();
        json
    };
    let package = |package: &stages::Package| {
        let [plain, with_log, log] = package.classes;
        json!({"name": package.name, "jcold_plain": plain, "jcold_with_log": with_log, "log": log})
    };
    let [asked, unasked] = packages.map(|list| list.iter().map(package).collect::<Value>());
    json!({
        "summaries": summaries.iter().map(Summary::to_json).collect::<Value>(),
        "tables": to_json(&tables),
        "packages_of_first_request": {"asked": asked, "unasked": unasked},
        "starts": starts.iter().zip(&comparisons).map(of_start).collect::<Value>(),
    })
}

fn show_packages([asked, unasked]: &[Vec<stages::Package>; 2]) {
    for (packages, words) in [(asked, "readiness asked"), (unasked, "nobody asked")] {
        let title = format!("classes in the first request, {words}");
        println!("{title:<56}{:>12}{:>12}{:>12}", "jcold, plain", "with log", "log");
        for package in packages {
            let [plain, with_log, log] = package.classes;
            println!("  {:<54}{plain:>12}{with_log:>12}{log:>12}", package.name);
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_starts_have_every_kind_with_and_without_the_probe() {
        let plans: Vec<_> = (0..6).map(plan).collect();
        for kind in Kind::ALL {
            assert!(plans.contains(&(kind, true)) && plans.contains(&(kind, false)), "{plans:?}");
        }
    }
}
