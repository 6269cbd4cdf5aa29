use crate::server::{End, KEY, Say, Server, WAIT, ask, client, heard, hi, whole};
use serde_json::{Value, json};
use throughline_core::Time;
use throughline_core::message::{Body, Content, JsonText, Message};
use throughline_core::port::{Model, ModelError};
use throughline_core::session::FailureKind;
use throughline_core::turn::{Answer, Usage};
use throughline_models::anthropic::KeyHeader;
use throughline_models::{Anthropic, AnthropicConfig};
use throughline_net::Secret;

pub fn model(server: &Server) -> Anthropic {
    let config = AnthropicConfig {
        key: Some(Secret::new(KEY)),
        key_name: "ANTHROPIC_API_KEY".into(),
        ..AnthropicConfig::new(&server.base, "claude-sonnet-4-5")
    };
    Anthropic::new(config, client()).unwrap()
}

fn events(chunks: &[Value]) -> String {
    let event = |chunk: &Value| format!("event: {}\ndata: {chunk}\n\n", chunk["type"].as_str().unwrap());
    chunks.iter().map(event).collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"model": "claude-sonnet-4-5-20250929", "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 1}}})
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn piece(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 42}})
}

fn full() -> String {
    events(&[
        start(),
        json!({"type": "ping"}),
        open(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        piece(0, json!({"type": "thinking_delta", "thinking": "hm "})),
        piece(0, json!({"type": "thinking_delta", "thinking": "ü"})),
        piece(0, json!({"type": "signature_delta", "signature": "sig"})),
        json!({"type": "content_block_stop", "index": 0}),
        open(1, json!({"type": "redacted_thinking", "data": "opaque"})),
        open(2, json!({"type": "text", "text": ""})),
        piece(2, json!({"type": "text_delta", "text": "Grüß "})),
        piece(2, json!({"type": "text_delta", "text": "🦀"})),
        open(3, json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}})),
        piece(3, json!({"type": "input_json_delta", "partial_json": ""})),
        piece(3, json!({"type": "input_json_delta", "partial_json": "{\"a\""})),
        piece(3, json!({"type": "input_json_delta", "partial_json": ": 1}"})),
        open(4, json!({"type": "tool_use", "id": "toolu_2", "name": "bare", "input": {}})),
        json!({"type": "something_new", "index": 9}),
        stop("tool_use"),
        json!({"type": "message_stop"}),
    ])
}

const DETAILS: &str = r#"[{"type":"thinking","thinking":"hm ü","signature":"sig"},{"type":"redacted_thinking","data":"opaque"}]"#;

async fn assert_full(say: Say) {
    let server = Server::start(say).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    let Answer { said, usage, model } = answer.unwrap();
    assert_eq!(said.content, Content::text("Grüß 🦀"));
    assert_eq!(heard(&deltas), ("Grüß 🦀".into(), "hm ü".into()));
    assert_eq!(said.reasoning.text.as_deref(), Some("hm ü"));
    assert_eq!(said.reasoning.details.as_ref().map(JsonText::as_str), Some(DETAILS));
    let calls: Vec<_> = said
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("toolu_1", "look", "{\"a\": 1}"), ("toolu_2", "bare", "{}")]);
    assert_eq!(said.finish.as_deref(), Some("tool_calls"));
    assert_eq!(usage, Usage { input: 10, output: 42, cache_read: 70, cache_write: 20, reasoning: 0 });
    assert_eq!(usage.prompt(), 100);
    assert_eq!(model, "claude-sonnet-4-5-20250929");
}

#[tokio::test]
async fn a_streamed_answer_is_heard_in_full() {
    assert_full(whole(&full())).await;
    assert_full(Say::Gzip(full())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_split_of_a_stream_gives_the_same_answer() {
    let stream = full().replace("\n\nevent: ping", "\r\n\r\nevent: ping");
    let bytes = stream.as_bytes();
    for cut in 1..bytes.len() {
        assert_full(Say::Pieces(vec![bytes[..cut].to_vec(), bytes[cut..].to_vec()], End::Clean)).await;
    }
    assert_full(Say::Pieces(bytes.chunks(1).map(<[u8]>::to_vec).collect(), End::Clean)).await;
}

#[tokio::test]
async fn the_request_is_what_the_protocol_asks_for() {
    let server = Server::start(whole(&full())).await;
    let model = model(&server);
    let mut asked = hi(&model);
    asked.prompt.system = Some(model.encode_system("sys"));
    ask(&model, asked).await.0.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/messages");
    assert_eq!(seen[0].headers["x-api-key"], KEY);
    assert_eq!(seen[0].headers["anthropic-version"], "2023-06-01");
    assert_eq!(seen[0].headers.get("authorization"), None);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        serde_json::from_str::<Value>(&seen[0].body).unwrap(),
        json!({
            "model": "claude-sonnet-4-5",
            "system": [{"type": "text", "text": "sys", "cache_control": mark}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}],
            "stream": true,
            "max_tokens": 32000,
        })
    );
}

#[tokio::test]
async fn other_addresses_and_another_header_for_the_key() {
    let server = Server::start(whole(&full())).await;
    for (base, path) in
        [("/v1", "/v1/messages"), ("/anthropic/", "/anthropic/v1/messages"), ("/v1/messages", "/v1/messages")]
    {
        let config = AnthropicConfig {
            key: Some(Secret::new(KEY)),
            key_header: KeyHeader::Bearer,
            ..AnthropicConfig::new(format!("{}{base}", server.base), "m")
        };
        let model = Anthropic::new(config, client()).unwrap();
        ask(&model, hi(&model)).await.0.unwrap();
        let seen = server.seen();
        assert_eq!(seen[0].path, path);
        assert_eq!(seen[0].headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!(seen[0].headers.get("x-api-key"), None);
    }
}

/// What a model said must be legal when it is sent back: thoughts first, signed, then words, then calls.
#[tokio::test]
async fn an_answer_goes_back_as_it_came() {
    let server = Server::start(whole(&full())).await;
    let model = model(&server);
    let answer = ask(&model, hi(&model)).await.0.unwrap();
    let back: Value =
        serde_json::from_str(&model.encode(&Message::new(Time(0), Body::Assistant(answer.said))).bytes)
            .unwrap();
    assert_eq!(
        back["content"],
        json!([
            {"type": "thinking", "thinking": "hm ü", "signature": "sig"},
            {"type": "redacted_thinking", "data": "opaque"},
            {"type": "text", "text": "Grüß 🦀"},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
            {"type": "tool_use", "id": "toolu_2", "name": "bare", "input": {}},
        ])
    );
}

#[tokio::test]
async fn thoughts_between_words_come_back_where_they_stood() {
    let blocks = [
        json!({"type": "thinking", "thinking": "a", "signature": "1"}),
        json!({"type": "text", "text": "grün"}),
        json!({"type": "thinking", "thinking": "b", "signature": "2"}),
        json!({"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}),
    ];
    let mut stream = vec![start()];
    stream.extend((0..).zip(&blocks).map(|(index, block)| open(index, block.clone())));
    stream.push(stop("tool_use"));
    let server = Server::start(whole(&events(&stream))).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    let said = answer.unwrap().said;
    assert_eq!(heard(&deltas), ("grün".into(), "ab".into()));
    assert_eq!(said.reasoning.text.as_deref(), Some("a\n\nb"));
    let back: Value =
        serde_json::from_str(&model.encode(&Message::new(Time(0), Body::Assistant(said))).bytes).unwrap();
    assert_eq!(back["content"], json!(blocks));
}

#[tokio::test]
async fn a_server_that_answers_with_a_document_is_understood() {
    let document = json!({
        "type": "message", "model": "other", "stop_reason": "max_tokens",
        "content": [{"type": "text", "text": "whole"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    });
    let server = Server::start(whole(&document.to_string())).await;
    let model = model(&server);
    let (answer, deltas) = ask(&model, hi(&model)).await;
    let answer = answer.unwrap();
    assert_eq!(heard(&deltas).0, "whole");
    assert_eq!(answer.said.calls[0].arguments, "{\"x\":1}");
    assert_eq!((answer.said.finish.as_deref(), answer.usage.input), (Some("length"), 3));
}

async fn answer_to(chunks: &[Value], end: End) -> Result<Answer, ModelError> {
    let server = Server::start(Say::Pieces(vec![events(chunks).into_bytes()], end)).await;
    let model = model(&server);
    ask(&model, hi(&model)).await.0
}

#[tokio::test]
async fn an_answer_is_whole_or_an_error() {
    let text = [start(), open(0, json!({"type": "text", "text": "hello"}))];
    let with = |more: &[Value]| [&text[..], more].concat();
    let end = json!({"type": "message_stop"});
    for (chunks, how, expected) in [
        (with(&[stop("end_turn"), end.clone()]), End::Clean, Ok("hello")),
        (with(&[stop("end_turn"), end.clone()]), End::Hanging, Ok("hello")),
        (with(&[stop("end_turn")]), End::Broken, Ok("hello")),
        (with(&[end]), End::Clean, Err(FailureKind::Broken)),
        (with(&[]), End::Clean, Err(FailureKind::Broken)),
        (with(&[]), End::Broken, Err(FailureKind::Broken)),
        (with(&[]), End::Hanging, Err(WAIT)),
        (vec![start(), stop("end_turn")], End::Clean, Err(FailureKind::Broken)),
        (vec![start(), stop("refusal")], End::Clean, Err(FailureKind::Refused)),
        (
            vec![
                start(),
                open(0, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
                piece(0, json!({"type": "input_json_delta", "partial_json": "{\"a\":"})),
                stop("max_tokens"),
            ],
            End::Clean,
            Err(FailureKind::Broken),
        ),
    ] {
        let answer = answer_to(&chunks, how).await;
        let answer = answer.as_ref().map(|answer| answer.said.content.plain()).map_err(|error| error.kind);
        assert_eq!(answer, expected.map(str::to_owned), "{chunks:?}");
    }
}

#[tokio::test]
async fn why_it_stopped_is_said_in_the_transcripts_words() {
    for (reason, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ] {
        let chunks = [start(), open(0, json!({"type": "text", "text": "hello"})), stop(reason)];
        assert_eq!(answer_to(&chunks, End::Clean).await.unwrap().said.finish.as_deref(), Some(finish));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    for (kind, expected) in [
        ("overloaded_error", WAIT),
        ("api_error", WAIT),
        ("rate_limit_error", WAIT),
        ("authentication_error", FailureKind::Credentials),
        ("request_too_large", FailureKind::TooLong),
        ("invalid_request_error", FailureKind::Refused),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": "its words"}});
        let error = answer_to(&[start(), open(0, json!({"type": "text", "text": "hel"})), error], End::Clean)
            .await
            .unwrap_err();
        assert_eq!(error.kind, expected);
        assert!(error.message.contains("its words"), "{}", error.message);
    }
}
