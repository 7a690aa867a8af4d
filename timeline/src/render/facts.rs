//! What a JVM shows of itself, with where it was read.

use std::iter::once;

use proto::v1::{Fact, Timeline};

use super::WIDTH;
use super::format::{broken, cut};
use super::sections::{INDENT, section};
use super::table::Table;
use crate::sample::FACTS;

/// Columns of the terminal for a name and for a source, and what they leave for a value.
const NAME_WIDTH: usize = 30;
const SOURCE_WIDTH: usize = 40;
/// Lines of the terminal for one value.
const LINES: usize = 8;

/// Names in the order of [`FACTS`], those that are not among them after. What is long goes on below itself.
pub(super) fn facts(timeline: &Timeline) -> String {
    let mut facts: Vec<&Fact> = timeline.facts.iter().collect();
    facts.sort_by_key(|fact| {
        let known = FACTS.iter().position(|(name, _)| *name == fact.name);
        (known.unwrap_or(FACTS.len()), &fact.name)
    });
    let sources: Vec<_> = facts.iter().map(|fact| broken(&fact.source, SOURCE_WIDTH, LINES)).collect();
    let name_width = widest(facts.iter().map(|fact| cut(&fact.name, NAME_WIDTH)), "NAME");
    let source_width = widest(sources.iter().flatten(), "SOURCE");
    let value_width = WIDTH - INDENT.len() - (name_width + 2) - (2 + source_width);
    let mut table = Table::new(INDENT, ["NAME", "VALUE", "SOURCE"]);
    let mut previous = None;
    for (fact, source) in facts.into_iter().zip(sources) {
        let name = if previous == Some(&fact.name) { String::new() } else { cut(&fact.name, NAME_WIDTH) };
        previous = Some(&fact.name);
        let value = broken(&fact.value, value_width, LINES);
        let (lines, blank) = (value.len().max(source.len()), String::new());
        let names = once(&name).chain(std::iter::repeat(&blank));
        for (at, name) in (0..lines).zip(names) {
            table.row([name, value.get(at).unwrap_or(&blank), source.get(at).unwrap_or(&blank)]);
        }
    }
    section("Facts", &table, None)
}

/// The latest value of a name.
pub(super) fn value<'a>(timeline: &'a Timeline, name: &str) -> Option<&'a str> {
    timeline.facts.iter().rev().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
}

fn widest(cells: impl Iterator<Item = impl AsRef<str>>, heading: &str) -> usize {
    cells.map(|cell| cell.as_ref().chars().count()).chain(once(heading.len())).max().unwrap_or_default()
}
