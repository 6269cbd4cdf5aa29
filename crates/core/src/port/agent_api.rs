//! The one way into an agent, for every surface: chat platforms, the API, the terminal.

use super::{
    Backlog, CutChain, Delta, Health, Hit, Parked, Pending, Post, Promise, SessionFilter, SessionSummary,
    Settled, StoreError, Trace,
};
use crate::call::CallId;
use crate::home_status::HomeStatus;
use crate::id::{RowId, Seq, SessionId};
use crate::input::{Birth, DedupeKey, Destination, Kind, Sender};
use crate::message::{JsonText, Message};
use crate::route::Target;
use crate::session::{Phase, Preferences, Session};
use crate::time::Time;
use crate::tool::Verdict;
use std::sync::Arc;
use std::time::Duration;

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
    /// Its sender can answer what a tool asks meanwhile. Not kept: after a crash a question is held.
    pub can_answer: bool,
    /// Part of something longer, the rest of which comes within this time: its turn waits so long before it asks,
    /// and takes in what comes meanwhile. Not kept: after a crash the turn does not wait, and nothing is missing.
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
    /// A tool would have had to ask, and no person was there: the answer was no.
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
    /// The client that waited for the answer to this input has gone, and wants the turn to end.
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
    /// over, or readers would not see that it is the same reply. Returns when it is on disk.
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
    /// Unknown: its reply says that something of it may have been seen.
    Lost,
    /// It is not there, or stays as it is.
    Left,
}

/// As long as one holder has it, no other acts. Given back when it is dropped.
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
