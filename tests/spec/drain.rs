//! How a gateway stops: what runs is finished, what waits is finished or kept, nothing happens twice.

use crate::gateway::{Client, Gateway, Launch, Place, Reply, said, until};
use crate::model::ModelServer;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SESSION: &str = "X-Hermes-Session-Id";
const KEY: &str = "Idempotency-Key";

/// Sends a message and returns when it is accepted: the head of the response says so.
fn accepted(client: &Client, session: &str, key: &str, text: &str) -> Reply {
    let mut body = said(text);
    body["stream"] = json!(true);
    let headers = [(SESSION, session), (KEY, key)];
    let reply = client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap();
    assert_eq!(reply.status, 200);
    reply
}

/// A launch whose model answers when the test lets it, with more settings.
fn held(place: &Place, settings: &str) -> (ModelServer, Launch) {
    let model = ModelServer::start(Duration::ZERO);
    place.write("home/config.yaml", format!("model: {}\n{settings}", model.setting("m")));
    model.hold();
    (model, place.launch())
}

fn waiting(gateway: &Gateway) -> u64 {
    gateway.client.read("/api/control/status")["waiting_inputs"].as_u64().unwrap()
}

#[test]
fn p8_a_turn_that_runs_is_answered_before_the_gateway_stops() {
    let place = Place::new();
    let (model, launch) = held(&place, "");
    let gateway = launch.start();
    let reply = accepted(&gateway.client, "steady", "k1", "one last thing");
    until("the model is asked", || model.asked().len() == 1);
    gateway.signal("TERM");
    until("it is stopping", || !gateway.client.is_ready());
    model.release();
    let status = gateway.wait();
    assert_eq!(reply.streamed().unwrap(), "re: one last thing");
    assert_eq!(status.code(), Some(0));
    assert!(!place.file("home/gateway.pid").exists() && !place.file("home/throughline.address").exists());
    assert_eq!(model.asked().len(), 1);
}

#[test]
fn p8_what_waits_at_a_stop_is_answered_now_or_after_the_next_start_and_never_twice() {
    let place = Place::new();
    let (model, launch) = held(&place, "agent: {restart_drain_timeout: 8}\n");
    let gateway = launch.start();
    let texts: Vec<String> = (0..8).map(|nth| format!("question {nth}")).collect();
    let mut asked: Vec<(String, JoinHandle<Option<String>>)> = Vec::new();
    for text in &texts {
        let reply = accepted(&gateway.client, "queue", &format!("key of {text}"), text);
        asked.push((text.clone(), thread::spawn(move || reply.streamed().ok())));
    }
    until("the queue has formed", || waiting(&gateway) == 7);
    gateway.signal("TERM");
    until("it is stopping", || !gateway.client.is_ready());
    // The one that runs is answered while it stops; the model is silent about the next until the time is up.
    model.release_one();
    assert_eq!(gateway.wait().code(), Some(0));
    let answered: Vec<String> =
        asked.into_iter().filter_map(|(text, answer)| answer.join().unwrap().map(|_| text)).collect();
    assert_eq!(answered, texts[..1], "answered while it stopped");

    model.release();
    let gateway = launch.start();
    for text in &texts {
        let reply = accepted(&gateway.client, "queue", &format!("key of {text}"), text);
        assert_eq!(reply.streamed().unwrap(), format!("re: {text}"));
    }
    let rows = gateway.client.transcript("queue");
    let users: Vec<_> = rows.iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
    assert_eq!(users, texts.iter().collect::<Vec<_>>());
    assert_eq!(rows.len(), 16);
    assert_eq!(gateway.stop().code(), Some(0));
    // The one that was running when the time was up is asked for again; nothing else is.
    assert!((8..=9).contains(&model.asked().len()), "the model was asked {:?}", model.asked());
}

#[test]
fn a_second_interrupt_stops_at_once_and_the_next_start_goes_on() {
    let place = Place::new();
    let launch = place.rehearsing(&json!({"rules": [
        {"when": {"contains": "slow"}, "times": 1, "latency_ms": 60_000, "say": "too late"},
    ]}));
    let gateway = launch.start();
    let reply = accepted(&gateway.client, "steady", "k1", "a slow one");
    until("the model is asked", || !place.asked().is_empty());
    let began = Instant::now();
    gateway.signal("INT");
    until("it is stopping", || !gateway.client.is_ready());
    gateway.signal("INT");
    gateway.wait();
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for {:?}", began.elapsed());
    assert!(reply.streamed().is_err());

    // The script counts from the beginning, so the model would be slow again.
    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    until("the turn is resumed", || gateway.client.transcript("steady").len() == 2);
    let reply = accepted(&gateway.client, "steady", "k1", "a slow one");
    assert!(reply.streamed().unwrap().contains("“a slow one”"));
    assert_eq!(gateway.client.transcript("steady").len(), 2);
}

#[test]
fn a_client_that_only_listens_does_not_hold_up_a_stop() {
    let place = Place::new();
    let gateway = place.launch().start();
    let idle = TcpStream::connect(gateway.client.address).unwrap();
    let unread = accepted(&gateway.client, "steady", "k1", "this stays unread");
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    // A turn delays it at most for the time of a drain, 30 s.
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for {:?}", began.elapsed());
    drop((idle, unread));
}

/// Where Hermes left its chats, and finds them again.
#[test]
fn p21_chats_are_where_they_were_after_a_stop_and_after_a_kill() {
    let place = Place::new();
    let entry = |id: &str| {
        json!({"session_key": "agent:main:telegram:dm:42", "session_id": id, "created_at": "2026-05-28T09:35:10",
               "updated_at": "2026-05-28T09:36:00", "platform": "telegram", "chat_type": "dm", "memory_flushed": true})
    };
    let id = "20260528_093510_66bfaec7";
    let file = place
        .write("home/sessions/sessions.json", json!({"agent:main:telegram:dm:42": entry(id)}).to_string());
    let launch = place.launch();
    let written = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    let check = |when: &str| {
        let entry = &written()["agent:main:telegram:dm:42"];
        assert_eq!(entry["session_id"], id, "{when}");
        assert_eq!(entry["expiry_finalized"], true, "{when}");
        assert!(entry.get("memory_flushed").is_none(), "{when}: {entry}");
    };
    assert_eq!(launch.start().stop().code(), Some(0));
    check("after a stop");
    launch.start().kill();
    check("after a kill");
    assert_eq!(launch.start().stop().code(), Some(0));
    check("after both");
}

#[test]
fn p9_a_client_that_hangs_up_does_not_stop_its_turn() {
    let place = Place::new();
    let (model, launch) = held(&place, "");
    let gateway = launch.start();
    let reply = accepted(&gateway.client, "steady", "k1", "never mind me");
    until("the model is asked", || model.asked().len() == 1);
    drop(reply);
    model.release();
    until("it is answered", || gateway.client.transcript("steady").len() == 2);
    let reply = accepted(&gateway.client, "steady", "k1", "never mind me");
    assert_eq!(reply.header("x-request-id"), "steady/1");
    assert_eq!(reply.streamed().unwrap(), "re: never mind me");
    assert_eq!(model.asked().len(), 1);
    assert_eq!(gateway.client.transcript("steady").len(), 2);
}

/// What the search index has yet to take in is on disk, and search finds it there.
#[test]
fn a_stop_does_not_wait_for_the_whole_search_index() {
    let place = Place::new();
    assert_eq!(place.launch().start().stop().code(), Some(0));
    let conn = rusqlite::Connection::open(place.file("home/state.db")).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch(
        "BEGIN; INSERT INTO sessions (id, source, started_at) VALUES ('long', 'cli', 1763000000.0);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
         INSERT INTO messages (session_id, role, content, timestamp)
         SELECT 'long', 'user', 'needle' || i || ' ' || hex(randomblob(500)), 1763000000.0 + i FROM n;
         INSERT INTO tl_unindexed (id) SELECT id FROM messages; COMMIT",
    )
    .unwrap();
    drop(conn);
    // Before it takes messages: all of the index is still to be made.
    let gateway = place.launch().spawn();
    until("it has the home", || place.file("home/gateway.pid").exists());
    assert_eq!(gateway.stop().code(), Some(0));
    let conn = rusqlite::Connection::open(place.file("home/state.db")).unwrap();
    let left: i64 = conn.query_row("SELECT count(*) FROM tl_unindexed", [], |row| row.get(0)).unwrap();
    assert!(left > 0, "it waited until all was indexed");
    drop(conn);
    let found = place.launch().arg("sessions").arg("search").arg("needle40000").run();
    assert!(found.stdout.contains("long"), "{}{}", found.stdout, found.stderr);
}
