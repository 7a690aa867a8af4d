//! Header blocks of one direction (RFC 7541), read for the few fields that tell something.
//!
//! The table of earlier fields keeps what such a field tells and the size of every other, no values. An index of a
//! field that was never seen, because what held it was not captured, is a fact too: reading goes on behind it.

use std::collections::VecDeque;

use super::huffman;
use crate::wire::route::{self, PROBER};

/// Size of the table before anybody changes it (RFC 9113, section 6.5.2).
const TABLE_SIZE: u64 = 4096;
/// Of a larger table, so much is kept. Older fields count as unseen.
const TABLE_SIZE_MAX: u64 = 65_536;
/// What a field costs in the table beside its text (RFC 7541, section 4.1).
const FIELD_COST: u64 = 32;
/// Fields that every table begins with.
const STATIC_FIELDS: u64 = 61;
const METHOD_MAX: usize = 24;

/// What a field tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Method(String),
    /// A path template, or a path that may be a gRPC method's.
    Path(String),
    Status(u16),
    EventStream,
    Grpc,
    /// The User-Agent is a kubelet's.
    Prober,
    /// The field was not seen.
    Unseen,
    Nothing,
}

/// A name that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Method,
    Path,
    Status,
    ContentType,
    UserAgent,
    Unseen,
    Other,
}

/// The bytes are no header block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// The fields that blocks may refer to.
#[derive(Debug)]
pub(super) struct Table {
    fields: VecDeque<Field>,
    size: u64,
    size_max: u64,
}

#[derive(Debug)]
struct Field {
    name: Name,
    name_length: u64,
    fact: Fact,
    size: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self { fields: VecDeque::new(), size: 0, size_max: TABLE_SIZE }
    }
}

impl Table {
    /// A block was not seen: older fields can no longer be counted.
    pub fn forget(&mut self) {
        self.fields = VecDeque::new();
        self.size = 0;
        // It may have changed the size; too many fields do no harm, nobody refers to them.
        self.size_max = TABLE_SIZE_MAX;
    }

    /// Reads a block, or the beginning of one.
    pub fn read(&mut self, block: &[u8], mut tell: impl FnMut(Fact)) -> Result<(), Invalid> {
        let mut reader = Reader { bytes: block, text: Vec::new() };
        while let Some(&first) = reader.bytes.first() {
            match first {
                0x80.. => {
                    let index = reader.integer(7)?;
                    tell(self.indexed(index)?);
                }
                0x40..0x80 => {
                    let field = self.literal(&mut reader, 6)?;
                    tell(field.fact.clone());
                    self.insert(field);
                }
                0x20..0x40 => {
                    self.size_max = reader.integer(5)?.min(TABLE_SIZE_MAX);
                    self.evict();
                }
                _ => tell(self.literal(&mut reader, 4)?.fact),
            }
        }
        Ok(())
    }

    fn indexed(&self, index: u64) -> Result<Fact, Invalid> {
        Ok(match index {
            0 => return Err(Invalid),
            2 => Fact::Method("GET".to_owned()),
            3 => Fact::Method("POST".to_owned()),
            4 => Fact::Path("/".to_owned()),
            5 => Fact::Path("/index.html".to_owned()),
            8 => Fact::Status(200),
            9 => Fact::Status(204),
            10 => Fact::Status(206),
            11 => Fact::Status(304),
            12 => Fact::Status(400),
            13 => Fact::Status(404),
            14 => Fact::Status(500),
            1..=STATIC_FIELDS => Fact::Nothing,
            _ => self.field(index).map_or(Fact::Unseen, |field| field.fact.clone()),
        })
    }

    fn field(&self, index: u64) -> Option<&Field> {
        self.fields.get(usize::try_from(index.checked_sub(STATIC_FIELDS + 1)?).ok()?)
    }

    fn literal(&self, reader: &mut Reader<'_>, prefix: u32) -> Result<Field, Invalid> {
        let index = reader.integer(prefix)?;
        let (name, name_length) = match index {
            0 => {
                let name = reader.string()?;
                (Name::of(name), name.len() as u64)
            }
            1..=STATIC_FIELDS => Name::of_static(index),
            _ => self.field(index).map_or((Name::Unseen, 0), |field| (field.name, field.name_length)),
        };
        let value = reader.string()?;
        let size = name_length + value.len() as u64 + FIELD_COST;
        Ok(Field { name, name_length, fact: name.fact(value), size })
    }

    fn insert(&mut self, field: Field) {
        self.size += field.size;
        self.fields.push_front(field);
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.size_max {
            let Some(field) = self.fields.pop_back() else { break };
            self.size -= field.size;
        }
    }
}

impl Name {
    fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Name::Method,
            b":path" => Name::Path,
            b":status" => Name::Status,
            b"content-type" => Name::ContentType,
            b"user-agent" => Name::UserAgent,
            _ => Name::Other,
        }
    }

    /// A name of the static table, and its length (RFC 7541, appendix A).
    fn of_static(index: u64) -> (Self, u64) {
        /// Lengths of the names.
        #[rustfmt::skip]
        const LENGTHS: [u8; 61] = [
            10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
            12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
        ];
        let name = match index {
            2 | 3 => Name::Method,
            4 | 5 => Name::Path,
            8..=14 => Name::Status,
            31 => Name::ContentType,
            58 => Name::UserAgent,
            _ => Name::Other,
        };
        let length = usize::try_from(index - 1).ok().and_then(|at| LENGTHS.get(at)).copied();
        (name, length.unwrap_or_default().into())
    }

    fn fact(self, value: &[u8]) -> Fact {
        let text = || std::str::from_utf8(value).ok();
        let fact = match self {
            Name::Method => text()
                .filter(|text| {
                    text.len() <= METHOD_MAX && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
                })
                .map(|text| Fact::Method(text.to_owned())),
            Name::Path => text().map(|path| {
                Fact::Path(if route::may_be_grpc(path) { path.to_owned() } else { route::template(path) })
            }),
            Name::Status => text().and_then(|text| text.parse().ok()).map(Fact::Status),
            Name::ContentType if route::is_event_stream(value) => Some(Fact::EventStream),
            Name::ContentType if value.starts_with(b"application/grpc") => Some(Fact::Grpc),
            Name::UserAgent if value.starts_with(PROBER.as_bytes()) => Some(Fact::Prober),
            Name::Unseen => None,
            Name::ContentType | Name::UserAgent | Name::Other => Some(Fact::Nothing),
        };
        fact.unwrap_or(Fact::Unseen)
    }
}

/// Integers and strings one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    /// The latest string, when it had to be decoded.
    text: Vec<u8>,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Invalid> {
        let (&first, rest) = self.bytes.split_first().ok_or(Invalid)?;
        self.bytes = rest;
        Ok(first)
    }

    /// A number whose first bits are the last `prefix` ones of a byte (RFC 7541, section 5.1).
    fn integer(&mut self, prefix: u32) -> Result<u64, Invalid> {
        let most = (1 << prefix) - 1;
        let mut number = u64::from(self.byte()?) & most;
        if number < most {
            return Ok(number);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Invalid)
    }

    fn string(&mut self) -> Result<&[u8], Invalid> {
        let coded = self.bytes.first().is_some_and(|first| first & 0x80 != 0);
        let length = usize::try_from(self.integer(7)?).map_err(|_| Invalid)?;
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or(Invalid)?;
        self.bytes = rest;
        if !coded {
            return Ok(bytes);
        }
        self.text.clear();
        huffman::decode(bytes, &mut self.text).ok_or(Invalid)?;
        Ok(&self.text)
    }
}
