//! The demo's table: one run of requests, measured in three places.

use std::fmt::Write;

/// Durations of one run's requests in order, as one place measured them, nanoseconds.
#[derive(Debug, Clone)]
pub struct Series {
    /// Who measured.
    pub measured_by: &'static str,
    /// What the first request's duration is made of, when the place knows.
    pub first_parts: Option<String>,
    /// All durations.
    pub durations_ns: Vec<u64>,
}

/// The middle value (the lower one of two) of a part of a series, numbered from 1, both ends included.
pub fn p50(durations_ns: &[u64], from: usize, to: usize) -> Option<u64> {
    let part = durations_ns.get(from.checked_sub(1)?..to.min(durations_ns.len()))?;
    let mut sorted = part.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Milliseconds with as many digits as they deserve.
pub fn ms(duration_ns: u64) -> String {
    let ms = duration_ns as f64 / 1e6;
    if ms >= 100.0 { format!("{ms:.0} ms") } else { format!("{ms:.2} ms") }
}

/// The table, with a line at its end.
pub fn table(title: &str, series: &[Series]) -> String {
    let mut text = format!("{title:<24}{:>12}{:>12}{:>12}   first =\n", "1st", "2–10 p50", "11–200 p50");
    for row in series {
        let cell = |from, to| p50(&row.durations_ns, from, to).map_or_else(|| "-".to_owned(), ms);
        let parts = row.first_parts.as_deref().unwrap_or("");
        let (first, early, late) = (cell(1, 1), cell(2, 10), cell(11, 200));
        let line = format!("{:<24}{first:>12}{early:>12}{late:>12}   {parts}", row.measured_by);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_named_requests_only() {
        let durations: Vec<u64> = (1..=200).collect();
        assert_eq!(p50(&durations, 1, 1), Some(1));
        assert_eq!(p50(&durations, 2, 10), Some(6));
        assert_eq!(p50(&durations, 11, 200), Some(105));
        assert_eq!(p50(&durations[..5], 2, 10), Some(3), "a short run has what it has");
        assert_eq!(p50(&durations[..5], 11, 200), None);
    }

    #[test]
    fn the_table_shows_each_place_on_a_line() {
        let rows = [
            Series {
                measured_by: "jcold",
                first_parts: Some("wait 41.00 + service 171.50".into()),
                durations_ns: vec![212_500_000, 1_900_000],
            },
            Series { measured_by: "client", first_parts: None, durations_ns: vec![213_100_000, 2_000_000] },
        ];
        let expected = "\
/users/1                         1st    2–10 p50  11–200 p50   first =
jcold                         212 ms     1.90 ms           -   wait 41.00 + service 171.50
client                        213 ms     2.00 ms           -
";
        assert_eq!(table("/users/1", &rows), expected);
    }
}
