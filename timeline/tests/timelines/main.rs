//! Events in, timelines out.

mod common;
mod life;
mod replay;
mod requests;
