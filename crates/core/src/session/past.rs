//! DeferredCommands, and what they do to a conversation: take back, ask again, go on in a copy or in an earlier one.
//!
//! - a deferred command waits in the inbox, and is settled once, in the commit that carries it out
//! - one that is harmless beside a turn passes what waits; any other waits for its turn, and nothing that came
//!   behind it is begun before
//! - what is taken back is kept under a name; nothing is deleted here
//! - where a chat leads elsewhere, all that waits goes along

use super::{Act, Outcome, Phase, Reply, SessionState, compress, rerooted};
use crate::command::{Command, DeferredCommand, Found, Past};
use crate::id::{Seq, SessionId, TurnId};
use crate::input::{Input, Kind};
use crate::message::Message;
use crate::session::Preferences;
use crate::time::Time;
use crate::turn::Turn;
use std::sync::Arc;

/// Of what was taken back, so much is shown: enough to copy it, and within what every platform takes.
const ECHO_CHARS_MAX: usize = 1_500;

/// Why a session ended whose chat leads elsewhere, as it is announced: the same in its row, as Hermes has it.
pub const RESUMED: &str = "session_switch";
pub const BRANCHED: &str = "branch";

/// How a chat comes to lead to another session.
#[derive(Clone, Debug, PartialEq)]
pub enum Switch {
    /// To a copy of this one, with as many rows as are live here.
    Branch { title: String, rows: usize, preferences: Preferences },
    /// To one that is there already, and has received so much.
    Resume { received: Seq },
}

impl SessionState {
    /// The deferred_commands that the shell should be at: those beside, and the one whose turn it is.
    pub(super) fn due(&self) -> impl Iterator<Item = &Arc<Input>> {
        let open = !self.halted && !matches!(self.phase, Phase::Closed(_));
        let reach = match open {
            true => self.waiting.iter().take_while(|input| !compress::ends(input)).count(),
            false => 0,
        };
        let beside = self.waiting.iter().take(reach).filter(|input| is_beside(input));
        let first = self.waiting.iter().position(holds_the_line).filter(|place| self.is_in_turn(*place));
        let in_turn = first.filter(|_| open && self.phase == Phase::Idle).map(|place| &self.waiting[place]);
        beside.chain(in_turn)
    }

    /// Whether this one is a deferred command whose turn it is. All that was ordered before it, beside, comes first.
    fn is_in_turn(&self, place: usize) -> bool {
        matches!(&self.waiting[place].kind, Kind::Command(Command::Deferred(_)))
            && !self.waiting.iter().take(place).any(is_beside)
    }

    /// The shell is at it, or at something that has to come before it.
    pub(super) fn is_awaited(&self, place: usize) -> bool {
        let first = &self.waiting[place];
        let deferred = matches!(&first.kind, Kind::Command(Command::Deferred(_)));
        deferred || (compress::ends(first) && self.waiting.iter().take(place).any(is_beside))
    }

    /// A user who takes something back in the middle of a turn should not wonder why nothing happens.
    pub(super) fn say_that_it_waits(&self, input: &Input, acts: &mut Vec<Act>) {
        let Kind::Command(command @ Command::Deferred(deferred)) = &input.kind else { return };
        let busy = matches!(self.phase, Phase::Turn(_));
        let (true, false, Some(destination)) = (busy, deferred.is_beside(), &input.reply_to) else { return };
        let key = format!("{}/{}/waits", self.id, input.seq);
        let text = format!("/{} waits for the running turn; /stop ends that.", command.name());
        let (destination, trace) = (destination.clone(), input.trace.onward());
        acts.push(Act::Deliver(Reply { key, destination, text, trace }));
    }

    /// The shell has looked up or done what an order asked for.
    pub(super) fn ordered(&mut self, seq: Seq, found: Found, now: Time, acts: &mut Vec<Act>) {
        let due = self.due().any(|input| input.seq == seq);
        let place = self.waiting.iter().position(|input| input.seq == seq).filter(|_| due);
        let Some(order) = place.and_then(|place| self.waiting.remove(place)) else {
            let detail = format!("errand {seq}");
            return acts.push(Act::Note { name: "late_result_dropped", detail });
        };
        let Kind::Command(Command::Deferred(deferred)) = &order.kind else { return };
        match (deferred, found) {
            (_, Found::Said(said)) => self.done(&order, said, acts),
            (_, Found::Restart(said)) => {
                self.done(&order, said, acts);
                acts.push(Act::Restart { order: order.key.clone() });
            }
            (_, Found::Preferred { preferences, said }) => {
                let speaks_otherwise = preferences.personality != self.preferences.personality;
                self.preferences = preferences;
                if speaks_otherwise {
                    self.speak_otherwise(acts);
                }
                self.done(&order, said, acts);
            }
            (DeferredCommand::New { successor, .. }, Found::Titled(title)) => {
                self.begin_titled(&order, successor.clone(), title, acts);
            }
            (_, Found::Titled(Ok(title))) => {
                acts.push(Act::Title { session: self.id.clone(), title: title.clone() });
                self.done(&order, format!("This conversation is called \"{title}\" now."), acts);
            }
            (_, Found::TitledHere { title, elsewhere }) => {
                let said = format!(
                    "This conversation is called \"{title}\" now. Its memory outside keeps the name \"{elsewhere}\": \
                     what is there is not renamed."
                );
                acts.push(Act::Title { session: self.id.clone(), title });
                self.done(&order, said, acts);
            }
            (_, Found::Titled(Err(why))) => self.done(&order, why, acts),
            (DeferredCommand::Retry, Found::Past(past)) => self.ask_again(order, past, now, acts),
            (_, Found::Past(past)) => {
                let kept_as = self.rewind(&past, now, acts);
                self.done(&order, undone_text(&past, &kept_as), acts);
            }
            (DeferredCommand::Branch { successor, .. }, Found::Copy { title, rows, messages }) => {
                let said = format!(
                    "This is a copy now, called \"{title}\": {messages} messages in {successor}. \
                     The original stays as it is: /resume {} goes back to it.",
                    self.id
                );
                let how = Switch::Branch { title, rows, preferences: self.preferences.inherited() };
                self.switch(&order, successor.clone(), how, said, acts);
            }
            (_, Found::Earlier { session, title, messages, received }) => {
                let called = title.map_or_else(|| session.to_string(), |title| format!("\"{title}\""));
                let said = format!(
                    "Going on with {called} ({messages} messages, {session}). \
                     /resume {} goes back to where you were.",
                    self.id
                );
                self.switch(&order, session, Switch::Resume { received }, said, acts);
            }
            (_, Found::Copy { .. }) => {
                self.done(&order, "Nothing was changed: that is no copy to go on in.".into(), acts);
            }
        }
    }

    fn done(&mut self, order: &Arc<Input>, said: String, acts: &mut Vec<Act>) {
        self.settle(order, Outcome::Done { said, successor: None }, acts);
    }

    fn begin_titled(
        &mut self,
        order: &Arc<Input>,
        successor: SessionId,
        title: Result<String, String>,
        acts: &mut Vec<Act>,
    ) {
        let called = match &title {
            Ok(title) => format!(" It is called \"{title}\"."),
            Err(why) => format!(" It has no title: {why}"),
        };
        let before = acts.len();
        self.close(order, successor.clone(), acts);
        // The one thing that is said about it says how it is called, too.
        for act in &mut acts[before..] {
            match act {
                Act::Settle { seq, outcome: Outcome::Done { said, .. } } if *seq == order.seq => {
                    said.push_str(&called);
                }
                Act::Deliver(reply) if reply.key == format!("{}/{}/done", self.id, order.seq) => {
                    reply.text.push_str(&called);
                }
                _ => {}
            }
        }
        acts.extend(title.ok().map(|title| Act::Title { session: successor, title }));
    }

    /// The end of the conversation is no longer part of it. Returns the name under which it is kept.
    fn rewind(&mut self, past: &Past, now: Time, acts: &mut Vec<Act>) -> String {
        self.rewritten(past.from, acts);
        self.generation = self.generation.next();
        self.failed = None;
        self.failed_step = 0;
        self.upkeep.context = past.context;
        self.upkeep.unworthy = 0;
        let kept_as = self.upkeep.name_snapshot(&self.id, now);
        acts.push(Act::Rewind { from: past.from, rows: past.rows, kept_as: kept_as.clone() });
        kept_as
    }

    /// What was said last is said again, by this order, and only once in what the model sees.
    fn ask_again(&mut self, order: Arc<Input>, past: Past, now: Time, acts: &mut Vec<Act>) {
        self.rewind(&past, now, acts);
        if self.place.is_none() {
            self.place.clone_from(&order.reply_to);
        }
        let turn = TurnId(order.seq);
        acts.push(Act::Begin { turn, inputs: vec![order.seq] });
        acts.extend(past.said.into_iter().map(|said| Act::Append(Message { at: now, ..said })));
        self.phase = Phase::Turn(Turn::new(turn, now, vec![order]));
    }

    fn switch(
        &mut self,
        order: &Arc<Input>,
        to: SessionId,
        how: Switch,
        mut said: String,
        acts: &mut Vec<Act>,
    ) {
        self.forget_orders(order.seq, acts);
        let moved: Vec<_> = self.waiting.drain(..).map(|input| rerooted(input, &self.id, &to)).collect();
        match moved.len() {
            0 => {}
            1 => said.push_str(" The message that waits goes there."),
            many => said.push_str(&format!(" The {many} messages that wait go there.")),
        }
        self.settle(order, Outcome::Done { said, successor: Some(to.clone()) }, acts);
        let (received, reason) = match &how {
            Switch::Branch { .. } => (Seq(0), BRANCHED),
            Switch::Resume { received } => (*received, RESUMED),
        };
        self.settle_moved(&moved, &to, received, acts);
        self.end(reason, Some(to.clone()));
        acts.push(Act::Switch { to, how, moved });
    }

    /// What waits goes to another session, which has received so much.
    pub(super) fn settle_moved(
        &mut self,
        moved: &[Arc<Input>],
        to: &SessionId,
        received: Seq,
        acts: &mut Vec<Act>,
    ) {
        for (input, seq) in moved.iter().zip(received.0 + 1..) {
            self.settle_quietly(input.seq, Outcome::Moved { session: to.clone(), seq: Seq(seq) }, acts);
        }
    }
}

/// Nothing behind it is begun before it.
pub(super) fn holds_the_line(input: &Arc<Input>) -> bool {
    !compress::is_order(input) && !is_beside(input)
}

fn is_beside(input: &Arc<Input>) -> bool {
    matches!(&input.kind, Kind::Command(command) if command.is_beside())
}

fn undone_text(past: &Past, kept_as: &str) -> String {
    let exchanges = match past.exchanges {
        1 => "the last exchange".to_owned(),
        many => format!("the last {many} exchanges"),
    };
    let summarised = match past.summarised {
        true => " A summary stands for what was said before that; it stays.",
        false => "",
    };
    let said: Vec<String> = past.said.iter().map(|said| said.content().plain()).collect();
    let said = said.join("\n");
    let shown = match said.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    };
    format!(
        "Taken back: {exchanges}, {} rows; {} remain.{summarised} It is kept as {kept_as}. You had written:\n\n{shown}",
        past.rows, past.remaining
    )
}

#[cfg(test)]
pub(super) mod tests;
