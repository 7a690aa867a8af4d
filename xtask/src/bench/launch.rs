//! One start of the Spring testbed after the other, alone or under `jcold-agent trace`, with the instant of each exec.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http::{self, Connection};
use crate::postgres::Postgres;
use crate::process::Process;
use crate::service::{Options, STARTED, Service};
use crate::testbed::Turn;
use crate::timeline::Timeline;
use crate::{repo, stub};

const BOUND: Duration = Duration::from_mins(2);
/// What is printed right before exec, by the process that becomes the service.
const EXEC: &str = "bench: exec of";

/// What all starts share. Dropping it ends it.
#[derive(Debug)]
pub struct Grounds {
    postgres: Postgres,
    stub_port: u16,
    dir: PathBuf,
}

impl Grounds {
    /// Starts the database and the stub. Logs go to `target/NAME`, whose earlier content is removed.
    pub fn prepare(name: &str) -> Result<Self> {
        let dir = repo::target().join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self { postgres: Postgres::start(&dir)?, stub_port: stub::start()?, dir })
    }

    /// A new folder for the files of one start.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(dir)
    }

    /// Starts the service with its files in `dir`; under the agent when there are options for `trace`. It has not
    /// started yet.
    pub fn launch(&self, options: &Options, trace: Option<&[&str]>, dir: &Path) -> Result<Launched> {
        // One for each start: who waits for a turn waits for no whole benchmark.
        let turn = Turn::take()?;
        let port = http::free_service_port()?;
        let java = Service::command(options, &self.postgres, self.stub_port, port, &dir.join("truth.csv"))?;
        // The shell's process id is the service's.
        let script = format!("echo {EXEC} $$; exec \"$@\"");
        let shell = ["sh", "-c", script.as_str(), "sh"];
        let timeline = trace.is_some().then(|| dir.join("timeline.json"));
        let mut command = Command::new(shell[0]);
        if let Some(options) = trace {
            command = Command::new(repo::binary("jcold-agent")?);
            command.args(["trace", "-o", "json"]).args(options).arg("--").arg(shell[0]);
        }
        command.args(&shell[1..]);
        command.arg(java.get_program()).args(java.get_args());
        let stdout = match &timeline {
            Some(file) => Some(File::create(file).with_context(|| format!("create {}", file.display()))?),
            None => None,
        };
        let mut process = Process::start_with(
            "service",
            &mut command,
            &dir.join("service.log"),
            vec![EXEC, STARTED],
            stdout,
        )?;
        let exec = process.await_line(BOUND)?;
        let pid = exec.line.rsplit(' ').next().and_then(|pid| pid.parse().ok()).context(exec.line.clone())?;
        Ok(Launched { process, port, pid, exec_boot_ns: exec.at_boot_ns, timeline, _turn: turn })
    }
}

/// A service that was started. Dropping it ends it, and its agent.
#[derive(Debug)]
pub struct Launched {
    process: Process,
    port: u16,
    pid: u32,
    exec_boot_ns: u64,
    timeline: Option<PathBuf>,
    _turn: Turn,
}

impl Launched {
    /// Process id of the service.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Process id of its agent; none when it has none.
    pub fn agent_pid(&self) -> Option<u32> {
        self.timeline.is_some().then(|| self.process.pid())
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// When it was exec'd, boot time, nanoseconds.
    pub fn exec_boot_ns(&self) -> u64 {
        self.exec_boot_ns
    }

    /// Waits until Spring says that the application has started: no connection is made to find out. When it said it,
    /// boot time, nanoseconds.
    pub fn await_started(&mut self) -> Result<u64> {
        Ok(self.process.await_line(BOUND)?.at_boot_ns)
    }

    /// Fails, with the end of its log, when it has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        self.process.check_alive()
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.port)
    }

    /// Ends it in order; its timeline when it was traced.
    pub fn finish(mut self) -> Result<Option<Timeline>> {
        self.process.stop()?;
        let Some(file) = &self.timeline else { return Ok(None) };
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let value = serde_json::from_str(&text)
            .with_context(|| format!("{}\n{}", file.display(), self.process.tail()))?;
        Ok(Some(Timeline { value }))
    }
}
