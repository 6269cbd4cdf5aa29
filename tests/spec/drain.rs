//! How a gateway stops: what runs is finished, what waits is finished or kept, nothing happens twice.

use crate::gateway::{Client, Gateway, Place, Reply, said};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::thread::{self, JoinHandle, sleep};
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

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(5));
    }
}

fn waiting(gateway: &Gateway) -> u64 {
    gateway.client.read("/api/control/status")["waiting_inputs"].as_u64().unwrap()
}

#[test]
fn p9_a_turn_that_runs_is_answered_before_the_gateway_stops() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({"latency_ms": 600})).start();
    let reply = accepted(&gateway.client, "steady", "k1", "one last thing");
    let status = gateway.stop();
    assert!(reply.streamed().unwrap().contains("“one last thing”"));
    assert_eq!(status.code(), Some(0));
    assert!(!place.file("home/gateway.pid").exists() && !place.file("home/throughline.address").exists());
    assert_eq!(place.asked().len(), 1);
}

#[test]
fn p8_what_waits_at_a_stop_is_answered_now_or_after_the_next_start_and_never_twice() {
    let place = Place::new();
    // The first, during which the others arrive, fits into the drain; not all of the others do.
    place.write("home/config.yaml", "agent:\n  restart_drain_timeout: 2.5\n");
    let slow =
        json!({"latency_ms": 400, "rules": [{"when": {"contains": "question 0"}, "latency_ms": 1500}]});
    let gateway = place.rehearsing(&slow).start();
    let texts: Vec<String> = (0..8).map(|nth| format!("question {nth}")).collect();
    let mut asked: Vec<(String, JoinHandle<Option<String>>)> = Vec::new();
    for text in &texts {
        let reply = accepted(&gateway.client, "queue", &format!("key of {text}"), text);
        asked.push((text.clone(), thread::spawn(move || reply.streamed().ok())));
    }
    until("the queue has formed", || waiting(&gateway) == 7);
    assert_eq!(gateway.stop().code(), Some(0));
    let answered = asked.into_iter().filter_map(|(_, answer)| answer.join().unwrap()).count();
    assert!((1..8).contains(&answered), "{answered} of 8 were answered while it stopped");

    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    for text in &texts {
        let reply = accepted(&gateway.client, "queue", &format!("key of {text}"), text);
        assert!(reply.streamed().unwrap().ends_with(&format!("You said: “{text}”")));
    }
    let rows = gateway.client.transcript("queue");
    let users: Vec<_> = rows.iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
    assert_eq!(users, texts.iter().collect::<Vec<_>>());
    assert_eq!(rows.len(), 16);
    assert_eq!(gateway.stop().code(), Some(0));
    // The one that was running when the time was up is asked for again; nothing else is.
    assert!((8..=9).contains(&place.asked().len()), "the model was asked {} times", place.asked().len());
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
    let unread = accepted(&gateway.client, "steady", "k1", "nobody reads this");
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for {:?}", began.elapsed());
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
    let gateway = place.rehearsing(&json!({"latency_ms": 300})).start();
    drop(accepted(&gateway.client, "steady", "k1", "never mind me"));
    until("it is answered", || gateway.client.transcript("steady").len() == 2);
    let reply = accepted(&gateway.client, "steady", "k1", "never mind me");
    assert_eq!(reply.header("x-request-id"), "steady/1");
    assert!(reply.streamed().unwrap().contains("“never mind me”"));
    assert_eq!(place.asked().len(), 1);
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
    let gateway = place.launch().start();
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(15), "it took {took:?}");
    let conn = rusqlite::Connection::open(place.file("home/state.db")).unwrap();
    let left: i64 = conn.query_row("SELECT count(*) FROM tl_unindexed", [], |row| row.get(0)).unwrap();
    assert!(left > 0, "this machine is too quick for this test");
    drop(conn);
    let found = place.launch().arg("sessions").arg("search").arg("needle40000").run();
    assert!(found.stdout.contains("long"), "{}{}", found.stdout, found.stderr);
}
