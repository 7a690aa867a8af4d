use loona_hpack::Encoder;

use super::*;
use crate::wire::{Protocol, http2::PREFACE};

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(1, flags | END_HEADERS, stream, block)
}

fn data(flags: u8, stream: u32, length: usize) -> Vec<u8> {
    frame(0, flags, stream, &vec![0xda; length])
}

/// A request of a path that the table keeps from then on.
fn asks_kept(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("short");
    headers(END_STREAM, stream, &[&[0x82, 0x44, length], path.as_bytes()].concat())
}

/// A request of the path that was kept last.
fn asks_again(stream: u32) -> Vec<u8> {
    headers(END_STREAM, stream, &[0x82, 0xbe])
}

fn not_seen(stream: u32) -> Opening {
    on(stream, "GET", HTTP2)
}

/// One end of a connection, with its table of fields.
pub(super) struct End(Encoder<'static>);

impl End {
    pub(super) fn new() -> Self {
        Self(Encoder::new())
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        self.0.encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    pub(super) fn asks(&mut self, stream: u32, method: &str, path: &str) -> Vec<u8> {
        let block = self.block(&[
            (":method", method),
            (":path", path),
            (":scheme", "http"),
            ("authorization", "Bearer hunter2"),
            ("user-agent", "grpc-java-netty/1.60"),
        ]);
        headers(END_STREAM, stream, &block)
    }

    pub(super) fn answers(&mut self, flags: u8, stream: u32, status: &str) -> Vec<u8> {
        let block = self.block(&[(":status", status), ("set-cookie", "hunter2")]);
        headers(flags, stream, &block)
    }
}

fn on(stream: u32, method: &str, route: &str) -> Opening {
    Opening::Request { stream: Some(stream), method: method.into(), route: route.into(), prober: false }
}

fn answered(stream: u32, status: u16) -> Answer {
    Answer::Begins { stream: Some(stream), status: Some(status), streaming: false }
}

fn ends(stream: u32) -> Answer {
    Answer::Ends { stream, reset: false }
}

/// A connection after both sides' prefaces.
fn connected() -> Wire {
    let mut wire = Wire::default();
    assert_eq!(wire.reads([PREFACE, SETTINGS].concat()), Received::default());
    assert_eq!(wire.writes([SETTINGS, &frame(4, 1, 0, &[])].concat()), []);
    assert_eq!(wire.protocol(), Some(Protocol::Http2));
    wire
}

#[test]
fn streams_that_overlap() {
    let (mut client, mut server, mut wire) = (End::new(), End::new(), connected());
    let both = [client.asks(1, "GET", "/users/1?a=b"), client.asks(3, "PUT", "/b"), frame(6, 0, 0, &[0; 8])]
        .concat();
    assert_eq!(wire.reads(&both), opened([on(1, "GET", "/users/{id}"), on(3, "PUT", "/b")]));
    assert_eq!(wire.writes(server.answers(0, 3, "200")), [answered(3, 200)]);
    assert_eq!(wire.writes([server.answers(0, 1, "201"), data(0, 3, 100)].concat()), [answered(1, 201)]);
    assert_eq!(wire.writes([data(END_STREAM, 1, 9), data(END_STREAM, 3, 0)].concat()), [ends(1), ends(3)]);
    assert_eq!(wire.reads(client.asks(5, "GET", "/users/1")), opened([on(5, "GET", "/users/{id}")]));
    assert_eq!(wire.writes(server.answers(END_STREAM, 5, "204")), [answered(5, 204), ends(5)]);
    assert_eq!(wire.reads(frame(7, 0, 0, &[0; 8])), Received::default());
}

#[test]
fn a_body_trailers_and_an_interim_answer() {
    let (mut client, mut server, mut wire) = (End::new(), End::new(), connected());
    let block = client.block(&[(":method", "POST"), (":path", "/a")]);
    assert_eq!(wire.reads([headers(0, 1, &block), data(0, 1, 10)].concat()), opened([on(1, "POST", "/a")]));
    assert_eq!(wire.writes(server.answers(0, 1, "100")), [Answer::Interim]);
    assert_eq!(wire.reads(data(0, 1, 10)), continues());
    let trailers = client.block(&[("checksum", "x")]);
    assert_eq!(wire.reads(headers(END_STREAM, 1, &trailers)), continues());
    let block = server.block(&[(":status", "200"), ("content-type", "text/event-stream")]);
    let streaming = Answer::Begins { stream: Some(1), status: Some(200), streaming: true };
    assert_eq!(wire.writes(headers(0, 1, &block)), [streaming]);
    assert_eq!(wire.writes(data(0, 1, 50)), []);
    let trailers = server.block(&[("grpc-status", "0")]);
    assert_eq!(wire.writes(headers(END_STREAM, 1, &trailers)), [ends(1)]);
}

#[test]
fn either_side_may_give_a_stream_up() {
    let (mut client, mut wire) = (End::new(), connected());
    wire.reads([client.asks(1, "GET", "/a"), client.asks(3, "GET", "/b")].concat());
    assert_eq!(wire.reads(frame(3, 0, 1, &[0; 4])), opened([Opening::Reset { stream: 1 }]));
    assert_eq!(wire.writes(frame(3, 0, 3, &[0; 4])), [Answer::Ends { stream: 3, reset: true }]);
}

#[test]
fn grpc_methods_and_its_health_check() {
    let (mut client, mut wire) = (End::new(), connected());
    for (stream, path, prober) in [
        (1, "/shop.v1.OrderService2024/List", false),
        (3, "/grpc.health.v1.Health/Check", true),
        (5, "/grpc.health.v1.Health/Watch", true),
        (7, "/shop.v1.OrderService2024/List", false),
    ] {
        let block =
            client.block(&[(":method", "POST"), (":path", path), ("content-type", "application/grpc+proto")]);
        let expect =
            Opening::Request { stream: Some(stream), method: "POST".into(), route: path.into(), prober };
        assert_eq!(wire.reads(headers(0, stream, &block)), opened([expect]));
    }
    assert_eq!(
        wire.reads(client.asks(9, "GET", "/shop.v1.OrderService2024/List")),
        opened([on(9, "GET", "/{id}/List")]),
        "only gRPC's paths are templates as they are"
    );
    let block = client.block(&[(":method", "GET"), (":path", "/ready"), ("user-agent", "kube-probe/1.34")]);
    let expect =
        Opening::Request { stream: Some(11), method: "GET".into(), route: "/ready".into(), prober: true };
    assert_eq!(wire.reads(headers(0, 11, &block)), opened([expect]));
}

#[test]
fn headers_with_padding_priority_and_continuations() {
    let (mut client, mut wire) = (End::new(), connected());
    let block = client.block(&[(":method", "GET"), (":path", "/a/b"), ("cookie", "hunter2")]);
    let (first, rest) = block.split_at(3);
    let (second, third) = rest.split_at(5);
    let begin = [&[4, 0, 0, 0, 0, 7][..], first, &[0; 4]].concat();
    let frames =
        [frame(1, END_STREAM | 0x28, 1, &begin), frame(9, 0, 1, second), frame(9, END_HEADERS, 1, third)];
    assert_eq!(wire.reads(&frames[0]), undecided());
    assert_eq!(wire.reads(&frames[1]), undecided());
    assert_eq!(wire.reads(&frames[2]), opened([on(1, "GET", "/a/b")]));
    assert_eq!(wire.reads(client.asks(3, "GET", "/a/b")), opened([on(3, "GET", "/a/b")]));
}

#[test]
fn any_cutting_opens_the_same() {
    let mut client = End::new();
    let bytes = [
        PREFACE,
        SETTINGS,
        &client.asks(1, "GET", "/a"),
        &data(END_STREAM, 1, 20),
        &client.asks(3, "POST", "/users/17"),
        &frame(8, 0, 0, &[0; 4]),
        &client.asks(5, "GET", "/a"),
    ]
    .concat();
    let expect = [on(1, "GET", "/a"), on(3, "POST", "/users/{id}"), on(5, "GET", "/a")];
    for first in 0..bytes.len() {
        assert_eq!(Wire::default().reads_cut(&bytes, &[first]), expect, "cut at {first}");
        assert_eq!(Wire::default().reads_cut(&bytes, &[first, 1, 7]), expect, "cut at {first} and behind");
    }
}

#[test]
fn payload_that_was_not_captured_is_passed_over() {
    let (mut client, mut server, mut wire) = (End::new(), End::new(), connected());
    wire.reads(client.asks(1, "POST", "/a"));
    let body = data(0, 1, 16_000);
    assert_eq!(wire.received(cut(&body[..4096], 10_000)), continues());
    assert_eq!(wire.received(cut(&body[10_000..10_100], 6009)), continues());
    assert_eq!(wire.reads(client.asks(3, "GET", "/b")), opened([on(3, "GET", "/b")]));
    let head = server.answers(0, 1, "200");
    let body = data(END_STREAM, 1, 1000);
    assert_eq!(
        wire.sent(&[piece(&head), cut(&body[..256], 509), cut(&body[509..765], 500)]),
        [answered(1, 200), ends(1)]
    );
}

#[test]
fn an_answer_ends_with_the_last_byte_of_its_last_frame() {
    let (mut client, mut server, mut wire) = (End::new(), End::new(), connected());
    wire.reads(client.asks(1, "GET", "/a"));
    let bytes = [server.answers(0, 1, "200"), data(END_STREAM, 1, 100)].concat();
    let (first, rest) = bytes.split_at(bytes.len() - 1);
    assert_eq!(wire.writes(first), [answered(1, 200)]);
    assert_eq!(wire.writes(rest), [ends(1)]);
}

#[test]
fn frames_that_were_not_captured_are_a_loss_and_are_found_again() {
    let lost_frames = Received { openings: vec![lost(Loss::Http2Frames)], ..continues() };
    let (mut client, mut server, mut wire) = (End::new(), End::new(), connected());
    wire.reads(client.asks(1, "POST", "/a"));
    assert_eq!(wire.received(cut(&data(0, 1, 100), 400)), lost_frames);
    assert_eq!(wire.reads([0xda; 50]), Received::default());
    assert_eq!(wire.reads(asks_again(5)), opened([not_seen(5)]), "its path may have come with what was lost");
    assert_eq!(wire.reads(asks_kept(7, "/new")), opened([on(7, "GET", "/new")]));
    assert_eq!(wire.reads(asks_again(9)), opened([on(9, "GET", "/new")]));

    let loss = Answer::Lost { reason: Loss::Http2Frames };
    let head = server.answers(0, 1, "418");
    let write = cut(&head, u32::try_from(head.len()).expect("short") + 20);
    assert_eq!(wire.sent(&[write]), [answered(1, 418), loss]);
    assert_eq!(wire.writes([0xda; 50]), []);
    let unseen = Answer::Begins { stream: Some(7), status: None, streaming: false };
    let of_the_table = headers(END_STREAM, 7, &[0xbe]);
    assert_eq!(wire.writes(&of_the_table), [unseen, ends(7)]);
    assert_eq!(wire.writes(server.answers(END_STREAM, 9, "200")), [answered(9, 200), ends(9)]);
    let trailers = server.block(&[("set-cookie", "hunter2")]);
    assert_eq!(wire.writes(headers(END_STREAM, 9, &trailers)), [ends(9)]);
}

#[test]
fn headers_of_which_the_end_was_not_captured_tell_what_there_is() {
    let (mut client, mut wire) = (End::new(), connected());
    let long = "x".repeat(400);
    let block = client.block(&[(":method", "GET"), (":path", "/a"), ("cookie", &long), ("x", "y")]);
    let bytes = headers(END_STREAM, 1, &block);
    let len = u32::try_from(bytes.len()).expect("short");
    assert_eq!(wire.received(cut(&bytes[..60], len)), opened([on(1, "GET", "/a")]));
    assert_eq!(wire.reads(asks_again(3)), opened([not_seen(3)]));
    assert_eq!(wire.reads(asks_kept(5, "/b")), opened([on(5, "GET", "/b")]));
}

#[test]
fn a_block_of_any_length_takes_bounded_memory() {
    let mut wire = connected();
    let block = [&[0x82, 0x84][..], &[0xbe; 16_000]].concat();
    assert_eq!(wire.reads(frame(1, 0, 1, &block)), undecided());
    for _ in 0..100 {
        assert_eq!(wire.reads(frame(9, 0, 1, &block)), undecided());
    }
    assert_eq!(wire.reads(frame(9, END_HEADERS, 1, &[0x84])), opened([on(1, "GET", "/")]));
}

#[test]
fn an_http1_request_may_become_the_first_stream() {
    let asks =
        "GET /a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n";
    let (mut client, mut server, mut wire) = (End::new(), End::new(), Wire::default());
    assert_eq!(wire.reads(asks), opened([get("/a")]));
    let switch = b"HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    let write = [&switch[..], SETTINGS, &server.answers(0, 1, "200")].concat();
    assert_eq!(wire.writes(write), [Answer::BecomesStream { stream: 1 }, answered(1, 200)]);
    assert_eq!(wire.reads([PREFACE, SETTINGS].concat()), Received::default());
    assert_eq!(wire.writes(data(END_STREAM, 1, 9)), [ends(1)]);
    assert_eq!(wire.reads(client.asks(3, "GET", "/b")), opened([on(3, "GET", "/b")]));

    let mut wire = Wire::default();
    wire.reads(asks);
    assert_eq!(wire.writes("HTTP/1.1 200 \r\n\r\n"), [begins(200)], "the server would rather not");
    assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));
}

#[test]
fn a_preface_that_is_none() {
    assert_eq!(Wire::default().reads("PRI * HT"), undecided());
    assert_eq!(Wire::default().reads("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), opened([Opening::Unparsed]));
    let mut wire = Wire::default();
    wire.reads("P");
    assert_eq!(wire.reads("UT / HTTP/1.1\r\n\r\n"), opened([request("PUT", "/")]));
    let mut wire = Wire::default();
    wire.reads("PRI");
    assert_eq!(wire.writes("HTTP/1.1 408 \r\n\r\n"), [Answer::Opens(Opening::Unparsed), begins(408)]);
}

#[test]
fn a_connection_that_was_there_before() {
    let (mut client, mut server, mut wire) = (End::new(), End::new(), Wire::adopted());
    assert_eq!(wire.writes(server.answers(0, 17, "200")), [answered(17, 200)]);
    assert_eq!(wire.reads(client.asks(19, "GET", "/a")), opened([on(19, "GET", "/a")]));
    let mut wire = Wire::adopted();
    assert_eq!(wire.reads([0xda; 100]), continues(), "the rest of a frame");
    assert_eq!(wire.reads(End::new().asks(19, "GET", "/a")), opened([on(19, "GET", "/a")]));
}

#[test]
fn what_a_health_check_was_told_is_read_however_it_is_cut() {
    let message = |status: u8| [0, 0, 0, 0, 2, 8, status];
    for (body, serving) in
        [(&message(1)[..], true), (&message(2), false), (&[0, 0, 0, 0, 0], false), (&[], false)]
    {
        let mut server = End::new();
        let answer = [
            server.answers(0, 1, "200"),
            frame(0, 0, 1, body),
            headers(END_STREAM, 1, &server.block(&[("grpc-status", "0")])),
        ]
        .concat();
        for cut in 1..answer.len() {
            let mut wire = Wire::default();
            let block = End::new().block(&[
                (":method", "POST"),
                (":path", "/grpc.health.v1.Health/Check"),
                ("content-type", "application/grpc"),
            ]);
            let asks = headers(END_STREAM, 1, &block);
            let read = [PREFACE, SETTINGS, &asks].concat();
            wire.received(Piece { captured: &read, len: u32::try_from(read.len()).unwrap() });
            let (first, second) = answer.split_at(cut);
            let mut answers = Vec::new();
            for part in [first, second] {
                answers
                    .extend(wire.sent(&[Piece { captured: part, len: u32::try_from(part.len()).unwrap() }]));
            }
            let health = Answer::Health { stream: 1, serving };
            assert_eq!(
                answers,
                [answered(1, 200), health, Answer::Ends { stream: 1, reset: false }],
                "{body:?} cut at {cut}"
            );
        }
    }
}
