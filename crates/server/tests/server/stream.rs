//! Chat completions in pieces.

use crate::agent_api::{Script, answer, thoughts, words};
use crate::client::{Api, options};
use axum::body::BodyDataStream;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_core::port::Update;
use throughline_server::ServerOptions;
use tokio::sync::Semaphore;
use tower::ServiceExt;

fn ask() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true})
}

#[tokio::test]
async fn a_stream_is_role_pieces_reason_and_done() {
    let api = Api::new();
    let mut said = answer("Hello!");
    said.said.reasoning.text = Some("think".into());
    let ending = crate::agent_api::Ending::Answer(said);
    api.api.next(Script { updates: vec![thoughts("think"), words("Hel"), words("lo!")], ending, gate: None });
    let reply = api.chat(ask()).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("cache-control"), "no-cache");
    let deltas: Vec<_> = reply.chunks().iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect();
    assert_eq!(
        deltas,
        [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "think"}),
            json!({"content": "Hel"}),
            json!({"content": "lo!"}),
            json!({}),
        ]
    );
    let chunks = reply.chunks();
    assert!(
        chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["created"] == chunks[0]["created"])
    );
    assert!(
        chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk.get("usage").is_none())
    );
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(chunks[..4].iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    assert_eq!(reply.events().last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn usage_comes_last_for_those_who_ask() {
    let api = Api::new();
    let mut body = ask();
    body["stream_options"] = json!({"include_usage": true});
    let chunks = api.chat(body).await.chunks();
    let (last, before) = chunks.split_last().unwrap();
    assert!(before.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(13)));
}

#[tokio::test]
async fn p10_the_streamed_text_ends_in_the_whole_answer_whatever_came_before() {
    let api = Api::new();
    for (updates, joined, torn) in [
        (vec![], "Hello!", false),
        (vec![words("Hel")], "Hello!", false),
        (vec![Update::Troubled("away".into()), words("Hel")], "Hello!", false),
        (vec![words("Hel"), Update::Restarted, words("Hel"), words("lo!")], "Hello!", false),
        (vec![words("Oh, "), Update::Restarted, words("Hello!")], "Oh, \n\nHello!", true),
        (vec![words("Oh, "), Update::Restarted], "Oh, \n\nHello!", true),
    ] {
        api.api.next(Script::says("Hello!").after(updates.clone()));
        let reply = api.chat_with(&[("x-throughline-events", "tools")], ask()).await;
        assert_eq!(reply.joined(), joined, "{updates:?}");
        let last = reply.chunks().pop().unwrap();
        let expected = if torn { json!({"restarted": true, "content": "Hello!"}) } else { Value::Null };
        assert_eq!(last["throughline"], expected, "{updates:?}");
        assert!(reply.text.ends_with("data: [DONE]\n\n"));
    }
}

/// Clients of OpenAI's API pass over comments, and see in them that something happens.
#[tokio::test]
async fn p30_a_stream_says_in_a_comment_that_the_model_does_not_answer() {
    let api = Api::new();
    let trouble = Update::Troubled("gpt at localhost did not answer.\ndata: {}".into());
    api.api.next(Script::says("Hello!").after(vec![trouble.clone()]));
    let reply = api.chat(ask()).await;
    assert!(reply.text.contains("\n\n: gpt at localhost did not answer. data: {}\n\n"), "{}", reply.text);
    assert_eq!(reply.joined(), "Hello!");
    api.api.next(Script::says("Hello!").after(vec![trouble]));
    let body = json!({"input": "hi", "stream": true});
    let reply = api.post("/v1/responses", body).await;
    assert!(reply.text.contains("\n\n: gpt at localhost did not answer. data: {}\n\n"), "{}", reply.text);
}

async fn open(api: &Api) -> BodyDataStream {
    let request = crate::client::request("POST", "/v1/chat/completions", &[], ask().to_string());
    let response = api.router.clone().oneshot(request).await.unwrap();
    response.into_body().into_data_stream()
}

async fn piece(stream: &mut BodyDataStream) -> String {
    let piece = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.expect("something is said");
    String::from_utf8(piece.unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn p7_headers_leave_after_the_commit_and_done_after_the_end() {
    let api = Api::new();
    let gate = Arc::new(Semaphore::new(0));
    api.api.next(Script::says("Hello!").gated(&gate));
    let mut stream = open(&api).await;
    assert_eq!(api.api.turns(), 1, "accepted before the first byte");
    let first = piece(&mut stream).await;
    assert!(
        first.contains("Hel") && first.contains("lo!") && !first.contains("finish_reason\":\"stop"),
        "{first}"
    );
    gate.add_permits(1);
    let last = piece(&mut stream).await;
    assert!(last.ends_with("data: [DONE]\n\n"), "{last}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives() {
    let api = Api::with(ServerOptions { keep_alive: Duration::from_millis(20), ..options() });
    let gate = Arc::new(Semaphore::new(0));
    api.api.next(Script::says("Hello!").gated(&gate));
    let mut stream = open(&api).await;
    piece(&mut stream).await;
    let quiet_since = Instant::now();
    for _ in 0..3 {
        assert_eq!(piece(&mut stream).await, ": keep-alive\n\n");
    }
    assert!(quiet_since.elapsed() >= Duration::from_millis(40), "now and then, not all the time");
    gate.add_permits(1);
    assert!(piece(&mut stream).await.contains("[DONE]"));
}

#[tokio::test]
async fn written_is_said_when_the_last_byte_was_taken_and_not_before() {
    let api = Api::new();
    let gate = Arc::new(Semaphore::new(0));
    api.api.next(Script::says("Hello!").gated(&gate));
    let mut left = open(&api).await;
    piece(&mut left).await;
    drop(left); // hangs up in the middle
    gate.add_permits(1);
    assert!(api.api.state().written.is_empty());

    let unread = open(&api).await; // all of it is ready, none of it is taken
    drop(unread);
    assert!(api.api.state().written.is_empty());

    let mut read = open(&api).await;
    while read.next().await.is_some() {}
    drop(read);
    assert_eq!(api.api.state().written.len(), 1);

    let request = crate::client::request(
        "POST",
        "/v1/chat/completions",
        &[],
        json!({"messages": ask()["messages"]}).to_string(),
    );
    let response = api.router.clone().oneshot(request).await.unwrap();
    drop(response); // a plain answer that the client did not read
    assert_eq!(api.api.state().written.len(), 1);
    api.chat(json!({"messages": ask()["messages"]})).await;
    assert_eq!(api.api.state().written.len(), 2);
}
