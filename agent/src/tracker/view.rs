//! What a followed JVM shows of itself, looked at when it is worth it.

use timeline::{Counted, Fact, Memory, Sample};

use crate::{
    identity::Proc,
    jvm::{Jvm, memory},
};

/// The look at one JVM; it holds the file of its counters open until it is closed.
pub struct View {
    proc: Proc,
    pid: u32,
    jvm: Option<Jvm>,
    last: Option<Sample>,
    /// Instants of the timeline when it was last looked at.
    instants: usize,
}

impl View {
    pub fn of(proc: &Proc, pid: u32) -> Self {
        Self { proc: proc.clone(), pid, jvm: Some(Jvm::open(proc, pid)), last: None, instants: 0 }
    }

    /// The JVM's counters, when they have changed, and what probes have counted at the same instant, as `work` tells,
    /// unless it went on meanwhile.
    pub fn sample(&mut self, work: impl Fn() -> Option<Counted>) -> Option<(Sample, Option<Counted>)> {
        let jvm = self.jvm.as_mut()?;
        let before = work();
        let sample = jvm.sample().ok()?;
        let news = self.last.as_ref() != Some(&sample);
        self.last = Some(sample);
        let same = news.then(|| before.filter(|before| work().as_ref() == Some(before)));
        same.map(|counted| (sample, counted))
    }

    /// Facts and memory, when the timeline has come to more instants than at the last look.
    pub fn look(&mut self, instants: usize) -> Option<(Vec<Fact>, Memory)> {
        if instants <= self.instants {
            return None;
        }
        self.instants = instants;
        let facts = self.jvm.as_mut()?.facts();
        Some((facts, memory(&self.proc, self.pid)))
    }

    /// Looks no more: a file that is held open keeps its container's file system busy.
    pub fn close(&mut self) {
        self.jvm = None;
    }
}
