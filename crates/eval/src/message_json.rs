//! Messages as JSON, in the form that model providers agree on.

use serde_json::{Value, json};
use throughline_core::Time;
use throughline_core::message::{Assistant, Body, Content, Message, ToolCall, ToolResult};

pub fn to_json(message: &Message) -> Value {
    let content = match message.content() {
        Content::Nothing => Value::Null,
        content => json!(content.plain()),
    };
    let mut value = json!({"role": message.role(), "content": content});
    if let Body::Result(result) = &message.body {
        value["tool_call_id"] = json!(result.call_id);
        value["tool_name"] = json!(result.name);
    }
    if !message.calls().is_empty() {
        value["tool_calls"] = message.calls().iter().map(call_to_json).collect();
    }
    value
}

fn call_to_json(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// An error says what is missing.
pub fn from_json(value: &Value) -> Result<Message, String> {
    let content = match &value["content"] {
        Value::Null => Content::Nothing,
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            Content::Text(texts.collect::<Vec<_>>().join("\n"))
        }
        other => return Err(format!("{other} is no content")),
    };
    let body = match value["role"].as_str() {
        Some("system") => Body::System(content),
        Some("user") => Body::User(content),
        Some("assistant") => {
            let calls = value["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let calls = calls.iter().map(call_from_json).collect();
            Body::Assistant(Assistant { content, calls, ..Assistant::default() })
        }
        Some("tool") => Body::Result(ToolResult {
            call_id: text(&value["tool_call_id"]),
            name: value["tool_name"].as_str().map(str::to_owned),
            content,
        }),
        _ => return Err(format!("{} is no role", value["role"])),
    };
    Ok(Message::new(Time::default(), body))
}

fn call_from_json(call: &Value) -> ToolCall {
    let function = &call["function"];
    ToolCall {
        id: text(&call["id"]),
        name: text(&function["name"]),
        arguments: text(&function["arguments"]),
        extra: None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_comes_back() {
        for case in crate::cases() {
            for message in &case.messages {
                let back = from_json(&to_json(message)).unwrap();
                assert_eq!(back.body, message.body);
            }
        }
    }
}
