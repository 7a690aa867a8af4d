//! The write side: updates are appended to stored timelines, and how far an agent is in moves with them.
//!
//! Only the summary of a timeline is folded here, for lists and metrics; the whole is folded when it is read. Its
//! chunks are merged into one now and then, so that a read has few of them and the lists that change keep one entry
//! a key on the disk too.

use std::collections::HashMap;

use prost::Message as _;
use proto::fold::{fold, normalise};
use proto::headline::Headline;
use proto::v1::{AgentStats, Completeness, Gap, Timeline};
use sqlx::{Connection as _, SqliteConnection};

use super::StoreError;
use super::read::{concatenated, decode};
use crate::clock::{now_ns, timestamp_ns};

/// Chunks of a timeline before they are merged.
const CHUNKS: i64 = 64;

/// Writes. There is one.
#[derive(Debug)]
pub struct Writer {
    connection: SqliteConnection,
}

/// One update of an agent.
#[derive(Clone, Debug)]
pub struct Update {
    /// Node of the agent.
    pub node: String,
    /// Run of the agent.
    pub instance: String,
    /// Number of the update.
    pub sequence: u64,
    /// Partial timeline.
    pub timeline: Option<Timeline>,
    /// The agent's counters.
    pub stats: Option<AgentStats>,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the database.
    Stored,
    /// It was there already.
    Duplicate,
}

/// State that a transaction reads once and writes once, however many updates touch it.
#[derive(Default)]
struct Batch {
    agents: HashMap<String, Agent>,
    timelines: HashMap<String, Entry>,
}

struct Agent {
    node: String,
    last_sequence: u64,
    stats: Option<Vec<u8>>,
    changed: bool,
}

struct Entry {
    /// The timeline so far, without what is left out of lists.
    summary: Timeline,
    /// Encoded updates of this transaction.
    appended: Vec<u8>,
    chunks: i64,
    agent: String,
    /// Its place in lists as stored. Absent for a new timeline.
    exec_at_ns: Option<i64>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self { connection }
    }

    /// Stores updates in their order, all in one transaction; either all are durable when this returns, or none is
    /// stored.
    pub async fn store(&mut self, updates: &[Update]) -> Result<Vec<Outcome>, StoreError> {
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut batch = Batch::default();
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            outcomes.push(batch.take(&mut transaction, update).await?);
        }
        batch.write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(outcomes)
    }

    /// Merges the write-ahead log into the file and closes it.
    pub async fn close(self) -> Result<(), StoreError> {
        Ok(self.connection.close().await?)
    }
}

// === impl Batch ===

impl Batch {
    async fn take(
        &mut self,
        connection: &mut SqliteConnection,
        update: &Update,
    ) -> Result<Outcome, StoreError> {
        let agent = self.agent(connection, update).await?;
        if update.sequence <= agent.last_sequence {
            return Ok(Outcome::Duplicate);
        }
        let missing = update.sequence - agent.last_sequence - 1;
        agent.last_sequence = update.sequence;
        agent.node.clone_from(&update.node);
        agent.changed = true;
        if let Some(stats) = &update.stats {
            agent.stats = Some(stats.encode_to_vec());
        }
        if let Some(timeline) = &update.timeline {
            let entry = self.entry(connection, &timeline.id).await?;
            entry.agent.clone_from(&update.instance);
            if timeline.node.is_empty() && entry.summary.node.is_empty() {
                entry.append(&Timeline { node: update.node.clone(), ..timeline.clone() });
            } else {
                entry.append(timeline);
            }
        }
        if missing > 0 {
            self.note_hole(connection, &update.instance, missing).await?;
        }
        Ok(Outcome::Stored)
    }

    /// What a missing update was about is not known: every timeline that this run of the agent still follows may
    /// have lost it.
    async fn note_hole(
        &mut self,
        connection: &mut SqliteConnection,
        instance: &str,
        missing: u64,
    ) -> Result<(), StoreError> {
        let stored: Vec<String> =
            sqlx::query_scalar("SELECT id FROM timelines WHERE agent = ? AND settled = 0")
                .bind(instance)
                .fetch_all(&mut *connection)
                .await?;
        for id in stored {
            self.entry(connection, &id).await?;
        }
        let gap = Gap {
            reason: format!("{missing} updates of the agent never reached the collector"),
            ..Gap::default()
        };
        let note = Timeline {
            completeness: Some(Completeness { gaps: vec![gap], ..Completeness::default() }),
            ..Timeline::default()
        };
        for entry in self.timelines.values_mut().filter(|entry| entry.agent == instance) {
            entry.append(&note);
        }
        tracing::warn!(agent = instance, missing, "updates are missing in an agent's stream");
        Ok(())
    }

    async fn agent(
        &mut self,
        connection: &mut SqliteConnection,
        update: &Update,
    ) -> Result<&mut Agent, StoreError> {
        if !self.agents.contains_key(&update.instance) {
            let row: Option<(String, i64, Option<Vec<u8>>)> =
                sqlx::query_as("SELECT node, last_sequence, stats FROM agents WHERE instance = ?")
                    .bind(&update.instance)
                    .fetch_optional(connection)
                    .await?;
            let (node, last_sequence, stats) = row.unwrap_or_else(|| (update.node.clone(), 0, None));
            let last_sequence = last_sequence.cast_unsigned();
            let agent = Agent { node, last_sequence, stats, changed: false };
            self.agents.insert(update.instance.clone(), agent);
        }
        Ok(self.agents.get_mut(&update.instance).expect("just inserted"))
    }

    async fn entry(&mut self, connection: &mut SqliteConnection, id: &str) -> Result<&mut Entry, StoreError> {
        if !self.timelines.contains_key(id) {
            let row: Option<(String, i64, i64, Vec<u8>)> =
                sqlx::query_as("SELECT agent, exec_at_ns, chunks, summary FROM timelines WHERE id = ?")
                    .bind(id)
                    .fetch_optional(connection)
                    .await?;
            let entry = match row {
                Some((agent, exec_at_ns, chunks, summary)) => Entry {
                    summary: decode(id, &summary)?,
                    appended: Vec::new(),
                    chunks,
                    agent,
                    exec_at_ns: Some(exec_at_ns),
                },
                None => Entry {
                    summary: Timeline::default(),
                    appended: Vec::new(),
                    chunks: 0,
                    agent: String::new(),
                    exec_at_ns: None,
                },
            };
            self.timelines.insert(id.to_owned(), entry);
        }
        Ok(self.timelines.get_mut(id).expect("just inserted"))
    }

    async fn write(self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let now_ns = now_ns();
        let mut change: i64 = sqlx::query_scalar("SELECT coalesce(max(change), 0) FROM timelines")
            .fetch_one(&mut *connection)
            .await?;
        for (id, entry) in self.timelines {
            change += 1;
            entry.write(connection, &id, change, now_ns).await?;
        }
        for (instance, agent) in self.agents.into_iter().filter(|(_, agent)| agent.changed) {
            sqlx::query(
                "INSERT INTO agents (instance, node, last_sequence, updated_at_ns, stats) VALUES (?, ?, ?, ?, ?) \
                 ON CONFLICT (instance) DO UPDATE SET node = excluded.node, \
                 last_sequence = excluded.last_sequence, updated_at_ns = excluded.updated_at_ns, \
                 stats = excluded.stats",
            )
            .bind(instance)
            .bind(agent.node)
            .bind(agent.last_sequence.cast_signed())
            .bind(now_ns)
            .bind(agent.stats)
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}

// === impl Entry ===

impl Entry {
    fn append(&mut self, update: &Timeline) {
        self.appended.extend(update.encode_to_vec());
        let listed = Timeline { intervals: vec![], requests: vec![], connections: vec![], ..update.clone() };
        fold(&mut self.summary, &listed);
    }

    async fn write(
        mut self,
        connection: &mut SqliteConnection,
        id: &str,
        change: i64,
        now_ns: i64,
    ) -> Result<(), StoreError> {
        if self.appended.is_empty() {
            return Ok(());
        }
        if self.chunks >= CHUNKS {
            self.merge_chunks(connection, id).await?;
        }
        self.chunks += 1;
        self.write_summary(connection, id, change, now_ns).await?;
        sqlx::query("INSERT INTO chunks (timeline, number, body) VALUES (?, ?, ?)")
            .bind(id)
            .bind(self.chunks)
            .bind(self.appended)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Makes all chunks, those of this transaction too, the one that is to be written.
    async fn merge_chunks(&mut self, connection: &mut SqliteConnection, id: &str) -> Result<(), StoreError> {
        let mut whole = concatenated(&mut *connection, id).await?;
        whole.append(&mut self.appended);
        let mut timeline = decode(id, &whole)?;
        normalise(&mut timeline);
        self.appended = timeline.encode_to_vec();
        self.chunks = 0;
        sqlx::query("DELETE FROM chunks WHERE timeline = ?").bind(id).execute(connection).await?;
        Ok(())
    }

    async fn write_summary(
        &self,
        connection: &mut SqliteConnection,
        id: &str,
        change: i64,
        now_ns: i64,
    ) -> Result<(), StoreError> {
        let summary = &self.summary;
        let exec_at = summary.jvm.as_ref().and_then(|jvm| jvm.exec_at.as_ref());
        let exec_at_ns = exec_at.map(timestamp_ns).or(self.exec_at_ns).unwrap_or(now_ns);
        let headline = Headline::of(summary);
        let pod = summary.pod.clone().unwrap_or_default();
        sqlx::query(
            "INSERT INTO timelines (id, change, node, namespace, workload, exec_at_ns, agent, settled, ready_ns, \
             first_request_ns, updated_at_ns, chunks, summary) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             ON CONFLICT (id) DO UPDATE SET change = excluded.change, node = excluded.node, \
             namespace = excluded.namespace, workload = excluded.workload, exec_at_ns = excluded.exec_at_ns, \
             agent = excluded.agent, settled = excluded.settled, ready_ns = excluded.ready_ns, \
             first_request_ns = excluded.first_request_ns, updated_at_ns = excluded.updated_at_ns, \
             chunks = excluded.chunks, summary = excluded.summary",
        )
        .bind(id)
        .bind(change)
        .bind(&summary.node)
        .bind(pod.namespace.unwrap_or_default())
        .bind(pod.workload.unwrap_or_default())
        .bind(exec_at_ns)
        .bind(&self.agent)
        .bind(summary.exit.is_some() || summary.steady.is_some())
        .bind(headline.ready_ns.map(u64::cast_signed))
        .bind(headline.first_request_ns.map(u64::cast_signed))
        .bind(now_ns)
        .bind(self.chunks)
        .bind(summary.encode_to_vec())
        .execute(connection)
        .await?;
        Ok(())
    }
}
