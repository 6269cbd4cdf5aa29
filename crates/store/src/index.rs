//! The search index follows behind the transcript.
//!
//! Hermes' triggers are switched off on our connection, because indexing costs more than all the
//! rest of a commit. What they would have indexed is taken from a queue in small slices, and only
//! where it is absent: Hermes may have touched the row meanwhile, and then its triggers did it.

use crate::commit::{StoreWriter, transact};
use crate::fault::StoreFault;
use crate::read::StoreReader;
use throughline_hermes::schema::INDEXED_TEXT;

/// How much is indexed in one transaction. Each waits for the disk once and leaves a segment of the index that is merged
/// with others later, so many small ones are slow; but commits wait behind it.
#[derive(Clone, Copy)]
pub(crate) struct IndexBatch {
    rows: usize,
    bytes: i64,
}

/// It keeps the writer busy for a few milliseconds, no longer.
const USUAL: IndexBatch = IndexBatch { rows: 32, bytes: 64 << 10 };
/// Some tens of milliseconds: the queue grows faster than it is worked off otherwise.
const BEHIND: IndexBatch = IndexBatch { rows: 256, bytes: 128 << 10 };
/// No commit waits for the writer any more, only its end does.
pub(crate) const CLOSING: IndexBatch = IndexBatch { rows: 1024, bytes: 512 << 10 };
/// From so many rows on the index is behind.
const BEHIND_ROWS: u32 = 512;

/// `why` looks back this far.
const EVENTS_MAX: i64 = 100_000;
const EVENTS_SLICE: i64 = 1_000;

/// As much as commits can wait for.
pub(crate) fn extent(reader: &StoreReader) -> Result<IndexBatch, StoreFault> {
    let sql = "SELECT 1 FROM tl_unindexed LIMIT 1 OFFSET ?1";
    let is_behind = reader.conn.prepare_cached(sql)?.exists([BEHIND_ROWS])?;
    Ok(if is_behind { BEHIND } else { USUAL })
}

/// Indexes the next few rows. True: there are more.
pub(crate) fn slice(reader: &StoreReader, extent: IndexBatch) -> Result<bool, StoreFault> {
    let (rows, more) = waiting(reader, extent)?;
    let Some(last) = rows.last() else { return Ok(false) };
    transact(&reader.conn, |conn| {
        for table in reader.variants.indexes() {
            let sql = format!(
                "INSERT INTO {table}(rowid, content) SELECT id, {INDEXED_TEXT} FROM messages
                 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM {table} WHERE rowid = ?1)"
            );
            let mut statement = conn.prepare_cached(&sql)?;
            for row in &rows {
                statement.execute([row])?;
            }
        }
        conn.prepare_cached("DELETE FROM tl_unindexed WHERE id <= ?1")?.execute([last])?;
        Ok(())
    })?;
    Ok(more)
}

/// The oldest rows that wait, as many as make a slice.
fn waiting(reader: &StoreReader, extent: IndexBatch) -> Result<(Vec<i64>, bool), StoreFault> {
    let sql = "SELECT u.id, COALESCE(octet_length(m.content), 0) + COALESCE(octet_length(m.tool_calls), 0)
               FROM tl_unindexed u LEFT JOIN messages m ON m.id = u.id ORDER BY u.id";
    let mut statement = reader.conn.prepare_cached(sql)?;
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        if rows.len() == extent.rows || bytes >= extent.bytes {
            return Ok((rows, true));
        }
        rows.push(row.get(0)?);
        bytes += row.get::<_, i64>(1)?;
    }
    Ok((rows, false))
}

impl StoreWriter {
    /// Events are a memory of the near past; their counts stay.
    pub(crate) fn forget_old_events(&self) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let sql = "SELECT (SELECT min(id) FROM tl_event), (SELECT max(id) FROM tl_event)";
        let (first, last): (Option<i64>, Option<i64>) =
            conn.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
        let keep_from = last - EVENTS_MAX + 1;
        if first >= keep_from {
            return Ok(());
        }
        transact(conn, |conn| {
            let upto = keep_from.min(first + EVENTS_SLICE);
            conn.execute("DELETE FROM tl_event WHERE id < ?1", [upto])?;
            Ok(())
        })
    }
}
