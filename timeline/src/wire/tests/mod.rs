//! Conversations and what is told of them.

mod http1;
mod http2;
mod properties;
mod tls;

use super::{Answer, Loss, Opening, Piece, Received, Wire, route::HTTP2};

pub(super) fn piece(captured: &[u8]) -> Piece<'_> {
    Piece { captured, len: u32::try_from(captured.len()).expect("a short piece") }
}

pub(super) fn cut(captured: &[u8], len: u32) -> Piece<'_> {
    Piece { captured, len }
}

pub(super) fn request(method: &str, route: &str) -> Opening {
    Opening::Request { stream: None, method: method.into(), route: route.into(), prober: false }
}

pub(super) fn get(route: &str) -> Opening {
    request("GET", route)
}

pub(super) fn lost(reason: Loss) -> Opening {
    Opening::Lost { reason }
}

pub(super) fn begins(status: u16) -> Answer {
    Answer::Begins { stream: None, status: Some(status), streaming: false }
}

pub(super) fn opened(openings: impl Into<Vec<Opening>>) -> Received {
    Received { openings: openings.into(), ..Received::default() }
}

pub(super) fn undecided() -> Received {
    Received { undecided: true, ..Received::default() }
}

pub(super) fn continues() -> Received {
    Received { continues: true, ..Received::default() }
}

#[test]
fn an_idle_connection_costs_little() {
    assert!(size_of::<Wire>() <= 40);
    assert!(
        size_of::<crate::wire::http1::Http1>() <= 120,
        "and what it holds of a head is gone with the head"
    );
}

#[test]
fn events_are_written_as_they_always_were() {
    for (opening, expect) in [
        (get("/a"), r#"{"request":{"method":"GET","route":"/a","prober":false}}"#),
        (Opening::Unparsed, r#""unparsed""#),
        (lost(Loss::Uncaptured), r#"{"lost":{"reason":"uncaptured"}}"#),
    ] {
        let json = serde_json::to_string(&opening).expect("JSON");
        assert_eq!(json, expect);
        assert_eq!(serde_json::from_str::<Opening>(&json).expect("an opening"), opening);
    }
    assert_eq!(serde_json::to_string(&begins(200)).expect("JSON"), r#"{"begins":{"status":200}}"#);
    assert_eq!(
        serde_json::from_str::<Answer>(r#"{"ends":{"stream":1}}"#).expect("an answer"),
        Answer::Ends { stream: 1, reset: false }
    );
}

impl Wire {
    pub(super) fn reads(&mut self, bytes: impl AsRef<[u8]>) -> Received {
        self.received(piece(bytes.as_ref()))
    }

    pub(super) fn writes(&mut self, bytes: impl AsRef<[u8]>) -> Vec<Answer> {
        self.sent(&[piece(bytes.as_ref())])
    }

    /// Reads the bytes in parts of such lengths, and what is left.
    pub(super) fn reads_cut(&mut self, bytes: &[u8], lengths: &[usize]) -> Vec<Opening> {
        let mut openings = Vec::new();
        let mut rest = bytes;
        for &length in lengths {
            let (first, behind) = rest.split_at(length.min(rest.len()));
            openings.extend(self.reads(first).openings);
            rest = behind;
        }
        openings.extend(self.reads(rest).openings);
        openings
    }
}
