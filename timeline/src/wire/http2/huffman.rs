//! HPACK's Huffman code (RFC 7541, appendix B). It is canonical, so the lengths of its words say everything.

/// Length in bits of each octet's word, and of the end-of-string word.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28,
    30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11,
    8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20,
    22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21,
    22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23,
    22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27,
    26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];
const LENGTH_MAX: usize = 30;
/// Bits of the last octet that may be padding.
const PADDING_MAX: u32 = 7;

/// For each length: its first word, how many words it has, and where their symbols are.
struct Words {
    first: [u32; LENGTH_MAX + 1],
    count: [u32; LENGTH_MAX + 1],
    begin: [u32; LENGTH_MAX + 1],
    symbols: [u16; 257],
}

static WORDS: Words = words();

const fn words() -> Words {
    let mut words = Words {
        first: [0; LENGTH_MAX + 1],
        count: [0; LENGTH_MAX + 1],
        begin: [0; LENGTH_MAX + 1],
        symbols: [0; 257],
    };
    let (mut code, mut at, mut length) = (0, 0, 1);
    while length <= LENGTH_MAX {
        words.first[length] = code;
        words.begin[length] = at;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol as usize] as usize == length {
                words.symbols[at as usize] = symbol;
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        words.count[length] = at - words.begin[length];
        code <<= 1;
        length += 1;
    }
    words
}

/// Appends the octets that the bits stand for; `None` if they are no such code.
pub(super) fn decode(bits: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let (mut word, mut length) = (0u32, 0usize);
    for byte in bits {
        for shift in (0..8).rev() {
            word = word << 1 | u32::from(byte >> shift & 1);
            length += 1;
            let at = word.wrapping_sub(WORDS.first[length]);
            if at < WORDS.count[length] {
                // The end-of-string word is not to be used.
                into.push(u8::try_from(WORDS.symbols[(WORDS.begin[length] + at) as usize]).ok()?);
                (word, length) = (0, 0);
            }
        }
    }
    // What is left is padding: ones (RFC 7541, section 5.2).
    let padding = u32::try_from(length).ok()?;
    (padding <= PADDING_MAX && word == (1 << padding) - 1).then_some(())
}
