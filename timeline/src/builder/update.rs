//! What goes out of a timeline: the changes since the last update, or all of it.

use proto::v1;

use super::Builder;
use crate::{builder::Counts, cpu::Accounted, event::Start};

/// How much of each list has gone out in updates.
#[derive(Debug, Default)]
pub(super) struct Sent {
    head: bool,
    milestones: usize,
    /// Milestones that are to be told again, since more is known of them.
    pub(super) again: Vec<v1::Milestone>,
    facts: usize,
    requests: usize,
    gaps: usize,
    phases: Vec<v1::Phase>,
    stages: Vec<v1::Stage>,
    completeness: Option<v1::Completeness>,
    pub(super) steady: bool,
    exit: bool,
    counts: v1::RequestCounts,
}

impl Builder {
    /// All that is known by now came from the collector itself.
    pub(super) fn told_before(&mut self) {
        self.sent.milestones = self.milestones.reached().len();
        self.sent.requests = self.requests.kept().len();
        self.sent.facts = self.facts.len();
        self.sent.stages = self.stages.told().to_vec();
        (self.sent.steady, self.sent.exit) = (self.steady.is_some(), self.exit.is_some());
    }

    /// What has changed since the last update; `last` when nothing more will come.
    pub fn update(&mut self, now_ns: u64, last: bool) -> Option<v1::Timeline> {
        let mut update = v1::Timeline { id: self.start.id.clone(), ..v1::Timeline::default() };
        let mut changed = false;
        if !self.sent.head {
            self.sent.head = true;
            changed = true;
            self.head(&mut update);
        }
        let milestones = self.milestones.reached();
        update.milestones = milestones[self.sent.milestones..].to_vec();
        update.milestones.append(&mut self.sent.again);
        self.sent.milestones = milestones.len();
        update.facts = self.facts[self.sent.facts..].to_vec();
        self.sent.facts = self.facts.len();
        update.requests = self.requests.kept()[self.sent.requests..].to_vec();
        self.sent.requests = self.requests.kept().len();
        update.routes = self.requests.routes(true);
        update.connections = self.outbound.connections(true);
        update.inbound = self.inbound.summary(true);
        let now = (!last).then(|| self.since_exec(now_ns));
        update.intervals = self.cpu.close_intervals(now, self.accounted());
        self.work_of_intervals(&mut update.intervals);
        let phases = self.phases();
        update.phases = phases.iter().filter(|phase| !self.sent.phases.contains(phase)).cloned().collect();
        self.sent.phases = phases;
        let stages = self.stages.told();
        update.stages = stages.iter().filter(|stage| !self.sent.stages.contains(stage)).cloned().collect();
        self.sent.stages = stages.to_vec();
        let counts = self.requests.counts();
        if counts != self.sent.counts {
            self.sent.counts = counts;
            update.request_counts = Some(counts);
            changed = true;
        }
        if let Some(steady) = self.steady
            && !std::mem::replace(&mut self.sent.steady, true)
        {
            update.steady = Some(steady);
            changed = true;
        }
        // The end is told when there is nothing before it that is not.
        if let Some(exit) = self.exit
            && self.pending.is_empty()
            && !std::mem::replace(&mut self.sent.exit, true)
        {
            update.exit = Some(exit);
            changed = true;
        }
        let mut completeness = self.completeness();
        let gaps = std::mem::take(&mut completeness.gaps);
        if self.sent.completeness.as_ref() != Some(&completeness) || gaps.len() > self.sent.gaps {
            self.sent.completeness = Some(completeness.clone());
            completeness.gaps = gaps[self.sent.gaps..].to_vec();
            self.sent.gaps = gaps.len();
            update.completeness = Some(completeness);
            changed = true;
        }
        changed |= !update.milestones.is_empty()
            || !update.requests.is_empty()
            || !update.routes.is_empty()
            || !update.connections.is_empty()
            || !update.inbound.is_empty()
            || !update.facts.is_empty()
            || !update.intervals.is_empty()
            || !update.phases.is_empty()
            || !update.stages.is_empty();
        changed.then_some(update)
    }

    fn head(&self, timeline: &mut v1::Timeline) {
        let Start { jvm, pod, .. } = &self.start;
        timeline.id.clone_from(&self.start.id);
        timeline.node.clone_from(&self.start.node);
        timeline.jvm = Some(v1::Jvm {
            pid: jvm.pid,
            container_pid: jvm.container_pid,
            executable: jvm.executable.clone(),
            main: jvm.main.clone(),
            exec_at: (!self.start.late).then(|| self.milestones.wall(self.start.exec_ns)),
            libjvm: jvm.libjvm.clone(),
        });
        timeline.pod = pod.as_ref().map(|pod| v1::Pod {
            container_id: pod.container_id.clone(),
            uid: pod.uid.clone(),
            qos_class: pod.qos_class.clone(),
            ..v1::Pod::default()
        });
    }

    fn phases(&self) -> Vec<v1::Phase> {
        let mut phases =
            self.cpu.phases(&self.milestones.phases(), self.accounted(), |tid| self.threads.class(tid));
        for phase in &mut phases {
            phase.jvm = self.work.of_phase(phase.kind);
        }
        phases
    }

    fn work_of_intervals(&self, intervals: &mut [v1::Interval]) {
        for interval in intervals {
            let end_ns = interval.since_exec_ns + interval.length_ns;
            if let Some(work) = self.work.between(interval.since_exec_ns, end_ns) {
                interval.classes_loaded = work.classes_loaded;
                interval.compiles = work.compiles;
                interval.compiles_c1 = work.compiles_c1;
                interval.compiles_c2 = work.compiles_c2;
                interval.gc_ns = work.gc_ns;
            }
        }
    }

    fn accounted(&self) -> Accounted {
        Accounted { run_queue: self.start.run_queue, throttling: self.start.throttling }
    }

    fn completeness(&self) -> v1::Completeness {
        let Start { armed_before_exec, late, hot_ns, .. } = self.start;
        let Counts { produced, delivered, dropped, misses } = self.counts;
        let clean = armed_before_exec && !late && dropped == 0 && misses == 0 && produced == delivered;
        v1::Completeness {
            armed_before_exec: Some(armed_before_exec),
            hot_since_exec_ns: hot_ns.map(|at| self.since_exec(at)),
            late: Some(late),
            events_produced: Some(produced),
            events_delivered: Some(delivered),
            events_dropped: Some(dropped),
            probe_misses: Some(misses),
            gaps: self.gaps.clone(),
            complete: Some(clean && self.gaps.is_empty() && hot_ns.is_some()),
        }
    }

    /// The whole timeline as it looks now, less the intervals that went out in updates.
    pub fn snapshot(&mut self) -> v1::Timeline {
        let mut timeline = v1::Timeline::default();
        self.head(&mut timeline);
        timeline.completeness = Some(self.completeness());
        timeline.milestones = self.milestones.reached().to_vec();
        timeline.milestones.sort_by_key(|milestone| milestone.since_exec_ns);
        timeline.phases = self.phases();
        timeline.stages = self.stages.told().to_vec();
        timeline.intervals = self.cpu.open_intervals(self.accounted());
        self.work_of_intervals(&mut timeline.intervals);
        timeline.facts.clone_from(&self.facts);
        timeline.requests = self.requests.kept().to_vec();
        timeline.routes = self.requests.routes(false);
        timeline.connections = self.outbound.connections(false);
        timeline.inbound = self.inbound.summary(false);
        timeline.steady = self.steady;
        timeline.exit = self.exit;
        timeline.request_counts = Some(self.requests.counts());
        timeline
    }
}
