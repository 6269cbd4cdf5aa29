//! `delegate_task`: another session does a piece of work, and its last words are the result.
//!
//! The child is a session like any other: its task is a message in its inbox under a key made from
//! the call, its steps are committed, and after a crash both go on where they were, because asking
//! again under the same key finds the child that is at it. A child ends with its parent's turn, not
//! with its parent's process.

use super::{Delegation, error, spec as of, text};
use crate::agent::Home;
use crate::ingress::Ingress;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use throughline_core::command::Command;
use throughline_core::input::{Birth, DedupeKey, Kind, Request, Task, Trace};
use throughline_core::port::{AgentApi, CallId, Receipt, Refusal, Settled, Submission, Update};
use throughline_core::route::Target;
use throughline_core::session::{FailureKind, Outcome, Phase, Session};
use throughline_core::tool::{Call, Returned, Spec};
use throughline_core::turn::{Slot, Turn};
use throughline_core::{Content, SessionId};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::Instrument;

pub const NAME: &str = "delegate_task";
/// What the key of a task begins with; the call that asked for it follows.
const TASK: &str = "task";
/// A task that cannot be stopped for this long, a second each, is stopped at the next start.
const STOPS_MAX: u32 = 60;
/// As Hermes names it in `sessions.source`.
const SOURCE: &str = "subagent";
/// Between two looks for a child whose actor fell over.
const RETURN_PAUSE: Duration = Duration::from_millis(200);
/// A longer report would crowd out what it reports to.
const SUMMARY_CHARS_MAX: usize = 24_000;

pub fn spec(delegation: &Delegation) -> Spec {
    let role = json!({
        "type": "string",
        "enum": ["leaf", "orchestrator"],
        "description": format!("leaf (the default) does the work itself; orchestrator may delegate further, up to {} level(s) deep.", delegation.depth_max)
    });
    let parameters = json!({
        "type": "object",
        "properties": {
            "goal": {"type": "string", "description": "What is to be done. The other session knows nothing of this conversation: say all it needs."},
            "context": {"type": "string", "description": "Paths, errors, constraints, what was tried."},
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "goal": {"type": "string", "description": "As goal above."},
                        "context": {"type": "string", "description": "As context above."},
                        "role": role
                    },
                    "required": ["goal"]
                },
                "description": format!("Several tasks side by side instead of one goal; at most {}.", delegation.children_max)
            },
            "role": role,
            "background": {"type": "boolean", "description": "Has no effect."}
        },
        "required": []
    });
    of(
        NAME,
        "delegation",
        "Have one or more tasks done in sessions of their own, with the same tools but for those that \
         talk to people or remember. Only their final reports come back. Good for work that would flood \
         this conversation, or that falls into independent parts; not for a single command.",
        parameters,
    )
}

struct Order {
    goal: String,
    context: Option<String>,
    may_delegate: bool,
}

pub async fn run(
    home: &Arc<Home>,
    delegation: &Delegation,
    call: &Call,
    arguments: &Map<String, Value>,
) -> Returned {
    let depth = call.caller.task.as_ref().map_or(0, |task| task.depth);
    if depth >= delegation.depth_max {
        return error(&format!(
            "Delegation depth limit reached (depth={depth}, max_spawn_depth={}). Raise delegation.max_spawn_depth in config.yaml if deeper nesting is required (no hard ceiling, but each level multiplies API cost).",
            delegation.depth_max
        ));
    }
    let orders = match orders(delegation, arguments) {
        Ok(orders) => orders,
        Err(message) => return error(&message),
    };
    let began = home.clock.now();
    let siblings = orders.len();
    let work = orders.iter().enumerate();
    let work = work.map(|(index, order)| one(home, delegation, call, Place { index, siblings }, order));
    let results = join_all(work).await;
    let seconds = home.clock.now().since(began).as_secs_f64();
    let report = json!({ "results": results, "total_duration_seconds": rounded(seconds) });
    Returned::text(report.to_string())
}

fn orders(delegation: &Delegation, arguments: &Map<String, Value>) -> Result<Vec<Order>, String> {
    let top = text(arguments, "role");
    let order = |fields: &Map<String, Value>, goal: &str| Order {
        goal: goal.to_owned(),
        context: text(fields, "context").map(str::to_owned),
        may_delegate: text(fields, "role").or(top) == Some("orchestrator"),
    };
    let tasks = match arguments.get("tasks") {
        Some(Value::Array(tasks)) if !tasks.is_empty() => tasks,
        None | Some(Value::Null | Value::Array(_)) => {
            let goal = text(arguments, "goal")
                .ok_or("Provide either 'goal' (single task) or 'tasks' (batch).".to_owned())?;
            return Ok(vec![order(arguments, goal)]);
        }
        Some(_) => return Err("tasks must be a list of objects with a 'goal'.".into()),
    };
    if tasks.len() > delegation.children_max {
        return Err(format!(
            "Too many tasks: {} provided, but max_concurrent_children is {}. Either reduce the task count, split into multiple delegate_task calls, or increase delegation.max_concurrent_children in config.yaml.",
            tasks.len(),
            delegation.children_max
        ));
    }
    let read = |(index, task): (usize, &Value)| {
        let fields = task.as_object().ok_or(format!("Task {index} must be an object."))?;
        let goal = text(fields, "goal").ok_or(format!("Task {index} is missing a 'goal'."))?;
        Ok(order(fields, goal))
    };
    tasks.iter().enumerate().map(read).collect()
}

/// One task among those of a call.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    siblings: usize,
}

/// One task, from its message to its report.
async fn one(home: &Arc<Home>, delegation: &Delegation, call: &Call, place: Place, order: &Order) -> Value {
    let index = place.index;
    let ingress = Ingress(home.clone());
    let began = home.clock.now();
    let mut leash = Leash::of(call, &ingress, submission(&ingress, delegation, call, place, order));
    let receipt = match leash.child().await {
        Ok(receipt) => receipt,
        Err(refusal) => {
            leash.is_held = false;
            return json!({
                "task_index": index,
                "status": "error",
                "summary": null,
                "error": refusal.to_string(),
                "api_calls": 0,
                "duration_seconds": 0
            });
        }
    };
    let child = receipt.session.clone();
    let settled = settled(&ingress, receipt).await;
    leash.is_held = false;
    let seconds = rounded(home.clock.now().since(began).as_secs_f64());
    report(index, &child, settled.as_deref(), seconds)
}

async fn settled(ingress: &Ingress, mut receipt: Receipt) -> Option<Arc<Settled>> {
    loop {
        match receipt.progress.next().await {
            Update::Settled(settled) => return Some(settled),
            // The gateway stops: so does the parent that waits here, and both go on at the next start.
            Update::Interrupted if ingress.0.closing.load(Ordering::Relaxed) => return None,
            // The child's actor fell over, and is coming back.
            Update::Interrupted => {
                sleep(RETURN_PAUSE).await;
                if let Ok(again) = ingress.follow(receipt.session.clone(), receipt.seq).await {
                    receipt = again;
                }
            }
            Update::Delta(_)
            | Update::Restarted
            | Update::Calling { .. }
            | Update::Called { .. }
            | Update::Unattended { .. }
            | Update::Asked(_)
            | Update::Granted(_)
            | Update::Troubled(_) => {}
        }
    }
}

fn submission(
    ingress: &Ingress,
    delegation: &Delegation,
    call: &Call,
    place: Place,
    order: &Order,
) -> Submission {
    let Place { index, siblings } = place;
    let caller = &call.caller;
    let depth = caller.task.as_ref().map_or(0, |task| task.depth) + 1;
    let steps_max = delegation.steps_max;
    let task = Task {
        parent: caller.session.clone(),
        source: caller.source.clone(),
        depth: if order.may_delegate { depth } else { delegation.depth_max.max(depth) },
        steps_max,
        tokens_max: caller.tokens_left.map(|left| left / siblings as u64),
        // All that the parent may, and whether it may delegate is said apart.
        toolsets: order.may_delegate.then(|| vec!["all".into(), "delegation".into()]),
    };
    let mut words = order.goal.clone();
    if let Some(context) = &order.context {
        words.push_str("\n\nCONTEXT:\n");
        words.push_str(context);
    }
    Submission {
        target: Target::Fresh,
        birth: Birth {
            source: SOURCE.into(),
            // A task has no chat. What is the user's own must not come back through it to a chat of many.
            user: caller.user.clone().filter(|_| caller.is_private),
            principal: caller.principal.clone(),
            parent: Some(caller.session.clone()),
            ..Birth::default()
        },
        at: ingress.now(),
        key: DedupeKey::of(&[TASK, &call.key, &index.to_string()]),
        kind: Kind::Request(Request {
            content: Content::text(words),
            task: Some(task),
            ..Request::default()
        }),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: caller.trace.onward(),
        may_be_retry: false,
        // A task has its parent's people, and no others.
        can_answer: !ingress.0.is_unattended(&caller.session),
        gathers: None,
    }
}

fn report(index: usize, child: &SessionId, settled: Option<&Settled>, seconds: f64) -> Value {
    let (status, exit) = match settled.map(|settled| &settled.outcome) {
        Some(Outcome::Answered(_)) => ("completed", "completed"),
        Some(Outcome::Failed(_, failure)) => match failure.kind {
            FailureKind::Stopped => ("interrupted", "interrupted"),
            FailureKind::Exhausted => ("failed", "max_iterations"),
            _ => ("failed", "error"),
        },
        Some(Outcome::Done { .. } | Outcome::Moved { .. }) | None => ("interrupted", "interrupted"),
    };
    let mut entry = json!({
        "task_index": index,
        "status": status,
        "summary": null,
        "duration_seconds": seconds,
        "exit_reason": exit,
        "session_id": child.as_str(),
    });
    match settled.map(|settled| (&settled.outcome, &settled.answer)) {
        Some((Outcome::Answered(_), Some(answer))) => {
            entry["summary"] = bounded(&answer.said.content.plain(), child).into();
            entry["model"] = answer.model.clone().into();
            entry["tokens"] = json!({"input": answer.usage.prompt(), "output": answer.usage.output});
        }
        Some((Outcome::Failed(_, failure), _)) => entry["error"] = failure.message.clone().into(),
        _ => entry["error"] = "It did not finish.".into(),
    }
    entry
}

fn bounded(summary: &str, child: &SessionId) -> String {
    match summary.char_indices().nth(SUMMARY_CHARS_MAX) {
        None => summary.to_owned(),
        Some((end, _)) => {
            format!("{}\n[cut here; the whole report is the end of session {child}]", &summary[..end])
        }
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// A child whose parent's turn was ended is ended, too. One whose parent only lost its process is
/// not: the parent comes back and asks for it.
struct Leash {
    home: Arc<Home>,
    call: String,
    /// On its way to disk. It gets there even if no call waits for it any more.
    coming: Option<JoinHandle<Result<Receipt, Refusal>>>,
    child: Option<SessionId>,
    /// The child is still at it.
    is_held: bool,
}

impl Leash {
    fn of(call: &Call, ingress: &Ingress, submission: Submission) -> Self {
        let home = ingress.0.clone();
        let ingress = ingress.clone();
        let coming = tokio::spawn(async move { ingress.submit(submission).await }.in_current_span());
        Self { home, call: call.key.clone(), coming: Some(coming), child: None, is_held: true }
    }

    async fn child(&mut self) -> Result<Receipt, Refusal> {
        let gone = || Refusal::Internal("the task could not be begun".into());
        let coming = self.coming.as_mut().ok_or_else(gone)?;
        let receipt = coming.await.map_err(|_| gone())??;
        self.child = Some(receipt.session.clone());
        Ok(receipt)
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if !self.is_held || self.home.closing.load(Ordering::Relaxed) {
            return;
        }
        let Ok(call) = self.call.parse::<CallId>() else { return };
        let (home, child, coming) = (self.home.clone(), self.child.take(), self.coming.take());
        tokio::spawn(async move {
            let child = match (child, coming) {
                (Some(child), _) => child,
                (None, Some(coming)) => match coming.await {
                    Ok(Ok(receipt)) => receipt.session,
                    _ => return,
                },
                (None, None) => return,
            };
            end_unless_waited_for(home, call, child).await;
        });
    }
}

/// After a start: children of this session that no call waits for any more are ended.
pub(crate) async fn end_children(home: Arc<Home>, parent: SessionId) {
    let id = parent.clone();
    let Ok(children) = home.library.read(move |store| store.children(&id)).await else { return };
    for child in children {
        let id = child.clone();
        let Ok(Some(loaded)) = home.library.read(move |store| store.load(&id)).await else { continue };
        if let Some(call) = asked_by(&loaded.session) {
            end_unless_waited_for(home.clone(), call, child).await;
        }
    }
}

/// The call that a session works for at the moment.
pub(crate) fn asked_by(session: &Session) -> Option<CallId> {
    let Phase::Turn(turn) = &session.phase else { return None };
    turn.task()?;
    let fields = turn.inputs.first()?.key.fields();
    match fields.as_slice() {
        [task, call, _] if task == TASK => call.parse().ok(),
        _ => None,
    }
}

pub(crate) async fn end_unless_waited_for(home: Arc<Home>, call: CallId, child: SessionId) {
    if !is_waited_for(&home, call).await {
        stop(&Ingress(home), child).await;
    }
}

/// Whether the parent's call is still open on disk.
async fn is_waited_for(home: &Arc<Home>, call: CallId) -> bool {
    let parent = call.session.clone();
    let loaded = home.library.read(move |store| store.load(&parent)).await;
    let Ok(Some(loaded)) = loaded else { return true };
    match &loaded.session.phase {
        Phase::Turn(Turn { id, step, group: Some(group), .. }) => {
            (*id, *step) == (call.turn, call.step)
                && !matches!(group.slots.get(call.index), Some(Slot::Done(_)))
        }
        _ => false,
    }
}

async fn stop(ingress: &Ingress, child: SessionId) {
    let submission = Submission {
        target: Target::Session(child),
        birth: Birth::default(),
        at: ingress.now(),
        key: DedupeKey::of(&[TASK, "stop", &ingress.unique()]),
        kind: Kind::Command(Command::Stop),
        reply_to: None,
        sender: None,
        platform_id: None,
        // No person wrote it: it must not pass for one who lifts the operator's silence.
        trace: Trace::default().onward(),
        may_be_retry: false,
        can_answer: true,
        gathers: None,
    };
    for _ in 0..STOPS_MAX {
        match ingress.submit(submission.clone()).await {
            Ok(_) => return,
            Err(Refusal::Unwritable(_) | Refusal::Internal(_)) => sleep(Duration::from_secs(1)).await,
            Err(refusal) => return tracing::warn!(%refusal, "a task could not be stopped"),
        }
    }
}
