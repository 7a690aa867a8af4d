use loona_hpack::Decoder;
use proptest::prelude::*;

use super::{
    hpack::{Fact, Table},
    huffman,
};

#[test]
fn the_standards_words() {
    // RFC 7541, appendix C.4 and C.6.
    for (bits, expect) in [
        (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..], "www.example.com"),
        (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
        (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
        (&[0x64, 0x02], "302"),
    ] {
        let mut text = Vec::new();
        assert_eq!(huffman::decode(bits, &mut text), Some(()));
        assert_eq!(text, expect.as_bytes());
    }
    for wrong in [&[0xff, 0xff, 0xff, 0xff][..], &[0x64], &[0x00], &[0xf1, 0xff, 0xff]] {
        assert_eq!(huffman::decode(wrong, &mut Vec::new()), None, "{wrong:x?}");
    }
}

/// What the fields of a block tell, read by another's decoder.
fn facts(decoder: &mut Decoder<'_>, block: &[u8]) -> Option<Vec<Fact>> {
    let mut facts = Vec::new();
    let read = decoder.decode_with_cb(block, |name, value| {
        facts.push(match (&*name, std::str::from_utf8(&value)) {
            (b":method", Ok(method)) => Fact::Method(method.to_owned()),
            (b":path", Ok(path)) => Fact::Path(path.to_owned()),
            (b":status", Ok(status)) => status.parse().map_or(Fact::Unseen, Fact::Status),
            _ => Fact::Nothing,
        });
    });
    read.ok().map(|()| facts)
}

fn read(table: &mut Table, block: &[u8]) -> Option<Vec<Fact>> {
    let mut facts = Vec::new();
    table.read(block, |fact| facts.push(fact)).ok().map(|()| facts)
}

/// One field as a block holds it, the simple way: all numbers and lengths fit their first byte.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let string = |text: String| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    let literal =
        move |first: u8, name: String, value: String| [vec![first], string(name), string(value)].concat();
    let named = prop_oneof![
        ("[A-Z]{1,7}").prop_map(|method| (":method".to_owned(), method)),
        ("/[a-z]{0,5}").prop_map(|path| (":path".to_owned(), path)),
        (100u16..600).prop_map(|status| (":status".to_owned(), status.to_string())),
        ("x-[a-z]{1,12}", "[ -~]{0,100}"),
    ];
    let kind = prop_oneof![3 => Just(0x40u8), 1 => Just(0x00), 1 => Just(0x10)];
    prop_oneof![
        4 => (0x81u8..0xff).prop_map(|index| vec![index]),
        1 => (0x20u8..0x3f).prop_map(|size| vec![size]),
        1 => (0u8..120).prop_map(|size| vec![0x3f, size]),
        1 => Just(vec![0x3f, 0xe1, 0x1f]),
        4 => (kind, named).prop_map(move |(kind, (name, value))| literal(kind, name, value)),
        // The name alone from the table: `:method`, `:path`, `:status`, cookie, and fields that were kept.
        1 => (0u8..7, "[A-Z]{1,7}").prop_map(move |(at, value)| {
            [vec![0x40 | [2, 4, 8, 32, 62, 62, 32][usize::from(at)]], string(value)].concat()
        }),
        1 => "/[a-z]{0,5}".prop_map(move |path| [vec![0x44], string(path)].concat()),
    ]
}

fn block() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(field(), 0..10)).prop_map(|fields| [fields.concat(), vec![0x82]].concat())
}

proptest! {
    #[test]
    fn words_are_read_as_another_reads_them(bits in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut text = Vec::new();
        let read = huffman::decode(&bits, &mut text).map(|()| text);
        let other = loona_hpack::huffman::HuffmanDecoder::new().decode(&bits).ok();
        prop_assert_eq!(read, other);
    }

    #[test]
    fn blocks_are_read_as_another_reads_them(blocks in prop::collection::vec(block(), 1..12)) {
        let (mut decoder, mut table) = (Decoder::new(), Table::default());
        for block in &blocks {
            let Some(expect) = facts(&mut decoder, block) else { return Ok(()) };
            prop_assert_eq!(read(&mut table, block), Some(expect));
        }
    }

    #[test]
    fn what_was_not_seen_is_said_and_nothing_wrong(
        blocks in prop::collection::vec(block(), 2..12),
        lost in 0usize..6,
    ) {
        let (mut decoder, mut table) = (Decoder::new(), Table::default());
        for (at, block) in blocks.iter().enumerate() {
            let Some(whole) = facts(&mut decoder, block) else { return Ok(()) };
            if at == lost {
                table.forget();
                continue;
            }
            let read = read(&mut table, block).expect("a block");
            prop_assert_eq!(read.len(), whole.len());
            for (fact, other) in read.iter().zip(&whole) {
                let unseen = at > lost && *fact == Fact::Unseen;
                prop_assert!(fact == other || unseen, "{:?} is not {:?}", fact, other);
            }
        }
    }

    #[test]
    fn no_block_panics(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..6)) {
        let mut table = Table::default();
        for block in &blocks {
            let _ = table.read(block, |_| {});
        }
    }
}
