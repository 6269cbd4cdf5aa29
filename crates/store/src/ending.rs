//! A session that ends for another: what waits moves on, and the chat leads on.

use crate::fault::StoreFault;
use crate::read::ACCIDENTAL_ENDS;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::params;
use std::sync::Arc;
use throughline_core::id::SessionId;
use throughline_core::input::Input;

impl CommitWriter<'_> {
    pub(crate) fn close(
        &mut self,
        change: &SessionChange<'_>,
        reason: &'static str,
        successor: &SessionId,
        moved: &[Arc<Input>],
    ) -> Result<(), StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let at = change.at.as_seconds();
        let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                   WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN (?4, ?5))";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), at, reason, one, other])?;
        self.conn.prepare_cached(&self.variants.succeed)?.execute(params![
            successor.as_str(),
            at,
            change.id()
        ])?;
        let sql = "INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps,
                          last_row, adopted, touched, active, principal, predecessor, parent)
                   VALUES (?1, 0, 1, 1, ?2, 0, 0, ?3, 0, 0, 0, ?4, ?4,
                           COALESCE(?6, (SELECT principal FROM tl_session WHERE id = ?5)), ?5,
                           COALESCE(?7, (SELECT parent FROM tl_session WHERE id = ?5)))";
        self.conn.prepare_cached(sql)?.execute(params![
            successor.as_str(),
            moved.len() as i64,
            !moved.is_empty(),
            change.at.0,
            change.id(),
            change.principal,
            change.parent
        ])?;
        for (input, seq) in moved.iter().zip(1i64..) {
            self.move_input(change, input, successor, seq)?;
        }
        self.rebind_routes(change.id(), successor, change.at)
    }
}
