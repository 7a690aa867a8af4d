//! Tables as kubectl prints them: aligned columns, two blanks apart, no lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment};

use super::format::{ABSENT, cut, harmless};

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

/// A table that drops columns: those in which no row says anything, then those that it has no room for.
pub(super) struct Columns<const N: usize> {
    columns: [Column; N],
    rows: Vec<[Option<String>; N]>,
}

/// A column of such a table.
pub(super) struct Column {
    heading: &'static str,
    /// Stands in a cell that says nothing.
    filler: &'static str,
    /// Stands even when no cell says anything.
    always: bool,
    /// Dropped for want of room, the highest first; zero never.
    spare: u8,
    /// Has the room that the others leave, and is cut to it.
    rest: bool,
}

// === impl Column ===

impl Column {
    pub(super) const fn fixed(heading: &'static str) -> Self {
        Self { heading, filler: ABSENT, always: false, spare: 0, rest: false }
    }

    /// At most one in a table.
    pub(super) const fn rest(heading: &'static str) -> Self {
        Self { heading, filler: ABSENT, always: false, spare: 0, rest: true }
    }

    pub(super) const fn spare(heading: &'static str, spare: u8) -> Self {
        Self { heading, filler: ABSENT, always: false, spare, rest: false }
    }

    pub(super) const fn filled(heading: &'static str, filler: &'static str) -> Self {
        Self { heading, filler, always: false, spare: 1, rest: false }
    }

    pub(super) const fn filled_always(heading: &'static str, filler: &'static str) -> Self {
        Self { heading, filler, always: true, spare: 0, rest: false }
    }
}

// === impl Columns ===

impl<const N: usize> Columns<N> {
    pub(super) const fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: [Option<String>; N]) {
        self.rows.push(cells);
    }

    /// The table, no wider than `width` where its spare columns allow that, and the headings of those that it then
    /// lacks.
    pub(super) fn fitted(&self, indent: &'static str, width: usize) -> (Table, Vec<&'static str>) {
        let says = |at: usize| self.columns[at].always || self.rows.iter().any(|row| row[at].is_some());
        let mut stand: Vec<usize> = (0..N).filter(|at| says(*at)).collect();
        let mut left_out = Vec::new();
        loop {
            let table = self.of(&stand, indent, width);
            let fits = table.text().lines().all(|line| line.chars().count() <= width);
            let spare = stand.iter().copied().filter(|at| self.columns[*at].spare > 0);
            let Some(dropped) = spare.max_by_key(|at| self.columns[*at].spare).filter(|_| !fits) else {
                return (table, left_out);
            };
            stand.retain(|at| *at != dropped);
            left_out.push(self.columns[dropped].heading.trim_start_matches('>'));
        }
    }

    fn of(&self, stand: &[usize], indent: &'static str, width: usize) -> Table {
        let others = stand.iter().filter(|at| !self.columns[**at].rest).map(|at| self.width(*at) + 2);
        let room = width.saturating_sub(indent.len() + others.sum::<usize>());
        let mut table = Table::new(indent, stand.iter().map(|at| self.columns[*at].heading));
        for row in &self.rows {
            table.row(stand.iter().map(|at| match &self.columns[*at] {
                column if column.rest => cut(row[*at].as_deref().unwrap_or(column.filler), room),
                column => row[*at].as_deref().unwrap_or(column.filler).to_owned(),
            }));
        }
        table
    }

    /// Of the column's longest cell.
    fn width(&self, at: usize) -> usize {
        let Column { heading, filler, .. } = &self.columns[at];
        let cells = self.rows.iter().map(|row| row[at].as_deref().unwrap_or(filler));
        let widths = cells.chain([heading.trim_start_matches('>')]).map(|cell| cell.chars().count());
        widths.max().unwrap_or_default()
    }
}
