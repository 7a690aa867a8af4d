//! What the first requests were spent on.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use proto::v1::{Ledger, Request, RequestClass, Timeline};

use super::format::{class_word, counted, cut, duration, harmless, route_name, wrapped};
use super::ledger::{causes, lines};
use super::packages::packages;
use super::style::Style;

/// Requests that are shown: a page's worth.
const SHOWN: usize = 6;
/// Columns of the terminal for a route's name in a title.
const ROUTE_WIDTH: usize = 48;
const INDENT: &str = "  ";

/// The very first user request, then the first of each route and class, the most expensive first. Only those whose
/// ledger was measured.
pub(super) fn first_requests(timeline: &Timeline, style: Style) -> String {
    let firsts: Vec<(&Request, &Ledger)> = of_each_route(timeline)
        .into_iter()
        .filter_map(|request| Some((request, request.ledger.as_ref()?)))
        .collect();
    if firsts.is_empty() {
        return String::new();
    }
    let shown = &firsts[..firsts.len().min(SHOWN)];
    let mut text = "First requests:\n".to_owned();
    for (request, ledger) in shown {
        let title = harmless(&title(request, ledger));
        let _ = writeln!(text, "{INDENT}{}", wrapped(&title, 2 * INDENT.len()));
        text.push_str(&lines(request, ledger, style));
        if request.ordinal == Some(1)
            && let Some(overlap) = &request.overlap
        {
            text.push_str(&packages(overlap, style));
        }
    }
    if let Some(hidden) = firsts.len().checked_sub(SHOWN).filter(|hidden| *hidden > 0) {
        let _ = writeln!(text, "{INDENT}and {}: see -o json", counted(hidden as u64, "more first request"));
    }
    let unmeasured: Vec<_> = (0..causes(&Ledger::default()).len())
        .filter(|at| shown.iter().all(|(_, ledger)| causes(ledger)[*at].1.is_none()))
        .map(|at| causes(&Ledger::default())[at].0)
        .collect();
    if !unmeasured.is_empty() {
        let _ = writeln!(text, "{INDENT}not measured: {}", unmeasured.join(", "));
    }
    text
}

/// The earliest request of each route and class. None of a late timeline, because nobody knows what was before.
fn of_each_route(timeline: &Timeline) -> Vec<&Request> {
    if timeline.completeness.as_ref().is_some_and(|completeness| completeness.late == Some(true)) {
        return Vec::new();
    }
    let mut firsts: HashMap<(Option<&str>, &str, i32), &Request> = HashMap::new();
    for request in &timeline.requests {
        let first = firsts
            .entry((request.method.as_deref(), request.route.as_str(), request.class))
            .or_insert(request);
        if order(request) < order(first) {
            *first = request;
        }
    }
    let mut firsts: Vec<_> = firsts
        .into_values()
        // The first of a route's user requests may still be open when the second has ended.
        .filter(|request| request.class() != RequestClass::User || request.route_ordinal == Some(1))
        .collect();
    firsts.sort_by_key(|request| {
        (request.ordinal != Some(1), Reverse(price_ns(timeline, request)), order(request))
    });
    firsts
}

fn order(request: &Request) -> (u64, u64, u64, &str) {
    let ordinal = request.route_ordinal.unwrap_or(0);
    (ordinal, request.since_exec_ns, request.connection_ordinal, &request.route)
}

/// What it cost more than a later one; all of it when there is none to compare with.
fn price_ns(timeline: &Timeline, request: &Request) -> u64 {
    let is_route = |method: &str, route: &str| {
        method == request.method.as_deref().unwrap_or_default() && route == request.route
    };
    timeline
        .routes
        .iter()
        .find(|route| request.class() == RequestClass::User && is_route(&route.method, &route.route))
        .and_then(|route| route.cold_penalty_ns)
        .unwrap_or(request.latency_ns)
}

/// `GET /users/{id}, user #1: 291.5 ms = 7.21 ms wait + 284.3 ms service (+ 3.10 ms from handshake to accept), …`
fn title(request: &Request, ledger: &Ledger) -> String {
    let mut text = cut(&route_name(request.method.as_deref(), &request.route), ROUTE_WIDTH);
    let _ = write!(text, ", {}", class_word(request.class()));
    if let Some(ordinal) = request.ordinal {
        let _ = write!(text, " #{ordinal}");
    }
    let [latency, wait, service] = [request.latency_ns, request.wait_ns, request.service_ns].map(duration);
    let _ = write!(text, ": {latency} = {wait} wait + {service} service");
    if let Some(accept_wait_ns) = request.accept_wait_ns {
        let _ = write!(text, " (+ {} from handshake to accept)", duration(accept_wait_ns));
    }
    if let Some(status) = request.status {
        let _ = write!(text, ", status {status}");
    }
    if !request.thread.is_empty() {
        let _ = write!(text, ", thread {}", request.thread);
    }
    if let Some(hops) = ledger.thread_hops.filter(|hops| *hops > 0) {
        let _ = write!(text, ", {}", counted(hops.into(), "thread hop"));
    }
    if !["", "http/1.1"].contains(&request.protocol.as_str()) {
        let _ = write!(text, ", {}", request.protocol);
    }
    if request.streaming {
        text.push_str(", streaming");
    }
    text
}
