//! What of a conversation is handed to a memory provider, and when.
//!
//! A turn that was answered is kept with the commit of its answer. Whether enough of them lie there to
//! be handed over is counted in the store; here is decided what makes them go at once: all that ends,
//! leaves or rewrites the conversation. A turn for another session, or beside a
//! conversation, is not remembered, and of a skill that is used by its name only what a person wrote behind it.

use super::{Act, Rules, SessionState};
use crate::command::{Command, DeferredCommand, skill};
use crate::id::TurnId;
use crate::input::{Input, Kind};
use crate::memory::{Filing, unfenced};
use crate::turn::Turn;

/// A turn that is to be remembered. The shell adds to whom it goes before it is committed, and what was said
/// where that is only in the transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub turn: TurnId,
    pub said: Vec<String>,
    pub replied: String,
    pub filing: Option<Filing>,
}

impl SessionState {
    pub(super) fn keep(&self, turn: &Turn, reply: &str, rules: &Rules, acts: &mut Vec<Act>) {
        if !rules.remembers || turn.is_aside() {
            return;
        }
        let said = turn.inputs.iter().filter_map(|input| words(input));
        let said = said.map(|text| unfenced(skill::written(&text)));
        let said: Vec<String> = said.filter(|text| !text.is_empty()).collect();
        let replied = unfenced(reply);
        // What is asked again was said before: the shell has the rows, and adds it.
        let again = turn
            .inputs
            .iter()
            .any(|input| matches!(input.kind, Kind::Command(Command::Deferred(DeferredCommand::Retry))));
        if (!said.is_empty() || again) && !replied.is_empty() {
            acts.push(Act::Retain(Box::new(Kept { turn: turn.id, said, replied, filing: None })));
        }
    }

    /// What is kept so far goes out, under the names it was kept with. A compression is no switch, but
    /// what it summarises is handed over before it is forgotten.
    pub(super) fn hand_over_kept(&self, rules: &Rules, acts: &mut Vec<Act>) {
        let goes = |act: &Act| {
            matches!(
                act,
                Act::Close { .. }
                    | Act::Switch { .. }
                    | Act::Expire { .. }
                    | Act::Rewind { .. }
                    | Act::Restore { .. }
                    | Act::Promote { .. }
            )
        };
        if rules.remembers && acts.iter().any(goes) {
            acts.push(Act::HandOver);
        }
    }
}

fn words(input: &Input) -> Option<String> {
    match &input.kind {
        Kind::Chat(content) => Some(content.plain()),
        Kind::Request(request) => Some(request.content.plain()),
        Kind::Command(command) => command.words().map(str::to_owned),
    }
}
