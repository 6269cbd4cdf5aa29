//! What stops a runaway: a turn that never ends, a call that never gets anywhere.
//!
//! A turn has a budget of steps and tokens. When it is used up the model is told so in place of a
//! result, and may answer once more. What agents say to each other has a budget, too: see [`crate::chain`].

use crate::chain;
use crate::message::{Content, ToolCall};
use crate::prompt::Digest;
use crate::turn::{Group, Slot};

/// Result of a call that a turn had no budget for.
pub const NOT_RUN_BUDGET: &str = "[not run: this turn has used up its budget of steps or tokens. Nothing more will be run in it; answer now with what you have, and say what is left to do.]";

/// Result of a call that has been made too often.
pub const NOT_RUN_REPEATED: &str = "[not run: this exact call has given this exact result several times in a row. Try something else, or answer with what you have.]";

/// Joined to a result that says nothing new.
pub const REPEATED: &str =
    "[the same call gave the same result before. Repeating it will not help; try something else.]";

/// The same step with the same results: from here on the model is told.
const REPEATS_TOLD: u32 = 3;
/// And from here on it is not run.
const REPEATS_MAX: u32 = 5;

/// How far things may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers of the model in one turn.
    pub steps_max: u32,
    /// Tokens that one turn may cost. None: no limit.
    pub turn_tokens_max: Option<u64>,
    /// What may follow from one human message among agents.
    pub chain: chain::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps_max: 90, turn_tokens_max: None, chain: chain::Limits::default() }
    }
}

/// The last step with calls: what was called, what came back, and how often in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    pub calls: Digest,
    pub results: Digest,
    pub times: u32,
}

impl Repeated {
    /// What a group that just closed means for the count.
    pub fn after(last: Option<Repeated>, group: &Group) -> Repeated {
        let (calls, results) = (calls_digest(&group.answer.calls), results_digest(group));
        match last {
            Some(last) if last.calls == calls && last.results == results => {
                Repeated { times: last.times + 1, ..last }
            }
            _ => Repeated { calls, results, times: 1 },
        }
    }

    pub fn is_worth_a_word(&self) -> bool {
        self.times >= REPEATS_TOLD
    }

    pub fn forbids(&self, calls: &[ToolCall]) -> bool {
        self.times >= REPEATS_MAX && self.calls == calls_digest(calls)
    }

    /// It has been told so once, and called all the same.
    pub fn was_forbidden(&self) -> bool {
        self.times > REPEATS_MAX
    }
}

fn calls_digest(calls: &[ToolCall]) -> Digest {
    let fields: Vec<&[u8]> =
        calls.iter().flat_map(|call| [call.name.as_bytes(), call.arguments.as_bytes()]).collect();
    Digest::of(&fields)
}

fn results_digest(group: &Group) -> Digest {
    let texts: Vec<String> = group
        .slots
        .iter()
        .map(|slot| match slot {
            Slot::Done(result) => match &result.content {
                Content::Opaque(json) => json.as_str().to_owned(),
                content => content.plain(),
            },
            Slot::Open(_) | Slot::Asking(_) | Slot::Client => String::new(),
        })
        .collect();
    let fields: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    Digest::of(&fields)
}
