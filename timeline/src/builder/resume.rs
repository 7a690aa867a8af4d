//! Going on where an earlier run of the agent stopped.

use proto::v1;

use super::{Builder, Counts, Settings};
use crate::event::Start;

impl Builder {
    /// Goes on with a timeline that an earlier agent began: `known` is what it had told, `now_ns` when this one takes
    /// over. What lies between is a gap.
    pub fn resume(mut start: Start, settings: Settings, known: &v1::Timeline, now_ns: u64) -> Self {
        if let Some(exec_at) = known.jvm.as_ref().and_then(|jvm| jvm.exec_at) {
            let wall_ns = i128::from(exec_at.seconds) * 1_000_000_000 + i128::from(exec_at.nanos);
            start.exec_ns =
                u64::try_from(wall_ns - i128::from(start.wall_offset_ns)).unwrap_or(start.exec_ns);
        }
        let before = known.completeness.clone().unwrap_or_default();
        start.armed_before_exec = before.armed_before_exec.unwrap_or(false);
        let still_late = before.late.unwrap_or(false);
        start.late = still_late;
        start.hot_ns = before.hot_since_exec_ns.map(|since| start.exec_ns + since).or(start.hot_ns);
        let mut builder = Self::new(start, settings);
        builder.milestones.resume(known);
        builder.cpu.resume(&known.phases);
        builder.work.resume(&known.phases);
        builder.facts.clone_from(&known.facts);
        if !still_late {
            builder.requests.resume(known);
            builder.stages.resume(known);
        }
        builder.outbound.resume(known);
        if let Some(at_ns) = builder.milestones.at(v1::MilestoneKind::FirstRequest) {
            builder.detector.first_request(at_ns);
        }
        builder.counts = Counts {
            produced: before.events_produced.unwrap_or(0),
            delivered: before.events_delivered.unwrap_or(0),
            dropped: before.events_dropped.unwrap_or(0),
            misses: before.probe_misses.unwrap_or(0),
        };
        builder.exit = known.exit;
        builder.steady = known.steady;
        builder.told_before();
        // After the verdict nobody had to watch.
        if known.steady.is_none() {
            let last_ns = last_seen(known);
            let now = builder.since_exec(now_ns);
            builder.gap(v1::Gap {
                since_exec_ns: Some(last_ns),
                length_ns: Some(now.saturating_sub(last_ns)),
                reason: "the agent was restarted".to_owned(),
            });
        }
        builder
    }
}

/// The last instant since exec of which a timeline tells anything.
fn last_seen(known: &v1::Timeline) -> u64 {
    let intervals = known.intervals.iter().map(|i| i.since_exec_ns + i.length_ns);
    let requests = known.requests.iter().map(|r| r.since_exec_ns + r.latency_ns);
    let milestones = known.milestones.iter().map(|m| m.since_exec_ns);
    intervals.chain(requests).chain(milestones).max().unwrap_or(0)
}
