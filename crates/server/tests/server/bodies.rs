//! Nothing that a client sends causes a panic or a 500.

use crate::client::{Api, request};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((field(), inner), 0..5).prop_map(|fields| Map::from_iter(fields).into()),
        ]
    })
}

const WORDS: &[&str] = &[
    "user",
    "assistant",
    "tool",
    "system",
    "developer",
    "text",
    "image_url",
    "input_text",
    "message",
    "function_call",
    "function_call_output",
    "function",
    "a",
    "https://x/y.png",
    "/new",
    "resp_000000000000000000000000001x6d",
];

const FIELDS: &[&str] = &[
    "messages",
    "input",
    "role",
    "content",
    "type",
    "text",
    "image_url",
    "url",
    "tool_calls",
    "tool_call_id",
    "call_id",
    "id",
    "function",
    "name",
    "arguments",
    "output",
    "stream",
    "stream_options",
    "n",
    "user",
    "model",
    "temperature",
    "stop",
    "instructions",
    "previous_response_id",
    "reasoning",
    "format",
    "session",
    "key",
    "command",
    "store",
];

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(FIELDS).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

/// Something that looks like a message, in which anything may be wrong.
fn message() -> impl Strategy<Value = Value> {
    let role = prop_oneof![prop::sample::select(WORDS).prop_map(Value::from), any_json()];
    let content = prop_oneof![3 => ".{0,12}".prop_map(Value::from), 1 => any_json()];
    (role, content, prop::collection::vec((field(), any_json()), 0..3)).prop_map(|(role, content, fields)| {
        let mut message = Map::from_iter(fields);
        message.insert("role".into(), role);
        message.insert("content".into(), content);
        message.into()
    })
}

fn body() -> impl Strategy<Value = Value> {
    let messages = prop::collection::vec(message(), 0..5).prop_map(Value::from);
    let fields = prop::collection::vec((field(), any_json()), 0..4);
    let plausible = (messages, fields).prop_map(|(messages, fields)| {
        let mut body = Map::from_iter(fields);
        body.insert("messages".into(), messages.clone());
        body.insert("input".into(), messages);
        body.entry("text").or_insert_with(|| "hi".into());
        body.into()
    });
    prop_oneof![3 => plausible, 1 => any_json()]
}

const PATHS: [&str; 4] =
    ["/v1/chat/completions", "/v1/responses", "/api/control/chat", "/api/sessions/mine/commands"];

const ADDRESSES: [&str; 8] = [
    "/v1/responses/{}",
    "/v1/models/{}",
    "/api/sessions",
    "/api/sessions/{}",
    "/api/sessions/{}/messages",
    "/api/search",
    "/api/control/why",
    "/{}",
];

fn judge(path: &'static str, bytes: Vec<u8>, session: Option<String>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let api = Api::new();
        let mut request = request("POST", path, &[], bytes);
        if let Some(value) = session.and_then(|text| text.parse().ok()) {
            request.headers_mut().insert("x-hermes-session-id", value);
        }
        let reply = api.send(request).await;
        let status = reply.status.as_u16();
        prop_assert!(status == 200 || (400..500).contains(&status), "{status}: {}", reply.text);
        if status != 200 {
            prop_assert!(reply.json()["error"]["message"].is_string(), "{}", reply.text);
            prop_assert_eq!(api.api.turns(), 0, "what is refused leaves nothing behind");
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_json_is_a_server_error(path in prop::sample::select(&PATHS[..]), body in body(), session in prop::option::of(".{0,10}")) {
        judge(path, body.to_string().into_bytes(), session)?;
    }

    #[test]
    fn no_bytes_are_a_server_error(path in prop::sample::select(&PATHS[..]), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        judge(path, bytes, None)?;
    }

    #[test]
    fn no_address_is_a_server_error(
        path in prop::sample::select(&ADDRESSES[..]),
        name in "[a-z0-9_.%/-]{0,12}",
        query in "[a-z0-9=&%+_-]{0,24}",
        session_key in ".{0,8}",
    ) {
        let uri = format!("{}?{query}", path.replace("{}", &name));
        if let (Ok(uri), Ok(value)) = (uri.parse::<http::Uri>(), session_key.parse::<http::HeaderValue>()) {
            let mut request = request("GET", "/", &[], "");
            *request.uri_mut() = uri;
            request.headers_mut().insert("x-hermes-session-key", value);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let reply = runtime.block_on(async { Api::new().send(request).await });
            let status = reply.status.as_u16();
            prop_assert!(status == 200 || (400..500).contains(&status), "{status}: {}", reply.text);
            prop_assert!(status == 200 || reply.json()["error"]["message"].is_string(), "{}", reply.text);
        }
    }

    #[test]
    fn no_torn_body_is_a_server_error(path in prop::sample::select(&PATHS[..]), body in body(), cut in any::<prop::sample::Index>()) {
        let mut bytes = body.to_string().into_bytes();
        let at = cut.index(bytes.len());
        bytes.truncate(at);
        judge(path, bytes, None)?;
    }
}
