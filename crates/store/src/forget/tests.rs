use super::decisions::{DECISIONS, Fate};
use crate::Home;
use rusqlite::Connection;
use std::collections::BTreeSet;
use throughline_core::time::Time;

/// Tables that SQLite makes by itself: the parts of the search index, and its counters.
fn is_of_sqlite(table: &str) -> bool {
    let parts = ["_data", "_idx", "_content", "_docsize", "_config"];
    let is_part = |index: &str| table.strip_prefix(index).is_some_and(|rest| parts.contains(&rest));
    table.starts_with("sqlite_") || is_part("messages_fts") || is_part("messages_fts_trigram")
}

/// Every table of a home with the columns that may hold text or bytes.
fn texts(conn: &Connection) -> BTreeSet<(String, String)> {
    let sql =
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'
               AND c.type NOT IN ('INTEGER', 'REAL')";
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    columns.map(Result::unwrap).filter(|(table, _): &(String, String)| !is_of_sqlite(table)).collect()
}

fn tables(conn: &Connection) -> BTreeSet<String> {
    let mut statement = conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).filter(|table: &String| !is_of_sqlite(table)).collect()
}

/// Homes as they come about: a fresh one, and one that the oldest Hermes made and we took over, with the tables that
/// Hermes makes only when a chat uses topics.
fn homes() -> Vec<(tempfile::TempDir, Connection)> {
    let topics = "CREATE TABLE telegram_dm_topic_mode (chat_id TEXT PRIMARY KEY, user_id TEXT NOT NULL,
            enabled INTEGER NOT NULL DEFAULT 1, activated_at REAL NOT NULL, updated_at REAL NOT NULL,
            has_topics_enabled INTEGER, allows_users_to_create_topics INTEGER, capability_checked_at REAL,
            intro_message_id TEXT, pinned_message_id TEXT);
        CREATE TABLE telegram_dm_topic_bindings (chat_id TEXT NOT NULL, thread_id TEXT NOT NULL,
            user_id TEXT NOT NULL, session_key TEXT NOT NULL,
            session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
            managed_mode TEXT NOT NULL DEFAULT 'auto', linked_at REAL NOT NULL, updated_at REAL NOT NULL,
            PRIMARY KEY (chat_id, thread_id));";
    let adopted = format!("{}{topics}", include_str!("../../tests/store/schema-11.sql"));
    ["", &adopted]
        .into_iter()
        .map(|schema| {
            let directory = tempfile::tempdir().unwrap();
            let home = Home::at(directory.path());
            Connection::open(&home.database).unwrap().execute_batch(schema).unwrap();
            drop(home.writer(Time(1)).unwrap());
            let conn = Connection::open(&home.database).unwrap();
            (directory, conn)
        })
        .collect()
}

#[test]
fn p31_forgetting_has_a_decision_about_every_table_and_every_column_that_holds_text() {
    let decided: BTreeSet<(String, String)> = DECISIONS
        .iter()
        .flat_map(|decision| {
            decision.texts.iter().map(|text| (decision.table.to_owned(), (*text).to_owned()))
        })
        .collect();
    let known: BTreeSet<String> = DECISIONS.iter().map(|decision| decision.table.to_owned()).collect();
    let explained = |fate: Fate| !matches!(fate, Fate::Stays(why) | Fate::GoesWith(_, why) if why.is_empty());
    assert!(DECISIONS.iter().all(|decision| explained(decision.fate)));
    let mut seen = BTreeSet::new();
    for (_directory, conn) in homes() {
        let undecided: Vec<_> = tables(&conn).difference(&known).cloned().collect();
        assert!(undecided.is_empty(), "forget/decisions.rs says nothing about the tables {undecided:?}");
        let undecided: Vec<_> = texts(&conn).difference(&decided).cloned().collect();
        assert!(undecided.is_empty(), "forget/decisions.rs says nothing about the columns {undecided:?}");
        seen.extend(tables(&conn));
    }
    let unknown: Vec<_> = known.difference(&seen).collect();
    assert!(unknown.is_empty(), "forget/decisions.rs decides about tables that no home has: {unknown:?}");
}

fn home_of_two() -> (tempfile::TempDir, crate::StoreWriter) {
    let directory = tempfile::tempdir().unwrap();
    let writer = Home::at(directory.path()).writer(Time(1)).unwrap();
    writer
        .reader
        .conn
        .execute_batch(
            "INSERT INTO sessions (id, source, user_id, chat_type, started_at, message_count, parent_session_id)
             VALUES ('a', 'telegram', '1', 'dm', 1, 1, NULL), ('b', 'telegram', '2', 'dm', 2, 1, 'a');
             INSERT INTO messages (id, session_id, role, content, timestamp)
             VALUES (1, 'a', 'user', 'quokka', 1), (2, 'b', 'user', 'tea', 1);
             INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created, updated, scope)
             VALUES ('a/1', 'hindsight', 'a', 'a', 1, 1, 2, 1, 1,
                     '{\"agent\":\"ada\",\"session\":\"a\",\"platform\":\"telegram\",\"user\":\"1\",\"title\":\"quokka\"}');
             INSERT INTO tl_unindexed VALUES (1), (2);
             INSERT INTO tl_seen VALUES (tl_digest('t|a|1'), 'a', 1, NULL);",
        )
        .unwrap();
    (directory, writer)
}

fn forget(writer: &mut crate::StoreWriter, kind: super::SubjectKind, name: &str) -> i64 {
    let subject = writer.reader.subject(kind, name).unwrap();
    let plan = writer.reader.plan(&subject).unwrap();
    let outside = Default::default();
    let order = super::ForgetOrder {
        now: Time(9),
        work: "{}",
        outside: &outside,
        provider: Some("hindsight"),
        agent: "ada",
    };
    writer.forget(&plan, &order).unwrap()
}

#[test]
fn p31_forgetting_leaves_a_durable_job_for_the_provider_and_the_job_leaves_nothing() {
    use throughline_core::memory::RetentionChange;
    use throughline_core::port::{Commit, Store};
    let (_directory, mut writer) = home_of_two();
    let number = forget(&mut writer, super::SubjectKind::Person, "telegram:1");
    let due = writer.reader.due_retentions("hindsight").unwrap();
    assert_eq!(due.len(), 1, "{due:?}");
    let erasure = due[0].erasure().expect("it deletes");
    assert_eq!((erasure.scope.session.as_str(), &*erasure.scope.agent, erasure.turns.len()), ("a", "ada", 0));
    assert_eq!(erasure.scope.title, None, "what it was called is not needed");
    for change in [RetentionChange::Attempting, RetentionChange::Kept] {
        let commit = Commit::Retention { key: due[0].retention.key.clone(), change, at: Time(10) };
        writer.commit(&[commit]).remove(0).unwrap();
    }
    let count = |sql: &str| -> i64 { writer.reader.conn.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM tl_retention"), 0);
    assert_eq!(count("SELECT count(*) FROM sessions WHERE id = 'b' AND parent_session_id IS NULL"), 1);
    assert_eq!(count("SELECT count(*) FROM messages"), 1);
    let seen = writer.reader.unfinished_forgettings().unwrap();
    assert_eq!(seen, [super::Forgetting { number, work: Some("{}".to_owned()) }]);
    assert_eq!(writer.reader.broken().unwrap().len(), 0);
}

#[test]
fn p31_forgotten_words_are_in_no_page_of_the_file_or_its_log() {
    let (directory, mut writer) = home_of_two();
    // What a compression put aside lies under a name of its own.
    writer
        .reader
        .conn
        .execute_batch(
            "INSERT INTO sessions (id, source, started_at) VALUES ('a.snapshot.20260101T000000000000Z', 'telegram', 1);
             INSERT INTO messages (id, session_id, role, content, timestamp)
             VALUES (3, 'a.snapshot.20260101T000000000000Z', 'user', 'an earlier quokka', 1);
             INSERT INTO tl_snapshot (name, session, view, at, after, cut, upto, rows, summary, kind, messages_before,
                                      messages_after, tokens_before, tokens_after)
             VALUES ('a.snapshot.20260101T000000000000Z', 'a', 1, 1, 0, 3, 3, '[3]', '[]', 'summary', 1, 1, 1, 1);",
        )
        .unwrap();
    let number = forget(&mut writer, super::SubjectKind::Session, "a");
    writer.forgotten_outside(number).unwrap();
    writer.scrub(Time(10)).unwrap();
    writer.forgotten(number, Time(10)).unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(6).any(|at| at == b"quokka");
        assert!(!found, "{}", entry.path().display());
    }
    let receipt = &writer.reader.receipts().unwrap()[0];
    assert_eq!((receipt.done, receipt.kind.as_str(), receipt.subject.len()), (Some(Time(10)), "session", 64));
    assert!(writer.reader.unfinished_forgettings().unwrap().is_empty());
}

#[test]
fn p2_keys_that_were_seen_become_digests_once() {
    use throughline_core::port::SessionRead;
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    drop(home.writer(Time(1)).unwrap());
    let conn = Connection::open(&home.database).unwrap();
    conn.execute_batch(
        "INSERT INTO tl_seen VALUES ('t|a|1', 'a', 0, NULL); UPDATE tl_meta SET value = '8' WHERE key = 'schema';
         DROP TABLE tl_forgetting; ALTER TABLE tl_retention DROP COLUMN erases;",
    )
    .unwrap();
    drop(conn);
    for _ in 0..2 {
        let writer = home.writer(Time(2)).unwrap();
        let key: String =
            writer.reader.conn.query_row("SELECT key FROM tl_seen", [], |row| row.get(0)).unwrap();
        assert_eq!(key, crate::seen::seen_as("t|a|1"));
        assert!(writer.reader.seen(&throughline_core::input::DedupeKey::stored("t|a|1")).unwrap().is_some());
    }
}

/// A chat in which telegram:1 and telegram:2 write. The first gave it its title and a topic; a summary is ready.
fn home_with_a_shared_chat() -> (tempfile::TempDir, crate::StoreWriter) {
    let directory = tempfile::tempdir().unwrap();
    let writer = Home::at(directory.path()).writer(Time(1)).unwrap();
    let said = |seq: i64, user: &str, what: &str| {
        format!(
            "('g', {seq}, 1, 2, {seq}, {seq}, {seq}, 0, '{{\"key\":\"k{seq}\",{what},\"sender\":[\"{user}\",\"N\"],
               \"reply_to\":{{\"platform\":\"telegram\",\"account\":\"b\",\"chat\":\"-1\"}}}}')"
        )
    };
    let inbox = [
        said(1, "1", "\"chat\":\"quokka one\""),
        said(2, "2", "\"chat\":\"tea\""),
        said(3, "1", "\"command\":{\"errand\":\"title\",\"text\":\"the quokka\"}"),
        said(4, "1", "\"command\":{\"compress\":\"quokka topic\",\"keep\":null,\"preview\":false}"),
    ];
    let summary = "{\"after\":0,\"kept\":[],\"summary\":\"quokka summary\"}";
    writer
        .reader
        .conn
        .execute_batch(&format!(
            "INSERT INTO sessions (id, source, user_id, chat_type, started_at, message_count, title)
             VALUES ('g', 'telegram', '1', 'group', 1, 2, 'the quokka');
             INSERT INTO messages (id, session_id, role, content, timestamp)
             VALUES (1, 'g', 'user', 'quokka one', 1), (2, 'g', 'user', 'tea', 1);
             INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps,
                                     last_row, adopted, touched, compression)
             VALUES ('g', 1, 1, 1, 4, 4, 0, 0, 0, 2, 0, 1, 1);
             INSERT INTO tl_inbox (session, seq, at, state, turn, message, step, written, envelope) VALUES {};
             INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at, summary,
                                         cause, focus, began, messages, tokens)
             VALUES ('g', 1, 1, 1, 2, 1, 1, 1, '{summary}', 0, 'quokka topic', 1, 2, 2);
             INSERT INTO tl_review (session, number, subject, state, turn, step, view, last_row, due, tries, lost,
                                    not_before, settled, outcome)
             VALUES ('g', 1, 'memory', 1, 2, 1, 1, 2, 1, 1, 0, 0, 1, 'noted quokka');",
            inbox.join(", ")
        ))
        .unwrap();
    (directory, writer)
}

fn one(writer: &crate::StoreWriter, sql: &str) -> Option<String> {
    writer.reader.conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn p31_what_was_made_of_a_forgotten_persons_words_in_a_shared_chat_is_made_again() {
    let (_directory, mut writer) = home_with_a_shared_chat();
    forget(&mut writer, super::SubjectKind::Person, "telegram:1");
    let operation = "SELECT state || ' ' || attempts || ' ' || (summary IS NULL) || ' ' || (focus IS NULL) FROM tl_compression";
    assert_eq!(one(&writer, operation).unwrap(), "0 0 1 1", "it is prepared again, without the topic");
    assert_eq!(one(&writer, "SELECT CAST(unfinished AS TEXT) FROM tl_session").unwrap(), "1");
    assert_eq!(one(&writer, "SELECT title FROM sessions"), None, "who gave it is forgotten");
    assert_eq!(one(&writer, "SELECT outcome FROM tl_review"), None);
    assert_eq!(one(&writer, "SELECT content FROM messages WHERE id = 2").unwrap(), "tea");
    assert_eq!(one(&writer, "SELECT content FROM messages WHERE id = 1").unwrap(), super::REMOVED);
}

#[test]
fn p31_a_title_that_another_person_gave_and_a_summary_of_what_came_before_stay() {
    let (_directory, mut writer) = home_with_a_shared_chat();
    writer
        .reader
        .conn
        .execute_batch(
            "UPDATE tl_inbox SET envelope = replace(envelope, '[\"1\"', '[\"2\"') WHERE seq IN (3, 4);
             UPDATE tl_inbox SET message = 9 WHERE seq = 1; UPDATE messages SET id = 9 WHERE id = 1;",
        )
        .unwrap();
    forget(&mut writer, super::SubjectKind::Person, "telegram:1");
    let operation = "SELECT state || ' ' || (summary IS NULL) || ' ' || (focus IS NULL) FROM tl_compression";
    assert_eq!(one(&writer, operation).unwrap(), "1 0 0", "its cut lies before what the person said");
    assert_eq!(one(&writer, "SELECT title FROM sessions").unwrap(), "the quokka");
}

#[test]
fn p31_a_title_that_hermes_made_goes_with_the_person_who_spoke_first_and_with_no_other() {
    for (user, title) in [("1", None), ("2", Some("the quokka"))] {
        let (_directory, mut writer) = home_with_a_shared_chat();
        writer.reader.conn.execute("DELETE FROM tl_inbox WHERE seq = 3", []).unwrap();
        forget(&mut writer, super::SubjectKind::Person, &format!("telegram:{user}"));
        assert_eq!(one(&writer, "SELECT title FROM sessions").as_deref(), title, "{user}");
    }
}
