//! What HTTP/1.1 allows and what clients do beside it: each in its turn on each server, and the timeline's list of
//! requests is what was sent, in its order.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::http::Connection;
use xtask::server::Server;
use xtask::timeline::{Timeline, list, number};
use xtask::traced::Traced;
use xtask::wait;

/// Larger than any buffer between the two.
const LARGE: usize = 3 << 20;
/// Long enough for a server that waits for data to read what has come; whether it does changes no count.
const MOMENT: Duration = Duration::from_millis(1);

/// A request as its timeline should have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Empty for what is no HTTP.
    pub method: String,
    /// Its path template.
    pub route: String,
    /// None where the client broke off before an answer, and where none is to be foretold.
    pub status: Option<u64>,
}

/// A request that was answered with `status`.
pub fn seen(method: &str, route: &str, status: u16) -> Seen {
    Seen { method: method.into(), route: route.into(), status: Some(status.into()) }
}

type Oddity = fn(u16) -> Result<Vec<Seen>>;

const ODDITIES: [(&str, Oddity); 13] = [
    ("keep-alive", keep_alive),
    ("pipelined", pipelined),
    ("split at every byte", split_at_every_byte),
    ("chunks in writes of their own", chunks),
    ("expect continue", expect_continue),
    ("large bodies", large_bodies),
    ("no body", no_body),
    ("early answer", early_answer),
    ("client goes within the head", gone_within_head),
    ("client goes within the body", gone_within_body),
    ("client goes within the answer", gone_within_answer),
    ("no keep-alive", no_keep_alive),
    ("server-sent events", events),
];

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

fn post(path: &str, headers: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{body}")
}

fn keep_alive(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    for _ in 0..3 {
        ensure!(connection.get("/hello", "")?.status == 200);
    }
    Ok(vec![seen("GET", "/hello", 200); 3])
}

fn pipelined(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    let requests = [
        get("/hello"),
        post("/echo", "Content-Length: 5\r\n", "GET /"),
        get("/unchanged"),
        get("/hello").replace("GET", "HEAD"),
        post("/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        get("/nothing"),
    ];
    connection.send(requests.concat().as_bytes())?;
    let expected = [
        ("GET", "/hello", 200),
        ("POST", "/echo", 200),
        ("GET", "/unchanged", 304),
        ("HEAD", "/hello", 200),
        ("POST", "/echo", 200),
        ("GET", "/nothing", 204),
    ];
    for (method, path, status) in expected {
        let answer = connection.receive(method)?;
        ensure!(answer.status == status, "{method} {path}: {}", answer.status);
    }
    Ok(expected.map(|(method, path, status)| seen(method, path, status)).to_vec())
}

fn split_at_every_byte(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    let request = post("/echo", "Content-Length: 2\r\n", "ab");
    for at in 1..request.len() {
        let (first, second) = request.as_bytes().split_at(at);
        connection.send(first)?;
        wait::pause(MOMENT);
        connection.send(second)?;
        let answer = connection.receive("POST")?;
        ensure!((answer.status, answer.body.as_slice()) == (200, b"ab"), "split at {at}: {answer:?}");
    }
    Ok(vec![seen("POST", "/echo", 200); request.len() - 1])
}

fn chunks(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    let parts = ["", "4\r\nGET \r\n", "a\r\n/hello HTT\r\n", "5\r\nP/1.1\r\n", "0\r\n\r\n"];
    connection.send(post("/echo", "Transfer-Encoding: chunked\r\n", "").as_bytes())?;
    for part in parts {
        wait::pause(MOMENT);
        connection.send(part.as_bytes())?;
    }
    let answer = connection.receive("POST")?;
    ensure!(answer.body == b"GET /hello HTTP/1.1", "{answer:?}");
    ensure!(connection.get("/hello", "")?.status == 200);
    Ok(vec![seen("POST", "/echo", 200), seen("GET", "/hello", 200)])
}

fn expect_continue(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    for _ in 0..2 {
        connection.send(post("/echo", "Content-Length: 4\r\nExpect: 100-continue\r\n", "").as_bytes())?;
        ensure!(connection.receive("POST")?.status == 100);
        connection.send(b"late")?;
        let answer = connection.receive("POST")?;
        ensure!((answer.status, answer.body.as_slice()) == (200, b"late"), "{answer:?}");
    }
    Ok(vec![seen("POST", "/echo", 200); 2])
}

fn large_bodies(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    let request = post("/echo", &format!("Content-Length: {LARGE}\r\n"), &"x".repeat(LARGE));
    // The echo may begin before the last byte has come: who only writes would wait for ever.
    let mut writer = connection.second()?;
    let answer = std::thread::scope(|scope| {
        let writing = scope.spawn(move || writer.send(request.as_bytes()));
        let answer = connection.receive("POST")?;
        writing.join().expect("the writer does not panic")?;
        anyhow::Ok(answer)
    })?;
    ensure!((answer.status, answer.body.len()) == (200, LARGE), "{}", answer.body.len());
    for _ in 0..2 {
        let answer = connection.get("/big", "")?;
        ensure!((answer.status, answer.body.len()) == (200, 4 << 20), "{}", answer.body.len());
    }
    Ok(vec![seen("POST", "/echo", 200), seen("GET", "/big", 200), seen("GET", "/big", 200)])
}

fn no_body(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    let calls = [("HEAD", "/hello", 200), ("GET", "/nothing", 204), ("GET", "/unchanged", 304)];
    for (method, path, status) in calls.into_iter().chain(calls) {
        connection.send(get(path).replace("GET", method).as_bytes())?;
        ensure!(connection.receive(method)?.status == status);
    }
    Ok(calls.into_iter().chain(calls).map(|(method, path, status)| seen(method, path, status)).collect())
}

fn early_answer(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    connection.send(post("/early", "Content-Length: 1000\r\n", "0123456789").as_bytes())?;
    ensure!(connection.receive("POST")?.status == 200);
    // Some servers read the rest, some have closed.
    let _ = connection.send(&[b'x'; 990]);
    let _ = connection.shut_down_writing();
    connection.receive_rest();
    Ok(vec![seen("POST", "/early", 200)])
}

fn gone_within_head(port: u16) -> Result<Vec<Seen>> {
    // Not within a header: the JDK's server takes the end of the connection for the end of the head, and answers.
    for part in ["G", "GET /hello", "GET /hello HTTP/1.1"] {
        let mut connection = Connection::open(port)?;
        connection.send(part.as_bytes())?;
        wait::pause(MOMENT);
    }
    Ok(vec![])
}

fn gone_within_body(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    connection.send(post("/echo", "Content-Length: 100\r\n", "0123456789").as_bytes())?;
    connection.shut_down_writing()?;
    connection.receive_rest();
    Ok(vec![Seen { status: None, ..seen("POST", "/echo", 0) }])
}

fn gone_within_answer(port: u16) -> Result<Vec<Seen>> {
    for path in ["/big", "/sse"] {
        let mut connection = Connection::open(port)?;
        connection.send(get(path).as_bytes())?;
        connection.receive_until(b"\r\n\r\n")?;
    }
    Ok(vec![seen("GET", "/big", 200), seen("GET", "/sse", 200)])
}

/// The next connection often has the same file descriptor, within microseconds.
fn no_keep_alive(port: u16) -> Result<Vec<Seen>> {
    const TIMES: usize = 30;
    for _ in 0..TIMES {
        let mut connection = Connection::open(port)?;
        ensure!(connection.get("/hello", "Connection: close\r\n")?.status == 200);
    }
    Ok(vec![seen("GET", "/hello", 200); TIMES])
}

fn events(port: u16) -> Result<Vec<Seen>> {
    let mut connection = Connection::open(port)?;
    for _ in 0..2 {
        connection.send(get("/sse").as_bytes())?;
        let answer = connection.receive("GET")?;
        ensure!(answer.body.ends_with(b"data: event 5\n\n"), "{answer:?}");
    }
    ensure!(connection.get("/hello", "")?.status == 200);
    Ok(vec![seen("GET", "/sse", 200), seen("GET", "/sse", 200), seen("GET", "/hello", 200)])
}

/// The user requests of a timeline, in the order in which their data was ready.
pub fn listed(timeline: &Timeline) -> Vec<(Seen, Value)> {
    let mut requests: Vec<&Value> = list(&timeline.value["requests"]).collect();
    requests.sort_by_key(|request| (number(&request["sinceExecNs"]), number(&request["ordinal"])));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = |request: &Value| Seen {
        method: text(&request["method"]),
        route: text(&request["route"]),
        status: number(&request["status"]),
    };
    requests.into_iter().map(|request| (seen(request), request.clone())).collect()
}

/// Asserts that the list is what the oddities sent, and names the first that is not.
fn assert_listed(timeline: &Timeline, expected: &[(&str, Vec<Seen>)]) {
    let mut rest = listed(timeline).into_iter().map(|(seen, _)| seen).collect::<Vec<_>>();
    for (name, requests) in expected {
        let mut theirs: Vec<Seen> = rest.drain(..requests.len().min(rest.len())).collect();
        for (listed, sent) in theirs.iter_mut().zip(requests) {
            if sent.status.is_none() {
                listed.status = None;
            }
        }
        assert_eq!(&theirs, requests, "{name}; then {:?}", &rest[..rest.len().min(5)]);
    }
    assert_eq!(rest, [], "more than was sent");
    let total: usize = expected.iter().map(|(_, requests)| requests.len()).sum();
    assert_eq!(timeline.user_count(), total as u64, "{}", timeline.summary());
    assert!(timeline.complete(), "{}", timeline.summary());
}

fn each_is_counted_as_sent(server: Server) -> Result<()> {
    let mut traced = Traced::serve(server)?;
    let mut expected = Vec::new();
    for (name, oddity) in ODDITIES {
        let mut sent = oddity(traced.port()).with_context(|| name)?;
        if server == Server::Undertow && name == "pipelined" {
            // It collects their answers and writes them at once: only the first one's head opens a write.
            sent[1..].iter_mut().for_each(|request| request.status = None);
        }
        expected.push((name, sent));
    }
    let timeline = traced.finish()?;
    assert_listed(&timeline, &expected);
    for (seen, request) in listed(&timeline) {
        let streaming = seen.route == "/sse";
        assert_eq!(request["streaming"].as_bool().unwrap_or(false), streaming, "{request}");
        assert_eq!(request["protocol"], "http/1.1", "{request}");
    }
    Ok(())
}

#[test]
fn on_jdk_httpserver() -> Result<()> {
    each_is_counted_as_sent(Server::Jdk)
}

#[test]
fn on_jetty() -> Result<()> {
    each_is_counted_as_sent(Server::Jetty)
}

#[test]
fn on_undertow() -> Result<()> {
    each_is_counted_as_sent(Server::Undertow)
}

#[test]
fn on_netty() -> Result<()> {
    each_is_counted_as_sent(Server::Netty)
}

#[test]
fn on_tomcat() -> Result<()> {
    each_is_counted_as_sent(Server::Tomcat)
}

/// Its latency ends with the first event: the client had that before jcold's clock could stop later.
#[test]
fn a_stream_of_events_takes_as_long_as_its_first_byte() -> Result<()> {
    let mut traced = Traced::serve(Server::Jetty)?;
    let mut connection = Connection::open(traced.port())?;
    let started = Instant::now();
    connection.send(get("/sse").as_bytes())?;
    connection.receive_until(b"data: event 2")?;
    let to_second = u64::try_from(started.elapsed().as_nanos())?;
    connection.receive_until(b"data: event 5")?;
    let timeline = traced.finish()?;
    let [(_, request)] = &listed(&timeline)[..] else { panic!("{:?}", listed(&timeline)) };
    assert_eq!(request["streaming"], true, "{request}");
    assert!(
        number(&request["latencyNs"]).unwrap_or(0) < to_second,
        "{to_second} ns to the second: {request}"
    );
    Ok(())
}

#[test]
fn a_websocket_is_one_request_whatever_is_said_on_it() -> Result<()> {
    for server in [Server::Jetty, Server::Undertow, Server::Netty] {
        let mut traced = Traced::serve(server)?;
        let mut connection = Connection::open(traced.port())?;
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        ensure!(connection.get("/ws", upgrade)?.status == 101, "{server:?}");
        for _ in 0..20 {
            // One text frame, "GET /", masked with zeroes.
            connection.send(b"\x81\x85\0\0\0\0GET /")?;
            connection.receive_until(b"\x81\x05GET /")?;
        }
        drop(connection);
        let timeline = traced.finish()?;
        let seen_all: Vec<Seen> = listed(&timeline).into_iter().map(|(seen, _)| seen).collect();
        assert_eq!(seen_all, [seen("GET", "/ws", 101)], "{server:?}");
        assert!(timeline.complete(), "{server:?}: {}", timeline.summary());
        let inbound = list(&timeline.value["inbound"]).find(|entry| entry["protocol"] == "websocket");
        assert_eq!(inbound.and_then(|entry| number(&entry["connections"])), Some(1), "{server:?}");
    }
    Ok(())
}
