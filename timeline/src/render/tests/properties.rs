//! Whatever a message says, it is shown, within its columns.

use proptest::prelude::*;
use proto::v1::{
    Completeness, Connection, Fact, Gap, Inbound, JvmWork, Ledger, Memory, Milestone, Overlap, Package,
    PeerWait, Phase, Request, RequestCounts, Route, Stage, Timeline,
};

use super::super::{Style, WIDTH, describe_with, list, requests};
use super::{section, uncolored};
use crate::sample::FACTS;

/// Nothing, plausible, or as large as can be said.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..1_000_000_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn maybe() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(amount())
}

/// Also what steers a terminal, and what is longer than any column.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/{}.:-]{0,30}", "\\PC{0,12}", any::<String>(), Just("\u{1b}[2J".repeat(30))]
}

prop_compose! {
    fn ledger()(
        causes in prop::array::uniform8(maybe()),
        thread_hops in prop::option::of(any::<u32>()),
        peers in prop::collection::vec((text(), text(), amount()), 0..4),
    ) -> Ledger {
        let [on_cpu_ns, run_queue_ns, throttled_ns, pool_connect_ns, socket_wait_ns, ..] = causes;
        let [.., disk_ns, lock_or_park_ns, unexplained_ns] = causes;
        let peers =
            peers.into_iter().map(|(peer, service, wait_ns)| PeerWait { peer, service, wait_ns }).collect();
        Ledger {
            on_cpu_ns, run_queue_ns, throttled_ns, pool_connect_ns, socket_wait_ns, disk_ns, lock_or_park_ns,
            unexplained_ns, thread_hops, peers,
        }
    }
}

prop_compose! {
    fn request()(
        ordinals in (maybe(), maybe()),
        class in 0..5_i32,
        line in (prop::option::of(text()), text(), prop::option::of(any::<u32>())),
        times in prop::array::uniform4(amount()),
        ledgers in (prop::option::of(ledger().boxed()), prop::option::of(ledger().boxed())),
        overlap in prop::option::of((prop::array::uniform7(maybe()), text(), prop::collection::vec(package(), 0..13))),
        thread in text(),
        rest in (maybe(), any::<bool>(), text(), amount()),
    ) -> Request {
        let overlap = overlap.map(|(measured, source, packages)| {
            let [jit_c1_ns, jit_c2_ns, gc_ns, classes_loaded, compiles, compiles_c1, compiles_c2] = measured;
            Overlap {
                jit_c1_ns, jit_c2_ns, gc_ns, classes_loaded, compiles, source, compiles_c1, compiles_c2, packages,
            }
        });
        Request {
            ordinal: ordinals.0,
            route_ordinal: ordinals.1.map(|ordinal| ordinal.min(2)),
            class,
            method: line.0,
            route: line.1,
            status: line.2,
            since_exec_ns: times[0],
            wait_ns: times[1],
            service_ns: times[2],
            latency_ns: times[3],
            thread,
            ledger: ledgers.0,
            overlap,
            connection_ordinal: rest.3,
            wait_ledger: ledgers.1,
            accept_wait_ns: rest.0,
            streaming: rest.1,
            protocol: rest.2,
        }
    }
}

fn route() -> impl Strategy<Value = Route> {
    let measured = prop::array::uniform3(maybe());
    (text(), text(), amount(), measured, 0..5_i32).prop_map(
        |(method, route, count, measured, first_class)| {
            let [first_ns, p50_2_to_10_ns, cold_penalty_ns] = measured;
            Route {
                method,
                route,
                count,
                first_ns,
                p50_2_to_10_ns,
                cold_penalty_ns,
                first_class,
                ..Route::default()
            }
        },
    )
}

fn connection() -> impl Strategy<Value = Connection> {
    let ends = (text(), text(), text(), text(), text());
    let measured = prop::array::uniform7(maybe());
    (ends, measured, any::<bool>(), any::<u32>()).prop_map(|(ends, measured, tls, attempt)| {
        let (peer, service, thread, thread_class, failure) = ends;
        let [at, connect_ns, for_request, first_answer_ns, handshake_ns, waited_by_request, pool] = measured;
        Connection {
            ordinal: at.unwrap_or_default(),
            peer,
            service,
            thread,
            thread_class,
            since_exec_ns: at.unwrap_or_default(),
            connect_ns,
            pool: pool.map(|pool| pool > 0),
            for_request,
            first_answer_ns,
            tls,
            handshake_ns,
            failure,
            attempt,
            waited_by_request,
        }
    })
}

fn inbound() -> impl Strategy<Value = Inbound> {
    (text(), amount(), amount(), text()).prop_map(|(protocol, connections, requests, not_followed)| Inbound {
        protocol,
        connections,
        requests,
        not_followed,
    })
}

fn phase() -> impl Strategy<Value = Phase> {
    let cpu_ns = prop::collection::hash_map(text(), amount(), 0..5);
    (0..9_i32, cpu_ns, maybe(), prop::option::of(work().boxed())).prop_map(
        |(kind, cpu_ns, throttled_ns, jvm)| Phase { kind, cpu_ns, throttled_ns, jvm, ..Phase::default() },
    )
}

fn work() -> impl Strategy<Value = JvmWork> {
    let counters = (prop::array::uniform10(maybe()), prop::array::uniform7(maybe()));
    (counters, prop::array::uniform4(text())).prop_map(|((counters, probed), sources)| {
        let [classes_source, compiles_source, gc_source, safepoints_source] = sources;
        JvmWork {
            classes_loaded: counters[0],
            classes_shared: counters[1],
            class_load_ns: counters[2],
            compiles: counters[3],
            compile_ns: counters[4],
            gc_collections: counters[5],
            gc_ns: counters[6],
            safepoints: counters[7],
            safepoint_ns: counters[8],
            threads_started: counters[9],
            compiles_c1: probed[0],
            compiles_c2: probed[1],
            compiles_failed: probed[2],
            jar_reads: probed[3],
            jar_bytes: probed[4],
            modules_reads: probed[5],
            modules_bytes: probed[6],
            classes_source,
            compiles_source,
            gc_source,
            safepoints_source,
        }
    })
}

fn stage() -> impl Strategy<Value = Stage> {
    (0..7_i32, amount(), amount(), maybe(), prop::option::of(work().boxed())).prop_map(
        |(kind, since_exec_ns, length_ns, to_ordinal, jvm)| Stage {
            kind,
            since_exec_ns,
            length_ns,
            to_ordinal,
            jvm,
        },
    )
}

fn package() -> impl Strategy<Value = Package> {
    (text(), prop::array::uniform3(amount())).prop_map(|(name, [classes, compiles_c1, compiles_c2])| {
        Package { name, classes, compiles_c1, compiles_c2 }
    })
}

fn fact(text: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = Fact> {
    let known = prop::sample::select(FACTS).prop_map(|(name, _)| name.to_owned());
    (prop_oneof![known, text.clone()], text.clone(), text).prop_map(|(name, value, source)| Fact {
        name,
        value,
        source,
    })
}

/// Characters that take one column each, and what is shown escaped.
fn narrow() -> impl Strategy<Value = String> + Clone {
    prop_oneof!["[ -~µ\n\u{1b}]{0,500}", "[a-z0-9:+=. -]{0,60}", "[a-z]{0,12}"]
}

fn milestone(text: impl Strategy<Value = String>) -> impl Strategy<Value = Milestone> {
    let memory = prop::option::of((maybe(), maybe()));
    (0..11_i32, amount(), text, memory).prop_map(|(kind, since_exec_ns, evidence, memory)| Milestone {
        kind,
        since_exec_ns,
        evidence,
        at: None,
        memory: memory.map(|(rss_bytes, cgroup_bytes)| Memory { rss_bytes, cgroup_bytes }),
    })
}

prop_compose! {
    fn timeline()(
        requests in prop::collection::vec(request().boxed(), 0..9),
        routes in prop::collection::vec(route().boxed(), 0..4),
        connections in prop::collection::vec(connection().boxed(), 0..4),
        inbound in prop::collection::vec(inbound(), 0..3),
        phases in prop::collection::vec(phase().boxed(), 0..4),
        stages in prop::collection::vec(stage().boxed(), 0..4),
        milestones in prop::collection::vec(milestone(text()), 0..4),
        facts in prop::collection::vec(fact(text().boxed()), 0..6),
        counts in prop::option::of(prop::array::uniform4(amount())),
        late in prop::option::of(any::<bool>()),
        gap in text(),
    ) -> Timeline {
        Timeline {
            requests,
            routes,
            connections,
            inbound,
            phases,
            stages,
            milestones,
            facts,
            request_counts: counts.map(|[user, probe, self_warmup, unparsed]| {
                RequestCounts { user, probe, self_warmup, unparsed }
            }),
            completeness: Some(Completeness {
                late,
                gaps: vec![Gap { reason: gap, ..Gap::default() }],
                ..Completeness::default()
            }),
            ..Timeline::default()
        }
    }
}

/// Tenths of a percent that a cause's line shows.
fn shown(line: &str) -> Option<u64> {
    let (before, _) = line.split_once(" %")?;
    before.rsplit(' ').next()?.replace('.', "").parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_message_is_shown_and_steers_no_terminal(timeline in timeline(), unicode: bool) {
        let text = describe_with(&timeline, Style { unicode, color: false })
            + &list(std::slice::from_ref(&timeline), i64::MAX, true)
            + &requests(&timeline, true);
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{:?}", text);
        let plain = describe_with(&timeline, Style { unicode, color: false });
        prop_assert_eq!(uncolored(&describe_with(&timeline, Style { unicode, color: true })), plain);
    }

    #[test]
    fn what_is_shown_of_a_ledger_sums_to_the_whole(ledger in ledger(), latency_ns in amount(), unicode: bool) {
        let request =
            Request { route: "/".into(), latency_ns, ledger: Some(ledger.clone()), ..Request::default() };
        let timeline = Timeline { requests: vec![request], ..Timeline::default() };
        let text = describe_with(&timeline, Style { unicode, color: false });
        let lines = section(&text, "First requests");
        let causes: Vec<_> = lines[2..].iter().filter(|line| line.contains(" %")).collect();
        let tenths: u64 = causes.iter().map(|line| shown(line).unwrap_or(0)).sum();
        prop_assert_eq!(tenths, if causes.is_empty() { 0 } else { 1000 }, "{}", text);
        for line in &lines[2..] {
            prop_assert!(line.chars().count() <= WIDTH, "{}", line);
        }
        for line in causes {
            // Four of indent, twelve of name, two between; then the bar's forty.
            let after: String = line.chars().skip(4 + 12 + 2 + 40).take(2).collect();
            prop_assert_eq!(after, "  ", "the bar left its column: {}", line);
        }
    }

    #[test]
    fn what_the_jvm_did_and_shows_stays_in_its_columns(
        milestones in prop::collection::vec(milestone(narrow()), 0..4),
        jvm in prop::collection::vec(prop::option::of(work().boxed()), 0..4),
        stages in prop::collection::vec(stage().boxed(), 0..4),
        facts in prop::collection::vec(fact(narrow()), 0..6),
    ) {
        let phases = jvm.into_iter().map(|jvm| Phase { jvm, ..Phase::default() }).collect();
        let timeline = Timeline { milestones, phases, stages, facts, ..Timeline::default() };
        let text = describe_with(&timeline, Style::default());
        for line in text.lines() {
            prop_assert!(line.chars().count() <= WIDTH, "{}", line);
        }
        prop_assert_eq!(section(&text, "Facts").is_empty(), timeline.facts.is_empty());
    }
}
