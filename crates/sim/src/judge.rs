//! The judges. They stand outside the machine and compare what was sent with what was seen.

use crate::asking;
use crate::elicit;
use crate::model::{clarified, said_in, without_notice};
use crate::owner;
use crate::people::room_prompt;
use crate::plan::{Manner, Plan, words};
use crate::records::{AgentLetter, Compressing, Hearing, Question, Records, Said, Stage};
use crate::tools::is_repeatable;
use crate::world::agent_name;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use throughline_core::SessionId;
use throughline_core::guard::{NOT_RUN_BUDGET, NOT_RUN_REPEATED};
use throughline_core::history::{LEFT_BEHIND, NOT_ASKED, OUTCOME_UNKNOWN, STOPPED};
use throughline_core::turn::RESUMES_MAX;

type Transcripts = BTreeMap<SessionId, Vec<String>>;

/// Everything that is wrong with a world that has come to rest.
pub fn verdict(plan: &Plan, records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = records.wrong.clone();
    for chat in 0..plan.chats.len() {
        wrong.extend(every_line_is_kept_in_order(plan, records, chat, transcripts));
        wrong.extend(every_line_is_answered_once(records, chat));
        wrong.extend(orders_are_confirmed(records, chat));
        wrong.extend(replies_come_once(plan, records, chat));
        wrong.extend(pieces_come_in_order(records, chat));
        wrong.extend(previews_become_replies(records, chat));
        wrong.extend(a_chat_keeps_its_session(plan, records, chat));
        wrong.extend(a_chat_has_its_own_prompt(records, chat));
        wrong.extend(a_chain_is_cut_with_one_notice(records, chat));
    }
    for client in 0..plan.clients.len() {
        wrong.extend(every_request_has_its_answer(plan, records, client, transcripts));
    }
    wrong.extend(what_is_left_to_a_client_is_answered_once(records, transcripts));
    wrong.extend(what_agents_write_is_read(plan, records, transcripts));
    wrong.extend(no_chain_exceeds_its_budget(plan, records));
    wrong.extend(the_provider_hears_each_compression(plan, records));
    wrong.extend(nobody_waits_below_the_hard_limit(plan, records));
    wrong.extend(effects_happen_once(records));
    wrong.extend(what_kills_is_parked(records));
    wrong.extend(a_yes_counts(records, transcripts));
    wrong.extend(elicit::answers_reach_their_question(records));
    wrong.extend(owner::verdict(plan, records, transcripts));
    wrong.extend(letters_come_with_their_result(plan, records, transcripts));
    wrong.extend(tasks_are_done_once(records, transcripts));
    wrong.extend(results_are_true(records));
    wrong.extend(calls_are_kept(records, transcripts));
    wrong.extend(prompts_grow(records));
    wrong.extend(nothing_is_asked_twice(records));
    wrong.extend(asking::verdict(plan, records));
    wrong.extend(prompts_are_legal(records));
    wrong
}

/// How often what the judges look for came to pass. What never happens proves nothing.
pub fn tally(records: &Records, transcripts: &Transcripts) -> BTreeMap<&'static str, usize> {
    let results = || {
        transcripts.values().flatten().filter_map(|row| Some(row.strip_prefix("tool:")?.split_once('=')?.1))
    };
    let with = |part: &str| results().filter(|text| text.contains(part)).count();
    let spoken = records.hearings.iter().filter(|hearing| hearing.said.is_some()).count();
    let shown = |part: &str| records.shown.iter().filter(|shown| shown.text.contains(part)).count();
    let mut tally = BTreeMap::from([
        ("questions to the model", records.asked.len()),
        ("effects", records.effects.len()),
        ("calls of unknown outcome", with(OUTCOME_UNKNOWN)),
        ("calls stopped", with(STOPPED)),
        ("calls stopped before they were allowed", with(NOT_ASKED)),
        ("calls beyond the budget", with(NOT_RUN_BUDGET)),
        ("calls that led nowhere", with(NOT_RUN_REPEATED)),
        ("calls allowed", with("permitted ")),
        ("calls refused", with("denied by user")),
        ("calls nobody allowed in time", with("without user response")),
        ("questions answered", results().filter(|text| clarified(text).is_some()).count()),
        ("questions nobody answered", with("[user did not respond")),
        ("letters", with("posted ")),
        ("reports of tasks", with("\"status\":\"completed\"")),
        ("process ended by a call", records.kills as usize),
        ("messages that waited on disk", records.texts_read),
        ("turns set aside", shown("set aside")),
        ("turns out of budget", shown("used up its budget")),
        ("turns stopped", shown("Stopped message")),
        ("chains cut", shown("Agents have been answering")),
        ("albums", asking::albums(records)),
        ("silences", records.halts.len()),
        ("resets", shown("automatically reset")),
        ("hand-overs", records.hooked.len()),
        ("hooks without luck", records.unlucky.values().sum::<u32>() as usize),
        (
            "previews that became replies",
            records.previews.iter().filter(|preview| preview.stage != Stage::Open).count(),
        ),
        (
            "previews that stay",
            records.previews.iter().filter(|preview| preview.stage == Stage::Open).count(),
        ),
        ("replies marked", records.shown.iter().filter(|shown| shown.marked).count()),
        ("pieces", records.shown.iter().filter(|shown| shown.key.contains('+')).count()),
        ("reviews done", records.over.iter().filter(|over| over.done).count()),
        ("reviews set aside", records.over.iter().filter(|over| !over.done).count()),
        ("turns remembered outside", records.retained.len()),
        ("summaries", records.summaries.len()),
        ("letters between agents", records.letters.len()),
        ("compressions a provider spoke about", spoken),
        ("compressions a provider had no word for in time", records.hearings.len() - spoken),
        ("compressed requests", records.asked.iter().filter(|asked| asked.sent != asked.prompt).count()),
    ]);
    // Only where a client has a tool of its own.
    if !records.client_calls.is_empty() {
        tally.insert("calls that clients ran", with("ran call-"));
        tally.insert("calls that clients left behind", with(LEFT_BEHIND));
    }
    owner::tally(records, transcripts, &mut tally);
    let answered = elicit::answered(records);
    if answered > 0 {
        tally.insert("questions of servers answered", answered);
    }
    tally
}

/// The lines of a chat that are words for the model.
fn lines(records: &Records, chat: usize) -> impl Iterator<Item = (&Said, &str)> {
    records.chats[chat].said.iter().filter_map(|said| Some((said, words(&said.text)?)))
}

/// P7, P8: what was acknowledged is in a transcript, once, in the order in which it was sent. What
/// steered a turn may have passed others; what answered a question is in its result.
fn every_line_is_kept_in_order(
    plan: &Plan,
    records: &Records,
    chat: usize,
    transcripts: &Transcripts,
) -> Vec<String> {
    let (taken, planned) = (records.chats[chat].planned, plan.chats[chat].lines.len());
    if taken < planned || records.chats[chat].said.iter().any(|said| said.went_to.is_none()) {
        return vec![format!("chat {chat}: only {taken} lines were ever taken")];
    }
    let sent: Vec<_> = lines(records, chat).collect();
    let mut wrong = Vec::new();
    for (said, line) in &sent {
        let rows = transcripts.values().flatten();
        let kept = rows.filter(|row| row.strip_prefix("user:").or(clarified(row)) == Some(line)).count();
        if kept != 1 {
            wrong.push(format!("chat {chat}: {} is kept {kept} times", said.text));
        }
    }
    for (session, transcript) in transcripts {
        let place = |row: &String| {
            let line = row.strip_prefix("user:")?;
            sent.iter().position(|(said, sent)| *sent == line && !said.text.starts_with("/steer"))
        };
        let places: Vec<_> = transcript.iter().filter_map(place).collect();
        if !places.is_sorted() {
            wrong.push(format!("chat {chat}: {session} holds {transcript:?}, sent was {sent:?}"));
        }
    }
    wrong
}

/// Why a line may have no reply: its turn was ended, and a person was told.
struct Excuse {
    session: SessionId,
    /// The first line of the turn, and the line that ended it.
    turn: u64,
    until: Option<u64>,
    /// Lines that were sent later have nothing to do with it.
    before: u64,
}

impl Excuse {
    fn covers(&self, said: &Said) -> bool {
        let Some((session, seq)) = &said.went_to else { return false };
        let within = self.turn <= seq.0 && self.until.is_none_or(|until| seq.0 < until);
        said.sent < self.before && (*session != self.session || within)
    }
}

fn excuses(records: &Records, chat: usize) -> Vec<Excuse> {
    let mut excuses = Vec::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat) {
        let parts: Vec<_> = shown.key.split('/').collect();
        if let [session, turn, "failed", _] = parts[..] {
            let session = session.parse().expect("a key begins with a session");
            let turn = turn.parse().expect("and goes on with a turn");
            excuses.push(Excuse { session, turn, until: None, before: shown.at });
        }
    }
    for said in records.chats[chat].said.iter().filter(|said| said.text == "/stop") {
        let Some((session, seq)) = &said.went_to else { continue };
        let Some(text) = done(records, session, seq.0) else { continue };
        let stopped = text.strip_prefix("Stopped message ").and_then(|rest| rest.split(' ').next());
        if let Some(turn) = stopped.and_then(|turn| turn.parse().ok()) {
            let (session, until) = (session.clone(), Some(seq.0));
            excuses.push(Excuse { session, turn, until, before: u64::MAX });
        }
    }
    excuses
}

pub fn done<'a>(records: &'a Records, session: &SessionId, seq: u64) -> Option<&'a str> {
    let key = format!("{session}/{seq}/done");
    records.shown.iter().find(|shown| shown.key == key).map(|shown| shown.text.as_str())
}

/// P4, P8, P10: each line is in exactly one reply, or its turn was stopped, parked, exhausted or
/// failed, and a person was told; or the operator wanted silence. The turn after answers it then.
fn every_line_is_answered_once(records: &Records, chat: usize) -> Vec<String> {
    let mut replies = BTreeMap::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat) {
        replies.insert(shown.key.as_str(), shown.text.as_str());
    }
    let excuses = excuses(records, chat);
    let mut wrong = Vec::new();
    for (said, line) in lines(records, chat) {
        let in_replies = replies.values().filter(|text| text.split(' ').any(|word| word == line)).count();
        let excused = || {
            let halted = records.halts.iter().any(|halt| said.sent < *halt);
            halted || excuses.iter().any(|excuse| excuse.covers(said))
        };
        match in_replies {
            1 => {}
            0 if excused() => {}
            0 => wrong.push(format!("chat {chat}: {line} has no reply and no notice; shown: {replies:?}")),
            more => wrong.push(format!("chat {chat}: {line} is answered in {more} replies")),
        }
    }
    wrong
}

/// A person who gives an order is told what came of it.
fn orders_are_confirmed(records: &Records, chat: usize) -> Vec<String> {
    let orders = records.chats[chat].said.iter().filter(|said| words(&said.text).is_none());
    let unconfirmed = orders.filter(|said| {
        let Some((session, seq)) = &said.went_to else { return false };
        let is_done = |key: &str| key.split('+').next().is_some_and(|key| key.ends_with("/done"));
        let moved = |shown: &&crate::records::Shown| shown.chat == chat && is_done(&shown.key);
        let compresses = said.text.starts_with("/compress");
        if compresses {
            // One that waits behind the end of its session is carried out in the next, and silence ends nothing.
            let heard = |shown: &crate::records::Shown| {
                shown.text.contains("ompress") || shown.text.contains("messages")
            };
            return records.halts.is_empty() && !records.shown.iter().filter(moved).any(heard);
        }
        match said.text == "/new" {
            // One that waits behind another is carried out in the next session.
            true => !records.shown.iter().filter(moved).any(|shown| shown.text.starts_with("A new")),
            false => done(records, session, seq.0).is_none(),
        }
    });
    unconfirmed.map(|said| format!("chat {chat}: {} was never confirmed", said.text)).collect()
}

/// P10: a platform that honours keys shows a reply once; on another, each repetition says so.
fn replies_come_once(plan: &Plan, records: &Records, chat: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut times: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat) {
        let (plain, marked) = times.entry(&shown.key).or_default();
        *if shown.marked { marked } else { plain } += 1;
    }
    for (key, (plain, marked)) in times {
        // A preview that cannot be found makes its reply one that may have been seen, keys or no keys.
        let keyed = plan.chats[chat].keyed;
        let unexpected = marked > 0 && keyed && (plain > 0 || !plan.platforms.streams);
        if plain > 1 || unexpected {
            wrong
                .push(format!("chat {chat}: reply {key} was shown {plain} times, and {marked} times marked"));
        }
    }
    wrong
}

/// P10: the pieces of a reply come in their order, and all of them.
fn pieces_come_in_order(records: &Records, chat: usize) -> Vec<String> {
    let mut seen: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat) {
        let (key, number) = shown.key.split_once('+').unwrap_or((&shown.key, "1"));
        let numbers = seen.entry(key).or_default();
        let number = number.parse().expect("pieces are numbered");
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let astray = seen.into_iter().filter(|(_, numbers)| !numbers.iter().copied().eq(1..=numbers.len()));
    astray.map(|(key, numbers)| format!("chat {chat}: the pieces of {key} came as {numbers:?}")).collect()
}

/// P10: a preview becomes its reply. One that stays behind could not be found, and its reply says so; or
/// a person ended its turn.
fn previews_become_replies(records: &Records, chat: usize) -> Vec<String> {
    let behind: Vec<_> = records
        .previews
        .iter()
        .filter(|preview| preview.chat == chat && preview.stage == Stage::Open)
        .collect();
    let shown = records.shown.iter().filter(|shown| shown.chat == chat && shown.marked);
    let marked: BTreeSet<_> = shown.map(|shown| &shown.key).collect();
    let ended = records.chats[chat].said.iter().any(|said| said.text == "/stop") || !records.halts.is_empty();
    match ended || behind.len() <= marked.len() {
        true => vec![],
        false => vec![format!("chat {chat}: {behind:?} stay beside their replies, and {marked:?} say so")],
    }
}

/// P1, P2: one session from the first line on, and another only after `/new`, or when its time had come.
/// And never back.
fn a_chat_keeps_its_session(plan: &Plan, records: &Records, chat: usize) -> Vec<String> {
    let said = &records.chats[chat].said;
    let orders = said.iter().filter(|line| line.text == "/new").count();
    // A line that came while `/new` waited was taken by the session that then ended, and moved.
    let went_to = said.iter().filter_map(|said| said.went_to.as_ref());
    let mut visited: Vec<_> = went_to.map(|(session, _)| session).collect();
    visited.dedup();
    let sessions: BTreeSet<_> = visited.iter().collect();
    let came: Vec<_> = said.iter().filter_map(|said| Some(said.taken?.1)).collect();
    let may_end = |pair: &[Duration]| {
        let ends = plan.lifecycle.idle.is_some() || plan.lifecycle.day.is_some();
        may_be_due(plan, pair[0], pair[1]) || (ends && plan.clock.may_jump_forward(pair[0], pair[1]))
    };
    let due = came.windows(2).filter(|pair| may_end(pair)).count();
    match sessions.len() <= orders + 1 + due {
        _ if sessions.len() < visited.len() => vec![format!("chat {chat} went back: {visited:?}")],
        true => vec![],
        false => {
            vec![format!("chat {chat}: {orders} times /new and {due} times due, but sessions {sessions:?}")]
        }
    }
}

/// Whether a conversation in which something was said at one time may have ended by itself by another.
/// What was heard of late may have been said earlier: a pause counts for twice as much.
fn may_be_due(plan: &Plan, before: Duration, after: Duration) -> bool {
    let idle = plan.lifecycle.idle.is_some_and(|idle| (after.saturating_sub(before)) * 2 >= idle);
    let days = |time: Duration| plan.lifecycle.day.map_or(0, |day| time.as_micros() / day.as_micros());
    idle || days(after) > days(before) || days(after) > days(before.saturating_sub(Duration::from_secs(2)))
}

/// P20: each session that has ended was handed over once, to every hook; no other was; and nothing was
/// asked in it afterwards.
pub fn ends(plan: &Plan, records: &Records, ended: &BTreeSet<SessionId>) -> Vec<String> {
    let mut wrong = Vec::new();
    for session in ended {
        for hook in (0..plan.lifecycle.hooks).map(|nth| format!("hook{nth}")) {
            let key = format!("{session}/1");
            let times =
                records.hooked.iter().filter(|hooked| hooked.hook == hook && hooked.key == key).count();
            if times != 1 {
                wrong.push(format!("{session} has ended, and {hook} heard of it {times} times"));
            }
        }
    }
    let farewell = |session: &&SessionId| records.farewells.contains(&format!("{session}/1"));
    let unheard = ended.iter().filter(|session| plan.remembering.is_some() && !farewell(session));
    wrong.extend(unheard.map(|session| format!("memory: nobody heard of the end of {session}")));
    let heard = records.farewells.iter().map(|key| key.split('/').next().unwrap_or_default());
    let alive = heard.filter(|session| !ended.iter().any(|ended| ended.as_str() == *session));
    wrong.extend(alive.map(|session| format!("memory: the end of {session} was heard of, and it lives")));
    for hooked in &records.hooked {
        let session = hooked.key.split('/').next().unwrap_or_default();
        if !ended.iter().any(|ended| ended.as_str() == session) {
            wrong.push(format!("{} heard of the end of {session}, which lives", hooked.hook));
        }
        if let Some(asked) =
            records.asked.iter().find(|asked| asked.session.as_str() == session && asked.at > hooked.at)
        {
            wrong.push(format!("{session} was handed over, and then asked {:?}", asked.sent.last()));
        }
    }
    wrong
}

/// What a chat adds to the prompt is in that of its sessions: of the first, and of those that follow. What
/// waits when a session ends may find itself in the next one by a process that does not know the place.
fn a_chat_has_its_own_prompt(records: &Records, chat: usize) -> Vec<String> {
    let first =
        records.chats[chat].said.first().and_then(|said| said.went_to.as_ref()).map(|(session, _)| session);
    let is_certain =
        |session: &SessionId| records.life == 1 || (records.halts.is_empty() && first == Some(session));
    let is_here = |asked: &&Question| {
        let begins = asked.prompt.iter().find_map(|segment| segment.strip_prefix("user:"));
        begins.is_some_and(|words| words.starts_with(&format!("c{chat}.")))
    };
    let asked = records.asked.iter().filter(is_here);
    let lacking =
        asked.filter(|asked| !asked.head.contains(&room_prompt(chat)) && is_certain(&asked.session));
    lacking.map(|asked| format!("chat {chat}: {} begins with {:?}", asked.session, asked.head)).collect()
}

/// P6: agents that answer each other are cut, and the people it began with are told once.
fn a_chain_is_cut_with_one_notice(records: &Records, chat: usize) -> Vec<String> {
    let mut notices: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for shown in records.shown.iter().filter(|shown| shown.chat == chat) {
        if let Some((_, origin)) = shown.key.split_once("cut/") {
            notices.entry(origin.replace('\\', "")).or_default().insert(&shown.key);
        }
    }
    let twice = notices.into_iter().filter(|(_, keys)| keys.len() > 1);
    twice.map(|(origin, keys)| format!("chat {chat}: the chain of {origin} was cut as {keys:?}")).collect()
}

/// P6, P8: what one agent wrote to another is in one conversation of the other, in the order in which it
/// arrived there, once, and in a request, unless the chain it belongs to had come too far: then it is kept all the
/// same. A conversation of one is always the same conversation to the other.
fn what_agents_write_is_read(plan: &Plan, records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut homes: BTreeMap<_, &SessionId> = BTreeMap::new();
    for letter in records.letters.iter().filter(|letter| !letter.is_reply) {
        let home = homes.entry((&letter.from, &letter.to)).or_insert(&letter.arrived.0);
        if **home != letter.arrived.0 {
            wrong.push(format!(
                "{} came to {}, others of its session to {home}",
                letter.key, letter.arrived.0
            ));
        }
    }
    // Where nothing else ends a turn, it asks.
    let calm = records.halts.is_empty()
        && plan.model.failing_percent == 0
        && plan.model.kills == 0
        && !records.chats.iter().flat_map(|chat| &chat.said).any(|said| said.text == "/stop");
    for letter in &records.letters {
        let row = format!("user:{}", letter.text);
        let kept = transcripts.values().flatten().filter(|kept| **kept == row).count();
        // An answer to the same words is in the same words.
        let same = records.letters.iter().filter(|other| other.text == letter.text);
        let sent = same.clone().count();
        let cut = same.clone().any(|other| was_cut(records, other));
        let asked = || records.asked.iter().any(|asked| asked.prompt.contains(&row));
        if kept != sent {
            wrong.push(format!("{row:?} was sent {sent} times, and is kept {kept} times: {letter:?}"));
        } else if calm && !cut && !asked() {
            wrong.push(format!("{}: nobody was asked about {row:?}", letter.key));
        }
    }
    for (session, transcript) in transcripts {
        let mut arrived: Vec<(u64, String)> = Vec::new();
        let letters = records.letters.iter().filter(|letter| letter.arrived.0 == *session);
        arrived.extend(letters.map(|letter| (letter.arrived.1.0, letter.text.clone())));
        for (said, line) in (0..records.chats.len()).flat_map(|chat| lines(records, chat)) {
            let went_to = said.went_to.as_ref().filter(|(to, _)| to == session);
            let steers = said.text.starts_with("/steer");
            arrived.extend(went_to.filter(|_| !steers).map(|(_, seq)| (seq.0, line.to_owned())));
        }
        arrived.sort();
        let place = |text: &String| {
            let once = arrived.iter().filter(|(_, other)| other == text).count() == 1;
            transcript.iter().position(|row| once && row.strip_prefix("user:") == Some(text))
        };
        let places: Vec<_> = arrived.iter().filter_map(|(_, text)| place(text)).collect();
        if !places.is_sorted() {
            wrong.push(format!("{session} holds {transcript:?}, there arrived {arrived:?}"));
        }
    }
    wrong
}

/// P6: however agents fan out, the turns that write for one human message are as many as its budget, over all of
/// them. Counted by what arrived, not by what was granted.
fn no_chain_exceeds_its_budget(plan: &Plan, records: &Records) -> Vec<String> {
    let mut turns: BTreeMap<&str, BTreeSet<(&SessionId, &str)>> = BTreeMap::new();
    // The first hop is written by a turn that a person began.
    for letter in records.letters.iter().filter(|letter| letter.hops > 1) {
        let session = &letter.from.1;
        let rest = letter.key.strip_prefix(session.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let turn = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        turns.entry(&letter.origin).or_default().insert((session, turn));
    }
    let most = plan.limits.chain.turns_max as usize;
    let beyond = turns.into_iter().filter(|(_, turns)| turns.len() > most);
    beyond
        .map(|(origin, turns)| format!("{} turns wrote because of {origin}: {turns:?}", turns.len()))
        .collect()
}

/// The chain of a letter has come too far: over so many agents, or it has spent what there was. Then the people it
/// began with were told, even if their conversation has ended since.
fn was_cut(records: &Records, letter: &AgentLetter) -> bool {
    let notice = format!("cut/{}/", letter.origin.replace('\\', ""));
    records.shown.iter().any(|shown| shown.key.replace('\\', "").contains(&notice))
}

/// P28: a memory provider hears what is about to be summarised, under the name of the session and the
/// agent it belongs to, and nothing else; what it says in time is what the engine is told.
fn the_provider_hears_each_compression(plan: &Plan, records: &Records) -> Vec<String> {
    let compression = plan.compressing();
    let mut wrong: Vec<String> = records.strange.iter().map(|what| format!("memory: {what}")).collect();
    for hearing in &records.hearings {
        let (agent, session) = &hearing.scope;
        if agent != agent_name(hearing.agent) {
            wrong.push(format!("memory: {session} of agent {} was told as {agent}'s", hearing.agent));
        }
        if compression.plain {
            wrong.push(format!("memory: {session} was told, and the engine does not want to know"));
        }
    }
    if compression.memory.is_none() || compression.plain {
        return wrong;
    }
    for (number, asked) in records.compressing.iter().enumerate() {
        let Compressing { life, agent, session, rows, memory, began, .. } = asked;
        let mine = |hearing: &&(usize, &Hearing)| {
            let hearing = hearing.1;
            (hearing.life, hearing.agent, &hearing.scope.1) == (*life, *agent, session)
                && hearing.rows == *rows
                && hearing.at <= *began
        };
        let Some((heard, hearing)) = records.hearings.iter().enumerate().rev().find(|it| mine(&it)) else {
            wrong.push(format!("memory: {session} was compressed, and nobody was told: {rows:?}"));
            continue;
        };
        let again = records.compressing[..number].iter().any(|other| {
            (other.life, &other.session, &other.rows) == (*life, session, rows) && other.began >= hearing.at
        });
        let waited = *began - hearing.at;
        let expected = match hearing.said {
            _ if again => continue, // an engine that refused what it was told is told nothing
            Some(_) => format!("heard-{heard}"),
            None => String::new(),
        };
        if *memory != expected {
            wrong.push(format!("memory: {session} said {expected:?}, the engine was told {memory:?}"));
        }
        if waited > PROVIDER_PATIENCE {
            wrong.push(format!("memory: {session} waited {waited:?} for it"));
        }
    }
    wrong
}

/// How long a summary may wait for a memory provider, and a moment.
const PROVIDER_PATIENCE: Duration = Duration::from_millis(5_010);

/// P14: where no context ever comes to the hard limit, and nothing else can hold up a turn, a sender
/// is heard as soon as the turn before is over, no matter what summaries and providers do.
fn nobody_waits_below_the_hard_limit(plan: &Plan, records: &Records) -> Vec<String> {
    let far = plan.compression.as_ref().is_some_and(|compression| compression.hard == u64::MAX);
    let calm = plan.model.failing_percent + plan.model.calling_percent == 0
        && plan.model.script.is_empty()
        && plan.halts.is_empty()
        && plan.disk.full.is_none();
    if !far || !calm {
        return Vec::new();
    }
    // The answer that is on its way, and a moment.
    let patience = plan.model.latency_max * 5 / 4 + Duration::from_millis(50);
    let mut wrong = Vec::new();
    for (said, line) in (0..records.chats.len()).flat_map(|chat| lines(records, chat)) {
        let row = format!("user:{line}");
        let asked = records.asked.iter().find(|asked| asked.prompt.contains(&row));
        let (Some((life, taken)), Some(asked)) = (said.taken, asked) else { continue };
        if asked.life == life && asked.at > taken + patience {
            wrong.push(format!("{line} was taken at {taken:?}, and asked about at {:?}", asked.at));
        }
    }
    wrong
}

fn every_request_has_its_answer(
    plan: &Plan,
    records: &Records,
    client: usize,
    transcripts: &Transcripts,
) -> Vec<String> {
    let book = &records.clients[client];
    let requests = &plan.clients[client].requests;
    let mut wrong = Vec::new();
    if book.answers.len() != requests.len() {
        wrong.push(format!(
            "client {client}: {} of {} requests were answered",
            book.answers.len(),
            requests.len()
        ));
    }
    // What an operator ended was sent as something new, and the history with it.
    let renewed = !book.renewed.is_empty();
    for (place, (line, answer)) in requests.iter().zip(&book.answers).enumerate() {
        let words: Vec<_> = without_notice(answer).split(' ').skip(1).collect();
        // Of what it walked away from, the model hears with the next request.
        let left = |word: &str| book.abandoned.iter().any(|number| requests[*number].text == word);
        let fits = words.iter().all(|word| *word == line.text || left(word));
        let fits = fits
            && words.contains(&line.text.as_str())
            && (words.len() == 1 || renewed || !book.abandoned.is_empty());
        if !fits && !book.abandoned.contains(&place) {
            wrong.push(format!("client {client}: {} was answered {answer:?}", line.text));
        }
        let kept =
            transcripts.values().flatten().filter(|row| **row == format!("user:{}", line.text)).count();
        if kept != 1 && !(renewed && kept > 1) {
            wrong.push(format!("client {client}: {} is kept {kept} times", line.text));
        }
    }
    let sessions: BTreeSet<_> = book.sessions.iter().collect();
    if sessions.len() > 1 && !renewed {
        let manner: Manner = plan.clients[client].manner;
        wrong.push(format!("client {client} ({manner:?}): one conversation, several sessions {sessions:?}"));
    }
    wrong
}

/// P9: a call that was left to a client has one result: what the client brought, or that it was not run.
fn what_is_left_to_a_client_is_answered_once(records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((session, id), brought) in &records.client_calls {
        let prefix = format!("tool:{id}=");
        let rows = transcripts.get(session).into_iter().flatten();
        let results: Vec<_> = rows.filter_map(|row| row.strip_prefix(&prefix)).collect();
        let expected = if *brought { format!("ran {id}") } else { LEFT_BEHIND.to_owned() };
        if results != [expected.as_str()] {
            wrong.push(format!(
                "{session}: {id} was left to its client, who brought it: {brought}; it has {results:?}"
            ));
        }
    }
    wrong
}

/// P9: no side effect is repeated, in no life, under no name.
fn effects_happen_once(records: &Records) -> Vec<String> {
    let (mut keys, mut ids) = (BTreeMap::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for effect in &records.effects {
        let other = keys.insert(&effect.key, &effect.id).filter(|other| **other != effect.id);
        if let Some(other) = other {
            wrong.push(format!("{} is the key of {other} and of {}", effect.key, effect.id));
        }
        if !ids.insert(&effect.id) && !is_repeatable(&effect.tool) {
            wrong.push(format!("{} ({}) happened twice", effect.id, effect.key));
        }
    }
    wrong
}

/// A call that ends the process is run again twice, and then its turn is set aside, with a notice.
fn what_kills_is_parked(records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    let kills = records.calls.iter().filter(|(_, call)| call.tool == "kill");
    for (id, _) in kills {
        let runs = records.effects.iter().filter(|effect| effect.id == *id).count();
        if runs > 1 + RESUMES_MAX as usize {
            wrong.push(format!("{id} ended the process {runs} times"));
        }
        let Some(effect) = records.effects.iter().find(|effect| effect.id == *id) else { continue };
        let turn = effect.key.rsplitn(3, '/').last().unwrap_or_default();
        let told = || records.shown.iter().any(|shown| shown.key.starts_with(&format!("{turn}/failed/")));
        let silenced = !records.halts.is_empty(); // then the operator may have ended it before it was set aside
        if runs > RESUMES_MAX as usize && effect.chat.is_some() && !silenced && !told() {
            wrong.push(format!("{turn} was set aside, and nobody was told"));
        }
    }
    wrong
}

/// P31: what a person has allowed is not refused. (That nothing runs without a yes is seen when it runs.)
fn a_yes_counts(records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (session, transcript) in transcripts {
        let allowed = |shown: &&crate::records::Shown| {
            let mut parts = shown.key.split('/');
            parts.next() == Some(session.as_str())
                && parts.next_back() == Some("done")
                && shown.text.starts_with("Allowed")
                && !shown.text.starts_with(owner::ALLOWED) // what is asked in another session
                && !shown.marked
        };
        let allowed: BTreeSet<_> =
            records.shown.iter().filter(allowed).map(|shown| shown.key.as_str()).collect();
        let mine = records.calls.iter().filter(|(_, call)| call.session == *session && call.wanted.is_some());
        let asked: Vec<_> = mine.map(|(id, _)| id).collect();
        let refused = transcript.iter().filter(|row| row.contains("BLOCKED")).count();
        if asked.len() < refused + allowed.len() {
            wrong.push(format!(
                "{session}: {asked:?} were asked for, {} allowed, and {refused} refused",
                allowed.len()
            ));
        }
    }
    wrong
}

/// P10: a letter is read where it was sent if the call that wrote it has its result, and only then.
fn letters_come_with_their_result(plan: &Plan, records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, call) in &records.calls {
        let row = format!("posted {id}");
        let rows = transcripts.get(&call.session).into_iter().flatten();
        let has_result = rows.filter_map(|row| Some(row.strip_prefix("tool:")?.split_once('=')?.1));
        let has_result = has_result.clone().any(|text| text.starts_with(&row));
        for (chat, letter) in &call.letters {
            let shown = records.shown.iter().filter(|shown| shown.chat == *chat && shown.text == *letter);
            let plain = shown.clone().filter(|shown| !shown.marked).count();
            let marked = shown.count() - plain;
            let fits = match (has_result, plan.chats[*chat].keyed) {
                (true, true) => (plain, marked) == (1, 0),
                (true, false) => plain <= 1 && plain + marked >= 1,
                (false, _) => plain + marked == 0,
            };
            if !fits {
                wrong.push(format!(
                    "{letter} was read {plain} times, and {marked} times marked; its call is done: {has_result}"
                ));
            }
        }
    }
    wrong
}

/// A task is one session's, and its report, also of a failure, is that session's last words.
fn tasks_are_done_once(records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut tasks: BTreeMap<&str, usize> = BTreeMap::new();
    for task in transcripts.values().flatten().filter_map(|row| row.strip_prefix("user:task-")) {
        *tasks.entry(task).or_default() += 1;
    }
    for (task, times) in tasks {
        if times > 1 {
            wrong.push(format!("task-{task} was begun {times} times"));
        }
    }
    for (id, call) in records.calls.iter().filter(|(_, call)| call.tool == "delegate_task") {
        let Some(number) = id.strip_prefix("call-") else { continue };
        let Some(text) = &call.returned else { continue };
        for summary in text.split("\"summary\":\"").skip(1) {
            let said = summary.split('"').next().unwrap_or_default();
            let is_mine = said.split(' ').skip(1).all(|word| {
                word.strip_prefix("task-")
                    .is_some_and(|task| task == number || task.starts_with(&format!("{number}-")))
            });
            if !said.starts_with("re ") || !is_mine {
                wrong.push(format!("{id} was told {said:?}"));
            }
        }
    }
    wrong
}

/// What the model reads as a result is what its tool returned, or says truly why there is none.
fn results_are_true(records: &Records) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for question in &records.asked {
        let results =
            question.prompt.iter().filter_map(|segment| segment.strip_prefix("tool:")?.split_once('='));
        for (id, text) in results {
            if let Some(why) = is_untrue(records, question, id, text) {
                wrong.insert(format!("{}: {id} has the result {text:?}: {why}", question.session));
            }
        }
    }
    wrong.into_iter().collect()
}

fn is_untrue(records: &Records, question: &Question, id: &str, text: &str) -> Option<&'static str> {
    let committed = records.committed.get(&(question.session.clone(), id.to_owned()));
    if committed.is_some_and(|committed| !text.starts_with(committed.as_str())) {
        return Some("another one was written");
    }
    let call = records.calls.get(id)?;
    let made_in = &records.asked[call.question];
    let happened = records.effects.iter().any(|effect| effect.id == id);
    if text == OUTCOME_UNKNOWN {
        let lived = question.life - made_in.life;
        // A turn whose tools ran when the process ended, once too often, is set aside with all of them.
        let deaths = question.life - turn_began(records, made_in);
        let parked = deaths > RESUMES_MAX;
        let shown = records.shown.iter().any(|shown| shown.text.contains(&format!("\n\n{id}\n\n")));
        let granted = call.wanted.is_some_and(|(asked, _)| records.yes.iter().any(|yes| yes.at > asked));
        return match () {
            () if lived == 0 => Some("the process has not ended since"),
            () if parked => None,
            () if is_repeatable(&call.tool) => Some("it could have been run again"),
            () if call.tool == "permit" && shown && !granted => Some("it waited, and nothing had been done"),
            () => None,
        };
    }
    if [NOT_RUN_BUDGET, NOT_RUN_REPEATED, NOT_ASKED].contains(&text) || text.contains("BLOCKED") {
        let ran = happened || (call.begun > 0 && !matches!(call.tool.as_str(), "permit" | "clarify"));
        return ran.then_some("it was run");
    }
    // What looks at nothing in particular says always the same, and a question is answered by a person.
    if text == STOPPED || call.tool == "clarify" || (call.tool == "look" && text.starts_with("seen ")) {
        return None;
    }
    match &call.returned {
        Some(returned) if text.starts_with(returned.as_str()) => None,
        Some(_) => Some("it returned something else"),
        None if call.begun == 0 && text.contains("are not JSON") => None, // it cannot be read which it was
        None => Some("it has returned nothing"),
    }
}

/// In which life the turn of this question was begun: as many answers had been given then.
fn turn_began(records: &Records, question: &Question) -> u32 {
    let answers = |asked: &Question| {
        asked.prompt.iter().filter(|row| row.starts_with("assistant:") && row.ends_with('|')).count()
    };
    let mine = records.asked.iter().filter(|asked| asked.session == question.session);
    let same = mine.filter(|asked| answers(asked) == answers(question));
    same.map(|asked| asked.life).next().unwrap_or(question.life)
}

/// Every call the model made, once it was written, stands in the transcript once, with one result.
fn calls_are_kept(records: &Records, transcripts: &Transcripts) -> Vec<String> {
    let mut wrong = Vec::new();
    for number in &records.steps {
        let session = &records.asked[*number].session;
        let rows = transcripts.get(session).into_iter().flatten();
        let prefix = format!("assistant:step-{number}|");
        let kept = rows.filter(|row| row.starts_with(&prefix)).count();
        if kept != 1 {
            wrong.push(format!("{session}: step {number} is kept {kept} times"));
        }
    }
    for (session, transcript) in transcripts {
        let ids = transcript.iter().filter_map(|row| row.strip_prefix("tool:")?.split_once('='));
        let mut seen = BTreeSet::new();
        let twice: Vec<_> = ids.map(|(id, _)| id).filter(|id| !seen.insert(*id)).collect();
        if !twice.is_empty() {
            wrong.push(format!("{session}: {twice:?} have two results"));
        }
    }
    wrong
}

/// A later request of a session begins with the bytes of the one before it, tools and system prompt
/// first.
fn prompts_grow(records: &Records) -> Vec<String> {
    let mut last: BTreeMap<&SessionId, &Question> = BTreeMap::new();
    let mut wrong = Vec::new();
    for question in &records.asked {
        let Some(before) = last.insert(&question.session, question) else { continue };
        if !question.prompt.starts_with(&before.prompt) {
            wrong
                .push(format!("{}: asked {:?} after {:?}", question.session, question.prompt, before.prompt));
        }
        if question.head != before.head {
            wrong.push(format!("{}: told {:?} after {:?}", question.session, question.head, before.head));
        }
    }
    wrong
}

/// No model is asked again what it has answered: without something new there is no question.
fn nothing_is_asked_twice(records: &Records) -> Vec<String> {
    let mut last: BTreeMap<&SessionId, (usize, &Question)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (number, question) in records.asked.iter().enumerate() {
        let Some((earlier, before)) = last.insert(&question.session, (number, question)) else { continue };
        let heard =
            records.steps.contains(&earlier) || (before.answer.is_some() && before.life == question.life);
        let news = question.prompt[before.prompt.len().min(question.prompt.len())..]
            .iter()
            .any(|segment| said_in(segment).is_some() || segment.starts_with("tool:"));
        if heard && !news {
            wrong.push(format!("{}: question {number} brings nothing new", question.session));
        }
    }
    wrong
}

/// Every call is followed by its results, in order, before anything else is said.
fn prompts_are_legal(records: &Records) -> Vec<String> {
    let mut wrong = Vec::new();
    for question in &records.asked {
        for segments in [&question.prompt, &question.sent] {
            wrong.extend(is_legal(&question.session, segments));
        }
    }
    wrong
}

fn is_legal(session: &SessionId, segments: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for segment in segments {
        if let Some(result) = segment.strip_prefix("tool:") {
            let id = result.split('=').next().unwrap_or_default();
            if open.first() != Some(&id) {
                wrong.push(format!("{}: result {id} stands where {open:?} is open", session));
            }
            open.retain(|call| *call != id);
        } else if !open.is_empty() {
            wrong.push(format!("{}: {open:?} is open before {segment:?}", session));
        }
        if let Some(calls) = segment.strip_prefix("assistant:").and_then(|rest| rest.rsplit('|').next()) {
            open = calls.split(',').filter(|call| !call.is_empty()).collect();
        }
    }
    if !open.is_empty() {
        wrong.push(format!("{}: {open:?} is open at the end", session));
    }
    wrong
}
