//! The fold: partial timelines become one, by protobuf's own merge rules.

use std::collections::HashMap;

use prost::Message as _;

use crate::v1::{Interval, Milestone, Timeline};

/// Merges a partial timeline into what is known already, and normalises the result.
///
/// Folding the parts one after the other gives what folding their concatenation gives.
pub fn fold(known: &mut Timeline, update: &Timeline) {
    append(known, update);
    normalise(known);
}

/// Protobuf's merge: repeated fields append, scalars replace, messages merge.
fn append(known: &mut Timeline, update: &Timeline) {
    known
        .merge(update.encode_to_vec().as_slice())
        .expect("a message decodes from its own encoding: both sides are the same generated type");
}

/// Brings the lists whose entries change after they were first sent to one entry a key, and instants in order.
///
/// Of routes (by method and route), connections (by ordinal), phases and stages (by kind), accepted connections (by protocol)
/// and facts (by name and value) the latest entry wins. Intervals with the same begin are two agents' shares of one, and add up. Of milestones (by
/// kind) the earliest instant wins, because a kind names the first time that something happened; of equal instants the
/// latest entry, so that its evidence can be completed. A timeline with gaps is not complete, whoever noted the gap.
pub fn normalise(timeline: &mut Timeline) {
    keep_latest(&mut timeline.routes, |route| (route.method.clone(), route.route.clone()));
    keep_latest(&mut timeline.connections, |connection| connection.ordinal);
    timeline.connections.sort_by_key(|connection| connection.ordinal);
    keep_earliest(&mut timeline.milestones);
    timeline.milestones.sort_by_key(|milestone| (milestone.since_exec_ns, milestone.kind));
    keep_latest(&mut timeline.phases, |phase| phase.kind);
    keep_latest(&mut timeline.stages, |stage| stage.kind);
    keep_latest(&mut timeline.facts, |fact| (fact.name.clone(), fact.value.clone()));
    keep_latest(&mut timeline.inbound, |inbound| inbound.protocol.clone());
    add_up_intervals(&mut timeline.intervals);
    timeline.phases.sort_by_key(|phase| (phase.since_exec_ns, phase.kind));
    if let Some(completeness) = timeline.completeness.as_mut()
        && !completeness.gaps.is_empty()
    {
        completeness.complete = Some(false);
    }
}

/// Keeps the place of a key's first entry and the value of its last.
fn keep_latest<T, K: Eq + std::hash::Hash>(entries: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut places: HashMap<K, usize> = HashMap::with_capacity(entries.len());
    let mut kept: Vec<T> = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        match places.entry(key(&entry)) {
            std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()] = entry,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(entry);
            }
        }
    }
    *entries = kept;
}

fn add_up_intervals(intervals: &mut Vec<Interval>) {
    intervals.sort_by_key(|interval| interval.since_exec_ns);
    intervals.dedup_by(|later, earlier| {
        let same = later.since_exec_ns == earlier.since_exec_ns && later.length_ns == earlier.length_ns;
        if same {
            add_up(earlier, later);
        }
        same
    });
}

fn add_up(interval: &mut Interval, other: &Interval) {
    for (class, cpu_ns) in &other.cpu_ns {
        let sum_ns = interval.cpu_ns.entry(class.clone()).or_default();
        *sum_ns = sum_ns.saturating_add(*cpu_ns);
    }
    // The median of both cannot be told from two medians; that of the share with more requests is the nearer one.
    if other.requests > interval.requests {
        interval.latency_p50_ns = other.latency_p50_ns;
    }
    interval.requests = interval.requests.saturating_add(other.requests);
    interval.latency_max_ns = interval.latency_max_ns.max(other.latency_max_ns);
    let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
    interval.run_queue_ns = sum(interval.run_queue_ns, other.run_queue_ns);
    interval.throttled_ns = sum(interval.throttled_ns, other.throttled_ns);
    interval.classes_loaded = sum(interval.classes_loaded, other.classes_loaded);
    interval.compiles = sum(interval.compiles, other.compiles);
    interval.compiles_c1 = sum(interval.compiles_c1, other.compiles_c1);
    interval.compiles_c2 = sum(interval.compiles_c2, other.compiles_c2);
    interval.gc_ns = sum(interval.gc_ns, other.gc_ns);
}

fn keep_earliest(milestones: &mut Vec<Milestone>) {
    let mut kept: Vec<Milestone> = Vec::with_capacity(milestones.len());
    for milestone in milestones.drain(..) {
        match kept.iter_mut().find(|other| other.kind == milestone.kind) {
            Some(other) if milestone.since_exec_ns <= other.since_exec_ns => *other = milestone,
            Some(_) => {}
            None => kept.push(milestone),
        }
    }
    *milestones = kept;
}

#[cfg(test)]
mod tests;
