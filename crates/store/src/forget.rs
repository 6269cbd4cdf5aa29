//! Forgetting a person, a chat or a session: what belongs to it, and how it goes.
//!
//! - [`StoreReader::plan`] only looks. [`StoreWriter::forget`] deletes in one transaction everything that the database has, and in
//!   the same transaction records what is still to be done outside of it (`tl_forgetting.work`) and what memory
//!   providers are to delete (rows of `tl_retention`). A process that is killed at any point leaves a record that says
//!   how far it came, and every step can be done twice
//! - whole sessions go as when Hermes deletes them, with the sessions that worked for them and with their snapshots
//! - in a conversation that several people share, rows stay in their places: what the person wrote is replaced by
//!   [`REMOVED`], and so is all that follows in a turn that this person alone began. Rows of others stay as they are
//! - [`StoreWriter::scrub`] rewrites the index and the file, so that nothing is left in free pages or in the log
//!
//! - what was made of a person's words there and is not in place yet (a summary, a title) goes and is made again
//!
//! Deliberately absent: files, and what a summary in place in a shared conversation says. The caller names those.

mod decisions;
#[cfg(test)]
mod tests;

use crate::commit::{StoreWriter, run, transact};
use crate::envelope;
use crate::fault::{StoreFault, While};
use crate::prune::CONTINUED;
use crate::read::{StoreReader, session_id, text};
use crate::retention::turn_key;
use decisions::{DECISIONS, Fate};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use throughline_core::id::SessionId;
use throughline_core::port::StoreError;
use throughline_core::time::Time;

/// What stands where a person's words stood in a conversation that goes on.
pub(crate) const REMOVED: &str = "[This message was removed because its sender was forgotten.]";
/// The session of keys whose own is gone.
const NOWHERE: &str = "forgotten";
/// Chats in which one person talks to the agent.
const PRIVATE: [&str; 5] = ["", "dm", "private", "im", "direct"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Person,
    Chat,
    Session,
}

impl SubjectKind {
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Person => "person",
            SubjectKind::Chat => "chat",
            SubjectKind::Session => "session",
        }
    }
}

/// Who or what is to be forgotten. It is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgetSubject {
    Person {
        platform: String,
        user: String,
    },
    /// Its keys, and where it is in the platform's own terms.
    Chat {
        keys: BTreeSet<String>,
        place: Option<(String, String)>,
    },
    Session(SessionId),
}

impl ForgetSubject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            ForgetSubject::Person { .. } => SubjectKind::Person,
            ForgetSubject::Chat { .. } => SubjectKind::Chat,
            ForgetSubject::Session(_) => SubjectKind::Session,
        }
    }

    /// Names it in a receipt, and does not tell who it was.
    fn digest(&self) -> String {
        let digest = Sha256::digest(format!("{} {self}", self.kind().name()).as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for ForgetSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForgetSubject::Person { platform, user } => write!(formatter, "{platform}:{user}"),
            ForgetSubject::Chat { place: Some((platform, chat)), .. } => {
                write!(formatter, "{platform}:{chat}")
            }
            ForgetSubject::Chat { keys, .. } => formatter.write_str(keys.first().map_or("", String::as_str)),
            ForgetSubject::Session(session) => write!(formatter, "{session}"),
        }
    }
}

/// Why nothing can be forgotten.
#[derive(Debug)]
pub enum NotFound {
    /// There is no such thing. What there is.
    Unknown(Vec<String>),
    /// It may be any of these.
    Ambiguous(Vec<String>),
    Store(StoreError),
}

/// A session that goes, and the surface that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSession {
    pub session: SessionId,
    pub source: String,
}

/// What would go.
#[derive(Clone, Debug)]
pub struct ForgetPlan {
    pub subject: ForgetSubject,
    pub sessions: Vec<FoundSession>,
    /// Keys of chats that lead nowhere afterwards.
    pub chats: BTreeSet<String>,
    /// Chats of one person on their platform, as (platform, chat).
    pub places: BTreeSet<(String, String)>,
    /// What the person wrote where others write, too.
    shared: Vec<SharedMessage>,
    /// How many of what.
    pub counts: BTreeMap<&'static str, u64>,
    /// Summaries in place in shared conversations, which may retell messages of this person.
    pub summaries: u64,
    /// Copies that were made of these sessions, and go on.
    pub branches: Vec<String>,
    /// SharedMessage conversations in which messages of this person wait or are being answered.
    pub busy: Vec<String>,
}

impl ForgetPlan {
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.shared.is_empty()
    }
}

/// A message in a shared conversation.
#[derive(Clone, Debug)]
struct SharedMessage {
    session: String,
    seq: i64,
    turn: Option<i64>,
    /// No other person's message began that turn.
    is_alone: bool,
}

/// A record of something that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub number: i64,
    pub at: Time,
    pub kind: String,
    /// The digest of its name.
    pub subject: String,
    pub done: Option<Time>,
    /// As JSON.
    pub counts: String,
}

/// Something that was forgotten in the database, and not yet everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgetting {
    pub number: i64,
    /// What is to be done outside. None: that is done.
    pub work: Option<String>,
}

// -------------------------------------------------------------------------------------- looking

impl StoreReader {
    /// Who or what is meant.
    pub fn subject(&self, kind: SubjectKind, name: &str) -> Result<ForgetSubject, NotFound> {
        let found = match kind {
            SubjectKind::Person => self.person(name),
            SubjectKind::Chat => self.chat(name),
            SubjectKind::Session => self.session_named(name),
        };
        match found {
            Ok(found) => found,
            Err(fault) => Err(NotFound::Store(fault.while_doing("look for what is meant"))),
        }
    }

    fn person(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let mut people: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let mut add = |sql: &str| -> Result<(), StoreFault> {
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let (Some(platform), Some(user)) = (text(row, 0)?, text(row, 1)?) {
                    let names = people.entry((platform, user)).or_default();
                    names.extend(text(row, 2)?.filter(|name| !name.is_empty()));
                }
            }
            Ok(())
        };
        add("SELECT DISTINCT source, user_id, NULL FROM sessions WHERE COALESCE(user_id, '') <> ''")?;
        if self.variants.can.has_origin_json {
            add("SELECT DISTINCT source, user_id, json_extract(origin_json, '$.user_name') FROM sessions
                 WHERE COALESCE(user_id, '') <> '' AND json_valid(origin_json)
                   AND json_extract(origin_json, '$.user_id') = user_id")?;
        }
        add("SELECT DISTINCT COALESCE(json_extract(i.envelope, '$.reply_to.platform'), s.source),
                    json_extract(i.envelope, '$.sender[0]'), json_extract(i.envelope, '$.sender[1]')
             FROM tl_inbox i JOIN sessions s ON s.id = i.session
             WHERE json_extract(i.envelope, '$.sender[0]') IS NOT NULL")?;
        let full = |(platform, user): &(String, String)| format!("{platform}:{user}");
        let lower = name.to_lowercase();
        let exact: Vec<_> = people.keys().filter(|person| full(person) == name).cloned().collect();
        let by_id = || people.keys().filter(|(_, user)| user == name).cloned().collect::<Vec<_>>();
        let is_called = |names: &BTreeSet<String>| names.iter().any(|known| known.to_lowercase() == lower);
        let by_name = || {
            let called = people.iter().filter(|(_, names)| is_called(names));
            called.map(|(person, _)| person.clone()).collect::<Vec<_>>()
        };
        let found = [exact, by_id(), by_name()].into_iter().find(|found| !found.is_empty());
        Ok(match found.unwrap_or_default().as_slice() {
            [(platform, user)] => {
                Ok(ForgetSubject::Person { platform: platform.clone(), user: user.clone() })
            }
            [] => Err(NotFound::Unknown(people.keys().map(full).collect())),
            several => Err(NotFound::Ambiguous(several.iter().map(full).collect())),
        })
    }

    fn chat(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let mut keys = vec!["SELECT chat FROM tl_route"];
        if self.variants.can.has_gateway_routing {
            keys.push("SELECT session_key FROM gateway_routing");
        }
        if self.variants.can.has_session_key {
            keys.push("SELECT DISTINCT session_key FROM sessions WHERE COALESCE(session_key, '') <> ''");
        }
        for sql in keys {
            let mut statement = self.conn.prepare(sql)?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            known.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        if self.variants.can.has_session_key && self.variants.can.has_chat_id {
            let sql = "SELECT DISTINCT source, chat_id, session_key FROM sessions WHERE COALESCE(chat_id, '') <> ''";
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let place = (row.get(0)?, row.get(1)?);
                places.entry(place).or_default().extend(text(row, 2)?);
            }
        }
        let full = |(platform, chat): &(String, String)| format!("{platform}:{chat}");
        if known.contains(name) {
            let keys = BTreeSet::from([name.to_owned()]);
            return Ok(Ok(ForgetSubject::Chat { keys, place: None }));
        }
        let mut found: Vec<_> = places.iter().filter(|(place, _)| full(place) == name).collect();
        if found.is_empty() {
            found = places.iter().filter(|((_, chat), _)| chat == name).collect();
        }
        Ok(match found.as_slice() {
            [(place, keys)] => {
                Ok(ForgetSubject::Chat { keys: (*keys).clone(), place: Some((*place).clone()) })
            }
            [] => Err(NotFound::Unknown(places.keys().map(full).chain(known).collect())),
            several => Err(NotFound::Ambiguous(several.iter().map(|(place, _)| full(place)).collect())),
        })
    }

    fn session_named(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let there = self.conn.prepare("SELECT 1 FROM sessions WHERE id = ?1")?.exists([name])?;
        if let (true, Ok(id)) = (there, name.parse()) {
            return Ok(Ok(ForgetSubject::Session(id)));
        }
        let mut statement = self.conn.prepare("SELECT id FROM sessions ORDER BY started_at DESC")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
        let real: Vec<String> = ids.into_iter().filter(|id| id.parse::<SessionId>().is_ok()).collect();
        let begun: Vec<String> = real.iter().filter(|id| id.starts_with(name)).cloned().collect();
        Ok(Err(match begun.len() {
            0 => NotFound::Unknown(real),
            _ => NotFound::Ambiguous(begun),
        }))
    }

    /// What would go.
    pub fn plan(&self, subject: &ForgetSubject) -> Result<ForgetPlan, StoreError> {
        self.at_once(|| self.planned(subject)).while_doing("look for what would go")
    }

    fn planned(&self, subject: &ForgetSubject) -> Result<ForgetPlan, StoreFault> {
        let mut ids = match subject {
            ForgetSubject::Person { platform, user } => self.sessions_of_person(platform, user)?,
            ForgetSubject::Chat { keys, place } => self.sessions_of_chat(keys, place.as_ref())?,
            ForgetSubject::Session(id) => BTreeSet::from([id.to_string()]),
        };
        self.add_relatives(&mut ids)?;
        let mut plan = ForgetPlan {
            subject: subject.clone(),
            sessions: Vec::new(),
            chats: BTreeSet::new(),
            places: BTreeSet::new(),
            shared: Vec::new(),
            counts: BTreeMap::new(),
            summaries: 0,
            branches: Vec::new(),
            busy: Vec::new(),
        };
        let mut sources = self.conn.prepare("SELECT source FROM sessions WHERE id = ?1")?;
        for id in &ids {
            let source = sources.query_row([id], |row| row.get(0)).optional()?.unwrap_or_default();
            plan.sessions.push(FoundSession { session: session_id(id)?, source });
        }
        self.find_chats(&mut plan, &ids)?;
        if let ForgetSubject::Person { platform, user } = subject {
            self.find_shared(&mut plan, platform, user, &ids)?;
        }
        let sql = "SELECT id FROM sessions WHERE json_valid(model_config)
                     AND json_extract(model_config, '$._branched_from') = ?1";
        let mut branches = self.conn.prepare(sql)?;
        for id in &ids {
            let found = branches.query_map([id], |row| row.get::<_, String>(0))?;
            plan.branches.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        plan.branches.retain(|branch| !ids.contains(branch));
        self.count(&mut plan)?;
        Ok(plan)
    }

    /// Conversations that are this person's alone.
    fn sessions_of_person(&self, platform: &str, user: &str) -> Result<BTreeSet<String>, StoreFault> {
        let can = &self.variants.can;
        let column = |name: &'static str, there: bool| if there { name } else { "NULL" };
        let sql = format!(
            "SELECT s.id, {}, {}, EXISTS (SELECT 1 FROM tl_inbox i WHERE i.session = s.id
                        AND json_extract(i.envelope, '$.sender[0]') <> ?2)
             FROM sessions s WHERE s.source = ?1 AND s.user_id = ?2",
            column("s.chat_type", can.has_chat_type),
            column("s.session_key", can.has_session_key)
        );
        let mut own = BTreeSet::new();
        let mut statement = self.conn.prepare(&sql)?;
        let mut rows = statement.query([platform, user])?;
        while let Some(row) = rows.next()? {
            let (id, kind, key): (String, _, _) = (row.get(0)?, text(row, 1)?, text(row, 2)?);
            let is_private = PRIVATE.contains(&kind.unwrap_or_default().as_str());
            // Hermes gives each person of a group a conversation of their own, if it is set so.
            let is_named = key.is_some_and(|key| key.ends_with(&format!(":{user}")));
            let others_write: bool = row.get(3)?;
            if (is_private || is_named) && !others_write && id.parse::<SessionId>().is_ok() {
                own.insert(id);
            }
        }
        Ok(own)
    }

    fn sessions_of_chat(
        &self,
        keys: &BTreeSet<String>,
        place: Option<&(String, String)>,
    ) -> Result<BTreeSet<String>, StoreFault> {
        let mut ids = BTreeSet::new();
        let mut queries = vec!["SELECT session FROM tl_route WHERE chat = ?1"];
        if self.variants.can.has_session_key {
            queries.push("SELECT id FROM sessions WHERE session_key = ?1");
        }
        if self.variants.can.has_gateway_routing {
            queries.push(
                "SELECT json_extract(entry_json, '$.session_id') FROM gateway_routing WHERE session_key = ?1",
            );
        }
        for sql in queries {
            let mut statement = self.conn.prepare(sql)?;
            for key in keys {
                let found = statement.query_map([key], |row| row.get::<_, String>(0))?;
                ids.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
            }
        }
        if let (Some((platform, chat)), true) = (place, self.variants.can.has_chat_id) {
            let sql = "SELECT id FROM sessions WHERE source = ?1 AND chat_id = ?2";
            let mut statement = self.conn.prepare(sql)?;
            let found = statement.query_map([platform, chat], |row| row.get::<_, String>(0))?;
            ids.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        let mut there = self.conn.prepare("SELECT 1 FROM sessions WHERE id = ?1")?;
        let mut kept = BTreeSet::new();
        for id in ids {
            if id.parse::<SessionId>().is_ok() && there.exists([&id])? {
                kept.insert(id);
            }
        }
        Ok(kept)
    }

    /// Sessions that worked for these, and what Hermes' compressions made of them or made them of: one conversation.
    fn add_relatives(&self, ids: &mut BTreeSet<String>) -> Result<(), StoreFault> {
        let helpers = "SELECT id FROM tl_session WHERE parent = ?1
                       UNION SELECT id FROM sessions WHERE json_valid(model_config)
                         AND json_extract(model_config, '$._delegate_from') = ?1";
        let later = format!("SELECT c.id FROM {CONTINUED} AND p.id = ?1");
        let earlier = format!("SELECT p.id FROM {CONTINUED} AND c.id = ?1");
        let mut open: Vec<String> = ids.iter().cloned().collect();
        while let Some(id) = open.pop() {
            for sql in [helpers, later.as_str(), earlier.as_str()] {
                let mut statement = self.conn.prepare_cached(sql)?;
                let found = statement.query_map([&id], |row| row.get::<_, String>(0))?;
                for relative in found.collect::<rusqlite::Result<Vec<_>>>()? {
                    if relative.parse::<SessionId>().is_ok() && ids.insert(relative.clone()) {
                        open.push(relative);
                    }
                }
            }
        }
        Ok(())
    }

    /// Chats that lead to nothing but these sessions, and never did.
    fn find_chats(&self, plan: &mut ForgetPlan, ids: &BTreeSet<String>) -> Result<(), StoreFault> {
        let can = &self.variants.can;
        let mut candidates: BTreeSet<String> = BTreeSet::new();
        if let ForgetSubject::Chat { keys, place } = &plan.subject {
            candidates.extend(keys.iter().cloned());
            plan.places.extend(place.clone());
        }
        let mut queries = vec!["SELECT chat FROM tl_route WHERE session = ?1"];
        if can.has_session_key {
            queries
                .push("SELECT session_key FROM sessions WHERE id = ?1 AND COALESCE(session_key, '') <> ''");
        }
        for sql in queries {
            let mut statement = self.conn.prepare(sql)?;
            for id in ids {
                let found = statement.query_map([id], |row| row.get::<_, String>(0))?;
                candidates.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
            }
        }
        for key in candidates {
            let others = self.sessions_of_chat(&BTreeSet::from([key.clone()]), None)?;
            if others.is_subset(ids) {
                plan.chats.insert(key);
            }
        }
        if can.has_chat_id && can.has_chat_type {
            let sql = "SELECT source, chat_id, COALESCE(chat_type, '') FROM sessions
                       WHERE id = ?1 AND COALESCE(chat_id, '') <> ''";
            let mut statement = self.conn.prepare(sql)?;
            for id in ids {
                let place = statement
                    .query_row([id], |row| {
                        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
                    })
                    .optional()?;
                if let Some((source, chat, kind)) = place
                    && PRIVATE.contains(&kind.as_str())
                    && plan.subject.kind() != SubjectKind::Session
                {
                    plan.places.insert((source, chat));
                }
            }
        }
        Ok(())
    }

    fn find_shared(
        &self,
        plan: &mut ForgetPlan,
        platform: &str,
        user: &str,
        ids: &BTreeSet<String>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT i.session, i.seq, i.turn, i.state,
                          i.turn IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tl_inbox o WHERE o.session = i.session
                              AND o.turn = i.turn AND json_extract(o.envelope, '$.sender[0]') IS NOT ?2)
                   FROM tl_inbox i JOIN sessions s ON s.id = i.session
                   WHERE json_extract(i.envelope, '$.sender[0]') = ?2
                     AND COALESCE(json_extract(i.envelope, '$.reply_to.platform'), s.source) = ?1
                     AND COALESCE(i.outcome, '') NOT GLOB '{\"moved\":*'";
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([platform, user])?;
        let mut sessions = BTreeSet::new();
        while let Some(row) = rows.next()? {
            let session: String = row.get(0)?;
            if ids.contains(&session) {
                continue;
            }
            if row.get::<_, i64>(3)? < 2 && !plan.busy.contains(&session) {
                plan.busy.push(session.clone());
            }
            sessions.insert(session.clone());
            plan.shared.push(SharedMessage {
                session,
                seq: row.get(1)?,
                turn: row.get(2)?,
                is_alone: row.get(4)?,
            });
        }
        let sql =
            "SELECT count(*) FROM tl_snapshot WHERE session = ?1 AND summary <> '[]' AND kind <> 'undone'";
        let mut statement = self.conn.prepare(sql)?;
        for session in &sessions {
            let count: i64 = statement.query_row([session], |row| row.get(0))?;
            plan.summaries += count.unsigned_abs();
        }
        Ok(())
    }

    fn count(&self, plan: &mut ForgetPlan) -> Result<(), StoreFault> {
        let counts = [
            (
                "messages",
                "SELECT count(*) FROM messages WHERE session_id = ?1
                OR session_id IN (SELECT name FROM tl_snapshot WHERE session = ?1)",
            ),
            ("snapshots", "SELECT count(*) FROM tl_snapshot WHERE session = ?1"),
            ("received", "SELECT count(*) FROM tl_inbox WHERE session = ?1"),
            ("sent", "SELECT count(*) FROM tl_outbox WHERE session = ?1"),
            ("events", "SELECT count(*) FROM tl_event WHERE session = ?1"),
            ("remembered", "SELECT count(*) FROM tl_retention WHERE session = ?1"),
        ];
        plan.counts.insert("sessions", plan.sessions.len() as u64);
        plan.counts.insert("shared_messages", plan.shared.len() as u64);
        for (name, sql) in counts {
            let mut statement = self.conn.prepare(sql)?;
            let mut total = 0;
            for found in &plan.sessions {
                let count: i64 = statement.query_row([found.session.as_str()], |row| row.get(0))?;
                total += count.unsigned_abs();
            }
            plan.counts.insert(name, total);
        }
        Ok(())
    }

    /// Shows every text that would go: files of the home may be named in it.
    pub fn texts_that_go(&self, plan: &ForgetPlan, show: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        let mut look = || -> Result<(), StoreFault> {
            let sent = if self.variants.can.has_api_content { "api_content" } else { "NULL" };
            let rows = format!(
                "SELECT content, tool_calls, {sent} FROM messages WHERE session_id = ?1
                    OR session_id IN (SELECT name FROM tl_snapshot WHERE session = ?1)"
            );
            let one = "SELECT envelope, NULL, NULL FROM tl_inbox WHERE session = ?1 AND seq = ?2";
            let each = "SELECT envelope, NULL, NULL FROM tl_inbox WHERE session = ?1";
            for found in &plan.sessions {
                for sql in [rows.as_str(), each] {
                    show_all(&self.conn, sql, &[&found.session.as_str()], show)?;
                }
            }
            for shared in &plan.shared {
                show_all(&self.conn, one, &[&shared.session, &shared.seq], show)?;
            }
            Ok(())
        };
        look().while_doing("read what would go")
    }

    /// Whether one of these words stands in a message that is there.
    pub fn is_mentioned(&self, word: &str) -> Result<bool, StoreError> {
        let look = || -> Result<bool, StoreFault> {
            let sql = "SELECT 1 FROM messages WHERE instr(content, ?1) > 0 LIMIT 1";
            Ok(self.conn.prepare_cached(sql)?.exists([word])?)
        };
        look().while_doing("look for a file in messages")
    }

    /// Everything that was ever forgotten, the last first.
    pub fn receipts(&self) -> Result<Vec<Receipt>, StoreError> {
        let look = || -> Result<Vec<Receipt>, StoreFault> {
            if !self.conn.table_exists(None, "tl_forgetting")? {
                return Ok(Vec::new());
            }
            let sql =
                "SELECT number, at, kind, subject, done, counts FROM tl_forgetting ORDER BY number DESC";
            let mut statement = self.conn.prepare(sql)?;
            let receipts = statement.query_map([], |row| {
                Ok(Receipt {
                    number: row.get(0)?,
                    at: Time(row.get(1)?),
                    kind: row.get(2)?,
                    subject: row.get(3)?,
                    done: row.get::<_, Option<i64>>(4)?.map(Time),
                    counts: row.get(5)?,
                })
            })?;
            Ok(receipts.collect::<rusqlite::Result<_>>()?)
        };
        look().while_doing("read the receipts")
    }

    /// What was begun and is not done, in order.
    pub fn unfinished_forgettings(&self) -> Result<Vec<Forgetting>, StoreError> {
        let look = || -> Result<Vec<Forgetting>, StoreFault> {
            if !self.conn.table_exists(None, "tl_forgetting")? {
                return Ok(Vec::new()); // a home that no version with this table has opened yet
            }
            let sql = "SELECT number, work FROM tl_forgetting WHERE state < 2 ORDER BY number";
            let mut statement = self.conn.prepare(sql)?;
            let open =
                statement.query_map([], |row| Ok(Forgetting { number: row.get(0)?, work: row.get(1)? }))?;
            Ok(open.collect::<rusqlite::Result<_>>()?)
        };
        look().while_doing("look for what is not forgotten everywhere")
    }
}

fn show_all(
    conn: &Connection,
    sql: &str,
    given: &[&dyn rusqlite::ToSql],
    show: &mut dyn FnMut(&str),
) -> Result<(), StoreFault> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(given)?;
    while let Some(row) = rows.next()? {
        for column in 0..3 {
            if let Some(bytes) = row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from)? {
                show(&String::from_utf8_lossy(bytes));
            }
        }
    }
    Ok(())
}

// -------------------------------------------------------------------------------------- deleting

/// What a forgetting is recorded with.
pub struct ForgetOrder<'a> {
    pub now: Time,
    /// What is to be done outside of the database afterwards.
    pub work: &'a str,
    /// Counts of that, for the receipt.
    pub outside: &'a BTreeMap<&'static str, u64>,
    /// The memory provider that the home has, if it has one: it may have notes of sessions of which no turn was kept.
    pub provider: Option<&'a str>,
    /// What the agent of this home is called there.
    pub agent: &'a str,
}

impl StoreWriter {
    /// Deletes it all, in one transaction with the record of what is still to be done. Returns the record's number.
    pub fn forget(&mut self, plan: &ForgetPlan, order: &ForgetOrder<'_>) -> Result<i64, StoreError> {
        let trigger = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
        let conn = &self.reader.conn;
        let had_triggers =
            conn.db_config(trigger).map_err(StoreFault::from).while_doing("read the store's settings")?;
        // Hermes' own triggers take its rows out of the search index.
        conn.set_db_config(trigger, true)
            .map_err(StoreFault::from)
            .while_doing("prepare the search index")?;
        let forgotten = self.forget_all(plan, order).while_doing("delete what is to be forgotten");
        let restored = self.reader.conn.set_db_config(trigger, had_triggers).map_err(StoreFault::from);
        restored.while_doing("go on without indexing")?;
        self.projection.dirty = true;
        forgotten
    }

    fn forget_all(&mut self, plan: &ForgetPlan, order: &ForgetOrder<'_>) -> Result<i64, StoreFault> {
        let reader = &self.reader;
        // In memory (temp_store), and gone with the connection.
        reader.conn.execute_batch(
            "PRAGMA secure_delete = ON;
             CREATE TEMP TABLE IF NOT EXISTS gone (id TEXT PRIMARY KEY) WITHOUT ROWID;
             CREATE TEMP TABLE IF NOT EXISTS gone_chat (key TEXT PRIMARY KEY) WITHOUT ROWID;",
        )?;
        transact(&reader.conn, |conn| {
            run(conn, "DELETE FROM temp.gone")?;
            run(conn, "DELETE FROM temp.gone_chat")?;
            for found in &plan.sessions {
                conn.prepare_cached("INSERT OR IGNORE INTO temp.gone VALUES (?1)")?
                    .execute([found.session.as_str()])?;
            }
            for chat in &plan.chats {
                conn.prepare_cached("INSERT OR IGNORE INTO temp.gone_chat VALUES (?1)")?.execute([chat])?;
            }
            let erasures = reader.erase_outside(plan, order)?;
            drop_derived(conn, plan, order.now)?; // it compares with what `blank` takes away
            blank(reader, plan)?;
            run(
                conn,
                "INSERT OR IGNORE INTO temp.gone
                 SELECT name FROM tl_snapshot WHERE session IN (SELECT id FROM temp.gone)",
            )?;
            delete_by_chat(reader, plan)?;
            delete_topics(conn, plan)?;
            unlink(reader, plan)?;
            for decision in DECISIONS {
                let (Fate::Goes(column) | Fate::GoesWith(column, _)) = decision.fate else { continue };
                // What a provider is to delete is a row of the same table, and stays until it has.
                let kept = if decision.table == "tl_retention" { " AND erases = 0" } else { "" };
                if column != "NULL" && conn.table_exists(None, decision.table)? {
                    let sql = format!(
                        "DELETE FROM {} WHERE {column} IN (SELECT id FROM temp.gone){kept}",
                        decision.table
                    );
                    run(conn, &sql)?;
                }
            }
            let sql = "UPDATE tl_seen SET session = ?1, seq = 0 WHERE session IN (SELECT id FROM temp.gone)";
            conn.execute(sql, [NOWHERE])?;
            run(conn, "DELETE FROM tl_unindexed WHERE id NOT IN (SELECT id FROM messages)")?;
            let mut counts: BTreeMap<&str, u64> = plan.counts.clone();
            counts.insert("provider_jobs", erasures);
            counts.extend(order.outside.iter().map(|(name, count)| (*name, *count)));
            let sql = "INSERT INTO tl_forgetting (at, kind, subject, state, counts, work) VALUES (?1, ?2, ?3, 0, ?4, ?5)";
            conn.execute(
                sql,
                params![
                    order.now.0,
                    plan.subject.kind().name(),
                    plan.subject.digest(),
                    json!(counts).to_string(),
                    order.work
                ],
            )?;
            Ok(conn.last_insert_rowid())
        })
    }

    /// What was to be done outside is done: of what it was about nothing stays.
    pub fn forgotten_outside(&mut self, number: i64) -> Result<(), StoreError> {
        let conn = &self.reader.conn;
        let done = conn.execute_batch("PRAGMA secure_delete = ON").map_err(StoreFault::from).and_then(|()| {
            let sql = "UPDATE tl_forgetting SET state = 1, work = NULL WHERE number = ?1 AND state = 0";
            transact(conn, |conn| Ok(conn.execute(sql, [number])?))
        });
        done.map(drop).while_doing("record that files are gone")
    }

    /// Rewrites the search index, `sessions.json`, the file and its log: what was deleted is in none of them.
    pub fn scrub(&mut self, now: Time) -> Result<(), StoreError> {
        self.rewrite(now).while_doing("rewrite the database without what was deleted")
    }

    fn rewrite(&mut self, now: Time) -> Result<(), StoreFault> {
        self.projection.dirty = true;
        self.project_now(now)?;
        let conn = &self.reader.conn;
        conn.flush_prepared_statement_cache();
        for index in self.reader.variants.indexes() {
            conn.execute(&format!("INSERT INTO {index}({index}) VALUES ('optimize')"), [])?;
        }
        conn.execute_batch("VACUUM")?;
        // A reader that holds an older state keeps the log, with what was deleted in it.
        let is_busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_busy { Err(StoreError::Busy.into()) } else { Ok(()) }
    }

    /// It is forgotten everywhere that this program reaches.
    pub fn forgotten(&mut self, number: i64, now: Time) -> Result<(), StoreError> {
        let sql = "UPDATE tl_forgetting SET state = 2, done = ?2 WHERE number = ?1";
        let done = transact(&self.reader.conn, |conn| Ok(conn.execute(sql, params![number, now.0])?));
        done.map(drop).while_doing("record that it is forgotten")
    }

    pub fn as_reader(&self) -> &StoreReader {
        &self.reader
    }
}

impl StoreReader {
    /// Jobs for memory providers: each is to delete what it has of a session, or of some turns of it.
    fn erase_outside(&self, plan: &ForgetPlan, order: &ForgetOrder<'_>) -> Result<u64, StoreFault> {
        let mut jobs: BTreeMap<(String, String), ProviderDeletion> = BTreeMap::new();
        for found in &plan.sessions {
            let id = found.session.as_str();
            for (provider, document, key) in self.kept_turns(id, None)? {
                let job =
                    jobs.entry((provider, id.to_owned())).or_insert_with(|| ProviderDeletion::of(document));
                job.turns.push(key);
            }
            if let Some(provider) = order.provider {
                let document = self.scope_of(&found.session, provider)?.document;
                let document = document.unwrap_or_else(|| id.to_owned());
                jobs.entry((provider.to_owned(), id.to_owned()))
                    .or_insert_with(|| ProviderDeletion::of(document));
            }
        }
        for ((provider, _), job) in &mut jobs {
            if !self.is_shared_document(provider, &job.document)? {
                job.turns.clear(); // all of it goes
            }
        }
        for shared in &plan.shared {
            let (Some(turn), session) = (shared.turn, &shared.session) else { continue };
            let mut kept = self.kept_turns(session, Some(turn))?;
            if let (true, Some(provider)) = (kept.is_empty(), order.provider) {
                // Of turns that were kept long ago no row is left; the provider knows them by the same key.
                kept.push((provider.to_owned(), session.clone(), turn_key(&self.conn, session, turn)?));
            }
            for (provider, document, key) in kept {
                let job =
                    jobs.entry((provider, session.clone())).or_insert_with(|| ProviderDeletion::of(document));
                if !job.turns.contains(&key) {
                    job.turns.push(key);
                }
            }
        }
        for ((provider, session), job) in &jobs {
            self.record_job(provider, session, job, order)?;
        }
        for shared in &plan.shared {
            let Some(turn) = shared.turn else { continue };
            let key = turn_key(&self.conn, &shared.session, turn)?;
            let sql = "DELETE FROM tl_retention WHERE key = ?1 AND erases = 0";
            self.conn.prepare_cached(sql)?.execute([key])?;
        }
        Ok(jobs.len() as u64)
    }

    /// Turns that a provider has or is to have, as provider, document and key.
    fn kept_turns(
        &self,
        session: &str,
        turn: Option<i64>,
    ) -> Result<Vec<(String, String, String)>, StoreFault> {
        let key = turn.map(|turn| turn_key(&self.conn, session, turn)).transpose()?;
        let sql = "SELECT provider, document, key FROM tl_retention
                   WHERE session = ?1 AND erases = 0 AND (?2 IS NULL OR key = ?2) ORDER BY number";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows =
            statement.query_map(params![session, key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether a conversation that stays lies in it, too.
    fn is_shared_document(&self, provider: &str, document: &str) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_document WHERE provider = ?1 AND name = ?2
                     AND subject NOT IN (SELECT key FROM temp.gone_chat)
                     AND subject NOT IN (SELECT 'session:' || id FROM temp.gone)
                   UNION ALL SELECT 1 FROM tl_retention WHERE provider = ?1 AND document = ?2 AND erases = 0
                     AND session NOT IN (SELECT id FROM temp.gone)";
        Ok(self.conn.prepare_cached(sql)?.exists([provider, document])?)
    }

    fn record_job(
        &self,
        provider: &str,
        session: &str,
        job: &ProviderDeletion,
        order: &ForgetOrder<'_>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT scope FROM tl_retention WHERE session = ?1 AND provider = ?2 AND erases = 0
                   ORDER BY number DESC LIMIT 1";
        let kept: Option<String> =
            self.conn.prepare_cached(sql)?.query_row([session, provider], |row| row.get(0)).optional()?;
        let mut scope = match kept.and_then(|kept| envelope::scope(&kept).ok()) {
            Some(scope) => scope,
            None => self.scope_of(&session_id(session)?, provider)?,
        };
        if scope.agent.is_empty() {
            scope.agent = order.agent.into();
        }
        // A provider finds it by ids; names and titles are not needed for that.
        (scope.title, scope.user_name, scope.place.name) = (None, None, None);
        let key = format!("{session}/erase/{provider}");
        self.conn.execute("DELETE FROM tl_retention WHERE key = ?1", [&key])?;
        let sql =
            "INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created,
                                             updated, scope, said, replied, erases)
                   VALUES (?1, ?2, ?3, ?4, 0, 0, 1, ?5, ?5, ?6, ?7, '', 1)";
        let (scope, turns) = (envelope::scope_text(&scope), envelope::texts_text(&job.turns));
        self.conn.execute(sql, params![key, provider, job.document, session, order.now.0, scope, turns])?;
        Ok(())
    }
}

/// What a provider is to delete of a session.
struct ProviderDeletion {
    document: String,
    /// Empty: everything.
    turns: Vec<String>,
}

impl ProviderDeletion {
    fn of(document: String) -> Self {
        Self { document, turns: Vec::new() }
    }
}

/// What goes by the name of a chat rather than by that of a session.
fn delete_by_chat(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    let mut statements = vec![
        "DELETE FROM tl_route WHERE chat IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_reset WHERE chat IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_event WHERE detail IN (SELECT key FROM temp.gone_chat)",
        "DELETE FROM tl_document WHERE subject IN (SELECT key FROM temp.gone_chat)
            OR subject IN (SELECT 'session:' || id FROM temp.gone)",
    ];
    if conn.table_exists(None, "gateway_routing")? {
        statements.push("DELETE FROM gateway_routing WHERE session_key IN (SELECT key FROM temp.gone_chat)");
    }
    if conn.table_exists(None, "async_delegations")? {
        statements.push(
            "DELETE FROM async_delegations WHERE origin_session IN (SELECT key FROM temp.gone_chat)
                OR origin_session IN (SELECT id FROM temp.gone)",
        );
    }
    for sql in statements {
        run(conn, sql)?;
    }
    let sql = "DELETE FROM tl_outbox WHERE json_extract(destination, '$.platform') = ?1
                 AND json_extract(destination, '$.chat') = ?2";
    for (platform, chat) in &plan.places {
        conn.execute(sql, [platform, chat])?;
    }
    Ok(())
}

/// Hermes' topics in private chats of Telegram.
fn delete_topics(conn: &Connection, plan: &ForgetPlan) -> Result<(), StoreFault> {
    for table in ["telegram_dm_topic_bindings", "telegram_dm_topic_mode"] {
        if !conn.table_exists(None, table)? {
            continue;
        }
        if let ForgetSubject::Person { platform, user } = &plan.subject
            && platform == "telegram"
        {
            conn.execute(&format!("DELETE FROM {table} WHERE user_id = ?1"), [user])?;
        }
        for (_, chat) in plan.places.iter().filter(|(platform, _)| platform == "telegram") {
            conn.execute(&format!("DELETE FROM {table} WHERE chat_id = ?1"), [chat])?;
        }
    }
    Ok(())
}

/// What stays no longer refers to what goes; and a shared conversation that the person began has no owner.
fn unlink(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    for sql in [
        // As Hermes does it: a session that came from it comes from nowhere now.
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id IN (SELECT id FROM temp.gone)",
        "UPDATE tl_session SET parent = NULL WHERE parent IN (SELECT id FROM temp.gone)",
        "UPDATE tl_session SET predecessor = NULL WHERE predecessor IN (SELECT id FROM temp.gone)",
        "UPDATE tl_finalisation SET successor = NULL WHERE successor IN (SELECT id FROM temp.gone)",
    ] {
        run(conn, sql)?;
    }
    let ForgetSubject::Person { platform, user } = &plan.subject else { return Ok(()) };
    let stays = "id NOT IN (SELECT id FROM temp.gone)";
    if reader.variants.can.has_origin_json {
        let sql = format!(
            "UPDATE sessions SET origin_json = json_set(origin_json, '$.user_id', NULL, '$.user_name', NULL)
             WHERE source = ?1 AND json_valid(origin_json) AND json_extract(origin_json, '$.user_id') = ?2 AND {stays}"
        );
        conn.execute(&sql, [platform, user])?;
    }
    conn.execute(
        &format!("UPDATE sessions SET user_id = NULL WHERE source = ?1 AND user_id = ?2 AND {stays}"),
        [platform, user],
    )?;
    let mut entries = vec![("tl_route", "entry")];
    if reader.variants.can.has_gateway_routing {
        entries.push(("gateway_routing", "entry_json"));
    }
    for (table, column) in entries {
        let sql = format!(
            "UPDATE {table} SET {column} = json_set({column}, '$.origin.user_id', NULL, '$.origin.user_name', NULL)
             WHERE json_valid({column}) AND json_extract({column}, '$.origin.user_id') = ?2
               AND json_extract({column}, '$.platform') = ?1"
        );
        conn.execute(&sql, [platform, user])?;
    }
    Ok(())
}

/// What was made of the person's words in conversations that go on, and can be made again from what is left:
///
/// - a summary that is ready, but not in place, is prepared again. One in preparation is begun anew at the next start
///   in any case, and reads the rows as they are then. So does a review that is due
/// - a topic of `/compress` and a title go if the person gave them. A title that no recorded `/title` gave is Hermes',
///   made of the first message: it goes if that was this person's
/// - what a review changed is told in no record any more, if the person had spoken before it
fn drop_derived(conn: &Connection, plan: &ForgetPlan, now: Time) -> Result<(), StoreFault> {
    let ForgetSubject::Person { platform, user } = &plan.subject else { return Ok(()) };
    let sessions: BTreeSet<&str> = plan.shared.iter().map(|shared| shared.session.as_str()).collect();
    let theirs = "i.session = ?1 AND json_extract(i.envelope, '$.sender[0]') = ?2";
    // A title is stored without the spaces around it.
    let gave_the_title = "json_extract(i.envelope, '$.command.errand') = 'title'
                          AND instr(json_extract(i.envelope, '$.command.text'), title) > 0";
    for session in sessions {
        let first = "SELECT min(message), min(turn) FROM tl_inbox i WHERE ";
        let (row, turn): (Option<i64>, Option<i64>) = conn
            .prepare_cached(&format!("{first}{theirs}"))?
            .query_row(params![session, user], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sql = "UPDATE tl_compression SET state = 0, attempts = 0, at = ?3, summary = NULL
                   WHERE session = ?1 AND state = 1 AND cut >= ?2";
        if conn.prepare_cached(sql)?.execute(params![session, row, now.0])? > 0 {
            conn.prepare_cached("UPDATE tl_session SET unfinished = 1 WHERE id = ?1")?.execute([session])?;
        }
        let sql = format!(
            "UPDATE tl_compression SET focus = NULL WHERE session = ?1 AND focus IN
                 (SELECT json_extract(i.envelope, '$.command.compress') FROM tl_inbox i WHERE {theirs})"
        );
        conn.prepare_cached(&sql)?.execute(params![session, user])?;
        let sql = "UPDATE tl_review SET outcome = NULL WHERE session = ?1 AND state = 1 AND turn >= ?2";
        conn.prepare_cached(sql)?.execute(params![session, turn])?;
        let sql = format!(
            "UPDATE sessions SET title = NULL WHERE id = ?1 AND title IS NOT NULL
               AND (EXISTS (SELECT 1 FROM tl_inbox i WHERE {theirs} AND {gave_the_title})
                    OR (source = ?3 AND user_id = ?2
                        AND NOT EXISTS (SELECT 1 FROM tl_inbox i WHERE i.session = ?1 AND {gave_the_title})))"
        );
        conn.prepare_cached(&sql)?.execute(params![session, user, platform])?;
    }
    Ok(())
}

/// What the person wrote in conversations that go on, and what followed from that alone.
fn blank(reader: &StoreReader, plan: &ForgetPlan) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    for shared in &plan.shared {
        let SharedMessage { session, seq, turn, is_alone } = shared;
        let sql = "SELECT message, envelope FROM tl_inbox WHERE session = ?1 AND seq = ?2";
        let (message, envelope): (Option<i64>, String) = conn
            .prepare_cached(sql)?
            .query_row(params![session, seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sql = "UPDATE tl_inbox SET envelope = ?3, implicit = NULL WHERE session = ?1 AND seq = ?2";
        conn.prepare_cached(sql)?.execute(params![session, seq, blank_envelope(&envelope)?])?;
        if let Some(message) = message {
            blank_rows(reader, session, message, message)?;
        }
        let Some(turn) = turn.filter(|_| *is_alone) else { continue };
        let sql =
            "SELECT message, calls FROM tl_step WHERE session = ?1 AND turn = ?2 AND message IS NOT NULL";
        let mut statement = conn.prepare_cached(sql)?;
        let steps = statement
            .query_map(params![session, turn], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for (first, calls) in steps.collect::<rusqlite::Result<Vec<_>>>()? {
            blank_rows(reader, session, first, first.saturating_add(calls.saturating_mul(2)))?;
        }
        let sql = "UPDATE tl_outbox SET text = ?3, error = NULL WHERE session = ?1
                     AND (key = ?1 || '/' || ?2 OR key GLOB ?1 || '/' || ?2 || '[/+]*')";
        conn.prepare_cached(sql)?.execute(params![session, turn, REMOVED])?;
    }
    Ok(())
}

/// The rows from `first` to `last`, wherever they are by now: a summary may have taken the place of one.
fn blank_rows(reader: &StoreReader, session: &str, first: i64, last: i64) -> Result<(), StoreFault> {
    let conn = &reader.conn;
    let sql = "SELECT m.id, m.content, m.tool_calls FROM messages m
               LEFT JOIN tl_place p ON p.id = m.id AND p.session = ?1
               WHERE COALESCE(p.place, m.id) BETWEEN ?2 AND ?3
                 AND (m.session_id = ?1 OR m.session_id IN (SELECT name FROM tl_snapshot WHERE session = ?1))
                 AND (p.id IS NOT NULL OR m.id NOT IN (SELECT place FROM tl_place WHERE session = ?1))";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![session, first, last], |row| {
        let has_content = row.get_ref(1)?.as_bytes_or_null()?.is_some_and(|content| !content.is_empty());
        Ok((row.get::<_, i64>(0)?, has_content, row.get::<_, Option<String>>(2)?))
    })?;
    for (row, has_content, calls) in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        let sent = if reader.variants.can.has_api_content { ", api_content = NULL" } else { "" };
        let sql = format!(
            "UPDATE messages SET content = CASE WHEN ?2 THEN ?3 ELSE content END, tool_calls = ?4, reasoning = NULL,
                    reasoning_content = NULL, reasoning_details = NULL, codex_reasoning_items = NULL,
                    codex_message_items = NULL{sent} WHERE id = ?1"
        );
        conn.prepare_cached(&sql)?.execute(params![
            row,
            has_content,
            REMOVED,
            calls.map(|calls| blank_calls(&calls))
        ])?;
    }
    Ok(())
}

/// The same calls, of nothing.
fn blank_calls(calls: &str) -> String {
    let Ok(Value::Array(mut calls)) = serde_json::from_str(calls) else { return "[]".to_owned() };
    for call in &mut calls {
        let id = call["id"].take();
        let name = call["function"]["name"].take();
        let kind = call["type"].take();
        *call = json!({"id": id, "type": kind, "function": {"name": name, "arguments": "{}"}});
    }
    Value::Array(calls).to_string()
}

/// The same message, without words and without its sender.
fn blank_envelope(envelope: &str) -> Result<String, StoreFault> {
    let unreadable = || StoreFault::Malformed("an input cannot be read".to_owned());
    let mut value: Value = serde_json::from_str(envelope).map_err(|_| unreadable())?;
    let object = value.as_object_mut().ok_or_else(unreadable)?;
    object.remove("sender");
    for (kind, blank) in
        [("chat", json!(REMOVED)), ("request", json!({"content": REMOVED})), ("command", json!("status"))]
    {
        if let Some(said) = object.get_mut(kind) {
            *said = blank;
        }
    }
    Ok(value.to_string())
}
