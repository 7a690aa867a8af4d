//! Accepted connections and the requests on them.
//!
//! The key is the connection, never the thread: a request may be read by one thread and answered by another. A
//! request is open from the moment its data is ready; it ends with the last byte written before the next request's
//! first byte, with the connection, or when nothing was written for a second.

use std::collections::HashMap;

use crate::{
    event::Opening,
    requests::{Admitted, Requests, Sender},
};

/// An answer that has paused for so long is over.
const ANSWER_PAUSE_NS: u64 = 1_000_000_000;

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub admitted: Admitted,
    pub ready_ns: u64,
    pub read_ns: u64,
    pub end_ns: u64,
    pub status: Option<u16>,
    pub tid: u32,
    pub connection_ordinal: u64,
}

/// Why the requests of a connection are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Opaque {
    Tls,
    Http2,
    Pipelined,
}

impl Opaque {
    pub fn reason(self) -> &'static str {
        match self {
            Opaque::Tls => "TLS connections: their requests are not told apart",
            Opaque::Http2 => "HTTP/2 connections: their requests are not told apart",
            Opaque::Pipelined => "pipelined requests: those that came together count as one",
        }
    }
}

#[derive(Debug, Default)]
struct Connection {
    ordinal: u64,
    from_itself: bool,
    /// When a poller said that the next request's data is there.
    ready_ns: Option<u64>,
    open: Option<Open>,
    /// Requests are no longer looked for: it is opaque, or another protocol took over.
    ignored: bool,
}

#[derive(Debug)]
struct Open {
    ready_ns: u64,
    read_ns: u64,
    tid: u32,
    admitted: Option<Admitted>,
    status: Option<u16>,
    sent_ns: Option<u64>,
}

/// What a read told.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The request before has ended.
    pub ended: Option<Ended>,
    /// A request was recognised: its own number, and when its data was ready.
    pub begun: Option<(Admitted, u64)>,
    /// Requests of the connection are not told apart.
    pub opaque: Option<Opaque>,
}

/// All accepted connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    by_fd: HashMap<i32, Connection>,
    accepted: u64,
    /// The user request that a thread read last and that is still open: fd by thread.
    reading: HashMap<u32, i32>,
}

impl Inbound {
    /// A connection was accepted. Returns a request that the fd's former connection left open.
    pub fn accepted(&mut self, fd: i32, from_itself: bool, at_ns: u64) -> Option<Ended> {
        let former = self.closed(fd, at_ns);
        self.accepted += 1;
        self.by_fd.insert(fd, Connection { ordinal: self.accepted, from_itself, ..Connection::default() });
        former
    }

    /// A poller returned with the fd.
    pub fn ready(&mut self, fd: i32, at_ns: u64) -> bool {
        let Some(connection) = self.by_fd.get_mut(&fd) else { return false };
        let between = connection.open.as_ref().is_none_or(|open| open.sent_ns.is_some());
        if between && connection.ready_ns.is_none() {
            connection.ready_ns = Some(at_ns);
        }
        true
    }

    /// Whether the fd is an accepted connection.
    pub fn knows(&self, fd: i32) -> bool {
        self.by_fd.contains_key(&fd)
    }

    /// Bytes were read.
    pub fn received(
        &mut self,
        (fd, tid, at_ns): (i32, u32, u64),
        bytes: u32,
        opening: Option<&Opening>,
        requests: &mut Requests,
    ) -> Read {
        let mut read = Read::default();
        let Some(connection) = self.by_fd.get_mut(&fd) else { return read };
        if connection.ignored {
            return read;
        }
        let answered = connection.open.as_ref().is_some_and(|open| open.sent_ns.is_some());
        if answered {
            read.ended = connection.end(at_ns);
        }
        // A client that has closed its half may still get its answer.
        if bytes == 0 {
            return read;
        }
        read.opaque = match opening {
            Some(Opening::Tls) => Some(Opaque::Tls),
            Some(Opening::Http2) => Some(Opaque::Http2),
            Some(Opening::Request { pipelined: true, .. }) => Some(Opaque::Pipelined),
            _ => None,
        };
        if matches!(read.opaque, Some(Opaque::Tls | Opaque::Http2)) {
            *connection = Connection { ignored: true, ordinal: connection.ordinal, ..Connection::default() };
            return read;
        }
        let ready_ns = connection.ready_ns.take();
        let open = connection.open.get_or_insert_with(|| Open {
            ready_ns: ready_ns.unwrap_or(at_ns).min(at_ns),
            read_ns: at_ns,
            tid,
            admitted: None,
            status: None,
            sent_ns: None,
        });
        self.reading.insert(tid, fd);
        if let (None, Some(Opening::Request { method, route, prober, .. })) = (&open.admitted, opening) {
            let sender = Sender { prober: *prober, itself: connection.from_itself };
            let admitted = requests.admit(Some((method, route)), sender);
            read.begun = Some((admitted.clone(), open.ready_ns));
            open.admitted = Some(admitted);
        }
        read
    }

    /// Bytes were written. Returns a request that is recognised only now, because its line could not be read.
    pub fn sent(
        &mut self,
        fd: i32,
        at_ns: u64,
        status: Option<u16>,
        requests: &mut Requests,
    ) -> Option<(Admitted, u64)> {
        let connection = self.by_fd.get_mut(&fd).filter(|connection| !connection.ignored)?;
        let open = connection.open.as_mut()?;
        let interim = status.is_some_and(|status| status < 200 && status != 101);
        if interim {
            return None;
        }
        open.sent_ns = Some(at_ns);
        open.status = open.status.or(status);
        connection.ignored |= status == Some(101);
        if open.admitted.is_some() {
            return None;
        }
        let sender = Sender { prober: false, itself: connection.from_itself };
        let admitted = requests.admit(None, sender);
        open.admitted = Some(admitted.clone());
        Some((admitted, open.ready_ns))
    }

    /// The fd is closed.
    pub fn closed(&mut self, fd: i32, at_ns: u64) -> Option<Ended> {
        let mut connection = self.by_fd.remove(&fd)?;
        self.reading.retain(|_, reading| *reading != fd);
        connection.end(at_ns)
    }

    /// Ends the requests whose answer has paused for so long that it is over.
    pub fn tick(&mut self, now_ns: u64) -> Vec<Ended> {
        self.end_answered(now_ns, ANSWER_PAUSE_NS)
    }

    /// Ends every request that was answered; those that were not are not requests that ended.
    pub fn finish(&mut self, now_ns: u64) -> Vec<Ended> {
        self.end_answered(now_ns, 0)
    }

    fn end_answered(&mut self, now_ns: u64, pause_ns: u64) -> Vec<Ended> {
        let paused = |connection: &&mut Connection| {
            let sent_ns = connection.open.as_ref().and_then(|open| open.sent_ns);
            sent_ns.is_some_and(|sent_ns| now_ns.saturating_sub(sent_ns) >= pause_ns)
        };
        self.by_fd.values_mut().filter(paused).filter_map(|connection| connection.end(now_ns)).collect()
    }

    /// Ordinal of the user request that a thread is working on.
    pub fn request_of(&self, tid: u32) -> Option<u64> {
        let fd = self.reading.get(&tid)?;
        let open = self.by_fd.get(fd)?.open.as_ref()?;
        if open.sent_ns.is_some() || open.tid != tid {
            return None;
        }
        open.admitted.as_ref()?.ordinal
    }
}

impl Connection {
    /// Takes the open request, if it ever was one.
    fn end(&mut self, at_ns: u64) -> Option<Ended> {
        let open = self.open.take()?;
        Some(Ended {
            admitted: open.admitted?,
            ready_ns: open.ready_ns,
            read_ns: open.read_ns,
            end_ns: open.sent_ns.unwrap_or(at_ns),
            status: open.status,
            tid: open.tid,
            connection_ordinal: self.ordinal,
        })
    }
}
