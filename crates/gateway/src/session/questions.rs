//! Questions of tools, as far as the owner of a session knows who can answer them now.

use super::Actor;
use crate::owner;
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::port::{CallId, Pending, Refusal, StoreError};
use throughline_core::session::{Act, Approver, Event, Phase, Session};
use throughline_core::tool::{Ask, Question, Verdict};
use throughline_core::turn::{Slot, Turn};
use throughline_core::{Seq, TurnId};
use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct Questions {
    /// Inputs whose senders cannot answer what a tool asks.
    unattended: BTreeSet<Seq>,
    /// Calls that run and wait for the answer to a question.
    eliciting: BTreeMap<CallId, oneshot::Sender<Verdict>>,
}

impl Questions {
    pub fn cannot_answer(&mut self, seq: Seq) {
        self.unattended.insert(seq);
    }

    pub fn settled(&mut self, seq: Seq) {
        self.unattended.remove(&seq);
    }

    /// No one who asked for the running turn can answer what its tools ask.
    pub fn is_unattended(&self, state: &Session) -> bool {
        matches!(&state.phase, Phase::Turn(turn)
            if turn.inputs.iter().all(|input| self.unattended.contains(&input.seq)))
    }

    pub fn elicits(&mut self, call: CallId, answer: oneshot::Sender<Verdict>) {
        self.eliciting.insert(call, answer);
    }

    /// A call that runs gets its answer.
    pub fn answer(&mut self, turn: TurnId, step: u32, index: usize, verdict: &Verdict) {
        let waits = |call: &CallId| (call.turn, call.step, call.index) == (turn, step, index);
        for (_, answer) in self.eliciting.extract_if(.., |call, _| waits(call)) {
            let _ = answer.send(verdict.clone()); // its call may be over by now
        }
    }

    /// A call that waits for the answer to a question that is not asked any more hears that by the end of the channel.
    pub fn end_unasked(&mut self, state: &Session) {
        self.eliciting.retain(|call, _| question(state, call).is_some());
    }
}

/// What a call asks now.
fn question<'a>(state: &'a Session, call: &CallId) -> Option<&'a Question> {
    match &state.phase {
        Phase::Turn(Turn { id, step, group: Some(group), .. }) if (*id, *step) == (call.turn, call.step) => {
            match group.slots.get(call.index) {
                Some(Slot::Asking(ask)) if ask.question.number() == call.question => Some(&ask.question),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Why a verdict does not answer what a call asks.
fn refusal(state: &Session, call: &CallId, verdict: &Verdict) -> Option<String> {
    match (question(state, call), verdict) {
        (None, _) => {
            Some(format!("nothing is asked by {call} any more: it was answered, stopped or timed out"))
        }
        (Some(Question::Approval { .. }), Verdict::Said(_)) => {
            Some(format!("{call} asks for a decision: approve or deny"))
        }
        (Some(Question::Clarify { .. } | Question::Elicitation { .. }), Verdict::Granted(_)) => {
            Some(format!("{call} asks for an answer in words"))
        }
        _ => None,
    }
}

impl Actor {
    /// A question is held only where a person can answer it.
    pub(super) async fn known_who_answers(&self, event: Event) -> Event {
        let Event::Asked { turn, step, index, question, patience, .. } = event else { return event };
        let approver = match !self.questions.is_unattended(&self.state) || self.home.has_owner() {
            true => Approver::Present,
            false => owner::chat(&self.home).await.map_or(Approver::Absent, Approver::OwnerChat),
        };
        Event::Asked { turn, step, index, question, patience, approver }
    }

    pub(super) async fn decide(
        &mut self,
        call: CallId,
        verdict: Verdict,
        answer: oneshot::Sender<Result<(), Refusal>>,
    ) -> Result<(), StoreError> {
        if let Some(why) = refusal(&self.state, &call, &verdict) {
            let _ = answer.send(Err(Refusal::Unknown(why)));
            return Ok(());
        }
        let CallId { turn, step, index, .. } = call;
        self.persist(Event::Decided { turn, step, index, verdict }).await?;
        let _ = answer.send(Ok(()));
        Ok(())
    }

    /// A client that comes back after a restart sees what is still asked.
    pub(super) fn show_questions(&self) {
        let Phase::Turn(turn) = &self.state.phase else { return };
        let Some(group) = &turn.group else { return };
        let inputs = turn.inputs.iter().map(|input| input.seq).collect();
        self.feed.asking(turn.id, turn.step, inputs);
        for (index, slot) in group.slots.iter().enumerate() {
            if let Slot::Asking(ask) = slot {
                self.tell_asked(turn.id, turn.step, index, ask.clone());
            }
        }
    }

    pub(super) fn tell_asked(&self, turn: TurnId, step: u32, index: usize, ask: Ask) {
        if let Some(pending) = self.pending(&Act::Ask { turn, step, index, ask }) {
            self.feed.asked(pending);
        }
    }

    /// The question that an act puts.
    pub(super) fn pending(&self, act: &Act) -> Option<Pending> {
        let Act::Ask { turn, step, index, ask } = act else { return None };
        let Phase::Turn(Turn { group: Some(group), .. }) = &self.state.phase else { return None };
        let tool = group.answer.calls.get(*index).map(|call| call.name.clone()).unwrap_or_default();
        let question = ask.question.number();
        let call = CallId { session: self.id.clone(), turn: *turn, step: *step, index: *index, question };
        Some(Pending { call, tool, ask: ask.clone() })
    }
}
