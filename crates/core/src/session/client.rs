//! Calls that a client runs: tools of its own, beside those of the agent.
//!
//! - the agent's own calls of a step run first; then the turn is over, answered with the calls that are left
//! - the session is at rest meanwhile, and the step stays open: nothing of it is in the transcript
//! - a request that brings a result for each of them begins the turn that goes on from there
//! - all else that is said, or ends the conversation, closes the group first: those calls were not run
//! - so each call gets one result, and no group is open in the transcript

use super::{Act, Outcome, Phase, SessionState};
use crate::command::Command;
use crate::history::LEFT_BEHIND;
use crate::input::{Input, Kind};
use crate::message::{Content, ToolResult};
use crate::route;
use crate::time::Time;
use crate::turn::{ClientCalls, Slot};

impl SessionState {
    /// Ends the turn with the calls that its client is to run, if nothing else is left of its step.
    pub(super) fn leave_to_client(&mut self, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = turn.group.take_if(|group| group.waits_for_client()) else { return };
        let turn = turn.clone();
        self.phase = Phase::Idle;
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Answered(turn.id), acts);
        }
        if let Some(Kind::Request(request)) = turn.inputs.last().map(|input| &input.kind)
            && let Some(thread) = request.thread
        {
            let seen = |content: &Content| {
                let said = route::resume(thread, "assistant", content);
                let thread = route::with_calls(said, group.left_to_client().map(|(_, call)| call)).digest();
                Act::Tip { turn: turn.id, thread }
            };
            acts.push(seen(&group.answer.content));
            if turn.said != group.answer.content.plain() {
                acts.push(seen(&Content::text(&turn.said))); // as a client knows it that read along
            }
        }
        self.client_calls = Some(ClientCalls { turn: turn.id, step: turn.step, group });
    }

    /// Closes the group with what the client brought. Without all of it the calls were not run.
    pub(super) fn close_client_calls(&mut self, results: &[ToolResult], now: Time, acts: &mut Vec<Act>) {
        let Some(mut calls) = self.client_calls.take() else { return };
        let brought = calls.take(results).is_ok();
        let group = &mut calls.group;
        let open: Vec<usize> = group.left_to_client().map(|(index, _)| index).collect();
        for index in open {
            let call = &group.answer.calls[index];
            let found = results.iter().find(|result| brought && result.call_id == call.id);
            let content = found.map_or_else(|| Content::text(LEFT_BEHIND), |result| result.content.clone());
            let result = ToolResult { call_id: call.id.clone(), name: Some(call.name.clone()), content };
            group.slots[index] = Slot::Done(result.clone());
            acts.push(Act::Result { turn: calls.turn, step: calls.step, index, result });
        }
        if !brought {
            let detail = format!("turn {}, step {}", calls.turn, calls.step);
            acts.push(Act::Note { name: "client_calls_not_run", detail });
        }
        acts.extend(calls.group.into_rows(now).into_iter().map(Act::Append));
    }

    /// What was just received may be all that the client says instead of bringing results.
    pub(super) fn hear_of_client_calls(&mut self, input: &Input, now: Time, acts: &mut Vec<Act>) {
        let Some(calls) = &self.client_calls else { return };
        let passes = matches!(&input.kind, Kind::Command(command)
            if command.passes_the_queue() || command.is_beside() || matches!(command, Command::Compress { .. }));
        let brings = |input: &Input| calls.take(results_of(input)).is_ok();
        if !passes && !brings(input) && !self.waiting.iter().any(|waiting| brings(waiting)) {
            self.close_client_calls(&[], now, acts);
        }
    }

    /// A conversation is stateless until an input names it.
    pub(super) fn name(&mut self, input: &Input, acts: &mut Vec<Act>) {
        let named = match &input.kind {
            Kind::Request(request) => !request.stateless,
            Kind::Chat(_) => true,
            Kind::Command(_) => return,
        };
        match named {
            false if input.seq.0 == 1 => self.stateless = true,
            true if self.stateless => {
                self.stateless = false;
                acts.push(Act::Named);
            }
            _ => {}
        }
    }
}

/// What this input brings of a client's tools.
pub(super) fn results_of(input: &Input) -> &[ToolResult] {
    match &input.kind {
        Kind::Request(request) => &request.results,
        Kind::Chat(_) | Kind::Command(_) => &[],
    }
}

#[cfg(test)]
pub(super) mod tests;
