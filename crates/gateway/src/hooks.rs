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

/// A commit that is on disk, as hooks are told of it.
pub(crate) struct CommitNews<'a> {
    pub home: &'a Arc<Home>,
    pub source: &'a str,
    pub before: &'a Session,
    pub after: &'a Session,
    pub acts: &'a [Act],
    pub at: Time,
}

impl CommitNews<'_> {
    pub fn tell(&self) {
        self.session_began();
        self.orders_came();
        self.turn_goes_on();
        self.turn_ended();
    }

    fn is_wanted(&self, occasion: Occasion) -> bool {
        !self.home.hooks.names(occasion).is_empty()
    }

    fn happened(&self, occasion: Occasion, key: String, session: &SessionId, facts: Vec<(FactName, Fact)>) {
        let (session, source) = (session.clone(), self.source.to_owned());
        self.home.hooks.tell(Happening { occasion, key, session, source, facts });
    }

    fn model(&self) -> (FactName, Fact) {
        (FactName::Model, Fact::from(self.home.model.name()))
    }

    fn platform(&self) -> (FactName, Fact) {
        (FactName::Platform, Fact::from(self.source))
    }

    fn session_began(&self) {
        if !self.acts.iter().any(|act| matches!(act, Act::Open(_))) {
            return;
        }
        let first = self.acts.iter().find_map(|act| match act {
            Act::Accept(input) => Some(input),
            _ => None,
        });
        let user = first.map_or(Fact::Nothing, |input| sender([input]));
        let facts = vec![self.model(), self.platform(), (FactName::User, user)];
        let id = &self.after.id;
        self.happened(Occasion::Begun, format!("{id}/begun"), id, facts);
    }

    fn orders_came(&self) {
        let id = &self.after.id;
        for act in self.acts {
            let Act::Accept(input) = act else { continue };
            let Some((name, argument)) = ordered(&input.kind) else { continue };
            if !self.is_wanted(Occasion::Ordered) {
                continue;
            }
            let facts = vec![
                self.platform(),
                (FactName::User, sender([input])),
                (FactName::Command, Fact::from(name)),
                (FactName::Argument, Fact::from(argument)),
            ];
            self.happened(Occasion::Ordered, format!("{id}/{}/ordered", input.seq), id, facts);
        }
    }

    fn turn_goes_on(&self) {
        let Some(turn) = running(self.after) else { return };
        let earlier = running(self.before).filter(|earlier| earlier.id == turn.id);
        if earlier.is_none() && self.is_wanted(Occasion::TurnBegan) {
            self.turn_began(turn);
        }
        if earlier.is_none_or(|earlier| earlier.step < turn.step) && self.is_wanted(Occasion::Stepped) {
            self.turn_stepped(turn, earlier);
        }
    }

    fn turn_began(&self, turn: &Turn) {
        let id = &self.after.id;
        let facts = vec![
            (FactName::Turn, Fact::Text(turn.id.to_string())),
            (FactName::Task, Fact::from(id)),
            self.model(),
            self.platform(),
            (FactName::User, sender(&turn.inputs)),
            (FactName::Sender, sender(&turn.inputs)),
            (FactName::IsFirstTurn, Fact::Flag(self.before.answered == Seq(0))),
            (FactName::SaidInShort, Fact::Text(excerpt(&said(turn)))),
            (FactName::Said, Fact::Text(said(turn))),
        ];
        self.happened(Occasion::TurnBegan, format!("{id}/{}/began", turn.id), id, facts);
    }

    fn turn_stepped(&self, turn: &Turn, earlier: Option<&Turn>) {
        let id = &self.after.id;
        let calls = earlier.and_then(|earlier| earlier.group.as_ref()).map(|group| &group.answer.calls);
        let names: Vec<String> = calls.into_iter().flatten().map(|call| call.name.clone()).collect();
        let iteration = u64::from(turn.step - turn.first_step.min(turn.step)) + 1;
        let facts = vec![
            self.platform(),
            (FactName::User, sender(&turn.inputs)),
            (FactName::Iteration, Fact::Number(iteration)),
            (FactName::ToolNames, Fact::Names(names)),
        ];
        self.happened(Occasion::Stepped, format!("{id}/{}/{}/stepped", turn.id, turn.step), id, facts);
    }

    fn turn_ended(&self) {
        let Some(turn) = running(self.before) else { return };
        if matches!(&self.after.phase, Phase::Turn(running) if running.id == turn.id) {
            return;
        }
        let outcome =
            self.acts.iter().find_map(|act| match act {
                Act::Settle {
                    outcome: outcome @ (Outcome::Answered(of) | Outcome::Failed(of, _)), ..
                } if *of == turn.id => Some(outcome),
                _ => None,
            });
        let Some(outcome) = outcome else { return };
        let stopped = matches!(outcome, Outcome::Failed(_, failure) if failure.kind == FailureKind::Stopped);
        let completed = matches!(outcome, Outcome::Answered(_));
        let answered = self.acts.iter().rev().find_map(|act| match act {
            Act::Append(message) if message.role() == "assistant" => Some(message.content().plain()),
            _ => None,
        });
        let in_short = answered.as_deref().map_or(Fact::Nothing, |text| Fact::Text(excerpt(text)));
        let answer = answered.map_or(Fact::Nothing, Fact::Text);
        let id = &self.after.id;
        let facts = vec![
            (FactName::Turn, Fact::Text(turn.id.to_string())),
            (FactName::Task, Fact::from(id)),
            (FactName::User, sender(&turn.inputs)),
            (FactName::Completed, Fact::Flag(completed)),
            (FactName::Interrupted, Fact::Flag(stopped)),
            self.model(),
            self.platform(),
            (FactName::SaidInShort, Fact::Text(excerpt(&said(turn)))),
            (FactName::AnswerInShort, in_short),
            (FactName::Said, Fact::Text(said(turn))),
            (FactName::Answer, answer.clone()),
        ];
        self.happened(Occasion::TurnEnded, format!("{id}/{}", turn.id), id, facts);
        self.helper_stopped(turn, answer, completed);
    }

    fn helper_stopped(&self, turn: &Turn, answer: Fact, completed: bool) {
        let Some(task) = turn.task() else { return };
        let id = &self.after.id;
        let took = u64::try_from(self.at.since(turn.began).as_millis()).unwrap_or(u64::MAX);
        let facts = vec![
            (FactName::Parent, Fact::from(&task.parent)),
            (FactName::Child, Fact::from(id)),
            (FactName::ChildRole, Fact::Nothing),
            (FactName::ChildGoal, Fact::Text(said(turn))),
            (FactName::ChildSummary, answer),
            (FactName::ChildStatus, Fact::from(if completed { "completed" } else { "error" })),
            (FactName::DurationMs, Fact::Number(took)),
        ];
        self.happened(Occasion::HelperStopped, format!("{id}/{}", turn.id), &task.parent, facts);
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
