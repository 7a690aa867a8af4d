//! A Spring service's cold start, as an engineer sees it.

use std::collections::HashMap;

use proto::v1::{
    Completeness, Connection, Fact, Jvm, JvmWork, Ledger, Memory, Milestone, MilestoneKind, Phase, PhaseKind,
    Request, RequestClass, Route, Timeline,
};

use super::{Style, describe, describe_with, list, requests};
use messages::{EXEC_AT, MS, dead, spring, tls};

mod done;
mod messages;
mod properties;

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

/// The lines of the section whose title begins so, the title first.
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    text.lines().skip_while(|line| !line.starts_with(title)).take_while(|line| !line.is_empty()).collect()
}

/// The text without its colours; nothing else in it may begin with an escape.
fn uncolored(text: &str) -> String {
    let (plain, colored) = text.split_once('\u{1b}').unwrap_or((text, ""));
    let parts = colored.split('\u{1b}').filter_map(|part| Some(part.split_once('m')?.1));
    std::iter::once(plain).chain(parts).collect()
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

#[test]
fn on_a_terminal_bars_have_eighths_and_causes_their_colours() {
    let unicode = describe_with(&spring(), Style { unicode: true, color: false });
    fits(&unicode);
    check("spring-unicode.txt", &unicode);
    let colored = describe_with(&spring(), Style { unicode: true, color: true });
    assert!(colored.contains("\u{1b}[1mFirst requests:\u{1b}[0m\n"), "{colored}");
    assert!(uncolored(&colored) == unicode, "colour changes nothing else: {colored}");
}

#[test]
fn inbound_connections_stand_where_something_is_not_plain_http() {
    let text = describe(&tls());
    assert!(text.contains("\nInbound connections:\n"), "{text}");
    assert!(text.contains("  tls                40         0  no TLS library that is known\n"), "{text}");
    let mut plain = tls();
    plain.inbound.truncate(1);
    assert!(!describe(&plain).contains("Inbound"));
}

#[test]
fn whoever_came_first_paid_even_where_no_user_came() {
    let text = describe(&spring());
    let table: Vec<_> =
        text.lines().skip_while(|line| !line.starts_with("Who paid")).skip(1).take(4).collect();
    assert_eq!(
        table,
        [
            "  CLASS        REQUESTS  ROUTES  THEIR SUM     WORST  WORST ROUTE",
            "  user              351  2 of 4   352.7 ms  291.5 ms  GET /users/{id}",
            "  probe              12  1 of 4   106.0 ms  106.0 ms  GET /actuator/health/readiness",
            "  self_warmup         1  1 of 4    38.4 ms   38.4 ms  GET /hello",
        ]
    );
}

#[test]
fn nobody_paid_first_where_the_first_was_not_seen() {
    let mut late = spring();
    late.completeness = Some(Completeness { late: Some(true), ..Completeness::default() });
    let text = describe(&late);
    assert!(text.contains("  user              351       -          -      -  -\n"), "{text}");
    assert!(!text.contains("First requests"), "{text}");

    let mut open = spring();
    open.requests.retain(|request| request.ordinal != Some(1));
    let text = describe(&open);
    assert!(text.contains("  user              351  2 of 4  ≥ 61.2 ms   61.2 ms  GET /orders/"), "{text}");
}

#[test]
fn causes_that_do_not_sum_are_said_not_to() {
    let request = Request {
        latency_ns: 100 * MS,
        ledger: Some(Ledger { on_cpu_ns: Some(30 * MS), disk_ns: Some(10 * MS), ..Ledger::default() }),
        ..Request::default()
    };
    let text = describe(&Timeline { requests: vec![request], ..Timeline::default() });
    assert!(text.contains(" 75.0 %\n") && text.contains(" 25.0 %\n"), "{text}");
    assert!(text.contains("    the causes sum to 40.0 ms, not to the latency\n"), "{text}");
    assert!(text.contains("  not measured: run_queue, throttled, pool_connect, socket_wait, "), "{text}");
}

#[test]
fn a_page_of_first_requests_is_enough() {
    let request = |at: u64| Request {
        class: RequestClass::User.into(),
        route: format!("/{at}"),
        ordinal: Some(at),
        route_ordinal: Some(1),
        latency_ns: at * MS,
        ledger: Some(Ledger { on_cpu_ns: Some(at * MS), ..Ledger::default() }),
        ..Request::default()
    };
    // The last is slow, and its later ones are as slow: the cold start is not what it waits for.
    let slow_ever = Route {
        route: "/9".into(),
        count: 2,
        first_ns: Some(9 * MS),
        cold_penalty_ns: Some(0),
        ..Route::default()
    };
    let requests = (1..=9).map(request).collect();
    let text = describe(&Timeline { requests, routes: vec![slow_ever], ..Timeline::default() });
    let titles: Vec<_> =
        text.lines().filter_map(|line| Some(line.strip_prefix("  /")?.split_once(", user")?.0)).collect();
    assert_eq!(titles, ["1", "8", "7", "6", "5", "4"]);
    assert!(text.contains("  and 3 more first requests: see -o json\n"), "{text}");
}

#[test]
fn columns_that_say_nothing_or_find_no_room_are_left_out() {
    let connection = |peer: &str| Connection {
        ordinal: 1,
        peer: peer.into(),
        service: "postgresql".into(),
        thread: "HikariPool-1:co".into(),
        thread_class: "pool".into(),
        connect_ns: Some(450_000),
        ..Connection::default()
    };
    let bare = describe(&Timeline { connections: vec![connection("127.0.0.1:5432")], ..Timeline::default() });
    let heading = "  PEER            SERVICE     THREAD           CLASS   AT  CONNECT  IN REQUEST\n";
    assert!(bare.contains(&format!("Outbound connections:\n{heading}")), "{bare}");

    let mut full = spring();
    full.connections[2].peer = "[2001:db8:85a3::8a2e:370:7334]:5432".into();
    full.connections[2].waited_by_request = Some(12_345);
    let text = describe(&full);
    fits(&text);
    assert!(text.contains("Outbound connections; no room for CLASS, VS READY"), "{text}");
}

#[test]
fn requests_are_listed_in_the_order_in_which_they_came() {
    let narrow = requests(&spring(), false);
    fits(&narrow);
    check("requests.txt", &narrow);
    check("requests-wide.txt", &requests(&spring(), true));
    assert_eq!(requests(&dead(), true), "");
}

#[test]
fn throttling_has_a_column_where_it_was() {
    let phase = |throttled_ns| Phase { kind: PhaseKind::AppStart.into(), throttled_ns, ..Phase::default() };
    let of = |phases| describe(&Timeline { phases, ..Timeline::default() });
    assert!(!of(vec![phase(Some(0)), phase(None)]).contains("THROTTLED"));
    let text = of(vec![phase(Some(1_500_000)), phase(None)]);
    assert!(text.contains("  THROTTLED  "), "{text}");
    assert!(text.lines().any(|line| line.contains("app_start") && line.contains(" 1.5 ")), "{text}");
}

#[test]
fn what_a_jvm_does_not_tell_has_no_column_and_no_section() {
    let phase = |kind: PhaseKind, jvm| Phase { kind: kind.into(), jvm, ..Phase::default() };
    let of = |phases| describe(&Timeline { phases, ..Timeline::default() });
    let silent =
        of(vec![phase(PhaseKind::JvmBoot, None), phase(PhaseKind::AppStart, Some(JvmWork::default()))]);
    assert!(section(&silent, "JVM").is_empty(), "{silent}");

    let some = JvmWork { classes_loaded: Some(1_234), gc_collections: Some(0), ..JvmWork::default() };
    let text = of(vec![phase(PhaseKind::JvmBoot, None), phase(PhaseKind::AppStart, Some(some))]);
    let expected =
        ["JVM by phase:", "  PHASE      CLASSES  GC", "  jvm_boot         -   -", "  app_start    1,234   0"];
    assert_eq!(section(&text, "JVM"), expected, "zero is something that it tells");
}

#[test]
fn what_the_jvm_did_says_by_whom_it_was_counted() {
    let phase = |jvm| Phase { kind: PhaseKind::AppStart.into(), jvm: Some(jvm), ..Phase::default() };
    let work = |classes: &str, compiles: &str, compiles_c1| JvmWork {
        classes_loaded: Some(1),
        compiles: Some(7),
        compiles_c1,
        compiles_c2: compiles_c1.map(|c1| 7 - c1),
        classes_source: classes.into(),
        compiles_source: compiles.into(),
        gc_source: "none".into(),
        ..JvmWork::default()
    };
    let of = |works: Vec<JvmWork>| {
        let phases = works.into_iter().map(phase).collect();
        let text = describe(&Timeline { phases, ..Timeline::default() });
        section(&text, "JVM by phase").iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
    };
    let probed = of(vec![work("usdt", "usdt", Some(5))]);
    assert_eq!(probed[..2], ["JVM by phase (usdt):", "  PHASE      CLASSES  C1  C2"]);
    let sampled = of(vec![work("hsperfdata", "hsperfdata", None)]);
    assert_eq!(sampled[..2], ["JVM by phase (hsperfdata):", "  PHASE      CLASSES  COMPILES"]);
    let early = of(vec![work("hsperfdata", "hsperfdata", None), work("usdt", "usdt", Some(5))]);
    assert_eq!(
        early,
        [
            "JVM by phase (usdt; app_start: hsperfdata):",
            "  PHASE      CLASSES  COMPILES  C1  C2",
            "  app_start        1         7   -   -",
            "  app_start        1         7   5   2",
        ]
    );
    let apart = of(vec![work("usdt", "symbol", Some(5))]);
    assert_eq!(apart[0], "JVM by phase (classes: usdt; compiles: symbol):");
}

#[test]
fn stages_are_called_by_what_they_end_with() {
    let mut timeline = spring();
    let names = |timeline: &Timeline| {
        let text = describe(timeline);
        let line = text.lines().find(|line| line.starts_with("JVM:")).unwrap().to_owned();
        let rows = section(&text, "Classes and compiles").into_iter().skip(2).take(5);
        (line, rows.map(|row| row.trim().split("  ").next().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let (line, rows) = names(&timeline);
    assert_eq!(rows, ["before ready", "ready → first", "first request", "2–10", "11–200"]);
    assert!(line.contains("; before ready 14,866 classes, 6,409 C1 and 715 C2 compiles"), "{line}");

    timeline.milestones.retain(|milestone| milestone.kind() != MilestoneKind::Ready);
    timeline.stages[4].to_ordinal = Some(57);
    let (line, rows) = names(&timeline);
    assert_eq!(rows, ["before port open", "port open → first", "first request", "2–10", "11–57"]);
    assert!(line.contains("; before port open 14,866 classes"), "{line}");
}

#[test]
fn packages_stand_below_the_first_request_only() {
    let mut timeline = spring();
    let overlap = timeline.requests[3].overlap.clone();
    timeline.requests[4].overlap = overlap;
    let text = describe(&timeline);
    assert_eq!(text.matches("  PACKAGE ").count(), 1, "{text}");
    assert!(text.contains("named: 450 of 1,812 classes, 603 of 943 compiles\n"), "{text}");
    assert!(text.contains("    and 2 more packages: see -o json\n"), "{text}");
    timeline.requests[3].overlap.as_mut().unwrap().packages.clear();
    assert!(!describe(&timeline).contains("  PACKAGE "));
}

#[test]
fn counters_beyond_reason_cost_columns_not_the_line() {
    let most = Some(u64::MAX);
    let jvm = JvmWork {
        classes_loaded: most,
        classes_shared: most,
        class_load_ns: most,
        compiles: most,
        compile_ns: most,
        gc_collections: most,
        gc_ns: most,
        safepoints: most,
        safepoint_ns: most,
        threads_started: most,
        compiles_c1: most,
        compiles_c2: most,
        jar_bytes: most,
        classes_source: "x".repeat(300),
        ..JvmWork::default()
    };
    let phases = vec![Phase { kind: PhaseKind::Steady.into(), jvm: Some(jvm), ..Phase::default() }];
    let text = describe(&Timeline { phases, ..Timeline::default() });
    let lines = section(&text, "JVM");
    fits(&lines.join("\n"));
    let left_out =
        "  no room for THREADS, IN THEM, JAR MIB, SAFEPOINTS, SHARED, LOAD, COMPILE, PAUSES: see -o json";
    assert_eq!(lines.last(), Some(&left_out), "{text}");
}

#[test]
fn evidence_makes_room_for_memory_where_somebody_looked() {
    let milestone = |memory| Milestone {
        kind: MilestoneKind::FirstRequest.into(),
        evidence: "e".repeat(80),
        memory,
        ..Milestone::default()
    };
    let of = |milestones| describe(&Timeline { milestones, ..Timeline::default() });
    let rss = Memory { rss_bytes: Some(3 << 19), cgroup_bytes: None };
    let text = of(vec![milestone(None), milestone(Some(rss))]);
    let lines = section(&text, "Milestones");
    assert_eq!(lines[0], "Milestones; memory in MiB:");
    assert_eq!(
        lines[1], "  MILESTONE      SINCE EXEC   GAP  RSS  EVIDENCE",
        "no column for what nobody read"
    );
    assert!(lines[2].contains("    -  eee") && lines[3].contains("  1.5  eee"), "{text}");

    let without = of(vec![milestone(None), milestone(Some(Memory::default()))]);
    assert_eq!(section(&without, "Milestones")[0], "Milestones:");

    let most = Memory { rss_bytes: Some(u64::MAX), cgroup_bytes: Some(u64::MAX) };
    let full = of(vec![milestone(Some(most))]);
    fits(&full);
    assert!(section(&full, "Milestones")[2].ends_with("eee…"), "{full}");
}

#[test]
fn facts_have_an_order_and_what_is_long_goes_on_below_itself() {
    let fact = |name: &str, value: &str| Fact {
        name: name.into(),
        value: value.into(),
        source: "hsperfdata".into(),
    };
    let facts = vec![
        fact("told_by_a_later_agent", "yes"),
        fact("javaagent", "b.jar"),
        fact("vm_args", &"-XX:+UseG1GC ".repeat(8)),
        fact("javaagent", "a.jar"),
        fact("gc", "g1"),
    ];
    let text = describe(&Timeline { facts, ..Timeline::default() });
    let hsperfdata = |start: &str| format!("  {start:<100}  hsperfdata");
    let expected = [
        "Facts:".to_owned(),
        format!("  NAME                   {:<77}  SOURCE", "VALUE"),
        hsperfdata(&format!("vm_args                {}", ["-XX:+UseG1GC"; 6].join(" "))),
        "                         -XX:+UseG1GC -XX:+UseG1GC".to_owned(),
        hsperfdata("gc                     g1"),
        hsperfdata("javaagent              b.jar"),
        hsperfdata("                       a.jar"),
        hsperfdata("told_by_a_later_agent  yes"),
    ];
    assert_eq!(section(&text, "Facts"), expected, "{text}");
}

#[test]
fn a_jvm_is_named_by_what_is_known_of_it() {
    let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into(), ..Fact::default() };
    let line = |facts: Vec<Fact>| {
        let text = describe(&Timeline { facts, ..Timeline::default() });
        text.lines().find_map(|line| Some(line.strip_prefix("JVM:           ")?.to_owned()))
    };
    assert_eq!(line(vec![fact("jvm_kind", "openj9")]), None);
    assert_eq!(line(vec![fact("cds", "none"), fact("gc", "z")]).unwrap(), "z, cds none");
    let changed = vec![fact("gc", "serial"), fact("jvm_version", "17.0.19+10"), fact("gc", "g1")];
    assert_eq!(line(changed).unwrap(), "17.0.19+10, g1", "the latest");
}
