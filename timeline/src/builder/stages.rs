//! Spans told by the numbers of user requests.

use std::ops::RangeInclusive;

use proto::v1::{self, MilestoneKind, StageKind};

use crate::{
    milestones::{MOMENT_NS, Milestones},
    work::Work,
};

/// Stages that end with requests, and their ordinals.
const GROUPS: [(StageKind, RangeInclusive<u64>); 3] =
    [(StageKind::First, 1..=1), (StageKind::StageKind2To10, 2..=10), (StageKind::StageKind11To200, 11..=200)];

/// Requests of one stage.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    ended: u64,
    /// The highest that ended.
    last_ordinal: u64,
    /// When the last of them ended, since exec.
    last_ns: u64,
}

/// The stages of one process.
#[derive(Debug)]
pub(super) struct Stages {
    /// Nobody knows which request was the first.
    late: bool,
    groups: [Group; GROUPS.len()],
    told: Vec<v1::Stage>,
    /// So many of these an earlier agent told: they stay as it saw them.
    known: usize,
}

impl Stages {
    pub fn new(late: bool) -> Self {
        Self { late, groups: [Group::default(); GROUPS.len()], told: Vec::new(), known: 0 }
    }

    /// Goes on where an earlier agent stopped.
    pub fn resume(&mut self, known: &v1::Timeline) {
        self.told.clone_from(&known.stages);
        self.known = self.told.len();
        let last = GROUPS.last().map_or(0, |(_, ordinals)| *ordinals.end());
        let ended = known.request_counts.map_or(0, |counts| counts.user).min(last);
        for ordinal in 1..=ended {
            let request = known.requests.iter().find(|request| request.ordinal == Some(ordinal));
            self.ended(ordinal, request.map_or(0, |r| r.since_exec_ns.saturating_add(r.latency_ns)));
        }
    }

    /// A user request ended, while the process was observed.
    pub fn ended(&mut self, ordinal: u64, end_ns: u64) {
        if let Some(index) = GROUPS.iter().position(|(_, ordinals)| ordinals.contains(&ordinal)) {
            let group = &mut self.groups[index];
            group.ended += 1;
            group.last_ordinal = group.last_ordinal.max(ordinal);
            group.last_ns = group.last_ns.max(end_ns);
        }
    }

    /// Tells the stages that have ended, once what was done in them is known; all when `now_ns` is `None`.
    pub fn settle(&mut self, now_ns: Option<u64>, milestones: &Milestones, work: &mut Work) {
        for span in self.spans(now_ns, milestones) {
            let end_ns = span.since_exec_ns + span.length_ns;
            let place = self.told.iter().position(|told| told.kind == span.kind);
            let is_told = place.is_some_and(|place| {
                place < self.known || v1::Stage { jvm: None, ..self.told[place].clone() } == span
            });
            if is_told || !work.fix(now_ns, end_ns) {
                continue;
            }
            let stage = v1::Stage { jvm: work.between(span.since_exec_ns, end_ns), ..span };
            match place {
                Some(place) => self.told[place] = stage,
                None => self.told.push(stage),
            }
        }
    }

    pub fn told(&self) -> &[v1::Stage] {
        &self.told
    }

    /// The stages that have ended, without the work.
    fn spans(&self, now_ns: Option<u64>, milestones: &Milestones) -> Vec<v1::Stage> {
        let mut spans = Vec::with_capacity(2 + GROUPS.len());
        if self.late {
            return spans;
        }
        let mut add = |kind: StageKind, start_ns: u64, end_ns: u64, to_ordinal| {
            let length_ns = end_ns.saturating_sub(start_ns);
            let kind = kind.into();
            spans.push(v1::Stage { kind, since_exec_ns: start_ns, length_ns, to_ordinal, jvm: None });
        };
        // A request's end is known a moment after it.
        let is_over = milestones
            .until_ns()
            .is_some_and(|until_ns| now_ns.is_none_or(|now_ns| until_ns.saturating_add(MOMENT_NS) <= now_ns));
        let first = milestones.at(MilestoneKind::FirstRequest);
        let before_first = |at: &u64| first.is_none_or(|first| *at <= first);
        let ready = milestones.at(MilestoneKind::Ready).filter(before_first);
        let listen = milestones.at(MilestoneKind::PortListen).filter(before_first);
        // A readiness probe may still come before the first user.
        let begin = ready.or(listen.filter(|_| first.is_some() || is_over));
        if let Some(begin_ns) = begin {
            add(StageKind::BeforeReady, 0, begin_ns, None);
        }
        let Some(first_ns) = first else { return spans };
        if let Some(begin_ns) = begin {
            add(StageKind::ReadyToFirst, begin_ns, first_ns, None);
        }
        let mut start_ns = first_ns;
        for ((kind, ordinals), group) in GROUPS.iter().zip(&self.groups) {
            let is_whole = group.ended > ordinals.end() - ordinals.start();
            if !is_whole && (!is_over || self.groups[0].ended == 0) {
                break;
            }
            if group.ended > 0 {
                let end_ns = group.last_ns.max(start_ns);
                add(*kind, start_ns, end_ns, Some(group.last_ordinal));
                start_ns = end_ns;
            }
        }
        spans
    }
}
