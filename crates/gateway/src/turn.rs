//! Work that a state implies: ask the model, call a tool, wait for a person. Each reports back by mail;
//! none writes anything itself.

use crate::agent::Home;
use crate::chain;
use crate::compress::ContextState;
use crate::elicit::CallAsker;
use crate::session::Mail;
use crate::stream::Feed;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::chain::Share;
use throughline_core::input::Room;
use throughline_core::message::{JsonText, ToolResult};
use throughline_core::port::{Asked, CallId, Model, ModelError, Promise};
use throughline_core::prompt::{Mark, Prompt};
use throughline_core::session::{Approver, Event, Failure, FailureKind};
use throughline_core::tool::{Ask, Call, Caller, Done, Offer, Returned, Tools, Verdict};
use throughline_core::turn::{Recipient, ask_again};
use throughline_core::{Seq, SessionId, Time, TurnId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::Instrument;

/// What a job works with: its session's address and the home's means.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub home: Arc<Home>,
    pub session: SessionId,
    pub mail: mpsc::WeakUnboundedSender<Mail>,
}

pub(crate) struct Asking {
    pub turn: TurnId,
    pub step: u32,
    pub inputs: Vec<Seq>,
    pub prompt: Prompt,
    pub mark: Mark,
    pub sampling: Option<JsonText>,
    pub model: Arc<dyn Model>,
    pub context_state: ContextState,
    /// What each request takes of the budget of what it follows from. None: a person began it.
    pub share: Option<Share>,
    pub recipient: Recipient,
}

impl JobContext {
    pub fn start(&self, context: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        tokio::spawn(context.in_current_span()).abort_handle()
    }

    pub fn report(&self, event: Event) {
        if let Some(mail) = self.mail.upgrade() {
            let _ = mail.send(Mail::Event(event)); // the actor is gone: its successor starts this job anew
        }
    }
}

pub(crate) async fn ask(context: JobContext, feed: Arc<Feed>, asking: Asking) {
    let Asking { turn, step, inputs, prompt, mark, sampling, model, context_state, share, recipient } =
        asking;
    let asked = Asked { session: context.session.to_string(), prompt, sampling };
    for attempt in 1.. {
        if let Some(share) = &share
            && let Err(cut) = chain::call(&context, share).await
        {
            return context.report(Event::Spent { turn, step, cut });
        }
        feed.asking(turn, step, inputs.clone());
        let deltas = |delta| feed.delta(turn, step, delta);
        let asking = async { model.ask(asked.clone(), &deltas).await };
        let answered = AssertUnwindSafe(asking).catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
        match answered {
            Ok(answer) => {
                context.home.model_answered(None);
                // The context engine has its say before the answer is written down.
                let full = context.home.compressor.is_full(&answer, &context_state).await;
                return context.report(Event::Answered { turn, step, answer, prompt: mark, full });
            }
            Err(ModelError { kind, message }) => match ask_again(kind, attempt, recipient) {
                Some(delay) => {
                    tracing::warn!(attempt, ?delay, message, "the model did not answer; asking again");
                    context.home.model_answered(Some(&message));
                    feed.troubled(turn, step, format!("{message} It is asked again for a while."));
                    context.home.note(Some(context.session.clone()), "model_retried", message);
                    sleep(delay).await;
                }
                None => {
                    context.home.model_answered(Some(message.as_str()).filter(|_| is_of_the_model(kind)));
                    return context.report(Event::Failed { turn, step, failure: Failure { kind, message } });
                }
            },
        }
    }
}

/// The model, or the way to it, is at fault, rather than what it was asked.
fn is_of_the_model(kind: FailureKind) -> bool {
    use FailureKind::{Broken, Credentials, Unreachable, Wait};
    matches!(kind, Wait { .. } | Unreachable | Credentials | Broken)
}

/// Runs one call. `id` is the model's own name for it.
pub(crate) async fn call(context: JobContext, place: CallId, id: String, call: Call) {
    let CallId { turn, step, index, .. } = place;
    let asker = CallAsker::new(context.clone(), place);
    let calling = async { context.home.tools.call_asking(&call, &asker).await };
    let returned = AssertUnwindSafe(calling).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(tool = call.name, "a tool panicked");
        Returned::text(format!(
            "The tool {} failed inside the gateway. This is a bug; its log has more.",
            call.name
        ))
    });
    context.report(match returned {
        Returned::Done(Done { content, sends }) => {
            let result = ToolResult { call_id: id, name: Some(call.name), content };
            Event::Called { turn, step, index, result, sends }
        }
        Returned::Ask { question, patience } => {
            Event::Asked { turn, step, index, question, patience, approver: Approver::Absent } // the actor knows better
        }
    });
}

/// A turn waits for the rest of a message no longer than this, even if the clock jumps.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// Waits for the rest of a message.
pub(crate) async fn gather(context: JobContext, (turn, step): (TurnId, u32), until: Time) {
    sleep(until.since(context.home.clock.now()).min(GATHER_MAX)).await;
    context.report(Event::Gathered { turn, step, until });
}

/// Assembles the agent's part of the system prompt, for a turn whose owner found it without one.
pub(crate) async fn prompt(context: JobContext, (turn, step): (TurnId, u32), caller: Caller, room: Room) {
    let persona = persona(&context.home, &caller, &room).await;
    context.report(Event::Prompted { turn, step, persona });
}

/// The agent's part of the system prompt.
pub(crate) async fn persona(home: &Home, caller: &Caller, room: &Room) -> String {
    let offer = home.tools.offer(caller);
    let names = offer.as_ref().map_or(&[] as &[String], |offer| &offer.names);
    match room.is_plain() {
        true => home.prompts.assemble(caller, names).await,
        false => home.prompts.assemble_in(caller, names, room).await,
    }
}

/// Waits for a person, until it is too late. A clock that was set back, or was wrong when the question was asked, makes
/// no turn wait longer than it was to wait at first.
pub(crate) async fn wait(context: JobContext, place: CallId, ask: Ask) {
    let patience = ask.until.since(ask.asked);
    sleep(ask.until.since(context.home.clock.now()).min(patience)).await;
    let CallId { turn, step, index, .. } = place;
    context.report(Event::Decided { turn, step, index, verdict: Verdict::Expired });
}

fn panicked() -> ModelError {
    let message =
        "The model's adapter failed inside the gateway. This is a bug; its log has more.".to_owned();
    ModelError { kind: FailureKind::Refused, message }
}

/// An agent without tools.
pub struct NoTools;

impl Tools for NoTools {
    fn offer(&self, _: &Caller) -> Option<Arc<Offer>> {
        None
    }

    fn is_repeatable(&self, _: &str) -> bool {
        false
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        let answer = format!("There is no tool named {:?} here. Answer without it.", call.name);
        Box::pin(async move { Returned::text(answer) })
    }
}
