//! `cargo xtask bench`: what jcold measures beside what measures the same thing elsewhere. A benchmark prints; it fails
//! only when a run does.

mod accuracy;
mod clock;
mod sampler;
mod table;

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::step::say;
use crate::{jdk, repo};
use table::Table;

/// Watches `runs` cold starts of the Spring testbed and prints each one's numbers, then their medians. The same as JSON
/// goes to `target/bench/accuracy.json`, and with `as_json` to stdout in place of the tables.
pub fn accuracy(runs: u32, as_json: bool) -> Result<()> {
    let jdk = jdk::choose()?;
    let mut done: Vec<Vec<Table>> = Vec::new();
    for number in 1..=runs {
        say("run", &format!("{number} of {runs}"));
        let tables = accuracy::run(&format!("bench/accuracy-{number}"), &jdk)
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
    let text = serde_json::to_string_pretty(&report)?;
    let file = repo::target().join("bench/accuracy.json");
    fs::write(&file, &text).with_context(|| file.display().to_string())?;
    if as_json {
        println!("{text}");
    } else {
        show(&format!("medians of {runs} runs, java {}", jdk.version), &medians);
        println!("{}", accuracy::NOTES);
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
