//! When the virtual machine counts as created: when it has started the last of its own threads.
//!
//! HotSpot's static probe `vm__init__end` does not tell: it comes once the first classes are initialised, before the threads,
//! the compilers and the module system (Threads::create_vm in runtime/threads.cpp).

use crate::class::ThreadClass;

/// Threads that HotSpot starts when all its others run, before the application's main (seen on JDK 17 and 25; since
/// 14, Threads::create_vm in runtime/threads.cpp).
const LAST_VM_THREADS: &[&str] = &["Notification Th", "Common-Cleaner"];

/// What is known until the virtual machine counts as created.
#[derive(Debug, Default)]
pub(super) struct Creation {
    /// The latest of its threads: when it got its name, and which.
    thread: Option<(u64, String)>,
}

impl Creation {
    /// A thread got its name. Whether it is the virtual machine's last one.
    pub fn named(&mut self, at_ns: u64, name: &str, class: ThreadClass) -> bool {
        let of_vm = matches!(class, ThreadClass::JitC1 | ThreadClass::JitC2 | ThreadClass::Vm);
        if of_vm {
            self.thread = Some((at_ns, name.to_owned()));
        }
        of_vm && LAST_VM_THREADS.iter().any(|last| name.starts_with(last))
    }

    /// The latest of its threads.
    pub fn take(&mut self) -> Option<(u64, String)> {
        self.thread.take()
    }
}
