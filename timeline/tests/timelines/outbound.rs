//! What outbound connections tell.

use crate::common::*;
use proto::v1;
use timeline::{Event, Service, What};

fn connecting(ms: u64, socket: u64, peer: &str) -> Event {
    at(ms, MAIN, What::Connecting { socket, peer: peer.parse().unwrap() })
}

fn established(ms: u64, socket: u64) -> Event {
    at(ms, MAIN, What::Established { socket, local: ([10, 0, 0, 9], 41_000).into() })
}

fn disconnected(ms: u64, socket: u64, errno: Option<i32>) -> Event {
    at(ms, MAIN, What::Disconnected { socket, errno })
}

fn connections(events: &[Event]) -> Vec<v1::Connection> {
    told(start(), events).connections
}

#[test]
fn attempts_to_reach_the_same_peer_are_counted_until_one_succeeds() {
    let events = [
        connecting(100, 1, "10.0.0.7:8761"),
        disconnected(101, 1, Some(111)),
        connecting(200, 2, "10.0.0.8:8761"),
        disconnected(900, 2, None),
        connecting(1_100, 3, "10.0.0.7:8761"),
        disconnected(2_100, 3, Some(110)),
        connecting(3_100, 4, "10.0.0.7:8761"),
        established(3_101, 4),
        disconnected(3_500, 4, None),
        connecting(4_000, 5, "10.0.0.7:8761"),
        disconnected(4_001, 5, Some(113)),
    ];
    let told: Vec<_> = connections(&events)
        .into_iter()
        .map(|c| (c.attempt, c.failure, c.connect_ns.map(|ns| ns / MS)))
        .collect();
    let expect = [
        (1, "refused", None),
        (1, "given up", None),
        (2, "timed out", None),
        (3, "", Some(1)),
        (1, "unreachable", None),
    ];
    assert_eq!(told, expect.map(|(attempt, failure, ms)| (attempt, failure.to_owned(), ms)));
}

#[test]
fn a_conversation_tells_its_protocol_and_its_first_answer() {
    let fd = DB_FD;
    let connected = |ms, fd| at(ms, MAIN, What::Connected { fd, errno: None });
    let events = [
        connecting(100, 1, "10.0.0.7:443"),
        established(101, 1),
        connected(101, fd),
        at(110, MAIN, What::Asked { fd, service: Some(Service::Tls), setup: true }),
        at(140, MAIN, What::Answered { fd, service: None }),
        at(150, MAIN, What::Asked { fd, service: None, setup: false }),
        // A peer that speaks first.
        connecting(200, 2, "10.0.0.8:3306"),
        established(205, 2),
        connected(205, fd + 1),
        at(217, MAIN, What::Answered { fd: fd + 1, service: Some(Service::Mysql) }),
        at(218, MAIN, What::Asked { fd: fd + 1, service: None, setup: true }),
        at(225, MAIN, What::Answered { fd: fd + 1, service: None }),
        at(226, MAIN, What::Asked { fd: fd + 1, service: None, setup: false }),
    ];
    let told: Vec<_> = connections(&events)
        .into_iter()
        .map(|c| (c.service, c.tls, c.first_answer_ns.map(|ns| ns / MS), c.handshake_ns.map(|ns| ns / MS)))
        .collect();
    assert_eq!(
        told,
        [("tls".to_owned(), true, Some(30), None), ("mysql".to_owned(), false, Some(12), Some(25))]
    );
}
