//! What each commit writes, row by row.
//!
//! A session's commit checks its generation first, then lets each act leave its rows, and writes
//! the state last. Several acts on one inbox row become one statement, and so do all counters of
//! Hermes' session row: a plain turn is two small transactions, and their cost is counted in
//! statements.

use crate::commit::Effects;
use crate::envelope;
use crate::fault::Fault;
use crate::open::Home;
use crate::read::ACCIDENTAL_ENDS;
use crate::shape::Shape;
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::sync::Arc;
use throughline_core::id::{Boot, Generation, RowId, Seq, SessionId, TurnId};
use throughline_core::input::{Birth, Input, Kind};
use throughline_core::message::{Body, JsonText, Message, ToolResult};
use throughline_core::port::{Commit, Committed, DeliveryChange, StoreError};
use throughline_core::prompt::Digest;
use throughline_core::session::{
    Act, Compression, CompressionStage, Finalisation, Outcome, Phase, Reply, Session,
};
use throughline_core::time::Time;
use throughline_core::turn::{Step, Usage};
use throughline_hermes::row;

/// Hermes orders a transcript by id. A free id below each of our rows is where a summary can stand.
pub(crate) const STRIDE: i64 = 2;

/// The last row of the transcript of any session, asked for once in a batch.
#[derive(Default)]
pub(crate) struct NextRow(Option<i64>);

impl NextRow {
    fn take(&mut self, conn: &Connection) -> Result<i64, Fault> {
        let last = match self.0 {
            Some(last) => last,
            None => conn
                .prepare_cached(
                    "SELECT max(COALESCE((SELECT max(id) FROM messages), 0),
                                COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0))",
                )?
                .query_row([], |row| row.get(0))?,
        };
        let next = last + STRIDE;
        self.0 = Some(next);
        Ok(next)
    }
}

pub(crate) struct Scribe<'a> {
    pub conn: &'a Connection,
    pub shape: &'a Shape,
    pub home: &'a Home,
    pub effects: Effects,
    rows: &'a mut NextRow,
}

/// What the session's row said before.
struct Prior {
    generation: i64,
    steps: i64,
    compression: Option<i64>,
    stage: Option<i64>,
    last_row: i64,
    adopted: i64,
}

/// What one commit is about to leave behind, gathered while its acts are gone through.
struct Change<'a> {
    state: &'a Session,
    at: Time,
    prior: Option<Prior>,
    inbox: Vec<InboxRow<'a>>,
    /// The input whose words are the next row of the transcript.
    speaking: Option<Seq>,
    /// An answer without calls; its row of the transcript follows.
    answering: Option<&'a Step>,
    /// The number of the last step.
    steps: i64,
    last_row: i64,
    adopted: i64,
    layer: Option<Digest>,
    principal: Option<&'a str>,
    predecessor: Option<&'a str>,
    messages: i64,
    calls: i64,
    asked: i64,
    usage: Usage,
    last_usage: Usage,
    model: Option<&'a str>,
    close_reason: Option<&'static str>,
}

struct InboxRow<'a> {
    seq: Seq,
    accepted: Option<&'a Arc<Input>>,
    turn: Option<TurnId>,
    message: Option<i64>,
    outcome: Option<&'a Outcome>,
}

impl<'a> Change<'a> {
    fn of(state: &'a Session, at: Time, prior: Option<Prior>) -> Self {
        let (steps, last_row, adopted) =
            prior.as_ref().map_or((0, 0, 0), |prior| (prior.steps, prior.last_row, prior.adopted));
        Self {
            state,
            at,
            prior,
            inbox: Vec::new(),
            speaking: None,
            answering: None,
            steps,
            last_row,
            adopted,
            layer: None,
            principal: None,
            predecessor: None,
            messages: 0,
            calls: 0,
            asked: 0,
            usage: Usage::default(),
            last_usage: Usage::default(),
            model: None,
            close_reason: None,
        }
    }

    fn id(&self) -> &'a str {
        self.state.id.as_str()
    }

    fn inbox(&mut self, seq: Seq) -> &mut InboxRow<'a> {
        let place = self.inbox.iter().position(|row| row.seq == seq).unwrap_or_else(|| {
            self.inbox.push(InboxRow { seq, accepted: None, turn: None, message: None, outcome: None });
            self.inbox.len() - 1
        });
        &mut self.inbox[place]
    }

    fn began(&self, turn: TurnId) -> Time {
        match &self.state.phase {
            Phase::Turn(current) if current.id == turn => current.began,
            _ => self.at,
        }
    }

    fn has_compression(&self, operation: i64) -> bool {
        self.state.compression.as_ref().is_some_and(|now| now.operation as i64 == operation)
    }

    fn is_answered(&self) -> bool {
        self.inbox.iter().any(|row| matches!(row.outcome, Some(Outcome::Answered(_))))
    }
}

impl<'a> Scribe<'a> {
    pub fn new(conn: &'a Connection, shape: &'a Shape, home: &'a Home, rows: &'a mut NextRow) -> Self {
        Self { conn, shape, home, effects: Effects::default(), rows }
    }

    pub fn write(&mut self, commit: &Commit) -> Result<Committed, Fault> {
        match commit {
            Commit::Session { expect, state, acts, at } => return self.session(*expect, state, acts, *at),
            Commit::Delivery { key, boot, change, at } => self.delivery(key, *boot, change, *at)?,
            Commit::Written { session, seq } => self.written(session, *seq)?,
            Commit::Cursor { platform, account, value } => {
                let sql = "INSERT INTO tl_cursor (platform, account, value) VALUES (?1, ?2, ?3)
                           ON CONFLICT(platform, account) DO UPDATE SET value = excluded.value";
                self.conn.prepare_cached(sql)?.execute([platform, account, value])?;
            }
            Commit::Note { session, name, detail, at } => {
                self.note(session.as_ref().map(SessionId::as_str), name, detail, *at)?;
            }
        }
        Ok(Committed::default())
    }

    fn session(
        &mut self,
        expect: Generation,
        state: &Session,
        acts: &[Act],
        at: Time,
    ) -> Result<Committed, Fault> {
        let birth = acts.iter().find_map(|act| match act {
            Act::Open(birth) => Some(birth.as_ref()),
            _ => None,
        });
        let prior = self.fenced(expect, &state.id, birth.is_some())?;
        let mut change = Change::of(state, at, prior);
        self.begin(&mut change, birth, acts)?;
        self.hand_over_compression(&change, acts)?;
        let mut committed = Committed::default();
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
                act => self.act(&mut change, act)?,
            }
        }
        if let Some(step) = change.answering.take() {
            self.step(&mut change, step, None)?;
        }
        self.end_compression(&change, acts)?;
        self.inbox_rows(&change)?;
        self.count(&change)?;
        self.finalisation(&change)?;
        if change.is_answered() {
            self.refresh_routes(state.id.as_str(), change.last_usage.prompt(), at)?;
        }
        self.state(&change)?;
        Ok(committed)
    }

    fn act<'b>(&mut self, change: &mut Change<'b>, act: &'b Act) -> Result<(), Fault> {
        match act {
            Act::Open(_) | Act::Append(_) | Act::Result { .. } => {} // where the whole list is known
            Act::Accept(input) => self.accept(change, input)?,
            Act::Begin { turn, inputs } => {
                for seq in inputs {
                    let row = change.inbox(*seq);
                    row.turn = Some(*turn);
                    row.outcome = None;
                }
                change.speaking = inputs.last().copied();
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
                    change.last_row
                ])?;
            }
            Act::Deliver(reply) => self.deliver(change, reply)?,
            Act::Freeze { prompt, layer } => self.freeze(change, prompt, *layer)?,
            Act::Close { reason, successor, moved } => self.close(change, reason, successor, moved)?,
            Act::Compress(compression) => self.compress(change, compression)?,
            Act::Promote(compression) => self.compression_becomes(change, compression.operation as i64, 2)?,
            Act::Note { name, detail } => self.note(Some(change.id()), name, detail, change.at)?,
        }
        Ok(())
    }

    // ---------------------------------------------------------------------------- its beginning

    /// The session's row, if the caller's generation is still its generation.
    fn fenced(&mut self, expect: Generation, id: &SessionId, opens: bool) -> Result<Option<Prior>, Fault> {
        let prior = self
            .conn
            .prepare_cached(
                "SELECT generation, steps, compression, stage, last_row, adopted FROM tl_session WHERE id = ?1",
            )?
            .query_row([id.as_str()], |row| {
                Ok(Prior {
                    generation: row.get(0)?,
                    steps: row.get(1)?,
                    compression: row.get(2)?,
                    stage: row.get(3)?,
                    last_row: row.get(4)?,
                    adopted: row.get(5)?,
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

    /// A session that Hermes deleted leaves nothing of ours behind, but for the keys it has seen.
    fn forget_deleted(&mut self, id: &str) -> Result<bool, Fault> {
        let there = self.conn.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id])?;
        if there {
            return Ok(false);
        }
        for sql in [
            "DELETE FROM tl_session WHERE id = ?1",
            "DELETE FROM tl_inbox WHERE session = ?1",
            "DELETE FROM tl_step WHERE session = ?1",
            "DELETE FROM tl_call WHERE session = ?1",
            "DELETE FROM tl_thread WHERE session = ?1",
            "DELETE FROM tl_compression WHERE session = ?1",
            "DELETE FROM tl_finalisation WHERE session = ?1",
            "UPDATE tl_seen SET seq = 0 WHERE session = ?1",
        ] {
            self.conn.execute(sql, [id])?;
        }
        Ok(true)
    }

    fn begin<'b>(
        &mut self,
        change: &mut Change<'b>,
        birth: Option<&'b Birth>,
        acts: &'b [Act],
    ) -> Result<(), Fault> {
        match (birth, &change.prior) {
            (Some(birth), _) => self.open(change, birth, acts),
            (None, None) => {
                self.take_over(change.id())?;
                self.adopt_rows(change)
            }
            // The owner has loaded what is there now: all of it is known.
            (None, Some(prior)) if prior.generation != change.state.generation.0 as i64 => {
                self.adopt_rows(change)
            }
            (None, Some(_)) => Ok(()),
        }
    }

    fn open<'b>(&mut self, change: &mut Change<'b>, birth: &'b Birth, acts: &'b [Act]) -> Result<(), Fault> {
        // The prompt is frozen in the same commit, and belongs to the new row.
        let frozen = acts.iter().find_map(|act| match act {
            Act::Freeze { prompt, .. } => Some(prompt.as_ref()),
            _ => None,
        });
        let prompt = frozen.or(birth.system_prompt.as_deref());
        let chat = birth.chat.as_ref();
        let origin = chat.and_then(|chat| chat.origin.as_ref()).map(JsonText::as_str);
        let place = Place::of(origin);
        let started = change.at.as_seconds();
        let id = change.id();
        let mut values: Vec<&dyn ToSql> =
            vec![&id, &birth.source, &birth.user, &birth.model, &prompt, &started];
        let key = chat.map(|chat| chat.key.as_str());
        let chat_type = chat.map(|chat| chat.chat_type.as_str());
        let name = chat.and_then(|chat| chat.display_name.as_deref());
        values.extend(self.shape.chat_values::<dyn ToSql>([
            &key,
            &place.chat_id,
            &chat_type,
            &place.thread_id,
            &name,
            &origin,
        ]));
        let made = self.conn.prepare_cached(&self.shape.open)?.execute(values.as_slice())?;
        if made == 0 {
            self.take_over(id)?;
            self.adopt_rows(change)?;
        }
        change.principal = birth.principal.as_deref();
        change.predecessor = birth.predecessor.as_ref().map(SessionId::as_str);
        for message in &birth.imported {
            self.append(change, message)?;
        }
        match chat {
            Some(chat) => self.bind_route(chat, &change.state.id, birth, change.at),
            None => Ok(()),
        }
    }

    /// A session that Hermes made becomes ours. What it ended by mistake goes on.
    fn take_over(&mut self, id: &str) -> Result<(), Fault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let sql =
            "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1 AND end_reason IN (?2, ?3)";
        self.conn.prepare_cached(sql)?.execute([id, one, other])?;
        match self.conn.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id])? {
            true => Ok(()),
            false => Err(Fault::Malformed(format!("nobody has begun session {id}"))),
        }
    }

    fn adopt_rows(&mut self, change: &mut Change<'_>) -> Result<(), Fault> {
        let sql = "SELECT COALESCE(max(id), 0), count(*) FROM messages WHERE session_id = ?1 AND id > ?2";
        let (last, count): (i64, i64) = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![change.id(), change.last_row], |row| Ok((row.get(0)?, row.get(1)?)))?;
        change.last_row = change.last_row.max(last);
        change.adopted += count;
        Ok(())
    }

    fn freeze(&mut self, change: &mut Change<'_>, prompt: &str, layer: Option<Digest>) -> Result<(), Fault> {
        change.layer = layer;
        let sql = "UPDATE sessions SET system_prompt = ?2 WHERE id = ?1 AND system_prompt IS NOT ?2";
        self.conn.prepare_cached(sql)?.execute([change.id(), prompt])?;
        let sql = "UPDATE tl_session SET layer = ?2 WHERE id = ?1";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), layer.map(|layer| layer.0)])?;
        Ok(())
    }

    // ------------------------------------------------------------------------------------ inbox

    fn accept<'b>(&mut self, change: &mut Change<'b>, input: &'b Arc<Input>) -> Result<(), Fault> {
        let body = body_of(input);
        let sql =
            "INSERT INTO tl_seen (key, session, seq, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let added = self.conn.prepare_cached(sql)?.execute(params![
            input.key.as_str(),
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

    fn duplicate(&self, input: &Input, body: Option<[u8; 32]>) -> Result<Fault, Fault> {
        let sql = "SELECT session, seq, body FROM tl_seen WHERE key = ?1";
        let (session, seq, known) =
            self.conn.prepare_cached(sql)?.query_row([input.key.as_str()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<[u8; 32]>>(2)?))
            })?;
        let session = crate::read::session_id(&session)?;
        Ok(StoreError::Duplicate { session, seq: Seq(seq as u64), same_body: known == body }.into())
    }

    fn inbox_rows(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        for row in &change.inbox {
            match row.accepted {
                Some(input) => self.new_inbox_row(change, row, input)?,
                None => self.old_inbox_row(change, row)?,
            }
        }
        Ok(())
    }

    fn new_inbox_row(&self, change: &Change<'_>, row: &InboxRow<'_>, input: &Input) -> Result<(), Fault> {
        let sql =
            "INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome,
                                         implicit, written, envelope)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12)";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            row.seq.0 as i64,
            input.at.0,
            row.state(),
            row.turn.map(|turn| turn.0.0 as i64),
            row.turn.map(|turn| change.began(turn).0),
            row.message,
            row.answering_step(change),
            row.outcome.map(|_| change.at.0),
            row.outcome.map(envelope::outcome_text),
            if row.is_moved() { None } else { implicit_of(input) },
            envelope::input_text(input),
        ])?;
        Ok(())
    }

    fn old_inbox_row(&self, change: &Change<'_>, row: &InboxRow<'_>) -> Result<(), Fault> {
        let sql = "UPDATE tl_inbox SET state = ?3, turn = COALESCE(?4, turn), began = COALESCE(?5, began),
                          message = COALESCE(?6, message), step = COALESCE(?7, step), settled = ?8, outcome = ?9,
                          implicit = CASE WHEN ?10 THEN NULL ELSE implicit END
                   WHERE session = ?1 AND seq = ?2";
        let changed = self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            row.seq.0 as i64,
            row.state(),
            row.turn.map(|turn| turn.0.0 as i64),
            row.turn.map(|turn| change.began(turn).0),
            row.message,
            row.answering_step(change),
            row.outcome.map(|_| change.at.0),
            row.outcome.map(envelope::outcome_text),
            row.is_moved(),
        ])?;
        match changed {
            1 => Ok(()),
            _ => Err(Fault::Malformed(format!("session {} has no input {}", change.id(), row.seq))),
        }
    }

    // ------------------------------------------------------------------------------- transcript

    fn append(&mut self, change: &mut Change<'_>, message: &Message) -> Result<i64, Fault> {
        let id = self.rows.take(self.conn)?;
        let session = change.id();
        let row = row::encode(message);
        let observed = i64::from(row.observed);
        let mut values: Vec<&dyn ToSql> = vec![
            &id,
            &session,
            &row.role,
            &row.content,
            &row.tool_call_id,
            &row.tool_calls,
            &row.tool_name,
            &row.timestamp,
            &row.finish_reason,
            &row.reasoning,
            &row.reasoning_content,
            &row.reasoning_details,
            &row.codex_reasoning_items,
            &row.codex_message_items,
        ];
        values.extend(self.shape.append_values::<dyn ToSql>([
            &row.platform_message_id,
            &row.api_content,
            &observed,
        ]));
        self.conn.prepare_cached(&self.shape.append)?.execute(values.as_slice())?;
        if self.shape.can.has_word_index {
            self.conn.prepare_cached("INSERT INTO tl_unindexed (id) VALUES (?1)")?.execute([id])?;
        }
        self.effects.rows.push(id);
        change.last_row = id;
        change.messages += 1;
        change.calls += message.calls().len() as i64;
        match &message.body {
            Body::User(_) => {
                if let Some(seq) = change.speaking.take() {
                    change.inbox(seq).message = Some(id);
                }
            }
            Body::Assistant(said) if said.calls.is_empty() => {
                if let Some(step) = change.answering.take() {
                    self.step(change, step, Some(id))?;
                }
            }
            Body::Assistant(_) => self.close_group(change, id)?,
            Body::System(_) | Body::Result(_) | Body::Other { .. } => {}
        }
        Ok(id)
    }

    fn step<'b>(&mut self, change: &mut Change<'b>, step: &'b Step, row: Option<i64>) -> Result<(), Fault> {
        change.steps += 1;
        change.asked += 1;
        change.model = Some(step.model.as_str()).filter(|model| !model.is_empty());
        change.last_usage = step.usage;
        let Usage { input, output, cache_read, cache_write, reasoning } = step.usage;
        change.usage.input += input;
        change.usage.output += output;
        change.usage.cache_read += cache_read;
        change.usage.cache_write += cache_write;
        change.usage.reasoning += reasoning;
        let sql = "INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read,
                                        cache_write, reasoning, chain, messages, calls, message, open)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.steps,
            step.turn.0.0 as i64,
            step.step,
            step.at.0,
            step.model,
            input as i64,
            output as i64,
            cache_read as i64,
            cache_write as i64,
            reasoning as i64,
            step.prompt.chain.0,
            step.prompt.messages as i64,
            step.open.as_ref().map_or(0, |open| open.calls.len() as i64),
            row,
            step.open.as_ref().map(envelope::answer_text),
        ])?;
        Ok(())
    }

    fn result(&mut self, change: &Change<'_>, index: usize, result: &ToolResult) -> Result<(), Fault> {
        let sql = "INSERT INTO tl_call (session, step, position, at, result) VALUES (?1, ?2, ?3, ?4, ?5)";
        let text = envelope::result_text(result);
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.steps,
            index as i64,
            change.at.0,
            text
        ])?;
        Ok(())
    }

    /// The group is in the transcript now, and nowhere else.
    fn close_group(&mut self, change: &Change<'_>, row: i64) -> Result<(), Fault> {
        let sql = "UPDATE tl_step SET message = ?3, open = NULL WHERE session = ?1 AND number = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps, row])?;
        self.forget_calls(change)
    }

    fn abandon_group(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        let sql = "UPDATE tl_step SET open = NULL WHERE session = ?1 AND number = ?2 AND open IS NOT NULL";
        match self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps])? {
            0 => Ok(()),
            _ => self.forget_calls(change),
        }
    }

    fn forget_calls(&self, change: &Change<'_>) -> Result<(), Fault> {
        let sql = "DELETE FROM tl_call WHERE session = ?1 AND step = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps])?;
        Ok(())
    }

    /// What Hermes counts per session and per model, in its own way.
    fn count(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        if change.messages == 0 && change.asked == 0 {
            return Ok(());
        }
        let Usage { input, output, cache_read, cache_write, reasoning } = change.usage;
        let sql = "UPDATE sessions SET message_count = COALESCE(message_count, 0) + ?2,
                          tool_call_count = COALESCE(tool_call_count, 0) + ?3,
                          input_tokens = COALESCE(input_tokens, 0) + ?4,
                          output_tokens = COALESCE(output_tokens, 0) + ?5,
                          cache_read_tokens = COALESCE(cache_read_tokens, 0) + ?6,
                          cache_write_tokens = COALESCE(cache_write_tokens, 0) + ?7,
                          reasoning_tokens = COALESCE(reasoning_tokens, 0) + ?8,
                          api_call_count = COALESCE(api_call_count, 0) + ?9,
                          model = COALESCE(model, ?10)
                   WHERE id = ?1";
        let tokens = [input, output, cache_read, cache_write, reasoning].map(|count| count as i64);
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.messages,
            change.calls,
            tokens[0],
            tokens[1],
            tokens[2],
            tokens[3],
            tokens[4],
            change.asked,
            change.model
        ])?;
        if change.asked == 0 || !self.shape.can.has_model_usage {
            return Ok(());
        }
        let sql = "INSERT INTO session_model_usage (session_id, model, billing_provider, billing_base_url,
                          billing_mode, api_call_count, input_tokens, output_tokens, cache_read_tokens,
                          cache_write_tokens, reasoning_tokens, first_seen, last_seen)
                   SELECT id, COALESCE(?2, model, 'unknown'), COALESCE(billing_provider, ''),
                          COALESCE(billing_base_url, ''), COALESCE(billing_mode, ''), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9
                   FROM sessions WHERE id = ?1
                   ON CONFLICT DO UPDATE SET
                          api_call_count = api_call_count + excluded.api_call_count,
                          input_tokens = input_tokens + excluded.input_tokens,
                          output_tokens = output_tokens + excluded.output_tokens,
                          cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
                          cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
                          reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
                          last_seen = excluded.last_seen";
        self.conn.prepare_cached(sql)?.execute(params![
            change.id(),
            change.model,
            change.asked,
            tokens[0],
            tokens[1],
            tokens[2],
            tokens[3],
            tokens[4],
            change.at.as_seconds()
        ])?;
        Ok(())
    }

    // ------------------------------------------------------------------------------------ state

    fn state(&mut self, change: &Change<'_>) -> Result<(), Fault> {
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
                        principal, predecessor, layer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
                         ?20, ?21, ?22)"
            }
            Some(_) => {
                "UPDATE tl_session SET generation = ?2, epoch = ?3, view = ?4, received = ?5, answered = ?6,
                        phase = ?7, turn = ?8, began = ?9, step = ?10, resumes = ?11, stage = ?12, failed = ?13,
                        compression = ?14, unfinished = ?15, steps = ?16, last_row = ?17, adopted = ?18,
                        touched = ?19, principal = COALESCE(principal, ?20),
                        predecessor = COALESCE(predecessor, ?21), layer = COALESCE(?22, layer)
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
            state.compression.as_ref().map(|compression| compression.operation as i64),
            !state.is_quiet(),
            change.steps,
            change.last_row,
            change.adopted,
            change.at.0,
            change.principal,
            change.predecessor,
            change.layer.map(|layer| layer.0),
        ])?;
        Ok(())
    }

    // ------------------------------------------------------------------------------------- ends

    fn close(
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
                          last_row, adopted, touched, principal, predecessor)
                   VALUES (?1, 0, 1, 1, ?2, 0, 0, ?3, 0, 0, 0, ?4,
                           COALESCE(?6, (SELECT principal FROM tl_session WHERE id = ?5)), ?5)";
        self.conn.prepare_cached(sql)?.execute(params![
            successor.as_str(),
            moved.len() as i64,
            !moved.is_empty(),
            change.at.0,
            change.id(),
            change.principal
        ])?;
        for (input, seq) in moved.iter().zip(1i64..) {
            self.move_input(input, successor, seq)?;
        }
        self.rebind_routes(change.id(), successor, change.at)
    }

    fn move_input(&mut self, input: &Input, to: &SessionId, seq: i64) -> Result<(), Fault> {
        let sql = "INSERT INTO tl_inbox (session, seq, at, state, implicit, written, envelope)
                   VALUES (?1, ?2, ?3, 0, ?4, 0, ?5)";
        self.conn.prepare_cached(sql)?.execute(params![
            to.as_str(),
            seq,
            input.at.0,
            implicit_of(input),
            envelope::input_text(input)
        ])?;
        let sql = "UPDATE tl_seen SET session = ?2, seq = ?3 WHERE key = ?1";
        self.conn.prepare_cached(sql)?.execute(params![input.key.as_str(), to.as_str(), seq])?;
        Ok(())
    }

    /// Keeps the record of a hand-over in step with the state, and tells Hermes when it is done.
    fn finalisation(&mut self, change: &Change<'_>) -> Result<(), Fault> {
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

    // ------------------------------------------------------------------------------ compression

    /// A new operation, or the next stage of one. The transcript is not touched here.
    fn compress(&mut self, change: &Change<'_>, compression: &Compression) -> Result<(), Fault> {
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

    fn compression_becomes(&self, change: &Change<'_>, operation: i64, state: i64) -> Result<(), Fault> {
        let sql = "UPDATE tl_compression SET state = ?3, at = ?4 WHERE session = ?1 AND operation = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), operation, state, change.at.0])?;
        Ok(())
    }

    /// What the state no longer has is over; what it still has belongs to the new owner.
    fn hand_over_compression(&self, change: &Change<'_>, acts: &[Act]) -> Result<(), Fault> {
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
    fn end_compression(&self, change: &Change<'_>, acts: &[Act]) -> Result<(), Fault> {
        for act in acts {
            if let Act::Compress(Compression { operation, .. }) = act
                && !change.has_compression(*operation as i64)
            {
                self.drop_compression(change, acts, *operation as i64)?;
            }
        }
        Ok(())
    }

    fn drop_compression(&self, change: &Change<'_>, acts: &[Act], operation: i64) -> Result<(), Fault> {
        let promoted =
            |act: &Act| matches!(act, Act::Promote(promoted) if promoted.operation as i64 == operation);
        match acts.iter().any(promoted) {
            true => Ok(()),
            false => self.compression_becomes(change, operation, 3),
        }
    }

    // ------------------------------------------------------------------------------------- rest

    fn deliver(&mut self, change: &Change<'_>, reply: &Reply) -> Result<(), Fault> {
        let sql =
            "INSERT INTO tl_outbox (key, session, state, attempts, marked, not_before, created, updated,
                                          destination, text)
                   VALUES (?1, ?2, 0, 0, 0, ?3, ?3, ?3, ?4, ?5) ON CONFLICT(key) DO NOTHING";
        let destination = envelope::destination_text(&reply.destination);
        let added = self.conn.prepare_cached(sql)?.execute(params![
            reply.key,
            change.id(),
            change.at.0,
            destination,
            reply.text
        ])?;
        match added {
            0 => self.note(Some(change.id()), "reply_already_sent", &reply.key, change.at),
            _ => Ok(()),
        }
    }

    /// What is delivered or refused stays so: a late word about it is only counted.
    fn delivery(&mut self, key: &str, boot: Boot, to: &DeliveryChange, at: Time) -> Result<(), Fault> {
        let changed = match to {
            DeliveryChange::Attempting { marked } => {
                let sql = "UPDATE tl_outbox SET state = 1, attempts = attempts + 1, boot = ?2, marked = marked OR ?3,
                                  updated = ?4 WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, boot.0 as i64, marked, at.0])?
            }
            DeliveryChange::Delivered { platform_id } => {
                let sql = "UPDATE tl_outbox SET state = 2, boot = NULL, platform_id = ?2, error = NULL, updated = ?3
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, platform_id, at.0])?
            }
            DeliveryChange::Postponed { until, error } => {
                let sql =
                    "UPDATE tl_outbox SET state = 0, boot = NULL, not_before = ?2, error = ?3, updated = ?4
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, until.0, error, at.0])?
            }
            DeliveryChange::Refused { error } => {
                let sql = "UPDATE tl_outbox SET state = 3, boot = NULL, error = ?2, updated = ?3
                           WHERE key = ?1 AND state < 2";
                self.conn.prepare_cached(sql)?.execute(params![key, error, at.0])?
            }
        };
        match (changed, to) {
            (1, _) => Ok(()),
            // Whoever is about to send must not: it is settled, or was never written.
            (_, DeliveryChange::Attempting { .. }) => {
                Err(Fault::Malformed(format!("reply {key} does not wait to be sent")))
            }
            _ => self.note(None, "late_delivery_dropped", key, at),
        }
    }

    /// Marks the input wherever it has been moved to, too.
    fn written(&mut self, session: &SessionId, seq: Seq) -> Result<(), Fault> {
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

    pub fn note(&self, session: Option<&str>, name: &str, detail: &str, at: Time) -> Result<(), Fault> {
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
) -> Result<(), Fault> {
    let sql = "INSERT INTO tl_event (at, session, name, detail) VALUES (?1, ?2, ?3, ?4)";
    conn.prepare_cached(sql)?.execute(params![at.0, session, name, detail])?;
    let sql = "INSERT INTO tl_count (name, n) VALUES (?1, 1) ON CONFLICT(name) DO UPDATE SET n = n + 1";
    conn.prepare_cached(sql)?.execute([name])?;
    Ok(())
}

impl InboxRow<'_> {
    fn state(&self) -> i64 {
        match (self.outcome, self.turn) {
            (Some(_), _) => 2,
            (None, Some(_)) => 1,
            (None, None) => 0,
        }
    }

    fn is_moved(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Moved { .. }))
    }

    fn answering_step(&self, change: &Change<'_>) -> Option<i64> {
        matches!(self.outcome, Some(Outcome::Answered(_))).then_some(change.steps)
    }
}

/// Where in a chat a session lies, out of its origin in Hermes' form.
#[derive(Default)]
struct Place {
    chat_id: Option<String>,
    thread_id: Option<String>,
}

impl Place {
    fn of(origin: Option<&str>) -> Self {
        let parsed = origin.and_then(|origin| serde_json::from_str::<serde_json::Value>(origin).ok());
        let text = |name: &str| {
            let value = parsed.as_ref()?.get(name)?;
            value.as_str().map(str::to_owned)
        };
        Self { chat_id: text("chat_id"), thread_id: text("thread_id") }
    }
}

fn closes_group(act: &Act) -> bool {
    matches!(act, Act::Append(message) if !message.calls().is_empty())
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
