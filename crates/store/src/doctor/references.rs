//! What refers to a session by an id that it no longer has.

use super::Look;
use super::tree::TreePart;
use crate::fault::StoreFault;
use crate::snapshot::names_of;
use rusqlite::params;

/// Our own tables that name a session, but for its state and its snapshots.
const OURS: [&str; 14] = [
    "tl_seen",
    "tl_inbox",
    "tl_step",
    "tl_call",
    "tl_outbox",
    "tl_thread",
    "tl_finalisation",
    "tl_compression",
    "tl_event",
    "tl_place",
    "tl_draft",
    "tl_hook",
    "tl_review",
    "tl_reset",
];

/// What Hermes counts of a session.
pub(super) const COUNTS: [&str; 6] = [
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
];

impl Look<'_> {
    /// Only one part of a conversation is in our books: then none of these can collide.
    pub(super) fn rename_references(&self, from: &str, to: &str) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        for table in OURS {
            let sql = format!("UPDATE {table} SET session = ?2 WHERE session = ?1");
            conn.prepare_cached(&sql)?.execute([from, to])?;
        }
        for sql in [
            "UPDATE tl_retention SET session = ?2, key = ?2 || substr(key, length(?1) + 1),
                    scope = json_set(scope, '$.session', ?2) WHERE session = ?1",
            "UPDATE tl_session SET id = ?2 WHERE id = ?1",
            "UPDATE tl_session SET parent = ?2 WHERE parent = ?1",
            "UPDATE tl_session SET predecessor = ?2 WHERE predecessor = ?1",
            "UPDATE tl_finalisation SET successor = ?2 WHERE successor = ?1",
            "UPDATE OR IGNORE tl_document SET subject = ?2 WHERE subject = ?1",
        ] {
            conn.prepare_cached(sql)?.execute([from, to])?;
        }
        self.rename_snapshots(from, to)
    }

    /// Whether something of these is on its way to a memory provider: it may have arrived under the name it has.
    pub(super) fn are_being_remembered(&self, parts: &[&TreePart]) -> Result<bool, StoreFault> {
        let sql = "SELECT 1 FROM tl_retention WHERE session = ?1 AND state IN (0, 1)";
        let mut statement = self.reader.conn.prepare_cached(sql)?;
        for part in parts {
            if statement.exists([&part.id])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rename_snapshots(&self, from: &str, to: &str) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let (below, above) = names_of(from);
        let mut statement =
            conn.prepare_cached("SELECT name FROM tl_snapshot WHERE name > ?1 AND name < ?2")?;
        let names = statement.query_map([below, above], |row| row.get(0))?;
        for name in names.collect::<rusqlite::Result<Vec<String>>>()? {
            let renamed = format!("{to}{}", &name[from.len()..]);
            for sql in [
                "UPDATE tl_snapshot SET name = ?2, session = ?3 WHERE name = ?1",
                "UPDATE sessions SET id = ?2, parent_session_id = ?3 WHERE id = ?1",
                "UPDATE messages SET session_id = ?2 WHERE session_id = ?1 AND ?3 IS NOT NULL",
            ] {
                conn.prepare_cached(sql)?.execute([&name, &renamed, to])?;
            }
        }
        Ok(())
    }

    /// A part's row goes, once nothing refers to it; what came from it came from the whole.
    pub(super) fn dissolve(&self, part: &str, root: &str) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let sql = "UPDATE sessions SET parent_session_id = ?2 WHERE parent_session_id = ?1 AND id <> ?2";
        conn.prepare_cached(sql)?.execute([part, root])?;
        if self.reader.variants.can.has_model_usage {
            self.move_usage(part, root)?;
        }
        if self.reader.variants.can.has_compression_locks {
            conn.prepare_cached("DELETE FROM compression_locks WHERE session_id = ?1")?.execute([part])?;
        }
        for (table, column) in [
            ("telegram_dm_topic_bindings", "session_id"),
            ("async_delegations", "parent_session_id"),
            ("async_delegations", "origin_session"),
        ] {
            if conn.column_exists(None, table, column)? {
                let sql = format!("UPDATE OR IGNORE {table} SET {column} = ?2 WHERE {column} = ?1");
                conn.prepare_cached(&sql)?.execute([part, root])?;
            }
        }
        let sql = "DELETE FROM sessions WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1)";
        conn.prepare_cached(sql)?.execute([part])?;
        Ok(())
    }

    /// What a session cost is counted with another one's.
    pub(super) fn move_usage(&self, from: &str, to: &str) -> Result<(), StoreFault> {
        let conn = &self.reader.conn;
        let task = if self.reader.variants.can.has_model_usage_task { ", task" } else { "" };
        let key = format!("model, billing_provider, billing_base_url, billing_mode{task}");
        let mut counts = COUNTS.to_vec();
        for column in ["estimated_cost_usd", "actual_cost_usd"] {
            if conn.column_exists(None, "session_model_usage", column)? {
                counts.push(column);
            }
        }
        let sums: Vec<String> =
            counts.iter().map(|column| format!("{column} = {column} + excluded.{column}")).collect();
        let sql = format!(
            "INSERT INTO session_model_usage (session_id, {key}, {columns}, first_seen, last_seen)
             SELECT ?2, {key}, {columns}, first_seen, last_seen FROM session_model_usage
             WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?2)
             ON CONFLICT DO UPDATE SET {}, last_seen = max(last_seen, excluded.last_seen)",
            sums.join(", "),
            columns = counts.join(", "),
        );
        conn.prepare_cached(&sql)?.execute([from, to])?;
        conn.prepare_cached("DELETE FROM session_model_usage WHERE session_id = ?1")?
            .execute(params![from])?;
        Ok(())
    }
}
