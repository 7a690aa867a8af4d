//! Trouble around a JVM: an agent that comes late, a collector that is away.

use anyhow::Result;
use xtask::hello::Hello;
use xtask::service::call;
use xtask::testbed::Testbed;
use xtask::timeline::{Timeline, list, number};

/// Count of user requests by route.
fn counts(timeline: &Timeline) -> Vec<(String, u64)> {
    let route = |route: &serde_json::Value| {
        let count = number(&route["count"]).unwrap_or(0);
        (count > 0).then(|| (route["route"].as_str().unwrap_or_default().to_owned(), count))
    };
    let mut counts: Vec<_> = list(&timeline.value["routes"]).filter_map(route).collect();
    counts.sort();
    counts
}

#[test]
fn a_jvm_that_ran_before_any_agent_is_followed_from_then_on_and_marked_late() -> Result<()> {
    let mut testbed = Testbed::start("end-to-end/late")?;
    testbed.end_agent(false)?;
    let mut hello = Hello::start(testbed.dir())?;
    let mut connection = hello.connect()?;
    for _ in 0..7 {
        call(&mut connection, "/before")?;
    }
    testbed.start_agent()?;
    // An old connection and a new one.
    for connection in [&mut connection, &mut hello.connect()?] {
        for _ in 0..10 {
            call(connection, "/after")?;
        }
    }
    let timeline = testbed
        .collector()
        .await_timeline(hello.pid(), "20 user requests", |timeline| timeline.user_count() >= 20)?;
    hello.stop()?;

    assert_eq!(timeline.value["completeness"]["late"], true, "{}", timeline.summary());
    assert!(!timeline.complete(), "{}", timeline.summary());
    assert_eq!(counts(&timeline), [("/after".to_owned(), 20)], "{}", timeline.summary());
    let requests = list(&timeline.value["requests"]);
    let numbered: Vec<_> = requests.filter(|request| request.get("ordinal").is_some()).collect();
    assert!(numbered.is_empty(), "nobody knows how many came before: {numbered:?}");
    assert_eq!(timeline.at("FIRST_REQUEST"), None, "{}", timeline.summary());
    let paid = list(&timeline.value["routes"]).find(|route| route.get("coldPenaltyNs").is_some());
    assert_eq!(paid, None, "the first request was not seen");
    Ok(())
}

#[test]
fn an_agent_without_its_collector_goes_on_and_delivers_when_it_comes() -> Result<()> {
    let mut testbed = Testbed::start("end-to-end/collector-away")?;
    testbed.end_agent(false)?;
    testbed.end_collector(false)?;
    testbed.start_agent()?;
    let mut hello = Hello::start(testbed.dir())?;
    let mut connection = hello.connect()?;
    for _ in 0..30 {
        call(&mut connection, "/hello")?;
    }
    // All of its life, with nobody to tell.
    hello.stop()?;
    testbed.check_alive()?;
    testbed.start_collector()?;
    let timeline = testbed.collector().await_timeline(hello.pid(), "the JVM's end", |timeline| {
        timeline.value["exit"].is_object() && timeline.user_count() >= 30
    })?;
    assert!(timeline.complete(), "{}", timeline.summary());
    assert_eq!(counts(&timeline), [("/hello".to_owned(), 30)]);
    let ordinals: Vec<u64> = timeline.user_requests().iter().map(|request| request.ordinal).collect();
    assert!(ordinals.iter().copied().eq(1..=30), "{ordinals:?}");
    Ok(())
}
