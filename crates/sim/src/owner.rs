//! The owner's private chat: what a program at the API may not decide is put there under a code. The owner answers with
//! a yes, a no or not at all; another person, who has learned the code, says yes each time. And the judge of it.

use crate::judge::done;
use crate::mutant::Mutant;
use crate::people::person;
use crate::plan::{Manner, ModelPlan, PeoplePlan, Plan, chat, client};
use crate::platforms::platform_name;
use crate::records::{Moment, Place, Reaction, Records, Yes};
use crate::world::Outside;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::port::CallId;
use throughline_gateway::Owners;

/// How what the owner is told begins, once a yes was taken.
pub const ALLOWED: &str = "Allowed: the question ";
const REFUSED: &str = "Refused: the question ";
/// What any other person is told.
const NOT_YOURS: &str = "Only the owner of the agent answers questions of other conversations";

/// What was put to the owner, and what people said to it. By the code.
#[derive(Default)]
pub struct OwnerBook {
    put: BTreeMap<String, Put>,
    /// The chats in which each was shown.
    shown: BTreeMap<String, BTreeSet<usize>>,
    said: Vec<Answer>,
}

/// A question, as it is read in a chat.
#[derive(Clone, Debug)]
pub struct Put {
    code: String,
    session: SessionId,
    /// The call that asks.
    what: String,
    has_kind: bool,
}

/// What a person says about a code.
#[derive(Clone, Debug)]
pub struct Answer {
    code: String,
    chat: usize,
    is_yes: bool,
    lasts: bool,
}

impl Plan {
    /// Two programs without a person, the owner of the agent in a private chat, and another person in another one.
    pub fn owned() -> Self {
        let script = Self::script();
        Self {
            chats: vec![
                chat(false, &[("c0.1", 0), ("c0.2", 30_000)]),
                chat(true, &[("c1.1", 0), ("c1.2", 30_000)]),
            ],
            clients: vec![
                client(Manner::Named, &[("a0.1", 9_000), ("a0.2", 9_000), ("a0.3", 9_000)]),
                client(Manner::Threaded, &[("a1.1", 9_000), ("a1.2", 9_000)]),
            ],
            people: PeoplePlan {
                yes_percent: 60,
                no_percent: 20,
                reaction_max: Duration::from_secs(4),
                patience: Duration::from_secs(20),
                gathers: false,
            },
            model: ModelPlan {
                calling_percent: 0,
                script: vec![
                    ("a0.1", vec!["permit"]),
                    ("a0.2", vec!["permit", "count", "permit"]),
                    ("a0.3", vec!["permit", "look"]),
                    ("a1.1", vec!["count", "permit"]),
                    ("a1.2", vec!["permit"]),
                    ("c1.2", vec!["permit"]),
                ],
                falls: 0,
                ..script.model.clone()
            },
            owner: Some(0),
            ..script
        }
    }
}

/// Who owns the agent.
pub fn owners(outside: &Arc<Outside>) -> Owners {
    let Some(owner) = outside.plan.owner else { return Arc::new(Vec::new) };
    let known = |chat: usize| (platform_name(outside.plan.chats[chat].keyed).to_owned(), person(chat));
    let everybody = || (0..outside.plan.chats.len()).map(known);
    let owners: Vec<_> = match outside.mutant {
        Some(Mutant::AnyPersonAnswers) => everybody().collect(),
        Some(Mutant::AskAnotherPerson) => everybody().rev().collect(),
        _ => vec![known(owner)],
    };
    Arc::new(move || owners.clone())
}

/// The question in a text that was shown, if it is one that a program's call asks.
pub fn put(text: &str) -> Option<Put> {
    let (_, rest) =
        text.strip_prefix("⚠️ May I run this? A program asked for it")?.split_once("(session ")?;
    let (session, rest) = rest.split_once(").\n\n")?;
    let (what, rest) = rest.split_once("\n\n")?;
    let (_, rest) = rest.split_once("/approve ")?;
    let code = rest.split(' ').next()?;
    Some(Put {
        code: code.to_owned(),
        session: session.parse().ok()?,
        what: what.to_owned(),
        has_kind: rest.contains(" session or "),
    })
}

pub fn shown(records: &mut Records, chat: usize, put: Put) {
    records.owner.shown.entry(put.code.clone()).or_default().insert(chat);
    records.owner.put.insert(put.code.clone(), put);
}

/// Who says what to a question, and when.
pub fn reactions(outside: &Outside, put: &Put) -> Vec<(usize, Reaction)> {
    let Some(owner) = outside.plan.owner else { return Vec::new() };
    let plan = &outside.plan.people;
    let code = &put.code;
    let mut reactions = Vec::new();
    for chat in 0..outside.plan.chats.len() {
        let (fate, lasts) = outside.draw(|seed| (seed.below(100), seed.chance(1, 4)));
        let text = match () {
            () if chat != owner => format!("/approve {code}"),
            () if fate < plan.yes_percent && lasts && put.has_kind => format!("/approve {code} session"),
            () if fate < plan.yes_percent => format!("/approve {}", code.to_uppercase()),
            () if fate < plan.yes_percent + plan.no_percent => format!("/deny {code} not today"),
            () => continue,
        };
        let micros = u64::try_from(plan.reaction_max.as_micros()).unwrap_or(u64::MAX);
        let after = Duration::from_micros(outside.draw(|seed| seed.below(micros.max(1))));
        reactions.push((chat, Reaction { at: outside.now() + after, text }));
    }
    reactions
}

/// What a line says about a code, if it names one.
pub fn answered(text: &str) -> Option<(bool, &str, bool)> {
    let (order, rest) = text.split_once(' ')?;
    let (code, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_yes = match order {
        "/approve" => true,
        "/deny" => false,
        _ => return None,
    };
    CallId::is_code(code).then_some((is_yes, code, rest == "session"))
}

/// A person says it.
pub fn note(plan: &Plan, records: &mut Records, chat: usize, answer: (bool, &str, bool), at: Moment) {
    let (is_yes, code, lasts) = answer;
    let code = code.to_ascii_lowercase();
    let session = records.owner.put.get(&code).map(|put| put.session.clone());
    if let (true, Some(session)) = (is_yes && plan.owner == Some(chat), session) {
        records.yes.push(Yes { at, place: Place::Session(session), all: false, lasting: lasts, used: false });
    }
    records.owner.said.push(Answer { code, chat, is_yes, lasts });
}

/// P31: a call of a program runs if the owner has said yes to this very call, or to its kind in this session.
pub fn permits(plan: &Plan, records: &mut Records, session: &SessionId, id: &str) {
    let Some(owner) = plan.owner.filter(|_| records.chat_of(session).is_none()) else { return };
    let book = &records.owner;
    let allows = |answer: &Answer| {
        let is_about = |put: &Put| put.what == id || (answer.lasts && put.session == *session);
        answer.is_yes && answer.chat == owner && book.put.get(&answer.code).is_some_and(is_about)
    };
    if !book.said.iter().any(allows) {
        records.wrong.push(format!("{session}: {id} was run, and the owner had not allowed it"));
    }
}

/// P31: only the owner reads a question of a program, no other person's answer is taken, and what the owner was told came
/// of an answer is what came of it.
pub fn verdict(
    plan: &Plan,
    records: &Records,
    transcripts: &BTreeMap<SessionId, Vec<String>>,
) -> Vec<String> {
    let Some(owner) = plan.owner else { return Vec::new() };
    let mut wrong = Vec::new();
    for (code, chats) in records.owner.shown.iter().filter(|(_, chats)| !chats.iter().eq([&owner])) {
        wrong.push(format!("the question {code} was read in {chats:?}, and {owner} is the owner's chat"));
    }
    for (chat, book) in records.chats.iter().enumerate().filter(|(chat, _)| *chat != owner) {
        for said in book.said.iter().filter(|said| answered(&said.text).is_some()) {
            let told = said.went_to.as_ref().and_then(|(session, seq)| done(records, session, seq.0));
            if !told.is_some_and(|told| told.starts_with(NOT_YOURS)) {
                wrong.push(format!("chat {chat}: {} was answered {told:?}", said.text));
            }
        }
    }
    for shown in records.shown.iter().filter(|shown| shown.chat == owner) {
        for (before, is_yes) in [(ALLOWED, true), (REFUSED, false)] {
            let Some(code) = shown.text.strip_prefix(before).and_then(|rest| rest.split(' ').next()) else {
                continue;
            };
            let Some(put) = records.owner.put.get(code) else {
                wrong.push(format!("the owner was told {:?}, and not asked", shown.text));
                continue;
            };
            let mine = records.owner.said.iter().filter(|answer| answer.chat == owner && answer.code == code);
            if !mine.clone().any(|answer| answer.is_yes == is_yes) {
                wrong.push(format!(
                    "the owner was told {:?}, and said {:?}",
                    shown.text,
                    mine.collect::<Vec<_>>()
                ));
            }
            let prefix = format!("tool:{}=", put.what);
            let rows = transcripts.get(&put.session).into_iter().flatten();
            let refused =
                rows.filter_map(|row| row.strip_prefix(&prefix)).any(|text| text.contains("BLOCKED"));
            let ran = records.effects.iter().any(|effect| effect.id == put.what);
            if (is_yes && refused) || (!is_yes && ran) {
                wrong.push(format!(
                    "the owner was told {:?}; it was refused: {refused}, run: {ran}",
                    shown.text
                ));
            }
        }
    }
    wrong
}

/// How often it came to that. Only where there is an owner.
pub fn tally(
    records: &Records,
    transcripts: &BTreeMap<SessionId, Vec<String>>,
    tally: &mut BTreeMap<&'static str, usize>,
) {
    if records.owner.put.is_empty() {
        return;
    }
    let result = |put: &&Put, part: &str| {
        let prefix = format!("tool:{}=", put.what);
        let rows = transcripts.get(&put.session).into_iter().flatten();
        rows.filter_map(|row| row.strip_prefix(&prefix)).any(|text| text.contains(part))
    };
    let with = |part: &str| records.owner.put.values().filter(|put| result(put, part)).count();
    tally.insert("calls of programs that the owner allowed", with("permitted "));
    tally.insert("calls of programs that the owner refused", with("denied by user"));
    tally.insert("calls of programs without an answer of the owner", with("without user response"));
    let others = records.shown.iter().filter(|shown| shown.text.starts_with(NOT_YOURS)).count();
    tally.insert("answers of other people", others);
}
