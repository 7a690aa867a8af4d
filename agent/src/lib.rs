//! The node agent, as a library for its binary and its tests.

pub mod export;
