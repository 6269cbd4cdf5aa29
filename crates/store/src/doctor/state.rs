//! The file itself, and what Hermes keeps about a session beside its words.

use super::{EACH_MAX, Finding, FindingKind, Look, Mended, ROWS_MAX, Remedy, counted};
use crate::check;
use crate::fault::StoreFault;
use rusqlite::params;
use std::collections::{BTreeMap, HashSet};
use throughline_core::id::SNAPSHOT_INFIX;

/// Reasons for which Hermes 0.19 ends a session by itself.
const BY_ITSELF: &str = "('idle', 'daily', 'suspended', 'resume_pending_expired')";
/// Invariants whose breach is found under a name of its own, or that hold only until Hermes has the home again: what it
/// writes into its routing table then is no defect of ours, and taken over when we start.
const TOLD_ELSEWHERE: &[&str] =
    &["route_live", "one_live_session_per_chat", "findable", "unindexed_exist", "route_mirrored"];

impl Look<'_> {
    /// SQLite's own opinion, and our invariants.
    pub(super) fn damage(&self) -> Result<Vec<Finding>, StoreFault> {
        let (conn, shape) = (&self.reader.conn, &self.reader.variants);
        let (broken, unreadable) = check::of_ours(conn, shape, TOLD_ELSEWHERE)?;
        let damage = match check::damage(conn, shape) {
            Ok(damage) if damage.is_empty() => unreadable,
            Ok(damage) => damage,
            Err(fault) => vec![check::as_damage(fault)?],
        };
        let mut found: Vec<Finding> = broken
            .into_iter()
            .map(|sentence| Finding {
                kind: FindingKind::BrokenInvariant,
                sessions: Vec::new(),
                rows: Vec::new(),
                evidence: vec![sentence],
                remedy: Remedy::Advice(
                    "please report this with the sentence above; it is a defect of ours".into(),
                ),
            })
            .collect();
        if !damage.is_empty() {
            found.push(Finding {
                kind: FindingKind::Integrity,
                sessions: Vec::new(),
                rows: Vec::new(),
                evidence: damage,
                remedy: Remedy::Advice(
                    "stop every program that uses it and restore a backup, or try `sqlite3 state.db .recover` on a copy; \
                     nothing is repaired on a damaged file"
                        .to_owned(),
                ),
            });
        }
        found.extend(
            self.rows_without_session().or_else(|fault| check::as_damage(fault).map(|_| Vec::new()))?,
        );
        Ok(found)
    }

    fn rows_without_session(&self) -> Result<Vec<Finding>, StoreFault> {
        let sql = "SELECT m.session_id, count(*), min(m.id) FROM messages m
                   WHERE m.session_id NOT IN (SELECT id FROM sessions) GROUP BY m.session_id LIMIT ?1";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let mut rows = statement.query([EACH_MAX as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (session, count): (String, i64) = (row.get(0)?, row.get(1)?);
            found.push(Finding {
                kind: FindingKind::RowsWithoutSession,
                rows: vec![row.get(2)?],
                evidence: vec![format!(
                    "{} of {session}, which has no row of its own",
                    counted(count as usize, "message")
                )],
                remedy: Remedy::Repair(format!("{session} gets a row again, as one that can be resumed")),
                sessions: vec![session],
            });
        }
        Ok(found)
    }

    pub(super) fn found_sessions(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        let session = finding.subject();
        let (source, parent, reason) = match session.split_once(SNAPSHOT_INFIX) {
            Some((owner, _)) => ("tool", Some(owner), "snapshot"),
            None => ("unknown", None, "agent_close"),
        };
        let sql = "INSERT INTO sessions (id, source, parent_session_id, started_at, ended_at, end_reason, message_count)
                   SELECT ?1, ?2, (SELECT id FROM sessions WHERE id = ?3), min(timestamp), max(timestamp), ?4, count(*)
                   FROM messages WHERE session_id = ?1 HAVING count(*) > 0
                   ON CONFLICT(id) DO NOTHING";
        let values = params![session, source, parent, reason];
        match self.reader.conn.prepare_cached(sql)?.execute(values)? {
            0 => Ok(Mended::Unneeded),
            _ => Ok(Mended::Done(format!("{session} can be read again"))),
        }
    }

    /// Flags and locks.
    pub(super) fn states(&self) -> Result<Vec<Finding>, StoreFault> {
        let can = &self.reader.variants.can;
        let mut found = Vec::new();
        found.extend(self.finalised_alive()?);
        if can.has_expiry_finalized {
            let sql = format!(
                "SELECT id FROM sessions WHERE ended_at IS NOT NULL AND expiry_finalized = 0
                 AND end_reason IN {BY_ITSELF} AND message_count > 0
                 AND id NOT IN (SELECT session FROM tl_finalisation) ORDER BY id LIMIT ?1"
            );
            let ids = self.ids(&sql)?;
            if !ids.is_empty() {
                found.push(Finding {
                    kind: FindingKind::EndedNotFinalised,
                    rows: Vec::new(),
                    evidence: vec![format!(
                        "{} ended by itself without its hooks and its memory provider being told",
                        counted(ids.len(), "session")
                    )],
                    remedy: Remedy::Advice(
                        "what is past is not handed over later by itself; every message is in place. Resume a session \
                         to go on with it"
                            .to_owned(),
                    ),
                    sessions: ids.into_iter().take(ROWS_MAX).collect(),
                });
            }
        }
        if can.has_compression_locks {
            found.extend(self.stale_locks()?);
        }
        Ok(found)
    }

    /// Hermes hands over what has ended by its policy, marks that where the chat leads, and leaves the session open until
    /// a person writes again and begins another: a mark alone is as it should be. It is wrong where the chat goes on in
    /// that session, because then it is not handed over when it ends:
    ///
    /// - `/resume` opened it again, and left the mark of its row
    /// - what waited to be resumed after a restart went on, although it had ended
    fn finalised_alive(&self) -> Result<Vec<Finding>, StoreFault> {
        let mut marked = HashSet::new();
        if self.reader.variants.can.has_expiry_finalized {
            let sql = "SELECT id FROM sessions WHERE expiry_finalized = 1 AND ended_at IS NULL";
            let mut statement = self.reader.conn.prepare_cached(sql)?;
            for id in statement.query_map([], |row| row.get::<_, String>(0))? {
                marked.insert(id?);
            }
        }
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in self.all_entries()?.values() {
            let has_ended =
                || self.is_due.is_some_and(|is_due| is_due(&entry.platform, &entry.chat_type, entry.active));
            let says = match entry.finalised {
                false if marked.contains(&entry.session) => {
                    "its row is marked as handed over, and the chat that leads to it is not"
                }
                true if !has_ended() => "it is marked as handed over, and went on since",
                _ => continue,
            };
            let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NULL";
            if self.reader.conn.prepare_cached(sql)?.exists([&entry.session])? {
                let evidence = found.entry(entry.session.clone()).or_default();
                evidence.push(format!("{} ({}): {says}", entry.session, entry.chat));
            }
        }
        let found = found.into_iter().map(|(session, evidence)| Finding {
            kind: FindingKind::FinalisedAlive,
            rows: Vec::new(),
            evidence,
            remedy: Remedy::Repair(
                "the mark is taken off, so that it is handed over when it ends".to_owned(),
            ),
            sessions: vec![session],
        });
        Ok(found.collect())
    }

    fn ids(&self, sql: &str) -> Result<Vec<String>, StoreFault> {
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let ids = statement.query_map([EACH_MAX as i64], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    fn stale_locks(&self) -> Result<Vec<Finding>, StoreFault> {
        let sql = "SELECT session_id, holder, expires_at FROM compression_locks ORDER BY session_id";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (session, holder): (String, String) = (row.get(0)?, row.get(1)?);
            if row.get::<_, f64>(2)? >= self.now.as_seconds() && !is_gone(&holder) {
                continue;
            }
            found.push(Finding {
                kind: FindingKind::StaleCompressionLock,
                rows: Vec::new(),
                evidence: vec![format!("{session} is locked by {holder}, which is gone")],
                remedy: Remedy::Repair("the lock is removed".to_owned()),
                sessions: vec![session],
            });
        }
        Ok(found)
    }

    pub(super) fn release_lock(&self, finding: &Finding) -> Result<Mended, StoreFault> {
        // Another process may have taken it meanwhile.
        if !self.stale_locks()?.iter().any(|stale| stale.subject() == finding.subject()) {
            return Ok(Mended::Unneeded);
        }
        let sql = "DELETE FROM compression_locks WHERE session_id = ?1";
        match self.reader.conn.prepare_cached(sql)?.execute([finding.subject()])? {
            0 => Ok(Mended::Unneeded),
            _ => Ok(Mended::Done(format!("{} is no longer locked", finding.subject()))),
        }
    }
}

/// Whether the process that holds a lock (`pid=…:tid=…`) has ended. Where that cannot be told, its time has to run out.
#[cfg(target_os = "linux")]
fn is_gone(holder: &str) -> bool {
    let pid = holder.split(':').find_map(|part| part.strip_prefix("pid=")?.parse::<u32>().ok());
    pid.is_some_and(|pid| !std::path::Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(not(target_os = "linux"))]
fn is_gone(_: &str) -> bool {
    false
}
