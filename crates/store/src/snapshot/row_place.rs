//! The places of rows: what stands between others makes room, and gets its place back.

use super::names_of;
use crate::envelope;
use crate::fault::StoreFault;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{OptionalExtension, params};
use std::collections::{HashMap, HashSet};

/// How far around the cut a free id is looked for, per row that needs one, before a row makes room:
/// a home that many sessions share has ids of others there.
const LOOK_AROUND: i64 = 16;

/// Rows that have moved in this commit: first id, present id.
#[derive(Default)]
pub(crate) struct Moves(HashMap<i64, i64>);

impl Moves {
    fn add(&mut self, from: i64, to: i64) {
        let first = self.0.iter().find_map(|(first, now)| (*now == from).then_some(*first));
        self.0.insert(first.unwrap_or(from), to);
    }

    /// Where a row is that was there when this commit began.
    pub(crate) fn now(&self, row: i64) -> i64 {
        self.0.get(&row).copied().unwrap_or(row)
    }
}

/// Where a summary goes: behind what stays before it, before what stays behind it.
pub(super) struct SummaryGap {
    pub low: i64,
    pub cut: i64,
    pub high: Option<i64>,
}

impl CommitWriter<'_> {
    /// So many ids in the gap that a compression has left, in order.
    pub(super) fn make_room(
        &mut self,
        change: &mut SessionChange<'_>,
        gap: &SummaryGap,
        count: usize,
        moves: &mut Moves,
    ) -> Result<Vec<i64>, StoreFault> {
        let last = self.rows.last(self.conn)?;
        let span = LOOK_AROUND * count as i64;
        let end = gap.high.unwrap_or(last + 1).min(gap.cut + 1 + span);
        let mut places = self.free(gap.cut + 1, end, count)?;
        if gap.high.is_none() {
            // Nothing stands behind it: the end will do, too.
            self.effects.between.extend(&places);
            while places.len() < count {
                places.push(self.fresh(change)?);
            }
            change.last_row = places.iter().copied().fold(change.last_row, i64::max);
            return Ok(places);
        }
        if places.len() < count {
            let begin = (gap.low + 1).max(gap.cut - span);
            let free = self.free(begin, gap.cut, usize::MAX)?;
            places.extend(free.into_iter().rev().take(count - places.len()));
        }
        if places.len() < count {
            for row in self.replaced_in(change, gap, count - places.len())? {
                self.vacate(change, row, moves)?;
                places.push(row);
            }
        }
        if places.len() < count {
            return Err(StoreFault::Malformed(format!(
                "{count} rows were to take the place of fewer in session {}",
                change.id()
            )));
        }
        places.sort_unstable();
        self.effects.between.extend(&places);
        Ok(places)
    }

    /// At most so many ids from `begin` to before `end` that are free.
    fn free(&self, begin: i64, end: i64, count: usize) -> Result<Vec<i64>, StoreFault> {
        let sql = "SELECT id FROM messages WHERE id >= ?1 AND id < ?2 ORDER BY id";
        let mut statement = self.conn.prepare_cached(sql)?;
        let taken = statement.query_map([begin, end], |row| row.get(0))?;
        let taken = taken.collect::<rusqlite::Result<HashSet<i64>>>()?;
        Ok((begin..end).filter(|id| !taken.contains(id)).take(count).collect())
    }

    /// Rows in the gap that a summary stands for, from the last on.
    fn replaced_in(
        &self,
        change: &SessionChange<'_>,
        gap: &SummaryGap,
        count: usize,
    ) -> Result<Vec<i64>, StoreFault> {
        let (below, above) = names_of(change.id());
        let high = gap.high.unwrap_or(i64::MAX);
        let mut statement = self.conn.prepare_cached(&self.variants.replaced_between)?;
        let rows = statement
            .query_map(params![change.id(), below, above, gap.low, high, count as i64], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn fresh(&mut self, change: &mut SessionChange<'_>) -> Result<i64, StoreFault> {
        let id = self.rows.take(self.conn)?;
        self.effects.rows.push(id);
        change.last_row = change.last_row.max(id);
        Ok(id)
    }

    /// A row that is not live makes room for one that is.
    fn vacate(
        &mut self,
        change: &mut SessionChange<'_>,
        row: i64,
        moves: &mut Moves,
    ) -> Result<(), StoreFault> {
        let to = self.fresh(change)?;
        self.move_row(change, row, to, moves)?;
        // One that has moved before keeps the place that is its own.
        let sql = "UPDATE tl_place SET id = ?2 WHERE id = ?1";
        if self.conn.prepare_cached(sql)?.execute([row, to])? == 0 {
            let sql = "INSERT INTO tl_place (id, session, place) VALUES (?1, ?2, ?3)";
            self.conn.prepare_cached(sql)?.execute(params![to, change.id(), row])?;
        }
        Ok(())
    }

    pub(super) fn give_places_back(
        &mut self,
        change: &mut SessionChange<'_>,
        rows: &[i64],
        moves: &mut Moves,
    ) -> Result<(), StoreFault> {
        for row in rows {
            let sql = "SELECT place FROM tl_place WHERE id = ?1";
            let place: Option<i64> =
                self.conn.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?;
            let Some(place) = place else { continue };
            if self.conn.prepare_cached("SELECT 1 FROM messages WHERE id = ?1")?.exists([place])? {
                self.vacate(change, place, moves)?;
            }
            self.move_row(change, *row, place, moves)?;
            self.conn.prepare_cached("DELETE FROM tl_place WHERE id = ?1")?.execute([row])?;
            self.effects.between.push(place);
        }
        Ok(())
    }

    /// With everything that refers to it, but for the snapshots: those follow once.
    fn move_row(
        &mut self,
        change: &SessionChange<'_>,
        from: i64,
        to: i64,
        moves: &mut Moves,
    ) -> Result<(), StoreFault> {
        self.conn.prepare_cached("UPDATE messages SET id = ?2 WHERE id = ?1")?.execute([from, to])?;
        for sql in [
            "UPDATE tl_inbox SET message = ?3 WHERE session = ?1 AND message = ?2",
            "UPDATE tl_step SET message = ?3 WHERE session = ?1 AND message = ?2",
        ] {
            self.conn.prepare_cached(sql)?.execute(params![change.id(), from, to])?;
        }
        moves.add(from, to);
        if !self.variants.defers_indexing {
            return Ok(()); // Hermes' triggers have done it
        }
        for table in self.variants.indexes() {
            self.conn.prepare_cached(&format!("DELETE FROM {table} WHERE rowid = ?1"))?.execute([from])?;
        }
        self.conn.prepare_cached("DELETE FROM tl_unindexed WHERE id = ?1")?.execute([from])?;
        self.conn.prepare_cached("INSERT OR IGNORE INTO tl_unindexed (id) VALUES (?1)")?.execute([to])?;
        Ok(())
    }

    /// Snapshots go on listing the rows that they listed.
    pub(super) fn follow(&self, change: &SessionChange<'_>, moves: &Moves) -> Result<(), StoreFault> {
        if moves.0.is_empty() {
            return Ok(());
        }
        self.reviews_follow(change.id(), moves)?;
        let now = |row: &i64| moves.now(*row);
        for (name, rows, summary) in self.lists_of(change.id())? {
            if rows.iter().chain(&summary).any(|row| moves.0.contains_key(row)) {
                let sql = "UPDATE tl_snapshot SET rows = ?2, summary = ?3 WHERE name = ?1";
                self.conn.prepare_cached(sql)?.execute(params![
                    name,
                    envelope::numbers_text(rows.iter().map(now)),
                    envelope::numbers_text(summary.iter().map(now))
                ])?;
            }
        }
        Ok(())
    }
}
