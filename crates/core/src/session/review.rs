//! Looking back at a conversation for what is worth keeping, beside its turns.
//!
//! After so many turns of people, or so many steps with calls, a review falls due with the answer that
//! completes a turn: a row of its own, in that answer's commit, which names the view it is about. It is
//! run as a job until its outcome is committed, once; what it costs and does is kept in its row.
//!
//! - a review is about the view it fell due on, even if the view changes or the session ends
//! - it ends as done or as set aside; either way it is never run again
//! - one at a time per session, in the order in which they fell due
//!
//! Deliberately absent: anything a review could change here. It has no way to the transcript, to the
//! counters of turns, or to another session.

mod claim;
mod prompt;
#[cfg(test)]
mod tests;

pub use claim::false_claim;
pub use prompt::{Fill, prompt};

use super::{Act, Job, Phase, Reply, Rules, SessionState};
use crate::id::{TurnId, View};
use crate::input::{AGENT_PLATFORM, Destination, Trace};
use crate::message::{Body, Message};
use crate::time::Time;
use crate::turn::{Turn, Usage};
use std::collections::VecDeque;
use std::time::Duration;

/// The tools whose use by the agent itself makes a review of their kind less urgent.
pub const MEMORY_TOOL: &str = "memory";
pub const SKILL_TOOL: &str = "skill_manage";
/// All that a review may call.
pub const TOOLS: [&str; 4] = [MEMORY_TOOL, "skills_list", "skill_view", SKILL_TOOL];

/// How often a review is tried before it is set aside.
pub const TRIES_MAX: u32 = 3;
/// How often the process may end while a review waits or runs. Restarts are ordinary; a review that
/// ends the process would otherwise end it for ever.
const LOST_MAX: u32 = 16;
/// No person waits for a review: a provider that is down gets time to recover.
const BACKOFF: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];
/// What is kept of why a review failed.
const WHY_CHARS: usize = 400;

/// After how many a review falls due. Zero: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// Turns of people, for what is worth remembering.
    pub turns: u32,
    /// Steps with calls, for what is worth a skill.
    pub steps: u32,
}

/// What a review looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Memory,
    Skills,
    Combined,
}

impl Subject {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Skills, Self::Combined];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Skills => "skills",
            Self::Combined => "combined",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.as_str() == name)
    }

    pub fn includes_memory(self) -> bool {
        self != Self::Skills
    }

    pub fn includes_skills(self) -> bool {
        self != Self::Memory
    }
}

/// One that has fallen due and is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// From one, in each session.
    pub number: u64,
    pub subject: Subject,
    /// The turn whose answer it fell due with.
    pub turn: TurnId,
    pub view: View,
    pub due: Time,
    /// Where its people hear of it. None: a client waited for the turn itself.
    pub place: Option<Destination>,
    /// The model that a person had chosen here.
    pub model: Option<String>,
    pub tries: u32,
    /// How often the process ended before it was over.
    pub lost: u32,
    pub not_before: Time,
}

/// How far a session is from its next reviews, and those that are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reviews {
    /// Turns of people since memory was looked after, by a review or by the agent itself.
    pub turns: u32,
    /// Steps with calls since skills were.
    pub steps: u32,
    /// How many have fallen due, ever.
    pub count: u64,
    pub pending: VecDeque<Review>,
    /// Set while a session is taken up for the first time: what people had said in it before our time.
    pub prior: Option<u64>,
}

/// How a review went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What it changed, for the record.
    pub changes: Vec<String>,
    /// What its people are told of that. Empty: nothing.
    pub told: Vec<String>,
    /// How often the model was asked, and what that cost. No part of what the session's turns cost.
    pub asked: u32,
    pub usage: Usage,
    pub model: String,
}

/// How a review ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Report),
    /// Set aside, and why.
    Parked(String),
}

impl Review {
    /// Under which a call of it is known, however often it is run: `session/review-number/step/position`.
    pub fn call_key(&self, session: &super::SessionId, step: u32, position: usize) -> String {
        format!("{session}/review-{}/{step}/{position}", self.number)
    }
}

impl SessionState {
    /// Looks at an answer that was just taken in: what it calls, and whether it completes a turn with
    /// which a review falls due.
    pub(super) fn consider_review(
        &mut self,
        before: &SessionState,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        let Phase::Turn(turn) = &before.phase else { return };
        if !is_reviewed(turn) {
            return;
        }
        self.count_calls(acts, rules);
        let is_reply = |act: &Act| match act {
            Act::Append(Message { body: Body::Assistant(said), .. }) => {
                said.calls.is_empty() && !said.content.plain().trim().is_empty()
            }
            _ => false,
        };
        if self.phase != Phase::Idle || !acts.iter().any(is_reply) {
            return;
        }
        let Intervals { turns, steps } = rules.review;
        let subject = match (is_due(self.reviews.turns, turns), is_due(self.reviews.steps, steps)) {
            (false, false) => return,
            (true, false) => Subject::Memory,
            (false, true) => Subject::Skills,
            (true, true) => Subject::Combined,
        };
        if subject.includes_memory() {
            self.reviews.turns = 0;
        }
        if subject.includes_skills() {
            self.reviews.steps = 0;
        }
        self.reviews.count += 1;
        let place = turn.inputs.last().and_then(|input| input.reply_to.clone());
        let review = Review {
            number: self.reviews.count,
            subject,
            turn: turn.id,
            view: self.view,
            due: now,
            place: place.filter(|place| place.platform != AGENT_PLATFORM),
            model: self.preferences.model.clone(),
            tries: 0,
            lost: 0,
            not_before: now,
        };
        acts.push(Act::Review(Box::new(review.clone())));
        self.reviews.pending.push_back(review);
    }

    /// A step with calls brings a review of skills nearer, unless it looks after them itself.
    fn count_calls(&mut self, acts: &[Act], rules: &Rules) {
        let open = acts.iter().find_map(|act| match act {
            Act::Step(step) => step.open.as_ref(),
            _ => None,
        });
        let Some(said) = open else { return };
        let calls = |name: &str| said.calls.iter().any(|call| call.name == name);
        if rules.review.steps > 0 {
            self.reviews.steps += 1;
        }
        if calls(MEMORY_TOOL) {
            self.reviews.turns = 0;
        }
        if calls(SKILL_TOOL) {
            self.reviews.steps = 0;
        }
    }

    /// A turn that began brings a review nearer, if a person began it.
    pub(super) fn count_turn(&mut self, before: &SessionState, rules: &Rules) {
        let Phase::Turn(turn) = &self.phase else { return };
        let runs_already = match &before.phase {
            Phase::Turn(earlier) => earlier.id == turn.id,
            Phase::Idle | Phase::Closed(_) => before.failed == Some(turn.id), // tried again
        };
        if !runs_already && is_reviewed(turn) && rules.review.turns > 0 {
            self.reviews.turns += 1;
        }
    }

    /// A review that ran is lost, and will be run again. A session from before our time goes on counting
    /// where it would be.
    pub(super) fn take_up_reviews(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        if let Some(prior) = self.reviews.prior.take() {
            let rest = prior.checked_rem(rules.review.turns.into()).unwrap_or(0);
            self.reviews.turns = u32::try_from(rest).expect("less than an interval");
        }
        let Some(review) = self.reviews.pending.front_mut().filter(|_| !self.halted) else { return };
        review.lost += 1;
        let review = review.clone();
        match review.lost > LOST_MAX {
            true => {
                let why = format!("the gateway stopped {LOST_MAX} times before it was over");
                self.set_aside(review.number, why, acts);
            }
            false => {
                let not_before = review.not_before.min(now.plus(BACKOFF[1])); // also where a clock was set back
                acts.push(Act::Review(Box::new(Review { not_before, ..review })));
                self.reviews.pending[0].not_before = not_before;
            }
        }
    }

    pub(super) fn reviewed(
        &mut self,
        number: u64,
        result: Result<Report, String>,
        now: Time,
        acts: &mut Vec<Act>,
    ) {
        let Some(review) = self.reviews.pending.front_mut().filter(|review| review.number == number) else {
            let detail = format!("outcome of review {number}");
            return acts.push(Act::Note { name: "late_result_dropped", detail });
        };
        match result {
            Ok(report) => {
                let place = review.place.clone();
                self.reviews.pending.pop_front();
                let told = (!report.told.is_empty()).then(|| notice(&report.told));
                acts.push(Act::Reviewed { number, outcome: Outcome::Done(report) });
                if let (Some(text), Some(destination)) = (told, place) {
                    let (key, trace) = (format!("{}/review-{number}", self.id), Trace::default());
                    acts.push(Act::Deliver(Reply { key, destination, text, trace }));
                }
            }
            Err(why) => {
                review.tries += 1;
                match BACKOFF.get(review.tries as usize - 1).filter(|_| review.tries < TRIES_MAX) {
                    Some(wait) => {
                        review.not_before = now.plus(*wait);
                        acts.push(Act::Review(Box::new(review.clone())));
                        let detail = format!("review {number}: {}", shortened(&why));
                        acts.push(Act::Note { name: "review_failed", detail });
                    }
                    None => self.set_aside(number, shortened(&why), acts),
                }
            }
        }
    }

    fn set_aside(&mut self, number: u64, why: String, acts: &mut Vec<Act>) {
        self.reviews.pending.retain(|review| review.number != number);
        acts.push(Act::Note { name: "review_parked", detail: format!("review {number}: {why}") });
        acts.push(Act::Reviewed { number, outcome: Outcome::Parked(why) });
    }

    /// The review that should be running. A session that is silenced begins none.
    pub(super) fn review_job(&self) -> Option<Job> {
        let review = self.reviews.pending.front().filter(|_| !self.halted)?;
        Some(Job::Review { number: review.number, tries: review.tries })
    }
}

/// No review covers what was done for another session, or said by agents among themselves.
fn is_reviewed(turn: &Turn) -> bool {
    turn.task().is_none() && turn.trace().is_human() && !turn.is_stateless()
}

fn is_due(count: u32, interval: u32) -> bool {
    interval > 0 && count >= interval
}

/// As Hermes says it, in one line.
fn notice(told: &[String]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in told {
        if !lines.contains(&line.as_str()) {
            lines.push(line);
        }
    }
    format!("💾 Self-improvement review: {}", lines.join(" · "))
}

fn shortened(why: &str) -> String {
    match why.char_indices().nth(WHY_CHARS) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why.to_owned(),
    }
}
