//! Outbound TCP connections.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
};

use proto::v1;

use crate::{class::ThreadClass, event::Service, service};

/// Connections that are kept one by one.
const KEPT: u64 = 200;
/// Open connections of the process to itself that are remembered.
const TO_ITSELF_MAX: usize = 4096;

/// Who connects, in whose request.
pub(crate) struct Connector {
    pub tid: u32,
    pub name: String,
    pub class: ThreadClass,
    pub for_request: Option<u64>,
}

#[derive(Debug)]
struct Connection {
    shown: v1::Connection,
    peer: SocketAddr,
    began_ns: u64,
    service: Option<Service>,
    established_ns: Option<u64>,
    changed: bool,
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
    /// Ports that the process listens on.
    listening: HashSet<u16>,
    /// Sockets that connect to one of those ports, with their own end once it is known.
    to_itself: HashMap<u64, Option<SocketAddr>>,
}

/// IPv4 addresses in IPv6 clothes are shown as what they are: the JVM's sockets are `AF_INET6`.
fn canonical(address: SocketAddr) -> SocketAddr {
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
                ..v1::Connection::default()
            },
            peer,
            began_ns: at_ns,
            service: None,
            established_ns: None,
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
        connection.pool_connect()
    }

    /// `connect()` returned on a thread: the fd of its latest socket.
    pub fn connected(&mut self, fd: i32, tid: u32) {
        self.by_fd.remove(&fd);
        if let Some(index) = self.latest_of.remove(&tid) {
            self.by_fd.insert(fd, index);
        }
    }

    /// The first bytes of the conversation. Returns a pool's connection.
    pub fn spoke(&mut self, fd: i32, service: Option<Service>) -> Option<PoolConnect> {
        let connection = self.kept.get_mut(*self.by_fd.get(&fd)?)?;
        if connection.service.is_some() {
            return None;
        }
        connection.service = service;
        service?.as_str().clone_into(&mut connection.shown.service);
        connection.changed = true;
        connection.pool_connect()
    }

    pub fn closed(&mut self, fd: i32) {
        self.by_fd.remove(&fd);
    }

    pub fn disconnected(&mut self, socket: u64) {
        self.by_socket.remove(&socket);
        self.to_itself.remove(&socket);
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
