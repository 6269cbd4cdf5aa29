//! What a user chose about behaviour that the machine decides.

use super::review;
use crate::guard::Limits;
use crate::lifecycle::BACKLOG_AFTER;
use crate::time::Time;
use std::sync::Arc;

/// What the user chose about behaviour that the machine decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub busy: BusyInput,
    /// A request that would weigh as much waits for a compression. None: there is none to wait for.
    pub hard_tokens: Option<u64>,
    pub limits: Limits,
    /// What this agent is called among those of its process.
    pub agent: Arc<str>,
    /// The path of its home: what it is known by among all agents of the machine.
    pub home: Arc<str>,
    /// When this home was first taken over: what was written long before is held. None: nothing is.
    pub baseline: Option<Time>,
    /// A memory provider keeps what is said.
    pub remembers: bool,
    /// One is asked before each turn.
    pub recalls: bool,
    /// There is none: a conversation that begins is reminded of earlier ones.
    pub recollects: bool,
    /// When the agent reviews a conversation.
    pub review: review::Intervals,
}

impl Rules {
    /// When this home was first taken over. A time that is still to come is none: the clock was ahead then, or is behind
    /// now, and no message is to be held until it gets there.
    pub fn baseline_at(&self, now: Time) -> Option<Time> {
        self.baseline.filter(|baseline| *baseline <= now.plus(BACKLOG_AFTER))
    }
}

/// What becomes of a chat message that arrives during a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyInput {
    /// It waits for the next turn.
    #[default]
    Queue,
    /// The model is asked again at once, with it.
    Interrupt,
    /// It joins after the next step.
    Steer,
}
