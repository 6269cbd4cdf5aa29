//! A home as the program before wrote it: every stored form, read back as it was meant.
//!
//! `home-009.sql` is that home, at the ninth migration. It was made by playing the conformance world and by committing
//! one of everything that a column of JSON can hold. `home-009.txt` is what the program that wrote it read of it. To
//! accept another reading (a field that is new, a type with another name), run the test with `UPDATE_READING` set, and
//! read the difference.

use crate::home::{directory, writer};
use rusqlite::Connection;
use std::fmt::{Debug, Write as _};
use std::path::Path;
use throughline_core::id::{Seq, SessionId};
use throughline_core::port::Read;
use throughline_core::port::Store as _;
use throughline_core::session::Session;

fn session_ids(directory: &Path) -> Vec<SessionId> {
    let conn = Connection::open(directory.join("state.db")).unwrap();
    let mut statement = conn.prepare("SELECT id FROM tl_session ORDER BY id").unwrap();
    statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(|id| id.unwrap().parse().unwrap())
        .collect()
}

#[derive(Default)]
struct Reading(String);

impl Reading {
    fn line(&mut self, name: impl std::fmt::Display, found: &dyn Debug) {
        writeln!(self.0, "{name}: {found:?}").unwrap();
    }

    fn each<T: Debug>(&mut self, name: &str, found: &[T]) {
        for (nth, one) in found.iter().enumerate() {
            self.line(format_args!("{name} {nth}"), one);
        }
    }

    fn session(&mut self, store: &dyn Read, id: &SessionId) {
        let loaded = store.load(id).unwrap().unwrap();
        let received = loaded.session.received.0;
        self.line(format_args!("session {id}"), &loaded);
        for seq in (1..=received).map(Seq) {
            self.line(format_args!("input {id}/{seq}"), &store.input(id, seq).unwrap());
            self.line(format_args!("outcome {id}/{seq}"), &store.outcome(id, seq).unwrap());
        }
        self.each(&format!("row {id}"), &store.history(id).unwrap());
        let snapshots = store.snapshots(id).unwrap();
        self.each(&format!("snapshot {id}"), &snapshots);
        for snapshot in &snapshots {
            self.line(format_args!("view {}", snapshot.name), &store.snapshot(&snapshot.name).unwrap());
        }
        for review in &loaded.session.reviews.pending {
            self.line(
                format_args!("review {id}/{}", review.number),
                &store.review(id, review.number).unwrap(),
            );
        }
        self.line(format_args!("scope {id}"), &store.scope(id, "elsewhere").unwrap());
    }
}

/// Everything that the port tells of a home.
fn reading(store: &dyn Read, sessions: &[SessionId]) -> String {
    let mut reading = Reading::default();
    sessions.iter().for_each(|id| reading.session(store, id));
    reading.each("reply", &store.undelivered().unwrap());
    reading.each("draft", &store.drafts().unwrap());
    reading.each("retention", &store.unkept().unwrap());
    reading.each("reviewed", &store.reviews().unwrap());
    reading.each("question", &store.asks().unwrap());
    reading.each("held", &store.backlog().unwrap());
    reading.each("set aside", &store.parked().unwrap());
    reading.each("halted", &store.halted().unwrap());
    reading.each("unfinished", &store.unfinished().unwrap());
    reading.each("count", &store.counts().unwrap());
    reading.each("breach", &store.check().unwrap());
    stored(&reading.0)
}

/// What is stored of a session, as the program before showed it. A state that was loaded has nothing under way.
fn stored(reading: &str) -> String {
    let empty = format!("{:?}", Session::new("s".parse().unwrap()));
    let (_, under_way) = empty.split_once("waiting: []").unwrap();
    reading.replace("Session(SessionState {", "Session {").replace(under_way, " }")
}

#[test]
fn p15_what_the_program_before_wrote_is_read_as_it_was_meant() {
    let directory = directory();
    let conn = Connection::open(directory.path().join("state.db")).unwrap();
    conn.execute_batch(include_str!("home-009.sql")).unwrap();
    drop(conn);
    let found = reading(writer(directory.path()).reader(), &session_ids(directory.path()));
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/home-009.txt");
    if std::env::var_os("UPDATE_READING").is_some() {
        std::fs::write(&expected, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&expected).unwrap();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
