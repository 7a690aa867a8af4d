//! The process's threads: what they are called, and of which class they are.

use std::collections::HashMap;

use crate::class::{ThreadClass, ThreadClasses};

/// Bytes of a name that the kernel keeps (TASK_COMM_LEN less its end, include/linux/sched.h).
const COMM_MAX: usize = 15;

#[derive(Debug, Default)]
struct Thread {
    /// Its own name when it started, whole.
    own: Option<String>,
    /// What it is called now, as whole as it is known.
    name: String,
    class: ThreadClass,
    /// Its syscalls may tell better what it is than its name.
    by_role: bool,
}

/// The threads of one process.
#[derive(Debug)]
pub(super) struct Threads {
    by_tid: HashMap<u32, Thread>,
    classes: ThreadClasses,
    /// Name of the launcher, as the kernel cuts it.
    launcher: String,
}

impl Threads {
    pub fn new(classes: ThreadClasses, executable: &str) -> Self {
        let name = executable.rsplit('/').next().unwrap_or_default();
        let launcher = name.get(..COMM_MAX).unwrap_or(name).to_owned();
        Self { by_tid: HashMap::new(), classes, launcher }
    }

    /// A Java thread starts to run, and has not told its name to the kernel yet.
    pub fn started(&mut self, tid: u32, name: &str) {
        self.by_tid.insert(tid, Thread { own: Some(name.to_owned()), ..Thread::default() });
        self.is_called(tid, name.to_owned());
    }

    /// The kernel keeps this name of a thread.
    pub fn named(&mut self, tid: u32, comm: &str) {
        let own = self.by_tid.get(&tid).and_then(|thread| thread.own.as_ref());
        let name = own.filter(|own| is_short_for(comm, own)).map_or(comm, String::as_str);
        self.is_called(tid, name.to_owned());
    }

    fn is_called(&mut self, tid: u32, name: String) {
        let (class, by_role) = self.classes.of(&name, &self.launcher);
        let thread = self.by_tid.entry(tid).or_default();
        let own = thread.own.take();
        *thread = Thread { own, name, class, by_role };
    }

    /// A thread did what only a thread of this class does.
    pub fn does(&mut self, tid: u32, class: ThreadClass) {
        if let Some(thread) = self.by_tid.get_mut(&tid)
            && thread.by_role
        {
            thread.class = class;
        }
    }

    pub fn forget(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    pub fn class(&self, tid: u32) -> ThreadClass {
        self.by_tid.get(&tid).map_or(ThreadClass::Other, |thread| thread.class)
    }

    /// Empty when it is not known.
    pub fn name(&self, tid: u32) -> &str {
        self.by_tid.get(&tid).map_or("", |thread| thread.name.as_str())
    }

    pub fn of_class(&self, class: ThreadClass) -> impl Iterator<Item = u32> {
        self.by_tid.iter().filter(move |(_, thread)| thread.class == class).map(|(tid, _)| *tid)
    }
}

/// Whether the kernel's name is what is left of a thread's own: its first bytes, or its begin and end with two dots between
/// them, as newer JDKs shorten it.
fn is_short_for(comm: &str, own: &str) -> bool {
    if own.len() <= COMM_MAX {
        return comm == own;
    }
    // A character that was cut comes as one that replaces it.
    let begin = comm.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let is_full = comm.len() == COMM_MAX || (begin.len() < comm.len() && begin.len() + 3 >= COMM_MAX);
    let around = comm.split_once("..").filter(|(begin, _)| !begin.is_empty());
    (is_full && own.starts_with(begin))
        || around.is_some_and(|(begin, end)| own.starts_with(begin) && own.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_name_is_short_for_a_whole_one() {
        for (comm, own, expect) in [
            ("http-nio-18117-", "http-nio-18117-exec-1", true),
            ("C2 Com..hread4", "C2 CompilerThread4", true),
            ("C2 Com..hread4", "C2 CompilerThread5", false),
            ("main", "main", true),
            ("mai", "main", false),
            ("http-nio-8080-e", "http-nio-18117-exec-1", false),
            ("http-nio-18117", "http-nio-18117-exec-1", false),
            ("Größe-von-al\u{fffd}", "Größe-von-aléxy", true),
            ("..", "http-nio-18117-exec-1", false),
        ] {
            assert_eq!(is_short_for(comm, own), expect, "{comm} of {own}");
        }
    }
}
