use super::*;
use crate::open::{Durability, FileSystem};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use std::cell::Cell;
use tempfile::TempDir;
use throughline_core::input::{Birth, Chat, Destination, Kind};
use throughline_core::message::{Assistant, Content};
use throughline_core::prompt::{Head, Mark};
use throughline_core::session::{Act, Event, Phase, Rules, Session};
use throughline_core::turn::{Answer, Usage};

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

thread_local! {
    static STATEMENTS: Cell<usize> = const { Cell::new(0) };
}

/// What a commit costs is what it asks of SQLite.
fn statements(writer: &mut Writer, state: &mut Session, event: Event, first: Vec<Act>) -> usize {
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
    for (turn, costs) in [(0, (18, 18)), (1, (13, 18)), (2, (13, 18))] {
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
