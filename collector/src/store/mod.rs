//! One SQLite file that holds every timeline and how far each agent's updates are in.
//!
//! The journal is a write-ahead log and `synchronous` is FULL: an agent forgets what was acknowledged, so an
//! acknowledgement promises that the update survives the collector's death and the machine's. NORMAL would keep the
//! first promise only. Updates are committed in batches, so the price is one flush a batch, not one an update.

mod check;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqlSafeStr as _, SqlitePool};

pub use read::{Agent, Durations, Filter, Place};
pub use write::{Outcome, Update, Writer};

/// Marks a database as the collector's (`jcld`), at bytes 68–71 of the file.
const APPLICATION_ID: u32 = 0x6a63_6c64;

/// Reads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory of the file is missing.
    #[error(
        "the directory {} of database {} does not exist: create it, or choose another file with --database",
        directory.display(), path.display()
    )]
    NoDirectory {
        /// The database file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// The file cannot be read.
    #[error("database {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be created or written.
    #[error("database {} cannot be opened for writing: {source}", path.display())]
    Unwritable {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The file belongs to something else.
    #[error(
        "{} is refused and was not touched: it is {what}, not a database of jcold-collector; \
         choose another file with --database", path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The file is the collector's and damaged.
    #[error(
        "database {} is refused and was not touched: it is corrupt ({detail}); \
         restore it from a backup, or start anew with another file by --database", path.display()
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// SQLite's finding.
        detail: String,
    },
    /// The schema cannot be brought up to date.
    #[error(
        "database {} was written by another version of jcold-collector ({source}): \
         use that one, or another file with --database", path.display()
    )]
    Schema {
        /// The database file.
        path: PathBuf,
        /// What sqlx said.
        source: MigrateError,
    },
    /// SQLite failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// A stored message does not decode.
    #[error("the stored {what} of {id} does not decode: {source}")]
    Undecodable {
        /// What was stored.
        what: &'static str,
        /// Id of the timeline, or instance of the agent.
        id: String,
        /// What prost said.
        source: prost::DecodeError,
    },
}

// === impl Store ===

impl Store {
    /// Opens the database, or creates it; refuses a file that is not the collector's or is damaged, before anything
    /// is written to it.
    pub async fn open(path: &Path) -> Result<(Self, Writer), StoreError> {
        let unwritable = |source| StoreError::Unwritable { path: path.to_owned(), source };
        if check::check(path).await? == check::Found::Nothing {
            create(path).await.map_err(unwritable)?;
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5));
        let mut connection = options.connect().await.map_err(unwritable)?;
        migrator()
            .run_direct(None, &mut connection, false)
            .await
            .map_err(|source| StoreError::Schema { path: path.to_owned(), source })?;
        let pool = SqlitePoolOptions::new().max_connections(4).connect_lazy_with(options.read_only(true));
        Ok((Self { pool }, Writer::new(connection)))
    }

    /// Ends all reads.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Marks the new file as the collector's before the journal becomes a write-ahead log: from then on the mark stands
/// in the file itself, wherever the process dies.
async fn create(path: &Path) -> Result<(), sqlx::Error> {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    let mark = sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
    sqlx::query(mark).execute(&mut connection).await?;
    connection.close().await
}

fn migrator() -> Migrator {
    Migrator::with_migrations(vec![Migration::new(
        1,
        "timelines".into(),
        MigrationType::Simple,
        include_str!("../../migrations/0001_timelines.sql").into_sql_str(),
        false,
    )])
}
