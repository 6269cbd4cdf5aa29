//! The agent loop as data: the model said something, so call tools, ask again, or reply.
//!
//! A turn answers one or more inputs. Each answer of the model is a step; an answer with calls
//! opens a group, which is closed when every call has a result. Only then does the group become
//! part of the transcript, whole and in call order.

use crate::guard::{Limits, Repeated};
use crate::id::TurnId;
use crate::input::{BACKGROUND, ClientTools, Input, Kind, Task, Trace};
use crate::message::{Assistant, Body, Content, Message, ToolCall, ToolResult};
use crate::prompt::Mark;
use crate::session::FailureKind;
use crate::time::Time;
use crate::tool::{Ask, Grant, Question};
use std::sync::Arc;
use std::time::Duration;

/// A turn whose tools were running when the process ended is resumed by itself this often. A call
/// that ends the process would otherwise end it for ever.
pub const RESUMES_MAX: u32 = 2;

/// How often the shell asks the model for one step before the turn fails.
const ASKS_MAX: u32 = 4;

/// A person in a chat waits no longer than this for a provider to recover; then the gateway tells them.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Who gets the answer of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A person in a chat or at a terminal, another session, or the agent itself: it has no way to ask again, or should not
    /// have to.
    Patient,
    /// A program at the API. It asks again by itself, under the same key, and its turn goes on then where it failed.
    Program,
}

/// How long the shell waits before it asks the model again, after `asked` attempts; None: it gives up.
pub fn ask_again(kind: FailureKind, asked: u32, recipient: Recipient) -> Option<Duration> {
    let backoff = Duration::from_secs(1 << asked.min(5));
    match kind {
        // Where nothing listens, a program hears so at once.
        FailureKind::Unreachable if recipient == Recipient::Program => None,
        FailureKind::Unreachable => (asked < ASKS_MAX).then_some(backoff),
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
        | FailureKind::Parked
        | FailureKind::Exhausted
        | FailureKind::Stopped => None,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub id: TurnId,
    pub began: Time,
    pub inputs: Vec<Arc<Input>>,
    /// Counts the answers of the model. A result for an earlier step is an echo.
    pub step: u32,
    /// What it began to count with: one that is tried again goes on where it failed.
    pub first_step: u32,
    pub group: Option<Group>,
    pub resumes: u32,
    /// Tokens that its answers have cost so far.
    pub spent: u64,
    /// A budget has run out: calls are not run any more, and the next answer is the last.
    pub exhausted: bool,
    pub repeated: Option<Repeated>,
    /// Its next request waits for a compression: it would not fit.
    pub held: bool,
    /// The provider itself has found its request too long: any shortening is welcome.
    pub refused: bool,
    /// How often the view has changed since the last answer.
    pub promotions: u32,
    /// What it said on the way, before its calls: a client that reads along has seen it.
    pub said: String,
}

/// An answer with calls, and where each of them stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub answer: Assistant,
    pub slots: Vec<Slot>,
}

/// Where one call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// To be run, or running; with what a person has granted.
    Open(Option<Grant>),
    /// Waits for a person. Nothing has been done yet, unless it is an elicitation: then the call runs meanwhile.
    Asking(Ask),
    /// Left to the client that asked for the turn: the tool is its own.
    Client,
    Done(ToolResult),
}

impl Slot {
    /// A question of a call that runs meanwhile.
    pub fn is_eliciting(&self) -> bool {
        matches!(self, Slot::Asking(Ask { question: Question::Elicitation { .. }, .. }))
    }

    /// The call is to be run, or runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Slot::Open(_)) || self.is_eliciting()
    }
}

/// The calls of a step that its client is to run. Their turn is over: it was answered with them. The group stays open
/// until the client brings the results, or anything else is said.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCalls {
    pub turn: TurnId,
    pub step: u32,
    pub group: Group,
}

impl ClientCalls {
    /// Whether these are the results that are waited for: one for each call of the client, and no other.
    pub fn take(&self, results: &[ToolResult]) -> Result<(), String> {
        let open: Vec<&ToolCall> = self.group.left_to_client().map(|(_, call)| call).collect();
        if let Some(missing) = open.iter().find(|call| results.iter().all(|it| it.call_id != call.id)) {
            return Err(format!("the call {:?} of {} has no result", missing.id, missing.name));
        }
        for (place, result) in results.iter().enumerate() {
            let id = &result.call_id;
            if open.iter().all(|call| call.id != *id) {
                return Err(format!("no call {id:?} waits for a result"));
            }
            if results[..place].iter().any(|earlier| earlier.call_id == *id) {
                return Err(format!("the call {id:?} has two results"));
            }
        }
        Ok(())
    }
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

    /// All that it read and wrote.
    pub fn total(&self) -> u64 {
        self.prompt() + self.output
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

impl Turn {
    pub fn new(id: TurnId, began: Time, inputs: Vec<Arc<Input>>) -> Self {
        Self {
            id,
            began,
            inputs,
            step: 0,
            first_step: 0,
            group: None,
            resumes: 0,
            spent: 0,
            exhausted: false,
            repeated: None,
            held: false,
            refused: false,
            promotions: 0,
            said: String::new(),
        }
    }

    /// The answer that is waited for is its so many-th.
    pub fn steps(&self) -> u32 {
        self.step.saturating_sub(self.first_step) + 1
    }

    /// Words before a call. Those of several steps stand apart, as a client sees them.
    pub fn remark(&mut self, text: &str) {
        if !text.is_empty() && !self.said.is_empty() {
            self.said.push_str("\n\n");
        }
        self.said.push_str(text);
    }

    /// What this turn follows from: a human's message, if there is one among its inputs; otherwise the one that began
    /// it, which took its share of a chain's budget. What joins a turn costs nothing, and gives nothing.
    pub fn trace(&self) -> Trace {
        let human = self.inputs.iter().rev().find(|input| input.trace.is_human());
        human.or(self.inputs.first()).map(|input| input.trace.clone()).unwrap_or_default()
    }

    /// What it may still cost.
    pub fn tokens_left(&self, limits: &Limits) -> Option<u64> {
        let of_task = self.task().and_then(|task| task.tokens_max);
        let max = limits.turn_tokens_max.into_iter().chain(of_task).min()?;
        Some(max.saturating_sub(self.spent))
    }

    /// No part of a conversation: another session asked for it, or a person has it done beside theirs. Of that
    /// nothing is remembered, and nothing reminds of it.
    pub fn is_aside(&self) -> bool {
        let begun = |input: &Arc<Input>| input.key.fields().first().is_some_and(|first| first == BACKGROUND);
        self.task().is_some() || self.is_stateless() || self.inputs.iter().any(begun)
    }

    /// A client asked for it that names neither a session nor a person.
    pub fn is_stateless(&self) -> bool {
        self.inputs.iter().any(|input| matches!(&input.kind, Kind::Request(request) if request.stateless))
    }

    /// The tools that its client runs.
    pub fn client_tools(&self) -> Option<&ClientTools> {
        client_tools(&self.inputs)
    }

    pub fn recipient(&self) -> Recipient {
        let is_program =
            |input: &Arc<Input>| matches!(&input.kind, Kind::Request(request) if request.task.is_none());
        match self.inputs.iter().all(is_program) {
            true => Recipient::Program,
            false => Recipient::Patient,
        }
    }

    /// Set if another session asked for it.
    pub fn task(&self) -> Option<&Task> {
        self.inputs.iter().find_map(|input| match &input.kind {
            Kind::Request(request) => request.task.as_ref(),
            Kind::Chat(_) | Kind::Command(_) => None,
        })
    }
}

/// The tools that a client runs, of the last of these inputs that brought any.
pub fn client_tools(inputs: &[Arc<Input>]) -> Option<&ClientTools> {
    inputs.iter().rev().find_map(|input| match &input.kind {
        Kind::Request(request) => request.tools.as_ref(),
        Kind::Chat(_) | Kind::Command(_) => None,
    })
}

impl Group {
    pub fn new(answer: Assistant) -> Self {
        let slots = vec![Slot::Open(None); answer.calls.len()];
        Self { answer, slots }
    }

    pub fn is_closed(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot, Slot::Done(_)))
    }

    /// Leaves the calls of these tools to the client. Returns which they are.
    pub fn leave(&mut self, tools: &ClientTools) -> Vec<usize> {
        let calls = self.answer.calls.iter().enumerate();
        let left: Vec<usize> =
            calls.filter(|(_, call)| tools.names.contains(&call.name)).map(|(index, _)| index).collect();
        left.iter().for_each(|index| self.slots[*index] = Slot::Client);
        left
    }

    pub fn left_to_client(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        let calls = self.answer.calls.iter().zip(&self.slots).enumerate();
        calls.filter(|(_, (_, slot))| matches!(slot, Slot::Client)).map(|(index, (call, _))| (index, call))
    }

    /// Nothing is left to do here but what the client does.
    pub fn waits_for_client(&self) -> bool {
        let is_over = |slot: &Slot| matches!(slot, Slot::Client | Slot::Done(_));
        self.slots.iter().all(is_over) && self.left_to_client().next().is_some()
    }

    /// The calls that no result has come back from, by what `chosen` says of them, get this one.
    /// Returns which they were.
    pub fn give_up(&mut self, text: &str, chosen: impl Fn(usize, &Slot) -> bool) -> Vec<usize> {
        let mut given_up = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !matches!(slot, Slot::Done(_)) && chosen(index, slot) {
                let call = &self.answer.calls[index];
                *slot = Slot::Done(ToolResult {
                    call_id: call.id.clone(),
                    name: Some(call.name.clone()),
                    content: Content::text(text),
                });
                given_up.push(index);
            }
        }
        given_up
    }

    pub fn result(&self, index: usize) -> Option<&ToolResult> {
        match self.slots.get(index) {
            Some(Slot::Done(result)) => Some(result),
            _ => None,
        }
    }

    /// The rows of a closed group, in the order of the calls.
    pub fn into_rows(self, at: Time) -> Vec<Message> {
        let mut rows = vec![Message::new(at, Body::Assistant(self.answer))];
        rows.extend(self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Done(result) => Some(Message::new(at, Body::Result(result))),
            Slot::Open(_) | Slot::Asking(_) | Slot::Client => None,
        }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p30_a_program_hears_at_once_that_nothing_listens_and_a_person_after_four_attempts() {
        use FailureKind::{Credentials, Unreachable, Wait};
        let waits = |kind, recipient| {
            let asks = (1..).map_while(|asked| ask_again(kind, asked, recipient));
            asks.map(|wait| wait.as_secs()).collect::<Vec<_>>()
        };
        for (kind, program, patient) in [
            (Unreachable, vec![], vec![2, 4, 8]),
            (Wait { after_seconds: None }, vec![2, 4, 8], vec![2, 4, 8]),
            (Wait { after_seconds: Some(5) }, vec![5, 5, 5], vec![5, 5, 5]),
            (Credentials, vec![], vec![]),
        ] {
            assert_eq!(waits(kind, Recipient::Program), program, "{kind:?}");
            assert_eq!(waits(kind, Recipient::Patient), patient, "{kind:?}");
        }
    }
}
