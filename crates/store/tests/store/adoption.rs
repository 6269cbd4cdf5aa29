//! What Hermes wrote while we were away, or writes beside us.

use crate::home::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use throughline_core::id::ChatKey;
use throughline_core::input::Birth;
use throughline_core::memory::{Filing, Naming, RetentionChange, Scope};
use throughline_core::port::{BrowseRead, Commit, SessionFilter, Store, StoreError};
use throughline_core::session::{Act, Event, Finalisation, Kept, Phase, Session, SessionState};
use throughline_core::{Generation, Seq, SessionId, Time, TurnId};

fn key(number: u32) -> ChatKey {
    chat(number).key
}

/// An entry as Hermes writes it, with what a test wants to say in it.
fn entry(number: u32, session: &str, more: &str) -> String {
    format!(
        "{{\"session_key\": \"{}\", \"session_id\": \"{session}\", \"created_at\": \"2025-11-15T21:17:00\", \
         \"updated_at\": \"2025-11-15T21:18:03.120456\", \"platform\": \"telegram\", \"chat_type\": \"dm\"{more}}}",
        key(number)
    )
}

fn put_in_table(directory: &Path, number: u32, text: &str) {
    let scope = home(directory).scope;
    let sql = "INSERT OR REPLACE INTO gateway_routing VALUES (?1, ?2, ?3, 1763230000.0)";
    hermes(directory).execute(sql, [scope.as_str(), key(number).as_str(), text]).unwrap();
}

fn put_in_file(directory: &Path, entries: &[(u32, String)]) {
    let sessions = directory.join("sessions");
    fs::create_dir_all(&sessions).unwrap();
    let members: Vec<_> = entries.iter().map(|(n, entry)| format!("\"{}\": {entry}", key(*n))).collect();
    fs::write(sessions.join("sessions.json"), format!("{{{}}}", members.join(", "))).unwrap();
}

fn end(directory: &Path, session: &str, reason: &str) {
    let sql = "UPDATE sessions SET ended_at = 1763230005.0, end_reason = ?2 WHERE id = ?1";
    hermes(directory).execute(sql, [session, reason]).unwrap();
}

#[test]
fn p15_rows_that_hermes_added_are_part_of_the_conversation() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "one");
    store.close(NOW).unwrap();
    drop(store);
    let conn = hermes(directory.path());
    hermes_says(&conn, "a", "user", "two");
    hermes_says(&conn, "a", "assistant", "re: two");
    drop(conn);

    let mut store = writer(directory.path());
    assert_eq!(store.reader().load(&id("a")).unwrap().unwrap().adopted, 2);
    turn(&mut store, "a", None, "three");
    assert_eq!(store.reader().load(&id("a")).unwrap().unwrap().adopted, 0, "known from now on");
    let all =
        ["one", "two", "three"].iter().flat_map(|t| [format!("user: {t}"), format!("assistant: re: {t}")]);
    assert_eq!(said(&store, "a"), all.collect::<Vec<_>>());
    whole(&store);
}

#[test]
fn p13_what_hermes_wrote_into_its_routing_table_after_us_is_no_breach() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    store.close(NOW).unwrap();
    drop(store);
    let conn = hermes(directory.path());
    let sql =
        "UPDATE gateway_routing SET entry_json = json_set(entry_json, '$.updated_at', '2999-01-01T00:00:00')";
    assert_eq!(conn.execute(sql, []).unwrap(), 1);
    drop(conn);
    assert_eq!(home(directory.path()).reader().unwrap().check().unwrap(), [""; 0]);
}

/// Rows that were added elsewhere do not hide what was taken back here.
#[test]
fn p15_an_undo_of_hermes_is_noticed_beside_what_it_appends() {
    let directory = directory();
    let mut store = writer(directory.path());
    for session in ["a", "b", "c"] {
        turn(&mut store, session, None, "one");
    }
    assert!(store.tend(NOW).unwrap().foreign.is_empty());
    let conn = hermes(directory.path());
    let undo = |session: &str| {
        conn.execute("UPDATE messages SET active = 0 WHERE session_id = ?1", [session]).unwrap();
        conn.execute("UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ?1", [session]).unwrap();
    };
    undo("a");
    hermes_says(&conn, "b", "user", "two");
    assert_eq!(store.tend(NOW).unwrap().foreign, [id("a"), id("b")]);
    // Also in a commit of its owner, and once only.
    undo("a");
    hermes_says(&conn, "b", "user", "three");
    let commits = ["a", "c"].map(|name| {
        let state = store.reader().load(&id(name)).unwrap().unwrap().session;
        Commit::Session { expect: state.generation, state: Box::new(state), acts: Vec::new(), at: NOW }
    });
    let told: Vec<bool> = store.commit(&commits).into_iter().map(|it| it.unwrap().foreign).collect();
    assert_eq!(told, [true, false]);
    hermes_says(&conn, "b", "user", "four");
    assert_eq!(store.tend(NOW).unwrap().foreign, [id("a"), id("b")], "what the commit came upon");
    hermes_says(&conn, "b", "user", "five");
    assert_eq!(store.tend(NOW).unwrap().foreign, [id("b")]);
}

#[test]
fn a_picture_that_hermes_took_in_weighs_what_a_picture_does() {
    let directory = directory();
    drop(writer(directory.path()));
    let conn = hermes(directory.path());
    hermes_begins(&conn, "theirs");
    let picture = "A".repeat(2 << 20);
    let content = format!(
        "\0json:[{{\"type\": \"text\", \"text\": \"look\"}}, {{\"type\": \"image_url\", \
         \"image_url\": {{\"url\": \"data:image/png;base64,{picture}\"}}}}]"
    );
    hermes_says(&conn, "theirs", "user", &content);
    hermes_says(&conn, "theirs", "assistant", &"words ".repeat(1000));
    drop(conn);
    let store = writer(directory.path());
    let weight = store.reader().load(&id("theirs")).unwrap().unwrap().session.upkeep.context;
    assert!((1_500..10_000).contains(&weight), "{weight} tokens");
}

#[test]
fn p15_a_session_only_hermes_knows_goes_on() {
    for directory in [directory(), schema_11()] {
        drop(writer(directory.path()));
        let conn = hermes(directory.path());
        hermes_begins(&conn, "theirs");
        hermes_says(&conn, "theirs", "user", "one");
        drop(conn);
        end(directory.path(), "theirs", "agent_close"); // by mistake, as Hermes itself knows
        let mut store = writer(directory.path());
        let loaded = store.reader().load(&id("theirs")).unwrap().unwrap();
        assert_eq!((loaded.session.generation.0, loaded.ended, loaded.adopted), (0, None, 1));
        turn(&mut store, "theirs", None, "two");
        assert_eq!(said(&store, "theirs"), ["user: one", "user: two", "assistant: re: two"]);
        let summary = store.reader().session(&id("theirs")).unwrap().unwrap();
        assert_eq!((summary.messages, summary.ended), (3, None));
        whole(&store);
    }
}

#[test]
fn an_ended_session_says_why() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    end(directory.path(), "a", "session_reset");
    assert_eq!(store.reader().load(&id("a")).unwrap().unwrap().ended.as_deref(), Some("session_reset"));
    assert_eq!(store.reader().route(&key(1)).unwrap(), None, "no chat is led to it");
}

#[test]
fn the_hermes_command_line_is_noticed_beside_us() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "one");
    turn(&mut store, "b", None, "one");
    assert!(store.tend(NOW).unwrap().foreign.is_empty());
    let conn = hermes(directory.path());
    hermes_says(&conn, "a", "user", "from the terminal");
    turn(&mut store, "b", None, "two"); // ours, above theirs
    assert_eq!(store.tend(NOW).unwrap().foreign, [id("a")]);
    assert!(store.tend(NOW).unwrap().foreign.is_empty(), "said once");
    // A change without a new row could be anywhere: look again everywhere.
    conn.execute("UPDATE messages SET active = 0 WHERE session_id = 'b'", []).unwrap();
    let foreign: Vec<SessionId> = store.tend(NOW).unwrap().foreign;
    assert!(foreign.contains(&id("a")) && foreign.contains(&id("b")), "{foreign:?}");
    assert_eq!(said(&store, "b"), [] as [String; 0]);
}

#[test]
fn p15_an_owner_learns_with_its_commit_what_hermes_wrote_before_it() {
    let directory = directory();
    let mut store = writer(directory.path());
    let conn = hermes(directory.path());
    let mut a = receive(&mut store, "a", None, "one");
    let mut b = receive(&mut store, "b", None, "one");
    hermes_says(&conn, "a", "user", "from the terminal");
    assert!(!answer(&mut store, &mut b, "one").foreign, "not in b");
    assert!(answer(&mut store, &mut a, "one").foreign, "noticed by an earlier batch, and not forgotten");
    assert_eq!(said(&store, "a"), ["user: one", "user: from the terminal", "assistant: re: one"]);
    whole(&store);

    let mut a = receive(&mut store, "a", None, "two");
    hermes_says(&conn, "a", "user", "and again");
    assert_eq!(store.tend(NOW).unwrap().foreign, [id("a")]);
    assert!(answer(&mut store, &mut a, "two").foreign, "told once in passing, and once for certain");
    let mut a = receive(&mut store, "a", None, "three");
    assert!(!answer(&mut store, &mut a, "three").foreign, "said once");

    // A change without a new row could be anywhere.
    let mut b = receive(&mut store, "b", None, "two");
    conn.execute("UPDATE messages SET active = 0 WHERE session_id = 'a'", []).unwrap();
    assert!(answer(&mut store, &mut b, "two").foreign);
    whole(&store);
}

#[test]
fn a_session_that_hermes_ended_a_moment_ago_takes_nothing_more() {
    for change in ["UPDATE sessions SET ended_at = 1, end_reason = 'session_reset'", "DELETE FROM sessions"] {
        let directory = directory();
        let mut store = writer(directory.path());
        let conn = hermes(directory.path());
        let mut state = receive(&mut store, "a", None, "one");
        answer(&mut store, &mut state, "one");
        conn.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM messages").unwrap();
        conn.execute_batch(change).unwrap();
        let event = Event::Received(Arc::new(next_input(&state, "two")));
        let refused = try_happen(&mut store, &mut state, event);
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{change}: {refused:?}");
        assert_eq!(said(&store, "a"), [] as [String; 0]);
    }
}

#[test]
fn p15_routes_in_the_table_are_taken_over() {
    let directory = directory();
    drop(writer(directory.path()));
    let conn = hermes(directory.path());
    for session in ["live", "dead", "old", "tip"] {
        hermes_begins(&conn, session);
    }
    conn.execute("UPDATE sessions SET parent_session_id = 'old' WHERE id = 'tip'", []).unwrap();
    hermes_says(&conn, "tip", "user", "a summary");
    drop(conn);
    end(directory.path(), "dead", "session_reset");
    end(directory.path(), "old", "compression");
    put_in_table(directory.path(), 1, &entry(1, "live", ""));
    put_in_table(directory.path(), 2, &entry(2, "dead", ""));
    put_in_table(directory.path(), 3, &entry(3, "old", ""));
    put_in_table(directory.path(), 4, "not even JSON");
    // The table wins over the file, which fills in only what the table lacks.
    put_in_file(directory.path(), &[(1, entry(1, "dead", "")), (5, entry(5, "live", ""))]);

    let store = writer(directory.path());
    let led = |number| store.reader().route(&key(number)).unwrap().map(|session| session.to_string());
    assert_eq!(led(1).as_deref(), Some("live"));
    assert_eq!(led(2), None, "a route to an ended session is not followed");
    assert_eq!(led(3).as_deref(), Some("tip"), "a compression of Hermes' is");
    assert_eq!(led(4), None);
    assert_eq!(led(5).as_deref(), Some("live"));
    whole(&store);
}

/// A compression of Hermes' that was cut short, or one of two at once, leaves a session behind in which nothing was
/// ever said. No chat may lead there: its past would be gone.
#[test]
fn p1_no_chat_is_led_to_a_session_that_a_compression_left_empty() {
    for directory in [directory(), schema_11()] {
        drop(writer(directory.path()));
        let conn = hermes(directory.path());
        let born = |session: &str, parent: &str, at: f64| {
            hermes_begins(&conn, session);
            let sql = "UPDATE sessions SET parent_session_id = NULLIF(?2, ''), started_at = ?3 WHERE id = ?1";
            conn.execute(sql, rusqlite::params![session, parent, at]).unwrap();
        };
        for (session, parent, at) in [
            ("first", "", 1.0),
            ("second", "first", 2.0),
            ("forked", "first", 3.0),
            ("alone", "", 1.0),
            ("nothing", "alone", 2.0),
        ] {
            born(session, parent, at);
        }
        for session in ["first", "second", "alone"] {
            hermes_says(&conn, session, "user", "one");
        }
        for session in ["first", "alone"] {
            end(directory.path(), session, "compression");
        }
        put_in_file(directory.path(), &[(1, entry(1, "first", "")), (2, entry(2, "alone", ""))]);
        let mut store = writer(directory.path());
        assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("second")), "the other one is empty");
        assert_eq!(store.reader().route(&key(2)).unwrap(), Some(id("alone")), "it goes on where it was");
        turn(&mut store, "alone", Some(chat(2)), "two");
        assert_eq!(said(&store, "alone"), ["user: one", "user: two", "assistant: re: two"]);
        whole(&store);
    }
}

#[test]
fn p15_a_route_that_hermes_changed_is_the_users_newer_wish() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("a")));
    store.close(NOW).unwrap();
    drop(store);
    // Nothing changed: nothing is taken over.
    let store = writer(directory.path());
    let bound = |store: &dyn Store| -> u64 {
        let counts = store.reader().counts().unwrap();
        counts.iter().find(|(name, _)| name == "route_bound").map_or(0, |(_, n)| *n)
    };
    assert_eq!(bound(&store), 1);
    drop(store);
    // The user said `/new` to Hermes.
    hermes_begins(&hermes(directory.path()), "b");
    end(directory.path(), "a", "session_reset");
    put_in_table(directory.path(), 1, &entry(1, "b", ""));
    let mut store = writer(directory.path());
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("b")));
    assert_eq!(bound(&store), 2);
    // And does so again while we run.
    hermes_begins(&hermes(directory.path()), "c");
    put_in_table(directory.path(), 1, &entry(1, "c", ""));
    assert!(store.tend(NOW).unwrap().routes);
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("c")));
    whole(&store);
}

#[test]
fn p21_old_homes_keep_their_routes_in_a_file() {
    let directory = schema_11();
    hermes_begins(&hermes(directory.path()), "s");
    put_in_file(
        directory.path(),
        &[
            (1, entry(1, "s", ", \"memory_flushed\": true")),
            (2, entry(2, "s", ", \"memory_flushed\": true, \"expiry_finalized\": false")),
        ],
    );
    let mut store = writer(directory.path());
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("s")));
    let written = |store: &mut dyn Store| -> serde_json::Value {
        store.close(NOW).unwrap();
        let file = fs::read_to_string(directory.path().join("sessions/sessions.json")).unwrap();
        assert!(!file.contains("memory_flushed"), "only the new key is written");
        serde_json::from_str(&file).unwrap()
    };
    let value = written(&mut store);
    let flag =
        |value: &serde_json::Value, number: u32| value[key(number).as_str()]["expiry_finalized"].as_bool();
    assert_eq!(
        (flag(&value, 1), flag(&value, 2)),
        (Some(true), Some(false)),
        "the new key wins even as false"
    );
    assert!(
        store.reader().load(&id("s")).unwrap().unwrap().session.finalised,
        "it was handed over by Hermes"
    );
    turn(&mut store, "s", None, "hello");
    let value = written(&mut store);
    assert_eq!((flag(&value, 1), flag(&value, 2)), (Some(false), Some(false)), "and goes on, in a new life");
    assert!(value.get("_README").is_none(), "Hermes 0.14 would stumble over it");
    whole(&store);
}

#[test]
fn a_file_we_wrote_is_not_taken_for_one_of_hermes() {
    let directory = schema_11();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    store.tend(NOW).unwrap();
    let file = directory.path().join("sessions/sessions.json");
    let first = fs::read_to_string(&file).unwrap();
    assert!(first.contains("\"a\""));
    // Within the same second the file waits; then it follows.
    turn(&mut store, "b", Some(chat(2)), "one");
    store.tend(Time(NOW.0 + 10)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    store.tend(Time(NOW.0 + 1_000_000)).unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("\"b\""));
    // Killed before the file could follow: an old file of ours must not undo what we know.
    turn(&mut store, "a", Some(chat(1)), "two");
    drop(store);
    fs::write(&file, first).unwrap();
    let store = writer(directory.path());
    assert_eq!(store.reader().route(&key(2)).unwrap(), Some(id("b")));
    let counts = store.reader().counts().unwrap();
    assert!(counts.contains(&("route_bound".to_owned(), 2)), "{counts:?}");
    whole(&store);
}

#[test]
fn a_session_that_hermes_opened_again_lives_again() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    close_session(&mut store, "a", "b");
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("b")));
    store.close(NOW).unwrap();
    drop(store);
    // `/resume` in Hermes.
    let sql = "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = 'a'";
    hermes(directory.path()).execute(sql, []).unwrap();
    end(directory.path(), "b", "session_switch");
    put_in_table(directory.path(), 1, &entry(1, "a", ""));
    let mut store = writer(directory.path());
    assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("a")));
    let session = store.reader().load(&id("a")).unwrap().unwrap().session;
    assert_eq!((&session.phase, session.epoch.0), (&Phase::Idle, 2));
    turn(&mut store, "a", Some(chat(1)), "two");
    whole(&store);
}

fn close_session(store: &mut dyn Store, session: &str, successor: &str) {
    use std::sync::Arc;
    use throughline_core::command::Command;
    use throughline_core::input::{DedupeKey, Input, Kind};
    let mut state = store.reader().load(&id(session)).unwrap().unwrap().session;
    let input = Input {
        seq: state.received.next(),
        at: NOW,
        key: DedupeKey::of(&["test", "new", session]),
        kind: Kind::Command(Command::New { successor: id(successor) }),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Default::default(),
        left: None,
    };
    happen(store, &mut state, Event::Received(Arc::new(input)));
    for stage in [Finalisation::Claimed, Finalisation::Hooks, Finalisation::Provider, Finalisation::Evicted] {
        happen(store, &mut state, Event::Finalised(stage));
    }
    assert_eq!(state.phase, Phase::Closed(Finalisation::Done));
}

#[test]
fn p20_hermes_sees_that_a_session_was_handed_over() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    close_session(&mut store, "a", "b");
    let conn = hermes(directory.path());
    let (reason, finalized): (String, bool) = conn
        .query_row("SELECT end_reason, expiry_finalized FROM sessions WHERE id = 'a'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((reason.as_str(), finalized), ("session_reset", true));
    let (parent, key_of_b): (Option<String>, String) = conn
        .query_row("SELECT parent_session_id, session_key FROM sessions WHERE id = 'b'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((parent, key_of_b.as_str()), (None, key(1).as_str()), "Hermes must not follow a link");
    assert!(store.reader().unfinished().unwrap().is_empty());
    whole(&store);
}

#[test]
fn a_session_that_hermes_deleted_can_begin_anew_and_its_keys_stay_known() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", None, "one");
    let conn = hermes(directory.path());
    conn.execute_batch("DELETE FROM messages WHERE session_id = 'a'; DELETE FROM sessions WHERE id = 'a'")
        .unwrap();
    assert_eq!(store.reader().load(&id("a")).unwrap(), None);
    let again = receive_with_key(&mut store, "a", "another");
    assert!(again.is_ok());
    let known = receive_with_key(&mut store, "c", "test|a|1");
    assert!(known.is_err(), "accepted once, for ever");
    store.close(NOW).unwrap();
    whole(&store);
}

#[test]
fn p10_replies_of_a_session_that_hermes_deleted_do_not_stand_in_the_way_of_its_namesake() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    let conn = hermes(directory.path());
    let delivered = conn.execute("UPDATE tl_outbox SET state = 2 WHERE session = 'a'", []).unwrap();
    assert!(delivered > 0, "a chat is answered through the outbox");
    conn.execute_batch("DELETE FROM messages WHERE session_id = 'a'; DELETE FROM sessions WHERE id = 'a'")
        .unwrap();
    assert!(receive_with_key(&mut store, "a", "another").is_ok());
    let left: i64 = conn
        .query_row("SELECT count(*) FROM tl_outbox WHERE session = 'a' AND state >= 2", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "its keys are counted from the beginning, and would be taken for known");
}

#[test]
fn p24_turns_of_a_session_that_begins_anew_are_kept_beside_those_of_its_namesake() {
    let directory = directory();
    let mut store = writer(directory.path());
    remembers(&mut store, "old", NOW);
    let conn = hermes(directory.path());
    conn.execute_batch("DELETE FROM messages WHERE session_id = 'a'; DELETE FROM sessions WHERE id = 'a'")
        .unwrap();
    assert_eq!(store.reader().load(&id("a")).unwrap(), None);
    remembers(&mut store, "new", NOW.plus(std::time::Duration::from_secs(60)));
    let due = store.reader().retentions("provider").unwrap();
    let said: Vec<&str> = due.iter().map(|deferred| deferred.retention.said[0].as_str()).collect();
    assert_eq!(said, ["old", "new"]);
    assert_ne!(due[0].retention.key, due[1].retention.key);
    assert_eq!(due[0].retention.turn, due[1].retention.turn);
}

/// The session was born by a clock that was a year ahead.
#[test]
fn p24_turns_of_one_session_have_keys_of_one_kind_though_the_clock_was_set_back() {
    let directory = directory();
    let mut store = writer(directory.path());
    remembers(&mut store, "first", NOW.plus(std::time::Duration::from_secs(365 * 86_400)));
    let mut later = SessionState::new(id("a"));
    for turn in [2, 3] {
        let acts = vec![Act::Retain(Box::new(turn_of_a("later", turn)))];
        let expect = later.generation;
        later.generation = expect.next();
        let commit =
            Commit::Session { expect, state: Box::new(Session::restored(later.clone())), acts, at: NOW };
        store.commit(&[commit]).remove(0).unwrap();
    }
    let due = store.reader().retentions("provider").unwrap();
    let keys: Vec<&str> = due.iter().map(|deferred| deferred.retention.key.as_str()).collect();
    assert_eq!(keys, ["a/1", "a/2", "a/3"]);
}

/// Its document is the chat's, and all of it was kept: nothing but the deletion tells of the earlier life. And the next
/// one is born by a clock that was set back.
#[test]
fn p24_a_namesake_is_told_apart_though_nothing_waits_and_the_clock_was_set_back() {
    let directory = directory();
    let mut store = writer(directory.path());
    remembers(&mut store, "old", NOW);
    for change in [RetentionChange::Attempting, RetentionChange::Kept] {
        let commit = Commit::Retention { key: "a/1".into(), change, at: NOW };
        store.commit(&[commit]).remove(0).unwrap();
    }
    let conn = hermes(directory.path());
    conn.execute_batch("DELETE FROM messages WHERE session_id = 'a'; DELETE FROM sessions WHERE id = 'a'")
        .unwrap();
    remembers(&mut store, "new", Time(NOW.0 - 86_400_000_000));
    let due = store.reader().retentions("provider").unwrap();
    assert_eq!(due.len(), 1);
    assert_ne!(due[0].retention.key, "a/1");
}

/// The first turn of a session, with whom it concerns.
fn remembers(store: &mut dyn Store, said: &str, at: Time) {
    let acts = vec![Act::Open(Box::default()), Act::Retain(Box::new(turn_of_a(said, 1)))];
    let state = Box::new(Session::new(id("a")));
    let commit = Commit::Session { expect: Generation(0), state, acts, at };
    store.commit(&[commit]).remove(0).unwrap();
}

/// A turn of the session `a`, as it is to be remembered.
fn turn_of_a(said: &str, turn: u64) -> Kept {
    let naming = Naming { name: "a".into(), otherwise: None };
    let filing = Filing { provider: "provider".into(), scope: Scope::of(id("a")), naming, every: 1 };
    Kept { turn: TurnId(Seq(turn)), said: vec![said.into()], replied: "yes".into(), filing: Some(filing) }
}

fn receive_with_key(
    store: &mut dyn Store,
    session: &str,
    key: &str,
) -> Result<throughline_core::port::Committed, throughline_core::port::StoreError> {
    use std::sync::Arc;
    use throughline_core::input::{DedupeKey, Input, Kind};
    use throughline_core::port::Commit;
    use throughline_core::session::{Act, Rules, Session};
    let input = Input {
        seq: throughline_core::Seq(1),
        at: NOW,
        key: DedupeKey::stored(key),
        kind: Kind::Chat(throughline_core::Content::text("again")),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Default::default(),
        left: None,
    };
    let (state, mut acts) =
        Session::new(id(session)).step(Event::Received(Arc::new(input)), NOW, &Rules::default());
    acts.insert(0, Act::Open(Box::new(Birth { source: "api_server".into(), ..Birth::default() })));
    let expect = throughline_core::Generation(0);
    store.commit(&[Commit::Session { expect, state: Box::new(state), acts, at: NOW }]).remove(0)
}

#[test]
fn a_file_that_was_lost_or_left_behind_is_written_at_the_next_start() {
    let directory = schema_11();
    let file = directory.path().join("sessions/sessions.json");
    let mut store = writer(directory.path());
    store.tend(NOW).unwrap();
    assert!(!file.exists(), "without routes there is nothing to write");
    turn(&mut store, "a", Some(chat(1)), "one");
    drop(store); // killed
    let mut store = writer(directory.path());
    store.tend(NOW).unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("\"a\""));
}

#[test]
fn a_file_that_nobody_can_read_is_moved_aside() {
    let directory = schema_11();
    put_in_file(directory.path(), &[]);
    let file = directory.path().join("sessions/sessions.json");
    fs::write(&file, "{ broken").unwrap();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    store.close(NOW).unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("\"a\""));
    assert_eq!(fs::read_to_string(file.with_extension("json.unreadable")).unwrap(), "{ broken");
    assert!(store.reader().counts().unwrap().contains(&("sessions_file_unreadable".to_owned(), 1)));
    whole(&store);
}

#[test]
fn what_hermes_wrote_is_taken_over_before_it_is_replaced() {
    let directory = schema_11();
    let mut store = writer(directory.path());
    turn(&mut store, "a", Some(chat(1)), "one");
    hermes_begins(&hermes(directory.path()), "theirs");
    let broken = (3, "{\"session_key\": 3}".to_owned());
    put_in_file(directory.path(), &[(2, entry(2, "theirs", "")), broken]);
    store.close(NOW).unwrap();
    assert_eq!(store.reader().route(&key(2)).unwrap(), Some(id("theirs")));
    let file = fs::read_to_string(directory.path().join("sessions/sessions.json")).unwrap();
    assert!(file.contains("\"a\"") && file.contains("\"theirs\""), "{file}");
    assert!(store.reader().counts().unwrap().contains(&("route_unusable".to_owned(), 1)));
}

/// As `tools/delegate_tool.py` leaves it: `run_agent` writes the row, the tool its marker.
#[test]
fn a_helpers_session_is_one_of_hermes_own_kind() {
    for directory in [directory(), schema_11()] {
        let mut store = writer(directory.path());
        turn(&mut store, "parent", Some(chat(1)), "one");
        // A chat would be a mistake: no person writes to a helper.
        let birth = Birth {
            source: "subagent".into(),
            parent: Some(id("parent")),
            chat: Some(chat(2)),
            ..Birth::default()
        };
        begin(&mut store, "child", birth);
        let conn = hermes(directory.path());
        let sql = "SELECT source, parent_session_id, json_extract(model_config, '$._delegate_from'), user_id
                   FROM sessions WHERE id = 'child'";
        let row: (String, String, String, Option<String>) =
            conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
        assert_eq!(row, ("subagent".into(), "parent".into(), "parent".into(), None));
        assert_eq!(store.reader().route(&key(2)).unwrap(), None);
        assert_eq!(store.reader().route(&key(1)).unwrap(), Some(id("parent")));
        assert_eq!(store.reader().children(&id("parent")).unwrap(), [id("child")]);
        store.close(NOW).unwrap();
        whole(&store);
    }
}

#[test]
fn a_helper_outlives_a_parent_that_hermes_deleted() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "parent", None, "one");
    let conn = hermes(directory.path());
    conn.execute_batch(
        "DELETE FROM messages WHERE session_id = 'parent'; DELETE FROM sessions WHERE id = 'parent'",
    )
    .unwrap();
    let birth = Birth { source: "subagent".into(), parent: Some(id("parent")), ..Birth::default() };
    begin(&mut store, "child", birth);
    assert!(store.reader().sessions(&SessionFilter::default()).unwrap().is_empty(), "its marker hides it");
    store.close(NOW).unwrap();
    whole(&store);
}

#[test]
fn p2_a_chat_that_hermes_leads_to_a_helper_is_not_followed() {
    let directory = directory();
    let mut store = writer(directory.path());
    turn(&mut store, "parent", Some(chat(1)), "one");
    begin(
        &mut store,
        "child",
        Birth { source: "subagent".into(), parent: Some(id("parent")), ..Birth::default() },
    );
    drop(store);
    put_in_table(directory.path(), 2, &entry(2, "child", ""));
    let store = writer(directory.path());
    assert_eq!(store.reader().route(&key(2)).unwrap(), None);
    whole(&store);
}
