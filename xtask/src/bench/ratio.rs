//! Ratios of what was measured in pairs, with what chance leaves open.

use serde_json::{Value, json};

/// How often the pairs are drawn again.
const DRAWS: usize = 10_000;
/// Any fixed number: the same pairs have the same interval.
const SEED: u64 = 0x6a63_6f6c_6400_0001;

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
        let ratios: Vec<f64> = pairs.iter().map(|&(one, other)| one as f64 / other.max(1) as f64).collect();
        let of_all = median(ratios.clone())?;
        let mut random = Random(SEED);
        let draw = |_| median(ratios.iter().map(|_| ratios[random.below(ratios.len())]).collect());
        let mut medians: Vec<f64> = (0..DRAWS).filter_map(draw).collect();
        medians.sort_unstable_by(f64::total_cmp);
        let at = |permille: usize| medians[(DRAWS - 1) * permille / 1000];
        Some(Self { median: of_all, interval: (at(25), at(975)) })
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

/// The middle one, or what is between the two in the middle; none of nothing.
fn median(mut ratios: Vec<f64>) -> Option<f64> {
    ratios.sort_unstable_by(f64::total_cmp);
    let upper = ratios.get(ratios.len() / 2)?;
    let lower = ratios.get(ratios.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*lower, *upper))
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
        assert_eq!(median(vec![1.5, 1.0, 0.5, 9.0]), Some(1.25));
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
