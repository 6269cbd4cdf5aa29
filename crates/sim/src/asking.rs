//! How often the model is asked: once for each step. A question is asked again only if the model failed, if the process
//! ended, or if something was said that belongs to it.

use crate::plan::{Plan, words};
use crate::records::{Question, Records, Said};
use std::collections::BTreeMap;
use throughline_core::SessionId;
use throughline_core::session::BusyInput;

/// P8, P9: everything that is wrong with how often the model was asked.
pub fn verdict(plan: &Plan, records: &Records) -> Vec<String> {
    let mut wrong = no_question_is_let_go_without_a_reason(plan, records);
    wrong.extend((0..records.chats.len()).flat_map(|chat| an_album_is_one_question(records, chat)));
    wrong
}

/// How many albums were asked about as one, for the tally.
pub fn albums(records: &Records) -> usize {
    records.chats.iter().flat_map(|chat| albums_in(&chat.said)).count()
}

/// A question that got neither an answer nor a failure was let go. In the same life there is no other for the same
/// step; where messages wait for their turn, none is let go because of one that could have waited.
fn no_question_is_let_go_without_a_reason(plan: &Plan, records: &Records) -> Vec<String> {
    // A disk that takes nothing makes an owner begin anew; an order of the operator ends what goes on.
    if plan.disk.full.is_some() || plan.disk.replaced.is_some() || !plan.halts.is_empty() {
        return Vec::new();
    }
    let mut last: BTreeMap<&SessionId, &Question> = BTreeMap::new();
    let mut wrong = Vec::new();
    let said = || records.chats.iter().flat_map(|chat| &chat.said);
    let stopped = said().any(|said| said.text == "/stop");
    for (number, question) in records.asked.iter().enumerate() {
        let Some(before) = last.insert(&question.session, question) else { continue };
        let let_go = before.answer.is_none() && !before.failed && before.life == question.life;
        if !let_go {
            continue;
        }
        let news = &question.prompt[before.prompt.len().min(question.prompt.len())..];
        let gathers = |row: &String| {
            let line = row.strip_prefix("user:");
            said().any(|said| said.gathers && line.is_some() && words(&said.text) == line)
        };
        let steered = |row: &String| {
            let line = row.strip_prefix("user:");
            said().any(|said| said.text.starts_with("/steer") && words(&said.text) == line)
        };
        if news.is_empty() {
            wrong.push(format!(
                "{}: question {number} was asked twice, and nothing had failed",
                question.session
            ));
        } else if plan.busy == BusyInput::Queue
            && !stopped
            && !since_answered(&before.prompt).iter().any(gathers)
            && !news.iter().any(steered)
        {
            wrong.push(format!(
                "{}: the answer to {:?} was given up for {news:?}, which could have waited",
                question.session,
                before.prompt.last()
            ));
        }
    }
    wrong
}

fn since_answered(prompt: &[String]) -> &[String] {
    let is_answer = |segment: &String| segment.starts_with("assistant:") && segment.ends_with('|');
    &prompt[prompt.iter().rposition(is_answer).map_or(0, |at| at + 1)..]
}

/// The messages that were meant as one, and were all taken in one life and by one session.
fn albums_in(said: &[Said]) -> impl Iterator<Item = &[Said]> {
    let together = |one: &Said, other: &Said| {
        // What a process took before it ended belongs to that one, even if a later one acknowledges it.
        let life = |said: &Said| said.taken.map(|(life, _)| life).filter(|life| *life == said.life);
        let session = |said: &Said| said.went_to.as_ref().map(|(session, _)| session.clone());
        let lives = life(one).is_some() && life(one) == life(other);
        other.text.contains("-part") && lives && session(one) == session(other)
    };
    let is_album = |album: &&[Said]| album.len() > 1 && album[0].text.starts_with('c') && whole(said, album);
    said.chunk_by(together).filter(is_album)
}

/// Its first message is among them, and its last.
fn whole(said: &[Said], album: &[Said]) -> bool {
    let stem = |said: &Said| said.text.split("-part").next().unwrap_or_default().to_owned();
    let all = said.iter().filter(|other| stem(other) == stem(&album[0])).count();
    all == album.len()
}

/// P8: the model hears of an album at once: the first question with its first message has all of it.
fn an_album_is_one_question(records: &Records, chat: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for album in albums_in(&records.chats[chat].said) {
        let rows: Vec<_> = album.iter().map(|said| format!("user:{}", said.text)).collect();
        let first = records.asked.iter().find(|asked| asked.prompt.contains(&rows[0]));
        let life = album[0].taken.map(|(life, _)| life);
        let Some(first) = first.filter(|first| Some(first.life) == life) else { continue };
        let missing: Vec<_> = rows.iter().filter(|row| !first.prompt.contains(row)).collect();
        if !missing.is_empty() {
            wrong.push(format!("chat {chat}: asked about {:?}, and not yet {missing:?}", rows[0]));
        }
    }
    wrong
}
