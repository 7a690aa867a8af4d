//! Trouble around a JVM: an agent that comes late, a collector that is away, clients that send no HTTP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use xtask::hello::Hello;
use xtask::jdk;
use xtask::service::{Options, READINESS, call};
use xtask::testbed::Testbed;
use xtask::timeline::{Timeline, list, number};

/// Longest pause of a client for an answer to garbage; a server that knows none closes or stays silent.
const SILENCE: Duration = Duration::from_secs(2);

/// Count of user requests by route.
fn counts(timeline: &Timeline) -> Vec<(String, u64)> {
    let route = |route: &serde_json::Value| {
        let count = number(&route["count"]).unwrap_or(0);
        (count > 0).then(|| (route["route"].as_str().unwrap_or_default().to_owned(), count))
    };
    let mut counts: Vec<_> = list(&timeline.value["routes"]).filter_map(route).collect();
    counts.sort();
    counts
}

#[test]
fn a_jvm_that_ran_before_any_agent_is_followed_from_then_on_and_marked_late() -> Result<()> {
    let mut testbed = Testbed::start("end-to-end/late")?;
    testbed.end_agent(false)?;
    let mut hello = Hello::start(testbed.dir())?;
    let mut connection = hello.connect()?;
    for _ in 0..7 {
        call(&mut connection, "/before")?;
    }
    testbed.start_agent()?;
    // An old connection and a new one.
    for connection in [&mut connection, &mut hello.connect()?] {
        for _ in 0..10 {
            call(connection, "/after")?;
        }
    }
    let timeline = testbed
        .collector()
        .await_timeline(hello.pid(), "20 user requests", |timeline| timeline.user_count() >= 20)?;
    hello.stop()?;

    assert_eq!(timeline.value["completeness"]["late"], true, "{}", timeline.summary());
    assert!(!timeline.complete(), "{}", timeline.summary());
    assert_eq!(counts(&timeline), [("/after".to_owned(), 20)], "{}", timeline.summary());
    let requests = list(&timeline.value["requests"]);
    let numbered: Vec<_> = requests.filter(|request| request.get("ordinal").is_some()).collect();
    assert!(numbered.is_empty(), "nobody knows how many came before: {numbered:?}");
    assert_eq!(timeline.at("FIRST_REQUEST"), None, "{}", timeline.summary());
    let paid = list(&timeline.value["routes"]).find(|route| route.get("coldPenaltyNs").is_some());
    assert_eq!(paid, None, "the first request was not seen");
    Ok(())
}

#[test]
fn an_agent_without_its_collector_goes_on_and_delivers_when_it_comes() -> Result<()> {
    let mut testbed = Testbed::start("end-to-end/collector-away")?;
    testbed.end_agent(false)?;
    testbed.end_collector(false)?;
    testbed.start_agent()?;
    let mut hello = Hello::start(testbed.dir())?;
    let mut connection = hello.connect()?;
    for _ in 0..30 {
        call(&mut connection, "/hello")?;
    }
    // All of its life, with nobody to tell.
    hello.stop()?;
    testbed.check_alive()?;
    testbed.start_collector()?;
    let timeline = testbed.collector().await_timeline(hello.pid(), "the JVM's end", |timeline| {
        timeline.value["exit"].is_object() && timeline.user_count() >= 30
    })?;
    assert!(timeline.complete(), "{}", timeline.summary());
    assert_eq!(counts(&timeline), [("/hello".to_owned(), 30)]);
    let ordinals: Vec<u64> = timeline.user_requests().iter().map(|request| request.ordinal).collect();
    assert!(ordinals.iter().copied().eq(1..=30), "{ordinals:?}");
    Ok(())
}

/// Sends bytes on a connection of its own; whether anything came back.
fn send_raw(port: u16, bytes: &[u8]) -> Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("connect")?;
    stream.set_read_timeout(Some(SILENCE))?;
    // A server that has seen enough may close before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = [0; 64];
    Ok(stream.read(&mut answer).is_ok_and(|length| length > 0))
}

fn garbage() -> Vec<Vec<u8>> {
    let noise: Vec<u8> = (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
    vec![
        [b"GET /users/", vec![b'a'; 64 << 10].as_slice(), b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat(),
        [b"GET /users/1?q=", vec![b'a'; 64 << 10].as_slice()].concat(),
        noise,
        vec![0; 1024],
        b"\xff\xfe\x00\x01".to_vec(),
        b"get / users / 1 \r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"\x00GET /users/1 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"GET /users/1\x00 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"GET /users/1 HTTP/9.9.9\r\nHost: x\r\n\r\n".to_vec(),
        [b"GET ".as_slice(), &[0xc3, 0x28, 0xa0, 0xa1], b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat(),
        vec![b'A'; 2000],
    ]
}

#[test]
fn what_is_no_http_is_no_route_and_spoils_no_count() -> Result<()> {
    const CALLS: u64 = 30;
    let mut testbed = Testbed::start("end-to-end/garbage")?;
    let options = Options { jdk: jdk::choose()?, jvm: vec![], properties: vec![] };
    let mut service = testbed.start_service(&options)?;
    service.await_ready()?;
    let mut answered = 0;
    for bytes in garbage() {
        answered += u64::from(send_raw(service.port(), &bytes)?);
    }
    assert!(answered > 0, "the server answers none of it, so this shows nothing");
    for _ in 0..CALLS {
        call(&mut service.connect()?, READINESS)?;
        call(&mut service.connect()?, "/hello")?;
    }
    testbed.check_alive()?;
    service.stop()?;
    let timeline = testbed
        .collector()
        .await_timeline(service.pid(), "the service's end", |timeline| timeline.value["exit"].is_object())?;
    let expected = [(READINESS, CALLS), ("/hello", CALLS), ("~unparsed", answered)];
    assert_eq!(counts(&timeline), expected.map(|(route, count)| (route.to_owned(), count)));
    assert_eq!(number(&timeline.value["requestCounts"]["unparsed"]), Some(answered));
    assert!(timeline.complete(), "{}", timeline.summary());
    let log = std::fs::read_to_string(testbed.dir().join("agent.log"))?;
    assert!(!log.contains("panicked"), "{log}");
    Ok(())
}
