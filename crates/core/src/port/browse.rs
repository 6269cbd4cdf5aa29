//! What people and programs look through: sessions, transcripts, snapshots, what happened to a message, what waits.
//!
//! Nothing that keeps a conversation going depends on it.

use super::StoreError;
use crate::compression::Kind as Replaced;
use crate::home_status::HomeStatus;
use crate::id::{Epoch, RowId, SessionId, View};
use crate::message::{JsonText, Message};
use crate::session::Finalisation;
use crate::time::Time;
use crate::turn::Usage;

/// What people and programs look through.
pub trait BrowseRead: Send {
    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError>;
    fn session(&self, id: &SessionId) -> Result<Option<SessionSummary>, StoreError>;
    /// Newest first among the best matches. `principal` limits it to that caller's sessions.
    fn search(&self, query: &str, filter: &SessionFilter) -> Result<Vec<Hit>, StoreError>;
    /// What was said around one row, in the transcript that holds it: also where a summary stands for
    /// it by now. None: there is no such row in that conversation, or it is not the caller's to see.
    fn around(&self, anchor: &Anchor) -> Result<Option<Excerpt>, StoreError>;
    /// All that was said in it, in order: also what summaries stand for by now, without those summaries and
    /// without what was taken back.
    fn said(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError>;
    /// The sessions that work, or worked, for this one, oldest first.
    fn children(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError>;
    /// All that is known about a message, found by any of its names: a platform's id, an
    /// idempotency key, a response id, `<session>/<number>`, or a row of the transcript.
    fn trace(&self, name: &str) -> Result<Vec<Trace>, StoreError>;
    /// What waits, what runs, what is stuck.
    fn home_status(&self) -> Result<HomeStatus, StoreError>;
    /// What waits in sessions that are silenced or held, oldest first.
    fn backlog(&self) -> Result<Vec<Backlog>, StoreError>;
    /// Hand-overs that were set aside, oldest first.
    fn parked(&self) -> Result<Vec<Parked>, StoreError>;
    /// Reviews that are due or were set aside, oldest first.
    fn reviews(&self) -> Result<Vec<ReviewRecord>, StoreError>;
    /// Where chats lead, each route as it is written for Hermes.
    fn routes(&self) -> Result<Vec<JsonText>, StoreError>;
    /// How often each named event happened.
    fn counts(&self) -> Result<Vec<(String, u64)>, StoreError>;
    /// Every invariant that does not hold, in words. Empty is good.
    fn check(&self) -> Result<Vec<String>, StoreError>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFilter {
    pub principal: Option<String>,
    pub source: Option<String>,
    pub session: Option<SessionId>,
    /// Only what stands in the snapshot of this name.
    pub snapshot: Option<String>,
    /// Whose sessions may be seen. None: everybody's.
    pub scope: Option<Scope>,
    /// Not this conversation, nor any other that shares its ancestors.
    pub exclude: Option<SessionId>,
    /// Without sessions that work for another one, or for a program.
    pub without_helpers: bool,
    /// Without sessions of clients that name neither a session nor a person.
    pub without_stateless: bool,
    /// Only sessions of this title, or of this title and a number.
    pub title: Option<String>,
    /// Only what these roles said. Empty: all roles.
    pub roles: Vec<String>,
    pub order: Order,
    /// Sources whose hits come after those of all others.
    pub demoted: Vec<String>,
    /// The first hit of each conversation, and no other.
    pub one_each: bool,
    pub limit: usize,
    pub offset: usize,
}

/// Whose sessions a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything in the home: the person at its terminal owns it.
    Owner,
    /// The sessions of one client among several.
    Principal(String),
    /// A person who writes on a platform. `chat` is set where others read along, and is the platform's
    /// id of the place: then only what was said there is seen, and of sessions that each member has to
    /// themselves only the caller's. Elsewhere it is their own sessions on that platform.
    Person { source: String, user: Option<String>, chat: Option<String> },
}

/// In which order hits come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The best, newest first among themselves.
    #[default]
    Recent,
    Best,
    Newest,
    Oldest,
}

/// A row of a transcript, and how much around it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub session: SessionId,
    pub row: RowId,
    /// Rows on each side of it.
    pub window: usize,
    /// Rows with words of a user or the model at each end of the transcript, outside the window.
    pub ends: usize,
    pub scope: Option<Scope>,
}

/// A piece of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// The session that the row belongs to: the one asked for, or another part of its conversation.
    pub session: SessionId,
    /// Where that conversation began. The same session, unless Hermes split it.
    pub root: SessionId,
    /// In order, with the row itself among them.
    pub rows: Vec<(RowId, Message)>,
    pub first: Vec<(RowId, Message)>,
    pub last: Vec<(RowId, Message)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    pub id: SessionId,
    pub source: String,
    pub title: Option<String>,
    pub chat: Option<String>,
    pub model: Option<String>,
    pub started: Time,
    pub last_active: Time,
    pub ended: Option<String>,
    pub messages: u64,
    pub tool_calls: u64,
    pub usage: Usage,
    /// The beginning of the first thing the user said.
    pub preview: String,
}

/// A view that was, or the part of one that a summary stands for now.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotSummary {
    pub name: String,
    pub session: SessionId,
    /// The view that it shows.
    pub view: View,
    /// The compression that left it. None: a restore did.
    pub operation: Option<u64>,
    pub at: Time,
    /// What took its place.
    pub kind: Replaced,
    /// Rows that it holds.
    pub messages: usize,
    /// Rows of the whole view before and after, and what it weighed.
    pub messages_before: usize,
    pub messages_after: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub summary: SnapshotSummary,
    /// In order, as they were said. Rows that another program has deleted since are not among them.
    pub rows: Vec<(RowId, Message)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub session: SessionId,
    pub row: RowId,
    pub role: String,
    pub at: Time,
    /// The words around the match, the match itself between `>>>` and `<<<`.
    pub snippet: String,
    pub title: Option<String>,
}

/// One thing that happened to a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub at: Time,
    pub session: SessionId,
    pub name: String,
    pub detail: String,
}

/// A review that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRecord {
    pub session: SessionId,
    pub number: u64,
    pub subject: crate::session::review::Subject,
    pub due: Time,
    pub tries: u32,
    /// Why it was set aside. None: it is due.
    pub parked: Option<String>,
}

/// A hand-over that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub session: SessionId,
    pub epoch: Epoch,
    pub stage: Finalisation,
    /// The step by its name, and what was wrong the last time.
    pub why: String,
    pub attempts: u32,
    pub at: Time,
}

/// What waits in a session that is silenced or held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    pub session: SessionId,
    pub waiting: u64,
    /// When the first of it was written.
    pub oldest: Time,
    /// It was written before the home was taken over.
    pub from_before: bool,
}
