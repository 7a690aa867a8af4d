//! The read side: lists, single timelines, changes, and the rows behind the metrics.

use prost::Message as _;
use proto::fold::normalise;
use proto::v1::{AgentStats, Timeline, TimelineFilter};

use super::{Store, StoreError};
use crate::clock::timestamp_ns;

/// Which timelines. Empty text matches all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Exact node.
    pub node: String,
    /// Exact namespace.
    pub namespace: String,
    /// Exact workload.
    pub workload: String,
    /// exec at or after this wall time.
    pub since_ns: i64,
    /// exec before this wall time.
    pub until_ns: i64,
}

/// A timeline's place in a list: newest exec first, then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Wall time of exec.
    pub exec_at_ns: i64,
    /// Timeline's id.
    pub id: String,
}

/// What one timeline adds to the histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    /// Namespace of the pod, or empty.
    pub namespace: String,
    /// Workload of the pod, or empty.
    pub workload: String,
    /// exec → ready.
    pub ready_ns: Option<i64>,
    /// Latency of the first user request.
    pub first_request_ns: Option<i64>,
}

/// The latest counters of a node's agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// The node.
    pub node: String,
    /// The counters.
    pub stats: AgentStats,
}

// === impl Filter ===

impl From<TimelineFilter> for Filter {
    fn from(filter: TimelineFilter) -> Self {
        Self {
            node: filter.node,
            namespace: filter.namespace,
            workload: filter.workload,
            since_ns: filter.since.as_ref().map_or(i64::MIN, timestamp_ns),
            until_ns: filter.until.as_ref().map_or(i64::MAX, timestamp_ns),
        }
    }
}

// === impl Store ===

impl Store {
    /// At most `limit` timelines behind `after`, newest exec first, without intervals, requests and connections.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<&Place>,
        limit: u32,
    ) -> Result<Vec<(Place, Timeline)>, StoreError> {
        let (exec_at_ns, id) = after.map_or((i64::MAX, ""), |place| (place.exec_at_ns, place.id.as_str()));
        let rows: Vec<(String, i64, Vec<u8>)> = sqlx::query_as(
            "SELECT id, exec_at_ns, summary FROM timelines \
             WHERE exec_at_ns >= ?1 AND exec_at_ns < ?2 \
             AND (?3 = '' OR node = ?3) AND (?4 = '' OR namespace = ?4) AND (?5 = '' OR workload = ?5) \
             AND (exec_at_ns < ?6 OR (exec_at_ns = ?6 AND id > ?7)) \
             ORDER BY exec_at_ns DESC, id LIMIT ?8",
        )
        .bind(filter.since_ns)
        .bind(filter.until_ns)
        .bind(&filter.node)
        .bind(&filter.namespace)
        .bind(&filter.workload)
        .bind(exec_at_ns)
        .bind(id)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|(id, exec_at_ns, summary)| {
                let timeline = decode(&id, &summary)?;
                Ok((Place { exec_at_ns, id }, timeline))
            })
            .collect()
    }

    /// One timeline, whole.
    pub async fn get(&self, id: &str) -> Result<Option<Timeline>, StoreError> {
        let body = concatenated(&self.pool, id).await?;
        if body.is_empty() {
            return Ok(None);
        }
        let mut timeline = decode(id, &body)?;
        normalise(&mut timeline);
        Ok(Some(timeline))
    }

    /// At most `limit` ids that begin with `prefix`.
    pub async fn ids_with_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let ids =
            sqlx::query_scalar("SELECT id FROM timelines WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3")
                .bind(prefix)
                .bind(format!("{prefix}\u{10ffff}"))
                .bind(limit)
                .fetch_all(&self.pool)
                .await?;
        Ok(ids)
    }

    /// Number of the last change of any timeline; 0 when there is none.
    pub async fn last_change(&self) -> Result<i64, StoreError> {
        let change = sqlx::query_scalar("SELECT coalesce(max(change), 0) FROM timelines")
            .fetch_one(&self.pool)
            .await?;
        Ok(change)
    }

    /// At most `limit` timelines whose last change is in `(after, up_to]`, oldest change first: the change's number
    /// and the id.
    pub async fn changed(
        &self,
        filter: &Filter,
        after: i64,
        up_to: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let changed = sqlx::query_as(
            "SELECT change, id FROM timelines \
             WHERE change > ?1 AND change <= ?2 AND exec_at_ns >= ?3 AND exec_at_ns < ?4 \
             AND (?5 = '' OR node = ?5) AND (?6 = '' OR namespace = ?6) AND (?7 = '' OR workload = ?7) \
             ORDER BY change LIMIT ?8",
        )
        .bind(after)
        .bind(up_to)
        .bind(filter.since_ns)
        .bind(filter.until_ns)
        .bind(&filter.node)
        .bind(&filter.namespace)
        .bind(&filter.workload)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        Ok(changed)
    }

    /// The durations of all timelines that have one.
    pub async fn durations(&self) -> Result<Vec<Durations>, StoreError> {
        let rows: Vec<(String, String, Option<i64>, Option<i64>)> = sqlx::query_as(
            "SELECT namespace, workload, ready_ns, first_request_ns FROM timelines \
             WHERE ready_ns IS NOT NULL OR first_request_ns IS NOT NULL",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(namespace, workload, ready_ns, first_request_ns)| Durations {
                namespace,
                workload,
                ready_ns,
                first_request_ns,
            })
            .collect())
    }

    /// The latest agent of each node that reported at or after a wall time.
    pub async fn agents(&self, since_ns: i64) -> Result<Vec<Agent>, StoreError> {
        // SQLite takes the bare columns from the row that has the maximum.
        let rows: Vec<(String, String, Vec<u8>, i64)> = sqlx::query_as(
            "SELECT node, instance, stats, max(updated_at_ns) FROM agents \
             WHERE stats IS NOT NULL AND updated_at_ns >= ? GROUP BY node",
        )
        .bind(since_ns)
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|(node, instance, stats, _)| {
                let stats = AgentStats::decode(stats.as_slice())
                    .map_err(|source| StoreError::Undecodable { what: "statistics", id: instance, source })?;
                Ok(Agent { node, stats })
            })
            .collect()
    }
}

/// The chunks of a timeline, which together are its encoding; empty when there is none.
pub(super) async fn concatenated(
    executor: impl sqlx::SqliteExecutor<'_>,
    id: &str,
) -> Result<Vec<u8>, StoreError> {
    let chunks: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT body FROM chunks WHERE timeline = ? ORDER BY number")
            .bind(id)
            .fetch_all(executor)
            .await?;
    Ok(chunks.concat())
}

pub(super) fn decode(id: &str, bytes: &[u8]) -> Result<Timeline, StoreError> {
    Timeline::decode(bytes).map_err(|source| StoreError::Undecodable {
        what: "timeline",
        id: id.to_owned(),
        source,
    })
}
