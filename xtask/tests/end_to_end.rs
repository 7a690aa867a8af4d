//! The whole way, for real: a JVM on this kernel, under the agent, into the collector and out again. Needs root, BTF and
//! what `cargo xtask build` builds; without them these tests fail.

use std::time::Duration;

use anyhow::{Context, Result};
use xtask::demo::{self, CALLS, PATH};
use xtask::service::{Options, Service, call};
use xtask::testbed::Testbed;
use xtask::timeline::{LEDGER, Request, Timeline, list, number};
use xtask::truth::Row;
use xtask::{http, jdk, repo, wait};

fn testbed(name: &str) -> Result<Testbed> {
    Testbed::start(&format!("end-to-end/{name}"))
}

/// A service that is ready, and how many of its answers to the readiness probe that took.
fn service_with(testbed: &mut Testbed, properties: &[&str]) -> Result<(Service, u32)> {
    let properties = properties.iter().map(|&property| property.to_owned()).collect();
    let mut service = testbed.start_service(&Options { jdk: jdk::choose()?, jvm: vec![], properties })?;
    let probes = service.await_ready()?;
    Ok((service, probes))
}

fn service(testbed: &mut Testbed) -> Result<Service> {
    Ok(service_with(testbed, &[])?.0)
}

fn call_times(connection: &mut http::Connection, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| call(connection, PATH).map(drop))
}

/// The timeline once all calls are in it.
fn whole(testbed: &Testbed, service: &Service) -> Result<Timeline> {
    testbed.collector().await_timeline(service.pid(), "all user requests", |timeline| {
        timeline.user_requests().len() >= CALLS
    })
}

#[test]
fn a_cold_start_is_seen_whole_and_agrees_with_the_servlet_filter() -> Result<()> {
    let mut testbed = testbed("agreement")?;
    let mut service = service(&mut testbed)?;
    let calls = service.call(PATH, CALLS)?;
    let timeline = whole(&testbed, &service)?;
    service.stop()?;
    let truth = service.truth(PATH, CALLS)?;

    assert_eq!(demo::faults(&timeline), Vec::<String>::new());
    let requests = timeline.user_requests();
    assert_eq!((requests.len(), truth.len()), (CALLS, CALLS));
    for (request, row) in requests.iter().zip(&truth) {
        assert_eq!(request.latency_ns, request.wait_ns + request.service_ns, "{request:?}");
        assert!(
            request.latency_ns >= row.duration_ns,
            "jcold saw less than the filter: {request:?}, {row:?}"
        );
    }
    assert_nested(&requests, &truth);
    assert_explained(&timeline);
    assert_told_by_the_jvm(&timeline);
    assert_alerts_have_series(&testbed)?;
    let by_jcold: u64 = requests.iter().map(|request| request.latency_ns).sum();
    let by_client: u128 = calls.iter().map(|call| call.elapsed.as_nanos()).sum();
    assert!(u128::from(by_jcold) <= by_client, "jcold {by_jcold} ns, client {by_client} ns");

    let in_order = ["PROCESS_EXEC", "JVM_CREATED", "PORT_LISTEN", "READY", "FIRST_REQUEST", "POOL_CONNECT"];
    let instants: Vec<u64> = in_order.iter().filter_map(|kind| timeline.at(kind)).collect();
    assert_eq!(instants.len(), in_order.len());
    assert!(instants.is_sorted(), "a lazy pool is created by the first request: {:?}", timeline.milestones());
    Ok(())
}

/// Where the time of every kept request went is known, and of the first all but a twentieth.
fn assert_explained(timeline: &Timeline) {
    for request in list(&timeline.value["requests"]) {
        for (ledger, whole) in [("ledger", "latencyNs"), ("waitLedger", "waitNs")] {
            let sum: u64 = LEDGER.iter().filter_map(|cause| number(&request[ledger][cause])).sum();
            assert_eq!(sum, number(&request[whole]).unwrap_or(0), "{ledger} of {request}");
        }
        let is_first = number(&request["ordinal"]) == Some(1);
        if is_first {
            let of = |cause: &str| number(&request["ledger"][cause]).unwrap_or(0);
            assert!(of("unexplainedNs") * 20 <= number(&request["latencyNs"]).unwrap(), "{request}");
            assert!(of("onCpuNs") > 0 && of("poolConnectNs") > 0, "it creates the pool: {request}");
            let peers: Vec<_> = list(&request["ledger"]["peers"]).map(|peer| &peer["service"]).collect();
            // A kernel that does not tell every switch may have kept the one wait to itself.
            let has_waited = of("socketWaitNs") > 0;
            assert!(!has_waited || peers.contains(&&serde_json::json!("postgresql")), "{request}");
            assert!(number(&request["overlap"]["jitC1Ns"]) > Some(0), "{request}");
        }
    }
}

/// What the JVM did is there: most classes are loaded before it is ready, and the first request, which creates the pool,
/// loads the pool's and the driver's.
fn assert_told_by_the_jvm(timeline: &Timeline) {
    let classes = |kind: &str| {
        let phase =
            list(&timeline.value["phases"]).find(|phase| phase["kind"] == format!("PHASE_KIND_{kind}"));
        phase.and_then(|phase| number(&phase["jvm"]["classesLoaded"])).unwrap_or(0)
    };
    assert!(classes("APP_START") > 5_000, "{}", timeline.value["phases"]);
    assert!(classes("FIRST_REQUEST") > 0, "{}", timeline.value["phases"]);
    let jar_bytes =
        list(&timeline.value["phases"]).filter_map(|phase| number(&phase["jvm"]["jarBytes"])).sum::<u64>();
    assert!(jar_bytes > 5 << 20, "its classes come out of its jar: {}", timeline.value["phases"]);
    let stages: Vec<(&str, Option<u64>)> = list(&timeline.value["stages"])
        .filter_map(|stage| Some((stage["kind"].as_str()?, number(&stage["jvm"]["classesLoaded"]))))
        .collect();
    let kinds: Vec<&str> = stages.iter().map(|(kind, _)| *kind).collect();
    let all = ["BEFORE_READY", "READY_TO_FIRST", "FIRST", "2_TO_10", "11_TO_200"];
    assert_eq!(kinds, all.map(|kind| format!("STAGE_KIND_{kind}")), "{stages:?}");
    assert!(stages[0].1 > Some(8_000) && stages[2].1 > stages[3].1, "{stages:?}");
    let first =
        list(&timeline.value["requests"]).find(|request| number(&request["ordinal"]) == Some(1)).unwrap();
    let overlap = &first["overlap"];
    assert_eq!(overlap["source"], "usdt", "{overlap}");
    assert_eq!(number(&overlap["classesLoaded"]), stages[2].1, "{overlap}");
    let packages: Vec<&str> =
        list(&overlap["packages"]).filter_map(|package| package["name"].as_str()).collect();
    for package in ["com.zaxxer.hikari", "org.postgresql"] {
        assert!(packages.iter().any(|name| name.starts_with(package)), "{package}: {packages:?}");
    }
    let ready = list(&timeline.value["milestones"]).find(|m| m["kind"] == "MILESTONE_KIND_READY").unwrap();
    assert!(number(&ready["memory"]["rssBytes"]) > Some(50 << 20), "{ready}");
    let fact = |name: &str| list(&timeline.value["facts"]).find(|fact| fact["name"] == name);
    for name in ["jvm_version", "gc", "heap_max_bytes", "cds"] {
        assert!(fact(name).is_some(), "no {name} in {}", timeline.value["facts"]);
    }
}

/// Every metric that an alert asks for is one that the collector has.
fn assert_alerts_have_series(testbed: &Testbed) -> Result<()> {
    let rules = std::fs::read_to_string(repo::root().join("deploy/prometheus/rules.yaml"))?;
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = expressions.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let names: Vec<&str> = words.filter(|word| word.starts_with("jcold_")).collect();
    assert!(names.len() >= 4, "{names:?}");
    let bound = Duration::from_secs(20);
    wait::until("series of all alerts", Duration::from_millis(200), bound, || {
        let text = testbed.collector_metrics()?;
        let missing =
            names.iter().find(|name| !text.lines().any(|line| line.starts_with(&format!("{name}{{"))));
        Ok(missing.is_none().then_some(()))
    })
    .with_context(|| format!("{names:?}"))
}

/// There must be one clock offset for which every span of the filter lies within jcold's span of the same request.
fn assert_nested(requests: &[Request], truth: &[Row]) {
    let signed = |value: u64| i64::try_from(value).unwrap();
    let offsets = requests.iter().zip(truth).map(|(request, row)| {
        let latest = signed(row.start_monotonic_ns) - signed(request.since_exec_ns);
        (latest - (signed(request.latency_ns) - signed(row.duration_ns)), latest)
    });
    let (earliest, latest) =
        offsets.fold((i64::MIN, i64::MAX), |all, one| (all.0.max(one.0), all.1.min(one.1)));
    assert!(earliest <= latest, "the filter's spans stick out of jcold's by {} ns", earliest - latest);
}

#[test]
fn two_restarts_of_the_agent_leave_one_timeline_with_its_gaps() -> Result<()> {
    let mut testbed = testbed("agent-restarts")?;
    let mut service = service(&mut testbed)?;
    let mut connection = service.connect()?;
    call_times(&mut connection, 50)?;
    let before = testbed
        .collector()
        .await_timeline(service.pid(), "50 user requests", |timeline| timeline.user_count() >= 50)?;

    let mut after = before.clone();
    for (restarts, hard) in [(1, false), (2, true)] {
        testbed.end_agent(hard)?;
        call_times(&mut connection, 10)?;
        testbed.start_agent()?;
        call_times(&mut connection, 40)?;
        // What a killed agent had not sent yet is part of the next gap, so each agent gets time to send.
        after =
            testbed.collector().await_timeline(service.pid(), "the next agent's requests", |timeline| {
                timeline.user_count() >= 50 + restarts * 40 && timeline.gaps().len() as u64 >= restarts
            })?;
    }
    service.stop()?;

    assert_eq!(testbed.collector().ids_of(service.pid())?, [before.id()], "one process, one timeline");
    assert!(!after.complete(), "{}", after.summary());
    let milestones = after.milestones();
    for milestone in before.milestones() {
        assert!(
            milestones.contains(&milestone),
            "{milestone:?} was known before the restarts: {milestones:?}"
        );
    }
    Ok(())
}

#[test]
fn a_collector_that_is_killed_and_comes_back_has_everything_once() -> Result<()> {
    let mut testbed = testbed("collector-restart")?;
    let mut service = service(&mut testbed)?;
    let mut connection = service.connect()?;
    call_times(&mut connection, 80)?;
    testbed.end_collector(true)?;
    call_times(&mut connection, 60)?;
    testbed.start_collector()?;
    call_times(&mut connection, 60)?;
    let timeline = whole(&testbed, &service)?;
    service.stop()?;
    assert_eq!(demo::faults(&timeline), Vec::<String>::new());
    assert_eq!(timeline.user_count(), CALLS as u64);
    Ok(())
}

#[test]
fn a_service_that_warms_itself_up_pays_before_its_users_do() -> Result<()> {
    let mut testbed = testbed("self-warm-up")?;
    let properties = ["--testbed.runner-sleep=2s", &format!("--testbed.warmup-path={PATH}")];
    let (mut service, probes) = service_with(&mut testbed, &properties)?;
    service.call(PATH, CALLS)?;
    let timeline = whole(&testbed, &service)?;
    service.stop()?;

    assert_eq!(demo::faults(&timeline), Vec::<String>::new());
    let counts = &timeline.value["requestCounts"];
    assert_eq!(number(&counts["selfWarmup"]), Some(1), "{counts}");
    assert_eq!(number(&counts["probe"]), Some(u64::from(probes)), "{counts}");
    let routes = timeline.value["routes"].as_array().cloned().unwrap_or_default();
    let paid_by: Vec<&str> = routes
        .iter()
        .filter(|route| route["route"] == demo::ROUTE)
        .filter_map(|route| route["firstClass"].as_str())
        .collect();
    assert_eq!(paid_by, ["REQUEST_CLASS_SELF_WARMUP"]);
    assert!(timeline.at("POOL_CONNECT") < timeline.at("READY"), "{}", timeline.summary());
    assert!(
        timeline.at("FIRST_PROBE") < timeline.at("READY"),
        "the first probe was refused: {}",
        timeline.summary()
    );
    Ok(())
}
