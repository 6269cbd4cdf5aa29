//! A message as the bytes of one object, its content always a list of blocks.

use super::Side;
use crate::json::{arguments, elements, fields, kind, push_field, string};
use serde_json::Value;
use throughline_core::message::{Assistant, Body, Content, JsonText, Message, Part, ToolCall, ToolResult};
use throughline_core::prompt::{Segment, SegmentRole};

pub(super) const CLOSING: &str = "]}";

/// A block may not be blank, nor a message be without blocks.
const EMPTY: &str = "(empty message)";
const NO_OUTPUT: &str = "(no output)";

/// Longer names are refused; such a one comes from another provider's history.
const NAME_LENGTH_MAX: usize = 128;

/// Which thoughts go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingReturn {
    /// Those whose signature the server can check.
    Signed,
    All,
}

pub(super) fn system(text: &str) -> Segment {
    let bytes = if text.trim().is_empty() { String::new() } else { text_block(text) };
    Segment { role: SegmentRole::System, bytes: bytes.into() }
}

pub(super) fn message(message: &Message, thinking: ThinkingReturn) -> Segment {
    let (role, blocks) = match &message.body {
        // Rows of other roles are not for models and do not come here.
        Body::User(_) | Body::Other { .. } => (SegmentRole::User, spoken(message)),
        Body::System(_) => (SegmentRole::System, spoken(message)),
        Body::Assistant(said) => (SegmentRole::Assistant, assistant(message, said, thinking)),
        Body::Result(result) => (SegmentRole::Result, vec![tool_result(message, result)]),
    };
    let blocks = if blocks.is_empty() { text_block(EMPTY) } else { blocks.join(",") };
    Segment { role, bytes: whole(Side::of(role), &blocks).into() }
}

pub(super) fn whole(side: Side, blocks: &str) -> String {
    format!("{}{blocks}{CLOSING}", side.opening())
}

/// The blocks of a segment that this file has written.
pub(super) fn blocks(message: &str, side: Side) -> Option<&str> {
    message.strip_prefix(side.opening())?.strip_suffix(CLOSING)
}

/// The tools in this provider's shape, in their order.
pub(super) fn tools(list: &JsonText) -> Segment {
    let all = elements(list.as_str()).unwrap_or_default();
    let tools: Vec<String> = all.iter().filter_map(|tool| self::tool(tool.get())).collect();
    Segment { role: SegmentRole::Tools, bytes: format!("[{}]", tools.join(",")).into() }
}

fn tool(text: &str) -> Option<String> {
    let outer = fields(text)?;
    let Some((_, function)) = outer.iter().find(|(name, _)| name == "function") else {
        return Some(text.to_owned()); // already in this shape, or one of the provider's own
    };
    let function = fields(function.get())?;
    let field = |name: &str| function.iter().find(|(field, _)| field == name).map(|(_, value)| value.get());
    let mut out = String::from("{");
    push_field(&mut out, "name", field("name")?);
    if let Some(description) = field("description").filter(|text| *text != "null") {
        push_field(&mut out, "description", description);
    }
    let schema = field("parameters").and_then(schema);
    push_field(
        &mut out,
        "input_schema",
        schema.as_deref().unwrap_or("{\"type\":\"object\",\"properties\":{}}"),
    );
    out.push('}');
    Some(out)
}

/// A schema whose root is an object: alternatives are refused there.
fn schema(text: &str) -> Option<String> {
    let all = fields(text)?;
    let is_plain = |name: &str| !matches!(name, "oneOf" | "anyOf" | "allOf");
    let has_type = all.iter().any(|(name, _)| name == "type");
    if has_type && all.iter().all(|(name, _)| is_plain(name)) {
        return Some(text.to_owned());
    }
    let mut out = String::from("{");
    if !has_type {
        push_field(&mut out, "type", "\"object\"");
    }
    for (name, value) in all.iter().filter(|(name, _)| is_plain(name)) {
        push_field(&mut out, name, value.get());
    }
    out.push('}');
    Some(out)
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", string(text))
}

fn spoken(message: &Message) -> Vec<String> {
    match (&message.sent_as, message.content()) {
        (Some(text), _) | (None, Content::Text(text)) => some_text(text).into_iter().collect(),
        (None, Content::Nothing) => Vec::new(),
        (None, Content::Opaque(json)) => vec![text_block(json.as_str())],
        (None, Content::Parts(parts)) => parts.iter().filter_map(part).collect(),
    }
}

fn some_text(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text_block(text))
}

fn part(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => some_text(text),
        Part::Image { url, .. } => Some(format!("{{\"type\":\"image\",\"source\":{}}}", source(url))),
        Part::Opaque(json) => Some(opaque(json.as_str())),
    }
}

fn source(url: &str) -> String {
    let mut out = String::from("{");
    match url.strip_prefix("data:").and_then(|data| data.split_once(',')) {
        Some((head, data)) => {
            let media = head.split(';').next().filter(|media| media.starts_with("image/"));
            push_field(&mut out, "type", "\"base64\"");
            push_field(&mut out, "media_type", &string(media.unwrap_or("image/jpeg")));
            push_field(&mut out, "data", &string(data));
        }
        None => {
            push_field(&mut out, "type", "\"url\"");
            push_field(&mut out, "url", &string(url));
        }
    }
    out.push('}');
    out
}

/// A part that this provider knows is passed on without marks, which are ours to set. Of any other
/// the model learns that it was there.
fn opaque(json: &str) -> String {
    let kind = kind(json).unwrap_or_else(|| "unknown".to_owned());
    let Some(fields) =
        fields(json).filter(|_| matches!(kind.as_str(), "document" | "image" | "search_result"))
    else {
        return text_block(&format!("[a part of kind {kind:?}, which this model cannot read]"));
    };
    let mut out = String::from("{");
    for (name, value) in fields.iter().filter(|(name, _)| name != "cache_control") {
        push_field(&mut out, name, value.get());
    }
    out.push('}');
    out
}

fn tool_result(message: &Message, result: &ToolResult) -> String {
    let mut out = String::from("{\"type\":\"tool_result\"");
    push_field(&mut out, "tool_use_id", &string(&plain_name(&result.call_id)));
    let content = match (&message.sent_as, message.content()) {
        (None, Content::Parts(_)) => {
            let blocks = spoken(message);
            if blocks.is_empty() { string(NO_OUTPUT) } else { format!("[{}]", blocks.join(",")) }
        }
        (None, Content::Nothing) => string(NO_OUTPUT),
        (None, Content::Opaque(json)) => string(json.as_str()),
        (Some(text), _) | (None, Content::Text(text)) if text.trim().is_empty() => string(NO_OUTPUT),
        (Some(text), _) | (None, Content::Text(text)) => string(text),
    };
    push_field(&mut out, "content", &content);
    out.push('}');
    out
}

fn assistant(message: &Message, said: &Assistant, thinking: ThinkingReturn) -> Vec<String> {
    let text = message.sent_as.clone().unwrap_or_else(|| match &said.content {
        Content::Opaque(json) => json.as_str().to_owned(),
        content => content.plain(),
    });
    let details = said.reasoning.details.as_ref();
    let details = details.and_then(|details| elements(details.as_str())).unwrap_or_default();
    let details: Vec<&str> = details.into_iter().map(|block| block.get()).collect();
    interleaved(&details, &text, said, thinking).unwrap_or_else(|| {
        let thoughts =
            details.iter().filter(|block| goes_back(block, thinking)).map(|block| (*block).to_owned());
        thoughts.chain(some_text(&text)).chain(said.calls.iter().map(tool_use)).collect()
    })
}

/// The blocks in the order in which the model wrote them, where it thought between its words.
/// None where it did not, or where its words have changed since.
fn interleaved(
    details: &[&str],
    text: &str,
    said: &Assistant,
    thinking: ThinkingReturn,
) -> Option<Vec<String>> {
    let mut blocks = Vec::new();
    let (mut rest, mut calls) = (text, said.calls.iter());
    let mut was_divided = false;
    for block in details {
        let value: Value = serde_json::from_str(block).ok()?;
        match value.get("type").and_then(Value::as_str) {
            Some("text_here") => {
                let length = usize::try_from(value.get("length")?.as_u64()?).ok()?;
                let (words, after) = rest.split_at_checked(length)?;
                rest = after;
                blocks.extend(some_text(words));
                was_divided = true;
            }
            Some("call_here") => {
                blocks.push(tool_use(calls.next()?));
                was_divided = true;
            }
            _ if goes_back(block, thinking) => blocks.push((*block).to_owned()),
            _ => {}
        }
    }
    blocks.extend(some_text(rest));
    blocks.extend(calls.map(tool_use));
    was_divided.then_some(blocks)
}

pub(super) fn is_thought(block: &str) -> bool {
    matches!(kind(block).as_deref(), Some("thinking" | "redacted_thinking"))
}

fn goes_back(block: &str, thinking: ThinkingReturn) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(block) else { return false };
    let has = |name: &str| value.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match value.get("type").and_then(Value::as_str) {
        Some("thinking") => thinking == ThinkingReturn::All || has("signature"),
        Some("redacted_thinking") => has("data"),
        _ => false,
    }
}

fn tool_use(call: &ToolCall) -> String {
    let mut out = String::from("{\"type\":\"tool_use\"");
    push_field(&mut out, "id", &string(&plain_name(&call.id)));
    push_field(&mut out, "name", &string(&plain_name(&call.name)));
    push_field(&mut out, "input", &arguments(&call.arguments));
    out.push('}');
    out
}

/// Ids and names have few characters to choose from here; other providers' have more. The same
/// name always becomes the same one, so that calls and results still meet.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let plain: String = name.chars().map(plain).take(NAME_LENGTH_MAX).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}
