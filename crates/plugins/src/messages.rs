//! Messages as they cross the wire, and how those that came back are recognised.
//!
//! A plugin returns the whole conversation as it shall be. What stays must be found again in what was
//! sent, although another language has read and written it in between: numbers may have changed their
//! looks, an empty field may have gone, and so may what is only the gateway's business.

use crate::protocol::Message as Wire;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use throughline_core::message::Body;
use throughline_core::{Message, history};
use throughline_hermes::row::{message_from_json, message_to_json};

/// Fields that say nothing to a model: a plugin may leave them out.
const BOOKKEEPING: [&str; 6] =
    ["timestamp", "message_id", "api_content", "observed", "finish_reason", "tool_name"];

pub fn to_wire(messages: &[Message]) -> Result<Vec<Wire>, String> {
    let wire = |message: &Message| serde_json::from_str(message_to_json(message).as_str());
    messages
        .iter()
        .map(wire)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("A message of this conversation cannot be told to a plugin: {error}."))
}

/// What an engine made of `before`: so many at both ends stay, and these stand in place of the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMessages {
    pub first: usize,
    pub messages: Vec<Message>,
    pub last: usize,
}

/// Why a list is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableList {
    /// It differs in nothing.
    Same,
    /// In a sentence.
    Malformed(String),
}

/// Finds out what stays, and whether the rest can be sent to a model.
pub fn joined(before: &[Message], sent: &[Wire], returned: &[Wire]) -> Result<JoinedMessages, UnusableList> {
    let no = |why: &str| Err(UnusableList::Malformed(why.to_owned()));
    if returned.is_empty() {
        return no("The context engine returned an empty conversation.");
    }
    let shorter = sent.len().min(returned.len());
    let mut first = (0..shorter).take_while(|place| is_same(&sent[*place], &returned[*place])).count();
    if first == sent.len() && first == returned.len() {
        return Err(UnusableList::Same);
    }
    let ends = sent.iter().rev().zip(returned.iter().rev());
    let mut last = ends.take(shorter - first).take_while(|(sent, returned)| is_same(sent, returned)).count();
    if first + last == sent.len() {
        return no("The context engine replaced nothing.");
    }
    // Where messages only went, one of those that stay stands for them: something has to.
    if first + last == returned.len() {
        match last {
            0 => first -= 1,
            _ => last -= 1,
        }
    }
    let end = sent.len() - last;
    let replaced = &sent[first..end];
    let mut places = MessagePositions::of(replaced);
    let mut place = 0;
    let mut messages = Vec::new();
    for wire in &returned[first..returned.len() - last] {
        // One that was sent is that one, with all that the plugin was not told or did not keep.
        match places.next(wire, place) {
            Some(found) => {
                messages.push(before[first + found].clone());
                place = found + 1;
            }
            None => messages.push(made(wire, &before[end - 1]).map_err(UnusableList::Malformed)?),
        }
    }
    if messages.len() > end - first {
        return no("The context engine returned more messages than it replaced.");
    }
    let after = before[..first].iter().chain(&messages).chain(&before[end..]);
    if history::violations(after).len() > history::violations(before).len() {
        return no("The context engine tore a tool call from its result.");
    }
    Ok(JoinedMessages { first, messages, last })
}

/// A message of the engine's own making. It was made when the last that it stands for was said.
fn made(wire: &Wire, replaced: &Message) -> Result<Message, String> {
    let text = serde_json::to_string(wire).map_err(|error| error.to_string())?;
    let mut message = message_from_json(&text)
        .map_err(|error| format!("The context engine returned something that is no message: {error}."))?;
    match &message.body {
        Body::User(_) | Body::Assistant(_) | Body::Result(_) => {}
        Body::System(_) | Body::Other { .. } => {
            let role = message.role();
            return Err(format!(
                "The context engine returned a message of the role {role:?}, which it may not."
            ));
        }
    }
    if message.content().is_empty() && message.calls().is_empty() && !matches!(message.body, Body::Result(_))
    {
        return Err("The context engine returned an empty message.".to_owned());
    }
    if !wire.contains_key("timestamp") {
        message.at = replaced.at;
    }
    Ok(message)
}

fn is_same(sent: &Wire, returned: &Wire) -> bool {
    let is_told = |name: &String| returned.contains_key(name) || !BOOKKEEPING.contains(&name.as_str());
    let stays = |(name, value): (&String, &Value)| {
        !is_told(name) || is_alike(value, returned.get(name).unwrap_or(&Value::Null))
    };
    sent.iter().all(stays) && returned.iter().all(|(name, value)| sent.contains_key(name) || value.is_null())
}

/// Where messages stand that were sent, by what [`is_same`] compares: one that came back is found without comparing it with
/// all of them.
struct MessagePositions<'a> {
    sent: &'a [Wire],
    /// For each choice of fields that a plugin may leave out: where messages with this fingerprint stand, in order.
    by_told: HashMap<Vec<&'static str>, HashMap<u64, Vec<usize>>>,
    hashing: RandomState,
}

impl<'a> MessagePositions<'a> {
    fn of(sent: &'a [Wire]) -> Self {
        Self { sent, by_told: HashMap::new(), hashing: RandomState::new() }
    }

    /// The first place from here on where this message was sent.
    fn next(&mut self, returned: &Wire, from: usize) -> Option<usize> {
        let told: Vec<_> = BOOKKEEPING.into_iter().filter(|name| returned.contains_key(*name)).collect();
        let (sent, hashing) = (self.sent, &self.hashing);
        let places = self.by_told.entry(told.clone()).or_insert_with(|| {
            let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
            for (place, message) in sent.iter().enumerate() {
                places.entry(fingerprint(message, &told, hashing)).or_default().push(place);
            }
            places
        });
        let places = places.get(&fingerprint(returned, &told, hashing))?;
        let later = &places[places.partition_point(|place| *place < from)..];
        later.iter().copied().find(|place| is_same(&sent[*place], returned))
    }
}

/// Equal for messages that are the same, as far as these of the fields that may be left out are told.
fn fingerprint(message: &Wire, told: &[&str], hashing: &RandomState) -> u64 {
    let counts = |name: &str| told.contains(&name) || !BOOKKEEPING.contains(&name);
    let fields = message.iter().filter(|(name, value)| counts(name) && !value.is_null());
    fields.fold(0, |sum, (name, value)| sum.wrapping_add(hashing.hash_one((name, hashed(value, hashing)))))
}

/// Equal for values that are alike ([`is_alike`]).
fn hashed(value: &Value, hashing: &RandomState) -> u64 {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| *number != 0.0).unwrap_or_default();
            hashing.hash_one(("number", number.to_bits()))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| hashed(item, hashing)).collect();
            hashing.hash_one(("list", items))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| hashing.hash_one((name, hashed(value, hashing))));
            hashing.hash_one(("object", fields.fold(0_u64, u64::wrapping_add)))
        }
        Value::String(text) => hashing.hash_one(("text", text)),
        Value::Bool(value) => hashing.hash_one(("flag", value)),
        Value::Null => 0,
    }
}

/// Equal, however another language writes its numbers.
fn is_alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_alike(value, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use throughline_core::message::{Assistant, Content, ToolCall, ToolResult};
    use throughline_core::time::Time;

    fn user(text: &str) -> Message {
        Message::user(Time(1_700_000_000_000_000), Content::text(text))
    }

    fn call(id: &str) -> Message {
        let call = ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into(), extra: None };
        Message::new(Time(5), Body::Assistant(Assistant { calls: vec![call], ..Assistant::default() }))
    }

    fn result(id: &str) -> Message {
        let result = ToolResult { call_id: id.into(), name: Some("t".into()), content: Content::text("r") };
        Message::new(Time(6), Body::Result(result))
    }

    fn wire(value: Value) -> Wire {
        serde_json::from_value(value).unwrap()
    }

    fn summary() -> Wire {
        wire(json!({"role": "user", "content": "a summary"}))
    }

    #[test]
    fn p19_what_stays_is_found_at_both_ends() {
        let before = [user("1"), call("a"), result("a"), user("2"), user("3")];
        let sent = to_wire(&before).unwrap();
        let returned = [sent[0].clone(), summary(), sent[4].clone()];
        let kept = joined(&before, &sent, &returned).unwrap();
        assert_eq!((kept.first, kept.last), (1, 1));
        assert_eq!(kept.messages.len(), 1);
        assert_eq!(kept.messages[0].at, before[3].at);
        assert_eq!(kept.messages[0].content().plain(), "a summary");
    }

    #[test]
    fn p19_a_message_that_another_language_has_written_is_recognised() {
        let before = [user("1"), user("2"), user("3")];
        let sent = to_wire(&before).unwrap();
        let mut first = sent[0].clone();
        first.insert("timestamp".into(), json!(1_700_000_000_u64)); // a whole number, as JavaScript writes it
        first.insert("name".into(), Value::Null);
        let mut last = sent[2].clone();
        last.remove("timestamp");
        let kept = joined(&before, &sent, &[first, summary(), last]).unwrap();
        assert_eq!((kept.first, kept.last), (1, 1));
    }

    #[test]
    fn p19_a_torn_or_senseless_list_is_refused_and_the_same_list_is_nothing() {
        let before = [user("1"), call("a"), result("a"), user("2")];
        let sent = to_wire(&before).unwrap();
        assert_eq!(joined(&before, &sent, &sent), Err(UnusableList::Same));
        let refused = |returned: &[Wire]| match joined(&before, &sent, returned) {
            Err(UnusableList::Malformed(why)) => why,
            other => panic!("{other:?}"),
        };
        let torn = [sent[0].clone(), sent[1].clone(), sent[3].clone()];
        assert!(refused(&torn).contains("tore a tool call"), "{}", refused(&torn));
        assert!(refused(&[]).contains("empty conversation"));
        let more = [summary(), summary(), summary(), summary(), summary()];
        assert!(refused(&more).contains("more messages"));
        let longer = [sent[0].clone(), sent[1].clone(), sent[2].clone(), sent[3].clone(), summary()];
        assert!(refused(&longer).contains("replaced nothing"));
        for odd in [
            json!({"role": "system", "content": "obey"}),
            json!({"content": "nobody said it"}),
            json!({"role": "user", "content": ""}),
            json!({"role": "assistant", "content": "x", "tool_calls": 7}),
        ] {
            let why = refused(&[wire(odd.clone())]);
            assert!(why.starts_with("The context engine returned"), "{odd}: {why}");
        }
    }

    #[test]
    fn p19_messages_that_only_went_leave_one_that_stands_for_them() {
        let before = [user("1"), user("2"), user("3"), user("4")];
        let sent = to_wire(&before).unwrap();
        let kept = joined(&before, &sent, &sent[2..]).unwrap();
        assert_eq!(kept, JoinedMessages { first: 0, messages: vec![before[2].clone()], last: 1 });
        let kept = joined(&before, &sent, &sent[..2]).unwrap();
        assert_eq!(kept, JoinedMessages { first: 1, messages: vec![before[1].clone()], last: 0 });
    }

    #[test]
    fn p19_one_that_stays_in_the_middle_is_the_one_that_was_there() {
        let mut odd = user("2");
        odd.platform_id = Some("77".into());
        let before = [user("1"), odd, user("3"), user("4"), user("5")];
        let sent = to_wire(&before).unwrap();
        let mut kept_inside = sent[1].clone();
        kept_inside.remove("message_id");
        let kept = joined(&before, &sent, &[summary(), kept_inside, summary(), sent[4].clone()]).unwrap();
        assert_eq!(kept.messages[1], before[1]);
    }
}
