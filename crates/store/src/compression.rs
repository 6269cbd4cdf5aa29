//! The record of compressions: at most one under way, each with the owner it belongs to.
//!
//! How a summary takes its place in the transcript is in [`crate::snapshot`].

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, unsigned};
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;
use throughline_core::compression::{Operation, Promoted, Stage};
use throughline_core::id::{RowId, Seq, SessionId, View};
use throughline_core::input::Input;
use throughline_core::session::compress::End;
use throughline_core::time::Time;

pub(crate) const PROMOTED: i64 = 2;
/// Also what the state has silently dropped.
const STALE: i64 = 3;

impl CommitWriter<'_> {
    /// A new operation, or the next stage of one. The transcript is not touched here.
    pub(crate) fn compress(
        &mut self,
        change: &SessionChange<'_>,
        operation: &Operation,
    ) -> Result<(), StoreFault> {
        let (state, summary) = match &operation.stage {
            Stage::Preparing => (0, None),
            Stage::Ready(replacement) => (1, Some(envelope::replacement_text(replacement))),
            Stage::Promoted => (PROMOTED, None),
        };
        let sql = format!(
            "INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at,
                                         summary, cause, focus, began, messages, tokens, orders, reach)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ({}))
             ON CONFLICT(session, operation) DO UPDATE SET generation = excluded.generation,
                    base_view = excluded.base_view, cut = excluded.cut, state = excluded.state,
                    attempts = excluded.attempts, at = excluded.at, summary = excluded.summary,
                    cause = excluded.cause, focus = excluded.focus, began = excluded.began,
                    messages = excluded.messages, tokens = excluded.tokens, orders = excluded.orders,
                    reason = NULL",
            self.variants.reach.replace("?2", "?5")
        );
        self.conn.prepare_cached(&sql)?.execute(params![
            change.id(),
            operation.number as i64,
            change.state.generation.0 as i64,
            operation.base.0 as i64,
            operation.cut.0 as i64,
            state,
            operation.attempts,
            change.at.0,
            summary,
            envelope::cause_number(operation.cause),
            operation.focus,
            operation.began.0,
            operation.messages as i64,
            operation.tokens as i64,
            orders_text(operation),
        ])?;
        Ok(())
    }

    /// It ended without a change. One that was never begun leaves only the event, and one that is in
    /// place stays there.
    pub(crate) fn abandon(
        &self,
        change: &SessionChange<'_>,
        number: u64,
        end: End,
        reason: &str,
    ) -> Result<(), StoreFault> {
        let (state, name) = match end {
            End::Stale => (STALE, "compression_stale"),
            End::Skipped => (4, "compression_skipped"),
            End::Failed => (5, "compression_failed"),
        };
        let sql = "UPDATE tl_compression SET state = ?3, at = ?4, reason = ?5, summary = NULL, orders = NULL
                   WHERE session = ?1 AND operation = ?2 AND state < 2";
        let values = params![change.id(), number as i64, state, change.at.0, reason];
        self.conn.prepare_cached(sql)?.execute(values)?;
        self.note(Some(change.id()), name, &format!("operation {number}: {reason}"), change.at)
    }

    /// The transcript has it now.
    pub(crate) fn compression_promoted(
        &self,
        change: &SessionChange<'_>,
        operation: &Operation,
        promoted: &Promoted,
    ) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_compression SET state = ?3, at = ?4, summary = NULL WHERE session = ?1 AND operation = ?2";
        let values = params![change.id(), operation.number as i64, PROMOTED, change.at.0];
        if self.conn.prepare_cached(sql)?.execute(values)? == 0 {
            // Begun and in place within one commit.
            self.conn.prepare_cached(
                "INSERT INTO tl_compression (session, operation, generation, base_view, cut, state, attempts, at,
                                             cause, focus, began, messages, tokens, orders)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                change.id(),
                operation.number as i64,
                change.state.generation.0 as i64,
                operation.base.0 as i64,
                operation.cut.0 as i64,
                PROMOTED,
                operation.attempts,
                change.at.0,
                envelope::cause_number(operation.cause),
                operation.focus,
                operation.began.0,
                operation.messages as i64,
                operation.tokens as i64,
                orders_text(operation),
            ])?;
        }
        let detail = format!("operation {}: {}", operation.number, promoted.snapshot);
        self.note(Some(change.id()), "compression_promoted", &detail, change.at)
    }

    /// What the state no longer has is over; what it still has belongs to its owner, and is needed as
    /// much as the state says.
    pub(crate) fn hand_over_compression(&self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let before = change.prior.as_ref().and_then(|prior| prior.compression);
        if let Some(operation) = before.filter(|operation| !change.has_compression(*operation)) {
            let sql = "UPDATE tl_compression SET state = ?3, at = ?4, summary = NULL
                       WHERE session = ?1 AND operation = ?2 AND state < 2";
            self.conn.prepare_cached(sql)?.execute(params![change.id(), operation, STALE, change.at.0])?;
        }
        if let Some(operation) = &change.state.compression {
            let sql =
                "UPDATE tl_compression SET generation = ?3, cause = ?4 WHERE session = ?1 AND operation = ?2
                       AND (generation IS NOT ?3 OR cause IS NOT ?4)";
            self.conn.prepare_cached(sql)?.execute(params![
                change.id(),
                operation.number as i64,
                change.state.generation.0 as i64,
                envelope::cause_number(operation.cause)
            ])?;
        }
        Ok(())
    }
}

fn orders_text(operation: &Operation) -> Option<String> {
    let orders = operation.orders.iter().map(|order| order.seq.0 as i64);
    (!operation.orders.is_empty()).then(|| envelope::numbers_text(orders))
}

impl StoreReader {
    /// The operation that a state points to. An order that waits to hear of it waits for nothing else: those
    /// inputs are taken out of `waiting`.
    pub(crate) fn operation(
        &self,
        id: &SessionId,
        number: i64,
        waiting: &mut Vec<Arc<Input>>,
    ) -> Result<Option<Operation>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT base_view, cut, state, attempts, summary, cause, focus, began, messages, tokens, orders
             FROM tl_compression WHERE session = ?1 AND operation = ?2",
        )?;
        let mut rows = statement.query(params![id.as_str(), number])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let stage = match row.get::<_, i64>(2)? {
            0 => Stage::Preparing,
            1 => {
                let text: String = row.get(4)?;
                let replacement = envelope::replacement(&text).map_err(malformed("a summary"))?;
                Stage::Ready(Arc::new(replacement))
            }
            _ => Stage::Promoted,
        };
        let orders = match row.get::<_, Option<String>>(10)? {
            None => Vec::new(),
            Some(text) => envelope::numbers(&text).map_err(malformed("a list of orders"))?,
        };
        let mut ordered = Vec::with_capacity(orders.len());
        for seq in orders.into_iter().map(|seq| Seq(seq as u64)) {
            let place = waiting.iter().position(|input| input.seq == seq);
            ordered.extend(place.map(|place| waiting.remove(place)));
        }
        Ok(Some(Operation {
            number: number as u64,
            cause: envelope::cause(row.get(5)?),
            focus: row.get(6)?,
            base: View(unsigned(row, 0)?),
            cut: RowId(unsigned(row, 1)?),
            stage,
            attempts: unsigned(row, 3)? as u32,
            began: Time(row.get(7)?),
            messages: unsigned(row, 8)? as usize,
            tokens: unsigned(row, 9)?,
            orders: ordered,
        }))
    }

    /// Rows up to a cut can only become fewer: ids are never given twice, and ours are moved only
    /// when they are not live.
    pub(crate) fn is_intact(&self, id: &SessionId, operation: &Operation) -> Result<bool, StoreFault> {
        let sql = "SELECT reach FROM tl_compression WHERE session = ?1 AND operation = ?2";
        let began_with: Option<i64> = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![id.as_str(), operation.number as i64], |row| row.get(0))
            .optional()?;
        let upto = |row: i64| -> Result<i64, StoreFault> {
            let mut statement = self.conn.prepare_cached(&self.variants.reach)?;
            Ok(statement.query_row(params![id.as_str(), row], |row| row.get(0))?)
        };
        let still = upto(operation.cut.0 as i64)?;
        if began_with.is_some_and(|began_with| began_with != still) {
            return Ok(false);
        }
        match &operation.stage {
            Stage::Preparing | Stage::Promoted => Ok(began_with.is_some()),
            Stage::Ready(replacement) => {
                let kept = replacement.after.map_or(Ok(0), |row| upto(row.0 as i64))?;
                Ok(upto(replacement.cut.0 as i64)? - kept == replacement.replaced as i64)
            }
        }
    }
}
