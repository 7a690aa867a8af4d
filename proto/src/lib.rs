//! `jcold.v1`: the contract between agent, collector and clients.

/// Messages, services and clients of package `jcold.v1`; the comments are in the `.proto` files.
#[allow(missing_docs, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("jcold.v1");
}

/// The encoded `FileDescriptorSet` of the package, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
