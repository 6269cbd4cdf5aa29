//! What happened to a message, put together from everything that was written about it.

use crate::envelope;
use crate::fault::Fault;
use crate::read::{Reader, malformed, session_id, stage_from, stored_input, text, unsigned};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;
use throughline_core::id::{Seq, SessionId};
use throughline_core::input::{DedupeKey, Input, Kind};
use throughline_core::port::Trace;
use throughline_core::session::Outcome;
use throughline_core::time::Time;

/// A name may fit several messages (platforms number each chat from one); nobody reads more.
const MESSAGES_MAX: usize = 20;
/// What was noted around one message.
const EVENTS_MAX: i64 = 200;

type Place = (SessionId, Seq);

impl Reader {
    pub(crate) fn story(&self, name: &str) -> Result<Vec<Trace>, Fault> {
        let mut places = self.named(name)?;
        let mut told = BTreeSet::new();
        let mut story = Vec::new();
        while let Some(place) = places.pop_first() {
            if told.len() == MESSAGES_MAX || !told.insert(place.clone()) {
                continue;
            }
            if let Some(moved) = self.tell(&place, &mut story)? {
                places.insert(moved);
            }
        }
        story.sort_by_key(|trace| trace.at);
        Ok(story)
    }

    /// Every message that goes by this name.
    fn named(&self, name: &str) -> Result<BTreeSet<Place>, Fault> {
        let mut places = BTreeSet::new();
        if let Some((session, number)) = name.rsplit_once('/')
            && let (Ok(session), Ok(number)) = (session.parse::<SessionId>(), number.parse())
        {
            places.insert((session, Seq(number)));
        }
        self.add_places(&mut places, "SELECT session, seq FROM tl_seen WHERE key = ?1 AND seq > 0", name)?;
        if let Ok(row) = name.parse::<i64>() {
            self.add_row(&mut places, row)?;
        }
        // A key ends in the platform's own id, or is a client's key behind its principal.
        let ending = DedupeKey::of(&["", name]);
        let sql = "SELECT session, seq FROM tl_seen
                   WHERE substr(key, -length(?1)) = ?1 AND seq > 0 LIMIT 20";
        self.add_places(&mut places, sql, ending.as_str())?;
        if self.shape.can.has_platform_message_id {
            let mut statement = self
                .conn
                .prepare_cached("SELECT id FROM messages WHERE platform_message_id = ?1 LIMIT 20")?;
            let rows =
                statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
            for row in rows {
                self.add_row(&mut places, row)?;
            }
        }
        self.add_replies(&mut places, name)?;
        Ok(places)
    }

    fn add_places(&self, places: &mut BTreeSet<Place>, sql: &str, name: &str) -> Result<(), Fault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            places.insert((session_id(&row.get::<_, String>(0)?)?, Seq(unsigned(row, 1)?)));
        }
        Ok(())
    }

    /// The inputs that a row of the transcript is, or answers.
    fn add_row(&self, places: &mut BTreeSet<Place>, message: i64) -> Result<(), Fault> {
        let mut statement = self.conn.prepare_cached("SELECT session_id FROM messages WHERE id = ?1")?;
        let session: Option<String> = statement.query_row([message], |row| row.get(0)).optional()?;
        let Some(session) = session else { return Ok(()) };
        let mut statement = self.conn.prepare_cached(
            "SELECT session, seq FROM tl_inbox WHERE session = ?1 AND (message = ?2 OR turn =
                (SELECT turn FROM tl_step WHERE session = ?1 AND message <= ?2 AND message + 2 * calls >= ?2))",
        )?;
        let mut rows = statement.query(params![session, message])?;
        while let Some(row) = rows.next()? {
            places.insert((session_id(&row.get::<_, String>(0)?)?, Seq(unsigned(row, 1)?)));
        }
        Ok(())
    }

    /// A reply's key begins with the session and the input it answers.
    fn add_replies(&self, places: &mut BTreeSet<Place>, name: &str) -> Result<(), Fault> {
        let sql = "SELECT session, key FROM tl_outbox WHERE key = ?1 OR platform_id = ?1 LIMIT 20";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            let (session, key): (String, String) = (row.get(0)?, row.get(1)?);
            let rest = key.strip_prefix(&session).and_then(|rest| rest.strip_prefix('/'));
            let number = rest.and_then(|rest| rest.split('/').next()).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                places.insert((session_id(&session)?, Seq(number)));
            }
        }
        Ok(())
    }

    /// The story of one input. Where it was moved to, if it was.
    fn tell(&self, place: &Place, story: &mut Vec<Trace>) -> Result<Option<Place>, Fault> {
        let (session, seq) = place;
        let sql = "SELECT seq, at, envelope, turn, began, message, settled, outcome FROM tl_inbox
                   WHERE session = ?1 AND seq = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), seq.0 as i64])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let input = stored_input(row)?;
        let mut tell = |at: i64, name: &str, detail: String| {
            story.push(Trace { at: Time(at), session: session.clone(), name: name.to_owned(), detail });
        };
        tell(input.at.0, "received", received(&input));
        let (turn, began): (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
        if let (Some(turn), Some(began)) = (turn, began) {
            if began > input.at.0 {
                tell(input.at.0, "queued", format!("number {seq} of its session"));
            }
            let message = row.get::<_, Option<i64>>(5)?;
            let detail =
                message.map_or(String::new(), |message| format!(", row {message} of the transcript"));
            tell(began, "turn_began", format!("turn {turn}{detail}"));
        }
        let settled: Option<i64> = row.get(6)?;
        let mut moved = None;
        if let (Some(at), Some(outcome)) = (settled, text(row, 7)?) {
            let outcome = envelope::outcome(&outcome).map_err(malformed("an outcome"))?;
            let (name, detail) = ended(&outcome);
            tell(at, name, detail);
            if let Outcome::Moved { session, seq } = outcome {
                moved = Some((session, seq));
            }
        } else if turn.is_none() {
            tell(input.at.0, "waiting", "for the turn before it".to_owned());
        }
        let over = settled.unwrap_or(i64::MAX);
        let turn = turn.unwrap_or(seq.0 as i64);
        self.tell_steps(session, turn, story)?;
        self.tell_replies(session, turn, *seq, story)?;
        self.tell_events(session, input.at.0, over, story)?;
        self.tell_handing_over(session, story)?;
        Ok(moved)
    }

    fn tell_steps(&self, session: &SessionId, turn: i64, story: &mut Vec<Trace>) -> Result<(), Fault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT at, number, step, model, input + cache_read + cache_write, output, calls, message, open IS NOT NULL
             FROM tl_step WHERE session = ?1 AND turn = ?2",
        )?;
        let mut rows = statement.query(params![session.as_str(), turn])?;
        while let Some(row) = rows.next()? {
            let (step, model): (i64, String) = (row.get(2)?, row.get(3)?);
            let mut detail = format!(
                "step {} by {model}: {} tokens read, {} written",
                step + 1,
                row.get::<_, i64>(4)?,
                row.get::<_, i64>(5)?
            );
            match (row.get::<_, i64>(6)?, row.get::<_, bool>(8)?) {
                (0, _) => {}
                (calls, false) => detail += &format!("; {calls} tool calls, done"),
                (calls, true) => {
                    let done = self.done_calls(session, row.get(1)?)?;
                    detail += &format!("; {calls} tool calls, {done} done");
                }
            }
            if let Some(message) = row.get::<_, Option<i64>>(7)? {
                detail += &format!("; row {message} of the transcript");
            }
            story.push(Trace {
                at: Time(row.get(0)?),
                session: session.clone(),
                name: "answered_by_model".into(),
                detail,
            });
        }
        Ok(())
    }

    fn done_calls(&self, session: &SessionId, step: i64) -> Result<i64, Fault> {
        let sql = "SELECT count(*) FROM tl_call WHERE session = ?1 AND step = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row(params![session.as_str(), step], |row| row.get(0))?)
    }

    fn tell_replies(
        &self,
        session: &SessionId,
        turn: i64,
        seq: Seq,
        story: &mut Vec<Trace>,
    ) -> Result<(), Fault> {
        let sql = "SELECT key, state, attempts, marked, created, updated, platform_id, error, destination FROM tl_outbox
                   WHERE key >= ?1 AND key < ?1 || '0' AND (key = ?1 OR substr(key, length(?1) + 1, 1) = '/')";
        for number in BTreeSet::from([turn, seq.0 as i64]) {
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query([format!("{session}/{number}")])?;
            while let Some(row) = rows.next()? {
                let destination: String = row.get(8)?;
                let to = envelope::destination(&destination).map_err(malformed("a destination"))?;
                let place = format!("{} {}", to.platform, to.chat);
                let mut tell = |at: i64, name: &str, detail: String| {
                    story.push(Trace { at: Time(at), session: session.clone(), name: name.into(), detail });
                };
                tell(row.get(4)?, "reply_written", format!("{} to {place}", row.get::<_, String>(0)?));
                let attempts: i64 = row.get(2)?;
                let marked = if row.get(3)? { ", marked as sent again" } else { "" };
                let because = text(row, 7)?.map_or(String::new(), |error| format!(": {error}"));
                let (name, detail) = match row.get::<_, i64>(1)? {
                    0 if attempts == 0 => continue,
                    0 => ("reply_postponed", format!("after {attempts} attempts{because}")),
                    1 => ("reply_attempting", format!("attempt {attempts}{marked}; its outcome is unknown")),
                    2 => {
                        let id = text(row, 6)?.map_or(String::new(), |id| format!(" as {id}"));
                        ("reply_delivered", format!("attempt {attempts}{marked}{id}"))
                    }
                    _ => ("reply_refused", format!("after {attempts} attempts{because}")),
                };
                tell(row.get(5)?, name, detail);
            }
        }
        Ok(())
    }

    /// What was noted about the session while the message was on its way.
    fn tell_events(
        &self,
        session: &SessionId,
        from: i64,
        to: i64,
        story: &mut Vec<Trace>,
    ) -> Result<(), Fault> {
        let sql = "SELECT at, name, detail FROM tl_event WHERE session = ?1 AND at BETWEEN ?2 AND ?3
                   ORDER BY id LIMIT ?4";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), from, to, EVENTS_MAX])?;
        while let Some(row) = rows.next()? {
            let event = Trace {
                at: Time(row.get(0)?),
                session: session.clone(),
                name: row.get(1)?,
                detail: row.get(2)?,
            };
            if !story.contains(&event) {
                story.push(event);
            }
        }
        Ok(())
    }

    fn tell_handing_over(&self, session: &SessionId, story: &mut Vec<Trace>) -> Result<(), Fault> {
        let sql = "SELECT at, stage, reason FROM tl_finalisation WHERE session = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([session.as_str()])?;
        while let Some(row) = rows.next()? {
            let stage = format!("{:?}", stage_from(row.get(1)?)).to_lowercase();
            let event = Trace {
                at: Time(row.get(0)?),
                session: session.clone(),
                name: "session_ended".into(),
                detail: format!("{}; hand-over: {stage}", row.get::<_, String>(2)?),
            };
            if !story.contains(&event) {
                story.push(event);
            }
        }
        Ok(())
    }
}

fn received(input: &Input) -> String {
    let what = match &input.kind {
        Kind::Chat(_) => "a chat message",
        Kind::Request(_) => "an API request",
        Kind::Command(_) => "a command",
    };
    let from = input.sender.as_ref().map_or(String::new(), |sender| format!(" from {}", sender.id));
    let via = input.reply_to.as_ref().map_or(String::new(), |to| format!(" on {} {}", to.platform, to.chat));
    format!("{what}{from}{via}, key {}", input.key)
}

fn ended(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Answered(turn) => ("answered", format!("by turn {turn}")),
        Outcome::Failed(turn, failure) => ("failed", format!("turn {turn}: {}", failure.message)),
        Outcome::Done { said, .. } => ("done", said.clone()),
        Outcome::Moved { session, seq } => ("moved", format!("to number {seq} of session {session}")),
    }
}
