//! What may go: conversations that are over, and notes about the past.
//!
//! - a session goes only if it ended long enough ago and nothing of it is waited for: no chat leads to it, nothing
//!   in it waits or runs, its hand-over is done, no reply, no memory and no review of it is owed, and no session that
//!   works for it stays, and none that a compression made of it: those are one conversation
//! - one session is one transaction, in which all of that is asked again: a crash leaves whole sessions
//! - what goes is gone as when Hermes deletes a session: the keys of its messages stay, so that none is answered twice,
//!   and the record of its hand-over goes with it
//!
//! Deliberately absent: snapshots of a session that stays. They are the words themselves, and P11 keeps them.

use crate::commit::{Effects, StoreWriter, transact};
use crate::fault::{StoreFault, While};
use crate::read::{ACCIDENTAL_ENDS, StoreReader, session_id, unsigned};
use crate::transcript::NextRow;
use crate::write::{CommitWriter, ForeignNews};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;
use throughline_core::id::SessionId;
use throughline_core::port::StoreError;
use throughline_core::time::Time;

/// How many events go in one transaction.
const EVENTS_AT_ONCE: i64 = 5_000;

/// A session that may go.
#[derive(Clone, Debug, PartialEq)]
pub struct Prunable {
    pub session: SessionId,
    pub title: Option<String>,
    pub ended: Time,
    /// Of its transcript and of its snapshots.
    pub rows: u64,
    pub bytes: u64,
}

/// A session that is old enough, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    pub session: SessionId,
    pub why: &'static str,
}

/// Why a session stays, each with a condition on `s.id`. The first that holds is told.
const REASONS: &[(&str, &str)] = &[
    ("a chat leads to it", "EXISTS (SELECT 1 FROM tl_route r WHERE r.session = s.id)"),
    ("messages in it wait", "EXISTS (SELECT 1 FROM tl_inbox i WHERE i.session = s.id AND i.state < 2)"),
    (
        "it is not over",
        "EXISTS (SELECT 1 FROM tl_session t WHERE t.id = s.id AND (t.unfinished = 1 OR t.phase <> 2))",
    ),
    (
        "its hand-over is not done",
        "EXISTS (SELECT 1 FROM tl_finalisation f WHERE f.session = s.id AND f.stage < 4)",
    ),
    ("a reply is owed", "EXISTS (SELECT 1 FROM tl_outbox o WHERE o.session = s.id AND o.state < 2)"),
    (
        "its memory provider has not taken everything",
        "EXISTS (SELECT 1 FROM tl_retention k WHERE k.session = s.id AND k.state <> 2)",
    ),
    ("a review is owed", "EXISTS (SELECT 1 FROM tl_review v WHERE v.session = s.id AND v.state = 0)"),
    ("a compression runs", "EXISTS (SELECT 1 FROM tl_compression c WHERE c.session = s.id AND c.state < 2)"),
];
const ROUTED_BY_HERMES: (&str, &str) = (
    "a chat leads to it",
    "EXISTS (SELECT 1 FROM gateway_routing g WHERE json_extract(g.entry_json, '$.session_id') = s.id)",
);
const BOUND_TO_A_TOPIC: (&str, &str) =
    ("a topic leads to it", "EXISTS (SELECT 1 FROM telegram_dm_topic_bindings b WHERE b.session_id = s.id)");

/// Sessions that a compression made of another (`c` of `p`), as `doctor::tree` tells them from branches and helpers.
pub(crate) const CONTINUED: &str = "sessions c JOIN sessions p ON p.id = c.parent_session_id
    WHERE p.end_reason = 'compression' AND c.id <> p.id
      AND c.source NOT IN ('tool', 'subagent') AND instr(c.id, '.snapshot.') = 0
      AND COALESCE(c.model_config, '') NOT LIKE '%\"_branched_from\"%'
      AND COALESCE(c.model_config, '') NOT LIKE '%\"_delegate_from\"%'";

impl StoreReader {
    /// What may go of the sessions that ended before, the newest first; and what must stay of them.
    pub fn prunable(&self, before: Time) -> Result<(Vec<Prunable>, Vec<Owed>), StoreError> {
        self.what_may_go(before).while_doing("look for sessions that may go")
    }

    fn what_may_go(&self, before: Time) -> Result<(Vec<Prunable>, Vec<Owed>), StoreFault> {
        let sql = format!(
            "SELECT s.id, s.title, s.ended_at, {},
                    (SELECT count(*) FROM messages m WHERE m.session_id = s.id
                        OR m.session_id IN (SELECT n.name FROM tl_snapshot n WHERE n.session = s.id)),
                    (SELECT COALESCE(sum(octet_length(m.content)), 0) + COALESCE(sum(octet_length(m.tool_calls)), 0)
                     FROM messages m WHERE m.session_id = s.id
                        OR m.session_id IN (SELECT n.name FROM tl_snapshot n WHERE n.session = s.id))
             FROM sessions s WHERE {} ORDER BY s.started_at DESC, s.id DESC",
            self.stays_because()?,
            old_enough("")
        );
        let (mut may_go, mut owed) = (Vec::new(), Vec::new());
        let mut statement = self.conn.prepare(&sql)?;
        let mut rows = statement.query(params![before.as_seconds()])?;
        while let Some(row) = rows.next()? {
            let Ok(session) = session_id(&row.get::<_, String>(0)?) else { continue }; // a snapshot's own row
            match self.reason(row.get::<_, Option<i64>>(3)?)? {
                Some(why) => owed.push(Owed { session, why }),
                None => may_go.push(Prunable {
                    session,
                    title: crate::read::text(row, 1)?,
                    ended: Time::from_seconds(row.get(2)?),
                    rows: unsigned(row, 4)?,
                    bytes: unsigned(row, 5)?,
                }),
            }
        }
        self.keep_parents(&mut may_go, &mut owed)?;
        Ok((may_go, owed))
    }

    /// A session stays as long as one does that works for it, or that goes on with it.
    fn keep_parents(&self, may_go: &mut Vec<Prunable>, owed: &mut Vec<Owed>) -> Result<(), StoreFault> {
        let working = "SELECT id, parent FROM tl_session WHERE parent IS NOT NULL";
        let continuing = format!("SELECT c.id, p.id FROM {CONTINUED}");
        // What one of them keeps may be what the other one looks for.
        loop {
            let before = may_go.len();
            self.keep_parents_of(working, "a session that stays works for it", may_go, owed)?;
            let why = "its conversation goes on in a session that stays";
            self.keep_parents_of(&continuing, why, may_go, owed)?;
            if may_go.len() == before {
                return Ok(());
            }
        }
    }

    /// `sql` gives children with their parents.
    fn keep_parents_of(
        &self,
        sql: &str,
        why: &'static str,
        may_go: &mut Vec<Prunable>,
        owed: &mut Vec<Owed>,
    ) -> Result<(), StoreFault> {
        let mut statement = self.conn.prepare(sql)?;
        let pairs =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        let pairs = pairs.collect::<rusqlite::Result<Vec<_>>>()?;
        loop {
            let going: BTreeSet<&str> = may_go.iter().map(|found| found.session.as_str()).collect();
            let needed: BTreeSet<&str> = pairs
                .iter()
                .filter(|(child, _)| !going.contains(child.as_str()))
                .map(|(_, parent)| parent.as_str())
                .collect();
            let stays: Vec<bool> =
                may_go.iter().map(|found| needed.contains(found.session.as_str())).collect();
            if !stays.contains(&true) {
                return Ok(());
            }
            let mut nth = 0;
            may_go.retain(|found| {
                let keeps = stays[nth];
                nth += 1;
                if keeps {
                    owed.push(Owed { session: found.session.clone(), why });
                }
                !keeps
            });
        }
    }

    /// The number of the first reason that holds; NULL if none does.
    fn stays_because(&self) -> Result<String, StoreFault> {
        let cases: String = self
            .reasons()?
            .iter()
            .enumerate()
            .map(|(nth, (_, condition))| format!(" WHEN {condition} THEN {nth}"))
            .collect();
        Ok(format!("CASE{cases} END"))
    }

    fn reasons(&self) -> Result<Vec<(&'static str, &'static str)>, StoreFault> {
        let mut reasons = REASONS.to_vec();
        for (table, reason) in
            [("gateway_routing", ROUTED_BY_HERMES), ("telegram_dm_topic_bindings", BOUND_TO_A_TOPIC)]
        {
            if self.conn.table_exists(None, table)? {
                reasons.push(reason);
            }
        }
        Ok(reasons)
    }

    fn reason(&self, nth: Option<i64>) -> Result<Option<&'static str>, StoreFault> {
        let reasons = self.reasons()?;
        Ok(nth.and_then(|nth| reasons.get(usize::try_from(nth).ok()?)).map(|(why, _)| *why))
    }

    /// How many events are older.
    pub fn events_before(&self, before: Time) -> Result<u64, StoreError> {
        let count = || -> Result<u64, StoreFault> {
            let sql = "SELECT count(*) FROM tl_event WHERE at < ?1";
            let count: i64 = self.conn.query_row(sql, [before.0], |row| row.get(0))?;
            Ok(count.max(0) as u64)
        };
        count().while_doing("count events")
    }
}

/// Ended, and not by an accident that the next message undoes.
fn old_enough(and: &str) -> String {
    let [one, other] = ACCIDENTAL_ENDS;
    format!(
        "s.ended_at IS NOT NULL AND s.ended_at < ?1 AND COALESCE(s.end_reason, '') NOT IN ('{one}', '{other}'){and}"
    )
}

impl StoreWriter {
    /// Whether it went: it may be needed by now.
    pub fn prune(&mut self, session: &SessionId, before: Time) -> Result<bool, StoreError> {
        let trigger = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
        let conn = &self.reader.conn;
        let had_triggers =
            conn.db_config(trigger).map_err(StoreFault::from).while_doing("read the store's settings")?;
        // Hermes' own triggers take its rows out of the search index.
        conn.set_db_config(trigger, true)
            .map_err(StoreFault::from)
            .while_doing("prepare the search index")?;
        let gone = self.prune_whole(session, before).while_doing("delete a session");
        let restored = self.reader.conn.set_db_config(trigger, had_triggers).map_err(StoreFault::from);
        restored.while_doing("go on without indexing")?;
        gone
    }

    fn prune_whole(&mut self, session: &SessionId, before: Time) -> Result<bool, StoreFault> {
        let stays = self.reader.stays_because()?;
        let sql =
            format!("SELECT 1 FROM sessions s WHERE {} AND ({stays}) IS NULL", old_enough(" AND s.id = ?2"));
        let Self { reader, home, .. } = self;
        let mut effects = Effects::default();
        let gone = transact(&reader.conn, |conn| {
            let id = session.as_str();
            let is_parent = conn.prepare("SELECT 1 FROM tl_session WHERE parent = ?1")?.exists([id])?;
            let continued = format!("SELECT 1 FROM {CONTINUED} AND p.id = ?1");
            let is_parent = is_parent || conn.prepare(&continued)?.exists([id])?;
            if is_parent || !conn.prepare(&sql)?.exists(params![before.as_seconds(), id])? {
                return Ok(false);
            }
            delete(conn, id)?;
            let mut rows = NextRow::default();
            let mut scribe = CommitWriter::new(conn, &reader.variants, home, &mut rows, ForeignNews::None);
            scribe.forget_deleted(id)?;
            effects.routes |= scribe.effects.routes;
            conn.execute("DELETE FROM tl_unindexed WHERE id NOT IN (SELECT id FROM messages)", [])?;
            Ok(true)
        })?;
        self.projection.dirty |= effects.routes;
        Ok(gone)
    }

    /// Events that are older, a few thousand at a time. How many went: 0 if none is left.
    pub fn prune_events(&mut self, before: Time) -> Result<u64, StoreError> {
        let pruned = transact(&self.reader.conn, |conn| {
            let sql = "DELETE FROM tl_event WHERE id IN (SELECT id FROM tl_event WHERE at < ?1 LIMIT ?2)";
            Ok(conn.execute(sql, params![before.0, EVENTS_AT_ONCE])? as u64)
        });
        pruned.while_doing("delete old events")
    }
}

/// As Hermes does it: a session that came from it comes from nowhere now.
fn delete(conn: &Connection, id: &str) -> Result<(), StoreFault> {
    conn.execute("UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?1", [id])?;
    conn.execute("DELETE FROM messages WHERE session_id = ?1", [id])?;
    conn.execute("DELETE FROM sessions WHERE id = ?1", [id])?;
    Ok(())
}
