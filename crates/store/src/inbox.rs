//! Inbox rows: each input once, under its key, with what became of it.
//!
//! A key is written first and refuses the whole commit if it is known. What several acts of a
//! commit say about one input is gathered, and becomes one statement.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::input_row;
use crate::seen::seen_as;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;
use throughline_core::id::{Seq, SessionId, TurnId};
use throughline_core::input::{Input, Kind};
use throughline_core::port::StoreError;
use throughline_core::session::Outcome;

/// What a commit says about one input.
pub(crate) struct InboxRow<'a> {
    pub seq: Seq,
    pub accepted: Option<&'a Arc<Input>>,
    pub turn: Option<TurnId>,
    pub message: Option<i64>,
    /// The step whose call asked what this says.
    pub answers: Option<i64>,
    pub outcome: Option<&'a Outcome>,
}

impl CommitWriter<'_> {
    pub(crate) fn accept<'b>(
        &mut self,
        change: &mut SessionChange<'b>,
        input: &'b Arc<Input>,
    ) -> Result<(), StoreFault> {
        if input.left.is_some() {
            return Err(unread(input.seq));
        }
        let body = body_of(input);
        let sql =
            "INSERT INTO tl_seen (key, session, seq, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let added = self.conn.prepare_cached(sql)?.execute(params![
            seen_as(input.key.as_str()),
            change.id(),
            input.seq.0 as i64,
            body
        ])?;
        if added == 0 {
            return Err(self.duplicate(input, body)?);
        }
        change.inbox(input.seq).accepted = Some(input);
        Ok(())
    }

    pub(crate) fn duplicate(&self, input: &Input, body: Option<[u8; 32]>) -> Result<StoreFault, StoreFault> {
        let sql = "SELECT session, seq, body FROM tl_seen WHERE key = ?1";
        let (session, seq, known) =
            self.conn.prepare_cached(sql)?.query_row([seen_as(input.key.as_str())], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<[u8; 32]>>(2)?))
            })?;
        let session = crate::read::session_id(&session)?;
        Ok(StoreError::Duplicate { session, seq: Seq(seq as u64), same_body: known == body }.into())
    }

    pub(crate) fn inbox_rows(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        for row in &change.inbox {
            match row.accepted {
                Some(input) => self.new_inbox_row(change, row, input)?,
                None => self.old_inbox_row(change, row)?,
            }
        }
        Ok(())
    }

    pub(crate) fn new_inbox_row(
        &self,
        change: &SessionChange<'_>,
        row: &InboxRow<'_>,
        input: &Input,
    ) -> Result<(), StoreFault> {
        let sql =
            "INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome,
                                         implicit, written, envelope, answers, joined)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12, ?13, ?14)";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            row.seq.0 as i64,
            input.at.0,
            row.state(),
            row.turn.map(|turn| turn.0.0 as i64),
            row.turn.map(|_| change.at.0),
            row.message,
            row.answering_step(change),
            row.outcome.map(|_| change.at.0),
            row.outcome.map(envelope::outcome_text),
            if row.is_moved() { None } else { implicit_of(input) },
            envelope::input_text(input),
            row.answers,
            row.turn.and_then(|_| change.joined(row.seq)),
        ])?;
        Ok(())
    }

    pub(crate) fn old_inbox_row(
        &self,
        change: &SessionChange<'_>,
        row: &InboxRow<'_>,
    ) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_inbox SET state = ?3, turn = COALESCE(?4, turn), began = COALESCE(?5, began),
                          message = COALESCE(?6, message), step = COALESCE(?7, step), settled = ?8, outcome = ?9,
                          implicit = CASE WHEN ?10 THEN NULL ELSE implicit END, joined = COALESCE(?11, joined)
                   WHERE session = ?1 AND seq = ?2";
        let changed = self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            row.seq.0 as i64,
            row.state(),
            row.turn.map(|turn| turn.0.0 as i64),
            row.turn.map(|_| change.at.0),
            row.message,
            row.answering_step(change),
            row.outcome.map(|_| change.at.0),
            row.outcome.map(envelope::outcome_text),
            row.is_moved(),
            row.turn.and_then(|_| change.joined(row.seq)),
        ])?;
        match changed {
            1 => Ok(()),
            _ => Err(StoreFault::Malformed(format!("session {} has no input {}", change.id(), row.seq))),
        }
    }

    /// It waits elsewhere from now on. Long texts go from row to row, one input at a time, and are in memory no longer
    /// than that.
    pub(crate) fn move_input(
        &mut self,
        change: &SessionChange<'_>,
        input: &Input,
        to: &SessionId,
        seq: i64,
    ) -> Result<(), StoreFault> {
        let whole = match input.left {
            Some(_) => Arc::unwrap_or_clone(self.whole(change, input.seq)?),
            None => input.clone(),
        };
        let whole = Input { trace: input.trace.clone(), ..whole }; // what it follows from may have moved, too
        let sql = "INSERT INTO tl_inbox (session, seq, at, state, implicit, written, envelope)
                   VALUES (?1, ?2, ?3, 0, ?4, 0, ?5)";
        self.conn.prepare_cached(sql)?.execute(params![
            to.as_str(),
            seq,
            input.at.0,
            implicit_of(&whole),
            envelope::input_text(&whole)
        ])?;
        let sql = "UPDATE tl_seen SET session = ?2, seq = ?3 WHERE key = ?1";
        self.conn.prepare_cached(sql)?.execute(params![seen_as(input.key.as_str()), to.as_str(), seq])?;
        Ok(())
    }

    /// An input of this session with all its texts: one of this very commit, or a row.
    fn whole(&self, change: &SessionChange<'_>, seq: Seq) -> Result<Arc<Input>, StoreFault> {
        let whole = match change.accepted(seq) {
            Some(input) => Some(input.clone()),
            None => input_row(self.conn, change.id(), seq)?,
        };
        whole.ok_or_else(|| StoreFault::Malformed(format!("session {} has no input {seq}", change.id())))
    }

    /// Marks the input wherever it has been moved to, too.
    pub(crate) fn written(&mut self, session: &SessionId, seq: Seq) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_inbox SET written = 1 WHERE session = ?1 AND seq = ?2
                   RETURNING CASE WHEN outcome GLOB '{\"moved\":*' THEN outcome END";
        let mut place = Some((session.clone(), seq));
        while let Some((session, seq)) = place.take() {
            let moved: Option<Option<String>> = self
                .conn
                .prepare_cached(sql)?
                .query_row(params![session.as_str(), seq.0 as i64], |row| row.get(0))
                .optional()?;
            if let Some(text) = moved.flatten()
                && let Ok(Outcome::Moved { session, seq }) = envelope::outcome(&text)
            {
                place = Some((session, seq));
            }
        }
        Ok(())
    }
}

impl InboxRow<'_> {
    pub(crate) fn state(&self) -> i64 {
        match (self.outcome, self.turn) {
            (Some(_), _) => 2,
            (None, Some(_)) => 1,
            (None, None) => 0,
        }
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Moved { .. }))
    }

    pub(crate) fn answering_step(&self, change: &SessionChange<'_>) -> Option<i64> {
        matches!(self.outcome, Some(Outcome::Answered(_))).then_some(change.steps)
    }
}

/// A caller would commit an input without its texts. That is a fault of the program, and loses nothing: they stay where
/// they are.
pub(crate) fn unread(seq: Seq) -> StoreFault {
    StoreFault::Malformed(format!("the texts of input {seq} were not read before the commit"))
}

fn body_of(input: &Input) -> Option<[u8; 32]> {
    match &input.kind {
        Kind::Request(request) => request.body.map(|body| body.0),
        Kind::Chat(_) | Kind::Command(_) => None,
    }
}

fn implicit_of(input: &Input) -> Option<[u8; 32]> {
    match &input.kind {
        Kind::Request(request) => request.implicit_key.map(|key| key.0),
        Kind::Chat(_) | Kind::Command(_) => None,
    }
}
