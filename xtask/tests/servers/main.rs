//! Every server of the testbed under `jcold-agent trace`: what was counted is what was sent.

mod bad_input;
mod counts;
mod garbage;
mod oddities;
mod tls;
