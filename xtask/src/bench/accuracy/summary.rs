//! The same comparison of several starts, in one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::compare::{Comparison, Verdict};
use crate::report::{ms, p50};

/// The same comparison of several starts.
#[derive(Debug)]
pub struct Summary {
    key: (&'static str, String, &'static str),
    all: Vec<Comparison>,
}

/// One summary for each number of each span, in the order in which they were made.
pub fn summaries(comparisons: impl Iterator<Item = Comparison>) -> Vec<Summary> {
    let mut summaries: Vec<Summary> = Vec::new();
    for comparison in comparisons {
        let key = (comparison.by, comparison.span.clone(), comparison.number);
        match summaries.iter_mut().find(|summary| summary.key == key) {
            Some(summary) => summary.all.push(comparison),
            None => summaries.push(Summary { key, all: vec![comparison] }),
        }
    }
    summaries.sort_by_key(|summary| summary.key.0);
    summaries
}

impl Summary {
    /// Both told nothing but zero.
    pub fn is_zero(&self) -> bool {
        self.all.iter().all(|one| one.jcold == Some(0) && one.theirs == 0)
    }

    /// For the report.
    pub fn to_json(&self) -> Value {
        let verdicts: BTreeMap<&str, usize> =
            self.verdicts().into_iter().map(|(verdict, count)| (verdict.name(), count)).collect();
        json!({
            "by": self.key.0, "span": self.key.1, "number": self.key.2, "starts": self.all.len(),
            "jcold_median": self.median(|one| one.jcold), "theirs_median": self.median(|one| Some(one.theirs)),
            "worst": self.worst().map(Comparison::to_json), "verdicts": verdicts,
        })
    }

    fn median(&self, of: impl Fn(&Comparison) -> Option<u64>) -> Option<u64> {
        let values: Vec<u64> = self.all.iter().filter_map(of).collect();
        p50(&values, 1, values.len())
    }

    /// The one that is furthest beyond what is allowed.
    fn worst(&self) -> Option<&Comparison> {
        let beyond = |one: &&Comparison| {
            let difference = one.difference().map_or(0, i64::unsigned_abs);
            (difference.saturating_sub(one.allowed), difference)
        };
        self.all.iter().max_by_key(beyond)
    }

    fn verdicts(&self) -> BTreeMap<Verdict, usize> {
        let mut verdicts = BTreeMap::new();
        for one in &self.all {
            *verdicts.entry(one.verdict()).or_default() += 1;
        }
        verdicts
    }
}

/// How many comparisons came to what, in words.
pub fn outcome(summaries: &[Summary]) -> String {
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    for (verdict, count) in summaries.iter().flat_map(Summary::verdicts) {
        *counts.entry(verdict).or_default() += count;
    }
    let words: Vec<String> =
        counts.into_iter().map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
    words.join(", ")
}

/// The heading of [`Summary`]'s lines.
pub fn heading() -> String {
    format!(
        "{:<11}{:<26}{:<17}{:<17}{:>11}{:>11}{:>10}{:>12}{:>11}  verdicts",
        "by", "span", "number", "source", "jcold", "theirs", "known", "worst diff", "allowed"
    )
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, span, number) = &self.key;
        let shown = |value: Option<u64>| match value {
            None => "-".to_owned(),
            Some(value) if number.ends_with("_ns") => ms(value),
            Some(value) => value.to_string(),
        };
        let worst = self.worst();
        let signed = worst.and_then(Comparison::difference).map(|difference| {
            let sign = if difference < 0 { "−" } else { "+" };
            if difference == 0 {
                "0".to_owned()
            } else {
                format!("{sign}{}", shown(Some(difference.unsigned_abs())))
            }
        });
        let explained = worst.filter(|one| one.explained > 0).map(|one| format!("+{}", one.explained));
        let mut verdicts = String::new();
        for (verdict, count) in self.verdicts() {
            let mark = match verdict {
                Verdict::Exact | Verdict::Within => "✓",
                Verdict::Off => "✗",
                Verdict::Untold => "",
            };
            write!(verdicts, " {mark}{count} {}", verdict.name())?;
        }
        let sources: BTreeSet<&str> = self.all.iter().flat_map(|one| one.source.split('/')).collect();
        let source = sources.into_iter().collect::<Vec<_>>().join("/");
        write!(
            f,
            "{by:<11}{span:<26}{number:<17}{source:<17}{:>11}{:>11}{:>10}{:>12}{:>11} {verdicts}",
            shown(self.median(|one| one.jcold)),
            shown(self.median(|one| Some(one.theirs))),
            explained.unwrap_or_default(),
            signed.unwrap_or_else(|| "-".to_owned()),
            shown(worst.map(|one| one.allowed)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(jcold: u64, theirs: u64, explained: u64, allowed: u64) -> Comparison {
        Comparison {
            span: "stage first".into(),
            number: "classes_loaded",
            by: "xlog",
            source: "usdt".into(),
            jcold: Some(jcold),
            theirs,
            explained,
            allowed,
        }
    }

    #[test]
    fn several_starts_become_one_line_with_the_worst_of_them() {
        let starts = [comparison(314, 310, 4, 0), comparison(309, 312, 0, 2), comparison(311, 310, 0, 1)];
        let summaries = summaries(starts.into_iter());
        assert_eq!(summaries.len(), 1);
        let expected = "xlog       stage first               classes_loaded   usdt                     311        310          \
                        \x20         −3          2  ✓1 exact ✓1 within ✗1 off";
        assert_eq!(summaries[0].to_string(), expected);
    }
}
