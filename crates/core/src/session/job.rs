//! What a state implies should be running.

use crate::id::{Seq, TurnId};
use crate::time::Time;

/// What a state implies should be running. Derived, never stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Job {
    /// Ask the ledger whether this message of a bot may begin a turn.
    Share {
        seq: Seq,
    },
    /// Wait for the rest of a message.
    Gather {
        turn: TurnId,
        step: u32,
        until: Time,
    },
    /// Assemble the system prompt.
    Prompt {
        turn: TurnId,
        step: u32,
    },
    /// Ask the memory. It goes on for a while after its turn went on without an answer.
    Recall {
        turn: TurnId,
        step: u32,
    },
    Ask {
        turn: TurnId,
        step: u32,
    },
    Call {
        turn: TurnId,
        step: u32,
        index: usize,
    },
    /// Waits for a person, until it is too late.
    Await {
        turn: TurnId,
        step: u32,
        index: usize,
    },
    /// The step of a hand-over that is next: the stage, how many hooks are done, which try it is, and
    /// whether a hook has been begun.
    Finalise {
        stage: u8,
        done: usize,
        attempt: u32,
        running: bool,
    },
    /// Look whether there is something to compress, for whom and how badly it is wanted.
    Survey {
        order: Option<Seq>,
        force: bool,
    },
    Summarise {
        operation: u64,
    },
    /// Find out what a compression did, for those who ordered it.
    Report {
        operation: u64,
    },
    /// Look something up, or do something outside, for this order.
    Order {
        seq: Seq,
    },
    /// Look back at the conversation, as it was when that fell due.
    Review {
        number: u64,
        tries: u32,
    },
}
