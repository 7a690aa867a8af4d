//! The head of an HTTP/1 message: its line, and the few headers that say where it ends and who sent it.

use super::{
    body::Body,
    route::{self, PROBER},
};

/// Longest method that is taken for one.
const METHOD_MAX: usize = 24;

/// What the first bytes of a request are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// They may become a request line.
    Unfinished,
    /// Method and path template.
    Request(String, String),
    /// No request line.
    Other,
}

/// Where a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// With its head.
    Head,
    /// With its body.
    Body(Body),
    /// With the connection, as far as its headers tell.
    Connection,
    /// The headers contradict each other.
    Unclear,
}

/// What headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one header, or what one said")]
pub(super) struct Headers {
    pub framing: Framing,
    /// The User-Agent is a kubelet's.
    pub from_prober: bool,
    /// The client waits for an interim answer before it sends the body.
    pub expects_continue: bool,
    /// HTTP/2 without TLS is offered, or agreed to.
    pub h2c: bool,
    /// Server-sent events.
    pub event_stream: bool,
}

/// The first bytes of a request, empty lines before it passed over.
pub(super) fn line(head: &[u8]) -> Line {
    if !begins_with_method(head) {
        return Line::Other;
    }
    let Some(end) = head.iter().position(|&b| b == b'\n') else { return Line::Unfinished };
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    let mut no_headers = [];
    let mut request = httparse::Request::new(&mut no_headers);
    match (request.parse(&[line, b"\r\n\r\n"].concat()), request.method, request.path) {
        (Ok(status), Some(method), Some(path)) if status.is_complete() => {
            Line::Request(method.to_owned(), route::template(path))
        }
        _ => Line::Other,
    }
}

/// So far nothing but a method, or a method and a blank.
fn begins_with_method(head: &[u8]) -> bool {
    let method = head.split(|&b| b == b' ').next().unwrap_or_default();
    let blank = method.len() < head.len();
    method.len() <= METHOD_MAX
        && !(blank && method.is_empty())
        && method.iter().all(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_'))
}

/// Whether bytes among which a body may go on look like a request line so far.
pub(super) fn looks_like_request(head: &[u8]) -> bool {
    if !begins_with_method(head) {
        return false;
    }
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    let target = line.iter().position(|&b| b == b' ').map_or(&[][..], |at| &line[at + 1..]);
    let of_connect = line.starts_with(b"CONNECT ");
    (of_connect || target.first().is_none_or(|first| matches!(first, b'/' | b'*' | b'h' | b'H')))
        && target.iter().all(|&b| b.is_ascii_graphic() || matches!(b, b' ' | b'\r') || b >= 0x80)
        && line.first() != Some(&b'-')
        && line.first() != Some(&b'_')
}

/// Where the head ends, if it does.
pub(super) fn end(head: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = head[from..].iter().position(|&b| b == b'\n') {
        let next = from + at + 1;
        match head[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => from = next,
        }
    }
    None
}

/// Reads headers: of a whole head, or of what is there of it.
pub(super) fn headers(head: &[u8], whole: bool) -> Headers {
    let mut lines = head.split_inclusive(|&b| b == b'\n').skip(1).filter(|line| line.ends_with(b"\n"));
    let mut fields = Fields::default();
    for line in &mut lines {
        let line = line.trim_ascii_end();
        // A folded line belongs to the header before (RFC 9112, section 5.2).
        if matches!(line.first(), Some(b' ' | b'\t')) {
            fields.unclear |= fields.last_frames;
        } else if let Some(colon) = line.iter().position(|&b| b == b':') {
            fields.take(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
    let http10 = head.split(|&b| b == b'\n').next().is_some_and(|line| contains(line, b"HTTP/1.0"));
    fields.unclear |= !whole || (http10 && fields.coded);
    Headers {
        framing: fields.framing(),
        from_prober: fields.from_prober,
        expects_continue: fields.expects_continue,
        h2c: fields.h2c,
        event_stream: fields.event_stream,
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one header, or what one said")]
struct Fields {
    length: Option<u64>,
    coded: bool,
    /// The last coding is `chunked`.
    chunked: bool,
    unclear: bool,
    /// The header before says where the message ends.
    last_frames: bool,
    from_prober: bool,
    expects_continue: bool,
    h2c: bool,
    event_stream: bool,
}

impl Fields {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let is = |wanted: &str| name.trim_ascii_end().eq_ignore_ascii_case(wanted.as_bytes());
        self.last_frames = false;
        if is("content-length") {
            self.last_frames = true;
            self.unclear |= name.last() == Some(&b' ');
            for length in value.split(|&b| b == b',') {
                let length = decimal(length.trim_ascii());
                self.unclear |= length.is_none() || self.length.is_some_and(|other| Some(other) != length);
                self.length = length;
            }
        } else if is("transfer-encoding") {
            self.last_frames = true;
            self.unclear |= name.last() == Some(&b' ') || self.chunked;
            self.coded = true;
            let last = value.rsplit(|&b| b == b',').next().unwrap_or_default();
            self.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        } else if is("user-agent") {
            self.from_prober |= value.starts_with(PROBER.as_bytes());
        } else if is("expect") {
            self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
        } else if is("upgrade") {
            self.h2c |= value.split(|&b| b == b',').any(|protocol| protocol.trim_ascii() == b"h2c");
        } else if is("content-type") {
            self.event_stream |= route::is_event_stream(value);
        }
    }

    fn framing(&self) -> Framing {
        match (self.coded, self.chunked, self.length) {
            _ if self.unclear => Framing::Unclear,
            // Transfer-Encoding wins over Content-Length.
            (true, true, _) => Framing::Body(Body::CHUNKED),
            (true, false, _) => Framing::Unclear,
            (false, _, Some(0)) => Framing::Head,
            (false, _, Some(length)) => Framing::Body(Body::Length(length)),
            (false, _, None) => Framing::Connection,
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
