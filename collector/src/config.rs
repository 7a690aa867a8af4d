//! What the collector is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Stores the timelines that agents send, and answers questions about them.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "jcold-collector", version)]
pub struct Config {
    /// Address of the gRPC services (ingest, query, health, reflection).
    ///
    /// There is no authentication: keep it on loopback or on a network that only agents and their users reach.
    #[arg(long, env = "JCOLD_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4600")]
    pub listen: SocketAddr,

    /// Address of the HTTP endpoint /metrics.
    #[arg(long, env = "JCOLD_METRICS_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4601")]
    pub metrics_listen: SocketAddr,

    /// The SQLite database; created when it does not exist, in a directory that does.
    #[arg(long, env = "JCOLD_DATABASE", value_name = "FILE", default_value = "jcold.db")]
    pub database: PathBuf,

    /// How long after its exec a timeline has gauges of its own in /metrics, for instance 90s, 30m, 1h, 2d.
    #[arg(long, env = "JCOLD_METRICS_WINDOW", value_name = "DURATION", default_value = "1h", value_parser = proto::duration::parse)]
    pub metrics_window: Duration,
}
