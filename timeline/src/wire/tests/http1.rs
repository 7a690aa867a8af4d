use super::*;
use crate::wire::Protocol;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn what_the_first_bytes_open() {
    let mut long_line = b"GET /".to_vec();
    long_line.resize(5000, b'x');
    let mut long_head = b"GET /hello HTTP/1.1\r\nCookie: ".to_vec();
    long_head.resize(5000, b'x');
    let probe =
        "GET /ready HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\n\r\n";
    let from_prober =
        Opening::Request { stream: None, method: "GET".into(), route: "/ready".into(), prober: true };
    for (bytes, expect) in [
        ("GET /users/1?a=b HTTP/1.1\r\nHost: x\r\n\r\n".as_bytes(), opened([get("/users/{id}")])),
        (probe.as_bytes(), opened([from_prober])),
        (b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", opened([get("/")])),
        (b"GET / HTTP/1.1\nHost: x\n\n", opened([get("/")])),
        (b"CONNECT db:5432 HTTP/1.1\r\n\r\n", opened([request("CONNECT", "db:5432")])),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", opened([request("OPTIONS", "*")])),
        (b"\r\n", Received::default()),
        (b"G", undecided()),
        (b"GET /x HTTP/1.1\r\nHost", undecided()),
        (b"GET /\r\n\r\n", opened([Opening::Unparsed])),
        (b"GET /x HTTP/2.0\r\n\r\n", opened([Opening::Unparsed])),
        (b"hello\r\n\r\nGET / HTTP/1.1\r\n\r\n", opened([Opening::Unparsed])),
        (b"\x00\x01\x02", opened([Opening::Unparsed])),
        (&long_line, opened([Opening::Unparsed])),
        (&long_head, opened([get("/hello")])),
    ] {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        assert_eq!(Wire::default().reads(bytes), expect, "{text}");
    }
}

#[test]
fn pipelined_requests_are_told_apart_wherever_reads_cut_them() {
    let story = b"GET /a HTTP/1.1\r\n\r\n\
        POST /b HTTP/1.1\r\nContent-Length: 12\r\n\r\nGET /no HTTP\
        POST /c HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
        5;x=\"y\"\r\nGET /\r\n000\r\nTrailer: GET / HTTP/1.1\r\n\r\n\
        \r\nHEAD /d HTTP/1.1\r\nContent-Length: 0\r\n\r\nPUT /e HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nxx\
        DELETE /f HTTP/1.0\r\n\r\n";
    let expect = [
        get("/a"),
        request("POST", "/b"),
        request("POST", "/c"),
        request("HEAD", "/d"),
        request("PUT", "/e"),
        request("DELETE", "/f"),
    ];
    assert_eq!(Wire::default().reads(story), opened(expect.clone()));
    for first in 1..story.len() {
        assert_eq!(Wire::default().reads_cut(story, &[first]), expect, "cut at {first}");
        assert_eq!(Wire::default().reads_cut(story, &[first, 1]), expect, "cut at {first} and behind");
    }
    assert_eq!(Wire::default().reads_cut(story, &vec![1; story.len()]), expect);
}

#[test]
fn a_body_goes_on_with_its_request() {
    let mut wire = Wire::default();
    assert_eq!(
        wire.reads("POST /a HTTP/1.1\r\nContent-Length: 100000\r\n\r\nGET /"),
        opened([request("POST", "/a")])
    );
    assert_eq!(wire.received(cut(b"x HTTP/1.1\r\n\r\n", 50_000)), continues());
    assert_eq!(wire.received(cut(b"", 49_990)), continues());
    let last = wire.reads("zzzzzGET /b HTTP/1.1\r\n\r\nGET /c");
    assert_eq!(last, Received { openings: vec![get("/b")], continues: true, undecided: true });
    assert_eq!(wire.reads(" HTTP/1.1\r\n\r\n"), opened([get("/c")]));
    assert_eq!(wire.protocol(), Some(Protocol::Http1));
}

#[test]
fn bytes_of_a_next_request_that_were_not_captured_are_a_loss() {
    for (head, len) in [
        ("GET /a HTTP/1.1\r\n\r\n", 20),
        ("POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n123", 50 + 4),
        ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\n123", 100),
    ] {
        let mut wire = Wire::default();
        let method = head.split(' ').next().expect("a method");
        let expect = opened([request(method, "/a"), lost(Loss::Uncaptured)]);
        assert_eq!(wire.received(cut(head.as_bytes(), len)), expect, "{head}");
        assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), continues(), "not told apart before an answer");
        assert_eq!(wire.writes(OK), [begins(200)]);
        assert_eq!(wire.writes(OK), [begins(200)], "said once");
        assert_eq!(wire.reads("/x HTTP/1.1\r\n\r\n"), continues(), "the rest of what was not seen");
        assert_eq!(wire.reads("GET /c HTTP/1.1\r\n\r\n"), opened([get("/c")]));
    }
    let mut wire = Wire::default();
    wire.reads("GET /a HTTP/1.1\r\n\r\n");
    assert_eq!(wire.received(cut(b"", 30)), opened([lost(Loss::Uncaptured)]));
}

#[test]
fn a_head_longer_than_the_capture_is_one_request() {
    let mut wire = Wire::default();
    let mut head = b"GET /hello HTTP/1.1\r\nCookie: ".to_vec();
    head.resize(4096, b'x');
    assert_eq!(wire.received(cut(&head, 6000)), opened([get("/hello")]));
    assert_eq!(wire.received(cut(b"", 1000)), continues());
    assert_eq!(wire.writes(OK), [begins(200)]);
    assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));
    assert_eq!(wire.writes(OK), [begins(200)]);

    let mut wire = Wire::default();
    wire.received(cut(&head, 6000));
    wire.writes(OK);
    assert_eq!(
        wire.writes(OK),
        [Answer::Lost { reason: Loss::Unseen }, begins(200)],
        "a second answer shows that a request was not seen"
    );
}

#[test]
fn a_line_longer_than_the_capture_is_one_unparsed_request() {
    let mut wire = Wire::default();
    let mut line = b"GET /".to_vec();
    line.resize(4096, b'x');
    assert_eq!(wire.received(cut(&line, 8192)), opened([Opening::Unparsed]));
    assert_eq!(wire.reads("xx HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"), continues());
    assert_eq!(wire.writes("HTTP/1.1 414 \r\n\r\n"), [begins(414)]);
    assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));
}

#[test]
fn chunks_that_were_not_captured_end_with_the_answer() {
    let mut wire = Wire::default();
    let head = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\nabc";
    assert_eq!(wire.received(cut(head, 8192)), opened([request("POST", "/a")]));
    assert_eq!(wire.received(cut(b"", 8192)), continues());
    assert_eq!(wire.writes("HTTP/1.1 100 \r\n\r\n"), [Answer::Interim]);
    assert_eq!(wire.reads("GET /no HTTP/1.1\r\n\r\n"), continues());
    assert_eq!(wire.writes(OK), [begins(200)]);
    assert_eq!(wire.reads("abc\r\n0\r\n\r\n"), continues(), "answered before the body was read");
    assert_eq!(wire.reads("GET"), undecided());
    assert_eq!(wire.reads(" /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));

    let mut wire = Wire::default();
    wire.received(cut(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n", 60));
    assert_eq!(wire.received(cut(b"", 8186)), continues(), "as long as data is known to go on");
    assert_eq!(wire.reads("\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n").openings, [get("/b")]);
}

#[test]
fn an_early_answer_leaves_the_body_a_body() {
    let mut wire = Wire::default();
    wire.reads("POST /a HTTP/1.1\r\nContent-Length: 40\r\n\r\n");
    assert_eq!(wire.writes("HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n"), [begins(413)]);
    assert_eq!(wire.reads("GET /no HTTP/1.1\r\n\r\n"), continues());
    let last = wire.reads("GET /no HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    assert_eq!(last, Received { openings: vec![get("/b")], continues: true, undecided: false });
}

#[test]
fn a_client_that_expects_to_be_told_may_go_without_its_body() {
    let head = "POST /a HTTP/1.1\r\nContent-Length: 22\r\nExpect: 100-continue\r\n\r\n";
    let mut wire = Wire::default();
    wire.reads(head);
    assert_eq!(wire.writes("HTTP/1.1 100 Continue\r\n\r\n"), [Answer::Interim]);
    assert_eq!(wire.reads("GET /no HTTP/1.1\r\n\r\n12"), Received { continues: true, ..Received::default() });
    assert_eq!(wire.writes(OK), [begins(200)]);

    for (read, expect) in [
        ("GET /b HTTP/1.1\r\n\r\n", opened([get("/b")])),
        ("name=Joe&town=Cologne&", continues()),
        (
            "NAME:Joe TOWN:Cologne GET /b HTTP/1.1\r\n\r\n",
            Received { openings: vec![get("/b")], ..continues() },
        ),
    ] {
        for cut in 0..read.len() {
            let mut wire = Wire::default();
            wire.reads(head);
            assert_eq!(wire.writes("HTTP/1.1 401 \r\nContent-Length: 0\r\n\r\n"), [begins(401)]);
            assert_eq!(wire.reads_cut(read.as_bytes(), &[cut]), expect.openings, "{read} cut at {cut}");
        }
        let mut wire = Wire::default();
        wire.reads(head);
        wire.writes("HTTP/1.1 417 \r\n\r\n");
        assert_eq!(wire.reads(read), expect, "{read}");
    }
}

#[test]
fn heads_that_are_not_clear_about_their_end_are_a_loss() {
    for headers in [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4, 5",
        "Content-Length: -4",
        "Content-Length: 0x4",
        "Content-Length:",
        "Content-Length: 99999999999999999999999",
        "Content-Length : 4",
        "Content-Length: 1\r\n 0",
        "Transfer-Encoding: chunked\r\n , gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: xchunked",
    ] {
        let mut wire = Wire::default();
        let read = wire.reads(format!("POST /a HTTP/1.1\r\n{headers}\r\n\r\nGET /no HTTP/1.1\r\n\r\n"));
        assert_eq!(read, opened([request("POST", "/a"), lost(Loss::Framing)]), "{headers}");
        assert_eq!(wire.writes("HTTP/1.1 400 \r\n\r\n"), [begins(400)]);
    }
    let smuggled = "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\nGET /no HTTP/1.1\r\n\r\n";
    assert_eq!(Wire::default().reads(smuggled), opened([request("POST", "/a"), lost(Loss::Framing)]));
    let garbage = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz";
    assert_eq!(Wire::default().reads(garbage), opened([request("POST", "/a"), lost(Loss::Framing)]));
}

#[test]
fn answers_are_told_from_what_follows_them() {
    let mut wire = Wire::default();
    wire.reads("GET /a HTTP/1.1\r\n\r\n");
    assert_eq!(
        wire.writes("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody"),
        [Answer::Interim, begins(200)]
    );
    assert_eq!(wire.writes("more of the body"), [Answer::Continues]);
    assert_eq!(wire.sent(&[cut(b"", 8192)]), [Answer::Continues]);
    assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));
    let streaming = Answer::Begins { stream: None, status: Some(200), streaming: true };
    assert_eq!(
        wire.writes("HTTP/1.1 200 \r\ncontent-type: text/event-stream;charset=UTF-8\r\n\r\n"),
        [streaming]
    );
    assert_eq!(wire.writes("data: x\n\n"), [Answer::Continues]);
}

#[test]
fn a_body_that_looks_like_an_answer_is_a_body() {
    let mut wire = Wire::default();
    wire.reads("GET /log HTTP/1.1\r\n\r\n");
    assert_eq!(wire.writes("HTTP/1.1 200 \r\nContent-Length: 30\r\n\r\n"), [begins(200)]);
    assert_eq!(wire.writes("HTTP/1.1 200 OK\r\n"), [Answer::Continues]);
    assert_eq!(wire.sent(&[cut(b"HTTP/1.1 500 ", 13)]), [Answer::Continues]);
}

#[test]
fn answers_in_one_write_are_told_apart_as_far_as_it_is_captured() {
    let two = "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
    let chunked = "HTTP/1.1 201 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let both = format!("{chunked}{OK}");
    let unseen = Answer::Begins { stream: None, status: None, streaming: false };
    let long = "HTTP/1.1 200 \r\nContent-Length: 900\r\n\r\nx";
    for (captured, len, expect) in [
        (both.as_str(), both.len(), vec![begins(201), begins(200)]),
        (&both[..chunked.len()], both.len(), vec![begins(201), unseen.clone()]),
        (long, 2000, vec![begins(200), unseen.clone()]),
        (long, 400, vec![begins(200)]),
        (
            "HTTP/1.1 204 \r\nContent-Length: 7\r\n\r\nHTTP/1.1 304 \r\n\r\n",
            100,
            vec![begins(204), begins(304)],
        ),
    ] {
        let mut wire = Wire::default();
        wire.reads(two);
        let len = u32::try_from(len).expect("short");
        assert_eq!(wire.sent(&[cut(captured.as_bytes(), len)]), expect, "{captured}");
    }
}

#[test]
fn a_request_may_be_answered_before_its_head_is_whole() {
    let mut wire = Wire::default();
    assert_eq!(wire.reads("GET /slow HTTP/1.1\r\nHo"), undecided());
    assert_eq!(wire.writes("HTTP/1.1 408 \r\n\r\n"), [Answer::Opens(get("/slow")), begins(408)]);
    let mut wire = Wire::default();
    wire.reads("GET /sl");
    assert_eq!(wire.writes("HTTP/1.1 408 \r\n\r\n"), [Answer::Opens(Opening::Unparsed), begins(408)]);
    let mut wire = Wire::default();
    wire.reads("GET /a HTTP/1.1\r\n\r\nGET /b");
    assert_eq!(wire.writes(OK), [begins(200)], "the answer is the first one's");
    assert_eq!(wire.reads(" HTTP/1.1\r\n\r\n"), opened([get("/b")]));
    assert_eq!(wire.writes(OK), [begins(200)]);
    assert_eq!(wire.writes("HTTP/1.1 408 \r\n\r\n"), [begins(408)], "nobody asked, and nothing was missed");
}

#[test]
fn nothing_counts_after_another_protocol_took_over() {
    let upgrade = "GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let tunnel = "CONNECT db:5432 HTTP/1.1\r\n\r\n";
    for (asks, says, status) in [
        (upgrade, "HTTP/1.1 101 \r\nUpgrade: websocket\r\n\r\n", 101),
        (tunnel, "HTTP/1.1 200 \r\n\r\n", 200),
    ] {
        let mut wire = Wire::default();
        assert_eq!(wire.reads(asks).openings.len(), 1);
        assert_eq!(wire.writes(says), [begins(status), Answer::Upgraded]);
        assert_eq!(wire.protocol(), Some(Protocol::Upgraded));
        assert_eq!(wire.reads("GET /no HTTP/1.1\r\n\r\n"), Received::default());
        assert_eq!(wire.writes(OK), []);
    }
    let mut wire = Wire::default();
    wire.reads(tunnel);
    assert_eq!(wire.writes("HTTP/1.1 403 \r\n\r\n"), [begins(403)]);
    assert_eq!(wire.reads("GET /b HTTP/1.1\r\n\r\n"), opened([get("/b")]));
}

#[test]
fn a_protocol_that_is_not_known_gives_an_unparsed_request_for_each_answer() {
    let mut wire = Wire::default();
    for _ in 0..3 {
        assert_eq!(wire.reads(b"\x00\x01question"), opened([Opening::Unparsed]));
        assert_eq!(wire.reads(b"more"), continues());
        let unseen = Answer::Begins { stream: None, status: None, streaming: false };
        assert_eq!(wire.writes(b"\x00answer"), [unseen]);
        assert_eq!(wire.writes(b"more"), [Answer::Continues]);
    }
    assert_eq!(wire.protocol(), Some(Protocol::Unknown));
}

#[test]
fn a_connection_that_was_there_before_begins_with_what_looks_like_a_request() {
    let mut wire = Wire::adopted();
    assert_eq!(wire.reads("rest of a body"), continues());
    assert_eq!(wire.writes(OK), [begins(200)]);
    assert_eq!(wire.reads("GET /a HTTP/1.1\r\n\r\n"), opened([get("/a")]));
    assert_eq!(Wire::adopted().reads("GET /a HTTP/1.1\r\n\r\n"), opened([get("/a")]));
}

#[test]
fn the_end_of_the_stream_tells_nothing() {
    let mut wire = Wire::default();
    assert_eq!(wire.reads(""), Received::default());
    wire.reads("GET /a HTTP/1.1\r\n\r\n");
    assert_eq!(wire.reads(""), Received::default());
    assert_eq!(wire.sent(&[]), []);
}
