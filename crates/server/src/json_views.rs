//! Stored sessions, messages and questions as JSON, under the names of Hermes' API.

use serde::Serialize;
use serde_json::{Value, json};
use throughline_core::message::{Body, Content, Part, ToolCall};
use throughline_core::port::{Hit, Pending, SessionSummary, Trace};
use throughline_core::tool::Question;
use throughline_core::{JsonText, Message, RowId, SessionId};

#[derive(Serialize)]
pub struct SessionView<'a> {
    id: &'a str,
    source: &'a str,
    title: Option<&'a str>,
    chat: Option<&'a str>,
    model: Option<&'a str>,
    started_at: f64,
    last_active: f64,
    end_reason: Option<&'a str>,
    message_count: u64,
    tool_call_count: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    preview: &'a str,
}

impl<'a> From<&'a SessionSummary> for SessionView<'a> {
    fn from(summary: &'a SessionSummary) -> Self {
        Self {
            id: summary.id.as_str(),
            source: &summary.source,
            title: summary.title.as_deref(),
            chat: summary.chat.as_deref(),
            model: summary.model.as_deref(),
            started_at: summary.started.as_seconds(),
            last_active: summary.last_active.as_seconds(),
            end_reason: summary.ended.as_deref(),
            message_count: summary.messages,
            tool_call_count: summary.tool_calls,
            input_tokens: summary.usage.input,
            output_tokens: summary.usage.output,
            cache_read_tokens: summary.usage.cache_read,
            cache_write_tokens: summary.usage.cache_write,
            reasoning_tokens: summary.usage.reasoning,
            preview: &summary.preview,
        }
    }
}

/// A question of a tool that waits for a person.
#[derive(Serialize)]
pub struct AskView<'a> {
    id: String,
    session: &'a str,
    tool: &'a str,
    kind: &'static str,
    /// The whole question, as a chat would show it.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a str>,
    /// The MCP server that asks, where it is not the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    choices: &'a [String],
    patterns: &'a [String],
    asked_at: f64,
    expires_at: f64,
}

impl<'a> From<&'a Pending> for AskView<'a> {
    fn from(pending: &'a Pending) -> Self {
        let Pending { call, tool, ask } = pending;
        let mut view = Self {
            id: call.to_string(),
            session: call.session.as_str(),
            tool,
            kind: "approval",
            text: ask.question.in_words(),
            command: None,
            reason: None,
            question: None,
            server: None,
            choices: &[],
            patterns: &[],
            asked_at: ask.asked.as_seconds(),
            expires_at: ask.until.as_seconds(),
        };
        match &ask.question {
            Question::Approval { what, why, patterns } => {
                view.command = Some(what);
                view.reason = Some(why);
                view.patterns = patterns;
            }
            Question::Clarify { question, choices } => {
                view.kind = "clarify";
                view.question = Some(question);
                view.choices = choices;
            }
            Question::Elicitation { asked, .. } => {
                view.kind = "elicitation";
                view.server = Some(&asked.server);
                view.question = Some(&asked.question);
                view.choices = &asked.choices;
            }
        }
        view
    }
}

#[derive(Serialize)]
pub struct MessageView<'a> {
    id: u64,
    session_id: &'a str,
    role: &'a str,
    content: Value,
    timestamp: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_message_id: Option<&'a str>,
}

impl<'a> MessageView<'a> {
    pub fn new(session: &'a SessionId, row: RowId, message: &'a Message) -> Self {
        let mut view = Self {
            id: row.0,
            session_id: session.as_str(),
            role: message.role(),
            content: content(message.content()),
            timestamp: message.at.as_seconds(),
            tool_call_id: None,
            tool_name: None,
            tool_calls: message.calls().iter().map(call).collect(),
            finish_reason: None,
            reasoning: None,
            reasoning_content: None,
            platform_message_id: message.platform_id.as_deref(),
        };
        match &message.body {
            Body::Assistant(assistant) => {
                view.finish_reason = assistant.finish.as_deref();
                view.reasoning = assistant.reasoning.text.as_deref();
                view.reasoning_content = assistant.reasoning.content.as_deref();
            }
            Body::Result(result) => {
                view.tool_call_id = Some(&result.call_id);
                view.tool_name = result.name.as_deref();
            }
            Body::System(_) | Body::User(_) | Body::Other { .. } => {}
        }
        view
    }
}

fn content(content: &Content) -> Value {
    match content {
        Content::Nothing => Value::Null,
        Content::Text(text) => text.as_str().into(),
        Content::Parts(parts) => parts.iter().map(part).collect(),
        Content::Opaque(json) => parsed(json),
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { url, detail: None } => json!({"type": "image_url", "image_url": {"url": url}}),
        Part::Image { url, detail } => {
            json!({"type": "image_url", "image_url": {"url": url, "detail": detail}})
        }
        Part::Opaque(json) => parsed(json),
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

/// It parsed when it was stored; if a later hand broke it, it is shown as the text it is.
fn parsed(json: &JsonText) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_else(|_| json.as_str().into())
}

#[derive(Serialize)]
pub struct HitView<'a> {
    session_id: &'a str,
    message_id: u64,
    role: &'a str,
    timestamp: f64,
    snippet: &'a str,
    title: Option<&'a str>,
}

impl<'a> From<&'a Hit> for HitView<'a> {
    fn from(hit: &'a Hit) -> Self {
        Self {
            session_id: hit.session.as_str(),
            message_id: hit.row.0,
            role: &hit.role,
            timestamp: hit.at.as_seconds(),
            snippet: &hit.snippet,
            title: hit.title.as_deref(),
        }
    }
}

#[derive(Serialize)]
pub struct TraceView<'a> {
    at: f64,
    session_id: &'a str,
    name: &'a str,
    detail: &'a str,
}

impl<'a> From<&'a Trace> for TraceView<'a> {
    fn from(trace: &'a Trace) -> Self {
        Self {
            at: trace.at.as_seconds(),
            session_id: trace.session.as_str(),
            name: &trace.name,
            detail: &trace.detail,
        }
    }
}

/// A list as OpenAI writes them.
#[derive(Serialize)]
pub struct ListView<T> {
    pub object: &'static str,
    pub data: Vec<T>,
    #[serde(flatten)]
    pub page: Option<PageRequest>,
}

#[derive(Serialize)]
pub struct PageRequest {
    pub limit: usize,
    pub offset: usize,
    pub has_more: bool,
}

impl<T> ListView<T> {
    pub fn of<'a, S: 'a>(items: &'a [S], page: Option<PageRequest>) -> Self
    where
        T: From<&'a S>,
    {
        Self { object: "list", data: items.iter().map(T::from).collect(), page }
    }
}
