//! A server under `jcold-agent trace`, for tests: its outputs in files, its end in order.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::http::{self, Connection};
use crate::server::Server;
use crate::setup::{self, Purpose};
use crate::testbed::Turn;
use crate::timeline::Timeline;
use crate::{repo, wait};

const BOUND: Duration = Duration::from_mins(1);

/// `jcold-agent trace` at work on a command that serves a port. Dropping it ends both.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    port: u16,
    dir: TempDir,
    _turn: Turn,
}

impl Traced {
    /// Starts the command that `command` makes of a free port, with these options of `trace`; `{dir}` in one is the
    /// trace's own folder. It does not listen yet.
    pub fn start(options: &[&str], command: impl FnOnce(u16, &Path) -> Result<Vec<String>>) -> Result<Self> {
        setup::check_machine(Purpose::Demo)?;
        let turn = Turn::take()?;
        let dir = tempfile::tempdir()?;
        let port = http::free_port()?;
        let at = dir.path().to_str().context("folder is not UTF-8")?;
        let child = Command::new(repo::binary("jcold-agent")?)
            .arg("trace")
            .args(options.iter().map(|option| option.replace("{dir}", at)))
            .arg("--")
            .args(command(port, dir.path())?)
            .stdin(Stdio::null())
            .stdout(File::create(dir.path().join("stdout"))?)
            .stderr(File::create(dir.path().join("stderr"))?)
            .spawn()
            .context("jcold-agent trace")?;
        Ok(Self { child, port, dir, _turn: turn })
    }

    /// Starts a server of the testbed and waits until it says that it serves: no connection is made to find out. Its
    /// timeline is what [`Traced::finish`] gives.
    pub fn serve(server: Server) -> Result<Self> {
        // What is counted here does not depend on them, and half of these tests' time is Spring's start.
        let quick = ["-XX:TieredStopAtLevel=1", "-Dspring.main.lazy-initialization=true"];
        Self::serve_with(server, if server.is_spring() { &quick } else { &[] })
    }

    /// The same with options of the JVM.
    pub fn serve_with(server: Server, jvm: &[&str]) -> Result<Self> {
        let mut traced = Self::start(&["-o", "json"], |port, dir| {
            let mut words = server.command(port, dir)?;
            words.splice(1..1, jvm.iter().map(|&option| option.to_owned()));
            Ok(words)
        })?;
        wait::until("the server serves", Duration::from_millis(20), BOUND, || {
            if let Some(status) = traced.child.try_wait()? {
                anyhow::bail!("the trace ended ({status})");
            }
            Ok(traced.read("stderr").contains(server.ready_line()).then_some(()))
        })
        .with_context(|| traced.read("stderr"))?;
        Ok(traced)
    }

    /// The port that the command was given.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the agent, which is the server's parent.
    pub fn agent_pid(&self) -> u32 {
        self.child.id()
    }

    /// Folder of its outputs, and of a TLS server's certificate.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A connection, once it listens.
    pub fn connect(&self) -> Result<Connection> {
        let open = || Ok(Connection::open(self.port).ok());
        wait::until("the service listens", Duration::from_millis(20), BOUND, open)
            .with_context(|| self.read("stderr"))
    }

    /// Sends SIGINT, which the agent passes on.
    pub fn interrupt(&self) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)?)
    }

    /// Waits for the end of the agent.
    pub fn await_end(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        wait::until("the trace's end", Duration::from_millis(20), BOUND, || Ok(child.try_wait()?))
    }

    /// What is in one of its files so far: `stdout`, `stderr`, or one that an option named.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.dir.path().join(name)).unwrap_or_default()).into_owned()
    }

    /// The timeline on its stdout, which holds nothing else.
    pub fn timeline(&self) -> Result<Timeline> {
        let value = serde_json::from_str(&self.read("stdout")).with_context(|| self.read("stdout"))?;
        Ok(Timeline { value })
    }

    /// Ends the server as Ctrl-C does; its timeline.
    pub fn finish(&mut self) -> Result<Timeline> {
        self.interrupt()?;
        self.await_end()?;
        self.timeline().with_context(|| self.read("stderr"))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // It passes the signal on, so the service ends too.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}
