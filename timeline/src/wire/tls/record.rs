//! TLS records of one direction, told by their headers.

use crate::wire::bytes::Bytes;

const HEADER: usize = 5;
/// Longest record of any version (RFC 5246, section 6.2.3).
const LENGTH_MAX: u16 = 16_384 + 2_048;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ChangeCipherSpec,
    Alert,
    Handshake,
    Data,
    Heartbeat,
}

/// What the next bytes are.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// A record, and the length of its payload.
    Begins(Kind, u16),
    /// Payload of the record, and of it what is there.
    Payload {
        /// The record's first bytes are among them.
        first: bool,
        bytes: &'a [u8],
    },
    /// It is not known where the next record begins.
    Lost,
}

/// Where in the records the next byte is.
#[derive(Debug)]
pub(super) struct Records {
    header: [u8; HEADER],
    have: usize,
    left: u16,
    /// None of the payload was passed yet.
    first: bool,
    /// It is not known where the next record begins.
    pub lost: bool,
    /// Of the latest record.
    pub kind: Kind,
    /// Of the latest record's payload.
    pub length: u16,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            header: [0; HEADER],
            have: 0,
            left: 0,
            first: false,
            lost: false,
            kind: Kind::Handshake,
            length: 0,
        }
    }
}

impl Records {
    /// Takes the beginning of a read or write for one of a record, if it looks so and nothing better is known.
    pub fn resume(&mut self, bytes: Bytes<'_>) {
        let header = bytes.captured.first_chunk().copied().and_then(header);
        if self.lost && header.is_some() {
            (self.lost, self.have, self.left) = (false, 0, 0);
        }
    }

    pub fn next<'a>(&mut self, bytes: &mut Bytes<'a>) -> Option<Step<'a>> {
        if bytes.is_empty() {
            return None;
        }
        if self.lost {
            return Some(self.payload(bytes, u64::MAX));
        }
        if self.left > 0 {
            return Some(self.payload(bytes, u64::from(self.left)));
        }
        while self.have < HEADER {
            let Some(byte) = bytes.next() else {
                return (bytes.gap > 0).then(|| self.lose(bytes));
            };
            self.header[self.have] = byte;
            self.have += 1;
        }
        self.have = 0;
        let Some((kind, length)) = header(self.header) else { return Some(self.lose(bytes)) };
        (self.kind, self.length, self.left, self.first) = (kind, length, length, true);
        Some(Step::Begins(kind, length))
    }

    fn payload<'a>(&mut self, bytes: &mut Bytes<'a>, count: u64) -> Step<'a> {
        let there = bytes.captured;
        let first = std::mem::take(&mut self.first);
        let passed = bytes.skip(count);
        self.left = self.left.saturating_sub(u16::try_from(passed).unwrap_or(u16::MAX));
        Step::Payload { first, bytes: &there[..there.len() - bytes.captured.len()] }
    }

    fn lose<'a>(&mut self, bytes: &mut Bytes<'_>) -> Step<'a> {
        bytes.skip(u64::MAX);
        (self.lost, self.have) = (true, 0);
        Step::Lost
    }
}

/// Type and length of a record, if it is one.
pub(super) fn header(bytes: [u8; HEADER]) -> Option<(Kind, u16)> {
    let [kind, 3, 0..=4, high, low] = bytes else { return None };
    let kind = match kind {
        20 => Kind::ChangeCipherSpec,
        21 => Kind::Alert,
        22 => Kind::Handshake,
        23 => Kind::Data,
        24 => Kind::Heartbeat,
        _ => return None,
    };
    let length = u16::from_be_bytes([high, low]);
    (length <= LENGTH_MAX).then_some((kind, length))
}
