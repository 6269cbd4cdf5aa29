//! What becomes of each table of a home when a person, a chat or a session is forgotten.
//!
//! One line for each table that Hermes or we make, with every column that can hold text. A test compares this list with
//! the tables of real homes: a table or column that is added without a decision here fails it.

/// What becomes of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))] // reasons are for readers and for the test
pub(crate) enum Fate {
    /// Rows whose column names a session that goes are deleted.
    Goes(&'static str),
    /// Likewise, and more: the function of this name in the module above says what.
    GoesWith(&'static str, &'static str),
    /// The rows stay as digests.
    Digests,
    /// SQLite keeps it for the search in step with `messages`, and it is rewritten whole afterwards.
    Index,
    /// Nothing in it is about a person. Why.
    Stays(&'static str),
}

#[cfg_attr(not(test), allow(dead_code))] // the columns are for the test
pub(crate) struct ForgetDecision {
    pub table: &'static str,
    /// Every column that may hold text or bytes.
    pub texts: &'static [&'static str],
    pub fate: Fate,
}

const fn on(table: &'static str, texts: &'static [&'static str], fate: Fate) -> ForgetDecision {
    ForgetDecision { table, texts, fate }
}

use Fate::{Digests, Goes, GoesWith, Index, Stays};

/// In the order in which rows are deleted: `messages` before the sessions that they refer to, and what names
/// snapshots after them.
pub(crate) const DECISIONS: &[ForgetDecision] = &[
    on(
        "messages",
        &[
            "session_id",
            "role",
            "content",
            "tool_call_id",
            "tool_calls",
            "tool_name",
            "effect_disposition",
            "finish_reason",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "codex_reasoning_items",
            "codex_message_items",
            "platform_message_id",
            "api_content",
        ],
        GoesWith("session_id", "blank"),
    ),
    on(
        "session_model_usage",
        &[
            "session_id",
            "model",
            "billing_provider",
            "billing_base_url",
            "billing_mode",
            "task",
            "cost_status",
            "cost_source",
        ],
        Goes("session_id"),
    ),
    on("compression_locks", &["session_id", "holder"], Goes("session_id")),
    on(
        "async_delegations",
        &[
            "delegation_id",
            "origin_session",
            "origin_ui_session_id",
            "parent_session_id",
            "state",
            "event_json",
            "result_json",
            "delivery_state",
            "task_json",
            "delivery_claim",
        ],
        GoesWith("parent_session_id", "delete_by_chat"),
    ),
    on(
        "gateway_routing",
        &["scope", "session_key", "entry_json"],
        GoesWith("json_extract(entry_json, '$.session_id')", "delete_by_chat"),
    ),
    on(
        "telegram_dm_topic_bindings",
        &["chat_id", "thread_id", "user_id", "session_key", "session_id", "managed_mode"],
        GoesWith("session_id", "delete_topics"),
    ),
    on(
        "telegram_dm_topic_mode",
        &["chat_id", "user_id", "intro_message_id", "pinned_message_id"],
        GoesWith("NULL", "delete_topics"),
    ),
    on("tl_session", &["id", "principal", "predecessor", "layer", "parent", "rest", "upkeep"], Goes("id")),
    on("tl_inbox", &["session", "outcome", "implicit", "envelope"], GoesWith("session", "blank")),
    on("tl_step", &["session", "model", "chain", "open"], Goes("session")),
    on("tl_call", &["session", "detail"], Goes("session")),
    on(
        "tl_outbox",
        &["key", "session", "platform_id", "error", "destination", "text", "trace"],
        GoesWith("session", "delete_by_chat"),
    ),
    on("tl_route", &["chat", "session", "entry"], GoesWith("session", "delete_by_chat")),
    on("tl_thread", &["digest", "session"], Goes("session")),
    on("tl_finalisation", &["session", "reason", "successor", "parked"], Goes("session")),
    on(
        "tl_compression",
        &["session", "summary", "focus", "orders", "reason"],
        GoesWith("session", "drop_derived"),
    ),
    on("tl_event", &["session", "name", "detail"], GoesWith("session", "delete_by_chat")),
    on("tl_place", &["session"], Goes("session")),
    on("tl_draft", &["key", "session", "destination", "platform_id"], Goes("session")),
    on("tl_hook", &["session", "hook", "detail"], Goes("session")),
    on("tl_reset", &["chat", "session", "reason"], GoesWith("session", "delete_by_chat")),
    on(
        "tl_retention",
        &["key", "provider", "document", "session", "error", "scope", "said", "replied"],
        GoesWith("session", "erase_outside"),
    ),
    on("tl_document", &["provider", "subject", "name"], GoesWith("NULL", "delete_by_chat")),
    on(
        "tl_review",
        &["session", "subject", "rows", "prompt", "destination", "model", "outcome", "answered_by"],
        GoesWith("session", "drop_derived"),
    ),
    on("tl_snapshot", &["name", "session", "rows", "summary", "kind", "remark"], Goes("session")),
    on(
        "sessions",
        &[
            "id",
            "source",
            "user_id",
            "session_key",
            "chat_id",
            "chat_type",
            "thread_id",
            "display_name",
            "origin_json",
            "model",
            "model_config",
            "system_prompt",
            "parent_session_id",
            "end_reason",
            "cwd",
            "git_branch",
            "git_repo_root",
            "billing_provider",
            "billing_base_url",
            "billing_mode",
            "cost_status",
            "cost_source",
            "pricing_version",
            "title",
            "handoff_state",
            "handoff_platform",
            "handoff_error",
            "compression_failure_error",
            "profile_name",
        ],
        GoesWith("id", "unlink"),
    ),
    on("tl_seen", &["key", "session", "body"], Digests),
    on("messages_fts", &["content", "messages_fts", "rank"], Index),
    on("messages_fts_trigram", &["content", "messages_fts_trigram", "rank"], Index),
    on("schema_version", &[], Stays("the number of Hermes' schema")),
    on("state_meta", &["key", "value"], Stays("Hermes' notes about its own upkeep")),
    on("tl_meta", &["key", "value"], Stays("versions, times and digests")),
    on("tl_count", &["name"], Stays("how often each kind of event happened")),
    on("tl_cursor", &["platform", "account", "value"], Stays("how far each bot has read")),
    on("tl_unindexed", &[], Stays("numbers of rows; those of deleted rows are removed")),
    on("tl_forgetting", &["kind", "subject", "counts", "work"], Stays("the receipts, without content")),
];
