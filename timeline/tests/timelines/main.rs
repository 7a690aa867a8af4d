//! Events in, timelines out.

mod common;
mod ledger;
mod life;
mod outbound;
mod replay;
mod requests;
mod work;
