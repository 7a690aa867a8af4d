//! Takes the agents' streams, and owns the one task that writes.
//!
//! Many streams feed one writer over a bounded channel; it commits what has gathered in one transaction and only then
//! tells each stream how far it is. Acknowledgements are cumulative, so each stream has one cell with the latest: a
//! slow reader never holds the writer up.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use proto::v1::ingest_service_server::IngestService;
use proto::v1::{PushRequest, PushResponse, Timeline};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::metrics::Counters;
use crate::store::{Outcome, Store, StoreError, Update, Writer};

/// Updates that wait for the writer, over all streams; a full channel makes the streams, and so the agents, wait.
const WAITING_UPDATES: usize = 1024;
/// Updates in one transaction at most, so that an acknowledgement is never far.
const BATCH_UPDATES: usize = 256;
/// The contract's ids have 16 digits; this is what an index can bear.
const ID_BYTES: usize = 64;

/// How far a stream is, or why it must end.
type Progress = watch::Sender<Result<u64, Status>>;

/// An update on its way to the writer.
#[derive(Debug)]
pub struct Job {
    update: Update,
    progress: Arc<Progress>,
}

/// The gRPC service.
#[derive(Clone, Debug)]
pub struct Ingest {
    jobs: mpsc::Sender<Job>,
    counters: Counters,
    stop: CancellationToken,
}

/// The task that writes.
#[derive(Debug)]
pub struct WriterTask {
    writer: Writer,
    jobs: mpsc::Receiver<Job>,
    changes: watch::Sender<u64>,
    counters: Counters,
}

/// Makes the service and its writer; `changes` counts the transactions that changed a timeline.
pub fn new(
    writer: Writer,
    counters: &Counters,
    changes: watch::Sender<u64>,
    stop: CancellationToken,
) -> (Ingest, WriterTask) {
    let (sender, jobs) = mpsc::channel(WAITING_UPDATES);
    let task = WriterTask { writer, jobs, changes, counters: counters.clone() };
    (Ingest { jobs: sender, counters: counters.clone(), stop }, task)
}

// === impl WriterTask ===

impl WriterTask {
    /// Writes until every stream and the service are gone, then closes the database: the writer last of all
    /// connections, because only the last one merges the write-ahead log, and readers cannot.
    pub async fn run(mut self, readers: Store) -> Result<(), StoreError> {
        let mut batch = Vec::with_capacity(BATCH_UPDATES);
        while self.jobs.recv_many(&mut batch, BATCH_UPDATES).await > 0 {
            self.commit(&mut batch).await;
        }
        readers.close().await;
        self.writer.close().await
    }

    async fn commit(&mut self, batch: &mut Vec<Job>) {
        let (updates, streams): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|job| (job.update, job.progress)).unzip();
        match self.writer.store(&updates).await {
            Ok(outcomes) => {
                for ((update, progress), outcome) in updates.iter().zip(&streams).zip(&outcomes) {
                    self.counters.count(*outcome);
                    advance(progress, update.sequence);
                }
                let stored = |(update, outcome): (&Update, &Outcome)| {
                    update.timeline.is_some() && *outcome == Outcome::Stored
                };
                if updates.iter().zip(&outcomes).any(stored) {
                    self.changes.send_modify(|change| *change += 1);
                }
            }
            Err(error) => {
                tracing::error!(%error, updates = updates.len(), "updates are not stored; their agents will resend them");
                let status = Status::unavailable(format!("the update is not stored: {error}"));
                for progress in streams {
                    // A stream that is gone needs no answer.
                    drop(progress.send_replace(Err(status.clone())));
                }
            }
        }
    }
}

fn advance(progress: &Progress, sequence: u64) {
    progress.send_if_modified(|state| match state {
        Ok(acknowledged) if *acknowledged < sequence => {
            *acknowledged = sequence;
            true
        }
        _ => false,
    });
}

// === impl Ingest ===

#[tonic::async_trait]
impl IngestService for Ingest {
    type PushStream = Pin<Box<dyn Stream<Item = Result<PushResponse, Status>> + Send>>;

    async fn push(
        &self,
        request: Request<Streaming<PushRequest>>,
    ) -> Result<Response<Self::PushStream>, Status> {
        Ok(Response::new(Box::pin(self.clone().acknowledgements(request.into_inner()))))
    }
}

impl Ingest {
    fn acknowledgements(
        self,
        mut inbound: Streaming<PushRequest>,
    ) -> impl Stream<Item = Result<PushResponse, Status>> {
        async_stream::stream! {
            let (progress, mut acknowledged) = watch::channel(Ok(0));
            // Gone once nothing more is read: then the cell closes with the last update's commit, and the stream ends.
            let mut progress = Some(Arc::new(progress));
            let mut instance = None;
            let mut end = Ok(());
            loop {
                tokio::select! {
                    changed = acknowledged.changed() => {
                        if changed.is_err() {
                            break;
                        }
                        let state = acknowledged.borrow_and_update().clone();
                        match state {
                            Ok(acknowledged_sequence) => yield Ok(PushResponse { acknowledged_sequence }),
                            Err(status) => {
                                end = Err(status);
                                break;
                            }
                        }
                    }
                    message = inbound.message(), if progress.is_some() => {
                        let read = self.read(message, &mut instance);
                        match (read, progress.take()) {
                            (Ok(Some(update)), Some(current)) => {
                                let job = Job { update, progress: Arc::clone(&current) };
                                if self.jobs.send(job).await.is_ok() {
                                    progress = Some(current);
                                }
                            }
                            (Err(status), _) => end = Err(status),
                            _ => {}
                        }
                    }
                    () = self.stop.cancelled(), if progress.is_some() => progress = None,
                }
            }
            if let Err(status) = end {
                yield Err(status);
            }
        }
    }

    /// The update of a message; `None` at the end of the stream.
    fn read(
        &self,
        message: Result<Option<PushRequest>, Status>,
        instance: &mut Option<String>,
    ) -> Result<Option<Update>, Status> {
        let Some(request) = message? else { return Ok(None) };
        let update = update(request)
            .and_then(|update| match instance {
                Some(first) if *first != update.instance => Err(format!(
                    "agent_instance changed from {first:?} to {:?} in one stream: open one stream per agent",
                    update.instance
                )),
                _ => Ok(update),
            })
            .map_err(|reason| {
                self.counters.count_rejected();
                tracing::warn!(reason, "an update is rejected");
                Status::invalid_argument(reason)
            })?;
        instance.get_or_insert_with(|| update.instance.clone());
        Ok(Some(update))
    }
}

/// Checks a message; the error says what is wrong with it.
fn update(request: PushRequest) -> Result<Update, String> {
    let PushRequest { node, agent_instance: instance, sequence, update, stats } = request;
    let sender = || format!("node {node:?}, agent_instance {instance:?}, sequence {sequence}");
    if node.is_empty() {
        return Err(format!("node is empty ({})", sender()));
    }
    if instance.is_empty() || instance.len() > ID_BYTES {
        return Err(format!("agent_instance must have 1 to {ID_BYTES} bytes ({})", sender()));
    }
    if sequence == 0 || sequence > i64::MAX.cast_unsigned() {
        return Err(format!("sequence must be 1 or more, and below 2^63 ({})", sender()));
    }
    let timeline = match update {
        Some(timeline) if valid_id(&timeline.id) => Some(timeline),
        Some(timeline) if timeline.id.is_empty() && (stats.is_some() || timeline == Timeline::default()) => {
            None
        }
        Some(timeline) => {
            return Err(format!(
                "update.id {:?} must have 1 to {ID_BYTES} letters and digits ({})",
                timeline.id,
                sender()
            ));
        }
        None => None,
    };
    Ok(Update { node, instance, sequence, timeline, stats })
}

fn valid_id(id: &str) -> bool {
    (1..=ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
