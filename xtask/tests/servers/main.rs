//! Every server of the testbed under `jcold-agent trace`: what was counted is what was sent.

mod counts;
