//! What people do to the past of a conversation: take back its end, name it, go on in a copy or in an
//! earlier one.
//!
//! Where Hermes can mark a row as taken back it gets that mark and stays where it is; elsewhere it moves to a
//! row of `sessions` that has a snapshot's name. Either way the view as it was is a snapshot, so that nothing
//! is gone, and a restore brings it back. A switch ends one session and opens the other in the same commit as
//! it leads the chats there; the other's owner is fenced.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{ACCIDENTAL_ENDS, StoreReader, malformed, session_id, stored_message};
use crate::route::tip_of;
use crate::snapshot::{KeptView, Moves, changed_meanwhile, end_of, weigh};
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;
use throughline_core::compression::{Kind, Promoted, Upkeep};
use throughline_core::id::{RowId, Seq, SessionId, TurnId, View};
use throughline_core::input::Input;
use throughline_core::port::{Resumable, Spoken, Titling};
use throughline_core::session::{Preferences, Session, Switch};
use throughline_hermes::title;

/// Why Hermes says a session ended whose chat leads elsewhere.
const SWITCHED: &str = "session_switch";

impl CommitWriter<'_> {
    /// So many rows, to the end of the view, leave it.
    pub(crate) fn rewind(
        &mut self,
        change: &mut SessionChange<'_>,
        from: RowId,
        rows: usize,
        kept_as: &str,
    ) -> Result<(), StoreFault> {
        let session = change.id();
        let before = self.live(session)?;
        let (kept, taken) = before.split_at(before.partition_point(|row| *row < from.0 as i64));
        if taken.len() != rows || taken.first() != Some(&(from.0 as i64)) {
            return Err(changed_meanwhile(change)); // another program was quicker
        }
        let tokens_before = weigh(self.conn, &self.variants.weight, session)?;
        match self.variants.can.has_active {
            true => {
                let mut statement =
                    self.conn.prepare_cached("UPDATE messages SET active = 0 WHERE id = ?1")?;
                taken.iter().try_for_each(|row| statement.execute([row]).map(drop))?;
            }
            false => self.archive(change, taken, kept_as)?,
        }
        if self.variants.can.has_rewind_count {
            let sql = "UPDATE sessions SET rewind_count = COALESCE(rewind_count, 0) + 1 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([session])?;
        }
        // No client's own history leads here any more: it may show what was taken back.
        self.conn.prepare_cached("DELETE FROM tl_thread WHERE session = ?1")?.execute([session])?;
        let promoted = Promoted {
            snapshot: kept_as.to_owned(),
            messages_before: before.len(),
            messages_after: kept.len(),
            tokens_before,
            tokens_after: weigh(self.conn, &self.variants.weight, session)?,
            kind: Kind::Undone,
            remark: None,
        };
        // What is asked again at once may be asked with a summary that was ready: the same commit opens another view,
        // and what was taken back was of this one.
        let view = change.prior.as_ref().map_or(change.state.view, |prior| View(prior.view as u64));
        let kept = KeptView {
            view,
            operation: None,
            after: kept.last().copied().unwrap_or(0),
            cut: before.last().copied().unwrap_or(0),
            rows: &before,
            upto: end_of(change, &before),
            summary: &[],
        };
        self.record(change, &promoted, &kept, &Moves::default())?;
        self.recount(change)?;
        self.note(Some(session), "undone", &format!("{rows} rows, kept as {kept_as}"), change.at)
    }

    /// A title has one holder. One that a compression of Hermes' left behind is handed on.
    pub(crate) fn entitle(
        &mut self,
        change: &SessionChange<'_>,
        session: &SessionId,
        title: &str,
    ) -> Result<(), StoreFault> {
        match holder(self.conn, title)? {
            Some(held) if held == session.as_str() => return Ok(()),
            Some(held) if tip_of(self.conn, &held)? == session.as_str() => {
                self.conn
                    .prepare_cached("UPDATE sessions SET title = NULL WHERE id = ?1")?
                    .execute([held])?;
            }
            Some(_) => return Err(changed_meanwhile(change)),
            None => {}
        }
        let sql = "UPDATE sessions SET title = ?2 WHERE id = ?1";
        self.conn.prepare_cached(sql)?.execute([session.as_str(), title])?;
        self.note(Some(session.as_str()), "titled", title, change.at)
    }

    pub(crate) fn switch(
        &mut self,
        change: &mut SessionChange<'_>,
        to: &SessionId,
        how: &Switch,
        moved: &[Arc<Input>],
    ) -> Result<(), StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                   WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN (?4, ?5))";
        let values = params![change.id(), change.at.as_seconds(), SWITCHED, one, other];
        self.conn.prepare_cached(sql)?.execute(values)?;
        let first = match how {
            Switch::Branch { title, rows, preferences } => {
                self.branch(change, to, title, *rows, preferences, moved.len())?;
                1
            }
            Switch::Resume { received } => {
                self.go_on(change, to, *received, moved.len())?;
                received.0 as i64 + 1
            }
        };
        for (input, seq) in moved.iter().zip(first..) {
            self.move_input(change, input, to, seq)?;
        }
        self.switch_routes(change.id(), to, change.at)
    }

    /// A copy of what is live, with a link to where it came from, as Hermes makes it.
    fn branch(
        &mut self,
        change: &mut SessionChange<'_>,
        to: &SessionId,
        title: &str,
        rows: usize,
        preferences: &Preferences,
        moved: usize,
    ) -> Result<(), StoreFault> {
        let live = self.live(change.id())?;
        if live.len() != rows {
            return Err(changed_meanwhile(change));
        }
        let made = self.conn.prepare_cached(&self.variants.succeed)?.execute(params![
            to.as_str(),
            change.at.as_seconds(),
            change.id()
        ])?;
        if made == 0 {
            return Err(StoreFault::Malformed(format!("session {to} is there already")));
        }
        let sql = "UPDATE sessions SET parent_session_id = ?2, model_config = ?3,
                          model = (SELECT p.model FROM sessions p WHERE p.id = ?2),
                          system_prompt = (SELECT p.system_prompt FROM sessions p WHERE p.id = ?2)
                   WHERE id = ?1";
        let marker = format!("{{\"_branched_from\": {}}}", serde_json::Value::from(change.id()));
        self.conn.prepare_cached(sql)?.execute([to.as_str(), change.id(), &marker])?;
        let mut last = 0;
        for row in live {
            let message =
                self.conn.prepare_cached(&self.variants.message)?.query_row([row], stored_message)?;
            last = self.rows.take(self.conn)?;
            self.insert_row(last, to.as_str(), &message)?;
            self.effects.rows.push(last);
        }
        self.conn.prepare_cached(&self.variants.recount)?.execute(params![to.as_str(), 0, 0])?;
        let copy = Session::copy_with(to.clone(), preferences.clone());
        let upkeep = Upkeep { context: change.state.upkeep.context, ..Upkeep::default() };
        let sql = "INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps,
                          last_row, adopted, touched, active, principal, predecessor, layer, rest, upkeep)
                   VALUES (?1, 0, 1, 1, ?2, 0, 0, ?3, 0, ?4, 0, ?5, ?5,
                           COALESCE(?6, (SELECT principal FROM tl_session WHERE id = ?7)), ?7,
                           (SELECT layer FROM tl_session WHERE id = ?7), ?8, ?9)";
        self.conn.prepare_cached(sql)?.execute(params![
            to.as_str(),
            moved as i64,
            moved > 0,
            last,
            change.at.0,
            change.principal,
            change.id(),
            envelope::rest_text(&copy),
            envelope::upkeep_text(&upkeep),
        ])?;
        self.entitle(change, to, title)?;
        self.note(Some(to.as_str()), "branched", change.id(), change.at)
    }

    /// Another life of a session that was there: its owner is fenced.
    fn go_on(
        &mut self,
        change: &SessionChange<'_>,
        to: &SessionId,
        received: Seq,
        moved: usize,
    ) -> Result<(), StoreFault> {
        let now = resumable(self.conn, to)?;
        let as_it_was = |now: &Resumable| {
            now.session == *to && now.received == received && !now.busy && now.chat.is_none()
        };
        if !now.as_ref().is_some_and(as_it_was) {
            return Err(changed_meanwhile(change));
        }
        let finalized = match self.variants.can.has_expiry_finalized {
            true => ", expiry_finalized = 0",
            false => "",
        };
        let chat: String = self
            .variants
            .chat_columns()
            .map(|column| format!(", {column} = COALESCE(h.{column}, s.{column})"))
            .collect();
        let sql = format!(
            "UPDATE sessions AS s SET ended_at = NULL, end_reason = NULL{finalized}{chat}
             FROM sessions h WHERE s.id = ?1 AND h.id = ?2"
        );
        self.conn.prepare_cached(&sql)?.execute([to.as_str(), change.id()])?;
        let sql = "INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps,
                          last_row, adopted, touched, active, predecessor)
                   VALUES (?1, 0, 1, 1, ?2, 0, 0, ?2 > 0, 0, 0, 0, ?3, ?3, NULL)
                   ON CONFLICT(id) DO UPDATE SET epoch = epoch + (phase = 2), phase = 0, stage = NULL,
                          generation = generation + 1, received = received + ?2, halted = 0, touched = ?3, active = ?3,
                          rest = CASE WHEN rest LIKE '%finalised%' THEN json_remove(rest, '$.finalised') ELSE rest END,
                          unfinished = (?2 > 0 OR COALESCE(json_extract(upkeep, '$.wanted'), 0))";
        self.conn.prepare_cached(sql)?.execute(params![to.as_str(), moved as i64, change.at.0])?;
        self.conn.prepare_cached("DELETE FROM tl_reset WHERE session = ?1")?.execute([to.as_str()])?;
        self.note(Some(to.as_str()), "resumed", change.id(), change.at)
    }
}

fn holder(conn: &Connection, title: &str) -> Result<Option<String>, StoreFault> {
    let sql = "SELECT id FROM sessions WHERE title = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([title], |row| row.get(0)).optional()?)
}

fn resumable(conn: &Connection, id: &SessionId) -> Result<Option<Resumable>, StoreFault> {
    let tip = tip_of(conn, id.as_str())?;
    let sql = "SELECT s.title, s.message_count, COALESCE(t.received, 0),
                      COALESCE(t.phase = 1 OR t.compression IS NOT NULL
                               OR (t.phase = 0 AND t.answered < t.received), 0),
                      (SELECT r.chat FROM tl_route r WHERE r.session = s.id ORDER BY r.chat LIMIT 1),
                      t.parent IS NOT NULL OR s.source IN ('tool', 'subagent')
                      OR COALESCE(s.model_config, '') LIKE '%\"_delegate_from\"%'
               FROM sessions s LEFT JOIN tl_session t ON t.id = s.id WHERE s.id = ?1";
    let found = conn.prepare_cached(sql)?.query_row([&tip], |row| {
        Ok((
            row.get::<_, Option<String>>(0)?,
            row.get::<_, Option<i64>>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, bool>(3)?,
            row.get::<_, Option<String>>(4)?,
            row.get::<_, bool>(5)?,
        ))
    });
    let Some((title, messages, received, busy, chat, helper)) = found.optional()? else { return Ok(None) };
    let messages = u64::try_from(messages.unwrap_or(0)).unwrap_or(0);
    let session = session_id(&tip)?;
    Ok(Some(Resumable { session, title, messages, received: Seq(received as u64), busy, chat, helper }))
}

impl StoreReader {
    pub(crate) fn spoken_in(&self, id: &SessionId) -> Result<Spoken, StoreFault> {
        let sql = "SELECT message, turn FROM tl_inbox
                   WHERE session = ?1 AND message IS NOT NULL AND turn IS NOT NULL ORDER BY message";
        let mut statement = self.conn.prepare_cached(sql)?;
        let turns = statement.query_map([id.as_str()], |row| {
            Ok((RowId(row.get::<_, i64>(0)? as u64), TurnId(Seq(row.get::<_, i64>(1)? as u64))))
        })?;
        let turns = turns.collect::<rusqlite::Result<_>>()?;
        let mut statement = self.conn.prepare_cached("SELECT summary FROM tl_snapshot WHERE session = ?1")?;
        let mut rows = statement.query([id.as_str()])?;
        let mut summaries = Vec::new();
        while let Some(row) = rows.next()? {
            let list = envelope::numbers(&row.get::<_, String>(0)?).map_err(malformed("a snapshot"))?;
            summaries.extend(list.into_iter().map(|row| RowId(row as u64)));
        }
        Ok(Spoken { turns, summaries })
    }

    pub(crate) fn titling_of(&self, id: &SessionId, wanted: &str) -> Result<Titling, StoreFault> {
        let cleaned = match title::clean(wanted) {
            Ok(Some(cleaned)) => cleaned,
            Ok(None) => return Ok(Titling::Empty),
            Err(error) => {
                return Ok(Titling::TooLong { characters: error.length, most: title::LENGTH_MAX });
            }
        };
        Ok(match holder(&self.conn, &cleaned)? {
            Some(held) if held != id.as_str() && tip_of(&self.conn, &held)? != id.as_str() => {
                Titling::Held { title: cleaned, by: session_id(&held)? }
            }
            _ => Titling::Free(cleaned),
        })
    }

    pub(crate) fn title_after(&self, wanted: &str) -> Result<String, StoreFault> {
        let base = title::base(wanted);
        let sql = "SELECT title FROM sessions WHERE title = ?1 OR title LIKE ?2 ESCAPE '\\'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let held =
            statement.query_map([base, &title::numbered_pattern(base)], |row| row.get::<_, String>(0))?;
        let held = held.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(title::next(wanted, held.iter().map(String::as_str)))
    }

    pub(crate) fn resumable_after(&self, id: &SessionId) -> Result<Option<Resumable>, StoreFault> {
        resumable(&self.conn, id)
    }
}
