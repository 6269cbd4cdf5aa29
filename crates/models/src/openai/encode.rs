//! A message as the bytes of one object. Own field order, content last where it is a text, so
//! that a request can be joined, merged and marked without parsing what is in it.

use super::ReasoningReturn;
use crate::json::{arguments, elements, fields, kind, push_field, string};
use throughline_core::message::{Assistant, Body, Content, JsonText, Message, Part, ToolCall};
use throughline_core::prompt::{Segment, SegmentRole};

pub(crate) fn system(text: &str) -> Segment {
    segment(SegmentRole::System, spoken("system", &string(text)))
}

pub(crate) fn message(message: &Message, reasoning: ReasoningReturn) -> Segment {
    match &message.body {
        Body::System(_) => segment(SegmentRole::System, spoken("system", &content(message))),
        // Rows of other roles are not for models and do not come here.
        Body::User(_) | Body::Other { .. } => segment(SegmentRole::User, spoken("user", &content(message))),
        Body::Assistant(said) => segment(SegmentRole::Assistant, assistant(message, said, reasoning)),
        Body::Result(result) => {
            let mut out = String::from("{\"role\":\"tool\"");
            push_field(&mut out, "tool_call_id", &string(&result.call_id));
            push_field(&mut out, "content", &content(message));
            out.push('}');
            segment(SegmentRole::Result, out)
        }
    }
}

fn segment(role: SegmentRole, bytes: String) -> Segment {
    Segment { role, bytes: bytes.into() }
}

fn spoken(role: &str, content: &str) -> String {
    let mut out = String::with_capacity(content.len() + 32);
    out.push('{');
    push_field(&mut out, "role", &string(role));
    push_field(&mut out, "content", content);
    out.push('}');
    out
}

/// A text, or a list of parts.
fn content(message: &Message) -> String {
    match (&message.sent_as, message.content()) {
        (Some(text), _) | (None, Content::Text(text)) => string(text),
        (None, Content::Nothing) => string(""),
        (None, Content::Opaque(json)) => string(json.as_str()),
        (None, Content::Parts(parts)) if parts.is_empty() => string(""),
        (None, Content::Parts(parts)) => {
            let parts: Vec<String> = parts.iter().map(part).collect();
            format!("[{}]", parts.join(","))
        }
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("{{\"type\":\"text\",\"text\":{}}}", string(text)),
        Part::Image { url, detail } => {
            let mut image = String::from("{");
            push_field(&mut image, "url", &string(url));
            if let Some(detail) = detail {
                push_field(&mut image, "detail", &string(detail));
            }
            format!("{{\"type\":\"image_url\",\"image_url\":{image}}}}}")
        }
        Part::Opaque(json) => json.as_str().to_owned(),
    }
}

fn assistant(message: &Message, said: &Assistant, reasoning: ReasoningReturn) -> String {
    let mut out = String::from("{\"role\":\"assistant\"");
    if let Some(text) = thought(said, reasoning) {
        push_field(&mut out, "reasoning_content", &string(text));
    }
    if matches!(reasoning, ReasoningReturn::AsStored | ReasoningReturn::Details)
        && let Some(details) = said.reasoning.details.as_ref().and_then(own_details)
    {
        push_field(&mut out, "reasoning_details", &details);
    }
    if !said.calls.is_empty() {
        let calls: Vec<String> = said.calls.iter().map(call).collect();
        push_field(&mut out, "tool_calls", &format!("[{}]", calls.join(",")));
    }
    // Assistants speak in text: no server takes a picture from one.
    let text = message.sent_as.clone().unwrap_or_else(|| match &said.content {
        Content::Opaque(json) => json.as_str().to_owned(),
        content => content.plain(),
    });
    let nothing_said = text.is_empty() && !said.calls.is_empty();
    push_field(&mut out, "content", if nothing_said { "null".to_owned() } else { string(&text) }.as_str());
    out.push('}');
    out
}

/// What goes back as `reasoning_content`.
fn thought(said: &Assistant, reasoning: ReasoningReturn) -> Option<&str> {
    let content = said.reasoning.content.as_deref();
    match reasoning {
        ReasoningReturn::Never | ReasoningReturn::Details => None,
        ReasoningReturn::AsStored => content,
        ReasoningReturn::Always => {
            let thought = content.or(said.reasoning.text.as_deref()).filter(|text| !text.is_empty());
            Some(thought.unwrap_or(" ")) // an empty text is refused where the field is demanded
        }
    }
}

/// The details without what another provider signed: its blocks mean nothing here, and are refused.
fn own_details(details: &JsonText) -> Option<String> {
    const FOREIGN: [&str; 4] = ["thinking", "redacted_thinking", "text_here", "call_here"];
    let all = elements(details.as_str())?;
    let is_own = |block: &&serde_json::value::RawValue| {
        kind(block.get()).is_none_or(|kind| !FOREIGN.contains(&kind.as_str()))
    };
    let own: Vec<&str> = all.iter().copied().filter(is_own).map(|block| block.get()).collect();
    match own.len() {
        0 => None,
        count if count == all.len() => Some(details.as_str().to_owned()),
        _ => Some(format!("[{}]", own.join(","))),
    }
}

fn call(call: &ToolCall) -> String {
    let mut function = String::from("{");
    let name = if call.name.is_empty() { "unnamed" } else { &call.name };
    push_field(&mut function, "name", &string(name));
    push_field(&mut function, "arguments", &string(&arguments(&call.arguments)));
    function.push('}');
    let mut out = String::from("{");
    push_field(&mut out, "id", &string(&call.id));
    push_field(&mut out, "type", "\"function\"");
    push_field(&mut out, "function", &function);
    let extra = call.extra.as_ref().and_then(|extra| fields(extra.as_str())).unwrap_or_default();
    for (name, value) in extra {
        if !matches!(name.as_str(), "id" | "type" | "function" | "index") {
            push_field(&mut out, &name, value.get());
        }
    }
    out.push('}');
    out
}
