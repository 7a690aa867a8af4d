//! Parts of a whole as percentages and as bars.

/// Blocks of one to eight eighths of a column.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The parts' shares of their sum in tenths of a percent. They add up to 1000: what rounding down leaves goes to the
/// largest remainders. All are zero when the sum is.
pub(super) fn tenths(parts: &[u64]) -> Vec<u64> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if whole == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: &u64| (u128::from(*part) * 1000 / whole, u128::from(*part) * 1000 % whole);
    let mut shares: Vec<u64> = parts
        .iter()
        .map(|part| u64::try_from(exact(part).0).expect("a part is no more than the whole"))
        .collect();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|at| std::cmp::Reverse(exact(&parts[*at]).1));
    let left = usize::try_from(1000 - shares.iter().sum::<u64>()).expect("less than one a part");
    for at in by_remainder.into_iter().take(left) {
        shares[at] += 1;
    }
    shares
}

/// `64.2 %` of tenths of a percent.
pub(super) fn percent(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A bar for `part`, no wider than `width`, which stands for the whole. What is not zero has a trace of a bar in blocks;
/// in `#` only from half a column on.
pub(super) fn bar(part: u64, whole: u128, width: usize, unicode: bool) -> String {
    if part == 0 || whole == 0 {
        return String::new();
    }
    let steps = if unicode { 8 } else { 1 };
    let full = width * steps;
    let rounded = (u128::from(part) * full as u128 + whole / 2) / whole;
    let length = usize::try_from(rounded).unwrap_or(full).min(full);
    if !unicode {
        return "#".repeat(length);
    }
    let length = length.max(1);
    let mut bar = "█".repeat(length / 8);
    if !length.is_multiple_of(8) {
        bar.push(BLOCKS[length % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_rounding_leaves_goes_to_the_largest_remainders() {
        let table: [(&[u64], &[u64]); 5] = [
            (&[1, 1, 1], &[334, 333, 333]),
            (&[2910, 200, 1013], &[706, 48, 246]),
            (&[u64::MAX, u64::MAX], &[500, 500]),
            (&[1, 0, u64::MAX], &[0, 0, 1000]),
            (&[0, 0], &[0, 0]),
        ];
        for (parts, expected) in table {
            assert_eq!(tenths(parts), expected, "{parts:?}");
        }
        assert_eq!([percent(1000), percent(5)], ["100.0 %", "0.5 %"]);
    }

    #[test]
    fn bars_show_eighths_or_whole_columns() {
        let table = [
            (100, 8, true, "████████"),
            (50, 8, true, "████"),
            (27, 8, true, "██▏"),
            (1, 8, true, "▏"),
            (0, 8, true, ""),
            (27, 8, false, "##"),
            (5, 8, false, ""),
            (400, 8, false, "########"),
        ];
        for (part, width, unicode, expected) in table {
            assert_eq!(bar(part, 100, width, unicode), expected, "{part}");
        }
    }

    proptest! {
        #[test]
        fn shares_are_whole_and_bars_stay_in_their_column(
            parts in prop::collection::vec(prop_oneof![0..2000_u64, any::<u64>(), Just(u64::MAX)], 1..20),
            width in 0..60_usize,
            unicode: bool,
        ) {
            let shares = tenths(&parts);
            let some = parts.iter().any(|part| *part > 0);
            prop_assert_eq!(shares.iter().sum::<u64>(), if some { 1000 } else { 0 });
            let whole = parts.iter().map(|part| u128::from(*part)).sum();
            for part in parts {
                prop_assert!(bar(part, whole, width.max(1), unicode).chars().count() <= width.max(1));
                // A part of something else than its whole is damaged data, and no reason to leave the column.
                prop_assert!(bar(part, 1, width.max(1), unicode).chars().count() <= width.max(1));
            }
        }
    }
}
