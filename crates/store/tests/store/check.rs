//! Every invariant notices its own breach.

use crate::home::*;
use throughline_core::message::{Assistant, ToolCall};
use throughline_core::port::{Read, Store};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Event, Phase};
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
    let event = Event::Answered { turn: turn.id, step: turn.step, answer, prompt, cut: None };
    happen(store, &mut state, event);
    store.close(NOW).unwrap();
}

#[test]
fn every_breach_is_noticed_by_name() {
    for (name, breach) in [
        ("route_live", "UPDATE sessions SET ended_at = 1.0, end_reason = 'session_reset' WHERE id = 'a'"),
        ("route_one_id", "UPDATE tl_event SET session = 'b' WHERE name = 'route_bound'"),
        ("route_one_id", "UPDATE tl_route SET session = 'b'"),
        ("route_mirrored", "UPDATE gateway_routing SET entry_json = '{}'"),
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
        ("open_calls", "INSERT INTO tl_call VALUES ('a', 1, 0, 0, '{}')"),
        ("outbox", "UPDATE tl_outbox SET state = 1"),
        (
            "one_compression",
            "INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at)
             VALUES ('a', 1, 1, 1, 1, 0, 1, 0)",
        ),
        ("finalised_once", "UPDATE tl_session SET phase = 2, stage = 0 WHERE id = 'b'"),
        ("finalised_once", "INSERT INTO tl_finalisation VALUES ('a', 1, 0, 0, '', 0)"),
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
        let broken = store.check().unwrap();
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
