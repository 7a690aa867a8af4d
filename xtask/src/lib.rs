//! Set-up, build, demo and tests of this repository; the end-to-end tests use the same parts.
//!
//! Everything that is measured runs as a child of this process, is ended by its id, and dies with it.

#![deny(unsafe_code)]

pub mod bench;
pub mod build;
pub mod clock;
pub mod demo;
pub mod hello;
pub mod http;
pub mod interrupt;
pub mod jdk;
pub mod load;
pub mod postgres;
pub mod process;
pub mod repo;
pub mod report;
pub mod server;
pub mod service;
pub mod setup;
pub mod step;
pub mod stub;
pub mod testbed;
pub mod timeline;
pub mod traced;
pub mod truth;
pub mod wait;
