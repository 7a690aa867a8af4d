//! Whose classes were loaded and compiled in the first request.

use std::fmt::Write as _;

use proto::v1::{Overlap, Package};

use super::format::{count, counted, cut};
use super::style::{Ink, Style};
use super::table::Table;

const INDENT: &str = "    ";
/// Packages that are shown; JSON has more.
const ROWS: usize = 10;
/// Columns of the terminal for a package's name.
const NAME_WIDTH: usize = 60;

/// The packages with the most classes, and how many of all were named. Empty when none was.
pub(super) fn packages(overlap: &Overlap, style: Style) -> String {
    if overlap.packages.is_empty() {
        return String::new();
    }
    let sum = |of: fn(&Package) -> u64| overlap.packages.iter().map(of).fold(0, u64::saturating_add);
    let compiles = sum(|package| package.compiles_c1.saturating_add(package.compiles_c2));
    let of = |named: u64, all: Option<u64>| match all {
        Some(all) => format!("{} of {}", count(named), count(all)),
        None => count(named),
    };
    let title = format!(
        "classes loaded in the first request, by package; named: {} classes, {} compiles",
        of(sum(|package| package.classes), overlap.classes_loaded),
        of(compiles, overlap.compiles),
    );
    let mut text = format!("{INDENT}{}\n", style.paint(Ink::Aside, &title));
    let mut table = Table::new(INDENT, ["PACKAGE", ">CLASSES", ">C1", ">C2"]);
    for package in overlap.packages.iter().take(ROWS) {
        table.row([
            cut(&package.name, NAME_WIDTH),
            count(package.classes),
            count(package.compiles_c1),
            count(package.compiles_c2),
        ]);
    }
    text.push_str(&table.text());
    if let Some(hidden) = overlap.packages.len().checked_sub(ROWS).filter(|hidden| *hidden > 0) {
        let _ = writeln!(text, "{INDENT}and {}: see -o json", counted(hidden as u64, "more package"));
    }
    text
}
