//! What counts as a request on a connection.

use crate::common::*;
use proptest::prelude::*;
use proto::v1;
use timeline::{Event, Opening, What};

const FD: i32 = CLIENT_FD;

fn check(events: &[Event], expect: &[Row<'_>]) {
    assert_eq!(requests(&told(start(), events)), expect);
}

#[test]
fn a_request_in_pieces_is_one_request() {
    check(
        &[
            accepted(0, FD),
            ready(1, FD),
            received(3, FD, None),
            ready(5, FD),
            received(6, FD, request("POST", "/x", false)),
            ready(8, FD),
            received(9, FD, None),
            sent(12, FD, Some(200)),
            sent(15, FD, None),
            closed(20, FD),
        ],
        &[(Some(1), "/x", Some(200), 2, 12)],
    );
}

#[test]
fn an_interim_answer_does_not_end_a_request() {
    check(
        &[
            accepted(0, FD),
            received(1, FD, request("PUT", "/x", false)),
            sent(2, FD, Some(100)),
            received(5, FD, None),
            sent(9, FD, Some(201)),
            closed(10, FD),
        ],
        &[(Some(1), "/x", Some(201), 0, 8)],
    );
}

#[test]
fn bytes_that_nobody_answers_are_no_request() {
    check(&[accepted(0, FD), received(1, FD, Some(Opening::Unparsed)), closed(2, FD)], &[]);
    check(&[accepted(0, FD), closed(2, FD)], &[]);
    check(
        // The rest of a body whose answer came early.
        &[
            accepted(0, FD),
            received(1, FD, request("POST", "/x", false)),
            sent(2, FD, Some(413)),
            received(3, FD, Some(Opening::Unparsed)),
            received(4, FD, None),
            closed(5, FD),
        ],
        &[(Some(1), "/x", Some(413), 0, 1)],
    );
}

#[test]
fn garbage_that_is_answered_is_an_unparsed_request() {
    check(
        &[accepted(0, FD), received(1, FD, Some(Opening::Unparsed)), sent(4, FD, Some(400)), closed(5, FD)],
        &[(Some(1), "~unparsed", Some(400), 0, 3)],
    );
}

#[test]
fn a_client_that_leaves_before_the_answer() {
    check(
        &[accepted(0, FD), received(1, FD, request("GET", "/x", false)), end_of_stream(7, FD), closed(8, FD)],
        &[(Some(1), "/x", None, 0, 7)],
    );
}

#[test]
fn after_an_upgrade_no_request_is_looked_for() {
    check(
        &[
            accepted(0, FD),
            received(1, FD, request("GET", "/ws", false)),
            sent(2, FD, Some(101)),
            received(3, FD, request("GET", "/frame-that-looks-like-one", false)),
            sent(4, FD, None),
            closed(9, FD),
        ],
        &[(Some(1), "/ws", Some(101), 0, 1)],
    );
}

#[test]
fn an_fd_that_is_used_again_is_another_connection() {
    let events = [
        accepted(0, FD),
        received(1, FD, request("GET", "/a", false)),
        sent(2, FD, Some(200)),
        accepted(2, FD),
        received(3, FD, request("GET", "/b", false)),
        sent(5, FD, Some(200)),
        closed(6, FD),
    ];
    check(&events, &[(Some(1), "/a", Some(200), 0, 1), (Some(2), "/b", Some(200), 0, 2)]);
    let ordinals: Vec<u64> = told(start(), &events).requests.iter().map(|r| r.connection_ordinal).collect();
    assert_eq!(ordinals, [1, 2]);
}

#[test]
fn opaque_connections_are_a_gap_and_no_requests() {
    for (opening, reason) in [(Opening::Tls, "TLS"), (Opening::Http2, "HTTP/2")] {
        let timeline = told(
            start(),
            &[
                accepted(0, FD),
                received(1, FD, Some(opening.clone())),
                sent(2, FD, None),
                received(3, FD, None),
                closed(4, FD),
            ],
        );
        assert_eq!(requests(&timeline), []);
        let completeness = timeline.completeness.unwrap();
        assert!(completeness.gaps[0].reason.contains(reason), "{completeness:?}");
        assert_eq!(completeness.complete, Some(false));
    }
}

#[test]
fn pipelined_requests_are_a_gap() {
    let Some(Opening::Request { method, route, prober, .. }) = request("GET", "/x", false) else {
        unreachable!()
    };
    let opening = Some(Opening::Request { method, route, prober, pipelined: true });
    let timeline =
        told(start(), &[accepted(0, FD), received(1, FD, opening), sent(2, FD, Some(200)), closed(3, FD)]);
    assert_eq!(requests(&timeline), [(Some(1), "/x", Some(200), 0, 1)]);
    let completeness = timeline.completeness.unwrap();
    assert!(completeness.gaps[0].reason.contains("pipelined"), "{completeness:?}");
    assert_eq!(completeness.complete, Some(false));
}

#[test]
fn the_process_calling_itself_is_a_warm_up() {
    let own = ([127, 0, 0, 1], 41_000).into();
    let timeline = told(
        start(),
        &[
            at(0, MAIN, What::Listening { address: ([0, 0, 0, 0], 8080).into() }),
            at(0, MAIN, What::Connecting { socket: 1, peer: ([127, 0, 0, 1], 8080).into() }),
            at(0, MAIN, What::Established { socket: 1, local: own }),
            at(1, ACCEPTOR, What::Accepted { fd: FD, peer: Some(own) }),
            received(2, FD, request("GET", "/x", false)),
            sent(4, FD, Some(200)),
            closed(5, FD),
            accepted(6, FD),
            received(7, FD, request("GET", "/x", false)),
            sent(8, FD, Some(200)),
            closed(9, FD),
        ],
    );
    let classes: Vec<_> = timeline.requests.iter().map(v1::Request::class).collect();
    assert_eq!(classes, [v1::RequestClass::SelfWarmup, v1::RequestClass::User]);
    assert_eq!(timeline.routes[0].first_class(), v1::RequestClass::SelfWarmup);
    assert_eq!(timeline.routes[0].first_ns, Some(MS));
}

#[test]
fn a_client_whose_end_is_also_an_end_of_the_process_is_a_user() {
    let end = ([127, 0, 0, 1], 41_000).into();
    let timeline = told(
        start(),
        &[
            at(0, MAIN, What::Listening { address: ([0, 0, 0, 0], 8080).into() }),
            at(0, MAIN, What::Connecting { socket: 1, peer: ([127, 0, 0, 1], 5432).into() }),
            at(0, MAIN, What::Established { socket: 1, local: end }),
            at(1, ACCEPTOR, What::Accepted { fd: FD, peer: Some(end) }),
            received(2, FD, request("GET", "/x", false)),
            sent(4, FD, Some(200)),
            closed(5, FD),
        ],
    );
    assert_eq!(timeline.requests[0].class(), v1::RequestClass::User);
}

#[test]
fn a_client_that_closes_its_half_still_gets_its_answer() {
    check(
        &[
            accepted(0, FD),
            received(1, FD, request("GET", "/x", false)),
            end_of_stream(2, FD),
            sent(7, FD, Some(200)),
            closed(8, FD),
        ],
        &[(Some(1), "/x", Some(200), 0, 6)],
    );
}

#[test]
fn routes_past_the_limit_are_counted_together() {
    let mut events = vec![accepted(0, FD)];
    for n in 0..150 {
        events.push(received(n * 2, FD, request("GET", &format!("/r{n}x"), false)));
        events.push(sent(n * 2 + 1, FD, Some(200)));
    }
    events.push(closed(400, FD));
    let timeline = told(start(), &events);
    assert_eq!(timeline.routes.len(), 101);
    assert_eq!((timeline.routes[100].route.as_str(), timeline.routes[100].count), ("~other", 50));
    assert_eq!(timeline.routes.iter().map(|route| route.count).sum::<u64>(), 150);
}

fn any_event() -> impl Strategy<Value = Event> {
    let opening = prop_oneof![
        3 => Just(None),
        6 => "[a-c]".prop_map(|name| request("GET", &format!("/{name}"), false)),
        1 => Just(request("GET", "/ready", true)),
        1 => Just(Some(Opening::Unparsed)),
        1 => Just(Some(Opening::Tls)),
    ];
    let fd = 1i32..4;
    let what = prop_oneof![
        2 => fd.clone().prop_map(|fd| What::Accepted { fd, peer: None }),
        3 => fd.clone().prop_map(|fd| What::Ready { fd }),
        6 => (fd.clone(), 0u32..3, opening).prop_map(|(fd, bytes, opening)| What::Received { fd, bytes, opening }),
        6 => (fd.clone(), prop::option::of(100u16..600)).prop_map(|(fd, status)| What::Sent { fd, bytes: 1, status, service: None }),
        1 => fd.prop_map(|fd| What::Closed { fd }),
        1 => (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(start_ns, cpu_ns, run)| What::ThreadCpu {
            start_ns, cpu_ns: cpu_ns >> 20, run_queue_ns: run.into(),
        }),
        1 => Just(What::Exited { status: Some(0) }),
    ];
    (0u64..20_000, 0u32..4, what).prop_map(|(ms, tid, what)| at(ms, tid, what))
}

proptest! {
    #[test]
    fn whatever_comes_the_numbers_agree(mut events in prop::collection::vec(any_event(), 0..200)) {
        events.sort_by_key(|event| event.at_ns);
        let timeline = told(start(), &events);
        let mut ordinals: Vec<u64> = timeline.requests.iter().filter_map(|r| r.ordinal).collect();
        ordinals.sort_unstable();
        let distinct = ordinals.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(distinct, "{ordinals:?}");
        for request in &timeline.requests {
            prop_assert_eq!(request.latency_ns, request.wait_ns + request.service_ns);
        }
        let counts = timeline.request_counts.unwrap();
        prop_assert_eq!(counts.user, timeline.routes.iter().map(|route| route.count).sum::<u64>());
        let ended = counts.user + counts.probe + counts.self_warmup;
        prop_assert_eq!(ended, timeline.intervals.iter().map(|i| i.requests).sum::<u64>());
        for pair in timeline.phases.windows(2) {
            prop_assert!(pair[0].since_exec_ns + pair[0].length_ns == pair[1].since_exec_ns, "{:?}", timeline.phases);
        }
    }
}
