//! One step of a set-up or build: said on stderr, with progress, and with the tail of its output when it fails.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{interrupt, process};

const TAIL_LINES: usize = 30;
/// How often a long step shows that it lives where there is no terminal.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// How often a step without output looks whether it was interrupted.
const GLANCE: Duration = Duration::from_millis(200);

/// Says something about a step: `ok      jdk ≥ 17: …`.
pub fn say(verb: &str, what: &str) {
    eprintln!("{verb:<8}{what}");
}

/// Runs a command whose output nobody needs while it works. A terminal gets a spinner with the last line, anything
/// else a line at the start, now and then, and at the end.
pub fn run(verb: &str, what: &str, command: &mut Command) -> Result<()> {
    let started = Instant::now();
    let (output, input) = std::io::pipe().context("make a pipe")?;
    command.stdin(Stdio::null()).stdout(input.try_clone().context("share a pipe")?).stderr(input);
    let mut child = command.spawn().with_context(|| format!("start {}", process::line(command)))?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = sync_channel(64);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });

    let progress = Progress::new(verb, what);
    let mut tail = VecDeque::new();
    let mut sign_of_life = started + SIGN_OF_LIFE;
    loop {
        let received = lines.recv_timeout(GLANCE);
        if let Err(interrupted) = interrupt::check() {
            child.kill().with_context(|| format!("end {}", process::line(command)))?;
            child.wait().with_context(|| format!("wait for {}", process::line(command)))?;
            return Err(interrupted);
        }
        if Instant::now() >= sign_of_life {
            progress.alive(started.elapsed());
            sign_of_life += SIGN_OF_LIFE;
        }
        match received {
            Ok(line) => {
                progress.line(&line);
                if tail.len() == TAIL_LINES {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().with_context(|| format!("wait for {}", process::line(command)))?;
    progress.done();
    if !status.success() {
        let tail = tail.into_iter().collect::<Vec<_>>().join("\n  ");
        bail!("{what}: `{}` failed ({status})\n  {tail}", process::line(command));
    }
    say("done", &format!("{what} ({:.1} s)", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Runs a command that shows its own progress on stderr, as cargo does; its stdout goes there too.
pub fn run_loud(what: &str, command: &mut Command) -> Result<()> {
    let started = Instant::now();
    say("run", &process::line(command));
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("start {}", process::line(command)))?;
    if !status.success() {
        bail!("{what}: `{}` failed ({status})", process::line(command));
    }
    say("done", &format!("{what} ({:.1} s)", started.elapsed().as_secs_f64()));
    Ok(())
}

/// A short command's stdout; none when it cannot be started or fails.
pub fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

enum Progress<'a> {
    Terminal(ProgressBar),
    Plain { what: &'a str },
}

impl<'a> Progress<'a> {
    fn new(verb: &str, what: &'a str) -> Self {
        if !std::io::stderr().is_terminal() {
            say(verb, what);
            return Self::Plain { what };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}") {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{verb:<6}{what}"));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self::Terminal(bar)
    }

    fn line(&self, line: &str) {
        if let Self::Terminal(bar) = self {
            bar.set_message(line.trim().to_owned());
        }
    }

    fn alive(&self, elapsed: Duration) {
        if let Self::Plain { what } = self {
            say("…", &format!("{what}, {:.0} s", elapsed.as_secs_f64()));
        }
    }

    fn done(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_shows_its_command_and_the_end_of_its_output() {
        let error = run(
            "install",
            "llvm",
            Command::new("sh").args(["-c", "echo fetching; echo 'no space' >&2; exit 4"]),
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("sh -c") && error.contains("no space") && error.contains("exit status: 4"),
            "{error}"
        );
    }
}
