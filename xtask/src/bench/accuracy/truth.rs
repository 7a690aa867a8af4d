//! What somebody else told of a JVM: events with their instants, whoever told them.

/// An event of a JVM, at the instant at which it was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Boot time, nanoseconds.
    pub at_ns: u64,
    /// Thread that it happened on, zero when that was not told.
    pub thread: u32,
    /// What happened.
    pub what: What,
    /// How long it took, nanoseconds; zero when that was not told.
    pub length_ns: u64,
}

/// Kinds of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A class was loaded.
    Class(Class),
    /// A method was compiled, and its code installed.
    Compile(Compiler),
    /// A compilation ended without code.
    CompileFailed,
    /// A collector paused the application.
    Pause,
    /// A safepoint.
    Safepoint,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// `java.lang.Object`, and whatever HotSpot adds to a hidden class's name.
    pub name: String,
    /// From an archive.
    pub shared: bool,
    /// Made at run time.
    pub generated: bool,
}

/// A compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    C1,
    C2,
}

impl Compiler {
    /// That of a tier: CompLevel, compiler/compilerDefinitions.hpp. Native wrappers (0) have none.
    pub fn of_level(level: u32) -> Option<Self> {
        match level {
            1..=3 => Some(Self::C1),
            4 => Some(Self::C2),
            _ => None,
        }
    }
}

impl Class {
    /// HotSpot counts it twice and logs it once: JFR's hook parses its own event classes again, instrumented, with internal
    /// visibility (create_new_instance_klass, jfr/instrumentation/jfrClassTransformer.cpp), whether JFR runs or not.
    pub fn counted_twice(&self) -> bool {
        let event = |name: &str| name.ends_with("Event") && !name.contains('$');
        self.name.strip_prefix("jdk.internal.event.").is_some_and(event)
    }

    /// Its package as a timeline names it.
    pub fn package(&self) -> &str {
        if self.generated {
            return "(generated)";
        }
        self.name.rsplit_once('.').map_or("(default)", |(package, _)| package)
    }
}

/// CPU of a thread in a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Compiler whose thread it is.
    pub compiler: Compiler,
    /// Begin of the span, boot time, nanoseconds.
    pub from_ns: u64,
    /// End of the span.
    pub to_ns: u64,
    /// CPU in it, nanoseconds.
    pub cpu_ns: u64,
}

/// Everything that one source told of one process.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// It tells nothing of what was before, boot time, nanoseconds.
    pub from_ns: u64,
    /// Nor of what was from then on.
    pub to_ns: u64,
    /// In the order of their instants.
    pub events: Vec<Event>,
    /// Number of classes loaded so far at instants of boot time, where the source samples it.
    pub class_counts: Vec<(u64, u64)>,
    /// CPU of compiler threads, where the source tells it.
    pub shares: Vec<Share>,
}

/// A number of the truth for a span, and what it leaves open at the span's edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// The number.
    pub value: u64,
    /// By how much another observer's number may differ, because the span's edges fall among its events.
    pub open: u64,
}

/// Events so close to an edge belong to either side: the clocks' conversions, and the way from one hook to the other.
const EDGE_NS: u64 = 2_000_000;
/// Longest time for which a thread may be kept off its CPU between one hook and the other. It can be there with one event
/// only.
const PREEMPTED_NS: u64 = 20_000_000;

impl Truth {
    /// How many events of a kind are in a span.
    pub fn count(&self, span: (u64, u64), is: impl Fn(&What) -> bool) -> Told {
        let value = self.within(span, &is).count() as u64;
        Told { value, open: self.open(span.0, &is, |_| 1) + self.open(span.1, &is, |_| 1) }
    }

    /// The sum of the lengths of a kind's events in a span, nanoseconds.
    pub fn length_ns(&self, span: (u64, u64), is: impl Fn(&What) -> bool) -> Told {
        let value = self.within(span, &is).map(|event| event.length_ns).sum();
        let length = |event: &Event| event.length_ns;
        Told { value, open: self.open(span.0, &is, length) + self.open(span.1, &is, length) }
    }

    /// The events of a kind in a span.
    pub fn within(&self, span: (u64, u64), is: &impl Fn(&What) -> bool) -> impl Iterator<Item = &Event> {
        let from = self.events.partition_point(|event| event.at_ns < span.0);
        let to = self.events.partition_point(|event| event.at_ns < span.1);
        self.events.get(from..to).unwrap_or_default().iter().filter(|event| is(&event.what))
    }

    /// What the events around an edge leave open: all that are close to it, or one of each thread.
    fn open(&self, edge_ns: u64, is: &impl Fn(&What) -> bool, size: impl Fn(&Event) -> u64) -> u64 {
        let around = |width_ns: u64| (edge_ns.saturating_sub(width_ns), edge_ns + width_ns);
        let close = self.within(around(EDGE_NS), is).map(&size).sum();
        let mut by_thread = std::collections::BTreeMap::new();
        for event in self.within(around(PREEMPTED_NS), is) {
            let largest = by_thread.entry(event.thread).or_insert(0);
            *largest = size(event).max(*largest);
        }
        by_thread.values().sum::<u64>().max(close)
    }

    /// Classes loaded in a span, by the samples around its edges.
    pub fn classes_counted(&self, span: (u64, u64)) -> Option<Told> {
        let (from, from_next) = self.counts_at(span.0)?;
        let (to, to_next) = self.counts_at(span.1)?;
        Some(Told { value: to - from, open: (to_next - to).max(from_next - from) })
    }

    /// The last count before an instant and the first after it.
    fn counts_at(&self, at_ns: u64) -> Option<(u64, u64)> {
        let after = self.class_counts.partition_point(|&(stamp_ns, _)| stamp_ns <= at_ns);
        let (_, before) = self.class_counts.get(after.checked_sub(1)?)?;
        Some((*before, self.class_counts.get(after).map_or(*before, |(_, next)| *next)))
    }

    /// CPU of a compiler's threads in a span; a share across an edge is divided evenly, and left open is what it may have
    /// been at most and at least.
    pub fn cpu_ns(&self, compiler: Compiler, span: (u64, u64)) -> Told {
        let mut told = Told::default();
        for share in self.shares.iter().filter(|share| share.compiler == compiler) {
            let (from, to) = (share.from_ns.max(span.0), share.to_ns.min(span.1));
            let (inside_ns, whole_ns) = (to.saturating_sub(from), share.to_ns - share.from_ns);
            if inside_ns == 0 {
                continue;
            }
            let part = u128::from(share.cpu_ns) * u128::from(inside_ns) / u128::from(whole_ns.max(1));
            let part = u64::try_from(part).unwrap_or(share.cpu_ns);
            let most = share.cpu_ns.min(inside_ns);
            let least = share.cpu_ns.saturating_sub(whole_ns - inside_ns);
            told.value += part;
            told.open += most.saturating_sub(part).max(part.saturating_sub(least));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn event(at_ms: u64, thread: u32) -> Event {
        Event { at_ns: at_ms * MS, thread, what: What::Pause, length_ns: 5 }
    }

    fn truth(events: Vec<Event>) -> Truth {
        Truth { events, ..Truth::default() }
    }

    #[test]
    fn a_span_has_its_begin_and_not_its_end() {
        let truth = truth(vec![event(100, 1), event(200, 1), event(300, 1)]);
        let pause = |what: &What| *what == What::Pause;
        assert_eq!(truth.count((100 * MS, 300 * MS), pause).value, 2);
        assert_eq!(truth.length_ns((0, 1_000 * MS), pause), Told { value: 15, open: 0 });
        assert_eq!(truth.count((0, 1_000 * MS), |what| *what == What::Safepoint).value, 0);
    }

    #[test]
    fn an_edge_leaves_open_what_is_close_or_one_event_of_each_thread() {
        let truth = truth(vec![event(90, 1), event(95, 1), event(96, 2), event(99, 1), event(101, 1)]);
        let open = |edge_ms: u64| truth.count((edge_ms * MS, 1_000 * MS), |_| true).open;
        assert_eq!(open(100), 2, "two are within 2 ms, two threads within 20");
        assert_eq!(open(150), 0);
        assert_eq!(open(80), 2, "one of each thread");
    }

    #[test]
    fn a_sampled_share_is_divided_by_time_within_what_a_thread_can_do() {
        let share = Share { compiler: Compiler::C2, from_ns: 0, to_ns: 100, cpu_ns: 80 };
        let truth = Truth { shares: vec![share], ..Truth::default() };
        assert_eq!(truth.cpu_ns(Compiler::C2, (0, 50)), Told { value: 40, open: 10 });
        assert_eq!(truth.cpu_ns(Compiler::C2, (0, 100)), Told { value: 80, open: 0 });
        assert_eq!(truth.cpu_ns(Compiler::C1, (0, 100)), Told::default());
    }

    #[test]
    fn a_sampled_count_is_right_to_what_came_between_two_samples() {
        let truth = Truth { class_counts: vec![(100, 10), (200, 30), (300, 30)], ..Truth::default() };
        assert_eq!(truth.classes_counted((150, 300)), Some(Told { value: 20, open: 20 }));
        assert_eq!(truth.classes_counted((50, 300)), None, "nothing is known so early");
    }

    #[test]
    fn event_classes_of_the_jdk_are_counted_twice() {
        let twice = |name: &str| Class { name: name.into(), shared: false, generated: false }.counted_twice();
        assert!(twice("jdk.internal.event.Event") && twice("jdk.internal.event.SocketReadEvent"));
        assert!(
            !twice("jdk.internal.event.EventHelper")
                && !twice("jdk.internal.event.EventHelper$ThreadTrackHolder")
        );
        assert!(!twice("jdk.jfr.internal.jfc.model.XmlEvent"));
    }
}
