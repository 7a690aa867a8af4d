//! A thousand requests over 1, 4 and 32 connections, of which none may be missed, doubled or put down to another route.

use std::collections::BTreeMap;

use anyhow::Result;
use xtask::http::Connection;
use xtask::jdk;
use xtask::load::{self, Call, MIX, Sent, USERS};
use xtask::server::{Server, VIRTUAL_THREADS};
use xtask::timeline::{Timeline, list, number};
use xtask::traced::Traced;

/// Requests and connections of each wave: a thousand requests in all.
pub const WAVES: [(usize, usize); 3] = [(200, 1), (300, 4), (500, 32)];

/// User requests by method and route, as the timeline has them.
pub fn counted(timeline: &Timeline) -> BTreeMap<String, u64> {
    let routes = list(&timeline.value["routes"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let counts = routes.map(|route| {
        let name = format!("{} {}", text(&route["method"]), text(&route["route"]));
        (name, number(&route["count"]).unwrap_or(0))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Asserts that the timeline has just these requests, and missed nothing.
pub fn assert_counts(timeline: &Timeline, sent: &Sent) {
    assert_requests(timeline, sent);
    assert!(timeline.complete(), "{}", timeline.summary());
}

/// Asserts that the timeline has just these requests.
pub fn assert_requests(timeline: &Timeline, sent: &Sent) {
    assert_eq!(counted(timeline), sent.user, "{}", timeline.summary());
    let counts = &timeline.value["requestCounts"];
    let of_class = |class: &str| number(&counts[class]).unwrap_or(0);
    assert_eq!(
        (of_class("user"), of_class("probe"), of_class("selfWarmup"), of_class("unparsed")),
        (sent.user_total(), sent.probe, 0, 0),
        "{counts}"
    );
}

/// Each request that is kept has the status that every answer of its route had.
fn assert_statuses(timeline: &Timeline, mix: &[Call]) {
    for request in list(&timeline.value["requests"]) {
        let call = mix.iter().find(|call| {
            request["method"] == call.method
                && request["route"] == call.route
                && request["class"] == class(call)
        });
        let status = call.map(|call| u64::from(call.status));
        assert_eq!(number(&request["status"]), status, "{request}");
    }
}

fn class(call: &Call) -> &'static str {
    if call.probe { "REQUEST_CLASS_PROBE" } else { "REQUEST_CLASS_USER" }
}

fn every_request_is_counted_once(server: Server) -> Result<()> {
    let mut mix = MIX.to_vec();
    if !server.is_spring() {
        mix.push(USERS);
    }
    let mut traced = Traced::serve(server)?;
    let mut sent = Sent::default();
    for (total, connections) in WAVES {
        sent.merge(load::drive(|| Connection::open(traced.port()), &mix, total, connections)?);
    }
    let timeline = traced.finish()?;
    assert_counts(&timeline, &sent);
    assert_statuses(&timeline, &mix);
    Ok(())
}

#[test]
fn jdk_httpserver() -> Result<()> {
    every_request_is_counted_once(Server::Jdk)
}

#[test]
fn jetty() -> Result<()> {
    every_request_is_counted_once(Server::Jetty)
}

#[test]
fn undertow() -> Result<()> {
    every_request_is_counted_once(Server::Undertow)
}

#[test]
fn netty() -> Result<()> {
    every_request_is_counted_once(Server::Netty)
}

#[test]
fn netty_epoll() -> Result<()> {
    every_request_is_counted_once(Server::NettyEpoll)
}

#[test]
fn tomcat() -> Result<()> {
    every_request_is_counted_once(Server::Tomcat)
}

#[test]
fn tomcat_virtual() -> Result<()> {
    if jdk::choose()?.feature < VIRTUAL_THREADS {
        eprintln!("no such server on this machine: its newest JDK has no virtual threads");
        return Ok(());
    }
    every_request_is_counted_once(Server::TomcatVirtual)
}
