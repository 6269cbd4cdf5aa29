//! Everything a client can be refused, with the status and code it gets.

use crate::agent_api::{Ending, Script};
use crate::client::{Api, BODY_MAX, request};
use serde_json::{Value, json};
use throughline_core::port::Refusal;
use throughline_core::session::FailureKind;

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}]})
}

#[tokio::test]
async fn bad_bodies_get_a_sentence_and_nothing_is_submitted() {
    let api = Api::new();
    let user = json!({"role": "user", "content": "x"});
    for (body, status, code) in [
        (json!({}), 400, ""),
        (json!([]), 400, "invalid_json"),
        (json!({"messages": []}), 400, ""),
        (json!({"messages": "hi"}), 400, "invalid_type"),
        (json!({"messages": [user, {"role": "assistant", "content": "y"}]}), 400, "invalid_last_message"),
        (json!({"messages": [{"role": "user", "content": 7}]}), 400, "invalid_type"),
        (json!({"messages": [{"role": "user", "content": {"a": 1}}]}), 400, "invalid_type"),
        (json!({"messages": [{"role": "king", "content": "x"}]}), 400, "invalid_role"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "file"}]}]}),
            400,
            "unsupported_content_type",
        ),
        (
            json!({"messages": [user, {"role": "tool", "tool_call_id": "a", "content": ""}, user]}),
            400,
            "broken_tool_pair",
        ),
        (json!({"messages": [user], "n": 2}), 400, "unsupported_value"),
        (json!({"messages": [user], "n": "1"}), 400, "unsupported_value"),
        (json!({"messages": [user], "stream": "yes"}), 400, "invalid_type"),
        (json!({"messages": [user], "stream_options": 1}), 400, "invalid_type"),
        (json!({"messages": [user], "user": 1}), 400, "invalid_type"),
        (json!({"messages": [user], "user": "u".repeat(513)}), 400, ""),
        (json!({"messages": [user], "model": 1}), 400, "invalid_type"),
        (json!({"messages": [user], "temperature": "hot"}), 400, "invalid_type"),
    ] {
        let reply = api.chat(body.clone()).await;
        let (found, found_code, message) = reply.error();
        assert_eq!((found, found_code.as_str()), (status, code), "{body}: {message}");
        assert!(message.ends_with('.') && message.len() > 10, "{message}");
    }
    assert!(api.api.state().submissions.is_empty());
}

#[tokio::test]
async fn broken_bytes_get_a_sentence() {
    let api = Api::new();
    let send =
        async |bytes: Vec<u8>| api.send(request("POST", "/v1/chat/completions", &[], bytes)).await.error();
    let (status, code, message) = send(b"{\"messages\":\n [}".to_vec()).await;
    assert_eq!((status, code.as_str()), (400, "invalid_json"));
    assert!(message.contains("line 2, column 3"), "{message}");
    let (status, code, message) = send(b"{\"messages\": \"\xc3\x28\"}".to_vec()).await;
    assert_eq!((status, code.as_str()), (400, "invalid_utf8"));
    assert!(message.contains("offset 14"), "{message}");
    assert_eq!(send(br#"{"messages": [{"role": "user", "content": "\ud800"}]}"#.to_vec()).await.0, 400);
    assert_eq!(send(vec![]).await.1, "invalid_json");
    assert_eq!(send(vec![b'['; 50_000]).await.1, "invalid_json");
    let (status, code, message) = send(vec![b' '; BODY_MAX + 1]).await;
    assert_eq!((status, code.as_str()), (413, "body_too_large"));
    assert!(message.contains("X-Hermes-Session-Id"), "{message}");
    assert_eq!(send(vec![b' '; BODY_MAX]).await.1, "invalid_json", "the limit itself is allowed");
    let packed = request("POST", "/v1/chat/completions", &[("content-encoding", "gzip")], "x");
    assert_eq!(api.send(packed).await.error().0, 415);
}

#[tokio::test]
async fn bad_headers_get_a_sentence() {
    let api = Api::new();
    let long = "x".repeat(300);
    for (name, value, words) in [
        ("x-hermes-session-id", "a.snapshot.20260528T093510000000Z", "snapshot"),
        ("x-hermes-session-id", "../../etc/passwd", "printable"),
        ("x-hermes-session-id", "a b", "printable"),
        ("x-hermes-session-id", &long, "256"),
        ("x-hermes-session-key", &long, "256"),
        ("idempotency-key", &long, "255"),
    ] {
        let (status, _, message) = api.chat_with(&[(name, value)], hi()).await.error();
        assert_eq!(status, 400);
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(api.chat_with(&[("x-hermes-session-id", " ")], hi()).await.status, 200, "empty is absent");
}

#[tokio::test]
async fn each_refusal_of_the_desk_has_its_status() {
    let api = Api::new();
    let session = "s9".parse::<throughline_core::SessionId>().unwrap();
    for (refusal, status, code, retry_after, should_retry) in [
        (Refusal::Ended(session.clone()), 409, "session_ended", "", "false"),
        (Refusal::NotYours(session.clone()), 403, "session_not_yours", "", ""),
        (Refusal::OtherBody, 422, "idempotency_key_reused", "", ""),
        (Refusal::MovedOn, 409, "conversation_moved_on", "", "false"),
        (Refusal::Unknown("no such thing".into()), 404, "not_found", "", ""),
        (Refusal::Results("no call".into()), 400, "invalid_tool_results", "", ""),
        (Refusal::Draining, 503, "draining", "2", ""),
        (Refusal::Unwritable("disk full".into()), 503, "unwritable", "10", ""),
        (Refusal::Internal("it fell over".into()), 500, "internal_error", "", ""),
    ] {
        api.api.state().refuse = Some(refusal.clone());
        for path in ["/v1/chat/completions", "/v1/responses"] {
            for stream in [false, true] {
                let mut body = json!({"stream": stream});
                match path {
                    "/v1/responses" => body["input"] = json!("hi"),
                    _ => body["messages"] = hi()["messages"].clone(),
                }
                let reply = api.post(path, body).await;
                let (found, found_code, message) = reply.error();
                assert_eq!((found, found_code.as_str()), (status, code));
                assert_eq!(reply.header("retry-after"), retry_after, "{message}");
                assert_eq!(reply.header("x-should-retry"), should_retry, "{message}");
            }
        }
    }
}

#[tokio::test]
async fn each_failure_of_a_turn_has_its_status_and_is_no_answer() {
    let api = Api::new();
    for (kind, status, code) in [
        (FailureKind::Wait { after_seconds: Some(7) }, 429, "rate_limit_exceeded"),
        (FailureKind::Wait { after_seconds: None }, 503, "model_unavailable"),
        (FailureKind::Unreachable, 503, "model_unavailable"),
        (FailureKind::TooLong, 400, "context_length_exceeded"),
        (FailureKind::Credentials, 502, "model_credentials"),
        (FailureKind::Refused, 400, "model_refused"),
        (FailureKind::Broken, 502, "model_broken"),
        (FailureKind::Parked, 500, "turn_parked"),
    ] {
        api.api.next(Script::fails(kind, "The key sk-proj-abcdefghijklmnop does not work."));
        let reply = api.chat(hi()).await;
        let (found, found_code, message) = reply.error();
        assert_eq!((found, found_code.as_str()), (status, code));
        assert_eq!(message, "The key sk-… does not work.", "secrets appear in no error");
        assert_ne!(reply.header("x-hermes-session-id"), "", "it was accepted, and can be found");
        if status == 429 {
            assert_eq!(reply.header("retry-after"), "7");
        }
        api.api.next(Script::fails(kind, "no"));
        let streamed = api.chat(json!({"messages": hi()["messages"], "stream": true})).await;
        assert_eq!(streamed.status, 200);
        assert_eq!(streamed.chunks().last().unwrap()["error"]["code"], code);
        assert!(!streamed.text.contains("[DONE]"));
    }
    assert!(api.api.state().written.is_empty());
}

#[tokio::test]
async fn p8_a_gateway_that_stops_says_that_the_message_is_kept() {
    let api = Api::new();
    let stop = || Script { updates: vec![], ending: Ending::Interrupt, gate: None };
    api.api.next(stop());
    let reply = api.chat(hi()).await;
    assert_eq!(
        (reply.error().0, reply.error().1.as_str(), reply.header("retry-after")),
        (503, "interrupted", "2")
    );
    api.api.next(stop());
    let reply = api.chat(json!({"messages": hi()["messages"], "stream": true})).await;
    assert_eq!(reply.chunks().last().unwrap()["error"]["code"], "interrupted");
    assert!(!reply.text.contains("[DONE]"));
    assert!(api.api.state().written.is_empty());
}
