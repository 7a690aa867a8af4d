//! Files that are not the collector's, or no longer sound, are refused untouched.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use collector::store::{Store, Update};
use support::{build, interval, start, stop};

/// Every file of a directory with its bytes.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// Starts on the file, and gives the refusal; the directory must be as before.
async fn refusal(database: &Path) -> String {
    let before = files(database.parent().unwrap());
    let error = build(database).await.expect_err("refused").to_string();
    let after = files(database.parent().unwrap());
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "no litter");
    assert!(before == after, "bytes changed");
    assert!(error.contains(database.to_str().unwrap()), "{error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

/// A sound database with some timelines, after an orderly end.
async fn sound(database: &Path) {
    let running = start(database).await;
    let mut agent = support::Agent::connect(&running, "a1").await;
    for sequence in 1..=200 {
        agent.push(sequence, interval(&format!("t{sequence}"), sequence)).await;
    }
    stop(running).await;
}

#[tokio::test]
async fn text_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    std::fs::write(&database, "dear diary").unwrap();
    assert!(refusal(&database).await.contains("no SQLite database"));
}

#[tokio::test]
async fn another_applications_database_is_refused() {
    use sqlx::{ConnectOptions as _, Connection as _};
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::query("CREATE TABLE accounts (name TEXT)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    assert!(refusal(&database).await.contains("another application"));
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    sound(&database).await;
    let mut bytes = std::fs::read(&database).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&database, &bytes).unwrap();
    assert!(refusal(&database).await.contains("corrupt"));
    bytes.truncate(middle + 100);
    std::fs::write(&database, &bytes).unwrap();
    assert!(refusal(&database).await.contains("corrupt"), "cut off");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("no/jcold.db");
    let error = build(&database).await.unwrap_err().to_string();
    assert!(error.contains("does not exist") && error.contains("--database"), "{error}");
    assert!(!directory.path().join("no").exists());
}

#[tokio::test]
async fn a_place_that_takes_no_file_is_named() {
    let database = Path::new("/proc/jcold.db");
    let error = build(database).await.unwrap_err().to_string();
    assert!(error.starts_with("database /proc/jcold.db cannot be opened for writing"), "{error}");
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("jcold.db");
    std::fs::write(&database, "").unwrap();
    sound(&database).await;
    let running = start(&database).await;
    assert_eq!(support::get(&running, "t200").await.unwrap().id, "t200");
    stop(running).await;
}

/// As after a kill: the writer and its log are copied while they are open, with nothing merged.
#[tokio::test]
async fn what_is_only_in_the_log_is_there_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (directory.path().join("before.db"), directory.path().join("after.db"));
    let (_store, mut writer) = Store::open(&before).await.unwrap();
    let update = Update {
        node: "node-a".into(),
        instance: "a1".into(),
        sequence: 1,
        timeline: Some(interval("t1", 0)),
        stats: None,
    };
    writer.store(&[update]).await.unwrap();
    std::fs::copy(&before, &after).unwrap();
    std::fs::copy(before.with_extension("db-wal"), after.with_extension("db-wal")).unwrap();
    let running = start(&after).await;
    assert_eq!(support::get(&running, "t1").await.unwrap().id, "t1");
    stop(running).await;
}
