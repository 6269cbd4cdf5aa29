//! A message as one JSON object: what an inbox keeps, what an export shows.
//!
//! The names are those of Hermes' own conversation objects. [`message_from_json`] gives back the
//! message that [`message_to_json`] was given, and reads what a client of either program may send.

use crate::content::{content_from_json, content_to_json};
use crate::json;
use crate::row::{calls_from_json, calls_to_json};
use throughline_core::Time;
use throughline_core::message::{Assistant, Body, JsonText, Message, Reasoning, ToolResult};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    #[error("a message must be a JSON object")]
    NoObject,
    #[error("a message needs a `role`, such as \"user\"")]
    NoRole,
    #[error("the field `{0}` of this message is not of the kind it should be")]
    Field(&'static str),
}

pub fn message_to_json(message: &Message) -> JsonText {
    let mut fields = MessageWriter(Vec::new());
    fields.text("role", Some(message.role()));
    fields.json("content", Some(&content_to_json(message.content())));
    fields.raw("timestamp", json::float(message.at.as_seconds()));
    match &message.body {
        Body::System(_) | Body::User(_) | Body::Other { .. } => {}
        Body::Assistant(assistant) => {
            let Reasoning { text, content, details, codex_reasoning_items, codex_message_items } =
                &assistant.reasoning;
            fields.json("tool_calls", calls_to_json(&assistant.calls).as_ref());
            fields.text("finish_reason", assistant.finish.as_deref());
            fields.text("reasoning", text.as_deref());
            fields.text("reasoning_content", content.as_deref());
            fields.json("reasoning_details", details.as_ref());
            fields.json("codex_reasoning_items", codex_reasoning_items.as_ref());
            fields.json("codex_message_items", codex_message_items.as_ref());
        }
        Body::Result(result) => {
            fields.text("tool_call_id", Some(&result.call_id));
            fields.text("tool_name", result.name.as_deref());
        }
    }
    fields.text("message_id", message.platform_id.as_deref());
    fields.text("api_content", message.sent_as.as_deref());
    if message.observed {
        fields.raw("observed", "true".to_owned());
    }
    JsonText::from_valid(format!("{{{}}}", fields.0.join(", ")))
}

pub fn message_from_json(text: &str) -> Result<Message, NotAMessage> {
    let text = json::read(text).ok_or(NotAMessage::NoObject)?;
    let fields = MessageReader(json::members(&text).ok_or(NotAMessage::NoObject)?);
    let content = fields.value("content").and_then(content_from_json).unwrap_or_default();
    let role = fields.text("role")?.filter(|role| !role.is_empty()).ok_or(NotAMessage::NoRole)?;
    let body = match role.as_str() {
        "system" => Body::System(content),
        "user" => Body::User(content),
        "assistant" => Body::Assistant(Assistant {
            content,
            calls: match fields.value("tool_calls") {
                Some(calls) => calls_from_json(calls).ok_or(NotAMessage::Field("tool_calls"))?,
                None => Vec::new(),
            },
            finish: fields.text("finish_reason")?,
            reasoning: Reasoning {
                text: fields.text("reasoning")?,
                content: fields.text("reasoning_content")?,
                details: fields.json("reasoning_details"),
                codex_reasoning_items: fields.json("codex_reasoning_items"),
                codex_message_items: fields.json("codex_message_items"),
            },
        }),
        "tool" => Body::Result(ToolResult {
            call_id: fields.text("tool_call_id")?.unwrap_or_default(),
            name: fields.text("tool_name")?,
            content,
        }),
        _ => Body::Other { role, content },
    };
    let at = match fields.value("timestamp") {
        Some(seconds) => Time::from_seconds(seconds.parse().map_err(|_| NotAMessage::Field("timestamp"))?),
        None => Time::default(),
    };
    Ok(Message {
        at,
        body,
        platform_id: fields.text("message_id")?,
        sent_as: fields.text("api_content")?,
        observed: fields.value("observed").is_some_and(|observed| observed == "true"),
    })
}

struct MessageWriter(Vec<String>);

impl MessageWriter {
    fn raw(&mut self, name: &str, value: String) {
        self.0.push(format!("\"{name}\": {value}"));
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.raw(name, json::quote(value));
        }
    }

    fn json(&mut self, name: &str, value: Option<&JsonText>) {
        if let Some(value) = value {
            self.raw(name, value.to_string());
        }
    }
}

/// The fields of an object. A null is as good as no field.
struct MessageReader<'a>(Vec<(String, &'a str)>);

impl<'a> MessageReader<'a> {
    fn value(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rev().find(|(found, _)| found == name);
        found.map(|(_, value)| *value).filter(|value| *value != "null")
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, NotAMessage> {
        let text = self.value(name).map(serde_json::from_str).transpose();
        text.map_err(|_| NotAMessage::Field(name))
    }

    fn json(&self, name: &str) -> Option<JsonText> {
        self.value(name).map(JsonText::from_valid)
    }
}
