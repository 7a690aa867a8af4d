//! What probes counted, as steps: what was done by an instant is what was last told at or before it.

use std::collections::VecDeque;

use super::thin_older;
use crate::counted::Counted;

/// Steps that are kept.
const STEPS_MAX: usize = 4096;
/// Steps that one may come too late by: CPUs tell independently, microseconds apart.
const LATE_MAX: usize = 64;
/// Of steps that are thinned out the last of each such slice stays, so that intervals begin and end exactly.
const SLICE_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug)]
struct Step {
    at_ns: u64,
    counted: Counted,
}

/// Sums that never fall, whatever is told; instants since exec.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: VecDeque<Step>,
    /// Since when anything is counted.
    since_ns: Option<u64>,
}

impl Steps {
    /// Something is counted at that instant.
    pub fn begin(&mut self, at_ns: u64) {
        self.since_ns = Some(self.since_ns.map_or(at_ns, |since_ns| since_ns.min(at_ns)));
    }

    /// Whether anything was counted by an instant.
    pub fn had_begun(&self, at_ns: u64) -> bool {
        self.since_ns.is_some_and(|since_ns| since_ns <= at_ns)
    }

    pub fn counted(&mut self, at_ns: u64, counted: Counted) {
        self.begin(at_ns);
        let len = self.steps.len();
        let before = self.steps.iter().rev().take(LATE_MAX);
        let index = len - before.take_while(|step| step.at_ns > at_ns).count();
        let before = index.checked_sub(1).map(|before| self.steps[before]);
        let counted = before.map_or(counted, |before| before.counted.max(counted));
        if before.is_some_and(|before| before.counted == counted) {
            return;
        }
        match before {
            Some(before) if before.at_ns >= at_ns => self.steps[index - 1].counted = counted,
            _ => self.steps.insert(index, Step { at_ns, counted }),
        }
        for later in self.steps.range_mut(index..) {
            later.counted = later.counted.max(counted);
        }
        if self.steps.len() > STEPS_MAX {
            self.thin();
        }
    }

    pub fn at(&self, at_ns: u64) -> Counted {
        let after = self.steps.partition_point(|step| step.at_ns <= at_ns);
        after.checked_sub(1).map_or_else(Counted::default, |last| self.steps[last].counted)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Thins out the older half: the last step of each slice stays, and of what is still too much every other one.
    fn thin(&mut self) {
        let next: Vec<u64> = self.steps.iter().skip(1).map(|step| step.at_ns.div_ceil(SLICE_NS)).collect();
        let mut index = 0;
        self.steps.retain(|step| {
            index += 1;
            index > STEPS_MAX / 2
                || next.get(index - 1).is_none_or(|next| *next != step.at_ns.div_ceil(SLICE_NS))
        });
        if self.steps.len() > STEPS_MAX / 4 * 3 {
            thin_older(&mut self.steps, STEPS_MAX);
        }
    }
}
