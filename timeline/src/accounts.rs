//! What each thread spent its time on, as far back as an open request may ask.
//!
//! A thread tells sums, so an account that is lost costs resolution and no time. Between two accounts the sums are
//! taken to grow evenly; the last time off a CPU stands in each account with its own begin and end, so that the
//! instant at which a thread was woken is exact.

use std::collections::{HashMap, VecDeque};

use crate::{
    cpu::Span,
    event::{Account, Cause, LastOff, Offs},
};

/// Points that are kept of a thread; more are thinned out.
const POINTS_MAX: usize = 1024;
/// Times off a CPU that are kept of a thread.
const OFFS_MAX: usize = 128;
/// Accounts are kept so long, whether a request is open or not: who will have read one is known only when it does.
pub(crate) const KEPT_NS: u64 = 3_000_000_000;

/// How a span of a thread's time was spent; the parts add up to the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub on_cpu_ns: u64,
    pub off: Offs,
}

/// The sums of a thread at an instant.
#[derive(Clone, Copy, Debug)]
struct Point {
    at_ns: u64,
    cpu_ns: u64,
    off: Offs,
}

#[derive(Debug)]
struct History {
    since_ns: u64,
    points: VecDeque<Point>,
    offs: VecDeque<LastOff>,
    /// Why the thread left its CPU at the last point; absent while it runs.
    leaving: Option<Cause>,
    /// What of it is booked as CPU.
    booked: Point,
}

/// The accounts of all threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    threads: HashMap<u32, History>,
}

impl Accounts {
    /// A thread told its account. Returns the spans of CPU and run-queue time that nobody was told of, which only one
    /// that leaves its CPU knows exactly.
    pub fn told(&mut self, tid: u32, at_ns: u64, account: &Account, leaving: Option<Cause>) -> Vec<Span> {
        let begin = Point { at_ns: account.since_ns, cpu_ns: 0, off: Offs::default() };
        let new = || History {
            since_ns: account.since_ns,
            points: VecDeque::from([begin]),
            offs: VecDeque::new(),
            leaving: None,
            booked: begin,
        };
        let history = self.threads.entry(tid).or_insert_with(new);
        // The thread's id was given to another.
        if history.since_ns != account.since_ns {
            *history = new();
        }
        history.told(at_ns, account, leaving);
        if leaving.is_none() {
            return Vec::new();
        }
        history.book(tid, at_ns, account)
    }

    /// How a thread spent the time from one instant to another. What is not known of it is `other_ns`.
    pub fn split(&self, tid: u32, from_ns: u64, to_ns: u64) -> Split {
        let length_ns = to_ns.saturating_sub(from_ns);
        let unknown = Split { on_cpu_ns: 0, off: Offs { other_ns: length_ns, ..Offs::default() } };
        let Some(history) = self.threads.get(&tid) else { return unknown };
        let begin_ns = from_ns.max(history.since_ns).min(to_ns);
        let mut off = history.at(to_ns).off.less(history.at(begin_ns).off);
        off.other_ns = off.other_ns.saturating_add(begin_ns.saturating_sub(from_ns));
        let mut excess_ns = off.sum().saturating_sub(length_ns);
        // A nanosecond of rounding in each.
        for part in off.parts_mut() {
            let cut = excess_ns.min(*part);
            *part -= cut;
            excess_ns -= cut;
        }
        Split { on_cpu_ns: length_ns - off.sum(), off }
    }

    /// CPU of a thread from one instant to another.
    pub fn cpu_ns(&self, tid: u32, from_ns: u64, to_ns: u64) -> u64 {
        let Some(history) = self.threads.get(&tid) else { return 0 };
        history.at(to_ns).cpu_ns.saturating_sub(history.at(from_ns).cpu_ns)
    }

    /// When a thread that did something at `by_ns` turned to it: the end of its wait that went on at `since_ns`, else of
    /// the last one before `by_ns`, or its birth. `None` when it did not wait in between.
    pub fn woken(&self, tid: u32, since_ns: u64, by_ns: u64) -> Option<u64> {
        let history = self.threads.get(&tid)?;
        let waited =
            |off: &&LastOff| off.cause != Cause::Runnable && off.on_ns > since_ns && off.on_ns <= by_ns;
        let mut waits = history.offs.iter().filter(waited);
        let spans = |off: &&LastOff| off.off_ns <= since_ns;
        let idle = |off: &&LastOff| matches!(off.cause, Cause::Lock | Cause::Poll);
        let wait = waits.clone().find(spans).or_else(|| waits.rfind(idle));
        let woken_ns = match wait {
            Some(off) => off.woken_ns(),
            None => Some(history.since_ns).filter(|since| *since > since_ns && *since <= by_ns)?,
        };
        Some(woken_ns.clamp(since_ns, by_ns))
    }

    /// Forgets what no open request will ask for; `needed_ns` is when the oldest began. Returns the threads that have
    /// exited, of which nothing is left.
    pub fn prune(&mut self, now_ns: u64, needed_ns: Option<u64>) -> Vec<u32> {
        let before_ns = now_ns.saturating_sub(KEPT_NS).min(needed_ns.unwrap_or(u64::MAX));
        let gone = |history: &History| {
            history.leaving == Some(Cause::Exited)
                && history.points.back().is_some_and(|point| point.at_ns < before_ns)
        };
        let exited = self.threads.extract_if(|_, history| gone(history)).map(|(tid, _)| tid).collect();
        for history in self.threads.values_mut() {
            while history.points.len() > 1 && history.points[1].at_ns <= before_ns {
                history.points.pop_front();
            }
            while history.offs.front().is_some_and(|off| off.on_ns < before_ns) {
                history.offs.pop_front();
            }
        }
        exited
    }
}

impl History {
    fn told(&mut self, at_ns: u64, account: &Account, leaving: Option<Cause>) {
        let last_ns = self.points.back().map_or(0, |point| point.at_ns);
        if at_ns < last_ns {
            return;
        }
        let known_cpu_ns = self.points.back().map_or(0, |point| point.cpu_ns);
        let mut cpu_ns = account.cpu_ns.max(known_cpu_ns);
        if let Some(last) = account.last {
            let run_ns = at_ns.saturating_sub(last.on_ns);
            // Only one that leaves has its current run in the sum.
            let before_ns = if leaving.is_some() {
                account.cpu_ns.saturating_sub(run_ns)
            } else {
                cpu_ns = account.cpu_ns.saturating_add(run_ns).max(known_cpu_ns);
                account.cpu_ns
            };
            if (last_ns..=last.on_ns).contains(&last.off_ns) && last.on_ns <= at_ns {
                let before_ns = before_ns.max(known_cpu_ns);
                // It waited first, and then for a CPU.
                let mut woken = account.off;
                woken.run_queue_ns = woken.run_queue_ns.saturating_sub(last.run_queue_ns);
                woken.throttled_ns = woken.throttled_ns.saturating_sub(last.throttled_ns);
                for (at_ns, off) in [
                    (last.off_ns, account.off.without(&last)),
                    (last.woken_ns(), woken),
                    (last.on_ns, account.off),
                ] {
                    self.points.push_back(Point { at_ns, cpu_ns: before_ns, off });
                }
                self.offs.push_back(last);
            }
        }
        self.points.push_back(Point { at_ns, cpu_ns, off: account.off });
        self.leaving = leaving;
        if self.offs.len() > OFFS_MAX {
            self.offs.pop_front();
        }
        if self.points.len() > POINTS_MAX {
            self.thin();
        }
    }

    /// Drops every other point of the older half.
    fn thin(&mut self) {
        let half = self.points.len() / 2;
        let mut index = 0;
        self.points.retain(|_| {
            index += 1;
            index > half || index % 2 == 1
        });
    }

    fn book(&mut self, tid: u32, at_ns: u64, account: &Account) -> Vec<Span> {
        let booked = self.booked;
        if at_ns <= booked.at_ns {
            return Vec::new();
        }
        self.booked = Point { at_ns, cpu_ns: account.cpu_ns, off: account.off };
        let cpu_ns = account.cpu_ns.saturating_sub(booked.cpu_ns);
        let off = account.off.less(booked.off);
        let span = |start_ns, end_ns, cpu_ns, run_queue_ns, throttled_ns| Span {
            tid,
            start_ns,
            end_ns,
            cpu_ns,
            run_queue_ns,
            throttled_ns,
        };
        let spans = match account.last.filter(|last| last.off_ns >= booked.at_ns) {
            None => vec![span(booked.at_ns, at_ns, cpu_ns, off.run_queue_ns, off.throttled_ns)],
            Some(last) => {
                let run_ns = cpu_ns.min(at_ns.saturating_sub(last.on_ns));
                let waited_ns = last.run_queue_ns.min(off.run_queue_ns);
                let held_ns = last.throttled_ns.min(off.throttled_ns);
                let (before_ns, before_held_ns) = (off.run_queue_ns - waited_ns, off.throttled_ns - held_ns);
                vec![
                    span(booked.at_ns, last.off_ns, cpu_ns - run_ns, before_ns, before_held_ns),
                    span(last.woken_ns(), last.on_ns, 0, waited_ns, held_ns),
                    span(last.on_ns, at_ns, run_ns, 0, 0),
                ]
            }
        };
        let empty = |span: &Span| span.cpu_ns == 0 && span.run_queue_ns == 0 && span.throttled_ns == 0;
        spans.into_iter().filter(|span| !empty(span)).collect()
    }

    /// The sums at an instant: between two points in proportion, after the last as it left.
    fn at(&self, at_ns: u64) -> Point {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        let Some(before) = after.checked_sub(1).map(|index| self.points[index]) else {
            return self.points[0];
        };
        if let Some(next) = self.points.get(after) {
            return before.towards(next, at_ns);
        }
        let since_ns = at_ns - before.at_ns;
        let mut point = Point { at_ns, ..before };
        let grows = match self.leaving {
            None => &mut point.cpu_ns,
            Some(cause) => point.off.part_mut(cause),
        };
        *grows = grows.saturating_add(since_ns);
        point
    }
}

impl Point {
    fn towards(&self, next: &Point, at_ns: u64) -> Point {
        let (part_ns, whole_ns) = (at_ns - self.at_ns, next.at_ns - self.at_ns);
        let between = |from: u64, to: u64| {
            let grown =
                u128::from(to.saturating_sub(from)) * u128::from(part_ns) / u128::from(whole_ns.max(1));
            from.saturating_add(u64::try_from(grown).unwrap_or(0))
        };
        let mut off = self.off;
        for (part, to) in off.parts_mut().into_iter().zip(next.off.parts()) {
            *part = between(*part, to);
        }
        Point { at_ns, cpu_ns: between(self.cpu_ns, next.cpu_ns), off }
    }
}

impl LastOff {
    /// When the wait was over, and the thread could run.
    fn woken_ns(&self) -> u64 {
        let runnable_ns = self.run_queue_ns.saturating_add(self.throttled_ns);
        self.on_ns.saturating_sub(runnable_ns).max(self.off_ns)
    }
}

impl Offs {
    fn parts(&self) -> [u64; 8] {
        let Self { run_queue_ns, throttled_ns, socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns } =
            *self;
        [run_queue_ns, throttled_ns, socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns]
    }

    fn parts_mut(&mut self) -> [&mut u64; 8] {
        let Self { run_queue_ns, throttled_ns, socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns } =
            self;
        [run_queue_ns, throttled_ns, socket_ns, client_ns, poll_ns, disk_ns, lock_ns, other_ns]
    }

    fn part_mut(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Runnable => &mut self.run_queue_ns,
            Cause::Socket => &mut self.socket_ns,
            Cause::Client => &mut self.client_ns,
            Cause::Poll => &mut self.poll_ns,
            Cause::Disk => &mut self.disk_ns,
            Cause::Lock => &mut self.lock_ns,
            Cause::Other | Cause::Exited => &mut self.other_ns,
        }
    }

    fn sum(&self) -> u64 {
        self.parts().iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    fn less(self, other: Offs) -> Offs {
        let mut rest = self;
        for (part, taken) in rest.parts_mut().into_iter().zip(other.parts()) {
            *part = part.saturating_sub(taken);
        }
        rest
    }

    /// The sums before a time off that they contain.
    fn without(self, last: &LastOff) -> Offs {
        let mut off = self;
        let runnable_ns = last.run_queue_ns.saturating_add(last.throttled_ns);
        off.run_queue_ns = off.run_queue_ns.saturating_sub(last.run_queue_ns);
        off.throttled_ns = off.throttled_ns.saturating_sub(last.throttled_ns);
        if last.cause != Cause::Runnable {
            let waited_ns = last.on_ns.saturating_sub(last.off_ns).saturating_sub(runnable_ns);
            let part = off.part_mut(last.cause);
            *part = part.saturating_sub(waited_ns);
        }
        off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAUSES: [Cause; 7] =
        [Cause::Runnable, Cause::Socket, Cause::Client, Cause::Poll, Cause::Disk, Cause::Lock, Cause::Other];

    /// A thread that runs and waits in turn, and tells of every `each`th wait; its length.
    fn told(accounts: &mut Accounts, turns: &[(u64, u64, usize)], each: usize) -> u64 {
        let mut now_ns = 1_000;
        let mut account = Account { since_ns: now_ns, ..Account::default() };
        for (index, &(run_ns, off_ns, cause)) in turns.iter().enumerate() {
            now_ns += run_ns;
            account.cpu_ns += run_ns;
            let cause = CAUSES[cause];
            if index % each == 0 {
                accounts.told(1, now_ns, &account, Some(cause));
            }
            let run_queue_ns = if cause == Cause::Runnable { off_ns } else { off_ns / 4 };
            account.off.run_queue_ns += run_queue_ns;
            *account.off.part_mut(cause) += off_ns - run_queue_ns;
            let (on_ns, throttled_ns) = (now_ns + off_ns, 0);
            account.last = Some(LastOff { off_ns: now_ns, on_ns, run_queue_ns, throttled_ns, cause });
            now_ns = on_ns;
        }
        accounts.told(1, now_ns, &account, None);
        now_ns
    }

    proptest! {
        #[test]
        fn every_split_is_whole_and_the_parts_of_a_span_are_its_split(
            turns in prop::collection::vec((1u64..5_000_000, 1u64..5_000_000, 0usize..7), 1..60),
            each in 1usize..6,
            cuts in (0u64..400_000_000, 0u64..400_000_000, 0u64..400_000_000),
        ) {
            let mut accounts = Accounts::default();
            let end_ns = told(&mut accounts, &turns, each);
            let mut cuts = [cuts.0 % (end_ns + 1), cuts.1 % (end_ns + 1), cuts.2 % (end_ns + 1)];
            cuts.sort_unstable();
            let [a, b, c] = cuts;
            let (first, second, whole) = (accounts.split(1, a, b), accounts.split(1, b, c), accounts.split(1, a, c));
            for (split, length_ns) in [(first, b - a), (second, c - b), (whole, c - a)] {
                prop_assert_eq!(split.on_cpu_ns + split.off.sum(), length_ns);
            }
            for ((first, second), whole) in
                first.off.parts().into_iter().zip(second.off.parts()).zip(whole.off.parts())
            {
                // Each part is rounded, and the excess of all is taken off one.
                prop_assert!((first + second).abs_diff(whole) <= 24, "{} + {} is not {}", first, second, whole);
            }
            let all = accounts.split(1, 1_000, end_ns);
            let ran_ns: u64 = turns.iter().map(|(run_ns, ..)| run_ns).sum();
            prop_assert_eq!(all.on_cpu_ns, ran_ns, "however few accounts were told");
        }

        #[test]
        fn thinning_keeps_the_sums(turns in prop::collection::vec((1u64..1_000, 1u64..1_000, 0usize..7), 1_000..1_200)) {
            let mut accounts = Accounts::default();
            let end_ns = told(&mut accounts, &turns, 1);
            let ran_ns: u64 = turns.iter().map(|(run_ns, ..)| run_ns).sum();
            prop_assert!(accounts.threads[&1].points.len() <= POINTS_MAX);
            prop_assert_eq!(accounts.split(1, 1_000, end_ns).on_cpu_ns, ran_ns);
        }
    }
}
