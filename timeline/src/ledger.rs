//! Where a request's time went.
//!
//! A request is followed from thread to thread by what they did for it. Between two of these touches the time belongs
//! to the thread of the first until that of the second was woken, and to the second from then on; how each thread
//! spent it stands in its account. What a thread waits for is told by the syscall that it waits in, or, when it is
//! parked, by what was under way for the request meanwhile: a pool's connect, an answer of a peer.

use std::collections::HashMap;

use proto::v1;

use crate::{
    accounts::{Accounts, Split},
    inbound::Touch,
};

/// Peers of a ledger that are told.
const PEERS_MAX: usize = 10;
/// The sender of the request, as a peer.
const CLIENT: &str = "client";

/// Something under way while a request was open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Who does it.
    pub tid: u32,
    pub what: MarkOf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkOf {
    /// A pool's connection is being made.
    Pool {
        /// Number of the connection.
        ordinal: u64,
        /// In this very request, on whatever thread it is at the time.
        own: bool,
        /// For this very request, which is parked meanwhile.
        awaited: bool,
    },
    /// A peer's answer is awaited.
    Peer {
        address: String,
        service: &'static str,
        /// For this very request, whoever waits for it.
        own: bool,
    },
}

impl Mark {
    /// Whether a thread may have waited for it.
    fn concerns(&self, tid: u32) -> bool {
        match self.what {
            MarkOf::Pool { own, awaited, .. } => own || awaited || self.tid == tid,
            MarkOf::Peer { .. } => true,
        }
    }
}

/// What the kernel tells of the process's threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub run_queue: bool,
    pub throttling: bool,
    pub waits: bool,
}

/// A ledger in the making.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    on_cpu_ns: u64,
    run_queue_ns: u64,
    throttled_ns: u64,
    pool_connect_ns: u64,
    socket_wait_ns: u64,
    disk_ns: u64,
    lock_or_park_ns: u64,
    unexplained_ns: u64,
    peers: HashMap<(String, &'static str), u64>,
    /// Connections of a pool that another thread made meanwhile.
    pub waited_for: Vec<u64>,
}

impl Ledger {
    /// Splits the time from one instant to another of a request that went this way.
    pub fn of(path: &[Touch], (from_ns, to_ns): (u64, u64), accounts: &Accounts, marks: &[Mark]) -> Self {
        let mut ledger = Self::default();
        for piece in pieces(path, accounts) {
            let (from_ns, to_ns) = (piece.0.at_ns.max(from_ns), piece.1.min(to_ns));
            if from_ns < to_ns {
                ledger.add(Touch { at_ns: from_ns, ..piece.0 }, to_ns, accounts, marks);
            }
        }
        let told_ns = ledger.sum();
        // A path that does not reach the end, as of a request whose connection was closed by another thread.
        ledger.unexplained_ns += to_ns.saturating_sub(from_ns).saturating_sub(told_ns);
        ledger
    }

    /// Books a span of one thread, cut where something began or ended.
    fn add(&mut self, from: Touch, to_ns: u64, accounts: &Accounts, marks: &[Mark]) {
        let inside = |at: &u64| (from.at_ns..to_ns).contains(at);
        let mut cuts: Vec<u64> = marks
            .iter()
            .flat_map(|mark| [mark.from_ns, mark.to_ns])
            .filter(inside)
            .chain([from.at_ns])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let ends = cuts[1..].iter().copied().chain([to_ns]);
        for (begin_ns, end_ns) in cuts.iter().copied().zip(ends) {
            let covers = |mark: &&Mark| mark.from_ns <= begin_ns && mark.to_ns >= end_ns;
            let concerns = |mark: &&Mark| mark.concerns(from.tid);
            let during: Vec<&Mark> = marks.iter().filter(covers).filter(concerns).collect();
            self.book(from.tid, end_ns - begin_ns, accounts.split(from.tid, begin_ns, end_ns), &during);
        }
    }

    fn book(&mut self, tid: u32, length_ns: u64, split: Split, during: &[&Mark]) {
        let Split { on_cpu_ns, off } = split;
        let makes = |mark: &&Mark| match mark.what {
            MarkOf::Pool { own, .. } => own || mark.tid == tid,
            MarkOf::Peer { .. } => false,
        };
        if during.iter().any(makes) {
            self.pool_connect_ns += length_ns;
            return;
        }
        self.on_cpu_ns += on_cpu_ns;
        self.run_queue_ns += off.run_queue_ns;
        self.throttled_ns += off.throttled_ns;
        self.disk_ns += off.disk_ns;
        self.unexplained_ns += off.other_ns;
        self.peer((CLIENT.to_owned(), ""), off.client_ns);
        let peers = during.iter().filter_map(|mark| match &mark.what {
            MarkOf::Peer { address, service, own } => Some((mark, address, *service, *own)),
            MarkOf::Pool { .. } => None,
        });
        let of_thread =
            peers.clone().find(|(mark, ..)| mark.tid == tid).or_else(|| peers.clone().find(|p| p.3));
        let name =
            of_thread.map_or((String::new(), ""), |(_, address, service, _)| (address.clone(), service));
        self.peer(name, off.socket_ns);
        let idle_ns = off.lock_ns + off.poll_ns;
        if idle_ns == 0 {
            return;
        }
        let pool = during.iter().find_map(|mark| match mark.what {
            MarkOf::Pool { ordinal, .. } => Some(ordinal),
            MarkOf::Peer { .. } => None,
        });
        if let Some(ordinal) = pool {
            self.pool_connect_ns += idle_ns;
            self.waited_for.push(ordinal);
        } else if let Some((_, address, service, _)) = peers.clone().find(|(.., own)| *own) {
            self.peer((address.clone(), service), idle_ns);
        } else {
            self.lock_or_park_ns += idle_ns;
        }
    }

    fn peer(&mut self, name: (String, &'static str), wait_ns: u64) {
        if wait_ns > 0 {
            self.socket_wait_ns += wait_ns;
            *self.peers.entry(name).or_default() += wait_ns;
        }
    }

    fn sum(&self) -> u64 {
        self.on_cpu_ns
            + self.run_queue_ns
            + self.throttled_ns
            + self.pool_connect_ns
            + self.socket_wait_ns
            + self.disk_ns
            + self.lock_or_park_ns
            + self.unexplained_ns
    }

    /// This and another span of the same request.
    pub fn and(mut self, other: &Self) -> Self {
        self.on_cpu_ns += other.on_cpu_ns;
        self.run_queue_ns += other.run_queue_ns;
        self.throttled_ns += other.throttled_ns;
        self.pool_connect_ns += other.pool_connect_ns;
        self.socket_wait_ns += other.socket_wait_ns;
        self.disk_ns += other.disk_ns;
        self.lock_or_park_ns += other.lock_or_park_ns;
        self.unexplained_ns += other.unexplained_ns;
        for (name, wait_ns) in &other.peers {
            *self.peers.entry(name.clone()).or_default() += wait_ns;
        }
        self.waited_for.extend(&other.waited_for);
        self
    }

    /// In the contract's words. What cannot be measured is absent, and whatever is known of it unexplained.
    pub fn to_proto(&self, measured: Measured, thread_hops: Option<u32>) -> v1::Ledger {
        let mut peers: Vec<_> = self
            .peers
            .iter()
            .map(|((peer, service), wait_ns)| v1::PeerWait {
                peer: peer.clone(),
                service: (*service).to_owned(),
                wait_ns: *wait_ns,
            })
            .collect();
        peers.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.peer.cmp(&b.peer)));
        peers.truncate(PEERS_MAX);
        let hidden = [
            (measured.run_queue, self.run_queue_ns),
            (measured.throttling, self.throttled_ns),
            (measured.waits, self.socket_wait_ns + self.lock_or_park_ns),
        ];
        let hidden_ns: u64 = hidden.iter().filter(|(told, _)| !told).map(|(_, ns)| ns).sum();
        v1::Ledger {
            on_cpu_ns: Some(self.on_cpu_ns),
            run_queue_ns: measured.run_queue.then_some(self.run_queue_ns),
            throttled_ns: measured.throttling.then_some(self.throttled_ns),
            pool_connect_ns: Some(self.pool_connect_ns),
            socket_wait_ns: measured.waits.then_some(self.socket_wait_ns),
            disk_ns: Some(self.disk_ns),
            lock_or_park_ns: measured.waits.then_some(self.lock_or_park_ns),
            unexplained_ns: Some(self.unexplained_ns + hidden_ns),
            thread_hops,
            peers,
        }
    }
}

/// Times that a path leads to another thread.
pub(crate) fn hops(path: &[Touch]) -> u32 {
    let hops = path.windows(2).filter(|pair| pair[0].tid != pair[1].tid).count();
    u32::try_from(hops).unwrap_or(u32::MAX)
}

/// Whose time it was: begin and thread, and end.
fn pieces(path: &[Touch], accounts: &Accounts) -> Vec<(Touch, u64)> {
    let mut pieces = Vec::with_capacity(path.len() * 2);
    for pair in path.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        if from.tid == to.tid {
            pieces.push((from, to.at_ns));
            continue;
        }
        let woken_ns = accounts.woken(to.tid, from.at_ns, to.at_ns).unwrap_or(to.at_ns);
        pieces.push((from, woken_ns));
        pieces.push((Touch { at_ns: woken_ns, ..to }, to.at_ns));
    }
    pieces
}
