//! One cold start for `bench requests`: the demo's steps, with everything that jcold measures measured elsewhere too.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::sampler::{CLASSES, History, Sampler};
use super::table::{Column, Row, Table};
use crate::clock::Anchor;
use crate::demo::{self, CALLS, PATH};
use crate::jdk::Jdk;
use crate::report;
use crate::service::Options;
use crate::testbed::Testbed;
use crate::timeline::{Timeline, list, number};

/// What the tables' reader must know.
pub const NOTES: &str = "\
schedstat: /proc/PID/task/*/schedstat of the same threads, read every 10 ms on boot time, on a straight line in between.
Ready is the timeline's milestone. The first second of traffic begins with the 100 ms interval of the first user
request and ends with an interval: both sides are cut at the same instants. With the service alive, both end with the
last interval that the collector had. With it ended, schedstat lacks up to 10 ms of each thread's end.";

const SECOND_NS: u64 = 1_000_000_000;
const INTERVAL_NS: u64 = 100_000_000;

const REQUESTS: &[Column] = &[
    Column { key: "first_ns", heading: "1st" },
    Column { key: "first_wait_ns", heading: "wait" },
    Column { key: "first_service_ns", heading: "service" },
    Column { key: "p50_2_to_10_ns", heading: "2–10 p50" },
    Column { key: "p50_11_to_200_ns", heading: "11–200 p50" },
];
const CPU: &[Column] = &[
    Column { key: "main_ns", heading: "main" },
    Column { key: "jit_c1_ns", heading: "jit_c1" },
    Column { key: "jit_c2_ns", heading: "jit_c2" },
    Column { key: "gc_ns", heading: "gc" },
];
const AGENT: &[Column] = &[
    Column { key: "rss_bytes", heading: "RSS" },
    Column { key: "rss_anon_bytes", heading: "of it anon" },
    Column { key: "rss_peak_bytes", heading: "RSS peak" },
    Column { key: "maps_bytes", heading: "BPF maps" },
    Column { key: "hot_since_exec_ns", heading: "exec → hot" },
    Column { key: "events_produced", heading: "produced" },
    Column { key: "events_delivered", heading: "delivered" },
    Column { key: "events_dropped", heading: "dropped" },
];

/// Watches one cold start; logs go to `target/NAME`.
pub fn run(name: &str, jdk: &Jdk) -> Result<Vec<Table>> {
    let mut testbed = Testbed::start(name)?;
    let options = Options { jdk: jdk.clone(), jvm: Vec::new(), properties: Vec::new() };
    let mut service = testbed.start_service(&options)?;
    let sampler = Sampler::start(service.pid())?;
    service.await_ready()?;
    demo::idle()?;
    let calls = service.call(PATH, CALLS)?;
    let truth = service.truth(PATH, CALLS)?;
    let timeline =
        testbed.collector().await_timeline(service.pid(), "the first second of traffic", |timeline| {
            let traffic_end = first_second(timeline).map(|(_, end)| end);
            let all = timeline.user_requests().len() >= CALLS;
            all && traffic_end.is_some_and(|end| end <= intervals_end(timeline))
        })?;
    let agent = agent(&mut testbed, &timeline)?;
    service.stop()?;
    let history = sampler.finish()?;
    let ended = testbed
        .collector()
        .await_timeline(service.pid(), "the service's end", |timeline| timeline.value["exit"].is_object())?;
    let mut tables = vec![requests(&demo::series(&timeline.user_requests(), &truth, &calls), &timeline)];
    tables.extend(cpu(&timeline, &ended, &history)?);
    tables.push(agent);
    Ok(tables)
}

fn requests(series: &[report::Series; 3], timeline: &Timeline) -> Table {
    let first = timeline.user_requests().into_iter().next();
    let rows = series.iter().enumerate().map(|(place, series)| {
        let p50 = |from, to| report::p50(&series.durations_ns, from, to);
        // Only jcold, the first of the series, knows what a request's duration is made of.
        let parts = first.as_ref().filter(|_| place == 0);
        let (wait, service) = (parts.map(|first| first.wait_ns), parts.map(|first| first.service_ns));
        Row {
            measured_by: series.measured_by,
            cells: vec![p50(1, 1), wait, service, p50(2, 10), p50(11, 200)],
        }
    });
    Table { key: "requests", title: PATH.to_owned(), columns: REQUESTS, rows: rows.collect() }
}

/// CPU by class: `timeline` is what was known while the service lived, `ended` what was after its end.
fn cpu(timeline: &Timeline, ended: &Timeline, history: &History) -> Result<[Table; 4]> {
    let exec_at = timeline.value["jvm"]["execAt"].as_str().context("no instant of exec")?;
    let exec_boot_ns = Anchor::wall()?.boot_ns_of(exec_at)?;
    let schedstat = |class: &str, from_ns: u64, to_ns: u64| {
        history.cpu_ns(class, exec_boot_ns + to_ns).saturating_sub(match from_ns {
            0 => 0,
            _ => history.cpu_ns(class, exec_boot_ns + from_ns),
        })
    };
    let table = |key, title, from_ns, to_ns, jcold: &dyn Fn(&str) -> u64| {
        let row =
            |measured_by, cells: Vec<u64>| Row { measured_by, cells: cells.into_iter().map(Some).collect() };
        let by_jcold = row("jcold", CLASSES.iter().map(|class| jcold(class)).collect());
        let beside = row("schedstat", CLASSES.iter().map(|class| schedstat(class, from_ns, to_ns)).collect());
        Table { key, title, columns: CPU, rows: vec![by_jcold, beside] }
    };
    let ready = timeline.at("READY").context("no milestone ready")?;
    let (from, to) = first_second(timeline).context("no first user request")?;
    let end = intervals_end(timeline);
    let phases = |class: &str| cpu_of(&timeline.value["phases"], class, 0, ready);
    let traffic = |class: &str| cpu_of(&timeline.value["intervals"], class, from, to);
    let alive = |class: &str| cpu_of(&timeline.value["intervals"], class, 0, end);
    let all = |class: &str| cpu_of(&ended.value["intervals"], class, 0, u64::MAX);
    Ok([
        table("cpu_before_ready", "CPU before ready".into(), 0, ready, &phases),
        table("cpu_first_second", "CPU, 1 s of traffic".into(), from, to, &traffic),
        table("cpu_alive", "CPU, service alive".into(), 0, end, &alive),
        table("cpu_total", "CPU, service ended".into(), 0, intervals_end(ended), &all),
    ])
}

/// CPU of a class in the phases or intervals that begin within a span, nanoseconds.
fn cpu_of(slices: &Value, class: &str, from_ns: u64, to_ns: u64) -> u64 {
    let begin = |slice: &Value| number(&slice["sinceExecNs"]).unwrap_or(0);
    let within = list(slices).filter(|slice| (from_ns..to_ns).contains(&begin(slice)));
    within.filter_map(|slice| number(&slice["cpuNs"][class])).sum()
}

/// The second of intervals that begins with the one of the first user request, since exec.
fn first_second(timeline: &Timeline) -> Option<(u64, u64)> {
    let first = timeline.at("FIRST_REQUEST")?;
    let from = first - first % INTERVAL_NS;
    Some((from, from + SECOND_NS))
}

/// End of the last interval that is there, since exec.
fn intervals_end(timeline: &Timeline) -> u64 {
    let end = |slice: &Value| Some(number(&slice["sinceExecNs"]).unwrap_or(0) + number(&slice["lengthNs"])?);
    list(&timeline.value["intervals"]).filter_map(end).max().unwrap_or(0)
}

fn agent(testbed: &mut Testbed, timeline: &Timeline) -> Result<Table> {
    let pid = testbed.agent().context("no agent")?.pid();
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).context(path)?;
    let kib = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().nth(1)?.parse::<u64>().ok())
    };
    let bytes = |key: &str| kib(key).map(|kib| kib * 1024);
    let metrics = testbed.agent_metrics()?;
    let maps = metrics.lines().find_map(|line| line.strip_prefix("jcold_agent_maps_bytes ")?.parse().ok());
    let seen = |key: &str| number(&timeline.value["completeness"][key]);
    let cells = vec![
        bytes("VmRSS"),
        bytes("RssAnon"),
        bytes("VmHWM"),
        maps,
        seen("hotSinceExecNs"),
        seen("eventsProduced"),
        seen("eventsDelivered"),
        seen("eventsDropped"),
    ];
    Ok(Table {
        key: "agent",
        title: "agent".into(),
        columns: AGENT,
        rows: vec![Row { measured_by: "jcold-agent", cells }],
    })
}
