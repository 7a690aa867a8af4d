//! The collector: agents' updates in, answers about timelines out.
//!
//! ```text
//! agents ══Push══▶ ingest ─▶ store (one writer, SQLite) ─▶ query ══▶ cli, grpcurl
//!                                                       └▶ metrics ──▶ Prometheus
//! ```
#![forbid(unsafe_code)]

pub mod app;
pub mod clock;
pub mod config;
pub mod ingest;
pub mod metrics;
pub mod query;
pub mod store;
