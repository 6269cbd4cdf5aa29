//! What follows from a commit, now that it is on disk: one observer for each concern, of what was, what was written and
//! what is. None of them decides anything.

use super::{Actor, Mail, Origin};
use crate::finalise;
use crate::gateway_tools::delegate;
use crate::hooks::CommitNews;
use crate::router;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use throughline_core::Time;
use throughline_core::compression::{Operation, Promoted, operation_name};
use throughline_core::message::ToolResult;
use throughline_core::port::{CallId, Committed, Outgoing, Pending, Settled};
use throughline_core::prompt::Mark;
use throughline_core::session::admit::Profile;
use throughline_core::session::lifecycle::Run;
use throughline_core::session::{
    Act, CACHE_BREAK, FailureKind, Finalisation, Outcome, Phase, Reply, Session, UNATTENDED,
};
use throughline_core::turn::Answer;

/// A commit that is on disk.
pub(super) struct Done {
    pub before: Session,
    pub acts: Vec<Act>,
    pub committed: Committed,
    /// What clients that wait for it are told.
    pub told: Told,
    pub at: Time,
}

/// What clients that wait for an answer are told.
#[derive(Default)]
pub(super) struct Told {
    pub answered: Option<(Answer, Mark)>,
    /// An answer whose calls are the client's to run.
    pub left: Option<Answer>,
}

/// What a session adds to its home's gauges.
#[derive(Default)]
pub(super) struct Share {
    running: usize,
    asking: usize,
    waiting: usize,
    finalising: usize,
    cached: usize,
}

impl Actor {
    pub(super) fn observe(&mut self, done: &Done) {
        // First: an act of the same commit may break the prompt.
        if let Some((_, mark)) = &done.told.answered {
            self.prompting.last = Some(*mark);
        }
        self.log_compression(done);
        CommitNews {
            home: &self.home,
            source: &self.profile.source,
            before: &done.before,
            after: &self.state,
            acts: &done.acts,
            at: done.at,
        }
        .tell();
        for act in &done.acts {
            self.tell_followers(act, done);
            self.send_replies(act, done);
            self.route_elsewhere(act);
            self.hand_on(act);
            self.remember(act);
            self.note(act);
        }
        self.follow_prompt(done);
        self.report();
    }

    /// Clients that wait see what became of their input, and what runs for it.
    fn tell_followers(&mut self, act: &Act, done: &Done) {
        match act {
            Act::Settle { seq, outcome } => {
                let answer = match outcome {
                    Outcome::Answered(_) if done.told.left.is_some() => done.told.left.clone(),
                    Outcome::Answered(_) => done.told.answered.as_ref().map(|(answer, _)| answer.clone()),
                    _ => None,
                };
                let began = match (&done.before.phase, &self.state.phase) {
                    (Phase::Turn(turn), _) | (_, Phase::Turn(turn)) => turn.began,
                    _ => done.at,
                };
                self.questions.settled(*seq);
                self.home.set_unattended(&self.id, false);
                self.recent.settled(*seq, outcome);
                self.feed.settle(*seq, Arc::new(Settled { outcome: outcome.clone(), began, answer }));
            }
            Act::Result { turn, step, result, .. } => {
                let ToolResult { call_id, name, .. } = result.clone();
                let tool = name.unwrap_or_default();
                if done.acts.iter().any(|act| matches!(act, Act::Note { name: UNATTENDED, .. })) {
                    self.feed.unattended(*turn, *step, call_id.clone(), tool.clone());
                }
                self.feed.called(*turn, *step, call_id, tool);
            }
            Act::Ask { turn, step, index, ask } => self.tell_asked(*turn, *step, *index, ask.clone()),
            Act::Grant { turn, step, index, .. } => {
                let (session, index) = (self.id.clone(), *index);
                self.feed.granted(CallId { session, turn: *turn, step: *step, index, question: 0 });
            }
            Act::Resume { turn, step, index, verdict } => {
                self.questions.answer(*turn, *step, *index, verdict)
            }
            _ => {}
        }
    }

    fn send_replies(&self, act: &Act, done: &Done) {
        let Act::Deliver(Reply { key, destination, text, trace }) = act else { return };
        let asks = |call: CallId| {
            let questions = done.acts.iter().filter_map(|act| self.pending(act));
            questions.into_iter().find(|pending: &Pending| pending.call == call)
        };
        self.home.outbox.send(Outgoing {
            question: Outgoing::asked_by(key).and_then(asks),
            draft: None,
            key: key.clone(),
            session: self.id.clone(),
            destination: destination.clone(),
            text: text.clone(),
            trace: trace.clone(),
            attempts: 0,
            attempting: None,
            attempted: None,
            marked: false,
            not_before: done.at,
        });
    }

    /// Chats that lead to another session from now on.
    fn route_elsewhere(&self, act: &Act) {
        let home = &self.home;
        match act {
            Act::Expire { .. } => home.router.forget(&self.id),
            Act::Close { successor, .. } => {
                home.router.forget(&self.id);
                home.bequeath(successor, self.room.clone());
                router::mail(home, successor, Origin::Stored, Mail::Wake);
            }
            Act::Switch { to, .. } => {
                home.tools.forget(&self.id);
                home.router.forget(&self.id);
                home.router.dismiss_one(to); // its owner knows of an earlier life only
                router::mail(home, to, Origin::Stored, Mail::Wake);
            }
            _ => {}
        }
    }

    /// The process, other sessions, hooks, memory and the context engine.
    fn hand_on(&mut self, act: &Act) {
        let home = &self.home;
        match act {
            Act::Restart { .. } => home.host_commands.restart(),
            Act::Settle { outcome: Outcome::Failed(_, failure), .. }
                if failure.kind == FailureKind::Parked =>
            {
                tokio::spawn(delegate::end_children(home.clone(), self.id.clone()));
            }
            Act::Hook { hook, run: Run::Done } => {
                if let Some(told) = self.ended().told(&self.job_context(), hook) {
                    home.hooks.forget(hook, &told);
                }
            }
            Act::Retain(_) | Act::HandOver => home.retaining.wake(),
            Act::Rewind { .. } => finalise::rewound(home, &self.id, self.state.generation),
            Act::Open(_) => home.compressor.tell_beginning(home, &self.id),
            // The hand-over tells the engine; where Hermes has seen to that, only this does.
            Act::Switch { to, .. } if !self.is_finalising() => {
                home.compressor.tell_end(home, &self.id, Some(to.clone()));
            }
            _ => {}
        }
    }

    /// What this owner knows without asking the store.
    fn remember(&mut self, act: &Act) {
        match act {
            Act::Open(birth) => {
                self.profile = Profile::of(birth);
                self.scope = None;
            }
            Act::Accept(input) => self.recent.remember(input, self.home.clock.now()),
            Act::Title { .. } => self.scope = None,
            // It has a document from now on, if it had none.
            Act::Retain(_) => self.scope = self.scope.take().filter(|scope| scope.document.is_some()),
            _ => {}
        }
    }

    fn note(&mut self, act: &Act) {
        let Act::Note { name, detail } = act else { return };
        if *name == CACHE_BREAK {
            self.prompting.last = None; // it has its name: the next request does not give it another
        }
        tracing::info!(name, detail, "noted");
    }

    /// The next request begins with what was said before, and goes on with what was written now.
    fn follow_prompt(&mut self, done: &Done) {
        let model = self.model();
        let mut rows = done.committed.rows.iter();
        for act in &done.acts {
            match act {
                Act::Open(birth) => {
                    self.prompting.begin();
                    birth.imported.iter().for_each(|message| self.prompting.append(&*model, message));
                }
                Act::Append(message) => {
                    self.prompting.append(&*model, message);
                    if let Some(row) = rows.next() {
                        self.prompting.hear(*row, message);
                    }
                }
                Act::Promote { .. } | Act::Restore { .. } => self.break_prompt("the view has changed"),
                Act::Rewind { .. } => self.break_prompt("something was taken back"),
                _ => {}
            }
        }
        if done.committed.foreign {
            self.prompting.forget(); // rows that we do not remember stand before those we just wrote
        }
    }

    fn break_prompt(&mut self, why: &str) {
        self.prompting.forget();
        if self.prompting.last.take().is_some() {
            self.home.note(Some(self.id.clone()), CACHE_BREAK, why.to_owned());
        }
    }

    /// What became of a compression. The lines stand in the span of this session, on every thread.
    fn log_compression(&self, done: &Done) {
        let id = &self.id;
        for act in &done.acts {
            match act {
                Act::Compress(operation) if done.before.compression.is_none() && operation.is_preparing() => {
                    self.log_started(operation);
                }
                Act::Promote { operation, .. } => {
                    let Some(promoted) = &done.committed.promoted else { continue };
                    let Promoted { snapshot, messages_before, messages_after, tokens_after, kind, .. } =
                        promoted;
                    let (op, ms) = (operation.name(id), done.at.since(operation.began).as_millis());
                    tracing::info!(
                        "[{id}] context compression done: session={id} op={op} messages={messages_before}->{messages_after} \
                         tokens=~{tokens_after} snapshot={snapshot} ms={ms} kind={kind}"
                    );
                }
                Act::Abandon { number, end, reason } => {
                    let (op, end) = (operation_name(id, *number), end.as_str());
                    tracing::info!("[{id}] context compression {end}: session={id} op={op} reason={reason}");
                }
                _ => {}
            }
        }
    }

    pub(super) fn log_started(&self, operation: &Operation) {
        let (id, op, model) = (&self.id, operation.name(&self.id), &self.home.compressor.model);
        let Operation { messages, tokens, .. } = operation;
        tracing::info!(
            "[{id}] context compression started: session={id} op={op} messages={messages} tokens=~{tokens} model={model}"
        );
    }

    pub(super) fn is_finalising(&self) -> bool {
        matches!(self.state.phase, Phase::Closed(stage) if stage != Finalisation::Done)
            && self.state.handover.parked.is_none()
    }

    /// The home's gauges follow what this session does.
    pub(super) fn report(&mut self) {
        let ordered = self.state.compression.as_ref().map_or(0, |operation| operation.orders.len());
        let share = Share {
            running: usize::from(matches!(self.state.phase, Phase::Turn(_))),
            asking: usize::from(matches!(self.state.phase, Phase::Turn(_)) && !self.state.is_running()),
            // What the operator's silence holds is on disk, and a stop does not wait for it to end.
            waiting: if self.state.halted { 0 } else { self.state.waiting.len() + ordered },
            finalising: usize::from(self.is_finalising()),
            cached: self.prompting.bytes(),
        };
        self.count(share);
        self.home.stirred.notify_waiters();
    }

    pub(super) fn count(&mut self, share: Share) {
        let (gauges, before) = (&self.home.gauges, &self.share);
        gauges.running.fetch_add(share.running.wrapping_sub(before.running), Ordering::Relaxed);
        gauges.asking.fetch_add(share.asking.wrapping_sub(before.asking), Ordering::Relaxed);
        gauges.waiting.fetch_add(share.waiting.wrapping_sub(before.waiting), Ordering::Relaxed);
        gauges.finalising.fetch_add(share.finalising.wrapping_sub(before.finalising), Ordering::Relaxed);
        gauges.cached.fetch_add(share.cached.wrapping_sub(before.cached), Ordering::Relaxed);
        self.share = share;
    }
}
