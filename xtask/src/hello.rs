//! The smallest service that is measured: the JDK's own HTTP server, from one source file.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Result;

use crate::http::{self, Connection};
use crate::process::Process;
use crate::{jdk, repo};

const START_BOUND: Duration = Duration::from_mins(1);
/// What it prints on its stdout once it listens.
pub const READY_LINE: &str = "listening on";

/// A running service. Dropping it ends it.
#[derive(Debug)]
pub struct Hello {
    process: Process,
    port: u16,
}

impl Hello {
    /// The command that runs it on a port of loopback.
    pub fn command(port: u16) -> Result<Vec<String>> {
        let java = jdk::choose()?.java();
        let source = repo::root().join("xtask/testbed/hello/Hello.java");
        Ok(vec![java.display().to_string(), source.display().to_string(), port.to_string()])
    }

    /// Starts it, with its log in the folder `logs`, and waits until it listens.
    pub fn start(logs: &Path) -> Result<Self> {
        let port = http::free_port()?;
        let words = Self::command(port)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let mut process = Process::start("hello", &mut command, &logs.join("hello.log"), READY_LINE)?;
        process.await_ready(START_BOUND)?;
        Ok(Self { process, port })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.port)
    }

    /// Ends it in order.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.stop()
    }
}
