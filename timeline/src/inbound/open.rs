//! A request that is open.

use super::connection::{Facts, Protocol};
use crate::{
    event::Event,
    requests::{Admitted, Requests, Sender},
};

/// Threads that had a hand in a request, in turn; the last place stands for all that follow.
const TOUCHES_MAX: usize = 64;

/// Tells open requests apart.
pub(crate) type RequestId = u64;

/// A thread did something for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub tid: u32,
    pub at_ns: u64,
}

impl Touch {
    pub fn of(event: &Event) -> Self {
        Self { tid: event.tid, at_ns: event.at_ns }
    }
}

/// How a request's first bytes came to be read: who should have seen them when they came, who accepted the connection
/// meanwhile, who saw them, and who read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    way: [Touch; 4],
    len: usize,
}

impl Begin {
    /// Without an instant of arrival the bytes are ready when a poller says so, or when they are read.
    pub fn of(arrived_ns: Option<u64>, accepted: Option<Touch>, ready: Option<Touch>, read: Touch) -> Self {
        let seen_ns = ready.unwrap_or(read).at_ns;
        let arrived_ns = arrived_ns.filter(|arrived_ns| *arrived_ns < seen_ns);
        let accepted = accepted
            .filter(|accepted| arrived_ns.is_some_and(|ns| ns < accepted.at_ns) && accepted.at_ns <= seen_ns);
        let first = accepted.or(ready).unwrap_or(read);
        let arrived = arrived_ns.map(|at_ns| Touch { at_ns, ..first });
        let mut begin = Self { way: [read; 4], len: 0 };
        for touch in [arrived, accepted, ready, Some(read)].into_iter().flatten() {
            begin.way[begin.len] = touch;
            begin.len += 1;
        }
        begin
    }

    /// When the bytes were there.
    pub fn ready_ns(&self) -> u64 {
        self.way[0].at_ns
    }

    pub fn read(&self) -> Touch {
        self.way[self.len - 1]
    }
}

/// What a request asks for, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Read { method: String, route: String, prober: bool },
    Encrypted,
    Unparsed,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub id: RequestId,
    /// HTTP/2: its stream.
    pub stream: Option<u32>,
    pub line: Line,
    pub begin: Begin,
    pub admitted: Option<Admitted>,
    pub status: Option<u16>,
    /// Last byte written so far.
    pub sent_ns: Option<u64>,
    pub streaming: bool,
    /// What a gRPC health check was told.
    pub serving: Option<bool>,
    path: Vec<Touch>,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub id: RequestId,
    pub admitted: Admitted,
    pub end_ns: u64,
    pub status: Option<u16>,
    pub streaming: bool,
    /// What a gRPC health check was told.
    pub serving: Option<bool>,
    /// Who saw that its data is ready, who read it, and who had a hand in it then.
    pub path: Vec<Touch>,
    /// Index of its first read there.
    pub read_at: usize,
    pub connection_ordinal: u64,
    pub protocol: Protocol,
    /// Of a connection's first request: from its handshake to being accepted.
    pub accept_wait_ns: Option<u64>,
}

impl Ended {
    pub fn ready_ns(&self) -> u64 {
        self.path[0].at_ns
    }

    pub fn read(&self) -> Touch {
        self.path[self.read_at]
    }
}

impl Open {
    pub fn new(id: RequestId, stream: Option<u32>, line: Line, begin: Begin) -> Self {
        Self {
            id,
            stream,
            line,
            begin,
            admitted: None,
            status: None,
            sent_ns: None,
            streaming: false,
            serving: None,
            path: begin.way[..begin.len].to_vec(),
        }
    }

    /// Gives it its number, unless it has one.
    pub fn admit(&mut self, itself: bool, requests: &mut Requests) -> Option<(Admitted, u64)> {
        if self.admitted.is_some() {
            return None;
        }
        let sender = |prober| Sender { prober, itself };
        let admitted = match &self.line {
            Line::Read { method, route, prober } => requests.admit(Some(method), route, sender(*prober)),
            Line::Encrypted => requests.admit(None, crate::requests::TLS, sender(false)),
            Line::Unparsed => requests.admit(None, crate::requests::UNPARSED, sender(false)),
        };
        self.admitted = Some(admitted.clone());
        Some((admitted, self.begin.ready_ns()))
    }

    pub fn touch(&mut self, touch: Touch) {
        let len = self.path.len();
        // What a later read decides may have begun before.
        let touch = Touch { at_ns: touch.at_ns.max(self.path[len - 1].at_ns), ..touch };
        // Of a thread's own sequence after the read the ends are enough.
        let goes_on = len > self.begin.len + 1
            && self.path[len - 1].tid == touch.tid
            && self.path[len - 2].tid == touch.tid;
        if goes_on || len >= TOUCHES_MAX {
            self.path[len - 1] = touch;
        } else {
            self.path.push(touch);
        }
    }

    pub fn answered(&mut self, touch: Touch, status: Option<u16>) {
        self.sent_ns = Some(touch.at_ns);
        self.status = self.status.or(status);
        self.touch(touch);
    }

    /// It is over: with its last byte, or at `at_ns` when none was written. `None` when it never was a request.
    pub fn end(self, at_ns: u64, of: &Facts) -> Option<Ended> {
        Some(Ended {
            id: self.id,
            admitted: self.admitted?,
            end_ns: self.sent_ns.unwrap_or(at_ns).max(self.begin.read().at_ns),
            status: self.status,
            streaming: self.streaming,
            serving: self.serving,
            path: self.path,
            read_at: self.begin.len - 1,
            connection_ordinal: of.ordinal,
            protocol: of.protocol,
            accept_wait_ns: None,
        })
    }
}
