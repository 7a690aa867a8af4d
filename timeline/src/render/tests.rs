//! A Spring service's cold start, as an engineer sees it.

use std::collections::HashMap;

use proto::v1::{
    Completeness, Connection, Exit, Finding, Gap, Jvm, Ledger, Milestone, MilestoneKind, Phase, PhaseKind,
    Pod, Request, RequestClass, Route, Steady, SteadyVerdict, Timeline,
};

use super::{describe, list};

const MS: u64 = 1_000_000;
/// 2026-01-01 00:00:00.250 UTC.
const EXEC_AT: prost_types::Timestamp = prost_types::Timestamp { seconds: 1_767_225_600, nanos: 250_000_000 };

fn spring() -> Timeline {
    let milestone = |kind: MilestoneKind, ms: u64, evidence: &str| Milestone {
        kind: kind.into(),
        since_exec_ns: ms * MS,
        at: None,
        evidence: evidence.into(),
    };
    let phase = |kind: PhaseKind, ms: u64, length_ms: u64, cpu_ms: &[(&str, u64)], requests| Phase {
        kind: kind.into(),
        since_exec_ns: ms * MS,
        length_ns: length_ms * MS,
        cpu_ns: cpu_ms.iter().map(|(class, ms)| ((*class).to_owned(), ms * MS)).collect(),
        run_queue_ns: Some(length_ms * MS / 20),
        requests,
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
            phase(PhaseKind::FirstRequest, 6_120, 412, &[("worker", 291), ("pool", 38), ("jit_c1", 77)], 1),
            phase(
                PhaseKind::Warming,
                6_532,
                28_668,
                &[("worker", 2_402), ("jit_c1", 903), ("jit_c2", 4_104)],
                377,
            ),
        ],
        requests: vec![Request {
            ordinal: Some(1),
            route_ordinal: Some(1),
            class: RequestClass::User.into(),
            method: Some("GET".into()),
            route: "/users/{id}".into(),
            status: Some(200),
            since_exec_ns: 6_120 * MS,
            wait_ns: 310_000,
            service_ns: 411_990_000,
            latency_ns: 412_300_000,
            thread: "http-nio-8080-e".into(),
            ledger: Some(Ledger {
                on_cpu_ns: Some(291 * MS),
                run_queue_ns: Some(20 * MS),
                pool_connect_ns: Some(101_300_000),
                disk_ns: Some(0),
                ..Ledger::default()
            }),
            ..Request::default()
        }],
        routes: vec![
            Route {
                method: "GET".into(),
                route: "/hello".into(),
                count: 149,
                first_ns: Some(38_400_000),
                p50_2_to_10_ns: Some(1_200_000),
                p50_11_to_200_ns: Some(450_000),
                p95_ns: Some(2_100_000),
                p99_ns: Some(9_870_000),
                cold_penalty_ns: Some(37_950_000),
                first_class: RequestClass::SelfWarmup.into(),
            },
            Route {
                method: "GET".into(),
                route: "/users/{id}".into(),
                count: 201,
                first_ns: Some(412_300_000),
                p50_2_to_10_ns: Some(4_800_000),
                p50_11_to_200_ns: Some(1_200_000),
                p95_ns: Some(6_000_000),
                p99_ns: Some(14_200_000),
                cold_penalty_ns: Some(411_100_000),
                first_class: RequestClass::User.into(),
            },
            Route {
                method: "POST".into(),
                route: "/orders/{id}/items/{id}/reservations".into(),
                count: 1,
                ..Route::default()
            },
        ],
        connections: vec![
            Connection {
                ordinal: 1,
                peer: "127.0.0.1:9411".into(),
                service: "http".into(),
                thread: "main".into(),
                thread_class: "main".into(),
                since_exec_ns: 2_011 * MS,
                connect_ns: None,
                pool: Some(false),
                for_request: None,
                ..Connection::default()
            },
            Connection {
                ordinal: 2,
                peer: "127.0.0.1:5432".into(),
                service: "postgresql".into(),
                thread: "http-nio-8080-e".into(),
                thread_class: "worker".into(),
                since_exec_ns: 6_333 * MS,
                connect_ns: Some(450_000),
                pool: Some(true),
                for_request: Some(1),
                ..Connection::default()
            },
        ],
        steady: Some(Steady {
            verdict: SteadyVerdict::Reached.into(),
            since_exec_ns: 35_200 * MS,
            at_ordinal: Some(350),
            p50_ns: Some(1_200_000),
        }),
        findings: vec![Finding {
            code: "POOL_CREATED_BY_REQUEST".into(),
            evidence: "request 1 opened the first connection to 127.0.0.1:5432".into(),
            price_ns: Some(101_300_000),
        }],
        ..Timeline::default()
    }
}

/// A JVM outside any container that died early, followed late.
fn dead() -> Timeline {
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

/// `GOLDEN=write cargo test` takes the text as the new golden file.
fn check(file: &str, actual: &str) {
    let path = format!("{}/src/render/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(actual == expected, "{file} differs; it is now:\n{actual}");
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= super::WIDTH, "{line}");
    }
}

#[test]
fn a_cold_start_reads_from_its_price_to_its_causes() {
    let text = describe(&spring());
    fits(&text);
    check("spring.txt", &text);
}

#[test]
fn a_process_that_died_early_shows_what_was_seen() {
    let text = describe(&dead());
    fits(&text);
    check("dead.txt", &text);
}

#[test]
fn an_empty_timeline_has_its_lines_and_no_table() {
    let text = describe(&Timeline::default());
    assert!(text.contains("Complete:      unknown") && !text.contains("Routes"), "{text}");
}

#[test]
fn classes_fold_into_other_when_the_line_is_full() {
    let cpu_ns: HashMap<_, _> =
        (1..=20_u64).map(|at| (format!("class_of_thread_{at}"), at * 100_000 * MS)).collect();
    let phase = Phase { kind: PhaseKind::Warming.into(), cpu_ns, ..Phase::default() };
    let text = describe(&Timeline { phases: vec![phase], ..Timeline::default() });
    assert!(text.contains("other has class_of_thread_1, class_of_thread_2"), "{text}");
    fits(text.split_once("other has").unwrap().1.split_once('\n').unwrap().1);
    assert!(text.contains(" 21000000.0 "), "the phase's sum stays whole: {text}");
}

#[test]
fn a_list_has_one_line_each_and_only_the_columns_that_say_something() {
    let now_ns = (EXEC_AT.seconds + 300) * 1_000_000_000;
    let text = list(&[spring(), dead()], now_ns, false);
    check("list.txt", &text);
    check("list-wide.txt", &list(&[spring(), dead()], now_ns, true));
    let outside = list(&[dead()], now_ns, false);
    fits(&outside);
    assert!(!outside.contains("NAMESPACE"), "{outside}");
}

#[test]
fn a_main_is_shown_by_what_tells_services_apart() {
    let table = [
        ("/app/orders-1.4.0.jar", "orders-1.4.0.jar"),
        ("app.jar", "app.jar"),
        ("org.example.Batch", "Batch"),
        ("com.example.app/com.example.Main", "com.example.Main"),
        ("/tmp/Hello.java", "Hello.java"),
        ("Main", "Main"),
    ];
    for (main, expected) in table {
        let jvm = Jvm { main: Some(main.into()), ..Jvm::default() };
        let text = list(&[Timeline { jvm: Some(jvm), ..Timeline::default() }], 0, false);
        assert!(text.contains(&format!(" {expected} ")), "{main}: {text}");
    }
}

#[test]
fn what_the_process_names_itself_cannot_steer_the_terminal() {
    let mut timeline = spring();
    timeline.connections[0].thread = "\u{1b}[31mred".into();
    timeline.jvm.as_mut().unwrap().main = Some("\u{1b}]0;title\u{7}.jar".into());
    let text = describe(&timeline) + &list(&[timeline], 0, true);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
}
