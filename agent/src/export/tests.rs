//! The exporter against a collector that misbehaves on command.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use proto::v1::ingest_service_server::{IngestService, IngestServiceServer};
use proto::v1::query_service_server::{QueryService, QueryServiceServer};
use proto::v1::{
    AgentStats, GetTimelineRequest, GetTimelineResponse, Interval, ListTimelinesRequest,
    ListTimelinesResponse, PushRequest, PushResponse, Timeline, WatchTimelinesRequest,
    WatchTimelinesResponse,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, Streaming};

use super::*;

/// What the collector does on one connection, before it breaks it.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Reads so many messages and acknowledges none.
    Swallow(usize),
    /// Reads and acknowledges so many messages.
    Acknowledge(usize),
}

/// Remembers what it was sent; behaves once the acts are over.
#[derive(Clone)]
struct Fake {
    acts: std::sync::Arc<tokio::sync::Mutex<VecDeque<Act>>>,
    received: mpsc::UnboundedSender<PushRequest>,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl IngestService for Fake {
    type PushStream = Boxed<PushResponse>;

    async fn push(
        &self,
        request: Request<Streaming<PushRequest>>,
    ) -> Result<Response<Self::PushStream>, Status> {
        let act = self.acts.lock().await.pop_front().unwrap_or(Act::Acknowledge(usize::MAX));
        let (answers, stream) = mpsc::channel(16);
        let (received, mut inbound) = (self.received.clone(), request.into_inner());
        tokio::spawn(async move {
            let (Act::Swallow(messages) | Act::Acknowledge(messages)) = act;
            for _ in 0..messages {
                let Ok(Some(message)) = inbound.message().await else { return };
                let acknowledged_sequence = message.sequence;
                let _ = received.send(message);
                if matches!(act, Act::Acknowledge(_)) {
                    let _ = answers.send(Ok(PushResponse { acknowledged_sequence })).await;
                }
            }
            let _ = answers.send(Err(Status::unavailable("broken on purpose"))).await;
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(stream))))
    }
}

#[tonic::async_trait]
impl QueryService for Fake {
    type WatchTimelinesStream = Boxed<WatchTimelinesResponse>;

    async fn list_timelines(
        &self,
        _: Request<ListTimelinesRequest>,
    ) -> Result<Response<ListTimelinesResponse>, Status> {
        Err(Status::unimplemented("not asked by agents"))
    }

    async fn get_timeline(
        &self,
        request: Request<GetTimelineRequest>,
    ) -> Result<Response<GetTimelineResponse>, Status> {
        match request.into_inner().id.as_str() {
            "t1" | "t" => Ok(Response::new(GetTimelineResponse {
                timeline: Some(Timeline { id: "t1".into(), ..Timeline::default() }),
            })),
            "slow" => pending().await,
            id => Err(Status::not_found(id)),
        }
    }

    async fn watch_timelines(
        &self,
        _: Request<WatchTimelinesRequest>,
    ) -> Result<Response<Self::WatchTimelinesStream>, Status> {
        Err(Status::unimplemented("not asked by agents"))
    }
}

struct Collector {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<PushRequest>,
    _stop: DropGuard,
}

fn collector_on(listener: TcpListener, acts: &[Act]) -> Collector {
    let (sender, received) = mpsc::unbounded_channel();
    let acts = std::sync::Arc::new(tokio::sync::Mutex::new(acts.iter().copied().collect()));
    let fake = Fake { acts, received: sender };
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tonic::transport::Server::builder()
        .add_service(IngestServiceServer::new(fake.clone()))
        .add_service(QueryServiceServer::new(fake))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
    tokio::spawn(server);
    Collector { address, received, _stop: stop.drop_guard() }
}

async fn collector(acts: &[Act]) -> Collector {
    collector_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), acts)
}

fn exporter(address: SocketAddr, backlog: usize) -> Handle {
    spawn(Config {
        collector: format!("http://{address}"),
        node: "n1".into(),
        agent_instance: "a1".into(),
        backlog,
    })
    .unwrap()
    .0
}

fn update(since_exec_ns: u64) -> Timeline {
    Timeline {
        id: "t1".into(),
        intervals: vec![Interval { since_exec_ns, ..Interval::default() }],
        ..Timeline::default()
    }
}

/// What a collector would store: each sequence number once, the first time it comes, without holes.
fn stored(mut collector: Collector) -> Vec<PushRequest> {
    let mut stored: Vec<PushRequest> = Vec::new();
    while let Ok(request) = collector.received.try_recv() {
        let last = stored.last().map_or(0, |request| request.sequence);
        assert!(request.sequence <= last + 1, "hole between {last} and {}", request.sequence);
        match usize::try_from(request.sequence - 1).ok().and_then(|at| stored.get(at)) {
            Some(first) => assert_eq!(&request, first, "a number means one message"),
            None => stored.push(request),
        }
    }
    stored
}

fn instants(requests: &[PushRequest]) -> Vec<u64> {
    requests
        .iter()
        .filter_map(|request| request.update.as_ref())
        .flat_map(|update| &update.intervals)
        .map(|interval| interval.since_exec_ns)
        .collect()
}

const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn broken_connections_and_lost_acknowledgements_lose_and_repeat_nothing() {
    let acts = [Act::Swallow(3), Act::Acknowledge(2), Act::Swallow(0), Act::Acknowledge(5), Act::Swallow(7)];
    let collector = collector(&acts).await;
    let mut handle = exporter(collector.address, 1000);
    (1..=100).for_each(|at| handle.send(update(at)));
    assert_eq!(handle.drain(LONG).await.unwrap(), 0);
    let stored = stored(collector);
    assert_eq!(instants(&stored), (1..=100).collect::<Vec<_>>());
    assert!(stored.iter().all(|request| request.node == "n1" && request.agent_instance == "a1"));
}

#[tokio::test]
async fn a_collector_that_comes_late_gets_everything() {
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let mut handle = exporter(address, 1000);
    (1..=10).for_each(|at| handle.send(update(at)));
    let drained = tokio::spawn(handle.drain(LONG));
    let collector = collector_on(TcpListener::bind(address).await.unwrap(), &[]);
    assert_eq!(drained.await.unwrap().unwrap(), 0);
    assert_eq!(instants(&stored(collector)), (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn statistics_travel_with_the_count_of_dropped_updates() {
    let collector = collector(&[]).await;
    let mut handle = exporter(collector.address, 1000);
    handle.send(Timeline::default());
    handle.send_stats(AgentStats { jvms_followed: 3, ..AgentStats::default() });
    assert_eq!(handle.drain(LONG).await.unwrap(), 0);
    let stored = stored(collector);
    let stats = stored[0].stats.as_ref().unwrap();
    assert_eq!((stats.jvms_followed, stats.updates_dropped), (3, 1), "an update without an id has no place");
}

#[tokio::test]
async fn updates_that_found_no_room_on_the_way_are_told_as_a_gap() {
    let collector = collector(&[]).await;
    let mut handle = exporter(collector.address, 8);
    // The exporter's task does not run between these on a test's single thread, so the channel is full after 8.
    (1..=20).for_each(|at| handle.send(update(at)));
    assert_eq!(handle.drain(LONG).await.unwrap(), 0);
    let stored = stored(collector);
    assert_eq!(instants(&stored), (1..=8).collect::<Vec<_>>());
    let completeness = stored.last().unwrap().update.clone().unwrap().completeness.unwrap();
    assert_eq!(completeness.complete, Some(false));
    assert!(completeness.gaps[0].reason.starts_with("12 updates were dropped"), "{completeness:?}");
}

#[tokio::test(start_paused = true)]
async fn draining_without_a_collector_ends_at_its_bound_and_counts_the_rest() {
    let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let mut handle = exporter(nobody, 1000);
    (1..=10).for_each(|at| handle.send(update(at)));
    assert_eq!(handle.drain(Duration::from_secs(3)).await.unwrap(), 10);
}

#[tokio::test]
async fn an_exporter_whose_handle_is_dropped_ends() {
    let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let config =
        Config { collector: nobody.to_string(), node: "n1".into(), agent_instance: "a1".into(), backlog: 10 };
    let (handle, task) = spawn(config).unwrap();
    drop(handle);
    task.await.unwrap();
}

#[tokio::test]
async fn a_timeline_is_fetched_by_its_whole_id() {
    let collector = collector(&[]).await;
    let address = collector.address.to_string();
    assert_eq!(fetch_timeline(&address, "t1", LONG).await.unwrap().unwrap().id, "t1");
    assert_eq!(fetch_timeline(&address, "t", LONG).await.unwrap(), None, "a prefix is another process");
    assert_eq!(fetch_timeline(&address, "t2", LONG).await.unwrap(), None);
    let late = fetch_timeline(&address, "slow", Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(late, FetchError::Timeout { .. }), "{late}");
    let away = fetch_timeline("127.0.0.1:1", "t1", LONG).await.unwrap_err();
    assert!(matches!(away, FetchError::Away { .. }), "{away}");
}
