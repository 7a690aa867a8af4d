//! Recorded event files: a line of JSON for the start, then one for each event.

use std::io::BufRead;

use proto::v1;
use serde_json::Error;

use crate::{Builder, Event, Settings, Start};

/// How often time passes in a replay, as in the agent.
const TICK_NS: u64 = 100_000_000;

/// A recording that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Nothing in it.
    #[error("the recording is empty")]
    Empty,
    /// The file cannot be read.
    #[error("line {line}: {source}")]
    Read {
        /// 1-based.
        line: usize,
        /// What failed.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line}: {source}")]
    Line {
        /// 1-based.
        line: usize,
        /// What is wrong.
        source: Error,
    },
}

/// A line of a recording.
///
/// # Errors
/// None in practice: every value of these types has a JSON form.
pub fn line<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map(|json| json + "\n")
}

/// The timeline that a recording tells.
///
/// # Errors
/// The first line that cannot be read or parsed.
pub fn replay(recording: impl BufRead) -> Result<v1::Timeline, RecordingError> {
    let mut lines = recording.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, first) = lines.next().ok_or(RecordingError::Empty)?;
    let start: Start = parse(1, first)?;
    let mut now_ns = start.exec_ns;
    let mut builder = Builder::new(start, Settings::default());
    for (at, line) in lines {
        let event: Event = parse(at, line)?;
        while event.at_ns > now_ns + TICK_NS {
            now_ns += TICK_NS;
            builder.tick(now_ns);
        }
        builder.apply(&event);
    }
    builder.finish(now_ns);
    Ok(builder.snapshot())
}

fn parse<T: serde::de::DeserializeOwned>(
    at: usize,
    text: std::io::Result<String>,
) -> Result<T, RecordingError> {
    let text = text.map_err(|source| RecordingError::Read { line: at, source })?;
    serde_json::from_str(&text).map_err(|source| RecordingError::Line { line: at, source })
}
