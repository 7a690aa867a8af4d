//! A benchmark's table: one line for each place that measured, one cell for each number.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::report;

/// A number's name: its unit comes last, `_ns` or `_bytes`; without one it is a count.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// In JSON.
    pub key: &'static str,
    /// For people.
    pub heading: &'static str,
}

/// What one place measured.
#[derive(Debug, Clone)]
pub struct Row {
    /// Who measured.
    pub measured_by: &'static str,
    /// As many as the table has columns; none where this place cannot know.
    pub cells: Vec<Option<u64>>,
}

/// Numbers of one subject.
#[derive(Debug, Clone)]
pub struct Table {
    /// In JSON.
    pub key: &'static str,
    /// For people.
    pub title: String,
    /// What the cells are.
    pub columns: &'static [Column],
    /// Who measured what.
    pub rows: Vec<Row>,
}

impl Table {
    /// No place knows anything.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).all(Option::is_none)
    }

    /// `{"jcold": {"first_ns": 1, …}, …}`, without the numbers that a place cannot know.
    pub fn to_json(&self) -> Value {
        let cells = |row: &Row| -> Map<String, Value> {
            let known = self.columns.iter().zip(&row.cells);
            known.filter_map(|(column, cell)| Some((column.key.to_owned(), json!((*cell)?)))).collect()
        };
        Value::Object(
            self.rows.iter().map(|row| (row.measured_by.to_owned(), Value::Object(cells(row)))).collect(),
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", self.title)?;
        for column in self.columns {
            write!(f, "{:>12}", column.heading)?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{:<24}", row.measured_by)?;
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                write!(f, "{:>12}", cell.map_or_else(|| "-".to_owned(), |value| shown(column.key, value)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn shown(key: &str, value: u64) -> String {
    if key.ends_with("_each_ns") {
        format!("{:.1} µs", value as f64 / 1e3)
    } else if key.ends_with("_ns") {
        report::ms(value)
    } else if key.ends_with("_bytes") {
        format!("{:.1} MiB", value as f64 / 1_048_576.0)
    } else {
        value.to_string()
    }
}

/// Cell by cell the median of the same table in each run; a cell that no run has stays empty.
pub fn medians(runs: &[Vec<Table>]) -> Vec<Table> {
    cell_by_cell(runs, |values| report::p50(values, 1, values.len()))
}

/// The same with the largest.
pub fn maxima(runs: &[Vec<Table>]) -> Vec<Table> {
    cell_by_cell(runs, |values| values.iter().max().copied())
}

fn cell_by_cell(runs: &[Vec<Table>], one_of: impl Fn(&[u64]) -> Option<u64>) -> Vec<Table> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut tables = first.clone();
    for (t, table) in tables.iter_mut().enumerate() {
        for (r, row) in table.rows.iter_mut().enumerate() {
            for (c, cell) in row.cells.iter_mut().enumerate() {
                let values: Vec<u64> = runs.iter().filter_map(|run| run[t].rows[r].cells[c]).collect();
                *cell = one_of(&values);
            }
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(first_ns: u64, size_bytes: Option<u64>) -> Table {
        const COLUMNS: &[Column] = &[
            Column { key: "first_ns", heading: "1st" },
            Column { key: "size_bytes", heading: "size" },
            Column { key: "calls", heading: "calls" },
        ];
        let cells = vec![Some(first_ns), size_bytes, Some(200)];
        Table {
            key: "requests",
            title: "/users/1".into(),
            columns: COLUMNS,
            rows: vec![Row { measured_by: "jcold", cells }],
        }
    }

    #[test]
    fn medians_are_taken_cell_by_cell() {
        let runs =
            [vec![table(9_000_000, None)], vec![table(1_000_000, Some(7))], vec![table(5_000_000, Some(9))]];
        let expected = json!({"jcold": {"first_ns": 5_000_000, "size_bytes": 7, "calls": 200}});
        assert_eq!(medians(&runs)[0].to_json(), expected);
    }

    #[test]
    fn a_number_is_shown_in_its_unit() {
        let expected = "\
/users/1                         1st        size       calls
jcold                        5.00 ms     3.0 MiB         200
";
        assert_eq!(table(5_000_000, Some(3 << 20)).to_string(), expected);
        assert!(table(1, None).to_string().contains("0.00 ms           -         200"));
    }
}
