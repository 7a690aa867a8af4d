//! The format of hsperfdata: the counters that a HotSpot JVM keeps in a file for jstat.
//!
//! Layout: `PerfDataPrologue` and `PerfDataEntry` in hotspot/share/runtime/perfMemory.hpp, version 2.0 since JDK 1.5.
//! The bytes come from a file that the followed process can write, so every offset is checked, and whatever they are
//! they give entries or an error.

/// Size of the prologue.
pub const PROLOGUE_BYTES: usize = 32;
/// Size of an entry's fixed part.
const ENTRY_BYTES: usize = 20;
const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const LITTLE_ENDIAN: u8 = 1;
const MAJOR: u8 = 2;
/// `PerfMaxStringConstLength` by default, and the NUL: a constant of that size may have been cut.
const LONGEST_TEXT: usize = 1025;

/// What is wrong with the bytes, and at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end too early.
    #[error("ends at byte {at}, where more was expected")]
    Truncated {
        /// Where they end.
        at: usize,
    },
    /// They are of something else.
    #[error("does not begin with the magic number of hsperfdata")]
    Magic,
    /// They are big-endian.
    #[error("byte order {order} (byte 4) is not little-endian")]
    ByteOrder {
        /// As found.
        order: u8,
    },
    /// They are of a version that is not known.
    #[error("format version {major} (byte 5) is not {MAJOR}")]
    Version {
        /// As found.
        major: u8,
    },
    /// A length or an offset does not fit.
    #[error("{field} at byte {at} is {value}, which is outside")]
    Outside {
        /// Where it stands.
        at: usize,
        /// Which it is.
        field: &'static str,
        /// As found.
        value: i32,
    },
    /// A name has no end or is not ASCII.
    #[error("the name at byte {at} is not one")]
    Name {
        /// Where it stands.
        at: usize,
    },
    /// The JVM is about to write an entry: there is more a moment later.
    #[error("the entry at byte {at} is not written yet")]
    Unfinished {
        /// Where it stands.
        at: usize,
    },
}

/// The prologue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// The JVM has come to the end of its own start.
    pub accessible: bool,
    /// Bytes in use.
    pub used_bytes: usize,
    /// Offset of the first entry.
    pub first: usize,
    /// Number of entries.
    pub entries: usize,
}

impl Prologue {
    /// Reads the prologue.
    ///
    /// # Errors
    /// When these are not the first bytes of such a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(prologue) = bytes.first_chunk::<PROLOGUE_BYTES>() else {
            return Err(Malformed::Truncated { at: bytes.len() });
        };
        if prologue[..4] != MAGIC {
            return Err(Malformed::Magic);
        }
        if prologue[4] != LITTLE_ENDIAN {
            return Err(Malformed::ByteOrder { order: prologue[4] });
        }
        if prologue[5] != MAJOR {
            return Err(Malformed::Version { major: prologue[5] });
        }
        let used_bytes = size(bytes, 8, "used")?;
        let first = size(bytes, 24, "entry offset")?;
        if first < PROLOGUE_BYTES {
            return Err(outside(24, "entry offset", i32_at(bytes, 24)?));
        }
        let entries = size(bytes, 28, "number of entries")?;
        Ok(Self { accessible: prologue[7] != 0, used_bytes, first, entries })
    }
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Such as `java.cls.loadedClasses`.
    pub name: &'a str,
    /// Offset of the value.
    pub at: usize,
    /// What it was.
    pub value: Value<'a>,
}

/// Value of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Long(i64),
    /// Bytes of a text, without its NUL.
    Text {
        /// As much as there is.
        bytes: &'a [u8],
        /// It is as long as the JVM lets a text be, so its end may be missing.
        cut: bool,
    },
    /// A type that no JVM is known to use.
    Other,
}

/// Reads the entries of a file that begins with `prologue`; an error is the last item.
pub fn entries<'a>(
    bytes: &'a [u8],
    prologue: &Prologue,
) -> impl Iterator<Item = Result<Entry<'a>, Malformed>> + use<'a> {
    let mut at = prologue.first;
    let mut left = prologue.entries;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let item = entry(bytes, at);
        match item {
            // An entry is at least its fixed part, so the bytes bound the loop whatever the count says.
            Ok((_, length)) => at += length,
            Err(_) => left = 0,
        }
        Some(item.map(|(entry, _)| entry))
    })
}

/// The entry that begins at `at`, and its length.
fn entry(bytes: &[u8], at: usize) -> Result<(Entry<'_>, usize), Malformed> {
    // PerfMemory::alloc counts an entry before PerfData::create_entry fills in its zeroes (perfMemory.cpp, perfData.cpp).
    let unfinished = Malformed::Unfinished { at };
    let length = match i32_at(bytes, at)? {
        0 => return Err(unfinished),
        _ => size(bytes, at, "entry length")?,
    };
    let end = at.checked_add(length).filter(|end| length >= ENTRY_BYTES && *end <= bytes.len());
    let Some(entry) = end.and_then(|end| bytes.get(at..end)) else {
        return Err(outside(at, "entry length", i32_at(bytes, at)?));
    };
    let within = |field: usize, name: &'static str| {
        let value = i32_at(entry, field)?;
        let offset = usize::try_from(value).ok().filter(|offset| *offset <= length);
        offset.ok_or(outside(at + field, name, value))
    };
    let (name_at, vector) = (within(4, "name offset")?, within(8, "vector length")?);
    let data_at = within(16, "data offset")?;
    let kind = entry[12];
    if name_at == 0 || data_at == 0 || kind == 0 {
        return Err(unfinished);
    }
    if name_at < ENTRY_BYTES {
        return Err(outside(at + 4, "name offset", i32_at(entry, 4)?));
    }
    if data_at < ENTRY_BYTES {
        return Err(outside(at + 16, "data offset", i32_at(entry, 16)?));
    }
    let name = entry[name_at..].split(|byte| *byte == 0).next().unwrap_or_default();
    let ended = name_at + name.len() < length;
    if name.is_empty() && ended {
        return Err(unfinished);
    }
    let name = std::str::from_utf8(name).ok().filter(|name| ended && name.is_ascii());
    let name = name.ok_or(Malformed::Name { at: at + name_at })?;
    let data = &entry[data_at..];
    let value = match (kind, vector) {
        (b'J', 0) => match data.first_chunk() {
            Some(long) => Value::Long(i64::from_le_bytes(*long)),
            None => return Err(outside(at + 16, "data offset", i32_at(entry, 16)?)),
        },
        (b'B', 1..) => {
            let text = data.get(..vector).ok_or(outside(at + 8, "vector length", i32_at(entry, 8)?))?;
            let bytes = text.split(|byte| *byte == 0).next().unwrap_or_default();
            Value::Text { bytes, cut: vector >= LONGEST_TEXT && bytes.len() + 1 >= vector }
        }
        _ => Value::Other,
    };
    Ok((Entry { name, at: at + data_at, value }, length))
}

/// The number at an offset, for values whose entry is known.
pub fn long_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Result<i32, Malformed> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.map(|found| i32::from_le_bytes(*found)).ok_or(Malformed::Truncated { at: bytes.len() })
}

fn size(bytes: &[u8], at: usize, field: &'static str) -> Result<usize, Malformed> {
    let value = i32_at(bytes, at)?;
    usize::try_from(value).map_err(|_| outside(at, field, value))
}

fn outside(at: usize, field: &'static str, value: i32) -> Malformed {
    Malformed::Outside { at, field, value }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a file is made of in tests.
    #[derive(Clone, Debug)]
    pub enum Made {
        Long(i64),
        Text(String),
    }

    /// A file as a JVM writes it.
    pub fn file(counters: &[(&str, Made)]) -> Vec<u8> {
        let int = |value: usize| i32::try_from(value).unwrap().to_le_bytes();
        let mut bytes = vec![0; PROLOGUE_BYTES];
        for (name, made) in counters {
            let name_end = (ENTRY_BYTES + name.len() + 1).next_multiple_of(8);
            let (kind, vector, data) = match made {
                Made::Long(value) => (b'J', 0, value.to_le_bytes().to_vec()),
                Made::Text(text) => (b'B', text.len() + 1, [text.as_bytes(), b"\0"].concat()),
            };
            let length = (name_end + data.len()).next_multiple_of(8);
            let start = bytes.len();
            for field in [length, ENTRY_BYTES, vector] {
                bytes.extend(int(field));
            }
            bytes.extend([kind, 1, 1, 1]);
            bytes.extend(int(name_end));
            bytes.extend(name.as_bytes());
            bytes.resize(start + name_end, 0);
            bytes.extend(data);
            bytes.resize(start + length, 0);
        }
        let used = int(bytes.len());
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[LITTLE_ENDIAN, MAJOR, 0, 1]);
        bytes[8..12].copy_from_slice(&used);
        bytes[24..28].copy_from_slice(&int(PROLOGUE_BYTES));
        bytes[28..32].copy_from_slice(&int(counters.len()));
        bytes
    }

    fn all(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Malformed> {
        entries(bytes, &Prologue::parse(bytes)?).collect()
    }

    fn two() -> Vec<u8> {
        file(&[("a.count", Made::Long(7)), ("a.text", Made::Text("-Xmx1g -Xint".into()))])
    }

    #[test]
    fn a_file_of_two_counters() {
        let bytes = two();
        let prologue = Prologue::parse(&bytes).unwrap();
        let expect = Prologue { accessible: true, used_bytes: bytes.len(), first: 32, entries: 2 };
        assert_eq!(prologue, expect);
        let text = Value::Text { bytes: b"-Xmx1g -Xint", cut: false };
        assert_eq!(
            all(&bytes).unwrap(),
            [
                Entry { name: "a.count", at: 64, value: Value::Long(7) },
                Entry { name: "a.text", at: 104, value: text }
            ]
        );
        assert_eq!(long_at(&bytes, 64), Some(7));
        assert_eq!(long_at(&bytes, bytes.len()), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_offset() {
        let changed = |at: usize, with: &[u8]| {
            let mut bytes = two();
            bytes[at..at + with.len()].copy_from_slice(with);
            bytes
        };
        let huge = i32::MAX.to_le_bytes();
        for (bytes, expect) in [
            (two()[..20].to_vec(), Malformed::Truncated { at: 20 }),
            (changed(0, &[0]), Malformed::Magic),
            (changed(4, &[0]), Malformed::ByteOrder { order: 0 }),
            (changed(5, &[3]), Malformed::Version { major: 3 }),
            (changed(24, &[31]), outside(24, "entry offset", 31)),
            (changed(24, &huge), Malformed::Truncated { at: two().len() }),
            (changed(28, &[255; 4]), outside(28, "number of entries", -1)),
            (changed(28, &huge), Malformed::Truncated { at: two().len() }),
            (changed(32, &huge), outside(32, "entry length", i32::MAX)),
            (changed(32, &[19]), outside(32, "entry length", 19)),
            (changed(32, &[0]), Malformed::Unfinished { at: 32 }),
            (changed(36, &huge), outside(36, "name offset", i32::MAX)),
            (changed(36, &[3]), outside(36, "name offset", 3)),
            (changed(36, &[40]), Malformed::Name { at: 72 }),
            (changed(48, &[255; 4]), outside(48, "data offset", -1)),
            (changed(48, &[39]), outside(48, "data offset", 39)),
            (changed(44, &[0]), Malformed::Unfinished { at: 32 }),
            (changed(52, &[200]), Malformed::Name { at: 52 }),
            (changed(80, &[32]), outside(80, "vector length", 32)),
        ] {
            assert_eq!(all(&bytes), Err(expect), "{expect}");
        }
    }

    #[test]
    fn a_text_of_the_longest_size_may_be_cut() {
        for (length, expect) in [(1023, false), (1024, true)] {
            let bytes = file(&[("t", Made::Text("x".repeat(length)))]);
            assert!(matches!(all(&bytes).unwrap()[0].value, Value::Text { cut, .. } if cut == expect));
        }
    }

    fn counters() -> impl Strategy<Value = Vec<(String, Made)>> {
        let value = prop_oneof![any::<i64>().prop_map(Made::Long), "[ -~]{0,40}".prop_map(Made::Text)];
        prop::collection::vec(("[a-z.0-9]{1,30}", value), 0..20)
    }

    fn check_total(bytes: &[u8]) {
        let Ok(prologue) = Prologue::parse(bytes) else { return };
        let mut read = 0;
        for item in entries(bytes, &prologue) {
            read += 1;
            match item {
                Ok(entry) => assert!(entry.at < bytes.len()),
                Err(
                    Malformed::Outside { at, .. }
                    | Malformed::Name { at }
                    | Malformed::Unfinished { at }
                    | Malformed::Truncated { at },
                ) => assert!(at <= bytes.len()),
                Err(error) => panic!("not an entry's: {error}"),
            }
        }
        assert!(read <= 1 + bytes.len() / ENTRY_BYTES, "bounded by the bytes, not by what they say");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_was_written_is_read(counters in counters()) {
            let borrowed: Vec<(&str, Made)> = counters.iter().map(|(n, m)| (n.as_str(), m.clone())).collect();
            let bytes = file(&borrowed);
            let read = all(&bytes).unwrap();
            prop_assert_eq!(read.len(), counters.len());
            for (entry, (name, made)) in read.iter().zip(&counters) {
                prop_assert_eq!(entry.name, name);
                match made {
                    Made::Long(value) => prop_assert_eq!(entry.value, Value::Long(*value)),
                    Made::Text(text) => {
                        prop_assert_eq!(entry.value, Value::Text { bytes: text.as_bytes(), cut: false });
                    }
                }
            }
        }

        #[test]
        fn any_bytes_give_entries_or_an_error(
            counters in counters(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
            length in any::<prop::sample::Index>(),
        ) {
            let borrowed: Vec<(&str, Made)> = counters.iter().map(|(n, m)| (n.as_str(), m.clone())).collect();
            let mut bytes = file(&borrowed);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            check_total(&bytes);
            bytes.truncate(length.index(bytes.len()));
            check_total(&bytes);
        }

        #[test]
        fn garbage_behind_a_prologue(garbage in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = file(&[]);
            bytes[28..32].copy_from_slice(&i32::MAX.to_le_bytes());
            bytes.extend(garbage);
            check_total(&bytes);
        }
    }
}
