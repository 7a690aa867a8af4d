//! Where the first requests of a Spring service spend their time, by what its configuration leaves for them to do.

use anyhow::{Context, Result};

use super::table::{Column, Row, Table};
use crate::demo;
use crate::http::Response;
use crate::jdk::Jdk;
use crate::service::{Options, call};
use crate::testbed::Testbed;
use crate::timeline::{LEDGER, Timeline, list, number};
use crate::truth::Row as Truth;

/// What the tables' reader must know.
pub const NOTES: &str = "\
The three first requests of a start, one after the other on one connection: later ones find done what earlier ones paid
for. Every entry of the ledger is a part of the latency and they sum to it. −filter: jcold's latency less the servlet
filter's, which sees less of the request. client−: the client's less jcold's.";

/// The requests, in their order.
const PATHS: [(&str, &str); 3] =
    [("/hello", "/hello"), ("/users/1", "/users/{id}"), ("/external", "/external")];
/// Configurations: key, title and properties.
const VARIANTS: [(&str, &str, &[&str]); 4] = [
    ("lazy_pool", "pool lazy", &[]),
    ("eager_pool", "pool eager", &["--testbed.eager-pool=true"]),
    ("lazy_pool_lazy_beans", "pool lazy, beans lazy", &["--spring.main.lazy-initialization=true"]),
    (
        "eager_pool_lazy_beans",
        "pool eager, beans lazy",
        &["--testbed.eager-pool=true", "--spring.main.lazy-initialization=true"],
    ),
];
const COLUMNS: &[Column] = &[
    Column { key: "latency_ns", heading: "latency" },
    Column { key: "on_cpu_ns", heading: "on cpu" },
    Column { key: "run_queue_ns", heading: "run queue" },
    Column { key: "throttled_ns", heading: "throttled" },
    Column { key: "pool_connect_ns", heading: "pool" },
    Column { key: "socket_wait_ns", heading: "socket" },
    Column { key: "disk_ns", heading: "disk" },
    Column { key: "lock_or_park_ns", heading: "lock, park" },
    Column { key: "unexplained_ns", heading: "unexplained" },
    Column { key: "beyond_filter_ns", heading: "−filter" },
    Column { key: "client_beyond_ns", heading: "client−" },
];

/// Starts the service once in each configuration; logs go to `target/NAME`.
pub fn run(name: &str, jdk: &Jdk) -> Result<Vec<Table>> {
    let mut testbed = Testbed::start(name)?;
    VARIANTS
        .iter()
        .map(|(key, title, properties)| {
            let rows = one_start(&mut testbed, jdk, properties).with_context(|| title.to_string())?;
            Ok(Table { key, title: (*title).to_owned(), columns: COLUMNS, rows })
        })
        .collect()
}

fn one_start(testbed: &mut Testbed, jdk: &Jdk, properties: &[&str]) -> Result<Vec<Row>> {
    let options = Options {
        jdk: jdk.clone(),
        jvm: Vec::new(),
        properties: properties.iter().map(|&property| property.to_owned()).collect(),
    };
    let mut service = testbed.start_service(&options)?;
    service.await_ready()?;
    demo::idle()?;
    let mut connection = service.connect()?;
    let calls = PATHS.iter().map(|(path, _)| call(&mut connection, path)).collect::<Result<Vec<_>>>()?;
    service.stop()?;
    let truth = service.whole_truth()?;
    let timeline = testbed
        .collector()
        .await_timeline(service.pid(), "the service's end", |timeline| timeline.value["exit"].is_object())?;
    PATHS.iter().zip(&calls).map(|(&(path, route), call)| row(path, route, &timeline, &truth, call)).collect()
}

fn row(
    path: &'static str,
    route: &str,
    timeline: &Timeline,
    truth: &[Truth],
    call: &Response,
) -> Result<Row> {
    let request = list(&timeline.value["requests"])
        .find(|request| request["route"] == route && request["routeOrdinal"] == "1")
        .with_context(|| format!("no first request of {route}: {}", timeline.summary()))?;
    let latency = number(&request["latencyNs"]);
    let filter = truth.iter().find(|row| row.path == path).map(|row| row.duration_ns);
    let client = u64::try_from(call.elapsed.as_nanos()).ok();
    let beyond = |longer: Option<u64>, shorter: Option<u64>| Some(longer?.saturating_sub(shorter?));
    let mut cells = vec![latency];
    cells.extend(LEDGER.map(|entry| number(&request["ledger"][entry])));
    cells.extend([beyond(latency, filter), beyond(client, latency)]);
    Ok(Row { measured_by: path, cells })
}
