//! Where a message came from, in full: Hermes' `SessionSource`.
//!
//! Who sent it may be trusted for is deliberately absent: Hermes never writes that down either, so
//! that no file can claim it.

use crate::fields::LenientFields;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// As Hermes names it: `telegram`, `discord`, `api_server` …
    pub platform: String,
    /// Empty where the platform knows none.
    pub chat_id: String,
    pub chat_name: Option<String>,
    /// `dm`, `group`, `channel`, `thread` or `forum`.
    pub chat_type: String,
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub thread_id: Option<String>,
    pub chat_topic: Option<String>,
    /// An id that stays when `user_id` may change (Signal's UUID, say).
    pub user_id_alt: Option<String>,
    pub chat_id_alt: Option<String>,
    /// The server or workspace around the chat. Older files call it `guild_id`; both are written.
    pub scope_id: Option<String>,
    pub parent_chat_id: Option<String>,
    pub message_id: Option<String>,
    pub profile: Option<String>,
    pub auto_thread_created: bool,
    pub auto_thread_initial_name: Option<String>,
    /// Fields of a later Hermes, in order.
    pub extra: Map<String, Value>,
}

impl Source {
    pub fn new(
        platform: impl Into<String>,
        chat_type: impl Into<String>,
        chat_id: impl Into<String>,
    ) -> Self {
        Self {
            platform: platform.into(),
            chat_type: chat_type.into(),
            chat_id: chat_id.into(),
            ..Self::default()
        }
    }

    /// None if it does not say which platform and chat it means.
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut fields = LenientFields(value.as_object()?.clone());
        let guild = fields.take("guild_id");
        if let (None, Some(guild)) = (fields.0.get("scope_id"), guild) {
            fields.0.insert("scope_id".to_owned(), guild);
        }
        Some(Self {
            platform: fields.text("platform").filter(|platform| !platform.is_empty())?,
            chat_id: match fields.take("chat_id")? {
                Value::String(text) => text,
                other => crate::json::dumps(&other),
            },
            chat_name: fields.text("chat_name"),
            chat_type: fields.text("chat_type").unwrap_or_else(|| "dm".to_owned()),
            user_id: fields.text("user_id"),
            user_name: fields.text("user_name"),
            thread_id: fields.text("thread_id"),
            chat_topic: fields.text("chat_topic"),
            user_id_alt: fields.text("user_id_alt"),
            chat_id_alt: fields.text("chat_id_alt"),
            scope_id: fields.text("scope_id"),
            parent_chat_id: fields.text("parent_chat_id"),
            message_id: fields.text("message_id"),
            profile: fields.text("profile"),
            auto_thread_created: fields.flag("auto_thread_created"),
            auto_thread_initial_name: fields.text("auto_thread_initial_name"),
            extra: fields.0,
        })
    }

    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("platform".to_owned(), json!(self.platform));
        object.insert("chat_id".to_owned(), json!(self.chat_id));
        object.insert("chat_name".to_owned(), json!(self.chat_name));
        object.insert("chat_type".to_owned(), json!(self.chat_type));
        object.insert("user_id".to_owned(), json!(self.user_id));
        object.insert("user_name".to_owned(), json!(self.user_name));
        object.insert("thread_id".to_owned(), json!(self.thread_id));
        object.insert("chat_topic".to_owned(), json!(self.chat_topic));
        let mut optional = |name: &str, value: &Option<String>| {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                object.insert(name.to_owned(), json!(value));
            }
        };
        optional("user_id_alt", &self.user_id_alt);
        optional("chat_id_alt", &self.chat_id_alt);
        optional("scope_id", &self.scope_id);
        optional("guild_id", &self.scope_id);
        optional("parent_chat_id", &self.parent_chat_id);
        optional("message_id", &self.message_id);
        optional("profile", &self.profile);
        if self.auto_thread_created {
            object.insert("auto_thread_created".to_owned(), json!(true));
        }
        if let Some(name) = self.auto_thread_initial_name.as_ref().filter(|name| !name.is_empty()) {
            object.insert("auto_thread_initial_name".to_owned(), json!(name));
        }
        object.extend(self.extra.clone());
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_wins_over_its_old_name_and_both_are_written() {
        for (written, scope) in [
            (json!({"platform": "discord", "chat_id": 1, "guild_id": "old"}), Some("old")),
            (json!({"platform": "discord", "chat_id": 1, "guild_id": "old", "scope_id": "new"}), Some("new")),
            (json!({"platform": "discord", "chat_id": 1, "guild_id": "old", "scope_id": null}), None),
            (json!({"platform": "discord", "chat_id": 1}), None),
        ] {
            let source = Source::from_json(&written).unwrap();
            assert_eq!(source.scope_id.as_deref(), scope);
            assert_eq!((source.chat_id.as_str(), source.chat_type.as_str()), ("1", "dm"));
            let again = source.to_json();
            assert_eq!(again.get("scope_id").and_then(Value::as_str), scope);
            assert_eq!(again.get("guild_id").and_then(Value::as_str), scope);
        }
    }

    #[test]
    fn fields_of_a_later_hermes_stay() {
        let written = json!({"platform": "irc", "chat_id": "#a", "later": {"x": [1]}, "later_too": null});
        let again = Source::from_json(&written).unwrap().to_json();
        assert_eq!((&again["later"], &again["later_too"]), (&json!({"x": [1]}), &Value::Null));
        assert!(again.as_object().unwrap().contains_key("later_too"));
    }

    #[test]
    fn a_source_names_its_platform_and_chat() {
        for broken in [
            json!({}),
            json!({"platform": "x"}),
            json!({"chat_id": "1"}),
            json!({"platform": "", "chat_id": "1"}),
            json!([]),
        ] {
            assert_eq!(Source::from_json(&broken), None, "{broken}");
        }
    }
}
