//! `jcold.v1`: the contract between agent, collector and clients.
#![forbid(unsafe_code)]

pub mod address;
pub mod duration;
pub mod fold;
pub mod headline;
pub mod json;

/// Messages, services and clients of package `jcold.v1`; the comments are in the `.proto` files.
#[allow(missing_docs, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("jcold.v1");
}

/// The encoded `FileDescriptorSet` of the package, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Most bytes of one encoded message that collector and clients accept: a timeline at the observation limit has
/// thousands of intervals, and gRPC's default of 4 MiB leaves too little room for it.
pub const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
