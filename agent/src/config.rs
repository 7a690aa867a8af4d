//! The configuration file: what a site adds to what is built in.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use timeline::{ThreadClass, ThreadClasses};

/// The file's contents, TOML.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    /// Prefixes of thread names, asked before the built-in table.
    thread_class: Vec<Rule>,
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

/// The classes of threads, with those that the file adds.
///
/// # Errors
/// When a file is named that cannot be read or parsed.
pub fn thread_classes(path: Option<&Path>) -> Result<ThreadClasses, ConfigError> {
    let Some(path) = path else { return Ok(ThreadClasses::default()) };
    let text =
        fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let file: File = toml::from_str(&text)
        .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
    Ok(ThreadClasses::with(file.thread_class.into_iter().map(|rule| (rule.prefix, rule.class)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        fs::write(&path, "[[thread_class]]\nprefix = \"acme-io-\"\nclass = \"poller\"\n").unwrap();
        assert!(thread_classes(Some(&path)).is_ok());
        fs::write(&path, "[[thread_class]]\nprefix = \"x\"\nclass = \"pollster\"\n").unwrap();
        let error = format!("{:#}", anyhow::Error::from(thread_classes(Some(&path)).unwrap_err()));
        assert!(error.contains("agent.toml") && error.contains("pollster"), "{error}");
        assert!(thread_classes(Some(Path::new("/nonexistent.toml"))).is_err());
    }
}
