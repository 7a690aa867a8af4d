//! `jcold-agent run`: watches the node and streams timelines to the collector.

use std::{collections::HashMap, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context as _;
use futures_util::future::join_all;
use proto::v1::{AgentStats, Timeline};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{
    config,
    export::{self, Handle},
    identity::{Node, Proc},
    metrics,
    probes::{
        Probes,
        ring::{self, Ring},
    },
    tracker::{self, Finished, Late, Tracker},
};

/// How often the ring buffer is drained while a JVM is cold.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// How often the counters of a cold JVM are looked at.
const SAMPLE: Duration = Duration::from_millis(10);
/// Ticks between two updates to the collector.
const TICKS_PER_UPDATE: u32 = 10;
/// How often the agent tells its own numbers.
const STATS: Duration = Duration::from_secs(10);
/// How long the collector may take to say what it knows of the JVMs that run already.
const RESUME_BOUND: Duration = Duration::from_secs(2);
/// How long the last updates may take to be acknowledged at the end.
const DRAIN_BOUND: Duration = Duration::from_secs(5);

/// What `run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The collector, `http://HOST:PORT`.
    pub collector: String,
    /// Name of the node; the kernel's host name when `None`.
    pub node: Option<String>,
    /// Where `/metrics` is served; nowhere when `None`.
    pub metrics: Option<SocketAddr>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Probe the JVMs' own code.
    pub usdt: bool,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When something is missing at the start, or the hot tier cannot be attached.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let settings = config::settings(options.config.as_deref())?;
    let proc = Proc::new("/proc");
    let node = Node::read(proc.root(), options.node).context("reading the node's identity")?;
    let (probes, maps, ring) = Probes::load(options.usdt)?;
    let config = tracker::Config { node: node.clone(), proc, settings, below: None, record: None };
    let mut tracker = Tracker::new(config, probes, maps);
    let (mut exporter, task) = export::spawn(export::Config {
        collector: options.collector.clone(),
        node: node.name,
        agent_instance: instance()?,
        backlog: export::BACKLOG_UPDATES,
    })?;
    let (status, watched) = watch::channel(tracker.status());
    if let Some(address) = options.metrics {
        let serve = metrics::listen(address, watched).await;
        tokio::spawn(serve.with_context(|| format!("serving metrics on {address}"))?);
    }

    let running = tracker.find_running()?;
    tracing::info!(running = running.len(), "sentinel armed");
    let known = known(&options.collector, &running).await;
    tracker.adopt(&known);

    let ring = ring::watch(ring).context("waiting on the ring buffer")?;
    watch_node(&mut tracker, ring, &mut exporter, &status).await?;

    for Finished { update, .. } in tracker.finish_all() {
        exporter.send_all(update);
    }
    exporter.send_stats(stats(&tracker.status()));
    drop(status);
    let left = exporter.drain(DRAIN_BOUND).await?;
    if left > 0 {
        tracing::warn!(left, "updates were not acknowledged before the end");
    }
    task.await.context("the exporter")?;
    Ok(())
}

/// When the counters of cold JVMs are looked at: often enough to tell a first request's share of them.
pub(crate) fn sampling() -> Interval {
    let mut sample = interval(SAMPLE);
    sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sample
}

async fn watch_node(
    tracker: &mut Tracker,
    mut ring: Ring,
    exporter: &mut Handle,
    status: &watch::Sender<tracker::Status>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut ticks = 0u32;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tell = interval(STATS);
    let mut sample = sampling();
    loop {
        tokio::select! {
            ready = ring.readable_mut() => {
                let mut ready = ready?;
                tracker.drain(ready.get_inner_mut())?;
                ready.clear_ready();
            }
            _ = tick.tick(), if tracker.is_busy() => {
                ticks = ticks.wrapping_add(1);
                let update = ticks.is_multiple_of(TICKS_PER_UPDATE);
                if update {
                    tracker.count();
                    tracker.tell_idle();
                }
                tracker.drain(ring.get_mut())?;
                for Finished { update, .. } in tracker.tick() {
                    exporter.send_all(update);
                }
                if update {
                    exporter.send_all(tracker.updates());
                    status.send_replace(tracker.status());
                }
            }
            _ = sample.tick(), if tracker.is_cold() => tracker.sample(),
            _ = tell.tick() => {
                tracker.count_usage();
                let now = tracker.status();
                exporter.send_stats(stats(&now));
                status.send_replace(now);
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// What the collector knows of the JVMs that run already, from an earlier run of the agent.
async fn known(collector: &str, running: &[Late]) -> HashMap<String, Timeline> {
    let fetches = running.iter().map(|late| async {
        match export::fetch_timeline(collector, &late.id, RESUME_BOUND).await {
            Ok(known) => known.map(|known| (late.id.clone(), known)),
            Err(error) => {
                tracing::warn!(pid = late.pid, %error, "followed as if from now");
                None
            }
        }
    });
    join_all(fetches).await.into_iter().flatten().collect()
}

fn stats(status: &tracker::Status) -> AgentStats {
    AgentStats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tier: if status.hot { "hot" } else { "sentinel" }.to_owned(),
        jvms_followed: status.jvms,
        events_produced: status.counters.get(agent_ebpf::Counter::Produced),
        events_delivered: status.delivered,
        events_dropped: status.counters.dropped(),
        updates_dropped: 0,
        hot_ns: status.hot_ns,
    }
}

/// A random identity for this run of the agent.
fn instance() -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("/dev/urandom")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
