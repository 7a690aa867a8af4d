//! Tables as kubectl prints them: aligned columns, two blanks apart, no lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment};

use super::format::harmless;

/// Rows under a header. Headings that start with `>` are of numbers, which end flush.
pub(super) struct Table {
    table: comfy_table::Table,
    indent: &'static str,
}

impl Table {
    pub(super) fn new<'a>(indent: &'static str, headings: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        let headings: Vec<_> = headings.into_iter().collect();
        table.set_header(headings.iter().map(|heading| Cell::new(heading.trim_start_matches('>'))));
        for (column, heading) in table.column_iter_mut().zip(&headings) {
            column.set_padding((0, 2));
            if heading.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { table, indent }
    }

    pub(super) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.table.add_row(cells.into_iter().map(|cell| Cell::new(harmless(cell.as_ref()))));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The lines, each ended.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in self.table.lines() {
            text.push_str(self.indent);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
