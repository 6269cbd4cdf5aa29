//! All that reads what strangers write is linear: one line for each function.

use crate::history;
use crate::memory::{fenced, unfenced};
use crate::message::{Assistant, Body, Content, Message, ToolCall, ToolResult, distinct_ids};
use crate::redact::{self, Purpose};
use crate::time::Time;
use crate::{command, session};
use std::hint::black_box;
use throughline_complexity::{assert_linear, assert_linear_in_count};

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("memory::unfenced", |text| _ = unfenced(text)),
        ("memory::fenced", |text| _ = fenced("hi", text)),
        ("redact::redacted", |text| _ = redact::redacted(text)),
        ("redact::redacted_for(Output)", |text| _ = redact::redacted_for(Purpose::Output, text)),
        ("redact::redacted_for(Environment)", |text| _ = redact::redacted_for(Purpose::Environment, text)),
        ("redact::redacted_for(File)", |text| _ = redact::redacted_for(Purpose::File, text)),
        ("redact::holds_secret", |text| _ = black_box(redact::holds_secret(text))),
        ("redact::lists_environment", |text| _ = black_box(redact::lists_environment(text))),
        ("command::split", |text| _ = command::split(&format!("/{text}")).map(|(name, _)| name)),
        ("command::Command::light", |text| {
            _ = black_box(command::Command::Queue { text: text.to_owned() }.light());
        }),
        ("command::skill::written", |text| _ = command::skill::written(text).to_owned()),
        ("command::skill::invoked", |text| {
            _ = command::skill::written(&command::skill::invoked("a", text, text)).to_owned();
        }),
        ("session::review::false_claim", |text| _ = black_box(session::review::false_claim(text))),
    ]);
}

fn calls(count: usize, id: impl Fn(usize) -> String) -> Vec<ToolCall> {
    let call = |number| ToolCall { id: id(number), name: "f".into(), arguments: "{}".into(), extra: None };
    (0..count).map(call).collect()
}

/// An answer with many calls, and their results in the order that is worst for a search.
fn group(count: usize, id: fn(usize) -> String) -> Vec<Message> {
    let assistant = Assistant { calls: calls(count, id), ..Assistant::default() };
    let result = |number| {
        let result = ToolResult { call_id: id(number), name: None, content: Content::Nothing };
        Message::new(Time(0), Body::Result(result))
    };
    let answer = Message::new(Time(0), Body::Assistant(assistant));
    std::iter::once(answer).chain((0..count).rev().map(result)).collect()
}

#[test]
fn p31_a_hundred_thousand_calls_cost_what_they_should() {
    for id in [|number: usize| number.to_string(), |_| "same".to_owned(), |_| String::new()] {
        assert_linear_in_count("message::distinct_ids", |count| {
            let calls = calls(count, id);
            move || _ = distinct_ids(&calls)
        });
        assert_linear_in_count("history::legal", |count| {
            let transcript = group(count, id);
            move || _ = history::legal(&transcript)
        });
        assert_linear_in_count("history::violations", |count| {
            let transcript = group(count, id);
            move || _ = history::violations(&transcript)
        });
    }
}
