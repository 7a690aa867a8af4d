//! Where the body of an HTTP/1 message ends (RFC 9112, sections 6 and 7).

use super::bytes::Bytes;

/// A body, as far as it was not yet seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    Chunked(Chunk),
}

/// Where in a chunked body the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the line that begins a chunk.
    Size { size: u64, digits: u8, extension: bool },
    /// So many bytes before the chunk's end.
    Data(u64),
    /// In the line end behind a chunk's data.
    DataEnd,
    /// In the trailers; whether their current line is empty so far.
    Trailer { empty: bool },
}

/// How far some bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The body has ended; the rest of the bytes is behind it.
    Ended,
    /// All bytes belong to the body.
    Open,
    /// The body ended among the bytes that are not there.
    Passed,
    /// It is not known any more where the body ends.
    Blind,
    /// Not a chunk.
    Invalid,
}

impl Body {
    pub const CHUNKED: Body = Body::Chunked(Chunk::SIZE);

    /// Passes over the bytes that belong to the body.
    pub fn advance(&mut self, bytes: &mut Bytes<'_>) -> Progress {
        match self {
            Body::Length(left) => {
                *left -= bytes.skip(*left);
                match (*left, bytes.captured.is_empty() && bytes.gap > 0) {
                    (0, true) => Progress::Passed,
                    (0, false) => Progress::Ended,
                    _ => Progress::Open,
                }
            }
            Body::Chunked(chunk) => loop {
                if let Chunk::Data(left) = chunk {
                    *left -= bytes.skip(*left);
                    if *left > 0 {
                        return Progress::Open;
                    }
                    *chunk = Chunk::DataEnd;
                }
                let Some(byte) = bytes.next() else {
                    return if bytes.gap > 0 { Progress::Blind } else { Progress::Open };
                };
                if let Some(end) = chunk.step(byte) {
                    return end;
                }
            },
        }
    }
}

impl Chunk {
    const SIZE: Chunk = Chunk::Size { size: 0, digits: 0, extension: false };
    /// Hexadecimal digits of a size that fit in 64 bits.
    const DIGITS_MAX: u8 = 15;

    /// Takes a byte that is not data.
    fn step(&mut self, byte: u8) -> Option<Progress> {
        *self = match (*self, byte) {
            (Chunk::Size { digits: 0, .. } | Chunk::Data(_), b'\n') => return Some(Progress::Invalid),
            (Chunk::Trailer { empty: true }, b'\n') => return Some(Progress::Ended),
            (Chunk::Size { size: 0, .. } | Chunk::Trailer { empty: false }, b'\n') => {
                Chunk::Trailer { empty: true }
            }
            (Chunk::Size { size, .. }, b'\n') => Chunk::Data(size),
            (Chunk::DataEnd, b'\n') => Self::SIZE,
            (same, b'\r') | (same @ Chunk::Size { extension: true, .. }, _) => same,
            (Chunk::Size { size, digits: 1.., .. }, b';' | b' ' | b'\t') => {
                Chunk::Size { size, digits: 1, extension: true }
            }
            (Chunk::Size { size, digits, .. }, _) => match char::from(byte).to_digit(16) {
                Some(digit) if digits < Self::DIGITS_MAX => {
                    Chunk::Size { size: size << 4 | u64::from(digit), digits: digits + 1, extension: false }
                }
                _ => return Some(Progress::Invalid),
            },
            (Chunk::Trailer { .. }, _) => Chunk::Trailer { empty: false },
            (Chunk::DataEnd | Chunk::Data(_), _) => return Some(Progress::Invalid),
        };
        None
    }
}
