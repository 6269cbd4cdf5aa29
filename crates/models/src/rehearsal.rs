//! The built-in offline model. It says that it is one, repeats what it was told, and never
//! pretends: a home without a key can be tried, and a gateway be tested, with nothing else there.
//!
//! - the same request gets the same answer, at once
//! - a [`RehearsalScript`] makes it slow, wrong, silent or call tools, rule by rule
//! - who watches ([`Rehearsal::watched_by`], [`Recorder`]) sees the exact requests
//!
//! Deliberately absent: a network, a clock (it sleeps only where a script says so), chance.

mod script;

use crate::call_id;
use crate::exchange::Deltas;
use crate::openai::{ReasoningReturn, encode};
pub use script::{InvalidScript, RehearsalScript};
use script::{Play, RehearsalDeed};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_core::message::{Assistant, Content, JsonText, Message, ToolCall};
use throughline_core::port::{Asked, Delta, Model, ModelError, Promise};
use throughline_core::prompt::{Prompt, Segment, SegmentRole};
use throughline_core::session::FailureKind;
use throughline_core::turn::{Answer, Usage};

pub const NAME: &str = "rehearsal";

/// How much of each message is repeated.
const ECHO_LENGTH_MAX: usize = 200;

/// An answer is streamed in this many pieces.
const PIECES: usize = 4;

/// Common English has about this many bytes to a token.
const BYTES_PER_TOKEN: u64 = 4;

type Watcher = Box<dyn Fn(&RecordedRequest) + Send + Sync>;

#[derive(Default)]
pub struct Rehearsal {
    play: Play,
    watcher: Option<Watcher>,
}

/// One request exactly as a model would have received it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    pub session: String,
    pub prompt: Prompt,
    pub sampling: Option<JsonText>,
}

impl RecordedRequest {
    /// One line of JSON: `{"session":…,"messages":[…],"tools":[…],"sampling":{…}}`, the system
    /// prompt first among the messages.
    pub fn to_json(&self) -> String {
        let messages = self.prompt.system.iter().chain(&self.prompt.messages);
        let messages: Vec<&str> = messages.map(|segment| &*segment.bytes).collect();
        let mut out = String::from("{");
        crate::json::push_field(&mut out, "session", &crate::json::string(&self.session));
        crate::json::push_field(&mut out, "messages", &format!("[{}]", messages.join(",")));
        if let Some(tools) = &self.prompt.tools {
            crate::json::push_field(&mut out, "tools", &tools.bytes);
        }
        if let Some(sampling) = &self.sampling {
            crate::json::push_field(&mut out, "sampling", sampling.as_str());
        }
        out.push('}');
        out
    }
}

/// Keeps the latest requests for a judge to read.
#[derive(Clone)]
pub struct Recorder {
    requests: Arc<Mutex<VecDeque<RecordedRequest>>>,
    max: usize,
}

impl Recorder {
    /// Holds the latest `max` requests.
    pub fn holding(max: usize) -> Self {
        Self { requests: Arc::default(), max }
    }

    /// In the order in which they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().iter().cloned().collect()
    }

    pub fn take(&self) -> Vec<RecordedRequest> {
        self.lock().drain(..).collect()
    }

    fn record(&self, request: &RecordedRequest) {
        let mut requests = self.lock();
        if requests.len() == self.max {
            requests.pop_front();
        }
        requests.push_back(request.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rehearsal {
    /// The plain one: no script, no watcher.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn scripted(script: RehearsalScript) -> Self {
        Self { play: Play::of(script), watcher: None }
    }

    /// `watcher` is shown every request before it is answered.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl Fn(&RecordedRequest) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    #[must_use]
    pub fn recorded_by(self, recorder: &Recorder) -> Self {
        let recorder = recorder.clone();
        self.watched_by(move |request| recorder.record(request))
    }

    async fn perform(&self, asked: Asked, deltas: Deltas<'_>) -> Result<Answer, ModelError> {
        let Asked { session, prompt, sampling } = asked;
        let request = RecordedRequest { session, prompt, sampling };
        if let Some(watcher) = &self.watcher {
            watcher(&request);
        }
        let heard = Heard::of(&request.prompt);
        let scene = self.play.next(&request.session, &heard.last());
        if !scene.latency.is_zero() {
            tokio::time::sleep(scene.latency).await;
        }
        let size = size_of(&request.prompt);
        let said = match scene.deed {
            RehearsalDeed::Echo => spoken(heard.answer(), None),
            RehearsalDeed::Say { text, finish } => spoken(text, finish),
            RehearsalDeed::Call { text, calls } => calling(text, calls, &request),
            RehearsalDeed::Fail { kind, message } => return Err(ModelError { kind, message }),
            RehearsalDeed::Cut { text, after } => {
                stream(text.get(..text.floor_char_boundary(after)).unwrap_or_default(), deltas);
                return Err(broken_off());
            }
            RehearsalDeed::Never => std::future::pending().await,
        };
        if let Some(thought) = &scene.reasoning {
            deltas(Delta::Reasoning(thought.clone()));
        }
        stream(&said.content.plain(), deltas);
        Ok(answer(said, scene.reasoning, scene.usage, size))
    }
}

impl Model for Rehearsal {
    fn name(&self) -> &str {
        NAME
    }

    fn is_real(&self) -> bool {
        false
    }

    fn encode(&self, message: &Message) -> Segment {
        encode::message(message, ReasoningReturn::AsStored)
    }

    fn encode_system(&self, text: &str) -> Segment {
        encode::system(text)
    }

    fn ask<'a>(
        &'a self,
        asked: Asked,
        deltas: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> Promise<'a, Result<Answer, ModelError>> {
        Box::pin(self.perform(asked, deltas))
    }
}

/// What of a prompt is still unanswered: the user's latest messages, or what the tools returned.
struct Heard {
    user: Vec<String>,
    results: Vec<String>,
    /// The user's last message, also where it was answered with calls.
    asked: Option<String>,
}

impl Heard {
    fn of(prompt: &Prompt) -> Self {
        let last = prompt.messages.iter().rfind(|segment| segment.role == SegmentRole::User);
        let asked = last.map(|segment| plain(&segment.bytes));
        let mut heard = Heard { user: Vec::new(), results: Vec::new(), asked };
        for segment in prompt.messages.iter().rev() {
            match segment.role {
                SegmentRole::User => heard.user.push(plain(&segment.bytes)),
                SegmentRole::Result => heard.results.push(plain(&segment.bytes)),
                SegmentRole::Assistant => break,
                SegmentRole::System | SegmentRole::Tools => {}
            }
        }
        heard.user.reverse();
        heard.results.reverse();
        heard
    }

    /// What a rule is compared with.
    fn last(&self) -> script::Last<'_> {
        script::Last {
            text: self.user.last().map(String::as_str),
            results: &self.results,
            asked: self.asked.as_deref(),
        }
    }

    fn answer(&self) -> String {
        let quoted = |texts: &[String]| {
            let quoted: Vec<String> = texts.iter().map(|text| format!("“{}”", shortened(text))).collect();
            quoted.join(", ")
        };
        let heard = match (self.user.as_slice(), self.results.as_slice()) {
            ([], []) => "There was nothing to answer.".to_owned(),
            ([], [result]) => format!("The tool returned: {}", quoted(std::slice::from_ref(result))),
            ([], results) => format!("The {} tools returned: {}", results.len(), quoted(results)),
            ([text], _) => format!("You said: {}", quoted(std::slice::from_ref(text))),
            (texts, _) => format!("You said, in {} messages: {}", texts.len(), quoted(texts)),
        };
        format!("This is the rehearsal model: it answers offline, and only repeats what it heard. {heard}")
    }
}

fn plain(message: &str) -> String {
    let value: Value = serde_json::from_str(message).unwrap_or_default();
    match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts =
                parts.iter().map(|part| part.get("text").and_then(Value::as_str).unwrap_or("[picture]"));
            texts.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.len() <= ECHO_LENGTH_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(ECHO_LENGTH_MAX)])
}

fn spoken(text: String, finish: Option<String>) -> Assistant {
    let finish = finish.unwrap_or_else(|| "stop".to_owned());
    Assistant { content: Content::Text(text), finish: Some(finish), ..Assistant::default() }
}

fn calling(text: String, calls: Vec<script::ScriptedCall>, request: &RecordedRequest) -> Assistant {
    let made = call_id::maker(&request.session, &request.prompt);
    let calls = calls.into_iter().enumerate().map(|(index, call)| ToolCall {
        id: call.id.unwrap_or_else(|| made(index)),
        name: call.name,
        arguments: call.arguments,
        extra: None,
    });
    let content = if text.is_empty() { Content::Nothing } else { Content::Text(text) };
    Assistant {
        content,
        calls: calls.collect(),
        finish: Some("tool_calls".to_owned()),
        ..Assistant::default()
    }
}

/// In a few pieces, divided between words where there are any.
fn stream(text: &str, deltas: Deltas<'_>) {
    let step = text.len().div_ceil(PIECES).max(1);
    let mut rest = text;
    while !rest.is_empty() {
        let at_least = rest.ceil_char_boundary(step.min(rest.len()));
        let end = rest[at_least..].find(' ').map_or(rest.len(), |gap| at_least + gap + 1);
        let (piece, after) = rest.split_at(end);
        deltas(Delta::Text(piece.to_owned()));
        rest = after;
    }
}

fn answer(mut said: Assistant, reasoning: Option<String>, usage: Option<Usage>, size: u64) -> Answer {
    said.reasoning.text = reasoning;
    let output: usize =
        said.content.plain().len() + said.calls.iter().map(|call| call.arguments.len()).sum::<usize>();
    let estimate = Usage { input: tokens(size), output: tokens(output as u64), ..Usage::default() };
    Answer { said, usage: usage.unwrap_or(estimate), model: NAME.to_owned() }
}

fn size_of(prompt: &Prompt) -> u64 {
    let fixed = prompt.tools.iter().chain(&prompt.system);
    fixed.chain(&prompt.messages).map(|segment| segment.bytes.len() as u64).sum()
}

fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

fn broken_off() -> ModelError {
    let message = "The rehearsal model broke off in the middle of its answer, as its script says. Try again.";
    ModelError { kind: FailureKind::Broken, message: message.to_owned() }
}

#[cfg(test)]
mod tests;
