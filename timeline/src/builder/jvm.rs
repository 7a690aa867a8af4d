//! What the JVM tells of itself: facts, memory.

use proto::v1;

use super::Builder;
use crate::sample::{Fact, Memory};

/// Facts that are kept: each name once, some a few times.
const FACTS_MAX: usize = 200;

impl Builder {
    /// How many instants have been reached: when it has grown, facts and memory are worth a look.
    pub fn instants(&self) -> usize {
        self.milestones.reached().len() + usize::from(self.steady.is_some())
    }

    /// Takes what the JVM shows of itself; what is known already is not told again.
    pub(super) fn shows(&mut self, facts: &[Fact]) {
        for fact in facts {
            let is_known =
                self.facts.iter().any(|known| known.name == fact.name && known.value == fact.value);
            if !is_known && self.facts.len() < FACTS_MAX {
                let Fact { name, value, source } = fact.clone();
                self.facts.push(v1::Fact { name, value, source });
            }
        }
    }

    pub(super) fn remember(&mut self, at_ns: u64, Memory { rss_bytes, cgroup_bytes }: Memory) {
        let memory = v1::Memory { rss_bytes, cgroup_bytes };
        let told = self.milestones.remember(at_ns, memory);
        self.sent.again.extend(told);
        if let Some(steady) = &mut self.steady
            && steady.memory.is_none()
        {
            steady.memory = Some(memory);
            self.sent.steady = false;
        }
    }
}
