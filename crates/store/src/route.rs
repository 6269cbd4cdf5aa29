//! Where chats lead. Ours is the truth; Hermes' table and file hold copies for Hermes.
//!
//! `tl_route` keeps each entry as it was last written where Hermes reads it. A copy that differs was
//! written by Hermes since, at the user's wish, and is taken over. A route to a session that has
//! ended is not followed, except through a compression of Hermes' to the session that goes on.

use crate::commit::{StoreWriter, transact};
use crate::fault::StoreFault;
use crate::read::{ACCIDENTAL_ENDS, StoreReader, session_id};
use crate::transcript::NextRow;
use crate::write::{CommitWriter, ForeignNews};
use rusqlite::{Connection, OptionalExtension, params};
use throughline_core::id::{ChatKey, SessionId};
use throughline_core::input::{Birth, Chat};
use throughline_core::message::JsonText;
use throughline_core::time::Time;
use throughline_hermes::entry::{SessionEntry, entry_from_json, entry_json};
use throughline_hermes::local::{LocalTime, system_zone};
use throughline_hermes::sessions_json::Index;
use throughline_hermes::source::Source;

/// Hermes' chains of compressed sessions are followed this far, as Hermes does.
const COMPRESSIONS_MAX: usize = 100;

impl StoreReader {
    pub(crate) fn route_of(&self, chat: &str) -> Result<Option<SessionId>, StoreFault> {
        let sql = "SELECT session FROM tl_route WHERE chat = ?1";
        let found: Option<String> =
            self.conn.prepare_cached(sql)?.query_row([chat], |row| row.get(0)).optional()?;
        match found {
            Some(session) if !has_ended(&self.conn, &session)? => Ok(Some(session_id(&session)?)),
            _ => Ok(None),
        }
    }
}

impl CommitWriter<'_> {
    /// A chat leads to the session that begins in it.
    pub(crate) fn bind_route(
        &mut self,
        chat: &Chat,
        session: &SessionId,
        birth: &Birth,
        at: Time,
    ) -> Result<(), StoreFault> {
        let mut entry = SessionEntry::new(chat.key.clone(), session.clone(), local(at));
        entry.platform = Some(chat.platform.clone());
        entry.chat_type.clone_from(&chat.chat_type);
        entry.display_name.clone_from(&chat.display_name);
        entry.origin = chat.origin.as_ref().and_then(source_of);
        entry.is_fresh_reset = birth.predecessor.is_some();
        if birth.predecessor.is_some() {
            self.forget_reset(chat.key.as_str())?;
        }
        self.put_route(&entry, at)?;
        self.note(Some(session.as_str()), "route_bound", chat.key.as_str(), at)
    }

    /// The chats of an ended session lead to the one after it, as if Hermes had reset them.
    pub(crate) fn rebind_routes(&mut self, from: &str, to: &SessionId, at: Time) -> Result<(), StoreFault> {
        for old in self.entries_of(from)? {
            let mut entry = SessionEntry::new(old.session_key, to.clone(), local(at));
            entry.platform = old.platform;
            entry.chat_type = old.chat_type;
            entry.display_name = old.display_name;
            entry.origin = old.origin;
            entry.is_fresh_reset = true;
            self.forget_reset(entry.session_key.as_str())?;
            self.put_route(&entry, at)?;
            self.note(Some(to.as_str()), "route_bound", entry.session_key.as_str(), at)?;
        }
        Ok(())
    }

    /// The chats of a session lead to another one that was there before, or a copy of it.
    pub(crate) fn switch_routes(&mut self, from: &str, to: &SessionId, at: Time) -> Result<(), StoreFault> {
        for old in self.entries_of(from)? {
            let mut entry = SessionEntry::new(old.session_key, to.clone(), local(at));
            entry.platform = old.platform;
            entry.chat_type = old.chat_type;
            entry.display_name = old.display_name;
            entry.origin = old.origin;
            self.put_route(&entry, at)?;
            self.note(Some(to.as_str()), "route_bound", entry.session_key.as_str(), at)?;
        }
        Ok(())
    }

    /// What Hermes writes after a turn that ended well.
    pub(crate) fn refresh_routes(&mut self, session: &str, prompt: u64, at: Time) -> Result<(), StoreFault> {
        for mut entry in self.entries_of(session)? {
            entry.updated_at = local(at);
            entry.last_prompt_tokens = i64::try_from(prompt).unwrap_or(i64::MAX);
            entry.resume_pending = false;
            entry.resume_reason = None;
            entry.last_resume_marked_at = None;
            self.put_route(&entry, at)?;
        }
        Ok(())
    }

    /// What Hermes had handed over goes on.
    pub(crate) fn unfinalise_routes(&mut self, session: &str, at: Time) -> Result<(), StoreFault> {
        for mut entry in self.entries_of(session)?.into_iter().filter(|entry| entry.expiry_finalized) {
            entry.expiry_finalized = false;
            self.put_route(&entry, at)?;
        }
        Ok(())
    }

    pub(crate) fn finalise_routes(&mut self, session: &str, at: Time) -> Result<(), StoreFault> {
        for mut entry in self.entries_of(session)? {
            entry.expiry_finalized = true;
            self.put_route(&entry, at)?;
        }
        Ok(())
    }

    /// The user's newer truth, unless it leads nowhere. True: it leads elsewhere than before.
    fn take_route(&mut self, entry: &SessionEntry, now: Time) -> Result<bool, StoreFault> {
        let Some(tip) = live_tip(self.conn, entry.session_id.as_str())? else { return Ok(false) };
        if is_helper(self.conn, &tip)? {
            return Ok(false);
        }
        // Nothing was said in what it was left for: it goes on.
        let sql = "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1 AND end_reason = 'compression'";
        self.conn.prepare_cached(sql)?.execute([&tip])?;
        let entry = SessionEntry { session_id: session_id(&tip)?, ..entry.clone() };
        let chat = entry.session_key.as_str();
        let sql = "SELECT session FROM tl_route WHERE chat = ?1";
        let known: Option<String> =
            self.conn.prepare_cached(sql)?.query_row([chat], |row| row.get(0)).optional()?;
        self.forget_reset(chat)?;
        self.put_route(&entry, now)?;
        if known == Some(tip.clone()) {
            return Ok(false);
        }
        reopen(self.conn, &tip, now)?;
        self.note(Some(&tip), "route_bound", chat, now)?;
        Ok(true)
    }

    /// Hermes' own copy stays where it is: it is a trace of what happened.
    fn drop_route(&mut self, chat: &str, now: Time) -> Result<(), StoreFault> {
        self.effects.routes = true;
        self.conn.execute("DELETE FROM tl_route WHERE chat = ?1", [chat])?;
        self.note(None, "route_dropped", chat, now)
    }

    /// A conversation has begun there again.
    fn forget_reset(&self, chat: &str) -> Result<(), StoreFault> {
        self.conn.prepare_cached("DELETE FROM tl_reset WHERE chat = ?1")?.execute([chat])?;
        Ok(())
    }

    fn entries_of(&self, session: &str) -> Result<Vec<SessionEntry>, StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT entry FROM tl_route WHERE session = ?1")?;
        let texts = statement.query_map([session], |row| row.get::<_, String>(0))?;
        texts.map(|text| stored_entry(&text?)).collect()
    }

    fn put_route(&mut self, entry: &SessionEntry, at: Time) -> Result<(), StoreFault> {
        self.effects.routes = true;
        let text = entry_json(entry);
        let sql = "INSERT INTO tl_route (chat, session, entry) VALUES (?1, ?2, ?3)
                   ON CONFLICT(chat) DO UPDATE SET session = excluded.session, entry = excluded.entry";
        self.conn.prepare_cached(sql)?.execute([
            entry.session_key.as_str(),
            entry.session_id.as_str(),
            &text,
        ])?;
        if !self.variants.can.has_gateway_routing {
            return Ok(());
        }
        let sql =
            "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT(scope, session_key) DO UPDATE SET entry_json = excluded.entry_json,
                          updated_at = excluded.updated_at";
        self.conn.prepare_cached(sql)?.execute(params![
            self.home.scope,
            entry.session_key.as_str(),
            text,
            at.as_seconds()
        ])?;
        Ok(())
    }
}

impl StoreWriter {
    /// Takes over routes that Hermes has changed. True: a chat leads elsewhere now.
    pub(crate) fn adopt_routes(&mut self, now: Time) -> Result<bool, StoreFault> {
        let mut changed = self.changed_in_table()?;
        let mut unusable = Vec::new();
        if let Some((index, hash)) = self.foreign_index()? {
            unusable.clone_from(&index.warnings);
            changed.extend(self.changed_in_file(index)?);
            self.projection.seen = Some(hash);
        }
        let dead = self.dead_routes()?;
        if changed.is_empty() && dead.is_empty() && unusable.is_empty() {
            return Ok(false);
        }
        let mut rows = NextRow::default();
        let (elsewhere, effects) = transact(&self.reader.conn, |conn| {
            let mut scribe =
                CommitWriter::new(conn, &self.reader.variants, &self.home, &mut rows, ForeignNews::None);
            let mut elsewhere = !dead.is_empty();
            for chat in &dead {
                scribe.drop_route(chat, now)?;
            }
            for entry in &changed {
                elsewhere |= scribe.take_route(entry, now)?;
            }
            for warning in &unusable {
                scribe.note(None, "route_unusable", warning, now)?;
            }
            Ok((elsewhere, scribe.effects))
        })?;
        self.projection.dirty |= effects.routes;
        Ok(elsewhere)
    }

    /// Rows of Hermes' table that are not as we wrote them.
    fn changed_in_table(&self) -> Result<Vec<SessionEntry>, StoreFault> {
        if !self.reader.variants.can.has_gateway_routing {
            return Ok(Vec::new());
        }
        let mut statement = self.reader.conn.prepare_cached(
            "SELECT g.entry_json FROM gateway_routing g LEFT JOIN tl_route r ON r.chat = g.session_key
             WHERE g.scope = ?1 AND g.entry_json IS NOT r.entry",
        )?;
        let texts = statement.query_map([&self.home.scope], |row| row.get::<_, String>(0))?;
        let texts = texts.collect::<rusqlite::Result<Vec<_>>>()?;
        // What Hermes itself would skip is skipped here, too: it stays in the table as it is.
        Ok(texts.iter().filter_map(|text| entry_from_json(text).ok()).collect())
    }

    /// Entries of a `sessions.json` that Hermes wrote: all that are new where it is the only copy,
    /// else those that the table lacks.
    fn changed_in_file(&self, index: Index) -> Result<Vec<SessionEntry>, StoreFault> {
        let mut changed = Vec::new();
        for (chat, entry) in index.entries {
            let sql = "SELECT entry FROM tl_route WHERE chat = ?1";
            let mut statement = self.reader.conn.prepare_cached(sql)?;
            let known: Option<String> = statement.query_row([chat.as_str()], |row| row.get(0)).optional()?;
            if known != Some(entry_json(&entry)) && !self.is_in_table(&chat)? {
                changed.push(entry);
            }
        }
        Ok(changed)
    }

    fn is_in_table(&self, chat: &ChatKey) -> Result<bool, StoreFault> {
        if !self.reader.variants.can.has_gateway_routing {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM gateway_routing WHERE scope = ?1 AND session_key = ?2";
        Ok(self.reader.conn.prepare_cached(sql)?.exists([self.home.scope.as_str(), chat.as_str()])?)
    }

    /// Chats whose session Hermes has ended since.
    fn dead_routes(&self) -> Result<Vec<String>, StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let mut statement = self.reader.conn.prepare_cached(
            "SELECT r.chat FROM tl_route r JOIN sessions s ON s.id = r.session
             WHERE s.ended_at IS NOT NULL AND COALESCE(s.end_reason, '') NOT IN (?1, ?2)",
        )?;
        let chats = statement.query_map([one, other], |row| row.get(0))?;
        Ok(chats.collect::<rusqlite::Result<_>>()?)
    }
}

/// Hermes has opened a session again that was closed in our books: a new life of the same id.
fn reopen(conn: &Connection, session: &str, now: Time) -> Result<(), StoreFault> {
    let sql = "UPDATE tl_session SET phase = 0, stage = NULL, epoch = epoch + 1, generation = generation + 1,
                      unfinished = 0, active = ?2 WHERE id = ?1 AND phase = 2";
    conn.prepare_cached(sql)?.execute(params![session, now.0])?;
    conn.prepare_cached("DELETE FROM tl_reset WHERE session = ?1")?.execute([session])?;
    Ok(())
}

/// The session itself if it lives, or the one that Hermes' compressions made of it. Where they broke off before anything
/// was written to the next one, the last with any words is what goes on.
fn live_tip(conn: &Connection, session: &str) -> Result<Option<String>, StoreFault> {
    if !has_ended(conn, session)? {
        return Ok(Some(session.to_owned()));
    }
    let tip = tip_of(conn, session)?;
    let goes_on = !has_ended(conn, &tip)? || has_children(conn, &tip)?;
    Ok(goes_on.then_some(tip))
}

/// The session that goes on where Hermes' compressions left this one: never one in which nothing was said.
pub(crate) fn tip_of(conn: &Connection, session: &str) -> Result<String, StoreFault> {
    let mut current = session.to_owned();
    for _ in 0..COMPRESSIONS_MAX {
        let sql = format!(
            "SELECT child.id {CHILDREN} AND EXISTS
                 (SELECT 1 FROM messages WHERE session_id = child.id
                  UNION ALL SELECT 1 FROM sessions WHERE parent_session_id = child.id)
             ORDER BY child.ended_at IS NOT NULL, child.started_at DESC LIMIT 1"
        );
        let child = conn.prepare_cached(&sql)?.query_row([&current], |row| row.get(0)).optional()?;
        match child {
            Some(child) => current = child,
            None => break,
        }
    }
    Ok(current)
}

/// Whether a compression of Hermes left it for another one, even if that stayed empty.
fn has_children(conn: &Connection, session: &str) -> Result<bool, StoreFault> {
    Ok(conn.prepare_cached(&format!("SELECT 1 {CHILDREN}"))?.exists([session])?)
}

/// What Hermes' compressions made of a session.
const CHILDREN: &str = "FROM sessions child JOIN sessions parent ON parent.id = child.parent_session_id
     WHERE parent.id = ?1 AND parent.end_reason = 'compression' AND child.source <> 'tool'
       AND COALESCE(child.model_config, '') NOT LIKE '%\"_branched_from\"%'
       AND COALESCE(child.model_config, '') NOT LIKE '%\"_delegate_from\"%'";

/// A session without a row has yet to begin, unless it was ours: then Hermes has deleted it.
pub(crate) fn has_ended(conn: &Connection, session: &str) -> Result<bool, StoreFault> {
    let [one, other] = ACCIDENTAL_ENDS;
    let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NOT NULL
               AND COALESCE(end_reason, '') NOT IN (?2, ?3)
               UNION ALL
               SELECT 1 FROM tl_session WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)";
    Ok(conn.prepare_cached(sql)?.exists([session, one, other])?)
}

/// Whether it works for another session: people do not write to those.
fn is_helper(conn: &Connection, session: &str) -> Result<bool, StoreFault> {
    let sql = "SELECT 1 FROM tl_session WHERE id = ?1 AND parent IS NOT NULL";
    Ok(conn.prepare_cached(sql)?.exists([session])?)
}

pub(crate) fn stored_entry(text: &str) -> Result<SessionEntry, StoreFault> {
    entry_from_json(text)
        .map_err(|error| StoreFault::Malformed(format!("a route is not as it was written: {error}")))
}

fn source_of(origin: &JsonText) -> Option<Source> {
    Source::from_json(&serde_json::from_str(origin.as_str()).ok()?)
}

fn local(at: Time) -> LocalTime {
    LocalTime::of(at, &system_zone())
}
