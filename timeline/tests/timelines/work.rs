//! What a JVM did, counted as it happened.

use crate::common::*;
use proptest::prelude::*;
use proto::{fold::fold, v1};
use timeline::{Builder, Counted, Event, Settings, Start, What};

/// (kind, begin and length in milliseconds, last ordinal, classes, C1, C2).
type Row = (&'static str, u64, u64, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

fn stages(timeline: &v1::Timeline) -> Vec<Row> {
    let row = |stage: &v1::Stage| {
        let work = stage.jvm.clone().unwrap_or_default();
        (
            stage.kind().as_str_name().strip_prefix("STAGE_KIND_").unwrap(),
            stage.since_exec_ns / MS,
            stage.length_ns / MS,
            stage.to_ordinal,
            work.classes_loaded,
            work.compiles_c1,
            work.compiles_c2,
        )
    };
    timeline.stages.iter().map(row).collect()
}

#[test]
fn stages_tell_what_each_request_brought() {
    let timeline = told(start(), &counted_story());
    let some = |n| Some(n);
    assert_eq!(
        stages(&timeline),
        [
            ("BEFORE_READY", 0, 2_005, None, some(9_850), some(9_400), some(940)),
            ("READY_TO_FIRST", 2_005, 996, None, some(100), some(100), some(10)),
            ("FIRST", 3_001, 220, some(1), some(310), some(310), some(31)),
            ("2_TO_10", 3_221, 162, some(10), some(9), some(9), some(0)),
            ("11_TO_200", 3_383, 110, some(21), some(11), some(11), some(2)),
        ]
    );
    let before = timeline.stages[0].jvm.clone().unwrap();
    assert_eq!((before.compiles, before.compiles_source.as_str()), (Some(20 + 9_400 + 940), "usdt"));
    assert_eq!((before.jar_reads, before.jar_bytes), (Some(9_400), Some(940_000)));
    assert_eq!(before.compile_ns, None, "the JVM does not tell what it took before it was probed");
    assert_eq!(timeline.stages[2].jvm.as_ref().unwrap().compile_ns, Some(310 * 1_500));
}

#[test]
fn without_a_readiness_probe_the_port_counts() {
    let events: Vec<Event> = counted_story()
        .into_iter()
        .filter(|event| !(EXEC_NS + 1_000 * MS..EXEC_NS + 2_500 * MS).contains(&event.at_ns))
        .collect();
    let rows = stages(&told(start(), &events));
    assert_eq!((rows[0].0, rows[0].2, rows[0].4), ("BEFORE_READY", 950, Some(9_450)));
    assert_eq!((rows[1].0, rows[1].2, rows[1].4), ("READY_TO_FIRST", 2_051, Some(500)));

    // Nobody came at all.
    let alone: Vec<Event> = events.into_iter().filter(|e| e.at_ns < EXEC_NS + 2_500 * MS).collect();
    let mut builder = builder(start());
    play(&mut builder, &alone, |_, _| {});
    builder.tick(EXEC_NS + 9_000 * MS);
    assert_eq!(stages(&builder.snapshot()), [], "a probe may still come");
    builder.finish(EXEC_NS + 9_000 * MS);
    assert_eq!(stages(&builder.snapshot()).len(), 1);
}

#[test]
fn a_request_that_never_ends_holds_its_stage_until_the_end() {
    let mut events = counted_story();
    // The third user's answer is never seen.
    let third = EXEC_NS + 3_313 * MS;
    events.retain(|event| !(event.at_ns == third && matches!(event.what, What::Sent { .. })));
    events.retain(|event| {
        !(event.at_ns > third
            && matches!(event.what, What::Sent { .. } | What::Received { .. } | What::Closed { .. }))
    });
    let mut building = builder(start());
    play(&mut building, &events, |_, _| {});
    building.tick(EXEC_NS + 60_000 * MS);
    assert_eq!(building.snapshot().stages.len(), 3);
    building.finish(EXEC_NS + 60_000 * MS);
    let rows = stages(&building.snapshot());
    assert_eq!((rows.len(), rows[3].0, rows[3].3), (4, "2_TO_10", Some(2)));
}

#[test]
fn readiness_that_was_before_the_first_users_data_is_told_again_when_it_was_not() {
    // The user's data is there at 1,900, and nobody reads it before 2,600.
    let user = |ms, what| at(ms, WORKER, what);
    let openings = vec![request("GET", "/x", false)];
    let events = [
        named(35, 112, "Notification Th"),
        at(950, MAIN, What::Listening { address: ([0, 0, 0, 0], 18_117).into() }),
        accepted(1_800, CLIENT_FD),
        accepted(2_000, 30),
        received(2_002, 30, request("GET", "/ready", true)),
        sent(2_005, 30, Some(200)),
        closed(2_006, 30),
        user(
            2_600,
            What::Received {
                fd: CLIENT_FD,
                bytes: 9,
                arrived_ns: Some(EXEC_NS + 1_900 * MS),
                openings,
                continues: false,
                undecided: false,
            },
        ),
        sent(2_610, CLIENT_FD, Some(200)),
        closed(2_620, CLIENT_FD),
    ];
    let mut building = builder(start());
    let mut known = v1::Timeline::default();
    let mut first_told = None;
    play(&mut building, &events, |building, now_ns| {
        fold(&mut known, &building.update(now_ns, false).unwrap_or_default());
        first_told = first_told.or(known.stages.first().map(|stage| stage.length_ns / MS));
    });
    building.finish(EXEC_NS + 3_000 * MS);
    fold(&mut known, &building.update(EXEC_NS + 3_000 * MS, true).unwrap());
    assert_eq!(first_told, Some(2_005));
    let rows: Vec<_> = stages(&known).iter().map(|row| (row.0, row.1, row.2)).collect();
    assert_eq!(rows, [("BEFORE_READY", 0, 950), ("READY_TO_FIRST", 950, 950), ("FIRST", 1_900, 710)]);
}

#[test]
fn a_restart_keeps_the_stages_that_were_told() {
    let events = counted_story();
    let cut = events.iter().position(|event| event.at_ns >= EXEC_NS + 3_400 * MS).unwrap();
    let mut first = builder(start());
    play(&mut first, &events[..cut], |_, _| {});
    first.finish(EXEC_NS + 3_400 * MS);
    let mut known = first.snapshot();
    assert_eq!(known.stages.len(), 5);
    known.stages.pop();
    let before = stages(&known);

    let late = Start { late: true, armed_before_exec: false, ..start() };
    let mut second = Builder::resume(late, Settings::default(), &known, EXEC_NS + 3_420 * MS);
    second.apply(&at(3_420, POLLER, What::Adopted { fd: CLIENT_FD }));
    let rest: Vec<_> = events[cut..].iter().filter(|e| e.at_ns > EXEC_NS + 3_425 * MS).cloned().collect();
    play(&mut second, &rest, |_, _| {});
    second.finish(EXEC_NS + 3_600 * MS);
    let update = second.update(EXEC_NS + 3_600 * MS, true).unwrap();
    assert_eq!(update.stages.len(), 1, "only the one that ended since");
    let after = stages(&second.snapshot());
    assert_eq!(after[..4], before);
    assert_eq!((after[4].0, after[4].1, after[4].4), ("11_TO_200", 3_383, None), "nobody counted its begin");
}

#[test]
fn a_jvm_that_was_running_has_no_stages() {
    let late = Start { late: true, armed_before_exec: false, ..start() };
    assert_eq!(told(late, &counted_story()).stages, []);
}

#[test]
fn phases_say_who_counted() {
    let timeline = told(start(), &counted_story());
    let phases: Vec<_> = timeline
        .phases
        .iter()
        .map(|phase| {
            let work = phase.jvm.clone().unwrap();
            (phase.kind().as_str_name(), work.classes_loaded, work.compiles_c1, work.classes_source)
        })
        .collect();
    let usdt = || "usdt".to_owned();
    assert_eq!(
        phases,
        [
            ("PHASE_KIND_JVM_BOOT", Some(455), Some(5), usdt()),
            ("PHASE_KIND_APP_START", Some(8_995), Some(8_995), usdt()),
            ("PHASE_KIND_LISTENING", Some(400), Some(400), usdt()),
            ("PHASE_KIND_READY_IDLE", Some(100), Some(100), usdt()),
            ("PHASE_KIND_FIRST_REQUEST", Some(310), Some(310), usdt()),
            ("PHASE_KIND_WARMING", Some(20), Some(20), usdt()),
        ]
    );
    let slices = |of: fn(&v1::Interval) -> Option<u64>| timeline.intervals.iter().filter_map(of).sum::<u64>();
    // Slices in which no thread ran and no request ended are left out.
    assert!(slices(|slice| slice.classes_loaded) <= 450 + 9_830);
    let first = timeline.intervals.iter().find(|slice| slice.since_exec_ns == 0).unwrap();
    assert_eq!((first.classes_loaded, first.compiles_c1, first.compiles_c2), (Some(500), Some(50), Some(5)));
}

#[test]
fn the_first_request_names_the_packages_that_it_loaded() {
    let timeline = told(start(), &counted_story());
    let first = timeline.requests.iter().find(|request| request.ordinal == Some(1)).unwrap();
    let overlap = first.overlap.as_ref().unwrap();
    assert_eq!(overlap.source, "usdt");
    let counts = (overlap.classes_loaded, overlap.compiles, overlap.compiles_c1, overlap.compiles_c2);
    assert_eq!(counts, (Some(310), Some(341), Some(310), Some(31)));
    let packages: Vec<_> =
        overlap.packages.iter().map(|p| (p.name.as_str(), p.classes, p.compiles_c1, p.compiles_c2)).collect();
    assert_eq!(packages, [("com.fasterxml.jackson", 2, 0, 0), ("(generated)", 1, 1, 0)]);
}

#[test]
fn the_vm_is_created_with_the_last_of_its_threads() {
    let evidence = |events: &[Event]| {
        let timeline = told(start(), events);
        let created = timeline.milestones.into_iter().find(|m| m.kind() == v1::MilestoneKind::JvmCreated);
        created.map(|milestone| (milestone.since_exec_ns / MS, milestone.evidence))
    };
    let listening = at(950, MAIN, What::Listening { address: ([0, 0, 0, 0], 80).into() });
    let pool = at(700, POOL, What::Connecting { socket: 1, peer: ([127, 0, 0, 1], 5432).into() });
    let connected = at(701, POOL, What::Established { socket: 1, local: ([127, 0, 0, 1], 41_000).into() });
    let last = named(35, 112, "Notification Th");
    let whole = at(34, 112, What::ThreadStarted { name: "Notification Thread".to_owned() });
    let cleaner = named(40, 113, "Common-Cleaner");
    let c2 = |ms| named(ms, C2, "C2 CompilerThre");
    let thread = |ms, name: &str| Some((ms, format!("thread {name:?}")));
    for (events, expect) in [
        (vec![whole, last.clone()], thread(35, "Notification Thread")),
        (vec![last, c2(700), listening.clone()], thread(35, "Notification Th")),
        (vec![c2(31), listening.clone()], thread(31, "C2 CompilerThre")),
        // JFR starts it within the VM's creation.
        (
            vec![c2(31), cleaner.clone(), c2(600), named(900, 112, "Notification Th")],
            thread(900, "Notification Th"),
        ),
        // JDK 11.
        (vec![c2(31), cleaner.clone(), c2(600), listening.clone()], thread(40, "Common-Cleaner")),
        (vec![c2(31), cleaner, named(9_000, 112, "Notification Th")], thread(40, "Common-Cleaner")),
        (
            vec![c2(31), named(699, POOL, "HikariPool-1 ad"), pool, connected, c2(800), listening.clone()],
            thread(31, "C2 CompilerThre"),
        ),
        (vec![c2(31), at(90, 100, What::Exited { status: Some(0) })], thread(31, "C2 CompilerThre")),
        (vec![listening], None),
    ] {
        assert_eq!(evidence(&events), expect);
    }
}

#[test]
fn threads_are_shown_by_their_whole_names() {
    let events = counted_story();
    let timeline = told(start(), &events);
    let thread = |timeline: &v1::Timeline| timeline.requests.last().unwrap().thread.clone();
    assert_eq!(thread(&timeline), "http-nio-18117-exec-1");
    assert_eq!(timeline.connections[0].thread, "http-nio-18117-exec-1");
    assert_eq!(timeline.connections[0].thread_class, "worker");

    let mut renamed = events.clone();
    let at_ns = EXEC_NS + 2_500 * MS;
    let index = renamed.partition_point(|event| event.at_ns < at_ns);
    renamed.insert(index, named(2_500, WORKER, "orders-1"));
    assert_eq!(thread(&told(start(), &renamed)), "orders-1");
}

fn any_told() -> impl Strategy<Value = Event> {
    let counted = (0u64..5_000).prop_map(|n| What::Counted { counted: Box::new(did(n)) });
    let sampled = (0u64..9_000, prop::option::of(0u64..5_000)).prop_map(|(classes, counted)| What::Sampled {
        sample: Box::new(timeline::Sample { classes_loaded: Some(classes), ..timeline::Sample::default() }),
        counted: counted.map(|n| Box::new(did(n))),
    });
    let what = prop_oneof![
        6 => counted,
        2 => sampled,
        1 => Just(What::Probed { probed: PROBED }),
        1 => "[a-z]{1,3}".prop_map(|package| What::ClassLoaded { package }),
        1 => "[a-z -]{1,30}".prop_map(|name| What::ThreadStarted { name }),
        1 => "[a-z -]{1,15}".prop_map(|name| What::ThreadNamed { name }),
        2 => Just(What::Accepted { fd: 1, peer: None, unix: false }),
        3 => Just(What::Received {
            fd: 1, bytes: 1, arrived_ns: None, openings: vec![request("GET", "/x", false)],
            continues: false, undecided: false,
        }),
        3 => Just(What::Sent {
            fd: 1, bytes: 1,
            answers: vec![timeline::wire::Answer::Begins { stream: None, status: Some(200), streaming: false }],
        }),
    ];
    (0u64..5_000, 0u32..4, what).prop_map(|(ms, tid, what)| at(ms, tid, what))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_told_updates_are_the_whole_and_phases_partition_the_work(
        mut events in prop::collection::vec(any_told(), 0..200),
        disorder in prop::collection::vec(0usize..200, 0..20),
        listens: bool,
    ) {
        events.sort_by_key(|event| event.at_ns);
        if listens {
            events.insert(0, at(0, MAIN, What::Listening { address: ([0, 0, 0, 0], 80).into() }));
        }
        for at in disorder {
            if at + 1 < events.len() {
                events.swap(at, at + 1);
            }
        }
        let mut known = v1::Timeline::default();
        let mut streaming = builder(start());
        play(&mut streaming, &events, |building, now_ns| {
            fold(&mut known, &building.update(now_ns, false).unwrap_or_default());
        });
        let end_ns = EXEC_NS + 5_000 * MS;
        streaming.finish(end_ns);
        fold(&mut known, &streaming.update(end_ns, true).unwrap_or_default());
        let mut whole = builder(start());
        play(&mut whole, &events, |_, _| {});
        whole.finish(end_ns);
        let mut whole = whole.snapshot();
        proto::fold::normalise(&mut whole);
        prop_assert_eq!(&known.stages, &whole.stages);
        prop_assert_eq!(&known.phases, &whole.phases);
        prop_assert_eq!(&known.requests, &whole.requests);

        for pair in whole.stages.windows(2) {
            prop_assert_eq!(pair[0].since_exec_ns + pair[0].length_ns, pair[1].since_exec_ns);
        }
        // Since it was probed, its phases follow each other to the last.
        let jar_reads = |work: &Option<v1::JvmWork>| work.as_ref().and_then(|work| work.jar_reads);
        let most = events.iter().filter_map(|event| match &event.what {
            What::Counted { counted } | What::Sampled { counted: Some(counted), .. } => Some(counted.jar_reads),
            _ => None,
        });
        let parts: u64 = whole.phases.iter().filter_map(|phase| jar_reads(&phase.jvm)).sum();
        prop_assert!(parts <= most.max().unwrap_or(0), "{} of {:?}", parts, whole.phases);
        for phase in &whole.phases {
            let work = phase.jvm.clone().unwrap_or_default();
            prop_assert_eq!(work.compiles_c1.is_some(), work.compiles_source == "usdt");
            if let (Some(c1), Some(c2)) = (work.compiles_c1, work.compiles_c2) {
                prop_assert!(work.compiles.is_some_and(|compiles| compiles >= c1 + c2));
            }
        }
    }
}

#[test]
fn counters_of_nothing_tell_nothing() {
    let timeline = told(start(), &[counted(50, Counted::default()), named(60, 112, "Notification Th")]);
    let boot = timeline.phases[0].jvm.clone().unwrap();
    assert_eq!((boot.jar_reads, boot.classes_loaded, boot.classes_source.as_str()), (Some(0), None, "none"));
}
