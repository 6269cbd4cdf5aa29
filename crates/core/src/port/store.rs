//! Where sessions outlive the process: what one transaction writes, and what the owner of a session reads back.
//!
//! A store implements [`Store`], [`SessionRead`] and [`WorkRead`] to keep a gateway alive; [`BrowseRead`] is what people
//! look through. Nothing here names a database.

use super::{BrowseRead, Snapshot, SnapshotSummary, WorkRead};
use crate::compression::{Operation, Promoted};
use crate::id::{Boot, Generation, RowId, Seq, SessionId, TurnId};
use crate::input::{ClientTools, DedupeKey, Destination, Input};
use crate::lifecycle::Reason;
use crate::memory;
use crate::memory::RetentionChange;
use crate::message::Message;
use crate::prompt::{Digest, Mark};
use crate::route::Match;
use crate::session::{Act, Outcome, Session};
use crate::time::Time;
use crate::turn::Answer;
use std::error::Error;
use std::sync::Arc;

/// What one transaction writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Commit {
    /// A session's next state and what follows from it, if `expect` is still its generation
    /// (0: the session is not there yet, or no owner of ours has had it).
    Session { expect: Generation, state: Box<Session>, acts: Vec<Act>, at: Time },
    /// What became of a reply on its way out.
    Delivery { key: String, boot: Boot, change: DeliveryChange, at: Time },
    /// What became of a turn on its way to the memory provider.
    Retention { key: String, change: RetentionChange, at: Time },
    /// The gateway stops: all that waits to be remembered with more of its kind is due.
    HandOver { at: Time },
    /// An answer reached its client in full: a later request with the same words is a new one.
    Written { session: SessionId, seq: Seq },
    /// What became of the preview of a reply.
    Draft { key: String, change: DraftChange, at: Time },
    /// The operator silences the home, or ends its silence. A start finds which was last.
    Silence { ordered: bool },
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
    /// With its cause, for its last reader.
    pub fn in_full(&self) -> String {
        match self {
            StoreError::Broken { source, .. } => format!("{self} ({source})"),
            other => other.to_string(),
        }
    }
}

/// Where sessions outlive the process. Synchronous: one owner holds the writer.
pub trait Store: Send {
    /// On disk when this returns. Each commit holds whole or not at all, and alone: one that is
    /// refused (an old generation, a key already seen) leaves its neighbours standing.
    fn commit(&mut self, batch: &[Commit]) -> Vec<Result<Committed, StoreError>>;

    /// The number of this start: higher than any before it, and durable.
    fn boot(&mut self, now: Time) -> Result<Boot, StoreError>;

    /// A slice of what may be done later: the search index, projections for Hermes, what another
    /// process wrote. Called when the writer is idle.
    fn tend(&mut self, now: Time) -> Result<Tended, StoreError>;

    /// The store has had nothing to do for a while: it may give back what only makes work faster.
    fn rest(&mut self) {}

    /// Everything that `tend` would do in time, now.
    fn close(&mut self, now: Time) -> Result<(), StoreError> {
        self.close_while(now, &mut || true).map(drop)
    }

    /// The same, but what has yet to enter the search index is left to the next start as soon as `go_on` says no. It is
    /// asked now and then.
    fn close_while(&mut self, now: Time, go_on: &mut dyn FnMut() -> bool) -> Result<Closed, StoreError>;

    /// What has been written, as the writer itself sees it.
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

/// All that can be asked of a store. A reader sees every commit that was acknowledged before it asked.
pub trait Read: SessionRead + WorkRead + BrowseRead {}

impl<T: SessionRead + WorkRead + BrowseRead> Read for T {}

/// What the owner of a session has to know to live.
pub trait SessionRead: Send {
    /// Where the session stands; None if it does not exist. A session that only Hermes knows is
    /// loaded as one that has received nothing from us.
    fn load(&self, id: &SessionId) -> Result<Option<Loaded>, StoreError>;
    /// The live transcript, in order.
    fn history(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError>;
    /// One input as it came in, with all its texts; None if the session has none of that number.
    fn input(&self, session: &SessionId, seq: Seq) -> Result<Option<Arc<Input>>, StoreError>;
    /// What became of an input; None while it waits or runs.
    fn outcome(&self, session: &SessionId, seq: Seq) -> Result<Option<Settled>, StoreError>;
    /// One input as it came in, and the others of its turn: what `Event::Retried` needs.
    fn turn_inputs(&self, session: &SessionId, turn: TurnId) -> Result<Vec<Arc<Input>>, StoreError>;
    fn route(&self, chat: &crate::id::ChatKey) -> Result<Option<SessionId>, StoreError>;
    /// How the last conversation of a chat ended by itself, as long as none has begun there since.
    fn reset(&self, chat: &crate::id::ChatKey) -> Result<Option<Reset>, StoreError>;
    fn seen(&self, key: &DedupeKey) -> Result<Option<Seen>, StoreError>;
    /// The newest request that carried this implicit key.
    fn implicit(&self, key: &Digest) -> Result<Option<Implicit>, StoreError>;
    /// The turns after which this client's view of a conversation ended.
    fn thread(&self, principal: &str, end: &Digest) -> Result<Vec<Match>, StoreError>;
    /// Where a session is at home, as it is now, and what this provider calls it. The agent is the caller's to
    /// fill in.
    fn scope(&self, id: &SessionId, provider: &str) -> Result<memory::Scope, StoreError>;
    /// What a conversation to which this provider has given no name would be called, if one of its turns were kept
    /// now: never what is another conversation's own.
    fn name(&self, provider: &str, naming: &memory::Naming) -> Result<String, StoreError>;
    /// Whether the rows that an operation stands for are still those it was begun with: none of them
    /// was compressed, taken back or deleted.
    fn intact(&self, id: &SessionId, operation: &Operation) -> Result<bool, StoreError>;
    /// What an operation did, once it is in place.
    fn promoted(&self, id: &SessionId, operation: u64) -> Result<Option<Promoted>, StoreError>;
    /// One of them by its name, with what stood there.
    fn snapshot(&self, name: &str) -> Result<Option<Snapshot>, StoreError>;
    /// What compressions and restores have left behind in a session, oldest first.
    fn snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotSummary>, StoreError>;
    /// What the snapshots keep that were made after this one.
    fn kept_since(&self, id: &SessionId, name: &str) -> Result<Vec<(RowId, Message)>, StoreError> {
        let mut rows = Vec::new();
        for later in self.snapshots(id)?.into_iter().filter(|it| it.name.as_str() > name) {
            rows.extend(self.snapshot(&later.name)?.map(|it| it.rows).unwrap_or_default());
        }
        Ok(rows)
    }
    /// What a review that is due is about. None: it is over, or there is none of that number.
    fn review(&self, id: &SessionId, number: u64) -> Result<Option<ReviewView>, StoreError>;
    /// Which rows of a transcript are what.
    fn spoken(&self, id: &SessionId) -> Result<Spoken, StoreError>;
    /// A title as it would be stored for this session.
    fn titling(&self, id: &SessionId, title: &str) -> Result<Titling, StoreError>;
    /// The next free title of the lineage of this one.
    fn next_title(&self, title: &str) -> Result<String, StoreError>;
    /// The session that goes on where this one was: itself, or what another program's compressions made
    /// of it. None: there is no such session.
    fn resumable(&self, id: &SessionId) -> Result<Option<Resumable>, StoreError>;
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

/// Rows of a transcript of which more is known than they say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    /// What inputs of ours became, and the turn that each was part of.
    pub turns: Vec<(RowId, TurnId)>,
    /// What stands for something else.
    pub summaries: Vec<RowId>,
}

/// What becomes of a title that a user wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Titling {
    /// Cleaned, and no other session has it.
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
    /// It works for another session: no person writes to it.
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

/// How the last conversation of a chat ended by itself, if none has begun there since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    pub session: SessionId,
    pub reason: Reason,
    pub at: Time,
    pub had_activity: bool,
}
