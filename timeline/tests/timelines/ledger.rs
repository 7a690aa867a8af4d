//! Where a request's time went, told by what its threads did.

use std::collections::HashMap;

use crate::common::*;
use proto::v1;
use timeline::{Account, Cause, Event, LastOff, Service, What, wire::Answer};

const FD: i32 = CLIENT_FD;
/// A thread of an HTTP client, or another carrier.
const HELPER: u32 = 140;
const SINCE_NS: u64 = EXEC_NS;

/// Threads' accounts, written as what each did from one millisecond to the next.
#[derive(Default)]
struct Threads {
    accounts: HashMap<u32, Account>,
    events: Vec<Event>,
}

impl Threads {
    /// The thread was off its CPU, and ran again from `to_ms` on; the last `queued_ms` it could have run.
    fn off(&mut self, tid: u32, (from_ms, to_ms): (u64, u64), cause: Cause, queued_ms: u64) -> &mut Self {
        let account =
            self.accounts.entry(tid).or_insert(Account { since_ns: SINCE_NS, ..Account::default() });
        let before = account.off;
        let offs_ns = before.run_queue_ns
            + before.socket_ns
            + before.client_ns
            + before.poll_ns
            + before.disk_ns
            + before.lock_ns
            + before.other_ns;
        account.cpu_ns = from_ms * MS - offs_ns;
        let waited_ns = (to_ms - from_ms - queued_ms) * MS;
        match cause {
            Cause::Runnable => account.off.run_queue_ns += waited_ns,
            Cause::Socket => account.off.socket_ns += waited_ns,
            Cause::Client => account.off.client_ns += waited_ns,
            Cause::Poll => account.off.poll_ns += waited_ns,
            Cause::Disk => account.off.disk_ns += waited_ns,
            Cause::Lock => account.off.lock_ns += waited_ns,
            Cause::Other | Cause::Exited => account.off.other_ns += waited_ns,
        }
        account.off.run_queue_ns += queued_ms * MS;
        account.last = Some(LastOff {
            off_ns: EXEC_NS + from_ms * MS,
            on_ns: EXEC_NS + to_ms * MS,
            run_queue_ns: queued_ms * MS,
            throttled_ns: 0,
            cause,
        });
        let account = *account;
        self.events.push(at(to_ms, tid, What::ThreadAccount { account, leaving: None }));
        self
    }

    fn then(&mut self, events: &[Event]) -> &mut Self {
        self.events.extend_from_slice(events);
        self
    }

    fn request(&mut self) -> v1::Request {
        self.events.sort_by_key(|event| event.at_ns);
        let timeline = told(start(), &self.events);
        timeline.requests.into_iter().next().unwrap()
    }
}

/// (on_cpu, run_queue, pool_connect, socket_wait, disk, lock_or_park, unexplained) in milliseconds.
fn spent(ledger: Option<&v1::Ledger>) -> [u64; 7] {
    let ledger = ledger.unwrap();
    [
        ledger.on_cpu_ns,
        ledger.run_queue_ns,
        ledger.pool_connect_ns,
        ledger.socket_wait_ns,
        ledger.disk_ns,
        ledger.lock_or_park_ns,
        ledger.unexplained_ns,
    ]
    .map(|ns| ns.unwrap() / MS)
}

fn peers(request: &v1::Request) -> Vec<(&str, &str, u64)> {
    let peers = request.ledger.as_ref().unwrap().peers.iter();
    peers.map(|peer| (peer.peer.as_str(), peer.service.as_str(), peer.wait_ns / MS)).collect()
}

fn by(tid: u32, event: Event) -> Event {
    Event { tid, ..event }
}

/// A poller is idle until 1,000, hands over by 1,004 and is idle again; its worker reads at 1,020.
fn handed_over() -> Threads {
    let mut threads = Threads::default();
    threads
        .off(POLLER, (500, 1_000), Cause::Poll, 0)
        .off(WORKER, (500, 1_007), Cause::Lock, 3)
        .off(POLLER, (1_006, 2_000), Cause::Poll, 0)
        .then(&[accepted(900, FD), ready(1_000, FD), received(1_020, FD, request("GET", "/x", false))]);
    threads
}

#[test]
fn the_wait_is_the_pollers_until_the_worker_wakes() {
    let request = handed_over().then(&[sent(1_050, FD, Some(200)), closed(1_060, FD)]).request();
    assert_eq!((request.wait_ns / MS, request.service_ns / MS), (20, 30));
    // Four of the poller, three in the queue, thirteen of the worker before it touched the socket.
    assert_eq!(spent(request.wait_ledger.as_ref()), [17, 3, 0, 0, 0, 0, 0]);
    assert_eq!(spent(request.ledger.as_ref()), [47, 3, 0, 0, 0, 0, 0]);
    assert_eq!(request.ledger.unwrap().thread_hops, Some(0), "hops are counted from the read on");
}

#[test]
fn a_worker_that_was_born_for_it_had_no_time_before() {
    let mut threads = Threads::default();
    let born = Account { since_ns: EXEC_NS + 1_010 * MS, ..Account::default() };
    let request = threads
        .off(POLLER, (500, 1_000), Cause::Poll, 0)
        .off(POLLER, (1_011, 2_000), Cause::Poll, 0)
        .then(&[
            accepted(900, FD),
            ready(1_000, FD),
            at(1_015, WORKER, What::ThreadAccount { account: born, leaving: None }),
            received(1_020, FD, request("GET", "/x", false)),
            sent(1_021, FD, Some(200)),
            closed(1_022, FD),
        ])
        .request();
    assert_eq!(spent(request.wait_ledger.as_ref()), [20, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn waits_are_told_by_their_peers() {
    let database = ([10, 0, 0, 5], 5432).into();
    let asked = |ms, setup| at(ms, WORKER, What::Asked { fd: DB_FD, service: None, setup });
    let answered = |ms| at(ms, WORKER, What::Answered { fd: DB_FD, service: Some(Service::Postgresql) });
    let mut threads = handed_over();
    let request = threads
        .then(&[
            at(1_030, WORKER, What::Connecting { socket: 7, peer: database }),
            at(1_031, WORKER, What::Established { socket: 7, local: ([10, 0, 0, 9], 41_000).into() }),
            at(1_031, WORKER, What::Connected { fd: DB_FD, errno: None }),
            asked(1_032, true),
        ])
        .off(WORKER, (1_032, 1_060), Cause::Socket, 0)
        .then(&[answered(1_060), asked(1_070, false)])
        .off(WORKER, (1_070, 1_078), Cause::Socket, 0)
        .then(&[answered(1_078)])
        .off(WORKER, (1_080, 1_083), Cause::Disk, 0)
        .off(WORKER, (1_085, 1_090), Cause::Lock, 1)
        .off(WORKER, (1_091, 1_093), Cause::Client, 0)
        .then(&[sent(1_100, FD, Some(200)), closed(1_200, FD)])
        .request();
    // The pool's part is whole, from its connect to the handshake's end, whatever the thread did meanwhile.
    assert_eq!(spent(request.ledger.as_ref()), [17 + 10 + 10 + 2 + 2 + 1 + 7, 4, 30, 10, 3, 4, 0]);
    assert_eq!(peers(&request), [("10.0.0.5:5432", "postgresql", 8), ("client", "", 2)]);
    let timeline = told(start(), &threads.events);
    assert_eq!(timeline.connections[0].handshake_ns, Some(30 * MS));
    assert_eq!(timeline.connections[0].first_answer_ns, Some(28 * MS));
}

#[test]
fn a_virtual_thread_makes_its_connection_on_two_carriers() {
    let database = ([10, 0, 0, 5], 5432).into();
    let mut threads = handed_over();
    let request = threads
        .then(&[
            at(1_030, WORKER, What::Connecting { socket: 7, peer: database }),
            at(1_031, WORKER, What::Established { socket: 7, local: ([10, 0, 0, 9], 41_000).into() }),
            at(1_031, WORKER, What::Connected { fd: DB_FD, errno: None }),
            at(1_032, WORKER, What::Asked { fd: DB_FD, service: Some(Service::Postgresql), setup: true }),
        ])
        .off(WORKER, (1_033, 1_200), Cause::Lock, 0)
        .off(HELPER, (500, 1_049), Cause::Lock, 0)
        .then(&[
            by(HELPER, at(1_050, HELPER, What::Answered { fd: DB_FD, service: None })),
            at(1_055, HELPER, What::Asked { fd: DB_FD, service: None, setup: false }),
        ])
        .off(HELPER, (1_055, 1_060), Cause::Poll, 0)
        .then(&[
            at(1_060, HELPER, What::Answered { fd: DB_FD, service: None }),
            by(HELPER, sent(1_070, FD, Some(200))),
            closed(1_200, FD),
        ])
        .request();
    assert_eq!(spent(request.ledger.as_ref()), [17 + 10 + 5 + 10, 3, 20, 5, 0, 0, 0]);
    assert_eq!(request.ledger.unwrap().thread_hops, Some(1));
}

#[test]
fn who_waits_for_a_connection_that_a_pools_thread_makes() {
    let database = ([10, 0, 0, 5], 5432).into();
    let used = |waits: bool| {
        let mut threads = handed_over();
        threads
            .then(&[
                named(600, POOL, "HikariPool-1:co"),
                at(1_030, POOL, What::Connecting { socket: 7, peer: database }),
                at(1_031, POOL, What::Established { socket: 7, local: ([10, 0, 0, 9], 41_000).into() }),
                at(1_031, POOL, What::Connected { fd: DB_FD, errno: None }),
                at(1_040, POOL, What::Asked { fd: DB_FD, service: Some(Service::Postgresql), setup: true }),
                at(1_060, POOL, What::Answered { fd: DB_FD, service: None }),
                at(1_061, POOL, What::Asked { fd: DB_FD, service: None, setup: false }),
                at(1_061, POOL, What::Answered { fd: DB_FD, service: None }),
            ])
            .off(WORKER, (1_025, 1_063), Cause::Lock, 1);
        if waits {
            threads.then(&[
                at(1_064, WORKER, What::Asked { fd: DB_FD, service: None, setup: false }),
                at(1_064, WORKER, What::Answered { fd: DB_FD, service: None }),
            ]);
        }
        threads.then(&[sent(1_070, FD, Some(200)), closed(1_200, FD)]);
        threads
    };
    let mut waits = used(true);
    assert_eq!(spent(waits.request().ledger.as_ref()), [17 + 5 + 7, 4, 30, 0, 0, 7, 0]);
    assert_eq!(told(start(), &waits.events).connections[0].waited_by_request, Some(1));
    let mut parks = used(false);
    assert_eq!(spent(parks.request().ledger.as_ref()), [17 + 5 + 7, 4, 0, 0, 0, 37, 0], "for something else");
    assert_eq!(told(start(), &parks.events).connections[0].waited_by_request, None);
}

#[test]
fn a_thread_that_is_parked_waits_for_what_is_under_way_for_its_request() {
    let peer = ([10, 0, 0, 7], 8080).into();
    let mut threads = handed_over();
    // As the JDK's HttpClient does: the caller connects, other threads speak.
    let request = threads
        .then(&[
            at(1_025, WORKER, What::Connecting { socket: 7, peer }),
            at(1_026, WORKER, What::Established { socket: 7, local: ([10, 0, 0, 9], 41_000).into() }),
            at(1_026, WORKER, What::Connected { fd: DB_FD, errno: None }),
            at(1_030, HELPER, What::Asked { fd: DB_FD, service: Some(Service::Http), setup: false }),
        ])
        .off(HELPER, (900, 1_080), Cause::Poll, 0)
        .off(WORKER, (1_028, 1_082), Cause::Lock, 0)
        .then(&[
            at(1_081, HELPER, What::Answered { fd: DB_FD, service: None }),
            sent(1_100, FD, Some(200)),
            closed(1_200, FD),
        ])
        .request();
    assert_eq!(peers(&request), [("10.0.0.7:8080", "http", 50)]);
    assert_eq!(request.ledger.as_ref().unwrap().thread_hops, Some(2));
    assert_eq!(spent(request.ledger.as_ref())[6], 0);
}

#[test]
fn a_request_that_another_thread_answers_hops_to_it() {
    let mut threads = Threads::default();
    let request = threads
        .off(POLLER, (500, 1_000), Cause::Poll, 0)
        .then(&[
            accepted(900, FD),
            by(POLLER, ready(1_000, FD)),
            by(POLLER, received(1_002, FD, request("GET", "/async", false))),
        ])
        .off(HELPER, (500, 1_012), Cause::Lock, 2)
        .off(POLLER, (1_010, 1_500), Cause::Poll, 0)
        .then(&[
            by(
                HELPER,
                wrote(1_030, FD, &[Answer::Begins { stream: None, status: Some(200), streaming: false }]),
            ),
            closed(1_100, FD),
        ])
        .request();
    assert_eq!(spent(request.ledger.as_ref()), [28, 2, 0, 0, 0, 0, 0]);
    assert_eq!(request.ledger.unwrap().thread_hops, Some(1));
}

#[test]
fn what_no_account_tells_is_unexplained() {
    let events = [
        accepted(900, FD),
        ready(1_000, FD),
        received(1_010, FD, request("GET", "/x", false)),
        sent(1_030, FD, Some(200)),
        closed(1_100, FD),
    ];
    let timeline = told(start(), &events);
    assert_eq!(spent(timeline.requests[0].ledger.as_ref()), [0, 0, 0, 0, 0, 0, 30]);
}

#[test]
fn what_a_kernel_cannot_tell_is_absent() {
    let start = timeline::Start { run_queue: false, throttling: false, waits: false, ..start() };
    let mut threads = handed_over();
    threads.then(&[sent(1_050, FD, Some(200)), closed(1_060, FD)]);
    let request = told(start, &threads.events).requests[0].clone();
    let ledger = request.ledger.unwrap();
    assert_eq!(ledger.on_cpu_ns.unwrap() + ledger.unexplained_ns.unwrap(), request.latency_ns);
    assert_eq!((ledger.run_queue_ns, ledger.throttled_ns, ledger.socket_wait_ns), (None, None, None));
    assert!(ledger.on_cpu_ns.is_some() && ledger.unexplained_ns.is_some());
}

#[test]
fn compilers_and_collectors_are_counted_while_the_request_is_open() {
    let mut threads = handed_over();
    let request = threads
        .then(&[named(31, C2, "C2 CompilerThre"), named(31, 111, "GC Thread#0")])
        .off(C2, (900, 1_010), Cause::Lock, 0)
        .off(C2, (1_040, 1_900), Cause::Lock, 0)
        .off(111, (900, 2_000), Cause::Lock, 0)
        .then(&[sent(1_050, FD, Some(200)), closed(1_060, FD)])
        .request();
    let overlap = request.overlap.unwrap();
    assert_eq!((overlap.jit_c1_ns, overlap.jit_c2_ns, overlap.gc_ns), (Some(0), Some(30 * MS), Some(0)));
}
