//! Ratios of what was measured in pairs, with what chance leaves open.

use serde_json::{Value, json};

use crate::report::p50;

/// How often the pairs are drawn again.
const DRAWS: usize = 10_000;
/// Any fixed number: the same pairs have the same interval.
const SEED: u64 = 0x6a63_6f6c_6400_0001;
/// Ratios are sorted and drawn as whole numbers of this part.
const PART: f64 = 1e9;

/// The median of ratios, with its 95 % interval by bootstrap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// Where the medians of 95 % of all draws lie.
    pub interval: (f64, f64),
}

impl Ratio {
    /// Of pairs that were measured together; none when there are none.
    pub fn of(pairs: &[(u64, u64)]) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "ratios of durations are about 1"
        )]
        let ratios: Vec<u64> =
            pairs.iter().map(|&(one, other)| (one as f64 / other.max(1) as f64 * PART) as u64).collect();
        let median = p50(&ratios, 1, ratios.len())?;
        let mut random = Random(SEED);
        let mut medians: Vec<u64> = (0..DRAWS)
            .filter_map(|_| {
                let drawn: Vec<u64> = ratios.iter().map(|_| ratios[random.below(ratios.len())]).collect();
                p50(&drawn, 1, drawn.len())
            })
            .collect();
        medians.sort_unstable();
        let at = |permille: usize| medians[(DRAWS - 1) * permille / 1000] as f64 / PART;
        Some(Self { median: median as f64 / PART, interval: (at(25), at(975)) })
    }

    /// For the report.
    pub fn to_json(self) -> Value {
        json!({"median": self.median, "low": self.interval.0, "high": self.interval.1})
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        let (low, high) = self.interval;
        write!(f, "{:>9}   ({} to {})", percent(self.median), percent(low), percent(high))
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_agree_leave_nothing_to_chance() {
        let ratio = Ratio::of(&[(102, 100), (204, 200), (51, 50)]).unwrap();
        assert_eq!(ratio, Ratio { median: 1.02, interval: (1.02, 1.02) });
        assert_eq!(ratio.to_string(), "   +2.0 %   (+2.0 % to +2.0 %)");
        assert_eq!(Ratio::of(&[]), None);
    }

    #[test]
    fn the_interval_is_around_the_median_and_the_same_each_time() {
        let pairs: Vec<(u64, u64)> = (0..30).map(|number| (95 + number % 11, 100)).collect();
        let ratio = Ratio::of(&pairs).unwrap();
        let (low, high) = ratio.interval;
        assert!((0.95..ratio.median).contains(&low) && (ratio.median..1.06).contains(&high), "{ratio:?}");
        assert_eq!(Ratio::of(&pairs), Some(ratio));
    }
}
