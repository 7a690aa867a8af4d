//! An HTTP/1.1 client for loopback that leaves nothing to chance: one connection is one socket, one request is one
//! write, and nothing is retried, pooled or followed. What is measured depends on just that.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEADERS: usize = 64;

/// A connection to a port of loopback.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    port: u16,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Its status code.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// Time from before the request's write to after the last byte's read.
    pub elapsed: Duration,
}

impl Connection {
    /// Connects.
    pub fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("connect to port {port}"))?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        stream.set_read_timeout(Some(TIMEOUT)).context("set a read timeout")?;
        Ok(Self { stream, port })
    }

    /// Sends one GET and reads its whole answer. `headers` are further lines, each ended by CRLF.
    pub fn get(&mut self, path: &str, headers: &str) -> Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{headers}\r\n", self.port);
        self.exchange(request.as_bytes()).with_context(|| format!("GET {path}"))
    }

    /// Sends one request as it is, in one write, and reads its whole answer.
    pub fn exchange(&mut self, request: &[u8]) -> Result<Response> {
        let started = Instant::now();
        self.stream.write_all(request).context("write")?;
        let mut received = Vec::with_capacity(1024);
        loop {
            if let Some((status, body)) = parse(&received)? {
                return Ok(Response { status, body, elapsed: started.elapsed() });
            }
            let mut chunk = [0; 4096];
            let length = self.stream.read(&mut chunk).context("read")?;
            if length == 0 {
                bail!("the connection was closed within the answer");
            }
            received.extend_from_slice(&chunk[..length]);
        }
    }
}

/// Asks an endpoint as the kubelet does: on a connection of its own, under its own name. The answer's status; none
/// when nothing listens.
pub fn probe(port: u16, path: &str) -> Result<Option<u16>> {
    let Ok(mut connection) = Connection::open(port) else { return Ok(None) };
    let headers = "User-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n";
    Ok(Some(connection.get(path, headers)?.status))
}

/// Status and body of a whole answer; none while it is not whole.
fn parse(received: &[u8]) -> Result<Option<(u16, Vec<u8>)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(received).context("malformed answer")? else {
        return Ok(None);
    };
    let status = head.code.context("answer without a status")?;
    let body = &received[length..];
    let header = |name: &str| head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    if header("transfer-encoding").is_some_and(|value| value.value.eq_ignore_ascii_case(b"chunked")) {
        return Ok(unchunk(body)?.map(|body| (status, body)));
    }
    let length: usize = match header("content-length") {
        Some(value) => std::str::from_utf8(value.value)
            .context("content-length")?
            .trim()
            .parse()
            .context("content-length")?,
        None => 0,
    };
    Ok((body.len() >= length).then(|| (status, body[..length].to_vec())))
}

/// The content of a chunked body; none while it is not whole.
fn unchunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Ok(status) = httparse::parse_chunk_size(rest) else { bail!("malformed chunk") };
        let httparse::Status::Complete((start, size)) = status else { return Ok(None) };
        let size = usize::try_from(size).context("chunk size")?;
        if rest.len() < start + size + 2 {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&rest[start..start + size]);
        rest = &rest[start + size + 2..];
    }
}

/// A port of loopback that is free now.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// A free port from 8080 on, where one looks for a service.
pub fn free_service_port() -> Result<u16> {
    (8080..=9999)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .context("no port from 8080 to 9999 is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(parse(fixed).unwrap(), Some((200, b"hello".to_vec())));
        let chunked = b"HTTP/1.1 404 \r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).unwrap(), Some((404, b"abcde".to_vec())));
        for whole in [&fixed[..], &chunked[..]] {
            for length in 0..whole.len() {
                assert_eq!(parse(&whole[..length]).unwrap(), None, "cut at {length}");
            }
        }
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
    }
}
