//! The few numbers of a timeline that lists, metrics and alerts show.

use crate::v1::{MilestoneKind, PhaseKind, Route, SteadyVerdict, Timeline};

/// A timeline at a glance. What could not be measured is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Headline<'a> {
    /// exec → first readiness probe answered well.
    pub ready_ns: Option<u64>,
    /// Latency of the first user request of the process.
    pub first_request_ns: Option<u64>,
    /// Statistics of the route that took the first user request; when it cannot be told, of the route with the
    /// highest cold penalty.
    pub route: Option<&'a Route>,
    /// Median latency of that route once warm: of its 11th to 200th request, else of its 2nd to 10th.
    pub later_p50_ns: Option<u64>,
    /// Cold penalty of that route.
    pub cold_penalty_ns: Option<u64>,
    /// exec → steady, when it was reached.
    pub steady_ns: Option<u64>,
    /// Whether the timeline proves that nothing was missed. Absent while that is open.
    pub complete: Option<bool>,
}

impl<'a> Headline<'a> {
    /// Reads the numbers of a timeline, whole or without its requests.
    pub fn of(timeline: &'a Timeline) -> Self {
        let first_request_ns = first_request_ns(timeline);
        let route = first_route(timeline, first_request_ns);
        Self {
            ready_ns: milestone_ns(timeline, MilestoneKind::Ready),
            first_request_ns,
            route,
            later_p50_ns: route.and_then(|route| route.p50_11_to_200_ns.or(route.p50_2_to_10_ns)),
            cold_penalty_ns: route.and_then(|route| route.cold_penalty_ns),
            steady_ns: timeline
                .steady
                .as_ref()
                .filter(|steady| steady.verdict() == SteadyVerdict::Reached)
                .map(|steady| steady.since_exec_ns)
                .or_else(|| milestone_ns(timeline, MilestoneKind::Steady)),
            complete: timeline.completeness.as_ref().and_then(|completeness| completeness.complete),
        }
    }
}

/// Time from exec to a milestone, when it was reached.
pub fn milestone_ns(timeline: &Timeline, kind: MilestoneKind) -> Option<u64> {
    timeline
        .milestones
        .iter()
        .find(|milestone| milestone.kind() == kind)
        .map(|milestone| milestone.since_exec_ns)
}

fn first_request_ns(timeline: &Timeline) -> Option<u64> {
    let kept = timeline.requests.iter().find(|request| request.ordinal == Some(1));
    kept.map(|request| request.latency_ns).or_else(|| {
        timeline
            .phases
            .iter()
            .find(|phase| phase.kind() == PhaseKind::FirstRequest)
            .map(|phase| phase.length_ns)
    })
}

fn first_route(timeline: &Timeline, first_request_ns: Option<u64>) -> Option<&Route> {
    timeline
        .routes
        .iter()
        .find(|route| first_request_ns.is_some() && route.first_ns == first_request_ns)
        .or_else(|| timeline.routes.iter().max_by_key(|route| route.cold_penalty_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Milestone, Phase, Request, Steady};

    fn route(path: &str, first_ns: u64, cold_penalty_ns: u64) -> Route {
        Route {
            route: path.into(),
            first_ns: Some(first_ns),
            cold_penalty_ns: Some(cold_penalty_ns),
            p50_2_to_10_ns: Some(7),
            ..Route::default()
        }
    }

    #[test]
    fn the_route_of_the_first_request_speaks_for_the_timeline() {
        let mut timeline = Timeline {
            routes: vec![route("/slow", 900, 850), route("/first", 100, 90)],
            requests: vec![Request { ordinal: Some(1), latency_ns: 100, ..Request::default() }],
            ..Timeline::default()
        };
        assert_eq!(Headline::of(&timeline).route.unwrap().route, "/first");
        assert_eq!(Headline::of(&timeline).cold_penalty_ns, Some(90));
        assert_eq!(Headline::of(&timeline).later_p50_ns, Some(7));

        timeline.requests.clear();
        assert_eq!(Headline::of(&timeline).route.unwrap().route, "/slow", "nothing tells which was first");
        assert_eq!(Headline::of(&timeline).first_request_ns, None);

        let kind = PhaseKind::FirstRequest.into();
        timeline.phases = vec![Phase { kind, length_ns: 100, ..Phase::default() }];
        assert_eq!(Headline::of(&timeline).route.unwrap().route, "/first", "the phase tells it");
    }

    #[test]
    fn an_observation_that_ran_out_is_not_steady() {
        let verdict = |verdict: SteadyVerdict| Timeline {
            steady: Some(Steady { verdict: verdict.into(), since_exec_ns: 5, ..Steady::default() }),
            ..Timeline::default()
        };
        assert_eq!(Headline::of(&verdict(SteadyVerdict::Limit)).steady_ns, None);
        assert_eq!(Headline::of(&verdict(SteadyVerdict::Reached)).steady_ns, Some(5));
    }

    #[test]
    fn nothing_is_made_up_for_an_empty_timeline() {
        assert_eq!(Headline::of(&Timeline::default()), Headline::default());
        let ready = Milestone { kind: MilestoneKind::Ready.into(), since_exec_ns: 3, ..Milestone::default() };
        let timeline = Timeline { milestones: vec![ready], ..Timeline::default() };
        assert_eq!(Headline::of(&timeline).ready_ns, Some(3));
    }
}
