//! Questions of tools: asked once, answered once, by a person or by time.
//!
//! A call asks either before it runs, and then waits across restarts; or while it runs (an elicitation), and then its answer
//! goes to the running call, one question after the other.

use super::{Act, Phase, Reply, Rules, SessionState};
use crate::input::{AGENT_PLATFORM, Destination, Input};
use crate::message::{Content, ToolResult};
use crate::port::{CallId, Outgoing};
use crate::time::Time;
use crate::tool::{Ask, Grant, Question, Verdict};
use crate::turn::{Slot, Turn};
use std::sync::Arc;
use std::time::Duration;

/// The name of the event that a question was answered with a no because no person was there.
pub const UNATTENDED: &str = "call_unattended";

/// Who can answer what a call asks, where the turn was asked for in no chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approver {
    /// The client that waits for the turn, or an owner at a terminal or a page.
    Present,
    /// The owner, in a private chat of another session: an approval is put there, under a code.
    OwnerChat(Destination),
    /// No person. The answer is no, at once.
    Absent,
}

/// For how long a question is held, and who can answer it.
pub(super) struct Asking {
    pub patience: Duration,
    pub approver: Approver,
}

impl SessionState {
    /// Holds the question, or answers it at once with a no where no person could.
    pub(super) fn ask(
        &mut self,
        index: usize,
        question: Question,
        asking: Asking,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        let Asking { patience, approver } = asking;
        let Phase::Turn(turn) = &mut self.phase else { return };
        let (id, step) = (turn.id, turn.step);
        // Another agent has no say: where one asked for the turn, the session asks its own people.
        let asker = turn.inputs.last().and_then(|input| input.reply_to.clone());
        let here = asker.filter(|place| place.platform != AGENT_PLATFORM).or_else(|| self.place.clone());
        let trace = turn.trace().onward();
        let number = question.number();
        let call = CallId { session: self.id.clone(), turn: id, step, index, question: number };
        // Only a yes or a no can be given under a code; an answer in words belongs to the chat that it is written in.
        let (unattended, put) = match (here, approver) {
            (Some(place), _) => (false, Some((place, question.in_words(), Outgoing::question_key(&call)))),
            (None, Approver::Present) => (false, None),
            (None, Approver::OwnerChat(place)) => match question.for_owner(&call, patience) {
                Some(text) => (false, Some((place, text, Outgoing::owner_question_key(&call)))),
                None => (true, None),
            },
            (None, Approver::Absent) => (true, None),
        };
        let slot = turn.group.as_mut().and_then(|group| group.slots.get_mut(index));
        // A call that a person has allowed is not asked about again: its grant would be gone with the question.
        if let (Some(Slot::Open(Some(_))), 1..) = (&slot, number) {
            let verdict = Verdict::Denied { reason: None };
            return acts.push(Act::Resume { turn: id, step, index, verdict });
        }
        let Some(slot @ Slot::Open(_)) = slot else {
            return; // an echo of a question that was answered
        };
        let ask = Ask { question, asked: now, until: now.plus(patience) };
        *slot = Slot::Asking(ask.clone());
        if unattended {
            let detail = format!("call {id}/{step}/{index}");
            acts.push(Act::Note { name: UNATTENDED, detail });
            return self.decide(index, Verdict::Unattended, now, rules, acts);
        }
        if let Some((destination, text, key)) = put {
            acts.push(Act::Deliver(Reply { key, destination, text, trace }));
        }
        acts.push(Act::Ask { turn: id, step, index, ask });
    }

    pub(super) fn decide(
        &mut self,
        index: usize,
        verdict: Verdict,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &mut turn.group else { return };
        let Some(Slot::Asking(ask)) = group.slots.get(index) else { return };
        if group.slots[index].is_eliciting() {
            group.slots[index] = Slot::Open(None);
            return acts.push(Act::Resume { turn: turn.id, step: turn.step, index, verdict });
        }
        let call = &group.answer.calls[index];
        let (call_id, name) = (call.id.clone(), Some(call.name.clone()));
        match (ask.question.clone(), verdict) {
            (Question::Approval { patterns, .. }, Verdict::Granted(grant)) => {
                // What nothing names can only be allowed this once.
                let grant = if patterns.is_empty() { Grant::Once } else { grant };
                // What is allowed for good stands in the user's list, where the tool writes it when it runs. If it counted
                // here as well, the tool would find nothing left to write down.
                if grant == Grant::Session {
                    let new = patterns.into_iter().filter(|pattern| !self.allowed.contains(pattern));
                    self.allowed.extend(new.collect::<Vec<_>>());
                }
                group.slots[index] = Slot::Open(Some(grant));
                acts.push(Act::Grant { turn: turn.id, step: turn.step, index, grant });
            }
            (question, verdict) => {
                let content = Content::text(question.answer(&verdict));
                let result = ToolResult { call_id, name, content };
                self.close_call(index, result, Vec::new(), now, rules, acts);
            }
        }
    }

    /// Answers the oldest question that can be answered so, or all. Returns how many there were.
    pub(super) fn decide_asked(
        &mut self,
        verdict: &Verdict,
        all: bool,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) -> usize {
        let asked = self.asked(|question| match question {
            Question::Approval { .. } => true,
            Question::Elicitation { .. } => matches!(verdict, Verdict::Denied { .. }),
            Question::Clarify { .. } => false,
        });
        let chosen = if all { asked.len() } else { asked.len().min(1) };
        for index in &asked[..chosen] {
            self.decide(*index, verdict.clone(), now, rules, acts);
        }
        chosen
    }

    pub(super) fn asked(&self, which: impl Fn(&Question) -> bool) -> Vec<usize> {
        let Phase::Turn(Turn { group: Some(group), .. }) = &self.phase else { return Vec::new() };
        let slots = group.slots.iter().enumerate();
        slots
            .filter_map(|(index, slot)| match slot {
                Slot::Asking(ask) if which(&ask.question) => Some(index),
                _ => None,
            })
            .collect()
    }

    /// The question that a message answers: one was asked in the place it comes from.
    pub(super) fn clarified(&self, input: &Input) -> Option<usize> {
        let Phase::Turn(turn) = &self.phase else { return None };
        let same_place = match (turn.inputs.last().map(|input| &input.reply_to), &input.reply_to) {
            (Some(Some(here)), Some(there)) => here.is_same_place(there),
            (Some(None), None) => true,
            _ => false,
        };
        // What a server wants to know is asked of the person whose message its call follows from, also in a group.
        let same_person = turn.inputs.last().is_some_and(|last| {
            last.sender.as_ref().map(|sender| &sender.id) == input.sender.as_ref().map(|sender| &sender.id)
        });
        let asked = self.asked(|question| match question {
            Question::Approval { .. } => false,
            Question::Clarify { .. } => true,
            Question::Elicitation { .. } => same_person,
        });
        asked.first().copied().filter(|_| same_place && input.trace.is_human())
    }

    /// The input is part of the running turn, and settled with it.
    pub(super) fn take_in(&mut self, input: &Arc<Input>, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        acts.push(Act::Begin { turn: turn.id, inputs: vec![input.seq] });
        turn.inputs.push(input.clone());
    }
}
