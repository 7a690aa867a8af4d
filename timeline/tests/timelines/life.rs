//! The timeline of a whole life, and what updates and restarts make of it.

use crate::common::*;
use proto::{fold::fold, v1};
use timeline::{Builder, Counts, Settings, Start, What};

#[test]
fn a_service_from_exec_to_its_first_users() {
    let timeline = told(start(), &story());
    assert_eq!(
        milestones(&timeline),
        [
            ("MILESTONE_KIND_PROCESS_EXEC", 0),
            ("MILESTONE_KIND_JVM_CREATED", 35),
            ("MILESTONE_KIND_PORT_LISTEN", 950),
            ("MILESTONE_KIND_FIRST_ACCEPT", 1_000),
            ("MILESTONE_KIND_FIRST_PROBE", 1_010),
            ("MILESTONE_KIND_READY", 2_005),
            ("MILESTONE_KIND_FIRST_REQUEST", 3_001),
            ("MILESTONE_KIND_POOL_CONNECT", 3_100),
        ]
    );
    let users: Vec<_> = requests(&timeline).into_iter().filter(|r| r.0.is_some()).collect();
    assert_eq!(users.len(), 21);
    assert_eq!(users[0], (Some(1), "/users/{id}", Some(200), 20, 200));
    assert_eq!(users[20], (Some(21), "/users/{id}", Some(200), 1, 2));
    assert_eq!(
        timeline.request_counts.unwrap(),
        v1::RequestCounts { user: 21, probe: 2, self_warmup: 0, unparsed: 0 }
    );

    let [route] = timeline.routes.as_slice() else { panic!("{:?}", timeline.routes) };
    assert_eq!((route.method.as_str(), route.route.as_str(), route.count), ("GET", "/users/{id}", 21));
    assert_eq!(route.first_ns, Some(220 * MS));
    assert_eq!((route.p50_2_to_10_ns, route.p50_11_to_200_ns), (Some(3 * MS), Some(3 * MS)));
    assert_eq!(route.cold_penalty_ns, Some(217 * MS));
    assert_eq!(route.first_class(), v1::RequestClass::User);

    let [first, second] = timeline.connections.as_slice() else { panic!("{:?}", timeline.connections) };
    assert_eq!((first.peer.as_str(), first.service.as_str()), ("127.0.0.1:5999", "postgresql"));
    assert_eq!((first.thread_class.as_str(), first.for_request, first.pool), ("worker", Some(1), Some(true)));
    assert_eq!((second.thread_class.as_str(), second.for_request, second.pool), ("pool", None, Some(true)));
    assert_eq!(timeline.completeness.unwrap().complete, Some(true));
}

#[test]
fn phases_follow_each_other_and_hold_all_cpu() {
    let timeline = told(start(), &story());
    let phases: Vec<_> = timeline
        .phases
        .iter()
        .map(|p| (p.kind().as_str_name(), p.since_exec_ns / MS, p.length_ns / MS))
        .collect();
    assert_eq!(
        phases,
        [
            ("PHASE_KIND_JVM_BOOT", 0, 35),
            ("PHASE_KIND_APP_START", 35, 915),
            ("PHASE_KIND_LISTENING", 950, 1_055),
            ("PHASE_KIND_READY_IDLE", 2_005, 996),
            ("PHASE_KIND_FIRST_REQUEST", 3_001, 220),
            ("PHASE_KIND_WARMING", 3_221, 379),
        ]
    );
    let of = |maps: Vec<&std::collections::HashMap<String, u64>>, class: &str| -> u64 {
        maps.iter().filter_map(|cpu_ns| cpu_ns.get(class)).sum()
    };
    for (class, ms) in [("main", 80), ("jit_c2", 50), ("worker", 60)] {
        assert_eq!(
            of(timeline.phases.iter().map(|p| &p.cpu_ns).collect(), class),
            ms * MS,
            "{class} in phases"
        );
        assert_eq!(
            of(timeline.intervals.iter().map(|i| &i.cpu_ns).collect(), class),
            ms * MS,
            "{class} in intervals"
        );
    }
    assert_eq!(timeline.phases.iter().map(|p| p.requests).sum::<u64>(), 23);
    assert_eq!(timeline.intervals.iter().map(|i| i.requests).sum::<u64>(), 23);
}

/// Folds a builder's updates, one a second, as the collector does.
fn streamed(builder: &mut Builder, events: &[timeline::Event], known: &mut v1::Timeline) {
    let mut ticks = 0;
    play(builder, events, |builder, now_ns| {
        ticks += 1;
        if ticks % 10 == 0
            && let Some(update) = builder.update(now_ns, false)
        {
            fold(known, &update);
        }
    });
}

#[test]
fn what_was_streamed_is_what_was_seen() {
    let mut known = v1::Timeline::default();
    let mut streaming = builder(start());
    let mut events = counted_story();
    events.push(at(9_000, 100, What::Exited { status: Some(143 << 8) }));
    streamed(&mut streaming, &events, &mut known);
    let end_ns = events.last().unwrap().at_ns;
    streaming.finish(end_ns);
    fold(&mut known, &streaming.update(end_ns, true).unwrap());
    assert_eq!(streaming.update(end_ns, true), None, "nothing is left to tell");

    let mut whole = told(start(), &events);
    proto::fold::normalise(&mut whole);
    assert_eq!(known, whole);
    assert_eq!(known.stages.len(), 5);
    assert_eq!(known.exit.unwrap().code, Some(143));
    assert_eq!(known.steady.unwrap().verdict(), v1::SteadyVerdict::Exited);
}

#[test]
fn a_restart_of_the_agent_leaves_one_timeline_and_a_gap() {
    let events = story();
    let cut = events.iter().position(|event| event.at_ns >= EXEC_NS + 3_400 * MS).unwrap();
    let mut known = v1::Timeline::default();
    let mut first = builder(start());
    streamed(&mut first, &events[..cut], &mut known);
    let stopped_ns = events[cut - 1].at_ns;
    first.finish(stopped_ns);
    fold(&mut known, &first.update(stopped_ns, true).unwrap());
    let before = known.clone();

    let late = Start { late: true, armed_before_exec: false, exec_ns: EXEC_NS - 5 * MS, ..start() };
    let resumed_ns = EXEC_NS + 3_450 * MS;
    let mut second = Builder::resume(late, Settings::default(), &known, resumed_ns);
    second.counted(Counts { produced: 12, delivered: 12, ..Counts::default() });
    second.apply(&at(3_450, POLLER, What::Adopted { fd: CLIENT_FD }));
    let rest: Vec<_> = events[cut..].iter().filter(|event| event.at_ns > resumed_ns).cloned().collect();
    streamed(&mut second, &rest, &mut known);
    let end_ns = events.last().unwrap().at_ns;
    second.finish(end_ns);
    fold(&mut known, &second.update(end_ns, true).unwrap());

    assert_eq!(milestones(&known), milestones(&before));
    let ordinals: Vec<u64> = known.requests.iter().filter_map(|r| r.ordinal).collect();
    assert_eq!(ordinals, (1..=ordinals.len() as u64).collect::<Vec<_>>());
    assert_eq!(ordinals.len(), 16, "five requests fell into the gap");
    let [route] = known.routes.as_slice() else { panic!("{:?}", known.routes) };
    assert_eq!((route.count, route.first_ns), (16, Some(220 * MS)));
    let completeness = known.completeness.unwrap();
    let [gap] = completeness.gaps.as_slice() else { panic!("{:?}", completeness.gaps) };
    assert!(gap.reason.contains("restarted"), "{gap:?}");
    let begin = gap.since_exec_ns.unwrap();
    assert!(begin <= 3_450 * MS && begin + gap.length_ns.unwrap() == 3_450 * MS, "{gap:?}");
    assert_eq!((completeness.complete, completeness.late), (Some(false), Some(false)));
    let worker: u64 = known.phases.iter().filter_map(|p| p.cpu_ns.get("worker")).sum();
    assert_eq!(worker, 60 * MS, "what the first agent booked is kept");
}

#[test]
fn a_jvm_that_was_running_already_has_no_first() {
    let start = Start { late: true, armed_before_exec: false, ..start() };
    let events = [
        at(90_000, CLIENT_FD as u32, What::Adopted { fd: CLIENT_FD }),
        ready(90_001, CLIENT_FD),
        received(90_002, CLIENT_FD, request("GET", "/x", false)),
        sent(90_004, CLIENT_FD, Some(200)),
        closed(90_005, CLIENT_FD),
    ];
    let timeline = told(start, &events);
    assert_eq!(milestones(&timeline), []);
    assert_eq!(requests(&timeline), [(None, "/x", Some(200), 1, 2)]);
    assert_eq!((timeline.routes[0].first_ns, timeline.routes[0].cold_penalty_ns), (None, None));
    assert_eq!((timeline.routes[0].count, timeline.routes[0].p95_ns.is_some()), (1, true));
    let completeness = timeline.completeness.unwrap();
    assert_eq!((completeness.late, completeness.complete), (Some(true), Some(false)));
}

#[test]
fn a_jvm_that_dies_before_it_listens() {
    let events = [named(31, C2, "C2 CompilerThre"), at(500, 100, What::Exited { status: Some(9) })];
    let timeline = told(start(), &events);
    assert_eq!(
        milestones(&timeline),
        [("MILESTONE_KIND_PROCESS_EXEC", 0), ("MILESTONE_KIND_JVM_CREATED", 31)]
    );
    let exit = timeline.exit.unwrap();
    assert_eq!((exit.signal, exit.code, exit.since_exec_ns), (Some(9), None, 500 * MS));
}

#[test]
fn steady_comes_once_latency_and_compilers_have_settled() {
    let mut builder = builder(start());
    let mut events = vec![named(31, C2, "C2 CompilerThre"), accepted(1_000, CLIENT_FD)];
    for n in 0..150 {
        events.push(ready(2_000 + n * 10, CLIENT_FD));
        events.push(received(2_000 + n * 10, CLIENT_FD, request("GET", "/x", false)));
        events.push(sent(2_005 + n * 10, CLIENT_FD, Some(200)));
    }
    events.push(cpu(3_000, 4_000, C2, 900));
    events.push(closed(20_000, CLIENT_FD));
    play(&mut builder, &events, |_, _| {});
    let steady = builder.snapshot().steady.expect("a verdict");
    assert_eq!((steady.verdict(), steady.p50_ns), (v1::SteadyVerdict::Reached, Some(5 * MS)));
    assert!(steady.since_exec_ns > 9_000 * MS, "not before the compilers were quiet for 5 s: {steady:?}");
    assert!(builder.has_verdict());
}

#[test]
fn after_the_verdict_a_restart_of_the_agent_is_no_gap() {
    let mut known = told(start(), &story());
    known.steady = Some(v1::Steady { verdict: v1::SteadyVerdict::Reached.into(), ..v1::Steady::default() });
    let late = Start { late: true, armed_before_exec: false, ..start() };
    let mut resumed = Builder::resume(late, Settings::default(), &known, EXEC_NS + 60_000 * MS);
    assert!(resumed.has_verdict());
    let completeness = resumed.snapshot().completeness.unwrap();
    assert_eq!((completeness.gaps.len(), completeness.complete), (0, Some(true)));
}
