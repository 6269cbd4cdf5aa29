use crate::server::{End, KEY, Say, Server, ask, client, failure, heard, hi, whole};
use serde_json::{Value, json};
use std::time::Duration;
use throughline_core::message::{Content, JsonText};
use throughline_core::port::Model;
use throughline_core::session::FailureKind;
use throughline_core::turn::Usage;
use throughline_models::{OpenAi, OpenAiConfig};
use throughline_net::Secret;

pub fn model(server: &Server) -> OpenAi {
    let config = OpenAiConfig {
        key: Some(Secret::new(KEY)),
        key_name: "OPENAI_API_KEY".into(),
        headers: vec![("X-Title".into(), "Throughline".into())],
        ..OpenAiConfig::new(format!("{}/v1", server.base), "test-model")
    };
    OpenAi::new(config, client()).unwrap()
}

/// A stream of events, one per line of `chunks`.
fn events(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

const FULL: &str = concat!(
    ": OPENROUTER PROCESSING\r\n\r\n",
    "data: {\"id\":\"x\",\"model\":\"test-model-0613\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"hm\",\"index\":0}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning\":\" ü\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\" ü\",\"index\":0,\"signature\":\"sig\"}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"Grüß 🦀\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\" dich\",\"new_field\":1}}]}\r\r",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"_up\",\"arguments\":\"{\\\"a\\\"\"}},{\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"b\"},\"extra_content\":{\"g\":1}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"prompt_tokens_details\":{\"cached_tokens\":64},\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
    "data: [DONE]\n\n",
);

async fn assert_full(say: Say) {
    let server = Server::start(say).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.said.content, Content::text("Grüß 🦀 dich"));
    assert_eq!(heard(&deltas), ("Grüß 🦀 dich".into(), "hm ü".into()));
    assert_eq!(answer.said.reasoning.text.as_deref(), Some("hm ü"));
    assert_eq!(
        answer.said.reasoning.details.as_ref().map(JsonText::as_str),
        Some(r#"[{"type":"reasoning.text","text":"hm ü","index":0,"signature":"sig"}]"#)
    );
    let calls: Vec<_> = answer
        .said
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("c1", "look_up", "{\"a\":1}"), ("c2", "b", "")]);
    assert_eq!(
        answer.said.calls[1].extra.as_ref().map(JsonText::as_str),
        Some("{\"extra_content\":{\"g\":1}}")
    );
    assert_eq!(answer.said.finish.as_deref(), Some("tool_calls"));
    assert_eq!(answer.usage, Usage { input: 36, output: 20, cache_read: 64, cache_write: 0, reasoning: 5 });
    assert_eq!(answer.model, "test-model-0613");
}

#[tokio::test]
async fn a_streamed_answer_is_heard_in_full() {
    assert_full(whole(FULL)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_split_of_a_stream_gives_the_same_answer() {
    let bytes = FULL.as_bytes();
    for cut in 1..bytes.len() {
        assert_full(Say::Pieces(vec![bytes[..cut].to_vec(), bytes[cut..].to_vec()], End::Clean)).await;
    }
    assert_full(Say::Pieces(bytes.chunks(1).map(<[u8]>::to_vec).collect(), End::Clean)).await;
}

#[tokio::test]
async fn gzip_is_understood() {
    assert_full(Say::Gzip(FULL.to_owned())).await;
}

#[tokio::test]
async fn the_request_is_what_the_protocol_asks_for() {
    let server = Server::start(whole(FULL)).await;
    let model = model(&server);
    let mut asked = hi(&model);
    asked.prompt.system = Some(model.encode_system("sys"));
    asked.sampling = Some(JsonText::from_valid(r#"{"temperature":0.5}"#));
    ask(&model, asked).await.0.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/chat/completions");
    assert_eq!(seen[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(seen[0].headers["content-type"], "application/json");
    assert_eq!(seen[0].headers["x-title"], "Throughline");
    assert!(seen[0].headers["user-agent"].to_str().unwrap().starts_with("throughline/"));
    assert_eq!(
        serde_json::from_str::<Value>(&seen[0].body).unwrap(),
        json!({
            "model": "test-model",
            "messages": [{"role": "system", "content": "sys"}, {"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.5,
        })
    );
    assert!(!seen[0].body.contains("s1"), "the session is not content");
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Server::start(whole(FULL)).await;
    let model = model(&server);
    for _ in 0..5 {
        ask(&model, hi(&model)).await.0.unwrap();
    }
    let peers: std::collections::HashSet<_> = server.seen().into_iter().map(|seen| seen.peer).collect();
    assert_eq!(peers.len(), 1);
}

#[tokio::test]
async fn a_server_that_answers_with_a_document_is_understood() {
    let document = json!({
        "model": "other",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": "whole", "reasoning_content": "thought",
            "tool_calls": [{"id": 7, "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}],
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    });
    let server = Server::start(whole(&document.to_string())).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    let answer = answer.unwrap();
    assert_eq!(heard(&deltas), ("whole".into(), "thought".into()));
    assert_eq!(answer.said.reasoning.content.as_deref(), Some("thought"));
    assert_eq!(
        (answer.said.calls[0].id.as_str(), answer.said.calls[0].arguments.as_str()),
        ("7", "{\"x\":1}")
    );
    assert_eq!(
        answer.said.finish.as_deref(),
        Some("tool_calls"),
        "a call is why it stopped, whatever it says"
    );
    assert_eq!((answer.usage.input, answer.usage.output), (3, 2));
}

async fn answer_to(
    chunks: &[&str],
    end: End,
) -> Result<throughline_core::turn::Answer, throughline_core::port::ModelError> {
    let server = Server::start(Say::Pieces(vec![events(chunks).into_bytes()], end)).await;
    let model = model(&server);
    ask(&model, hi(&model)).await.0
}

const TEXT: &str = r#"{"choices":[{"delta":{"content":"hello"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn an_answer_is_whole_or_an_error() {
    for (chunks, end, expected) in [
        (vec![TEXT, STOP, "[DONE]"], End::Clean, Ok("hello")),
        (vec![TEXT, STOP, "[DONE]"], End::Hanging, Ok("hello")),
        (vec![TEXT, "[DONE]"], End::Clean, Ok("hello")),
        (vec![TEXT, STOP], End::Clean, Ok("hello")),
        (vec![TEXT, STOP], End::Broken, Ok("hello")),
        (vec![TEXT, STOP], End::Hanging, Ok("hello")),
        (vec![TEXT], End::Clean, Err(FailureKind::Broken)),
        (vec![TEXT], End::Broken, Err(FailureKind::Broken)),
        (vec![TEXT], End::Hanging, Err(FailureKind::Wait { after_seconds: None })),
        (vec![], End::Clean, Err(FailureKind::Broken)),
    ] {
        let answer = answer_to(&chunks, end).await;
        let answer = answer.as_ref().map(|answer| answer.said.content.plain()).map_err(|error| error.kind);
        assert_eq!(answer, expected.map(str::to_owned), "{chunks:?}");
    }
}

#[tokio::test]
async fn calls_are_put_together_however_they_come() {
    let call = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string();
    for (pieces, expected) in [
        // The same index for every call, told apart by id.
        (
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
                json!({"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
            ],
            vec![("a", "f", "{}"), ("b", "g", "{}")],
        ),
        // No index at all.
        (
            vec![
                json!({"id": "a", "function": {"name": "f"}}),
                json!({"function": {"arguments": "{}"}}),
                json!({"id": "b", "function": {"name": "g", "arguments": "{}"}}),
            ],
            vec![("a", "f", "{}"), ("b", "g", "{}")],
        ),
        // The name again with every piece.
        (
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}),
            ],
            vec![("a", "f", "{}")],
        ),
        // Out of order.
        (
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
                json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
                json!({"index": 0, "function": {"arguments": "}"}}),
            ],
            vec![("a", "f", "{}"), ("b", "g", "{}")],
        ),
    ] {
        let mut chunks: Vec<String> = pieces.into_iter().map(call).collect();
        chunks.push(STOP.to_owned());
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let answer = answer_to(&chunks, End::Clean).await.unwrap();
        let calls: Vec<_> = answer
            .said
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, expected);
        assert_eq!(answer.said.finish.as_deref(), Some("tool_calls"));
    }
}

#[tokio::test]
async fn p9_missing_ids_are_made_and_are_the_same_the_next_time() {
    let calls = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"g","arguments":"{}"}},{"index":2,"id":"x","function":{"name":"h","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let ids = async || {
        let answer = answer_to(&[calls], End::Clean).await.unwrap();
        answer.said.calls.into_iter().map(|call| call.id).collect::<Vec<_>>()
    };
    let first = ids().await;
    assert_eq!(first, ids().await);
    assert!(first[0].starts_with("call_") && first[1] == "x" && first[2].starts_with("call_"), "{first:?}");
    assert_ne!(first[0], first[2]);
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_broken() {
    for (chunk, words) in [
        (STOP, "it is empty: no words, no tool call (finish reason: stop)"),
        (r#"{"choices":[{"delta":{"content":" \n"},"finish_reason":"stop"}]}"#, "it is empty"),
        (
            r#"{"choices":[{"delta":{"reasoning":"hm"},"finish_reason":"length"}]}"#,
            "it holds thoughts, but no words and no tool call (finish reason: length)",
        ),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            "without saying which",
        ),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]},"finish_reason":"length"}]}"#,
            "max_tokens",
        ),
    ] {
        let error = answer_to(&[chunk], End::Clean).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Broken);
        assert!(error.message.contains(words), "{}", error.message);
    }
    let error = answer_to(&[r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#], End::Clean)
        .await
        .unwrap_err();
    assert_eq!(error.kind, FailureKind::Refused);
    let refusal = r#"{"choices":[{"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}"#;
    assert_eq!(answer_to(&[refusal], End::Clean).await.unwrap().said.content, Content::text("I will not."));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    for (chunk, kind) in [
        (
            r#"{"error":{"code":502,"message":"Provider disconnected"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            FailureKind::Wait { after_seconds: None },
        ),
        (r#"{"error":{"message":"maximum context length is 10"}}"#, FailureKind::TooLong),
        (r#"{"object":"error","message":"bad","type":"invalid_request_error"}"#, FailureKind::Refused),
        (r#"{"error":"gone wrong"}"#, FailureKind::Broken),
    ] {
        let error = answer_to(&[TEXT, chunk, "[DONE]"], End::Clean).await.unwrap_err();
        assert_eq!(error.kind, kind, "{}", error.message);
    }
}

#[tokio::test]
async fn an_abandoned_request_is_let_go() {
    let server = Server::start(Say::Pieces(vec![events(&[TEXT]).into_bytes()], End::Hanging)).await;
    let model = model(&server);
    let asking = model.ask(hi(&model), &|_| {});
    assert!(tokio::time::timeout(Duration::from_millis(100), asking).await.is_err());
    assert_eq!(server.seen().len(), 1);
    for _ in 0..200 {
        if server.let_go() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server still thinks that someone listens");
}

#[tokio::test]
async fn what_was_streamed_before_a_failure_is_no_answer() {
    let server = Server::start(Say::Pieces(vec![events(&[TEXT]).into_bytes()], End::Broken)).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    assert_eq!(heard(&deltas).0, "hello");
    assert_eq!(answer.unwrap_err().kind, FailureKind::Broken);
    assert!(failure(&model).await.message.contains("test-model"));
}
