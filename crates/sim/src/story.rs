//! P30: what `throughline why` tells of each message is all that happened to it, in an order that is possible, and
//! nothing that the world has not seen.

use crate::mutant::Mutant;
use crate::plan::{Manner, Plan, words};
use crate::records::{Owner, Question, Records};
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::port::{Read, StoreError, Trace};
use throughline_core::{Seq, SessionId};

type Transcripts = BTreeMap<SessionId, Vec<String>>;

/// What is told of one message.
struct Story {
    seq: Seq,
    told: Vec<Trace>,
}

impl Story {
    /// What is told of it in the session that took it.
    fn here<'a>(&'a self, session: &'a SessionId, name: &'a str) -> impl Iterator<Item = &'a Trace> {
        self.told.iter().filter(move |trace| trace.session == *session && trace.name == name)
    }
}

/// Everything that is wrong with what one home tells of its messages. `transcripts` are whole: every summary is taken for
/// what it stands for.
pub fn verdict(
    plan: &Plan,
    records: &Records,
    store: &dyn Read,
    transcripts: &Transcripts,
    mutant: Option<Mutant>,
) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let empty = Vec::new();
    for (session, transcript) in transcripts {
        let Some(loaded) = store.load(session)? else { continue };
        let mut stories = Vec::new();
        for seq in (1..=loaded.session.received.0).map(Seq) {
            let told = store.trace(&format!("{session}/{seq}"))?;
            let told = match mutant {
                Some(mutant) => mutant.retell(told),
                None => told,
            };
            stories.push(Story { seq, told });
        }
        let transcript = if stories.is_empty() { &empty } else { transcript };
        for story in &stories {
            wrong.extend(has_a_beginning_and_an_end(plan, session, story));
            wrong.extend(replies_were_seen(records, session, story));
            wrong.extend(calls_are_in_the_transcript(session, story, transcript));
        }
        if !is_imported(plan, records, session) {
            wrong.extend(every_answer_and_call_is_told(session, &stories, transcript));
        }
        wrong.extend(what_was_shown_is_told(records, session, &stories));
        wrong.extend(what_people_saw_is_told(plan, records, session, &stories));
    }
    Ok(wrong)
}

/// A client that sends its history along brings rows that no model was asked for here, if its request had to be renewed.
fn is_imported(plan: &Plan, records: &Records, session: &SessionId) -> bool {
    let question = records.asked.iter().find(|asked| asked.session == *session);
    match question.map(|question| records.owner(&question.prompt)) {
        Some(Owner::Client(client)) => {
            plan.clients[client].manner == Manner::Threaded && !records.clients[client].renewed.is_empty()
        }
        _ => false,
    }
}

/// It was received once, taken up before it was answered, and something became of it.
fn has_a_beginning_and_an_end(plan: &Plan, session: &SessionId, story: &Story) -> Vec<String> {
    let name = format!("{session}/{}", story.seq);
    let mut wrong = Vec::new();
    let count = |what: &str| story.here(session, what).count();
    if count("received") != 1 {
        wrong.push(format!("why {name}: it was received {} times: {:?}", count("received"), story.told));
        return wrong;
    }
    let ends = ["answered", "failed", "done", "moved"].map(count).iter().sum::<usize>();
    let waits = count("waiting");
    if ends + waits != 1 || (waits > 0 && plan.halts.is_empty()) {
        wrong.push(format!("why {name}: it ended {ends} times, and waits {waits} times: {:?}", story.told));
    }
    if let Some(answered) = story.here(session, "answered").next() {
        let turn = answered.detail.strip_prefix("by ").unwrap_or_default().to_owned();
        let mut taken = story.here(session, "turn_began").chain(story.here(session, "joined_turn"));
        let began = taken.any(|began| began.detail.split(',').next() == Some(&turn));
        if !began {
            wrong.push(format!(
                "why {name}: it was answered by {turn}, which it was no part of: {:?}",
                story.told
            ));
        }
    }
    for moved in story.here(session, "moved") {
        let to = moved.detail.rsplit(' ').next().unwrap_or_default();
        if !story.told.iter().any(|trace| trace.session.as_str() == to && trace.name == "received") {
            wrong.push(format!("why {name}: it moved to {to}, and nothing is told of it there"));
        }
    }
    let order =
        |name: &str| story.told.iter().position(|trace| trace.session == *session && trace.name == name);
    if count("turn_began") + count("joined_turn") > 1 {
        wrong.push(format!("why {name}: it was taken up twice: {:?}", story.told));
    }
    for (earlier, later) in [
        ("received", "queued"),
        ("received", "turn_began"),
        ("received", "joined_turn"),
        ("queued", "turn_began"),
        ("queued", "joined_turn"),
        ("joined_turn", "answered"),
        ("joined_turn", "failed"),
        ("turn_began", "answered_by_model"),
        ("turn_began", "answered"),
        ("turn_began", "failed"),
        ("received", "done"),
        ("received", "moved"),
        ("reply_written", "reply_delivered"),
    ] {
        if let (Some(first), Some(second)) = (order(earlier), order(later))
            && first > second
        {
            wrong.push(format!("why {name}: {later} is told before {earlier}: {:?}", story.told));
        }
    }
    wrong
}

/// A reply that is told of was shown, or reached the other agent, or is told as refused.
fn replies_were_seen(records: &Records, session: &SessionId, story: &Story) -> Vec<String> {
    let keys: BTreeSet<&str> = story
        .told
        .iter()
        .filter(|trace| trace.name == "reply_written")
        .map(|trace| key_in(&trace.detail))
        .collect();
    let was_seen = |key: &str| {
        records.shown.iter().any(|shown| shown.key == key)
            || records.letters.iter().any(|letter| letter.key == key)
    };
    let seen = keys.iter().filter(|key| was_seen(key)).count();
    let count = |name: &str| story.told.iter().filter(|trace| trace.name == name).count();
    let (delivered, refused) = (count("reply_delivered"), count("reply_refused"));
    match delivered <= seen
        && keys.len() <= delivered + refused + count("reply_attempting") + count("reply_postponed")
    {
        true => Vec::new(),
        false => vec![format!(
            "why {session}/{}: of {keys:?} {seen} were seen; {delivered} are told as delivered, {refused} as refused",
            story.seq
        )],
    }
}

fn key_in(detail: &str) -> &str {
    detail.split(" to ").next().unwrap_or_default()
}

/// What a call is said to have returned is in the transcript.
fn calls_are_in_the_transcript(session: &SessionId, story: &Story, transcript: &[String]) -> Vec<String> {
    let results = || transcript.iter().filter_map(|row| Some(row.strip_prefix("tool:")?.split_once('=')?.1));
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for call in story.here(session, "call") {
        let Some((_, told)) = call.detail.split_once(": done, ") else { continue };
        let told = told.trim_end_matches('…');
        if !told.contains('*') && !results().any(|result| plain(result).starts_with(told)) {
            wrong.push(format!("why {session}/{}: no call returned {told:?}", story.seq));
        }
    }
    wrong
}

/// Each answer of the model and each call of the transcript is told, once for the session.
fn every_answer_and_call_is_told(
    session: &SessionId,
    stories: &[Story],
    transcript: &[String],
) -> Vec<String> {
    let all = |name: &'static str| -> BTreeSet<String> {
        let told = stories.iter().flat_map(|story| story.here(session, name));
        told.map(|trace| trace.detail.clone()).collect()
    };
    // Two answers differ by their rows, two calls by their places.
    let (answers, calls) = (all("answered_by_model").len(), all("call").len());
    let rows = |prefix: &str| transcript.iter().filter(|row| row.starts_with(prefix)).count();
    let mut wrong = Vec::new();
    for (what, told, kept) in [("answers", answers, rows("assistant:")), ("calls", calls, rows("tool:"))] {
        if told != kept {
            wrong.push(format!("why {session}: {told} {what} are told, and {kept} are kept: {transcript:?}"));
        }
    }
    wrong
}

/// All that a platform showed because of a message is told of that message.
fn what_was_shown_is_told(records: &Records, session: &SessionId, stories: &[Story]) -> Vec<String> {
    let told: BTreeSet<&str> = stories
        .iter()
        .flat_map(|story| &story.told)
        .filter(|trace| trace.name == "reply_written")
        .map(|trace| key_in(&trace.detail))
        .collect();
    let mine = records.shown.iter().filter(|shown| {
        let rest = shown.key.strip_prefix(session.as_str()).and_then(|rest| rest.strip_prefix('/'));
        rest.and_then(|rest| rest.split(['/', '+']).next())
            .is_some_and(|number| number.parse::<u64>().is_ok())
    });
    let silent = mine.filter(|shown| !told.contains(shown.key.as_str()));
    silent.map(|shown| format!("why {session}: {} was shown, and nobody is told of it", shown.key)).collect()
}

/// What the people of a chat know: a line that came while the model answered another had to wait, and what `/stop` ended
/// was stopped.
fn what_people_saw_is_told(
    plan: &Plan,
    records: &Records,
    session: &SessionId,
    stories: &[Story],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for said in records.chats.iter().flat_map(|chat| &chat.said) {
        let Some((_, seq)) = said.went_to.as_ref().filter(|(to, _)| to == session) else { continue };
        let Some(story) = stories.iter().find(|story| story.seq == *seq) else {
            wrong.push(format!("why {session}/{seq}: {:?} was acknowledged, and nothing is told", said.text));
            continue;
        };
        let (Some((life, taken)), Some(line)) = (said.taken, words(&said.text)) else { continue };
        let row = format!("user:{line}");
        let answered_beside = |asked: &&Question| {
            let during = asked.at < taken && asked.answered.is_some_and(|answered| answered > taken);
            asked.session == *session && asked.life == life && during && !asked.prompt.contains(&row)
        };
        let waited = records.asked.iter().any(|asked| answered_beside(&asked));
        let told = ["queued", "moved", "waiting"].iter().any(|name| story.here(session, name).count() > 0);
        if waited && !told && plan.clock.only_rises() {
            wrong.push(format!(
                "why {session}/{seq}: {line:?} waited, and that is not told: {:?}",
                story.told
            ));
        }
    }
    for shown in records.shown.iter().filter(|shown| shown.text.starts_with("Stopped message ")) {
        let Some((of, _)) = shown.key.strip_suffix("/done").and_then(|key| key.rsplit_once('/')) else {
            continue;
        };
        let stopped = shown.text.strip_prefix("Stopped message ").and_then(|rest| rest.split(' ').next());
        let Some(seq) = stopped.and_then(|number| number.parse().ok()).map(Seq) else { continue };
        if of != session.as_str() {
            continue;
        }
        let told = stories.iter().find(|story| story.seq == seq);
        // What is noted is found by its date.
        let noted =
            |story: &Story| story.here(session, "turn_stopped").count() > 0 || !plan.clock.only_rises();
        if told.is_some_and(|story| !noted(story)) {
            wrong.push(format!("why {session}/{seq}: it was stopped, and that is not told"));
        }
    }
    wrong
}
