//! Where the home stands: what waits, what runs, what is stuck.
//!
//! Asked while everything goes on, so it reads what partial indexes hold and one row per session,
//! never a transcript and never the whole inbox.

use crate::envelope;
use crate::fault::StoreFault;
use crate::read::{StoreReader, malformed, session_id, text, unsigned};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;
use throughline_core::home_status::{
    Compressing, HomeStatus, PARKED_SHOWN_MAX, Place, REFUSED_SHOWN_MAX, Refused, Running, SHOWN_MAX,
    Undelivered, Waiting, Why,
};
use throughline_core::id::{Seq, SessionId};
use throughline_core::message::JsonText;
use throughline_core::time::Time;

/// The latest replies tell when each platform last took one; what is older does not matter.
const REPLIES_LOOKED_AT: i64 = 1_000;
/// Names the row that says whether the operator has silenced the home, and is its value if so.
pub(crate) const SILENCE: &str = "halt";

impl StoreReader {
    /// The operator has silenced the home.
    pub(crate) fn silenced(&self) -> Result<bool, StoreFault> {
        let sql =
            format!("SELECT count(*) FROM tl_cursor WHERE platform = '{SILENCE}' AND value = '{SILENCE}'");
        Ok(self.number(&sql)? > 0)
    }

    pub(crate) fn stands(&self) -> Result<HomeStatus, StoreFault> {
        let (waiting, oldest_waiting) = self.waiting()?;
        let (undelivered, oldest_undelivered) = self.oldest_reply()?;
        let parked = self.parked_handovers()?;
        Ok(HomeStatus {
            sessions: self.number("SELECT count(*) FROM sessions")?,
            open_sessions: self.number("SELECT count(*) FROM sessions WHERE ended_at IS NULL")?,
            places: self.places()?,
            waiting,
            oldest_waiting,
            undelivered,
            oldest_undelivered,
            refused: self.number("SELECT count(*) FROM tl_outbox WHERE state = 3")?,
            latest_refused: self.latest_refused()?,
            running: self.running()?,
            compressing: self.compressing()?,
            handing_over: self.number(
                "SELECT count(*) FROM tl_session WHERE unfinished = 1 AND phase = 2 AND COALESCE(stage, 4) < 4",
            )?,
            handovers_parked: parked.len() as u64,
            latest_handovers_parked: parked.into_iter().rev().take(PARKED_SHOWN_MAX).collect(),
            reviews_due: self.number("SELECT count(*) FROM tl_review WHERE state = 0")?,
            reviews_parked: self.number("SELECT count(*) FROM tl_review WHERE state = 2")?,
            unkept: self.number("SELECT count(*) FROM tl_retention WHERE state IN (0, 1)")?,
            unkept_refused: self.number("SELECT count(*) FROM tl_retention WHERE state = 3")?,
            unkept_error: self.unkept_error()?,
            recalls_missed: self.number(
                "SELECT COALESCE(SUM(n), 0) FROM tl_count WHERE name IN ('recall_missed', 'recall_failed')",
            )?,
            halted_sessions: self.number("SELECT count(*) FROM tl_session WHERE halted = 1")?,
            halted: self.silenced()?,
            parked: self.number(
                "SELECT count(*) FROM tl_session t JOIN tl_inbox i ON i.session = t.id AND i.seq = t.failed
                 WHERE t.failed IS NOT NULL AND i.outcome LIKE '%\"parked\"%'",
            )?,
        })
    }

    pub(crate) fn all_routes(&self) -> Result<Vec<JsonText>, StoreFault> {
        let mut statement = self.conn.prepare_cached("SELECT entry FROM tl_route ORDER BY chat")?;
        let entries = statement.query_map([], |row| row.get::<_, String>(0))?;
        let valid = |entry: rusqlite::Result<String>| Ok(JsonText::from_valid(entry?));
        entries.map(valid).collect()
    }

    fn unkept_error(&self) -> Result<Option<String>, StoreFault> {
        let sql = "SELECT error, updated FROM tl_retention WHERE state IN (0, 1) AND error IS NOT NULL
                   UNION ALL SELECT error, updated FROM tl_retention WHERE state = 3 ORDER BY updated DESC LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([], |row| row.get(0)).optional()?.flatten())
    }

    fn number(&self, sql: &str) -> Result<u64, StoreFault> {
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?.max(0) as u64)
    }

    /// Per source: the last message of each of its sessions, and the last reply that left.
    fn places(&self) -> Result<Vec<Place>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT s.source, max(i.at) FROM tl_session t JOIN sessions s ON s.id = t.id
             LEFT JOIN tl_inbox i ON i.session = t.id AND i.seq = t.received GROUP BY s.source ORDER BY s.source",
        )?;
        let mut places = BTreeMap::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let last_received = row.get::<_, Option<i64>>(1)?.map(Time);
            places.insert(row.get::<_, String>(0)?, (last_received, None));
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT destination, updated FROM
                 (SELECT destination, updated, state FROM tl_outbox ORDER BY number DESC LIMIT ?1) WHERE state = 2",
        )?;
        let mut rows = statement.query([REPLIES_LOOKED_AT])?;
        while let Some(row) = rows.next()? {
            let place: String = row.get(0)?;
            let place = envelope::destination(&place).map_err(malformed("a destination"))?;
            let (_, delivered) = places.entry(place.platform).or_insert((None, None));
            *delivered = (*delivered).max(Some(Time(row.get(1)?)));
        }
        let places = places.into_iter();
        let place =
            |(source, (last_received, last_delivered))| Place { source, last_received, last_delivered };
        Ok(places.map(place).collect())
    }

    /// Only sessions with something to do have messages that wait.
    fn waiting(&self) -> Result<(u64, Option<Waiting>), StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT t.id, i.seq, i.at, t.halted, t.phase, t.compression IS NOT NULL,
                    EXISTS (SELECT 1 FROM tl_call c WHERE c.session = t.id AND c.state = 1)
             FROM tl_session t JOIN tl_inbox i ON i.session = t.id AND i.seq > t.answered AND i.state = 0
             JOIN sessions s ON s.id = t.id WHERE t.unfinished = 1 OR t.halted = 1 ORDER BY i.at, t.id, i.seq",
        )?;
        let mut rows = statement.query([])?;
        let (mut count, mut oldest) = (0, None);
        while let Some(row) = rows.next()? {
            count += 1;
            if oldest.is_some() {
                continue;
            }
            let why = match (row.get(3)?, row.get::<_, i64>(4)?, row.get(5)?, row.get(6)?) {
                (true, ..) => Why::Halted,
                (_, 1, _, true) => Why::Asking,
                (_, 1, ..) => Why::Turn,
                (_, _, true, _) => Why::Compression,
                _ => Why::Next,
            };
            let session = session_id(&row.get::<_, String>(0)?)?;
            oldest = Some(Waiting { session, seq: Seq(unsigned(row, 1)?), since: Time(row.get(2)?), why });
        }
        Ok((count, oldest))
    }

    fn oldest_reply(&self) -> Result<(u64, Option<Undelivered>), StoreFault> {
        let count = self.number("SELECT count(*) FROM tl_outbox WHERE state < 2")?;
        let mut statement = self.conn.prepare_cached(
            "SELECT key, session, destination, created, attempts, error, not_before FROM tl_outbox
             WHERE state < 2 ORDER BY number LIMIT 1",
        )?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok((count, None)) };
        let place: String = row.get(2)?;
        let oldest = Undelivered {
            key: row.get(0)?,
            session: session_id(&row.get::<_, String>(1)?)?,
            platform: envelope::destination(&place).map_err(malformed("a destination"))?.platform,
            since: Time(row.get(3)?),
            attempts: unsigned(row, 4)? as u32,
            error: text(row, 5)?,
            not_before: Time(row.get(6)?),
        };
        Ok((count, Some(oldest)))
    }

    fn latest_refused(&self) -> Result<Vec<Refused>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT key, destination, updated, error FROM tl_outbox WHERE state = 3 ORDER BY number DESC LIMIT ?1",
        )?;
        let mut rows = statement.query([REFUSED_SHOWN_MAX as i64])?;
        let mut refused = Vec::new();
        while let Some(row) = rows.next()? {
            let place: String = row.get(1)?;
            let place = envelope::destination(&place).map_err(malformed("a destination"))?;
            let (key, since, error) = (row.get(0)?, Time(row.get(2)?), text(row, 3)?);
            refused.push(Refused { key, platform: place.platform, chat: place.chat, since, error });
        }
        Ok(refused)
    }

    fn running(&self) -> Result<Vec<Running>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT t.id, s.source, t.began, t.step, p.number, p.open FROM tl_session t
             JOIN sessions s ON s.id = t.id
             LEFT JOIN tl_step p ON p.session = t.id AND p.number = t.steps AND p.turn = t.turn AND p.step = t.step
             WHERE t.phase = 1 ORDER BY t.began, t.id LIMIT ?1",
        )?;
        let mut rows = statement.query([SHOWN_MAX as i64])?;
        let mut running = Vec::new();
        while let Some(row) = rows.next()? {
            let session = session_id(&row.get::<_, String>(0)?)?;
            let (tools, asking) = match (row.get::<_, Option<i64>>(4)?, text(row, 5)?) {
                (Some(number), Some(open)) => self.called(&session, number, &open)?,
                _ => (Vec::new(), false),
            };
            running.push(Running {
                session,
                source: row.get(1)?,
                since: Time(row.get(2)?),
                step: unsigned(row, 3)? as u32,
                tools,
                asking,
            });
        }
        Ok(running)
    }

    /// The calls of an open group that have no result yet.
    fn called(&self, session: &SessionId, step: i64, open: &str) -> Result<(Vec<String>, bool), StoreFault> {
        let answer = envelope::answer(open).map_err(malformed("an open answer"))?;
        let sql = "SELECT position, state FROM tl_call WHERE session = ?1 AND step = ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let states =
            statement.query_map(params![session.as_str(), step], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let states = states.collect::<rusqlite::Result<BTreeMap<i64, i64>>>()?;
        let is_open = |index: usize| states.get(&(index as i64)).is_none_or(|state| *state != 2);
        let calls = answer.calls.iter().enumerate().filter(|(index, _)| is_open(*index));
        let tools = calls.map(|(_, call)| call.name.clone()).collect();
        Ok((tools, states.values().any(|state| *state == 1)))
    }

    fn compressing(&self) -> Result<Vec<Compressing>, StoreFault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session, began, attempts, state FROM tl_compression WHERE state < 2 ORDER BY began LIMIT ?1",
        )?;
        let mut rows = statement.query([SHOWN_MAX as i64])?;
        let mut compressing = Vec::new();
        while let Some(row) = rows.next()? {
            compressing.push(Compressing {
                session: session_id(&row.get::<_, String>(0)?)?,
                since: Time(row.get(1)?),
                attempts: unsigned(row, 2)? as u32,
                ready: row.get::<_, i64>(3)? == 1,
            });
        }
        Ok(compressing)
    }
}
