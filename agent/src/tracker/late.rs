//! JVMs that were running before the agent was.

use std::collections::HashMap;

use agent_ebpf::role;
use proto::v1;
use timeline::{Builder, Event, What};

use super::{Followed, Tracker, threads::add_thread, view::View};
use crate::{
    clock::boot_ns,
    identity::{Proc, Task},
    jvm,
    probes::ProbeError,
};

/// A JVM that was running before the agent was.
#[derive(Clone, Debug)]
pub struct Late {
    /// Process id.
    pub pid: u32,
    /// Identity of its timeline.
    pub id: String,
    start_ns: u64,
    libjvm: String,
    tasks: Vec<Task>,
    /// Accepted connections.
    fds: Vec<i32>,
}

impl Tracker {
    /// Follows the JVMs that run already, and returns them; [`Tracker::adopt`] begins their timelines.
    ///
    /// # Errors
    /// When the hot tier cannot be attached.
    pub fn find_running(&mut self) -> Result<Vec<Late>, ProbeError> {
        for pid in self.config.proc.pids() {
            // One that started a moment ago is on its way through the ring buffer.
            if self.maps.is_seen(pid) {
                continue;
            }
            let libjvm = self.config.proc.libjvm(pid);
            if libjvm.is_none() && !jvm::is_native_image(&self.config.proc, pid) {
                continue;
            }
            let libjvm = libjvm.unwrap_or_default();
            let Some((_, ticks)) = self.config.proc.parent_and_start(pid) else { continue };
            let id = self.config.node.timeline_id(pid, ticks, 0);
            let start_ns = Proc::start_ns(ticks);
            self.candidates.push(Late { pid, id, start_ns, libjvm, tasks: Vec::new(), fds: Vec::new() });
        }
        if !self.candidates.is_empty() {
            self.probes.arm()?;
        }
        for late in &mut self.candidates {
            if let Err(error) = self.maps.follow(late.pid) {
                tracing::warn!(pid = late.pid, %error, "a running JVM cannot be followed");
            }
            let now = boot_ns();
            late.tasks = self.config.proc.tasks(late.pid);
            for task in &late.tasks {
                add_thread(&mut self.maps, late.pid, task, now, (task.cpu_ns, task.run_queue_ns));
            }
            late.fds = self.config.proc.accepted(late.pid);
            for &fd in &late.fds {
                // A full map leaves the connection unknown, as any that is not followed.
                let _ = self.maps.add_socket(late.pid, fd, role::ACCEPTED);
            }
        }
        Ok(self.candidates.clone())
    }

    /// Begins or resumes the timelines of the JVMs that were running already; `known` holds what an earlier agent had
    /// told, by timeline.
    pub fn adopt(&mut self, known: &HashMap<String, v1::Timeline>) {
        let now = boot_ns();
        for late in std::mem::take(&mut self.candidates) {
            let mut start = self.start(late.pid, late.id.clone(), late.start_ns, late.libjvm);
            (start.late, start.hot_ns) = (true, Some(now));
            let builder = match known.get(&late.id) {
                Some(known) => Builder::resume(start.clone(), self.config.settings.clone(), known, now),
                None => Builder::new(start.clone(), self.config.settings.clone()),
            };
            let view = View::of(&self.config.proc, late.pid);
            let mut followed = Followed::new(late.pid, 0, builder, self.recorder(&start), view);
            let attached = self.attach(late.pid, &start.jvm.libjvm);
            followed.probed(boot_ns(), &attached);
            self.follow_files(late.pid);
            for fd in late.fds {
                followed.decoder.adopt(fd);
                followed.apply(&Event { at_ns: now, tid: late.pid, what: What::Adopted { fd } });
            }
            for task in late.tasks {
                followed.found(task.tid, task.name, now);
            }
            self.followed.insert(late.pid, followed);
            self.verdicts(now);
        }
    }
}
