//! Snapshots as they are read.

use super::{lists_of, names_of};
use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, session_id, stored_message, unsigned};
use rusqlite::{OptionalExtension, Row};
use std::collections::HashSet;
use throughline_core::Message;
use throughline_core::compression::Promoted;
use throughline_core::id::{RowId, SessionId, View};
use throughline_core::port::{Snapshot, SnapshotSummary};
use throughline_core::time::Time;

impl StoreReader {
    pub(crate) fn snapshots_of(&self, id: &SessionId) -> Result<Vec<SnapshotSummary>, StoreFault> {
        let (below, above) = names_of(id.as_str());
        let sql = format!("SELECT {COLUMNS} FROM tl_snapshot WHERE name > ?1 AND name < ?2 ORDER BY name");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([below, above])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(described(row)?);
        }
        Ok(found)
    }

    pub(crate) fn snapshot_named(&self, name: &str) -> Result<Option<Snapshot>, StoreFault> {
        let sql = format!("SELECT {COLUMNS} FROM tl_snapshot WHERE name = ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([name])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let summary = described(row)?;
        let mut statement = self.conn.prepare_cached(&self.variants.message)?;
        let mut rows = Vec::new();
        for id in self.rows_in(name)?.unwrap_or_default() {
            let message = statement.query_row([id], stored_message).optional()?;
            rows.extend(message.map(|message| (RowId(id as u64), message)));
        }
        Ok(Some(Snapshot { summary, rows }))
    }

    /// What is live or kept by a snapshot, in the places where it was said, but for what we put there ourselves
    /// and what the user took back.
    pub(crate) fn said_in(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreFault> {
        let mut live = self.conn.prepare_cached(&self.variants.live)?;
        let live = live.query_map([id.as_str()], |row| row.get(0))?;
        let mut known = live.collect::<rusqlite::Result<HashSet<i64>>>()?;
        let mut ours = HashSet::new();
        for (_, rows, summary) in lists_of(&self.conn, id.as_str())? {
            known.extend(rows);
            ours.extend(summary);
        }
        let mut standing = self.conn.prepare_cached(&self.variants.standing)?;
        let mut places = Vec::new();
        for row in known.into_iter().filter(|row| !ours.contains(row)) {
            let found = standing.query_row([row], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)));
            if let Some((place, false)) = found.optional()? {
                places.push((place, row));
            }
        }
        places.sort_unstable();
        let mut statement = self.conn.prepare_cached(&self.variants.message)?;
        let mut said = Vec::new();
        for (_, row) in places {
            let message = statement.query_row([row], stored_message).optional()?;
            said.extend(message.map(|message| (RowId(row as u64), message)));
        }
        Ok(said)
    }

    /// The ids in a snapshot's list, in order.
    pub(crate) fn rows_in(&self, name: &str) -> Result<Option<Vec<i64>>, StoreFault> {
        let sql = "SELECT rows FROM tl_snapshot WHERE name = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let text: Option<String> = statement.query_row([name], |row| row.get(0)).optional()?;
        text.map(|text| envelope::numbers(&text).map_err(malformed("a snapshot"))).transpose()
    }

    pub(crate) fn promoted_by(&self, id: &SessionId, operation: u64) -> Result<Option<Promoted>, StoreFault> {
        let found = self.snapshots_of(id)?.into_iter().find(|found| found.operation == Some(operation));
        Ok(found.map(|found| Promoted {
            snapshot: found.name,
            messages_before: found.messages_before,
            messages_after: found.messages_after,
            tokens_before: found.tokens_before,
            tokens_after: found.tokens_after,
            kind: found.kind,
            remark: found.remark,
        }))
    }
}

const COLUMNS: &str = "name, session, view, operation, at, kind, json_array_length(rows), messages_before,
                       messages_after, tokens_before, tokens_after, remark";

fn described(row: &Row<'_>) -> Result<SnapshotSummary, StoreFault> {
    Ok(SnapshotSummary {
        name: row.get(0)?,
        session: session_id(&row.get::<_, String>(1)?)?,
        view: View(unsigned(row, 2)?),
        operation: row.get::<_, Option<i64>>(3)?.map(|number| number as u64),
        at: Time(row.get(4)?),
        kind: envelope::replaced_by(&row.get::<_, String>(5)?).map_err(malformed("a snapshot"))?,
        messages: unsigned(row, 6)? as usize,
        messages_before: unsigned(row, 7)? as usize,
        messages_after: unsigned(row, 8)? as usize,
        tokens_before: unsigned(row, 9)?,
        tokens_after: unsigned(row, 10)?,
        remark: row.get(11)?,
    })
}
