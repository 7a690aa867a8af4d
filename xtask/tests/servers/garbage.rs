//! Bytes that are no HTTP, or mean to be two things at once. What of it is a request, the server decides: what it
//! answers is one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use xtask::server::Server;
use xtask::timeline::number;
use xtask::traced::Traced;

use crate::oddities::{Seen, listed, seen};

/// Longest pause of a client for an answer; a server that knows none closes or stays silent.
const SILENCE: Duration = Duration::from_secs(2);
/// The one gap that a timeline may have here.
const UNCLEAR: &str = "a request does not say clearly where it ends";

fn only_what_is_answered_is_a_request(server: Server) -> Result<()> {
    let mut traced = Traced::serve(server)?;
    let mut expected = Vec::new();
    let mut unparsed = 0;
    for bytes in unreadable() {
        let answer = send_raw(traced.port(), &bytes)?;
        if !answer.is_empty() {
            unparsed += 1;
            // Tomcat answers HTTP/0.9, and some that is not even that, without a status line.
            let status = statuses(&answer).first().map(|&status| status.into());
            expected.push(Seen { status, ..seen("", "~unparsed", 0) });
        }
    }
    for bytes in smuggled() {
        let answers = statuses(&send_raw(traced.port(), bytes.as_bytes())?);
        // Its head came whole, so that it counts even where the server closes without a word.
        let status = answers.first().map(|&status| status.into());
        expected.push(Seen { status, ..seen("POST", "/echo", 0) });
        expected.extend(answers.get(1).map(|&status| seen("GET", "/smuggled", status)));
    }
    let timeline = traced.finish()?;
    let mut listed: Vec<Seen> = listed(&timeline).into_iter().map(|(seen, _)| seen).collect();
    // A second request that a server read with the first and left unanswered: nobody outside can tell whose it was.
    listed.retain(|seen| seen.route != "/smuggled" || seen.status.is_some());
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected, "{server:?}");
    assert_eq!(number(&timeline.value["requestCounts"]["unparsed"]), Some(unparsed));
    let others: Vec<String> = timeline.gaps().into_iter().filter(|gap| gap != UNCLEAR).collect();
    assert_eq!(others, Vec::<String>::new());
    Ok(())
}

#[test]
fn on_jdk_httpserver() -> Result<()> {
    only_what_is_answered_is_a_request(Server::Jdk)
}

#[test]
fn on_jetty() -> Result<()> {
    only_what_is_answered_is_a_request(Server::Jetty)
}

#[test]
fn on_undertow() -> Result<()> {
    only_what_is_answered_is_a_request(Server::Undertow)
}

#[test]
fn on_netty() -> Result<()> {
    only_what_is_answered_is_a_request(Server::Netty)
}

#[test]
fn on_tomcat() -> Result<()> {
    only_what_is_answered_is_a_request(Server::Tomcat)
}

/// No request line in what is looked at of them.
fn unreadable() -> Vec<Vec<u8>> {
    let noise: Vec<u8> = (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
    let long = vec![b'a'; 64 << 10];
    vec![
        [b"GET /users/", long.as_slice(), b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat(),
        [b"GET /users/1?q=", long.as_slice()].concat(),
        noise,
        vec![0; 1024],
        b"\xff\xfe\x00\x01".to_vec(),
        b"get / users / 1 \r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        // HTTP/0.9
        b"GET /hello\r\n".to_vec(),
        b"GET /hello\r\n\r\n".to_vec(),
        b"\x00GET /users/1 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"GET /users/1\x00 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        [b"GET ".as_slice(), &[0xc3, 0x28, 0xa0, 0xa1], b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat(),
        vec![b'A'; 2000],
    ]
}

/// Bodies whose length can be read in two ways, each with a second request for who reads the shorter one.
fn smuggled() -> Vec<String> {
    const SECOND: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = SECOND.len() + 5;
    let post =
        |headers: &str, body: &str| format!("POST /echo HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}{SECOND}");
    vec![
        post(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"), "0\r\n\r\n"),
        post(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), "0\r\n\r\n"),
        post(&format!("Content-Length: 5\r\nContent-Length: {length}\r\n"), "12345"),
        post(&format!("Content-Length: {length}\r\nTransfer-Encoding: xchunked\r\n"), "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "0;ext=\"\r\n\"\r\n\r\n"),
        // To some this is 5; with nothing behind it that is no question.
        post("Content-Length: +5\r\n", "12345").replace(SECOND, ""),
        post("Content-Length: 5\r\n", "12345"),
    ]
}

/// Sends bytes on a connection of its own; all that came back.
fn send_raw(port: u16, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("connect")?;
    stream.set_read_timeout(Some(SILENCE))?;
    // A server that has seen enough may close before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..length]);
    }
    Ok(answer)
}

/// Statuses of the answers in what came back. No body of these routes has a status line in it.
fn statuses(answers: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answers);
    text.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}
