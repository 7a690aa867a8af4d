//! The Spring testbed as a running service.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::http::{self, Connection, Response};
use crate::jdk::Jdk;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::truth::{self, Row};
use crate::{repo, wait};

/// The endpoint that a kubelet would ask.
pub const READINESS: &str = "/actuator/health/readiness";
/// What Spring logs when the application has started.
pub const STARTED: &str = "Started TestbedApplication";
/// The kubelet's default period.
pub const PROBE_PERIOD: Duration = Duration::from_secs(1);
const READY_BOUND: Duration = Duration::from_secs(90);
const TRUTH_BOUND: Duration = Duration::from_secs(10);

/// How the service is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The JDK that runs it.
    pub jdk: Jdk,
    /// Options of the JVM.
    pub jvm: Vec<String>,
    /// Properties, `--testbed.runner-sleep=2s`.
    pub properties: Vec<String>,
}

/// A running service. Dropping it ends it.
#[derive(Debug)]
pub struct Service {
    process: Process,
    port: u16,
    truth: PathBuf,
}

impl Service {
    /// Starts it, with its log and ground truth in `logs`. It is not ready yet.
    pub fn start(options: &Options, postgres: &Postgres, stub_port: u16, logs: &Path) -> Result<Self> {
        let port = http::free_service_port()?;
        let truth = logs.join("truth.csv");
        // The rows of an earlier run must not pass for this one's.
        if truth.exists() {
            std::fs::remove_file(&truth).with_context(|| truth.display().to_string())?;
        }
        let mut java = Self::command(options, postgres, stub_port, port, &truth)?;
        let process = Process::start("service", &mut java, &logs.join("service.log"), STARTED)?;
        Ok(Self { process, port, truth })
    }

    /// The command that runs it on a port of loopback, with its ground truth in the file `truth`.
    pub fn command(
        options: &Options,
        postgres: &Postgres,
        stub_port: u16,
        port: u16,
        truth: &Path,
    ) -> Result<Command> {
        let mut java = Command::new(options.jdk.java());
        java.args(&options.jvm).arg("-jar").arg(repo::spring_jar()?);
        java.arg("--server.address=127.0.0.1").arg(format!("--server.port={port}"));
        java.arg(format!("--spring.datasource.url={}", postgres.jdbc_url()))
            .arg("--spring.datasource.username=jcold");
        java.arg(format!("--testbed.stub-url=http://127.0.0.1:{stub_port}"));
        java.arg(format!("--testbed.truth-csv={}", truth.display())).args(&options.properties);
        Ok(java)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks the readiness endpoint once a second, each time on a new connection, until it says yes. How often it asked
    /// with something listening.
    pub fn await_ready(&mut self) -> Result<u32> {
        let mut answered = 0;
        wait::until("service ready", PROBE_PERIOD, READY_BOUND, || {
            self.process.check_alive()?;
            let status = http::probe(self.port, READINESS)?;
            answered += u32::from(status.is_some());
            Ok((status == Some(200)).then_some(()))
        })
        .with_context(|| self.process.tail())?;
        Ok(answered)
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.port)
    }

    /// Calls `path` `count` times, one after the other, on one connection.
    pub fn call(&self, path: &str, count: usize) -> Result<Vec<Response>> {
        let mut connection = self.connect()?;
        (1..=count)
            .map(|number| call(&mut connection, path).with_context(|| format!("call {number}")))
            .collect()
    }

    /// What the filter wrote of `path`, once it has `count` rows of it.
    pub fn truth(&self, path: &str, count: usize) -> Result<Vec<Row>> {
        wait::until("ground truth complete", Duration::from_millis(50), TRUTH_BOUND, || {
            let rows: Vec<Row> =
                truth::read(&self.truth)?.into_iter().filter(|row| row.path == path).collect();
            Ok((rows.len() >= count).then_some(rows))
        })
    }

    /// Everything that the filter has written so far.
    pub fn whole_truth(&self) -> Result<Vec<Row>> {
        truth::read(&self.truth)
    }

    /// Ends it in order; its ground truth is complete then.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.stop()
    }
}

/// One call that must succeed.
pub fn call(connection: &mut Connection, path: &str) -> Result<Response> {
    let response = connection.get(path, "User-Agent: jcold-client\r\n")?;
    if response.status != 200 {
        bail!("GET {path}: status {}\n{}", response.status, String::from_utf8_lossy(&response.body));
    }
    Ok(response)
}
