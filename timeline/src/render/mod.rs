//! Timelines as plain text, for people.
//!
//! Everything fits in 120 columns, except lists in their wide form. What was not measured is `-` or left out.

mod completeness;
mod format;
mod list;
mod sections;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use proto::v1::Timeline;

pub use completeness::completeness;
pub use format::{count, duration};
pub use list::list;

/// Columns of a terminal that everything but a wide list fits in.
const WIDTH: usize = 120;

/// A whole timeline: what the cold start cost first, then why.
pub fn describe(timeline: &Timeline) -> String {
    let sections = [
        summary::summary(timeline),
        sections::findings(timeline),
        sections::milestones(timeline),
        sections::routes(timeline),
        sections::cpu(timeline),
        sections::connections(timeline),
    ];
    let sections: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    sections.join("\n")
}
