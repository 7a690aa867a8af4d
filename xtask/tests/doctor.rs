//! What the agent says of a machine, to root and to others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use xtask::repo;
use xtask::setup::{self, Purpose};

const NOBODY: u32 = 65534;

/// The agent as an unprivileged user, from a folder that everybody can reach.
fn as_nobody(arguments: &[&str]) -> Result<Output> {
    setup::check_machine(Purpose::Demo)?;
    let dir = tempfile::tempdir()?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    let agent = dir.path().join("jcold-agent");
    fs::copy(repo::binary("jcold-agent")?, &agent)?;
    Command::new(&agent)
        .args(arguments)
        .current_dir(dir.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .context("jcold-agent as nobody")
}

#[test]
fn without_root_one_line_names_the_missing_capability() -> Result<()> {
    for arguments in [&["trace", "--", "true"][..], &["run", "--metrics-listen", "off"]] {
        let output = as_nobody(arguments)?;
        let words = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {words}");
        assert_eq!(words.lines().count(), 1, "{arguments:?}: {words}");
        assert!(words.contains("CAP_BPF"), "{arguments:?}: {words}");
        assert!(output.stdout.is_empty());
    }
    Ok(())
}

#[test]
fn doctor_without_root_names_what_is_missing() -> Result<()> {
    let output = as_nobody(&["doctor"])?;
    let report = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(1), "{report}");
    let failed: Vec<&str> = report.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert!(failed.iter().any(|line| line.contains("CAP_BPF") && line.contains("run as root")), "{report}");
    assert!(report.lines().any(|line| line.starts_with("ok")), "the rest is checked all the same: {report}");
    Ok(())
}

#[test]
fn doctor_as_root_finds_nothing_missing() -> Result<()> {
    setup::check_machine(Purpose::Demo)?;
    let output = Command::new(repo::binary("jcold-agent")?).arg("doctor").output()?;
    let report = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{report}");
    let checks: Vec<&str> = report.lines().collect();
    assert!(checks.iter().all(|line| line.starts_with("ok ")), "{report}");
    for probe in ["sched_process_exec", "inet_sock_set_state", "sys_enter", "sys_exit", "sched_switch"] {
        let loads = |line: &str| line.contains(probe) && line.contains("loads and attaches");
        assert!(checks.iter().any(|line| loads(line)), "{probe}: {report}");
    }
    Ok(())
}
