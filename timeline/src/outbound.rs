//! Outbound TCP connections.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use proto::v1;

use crate::{
    class::ThreadClass,
    event::Service,
    inbound::{RequestId, Touch},
    ledger::{Mark, MarkOf},
    service,
};

/// Connections that are kept one by one.
const KEPT: u64 = 200;
/// Open connections of the process to itself that are remembered.
const TO_ITSELF_MAX: usize = 4096;
/// Turns of conversations that are remembered for the requests that waited for them.
const TURNS_MAX: usize = 4096;
/// Peers whose failed attempts are counted.
const FAILING_MAX: usize = 256;

/// Who connects, in whose request.
pub(crate) struct Connector {
    pub tid: u32,
    pub name: String,
    pub class: ThreadClass,
    pub for_request: Option<u64>,
    pub request: Option<RequestId>,
}

#[derive(Debug)]
struct Connection {
    shown: v1::Connection,
    peer: SocketAddr,
    tid: u32,
    /// The request on whose behalf it was made.
    made_for: Option<RequestId>,
    /// The request that first used it on another thread than the one that made it: it had waited for it.
    handed_to: Option<RequestId>,
    /// The request on whose behalf it was last spoken on, or made.
    request: Option<RequestId>,
    began_ns: u64,
    service: Option<Service>,
    established_ns: Option<u64>,
    asked_ns: Option<u64>,
    answered_ns: Option<u64>,
    /// When it could be used: the end of its protocol's handshake, or of the connect, or of the attempt.
    made_ns: Option<u64>,
    changed: bool,
}

/// A question to a peer, and its answer.
#[derive(Debug)]
struct Turn {
    connection: usize,
    tid: u32,
    request: Option<RequestId>,
    asked_ns: u64,
    answered_ns: Option<u64>,
}

/// A pool's first connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolConnect {
    /// When it was established, `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// What was seen.
    pub evidence: String,
}

/// All outbound connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    count: u64,
    kept: Vec<Connection>,
    /// Index into `kept`.
    by_socket: HashMap<u64, usize>,
    by_fd: HashMap<i32, usize>,
    latest_of: HashMap<u32, usize>,
    pool_peers: HashSet<SocketAddr>,
    turns: VecDeque<Turn>,
    /// Attempts that failed since the last success, by peer.
    failing: HashMap<SocketAddr, u32>,
    /// Ports that the process listens on.
    listening: HashSet<u16>,
    /// Sockets that connect to one of those ports, with their own end once it is known.
    to_itself: HashMap<u64, Option<SocketAddr>>,
}

/// IPv4 addresses in IPv6 clothes are shown as what they are: the JVM's sockets are `AF_INET6`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Outbound {
    /// Goes on behind what an earlier agent saw.
    pub fn resume(&mut self, known: &v1::Timeline) {
        self.count = known.connections.iter().map(|c| c.ordinal).max().unwrap_or(0);
    }

    pub fn connecting(
        &mut self,
        socket: u64,
        peer: SocketAddr,
        by: Connector,
        at_ns: u64,
        since_exec_ns: u64,
    ) {
        let peer = canonical(peer);
        self.count += 1;
        self.to_itself.remove(&socket);
        if self.listening.contains(&peer.port()) && self.to_itself.len() < TO_ITSELF_MAX {
            self.to_itself.insert(socket, None);
        }
        self.by_socket.remove(&socket);
        self.latest_of.remove(&by.tid);
        let attempt = self.failing.get(&peer).map_or(1, |failed| failed + 1);
        if self.count > KEPT {
            return;
        }
        let index = self.kept.len();
        self.by_socket.insert(socket, index);
        self.latest_of.insert(by.tid, index);
        self.kept.push(Connection {
            shown: v1::Connection {
                ordinal: self.count,
                peer: peer.to_string(),
                service: service::of_port(peer.port()).as_str().to_owned(),
                thread: by.name,
                thread_class: by.class.as_str().to_owned(),
                since_exec_ns,
                connect_ns: None,
                pool: None,
                for_request: by.for_request,
                attempt,
                ..v1::Connection::default()
            },
            peer,
            tid: by.tid,
            made_for: by.request,
            handed_to: None,
            request: by.request,
            began_ns: at_ns,
            service: None,
            established_ns: None,
            asked_ns: None,
            answered_ns: None,
            made_ns: None,
            changed: true,
        });
        if by.class == ThreadClass::Pool && self.pool_peers.insert(peer) {
            for connection in self.kept.iter_mut().filter(|c| c.peer == peer) {
                connection.changed = true;
            }
        }
        if self.pool_peers.contains(&peer) {
            self.mark_pool(peer);
        }
    }

    fn mark_pool(&mut self, peer: SocketAddr) {
        for connection in self.kept.iter_mut().filter(|c| c.peer == peer && c.shown.pool.is_none()) {
            connection.shown.pool = Some(true);
            connection.changed = true;
        }
    }

    /// The three-way handshake is done. Returns a pool's connection.
    pub fn established(&mut self, socket: u64, local: SocketAddr, at_ns: u64) -> Option<PoolConnect> {
        if let Some(end) = self.to_itself.get_mut(&socket) {
            *end = Some(canonical(local));
        }
        let connection = self.kept.get_mut(*self.by_socket.get(&socket)?)?;
        connection.shown.connect_ns = Some(at_ns.saturating_sub(connection.began_ns));
        connection.established_ns = Some(at_ns);
        connection.changed = true;
        self.failing.remove(&connection.peer);
        connection.pool_connect()
    }

    /// `connect()` returned on a thread: the fd of its latest socket.
    pub fn connected(&mut self, fd: i32, tid: u32) {
        self.by_fd.remove(&fd);
        if let Some(index) = self.latest_of.remove(&tid) {
            self.by_fd.insert(fd, index);
        }
    }

    /// A turn of this side begins, on behalf of a request if the thread works on one. `setup` when its bytes belong to
    /// the protocol's own handshake. Returns a pool's connection.
    pub fn asked(
        &mut self,
        fd: i32,
        by: Touch,
        request: Option<RequestId>,
        (service, setup): (Option<Service>, bool),
    ) -> Option<PoolConnect> {
        let index = *self.by_fd.get(&fd)?;
        let connection = self.kept.get_mut(index)?;
        let first = connection.asked_ns.is_none();
        connection.asked_ns.get_or_insert(by.at_ns);
        if !setup && connection.made_ns.is_none() {
            connection.made(connection.answered_ns);
        }
        if by.tid != connection.tid && connection.handed_to.is_none() {
            connection.handed_to = request;
        }
        // A client's own threads speak for the request that made the connection.
        connection.request = request.or(connection.request);
        if self.turns.len() >= TURNS_MAX {
            self.turns.pop_front();
        }
        self.turns.push_back(Turn {
            connection: index,
            tid: by.tid,
            request: connection.request,
            asked_ns: by.at_ns,
            answered_ns: None,
        });
        connection.tells(service, first)
    }

    /// The peer's turn begins. Returns a pool's connection, and the request that the answer is for.
    pub fn answered(
        &mut self,
        fd: i32,
        at_ns: u64,
        service: Option<Service>,
    ) -> (Option<PoolConnect>, Option<RequestId>) {
        let Some(&index) = self.by_fd.get(&fd) else { return (None, None) };
        let Some(connection) = self.kept.get_mut(index) else { return (None, None) };
        if connection.shown.first_answer_ns.is_none() {
            let begun_ns = connection.asked_ns.or(connection.established_ns);
            connection.shown.first_answer_ns = begun_ns.map(|begun_ns| at_ns.saturating_sub(begun_ns));
            connection.changed = true;
        }
        connection.answered_ns = Some(at_ns);
        let turn = self.turns.iter_mut().rev().find(|turn| turn.connection == index);
        let turn = turn.filter(|turn| turn.answered_ns.is_none());
        let request = turn.and_then(|turn| {
            turn.answered_ns = Some(at_ns);
            turn.request
        });
        (connection.tells(service, false), request)
    }

    pub fn closed(&mut self, fd: i32) {
        self.by_fd.remove(&fd);
    }

    pub fn disconnected(&mut self, socket: u64, errno: Option<i32>, at_ns: u64) {
        self.to_itself.remove(&socket);
        let Some(connection) = self.by_socket.remove(&socket).and_then(|index| self.kept.get_mut(index))
        else {
            return;
        };
        connection.made_ns.get_or_insert(at_ns);
        if connection.established_ns.is_none() {
            connection.shown.failure = failure(errno);
            connection.changed = true;
            if self.failing.len() < FAILING_MAX || self.failing.contains_key(&connection.peer) {
                *self.failing.entry(connection.peer).or_default() += 1;
            }
        }
    }

    /// What was under way between two instants that a request may have waited for.
    pub fn marks(&self, request: RequestId, from_ns: u64, to_ns: u64) -> Vec<Mark> {
        let overlaps = |mark: &Mark| mark.from_ns < to_ns && mark.to_ns > from_ns;
        let made = self.kept.iter().map(|connection| {
            let end_ns = connection.made_ns.or(connection.established_ns).unwrap_or(to_ns);
            let what = if connection.shown.pool == Some(true) || connection.is_database() {
                MarkOf::Pool {
                    ordinal: connection.shown.ordinal,
                    own: connection.made_for == Some(request),
                    awaited: connection.handed_to == Some(request),
                }
            } else {
                connection.peer(connection.request == Some(request))
            };
            Mark { from_ns: connection.began_ns, to_ns: end_ns, tid: connection.tid, what }
        });
        let turns = self.turns.iter().map(|turn| {
            let own = turn.request == Some(request);
            let what = self.kept[turn.connection].peer(own);
            Mark { from_ns: turn.asked_ns, to_ns: turn.answered_ns.unwrap_or(to_ns), tid: turn.tid, what }
        });
        made.chain(turns).filter(overlaps).collect()
    }

    /// A user request waited for a connection of a pool that another thread made.
    pub fn waited(&mut self, connection: u64, ordinal: u64) {
        let waited = self.kept.iter_mut().find(|kept| kept.shown.ordinal == connection);
        if let Some(connection) = waited.filter(|connection| connection.shown.waited_by_request.is_none()) {
            connection.shown.waited_by_request = Some(ordinal);
            connection.changed = true;
        }
    }

    /// Forgets turns that no open request will ask for.
    pub fn prune(&mut self, before_ns: u64) {
        while self.turns.front().is_some_and(|turn| turn.answered_ns.is_some_and(|at_ns| at_ns < before_ns)) {
            self.turns.pop_front();
        }
    }

    /// The process listens on a port.
    pub fn listens_on(&mut self, port: u16) {
        self.listening.insert(port);
    }

    /// Whether the peer of an accepted connection is this process: one of its own ends that connect to a port of its
    /// own. The end alone would not do, since another process may use the same one towards another peer.
    pub fn is_own(&self, peer: SocketAddr) -> bool {
        let peer = canonical(peer);
        self.to_itself.values().any(|end| *end == Some(peer))
    }

    /// The connections that are kept; only those that changed since the last call when `changed`.
    pub fn connections(&mut self, changed: bool) -> Vec<v1::Connection> {
        let wanted = self.kept.iter_mut().filter(|c| !changed || c.changed);
        wanted
            .map(|connection| {
                if changed {
                    connection.changed = false;
                }
                connection.shown.clone()
            })
            .collect()
    }
}

impl Connection {
    fn is_database(&self) -> bool {
        self.service.is_some_and(Service::is_database)
    }

    fn peer(&self, own: bool) -> MarkOf {
        let service = self.service.unwrap_or_else(|| service::of_port(self.peer.port()));
        MarkOf::Peer { address: self.shown.peer.clone(), service: service.as_str(), own }
    }

    /// The first bytes of a turn told the protocol; `first` of the connection's first.
    fn tells(&mut self, service: Option<Service>, first: bool) -> Option<PoolConnect> {
        if first && service == Some(Service::Tls) {
            self.shown.tls = true;
            self.changed = true;
        }
        if self.service.is_some() {
            return None;
        }
        self.service = service;
        service?.as_str().clone_into(&mut self.shown.service);
        self.changed = true;
        self.pool_connect()
    }

    /// It can be used: its protocol's handshake ended with the peer's last answer.
    fn made(&mut self, handshake_ns: Option<u64>) {
        self.made_ns = handshake_ns.or(self.established_ns);
        if self.is_database() {
            self.shown.handshake_ns = handshake_ns.map(|at_ns| at_ns.saturating_sub(self.began_ns));
            self.changed = true;
        }
    }

    fn pool_connect(&self) -> Option<PoolConnect> {
        let of_pool = self.shown.thread_class == ThreadClass::Pool.as_str();
        if !of_pool && !self.service.is_some_and(Service::is_database) {
            return None;
        }
        let what = self.service.map_or("connection", Service::as_str);
        let by = if self.shown.thread.is_empty() { "?" } else { &self.shown.thread };
        Some(PoolConnect {
            at_ns: self.established_ns?,
            evidence: format!("{what} at {} by {by}", self.shown.peer),
        })
    }
}

/// The address for a listening socket's evidence: `:8080` when it is open on all interfaces.
pub(crate) fn listening(address: SocketAddr) -> String {
    let any = match address.ip() {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    if any { format!(":{}", address.port()) } else { canonical(address).to_string() }
}

/// Why a connect failed, by its errno (include/uapi/asm-generic/errno.h).
fn failure(errno: Option<i32>) -> String {
    match errno {
        None => "given up".to_owned(),
        Some(111) => "refused".to_owned(),
        Some(110) => "timed out".to_owned(),
        Some(101 | 113) => "unreachable".to_owned(),
        Some(104) => "reset".to_owned(),
        Some(errno) => format!("errno {errno}"),
    }
}
