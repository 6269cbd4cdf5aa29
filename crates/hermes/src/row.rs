//! A row of Hermes' table `messages`, and the message it is.
//!
//! [`decode`] after [`encode`] gives the same message. [`encode`] after [`decode`] gives the same
//! bytes for every row Hermes writes, except that its time is kept to the microsecond. Columns
//! that mean nothing for a row's role (the token count, say) stay in the table, where they are;
//! nothing of ours rewrites a row of theirs.

pub use crate::call::{calls_from_json, calls_to_json};
pub use crate::content::{content_from_json, content_to_json};
pub use crate::message::{NotAMessage, message_from_json, message_to_json};

use crate::{content, json};
use throughline_core::Time;
use throughline_core::message::{Assistant, Body, JsonText, Message, Reasoning, ToolResult};

/// The columns by their names. A home of an older schema lacks the last few: they are empty then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageRow {
    pub role: String,
    pub content: Option<String>,
    pub tool_call_id: Option<String>,
    pub tool_calls: Option<String>,
    pub tool_name: Option<String>,
    pub timestamp: f64,
    pub token_count: Option<i64>,
    pub finish_reason: Option<String>,
    pub reasoning: Option<String>,
    pub reasoning_content: Option<String>,
    pub reasoning_details: Option<String>,
    pub codex_reasoning_items: Option<String>,
    pub codex_message_items: Option<String>,
    pub platform_message_id: Option<String>,
    pub api_content: Option<String>,
    pub observed: bool,
}

pub fn encode(message: &Message) -> MessageRow {
    let row = MessageRow {
        role: message.role().to_owned(),
        content: content::encode(message.content()),
        timestamp: message.at.as_seconds(),
        platform_message_id: message.platform_id.clone(),
        api_content: message.sent_as.clone(),
        observed: message.observed,
        ..MessageRow::default()
    };
    let json = |json: &Option<JsonText>| json.as_ref().map(JsonText::to_string);
    match &message.body {
        Body::System(_) | Body::User(_) | Body::Other { .. } => row,
        Body::Assistant(assistant) => MessageRow {
            tool_calls: json(&calls_to_json(&assistant.calls)),
            finish_reason: assistant.finish.clone(),
            reasoning: assistant.reasoning.text.clone(),
            reasoning_content: assistant.reasoning.content.clone(),
            reasoning_details: json(&assistant.reasoning.details),
            codex_reasoning_items: json(&assistant.reasoning.codex_reasoning_items),
            codex_message_items: json(&assistant.reasoning.codex_message_items),
            ..row
        },
        Body::Result(result) => MessageRow {
            tool_call_id: Some(result.call_id.clone()).filter(|id| !id.is_empty()),
            tool_name: result.name.clone(),
            ..row
        },
    }
}

pub fn decode(row: MessageRow) -> Message {
    let content = content::decode(row.content);
    let json = |column: Option<String>| Some(JsonText::from_valid(&*json::read(&column?)?));
    let body = match row.role.as_str() {
        "system" => Body::System(content),
        "user" => Body::User(content),
        "assistant" => Body::Assistant(Assistant {
            content,
            calls: row.tool_calls.and_then(|calls| calls_from_json(&calls)).unwrap_or_default(),
            finish: row.finish_reason,
            reasoning: Reasoning {
                text: row.reasoning,
                content: row.reasoning_content,
                details: json(row.reasoning_details),
                codex_reasoning_items: json(row.codex_reasoning_items),
                codex_message_items: json(row.codex_message_items),
            },
        }),
        "tool" => Body::Result(ToolResult {
            call_id: row.tool_call_id.unwrap_or_default(),
            name: row.tool_name,
            content,
        }),
        _ => Body::Other { role: row.role, content },
    };
    Message {
        at: Time::from_seconds(row.timestamp),
        body,
        platform_id: row.platform_message_id,
        // Hermes takes an empty text for none: sending nothing in place of what was said helps no one.
        sent_as: row.api_content.filter(|text| !text.is_empty()),
        observed: row.observed,
    }
}

#[cfg(test)]
mod tests;
