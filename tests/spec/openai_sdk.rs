//! The official OpenAI SDK for Python in conversation with the gateway, through kills and restarts.
//! What is said and checked is in `tests/peers/openai_sdk.py`; here the gateway dies when it is told to.

use crate::gateway::{Client, Place, until};
use crate::peers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

/// What is to be cut is not answered before it has been.
fn script(cut: &[String]) -> Value {
    let answered = cut.iter().map(|text| json!({"when": {"contains": text}, "latency_ms": 0}));
    let unanswered = json!({"when": {"contains": "slowly"}, "never": true});
    json!({ "rules": answered.chain([unanswered]).collect::<Vec<Value>>() })
}

#[test]
fn p7_p9_the_openai_sdk_holds_its_conversations_through_kills_and_restarts() {
    let place = Place::new();
    let mut cut = Vec::new();
    let launch = place.rehearsing(&script(&cut));
    let mut gateway = launch.start();
    let Some(mut sdk) = peers::openai_sdk(launch.port(), &gateway.client.key) else { return };
    let mut answers = sdk.stdin.take().unwrap();
    for line in BufReader::new(sdk.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        println!("{line}");
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("kill", _) => gateway.kill(),
            ("stop", _) => drop(gateway.stop()),
            ("cut", text) => {
                until(&format!("the model is asked: {text}"), || is_asked(&place, text));
                gateway.kill();
                cut.push(text.to_owned());
                place.write("script.json", script(&cut).to_string()); // the next start reads it
            }
            _ => continue,
        }
        gateway = launch.start();
        if !line.starts_with("cut") {
            answers.write_all(b"done\n").unwrap();
        }
    }
    assert!(sdk.wait().unwrap().success(), "the SDK's script failed; its last words are above");
    every_message_was_kept_once(&gateway.client);
    gateway.stop();
}

fn is_asked(place: &Place, text: &str) -> bool {
    let said_last =
        |prompt: &Value| prompt["messages"].as_array().unwrap().last().unwrap()["content"] == text;
    place.asked().iter().any(said_last)
}

/// In no session has anything but a word meant twice been said twice, and the store finds nothing wrong.
fn every_message_was_kept_once(client: &Client) {
    let sessions = client.read("/api/sessions?limit=200");
    for session in sessions["data"].as_array().unwrap() {
        let session = session["id"].as_str().unwrap();
        let mut counts = BTreeMap::new();
        for (role, text) in client.transcript(session) {
            *counts.entry((role, text)).or_insert(0) += 1;
        }
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty() || session == "sdk-yes", "{session}: {twice:?}");
    }
    assert_eq!(client.read("/api/control/check")["data"], json!([]));
}
