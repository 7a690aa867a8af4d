//! What tools expect beside the contract: metrics, health, reflection.

mod support;

use collector::app::Running;
use proto::v1::{
    AgentStats, Completeness, Milestone, MilestoneKind, Phase, PhaseKind, PushRequest, Route, Timeline,
};
use support::{Agent, begin, channel, start, stop};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

async fn scrape(running: &Running) -> (String, String) {
    let mut connection = tokio::net::TcpStream::connect(running.http).await.unwrap();
    connection
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn now_seconds() -> i64 {
    collector::clock::now_ns() / 1_000_000_000
}

fn cold_start(id: &str, exec_at_seconds: i64) -> Timeline {
    Timeline {
        milestones: vec![Milestone {
            kind: MilestoneKind::Ready.into(),
            since_exec_ns: 4_500_000_000,
            ..Milestone::default()
        }],
        phases: vec![Phase {
            kind: PhaseKind::FirstRequest.into(),
            length_ns: 400_000_000,
            ..Phase::default()
        }],
        routes: vec![Route {
            method: "GET".into(),
            route: "/users/{id}".into(),
            first_ns: Some(400_000_000),
            cold_penalty_ns: Some(390_000_000),
            ..Route::default()
        }],
        completeness: Some(Completeness { complete: Some(true), ..Completeness::default() }),
        ..begin(id, "shop", "orders", exec_at_seconds)
    }
}

#[tokio::test]
async fn metrics_show_recent_timelines_all_durations_and_agents_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    let running = start(&database).await;
    let mut agent = Agent::connect(&running, "a1").await;
    agent.push(1, cold_start("recent", now_seconds() - 60)).await;
    agent.push(2, cold_start("old", now_seconds() - 7_200)).await;
    // The same again: a timeline that changes is still one observation.
    agent.push(3, cold_start("recent", now_seconds() - 60)).await;
    let stats = AgentStats {
        events_produced: 100,
        events_delivered: 98,
        events_dropped: 2,
        updates_dropped: 1,
        jvms_followed: 3,
        hot_ns: 2_500_000_000,
        ..AgentStats::default()
    };
    agent
        .send_request(PushRequest {
            node: "node-a".into(),
            agent_instance: "a1".into(),
            sequence: 4,
            update: None,
            stats: Some(stats),
        })
        .await;
    agent.acknowledged(4).await;
    Agent::connect(&running, "a1").await.push(4, Timeline::default()).await;
    let timeline = r#"node="node-a",namespace="shop",workload="orders",pod="orders-0",timeline="recent""#;
    let kept = [
        format!("jcold_ready_seconds{{{timeline}}} 4.5"),
        format!("jcold_first_request_seconds{{{timeline}}} 0.4"),
        format!(r#"jcold_cold_penalty_seconds{{{timeline},method="GET",route="/users/{{id}}"}} 0.39"#),
        format!("jcold_timeline_complete{{{timeline}}} 1.0"),
        r#"jcold_first_request_duration_seconds_count{namespace="shop",workload="orders"} 2"#.into(),
        r#"jcold_ready_duration_seconds_sum{namespace="shop",workload="orders"} 9.0"#.into(),
        r#"jcold_agent_events_produced_total{node="node-a"} 100"#.into(),
        r#"jcold_agent_events_delivered_total{node="node-a"} 98"#.into(),
        r#"jcold_agent_events_dropped_total{node="node-a"} 2"#.into(),
        r#"jcold_agent_updates_dropped_total{node="node-a"} 1"#.into(),
        r#"jcold_agent_hot_seconds_total{node="node-a"} 2.5"#.into(),
        r#"jcold_agent_jvms_followed{node="node-a"} 3.0"#.into(),
    ];
    let (head, body) = scrape(&running).await;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    for line in kept.iter().chain(&[
        "jcold_collector_updates_stored_total 4".into(),
        "jcold_collector_updates_duplicate_total 1".into(),
        "jcold_collector_updates_rejected_total 0".into(),
        "# UNIT jcold_cold_penalty_seconds seconds".into(),
        "# EOF".into(),
    ]) {
        assert!(body.lines().any(|other| other == line), "{line} is not in\n{body}");
    }
    assert!(!body.contains("jcold_steady_seconds{"), "what was not measured has no series");
    assert!(!body.contains("timeline=\"old\""), "older than the window");
    stop(running).await;

    let running = start(&database).await;
    let (_, body) = scrape(&running).await;
    for line in &kept {
        assert!(body.lines().any(|other| other == line), "{line} is lost by the restart:\n{body}");
    }
    stop(running).await;
}

#[tokio::test]
async fn health_says_that_both_services_serve() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut health = HealthClient::new(channel(&running).await);
    for service in ["", "jcold.v1.IngestService", "jcold.v1.QueryService"] {
        let request = HealthCheckRequest { service: service.into() };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    stop(running).await;
}

macro_rules! reflection {
    ($name:ident, $version:ident) => {
        #[tokio::test]
        async fn $name() {
            use tonic_reflection::pb::$version::ServerReflectionRequest;
            use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
            use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
            let directory = tempfile::tempdir().unwrap();
            let running = start(&directory.path().join("jcold.db")).await;
            let mut client = ServerReflectionClient::new(channel(&running).await);
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            };
            let mut answers =
                client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
            let answer = answers.message().await.unwrap().unwrap().message_response;
            let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
            let services: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
            for service in ["jcold.v1.IngestService", "jcold.v1.QueryService", "grpc.health.v1.Health"] {
                assert!(services.iter().any(|other| other == service), "{services:?}");
            }
            drop(client);
            stop(running).await;
        }
    };
}

reflection!(reflection_speaks_v1, v1);
reflection!(reflection_speaks_v1alpha, v1alpha);
