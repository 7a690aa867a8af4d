//! An HTTP/1.1 client for loopback that leaves nothing to chance: one connection is one socket, one request is one
//! write, and nothing is retried, pooled or followed. What is measured depends on just that.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEADERS: usize = 64;

/// A connection to a port of loopback, cleartext unless another stream is put between.
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    stream: S,
    port: u16,
    /// Received and not yet part of an answer.
    received: Vec<u8>,
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
        Ok(Self { stream, port, received: Vec::new() })
    }

    /// The same connection once more, to write on one thread and read on another.
    pub fn second(&self) -> Result<Self> {
        let stream = self.stream.try_clone().context("share a connection")?;
        Ok(Self { stream, port: self.port, received: Vec::new() })
    }

    /// Puts something between: TLS.
    pub fn wrap<S>(self, wrap: impl FnOnce(TcpStream) -> S) -> Connection<S> {
        Connection { stream: wrap(self.stream), port: self.port, received: self.received }
    }

    /// Says that nothing more will be sent.
    pub fn shut_down_writing(&self) -> Result<()> {
        self.stream.shutdown(Shutdown::Write).context("shut down")
    }
}

impl<S: Read + Write> Connection<S> {
    /// Sends one GET and reads its whole answer. `headers` are further lines, each ended by CRLF.
    pub fn get(&mut self, path: &str, headers: &str) -> Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{headers}\r\n", self.port);
        self.exchange(request.as_bytes()).with_context(|| format!("GET {path}"))
    }

    /// Sends one request as it is, in one write, and reads its whole answer.
    pub fn exchange(&mut self, request: &[u8]) -> Result<Response> {
        let started = Instant::now();
        self.send(request)?;
        self.answer("GET", started)
    }

    /// Sends bytes as they are, in one write.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("write")
    }

    /// Reads one whole answer to a request of this method, and no byte of the next. An interim answer
    /// (`100 Continue`) counts as one. Its time runs from this call on.
    pub fn receive(&mut self, method: &str) -> Result<Response> {
        self.answer(method, Instant::now())
    }

    /// Reads until at least `needle` has come; all that has come and is not part of an answer.
    pub fn receive_until(&mut self, needle: &[u8]) -> Result<Vec<u8>> {
        while !self.received.windows(needle.len()).any(|window| window == needle) {
            if self.read_more()? == 0 {
                bail!("the connection was closed before `{}`", needle.escape_ascii());
            }
        }
        Ok(std::mem::take(&mut self.received))
    }

    /// The stream itself.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Reads what still comes until the peer closes or resets the connection.
    pub fn receive_rest(mut self) -> Vec<u8> {
        while self.read_more().is_ok_and(|length| length > 0) {}
        self.received
    }

    fn answer(&mut self, method: &str, started: Instant) -> Result<Response> {
        loop {
            if let Some((status, body, length)) = parse(&self.received, method)? {
                self.received.drain(..length);
                return Ok(Response { status, body, elapsed: started.elapsed() });
            }
            if self.read_more()? == 0 {
                bail!("the connection was closed within the answer");
            }
        }
    }

    fn read_more(&mut self) -> Result<usize> {
        let mut chunk = [0; 16 << 10];
        let length = self.stream.read(&mut chunk).context("read")?;
        self.received.extend_from_slice(&chunk[..length]);
        Ok(length)
    }
}

/// Asks an endpoint as the kubelet does: on a connection of its own, under its own name. The answer's status; none
/// when nothing listens.
pub fn probe(port: u16, path: &str) -> Result<Option<u16>> {
    let Ok(mut connection) = Connection::open(port) else { return Ok(None) };
    let headers = "User-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n";
    Ok(Some(connection.get(path, headers)?.status))
}

/// Status, body and whole length of the answer to a request of `method`; none while it is not whole.
fn parse(received: &[u8], method: &str) -> Result<Option<(u16, Vec<u8>, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = head.parse(received).context("malformed answer")? else {
        return Ok(None);
    };
    let status = head.code.context("answer without a status")?;
    if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        return Ok(Some((status, Vec::new(), start)));
    }
    let body = &received[start..];
    let header = |name: &str| head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    if header("transfer-encoding").is_some_and(|value| value.value.eq_ignore_ascii_case(b"chunked")) {
        return Ok(unchunk(body)?.map(|(body, length)| (status, body, start + length)));
    }
    let length: usize = match header("content-length") {
        Some(value) => std::str::from_utf8(value.value)
            .context("content-length")?
            .trim()
            .parse()
            .context("content-length")?,
        None => 0,
    };
    Ok((body.len() >= length).then(|| (status, body[..length].to_vec(), start + length)))
}

/// Content and whole length of a chunked body; none while it is not whole.
fn unchunk(chunked: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    let mut rest = chunked;
    loop {
        let Ok(status) = httparse::parse_chunk_size(rest) else { bail!("malformed chunk") };
        let httparse::Status::Complete((start, size)) = status else { return Ok(None) };
        let size = usize::try_from(size).context("chunk size")?;
        if rest.len() < start + size + 2 {
            return Ok(None);
        }
        body.extend_from_slice(&rest[start..start + size]);
        rest = &rest[start + size + 2..];
        if size == 0 {
            return Ok(Some((body, chunked.len() - rest.len())));
        }
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
    fn an_answer_is_whole_when_its_body_is_and_ends_before_the_next() {
        let fixed = &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..];
        let chunked =
            &b"HTTP/1.1 404 \r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"[..];
        for (whole, status, body) in [(fixed, 200, "hello"), (chunked, 404, "abcde")] {
            let expected = Some((status, body.as_bytes().to_vec(), whole.len()));
            assert_eq!(parse(whole, "GET").unwrap(), expected);
            assert_eq!(parse(&[whole, b"HTTP/1.1 200"].concat(), "GET").unwrap(), expected);
            for length in 0..whole.len() {
                assert_eq!(parse(&whole[..length], "GET").unwrap(), None, "cut at {length}");
            }
        }
    }

    #[test]
    fn some_answers_have_no_body_whatever_their_headers_say() {
        for (head, method) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "POST"),
        ] {
            let (_, body, length) = parse(head.as_bytes(), method).unwrap().unwrap();
            assert_eq!((body.len(), length), (0, head.len()), "{head}");
        }
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(parse(b"SSH-2.0-OpenSSH_9.2\r\n", "GET").is_err());
    }
}
