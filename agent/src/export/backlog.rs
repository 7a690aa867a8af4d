//! Updates that the collector has not acknowledged yet.
//!
//! The oldest updates of a timeline are the cold start itself, and what comes later repeats the statistics that
//! changed: so when the backlog is full, a new update is folded into one of the same timeline that still waits, and
//! only when its bytes do not fit either is it dropped. A number is given to an update when it is first sent, so a
//! dropped one leaves no hole in the sequence; it is told to the collector as a gap of its timeline instead.

use std::collections::{HashMap, VecDeque};

use prost::Message as _;
use proto::fold::fold;
use proto::v1::{AgentStats, Completeness, Gap, PushRequest, Timeline};

/// Updates on the wire at a time: enough to keep a batching collector busy, few to send again.
const WINDOW: usize = 512;
/// Bytes of an update that others were folded into, well below gRPC's limit for a message.
const FOLDED_BYTES: usize = 1 << 20;
/// Timelines whose losses are kept apart.
const LOSERS: usize = 4096;

/// Who sends.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub node: String,
    pub agent_instance: String,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Backlog {
    sender: Sender,
    max_updates: usize,
    max_bytes: usize,
    /// Numbered, in order, not acknowledged.
    sent: VecDeque<PushRequest>,
    /// How many of `sent` went out on the present connection.
    on_wire: usize,
    /// Not numbered yet.
    waiting: VecDeque<Timeline>,
    /// Encoded length of all timelines in `sent` and `waiting`.
    bytes: usize,
    stats: Option<AgentStats>,
    lost: HashMap<String, u64>,
    dropped: u64,
    next_sequence: u64,
}

impl Backlog {
    pub(super) fn new(sender: Sender, max_updates: usize, max_bytes: usize) -> Self {
        Self {
            sender,
            max_updates,
            max_bytes,
            sent: VecDeque::new(),
            on_wire: 0,
            waiting: VecDeque::new(),
            bytes: 0,
            stats: None,
            lost: HashMap::new(),
            dropped: 0,
            next_sequence: 1,
        }
    }

    /// Takes an update.
    pub(super) fn push(&mut self, update: Timeline) {
        let bytes = update.encoded_len();
        if update.id.is_empty() || self.bytes + bytes > self.max_bytes {
            self.lose(update.id, 1);
        } else if self.len() < self.max_updates {
            self.bytes += bytes;
            self.waiting.push_back(update);
        } else {
            self.fold_into_waiting(update, bytes);
        }
    }

    fn fold_into_waiting(&mut self, update: Timeline, bytes: usize) {
        let room =
            |other: &&mut Timeline| other.id == update.id && other.encoded_len() + bytes <= FOLDED_BYTES;
        if let Some(other) = self.waiting.iter_mut().rev().find(room) {
            let before = other.encoded_len();
            fold(other, &update);
            self.bytes = self.bytes + other.encoded_len() - before;
        } else {
            self.lose(update.id, 1);
        }
    }

    /// Counts updates of a timeline that are gone, here or on the way here.
    pub(super) fn lose(&mut self, id: String, updates: u64) {
        self.dropped += updates;
        if !id.is_empty() && (self.lost.len() < LOSERS || self.lost.contains_key(&id)) {
            *self.lost.entry(id).or_default() += updates;
        }
        self.note_losses();
    }

    /// Replaces statistics that were not sent yet.
    pub(super) fn set_stats(&mut self, stats: AgentStats) {
        self.stats = Some(stats);
    }

    /// Whether [`Self::next`] has something to send.
    pub(super) fn has_next(&self) -> bool {
        let fresh = !self.waiting.is_empty() || self.stats.is_some();
        self.on_wire < self.sent.len() || (fresh && self.sent.len() < WINDOW)
    }

    /// The next message for the present connection; it is kept until it is acknowledged.
    pub(super) fn next(&mut self) -> Option<PushRequest> {
        if !self.has_next() {
            return None;
        }
        if self.on_wire == self.sent.len() {
            let stats = self.stats.take().map(|stats| AgentStats { updates_dropped: self.dropped, ..stats });
            self.sent.push_back(PushRequest {
                node: self.sender.node.clone(),
                agent_instance: self.sender.agent_instance.clone(),
                sequence: self.next_sequence,
                update: self.waiting.pop_front(),
                stats,
            });
            self.next_sequence += 1;
        }
        self.on_wire += 1;
        self.sent.get(self.on_wire - 1).cloned()
    }

    /// Forgets what is stored; `true` when that was news.
    pub(super) fn acknowledge(&mut self, sequence: u64) -> bool {
        let before = self.sent.len();
        while let Some(request) = self.sent.pop_front_if(|request| request.sequence <= sequence) {
            self.bytes -= request.update.as_ref().map_or(0, Timeline::encoded_len);
            self.on_wire = self.on_wire.saturating_sub(1);
        }
        self.note_losses();
        self.sent.len() < before
    }

    /// A new connection: everything that is not acknowledged goes out again.
    pub(super) fn rewind(&mut self) {
        self.on_wire = 0;
        self.note_losses();
    }

    /// Updates that are not acknowledged.
    pub(super) fn len(&self) -> usize {
        self.sent.len() + self.waiting.len()
    }

    /// Nothing is left to send or to be acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.stats.is_none() && self.lost.is_empty()
    }

    /// Queues the notes of what was lost, once half the room is free, lest a full backlog fills with notes about
    /// itself.
    fn note_losses(&mut self) {
        if self.len() > self.max_updates / 2 || self.bytes > self.max_bytes / 2 {
            return;
        }
        let lost = std::mem::take(&mut self.lost);
        for (id, updates) in lost {
            let note = loss(id, updates);
            self.bytes += note.encoded_len();
            self.waiting.push_back(note);
        }
    }
}

fn loss(id: String, updates: u64) -> Timeline {
    let reason = format!("{updates} updates were dropped: the agent's backlog was full");
    Timeline {
        id,
        completeness: Some(Completeness {
            gaps: vec![Gap { reason, ..Gap::default() }],
            complete: Some(false),
            ..Completeness::default()
        }),
        ..Timeline::default()
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::{Interval, Route};

    use super::*;

    fn backlog(max_updates: usize, max_bytes: usize) -> Backlog {
        Backlog::new(Sender { node: "n1".into(), agent_instance: "a1".into() }, max_updates, max_bytes)
    }

    fn update(id: &str, since_exec_ns: u64) -> Timeline {
        Timeline {
            id: id.into(),
            intervals: vec![Interval { since_exec_ns, ..Interval::default() }],
            ..Timeline::default()
        }
    }

    fn sequences(backlog: &mut Backlog) -> Vec<u64> {
        std::iter::from_fn(|| backlog.next()).map(|request| request.sequence).collect()
    }

    #[test]
    fn what_is_not_acknowledged_goes_out_again_with_the_same_numbers() {
        let mut backlog = backlog(10, 1 << 20);
        (1..=3).for_each(|at| backlog.push(update("t1", at)));
        assert_eq!(sequences(&mut backlog), [1, 2, 3]);
        assert!(backlog.acknowledge(1));
        assert!(!backlog.acknowledge(1), "an old acknowledgement is no news");
        backlog.rewind();
        backlog.push(update("t1", 4));
        assert_eq!(sequences(&mut backlog), [2, 3, 4]);
        backlog.acknowledge(4);
        assert!(backlog.is_empty());
        assert_eq!(backlog.bytes, 0);
    }

    #[test]
    fn a_full_backlog_folds_updates_of_one_timeline_and_loses_nothing() {
        let mut backlog = backlog(2, 1 << 20);
        (1..=50).for_each(|at| backlog.push(update("t1", at)));
        let sent: Vec<_> = std::iter::from_fn(|| backlog.next()).collect();
        assert_eq!(sent.len(), 2);
        let at: Vec<_> = sent
            .into_iter()
            .flat_map(|request| request.update.unwrap().intervals)
            .map(|interval| interval.since_exec_ns)
            .collect();
        assert_eq!(at, (1..=50).collect::<Vec<_>>());
        assert_eq!(backlog.dropped, 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_for_its_timeline_and_for_the_agent() {
        let mut backlog = backlog(2, 1 << 20);
        for id in ["t1", "t2", "t3", "t3", "t4"] {
            backlog.push(update(id, 1));
        }
        backlog.set_stats(AgentStats { version: "1".into(), ..AgentStats::default() });
        let first = backlog.next().unwrap();
        assert_eq!(first.stats.unwrap().updates_dropped, 3);
        assert_eq!(sequences(&mut backlog), [2]);
        backlog.acknowledge(2);
        let mut notes: Vec<_> = std::iter::from_fn(|| backlog.next())
            .map(|request| {
                let note = request.update.unwrap();
                let completeness = note.completeness.unwrap();
                (note.id, completeness.complete, completeness.gaps[0].reason.clone())
            })
            .collect();
        notes.sort();
        let reason = |updates: u64| format!("{updates} updates were dropped: the agent's backlog was full");
        assert_eq!(
            notes,
            [("t3".into(), Some(false), reason(2)), ("t4".into(), Some(false), reason(1))],
            "sequence goes on without a hole"
        );
    }

    #[test]
    fn a_loss_is_told_even_when_nothing_else_is_left_to_send() {
        let mut backlog = backlog(10, 1000);
        backlog.lose("t1".into(), 3);
        assert_eq!(backlog.next().unwrap().update.unwrap().id, "t1");
        backlog.acknowledge(1);
        assert!(backlog.is_empty());
    }

    #[test]
    fn bytes_are_bounded_too() {
        let big = |id: &str| Timeline {
            id: id.into(),
            routes: vec![Route { route: "/x".repeat(200), ..Route::default() }],
            ..Timeline::default()
        };
        let mut backlog = backlog(100, 1000);
        for id in ["t1", "t2", "t3"] {
            backlog.push(big(id));
        }
        assert_eq!((backlog.len(), backlog.dropped), (2, 1));
        assert!(backlog.bytes <= 1000);
    }

    #[test]
    fn statistics_alone_are_a_message_and_only_the_latest_counts() {
        let mut backlog = backlog(10, 1000);
        backlog.set_stats(AgentStats { jvms_followed: 1, ..AgentStats::default() });
        backlog.set_stats(AgentStats { jvms_followed: 2, ..AgentStats::default() });
        let request = backlog.next().unwrap();
        assert_eq!((request.sequence, request.update, request.stats.unwrap().jvms_followed), (1, None, 2));
        assert!(!backlog.is_empty(), "not acknowledged yet");
        backlog.acknowledge(1);
        assert!(backlog.is_empty());
    }

    #[test]
    fn the_wire_holds_a_window() {
        let mut backlog = backlog(WINDOW * 2, 1 << 20);
        (0..WINDOW as u64 + 7).for_each(|at| backlog.push(update("t1", at)));
        assert_eq!(sequences(&mut backlog).len(), WINDOW);
        backlog.acknowledge(7);
        assert_eq!(sequences(&mut backlog).len(), 7);
    }
}
