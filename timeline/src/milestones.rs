//! The instants of a timeline, and the phases between them.

use proto::v1::{self, MilestoneKind, PhaseKind};

use crate::{cpu::PhaseSpan, wire::route::is_health_check};

/// Memory that is read so long after an instant is told as of then: an answer is known to be over when another begins,
/// its connection is closed, or nothing was written for a second.
pub(crate) const MOMENT_NS: u64 = 1_200_000_000;

/// The instants of one process.
#[derive(Debug)]
pub(crate) struct Milestones {
    exec_ns: u64,
    wall_offset_ns: i64,
    reached: Vec<v1::Milestone>,
    /// End of the first user request, since exec.
    first_ended_ns: Option<u64>,
    /// End of the observation, since exec.
    until_ns: Option<u64>,
}

impl Milestones {
    pub fn new(exec_ns: u64, wall_offset_ns: i64) -> Self {
        Self { exec_ns, wall_offset_ns, reached: Vec::new(), first_ended_ns: None, until_ns: None }
    }

    /// Takes over what an earlier agent had seen.
    pub fn resume(&mut self, known: &v1::Timeline) {
        self.reached.clone_from(&known.milestones);
        let first = known.requests.iter().find(|request| request.ordinal == Some(1));
        // A first request that ended unseen leaves no phase of its own.
        let unseen = || self.at(MilestoneKind::FirstRequest);
        self.first_ended_ns = first.map(|first| first.since_exec_ns + first.latency_ns).or_else(unseen);
    }

    /// Notes an instant, unless its kind was reached before.
    pub fn reach(&mut self, kind: MilestoneKind, at_ns: u64, evidence: String) {
        if self.at(kind).is_none() {
            let since_exec_ns = at_ns.saturating_sub(self.exec_ns);
            let at = Some(self.wall(at_ns));
            self.reached.push(v1::Milestone { kind: kind.into(), since_exec_ns, at, evidence, memory: None });
        }
    }

    pub fn first_request(&mut self, ready_ns: u64, line: String) {
        self.reach(MilestoneKind::FirstRequest, ready_ns, line);
    }

    /// Sees which instants a request marks by its end; `serving` is what a gRPC health check was told.
    pub fn request_ended(&mut self, request: &v1::Request, end_ns: u64, serving: Option<bool>) {
        if request.ordinal == Some(1) {
            self.first_ended_ns.get_or_insert(end_ns.saturating_sub(self.exec_ns));
        }
        if request.class() == v1::RequestClass::Probe {
            let status = request.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
            let line = format!("{} {} → {status}", request.method.as_deref().unwrap_or("?"), request.route);
            let answered = request.status.is_some_and(|status| (200..400).contains(&status));
            // gRPC answers with 200 whatever it says.
            let good = answered && serving.unwrap_or(!is_health_check(&request.route));
            self.reach(MilestoneKind::FirstProbe, end_ns, line.clone());
            if good && asks_for_readiness(&request.route) {
                self.reach(MilestoneKind::Ready, end_ns, line);
            }
        }
    }

    /// Nothing is observed after this instant.
    pub fn observed_until(&mut self, at_ns: u64) {
        self.until_ns.get_or_insert(at_ns.saturating_sub(self.exec_ns));
    }

    /// End of the observation, since exec.
    pub fn until_ns(&self) -> Option<u64> {
        self.until_ns
    }

    /// How much memory the process takes: said of the instants that were reached a moment ago. Returns those.
    pub fn remember(&mut self, at_ns: u64, memory: v1::Memory) -> Vec<v1::Milestone> {
        let now_ns = at_ns.saturating_sub(self.exec_ns);
        let mut told = Vec::new();
        for milestone in &mut self.reached {
            if milestone.memory.is_none() && milestone.since_exec_ns + MOMENT_NS >= now_ns {
                milestone.memory = Some(memory);
                told.push(milestone.clone());
            }
        }
        told
    }

    /// In the order in which they became known.
    pub fn reached(&self) -> &[v1::Milestone] {
        &self.reached
    }

    /// Since exec.
    pub fn at(&self, kind: MilestoneKind) -> Option<u64> {
        self.reached
            .iter()
            .find(|milestone| milestone.kind() == kind)
            .map(|milestone| milestone.since_exec_ns)
    }

    /// Boot time as wall time.
    pub fn wall(&self, at_ns: u64) -> prost_types::Timestamp {
        let wall_ns = i128::from(at_ns) + i128::from(self.wall_offset_ns);
        let (seconds, nanos) = (wall_ns.div_euclid(1_000_000_000), wall_ns.rem_euclid(1_000_000_000));
        prost_types::Timestamp {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanos: i32::try_from(nanos).unwrap_or(0),
        }
    }

    /// The phases that have begun, in order and without overlap. The last has no end while it lasts.
    pub fn phases(&self) -> Vec<PhaseSpan> {
        let at = |kind| self.at(kind);
        let first = at(MilestoneKind::FirstRequest);
        let boundaries = [
            (PhaseKind::JvmBoot, Some(0)),
            (PhaseKind::AppStart, at(MilestoneKind::JvmCreated)),
            (PhaseKind::Listening, at(MilestoneKind::PortListen)),
            // Requests that come before readiness leave no idle time.
            (
                PhaseKind::ReadyIdle,
                at(MilestoneKind::Ready).filter(|ready| first.is_none_or(|first| *ready < first)),
            ),
            (PhaseKind::FirstRequest, first),
            (PhaseKind::Warming, self.first_ended_ns),
            (PhaseKind::Steady, at(MilestoneKind::Steady)),
        ];
        let begun: Vec<(PhaseKind, u64)> =
            boundaries.iter().filter_map(|(kind, start_ns)| Some((*kind, (*start_ns)?))).collect();
        let mut phases: Vec<PhaseSpan> = Vec::with_capacity(begun.len());
        for (at, &(kind, start_ns)) in begun.iter().enumerate() {
            let start_ns = phases.last().and_then(|before| before.end_ns).unwrap_or(start_ns);
            let next = begun.get(at + 1).map(|(_, next)| *next).or(self.until_ns);
            phases.push(PhaseSpan { kind, start_ns, end_ns: next.map(|next| next.max(start_ns)) });
        }
        // Observation ends with the verdict as a rule, and then there is nothing to say of the time after it.
        phases.retain(|phase| phase.kind != PhaseKind::Steady || phase.end_ns != Some(phase.start_ns));
        phases
    }
}

/// A pod's liveness and startup probes may be answered long before it is ready. Until the pod's own probes are known,
/// their customary paths tell them apart.
fn asks_for_readiness(route: &str) -> bool {
    let route = route.to_ascii_lowercase();
    !["live", "startup", "started"].iter().any(|other| route.contains(other))
}
