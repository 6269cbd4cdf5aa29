//! A turn, or a note of the model, as the server keeps it. The same turn gives the same bytes every time.

use super::settings::HindsightSettings;
use crate::person_name;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use throughline_core::memory::{Retention, Scope};
use throughline_core::time::Time;
use throughline_hermes::json::dumps_unicode;
use uuid::Uuid;

/// Keeps our operations apart from those of other programs that name theirs this way.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f1c_9b52_43f0_5d0e_8a57_21d8_3be6_90c4);

/// What stands before the tags that say where something comes from. Only the gateway sets
/// them: recall goes by them.
const LINEAGE: [&str; 4] = ["session:", "parent:", "user:", "chat:"];

/// Where a caller without a name is the owner of the home.
const OWNERS: [&str; 3] = ["cli", "local", "api_server"];

pub(super) struct HindsightDocument {
    pub bank: String,
    pub id: String,
    /// Names the work of keeping exactly this text under this id.
    pub operation: Uuid,
    pub content: String,
    item: Map<String, Value>,
}

impl HindsightDocument {
    /// None if nothing was said.
    pub fn of_turn(settings: &HindsightSettings, retention: &Retention) -> Option<Self> {
        let retain = &settings.retain;
        let timestamp = moment(retention.at, 6) + "+00:00";
        let said = retention.said.iter().map(|text| ("user", &retain.user_prefix, text));
        let replied = [("assistant", &retain.assistant_prefix, &retention.replied)];
        let messages: Vec<Value> = said
            .chain(replied)
            .filter(|(_, _, text)| !text.trim().is_empty())
            .map(|(role, prefix, text)| {
                json!({ "role": role, "content": format!("{prefix}: {text}"), "timestamp": timestamp })
            })
            .collect();
        if messages.is_empty() {
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("retained_at".to_owned(), json!(moment(retention.at, 3) + "Z"));
        metadata.insert("message_count".to_owned(), json!(retention.message_count.to_string()));
        metadata.insert("turn_index".to_owned(), json!(retention.index.to_string()));
        let mut document =
            Self::new(settings, &retention.scope, retention.key.clone(), dumps_unicode(&json!([messages])));
        document.describe(&retain.context, &[], metadata, settings, &retention.scope);
        document.item.insert("timestamp".to_owned(), json!(moment(retention.at, 3) + "Z"));
        Some(document)
    }

    /// What the model wants kept. Its name comes from its words, so saying it again in the same conversation
    /// keeps nothing more; no time goes along, since the second call would tell another.
    pub fn of_note(
        settings: &HindsightSettings,
        scope: &Scope,
        content: &str,
        context: &str,
        tags: &[String],
    ) -> Self {
        let id = format!("{}/note-{}", scope.session, &digest(content)[..32]);
        let mut document = Self::new(settings, scope, id, content.to_owned());
        let metadata = Map::from_iter([("message_count".to_owned(), json!("1"))]);
        document.describe(context, tags, metadata, settings, scope);
        document
    }

    /// The request, without the operation: without one the server works at once, and is waited for.
    pub fn body(&self) -> Vec<u8> {
        let body = json!({ "items": [self.item], "async": true, "operation_id": self.operation.to_string() });
        body.to_string().into_bytes()
    }

    fn new(settings: &HindsightSettings, scope: &Scope, id: String, content: String) -> Self {
        let bank = settings.bank.of(scope);
        let name = format!("{bank}\0{id}\0{}", digest(&content));
        let operation = Uuid::new_v5(&NAMESPACE, name.as_bytes());
        let item =
            Map::from_iter([("content".to_owned(), json!(content)), ("document_id".to_owned(), json!(id))]);
        Self { bank, id, operation, content, item }
    }

    fn describe(
        &mut self,
        context: &str,
        tags: &[String],
        mut metadata: Map<String, Value>,
        settings: &HindsightSettings,
        scope: &Scope,
    ) {
        let place = &scope.place;
        for (key, value) in [
            ("source", Some(settings.retain.source.as_str())),
            ("session_id", Some(scope.session.as_str())),
            ("platform", Some(scope.platform.as_str())),
            ("user_id", scope.user.as_deref()),
            ("user_name", scope.user_name.as_deref()),
            ("chat_id", place.chat.as_deref()),
            ("chat_name", place.name.as_deref()),
            ("chat_type", place.kind.as_deref()),
            ("thread_id", place.thread.as_deref()),
            ("agent_identity", Some(&*scope.agent)),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                metadata.insert(key.to_owned(), json!(value));
            }
        }
        self.item.insert("metadata".to_owned(), Value::Object(metadata));
        if !context.is_empty() {
            self.item.insert("context".to_owned(), json!(context));
        }
        let mut all = settings.retain.tags.clone();
        let others = tags.iter().filter(|tag| !LINEAGE.iter().any(|prefix| tag.starts_with(prefix)));
        for tag in others.cloned().chain(lineage(scope)) {
            if !all.contains(&tag) {
                all.push(tag);
            }
        }
        self.item.insert("tags".to_owned(), json!(all));
        if let Some(scopes) = &settings.retain.observation_scopes {
            self.item.insert("observation_scopes".to_owned(), scopes.clone());
        }
    }
}

/// The tag by which what belongs to a scope is told from everybody else's: its user's, or where none is known
/// its chat's. None: it is the owner who asks, at the terminal or with the home's own key.
pub(super) fn own_tag(scope: &Scope) -> Option<String> {
    match (user_tag(scope), OWNERS.contains(&scope.platform.as_str())) {
        (Some(user), _) => Some(user),
        (None, true) => None,
        (None, false) => Some(chat_tag(scope).unwrap_or_else(|| session_tag(scope))),
    }
}

/// Someone else's, by its tags: it has a user, and it is not this one.
pub(super) fn is_of_another(tags: Option<&Value>, user: &str) -> bool {
    let tags = tags.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut users = tags.iter().filter_map(Value::as_str).filter_map(|tag| tag.strip_prefix("user:"));
    users.any(|other| other != user)
}

fn lineage(scope: &Scope) -> Vec<String> {
    let parent = scope.parent.as_ref().map(|parent| format!("parent:{parent}"));
    [Some(session_tag(scope)), parent, user_tag(scope), chat_tag(scope)].into_iter().flatten().collect()
}

fn session_tag(scope: &Scope) -> String {
    format!("session:{}", scope.session)
}

fn user_tag(scope: &Scope) -> Option<String> {
    person_name::of(scope).map(|person| format!("user:{person}"))
}

fn chat_tag(scope: &Scope) -> Option<String> {
    let chat = scope.place.chat.as_deref().or(scope.chat.as_ref().map(|chat| chat.as_str()));
    chat.filter(|chat| !chat.is_empty()).map(|chat| format!("chat:{chat}"))
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a string takes everything
        hex
    })
}

/// `2026-05-28T09:35:10.123`, in UTC, with so many digits of the second.
fn moment(at: Time, digits: usize) -> String {
    let compact = at.compact();
    let (date, clock) = compact.split_once('T').expect("a compact time has a date and a time of day");
    let (year, day) = date.split_at(date.len() - 4);
    let (month, day) = day.split_at(2);
    let (hour, minute, second, fraction) = (&clock[..2], &clock[2..4], &clock[4..6], &clock[6..6 + digits]);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction}")
}
