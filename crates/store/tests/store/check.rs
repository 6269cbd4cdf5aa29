//! Every invariant notices its own breach.

use crate::home::*;
use crate::snapshots::Owner;
use std::time::Duration;
use throughline_core::Content;
use throughline_core::input::Birth;
use throughline_core::message::{Assistant, ToolCall, ToolResult};
use throughline_core::port::{BrowseRead, Store};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Approver, Event, Phase, Session};
use throughline_core::tool::{Grant, Question, Verdict};
use throughline_core::turn::Answer;

/// A home in which a bit of everything has happened.
fn lived_in(store: &mut dyn Store) {
    turn(store, "a", Some(chat(1)), "one");
    turn(store, "a", Some(chat(1)), "two");
    turn(store, "b", None, "three");
    let mut state = receive(store, "tools", None, "look");
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let call = ToolCall { id: "c".into(), name: "look".into(), arguments: "{}".into(), extra: None };
    let said = Assistant { calls: vec![call], ..Assistant::default() };
    let prompt = Mark { chain: Digest::of(&[b"x"]), messages: 1, head: Head::default() };
    let answer = Answer { said, model: "m".into(), ..Answer::default() };
    let event = Event::Answered { turn: turn.id, step: turn.step, answer, prompt, full: false };
    happen(store, &mut state, event);
    asking(store);
    tools_done(store);
    let birth = Birth { source: "subagent".into(), parent: Some(id("b")), ..Birth::default() };
    begin(store, "child", birth);
    for text in ["long", "ago"] {
        crate::home::turn(store, "short", None, text);
        crate::home::turn(store, "preparing", None, text);
    }
    let mut owner = Owner { store, now: NOW };
    owner.compresses("short", 0, 1, &["SUMMARY"]);
    owner.compresses("short", 0, 1, &["SHORTER"]);
    owner.prepares("preparing", 0, 1, &["SUMMARY"]);
    store.close(NOW).unwrap();
}

fn calls(store: &mut dyn Store, session: &str) -> Session {
    let mut state = receive(store, session, None, "look");
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let call = |number| ToolCall {
        id: format!("c{number}"),
        name: "look".into(),
        arguments: "{}".into(),
        extra: None,
    };
    let said = Assistant { calls: (0..2).map(call).collect(), ..Assistant::default() };
    let prompt = Mark { chain: Digest::of(&[b"x"]), messages: 1, head: Head::default() };
    let answer = Answer { said, model: "m".into(), ..Answer::default() };
    let event = Event::Answered { turn: turn.id, step: turn.step, answer, prompt, full: false };
    happen(store, &mut state, event);
    state
}

/// A session in which one call asks and another is granted.
fn asking(store: &mut dyn Store) {
    let mut state = calls(store, "asking");
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let (turn, step) = (turn.id, turn.step);
    let patience = Duration::from_secs(60);
    for index in [0, 1] {
        let question = Question::Approval { what: "x".into(), why: "y".into(), patterns: vec!["z".into()] };
        happen(
            store,
            &mut state,
            Event::Asked { turn, step, index, question, patience, approver: Approver::Present },
        );
    }
    let verdict = Verdict::Granted(Grant::Session);
    happen(store, &mut state, Event::Decided { turn, step, index: 1, verdict });
}

/// A session whose group has been closed.
fn tools_done(store: &mut dyn Store) {
    let mut state = calls(store, "done");
    let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
    let (turn, step) = (turn.id, turn.step);
    for index in [0, 1] {
        let result = ToolResult { call_id: format!("c{index}"), name: None, content: Content::text("found") };
        happen(store, &mut state, Event::Called { turn, step, index, result, sends: Vec::new() });
    }
    answer(store, &mut state, "seen");
}

#[test]
fn every_breach_is_noticed_by_name() {
    for (name, breach) in [
        ("route_live", "UPDATE sessions SET ended_at = 1.0, end_reason = 'session_reset' WHERE id = 'a'"),
        ("route_one_id", "UPDATE tl_event SET session = 'b' WHERE name = 'route_bound'"),
        ("route_one_id", "UPDATE tl_route SET session = 'b'"),
        ("route_mirrored", "UPDATE gateway_routing SET entry_json = '{}'"),
        (
            "route_mirrored",
            "UPDATE gateway_routing SET entry_json = json_set(entry_json, '$.updated_at', '2001-01-01T00:00:00')",
        ),
        (
            "one_live_session_per_chat",
            "UPDATE sessions SET session_key = 'agent:main:telegram:dm:1' WHERE id = 'b'",
        ),
        ("positions", "UPDATE tl_session SET answered = 9 WHERE id = 'a'"),
        ("inbox_numbered", "UPDATE tl_inbox SET seq = 7 WHERE session = 'a' AND seq = 2"),
        ("inbox_numbered", "UPDATE tl_session SET received = 3 WHERE id = 'a'"),
        ("inbox_owned", "DELETE FROM tl_session WHERE id = 'a'"),
        ("settled_prefix", "UPDATE tl_inbox SET state = 0, outcome = NULL WHERE session = 'a' AND seq = 1"),
        ("turn_inputs", "UPDATE tl_inbox SET turn = 2 WHERE session = 'tools'"),
        ("turn_inputs", "UPDATE tl_session SET phase = 1, turn = 1 WHERE id = 'a'"),
        ("outcome_iff_settled", "UPDATE tl_inbox SET outcome = NULL WHERE session = 'a' AND seq = 1"),
        ("answer_kept", "DELETE FROM messages WHERE session_id = 'b' AND role = 'assistant'"),
        ("said_once", "DELETE FROM messages WHERE session_id = 'b' AND role = 'user'"),
        ("said_once", "UPDATE tl_inbox SET message = (SELECT min(message) FROM tl_inbox) WHERE session = 'a'"),
        ("said_in_order", "UPDATE tl_inbox SET message = 1000 WHERE session = 'a' AND seq = 1"),
        (
            "stride",
            "INSERT INTO messages (id, session_id, role, timestamp)
             SELECT message - 1, 'a', 'user', 1.0 FROM tl_inbox WHERE session = 'a' AND seq = 1",
        ),
        ("seen_and_kept", "DELETE FROM tl_seen WHERE session = 'a' AND seq = 1"),
        ("seen_and_kept", "UPDATE tl_seen SET seq = 1 WHERE session = 'a'"),
        ("open_calls", "UPDATE tl_session SET phase = 0 WHERE id = 'tools'"),
        ("open_calls", "INSERT INTO tl_call VALUES ('a', 1, 0, 0, '{}', 2)"),
        ("open_calls", "UPDATE tl_call SET position = 7 WHERE session = 'asking' AND position = 0"),
        ("open_calls", "UPDATE tl_call SET state = 7"),
        ("asked_in_a_turn", "UPDATE tl_session SET phase = 0 WHERE id = 'asking'"),
        (
            "results_kept",
            "DELETE FROM messages WHERE id = (SELECT max(id) FROM messages WHERE session_id = 'done' AND role = 'tool')",
        ),
        ("results_kept", "UPDATE messages SET role = 'user' WHERE session_id = 'done' AND role = 'tool'"),
        ("parents", "UPDATE tl_session SET parent = 'nobody' WHERE id = 'child'"),
        ("parents", "UPDATE sessions SET parent_session_id = 'a' WHERE id = 'child'"),
        ("parents", "UPDATE sessions SET model_config = NULL WHERE id = 'child'"),
        ("helpers_unrouted", "UPDATE tl_route SET session = 'child'"),
        ("readable", "UPDATE tl_outbox SET trace = '{\"hops\": \"many\"}' WHERE session = 'a'"),
        ("readable", "UPDATE tl_session SET rest = '{\"place\": 7}' WHERE id = 'a'"),
        ("readable", "UPDATE tl_call SET detail = 'perhaps' WHERE state = 0"),
        ("readable", "UPDATE tl_call SET detail = '{}' WHERE state = 1"),
        ("said_once", "UPDATE tl_inbox SET answers = 1 WHERE session = 'a' AND seq = 1"),
        ("unfinished", "UPDATE tl_session SET halted = 1, unfinished = 1 WHERE id = 'b'"),
        ("outbox", "UPDATE tl_outbox SET state = 1"),
        (
            "drafts",
            "UPDATE tl_outbox SET state = 2;
             INSERT INTO tl_draft (key, session, destination, at)
             SELECT key, session, destination, 0 FROM tl_outbox",
        ),
        (
            "one_compression",
            "INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at)
             VALUES ('a', 1, 1, 1, 1, 0, 1, 0)",
        ),
        (
            "one_compression",
            "UPDATE tl_compression SET state = 0 WHERE session = 'short' AND operation = 2",
        ),
        ("compression_fenced", "UPDATE tl_compression SET generation = 99 WHERE session = 'preparing'"),
        ("compression_fenced", "UPDATE tl_compression SET base_view = 99 WHERE session = 'preparing'"),
        ("compression_fenced", "UPDATE tl_compression SET state = 1 WHERE session = 'preparing'"),
        ("orders_wait", "UPDATE tl_compression SET orders = '[1]' WHERE session = 'preparing'"),
        ("unfinished", "UPDATE tl_session SET unfinished = 0 WHERE id = 'preparing'"),
        ("snapshot_of_promotion", "DELETE FROM tl_compression WHERE session = 'short'"),
        ("snapshot_of_promotion", "UPDATE tl_compression SET state = 5 WHERE session = 'short'"),
        ("summary_of_what_was_there", "UPDATE tl_compression SET cut = cut - 2 WHERE session = 'short'"),
        ("snapshot_named", "UPDATE tl_snapshot SET session = 'other'"),
        ("snapshot_named", "UPDATE tl_snapshot SET view = 99 WHERE operation = 1"),
        (
            "snapshot_whole",
            "DELETE FROM messages WHERE id = (SELECT min(id) FROM messages WHERE session_id = 'short')",
        ),
        ("snapshot_whole", "UPDATE tl_snapshot SET rows = '[4,2]' WHERE operation = 1"),
        ("snapshot_unrouted", "UPDATE tl_route SET session = 'a.snapshot.20260101T000000000000Z'"),
        ("replaced_not_live", "UPDATE messages SET active = 1 WHERE session_id = 'short'"),
        (
            "archived_kept",
            "UPDATE messages SET active = 0, compacted = 1 WHERE id = (SELECT max(id) FROM messages WHERE session_id = 'short')",
        ),
        ("live_in_place", "INSERT INTO tl_place SELECT max(id), 'b', 1 FROM messages WHERE session_id = 'b'"),
        ("readable", "UPDATE tl_session SET upkeep = '{}' WHERE id = 'a'"),
        ("readable", "UPDATE tl_compression SET summary = '{}' WHERE session = 'short'"),
        ("compression_ends_nothing", "UPDATE sessions SET ended_at = 1, end_reason = 'compression' WHERE id = 'b'"),
        ("generations_rise", "UPDATE tl_compression SET generation = 99 WHERE session = 'short' AND operation = 1"),
        (
            "snapshot_of_its_own",
            "UPDATE tl_snapshot SET rows = json_insert(rows, '$[#]', (SELECT max(id) FROM messages WHERE session_id = 'b'))",
        ),
        (
            "kept_in_order",
            "INSERT INTO tl_retention (number, key, provider, document, session, place, messages, state, created, updated, scope)
             VALUES (1, 'a/1', 'p', 'd', 'a', 1, 2, 1, 0, 5, '{\"session\":\"a\"}'), (2, 'a/2', 'p', 'd', 'a', 2, 2, 2, 0, 9, '{\"session\":\"a\"}')",
        ),
        (
            "kept_as_its_own",
            "INSERT INTO tl_retention (number, key, provider, document, session, place, messages, state, created, updated, scope)
             VALUES (1, 'a/1', 'p', 'd', 'a', 1, 2, 1, 0, 5, '{\"session\":\"b\"}')",
        ),
        (
            "kept_once",
            "INSERT INTO tl_retention (number, key, provider, document, session, place, messages, state, created, updated, scope)
             VALUES (1, 'a/1', 'p', 'd', 'a', 1, 2, 2, 0, 5, '{\"session\":\"a\"}'), (2, 'a/2', 'p', 'd', 'a', 1, 2, 2, 0, 9, '{\"session\":\"a\"}')",
        ),
        ("finalised_once", "UPDATE tl_session SET phase = 2, stage = 0 WHERE id = 'b'"),
        (
            "finalised_once",
            "INSERT INTO tl_finalisation (session, epoch, stage, attempts, reason, at) VALUES ('a', 1, 0, 0, '', 0)",
        ),
        ("hooks_in_a_hand_over", "INSERT INTO tl_hook VALUES ('a', 1, 'hook', 1, 1, 0, NULL)"),
        (
            "parked_at_a_step",
            "INSERT INTO tl_finalisation (session, epoch, stage, attempts, reason, at, parked)
             VALUES ('a', 0, 1, 8, '', 0, 'nameless')",
        ),
        ("reset_remembered", "INSERT INTO tl_reset VALUES ('agent:main:test:dm:9', 'a', 'idle', 0, 1)"),
        (
            "reviews_counted",
            "INSERT INTO tl_review (session, number, subject, state, turn, step, view, last_row, rows, due, tries, lost, not_before)
             VALUES ('a', 1, 'memory', 0, 1, 1, 1, 1, '[]', 0, 0, 0, 0)",
        ),
        ("closed_ended", "UPDATE tl_session SET phase = 2, stage = 0 WHERE id = 'b'"),
        ("unfinished", "UPDATE tl_session SET unfinished = 0 WHERE id = 'tools'"),
        ("unfinished", "UPDATE tl_session SET unfinished = 1 WHERE id = 'a'"),
        ("counted", "UPDATE sessions SET message_count = 7 WHERE id = 'a'"),
        ("tokens_counted", "UPDATE sessions SET input_tokens = 7 WHERE id = 'a'"),
        ("unindexed_exist", "INSERT INTO tl_unindexed VALUES (100000)"),
        ("findable", "DELETE FROM messages_fts"),
        (
            "groups_closed",
            "UPDATE tl_step SET calls = 1 WHERE session = 'b';
             UPDATE messages SET tool_calls = '[{\"id\": \"c\", \"type\": \"function\", \"function\":
                    {\"name\": \"look\", \"arguments\": \"{}\"}}]' WHERE session_id = 'b' AND role = 'assistant'",
        ),
        ("foreign_keys", "PRAGMA foreign_keys = OFF; UPDATE messages SET session_id = 'gone' WHERE session_id = 'b'"),
    ] {
        let directory = directory();
        let mut store = writer(directory.path());
        lived_in(&mut store);
        whole(&store);
        hermes(directory.path()).execute_batch(breach).unwrap();
        let broken = store.reader().check().unwrap();
        assert!(broken.iter().any(|sentence| sentence.starts_with(&format!("{name}: "))), "{name}: {broken:?}");
    }
}

#[test]
fn a_damaged_index_is_noticed() {
    let directory = directory();
    let mut store = writer(directory.path());
    lived_in(&mut store);
    drop(store);
    let conn = hermes(directory.path());
    conn.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_master SET sql = 'CREATE INDEX idx_sessions_source ON sessions(user_id)'
         WHERE name = 'idx_sessions_source'",
    )
    .unwrap();
    drop(conn);
    let broken = home(directory.path()).reader().unwrap().check().unwrap();
    assert!(broken.iter().any(|sentence| sentence.starts_with("integrity: ")), "{broken:?}");
}

#[test]
fn a_breach_names_its_promise_and_every_message_and_looks_away_from_what_is_older() {
    let directory = directory();
    let mut store = writer(directory.path());
    lived_in(&mut store);
    hermes(directory.path()).execute_batch("UPDATE tl_inbox SET outcome = NULL WHERE state = 2").unwrap();
    let settled: i64 = hermes(directory.path())
        .query_row("SELECT count(*) FROM tl_inbox WHERE state = 2", [], |row| row.get(0))
        .unwrap();
    let reader = home(directory.path()).reader().unwrap();
    let named = |since| {
        let breaches = reader.breaches(since).unwrap();
        let breach = breaches.into_iter().find(|breach| breach.name == "outcome_iff_settled");
        breach.map(|breach| (breach.promise, breach.found))
    };
    let (promise, found) = named(None).unwrap();
    assert_eq!((promise, found.len() as i64), ("P8", settled));
    assert!(settled > 1 && found.contains(&"a/1".to_owned()), "{found:?}");
    assert_eq!(named(Some(throughline_core::Time(i64::MAX))), None);
}
