//! Who paid for the cold start: users, the kubelet or the pod itself.

use std::collections::BTreeMap;

use proto::v1::{Request, RequestClass, Timeline};

use super::format::{ABSENT, class_word, count, cut, duration, maybe, route_name};
use super::sections::{INDENT, ROUTE_WIDTH, section};
use super::table::Table;

/// The very first request of one route.
struct First<'a> {
    route: (&'a str, &'a str),
    class: RequestClass,
    /// Absent when it was not kept.
    latency_ns: Option<u64>,
}

/// One line a class: how many requests, and of which routes it sent the very first one.
pub(super) fn payers(timeline: &Timeline) -> String {
    let counts = timeline.request_counts;
    let firsts = firsts(timeline);
    let mut table =
        Table::new(INDENT, ["CLASS", ">REQUESTS", ">ROUTES", ">THEIR SUM", ">WORST", "WORST ROUTE"]);
    if counts.is_some_and(|counts| counts.user > 0 || counts.probe > 0 || counts.self_warmup > 0)
        || !firsts.is_empty()
    {
        for class in [RequestClass::User, RequestClass::Probe, RequestClass::SelfWarmup] {
            let requests = counts.map(|counts| match class {
                RequestClass::Probe => counts.probe,
                RequestClass::SelfWarmup => counts.self_warmup,
                _ => counts.user,
            });
            table.row(row(class, requests, &firsts));
        }
    }
    section("Who paid the very first request of each route", &table, None)
}

fn row(class: RequestClass, requests: Option<u64>, firsts: &[First<'_>]) -> [String; 6] {
    let paid: Vec<_> = firsts.iter().filter(|first| first.class == class).collect();
    let known: Vec<u64> = paid.iter().filter_map(|first| first.latency_ns).collect();
    let at_least = if known.len() < paid.len() { "≥ " } else { "" };
    let sum = known.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let worst = paid.iter().filter(|first| first.latency_ns.is_some()).max_by_key(|first| first.latency_ns);
    let or_absent = |shown: bool, text: String| if shown { text } else { ABSENT.to_owned() };
    [
        class_word(class),
        requests.map_or_else(|| ABSENT.to_owned(), count),
        or_absent(!firsts.is_empty(), format!("{} of {}", paid.len(), firsts.len())),
        or_absent(!known.is_empty(), format!("{at_least}{}", duration(sum))),
        maybe(worst.and_then(|first| first.latency_ns)),
        worst.map_or_else(
            || ABSENT.to_owned(),
            |first| cut(&route_name(Some(first.route.0), first.route.1), ROUTE_WIDTH),
        ),
    ]
}

/// The very first request of each route, whether users called the route or not. None of a late timeline, because
/// nobody knows what was before.
fn firsts(timeline: &Timeline) -> Vec<First<'_>> {
    if timeline.completeness.as_ref().is_some_and(|completeness| completeness.late == Some(true)) {
        return Vec::new();
    }
    let mut classes: BTreeMap<(&str, &str), RequestClass> = timeline
        .routes
        .iter()
        .map(|route| ((route.method.as_str(), route.route.as_str()), route.first_class()))
        .filter(|(_, class)| *class != RequestClass::Unspecified)
        .collect();
    let mut earliest: BTreeMap<((&str, &str), i32), &Request> = BTreeMap::new();
    let mut kept: Vec<&Request> = timeline.requests.iter().collect();
    kept.sort_by_key(|request| request.since_exec_ns);
    for request in kept {
        let route = (request.method.as_deref().unwrap_or_default(), request.route.as_str());
        classes.entry(route).or_insert(request.class());
        earliest.entry((route, request.class)).or_insert(request);
    }
    let latency_ns = |route, class: RequestClass| {
        let request = earliest.get(&(route, class.into()))?;
        // The first of a route's user requests may still be open when the second has ended.
        let is_first = class != RequestClass::User || request.route_ordinal == Some(1);
        is_first.then_some(request.latency_ns)
    };
    classes
        .into_iter()
        .map(|(route, class)| First { route, class, latency_ns: latency_ns(route, class) })
        .collect()
}
