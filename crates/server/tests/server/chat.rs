//! Chat completions in one piece: where a request goes, and what comes back.

use crate::agent_api::{Ending, START, Script, answer};
use crate::client::{Api, system_of};
use serde_json::{Value, json};
use throughline_core::input::Kind;
use throughline_core::route::Target;
use throughline_core::{Content, Message};

fn says(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

#[tokio::test]
async fn a_completion_has_openais_shape() {
    let api = Api::new();
    let reply = api.chat(json!({"model": "gpt", "messages": [says("user", "hi")]})).await;
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("chatcmpl-") && id.len() == 9 + 24, "{id}");
    assert_eq!(
        reply.json(),
        json!({
            "id": id,
            "object": "chat.completion",
            "created": START / 1_000_000,
            "model": "gpt",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "You said: hi", "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        })
    );
    assert_eq!(reply.header("x-hermes-session-id"), "s2");
    assert_eq!(reply.header("x-request-id"), "s2/1");
    assert_eq!(reply.header("content-length"), reply.text.len().to_string());
}

#[tokio::test]
async fn reasoning_and_the_reason_for_the_end_are_shown() {
    let api = Api::new();
    for (word, reason) in
        [("max_tokens", "length"), ("content_filter", "content_filter"), ("end_turn", "stop")]
    {
        let mut answer = answer("hm");
        answer.said.reasoning.text = Some("let me think".into());
        answer.said.finish = Some(word.into());
        api.api.next(Script { updates: vec![], ending: Ending::Answer(answer), gate: None });
        let choice = &api.chat(json!({"messages": [says("user", "hi")]})).await.json()["choices"][0];
        assert_eq!(choice["message"]["reasoning_content"], "let me think");
        assert_eq!(choice["finish_reason"], reason);
    }
}

#[tokio::test]
async fn p1_without_a_session_a_client_goes_on_where_its_history_ends() {
    let api = Api::new();
    let mut history = vec![says("system", "Be brief."), says("user", "hi")];
    let first = api.chat(json!({"messages": history})).await;
    let session = first.header("x-hermes-session-id").to_owned();
    assert_eq!(api.api.last().target, Target::Fresh);
    for text in ["and?", "go on", "more"] {
        let before = history.len();
        history.push(says(
            "assistant",
            &format!("You said: {}", history[before - 1]["content"].as_str().unwrap()),
        ));
        history.push(says("user", text));
        let reply = api.chat(json!({"messages": history})).await;
        assert_eq!(reply.header("x-hermes-session-id"), session, "{text}");
        assert!(matches!(api.api.last().target, Target::Thread { .. }));
    }
    assert_eq!(api.api.state().sessions.len(), 1);
}

#[tokio::test]
async fn what_is_not_at_the_tip_or_unknown_becomes_a_session_with_that_history() {
    let api = Api::new();
    let ask = |answer: &str, text: &str| json!({"messages": [says("user", "hi"), says("assistant", answer), says("user", text)]});
    api.chat(json!({"messages": [says("user", "hi")]})).await;
    let one = api.chat(ask("You said: hi", "a")).await;
    let other = api.chat(ask("You said: hi", "b")).await;
    let edited = api.chat(ask("You said: HI", "c")).await;
    assert_eq!(one.header("x-hermes-session-id"), "s2");
    for reply in [other, edited] {
        let session = reply.header("x-hermes-session-id").to_owned();
        assert_ne!(session, "s2");
        let state = api.api.state();
        let rows = &state.sessions[&session.parse().unwrap()].rows;
        let roles: Vec<_> = rows.iter().map(|(_, message)| message.role()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        assert!(rows.windows(2).all(|pair| pair[0].1.at <= pair[1].1.at), "in order of time, too");
    }
}

#[tokio::test]
async fn p31_two_callers_who_say_the_same_never_share() {
    let api = Api::new();
    let next = |user: &str| json!({"user": user, "messages": [says("user", "hi"), says("assistant", "You said: hi"), says("user", "more")]});
    api.chat(json!({"user": "ann", "messages": [says("user", "hi")]})).await;
    let ann = api.api.last().birth;
    api.chat(json!({"user": "bob", "messages": [says("user", "hi")]})).await;
    let bob = api.api.last().birth;
    assert_eq!((ann.user.as_deref(), bob.user.as_deref()), (Some("ann"), Some("bob")));
    assert_ne!(ann.principal, bob.principal);
    let (ann, bob) = (api.chat(next("ann")).await, api.chat(next("bob")).await);
    assert_ne!(ann.header("x-hermes-session-id"), bob.header("x-hermes-session-id"));
    assert_eq!(api.api.state().sessions.len(), 2);
    let keyed =
        api.chat_with(&[("x-hermes-session-key", "room 5")], json!({"messages": [says("user", "hi")]})).await;
    assert_eq!(keyed.header("x-hermes-session-key"), "room 5");
    assert!(
        ![ann, bob]
            .iter()
            .any(|reply| reply.header("x-hermes-session-id") == keyed.header("x-hermes-session-id"))
    );
}

#[tokio::test]
async fn with_a_session_stored_history_wins_and_the_last_message_is_the_input() {
    let api = Api::new();
    let header = [("x-hermes-session-id", "mine")];
    let body = json!({"messages": [says("system", "Be brief."), says("user", "old"), says("assistant", "x"), says("user", "new")]});
    let reply = api.chat_with(&header, body).await;
    assert_eq!(reply.header("x-hermes-session-id"), "mine");
    let submission = api.api.last();
    assert_eq!(submission.target, Target::Session("mine".parse().unwrap()));
    assert_eq!(submission.birth.source, "api_server");
    assert_eq!(system_of(&submission), Some("Be brief."));
    assert_eq!(
        submission.birth.imported.iter().map(Message::role).collect::<Vec<_>>(),
        ["user", "assistant"]
    );
    let Kind::Request(request) = submission.kind else { panic!("a request") };
    assert_eq!(request.content, Content::text("new"));
    assert_eq!(request.thread, None, "its own view of the history is not what finds it");
    assert!(submission.may_be_retry);
    let changed =
        api.chat_with(&header, json!({"messages": [says("system", "Be long."), says("user", "x")]})).await;
    assert_eq!(changed.status, 200, "another system layer is a note for the api, not an error");
    assert_eq!(system_of(&api.api.last()), Some("Be long."));
}

#[tokio::test]
async fn a_window_of_the_history_is_good_enough_where_history_is_kept() {
    let api = Api::new();
    let window =
        json!({"messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}, says("user", "hi")]});
    assert_eq!(api.chat_with(&[("x-hermes-session-id", "mine")], window.clone()).await.status, 200);
    assert_eq!(api.chat(window).await.error().1, "broken_tool_pair");
}

#[tokio::test]
async fn p13_what_cannot_be_honoured_is_refused_and_what_is_known_reaches_the_model() {
    let api = Api::new();
    for (field, value, code) in [
        ("n", json!(2), "unsupported_value"),
        ("logprobs", json!(true), "unsupported_parameter"),
        ("top_logprobs", json!(3), "unsupported_parameter"),
        ("modalities", json!(["text", "audio"]), "unsupported_value"),
        ("service_tier", json!("flex"), "unsupported_value"),
        ("functions", json!([]), "unsupported_parameter"),
        ("web_search_options", json!({}), "unknown_parameter"),
        ("frobnicate", json!(1), "unknown_parameter"),
        ("x\r\ny", json!(1), "unknown_parameter"),
    ] {
        let reply = api.chat(json!({"messages": [says("user", "hi")], field: value})).await;
        let (status, found, _) = reply.error();
        assert_eq!((status, found.as_str()), (400, code), "{field}");
        assert_eq!(reply.json()["error"]["param"], field);
    }
    assert_eq!(api.api.turns(), 0, "nothing that was refused has begun anything");
    let body = json!({
        "messages": [says("user", "hi")],
        "temperature": 0.5, "max_tokens": 9, "n": 1, "stream": false, "top_p": null, "logprobs": false,
        "metadata": {"a": "b"}, "store": true, "service_tier": "auto", "prompt_cache_key": "k",
    });
    assert_eq!(api.chat(body).await.status, 200);
    let Kind::Request(request) = api.api.last().kind else { panic!("a request") };
    assert_eq!(request.sampling.unwrap().as_str(), r#"{"temperature":0.5,"max_tokens":9}"#);
}

#[tokio::test]
async fn what_waited_in_a_session_that_ended_is_answered_in_the_next() {
    let api = Api::new();
    api.chat_with(&[("x-hermes-session-id", "next")], json!({"messages": [says("user", "hi")]})).await;
    api.api.next(Script { updates: vec![], ending: Ending::Move("next".parse().unwrap()), gate: None });
    let reply = api.chat(json!({"messages": [says("user", "moved")]})).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "You said: hi");
    assert_eq!(api.api.state().written.last().unwrap().0.as_str(), "next");
}
