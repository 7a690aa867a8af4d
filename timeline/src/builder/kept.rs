//! Requests that are kept one by one: their ledgers, once the accounts of their threads are there.

use proto::v1;

use super::Builder;
use crate::{
    accounts::KEPT_NS,
    class::ThreadClass,
    inbound::Ended,
    ledger::{Ledger, Measured, hops},
};

/// How long a request waits for the accounts of threads that have not left their CPU since, as compilers at work.
const SETTLE_NS: u64 = 1_500_000_000;

/// A request that has ended and waits for its threads' accounts.
#[derive(Debug)]
pub(super) struct Pending {
    pub request: v1::Request,
    pub ended: Ended,
}

impl Builder {
    /// Keeps the requests whose threads' accounts are there, all when `now_ns` is `None`, and forgets accounts that nobody
    /// will ask for.
    pub(super) fn keep_settled(&mut self, now_ns: Option<u64>) {
        let is_due = |pending: &Pending| now_ns.is_none_or(|now| pending.ended.end_ns + SETTLE_NS <= now);
        let due = self.pending.iter().take_while(|pending| is_due(pending)).count();
        for Pending { mut request, ended } in self.pending.drain(..due).collect::<Vec<_>>() {
            self.explain(&mut request, &ended);
            self.requests.keep(request);
        }
        if let Some(now_ns) = now_ns {
            let pending = self.pending.iter().map(|pending| pending.ended.ready_ns()).min();
            let needed = [pending, self.inbound.oldest_ns()].into_iter().flatten().min();
            for tid in self.accounts.prune(now_ns, needed) {
                self.threads.forget(tid);
            }
            self.outbound.prune(needed.unwrap_or(now_ns));
            self.names.prune(now_ns.saturating_sub(KEPT_NS).min(needed.unwrap_or(u64::MAX)));
        }
    }

    /// Fills in where a request's time went, and what the JVM did meanwhile.
    fn explain(&mut self, request: &mut v1::Request, ended: &Ended) {
        let (begin_ns, end_ns) = (ended.ready_ns(), ended.end_ns);
        let marks = self.outbound.marks(ended.id, begin_ns, end_ns);
        let of = |from_ns, to_ns| Ledger::of(&ended.path, (from_ns, to_ns), &self.accounts, &marks);
        let read_ns = ended.read().at_ns;
        let (wait, service) = (of(begin_ns, read_ns), of(read_ns, end_ns));
        let measured = Measured {
            run_queue: self.start.run_queue,
            throttling: self.start.throttling,
            waits: self.start.waits,
        };
        request.wait_ledger = Some(wait.to_proto(measured, None));
        let whole = service.and(&wait);
        request.ledger = Some(whole.to_proto(measured, Some(hops(&ended.path[ended.read_at..]))));
        request.overlap = Some(self.overlap(begin_ns, end_ns));
        if let Some(ordinal) = request.ordinal {
            for connection in whole.waited_for {
                self.outbound.waited(connection, ordinal);
            }
        }
    }

    fn overlap(&self, from_ns: u64, to_ns: u64) -> v1::Overlap {
        let cpu_ns = |class| {
            let threads = self.threads.of_class(class);
            Some(threads.map(|tid| self.accounts.cpu_ns(tid, from_ns, to_ns)).sum())
        };
        let work = self.work.between(self.since_exec(from_ns), self.since_exec(to_ns)).unwrap_or_default();
        v1::Overlap {
            classes_loaded: work.classes_loaded,
            compiles: work.compiles,
            compiles_c1: work.compiles_c1,
            compiles_c2: work.compiles_c2,
            source: source(&work),
            packages: self.names.between(from_ns, to_ns),
            jit_c1_ns: cpu_ns(ThreadClass::JitC1),
            jit_c2_ns: cpu_ns(ThreadClass::JitC2),
            gc_ns: cpu_ns(ThreadClass::Gc),
        }
    }
}

/// Where classes and compiles are from; empty when neither is known.
fn source(work: &v1::JvmWork) -> String {
    let classes = work.classes_loaded.map(|_| &work.classes_source);
    let compiles = work.compiles.map(|_| &work.compiles_source);
    match (classes, compiles) {
        (Some(classes), Some(compiles)) if classes != compiles => format!("{classes}, {compiles}"),
        (Some(source), _) | (None, Some(source)) => source.clone(),
        (None, None) => String::new(),
    }
}
