//! The agent loop as data: the model said something, so call tools, ask again, or reply.
//!
//! A turn answers one or more inputs. Each answer of the model is a step; an answer with calls
//! opens a group, which is closed when every call has a result. Only then does the group become
//! part of the transcript, whole and in call order.

use crate::history::OUTCOME_UNKNOWN;
use crate::id::TurnId;
use crate::input::Input;
use crate::message::{Assistant, Body, Content, Message, ToolResult};
use crate::prompt::Mark;
use crate::session::FailureKind;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// A turn whose tools were running when the process ended is resumed by itself this often. A call
/// that ends the process would otherwise end it for ever.
pub const RESUMES_MAX: u32 = 2;

/// How often the model is asked for one step before the turn fails.
const ASKS_MAX: u32 = 4;

/// Nobody in a chat waits longer than this for a provider to recover; then they are told.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long to wait before the model is asked again, after `asked` attempts; None: give up.
pub fn ask_again(kind: FailureKind, asked: u32) -> Option<Duration> {
    let backoff = Duration::from_secs(1 << asked.min(5));
    match kind {
        FailureKind::Wait { .. } if asked >= ASKS_MAX => None,
        FailureKind::Wait { after_seconds } => {
            let after = after_seconds.map_or(backoff, |seconds| Duration::from_secs(seconds.into()));
            (after <= RETRY_AFTER_MAX).then_some(after)
        }
        FailureKind::Broken if asked < 2 => Some(backoff),
        FailureKind::Broken
        | FailureKind::TooLong
        | FailureKind::Credentials
        | FailureKind::Refused
        | FailureKind::Parked => None,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub id: TurnId,
    pub began: Time,
    pub inputs: Vec<Arc<Input>>,
    /// Counts the answers of the model. A result for an earlier step is an echo.
    pub step: u32,
    pub group: Option<Group>,
    pub resumes: u32,
}

/// An answer with calls, and what has come back so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub answer: Assistant,
    pub results: Vec<Option<ToolResult>>,
}

/// What the model said, as its adapter reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub said: Assistant,
    pub usage: Usage,
    /// The model that really answered.
    pub model: String,
}

/// What the provider counted. The truth about the size of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

impl Usage {
    /// All that the model read.
    pub fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }
}

/// One answer of the model, as it is kept beside the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub turn: TurnId,
    pub step: u32,
    pub at: Time,
    pub model: String,
    pub usage: Usage,
    /// What was asked.
    pub prompt: Mark,
    /// Set while its calls are open: the transcript has the rest once the group is closed.
    pub open: Option<Assistant>,
}

impl Group {
    pub fn new(answer: Assistant) -> Self {
        let results = vec![None; answer.calls.len()];
        Self { answer, results }
    }

    pub fn is_closed(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    /// The calls that nobody knows the end of become results that say so.
    pub fn give_up(&mut self) -> Vec<usize> {
        let mut given_up = Vec::new();
        for (index, result) in self.results.iter_mut().enumerate() {
            if result.is_none() {
                let call = &self.answer.calls[index];
                *result = Some(ToolResult {
                    call_id: call.id.clone(),
                    name: Some(call.name.clone()),
                    content: Content::text(OUTCOME_UNKNOWN),
                });
                given_up.push(index);
            }
        }
        given_up
    }

    /// The rows of a closed group, in the order of the calls.
    pub fn into_rows(self, at: Time) -> Vec<Message> {
        let mut rows = vec![Message::new(at, Body::Assistant(self.answer))];
        rows.extend(self.results.into_iter().flatten().map(|result| Message::new(at, Body::Result(result))));
        rows
    }
}
