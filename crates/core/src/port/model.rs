//! A language model behind its adapter, and the system prompt that it is given.

use super::Promise;
use crate::input::Room;
use crate::message::{JsonText, Message};
use crate::prompt::{Prompt, Segment, SegmentRole};
use crate::session::FailureKind;
use crate::tool::Caller;
use crate::turn::Answer;
use std::sync::Arc;

/// A language model behind its adapter.
pub trait Model: Send + Sync {
    /// What a user calls it.
    fn name(&self) -> &str;
    /// May it speak on a chat platform? The offline model may not.
    fn is_real(&self) -> bool;
    /// The bytes of one message in a request. The same message always gives the same bytes.
    fn encode(&self, message: &Message) -> Segment;
    fn encode_system(&self, text: &str) -> Segment;
    /// The bytes of the list of tools. `list` is the common form: a JSON array of
    /// `{"type":"function","function":{"name":…,"description":…,"parameters":…}}`.
    fn encode_tools(&self, list: &JsonText) -> Segment {
        Segment { role: SegmentRole::Tools, bytes: list.as_str().into() }
    }
    /// Asks once. Deltas are a lossy side channel; the answer is the truth. Dropping the promise
    /// abandons the request. Waits and retries are the caller's.
    fn ask<'a>(
        &'a self,
        asked: Asked,
        deltas: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> Promise<'a, Result<Answer, ModelError>>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// For logs and for providers that keep caches apart; never sent as content.
    pub session: String,
    pub prompt: Prompt,
    /// Fields a client set for this request (`temperature` …), as a JSON object.
    pub sampling: Option<JsonText>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
}

/// By what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: FailureKind,
    /// A sentence for the user, with the provider's own words, free of secrets.
    pub message: String,
}

/// Writes summaries: a language model that gets one message of a user, no system prompt and no tools.
pub trait Summariser: Send + Sync {
    fn name(&self) -> &str;
    /// How many tokens it can read and write in all. Nothing is taken off it.
    fn window(&self) -> u64;
    /// Asks once, within its own deadline.
    fn ask<'a>(&'a self, request: &'a str) -> Promise<'a, Result<Written, ModelError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub text: String,
    /// It broke off because there was no more room.
    pub truncated: bool,
}

/// The models there are, by the names that people use.
pub trait Models: Send + Sync {
    /// Those it can name. There may be more.
    fn names(&self) -> Vec<String>;
    /// Why it cannot be used is said in a sentence, free of secrets.
    fn choose(&self, name: &str) -> Result<Arc<dyn Model>, String>;
}

/// Who the agent is and what it should know from the start, in words.
pub trait SystemPrompt: Send + Sync {
    /// The system prompt of a session that begins now, with `tools` at hand. It is frozen with the
    /// session: later changes of what it was made from do not reach it.
    fn assemble<'a>(&'a self, caller: &'a Caller, tools: &'a [String]) -> Promise<'a, String>;
    /// The same where the place it begins in has something to add.
    fn assemble_in<'a>(
        &'a self,
        caller: &'a Caller,
        tools: &'a [String],
        room: &'a Room,
    ) -> Promise<'a, String> {
        Box::pin(async move {
            let brief = self.assemble(caller, tools).await;
            match &room.prompt {
                Some(prompt) if brief.is_empty() => prompt.clone(),
                Some(prompt) => format!("{brief}\n\n{prompt}"),
                None => brief,
            }
        })
    }
}
