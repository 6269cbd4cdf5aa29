//! What each commit writes, row by row.
//!
//! A session's commit checks its generation first, then lets each act leave its rows, and writes
//! the state last. Several acts on one inbox row become one statement, and so do all counters of
//! Hermes' session row: a plain turn is two small transactions, and their cost is counted in
//! statements.

use crate::column_variants::ColumnVariants;
use crate::commit::Effects;
use crate::envelope;
use crate::fault::StoreFault;
use crate::home_status::SILENCE;
use crate::inbox::{InboxRow, unread};
use crate::open::Home;
use crate::transcript::{NextRow, closes_group};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_core::id::{Generation, RowId, Seq, SessionId};
use throughline_core::input::Input;
use throughline_core::port::{Commit, Committed, StoreError};
use throughline_core::prompt::Digest;
use throughline_core::session::{Act, Outcome, Phase, Session};
use throughline_core::time::Time;
use throughline_core::turn::{Step, Usage};

/// What others have done to a session that its owner does not know of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignNews {
    None,
    Foreign,
}

pub(crate) struct CommitWriter<'a> {
    pub conn: &'a Connection,
    pub variants: &'a ColumnVariants,
    pub home: &'a Home,
    pub effects: Effects,
    pub rows: &'a mut NextRow,
    pub news: ForeignNews,
}

/// What the session's row said before.
pub(crate) struct Prior {
    pub generation: i64,
    pub steps: i64,
    pub compression: Option<i64>,
    pub stage: Option<i64>,
    pub epoch: i64,
    pub last_row: i64,
    pub adopted: i64,
    pub view: i64,
}

/// What one commit is about to leave behind, gathered while its acts are gone through.
pub(crate) struct SessionChange<'a> {
    pub state: &'a Session,
    pub at: Time,
    pub prior: Option<Prior>,
    pub inbox: Vec<InboxRow<'a>>,
    /// Where each input is in `inbox`: a commit may be about all that waits.
    places: BTreeMap<Seq, usize>,
    /// The input whose words are the next row of the transcript.
    pub speaking: Option<Seq>,
    /// An answer without calls; its row of the transcript follows.
    pub answering: Option<&'a Step>,
    /// The number of the last step.
    pub steps: i64,
    pub last_row: i64,
    /// The last row of the transcript that this commit appended.
    pub last_said: Option<i64>,
    pub adopted: i64,
    pub layer: Option<Digest>,
    pub principal: Option<&'a str>,
    pub predecessor: Option<&'a str>,
    pub parent: Option<&'a str>,
    pub messages: i64,
    pub calls: i64,
    pub asked: i64,
    pub usage: Usage,
    pub last_usage: Usage,
    pub model: Option<&'a str>,
}

impl<'a> SessionChange<'a> {
    pub fn of(state: &'a Session, at: Time, prior: Option<Prior>) -> Self {
        let (steps, last_row, adopted) =
            prior.as_ref().map_or((0, 0, 0), |prior| (prior.steps, prior.last_row, prior.adopted));
        Self {
            state,
            at,
            prior,
            inbox: Vec::new(),
            places: BTreeMap::new(),
            speaking: None,
            answering: None,
            steps,
            last_row,
            last_said: None,
            adopted,
            layer: None,
            principal: None,
            predecessor: None,
            parent: None,
            messages: 0,
            calls: 0,
            asked: 0,
            usage: Usage::default(),
            last_usage: Usage::default(),
            model: None,
        }
    }

    pub fn id(&self) -> &'a str {
        self.state.id.as_str()
    }

    pub fn inbox(&mut self, seq: Seq) -> &mut InboxRow<'a> {
        let place = *self.places.entry(seq).or_insert_with(|| {
            let (accepted, turn, message, answers, outcome) = (None, None, None, None, None);
            self.inbox.push(InboxRow { seq, accepted, turn, message, answers, outcome });
            self.inbox.len() - 1
        });
        &mut self.inbox[place]
    }

    /// An input that this very commit accepts.
    pub fn accepted(&self, seq: Seq) -> Option<&'a Arc<Input>> {
        self.places.get(&seq).and_then(|place| self.inbox[*place].accepted)
    }

    /// Its place among the inputs of the running turn.
    pub fn joined(&self, seq: Seq) -> Option<i64> {
        let Phase::Turn(turn) = &self.state.phase else { return None };
        turn.inputs.iter().position(|input| input.seq == seq).map(|place| place as i64)
    }

    pub fn has_compression(&self, operation: i64) -> bool {
        self.state.compression.as_ref().is_some_and(|now| now.number as i64 == operation)
    }

    pub fn is_answered(&self) -> bool {
        self.inbox.iter().any(|row| matches!(row.outcome, Some(Outcome::Answered(_))))
    }
}

impl<'a> CommitWriter<'a> {
    pub fn new(
        conn: &'a Connection,
        variants: &'a ColumnVariants,
        home: &'a Home,
        rows: &'a mut NextRow,
        news: ForeignNews,
    ) -> Self {
        Self { conn, variants, home, effects: Effects::default(), rows, news }
    }

    pub fn write(&mut self, commit: &Commit) -> Result<Committed, StoreFault> {
        match commit {
            Commit::Session { expect, state, acts, at } => return self.session(*expect, state, acts, *at),
            Commit::Delivery { key, boot, change, at } => self.delivery(key, *boot, change, *at)?,
            Commit::Draft { key, change, at } => self.draft(key, change, *at)?,
            Commit::Retention { key, change, at } => self.retention(key, change, *at)?,
            Commit::HandOver { at } => self.hand_over_all(*at)?,
            Commit::Written { session, seq } => self.written(session, *seq)?,
            Commit::Silence { ordered } => {
                self.cursor(SILENCE, SILENCE, if *ordered { SILENCE } else { "" })?
            }
            Commit::Cursor { platform, account, value } => self.cursor(platform, account, value)?,
            Commit::Note { session, name, detail, at } => {
                self.note(session.as_ref().map(SessionId::as_str), name, detail, *at)?;
            }
        }
        Ok(Committed::default())
    }

    fn cursor(&mut self, platform: &str, account: &str, value: &str) -> Result<(), StoreFault> {
        let sql = "INSERT INTO tl_cursor (platform, account, value) VALUES (?1, ?2, ?3)
                   ON CONFLICT(platform, account) DO UPDATE SET value = excluded.value";
        self.conn.prepare_cached(sql)?.execute([platform, account, value])?;
        Ok(())
    }

    fn session(
        &mut self,
        expect: Generation,
        state: &Session,
        acts: &[Act],
        at: Time,
    ) -> Result<Committed, StoreFault> {
        let birth = acts.iter().find_map(|act| match act {
            Act::Open(birth) => Some(birth.as_ref()),
            _ => None,
        });
        let prior = self.fenced(expect, &state.id, birth.is_some())?;
        let mut change = SessionChange::of(state, at, prior);
        self.begin(&mut change, birth, acts)?;
        let mut committed = Committed { foreign: self.news == ForeignNews::Foreign, ..Committed::default() };
        for (place, act) in acts.iter().enumerate() {
            match act {
                Act::Append(message) => {
                    let row = self.append(&mut change, message)?;
                    committed.rows.push(RowId(row as u64));
                }
                Act::Result { index, result, .. } => {
                    // The commit that closes a group puts its results where they belong at once.
                    if !acts[place..].iter().any(closes_group) {
                        self.result(&change, *index, result)?;
                    }
                }
                Act::Promote { operation, replacement, snapshot } => {
                    committed.promoted = Some(self.promote(&mut change, operation, replacement, snapshot)?);
                }
                Act::Restore { snapshot, kept_as } => {
                    committed.promoted = Some(self.restore(&mut change, snapshot, kept_as)?);
                }
                act => self.act(&mut change, act)?,
            }
            if let (Act::Begin { inputs, .. }, Some(Act::Result { .. } | Act::Resume { .. })) =
                (act, acts.get(place + 1))
            {
                self.answers_a_question(&mut change, inputs);
            }
        }
        if let Some(step) = change.answering.take() {
            self.step(&mut change, step, None)?;
        }
        self.hand_over_compression(&change)?;
        self.inbox_rows(&change)?;
        self.count(&change)?;
        self.finalisation(&change)?;
        if change.is_answered() {
            self.refresh_routes(state.id.as_str(), change.last_usage.prompt(), at)?;
        }
        self.state(&change)?;
        Ok(committed)
    }

    fn act<'b>(&mut self, change: &mut SessionChange<'b>, act: &'b Act) -> Result<(), StoreFault> {
        match act {
            // Where the whole list is known.
            Act::Open(_)
            | Act::Append(_)
            | Act::Result { .. }
            | Act::Promote { .. }
            | Act::Restore { .. } => {}
            Act::Say(input) => return Err(unread(input.seq)),
            Act::Ask { turn, step, index, ask } => self.asked(change, (*turn, *step, *index), ask)?,
            Act::Grant { turn, step, index, grant } => {
                self.granted(change, (*turn, *step, *index), *grant)?;
            }
            Act::Resume { turn, step, index, verdict } => {
                self.resumed(change, (*turn, *step, *index), verdict)?
            }
            Act::Leave { index, .. } => self.left(change, *index)?,
            Act::Named => self.forget_statelessness(change.id())?,
            Act::Accept(input) => self.accept(change, input)?,
            Act::Begin { turn, inputs } => {
                for seq in inputs {
                    let row = change.inbox(*seq);
                    row.turn = Some(*turn);
                    row.outcome = None;
                }
                // Only inputs that are new to the transcript come one by one.
                change.speaking = inputs.first().copied().filter(|_| inputs.len() == 1);
            }
            Act::Step(step) if step.open.is_some() => self.step(change, step, None)?,
            Act::Step(step) => change.answering = Some(step),
            Act::Settle { seq, outcome } => {
                change.inbox(*seq).outcome = Some(outcome);
                if matches!(outcome, Outcome::Failed(..)) {
                    self.abandon_group(change)?;
                }
            }
            Act::Tip { turn, thread } => {
                let sql = "INSERT OR REPLACE INTO tl_thread (digest, session, turn, message)
                           VALUES (?1, ?2, ?3, ?4)";
                self.conn.prepare_cached(sql)?.execute(params![
                    thread.0,
                    change.id(),
                    turn.0.0 as i64,
                    change.last_said.unwrap_or(change.last_row)
                ])?;
            }
            Act::Deliver(reply) => self.deliver(change, reply)?,
            Act::Freeze { prompt, layer } => self.freeze(change, prompt, *layer)?,
            Act::Close { reason, successor, moved } => self.close(change, reason, successor, moved)?,
            Act::Rewind { from, rows, kept_as } => self.rewind(change, *from, *rows, kept_as)?,
            Act::Title { session, title } => self.entitle(change, session, title)?,
            Act::Switch { to, how, moved } => self.switch(change, to, how, moved)?,
            Act::Expire { reason, end_reason, had_activity } => {
                self.expire(change, *reason, end_reason, *had_activity)?;
            }
            Act::Reopen => self.reopen(change)?,
            Act::Hook { hook, run } => self.hook(change, hook, run)?,
            Act::Compress(operation) => self.compress(change, operation)?,
            Act::Abandon { number, end, reason } => self.abandon(change, *number, *end, reason)?,
            Act::Retain(kept) => self.retain(change, kept)?,
            Act::HandOver => self.hand_over_kept(change)?,
            Act::Recall { row, sent_as } => self.recalled(row.0 as i64, sent_as)?,
            Act::Review(review) => self.review(change, review)?,
            Act::Reviewed { number, outcome } => self.reviewed(change, *number, outcome)?,
            Act::Restart { order } => {
                self.note(Some(change.id()), "restart_ordered", order.as_str(), change.at)?
            }
            Act::Note { name, detail } => self.note(Some(change.id()), name, detail, change.at)?,
        }
        Ok(())
    }

    /// Words that a call waited for are its result: they have no row of their own.
    fn answers_a_question(&mut self, change: &mut SessionChange<'_>, inputs: &[Seq]) {
        for seq in inputs {
            change.inbox(*seq).answers = Some(change.steps);
        }
        change.speaking = None;
    }

    /// The session's row, if the caller's generation is still its generation.
    fn fenced(
        &mut self,
        expect: Generation,
        id: &SessionId,
        opens: bool,
    ) -> Result<Option<Prior>, StoreFault> {
        let prior = self
            .conn
            .prepare_cached(
                "SELECT generation, steps, compression, stage, last_row, adopted, epoch, view FROM tl_session WHERE id = ?1",
            )?
            .query_row([id.as_str()], |row| {
                Ok(Prior {
                    generation: row.get(0)?,
                    steps: row.get(1)?,
                    compression: row.get(2)?,
                    stage: row.get(3)?,
                    last_row: row.get(4)?,
                    adopted: row.get(5)?,
                    epoch: row.get(6)?,
                    view: row.get(7)?,
                })
            })
            .optional()?;
        let current = prior.as_ref().map_or(0, |prior| prior.generation);
        if current == expect.0 as i64 {
            return Ok(prior);
        }
        if opens && expect == Generation(0) && self.forget_deleted(id.as_str())? {
            return Ok(None);
        }
        Err(StoreError::Fenced { session: id.clone(), current: Generation(current as u64) }.into())
    }

    fn state(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let state = change.state;
        let (phase, turn, stage) = match &state.phase {
            Phase::Idle => (0, None, None),
            Phase::Turn(turn) => (1, Some(turn), None),
            Phase::Closed(stage) => (2, None, Some(*stage as i64)),
        };
        let sql = match change.prior {
            None => {
                "INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, turn, began, step,
                        resumes, stage, failed, compression, unfinished, steps, last_row, adopted, touched,
                        principal, predecessor, layer, parent, halted, rest, upkeep, active)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
                         ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)"
            }
            Some(_) => {
                "UPDATE tl_session SET generation = ?2, epoch = ?3, view = ?4, received = ?5, answered = ?6,
                        phase = ?7, turn = ?8, began = ?9, step = ?10, resumes = ?11, stage = ?12, failed = ?13,
                        compression = ?14, unfinished = ?15, steps = ?16, last_row = ?17, adopted = ?18,
                        touched = ?19, principal = COALESCE(principal, ?20),
                        predecessor = COALESCE(predecessor, ?21), layer = COALESCE(?22, layer),
                        parent = COALESCE(parent, ?23), halted = ?24, rest = ?25, upkeep = ?26, active = ?27
                 WHERE id = ?1"
            }
        };
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            state.generation.0 as i64,
            state.epoch.0 as i64,
            state.view.0 as i64,
            state.received.0 as i64,
            state.answered.0 as i64,
            phase,
            turn.map(|turn| turn.id.0.0 as i64),
            turn.map(|turn| turn.began.0),
            turn.map(|turn| turn.step),
            turn.map(|turn| turn.resumes),
            stage,
            state.failed.map(|turn| turn.0.0 as i64),
            state.compression.as_ref().map(|operation| operation.number as i64),
            !state.is_quiet(),
            change.steps,
            change.last_row,
            change.adopted,
            change.at.0,
            change.principal,
            change.predecessor,
            change.layer.map(|layer| layer.0),
            change.parent,
            state.halted,
            envelope::rest_text(state),
            envelope::upkeep_text(&state.upkeep),
            state.active.0,
        ])?;
        Ok(())
    }

    pub fn note(&self, session: Option<&str>, name: &str, detail: &str, at: Time) -> Result<(), StoreFault> {
        note(self.conn, session, name, detail, at)
    }
}

/// An event with a name, and one more of its kind.
pub(crate) fn note(
    conn: &Connection,
    session: Option<&str>,
    name: &str,
    detail: &str,
    at: Time,
) -> Result<(), StoreFault> {
    let sql = "INSERT INTO tl_event (at, session, name, detail) VALUES (?1, ?2, ?3, ?4)";
    conn.prepare_cached(sql)?.execute(params![at.0, session, name, detail])?;
    let sql = "INSERT INTO tl_count (name, n) VALUES (?1, 1) ON CONFLICT(name) DO UPDATE SET n = n + 1";
    conn.prepare_cached(sql)?.execute([name])?;
    Ok(())
}
