//! `jcold-collector`: stores timelines and answers questions about them.
#![forbid(unsafe_code)]

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use collector::app::App;
use collector::config::Config;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Below the 30 s that Kubernetes grants between SIGTERM and SIGKILL.
const DRAIN_BOUND: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let config = Config::parse();
    let filter = EnvFilter::try_from_env("JCOLD_LOG").unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match run(&config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jcold-collector: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: &Config) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut running = App::build(config).await?.spawn().await?;
    tracing::info!(
        "jcold-collector {}: gRPC on {}, metrics on http://{}/metrics, database {}",
        env!("CARGO_PKG_VERSION"),
        running.grpc,
        running.http,
        config.database.display()
    );
    tokio::select! {
        error = running.failed() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining, for {} s at most", DRAIN_BOUND.as_secs());
    if !running.drain(DRAIN_BOUND).await? {
        anyhow::bail!(
            "not drained within {} s; agents will send again what was not acknowledged",
            DRAIN_BOUND.as_secs()
        );
    }
    tracing::info!("drained");
    Ok(())
}
