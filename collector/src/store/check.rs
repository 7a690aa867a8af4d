//! Looks at a database file before anything may write to it.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{APPLICATION_ID, StoreError};

/// What is at the path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No file, or an empty one.
    Nothing,
    /// A sound database of the collector.
    Ours,
}

/// Refuses what is not a sound database of the collector, without changing a byte of it.
///
/// The header is read as plain bytes, so that SQLite never opens a foreign file and leaves no journal beside it.
pub(super) async fn check(path: &Path) -> Result<Found, StoreError> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return Err(StoreError::NoDirectory { path: path.into(), directory: directory.into() });
    }
    let Some(header) = header(path)? else { return Ok(Found::Nothing) };
    let foreign = |what: String| Err(StoreError::Foreign { path: path.into(), what });
    if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
        return foreign("no SQLite database".into());
    }
    let application = u32::from_be_bytes([header[68], header[69], header[70], header[71]]);
    if application != APPLICATION_ID {
        return foreign(format!("a SQLite database of another application (id {application:#010x})"));
    }
    match integrity(path).await {
        Ok(verdict) if verdict == "ok" => Ok(Found::Ours),
        Ok(findings) => {
            let detail = findings.lines().last().unwrap_or_default().to_owned();
            Err(StoreError::Corrupt { path: path.into(), detail })
        }
        Err(error) => Err(StoreError::Corrupt { path: path.into(), detail: error.to_string() }),
    }
}

/// Up to 100 bytes of the file, SQLite's header; `None` for a file that is missing or empty.
fn header(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let unreadable = |source| StoreError::Unreadable { path: path.into(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(StoreError::Foreign { path: path.into(), what: "no regular file".into() });
    }
    let mut header = Vec::with_capacity(100);
    file.take(100).read_to_end(&mut header).map_err(unreadable)?;
    Ok((!header.is_empty()).then_some(header))
}

/// SQLite's verdict, `ok` or its first finding.
///
/// A file without a write-ahead log is opened as immutable, which leaves no trace. After a crash there is a log, and
/// only both together are the database: that needs the log's index beside it, which SQLite rebuilds anyway.
async fn integrity(path: &Path) -> Result<String, sqlx::Error> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let logged = std::fs::metadata(PathBuf::from(wal)).is_ok_and(|file| file.len() > 0);
    let mut connection =
        SqliteConnectOptions::new().filename(path).read_only(true).immutable(!logged).connect().await?;
    let verdict = sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut connection).await;
    connection.close().await?;
    verdict
}
