//! A session as its owner left it, put together from its rows.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{ACCIDENTAL_ENDS, StoreReader, malformed, stage_from, stored_input, text, unsigned};
use rusqlite::{OptionalExtension, Row, params};
use std::sync::Arc;
use throughline_core::id::{Epoch, Generation, Seq, SessionId, TurnId, View};
use throughline_core::input::Input;
use throughline_core::memory::is_private;
use throughline_core::port::Loaded;
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Phase, Session, SessionState};
use throughline_core::time::Time;
use throughline_core::turn::{ClientCalls, Turn};
use throughline_hermes::row;

impl StoreReader {
    pub(crate) fn load_session(&self, id: &SessionId) -> Result<Option<Loaded>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT s.system_prompt, s.source, s.ended_at IS NOT NULL, s.end_reason,
                    t.generation, t.epoch, t.view, t.received, t.answered, t.phase, t.turn, t.began, t.step,
                    t.resumes, t.stage, t.failed, t.compression, t.steps, t.last_row, t.principal, t.layer,
                    t.halted, t.rest, s.user_id, t.upkeep, t.active
             FROM sessions s LEFT JOIN tl_session t ON t.id = s.id WHERE s.id = ?1",
        )?;
        let mut rows = statement.query([id.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut session = SessionState::new(id.clone());
        let last_prompt = match row.get::<_, Option<i64>>(4)? {
            Some(_) => self.restore_state(&mut session, row)?,
            None => None,
        };
        let last_row = row.get::<_, Option<i64>>(18)?.unwrap_or(0);
        let adopted = self.rows_above(id, last_row)?;
        if adopted > 0 {
            session.active = session.active.max(self.said_above(id, last_row)?); // a person spoke with Hermes
        }
        if row.get::<_, Option<i64>>(4)?.is_none() {
            session.finalised = self.is_finalised_by_hermes(id)?;
            session.reviews.prior = self.prior_turns(id)?;
        }
        // What we have not counted: all that Hermes said, or what it added.
        let counted = match row.get::<_, Option<String>>(24)? {
            Some(text) => {
                session.upkeep = envelope::upkeep(&text).map_err(malformed("the upkeep of a session"))?;
                last_row
            }
            None => 0,
        };
        if counted == 0 || adopted > 0 {
            session.upkeep.context += self.weight_above(id, counted)?;
        }
        let ended: bool = row.get(2)?;
        let reason: Option<String> = row.get(3)?;
        Ok(Some(Loaded {
            session: Session::restored(session),
            system_prompt: row.get::<_, Option<String>>(0)?.map(Arc::from),
            layer: row.get::<_, Option<[u8; 32]>>(20)?.map(Digest),
            principal: row.get(19)?,
            source: row.get(1)?,
            user: text(row, 23)?,
            is_private: is_private(self.chat_kind(id)?.as_deref()),
            ended: ended
                .then(|| reason.unwrap_or_else(|| "ended".to_owned()))
                .filter(|reason| !ACCIDENTAL_ENDS.contains(&reason.as_str())),
            last_prompt,
            adopted,
        }))
    }

    /// What its last owner left, from the columns that [`StoreReader::load_session`] selects. Returns what the last step
    /// asked.
    fn restore_state(&self, session: &mut SessionState, row: &Row<'_>) -> Result<Option<Mark>, StoreFault> {
        let id = &session.id.clone();
        session.generation = Generation(unsigned(row, 4)?);
        session.epoch = Epoch(unsigned(row, 5)?);
        session.view = View(unsigned(row, 6)?);
        session.received = Seq(unsigned(row, 7)?);
        session.answered = Seq(unsigned(row, 8)?);
        session.failed = row.get::<_, Option<i64>>(15)?.map(|turn| TurnId(Seq(turn as u64)));
        let Unsettled { running, mut waiting } = self.unsettled(id, row)?;
        if let Some(operation) = row.get::<_, Option<i64>>(16)? {
            session.compression = self.operation(id, operation, &mut waiting)?;
        }
        session.waiting = waiting.into();
        let last_step = self.last_step(id, row.get(17)?)?;
        let last_prompt = last_step.as_ref().map(|step| step.prompt);
        session.client_calls = match (row.get::<_, i64>(9)?, &last_step) {
            (0, Some(LastStep { number, turn, step, open: Some(open), .. })) => {
                let group = self.group(id, *number, open)?;
                Some(ClientCalls { turn: *turn, step: *step, group })
            }
            _ => None,
        };
        session.phase = self.phase(id, row, running, last_step)?;
        session.active = Time(row.get(25)?);
        if let Phase::Closed(_) = session.phase {
            session.handover = self.handover(id, session.epoch)?;
        }
        session.halted = row.get(21)?;
        if let Some(rest) = row.get::<_, Option<String>>(22)? {
            envelope::restore_rest(session, &rest).map_err(malformed("the rest of a state"))?;
        }
        if session.reviews.count > 0 {
            session.reviews.pending = self.due_reviews(id)?;
        }
        Ok(last_prompt)
    }

    /// What kind of chat a session belongs to. A home without this column knows only where its chats lead now.
    fn chat_kind(&self, id: &SessionId) -> Result<Option<String>, StoreFault> {
        if !self.variants.can.has_chat_type {
            return Ok(self.scope_of(id, "")?.place.kind);
        }
        let sql = "SELECT chat_type FROM sessions WHERE id = ?1";
        let kind = self.conn.prepare_cached(sql)?.query_row([id.as_str()], |row| text(row, 0)).optional()?;
        Ok(kind.flatten().filter(|kind| !kind.is_empty()))
    }

    /// The inputs that wait or run. All of them lie above the answered position, but for those of
    /// a turn that is tried again.
    fn unsettled(&self, id: &SessionId, row: &Row<'_>) -> Result<Unsettled, StoreFault> {
        let turn = row.get::<_, Option<i64>>(10)?.unwrap_or(i64::MAX);
        let answered: i64 = row.get(8)?;
        let first = turn.min(answered + 1);
        let mut unsettled = Unsettled::default();
        let mut running = Vec::new();
        if first > row.get::<_, i64>(7)? {
            return Ok(unsettled);
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT seq, at, envelope, state, joined FROM tl_inbox
             WHERE session = ?1 AND seq >= ?2 AND state < 2 ORDER BY seq",
        )?;
        let mut rows = statement.query(params![id.as_str(), first])?;
        while let Some(row) = rows.next()? {
            match row.get::<_, i64>(3)? {
                0 => unsettled.waiting.push(stored_input(row)?.light()),
                _ => running.push((row.get::<_, Option<i64>>(4)?, stored_input(row)?)),
            }
        }
        running.sort_by_key(|(joined, _)| *joined);
        unsettled.running = running.into_iter().map(|(_, input)| input).collect();
        Ok(unsettled)
    }

    fn phase(
        &self,
        id: &SessionId,
        row: &Row<'_>,
        inputs: Vec<Arc<Input>>,
        last_step: Option<LastStep>,
    ) -> Result<Phase, StoreFault> {
        match row.get::<_, i64>(9)? {
            0 => Ok(Phase::Idle),
            1 => {
                let turn = TurnId(Seq(unsigned(row, 10)?));
                let step = unsigned(row, 12)? as u32;
                let group = match last_step.filter(|last| (last.turn, last.step) == (turn, step)) {
                    Some(LastStep { number, open: Some(open), .. }) => Some(self.group(id, number, &open)?),
                    _ => None,
                };
                let (began, resumes) = (Time(row.get(11)?), unsigned(row, 13)? as u32);
                Ok(Phase::Turn(Turn { step, group, resumes, ..Turn::new(turn, began, inputs) }))
            }
            _ => Ok(Phase::Closed(stage_from(row.get(14)?))),
        }
    }

    fn last_step(&self, id: &SessionId, number: i64) -> Result<Option<LastStep>, StoreFault> {
        if number == 0 {
            return Ok(None);
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT turn, step, chain, messages, open, head_model, head_tools, head_system FROM tl_step
             WHERE session = ?1 AND number = ?2",
        )?;
        let found = statement.query_row(params![id.as_str(), number], |row| {
            Ok(LastStep {
                number,
                turn: TurnId(Seq(unsigned(row, 0)?)),
                step: unsigned(row, 1)? as u32,
                prompt: Mark {
                    chain: Digest(row.get(2)?),
                    messages: unsigned(row, 3)? as usize,
                    head: Head {
                        model: unsigned(row, 5)?,
                        tools: unsigned(row, 6)?,
                        system: unsigned(row, 7)?,
                    },
                },
                open: row.get(4)?,
            })
        });
        Ok(found.optional()?)
    }

    /// What was asked in this step.
    pub(crate) fn mark_of(&self, id: &SessionId, step: i64) -> Result<Option<Mark>, StoreFault> {
        Ok(self.last_step(id, step)?.map(|step| step.prompt))
    }

    /// Roughly, in tokens: octets are read off the rows' heads.
    fn weight_above(&self, id: &SessionId, row: i64) -> Result<u64, StoreFault> {
        let mut statement = self.conn.prepare_cached(&self.variants.weight)?;
        let octets: i64 = statement.query_row(params![id.as_str(), row], |row| row.get(0))?;
        Ok(octets as u64 / 4 + self.weight_of_parts_above(id, row)?)
    }

    /// A picture weighs what a model counts for it, not what its octets would as text.
    fn weight_of_parts_above(&self, id: &SessionId, row: i64) -> Result<u64, StoreFault> {
        let mut statement = self.conn.prepare_cached(&self.variants.parts)?;
        let mut rows = statement.query(params![id.as_str(), row])?;
        let mut tokens = 0;
        while let Some(row) = rows.next()? {
            let (role, content) = ("user".to_owned(), text(row, 0)?);
            let message = row::decode(row::MessageRow { role, content, ..row::MessageRow::default() });
            tokens += throughline_core::compression::estimate(&message);
        }
        Ok(tokens)
    }

    fn rows_above(&self, id: &SessionId, last_row: i64) -> Result<usize, StoreFault> {
        let mut statement =
            self.conn.prepare_cached("SELECT count(*) FROM messages WHERE session_id = ?1 AND id > ?2")?;
        let count: i64 = statement.query_row(params![id.as_str(), last_row], |row| row.get(0))?;
        Ok(count as usize)
    }
}

/// Each in order.
#[derive(Default)]
struct Unsettled {
    running: Vec<Arc<Input>>,
    waiting: Vec<Arc<Input>>,
}

struct LastStep {
    number: i64,
    turn: TurnId,
    step: u32,
    prompt: Mark,
    open: Option<String>,
}
