//! What a turn waits for before the model is asked: one thing at a time.
//!
//! - each preparation implies its job, and what comes of that job is fenced by turn and step, as an answer is
//! - of all this, only that a request waits for a compression is stored; the next owner begins anything else again
//! - a turn that begins gets its prompt before its commit, which freezes it; a turn that is found without one gets it by a job
//! - what came of it is written with the next commit, before what follows from it
//!
//! A reminder that its turn no longer waits for goes to the next turn of the same generation, should that one's own be
//! late, too; to no other.

use super::{Act, Phase, Rules, SessionState};
use crate::command::{Command, DeferredCommand};
use crate::id::{Generation, RowId, Seq, TurnId};
use crate::input::{Input, Kind};
use crate::memory::fenced;
use crate::prompt::Digest;
use crate::session::Personality;
use crate::time::Time;
use crate::turn::Turn;
use std::sync::Arc;
use std::time::Duration;

/// What stands between a turn and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preparation {
    /// More of what was said last may come, until then.
    Gathering { until: Time },
    /// The shell assembles the system prompt.
    Prompting,
    /// The shell asks the memory what bears on what was said.
    Recalling,
    /// The request would not fit: a compression comes first.
    Compressing,
    /// The shell asks the model.
    #[default]
    Ready,
}

/// A system prompt as it is frozen with a session, and the digest of the layer that a client added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenPrompt {
    pub text: Arc<str>,
    pub layer: Option<Digest>,
}

/// What came of asking the memory about what was said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Nothing was said that it could be asked about.
    Unasked,
    Found {
        row: RowId,
        said: String,
        text: String,
    },
    /// It failed, or has not answered in time. `pending`: the question is still out.
    Missed {
        row: RowId,
        said: String,
        pending: bool,
    },
    /// The end of a question that was still out, with its answer if there was one.
    Late(Option<String>),
}

/// What stands with a row of the transcript wherever it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reminder {
    pub row: RowId,
    /// What the row says.
    pub said: String,
    pub sent_as: String,
}

/// What is under way for the next request, and what came of it that is not written yet. It ends with the owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Underway {
    /// Turn and step of the request that is being prepared.
    request: Option<(TurnId, u32)>,
    preparation: Preparation,
    gathering: Option<Gathering>,
    prompt: Option<FrozenPrompt>,
    prompt_is_written: bool,
    reminder: Option<Reminder>,
    reminder_is_written: bool,
    /// The last turn that asked the memory.
    reminded: Option<TurnId>,
    /// A question that its turn no longer waits for: one at a time.
    lingering: Option<(TurnId, u32)>,
    /// Its answer, and the generation that asked.
    late: Option<(Generation, String)>,
}

/// Two sessions are equal if what is stored of them is.
impl PartialEq for Underway {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Until then, more of a message may come, of which this was a part.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    part: Seq,
    until: Time,
}

impl SessionState {
    /// How far the next request of the running turn is. None: no request is to be made.
    pub fn preparation(&self) -> Option<Preparation> {
        match &self.phase {
            Phase::Turn(Turn { group: None, held: true, .. }) => Some(Preparation::Compressing),
            Phase::Turn(Turn { group: None, .. }) => Some(self.underway.preparation),
            _ => None,
        }
    }

    /// The system prompt that this session is asked with, once it has one.
    pub fn prompt(&self) -> Option<&FrozenPrompt> {
        self.underway.prompt.as_ref()
    }

    /// The last reminder, which stands with its row already: it may not be written yet.
    pub fn reminder(&self) -> Option<&Reminder> {
        self.underway.reminder.as_ref()
    }

    /// The question to the memory that is still out although its turn has gone on.
    pub(super) fn lingering_recall(&self) -> Option<(TurnId, u32)> {
        self.underway.lingering
    }

    /// What the store has of the prompt. What is not written yet is newer.
    pub(super) fn know_prompt(&mut self, stored: Option<FrozenPrompt>) {
        if self.underway.prompt.is_none() || self.underway.prompt_is_written {
            self.underway.prompt_is_written = stored.is_some();
            self.underway.prompt = stored;
        }
    }

    /// Sees to the next request after a step: what it waits for, what no longer holds, and what is to be written.
    pub(super) fn prepare(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        let request = self.request();
        if request != self.underway.request {
            self.note_overtaken_recall(request, acts);
            self.underway.request = request;
            self.underway.preparation = self.first_preparation(now, rules);
        }
        self.hurry_recall(acts);
        self.write_preparations(acts);
    }

    /// The same once more: inputs whose texts were on disk have been read.
    pub(super) fn prepare_anew(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        self.underway.request = None;
        self.prepare(now, rules, acts);
    }

    /// The prompt comes first: what a place adds to it is known only while its message is taken in.
    fn first_preparation(&self, now: Time, rules: &Rules) -> Preparation {
        match self.wants_prompt() {
            true => Preparation::Prompting,
            false => self.after_prompting(now, rules),
        }
    }

    fn after_prompting(&self, now: Time, rules: &Rules) -> Preparation {
        let Phase::Turn(turn) = &self.phase else { return Preparation::Ready };
        let gathers = |it: &Gathering| now < it.until && turn.inputs.iter().any(|input| input.seq == it.part);
        match self.underway.gathering.filter(gathers) {
            Some(Gathering { until, .. }) => Preparation::Gathering { until },
            None => self.after_gathering(rules),
        }
    }

    fn after_gathering(&self, rules: &Rules) -> Preparation {
        match self.wants_recall(rules) {
            true => Preparation::Recalling,
            false => Preparation::Ready,
        }
    }

    fn is_preparing(&self, request: (TurnId, u32), preparation: Preparation) -> bool {
        self.underway.request == Some(request) && self.underway.preparation == preparation
    }

    // ----------------------------------------------------------------------------------- gathering

    /// An input came in. While more of the one before it is expected, it is taken for that, and joins its turn; a turn
    /// that does something already is not disturbed.
    pub(super) fn gather(&mut self, seq: Seq, more: Option<Duration>, now: Time, acts: &mut Vec<Act>) {
        // While the turn gathers, the clock does not end that: it may have been set forward.
        let gathers =
            |it: &Gathering| self.underway.preparation == Preparation::Gathering { until: it.until };
        let before = self.underway.gathering.filter(|it| now < it.until || gathers(it));
        self.underway.gathering = match (more, before) {
            (Some(more), _) => Some(Gathering { part: seq, until: now.plus(more) }),
            (None, Some(before)) => Some(Gathering { part: seq, ..before }),
            (None, None) => None,
        };
        let Some(before) = before else { return };
        let Phase::Turn(turn @ Turn { group: None, .. }) = &self.phase else { return };
        if turn.inputs.iter().any(|input| input.seq == before.part) && self.join_waiting(now, acts) {
            // A request that is out does not know of it. One that is not has yet to be made, for all of it.
            match self.underway.preparation {
                Preparation::Gathering { .. } if more.is_none() => {}
                Preparation::Gathering { .. } | Preparation::Prompting => self.underway.request = None,
                _ => self.next_step(),
            }
        }
    }

    /// The time for more is over.
    pub(super) fn gathered(&mut self, turn: TurnId, step: u32, until: Time, rules: &Rules) {
        if self.is_preparing((turn, step), Preparation::Gathering { until }) {
            self.underway.gathering = None;
            self.underway.preparation = self.after_gathering(rules);
        }
    }

    fn next_step(&mut self) {
        if let Phase::Turn(turn) = &mut self.phase {
            turn.step += 1;
        }
    }

    // ----------------------------------------------------------------------------------- prompting

    /// The first turn of a session freezes a prompt; a client may bring another layer of it along with any.
    fn wants_prompt(&self) -> bool {
        let Some(prompt) = &self.underway.prompt else { return true };
        self.layer().is_some_and(|layer| prompt.layer != Some(Digest::of(&[layer.as_bytes()])))
    }

    /// What the client of the running turn adds to the system prompt.
    fn layer(&self) -> Option<&str> {
        let Phase::Turn(turn) = &self.phase else { return None };
        match &turn.inputs.first()?.kind {
            Kind::Request(request) => request.system.as_deref(),
            Kind::Chat(_) | Kind::Command(_) => None,
        }
    }

    /// The agent's part of the prompt is there: the rest is added here.
    pub(super) fn prompted(
        &mut self,
        at: (TurnId, u32),
        persona: &str,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        if !self.is_preparing(at, Preparation::Prompting) {
            return acts.push(super::echo("prompt", at.0, at.1));
        }
        let layer = self.layer();
        let digest = layer.map(|layer| Digest::of(&[layer.as_bytes()]));
        let text = with_personality(&composed(persona, layer), self.preferences.personality.as_ref());
        if self.underway.prompt.replace(FrozenPrompt { text, layer: digest }).is_some() {
            let detail = "the client changed its system prompt".to_owned();
            acts.push(Act::Note { name: CACHE_BREAK, detail });
        }
        self.underway.prompt_is_written = false;
        self.underway.preparation = self.after_prompting(now, rules);
    }

    /// A person wants the agent to speak otherwise: the prompt says so, at the price of a break.
    pub(super) fn speak_otherwise(&mut self, acts: &mut Vec<Act>) {
        let personality = self.preferences.personality.as_ref();
        let Some(prompt) = &mut self.underway.prompt else { return };
        prompt.text = with_personality(&prompt.text, personality);
        self.underway.prompt_is_written = false;
        acts.push(Act::Note { name: CACHE_BREAK, detail: "another personality was chosen".to_owned() });
    }

    // ----------------------------------------------------------------------------------- recalling

    fn wants_recall(&self, rules: &Rules) -> bool {
        let Phase::Turn(turn) = &self.phase else { return false };
        let asks = rules.recalls || (rules.recollects && turn.id.0 == Seq(1));
        asks && self.underway.reminded != Some(turn.id)
            && turn.step == turn.first_step
            && !turn.is_aside()
            && !self.is_being_left()
    }

    pub(super) fn recalled(&mut self, at @ (turn, _): (TurnId, u32), recall: Recall, acts: &mut Vec<Act>) {
        if let Recall::Late(text) = recall {
            return self.recalled_late(at, text, acts);
        }
        if !self.is_preparing(at, Preparation::Recalling) {
            return drop_recall(format!("turn {turn}"), acts);
        }
        self.underway.reminded = Some(turn);
        match recall {
            Recall::Unasked | Recall::Late(_) => {}
            Recall::Found { row, said, text } => {
                self.underway.late = None;
                self.remind(row, said, &text);
            }
            Recall::Missed { row, said, pending } => {
                acts.push(Act::Note {
                    name: "recall_missed",
                    detail: format!("turn {turn} went on without it"),
                });
                let earlier = self.underway.late.take();
                self.underway.lingering = pending.then_some(at);
                match earlier {
                    Some((generation, text)) if generation == self.generation => {
                        self.remind(row, said, &text)
                    }
                    Some(_) => drop_recall("an earlier owner had asked".to_owned(), acts),
                    None => {}
                }
            }
        }
        self.underway.preparation = Preparation::Ready;
    }

    fn recalled_late(&mut self, at: (TurnId, u32), text: Option<String>, acts: &mut Vec<Act>) {
        if self.underway.lingering.take_if(|lingering| *lingering == at).is_none() {
            return;
        }
        let Some(text) = text else { return };
        if matches!(self.phase, Phase::Closed(_)) {
            return drop_recall("it came when the conversation was over".to_owned(), acts);
        }
        self.underway.late = Some((self.generation, text));
        let detail = "for the next turn of the same person".to_owned();
        acts.push(Act::Note { name: "late_recall_kept", detail });
    }

    fn remind(&mut self, row: RowId, said: String, recalled: &str) {
        let Some(sent_as) = fenced(&said, recalled) else { return };
        self.underway.reminder = Some(Reminder { row, said, sent_as });
        self.underway.reminder_is_written = false;
    }

    /// A turn that was joined by more is asked without what its memory was asked about the beginning.
    fn note_overtaken_recall(&mut self, now: Option<(TurnId, u32)>, acts: &mut Vec<Act>) {
        if let (Some((turn, _)), Preparation::Recalling) = (self.underway.request, self.underway.preparation)
            && matches!(&self.phase, Phase::Turn(current) if current.id == turn)
            && now.is_some()
        {
            let detail = format!("turn {turn} went on without it");
            acts.push(Act::Note { name: "recall_missed", detail });
        }
    }

    /// A switch waits for the turn, but the turn waits no longer for its reminder then.
    fn hurry_recall(&mut self, acts: &mut Vec<Act>) {
        if !self.is_being_left() {
            return;
        }
        let (lingering, late) = (self.underway.lingering.take(), self.underway.late.take());
        if lingering.is_some() || late.is_some() {
            drop_recall("the conversation was being left".to_owned(), acts);
        }
        if let (Some((turn, _)), Preparation::Recalling) = (self.underway.request, self.underway.preparation)
        {
            self.underway.reminded = Some(turn);
            self.underway.preparation = Preparation::Ready;
            acts.push(Act::Note { name: "recall_missed", detail: format!("turn {turn} was being left") });
        }
    }

    /// A person has ordered what the running turn holds up.
    fn is_being_left(&self) -> bool {
        let leaves = |input: &Arc<Input>| match &input.kind {
            Kind::Command(command) => {
                command.ends() || matches!(command, Command::Deferred(DeferredCommand::Undo { .. }))
            }
            Kind::Chat(_) | Kind::Request(_) => false,
        };
        self.waiting.iter().any(leaves)
    }

    // ------------------------------------------------------------------------------------- writing

    /// Nothing is committed for these alone: the next commit of any kind brings them along.
    fn write_preparations(&mut self, acts: &mut Vec<Act>) {
        if acts.is_empty() {
            return;
        }
        let underway = &mut self.underway;
        if let Some(FrozenPrompt { text, layer }) = &underway.prompt
            && !std::mem::replace(&mut underway.prompt_is_written, true)
        {
            // Before what depends on it: a review that falls due remembers the prompt of its session.
            let place = usize::from(matches!(acts.first(), Some(Act::Open(_))));
            acts.insert(place, Act::Freeze { prompt: text.clone(), layer: *layer });
        }
        if let Some(Reminder { row, sent_as, .. }) = &underway.reminder
            && !std::mem::replace(&mut underway.reminder_is_written, true)
        {
            acts.push(Act::Recall { row: *row, sent_as: sent_as.clone() });
        }
    }
}

/// The name of the event that a request does not begin with the bytes of the one before it.
pub const CACHE_BREAK: &str = "cache_break";

fn drop_recall(detail: String, acts: &mut Vec<Act>) {
    acts.push(Act::Note { name: "stale_recall_dropped", detail });
}

/// The persona of the agent, and what a client adds to it.
fn composed(persona: &str, layer: Option<&str>) -> String {
    match layer {
        Some(layer) if !layer.is_empty() && !persona.is_empty() => format!("{persona}\n\n{layer}"),
        Some(layer) if persona.is_empty() => layer.to_owned(),
        _ => persona.to_owned(),
    }
}

/// What stands between a system prompt and how the agent is to speak.
const PERSONALITY: &str = "\n\n[How to speak, as chosen for this conversation: ";

/// The same prompt with this personality at its end, and no other.
fn with_personality(prompt: &str, personality: Option<&Personality>) -> Arc<str> {
    let bare = prompt.rfind(PERSONALITY).map_or(prompt, |end| &prompt[..end]);
    match personality {
        Some(Personality { name, prompt }) => format!("{bare}{PERSONALITY}{name}]\n{prompt}").into(),
        None => bare.into(),
    }
}

#[cfg(test)]
mod tests;
