//! The system prompt: the agent's own words, then the client's layer, frozen until the client changes it.

use crate::gateway::{Client, Place, said, until};
use crate::model::ModelServer;
use serde_json::{Value, json};
use std::time::Duration;

const SESSION: &str = "X-Hermes-Session-Id";

fn say(client: &Client, system: &str, text: &str) -> u16 {
    let mut body = said(text);
    let spoken = body["messages"][0].clone();
    body["messages"] = json!([{"role": "system", "content": system}, spoken]);
    client.chat(&[(SESSION, "layered")], &body).unwrap().status
}

fn asked_about<'a>(asked: &'a [Value], text: &str) -> &'a Value {
    asked
        .iter()
        .find(|request| request.to_string().contains(text))
        .unwrap_or_else(|| panic!("no request asked {text}"))
}

/// A layer counts from the turn of the request that brought it, not from its arrival.
#[test]
fn p8_a_request_that_waits_keeps_the_prompt_it_came_with() {
    let place = Place::new();
    place.write("home/SOUL.md", "You are Ada.");
    let model = ModelServer::start(Duration::ZERO);
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    model.hold();
    let gateway = place.launch().start();
    let client = &gateway.client;
    let has = |name: &str, count: u64| {
        until(&format!("{name}: {count}"), || client.read("/api/control/status")[name] == count);
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| say(client, "Layer one.", "first"));
        has("running_turns", 1);
        let second = scope.spawn(|| say(client, "Layer one.", "second"));
        has("waiting_inputs", 1);
        let third = scope.spawn(|| say(client, "Layer two.", "third"));
        has("waiting_inputs", 2);
        model.release();
        assert_eq!([first, second, third].map(|sent| sent.join().unwrap()), [200; 3]);
    });
    let asked = model.requests();
    for (text, layer, other) in [
        ("first", "Layer one.", "Layer two."),
        ("second", "Layer one.", "Layer two."),
        ("third", "Layer two.", "Layer one."),
    ] {
        let request = asked_about(&asked, text).to_string();
        assert!(
            request.contains("You are Ada.") && request.contains(layer) && !request.contains(other),
            "{request}"
        );
    }
    let counts = client.read("/api/control/counts")["data"].clone();
    let breaks = counts.as_array().unwrap().iter().find(|row| row["name"] == "cache_break");
    assert_eq!(breaks.map(|row| &row["count"]), Some(&json!(1)), "the one break has a name: {counts}");
}
