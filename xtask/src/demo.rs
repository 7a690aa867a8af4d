//! `cargo xtask demo`: one real cold start, from exec to the 200th request, seen by jcold and checked against what the
//! service itself and its client measured.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::http::Response;
use crate::report::{self, Series};
use crate::service::{Options, Service};
use crate::step::say;
use crate::testbed::Testbed;
use crate::timeline::{Request, Timeline};
use crate::truth::Row;
use crate::{interrupt, jdk, wait};

/// What the demo calls.
pub const PATH: &str = "/users/1";
/// The route of that path.
pub const ROUTE: &str = "/users/{id}";
/// How often the demo calls it.
pub const CALLS: usize = 200;
/// Time between ready and the first user request.
pub const IDLE: Duration = Duration::from_millis(1500);

/// What every demo must show.
const MILESTONES: [&str; 8] = [
    "PROCESS_EXEC",
    "JVM_CREATED",
    "PORT_LISTEN",
    "FIRST_ACCEPT",
    "FIRST_PROBE",
    "READY",
    "FIRST_REQUEST",
    "POOL_CONNECT",
];

/// How to show the demo's outcome.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// Nothing on stdout but the timeline's JSON.
    pub json: bool,
    /// Keep everything running until Ctrl-C.
    pub keep: bool,
}

/// Runs the demo on a machine that is set up and built. Fails when the timeline lacks anything.
pub fn run(show: Show) -> Result<()> {
    let mut testbed = Testbed::start("demo")?;
    let options = Options { jdk: jdk::choose()?, jvm: Vec::new(), properties: Vec::new() };
    let mut service = testbed.start_service(&options)?;
    say("wait", "readiness, asked once a second as kubelet does");
    service.await_ready()?;
    idle()?;
    say("call", &format!("GET {PATH} × {CALLS} on one connection"));
    let calls = service.call(PATH, CALLS)?;
    let truth = service.truth(PATH, CALLS)?;
    let what = format!("{CALLS} user requests in the collector");
    let timeline = testbed.collector().await_timeline(service.pid(), &what, |timeline| {
        timeline.user_count() >= CALLS as u64 && timeline.user_requests().len() >= CALLS
    })?;

    if show.json {
        println!("{}", serde_json::to_string_pretty(&timeline.value)?);
    } else {
        print!("{}", testbed.collector().jcold(&["describe", "timeline", timeline.id()])?);
        println!("\n{}", report::table(PATH, &series(&timeline.user_requests(), &truth, &calls)));
    }
    let faults = faults(&timeline);
    if show.keep {
        keep(&mut testbed, &service, &timeline)?;
    }
    service.stop()?;
    if !faults.is_empty() {
        bail!("the demo's timeline is not as it should be:\n  - {}", faults.join("\n  - "));
    }
    Ok(())
}

/// The pause between ready and the first user.
pub fn idle() -> Result<()> {
    interrupt::check()?;
    wait::pause(IDLE);
    interrupt::check()
}

/// The same requests as jcold, the filter and the client measured them.
pub fn series(requests: &[Request], truth: &[Row], calls: &[Response]) -> [Series; 3] {
    let nanoseconds = |call: &Response| u64::try_from(call.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let parts = requests.first().map(|first| {
        format!("wait {} + service {}", report::ms(first.wait_ns), report::ms(first.service_ns))
    });
    [
        Series {
            measured_by: "jcold",
            first_parts: parts,
            durations_ns: requests.iter().map(|request| request.latency_ns).collect(),
        },
        Series {
            measured_by: "servlet filter",
            first_parts: None,
            durations_ns: truth.iter().map(|row| row.duration_ns).collect(),
        },
        Series {
            measured_by: "client",
            first_parts: None,
            durations_ns: calls.iter().map(nanoseconds).collect(),
        },
    ]
}

/// What the timeline of a demo lacks: milestones, completeness, or user requests in their order.
pub fn faults(timeline: &Timeline) -> Vec<String> {
    let mut faults = Vec::new();
    let seen = timeline.milestones();
    for kind in MILESTONES {
        if !seen.iter().any(|(name, _)| name == kind) {
            faults.push(format!("no milestone {}", kind.to_lowercase()));
        }
    }
    if !timeline.complete() {
        faults.push(format!("not complete: {}", timeline.value["completeness"]));
    }
    let requests = timeline.user_requests();
    let ordinals: Vec<u64> = requests.iter().map(|request| request.ordinal).collect();
    if !ordinals.iter().copied().eq(1..=CALLS as u64) {
        faults.push(format!("user requests are not 1…{CALLS} in order: {ordinals:?}"));
    }
    if let Some(other) = requests.iter().find(|request| request.route != ROUTE || request.status != Some(200))
    {
        faults.push(format!(
            "user request {} is {} with status {:?}",
            other.ordinal, other.route, other.status
        ));
    }
    faults
}

/// Holds everything until Ctrl-C.
fn keep(testbed: &mut Testbed, service: &Service, timeline: &Timeline) -> Result<()> {
    let url = testbed.collector().url();
    say("keep", &format!("service http://127.0.0.1:{}, logs {}", service.port(), testbed.dir().display()));
    say("keep", &format!("target/release/jcold --collector {url} describe timeline {}", timeline.id()));
    say("keep", "Ctrl-C ends everything");
    while interrupt::check().is_ok() {
        testbed.check_alive()?;
        wait::pause(Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn whole() -> Value {
        let milestones: Vec<Value> = MILESTONES
            .iter()
            .map(|kind| json!({"kind": format!("MILESTONE_KIND_{kind}"), "sinceExecNs": "1"}))
            .collect();
        let requests: Vec<Value> = (1..=CALLS)
            .map(|ordinal| {
                json!({"class": "REQUEST_CLASS_USER", "ordinal": ordinal.to_string(), "route": ROUTE, "status": 200})
            })
            .collect();
        json!({"milestones": milestones, "requests": requests, "completeness": {"complete": true}})
    }

    fn faults_of(value: Value) -> Vec<String> {
        faults(&Timeline { value })
    }

    #[test]
    fn a_whole_timeline_has_no_fault_even_without_steady() {
        assert_eq!(faults_of(whole()), Vec::<String>::new());
    }

    #[test]
    fn each_lack_is_named() {
        let mut value = whole();
        value["milestones"].as_array_mut().unwrap().remove(5);
        assert_eq!(faults_of(value), ["no milestone ready"]);

        let mut value = whole();
        value["completeness"] = json!({"eventsDropped": "3"});
        assert_eq!(faults_of(value), ["not complete: {\"eventsDropped\":\"3\"}"]);

        let mut value = whole();
        value["requests"].as_array_mut().unwrap().swap(0, 1);
        assert!(faults_of(value)[0].starts_with("user requests are not 1…200 in order: [2, 1, 3"));

        let mut value = whole();
        value["requests"][7]["route"] = json!("~unparsed");
        assert_eq!(faults_of(value), ["user request 8 is ~unparsed with status Some(200)"]);
    }
}
