use super::*;
use crate::open::{Durability, FileSystem};
use tempfile::TempDir;

fn writer(directory: &TempDir) -> Writer {
    let home = Home { filesystem: FileSystem::Trusted, ..Home::at(directory.path()) };
    home.writer(Time(0)).unwrap()
}

fn note(detail: &str) -> Commit {
    Commit::Note { session: None, name: "noted", detail: detail.to_owned(), at: Time(1) }
}

fn noted(writer: &Writer) -> u64 {
    writer.counts().unwrap().iter().map(|(_, count)| count).sum()
}

fn set(writer: &Writer, pragma: &str) {
    writer.reader.conn.query_row(&format!("PRAGMA {pragma}"), [], |_| Ok(())).optional_ok();
}

trait OptionalOk {
    fn optional_ok(self);
}

impl OptionalOk for rusqlite::Result<()> {
    fn optional_ok(self) {
        use rusqlite::OptionalExtension;
        self.optional().unwrap();
    }
}

#[test]
fn p7_a_full_disk_fails_the_whole_batch_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    assert!(writer.commit(&[note("before")])[0].is_ok());
    let pages: i64 = writer.reader.conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    set(&writer, &format!("max_page_count = {}", pages + 2));
    let batch = [note("small"), note(&"large".repeat(10_000)), note("small, too")];
    for result in writer.commit(&batch) {
        let error = result.unwrap_err();
        assert!(matches!(&error, StoreError::Unwritable(why) if why.contains("full")), "{error}");
    }
    assert_eq!(noted(&writer), 1, "nothing of it was kept");
    // There is room again: the same connection goes on.
    set(&writer, "max_page_count = 1000000");
    assert!(writer.commit(&batch).iter().all(Result::is_ok));
    assert_eq!(noted(&writer), 4);
}

#[test]
fn a_disk_that_became_read_only_is_said_so_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    set(&writer, "query_only = ON");
    assert!(matches!(&writer.commit(&[note("x")])[0], Err(StoreError::Unwritable(_))));
    assert!(matches!(writer.boot(Time(0)), Err(StoreError::Unwritable(_))));
    set(&writer, "query_only = OFF");
    assert!(writer.commit(&[note("x")])[0].is_ok());
}

#[test]
fn a_lock_that_is_not_given_fails_every_member_as_busy() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    writer.reader.conn.busy_timeout(std::time::Duration::from_millis(1)).unwrap();
    let other = Connection::open(directory.path().join("state.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for result in writer.commit(&[note("a"), note("b")]) {
        assert!(matches!(result, Err(StoreError::Busy)));
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert!(writer.commit(&[note("a"), note("b")]).iter().all(Result::is_ok));
}

#[test]
fn an_empty_batch_is_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert!(writer(&directory).commit(&[]).is_empty());
}

#[test]
fn p7_what_is_acknowledged_is_synced_to_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    let pragma = |name: &str| -> i64 {
        writer.reader.conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((pragma("synchronous"), pragma("foreign_keys")), (2, 1));
}

#[test]
fn with_a_layer_of_its_own_the_file_is_this_process_alone() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home {
        database: directory.path().join("plain.db"),
        sessions: Some(directory.path().join("sessions")),
        scope: "scope".into(),
        filesystem: FileSystem::Checked,
        durability: Durability::Full,
        vfs: Some("unix".into()),
    };
    let mut writer = home.writer(Time(0)).unwrap();
    writer.projection.dirty = true;
    assert!(writer.commit(&[note("x")])[0].is_ok());
    writer.close(Time(1)).unwrap();
    assert!(!directory.path().join("sessions").exists(), "nothing but SQLite touches the disk");
    assert!(!directory.path().join("plain.db-shm").exists(), "the log's index is on the heap");
}
