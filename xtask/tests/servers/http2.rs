//! HTTP/2 without TLS, by prior knowledge and by upgrade: a stream is a request, however many share a connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use xtask::load::{Call, MIX, Sent, USERS};
use xtask::server::Server;
use xtask::timeline::{Timeline, list};
use xtask::traced::Traced;

use crate::counts::{WAVES, assert_counts};

/// Streams of one connection that are open at once.
const STREAMS: usize = 8;

/// An answer on one stream.
pub struct Answer {
    /// Its status code.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// Its headers.
    pub headers: HeaderMap,
    /// What followed the body.
    pub trailers: Option<HeaderMap>,
}

/// A connection by prior knowledge; its driver runs until the last handle is gone.
pub async fn connect(port: u16) -> Result<SendRequest<Bytes>> {
    let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    let (client, driver) = h2::client::handshake(stream).await?;
    tokio::spawn(driver);
    Ok(client)
}

/// Sends one request and reads its whole answer.
pub async fn exchange(client: SendRequest<Bytes>, request: Request<()>, body: Bytes) -> Result<Answer> {
    let mut client = client.ready().await?;
    let (answer, mut out) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        out.send_data(body, true)?;
    }
    let (head, mut stream) = answer.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        trailers: stream.trailers().await?,
    })
}

/// Makes `total` calls over `connections` connections at once, each with at most so many streams open.
async fn drive<F, R>(port: u16, total: usize, connections: usize, streams: usize, call: F) -> Result<Sent>
where
    F: Fn(SendRequest<Bytes>, usize) -> R + Copy + Send + 'static,
    R: Future<Output = Result<Sent>> + Send + 'static,
{
    let one_connection = move |worker: usize| async move {
        let client = connect(port).await?;
        let mut sent = Sent::default();
        let mut open = JoinSet::new();
        for number in (worker..total).step_by(connections) {
            if open.len() == streams {
                sent.merge(open.join_next().await.context("a stream is open")???);
            }
            open.spawn(call(client.clone(), number));
        }
        while let Some(ended) = open.join_next().await {
            sent.merge(ended??);
        }
        anyhow::Ok(sent)
    };
    let mut running: JoinSet<_> = (0..connections).map(one_connection).collect();
    let mut sent = Sent::default();
    while let Some(done) = running.join_next().await {
        sent.merge(done??);
    }
    Ok(sent)
}

/// HTTP/2 has no chunks.
fn mix() -> Vec<Call> {
    let chunked = |call: &Call| call.headers.starts_with("Transfer-Encoding");
    MIX.into_iter().filter(|call| !chunked(call)).chain([USERS]).collect()
}

async fn call(client: SendRequest<Bytes>, port: u16, number: usize) -> Result<Sent> {
    let mix = mix();
    let call = &mix[(number + number / mix.len()) % mix.len()];
    let path = call.path.replace("{}", &number.to_string());
    let mut request = Request::builder().method(call.method).uri(format!("http://127.0.0.1:{port}{path}"));
    if call.probe {
        request = request.header("user-agent", "kube-probe/1.34");
    }
    let answer = exchange(client, request.body(())?, Bytes::from_static(call.body.as_bytes())).await?;
    ensure!(answer.status == call.status, "{} {path}: {}", call.method, answer.status);
    let mut sent = Sent::default();
    if call.probe {
        sent.probe = 1;
    } else {
        sent.add(call.method, call.route, 1);
    }
    Ok(sent)
}

/// Serves all waves of calls, each stream a call, and holds the counts to what was sent.
pub fn counted_once<F, R>(server: Server, streams: usize, call: F) -> Result<Timeline>
where
    F: Fn(SendRequest<Bytes>, u16, usize) -> R + Copy + Send + 'static,
    R: Future<Output = Result<Sent>> + Send + 'static,
{
    let mut traced = Traced::serve(server)?;
    let port = traced.port();
    let mut sent = Sent::default();
    let runtime = Runtime::new()?;
    for (total, connections) in WAVES {
        let load = drive(port, total, connections, streams, move |client, number| call(client, port, number));
        sent.merge(runtime.block_on(load)?);
    }
    drop(runtime);
    let timeline = traced.finish()?;
    assert_counts(&timeline, &sent);
    Ok(timeline)
}

fn every_stream_is_counted_once(server: Server, streams: usize) -> Result<()> {
    let timeline = counted_once(server, streams, call)?;
    for request in list(&timeline.value["requests"]) {
        assert_eq!(request["protocol"], "h2", "{request}");
    }
    Ok(())
}

#[test]
fn prior_knowledge_on_netty() -> Result<()> {
    every_stream_is_counted_once(Server::Netty, STREAMS)
}

#[test]
fn prior_knowledge_on_undertow() -> Result<()> {
    every_stream_is_counted_once(Server::Undertow, STREAMS)
}

/// A large answer in many frames, and a small one beside it on the same connection.
#[test]
fn a_large_answer_is_one_request_and_holds_up_no_other() -> Result<()> {
    let mut traced = Traced::serve(Server::Netty)?;
    let port = traced.port();
    Runtime::new()?.block_on(async {
        let client = connect(port).await?;
        let get = |path: &str| Request::get(format!("http://127.0.0.1:{port}{path}")).body(());
        let (big, hello) = tokio::try_join!(
            exchange(client.clone(), get("/big")?, Bytes::new()),
            exchange(client, get("/hello")?, Bytes::new())
        )?;
        ensure!((big.body.len(), hello.body.len()) == (4 << 20, 6));
        anyhow::Ok(())
    })?;
    let mut sent = Sent::default();
    sent.add("GET", "/big", 1);
    sent.add("GET", "/hello", 1);
    assert_counts(&traced.finish()?, &sent);
    Ok(())
}

#[test]
fn an_upgrade_is_a_request_and_so_is_each_stream_after_it() -> Result<()> {
    for server in [Server::Netty, Server::Undertow] {
        let mut traced = Traced::serve(server)?;
        upgrade(traced.port()).with_context(|| format!("{server:?}"))?;
        let mut sent = Sent::default();
        sent.add("GET", "/hello", 1);
        sent.add("GET", "/users/{id}", 2);
        assert_counts(&traced.finish()?, &sent);
    }
    Ok(())
}

/// Frame types and flags of RFC 9113.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// By hand, since no client library still does it: the first request goes as HTTP/1.1 and is answered on stream 1.
fn upgrade(port: u16) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
    // HTTP2-Settings: MAX_CONCURRENT_STREAMS 100, INITIAL_WINDOW_SIZE 65535.
    stream.write_all(
        b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
          HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    )?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).context("the upgrade's answer")?;
        head.push(byte[0]);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
    stream.write_all(&frame(SETTINGS, 0, 0, b""))?;
    await_end(&mut stream, 1)?;
    for (id, path) in [(3, "/users/3"), (5, "/users/5")] {
        // :method GET and :scheme http of the static table, :path and :authority as literals that are not indexed.
        let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len())?];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(b"\x01\x01x");
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, id, &block))?;
        await_end(&mut stream, id)?;
    }
    Ok(())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads frames until one ends this stream.
fn await_end(stream: &mut TcpStream, id: u32) -> Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).context("a frame's head")?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).context("a frame's payload")?;
        let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if of == id && matches!(head[3], DATA | HEADERS) && head[4] & END_STREAM != 0 {
            return Ok(());
        }
    }
}
