//! Timelines and agents as metric families.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use proto::headline::Headline;
use proto::v1::{AgentStats, Timeline};

use crate::store::{Agent, Durations};

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// Gauges of single timelines.
pub(super) struct Timelines {
    ready: Gauges,
    first_request: Gauges,
    steady: Gauges,
    cold_penalty: Gauges,
    complete: Gauges,
}

// === impl Timelines ===

impl Timelines {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut seconds = |name: &str, help: &str| {
            let family = Gauges::default();
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
            family
        };
        let ready =
            seconds("jcold_ready", "Time from exec to the first successful readiness probe, in seconds");
        let first_request = seconds("jcold_first_request", "Latency of the first user request, in seconds");
        let steady = seconds("jcold_steady", "Time from exec to the steady state, in seconds");
        let cold_penalty = seconds(
            "jcold_cold_penalty",
            "Latency of a route's first user request minus the median of its later ones, in seconds",
        );
        let complete = Gauges::default();
        registry.register(
            "jcold_timeline_complete",
            "1 when the timeline proves that nothing was missed, 0 when it does not",
            complete.clone(),
        );
        Self { ready, first_request, steady, cold_penalty, complete }
    }

    /// Adds a timeline's series; what was not measured has none.
    pub(super) fn set(&self, timeline: &Timeline) {
        let headline = Headline::of(timeline);
        let labels = labels(timeline);
        let set = |family: &Gauges, labels: &Labels, value_ns: Option<u64>| {
            if let Some(value_ns) = value_ns {
                family.get_or_create(labels).set(seconds(value_ns));
            }
        };
        set(&self.ready, &labels, headline.ready_ns);
        set(&self.first_request, &labels, headline.first_request_ns);
        set(&self.steady, &labels, headline.steady_ns);
        if let Some(complete) = headline.complete {
            self.complete.get_or_create(&labels).set(f64::from(u8::from(complete)));
        }
        for route in &timeline.routes {
            let mut labels = labels.clone();
            labels.push(("method", route.method.clone()));
            labels.push(("route", route.route.clone()));
            set(&self.cold_penalty, &labels, route.cold_penalty_ns);
        }
    }
}

fn labels(timeline: &Timeline) -> Labels {
    let pod = timeline.pod.clone().unwrap_or_default();
    vec![
        ("node", timeline.node.clone()),
        ("namespace", pod.namespace.unwrap_or_default()),
        ("workload", pod.workload.unwrap_or_default()),
        ("pod", pod.name.unwrap_or_default()),
        ("timeline", timeline.id.clone()),
    ]
}

/// Histograms over all stored timelines, each counted once.
pub(super) fn durations(registry: &mut Registry, durations: &[Durations]) {
    let first_request = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(|| {
        Histogram::new(exponential_buckets(0.005, 2.0, 14))
    });
    let ready = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(|| {
        Histogram::new(exponential_buckets(0.25, 2.0, 12))
    });
    for row in durations {
        let labels = vec![("namespace", row.namespace.clone()), ("workload", row.workload.clone())];
        for (family, value_ns) in [(&first_request, row.first_request_ns), (&ready, row.ready_ns)] {
            if let Some(value_ns) = value_ns {
                family.get_or_create(&labels).observe(seconds(value_ns.cast_unsigned()));
            }
        }
    }
    registry.register_with_unit(
        "jcold_first_request_duration",
        "Latency of the first user request of each timeline, in seconds",
        Unit::Seconds,
        first_request,
    );
    registry.register_with_unit(
        "jcold_ready_duration",
        "Time from exec to ready of each timeline, in seconds",
        Unit::Seconds,
        ready,
    );
}

/// The agents' own counters, which start at zero with each run of an agent.
pub(super) fn agents(registry: &mut Registry, agents: &[Agent]) {
    let node = |agent: &Agent| vec![("node", agent.node.clone())];
    let mut counter = |name: &str, help: &str, value: fn(&AgentStats) -> u64| {
        let family = Family::<Labels, Counter>::default();
        for agent in agents {
            family.get_or_create(&node(agent)).inc_by(value(&agent.stats));
        }
        registry.register(name, help, family);
    };
    counter("jcold_agent_events_produced", "Events that the agent's probes made", |stats| {
        stats.events_produced
    });
    counter("jcold_agent_events_delivered", "Events that reached the agent", |stats| stats.events_delivered);
    counter("jcold_agent_events_dropped", "Events that found no room on their way to the agent", |stats| {
        stats.events_dropped
    });
    counter("jcold_agent_updates_dropped", "Updates that found no room in the agent's backlog", |stats| {
        stats.updates_dropped
    });
    let hot = Family::<Labels, Counter<f64, AtomicU64>>::default();
    let followed = Gauges::default();
    for agent in agents {
        hot.get_or_create(&node(agent)).inc_by(seconds(agent.stats.hot_ns));
        followed.get_or_create(&node(agent)).set(agent.stats.jvms_followed as f64);
    }
    registry.register_with_unit(
        "jcold_agent_hot",
        "Time for which the agent's hot probes were attached, in seconds",
        Unit::Seconds,
        hot,
    );
    registry.register("jcold_agent_jvms_followed", "JVMs that the agent follows", followed);
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
