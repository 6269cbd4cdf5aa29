//! Calls of an open group: which are granted, which ask a person, which are left to a client, which are done.
//!
//! A call that simply runs, or is to be run, has no row. When its group closes the transcript has
//! everything, and the rows go.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, session_id, unsigned};
use crate::write::{CommitWriter, SessionChange};
use rusqlite::params;
use throughline_core::id::{Seq, SessionId, TurnId};
use throughline_core::message::ToolResult;
use throughline_core::port::{CallId, Pending};
use throughline_core::tool::{Ask, Grant, Question, Verdict};
use throughline_core::turn::{Group, Slot};

const GRANTED: i64 = 0;
const ASKING: i64 = 1;
const DONE: i64 = 2;
const CLIENT: i64 = 3;

/// As much of a question as an event repeats: enough to know which it was.
const QUESTION_CHARS: usize = 200;

impl CommitWriter<'_> {
    pub(crate) fn asked(
        &mut self,
        change: &SessionChange<'_>,
        call: (TurnId, u32, usize),
        ask: &Ask,
    ) -> Result<(), StoreFault> {
        let (turn, step, index) = call;
        self.call(change, index, ASKING, ask.asked.0, &envelope::ask_text(ask))?;
        let detail = format!("call {turn}/{step}/{index}: {}", in_short(&ask.question));
        self.note(Some(change.id()), "call_asked", &detail, change.at)
    }

    pub(crate) fn granted(
        &mut self,
        change: &SessionChange<'_>,
        call: (TurnId, u32, usize),
        grant: Grant,
    ) -> Result<(), StoreFault> {
        let (turn, step, index) = call;
        let reach = envelope::grant_name(grant);
        self.call(change, index, GRANTED, change.at.0, reach)?;
        let detail = format!("call {turn}/{step}/{index}: {reach}");
        self.note(Some(change.id()), "call_granted", &detail, change.at)
    }

    /// The question is over, and its call runs on. What was answered is the call's, and is not written down.
    pub(crate) fn resumed(
        &mut self,
        change: &SessionChange<'_>,
        call: (TurnId, u32, usize),
        verdict: &Verdict,
    ) -> Result<(), StoreFault> {
        let (turn, step, index) = call;
        let sql = "DELETE FROM tl_call WHERE session = ?1 AND step = ?2 AND position = ?3 AND state = 1";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps, index as i64])?;
        let how = match verdict {
            Verdict::Said(_) => "answered",
            Verdict::Granted(_) => "allowed",
            Verdict::Denied { .. } => "refused",
            Verdict::Expired => "not answered in time, or withdrawn",
            Verdict::Unattended => "not asked: no person could answer",
        };
        self.note(Some(change.id()), "call_resumed", &format!("call {turn}/{step}/{index}: {how}"), change.at)
    }

    pub(crate) fn left(&mut self, change: &SessionChange<'_>, index: usize) -> Result<(), StoreFault> {
        self.call(change, index, CLIENT, change.at.0, "")
    }

    pub(crate) fn result(
        &mut self,
        change: &SessionChange<'_>,
        index: usize,
        result: &ToolResult,
    ) -> Result<(), StoreFault> {
        self.call(change, index, DONE, change.at.0, &envelope::result_text(result))
    }

    /// What is done stays as it is: a second result would be of a call that ran twice.
    fn call(
        &mut self,
        change: &SessionChange<'_>,
        index: usize,
        state: i64,
        at: i64,
        detail: &str,
    ) -> Result<(), StoreFault> {
        let sql = "INSERT INTO tl_call (session, step, position, at, state, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT(session, step, position) DO UPDATE SET at = excluded.at, state = excluded.state,
                          detail = excluded.detail WHERE state <> 2";
        let written = self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.steps,
            index as i64,
            at,
            state,
            detail
        ])?;
        match written {
            1 => Ok(()),
            _ => {
                Err(StoreFault::Malformed(format!("call {index} of session {} has its result", change.id())))
            }
        }
    }

    pub(crate) fn forget_calls(&self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let sql = "DELETE FROM tl_call WHERE session = ?1 AND step = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps])?;
        Ok(())
    }
}

impl StoreReader {
    /// The open group of a step, each call as it stands.
    pub(crate) fn group(&self, session: &SessionId, number: i64, open: &str) -> Result<Group, StoreFault> {
        let mut group = Group::new(envelope::answer(open).map_err(malformed("an open answer"))?);
        let sql = "SELECT position, state, detail FROM tl_call WHERE session = ?1 AND step = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), number])?;
        while let Some(row) = rows.next()? {
            let detail: String = row.get(2)?;
            let stands = slot(row.get(1)?, &detail)?;
            let slot = group.slots.get_mut(unsigned(row, 0)? as usize);
            *slot.ok_or_else(|| StoreFault::Malformed("a result without a call".into()))? = stands;
        }
        Ok(group)
    }

    pub(crate) fn pending(&self) -> Result<Vec<Pending>, StoreFault> {
        let sql = "SELECT c.session, p.turn, p.step, c.position, c.detail, p.open
                   FROM tl_call c JOIN tl_step p ON p.session = c.session AND p.number = c.step
                   JOIN sessions s ON s.id = c.session
                   WHERE c.state = 1 AND p.open IS NOT NULL ORDER BY c.at, c.session, c.step, c.position";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut pending = Vec::new();
        while let Some(row) = rows.next()? {
            let (detail, open): (String, String) = (row.get(4)?, row.get(5)?);
            let answer = envelope::answer(&open).map_err(malformed("an open answer"))?;
            let ask = envelope::ask(&detail).map_err(malformed("a question"))?;
            let call = CallId {
                session: session_id(&row.get::<_, String>(0)?)?,
                turn: TurnId(Seq(unsigned(row, 1)?)),
                step: unsigned(row, 2)? as u32,
                index: unsigned(row, 3)? as usize,
                question: ask.question.number(),
            };
            let asking = answer.calls.get(call.index);
            let tool =
                asking.ok_or_else(|| StoreFault::Malformed("a question without a call".into()))?.name.clone();
            pending.push(Pending { call, tool, ask });
        }
        Ok(pending)
    }
}

/// How a row of `tl_call` says that its call stands.
pub(crate) fn slot(state: i64, detail: &str) -> Result<Slot, StoreFault> {
    Ok(match state {
        GRANTED => Slot::Open(Some(envelope::grant_from(detail).map_err(malformed("a grant"))?)),
        ASKING => Slot::Asking(envelope::ask(detail).map_err(malformed("a question"))?),
        CLIENT => Slot::Client,
        _ => Slot::Done(envelope::result(detail).map_err(malformed("a tool's result"))?),
    })
}

/// What is asked, without how to answer it.
pub(crate) fn in_short(question: &Question) -> String {
    let text = match question {
        Question::Approval { what, .. } => what,
        Question::Clarify { question, .. } => question,
        Question::Elicitation { asked, .. } => &asked.question,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(QUESTION_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
