//! What the first bytes of each read and write of an accepted connection tell: where requests begin, and how they
//! are answered.
//!
//! The probes copy the first bytes of what a call moved and count the rest. From these the parsers tell requests
//! apart, or say that they cannot ([`Loss`]). Payload ends here: a method, a path template, flags and a status are all
//! that goes on.

mod answer;
mod body;
mod bytes;
mod head;
mod http1;
mod http2;
pub mod route;
#[cfg(test)]
mod tests;
mod tls;

use serde::{Deserialize, Serialize};

use self::{
    bytes::{Bytes, Held},
    http1::Http1,
    http2::Http2,
    tls::Tls,
};

/// What one call moved, or one part (iovec) of it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its first bytes.
    pub captured: &'a [u8],
    /// How many bytes there were in all.
    pub len: u32,
}

/// What a read told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// What its bytes open, in order.
    pub openings: Vec<Opening>,
    /// Some of its bytes belong to a request that an earlier read opened: a body, or the rest of a head.
    pub continues: bool,
    /// Its last bytes open something, and only later bytes, or an answer ([`Answer::Opens`]), will tell what. The next
    /// opening began here.
    pub undecided: bool,
}

/// What bytes of the client open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// A request whose line was read.
    Request {
        /// HTTP/2: the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<u32>,
        /// Method. Empty when the headers of an HTTP/2 request could not be read.
        method: String,
        /// Path template; [`route::HTTP2`] when the headers of an HTTP/2 request could not be read.
        route: String,
        /// A prober asks: the User-Agent is a kubelet's, or it is a gRPC health check.
        #[serde(default)]
        prober: bool,
    },
    /// Not a request line that can be read. It counts as a request only if it is answered.
    Unparsed,
    /// TLS: the client's data. It counts as a request only if it is answered.
    Encrypted,
    /// TLS: the handshake, no request.
    Handshake,
    /// HTTP/2: the client gave the request up.
    Reset {
        /// The stream.
        stream: u32,
    },
    /// From here on requests are not told apart, until they can be again.
    Lost {
        /// Why.
        reason: Loss,
    },
}

/// What bytes of the server are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The first bytes of a final answer.
    Begins {
        /// HTTP/2: the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<u32>,
        /// Status code, when it can be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Server-sent events: it goes on for as long as the client likes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        streaming: bool,
    },
    /// An interim answer: the request goes on.
    Interim,
    /// Further bytes of the answer that is being written.
    Continues,
    /// HTTP/2: the last bytes of a stream's answer.
    Ends {
        /// The stream.
        stream: u32,
        /// The server gave it up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset: bool,
    },
    /// What a gRPC health check was told.
    Health {
        /// The stream.
        stream: u32,
        /// That the service serves.
        serving: bool,
    },
    /// TLS: the handshake, and tickets right after it.
    Handshake,
    /// Another protocol took over; nothing after it counts.
    Upgraded,
    /// The open HTTP/1 request goes on as this HTTP/2 stream.
    BecomesStream {
        /// The stream.
        stream: u32,
    },
    /// What was undecided ([`Received::undecided`]) is decided by being answered.
    Opens(Opening),
    /// From here on answers are not told apart, until they can be again. Streams of HTTP/2 that are open may have been
    /// answered, and may have ended.
    Lost {
        /// Why.
        reason: Loss,
    },
}

/// Why requests are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// A request's end was read together with bytes behind it, and those were not captured.
    Uncaptured,
    /// A head does not say clearly where its request ends.
    Framing,
    /// An answer was written to a request that was not seen.
    Unseen,
    /// HTTP/2: a frame began behind what was captured.
    Http2Frames,
    /// TLS: a handshake ended behind what was captured.
    TlsHandshake,
    /// TLS: the server's first data was a ticket or an answer.
    TlsTicket,
}

impl Loss {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Loss::Uncaptured => "pipelined requests: some came behind the bytes that are looked at",
            Loss::Framing => "a request does not say clearly where it ends",
            Loss::Unseen => "an answer was written to a request that was not seen",
            Loss::Http2Frames => "HTTP/2 frames: some came behind the bytes that are looked at",
            Loss::TlsHandshake => "a TLS handshake ended behind the bytes that are looked at",
            Loss::TlsTicket => "TLS data right after a handshake may have been a ticket or an answer",
        }
    }
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.
    Http1,
    /// HTTP/2 in the clear.
    Http2,
    /// TLS, whatever is inside.
    Tls {
        /// The client offered HTTP/2, or may have: requests that overlap are not told apart.
        may_multiplex: bool,
    },
    /// Not followed any further: another protocol took over.
    Upgraded,
    /// Nothing that is known.
    Unknown,
}

/// One accepted connection, as far as its bytes were captured.
#[derive(Debug, Default)]
pub struct Wire {
    state: State,
    /// It was accepted before anybody looked.
    adopted: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    /// The first bytes have not told the protocol yet.
    Begun(Held),
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    Tls(Box<Tls>),
    Upgraded,
}

impl Wire {
    /// A connection that was accepted before anybody looked: its next bytes may be the rest of something.
    pub fn adopted() -> Self {
        Self { state: State::New, adopted: true }
    }

    /// Takes what a read returned.
    pub fn received(&mut self, piece: Piece<'_>) -> Received {
        let bytes = Bytes::of(piece);
        let mut received = Received::default();
        if !bytes.is_empty() {
            self.read(bytes, &mut received);
        }
        received
    }

    /// Takes what a write moved, in parts.
    pub fn sent(&mut self, pieces: &[Piece<'_>]) -> Vec<Answer> {
        if pieces.iter().all(|piece| piece.len == 0) {
            return Vec::new();
        }
        let first = pieces.first().map(|piece| piece.captured).unwrap_or_default();
        self.look_again(first);
        match &mut self.state {
            State::New | State::Begun(_) => {
                let held = self.take_held();
                if held.0.is_empty() && !self.adopted {
                    return Vec::new();
                }
                self.state = if held.0.is_empty() { self.state_of(first) } else { self.http1() };
                self.read(Bytes::held(&held), &mut Received::default());
                self.sent(pieces)
            }
            State::Http1(http1) => {
                let mut rest = None;
                let mut answers = http1.sent(pieces, &mut rest);
                if let Some(rest) = rest {
                    let mut http2 = Box::new(Http2::upgraded());
                    http2.answer(rest, &mut answers);
                    self.state = State::Http2(http2);
                }
                if answers.contains(&Answer::Upgraded) {
                    self.state = State::Upgraded;
                }
                answers
            }
            State::Http2(http2) => http2.sent(pieces),
            State::Tls(tls) => tls.sent(pieces),
            State::Upgraded => Vec::new(),
        }
    }

    /// What the connection speaks, once that is known.
    pub fn protocol(&self) -> Option<Protocol> {
        match &self.state {
            State::New | State::Begun(_) => None,
            State::Http1(http1) => http1.protocol(),
            State::Http2(_) => Some(Protocol::Http2),
            State::Tls(tls) => Some(Protocol::Tls { may_multiplex: tls.may_multiplex() }),
            State::Upgraded => Some(Protocol::Upgraded),
        }
    }

    fn read(&mut self, bytes: Bytes<'_>, received: &mut Received) {
        self.look_again(bytes.captured);
        match &mut self.state {
            State::New | State::Begun(_) => {
                let joined = self.take_held().and(bytes.captured);
                if bytes.gap == 0 && is_short(&joined) {
                    self.state = State::Begun(Held(joined));
                    received.undecided = true;
                } else {
                    self.state = self.state_of(&joined);
                    self.read(Bytes { captured: &joined, gap: bytes.gap }, received);
                }
            }
            State::Http1(http1) => http1.received(bytes, received),
            State::Http2(http2) => http2.received(bytes, received),
            State::Tls(tls) => tls.received(bytes, received),
            State::Upgraded => {}
        }
    }

    /// Bytes of an adopted connection that told nothing may have been the rest of a record or frame.
    fn look_again(&mut self, first: &[u8]) {
        if let State::Http1(http1) = &self.state
            && self.adopted
            && http1.is_blank()
        {
            self.state = self.state_of(first);
        }
    }

    fn take_held(&mut self) -> Held {
        match std::mem::take(&mut self.state) {
            State::Begun(held) => held,
            _ => Held::default(),
        }
    }

    /// What begins with these bytes.
    fn state_of(&self, first: &[u8]) -> State {
        match *first {
            [0x16, 3, ..] => State::Tls(Box::default()),
            [0x17, 3, ..] if self.adopted => State::Tls(Box::new(Tls::adopted())),
            _ if first.starts_with(http2::PREFACE) => State::Http2(Box::new(Http2::new())),
            _ if self.adopted && http2::begins_frame(first) => State::Http2(Box::new(Http2::adopted())),
            _ => self.http1(),
        }
    }

    fn http1(&self) -> State {
        State::Http1(if self.adopted { Box::new(Http1::adopted()) } else { Box::default() })
    }
}

/// Whether bytes are too few to tell a protocol.
fn is_short(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16 | 0x17])
        || (bytes.len() < http2::PREFACE.len() && http2::PREFACE.starts_with(bytes))
}
