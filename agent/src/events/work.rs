//! What a JVM did, from the shared layout to the core's words. Names of classes end here: only their packages go on.

use agent_ebpf::{Probe, Work, Worked, WorkedOn, compiler};
use timeline::{Compiler, Counted, Event, What, package};

use super::captured;

const CLASS_LOADED: u32 = Probe::ClassLoaded as u32;
const THREAD_START: u32 = Probe::ThreadStart as u32;

/// The events of a record that tells what was done by an instant.
pub fn worked(record: &Worked, mut tell: impl FnMut(Event)) {
    let (at_ns, tid) = (record.as_of_ns, record.head.tid);
    tell(Event { at_ns, tid, what: counted(&record.work) });
}

/// The events of a record that tells of something by name.
pub fn worked_on(record: &WorkedOn, mut tell: impl FnMut(Event)) {
    let (at_ns, tid) = (record.head.at_ns, record.head.tid);
    tell(Event { at_ns, tid, what: counted(&record.work) });
    let name = String::from_utf8_lossy(captured(&record.name, record.captured));
    // Not read, or without a name.
    if name.is_empty() {
        return;
    }
    let what = match (record.probe, record.compiler) {
        (THREAD_START, _) => What::ThreadStarted { name: name.into_owned() },
        (CLASS_LOADED, _) => What::ClassLoaded { package: package(&name) },
        (_, compiler::C1) => What::Compiled { compiler: Compiler::C1, package: package(&name) },
        _ => What::Compiled { compiler: Compiler::C2, package: package(&name) },
    };
    tell(Event { at_ns, tid, what });
}

fn counted(work: &Work) -> What {
    What::Counted { counted: Box::new(of(work)) }
}

/// The core has the same sums under the same names; one that is not listed fails the build.
macro_rules! same {
    ($work:expr; $($sum:ident),+ $(,)?) => {{
        let Work { $($sum),+ } = $work;
        Counted { $($sum),+ }
    }};
}

/// [`Work`] in the core's words.
pub fn of(work: &Work) -> Counted {
    same!(
        *work;
        classes,
        classes_shared,
        compiles_c1,
        compiles_c2,
        compiles_failed,
        compile_c1_ns,
        compile_c2_ns,
        collections,
        gc_ns,
        safepoints,
        safepoint_ns,
        threads,
        jar_reads,
        jar_bytes,
        modules_reads,
        modules_bytes,
    )
}
