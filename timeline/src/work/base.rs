//! What the JVM had done before it was probed.

use super::counters::{Counters, GC_COLLECTIONS, is_time};

/// So many samples in a row that tell of other collections than probes have counted are believed: one may be read at the
/// end of a collection, which the JVM counts first.
const BELIEVED: u32 = 3;

/// By counter: what the JVM says less what probes have counted at the same instant.
#[derive(Debug, Default)]
pub(super) struct Base {
    base: Counters,
    /// Samples in a row with other collections than probes have counted.
    differ: u32,
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
            } else if index == GC_COLLECTIONS && probed {
                let since = sampled[index].zip(*base).map(|(all, base)| all.checked_sub(base));
                if since.is_some_and(|since| since != counted[index]) {
                    self.differ = self.differ.saturating_add(1);
                } else if self.differ < BELIEVED {
                    self.differ = 0;
                }
                *base = base.or(told);
            } else {
                *base = told.or(*base);
            }
        }
    }

    /// The JVM counts other collections than its probes tell: within one of theirs, as a full collection that ParallelGC
    /// appends to a young one, or less, as an operation that finds that another has collected.
    pub fn differs_in_collections(&self) -> bool {
        self.differ >= BELIEVED
    }

    pub fn of(&self, index: usize) -> Option<u64> {
        self.base[index]
    }
}
