//! `/metrics` in OpenMetrics text.
//!
//! Numbers of timelines and agents are read from the store at each scrape, so a restart loses none of them; only the
//! counters of this process live in memory.

mod exposition;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::clock::now_ns;
use crate::store::{Filter, Outcome, Store, StoreError};

/// Timelines read at a time.
const PAGE: u32 = 500;

/// What this process did with updates since its start. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    stored: Counter,
    duplicate: Counter,
    rejected: Counter,
}

/// Answers scrapes.
#[derive(Clone, Debug)]
pub struct Metrics {
    store: Store,
    /// How far back timelines and agents have series of their own.
    window: Duration,
    process: Arc<Registry>,
}

// === impl Counters ===

impl Counters {
    /// Counts what became of an update.
    pub fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Stored => self.stored.inc(),
            Outcome::Duplicate => self.duplicate.inc(),
        };
    }

    /// Counts an update that was not acceptable.
    pub fn count_rejected(&self) {
        self.rejected.inc();
    }
}

// === impl Metrics ===

impl Metrics {
    /// Timelines exec'd within `window` before a scrape have gauges.
    pub fn new(store: Store, counters: &Counters, window: Duration) -> Self {
        let mut process = Registry::default();
        for (name, help, counter) in [
            ("jcold_collector_updates_stored", "Updates of agents stored since the start", &counters.stored),
            (
                "jcold_collector_updates_duplicate",
                "Updates that were stored already and only acknowledged again",
                &counters.duplicate,
            ),
            ("jcold_collector_updates_rejected", "Updates refused as malformed", &counters.rejected),
        ] {
            process.register(name, help, counter.clone());
        }
        Self { store, window, process: Arc::new(process) }
    }

    /// The HTTP routes.
    pub fn router(self) -> Router {
        Router::new().route("/metrics", get(serve)).with_state(self)
    }

    /// The text of one scrape.
    pub async fn text(&self) -> Result<String, StoreError> {
        let window_ns = i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX);
        let since_ns = now_ns().saturating_sub(window_ns);
        let mut scrape = Registry::default();
        let timelines = exposition::Timelines::register(&mut scrape);
        let filter = Filter { since_ns, ..proto::v1::TimelineFilter::default().into() };
        let mut after = None;
        loop {
            let page = self.store.list(&filter, after.as_ref(), PAGE).await?;
            for (_, timeline) in &page {
                timelines.set(timeline);
            }
            if page.len() < PAGE as usize {
                break;
            }
            after = page.into_iter().next_back().map(|(place, _)| place);
        }
        exposition::durations(&mut scrape, &self.store.durations().await?);
        exposition::agents(&mut scrape, &self.store.agents(since_ns).await?);
        let mut text = String::new();
        encode_registry(&mut text, &scrape)
            .and_then(|()| encode_registry(&mut text, &self.process))
            .and_then(|()| encode_eof(&mut text))
            .expect("writing to a string does not fail");
        Ok(text)
    }
}

async fn serve(State(metrics): State<Metrics>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics.text().await {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a scrape failed");
            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
    }
}
