//! A real collector on loopback ports and a temporary file, and real clients.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use collector::app::{App, AppError, Running};
use collector::config::Config;
use proto::v1::ingest_service_client::IngestServiceClient;
use proto::v1::query_service_client::QueryServiceClient;
use proto::v1::{
    GetTimelineRequest, Interval, Jvm, ListTimelinesRequest, ListTimelinesResponse, Pod, PushRequest,
    PushResponse, Timeline, TimelineFilter,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub const LONG: Duration = Duration::from_secs(30);

pub async fn build(database: &Path) -> Result<App, AppError> {
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    App::build(&Config {
        listen: any,
        metrics_listen: any,
        database: database.to_owned(),
        metrics_window: Duration::from_hours(1),
    })
    .await
}

pub async fn start(database: &Path) -> Running {
    build(database).await.unwrap().spawn().await.unwrap()
}

pub async fn stop(running: Running) {
    assert!(running.drain(LONG).await.unwrap(), "drained in time");
}

pub async fn channel(running: &Running) -> Channel {
    Channel::from_shared(format!("http://{}", running.grpc)).unwrap().connect().await.unwrap()
}

pub async fn query(running: &Running) -> QueryServiceClient<Channel> {
    QueryServiceClient::new(channel(running).await)
}

pub async fn get(running: &Running, id: &str) -> Result<Timeline, Status> {
    let response = query(running).await.get_timeline(GetTimelineRequest { id: id.into() }).await?;
    Ok(response.into_inner().timeline.unwrap())
}

pub async fn list(
    running: &Running,
    filter: TimelineFilter,
    page_size: u32,
    page_token: &str,
) -> ListTimelinesResponse {
    let request = ListTimelinesRequest { filter: Some(filter), page_size, page_token: page_token.into() };
    query(running).await.list_timelines(request).await.unwrap().into_inner()
}

/// An agent's stream.
pub struct Agent {
    requests: mpsc::Sender<PushRequest>,
    acknowledgements: Streaming<PushResponse>,
    instance: &'static str,
}

impl Agent {
    pub async fn connect(running: &Running, instance: &'static str) -> Self {
        let mut client = IngestServiceClient::new(channel(running).await);
        let (requests, stream) = mpsc::channel(16);
        let acknowledgements = client.push(ReceiverStream::new(stream)).await.unwrap().into_inner();
        Self { requests, acknowledgements, instance }
    }

    pub async fn send_request(&self, request: PushRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub async fn send(&self, sequence: u64, update: Timeline) {
        self.send_request(PushRequest {
            node: "node-a".into(),
            agent_instance: self.instance.into(),
            sequence,
            update: Some(update),
            stats: None,
        })
        .await;
    }

    /// Waits for an acknowledgement of this number or a later one.
    pub async fn acknowledged(&mut self, sequence: u64) {
        while self.next().await.unwrap().expect("the stream goes on") < sequence {}
    }

    pub async fn push(&mut self, sequence: u64, update: Timeline) {
        self.send(sequence, update).await;
        self.acknowledged(sequence).await;
    }

    pub async fn next(&mut self) -> Result<Option<u64>, Status> {
        let next = tokio::time::timeout(LONG, self.acknowledgements.message()).await.expect("an answer");
        Ok(next?.map(|response| response.acknowledged_sequence))
    }
}

/// A partial timeline with one interval, which tells how often it was stored.
pub fn interval(id: &str, since_exec_ns: u64) -> Timeline {
    let interval = Interval { since_exec_ns, ..Interval::default() };
    Timeline { id: id.into(), intervals: vec![interval], ..Timeline::default() }
}

pub fn intervals(timeline: &Timeline) -> Vec<u64> {
    timeline.intervals.iter().map(|interval| interval.since_exec_ns).collect()
}

/// The beginning of a timeline, exec'd `seconds` after 1970.
pub fn begin(id: &str, namespace: &str, workload: &str, seconds: i64) -> Timeline {
    Timeline {
        id: id.into(),
        jvm: Some(Jvm { exec_at: Some(at(seconds)), ..Jvm::default() }),
        pod: Some(Pod {
            namespace: Some(namespace.into()),
            workload: Some(workload.into()),
            name: Some(format!("{workload}-0")),
            ..Pod::default()
        }),
        ..Timeline::default()
    }
}

pub fn at(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds, nanos: 0 }
}

pub fn ids(timelines: &[Timeline]) -> Vec<&str> {
    timelines.iter().map(|timeline| timeline.id.as_str()).collect()
}
