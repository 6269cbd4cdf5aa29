//! One route: which session a chat leads to, and what Hermes keeps beside it.
//!
//! The same object stands in `sessions.json` (see [`crate::sessions_json`]) and in the column `entry_json`
//! of `gateway_routing`. Fields of a later Hermes stay. Credentials never do: of a model override
//! only its model, provider and address are read or written.

use crate::fields::{LenientFields, is_truthy};
use crate::json;
use crate::local::LocalTime;
use crate::source::Source;
use serde_json::{Map, Value, json};
use throughline_core::id::{ChatKey, SessionId};

#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    pub session_key: ChatKey,
    pub session_id: SessionId,
    pub created_at: LocalTime,
    pub updated_at: LocalTime,
    pub display_name: Option<String>,
    pub platform: Option<String>,
    pub chat_type: String,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cache_read_tokens: i64,
    pub cache_write_tokens: i64,
    pub total_tokens: i64,
    pub last_prompt_tokens: i64,
    pub estimated_cost_usd: f64,
    pub cost_status: String,
    pub expiry_finalized: bool,
    pub suspended: bool,
    pub resume_pending: bool,
    pub resume_reason: Option<String>,
    pub last_resume_marked_at: Option<LocalTime>,
    pub is_fresh_reset: bool,
    pub was_auto_reset: bool,
    pub auto_reset_reason: Option<String>,
    pub reset_had_activity: bool,
    pub model_override: Option<ModelOverride>,
    pub origin: Option<Source>,
    /// In order.
    pub extra: Map<String, Value>,
}

/// The model a user chose for one chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOverride {
    pub model: Option<String>,
    pub provider: Option<String>,
    pub base_url: Option<String>,
}

/// Why an entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenEntry {
    #[error("it is not an object")]
    NotAnObject,
    #[error("`{0}` is missing or not a text")]
    Missing(&'static str),
    /// Ids become file names in places.
    #[error("`{field}` could be a path out of the home: {value:?}")]
    Unsafe { field: &'static str, value: String },
    #[error("`{field}` is not usable: {reason}")]
    Unusable { field: &'static str, reason: String },
}

impl SessionEntry {
    pub fn new(session_key: ChatKey, session_id: SessionId, now: LocalTime) -> Self {
        Self {
            session_key,
            session_id,
            created_at: now,
            updated_at: now,
            display_name: None,
            platform: None,
            chat_type: "dm".to_owned(),
            input_tokens: 0,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            total_tokens: 0,
            last_prompt_tokens: 0,
            estimated_cost_usd: 0.0,
            cost_status: "unknown".to_owned(),
            expiry_finalized: false,
            suspended: false,
            resume_pending: false,
            resume_reason: None,
            last_resume_marked_at: None,
            is_fresh_reset: false,
            was_auto_reset: false,
            auto_reset_reason: None,
            reset_had_activity: false,
            model_override: None,
            origin: None,
            extra: Map::new(),
        }
    }

    pub fn from_json(value: &Value) -> Result<Self, BrokenEntry> {
        let mut fields = LenientFields(value.as_object().ok_or(BrokenEntry::NotAnObject)?.clone());
        let key = safe(&mut fields, "session_key", is_key_unsafe)?;
        let id = safe(&mut fields, "session_id", is_path_unsafe)?;
        // The new key wins even as false; the old one is read where the new is absent, and never written.
        let flushed = fields.take("memory_flushed");
        let finalized = fields.take("expiry_finalized").or(flushed);
        Ok(Self {
            session_key: key.parse().map_err(|reason| unusable("session_key", reason))?,
            session_id: id.parse().map_err(|reason| unusable("session_id", reason))?,
            created_at: time(&mut fields, "created_at")?,
            updated_at: time(&mut fields, "updated_at")?,
            display_name: fields.text("display_name"),
            platform: fields.text("platform").filter(|platform| !platform.is_empty()),
            chat_type: fields.text("chat_type").unwrap_or_else(|| "dm".to_owned()),
            input_tokens: fields.number("input_tokens"),
            output_tokens: fields.number("output_tokens"),
            cache_read_tokens: fields.number("cache_read_tokens"),
            cache_write_tokens: fields.number("cache_write_tokens"),
            total_tokens: fields.number("total_tokens"),
            last_prompt_tokens: fields.number("last_prompt_tokens"),
            estimated_cost_usd: fields
                .take("estimated_cost_usd")
                .and_then(|cost| cost.as_f64())
                .unwrap_or(0.0),
            cost_status: fields.text("cost_status").unwrap_or_else(|| "unknown".to_owned()),
            expiry_finalized: finalized.is_some_and(|value| is_truthy(&value)),
            suspended: fields.flag("suspended"),
            resume_pending: fields.flag("resume_pending"),
            resume_reason: fields.text("resume_reason"),
            last_resume_marked_at: time(&mut fields, "last_resume_marked_at").ok(),
            is_fresh_reset: fields.flag("is_fresh_reset"),
            was_auto_reset: fields.flag("was_auto_reset"),
            auto_reset_reason: fields.text("auto_reset_reason"),
            reset_had_activity: fields.flag("reset_had_activity"),
            model_override: fields.take("model_override").and_then(ModelOverride::from_json),
            origin: match fields.take("origin") {
                Some(origin @ Value::Object(_)) => {
                    let source = Source::from_json(&origin);
                    Some(source.ok_or(BrokenEntry::Missing("platform or chat_id of its origin"))?)
                }
                _ => None,
            },
            extra: fields.0,
        })
    }

    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("session_key", json!(self.session_key.as_str()));
        put("session_id", json!(self.session_id.as_str()));
        put("created_at", json!(self.created_at.to_string()));
        put("updated_at", json!(self.updated_at.to_string()));
        put("display_name", json!(self.display_name));
        put("platform", json!(self.platform));
        put("chat_type", json!(self.chat_type));
        put("input_tokens", json!(self.input_tokens));
        put("output_tokens", json!(self.output_tokens));
        put("cache_read_tokens", json!(self.cache_read_tokens));
        put("cache_write_tokens", json!(self.cache_write_tokens));
        put("total_tokens", json!(self.total_tokens));
        put("last_prompt_tokens", json!(self.last_prompt_tokens));
        put("estimated_cost_usd", json!(self.estimated_cost_usd));
        put("cost_status", json!(self.cost_status));
        put("expiry_finalized", json!(self.expiry_finalized));
        put("suspended", json!(self.suspended));
        put("resume_pending", json!(self.resume_pending));
        put("resume_reason", json!(self.resume_reason));
        put("last_resume_marked_at", json!(self.last_resume_marked_at.map(|time| time.to_string())));
        put("is_fresh_reset", json!(self.is_fresh_reset));
        put("was_auto_reset", json!(self.was_auto_reset));
        put("auto_reset_reason", json!(self.auto_reset_reason));
        put("reset_had_activity", json!(self.reset_had_activity));
        if let Some(chosen) = &self.model_override {
            put("model_override", chosen.to_json());
        }
        if let Some(origin) = &self.origin {
            put("origin", origin.to_json());
        }
        object.extend(self.extra.clone());
        Value::Object(object)
    }
}

/// As the column `entry_json` of `gateway_routing` holds it.
pub fn entry_json(entry: &SessionEntry) -> String {
    json::dumps(&entry.to_json())
}

pub fn entry_from_json(text: &str) -> Result<SessionEntry, BrokenEntry> {
    let text = json::read(text).ok_or(BrokenEntry::NotAnObject)?;
    let value: Value = serde_json::from_str(&text).map_err(|_| BrokenEntry::NotAnObject)?;
    SessionEntry::from_json(&value)
}

impl ModelOverride {
    fn from_json(value: Value) -> Option<Self> {
        let Value::Object(members) = value else { return None };
        let mut fields = LenientFields(members);
        let mut text = |name| fields.text(name).filter(|text| !text.is_empty());
        let chosen = Self { model: text("model"), provider: text("provider"), base_url: text("base_url") };
        (chosen != Self::default()).then_some(chosen)
    }

    fn to_json(&self) -> Value {
        let fields = [("model", &self.model), ("provider", &self.provider), ("base_url", &self.base_url)];
        let set =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
        Value::Object(set.collect())
    }
}

/// Hermes uses session ids as file names.
pub fn is_path_unsafe(id: &str) -> bool {
    id.contains("..") || id.contains(['/', '\\']) || has_drive(id)
}

/// A chat key names no file, and some platforms have slashes inside their ids.
pub fn is_key_unsafe(key: &str) -> bool {
    key.contains("..") || key.starts_with(['/', '\\']) || has_drive(key)
}

fn has_drive(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(char::is_alphabetic) && chars.next() == Some(':')
}

fn safe(
    fields: &mut LenientFields,
    field: &'static str,
    is_unsafe: fn(&str) -> bool,
) -> Result<String, BrokenEntry> {
    match fields.take(field) {
        Some(Value::String(value)) if is_unsafe(&value) => Err(BrokenEntry::Unsafe { field, value }),
        Some(Value::String(value)) => Ok(value),
        _ => Err(BrokenEntry::Missing(field)),
    }
}

fn time(fields: &mut LenientFields, field: &'static str) -> Result<LocalTime, BrokenEntry> {
    let text = fields.text(field).ok_or(BrokenEntry::Missing(field))?;
    text.parse().map_err(|reason| unusable(field, reason))
}

fn unusable(field: &'static str, reason: impl ToString) -> BrokenEntry {
    BrokenEntry::Unusable { field, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
