//! The responses API.

use crate::agent_api::{Ending, START, Script, answer, words};
use crate::client::{Api, Reply, request, system_of};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::input::Kind;
use throughline_core::port::Update;
use throughline_core::route::Target;
use throughline_core::session::FailureKind;
use throughline_core::{Content, Message};
use tokio::sync::Semaphore;
use tower::ServiceExt;

impl Api {
    async fn respond(&self, body: Value) -> Reply {
        self.post("/v1/responses", body).await
    }
}

fn id(reply: &Reply) -> String {
    reply.json()["id"].as_str().unwrap_or_else(|| panic!("{}", reply.text)).to_owned()
}

#[tokio::test]
async fn a_response_has_openais_shape_and_can_be_read_again() {
    let api = Api::new();
    let reply = api.respond(json!({"model": "m", "instructions": "Be brief.", "input": "hi"})).await;
    let json = reply.json();
    assert!(id(&reply).starts_with("resp_"));
    assert_eq!(json["object"], "response");
    assert_eq!(json["status"], "completed");
    assert_eq!(json["created_at"], START / 1_000_000);
    assert_eq!((&json["model"], &json["instructions"]), (&json!("m"), &json!("Be brief.")));
    let item = &json["output"][0];
    assert_eq!(
        (&item["type"], &item["role"], &item["status"]),
        (&json!("message"), &json!("assistant"), &json!("completed"))
    );
    assert_eq!(
        item["content"],
        json!([{"type": "output_text", "text": "You said: hi", "annotations": [], "logprobs": []}])
    );
    assert_eq!(json["usage"]["input_tokens"], 10);
    assert_eq!(json["usage"]["output_tokens_details"]["reasoning_tokens"], 1);
    assert_eq!(reply.header("x-hermes-session-id"), "s2");
    assert_eq!(system_of(&api.api.last()), Some("Be brief."));
    let again = api.get(&format!("/v1/responses/{}", id(&reply))).await.json();
    for field in ["id", "status", "created_at", "output", "usage"] {
        assert_eq!(again[field], json[field], "{field}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_is_incomplete_and_a_failed_one_failed() {
    let api = Api::new();
    let mut cut = answer("Hel");
    cut.said.finish = Some("length".into());
    api.api.next(Script { updates: vec![], ending: Ending::Answer(cut), gate: None });
    let json = api.respond(json!({"input": "hi"})).await.json();
    assert_eq!(
        (&json["status"], &json["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    api.api.next(Script::fails(FailureKind::Broken, "It broke off."));
    let reply = api.respond(json!({"input": "hi", "stream": true})).await;
    let failed = reply.chunks().pop().unwrap();
    assert_eq!(
        (&failed["type"], &failed["response"]["error"]["code"]),
        (&json!("response.failed"), &json!("model_broken"))
    );
    let again =
        api.get(&format!("/v1/responses/{}", failed["response"]["id"].as_str().unwrap())).await.json();
    assert_eq!((&again["status"], &again["error"]["message"]), (&json!("failed"), &json!("It broke off.")));
}

#[tokio::test]
async fn p1_a_response_at_the_tip_is_continued_in_its_session() {
    let api = Api::new();
    let mut previous = api.respond(json!({"input": "one"})).await;
    for text in ["two", "three"] {
        let next = api.respond(json!({"input": text, "previous_response_id": id(&previous)})).await;
        assert_eq!(next.header("x-hermes-session-id"), previous.header("x-hermes-session-id"));
        assert_eq!(next.json()["previous_response_id"], id(&previous));
        previous = next;
    }
    assert_eq!(api.api.state().sessions.len(), 1);
    let both = json!({"previous_response_id": id(&previous), "input": ["four", {"role": "user", "content": "five"}]});
    assert_eq!(api.respond(both).await.status, 200);
    let Kind::Request(request) = api.api.last().kind else { panic!("a request") };
    assert_eq!(request.content.plain(), "four\nfive", "none of several messages is lost");
}

#[tokio::test]
async fn a_response_with_something_after_it_is_branched_from() {
    let api = Api::new();
    let one = api.respond(json!({"input": "one"})).await;
    let two = api.respond(json!({"input": "two", "previous_response_id": id(&one)})).await;
    let three = api.respond(json!({"input": "three", "previous_response_id": id(&two)})).await;
    let branch = api.respond(json!({"input": "other", "previous_response_id": id(&two)})).await;
    assert_eq!(three.header("x-hermes-session-id"), one.header("x-hermes-session-id"));
    assert_ne!(branch.header("x-hermes-session-id"), one.header("x-hermes-session-id"));
    let submission = api.api.last();
    assert_eq!(submission.target, Target::Fresh);
    let said: Vec<_> = submission.birth.imported.iter().map(|message| message.content().plain()).collect();
    assert_eq!(said, ["one", "You said: one", "two", "You said: two"]);
    let onward = api.respond(json!({"input": "on", "previous_response_id": id(&branch)})).await;
    assert_eq!(onward.header("x-hermes-session-id"), branch.header("x-hermes-session-id"));
}

#[tokio::test]
async fn two_that_continue_one_response_at_once_do_not_mix() {
    let api = Arc::new(Api::new());
    let first = api.respond(json!({"input": "one"})).await;
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (api, previous) = (api.clone(), id(&first));
            tokio::spawn(async move {
                api.respond(json!({"input": format!("{i}"), "previous_response_id": previous})).await
            })
        })
        .collect();
    let mut sessions = Vec::new();
    for task in tasks {
        sessions.push(task.await.unwrap().header("x-hermes-session-id").to_owned());
    }
    let first_session = first.header("x-hermes-session-id");
    assert_eq!(sessions.iter().filter(|session| *session == first_session).count(), 1);
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 8);
}

#[tokio::test]
async fn p7_a_follow_up_sent_twice_under_one_key_is_one_turn() {
    let api = Api::new();
    let first = api.respond(json!({"input": "one"})).await;
    let body = json!({"input": "two", "previous_response_id": id(&first)});
    let key = [("idempotency-key", "k")];
    let one = api.post_with("/v1/responses", &key, body.clone()).await;
    let again = api.post_with("/v1/responses", &key, body).await;
    assert_eq!(one.text, again.text);
    assert_eq!((api.api.turns(), api.api.state().sessions.len()), (2, 1));
}

#[tokio::test]
async fn a_response_of_an_ended_session_begins_another_with_its_history() {
    let api = Api::new();
    let one = api.respond(json!({"input": "one"})).await;
    let session = one.header("x-hermes-session-id").to_owned();
    api.api.state().sessions.get_mut(&session.parse().unwrap()).unwrap().ended = true;
    let two = api.respond(json!({"input": "two", "previous_response_id": id(&one)})).await;
    assert_ne!(two.header("x-hermes-session-id"), session);
    assert_eq!(
        api.api.last().birth.imported.iter().map(Message::role).collect::<Vec<_>>(),
        ["user", "assistant"]
    );
}

#[tokio::test]
async fn p31_an_unknown_forged_or_foreign_response_is_not_continued() {
    let api = Api::new();
    let one = api.respond(json!({"input": "one", "user": "ann"})).await;
    let forged = id(&one).replace("resp_", "resp_0").replace("resp_00", "resp_0");
    for previous in ["resp_nothing", "", "x", &forged] {
        let reply = api.respond(json!({"input": "two", "previous_response_id": previous})).await;
        assert_eq!(reply.error().1, "response_not_found", "{previous}");
        assert_eq!(api.get(&format!("/v1/responses/{previous}x")).await.status, 404);
    }
    let foreign = api.respond(json!({"input": "two", "user": "bob", "previous_response_id": id(&one)})).await;
    assert_eq!(foreign.error().1, "session_not_found", "to another caller it does not exist");
    api.respond(json!({"input": "two", "user": "ann", "previous_response_id": id(&one)})).await;
    let branch =
        api.respond(json!({"input": "three", "user": "bob", "previous_response_id": id(&one)})).await;
    assert_eq!(branch.error().1, "session_not_found", "to another caller it does not exist");
    assert_eq!(api.api.turns(), 2);
    let gone = Api::new();
    assert_eq!(gone.respond(json!({"input": "x", "previous_response_id": id(&one)})).await.error().0, 404);
}

#[tokio::test]
async fn bad_requests_get_a_sentence() {
    let api = Api::new();
    let one = id(&api.respond(json!({"input": "one"})).await);
    for (body, code) in [
        (json!({}), ""),
        (json!({"input": 1}), "invalid_type"),
        (json!({"input": []}), ""),
        (json!({"input": " "}), ""),
        (json!({"input": "x", "conversation": "c"}), "unsupported_parameter"),
        (json!({"input": "x", "background": true}), "unsupported_parameter"),
        (json!({"input": "x", "prompt": {"id": "p"}}), "unsupported_parameter"),
        (
            json!({"input": [{"type": "function_call_output", "call_id": "a", "output": ""}, "x"]}),
            "broken_tool_pair",
        ),
        (json!({"input": "x", "instructions": 1}), "invalid_type"),
        (json!({"previous_response_id": one, "input": [{"role": "assistant", "content": "y"}, "x"]}), ""),
    ] {
        let (status, found, message) = api.respond(body.clone()).await.error();
        assert_eq!((status, found.as_str()), (400, code), "{body}: {message}");
    }
    let both = api.post_with(
        "/v1/responses",
        &[("x-hermes-session-id", "mine")],
        json!({"input": "x", "previous_response_id": one}),
    );
    assert_eq!(both.await.error().0, 400);
    assert_eq!(api.api.turns(), 1);
}

#[tokio::test]
async fn p13_a_response_that_is_not_to_be_stored_cannot_be_found_again() {
    let api = Api::new();
    let reply = api.respond(json!({"input": "x", "store": false, "tools": [], "truncation": "auto"})).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["store"]), (200, &json!(false)));
    let Kind::Request(request) = api.api.last().kind else { panic!("a request") };
    assert!(request.stateless);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("/v1/responses/{id}")).await.error().0, 404);
    assert_eq!(api.respond(json!({"input": "y", "previous_response_id": id})).await.error().0, 404);
    for (field, value) in [
        ("truncation", json!("sometimes")),
        ("include", json!(["message.output_text.logprobs"])),
        ("top_logprobs", json!(2)),
        ("max_tool_calls", json!(1)),
        ("store", json!("no")),
    ] {
        let reply = api.respond(json!({"input": "x", field: value})).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(field)),
            "{}",
            reply.text
        );
    }
    let reply = api.respond(json!({"input": "x", "include": ["reasoning.encrypted_content"]})).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_stateless_client_goes_on_where_its_items_end() {
    let api = Api::new();
    let first = api.respond(json!({"input": [{"role": "user", "content": "hi"}]})).await;
    let mut items = vec![json!({"role": "user", "content": "hi"})];
    items.push(first.json()["output"][0].clone());
    items.push(json!({"role": "user", "content": "more"}));
    let next = api.respond(json!({"input": items})).await;
    assert_eq!(next.header("x-hermes-session-id"), first.header("x-hermes-session-id"));
    let named =
        api.post_with("/v1/responses", &[("x-hermes-session-id", "mine")], json!({"input": "hi"})).await;
    assert_eq!(named.header("x-hermes-session-id"), "mine");
}

#[tokio::test]
async fn a_streamed_response_tells_each_step() {
    let api = Api::new();
    api.api.next(Script::says("Hello!").after(vec![
        words("Oh"),
        Update::Restarted,
        words("Hel"),
        words("lo!"),
    ]));
    let reply = api.respond(json!({"input": "hi", "stream": true})).await;
    let events = reply.chunks();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let names: Vec<_> = reply.text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, kinds);
    for (event, number) in events.iter().zip(0..) {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(events[7]["text"], "Hello!", "what ends it is the answer alone");
    assert_eq!(events[8]["part"]["text"], "Hello!");
    assert_eq!(events[9]["item"]["content"][0]["text"], "Hello!");
    let response = &events[10]["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello!");
    assert_eq!(response["id"], events[0]["response"]["id"]);
    assert_eq!(response["output"][0]["id"], events[4]["item_id"]);
    assert_eq!(api.api.state().written.len(), 1);
    let plain = api.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.json();
    assert_eq!(plain["output"], response["output"]);
}

#[tokio::test]
async fn a_response_that_still_runs_says_so() {
    let api = Api::new();
    let gate = Arc::new(Semaphore::new(0));
    api.api.next(Script::says("Hello!").gated(&gate));
    let request = request("POST", "/v1/responses", &[], json!({"input": "hi", "stream": true}).to_string());
    let mut stream = api.router.clone().oneshot(request).await.unwrap().into_body().into_data_stream();
    let piece = String::from_utf8(stream.next().await.unwrap().unwrap().to_vec()).unwrap();
    let created = piece.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let id = serde_json::from_str::<Value>(created).unwrap()["response"]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/responses/{id}");
    let running = api.get(&path).await.json();
    assert_eq!((&running["status"], &running["output"]), (&json!("in_progress"), &json!([])));
    gate.add_permits(2); // one for the stream that is read no further
    assert_eq!(api.get(&path).await.json()["status"], "completed");
}

#[tokio::test]
async fn p8_a_stream_that_must_stop_ends_without_a_word_about_completion() {
    let api = Api::new();
    api.api.next(Script { gate: None, updates: vec![words("Hel")], ending: Ending::Interrupt });
    let events = api.respond(json!({"input": "hi", "stream": true})).await.chunks();
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("interrupted")));
    assert!(events.iter().all(|event| event["type"] != "response.completed"));
    assert!(api.api.state().written.is_empty());
}

#[tokio::test]
async fn wishes_of_a_response_reach_the_model_under_the_names_of_chat() {
    let api = Api::new();
    api.respond(json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], "max_output_tokens": 5})).await;
    let Kind::Request(request) = api.api.last().kind else { panic!("a request") };
    assert_eq!(request.content, Content::text("hi"));
    assert_eq!(request.sampling.unwrap().as_str(), r#"{"max_completion_tokens":5}"#);
}
