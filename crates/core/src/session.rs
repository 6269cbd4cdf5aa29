//! The life of one conversation, as a pure function.
//!
//! [`Session::step`] takes what happened and when, and returns what to write about it. The shell
//! commits both before acting, so a crash loses no message and can repeat an effect only under
//! the key it had before. Nothing here reads a clock, a disk or a random number.
//!
//! - the id never changes: compression is not a birth
//! - positions only rise: a message waits by lying above `answered`; there is no queue to lose
//! - at most one turn and one compression are in flight, and they meet only before a request
//! - all that belongs to an earlier step, turn or generation is an echo, and changes nothing

use crate::chain::Foreign;
use crate::command::Command;
use crate::compression::{Operation, Stage, Upkeep};
use crate::guard::{REPEATED, Repeated};
use crate::history::OUTCOME_UNKNOWN;
use crate::id::{Epoch, Generation, Seq, SessionId, TurnId, View};
use crate::input::{AGENT_PLATFORM, Destination, Input, Kind, Root, Trace};
use crate::message::{Body, Content, Message, ToolResult, distinct_ids};
use crate::prompt::Mark;
use crate::route;
use crate::time::Time;
use crate::tool::{Letter, Verdict};
use crate::turn::{Answer, ClientCalls, Group, RESUMES_MAX, Slot, Step, Turn};
pub use act::{Act, Outcome, Reply};
use ask::Asking;
pub use ask::{Approver, UNATTENDED};
use client::results_of;
pub use event::{Event, Failure, FailureKind};
pub use job::Job;
use lifecycle::Handover;
pub use past::{BRANCHED, RESUMED, Switch};
pub use preference::{Personality, Preferences, ToolProgress};
use prepare::Underway;
pub use prepare::{CACHE_BREAK, FrozenPrompt, Preparation, Recall, Reminder};
pub use propose::Proposal;
pub use retain::Kept;
pub use rules::{BusyInput, Rules};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// One conversation, as only this crate changes it: by [`Session::step`], or by a proposal. Its state can be read, and
/// a store puts it together again from what it wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Session(SessionState);

impl Deref for Session {
    type Target = SessionState;

    fn deref(&self) -> &SessionState {
        &self.0
    }
}

impl Session {
    /// A conversation in which nothing has been said yet.
    pub fn new(id: SessionId) -> Self {
        Self(SessionState::new(id))
    }

    /// A copy of another conversation, in which nothing has been said yet.
    pub fn copy_with(id: SessionId, preferences: Preferences) -> Self {
        Self(SessionState { preferences, ..SessionState::new(id) })
    }

    /// As a store has it.
    pub fn restored(state: SessionState) -> Self {
        Self(state)
    }

    /// As a store writes it.
    pub fn into_state(self) -> SessionState {
        self.0
    }

    /// What an event leads to: the next state, and what is to be written with it.
    #[must_use]
    pub fn step(&self, event: Event, now: Time, rules: &Rules) -> (Self, Vec<Act>) {
        let (next, acts) = self.0.step(event, now, rules);
        (Self(next), acts)
    }

    /// The inputs that a step has taken up while their texts were on disk only, read.
    pub fn take_in_whole(
        &mut self,
        read: &BTreeMap<Seq, Arc<Input>>,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        self.0.take_in_whole(read, now, rules, acts);
    }
}

/// Where one session stands. Everything but `waiting` and the inputs of the turn is one row.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionState {
    pub id: SessionId,
    pub generation: Generation,
    pub epoch: Epoch,
    pub view: View,
    /// The last input that came in.
    pub received: Seq,
    /// Every input up to this one is settled.
    pub answered: Seq,
    pub phase: Phase,
    /// Calls that the client of the last turn is to run. Only a session at rest has some.
    pub client_calls: Option<ClientCalls>,
    /// All that was said here came without the name of a session or a person: no session is reminded of it.
    pub stateless: bool,
    pub compression: Option<Operation>,
    pub upkeep: Upkeep,
    /// The turn that failed last, as long as nothing has been said since: it can be tried again.
    pub failed: Option<TurnId>,
    /// The step at which it would go on: no call of the next try gets the key of one of the last.
    pub failed_step: u32,
    /// What a person has allowed here for good: names of patterns.
    pub allowed: Vec<String>,
    /// Where a person last wrote from.
    pub place: Option<Destination>,
    /// What bots that are none of ours have had answered here.
    pub foreign: Foreign,
    /// What the people of this session should read and could not be told: they have no chat. It joins the next
    /// answer that one of them gets.
    pub untold: Vec<String>,
    /// The last notices that were given to these people, by their keys: none is given twice.
    pub announced: VecDeque<String>,
    /// Silenced by the operator, or held because it is from before our time: nothing is begun until a
    /// person writes again.
    pub halted: bool,
    /// What a person has chosen for this conversation.
    pub preferences: Preferences,
    /// When a message or an answer last came here. Zero: none has, in our time.
    pub active: Time,
    /// Hermes has handed it over already, and no message has come since.
    pub finalised: bool,
    /// How its hand-over goes, once it has ended.
    pub handover: Handover,
    pub reviews: review::Reviews,
    /// Inputs above `answered` that no turn has taken up, in order: each as [`Input::light`] has it, so that their long
    /// texts are on disk only. A turn that takes one up has it whole.
    pub waiting: VecDeque<Arc<Input>>,
    /// What the next request waits for. Of this nothing is stored.
    underway: Underway,
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

impl SessionState {
    /// A conversation in which nothing is said yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            generation: Generation(0),
            epoch: Epoch(1),
            view: View(1),
            received: Seq(0),
            answered: Seq(0),
            phase: Phase::Idle,
            client_calls: None,
            stateless: false,
            compression: None,
            upkeep: Upkeep::default(),
            failed: None,
            failed_step: 0,
            allowed: Vec::new(),
            place: None,
            foreign: Foreign::default(),
            untold: Vec::new(),
            announced: VecDeque::new(),
            halted: false,
            preferences: Preferences::default(),
            active: Time::default(),
            finalised: false,
            handover: Handover::default(),
            reviews: review::Reviews::default(),
            waiting: VecDeque::new(),
            underway: Underway::default(),
        }
    }

    #[must_use]
    pub(crate) fn step(&self, event: Event, now: Time, rules: &Rules) -> (SessionState, Vec<Act>) {
        let mut next = self.clone();
        let mut acts = Vec::new();
        match event {
            Event::Loaded { repeatable } => {
                if rules.hard_tokens.is_none() {
                    next.switch_off(&mut acts);
                }
                next.take_up(&repeatable, now, &mut acts);
                next.take_up_handover(now, &mut acts);
                next.take_up_reviews(now, rules, &mut acts);
            }
            Event::Received(input) => next.receive(input, None, now, rules, &mut acts),
            Event::ReceivedPart { input, more } => next.receive(input, Some(more), now, rules, &mut acts),
            Event::Stored { prompt, context } => {
                next.know_prompt(prompt);
                next.upkeep.context = next.upkeep.context.max(context);
            }
            Event::Gathered { turn, step, until } => next.gathered(turn, step, until, rules),
            Event::Prompted { turn, step, persona } => {
                next.prompted((turn, step), &persona, now, rules, &mut acts);
            }
            Event::Recalled { turn, step, recall } => next.recalled((turn, step), recall, &mut acts),
            Event::Answered { turn, step, answer, prompt, full } if self.is_at(turn, step) => {
                next.count_answer(&answer, full, now);
                next.answer(answer, prompt, now, rules, &mut acts);
                next.consider_review(self, now, rules, &mut acts);
            }
            Event::Called { turn, step, index, result, sends } if self.is_at(turn, step) => {
                next.close_call(index, result, sends, now, rules, &mut acts);
            }
            Event::Asked { turn, step, index, question, patience, approver } if self.is_at(turn, step) => {
                next.ask(index, question, Asking { patience, approver }, now, rules, &mut acts);
            }
            Event::Decided { turn, step, index, verdict } if self.is_at(turn, step) => {
                next.decide(index, verdict, now, rules, &mut acts);
            }
            Event::Shared { seq, shared } => next.share(seq, shared, now, rules, &mut acts),
            Event::Spent { turn, step, cut } if self.is_at(turn, step) => {
                next.end_spent(cut, rules, &mut acts)
            }
            Event::Abandoned { seq } => next.abandon_turn(seq, now, &mut acts),
            Event::Halted => next.halt(now, &mut acts),
            Event::Released => {
                next.halted = false;
                next.release_handover();
            }
            Event::Failed { turn, step, failure } if self.is_at(turn, step) => {
                if failure.kind != FailureKind::TooLong || !next.shorten(now, rules, &mut acts) {
                    next.fail(failure, &mut acts);
                }
            }
            Event::Retried { inputs, began } => next.retry(inputs, began, &mut acts),
            Event::Finalised(stage) => next.finalise(stage),
            Event::Handing(news) => next.hand_over(news, now, &mut acts),
            Event::Expired { reason, noticed } => next.expire(reason, noticed, now, &mut acts),
            Event::Reopened => next.reopen(now, &mut acts),
            Event::Surveyed { asked, found } => next.surveyed(&asked, found, now, &mut acts),
            Event::Summarised { operation, summary, digest } => {
                next.summarised(operation, summary, digest, now, &mut acts);
            }
            Event::Reported { operation, promoted } => next.reported(operation, &promoted, &mut acts),
            Event::Rewritten { from } => next.rewritten(from, &mut acts),
            Event::Restored { snapshot, context } => next.restore(snapshot, context, now, &mut acts),
            Event::Ordered { seq, found } => next.ordered(seq, found, now, &mut acts),
            Event::Reviewed { number, result } => next.reviewed(number, result, now, &mut acts),
            Event::Answered { turn, step, .. } => acts.push(echo("answer", turn, step)),
            Event::Called { turn, step, .. } => acts.push(echo("result", turn, step)),
            Event::Asked { turn, step, .. } => acts.push(echo("question", turn, step)),
            Event::Decided { turn, step, .. } => acts.push(echo("decision", turn, step)),
            Event::Failed { turn, step, .. } => acts.push(echo("failure", turn, step)),
            Event::Spent { turn, step, .. } => acts.push(echo("refusal", turn, step)),
        }
        next.attach(&mut acts);
        next.begin_waiting(now, rules, &mut acts);
        next.count_turn(self, rules);
        next.weigh(&acts);
        if next.request().is_some() && next.request() != self.request() {
            next.approach(now, rules, &mut acts);
        }
        next.promote_ordered(now, &mut acts);
        next.hand_over_kept(rules, &mut acts);
        if matches!(self.phase, Phase::Turn(_)) && self.phase != next.phase {
            next.active = now; // a person was answered, or something was done
        }
        next.prepare(now, rules, &mut acts);
        (next, acts)
    }

    /// The inputs that a step has taken up while their texts were on disk only. The shell reads them before it
    /// commits the step, each as it came in.
    pub fn unread(&self, acts: &[Act]) -> BTreeSet<Seq> {
        let said = acts.iter().filter_map(|act| match act {
            Act::Say(input) => Some(input),
            _ => None,
        });
        let running = match &self.phase {
            Phase::Turn(turn) => turn.inputs.as_slice(),
            Phase::Idle | Phase::Closed(_) => &[],
        };
        said.chain(running).filter(|input| input.left.is_some()).map(|input| input.seq).collect()
    }

    /// Those, read: each is what its row says, and what its turn is about.
    pub(crate) fn take_in_whole(
        &mut self,
        read: &BTreeMap<Seq, Arc<Input>>,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        for act in acts.iter_mut() {
            if let Act::Say(input) = act
                && let Some(row) = read.get(&input.seq).and_then(|whole| whole.row())
            {
                *act = Act::Append(row);
            }
        }
        if let Phase::Turn(turn) = &mut self.phase {
            for input in turn.inputs.iter_mut().filter(|input| input.left.is_some()) {
                if let Some(whole) = read.get(&input.seq) {
                    input.clone_from(whole);
                }
            }
        }
        self.prepare_anew(now, rules, acts);
    }

    /// What should be running now. A restart begins here, too.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        match &self.phase {
            Phase::Idle => jobs.extend(self.wants_share().map(|seq| Job::Share { seq })),
            Phase::Closed(Finalisation::Done) => {}
            Phase::Closed(_) if self.handover.parked.is_some() => {}
            Phase::Closed(stage) => {
                let Handover { done, attempts, running, .. } = &self.handover;
                let (stage, done, running) = (*stage as u8, done.len(), running.is_some());
                jobs.push(Job::Finalise { stage, done, attempt: *attempts, running });
            }
            Phase::Turn(Turn { group: None, .. }) => {
                let request = self.request().zip(self.preparation());
                jobs.extend(request.and_then(|((turn, step), preparation)| match preparation {
                    Preparation::Gathering { until } => Some(Job::Gather { turn, step, until }),
                    Preparation::Prompting => Some(Job::Prompt { turn, step }),
                    Preparation::Recalling => Some(Job::Recall { turn, step }),
                    Preparation::Compressing => None, // that of its operation
                    Preparation::Ready => Some(Job::Ask { turn, step }),
                }));
            }
            Phase::Turn(Turn { id, step, group: Some(group), .. }) => {
                let (turn, step) = (*id, *step);
                for (index, slot) in group.slots.iter().enumerate() {
                    if slot.is_running() {
                        jobs.push(Job::Call { turn, step, index });
                    }
                    if matches!(slot, Slot::Asking(_)) {
                        jobs.push(Job::Await { turn, step, index });
                    }
                }
            }
        }
        match &self.compression {
            None => {}
            Some(Operation { number, stage, .. }) => match stage {
                Stage::Preparing => jobs.push(Job::Summarise { operation: *number }),
                Stage::Ready(_) => {}
                Stage::Promoted => jobs.push(Job::Report { operation: *number }),
            },
        }
        jobs.extend(self.lingering_recall().map(|(turn, step)| Job::Recall { turn, step }));
        jobs.extend(self.survey().map(|it| Job::Survey { order: it.order, force: it.force }));
        jobs.extend(self.due().map(|order| Job::Order { seq: order.seq }));
        jobs.extend(self.review_job());
        jobs
    }

    /// Something is done right now, rather than waited for a person.
    pub fn is_running(&self) -> bool {
        match &self.phase {
            Phase::Turn(Turn { group: Some(group), .. }) => group.slots.iter().any(Slot::is_running),
            Phase::Turn(_) => true,
            Phase::Idle | Phase::Closed(_) => false,
        }
    }

    /// Nothing runs and nothing waits that could run: the actor may rest.
    pub fn is_quiet(&self) -> bool {
        // A question to the memory that its turn no longer waits for is nothing that a start would take up.
        let lingers = |job: &Job| match job {
            Job::Recall { turn, step } => self.lingering_recall() == Some((*turn, *step)),
            _ => false,
        };
        (self.waiting.is_empty() || self.halted) && self.jobs().iter().all(lingers)
    }

    /// Where the answer to a message goes. What another agent answers to a chain that a person began
    /// here concerns that person; anything else is answered where it came from.
    pub fn answer_to(&self, trace: &Trace, home: &str, reply_to: Option<Destination>) -> Option<Destination> {
        let began_here =
            trace.root.as_ref().is_some_and(|root| *root.home == *home && root.session == self.id);
        match &self.place {
            Some(place) if !trace.is_human() && began_here => Some(place.clone()),
            _ => reply_to,
        }
    }

    fn is_at(&self, turn: TurnId, step: u32) -> bool {
        matches!(&self.phase, Phase::Turn(current) if current.id == turn && current.step == step)
    }

    fn take_up(&mut self, repeatable: &[usize], now: Time, acts: &mut Vec<Act>) {
        self.generation = self.generation.next();
        self.take_up_compression(acts);
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &mut turn.group else { return };
        if !group.slots.iter().any(Slot::is_running) {
            return; // it only waits for a person, and goes on waiting
        }
        turn.resumes += 1;
        let parked = turn.resumes > RESUMES_MAX;
        let unknown = |index: usize, slot: &Slot| {
            parked
                || slot.is_eliciting() // the server that asked is gone, with the call that it asked in
                || (matches!(slot, Slot::Open(_)) && !repeatable.contains(&index))
        };
        self.give_up(OUTCOME_UNKNOWN, unknown, acts);
        self.close_group(now, acts);
        self.leave_to_client(acts);
        if parked {
            let message = format!(
                "This turn's tools were running when the gateway stopped, {} times in a row. \
                 It was set aside; send the message again to try once more.",
                RESUMES_MAX + 1
            );
            self.fail(Failure { kind: FailureKind::Parked, message }, acts);
        }
    }

    /// Calls without a result get this one.
    fn give_up(&mut self, text: &str, chosen: impl Fn(usize, &Slot) -> bool, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Some(group) = &mut turn.group else { return };
        for index in group.give_up(text, chosen) {
            let result = group.result(index).expect("give_up filled it").clone();
            acts.push(Act::Result { turn: turn.id, step: turn.step, index, result });
        }
    }

    fn receive(
        &mut self,
        input: Arc<Input>,
        more: Option<Duration>,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        debug_assert_eq!(input.seq, self.received.next(), "the owner numbers its inbox without gaps");
        self.received = input.seq;
        acts.push(Act::Accept(input.clone()));
        self.hear_of_client_calls(&input, now, acts);
        self.name(&input, acts);
        let backlog = self.is_backlog(&input, rules, now);
        let is_order = matches!(&input.kind, Kind::Command(command) if !command.wakes());
        let is_notice = matches!(&input.kind, Kind::Command(Command::Notice { .. }));
        match backlog {
            true => self.halted |= !matches!(self.phase, Phase::Turn(_)), // until its people write anew
            false if is_notice => {}                                      // no person wrote
            false => self.stir(now, !is_order),
        }
        if input.trace.is_human() && !backlog && !is_order {
            self.halted = false;
            self.foreign.reset(); // a person's word is a fresh budget for all bots here
        }
        if let Some(heard) = &input.trace.foreign {
            self.foreign = self.foreign.after(heard, input.at, rules.limits.chain.quiet);
        }
        if input.trace.is_human() && input.reply_to.is_some() {
            self.place.clone_from(&input.reply_to);
        }
        match &input.kind {
            Kind::Command(command) if command.passes_the_queue() => {
                let said = self.obey(command, &input, now, rules, acts);
                self.settle(&input, Outcome::Done { said, successor: None }, acts);
            }
            Kind::Chat(content) => match self.clarified(&input) {
                Some(index) => {
                    let said = content.plain();
                    self.take_in(&input, acts);
                    self.decide(index, Verdict::Said(said), now, rules, acts);
                }
                None => {
                    self.waiting.push_back(input.light());
                    if rules.busy == BusyInput::Interrupt {
                        self.interrupt(now, acts);
                    }
                }
            },
            Kind::Request(_) | Kind::Command(_) => {
                self.say_that_it_waits(&input, acts);
                self.waiting.push_back(input.light());
            }
        }
        self.gather(input.seq, more, now, acts);
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

    fn answer(&mut self, answer: Answer, prompt: Mark, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let Answer { mut said, usage, model } = answer;
        for (call, id) in distinct_ids(&said.calls).into_iter().enumerate() {
            said.calls[call].id = id;
        }
        turn.spent += usage.total();
        let trace = turn.trace();
        if said.calls.is_empty() && turn.inputs.last().is_some_and(|input| is_person_without_chat(input)) {
            for notice in self.untold.drain(..) {
                said.content.add_words(&notice);
            }
        }
        let open = (!said.calls.is_empty()).then(|| said.clone());
        let step = Step { turn: turn.id, step: turn.step, at: now, model, usage, prompt, open };
        acts.push(Act::Step(Box::new(step)));
        if !said.calls.is_empty() {
            turn.remark(&said.content.plain());
            let mut group = Group::new(said);
            let left = turn.client_tools().map(|tools| group.leave(tools)).unwrap_or_default();
            let (id, step) = (turn.id, turn.step);
            turn.group = Some(group);
            acts.extend(left.into_iter().map(|index| Act::Leave { turn: id, step, index }));
            self.consider_budget(now, rules, acts);
            return self.leave_to_client(acts);
        }
        let content = said.content.clone();
        acts.push(Act::Append(Message::new(now, Body::Assistant(said))));
        let turn = turn.clone();
        self.phase = Phase::Idle;
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Answered(turn.id), acts);
        }
        let Some(last) = turn.inputs.last() else { return };
        let text = content.plain();
        self.keep(&turn, &text, rules, acts);
        let nothing_for_a_bot = !trace.is_human() && text.trim().is_empty();
        if let (Some(destination), false) = (&last.reply_to, nothing_for_a_bot) {
            let key = format!("{}/{}", self.id, turn.id);
            let trace = trace.onward();
            acts.push(Act::Deliver(Reply { key, destination: destination.clone(), text, trace }));
        }
        if let Kind::Request(request) = &last.kind
            && let Some(thread) = request.thread
        {
            let seen = |content: &Content| route::resume(thread, "assistant", content).digest();
            acts.push(Act::Tip { turn: turn.id, thread: seen(&content) });
            if !turn.said.is_empty() {
                // A client that read along takes the remarks on the way for part of the answer.
                let whole = Content::text(format!("{}\n\n{}", turn.said, content.plain()));
                acts.push(Act::Tip { turn: turn.id, thread: seen(&whole) });
            }
        }
    }

    fn close_call(
        &mut self,
        index: usize,
        result: ToolResult,
        sends: Vec<Letter>,
        now: Time,
        rules: &Rules,
        acts: &mut Vec<Act>,
    ) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let (id, step, trace) = (turn.id, turn.step, turn.trace().onward());
        let Some(group) = &mut turn.group else { return };
        match group.slots.get_mut(index) {
            Some(slot @ (Slot::Open(_) | Slot::Asking(_))) => *slot = Slot::Done(result.clone()),
            _ => return, // an echo of a call that has its result
        }
        acts.push(Act::Result { turn: id, step, index, result });
        for (number, Letter { destination, text }) in sends.into_iter().enumerate() {
            let key = format!("{}/{id}/{step}/{index}/{number}", self.id);
            acts.push(Act::Deliver(Reply { key, destination, text, trace: trace.clone() }));
        }
        if group.is_closed() {
            self.close_group(now, acts);
            self.join_steering(acts);
            if rules.busy != BusyInput::Queue {
                self.join_waiting(now, acts);
            }
        }
        self.leave_to_client(acts);
    }

    fn close_group(&mut self, now: Time, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        if let Some(mut group) = turn.group.take_if(|group| group.is_closed()) {
            let repeated = Repeated::after(turn.repeated, &group);
            if repeated.is_worth_a_word()
                && let Some(Slot::Done(ToolResult { content: Content::Text(text), .. })) =
                    group.slots.last_mut()
            {
                text.push_str("\n\n");
                text.push_str(REPEATED);
            }
            turn.repeated = Some(repeated);
            acts.extend(group.into_rows(now).into_iter().map(Act::Append));
            turn.step += 1;
        }
    }

    fn fail(&mut self, failure: Failure, acts: &mut Vec<Act>) {
        let Phase::Turn(turn) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        self.failed = Some(turn.id);
        self.failed_step = turn.step;
        for input in &turn.inputs {
            self.settle_quietly(input.seq, Outcome::Failed(turn.id, failure.clone()), acts);
        }
        // A notice is for the chat, not for the model: it goes to the outbox, never into the transcript.
        // And it is for people, even if an agent began the turn: an agent that got one would answer it.
        let destination = turn.inputs.last().and_then(|input| input.reply_to.clone());
        if let Some(destination) = destination.filter(|place| place.platform != AGENT_PLATFORM) {
            let key = format!("{}/{}/failed/{}", self.id, turn.id, turn.resumes);
            let trace = turn.trace().onward();
            acts.push(Act::Deliver(Reply { key, destination, text: failure.message, trace }));
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
        let step = std::mem::take(&mut self.failed_step);
        self.phase = Phase::Turn(Turn { step, first_step: step, ..Turn::new(id, began, inputs) });
    }

    /// Takes up what waits, if nothing runs. Commands at the front are carried out one by one.
    fn begin_waiting(&mut self, now: Time, rules: &Rules, acts: &mut Vec<Act>) {
        while self.phase == Phase::Idle && !self.halted {
            // Orders to compress, and what is looked up beside, are taken up elsewhere: nothing waits behind one.
            let Some(place) = self.waiting.iter().position(past::holds_the_line) else { return };
            if self.is_awaited(place) || self.wants_share().is_some() {
                return;
            }
            let Some(first) = self.waiting.remove(place) else { return };
            match &first.kind {
                Kind::Command(Command::New { successor }) => {
                    let successor = successor.clone();
                    self.close(&first, successor, acts);
                }
                Kind::Command(command) if command.words().is_none() => {
                    let said = self.report(command, rules);
                    self.settle(&first, Outcome::Done { said, successor: None }, acts);
                }
                _ if first.trace.foreign.is_some() => self.hear_foreign(first, now, rules, acts),
                _ if is_notice_of_a_gateway(&first) => self.leave_unanswered(&first, String::new(), acts),
                _ => self.begin(first, now, acts),
            }
        }
    }

    fn begin(&mut self, first: Arc<Input>, now: Time, acts: &mut Vec<Act>) {
        self.live_on(); // also where nothing was written since: the operator let a backlog go on
        self.failed = None;
        self.failed_step = 0;
        if first.trace.is_human() && self.place.is_none() {
            self.place.clone_from(&first.reply_to); // it was received by the session before this one
        }
        let id = TurnId(first.seq);
        let shares = matches!(first.kind, Kind::Chat(_));
        let begin = Act::Begin { turn: id, inputs: vec![first.seq] };
        match say(&first) {
            Some(said) => {
                self.close_client_calls(results_of(&first), now, acts);
                acts.extend([begin, said]);
            }
            // What the client's tools returned is all that it says.
            None => {
                acts.push(begin);
                self.close_client_calls(results_of(&first), now, acts);
            }
        }
        self.phase = Phase::Turn(Turn::new(id, now, vec![first]));
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
            acts.extend(say(&input));
            turn.inputs.push(input);
        }
        turn.inputs.len() > before
    }

    fn close(&mut self, order: &Arc<Input>, successor: SessionId, acts: &mut Vec<Act>) {
        self.forget_orders(order.seq, acts);
        let moved: Vec<_> =
            self.waiting.drain(..).map(|input| rerooted(input, &self.id, &successor)).collect();
        let said = match moved.len() {
            0 => format!("A new conversation has begun: {successor}."),
            1 => format!("A new conversation has begun: {successor}. The message that waits goes there."),
            many => {
                format!("A new conversation has begun: {successor}. The {many} messages that wait go there.")
            }
        };
        self.settle(order, Outcome::Done { said, successor: Some(successor.clone()) }, acts);
        self.settle_moved(&moved, &successor, Seq(0), acts);
        self.end("session_reset", Some(successor.clone()));
        acts.push(Act::Close { reason: "session_reset", successor, moved });
    }

    fn settle(&mut self, input: &Arc<Input>, outcome: Outcome, acts: &mut Vec<Act>) {
        if let (Some(destination), Outcome::Done { said, .. }) = (&input.reply_to, &outcome)
            && !said.is_empty()
            && input.trace.is_human()
        {
            let (key, trace) = (format!("{}/{}/done", self.id, input.seq), input.trace.onward());
            let (destination, text) = (destination.clone(), said.clone());
            acts.push(Act::Deliver(Reply { key, destination, text, trace }));
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
        let ordered = self.compression.iter().flat_map(|operation| &operation.orders).map(|input| input.seq);
        let waiting = self.waiting.front().map(|input| input.seq);
        let unsettled = running.into_iter().chain(waiting).chain(ordered).min();
        let prefix = unsettled.map_or(self.received, |first| Seq(first.0 - 1));
        self.answered = self.answered.max(prefix);
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

/// A gateway's own words, which another agent hears in the chat where they were said.
fn is_notice_of_a_gateway(input: &Input) -> bool {
    !input.trace.is_human() && input.trace.foreign.is_none() && input.trace.origin.is_empty()
}

/// A client of the API: what it should read can only stand in an answer.
fn is_person_without_chat(input: &Input) -> bool {
    let asked = matches!(&input.kind, Kind::Request(request) if request.task.is_none());
    asked && input.reply_to.is_none() && input.trace.is_human()
}

/// What a person said here and is answered elsewhere concerns the people over there.
fn rerooted(input: Arc<Input>, from: &SessionId, to: &SessionId) -> Arc<Input> {
    match &input.trace.root {
        Some(root) if input.trace.is_human() && root.session == *from => {
            let root = Some(Root { session: to.clone(), ..root.clone() });
            let trace = Trace { root, ..input.trace.clone() };
            Arc::new(Input { trace, ..Input::clone(&input) })
        }
        _ => input,
    }
}

/// What an input says becomes the next row.
fn say(input: &Arc<Input>) -> Option<Act> {
    match input.left {
        Some(_) => Some(Act::Say(input.clone())),
        None => input.row().map(Act::Append),
    }
}

fn echo(what: &'static str, turn: TurnId, step: u32) -> Act {
    Act::Note { name: "late_result_dropped", detail: format!("{what} of turn {turn}, step {step}") }
}

mod act;
pub mod admit;
mod ask;
mod chain;
mod client;
pub mod compress;
mod control;
mod event;
mod job;
pub mod lifecycle;
mod past;
mod preference;
mod prepare;
pub mod propose;
mod retain;
pub mod retries;
pub mod review;
mod rules;
#[cfg(test)]
mod tests;
