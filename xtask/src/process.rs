//! A child process with its log, ended by its id and never outliving xtask.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use crate::{clock, interrupt, wait};

const STOP_BOUND: Duration = Duration::from_secs(20);
const TAIL_LINES: usize = 30;

/// A child process. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    said: Receiver<Said>,
    ended: Option<ExitStatus>,
}

/// A line of a process's output that was awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The line.
    pub line: String,
    /// When it was read, boot time, nanoseconds.
    pub at_boot_ns: u64,
}

impl Process {
    /// Starts `command` with both of its outputs in the file `log`, in a process group of its own: a terminal's Ctrl-C
    /// is xtask's, which then ends its children in order. The first line that contains `ready_line` is what
    /// [`Process::await_ready`] waits for.
    ///
    /// The thread that calls this must live as long as the child should: the kernel ties the child's life to it.
    pub fn start(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        ready_line: &'static str,
    ) -> Result<Self> {
        Self::start_with(name, command, log, vec![ready_line], None)
    }

    /// The same with several lines, awaited one after the other, and with standard output in a file of its own when it
    /// is data.
    pub fn start_with(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        lines: Vec<&'static str>,
        stdout: Option<File>,
    ) -> Result<Self> {
        let (output, input) = std::io::pipe().context("make a pipe")?;
        let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let to_log = || input.try_clone().context("share a pipe");
        command
            .stdin(Stdio::null())
            .stdout(stdout.map_or_else(|| to_log().map(Stdio::from), |file| Ok(file.into()))?);
        command.stderr(input).process_group(0);
        die_with_parent(command);
        let child = command.spawn().with_context(|| format!("start {name}: {}", line(command)))?;
        // The command holds the pipe's writing ends: while it does, the log has no end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (found, said) = sync_channel(lines.len());
        std::thread::Builder::new()
            .name(format!("{name}-log"))
            .spawn(move || copy(output, &file, &lines, &found))
            .context("start a log thread")?;
        Ok(Self { name, child, log: log.to_path_buf(), said, ended: None })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the line that says that it is ready, and returns it.
    pub fn await_ready(&mut self, bound: Duration) -> Result<String> {
        Ok(self.await_line(bound)?.line)
    }

    /// Waits for the next of its lines.
    pub fn await_line(&mut self, bound: Duration) -> Result<Said> {
        let started = Instant::now();
        loop {
            interrupt::check()?;
            match self.said.recv_timeout(Duration::from_millis(100)) {
                Ok(said) => return Ok(said),
                Err(RecvTimeoutError::Disconnected) => bail!("{} ended early\n{}", self.name, self.tail()),
                Err(RecvTimeoutError::Timeout) if started.elapsed() >= bound => {
                    bail!("{} not ready within {:.0} s\n{}", self.name, bound.as_secs_f64(), self.tail())
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Fails, with the end of its log, when it has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.status()? {
            bail!("{} ended early ({status})\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// Sends SIGTERM, and SIGKILL to what does not go within 20 s.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status()? {
            return Ok(status);
        }
        self.signal(Signal::SIGTERM)?;
        let asked = Instant::now();
        while asked.elapsed() < STOP_BOUND {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            wait::pause(Duration::from_millis(10));
        }
        self.kill()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if self.status()?.is_none() {
            self.signal(Signal::SIGKILL)?;
        }
        let status = self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        self.ended = Some(status);
        Ok(status)
    }

    /// The end of its log, for an error's text.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
        format!("  {tail}\n  (from {})", self.log.display())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
        }
        Ok(self.ended)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).context("process id")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} to {} ({pid})", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("could not end {}: {error:#}", self.name);
        }
    }
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Copies a child's output to its log and sends the first line with each of `needles`, in their order.
fn copy(output: impl Read, mut log: &File, needles: &[&str], found: &SyncSender<Said>) {
    let mut output = BufReader::new(output);
    let mut needles = needles.iter().peekable();
    let mut text = Vec::new();
    while output.read_until(b'\n', &mut text).is_ok_and(|length| length > 0) {
        let read_at = clock::boot_ns();
        // A full disk must not stop the child, which it would if nobody read its pipe.
        let _ = log.write_all(&text);
        let line = String::from_utf8_lossy(&text);
        if needles.next_if(|&&needle| line.contains(needle)).is_some()
            && let Ok(at_boot_ns) = read_at
        {
            // There is room for each, and nobody waits for what is not received.
            let _ = found.try_send(Said { line: line.trim_end().to_owned(), at_boot_ns });
        }
        text.clear();
    }
}

#[expect(unsafe_code, reason = "std has no safe way to tie a child's life to its parent's")]
fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let tie = move || {
        prctl::set_pdeathsig(Signal::SIGTERM)?;
        // The parent may have gone before the tie was there.
        if getppid() != parent {
            return Err(std::io::Error::from(nix::errno::Errno::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes two system calls; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(tie) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, ready_line: &'static str) -> (Process, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let process = Process::start("script", &mut command, &dir.path().join("log"), ready_line).unwrap();
        (process, dir)
    }

    #[test]
    fn readiness_is_a_line_of_either_output_and_the_child_is_ended_by_its_id() {
        let (mut process, _dir) = shell("echo one; echo 'two armed' >&2; exec sleep 60", "armed");
        assert_eq!(process.await_ready(Duration::from_secs(10)).unwrap(), "two armed");
        process.check_alive().unwrap();
        assert!(!process.stop().unwrap().success());
    }

    #[test]
    fn a_child_that_ends_before_it_is_ready_shows_its_last_words() {
        let (mut process, _dir) = shell("echo 'no room left'; exit 3", "armed");
        let error = process.await_ready(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("script ended early") && error.contains("no room left"), "{error}");
    }
}
