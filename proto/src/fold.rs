//! The fold: partial timelines become one, by protobuf's own merge rules.

use std::collections::HashMap;

use prost::{DecodeError, Message};

use crate::v1::{Milestone, Timeline};

/// Merges a partial timeline into what is known already, and normalises the result.
///
/// Folding the parts one after the other gives what folding their concatenation gives.
pub fn fold(known: &mut Timeline, update: &Timeline) {
    append(known, update);
    normalise(known);
}

/// Decodes a stored timeline.
///
/// # Errors
///
/// When the bytes are no encoded `Timeline`.
pub fn decode(bytes: &[u8]) -> Result<Timeline, DecodeError> {
    Timeline::decode(bytes)
}

/// Protobuf's merge: repeated fields append, scalars replace, messages merge.
fn append(known: &mut Timeline, update: &Timeline) {
    known
        .merge(update.encode_to_vec().as_slice())
        .expect("a message decodes from its own encoding: both sides are the same generated type");
}

/// Brings the lists whose entries change after they were first sent to one entry a key, and instants in order.
///
/// Of routes (by method and route) and connections (by ordinal) the latest entry wins. Of milestones (by kind) the
/// earliest instant wins, because a kind names the first time that something happened; of equal instants the latest
/// entry, so that its evidence can be completed. A timeline with gaps is not complete, whoever noted the gap.
pub fn normalise(timeline: &mut Timeline) {
    keep_latest(&mut timeline.routes, |route| (route.method.clone(), route.route.clone()));
    keep_latest(&mut timeline.connections, |connection| connection.ordinal);
    timeline.connections.sort_by_key(|connection| connection.ordinal);
    keep_earliest(&mut timeline.milestones);
    timeline.milestones.sort_by_key(|milestone| (milestone.since_exec_ns, milestone.kind));
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
