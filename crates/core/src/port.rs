//! The outside world, in plain data. Each trait states a promise; an adapter keeps it.
//!
//! Nothing here names a database, a vendor or a platform, and nothing decides: decisions are in
//! [`crate::session`]. Futures are boxed so that adapters can be chosen at run time.

use crate::chain::{Exceeded, Share, Shared};
use crate::command::Found;
use crate::compression::{Kind as Replaced, Operation, Promoted};
use crate::home_status::HomeStatus;
use crate::id::{Boot, Generation, RowId, Seq, SessionId, TurnId, View};
use crate::input::{Birth, ClientTools, DedupeKey, Destination, Input, Kind, Room, Root, Sender};
use crate::memory::{self, PendingRetention, RetentionChange};
use crate::message::{JsonText, Message};
use crate::prompt::{Digest, Mark, Prompt, Segment, SegmentRole};
use crate::route::{Match, Target};
use crate::session::{Act, FailureKind, Outcome, Phase, Preferences, Session};
use crate::time::Time;
use crate::tool::{Ask, Caller, Verdict};
use crate::turn::{Answer, Usage};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

mod lifecycle;

pub use lifecycle::{Backlog, Fact, Happening, Hooks, NoHooks, Occasion, Parked, Reset, Resting};

pub type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

// ---------------------------------------------------------------------------------------- store

/// What one transaction writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Commit {
    /// A session's next state and what follows from it, if `expect` is still its generation
    /// (0: the session is not there yet, or nobody of ours has owned it).
    Session { expect: Generation, state: Box<Session>, acts: Vec<Act>, at: Time },
    /// What became of a reply on its way out.
    Delivery { key: String, boot: Boot, change: DeliveryChange, at: Time },
    /// What became of a turn on its way to the memory provider.
    Retention { key: String, change: RetentionChange, at: Time },
    /// The gateway stops: whatever waits to be remembered with more of its kind is due.
    HandOver { at: Time },
    /// An answer reached its client in full: a later request with the same words is a new one.
    Written { session: SessionId, seq: Seq },
    /// What became of the preview of a reply.
    Draft { key: String, change: DraftChange, at: Time },
    /// How far a platform's own stream of events has been taken in. Written with or after its rows.
    Cursor { platform: String, account: String, value: String },
    /// Something worth counting that belongs to no session's state.
    Note { session: Option<SessionId>, name: &'static str, detail: String, at: Time },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryChange {
    /// About to be sent. `marked`: a first attempt may have arrived, so this one says so.
    Attempting {
        marked: bool,
    },
    Delivered {
        platform_id: Option<String>,
    },
    /// To be tried again at this time. Whether an attempt before that did arrive may be unknown, since then.
    Postponed {
        until: Time,
        error: String,
        unknown_since: Option<Time>,
    },
    /// The platform will never take it.
    Refused {
        error: String,
    },
}

/// A preview of a reply: a message that shows what has been said so far. The reply takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftChange {
    /// About to be posted. Found like this after a start, it may be there or not.
    Intended { session: SessionId, destination: Destination },
    /// It is there, under the platform's id.
    Posted { id: String },
    /// It never came to be, or stays as it is: a message of its own.
    Left,
}

/// What the store did, where the caller could not know it before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The rows that `Act::Append` became, in order.
    pub rows: Vec<RowId>,
    /// Another process has written to the session since its owner last read it, or may have.
    pub foreign: bool,
    /// What `Act::Promote` or `Act::Restore` did to the view, as it was counted.
    pub promoted: Option<Promoted>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The message is known: the caller gets what became of the first one.
    #[error("this message was accepted before, as number {seq} of session {session}")]
    Duplicate { session: SessionId, seq: Seq, same_body: bool },
    /// Someone else owns the session now: forget what you know of it, and load it again.
    #[error("session {session} has a newer owner (generation {current})")]
    Fenced { session: SessionId, current: Generation },
    /// Another process is writing: wait and try again.
    #[error("the database is locked by another process")]
    Busy,
    /// Nothing was written and nothing can be: stop accepting, keep what is there, try again later.
    #[error("the store cannot be written: {0}")]
    Unwritable(String),
    /// The disk or the file failed: stop this home, keep the others alive.
    #[error("could not {doing}")]
    Broken {
        doing: &'static str,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// With its cause, for whoever reads it last.
    pub fn in_full(&self) -> String {
        match self {
            StoreError::Broken { source, .. } => format!("{self} ({source})"),
            other => other.to_string(),
        }
    }
}

/// Where sessions outlive the process. Synchronous: one owner holds the writer.
pub trait Store: Read {
    /// On disk when this returns. Each commit holds whole or not at all, and alone: one that is
    /// refused (an old generation, a key already seen) leaves its neighbours standing.
    fn commit(&mut self, batch: &[Commit]) -> Vec<Result<Committed, StoreError>>;

    /// The number of this start: higher than any before it, and durable.
    fn boot(&mut self, now: Time) -> Result<Boot, StoreError>;

    /// A slice of what may be done later: the search index, projections for Hermes, what another
    /// process wrote. Called when the writer is idle.
    fn tend(&mut self, now: Time) -> Result<Tended, StoreError>;

    /// Nobody has had anything to do here for a while: what only makes work faster may be given back.
    fn rest(&mut self) {}

    /// Everything that `tend` would do in time, now.
    fn close(&mut self, now: Time) -> Result<(), StoreError> {
        self.close_while(now, &mut || true).map(drop)
    }

    /// The same, but what has yet to enter the search index is left to the next start as soon as `go_on` says no. It is
    /// asked now and then.
    fn close_while(&mut self, now: Time, go_on: &mut dyn FnMut() -> bool) -> Result<Closed, StoreError>;

    fn reader(&self) -> &dyn Read;
}

/// What a store that was closed has left to the next start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Messages that the search index has yet to take in.
    pub unindexed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// There is more to do: call again soon.
    pub more: bool,
    /// Sessions that another process has written to since the last time.
    pub foreign: Vec<SessionId>,
    /// Another process has changed where chats lead.
    pub routes: bool,
    /// What could not be done this time, in words. The rest was.
    pub trouble: Vec<String>,
}

/// What can be asked of the store. A reader sees every commit that was acknowledged before it asked.
pub trait Read: Send {
    /// Where the session stands; None if nobody has it. A session that only Hermes knows is
    /// loaded as one that has received nothing from us.
    fn load(&self, id: &SessionId) -> Result<Option<Loaded>, StoreError>;
    /// The live transcript, in order.
    fn history(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError>;
    /// All that was said in it, in order: also what summaries stand for by now, without those summaries and
    /// without what was taken back.
    fn said(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError>;
    fn route(&self, chat: &crate::id::ChatKey) -> Result<Option<SessionId>, StoreError>;
    fn seen(&self, key: &DedupeKey) -> Result<Option<Seen>, StoreError>;
    /// The newest request that carried this implicit key.
    fn implicit(&self, key: &Digest) -> Result<Option<Implicit>, StoreError>;
    /// The turns after which this client's view of a conversation ended.
    fn thread(&self, principal: &str, end: &Digest) -> Result<Vec<Match>, StoreError>;
    /// What became of an input; None while it waits or runs.
    fn outcome(&self, session: &SessionId, seq: Seq) -> Result<Option<Settled>, StoreError>;
    /// One input as it came in, with all its texts; None if the session has none of that number.
    fn input(&self, session: &SessionId, seq: Seq) -> Result<Option<Arc<Input>>, StoreError>;
    /// One input as it came in, and the others of its turn: what `Event::Retried` needs.
    fn turn_inputs(&self, session: &SessionId, turn: TurnId) -> Result<Vec<Arc<Input>>, StoreError>;
    /// Sessions with something to do after a start, oldest first.
    fn unfinished(&self) -> Result<Vec<SessionId>, StoreError>;
    /// Replies that have not been delivered, in the order in which they were written.
    fn undelivered(&self) -> Result<Vec<Outgoing>, StoreError>;
    /// Previews whose reply has not taken their place: its key, and the platform's id, where it is known.
    fn drafts(&self) -> Result<Vec<(String, Option<String>)>, StoreError>;
    /// Turns that are to be handed to this memory provider, in order; a thousand at most.
    fn retentions(&self, provider: &str) -> Result<Vec<PendingRetention>, StoreError>;
    /// Turns that no memory provider has yet, in order, whoever they are for.
    fn unkept(&self) -> Result<Vec<PendingRetention>, StoreError>;
    /// Where a session is at home, as it is now, and what this provider calls it. The agent is the caller's to
    /// fill in.
    fn scope(&self, id: &SessionId, provider: &str) -> Result<memory::Scope, StoreError>;
    /// What a conversation to which this provider has given no name would be called, if one of its turns were kept
    /// now: never what is somebody else's own.
    fn name(&self, provider: &str, naming: &memory::Naming) -> Result<String, StoreError>;
    /// Sessions that the operator has silenced.
    fn halted(&self) -> Result<Vec<SessionId>, StoreError>;
    /// When this home was first taken over: what happened before is not ours to act on.
    fn baseline(&self) -> Result<Time, StoreError>;
    /// Sessions at rest that chats lead to, in which nobody has written since, oldest first. Those in
    /// which nobody has written in our time are not among them.
    fn resting(&self, since: Time) -> Result<Vec<Resting>, StoreError>;
    /// How the last conversation of a chat ended by itself, as long as none has begun there since.
    fn reset(&self, chat: &crate::id::ChatKey) -> Result<Option<Reset>, StoreError>;
    /// Hand-overs that were set aside, oldest first.
    fn parked(&self) -> Result<Vec<Parked>, StoreError>;
    /// What waits in sessions that are silenced or held, oldest first.
    fn backlog(&self) -> Result<Vec<Backlog>, StoreError>;
    /// Questions of tools that wait for a person, oldest first.
    fn asks(&self) -> Result<Vec<Pending>, StoreError>;
    fn cursor(&self, platform: &str, account: &str) -> Result<Option<String>, StoreError>;

    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError>;
    fn session(&self, id: &SessionId) -> Result<Option<SessionSummary>, StoreError>;
    /// Newest first among the best matches. `principal` limits it to that caller's sessions.
    fn search(&self, query: &str, filter: &SessionFilter) -> Result<Vec<Hit>, StoreError>;
    /// What was said around one row, in the transcript that holds it: also where a summary stands for
    /// it by now. None: there is no such row in that conversation, or it is not the caller's to see.
    fn around(&self, anchor: &Anchor) -> Result<Option<Excerpt>, StoreError>;
    /// What compressions and restores have left behind in a session, oldest first.
    fn snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotSummary>, StoreError>;
    /// One of them by its name, with what stood there.
    fn snapshot(&self, name: &str) -> Result<Option<Snapshot>, StoreError>;
    /// What the snapshots keep that were made after this one.
    fn kept_since(&self, id: &SessionId, name: &str) -> Result<Vec<(RowId, Message)>, StoreError> {
        let mut rows = Vec::new();
        for later in self.snapshots(id)?.into_iter().filter(|it| it.name.as_str() > name) {
            rows.extend(self.snapshot(&later.name)?.map(|it| it.rows).unwrap_or_default());
        }
        Ok(rows)
    }
    /// What an operation did, once it is in place.
    fn promoted(&self, id: &SessionId, operation: u64) -> Result<Option<Promoted>, StoreError>;
    /// Whether the rows that an operation stands for are still those it was begun with: nobody has
    /// compressed, taken back or deleted any of them.
    fn intact(&self, id: &SessionId, operation: &Operation) -> Result<bool, StoreError>;
    /// What a review that is due is about. None: it is over, or there is none of that number.
    fn review(&self, id: &SessionId, number: u64) -> Result<Option<ReviewView>, StoreError>;
    /// Reviews that are due or were set aside, oldest first.
    fn reviews(&self) -> Result<Vec<ReviewRecord>, StoreError>;
    /// Which rows of a transcript are what.
    fn spoken(&self, id: &SessionId) -> Result<Spoken, StoreError>;
    /// A title as it would be stored for this session.
    fn titling(&self, id: &SessionId, title: &str) -> Result<Titling, StoreError>;
    /// The next free title of the lineage of this one.
    fn next_title(&self, title: &str) -> Result<String, StoreError>;
    /// The session that goes on where this one was: itself, or what another program's compressions made
    /// of it. None: there is no such session.
    fn resumable(&self, id: &SessionId) -> Result<Option<Resumable>, StoreError>;
    /// The sessions that work, or worked, for this one, oldest first.
    fn children(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError>;
    /// All that is known about a message, found by any of its names: a platform's id, an
    /// idempotency key, a response id, `<session>/<number>`, or a row of the transcript.
    fn trace(&self, name: &str) -> Result<Vec<Trace>, StoreError>;
    /// What waits, what runs, what is stuck.
    fn home_status(&self) -> Result<HomeStatus, StoreError>;
    /// Where chats lead, each route as it is written for Hermes.
    fn routes(&self) -> Result<Vec<JsonText>, StoreError>;
    /// How often each named event happened.
    fn counts(&self) -> Result<Vec<(String, u64)>, StoreError>;
    /// Every invariant that does not hold, in words. Empty is good.
    fn check(&self) -> Result<Vec<String>, StoreError>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub session: Session,
    pub system_prompt: Option<Arc<str>>,
    /// Which layer a client added to it, as `Act::Freeze` last recorded it.
    pub layer: Option<Digest>,
    /// Whose it is, where it is known.
    pub principal: Option<String>,
    pub source: String,
    /// The platform's id of its user.
    pub user: Option<String>,
    /// It belongs to no chat in which several people read.
    pub is_private: bool,
    /// Why it ended, by our hand or by Hermes'.
    pub ended: Option<String>,
    /// What the last step asked: the next request should continue it.
    pub last_prompt: Option<Mark>,
    /// Rows that Hermes added since we last looked: they are part of the conversation now.
    pub adopted: usize,
}

/// The view that a review fell due on.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewView {
    pub messages: Vec<Message>,
    /// Rows of it that another program has deleted since.
    pub gone: usize,
    /// As it was then.
    pub system_prompt: Option<Arc<str>>,
    /// What was asked for the answer it fell due with: a review begins with these bytes.
    pub asked: Option<Mark>,
    /// The tools that the client of that turn runs: they were listed, too.
    pub client_tools: Option<ClientTools>,
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

/// Rows of a transcript of which more is known than they say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    /// What inputs of ours became, and the turn that each was part of.
    pub turns: Vec<(RowId, TurnId)>,
    /// What stands for something else.
    pub summaries: Vec<RowId>,
}

/// What becomes of a title that somebody wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Titling {
    /// Cleaned, and nobody else has it.
    Free(String),
    /// Nothing of it can be shown.
    Empty,
    TooLong {
        characters: usize,
        most: usize,
    },
    Held {
        title: String,
        by: SessionId,
    },
}

/// A session that a chat might lead to again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumable {
    pub session: SessionId,
    pub title: Option<String>,
    /// Rows in its view.
    pub messages: u64,
    pub received: Seq,
    /// A turn runs there, or something waits.
    pub busy: bool,
    /// A chat that leads to it now.
    pub chat: Option<String>,
    /// It works for another session: nobody writes to it.
    pub helper: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub session: SessionId,
    pub seq: Seq,
    pub body: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implicit {
    pub session: SessionId,
    pub seq: Seq,
    pub at: Time,
    /// Its answer reached a client in full.
    pub written: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    pub outcome: Outcome,
    /// When the turn began: times in answers derive from it, so that a replay is identical.
    pub began: Time,
    /// Its last step, where it was answered.
    pub answer: Option<Answer>,
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub call: CallId,
    /// The tool that asks.
    pub tool: String,
    pub ask: Ask,
}

/// One call: `session/turn/step/position`; or one of the questions that it asks while it runs: `session/turn/step/position~number`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub session: SessionId,
    pub turn: TurnId,
    pub step: u32,
    pub index: usize,
    /// Zero: the call itself, and the one question that it may ask before it runs.
    pub question: u32,
}

impl CallId {
    /// A short name for people to type. It tells apart the few questions that wait at one time; who may answer is
    /// decided elsewhere.
    pub fn code(&self) -> String {
        let hashed = self
            .to_string()
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{hashed:08x}")
    }

    /// Whether a word that a person typed has the form of a code.
    pub fn is_code(word: &str) -> bool {
        word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}/{}", self.session, self.turn, self.step, self.index)?;
        match self.question {
            0 => Ok(()),
            number => write!(formatter, "~{number}"),
        }
    }
}

impl FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let not_one = || format!("{text:?} names no call; a call is named session/turn/step/position");
        let mut fields = text.rsplitn(4, '/');
        let (Some(index), Some(step), Some(turn), Some(session)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(not_one());
        };
        let (index, question) = index.split_once('~').unwrap_or((index, "0"));
        Ok(Self {
            session: session.parse().map_err(|_| not_one())?,
            turn: TurnId(Seq(turn.parse().map_err(|_| not_one())?)),
            step: step.parse().map_err(|_| not_one())?,
            index: index.parse().map_err(|_| not_one())?,
            question: question.parse().map_err(|_| not_one())?,
        })
    }
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
    /// Only what these roles said. Empty: anybody.
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
    /// Everything in the home: whoever sits at its terminal owns it.
    Owner,
    /// The sessions of one client among several.
    Principal(String),
    /// Somebody who writes on a platform. `chat` is set where others read along, and is the platform's
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

// ---------------------------------------------------------------------------------------- model

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

// --------------------------------------------------------------------------------------- engine

/// Decides when a context is too full and what a summary of it says. The built-in one is
/// in [`crate::compression`]; a plugin is another. Whatever crosses this trait is plain data,
/// so that it can cross a process boundary, too; nobody reaches past it.
pub trait Engine: Send + Sync {
    fn name(&self) -> &str;
    /// Asked after each answer, with what the provider counted. Who takes too long has said no.
    fn should_compress<'a>(&'a self, scope: &'a memory::Scope, usage: &'a ContextUsage) -> Promise<'a, bool>;
    /// What may stand in place of these messages. The last of them is the last that may be replaced;
    /// no tool group is open in them.
    fn compress<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Result<Condensed, EngineError>>;

    // What follows is optional: an engine without it works everywhere.

    /// Which wishes it knows. Others are not even offered to it.
    fn takes(&self) -> Takes {
        Takes::default()
    }
    /// Whether there is anything in these messages that it would replace.
    fn has_content_to_compress<'a>(&'a self, past: &'a Past, wishes: &'a Wishes) -> Promise<'a, bool> {
        let _ = (past, wishes);
        Box::pin(async { true })
    }
    /// What it would do with them, without doing it.
    fn plan<'a>(
        &'a self,
        past: &'a Past,
        wishes: &'a Wishes,
    ) -> Promise<'a, Option<crate::compression::Plan>> {
        let _ = (past, wishes);
        Box::pin(async { None })
    }
    /// Whether it wants to know of sessions that begin and end.
    fn follows_sessions(&self) -> bool {
        false
    }
    fn session_began(&self, scope: &memory::Scope) {
        let _ = scope;
    }
    fn session_ended(&self, scope: &memory::Scope) {
        let _ = scope;
    }
    /// Tools it brings along, in the common form of a tool.
    fn tools(&self) -> Vec<crate::tool::Spec> {
        Vec::new()
    }
    fn call<'a>(
        &'a self,
        scope: &'a memory::Scope,
        call: &'a crate::tool::Call,
    ) -> Promise<'a, crate::tool::Returned> {
        let _ = scope;
        let answer = format!("The context engine has no tool named {:?}.", call.name);
        Box::pin(async move { crate::tool::Returned::text(answer) })
    }
    /// A few words about how it is doing, as far as they are at hand.
    fn status(&self) -> Option<String> {
        None
    }
    /// A few words for `/status`, about one session and as it is now.
    fn status_of<'a>(&'a self, scope: &'a memory::Scope) -> Promise<'a, Option<String>> {
        let _ = scope;
        Box::pin(async { None })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextUsage {
    /// What the model read and wrote in its last answer.
    pub prompt: u64,
    pub completion: u64,
    /// What the next request is expected to weigh.
    pub expected: u64,
}

/// What an engine is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    pub scope: memory::Scope,
    pub messages: Vec<Message>,
    /// What the whole context weighs, as the provider counted it or as it is estimated.
    pub tokens: u64,
}

/// What is wished of a summary, beyond that there be one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// What should be kept in favour of the rest.
    pub focus: Option<String>,
    /// Even if the engine would rather not.
    pub force: bool,
    /// What the memory provider wants remembered, as data.
    pub memory_context: String,
    /// So many messages at the end are to stay as they are, rather than as many as the engine likes.
    pub keep_last: Option<usize>,
}

/// Which wishes an engine knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    pub focus: bool,
    pub force: bool,
    pub memory_context: bool,
    pub keep_last: bool,
}

/// What an engine made of the past: so many messages at both ends stay as they are, and these stand
/// in place of the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Condensed {
    pub keep_first: usize,
    pub messages: Vec<Message>,
    pub keep_last: usize,
    /// Which model wrote it, if one did.
    pub model: String,
    /// Something the user should know, in a sentence.
    pub remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// There is nothing that it would replace.
    #[error("there is nothing to compress")]
    Nothing,
    /// It does not know one of the wishes after all: it is asked once more without them.
    #[error("the engine does not know {0}")]
    Unknown(String),
    /// No summary came of it. In a sentence, free of secrets.
    #[error("{0}")]
    Failed(String),
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

// ------------------------------------------------------------------------------------- platform

/// A place where people write. Only sending is asked of it: what comes in comes through [`AgentApi`].
pub trait Platform: Send + Sync {
    /// As in [`Destination::platform`] and [`Destination::account`].
    fn name(&self) -> &str;
    /// Whether the same key twice is one message to it.
    fn is_idempotent(&self) -> bool;
    /// For how long it is, where it forgets keys. None: for as long as anybody asks.
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
    /// It is no use to try before somebody has done something about it.
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

// ---------------------------------------------------------------------------------------- clerk

/// Knows what can be set, shown and done around a conversation, and the names that a user has given to
/// things. Whatever it does is done once per [`Assignment::key`], however often it is asked.
pub trait HostCommands: Send + Sync {
    /// What an order means whose name is none of ours. None: nothing.
    fn expand<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Expansion>> {
        let _ = asked;
        Box::pin(async { None })
    }
    /// Carries it out. None: it does not know how.
    fn carry_out<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Found>> {
        let _ = asked;
        Box::pin(async { None })
    }
    /// Names that it would expand for this caller, each with a few words, for `/commands`.
    fn names<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Vec<(String, String)>> {
        let _ = asked;
        Box::pin(async { Vec::new() })
    }
    /// Starts the process again once nothing runs. That it was ordered is on disk.
    fn restart(&self) {}
}

/// What is asked of a clerk, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The same however often it is asked.
    pub key: String,
    /// Of the command, without its slash.
    pub name: String,
    pub argument: String,
    /// None: not known yet.
    pub session: Option<SessionId>,
    /// The surface it came through.
    pub source: String,
    pub user: Option<String>,
    /// As [`crate::tool::Caller::is_private`].
    pub is_private: bool,
    pub principal: Option<String>,
    /// Where the answer goes. None for a client that waits for it.
    pub place: Option<Destination>,
    pub preferences: Preferences,
}

/// What a name that the user has given to something stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// Words for the model.
    Words(String),
    /// Another order, as if it had been typed.
    Typed(String),
    /// Something that the clerk itself carries out.
    HostCommand,
}

/// The models there are, by the names that people use.
pub trait Models: Send + Sync {
    /// Those it can name. There may be more.
    fn names(&self) -> Vec<String>;
    /// Why it cannot be used is said in a sentence, free of secrets.
    fn choose(&self, name: &str) -> Result<Arc<dyn Model>, String>;
}

// ------------------------------------------------------------------------------------- briefing

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

// --------------------------------------------------------------------------------------- ledger

/// One account of what follows from human messages, for every agent of a user of the machine, whatever process it
/// runs in. See [`crate::chain`].
pub trait Ledger: Send + Sync {
    /// Takes a share of an origin's budget. On disk when this returns.
    fn take(&self, share: Share) -> Promise<'_, Result<Shared, Unreachable>>;
    /// Whether it would be granted now. Nothing is taken, and nothing is announced.
    fn would_grant(&self, share: Share) -> Promise<'_, Result<bool, Unreachable>>;
    /// This bot is one of ours: what it says is waited for.
    fn introduce(&self, platform: &str, account: &str);
    /// A message of ours is in a chat: whoever hears it there finds what it follows from. Nobody waits for it.
    fn posted(&self, post: Post, trace: crate::input::Trace);
    /// What a message in a chat follows from, if one of our agents wrote it. One that was posted a moment ago is
    /// waited for, if its author is one of our bots.
    fn recognise(&self, post: Post) -> Promise<'_, Option<crate::input::Trace>>;
    /// A person opens the chains again that began in this session, or were cut in it.
    fn reopen(&self, session: Root) -> Promise<'_, Result<(), Unreachable>>;
    /// Returns when a chain that people of this home began was cut, and they have not been told.
    fn cut(&self, home: Arc<str>) -> Promise<'_, CutChain>;
    /// Whether the session that began the chain announces its cut in this place. The session that asks first does, in
    /// each place, also if it asks again; no other one.
    fn announces(&self, cut: CutChain, place: String) -> Promise<'_, Result<bool, Unreachable>>;
    /// They have been told.
    fn told(&self, cut: CutChain) -> Promise<'_, Result<(), Unreachable>>;
    /// The last of this home's people's chains that were cut, and are not open again, newest first.
    fn cuts(&self, home: Arc<str>) -> Promise<'_, Result<Vec<CutChain>, Unreachable>>;
}

/// The ledger cannot be read or written. It grants nothing meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// A message in a chat, as everybody in it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Post {
    pub platform: String,
    pub chat: String,
    pub message: String,
    /// The bot that wrote it.
    pub author: String,
}

/// A chain that was cut, and the people who began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutChain {
    pub origin: Arc<str>,
    pub number: u32,
    pub root: Root,
    pub why: Exceeded,
    pub at: Time,
}

// ----------------------------------------------------------------------------------------- desk

/// What a surface hands in, once per message.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    pub target: Target,
    /// For the session this may begin.
    pub birth: Birth,
    pub at: Time,
    pub key: DedupeKey,
    pub kind: Kind,
    pub reply_to: Option<Destination>,
    pub sender: Option<Sender>,
    pub platform_id: Option<String>,
    /// Empty for what a human wrote.
    pub trace: crate::input::Trace,
    /// A retry by the client's own word, or to a named session: its implicit key counts.
    pub may_be_retry: bool,
    /// Whoever handed it in can answer what a tool asks meanwhile. Not kept: after a crash a question is held.
    pub can_answer: bool,
    /// Part of something longer, the rest of which comes within this time: its turn waits so long before it asks,
    /// and takes in what comes meanwhile. Not kept: after a crash nobody waits, and nothing is missing.
    pub gathers: Option<Duration>,
}

/// What has been committed when a surface may say "received".
pub struct Receipt {
    pub session: SessionId,
    pub seq: Seq,
    /// Known before: nothing new was begun.
    pub duplicate: bool,
    pub progress: Box<dyn Progress>,
}

/// Follows one input to its end. Dropping it stops nothing.
pub trait Progress: Send {
    fn next(&mut self) -> Promise<'_, Update>;
}

#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    Delta(Delta),
    /// The model is asked anew: what was streamed so far is void.
    Restarted,
    /// A tool is being called: the model's name for the call, and the arguments as it wrote them.
    Calling {
        id: String,
        tool: String,
        arguments: String,
    },
    /// A tool would have had to ask, and nobody was there: the answer was no.
    Unattended {
        id: String,
        tool: String,
    },
    /// It has its result.
    Called {
        id: String,
        tool: String,
    },
    /// A tool asks something; the answer is waited for.
    Asked(Pending),
    /// A person has allowed what it asked for. Any other answer is the call's result.
    Granted(CallId),
    /// The model does not answer, and is asked again: why, in a sentence.
    Troubled(String),
    /// The end. A further `next` gives it again.
    Settled(Arc<Settled>),
    /// The gateway is stopping; the input is kept and goes on at the next start.
    Interrupted,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("session {0} has ended; leave the session out, or name another, to begin a new one")]
    Ended(SessionId),
    #[error("session {0} belongs to another caller")]
    NotYours(SessionId),
    #[error("this idempotency key was used before with a different body; use a new key for a new request")]
    OtherBody,
    #[error("the conversation has moved on since that request failed; send it as a new message")]
    MovedOn,
    #[error("{0}")]
    Unknown(String),
    /// Not while a turn runs.
    #[error("a turn is running in session {0}; wait for its answer or stop it, then try again")]
    Busy(SessionId),
    /// What a client's tools returned does not fit what was left to it.
    #[error("these results cannot be taken: {0}")]
    Results(String),
    #[error("the gateway is stopping and accepts nothing new; try again in a moment")]
    Draining,
    #[error("nothing can be accepted now: {0}")]
    Unwritable(String),
    #[error("{0}")]
    Internal(String),
}

/// The one door of an agent. Everything that comes in comes through here.
pub trait AgentApi: Send + Sync {
    /// Returns when the input is on disk.
    fn submit(&self, submission: Submission) -> Promise<'_, Result<Receipt, Refusal>>;
    /// Follows an input that was accepted earlier.
    fn follow(&self, session: SessionId, seq: Seq) -> Promise<'_, Result<Receipt, Refusal>>;
    /// The answer to this input reached its client in full.
    fn written(&self, session: SessionId, seq: Seq);
    /// Answers what a call asked. Returns when the answer is on disk.
    fn decide(&self, call: CallId, verdict: Verdict) -> Promise<'_, Result<(), Refusal>>;
    /// An owner who can answer what tools ask has been heard of: questions of others are held for a while.
    fn owner_is_here(&self) {}
    /// Whoever waited for the answer to this input has gone, and wants the turn to end.
    fn abandon(&self, session: SessionId, seq: Seq) {
        let _ = (session, seq);
    }
    /// Every turn is ended, and nothing is begun or sent until a person writes again.
    fn halt(&self) -> Promise<'_, Result<Halted, StoreError>>;
    /// What was silenced goes on.
    fn release(&self) -> Promise<'_, Result<(), StoreError>>;
    /// What a person has chosen for a session.
    fn preferences(&self, session: SessionId) -> Promise<'_, Preferences> {
        let _ = session;
        Box::pin(async { Preferences::default() })
    }
    /// A snapshot becomes the view of its session again. Returns when that is on disk.
    fn restore(&self, session: SessionId, snapshot: String) -> Promise<'_, Result<(), Refusal>> {
        let _ = (session, snapshot);
        Box::pin(async {
            Err(Refusal::Unknown("this gateway cannot restore snapshots; stop it and try again".into()))
        })
    }
    /// Turns that wait for another try with the memory provider are handed over again; only this one, if
    /// it is named. Returns how many there were, when that is on disk.
    fn retry_memory(&self, turn: Option<String>) -> Promise<'_, Result<usize, Refusal>> {
        let _ = turn;
        Box::pin(async { Err(Refusal::Unknown("this gateway has no memory provider".into())) })
    }
    /// How far a platform's own stream of events has been taken in.
    fn cursor(&self, platform: String, account: String) -> Promise<'_, Result<Option<String>, StoreError>> {
        let _ = (platform, account);
        Box::pin(async { Ok(None) })
    }
    /// It has been taken in up to here. Returns when that is on disk.
    fn keep_cursor(
        &self,
        platform: String,
        account: String,
        value: String,
    ) -> Promise<'_, Result<(), StoreError>> {
        let _ = (platform, account, value);
        Box::pin(async { Err(StoreError::Busy) })
    }
    /// A preview of the answer to this input is about to be posted. None: it must not be; the turn is
    /// over, or nobody would see that it is the same reply. Returns when it is on disk.
    fn draft(&self, session: SessionId, seq: Seq) -> Promise<'_, Option<Draft>> {
        let _ = (session, seq);
        Box::pin(async { None })
    }
    /// What became of it. Returns when that is on disk.
    fn drafted(&self, key: String, change: Drafted) -> Promise<'_, ()> {
        let _ = (key, change);
        Box::pin(async {})
    }
    /// Leave to change a preview: until it is given back, the reply waits. None: the reply has taken,
    /// or is taking, its place.
    fn hold(&self, key: &str) -> Option<Hold> {
        let _ = key;
        None
    }
    /// The agent speaks through this bot: other agents of the user know whose words they hear.
    fn introduce(&self, platform: &str, account: &str) {
        let _ = (platform, account);
    }
    /// What a bot's message in a chat follows from, if an agent of this user wrote it.
    fn recognise(&self, post: Post) -> Promise<'_, Option<crate::input::Trace>> {
        let _ = post;
        Box::pin(async { None })
    }
    /// Chains of this home's people that were cut and are not open again, newest first.
    fn cuts(&self) -> Promise<'_, Vec<CutChain>> {
        Box::pin(async { Vec::new() })
    }
    /// A new id for a session, as this home makes them.
    fn mint(&self, source: &str) -> SessionId;
    /// A text that nothing else is called, for a message that brings no name of its own.
    fn unique(&self) -> String;
    /// Something worth counting happened at a surface: a field ignored, a client refused.
    fn note(&self, session: Option<SessionId>, name: &'static str, detail: String);
    /// Runs a question on a reader of this home's store.
    fn read(&self, question: Question) -> Promise<'_, Result<Reading, StoreError>>;
    /// Whether an order can be carried out whose name is none of ours: a plugin's, or one that the user wrote.
    fn carries_out<'a>(&'a self, name: &'a str, argument: &'a str) -> Promise<'a, bool> {
        let _ = (name, argument);
        Box::pin(async { false })
    }
    fn status(&self) -> Status;
    fn now(&self) -> Time;
}

/// A preview, and leave to post or change it.
pub struct Draft {
    /// The key of the reply that will take its place.
    pub key: String,
    /// The platform's id, if there is one already.
    pub id: Option<String>,
    pub hold: Hold,
}

/// How posting a preview ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drafted {
    Posted {
        id: String,
    },
    /// Nobody knows: its reply says that something of it may have been seen.
    Lost,
    /// It is not there, or stays as it is.
    Left,
}

/// As long as somebody has it, nobody else acts. Given back when it is dropped.
pub struct Hold(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Hold {
    pub fn new(released: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(released)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(released) = self.0.take() {
            released();
        }
    }
}

/// What was silenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Halted {
    pub turns: usize,
    pub waiting: usize,
}

/// What surfaces ask about the store. Data rather than a closure, so that a desk can be anything.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Sessions(SessionFilter),
    Session(SessionId),
    History(SessionId),
    Search {
        query: String,
        filter: SessionFilter,
    },
    Trace(String),
    Counts,
    Asks,
    /// Inputs that a turn works at now, rather than waits for a person, and those behind it.
    Running,
    HomeStatus,
    Routes,
    /// What is held, and what was set aside.
    Backlog,
    Parked,
    Check,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Sessions(Vec<SessionSummary>),
    Session(Option<SessionSummary>),
    History(Vec<(RowId, Message)>),
    Hits(Vec<Hit>),
    Traces(Vec<Trace>),
    Counts(Vec<(String, u64)>),
    Asks(Vec<Pending>),
    Running(Vec<Running>),
    HomeStatus(Box<HomeStatus>),
    Routes(Vec<JsonText>),
    Backlog(Vec<Backlog>),
    Parked(Vec<Parked>),
    Violations(Vec<String>),
}

/// An input that is being answered, or is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub session: SessionId,
    pub seq: Seq,
    /// Where its answer goes.
    pub place: Destination,
    pub platform_id: Option<String>,
}

impl Running {
    /// Those of one session, in order.
    pub fn of(session: &Session) -> Vec<Self> {
        let Phase::Turn(turn) = &session.phase else { return Vec::new() };
        let inputs = turn.inputs.iter().chain(&session.waiting).filter(|_| session.is_running());
        let running = inputs.filter_map(|input| {
            Some(Self {
                session: session.id.clone(),
                seq: input.seq,
                place: input.reply_to.clone()?,
                platform_id: input.platform_id.clone(),
            })
        });
        running.collect()
    }
}

/// A memory provider, as the process that uses it knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembering {
    pub provider: String,
    /// How often in a row it could not be reached.
    pub failures: usize,
    /// What it offers to the model.
    pub tools: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Takes in new messages.
    pub ready: bool,
    pub draining: bool,
    /// Why nothing can be written at the moment.
    pub unwritable: Option<String>,
    pub model: String,
    /// Why the model did not answer when it was last asked. None: it did, or was never asked.
    pub model_trouble: Option<String>,
    pub active_sessions: usize,
    pub running_turns: usize,
    pub waiting_inputs: usize,
    pub undelivered: usize,
    /// Sessions that have ended and are being handed over.
    pub finalising: usize,
    /// Silenced by the operator until a person writes again.
    pub halted: bool,
    /// Transactions since the start, and the batches (one fsync each) they went in.
    pub commits: u64,
    pub batches: u64,
    /// What was put off (the search index, projections for Hermes) has been done.
    pub tended: bool,
    /// What the context engine says of itself.
    pub engine: Option<String>,
    /// The memory outside, if there is one.
    pub memory: Option<Remembering>,
    /// The platforms it is connected to, by name.
    pub platforms: Vec<(String, Health)>,
    /// How often the writer has come round, and whether it still lives.
    pub writer_rounds: u64,
    pub writer_gone: bool,
}
