use proptest::prelude::*;

use super::*;
use crate::wire::http2::PREFACE;

/// A client's side of an HTTP/1 connection, and how many requests it holds.
fn conversation() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let body = prop_oneof![
        Just((String::new(), Vec::new())),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|body| (format!("Content-Length: {}\r\n", body.len()), body)),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..4).prop_map(|chunks| {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            ("Transfer-Encoding: chunked\r\n".to_owned(), body)
        }),
    ];
    let request = ("[A-Z]{1,6}", "/[a-z/0-9]{0,20}", body).prop_map(|(method, path, (header, body))| {
        let mut bytes =
            format!("{method} {path}?secret=hunter2 HTTP/1.1\r\nX: hunter2\r\n{header}\r\n").into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    });
    prop::collection::vec(request, 1..6).prop_map(|requests| (requests.concat(), requests.len()))
}

/// Reads and writes of anything; lengths may be larger than what is captured.
fn calls() -> impl Strategy<Value = Vec<(bool, Vec<u8>, u32)>> {
    let starts = prop_oneof![
        Just(&b""[..]),
        Just(&b"GET / HTTP/1.1\r\n"[..]),
        Just(&b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"[..]),
        Just(&b"POST / HTTP/1.1\r\nContent-Length: 300\r\nExpect: 100-continue\r\n\r\n"[..]),
        Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..]),
        Just(&b"HTTP/1.1 100 \r\n\r\n"[..]),
        Just(PREFACE),
        Just(&b"\0\0\x03\x01\x05\0\0\0\x01\x82\x84\xbe"[..]),
        Just(&b"\0\0\x0a\x01\x2d\0\0\0\x03"[..]),
        Just(&b"\0\0\x02\x09\x04\0\0\0\x03"[..]),
        Just(&b"\0\0\x40\0\x01\0\0\0\x01"[..]),
        Just(&b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0"[..]),
        Just(&b"GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"[..]),
        Just(&b"HTTP/1.1 101 \r\nUpgrade: h2c\r\n\r\n"[..]),
        Just(&b"\x16\x03\x01\x00\x28\x01\x00\x00\x24"[..]),
        Just(&b"\x16\x03\x03\x00\x08\x02"[..]),
        Just(&b"\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x35"[..]),
        Just(&b"\x17\x03\x03\x00\x20"[..]),
    ];
    let call = (
        any::<bool>(),
        starts,
        prop::collection::vec(any::<u8>(), 0..60),
        prop_oneof![
            4 => Just(0u32),
            1 => 0u32..10_000,
            1 => any::<u32>()
        ],
    );
    let call = call.prop_map(|(read, start, noise, more)| {
        let bytes = [start, &noise].concat();
        let len = u32::try_from(bytes.len()).expect("short").saturating_add(more);
        (read, bytes, len)
    });
    prop::collection::vec(call, 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_cutting_of_the_same_bytes_opens_the_same(
        (bytes, requests) in conversation(),
        lengths in prop::collection::vec(0usize..60, 0..12),
    ) {
        let whole = Wire::default().reads(&bytes).openings;
        prop_assert_eq!(whole.len(), requests);
        prop_assert_eq!(Wire::default().reads_cut(&bytes, &lengths), whole);
    }

    #[test]
    fn any_cutting_of_any_bytes_of_http1_opens_the_same(
        calls in calls(),
        lengths in prop::collection::vec(0usize..60, 0..12),
    ) {
        let bytes: Vec<u8> = calls.into_iter().flat_map(|(_, bytes, _)| bytes).collect();
        if bytes.starts_with(&[0x16, 3]) || bytes.starts_with(PREFACE) {
            return Ok(());
        }
        let whole = Wire::default().reads(&bytes).openings;
        prop_assert_eq!(Wire::default().reads_cut(&bytes, &lengths), whole);
    }

    #[test]
    fn nothing_panics_or_shows_what_was_said(calls in calls()) {
        for mut wire in [Wire::default(), Wire::adopted()] {
            for (read, bytes, len) in &calls {
                let bytes = [bytes, &b"hunter2"[..]].concat();
                let piece = cut(&bytes, len.saturating_add(7));
                let said = if *read {
                    format!("{:?}", wire.received(piece))
                } else {
                    format!("{:?}", wire.sent(&[piece, piece]))
                };
                prop_assert!(!said.contains("hunter2"), "{said}");
            }
            let said = format!("{wire:?}");
            prop_assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn any_cutting_of_streams_opens_the_same(
        requests in prop::collection::vec(("[A-Z]{1,6}", "/[a-z/0-9]{0,20}", 0usize..50), 1..8),
        lengths in prop::collection::vec(0usize..60, 0..12),
    ) {
        let mut client = super::http2::End::new();
        let mut bytes = PREFACE.to_vec();
        for (stream, (method, path, body)) in (1u32..).step_by(2).zip(&requests) {
            bytes.extend(client.asks(stream, method, &format!("{path}?secret=hunter2")));
            bytes.extend(super::http2::frame(0, 1, stream, &vec![0xda; *body]));
        }
        let mut wire = Wire::default();
        let whole = wire.reads(&bytes).openings;
        prop_assert_eq!(whole.len(), requests.len());
        let said = format!("{whole:?} {wire:?}");
        prop_assert!(!said.contains("hunter2"), "{said}");
        prop_assert_eq!(Wire::default().reads_cut(&bytes, &lengths), whole);
    }

    #[test]
    fn no_secret_survives((bytes, _) in conversation(), end in 0usize..400) {
        let mut wire = Wire::default();
        let end = end.min(bytes.len());
        let received = wire.reads(&bytes[..end]);
        let answers = wire.writes("HTTP/1.1 400 \r\nX: hunter2\r\n\r\nhunter2");
        let said = format!("{received:?} {answers:?} {wire:?}");
        prop_assert!(!said.contains("hunter2"), "{said}");
    }
}
