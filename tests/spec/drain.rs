//! How a gateway stops: what runs is finished, what waits is finished or kept, nothing happens twice.

use crate::gateway::{Client, Gateway, Place, Reply, said};
use serde_json::json;
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
    // Three turns fit into the drain, the others do not.
    place.write("home/config.yaml", "agent:\n  restart_drain_timeout: 1\n");
    let launch = place.rehearsing(&json!({"latency_ms": 350}));
    let gateway = launch.start();
    let texts: Vec<String> = (0..8).map(|nth| format!("question {nth}")).collect();
    let mut asked: Vec<(String, JoinHandle<Option<String>>)> = Vec::new();
    for text in &texts {
        let reply = accepted(&gateway.client, "queue", &format!("key of {text}"), text);
        asked.push((text.clone(), thread::spawn(move || reply.streamed().ok())));
    }
    until("the queue has formed", || waiting(&gateway) >= 6);
    assert_eq!(gateway.stop().code(), Some(0));
    let answered = asked.into_iter().filter_map(|(_, answer)| answer.join().unwrap()).count();
    assert!((1..8).contains(&answered), "{answered} of 8 were answered while it stopped");

    let gateway = launch.start();
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
