//! Rows of the transcript, the steps that led to them, and Hermes' counts of both.

use crate::envelope;
use crate::fault::StoreFault;
use crate::write::{CommitWriter, SessionChange};
use rusqlite::{Connection, ToSql, params};
use throughline_core::message::{Body, Message};
use throughline_core::session::Act;
use throughline_core::turn::{Step, Usage};
use throughline_hermes::row;

/// Hermes orders a transcript by id. A free id below each of our rows is where a summary can stand.
pub(crate) const STRIDE: i64 = 2;

/// The last row of the transcript of any session, asked for once in a batch.
#[derive(Default)]
pub(crate) struct NextRow(Option<i64>);

impl NextRow {
    pub(crate) fn last(&mut self, conn: &Connection) -> Result<i64, StoreFault> {
        let last = match self.0 {
            Some(last) => last,
            None => conn
                .prepare_cached(
                    "SELECT max(COALESCE((SELECT max(id) FROM messages), 0),
                                COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0))",
                )?
                .query_row([], |row| row.get(0))?,
        };
        self.0 = Some(last);
        Ok(last)
    }

    pub(crate) fn take(&mut self, conn: &Connection) -> Result<i64, StoreFault> {
        let next = self.last(conn)? + STRIDE;
        self.0 = Some(next);
        Ok(next)
    }
}

impl CommitWriter<'_> {
    pub(crate) fn append(
        &mut self,
        change: &mut SessionChange<'_>,
        message: &Message,
    ) -> Result<i64, StoreFault> {
        let id = self.rows.take(self.conn)?;
        self.insert_row(id, change.id(), message)?;
        self.effects.rows.push(id);
        change.last_row = id;
        change.last_said = Some(id);
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

    pub(crate) fn insert_row(&self, id: i64, session: &str, message: &Message) -> Result<(), StoreFault> {
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
        values.extend(self.variants.append_values::<dyn ToSql>([
            &row.platform_message_id,
            &row.api_content,
            &observed,
        ]));
        self.conn.prepare_cached(&self.variants.append)?.execute(values.as_slice())?;
        if self.variants.defers_indexing {
            self.conn.prepare_cached("INSERT INTO tl_unindexed (id) VALUES (?1)")?.execute([id])?;
        }
        Ok(())
    }

    pub(crate) fn step<'b>(
        &mut self,
        change: &mut SessionChange<'b>,
        step: &'b Step,
        row: Option<i64>,
    ) -> Result<(), StoreFault> {
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
                                        cache_write, reasoning, chain, messages, calls, message, open,
                                        head_model, head_tools, head_system)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
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
            step.prompt.head.model as i64,
            step.prompt.head.tools as i64,
            step.prompt.head.system as i64,
        ])?;
        Ok(())
    }

    /// The group is in the transcript now, and nowhere else.
    pub(crate) fn close_group(&mut self, change: &SessionChange<'_>, row: i64) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_step SET message = ?3, open = NULL WHERE session = ?1 AND number = ?2";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps, row])?;
        self.forget_calls(change)
    }

    pub(crate) fn abandon_group(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let sql = "UPDATE tl_step SET open = NULL WHERE session = ?1 AND number = ?2 AND open IS NOT NULL";
        match self.conn.prepare_cached(sql)?.execute(params![change.id(), change.steps])? {
            0 => Ok(()),
            _ => self.forget_calls(change),
        }
    }

    /// What Hermes counts per session and per model, in its own way.
    pub(crate) fn count(&mut self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
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
        if change.asked == 0 || !self.variants.can.has_model_usage {
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
}

/// Whether this row completes a group whose calls were open.
pub(crate) fn closes_group(act: &Act) -> bool {
    matches!(act, Act::Append(message) if !message.calls().is_empty())
}
