//! CPU that is told ahead of the probes.
//!
//! A thread's CPU is reported when the thread next leaves a CPU at least 100 ms later. One that parks for long would
//! keep its last slice to itself, so the agent looks at the accounts of idle threads and tells what they hold. The
//! probes' report of the same slice follows some day, and what was told ahead is taken off it: the accounts are only
//! read, so no race between the two counts anything twice.

use std::collections::HashMap;

use timeline::{Event, What};

/// A thread's account as the probes keep it, or as the kernel tells it in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Begin of what is not reported.
    pub start_ns: u64,
    /// End of it: when the thread last left a CPU.
    pub end_ns: u64,
    /// CPU that is not reported.
    pub cpu_ns: u64,
    /// Time runnable, waiting for a CPU, that is not reported.
    pub run_queue_ns: u64,
}

/// What was told ahead of the next report, by thread.
#[derive(Debug, Default)]
pub struct Spans {
    ahead: HashMap<u32, Account>,
}

impl Spans {
    /// The part of a thread's account that nobody was told of.
    pub fn ahead(&mut self, tid: u32, account: Account) -> Option<Event> {
        let told = self.ahead.get(&tid).copied();
        let event = untold(tid, account, told)?;
        let (cpu_ns, run_queue_ns) = told.map_or((0, 0), |told| (told.cpu_ns, told.run_queue_ns));
        let told = Account {
            cpu_ns: cpu_ns.max(account.cpu_ns),
            run_queue_ns: run_queue_ns.max(account.run_queue_ns),
            ..account
        };
        self.ahead.insert(tid, told);
        Some(event)
    }

    /// A report of the probes, less what was told ahead of it; `None` when nothing is left.
    pub fn reported(&mut self, event: Event) -> Option<Event> {
        let What::ThreadCpu { start_ns, cpu_ns, run_queue_ns } = event.what else { return Some(event) };
        let Some(told) = self.ahead.remove(&event.tid) else { return Some(event) };
        untold(event.tid, Account { start_ns, end_ns: event.at_ns, cpu_ns, run_queue_ns }, Some(told))
    }
}

fn untold(tid: u32, account: Account, told: Option<Account>) -> Option<Event> {
    let Account { mut start_ns, end_ns, mut cpu_ns, mut run_queue_ns } = account;
    if let Some(told) = told {
        start_ns = start_ns.max(told.end_ns).min(end_ns);
        cpu_ns = cpu_ns.saturating_sub(told.cpu_ns);
        run_queue_ns = run_queue_ns.saturating_sub(told.run_queue_ns);
    }
    let what = What::ThreadCpu { start_ns, cpu_ns, run_queue_ns };
    (cpu_ns > 0 || run_queue_ns > 0).then_some(Event { at_ns: end_ns, tid, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(start_ns: u64, end_ns: u64, cpu_ns: u64) -> Account {
        Account { start_ns, end_ns, cpu_ns, run_queue_ns: 0 }
    }

    fn report(start_ns: u64, end_ns: u64, cpu_ns: u64) -> Event {
        Event { at_ns: end_ns, tid: 7, what: What::ThreadCpu { start_ns, cpu_ns, run_queue_ns: 0 } }
    }

    #[test]
    fn each_slice_is_told_once() {
        let mut spans = Spans::default();
        assert_eq!(spans.ahead(7, account(100, 150, 30)), Some(report(100, 150, 30)));
        assert_eq!(spans.ahead(7, account(100, 150, 30)), None, "it is still idle");
        assert_eq!(spans.ahead(7, account(100, 190, 45)), Some(report(150, 190, 15)), "it ran a little more");
        assert_eq!(spans.reported(report(100, 190, 45)), None, "the probes say what is known");
        assert_eq!(spans.reported(report(400, 500, 80)), Some(report(400, 500, 80)));
        assert_eq!(spans.ahead(7, account(500, 520, 9)), Some(report(500, 520, 9)));
        assert_eq!(spans.reported(report(500, 700, 100)), Some(report(520, 700, 91)));
    }

    #[test]
    fn other_events_pass() {
        let event = Event { at_ns: 1, tid: 7, what: What::Ready { fd: 3 } };
        assert_eq!(Spans::default().reported(event.clone()), Some(event));
    }
}
