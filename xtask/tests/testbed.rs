//! The testbed without jcold: what everything else is checked against must itself be right.

use anyhow::Result;
use xtask::postgres::Postgres;
use xtask::service::{Options, Service};
use xtask::testbed::Turn;
use xtask::{jdk, stub};

#[test]
fn the_first_call_that_needs_the_database_creates_the_pool_and_the_filter_times_every_call() -> Result<()> {
    let _turn = Turn::take()?;
    let logs = tempfile::tempdir()?;
    let postgres = Postgres::start(logs.path())?;
    let stub_port = stub::start()?;
    let options = Options { jdk: jdk::choose()?, jvm: vec![], properties: vec![] };
    let mut service = Service::start(&options, &postgres, stub_port, logs.path())?;
    let probes = service.await_ready()?;
    let log = || std::fs::read_to_string(logs.path().join("service.log")).unwrap();
    assert!(!log().contains("HikariPool"), "the pool was there before any request asked for it:\n{}", log());

    let hello = service.call("/hello", 3)?;
    assert_eq!(hello[0].body, br#"{"message":"hello"}"#);
    let external = service.call("/external", 2)?;
    assert_eq!(external[0].body, br#"{"message":"from the stub"}"#);
    assert!(!log().contains("HikariPool"), "a route without the database opened the pool:\n{}", log());

    let users = service.call("/users/1", 20)?;
    assert_eq!(users[19].body, br#"{"id":1,"name":"User 1","email":"user1@example.org"}"#);
    assert!(log().contains("HikariPool-1 - Start completed"), "{}", log());

    // Ended at once: what the filter has not written yet must not be lost.
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&service.stop()?), None);
    let truth = service.whole_truth()?;
    assert!(
        truth.iter().map(|row| row.sequence).eq(1..=truth.len() as u64),
        "sequence with holes: {truth:?}"
    );
    let paths: Vec<&str> = truth.iter().map(|row| row.path.as_str()).collect();
    let expected: Vec<&str> = std::iter::repeat_n("/actuator/health/readiness", probes as usize)
        .chain(["/hello"; 3])
        .chain(["/external"; 2])
        .chain(["/users/1"; 20])
        .collect();
    assert_eq!(paths, expected);
    let of_users = truth.iter().filter(|row| row.path == "/users/1");
    for (row, call) in of_users.zip(&users) {
        let by_client = call.elapsed.as_nanos();
        assert!(
            u128::from(row.duration_ns) <= by_client,
            "{row:?} is longer than the client's {by_client} ns"
        );
    }
    Ok(())
}

#[test]
fn readiness_waits_for_the_runner_and_a_self_warm_up_is_a_request_before_it() -> Result<()> {
    let _turn = Turn::take()?;
    let logs = tempfile::tempdir()?;
    let postgres = Postgres::start(logs.path())?;
    let stub_port = stub::start()?;
    let properties =
        ["--testbed.runner-sleep=3s", "--testbed.warmup-path=/users/1", "--testbed.eager-pool=true"];
    let options =
        Options { jdk: jdk::choose()?, jvm: vec![], properties: properties.map(str::to_owned).to_vec() };
    let mut service = Service::start(&options, &postgres, stub_port, logs.path())?;
    let probes = service.await_ready()?;
    assert!(probes >= 2, "the port is open while the runner sleeps, so readiness was asked and said no");

    let truth = service.truth("/users/1", 1)?;
    assert_eq!(truth.len(), 1, "one request of the service to itself");
    let log = std::fs::read_to_string(logs.path().join("service.log"))?;
    let at = |words: &str| log.find(words).unwrap_or_else(|| panic!("no `{words}` in\n{log}"));
    assert!(at("pool opened before the port") < at("Tomcat started on port"));
    assert!(at("Tomcat started on port") < at("warmed up http://127.0.0.1"));
    let refused = service.whole_truth()?.iter().filter(|row| row.status == 503).count();
    assert_eq!(refused, probes as usize - 1);
    Ok(())
}
