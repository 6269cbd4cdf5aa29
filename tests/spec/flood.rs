//! Large messages, made to be laborious: whoever sends them waits for them, and nobody else does.

use crate::gateway::{Client, Place, said};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// As much as a body may hold, nearly.
const LENGTH: usize = 9 << 20;
/// How long somebody may wait who only asks how the gateway is. What keeps a worker of the runtime busy until a message
/// is read through would keep them waiting for longer, even if it were quick: three such messages are on their way.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest that anybody who asked for the gateway's health meanwhile had to wait, and how often somebody asked.
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

#[test]
fn p31_three_large_hostile_messages_delay_neither_health_nor_a_stop() {
    let place = Place::new();
    // Compressing such a conversation is long work of another kind.
    place.write("home/config.yaml", "compression: {enabled: false}\n");
    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    let units = ["<memory-context>", "</memory-context", "<memory-<memory-context>"];
    let senders: Vec<_> = units
        .iter()
        .map(|unit| {
            let (client, text) = (gateway.client.clone(), format!("{}x", unit.repeat(LENGTH / unit.len())));
            thread::spawn(move || client.chat(&[], &said(&text)).unwrap().status)
        })
        .collect();
    let (longest, times) = asked_until(&gateway.client, || senders.iter().all(|sender| sender.is_finished()));
    assert!(longest < PATIENCE, "of {times}, one waited for {longest:?}");
    assert!(senders.into_iter().all(|sender| sender.join().unwrap() == 200));

    // The same again, and a stop while they are being read.
    let text = units[0].repeat(LENGTH / units[0].len());
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let (client, text) = (gateway.client.clone(), text.clone());
            thread::spawn(move || drop(client.chat(&[], &said(&text))))
        })
        .collect();
    let began = Instant::now();
    assert_eq!(gateway.stop().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?} to stop", began.elapsed());
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}
