//! A message that Hermes wrote, as far as anything is known about it.
//!
//! Hermes keeps words and times, and nothing about how they came and went. So the story is what the rows around a message
//! say: what it answers or was answered by, the session it stands in, and where it is kept if it is no longer in view.
//! What was never recorded is said to be unknown.

use crate::envelope;
use crate::fault::StoreFault;
use crate::lineage::owner;
use crate::read::{StoreReader, malformed, session_id, text};
use crate::timeline::seconds;
use rusqlite::{OptionalExtension, params};
use throughline_core::id::SessionId;
use throughline_core::port::Trace;
use throughline_core::time::Time;

/// A row, as far as it has a place in a story.
struct HermesMessage {
    row: i64,
    /// Where it stands, which may be a snapshot.
    stands_in: String,
    role: String,
    at: Time,
    characters: i64,
    tool: Option<String>,
    calls: bool,
    is_live: bool,
}

impl StoreReader {
    pub(crate) fn tell_bygone(&self, row: i64, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let Some(bygone) = self.bygone(row)? else { return Ok(()) };
        let Ok(session) = session_id(owner(&bygone.stands_in)) else { return Ok(()) };
        let is_ours =
            self.conn.prepare_cached("SELECT 1 FROM tl_session WHERE id = ?1")?.exists([session.as_str()])?;
        let mut tell = |at: Time, name: &str, detail: String| {
            story.push(Trace { at, session: session.clone(), name: name.to_owned(), detail });
        };
        let by = match (bygone.role.as_str(), &bygone.tool) {
            ("user", _) => "by a person".to_owned(),
            ("assistant", _) if bygone.calls => "by the agent, which called tools".to_owned(),
            ("assistant", _) => "by the agent".to_owned(),
            ("tool", Some(tool)) => format!("by the tool {tool}"),
            (role, _) => format!("as {role}"),
        };
        let unknown = match is_ours {
            // A summary, or what was there when we took the session over.
            true => "nothing was received here for it",
            false => "Hermes wrote it, and did not record how it was received, queued and delivered",
        };
        let characters = bygone.characters;
        tell(
            bygone.at,
            "written",
            format!("row {row} of the transcript, {by}, {characters} characters; {unknown}"),
        );
        let (at, name, detail) = match bygone.role.as_str() {
            "user" => self.answer_to(&bygone)?,
            _ => self.question_of(&bygone)?,
        };
        tell(at, name, detail);
        self.tell_kept(&bygone, &session, story)?;
        self.tell_around(&session, story)
    }

    fn bygone(&self, row: i64) -> Result<Option<HermesMessage>, StoreFault> {
        let live = if self.variants.can.has_active { "active IS NOT 0" } else { "1" };
        let sql = format!(
            "SELECT session_id, role, timestamp, length(COALESCE(content, '')), tool_name,
                    COALESCE(tool_calls, '') NOT IN ('', '[]'), {live} FROM messages WHERE id = ?1"
        );
        let found = self.conn.prepare_cached(&sql)?.query_row([row], |found| {
            Ok(HermesMessage {
                row,
                stands_in: found.get(0)?,
                role: text(found, 1)?.unwrap_or_default(),
                at: Time::from_seconds(found.get::<_, Option<f64>>(2)?.unwrap_or(0.0)),
                characters: found.get(3)?,
                tool: text(found, 4)?,
                calls: found.get(5)?,
                is_live: found.get(6)?,
            })
        });
        Ok(found.optional()?)
    }

    /// What a person's message got: the next row that is an answer, unless they wrote again before.
    fn answer_to(&self, asked: &HermesMessage) -> Result<(Time, &'static str, String), StoreFault> {
        let sql = "SELECT id, role, timestamp, (SELECT count(*) FROM messages t WHERE t.session_id = ?1
                          AND t.role = 'tool' AND t.id > ?2 AND t.id < m.id)
                   FROM messages m WHERE session_id = ?1 AND id > ?2
                     AND (role = 'user' OR role = 'assistant' AND COALESCE(tool_calls, '') IN ('', '[]'))
                   ORDER BY id LIMIT 1";
        let next = self.conn.prepare_cached(sql)?.query_row(params![asked.stands_in, asked.row], |row| {
            let at = Time::from_seconds(row.get::<_, Option<f64>>(2)?.unwrap_or(0.0));
            Ok((row.get::<_, i64>(0)?, text(row, 1)?.unwrap_or_default(), at, row.get::<_, i64>(3)?))
        });
        Ok(match next.optional()? {
            Some((row, role, at, _)) if role == "user" => {
                (at, "not_answered", format!("row {row}, by a person, comes next: nothing answers it alone"))
            }
            Some((row, _, at, tools)) => {
                let tools =
                    if tools > 0 { format!(", after {tools} results of tools") } else { String::new() };
                let took = seconds((at.0 - asked.at.0).max(0));
                (at, "answered", format!("by row {row}, {took} after it{tools}"))
            }
            None => (asked.at, "not_answered", "nothing follows it in its session".to_owned()),
        })
    }

    fn question_of(&self, said: &HermesMessage) -> Result<(Time, &'static str, String), StoreFault> {
        let sql = "SELECT id, timestamp FROM messages WHERE session_id = ?1 AND id < ?2 AND role = 'user'
                   ORDER BY id DESC LIMIT 1";
        let asked = self.conn.prepare_cached(sql)?.query_row(params![said.stands_in, said.row], |row| {
            Ok((row.get::<_, i64>(0)?, Time::from_seconds(row.get::<_, Option<f64>>(1)?.unwrap_or(0.0))))
        });
        Ok(match asked.optional()? {
            Some((row, at)) => {
                let took = seconds((said.at.0 - at.0).max(0));
                (said.at, "answers", format!("row {row}, which was written {took} before it"))
            }
            None => (said.at, "answers", "nothing that stands before it in its session".to_owned()),
        })
    }

    /// Where it is, if it is not in view.
    fn tell_kept(
        &self,
        bygone: &HermesMessage,
        session: &SessionId,
        story: &mut Vec<Trace>,
    ) -> Result<(), StoreFault> {
        let sql =
            "SELECT name, at, rows, COALESCE(remark, '') FROM tl_snapshot WHERE session = ?1 ORDER BY name";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([session.as_str()])?;
        let mut is_kept = false;
        while let Some(row) = rows.next()? {
            let numbers =
                envelope::numbers(&row.get::<_, String>(2)?).map_err(malformed("a snapshot's rows"))?;
            if !numbers.contains(&bygone.row) {
                continue;
            }
            is_kept = true;
            let (name, remark): (String, String) = (row.get(0)?, row.get(3)?);
            let detail = format!("in the snapshot {name}. {remark}").trim_end().to_owned();
            story.push(Trace {
                at: Time(row.get(1)?),
                session: session.clone(),
                name: "kept".into(),
                detail,
            });
        }
        if !bygone.is_live && !is_kept {
            let detail =
                "it is no longer in view: a compression of Hermes archived it, or a person took it back";
            let (at, name) = (bygone.at, "set_aside".to_owned());
            story.push(Trace { at, session: session.clone(), name, detail: detail.to_owned() });
        }
        Ok(())
    }

    /// The session it stands in: where it came from, how it ended, what goes on.
    pub(crate) fn tell_around(&self, session: &SessionId, story: &mut Vec<Trace>) -> Result<(), StoreFault> {
        let sql =
            "SELECT source, started_at, ended_at, end_reason, parent_session_id FROM sessions WHERE id = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([session.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let mut tell = |at: f64, name: &str, detail: String| {
            let at = Time::from_seconds(at);
            story.push(Trace { at, session: session.clone(), name: name.to_owned(), detail });
        };
        let from = text(row, 4)?.map_or(String::new(), |parent| format!(", out of {parent}"));
        let source = text(row, 0)?.unwrap_or_default();
        tell(row.get(1)?, "session_began", format!("from {source}{from}"));
        if let Some(ended) = row.get::<_, Option<f64>>(2)? {
            let reason = text(row, 3)?.unwrap_or_else(|| "no reason is known".into());
            let onward = if reason == "compression" { self.onward(session)? } else { String::new() };
            tell(ended, "session_ended", format!("{reason}{onward}"));
        }
        Ok(())
    }

    /// `; it goes on as …`, if a compression gave the conversation another id.
    pub(crate) fn onward(&self, session: &SessionId) -> Result<String, StoreFault> {
        let sql = "SELECT id FROM sessions WHERE parent_session_id = ?1 AND instr(id, '.snapshot.') = 0
                   ORDER BY started_at, id LIMIT 5";
        let mut statement = self.conn.prepare_cached(sql)?;
        let children = statement.query_map([session.as_str()], |row| row.get(0))?;
        let children: Vec<String> = children.collect::<rusqlite::Result<_>>()?;
        Ok(match children.is_empty() {
            true => String::new(),
            false => format!("; it goes on as {}", children.join(", ")),
        })
    }
}
