//! Homes for tests, Hermes' hand in them, and plain turns.

use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Input, Kind, Trace};
use throughline_core::message::Assistant;
use throughline_core::port::{Commit, Committed, Store, StoreError};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Act, Event, Phase, Rules, Session};
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Content, JsonText, SessionId, Time};
use throughline_store::{FileSystem, Home, StoreWriter};

pub const NOW: Time = Time(1_763_240_000_000_000);

pub fn home(directory: &Path) -> Home {
    // Tests run wherever there is room for them; nothing here outlives the process.
    Home { filesystem: FileSystem::Trusted, ..Home::at(directory) }
}

pub fn writer(directory: &Path) -> StoreWriter {
    home(directory).writer(NOW).unwrap()
}

pub fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// As Hermes 0.14.0 makes one.
pub fn schema_11() -> TempDir {
    let directory = directory();
    let conn = Connection::open(directory.path().join("state.db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    conn.execute_batch(include_str!("schema-11.sql")).unwrap();
    directory
}

/// As Hermes' releases between had it: rows can be taken back, but not compacted.
pub fn schema_16() -> TempDir {
    let directory = schema_11();
    let conn = Connection::open(directory.path().join("state.db")).unwrap();
    conn.execute_batch(
        "ALTER TABLE messages ADD COLUMN platform_message_id TEXT;
         ALTER TABLE messages ADD COLUMN observed INTEGER DEFAULT 0;
         ALTER TABLE messages ADD COLUMN active INTEGER NOT NULL DEFAULT 1;
         UPDATE schema_version SET version = 16",
    )
    .unwrap();
    directory
}

/// The database as Hermes has it open: a connection of its own, triggers and all.
pub fn hermes(directory: &Path) -> Connection {
    let conn = Connection::open(directory.join("state.db")).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = ON").unwrap();
    conn
}

/// `SessionDB.create_session`.
pub fn hermes_begins(conn: &Connection, session: &str) {
    let sql = "INSERT INTO sessions (id, source, started_at) VALUES (?1, 'cli', 1763230000.0)";
    conn.execute(sql, [session]).unwrap();
}

/// `SessionDB.append_message`.
pub fn hermes_says(conn: &Connection, session: &str, role: &str, text: &str) -> i64 {
    let sql = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, ?2, ?3, 1763230001.5)";
    conn.execute(sql, params![session, role, text]).unwrap();
    let row = conn.last_insert_rowid();
    conn.execute("UPDATE sessions SET message_count = message_count + 1 WHERE id = ?1", [session]).unwrap();
    row
}

pub fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

pub fn chat(number: u32) -> Chat {
    Chat {
        key: format!("agent:main:telegram:dm:{number}").parse().unwrap(),
        platform: "telegram".into(),
        chat_type: "dm".into(),
        display_name: Some("Ada".into()),
        origin: Some(JsonText::from_valid(format!(
            "{{\"platform\": \"telegram\", \"chat_id\": \"{number}\", \"chat_name\": \"Ada\", \"chat_type\": \"dm\"}}"
        ))),
    }
}

/// One plain turn: a message and its answer, by an owner that loads the session first.
pub fn turn(store: &mut dyn Store, session: &str, chat: Option<Chat>, text: &str) {
    let mut state = receive(store, session, chat, text);
    answer(store, &mut state, text);
}

/// The second half.
pub fn answer(store: &mut dyn Store, state: &mut Session, text: &str) -> Committed {
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let said = Assistant { content: Content::text(format!("re: {text}")), ..Assistant::default() };
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let prompt = Mark { chain: Digest::of(&[text.as_bytes()]), messages: 1, head: Head::default() };
    let answer = Answer { said, usage, model: "model-1".into() };
    let event = Event::Answered { turn: turn.id, step: turn.step, answer, prompt, full: false };
    happen(store, state, event)
}

/// A session that begins like this, with one message in it.
pub fn begin(store: &mut dyn Store, session: &str, birth: Birth) -> Session {
    let mut state = Session::new(id(session));
    let input = next_input(&state, "begin");
    let (next, more) = state.step(Event::Received(Arc::new(input)), NOW, &Rules::default());
    let acts = std::iter::once(Act::Open(Box::new(birth))).chain(more).collect();
    commit(store, &mut state, next, acts).unwrap();
    state
}

/// The first half of a turn.
pub fn receive(store: &mut dyn Store, session: &str, chat: Option<Chat>, text: &str) -> Session {
    let loaded = store.reader().load(&id(session)).unwrap();
    let mut acts = Vec::new();
    let reply_to = chat.as_ref().map(|chat| Destination {
        platform: chat.platform.clone(),
        account: "bot".into(),
        chat: chat.key.to_string(),
        thread: None,
        reply_to: None,
    });
    if loaded.is_none() {
        let source = if chat.is_some() { "telegram" } else { "api_server" }.to_owned();
        acts.push(Act::Open(Box::new(Birth { source, chat, ..Birth::default() })));
    }
    let mut state = loaded.map_or_else(|| Session::new(id(session)), |loaded| loaded.session);
    let (owned, more) = state.step(Event::Loaded { repeatable: Vec::new() }, NOW, &Rules::default());
    acts.extend(more);
    let input = Input { reply_to, ..next_input(&owned, text) };
    let (next, more) = owned.step(Event::Received(Arc::new(input)), NOW, &Rules::default());
    acts.extend(more);
    commit(store, &mut state, next, acts).unwrap();
    state
}

pub fn next_input(state: &Session, text: &str) -> Input {
    let seq = state.received.next();
    Input {
        seq,
        at: NOW,
        key: DedupeKey::of(&["test", state.id.as_str(), &seq.to_string()]),
        kind: Kind::Chat(Content::text(text)),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    }
}

pub fn happen(store: &mut dyn Store, state: &mut Session, event: Event) -> Committed {
    try_happen(store, state, event).unwrap()
}

pub fn try_happen(store: &mut dyn Store, state: &mut Session, event: Event) -> Result<Committed, StoreError> {
    let (next, acts) = state.step(event, NOW, &Rules::default());
    commit(store, state, next, acts)
}

/// What a step takes up is committed whole, as any shell does it.
fn read_texts(store: &dyn Store, next: &mut Session, acts: &mut Vec<Act>) {
    let mut read = BTreeMap::new();
    for seq in next.unread(acts) {
        let accepted = acts.iter().find_map(|act| match act {
            Act::Accept(input) if input.seq == seq => Some(input.clone()),
            _ => None,
        });
        let stored = || store.reader().input(&next.id, seq).unwrap();
        read.insert(seq, accepted.or_else(stored).unwrap());
    }
    next.take_in_whole(&read, NOW, &Rules::default(), acts);
}

fn commit(
    store: &mut dyn Store,
    state: &mut Session,
    mut next: Session,
    mut acts: Vec<Act>,
) -> Result<Committed, StoreError> {
    read_texts(store, &mut next, &mut acts);
    let expect = state.generation;
    let commit = Commit::Session { expect, state: Box::new(next.clone()), acts, at: NOW };
    let committed = store.commit(&[commit]).remove(0)?;
    *state = next;
    Ok(committed)
}

pub fn said(store: &dyn Store, session: &str) -> Vec<String> {
    let history = store.reader().history(&id(session)).unwrap();
    history.iter().map(|(_, message)| format!("{}: {}", message.role(), message.content().plain())).collect()
}

pub fn whole(store: &dyn Store) {
    assert_eq!(store.reader().check().unwrap(), [] as [String; 0]);
}

/// Every text of Hermes' own in `sqlite_master`.
pub fn hermes_schema(directory: &Path) -> Vec<(String, Option<String>)> {
    let conn = Connection::open(directory.join("state.db")).unwrap();
    let sql = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'tl\\_%' ESCAPE '\\'
               AND tbl_name NOT LIKE 'tl\\_%' ESCAPE '\\' ORDER BY rowid";
    let mut statement = conn.prepare(sql).unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}
