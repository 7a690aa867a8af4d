//! Every server of the testbed under `jcold-agent trace`: what was counted is what was sent.

mod bad_input;
mod counts;
mod garbage;
mod grpc;
mod http2;
mod oddities;
mod tls;
