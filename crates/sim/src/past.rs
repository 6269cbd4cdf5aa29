//! The judge of worlds in which people take back, ask again, copy, name and go back. There the same words may
//! be said, answered and shown more than once, so it looks for what must hold all the same: nothing that was
//! said is gone, nothing is said twice to the model, and a chat is where its people were told it is.

use crate::plan::{Plan, words};
use crate::platforms::platform_name;
use crate::records::Records;
use std::collections::BTreeSet;
use throughline_core::port::{Read, SessionFilter, StoreError};
use throughline_core::{ChatKey, SessionId};

/// A conversation as the store has it: what is live, and every view that was.
struct Kept {
    id: SessionId,
    title: Option<String>,
    live: Vec<String>,
    was: Vec<Vec<String>>,
}

pub fn verdict(
    plan: &Plan,
    records: &Records,
    store: &dyn Read,
    agent: usize,
) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let filter = SessionFilter { limit: usize::MAX >> 1, ..SessionFilter::default() };
    let mut kept = Vec::new();
    for summary in store.sessions(&filter)? {
        let plain = |rows: &[(throughline_core::RowId, throughline_core::Message)]| {
            rows.iter().map(|(_, message)| crate::model::line(message)).collect::<Vec<String>>()
        };
        let live = crate::engine::expanded(records, &plain(&store.history(&summary.id)?));
        let mut was = Vec::new();
        for snapshot in store.snapshots(&summary.id)? {
            let rows = store.snapshot(&snapshot.name)?.map(|found| plain(&found.rows)).unwrap_or_default();
            was.push(crate::engine::expanded(records, &rows));
        }
        kept.push(Kept { id: summary.id, title: summary.title, live, was });
    }
    for (chat, book) in records.chats.iter().enumerate().filter(|(_, book)| book.agent == agent) {
        if book.planned < plan.chats[chat].lines.len() || book.said.iter().any(|said| said.went_to.is_none())
        {
            wrong.push(format!("chat {chat}: not every line was taken"));
        }
        for said in &book.said {
            if let Some(line) = words(&said.text) {
                wrong.extend(is_kept(records, chat, line, &kept));
            }
        }
        wrong.extend(a_chat_is_where_its_people_were_told(plan, records, chat, store)?);
        wrong.extend(orders_are_confirmed(records, chat));
    }
    wrong.extend(titles_are_as_confirmed(records, &kept));
    wrong.extend(nothing_is_said_twice(records));
    for session in &kept {
        let loaded = store.load(&session.id)?;
        let chosen = records.shown.iter().any(|shown| {
            shown.key.starts_with(&format!("{}/", session.id)) && shown.text.contains("at level high")
        });
        let level = loaded.and_then(|loaded| loaded.session.preferences.reasoning.clone());
        if chosen && level.as_deref() != Some("high") {
            wrong.push(format!("{}: what was chosen is forgotten: {level:?}", session.id));
        }
    }
    wrong.extend(store.check()?.into_iter().map(|violation| format!("check: {violation}")));
    Ok(wrong)
}

/// What was said is live, once in a conversation, or was taken back, and then it is kept and was echoed.
fn is_kept(records: &Records, chat: usize, line: &str, kept: &[Kept]) -> Vec<String> {
    let row = format!("user:{line}");
    let count = |rows: &[String]| rows.iter().filter(|other| **other == row).count();
    let mut wrong = Vec::new();
    for session in kept.iter().filter(|session| count(&session.live) > 1) {
        wrong.push(format!("chat {chat}: {line} is live {} times in {}", count(&session.live), session.id));
    }
    let live = kept.iter().any(|session| count(&session.live) > 0);
    let was = kept.iter().flat_map(|session| &session.was).any(|rows| count(rows) > 0);
    let echoed = records.shown.iter().any(|shown| {
        let own = shown.text.split_once("You had written:\n\n").map(|(_, said)| said);
        shown.chat == chat && own.is_some_and(|said| said.lines().any(|said| said == line))
    });
    let undone = records.chats[chat].said.iter().any(|said| said.text.starts_with("/undo"));
    match (live, was) {
        (true, _) => {}
        (false, true) if echoed || undone => {}
        (false, true) => wrong.push(format!("chat {chat}: {line} was taken back, and nobody asked for it")),
        (false, false) => wrong.push(format!("chat {chat}: {line} is gone")),
    }
    let answered = records.shown.iter().any(|shown| {
        shown.chat == chat && shown.text.starts_with("re ") && shown.text.split(' ').any(|word| word == line)
    });
    let failed = records.shown.iter().any(|shown| shown.chat == chat && shown.key.contains("/failed/"));
    if !answered && !failed {
        wrong.push(format!("chat {chat}: {line} was never answered"));
    }
    wrong
}

/// The last switch that people were told of is where the chat leads, and there are no more conversations than
/// were asked for.
fn a_chat_is_where_its_people_were_told(
    plan: &Plan,
    records: &Records,
    chat: usize,
    store: &dyn Read,
) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let platform = platform_name(plan.chats[chat].keyed);
    let key: ChatKey = format!("agent:main:{platform}:dm:{chat}").parse().expect("a printable key");
    let leads = store.route(&key)?;
    let mut sessions: BTreeSet<&SessionId> = BTreeSet::new();
    let mut born = 1;
    let mut last: Option<(u64, String)> = None;
    for said in &records.chats[chat].said {
        sessions.extend(said.went_to.as_ref().map(|(session, _)| session));
        born += usize::from(["/new", "/branch"].iter().any(|order| said.text.starts_with(order)));
    }
    let mut seen = BTreeSet::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat && shown.key.ends_with("/done")) {
        if !seen.insert(shown.key.clone()) {
            continue; // shown once more
        }
        if let Some(to) = switched_to(&shown.text) {
            // Orders are carried out in the order in which they were given.
            last = last.max(Some((order_of(records, chat, &shown.key), to)));
        }
    }
    if let (Some((_, told)), Some(leads)) = (&last, &leads)
        && told != leads.as_str()
    {
        wrong.push(format!("chat {chat} leads to {leads}, and its people were told {told}"));
    }
    if sessions.len() > born {
        wrong.push(format!("chat {chat}: {born} conversations were asked for, there are {sessions:?}"));
    }
    Ok(wrong)
}

/// When it was shown first: replies of one chat leave in order.
fn order_of(records: &Records, chat: usize, key: &str) -> u64 {
    let shown = records.shown.iter().filter(|shown| shown.chat == chat && shown.key == *key);
    shown.map(|shown| shown.at).min().unwrap_or_default()
}

fn switched_to(text: &str) -> Option<String> {
    let after = |begin: &str, end: &[char]| {
        let rest = text.split_once(begin)?.1;
        Some(rest.split(end).next()?.to_owned())
    };
    match () {
        () if text.starts_with("A new conversation has begun: ") => after("begun: ", &['.', ' ']),
        () if text.starts_with("This is a copy now") => after(" messages in ", &['.', ' ']),
        () if text.starts_with("Going on with ") => after(" messages, ", &[')']),
        () => None,
    }
}

fn titles_are_as_confirmed(records: &Records, kept: &[Kept]) -> Vec<String> {
    let mut wrong = Vec::new();
    for shown in &records.shown {
        let titled = shown.text.split_once("is called \"").and_then(|(_, rest)| rest.split_once("\" now"));
        let (Some((title, _)), Some(session)) = (titled, shown.key.split('/').next()) else { continue };
        let stored = kept.iter().find(|kept| kept.id.as_str() == session).and_then(|kept| kept.title.clone());
        if stored.as_deref() != Some(title) {
            wrong.push(format!("{session} was to be called {title:?}, and is called {stored:?}"));
        }
    }
    wrong
}

/// A person who gives an order is told what came of it, or gets the answer that was asked for again.
fn orders_are_confirmed(records: &Records, chat: usize) -> Vec<String> {
    let said = &records.chats[chat].said;
    let orders = said.iter().filter(|said| words(&said.text).is_none() && said.text != "/retry").count();
    let confirmed: BTreeSet<&str> = records
        .shown
        .iter()
        .filter(|shown| shown.chat == chat && shown.key.ends_with("/done"))
        .map(|shown| shown.key.as_str())
        .collect();
    match confirmed.len() < orders {
        true => vec![format!("chat {chat}: {orders} orders, {} confirmed: {confirmed:?}", confirmed.len())],
        false => vec![],
    }
}

/// No request says the same thing twice.
fn nothing_is_said_twice(records: &Records) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for question in &records.asked {
        let mut said = BTreeSet::new();
        for row in question.prompt.iter().filter(|row| row.starts_with("user:c")) {
            if !said.insert(row) {
                wrong.insert(format!("{}: the model was told {row:?} twice", question.session));
            }
        }
    }
    wrong.into_iter().collect()
}
