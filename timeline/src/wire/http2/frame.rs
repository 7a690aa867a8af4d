//! HTTP/2 frames of one direction, told by their headers (RFC 9113, section 4).

use crate::wire::bytes::Bytes;

/// Octets of a frame's header.
const HEADER: usize = 9;
/// Longest payload of a frame that is taken for one without being expected. Only larger ones need a peer's consent.
const PAYLOAD_MAX: u32 = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

/// What the next bytes are.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Begins(Frame),
    /// Payload of the latest frame: what is there of it, and how many bytes are not.
    Payload(&'a [u8], u64),
    /// The latest frame has ended.
    Ends,
    /// It is not known where the next frame begins.
    Lost,
}

/// Where in the frames the next byte is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Bytes before the first frame.
    preface: u64,
    header: [u8; HEADER],
    have: usize,
    left: u32,
    ending: bool,
    pub lost: bool,
    /// The latest.
    pub frame: Frame,
}

impl Frames {
    /// Frames behind so many other bytes.
    pub fn behind(preface: usize) -> Self {
        Self { preface: preface as u64, ..Self::default() }
    }

    /// A header of which all but the last bytes are there is one of a frame with headers.
    pub fn awaits_headers(&self) -> bool {
        self.have > 3 && self.header[3] == HEADERS
    }

    /// Takes the beginning of a read or write for one of a frame, if it looks so and nothing better is known.
    pub fn resume(&mut self, bytes: Bytes<'_>) {
        if self.lost && begins_frame(bytes.captured) {
            *self = Self::default();
        }
    }

    pub fn next<'a>(&mut self, bytes: &mut Bytes<'a>) -> Option<Step<'a>> {
        if self.ending {
            self.ending = false;
            return Some(Step::Ends);
        }
        self.preface -= bytes.skip(self.preface);
        if self.lost {
            bytes.skip(u64::MAX);
        }
        if bytes.is_empty() {
            return None;
        }
        if self.left > 0 {
            let there = bytes.captured;
            let passed = bytes.skip(self.left.into());
            let there = &there[..there.len() - bytes.captured.len()];
            self.left -= u32::try_from(passed).unwrap_or(self.left);
            self.ending = self.left == 0;
            return Some(Step::Payload(there, passed - there.len() as u64));
        }
        while self.have < HEADER {
            let Some(byte) = bytes.next() else {
                return (bytes.gap > 0).then(|| self.lose(bytes));
            };
            self.header[self.have] = byte;
            self.have += 1;
        }
        self.have = 0;
        let Some(frame) = Frame::of(self.header) else { return Some(self.lose(bytes)) };
        (self.frame, self.left, self.ending) = (frame, frame.length, frame.length == 0);
        Some(Step::Begins(frame))
    }

    fn lose<'a>(&mut self, bytes: &mut Bytes<'_>) -> Step<'a> {
        bytes.skip(u64::MAX);
        (self.lost, self.have) = (true, 0);
        Step::Lost
    }
}

/// Whether bytes look like a frame's first ones, though nothing says that a frame begins there.
pub(in crate::wire) fn begins_frame(bytes: &[u8]) -> bool {
    let frame = bytes.first_chunk().copied().and_then(Frame::of);
    frame.is_some_and(|frame| {
        let known = match frame.kind {
            DATA => END_STREAM | PADDED,
            HEADERS => END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY,
            SETTINGS | PING => 0x1,
            PUSH_PROMISE => END_HEADERS | PADDED,
            CONTINUATION => END_HEADERS,
            PRIORITY..=WINDOW_UPDATE => 0,
            _ => return false,
        };
        frame.flags & !known == 0 && frame.length <= PAYLOAD_MAX
    })
}

impl Frame {
    /// The frame with this header, if there is one.
    fn of(header: [u8; HEADER]) -> Option<Self> {
        let number =
            |at: std::ops::Range<usize>| header[at].iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        let (length, kind, flags, stream) = (number(0..3), header[3], header[4], number(5..9));
        let fits = match kind {
            DATA | HEADERS | CONTINUATION => stream != 0,
            PUSH_PROMISE => stream != 0 && length >= 4,
            PRIORITY => stream != 0 && length == 5,
            RST_STREAM => stream != 0 && length == 4,
            SETTINGS => stream == 0 && length.is_multiple_of(6),
            PING => stream == 0 && length == 8,
            GOAWAY => stream == 0 && length >= 8,
            WINDOW_UPDATE => length == 4,
            _ => true,
        };
        (fits && stream < 1 << 31).then_some(Self { length, kind, flags, stream })
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
