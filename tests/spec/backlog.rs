//! Long messages that wait for a busy conversation: their texts are on disk until it is their turn, through `kill -9`,
//! and each is then asked whole, once, in its place.

use crate::gateway::{Client, Gateway, Place, Reply, said};
use serde_json::{Value, json};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SESSION: &str = "X-Hermes-Session-Id";
const KEY: &str = "Idempotency-Key";
/// The first message keeps the model busy for longer than any test takes.
const HOLD: &str = "hold";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

fn holding() -> Value {
    json!({"latency_ms": 1, "rules": [{"when": {"contains": HOLD}, "latency_ms": 600_000}]})
}

/// Sends a message and returns when it is accepted: the head of the response says so.
fn accepted(client: &Client, key: &str, body: &Value) -> Reply {
    let mut body = body.clone();
    body["stream"] = json!(true);
    let headers = [(SESSION, "busy"), (KEY, key)];
    let reply = client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap();
    assert_eq!(reply.status, 200);
    reply
}

fn waiting(gateway: &Gateway) -> u64 {
    gateway.client.read("/api/control/status")["waiting_inputs"].as_u64().unwrap()
}

/// Starts, and has the conversation wait for its first answer.
fn busy(gateway: &Gateway) -> Reply {
    let first = accepted(&gateway.client, HOLD, &said(HOLD));
    until("the first is being answered", || gateway.client.read("/api/control/status")["running_turns"] == 1);
    first
}

/// Memory of a process that is its own, rather than a copy of a file.
#[cfg(target_os = "linux")]
fn own_memory(gateway: &Gateway) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Decision 2. As they came, thirty of them took 290 MB for as long as they waited.
#[cfg(target_os = "linux")]
#[test]
fn p8_thirty_messages_of_nine_megabytes_wait_in_little_memory_through_a_kill() {
    const COUNT: u64 = 30;
    const LENGTH: usize = 9_000_000;
    const GROWTH_MAX: usize = 60 << 20;
    let place = Place::new();
    let launch = place.rehearsing(&holding());
    let gateway = launch.start();
    let _first = busy(&gateway);
    let before = own_memory(&gateway);
    let mut accepted_replies = Vec::new();
    for nth in 0..COUNT {
        let text = format!("{nth:02}").repeat(LENGTH / 2);
        accepted_replies.push(accepted(&gateway.client, &format!("key {nth}"), &said(&text)));
    }
    assert_eq!(waiting(&gateway), COUNT);
    // What reading and writing them took is given back within some seconds.
    let mut now = 0;
    let settled = || {
        now = own_memory(&gateway);
        now <= before + GROWTH_MAX
    };
    until("what waits takes little memory", settled);
    println!("{COUNT} messages of {LENGTH} bytes wait: {before} bytes before, {now} now");
    gateway.kill();

    let gateway = launch.start();
    until("they wait again", || waiting(&gateway) == COUNT);
    until("and take little memory", || own_memory(&gateway) <= before + GROWTH_MAX);
    println!("after a kill and a start: {} bytes", own_memory(&gateway));
    gateway.kill();
}

/// Also the layer of the system prompt that a request brought, and what it wished of the model.
#[test]
fn p8_p9_long_messages_that_wait_are_asked_whole_and_in_order_after_a_kill() {
    let place = Place::new();
    let gateway = place.rehearsing(&holding()).start();
    let _first = busy(&gateway);
    // Too long to wait in memory, and together too short to be compressed: the transcript is all of it.
    let texts: Vec<String> = (1..=6).map(|nth| format!("message {nth} ").repeat(300 * nth)).collect();
    let layer = |nth: usize| format!("layer {nth} ").repeat(400);
    let mut replies = Vec::new();
    for (nth, text) in texts.iter().enumerate() {
        let mut body = said(text);
        let spoken = body["messages"][0].clone();
        body["messages"] = json!([{"role": "system", "content": layer(nth)}, spoken]);
        body["temperature"] = json!(0.125);
        replies.push(accepted(&gateway.client, &format!("key {nth}"), &body));
    }
    assert_eq!(waiting(&gateway), 6);
    gateway.kill();

    let gateway = place.rehearsing(&json!({"latency_ms": 1})).start();
    until("all of them are answered", || {
        let answered =
            |rows: Vec<(String, String)>| rows.iter().filter(|(role, _)| role == "assistant").count();
        answered(gateway.client.transcript("busy")) > texts.len()
    });
    let rows = gateway.client.transcript("busy");
    let users: Vec<&str> =
        rows.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.as_str()).collect();
    let sent: Vec<&str> = [HOLD].into_iter().chain(texts.iter().map(String::as_str)).collect();
    assert_eq!(users.len(), sent.len());
    assert!(users == sent, "each is there whole, and in its place");
    assert_eq!(rows.len(), 2 * sent.len(), "each was answered");
    // The last one was asked with what it brought along.
    let asked = place.asked();
    let last = asked.last().unwrap().to_string();
    assert!(
        last.contains(layer(5).trim_end()) && !last.contains("layer 4 "),
        "its layer is the one that counts"
    );
    assert!(last.contains("0.125"), "and so is what it wished");
    assert_eq!(gateway.stop().code(), Some(0));
}
