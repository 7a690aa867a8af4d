//! Header blocks put together from frames (RFC 9113, section 4.3).

use super::{
    frame::{CONTINUATION, END_HEADERS, END_STREAM, Frame, HEADERS, PADDED, PUSH_PROMISE, WITH_PRIORITY},
    hpack::{Fact, Table},
};
use crate::wire::bytes::Held;

/// Bytes of a block that are looked at.
const BLOCK_MAX: usize = 16_384;

/// The block that is being put together, and the table of its direction.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    table: Table,
    open: Option<Block>,
    /// What there is of the frame's payload, and whether all of it.
    payload: Held,
    cut: bool,
}

#[derive(Debug, Default)]
struct Block {
    stream: u32,
    pushed: bool,
    ends_stream: bool,
    fragments: Held,
    /// Not all of it was captured.
    cut: bool,
}

/// What a block told.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one block")]
pub(super) struct Headers {
    pub stream: u32,
    pub pushed: bool,
    pub ends_stream: bool,
    pub method: Option<String>,
    pub path: Option<String>,
    pub status: Option<u16>,
    pub event_stream: bool,
    pub grpc: bool,
    pub from_prober: bool,
    /// Some of its fields were not seen.
    pub partly: bool,
}

impl Blocks {
    /// Whether a block of this stream or a later one has begun.
    pub fn holds_from(&self, stream: u32) -> bool {
        self.open.as_ref().is_some_and(|block| block.stream >= stream)
    }

    /// Frames were not seen, and blocks may have been among them.
    pub fn forget(&mut self) {
        *self = Self::default();
        self.table.forget();
    }

    /// Takes payload of a frame, of which `missing` more bytes were not captured.
    pub fn payload(&mut self, frame: Frame, bytes: &[u8], missing: u64) {
        if matches!(frame.kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            let room = if self.cut { 0 } else { BLOCK_MAX.saturating_sub(self.payload.0.len()) };
            self.payload.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.cut |= missing > 0 || bytes.len() > room;
        }
    }

    /// Begins a block with its first frame, so that it is known from its first byte.
    pub fn begin(&mut self, frame: Frame) {
        match (&self.open, frame.kind) {
            (None, HEADERS | PUSH_PROMISE) => {
                self.open = Some(Block {
                    stream: frame.stream,
                    pushed: frame.kind == PUSH_PROMISE,
                    ends_stream: frame.has(END_STREAM) && frame.kind == HEADERS,
                    ..Block::default()
                });
            }
            (Some(block), CONTINUATION) if block.stream == frame.stream => {}
            (None, kind) if kind != CONTINUATION => {}
            // Nothing may come between the frames of a block.
            _ => self.forget(),
        }
    }

    /// A frame has ended; tells the block that ends with it.
    pub fn end(&mut self, frame: Frame) -> Option<Headers> {
        if !matches!(frame.kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            return None;
        }
        let payload = std::mem::take(&mut self.payload.0);
        let cut = std::mem::take(&mut self.cut);
        let block = self.open.as_mut()?;
        match fragment(frame, &payload, cut) {
            Some(fragment) if !block.cut && block.fragments.0.len() + fragment.len() <= BLOCK_MAX => {
                block.fragments.0.extend_from_slice(fragment);
                block.cut = cut;
            }
            _ => block.cut = true,
        }
        if !frame.has(END_HEADERS) {
            return None;
        }
        self.open.take().map(|block| self.read(&block))
    }

    fn read(&mut self, block: &Block) -> Headers {
        let mut headers = Headers {
            stream: block.stream,
            pushed: block.pushed,
            ends_stream: block.ends_stream,
            ..Headers::default()
        };
        let read = self.table.read(&block.fragments.0, |fact| headers.take(fact));
        if read.is_err() || block.cut {
            headers.partly = true;
            self.table.forget();
        }
        headers
    }
}

impl Headers {
    fn take(&mut self, fact: Fact) {
        match fact {
            Fact::Method(method) => self.method = Some(method),
            Fact::Path(path) => self.path = Some(path),
            Fact::Status(status) => self.status = Some(status),
            Fact::EventStream => self.event_stream = true,
            Fact::Grpc => self.grpc = true,
            Fact::Prober => self.from_prober = true,
            Fact::Unseen => self.partly = true,
            Fact::Nothing => {}
        }
    }
}

/// The part of a frame's payload that belongs to the block.
fn fragment(frame: Frame, payload: &[u8], cut: bool) -> Option<&[u8]> {
    let mut rest = payload;
    let mut padding = 0;
    if frame.kind != CONTINUATION && frame.has(PADDED) {
        let (&length, behind) = rest.split_first()?;
        (padding, rest) = (usize::from(length), behind);
    }
    let before = match frame.kind {
        HEADERS if frame.has(WITH_PRIORITY) => 5,
        PUSH_PROMISE => 4,
        _ => 0,
    };
    rest = rest.get(before..)?;
    if cut { Some(rest) } else { rest.get(..rest.len().checked_sub(padding)?) }
}
