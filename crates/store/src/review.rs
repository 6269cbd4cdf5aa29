//! Reviews: what each is about, how far it is, what became of it.
//!
//! The row that a review is written with lists the rows of the view it fell due on, as a snapshot does,
//! and follows them when they move: so it can be run on exactly them after the view was compressed or
//! taken back, and after the session ended. Once it is over the list goes; the record stays.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, session_id, stored_message, text, unsigned};
use crate::snapshot::Moves;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::VecDeque;
use std::sync::Arc;
use throughline_core::id::{Seq, SessionId, TurnId, View};
use throughline_core::port::{ReviewRecord, ReviewView};
use throughline_core::session::review::{Outcome, Review, Subject};
use throughline_core::time::Time;
use throughline_core::turn::client_tools;

const DONE: i64 = 1;
const PARKED: i64 = 2;

impl CommitWriter<'_> {
    /// One that falls due, with the view as it is at this place of the commit; or what has changed
    /// about one that has.
    pub(crate) fn review(&self, change: &SessionChange<'_>, review: &Review) -> Result<(), StoreFault> {
        let sql =
            "UPDATE tl_review SET tries = ?3, lost = ?4, not_before = ?5 WHERE session = ?1 AND number = ?2";
        let number = review.number as i64;
        let values = params![change.id(), number, review.tries, review.lost, review.not_before.0];
        if self.conn.prepare_cached(sql)?.execute(values)? > 0 {
            return Ok(());
        }
        let rows = self.live(change.id())?;
        let sql = "INSERT INTO tl_review (session, number, subject, state, turn, step, view, last_row, rows, prompt,
                                          due, destination, model, tries, lost, not_before)
                   VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, (SELECT system_prompt FROM sessions WHERE id = ?1),
                           ?9, ?10, ?11, ?12, ?13, ?14)";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            number,
            review.subject.as_str(),
            review.turn.0.0 as i64,
            change.steps,
            review.view.0 as i64,
            rows.last().copied().unwrap_or(0),
            envelope::numbers_text(rows),
            review.due.0,
            review.place.as_ref().map(envelope::destination_text),
            review.model,
            review.tries,
            review.lost,
            review.not_before.0,
        ])?;
        Ok(())
    }

    pub(crate) fn reviewed(
        &self,
        change: &SessionChange<'_>,
        number: u64,
        outcome: &Outcome,
    ) -> Result<(), StoreFault> {
        let (state, text, report) = match outcome {
            Outcome::Done(report) => (DONE, report.changes.join("\n"), Some(report)),
            Outcome::Parked(why) => (PARKED, why.clone(), None),
        };
        let usage = report.map(|report| report.usage).unwrap_or_default();
        let sql =
            "UPDATE tl_review SET state = ?3, outcome = ?4, settled = ?5, asked = ?6, answered_by = ?7, input = ?8,
                                  output = ?9, cache_read = ?10, cache_write = ?11, reasoning = ?12,
                                  rows = NULL, prompt = NULL
             WHERE session = ?1 AND number = ?2 AND state = 0";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            number as i64,
            state,
            text,
            change.at.0,
            report.map_or(0, |report| report.asked),
            report.map(|report| report.model.as_str()),
            usage.input as i64,
            usage.output as i64,
            usage.cache_read as i64,
            usage.cache_write as i64,
            usage.reasoning as i64,
        ])?;
        Ok(())
    }

    /// Reviews that are due go on listing the rows that they listed.
    pub(crate) fn reviews_follow(&self, session: &str, moves: &Moves) -> Result<(), StoreFault> {
        let sql = "SELECT number, rows, last_row FROM tl_review WHERE session = ?1 AND state = 0";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let listed = envelope::numbers(&row.get::<_, String>(1)?).map_err(malformed("a review"))?;
            let sql = "UPDATE tl_review SET rows = ?3, last_row = ?4 WHERE session = ?1 AND number = ?2";
            let listed = envelope::numbers_text(listed.into_iter().map(|row| moves.now(row)));
            let last = moves.now(row.get(2)?);
            self.conn.prepare_cached(sql)?.execute(params![session, number, listed, last])?;
        }
        Ok(())
    }
}

impl StoreReader {
    /// Those that are due, in order.
    pub(crate) fn due_reviews(&self, id: &SessionId) -> Result<VecDeque<Review>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT number, subject, turn, view, due, destination, model, tries, lost, not_before FROM tl_review
             WHERE session = ?1 AND state = 0 ORDER BY number",
        )?;
        let mut rows = statement.query([id.as_str()])?;
        let mut due = VecDeque::new();
        while let Some(row) = rows.next()? {
            let place = text(row, 5)?.map(|text| envelope::destination(&text)).transpose();
            due.push_back(Review {
                number: unsigned(row, 0)?,
                subject: subject(row, 1)?,
                turn: TurnId(Seq(unsigned(row, 2)?)),
                view: View(unsigned(row, 3)?),
                due: Time(row.get(4)?),
                place: place.map_err(malformed("a review"))?,
                model: text(row, 6)?,
                tries: unsigned(row, 7)? as u32,
                lost: unsigned(row, 8)? as u32,
                not_before: Time(row.get(9)?),
            });
        }
        Ok(due)
    }

    pub(crate) fn reviewed_view(
        &self,
        id: &SessionId,
        number: u64,
    ) -> Result<Option<ReviewView>, StoreFault> {
        let sql =
            "SELECT rows, prompt, step, turn FROM tl_review WHERE session = ?1 AND number = ?2 AND state = 0";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut found = statement.query(params![id.as_str(), number as i64])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let listed = envelope::numbers(&row.get::<_, String>(0)?).map_err(malformed("a review"))?;
        let listed_rows = listed.len();
        let mut statement = self.conn.prepare_cached(&self.variants.message)?;
        let mut messages = Vec::with_capacity(listed_rows);
        for id in listed {
            messages.extend(statement.query_row([id], stored_message).optional()?);
        }
        Ok(Some(ReviewView {
            gone: listed_rows - messages.len(),
            messages,
            system_prompt: text(row, 1)?.map(Arc::from),
            asked: self.mark_of(id, row.get(2)?)?,
            client_tools: client_tools(&self.inputs_of(id, TurnId(Seq(unsigned(row, 3)?)))?).cloned(),
        }))
    }

    pub(crate) fn open_reviews(&self) -> Result<Vec<ReviewRecord>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session, number, subject, due, tries, state = 2, outcome FROM tl_review WHERE state <> 1
             ORDER BY due, session, number",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(ReviewRecord {
                session: session_id(&row.get::<_, String>(0)?)?,
                number: unsigned(row, 1)?,
                subject: subject(row, 2)?,
                due: Time(row.get(3)?),
                tries: unsigned(row, 4)? as u32,
                parked: if row.get(5)? { Some(text(row, 6)?.unwrap_or_default()) } else { None },
            });
        }
        Ok(found)
    }

    /// What people had said before our time, in a session that only Hermes knows.
    pub(crate) fn prior_turns(&self, id: &SessionId) -> Result<Option<u64>, StoreFault> {
        let live = if self.variants.can.has_active { " AND active IS NOT 0" } else { "" };
        let sql = format!("SELECT count(*) FROM messages WHERE session_id = ?1 AND role = 'user'{live}");
        let count: i64 = self.conn.prepare_cached(&sql)?.query_row([id.as_str()], |row| row.get(0))?;
        Ok(Some(count.max(0) as u64).filter(|count| *count > 0))
    }
}

fn subject(row: &Row<'_>, column: usize) -> Result<Subject, StoreFault> {
    let name: String = row.get(column)?;
    Subject::named(&name).ok_or_else(|| StoreFault::Malformed(format!("a review is of {name:?}")))
}
