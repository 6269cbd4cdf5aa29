//! A piece of a transcript: one row, what stands around it, and how its conversation began and ended.
//!
//! ExcerptRows that a summary stands for are part of it; rows that the user took back are not.

use crate::fault::StoreFault;
use crate::lineage::owner;
use crate::read::{StoreReader, session_id, stored_message, unsigned};
use rusqlite::{OptionalExtension, Params, params};
use throughline_core::id::RowId;
use throughline_core::message::Message;
use throughline_core::port::{Anchor, Excerpt};

/// A reader needs no more at once, and a tool's result must hold it.
const ROWS_MAX: usize = 200;

type ExcerptRows = Vec<(RowId, Message)>;

impl StoreReader {
    pub(crate) fn passage(&self, anchor: &Anchor) -> Result<Option<Excerpt>, StoreFault> {
        let Some(place) = self.holder_of(anchor.row)? else { return Ok(None) };
        let Ok(session) = session_id(owner(&place)) else { return Ok(None) };
        let root = self.root_of(session.as_str())?;
        if session != anchor.session && root != self.root_of(anchor.session.as_str())? {
            return Ok(None);
        }
        let visible = self.visible(anchor.scope.as_ref())?;
        if visible.is_some_and(|visible| !visible.contains(session.as_str())) {
            return Ok(None);
        }
        let row = anchor.row.0 as i64;
        let window = anchor.window.min(ROWS_MAX) as i64;
        let mut rows = self.rows("m.id <= ?2", "DESC", params![place, row, window + 1])?;
        rows.reverse();
        rows.extend(self.rows("m.id > ?2", "ASC", params![place, row, window])?);
        let (Some((begin, _)), Some((end, _))) = (rows.first(), rows.last()) else { return Ok(None) };
        let ends = anchor.ends.min(ROWS_MAX) as i64;
        let said = "m.role IN ('user', 'assistant') AND length(m.content) > 0 AND m.id";
        let first = self.rows(&format!("{said} < ?2"), "ASC", params![place, begin.0 as i64, ends])?;
        let mut last = self.rows(&format!("{said} > ?2"), "DESC", params![place, end.0 as i64, ends])?;
        last.reverse();
        Ok(Some(Excerpt { session, root, rows, first, last }))
    }

    /// The transcript in which this row lies, which may be a snapshot's.
    fn holder_of(&self, row: RowId) -> Result<Option<String>, StoreFault> {
        let sql =
            format!("SELECT m.session_id FROM messages m WHERE m.id = ?1 AND {}", self.variants.findable);
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([row.0 as i64], |row| row.get(0)).optional()?)
    }

    /// Of the transcript ?1, at most ?3 rows that fit.
    fn rows(&self, fitting: &str, order: &str, values: impl Params) -> Result<ExcerptRows, StoreFault> {
        let sql = format!(
            "SELECT {} FROM messages m WHERE m.session_id = ?1 AND {fitting} AND {} ORDER BY m.id {order} LIMIT ?3",
            self.variants.columns, self.variants.findable
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(values)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((RowId(unsigned(row, 0)?), stored_message(row)?));
        }
        Ok(found)
    }
}
