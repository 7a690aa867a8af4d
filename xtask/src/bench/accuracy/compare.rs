//! jcold's number beside another's for the same span of the same process.

use serde_json::{Value, json};

use super::spans::{self, Span};
use super::start::{Kind, Start};
use super::truth::{Compiler, Told, Truth, What};
use crate::timeline::number;

/// CPU of a thread is told when it leaves its CPU, or every 5 ms.
const ACCOUNT_NS: u64 = 5_000_000;
/// ThreadCPULoad takes a thread's user time in ticks of the kernel's statistics, at a span's begin and at its end.
const TICK_NS: u64 = 10_000_000;

/// Two numbers that should be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// `stage first`
    pub span: String,
    /// `classes_loaded`
    pub number: &'static str,
    /// Who else told it.
    pub by: &'static str,
    /// Where jcold has it from.
    pub source: String,
    /// What jcold told, when it did.
    pub jcold: Option<u64>,
    /// What the other told.
    pub theirs: u64,
    /// How much more HotSpot counts than the other tells, and why is known.
    pub explained: u64,
    /// By how much the numbers may differ: the bound, and what the span's edges leave open.
    pub allowed: u64,
}

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The same number.
    Exact,
    /// It differs by less than is allowed.
    Within,
    /// It differs by more.
    Off,
    /// jcold did not tell it.
    Untold,
}

impl Comparison {
    /// How much jcold's number differs from what it should be.
    pub fn difference(&self) -> Option<i64> {
        i64::try_from(self.jcold?).ok()?.checked_sub_unsigned(self.theirs + self.explained)
    }

    /// What came of it.
    pub fn verdict(&self) -> Verdict {
        match self.difference().map(i64::unsigned_abs) {
            None => Verdict::Untold,
            Some(0) => Verdict::Exact,
            Some(difference) if difference <= self.allowed => Verdict::Within,
            Some(_) => Verdict::Off,
        }
    }

    /// For the report.
    pub fn to_json(&self) -> Value {
        json!({
            "span": self.span, "number": self.number, "by": self.by, "source": self.source, "jcold": self.jcold,
            "theirs": self.theirs, "explained": self.explained, "difference": self.difference(),
            "allowed": self.allowed, "verdict": self.verdict().name(),
        })
    }
}

impl Verdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Within => "within",
            Self::Off => "off",
            Self::Untold => "untold",
        }
    }
}

/// A compilation that was under way when a recording began has ended by then.
const LONGEST_COMPILATION_NS: u64 = 2_000_000_000;
/// Where the source of the compilers' numbers stands.
const COMPILES: &str = "compilesSource";
/// The hooks of a pause or safepoint are not at the same place, and between them lines are logged.
const HOOKS_NS: u64 = 200_000;

/// A number of the contract's JvmWork: name here and there, where its source stands, and the bound: percent, and so much
/// for each event.
struct Number {
    name: &'static str,
    field: &'static str,
    source: &'static str,
    percent: u64,
    each: Option<fn(&What) -> bool>,
    told: Tell,
}

const NUMBERS: [Number; 10] = [
    counted("classes_loaded", "classesLoaded", "classesSource", |truth, span| truth.count(span, is_class)),
    counted("classes_shared", "classesShared", "classesSource", |truth, span| {
        truth.count(span, |what| matches!(what, What::Class(class) if class.shared))
    }),
    counted("compiles", "compiles", COMPILES, |truth, span| {
        truth.count(span, |what| matches!(what, What::Compile(_)))
    }),
    counted("compiles_c1", "compilesC1", COMPILES, |truth, span| {
        truth.count(span, |what| *what == What::Compile(Compiler::C1))
    }),
    counted("compiles_c2", "compilesC2", COMPILES, |truth, span| {
        truth.count(span, |what| *what == What::Compile(Compiler::C2))
    }),
    counted("compiles_failed", "compilesFailed", COMPILES, |truth, span| {
        truth.count(span, |what| *what == What::CompileFailed)
    }),
    counted("gc_collections", "gcCollections", "gcSource", |truth, span| truth.count(span, is_pause)),
    timed("gc_ns", "gcNs", "gcSource", is_pause, |truth, span| truth.length_ns(span, is_pause)),
    counted("safepoints", "safepoints", "safepointsSource", |truth, span| truth.count(span, is_safepoint)),
    timed("safepoint_ns", "safepointNs", "safepointsSource", is_safepoint, |truth, span| {
        truth.length_ns(span, is_safepoint)
    }),
];

type Tell = fn(&Truth, (u64, u64)) -> Told;

const fn counted(name: &'static str, field: &'static str, source: &'static str, told: Tell) -> Number {
    Number { name, field, source, percent: 0, each: None, told }
}

const fn timed(
    name: &'static str,
    field: &'static str,
    source: &'static str,
    each: fn(&What) -> bool,
    told: Tell,
) -> Number {
    Number { name, field, source, percent: 5, each: Some(each), told }
}

fn is_class(what: &What) -> bool {
    matches!(what, What::Class(_))
}

fn is_pause(what: &What) -> bool {
    *what == What::Pause
}

fn is_safepoint(what: &What) -> bool {
    *what == What::Safepoint
}

const COMPILERS: [(&str, &str, Compiler); 2] =
    [("cpu_jit_c1_ns", "jit_c1", Compiler::C1), ("cpu_jit_c2_ns", "jit_c2", Compiler::C2)];

/// Everything of a start that somebody else told too.
pub fn all(start: &Start) -> Vec<Comparison> {
    let spans = spans::of(start);
    let mut all: Vec<Comparison> = spans.iter().flat_map(|span| by_schedstat(start, span)).collect();
    let Some(truth) = &start.truth else { return all };
    for span in &spans {
        match start.kind {
            Kind::Xlog => all.extend(NUMBERS.iter().map(|number| by_xlog(truth, span, number))),
            Kind::Jfr if span.edges.0 >= truth.from_ns && span.edges.1 <= truth.to_ns => {
                all.extend(by_jfr(truth, span));
            }
            // Its recording begins within one of the phases, and ends within another.
            Kind::Jfr if span.name.starts_with("phase") => {
                let part = spans::part_of(start, span, (truth.from_ns, truth.to_ns));
                all.extend(part.iter().flat_map(|part| by_jfr(truth, part)));
            }
            Kind::Plain | Kind::Jfr => {}
        }
    }
    all
}

fn by_xlog(truth: &Truth, span: &Span, number: &Number) -> Comparison {
    let mut comparison = compared(truth, span, number, "xlog");
    if number.name == "classes_loaded" {
        let twice = |what: &What| matches!(what, What::Class(class) if class.counted_twice());
        comparison.explained = truth.within(span.edges, &twice).count() as u64;
    }
    // Code is installed before a compilation ends, and a process that exits may never come to that.
    let exits = truth.events.last().is_some_and(|last| last.at_ns < span.edges.1);
    comparison.allowed += u64::from(exits && number.source == COMPILES);
    comparison
}

fn by_jfr(truth: &Truth, span: &Span) -> Vec<Comparison> {
    let mut all: Vec<Comparison> = NUMBERS
        .iter()
        .filter(|number| !number.name.starts_with("classes"))
        // Intervals have fewer numbers than phases: what they lack was not left untold.
        .filter(|number| !span.is_part || !span.work[number.field].is_null())
        .map(|number| of_recording(truth, span, number))
        .collect();
    if let Some(told) = truth.classes_counted(span.edges) {
        let counted = compared(truth, span, &NUMBERS[0], "jfr");
        all.push(Comparison { theirs: told.value, allowed: told.open, ..counted });
    }
    for (name, class, compiler) in COMPILERS {
        if let Some(cpu_ns) = number(&span.cpu_ns[class]) {
            let told = truth.cpu_ns(compiler, span.edges);
            all.push(cpu(span, name, "jfr", cpu_ns, Told { open: told.open + 2 * TICK_NS, ..told }));
        }
    }
    all
}

/// A compilation that was under way when the recording began is not in it: one of each compiler, as a rule.
fn of_recording(truth: &Truth, span: &Span, number: &Number) -> Comparison {
    let begins = span.edges.0.saturating_sub(truth.from_ns) < LONGEST_COMPILATION_NS;
    let under_way = begins && number.source == COMPILES;
    let compared = compared(truth, span, number, "jfr");
    Comparison { allowed: compared.allowed + u64::from(under_way), ..compared }
}

fn compared(truth: &Truth, span: &Span, of: &Number, by: &'static str) -> Comparison {
    let told = (of.told)(truth, span.edges);
    let events = of.each.map_or(0, |is| truth.count(span.edges, is).value);
    Comparison {
        span: span.name.clone(),
        number: of.name,
        by,
        source: span.work[of.source].as_str().unwrap_or("-").to_owned(),
        jcold: number(&span.work[of.field]),
        theirs: told.value,
        explained: 0,
        allowed: told.value * of.percent / 100 + events * HOOKS_NS + told.open + not_told_apart(span, of),
    }
}

/// Compilations that jcold counts and says of no compiler: those before its probes, which the JVM's own counter has.
fn not_told_apart(span: &Span, of: &Number) -> u64 {
    let told = |field: &str| number(&span.work[field]);
    let apart = || Some(told("compiles")?.saturating_sub(told("compilesC1")? + told("compilesC2")?));
    let is_apart = matches!(of.field, "compilesC1" | "compilesC2");
    if is_apart { apart().unwrap_or(0) } else { 0 }
}

/// CPU of the compilers' threads, by the kernel's account of each.
fn by_schedstat(start: &Start, span: &Span) -> Vec<Comparison> {
    let compilers = COMPILERS.iter().filter_map(|&(name, class, _)| {
        let cpu_ns = number(&span.cpu_ns[class])?;
        let (from, to) = (
            start.history.cpu_range_ns(class, span.edges.0),
            start.history.cpu_range_ns(class, span.edges.1),
        );
        let value = start
            .history
            .cpu_ns(class, span.edges.1)
            .saturating_sub(start.history.cpu_ns(class, span.edges.0));
        Some(cpu(span, name, "schedstat", cpu_ns, Told { value, open: (from.1 - from.0) + (to.1 - to.0) }))
    });
    compilers.collect()
}

fn cpu(span: &Span, number: &'static str, by: &'static str, jcold: u64, told: Told) -> Comparison {
    Comparison {
        span: span.name.clone(),
        number,
        by,
        source: "sched".into(),
        jcold: Some(jcold),
        theirs: told.value,
        explained: 0,
        allowed: told.value * 2 / 100 + told.open + ACCOUNT_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(jcold: Option<u64>, theirs: u64, explained: u64, allowed: u64) -> Comparison {
        Comparison {
            span: "stage first".into(),
            number: "classes_loaded",
            by: "xlog",
            source: "usdt".into(),
            jcold,
            theirs,
            explained,
            allowed,
        }
    }

    #[test]
    fn a_difference_is_exact_once_it_is_explained() {
        assert_eq!(comparison(Some(314), 310, 4, 0).verdict(), Verdict::Exact);
        assert_eq!(comparison(Some(313), 310, 4, 1).verdict(), Verdict::Within);
        assert_eq!(comparison(Some(310), 310, 4, 3).verdict(), Verdict::Off);
        assert_eq!(comparison(None, 310, 4, 3).verdict(), Verdict::Untold);
    }
}
