//! The kernel/user ABI.
