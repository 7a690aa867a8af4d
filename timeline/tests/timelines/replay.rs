//! Recordings of real JVMs, made with `jcold-agent trace --record`.

use std::{fs::File, io::BufReader, path::Path};

use crate::common::{MS, milestones};
use proto::v1;
use timeline::recording::{RecordingError, replay};

fn replayed(file: &str) -> v1::Timeline {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(file);
    replay(BufReader::new(File::open(path).unwrap())).unwrap()
}

/// (milestones in milliseconds, routes with their count and the first in milliseconds, outbound services).
type Expect<'a> = (&'a [(&'a str, u64)], &'a [(&'a str, u64, u64)], &'a [&'a str]);

fn check(file: &str, expect: Expect<'_>) {
    let timeline = replayed(file);
    assert_eq!(milestones(&timeline), expect.0, "{file}");
    let routes: Vec<_> =
        timeline.routes.iter().map(|r| (r.route.as_str(), r.count, r.first_ns.unwrap() / MS)).collect();
    assert_eq!(routes, expect.1, "{file}");
    let services: Vec<_> = timeline.connections.iter().map(|c| c.service.as_str()).collect();
    assert_eq!(services, expect.2, "{file}");
}

#[test]
fn a_jvm_that_prints_its_version() {
    check(
        "version-jdk17.jsonl",
        (&[("MILESTONE_KIND_PROCESS_EXEC", 0), ("MILESTONE_KIND_JVM_CREATED", 53)], &[], &[]),
    );
}

#[test]
fn a_spring_service_whose_first_user_pays_for_the_pool() {
    let milestones = [
        ("MILESTONE_KIND_PROCESS_EXEC", 0),
        ("MILESTONE_KIND_JVM_CREATED", 80),
        ("MILESTONE_KIND_PORT_LISTEN", 15_371),
        ("MILESTONE_KIND_FIRST_ACCEPT", 15_509),
        ("MILESTONE_KIND_FIRST_PROBE", 16_081),
        ("MILESTONE_KIND_READY", 16_081),
        ("MILESTONE_KIND_FIRST_REQUEST", 17_069),
        ("MILESTONE_KIND_POOL_CONNECT", 17_215),
    ];
    let routes = [("/users/{id}", 12, 384), ("/hello", 3, 12)];
    let mut services = ["postgresql"; 11];
    // A stopping Tomcat wakes its acceptor by a connection to itself.
    services[10] = "unknown";
    check("spring-jdk25.jsonl", (&milestones, &routes, &services));
    let timeline = replayed("spring-jdk25.jsonl");
    assert_eq!(timeline.connections[0].for_request, Some(1));
    let first = timeline.requests.iter().find(|request| request.ordinal == Some(1)).unwrap();
    let ledger = first.ledger.as_ref().unwrap();
    let spent = [
        ledger.on_cpu_ns,
        ledger.run_queue_ns,
        ledger.throttled_ns,
        ledger.pool_connect_ns,
        ledger.socket_wait_ns,
        ledger.disk_ns,
        ledger.lock_or_park_ns,
        ledger.unexplained_ns,
    ]
    .map(|ns| ns.unwrap() / MS);
    assert_eq!(
        spent,
        [172, 168, 0, 18, 3, 0, 22, 0],
        "two busy compilers beside it: it waits for a core for long"
    );
    assert_eq!((ledger.peers[0].service.as_str(), ledger.peers.len()), ("postgresql", 1));
    assert_eq!(first.wait_ledger.as_ref().unwrap().on_cpu_ns.unwrap() / MS, 1);
    // Tomcat's threads have one name on a port of five digits; what they do tells them apart.
    let classes = |class: &str| timeline.phases.iter().any(|phase| phase.cpu_ns.contains_key(class));
    assert!(
        ["worker", "acceptor", "poller", "jit_c1", "jit_c2", "gc"].into_iter().all(classes),
        "{timeline:?}"
    );
}

/// (length in milliseconds, last ordinal, classes, C1, C2) of its stages. The recording has no accounts of threads, and of
/// what was counted far from its milestones only every fortieth record.
#[test]
fn a_spring_service_whose_probe_pays_the_common_path() {
    let timeline = replayed("spring-jdk25-usdt.jsonl");
    let stages: Vec<_> = timeline
        .stages
        .iter()
        .map(|stage| {
            let work = stage.jvm.as_ref().unwrap();
            assert_eq!(
                [&work.classes_source, &work.compiles_source, &work.gc_source, &work.safepoints_source],
                ["usdt"; 4]
            );
            let counts = [work.classes_loaded, work.compiles_c1, work.compiles_c2].map(Option::unwrap);
            (stage.length_ns / MS, stage.to_ordinal, counts)
        })
        .collect();
    assert_eq!(
        stages,
        [
            (13_926, None, [9_725, 4_806, 670]),
            (1_109, None, [1, 0, 2]),
            (88, Some(1), [8, 17, 4]),
            (72, Some(10), [2, 53, 4]),
            (240, Some(60), [0, 225, 25]),
        ]
    );
    let first = timeline.requests.iter().find(|request| request.ordinal == Some(1)).unwrap();
    assert_eq!(first.thread, "http-nio-127.0.0.1-18117-exec-3");
    let packages = &first.overlap.as_ref().unwrap().packages;
    let named = |of: fn(&v1::Package) -> u64| packages.iter().map(of).sum::<u64>();
    assert_eq!((named(|package| package.classes), packages[0].name.as_str()), (8, "(generated)"));
    assert_eq!((named(|package| package.compiles_c1), named(|package| package.compiles_c2)), (17, 4));
    // The VM is created before it is probed: the JVM's own counters tell of its boot.
    let boot = timeline.phases[0].jvm.as_ref().unwrap();
    assert_eq!((boot.classes_source.as_str(), boot.compiles_c1), ("hsperfdata", None));
    let whole: u64 = timeline.phases.iter().filter_map(|phase| phase.jvm.as_ref()?.classes_loaded).sum();
    assert_eq!(whole, 9_725 + 1 + 8 + 2);
}

#[test]
fn a_damaged_recording_names_its_line() {
    let error = replay(&b"{}\n{\"at_ns\":1,\"tid\":1,\"event\":\"sneezed\"}\n"[..]).unwrap_err();
    assert!(
        matches!(error, RecordingError::Line { line: 2, .. }) && error.to_string().contains("sneezed"),
        "{error}"
    );
    assert!(matches!(replay(&b""[..]), Err(RecordingError::Empty)));
}
