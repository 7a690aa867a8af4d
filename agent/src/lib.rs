//! The node agent, as a library for its binary and its tests.

pub mod clock;
pub mod config;
pub mod events;
pub mod export;
pub mod identity;
pub mod jvm;
pub mod metrics;
pub mod preflight;
pub mod probes;
pub mod run;
pub mod trace;
pub mod tracker;
