//! Where a latency went: one line a cause.

use std::fmt::Write as _;

use proto::v1::{Ledger, Overlap, PeerWait, Request};

use super::bar::{bar, percent, tenths};
use super::format::{count, cut, duration};
use super::style::{Ink, Style};

/// Columns of the terminal for the causes' names and for the bars; a bar of full width is the whole.
const NAME_WIDTH: usize = 12;
const BAR_WIDTH: usize = 40;
/// In front of a cause.
const INDENT: &str = "    ";

/// A cause that took time.
pub(super) struct Share {
    pub cause: &'static str,
    pub ns: u64,
    /// Of the ledger's sum, in tenths of a percent.
    pub tenths: u64,
}

/// Everything a latency can be spent on, in the order in which it is shown. Absent: could not be measured.
pub(super) fn causes(ledger: &Ledger) -> [(&'static str, Option<u64>); 8] {
    [
        ("on_cpu", ledger.on_cpu_ns),
        ("run_queue", ledger.run_queue_ns),
        ("throttled", ledger.throttled_ns),
        ("pool_connect", ledger.pool_connect_ns),
        ("socket_wait", ledger.socket_wait_ns),
        ("disk", ledger.disk_ns),
        ("lock_or_park", ledger.lock_or_park_ns),
        ("unexplained", ledger.unexplained_ns),
    ]
}

/// The causes that took time, with their shares of all of it, which add up to 100 %.
pub(super) fn shares(ledger: &Ledger) -> Vec<Share> {
    let taken: Vec<_> = causes(ledger).into_iter().map(|(cause, ns)| (cause, ns.unwrap_or(0))).collect();
    let parts: Vec<_> = taken.iter().map(|(_, ns)| *ns).collect();
    let shares = taken.into_iter().zip(tenths(&parts));
    shares.filter(|((_, ns), _)| *ns > 0).map(|((cause, ns), tenths)| Share { cause, ns, tenths }).collect()
}

/// The causes that took the most, longest first.
pub(super) fn longest(ledger: &Ledger) -> Vec<Share> {
    let mut shares = shares(ledger);
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    shares
}

/// `on_cpu 64.2 %, pool_connect 30.1 %, …` in one line of the summary.
pub(super) fn in_one_line(ledger: &Ledger) -> Option<String> {
    const NAMED: usize = 4;
    let shares = longest(ledger);
    let (named, others) = shares.split_at(shares.len().min(NAMED));
    let mut words: Vec<_> =
        named.iter().map(|share| format!("{} {}", share.cause, percent(share.tenths))).collect();
    if !others.is_empty() {
        words.push(format!("others {}", percent(others.iter().map(|share| share.tenths).sum())));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// The ledger's lines below a request's title: causes with their bars, then what the JVM did meanwhile.
pub(super) fn lines(request: &Request, ledger: &Ledger, style: Style) -> String {
    let mut text = String::new();
    let shares = shares(ledger);
    let whole: u128 = shares.iter().map(|share| u128::from(share.ns)).sum();
    let waits = request.wait_ledger.as_ref().map(causes);
    for Share { cause, ns, tenths } in shares {
        let drawn = bar(ns, whole, BAR_WIDTH, style.unicode);
        let blank = BAR_WIDTH - drawn.chars().count();
        let drawn = style.paint(ink(cause), &drawn);
        let in_wait = waits.and_then(|waits| waits.into_iter().find(|(waited, _)| *waited == cause)?.1);
        let in_wait = in_wait
            .filter(|ns| *ns > 0)
            .map_or_else(String::new, |ns| format!("  {:>9} in wait", duration(ns)));
        let (time, share) = (duration(ns), percent(tenths));
        let _ = writeln!(
            text,
            "{INDENT}{cause:<NAME_WIDTH$}  {drawn}{:blank$}  {time:>9}  {share:>7}{in_wait}",
            ""
        );
        if cause == "socket_wait" {
            ledger.peers.iter().for_each(|peer| text.push_str(&peer_line(peer, style)));
        }
    }
    let sum_ns = u64::try_from(whole).unwrap_or(u64::MAX);
    if duration(sum_ns) != duration(request.latency_ns) {
        let _ = writeln!(text, "{INDENT}the causes sum to {}, not to the latency", duration(sum_ns));
    }
    if let Some(meanwhile) = request.overlap.as_ref().and_then(meanwhile) {
        let _ = writeln!(text, "{INDENT}{}", style.paint(Ink::Aside, &meanwhile));
    }
    text
}

fn ink(cause: &str) -> Ink {
    match cause {
        "on_cpu" => Ink::Work,
        "run_queue" | "throttled" | "disk" => Ink::Machine,
        "unexplained" => Ink::Unknown,
        _ => Ink::Others,
    }
}

/// Without bar and percentage: it is a part of its cause, which has them.
fn peer_line(peer: &PeerWait, style: Style) -> String {
    const WIDTH: usize = NAME_WIDTH + BAR_WIDTH;
    let name = if peer.peer.is_empty() { "unknown peer" } else { &peer.peer };
    let name = cut(format!("{name} {}", peer.service).trim(), WIDTH);
    let line = format!("{name:<WIDTH$}  {:>9}", duration(peer.wait_ns));
    format!("{INDENT}  {}\n", style.paint(Ink::Aside, &line))
}

/// `meanwhile: C1 35.0 ms, C2 194.4 ms of CPU; 812 classes loaded; 343 methods compiled (C1 301, C2 42)`, of what was measured and not zero.
fn meanwhile(overlap: &Overlap) -> Option<String> {
    let some = |amount: Option<u64>| amount.filter(|amount| *amount > 0);
    let cpu: Vec<_> = [("C1", overlap.jit_c1_ns), ("C2", overlap.jit_c2_ns), ("GC", overlap.gc_ns)]
        .into_iter()
        .filter_map(|(class, ns)| Some(format!("{class} {}", duration(some(ns)?))))
        .collect();
    let mut facts = Vec::new();
    if !cpu.is_empty() {
        facts.push(format!("{} of CPU", cpu.join(", ")));
    }
    facts.extend(some(overlap.classes_loaded).map(|classes| format!("{} classes loaded", count(classes))));
    facts.extend(some(overlap.compiles).map(|compiles| {
        let compilers = [("C1", overlap.compiles_c1), ("C2", overlap.compiles_c2)];
        let by = compilers.into_iter().filter_map(|(name, by)| Some(format!("{name} {}", count(some(by)?))));
        let by = by.collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { by } else { format!(" ({by})") };
        format!("{} methods compiled{by}", count(compiles))
    }));
    (!facts.is_empty()).then(|| format!("meanwhile: {}", facts.join("; ")))
}
