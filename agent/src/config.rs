//! The configuration file: what a site adds to what is built in.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use timeline::{Limits, Settings, ThreadClass, ThreadClasses};

/// The file's contents, TOML.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    /// Prefixes of thread names, asked before the built-in table.
    thread_class: Vec<Rule>,
    observation: Observation,
    probe: Probe,
}

/// How probes are known beside the kubelet's User-Agent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Probe {
    /// Paths that nobody else asks for.
    paths: Vec<String>,
}

/// When observation of a JVM ends that does not become steady: `10m`, `1h`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Observation {
    after_first_request: Option<Span>,
    after_exec: Option<Span>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Span(Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        proto::duration::parse(&text).map(Self)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    prefix: String,
    class: ThreadClass,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
}

/// What is built in, with what the file adds and changes.
///
/// # Errors
/// When a file is named that cannot be read or parsed.
pub fn settings(path: Option<&Path>) -> Result<Settings, ConfigError> {
    let Some(path) = path else { return Ok(Settings::default()) };
    let text =
        fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let file: File = toml::from_str(&text)
        .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
    let rules = file.thread_class.into_iter().map(|rule| (rule.prefix, rule.class));
    let nanoseconds = |span: Option<Span>, default| {
        span.map_or(default, |Span(span)| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    };
    let Limits { after_first_request_ns, after_exec_ns } = Limits::default();
    Ok(Settings {
        classes: ThreadClasses::with(rules.collect()),
        limits: Limits {
            after_first_request_ns: nanoseconds(file.observation.after_first_request, after_first_request_ns),
            after_exec_ns: nanoseconds(file.observation.after_exec, after_exec_ns),
        },
        probe_paths: file.probe.paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        fs::write(
            &path,
            "[[thread_class]]\nprefix = \"acme-io-\"\nclass = \"poller\"\n[observation]\nafter_exec = \"2h\"\n\
             [probe]\npaths = [\"/healthz\"]\n",
        )
        .unwrap();
        let Settings { limits, probe_paths, .. } = settings(Some(&path)).unwrap();
        assert_eq!(probe_paths, ["/healthz"]);
        assert_eq!(limits.after_exec_ns, 7_200_000_000_000);
        assert_eq!(limits.after_first_request_ns, Limits::default().after_first_request_ns);
        fs::write(&path, "[observation]\nafter_exec = \"soon\"\n").unwrap();
        assert!(settings(Some(&path)).is_err());
        fs::write(&path, "[[thread_class]]\nprefix = \"x\"\nclass = \"pollster\"\n").unwrap();
        let error = format!("{:#}", anyhow::Error::from(settings(Some(&path)).unwrap_err()));
        assert!(error.contains("agent.toml") && error.contains("pollster"), "{error}");
        assert!(settings(Some(Path::new("/nonexistent.toml"))).is_err());
    }
}
