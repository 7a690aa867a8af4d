//! The agent's own numbers, on loopback.

use std::net::SocketAddr;

use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use tokio::{net::TcpListener, sync::watch};

use crate::{probes::Usage, tracker::Status};

/// Media type of the OpenMetrics text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics` until the sender of `status` is gone.
///
/// # Errors
/// When the address cannot be bound.
pub async fn listen(
    address: SocketAddr,
    status: watch::Receiver<Status>,
) -> std::io::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::bind(address).await?;
    let mut ended = status.clone();
    let app = Router::new().route("/metrics", get(serve)).with_state(status);
    Ok(async move {
        let stop = async move { while ended.changed().await.is_ok() {} };
        if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stop).await {
            tracing::error!(%address, %error, "metrics are no longer served");
        }
    })
}

async fn serve(State(status): State<watch::Receiver<Status>>) -> impl IntoResponse {
    let status = *status.borrow();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Numbers(status)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    ([(header::CONTENT_TYPE, OPENMETRICS)], text)
}

#[derive(Debug)]
struct Numbers(Status);

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Status { hot, hot_ns, cold_jvms, jvms, delivered, counters, misses, map_bytes, map_entries } =
            self.0;
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: i64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        gauge("jcold_agent_hot", "1 while the hot tier of probes is attached", None, i64::from(hot))?;
        gauge("jcold_agent_jvms", "JVMs whose timeline is not over", None, signed(jvms))?;
        gauge("jcold_agent_cold_jvms", "JVMs between exec and their verdict", None, signed(cold_jvms))?;
        gauge(
            "jcold_agent_maps",
            "Kernel memory of the probes' maps",
            Some(&Unit::Bytes),
            signed(map_bytes),
        )?;
        let mut entries = encoder.encode_descriptor(
            "jcold_agent_map_entries",
            "Entries of the probes' maps in use",
            None,
            MetricType::Gauge,
        )?;
        let Usage { processes, threads, sockets } = map_entries;
        for (map, used) in [("processes", processes), ("threads", threads), ("sockets", sockets)] {
            ConstGauge::new(signed(used)).encode(entries.encode_family(&[("map", map)])?)?;
        }
        let hot_seconds = ConstCounter::new(hot_ns as f64 / 1e9);
        let help = "Time with the hot tier attached";
        hot_seconds.encode(encoder.encode_descriptor(
            "jcold_agent_hot",
            help,
            Some(&Unit::Seconds),
            hot_seconds.metric_type(),
        )?)?;
        let mut counter = |name: &str, help: &str, value: u64| {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
        };
        counter("jcold_agent_events_delivered", "Records that reached the agent", delivered)?;
        counter("jcold_agent_probe_misses", "Runs of probes that the kernel skipped", misses)?;
        let produced = counters.get(agent_ebpf::Counter::Produced);
        counter("jcold_agent_events_produced", "Records that the probes made", produced)?;
        let mut dropped = encoder.encode_descriptor(
            "jcold_agent_events_dropped",
            "Records and map entries that found no room, by where",
            None,
            MetricType::Counter,
        )?;
        for &(which, label) in agent_ebpf::Counter::ALL {
            if which != agent_ebpf::Counter::Produced {
                ConstCounter::new(counters.get(which)).encode(dropped.encode_family(&[("where", label)])?)?;
            }
        }
        Ok(())
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
