//! What a transaction writes beside the next state of a session. Only this crate makes acts.

use super::compress::End;
use super::event::Failure;
use super::lifecycle::Run;
use super::past::Switch;
use super::retain::Kept;
use super::review;
use crate::compression::{Operation, Replacement};
use crate::id::{RowId, Seq, SessionId, TurnId};
use crate::input::{Birth, DedupeKey, Destination, Input, Trace};
use crate::lifecycle::Reason;
use crate::message::{Message, ToolResult};
use crate::prompt::Digest;
use crate::tool::{Ask, Grant, Verdict};
use crate::turn::Step;
use std::sync::Arc;

/// What the transaction writes beside the new state.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The session itself, with what its first input brought along.
    Open(Box<Birth>),
    /// The input, and its key, for ever. Refused as a whole if the key is known.
    Accept(Arc<Input>),
    /// The turn took up these inputs; for the first time, or again after it failed.
    Begin {
        turn: TurnId,
        inputs: Vec<Seq>,
    },
    /// The next row of the transcript.
    Append(Message),
    /// The next row is what this input says, and its texts are on disk only. Before the commit the shell reads
    /// them, and makes this an `Append`: see [`super::Proposal`]. No store takes it as it is.
    Say(Arc<Input>),
    Step(Box<Step>),
    Result {
        turn: TurnId,
        step: u32,
        index: usize,
        result: ToolResult,
    },
    /// A call waits for a person.
    Ask {
        turn: TurnId,
        step: u32,
        index: usize,
        ask: Ask,
    },
    /// A question of a call that runs is over: the call goes on, with this answer. Only how it was answered is written down.
    Resume {
        turn: TurnId,
        step: u32,
        index: usize,
        verdict: Verdict,
    },
    /// A call is the client's to run.
    Leave {
        turn: TurnId,
        step: u32,
        index: usize,
    },
    /// A session that nothing led to is addressed by its name, or by a person: others may be reminded of it from now on.
    Named,
    /// A person said yes: the call may run.
    Grant {
        turn: TurnId,
        step: u32,
        index: usize,
        grant: Grant,
    },
    Settle {
        seq: Seq,
        outcome: Outcome,
    },
    /// The client's view of the conversation now ends here.
    Tip {
        turn: TurnId,
        thread: Digest,
    },
    Deliver(Reply),
    /// The system prompt, frozen with the session until a client brings another layer of it.
    Freeze {
        prompt: Arc<str>,
        layer: Option<Digest>,
    },
    Close {
        reason: &'static str,
        successor: SessionId,
        moved: Vec<Arc<Input>>,
    },
    /// The session has ended by itself: its chats lead nowhere until people write in them.
    Expire {
        reason: Reason,
        end_reason: &'static str,
        /// Something had been said in it.
        had_activity: bool,
    },
    /// It goes on after it had ended.
    Reopen,
    /// A hook of its hand-over was begun, or has ended.
    Hook {
        hook: String,
        run: Run,
    },
    /// An operation begins, goes on, or is ready.
    Compress(Box<Operation>),
    /// It takes effect: what it replaces is kept under the snapshot's name.
    Promote {
        operation: Box<Operation>,
        replacement: Arc<Replacement>,
        snapshot: String,
    },
    /// It ends without a change.
    Abandon {
        number: u64,
        end: End,
        reason: String,
    },
    /// The rows of a snapshot are live again, with all that was said since; the summaries that stood
    /// for them are not. The view as it was is kept under another name.
    Restore {
        snapshot: String,
        kept_as: String,
    },
    /// So many live rows, from this one on to the end, are taken back. They are kept under the snapshot's name.
    Rewind {
        from: RowId,
        rows: usize,
        kept_as: String,
    },
    /// What a session is called from here on: this one, or the one that follows it.
    Title {
        session: SessionId,
        title: String,
    },
    /// This session ends, and its chats lead to another one that is there already, or a copy of this one.
    Switch {
        to: SessionId,
        how: Switch,
        moved: Vec<Arc<Input>>,
    },
    /// A turn is to be remembered.
    Retain(Box<Kept>),
    /// What is kept of the session goes to its provider now, and not when there is more of it.
    HandOver,
    /// What was recalled stands with this row wherever it is sent, and nowhere else.
    Recall {
        row: RowId,
        sent_as: String,
    },
    /// A review has fallen due, of the view as it is now; or what is known of one that has.
    Review(Box<review::Review>),
    /// It is over.
    Reviewed {
        number: u64,
        outcome: review::Outcome,
    },
    /// The process starts again after this commit: this message ordered it.
    Restart {
        order: DedupeKey,
    },
    /// Something worth counting happened: a drop, an echo, a degradation, a cache break.
    Note {
        name: &'static str,
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Answered by this turn, whose last step is in the transcript.
    Answered(TurnId),
    Failed(TurnId, Failure),
    /// A command was carried out, and this is what it said.
    Done {
        said: String,
        successor: Option<SessionId>,
    },
    /// It waited in a session that ended, and now waits in the next.
    Moved {
        session: SessionId,
        seq: Seq,
    },
}

/// A text for a place, under a key that stays the same however often it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub key: String,
    pub destination: Destination,
    pub text: String,
    /// What it follows from: an agent that gets it carries it on.
    pub trace: Trace,
}
