//! Replies on their way out, and their previews. What is settled stays settled.

use crate::envelope;
use crate::fault::StoreFault;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::params;
use throughline_core::id::Boot;
use throughline_core::port::{DeliveryChange, DraftChange, Outgoing};
use throughline_core::session::Reply;
use throughline_core::time::Time;

impl CommitWriter<'_> {
    /// A key that is there already is another word for something that was said: it is said once.
    pub(crate) fn deliver(&mut self, change: &SessionChange<'_>, reply: &Reply) -> Result<(), StoreFault> {
        let sql =
            "INSERT INTO tl_outbox (key, session, state, attempts, marked, not_before, created, updated,
                                          destination, text, trace)
                   VALUES (?1, ?2, 0, 0, 0, ?3, ?3, ?3, ?4, ?5, ?6) ON CONFLICT(key) DO NOTHING";
        let destination = envelope::destination_text(&reply.destination);
        let added = self.conn.prepare_cached(sql)?.execute(params![
            reply.key,
            change.id(),
            change.at.0,
            destination,
            reply.text,
            envelope::trace_text(&reply.trace)
        ])?;
        match added {
            0 => self.note(Some(change.id()), "reply_already_sent", &reply.key, change.at),
            _ => Ok(()),
        }
    }

    /// What is delivered or refused stays so: a late word about it is only counted.
    pub(crate) fn delivery(
        &mut self,
        key: &str,
        boot: Boot,
        to: &DeliveryChange,
        at: Time,
    ) -> Result<(), StoreFault> {
        let changed = match to {
            DeliveryChange::Attempting { marked } => {
                // A row of unknown outcome keeps the time since which it is unknown.
                let sql = "UPDATE tl_outbox SET attempts = attempts + 1, boot = ?2, marked = marked OR ?3,
                                  updated = CASE state WHEN 1 THEN updated ELSE ?4 END, state = 1
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, boot.0 as i64, marked, at.0])?
            }
            DeliveryChange::Delivered { platform_id } => {
                let sql = "UPDATE tl_outbox SET state = 2, boot = NULL, platform_id = ?2, error = NULL, updated = ?3
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, platform_id, at.0])?
            }
            DeliveryChange::Postponed { until, error, unknown_since } => {
                let sql =
                    "UPDATE tl_outbox SET state = ?2, boot = ?3, not_before = ?4, error = ?5, updated = ?6
                           WHERE key = ?1 AND state < 2";
                let boot = unknown_since.map(|_| boot.0 as i64);
                let (state, updated) = (i64::from(boot.is_some()), unknown_since.unwrap_or(at));
                self.conn
                    .prepare_cached(sql)?
                    .execute(params![key, state, boot, until.0, error, updated.0])?
            }
            DeliveryChange::Refused { error } => {
                let sql = "UPDATE tl_outbox SET state = 3, boot = NULL, error = ?2, updated = ?3
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, error, at.0])?
            }
        };
        // A reply that has come to its end has no preview any more: it was one, or stands beside it.
        if matches!(to, DeliveryChange::Delivered { .. } | DeliveryChange::Refused { .. }) {
            self.forget_draft(Outgoing::draft_key(key))?;
        }
        match (changed, to) {
            (1, _) => Ok(()),
            // The sender must not send: the reply is settled, or was never written.
            (_, DeliveryChange::Attempting { .. }) => {
                Err(StoreFault::Malformed(format!("reply {key} does not wait to be sent")))
            }
            _ => self.note(None, "late_delivery_dropped", key, at),
        }
    }

    /// A preview is written down before it is posted, and its id after.
    pub(crate) fn draft(&mut self, key: &str, to: &DraftChange, at: Time) -> Result<(), StoreFault> {
        match to {
            DraftChange::Intended { session, destination } => {
                let sql = "INSERT INTO tl_draft (key, session, destination, at) VALUES (?1, ?2, ?3, ?4)
                           ON CONFLICT(key) DO UPDATE SET platform_id = NULL, destination = excluded.destination,
                                                          at = excluded.at";
                let destination = envelope::destination_text(destination);
                self.conn.prepare_cached(sql)?.execute(params![key, session.as_str(), destination, at.0])?;
            }
            DraftChange::Posted { id } => {
                let sql = "UPDATE tl_draft SET platform_id = ?2, at = ?3 WHERE key = ?1";
                if self.conn.prepare_cached(sql)?.execute(params![key, id, at.0])? == 0 {
                    self.note(None, "late_preview_dropped", key, at)?; // its reply did not wait for it
                }
            }
            DraftChange::Left => self.forget_draft(key)?,
        }
        Ok(())
    }

    fn forget_draft(&mut self, key: &str) -> Result<(), StoreFault> {
        self.conn.prepare_cached("DELETE FROM tl_draft WHERE key = ?1")?.execute([key])?;
        Ok(())
    }
}
