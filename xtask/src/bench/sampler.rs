//! CPU of one process's threads by `/proc/PID/task/TID/schedstat`, read again and again while the process runs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{clock, wait};

const PERIOD: Duration = Duration::from_millis(10);
/// Every so many periods all threads are asked, and for their names too.
const SWEEP: u32 = 10;
/// Names of the classes whose CPU is compared.
pub const CLASSES: [&str; 4] = ["main", "jit_c1", "jit_c2", "gc"];

/// A thread of this process that samples. Dropping it ends it.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<History>>>,
}

/// What was seen of each thread, also of those that have ended.
#[derive(Debug, Default)]
pub struct History(HashMap<u32, Thread>);

#[derive(Debug)]
struct Thread {
    schedstat: File,
    name: String,
    /// Boot time and CPU time, nanoseconds.
    samples: Vec<(u64, u64)>,
}

impl Sampler {
    /// Samples the threads of `pid` until told otherwise or until the process ends.
    pub fn start(pid: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let sample = move || {
            let mut history = History::default();
            for round in 0u32.. {
                if told.load(Ordering::Relaxed) || !history.sample(&tasks, round.is_multiple_of(SWEEP))? {
                    break;
                }
                wait::pause(PERIOD);
            }
            Ok(history)
        };
        let thread = std::thread::Builder::new().name("schedstat".into()).spawn(sample);
        Ok(Self { stop, thread: Some(thread.context("start the sampler")?) })
    }

    /// Ends it and takes what it saw.
    pub fn finish(mut self) -> Result<History> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the sampler has ended")?;
        thread.join().map_err(|_| anyhow::anyhow!("the sampler panicked"))?
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl History {
    /// One round over all threads; false when the process has ended. A thread that ends keeps its last value.
    fn sample(&mut self, tasks: &PathBuf, sweep: bool) -> Result<bool> {
        let Ok(entries) = fs::read_dir(tasks) else { return Ok(false) };
        for entry in entries.flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let known = self.0.contains_key(&tid);
            if !known {
                let Ok(schedstat) = File::open(entry.path().join("schedstat")) else { continue };
                self.0.insert(tid, Thread { schedstat, name: String::new(), samples: Vec::new() });
            }
            let Some(thread) = self.0.get_mut(&tid) else { continue };
            if (sweep || !known)
                && let Ok(name) = fs::read_to_string(entry.path().join("comm"))
            {
                name.trim_end().clone_into(&mut thread.name);
            }
            if (sweep || class_of(&thread.name).is_some())
                && let Some(cpu_ns) = thread.read()
            {
                thread.samples.push((clock::boot_ns()?, cpu_ns));
            }
        }
        Ok(true)
    }

    /// CPU of all threads of a class until an instant of boot time, nanoseconds. A thread belongs to the class of its
    /// last name, as in a timeline.
    pub fn cpu_ns(&self, class: &str, at_boot_ns: u64) -> u64 {
        self.of_class(class).map(|thread| at(&thread.samples, at_boot_ns)).sum()
    }

    /// The same as it was read last before that instant and first after it.
    pub fn cpu_range_ns(&self, class: &str, at_boot_ns: u64) -> (u64, u64) {
        let around = self.of_class(class).map(|thread| around(&thread.samples, at_boot_ns));
        around.fold((0, 0), |sum, (before, after)| (sum.0 + before, sum.1 + after))
    }

    fn of_class(&self, class: &str) -> impl Iterator<Item = &Thread> {
        self.0.values().filter(move |thread| class_of(&thread.name) == Some(class))
    }
}

impl Thread {
    /// CPU so far (`se.sum_exec_runtime`, kernel/sched/stats.c); none when the thread has ended.
    fn read(&self) -> Option<u64> {
        let mut text = [0; 96];
        let length = self.schedstat.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.split(' ').next()?.parse().ok()
    }
}

/// The class of a thread of a JVM that was started as `java`.
fn class_of(name: &str) -> Option<&'static str> {
    match name {
        "java" => Some("main"),
        _ if name.starts_with("C1 Com") => Some("jit_c1"),
        _ if name.starts_with("C2 Com") => Some("jit_c2"),
        _ if name.starts_with("GC Thread#") || name.starts_with("G1 ") => Some("gc"),
        _ => None,
    }
}

/// The value at an instant, on the straight line between the samples around it.
fn at(samples: &[(u64, u64)], at_ns: u64) -> u64 {
    let after = samples.partition_point(|&(stamp_ns, _)| stamp_ns <= at_ns);
    let Some(&(from_ns, from)) = after.checked_sub(1).and_then(|before| samples.get(before)) else {
        return 0;
    };
    let Some(&(to_ns, to)) = samples.get(after) else { return from };
    let part = u128::from(to - from) * u128::from(at_ns - from_ns) / u128::from((to_ns - from_ns).max(1));
    from + u64::try_from(part).unwrap_or(0)
}

/// The values of the last sample before an instant and of the first after it.
fn around(samples: &[(u64, u64)], at_ns: u64) -> (u64, u64) {
    let after = samples.partition_point(|&(stamp_ns, _)| stamp_ns <= at_ns);
    let before = after.checked_sub(1).and_then(|before| samples.get(before)).map_or(0, |&(_, value)| value);
    (before, samples.get(after).map_or(before, |&(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_samples_a_value_grows_evenly() {
        let samples = [(100, 10), (200, 30), (300, 30)];
        let asked = [99, 100, 150, 200, 250, 900].map(|at_ns| at(&samples, at_ns));
        assert_eq!(asked, [0, 10, 20, 30, 30, 30]);
        assert_eq!(at(&[], 5), 0);
        assert_eq!([99, 150, 900].map(|at_ns| around(&samples, at_ns)), [(0, 10), (10, 30), (30, 30)]);
    }

    #[test]
    fn a_thread_of_this_process_is_sampled_under_its_last_name() {
        let tasks = PathBuf::from(format!("/proc/{}/task", std::process::id()));
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(0);
        let (told, started) = std::sync::mpsc::sync_channel(0);
        let work = move || {
            let begin = clock::boot_ns().unwrap();
            while clock::boot_ns().unwrap() < begin + 30_000_000 {}
            told.send(()).unwrap();
            let _ = stopped.recv();
        };
        let worker = std::thread::Builder::new().name("C2 CompilerThread0".into()).spawn(work).unwrap();
        started.recv().unwrap();
        let mut history = History::default();
        assert!(history.sample(&tasks, true).unwrap());
        let now = clock::boot_ns().unwrap();
        assert!(history.cpu_ns("jit_c2", now) > 0);
        assert_eq!(history.cpu_ns("jit_c1", now), 0);
        drop(stop);
        worker.join().unwrap();
    }
}
