//! Events written as a story, in milliseconds since exec.

use proto::v1;
use timeline::{
    Account, Builder, Cause, Compiler, Counted, Counts, Event, Offs, Probed, Sample, Service, Settings,
    Source, Start, StartJvm, What,
    wire::{Answer, Opening},
};

pub const EXEC_NS: u64 = 1_000_000_000_000;
pub const MS: u64 = 1_000_000;

pub fn start() -> Start {
    Start {
        id: "00000000000000aa".to_owned(),
        node: "node-1".to_owned(),
        exec_ns: EXEC_NS,
        wall_offset_ns: 1_700_000_000_000_000_000,
        armed_before_exec: true,
        hot_ns: Some(EXEC_NS + 30 * MS),
        run_queue: true,
        throttling: true,
        waits: true,
        jvm: StartJvm { pid: 100, executable: "/opt/jdk/bin/java".to_owned(), ..StartJvm::default() },
        ..Start::default()
    }
}

pub fn builder(start: Start) -> Builder {
    let mut builder = Builder::new(start, Settings::default());
    builder.counted(Counts { produced: 10, delivered: 10, ..Counts::default() });
    builder
}

pub fn at(ms: u64, tid: u32, what: What) -> Event {
    Event { at_ns: EXEC_NS + ms * MS, tid, what }
}

pub fn named(ms: u64, tid: u32, name: &str) -> Event {
    at(ms, tid, What::ThreadNamed { name: name.to_owned() })
}

pub fn request(method: &str, route: &str, prober: bool) -> Opening {
    Opening::Request { stream: None, method: method.to_owned(), route: route.to_owned(), prober }
}

pub fn stream(stream: u32, route: &str) -> Opening {
    Opening::Request {
        stream: Some(stream),
        method: "POST".to_owned(),
        route: route.to_owned(),
        prober: false,
    }
}

pub fn accepted(ms: u64, fd: i32) -> Event {
    at(ms, ACCEPTOR, What::Accepted { fd, peer: Some(([10, 0, 0, 9], 40_000).into()), unix: false })
}

pub fn ready(ms: u64, fd: i32) -> Event {
    at(ms, POLLER, What::Ready { fd })
}

pub fn read(ms: u64, fd: i32, openings: &[Opening]) -> Event {
    let what = What::Received {
        fd,
        bytes: 100,
        arrived_ns: None,
        openings: openings.to_vec(),
        continues: false,
        undecided: false,
    };
    at(ms, WORKER, what)
}

pub fn received(ms: u64, fd: i32, opening: Opening) -> Event {
    read(ms, fd, &[opening])
}

/// The begin of a head.
pub fn part(ms: u64, fd: i32) -> Event {
    let what = What::Received {
        fd,
        bytes: 10,
        arrived_ns: None,
        openings: Vec::new(),
        continues: false,
        undecided: true,
    };
    at(ms, WORKER, what)
}

/// More of a request.
pub fn body(ms: u64, fd: i32) -> Event {
    let what = What::Received {
        fd,
        bytes: 10,
        arrived_ns: None,
        openings: Vec::new(),
        continues: true,
        undecided: false,
    };
    at(ms, WORKER, what)
}

pub fn end_of_stream(ms: u64, fd: i32) -> Event {
    let what = What::Received {
        fd,
        bytes: 0,
        arrived_ns: None,
        openings: Vec::new(),
        continues: false,
        undecided: false,
    };
    at(ms, WORKER, what)
}

pub fn wrote(ms: u64, fd: i32, answers: &[Answer]) -> Event {
    at(ms, WORKER, What::Sent { fd, bytes: 100, answers: answers.to_vec() })
}

/// An answer by its status, or more of one.
pub fn sent(ms: u64, fd: i32, status: Option<u16>) -> Event {
    let answer = match status {
        Some(101) => Answer::Upgraded,
        Some(100..200) => Answer::Interim,
        Some(_) => Answer::Begins { stream: None, status, streaming: false },
        None => Answer::Continues,
    };
    wrote(ms, fd, &[answer])
}

pub fn closed(ms: u64, fd: i32) -> Event {
    at(ms, WORKER, What::Closed { fd })
}

pub fn cpu(start_ms: u64, end_ms: u64, tid: u32, cpu_ms: u64) -> Event {
    let off = Offs { run_queue_ns: MS, ..Offs::default() };
    let account =
        Account { since_ns: EXEC_NS + start_ms * MS, cpu_ns: cpu_ms * MS, off, ..Account::default() };
    at(end_ms, tid, What::ThreadAccount { account, leaving: Some(Cause::Lock) })
}

pub const MAIN: u32 = 101;
pub const C2: u32 = 110;
pub const ACCEPTOR: u32 = 120;
pub const POLLER: u32 = 121;
pub const WORKER: u32 = 122;
pub const POOL: u32 = 130;
pub const CLIENT_FD: i32 = 40;
pub const DB_FD: i32 = 50;

/// A service that boots, is probed, and answers its first users; its lazy pool connects in the first request.
pub fn story() -> Vec<Event> {
    let database = ([127, 0, 0, 1], 5999).into();
    let mut events = vec![
        at(30, MAIN, What::ThreadFound { name: "java".to_owned() }),
        named(31, C2, "C2 CompilerThre"),
        named(35, 112, "Notification Th"),
        named(36, 113, "Common-Cleaner"),
        cpu(0, 90, MAIN, 80),
        named(900, ACCEPTOR, "http-nio-18117-"),
        named(901, POLLER, "http-nio-18117-"),
        named(902, WORKER, "http-nio-18117-"),
        at(950, MAIN, What::Listening { address: ([0, 0, 0, 0], 18_117).into() }),
        cpu(900, 1_000, C2, 50),
        // Not ready yet, then ready.
        accepted(1_000, 30),
        ready(1_001, 30),
        received(1_002, 30, request("GET", "/actuator/health/readiness", true)),
        sent(1_010, 30, Some(503)),
        closed(1_011, 30),
        accepted(2_000, 30),
        ready(2_001, 30),
        received(2_002, 30, request("GET", "/actuator/health/readiness", true)),
        sent(2_005, 30, Some(200)),
        closed(2_006, 30),
        // The first user: 20 ms until a worker reads, 200 ms of which it waits for the pool.
        accepted(3_000, CLIENT_FD),
        ready(3_001, CLIENT_FD),
        received(3_021, CLIENT_FD, request("GET", "/users/{id}", false)),
        at(3_100, WORKER, What::Connecting { socket: 7, peer: database }),
        at(3_100, WORKER, What::Established { socket: 7, local: ([127, 0, 0, 1], 41_000).into() }),
        at(3_101, WORKER, What::Connected { fd: DB_FD, errno: None }),
        at(3_102, WORKER, What::Asked { fd: DB_FD, service: Some(Service::Postgresql), setup: true }),
        at(3_103, WORKER, What::Answered { fd: DB_FD, service: None }),
        at(3_105, WORKER, What::Asked { fd: DB_FD, service: None, setup: false }),
        at(3_110, WORKER, What::Answered { fd: DB_FD, service: None }),
        cpu(3_000, 3_100, WORKER, 60),
        sent(3_221, CLIENT_FD, Some(200)),
        named(3_230, POOL, "HikariPool-1 co"),
        at(3_231, POOL, What::Connecting { socket: 8, peer: database }),
        at(3_231, POOL, What::Established { socket: 8, local: ([127, 0, 0, 1], 41_001).into() }),
        at(3_232, POOL, What::Connected { fd: DB_FD + 1, errno: None }),
    ];
    for n in 0..20 {
        let ms = 3_300 + n * 10;
        events.push(ready(ms, CLIENT_FD));
        events.push(received(ms + 1, CLIENT_FD, request("GET", "/users/{id}", false)));
        events.push(sent(ms + 3, CLIENT_FD, Some(200)));
    }
    events.push(closed(3_600, CLIENT_FD));
    events
}

pub fn counted(ms: u64, counted: Counted) -> Event {
    at(ms, MAIN, What::Counted { counted: Box::new(counted) })
}

/// So many classes, a tenth of them shared; as many compilations by C1, and a tenth of that by C2.
pub fn did(classes: u64) -> Counted {
    Counted {
        classes,
        classes_shared: classes / 10,
        compiles_c1: classes,
        compiles_c2: classes / 10,
        compile_c1_ns: classes * 1_000,
        compile_c2_ns: classes * 500,
        jar_reads: classes,
        jar_bytes: classes * 100,
        ..Counted::default()
    }
}

/// Everything is counted by static probes.
pub const PROBED: Probed = Probed {
    classes: Source::Usdt,
    compiles: Source::Usdt,
    gc: Source::Usdt,
    safepoints: Source::Usdt,
    threads: Source::Usdt,
};

/// [`story`] of a JVM that is probed. It had loaded 450 classes and compiled 20 methods by then; 9,000 more are loaded by
/// 950, 500 by the first user's request, 310 in it, and one in each that follows.
pub fn counted_story() -> Vec<Event> {
    let sample = |classes: u64| Sample {
        classes_loaded: Some(450 + classes),
        compiles: Some(20 + classes + classes / 10),
        gc_collections: Some(2),
        safepoints: Some(3),
        ..Sample::default()
    };
    let sampled = |ms, classes, counted: Option<Counted>| {
        at(ms, 0, What::Sampled { sample: Box::new(sample(classes)), counted: counted.map(Box::new) })
    };
    let loaded = |ms, package: &str| at(ms, WORKER, What::ClassLoaded { package: package.to_owned() });
    let compiled =
        |ms, compiler, package: &str| at(ms, C2, What::Compiled { compiler, package: package.to_owned() });
    let mut events = vec![
        at(32, 0, What::Probed { probed: PROBED }),
        counted(35, did(5)),
        counted(40, did(10)),
        counted(60, did(50)),
        sampled(60, 50, Some(did(50))),
        at(902, WORKER, What::ThreadStarted { name: "http-nio-18117-exec-1".to_owned() }),
        counted(949, did(9_000)),
        counted(1_010, did(9_100)),
        counted(2_005, did(9_400)),
        // What comes after this is told first.
        counted(3_005, did(9_520)),
        counted(3_000, did(9_500)),
        loaded(3_050, "com.fasterxml.jackson"),
        loaded(3_060, "com.fasterxml.jackson"),
        loaded(3_070, "(generated)"),
        compiled(3_080, Compiler::C1, "(generated)"),
        compiled(3_300, Compiler::C2, "java.lang"),
        counted(3_221, did(9_810)),
    ];
    events.extend((0..20).map(|n| counted(3_303 + n * 10, did(9_811 + n))));
    events.extend(story());
    // What is counted is told before what it may be a boundary of.
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Applies events, letting time pass as the agent does.
pub fn play(builder: &mut Builder, events: &[Event], mut each_tick: impl FnMut(&mut Builder, u64)) {
    let Some(first) = events.first() else { return };
    let mut now_ns = first.at_ns;
    for event in events {
        while event.at_ns > now_ns + 100 * MS {
            now_ns += 100 * MS;
            builder.tick(now_ns);
            each_tick(builder, now_ns);
        }
        builder.apply(event);
    }
}

/// The whole timeline of a story.
pub fn told(start: Start, events: &[Event]) -> v1::Timeline {
    let mut builder = builder(start);
    play(&mut builder, events, |_, _| {});
    builder.finish(events.last().map_or(EXEC_NS, |event| event.at_ns));
    builder.snapshot()
}

pub fn milestones(timeline: &v1::Timeline) -> Vec<(&'static str, u64)> {
    timeline.milestones.iter().map(|m| (m.kind().as_str_name(), m.since_exec_ns / MS)).collect()
}

/// (ordinal, route, status, wait, service) in milliseconds.
pub type Row<'a> = (Option<u64>, &'a str, Option<u32>, u64, u64);

pub fn requests(timeline: &v1::Timeline) -> Vec<Row<'_>> {
    let requests = timeline.requests.iter();
    requests.map(|r| (r.ordinal, r.route.as_str(), r.status, r.wait_ns / MS, r.service_ns / MS)).collect()
}
