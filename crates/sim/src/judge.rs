//! The judges. They stand outside the machine and compare what was sent with what was seen.

use crate::books::{Books, Question};
use crate::plan::{Manner, Plan};
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::SessionId;

/// Everything that is wrong with a world that has come to rest.
pub fn verdict(plan: &Plan, books: &Books, transcripts: &BTreeMap<SessionId, Vec<String>>) -> Vec<String> {
    let mut wrong = books.wrong.clone();
    for chat in 0..plan.chats.len() {
        wrong.extend(every_line_is_kept_in_order(plan, books, chat, transcripts));
        wrong.extend(every_line_is_answered_once(plan, books, chat));
        wrong.extend(replies_come_once(plan, books, chat));
        wrong.extend(a_chat_keeps_its_session(plan, books, chat));
    }
    for client in 0..plan.clients.len() {
        wrong.extend(every_request_has_its_answer(plan, books, client, transcripts));
    }
    wrong.extend(tools_ran_once(books));
    wrong.extend(prompts_grow(books));
    wrong.extend(prompts_are_legal(books));
    wrong
}

/// The lines of a chat that are words for the model, with their place.
fn words(plan: &Plan, chat: usize) -> impl Iterator<Item = (usize, &str)> {
    let lines = plan.chats[chat].lines.iter().enumerate();
    lines.map(|(place, line)| (place, line.text.as_str())).filter(|(_, text)| !text.starts_with('/'))
}

/// P7, P8: what was acknowledged is in a transcript, once, in the order in which it was sent.
fn every_line_is_kept_in_order(
    plan: &Plan,
    books: &Books,
    chat: usize,
    transcripts: &BTreeMap<SessionId, Vec<String>>,
) -> Vec<String> {
    let acknowledged = books.chats[chat].acknowledged;
    if acknowledged < plan.chats[chat].lines.len() {
        return vec![format!("chat {chat}: only {acknowledged} lines were ever taken")];
    }
    let sent: Vec<_> = words(plan, chat).map(|(_, text)| text).collect();
    let mine = |text: &&str| sent.contains(text);
    let mut wrong = Vec::new();
    let mut kept = 0;
    for (session, transcript) in transcripts {
        let lines: Vec<_> =
            transcript.iter().filter_map(|row| row.strip_prefix("user:")).filter(mine).collect();
        kept += lines.len();
        let places: Vec<_> = lines.iter().map(|line| sent.iter().position(|text| text == line)).collect();
        if !places.is_sorted() {
            wrong.push(format!("chat {chat}: {session} holds {lines:?}, sent was {sent:?}"));
        }
    }
    if kept != sent.len() {
        wrong.push(format!("chat {chat}: {} lines were sent, {kept} are kept", sent.len()));
    }
    wrong
}

/// P8, P10: each line is in exactly one reply, or its failure was announced.
fn every_line_is_answered_once(plan: &Plan, books: &Books, chat: usize) -> Vec<String> {
    let mut replies = BTreeMap::new();
    for shown in books.shown.iter().filter(|shown| shown.chat == chat) {
        replies.insert(shown.key.as_str(), shown.text.as_str());
    }
    let failures = replies.keys().filter(|key| key.contains("/failed/")).count();
    let mut wrong = Vec::new();
    let mut unanswered = 0;
    for (_, line) in words(plan, chat) {
        let in_replies = replies.values().filter(|text| text.split(' ').any(|word| word == line)).count();
        match in_replies {
            1 => {}
            0 => unanswered += 1,
            more => wrong.push(format!("chat {chat}: {line} is answered in {more} replies")),
        }
    }
    // A turn that failed may have held several lines; without failures none may be left.
    if unanswered > 0 && failures == 0 {
        wrong
            .push(format!("chat {chat}: {unanswered} lines have no reply and no notice; shown: {replies:?}"));
    }
    for (place, line) in plan.chats[chat].lines.iter().enumerate() {
        if line.text.starts_with('/') {
            let (session, seq) = &books.chats[chat].went_to[place];
            let done = |key: &&&str| key.ends_with("/done") && key.starts_with(session.as_str());
            if replies.keys().filter(done).count() == 0 {
                wrong.push(format!("chat {chat}: {} ({session}/{seq}) was never confirmed", line.text));
            }
        }
    }
    wrong
}

/// P10: a platform that honours keys shows a reply once; on another, whatever comes again says so.
fn replies_come_once(plan: &Plan, books: &Books, chat: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut times: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for shown in books.shown.iter().filter(|shown| shown.chat == chat) {
        let (plain, marked) = times.entry(&shown.key).or_default();
        *if shown.marked { marked } else { plain } += 1;
    }
    for (key, (plain, marked)) in times {
        if plain > 1 || (marked > 0 && plan.chats[chat].keyed) {
            wrong
                .push(format!("chat {chat}: reply {key} was shown {plain} times, and {marked} times marked"));
        }
    }
    wrong
}

/// P1, P2: one session from the first line on, and another only after `/new`.
fn a_chat_keeps_its_session(plan: &Plan, books: &Books, chat: usize) -> Vec<String> {
    let lines = &plan.chats[chat].lines;
    let orders = lines.iter().filter(|line| line.text == "/new").count();
    // A line that came while `/new` waited was taken by the session that then ended, and moved.
    let sessions: BTreeSet<_> = books.chats[chat].went_to.iter().map(|(session, _)| session).collect();
    match sessions.len() <= orders + 1 {
        true => vec![],
        false => vec![format!("chat {chat}: {orders} times /new, but sessions {sessions:?}")],
    }
}

fn every_request_has_its_answer(
    plan: &Plan,
    books: &Books,
    client: usize,
    transcripts: &BTreeMap<SessionId, Vec<String>>,
) -> Vec<String> {
    let book = &books.clients[client];
    let requests = &plan.clients[client].requests;
    let mut wrong = Vec::new();
    if book.answers.len() != requests.len() {
        wrong.push(format!(
            "client {client}: {} of {} requests were answered",
            book.answers.len(),
            requests.len()
        ));
    }
    for (line, answer) in requests.iter().zip(&book.answers) {
        if *answer != format!("re {}", line.text) {
            wrong.push(format!("client {client}: {} was answered {answer:?}", line.text));
        }
        let kept =
            transcripts.values().flatten().filter(|row| **row == format!("user:{}", line.text)).count();
        if kept != 1 {
            wrong.push(format!("client {client}: {} is kept {kept} times", line.text));
        }
    }
    let sessions: BTreeSet<_> = book.sessions.iter().collect();
    if sessions.len() > 1 {
        let manner: Manner = plan.clients[client].manner;
        wrong.push(format!("client {client} ({manner:?}): one conversation, several sessions {sessions:?}"));
    }
    wrong
}

/// P9: no side effect is repeated.
fn tools_ran_once(books: &Books) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let twice = books.ran.iter().filter(|call| !seen.insert(*call));
    twice.map(|(session, call)| format!("{session}: {call} ran twice")).collect()
}

/// A later request of a session begins with the bytes of the one before it.
fn prompts_grow(books: &Books) -> Vec<String> {
    let mut last: BTreeMap<&SessionId, &Question> = BTreeMap::new();
    let mut wrong = Vec::new();
    for question in &books.asked {
        if let Some(before) = last.insert(&question.session, question)
            && !question.prompt.starts_with(&before.prompt)
        {
            wrong
                .push(format!("{}: asked {:?} after {:?}", question.session, question.prompt, before.prompt));
        }
    }
    wrong
}

/// Every call is followed by its results, in order, before anything else is said.
fn prompts_are_legal(books: &Books) -> Vec<String> {
    let mut wrong = Vec::new();
    for question in &books.asked {
        let mut open: Vec<&str> = Vec::new();
        for segment in &question.prompt {
            if let Some(result) = segment.strip_prefix("tool:") {
                let id = result.split('=').next().unwrap_or_default();
                if open.first() != Some(&id) {
                    wrong.push(format!("{}: result {id} stands where {open:?} is open", question.session));
                }
                open.retain(|call| *call != id);
            } else if !open.is_empty() {
                wrong.push(format!("{}: {open:?} is open before {segment:?}", question.session));
            }
            if let Some(calls) = segment.strip_prefix("assistant:").and_then(|rest| rest.rsplit('|').next()) {
                open = calls.split(',').filter(|call| !call.is_empty()).collect();
            }
        }
        if !open.is_empty() {
            wrong.push(format!("{}: {open:?} is open at the end", question.session));
        }
    }
    wrong
}
