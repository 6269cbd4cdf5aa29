//! What a client sends is foreign text: each function of it is linear.

use crate::client_conversation::ClientConversation;
use crate::{request_body, response_input};
use serde_json::{Value, json};
use throughline_complexity::{assert_linear, assert_linear_in_count};
use throughline_core::Time;

fn parsed(text: &str) {
    if let Ok(fields) = request_body::parse(text.as_bytes()) {
        let _ = (fields.digest(), fields.refuse_rest());
    }
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("body::parse", parsed),
        ("body::parse of an object", |text| parsed(&format!("{{\"messages\":{text}}}"))),
        ("body::parse of a list", |text| parsed(&format!("{{\"messages\":[{text}1]}}"))),
        ("body::parse of fields", |text| {
            let fields: Vec<_> = text.split(' ').map(|name| format!("{}:1", json!(name))).collect();
            parsed(&format!("{{{}}}", fields.join(",")));
        }),
        ("conversation::Conversation::from_messages", |text| {
            let messages = text.split(' ').map(|text| json!({"role": "user", "content": text}));
            let conversation = ClientConversation::from_messages(Some(messages.collect()));
            _ = conversation.map(|conversation| {
                (conversation.position("p").with_input, conversation.import_repaired(Time(0)))
            });
        }),
    ]);
}

fn group(count: usize, id: fn(usize) -> String) -> Value {
    let call =
        |number| json!({"id": id(number), "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let result = |number| json!({"role": "tool", "tool_call_id": id(number), "content": ""});
    let calls: Vec<_> = (0..count).map(call).collect();
    let user = json!({"role": "user", "content": "x"});
    let assistant = json!({"role": "assistant", "content": null, "tool_calls": calls});
    [user.clone(), assistant].into_iter().chain((0..count).rev().map(result)).chain([user]).collect()
}

#[test]
fn p31_a_hundred_thousand_calls_cost_what_they_should() {
    for id in [|number: usize| number.to_string(), |number| format!("same_{}", number / 2)] {
        assert_linear_in_count("conversation::Conversation::from_messages", |count| {
            let messages = group(count, id);
            move || {
                _ = ClientConversation::from_messages(Some(messages))
                    .map(|conversation| conversation.import_repaired(Time(0)))
            }
        });
    }
    assert_linear_in_count("items::conversation", |count| {
        let call = |number| json!({"type": "function_call", "call_id": format!("{number}"), "name": "f", "arguments": "{}"});
        let output =
            |number| json!({"type": "function_call_output", "call_id": format!("{number}"), "output": ""});
        let input: Value =
            (0..count).map(call).chain((0..count).rev().map(output)).chain(["x".into()]).collect();
        move || {
            _ = response_input::conversation(Some(input), None)
                .map(|conversation| conversation.import(Time(0)).is_ok())
        }
    });
}
