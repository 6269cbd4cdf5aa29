//! Where a home stands: what waits, what runs, what is stuck, and why. Read off the store, so that
//! it can be told of a gateway that runs and of one that does not.

use crate::id::{Seq, SessionId};
use crate::port::Parked;
use crate::time::Time;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeStatus {
    /// Conversations that there are, and those among them that have not ended.
    pub sessions: u64,
    pub open_sessions: u64,
    /// Where people write, by source.
    pub places: Vec<Place>,
    /// Messages that wait for their turn.
    pub waiting: u64,
    pub oldest_waiting: Option<Waiting>,
    /// Replies that have not left, and those that never will.
    pub undelivered: u64,
    pub oldest_undelivered: Option<Undelivered>,
    pub refused: u64,
    /// The last of those that never will, latest first, at most [`REFUSED_SHOWN_MAX`].
    pub latest_refused: Vec<Refused>,
    /// Oldest first, at most [`SHOWN_MAX`] of each.
    pub running: Vec<Running>,
    pub compressing: Vec<Compressing>,
    /// Ended conversations that are still being handed over.
    pub handing_over: u64,
    /// Hand-overs that were set aside, and the latest of them, at most [`PARKED_SHOWN_MAX`].
    pub handovers_parked: u64,
    pub latest_handovers_parked: Vec<Parked>,
    /// Reviews that are due, and those that were set aside.
    pub reviews_due: u64,
    pub reviews_parked: u64,
    /// Turns that the memory provider does not have yet, those it refused, and what it said last.
    pub unkept: u64,
    pub unkept_refused: u64,
    pub unkept_error: Option<String>,
    /// Turns that went on without what their memory knows, ever: it came too late, or not at all.
    pub recalls_missed: u64,
    /// Sessions that the operator silenced, and whether all of the home is.
    pub halted_sessions: u64,
    pub halted: bool,
    /// Turns that were given up because they brought the gateway down, ever.
    pub parked: u64,
}

/// As many as fit a screen; the counts say how many there are.
pub const SHOWN_MAX: usize = 20;

/// Enough to see what they have in common.
pub const REFUSED_SHOWN_MAX: usize = 3;

/// As with replies.
pub const PARKED_SHOWN_MAX: usize = 3;

/// A reply that will never arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub key: String,
    pub platform: String,
    pub chat: String,
    pub since: Time,
    pub error: Option<String>,
}

/// One source of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub source: String,
    pub last_received: Option<Time>,
    pub last_delivered: Option<Time>,
}

/// A message without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub session: SessionId,
    pub seq: Seq,
    pub since: Time,
    pub why: Why,
}

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The operator has silenced its session.
    Halted,
    /// A tool of the turn before it waits for a person.
    Asking,
    /// The turn before it runs, or is this one.
    Turn,
    /// It comes before a compression that has to end first.
    Compression,
    /// Nothing stands in its way: it is taken up next.
    Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    pub key: String,
    pub session: SessionId,
    pub platform: String,
    pub since: Time,
    pub attempts: u32,
    /// What the platform last said.
    pub error: Option<String>,
    /// When it is tried again, if it waits for that.
    pub not_before: Time,
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub session: SessionId,
    pub source: String,
    pub since: Time,
    /// How often the model has been asked.
    pub step: u32,
    /// What is being called.
    pub tools: Vec<String>,
    /// One of them waits for a person.
    pub asking: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressing {
    pub session: SessionId,
    pub since: Time,
    pub attempts: u32,
    /// The summary is written, and takes its place before the next request.
    pub ready: bool,
}
