//! When the virtual machine counts as created: when it says so, else when it had started the last of its own threads.

use crate::class::ThreadClass;

/// Threads that HotSpot starts when all its others run, before the application's main (seen on JDK 17 and 25; since
/// 14, Threads::create_vm in runtime/threads.cpp).
const LAST_VM_THREADS: &[&str] = &["Notification Th", "Common-Cleaner"];
/// A JVM that is to be probed is so long before that, as a rule: it is found at its first thread.
const PROBED_NS: u64 = 100_000_000;
/// So long after its last thread a JVM that is probed will have said that it is initialised, unless it did before.
const INITIALIZED_NS: u64 = 1_000_000_000;

/// What is known until the virtual machine counts as created.
#[derive(Debug, Default)]
pub(super) struct Creation {
    /// The latest of its threads: when it got its name, and which.
    thread: Option<(u64, String)>,
    /// That is the last one.
    is_last: bool,
    /// Whether it will say so itself, once that is known.
    says: Option<bool>,
}

impl Creation {
    /// Whether it will say that it is initialised.
    pub fn says(&mut self, says: bool) {
        self.says = Some(says);
    }

    /// A thread of the virtual machine got its name.
    pub fn named(&mut self, at_ns: u64, name: &str, class: ThreadClass) {
        let of_vm = matches!(class, ThreadClass::JitC1 | ThreadClass::JitC2 | ThreadClass::Vm);
        if of_vm && !self.is_last {
            self.thread = Some((at_ns, name.to_owned()));
            self.is_last = LAST_VM_THREADS.iter().any(|last| name.starts_with(last));
        }
    }

    /// Whether its last thread tells, since nothing better will come.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let wait_ns = match self.says {
            Some(true) => INITIALIZED_NS,
            None => PROBED_NS,
            Some(false) => 0,
        };
        let (Some((at_ns, _)), true) = (&self.thread, self.is_last) else { return false };
        at_ns.saturating_add(wait_ns) <= now_ns
    }

    /// The latest of its threads.
    pub fn take(&mut self) -> Option<(u64, String)> {
        self.thread.take()
    }
}
