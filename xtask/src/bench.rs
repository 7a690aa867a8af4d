//! `cargo xtask bench`: what jcold measures beside what measures the same thing elsewhere. A benchmark prints; it fails
//! only when a run does.

mod accuracy;
mod cost;
mod launch;
mod ledger;
mod ratio;
mod requests;
mod sampler;
mod servers;
mod table;

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::step::say;
use crate::{jdk, repo};
use table::Table;

/// Watches `runs` cold starts of the Spring testbed and prints each one's numbers, then their medians. The same as JSON
/// goes to `target/bench/requests.json`, and with `as_json` to stdout in place of the tables.
pub fn requests(runs: u32, as_json: bool) -> Result<()> {
    let jdk = jdk::choose()?;
    let mut done: Vec<Vec<Table>> = Vec::new();
    for number in 1..=runs {
        say("run", &format!("{number} of {runs}"));
        let tables = requests::run(&format!("bench/requests-{number}"), &jdk)
            .with_context(|| format!("run {number} of {runs}"))?;
        if !as_json {
            show(&format!("run {number} of {runs}, java {}", jdk.version), &tables);
        }
        done.push(tables);
    }
    let medians = table::medians(&done);
    let report = json!({
        "java": jdk.version,
        "runs": done.iter().map(|tables| to_json(tables)).collect::<Vec<_>>(),
        "medians": to_json(&medians),
    });
    finish("requests", &report, as_json)?;
    if !as_json {
        show(&format!("medians of {runs} runs, java {}", jdk.version), &medians);
        println!("{}", requests::NOTES);
    }
    Ok(())
}

/// Starts the Spring testbed `starts` times on each JDK, with and without what tells the same of it from inside, and prints
/// both. As JSON it goes to `target/bench/accuracy.json`.
pub fn accuracy(starts: u32, as_json: bool) -> Result<()> {
    finish("accuracy", &accuracy::run(starts, as_json)?, as_json)
}

/// Starts the Spring testbed `starts` times each with the agent, with an agent that leaves the JVM alone, and without any.
/// As JSON it goes to `target/bench/cost.json`.
pub fn cost(starts: u32, as_json: bool) -> Result<()> {
    finish("cost", &cost::run(starts, as_json)?, as_json)
}

/// Starts the Spring testbed `starts` times in each of its configurations and prints where its first requests spent
/// their time: medians, then the longest. As JSON it goes to `target/bench/ledger.json`.
pub fn ledger(starts: u32, as_json: bool) -> Result<()> {
    let jdk = jdk::choose()?;
    let mut done: Vec<Vec<Table>> = Vec::new();
    for number in 1..=starts {
        say("run", &format!("{number} of {starts}"));
        done.push(
            ledger::run(&format!("bench/ledger-{number}"), &jdk)
                .with_context(|| format!("run {number} of {starts}"))?,
        );
    }
    let (medians, maxima) = (table::medians(&done), table::maxima(&done));
    let report = json!({
        "java": jdk.version,
        "runs": done.iter().map(|tables| to_json(tables)).collect::<Vec<_>>(),
        "medians": to_json(&medians),
        "maxima": to_json(&maxima),
    });
    finish("ledger", &report, as_json)?;
    if !as_json {
        show(&format!("medians of {starts} starts, java {}", jdk.version), &medians);
        show(&format!("maxima of {starts} starts"), &maxima);
        println!("{}", ledger::NOTES);
    }
    Ok(())
}

/// Loads each server of the testbed with and without the agent. As JSON it goes to `target/bench/servers.json`.
pub fn servers(requests: usize, as_json: bool) -> Result<()> {
    let jdk = jdk::choose()?;
    let table = servers::run(requests)?;
    let report = json!({ "java": jdk.version, "servers": table.to_json() });
    finish("servers", &report, as_json)?;
    if !as_json {
        show(&format!("java {}", jdk.version), &[table]);
        println!("{}", servers::NOTES);
    }
    Ok(())
}

/// Writes the report to `target/bench/NAME.json`, and to stdout when it is all that is wanted there.
fn finish(name: &str, report: &Value, as_json: bool) -> Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    let file = repo::target().join("bench").join(format!("{name}.json"));
    fs::write(&file, &text).with_context(|| file.display().to_string())?;
    if as_json {
        println!("{text}");
    }
    Ok(())
}

fn show(title: &str, tables: &[Table]) {
    println!("=== {title}");
    for table in tables {
        println!("{table}");
    }
}

fn to_json(tables: &[Table]) -> Value {
    Value::Object(tables.iter().map(|table| (table.key.to_owned(), table.to_json())).collect::<Map<_, _>>())
}
