//! What people order, and what stops a runaway: `/stop`, silence, budgets.

use super::{Act, Failure, FailureKind, Outcome, Phase, Reply, Rules, SessionState, say};
use crate::command::{self, Command};
use crate::guard::{NOT_RUN_BUDGET, NOT_RUN_REPEATED, Repeated};
use crate::history::{NOT_ASKED, STOPPED};
use crate::id::{Seq, TurnId};
use crate::input::{AGENT_PLATFORM, DedupeKey, Input, Kind, Trace};
use crate::time::Time;
use crate::tool::{Grant, Verdict};
use crate::turn::Slot;
use std::sync::Arc;

/// So many notices wait for an answer that can carry them. `status` has all of them.
const UNTOLD_MAX: usize = 4;
/// So many notices are remembered as given. Those that may come twice come close to each other.
const ANNOUNCED_MAX: usize = 16;

impl SessionState {
    /// Carries out an order that does not wait, and says what came of it.
    pub(super) fn obey(
        &mut self,
        command: &Command,
        input: &Input,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) -> String {
        match command {
            Command::Stop => self.stop(now, acts),
            Command::Approve { grant, all } => {
                let count = self.decide_asked(&Verdict::Granted(*grant), *all, now, rules, acts);
                decided(count, "Allowed", *grant)
            }
            Command::Deny { reason, all } => {
                let verdict = Verdict::Denied { reason: reason.clone() };
                let count = self.decide_asked(&verdict, *all, now, rules, acts);
                decided(count, "Refused", Grant::Once)
            }
            Command::Yolo => self.toggle_yolo(acts),
            Command::Verbose { level } => self.show_tools(*level),
            // A program brought it, and said where it goes: it is answered with itself.
            Command::Notice { text } if input.trace.is_human() && input.reply_to.is_some() => text.clone(),
            Command::Notice { text } => {
                self.notify(input.key.as_str(), text, acts);
                String::new()
            }
            _ => self.report(command, rules),
        }
    }

    /// Ends the turn, and only that: what waits stays. The session does not wait for a tool that hangs.
    pub(super) fn stop(&mut self, now: Time, acts: &mut Vec<Act>) -> String {
        let Phase::Turn(turn) = &self.phase else {
            return "Nothing is running.".into();
        };
        let was = format!("Stopped message {} at step {}.", turn.id, turn.steps());
        self.give_up(NOT_ASKED, |_, slot| matches!(slot, Slot::Asking(_)) && !slot.is_eliciting(), acts);
        self.give_up(STOPPED, |_, _| true, acts);
        self.close_group(now, acts);
        let Phase::Turn(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return was };
        let failure = Failure { kind: FailureKind::Stopped, message: "Stopped.".into() };
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Failed(turn.id, failure.clone()), acts);
        }
        acts.push(Act::Note { name: "turn_stopped", detail: format!("turn {}", turn.id) });
        match self.waiting.len() {
            0 => was,
            1 => format!("{was} The message that waits is next."),
            many => format!("{was} The {many} messages that wait are next."),
        }
    }

    /// Ends the turn of this input, if it has one to itself: others may wait for it, too. A request whose turn has not
    /// begun is withdrawn.
    pub(super) fn abandon_turn(&mut self, seq: Seq, now: Time, acts: &mut Vec<Act>) {
        let alone =
            matches!(&self.phase, Phase::Turn(turn) if turn.inputs.iter().all(|input| input.seq == seq));
        if alone {
            self.stop(now, acts);
            return;
        }
        let waits = |input: &Arc<Input>| input.seq == seq && matches!(input.kind, Kind::Request(_));
        if let Some(place) = self.waiting.iter().position(waits) {
            self.waiting.remove(place);
            let message = "Withdrawn: its client went away before its turn began.".into();
            let failure = Failure { kind: FailureKind::Stopped, message };
            self.settle_quietly(seq, Outcome::Failed(TurnId(seq), failure), acts);
            acts.push(Act::Note { name: "request_withdrawn", detail: format!("message {seq}") });
        }
    }

    pub(super) fn halt(&mut self, now: Time, acts: &mut Vec<Act>) {
        if matches!(self.phase, Phase::Turn(_)) {
            self.stop(now, acts);
        }
        self.halted = !matches!(self.phase, Phase::Closed(_));
    }

    /// Under which a notice for the people of a session comes in, whichever agent it is from: several
    /// may cut one chain, and people are told once.
    pub fn notice_key(key: &str) -> DedupeKey {
        DedupeKey::of(&[AGENT_PLATFORM, "notice", key])
    }

    /// Words for the people of this session rather than for the model. Those who have no chat read them with
    /// their next answer.
    pub(super) fn notify(&mut self, key: &str, text: &str, acts: &mut Vec<Act>) {
        if !self.is_first_announcement(key) {
            return;
        }
        acts.push(Act::Note { name: "notice", detail: text.to_owned() });
        match self.place.clone() {
            Some(destination) => {
                let key = format!("{}/{key}", self.id);
                let trace = Trace::default();
                acts.push(Act::Deliver(Reply { key, destination, text: text.to_owned(), trace }));
            }
            None if self.untold.len() < UNTOLD_MAX && !self.untold.iter().any(|told| told == text) => {
                self.untold.push(text.to_owned());
            }
            None => {}
        }
    }

    /// Whether this notice was not given here before. From now on it was.
    pub(super) fn is_first_announcement(&mut self, key: &str) -> bool {
        if self.announced.iter().any(|known| known == key) {
            return false;
        }
        if self.announced.len() == ANNOUNCED_MAX {
            self.announced.pop_front();
        }
        self.announced.push_back(key.to_owned());
        true
    }

    /// Calls that a turn has no budget for, or that lead nowhere, are not run. The model hears that, and
    /// may answer once more; one that still calls has had its chance.
    pub(super) fn consider_budget(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &turn.group else { return };
        let steps_max = turn.task().map_or(rules.limits.steps_max, |task| task.steps_max);
        let spent = turn.steps() >= steps_max.max(1) || turn.tokens_left(&rules.limits) == Some(0);
        let nowhere = turn.repeated.filter(|repeated| repeated.forbids(&group.answer.calls));
        let (why, name, had_its_chance) = match nowhere {
            _ if spent => (NOT_RUN_BUDGET, "budget_exhausted", turn.exhausted),
            Some(repeated) => (NOT_RUN_REPEATED, "calls_repeated", repeated.was_forbidden()),
            None => return,
        };
        turn.exhausted |= spent;
        let (id, step) = (turn.id, turn.step);
        acts.push(Act::Note { name, detail: format!("turn {id}, step {step}") });
        self.give_up(why, |_, _| true, acts);
        self.close_group(now, acts);
        if let (Phase::Turn(turn), Some(repeated)) = (&mut self.phase, nowhere) {
            turn.repeated = Some(Repeated { times: repeated.times + 1, ..repeated });
        }
        if had_its_chance {
            let message = match spent {
                true => {
                    "This turn used up its budget of steps or tokens before it had an answer. \
                         What was done so far is kept; write again to go on from here."
                }
                false => {
                    "The model kept repeating one call that led nowhere, so the turn was ended. \
                          Write again, perhaps in other words."
                }
            };
            self.fail(Failure { kind: FailureKind::Exhausted, message: message.into() }, acts);
        }
    }

    /// What was said to steer the turn joins it, from wherever it waits.
    pub(super) fn join_steering(&mut self, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let steers =
            |input: &Input| matches!(&input.kind, Kind::Command(Command::Steer { text }) if !text.is_empty());
        let (steering, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|input| steers(input));
        self.waiting = rest.into();
        for input in steering {
            acts.push(Act::Begin { turn: turn.id, inputs: vec![input.seq] });
            acts.extend(say(&input));
            turn.inputs.push(input);
        }
    }

    pub(super) fn report(&self, command: &Command, rules: &Rules) -> String {
        match command {
            Command::Help => command::help(),
            Command::Absent { name } => {
                let instead = command::instead_of(name).unwrap_or("/help lists the commands there are.");
                format!("Throughline has no command /{name}. {instead}")
            }
            Command::Steer { .. } => "Say what the agent should know: /steer <text>".to_owned(),
            Command::Queue { .. } => "Say what should wait for the next turn: /queue <text>".to_owned(),
            Command::Unknown { name } => {
                format!(
                    "There is no command /{name}. /help lists those there are; nothing was sent to the model."
                )
            }
            _ => {
                let doing = match &self.phase {
                    Phase::Idle if self.halted => "silenced until you write again".to_owned(),
                    Phase::Idle => "idle".to_owned(),
                    Phase::Turn(turn) => {
                        let (step, max) = (turn.steps(), rules.limits.steps_max);
                        match self.asked(|_| true).len() {
                            0 => format!("answering message {}, step {step} of {max}", turn.id),
                            _ => format!("waiting for your answer in message {}, step {step}", turn.id),
                        }
                    }
                    Phase::Closed(_) => "ended".to_owned(),
                };
                let waiting = self.waiting.len();
                let context = self.context_in_words();
                format!(
                    "Session {}\n{doing}; {waiting} waiting; {} received{context}",
                    self.id, self.received
                )
            }
        }
    }
}

fn decided(count: usize, what: &str, grant: Grant) -> String {
    let reach = match grant {
        Grant::Once => "",
        Grant::Session => " for this session",
        Grant::Always => " for good",
    };
    match count {
        0 => "Nothing waits for an answer.".into(),
        1 => format!("{what}{reach}."),
        many => format!("{what} {many} calls{reach}."),
    }
}
