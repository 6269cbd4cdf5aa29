//! The life of one conversation, as a pure function.
//!
//! [`Session::step`] takes what happened and when, and returns what to write about it. The shell
//! commits both before acting, so a crash loses no message and can repeat an effect only under
//! the key it had before. Nothing here reads a clock, a disk or a random number.
//!
//! - the id never changes: compression is not a birth
//! - positions only rise: a message waits by lying above `answered`; there is no queue to lose
//! - at most one turn and one compression are in flight, and they meet only before a request
//! - whatever belongs to an earlier step, turn or generation is an echo, and changes nothing

use crate::command::{Command, HELP};
use crate::id::{Epoch, Generation, RowId, Seq, SessionId, TurnId, View};
use crate::input::{Birth, Destination, Input, Kind};
use crate::message::{Body, Message, ToolResult};
use crate::prompt::{Digest, Mark};
use crate::route;
use crate::time::Time;
use crate::turn::{Answer, Group, RESUMES_MAX, Step, Turn};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where one session stands. Everything but `waiting` and the inputs of the turn is one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub generation: Generation,
    pub epoch: Epoch,
    pub view: View,
    /// The last input that came in.
    pub received: Seq,
    /// Every input up to this one is settled.
    pub answered: Seq,
    pub phase: Phase,
    pub compression: Option<Compression>,
    /// The turn that failed last, as long as nothing has been said since: it can be tried again.
    pub failed: Option<TurnId>,
    /// Inputs above `answered` that no turn has taken up, in order. The inbox rows themselves.
    pub waiting: VecDeque<Arc<Input>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Idle,
    Turn(Turn),
    /// Ended. What is left is to hand it over, once.
    Closed(Finalisation),
}

/// The hand-over of an ended session, in this order, each stage committed before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finalisation {
    Claimed,
    Hooks,
    Provider,
    Evicted,
    Done,
}

impl Finalisation {
    pub fn next(self) -> Self {
        match self {
            Self::Claimed => Self::Hooks,
            Self::Hooks => Self::Provider,
            Self::Provider => Self::Evicted,
            Self::Evicted | Self::Done => Self::Done,
        }
    }
}

/// One compression, prepared beside live turns and promoted before a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    pub operation: u64,
    /// The view it summarises: on any other it is stale.
    pub base: View,
    /// The last row that the summary stands for.
    pub cut: RowId,
    pub stage: CompressionStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionStage {
    Preparing,
    Ready,
}

/// What the user chose about behaviour that the machine decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub busy: BusyInput,
    /// Reported prompt tokens from which a compression is prepared. None: never.
    pub soft_tokens: Option<u64>,
}

/// What becomes of a chat message that arrives during a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyInput {
    /// It waits for the next turn.
    #[default]
    Queue,
    /// The model is asked again at once, with it.
    Interrupt,
    /// It joins after the next step.
    Steer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An actor took the session up after a start: whatever was running is not any more.
    Loaded,
    /// Its `seq` is the one after `received`.
    Received(Arc<Input>),
    Answered {
        turn: TurnId,
        step: u32,
        answer: Answer,
        prompt: Mark,
        cut: Option<RowId>,
    },
    Called {
        turn: TurnId,
        step: u32,
        index: usize,
        result: ToolResult,
    },
    Failed {
        turn: TurnId,
        step: u32,
        failure: Failure,
    },
    /// A client asks again for a turn that failed.
    Retried {
        inputs: Vec<Arc<Input>>,
        began: Time,
    },
    Finalised(Finalisation),
    Summarised {
        operation: u64,
    },
    SummaryFailed {
        operation: u64,
    },
}

/// Why a turn ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// A sentence for the user, free of secrets.
    pub message: String,
}

/// By what the one who asked can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Try again later, after this many seconds if the provider said so.
    Wait { after_seconds: Option<u32> },
    /// The conversation is too long for the model.
    TooLong,
    /// The key or the account must be put right first.
    Credentials,
    /// The request itself was refused.
    Refused,
    /// The model answered rubbish or broke off.
    Broken,
    /// Parked: its tools ended the process too often.
    Parked,
}

/// What the transaction writes beside the new state.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The session itself, with what its first input brought along.
    Open(Box<Birth>),
    /// The input, and its key, for ever. Refused as a whole if the key is known.
    Accept(Arc<Input>),
    /// The turn took up these inputs; for the first time, or again after it failed.
    Begin {
        turn: TurnId,
        inputs: Vec<Seq>,
    },
    /// The next row of the transcript.
    Append(Message),
    Step(Box<Step>),
    Result {
        turn: TurnId,
        step: u32,
        index: usize,
        result: ToolResult,
    },
    Settle {
        seq: Seq,
        outcome: Outcome,
    },
    /// The client's view of the conversation now ends here.
    Tip {
        turn: TurnId,
        thread: Digest,
    },
    Deliver(Reply),
    /// The system prompt, frozen with the session until a client brings another layer of it.
    Freeze {
        prompt: Arc<str>,
        layer: Option<Digest>,
    },
    Close {
        reason: &'static str,
        successor: SessionId,
        moved: Vec<Arc<Input>>,
    },
    Compress(Compression),
    Promote(Compression),
    /// Something worth counting happened: a drop, an echo, a degradation, a cache break.
    Note {
        name: &'static str,
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Answered by this turn, whose last step is in the transcript.
    Answered(TurnId),
    Failed(TurnId, Failure),
    /// A command was carried out, and this is what it said.
    Done {
        said: String,
        successor: Option<SessionId>,
    },
    /// It waited in a session that ended, and now waits in the next.
    Moved {
        session: SessionId,
        seq: Seq,
    },
}

/// A text for a place, under a key that stays the same however often it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub key: String,
    pub destination: Destination,
    pub text: String,
}

/// What a state implies should be running. Derived, never stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Job {
    Ask { turn: TurnId, step: u32 },
    Call { turn: TurnId, step: u32, index: usize },
    Finalise(u8),
    Summarise { operation: u64 },
}

impl Session {
    /// A conversation nobody has spoken in yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            generation: Generation(0),
            epoch: Epoch(1),
            view: View(1),
            received: Seq(0),
            answered: Seq(0),
            phase: Phase::Idle,
            compression: None,
            failed: None,
            waiting: VecDeque::new(),
        }
    }

    #[must_use]
    pub fn step(&self, event: Event, now: Time, rules: &Rules) -> (Session, Vec<Act>) {
        let mut next = self.clone();
        let mut acts = Vec::new();
        match event {
            Event::Loaded => next.take_up(now, &mut acts),
            Event::Received(input) => next.receive(input, now, rules, &mut acts),
            Event::Answered { turn, step, answer, prompt, cut } if self.is_at(turn, step) => {
                next.consider_compression(answer.usage.prompt(), cut, rules, &mut acts);
                next.answer(answer, prompt, now, &mut acts);
            }
            Event::Called { turn, step, index, result } if self.is_at(turn, step) => {
                next.close_call(index, result, now, rules, &mut acts);
            }
            Event::Failed { turn, step, failure } if self.is_at(turn, step) => next.fail(failure, &mut acts),
            Event::Retried { inputs, began } => next.retry(inputs, began, &mut acts),
            Event::Finalised(stage) => match next.phase {
                Phase::Closed(current) if current == stage => next.phase = Phase::Closed(stage.next()),
                _ => {}
            },
            Event::Summarised { operation } => next.summarised(operation, &mut acts),
            Event::SummaryFailed { operation } => {
                next.compression.take_if(|compression| compression.operation == operation);
            }
            Event::Answered { turn, step, .. } => acts.push(echo("answer", turn, step)),
            Event::Called { turn, step, .. } => acts.push(echo("result", turn, step)),
            Event::Failed { turn, step, .. } => acts.push(echo("failure", turn, step)),
        }
        next.begin_waiting(now, &mut acts);
        (next, acts)
    }

    /// What should be running now. A restart begins here, too.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        match &self.phase {
            Phase::Idle | Phase::Closed(Finalisation::Done) => {}
            Phase::Closed(stage) => jobs.push(Job::Finalise(*stage as u8)),
            Phase::Turn(Turn { id, step, group: None, .. }) => jobs.push(Job::Ask { turn: *id, step: *step }),
            Phase::Turn(Turn { id, step, group: Some(group), .. }) => {
                let open = group.results.iter().enumerate().filter(|(_, result)| result.is_none());
                jobs.extend(open.map(|(index, _)| Job::Call { turn: *id, step: *step, index }));
            }
        }
        if let Some(Compression { operation, stage: CompressionStage::Preparing, .. }) = self.compression {
            jobs.push(Job::Summarise { operation });
        }
        jobs
    }

    /// Nothing runs and nothing waits: the actor may rest.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.jobs().is_empty()
    }

    fn is_at(&self, turn: TurnId, step: u32) -> bool {
        matches!(&self.phase, Phase::Turn(current) if current.id == turn && current.step == step)
    }

    fn take_up(&mut self, now: Time, acts: &mut Vec<Act>) {
        self.generation = self.generation.next();
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &mut turn.group else { return };
        turn.resumes += 1;
        let parked = turn.resumes > RESUMES_MAX;
        let (id, step) = (turn.id, turn.step);
        for index in group.give_up() {
            let result = group.results[index].clone().expect("give_up filled it");
            acts.push(Act::Result { turn: id, step, index, result });
        }
        self.close_group(now, acts);
        if parked {
            let message = format!(
                "This turn's tools were running when the gateway stopped, {} times in a row. \
                 It was set aside; send the message again to try once more.",
                RESUMES_MAX + 1
            );
            self.fail(Failure { kind: FailureKind::Parked, message }, acts);
        }
    }

    fn receive(&mut self, input: Arc<Input>, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        debug_assert_eq!(input.seq, self.received.next(), "the owner numbers its inbox without gaps");
        self.received = input.seq;
        acts.push(Act::Accept(input.clone()));
        match &input.kind {
            Kind::Command(command) if command.passes_the_queue() => {
                let said = self.report(command);
                self.settle(&input, Outcome::Done { said, successor: None }, acts);
            }
            Kind::Chat(_) => {
                self.waiting.push_back(input);
                if rules.busy == BusyInput::Interrupt {
                    self.interrupt(now, acts);
                }
            }
            Kind::Request(_) | Kind::Command(_) => self.waiting.push_back(input),
        }
    }

    /// Asks the model again with what has arrived. Inside an open tool group it must wait.
    fn interrupt(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Phase::Turn(Turn { group: None, .. }) = self.phase else { return };
        if self.join_waiting(now, acts) {
            let Phase::Turn(turn) = &mut self.phase else { return };
            turn.step += 1;
            acts.push(Act::Note { name: "turn_interrupted", detail: format!("turn {}", turn.id) });
        }
    }

    fn answer(&mut self, answer: Answer, prompt: Mark, now: Time, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Answer { said, usage, model } = answer;
        let open = (!said.calls.is_empty()).then(|| said.clone());
        let step = Step { turn: turn.id, step: turn.step, at: now, model, usage, prompt, open };
        acts.push(Act::Step(Box::new(step)));
        if !said.calls.is_empty() {
            turn.group = Some(Group::new(said));
            return;
        }
        let content = said.content.clone();
        acts.push(Act::Append(Message::new(now, Body::Assistant(said))));
        let turn = turn.clone();
        self.phase = Phase::Idle;
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Answered(turn.id), acts);
        }
        let Some(last) = turn.inputs.last() else { return };
        if let Some(destination) = &last.reply_to {
            let key = format!("{}/{}", self.id, turn.id);
            acts.push(Act::Deliver(Reply { key, destination: destination.clone(), text: content.plain() }));
        }
        if let Kind::Request(request) = &last.kind
            && let Some(thread) = request.thread
        {
            let thread = route::resume(thread, "assistant", &content).digest();
            acts.push(Act::Tip { turn: turn.id, thread });
        }
    }

    fn close_call(
        &mut self,
        index: usize,
        result: ToolResult,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &mut turn.group else { return };
        match group.results.get_mut(index) {
            Some(slot @ None) => *slot = Some(result.clone()),
            _ => return, // an echo of a call that has its result
        }
        acts.push(Act::Result { turn: turn.id, step: turn.step, index, result });
        if group.is_closed() {
            self.close_group(now, acts);
            if rules.busy != BusyInput::Queue {
                self.join_waiting(now, acts);
            }
        }
    }

    fn close_group(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        if let Some(group) = turn.group.take() {
            acts.extend(group.into_rows(now).into_iter().map(Act::Append));
            turn.step += 1;
        }
    }

    fn fail(&mut self, failure: Failure, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        self.failed = Some(turn.id);
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Failed(turn.id, failure.clone()), acts);
        }
        // A notice is for the chat, not for the model: it goes to the outbox, never into the transcript.
        if let Some(destination) = turn.inputs.last().and_then(|input| input.reply_to.clone()) {
            let key = format!("{}/{}/failed/{}", self.id, turn.id, turn.resumes);
            acts.push(Act::Deliver(Reply { key, destination, text: failure.message }));
        }
    }

    /// The same turn again, on the same rows: nothing has been said since it failed.
    fn retry(&mut self, inputs: Vec<Arc<Input>>, began: Time, acts: &mut Vec<Act>) {
        let Some(first) = inputs.first() else { return };
        let id = TurnId(first.seq);
        if self.phase != Phase::Idle || self.failed != Some(id) {
            return;
        }
        acts.push(Act::Begin { turn: id, inputs: inputs.iter().map(|input| input.seq).collect() });
        self.failed = None;
        self.phase = Phase::Turn(Turn { id, began, inputs, step: 0, group: None, resumes: 0 });
    }

    /// Takes up what waits, if nothing runs. Commands at the front are carried out one by one.
    fn begin_waiting(&mut self, now: Time, acts: &mut Vec<Act>) {
        while self.phase == Phase::Idle {
            let Some(first) = self.waiting.pop_front() else { return };
            match &first.kind {
                Kind::Command(Command::New { successor }) => {
                    let successor = successor.clone();
                    self.close(&first, successor, acts);
                }
                Kind::Command(command) => {
                    let said = self.report(command);
                    self.settle(&first, Outcome::Done { said, successor: None }, acts);
                }
                Kind::Request(_) | Kind::Chat(_) => self.begin(first, now, acts),
            }
        }
    }

    fn begin(&mut self, first: Arc<Input>, now: Time, acts: &mut Vec<Act>) {
        self.promote(acts);
        self.failed = None;
        let id = TurnId(first.seq);
        let shares = matches!(first.kind, Kind::Chat(_));
        acts.push(Act::Begin { turn: id, inputs: vec![first.seq] });
        acts.extend(said_by(&first).map(Act::Append));
        self.phase =
            Phase::Turn(Turn { id, began: now, inputs: vec![first], step: 0, group: None, resumes: 0 });
        if shares {
            self.join_waiting(now, acts);
        }
    }

    /// The chat messages at the front of what waits become part of the running turn, each as its own row.
    fn join_waiting(&mut self, _now: Time, acts: &mut Vec<Act>) -> bool {
        let Phase::Turn(turn) = &mut self.phase else { return false };
        if turn.inputs.iter().any(|input| !matches!(input.kind, Kind::Chat(_))) {
            return false; // an API request keeps its turn to itself
        }
        let before = turn.inputs.len();
        while let Some(input) = self.waiting.pop_front_if(|input| shares(&turn.inputs[0], input)) {
            acts.push(Act::Begin { turn: turn.id, inputs: vec![input.seq] });
            acts.extend(said_by(&input).map(Act::Append));
            turn.inputs.push(input);
        }
        turn.inputs.len() > before
    }

    fn close(&mut self, order: &Arc<Input>, successor: SessionId, acts: &mut Vec<Act>) {
        let moved: Vec<_> = self.waiting.drain(..).collect();
        let said = match moved.len() {
            0 => format!("A new conversation has begun: {successor}."),
            1 => format!("A new conversation has begun: {successor}. The message that waits goes there."),
            many => {
                format!("A new conversation has begun: {successor}. The {many} messages that wait go there.")
            }
        };
        self.settle(order, Outcome::Done { said, successor: Some(successor.clone()) }, acts);
        for (input, seq) in moved.iter().zip(1..) {
            let outcome = Outcome::Moved { session: successor.clone(), seq: Seq(seq) };
            self.settle_quietly(input.seq, outcome, acts);
        }
        self.compression = None;
        self.phase = Phase::Closed(Finalisation::Claimed);
        acts.push(Act::Close { reason: "session_reset", successor, moved });
    }

    fn settle(&mut self, input: &Arc<Input>, outcome: Outcome, acts: &mut Vec<Act>) {
        if let (Some(destination), Outcome::Done { said, .. }) = (&input.reply_to, &outcome) {
            let key = format!("{}/{}/done", self.id, input.seq);
            acts.push(Act::Deliver(Reply { key, destination: destination.clone(), text: said.clone() }));
        }
        self.settle_quietly(input.seq, outcome, acts);
    }

    fn settle_quietly(&mut self, seq: Seq, outcome: Outcome, acts: &mut Vec<Act>) {
        acts.push(Act::Settle { seq, outcome });
        // The prefix ends before the first input that still waits or runs.
        let running = match &self.phase {
            Phase::Turn(turn) => turn.inputs.first().map(|input| input.seq),
            Phase::Idle | Phase::Closed(_) => None,
        };
        let unsettled = running.into_iter().chain(self.waiting.front().map(|input| input.seq)).min();
        let prefix = unsettled.map_or(self.received, |first| Seq(first.0 - 1));
        self.answered = self.answered.max(prefix);
    }

    fn report(&self, command: &Command) -> String {
        match command {
            Command::Help => HELP.to_owned(),
            Command::Unknown { name } => {
                format!(
                    "There is no command /{name}. /help lists those there are; nothing was sent to the model."
                )
            }
            Command::Status | Command::New { .. } => {
                let doing = match &self.phase {
                    Phase::Idle => "idle".to_owned(),
                    Phase::Turn(turn) => format!("answering message {}, step {}", turn.id, turn.step + 1),
                    Phase::Closed(_) => "ended".to_owned(),
                };
                let waiting = self.waiting.len();
                format!("Session {}\n{doing}; {waiting} waiting; {} received", self.id, self.received)
            }
        }
    }

    fn consider_compression(&mut self, prompt: u64, cut: Option<RowId>, rules: &Rules, acts: &mut Vec<Act>) {
        let (Some(soft), Some(cut), None) = (rules.soft_tokens, cut, &self.compression) else { return };
        if prompt >= soft {
            let operation = self.received.0; // one per boundary, and it only rises
            let compression =
                Compression { operation, base: self.view, cut, stage: CompressionStage::Preparing };
            acts.push(Act::Compress(compression.clone()));
            self.compression = Some(compression);
        }
    }

    fn summarised(&mut self, operation: u64, acts: &mut Vec<Act>) {
        let Some(compression) = &mut self.compression else { return };
        if compression.operation == operation && compression.stage == CompressionStage::Preparing {
            compression.stage = CompressionStage::Ready;
            acts.push(Act::Compress(compression.clone()));
        }
    }

    /// Before a request, a summary that is ready takes the place of what it stands for.
    fn promote(&mut self, acts: &mut Vec<Act>) {
        let ready = self.compression.take_if(|compression| compression.stage == CompressionStage::Ready);
        if let Some(compression) = ready
            && compression.base == self.view
        {
            self.view = self.view.next();
            acts.push(Act::Promote(compression));
        }
    }
}

/// A turn has one reply, so only what is answered in one place can share it.
fn shares(first: &Input, other: &Input) -> bool {
    let one_place = match (&first.reply_to, &other.reply_to) {
        (Some(here), Some(there)) => here.is_same_place(there),
        (None, None) => true,
        _ => false,
    };
    one_place && matches!(other.kind, Kind::Chat(_))
}

fn said_by(input: &Input) -> Option<Message> {
    let content = match &input.kind {
        Kind::Chat(content) => content.clone(),
        Kind::Request(request) => request.content.clone(),
        Kind::Command(_) => return None,
    };
    let mut message = Message::user(input.at, content);
    message.platform_id.clone_from(&input.platform_id);
    Some(message)
}

fn echo(what: &'static str, turn: TurnId, step: u32) -> Act {
    Act::Note { name: "late_result_dropped", detail: format!("{what} of turn {turn}, step {step}") }
}

#[cfg(test)]
mod tests;
