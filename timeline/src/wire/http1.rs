//! The client's side of an HTTP/1 connection (RFC 9112).
//!
//! What is decided depends on the bytes alone, not on how reads cut them, with one exception: where a request's end
//! is not known (its head or chunks were longer than what is captured), the next request is looked for at the
//! beginning of the first read that follows an answer.

use super::{
    Loss, Opening, Protocol, Received,
    body::{Body, Progress},
    bytes::{Bytes, Held},
    head::{self, Framing, Line},
};

/// Bytes of a head that are looked at.
pub(super) const HEAD_MAX: usize = 4096;

/// An HTTP/1 connection.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and thousands of connections hold them"
)]
pub(super) struct Http1 {
    pub(super) phase: Phase,
    /// The bytes of a head that is not whole.
    pub(super) held: Held,
    /// Requests whose final answer has not begun.
    pub(super) pending: u32,
    /// Bytes of the body of the answer that is being written, when its head said how many.
    pub(super) answer_left: u64,
    /// An answer is being written.
    pub(super) answering: bool,
    /// Among the pending requests is one whose answer has no body whatever its head says.
    pub(super) head_pending: bool,
    /// Requests may have been missed, and that was said or is known.
    pub(super) unsure: bool,
    /// The latest request waits for an interim answer before it sends its body.
    pub(super) expects_continue: bool,
    /// The latest request offers to go on as HTTP/2, is a tunnel's, or could not be read.
    pub(super) latest: Latest,
    requested: bool,
}

/// What is special about the latest request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Latest {
    #[default]
    Plain,
    OffersH2c,
    Connect,
    Unparsed,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// A head, or the empty lines before it.
    #[default]
    Head,
    Body(Body),
    /// Something whose end is not known.
    Skim {
        /// What bytes after an answer may be.
        then: Then,
        answered: bool,
    },
    /// A new request, or what is left of the body before it; of a body of unknown end if there is none.
    Either(Option<Body>),
}

/// What follows an answer to something whose end is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Something new.
    Anything,
    /// A new request if it looks like one, else more of the same.
    Request,
}

impl Http1 {
    /// A connection whose next bytes may be the rest of something.
    pub fn adopted() -> Self {
        Self { phase: Phase::Skim { then: Then::Request, answered: true }, unsure: true, ..Self::default() }
    }

    pub fn protocol(&self) -> Option<Protocol> {
        match (self.requested, self.latest) {
            (true, _) => Some(Protocol::Http1),
            (false, Latest::Unparsed) => Some(Protocol::Unknown),
            (false, _) => None,
        }
    }

    /// Nothing was told yet.
    pub fn is_blank(&self) -> bool {
        self.protocol().is_none() && self.held.0.is_empty() && !self.answering
    }

    pub fn received(&mut self, bytes: Bytes<'_>, received: &mut Received) {
        match self.phase {
            Phase::Skim { then: Then::Anything, answered: true } => self.phase = Phase::Head,
            Phase::Skim { then: Then::Request, answered: true } => self.phase = Phase::Either(None),
            _ => {}
        }
        self.run(bytes, received);
        received.undecided = !self.held.0.is_empty();
    }

    fn run(&mut self, mut bytes: Bytes<'_>, received: &mut Received) {
        while !bytes.is_empty() {
            match self.phase {
                Phase::Head => self.head(&mut bytes, received),
                Phase::Body(mut body) => {
                    received.continues |= received.openings.is_empty();
                    self.expects_continue = false;
                    let progress = body.advance(&mut bytes);
                    self.phase = match progress {
                        Progress::Ended | Progress::Passed => Phase::Head,
                        Progress::Open => Phase::Body(body),
                        Progress::Blind => Phase::skim(Then::Request),
                        Progress::Invalid => self.lost(Loss::Framing, received),
                    };
                }
                Phase::Skim { .. } => {
                    received.continues |= received.openings.is_empty();
                    return;
                }
                Phase::Either(body) => return self.either(body, bytes, received),
            }
        }
    }

    fn head(&mut self, bytes: &mut Bytes<'_>, received: &mut Received) {
        let before = self.held.0.len();
        if before == 0 {
            // Empty lines before a request are to be ignored (RFC 9112, section 2.2).
            let begin = bytes.captured.iter().position(|b| !matches!(b, b'\r' | b'\n'));
            bytes.skip(begin.unwrap_or(bytes.captured.len()) as u64);
            if bytes.captured.is_empty() {
                if bytes.gap > 0 {
                    self.phase = self.lost(Loss::Uncaptured, received);
                }
                return;
            }
        }
        let taken = bytes.captured.len().min(HEAD_MAX - before);
        self.held.0.extend_from_slice(&bytes.captured[..taken]);
        let line = head::line(&self.held.0);
        if line == Line::Other {
            return self.open_unparsed(received);
        }
        if let Some(end) = head::end(&self.held.0) {
            self.held.0.truncate(end);
            bytes.skip((end - before) as u64);
            return self.open(line, true, received);
        }
        bytes.skip(taken as u64);
        if bytes.gap > 0 || self.held.0.len() == HEAD_MAX {
            self.open(line, false, received);
        }
    }

    /// Opens what the bytes that are held begin with.
    fn open(&mut self, line: Line, whole: bool, received: &mut Received) {
        let Line::Request(method, route) = line else { return self.open_unparsed(received) };
        let head = std::mem::take(&mut self.held.0);
        let headers = head::headers(&head, whole);
        self.begin(match method.as_str() {
            "CONNECT" => Latest::Connect,
            _ if headers.h2c => Latest::OffersH2c,
            _ => Latest::Plain,
        });
        self.requested = true;
        self.head_pending |= method == "HEAD";
        received.openings.push(Opening::Request { stream: None, method, route, prober: headers.from_prober });
        self.phase = match headers.framing {
            _ if !whole => Phase::skim(Then::Request),
            Framing::Head | Framing::Connection => Phase::Head,
            Framing::Body(body) => {
                self.expects_continue = headers.expects_continue;
                Phase::Body(body)
            }
            Framing::Unclear => self.lost(Loss::Framing, received),
        };
    }

    fn open_unparsed(&mut self, received: &mut Received) {
        self.held = Held::default();
        self.begin(Latest::Unparsed);
        received.openings.push(Opening::Unparsed);
        self.phase = Phase::skim(Then::Anything);
    }

    fn begin(&mut self, latest: Latest) {
        if self.pending == 0 {
            self.answering = false;
            self.head_pending = false;
        }
        self.pending = self.pending.saturating_add(1);
        self.latest = latest;
        self.expects_continue = false;
    }

    fn lost(&mut self, reason: Loss, received: &mut Received) -> Phase {
        self.unsure = true;
        received.openings.push(Opening::Lost { reason });
        Phase::skim(Then::Request)
    }

    /// Bytes that are a request only if they look like one.
    fn either(&mut self, body: Option<Body>, bytes: Bytes<'_>, received: &mut Received) {
        let mut joined = std::mem::take(&mut self.held).and(bytes.captured);
        if body.is_none() {
            let begin = joined.iter().position(|b| !matches!(b, b'\r' | b'\n'));
            joined.drain(..begin.unwrap_or(joined.len()));
        }
        let whole_line = match head::line(&joined) {
            Line::Request(..) => true,
            Line::Unfinished => false,
            Line::Other => return self.more_of(body, &joined, bytes.gap, received),
        };
        if !head::looks_like_request(&joined) || (!whole_line && (bytes.gap > 0 || joined.len() >= HEAD_MAX))
        {
            return self.more_of(body, &joined, bytes.gap, received);
        }
        if whole_line {
            self.unsure = false;
            self.phase = Phase::Head;
            self.run(Bytes { captured: &joined, gap: bytes.gap }, received);
        } else {
            self.held = Held(joined);
        }
    }

    /// The bytes go on with what was open.
    fn more_of(&mut self, body: Option<Body>, captured: &[u8], gap: u64, received: &mut Received) {
        self.phase = match body {
            Some(body) => Phase::Body(body),
            None => Phase::Skim { then: Then::Request, answered: true },
        };
        self.run(Bytes { captured, gap }, received);
    }

    /// Opens what is held, because it is answered before it is whole.
    pub(super) fn open_answered(&mut self) -> Option<Opening> {
        if self.held.0.is_empty() {
            return None;
        }
        let mut received = Received::default();
        self.open(head::line(&self.held.0), false, &mut received);
        received.openings.pop()
    }
}

impl Phase {
    fn skim(then: Then) -> Self {
        Phase::Skim { then, answered: false }
    }
}
