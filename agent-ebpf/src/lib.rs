//! The layout that the probes and the agent share: records of the ring buffer, values of the maps, and the offsets
//! that the agent resolves before it loads the probes.
//!
//! Everything here is `repr(C)`, of fixed-width integers with explicit padding, and its size is asserted beside it,
//! so that the BPF target and the host agree or the build fails. A record starts with a [`Head`]; its kind is decoded
//! with [`Kind::try_from`], never transmuted. Times are nanoseconds of `CLOCK_BOOTTIME`.
#![no_std]

mod account;
mod jvm;
mod kernel;
mod records;
mod state;

pub use account::*;
pub use jvm::*;
pub use kernel::*;
pub use records::*;
pub use state::*;
