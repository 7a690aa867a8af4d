//! Timelines as plain text, for people.
//!
//! Everything fits in 120 columns, except lists in their wide form. What was not measured is `-` or left out.

mod bar;
mod completeness;
mod connections;
mod facts;
mod first;
mod format;
mod jvm;
mod ledger;
mod list;
mod packages;
mod payers;
mod requests;
mod sections;
mod style;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use proto::v1::Timeline;

pub use completeness::completeness;
pub use format::{count, duration};
pub use list::list;
pub use requests::requests;
pub use style::Style;

/// Columns of a terminal that everything but a wide list fits in.
const WIDTH: usize = 120;

/// A whole timeline in plain text: what the cold start cost first, then why.
pub fn describe(timeline: &Timeline) -> String {
    describe_with(timeline, Style::default())
}

/// A whole timeline, as the reader's side can show it.
pub fn describe_with(timeline: &Timeline, style: Style) -> String {
    let tables = [
        sections::findings(timeline),
        payers::payers(timeline),
        sections::milestones(timeline),
        first::first_requests(timeline, style),
        jvm::by_requests(timeline),
        jvm::by_phase(timeline),
        sections::routes(timeline),
        sections::cpu(timeline),
        connections::outbound(timeline),
        connections::inbound(timeline),
        facts::facts(timeline),
    ];
    let mut text = summary::summary(timeline);
    for table in tables {
        if let Some((title, rows)) = table.split_once('\n') {
            text.push('\n');
            text.push_str(&style.paint(style::Ink::Title, title));
            text.push('\n');
            text.push_str(rows);
        }
    }
    text
}
