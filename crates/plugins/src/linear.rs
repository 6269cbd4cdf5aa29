//! What a plugin says is foreign text: each function of it is linear.

use crate::json_rpc::{self, LineReader};
use crate::log::PluginRedactor;
use crate::messages;
use crate::protocol::Message as Wire;
use crate::settings::PluginSettings;
use serde_json::json;
use std::hint::black_box;
use std::path::PathBuf;
use throughline_complexity::{assert_linear, assert_linear_in_count};
use throughline_core::message::{Content, Message};
use throughline_core::time::Time;

fn lines(text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut lines = LineReader::new(text.as_bytes(), 1 << 20);
        while let Ok(Some(line)) = lines.next().await {
            _ = black_box(json_rpc::read(line).is_ok());
        }
    });
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("json_rpc::LineReader", lines),
        ("json_rpc::read", |text| _ = json_rpc::read(text.as_bytes()).is_ok()),
        ("json_rpc::read of an answer", |text| {
            _ = json_rpc::read(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{text}1]}}").as_bytes())
                .is_ok();
        }),
        ("json_rpc::read of a text", |text| {
            let line = json!({"jsonrpc": "2.0", "method": "log", "params": {"text": text}}).to_string();
            _ = json_rpc::read(line.as_bytes()).is_ok();
        }),
        ("json_rpc::read of fields", |text| {
            let fields: Vec<_> = text.split(' ').map(|name| format!("{}:1", json!(name))).collect();
            _ = json_rpc::read(format!("{{{}}}", fields.join(",")).as_bytes()).is_ok();
        }),
        ("log::Redactor::clean", |text| {
            let mut settings = PluginSettings::new("p", vec![], PathBuf::new());
            settings.environment = [("THEIRS".to_owned(), "aaaaaaaa".to_owned())].into();
            _ = PluginRedactor::new(&settings).clean(text);
        }),
        ("messages::joined", |text| {
            let before: Vec<_> = text.split(' ').map(user).collect();
            let sent = messages::to_wire(&before).unwrap();
            let returned: Vec<_> = text.split(' ').rev().map(|text| returned(text, 0)).collect();
            _ = messages::joined(&before, &sent, &returned).is_ok();
        }),
    ]);
}

fn user(text: &str) -> Message {
    Message::user(Time(1_000_000), Content::text(text))
}

fn returned(text: &str, at: usize) -> Wire {
    let message = json!({"role": "user", "content": text, "timestamp": at});
    serde_json::from_value(message).unwrap()
}

/// Every message says the same at another time, and none that comes back is one that was sent.
#[test]
fn p31_a_hundred_thousand_messages_cost_what_they_should() {
    for said in [|number: usize| number.to_string(), |_| "ok".to_owned()] {
        assert_linear_in_count("messages::joined", |count| {
            let before: Vec<_> = (0..count)
                .map(|number| Message { at: Time(number as i64 * 1_000_000), ..user(&said(number)) })
                .collect();
            let sent = messages::to_wire(&before).unwrap();
            let returned: Vec<_> =
                (0..count - 1).map(|number| returned(&said(number), number + 3 * count)).collect();
            move || _ = messages::joined(&before, &sent, &returned).is_ok()
        });
    }
}
