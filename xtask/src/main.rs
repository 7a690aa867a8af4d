//! `cargo xtask`: what one does in this repository.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::demo::{self, Show};
use xtask::server::Server;
use xtask::setup::{self, Purpose};
use xtask::{bench, build, http, interrupt, jdk, repo, step};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "What one does in this repository", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Look at this machine and install what is missing
    Setup,
    /// Build the three binaries (released, with the BPF object) and the testbed
    Build,
    /// Watch one real cold start, from exec to the 200th request
    Demo {
        /// Print nothing on stdout but the timeline's JSON
        #[arg(long)]
        json: bool,
        /// Keep everything running until Ctrl-C, to look around with `jcold`
        #[arg(long)]
        keep: bool,
    },
    /// Run one of the testbed's servers under `jcold-agent trace` until Ctrl-C
    Testbed {
        /// Which
        #[arg(value_enum)]
        server: Server,
        /// Options of `jcold-agent trace`
        #[arg(last = true)]
        options: Vec<String>,
    },
    /// Measure, beside what measures the same elsewhere
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Run all tests of the workspace; they need root and a kernel with BTF
    Test {
        /// Arguments for `cargo test`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// What the JVM did, by jcold, by Flight Recorder and by HotSpot's log: classes, compiles, collections, safepoints
    Accuracy {
        /// How many starts on each JDK: plain, with Flight Recorder, with the log, in turns
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        starts: u32,
        /// Print nothing on stdout but JSON; it is in target/bench/accuracy.json in any case
        #[arg(long)]
        json: bool,
    },
    /// What being watched costs a start of the testbed: with probes in its JVM, without them, without an agent
    Cost {
        /// How many starts of each
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
        starts: u32,
        /// Print nothing on stdout but JSON; it is in target/bench/cost.json in any case
        #[arg(long)]
        json: bool,
    },
    /// Cold starts of the testbed: requests and CPU by jcold and by others, and the agent's memory and events
    Requests {
        /// How many cold starts
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Print nothing on stdout but JSON; it is in target/bench/requests.json in any case
        #[arg(long)]
        json: bool,
    },
    /// First requests of the Spring testbed, by what its configuration leaves for them: where their time went
    Ledger {
        /// How many starts in each configuration
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        starts: u32,
        /// Print nothing on stdout but JSON; it is in target/bench/ledger.json in any case
        #[arg(long)]
        json: bool,
    },
    /// The testbed's servers at their highest rate: requests counted and sent, and what counting costs
    Servers {
        /// How many requests each
        #[arg(long, default_value_t = 20_000)]
        requests: usize,
        /// Print nothing on stdout but JSON; it is in target/bench/servers.json in any case
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match interrupt::install().and_then(|()| run(arguments.task)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whatever else went wrong then is a consequence.
        Err(_) if interrupt::check().is_err() => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup::run(Purpose::Test),
        Task::Build => {
            setup::run(Purpose::Build)?;
            build::run()
        }
        Task::Demo { json, keep } => {
            setup::run(Purpose::Demo)?;
            build::run()?;
            demo::run(Show { json, keep })
        }
        Task::Testbed { server, options } => {
            setup::run(Purpose::Demo)?;
            build::run()?;
            testbed(server, &options)
        }
        Task::Bench { what } => {
            setup::run(Purpose::Demo)?;
            build::run()?;
            match what {
                Bench::Accuracy { starts, json } => bench::accuracy(starts, json),
                Bench::Cost { starts, json } => bench::cost(starts, json),
                Bench::Requests { runs, json } => bench::requests(runs, json),
                Bench::Ledger { starts, json } => bench::ledger(starts, json),
                Bench::Servers { requests, json } => bench::servers(requests, json),
            }
        }
        Task::Test { arguments } => {
            setup::run(Purpose::Test)?;
            build::run()?;
            test(&arguments)
        }
    }
}

/// cargo's own summary is the last thing that is printed; no crate has documentation tests.
fn test(arguments: &[String]) -> Result<()> {
    let mut cargo = build::cargo();
    cargo.args(["test", "--workspace", "--lib", "--bins", "--tests"]).args(arguments);
    cargo.env("JCOLD_BIN_DIR", repo::target().join("release"));
    cargo.env("JCOLD_TESTBED_JAR", repo::spring_jar()?);
    cargo.env("JCOLD_JAVA_HOME", jdk::choose()?.home);
    // A failed test shows where it failed; an error of ours says what failed, and needs no stack below it.
    cargo.env("RUST_LIB_BACKTRACE", "0");
    run_inherited(&mut cargo)
}

/// In this terminal's process group: Ctrl-C reaches the service, and the agent reports when that has ended.
fn testbed(server: Server, options: &[String]) -> Result<()> {
    let port = http::free_service_port()?;
    let mut agent = Command::new(repo::binary("jcold-agent")?);
    agent.arg("trace").args(options).arg("--").args(server.command(port, &repo::target().join("testbed"))?);
    step::say("up", &format!("{} soon; Ctrl-C ends it and prints its timeline", server.url(port)));
    run_inherited(&mut agent)
}

fn run_inherited(command: &mut Command) -> Result<()> {
    step::say("run", &xtask::process::line(command));
    let status = command.status()?;
    if !status.success() {
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}
