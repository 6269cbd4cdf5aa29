//! What a home is, and what becomes of one that is not.

use crate::home::*;
use rusqlite::Connection;
use std::fs;
use std::path::Path;
use throughline_core::input::Trace;
use throughline_core::message::ToolResult;
use throughline_core::port::{BrowseRead, SessionFilter, SessionRead, Store, WorkRead};
use throughline_core::prompt::Head;
use throughline_core::session::{Event, Phase, Session};
use throughline_core::turn::{Group, Slot};
use throughline_core::{Content, history};
use throughline_hermes::schema::{FRESH, VERSION};
use throughline_store::{Home, OpenError};

fn set_version(directory: &Path, version: i64) {
    Connection::open(directory.join("state.db"))
        .unwrap()
        .execute("UPDATE schema_version SET version = ?1", [version])
        .unwrap();
}

#[cfg(unix)]
#[test]
fn p31_what_was_said_is_in_files_of_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "hello");
    let sessions = home(directory.path()).sessions.unwrap();
    store.close(NOW).unwrap(); // writes what is for Hermes
    let database = ["state.db", "state.db-wal", "state.db-shm"].map(|name| directory.path().join(name));
    for file in database.into_iter().chain([sessions.join("sessions.json")]) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn p15_a_fresh_home_has_hermes_schema_to_the_letter_and_keeps_it() {
    let directory = directory();
    let mut store = writer(directory.path());
    let before = hermes_schema(directory.path());
    turn(&mut store, "a", Some(chat(1)), "hello");
    turn(&mut store, "b", None, "hello");
    store.close(NOW).unwrap();
    whole(&store);
    drop(store);
    drop(writer(directory.path()));
    assert_eq!(hermes_schema(directory.path()), before);
    let texts: Vec<&str> = before.iter().filter_map(|(_, sql)| sql.as_deref()).collect();
    let created = &FRESH[..FRESH.len() - 1];
    assert!(created.iter().all(|statement| texts.contains(statement)));
    let conn = hermes(directory.path());
    let version: i64 = conn.query_row("SELECT version FROM schema_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, VERSION);
}

#[test]
fn p15_a_home_of_schema_11_is_used_as_it_is() {
    let directory = schema_11();
    let before = hermes_schema(directory.path());
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "hello");
    store.close(NOW).unwrap();
    whole(&store);
    assert_eq!(hermes_schema(directory.path()), before);
    assert_eq!(said(&store, "a"), ["user: hello", "assistant: re: hello"]);
}

#[test]
fn every_schema_from_11_to_22_opens_and_others_get_a_clear_word() {
    for version in 9..=24 {
        let directory = schema_11();
        set_version(directory.path(), version);
        let opened = home(directory.path()).writer(NOW);
        let read = home(directory.path()).reader();
        match version {
            ..11 => {
                let error = opened.err().unwrap();
                assert!(matches!(error, OpenError::TooOld { .. }), "{error}");
                assert!(error.to_string().contains(&version.to_string()), "{error}");
                assert!(matches!(read.err().unwrap(), OpenError::TooOld { .. }));
            }
            11..=22 => drop((opened.unwrap(), read.unwrap())),
            _ => {
                let error = opened.err().unwrap();
                assert!(matches!(error, OpenError::TooNew { .. }), "{error}");
                assert!(error.to_string().contains(&version.to_string()), "{error}");
                assert!(read.unwrap().sessions(&SessionFilter::default()).unwrap().is_empty());
            }
        }
    }
}

#[test]
fn a_home_we_never_owned_can_be_read_and_is_not_changed() {
    let directory = schema_11();
    let conn = hermes(directory.path());
    hermes_begins(&conn, "old");
    hermes_says(&conn, "old", "user", "from long ago");
    drop(conn);
    let before = fs::read(directory.path().join("state.db")).unwrap();
    let reader = home(directory.path()).reader().unwrap();
    let loaded = reader.load(&id("old")).unwrap().unwrap();
    assert_eq!((loaded.session.generation.0, loaded.adopted), (0, 1));
    assert_eq!(reader.search("long", &SessionFilter::default()).unwrap().len(), 1);
    assert_eq!(reader.unfinished().unwrap(), []);
    assert_eq!(reader.check().unwrap(), [] as [String; 0]);
    let listed = reader.sessions(&SessionFilter::default()).unwrap();
    assert_eq!(listed[0].preview, "from long ago");
    drop(reader);
    assert_eq!(fs::read(directory.path().join("state.db")).unwrap(), before);
}

#[test]
fn what_is_not_hermes_store_is_never_overwritten() {
    type Case = (&'static str, fn(&Path), fn(&OpenError) -> bool);
    let cases: [Case; 4] = [
        (
            "text",
            |file| fs::write(file, "these are notes of mine, not a database").unwrap(),
            |error| matches!(error, OpenError::NotADatabase(_)),
        ),
        ("somebody else's", other_database, |error| matches!(error, OpenError::Foreign { .. })),
        ("truncated", truncated, |error| {
            matches!(error, OpenError::Damaged { .. } | OpenError::NotADatabase(_))
        }),
        ("without columns", lacking, |error| matches!(error, OpenError::Foreign { .. })),
    ];
    for (name, make, expected) in cases {
        let directory = directory();
        let file = directory.path().join("state.db");
        make(&file);
        let before = fs::read(&file).unwrap();
        for error in [home(directory.path()).writer(NOW).err(), home(directory.path()).reader().err()] {
            let error = error.unwrap_or_else(|| panic!("{name} was opened"));
            assert!(expected(&error), "{name}: {error:?}");
            assert!(error.to_string().contains("state.db"), "{name}: {error}");
        }
        assert_eq!(fs::read(&file).unwrap(), before, "{name}");
    }
}

fn other_database(file: &Path) {
    let conn = Connection::open(file).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')").unwrap();
}

fn lacking(file: &Path) {
    let conn = Connection::open(file).unwrap();
    conn.execute_batch(
        "CREATE TABLE schema_version (version INTEGER); INSERT INTO schema_version VALUES (22);
         CREATE TABLE sessions (id TEXT); CREATE TABLE messages (id INTEGER)",
    )
    .unwrap();
}

/// The first pages of a real one, as after a copy that ran out of space.
fn truncated(file: &Path) {
    let other = schema_11();
    let bytes = {
        let conn = hermes(other.path());
        conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE").unwrap();
        fs::read(other.path().join("state.db")).unwrap()
    };
    fs::write(file, &bytes[..4096 * 3 + 100]).unwrap();
}

#[test]
fn an_empty_file_becomes_a_home() {
    let directory = directory();
    fs::write(directory.path().join("state.db"), "").unwrap();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "hello");
    whole(&store);
}

#[test]
fn a_newer_owner_is_respected() {
    let directory = directory();
    drop(writer(directory.path()));
    hermes(directory.path()).execute("UPDATE tl_meta SET value = '99' WHERE key = 'schema'", []).unwrap();
    for error in [home(directory.path()).writer(NOW).err(), home(directory.path()).reader().err()] {
        assert!(matches!(error.unwrap(), OpenError::NewerOwner { found: 99, .. }));
    }
}

#[test]
fn nothing_to_read_is_said_so() {
    let directory = directory();
    let error = home(directory.path()).reader().err().unwrap();
    assert!(matches!(error, OpenError::Missing(_)), "{error}");
    assert!(!directory.path().join("state.db").exists());
}

#[test]
fn a_writer_is_durable_and_leaves_hermes_triggers_to_hermes() {
    for directory in [directory(), schema_11()] {
        let mut store = writer(directory.path());
        turn(&mut store, "a", None, "hello");
        let conn = hermes(directory.path());
        let count = |sql: &str| -> i64 { conn.query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(count("SELECT count(*) FROM messages_fts"), 0, "not indexed by a trigger");
        assert_eq!(count("SELECT count(*) FROM tl_unindexed"), 2);
        hermes_says(&conn, "a", "user", "from beside");
        assert_eq!(count("SELECT count(*) FROM messages_fts"), 1, "but Hermes' own rows are");
        let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}

#[test]
fn the_scope_of_routes_is_the_resolved_directory() {
    let directory = directory();
    let link = directory.path().join("link");
    let real = directory.path().join("real");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let expected = real.canonicalize().unwrap().join("sessions");
    assert_eq!(Home::at(&link).scope, expected.to_string_lossy());
    fs::create_dir(real.join("sessions")).unwrap();
    assert_eq!(Home::at(&link).scope, expected.to_string_lossy());
}

/// What Hermes added to its tables between schema 11 and 22, column by column.
const LATER_COLUMNS: [&str; 14] = [
    "messages ADD COLUMN platform_message_id TEXT",
    "messages ADD COLUMN observed INTEGER DEFAULT 0",
    "messages ADD COLUMN active INTEGER NOT NULL DEFAULT 1",
    "sessions ADD COLUMN session_key TEXT",
    "sessions ADD COLUMN chat_id TEXT",
    "sessions ADD COLUMN chat_type TEXT",
    "sessions ADD COLUMN thread_id TEXT",
    "messages ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0",
    "sessions ADD COLUMN display_name TEXT",
    "sessions ADD COLUMN origin_json TEXT",
    "sessions ADD COLUMN expiry_finalized INTEGER DEFAULT 0",
    "messages ADD COLUMN api_content TEXT",
    "sessions ADD COLUMN profile_name TEXT",
    "sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0",
];

#[test]
fn p15_what_a_home_can_do_is_decided_by_its_columns() {
    for count in 0..=LATER_COLUMNS.len() {
        let directory = schema_11();
        let conn = hermes(directory.path());
        for column in &LATER_COLUMNS[..count] {
            conn.execute_batch(&format!("ALTER TABLE {column}")).unwrap();
        }
        drop(conn);
        let mut store = writer(directory.path());
        turn(&mut store, "a", Some(chat(1)), "kestrel");
        turn(&mut store, "a", Some(chat(1)), "again");
        assert_eq!(said(&store, "a").len(), 4, "{count} columns");
        assert_eq!(store.reader().search("kestrel", &SessionFilter::default()).unwrap().len(), 2);
        assert_eq!(store.reader().sessions(&SessionFilter::default()).unwrap().len(), 1);
        store.close(NOW).unwrap();
        whole(&store);
    }
}

/// A home as the first release left it, in the middle of things.
fn first_release() -> tempfile::TempDir {
    let directory = directory();
    let conn = Connection::open(directory.path().join("state.db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    FRESH.iter().for_each(|statement| conn.execute_batch(statement).unwrap());
    conn.execute_batch(include_str!("../../src/migrations/001.sql")).unwrap();
    conn.execute_batch(include_str!("before-002.sql")).unwrap();
    directory
}

fn group(state: &Session) -> &Group {
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    turn.group.as_ref().unwrap()
}

#[test]
fn p15_a_home_of_the_first_release_goes_on_where_it_was() {
    let directory = first_release();
    let error = home(directory.path()).reader().err().unwrap();
    assert!(matches!(error, OpenError::OlderOwner(_)), "{error}");
    let mut store = writer(directory.path());
    whole(&store);
    let loaded = store.reader().load(&id("open")).unwrap().unwrap();
    assert_eq!((loaded.user.as_deref(), loaded.session.halted), (Some("u"), false));
    assert_eq!(loaded.last_prompt.unwrap().head, Head::default(), "it is unknown what stood before it");
    let mut state = loaded.session;
    let found =
        ToolResult { call_id: "c1".into(), name: Some("look".into()), content: Content::text("found") };
    assert_eq!(group(&state).slots, [Slot::Open(None), Slot::Done(found), Slot::Open(None)]);
    let again = store.reader().load(&id("again")).unwrap().unwrap().session;
    assert_eq!(group(&again).slots, [Slot::Open(None)]);
    assert_eq!(store.reader().asks().unwrap(), []);
    assert_eq!(store.reader().unfinished().unwrap(), [id("again"), id("open")]);
    assert!(store.reader().undelivered().unwrap().iter().all(|reply| reply.trace == Trace::default()));
    // What was done is not run again; the rest goes on as it does after any restart.
    happen(&mut store, &mut state, Event::Loaded { repeatable: vec![2] });
    assert_eq!(group(&state).slots[2], Slot::Open(None));
    let result = ToolResult { call_id: "c2".into(), name: None, content: Content::text("found, too") };
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let (turn, step) = (turn.id, turn.step);
    happen(&mut store, &mut state, Event::Called { turn, step, index: 2, result, sends: Vec::new() });
    answer(&mut store, &mut state, "done");
    let results = [history::OUTCOME_UNKNOWN, "found", "found, too"].map(|text| format!("tool: {text}"));
    assert_eq!(said(&store, "open")[4..7], results);
    turn_in(&mut store, "plain");
    store.close(NOW).unwrap();
    whole(&store);
    drop(store);
    drop(writer(directory.path())); // applied once
}

fn turn_in(store: &mut dyn Store, session: &str) {
    turn(store, session, Some(chat(9)), "and now?");
}

#[test]
fn a_migration_that_is_cut_short_leaves_the_home_as_it_was() {
    let directory = first_release();
    let conn = hermes(directory.path());
    // The last statement of it will fail: this name is taken.
    conn.execute_batch("ALTER TABLE tl_outbox ADD COLUMN trace TEXT").unwrap();
    let before = our_schema(&conn);
    assert!(home(directory.path()).writer(NOW).is_err());
    assert_eq!(our_schema(&conn), before);
    conn.execute_batch("ALTER TABLE tl_outbox DROP COLUMN trace").unwrap();
    whole(&writer(directory.path()));
}

fn our_schema(conn: &Connection) -> Vec<(String, Option<String>)> {
    let sql = "SELECT name, sql FROM sqlite_master WHERE tbl_name LIKE 'tl\\_%' ESCAPE '\\' ORDER BY rowid";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}
