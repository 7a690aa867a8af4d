//! What agents are promised: what was acknowledged is stored, once, whatever restarts.

mod support;

use proto::v1::{AgentStats, PushRequest, Route, Steady, Timeline, TimelineFilter};
use support::{Agent, LONG, get, interval, intervals, start, stop};
use tonic::Code;

#[tokio::test]
async fn a_repeated_sequence_number_is_acknowledged_and_not_stored_again() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    agent.push(1, interval("t1", 0)).await;
    agent.push(2, interval("t1", 100)).await;
    let mut again = Agent::connect(&running, "a1").await;
    again.push(1, interval("t1", 0)).await;
    again.push(2, interval("t1", 100)).await;
    again.push(3, interval("t1", 200)).await;
    let timeline = get(&running, "t1").await.unwrap();
    assert_eq!(intervals(&timeline), [0, 100, 200]);
    assert_eq!(timeline.completeness, None, "nothing is missing");
    assert_eq!(timeline.node, "node-a", "the agent's node is the timeline's");
    stop(running).await;
}

#[tokio::test]
async fn another_run_of_the_agent_counts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    Agent::connect(&running, "a1").await.push(1, interval("t1", 0)).await;
    Agent::connect(&running, "a2").await.push(1, interval("t1", 100)).await;
    assert_eq!(intervals(&get(&running, "t1").await.unwrap()), [0, 100]);
    stop(running).await;
}

#[tokio::test]
async fn a_restart_in_mid_stream_loses_and_repeats_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    let running = start(&database).await;
    let mut agent = Agent::connect(&running, "a1").await;
    for sequence in 1..=20 {
        agent.send(sequence, interval("t1", sequence)).await;
    }
    agent.acknowledged(5).await;
    let draining = tokio::spawn(stop(running));
    let mut acknowledged = 5;
    while let Ok(Some(sequence)) = agent.next().await {
        acknowledged = sequence;
    }
    draining.await.unwrap();
    assert!(!database.with_extension("db-wal").exists(), "an orderly end leaves one plain file");

    let running = start(&database).await;
    let mut agent = Agent::connect(&running, "a1").await;
    // As an exporter does, from the first number that it saw no acknowledgement of; and an earlier one for good measure.
    for sequence in acknowledged.saturating_sub(3).max(1)..=25 {
        agent.send(sequence, interval("t1", sequence)).await;
    }
    agent.acknowledged(25).await;
    let timeline = get(&running, "t1").await.unwrap();
    assert_eq!(intervals(&timeline), (1..=25).collect::<Vec<_>>());
    assert_eq!(timeline.completeness, None);
    stop(running).await;
}

#[tokio::test]
async fn a_long_timeline_stays_whole_and_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    for sequence in 1..=150 {
        let route =
            Route { method: "GET".into(), route: "/hello".into(), count: sequence, ..Route::default() };
        agent.push(sequence, Timeline { routes: vec![route], ..interval("t1", sequence) }).await;
    }
    let timeline = get(&running, "t1").await.unwrap();
    assert_eq!(intervals(&timeline), (1..=150).collect::<Vec<_>>());
    let counts: Vec<_> = timeline.routes.iter().map(|route| route.count).collect();
    assert_eq!(counts, [150], "one entry a route, the latest");
    stop(running).await;
}

#[tokio::test]
async fn a_hole_is_noted_in_every_timeline_that_may_have_lost_something() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut other = Agent::connect(&running, "a2").await;
    other.push(1, interval("other", 0)).await;
    let mut agent = Agent::connect(&running, "a1").await;
    agent.push(1, interval("open", 0)).await;
    let settled = Timeline { steady: Some(Steady::default()), ..interval("settled", 0) };
    agent.push(2, settled).await;
    agent.push(6, interval("after", 0)).await;
    for id in ["open", "after"] {
        let completeness = get(&running, id).await.unwrap().completeness.unwrap();
        assert_eq!(completeness.complete, Some(false), "{id}");
        assert_eq!(completeness.gaps.len(), 1, "{id}");
        assert_eq!(completeness.gaps[0].reason, "3 updates of the agent never reached the collector", "{id}");
    }
    for id in ["other", "settled"] {
        assert_eq!(get(&running, id).await.unwrap().completeness, None, "{id}");
    }
    stop(running).await;
}

#[tokio::test]
async fn statistics_alone_are_acknowledged_and_make_no_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    let request = |sequence, update| PushRequest {
        node: "node-a".into(),
        agent_instance: "a1".into(),
        sequence,
        update,
        stats: Some(AgentStats { jvms_followed: 2, ..AgentStats::default() }),
    };
    agent.send_request(request(1, None)).await;
    agent.acknowledged(1).await;
    agent.send_request(request(2, Some(Timeline::default()))).await;
    agent.acknowledged(2).await;
    assert!(support::list(&running, TimelineFilter::default(), 0, "").await.timelines.is_empty());
    stop(running).await;
}

#[tokio::test]
async fn a_malformed_update_is_refused_after_what_came_before_it_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let good = PushRequest {
        node: "node-a".into(),
        agent_instance: "a1".into(),
        sequence: 2,
        update: Some(interval("t1", 1)),
        stats: None,
    };
    let bad = [
        (PushRequest { agent_instance: String::new(), ..good.clone() }, "agent_instance must have"),
        (PushRequest { node: String::new(), ..good.clone() }, "node is empty"),
        (PushRequest { sequence: 0, ..good.clone() }, "sequence must be"),
        (PushRequest { update: Some(interval("", 1)), ..good.clone() }, "update.id \"\""),
        (PushRequest { update: Some(interval("../x", 1)), ..good.clone() }, "update.id \"../x\""),
        (PushRequest { agent_instance: "a2".into(), ..good.clone() }, "agent_instance changed"),
    ];
    for (request, reason) in bad {
        let mut agent = Agent::connect(&running, "a1").await;
        agent.send(1, interval("t1", 0)).await;
        agent.send_request(request).await;
        let status = loop {
            match agent.next().await {
                Ok(sequence) => assert_eq!(sequence, Some(1), "{reason}"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument, "{reason}");
        assert!(status.message().contains(reason), "{status}");
    }
    assert_eq!(intervals(&get(&running, "t1").await.unwrap()), [0]);
    stop(running).await;
}

#[tokio::test]
async fn draining_ends_streams_that_are_idle() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    agent.push(1, interval("t1", 0)).await;
    let draining = tokio::spawn(running.drain(LONG));
    assert_eq!(agent.next().await.unwrap(), None);
    assert!(draining.await.unwrap().unwrap());
}
