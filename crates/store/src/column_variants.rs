//! The statements whose text depends on which columns a home's tables have.
//!
//! Hermes' tables are used as they are: a column that is not there is not written, and reads as
//! nothing. The texts are made once, when the home is opened.

use rusqlite::Connection;
use throughline_hermes::schema::{Capabilities, INDEXED_TEXT, missing};

pub(crate) struct ColumnVariants {
    pub can: Capabilities,
    /// The live rows of session ?1, in order.
    pub history: String,
    /// What is read of a row, for `read::stored_message`.
    pub columns: String,
    /// The row ?1, with any flags.
    pub message: String,
    /// A row of the transcript; its values in the order of [`ColumnVariants::append_values`].
    pub append: String,
    /// A row of `sessions`, unless Hermes made it already.
    pub open: String,
    /// A row ?1 of `sessions` like row ?3, begun at ?2.
    pub succeed: String,
    /// Rows wait for our indexer. Otherwise Hermes' triggers stay on, because they do something that
    /// we do not know how to do later.
    pub defers_indexing: bool,
    /// The ids of the live rows of session ?1, in order; how many of them are not above ?2; and what
    /// those above ?2 weigh, in octets.
    pub live: String,
    pub reach: String,
    /// Octets of the text above row ?2 of session ?1, without content of several parts.
    pub weight: String,
    /// And that content.
    pub parts: String,
    /// Which place is that of row ?1, and whether the user has taken it back.
    pub standing: String,
    /// At most ?6 rows between ?4 and ?5 that summaries stand for, from the last on. Session ?1; the names
    /// of its snapshots lie between ?2 and ?3.
    pub replaced_between: String,
    /// Hermes' counts of session ?1, but for ?2 messages and ?3 calls.
    pub recount: String,
    /// The session that a row of `messages` belongs to, as a join with `m`. Left to itself, the planner may
    /// begin with all messages rather than with those that were found.
    pub of_session: &'static str,
    /// As a condition on `m`: not taken back by `/undo`. What a summary stands for can be found.
    pub findable: &'static str,
}

/// The columns a message has on every home, in the order in which they are read and written.
const MESSAGE: &str = "role, content, tool_call_id, tool_calls, tool_name, timestamp, finish_reason, reasoning, \
     reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items";

/// Where a session came from, on homes that keep it.
const CHAT_COLUMNS: [&str; 6] =
    ["session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json"];

/// As a condition on a row of `messages`: its content is a list of parts, pictures among them, perhaps. To SQLite a text
/// ends at its first zero, but not its octets.
const PARTS: &str = "COALESCE(substr(CAST(content AS BLOB), 1, 6) = x'006A736F6E3A', 0)";

impl ColumnVariants {
    /// None, or the first column that every home of Hermes has and this one lacks.
    pub fn read(conn: &Connection) -> rusqlite::Result<Result<Self, String>> {
        let mut statement = conn.prepare(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        )?;
        let columns =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
        let names = columns.iter().map(|(table, column)| (table.as_str(), column.as_str()));
        Ok(match missing(names.clone()) {
            Some(lacking) => Err(lacking),
            None => Ok(Self::of(Capabilities::of(names), triggers_are_known(conn)?)),
        })
    }

    fn of(can: Capabilities, defers_indexing: bool) -> Self {
        let live = if can.has_active { " AND active IS NOT 0" } else { "" };
        let read = |column, there| if there { column } else { "NULL" };
        let columns = format!(
            "id, {MESSAGE}, {}, {}, {}",
            read("platform_message_id", can.has_platform_message_id),
            read("api_content", can.has_api_content),
            read("observed", can.has_observed),
        );
        let mut chat = CHAT_COLUMNS.to_vec();
        chat.retain(|column| can.has_chat_column(column));
        let mut copied = chat.clone();
        if can.has_profile_name {
            copied.push("profile_name");
        }
        let copied = copied.iter().map(|column| format!(", {column}")).collect::<String>();
        let replaced = match can.has_compacted {
            true => "session_id = ?1 AND active = 0 AND compacted = 1",
            false => "session_id > ?2 AND session_id < ?3 AND ?1 IS NOT NULL",
        };
        let taken_back = match (can.has_active, can.has_compacted) {
            (true, true) => "m.active IS 0 AND m.compacted IS NOT 1",
            (true, false) => "m.active IS 0",
            (false, _) => {
                "EXISTS (SELECT 1 FROM tl_snapshot n WHERE n.name = m.session_id AND n.kind = 'undone')"
            }
        };
        // Hermes takes any other link for a compression.
        let works = "COALESCE(model_config, '') LIKE '%\"_delegate_from\"%'";
        Self {
            // By their ids, which an index has: to sort whole rows would be to copy a whole conversation.
            history: format!(
                "SELECT {columns} FROM messages
                 WHERE id IN (SELECT id FROM messages WHERE session_id = ?1{live}) ORDER BY id"
            ),
            message: format!("SELECT {columns} FROM messages WHERE id = ?1"),
            live: format!("SELECT id FROM messages WHERE session_id = ?1{live} ORDER BY id"),
            reach: format!("SELECT count(*) FROM messages WHERE session_id = ?1 AND id <= ?2{live}"),
            weight: format!(
                "SELECT COALESCE(sum(CASE WHEN {PARTS} THEN 0 ELSE COALESCE(octet_length(content), 0) END
                                     + COALESCE(octet_length(tool_calls), 0)), 0)
                 FROM messages WHERE session_id = ?1 AND id > ?2{live}"
            ),
            parts: format!(
                "SELECT content FROM messages WHERE session_id = ?1 AND id > ?2{live} AND {PARTS}"
            ),
            standing: format!(
                "SELECT COALESCE(p.place, m.id), {taken_back} FROM messages m LEFT JOIN tl_place p ON p.id = m.id
                 WHERE m.id = ?1"
            ),
            replaced_between: format!(
                "SELECT id FROM messages WHERE {replaced} AND id > ?4 AND id < ?5 ORDER BY id DESC LIMIT ?6"
            ),
            recount: format!(
                "UPDATE sessions SET
                     message_count = (SELECT count(*) FROM messages WHERE session_id = ?1{live}) - ?2,
                     tool_call_count = (SELECT COALESCE(sum(json_array_length(tool_calls)), 0) FROM messages
                         WHERE session_id = ?1 AND tool_calls IS NOT NULL AND json_valid(tool_calls){live}) - ?3
                 WHERE id = ?1"
            ),
            of_session: match can.has_compacted {
                true => "CROSS JOIN sessions s ON s.id = m.session_id",
                // There a snapshot's rows lie under its name.
                false => {
                    "CROSS JOIN sessions s ON s.id = COALESCE(
                         (SELECT n.session FROM tl_snapshot n WHERE n.name = m.session_id), m.session_id)"
                }
            },
            append: append(&can),
            columns,
            open: open(&chat),
            succeed: format!(
                "INSERT INTO sessions (id, started_at, source, user_id, parent_session_id, model_config{copied})
                 SELECT ?1, ?2, source, user_id, CASE WHEN {works} THEN parent_session_id END,
                        CASE WHEN {works} THEN model_config END{copied}
                 FROM sessions WHERE id = ?3 ON CONFLICT(id) DO NOTHING"
            ),
            findable: match (can.has_active, can.has_compacted) {
                (true, true) => "(m.active IS NOT 0 OR m.compacted = 1)",
                (true, false) => "m.active IS NOT 0",
                (false, _) => {
                    "NOT EXISTS (SELECT 1 FROM tl_snapshot n WHERE n.name = m.session_id AND n.kind = 'undone')"
                }
            },
            defers_indexing: defers_indexing && can.has_word_index,
            can,
        }
    }

    /// Where a session came from, as far as this home keeps it.
    pub fn chat_columns(&self) -> impl Iterator<Item = &'static str> {
        let can = self.can;
        CHAT_COLUMNS.into_iter().filter(move |column| can.has_chat_column(column))
    }

    /// The search indexes of this home.
    pub fn indexes(&self) -> impl Iterator<Item = &'static str> {
        let there =
            [("messages_fts", self.can.has_word_index), ("messages_fts_trigram", self.can.has_trigram_index)];
        there.into_iter().filter_map(|(table, there)| there.then_some(table))
    }

    /// Of the values for columns that only some homes have, those this home takes, in order.
    pub fn append_values<'a, T: ?Sized>(&self, optional: [&'a T; 3]) -> impl Iterator<Item = &'a T> {
        let there = [self.can.has_platform_message_id, self.can.has_api_content, self.can.has_observed];
        optional.into_iter().zip(there).filter_map(|(value, there)| there.then_some(value))
    }

    /// As [`ColumnVariants::append_values`], for where a session came from.
    pub fn chat_values<'a, T: ?Sized>(&self, values: [&'a T; 6]) -> impl Iterator<Item = &'a T> {
        let can = self.can;
        values
            .into_iter()
            .zip(CHAT_COLUMNS)
            .filter_map(move |(value, column)| can.has_chat_column(column).then_some(value))
    }
}

trait ChatColumns {
    fn has_chat_column(&self, column: &str) -> bool;
}

impl ChatColumns for Capabilities {
    fn has_chat_column(&self, column: &str) -> bool {
        match column {
            "session_key" => self.has_session_key,
            "chat_id" => self.has_chat_id,
            "chat_type" => self.has_chat_type,
            "thread_id" => self.has_thread_id,
            "display_name" => self.has_display_name,
            "origin_json" => self.has_origin_json,
            _ => false,
        }
    }
}

/// Whether everything that happens to a new message by itself is what our indexer does later.
fn triggers_are_known(conn: &Connection) -> rusqlite::Result<bool> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let known = ["messages_fts", "messages_fts_trigram"].map(|table| {
        words(&format!(
            "CREATE TRIGGER {table}_insert AFTER INSERT ON messages BEGIN
             INSERT INTO {table}(rowid, content) VALUES ( new.id, {INDEXED_TEXT} ); END"
        ))
    });
    let mut statement =
        conn.prepare("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'messages'")?;
    let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
    for text in texts {
        let text = words(&text?);
        let plain = text.replace("COALESCE(new.", "COALESCE(");
        if text.contains(" INSERT ON messages") && !known.contains(&plain) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn append(can: &Capabilities) -> String {
    let mut columns = format!("id, session_id, {MESSAGE}");
    let optional = [
        ("platform_message_id", can.has_platform_message_id),
        ("api_content", can.has_api_content),
        ("observed", can.has_observed),
    ];
    for (column, _) in optional.iter().filter(|(_, there)| *there) {
        columns += ", ";
        columns += column;
    }
    let values = marks(columns.split(", ").count());
    // Hermes' own reconciler has left homes whose column lacks its default: say it.
    match can.has_active {
        true => format!("INSERT INTO messages ({columns}, active) VALUES ({values}, 1)"),
        false => format!("INSERT INTO messages ({columns}) VALUES ({values})"),
    }
}

fn open(chat: &[&str]) -> String {
    let columns = [
        "id",
        "source",
        "user_id",
        "model",
        "system_prompt",
        "started_at",
        "parent_session_id",
        "model_config",
    ];
    let columns: Vec<&str> = columns.into_iter().chain(chat.iter().copied()).collect();
    let values = marks(columns.len());
    format!("INSERT INTO sessions ({}) VALUES ({values}) ON CONFLICT(id) DO NOTHING", columns.join(", "))
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}
