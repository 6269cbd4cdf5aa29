//! What bots say, as far as it begins turns: shares of a budget, and what becomes of a message that gets none.
//!
//! A message that may begin no turn is stored as a user row all the same, and seen by the next turn.

use super::{Act, FailureKind, Outcome, Phase, Reply, Rules, SessionState, past, say, shares};
use crate::Seq;
use crate::chain::{self, Cut, Exceeded, Shared};
use crate::input::{AGENT_PLATFORM, Input, Kind};
use crate::session::Failure;
use crate::time::Time;
use std::sync::Arc;

impl SessionState {
    /// The message of a bot that is next, if the ledger has to be asked first. A turn in which a person speaks
    /// costs nothing of a chain's budget.
    pub(super) fn wants_share(&self) -> Option<Seq> {
        if self.phase != Phase::Idle || self.halted {
            return None;
        }
        let place = self.waiting.iter().position(past::holds_the_line)?;
        let first = &self.waiting[place];
        let known =
            !first.trace.is_human() && first.trace.foreign.is_none() && !first.trace.origin.is_empty();
        let speaks = !matches!(&first.kind, Kind::Command(command) if command.words().is_none());
        (known && speaks && !self.is_joined_by_a_person(place)).then_some(first.seq)
    }

    /// Whether a person's message behind it shares its turn.
    fn is_joined_by_a_person(&self, place: usize) -> bool {
        let first = &self.waiting[place];
        matches!(first.kind, Kind::Chat(_))
            && self
                .waiting
                .iter()
                .skip(place + 1)
                .take_while(|input| shares(first, input))
                .any(|input| input.trace.is_human())
    }

    pub(super) fn share(&mut self, seq: Seq, shared: Shared, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        if self.wants_share() != Some(seq) {
            // A person has joined it meanwhile, or it was taken up: the share counts all the same.
            acts.push(Act::Note { name: "share_unused", detail: format!("message {seq}") });
            return;
        }
        let Some(place) = self.waiting.iter().position(|input| input.seq == seq) else { return };
        let Some(input) = self.waiting.remove(place) else { return };
        match shared {
            Shared::Granted => self.begin(input, now, acts),
            Shared::Refused(cut) => self.cut(&input, cut, rules, acts),
        }
    }

    /// What a bot says that is none of ours: its chat has a count of its own.
    pub(super) fn hear_foreign(&mut self, input: Arc<Input>, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        let platform = input.reply_to.as_ref().map_or("", |place| place.platform.as_str());
        let is_joined = matches!(input.kind, Kind::Chat(_))
            && self
                .waiting
                .iter()
                .take_while(|other| shares(&input, other))
                .any(|other| other.trace.is_human());
        if is_joined {
            return self.begin(input, now, acts);
        }
        if self.foreign.turns < rules.limits.chain.turns_max(platform) {
            self.foreign.turns += 1;
            return self.begin(input, now, acts);
        }
        let cut = Cut { number: 0, why: Exceeded::Turns, announce: true };
        self.cut(&input, cut, rules, acts);
    }

    /// A chain has come far enough. The session keeps the message and tells the chat where that happened, once.
    /// The ledger tells the people who began it. The other agent never hears of it, or it would answer.
    fn cut(&mut self, input: &Arc<Input>, cut: Cut, rules: &Rules, acts: &mut Vec<Act>) {
        let said = self.announce(input, cut, rules, acts);
        self.leave_unanswered(input, said, acts);
    }

    /// It is a row like any other, seen by the next turn, and begins none.
    pub(super) fn leave_unanswered(&mut self, input: &Arc<Input>, said: String, acts: &mut Vec<Act>) {
        acts.extend(say(input));
        self.settle_quietly(input.seq, Outcome::Done { said, successor: None }, acts);
    }

    fn announce(&mut self, input: &Arc<Input>, cut: Cut, rules: &Rules, acts: &mut Vec<Act>) -> String {
        let trace = &input.trace;
        let detail = format!(
            "message {} of {}, {} hops from its origin: no {} left at {}",
            input.seq,
            trace.origin,
            trace.hops,
            cut.why.name(),
            rules.agent
        );
        acts.push(Act::Note { name: "chain_cut", detail });
        let said = chain::notice(cut.why);
        let place = input.reply_to.clone().filter(|place| place.platform != AGENT_PLATFORM);
        let notice = Self::notice_key(&chain::notice_name(&trace.origin, cut.number));
        if let (Some(destination), true) = (place, cut.announce)
            && self.is_first_announcement(notice.as_str())
        {
            let key = format!("{}/{notice}", self.id);
            let (text, trace) = (said.clone(), Default::default());
            acts.push(Act::Deliver(Reply { key, destination, text, trace }));
        }
        said
    }

    /// A turn that a bot's message began may ask the model no more. What it has done so far is kept.
    pub(super) fn end_spent(&mut self, cut: Cut, rules: &Rules, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        let message = match turn.inputs.last() {
            Some(last) => self.announce(last, cut, rules, acts),
            None => chain::notice(cut.why),
        };
        let failure = Failure { kind: FailureKind::Exhausted, message };
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Failed(turn.id, failure.clone()), acts);
        }
        (self.failed, self.failed_step) = (Some(turn.id), turn.step);
    }
}
