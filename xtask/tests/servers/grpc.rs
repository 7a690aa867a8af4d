//! gRPC: a call is a request by its service and method, and the health service is asked by probes.

use anyhow::{Context, Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use xtask::load::Sent;
use xtask::server::Server;
use xtask::timeline::{list, number};

use crate::http2::{counted_once, exchange};

/// Streams of one connection that are open at once.
const STREAMS: usize = 8;
const HEALTH: &str = "/grpc.health.v1.Health/Check";
/// Calls, with the status of gRPC that each ends with. An empty message asks for the server's health.
const CALLS: [(&str, &str, &str); 5] = [
    ("/jcold.testbed.Greeter/Hello", "you", "0"),
    ("/jcold.testbed.Greeter/Count", "", "0"),
    ("/jcold.testbed.Greeter/Fail", "", "9"),
    (HEALTH, "", "0"),
    ("/jcold.testbed.Greeter/Missing", "", "12"),
];

async fn call(client: SendRequest<Bytes>, port: u16, number: usize) -> Result<Sent> {
    let (path, message, expected) = CALLS[(number + number / CALLS.len()) % CALLS.len()];
    let request = Request::post(format!("http://127.0.0.1:{port}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len())?);
    body.put_slice(message.as_bytes());
    let answer = exchange(client, request, body.freeze()).await.context(path)?;
    let trailers = answer.trailers.unwrap_or(answer.headers);
    let status = trailers.get("grpc-status").and_then(|status| status.to_str().ok());
    ensure!((answer.status, status) == (200, Some(expected)), "{path}: {} {status:?}", answer.status);
    let mut sent = Sent::default();
    if path == HEALTH {
        sent.probe = 1;
    } else {
        sent.add("POST", path, 1);
    }
    Ok(sent)
}

#[test]
fn every_call_is_counted_once() -> Result<()> {
    let timeline = counted_once(Server::Grpc, STREAMS, call)?;
    for request in list(&timeline.value["requests"]) {
        assert_eq!(request["protocol"], "h2", "{request}");
        assert_eq!(number(&request["status"]), Some(200), "{request}");
    }
    Ok(())
}
