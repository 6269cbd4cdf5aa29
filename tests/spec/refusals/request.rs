//! Requests that cannot be meant. Each gets a 4xx in OpenAI's shape, and leaves no trace.

use super::{discreet, says};
use crate::gateway::{Client, Place, Whole, said};
use serde_json::{Value, json};

const SESSION: &str = "X-Hermes-Session-Id";
const KEY: &str = "Idempotency-Key";

/// Its status and code, and that it says these words and no secret.
fn refused(reply: &Whole, status: u16, code: &str, words: &[&str]) {
    let (found, message) = reply.error();
    assert_eq!((reply.status, found.as_str()), (status, code), "{message}");
    says(&message, words);
    discreet(&reply.text());
}

fn raw(client: &Client, body: &[u8]) -> Whole {
    client.send("POST", "/v1/chat/completions", &[], body).unwrap().whole().unwrap()
}

#[test]
fn each_request_gets_an_answer_and_only_messages_are_kept() {
    let place = Place::new();
    place.write("home/config.yaml", "throughline:\n  body_limit_bytes: 20000\n");
    let gateway = place.launch().start();
    let client = &gateway.client;

    refused(
        &client.chat(&[], &said(&"x".repeat(20_000))).unwrap(),
        413,
        "body_too_large",
        &["20000", SESSION],
    );
    refused(&raw(client, b"{\"messages\": \"\xff\"}"), 400, "invalid_utf8", &["offset 14"]);
    refused(&raw(client, b"{\"messages\": "), 400, "invalid_json", &["line 1, column 13"]);
    refused(&raw(client, "[".repeat(10_000).as_bytes()), 400, "invalid_json", &["recursion"]);

    let messages = |messages: Value| client.chat(&[], &json!({"messages": messages})).unwrap();
    let user = json!({"role": "user", "content": "hi"});
    let call = json!({"role": "assistant", "content": null, "tool_calls":
        [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "done"});
    refused(
        &messages(json!([{"role": "narrator", "content": "x"}])),
        400,
        "invalid_role",
        &["messages[0]", "narrator"],
    );
    refused(&messages(json!([user, call, user])), 400, "broken_tool_pair", &["messages[1]", "call_1"]);
    refused(&messages(json!([user, result, user])), 400, "broken_tool_pair", &["messages[1]", "call_1"]);
    refused(
        &messages(json!([user, {"role": "assistant", "content": "x"}])),
        400,
        "invalid_last_message",
        &["messages[1]"],
    );

    let wrong = [("Authorization", "Bearer not-the-key-at-all")];
    refused(&client.chat(&wrong, &said("hi")).unwrap(), 401, "invalid_api_key", &["Authorization: Bearer"]);
    assert_eq!(client.read("/api/sessions")["data"], json!([]), "a refused request left something behind");
    discreet(&gateway.log());
}

#[test]
fn p11_a_snapshot_is_not_written_to() {
    let place = Place::new();
    let gateway = place.launch().start();
    gateway.client.say("steady", "hello").said();
    let snapshot = "steady.snapshot.20260528T093510000000Z";
    refused(&gateway.client.say(snapshot, "hello"), 400, "invalid_session", &["snapshot"]);
    let path = format!("/api/sessions/{snapshot}/messages");
    assert_eq!(gateway.client.get(&path).unwrap().status, 400);
}

#[test]
fn p1_an_ended_session_is_not_written_to() {
    let place = Place::new();
    let gateway = place.launch().start();
    gateway.client.say("steady", "hello").said();
    let ended =
        gateway.client.post("/api/sessions/steady/commands", &[], &json!({"command": "/new"})).unwrap();
    assert_eq!(ended.status, 200, "{}", ended.text());
    refused(&gateway.client.say("steady", "are you there?"), 409, "session_ended", &["steady", "ended"]);
    assert_eq!(gateway.client.transcript("steady").len(), 2);
}

#[test]
fn p7_a_key_belongs_to_one_request() {
    let place = Place::new();
    let gateway = place.launch().start();
    let client = &gateway.client;
    let headers = [(SESSION, "steady"), (KEY, "k1")];
    let first = client.chat(&headers, &said("hello")).unwrap();
    refused(
        &client.chat(&headers, &said("goodbye")).unwrap(),
        422,
        "idempotency_key_reused",
        &["different body", "new key"],
    );
    let elsewhere = [(SESSION, "other"), (KEY, "k1")];
    refused(
        &client.chat(&elsewhere, &said("hello")).unwrap(),
        422,
        "idempotency_key_reused",
        &["different body", "new key"],
    );
    assert_eq!(client.chat(&headers, &said("hello")).unwrap().body, first.body);
    assert_eq!(client.transcript("steady").len(), 2);
    assert_eq!(client.get("/api/sessions/other").unwrap().status, 404);
    let long = "k".repeat(256);
    let reply = client.chat(&[(KEY, &long)], &said("hello")).unwrap();
    assert_eq!(reply.status, 400);
    says(&reply.error().1, &["Idempotency-Key", "255"]);
}
