//! The end of a session: what waits moves on, the chat leads on, and the hand-over is recorded.

use crate::fault::Fault;
use crate::read::ACCIDENTAL_ENDS;
use crate::write::{Change, Scribe};
use rusqlite::params;
use std::sync::Arc;
use throughline_core::id::SessionId;
use throughline_core::input::Input;
use throughline_core::session::{Finalisation, Phase};

impl Scribe<'_> {
    pub(crate) fn close(
        &mut self,
        change: &mut Change<'_>,
        reason: &'static str,
        successor: &SessionId,
        moved: &[Arc<Input>],
    ) -> Result<(), Fault> {
        change.close_reason = Some(reason);
        let [one, other] = ACCIDENTAL_ENDS;
        let at = change.at.as_seconds();
        let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                   WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN (?4, ?5))";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), at, reason, one, other])?;
        self.conn.prepare_cached(&self.shape.succeed)?.execute(params![
            successor.as_str(),
            at,
            change.id()
        ])?;
        let sql = "INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps,
                          last_row, adopted, touched, principal, predecessor, parent)
                   VALUES (?1, 0, 1, 1, ?2, 0, 0, ?3, 0, 0, 0, ?4,
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
            self.move_input(input, successor, seq)?;
        }
        self.rebind_routes(change.id(), successor, change.at)
    }

    /// Keeps the record of a hand-over in step with the state, and tells Hermes when it is done.
    pub(crate) fn finalisation(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        let Phase::Closed(stage) = change.state.phase else { return Ok(()) };
        if change.prior.as_ref().and_then(|prior| prior.stage) == Some(stage as i64) {
            return Ok(());
        }
        let sql = "INSERT INTO tl_finalisation (session, epoch, stage, attempts, reason, at)
                   VALUES (?1, ?2, ?3, 0, ?4, ?5)
                   ON CONFLICT(session, epoch) DO UPDATE SET stage = max(stage, excluded.stage), at = excluded.at";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.state.epoch.0 as i64,
            stage as i64,
            change.close_reason.unwrap_or_default(),
            change.at.0
        ])?;
        if stage != Finalisation::Done {
            return Ok(());
        }
        if self.shape.can.has_expiry_finalized {
            let sql = "UPDATE sessions SET expiry_finalized = 1 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([change.id()])?;
        }
        self.finalise_routes(change.id(), change.at)
    }
}
