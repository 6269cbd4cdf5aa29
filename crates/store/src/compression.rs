//! The record of compressions: one under way at a time, each with the owner it belongs to.
//!
//! Only the record: how a summary enters the transcript is not decided here yet.

use crate::fault::Fault;
use crate::write::{Change, Scribe};
use rusqlite::params;
use throughline_core::session::{Act, Compression, CompressionStage};

impl Scribe<'_> {
    /// A new operation, or the next stage of one. The transcript is not touched here.
    pub(crate) fn compress(&mut self, change: &Change<'_>, compression: &Compression) -> Result<(), Fault> {
        let state = match compression.stage {
            CompressionStage::Preparing => 0,
            CompressionStage::Ready => 1,
        };
        let sql =
            "INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7)
                   ON CONFLICT(session, operation) DO UPDATE SET generation = excluded.generation,
                          base_view = excluded.base_view, cut = excluded.cut, state = excluded.state,
                          attempts = attempts + (excluded.state = 0), at = excluded.at";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            compression.operation as i64,
            change.state.generation.0 as i64,
            compression.base.0 as i64,
            compression.cut.0 as i64,
            state,
            change.at.0
        ])?;
        Ok(())
    }

    pub(crate) fn compression_becomes(
        &self,
        change: &Change<'_>,
        operation: i64,
        state: i64,
    ) -> Result<(), Fault> {
        let sql = "UPDATE tl_compression SET state = ?3, at = ?4 WHERE session = ?1 AND operation = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), operation, state, change.at.0])?;
        Ok(())
    }

    /// What the state no longer has is over; what it still has belongs to the new owner.
    pub(crate) fn hand_over_compression(&self, change: &Change<'_>, acts: &[Act]) -> Result<(), Fault> {
        let Some(prior) = &change.prior else { return Ok(()) };
        let Some(operation) = prior.compression else { return Ok(()) };
        let generation = change.state.generation.0 as i64;
        if !change.has_compression(operation) {
            return self.drop_compression(change, acts, operation);
        }
        if prior.generation != generation {
            let sql = "UPDATE tl_compression SET generation = ?3 WHERE session = ?1 AND operation = ?2";
            self.conn.prepare_cached(sql)?.execute(params![change.id(), operation, generation])?;
        }
        Ok(())
    }

    /// One that began in this commit may have ended in it, too.
    pub(crate) fn end_compression(&self, change: &Change<'_>, acts: &[Act]) -> Result<(), Fault> {
        for act in acts {
            if let Act::Compress(Compression { operation, .. }) = act
                && !change.has_compression(*operation as i64)
            {
                self.drop_compression(change, acts, *operation as i64)?;
            }
        }
        Ok(())
    }

    pub(crate) fn drop_compression(
        &self,
        change: &Change<'_>,
        acts: &[Act],
        operation: i64,
    ) -> Result<(), Fault> {
        let promoted =
            |act: &Act| matches!(act, Act::Promote(promoted) if promoted.operation as i64 == operation);
        match acts.iter().any(promoted) {
            true => Ok(()),
            false => self.compression_becomes(change, operation, 3),
        }
    }
}
