//! Random transcripts, as a store could hold them: every role, every kind of content, broken
//! arguments, odd ids, thoughts of any provider.

use proptest::prelude::*;
use serde_json::Value;
use throughline_core::Time;
use throughline_core::message::{
    Assistant, Body, Content, JsonText, Message, Part, Reasoning, ToolCall, ToolResult,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("\",\"content\":\"".to_owned()),
        Just("]}{\"role\":\"user\",\"content\":[".to_owned()),
        "\\PC{0,20}",
        "[\\x00-\\x20\"\\\\é🦀]{0,12}",
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        Just(Part::Image { url: "https://example.com/a.png".into(), detail: Some("low".into()) }),
        Just(Part::Image { url: "data:image/png;base64,AAAA".into(), detail: None }),
        Just(Part::Opaque(JsonText::from_valid(
            r#"{ "type":"document","cache_control":{"type":"ephemeral"},"source":{} }"#
        ))),
        Just(Part::Opaque(JsonText::from_valid(r#"{"type":"input_audio","input_audio":{"data":"AAAA"}}"#))),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        1 => Just(Content::Nothing),
        3 => text().prop_map(Content::Text),
        1 => prop::collection::vec(part(), 0..3).prop_map(Content::Parts),
        1 => Just(Content::Opaque(JsonText::from_valid("{\"odd\":1.50}"))),
    ]
}

fn details() -> impl Strategy<Value = Option<JsonText>> {
    let known = [
        r#"[{"type":"thinking","thinking":"a","signature":"s"}]"#,
        r#"[{"type":"thinking","thinking":"unsigned"},{"type":"redacted_thinking","data":"x"}]"#,
        r#"[{"type":"reasoning.text","text":"b","index":0},{"type":"thinking","thinking":"a","signature":"s"}]"#,
        r#"[{"type":"thinking","thinking":"","signature":"s"},{"type":"text_here","length":2},{"type":"call_here"},{"type":"redacted_thinking","data":"y"}]"#,
        "null",
    ];
    prop::option::of(prop::sample::select(known.to_vec()).prop_map(JsonText::from_valid))
}

fn call() -> impl Strategy<Value = ToolCall> {
    let arguments = prop_oneof![Just("{\"a\": 1}".to_owned()), Just("{\"a\":".to_owned()), text()];
    let extra = prop::option::of(Just(JsonText::from_valid(r#"{"extra_content":{"x":1},"id":"other"}"#)));
    let id = prop::sample::select(vec!["call_1", "call_2", "fc:3/ü", ""]);
    (id, "[a-z.]{1,8}", arguments, extra).prop_map(|(id, name, arguments, extra)| ToolCall {
        id: id.to_owned(),
        name,
        arguments,
        extra,
    })
}

fn assistant() -> impl Strategy<Value = Assistant> {
    let thought = || prop::option::of(text());
    (content(), prop::collection::vec(call(), 0..3), thought(), thought(), details()).prop_map(
        |(content, calls, text, thought, details)| Assistant {
            content,
            calls,
            finish: Some("stop".into()),
            reasoning: Reasoning { text, content: thought, details, ..Reasoning::default() },
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    let id = prop::sample::select(vec!["call_1", "call_2", "fc:3/ü", ""]);
    prop_oneof![
        1 => content().prop_map(Body::System),
        4 => content().prop_map(Body::User),
        4 => assistant().prop_map(Body::Assistant),
        2 => (id, content()).prop_map(|(id, content)| Body::Result(ToolResult { call_id: id.to_owned(), name: None, content })),
    ]
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (body(), prop::option::weighted(0.2, text()))
        .prop_map(|(body, sent_as)| Message { sent_as, ..Message::new(Time(0), body) })
}

pub(crate) fn transcript() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec(message(), 0..12)
}

/// JSON of no particular shape, made of words that mean something to the reader.
pub(crate) fn rubbish(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop::sample::select(words).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        word.clone().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    tree.prop_map(|value| value.to_string())
}
