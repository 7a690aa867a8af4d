//! Events in, timelines out.

mod common;
mod ledger;
mod life;
mod replay;
mod requests;
