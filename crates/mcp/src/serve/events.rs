//! Events for MCP clients: new messages and questions, numbered in the order they were noticed.
//!
//! The server looks only when a client asks. What was there when the server started is no news; a client that
//! wants it reads the conversation.

use super::surface::{OpenQuestion, ServedMessage, ServedSpeaker, Surface, SurfaceError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use throughline_core::time::Time;

/// Older events are forgotten: a client that far behind reads the conversations again.
const EVENTS_MAX: usize = 1000;
/// What an event shows of a message.
const SHOWN_MAX: usize = 500;

#[derive(Default)]
pub struct ServedEvents {
    cursor: u64,
    queue: VecDeque<ServedEvent>,
    /// Of each conversation: when it last changed, and the last that was said then.
    seen: BTreeMap<String, (Time, Option<(String, Time)>)>,
    open: BTreeMap<String, OpenQuestion>,
    is_begun: bool,
}

struct ServedEvent {
    cursor: u64,
    session_key: String,
    shown: Value,
}

impl ServedEvents {
    /// Looks once. The first look only remembers what there is.
    pub async fn look(&mut self, surface: &dyn Surface) -> Result<(), SurfaceError> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let looked = self.look_at(surface, is_first).await;
        if looked.is_err() && is_first {
            self.is_begun = false; // or everything would be news at the next look
        }
        looked
    }

    async fn look_at(&mut self, surface: &dyn Surface, is_first: bool) -> Result<(), SurfaceError> {
        for conversation in surface.conversations().await? {
            let before = self.seen.get(&conversation.session_key).cloned();
            if before.as_ref().is_some_and(|(changed, _)| *changed == conversation.updated_at) {
                continue;
            }
            let key = conversation.session_key;
            let said = match surface.said(&key).await {
                Ok(said) => said,
                Err(SurfaceError::NotFound(_)) => continue, // it ended just now
                Err(error) => return Err(error),
            };
            let known = said_before(&said, before.and_then(|(_, last)| last));
            for message in said.iter().skip(known).filter(|message| !is_first && !message.text.is_empty()) {
                let role = match message.speaker {
                    ServedSpeaker::User => "user",
                    ServedSpeaker::Assistant => "assistant",
                };
                let content: String = message.text.chars().take(SHOWN_MAX).collect();
                let at = message.at.as_seconds().to_string();
                self.push(
                    "message",
                    &key,
                    json!({"role": role, "content": content, "timestamp": at, "message_id": message.id}),
                );
            }
            let last = said.last().map(|message| (message.id.clone(), message.at));
            self.seen.insert(key, (conversation.updated_at, last));
        }
        let open: BTreeMap<String, OpenQuestion> =
            surface.questions().await?.into_iter().map(|question| (question.id.clone(), question)).collect();
        let before = std::mem::replace(&mut self.open, open.clone());
        for (id, question) in open.iter().filter(|(id, _)| !is_first && !before.contains_key(*id)) {
            let shown = json!({"approval_id": id, "what": question.what, "why": question.why});
            self.push("approval_requested", &question.session_key, shown);
        }
        for (id, question) in before.iter().filter(|(id, _)| !open.contains_key(*id)) {
            self.push("approval_resolved", &question.session_key, json!({"approval_id": id}));
        }
        Ok(())
    }

    fn push(&mut self, kind: &str, session_key: &str, more: Value) {
        self.cursor += 1;
        let mut shown = json!({"cursor": self.cursor, "type": kind, "session_key": session_key});
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        self.queue.push_back(ServedEvent { cursor: self.cursor, session_key: session_key.to_owned(), shown });
        if self.queue.len() > EVENTS_MAX {
            self.queue.pop_front();
        }
    }

    /// The events after a cursor, and the cursor of the last of them.
    pub fn after(&self, cursor: u64, session_key: Option<&str>, limit: usize) -> (Vec<Value>, u64) {
        let is_wanted = |event: &&ServedEvent| {
            event.cursor > cursor && session_key.is_none_or(|key| key == event.session_key)
        };
        let found: Vec<&ServedEvent> = self.queue.iter().filter(is_wanted).take(limit).collect();
        let last = found.last().map_or(cursor, |event| event.cursor);
        (found.into_iter().map(|event| event.shown.clone()).collect(), last)
    }
}

/// How much of it is no news. A conversation may have been cut at its beginning since: then only
/// the time tells.
fn said_before(said: &[ServedMessage], last: Option<(String, Time)>) -> usize {
    let Some((id, at)) = last else { return 0 };
    match said.iter().rposition(|message| message.id == id) {
        Some(position) => position + 1,
        None => said.iter().take_while(|message| message.at <= at).count(),
    }
}
