//! One start of the service under the agent, with what others told of the same process.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::truth::Truth;
use super::{jfr, xlog};
use crate::bench::launch::{Grounds, Launched};
use crate::bench::sampler::{History, Sampler};
use crate::clock::{self, Anchor};
use crate::jdk::Jdk;
use crate::service::{Options, PROBE_PERIOD, READINESS, call};
use crate::timeline::Timeline;
use crate::{http, interrupt, wait};

/// What is called.
pub const PATH: &str = "/hello";
const CALLS: usize = 200;
const IDLE: Duration = Duration::from_secs(1);
const READY_BOUND: Duration = Duration::from_secs(90);

/// With what the JVM is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// Flight Recorder.
    Jfr,
    /// HotSpot's log.
    Xlog,
}

/// What was seen of one start. Instants are boot time, nanoseconds.
#[derive(Debug)]
pub struct Start {
    /// With what the JVM was started.
    pub kind: Kind,
    /// Whether its readiness was asked for.
    pub asked: bool,
    /// The process's exec, by its timeline.
    pub exec_ns: u64,
    /// Spring said that it had started.
    pub started_ns: u64,
    /// The readiness probe was answered with yes.
    pub ready_ns: Option<u64>,
    /// Each call's begin and end at the client.
    pub calls: Vec<(u64, u64)>,
    /// What jcold made of it.
    pub timeline: Timeline,
    /// CPU of its threads by the kernel's account.
    pub history: History,
    /// What JFR or the log told; nobody does in a plain start.
    pub truth: Option<Truth>,
}

impl Kind {
    /// All, in the order in which they take turns.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Jfr, Self::Xlog];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Jfr => "jfr",
            Self::Xlog => "xlog",
        }
    }
}

/// Starts the service, calls it, ends it, and reads what was told of it.
pub fn run(grounds: &Grounds, name: &str, kind: Kind, asked: bool, jdk: &Jdk) -> Result<Start> {
    let dir = grounds.folder(name)?;
    let (recording, log) = (dir.join("recording.jfr"), dir.join("xlog.txt"));
    let jvm = match kind {
        Kind::Plain => vec![],
        Kind::Jfr => vec![jfr::option(&recording)],
        Kind::Xlog => vec![xlog::option(&log)],
    };
    let options = Options { jdk: jdk.clone(), jvm, properties: Vec::new() };
    let mut launched = grounds.launch(&options, Some(&[]), &dir)?;
    let sampler = Sampler::start(launched.pid())?;
    let ready_ns = if asked { Some(await_ready(&mut launched)?) } else { None };
    let started_ns = launched.await_started()?;
    interrupt::check()?;
    wait::pause(IDLE);

    let mut connection = launched.connect()?;
    let calls = (0..CALLS)
        .map(|_| {
            let sent_ns = clock::boot_ns()?;
            call(&mut connection, PATH)?;
            Ok((sent_ns, clock::boot_ns()?))
        })
        .collect::<Result<Vec<_>>>()?;
    let timeline = launched.finish()?.context("no timeline")?;
    let history = sampler.finish()?;

    let exec_at = timeline.value["jvm"]["execAt"].as_str().context("no instant of exec")?;
    let exec_ns = Anchor::wall()?.boot_ns_of(exec_at)?;
    let truth = match kind {
        Kind::Plain => None,
        Kind::Jfr => Some(jfr::read(&recording, jdk)?),
        Kind::Xlog => Some(xlog::read(&log)?),
    };
    Ok(Start { kind, asked, exec_ns, started_ns, ready_ns, calls, timeline, history, truth })
}

/// Asks as the kubelet does, once a second from the start on. When the answer was yes.
fn await_ready(launched: &mut Launched) -> Result<u64> {
    wait::until("service ready", PROBE_PERIOD, READY_BOUND, || {
        launched.check_alive()?;
        let status = http::probe(launched.port(), READINESS)?;
        Ok(if status == Some(200) { Some(clock::boot_ns()?) } else { None })
    })
}

impl Start {
    /// Where it began, in words.
    pub fn title(&self) -> String {
        format!("{}, readiness {}", self.kind.name(), if self.asked { "asked" } else { "not asked" })
    }

    /// Its instants since exec, for the report.
    pub fn to_json(&self) -> Value {
        let since = |at_ns: u64| at_ns.saturating_sub(self.exec_ns);
        let call = |&(sent_ns, received_ns): &(u64, u64)| json!([since(sent_ns), since(received_ns)]);
        json!({
            "kind": self.kind.name(),
            "readiness_asked": self.asked,
            "started_since_exec_ns": since(self.started_ns),
            "ready_since_exec_ns": self.ready_ns.map(since),
            "calls_since_exec_ns": self.calls.iter().map(call).collect::<Vec<_>>(),
            "truth_since_exec_ns": self.truth.as_ref().map(|truth| since(truth.from_ns)),
            "milestones": self.timeline.value["milestones"],
            "phases": self.timeline.value["phases"],
            "stages": self.timeline.value["stages"],
            "completeness": self.timeline.value["completeness"],
        })
    }
}
