//! How a session begins in the store: opened by its first input, or taken over from Hermes.

use crate::fault::StoreFault;
use crate::read::ACCIDENTAL_ENDS;
use crate::retention::record_earlier_life;
use crate::write::{CommitWriter, ForeignNews, SessionChange};
use rusqlite::{ToSql, params};
use throughline_core::id::{Generation, SessionId};
use throughline_core::input::Birth;
use throughline_core::message::JsonText;
use throughline_core::port::StoreError;
use throughline_core::prompt::Digest;
use throughline_core::session::Act;

impl CommitWriter<'_> {
    /// A session that Hermes deleted leaves nothing of ours behind, but for the keys it has seen.
    pub(crate) fn forget_deleted(&mut self, id: &str) -> Result<bool, StoreFault> {
        let there = self.conn.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id])?;
        if there {
            return Ok(false);
        }
        record_earlier_life(self.conn, id)?;
        for sql in [
            "DELETE FROM tl_session WHERE id = ?1",
            "DELETE FROM tl_inbox WHERE session = ?1",
            "DELETE FROM tl_step WHERE session = ?1",
            "DELETE FROM tl_call WHERE session = ?1",
            "DELETE FROM tl_thread WHERE session = ?1",
            "DELETE FROM tl_compression WHERE session = ?1",
            "DELETE FROM tl_draft WHERE session = ?1",
            // A session of the same name begins to count anew, and so do the keys of its replies.
            "DELETE FROM tl_outbox WHERE session = ?1 AND state >= 2",
            "DELETE FROM tl_place WHERE session = ?1",
            "DELETE FROM messages WHERE session_id IN (SELECT name FROM tl_snapshot WHERE session = ?1)",
            "DELETE FROM sessions WHERE id IN (SELECT name FROM tl_snapshot WHERE session = ?1)",
            "DELETE FROM tl_snapshot WHERE session = ?1",
            "DELETE FROM tl_finalisation WHERE session = ?1",
            "DELETE FROM tl_hook WHERE session = ?1",
            "DELETE FROM tl_reset WHERE session = ?1",
            "DELETE FROM tl_retention WHERE session = ?1 AND state = 2",
            // Nothing more will come to wait for.
            "UPDATE tl_retention SET state = 1 WHERE session = ?1 AND state = 0",
            "DELETE FROM tl_review WHERE session = ?1",
            "UPDATE tl_seen SET seq = 0 WHERE session = ?1",
        ] {
            self.conn.execute(sql, [id])?;
        }
        Ok(true)
    }

    pub(crate) fn begin<'b>(
        &mut self,
        change: &mut SessionChange<'b>,
        birth: Option<&'b Birth>,
        acts: &'b [Act],
    ) -> Result<(), StoreFault> {
        let accepts = acts.iter().any(|act| matches!(act, Act::Accept(_)));
        if birth.is_none() && accepts && self.news == ForeignNews::Foreign {
            self.refuse_if_ended(change)?;
        }
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
            (None, Some(_)) if self.news == ForeignNews::Foreign => self.adopt_rows(change),
            (None, Some(_)) => Ok(()),
        }
    }

    fn open<'b>(
        &mut self,
        change: &mut SessionChange<'b>,
        birth: &'b Birth,
        acts: &'b [Act],
    ) -> Result<(), StoreFault> {
        // The prompt is frozen in the same commit, and belongs to the new row.
        let prompt = acts.iter().find_map(|act| match act {
            Act::Freeze { prompt, .. } => Some(prompt.as_ref()),
            _ => None,
        });
        let chat = birth.chat.as_ref();
        let origin = chat.and_then(|chat| chat.origin.as_ref()).map(JsonText::as_str);
        let place = OriginPlace::of(origin);
        let started = change.at.as_seconds();
        let id = change.id();
        let parent = self.parent(birth)?;
        let helper = match &birth.parent {
            None if change.state.stateless => Some(STATELESS.to_owned()),
            parent => parent.as_ref().map(helper_marker),
        };
        let mut values: Vec<&dyn ToSql> =
            vec![&id, &birth.source, &birth.user, &birth.model, &prompt, &started, &parent, &helper];
        let key = chat.map(|chat| chat.key.as_str());
        let chat_type = chat.map(|chat| chat.chat_type.as_str());
        let name = chat.and_then(|chat| chat.display_name.as_deref());
        values.extend(self.variants.chat_values::<dyn ToSql>([
            &key,
            &place.chat_id,
            &chat_type,
            &place.thread_id,
            &name,
            &origin,
        ]));
        let made = self.conn.prepare_cached(&self.variants.open)?.execute(values.as_slice())?;
        match made {
            0 => {
                self.take_over(id)?;
                self.adopt_rows(change)?;
            }
            _ => record_earlier_life(self.conn, id)?,
        }
        change.principal = birth.principal.as_deref();
        change.predecessor = birth.predecessor.as_ref().map(SessionId::as_str);
        change.parent = birth.parent.as_ref().map(SessionId::as_str);
        for message in &birth.imported {
            self.append(change, message)?;
        }
        match chat {
            Some(chat) if birth.parent.is_none() => self.bind_route(chat, &change.state.id, birth, change.at),
            _ => Ok(()), // no person writes to a session that works for another one
        }
    }

    pub(crate) fn forget_statelessness(&self, id: &str) -> Result<(), StoreFault> {
        let sql = "UPDATE sessions SET model_config = NULL WHERE id = ?1 AND model_config = ?2";
        self.conn.prepare_cached(sql)?.execute([id, STATELESS])?;
        Ok(())
    }

    /// The session that this one works for, as far as Hermes' row can refer to it.
    fn parent<'b>(&self, birth: &'b Birth) -> Result<Option<&'b str>, StoreFault> {
        let Some(parent) = &birth.parent else { return Ok(None) };
        let sql = "SELECT 1 FROM sessions WHERE id = ?1";
        Ok(self.conn.prepare_cached(sql)?.exists([parent.as_str()])?.then_some(parent.as_str()))
    }

    /// A session that Hermes made becomes ours. What it ended by mistake goes on.
    fn take_over(&mut self, id: &str) -> Result<(), StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let sql =
            "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1 AND end_reason IN (?2, ?3)";
        self.conn.prepare_cached(sql)?.execute([id, one, other])?;
        match self.conn.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id])? {
            true => Ok(()),
            false => Err(StoreFault::Malformed(format!("session {id} was never begun"))),
        }
    }

    /// Others ended or deleted the session while its owner took in a message, which belongs elsewhere.
    fn refuse_if_ended(&self, change: &SessionChange<'_>) -> Result<(), StoreFault> {
        let [one, other] = ACCIDENTAL_ENDS;
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN (?2, ?3))";
        if self.conn.prepare_cached(sql)?.exists([change.id(), one, other])? {
            return Ok(());
        }
        let current = Generation(change.prior.as_ref().map_or(0, |prior| prior.generation as u64));
        Err(StoreError::Fenced { session: change.state.id.clone(), current }.into())
    }

    fn adopt_rows(&mut self, change: &mut SessionChange<'_>) -> Result<(), StoreFault> {
        let sql = "SELECT COALESCE(max(id), 0), count(*) FROM messages WHERE session_id = ?1 AND id > ?2";
        let (last, count): (i64, i64) = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![change.id(), change.last_row], |row| Ok((row.get(0)?, row.get(1)?)))?;
        change.last_row = change.last_row.max(last);
        change.adopted += count;
        if count > 0 {
            self.news = ForeignNews::Foreign;
        }
        Ok(())
    }

    pub(crate) fn freeze(
        &mut self,
        change: &mut SessionChange<'_>,
        prompt: &str,
        layer: Option<Digest>,
    ) -> Result<(), StoreFault> {
        change.layer = layer;
        let sql = "UPDATE sessions SET system_prompt = ?2 WHERE id = ?1 AND system_prompt IS NOT ?2";
        self.conn.prepare_cached(sql)?.execute([change.id(), prompt])?;
        let sql = "UPDATE tl_session SET layer = ?2 WHERE id = ?1";
        self.conn.prepare_cached(sql)?.execute(params![change.id(), layer.map(|layer| layer.0)])?;
        Ok(())
    }
}

/// Marks, where Hermes marks helpers, a session of a client that names neither a session nor a person. See
/// [`crate::lineage::UNFINDABLE`].
const STATELESS: &str = "{\"_stateless\": true}";

/// How Hermes marks a session that works for another one. It stays when the other is deleted.
fn helper_marker(parent: &SessionId) -> String {
    format!("{{\"_delegate_from\": {}}}", serde_json::Value::from(parent.as_str()))
}

/// Where in a chat a session lies, out of its origin in Hermes' form.
#[derive(Default)]
struct OriginPlace {
    chat_id: Option<String>,
    thread_id: Option<String>,
}

impl OriginPlace {
    fn of(origin: Option<&str>) -> Self {
        let parsed = origin.and_then(|origin| serde_json::from_str::<serde_json::Value>(origin).ok());
        let text = |name: &str| {
            let value = parsed.as_ref()?.get(name)?;
            value.as_str().map(str::to_owned)
        };
        Self { chat_id: text("chat_id"), thread_id: text("thread_id") }
    }
}
