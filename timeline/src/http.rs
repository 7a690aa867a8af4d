//! The first bytes of a request to its method, route and sender. Nothing else of them survives this module.

pub use crate::wire::status;
use crate::{event::Opening, wire::route};

/// Bytes kept until the head of a request is whole.
const HEAD_MAX: usize = 512;
/// Headers looked at for the User-Agent.
const HEADERS_MAX: usize = 32;
/// The kubelet's User-Agent (pkg/probe/http/request.go).
const PROBER: &str = "kube-probe/";

/// Collects a request's first bytes, which may arrive split at any of them, until they say what they open.
#[derive(Debug, Default)]
pub struct HeadParser {
    head: Vec<u8>,
    decided: bool,
}

impl HeadParser {
    /// Takes the next bytes. `more` says that bytes behind them were read but not captured.
    pub fn feed(&mut self, data: &[u8], more: bool) -> Option<Opening> {
        if self.decided || (data.is_empty() && !more) {
            return None;
        }
        let room = HEAD_MAX - self.head.len();
        self.head.extend_from_slice(&data[..data.len().min(room)]);
        let last = more || self.head.len() == HEAD_MAX;
        let opening = opening(&self.head, last)?;
        self.decided = true;
        self.head = Vec::new();
        Some(opening)
    }

    /// The bytes so far were all there were: an answer begins.
    pub fn reset(&mut self) {
        self.head.clear();
        self.decided = false;
    }
}

fn opening(head: &[u8], last: bool) -> Option<Opening> {
    // Empty lines before a request are to be ignored (RFC 9112, section 2.2).
    let begin = head.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(head.len());
    let head = &head[begin..];
    match head {
        // A handshake record (RFC 8446, section 5.1).
        [0x16, 0x03, ..] => return Some(Opening::Tls),
        [0x16] if !last => return None,
        _ => {}
    }
    let Some(line_end) = head.windows(2).position(|w| w == b"\r\n") else {
        return (last || !may_be_request(head)).then_some(Opening::Unparsed);
    };
    let head_end = head.windows(4).position(|w| w == b"\r\n\r\n");
    if head_end.is_none() && !last {
        return None;
    }
    if head.starts_with(b"PRI * HTTP/2.0\r\n") {
        return Some(Opening::Http2);
    }
    let headers = Headers::parse(&head[line_end + 2..]);
    let more = head_end.is_some_and(|end| head.len() > end + 4);
    let pipelined = more && !headers.announce_body;
    let line = [&head[..line_end], b"\r\n\r\n"].concat();
    let mut no_headers = [];
    let mut request = httparse::Request::new(&mut no_headers);
    match (request.parse(&line), request.method, request.path) {
        (Ok(status), Some(method), Some(path)) if status.is_complete() => Some(Opening::Request {
            method: method.to_owned(),
            route: route::template(path),
            prober: headers.from_prober,
            pipelined,
        }),
        _ => Some(Opening::Unparsed),
    }
}

/// So far nothing but a method: letters, then a blank.
fn may_be_request(head: &[u8]) -> bool {
    let method = head.split(|&b| b == b' ').next().unwrap_or_default();
    method.len() <= 16 && method.iter().all(u8::is_ascii_uppercase)
}

/// What the headers tell.
#[derive(Default)]
struct Headers {
    from_prober: bool,
    /// Bytes behind the head belong to the request.
    announce_body: bool,
}

impl Headers {
    fn parse(bytes: &[u8]) -> Self {
        // Only whole lines: what is cut off may be any header.
        let Some(end) = bytes.windows(2).rposition(|w| w == b"\r\n") else { return Self::default() };
        let whole = [&bytes[..end], b"\r\n\r\n"].concat();
        let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
        // With more headers than fit, those that did are parsed all the same.
        let _ = httparse::parse_headers(&whole, &mut parsed);
        let values = |name: &'static str| {
            let named = move |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
            parsed.iter().filter(named).map(|header| header.value)
        };
        Self {
            from_prober: values("user-agent").any(|agent| agent.starts_with(PROBER.as_bytes())),
            // RFC 9112, section 6.3.
            announce_body: values("content-length").any(|length| length != b"0")
                || values("transfer-encoding").next().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(head: &[u8]) -> Option<Opening> {
        HeadParser::default().feed(head, false)
    }

    fn request(method: &str, route: &str, prober: bool) -> Opening {
        Opening::Request { method: method.into(), route: route.into(), prober, pipelined: false }
    }

    #[test]
    fn openings() {
        let probe = b"GET /ready HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\n\r\n";
        for (head, expect) in [
            (&b"GET /users/1 HTTP/1.1\r\nHost: x\r\n\r\n"[..], Some(request("GET", "/users/{id}", false))),
            (probe, Some(request("GET", "/ready", true))),
            (b"\r\nGET / HTTP/1.1\r\n\r\n", Some(request("GET", "/", false))),
            (b"\r\n", None),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Opening::Http2)),
            (b"\x16\x03\x01\x02\x00\x01", Some(Opening::Tls)),
            (b"\x00\x01\x02", Some(Opening::Unparsed)),
            (b"hello\r\n\r\n", Some(Opening::Unparsed)),
            (b"GET /\r\n\r\n", Some(Opening::Unparsed)),
            (b"GET /x HTTP/1.1\r\nHost", None),
            (b"GE", None),
        ] {
            assert_eq!(parse(head), expect, "{:?}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_request_split_at_every_byte_is_the_same_request() {
        let head = b"POST /users/17/items?q=1 HTTP/1.1\r\nContent-Length: 4\r\nuser-agent: kube-probe/1.34\r\n\r\nbody";
        let whole = parse(head);
        assert_eq!(whole, Some(request("POST", "/users/{id}/items", true)));
        for cut in 1..head.len() - 4 {
            let mut parser = HeadParser::default();
            let first = parser.feed(&head[..cut], false);
            assert_eq!(first.or_else(|| parser.feed(&head[cut..], false)), whole, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_behind_a_head_without_a_body_are_the_next_request() {
        for (head, expect) in [
            ("GET /a HTTP/1.1\r\n\r\n", false),
            ("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n", true),
            ("POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /b", true),
            ("POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody", false),
            ("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false),
        ] {
            let Some(Opening::Request { pipelined, .. }) = parse(head.as_bytes()) else { panic!("{head}") };
            assert_eq!(pipelined, expect, "{head}");
        }
    }

    #[test]
    fn a_head_larger_than_the_capture_still_gives_its_line() {
        let mut head = b"GET /hello HTTP/1.1\r\nCookie: ".to_vec();
        head.resize(512, b'x');
        assert_eq!(HeadParser::default().feed(&head, true), Some(request("GET", "/hello", false)));
        let mut line = b"GET /".to_vec();
        line.resize(512, b'x');
        assert_eq!(HeadParser::default().feed(&line, true), Some(Opening::Unparsed));
    }

    proptest! {
        #[test]
        fn no_input_panics_and_no_query_survives(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..4),
            path in "/[a-z/0-9]{0,40}",
        ) {
            let mut parser = HeadParser::default();
            for chunk in &chunks {
                let _ = parser.feed(chunk, chunk.len() > 500);
                let _ = status(chunk);
            }
            let head = format!("GET {path}?secret=hunter2 HTTP/1.1\r\n\r\n");
            let said = format!("{:?}", parse(head.as_bytes()));
            prop_assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
