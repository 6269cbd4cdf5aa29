//! A step on its way to its commit. What it lacks is looked up first; then it is whole, and nothing is added to it.
//!
//! A proposal that is not committed leaves no trace: the session that it was made from is as it was.

use super::{
    Act, Event, FrozenPrompt, Generation, Outcome, Phase, Preparation, Reply, Rules, Session, SessionState,
};
use crate::command::Command;
use crate::compression::{Operation, Stage, estimate};
use crate::id::{RowId, Seq};
use crate::input::{Birth, Input, Kind};
use crate::memory::Filing;
use crate::message::{Body, Message};
use crate::port::Outgoing;
use crate::prompt::Mark;
use crate::time::Time;
use crate::turn::{Answer, Turn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A next state, and what is to be written with it.
#[derive(Clone, Debug)]
pub struct Proposal {
    next: SessionState,
    acts: Vec<Act>,
    at: Time,
    /// An answer to `/status` has no words of the context engine yet.
    lacks_engine_words: bool,
    /// A turn that is to be remembered is not filed yet, or there is none.
    lacks_filing: bool,
    /// The model's answer that it takes in, and what was asked.
    answered: Option<(Answer, Mark)>,
}

/// What a proposal lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The texts of these inputs, which are on disk only.
    Texts(BTreeSet<Seq>),
    /// The agent's part of the system prompt, for a turn that begins: it is frozen in the same commit, so that it is the
    /// same whatever happens next.
    Prompt,
    /// What the context engine says for `/status`.
    EngineWords,
    /// On whose behalf a turn is remembered; and what was said, where only the transcript knows that.
    Filing { said: bool },
}

/// What the owner of a session finds in the store, as far as the machine is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub session: Session,
    pub prompt: Option<FrozenPrompt>,
    /// Calls of the open group that may simply be run again.
    pub repeatable: Vec<usize>,
    /// The rows that a compression stands for are still those that it was prepared from.
    pub intact: bool,
    /// The operator has silenced the home.
    pub halted: bool,
}

impl Session {
    /// A new owner takes up what it found: nothing of the last one's runs any more.
    pub fn take_over(found: Found, now: Time, rules: &Rules) -> Proposal {
        let Found { session, prompt, repeatable, intact, halted } = found;
        let context = session.upkeep.context;
        let halted = halted.then_some(Event::Halted); // one that was not there when it was ordered is silent, too
        let rewritten = (!intact).then_some(Event::Rewritten { from: RowId(0) });
        let told = [Event::Stored { prompt, context }, Event::Loaded { repeatable }];
        let mut proposal = Proposal::unchanged(&session, now);
        for event in rewritten.into_iter().chain(halted).chain(told) {
            let next = proposal.next.propose(event, now, rules);
            proposal = next.behind(proposal.acts);
        }
        proposal
    }
}

impl SessionState {
    /// What follows from an event.
    pub fn propose(&self, event: Event, now: Time, rules: &Rules) -> Proposal {
        let lacks_engine_words = matches!(&event, Event::Received(input)
            if matches!(input.kind, Kind::Command(Command::Status)));
        let answered = match &event {
            Event::Answered { answer, prompt, .. } => Some((answer.clone(), *prompt)),
            _ => None,
        };
        let (next, acts) = self.step(event, now, rules);
        let answered = answered.filter(|_| acts.iter().any(|act| matches!(act, Act::Step(_))));
        let lacks_filing = acts.iter().any(|act| matches!(act, Act::Retain(kept) if kept.filing.is_none()));
        Proposal { next, acts, at: now, lacks_engine_words, lacks_filing, answered }
    }

    /// The same, of the first input of a session: the session itself comes first, with what that input brings along.
    pub fn propose_birth(
        mut self,
        birth: Birth,
        announcement: Option<Reply>,
        event: Event,
        now: Time,
        rules: &Rules,
    ) -> Proposal {
        self.upkeep.context += birth.imported.iter().map(estimate).sum::<u64>();
        let proposal = self.propose(event, now, rules);
        let first = [Act::Open(Box::new(birth))].into_iter().chain(announcement.map(Act::Deliver));
        Proposal { lacks_engine_words: false, ..proposal.behind(first.collect()) }
    }

    /// The compression whose rows another process may have changed meanwhile.
    pub fn unsettled_compression(&self) -> Option<&Operation> {
        self.compression.as_ref().filter(|operation| operation.stage != Stage::Promoted)
    }
}

impl Proposal {
    /// Nothing has happened.
    pub fn unchanged(session: &Session, at: Time) -> Self {
        let next = session.0.clone();
        Self { next, acts: Vec::new(), at, lacks_engine_words: false, lacks_filing: false, answered: None }
    }

    /// These acts, of earlier steps that were not committed, come before.
    #[must_use]
    pub fn behind(mut self, mut earlier: Vec<Act>) -> Self {
        earlier.append(&mut self.acts);
        Self { acts: earlier, ..self }
    }

    /// The next thing to be looked up.
    pub fn lacks(&mut self, rules: &Rules) -> Option<Lack> {
        let unread = self.unread(rules);
        if !unread.is_empty() {
            return Some(Lack::Texts(unread));
        }
        if self.begins_without_prompt() {
            return Some(Lack::Prompt);
        }
        if self.lacks_engine_words {
            return Some(Lack::EngineWords);
        }
        let kept = || {
            self.acts.iter().filter_map(|act| match act {
                Act::Retain(kept) => Some(kept),
                _ => None,
            })
        };
        let said = kept().any(|kept| kept.said.is_empty());
        self.lacks_filing.then_some(Lack::Filing { said })
    }

    /// Inputs that are taken up while their texts are on disk only. Those that came in with this very step are whole.
    fn unread(&mut self, rules: &Rules) -> BTreeSet<Seq> {
        let mut unread = self.next.unread(&self.acts);
        if unread.is_empty() {
            return unread;
        }
        let came_in = self.acts.iter().filter_map(|act| match act {
            Act::Accept(input) => Some(input.clone()),
            _ => None,
        });
        let known: BTreeMap<Seq, Arc<Input>> =
            came_in.filter(|input| unread.contains(&input.seq)).map(|input| (input.seq, input)).collect();
        if !known.is_empty() {
            unread.retain(|seq| !known.contains_key(seq));
            self.next.take_in_whole(&known, self.at, rules, &mut self.acts);
        }
        unread
    }

    fn begins_without_prompt(&self) -> bool {
        let begins = |act: &Act| matches!((act, &self.next.phase), (Act::Begin { turn, .. }, Phase::Turn(now)) if *turn == now.id);
        self.next.preparation() == Some(Preparation::Prompting) && self.acts.iter().any(begins)
    }

    /// The turn that runs after it.
    pub fn turn(&self) -> Option<&Turn> {
        match &self.next.phase {
            Phase::Turn(turn) => Some(turn),
            Phase::Idle | Phase::Closed(_) => None,
        }
    }

    pub fn supply_prompt(&mut self, persona: &str, rules: &Rules) {
        let Some((turn, step)) = self.turn().map(|turn| (turn.id, turn.step)) else { return };
        self.next.prompted((turn, step), persona, self.at, rules, &mut self.acts);
        self.next.prepare(self.at, rules, &mut self.acts);
    }

    pub fn supply_texts(&mut self, read: &BTreeMap<Seq, Arc<Input>>, rules: &Rules) {
        self.next.take_in_whole(read, self.at, rules, &mut self.acts);
    }

    /// The machine knows how the conversation stands; what its context engine makes of it only that one knows.
    pub fn supply_engine_words(&mut self, words: Option<String>) {
        self.lacks_engine_words = false;
        let Some(words) = words else { return };
        let report = self.acts.iter().find_map(|act| match act {
            Act::Settle { outcome: Outcome::Done { said, .. }, .. } => Some(said.clone()),
            _ => None,
        });
        let Some(report) = report else { return };
        for act in &mut self.acts {
            match act {
                Act::Settle { outcome: Outcome::Done { said: text, .. }, .. }
                | Act::Deliver(Reply { text, .. })
                    if *text == report =>
                {
                    *text = format!("{report}\n{words}");
                }
                _ => {}
            }
        }
    }

    /// A turn that is kept goes to whom it concerns now, even if that changes later. None: nothing remembers it.
    pub fn supply_filing(&mut self, filing: Option<&Filing>, said: Option<&str>) {
        self.lacks_filing = false;
        for act in &mut self.acts {
            let Act::Retain(kept) = act else { continue };
            if kept.said.is_empty() {
                kept.said.extend(said.filter(|said| !said.is_empty()).map(str::to_owned));
            }
            kept.filing = filing.cloned();
        }
    }

    /// The whole step. `pieces` divides a reply into what its platform takes, in order: each is a row of its own, so that
    /// what has arrived of it is not sent again.
    pub fn finish(self, pieces: impl Fn(&Reply) -> Vec<String>) -> (Session, Vec<Act>) {
        debug_assert!(
            !self.lacks_filing && !self.lacks_engine_words,
            "a proposal is whole before it is committed"
        );
        let mut acts = Vec::with_capacity(self.acts.len());
        for act in self.acts {
            match act {
                // A question is one thing, with its buttons under it.
                Act::Deliver(reply) if Outgoing::asked_by(&reply.key).is_none() => {
                    acts.extend(divided(reply, &pieces));
                }
                act => acts.push(act),
            }
        }
        (Session(self.next), acts)
    }

    pub fn at(&self) -> Time {
        self.at
    }

    /// The model's answer that it takes in, and what was asked.
    pub fn answered(&mut self) -> Option<(Answer, Mark)> {
        self.answered.take()
    }

    /// What a new owner begins with: its state, and what is written with its first commit.
    pub fn into_parts(self) -> (Session, Vec<Act>) {
        (Session(self.next), self.acts)
    }

    /// Without what it would write: of a session that has no row to write to.
    pub fn unwritten(self) -> Session {
        Session(self.next)
    }

    /// Whether there is nothing to commit.
    pub fn changes_nothing(&self, before: &SessionState, stored: Generation) -> bool {
        self.acts.is_empty() && self.next == *before && stored == self.next.generation
    }
}

fn divided(reply: Reply, pieces: &impl Fn(&Reply) -> Vec<String>) -> Vec<Act> {
    let texts = pieces(&reply);
    if texts.is_empty() {
        return vec![Act::Deliver(reply)];
    }
    let numbered = texts.into_iter().enumerate();
    let piece = |(place, text)| {
        let key = Outgoing::piece_key(&reply.key, place);
        Act::Deliver(Reply { key, text, ..reply.clone() })
    };
    numbered.map(piece).collect()
}

/// An answer as it stands in the transcript, which is what its client gets: a notice may have joined it.
pub fn as_written(answer: Answer, acts: &[Act]) -> Answer {
    let said = acts.iter().find_map(|act| match act {
        Act::Append(Message { body: Body::Assistant(said), .. }) if said.calls.is_empty() => {
            Some(said.clone())
        }
        _ => None,
    });
    Answer { said: said.unwrap_or_else(|| answer.said.clone()), ..answer }
}
