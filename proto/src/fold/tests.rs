use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::v1::{Completeness, Connection, Gap, Inbound, Interval, Phase, Request, Route};

fn milestone(kind: i32, since_exec_ns: u64, evidence: &str) -> Milestone {
    Milestone { kind, since_exec_ns, evidence: evidence.into(), ..Milestone::default() }
}

fn route(method: &str, route: &str, count: u64) -> Route {
    Route { method: method.into(), route: route.into(), count, ..Route::default() }
}

fn folded(parts: &[Timeline]) -> Timeline {
    let mut timeline = Timeline::default();
    for part in parts {
        fold(&mut timeline, part);
    }
    timeline
}

#[test]
fn the_latest_statistics_of_a_route_win_and_keep_its_place() {
    let timeline = folded(&[
        Timeline { routes: vec![route("GET", "/a", 1), route("GET", "/b", 1)], ..Timeline::default() },
        Timeline { routes: vec![route("POST", "/a", 1), route("GET", "/a", 7)], ..Timeline::default() },
    ]);
    assert_eq!(timeline.routes, [route("GET", "/a", 7), route("GET", "/b", 1), route("POST", "/a", 1)]);
}

#[test]
fn a_connection_is_completed_by_a_later_entry() {
    let open = |ordinal, connect_ns| Connection { ordinal, connect_ns, ..Connection::default() };
    let timeline = folded(&[
        Timeline { connections: vec![open(2, None), open(1, None)], ..Timeline::default() },
        Timeline { connections: vec![open(2, Some(30))], ..Timeline::default() },
    ]);
    assert_eq!(timeline.connections, [open(1, None), open(2, Some(30))]);
}

#[test]
fn accepted_connections_are_counted_once_a_protocol() {
    let inbound = |protocol: &str, connections, requests| Inbound {
        protocol: protocol.into(),
        connections,
        requests,
        ..Inbound::default()
    };
    let timeline = folded(&[
        Timeline { inbound: vec![inbound("http/1.1", 1, 0), inbound("tls", 1, 0)], ..Timeline::default() },
        Timeline { inbound: vec![inbound("h2", 1, 9), inbound("http/1.1", 3, 40)], ..Timeline::default() },
    ]);
    assert_eq!(timeline.inbound, [inbound("http/1.1", 3, 40), inbound("tls", 1, 0), inbound("h2", 1, 9)]);
}

#[test]
fn two_shares_of_an_interval_that_are_too_large_to_add_end_nothing() {
    let huge = Interval {
        cpu_ns: HashMap::from([("main".to_owned(), u64::MAX)]),
        requests: u64::MAX,
        run_queue_ns: Some(u64::MAX),
        ..Interval::default()
    };
    let part = Timeline { intervals: vec![huge.clone()], ..Timeline::default() };
    assert_eq!(folded(&[part.clone(), part]).intervals, [huge]);
}

#[test]
fn a_milestone_is_the_first_time() {
    let timeline = folded(&[
        Timeline { milestones: vec![milestone(5, 50, "first"), milestone(1, 0, "")], ..Timeline::default() },
        Timeline {
            milestones: vec![milestone(5, 90, "again"), milestone(1, 0, "java")],
            ..Timeline::default()
        },
    ]);
    assert_eq!(timeline.milestones, [milestone(1, 0, "java"), milestone(5, 50, "first")]);
}

#[test]
fn no_later_claim_makes_a_timeline_with_a_gap_complete() {
    let gap = Gap { reason: "agent restarted".into(), ..Gap::default() };
    let says = |complete, gaps| Timeline {
        completeness: Some(Completeness { complete, gaps, ..Completeness::default() }),
        ..Timeline::default()
    };
    let timeline = folded(&[says(Some(true), vec![]), says(None, vec![gap]), says(Some(true), vec![])]);
    assert_eq!(timeline.completeness.unwrap().complete, Some(false));
}

#[test]
fn scalars_replace_messages_merge_and_lists_append() {
    let part = |produced, late, since_exec_ns, label: &str| Timeline {
        completeness: Some(Completeness { events_produced: produced, late, ..Completeness::default() }),
        intervals: vec![Interval { since_exec_ns, ..Interval::default() }],
        labels: HashMap::from([(label.to_owned(), "x".to_owned())]),
        ..Timeline::default()
    };
    let timeline = folded(&[part(Some(5), Some(true), 0, "app"), part(Some(9), None, 100, "tier")]);
    let completeness = timeline.completeness.unwrap();
    assert_eq!((completeness.events_produced, completeness.late), (Some(9), Some(true)));
    assert_eq!(timeline.intervals.len(), 2);
    assert_eq!(timeline.labels.len(), 2);
}

prop_compose! {
    fn partial()(
        milestones in prop::collection::vec((1..10i32, 0..50u64, "[a-c]"), 0..4),
        routes in prop::collection::vec(("GET|PUT", "/[a-c]", 0..100u64), 0..4),
        connections in prop::collection::vec((1..6u64, prop::option::of(0..9u64)), 0..4),
        phases in prop::collection::vec((1..8i32, 0..50u64), 0..3),
        inbound in prop::collection::vec(("h2|tls", 0..9u64), 0..3),
        ordinals in prop::collection::vec(1..100u64, 0..4),
        completeness in prop::option::of((prop::option::of(any::<bool>()), 0..2usize, 0..9u64)),
        label in prop::option::of(("[a-c]", "[x-z]")),
    ) -> Timeline {
        Timeline {
            milestones: milestones.into_iter().map(|(kind, at, evidence)| milestone(kind, at, &evidence)).collect(),
            routes: routes.into_iter().map(|(method, path, count)| route(&method, &path, count)).collect(),
            connections: connections
                .into_iter()
                .map(|(ordinal, connect_ns)| Connection { ordinal, connect_ns, ..Connection::default() })
                .collect(),
            phases: phases
                .into_iter()
                .map(|(kind, since_exec_ns)| Phase { kind, since_exec_ns, ..Phase::default() })
                .collect(),
            inbound: inbound
                .into_iter()
                .map(|(protocol, connections)| Inbound { protocol, connections, ..Inbound::default() })
                .collect(),
            requests: ordinals
                .into_iter()
                .map(|ordinal| Request { ordinal: Some(ordinal), ..Request::default() })
                .collect(),
            completeness: completeness.map(|(complete, gaps, produced)| Completeness {
                complete,
                gaps: vec![Gap { reason: "gap".into(), ..Gap::default() }; gaps],
                events_produced: Some(produced),
                ..Completeness::default()
            }),
            labels: label.into_iter().collect(),
            ..Timeline::default()
        }
    }
}

proptest! {
    #[test]
    fn folding_the_parts_is_folding_the_whole(parts in prop::collection::vec(partial(), 1..6)) {
        let mut whole = Timeline::default();
        for part in &parts {
            append(&mut whole, part);
        }
        normalise(&mut whole);
        prop_assert_eq!(folded(&parts), whole);
    }

    #[test]
    fn normalising_twice_changes_nothing(mut timeline in partial()) {
        normalise(&mut timeline);
        let once = timeline.clone();
        normalise(&mut timeline);
        prop_assert_eq!(timeline, once);
    }
}
