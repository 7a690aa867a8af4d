//! What people and tools ask.

mod support;

use proto::v1::{Request, TimelineFilter, WatchTimelinesRequest};
use support::{Agent, LONG, at, begin, get, ids, interval, intervals, list, query, start, stop};
use tonic::Code;

async fn three(running: &collector::app::Running) -> Agent {
    let mut agent = Agent::connect(running, "a1").await;
    agent.push(1, begin("aa11", "shop", "orders", 1_000)).await;
    agent.push(2, begin("aa22", "shop", "users", 3_000)).await;
    let elsewhere = proto::v1::Timeline { node: "node-b".into(), ..begin("bb33", "bank", "orders", 2_000) };
    agent.push(3, elsewhere).await;
    agent
}

#[tokio::test]
async fn lists_are_filtered_and_newest_first() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let _agent = three(&running).await;
    let any = TimelineFilter::default;
    let table: [(TimelineFilter, &[&str]); 8] = [
        (any(), &["aa22", "bb33", "aa11"]),
        (TimelineFilter { node: "node-b".into(), ..any() }, &["bb33"]),
        (TimelineFilter { namespace: "shop".into(), ..any() }, &["aa22", "aa11"]),
        (TimelineFilter { workload: "orders".into(), ..any() }, &["bb33", "aa11"]),
        (TimelineFilter { namespace: "shop".into(), workload: "orders".into(), ..any() }, &["aa11"]),
        (TimelineFilter { since: Some(at(2_000)), ..any() }, &["aa22", "bb33"]),
        (TimelineFilter { until: Some(at(2_000)), ..any() }, &["aa11"]),
        (TimelineFilter { workload: "order".into(), ..any() }, &[]),
    ];
    for (filter, expected) in table {
        let page = list(&running, filter.clone(), 0, "").await;
        assert_eq!(ids(&page.timelines), expected, "{filter:?}");
        assert_eq!(page.next_page_token, "", "{filter:?}");
    }
    stop(running).await;
}

#[tokio::test]
async fn pages_stay_in_place_while_timelines_arrive() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    for sequence in 1..=7_u32 {
        // Two of each instant, so that a page ends between them.
        let seconds = i64::from(sequence / 2);
        agent.push(sequence.into(), begin(&format!("t{sequence}"), "", "", seconds)).await;
    }
    let first = list(&running, TimelineFilter::default(), 3, "").await;
    assert_eq!(ids(&first.timelines), ["t6", "t7", "t4"]);
    agent.push(8, begin("new", "", "", 9_999)).await;
    let second = list(&running, TimelineFilter::default(), 3, &first.next_page_token).await;
    assert_eq!(ids(&second.timelines), ["t5", "t2", "t3"]);
    let third = list(&running, TimelineFilter::default(), 3, &second.next_page_token).await;
    assert_eq!(ids(&third.timelines), ["t1"]);
    assert_eq!(third.next_page_token, "");

    let request = proto::v1::ListTimelinesRequest { page_token: "made up".into(), ..Default::default() };
    let status = query(&running).await.list_timelines(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    stop(running).await;
}

#[tokio::test]
async fn a_list_leaves_the_bulk_out_and_get_gives_it() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    let mut timeline = interval("t1", 0);
    timeline.requests.push(Request { ordinal: Some(1), ..Request::default() });
    timeline.labels.insert("app".into(), "x".into());
    agent.push(1, timeline).await;
    let listed = list(&running, TimelineFilter::default(), 0, "").await.timelines.remove(0);
    assert!(listed.intervals.is_empty() && listed.requests.is_empty());
    assert_eq!(listed.labels.len(), 1);
    let whole = get(&running, "t1").await.unwrap();
    assert_eq!((whole.intervals.len(), whole.requests.len()), (1, 1));
    stop(running).await;
}

#[tokio::test]
async fn a_timeline_is_got_by_its_id_or_what_only_it_begins_with() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = three(&running).await;
    agent.push(4, begin("aa1", "", "", 4_000)).await;
    assert_eq!(get(&running, "bb33").await.unwrap().id, "bb33");
    assert_eq!(get(&running, "b").await.unwrap().id, "bb33");
    assert_eq!(get(&running, "aa1").await.unwrap().id, "aa1", "a whole id wins over what it begins");
    let unknown = get(&running, "cc44").await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("\"cc44\""), "{unknown}");
    let ambiguous = get(&running, "aa").await.unwrap_err();
    assert_eq!(ambiguous.code(), Code::InvalidArgument);
    assert!(ambiguous.message().contains("aa1, aa11, aa22"), "{ambiguous}");
    assert_eq!(get(&running, "").await.unwrap_err().code(), Code::InvalidArgument);
    stop(running).await;
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_then_each_change() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = three(&running).await;
    let filter = TimelineFilter { namespace: "shop".into(), ..TimelineFilter::default() };
    let request = WatchTimelinesRequest { filter: Some(filter) };
    let mut watch = query(&running).await.watch_timelines(request).await.unwrap().into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(LONG, watch.message()).await.expect("a change").unwrap();
        message.map(|response| response.timeline.unwrap())
    };
    assert_eq!(next().await.unwrap().id, "aa11");
    assert_eq!(next().await.unwrap().id, "aa22");
    agent.push(4, interval("bb33", 0)).await;
    agent.push(5, interval("aa11", 500)).await;
    let changed = next().await.unwrap();
    assert_eq!((changed.id.as_str(), intervals(&changed)), ("aa11", vec![500]));
    let draining = tokio::spawn(running.drain(LONG));
    assert_eq!(next().await, None, "the collector's end is the watch's");
    assert!(draining.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_watcher_that_does_not_read_gets_the_last_state_of_each() {
    const UPDATES: u64 = 400;
    let directory = tempfile::tempdir().unwrap();
    let running = start(&directory.path().join("jcold.db")).await;
    let mut agent = Agent::connect(&running, "a1").await;
    let mut watch =
        query(&running).await.watch_timelines(WatchTimelinesRequest::default()).await.unwrap().into_inner();
    for sequence in 1..=UPDATES {
        agent.send(sequence, interval(if sequence % 2 == 0 { "even" } else { "odd" }, sequence)).await;
    }
    agent.acknowledged(UPDATES).await;
    let mut last = std::collections::HashMap::new();
    while last.get("even") != Some(&200) || last.get("odd") != Some(&200) {
        let message = tokio::time::timeout(LONG, watch.message()).await.expect("the last state").unwrap();
        let timeline = message.unwrap().timeline.unwrap();
        last.insert(timeline.id.clone(), timeline.intervals.len());
    }
    stop(running).await;
}
