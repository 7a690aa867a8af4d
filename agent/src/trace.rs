//! `jcold-agent trace`: runs a command and prints the timeline of the JVM it starts.

use std::{
    os::{fd::AsFd as _, unix::process::ExitStatusExt as _},
    path::PathBuf,
    process::ExitStatus,
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use proto::v1::Timeline;
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use crate::{
    config,
    identity::{Node, Proc},
    probes::{
        Probes,
        ring::{self, Ring},
    },
    run::{TICK, sampling},
    tracker::{self, Finished, Tracker},
};

/// How long a command that is told to end may take.
const END_BOUND: Duration = Duration::from_secs(10);

/// What `trace` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// End after so many user requests, or with the verdict, after which none are counted.
    pub requests: Option<u64>,
    /// End after so long.
    pub duration: Option<Duration>,
    /// Write the events to this file.
    pub record: Option<PathBuf>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Probe the JVM's own code.
    pub usdt: bool,
    /// The command's standard output goes to standard error, so that ours holds nothing but the report.
    pub stdout_to_stderr: bool,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// The timelines of the JVMs that the command started, in the order of their ends.
    pub timelines: Vec<Timeline>,
    /// The exit code to keep: the command's own, 128 + signal as shells do, or 0 when the trace ended it.
    pub code: u8,
}

/// Runs the command under the probes.
///
/// # Errors
/// When something is missing, the command cannot be started, or the hot tier cannot be attached.
pub async fn trace(options: Options) -> anyhow::Result<Outcome> {
    let settings = config::settings(options.config.as_deref())?;
    if let Some(path) = &options.record {
        std::fs::File::create(path).with_context(|| format!("cannot record to {}", path.display()))?;
    }
    let proc = Proc::new("/proc");
    let node = Node::read(proc.root(), None).context("reading the node's identity")?;
    let (probes, maps, ring) = Probes::load(options.usdt)?;
    let below = Some(std::process::id());
    let config = tracker::Config { node, proc, settings, below, record: options.record.clone() };
    let mut trace = Trace {
        tracker: Tracker::new(config, probes, maps),
        ring: ring::watch(ring).context("waiting on the ring buffer")?,
        timelines: Vec::new(),
    };
    let mut child = start(&options)?;
    let code = if let Some(status) = trace.follow(&mut child, &options).await? {
        trace.settle().await?;
        trace.end();
        code_of(status)
    } else {
        trace.end();
        stop(&mut child).await?;
        0
    };
    Ok(Outcome { timelines: trace.timelines, code })
}

fn start(options: &Options) -> anyhow::Result<Child> {
    let (program, arguments) = options.command.split_first().context("no command given")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if options.stdout_to_stderr {
        command.stdout(std::io::stderr().as_fd().try_clone_to_owned().context("standard error")?);
    }
    command.spawn().map_err(|source| CannotStart { program: program.clone(), source }.into())
}

/// The command cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program:?}")]
pub struct CannotStart {
    program: String,
    source: std::io::Error,
}

impl CannotStart {
    /// The exit code that shells give: 127 when there is no such command, 126 when it cannot be executed.
    pub fn code(&self) -> u8 {
        if self.source.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

struct Trace {
    tracker: Tracker,
    ring: Ring,
    timelines: Vec<Timeline>,
}

impl Trace {
    /// Follows the command until it exits, or until enough was seen (`None`). Signals are passed on to it.
    async fn follow(&mut self, child: &mut Child, options: &Options) -> anyhow::Result<Option<ExitStatus>> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sample = sampling();
        let enough = options.duration.map(|duration| Instant::now() + duration);
        let mut kill = None;
        loop {
            tokio::select! {
                ready = self.ring.readable_mut() => {
                    let mut ready = ready?;
                    self.tracker.drain(ready.get_inner_mut())?;
                    ready.clear_ready();
                }
                _ = tick.tick(), if self.tracker.is_busy() => {
                    self.tick()?;
                    let counted = |wanted| self.tracker.user_requests() >= wanted || self.tracker.is_observed();
                    if options.requests.is_some_and(counted) {
                        return Ok(None);
                    }
                }
                _ = sample.tick(), if self.tracker.is_cold() => self.tracker.sample(),
                status = child.wait() => return Ok(Some(status.context("waiting for the command")?)),
                _ = interrupt.recv() => {
                    send(child, Signal::SIGINT);
                    kill.get_or_insert(Instant::now() + END_BOUND);
                }
                _ = terminate.recv() => {
                    send(child, Signal::SIGTERM);
                    kill.get_or_insert(Instant::now() + END_BOUND);
                }
                () = at(enough) => return Ok(None),
                () = at(kill) => {
                    child.start_kill().context("killing the command")?;
                    kill = None;
                }
            }
        }
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        self.tracker.count();
        self.tracker.drain(self.ring.get_mut())?;
        self.timelines.extend(self.tracker.tick().into_iter().map(|Finished { timeline, .. }| timeline));
        Ok(())
    }

    /// The command has exited: waits for the last records of the JVMs that exited with it.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.tick()?;
        let mut tick = interval(TICK);
        while self.tracker.has_exited() {
            tick.tick().await;
            self.tick()?;
        }
        Ok(())
    }

    /// Ends the timelines of what still runs.
    fn end(&mut self) {
        self.timelines
            .extend(self.tracker.finish_all().into_iter().map(|Finished { timeline, .. }| timeline));
    }
}

async fn stop(child: &mut Child) -> anyhow::Result<()> {
    send(child, Signal::SIGTERM);
    if timeout(END_BOUND, child.wait()).await.is_err() {
        child.kill().await.context("killing the command")?;
    }
    Ok(())
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have exited meanwhile; its status tells.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// As shells tell it: the code, or 128 + the signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
