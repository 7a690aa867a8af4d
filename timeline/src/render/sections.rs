//! The tables below the summary.

use std::collections::BTreeMap;

use proto::v1::{Memory, Phase, Route, Timeline};

use super::WIDTH;
use super::format::{
    ABSENT, class_word, count, counted, cut, duration, harmless, maybe, mib, route_name, word,
};
use super::table::{Column, Columns, Table};

/// Columns of the terminal for a route's path.
pub(super) const ROUTE_WIDTH: usize = 32;
/// Routes and connections shown; JSON has them all.
pub(super) const ROWS: usize = 20;
/// Order of the thread classes' columns; a class that is not among them comes after.
const CLASSES: [&str; 10] =
    ["main", "jit_c1", "jit_c2", "gc", "vm", "worker", "acceptor", "poller", "pool", "other"];
pub(super) const INDENT: &str = "  ";

pub(super) fn findings(timeline: &Timeline) -> String {
    let mut table = Table::new(INDENT, ["CODE", ">PRICE", "EVIDENCE"]);
    for finding in &timeline.findings {
        table.row([&finding.code, &maybe(finding.price_ns), &cut(&finding.evidence, 70)]);
    }
    section("Findings", &table, None)
}

pub(super) fn milestones(timeline: &Timeline) -> String {
    let mut table = Columns::new([
        Column::fixed("MILESTONE"),
        Column::fixed(">SINCE EXEC"),
        Column::fixed(">GAP"),
        Column::fixed(">RSS"),
        Column::fixed(">CGROUP"),
        Column::rest("EVIDENCE"),
    ]);
    let mut measured = false;
    let mut previous_ns = None;
    for milestone in &timeline.milestones {
        let at_ns = milestone.since_exec_ns;
        let gap = previous_ns.map_or_else(
            || ABSENT.to_owned(),
            |previous_ns| format!("+{}", duration(at_ns.saturating_sub(previous_ns))),
        );
        previous_ns = Some(at_ns);
        let kind = word(milestone.kind().as_str_name(), "MILESTONE_KIND_");
        let memory = milestone.memory.unwrap_or_default();
        measured |= memory != Memory::default();
        table.row([
            Some(kind),
            Some(duration(at_ns)),
            Some(gap),
            memory.rss_bytes.map(mib),
            memory.cgroup_bytes.map(mib),
            Some(cut(&milestone.evidence, 70)),
        ]);
    }
    let (table, _) = table.fitted(INDENT, WIDTH);
    section(if measured { "Milestones; memory in MiB" } else { "Milestones" }, &table, None)
}

pub(super) fn routes(timeline: &Timeline) -> String {
    let mut table = Table::new(
        INDENT,
        [
            "ROUTE",
            ">COUNT",
            ">1ST",
            ">2-10 P50",
            ">11-200 P50",
            ">P95",
            ">P99",
            ">COLD PENALTY",
            "FIRST FROM",
        ],
    );
    let mut routes: Vec<&Route> = timeline.routes.iter().collect();
    routes.sort_by_key(|route| std::cmp::Reverse(route.cold_penalty_ns));
    for route in routes.iter().take(ROWS) {
        table.row([
            cut(&route_name(Some(&route.method), &route.route), ROUTE_WIDTH),
            count(route.count),
            maybe(route.first_ns),
            maybe(route.p50_2_to_10_ns),
            maybe(route.p50_11_to_200_ns),
            maybe(route.p95_ns),
            maybe(route.p99_ns),
            maybe(route.cold_penalty_ns),
            class_word(route.first_class()),
        ]);
    }
    section("Routes, by cold penalty", &table, more(routes.len(), "route"))
}

/// In milliseconds, because the eye compares columns: a unit in each cell would hide the magnitude.
pub(super) fn cpu(timeline: &Timeline) -> String {
    let mut phases: Vec<PhaseCpu<'_>> = timeline.phases.iter().map(PhaseCpu::of).collect();
    let mut totals = BTreeMap::new();
    for (class, ns) in phases.iter().flat_map(|phase| &phase.cpu_ns) {
        add(totals.entry(*class).or_insert(0), *ns);
    }
    totals.retain(|_, ns| *ns > 0);
    let mut folded = Vec::new();
    loop {
        let text = section(&cpu_title(&folded), &cpu_table(&phases, totals.keys().copied().collect()), None);
        let fits = text.lines().skip(1).all(|line| line.chars().count() <= WIDTH);
        let smallest = totals.iter().filter(|(class, _)| **class != "other").min_by_key(|(_, ns)| **ns);
        let Some((&class, &ns)) = smallest.filter(|_| !fits) else { return text };
        totals.remove(class);
        add(totals.entry("other").or_insert(0), ns);
        for phase in &mut phases {
            phase.fold_into_other(class);
        }
        folded.push(class);
    }
}

/// What a message says need not be true: a sum of times must not end the program.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// A phase and its CPU by the class names that are shown.
struct PhaseCpu<'a> {
    phase: &'a Phase,
    cpu_ns: BTreeMap<&'a str, u64>,
}

impl<'a> PhaseCpu<'a> {
    fn of(phase: &'a Phase) -> Self {
        Self { phase, cpu_ns: phase.cpu_ns.iter().map(|(class, ns)| (class.as_str(), *ns)).collect() }
    }

    fn fold_into_other(&mut self, class: &str) {
        if let Some(ns) = self.cpu_ns.remove(class) {
            add(self.cpu_ns.entry("other").or_insert(0), ns);
        }
    }
}

fn cpu_title(folded: &[&str]) -> String {
    let note = if folded.is_empty() { String::new() } else { format!("; other has {}", folded.join(", ")) };
    harmless(&format!("CPU by thread class, in ms{note}"))
}

fn cpu_table(phases: &[PhaseCpu<'_>], mut classes: Vec<&str>) -> Table {
    classes.sort_by_key(|class| CLASSES.iter().position(|known| known == class).unwrap_or(CLASSES.len()));
    let ms = |ns: Option<u64>| ns.map_or_else(|| ABSENT.to_owned(), |ns| format!("{:.1}", ns as f64 / 1e6));
    // Most nodes throttle nobody: the column is for those that do.
    let throttled = phases.iter().any(|phase| phase.phase.throttled_ns.is_some_and(|ns| ns > 0));
    let headings = classes.iter().map(|class| format!(">{}", harmless(class).to_uppercase()));
    let headings: Vec<_> = ["PHASE", ">LENGTH", ">CPU"]
        .map(str::to_owned)
        .into_iter()
        .chain(headings)
        .chain([">RUN QUEUE".to_owned()])
        .chain(throttled.then(|| ">THROTTLED".to_owned()))
        .chain([">REQUESTS".to_owned()])
        .collect();
    let mut table = Table::new(INDENT, headings.iter().map(String::as_str));
    for PhaseCpu { phase, cpu_ns } in phases {
        let kind = word(phase.kind().as_str_name(), "PHASE_KIND_");
        let total = cpu_ns.values().fold(0_u64, |total, ns| total.saturating_add(*ns));
        let mut row = vec![kind, duration(phase.length_ns), ms(Some(total))];
        row.extend(classes.iter().map(|class| ms(cpu_ns.get(class).copied().filter(|ns| *ns > 0))));
        row.push(ms(phase.run_queue_ns));
        row.extend(throttled.then(|| ms(phase.throttled_ns)));
        row.push(count(phase.requests));
        table.row(row);
    }
    table
}

pub(super) fn more(rows: usize, noun: &str) -> Option<String> {
    let hidden = rows.checked_sub(ROWS).filter(|hidden| *hidden > 0)?;
    Some(format!("{INDENT}and {}: see -o json\n", counted(hidden as u64, &format!("more {noun}"))))
}

pub(super) fn section(title: &str, table: &Table, footer: Option<String>) -> String {
    if table.is_empty() {
        return String::new();
    }
    format!("{title}:\n{}{}", table.text(), footer.unwrap_or_default())
}
