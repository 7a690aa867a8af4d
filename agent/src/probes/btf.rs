//! Member offsets from the kernel's BTF (Documentation/bpf/btf.rst).
//!
//! Only that: a general parser takes 85 MB and a fifth of a second for the kernel's 120,000 types, on every node, for
//! the two dozen offsets that the probes need. This one keeps the file's bytes and where each type begins.

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

// Kinds of types (include/uapi/linux/btf.h).
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const TYPE_TAG: u32 = 18;

/// Types that lead to another are followed so far, and anonymous members so deep.
const DEPTH_MAX: u32 = 16;

/// The types of a BTF file.
#[derive(Debug)]
pub struct Btf<'a> {
    data: &'a [u8],
    /// Begin of each type, by id; the first is void's.
    types: Vec<usize>,
    strings: &'a [u8],
}

#[derive(Clone, Copy)]
struct Type {
    at: usize,
    name: u32,
    info: u32,
    /// Id of the type that this one leads to, for kinds that lead to one.
    target: u32,
}

impl Type {
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn members(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Member offsets are shared with bit-field sizes.
    fn has_bit_fields(self) -> bool {
        self.info >> 31 == 1
    }

    /// Bytes behind the common part.
    fn tail(self) -> Option<usize> {
        let members = self.members();
        Some(match self.kind() {
            2 | 7..=12 | 16 | TYPE_TAG => 0,
            1 | 14 | 17 => 4,
            3 => 12,
            STRUCT | UNION | 15 | 19 => members * 12,
            6 | 13 => members * 8,
            _ => return None,
        })
    }
}

impl<'a> Btf<'a> {
    /// Finds where each type begins; `None` when the bytes are no BTF.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(data.get(..2)?.try_into().ok()?);
        let header = |field: usize| Some(u32_at(data, field)? as usize);
        let (header_len, type_off, type_len) = (header(4)?, header(8)?, header(12)?);
        let (string_off, string_len) = (header(16)?, header(20)?);
        if magic != MAGIC || header_len < HEADER_BYTES {
            return None;
        }
        let begin = header_len.checked_add(type_off)?;
        let end = begin.checked_add(type_len)?;
        let strings_at = header_len.checked_add(string_off)?;
        let strings = data.get(strings_at..strings_at.checked_add(string_len)?)?;
        data.get(begin..end)?;
        let mut btf = Self { data, types: vec![0], strings };
        let mut at = begin;
        while at < end {
            let tail = btf.read(at)?.tail()?;
            btf.types.push(at);
            at = at.checked_add(TYPE_BYTES + tail)?;
        }
        Some(btf)
    }

    /// Whether anything has this name.
    pub fn names(&self, name: &str) -> bool {
        self.strings.split(|byte| *byte == 0).any(|string| string == name.as_bytes())
    }

    /// Offset in bytes of a member of a struct; `path` names members of members with dots.
    pub fn offset(&self, structure: &str, path: &str) -> Option<u32> {
        self.bit_offset(structure, path).map(|bits| bits / 8)
    }

    /// Byte of a bit-field of one bit, and its mask there.
    pub fn bit(&self, structure: &str, path: &str) -> Option<(u32, u32)> {
        let bits = self.bit_offset(structure, path)?;
        // Bits are counted from the least significant one only on little-endian machines.
        let bit = if cfg!(target_endian = "little") { bits % 8 } else { 7 - bits % 8 };
        Some((bits / 8, 1 << bit))
    }

    fn bit_offset(&self, structure: &str, path: &str) -> Option<u32> {
        let named = |ty: &Type| ty.kind() == STRUCT && self.name(ty.name) == Some(structure.as_bytes());
        let mut ty = self.types.iter().skip(1).filter_map(|at| self.read(*at)).find(named)?;
        let mut bits = 0u32;
        for name in path.split('.') {
            let (at, target) = self.member(ty, name.as_bytes(), 0)?;
            bits = bits.checked_add(at)?;
            ty = self.resolve(target)?;
        }
        Some(bits)
    }

    /// Offset in bits and type of a member, also of one in an anonymous struct or union.
    fn member(&self, ty: Type, name: &[u8], depth: u32) -> Option<(u32, u32)> {
        if depth == DEPTH_MAX || !matches!(ty.kind(), STRUCT | UNION) {
            return None;
        }
        (0..ty.members()).find_map(|index| {
            let at = ty.at + TYPE_BYTES + index * 12;
            let own = self.name(u32_at(self.data, at)?)?;
            let target = u32_at(self.data, at + 4)?;
            let offset = u32_at(self.data, at + 8)?;
            let bits = if ty.has_bit_fields() { offset & 0x00ff_ffff } else { offset };
            if !own.is_empty() {
                return (own == name).then_some((bits, target));
            }
            let (inner, target) = self.member(self.resolve(target)?, name, depth + 1)?;
            Some((bits.checked_add(inner)?, target))
        })
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, id: u32) -> Option<Type> {
        let mut id = id;
        for _ in 0..DEPTH_MAX {
            let ty = self.read(*self.types.get(id as usize).filter(|at| **at != 0)?)?;
            if !matches!(ty.kind(), TYPEDEF | VOLATILE | CONST | TYPE_TAG) {
                return Some(ty);
            }
            id = ty.target;
        }
        None
    }

    fn read(&self, at: usize) -> Option<Type> {
        let field = |offset| u32_at(self.data, at + offset);
        Some(Type { at, name: field(0)?, info: field(4)?, target: field(8)? })
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        let rest = self.strings.get(offset as usize..)?;
        rest.split(|byte| *byte == 0).next()
    }
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// struct s { int a; union { const int b; int c; }; }, as a compiler writes it.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0c\0";
        let types: &[u32] = &[
            1,
            1 << 24,
            4,
            32, // 1: int, 32 bits
            0,
            10 << 24,
            1, // 2: const int
            0,
            (5 << 24) | 2,
            4,
            9,
            2,
            0,
            11,
            1,
            0, // 3: union { const int b; int c; }
            5,
            (4 << 24) | 2,
            8,
            7,
            1,
            0,
            0,
            3,
            32, // 4: struct s
        ];
        let type_len = u32::try_from(types.len() * 4).unwrap();
        let string_len = u32::try_from(strings.len()).unwrap();
        let mut data = MAGIC.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        for field in [24, 0, type_len, type_len, string_len] {
            data.extend(u32::to_ne_bytes(field));
        }
        data.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        data.extend(strings);
        data
    }

    #[test]
    fn members_also_in_anonymous_unions() {
        let data = sample();
        let btf = Btf::parse(&data).unwrap();
        for (path, expect) in
            [("a", Some(0)), ("b", Some(4)), ("c", Some(4)), ("d", None), ("a.b", None), ("", None)]
        {
            assert_eq!(btf.offset("s", path), expect, "{path}");
        }
        assert_eq!(btf.offset("int", "a"), None);
    }

    proptest! {
        #[test]
        fn damage_is_none_not_a_panic(at in 0usize..200, byte: u8, cut in 0usize..200) {
            let mut data = sample();
            let len = data.len();
            data[at % len] = byte;
            data.truncate(len - cut % len);
            if let Some(btf) = Btf::parse(&data) {
                let _ = btf.offset("s", "c");
            }
        }
    }
}
