//! What the model sees of a transcript, and the grammar it obeys.
//!
//! Every provider refuses a conversation in which a tool call has no result right after it, or a
//! result no call before it. Our own writer cannot produce one; a transcript that Hermes left
//! after a crash may hold one. [`legal`] closes what is open without touching what is stored.

use crate::message::{Assistant, Body, Content, Message, ToolResult, distinct_ids};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// Shown to the model in place of a missing result.
pub const OUTCOME_UNKNOWN: &str = "[outcome unknown: the process ended while this call was running. It may or may not have taken effect; check before repeating it.]";

/// Result of a call that was running when the user stopped the turn.
pub const STOPPED: &str = "[stopped by the user while this call was running. It may or may not have taken effect; check before repeating it.]";

/// Result of a call that was left to a client, which said something else instead of bringing its result.
pub const LEFT_BEHIND: &str =
    "[not run: this call was left to the client, which went on without bringing its result.]";

/// Result of a call that waited for a person when the user stopped the turn.
pub const NOT_ASKED: &str = "[not run: the user stopped this turn before answering.]";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The call has no result directly after it.
    Open { call: String },
    /// The result answers no call before it.
    Orphan { call: String },
}

/// The transcript as it may be sent: rows for the model only, every tool group closed, in call order.
pub fn legal(transcript: &[Message]) -> Vec<Cow<'_, Message>> {
    let mut view = Vec::with_capacity(transcript.len());
    let mut rest = transcript;
    while let Some((message, after)) = rest.split_first() {
        rest = after;
        match &message.body {
            Body::Other { .. } | Body::Result(_) => {} // a result outside its group is an orphan
            Body::Assistant(assistant) if !assistant.calls.is_empty() => {
                let results = leading_results(rest);
                rest = &rest[results.len()..];
                close(message, assistant, results, &mut view);
            }
            Body::System(_) | Body::User(_) | Body::Assistant(_) => {
                if !message.observed {
                    view.push(Cow::Borrowed(message));
                }
            }
        }
    }
    view
}

/// An answer with calls, and a result for each, in order. The first result that names a call is its
/// result; the next one that names it is that of the next call with this id.
fn close<'a>(
    message: &'a Message,
    assistant: &'a Assistant,
    results: &'a [Message],
    view: &mut Vec<Cow<'a, Message>>,
) {
    let ids = distinct_ids(&assistant.calls);
    let as_it_is = assistant.calls.iter().zip(&ids).all(|(call, id)| call.id == *id);
    view.push(match as_it_is {
        true => Cow::Borrowed(message),
        false => Cow::Owned(with_ids(message, &ids)),
    });
    let mut unused = ById::default();
    for message in results {
        if let Body::Result(result) = &message.body {
            unused.add(&result.call_id, message);
        }
    }
    for (call, id) in assistant.calls.iter().zip(&ids) {
        view.push(match unused.take(&call.id) {
            Some(result) if call.id == *id => Cow::Borrowed(result),
            Some(result) => Cow::Owned(answering(result, id)),
            None => Cow::Owned(unknown(message, id, &call.name)),
        });
    }
}

fn with_ids(message: &Message, ids: &[String]) -> Message {
    let mut message = message.clone();
    if let Body::Assistant(assistant) = &mut message.body {
        assistant.calls.iter_mut().zip(ids).for_each(|(call, id)| call.id.clone_from(id));
    }
    message
}

fn answering(message: &Message, id: &str) -> Message {
    let mut message = message.clone();
    if let Body::Result(result) = &mut message.body {
        id.clone_into(&mut result.call_id);
    }
    message
}

/// Everything about `transcript` that a provider would refuse.
pub fn violations<'a>(transcript: impl IntoIterator<Item = &'a Message>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut open = ById::default();
    let left_open = |open: ById<'a, ()>| {
        open.into_order().into_iter().map(|(id, ())| Violation::Open { call: id.to_owned() })
    };
    for message in transcript {
        match &message.body {
            Body::Result(result) => {
                if open.take(&result.call_id).is_none() {
                    found.push(Violation::Orphan { call: result.call_id.clone() });
                }
            }
            Body::Other { .. } => {}
            Body::System(_) | Body::User(_) | Body::Assistant(_) => {
                found.extend(left_open(std::mem::take(&mut open)));
                message.calls().iter().for_each(|call| open.add(&call.id, ()));
            }
        }
    }
    found.extend(left_open(open));
    found
}

/// Calls that wait for their results, or results for their calls, by the id that both bear. Of several with one id the
/// first is taken first. A client may send a hundred thousand of them: none is looked for among the others.
pub struct ById<'a, T> {
    waiting: BTreeMap<&'a str, VecDeque<(usize, T)>>,
    added: usize,
}

impl<T> Default for ById<'_, T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), added: 0 }
    }
}

impl<'a, T> ById<'a, T> {
    pub fn add(&mut self, id: &'a str, item: T) {
        self.waiting.entry(id).or_default().push_back((self.added, item));
        self.added += 1;
    }

    pub fn take(&mut self, id: &str) -> Option<T> {
        let items = self.waiting.get_mut(id)?;
        let taken = items.pop_front();
        if items.is_empty() {
            self.waiting.remove(id);
        }
        taken.map(|(_, item)| item)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What was not taken, in the order in which it was added.
    pub fn into_order(self) -> Vec<(&'a str, T)> {
        let each = |(id, items): (&'a str, VecDeque<(usize, T)>)| {
            items.into_iter().map(move |(place, item)| (place, id, item))
        };
        let mut left: Vec<_> = self.waiting.into_iter().flat_map(each).collect();
        left.sort_unstable_by_key(|(place, ..)| *place);
        left.into_iter().map(|(_, id, item)| (id, item)).collect()
    }
}

fn leading_results(rest: &[Message]) -> &[Message] {
    let end = rest.iter().position(|message| !matches!(message.body, Body::Result(_)));
    &rest[..end.unwrap_or(rest.len())]
}

fn unknown(call: &Message, id: &str, name: &str) -> Message {
    let result = ToolResult {
        call_id: id.to_owned(),
        name: Some(name.to_owned()),
        content: Content::text(OUTCOME_UNKNOWN),
    };
    Message::new(call.at, Body::Result(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;
    use crate::time::Time;
    use proptest::prelude::*;

    fn user(text: &str) -> Message {
        Message::user(Time(0), Content::text(text))
    }

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| ToolCall {
            id: (*id).into(),
            name: "tool".into(),
            arguments: "{}".into(),
            extra: None,
        };
        let assistant = Assistant { calls: ids.iter().map(call).collect(), ..Assistant::default() };
        Message::new(Time(0), Body::Assistant(assistant))
    }

    fn result(id: &str) -> Message {
        let content = Content::text("done");
        Message::new(Time(0), Body::Result(ToolResult { call_id: id.into(), name: None, content }))
    }

    #[test]
    fn tool_groups_are_closed_in_call_order() {
        let transcript = [user("go"), calls(&["a", "b"]), result("b"), user("still there?"), result("a")];
        let view = legal(&transcript);
        assert_eq!(violations(view.iter().map(AsRef::as_ref)), []);
        let roles: Vec<_> = view.iter().map(|message| message.role()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
        assert_eq!(view[2].content().plain(), OUTCOME_UNKNOWN);
        assert_eq!(view[3].content().plain(), "done");
    }

    #[test]
    fn calls_that_share_an_id_are_told_apart_and_keep_their_results() {
        let mut second = result("a");
        if let Body::Result(result) = &mut second.body {
            result.content = Content::text("second");
        }
        let transcript = [calls(&["a", "a", ""]), result("a"), second];
        let view = legal(&transcript);
        assert_eq!(violations(view.iter().map(AsRef::as_ref)), []);
        let ids: Vec<_> = view[0].calls().iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "a_1", "_2"]);
        let said: Vec<_> = view[1..].iter().map(|message| message.content().plain()).collect();
        assert_eq!(said, ["done", "second", OUTCOME_UNKNOWN]);
    }

    #[test]
    fn the_judge_sees_open_calls_and_orphans() {
        let open = [calls(&["a"]), user("x")];
        assert_eq!(violations(&open), [Violation::Open { call: "a".into() }]);
        assert_eq!(violations(&[result("a")]), [Violation::Orphan { call: "a".into() }]);
    }

    proptest! {
        #[test]
        fn whatever_is_stored_what_is_sent_is_legal(kinds in prop::collection::vec(0u8..7, 0..40)) {
            let transcript: Vec<_> = kinds.iter().map(|kind| match kind {
                0 | 1 => user("u"),
                2 => calls(&["a"]),
                3 => calls(&["a", "b"]),
                4 => result("a"),
                5 => result("b"),
                _ => Message::new(Time(0), Body::Other { role: "session_meta".into(), content: Content::Nothing }),
            }).collect();
            let view = legal(&transcript);
            prop_assert_eq!(violations(view.iter().map(AsRef::as_ref)), vec![]);
            let users = |messages: Vec<&Message>| messages.iter().filter(|m| m.role() == "user").count();
            prop_assert_eq!(users(view.iter().map(AsRef::as_ref).collect()), users(transcript.iter().collect()));
        }
    }
}
