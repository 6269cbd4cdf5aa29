//! Tool calls, as the column `tool_calls` holds them.
//!
//! Hermes writes `id`, then `call_id` and `response_item_id`, then `type` and `function`, then what
//! a provider added. A call that is written otherwise keeps its own text in `extra`, whole: what
//! comes in goes out again byte for byte.

use crate::json;
use throughline_core::message::{JsonText, ToolCall};

/// None where there are no calls: the column is NULL then.
pub fn calls_to_json(calls: &[ToolCall]) -> Option<JsonText> {
    if calls.is_empty() {
        return None;
    }
    let calls: Vec<_> = calls.iter().map(call_to_text).collect();
    Some(JsonText::from_valid(format!("[{}]", calls.join(", "))))
}

/// None if `text` is not a list of objects.
pub fn calls_from_json(text: &str) -> Option<Vec<ToolCall>> {
    let text = json::read(text)?;
    json::items(&text)?.into_iter().map(call_from_text).collect()
}

type CallMembers<'a> = [(String, &'a str)];

fn call_to_text(call: &ToolCall) -> String {
    let Some(extra) = &call.extra else { return in_order(call, "", "") };
    let Some(members) = json::members(extra.as_str()) else { return in_order(call, "", "") };
    if is_whole(call, &members) {
        return extra.to_string();
    }
    let others = beside_the_known(&members);
    if others.len() == members.len() && object(&members) != extra.as_str() {
        // Not in Python's form: it stays as it is, in one piece.
        let inside = extra.as_str().trim();
        return in_order(call, "", &inside[1..inside.len() - 1]);
    }
    let early = others.iter().take_while(|(name, _)| is_early(name)).count();
    in_order(call, &joined(&others[..early]), &joined(&others[early..]))
}

/// The call as Hermes writes it, with what stands between `id` and `type`, and after `function`.
fn in_order(call: &ToolCall, early: &str, late: &str) -> String {
    let [id, name, arguments] = [&call.id, &call.name, &call.arguments].map(|text| json::quote(text));
    let early = if early.is_empty() { String::new() } else { format!(", {early}") };
    let late = if late.is_empty() { String::new() } else { format!(", {late}") };
    format!(
        r#"{{"id": {id}{early}, "type": "function", "function": {{"name": {name}, "arguments": {arguments}}}{late}}}"#
    )
}

fn call_from_text(text: &str) -> Option<ToolCall> {
    let members = json::members(text)?;
    let (id, name, arguments) = known(&members);
    let call = ToolCall { id, name, arguments, extra: None };
    let others = beside_the_known(&members);
    let candidates = [
        (!others.is_empty()).then(|| object(&others)),
        Some(text)
            .and_then(|text| text.strip_prefix(in_order(&call, "", "").strip_suffix('}')?))
            .and_then(|late| late.strip_prefix(", ")?.strip_suffix('}'))
            .map(|late| format!("{{{late}}}")),
        Some(text.to_owned()),
    ];
    // The first that gives the same text back; the last, which is that text, always does.
    candidates
        .into_iter()
        .map(|extra| ToolCall { extra: extra.map(JsonText::from_valid), ..call.clone() })
        .find(|call| call_to_text(call) == text)
}

/// `extra` is the call itself, as someone wrote it.
fn is_whole(call: &ToolCall, members: &CallMembers<'_>) -> bool {
    let (id, name, arguments) = known(members);
    (&id, &name, &arguments) == (&call.id, &call.name, &call.arguments)
}

/// Id, name and arguments, where they are. Some of Hermes' writers leave out `function`.
fn known(members: &CallMembers<'_>) -> (String, String, String) {
    let function = value(members, "function").and_then(json::members);
    let function = function.as_deref().unwrap_or(members);
    let text = |members, name| value(members, name).map(plain).unwrap_or_default();
    (text(members, "id"), text(function, "name"), text(function, "arguments"))
}

/// A string's words; anything else as it is written; nothing for null.
fn plain(value: &str) -> String {
    match serde_json::from_str::<Option<String>>(value) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => value.to_owned(),
    }
}

fn value<'a>(members: &CallMembers<'a>, name: &str) -> Option<&'a str> {
    members.iter().rev().find(|(found, _)| found == name).map(|(_, value)| *value)
}

fn beside_the_known<'a>(members: &CallMembers<'a>) -> Vec<(String, &'a str)> {
    let known = |name: &str| matches!(name, "id" | "type" | "function");
    members.iter().filter(|(name, _)| !known(name)).cloned().collect()
}

fn is_early(name: &str) -> bool {
    matches!(name, "call_id" | "response_item_id")
}

fn object(members: &CallMembers<'_>) -> String {
    format!("{{{}}}", joined(members))
}

fn joined(members: &CallMembers<'_>) -> String {
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("{}: {value}", json::quote(name))).collect();
    members.join(", ")
}
