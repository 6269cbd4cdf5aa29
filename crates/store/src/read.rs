//! Questions about where things stand, answered from one connection.
//!
//! A session is rebuilt exactly as the machine left it: its state row, the inbox rows that wait or
//! run, and the calls of an open group. What waits with long texts leaves them where they are. Hermes' rows are the transcript; nothing here trusts a
//! copy of them.

use crate::column_variants::ColumnVariants;
use crate::commit::run;
use crate::envelope::{self, UnreadableColumn};
use crate::fault::{StoreFault, While};
use crate::retention::free_name;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;
use throughline_core::compression::{Operation, Promoted};
use throughline_core::home_status::HomeStatus;
use throughline_core::id::{Boot, ChatKey, RowId, Seq, SessionId, TurnId};
use throughline_core::input::{DedupeKey, Input};
use throughline_core::memory::{Naming, PendingRetention, Scope};
use throughline_core::message::{Body, JsonText, Message};
use throughline_core::port::{
    Anchor, Backlog, BrowseRead, Excerpt, Hit, Implicit, Loaded, Outgoing, Parked, Pending, Reset, Resting,
    Resumable, ReviewRecord, ReviewView, Seen, SessionFilter, SessionRead, SessionSummary, Settled, Snapshot,
    SnapshotSummary, Spoken, StoreError, Titling, Trace, WorkRead,
};
use throughline_core::prompt::Digest;
use throughline_core::route::Match;
use throughline_core::session::{Finalisation, Outcome};
use throughline_core::time::Time;
use throughline_core::turn::{Answer, Usage};
use throughline_hermes::row;

/// What Hermes ends a session with although the conversation goes on: it opens such a session
/// again on the next message, and so do we.
pub(crate) const ACCIDENTAL_ENDS: [&str; 2] = ["agent_close", "ws_orphan_reap"];

/// One connection that asks. The writer has one inside it; others may be opened beside it.
pub struct StoreReader {
    pub(crate) conn: Connection,
    pub(crate) variants: ColumnVariants,
}

impl StoreReader {
    /// Several statements as one look: what a writer commits meanwhile is seen by none of them.
    pub(crate) fn at_once<T>(&self, look: impl FnOnce() -> Result<T, StoreFault>) -> Result<T, StoreFault> {
        run(&self.conn, "BEGIN")?;
        let seen = look();
        // Nothing was written. On a damaged file even this complains, and what was seen stands all the same.
        if !self.conn.is_autocommit() && run(&self.conn, "END").is_err() && !self.conn.is_autocommit() {
            run(&self.conn, "ROLLBACK")?;
        }
        seen
    }

    pub(crate) fn live_rows(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreFault> {
        let mut statement = self.conn.prepare_cached(&self.variants.history)?;
        let mut rows = statement.query([id.as_str()])?;
        let mut history = Vec::new();
        while let Some(row) = rows.next()? {
            history.push((RowId(unsigned(row, 0)?), stored_message(row)?));
        }
        Ok(history)
    }

    /// The live transcript in order, message by message, until `take` has enough: however long it is, one is held.
    pub fn each(
        &self,
        id: &SessionId,
        take: &mut dyn FnMut(RowId, &Message) -> bool,
    ) -> Result<(), StoreError> {
        // By their ids: to put whole rows in order, all of them would have to be held.
        let read = || -> Result<(), StoreFault> {
            let mut statement = self.conn.prepare_cached(&self.variants.live)?;
            let ids = statement
                .query_map([id.as_str()], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?;
            for id in ids {
                let Some(message) = self.message(id)? else { continue };
                if !take(RowId(id as u64), &message) {
                    break;
                }
            }
            Ok(())
        };
        self.at_once(read).while_doing("read a transcript")
    }

    pub(crate) fn message(&self, id: i64) -> Result<Option<Message>, StoreFault> {
        let mut statement = self.conn.prepare_cached(&self.variants.message)?;
        let found = statement.query_row([id], stored_message).optional()?;
        Ok(found)
    }

    fn settled(&self, session: &SessionId, seq: Seq) -> Result<Option<Settled>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT outcome, COALESCE(began, settled), step, json_extract(envelope, '$.request.tools[1]') FROM tl_inbox
             WHERE session = ?1 AND seq = ?2 AND state = 2",
        )?;
        let found = statement.query_row(params![session.as_str(), seq.0 as i64], |row| {
            let (began, step) = (Time(row.get(1)?), row.get::<_, Option<i64>>(2)?);
            Ok((row.get::<_, String>(0)?, began, step, row.get::<_, Option<String>>(3)?))
        });
        let Some((text, began, step, tools)) = found.optional()? else { return Ok(None) };
        let tools = tools.map(|tools| envelope::texts(&tools).map_err(malformed("a client's tools")));
        let tools = tools.transpose()?.unwrap_or_default();
        let outcome = envelope::outcome(&text).map_err(malformed("an outcome"))?;
        let answer = match (&outcome, step) {
            (Outcome::Answered(_), Some(step)) => self.answer(session, step)?,
            _ => None,
        };
        // A turn that left calls to its client was answered with those, and with none of the agent's own.
        let answer = answer.map(|mut answer| {
            answer.said.calls.retain(|call| tools.contains(&call.name));
            answer
        });
        Ok(Some(Settled { outcome, began, answer }))
    }

    /// What the model said in this step, if Hermes has left its row in the transcript, or its calls are open.
    fn answer(&self, session: &SessionId, step: i64) -> Result<Option<Answer>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT model, input, output, cache_read, cache_write, reasoning, message, open FROM tl_step
             WHERE session = ?1 AND number = ?2",
        )?;
        let found = statement.query_row(params![session.as_str(), step], |row| {
            let usage = Usage {
                input: unsigned(row, 1)?,
                output: unsigned(row, 2)?,
                cache_read: unsigned(row, 3)?,
                cache_write: unsigned(row, 4)?,
                reasoning: unsigned(row, 5)?,
            };
            let (message, open) = (row.get::<_, Option<i64>>(6)?, row.get::<_, Option<String>>(7)?);
            Ok((row.get::<_, String>(0)?, usage, message, open))
        });
        let (model, usage, id) = match found.optional()? {
            Some((model, usage, _, Some(open))) => {
                let said = envelope::answer(&open).map_err(malformed("an open answer"))?;
                return Ok(Some(Answer { said, usage, model }));
            }
            Some((model, usage, Some(id), None)) => (model, usage, id),
            _ => return Ok(None),
        };
        Ok(self.message(id)?.and_then(|message| match message.body {
            Body::Assistant(said) => Some(Answer { said, usage, model }),
            _ => None,
        }))
    }

    fn matches(&self, principal: &str, end: &Digest) -> Result<Vec<Match>, StoreFault> {
        // What is compressed beside it, or ordered to be, says nothing. Rows that a summary stands for may
        // have had to make room for it.
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT t.session, t.turn,
                    s.phase = 0 AND h.ended_at IS NULL
                    AND NOT EXISTS (SELECT 1 FROM tl_inbox i WHERE i.session = t.session AND i.seq > s.answered
                                    AND i.state < 2 AND json_type(i.envelope, '$.command.compress') IS NULL)
                    AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = t.session AND m.id > t.message
                                    AND NOT {})
             FROM tl_thread t JOIN tl_session s ON s.id = t.session JOIN sessions h ON h.id = t.session
             WHERE t.digest = ?1 AND COALESCE(s.principal, '') = ?2",
            if self.variants.can.has_compacted { "(m.active IS 0 AND m.compacted IS 1)" } else { "FALSE" },
        ))?;
        let mut rows = statement.query(params![end.0, principal])?;
        let mut matches = Vec::new();
        while let Some(row) = rows.next()? {
            let session = session_id(&row.get::<_, String>(0)?)?;
            matches.push(Match { session, turn: TurnId(Seq(unsigned(row, 1)?)), is_tip: row.get(2)? });
        }
        Ok(matches)
    }

    pub(crate) fn inputs_of(&self, session: &SessionId, turn: TurnId) -> Result<Vec<Arc<Input>>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT seq, at, envelope FROM tl_inbox WHERE session = ?1 AND seq >= ?2 AND turn = ?2
             ORDER BY joined, seq",
        )?;
        let mut rows = statement.query(params![session.as_str(), turn.0.0 as i64])?;
        let mut inputs = Vec::new();
        while let Some(row) = rows.next()? {
            inputs.push(stored_input(row)?);
        }
        Ok(inputs)
    }

    fn unfinished_sessions(&self) -> Result<Vec<SessionId>, StoreFault> {
        let sql = "SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id
                   WHERE t.unfinished = 1 ORDER BY t.touched, t.id";
        self.ids(sql, [])
    }

    fn halted_sessions(&self) -> Result<Vec<SessionId>, StoreFault> {
        let sql = "SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id
                   WHERE t.halted = 1 ORDER BY t.touched, t.id";
        self.ids(sql, [])
    }

    fn children_of(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreFault> {
        let sql = "SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id
                   WHERE t.parent = ?1 ORDER BY s.started_at, t.id";
        self.ids(sql, [id.as_str()])
    }

    fn ids(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<SessionId>, StoreFault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let ids = statement.query_map(values, |row| row.get::<_, String>(0))?;
        ids.map(|id| session_id(&id?)).collect()
    }

    fn undelivered_replies(&self) -> Result<Vec<Outgoing>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT key, session, destination, text, attempts, boot, marked, not_before, trace, updated FROM tl_outbox
             WHERE state < 2 ORDER BY number",
        )?;
        let mut rows = statement.query([])?;
        let mut replies = Vec::new();
        while let Some(row) = rows.next()? {
            let destination: String = row.get(2)?;
            replies.push(Outgoing {
                key: row.get(0)?,
                session: session_id(&row.get::<_, String>(1)?)?,
                destination: envelope::destination(&destination).map_err(malformed("a destination"))?,
                text: row.get(3)?,
                trace: envelope::trace(text(row, 8)?.as_deref()).map_err(malformed("a trace"))?,
                attempts: unsigned(row, 4)? as u32,
                attempting: row.get::<_, Option<i64>>(5)?.map(|boot| Boot(boot as u64)),
                attempted: row.get::<_, Option<i64>>(5)?.map(|_| row.get(9).map(Time)).transpose()?,
                marked: row.get(6)?,
                not_before: Time(row.get(7)?),
                draft: None,
                question: None,
            });
        }
        Ok(replies)
    }

    fn previews(&self) -> Result<Vec<(String, Option<String>)>, StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT key, platform_id FROM tl_draft ORDER BY key")?;
        let drafts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(drafts.collect::<rusqlite::Result<_>>()?)
    }
}

/// SQLite has no unsigned integers: what is above its range is stored as negative, and comes back.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| number as u64)
}

pub(crate) fn malformed(what: &'static str) -> impl Fn(UnreadableColumn) -> StoreFault {
    move |why| StoreFault::Malformed(format!("{what} is not as it was written: {why}"))
}

pub(crate) fn session_id(text: &str) -> Result<SessionId, StoreFault> {
    text.parse().map_err(|error| StoreFault::Malformed(format!("{error}")))
}

pub(crate) fn stage_from(number: i64) -> Finalisation {
    match number {
        0 => Finalisation::Claimed,
        1 => Finalisation::Hooks,
        2 => Finalisation::Provider,
        3 => Finalisation::Evicted,
        _ => Finalisation::Done,
    }
}

/// An input as it came in, also one that is settled.
pub(crate) fn input_row(
    conn: &Connection,
    session: &str,
    seq: Seq,
) -> Result<Option<Arc<Input>>, StoreFault> {
    let sql = "SELECT seq, at, envelope FROM tl_inbox WHERE session = ?1 AND seq = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![session, seq.0 as i64])?;
    rows.next()?.map(stored_input).transpose()
}

/// From the columns seq, at, envelope.
pub(crate) fn stored_input(row: &Row<'_>) -> Result<Arc<Input>, StoreFault> {
    let text: String = row.get(2)?;
    envelope::input(Seq(unsigned(row, 0)?), Time(row.get(1)?), &text).map_err(malformed("an input"))
}

/// From the columns that [`ColumnVariants::history`] selects. What Hermes stored as another type than text
/// (its column has no strict type) is read as the text it looks like.
pub(crate) fn stored_message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(row::decode(row::MessageRow {
        role: row.get(1)?,
        content: text(row, 2)?,
        tool_call_id: text(row, 3)?,
        tool_calls: text(row, 4)?,
        tool_name: text(row, 5)?,
        timestamp: row.get(6)?,
        token_count: None,
        finish_reason: text(row, 7)?,
        reasoning: text(row, 8)?,
        reasoning_content: text(row, 9)?,
        reasoning_details: text(row, 10)?,
        codex_reasoning_items: text(row, 11)?,
        codex_message_items: text(row, 12)?,
        platform_message_id: text(row, 13)?,
        api_content: text(row, 14)?,
        observed: row.get::<_, Option<bool>>(15)?.unwrap_or(false),
    }))
}

pub(crate) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(), // by far the quicker of the two
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        }),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}

impl SessionRead for StoreReader {
    fn load(&self, id: &SessionId) -> Result<Option<Loaded>, StoreError> {
        self.at_once(|| self.load_session(id)).while_doing("load a session")
    }

    fn history(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError> {
        self.live_rows(id).while_doing("read a transcript")
    }

    fn input(&self, session: &SessionId, seq: Seq) -> Result<Option<Arc<Input>>, StoreError> {
        input_row(&self.conn, session.as_str(), seq).while_doing("read a message that waits")
    }

    fn outcome(&self, session: &SessionId, seq: Seq) -> Result<Option<Settled>, StoreError> {
        self.at_once(|| self.settled(session, seq)).while_doing("read what became of a message")
    }

    fn turn_inputs(&self, session: &SessionId, turn: TurnId) -> Result<Vec<Arc<Input>>, StoreError> {
        self.inputs_of(session, turn).while_doing("read the messages of a turn")
    }

    fn route(&self, chat: &ChatKey) -> Result<Option<SessionId>, StoreError> {
        self.at_once(|| self.route_of(chat.as_str())).while_doing("look up where a chat leads")
    }

    fn reset(&self, chat: &ChatKey) -> Result<Option<Reset>, StoreError> {
        self.reset_of(chat).while_doing("look up how a chat's last conversation ended")
    }

    fn seen(&self, key: &DedupeKey) -> Result<Option<Seen>, StoreError> {
        self.seen_as(key.as_str()).while_doing("look up a message's key")
    }

    fn implicit(&self, key: &Digest) -> Result<Option<Implicit>, StoreError> {
        self.newest_with(key).while_doing("look up a request's words")
    }

    fn thread(&self, principal: &str, end: &Digest) -> Result<Vec<Match>, StoreError> {
        self.matches(principal, end).while_doing("find the conversation a request continues")
    }

    fn scope(&self, id: &SessionId, provider: &str) -> Result<Scope, StoreError> {
        self.scope_of(id, provider).while_doing("find out where a conversation is at home")
    }

    fn name(&self, provider: &str, naming: &Naming) -> Result<String, StoreError> {
        free_name(&self.conn, provider, naming)
            .while_doing("find out what a memory provider would call a conversation")
    }

    fn intact(&self, id: &SessionId, operation: &Operation) -> Result<bool, StoreError> {
        self.at_once(|| self.is_intact(id, operation)).while_doing("look whether a transcript has changed")
    }

    fn promoted(&self, id: &SessionId, operation: u64) -> Result<Option<Promoted>, StoreError> {
        self.promoted_by(id, operation).while_doing("read what a compression did")
    }

    fn snapshot(&self, name: &str) -> Result<Option<Snapshot>, StoreError> {
        self.at_once(|| self.snapshot_named(name)).while_doing("read a snapshot")
    }

    fn snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotSummary>, StoreError> {
        self.snapshots_of(id).while_doing("list the snapshots of a session")
    }

    fn review(&self, id: &SessionId, number: u64) -> Result<Option<ReviewView>, StoreError> {
        self.at_once(|| self.reviewed_view(id, number)).while_doing("read what a review is about")
    }

    fn spoken(&self, id: &SessionId) -> Result<Spoken, StoreError> {
        self.at_once(|| self.spoken_in(id)).while_doing("find who said what")
    }

    fn titling(&self, id: &SessionId, title: &str) -> Result<Titling, StoreError> {
        self.at_once(|| self.titling_of(id, title)).while_doing("look for a title")
    }

    fn next_title(&self, title: &str) -> Result<String, StoreError> {
        self.title_after(title).while_doing("find a free title")
    }

    fn resumable(&self, id: &SessionId) -> Result<Option<Resumable>, StoreError> {
        self.at_once(|| self.resumable_after(id)).while_doing("look for an earlier session")
    }
}

impl WorkRead for StoreReader {
    fn is_silenced(&self) -> Result<bool, StoreError> {
        self.silenced().while_doing("read whether the home is silenced")
    }

    fn baseline(&self) -> Result<Time, StoreError> {
        self.baseline_of_home()
    }

    fn halted(&self) -> Result<Vec<SessionId>, StoreError> {
        self.halted_sessions().while_doing("find what is silenced")
    }

    fn unfinished(&self) -> Result<Vec<SessionId>, StoreError> {
        self.unfinished_sessions().while_doing("find what is unfinished")
    }

    fn undelivered(&self) -> Result<Vec<Outgoing>, StoreError> {
        self.undelivered_replies().while_doing("find replies that have not left")
    }

    fn drafts(&self) -> Result<Vec<(String, Option<String>)>, StoreError> {
        self.previews().while_doing("find previews of replies")
    }

    fn asks(&self) -> Result<Vec<Pending>, StoreError> {
        self.pending().while_doing("find what tools have asked")
    }

    fn resting(&self, since: Time) -> Result<Vec<Resting>, StoreError> {
        self.resting_since(since).while_doing("find conversations at rest")
    }

    fn retentions(&self, provider: &str) -> Result<Vec<PendingRetention>, StoreError> {
        self.due_retentions(provider).while_doing("find what is to be remembered")
    }

    fn unkept(&self) -> Result<Vec<PendingRetention>, StoreError> {
        self.open_retentions().while_doing("find what is not remembered yet")
    }

    fn cursor(&self, platform: &str, account: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT value FROM tl_cursor WHERE platform = ?1 AND account = ?2";
        let found = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([platform, account], |row| row.get(0)).optional());
        found.while_doing("read how far a platform has been heard")
    }
}

impl BrowseRead for StoreReader {
    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.at_once(|| self.list(filter)).while_doing("list the sessions")
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionSummary>, StoreError> {
        self.at_once(|| self.summary(id)).while_doing("describe a session")
    }

    fn search(&self, query: &str, filter: &SessionFilter) -> Result<Vec<Hit>, StoreError> {
        self.at_once(|| self.find(query, filter)).while_doing("search the transcripts")
    }

    fn around(&self, anchor: &Anchor) -> Result<Option<Excerpt>, StoreError> {
        self.at_once(|| self.passage(anchor)).while_doing("read a piece of a transcript")
    }

    fn said(&self, id: &SessionId) -> Result<Vec<(RowId, Message)>, StoreError> {
        self.said_in(id).while_doing("read all that was said in a conversation")
    }

    fn children(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.children_of(id).while_doing("find who works for a session")
    }

    fn trace(&self, name: &str) -> Result<Vec<Trace>, StoreError> {
        self.at_once(|| self.story(name)).while_doing("tell what happened to a message")
    }

    fn home_status(&self) -> Result<HomeStatus, StoreError> {
        self.at_once(|| self.stands()).while_doing("see where the home stands")
    }

    fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        self.held().while_doing("find what is held")
    }

    fn parked(&self) -> Result<Vec<Parked>, StoreError> {
        self.parked_handovers().while_doing("find hand-overs that were set aside")
    }

    fn reviews(&self) -> Result<Vec<ReviewRecord>, StoreError> {
        self.open_reviews().while_doing("list reviews")
    }

    fn routes(&self) -> Result<Vec<JsonText>, StoreError> {
        self.all_routes().while_doing("list where chats lead")
    }

    fn counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.event_counts().while_doing("count events")
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        let found = self.at_once(|| {
            let found = self.broken()?;
            Ok(found.iter().map(crate::check::Breach::in_words).collect())
        });
        found.while_doing("check the store")
    }
}

impl StoreReader {
    fn seen_as(&self, key: &str) -> Result<Option<Seen>, StoreFault> {
        let mut statement =
            self.conn.prepare_cached("SELECT session, seq, body FROM tl_seen WHERE key = ?1")?;
        let mut rows = statement.query([crate::seen::seen_as(key)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let body = row.get::<_, Option<[u8; 32]>>(2)?.map(Digest);
        Ok(Some(Seen { session: session_id(&row.get::<_, String>(0)?)?, seq: Seq(unsigned(row, 1)?), body }))
    }

    fn newest_with(&self, key: &Digest) -> Result<Option<Implicit>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session, seq, at, written FROM tl_inbox
             WHERE implicit = ?1 ORDER BY at DESC, seq DESC LIMIT 1",
        )?;
        let mut rows = statement.query([key.0])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Implicit {
            session: session_id(&row.get::<_, String>(0)?)?,
            seq: Seq(unsigned(row, 1)?),
            at: Time(row.get(2)?),
            written: row.get(3)?,
        }))
    }

    fn event_counts(&self) -> Result<Vec<(String, u64)>, StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT name, n FROM tl_count ORDER BY name")?;
        let counts = statement.query_map([], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?;
        Ok(counts.collect::<rusqlite::Result<_>>()?)
    }
}
