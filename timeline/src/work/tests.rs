use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn sample(classes: u64) -> Sample {
    Sample { classes_loaded: Some(classes), gc_ns: Some(classes * 10), ..Sample::default() }
}

fn classes(work: &Work, from_ms: u64, to_ms: u64) -> Option<u64> {
    work.between(from_ms * MS, to_ms * MS)?.classes_loaded
}

fn sampled(work: &mut Work, at_ms: u64, classes: u64) {
    work.sampled(at_ms * MS, &sample(classes), None);
}

/// Everything is counted but collections.
const PROBED: Probed = Probed {
    classes: Source::Usdt,
    compiles: Source::Symbol,
    gc: Source::None,
    safepoints: Source::Usdt,
    threads: Source::Usdt,
};

fn done(classes: u64, compiles_c1: u64, compiles_c2: u64) -> Counted {
    Counted { classes, compiles_c1, compiles_c2, compile_c1_ns: compiles_c1 * 100, ..Counted::default() }
}

#[test]
fn what_falls_between_two_samples_is_shared_out() {
    let mut work = Work::new(&Start::default());
    assert_eq!(classes(&work, 0, 10), None, "no sample, no number");
    for (at_ms, classes) in [(40, 400), (50, 450), (60, 450), (70, 450), (80, 460)] {
        sampled(&mut work, at_ms, classes);
    }
    assert_eq!(classes(&work, 0, 40), Some(400));
    assert_eq!(classes(&work, 40, 45), Some(25));
    assert_eq!(classes(&work, 50, 70), Some(0));
    assert_eq!(classes(&work, 0, 1_000), Some(460));
    let whole = work.between(0, 80 * MS).unwrap();
    assert_eq!((whole.compiles, whole.compiles_c1, whole.jar_reads), (None, None, None), "nobody tells them");
    assert_eq!((whole.classes_source.as_str(), whole.compiles_source.as_str()), ("hsperfdata", "none"));
}

#[test]
fn a_counter_that_appears_late_counted_nothing_before() {
    let mut work = Work::new(&Start::default());
    work.sampled(40 * MS, &Sample { classes_loaded: Some(400), ..Sample::default() }, None);
    sampled(&mut work, 50, 450);
    assert_eq!(work.between(0, 50 * MS).unwrap().gc_ns, Some(4_500));
    assert_eq!(work.between(40 * MS, 50 * MS).unwrap().gc_ns, Some(4_500));
}

#[test]
fn a_counter_that_appears_after_an_instant_was_fixed_is_told_of_it() {
    let mut work = Work::new(&Start::default());
    let phase = |start_ms, end_ms: u64| PhaseSpan {
        kind: v1::PhaseKind::AppStart,
        start_ns: start_ms * MS,
        end_ns: Some(end_ms * MS),
    };
    let early = Sample { classes_loaded: Some(400), ..Sample::default() };
    work.sampled(40 * MS, &early, None);
    work.settle(Some(1_000 * MS), &[phase(0, 30)]);
    sampled(&mut work, 1_400, 700);
    assert_eq!(work.between(0, 1_400 * MS).unwrap().gc_ns, Some(7_000));
    assert_eq!(work.between(30 * MS, 1_400 * MS).unwrap().gc_ns, Some(7_000));
}

#[test]
fn of_a_jvm_that_was_running_nothing_is_known_before_the_first_sample() {
    let mut work = Work::new(&Start { late: true, ..Start::default() });
    sampled(&mut work, 50, 9_000);
    sampled(&mut work, 60, 9_007);
    assert_eq!(classes(&work, 0, 60), None);
    assert_eq!(classes(&work, 50, 60), Some(7));
}

/// Sampled at 30 (400 classes), probed at 40, sampled together with the probes' 50 at 60, and counted since.
fn probed() -> Work {
    let mut work = Work::new(&Start::default());
    sampled(&mut work, 30, 400);
    work.probed(40 * MS, PROBED);
    work.counted(50 * MS, &done(20, 3, 0));
    let both = Sample { compiles: Some(14), compile_ns: Some(5_000), ..sample(500) };
    work.counted(60 * MS, &done(50, 8, 0));
    work.sampled(60 * MS, &both, Some(&done(50, 8, 0)));
    work.counted(100 * MS, &done(700, 60, 5));
    work.counted(101 * MS, &Counted { compiles_failed: 1, jar_reads: 9, jar_bytes: 512, ..done(701, 60, 5) });
    work
}

#[test]
fn what_is_counted_is_a_step_and_its_base_is_what_was_before() {
    let work = probed();
    for (from_ms, to_ms, expect, source) in [
        (40, 49, 0, "usdt"),
        (40, 50, 20, "usdt"),
        (50, 99, 30, "usdt"),
        (60, 100, 650, "usdt"),
        (100, 101, 1, "usdt"),
        // The base is 450; hsperfdata had 400 at 30, and comes to 433 at 40.
        (0, 40, 450, "usdt"),
        (0, 101, 1_151, "usdt"),
        (0, 30, 400, "hsperfdata"),
        (30, 101, 751, "usdt"),
    ] {
        let work = work.between(from_ms * MS, to_ms * MS).unwrap();
        let told = (work.classes_loaded, work.classes_source.as_str());
        assert_eq!(told, (Some(expect), source), "{from_ms} to {to_ms}");
    }
}

#[test]
fn compilers_are_told_apart_where_probes_tell_all() {
    let work = probed();
    let from_exec = work.between(0, 101 * MS).unwrap();
    assert_eq!((from_exec.compiles, from_exec.compiles_source.as_str()), (Some(6 + 65), "symbol"));
    let of_compilers = (from_exec.compiles_c1, from_exec.compiles_c2, from_exec.compiles_failed);
    assert_eq!(of_compilers, (Some(60), Some(5), Some(1)), "what came before is in the sum only");
    assert_eq!(from_exec.compile_ns, Some(5_000 - 800 + 6_000));
    let across = work.between(30 * MS, 101 * MS).unwrap();
    assert_eq!((across.compiles_c1, across.compiles_source.as_str()), (Some(60), "symbol"));
    let before = work.between(0, 39 * MS).unwrap();
    assert_eq!((before.compiles_c1, before.compiles_source.as_str()), (None, "hsperfdata"));
    assert_eq!(before.jar_reads, None, "nobody counted them then");
    assert_eq!((from_exec.jar_reads, from_exec.jar_bytes), (Some(9), Some(512)));
    assert_eq!((from_exec.gc_source.as_str(), from_exec.gc_ns), ("hsperfdata", Some(5_000)));
}

#[test]
fn what_probes_counted_before_all_of_them_were_there_is_no_jump() {
    let mut work = Work::new(&Start::default());
    work.probed(40 * MS, PROBED);
    sampled(&mut work, 20, 400);
    work.counted(30 * MS, &done(20, 0, 0));
    work.counted(39 * MS, &done(50, 0, 0));
    work.sampled(60 * MS, &sample(520), Some(&done(100, 0, 0)));
    assert_eq!(classes(&work, 0, 35), Some(440), "no more than were before, and are counted by then");
    assert_eq!(classes(&work, 0, 40), Some(470));
    assert_eq!(classes(&work, 35, 40), Some(30));
}

#[test]
fn without_hsperfdata_only_what_follows_is_known() {
    let mut work = Work::new(&Start::default());
    work.probed(40 * MS, PROBED);
    work.counted(50 * MS, &done(20, 3, 0));
    let since = work.between(40 * MS, 60 * MS).unwrap();
    assert_eq!((since.classes_loaded, since.compiles, since.gc_collections), (Some(20), Some(3), None));
    assert_eq!((since.classes_source.as_str(), since.gc_source.as_str()), ("usdt", "none"));
    let whole = work.between(0, 60 * MS).unwrap();
    assert_eq!((whole.classes_loaded, whole.classes_source.as_str()), (None, "none"));
    assert_eq!(whole.jar_reads, Some(0));
    assert_eq!(work.between(0, 30 * MS), None);
}

#[test]
fn reads_of_jars_need_no_probe() {
    let mut work = Work::new(&Start::default());
    sampled(&mut work, 30, 400);
    work.counted(50 * MS, &Counted { modules_reads: 3, modules_bytes: 99, ..Counted::default() });
    let work = work.between(0, 60 * MS).unwrap();
    assert_eq!((work.modules_reads, work.modules_bytes, work.jar_reads), (Some(3), Some(99), Some(0)));
    assert_eq!((work.classes_loaded, work.classes_source.as_str()), (Some(400), "hsperfdata"));
}

#[test]
fn two_cpus_tell_out_of_order_and_nothing_falls() {
    let mut work = Work::new(&Start::default());
    work.probed(0, PROBED);
    for (at_ms, classes) in [(10, 5), (13, 9), (12, 8), (11, 8), (14, 7), (12, 8)] {
        work.counted(at_ms * MS, &done(classes, 0, 0));
    }
    let by = |at_ms| classes(&work, 0, at_ms).unwrap();
    assert_eq!([10, 11, 12, 13, 14].map(by), [5, 8, 8, 9, 9]);
}

#[test]
fn the_latest_base_counts() {
    let mut work = probed();
    // A class that a thread had counted here and not yet there.
    work.sampled(110 * MS, &sample(1_152), Some(&done(701, 60, 5)));
    assert_eq!(classes(&work, 0, 101), Some(451 + 701));
    assert_eq!(classes(&work, 40, 101), Some(701));
}

#[test]
fn phases_stay_whole_however_much_is_told() {
    let phase = |kind, start_ms: u64, end_ms: u64| PhaseSpan {
        kind,
        start_ns: start_ms * MS,
        end_ns: Some(end_ms * MS),
    };
    let (boot, start) = (v1::PhaseKind::JvmBoot, v1::PhaseKind::AppStart);
    let phases = [phase(boot, 0, 105), phase(start, 105, 20_000)];
    let mut work = probed();
    for told in 0..80_000 {
        let at_ns = 105 * MS + (told + 1) * MS / 4;
        work.counted(at_ns, &done(702 + told, 60, 5));
        if told % 400 == 0 {
            work.settle(Some(at_ns), &phases);
        }
    }
    work.settle(None, &phases);
    let of = |kind: v1::PhaseKind| work.of_phase(kind.into()).unwrap().classes_loaded.unwrap();
    assert_eq!((of(boot), of(start)), (1_151, classes(&work, 0, 20_000).unwrap() - 1_151));
    // Slices of 100 ms are as exact as when they were told.
    let slices = (2..200).map(|slice| classes(&work, slice * 100, (slice + 1) * 100).unwrap());
    assert!(slices.skip(1).all(|classes| classes == 400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_make_the_whole_however_long_it_goes_on(
        steps in prop::collection::vec((1u64..30, 0u64..50, 0u8..4), 1..6_000),
        cuts in (0u64..200_000, 0u64..200_000),
        probed_at in prop::option::of(0usize..100),
    ) {
        let mut work = Work::new(&Start::default());
        let (mut at_ms, mut total) = (0, 0);
        let mut base = None;
        for (index, (length_ms, loaded, told)) in steps.into_iter().enumerate() {
            at_ms += length_ms;
            total += loaded;
            if probed_at == Some(index) {
                work.probed(at_ms * MS, PROBED);
                base = Some(total);
            }
            let counted = base.map(|base| done(total - base, total - base, 0));
            match (told, counted) {
                (0, Some(counted)) => work.counted(at_ms * MS, &counted),
                (1, Some(counted)) => {
                    work.counted(at_ms * MS, &counted);
                    work.sampled(at_ms * MS, &sample(total), Some(&counted));
                }
                _ => sampled(&mut work, at_ms, total),
            }
        }
        let counted = base.map(|base| done(total - base, total - base, 0));
        if let Some(counted) = &counted {
            work.counted(at_ms * MS, counted);
        }
        work.sampled(at_ms * MS, &sample(total), counted.as_ref());
        let (a, b) = (cuts.0 % at_ms, cuts.1 % at_ms);
        let (a, b) = (a.min(b), a.max(b));
        let parts = [(0, a), (a, b), (b, at_ms)].map(|(from, to)| classes(&work, from, to).unwrap());
        prop_assert_eq!(parts.iter().sum::<u64>(), total);
    }

    #[test]
    fn whatever_is_told_nothing_falls_and_memory_is_bounded(
        told in prop::collection::vec((0u64..100_000, 0u64..1_000, 0u64..1_000), 1..10_000),
    ) {
        let mut steps = steps::Steps::default();
        for (at_ns, classes, compiles) in told {
            steps.counted(at_ns, done(classes, compiles, 0));
        }
        let mut before = Counted::default();
        for at_ns in (0..100_000).step_by(1_000) {
            let now = steps.at(at_ns);
            prop_assert_eq!(now, now.max(before));
            before = now;
        }
        prop_assert!(steps.len() <= 4_096);
    }
}

#[test]
fn collections_that_probes_do_not_tell_are_the_jvms_own_count() {
    let probed = Probed { gc: Source::Usdt, ..PROBED };
    let told = |collections: u64, gc_ns| Sample {
        gc_collections: Some(collections),
        gc_ns: Some(gc_ns),
        ..Sample::default()
    };
    let counted = |collections, gc_ns| Counted { collections, gc_ns, ..Counted::default() };
    let mut work = Work::new(&Start::default());
    work.probed(40 * MS, probed);
    let take = |work: &mut Work, at_ms: u64, own: u64, seen: u64| {
        work.counted(at_ms * MS, &counted(seen, seen * 900));
        work.sampled((at_ms + 1) * MS, &told(own, own * 1_000), Some(&counted(seen, seen * 900)));
    };
    // One is read at the end of a collection, which the JVM has counted already.
    for (at_ms, own, seen) in [(50, 0, 0), (60, 1, 0), (70, 1, 1), (80, 2, 2)] {
        take(&mut work, at_ms, own, seen);
    }
    let done = work.between(0, 90 * MS).unwrap();
    assert_eq!((done.gc_collections, done.gc_ns, done.gc_source.as_str()), (Some(2), Some(1_800), "usdt"));
    // A full collection within a young one; an operation that had nothing to collect.
    for rest in [[(100, 4, 3), (110, 5, 4), (120, 6, 5)], [(100, 4, 5), (110, 5, 6), (120, 6, 7)]] {
        let mut work = Work::new(&Start::default());
        work.probed(40 * MS, probed);
        for (at_ms, own, seen) in [(50, 0, 0), (80, 2, 2)].into_iter().chain(rest) {
            take(&mut work, at_ms, own, seen);
        }
        let done = work.between(0, 130 * MS).unwrap();
        assert_eq!(
            (done.gc_collections, done.gc_ns, done.gc_source.as_str()),
            (Some(6), Some(6_000), "hsperfdata")
        );
    }
}
