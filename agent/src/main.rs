//! `jcold-agent`: command line.

use std::{
    io::{IsTerminal as _, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use agent::{preflight, run, trace};
use clap::{Args, Parser, Subcommand, ValueEnum};
use proto::json::Json as _;
use timeline::render;
use tracing_subscriber::EnvFilter;

/// Watches JVMs from exec to steady state, with no flag, agent or attach in the JVM.
#[derive(Debug, Parser)]
#[command(name = "jcold-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch this node and stream its timelines to a collector.
    Run(RunArgs),
    /// Run a command and print the timeline of the JVM it starts.
    Trace(TraceArgs),
    /// Check what this node offers and what is missing.
    Doctor,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The collector.
    #[arg(long, value_name = "URL", env = "JCOLD_COLLECTOR", default_value = "http://127.0.0.1:4600")]
    collector: String,
    /// Name of this node [default: the kernel's host name].
    #[arg(long, value_name = "NAME", env = "JCOLD_NODE")]
    node: Option<String>,
    #[command(flatten)]
    probes: ProbeArgs,
    /// Where /metrics is served; `off` for nowhere.
    #[arg(long, value_name = "ADDR", env = "JCOLD_METRICS_LISTEN", default_value = "127.0.0.1:4602", value_parser = metrics_address)]
    metrics_listen: MetricsAddress,
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE", env = "JCOLD_AGENT_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct TraceArgs {
    /// Format of the report. `table` is printed to standard error when the command ends, as time(1) does; `json` to
    /// standard output, and the command's own standard output then goes to standard error.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// End the command and report after N user requests, or once the JVM is steady.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// End the command and report after this time: 500ms, 30s, 5m, 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = proto::duration::parse)]
    duration: Option<Duration>,
    #[command(flatten)]
    probes: ProbeArgs,
    /// Write the decoded events to this file, which holds no payload.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE", env = "JCOLD_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct ProbeArgs {
    /// Attach no probes to HotSpot's own code: what JVMs load, compile and collect is then sampled from their counters.
    #[arg(long, env = "JCOLD_NO_USDT")]
    no_usdt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug)]
struct MetricsAddress(Option<SocketAddr>);

fn metrics_address(text: &str) -> Result<MetricsAddress, String> {
    match text {
        "off" => Ok(MetricsAddress(None)),
        address => address
            .parse()
            .map(|a| MetricsAddress(Some(a)))
            .map_err(|e| format!("{e}: give ADDR:PORT or off")),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // `trace` shares the terminal with the command that it runs.
    let level = if matches!(cli.command, Command::Run(_)) { "info" } else { "error" };
    let filter = EnvFilter::try_from_env("JCOLD_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match execute(cli.command) {
        Ok(code) => code,
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _ = print(std::io::stderr(), &format!("jcold-agent: {error:#}"));
            error.downcast_ref::<trace::CannotStart>().map_or(ExitCode::FAILURE, |error| error.code().into())
        }
    }
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    let checks = preflight::quick("/".as_ref());
    if let Command::Doctor = command {
        return doctor(checks);
    }
    if let Some(missing) = preflight::first_missing(&checks) {
        anyhow::bail!("{missing} (`jcold-agent doctor` checks everything)");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        Command::Run(args) => {
            let RunArgs { collector, node, metrics_listen: MetricsAddress(metrics), config, probes } = args;
            let usdt = !probes.no_usdt;
            runtime.block_on(run::run(run::Options { collector, node, metrics, config, usdt }))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Trace(args) => {
            let TraceArgs { output, requests, duration, record, config, command, probes } = args;
            let (stdout_to_stderr, usdt) = (output == Output::Json, !probes.no_usdt);
            let options =
                trace::Options { command, requests, duration, record, config, usdt, stdout_to_stderr };
            let outcome = runtime.block_on(trace::trace(options))?;
            report(output, &outcome.timelines)?;
            Ok(ExitCode::from(outcome.code))
        }
        Command::Doctor => unreachable!("answered above"),
    }
}

fn report(output: Output, timelines: &[proto::v1::Timeline]) -> anyhow::Result<()> {
    if timelines.is_empty() {
        print(std::io::stderr(), "jcold-agent: no JVM seen")?;
    }
    let style = render::Style::of(std::io::stderr().is_terminal(), |name| std::env::var_os(name));
    for timeline in timelines {
        match output {
            Output::Table => {
                print(std::io::stderr(), &format!("\n{}", render::describe_with(timeline, style)))?;
            }
            Output::Json => print(std::io::stdout(), &serde_json::to_string_pretty(&timeline.to_json())?)?,
        }
    }
    Ok(())
}

/// Prints a line; a reader that has seen enough, `head` for instance, is no error.
fn print(mut to: impl Write, text: &str) -> std::io::Result<()> {
    match writeln!(to, "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

fn doctor(mut checks: Vec<preflight::Check>) -> anyhow::Result<ExitCode> {
    if preflight::first_missing(&checks).is_none() {
        checks.extend(preflight::probes());
    }
    for check in &checks {
        print(std::io::stdout(), &check.to_string())?;
    }
    Ok(preflight::first_missing(&checks).map_or(ExitCode::SUCCESS, |_| ExitCode::FAILURE))
}
