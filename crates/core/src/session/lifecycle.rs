//! How a session ends by itself, is handed over, and is taken up again.
//!
//! - it ends by itself only while nothing runs, waits or is asked in it
//! - the hand-over goes stage by stage, and within the stage of hooks run by run: what is done is
//!   committed before the next begins, and is not begun again
//! - a step that failed is tried again, ever more slowly, and then set aside under its name until
//!   a person says that it should go on
//! - an ended session that is taken up again begins a new life; of the last life's hand-over
//!   nothing goes on

use super::compress::End;
use super::{Act, Finalisation, Job, Phase, Rules, SessionState};
use crate::id::SessionId;
use crate::input::Input;
use crate::lifecycle::{BACKLOG_AFTER, Reason};
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// A step that fails is tried so often: over about two hours, see [`backoff`].
pub const ATTEMPTS_MAX: u32 = 8;
const BACKOFF_MAX: Duration = Duration::from_secs(3600);

/// How the hand-over of an ended session goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Why it ended, in the word that its row has for it.
    pub reason: String,
    /// The session that goes on in its place, if there was one at once.
    pub successor: Option<SessionId>,
    /// The hook that has been begun.
    pub running: Option<String>,
    /// Those that have done their part.
    pub done: BTreeSet<String>,
    /// How often the step at hand was begun and came to nothing.
    pub attempts: u32,
    pub not_before: Time,
    /// Set aside: which step, and why it came to nothing the last time.
    pub parked: Option<String>,
}

impl Handover {
    /// How long the step at hand still waits. Never longer than was decided when it failed, also where the clock was
    /// set back since.
    pub fn wait(&self, now: Time) -> Duration {
        self.not_before.since(now).min(backoff(self.attempts))
    }
}

/// News of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handing {
    /// A hook is about to be run.
    Began {
        hook: String,
    },
    Done {
        hook: String,
    },
    /// A step came to nothing: a hook by its name, or a stage.
    Failed {
        stage: Finalisation,
        step: String,
        why: String,
    },
}

/// What is written about one hook's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    Began { attempt: u32 },
    Done,
    Failed { why: String },
}

/// Who noticed that a conversation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The sender of the next message: it begins another.
    Message,
    /// No message came; its time had come.
    Watch,
}

impl Noticed {
    /// The word that the session's row gets, as Hermes 0.19 has it.
    pub fn end_reason(self, reason: Reason) -> &'static str {
        match self {
            Noticed::Message => reason.as_str(),
            Noticed::Watch => "session_reset",
        }
    }
}

/// After so many failures in a row.
pub fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(2 << (2 * attempts.clamp(1, 7) - 2)).min(BACKOFF_MAX)
}

impl SessionState {
    /// Nothing runs, waits, is asked or is under way here: if its time has come, it may end.
    pub fn may_expire(&self) -> bool {
        let idle = self.phase == Phase::Idle && self.waiting.is_empty() && !self.halted;
        let ordered = self.compression.as_ref().is_some_and(|operation| !operation.orders.is_empty());
        // A review is about what was said: it goes on after the end. A late answer of the memory is for no turn then.
        let may_go_on = |job: &Job| matches!(job, Job::Review { .. } | Job::Recall { .. });
        idle && !ordered && self.jobs().iter().all(may_go_on)
    }

    pub(super) fn expire(&mut self, reason: Reason, noticed: Noticed, now: Time, acts: &mut Vec<Act>) {
        if !self.may_expire() {
            acts.push(Act::Note { name: "expiry_overtaken", detail: reason.as_str().to_owned() });
            return;
        }
        self.close_client_calls(&[], now, acts);
        self.abandon(End::Stale, "the conversation has ended".into(), acts);
        let end_reason = noticed.end_reason(reason);
        let had_activity = self.upkeep.context > 0;
        acts.push(Act::Expire { reason, end_reason, had_activity });
        acts.push(Act::Note { name: "session_expired", detail: reason.as_str().to_owned() });
        self.end(end_reason, None);
    }

    /// From here on there is only the hand-over; none, where Hermes has seen to it in this life.
    pub(super) fn end(&mut self, reason: &str, successor: Option<SessionId>) {
        let stage = match std::mem::take(&mut self.finalised) {
            true => Finalisation::Done,
            false => Finalisation::Claimed,
        };
        self.handover = Handover { reason: reason.to_owned(), successor, ..Handover::default() };
        self.phase = Phase::Closed(stage);
    }

    /// A new life of the same id. The owner before this one is fenced off.
    pub fn reopen(&mut self, now: Time, acts: &mut Vec<Act>) {
        if matches!(self.phase, Phase::Turn(_)) {
            return; // it never ended
        }
        if matches!(self.phase, Phase::Closed(stage) if stage != Finalisation::Done) {
            let detail = format!("epoch {}", self.epoch.0);
            acts.push(Act::Note { name: "finalisation_superseded", detail });
        }
        self.phase = Phase::Idle;
        self.epoch = self.epoch.next();
        self.generation = self.generation.next();
        self.handover = Handover::default();
        self.finalised = false;
        self.active = now;
        acts.push(Act::Reopen);
    }

    pub(super) fn finalise(&mut self, stage: Finalisation) {
        if self.phase == Phase::Closed(stage) && self.handover.running.is_none() {
            self.phase = Phase::Closed(stage.next());
            (self.handover.attempts, self.handover.not_before) = (0, Time::default());
        }
    }

    pub(super) fn hand_over(&mut self, news: Handing, now: Time, acts: &mut Vec<Act>) {
        let Phase::Closed(current) = self.phase else { return };
        let handover = &mut self.handover;
        if handover.parked.is_some() {
            return; // a straggler of a run that the session no longer waits for
        }
        match news {
            Handing::Began { hook }
                if current == Finalisation::Hooks
                    && handover.running.is_none()
                    && !handover.done.contains(&hook) =>
            {
                let attempt = handover.attempts + 1;
                handover.running = Some(hook.clone());
                handover.not_before = Time::default(); // its wait is over: the run itself does not wait again
                acts.push(Act::Hook { hook, run: Run::Began { attempt } });
            }
            Handing::Done { hook } if handover.running.as_ref() == Some(&hook) => {
                handover.running = None;
                handover.done.insert(hook.clone());
                (handover.attempts, handover.not_before) = (0, Time::default());
                acts.push(Act::Hook { hook, run: Run::Done });
            }
            Handing::Failed { stage, step, why } if stage == current => {
                let is_at_hand = match stage {
                    Finalisation::Hooks => handover.running.as_ref() == Some(&step),
                    _ => true,
                };
                if is_at_hand {
                    if handover.running.take().is_some() {
                        acts.push(Act::Hook { hook: step.clone(), run: Run::Failed { why: why.clone() } });
                    }
                    self.step_failed(&step, &why, now, acts);
                }
            }
            _ => {} // an echo of something already settled
        }
    }

    fn step_failed(&mut self, step: &str, why: &str, now: Time, acts: &mut Vec<Act>) {
        let handover = &mut self.handover;
        handover.attempts += 1;
        let detail = format!("{step}, attempt {}: {why}", handover.attempts);
        match handover.attempts < ATTEMPTS_MAX {
            true => {
                handover.not_before = now.plus(backoff(handover.attempts));
                acts.push(Act::Note { name: "finalisation_retried", detail });
            }
            false => {
                handover.parked = Some(format!("{step}: {why}"));
                acts.push(Act::Note { name: "finalisation_parked", detail });
            }
        }
    }

    /// The process ended while a hook ran. It is looked after again, but not for ever: it may be what
    /// ends the process.
    pub(super) fn take_up_handover(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Phase::Closed(Finalisation::Hooks) = self.phase else { return };
        let Some(hook) = self.handover.running.clone() else { return };
        if self.handover.parked.is_none() {
            self.handover.attempts += 1;
            if self.handover.attempts >= ATTEMPTS_MAX {
                let why = "the gateway ended while it ran, again and again".to_owned();
                let stage = Finalisation::Hooks;
                self.hand_over(Handing::Failed { stage, step: hook, why }, now, acts);
            }
        }
    }

    /// What was set aside is tried again from the start.
    pub(super) fn release_handover(&mut self) {
        if self.handover.parked.take().is_some() {
            (self.handover.attempts, self.handover.not_before) = (0, Time::default());
        }
    }

    /// Written before the home was first taken over, with nothing written here since.
    pub fn is_backlog(&self, input: &Input, rules: &Rules, now: Time) -> bool {
        let Some(baseline) = rules.baseline_at(now) else { return false };
        input.at.plus(BACKLOG_AFTER) < baseline && input.trace.is_human() && self.active <= baseline
    }

    /// A message came. With words, what Hermes had handed over goes on.
    pub(super) fn stir(&mut self, now: Time, words: bool) {
        self.active = now;
        if words {
            self.live_on();
        }
    }

    /// What Hermes had handed over has a new life, to be handed over in its turn.
    pub(super) fn live_on(&mut self) {
        if std::mem::take(&mut self.finalised) {
            self.epoch = self.epoch.next();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
