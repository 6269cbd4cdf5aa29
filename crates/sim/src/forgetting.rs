//! Something is forgotten while the gateway is stopped, with power failing at any operation on the disk, and the judge of
//! what is left of it.
//!
//! The command is the store's own; what `throughline forget` deletes outside of the database is no part of this world. The
//! judge looks at the bytes of the disk, at the tables of the index, at what the model is asked afterwards and at what the
//! memory provider has: never at what the store says about itself, but for the receipt.

use crate::disk::Disk;
use crate::model::line;
use crate::mutant::Mutant;
use crate::people::{chat_key, is_shared, writer};
use crate::plan::{ForgettingPlan, Forgotten, Plan, words};
use crate::platforms::platform_name;
use crate::records::{Records, Said};
use crate::watched::writer_on;
use crate::world::{Outside, agent_name};
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::SessionId;
use throughline_core::port::{SessionFilter, Store, StoreError};
use throughline_store::{ForgetOrder, StoreWriter, SubjectKind};

/// Of a word an index may have only what it does not share with the one before it.
const SHARED_MAX: usize = 3;
/// In the tally: how often power failed while something was forgotten.
pub const INTERRUPTED: &str = "forgettings interrupted";
/// The whole-text indexes of a home.
const INDEXES: [&str; 2] = ["messages_fts", "messages_fts_trigram"];

/// What was forgotten, and how things stood then.
pub struct Forgot {
    /// What was said by those it is about. Of these words, those that are to be nowhere any more; and words of others.
    meant: Vec<String>,
    gone: Vec<String>,
    stay: Vec<String>,
    /// Sessions of which the provider is to delete something.
    sessions: BTreeSet<SessionId>,
    /// What stood in each conversation.
    transcripts: BTreeMap<SessionId, Vec<String>>,
    /// The turns of others that the provider had, by their keys.
    retained: BTreeSet<String>,
    /// How much the model had been asked, and people had been shown.
    asked: usize,
    shown: usize,
}

/// The operator has something forgotten, and again if power failed before it began. Counts how often power failed.
pub fn carry_out(
    outside: &Outside,
    plan: &ForgettingPlan,
    interrupted: &mut usize,
) -> Result<Forgot, String> {
    let disk = &outside.disks[0];
    let forgot = {
        let store = opened(outside)?;
        let transcripts = transcripts(&store).map_err(unreadable)?;
        outside.write(|records| Forgot::of(&outside.plan, plan.what, records, transcripts))
    };
    let mut strikes = plan.strikes.iter();
    loop {
        if let Some(nth) = strikes.next() {
            disk.strike_at(*nth);
        }
        let done = forget(outside, plan.what);
        if !disk.has_struck() {
            disk.stay_up();
            done?;
            break;
        }
        *interrupted += 1;
        disk.crash();
        if outside.mutant == Some(Mutant::SkipResume) && has_begun(outside)? {
            break;
        }
    }
    tamper(outside, &forgot)?;
    Ok(forgot)
}

impl Forgot {
    fn of(
        plan: &Plan,
        what: Forgotten,
        records: &Records,
        transcripts: BTreeMap<SessionId, Vec<String>>,
    ) -> Self {
        let first = records.chats[0].said.iter().find_map(|said| Some(said.went_to.as_ref()?.0.clone()));
        let is_meant = |chat: usize, number: usize, said: &Said| match what {
            Forgotten::Person => writer(plan, chat, number) == writer(plan, 0, 0),
            Forgotten::Chat => chat == 0,
            // What still waited when it ended is said in the next one.
            Forgotten::Session => first
                .as_ref()
                .and_then(|first| transcripts.get(first))
                .is_some_and(|rows| rows.iter().any(|row| row.strip_prefix("user:") == Some(&said.text))),
        };
        let (mut meant_words, mut stay, mut sessions) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (chat, book) in records.chats.iter().enumerate() {
            for (number, said) in book.said.iter().enumerate() {
                let meant = is_meant(chat, number, said);
                sessions.extend(said.went_to.iter().filter(|_| meant).map(|(session, _)| session.clone()));
                let Some((_, word)) = words(&said.text).and_then(|text| text.split_once('-')) else {
                    continue;
                };
                if meant { &mut meant_words } else { &mut stay }.push(word.to_owned());
            }
        }
        // What the agent said about several people at once is not one person's.
        let spoken: Vec<_> = records.asked.iter().filter_map(|asked| asked.answer.as_deref()).collect();
        let of_several = |word: &String| {
            let mut about = spoken.iter().filter(|text| text.contains(word));
            about.any(|text| stay.iter().any(|other| text.contains(other)))
        };
        let gone = meant_words.iter().filter(|word| !of_several(word)).cloned().collect();
        let retained = records.retained.iter().map(|it| &it.retention).filter(|retention| {
            let texts = || retention.said.iter().chain([&retention.replied]);
            !meant_words.iter().any(|word| texts().any(|text| text.contains(word)))
        });
        let retained = retained.map(|retention| retention.key.clone()).collect();
        let (asked, shown) = (records.asked.len(), records.shown.len());
        Self { meant: meant_words, gone, stay, sessions, transcripts, retained, asked, shown }
    }

    /// Whether something that is to be nowhere stands in a text.
    fn is_in(&self, text: &str) -> bool {
        self.gone.iter().any(|word| text.contains(word))
    }
}

fn unreadable(error: StoreError) -> String {
    format!("the store cannot be read: {error}")
}

fn opened(outside: &Outside) -> Result<StoreWriter, String> {
    writer_on(&outside.disks[0], outside.mutant, outside.wall())
        .map_err(|error| format!("the store does not open: {error}"))
}

fn has_begun(outside: &Outside) -> Result<bool, String> {
    Ok(!opened(outside)?.as_reader().receipts().map_err(unreadable)?.is_empty())
}

/// As `throughline forget` does it, or the start of a gateway that finds one interrupted.
fn forget(outside: &Outside, what: Forgotten) -> Result<(), String> {
    let failed = |error: StoreError| format!("forgetting failed: {error}");
    let now = outside.wall();
    let mut store = opened(outside)?;
    if store.as_reader().receipts().map_err(failed)?.is_empty() {
        let session =
            || outside.write(|records| records.chats[0].said[0].went_to.clone()).map(|(session, _)| session);
        let (kind, name) = match what {
            Forgotten::Person => (SubjectKind::Person, format!("{}:person-0", platform_name(true))),
            Forgotten::Chat => (SubjectKind::Chat, chat_key(&outside.plan, 0)),
            Forgotten::Session => {
                (SubjectKind::Session, session().map(|id| id.to_string()).unwrap_or_default())
            }
        };
        order(outside, &mut store, kind, &name)?;
        if outside.mutant == Some(Mutant::ForgetOthers) {
            order(outside, &mut store, SubjectKind::Chat, &chat_key(&outside.plan, 1))?;
        }
    }
    for open in store.as_reader().unfinished_forgettings().map_err(failed)? {
        store.forgotten_outside(open.number).map_err(failed)?;
        if outside.mutant != Some(Mutant::SkipScrub) {
            store.scrub(now).map_err(failed)?;
        }
        store.forgotten(open.number, now).map_err(failed)?;
    }
    store.close(now).map(drop).map_err(failed)
}

fn order(outside: &Outside, store: &mut StoreWriter, kind: SubjectKind, name: &str) -> Result<(), String> {
    let failed = |error: StoreError| format!("forgetting failed: {error}");
    let subject = store.as_reader().subject(kind, name).map_err(|error| format!("{name}: {error:?}"))?;
    let plan = store.as_reader().plan(&subject).map_err(failed)?;
    if !plan.busy.is_empty() {
        return Err(format!("{name} is still being answered in {:?}", plan.busy));
    }
    let (now, outside_counts) = (outside.wall(), BTreeMap::new());
    let order = ForgetOrder {
        now,
        work: "{}",
        outside: &outside_counts,
        provider: Some("sim"),
        agent: agent_name(0),
    };
    store.forget(&plan, &order).map(drop).map_err(failed)
}

/// Deliberate bugs that leave something behind.
fn tamper(outside: &Outside, forgot: &Forgot) -> Result<(), String> {
    let sql = match outside.mutant {
        Some(Mutant::DropErasure) => "DELETE FROM tl_retention WHERE erases = 1".to_owned(),
        Some(Mutant::KeepIndexed) => {
            let word = &forgot.gone[0];
            format!("INSERT INTO messages_fts (rowid, content) VALUES (1000000, '{word}')")
        }
        _ => return Ok(()),
    };
    let wrote = raw(&outside.disks[0]).and_then(|conn| conn.execute_batch(&sql));
    wrote.map_err(|error| format!("the bug cannot be put in: {error}"))
}

/// The database without the store.
fn raw(disk: &Disk) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let conn = Connection::open_with_flags_and_vfs("state.db", flags, disk.vfs_name())?;
    conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    Ok(conn)
}

fn transcripts(store: &StoreWriter) -> Result<BTreeMap<SessionId, Vec<String>>, StoreError> {
    let reader = store.reader();
    let filter = SessionFilter { limit: usize::MAX >> 1, ..SessionFilter::default() };
    let mut found = BTreeMap::new();
    for summary in reader.sessions(&filter)? {
        let rows = reader.said(&summary.id)?; // with what summaries stand for by now
        found.insert(summary.id, rows.iter().map(|(_, message)| line(message)).collect());
    }
    Ok(found)
}

/// P31: of what was forgotten nothing is left, and of everything else nothing is gone.
pub fn verdict(
    outside: &Outside,
    forgot: &Forgot,
) -> Result<(Vec<String>, BTreeMap<&'static str, usize>), String> {
    let mut wrong = outside.write(|records| records.wrong.clone());
    wrong
        .extend(in_the_index(outside, forgot).map_err(|error| format!("the index cannot be read: {error}"))?);
    let store = opened(outside)?;
    wrong.extend(in_the_store(&store, forgot).map_err(unreadable)?);
    drop(store);
    for word in &forgot.gone {
        let files = outside.disks[0].files_with(&word.as_bytes()[SHARED_MAX..]);
        if !files.is_empty() {
            wrong.push(format!("forgotten: {word} stands in {files:?}"));
        }
    }
    for word in &forgot.stay {
        if outside.disks[0].files_with(word.as_bytes()).is_empty() {
            wrong.push(format!("forgotten: {word} of another person is gone"));
        }
    }
    outside.write(|records| {
        wrong.extend(seen_later(records, forgot));
        wrong.extend(at_the_provider(records, forgot));
    });
    let shared = (0..outside.plan.chats.len()).filter(|chat| is_shared(&outside.plan, *chat)).count();
    let tally = BTreeMap::from([
        ("words forgotten", forgot.gone.len()),
        ("words of others", forgot.stay.len()),
        ("chats shared with a forgotten person", shared),
    ]);
    Ok((wrong, tally))
}

fn in_the_index(outside: &Outside, forgot: &Forgot) -> rusqlite::Result<Vec<String>> {
    let conn = raw(&outside.disks[0])?;
    let mut wrong = Vec::new();
    for index in INDEXES {
        if !conn.table_exists(None, index)? {
            continue;
        }
        let mut found = conn.prepare(&format!("SELECT 1 FROM {index} WHERE {index} MATCH ?1"))?;
        for word in &forgot.gone {
            if found.exists([word])? {
                wrong.push(format!("forgotten: {index} has {word}"));
            }
        }
        for word in &forgot.stay {
            if !found.exists([word])? {
                wrong.push(format!("forgotten: {index} has lost {word}"));
            }
        }
    }
    Ok(wrong)
}

fn in_the_store(store: &StoreWriter, forgot: &Forgot) -> Result<Vec<String>, StoreError> {
    let mut wrong: Vec<_> = store.reader().check()?.into_iter().map(|it| format!("check: {it}")).collect();
    let filter = SessionFilter { limit: 10, ..SessionFilter::default() };
    let finds = |word: &String| Ok::<_, StoreError>(!store.reader().search(word, &filter)?.is_empty());
    for word in &forgot.gone {
        if finds(word)? {
            wrong.push(format!("forgotten: a search finds {word}"));
        }
    }
    for word in &forgot.stay {
        if !finds(word)? {
            wrong.push(format!("forgotten: no search finds {word}"));
        }
    }
    let now = transcripts(store)?;
    for (session, before) in &forgot.transcripts {
        let rows = now.get(session);
        let is_of_others = |row: &String| !forgot.meant.iter().any(|word| row.contains(word));
        let others = before.iter().enumerate().filter(|(_, row)| is_of_others(row));
        let is_whole_session = rows.is_none() && forgot.sessions.contains(session);
        for (place, row) in others.filter(|_| !is_whole_session) {
            if rows.and_then(|rows| rows.get(place)) != Some(row) {
                wrong.push(format!("forgotten: {session} has lost {row:?}"));
            }
        }
    }
    let receipts = store.as_reader().receipts()?;
    if receipts.iter().filter(|receipt| receipt.done.is_some()).count() != 1 || receipts.len() != 1 {
        wrong.push(format!("forgotten: the receipts are {receipts:?}"));
    }
    let left = store.reader().unkept()?.into_iter().filter(|pending| pending.erases);
    wrong.extend(left.map(|pending| format!("forgotten: {} is still to be deleted", pending.retention.key)));
    Ok(wrong)
}

/// What was asked of the model and shown to people since.
fn seen_later(records: &Records, forgot: &Forgot) -> Vec<String> {
    let asked = records.asked[forgot.asked..].iter();
    let known = asked.filter(|asked| asked.sent.iter().chain([&asked.head]).any(|row| forgot.is_in(row)));
    let mut wrong: Vec<_> =
        known.map(|asked| format!("forgotten: {} was asked about {:?}", asked.session, asked.sent)).collect();
    let shown = records.shown[forgot.shown..].iter().filter(|shown| forgot.is_in(&shown.text));
    wrong.extend(shown.map(|shown| format!("forgotten: {} was shown: {}", shown.key, shown.text)));
    wrong
}

fn at_the_provider(records: &Records, forgot: &Forgot) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut kept = BTreeSet::new();
    for remembered in &records.retained {
        let retention = &remembered.retention;
        if retention.said.iter().chain([&retention.replied]).any(|text| forgot.is_in(text)) {
            wrong.push(format!("forgotten: {} is still remembered", retention.key));
        }
        kept.insert(&retention.key);
    }
    let lost = forgot.retained.iter().filter(|key| !kept.contains(key));
    wrong.extend(lost.map(|key| format!("forgotten: {key} is remembered no longer")));
    for session in &forgot.sessions {
        let times = records.erased.iter().filter(|(erased, _)| erased == session).count();
        if times == 0 {
            wrong.push(format!("forgotten: the memory provider was not asked to delete {session}"));
        }
    }
    wrong
}
