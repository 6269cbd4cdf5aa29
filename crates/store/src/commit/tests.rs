use super::*;
use crate::open::{Durability, FileSystem};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use std::cell::Cell;
use std::sync::Arc;
use tempfile::TempDir;
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Input, Kind};
use throughline_core::message::{Assistant, Content};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Act, Event, Phase, Rules, Session};
use throughline_core::turn::{Answer, Usage};

fn writer(directory: &TempDir) -> StoreWriter {
    let home = Home { filesystem: FileSystem::Trusted, ..Home::at(directory.path()) };
    home.writer(Time(0)).unwrap()
}

fn note(detail: &str) -> Commit {
    Commit::Note { session: None, name: "noted", detail: detail.to_owned(), at: Time(1) }
}

fn noted(writer: &StoreWriter) -> u64 {
    writer.reader().counts().unwrap().iter().map(|(_, count)| count).sum()
}

fn set(writer: &StoreWriter, pragma: &str) {
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
fn a_close_leaves_the_index_to_the_next_start_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let conn = &writer.reader.conn;
    conn.execute_batch(
        "BEGIN; INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1.0);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO messages (id, session_id, role, content, timestamp) SELECT i, 's', 'user', 'word' || i, i FROM n;
         INSERT INTO tl_unindexed (id) SELECT id FROM messages; COMMIT",
    )
    .unwrap();
    let mut asked = 0;
    let mut go_on = || {
        asked += 1;
        asked <= 2
    };
    let closed = writer.close_while(Time(1), &mut go_on).unwrap();
    assert!(closed.unindexed > 2_000 && closed.unindexed < 5_000, "{closed:?}");
    drop(writer);
    let mut writer = self::writer(&directory);
    while writer.tend(Time(2)).unwrap().more {}
    let count = |table: &str| -> i64 {
        writer.reader.conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!(
        (count("tl_unindexed"), count("messages_fts"), count("messages_fts_trigram")),
        (0, 5_000, 5_000)
    );
}

fn refused(writer: &mut StoreWriter) -> String {
    match writer.commit(&[note("refused")]).remove(0) {
        Err(StoreError::Unwritable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[cfg(unix)]
#[test]
fn p7_nothing_is_acknowledged_that_went_to_a_deleted_database() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    assert!(writer.commit(&[note("before")])[0].is_ok());
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        std::fs::remove_file(directory.path().join(file)).unwrap();
    }
    let why = refused(&mut writer);
    let path = directory.path().join("state.db").display().to_string();
    assert!(why.contains(&path) && why.contains("deleted") && why.contains("backup"), "{why}");
    // Also where nothing is written, and when another file has its name.
    assert!(matches!(writer.tend(Time(1)), Err(StoreError::Unwritable(_))));
    let other = tempfile::tempdir().unwrap();
    drop(self::writer(&other));
    std::fs::copy(other.path().join("state.db"), directory.path().join("state.db")).unwrap();
    let why = refused(&mut writer);
    assert!(why.contains("replaced"), "{why}");
    assert!(matches!(writer.close(Time(1)), Err(StoreError::Unwritable(_))));
    // What is there now is left alone by the writer that lets go.
    drop(writer);
    let fresh = self::writer(&directory);
    assert_eq!(noted(&fresh), 0);
}

#[cfg(unix)]
#[test]
fn a_home_that_was_moved_away_is_written_again_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let store = Home { filesystem: FileSystem::Trusted, ..Home::at(&home) };
    let mut writer = store.writer(Time(0)).unwrap();
    assert!(writer.commit(&[note("before")])[0].is_ok());
    std::fs::rename(&home, directory.path().join("elsewhere")).unwrap();
    refused(&mut writer);
    let file = writer.file().unwrap();
    assert!(matches!(store.writer_of(file, Time(1)), Err(crate::open::OpenError::Displaced(_))));
    assert!(!home.exists(), "nothing is made in its place");
    std::fs::rename(directory.path().join("elsewhere"), &home).unwrap();
    assert!(writer.commit(&[note("after")])[0].is_ok());
    assert_eq!(noted(&writer), 2, "what was refused was not written");
}

#[cfg(unix)]
#[test]
fn p7_what_is_deleted_during_a_commit_is_not_acknowledged_and_nothing_more_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let (path, away) = (directory.path().join("state.db"), directory.path().join("away"));
    let (from, to) = (path.clone(), away.clone());
    // Between the commit and its acknowledgement.
    writer
        .reader
        .conn
        .commit_hook(Some(move || {
            std::fs::rename(&from, &to).unwrap();
            false
        }))
        .unwrap();
    refused(&mut writer);
    writer.reader.conn.commit_hook(None::<fn() -> bool>).unwrap();
    std::fs::rename(&away, &path).unwrap();
    // Whether it stands is unknown to the caller: one that tries again must not have it twice.
    refused(&mut writer);
    drop(writer);
    assert!(self::writer(&directory).commit(&[note("after")])[0].is_ok());
}

#[cfg(unix)]
#[test]
fn p7_what_a_deleted_log_held_is_in_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    assert!(writer.commit(&[note("before")])[0].is_ok());
    std::fs::remove_file(directory.path().join("state.db-wal")).unwrap();
    let why = refused(&mut writer);
    assert!(why.contains("state.db-wal"), "{why}");
    // As it is after a kill: nothing was closed.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(directory.path().join("state.db"), copy.path().join("state.db")).unwrap();
    assert_eq!(noted(&self::writer(&copy)), 1);
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

thread_local! {
    static STATEMENTS: Cell<usize> = const { Cell::new(0) };
}

/// What a commit costs is what it asks of SQLite.
fn statements(writer: &mut StoreWriter, state: &mut Session, event: Event, first: Vec<Act>) -> usize {
    let (next, acts) = state.step(event, Time(2), &Rules::default());
    let acts = first.into_iter().chain(acts).collect();
    let commit =
        Commit::Session { expect: state.generation, state: Box::new(next.clone()), acts, at: Time(2) };
    let counted = |_: TraceEvent<'_>| STATEMENTS.set(STATEMENTS.get() + 1);
    writer.reader.conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(counted)).unwrap();
    STATEMENTS.set(0);
    writer.commit(&[commit]).remove(0).unwrap();
    *state = next;
    STATEMENTS.get()
}

/// The numbers of the first release, which knew of no calls that ask, no budgets and no chains.
#[test]
fn a_plain_turn_costs_no_statement_more_than_it_did() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let mut state = Session::new("s".parse().unwrap());
    // The birth of a session also asks whether an earlier one had its name (P24): one statement of the first turn.
    for (turn, costs) in [(0, (19, 18)), (1, (13, 18)), (2, (13, 18))] {
        let chat = Chat {
            key: "agent:main:telegram:dm:1".parse().unwrap(),
            platform: "telegram".into(),
            chat_type: "dm".into(),
            display_name: None,
            origin: None,
        };
        let birth = Birth { source: "telegram".into(), chat: Some(chat), ..Birth::default() };
        let first = if turn == 0 { vec![Act::Open(Box::new(birth))] } else { Vec::new() };
        let input = Input {
            seq: state.received.next(),
            at: Time(1),
            key: DedupeKey::of(&["t", &turn.to_string()]),
            kind: Kind::Chat(Content::text("hello")),
            reply_to: Some(Destination {
                platform: "telegram".into(),
                account: "bot".into(),
                chat: "1".into(),
                thread: None,
                reply_to: None,
            }),
            sender: None,
            platform_id: Some("77".into()),
            trace: Default::default(),
            left: None,
        };
        let received = statements(&mut writer, &mut state, Event::Received(Arc::new(input)), first);
        let Phase::Turn(running) = &state.phase else { panic!("{state:?}") };
        let said = Assistant { content: Content::text("hi"), ..Assistant::default() };
        let usage = Usage { input: 10, output: 2, ..Usage::default() };
        let event = Event::Answered {
            turn: running.id,
            step: running.step,
            answer: Answer { said, usage, model: "m".into() },
            prompt: Mark {
                chain: Digest::of(&[b"x"]),
                messages: 1,
                head: Head { model: 1, tools: 2, system: 3 },
            },
            full: false,
        };
        let answered = statements(&mut writer, &mut state, event, Vec::new());
        assert_eq!((received, answered), costs, "turn {turn}");
    }
}
