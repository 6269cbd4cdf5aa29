//! What the user's own programs are told while sessions live: a session began, a turn ended, a helper
//! is done. Each is told once at most, after it is on disk, and nobody waits.

use crate::agent::Home;
use std::sync::Arc;
use throughline_core::port::{Fact, Happening, Occasion};
use throughline_core::session::{Act, FailureKind, Outcome, Phase, Session};
use throughline_core::{SessionId, Time};

/// Tells of what a commit did.
pub(crate) fn tell(
    home: &Arc<Home>,
    source: &str,
    before: &Session,
    after: &Session,
    acts: &[Act],
    now: Time,
) {
    let model = || Fact::from(home.model.name());
    let happening = |occasion, key: String, session: &SessionId, facts| Happening {
        occasion,
        key,
        session: session.clone(),
        source: source.to_owned(),
        facts,
    };
    if acts.iter().any(|act| matches!(act, Act::Open(_))) {
        let facts = vec![("model", model()), ("platform", Fact::from(source))];
        home.hooks.tell(happening(Occasion::Begun, format!("{}/begun", after.id), &after.id, facts));
    }
    let Phase::Turn(turn) = &before.phase else { return };
    if matches!(&after.phase, Phase::Turn(running) if running.id == turn.id) {
        return;
    }
    let outcome = acts.iter().find_map(|act| match act {
        Act::Settle { outcome: outcome @ (Outcome::Answered(of) | Outcome::Failed(of, _)), .. }
            if *of == turn.id =>
        {
            Some(outcome)
        }
        _ => None,
    });
    let Some(outcome) = outcome else { return };
    let stopped = matches!(outcome, Outcome::Failed(_, failure) if failure.kind == FailureKind::Stopped);
    let completed = matches!(outcome, Outcome::Answered(_));
    let key = format!("{}/{}", after.id, turn.id);
    let facts = vec![
        ("turn_id", Fact::Text(turn.id.to_string())),
        ("completed", Fact::Flag(completed)),
        ("interrupted", Fact::Flag(stopped)),
        ("model", model()),
        ("platform", Fact::from(source)),
    ];
    home.hooks.tell(happening(Occasion::TurnEnded, key.clone(), &after.id, facts));
    if let Some(task) = turn.task() {
        let status = if completed { "completed" } else { "error" };
        let summary = acts.iter().rev().find_map(|act| match act {
            Act::Append(message) if message.role() == "assistant" => Some(message.content().plain()),
            _ => None,
        });
        let facts = vec![
            ("child_session_id", Fact::from(&after.id)),
            ("child_role", Fact::Nothing),
            ("child_summary", summary.map_or(Fact::Nothing, Fact::Text)),
            ("child_status", Fact::from(status)),
            (
                "duration_ms",
                Fact::Number(u64::try_from(now.since(turn.began).as_millis()).unwrap_or(u64::MAX)),
            ),
        ];
        home.hooks.tell(happening(Occasion::HelperStopped, key, &task.parent, facts));
    }
}
