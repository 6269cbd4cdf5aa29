//! What happened to a message, put together from everything that was written about it.

mod order;

use crate::call::in_short;
use crate::envelope;
use crate::fault::StoreFault;
use crate::lineage::owner;
use crate::read::{StoreReader, malformed, session_id, stage_from, stored_input, text, unsigned};
use crate::seen::seen_as;
use crate::snapshot::names_of;
use order::in_order;
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;
use throughline_core::command::Command;
use throughline_core::id::{Seq, SessionId};
use throughline_core::input::{DedupeKey, Input, Kind};
use throughline_core::lifecycle::BACKLOG_AFTER;
use throughline_core::message::{Body, ToolResult};
use throughline_core::port::Trace;
use throughline_core::redact::redacted;
use throughline_core::session::Outcome;
use throughline_core::time::Time;
use throughline_core::turn::Slot;

/// A name may fit several messages (platforms number each chat from one); more than these are not read.
const MESSAGES_MAX: usize = 20;
/// What was noted around one message.
const EVENTS_MAX: i64 = 200;
/// How much of a result is told: its beginning says how the call ended.
const RESULT_CHARS: usize = 120;

type InboxPosition = (SessionId, Seq);

impl StoreReader {
    pub(crate) fn story(&self, name: &str) -> Result<Vec<Trace>, StoreFault> {
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
        if story.is_empty() {
            for row in self.rows_named(name)? {
                self.tell_bygone(row, &mut story)?;
            }
        }
        if story.is_empty() {
            return self.timeline(name);
        }
        Ok(in_order(story))
    }

    /// Every message that goes by this name.
    fn named(&self, name: &str) -> Result<BTreeSet<InboxPosition>, StoreFault> {
        let mut places = BTreeSet::new();
        if let Some((session, number)) = name.rsplit_once('/')
            && let (Ok(session), Ok(number)) = (session.parse::<SessionId>(), number.parse())
        {
            places.insert((session, Seq(number)));
        }
        let sql = "SELECT session, seq FROM tl_seen WHERE key = ?1 AND seq > 0";
        self.add_places(&mut places, sql, &seen_as(name))?;
        // A key ends in the platform's own id, or is a client's key behind its principal.
        let ending = DedupeKey::of(&["", name]);
        self.add_ending(&mut places, ending.as_str())?;
        for row in self.rows_named(name)? {
            self.add_row(&mut places, row)?;
        }
        self.add_replies(&mut places, name)?;
        Ok(places)
    }

    /// Messages whose key ends so. `tl_seen` has only digests: the key itself lies with its message.
    fn add_ending(&self, places: &mut BTreeSet<InboxPosition>, ending: &str) -> Result<(), StoreFault> {
        let sql = "SELECT session, seq FROM tl_inbox
                   WHERE instr(envelope, ?2) > 0 AND COALESCE(outcome, '') NOT GLOB '{\"moved\":*'
                     AND substr(json_extract(envelope, '$.key'), -length(?1)) = ?1 LIMIT 20";
        // As it stands in JSON, which is much quicker to look for than every envelope is to parse.
        let quoted = serde_json::Value::from(ending).to_string();
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([ending, quoted.trim_start_matches('"')])?;
        while let Some(row) = rows.next()? {
            places.insert((session_id(&row.get::<_, String>(0)?)?, Seq(unsigned(row, 1)?)));
        }
        Ok(())
    }

    /// The rows of transcripts that go by this name, also those that Hermes wrote.
    fn rows_named(&self, name: &str) -> Result<Vec<i64>, StoreFault> {
        let mut found: Vec<i64> = name.parse().into_iter().collect();
        if self.variants.can.has_platform_message_id {
            let sql = "SELECT id FROM messages WHERE platform_message_id = ?1 LIMIT 20";
            let mut statement = self.conn.prepare_cached(sql)?;
            let rows = statement.query_map([name], |row| row.get(0))?;
            found.extend(rows.collect::<rusqlite::Result<Vec<i64>>>()?);
        }
        Ok(found)
    }

    fn add_places(
        &self,
        places: &mut BTreeSet<InboxPosition>,
        sql: &str,
        name: &str,
    ) -> Result<(), StoreFault> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            places.insert((session_id(&row.get::<_, String>(0)?)?, Seq(unsigned(row, 1)?)));
        }
        Ok(())
    }

    /// The inputs that a row of the transcript is, or answers.
    fn add_row(&self, places: &mut BTreeSet<InboxPosition>, message: i64) -> Result<(), StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT session_id FROM messages WHERE id = ?1")?;
        let session: Option<String> = statement.query_row([message], |row| row.get(0)).optional()?;
        let Some(session) = session else { return Ok(()) };
        let session = owner(&session);
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
    fn add_replies(&self, places: &mut BTreeSet<InboxPosition>, name: &str) -> Result<(), StoreFault> {
        let sql = "SELECT session, key FROM tl_outbox WHERE key = ?1 OR platform_id = ?1 LIMIT 20";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            let (session, key): (String, String) = (row.get(0)?, row.get(1)?);
            let rest = key.strip_prefix(&session).and_then(|rest| rest.strip_prefix('/'));
            let number =
                rest.and_then(|rest| rest.split(['/', '+']).next()).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                places.insert((session_id(&session)?, Seq(number)));
            }
        }
        Ok(())
    }

    /// The story of one input. Where it was moved to, if it was.
    fn tell(
        &self,
        place: &InboxPosition,
        story: &mut Vec<Trace>,
    ) -> Result<Option<InboxPosition>, StoreFault> {
        let (session, seq) = place;
        let sql = "SELECT seq, at, envelope, turn, began, message, settled, outcome, answers FROM tl_inbox
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
                let behind = self.behind(session, *seq, input.at.0)?;
                let behind = behind.map_or(String::new(), |behind| format!(", behind number {behind}"));
                tell(input.at.0, "queued", format!("number {seq} of its session{behind}"));
            }
            let message = row.get::<_, Option<i64>>(5)?;
            let detail = match (message, row.get::<_, Option<i64>>(8)?) {
                (Some(message), _) => format!(", row {message} of the transcript"),
                (None, Some(_)) => ", as the answer to what a call asked".to_owned(),
                (None, None) => String::new(),
            };
            // What came while a turn was under way, and belongs to it, joined it.
            let name = match self.turn_began(session, turn)?.is_some_and(|first| first < began) {
                true => "joined_turn",
                false => "turn_began",
            };
            tell(began, name, format!("turn {turn}{detail}"));
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
            let baseline = self.baseline_of_home().unwrap_or_default();
            let before = input.trace.is_human() && input.at.plus(BACKLOG_AFTER) < baseline;
            let why = match self.is_halted(session)? {
                true if before => {
                    "it was written before this home was taken over, and is held until a person writes there anew, \
                     or `throughline resume`"
                }
                true => "the session is silenced until a person writes, or the operator lets it go on",
                false => "for the turn before it",
            };
            tell(input.at.0, "waiting", why.to_owned());
        }
        let over = settled.unwrap_or(i64::MAX);
        let turn = turn.unwrap_or(seq.0 as i64);
        self.tell_steps(session, turn, story)?;
        self.tell_replies(session, turn, *seq, story)?;
        self.tell_retention(session, turn, story)?;
        self.tell_late(session, *seq, story)?;
        self.tell_cut(&input, session, story)?;
        self.tell_events(session, input.at.0, over, story)?;
        self.tell_handing_over(session, story)?;
        Ok(moved)
    }

    /// When the first message of a turn was taken up.
    fn turn_began(&self, session: &SessionId, turn: i64) -> Result<Option<i64>, StoreFault> {
        let sql = "SELECT began FROM tl_inbox WHERE session = ?1 AND seq = ?2 AND turn = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row(params![session.as_str(), turn], |row| row.get(0)).optional()?.flatten())
    }

    fn tell_steps(&self, session: &SessionId, turn: i64, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT at, number, step, model, input + cache_read + cache_write, output, calls, message, open IS NOT NULL,
                    cache_read FROM tl_step WHERE session = ?1 AND turn = ?2 ORDER BY number",
        )?;
        let mut rows = statement.query(params![session.as_str(), turn])?;
        while let Some(row) = rows.next()? {
            let (number, step): (i64, i64) = (row.get(1)?, row.get(2)?);
            let (at, model): (i64, String) = (row.get(0)?, row.get(3)?);
            let mut calls = Vec::new();
            let cached = match row.get::<_, i64>(9)? {
                0 => String::new(),
                cached => format!(" ({cached} of them cached)"),
            };
            let mut detail = format!(
                "step {} by {model}: {} tokens read{cached}, {} written",
                step + 1,
                row.get::<_, i64>(4)?,
                row.get::<_, i64>(5)?
            );
            match (row.get::<_, i64>(6)?, row.get::<_, bool>(8)?) {
                (0, _) => {}
                (count, false) => {
                    detail += &format!("; {count} tool calls, done");
                    if let Some(message) = row.get(7)? {
                        calls = self.closed_calls(session, message, count)?;
                    }
                }
                (count, true) => {
                    calls = self.open_calls(session, number)?;
                    let done = calls.iter().filter(|call| call.done).count();
                    detail += &format!("; {count} tool calls, {done} done");
                }
            }
            if let Some(message) = row.get::<_, Option<i64>>(7)? {
                detail += &format!("; row {message} of the transcript");
            }
            let mut tell = |name: &str, detail: String| {
                story.push(Trace { at: Time(at), session: session.clone(), name: name.to_owned(), detail });
            };
            tell("answered_by_model", detail);
            for (index, call) in calls.iter().enumerate() {
                tell("call", format!("{turn}/{step}/{index} {}: {}", call.tool, call.how));
            }
        }
        Ok(())
    }

    /// Calls of a group that is still open, each as it stands.
    fn open_calls(&self, session: &SessionId, number: i64) -> Result<Vec<CallStory>, StoreFault> {
        let sql = "SELECT open FROM tl_step WHERE session = ?1 AND number = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let open: String = statement.query_row(params![session.as_str(), number], |row| row.get(0))?;
        let group = self.group(session, number, &open)?;
        let calls = group.answer.calls.iter().zip(&group.slots);
        Ok(calls
            .map(|(call, slot)| CallStory {
                tool: call.name.clone(),
                how: match slot {
                    Slot::Open(None) => "running".to_owned(),
                    Slot::Open(Some(grant)) => format!("granted {}, running", envelope::grant_name(*grant)),
                    Slot::Client => "left to the client".to_owned(),
                    Slot::Asking(ask) => format!("asks until {}: {}", ask.until, in_short(&ask.question)),
                    Slot::Done(result) => beginning(result),
                },
                done: matches!(slot, Slot::Done(_)),
            })
            .collect())
    }

    /// Calls of a group that the transcript has, each with what came back.
    fn closed_calls(
        &self,
        session: &SessionId,
        message: i64,
        count: i64,
    ) -> Result<Vec<CallStory>, StoreFault> {
        let Some(said) = self.message(message)? else { return Ok(Vec::new()) };
        let mut results = Vec::new();
        for id in self.results_behind(session, message, count)? {
            if let Some(Body::Result(result)) = self.message(id)?.map(|message| message.body) {
                results.push(result);
            }
        }
        let came_back = |id: &str| results.iter().find(|result| result.call_id == id);
        Ok(said
            .calls()
            .iter()
            .map(|call| CallStory {
                tool: call.name.clone(),
                how: came_back(&call.id).map_or_else(|| "its result is gone".to_owned(), beginning),
                done: true,
            })
            .collect())
    }

    /// Tool results that stand right behind this row, or stood there before a summary stood for them.
    fn results_behind(&self, session: &SessionId, message: i64, count: i64) -> Result<Vec<i64>, StoreFault> {
        let (below, above) = names_of(session.as_str());
        let sql = "SELECT m.id FROM messages m LEFT JOIN tl_place p ON p.id = m.id
                   WHERE (m.session_id = ?1 OR (m.session_id > ?4 AND m.session_id < ?5)) AND m.role = 'tool'
                     AND COALESCE(p.place, m.id) > COALESCE((SELECT place FROM tl_place WHERE id = ?2), ?2)
                   ORDER BY COALESCE(p.place, m.id) LIMIT ?3";
        let mut statement = self.conn.prepare_cached(sql)?;
        let ids =
            statement.query_map(params![session.as_str(), message, count, below, above], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    fn is_halted(&self, session: &SessionId) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_session WHERE id = ?1 AND halted = 1";
        Ok(self.conn.prepare_cached(sql)?.exists([session.as_str()])?)
    }

    /// The notice that a chain of agents was cut is written once for the whole chain.
    fn tell_cut(&self, input: &Input, session: &SessionId, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        if input.trace.is_human() {
            return Ok(());
        }
        let key = format!("cut/{}", input.trace.origin);
        let sql = "SELECT key, created, session FROM tl_outbox WHERE key IN (?1, ?2)";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([&key, &format!("{session}/{key}")])?;
        while let Some(row) = rows.next()? {
            let detail =
                format!("{}, written by session {}", row.get::<_, String>(0)?, row.get::<_, String>(2)?);
            let event =
                Trace { at: Time(row.get(1)?), session: session.clone(), name: "cut_notice".into(), detail };
            if !story.contains(&event) {
                story.push(event);
            }
        }
        Ok(())
    }

    fn tell_replies(
        &self,
        session: &SessionId,
        turn: i64,
        seq: Seq,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT key, state, attempts, marked, created, updated, platform_id, error, destination FROM tl_outbox
                   WHERE key >= ?1 AND key < ?1 || '0' AND (key = ?1 OR substr(key, length(?1) + 1, 1) IN ('/', '+'))";
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
                    1 => (
                        "reply_attempting",
                        format!("attempt {attempts}{marked}; its outcome is unknown{because}"),
                    ),
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
    ) -> Result<(), StoreFault> {
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

    pub(crate) fn tell_handing_over(
        &self,
        session: &SessionId,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT at, name, detail FROM tl_event WHERE session = ?1
                   AND (name GLOB 'finalisation_*' OR name = 'session_expired') ORDER BY id LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), EVENTS_MAX])?;
        while let Some(row) = rows.next()? {
            let (name, detail) = (row.get(1)?, row.get(2)?);
            let event = Trace { at: Time(row.get(0)?), session: session.clone(), name, detail };
            if !story.contains(&event) {
                story.push(event);
            }
        }
        let sql = "SELECT at, stage, reason, parked, attempts, epoch FROM tl_finalisation WHERE session = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([session.as_str()])?;
        while let Some(row) = rows.next()? {
            let stage = format!("{:?}", stage_from(row.get(1)?)).to_lowercase();
            let how = match (row.get::<_, Option<String>>(3)?, row.get::<_, i64>(4)?) {
                (Some(parked), tried) => {
                    format!(
                        ", set aside after {tried} attempts at {parked}; `throughline resume` tries it again"
                    )
                }
                (None, 0) => String::new(),
                (None, tried) => format!(", {tried} attempts failed, tried again"),
            };
            let epoch = match row.get::<_, i64>(5)? {
                1 => String::new(),
                epoch => format!(" for the {epoch}. time"),
            };
            let event = Trace {
                at: Time(row.get(0)?),
                session: session.clone(),
                name: "session_ended".into(),
                detail: format!("{}{epoch}; hand-over: {stage}{how}", row.get::<_, String>(2)?),
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
        Kind::Chat(_) => "a chat message".to_owned(),
        Kind::Request(request) if request.task.is_some() => "a task".to_owned(),
        Kind::Request(_) => "an API request".to_owned(),
        Kind::Command(command) => command_name(command),
    };
    let from = input.sender.as_ref().map_or(String::new(), |sender| format!(" from {}", sender.id));
    let via = input.reply_to.as_ref().map_or(String::new(), |to| format!(" on {} {}", to.platform, to.chat));
    let trace = match input.trace.hops {
        0 => String::new(),
        hops => format!(", {hops} hops from {}", input.trace.origin),
    };
    format!("{what}{from}{via}, key {}{trace}", input.key)
}

fn command_name(command: &Command) -> String {
    match command {
        Command::Notice { .. } => "a notice for people, from a program or another agent's gateway".to_owned(),
        Command::Unknown { .. } | Command::Absent { .. } => "a command that is none".to_owned(),
        known => format!("the command /{}", known.name()),
    }
}

/// One call, for people.
struct CallStory {
    tool: String,
    how: String,
    done: bool,
}

fn beginning(result: &ToolResult) -> String {
    let text = redacted(&result.content.plain());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(RESULT_CHARS) {
        _ if text.is_empty() => "done".to_owned(),
        Some((end, _)) => format!("done, {}…", &text[..end]),
        None => format!("done, {text}"),
    }
}

fn ended(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Answered(turn) => ("answered", format!("by turn {turn}")),
        Outcome::Failed(turn, failure) => ("failed", format!("turn {turn}: {}", failure.message)),
        Outcome::Done { said, .. } => ("done", said.clone()),
        Outcome::Moved { session, seq } => ("moved", format!("to number {seq} of session {session}")),
    }
}
