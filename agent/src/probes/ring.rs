//! The ring buffer as something to wait for.

use std::io;

use aya::maps::{MapData, RingBuf};
use tokio::io::unix::AsyncFd;

/// A ring buffer that wakes its reader.
pub type Ring = AsyncFd<RingBuf<MapData>>;

/// Registers the ring buffer with the runtime.
///
/// # Errors
/// When the fd cannot be registered.
pub fn watch(ring: RingBuf<MapData>) -> io::Result<Ring> {
    // SAFETY: the map keeps one fd open for as long as it lives, and nothing here takes it out of the `AsyncFd`.
    unsafe { AsyncFd::register(ring) }.map_err(io::Error::from)
}
