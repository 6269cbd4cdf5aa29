//! An answer with calls, and how each of its calls stands.

use super::content::StoredContent;
use super::{Readable, StoredText, UnreadableColumn, borrowed, json, json_text, owned, parsed, written};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use throughline_core::message::{Assistant, Reasoning, ToolCall, ToolResult};
use throughline_core::time::Time;
use throughline_core::tool::{Ask, Elicitation, Grant, Question};

#[derive(Serialize, Deserialize)]
pub(super) struct StoredAnswer<'a> {
    content: StoredContent<'a>,
    calls: Vec<StoredCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    codex_reasoning_items: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    codex_message_items: Option<StoredText<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredCall<'a> {
    id: StoredText<'a>,
    name: StoredText<'a>,
    arguments: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<StoredText<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredResult<'a> {
    call_id: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<StoredText<'a>>,
    content: StoredContent<'a>,
}

#[derive(Serialize, Deserialize)]
struct StoredAsk<'a> {
    #[serde(flatten)]
    question: StoredQuestion<'a>,
    asked: i64,
    until: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredQuestion<'a> {
    Approval { what: StoredText<'a>, why: StoredText<'a>, patterns: Cow<'a, [String]> },
    Clarify { question: StoredText<'a>, choices: Cow<'a, [String]> },
    Elicitation { server: StoredText<'a>, question: StoredText<'a>, choices: Cow<'a, [String]>, number: u32 },
}

pub(crate) fn answer_text(answer: &Assistant) -> String {
    written(&StoredAnswer::from(answer))
}

pub(crate) fn answer(text: &str) -> Readable<Assistant> {
    parsed::<StoredAnswer<'_>>(text).map(Assistant::from)
}

pub(crate) fn result_text(result: &ToolResult) -> String {
    written(&StoredResult::from(result))
}

pub(crate) fn result(text: &str) -> Readable<ToolResult> {
    parsed::<StoredResult<'_>>(text).map(ToolResult::from)
}

pub(crate) fn ask_text(ask: &Ask) -> String {
    written(&StoredAsk::from(ask))
}

pub(crate) fn ask(text: &str) -> Readable<Ask> {
    parsed::<StoredAsk<'_>>(text).map(Ask::from)
}

/// A word, not JSON.
pub(crate) fn grant_name(grant: Grant) -> &'static str {
    match grant {
        Grant::Once => "once",
        Grant::Session => "session",
        Grant::Always => "always",
    }
}

pub(crate) fn grant_from(name: &str) -> Readable<Grant> {
    match name {
        "once" => Ok(Grant::Once),
        "session" => Ok(Grant::Session),
        "always" => Ok(Grant::Always),
        _ => Err(UnreadableColumn::Value("a grant of an unknown reach")),
    }
}

impl<'a> From<&'a Assistant> for StoredAnswer<'a> {
    fn from(answer: &'a Assistant) -> Self {
        let Assistant { content, calls, finish, reasoning } = answer;
        let Reasoning { text, content: thought, details, codex_reasoning_items, codex_message_items } =
            reasoning;
        Self {
            content: content.into(),
            calls: calls.iter().map(StoredCall::from).collect(),
            finish: borrowed(finish),
            reasoning: borrowed(text),
            reasoning_content: borrowed(thought),
            reasoning_details: json_text(details),
            codex_reasoning_items: json_text(codex_reasoning_items),
            codex_message_items: json_text(codex_message_items),
        }
    }
}

impl From<StoredAnswer<'_>> for Assistant {
    fn from(stored: StoredAnswer<'_>) -> Self {
        Self {
            content: stored.content.into(),
            calls: stored.calls.into_iter().map(ToolCall::from).collect(),
            finish: owned(stored.finish),
            reasoning: Reasoning {
                text: owned(stored.reasoning),
                content: owned(stored.reasoning_content),
                details: json(stored.reasoning_details),
                codex_reasoning_items: json(stored.codex_reasoning_items),
                codex_message_items: json(stored.codex_message_items),
            },
        }
    }
}

impl<'a> From<&'a ToolCall> for StoredCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let ToolCall { id, name, arguments, extra } = call;
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), extra: json_text(extra) }
    }
}

impl From<StoredCall<'_>> for ToolCall {
    fn from(stored: StoredCall<'_>) -> Self {
        Self {
            id: stored.id.into_owned(),
            name: stored.name.into_owned(),
            arguments: stored.arguments.into_owned(),
            extra: json(stored.extra),
        }
    }
}

impl<'a> From<&'a ToolResult> for StoredResult<'a> {
    fn from(result: &'a ToolResult) -> Self {
        let ToolResult { call_id, name, content } = result;
        Self { call_id: call_id.into(), name: borrowed(name), content: content.into() }
    }
}

impl From<StoredResult<'_>> for ToolResult {
    fn from(stored: StoredResult<'_>) -> Self {
        Self {
            call_id: stored.call_id.into_owned(),
            name: owned(stored.name),
            content: stored.content.into(),
        }
    }
}

impl<'a> From<&'a Ask> for StoredAsk<'a> {
    fn from(ask: &'a Ask) -> Self {
        let question = match &ask.question {
            Question::Approval { what, why, patterns } => {
                StoredQuestion::Approval { what: what.into(), why: why.into(), patterns: patterns.into() }
            }
            Question::Clarify { question, choices } => {
                StoredQuestion::Clarify { question: question.into(), choices: choices.into() }
            }
            Question::Elicitation { asked: Elicitation { server, question, choices }, number } => {
                StoredQuestion::Elicitation {
                    server: server.into(),
                    question: question.into(),
                    choices: choices.into(),
                    number: *number,
                }
            }
        };
        Self { question, asked: ask.asked.0, until: ask.until.0 }
    }
}

impl From<StoredAsk<'_>> for Ask {
    fn from(stored: StoredAsk<'_>) -> Self {
        let question = match stored.question {
            StoredQuestion::Approval { what, why, patterns } => Question::Approval {
                what: what.into_owned(),
                why: why.into_owned(),
                patterns: patterns.into_owned(),
            },
            StoredQuestion::Clarify { question, choices } => {
                Question::Clarify { question: question.into_owned(), choices: choices.into_owned() }
            }
            StoredQuestion::Elicitation { server, question, choices, number } => {
                let (server, question) = (server.into_owned(), question.into_owned());
                let asked = Elicitation { server, question, choices: choices.into_owned() };
                Question::Elicitation { asked, number }
            }
        };
        Self { question, asked: Time(stored.asked), until: Time(stored.until) }
    }
}
