//! What being watched costs a start of the Spring testbed: with probes in its JVM, without them, and with no agent at all,
//! in turns.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::launch::Grounds;
use super::ratio::Ratio;
use crate::jdk::{self, Jdk};
use crate::report::{ms, p50};
use crate::service::Options;
use crate::step::{ask, say};
use crate::timeline::{Timeline, list};
use crate::{clock, interrupt, repo};

const NOTES: &str = "\
One start of each kind a round, in turns of order; ratios are of the same round. Wall: from a line printed right before exec to
Spring's `Started`, by the clock of who reads them. CPU: the service's own process until then, the probes that run in it
included; the agent's is its own process's, from its start. Interval: 95 % of 10,000 bootstrap medians.";
/// The switch of `trace` that leaves the JVM without probes.
const WITHOUT: &str = "--no-usdt";
/// Who goes first, second and third.
const ORDERS: [[Watched; 3]; 6] = {
    use Watched::{Alone, Plain, Usdt};
    [
        [Usdt, Plain, Alone],
        [Plain, Alone, Usdt],
        [Alone, Usdt, Plain],
        [Usdt, Alone, Plain],
        [Alone, Plain, Usdt],
        [Plain, Usdt, Alone],
    ]
};

/// How a start is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    /// By the agent, with probes in the JVM.
    Usdt,
    /// By the agent, without them.
    Plain,
    /// By nobody.
    Alone,
}

/// What a start took, nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Taken {
    wall_ns: u64,
    cpu_ns: u64,
    agent_cpu_ns: Option<u64>,
}

/// The starts of one round.
type Round = Vec<(Watched, Taken)>;

impl Watched {
    fn name(self) -> &'static str {
        match self {
            Self::Usdt => "agent, USDT",
            Self::Plain => "agent, no USDT",
            Self::Alone => "no agent",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Usdt => "usdt",
            Self::Plain => "no_usdt",
            Self::Alone => "alone",
        }
    }
}

/// Runs `starts` rounds and prints what came of them; the report as JSON.
pub fn run(starts: u32, as_json: bool) -> Result<Value> {
    let jdk = jdk::choose()?;
    let help = ask(std::process::Command::new(repo::binary("jcold-agent")?).args(["trace", "--help"]));
    let has_switch = help.is_some_and(|help| help.contains(WITHOUT));
    if !has_switch {
        say(
            "WARNING",
            &format!("jcold-agent trace has no {WITHOUT}: only with an agent and without one is measured"),
        );
    }
    let grounds = Grounds::prepare("bench/cost")?;
    // The first start reads from the disk what later ones find in memory.
    one(&grounds, "0", Watched::Alone, &jdk).context("the start that is not measured")?;
    let rounds = (0..starts)
        .map(|number| {
            say("round", &format!("{} of {starts}", number + 1));
            let order = ORDERS[number as usize % ORDERS.len()];
            let measured = order.into_iter().filter(|&watched| has_switch || watched != Watched::Plain);
            measured
                .map(|watched| Ok((watched, one(&grounds, &(number + 1).to_string(), watched, &jdk)?)))
                .collect::<Result<Round>>()
                .with_context(|| format!("round {} of {starts}", number + 1))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(report(&jdk, &rounds, as_json))
}

fn one(grounds: &Grounds, round: &str, watched: Watched, jdk: &Jdk) -> Result<Taken> {
    let dir = grounds.folder(&format!("{round}-{}", watched.key()))?;
    let options = Options { jdk: jdk.clone(), jvm: Vec::new(), properties: Vec::new() };
    let trace: Option<&[&str]> = match watched {
        Watched::Usdt => Some(&[]),
        Watched::Plain => Some(&[WITHOUT]),
        Watched::Alone => None,
    };
    let mut launched = grounds.launch(&options, trace, &dir)?;
    let started_ns = launched.await_started()?;
    let cpu_ns = clock::cpu_ns(launched.pid()).context("the service has ended")?;
    let agent_cpu_ns = launched.agent_pid().and_then(clock::cpu_ns);
    interrupt::check()?;
    let wall_ns = started_ns.saturating_sub(launched.exec_boot_ns());
    if let Some(timeline) = launched.finish()? {
        check(&timeline, watched);
    }
    Ok(Taken { wall_ns, cpu_ns, agent_cpu_ns })
}

/// A start that was not watched as it should be measures something else.
fn check(timeline: &Timeline, watched: Watched) {
    let sources: Vec<&str> =
        list(&timeline.value["phases"]).filter_map(|phase| phase["jvm"]["compilesSource"].as_str()).collect();
    let by_usdt = sources.contains(&"usdt");
    if by_usdt != (watched == Watched::Usdt) {
        say("WARNING", &format!("{}: compiles come from {}", watched.name(), sources.join(", ")));
    }
    if !timeline.complete() {
        say("WARNING", &format!("{}: {}", watched.name(), timeline.summary()));
    }
}

fn report(jdk: &Jdk, rounds: &[Round], as_json: bool) -> Value {
    use Watched::{Alone, Plain, Usdt};
    let taken = |round: &Round, watched: Watched| {
        round.iter().find(|(of, _)| *of == watched).map(|&(_, taken)| taken)
    };
    let median = |watched: Watched, of: &dyn Fn(Taken) -> Option<u64>| {
        let values: Vec<u64> = rounds.iter().filter_map(|round| of(taken(round, watched)?)).collect();
        p50(&values, 1, values.len())
    };
    let ratio = |one: Watched, other: Watched, of: &dyn Fn(Taken) -> u64| {
        let pairs: Vec<(u64, u64)> = rounds
            .iter()
            .filter_map(|round| Some((of(taken(round, one)?), of(taken(round, other)?))))
            .collect();
        Ratio::of(&pairs)
    };
    if !as_json {
        println!("=== java {}, {} rounds, medians", jdk.version, rounds.len());
        println!("{:<28}{:>12}{:>12}{:>12}", "exec → Started", "wall", "CPU", "agent's CPU");
    }
    let mut medians = serde_json::Map::new();
    for watched in [Usdt, Plain, Alone] {
        let wall_ns = median(watched, &|taken| Some(taken.wall_ns));
        let cpu_ns = median(watched, &|taken| Some(taken.cpu_ns));
        let agent_cpu_ns = median(watched, &|taken| taken.agent_cpu_ns);
        medians.insert(
            watched.key().into(),
            json!({"wall_ns": wall_ns, "cpu_ns": cpu_ns, "agent_cpu_ns": agent_cpu_ns}),
        );
        if !as_json {
            let cell = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), ms);
            println!(
                "{:<28}{:>12}{:>12}{:>12}",
                watched.name(),
                cell(wall_ns),
                cell(cpu_ns),
                cell(agent_cpu_ns)
            );
        }
    }
    let mut ratios = serde_json::Map::new();
    for (key, name, one, other) in [
        ("usdt", "USDT", Usdt, Plain),
        ("agent_without_usdt", "agent without USDT", Plain, Alone),
        ("agent", "agent with USDT", Usdt, Alone),
    ] {
        let (wall, cpu) =
            (ratio(one, other, &|taken| taken.wall_ns), ratio(one, other, &|taken| taken.cpu_ns));
        ratios.insert(key.into(), json!({"wall": wall.map(Ratio::to_json), "cpu": cpu.map(Ratio::to_json)}));
        if let (false, Some(wall), Some(cpu)) = (as_json, wall, cpu) {
            println!("{:<28}wall {wall}    CPU {cpu}", format!("cost of {name}"));
        }
    }
    if !as_json {
        println!("{NOTES}");
    }
    let of_round = |round: &Round| -> Value {
        let of_start = |(watched, taken): &(Watched, Taken)| {
            let cells =
                json!({"wall_ns": taken.wall_ns, "cpu_ns": taken.cpu_ns, "agent_cpu_ns": taken.agent_cpu_ns});
            (watched.key().to_owned(), cells)
        };
        Value::Object(round.iter().map(of_start).collect())
    };
    json!({
        "java": jdk.version, "medians": medians, "ratios": ratios,
        "rounds": rounds.iter().map(of_round).collect::<Value>(),
    })
}
