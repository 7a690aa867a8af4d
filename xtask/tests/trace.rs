//! `jcold-agent trace -- CMD`, on the real kernel: what it says of a command, and that the command's exit code is kept.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::setup::{self, Purpose};
use xtask::testbed::Turn;
use xtask::timeline::{Timeline, number};
use xtask::{jdk, repo};

fn trace(options: &[&str], command: &[&str]) -> Result<Output> {
    setup::check_machine(Purpose::Demo)?;
    let _turn = Turn::take()?;
    let agent = repo::binary("jcold-agent")?;
    Command::new(agent)
        .arg("trace")
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .context("jcold-agent trace")
}

/// The timeline of a command that has a JVM, and its exit code.
fn traced(command: &[&str]) -> Result<(Timeline, Option<i32>)> {
    let output = trace(&["-o", "json"], command)?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    // The command's own stdout comes first, as it would without the agent.
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = stdout
        .find("{\n")
        .map(|start| &stdout[start..])
        .with_context(|| format!("no JSON: {stdout}\n{words}"))?;
    let value: Value = serde_json::from_str(json).with_context(|| format!("{json}\n{words}"))?;
    Ok((Timeline { value }, output.status.code()))
}

fn kinds(timeline: &Timeline) -> Vec<String> {
    timeline.milestones().into_iter().map(|(kind, _)| kind).collect()
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path is not UTF-8")
}

#[test]
fn a_command_without_a_jvm_is_said_to_have_none_and_keeps_its_exit_code() -> Result<()> {
    let output = trace(&[], &["sh", "-c", "exit 7"])?;
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    assert!(words.contains("no JVM seen"), "{words}");
    assert_eq!(output.status.code(), Some(7));
    Ok(())
}

#[test]
fn a_jvm_that_ends_before_it_listens_has_a_timeline_of_what_was_seen() -> Result<()> {
    let java = jdk::choose()?.java();
    let (timeline, code) = traced(&[text(&java)?, "-version"])?;
    assert_eq!(code, Some(0));
    assert_eq!(kinds(&timeline), ["PROCESS_EXEC", "JVM_CREATED"]);
    assert!(timeline.complete(), "{}", timeline.summary());
    let exit = &timeline.value["exit"];
    // Zero is a known exit code, not an absent one.
    assert_eq!(exit["code"], 0, "{exit}");
    Ok(())
}

#[test]
fn a_jvm_that_fails_keeps_its_exit_code() -> Result<()> {
    let java = jdk::choose()?.java();
    let (timeline, code) = traced(&[text(&java)?, "no.such.Main"])?;
    assert_eq!(code, Some(1));
    assert_eq!(timeline.value["exit"]["code"], 1);
    Ok(())
}

#[test]
fn a_jvm_is_known_by_evidence_whatever_its_launcher_is_called() -> Result<()> {
    let jdk = jdk::choose()?;
    let home = tempfile::tempdir()?;
    for entry in std::fs::read_dir(&jdk.home)? {
        let entry = entry?;
        if entry.file_name() != "bin" {
            symlink(entry.path(), home.path().join(entry.file_name()))?;
        }
    }
    let launcher = home.path().join("bin/orders-service");
    std::fs::create_dir(home.path().join("bin"))?;
    std::fs::copy(jdk.java(), &launcher)?;
    let (timeline, code) = traced(&[text(&launcher)?, "-version"])?;
    assert_eq!(code, Some(0));
    assert_eq!(timeline.value["jvm"]["executable"], text(&launcher)?);
    let libjvm = timeline.value["jvm"]["libjvm"].as_str().unwrap_or_default();
    assert!(libjvm.ends_with("/libjvm.so"), "{libjvm}");
    assert_eq!(kinds(&timeline), ["PROCESS_EXEC", "JVM_CREATED"]);
    Ok(())
}

#[test]
fn a_launcher_that_executes_java_is_followed_to_it() -> Result<()> {
    let java = jdk::choose()?.java();
    let script = format!("sleep 0.1; exec {} -version", text(&java)?);
    let (timeline, code) = traced(&["sh", "-c", &script])?;
    assert_eq!(code, Some(0));
    // The clock starts at the exec of java, not of the shell.
    let created = timeline.at("JVM_CREATED").context("no JVM_CREATED")?;
    let ended = number(&timeline.value["exit"]["sinceExecNs"]).context("no exit")?;
    assert!(created < ended, "{created} {ended}");
    assert_eq!(timeline.at("PROCESS_EXEC"), Some(0));
    Ok(())
}
