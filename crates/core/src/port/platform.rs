//! A chat platform, as far as replies leave through it.

use super::Promise;
use crate::call::CallId;
use crate::id::{Boot, SessionId};
use crate::input::Destination;
use crate::time::Time;
use crate::tool::Ask;
use std::time::Duration;

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub call: CallId,
    /// The tool that asks.
    pub tool: String,
    pub ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub key: String,
    pub session: SessionId,
    pub destination: Destination,
    pub text: String,
    /// What it follows from.
    pub trace: crate::input::Trace,
    pub attempts: u32,
    /// The start in which it was last attempted, if its outcome is unknown.
    pub attempting: Option<Boot>,
    /// When the first attempt of unknown outcome was made, if there is one.
    pub attempted: Option<Time>,
    /// It was already sent again with a mark.
    pub marked: bool,
    pub not_before: Time,
    /// The platform's id of its preview: that message becomes the reply.
    pub draft: Option<String>,
    /// The question that it puts to a person.
    pub question: Option<Pending>,
}

/// Between the key of a reply and the number of a piece of it, from the second on.
const PIECE: char = '+';

impl Outgoing {
    /// The key of a reply's piece: the first has that of the reply.
    pub fn piece_key(key: &str, place: usize) -> String {
        match place {
            0 => key.to_owned(),
            place => format!("{key}{PIECE}{}", place + 1),
        }
    }

    /// Under which a preview of this reply would be known. A notice that the turn failed takes the place
    /// of what was shown of it, too.
    pub fn draft_key(key: &str) -> &str {
        key.split_once("/failed/").map_or(key, |(turn, _)| turn)
    }

    /// The key of what a call asks, where its turn was asked for: one message, with buttons where the platform has them.
    pub fn question_key(call: &CallId) -> String {
        format!("{call}/asked")
    }

    /// The key of what a call asks, in the owner's chat. That is a message like any other: buttons have no room for whose
    /// question it is, and a code stands under it.
    pub fn owner_question_key(call: &CallId) -> String {
        format!("{call}/owner")
    }

    /// The call whose question a reply with this key puts to a person, as [`Outgoing::question_key`].
    pub fn asked_by(key: &str) -> Option<CallId> {
        key.strip_suffix("/asked")?.parse().ok()
    }
}

/// A place where people write. Only sending is asked of it: what comes in comes through [`super::AgentApi`].
pub trait Platform: Send + Sync {
    /// As in [`Destination::platform`] and [`Destination::account`].
    fn name(&self) -> &str;
    /// Whether the same key twice is one message to it.
    fn is_idempotent(&self) -> bool;
    /// For how long it is, where it forgets keys. None: for ever.
    fn key_memory(&self) -> Option<Duration> {
        None
    }
    /// The pieces in which a text leaves, in order: each within what the platform takes, each a row
    /// of the outbox of its own. The same text always gives the same pieces. Words come before files,
    /// so that they can take the place of their preview.
    fn parts(&self, text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }
    /// How it is connected now.
    fn health(&self) -> Health {
        Health::Up
    }
    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>>;
    /// Sends a reply that puts a question, with something to press where there is such a thing.
    fn ask<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        question: &'a Pending,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        let _ = question;
        self.send(outgoing, mark)
    }
}

/// How a platform's account is doing, in words that `status` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Not connected yet.
    Starting,
    Up,
    /// Something is in the way that will pass; it is tried again.
    Waiting(String),
    /// It is no use to try before a person has done something about it.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It did not arrive. Try again, not before this.
    #[error("not now: {message}")]
    Later { after: Option<Duration>, message: String },
    /// It may have arrived.
    #[error("unknown outcome: {message}")]
    Unknown { message: String },
    /// It never will.
    #[error("refused: {message}")]
    Never { message: String },
}
