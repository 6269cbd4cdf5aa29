//! Sessions as people see them in a list.
//!
//! Rows that Hermes hides are hidden here: parts of one conversation that its compressions split
//! off, helpers' sessions, archived ones. So are snapshots, which are no sessions.

use crate::fault::StoreFault;
use crate::lineage::HELPER;
use crate::read::{StoreReader, text, unsigned};
use crate::snapshot::names_of;
use rusqlite::{Row, params};
use std::collections::HashSet;
use throughline_core::id::SessionId;
use throughline_core::message::Content;
use throughline_core::port::{SessionFilter, SessionSummary};
use throughline_core::time::Time;
use throughline_core::turn::Usage;
use throughline_hermes::row::{MessageRow, decode};
use throughline_hermes::title::numbered_pattern;

/// As a condition on `s`, which has a parent: a helper's run rather than a branch, or the part of a
/// conversation that goes on after a compression.
const BRANCHED_OFF: &str = "(s.source IN ('tool', 'subagent') OR
    (COALESCE(s.model_config, '') NOT LIKE '%\"_branched_from\"%' AND NOT EXISTS
     (SELECT 1 FROM sessions p WHERE p.id = s.parent_session_id AND p.end_reason IN ('compression', 'branched'))))";

/// For a filter that sets no limit: more than a screen, less than a home.
pub(crate) const LIMIT_DEFAULT: usize = 100;
const PREVIEW_CHARS: usize = 60;

impl StoreReader {
    pub(crate) fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreFault> {
        let limit = if filter.limit == 0 { LIMIT_DEFAULT } else { filter.limit };
        let mut skip = filter.offset;
        let mut found = Vec::new();
        let visible = self.visible(filter.scope.as_ref())?;
        let excluded = match &filter.exclude {
            Some(session) => self.relatives(session)?,
            None => HashSet::new(),
        };
        for id in self.by_activity(filter)? {
            if excluded.contains(&id) || visible.as_ref().is_some_and(|visible| !visible.contains(&id)) {
                continue;
            }
            let Some(summary) = self.listed(&id, filter.session.is_some())? else { continue };
            if skip > 0 {
                skip -= 1;
                continue;
            }
            found.push(summary);
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    pub(crate) fn summary(&self, id: &SessionId) -> Result<Option<SessionSummary>, StoreFault> {
        self.listed(id.as_str(), true)
    }

    /// Latest first. Reads only what an index or the beginning of a row holds: a session's row is
    /// long, because its system prompt lies in it.
    fn by_activity(&self, filter: &SessionFilter) -> Result<Vec<String>, StoreFault> {
        let helpers = if filter.without_helpers { format!("AND NOT {HELPER}") } else { String::new() };
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT s.id, COALESCE((SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id), s.started_at) seen
             FROM sessions s
             WHERE (?1 IS NULL OR s.id IN (SELECT t.id FROM tl_session t WHERE t.principal = ?1))
               AND (?2 IS NULL OR s.source = ?2) AND (?3 IS NULL OR s.id = ?3)
               AND (?4 IS NULL OR s.title = ?4 OR s.title LIKE ?5 ESCAPE '\\') {helpers}
             ORDER BY seen DESC, s.id DESC",
        ))?;
        let session = filter.session.as_ref().map(SessionId::as_str);
        let numbered = filter.title.as_deref().map(numbered_pattern);
        let values = params![filter.principal, filter.source, session, filter.title, numbered];
        let ids = statement.query_map(values, |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    fn listed(&self, id: &str, even_if_hidden: bool) -> Result<Option<SessionSummary>, StoreFault> {
        let Ok(id) = id.parse::<SessionId>() else { return Ok(None) };
        let can = &self.variants.can;
        let sql = format!(
            "SELECT s.source, s.title, {}, s.model, s.started_at, s.ended_at, s.end_reason, s.message_count,
                    s.tool_call_count, s.input_tokens, s.output_tokens, s.cache_read_tokens,
                    s.cache_write_tokens, s.reasoning_tokens,
                    (SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id),
                    {} OR COALESCE(s.model_config, '') LIKE '%\"_delegate_from\"%'
                       OR (s.parent_session_id IS NOT NULL AND {BRANCHED_OFF})
                       OR (s.end_reason IS 'compression' AND EXISTS
                           (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id))
             FROM sessions s WHERE s.id = ?1",
            if can.has_session_key { "s.session_key" } else { "NULL" },
            if can.has_archived { "s.archived = 1" } else { "FALSE" },
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([id.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        if row.get::<_, bool>(15)? && !even_if_hidden {
            return Ok(None);
        }
        let started = Time::from_seconds(row.get(4)?);
        let active: Option<f64> = row.get(14)?;
        let ended: Option<f64> = row.get(5)?;
        Ok(Some(SessionSummary {
            source: row.get(0)?,
            title: text(row, 1)?,
            chat: match text(row, 2)? {
                Some(chat) => Some(chat),
                None => self.chat_of(id.as_str())?,
            },
            model: text(row, 3)?,
            started,
            last_active: active.map_or(started, Time::from_seconds),
            ended: match ended {
                Some(_) => Some(text(row, 6)?.unwrap_or_else(|| "ended".to_owned())),
                None => None,
            },
            messages: count(row, 7)?,
            tool_calls: count(row, 8)?,
            usage: Usage {
                input: count(row, 9)?,
                output: count(row, 10)?,
                cache_read: count(row, 11)?,
                cache_write: count(row, 12)?,
                reasoning: count(row, 13)?,
            },
            preview: self.preview(id.as_str())?,
            id,
        }))
    }

    fn chat_of(&self, session: &str) -> Result<Option<String>, StoreFault> {
        let mut statement =
            self.conn.prepare_cached("SELECT chat FROM tl_route WHERE session = ?1 ORDER BY chat LIMIT 1")?;
        let mut rows = statement.query([session])?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }

    /// The beginning of the first thing the user said.
    fn preview(&self, session: &str) -> Result<String, StoreFault> {
        // Where rows move to a snapshot, the first thing that was said is in the first of them.
        let (below, above) = names_of(session);
        let mut statement = self.conn.prepare_cached(
            "SELECT content FROM (
                 SELECT content, timestamp, id FROM messages
                 WHERE session_id = ?1 AND role = 'user' AND content IS NOT NULL
                 UNION ALL SELECT content, timestamp, id FROM messages
                 WHERE session_id > ?2 AND session_id < ?3 AND role = 'user' AND content IS NOT NULL)
             ORDER BY timestamp, id LIMIT 1",
        )?;
        let mut rows = statement.query([session, &below, &above])?;
        let Some(row) = rows.next()? else { return Ok(String::new()) };
        let said = content_of(text(row, 0)?).plain();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(match said.char_indices().nth(PREVIEW_CHARS) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        })
    }
}

/// A column `content`, as a message would have it.
pub(crate) fn content_of(column: Option<String>) -> Content {
    let row = MessageRow { role: "user".to_owned(), content: column, ..MessageRow::default() };
    decode(row).content().clone()
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Integer(_) => unsigned(row, column),
        _ => Ok(0),
    }
}
