//! When the virtual machine counts as created: when it has started the last of its own threads.
//!
//! HotSpot's static probe `vm__init__end` does not tell: it comes once the first classes are initialised, before the threads,
//! the compilers and the module system (Threads::create_vm in runtime/threads.cpp).

use crate::class::ThreadClass;

/// The thread that HotSpot starts when all its others run, just before the application's main (since JDK 14,
/// Threads::create_vm in runtime/threads.cpp).
const LAST: &str = "Notification Th";
/// The thread that is the last of releases before. It comes with the first object that needs it, as a Java agent or JFR may
/// while the virtual machine is being created.
const LAST_BEFORE_14: &str = "Common-Cleaner";
/// So long after it the last one would have come.
const LATER_NS: u64 = 5_000_000_000;

/// What is known until the virtual machine counts as created.
#[derive(Debug, Default)]
pub(super) struct Creation {
    /// The latest of its threads: when it got its name, and which.
    thread: Option<(u64, String)>,
    may_be_last: bool,
}

impl Creation {
    /// A thread got its name. Whether it is the virtual machine's last one.
    pub fn named(&mut self, at_ns: u64, name: &str, class: ThreadClass) -> bool {
        let of_vm = matches!(class, ThreadClass::JitC1 | ThreadClass::JitC2 | ThreadClass::Vm);
        let is_last = of_vm && name.starts_with(LAST);
        if is_last || (of_vm && !self.may_be_last) {
            self.thread = Some((at_ns, name.to_owned()));
            self.may_be_last = name.starts_with(LAST_BEFORE_14);
        }
        is_last
    }

    /// Whether no later thread is to be expected.
    pub fn is_over(&self, now_ns: u64) -> bool {
        let at_ns = self.thread.as_ref().filter(|_| self.may_be_last).map(|(at_ns, _)| *at_ns);
        at_ns.is_some_and(|at_ns| at_ns.saturating_add(LATER_NS) <= now_ns)
    }

    /// The latest of its threads.
    pub fn take(&mut self) -> Option<(u64, String)> {
        self.thread.take()
    }
}
