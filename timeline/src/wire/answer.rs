//! The server's side of an HTTP/1 connection.
//!
//! Only the first bytes of a write are there. A write that begins with a status line begins an answer; several
//! answers in one write are told apart as far as those bytes go.

use super::{
    Answer, Loss, Piece,
    body::{Body, Progress},
    bytes::Bytes,
    head::{self, Framing},
    http1::{Http1, Latest, Phase},
};

/// What a server may say without being asked (RFC 9110, section 15.5.9).
const REQUEST_TIMEOUT: u16 = 408;

/// Status code of an answer's first bytes.
pub fn status(opening: &[u8]) -> Option<u16> {
    let rest = opening.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3)?;
    digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0')))
}

impl Http1 {
    /// Takes a write. What follows an answer that agrees to HTTP/2 is left in `rest`.
    pub fn sent<'a>(&mut self, pieces: &[Piece<'a>], rest: &mut Option<Bytes<'a>>) -> Vec<Answer> {
        let mut answers = Vec::new();
        let Some(first) = pieces.first() else { return answers };
        let mut bytes = Bytes::of(*first);
        bytes.gap += pieces[1..].iter().map(|piece| u64::from(piece.len)).sum::<u64>();
        if bytes.is_empty() {
            return answers;
        }
        // With no request pending, what looks like a status line may be part of the body.
        if self.pending == 0 && self.answer_left > 0 {
            self.answer_left -= bytes.skip(self.answer_left);
            answers.push(Answer::Continues);
        }
        while !bytes.is_empty() {
            match status(bytes.captured) {
                Some(status @ 100..=199) if status != 101 => {
                    answers.push(Answer::Interim);
                    self.expects_continue &= status != 100;
                    if !pass_head(&mut bytes) {
                        break;
                    }
                }
                Some(101) => {
                    self.switch(bytes, &mut answers, rest);
                    break;
                }
                Some(status) => {
                    self.answer(status, &mut bytes, &mut answers);
                    if bytes.is_empty() || answers.last() == Some(&Answer::Upgraded) {
                        break;
                    }
                }
                None => {
                    self.more(bytes, &mut answers);
                    break;
                }
            }
        }
        answers
    }

    /// A final answer begins.
    fn answer(&mut self, status: u16, bytes: &mut Bytes<'_>, answers: &mut Vec<Answer>) {
        let end = head::end(bytes.captured);
        let head = &bytes.captured[..end.unwrap_or(bytes.captured.len())];
        let headers = head::headers(head, end.is_some());
        self.answered(answers, status != REQUEST_TIMEOUT);
        answers.push(Answer::Begins { stream: None, status: Some(status), streaming: headers.event_stream });
        if self.latest == Latest::Connect && (200..300).contains(&status) {
            answers.push(Answer::Upgraded);
            return;
        }
        self.answer_left = 0;
        let bodiless = self.head_pending || matches!(status, 204 | 304);
        let body = match headers.framing {
            Framing::Head => None,
            Framing::Body(_) if bodiless => None,
            Framing::Body(body) => Some(body),
            // Whatever comes belongs to it.
            Framing::Connection | Framing::Unclear => {
                bytes.skip(u64::MAX);
                return;
            }
        };
        bytes.skip(end.unwrap_or_default() as u64);
        let Some(mut body) = body else { return };
        match body.advance(bytes) {
            Progress::Ended | Progress::Passed => {}
            Progress::Open | Progress::Blind | Progress::Invalid => {
                if let Body::Length(left) = body {
                    self.answer_left = left;
                }
                bytes.skip(u64::MAX);
            }
        }
    }

    /// Bytes that do not begin with a status line.
    fn more(&mut self, bytes: Bytes<'_>, answers: &mut Vec<Answer>) {
        // Behind another answer in the same write, or where nothing was captured, a status line may have been.
        let unseen = bytes.captured.is_empty() && (!answers.is_empty() || !self.answering);
        let unparsed = self.latest == Latest::Unparsed && !self.answering;
        if (self.pending > 0 || !self.held.0.is_empty()) && !self.head_pending && (unseen || unparsed) {
            self.answered(answers, false);
            answers.push(Answer::Begins { stream: None, status: None, streaming: false });
        } else if !matches!(answers.last(), Some(Answer::Continues)) && self.answering {
            answers.push(Answer::Continues);
        }
    }

    /// Accounts for a final answer. With `solicited`, one that nobody asked for shows that a request was missed.
    fn answered(&mut self, answers: &mut Vec<Answer>, solicited: bool) {
        if self.pending == 0 {
            answers.extend(self.open_answered().map(Answer::Opens));
        }
        if self.pending == 0 && solicited && !self.unsure {
            self.unsure = true;
            answers.push(Answer::Lost { reason: Loss::Unseen });
        }
        self.pending = self.pending.saturating_sub(1);
        self.answering = true;
        match &mut self.phase {
            Phase::Skim { answered, .. } => *answered = true,
            // The client may go without the body that it was about to send (RFC 9110, section 10.1.1).
            Phase::Body(body) if self.expects_continue => self.phase = Phase::Either(Some(*body)),
            _ => {}
        }
        self.expects_continue = false;
    }

    /// Another protocol is agreed to.
    fn switch<'a>(&mut self, mut bytes: Bytes<'a>, answers: &mut Vec<Answer>, rest: &mut Option<Bytes<'a>>) {
        let end = head::end(bytes.captured);
        let says_h2c = end.is_none_or(|end| head::headers(&bytes.captured[..end], true).h2c);
        if self.latest == Latest::OffersH2c && says_h2c {
            answers.push(Answer::BecomesStream { stream: 1 });
            bytes.skip(end.map_or(u64::MAX, |end| end as u64));
            *rest = Some(bytes);
            return;
        }
        self.answered(answers, true);
        answers.push(Answer::Begins { stream: None, status: Some(101), streaming: false });
        answers.push(Answer::Upgraded);
    }
}

/// Passes over a head; false when its end is not there.
fn pass_head(bytes: &mut Bytes<'_>) -> bool {
    let end = head::end(bytes.captured);
    bytes.skip(end.unwrap_or_default() as u64);
    end.is_some()
}
