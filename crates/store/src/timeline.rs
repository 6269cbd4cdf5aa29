//! What happened to a whole session, or in one of its compressions; and why a reply was late.
//!
//! Everything is read from times that were stored when it happened. What was not stored is not guessed: how long a
//! model took is the time of its turn, tools and recall included.

use crate::fault::StoreFault;
use crate::read::{StoreReader, session_id, text};
use rusqlite::{OptionalExtension, params};
use throughline_core::compression::operation_name;
use throughline_core::id::{Seq, SessionId};
use throughline_core::port::Trace;
use throughline_core::time::Time;

/// Of a session's turns, the latest: more than these are not read.
const TURNS_MAX: i64 = 200;
/// A reply that took longer was late. People wait that long without wondering.
const LATE: i64 = 5_000_000;

/// A part of the time that a reply took, in microseconds, and what to say about it.
struct ReplyDelay {
    took: i64,
    says: String,
}

impl StoreReader {
    /// A session by its id, a compression by its operation's or its snapshot's name.
    pub(crate) fn timeline(&self, name: &str) -> Result<Vec<Trace>, StoreFault> {
        let sql = "SELECT session, operation FROM tl_snapshot WHERE name = ?1";
        let snapshot: Option<(String, Option<i64>)> = self
            .conn
            .prepare_cached(sql)?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let mut story = Vec::new();
        match snapshot {
            Some((session, Some(operation))) => {
                self.tell_compression(&session_id(&session)?, operation, &mut story)?
            }
            Some((session, None)) => self.tell_left(&session_id(&session)?, name, &mut story)?,
            None => match self.operation_called(name)? {
                Some((session, operation)) => self.tell_compression(&session, operation, &mut story)?,
                None => self.tell_session(name, &mut story)?,
            },
        }
        story.sort_by_key(|trace| trace.at);
        Ok(story)
    }

    /// The log calls an operation by a digest of its session and its number, so each is tried.
    fn operation_called(&self, name: &str) -> Result<Option<(SessionId, i64)>, StoreFault> {
        if name.len() != 12 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut statement = self.conn.prepare_cached("SELECT session, operation FROM tl_compression")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (session, operation) = (session_id(&row.get::<_, String>(0)?)?, row.get::<_, i64>(1)?);
            if operation_name(&session, operation as u64) == name {
                return Ok(Some((session, operation)));
            }
        }
        Ok(None)
    }

    fn tell_session(&self, name: &str, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let Ok(session) = session_id(name) else { return Ok(()) };
        let sql = "SELECT s.started_at, s.source, s.ended_at, s.end_reason, t.predecessor, t.parent,
                          t.id IS NULL
                   FROM sessions s LEFT JOIN tl_session t ON t.id = s.id WHERE s.id = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let mut tell = |at: Time, name: &str, detail: String| {
            story.push(Trace { at, session: session.clone(), name: name.to_owned(), detail });
        };
        let from = match (text(row, 4)?, text(row, 5)?) {
            (_, Some(parent)) => format!(", works for {parent}"),
            (Some(before), None) => format!(", follows {before}"),
            (None, None) => String::new(),
        };
        let source = text(row, 1)?.unwrap_or_default();
        tell(Time::from_seconds(row.get(0)?), "began", format!("from {source}{from}"));
        if let Some(at) = row.get::<_, Option<f64>>(2)? {
            let reason = text(row, 3)?.unwrap_or_else(|| "no reason is known".into());
            let onward = if reason == "compression" { self.onward(&session)? } else { String::new() };
            tell(Time::from_seconds(at), "ended", format!("{reason}{onward}"));
        }
        if row.get::<_, bool>(6)? {
            self.tell_said(&session, story)?;
        }
        self.tell_turns(&session, story)?;
        let mut statement =
            self.conn.prepare_cached("SELECT operation FROM tl_compression WHERE session = ?1")?;
        let operations =
            statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
        for operation in operations {
            self.tell_compression(&session, operation, story)?;
        }
        self.tell_handing_over(&session, story)
    }

    /// What Hermes said in a session: it keeps no turns.
    fn tell_said(&self, session: &SessionId, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let sql = "SELECT count(*), min(id), max(id), max(timestamp) FROM messages WHERE session_id = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let found: (i64, Option<i64>, Option<i64>, Option<f64>) = statement
            .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let (count, Some(first), Some(last), at) = found else { return Ok(()) };
        let detail = format!(
            "{count} messages, rows {first} to {last}, by Hermes, which keeps no turns; `throughline why {last}` tells of one"
        );
        let at = Time::from_seconds(at.unwrap_or(0.0));
        story.push(Trace { at, session: session.clone(), name: "last_said".into(), detail });
        Ok(())
    }

    /// A line for each turn: what it answered, how long that waited, how long the turn took.
    fn tell_turns(&self, session: &SessionId, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let sql = "SELECT turn, min(seq), max(seq), min(at), min(began), max(settled),
                          (SELECT count(*) FROM tl_step p WHERE p.session = i.session AND p.turn = i.turn),
                          (SELECT COALESCE(sum(input + cache_read + cache_write), 0) FROM tl_step p
                           WHERE p.session = i.session AND p.turn = i.turn),
                          (SELECT COALESCE(sum(cache_read), 0) FROM tl_step p
                           WHERE p.session = i.session AND p.turn = i.turn),
                          (SELECT COALESCE(sum(output), 0) FROM tl_step p
                           WHERE p.session = i.session AND p.turn = i.turn),
                          (SELECT COALESCE(sum(calls), 0) FROM tl_step p WHERE p.session = i.session AND p.turn = i.turn)
                   FROM tl_inbox i WHERE session = ?1 AND turn IS NOT NULL AND began IS NOT NULL
                   GROUP BY turn ORDER BY turn DESC LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), TURNS_MAX])?;
        while let Some(row) = rows.next()? {
            let (turn, first, last): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (at, began, settled): (i64, i64, Option<i64>) = (row.get(3)?, row.get(4)?, row.get(5)?);
            let of = match first == last {
                true => format!("{session}/{first}"),
                false => format!("{session}/{first} to {last}"),
            };
            let waited = match began - at {
                0 => String::new(),
                waited => format!(" after it waited {}", seconds(waited)),
            };
            let how = match settled {
                Some(settled) => format!("over after {}", seconds(settled - began)),
                None => "not over".to_owned(),
            };
            let (steps, read, cached, written): (i64, i64, i64, i64) =
                (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?);
            let calls: i64 = row.get(10)?;
            let cached = if cached > 0 { format!(", {cached} of them cached") } else { String::new() };
            let calls = if calls > 0 { format!(", {calls} tool calls") } else { String::new() };
            let detail = format!(
                "{turn}, of {of}{waited}: {how}; {steps} steps{calls}, {read} tokens read{cached}, {written} written"
            );
            story.push(Trace { at: Time(began), session: session.clone(), name: "turn".into(), detail });
        }
        Ok(())
    }

    fn tell_compression(
        &self,
        session: &SessionId,
        operation: i64,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT c.began, c.at, c.state, c.cause, c.messages, c.tokens, c.attempts, c.focus, c.reason, n.name,
                          n.at, n.messages_before, n.messages_after, n.tokens_after, n.kind
                   FROM tl_compression c LEFT JOIN tl_snapshot n ON n.session = c.session AND n.operation = c.operation
                   WHERE c.session = ?1 AND c.operation = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![session.as_str(), operation])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let mut tell = |at: i64, name: &str, detail: String| {
            story.push(Trace { at: Time(at), session: session.clone(), name: name.to_owned(), detail });
        };
        let (began, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let called = operation_name(session, operation as u64);
        let cause = match row.get::<_, i64>(3)? {
            0 => "ahead of time",
            1 => "because the context was full",
            _ => "on order",
        };
        let focus = text(row, 7)?.map_or(String::new(), |focus| format!(", with a focus on {focus}"));
        let (messages, tokens): (i64, i64) = (row.get(4)?, row.get(5)?);
        tell(
            if began > 0 { began } else { at },
            "compression_began",
            format!("operation {called}, {cause}{focus}: {messages} messages, about {tokens} tokens"),
        );
        let (attempts, reason) = (row.get::<_, i64>(6)?, text(row, 8)?.unwrap_or_default());
        let tried = if attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
        match (row.get::<_, i64>(2)?, text(row, 9)?) {
            (2, Some(snapshot)) => {
                let done: i64 = row.get(10)?;
                let (before, after): (i64, i64) = (row.get(11)?, row.get(12)?);
                let (tokens, kind) = (row.get::<_, i64>(13)?, text(row, 14)?.unwrap_or_default());
                let took = seconds(done - began.min(done));
                tell(
                    done,
                    "compression_done",
                    format!(
                        "operation {called}{tried}, {took} after it began: {before} messages became {after}, about \
                         {tokens} tokens, by a {kind}; what was there is kept as {snapshot}"
                    ),
                );
            }
            (0, _) => tell(at, "compression_runs", format!("operation {called}{tried}")),
            (1, _) => {
                tell(at, "compression_ready", format!("operation {called}; it joins before the next request"))
            }
            (state, _) => {
                let how = match state {
                    3 => "compression_stale",
                    4 => "compression_skipped",
                    _ => "compression_failed",
                };
                tell(at, how, format!("operation {called}{tried}: {reason}"));
            }
        }
        Ok(())
    }

    /// A snapshot that no compression left.
    fn tell_left(&self, session: &SessionId, name: &str, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let sql = "SELECT at, kind, messages_before, messages_after FROM tl_snapshot WHERE name = ?1";
        let (at, kind, before, after): (i64, String, i64, i64) = self
            .conn
            .prepare_cached(sql)?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let detail = format!("{kind}: {before} messages became {after}; what was there is kept as {name}");
        story.push(Trace { at: Time(at), session: session.clone(), name: "view_changed".into(), detail });
        Ok(())
    }

    /// What became of a turn with the memory provider.
    pub(crate) fn tell_retention(
        &self,
        session: &SessionId,
        turn: i64,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT created, updated, state, attempts, provider, document, error FROM tl_retention
                   WHERE session = ?1 AND (key = ?1 || '/' || ?2 OR key LIKE '%/' || ?2) ORDER BY number DESC LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params![session.as_str(), turn])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let (provider, document): (String, String) = (row.get(4)?, row.get(5)?);
        let place = format!("{provider}, document {document}");
        let attempts: i64 = row.get(3)?;
        let because = text(row, 6)?.map_or(String::new(), |error| format!(": {error}"));
        let mut tell = |at: i64, name: &str, detail: String| {
            story.push(Trace { at: Time(at), session: session.clone(), name: name.into(), detail });
        };
        tell(row.get(0)?, "to_be_remembered", format!("by {place}"));
        let updated = row.get(1)?;
        match row.get::<_, i64>(2)? {
            2 => tell(updated, "remembered", format!("by {place}")),
            3 => tell(
                updated,
                "not_remembered",
                format!("{place} refused it after {attempts} attempts{because}"),
            ),
            _ if attempts > 0 => {
                tell(updated, "still_to_be_remembered", format!("after {attempts} attempts{because}"))
            }
            _ => {}
        }
        Ok(())
    }

    /// Which message's turn ran when this one came.
    pub(crate) fn behind(&self, session: &SessionId, seq: Seq, at: i64) -> Result<Option<i64>, StoreFault> {
        let sql = "SELECT max(seq) FROM tl_inbox WHERE session = ?1 AND seq < ?2 AND COALESCE(settled, ?3 + 1) > ?3";
        let behind = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![session.as_str(), seq.0 as i64, at], |row| row.get(0))?;
        Ok(behind)
    }

    /// One sentence about a reply that was late, from the times that were stored; none if it was not.
    pub(crate) fn tell_late(
        &self,
        session: &SessionId,
        seq: Seq,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql = "SELECT at, began, settled, turn FROM tl_inbox WHERE session = ?1 AND seq = ?2";
        let found =
            self.conn.prepare_cached(sql)?.query_row(params![session.as_str(), seq.0 as i64], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            });
        let (at, Some(began), Some(settled), turn): (i64, Option<i64>, Option<i64>, Option<i64>) = found?
        else {
            return Ok(());
        };
        let sql =
            "SELECT max(updated), max(attempts), max(error) FROM tl_outbox WHERE state = 2 AND session = ?1
                   AND (key = ?2 OR key GLOB ?2 || '/*' OR key GLOB ?2 || '+*')";
        let key = format!("{session}/{}", turn.unwrap_or(seq.0 as i64));
        let (delivered, attempts, error): (Option<i64>, Option<i64>, Option<String>) = self
            .conn
            .prepare_cached(sql)?
            .query_row([session.as_str(), &key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let over = delivered.unwrap_or(settled).max(settled);
        if over - at < LATE {
            return Ok(());
        }
        let compressing = self.waited_for_compression(session, at, settled)?;
        let mut parts = vec![
            match self.behind(session, seq, at)? {
                Some(behind) => {
                    part(began - at, format!("behind message {session}/{behind}"), "it waited {}")
                }
                None => part(began - at, String::new(), "it waited {} for its turn"),
            },
            part(settled - began - compressing, String::new(), "the model and its tools took {}"),
            part(compressing, String::new(), "{} went into a compression, because the context was full"),
            match (attempts.unwrap_or(0), error) {
                (2.., Some(error)) => part(
                    over - settled,
                    format!("with {} attempts ({error})", attempts.unwrap_or(0)),
                    "the platform took {}",
                ),
                (many @ 2.., None) => {
                    part(over - settled, format!("with {many} attempts"), "the platform took {}")
                }
                _ => part(over - settled, String::new(), "delivery took {}"),
            },
        ];
        parts.retain(|part| part.took >= 100_000);
        parts.sort_by_key(|part| -part.took);
        let says: Vec<String> = parts.into_iter().map(|part| part.says).collect();
        let whole = seconds(over - at);
        let to = if delivered.is_some() { "until it was delivered" } else { "until it was answered" };
        let detail = format!("{whole} from its arrival {to}: {}", says.join("; "));
        story.push(Trace { at: Time(over), session: session.clone(), name: "late".into(), detail });
        Ok(())
    }

    /// How long of this time a compression was waited for.
    fn waited_for_compression(&self, session: &SessionId, from: i64, to: i64) -> Result<i64, StoreFault> {
        let sql = "SELECT COALESCE(sum(max(0, min(COALESCE(n.at, c.at), ?3) - max(c.began, ?2))), 0)
                   FROM tl_compression c LEFT JOIN tl_snapshot n ON n.session = c.session AND n.operation = c.operation
                   WHERE c.session = ?1 AND c.cause = 1 AND c.began > 0 AND c.began < ?3";
        Ok(self.conn.prepare_cached(sql)?.query_row(params![session.as_str(), from, to], |row| row.get(0))?)
    }
}

fn part(took: i64, about: String, says: &str) -> ReplyDelay {
    let says = format!("{} {about}", says.replace("{}", &seconds(took)));
    ReplyDelay { took, says: says.trim_end().to_owned() }
}

/// `0.4 s`, `38 s`, `2 min 5 s`
pub(crate) fn seconds(microseconds: i64) -> String {
    let seconds = microseconds.max(0) as f64 / 1e6;
    match seconds {
        short if short < 10.0 => format!("{short:.1} s"),
        middling if middling < 120.0 => format!("{middling:.0} s"),
        long => format!("{} min {} s", long as u64 / 60, long as u64 % 60),
    }
}
