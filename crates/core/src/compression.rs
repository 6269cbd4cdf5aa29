//! A conversation that grows beyond its model's window, and how it stays one conversation.
//!
//! An [`Operation`] is prepared beside live turns from rows that cannot change any more, and
//! promoted before a request: what it stands for leaves the view, a summary takes its place, and
//! the session's id is the same as before. The machine in [`crate::session`] decides when; an
//! [`Engine`](crate::port::Engine) decides what the summary says.
//!
//! - rows above the cut are never touched
//! - an operation that failed, came too late or was not worth it leaves the view as it was
//! - nothing here deletes: what was replaced is kept under a snapshot's name

mod arguments;
pub mod boundary;
mod deeds;
pub mod digest;
pub mod engine;
mod identifiers;
#[cfg(test)]
mod linear;
mod prune;
mod quotes;
mod request;
pub mod summary;
#[cfg(test)]
mod tests;
mod text;

use crate::id::{RowId, SNAPSHOT_INFIX, SessionId, View};
use crate::input::Input;
use crate::message::{Assistant, Body, Content, Message, Part};
use crate::prompt::Digest;
use crate::time::Time;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often one operation is begun before it counts as failed: one whose engine ends the process
/// would otherwise end it for ever.
pub const ATTEMPTS_MAX: u32 = 3;
/// A summary that frees less than this part of the context is not worth a break in the prompt.
pub const WORTH_PERCENT: u64 = 10;
/// How often within an hour the shell asks an engine in vain about one session. Then a digest has to do.
pub const ATTEMPTS_AN_HOUR: usize = 6;
/// How often the view may change before one request. A context that is still too large is not the
/// fault of what was said.
pub const PROMOTIONS_MAX: u32 = 2;
/// Pauses after failures in a row. The last one stays.
const BACKOFF: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(900)];

/// One compression, prepared beside live turns and promoted before a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its number within the session.
    pub number: u64,
    pub cause: Cause,
    pub focus: Option<String>,
    /// The view it summarises: on any other it is stale.
    pub base: View,
    /// No row above this one is replaced.
    pub cut: RowId,
    pub stage: Stage,
    /// How often its summary was asked for.
    pub attempts: u32,
    pub began: Time,
    /// Rows in the view and what it weighed, when it began.
    pub messages: usize,
    pub tokens: u64,
    /// Who waits to hear what came of it.
    pub orders: Vec<Arc<Input>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The context is filling up.
    Ahead,
    /// The next request would not fit.
    Need,
    /// A user asked for it.
    Order,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    Preparing,
    Ready(Arc<Replacement>),
    /// In place; only those who ordered it have not been told yet.
    Promoted,
}

/// What takes the place of rows of the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// Rows up to this one stay. None: the first row is replaced, too.
    pub after: Option<RowId>,
    /// The last row that is replaced.
    pub cut: RowId,
    /// How many rows of the view are replaced. A store that finds another number refuses.
    pub replaced: usize,
    /// What stands there from now on: never empty.
    pub rows: Vec<Message>,
    pub kind: Kind,
    /// What the replaced rows and the new ones weigh, in tokens.
    pub before: u64,
    pub after_tokens: u64,
    /// Who wrote it.
    pub model: String,
    /// Something the user should know: a focus that was not applied, a model that stood in.
    pub remark: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Summary,
    /// Put together without a model, because there was no summary when one was needed.
    Digest,
    /// A snapshot is the view again.
    Restored,
    /// Nothing: it was taken back.
    Undone,
    /// What a repair made live in its place.
    Mended,
}

/// What a survey found worth compressing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The last row that may be replaced.
    pub cut: RowId,
    /// Rows in the view.
    pub messages: usize,
    /// What the next request would weigh.
    pub tokens: u64,
    /// What would become of them, as far as the engine can tell.
    pub plan: Option<Plan>,
    /// The engine has nothing to offer, and a digest has: for a session that cannot do without.
    pub engine_is_idle: bool,
}

/// How many messages stay at both ends, and how many a summary would stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub keep_first: usize,
    pub replaced: usize,
    pub keep_last: usize,
}

/// What was done, as the store counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promoted {
    pub snapshot: String,
    pub messages_before: usize,
    pub messages_after: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub kind: Kind,
    pub remark: Option<String>,
}

/// What a session remembers about its context from one compression to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// What the next request is expected to weigh, in tokens: what the provider counted, and an
    /// estimate of what was added since.
    pub context: u64,
    /// The engine wants to compress, and has not looked at the rows yet.
    pub wanted: bool,
    /// The number of the last operation.
    pub operations: u64,
    /// Failures in a row, and until when nothing is tried ahead of time because of them.
    pub failures: u32,
    pub not_before: Time,
    /// Below this nothing is tried ahead of time: it was not worth it when it was tried.
    pub unworthy: u64,
    /// When engines were asked in the last hour without success, oldest first.
    pub recent: Vec<Time>,
    /// The time in the name of the last snapshot: the next is later.
    pub snapshot: Time,
}

impl Upkeep {
    /// Whether something may be tried ahead of time.
    pub fn allows(&self, now: Time) -> bool {
        let wait = self.not_before.since(now);
        // More than was decided is left only if the clock was set back since.
        let is_over = wait.is_zero() || wait > pause(self.failures);
        is_over && self.context >= self.unworthy && self.has_attempts_left(now)
    }

    pub fn has_attempts_left(&self, now: Time) -> bool {
        let hour = Duration::from_secs(3600);
        // A date that lies further ahead was written before the clock was set back: it says nothing about this hour.
        let is_recent = |at: &&Time| now.since(**at) < hour && at.since(now) < hour;
        self.recent.iter().filter(is_recent).count() < ATTEMPTS_AN_HOUR
    }

    pub fn attempted(&mut self, now: Time) {
        self.recent.push(now);
        let surplus = self.recent.len().saturating_sub(ATTEMPTS_AN_HOUR);
        self.recent.drain(..surplus);
    }

    pub fn failed(&mut self, now: Time) {
        self.failures += 1;
        self.not_before = now.plus(pause(self.failures));
    }

    /// Nothing to gain at this size; a tenth more may be another matter.
    pub fn not_worth_it(&mut self) {
        self.unworthy = self.context + self.context / 10 + 1;
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = Time::default();
        self.unworthy = 0;
        self.recent.clear();
    }

    /// The name of the next snapshot, later than any before it even if the clock went backwards.
    pub fn name_snapshot(&mut self, session: &SessionId, now: Time) -> String {
        self.snapshot = now.max(Time(self.snapshot.0 + 1));
        snapshot_name(session, self.snapshot)
    }
}

/// After so many failures in a row.
fn pause(failures: u32) -> Duration {
    BACKOFF[(failures.max(1) as usize - 1).min(BACKOFF.len() - 1)]
}

/// `<id>.snapshot.<YYYYMMDDTHHMMSSffffffZ>`, in UTC.
pub fn snapshot_name(session: &SessionId, at: Time) -> String {
    format!("{session}{SNAPSHOT_INFIX}{}", at.compact())
}

impl Operation {
    /// Under which it appears in the log: the same session and number always give the same name.
    pub fn name(&self, session: &SessionId) -> String {
        operation_name(session, self.number)
    }

    pub fn is_preparing(&self) -> bool {
        self.stage == Stage::Preparing
    }
}

pub fn operation_name(session: &SessionId, number: u64) -> String {
    let digest = Digest::of(&[session.as_str().as_bytes(), &number.to_le_bytes()]);
    digest.to_hex()[..12].to_owned()
}

impl Replacement {
    /// How much it takes off the context.
    pub fn freed(&self) -> u64 {
        self.before.saturating_sub(self.after_tokens)
    }

    pub fn is_worth_it(&self, context: u64) -> bool {
        self.freed() * 100 >= context.max(self.before) * WORTH_PERCENT
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Summary => "summary",
            Kind::Digest => "digest",
            Kind::Restored => "restored",
            Kind::Undone => "undone",
            Kind::Mended => "mended",
        })
    }
}

/// What the context weighs once a snapshot is the view again: what stands before the messages, the
/// rows of the snapshot, and what was said since, be it live or kept by a snapshot that was made `later`.
pub fn weight_restored(
    context: u64,
    live: &[(RowId, Message)],
    snapshot: &[(RowId, Message)],
    later: &[(RowId, Message)],
) -> u64 {
    let weight =
        |rows: &mut dyn Iterator<Item = &(RowId, Message)>| rows.map(|(_, row)| estimate(row)).sum::<u64>();
    let overhead = context.saturating_sub(weight(&mut live.iter()));
    let mut listed: BTreeSet<RowId> = snapshot.iter().map(|(row, _)| *row).collect();
    let mut since = live
        .iter()
        .chain(later)
        .filter(|(row, message)| !summary::is_summary(message) && listed.insert(*row));
    overhead + weight(&mut snapshot.iter()) + weight(&mut since)
}

/// What any picture weighs.
const IMAGE_TOKENS: u64 = 1_600;

/// Roughly what a message weighs in a request: four characters are about a token in the languages
/// most is written in, and other scripts take up to one token a character.
pub fn estimate(message: &Message) -> u64 {
    match (&message.sent_as, &message.body) {
        (Some(text), _) => FRAME + text_tokens(text),
        (None, Body::Assistant(said)) => estimate_answer(said),
        (None, _) => FRAME + content_tokens(message.content()),
    }
}

/// What a row weighs in which a person says this.
pub fn estimate_said(content: &Content) -> u64 {
    FRAME + content_tokens(content)
}

/// The same for plain words.
pub fn estimate_words(text: &str) -> u64 {
    FRAME + text_tokens(text)
}

pub fn estimate_answer(said: &Assistant) -> u64 {
    let calls =
        said.calls.iter().map(|call| text_tokens(&call.name) + text_tokens(&call.arguments) + 2 * FRAME);
    FRAME + content_tokens(&said.content) + calls.sum::<u64>()
}

/// Role and punctuation.
const FRAME: u64 = 4;

fn content_tokens(content: &Content) -> u64 {
    match content {
        Content::Nothing => 0,
        Content::Text(text) => text_tokens(text),
        Content::Opaque(json) => text_tokens(json.as_str()),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text_tokens(text),
                Part::Image { .. } => IMAGE_TOKENS,
                Part::Opaque(json) => text_tokens(json.as_str()),
            })
            .sum(),
    }
}

pub fn text_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let (mut narrow, mut wide) = (0, 0);
    for character in text.chars() {
        match character as u32 {
            0..0x0250 => narrow += 1,
            0x0250..0x2e80 => narrow += 2, // two or three characters a token
            _ => wide += 1,
        }
    }
    wide + u64::div_ceil(narrow, 4)
}
