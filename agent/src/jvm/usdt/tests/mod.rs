//! On the `libjvm.so`s of this machine, on files made for it, and on files that are broken.

mod cases;
mod installed;
mod made;
mod properties;

use std::io::Cursor;

use super::*;

/// What is in a file of any architecture.
fn scanned(bytes: &[u8]) -> Result<Sites, SitesError> {
    let budget = Budget::new(Cursor::new(bytes));
    Ok(scan(&Image::open(&budget)?))
}

/// Each group has the same source.
fn every(source: Source) -> Probed {
    Probed { classes: source, compiles: source, gc: source, safepoints: source, threads: source }
}

/// Those that functions can stand for have them.
fn by_functions() -> Probed {
    let (classes, compiles, safepoints) = (Source::Symbol, Source::Symbol, Source::Symbol);
    Probed { classes, compiles, safepoints, ..Probed::default() }
}
