//! Sessions, their messages, and search.

use crate::client::{Api, Reply, request};
use serde_json::{Value, json};
use throughline_core::port::Question;

fn ids(reply: &Reply) -> Vec<String> {
    let data = reply.json()["data"].clone();
    data.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

async fn populated() -> Api {
    let api = Api::new();
    for (user, session) in [("ann", "a"), ("ann", "b"), ("bob", "c")] {
        let body = json!({"user": user, "messages": [{"role": "user", "content": "hi"}]});
        api.chat_with(&[("x-hermes-session-id", session)], body).await;
    }
    api
}

#[tokio::test]
async fn sessions_are_listed_in_pages() {
    let api = populated().await;
    let all = api.get("/api/sessions").await;
    assert_eq!(ids(&all), ["a", "b", "c"]);
    let json = all.json();
    assert_eq!(
        (&json["object"], &json["limit"], &json["has_more"]),
        (&json!("list"), &json!(50), &json!(false))
    );
    let page = api.get("/api/sessions?limit=1&offset=1").await;
    assert_eq!((ids(&page), &page.json()["has_more"]), (vec!["b".to_owned()], &json!(true)));
    assert!(ids(&api.get("/api/sessions?source=cli").await).is_empty());
    assert_eq!(api.get("/api/sessions?limit=9999").await.json()["limit"], 200);
}

#[tokio::test]
async fn one_session_and_its_messages_can_be_read() {
    let api = populated().await;
    let session = &api.get("/api/sessions/a").await.json()["session"];
    assert_eq!(
        (&session["id"], &session["source"], &session["message_count"]),
        (&json!("a"), &json!("api_server"), &json!(2))
    );
    let messages = api.get("/api/sessions/a/messages").await.json();
    let said: Vec<_> = messages["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (&message["role"], &message["content"]))
        .collect();
    assert_eq!(said, [(&json!("user"), &json!("hi")), (&json!("assistant"), &json!("You said: hi"))]);
    assert_eq!(messages["data"][1]["finish_reason"], "stop");
    assert_eq!(api.get("/api/sessions/zzz").await.error().1, "session_not_found");
    assert_eq!(api.get("/api/sessions/zzz/messages").await.error().0, 404);
    assert_eq!(api.get("/api/sessions/a.snapshot.20260528T093510000000Z").await.error().1, "invalid_session");
}

#[tokio::test]
async fn p31_a_named_caller_sees_its_own_sessions_only() {
    let api = populated().await;
    assert_eq!(ids(&api.get("/api/sessions?user=ann").await), ["a", "b"]);
    assert_eq!(ids(&api.get("/api/sessions?user=bob").await), ["c"]);
    assert_eq!(api.get("/api/sessions/a?user=bob").await.error().0, 404);
    assert_eq!(api.get("/api/sessions/a/messages?user=bob").await.error().0, 404);
    assert_eq!(api.get("/api/sessions/a/messages?user=ann").await.status, 200);
    let keyed = request("GET", "/api/sessions", &[("x-hermes-session-key", "room")], "");
    assert!(ids(&api.send(keyed).await).is_empty());
    api.get("/api/search?q=hi&user=ann").await;
    let state = api.api.state();
    let Some(Question::Search { filter, .. }) = state.questions.last() else { panic!("a search") };
    assert!(filter.principal.is_some());
}

#[tokio::test]
async fn search_finds_messages() {
    let api = Api::new();
    for path in ["/api/search?q=two%20words&limit=3", "/api/sessions/search?q=two+words&limit=3"] {
        let hits = api.get(path).await.json();
        assert_eq!(
            hits["data"],
            json!([{"session_id": "s1", "message_id": 4, "role": "user", "timestamp": 1.7e9, "snippet": ">>>two words<<<", "title": null}])
        );
    }
    for path in ["/api/search", "/api/search?q=", "/api/search?q=%20"] {
        assert_eq!(api.get(path).await.error().0, 400, "{path}");
    }
    assert_eq!(api.get(&format!("/api/search?q={}", "x".repeat(2000))).await.error().0, 400);
}

#[tokio::test]
async fn every_kind_of_content_is_shown_as_it_was_sent() {
    let api = Api::new();
    let content = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    ]);
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let body = json!({"messages": [
        {"role": "user", "content": content},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {"role": "user", "content": "and?"},
    ]});
    let session = api.chat(body).await.header("x-hermes-session-id").to_owned();
    let messages = api.get(&format!("/api/sessions/{session}/messages")).await.json()["data"].clone();
    assert_eq!(messages[0]["content"], content);
    assert_eq!((&messages[1]["content"], &messages[1]["tool_calls"]), (&Value::Null, &json!([call])));
    assert_eq!((&messages[2]["role"], &messages[2]["tool_call_id"]), (&json!("tool"), &json!("c")));
}
