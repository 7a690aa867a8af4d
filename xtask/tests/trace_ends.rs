//! How `jcold-agent trace` ends a command or is ended with it, what it prints where, and what it never writes.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use xtask::hello::{self, Hello};
use xtask::http::{self, Connection};
use xtask::setup::{self, Purpose};
use xtask::testbed::Turn;
use xtask::timeline::{Timeline, number};
use xtask::{repo, wait};

const BOUND: Duration = Duration::from_mins(1);

/// `trace` at work on the JDK's HTTP server. Dropping it ends both.
struct Trace {
    child: Child,
    port: u16,
    dir: TempDir,
    _turn: Turn,
}

impl Trace {
    /// Starts it; `{dir}` in an option is its folder.
    fn start(options: &[&str]) -> Result<Self> {
        setup::check_machine(Purpose::Demo)?;
        let turn = Turn::take()?;
        let dir = tempfile::tempdir()?;
        let port = http::free_port()?;
        let at = dir.path().to_str().context("folder is not UTF-8")?;
        let child = Command::new(repo::binary("jcold-agent")?)
            .arg("trace")
            .args(options.iter().map(|option| option.replace("{dir}", at)))
            .arg("--")
            .args(Hello::command(port)?)
            .stdin(Stdio::null())
            .stdout(File::create(dir.path().join("stdout"))?)
            .stderr(File::create(dir.path().join("stderr"))?)
            .spawn()
            .context("jcold-agent trace")?;
        Ok(Self { child, port, dir, _turn: turn })
    }

    fn connect(&self) -> Result<Connection> {
        let open = || Ok(Connection::open(self.port).ok());
        wait::until("the service listens", Duration::from_millis(20), BOUND, open)
            .with_context(|| self.read("stderr"))
    }

    fn interrupt(&self) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)?)
    }

    fn await_end(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        wait::until("the trace's end", Duration::from_millis(20), BOUND, || Ok(child.try_wait()?))
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.dir.path().join(name)).unwrap_or_default()).into_owned()
    }

    /// The timeline on its stdout, which holds nothing else.
    fn timeline(&self) -> Result<Timeline> {
        let value: Value = serde_json::from_str(&self.read("stdout")).with_context(|| self.read("stdout"))?;
        Ok(Timeline { value })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // It passes the signal on, so the service ends too.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

fn assert_refused(port: u16) -> Result<()> {
    if Connection::open(port).is_ok() {
        bail!("the service still listens on port {port}");
    }
    Ok(())
}

#[test]
fn after_so_many_requests_the_command_is_ended_and_its_timeline_printed() -> Result<()> {
    let mut trace = Trace::start(&["--requests", "5"])?;
    let mut connection = trace.connect()?;
    for id in 1..=5 {
        assert_eq!(connection.get(&format!("/users/{id}"), "")?.status, 200);
    }
    assert_eq!(trace.await_end()?.code(), Some(0));
    assert_refused(trace.port)?;
    let table = trace.read("stderr");
    for part in ["process_exec", "jvm_created", "port_listen", "first_accept", "first_request", "/users/{id}"]
    {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    assert_eq!(trace.read("stdout"), format!("{} {}\n", hello::READY_LINE, trace.port), "the command's own");
    Ok(())
}

#[test]
fn after_so_long_the_command_is_ended_and_its_timeline_printed() -> Result<()> {
    let mut trace = Trace::start(&["--for", "2s", "-o", "json"])?;
    assert_eq!(trace.await_end()?.code(), Some(0));
    assert_refused(trace.port)?;
    let timeline = trace.timeline()?;
    assert!(timeline.at("JVM_CREATED").is_some(), "{}", timeline.summary());
    Ok(())
}

#[test]
fn an_interrupt_is_the_commands_and_stdout_holds_nothing_but_json() -> Result<()> {
    let mut trace = Trace::start(&["-o", "json"])?;
    assert_eq!(trace.connect()?.get("/hello", "")?.status, 200);
    trace.interrupt()?;
    // What java itself says of SIGINT: 128 + 2, after its shutdown hooks.
    assert_eq!(trace.await_end()?.code(), Some(130));
    let timeline = trace.timeline()?;
    assert_eq!(number(&timeline.value["exit"]["code"]), Some(130), "{}", timeline.value["exit"]);
    assert_eq!(timeline.user_count(), 1, "{}", timeline.summary());
    assert!(timeline.complete(), "{}", timeline.summary());
    let words = trace.read("stderr");
    assert!(words.contains(hello::READY_LINE), "the command's own stdout is gone: {words}");
    Ok(())
}

#[test]
fn no_query_string_header_or_body_reaches_a_recording_or_a_report() -> Result<()> {
    const SECRET: &str = "hunter2";
    for output in ["table", "json"] {
        let mut trace = Trace::start(&["-o", output, "--requests", "3", "--record", "{dir}/recording"])?;
        let mut connection = trace.connect()?;
        let headers = format!("Authorization: Bearer {SECRET}\r\nCookie: session={SECRET}\r\n");
        assert_eq!(connection.get(&format!("/users/1?secret={SECRET}#{SECRET}"), &headers)?.status, 200);
        let body = format!("secret={SECRET}");
        let length = body.len();
        let post = format!(
            "POST /users?secret={SECRET} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        assert_eq!(connection.exchange(post.as_bytes())?.status, 200);
        assert_eq!(connection.exchange(post.as_bytes())?.status, 200);
        assert_eq!(trace.await_end()?.code(), Some(0));

        let recording = trace.read("recording");
        for line in recording.lines() {
            serde_json::from_str::<Value>(line).with_context(|| line.to_owned())?;
        }
        assert!(recording.contains("/users/{id}") && recording.contains("POST"), "{recording}");
        for place in ["recording", "stdout", "stderr"] {
            assert!(!trace.read(place).contains(SECRET), "{place}: {}", trace.read(place));
        }
        assert!(Path::new(&trace.dir.path().join("recording")).is_file());
    }
    Ok(())
}
