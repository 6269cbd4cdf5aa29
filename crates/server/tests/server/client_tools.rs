//! Tools that the client runs, through both APIs; and what a client may ask for beyond them.

use crate::agent_api::{Ending, Script, answer};
use crate::client::{Api, KEY, request};
use axum::body::Body;
use futures_util::StreamExt;
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::Content;
use throughline_core::input::Kind;
use throughline_core::message::ToolCall;
use throughline_core::port::Update;
use throughline_core::route::Target;
use tokio::sync::Semaphore;
use tower::ServiceExt;

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])
}

fn calls(text: &str) -> Script {
    let mut calling = answer(text);
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: "weather".into(),
        arguments: r#"{"city":"Rome"}"#.into(),
        extra: None,
    };
    calling.said.calls = vec![call("call_1"), call("call_2")];
    Script { updates: vec![], ending: Ending::Answer(calling), gate: None }
}

fn asked(api: &Api) -> throughline_core::input::Request {
    let Kind::Request(request) = api.api.last().kind else { panic!("a request") };
    request
}

#[tokio::test]
async fn p13_calls_of_a_clients_tools_end_an_answer_and_their_results_go_on_from_there() {
    let api = Api::new();
    api.api.next(calls(""));
    let user = json!({"role": "user", "content": "How is the weather?"});
    let body = json!({"messages": [user], "tools": tools(), "tool_choice": "required"});
    let reply = api.chat(body.clone()).await;
    let choice = &reply.json()["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}});
    assert_eq!(choice["message"]["tool_calls"], json!([call("call_1"), call("call_2")]));
    assert_eq!(asked(&api).tools.unwrap().names, ["weather"]);
    assert_eq!(asked(&api).sampling.unwrap().as_str(), r#"{"tool_choice":"required"}"#);

    // The client writes the arguments in its own way when it repeats them.
    let mut said = choice["message"].clone();
    said["tool_calls"][0]["function"]["arguments"] = json!("{\"city\": \"Rome\"}");
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "sunny"});
    let messages = json!([user, said, result("call_1"), result("call_2")]);
    let next = api.chat(json!({"messages": messages, "tools": tools()})).await;
    assert_eq!(next.status, 200, "{}", next.text);
    assert_eq!(next.header("x-hermes-session-id"), reply.header("x-hermes-session-id"));
    let request = asked(&api);
    assert_eq!((request.content, request.results.len()), (Content::Nothing, 2));
    assert!(matches!(api.api.last().target, Target::Thread { .. }));

    let missing = json!([user, said, result("call_1")]);
    assert_eq!(api.chat(json!({"messages": missing})).await.error().1, "broken_tool_pair");
}

#[tokio::test]
async fn p13_a_stream_carries_the_calls_of_a_clients_tools_as_openai_does() {
    let api = Api::new();
    api.api.next(calls("Let me see."));
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}], "tools": tools()});
    let reply = api.chat(body).await;
    let chunks = reply.chunks();
    let pieces: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object()).collect();
    assert_eq!(pieces.len(), 2);
    assert_eq!((&pieces[1]["index"], &pieces[1]["id"]), (&json!(1), &json!("call_2")));
    assert_eq!(reply.joined(), "Let me see.");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    assert!(reply.text.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn p13_a_response_lists_calls_as_items_and_goes_on_with_their_outputs() {
    let api = Api::new();
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    for stream in [false, true] {
        api.api.next(calls(""));
        let body = json!({"input": "weather?", "tools": tools, "stream": stream});
        let reply = api.post("/v1/responses", body).await;
        let response = match stream {
            false => reply.json(),
            true => {
                let kinds: Vec<_> =
                    reply.chunks().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect();
                assert!(kinds.contains(&"response.function_call_arguments.done".to_owned()), "{kinds:?}");
                assert!(
                    !kinds.contains(&"response.output_text.done".to_owned()),
                    "nothing was said: {kinds:?}"
                );
                reply.chunks().last().unwrap()["response"].clone()
            }
        };
        assert_eq!(response["status"], "completed");
        let items = response["output"].as_array().unwrap().clone();
        assert_eq!(items.len(), 2);
        assert_eq!((&items[0]["type"], &items[0]["call_id"]), (&json!("function_call"), &json!("call_1")));
        let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "sunny"});
        // By the id of the response, and by the client's own copy, in full or by reference.
        let by_id =
            json!({"previous_response_id": response["id"], "input": [output("call_1"), output("call_2")]});
        assert_eq!(api.post("/v1/responses", by_id).await.status, 200);
        assert_eq!(asked(&api).results.len(), 2);
        for calls in [
            items.clone(),
            items.iter().map(|item| json!({"type": "item_reference", "id": item["id"]})).collect(),
        ] {
            let mut input = vec![json!({"role": "user", "content": "weather?"})];
            input.extend(calls);
            input.extend([output("call_1"), output("call_2")]);
            let reply = api.post("/v1/responses", json!({"input": input})).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert_eq!((asked(&api).results.len(), asked(&api).content), (2, Content::Nothing));
        }
    }
    let theirs = api.post("/v1/responses", json!({"input": "secret", "user": "ann"})).await.json();
    let reference = json!({"type": "item_reference", "id": theirs["output"][0]["id"]});
    let foreign = json!({"input": [reference, {"role": "user", "content": "x"}], "user": "bob"});
    assert_eq!(api.post("/v1/responses", foreign).await.error().1, "item_not_found");
    let forged = json!({"input": [{"type": "item_reference", "id": "msg_0"}, "x"]});
    assert_eq!(api.post("/v1/responses", forged).await.error().1, "item_not_found");
}

#[tokio::test]
async fn p31_a_request_without_session_key_or_user_is_nobodys_unless_it_asks_for_memory() {
    let api = Api::new();
    let body = |user: Option<&str>| json!({"user": user, "messages": [{"role": "user", "content": "hi"}]});
    for (headers, user, stateless) in [
        (&[][..], None, true),
        (&[], Some("ann"), false),
        (&[("x-hermes-session-id", "mine")], None, false),
        (&[("x-hermes-session-key", "mine")], None, false),
        (&[("x-throughline-memory", "recall")], None, false),
    ] {
        api.chat_with(headers, body(user)).await;
        assert_eq!(asked(&api).stateless, stateless, "{headers:?} {user:?}");
    }
}

#[tokio::test]
async fn a_question_is_held_only_for_clients_that_say_they_answer() {
    let api = Api::new();
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    api.chat(body.clone()).await;
    assert!(!api.api.last().can_answer);
    api.chat_with(&[("x-throughline-approvals", "ask")], body).await;
    assert!(api.api.last().can_answer);
    assert_eq!(api.api.state().owners, 0);
    api.post("/api/control/chat", json!({"text": "hi"})).await;
    assert!(!api.api.last().can_answer);
    api.post("/api/control/chat", json!({"text": "hi", "answers": true})).await;
    assert!(api.api.last().can_answer);
    api.get("/api/approvals").await;
    assert_eq!(api.api.state().owners, 2, "who looks at what is asked can answer it");
    api.api.next(
        Script::says("No.").after(vec![Update::Unattended { id: "c".into(), tool: "terminal".into() }]),
    );
    let reply = api.post("/api/control/chat", json!({"text": "rm"})).await;
    assert!(
        reply.text.contains("event: unattended\ndata: {\"id\":\"c\",\"tool\":\"terminal\"}"),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_turn_only_if_it_or_the_operator_wants_that() {
    for (header, setting, ends) in [
        (None, false, false),
        (None, true, true),
        (Some("stop"), false, true),
        (Some("continue"), true, false),
    ] {
        let options =
            throughline_server::ServerOptions { stop_on_disconnect: setting, ..crate::client::options() };
        let api = Api::with(options);
        let headers: Vec<_> = header.map(|word| ("x-throughline-on-disconnect", word)).into_iter().collect();
        let gate = Arc::new(Semaphore::new(0));
        api.api.next(Script::says("Hello!").gated(&gate));
        let body = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let request = request("POST", "/v1/chat/completions", &headers, body);
        let mut stream = api.router.clone().oneshot(request).await.unwrap().into_body().into_data_stream();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        assert_eq!(api.api.state().abandoned.len(), usize::from(ends), "{header:?} {setting}");
        // One that got its answer has left nothing behind.
        api.chat_with(&headers, json!({"stream": true, "messages": [{"role": "user", "content": "x"}]}))
            .await;
        api.chat_with(&headers, json!({"messages": [{"role": "user", "content": "y"}]})).await;
        assert_eq!(api.api.state().abandoned.len(), usize::from(ends));
    }
}

#[tokio::test]
async fn pages_of_an_allowed_origin_may_ask_with_the_key_and_are_told_so_beforehand() {
    let with = |origins: &[&str]| {
        let cors_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        Api::with(throughline_server::ServerOptions { cors_origins, ..crate::client::options() })
    };
    let asks = |method: &str, origin: &str, key: bool| {
        let mut request = Request::builder().method(method).uri("/v1/models").header("origin", origin);
        request = request.header("access-control-request-headers", "authorization,x-stainless-os");
        if key {
            request = request.header("authorization", format!("Bearer {KEY}"));
        }
        request.body(Body::empty()).unwrap()
    };
    let api = with(&["https://mine.example"]);
    let reply = api.send(asks("OPTIONS", "https://mine.example", false)).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("access-control-allow-origin")),
        (200, "https://mine.example")
    );
    assert_eq!(reply.header("access-control-allow-headers"), "authorization,x-stainless-os");
    assert_eq!((reply.header("access-control-max-age"), reply.header("vary")), ("600", "Origin"));
    let reply = api.send(asks("GET", "https://mine.example", true)).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("access-control-allow-origin")),
        (200, "https://mine.example")
    );
    let reply = api.send(asks("GET", "https://mine.example", false)).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("access-control-allow-origin")),
        (401, "https://mine.example")
    );
    for method in ["OPTIONS", "GET"] {
        let reply = api.send(asks(method, "https://other.example", false)).await;
        assert_eq!((reply.status.as_u16(), reply.header("access-control-allow-origin")), (403, ""));
    }
    let reply = with(&["*"]).send(asks("OPTIONS", "https://any.example", false)).await;
    assert_eq!((reply.status.as_u16(), reply.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(with(&[]).send(asks("OPTIONS", "https://mine.example", false)).await.status, 403);
}

#[tokio::test]
async fn a_wrong_key_and_a_body_with_a_picture_too_large_are_told_in_words_that_help() {
    let api = Api::new();
    let ask = |key: Option<&str>| {
        let mut request = Request::builder().uri("/v1/models");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.body(Body::empty()).unwrap()
    };
    for (key, words) in
        [(Some("wrong"), "Incorrect API key provided."), (None, "You didn't provide an API key.")]
    {
        let reply = api.send(ask(key)).await;
        let error = reply.json()["error"].clone();
        assert_eq!((reply.status.as_u16(), reply.header("www-authenticate")), (401, "Bearer"));
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("invalid_request_error"), &json!("invalid_api_key"))
        );
        assert!(error["message"].as_str().unwrap().starts_with(words), "{error}");
    }
    let picture = format!("data:image/png;base64,{}", "A".repeat(crate::client::BODY_MAX));
    let content = json!([{"type": "image_url", "image_url": {"url": picture}}]);
    let (status, code, message) =
        api.chat(json!({"messages": [{"role": "user", "content": content}]})).await.error();
    assert_eq!((status, code.as_str()), (413, "body_too_large"));
    assert!(message.contains("send a smaller one, or its https address"), "{message}");
    let text = "x".repeat(crate::client::BODY_MAX);
    let (_, _, message) = api.chat(json!({"messages": [{"role": "user", "content": text}]})).await.error();
    assert!(!message.contains("picture"), "{message}");
}
