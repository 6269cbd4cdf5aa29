//! The jobs of one session: what its state implies runs, and nothing else does.
//!
//! A job is started when the state implies it, and ended when the state no longer does. One that has reported is over: if
//! the state implies it again, it is started again.

use super::Actor;
use super::prompting::{with_reasoning, without_choice};
use super::recall::{self, Reminder};
use crate::agent::Defect;
use crate::chain;
use crate::command_jobs;
use crate::compress::{self, ContextState};
use crate::finalise::{self, Ended};
use crate::gateway_tools::search;
use crate::review::{self, Reading};
use crate::scope;
use crate::turn::{self, Asking, JobContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_core::chain::Amount;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::input::{Input, Kind, Trace};
use throughline_core::port::{Assignment, CallId, StoreError};
use throughline_core::session::review::Review;
use throughline_core::session::{Event, Finalisation, Job, Phase};
use throughline_core::tool::{Call, Caller};
use throughline_core::turn::{Slot, Turn};
use throughline_core::{Seq, TurnId};
use tokio::task::AbortHandle;

#[derive(Default)]
pub(super) struct Jobs(BTreeMap<Job, AbortHandle>);

impl Jobs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn runs(&self, job: &Job) -> bool {
        self.0.contains_key(job)
    }

    fn insert(&mut self, job: Job, handle: AbortHandle) {
        self.0.insert(job, handle);
    }

    /// Ends what is no longer implied.
    fn keep(&mut self, implied: &[Job]) {
        self.0.retain(|job, handle| {
            let keep = implied.contains(job);
            if !keep {
                handle.abort();
            }
            keep
        });
    }

    pub fn abort_all(&mut self) {
        std::mem::take(&mut self.0).values().for_each(AbortHandle::abort);
    }

    /// A job that has reported is over.
    pub fn reported(&mut self, event: &Event) {
        let job = match event {
            Event::Answered { turn, step, .. } | Event::Failed { turn, step, .. } => {
                Job::Ask { turn: *turn, step: *step }
            }
            Event::Surveyed { asked, .. } => Job::Survey { order: asked.order, force: asked.force },
            Event::Ordered { seq, .. } => Job::Order { seq: *seq },
            _ => return,
        };
        self.0.remove(&job);
    }

    /// The deliberate bug: what the memory answers counts as the answer of the model, to any question that is out.
    fn forget_questions(&mut self) {
        self.0.retain(|job, _| !matches!(job, Job::Ask { .. }));
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl Actor {
    pub(super) fn job_context(&self) -> JobContext {
        JobContext { home: self.home.clone(), session: self.id.clone(), mail: self.address.clone() }
    }

    /// Starts what the state implies and is not running; ends what it no longer implies.
    pub(super) async fn start_jobs(&mut self) -> Result<(), StoreError> {
        let implied = self.state.jobs();
        self.questions.end_unasked(&self.state);
        self.jobs.keep(&implied);
        for job in implied {
            if !self.jobs.runs(&job) && !self.home.is_halted() {
                let handle = self.start(&job).await?;
                self.jobs.insert(job, handle);
            }
        }
        if self.jobs.is_empty() && self.home.is_cache_full() {
            self.prompting.forget();
            self.report();
        }
        Ok(())
    }

    /// With the defect, a recall that is over lets go of the question that is out, and does not end it.
    pub(super) fn suffer_defect(&mut self, event: &Event) {
        if self.home.defect == Some(Defect::RecallForgetsQuestion) && matches!(event, Event::Recalled { .. })
        {
            self.jobs.forget_questions();
        }
    }

    async fn start(&mut self, job: &Job) -> Result<AbortHandle, StoreError> {
        let context = self.job_context();
        Ok(match *job {
            Job::Gather { turn, step, until } => {
                context.start(turn::gather(context.clone(), (turn, step), until))
            }
            Job::Prompt { turn, step } => {
                let (caller, room) = (self.caller(self.turn()), self.room.clone());
                context.start(turn::prompt(context.clone(), (turn, step), caller, room))
            }
            Job::Recall { turn, step } => self.start_recall(turn, step).await?,
            Job::Ask { turn, step } => {
                let asking = self.asking(turn, step).await?;
                context.start(turn::ask(context.clone(), self.feed.clone(), asking))
            }
            Job::Call { step, index, .. } => self.start_call(step, index),
            Job::Await { step, index, .. } => {
                let Some(Slot::Asking(ask)) = self.slot(index) else {
                    unreachable!("a question is implied by a call that asks")
                };
                context.start(turn::wait(context.clone(), self.call_id(step, index), ask.clone()))
            }
            Job::Share { seq } => {
                let input = self.waiting(seq).expect("a share is implied by what waits");
                let share = chain::share_of(&self.home, &self.id, &input, &input.trace, Amount::Turn);
                context.start(chain::share(context.clone(), seq, share))
            }
            Job::Survey { .. } => {
                let asked = self.state.survey().expect("a survey is implied by what it is to look at");
                context.start(compress::survey(context.clone(), asked, self.context_state().await?))
            }
            Job::Summarise { .. } => {
                let operation =
                    self.state.compression.clone().expect("a summary is implied by its operation");
                context.start(compress::summarise(context.clone(), operation, self.context_state().await?))
            }
            Job::Report { operation } => context.start(compress::report(context.clone(), operation)),
            Job::Order { seq } => {
                let order = self.order(seq).await?.expect("a deferred command is implied by what waits");
                context.start(command_jobs::carry_out(context.clone(), order))
            }
            Job::Review { .. } => {
                let review =
                    self.state.reviews.pending.front().expect("a review is implied by one that is due");
                let (review, reading) = (review.clone(), self.reading(review));
                context.start(review::run(context.clone(), review, reading))
            }
            Job::Finalise { .. } => context.start(finalise::step(context.clone(), self.ended())),
        })
    }

    fn turn(&self) -> &Turn {
        match &self.state.phase {
            Phase::Turn(turn) => turn,
            Phase::Idle | Phase::Closed(_) => unreachable!("this job is implied by a turn"),
        }
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        self.turn().group.as_ref()?.slots.get(index)
    }

    fn call_id(&self, step: u32, index: usize) -> CallId {
        CallId { session: self.id.clone(), turn: self.turn().id, step, index, question: 0 }
    }

    fn waiting(&self, seq: Seq) -> Option<Arc<Input>> {
        self.state.waiting.iter().find(|input| input.seq == seq).cloned()
    }

    async fn start_recall(&mut self, turn: TurnId, step: u32) -> Result<AbortHandle, StoreError> {
        let context = self.job_context();
        self.composed_rows().await?;
        let reminder = match &self.home.memory {
            None => Reminder::Own(search::scope(&self.caller(self.turn()))),
            Some(_) => {
                let scope = self.scope().await?;
                Reminder::Provider(scope::to_read(&self.home, scope).await?)
            }
        };
        let heard = self.prompting.heard.clone();
        Ok(context.start(recall::recall(context.clone(), (turn, step), reminder, heard)))
    }

    async fn asking(&mut self, turn: TurnId, step: u32) -> Result<Asking, StoreError> {
        let (prompt, mark) = self.composed().await?;
        let (model, context_state) = (self.model(), self.context_state().await?);
        let current = self.turn();
        let sampling = current.inputs.last().and_then(|input| match &input.kind {
            Kind::Request(request) => request.sampling.clone(),
            Kind::Chat(_) | Kind::Command(_) => None,
        });
        // A client that insists on a call gets none from a turn that may make no more.
        let sampling = if current.exhausted { without_choice(sampling) } else { sampling };
        let trace = current.trace();
        let last = current.inputs.last().filter(|_| !trace.is_human());
        Ok(Asking {
            turn,
            step,
            inputs: current.inputs.iter().map(|input| input.seq).collect(),
            prompt,
            mark,
            sampling: with_reasoning(sampling, self.reasoning()),
            model,
            context_state,
            share: last.map(|last| chain::share_of(&self.home, &self.id, last, &trace, Amount::Call)),
            recipient: current.recipient(),
        })
    }

    fn start_call(&self, step: u32, index: usize) -> AbortHandle {
        let (context, current) = (self.job_context(), self.turn());
        let group = current.group.as_ref().expect("a call is implied by an open group");
        let asked = &group.answer.calls[index];
        let grant = match group.slots[index] {
            Slot::Open(grant) => grant,
            Slot::Asking(_) | Slot::Client | Slot::Done(_) => None,
        };
        let place = self.call_id(step, index);
        self.home.set_unattended(&self.id, self.questions.is_unattended(&self.state));
        let call = Call {
            key: place.to_string(),
            name: asked.name.clone(),
            arguments: asked.arguments.clone(),
            caller: self.caller(current),
            grant,
        };
        self.feed.calling(current.id, step, asked);
        context.start(turn::call(context.clone(), place, asked.id.clone(), call))
    }

    /// What is asked of a host command, and by whom.
    async fn order(&self, seq: Seq) -> Result<Option<command_jobs::Order>, StoreError> {
        let input = match self.waiting(seq) {
            Some(input) if input.left.is_some() => self.whole(seq).await?,
            Some(input) => input,
            None => return Ok(None),
        };
        let Kind::Command(Command::Deferred(deferred)) = &input.kind else { return Ok(None) };
        let argument = match deferred {
            DeferredCommand::Other { argument, .. } => argument.clone(),
            _ => String::new(),
        };
        let asked = Assignment {
            key: format!("{}/{seq}", self.id),
            name: deferred.name().to_owned(),
            argument,
            session: Some(self.id.clone()),
            source: self.profile.source.clone(),
            user: self.profile.user.clone(),
            is_private: self.profile.is_private,
            principal: self.profile.principal.clone(),
            place: input.reply_to.clone(),
            preferences: self.state.preferences.clone(),
        };
        let (session, context) = (self.id.clone(), self.state.upkeep.context);
        Ok(Some(command_jobs::Order { seq, session, deferred: deferred.clone(), asked, context }))
    }

    /// What a review needs of this session, on whose behalf it acts.
    fn reading(&self, review: &Review) -> Reading {
        let home = &self.home;
        let chosen = review.model.as_ref().and_then(|name| home.models.choose(name).ok());
        let caller = Caller {
            session: self.id.clone(),
            source: self.profile.source.clone(),
            principal: self.profile.principal.clone(),
            user: self.profile.user.clone(),
            is_private: self.profile.is_private,
            reply_to: review.place.clone(),
            trace: Trace::default(),
            task: None,
            allowed: Vec::new(), // what needs a person is not done
            tokens_left: None,
            now: home.clock.now(),
        };
        let sampling = with_reasoning(None, self.reasoning());
        Reading { model: chosen.unwrap_or_else(|| home.model.clone()), caller, sampling }
    }

    /// How far the hand-over has come; only an ended session has one.
    pub(super) fn ended(&self) -> Ended {
        let stage = match self.state.phase {
            Phase::Closed(stage) => stage,
            Phase::Idle | Phase::Turn(_) => Finalisation::Done,
        };
        Ended {
            session: self.id.clone(),
            epoch: self.state.epoch,
            generation: self.state.generation,
            stage,
            handover: self.state.handover.clone(),
            source: self.profile.source.clone(),
        }
    }

    async fn context_state(&mut self) -> Result<ContextState, StoreError> {
        let scope = self.scope().await?;
        let (context, view) = (self.state.upkeep.context, self.state.view);
        Ok(ContextState { context, scope, view, found: self.surveyed.clone() })
    }

    /// Which calls of the open group may simply be run again.
    pub(super) fn repeatable(&self, phase: &Phase) -> Vec<usize> {
        let Phase::Turn(Turn { group: Some(group), .. }) = phase else { return Vec::new() };
        let calls = group.answer.calls.iter().enumerate();
        calls.filter(|(_, call)| self.home.tools.is_repeatable(&call.name)).map(|(index, _)| index).collect()
    }
}
