//! Work that a compression implies: look at the rows, have them summarised, find out what came of it.
//! Beside the turns, and reported by mail like everything else.
//!
//! All an engine may do wrong (fail, hang, panic, return what cannot be sent) ends here as a sentence:
//! the view changes only by a commit of the session's owner.
//!
//! All that reads a long conversation here runs apart from the threads that serve requests ([`offload`]): the engine's look
//! at it, its request and its checks of a summary, a digest, and what a plugin's engine is sent.

use crate::agent::Home;
use crate::gateway_tools::GatewayTools;
use crate::scope;
use crate::turn::JobContext;
use futures_util::FutureExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::command::Command;
use throughline_core::compression::{ATTEMPTS_MAX, Cause, Extent, Kind, Operation, Replacement, estimate};
use throughline_core::history::violations;
use throughline_core::id::View;
use throughline_core::input;
use throughline_core::memory::{Provider, Scope};
use throughline_core::message::{Body, Content};
use throughline_core::port::{
    Condensed, ContextUsage, Engine, EngineError, Past, Promise, StoreError, Wishes,
};
use throughline_core::redact::redacted;
use throughline_core::session::Event;
use throughline_core::session::compress::{End, Finding, NoSummary, SurveyOrder, expected_after};
use throughline_core::tool::{Call, Kit, Returned, Spec};
use throughline_core::turn::Answer;
use throughline_core::{Message, RowId, SessionId};
use throughline_offload as offload;
use tokio::time::{sleep, timeout};

/// How long a memory provider may take to say what should be remembered. Only the summary waits for it.
const PROVIDER_PATIENCE: Duration = Duration::from_secs(5);

/// How long an engine may think about whether it is time. The caller waits for its answer.
const VERDICT_PATIENCE: Duration = Duration::from_millis(300);

/// How long `/status` waits for an engine's words, and how much of them it shows.
const WORDS_PATIENCE: Duration = Duration::from_secs(1);
const WORDS_MAX: usize = 2000;

/// How long to wait before a store that cannot be read is tried again.
const READ_RETRY: Duration = Duration::from_secs(1);

/// What an agent compresses with.
#[derive(Clone)]
pub struct Compressor {
    pub engine: Arc<dyn Engine>,
    /// The model that writes its summaries, for the log.
    pub model: String,
    /// Without being told to: ahead of time and at the hard limit.
    pub automatic: bool,
    /// What can be had without a model. None: nothing in it could be replaced.
    pub digest: Digester,
    /// Hears what is about to be summarised.
    pub memory: Option<Arc<dyn Provider>>,
    /// A compression waits for an engine no longer than this.
    pub patience: Duration,
}

pub type Digester = Arc<dyn Fn(&Past, &Wishes) -> Option<Condensed> + Send + Sync>;

impl Compressor {
    /// Whether the engine finds that it is time. One that does not say so in time is asked again after the
    /// next answer; the hard limit holds in any case.
    pub(crate) async fn is_full(&self, answer: &Answer, context_state: &ContextState) -> bool {
        let (prompt, completion) = (answer.usage.prompt(), answer.usage.output);
        let expected = expected_after(context_state.context, answer);
        let usage = ContextUsage { prompt, completion, expected };
        let asking = async { self.engine.should_compress(&context_state.scope, &usage).await };
        match timeout(VERDICT_PATIENCE, AssertUnwindSafe(asking).catch_unwind()).await {
            _ if !self.automatic => false,
            Ok(Ok(is_full)) => is_full,
            Ok(Err(_)) => self.fell_over(),
            Err(_) => {
                tracing::warn!(
                    engine = self.engine.name(),
                    "the context engine did not say whether it is time"
                );
                false
            }
        }
    }

    /// Tells the engine that a session began. No turn waits for it.
    pub(crate) fn tell_beginning(&self, home: &Arc<Home>, session: &SessionId) {
        self.tell(home, session, None, |engine, scope| engine.session_began(scope));
    }

    /// That it has ended, and which one goes on in its chat.
    pub(crate) fn tell_end(&self, home: &Arc<Home>, session: &SessionId, successor: Option<SessionId>) {
        self.tell(home, session, successor, |engine, scope| engine.session_ended(scope));
    }

    fn tell(
        &self,
        home: &Arc<Home>,
        session: &SessionId,
        successor: Option<SessionId>,
        say: fn(&dyn Engine, &Scope),
    ) {
        if !self.engine.follows_sessions() {
            return;
        }
        let (home, session) = (home.clone(), session.clone());
        tokio::spawn(async move {
            let compressor = &home.compressor;
            match scope::of_ended(&home, &session, successor.as_ref()).await {
                Ok(scope) => {
                    if catch_unwind(AssertUnwindSafe(|| say(compressor.engine.as_ref(), &scope))).is_err() {
                        compressor.fell_over();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, %session, "the context engine was not told of a session")
                }
            }
        });
    }

    pub(crate) fn status(&self) -> Option<String> {
        catch_unwind(AssertUnwindSafe(|| self.engine.status())).unwrap_or_default()
    }

    /// What the engine says for `/status` of a session. One that takes its time says nothing: the session's mailbox waits.
    pub(crate) async fn words_about(&self, home: &Home, session: &SessionId) -> Option<String> {
        let scope = scope::of_session(home, session).await.ok()?;
        let asking = AssertUnwindSafe(async { self.engine.status_of(&scope).await }).catch_unwind();
        match timeout(WORDS_PATIENCE, asking).await {
            Ok(Ok(words)) => words.map(|words| words.trim().chars().take(WORDS_MAX).collect()),
            Ok(Err(_)) => {
                self.fell_over();
                None
            }
            Err(_) => None,
        }
    }

    fn fell_over(&self) -> bool {
        tracing::error!("the context engine failed inside the gateway; the conversation goes on without it");
        false
    }
}

/// What a job needs to know of its session beside the rows.
pub(crate) struct ContextState {
    pub context: u64,
    pub scope: Scope,
    pub view: View,
    pub found: Found,
}

/// What a survey has read, for the summary that most often follows it at once.
#[derive(Clone, Default)]
pub(crate) struct Found(Arc<Mutex<Option<(View, Rows)>>>);

/// A view: its rows, and what stands in each of them.
struct Rows {
    ids: Vec<RowId>,
    messages: Vec<Message>,
}

/// What a message costs to go through, however short it is, in bytes.
const ROW_BYTES: usize = 64;

impl Rows {
    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.bytes() + ROW_BYTES).sum()
    }
}

impl Found {
    fn keep(&self, view: View, rows: Rows) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((view, rows));
    }

    /// The rows of this view, if they were read and this one is among them. They are gone afterwards.
    fn take(&self, view: View, cut: RowId) -> Option<Rows> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (of, rows) = kept?;
        (of == view && rows.ids.contains(&cut)).then_some(rows)
    }
}

pub(crate) async fn survey(context: JobContext, asked: SurveyOrder, context_state: ContextState) {
    let found = loop {
        match AssertUnwindSafe(look(&context, &asked, &context_state)).catch_unwind().await {
            Ok(Ok(found)) => break found,
            Err(_) => {
                context.home.compressor.fell_over();
                break Finding::Unknown(FELL_OVER.into());
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not look for something to compress; trying again");
                sleep(READ_RETRY).await;
            }
        }
    };
    context.report(Event::Surveyed { asked, found });
}

async fn look(
    context: &JobContext,
    asked: &SurveyOrder,
    context_state: &ContextState,
) -> Result<Finding, StoreError> {
    let rows = read(&context.home, &context.session).await?;
    Ok(offload::drive(rows.bytes(), found(context, asked, context_state, rows)).await)
}

async fn found(
    context: &JobContext,
    asked: &SurveyOrder,
    context_state: &ContextState,
    rows: Rows,
) -> Finding {
    let engine = &context.home.compressor.engine;
    let Rows { ids, messages: mut within } = rows;
    let messages = within.len();
    let reach = reach(&within, asked.keep, engine.takes().keep_last);
    let Some(cut) = reach.checked_sub(1).map(|last| ids[last]) else {
        return without_engine(context, asked, context_state, &ids, within);
    };
    let after = within.split_off(reach);
    let past = Past { scope: context_state.scope.clone(), messages: within, tokens: context_state.context };
    let wishes = offered(engine.as_ref(), &asked.focus, asked.force, asked.keep.is_some(), String::new());
    let looking = async {
        let found = engine.has_content_to_compress(&past, &wishes).await;
        (found, if found { engine.plan(&past, &wishes).await } else { None })
    };
    let Ok((found, plan)) = timeout(context.home.compressor.patience, looking).await else {
        tracing::warn!(
            engine = engine.name(),
            "the context engine did not say whether there is anything to compress"
        );
        return Finding::Unknown(format!("The context engine {} does not answer.", engine.name()));
    };
    let tokens = context_state.context.max(past.messages.iter().map(estimate).sum());
    let mut rows = past.messages;
    rows.extend(after);
    if !found {
        return without_engine(context, asked, context_state, &ids, rows);
    }
    if !asked.preview {
        context_state.found.keep(context_state.view, Rows { ids, messages: rows });
    }
    let beyond = messages - reach;
    let plan = plan.map(|mut plan| {
        plan.keep_last += beyond;
        plan
    });
    Finding::Worth(Extent { cut, messages, tokens, plan, engine_is_idle: false })
}

/// The engine has nothing to offer. A turn that cannot go on may still be helped by a digest, which can cut where an
/// engine that does not know what should stay may not.
fn without_engine(
    context: &JobContext,
    asked: &SurveyOrder,
    context_state: &ContextState,
    ids: &[RowId],
    messages: Vec<Message>,
) -> Finding {
    let is_needed = asked.force && asked.order.is_none();
    let Some(cut) = ids.last().copied().filter(|_| is_needed) else { return Finding::Nothing };
    let count = messages.len();
    let past = Past { scope: context_state.scope.clone(), messages, tokens: context_state.context };
    match (context.home.compressor.digest)(&past, &Wishes::default()) {
        Some(_) => Finding::Worth(Extent {
            cut,
            messages: count,
            tokens: context_state.context,
            plan: None,
            engine_is_idle: true,
        }),
        None => Finding::Nothing,
    }
}

/// How many rows an engine may replace. With `keep`, all before the last so many exchanges. One that
/// does not know what should stay gets nothing of the last exchange.
fn reach(messages: &[Message], keep: Option<u32>, knows_what_stays: bool) -> usize {
    let exchanges = match keep {
        Some(keep) => keep as usize,
        None if knows_what_stays => return messages.len(),
        None => 1,
    };
    let asks = messages.iter().enumerate().rev().filter(|(_, message)| matches!(message.body, Body::User(_)));
    asks.map(|(place, _)| place).nth(exchanges.saturating_sub(1)).unwrap_or(0)
}

pub(crate) async fn summarise(context: JobContext, operation: Operation, context_state: ContextState) {
    let number = operation.number;
    let working = AssertUnwindSafe(summarised(&context, operation, context_state)).catch_unwind();
    let event = working.await.unwrap_or_else(|_| {
        context.home.compressor.fell_over();
        Event::Summarised { operation: number, summary: Err(failed(FELL_OVER.into())), digest: None }
    });
    context.report(event);
}

async fn summarised(context: &JobContext, operation: Operation, context_state: ContextState) -> Event {
    let rows = match context_state.found.take(operation.base, operation.cut) {
        Some(rows) => Ok(rows),
        None => read(&context.home, &context.session).await,
    };
    match rows {
        Ok(rows) => offload::drive(rows.bytes(), prepared(context, operation, context_state, rows)).await,
        Err(error) => {
            let reason = format!("The conversation could not be read: {}.", error.in_full());
            Event::Summarised { operation: operation.number, summary: Err(failed(reason)), digest: None }
        }
    }
}

async fn prepared(
    context: &JobContext,
    operation: Operation,
    context_state: ContextState,
    rows: Rows,
) -> Event {
    let number = operation.number;
    let Rows { mut ids, mut messages } = rows;
    let scale = scale(&messages, context_state.context);
    let reach = ids.iter().take_while(|row| **row <= operation.cut).count();
    ids.truncate(reach);
    messages.truncate(reach);
    let past = Past { scope: context_state.scope, messages, tokens: context_state.context };
    let whole = keeps_exactly(&operation);
    let summary = match operation.attempts > ATTEMPTS_MAX {
        true => Err(NoSummary {
            end: End::Failed,
            reason: "The context engine has nothing to offer, or was tried too often; a digest has to do."
                .into(),
        }),
        false => condense(context, &operation, &past, whole).await,
    };
    let made = summary.and_then(|condensed| {
        replacement(&ids, &past, condensed, Kind::Summary, scale).map(Arc::new).map_err(failed)
    });
    // A turn that waits for it at the limit takes anything shorter.
    let is_good = made.as_ref().is_ok_and(|made| made.is_worth_it(0));
    let digest = (!is_good).then(|| digest(context, &past, &ids, whole, scale)).flatten();
    Event::Summarised { operation: number, summary: made, digest }
}

const FELL_OVER: &str = "The context engine failed inside the gateway. This is a bug; its log has more.";

/// `/compress here`: all before the last exchanges is summarised, and nothing of them.
fn keeps_exactly(operation: &Operation) -> bool {
    let keeps = |order: &Arc<input::Input>| {
        matches!(&order.kind, input::Kind::Command(Command::Compress { keep: Some(_), .. }))
    };
    operation.orders.iter().any(keeps)
}

async fn condense(
    context: &JobContext,
    operation: &Operation,
    past: &Past,
    whole: bool,
) -> Result<Condensed, NoSummary> {
    let compressor = &context.home.compressor;
    let engine = &compressor.engine;
    let memory = heard(compressor, past).await;
    // An engine that takes a rest after failures is to go on by itself only where a person or a turn waits for it.
    let force = operation.cause != Cause::Ahead || !operation.orders.is_empty();
    let mut wishes = offered(engine.as_ref(), &operation.focus, force, whole, memory);
    let mut refused = operation.focus.is_some() && wishes.focus.is_none();
    for _ in 0..2 {
        let asking = AssertUnwindSafe(timeout(compressor.patience, engine.compress(past, &wishes)));
        let mut condensed = match asking.catch_unwind().await {
            Ok(Ok(Ok(condensed))) => condensed,
            Ok(Ok(Err(EngineError::Unknown(_)))) if wishes != Wishes::default() => {
                refused |= wishes.focus.is_some();
                wishes = Wishes::default(); // it said it knew them, and does not
                continue;
            }
            Ok(Ok(Err(EngineError::Nothing))) => {
                return Err(NoSummary { end: End::Skipped, reason: "there is nothing to compress".into() });
            }
            Ok(Ok(Err(error))) => return Err(failed(error.to_string())),
            Ok(Err(_)) => {
                let seconds = compressor.patience.as_secs();
                return Err(failed(format!("The context engine took longer than {seconds} s.")));
            }
            Err(_) => return Err(failed(FELL_OVER.into())),
        };
        if refused {
            let remark =
                format!("The context engine {} knows no topics: the focus was not applied.", engine.name());
            condensed.remark = Some(match condensed.remark {
                Some(other) => format!("{other} {remark}"),
                None => remark,
            });
        }
        return Ok(condensed);
    }
    Err(failed("The context engine refuses what it is asked.".into()))
}

/// What an engine says of itself may hold anything.
fn failed(reason: String) -> NoSummary {
    NoSummary { end: End::Failed, reason: redacted(&reason) }
}

/// The live provider has its say, within its time. It makes no session for it and holds up no turn.
async fn heard(compressor: &Compressor, past: &Past) -> String {
    let Some(memory) = compressor.memory.as_ref().filter(|_| compressor.engine.takes().memory_context) else {
        return String::new();
    };
    let saying = AssertUnwindSafe(memory.before_compression(&past.scope, &past.messages));
    match timeout(PROVIDER_PATIENCE, saying.catch_unwind()).await {
        Ok(Ok(Ok(text))) => text,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "the memory provider had nothing to say before the compression");
            String::new()
        }
        Ok(Err(_)) | Err(_) => {
            tracing::warn!("the memory provider did not answer in time before the compression");
            String::new()
        }
    }
}

/// Only what the engine has declared is offered to it.
fn offered(engine: &dyn Engine, focus: &Option<String>, force: bool, whole: bool, memory: String) -> Wishes {
    let takes = engine.takes();
    Wishes {
        focus: focus.clone().filter(|_| takes.focus),
        force: force && takes.force,
        memory_context: if takes.memory_context { memory } else { String::new() },
        keep_last: (whole && takes.keep_last).then_some(0),
    }
}

fn digest(
    context: &JobContext,
    past: &Past,
    ids: &[RowId],
    whole: bool,
    scale: f64,
) -> Option<Arc<Replacement>> {
    let wishes = Wishes { keep_last: whole.then_some(0), ..Wishes::default() };
    let condensed = (context.home.compressor.digest)(past, &wishes)?;
    match replacement(ids, past, condensed, Kind::Digest, scale) {
        Ok(replacement) => Some(Arc::new(replacement)),
        Err(reason) => {
            tracing::error!(reason, "there is no digest");
            None
        }
    }
}

/// Estimates count characters; the provider counts tokens. Rows that it counts for less than was estimated are
/// scaled down. Never up: what is more may as well be the prompt and the tools, which no compression makes shorter.
fn scale(messages: &[Message], context: u64) -> f64 {
    let estimated: u64 = messages.iter().map(estimate).sum();
    match estimated {
        0 => 1.0,
        estimated => (context as f64 / estimated as f64).clamp(0.5, 1.0),
    }
}

/// What an engine returned, as what the store can write; or why it cannot be.
fn replacement(
    ids: &[RowId],
    past: &Past,
    condensed: Condensed,
    kind: Kind,
    scale: f64,
) -> Result<Replacement, String> {
    let Condensed { keep_first, mut messages, keep_last, model, remark } = condensed;
    for message in &mut messages {
        match &mut message.body {
            Body::User(Content::Text(text)) => *text = redacted(text),
            Body::Assistant(said) => {
                if let Content::Text(text) = &mut said.content {
                    *text = redacted(text);
                }
            }
            _ => {}
        }
    }
    let Some(end) = ids.len().checked_sub(keep_last).filter(|end| *end > keep_first) else {
        return Err("The context engine replaced nothing.".into());
    };
    if messages.is_empty() {
        return Err("The context engine returned no summary.".into());
    }
    if messages.len() > end - keep_first {
        return Err("The context engine returned more messages than it replaced.".into());
    }
    let before = &past.messages;
    let after = before[..keep_first].iter().chain(&messages).chain(&before[end..]);
    if violations(after).len() > violations(before).len() {
        return Err("The context engine tore a tool call from its result.".into());
    }
    let weight = |messages: &[Message]| (messages.iter().map(estimate).sum::<u64>() as f64 * scale) as u64;
    Ok(Replacement {
        after: keep_first.checked_sub(1).map(|last| ids[last]),
        cut: ids[end - 1],
        replaced: end - keep_first,
        before: weight(&before[keep_first..end]),
        after_tokens: weight(&messages),
        rows: messages,
        kind,
        model,
        remark,
    })
}

/// What the store has counted, for those who ordered it.
pub(crate) async fn report(context: JobContext, operation: u64) {
    loop {
        let session = context.session.clone();
        match context.home.library.read(move |store| store.promoted(&session, operation)).await {
            Ok(Some(promoted)) => return context.report(Event::Reported { operation, promoted }),
            Ok(None) => tracing::error!(operation, "a compression that took effect has no record"),
            Err(error) => tracing::warn!(%error, "could not read what a compression did; trying again"),
        }
        sleep(READ_RETRY).await;
    }
}

async fn read(home: &Home, session: &SessionId) -> Result<Rows, StoreError> {
    let session = session.clone();
    let rows = home.library.read(move |store| store.history(&session)).await?;
    let (ids, messages) = rows.into_iter().unzip();
    Ok(Rows { ids, messages })
}

/// The tools that a context engine brings along, among the agent's others.
pub struct EngineKit {
    pub engine: Arc<dyn Engine>,
    /// They know on whose behalf a call is made.
    pub gateway_tools: Arc<GatewayTools>,
}

impl Kit for EngineKit {
    fn specs(&self) -> Vec<Spec> {
        self.engine.tools()
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            match self.gateway_tools.scope_of(&call.caller).await {
                Ok(scope) => self.engine.call(&scope, call).await,
                Err(returned) => returned,
            }
        })
    }
}
