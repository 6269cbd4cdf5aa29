//! Large messages, made to be laborious: only their sender waits for them.

use crate::gateway::{Client, Gateway, Place, said};
use serde_json::{Value, json};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// As much as a body may hold, nearly.
const LENGTH: usize = 9 << 20;
/// How long a question for the gateway's health may take. What keeps a worker of the runtime busy until a message
/// is read through would keep them waiting for longer, even if it were quick: several such messages are on their way.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same on a machine that is busy: three messages take so long in all, and no other request waits for one of them.
fn most(all: Duration) -> Duration {
    PATIENCE.max(all / 4)
}

/// What is repeated in them.
const UNITS: [&str; 3] = ["<memory-context>", "</memory-context", "<memory-<memory-context>"];
/// Part of every request for a summary, and of nothing else.
const ASKS_FOR_SUMMARY: &str = "Historical Task Snapshot";
const SUMMARY: &str = "## Goal\nRead the long text and go on.\n\n## Completed Actions\nThe long text was read; it says the \
    same thing again and again.\n\n## Critical Context\nThe user wants short answers.";

/// One thread serves all requests: work that holds it up holds up all of them.
fn gateway(place: &Place) -> Gateway {
    place.write("home/config.yaml", "model: {default: rehearsal, context_length: 40000}\n");
    let script = json!({"latency_ms": 5, "rules": [
        {"when": {"contains": ASKS_FOR_SUMMARY}, "say": SUMMARY, "usage": {"input": 100, "output": 80}},
        {"when": {}, "say": "noted", "usage": {"input": 500, "output": 2}},
    ]});
    place.rehearsing(&script).env("TOKIO_WORKER_THREADS", "1").start()
}

fn long(unit: &str) -> String {
    format!("{}x", unit.repeat(LENGTH / unit.len()))
}

fn sent(gateway: &Gateway, body: Value) -> JoinHandle<u16> {
    let client = gateway.client.clone();
    thread::spawn(move || client.chat(&[], &body).map_or(0, |answer| answer.status))
}

/// The longest that a question for the gateway's health took meanwhile, and how many questions there were.
fn asked_until(client: &Client, mut is_over: impl FnMut() -> bool) -> (Duration, u32) {
    let (mut longest, mut times) = (Duration::ZERO, 0);
    while !is_over() {
        let began = Instant::now();
        assert_eq!(client.get("/health").unwrap().status, 200);
        (longest, times) = (longest.max(began.elapsed()), times + 1);
        thread::sleep(Duration::from_millis(20));
    }
    (longest, times)
}

/// Waits for a moment before all of them were answered.
fn reach(senders: &[JoinHandle<u16>], mut is_there: impl FnMut() -> bool) {
    while !is_there() {
        assert!(!senders.iter().all(JoinHandle::is_finished), "all of them were answered before");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn p31_three_large_hostile_messages_delay_neither_health_nor_a_stop() {
    let place = Place::new();
    let gateway = gateway(&place);
    let senders = UNITS.map(|unit| sent(&gateway, said(&long(unit))));
    let began = Instant::now();
    let (longest, times) = asked_until(&gateway.client, || senders.iter().all(|sender| sender.is_finished()));
    let all = began.elapsed();
    println!("of {times}, one waited for {longest:?} of {all:?}");
    assert!(longest < most(all), "of {times}, one waited for {longest:?} of {all:?}");
    assert!(senders.into_iter().all(|sender| sender.join().unwrap() == 200));

    // The same again, and a stop while they are being read.
    let senders = [UNITS[0]; 3].map(|unit| sent(&gateway, said(&long(unit))));
    reach(&senders, || gateway.client.read("/api/control/status")["running_turns"] != 0);
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    // A stop waits for turns that are at work, for 30 s at most.
    assert!(began.elapsed() < Duration::from_secs(40), "it took {:?} to stop", began.elapsed());
    senders.into_iter().for_each(|sender| _ = sender.join().unwrap());
}

#[test]
fn p31_compressing_three_large_hostile_conversations_delays_neither_health_nor_a_stop() {
    let place = Place::new();
    let gateway = gateway(&place);
    let conversation = |unit: &str| {
        let text = |role: &str, text: &str| json!({"role": role, "content": text});
        let short = ["assistant", "user", "assistant", "user"].map(|role| text(role, "and then?"));
        let messages = [text("user", &long(unit))]
            .into_iter()
            .chain(short)
            .chain([text("assistant", "so"), text("user", "go on")]);
        json!({"model": "agent", "messages": messages.collect::<Vec<_>>()})
    };
    let senders = UNITS.map(|unit| sent(&gateway, conversation(unit)));
    let began = Instant::now();
    let (longest, times) = asked_until(&gateway.client, || senders.iter().all(|sender| sender.is_finished()));
    let all = began.elapsed();
    println!("of {times}, one waited for {longest:?} of {all:?}");
    assert!(longest < most(all), "of {times}, one waited for {longest:?} of {all:?}");
    assert!(senders.into_iter().all(|sender| sender.join().unwrap() == 200));
    // What the model was asked to go on with held a summary, or a digest, in place of the long text.
    let asked: Vec<String> = place.asked().iter().map(Value::to_string).collect();
    let went_on =
        asked.iter().filter(|request| request.contains("go on") && !request.contains(ASKS_FOR_SUMMARY));
    let lengths: Vec<_> = went_on.map(String::len).collect();
    assert!(lengths.len() == UNITS.len() && lengths.iter().all(|length| *length < 1 << 20), "{lengths:?}");

    // The same again, and a stop while they are being compressed.
    let compressions = || gateway.log().matches("context compression started").count();
    let before = compressions();
    let senders = UNITS.map(|unit| sent(&gateway, conversation(unit)));
    reach(&senders, || compressions() > before);
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?} to stop", began.elapsed());
    senders.into_iter().for_each(|sender| _ = sender.join().unwrap());
}
