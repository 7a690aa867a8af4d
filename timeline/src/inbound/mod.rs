//! Accepted connections and the requests on them.
//!
//! The key is the connection, never the thread: a request may be read by one thread and answered by another. A
//! request is open from the moment its data is ready; it ends with the last byte written before the next answer's
//! first, with its stream or connection, or when nothing was written for a second.

mod connection;
mod open;

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};

use proto::v1;

pub(crate) use self::{
    connection::Outcome,
    open::{Ended, RequestId, Touch},
};
use self::{
    connection::{Connection, Context, Facts, Protocol},
    open::Open,
};
use crate::{
    outbound::canonical,
    requests::Requests,
    wire::{Answer, Opening},
};

/// An answer that has paused for so long is over.
const ANSWER_PAUSE_NS: u64 = 1_000_000_000;
/// Handshakes whose connections wait to be accepted; a listen backlog is rarely longer.
const HANDSHAKES_MAX: usize = 4096;
/// Why a protocol's requests are not followed.
const NOT_FOLLOWED: &[(Protocol, &str)] = &[
    (Protocol::Unix, "not followed: a Unix socket"),
    (Protocol::Upgraded, "not followed after its upgrade"),
    (Protocol::TlsMultiplexed, "counted by turns: HTTP/2 would be inside TLS"),
];

/// What is known of the client of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    pub peer: Option<SocketAddr>,
    /// It is this process.
    pub itself: bool,
    pub unix: bool,
}

/// All accepted connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// The process has a network namespace of its own.
    own_network: bool,
    by_fd: HashMap<i32, Connection>,
    accepted: u64,
    next_id: RequestId,
    /// What a thread works on: the fd and the request.
    working: HashMap<u32, (i32, RequestId)>,
    /// By the client's address: this end, and when it was done.
    handshakes: HashMap<SocketAddr, (SocketAddr, u64)>,
    /// Connections that are closed and requests that ended, by protocol.
    counted: BTreeMap<Protocol, (u64, u64)>,
    told: Vec<v1::Inbound>,
}

/// What bytes mean for the connection that they were read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    pub arrived_ns: Option<u64>,
    pub openings: &'a [Opening],
    pub continues: bool,
    pub undecided: bool,
}

impl Inbound {
    pub fn new(own_network: bool) -> Self {
        Self { own_network, ..Self::default() }
    }

    /// A client's handshake is done; its connection waits to be accepted.
    pub fn handshake(&mut self, local: SocketAddr, peer: SocketAddr, at_ns: u64) {
        if self.handshakes.len() >= HANDSHAKES_MAX {
            // Those that were never accepted.
            self.handshakes.clear();
        }
        self.handshakes.insert(peer, (local, at_ns));
    }

    /// A connection was accepted. Ends what the fd's former connection left open.
    pub fn accepted(&mut self, fd: i32, client: Client, by: Touch, requests: &mut Requests) -> Outcome {
        let former = self.closed(fd, by.at_ns, requests, false);
        self.accepted += 1;
        let handshake = client.peer.and_then(|peer| self.handshakes.remove(&canonical(peer)));
        let near = |peer: SocketAddr| {
            let ip = peer.ip().to_canonical();
            ip.is_loopback() || handshake.is_some_and(|(local, _)| local.ip().to_canonical() == ip)
        };
        let facts = Facts {
            ordinal: self.accepted,
            protocol: if client.unix { Protocol::Unix } else { Protocol::Unknown },
            itself: client.itself,
            neighbour: self.own_network && client.peer.is_some_and(near),
        };
        if client.unix {
            self.counted.entry(Protocol::Unix).or_default().0 += 1;
            return former;
        }
        let accept_wait_ns = handshake.map(|(_, done_ns)| by.at_ns.saturating_sub(done_ns));
        self.by_fd.insert(fd, Connection::new(facts, by, accept_wait_ns));
        former
    }

    /// A poller returned with the fd. Whether it is an accepted connection.
    pub fn ready(&mut self, fd: i32, touch: Touch) -> bool {
        let connection = self.by_fd.get_mut(&fd);
        connection.is_some_and(|connection| {
            connection.ready(touch);
            true
        })
    }

    /// The client offers HTTP/2 inside TLS.
    pub fn may_multiplex(&mut self, fd: i32) {
        if let Some(connection) = self.by_fd.get_mut(&fd) {
            connection.facts.protocol = Protocol::TlsMultiplexed;
        }
    }

    /// Bytes were read.
    pub fn received(
        &mut self,
        fd: i32,
        touch: Touch,
        read: Read<'_>,
        requests: &mut Requests,
        before_ready: bool,
    ) -> Outcome {
        let Some(connection) = self.by_fd.get_mut(&fd) else { return Outcome::default() };
        let mut context = Context { requests, next_id: &mut self.next_id, before_ready };
        let outcome = connection.received(touch, read, &mut context);
        if let Some(id) = outcome.works_on {
            self.working.insert(touch.tid, (fd, id));
        }
        self.count(outcome)
    }

    /// Bytes were written.
    pub fn sent(
        &mut self,
        fd: i32,
        touch: Touch,
        answers: &[Answer],
        requests: &mut Requests,
        before_ready: bool,
    ) -> Outcome {
        let Some(connection) = self.by_fd.get_mut(&fd) else { return Outcome::default() };
        let mut context = Context { requests, next_id: &mut self.next_id, before_ready };
        let outcome = connection.sent(touch, answers, &mut context);
        self.count(outcome)
    }

    /// The fd is closed.
    pub fn closed(&mut self, fd: i32, at_ns: u64, requests: &mut Requests, before_ready: bool) -> Outcome {
        let Some(mut connection) = self.by_fd.remove(&fd) else { return Outcome::default() };
        let mut context = Context { requests, next_id: &mut self.next_id, before_ready };
        let outcome = connection.close(at_ns, &mut context);
        self.working.retain(|_, (of, _)| *of != fd);
        self.counted.entry(connection.facts.protocol).or_default().0 += 1;
        self.count(outcome)
    }

    fn count(&mut self, outcome: Outcome) -> Outcome {
        for ended in &outcome.ended {
            self.working.retain(|_, (_, id)| *id != ended.id);
            self.counted.entry(ended.protocol).or_default().1 += 1;
        }
        outcome
    }

    /// Ends the requests whose answer has paused for so long that it is over.
    pub fn tick(&mut self, now_ns: u64) -> Vec<Ended> {
        self.end_answered(now_ns.saturating_sub(ANSWER_PAUSE_NS), now_ns)
    }

    /// Ends every request that was answered; those that were not are not requests that ended.
    pub fn finish(&mut self, now_ns: u64) -> Vec<Ended> {
        self.end_answered(now_ns, now_ns)
    }

    fn end_answered(&mut self, before_ns: u64, now_ns: u64) -> Vec<Ended> {
        let mut outcome = Outcome::default();
        for connection in self.by_fd.values_mut() {
            outcome.ended.append(&mut connection.end_answered(before_ns, now_ns).ended);
        }
        outcome.ended.sort_by_key(|ended| (ended.end_ns, ended.connection_ordinal));
        self.count(outcome).ended
    }

    /// The request that a thread works on, while its answer has not begun.
    pub fn working(&mut self, tid: u32) -> Option<RequestId> {
        self.open_of(tid).map(|open| open.id)
    }

    /// Ordinal of the user request that a thread works on.
    pub fn ordinal_of(&mut self, tid: u32) -> Option<u64> {
        self.open_of(tid)?.admitted.as_ref()?.ordinal
    }

    fn open_of(&mut self, tid: u32) -> Option<&mut Open> {
        let (fd, id) = *self.working.get(&tid)?;
        self.unanswered(fd, id)
    }

    /// An open request whose answer has not begun.
    fn unanswered(&mut self, fd: i32, id: RequestId) -> Option<&mut Open> {
        self.by_fd.get_mut(&fd)?.find(id).filter(|open| open.sent_ns.is_none())
    }

    /// A thread has a hand in a request, and works on it from now on.
    pub fn touch(&mut self, id: RequestId, touch: Touch) {
        let fds = self.working.values().find(|(_, of)| *of == id).map(|(fd, _)| *fd);
        let Some(fd) = fds else { return };
        if let Some(open) = self.unanswered(fd, id) {
            open.touch(touch);
            self.working.insert(touch.tid, (fd, id));
        }
    }

    /// When the data of the oldest open request was ready.
    pub fn oldest_ns(&self) -> Option<u64> {
        let open = self.by_fd.values().flat_map(Connection::open);
        open.map(|open| open.begin.ready_ns()).min()
    }

    /// The accepted connections, by protocol; only those that changed since the last call when `changed`.
    pub fn summary(&mut self, changed: bool) -> Vec<v1::Inbound> {
        let mut counts = self.counted.clone();
        for connection in self.by_fd.values() {
            counts.entry(connection.facts.protocol).or_default().0 += 1;
        }
        let reason =
            |of| NOT_FOLLOWED.iter().find(|(protocol, _)| *protocol == of).map_or("", |(_, reason)| reason);
        let now: Vec<_> = counts
            .into_iter()
            .map(|(protocol, (connections, requests))| v1::Inbound {
                protocol: protocol.as_str().to_owned(),
                connections,
                requests,
                not_followed: reason(protocol).to_owned(),
            })
            .collect();
        if !changed {
            return now;
        }
        let news = now.iter().filter(|entry| !self.told.contains(entry)).cloned().collect();
        self.told = now;
        news
    }
}
