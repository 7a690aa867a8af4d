//! What the JVM had done before it was probed.

use super::counters::{Counters, is_time};

/// By counter: what the JVM says less what probes have counted at the same instant.
#[derive(Debug, Default)]
pub(super) struct Base {
    base: Counters,
}

impl Base {
    /// Both were read with nothing done in between; `probed` since the JVM is.
    ///
    /// Of counts that is a constant, and the latest is the one that no thread was half way through. Times drift apart,
    /// because they are not counted alike: the first is the one with the least of both in it.
    pub fn tell(&mut self, sampled: &Counters, counted: &Counters, probed: bool) {
        for (index, base) in self.base.iter_mut().enumerate() {
            let told = sampled[index].zip(counted[index]).map(|(all, since)| all.saturating_sub(since));
            if is_time(index) {
                *base = base.or(told.filter(|_| probed));
            } else {
                *base = told.or(*base);
            }
        }
    }

    pub fn of(&self, index: usize) -> Option<u64> {
        self.base[index]
    }
}
