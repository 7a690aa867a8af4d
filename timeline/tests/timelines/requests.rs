//! What counts as a request on a connection.

use crate::common::*;
use proptest::prelude::*;
use proto::v1::{
    self,
    RequestClass::{Probe, SelfWarmup, User},
};
use timeline::{
    Account, Cause, Event, LastOff, Offs, Start, What,
    wire::{Answer, Loss, Opening},
};

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
            part(3, FD),
            ready(5, FD),
            received(6, FD, request("POST", "/x", false)),
            ready(8, FD),
            body(9, FD),
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
            body(5, FD),
            sent(9, FD, Some(201)),
            closed(10, FD),
        ],
        &[(Some(1), "/x", Some(201), 0, 8)],
    );
}

#[test]
fn bytes_that_nobody_answers_are_no_request() {
    check(&[accepted(0, FD), received(1, FD, Opening::Unparsed), closed(2, FD)], &[]);
    check(&[accepted(0, FD), closed(2, FD)], &[]);
    check(
        // The rest of a body whose answer came early.
        &[
            accepted(0, FD),
            received(1, FD, request("POST", "/x", false)),
            sent(2, FD, Some(413)),
            received(3, FD, Opening::Unparsed),
            body(4, FD),
            closed(5, FD),
        ],
        &[(Some(1), "/x", Some(413), 0, 1)],
    );
}

#[test]
fn garbage_that_is_answered_is_an_unparsed_request() {
    check(
        &[accepted(0, FD), received(1, FD, Opening::Unparsed), sent(4, FD, Some(400)), closed(5, FD)],
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
fn inside_tls_requests_are_told_by_their_records() {
    let events = [
        accepted(0, FD),
        received(1, FD, Opening::Handshake),
        wrote(2, FD, &[Answer::Handshake]),
        read(5, FD, &[Opening::Handshake, Opening::Encrypted]),
        received(7, FD, Opening::Encrypted),
        wrote(9, FD, &[Answer::Begins { stream: None, status: None, streaming: false }]),
        wrote(10, FD, &[Answer::Continues]),
        ready(20, FD),
        received(22, FD, Opening::Encrypted),
        closed(30, FD),
    ];
    let timeline = told(start(), &events);
    assert_eq!(requests(&timeline), [(Some(1), "~tls", None, 0, 5)], "the second was not answered");
    assert_eq!((timeline.inbound[0].protocol.as_str(), timeline.inbound[0].requests), ("tls", 1));
    assert_eq!(timeline.completeness.unwrap().complete, Some(true));
}

#[test]
fn pipelined_requests_are_answered_in_turn() {
    let three = ["/a", "/b", "/c"].map(|route| request("GET", route, false));
    check(
        &[
            accepted(0, FD),
            ready(1, FD),
            read(2, FD, &three),
            sent(4, FD, Some(200)),
            sent(5, FD, None),
            sent(7, FD, Some(201)),
            sent(9, FD, Some(202)),
            closed(11, FD),
        ],
        &[
            (Some(1), "/a", Some(200), 1, 3),
            (Some(2), "/b", Some(201), 1, 5),
            (Some(3), "/c", Some(202), 1, 7),
        ],
    );
    check(
        &[accepted(0, FD), read(2, FD, &three), sent(4, FD, Some(200)), closed(11, FD)],
        &[(Some(1), "/a", Some(200), 0, 2), (Some(2), "/b", None, 0, 2), (Some(3), "/c", None, 0, 2)],
    );
}

#[test]
fn what_stands_behind_a_refused_request_is_none() {
    let smuggled = [request("POST", "/a", false), request("GET", "/admin", false)];
    check(
        &[accepted(0, FD), read(2, FD, &smuggled), sent(4, FD, Some(400)), closed(11, FD)],
        &[(Some(1), "/a", Some(400), 0, 2)],
    );
}

#[test]
fn streams_of_one_connection_overlap() {
    let begins = |stream| Answer::Begins { stream: Some(stream), status: Some(200), streaming: false };
    let ends = |stream| Answer::Ends { stream, reset: false };
    let events = [
        accepted(0, FD),
        received(1, FD, stream(1, "/shop.Cart/Add")),
        received(2, FD, stream(3, "/shop.Cart/List")),
        wrote(4, FD, &[begins(3), ends(3)]),
        wrote(6, FD, &[begins(1)]),
        wrote(9, FD, &[ends(1)]),
        received(10, FD, stream(5, "/shop.Cart/Add")),
        received(12, FD, Opening::Reset { stream: 5 }),
        closed(13, FD),
    ];
    check(
        &events,
        &[
            (Some(2), "/shop.Cart/List", Some(200), 0, 2),
            (Some(1), "/shop.Cart/Add", Some(200), 0, 8),
            (Some(3), "/shop.Cart/Add", None, 0, 2),
        ],
    );
    assert_eq!(told(start(), &events).inbound[0].protocol, "h2");
}

#[test]
fn a_health_check_makes_ready_when_it_is_told_so() {
    let check = |serving: Option<bool>| {
        let begins = Answer::Begins { stream: Some(1), status: Some(200), streaming: false };
        let ends = Answer::Ends { stream: 1, reset: false };
        let told = serving.map(|serving| Answer::Health { stream: 1, serving });
        let request = Opening::Request {
            stream: Some(1),
            method: "POST".into(),
            route: "/grpc.health.v1.Health/Check".into(),
            prober: true,
        };
        let answers: Vec<_> = [Some(begins), told, Some(ends)].into_iter().flatten().collect();
        let timeline = crate::common::told(
            start(),
            &[accepted(0, FD), received(1, FD, request), wrote(4, FD, &answers), closed(9, FD)],
        );
        let reached = milestones(&timeline);
        let has = |kind| reached.iter().any(|(reached, _)| *reached == kind);
        (has("MILESTONE_KIND_FIRST_PROBE"), has("MILESTONE_KIND_READY"))
    };
    assert_eq!(check(Some(true)), (true, true));
    assert_eq!(check(Some(false)), (true, false));
    assert_eq!(check(None), (true, false), "nobody saw what it was told");
}

#[test]
fn of_an_event_stream_the_first_byte_counts() {
    let events = [
        accepted(0, FD),
        received(1, FD, request("GET", "/sse", false)),
        wrote(4, FD, &[Answer::Begins { stream: None, status: Some(200), streaming: true }]),
        sent(900, FD, None),
        closed(5_000, FD),
    ];
    check(&events, &[(Some(1), "/sse", Some(200), 0, 3)]);
    assert!(told(start(), &events).requests[0].streaming);
}

#[test]
fn what_is_not_followed_is_said() {
    let events = [
        at(1, ACCEPTOR, What::Accepted { fd: 70, peer: None, unix: true }),
        at(2, ACCEPTOR, What::Accepted { fd: 71, peer: None, unix: true }),
        at(3, MAIN, What::IoUring),
        accepted(4, FD),
        read(5, FD, &[request("GET", "/x", false), Opening::Lost { reason: Loss::Uncaptured }]),
    ];
    let timeline = told(start(), &events);
    let completeness = timeline.completeness.unwrap();
    let reasons: Vec<_> = completeness.gaps.iter().map(|gap| gap.reason.as_str()).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    for (reason, word) in reasons.iter().zip(["Unix", "io_uring", "pipelined"]) {
        assert!(reason.contains(word), "{reasons:?}");
    }
    let unix = timeline.inbound.iter().find(|inbound| inbound.protocol == "unix").unwrap();
    assert_eq!((unix.connections, unix.not_followed.is_empty()), (2, false));
}

#[test]
fn a_neighbour_in_the_pod_warms_up_before_ready_and_is_a_user_after() {
    let sidecar = |ms, fd| {
        at(ms, ACCEPTOR, What::Accepted { fd, peer: Some(([127, 0, 0, 6], 40_000).into()), unix: false })
    };
    let call = |ms, fd, prober| {
        let path = if prober { "/ready" } else { "/x" };
        [
            sidecar(ms, fd),
            received(ms, fd, request("GET", path, prober)),
            sent(ms + 1, fd, Some(200)),
            closed(ms + 2, fd),
        ]
    };
    let events = [call(10, 30, false), call(20, 30, true), call(30, 30, false)].concat();
    let classes = |own_network| {
        let timeline = told(Start { own_network, ..start() }, &events);
        timeline.requests.iter().map(v1::Request::class).collect::<Vec<_>>()
    };
    assert_eq!(classes(true), [SelfWarmup, Probe, User]);
    assert_eq!(classes(false), [User, Probe, User], "on the node's own network anybody may be near");
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
            at(1, ACCEPTOR, What::Accepted { fd: FD, peer: Some(own), unix: false }),
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
            at(1, ACCEPTOR, What::Accepted { fd: FD, peer: Some(end), unix: false }),
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
        6 => "[a-c]".prop_map(|name| request("GET", &format!("/{name}"), false)),
        1 => Just(request("GET", "/ready", true)),
        2 => (0u32..6).prop_map(|id| stream(id, "/s")),
        1 => Just(Opening::Unparsed),
        1 => Just(Opening::Encrypted),
        1 => Just(Opening::Handshake),
        1 => (0u32..6).prop_map(|stream| Opening::Reset { stream }),
        1 => Just(Opening::Lost { reason: Loss::Framing }),
    ];
    let answer = prop_oneof![
        6 => (prop::option::of(0u32..6), prop::option::of(100u16..600), any::<bool>())
            .prop_map(|(stream, status, streaming)| Answer::Begins { stream, status, streaming }),
        2 => Just(Answer::Continues),
        1 => Just(Answer::Interim),
        1 => Just(Answer::Upgraded),
        1 => Just(Answer::BecomesStream { stream: 1 }),
        1 => Just(Answer::Opens(Opening::Unparsed)),
        2 => (0u32..6, any::<bool>()).prop_map(|(stream, reset)| Answer::Ends { stream, reset }),
    ];
    let fd = 1i32..4;
    let cause = prop_oneof![Just(Cause::Runnable), Just(Cause::Lock), Just(Cause::Socket), Just(Cause::Poll)];
    let time = 0..EXEC_NS * 2;
    let off =
        (time.clone(), time.clone(), time.clone(), cause.clone()).prop_map(|(off_ns, on_ns, run, cause)| {
            LastOff { off_ns, on_ns, run_queue_ns: run, throttled_ns: run / 3, cause }
        });
    let account =
        (time.clone(), time.clone(), time, prop::option::of(off)).prop_map(|(since_ns, cpu_ns, ns, last)| {
            let off = Offs { run_queue_ns: ns, lock_ns: ns / 2, socket_ns: ns / 5, ..Offs::default() };
            Account { since_ns, cpu_ns, off, last }
        });
    let what = prop_oneof![
        2 => fd.clone().prop_map(|fd| What::Accepted { fd, peer: None, unix: fd == 3 }),
        3 => fd.clone().prop_map(|fd| What::Ready { fd }),
        6 => (fd.clone(), 0u32..3, prop::collection::vec(opening, 0..3), any::<bool>(), any::<bool>()).prop_map(
            |(fd, bytes, openings, continues, undecided)| What::Received { fd, bytes, arrived_ns: None, openings, continues, undecided }
        ),
        6 => (fd.clone(), prop::collection::vec(answer, 0..3)).prop_map(|(fd, answers)| What::Sent { fd, bytes: 1, answers }),
        1 => fd.clone().prop_map(|fd| What::Closed { fd }),
        1 => (0u64..3).prop_map(|socket| What::Connecting { socket, peer: ([10, 0, 0, 1], 5432).into() }),
        1 => fd.clone().prop_map(|fd| What::Connected { fd, errno: None }),
        1 => (0u64..3).prop_map(|socket| What::Disconnected { socket, errno: Some(111) }),
        2 => (fd.clone(), any::<bool>()).prop_map(|(fd, setup)| What::Asked { fd, service: None, setup }),
        2 => fd.prop_map(|fd| What::Answered { fd, service: None }),
        4 => (account, prop::option::of(cause)).prop_map(|(account, leaving)| What::ThreadAccount { account, leaving }),
        1 => Just(What::Exited { status: Some(0) }),
    ];
    (0u64..20_000, 0u32..4, what).prop_map(|(ms, tid, what)| at(ms, tid, what))
}

fn sum(ledger: &v1::Ledger) -> u64 {
    let v1::Ledger {
        on_cpu_ns,
        run_queue_ns,
        throttled_ns,
        pool_connect_ns,
        socket_wait_ns,
        disk_ns,
        lock_or_park_ns,
        unexplained_ns,
        ..
    } = ledger;
    [
        on_cpu_ns,
        run_queue_ns,
        throttled_ns,
        pool_connect_ns,
        socket_wait_ns,
        disk_ns,
        lock_or_park_ns,
        unexplained_ns,
    ]
    .into_iter()
    .flatten()
    .sum()
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
            let ledger = request.ledger.as_ref().unwrap();
            prop_assert_eq!(sum(ledger), request.latency_ns);
            prop_assert_eq!(sum(request.wait_ledger.as_ref().unwrap()), request.wait_ns);
            let peers: u64 = ledger.peers.iter().map(|peer| peer.wait_ns).sum();
            prop_assert!(peers <= ledger.socket_wait_ns.unwrap());
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
