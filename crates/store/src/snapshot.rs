//! What a summary stands for: how it leaves the view, under which name it is kept, and how it comes back.
//!
//! Where Hermes can mark a row as compacted, rows stay where they are and get its mark; elsewhere they
//! move to a row of `sessions` that has the snapshot's name. Either way the snapshot lists its rows, so
//! its name is an address, and every message that was ever said is live or in a snapshot.
//!
//! Hermes orders a transcript by id, so a summary needs an id between what stays before it and what
//! stays behind it. Our own rows leave one free. Where there is none, a row that the summary stands for
//! makes room: it moves to a fresh id, and its place is remembered. **A live row always stands in its
//! place**: a row that becomes live again gets it back, and the row that stands there by then makes room in turn.
//! Two rows that share a place are never in one view, because one of them stands for the other.

mod row_place;
mod stored;

pub(crate) use row_place::Moves;
use row_place::SummaryGap;

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::malformed;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use throughline_core::Message;
use throughline_core::compression::{Kind, Operation, Promoted, Replacement};
use throughline_core::id::{Generation, SNAPSHOT_INFIX, View};
use throughline_core::port::StoreError;
use throughline_core::time::Time;

/// Why Hermes takes the row of a snapshot for one that has ended. It follows no such end.
const END_REASON: &str = "snapshot";

/// A snapshot's name, its rows, and those that took their place.
type SnapshotLists = (String, Vec<i64>, Vec<i64>);

/// A snapshot as it is recorded.
struct RecordedView {
    /// What was said above this row was said since.
    upto: i64,
    rows: Vec<i64>,
}

/// What a new one shows, and what became of it.
pub(crate) struct KeptView<'a> {
    pub view: View,
    pub operation: Option<u64>,
    pub after: i64,
    pub cut: i64,
    pub rows: &'a [i64],
    /// What is said above this row is said later than all that it shows.
    pub upto: i64,
    pub summary: &'a [i64],
}

/// The last row of a whole view that is kept: the last that was said at all. What had been taken back by then was
/// said before it, and is none of what was said since, even if it is brought back.
pub(crate) fn end_of(change: &SessionChange<'_>, view: &[i64]) -> i64 {
    view.last().copied().unwrap_or(0).max(change.last_row)
}

impl CommitWriter<'_> {
    /// A summary takes the place of rows up to its cut. Those above it are not touched.
    pub(crate) fn promote(
        &mut self,
        change: &mut SessionChange<'_>,
        operation: &Operation,
        replacement: &Replacement,
        snapshot: &str,
    ) -> Result<Promoted, StoreFault> {
        let session = change.id();
        let before = self.live(session)?;
        let end = end_of(change, &before);
        let (after, cut) = (replacement.after.map_or(0, |row| row.0 as i64), replacement.cut.0 as i64);
        let (upto, tail) = before.split_at(before.partition_point(|row| *row <= cut));
        let (head, replaced) = upto.split_at(upto.partition_point(|row| *row <= after));
        if replaced.len() != replacement.replaced {
            return Err(changed_meanwhile(change));
        }
        let latest = self.said_at(replaced)?;
        self.archive(change, replaced, snapshot)?;
        let mut moves = Moves::default();
        let gap = SummaryGap { low: head.last().copied().unwrap_or(0), cut, high: tail.first().copied() };
        let places = self.make_room(change, &gap, replacement.rows.len(), &mut moves)?;
        for (id, message) in places.iter().zip(&replacement.rows) {
            let at = message.at.min(latest);
            self.insert_row(*id, session, &Message { at, ..message.clone() })?;
        }
        if let (None, Some(tip), Some(last)) = (tail.first(), before.last(), places.last()) {
            // A client's view that ended with what was replaced ends with what replaced it.
            let sql = "UPDATE tl_thread SET message = ?3 WHERE session = ?1 AND message = ?2";
            self.conn.prepare_cached(sql)?.execute(params![session, tip, last])?;
        }
        let messages_after = head.len() + places.len() + tail.len();
        let tokens_after = change.state.upkeep.context.max(replacement.after_tokens);
        let promoted = Promoted {
            snapshot: snapshot.to_owned(),
            messages_before: before.len(),
            messages_after,
            tokens_before: tokens_after + replacement.freed(),
            tokens_after,
            kind: replacement.kind,
            remark: replacement.remark.clone(),
        };
        let rows = &before[..self.shown(session, &before, upto.len())?];
        let kept = KeptView {
            view: operation.base,
            operation: Some(operation.number),
            after,
            cut,
            rows,
            // What lies between the last row shown and the next that is live was replaced long before.
            upto: before.get(rows.len()).map_or(end, |next| next - 1),
            summary: &places,
        };
        self.record(change, &promoted, &kept, &moves)?;
        self.recount(change)?;
        self.compression_promoted(change, operation, &promoted)?;
        Ok(promoted)
    }

    /// The rows of a snapshot are live again, with all that was said since as it was said.
    pub(crate) fn restore(
        &mut self,
        change: &mut SessionChange<'_>,
        snapshot: &str,
        kept_as: &str,
    ) -> Result<Promoted, StoreFault> {
        let session = change.id();
        let Some(record) = self.recorded(session, snapshot)? else { return Err(changed_meanwhile(change)) };
        let before = self.live(session)?;
        let upto = end_of(change, &before);
        let tokens_before = weigh(self.conn, &self.variants.weight, session)?;
        let wanted = self.restored_view(session, &record, &before)?;
        let (was, will): (HashSet<i64>, HashSet<i64>) =
            (before.iter().copied().collect(), wanted.iter().copied().collect());
        let leaving: Vec<i64> = before.iter().copied().filter(|row| !will.contains(row)).collect();
        let returning: Vec<i64> = wanted.iter().copied().filter(|row| !was.contains(row)).collect();
        self.archive(change, &leaving, kept_as)?;
        self.revive(session, &returning)?;
        let mut moves = Moves::default();
        self.give_places_back(change, &returning, &mut moves)?;
        let tokens_after = weigh(self.conn, &self.variants.weight, session)?;
        let promoted = Promoted {
            snapshot: kept_as.to_owned(),
            messages_before: before.len(),
            messages_after: wanted.len(),
            tokens_before,
            tokens_after,
            kind: Kind::Restored,
            remark: Some(format!("The view is that of {snapshot} again.")),
        };
        let kept = KeptView {
            view: View(change.state.view.0.saturating_sub(1)),
            operation: None,
            after: 0,
            cut: before.last().copied().unwrap_or(0),
            rows: &before,
            upto,
            summary: &[],
        };
        self.record(change, &promoted, &kept, &moves)?;
        self.recount(change)?;
        self.note(Some(session), "snapshot_restored", &format!("{snapshot}, kept as {kept_as}"), change.at)?;
        Ok(promoted)
    }

    /// When the last of these rows was said. Some releases of Hermes order a transcript by time: what
    /// stands for them must not be later.
    fn said_at(&self, rows: &[i64]) -> Result<Time, StoreFault> {
        let Some(last) = rows.last() else { return Ok(Time(i64::MAX)) };
        let sql = "SELECT timestamp FROM messages WHERE id = ?1";
        let seconds: f64 = self.conn.prepare_cached(sql)?.query_row([last], |row| row.get(0))?;
        Ok(Time::from_seconds(seconds))
    }

    /// How many rows of a view a snapshot shows: those up to the cut, and all that stand before a summary
    /// of ours, so that what stands behind them is as it was said.
    fn shown(&self, session: &str, view: &[i64], upto: usize) -> Result<usize, StoreFault> {
        if view.len() == upto {
            return Ok(upto);
        }
        let mut ours = HashSet::new();
        for (_, _, summary) in self.lists_of(session)? {
            ours.extend(summary);
        }
        let last = view[upto..].iter().rposition(|row| ours.contains(row));
        Ok(upto + last.map_or(0, |nth| nth + 1))
    }

    /// What the snapshot shows, and what was said since: rows above its cut, live or kept by a later
    /// snapshot, but for what we put there ourselves and what the user took back.
    fn restored_view(
        &self,
        session: &str,
        record: &RecordedView,
        before: &[i64],
    ) -> Result<Vec<i64>, StoreFault> {
        let mut known: HashSet<i64> = before.iter().copied().collect();
        let mut ours = HashSet::new();
        for (_, rows, summary) in self.lists_of(session)? {
            known.extend(rows);
            ours.extend(summary);
        }
        known.extend(&record.rows);
        let shown: HashSet<i64> = record.rows.iter().copied().collect();
        let mut statement = self.conn.prepare_cached(&self.variants.standing)?;
        let mut there = HashSet::new();
        let mut since = Vec::new();
        for row in known {
            let found = statement.query_row([row], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)));
            let Some((place, taken_back)) = found.optional()? else { continue };
            there.insert(row);
            if place > record.upto && !taken_back && !ours.contains(&row) && !shown.contains(&row) {
                since.push((place, row));
            }
        }
        since.sort_unstable();
        let shown = record.rows.iter().copied().filter(|row| there.contains(row));
        Ok(shown.chain(since.into_iter().map(|(_, row)| row)).collect())
    }

    // ------------------------------------------------------------------------- in and out of the view

    pub(crate) fn live(&self, session: &str) -> Result<Vec<i64>, StoreFault> {
        let mut statement = self.conn.prepare_cached(&self.variants.live)?;
        let rows = statement.query_map([session], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(crate) fn archive(
        &mut self,
        change: &SessionChange<'_>,
        rows: &[i64],
        name: &str,
    ) -> Result<(), StoreFault> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.variants.can.has_compacted {
            let mut statement =
                self.conn.prepare_cached("UPDATE messages SET active = 0, compacted = 1 WHERE id = ?1")?;
            return rows.iter().try_for_each(|row| Ok(statement.execute([row]).map(drop)?));
        }
        let sql = "INSERT INTO sessions (id, source, parent_session_id, started_at, ended_at, end_reason, message_count)
                   VALUES (?1, 'tool', ?2, ?3, ?3, ?4, ?5)";
        let at = change.at.as_seconds();
        let values = params![name, change.id(), at, END_REASON, rows.len() as i64];
        self.conn.prepare_cached(sql)?.execute(values)?;
        let mut statement = self.conn.prepare_cached("UPDATE messages SET session_id = ?2 WHERE id = ?1")?;
        rows.iter().try_for_each(|row| Ok(statement.execute(params![row, name]).map(drop)?))
    }

    fn revive(&self, session: &str, rows: &[i64]) -> Result<(), StoreFault> {
        let sql = match (self.variants.can.has_active, self.variants.can.has_compacted) {
            (true, true) => "UPDATE messages SET active = 1, compacted = 0, session_id = ?2 WHERE id = ?1",
            (true, false) => "UPDATE messages SET active = 1, session_id = ?2 WHERE id = ?1",
            (false, _) => "UPDATE messages SET session_id = ?2 WHERE id = ?1",
        };
        let mut statement = self.conn.prepare_cached(sql)?;
        rows.iter().try_for_each(|row| Ok(statement.execute(params![row, session]).map(drop)?))
    }

    /// Hermes counts what is live. What this commit has appended is counted with it, at its end.
    pub(crate) fn recount(&self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let values = params![change.id(), change.messages, change.calls];
        self.conn.prepare_cached(&self.variants.recount)?.execute(values)?;
        Ok(())
    }

    /// The new snapshot, and those before it, list rows where they are now.
    pub(crate) fn record(
        &self,
        change: &SessionChange<'_>,
        promoted: &Promoted,
        kept: &KeptView<'_>,
        moves: &Moves,
    ) -> Result<(), StoreFault> {
        self.follow(change, moves)?;
        let sql =
            "INSERT INTO tl_snapshot (name, session, view, operation, at, after, cut, upto, rows, summary,
                          kind, messages_before, messages_after, tokens_before, tokens_after, remark)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        self.conn.prepare_cached(sql)?.execute(params![
            promoted.snapshot,
            change.id(),
            kept.view.0 as i64,
            kept.operation.map(|number| number as i64),
            change.at.0,
            kept.after,
            kept.cut,
            kept.upto,
            envelope::numbers_text(kept.rows.iter().map(|row| moves.now(*row))),
            envelope::numbers_text(kept.summary.iter().copied()),
            promoted.kind.to_string(),
            promoted.messages_before as i64,
            promoted.messages_after as i64,
            promoted.tokens_before as i64,
            promoted.tokens_after as i64,
            promoted.remark,
        ])?;
        Ok(())
    }

    fn recorded(&self, session: &str, name: &str) -> Result<Option<RecordedView>, StoreFault> {
        let sql = "SELECT upto, rows FROM tl_snapshot WHERE name = ?1 AND session = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let found = statement
            .query_row([name, session], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        let Some((upto, rows)) = found else { return Ok(None) };
        Ok(Some(RecordedView { upto, rows: envelope::numbers(&rows).map_err(malformed("a snapshot"))? }))
    }

    fn lists_of(&self, session: &str) -> Result<Vec<SnapshotLists>, StoreFault> {
        lists_of(self.conn, session)
    }
}

fn lists_of(conn: &Connection, session: &str) -> Result<Vec<SnapshotLists>, StoreFault> {
    let (below, above) = names_of(session);
    let sql = "SELECT name, rows, summary FROM tl_snapshot WHERE name > ?1 AND name < ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([below, above])?;
    let mut lists = Vec::new();
    while let Some(row) = rows.next()? {
        let list = |column| -> Result<Vec<i64>, StoreFault> {
            envelope::numbers(&row.get::<_, String>(column)?).map_err(malformed("a snapshot"))
        };
        lists.push((row.get(0)?, list(1)?, list(2)?));
    }
    Ok(lists)
}

/// All names of a session's snapshots lie between these two.
pub(crate) fn names_of(session: &str) -> (String, String) {
    let below = format!("{session}{SNAPSHOT_INFIX}");
    let above = format!("{below}\u{10ffff}");
    (below, above)
}

/// Another owner has changed the view: this one has to look again.
pub(crate) fn changed_meanwhile(change: &SessionChange<'_>) -> StoreFault {
    let current = Generation(change.prior.as_ref().map_or(0, |prior| prior.generation as u64));
    StoreError::Fenced { session: change.state.id.clone(), current }.into()
}

/// Roughly what a view weighs in tokens.
pub(crate) fn weigh(conn: &Connection, sql: &str, session: &str) -> Result<u64, StoreFault> {
    let octets: i64 = conn.prepare_cached(sql)?.query_row(params![session, 0], |row| row.get(0))?;
    Ok(octets as u64 / 4)
}
