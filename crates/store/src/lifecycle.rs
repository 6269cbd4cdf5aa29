//! Of ends: what a session that ended by itself leaves behind, how far its hand-over is, who was told.
//!
//! - an expired session's chats lead nowhere until a person writes in them; which session they led to,
//!   and why it ended, is kept for the next one that begins there. Hermes' own column for a parent is
//!   never used for that: Hermes would follow it
//! - a record of a hand-over stays as long as its session does

use crate::commit::{StoreWriter, transact};
use crate::fault::{StoreFault, While};
use crate::read::{ACCIDENTAL_ENDS, StoreReader, session_id, stage_from, unsigned};
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{OptionalExtension, params};
use throughline_core::id::{ChatKey, Epoch, SessionId};
use throughline_core::lifecycle::{BACKLOG_AFTER, Reason};
use throughline_core::port::{Backlog, Parked, Reset, Resting, StoreError};
use throughline_core::session::lifecycle::{Handover, Run};
use throughline_core::session::{Finalisation, Phase};
use throughline_core::time::Time;
use throughline_hermes::entry::{entry_from_json, entry_json};

impl CommitWriter<'_> {
    /// The session has ended, and no other goes on in its place yet.
    pub(crate) fn expire(
        &mut self,
        change: &SessionChange<'_>,
        reason: Reason,
        end_reason: &'static str,
        had_activity: bool,
    ) -> Result<(), StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                   WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN (?4, ?5))";
        let at = change.at.as_seconds();
        self.conn.prepare_cached(sql)?.execute(params![change.id(), at, end_reason, one, other])?;
        for chat in self.chats_of(change.id())? {
            let sql = "INSERT OR REPLACE INTO tl_reset (chat, session, reason, at, had_activity)
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = params![chat, change.id(), reason.as_str(), change.at.0, had_activity];
            self.conn.prepare_cached(sql)?.execute(row)?;
            self.conn.prepare_cached("DELETE FROM tl_route WHERE chat = ?1")?.execute([&chat])?;
            self.effects.routes = true;
        }
        Ok(())
    }

    fn chats_of(&self, session: &str) -> Result<Vec<String>, StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT chat FROM tl_route WHERE session = ?1")?;
        let chats = statement.query_map([session], |row| row.get(0))?;
        Ok(chats.collect::<rusqlite::Result<_>>()?)
    }

    /// It goes on after it had ended.
    pub(crate) fn reopen(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let sql = "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1";
        self.conn.prepare_cached(sql)?.execute([change.id()])?;
        self.conn.prepare_cached("DELETE FROM tl_reset WHERE session = ?1")?.execute([change.id()])?;
        Ok(())
    }

    pub(crate) fn hook(
        &mut self,
        change: &SessionChange<'_>,
        hook: &str,
        run: &Run,
    ) -> Result<(), StoreFault> {
        let (state, attempt, detail) = match run {
            Run::Began { attempt } => (0, Some(*attempt), None),
            Run::Done => (1, None, None),
            Run::Failed { why } => (2, None, Some(why)),
        };
        let sql = "INSERT INTO tl_hook (session, epoch, hook, state, attempts, at, detail)
                   VALUES (?1, ?2, ?3, ?4, COALESCE(?5, 1), ?6, ?7)
                   ON CONFLICT(session, epoch, hook) DO UPDATE SET state = excluded.state,
                          attempts = COALESCE(?5, attempts), at = excluded.at, detail = excluded.detail";
        let epoch = change.state.epoch.0 as i64;
        let row = params![change.id(), epoch, hook, state, attempt, change.at.0, detail];
        self.conn.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    /// Keeps the record of a hand-over in step with the state, and tells Hermes when it is done.
    pub(crate) fn finalisation(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let before = change.prior.as_ref().map_or(1, |prior| prior.epoch);
        if before != change.state.epoch.0 as i64 {
            self.unfinalise(change)?; // a new life
        }
        let Phase::Closed(stage) = change.state.phase else { return Ok(()) };
        let Handover { reason, successor, attempts, not_before, parked, .. } = &change.state.handover;
        let sql =
            "INSERT INTO tl_finalisation (session, epoch, stage, attempts, reason, at, successor, not_before, parked)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                   ON CONFLICT(session, epoch) DO UPDATE SET stage = max(stage, excluded.stage),
                          attempts = excluded.attempts, at = excluded.at, not_before = excluded.not_before,
                          parked = excluded.parked";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.state.epoch.0 as i64,
            stage as i64,
            attempts,
            reason,
            change.at.0,
            successor.as_ref().map(SessionId::as_str),
            not_before.0,
            parked
        ])?;
        let was = change.prior.as_ref().and_then(|prior| prior.stage);
        if stage != Finalisation::Done || was == Some(stage as i64) {
            return Ok(());
        }
        if self.variants.can.has_expiry_finalized {
            let sql = "UPDATE sessions SET expiry_finalized = 1 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([change.id()])?;
        }
        self.finalise_routes(change.id(), change.at)?;
        self.finalise_copies(change)
    }

    /// What an expired session left in Hermes' table, where no other program has written since.
    fn finalise_copies(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        if !self.variants.can.has_gateway_routing {
            return Ok(());
        }
        let sql = "SELECT g.entry_json FROM tl_reset r JOIN gateway_routing g ON g.session_key = r.chat
                   WHERE r.session = ?1 AND g.scope = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let texts = statement.query_map([change.id(), &self.home.scope], |row| row.get::<_, String>(0))?;
        for text in texts.collect::<rusqlite::Result<Vec<_>>>()? {
            let Ok(mut entry) = entry_from_json(&text) else { continue };
            if entry.session_id.as_str() != change.id() {
                continue;
            }
            entry.expiry_finalized = true;
            let sql = "UPDATE gateway_routing SET entry_json = ?3, updated_at = ?4
                       WHERE scope = ?1 AND session_key = ?2";
            self.conn.prepare_cached(sql)?.execute(params![
                self.home.scope,
                entry.session_key.as_str(),
                entry_json(&entry),
                change.at.as_seconds()
            ])?;
        }
        Ok(())
    }

    fn unfinalise(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        if self.variants.can.has_expiry_finalized {
            let sql = "UPDATE sessions SET expiry_finalized = 0 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([change.id()])?;
        }
        self.unfinalise_routes(change.id(), change.at)
    }
}

impl StoreWriter {
    /// Records of sessions that are gone go with them.
    pub(crate) fn forget_handovers(&self) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let sql = "SELECT 1 FROM tl_finalisation WHERE session NOT IN (SELECT id FROM sessions)
                   UNION ALL SELECT 1 FROM tl_review WHERE session NOT IN (SELECT id FROM sessions) LIMIT 1";
        if !conn.prepare_cached(sql)?.exists([])? {
            return Ok(());
        }
        transact(conn, |conn| {
            for table in ["tl_finalisation", "tl_hook", "tl_reset", "tl_review"] {
                conn.execute(
                    &format!("DELETE FROM {table} WHERE session NOT IN (SELECT id FROM sessions)"),
                    [],
                )?;
            }
            Ok(())
        })
    }
}

impl StoreReader {
    pub(crate) fn handover(&self, id: &SessionId, epoch: Epoch) -> Result<Handover, StoreFault> {
        let sql = "SELECT reason, successor, attempts, not_before, parked FROM tl_finalisation
                   WHERE session = ?1 AND epoch = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![id.as_str(), epoch.0 as i64])?;
        let Some(row) = rows.next()? else { return Ok(Handover::default()) };
        let successor: Option<String> = row.get(1)?;
        let mut handover = Handover {
            reason: row.get(0)?,
            successor: successor.map(|id| session_id(&id)).transpose()?,
            attempts: unsigned(row, 2)? as u32,
            not_before: Time(row.get(3)?),
            parked: row.get(4)?,
            ..Handover::default()
        };
        let sql = "SELECT hook, state FROM tl_hook WHERE session = ?1 AND epoch = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![id.as_str(), epoch.0 as i64])?;
        while let Some(row) = rows.next()? {
            match row.get::<_, i64>(1)? {
                0 => handover.running = Some(row.get(0)?),
                1 => drop(handover.done.insert(row.get(0)?)),
                _ => {} // to be begun again
            }
        }
        Ok(handover)
    }

    /// Hermes has handed over a session that we never owned.
    pub(crate) fn is_finalised_by_hermes(&self, id: &SessionId) -> Result<bool, StoreFault> {
        let of_row = match self.variants.can.has_expiry_finalized {
            true => "EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND expiry_finalized = 1)",
            false => "FALSE",
        };
        let sql = format!(
            "SELECT {of_row} OR EXISTS (SELECT 1 FROM tl_route WHERE session = ?1
                                        AND json_extract(entry, '$.expiry_finalized') IS 1)"
        );
        Ok(self.conn.prepare_cached(&sql)?.query_row([id.as_str()], |row| row.get(0))?)
    }

    /// When the last of the rows above this one was said.
    pub(crate) fn said_above(&self, id: &SessionId, row: i64) -> Result<Time, StoreFault> {
        let sql = "SELECT COALESCE(max(timestamp), 0) FROM messages WHERE session_id = ?1 AND id > ?2";
        let seconds: f64 =
            self.conn.prepare_cached(sql)?.query_row(params![id.as_str(), row], |row| row.get(0))?;
        Ok(Time::from_seconds(seconds))
    }

    pub(crate) fn baseline_of_home(&self) -> Result<Time, StoreError> {
        let read = || -> Result<Time, StoreFault> {
            let sql = "SELECT CAST(value AS INTEGER) FROM tl_meta WHERE key = 'baseline'";
            let found = self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
            Ok(Time(found.unwrap_or(0)))
        };
        read().while_doing("read when the home was taken over")
    }

    pub(crate) fn resting_since(&self, since: Time) -> Result<Vec<Resting>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT t.id, COALESCE(json_extract(r.entry, '$.platform'), ''),
                    COALESCE(json_extract(r.entry, '$.chat_type'), 'dm'), t.active
             FROM tl_session t JOIN tl_route r ON r.session = t.id JOIN sessions s ON s.id = t.id
             WHERE t.phase = 0 AND t.unfinished = 0 AND t.halted = 0 AND t.active > 0 AND t.active < ?1
             ORDER BY t.active, t.id",
        )?;
        let mut rows = statement.query([since.0])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(Resting {
                session: session_id(&row.get::<_, String>(0)?)?,
                platform: row.get(1)?,
                chat_type: row.get(2)?,
                active: Time(row.get(3)?),
            });
        }
        Ok(found)
    }

    pub(crate) fn reset_of(&self, chat: &ChatKey) -> Result<Option<Reset>, StoreFault> {
        let sql = "SELECT session, reason, at, had_activity FROM tl_reset WHERE chat = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([chat.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let Some(reason) = Reason::named(&row.get::<_, String>(1)?) else { return Ok(None) };
        Ok(Some(Reset {
            session: session_id(&row.get::<_, String>(0)?)?,
            reason,
            at: Time(row.get(2)?),
            had_activity: row.get(3)?,
        }))
    }

    pub(crate) fn parked_handovers(&self) -> Result<Vec<Parked>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT f.session, f.epoch, f.stage, f.parked, f.attempts, f.at FROM tl_finalisation f
             JOIN tl_session t ON t.id = f.session AND t.epoch = f.epoch AND t.phase = 2
             JOIN sessions s ON s.id = f.session
             WHERE f.parked IS NOT NULL ORDER BY f.at, f.session",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(Parked {
                session: session_id(&row.get::<_, String>(0)?)?,
                epoch: Epoch(unsigned(row, 1)?),
                stage: stage_from(row.get(2)?),
                why: row.get(3)?,
                attempts: unsigned(row, 4)? as u32,
                at: Time(row.get(5)?),
            });
        }
        Ok(found)
    }

    pub(crate) fn held(&self) -> Result<Vec<Backlog>, StoreFault> {
        let baseline = self.baseline_of_home().unwrap_or_default();
        let mut statement = self.conn.prepare_cached(
            "SELECT t.id, count(*), min(i.at) FROM tl_session t
             JOIN tl_inbox i ON i.session = t.id AND i.seq > t.answered AND i.state = 0
             WHERE t.halted = 1 GROUP BY t.id ORDER BY min(i.at), t.id",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let oldest = Time(row.get(2)?);
            found.push(Backlog {
                session: session_id(&row.get::<_, String>(0)?)?,
                waiting: unsigned(row, 1)?,
                oldest,
                from_before: oldest.plus(BACKLOG_AFTER) < baseline,
            });
        }
        Ok(found)
    }
}
