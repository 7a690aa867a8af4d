use super::*;
use crate::wire::Protocol;

fn record(kind: u8, length: u16) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 3];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.resize(5 + usize::from(length), 0xee);
    bytes
}

fn data(length: u16) -> Vec<u8> {
    record(23, length)
}

fn handshake(kind: u8, length: u16) -> Vec<u8> {
    let mut bytes = record(22, length);
    bytes[5] = kind;
    bytes
}

fn change_cipher_spec() -> Vec<u8> {
    record(20, 1)
}

/// A ClientHello with such extensions.
fn client_hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.resize(34, 7);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    let mut all = Vec::new();
    for (kind, value) in extensions {
        all.extend_from_slice(&kind.to_be_bytes());
        all.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
        all.extend_from_slice(value);
    }
    body.extend_from_slice(&u16::try_from(all.len()).expect("short").to_be_bytes());
    body.extend_from_slice(&all);
    let length = u16::try_from(body.len()).expect("short");
    let mut bytes = vec![22, 3, 1];
    bytes.extend_from_slice(&(length + 4).to_be_bytes());
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

const TAKES_TICKETS: (u16, &[u8]) = (45, &[1, 1]);
const OFFERS_BOTH: (u16, &[u8]) = (16, b"\x00\x0c\x02h2\x08http/1.1");
const OFFERS_HTTP1: (u16, &[u8]) = (16, b"\x00\x09\x08http/1.1");

/// What the probes copy of a write.
fn writes(wire: &mut Wire, bytes: &[u8]) -> Vec<Answer> {
    wire.sent(&[cut(&bytes[..bytes.len().min(32)], u32::try_from(bytes.len()).expect("short"))])
}

/// What the probes copy of a read.
fn reads(wire: &mut Wire, bytes: &[u8]) -> Received {
    wire.received(cut(&bytes[..bytes.len().min(512)], u32::try_from(bytes.len()).expect("short")))
}

fn shook() -> Received {
    opened([Opening::Handshake])
}

fn asked() -> Received {
    opened([Opening::Encrypted])
}

const BEGINS: Answer = Answer::Begins { stream: None, status: None, streaming: false };

/// A TLS 1.3 connection after the server's flight, which was written at once.
fn greeted(extensions: &[(u16, &[u8])]) -> Wire {
    let mut wire = Wire::default();
    assert_eq!(reads(&mut wire, &client_hello(extensions)), shook());
    let flight = [handshake(2, 122), change_cipher_spec(), data(1800)].concat();
    assert_eq!(writes(&mut wire, &flight), [Answer::Handshake]);
    wire
}

#[test]
fn tls_13_as_the_jdk_speaks_it() {
    let mut wire = Wire::default();
    assert_eq!(reads(&mut wire, &client_hello(&[TAKES_TICKETS, OFFERS_HTTP1])), shook());
    for flight in [handshake(2, 122), change_cipher_spec(), data(40), data(1500), data(280), data(53)] {
        assert_eq!(writes(&mut wire, &flight), [Answer::Handshake]);
    }
    assert_eq!(reads(&mut wire, &[change_cipher_spec(), data(53)].concat()), shook());
    assert_eq!(writes(&mut wire, &data(300)), [Answer::Handshake], "a ticket");
    assert_eq!(writes(&mut wire, &data(300)), [Answer::Handshake], "another ticket");
    for _ in 0..3 {
        assert_eq!(reads(&mut wire, &data(100)), asked());
        assert_eq!(writes(&mut wire, &data(300)[..]).len(), 1);
        assert_eq!(writes(&mut wire, &data(16_000)).len(), 1);
        assert_eq!(writes(&mut wire, &data(16_000)), [Answer::Continues]);
    }
    assert_eq!(reads(&mut wire, &data(19)), Received::default(), "close_notify");
    assert_eq!(wire.protocol(), Some(Protocol::Tls { may_multiplex: false }));
}

#[test]
fn finished_and_the_first_request_in_one_read() {
    let both = [change_cipher_spec(), data(69), data(200)].concat();
    let expect = opened([Opening::Handshake, Opening::Encrypted]);

    let mut wire = greeted(&[TAKES_TICKETS]);
    assert_eq!(reads(&mut wire, &both), expect);
    for _ in 0..3 {
        assert_eq!(writes(&mut wire, &data(1200)), [Answer::Handshake], "as many tickets as the JDK sends");
    }
    assert_eq!(reads(&mut wire, &data(500)), continues(), "a body");
    assert_eq!(writes(&mut wire, &data(230)), [BEGINS]);
    assert_eq!(reads(&mut wire, &data(200)), asked());

    let mut wire = greeted(&[TAKES_TICKETS]);
    assert_eq!(reads(&mut wire, &both), expect);
    let tickets_and_answer = [data(234), data(234), data(800)].concat();
    assert_eq!(writes(&mut wire, &tickets_and_answer), [BEGINS]);

    let mut wire = greeted(&[OFFERS_HTTP1]);
    assert_eq!(reads(&mut wire, &both), expect);
    assert_eq!(writes(&mut wire, &data(234)), [BEGINS], "the client takes no tickets");

    let mut wire = greeted(&[TAKES_TICKETS]);
    assert_eq!(reads(&mut wire, &both), expect);
    assert_eq!(writes(&mut wire, &data(234)), [Answer::Handshake]);
    let doubt = Received { openings: vec![lost(Loss::TlsTicket)], ..continues() };
    assert_eq!(reads(&mut wire, &data(200)), doubt, "a body, or a request after an answer");
    assert_eq!(writes(&mut wire, &data(230)), [BEGINS]);
}

#[test]
fn tls_12() {
    let mut wire = Wire::default();
    assert_eq!(reads(&mut wire, &client_hello(&[])), shook());
    assert_eq!(
        writes(&mut wire, &[handshake(2, 90), handshake(11, 1000), handshake(14, 4)].concat()),
        [Answer::Handshake]
    );
    let flight = [handshake(16, 70), change_cipher_spec(), handshake(0x9a, 40)].concat();
    assert_eq!(reads(&mut wire, &flight), shook());
    assert_eq!(writes(&mut wire, &change_cipher_spec()), [Answer::Handshake]);
    assert_eq!(writes(&mut wire, &handshake(0x77, 40)), [Answer::Handshake]);
    for length in [400, 68] {
        assert_eq!(reads(&mut wire, &data(53)), asked());
        assert_eq!(writes(&mut wire, &data(length)), [BEGINS]);
        assert_eq!(writes(&mut wire, &data(400)), [Answer::Continues]);
    }
    assert_eq!(reads(&mut wire, &handshake(0x55, 200)), shook(), "renegotiation");
    assert_eq!(reads(&mut wire, &record(21, 26)), Received::default(), "an alert");
}

#[test]
fn tls_12_resumed() {
    let mut wire = Wire::default();
    reads(&mut wire, &client_hello(&[TAKES_TICKETS]));
    writes(&mut wire, &[handshake(2, 90), change_cipher_spec(), handshake(0x33, 40)].concat());
    let flight = [change_cipher_spec(), handshake(1, 40), data(53)].concat();
    assert_eq!(reads(&mut wire, &flight), opened([Opening::Handshake, Opening::Encrypted]));
    assert_eq!(writes(&mut wire, &data(400)), [BEGINS]);
}

#[test]
fn a_hello_that_the_server_asks_to_repeat() {
    let mut wire = Wire::default();
    reads(&mut wire, &client_hello(&[]));
    assert_eq!(writes(&mut wire, &[handshake(2, 88), change_cipher_spec()].concat()), [Answer::Handshake]);
    let again = [change_cipher_spec(), client_hello(&[(51, &[0; 200])])].concat();
    assert_eq!(reads(&mut wire, &again), shook());
    writes(&mut wire, &[handshake(2, 122), data(1800)].concat());
    assert_eq!(reads(&mut wire, &data(53)), shook());
    assert_eq!(reads(&mut wire, &data(80)), asked());
}

#[test]
fn client_certificates() {
    let mut wire = greeted(&[]);
    assert_eq!(reads(&mut wire, &[change_cipher_spec(), data(300)].concat()), shook());
    assert_eq!(reads(&mut wire, &data(281)), shook());
    assert_eq!(reads(&mut wire, &data(53)), shook());
    assert_eq!(reads(&mut wire, &data(281)), asked());

    let mut wire = greeted(&[]);
    assert_eq!(reads(&mut wire, &data(1500)), shook(), "the whole flight in one record");
    assert_eq!(writes(&mut wire, &data(234)), [Answer::Handshake]);
    assert_eq!(reads(&mut wire, &data(281)), asked());

    let mut wire = greeted(&[]);
    let behind = [data(1500), data(281), data(53), data(281)].concat();
    assert_eq!(reads(&mut wire, &behind), opened([Opening::Handshake, lost(Loss::TlsHandshake)]));
    assert_eq!(writes(&mut wire, &data(234)), [Answer::Handshake]);
    assert_eq!(reads(&mut wire, &data(281)), asked());

    let mut wire = greeted(&[]);
    reads(&mut wire, &data(1500));
    reads(&mut wire, &data(281));
    assert_eq!(
        writes(&mut wire, &data(234)),
        [Answer::Lost { reason: Loss::TlsHandshake }, Answer::Handshake]
    );
}

#[test]
fn header_and_payload_in_reads_of_their_own() {
    let mut wire = greeted(&[]);
    let flight = [change_cipher_spec(), data(53), data(300), data(200)].concat();
    let mut received = Received::default();
    let mut rest = &flight[..];
    for _ in 0..4 {
        for length in [5, usize::from(u16::from_be_bytes([rest[3], rest[4]]))] {
            let (first, behind) = rest.split_at(length);
            let read = reads(&mut wire, first);
            received.openings.extend(read.openings);
            received.continues |= read.continues;
            rest = behind;
        }
    }
    assert_eq!(received.openings, [Opening::Handshake, Opening::Handshake, Opening::Encrypted]);
    assert!(received.continues, "the second record goes on with the request");
}

#[test]
fn a_header_that_was_not_captured_is_found_again() {
    let mut wire = greeted(&[]);
    reads(&mut wire, &data(53));
    assert_eq!(reads(&mut wire, &[data(600), data(16_000)].concat()), asked());
    assert_eq!(reads(&mut wire, &[0xee; 700]), continues());
    assert_eq!(reads(&mut wire, &data(100)), continues());
    assert_eq!(writes(&mut wire, &[data(16_000), data(100)].concat()), [BEGINS]);
    assert_eq!(writes(&mut wire, &[0xee; 900]), [Answer::Continues]);
    assert_eq!(writes(&mut wire, &data(100)), [Answer::Continues]);
    assert_eq!(reads(&mut wire, &data(100)), asked());
}

#[test]
fn what_the_client_offers() {
    for (extensions, whole, expect) in [
        (&[OFFERS_BOTH][..], true, true),
        (&[TAKES_TICKETS, OFFERS_HTTP1], true, false),
        (&[], true, false),
        (&[(0, &[0; 600]), OFFERS_HTTP1], true, true),
        (&[OFFERS_HTTP1, (0, &[0; 600])], true, false),
    ] {
        let mut wire = Wire::default();
        let hello = client_hello(extensions);
        reads(&mut wire, if whole { &hello } else { &hello[..hello.len() - 3] });
        writes(&mut wire, &handshake(2, 122));
        assert_eq!(wire.protocol(), Some(Protocol::Tls { may_multiplex: expect }), "{extensions:?}");
    }
}

#[test]
fn http2_inside_counts_no_housekeeping() {
    let mut wire = greeted(&[OFFERS_BOTH, TAKES_TICKETS]);
    let first = [change_cipher_spec(), data(53), data(86), data(120)].concat();
    assert_eq!(reads(&mut wire, &first), opened([Opening::Handshake, Opening::Encrypted]));
    assert_eq!(writes(&mut wire, &data(1200)), [Answer::Handshake], "a ticket");
    assert_eq!(writes(&mut wire, &data(26)), [], "settings acknowledged");
    assert_eq!(reads(&mut wire, &data(26)), continues());
    assert_eq!(writes(&mut wire, &data(300)), [BEGINS]);
    for length in [26, 30, 34, 39] {
        assert_eq!(
            reads(&mut wire, &data(length)),
            Received::default(),
            "an acknowledgement, a window update, a ping"
        );
    }
    assert_eq!(reads(&mut wire, &data(70)), asked());
    assert_eq!(writes(&mut wire, &data(60)), [BEGINS]);
}

#[test]
fn a_connection_that_was_there_before() {
    let mut wire = Wire::adopted();
    assert_eq!(writes(&mut wire, &data(100)), [Answer::Handshake], "nobody asked as far as is known");
    assert_eq!(reads(&mut wire, &data(100)), asked());
    assert_eq!(writes(&mut wire, &data(100)), [BEGINS]);
    assert_eq!(Wire::adopted().reads(data(100)), asked());
    let mut wire = Wire::adopted();
    assert_eq!(wire.reads([0xee; 100]), continues(), "the rest of a record");
    assert_eq!(wire.reads(data(100)), asked());
}

#[test]
fn any_cutting_of_the_records_opens_the_same() {
    let bytes = [change_cipher_spec(), data(53), data(60), data(19), data(44)].concat();
    for first in 0..bytes.len() {
        let mut wire = greeted(&[]);
        let mut openings = wire.reads_cut(&bytes, &[first, 1]);
        openings.retain(|opening| *opening != Opening::Handshake);
        assert_eq!(openings, [Opening::Encrypted], "cut at {first}");
    }
}
