//! Everything that one measurement needs, started in order: database, stub, collector, agent, and then the service.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::http;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::service::{Options, Service};
use crate::setup::{self, Purpose};
use crate::timeline::Collector;
use crate::{repo, step, stub, wait};

const ARM_BOUND: Duration = Duration::from_secs(30);
/// Longest wait for other testbeds: a few end-to-end tests of other processes.
const TURN_BOUND: Duration = Duration::from_mins(10);
const COLLECTOR_BOUND: Duration = Duration::from_secs(20);

/// A testbed without its service: the agent is armed before any JVM starts. Dropping it ends every process of it.
#[derive(Debug)]
pub struct Testbed {
    agent: Option<Process>,
    collector_process: Option<Process>,
    collector: Collector,
    collector_metrics: u16,
    agent_metrics: u16,
    postgres: Postgres,
    stub_port: u16,
    dir: PathBuf,
    _turn: Turn,
}

impl Testbed {
    /// Starts all but the service. Logs, the collector's database and the ground truth go to `target/NAME`, whose
    /// earlier content is removed.
    pub fn start(name: &str) -> Result<Self> {
        setup::check_machine(Purpose::Demo)?;
        let turn = Turn::take()?;
        let dir = repo::target().join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;

        let postgres = Postgres::start(&dir)?;
        step::say("up", &format!("postgresql on port {}", postgres.port()));
        let stub_port = stub::start()?;
        let mut testbed = Self {
            agent: None,
            collector_process: None,
            collector: Collector::at(http::free_port()?)?,
            collector_metrics: http::free_port()?,
            agent_metrics: http::free_port()?,
            postgres,
            stub_port,
            dir,
            _turn: turn,
        };
        testbed.start_collector()?;
        testbed.start_agent()?;
        Ok(testbed)
    }

    /// Starts the collector, on the same database and ports each time.
    pub fn start_collector(&mut self) -> Result<()> {
        let port = self.collector.port();
        let mut command = Command::new(repo::binary("jcold-collector")?);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--metrics-listen", &format!("127.0.0.1:{}", self.collector_metrics)]);
        command.arg("--database").arg(self.dir.join("jcold.db"));
        let mut process = Process::start("collector", &mut command, &self.log("collector"), "gRPC on")?;
        process.await_ready(COLLECTOR_BOUND)?;
        step::say("up", &format!("jcold-collector on port {port}"));
        self.collector_process = Some(process);
        Ok(())
    }

    /// Starts the agent and waits until its sentinel is armed.
    pub fn start_agent(&mut self) -> Result<()> {
        let mut command = Command::new(repo::binary("jcold-agent")?);
        command.args(["run", "--collector", &self.collector.url()]);
        command.args(["--metrics-listen", &format!("127.0.0.1:{}", self.agent_metrics)]);
        let mut process = Process::start("agent", &mut command, &self.log("agent"), "armed")?;
        process.await_ready(ARM_BOUND)?;
        step::say("up", "jcold-agent, sentinel armed");
        self.agent = Some(process);
        Ok(())
    }

    /// Starts the service under the agent's eyes.
    pub fn start_service(&mut self, options: &Options) -> Result<Service> {
        self.check_alive()?;
        let service = Service::start(options, &self.postgres, self.stub_port, &self.dir)?;
        step::say(
            "up",
            &format!(
                "service on port {}, java {}, pid {}",
                service.port(),
                options.jdk.version,
                service.pid()
            ),
        );
        Ok(service)
    }

    /// Fails when a process that should run does not.
    pub fn check_alive(&mut self) -> Result<()> {
        self.postgres.check_alive()?;
        for process in [&mut self.collector_process, &mut self.agent].into_iter().flatten() {
            process.check_alive()?;
        }
        Ok(())
    }

    /// The agent, while it runs.
    pub fn agent(&mut self) -> Option<&mut Process> {
        self.agent.as_mut()
    }

    /// Ends the agent with SIGTERM, or with SIGKILL when `hard`.
    pub fn end_agent(&mut self, hard: bool) -> Result<()> {
        end(self.agent.take(), hard)
    }

    /// Ends the collector with SIGTERM, or with SIGKILL when `hard`.
    pub fn end_collector(&mut self, hard: bool) -> Result<()> {
        end(self.collector_process.take(), hard)
    }

    /// The way to ask the collector.
    pub fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Text of the collector's `/metrics`.
    pub fn collector_metrics(&self) -> Result<String> {
        metrics(self.collector_metrics)
    }

    /// Text of the agent's `/metrics`.
    pub fn agent_metrics(&self) -> Result<String> {
        metrics(self.agent_metrics)
    }

    /// Folder of its logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A log file that does not exist yet: each start of a process has its own.
    fn log(&self, name: &str) -> PathBuf {
        let numbered = (2..).map(|number| self.dir.join(format!("{name}-{number}.log")));
        let names = std::iter::once(self.dir.join(format!("{name}.log"))).chain(numbered);
        names.into_iter().find(|path| !path.exists()).unwrap_or_else(|| self.dir.join(name))
    }
}

fn end(process: Option<Process>, hard: bool) -> Result<()> {
    if let Some(mut process) = process {
        if hard {
            process.kill()?
        } else {
            process.stop()?
        };
    }
    Ok(())
}

fn metrics(port: u16) -> Result<String> {
    let response = http::Connection::open(port)?.get("/metrics", "Connection: close\r\n")?;
    String::from_utf8(response.body).context("/metrics is not UTF-8")
}

/// The right to measure: one testbed at a time on a machine, whatever process it belongs to. Two would measure each
/// other and want the same port. Dropping it passes it on.
#[derive(Debug)]
pub struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    /// Waits for it.
    pub fn take() -> Result<Self> {
        let path = repo::target().join("testbed.lock");
        fs::create_dir_all(repo::target()).with_context(|| repo::target().display().to_string())?;
        let mut said = false;
        // Not one blocking call: that would not end on Ctrl-C.
        let lock = wait::until("turn of this testbed", Duration::from_millis(200), TURN_BOUND, || {
            let file = File::create(&path).with_context(|| path.display().to_string())?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => Ok(Some(lock)),
                Err((_, Errno::EWOULDBLOCK)) => {
                    if !std::mem::replace(&mut said, true) {
                        step::say("wait", "another testbed is running");
                    }
                    Ok(None)
                }
                Err((_, error)) => Err(error).with_context(|| format!("lock {}", path.display())),
            }
        })?;
        Ok(Self { _lock: lock })
    }
}
