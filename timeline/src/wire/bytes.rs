//! Bytes of which only the first are there, and bytes that are kept until they can be understood.

use std::fmt;

use super::Piece;

/// Bytes that are there, then bytes of which only the number is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    pub captured: &'a [u8],
    pub gap: u64,
}

impl<'a> Bytes<'a> {
    pub fn of(piece: Piece<'a>) -> Self {
        let len = piece.len as usize;
        let captured = &piece.captured[..piece.captured.len().min(len)];
        Self { captured, gap: (len - captured.len()) as u64 }
    }

    pub fn held(held: &'a Held) -> Self {
        Self { captured: &held.0, gap: 0 }
    }

    pub fn is_empty(self) -> bool {
        self.captured.is_empty() && self.gap == 0
    }

    /// The next byte, if it is there.
    pub fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.captured.split_first()?;
        self.captured = rest;
        Some(first)
    }

    /// Passes over up to `count` bytes, those not there included, and says how many.
    pub fn skip(&mut self, count: u64) -> u64 {
        let here = usize::try_from(count).unwrap_or(usize::MAX).min(self.captured.len());
        self.captured = &self.captured[here..];
        let behind = (count - here as u64).min(self.gap);
        self.gap -= behind;
        here as u64 + behind
    }
}

/// Bytes of a client that wait for more. They are payload: nothing shows them.
#[derive(Default)]
pub(super) struct Held(pub Vec<u8>);

impl Held {
    /// These and the bytes behind them.
    pub fn and(self, more: &[u8]) -> Vec<u8> {
        let mut joined = self.0;
        joined.extend_from_slice(more);
        joined
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
