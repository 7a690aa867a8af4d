//! Durations as people type them.

use std::time::Duration;

/// Reads a whole number with a unit: `500ms`, `90s`, `30m`, `1h`, `2d`.
///
/// # Errors
///
/// What is wrong with the text, and what would be right.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is no duration: write a whole number and ms, s, m, h or d, for instance 30m");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        let good = [("0s", 0), ("500ms", 500), ("90s", 90_000), ("30m", 1_800_000), ("1h", 3_600_000)];
        for (text, expected) in good {
            assert_eq!(parse(text).unwrap().as_millis(), expected, "{text}");
        }
        for text in ["", "1", "h", "1.5h", "-1s", "1w", "1 h", "99999999999999999999s", "9999999999999999d"] {
            assert!(parse(text).unwrap_err().contains("30m"), "{text}");
        }
    }
}
