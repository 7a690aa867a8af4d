//! The pure core: decoded events of a JVM process in, its timeline out.
//!
//! Nothing here knows a clock, a file or a socket, and nothing fails: what is missing becomes a noted gap.
#![forbid(unsafe_code)]

mod accounts;
mod builder;
mod class;
mod counted;
mod cpu;
mod event;
mod inbound;
mod ledger;
mod milestones;
mod names;
mod outbound;
mod package;
pub mod recording;
pub mod render;
mod requests;
mod sample;
pub mod service;
mod steady;
pub mod wire;
mod work;

pub use builder::{Builder, Counts, Settings};
pub use class::{ThreadClass, ThreadClasses};
pub use counted::{Compiler, Counted, Probed, Source};
pub use event::{Account, Cause, Event, LastOff, Offs, Service, Start, StartJvm, StartPod, What};
pub use package::package;
pub use requests::{OTHER, UNPARSED};
pub use sample::{COLLECTORS, Collector, FACTS, Fact, Memory, Sample};
pub use steady::Limits;
