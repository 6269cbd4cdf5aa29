//! The same request twice: one turn, one answer, the same bytes.

use crate::client::Api;
use serde_json::{Value, json};
use throughline_core::input::Kind;

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}]})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn p7_a_key_makes_one_turn_and_its_replay_is_identical() {
    let api = Api::new();
    let key = [("idempotency-key", "k|1")];
    let first = api.chat_with(&key, hi()).await;
    api.api.sleep(3600);
    let spelled = "{ \"messages\" : [ {\"content\":\"hi\", \"role\":\"user\"} ] }";
    let again = api.send(crate::client::request("POST", "/v1/chat/completions", &key, spelled)).await;
    assert_eq!((first.status, first.text), (again.status, again.text));
    assert_eq!(first.headers, again.headers);
    assert_eq!(api.api.turns(), 1);
}

#[tokio::test]
async fn p7_a_streamed_replay_has_the_same_text_under_the_same_id() {
    let api = Api::new();
    let key = [("idempotency-key", "k")];
    let first = api.chat_with(&key, streamed(hi())).await;
    api.api.sleep(3600);
    let again = api.chat_with(&key, streamed(hi())).await;
    assert_eq!(api.api.turns(), 1);
    assert_eq!(first.joined(), "You said: hi");
    assert_eq!(first.joined(), again.joined());
    for chunk in again.chunks() {
        assert_eq!(chunk["id"], first.chunks()[0]["id"]);
        assert_eq!(chunk["created"], first.chunks()[0]["created"]);
    }
    assert!(again.text.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn p7_the_same_key_with_another_body_or_place_is_refused() {
    let api = Api::new();
    let key = ("idempotency-key", "k");
    api.chat_with(&[key], hi()).await;
    let other = json!({"messages": [{"role": "user", "content": "ho"}]});
    assert_eq!(api.chat_with(&[key], other).await.error().0, 422);
    assert_eq!(api.chat_with(&[key], streamed(hi())).await.error().0, 422);
    assert_eq!(api.chat_with(&[key, ("x-hermes-session-id", "mine")], hi()).await.error().0, 422);
    assert_eq!(api.post_with("/v1/responses", &[key], json!({"input": "hi"})).await.error().0, 422);
    let another = api.chat_with(&[key, ("x-hermes-session-key", "b")], hi()).await;
    assert_eq!(another.status, 200, "keys of different callers are different keys");
    assert_eq!(api.api.turns(), 2);
}

#[tokio::test]
async fn p7_a_marked_retry_is_found_by_its_words_until_the_answer_was_written() {
    let api = Api::new();
    let request = |count: &'static str| [("x-stainless-retry-count", count)];
    api.chat_with(&request("0"), hi()).await;
    assert!(!api.api.last().may_be_retry);
    api.api.state().written.clear(); // as if the client had gone before the end
    let retry = api.chat_with(&request("1"), hi()).await;
    assert!(api.api.last().may_be_retry);
    assert_eq!((api.api.turns(), retry.header("x-request-id").ends_with("/1")), (1, true));
    assert_eq!(api.api.state().written.len(), 1, "now it was written");
    api.chat_with(&request("1"), hi()).await;
    assert_eq!(api.api.turns(), 2, "the same words again are a new request");
}

#[tokio::test]
async fn p7_requests_without_a_key_are_told_apart_and_those_with_one_have_no_other() {
    let api = Api::new();
    api.chat(hi()).await;
    let one = api.api.last();
    api.chat(hi()).await;
    let other = api.api.last();
    assert_ne!(one.key, other.key);
    let implicit = |kind: &Kind| match kind {
        Kind::Request(request) => request.implicit_key,
        _ => None,
    };
    assert!(implicit(&one.kind).is_some());
    assert_eq!(implicit(&one.kind), implicit(&other.kind));
    assert_eq!(api.api.turns(), 2);
    api.chat_with(&[("x-hermes-session-id", "mine")], hi()).await;
    assert_ne!(implicit(&api.api.last().kind), implicit(&one.kind), "another session, another request");
    api.chat_with(&[("idempotency-key", "k"), ("x-stainless-retry-count", "2")], hi()).await;
    let named = api.api.last();
    assert_eq!((implicit(&named.kind), named.may_be_retry), (None, false));
}
