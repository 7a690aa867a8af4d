//! The lines on top: who, and what the cold start cost.

use std::fmt::Write as _;

use proto::headline::{Headline, milestone_ns};
use proto::v1::{MilestoneKind, Request, RequestClass, StageKind, SteadyVerdict, Timeline};

use super::completeness;
use super::facts::value;
use super::format::{class_word, count, counted, cut, duration, harmless, instant, wrapped};
use super::jvm::begin;
use super::ledger::in_one_line;

/// Where the values begin.
const INDENT: usize = 15;

pub(super) fn summary(timeline: &Timeline) -> String {
    let headline = Headline::of(timeline);
    let jvm = timeline.jvm.clone().unwrap_or_default();
    let mut text = String::new();
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{:<INDENT$}{}", format!("{name}:"), wrapped(&harmless(&value), INDENT));
        }
    };
    field("Timeline", Some(timeline.id.clone()));
    field("Main", jvm.main.clone());
    field("Pod", pod(timeline));
    field("Node", Some(timeline.node.clone()));
    let inner = jvm.container_pid.map_or_else(String::new, |pid| format!(" ({pid} in its container)"));
    field("Process", Some(format!("{}{inner}, {}", jvm.pid, jvm.executable)));
    field("JVM", jvm_line(timeline));
    field("Exec", Some(jvm.exec_at.as_ref().map_or_else(|| "not seen".to_owned(), instant)));
    field("Ready", Some(ready(timeline, headline.ready_ns)));
    field("First request", Some(first_request(timeline, &headline)));
    field("Spent on", first(timeline).and_then(|request| request.ledger.as_ref()).and_then(in_one_line));
    let route = headline.route.map_or_else(String::new, |route| {
        format!(" ({} {}, {})", route.method, route.route, counted(route.count, "request"))
    });
    field("Later p50", headline.later_p50_ns.map(|ns| format!("{}{route}", duration(ns))));
    let payer = headline.route.map_or(RequestClass::Unspecified, proto::v1::Route::first_class);
    let paid = match payer {
        RequestClass::Unspecified => String::new(),
        class => format!(", paid by a {} request", class_word(class)),
    };
    field("Cold penalty", headline.cold_penalty_ns.map(|ns| format!("{}{paid}", duration(ns))));
    field("Steady", Some(steady(timeline)));
    field("Exit", exit(timeline));
    // One line, whatever its length, so that it can be searched for.
    let _ = writeln!(text, "{:<INDENT$}{}", "Complete:", completeness(timeline));
    text
}

fn pod(timeline: &Timeline) -> Option<String> {
    let pod = timeline.pod.as_ref()?;
    let short_id: String = pod.container_id.chars().take(12).collect();
    let name = match (&pod.namespace, &pod.name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => pod.uid.as_ref().map_or_else(|| "not of a pod".to_owned(), |uid| format!("uid {uid}")),
    };
    let mut facts = Vec::new();
    facts.extend(pod.workload.as_ref().map(|workload| format!("workload {workload}")));
    facts.push(match &pod.container {
        Some(container) => format!("container {container} {short_id}"),
        None => format!("container {short_id}"),
    });
    facts.extend(pod.qos_class.clone());
    Some(format!("{name} ({})", facts.join(", ")))
}

/// `25.0.3+9-LTS, g1, cds default; before ready 9,716 classes, 5,494 C1 and 582 C2 compiles`, of what is known.
fn jvm_line(timeline: &Timeline) -> Option<String> {
    /// Columns of the terminal for one of them.
    const LONGEST: usize = 60;
    let known = ["jvm_version", "gc", "cds"].map(|name| (name, value(timeline, name)));
    let words: Vec<_> = known
        .into_iter()
        .filter_map(|(name, value)| {
            let value = cut(value.filter(|value| !value.is_empty())?, LONGEST);
            Some(if name == "cds" { format!("cds {value}") } else { value })
        })
        .collect();
    let parts = [Some(words.join(", ")), before_ready(timeline)];
    let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What was done before the first stage's end.
fn before_ready(timeline: &Timeline) -> Option<String> {
    let stage = timeline.stages.iter().find(|stage| stage.kind() == StageKind::BeforeReady)?;
    let work = stage.jvm.as_ref()?;
    let classes = work.classes_loaded.map(|classes| format!("{} classes", count(classes)));
    let compiles = match (work.compiles_c1, work.compiles_c2, work.compiles) {
        (Some(c1), Some(c2), _) => Some(format!("{} C1 and {} C2 compiles", count(c1), count(c2))),
        (.., compiles) => compiles.map(|compiles| format!("{} compiles", count(compiles))),
    };
    let done: Vec<_> = [classes, compiles].into_iter().flatten().collect();
    (!done.is_empty()).then(|| format!("before {} {}", begin(timeline), done.join(", ")))
}

fn ready(timeline: &Timeline, ready_ns: Option<u64>) -> String {
    match (ready_ns, milestone_ns(timeline, MilestoneKind::PortListen)) {
        (Some(ready_ns), _) => format!("{} after exec", duration(ready_ns)),
        (None, Some(listen_ns)) => {
            format!("no readiness probe succeeded; port open {} after exec", duration(listen_ns))
        }
        (None, None) => "no".to_owned(),
    }
}

fn first(timeline: &Timeline) -> Option<&Request> {
    timeline.requests.iter().find(|request| request.ordinal == Some(1))
}

fn first_request(timeline: &Timeline, headline: &Headline<'_>) -> String {
    let Some(latency_ns) = headline.first_request_ns else { return "none seen".to_owned() };
    let mut text = duration(latency_ns);
    let Some(request) = first(timeline) else { return text };
    let _ = write!(text, " = {} wait + {} service", duration(request.wait_ns), duration(request.service_ns));
    if let Some(after_ns) = headline.ready_ns.and_then(|ready_ns| request.since_exec_ns.checked_sub(ready_ns))
    {
        let _ = write!(text, ", {} after ready", duration(after_ns));
    }
    let _ = write!(text, ": {} {}", request.method.as_deref().unwrap_or("?"), request.route);
    if let Some(status) = request.status {
        let _ = write!(text, ", status {status}");
    }
    let _ = write!(text, ", thread {}", request.thread);
    text
}

fn steady(timeline: &Timeline) -> String {
    let Some(steady) = &timeline.steady else { return "not yet".to_owned() };
    let at = duration(steady.since_exec_ns);
    match steady.verdict() {
        SteadyVerdict::Reached => {
            let request =
                steady.at_ordinal.map_or_else(String::new, |ordinal| format!(", at request {ordinal}"));
            let p50 = steady.p50_ns.map_or_else(String::new, |ns| format!(", p50 {}", duration(ns)));
            format!("{at} after exec{request}{p50}")
        }
        SteadyVerdict::Limit => format!("not reached within the observation limit, {at} after exec"),
        SteadyVerdict::Exited => format!("not reached, the process ended {at} after exec"),
        SteadyVerdict::Unspecified => "not yet".to_owned(),
    }
}

fn exit(timeline: &Timeline) -> Option<String> {
    let exit = timeline.exit.as_ref()?;
    let how = match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("by signal {signal}"),
        (Some(code), None) => format!("with code {code}"),
        (None, None) => "for a reason that was not seen".to_owned(),
    };
    Some(format!("{how}, {} after exec", duration(exit.since_exec_ns)))
}
