//! The ground truth: what the testbed's outermost servlet filter wrote of each request.

use std::path::Path;

use anyhow::{Context, Result};

/// One request, as the filter timed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// 1-based number, in the order in which requests reached the filter.
    pub sequence: u64,
    /// Method.
    pub method: String,
    /// Path without its query string.
    pub path: String,
    /// Status code of the answer.
    pub status: u16,
    /// Begin, on `CLOCK_MONOTONIC` (System.nanoTime).
    pub start_monotonic_ns: u64,
    /// Begin, since the epoch.
    pub start_epoch_ns: u64,
    /// Length.
    pub duration_ns: u64,
}

/// The rows that are whole, in the order of their sequence numbers. The file grows while the service runs.
pub fn read(csv: &Path) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(csv).with_context(|| csv.display().to_string())?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut rows = whole
        .lines()
        .skip(1)
        .map(|line| row(line).with_context(|| format!("{}: `{line}`", csv.display())))
        .collect::<Result<Vec<_>>>()?;
    rows.sort_by_key(|row| row.sequence);
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let mut fields = line.split(',');
    let mut field = |name: &'static str| fields.next().context(name);
    Ok(Row {
        sequence: field("sequence")?.parse()?,
        method: field("method")?.to_owned(),
        path: field("path")?.to_owned(),
        status: field("status")?.parse()?,
        start_monotonic_ns: field("start_nanotime_ns")?.parse()?,
        start_epoch_ns: field("start_epoch_ns")?.parse()?,
        duration_ns: field("duration_ns")?.parse()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ordered_and_a_half_written_one_waits() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "sequence,method,path,status,start_nanotime_ns,start_epoch_ns,duration_ns\n\
                    2,GET,/users/1,200,20,1020,5\n1,GET,/hello,200,10,1010,7\n3,GET,/hel";
        std::fs::write(file.path(), text).unwrap();
        let rows = read(file.path()).unwrap();
        let seen: Vec<_> =
            rows.iter().map(|row| (row.sequence, row.path.as_str(), row.duration_ns)).collect();
        assert_eq!(seen, [(1, "/hello", 7), (2, "/users/1", 5)]);
    }
}
