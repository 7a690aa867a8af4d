//! Timelines as agents tell them.

use super::done::{packages, stages, work};
use proto::v1::{
    Completeness, Connection, Exit, Fact, Finding, Gap, Inbound, Jvm, Ledger, Memory, Milestone,
    MilestoneKind, Overlap, PeerWait, Phase, PhaseKind, Pod, Request, RequestClass, RequestCounts, Route,
    Steady, SteadyVerdict, Timeline,
};

pub(super) const MS: u64 = 1_000_000;
/// 2026-01-01 00:00:00.250 UTC.
pub(super) const EXEC_AT: prost_types::Timestamp =
    prost_types::Timestamp { seconds: 1_767_225_600, nanos: 250_000_000 };

pub(super) fn spring() -> Timeline {
    let milestone = |kind: MilestoneKind, ms: u64, evidence: &str| Milestone {
        kind: kind.into(),
        since_exec_ns: ms * MS,
        at: None,
        evidence: evidence.into(),
        memory: memory(kind),
    };
    let phase = |kind: PhaseKind, ms: u64, length_ms: u64, cpu_ms: &[(&str, u64)], requests| Phase {
        kind: kind.into(),
        since_exec_ns: ms * MS,
        length_ns: length_ms * MS,
        cpu_ns: cpu_ms.iter().map(|(class, ms)| ((*class).to_owned(), ms * MS)).collect(),
        run_queue_ns: Some(length_ms * MS / 20),
        requests,
        jvm: work(kind),
        ..Phase::default()
    };
    Timeline {
        id: "6f1d0c2a9b3e4d57".into(),
        node: "node-a".into(),
        jvm: Some(Jvm {
            pid: 48_113,
            container_pid: Some(1),
            executable: "/opt/java/openjdk/bin/java".into(),
            main: Some("/app/orders-1.4.0.jar".into()),
            exec_at: Some(EXEC_AT),
            libjvm: "/opt/java/openjdk/lib/server/libjvm.so".into(),
        }),
        pod: Some(Pod {
            container_id: "4f0c9e8d7b6a".repeat(5) + "4f0c",
            uid: Some("0d9c1b7e-6c1b-4c0e-9f5e-0a7e6a1c2b3d".into()),
            namespace: Some("shop".into()),
            name: Some("orders-7d9c5b8f6-x2x4z".into()),
            workload: Some("orders".into()),
            container: Some("app".into()),
            qos_class: Some("burstable".into()),
        }),
        completeness: Some(Completeness {
            armed_before_exec: Some(true),
            late: Some(false),
            events_produced: Some(12_345),
            events_delivered: Some(12_345),
            events_dropped: Some(0),
            complete: Some(true),
            ..Completeness::default()
        }),
        milestones: vec![
            milestone(MilestoneKind::ProcessExec, 0, "/opt/java/openjdk/bin/java"),
            milestone(MilestoneKind::JvmCreated, 61, "thread \"C2 CompilerThre\""),
            milestone(MilestoneKind::PortListen, 3_902, "tcp port 8080"),
            milestone(MilestoneKind::FirstAccept, 4_512, "127.0.0.1:40112"),
            milestone(MilestoneKind::FirstProbe, 4_618, "GET /actuator/health/readiness, status 200"),
            milestone(MilestoneKind::Ready, 4_618, "GET /actuator/health/readiness, status 200"),
            milestone(MilestoneKind::FirstRequest, 6_120, "GET /users/{id}, thread http-nio-8080-e"),
            milestone(MilestoneKind::PoolConnect, 6_333, "127.0.0.1:5432 by HikariPool-1:co"),
            milestone(MilestoneKind::Steady, 35_200, "p50 1.20 ms, compiler threads 2 % of a core"),
        ],
        phases: vec![
            phase(
                PhaseKind::JvmBoot,
                0,
                61,
                &[("main", 48), ("vm", 2), ("gc", 1), ("jit_c1", 3), ("jit_c2", 1)],
                0,
            ),
            phase(
                PhaseKind::AppStart,
                61,
                3_841,
                &[
                    ("main", 3_105),
                    ("jit_c1", 1_204),
                    ("jit_c2", 2_290),
                    ("gc", 143),
                    ("vm", 41),
                    ("other", 3),
                ],
                0,
            ),
            phase(
                PhaseKind::Listening,
                3_902,
                716,
                &[("main", 12), ("jit_c1", 40), ("poller", 1), ("acceptor", 1)],
                1,
            ),
            phase(PhaseKind::ReadyIdle, 4_618, 1_502, &[("jit_c2", 64), ("worker", 5)], 1),
            phase(PhaseKind::FirstRequest, 6_120, 291, &[("worker", 187), ("pool", 38), ("jit_c1", 77)], 1),
            phase(
                PhaseKind::Warming,
                6_411,
                28_789,
                &[("worker", 2_402), ("jit_c1", 903), ("jit_c2", 4_104)],
                377,
            ),
        ],
        stages: stages(),
        requests: requests(),
        routes: vec![
            Route {
                method: "GET".into(),
                route: "/hello".into(),
                count: 149,
                first_ns: Some(1_800_000),
                p50_2_to_10_ns: Some(1_200_000),
                p50_11_to_200_ns: Some(450_000),
                p95_ns: Some(2_100_000),
                p99_ns: Some(9_870_000),
                cold_penalty_ns: Some(1_350_000),
                first_class: RequestClass::SelfWarmup.into(),
            },
            Route {
                method: "GET".into(),
                route: "/users/{id}".into(),
                count: 201,
                first_ns: Some(291_510_000),
                p50_2_to_10_ns: Some(4_800_000),
                p50_11_to_200_ns: Some(1_200_000),
                p95_ns: Some(6_000_000),
                p99_ns: Some(14_200_000),
                cold_penalty_ns: Some(290_310_000),
                first_class: RequestClass::User.into(),
            },
            Route {
                method: "GET".into(),
                route: "/orders/{id}/items/{id}/events".into(),
                count: 1,
                first_ns: Some(61_200_000),
                first_class: RequestClass::User.into(),
                ..Route::default()
            },
        ],
        connections: connections(),
        steady: Some(Steady {
            verdict: SteadyVerdict::Reached.into(),
            since_exec_ns: 35_200 * MS,
            at_ordinal: Some(350),
            p50_ns: Some(1_200_000),
            memory: memory(MilestoneKind::Steady),
        }),
        findings: vec![Finding {
            code: "POOL_CREATED_BY_REQUEST".into(),
            evidence: "request 1 opened the first connection to 127.0.0.1:5432".into(),
            price_ns: Some(68_300_000),
        }],
        request_counts: Some(RequestCounts { user: 351, probe: 12, self_warmup: 1, unparsed: 0 }),
        facts: facts(),
        ..Timeline::default()
    }
}

/// Of the process and its cgroup; nobody had looked when it was exec'd.
fn memory(kind: MilestoneKind) -> Option<Memory> {
    let (rss_kib, cgroup_kib) = match kind {
        MilestoneKind::ProcessExec => return None,
        MilestoneKind::JvmCreated => (43_812, 31_440),
        MilestoneKind::PortListen => (238_120, 301_512),
        MilestoneKind::Steady => (401_908, 466_204),
        _ => (251_640, 316_800),
    };
    Some(Memory { rss_bytes: Some(rss_kib * 1024), cgroup_bytes: Some(cgroup_kib * 1024) })
}

/// In the order in which an agent came by them.
fn facts() -> Vec<Fact> {
    let fact = |name: &str, value: &str, source: &str| Fact {
        name: name.into(),
        value: value.into(),
        source: source.into(),
    };
    vec![
        fact("container_memory_limit_bytes", "536870912", "cgroup memory.max"),
        fact("jvm_kind", "hotspot", "maps"),
        fact("gc", "g1", "hsperfdata sun.gc.collector.0.name"),
        fact("jvm_version", "25.0.3+9-LTS", "hsperfdata java.property.java.vm.version"),
        fact(
            "vm_args",
            "-XX:MaxRAMPercentage=75.0 -XX:+UseG1GC -XX:+ExitOnOutOfMemoryError -Xlog:gc*:file=gc.log \
             -javaagent:tracing-2.1.0.jar -javaagent:metrics.jar",
            "hsperfdata java.rt.vmArgs",
        ),
        fact("create_vm_ms", "52", "hsperfdata sun.rt.createVmBeginTime, createVmEndTime"),
        fact("javaagent", "tracing-2.1.0.jar", "hsperfdata java.rt.vmArgs"),
        fact("cds", "default", "maps"),
        fact("javaagent", "metrics.jar", "hsperfdata java.rt.vmArgs"),
    ]
}

fn request(
    class: RequestClass,
    method: &str,
    route: &str,
    at_ms: u64,
    wait_ns: u64,
    latency_ns: u64,
) -> Request {
    Request {
        class: class.into(),
        method: Some(method.into()),
        route: route.into(),
        status: Some(200),
        since_exec_ns: at_ms * MS,
        wait_ns,
        service_ns: latency_ns - wait_ns,
        latency_ns,
        thread: "http-nio-8080-e".into(),
        protocol: "http/1.1".into(),
        ..Request::default()
    }
}

/// A probe and the pod's own warm-up before `ready`, the first user's request that makes the pool, a route that was warm,
/// one that streams.
fn requests() -> Vec<Request> {
    let peer =
        |peer: &str, service: &str, wait_ns| PeerWait { peer: peer.into(), service: service.into(), wait_ns };
    let probe = Request {
        ledger: Some(Ledger {
            on_cpu_ns: Some(61_000_000),
            run_queue_ns: Some(12_400_000),
            throttled_ns: Some(31_600_000),
            unexplained_ns: Some(1_000_000),
            ..measured()
        }),
        connection_ordinal: 1,
        ..request(RequestClass::Probe, "GET", "/actuator/health/readiness", 4_512, 1_200_000, 106_000_000)
    };
    let again = Request {
        connection_ordinal: 4,
        ..request(RequestClass::Probe, "GET", "/actuator/health/readiness", 5_512, 80_000, 2_100_000)
    };
    let warm_up = Request {
        ledger: Some(Ledger { on_cpu_ns: Some(38_000_000), run_queue_ns: Some(400_000), ..measured() }),
        connection_ordinal: 2,
        ..request(RequestClass::SelfWarmup, "GET", "/hello", 4_516, 90_000, 38_400_000)
    };
    let lazy_pool = Request {
        ordinal: Some(1),
        route_ordinal: Some(1),
        ledger: Some(Ledger {
            on_cpu_ns: Some(187_200_000),
            run_queue_ns: Some(9_400_000),
            pool_connect_ns: Some(68_300_000),
            socket_wait_ns: Some(14_100_000),
            disk_ns: Some(2_300_000),
            lock_or_park_ns: Some(8_900_000),
            unexplained_ns: Some(1_310_000),
            thread_hops: Some(0),
            peers: vec![
                peer("127.0.0.1:5432", "postgresql", 13_800_000),
                peer("client", "", 290_000),
                peer("", "", 10_000),
            ],
            ..measured()
        }),
        wait_ledger: Some(Ledger {
            run_queue_ns: Some(1_100_000),
            lock_or_park_ns: Some(6_110_000),
            ..measured()
        }),
        overlap: Some(Overlap {
            jit_c1_ns: Some(34_900_000),
            jit_c2_ns: Some(194_400_000),
            gc_ns: Some(400_000),
            classes_loaded: Some(1_812),
            compiles: Some(943),
            compiles_c1: Some(812),
            compiles_c2: Some(131),
            source: "usdt".into(),
            packages: packages(),
        }),
        accept_wait_ns: Some(3_100_000),
        connection_ordinal: 3,
        ..request(RequestClass::User, "GET", "/users/{id}", 6_120, 7_210_000, 291_510_000)
    };
    let warm = Request {
        ordinal: Some(2),
        route_ordinal: Some(1),
        ledger: Some(Ledger { on_cpu_ns: Some(1_700_000), lock_or_park_ns: Some(100_000), ..measured() }),
        wait_ledger: Some(Ledger { lock_or_park_ns: Some(100_000), ..measured() }),
        overlap: Some(Overlap { jit_c1_ns: Some(0), ..Overlap::default() }),
        connection_ordinal: 3,
        ..request(RequestClass::User, "GET", "/hello", 6_480, 100_000, 1_800_000)
    };
    let stream = Request {
        ordinal: Some(3),
        route_ordinal: Some(1),
        ledger: Some(Ledger {
            on_cpu_ns: Some(40_000_000),
            lock_or_park_ns: Some(21_200_000),
            thread_hops: Some(2),
            ..measured()
        }),
        streaming: true,
        protocol: "h2".into(),
        connection_ordinal: 5,
        ..request(RequestClass::User, "GET", "/orders/{id}/items/{id}/events", 6_600, 200_000, 61_200_000)
    };
    vec![warm_up, probe, again, lazy_pool, warm, stream]
}

/// A ledger in which everything was measured and nothing took time.
fn measured() -> Ledger {
    Ledger {
        on_cpu_ns: Some(0),
        run_queue_ns: Some(0),
        throttled_ns: Some(0),
        pool_connect_ns: Some(0),
        socket_wait_ns: Some(0),
        disk_ns: Some(0),
        lock_or_park_ns: Some(0),
        unexplained_ns: Some(0),
        ..Ledger::default()
    }
}

fn connections() -> Vec<Connection> {
    let open = |ordinal, peer: &str, service: &str, thread: &str, thread_class: &str, at_ms| Connection {
        ordinal,
        peer: peer.into(),
        service: service.into(),
        thread: thread.into(),
        thread_class: thread_class.into(),
        since_exec_ns: at_ms * MS,
        pool: Some(false),
        attempt: 1,
        ..Connection::default()
    };
    let refused = |ordinal, attempt| Connection {
        failure: "refused".into(),
        attempt,
        ..open(ordinal, "127.0.0.1:9411", "http", "main", "main", 2_000 + 11 * ordinal)
    };
    let database = |ordinal, thread, thread_class, at_ms| Connection {
        connect_ns: Some(450_000),
        first_answer_ns: Some(1_930_000),
        handshake_ns: Some(24_600_000),
        tls: true,
        pool: Some(true),
        ..open(ordinal, "127.0.0.1:5432", "postgresql", thread, thread_class, at_ms)
    };
    vec![
        refused(1, 1),
        refused(2, 2),
        Connection { for_request: Some(1), ..database(3, "http-nio-8080-e", "worker", 6_333) },
        Connection { waited_by_request: Some(1), ..database(4, "HikariPool-1:co", "pool", 6_352) },
    ]
}

/// A service that is only spoken to inside TLS, so that its requests cannot be followed.
pub(super) fn tls() -> Timeline {
    let inbound = |protocol: &str, connections, requests, not_followed: &str| Inbound {
        protocol: protocol.into(),
        connections,
        requests,
        not_followed: not_followed.into(),
    };
    Timeline {
        id: "7ea5e1f00d15ea5e".into(),
        node: "node-b".into(),
        inbound: vec![
            inbound("http/1.1", 12, 1_200, ""),
            inbound("tls", 40, 0, "no TLS library that is known"),
        ],
        ..Timeline::default()
    }
}

/// A JVM outside any container that died early, followed late.
pub(super) fn dead() -> Timeline {
    Timeline {
        id: "00c0ffee00c0ffee".into(),
        node: "node-a".into(),
        jvm: Some(Jvm {
            pid: 7,
            executable: "/usr/bin/java".into(),
            main: Some("org.example.Batch".into()),
            ..Jvm::default()
        }),
        completeness: Some(Completeness {
            late: Some(true),
            gaps: vec![Gap {
                since_exec_ns: Some(4_100 * MS),
                length_ns: Some(3_200 * MS),
                reason: "agent restarted".into(),
            }],
            complete: Some(false),
            ..Completeness::default()
        }),
        exit: Some(Exit { since_exec_ns: 9_000 * MS, code: Some(1), signal: None }),
        ..Timeline::default()
    }
}
