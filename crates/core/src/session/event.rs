//! What happens to a session: messages, results of jobs, orders of the operator.

use super::ask::Approver;
use super::compress::{Finding, NoSummary, SurveyOrder};
use super::lifecycle::{Handing, Noticed};
use super::prepare::{FrozenPrompt, Recall};
use super::{Finalisation, review};
use crate::chain::{Cut, Shared};
use crate::command::Found;
use crate::compression::{Promoted, Replacement};
use crate::id::{RowId, Seq, TurnId};
use crate::input::Input;
use crate::lifecycle::Reason;
use crate::message::ToolResult;
use crate::prompt::Mark;
use crate::time::Time;
use crate::tool::{Letter, Question, Verdict};
use crate::turn::Answer;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An actor took the session up after a start: what was running is not any more. Calls of
    /// the open group that may simply be run again are named.
    Loaded {
        repeatable: Vec<usize>,
    },
    /// Its `seq` is the one after `received`.
    Received(Arc<Input>),
    /// The same, and the rest of what it is a part of comes within this time: its turn waits so long before it asks, and
    /// takes in what comes meanwhile.
    ReceivedPart {
        input: Arc<Input>,
        more: Duration,
    },
    /// What the store has of the system prompt, and what the context weighs with the rows that others added.
    Stored {
        prompt: Option<FrozenPrompt>,
        context: u64,
    },
    /// The time for more of a message is over.
    Gathered {
        turn: TurnId,
        step: u32,
        until: Time,
    },
    /// The agent's part of the system prompt.
    Prompted {
        turn: TurnId,
        step: u32,
        persona: String,
    },
    /// What came of asking the memory.
    Recalled {
        turn: TurnId,
        step: u32,
        recall: Recall,
    },
    Answered {
        turn: TurnId,
        step: u32,
        answer: Answer,
        prompt: Mark,
        /// The context engine finds that it is time to compress.
        full: bool,
    },
    Called {
        turn: TurnId,
        step: u32,
        index: usize,
        result: ToolResult,
        sends: Vec<Letter>,
    },
    /// A call cannot go on without a person.
    Asked {
        turn: TurnId,
        step: u32,
        index: usize,
        question: Question,
        patience: Duration,
        approver: Approver,
    },
    /// A person answered, or none did in time.
    Decided {
        turn: TurnId,
        step: u32,
        index: usize,
        verdict: Verdict,
    },
    /// What the ledger says to a bot's message that would begin a turn.
    Shared {
        seq: Seq,
        shared: Shared,
    },
    /// A turn that a bot's message began may not ask the model again.
    Spent {
        turn: TurnId,
        step: u32,
        cut: Cut,
    },
    /// The client that waited for the answer to this input has gone, and wants its turn to end.
    Abandoned {
        seq: Seq,
    },
    /// The operator silences every session.
    Halted,
    /// And lets them go on.
    Released,
    Failed {
        turn: TurnId,
        step: u32,
        failure: Failure,
    },
    /// A client asks again for a turn that failed.
    Retried {
        inputs: Vec<Arc<Input>>,
        began: Time,
    },
    Finalised(Finalisation),
    /// What became of a step of the hand-over.
    Handing(Handing),
    /// Its policy says that it is over. Nothing happens if something has happened meanwhile.
    Expired {
        reason: Reason,
        noticed: Noticed,
    },
    /// A person takes it up again after it had ended.
    Reopened,
    /// The shell has looked at the rows.
    Surveyed {
        asked: SurveyOrder,
        found: Finding,
    },
    /// What came of an operation, and what can be had without a model.
    Summarised {
        operation: u64,
        summary: Result<Arc<Replacement>, NoSummary>,
        digest: Option<Arc<Replacement>>,
    },
    /// What the store has counted, for those who ordered it.
    Reported {
        operation: u64,
        promoted: Promoted,
    },
    /// Rows from this one on are not what they were.
    Rewritten {
        from: RowId,
    },
    /// A snapshot is to be the view again; the context weighs so much then.
    Restored {
        snapshot: String,
        context: u64,
    },
    /// What came of a deferred command.
    Ordered {
        seq: Seq,
        found: Found,
    },
    /// What came of a review; the error says why nothing did.
    Reviewed {
        number: u64,
        result: Result<review::Report, String>,
    },
}

/// Why a turn ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// A sentence for the user, free of secrets.
    pub message: String,
}

/// By what the one who asked can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Try again later, after this many seconds if the provider said so.
    Wait { after_seconds: Option<u32> },
    /// There was no connection to the model's server, so it was not asked. Start the server, or correct its address.
    Unreachable,
    /// The conversation is too long for the model.
    TooLong,
    /// The key or the account must be put right first.
    Credentials,
    /// The request itself was refused.
    Refused,
    /// The model answered rubbish or broke off.
    Broken,
    /// Parked: its tools ended the process too often.
    Parked,
    /// It used up its budget of steps or tokens.
    Exhausted,
    /// A person ended it.
    Stopped,
}
