//! What the user's own programs are told while sessions live: a session began, an order came, a turn ended, a
//! helper is done. Each is told once at most, after it is on disk, and the session does not wait.

use crate::agent::Home;
use std::sync::Arc;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::input::{Input, Kind, Request};
use throughline_core::port::{Fact, FactName, Happening, Occasion};
use throughline_core::session::{Act, FailureKind, Outcome, Phase, Session};
use throughline_core::turn::Turn;
use throughline_core::{Seq, SessionId, Time};

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
        let first = acts.iter().find_map(|act| match act {
            Act::Accept(input) => Some(input),
            _ => None,
        });
        let user = first.map_or(Fact::Nothing, |input| sender([input]));
        let facts = vec![
            (FactName::Model, model()),
            (FactName::Platform, Fact::from(source)),
            (FactName::User, user),
        ];
        home.hooks.tell(happening(Occasion::Begun, format!("{}/begun", after.id), &after.id, facts));
    }
    let is_wanted = |occasion| !home.hooks.names(occasion).is_empty();
    for act in acts {
        let Act::Accept(input) = act else { continue };
        let Some((name, argument)) = ordered(&input.kind).filter(|_| is_wanted(Occasion::Ordered)) else {
            continue;
        };
        let facts = vec![
            (FactName::Platform, Fact::from(source)),
            (FactName::User, sender([input])),
            (FactName::Command, Fact::from(name)),
            (FactName::Argument, Fact::from(argument)),
        ];
        let key = format!("{}/{}/ordered", after.id, input.seq);
        home.hooks.tell(happening(Occasion::Ordered, key, &after.id, facts));
    }
    if let Some(turn) = running(after) {
        let earlier = running(before).filter(|earlier| earlier.id == turn.id);
        if earlier.is_none() && is_wanted(Occasion::TurnBegan) {
            let facts = vec![
                (FactName::Turn, Fact::Text(turn.id.to_string())),
                (FactName::Task, Fact::from(&after.id)),
                (FactName::Model, model()),
                (FactName::Platform, Fact::from(source)),
                (FactName::User, sender(&turn.inputs)),
                (FactName::Sender, sender(&turn.inputs)),
                (FactName::IsFirstTurn, Fact::Flag(before.answered == Seq(0))),
                (FactName::SaidInShort, Fact::Text(excerpt(&said(turn)))),
                (FactName::Said, Fact::Text(said(turn))),
            ];
            let key = format!("{}/{}/began", after.id, turn.id);
            home.hooks.tell(happening(Occasion::TurnBegan, key, &after.id, facts));
        }
        if earlier.is_none_or(|earlier| earlier.step < turn.step) && is_wanted(Occasion::Stepped) {
            let calls = earlier.and_then(|earlier| earlier.group.as_ref()).map(|group| &group.answer.calls);
            let names: Vec<String> = calls.into_iter().flatten().map(|call| call.name.clone()).collect();
            let facts = vec![
                (FactName::Platform, Fact::from(source)),
                (FactName::User, sender(&turn.inputs)),
                (
                    FactName::Iteration,
                    Fact::Number(u64::from(turn.step - turn.first_step.min(turn.step)) + 1),
                ),
                (FactName::ToolNames, Fact::Names(names)),
            ];
            let key = format!("{}/{}/{}/stepped", after.id, turn.id, turn.step);
            home.hooks.tell(happening(Occasion::Stepped, key, &after.id, facts));
        }
    }
    let Some(turn) = running(before) else { return };
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
    let answered = acts.iter().rev().find_map(|act| match act {
        Act::Append(message) if message.role() == "assistant" => Some(message.content().plain()),
        _ => None,
    });
    let key = format!("{}/{}", after.id, turn.id);
    let facts = vec![
        (FactName::Turn, Fact::Text(turn.id.to_string())),
        (FactName::Task, Fact::from(&after.id)),
        (FactName::User, sender(&turn.inputs)),
        (FactName::Completed, Fact::Flag(completed)),
        (FactName::Interrupted, Fact::Flag(stopped)),
        (FactName::Model, model()),
        (FactName::Platform, Fact::from(source)),
        (FactName::SaidInShort, Fact::Text(excerpt(&said(turn)))),
        (FactName::AnswerInShort, answered.clone().map_or(Fact::Nothing, |text| Fact::Text(excerpt(&text)))),
        (FactName::Said, Fact::Text(said(turn))),
        (FactName::Answer, answered.clone().map_or(Fact::Nothing, Fact::Text)),
    ];
    home.hooks.tell(happening(Occasion::TurnEnded, key.clone(), &after.id, facts));
    if let Some(task) = turn.task() {
        let status = if completed { "completed" } else { "error" };
        let facts = vec![
            (FactName::Parent, Fact::from(&task.parent)),
            (FactName::Child, Fact::from(&after.id)),
            (FactName::ChildRole, Fact::Nothing),
            (FactName::ChildGoal, Fact::Text(said(turn))),
            (FactName::ChildSummary, answered.map_or(Fact::Nothing, Fact::Text)),
            (FactName::ChildStatus, Fact::from(status)),
            (
                FactName::DurationMs,
                Fact::Number(u64::try_from(now.since(turn.began).as_millis()).unwrap_or(u64::MAX)),
            ),
        ];
        home.hooks.tell(happening(Occasion::HelperStopped, key, &task.parent, facts));
    }
}

fn running(session: &Session) -> Option<&Turn> {
    match &session.phase {
        Phase::Turn(turn) => Some(turn),
        _ => None,
    }
}

/// Who wrote it last, in the platform's terms; where others read along, too, as Hermes has it.
fn sender<'a>(inputs: impl IntoIterator<Item = &'a Arc<Input>>) -> Fact {
    let senders = inputs.into_iter().filter_map(|input| input.sender.as_ref());
    senders.last().map_or(Fact::Nothing, |sender| Fact::Text(sender.id.clone()))
}

/// As much of a text as Hermes tells its hooks.
const EXCERPT_CHARS: usize = 500;

fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS).collect()
}

/// What the turn is about, as it was written.
fn said(turn: &Turn) -> String {
    let words = turn.inputs.iter().filter_map(|input| match &input.kind {
        Kind::Chat(content) | Kind::Request(Request { content, .. }) => Some(content.plain()),
        Kind::Command(_) => None,
    });
    words.collect::<Vec<_>>().join("\n")
}

/// An order that is one here, by its name, and what was written behind it as far as that is kept.
fn ordered(kind: &Kind) -> Option<(&str, &str)> {
    let Kind::Command(command) = kind else { return None };
    let argument = match command {
        Command::Absent { .. } | Command::Unknown { .. } | Command::Notice { .. } => return None,
        Command::Compress { focus: Some(argument), .. }
        | Command::Deferred(DeferredCommand::Other { argument, .. })
        | Command::Deferred(DeferredCommand::New { title: argument, .. })
        | Command::Deferred(DeferredCommand::Title { wanted: Some(argument) })
        | Command::Deferred(DeferredCommand::Background { text: argument, .. }) => argument.as_str(),
        other => other.words().unwrap_or_default(),
    };
    Some((command.name(), argument))
}
