//! One task owns the ring buffer, the probes and all timelines.

mod followed;
mod late;
mod threads;
mod view;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use aya::maps::{MapData, RingBuf};
use proto::v1;
use timeline::{Builder, Counted, Counts, Event, Settings, Start, StartJvm, What};

pub use self::late::Late;
use self::{followed::Followed, threads::add_thread, view::View};
use crate::{
    clock::{TimeAnchor, boot_ns},
    events::{
        raw::{self, Record},
        work,
    },
    identity::{self, Node, Proc},
    jvm,
    probes::{Attached, Counters, Maps, ProbeError, Probes, Usage},
};

/// A process that has exited is kept so long for the last records of its threads.
const LINGER_NS: u64 = 250_000_000;

/// What the tracker is told at its start.
pub struct Config {
    /// The node.
    pub node: Node,
    /// Its processes.
    pub proc: Proc,
    /// What the site sets.
    pub settings: Settings,
    /// Only JVMs that descend from this process; all when `None`.
    pub below: Option<u32>,
    /// Writes the events of each JVM to this file; a second JVM's to the same name with `.2`.
    pub record: Option<PathBuf>,
}

/// Watches JVMs from exec to their verdict.
pub struct Tracker {
    config: Config,
    probes: Probes,
    maps: Maps,
    followed: BTreeMap<u32, Followed>,
    /// Programs that took a process over while it was a JVM, by its id and start.
    programs: HashMap<(u32, u64), u32>,
    anchor: TimeAnchor,
    delivered: u64,
    recordings: usize,
    usage: Usage,
    /// Timelines that ended because another program took their process over.
    replaced: Vec<Finished>,
    /// JVMs that were found to run already and wait for what an earlier agent knew of them.
    candidates: Vec<Late>,
}

/// A timeline that is over.
pub struct Finished {
    /// All of it that was not taken away by [`Tracker::updates`].
    pub timeline: v1::Timeline,
    /// What has changed since the last [`Tracker::updates`].
    pub update: Option<v1::Timeline>,
}

impl Finished {
    fn of(mut followed: Followed) -> Self {
        let (timeline, update) = followed.finish(boot_ns());
        Self { timeline, update }
    }
}

/// Numbers for people who watch the agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Whether the hot tier is attached.
    pub hot: bool,
    /// How long it was attached, nanoseconds.
    pub hot_ns: u64,
    /// JVMs between exec and their verdict.
    pub cold_jvms: u64,
    /// JVMs with a timeline that is not over.
    pub jvms: u64,
    /// Records that reached the agent.
    pub delivered: u64,
    /// What the probes counted.
    pub counters: Counters,
    /// Runs that the kernel skipped.
    pub misses: u64,
    /// Kernel memory of the maps, bytes.
    pub map_bytes: u64,
    /// Entries of the maps in use.
    pub map_entries: Usage,
}

impl Tracker {
    /// Takes over the loaded probes.
    pub fn new(config: Config, probes: Probes, maps: Maps) -> Self {
        Self {
            config,
            probes,
            maps,
            followed: BTreeMap::new(),
            programs: HashMap::new(),
            anchor: TimeAnchor::now(),
            delivered: 0,
            recordings: 0,
            usage: Usage::default(),
            replaced: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// Takes every record that is in the ring buffer.
    ///
    /// # Errors
    /// When the hot tier cannot be attached for a new JVM.
    pub fn drain(&mut self, ring: &mut RingBuf<MapData>) -> Result<(), ProbeError> {
        while let Some(bytes) = ring.next() {
            let Some((head, record)) = raw::decode(&bytes) else {
                tracing::error!(
                    bytes = bytes.len(),
                    "a record of an unknown kind: agent and probes do not match"
                );
                continue;
            };
            self.delivered += 1;
            match &record {
                Record::JvmSeen(seen) => {
                    let (exec_ns, exec_cpu_ns) = (seen.exec_ns, seen.exec_cpu_ns);
                    let name = raw::text(&seen.comm);
                    self.jvm_seen(head.tgid, (head.tid, name, head.at_ns), exec_ns, exec_cpu_ns)?;
                }
                Record::ProcessReplaced(_) => {
                    if let Some((_, ticks)) = self.config.proc.parent_and_start(head.tgid) {
                        *self.programs.entry((head.tgid, ticks)).or_default() += 1;
                    }
                }
                _ => {}
            }
            match (self.followed.get_mut(&head.tgid), &record) {
                (Some(followed), _) => followed.take(&record),
                (None, Record::ProcessExited(_)) => {
                    // One that was left alone.
                    let exec_ns = self.maps.process(head.tgid).map_or(0, |entry| entry.exec_ns);
                    self.maps.forget(head.tgid, exec_ns);
                }
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn jvm_seen(
        &mut self,
        pid: u32,
        (tid, name, at_ns): (u32, String, u64),
        exec_ns: u64,
        exec_cpu_ns: u64,
    ) -> Result<(), ProbeError> {
        let wanted = self.config.below.is_none_or(|below| self.config.proc.descends(pid, below));
        // A process that has gone again can no longer show what it is; its threads' names stand for it.
        let proc = &self.config.proc;
        let libjvm = proc.libjvm(pid);
        let is_jvm = libjvm.is_some() || jvm::is_native_image(proc, pid) || !proc.exists(pid);
        if !wanted || !is_jvm {
            tracing::debug!(pid, wanted, is_jvm, "not followed");
            if let Err(error) = self.maps.unfollow(pid) {
                tracing::warn!(pid, %error, "cannot be left alone");
            }
            return Ok(());
        }
        self.probes.arm()?;
        let hot_ns = boot_ns();
        if let Some(former) = self.followed.remove(&pid) {
            self.replaced.push(Finished::of(former));
        }
        let (_, ticks) = self.config.proc.parent_and_start(pid).unwrap_or((0, 0));
        let programs = self.programs.get(&(pid, ticks)).copied().unwrap_or(0);
        let id = self.config.node.timeline_id(pid, ticks, programs);
        let seen = exec_ns != 0;
        let begin_ns = if seen { exec_ns } else { Proc::start_ns(ticks) };
        let mut start = self.start(pid, id, begin_ns, libjvm.unwrap_or_default());
        (start.armed_before_exec, start.late, start.hot_ns) = (seen, !seen, Some(hot_ns));
        let builder = Builder::new(start.clone(), self.config.settings.clone());
        let view = View::of(&self.config.proc, pid);
        let mut followed = Followed::new(pid, exec_ns, builder, self.recorder(&start), view);
        // After what a process that ends soon must be asked for: the first attachment takes milliseconds.
        let attached = self.attach(pid, &start.jvm.libjvm);
        followed.probed(boot_ns(), &attached);
        self.follow_files(pid);
        for task in self.config.proc.tasks(pid) {
            // What the first thread used before exec is not the JVM's.
            let used = if task.tid == pid { exec_cpu_ns } else { 0 };
            if !add_thread(&mut self.maps, pid, &task, begin_ns, (used, 0)) {
                followed.missed(hot_ns, "the table of threads is full");
            }
            followed.found(task.tid, task.name, at_ns);
        }
        followed.apply(&Event { at_ns, tid, what: What::ThreadNamed { name } });
        tracing::info!(pid, main = ?start.jvm.main, "following a JVM");
        self.followed.insert(pid, followed);
        Ok(())
    }

    fn start(&self, pid: u32, id: String, exec_ns: u64, libjvm: String) -> Start {
        let proc = &self.config.proc;
        Start {
            id,
            node: self.config.node.name.clone(),
            exec_ns,
            wall_offset_ns: self.anchor.offset_ns(),
            run_queue: self.probes.measures().run_queue,
            throttling: self.probes.measures().throttling,
            waits: self.probes.measures().waits,
            own_network: proc.has_own_network(pid),
            jvm: StartJvm {
                pid,
                container_pid: proc.container_pid(pid),
                executable: proc.executable(pid).unwrap_or_default(),
                main: proc.command(pid).filter(|_| !libjvm.is_empty()).as_deref().and_then(identity::main_of),
                libjvm,
            },
            pod: proc.cgroup(pid).as_deref().and_then(identity::container),
            ..Start::default()
        }
    }

    /// Counts from now on what a JVM does as it happens.
    fn attach(&mut self, pid: u32, libjvm: &str) -> Attached {
        if libjvm.is_empty() {
            return Attached::not("no libjvm.so");
        }
        match jvm::libjvm(&self.config.proc, pid, libjvm) {
            Ok(file) => self.probes.attach_jvm(pid, &file),
            Err(error) => Attached::not(format!("{libjvm}: {error}")),
        }
    }

    /// Counts what a JVM reads out of the files that it has open to load classes from.
    fn follow_files(&mut self, pid: u32) {
        for (fd, role) in self.config.proc.class_files(pid) {
            // A full map leaves the file unknown, as if nobody read it.
            let _ = self.maps.add_socket(pid, fd, role);
        }
    }

    fn recorder(&mut self, start: &Start) -> Option<followed::Recorder> {
        let path = self.config.record.as_ref()?;
        self.recordings += 1;
        let path = match self.recordings {
            1 => path.clone(),
            n => PathBuf::from(format!("{}.{n}", path.display())),
        };
        followed::Recorder::create(path, start)
    }

    /// Looks at the counters of JVMs that are cold. To be done some 100 times a second: it takes a microsecond.
    pub fn sample(&mut self) {
        let now = boot_ns();
        let maps = &self.maps;
        for (&pid, followed) in self.followed.iter_mut().filter(|(_, followed)| followed.is_cold()) {
            followed.sample(now, || counted(maps, pid));
        }
    }

    /// Takes what a JVM did by now, as far as it is known.
    fn take_work(&mut self, pid: u32) {
        let (now, maps) = (boot_ns(), &self.maps);
        if let Some(followed) = self.followed.get_mut(&pid).filter(|followed| !followed.is_observed()) {
            if let Some(counted) = counted(maps, pid) {
                followed.worked(now, counted);
            }
            followed.sample(now, || counted(maps, pid));
        }
    }

    /// Whether some JVM is cold.
    pub fn is_cold(&self) -> bool {
        self.followed.values().any(Followed::is_cold)
    }

    /// Lets time pass, and returns the timelines that are over.
    pub fn tick(&mut self) -> Vec<Finished> {
        let now = boot_ns();
        for followed in self.followed.values_mut() {
            followed.builder_tick(now);
        }
        self.verdicts(now);
        let over: Vec<u32> = self
            .followed
            .iter()
            .filter(|(_, followed)| followed.exited_before(now.saturating_sub(LINGER_NS)))
            .map(|(pid, _)| *pid)
            .collect();
        let mut finished = std::mem::take(&mut self.replaced);
        finished.extend(over.into_iter().filter_map(|pid| self.finish(pid)));
        if !self.followed.values().any(Followed::is_cold) {
            self.probes.disarm();
        }
        finished
    }

    /// Leaves alone what has come to its verdict.
    fn verdicts(&mut self, now: u64) {
        let decided: Vec<u32> = self
            .followed
            .iter()
            .filter(|(_, f)| f.is_cold() && f.has_verdict())
            .map(|(pid, _)| *pid)
            .collect();
        for pid in decided {
            self.sweep(pid);
            self.take_work(pid);
            if let Err(error) = self.maps.unfollow(pid) {
                tracing::warn!(pid, %error, "cannot be left alone");
            }
            self.maps.remove_sockets(pid);
            self.probes.release_jvm(pid);
            if let Some(followed) = self.followed.get_mut(&pid) {
                followed.observed(now);
            }
        }
    }

    /// Notes how much the probes have made of each process by now. What they had made has been delivered once the
    /// ring buffer is drained after this.
    pub fn count(&mut self) {
        let misses = self.probes.misses();
        for (pid, followed) in &mut self.followed {
            if let Some(entry) = self.maps.process(*pid)
                && entry.exec_ns == followed.exec_ns
            {
                followed.made =
                    Counts { produced: entry.produced, dropped: entry.dropped, delivered: 0, misses };
            }
        }
    }

    fn finish(&mut self, pid: u32) -> Option<Finished> {
        self.take_work(pid);
        let followed = self.followed.remove(&pid)?;
        self.probes.release_jvm(pid);
        self.maps.forget(pid, followed.exec_ns);
        self.maps.remove_sockets(pid);
        if !self.config.proc.exists(pid) {
            self.programs.retain(|(of, _), _| *of != pid);
        }
        Some(Finished::of(followed))
    }

    /// Ends all timelines, as the agent or the command is ending. What still runs keeps running.
    pub fn finish_all(&mut self) -> Vec<Finished> {
        let pids: Vec<u32> = self.followed.keys().copied().collect();
        for &pid in &pids {
            self.sweep(pid);
        }
        let mut finished = std::mem::take(&mut self.replaced);
        finished.extend(pids.into_iter().filter_map(|pid| self.finish(pid)));
        finished
    }

    /// What has changed in each timeline since the last call.
    pub fn updates(&mut self) -> Vec<v1::Timeline> {
        let now = boot_ns();
        self.followed.values_mut().filter_map(|followed| followed.update(now)).collect()
    }

    /// Most user requests that any JVM has answered.
    pub fn user_requests(&self) -> u64 {
        self.followed.values().map(Followed::user_requests).max().unwrap_or(0)
    }

    /// Whether there are JVMs and all have their verdict.
    pub fn is_observed(&self) -> bool {
        !self.followed.is_empty() && self.followed.values().all(Followed::has_verdict)
    }

    /// Whether there is anything that time changes.
    pub fn is_busy(&self) -> bool {
        self.followed.values().any(Followed::is_busy)
    }

    /// Whether a JVM has exited whose last records may still come.
    pub fn has_exited(&self) -> bool {
        self.followed.values().any(Followed::has_exited)
    }

    /// Counts the maps' entries, for [`Tracker::status`]: a look at each, so not to be done often.
    pub fn count_usage(&mut self) {
        self.usage = self.maps.usage();
    }

    /// Numbers for people who watch the agent.
    pub fn status(&self) -> Status {
        Status {
            hot: self.probes.is_hot(),
            hot_ns: u64::try_from(self.probes.hot_time().as_nanos()).unwrap_or(u64::MAX),
            cold_jvms: self.followed.values().filter(|followed| followed.is_cold()).count() as u64,
            jvms: self.followed.len() as u64,
            delivered: self.delivered,
            counters: self.maps.counters(),
            misses: self.probes.misses(),
            map_bytes: self.maps.memory_bytes(),
            map_entries: self.usage,
        }
    }
}

/// What a JVM did by now, as far as it is counted.
fn counted(maps: &Maps, pid: u32) -> Option<Counted> {
    maps.work(pid).as_ref().map(work::of)
}
