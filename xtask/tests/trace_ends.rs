//! How `jcold-agent trace` ends a command or is ended with it, what it prints where, and what it never writes.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::hello::{self, Hello};
use xtask::http::Connection;
use xtask::timeline::number;
use xtask::traced::Traced;

/// `trace` with these options at work on the JDK's HTTP server.
fn start(options: &[&str]) -> Result<Traced> {
    Traced::start(options, |port, _| Hello::command(port))
}

fn assert_refused(port: u16) -> Result<()> {
    if Connection::open(port).is_ok() {
        bail!("the service still listens on port {port}");
    }
    Ok(())
}

#[test]
fn after_so_many_requests_the_command_is_ended_and_its_timeline_printed() -> Result<()> {
    let mut trace = start(&["--requests", "5"])?;
    let mut connection = trace.connect()?;
    for id in 1..=5 {
        assert_eq!(connection.get(&format!("/users/{id}"), "")?.status, 200);
    }
    assert_eq!(trace.await_end()?.code(), Some(0));
    assert_refused(trace.port())?;
    let table = trace.read("stderr");
    for part in ["process_exec", "jvm_created", "port_listen", "first_accept", "first_request", "/users/{id}"]
    {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    assert_eq!(
        trace.read("stdout"),
        format!("{} {}\n", hello::READY_LINE, trace.port()),
        "the command's own"
    );
    Ok(())
}

#[test]
fn after_so_long_the_command_is_ended_and_its_timeline_printed() -> Result<()> {
    let mut trace = start(&["--for", "2s", "-o", "json"])?;
    assert_eq!(trace.await_end()?.code(), Some(0));
    assert_refused(trace.port())?;
    let timeline = trace.timeline()?;
    assert!(timeline.at("JVM_CREATED").is_some(), "{}", timeline.summary());
    Ok(())
}

#[test]
fn an_interrupt_is_the_commands_and_stdout_holds_nothing_but_json() -> Result<()> {
    let mut trace = start(&["-o", "json"])?;
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
        let mut trace = start(&["-o", output, "--requests", "3", "--record", "{dir}/recording"])?;
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
        assert!(trace.dir().join("recording").is_file());
    }
    Ok(())
}
