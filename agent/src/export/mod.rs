//! Streams updates to the collector, and keeps them until they are acknowledged.
//!
//! The owner of the timelines hands updates over without ever waiting; one task keeps the backlog and the connection.

mod backlog;
mod connection;
mod fetch;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use proto::address::{AddressError, reason};
use proto::v1::{AgentStats, Timeline};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tonic::transport::Endpoint;

use backlog::{Backlog, Sender};
use connection::{Connection, closed, jittered_delay, why_closed};
pub use fetch::{FetchError, fetch_timeline};

/// Default of [`Config::backlog`].
pub const BACKLOG_UPDATES: usize = 4096;
/// Encoded bytes of the backlog, whatever the number of its updates.
const BACKLOG_BYTES: usize = 8 << 20;

/// What the exporter is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the collector, `http://HOST:PORT`.
    pub collector: String,
    /// Name of the node.
    pub node: String,
    /// Identity of this run of the agent, 16 random hexadecimal digits.
    pub agent_instance: String,
    /// Updates kept while the collector is away.
    pub backlog: usize,
}

/// Takes updates. It belongs to the task that owns the timelines.
#[derive(Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    /// Updates, by timeline, that found no room on the way to the exporter's task.
    lost: HashMap<String, u64>,
}

/// The exporter's task ended before it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("the exporter's task is gone: what it had not sent is lost")]
pub struct Gone;

#[derive(Debug)]
enum Command {
    Update(Box<Timeline>),
    Stats(AgentStats),
    Lost(HashMap<String, u64>),
    Drain { until: Instant, answer: oneshot::Sender<usize> },
}

#[derive(Debug)]
struct Drain {
    until: Instant,
    answer: oneshot::Sender<usize>,
}

/// The task.
#[derive(Debug)]
struct Exporter {
    endpoint: Endpoint,
    commands: mpsc::Receiver<Command>,
    backlog: Backlog,
    drain: Option<Drain>,
    /// The handle was dropped: nobody waits for the rest.
    abandoned: bool,
}

/// Starts the exporter. It lives until it is drained or its handle is dropped, collector or not.
///
/// # Errors
///
/// When the collector's address is none.
pub fn spawn(config: Config) -> Result<(Handle, JoinHandle<()>), AddressError> {
    let endpoint = proto::address::endpoint(&config.collector)?
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5));
    let (sender, commands) = mpsc::channel(config.backlog.max(1));
    let who = Sender { node: config.node, agent_instance: config.agent_instance };
    let backlog = Backlog::new(who, config.backlog, BACKLOG_BYTES);
    let exporter = Exporter { endpoint, commands, backlog, drain: None, abandoned: false };
    let task = tokio::spawn(exporter.run());
    Ok((Handle { commands: sender, lost: HashMap::new() }, task))
}

// === impl Handle ===

impl Handle {
    /// Hands over a partial timeline. Never waits; what finds no room is counted and told to the collector.
    pub fn send(&mut self, update: Timeline) {
        self.tell_losses();
        if let Err(error) = self.commands.try_send(Command::Update(Box::new(update)))
            && let Command::Update(update) = error.into_inner()
        {
            *self.lost.entry(update.id).or_default() += 1;
        }
    }

    /// Hands over several.
    pub fn send_all(&mut self, updates: impl IntoIterator<Item = Timeline>) {
        for update in updates {
            self.send(update);
        }
    }

    /// Hands over the agent's counters; the exporter adds `updates_dropped`. Never waits; newer ones replace those
    /// that were not sent yet.
    pub fn send_stats(&mut self, stats: AgentStats) {
        self.tell_losses();
        // The next ones, within a minute, say all that these do.
        let _ = self.commands.try_send(Command::Stats(stats));
    }

    /// Waits until everything is acknowledged, at most for `bound`, and ends the exporter. Gives the number of
    /// messages that were not acknowledged.
    pub async fn drain(mut self, bound: Duration) -> Result<usize, Gone> {
        let until = Instant::now() + bound;
        let (answer, unacknowledged) = oneshot::channel();
        let lost = std::mem::take(&mut self.lost);
        self.commands.send(Command::Lost(lost)).await.map_err(|_| Gone)?;
        self.commands.send(Command::Drain { until, answer }).await.map_err(|_| Gone)?;
        unacknowledged.await.map_err(|_| Gone)
    }

    fn tell_losses(&mut self) {
        if !self.lost.is_empty()
            && let Ok(permit) = self.commands.try_reserve()
        {
            permit.send(Command::Lost(std::mem::take(&mut self.lost)));
        }
    }
}

// === impl Exporter ===

impl Exporter {
    async fn run(mut self) {
        let mut failures = 0;
        while !self.finished() {
            let connect = Connection::open(self.endpoint.clone(), jittered_delay(failures));
            match self.take_commands_until(connect).await {
                None => break,
                Some(Err(error)) => {
                    // Once, not for each of many attempts.
                    if failures == 0 {
                        let (collector, reason) = (self.endpoint.uri(), reason(&error));
                        tracing::warn!("cannot reach the collector {collector}, updates are kept: {reason}");
                    }
                    failures = failures.saturating_add(1);
                }
                Some(Ok(connection)) => {
                    tracing::info!("updates go to the collector {}", self.endpoint.uri());
                    self.backlog.rewind();
                    let (progress, error) = self.serve(connection).await;
                    // A collector that accepts and never acknowledges is as good as away.
                    failures = if progress { 1 } else { failures.saturating_add(1) };
                    if let Some(error) = error {
                        let (collector, reason) = (self.endpoint.uri(), reason(&error));
                        tracing::warn!("lost the collector {collector}, updates are kept: {reason}");
                    }
                }
            }
        }
        if let Some(drain) = self.drain {
            // Who asked may have gone meanwhile.
            let _ = drain.answer.send(self.backlog.len());
        }
    }

    /// Serves one connection until it fails or all is done: whether anything was acknowledged, and what failed.
    async fn serve(&mut self, connection: Connection) -> (bool, Option<tonic::Status>) {
        let Connection { outbound, mut inbound } = connection;
        let mut progress = false;
        while !self.finished() {
            tokio::select! {
                command = self.commands.recv() => self.take(command),
                room = outbound.reserve(), if self.backlog.has_next() => match room {
                    Ok(room) => {
                        if let Some(request) = self.backlog.next() {
                            room.send(request);
                        }
                    }
                    Err(_) => return (progress, Some(why_closed(inbound).await)),
                },
                acknowledged = inbound.message() => match acknowledged {
                    Ok(Some(response)) => progress |= self.backlog.acknowledge(response.acknowledged_sequence),
                    Ok(None) => return (progress, Some(closed())),
                    Err(status) => return (progress, Some(status)),
                },
                () = until(self.drain.as_ref()) => break,
            }
        }
        (progress, None)
    }

    /// Awaits `future` while taking commands; `None` when the exporter has to end.
    async fn take_commands_until<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        while !self.finished() {
            tokio::select! {
                command = self.commands.recv() => self.take(command),
                value = &mut future => return Some(value),
                () = until(self.drain.as_ref()) => break,
            }
        }
        None
    }

    fn take(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Update(update)) => self.backlog.push(*update),
            Some(Command::Stats(stats)) => self.backlog.set_stats(stats),
            Some(Command::Lost(lost)) => {
                for (id, updates) in lost {
                    self.backlog.lose(id, updates);
                }
            }
            Some(Command::Drain { until, answer }) => self.drain = Some(Drain { until, answer }),
            None => self.abandoned = true,
        }
    }

    fn finished(&self) -> bool {
        match &self.drain {
            Some(drain) => self.backlog.is_empty() || drain.until <= Instant::now(),
            None => self.abandoned,
        }
    }
}

async fn until(drain: Option<&Drain>) {
    match drain {
        Some(drain) => sleep_until(drain.until).await,
        None => pending().await,
    }
}
