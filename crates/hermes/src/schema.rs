//! The shape of Hermes' `state.db`: what a fresh one holds, and what an older one can do.
//!
//! The number in `schema_version` decides only whether a file may be written at all. What a home
//! can do is decided by the columns it has, because Hermes adds columns whenever it finds them
//! missing, even if the number says otherwise. Nothing here alters a table.

mod fresh;

pub use fresh::FRESH;

use std::fmt;

/// The schema of a fresh home, which Hermes 0.19.0 opens as its own.
pub const VERSION: i64 = 22;
/// Written by Hermes 0.14.0.
pub const OLDEST: i64 = 11;
pub const NEWEST: i64 = VERSION;

/// What the triggers put into both search tables for a row of `messages`, as an expression.
pub const INDEXED_TEXT: &str =
    "COALESCE(content, '') || ' ' || COALESCE(tool_name, '') || ' ' || COALESCE(tool_calls, '')";

/// What may be done with a file of some schema. Its text is the sentence for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Open,
    /// Columns that every reader here relies on may be missing.
    TooOld(i64),
    /// A newer Hermes may mean something else by what we would write.
    ReadOnly(i64),
}

pub fn verdict(version: i64) -> Verdict {
    match version {
        ..OLDEST => Verdict::TooOld(version),
        OLDEST..=NEWEST => Verdict::Open,
        _ => Verdict::ReadOnly(version),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Open => formatter.write_str("the schema is one this program reads and writes"),
            Verdict::TooOld(version) => write!(
                formatter,
                "state.db has schema {version}, older than {OLDEST}; start Hermes 0.14 or later on this home once, \
                 which upgrades it, then try again"
            ),
            Verdict::ReadOnly(version) => write!(
                formatter,
                "state.db has schema {version}, newer than {NEWEST}, the newest this program writes; it can be read \
                 (sessions, doctor), but the gateway does not run on it until Throughline knows that schema"
            ),
        }
    }
}

/// What every home from [`OLDEST`] on has. A file that lacks some of it is not Hermes' store.
pub const REQUIRED: &[(&str, &[&str])] = &[
    ("schema_version", &["version"]),
    (
        "sessions",
        &[
            "id",
            "source",
            "user_id",
            "model",
            "model_config",
            "system_prompt",
            "parent_session_id",
            "started_at",
            "ended_at",
            "end_reason",
            "message_count",
            "tool_call_count",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "title",
            "api_call_count",
        ],
    ),
    (
        "messages",
        &[
            "id",
            "session_id",
            "role",
            "content",
            "tool_call_id",
            "tool_calls",
            "tool_name",
            "timestamp",
            "token_count",
            "finish_reason",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "codex_reasoning_items",
            "codex_message_items",
        ],
    ),
    ("state_meta", &["key", "value"]),
];

macro_rules! capabilities {
    ($($(#[$doc:meta])* $field:ident: $table:literal . $column:literal),* $(,)?) => {
        /// What a home can do, by the columns it has.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Capabilities {
            $($(#[$doc])* pub $field: bool,)*
        }

        impl Capabilities {
            /// From the names of all columns, as (table, column).
            pub fn of<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
                let mut found = Self::default();
                for column in columns {
                    match column {
                        $(($table, $column) => found.$field = true,)*
                        _ => {}
                    }
                }
                found
            }
        }
    };
}

capabilities! {
    /// Rows can be taken out of the live transcript (by `/undo`, by compaction).
    has_active: "messages"."active",
    /// Such rows can say that a summary stands for them.
    has_compacted: "messages"."compacted",
    has_platform_message_id: "messages"."platform_message_id",
    has_api_content: "messages"."api_content",
    has_observed: "messages"."observed",
    has_effect_disposition: "messages"."effect_disposition",
    has_session_key: "sessions"."session_key",
    has_chat_id: "sessions"."chat_id",
    has_chat_type: "sessions"."chat_type",
    has_thread_id: "sessions"."thread_id",
    has_display_name: "sessions"."display_name",
    has_origin_json: "sessions"."origin_json",
    has_expiry_finalized: "sessions"."expiry_finalized",
    has_profile_name: "sessions"."profile_name",
    has_rewind_count: "sessions"."rewind_count",
    has_archived: "sessions"."archived",
    /// Routes are in the database; elsewhere `sessions.json` is the only copy.
    has_gateway_routing: "gateway_routing"."entry_json",
    has_model_usage: "session_model_usage"."model",
    has_model_usage_task: "session_model_usage"."task",
    has_compression_locks: "compression_locks"."holder",
    has_trigram_index: "messages_fts_trigram"."content",
    has_word_index: "messages_fts"."content",
}

/// The first required column that is not among `columns`, as `table.column`.
pub fn missing<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let columns: Vec<_> = columns.into_iter().collect();
    let required = REQUIRED.iter().flat_map(|(table, names)| names.iter().map(|name| (*table, *name)));
    let absent = required.into_iter().find(|column| !columns.contains(column));
    absent.map(|(table, column)| format!("{table}.{column}"))
}

#[cfg(test)]
mod tests;
