//! An HTTP/2 connection (RFC 9113): its streams are told apart by the headers of its frames.
//!
//! Payload that was not captured is passed over by its length. Where the header of a frame was not captured, frames
//! are found again at the next read or write that begins with one.

mod block;
mod frame;
mod hpack;
mod huffman;
#[cfg(test)]
mod tests;

use super::{
    Answer, Loss, Opening, Piece, Received,
    bytes::Bytes,
    route::{self, HTTP2},
};
use block::{Blocks, Headers};
pub(super) use frame::begins_frame;
use frame::{DATA, END_STREAM, Frame, Frames, RST_STREAM, Step};

/// What a client that speaks HTTP/2 says first (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Streams without an answer that are remembered.
const UNANSWERED_MAX: usize = 1024;
/// Health checks without an answer that are remembered.
const CHECKS_MAX: usize = 16;
/// A message that is not compressed, of two bytes: field 1, SERVING (gRPC over HTTP/2; grpc/health/v1/health.proto).
const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];

/// Both directions of a connection.
#[derive(Debug, Default)]
pub(super) struct Http2 {
    client: Direction,
    server: Direction,
    /// The latest stream that the client opened.
    latest: u32,
    /// Streams whose final answer has not begun.
    unanswered: Vec<u32>,
    /// gRPC health checks, with what their answers begin with.
    checks: Vec<(u32, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Direction {
    frames: Frames,
    blocks: Blocks,
}

impl Http2 {
    /// A connection that is followed from the preface on.
    pub fn new() -> Self {
        Self {
            client: Direction { frames: Frames::behind(PREFACE.len()), ..Direction::default() },
            ..Self::default()
        }
    }

    /// A connection whose first stream was opened by an HTTP/1 request.
    pub fn upgraded() -> Self {
        Self { latest: 1, unanswered: vec![1], ..Self::new() }
    }

    /// A connection whose beginning nobody saw, at the beginning of a frame.
    pub fn adopted() -> Self {
        let mut http2 = Self::default();
        http2.client.blocks.forget();
        http2.server.blocks.forget();
        http2
    }

    pub fn received(&mut self, mut bytes: Bytes<'_>, received: &mut Received) {
        let before = self.latest;
        self.client.frames.resume(bytes);
        while let Some(step) = self.client.frames.next(&mut bytes) {
            let frame = self.client.frames.frame;
            match step {
                Step::Begins(frame) => {
                    received.continues |= frame.kind == DATA && frame.length > 0 && frame.stream <= before;
                    self.client.blocks.begin(frame);
                }
                Step::Payload(bytes, missing) => {
                    received.continues |= frame.kind == DATA && frame.stream <= before;
                    self.client.blocks.payload(frame, bytes, missing);
                }
                Step::Ends if frame.kind == RST_STREAM && frame.stream <= self.latest => {
                    self.unanswered.retain(|stream| *stream != frame.stream);
                    received.openings.push(Opening::Reset { stream: frame.stream });
                }
                Step::Ends => {
                    if let Some(headers) = self.client.blocks.end(frame) {
                        self.asked(headers, before, received);
                    }
                }
                Step::Lost => {
                    self.client.blocks.forget();
                    received.openings.push(Opening::Lost { reason: Loss::Http2Frames });
                }
            }
        }
        received.undecided =
            self.client.blocks.holds_from(self.latest + 1) || self.client.frames.awaits_headers();
    }

    /// A block of the client's headers was read.
    fn asked(&mut self, headers: Headers, before: u32, received: &mut Received) {
        let Headers { stream, method, path, .. } = headers;
        // Trailers come on a stream that is open, and have no method.
        if stream <= self.latest || stream.is_multiple_of(2) || (method.is_none() && !headers.partly) {
            received.continues |= stream <= before;
            return;
        }
        self.latest = stream;
        // The oldest of so many was answered where nobody saw it.
        if self.unanswered.len() == UNANSWERED_MAX {
            self.unanswered.remove(0);
        }
        self.unanswered.push(stream);
        let route = match path {
            Some(path) if headers.grpc => path,
            Some(path) => route::template(&path),
            None => HTTP2.to_owned(),
        };
        let checks = route::is_health_check(&route);
        if checks && self.checks.len() < CHECKS_MAX {
            self.checks.push((stream, Vec::new()));
        }
        received.openings.push(Opening::Request {
            stream: Some(stream),
            method: method.unwrap_or_default(),
            prober: headers.from_prober || checks,
            route,
        });
    }

    pub fn sent(&mut self, pieces: &[Piece<'_>]) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let bytes = Bytes::of(*piece);
            if at == 0 {
                self.server.frames.resume(bytes);
            }
            self.answer(bytes, &mut answers);
        }
        answers
    }

    /// Takes a part of a write.
    pub fn answer(&mut self, mut bytes: Bytes<'_>, answers: &mut Vec<Answer>) {
        while let Some(step) = self.server.frames.next(&mut bytes) {
            let frame = self.server.frames.frame;
            match step {
                Step::Begins(frame) => self.server.blocks.begin(frame),
                Step::Payload(bytes, missing) => {
                    if frame.kind == DATA
                        && let Some((_, message)) =
                            self.checks.iter_mut().find(|(stream, _)| *stream == frame.stream)
                    {
                        message.extend_from_slice(&bytes[..bytes.len().min(SERVING.len() - message.len())]);
                    }
                    self.server.blocks.payload(frame, bytes, missing);
                }
                Step::Ends => self.answer_frame(frame, answers),
                Step::Lost => {
                    self.server.blocks.forget();
                    answers.push(Answer::Lost { reason: Loss::Http2Frames });
                }
            }
        }
    }

    /// A frame of the server has ended.
    fn answer_frame(&mut self, frame: Frame, answers: &mut Vec<Answer>) {
        let headers = self.server.blocks.end(frame);
        let (stream, ends, reset) = match &headers {
            Some(headers) if headers.pushed => return,
            Some(headers) => (headers.stream, headers.ends_stream, false),
            None => {
                let reset = frame.kind == RST_STREAM;
                (frame.stream, reset || (frame.kind == DATA && frame.has(END_STREAM)), reset)
            }
        };
        // Streams that the server opened answer nothing.
        if stream.is_multiple_of(2) {
            return;
        }
        if let Some(headers) = headers {
            self.answer_headers(&headers, answers);
        }
        if ends {
            if let Some(at) = self.checks.iter().position(|(check, _)| *check == stream) {
                let (_, message) = self.checks.swap_remove(at);
                answers.push(Answer::Health { stream, serving: message == SERVING });
            }
            self.unanswered.retain(|unanswered| *unanswered != stream);
            answers.push(Answer::Ends { stream, reset });
        }
    }

    fn answer_headers(&mut self, headers: &Headers, answers: &mut Vec<Answer>) {
        let stream = headers.stream;
        let unanswered = self.unanswered.contains(&stream);
        match headers.status {
            Some(status) if (100..200).contains(&status) => answers.push(Answer::Interim),
            // Trailers have no status.
            None if !unanswered || !headers.partly => {}
            status => {
                self.unanswered.retain(|unanswered| *unanswered != stream);
                answers.push(Answer::Begins {
                    stream: Some(stream),
                    status,
                    streaming: headers.event_stream,
                });
            }
        }
    }
}
