//! What would go with a subject. Nothing is changed here.

use super::subject::{ForgetSubject, SubjectKind};
use crate::fault::{StoreFault, While};
use crate::prune::CONTINUED;
use crate::read::{StoreReader, session_id, text};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::id::SessionId;
use throughline_core::port::StoreError;

/// Chats in which one person talks to the agent.
const PRIVATE: [&str; 5] = ["", "dm", "private", "im", "direct"];

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
    pub(super) shared: Vec<SharedMessage>,
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
pub(super) struct SharedMessage {
    pub(super) session: String,
    pub(super) seq: i64,
    pub(super) turn: Option<i64>,
    /// No other person's message began that turn.
    pub(super) is_alone: bool,
}

impl StoreReader {
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
