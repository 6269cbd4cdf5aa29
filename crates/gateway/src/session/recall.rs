//! The job that asks the memory what bears on a turn.
//!
//! It reports within the patience of the turn, and once more when an answer that the turn did not wait for has come, or will
//! not. What a turn does with either is the machine's to decide ([`throughline_core::session::Recall`]).

use crate::agent::stopping;
use crate::recollect::recollect;
use crate::retention::STOP_PATIENCE;
use crate::turn::JobContext;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;
use throughline_core::command::skill;
use throughline_core::memory::{MemoryError, Scope, unfenced};
use throughline_core::message::Content;
use throughline_core::session::{Event, Recall};
use throughline_core::{Message, RowId, TurnId, port};
use tokio::time::{sleep, timeout};

/// Where reminders come from.
pub(super) enum Reminder {
    Provider(Scope),
    /// The home's own conversations, as far as the caller may see them.
    Own(port::Scope),
}

/// How long a turn waits for its own store.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long an answer that its turn did not wait for is worth having.
const LATE_MAX: Duration = Duration::from_secs(8);

/// Asks, but not for long: a turn waits for no memory that does not come, and a gateway that stops even less.
pub(super) async fn recall(
    context: JobContext,
    (turn, step): (TurnId, u32),
    reminder: Reminder,
    heard: Option<(RowId, Message)>,
) {
    let report = |recall| context.report(Event::Recalled { turn, step, recall });
    let Some((row, said, query)) = heard.and_then(|(row, message)| question(row, &message)) else {
        return report(Recall::Unasked);
    };
    let patience = context.home.memory.as_ref().map_or(PATIENCE, |memory| memory.patience);
    let goes_on = matches!(reminder, Reminder::Provider(_));
    let mut asking = pin!(AssertUnwindSafe(asked(&context, reminder, &query)).catch_unwind());
    let stopped = async {
        stopping(&context.home).await;
        sleep(STOP_PATIENCE).await;
    };
    let asked = tokio::select! {
        biased; // a simulation must not depend on luck
        asked = timeout(patience, &mut asking) => asked.ok(),
        () = stopped => None,
    };
    let why = match asked {
        Some(Ok(Ok(text))) => return report(Recall::Found { row, said, text }),
        Some(Ok(Err(error))) => error.to_string(),
        Some(Err(_)) => "the provider failed inside the gateway".into(),
        None => {
            tracing::warn!(
                ?patience,
                "the turn goes on without what its memory knows: there was no answer in time"
            );
            report(Recall::Missed { row, said, pending: goes_on });
            if goes_on {
                let late = tokio::select! {
                    biased; // as above
                    late = timeout(LATE_MAX, asking) => late,
                    () = stopping(&context.home) => return,
                };
                let text = match late {
                    Ok(Ok(Ok(text))) if !text.is_empty() => Some(text),
                    _ => None,
                };
                report(Recall::Late(text));
            }
            return;
        }
    };
    tracing::warn!(why, "the turn goes on without what its memory knows");
    context.home.note(Some(context.session.clone()), "recall_failed", why);
    report(Recall::Missed { row, said, pending: false });
}

/// What the memory is asked about a row, if it can be asked about it: the row, what it says, and the question.
fn question(row: RowId, heard: &Message) -> Option<(RowId, String, String)> {
    let Content::Text(said) = heard.content() else { return None };
    let query = unfenced(skill::written(said));
    (!query.is_empty() && heard.sent_as.is_none()).then(|| (row, said.clone(), query))
}

async fn asked(context: &JobContext, reminder: Reminder, query: &str) -> Result<String, MemoryError> {
    match (reminder, &context.home.memory) {
        (Reminder::Provider(scope), Some(memory)) => memory.provider.recall(&scope, query).await,
        (Reminder::Provider(_), None) => Ok(String::new()),
        (Reminder::Own(scope), _) => recollect(&context.home, context.session.clone(), scope, query).await,
    }
}
