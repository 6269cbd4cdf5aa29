//! A memory provider in a process of its own.
//!
//! - a turn counts as kept when the plugin has said so; one that was lost on the way may have arrived,
//!   and is tried again as such
//! - one that the plugin never saw, because it does not run or is left alone, is simply tried again

use crate::host::{CallError, Host};
use crate::messages::to_wire;
use crate::protocol::{
    BeforeCompression, Close, Documents, Part, ProviderAbility, Recall, Retain, Text, code, method,
};
use crate::scope::of_memory;
use crate::tools::{called, specs};
use serde::de::IgnoredAny;
use serde_json::json;
use sha2::{Digest, Sha256};
use throughline_core::Message;
use throughline_core::memory::{Ending, MemoryError, Naming, Provider, Retention, Scope, Wanted};
use throughline_core::message::Content;
use throughline_core::port::Promise;
use throughline_core::tool::Spec;
use throughline_hermes::row::content_to_json;

/// Hermes' name for the tools of a provider, by which users switch them on and off.
const TOOLSET: &str = "memory";

pub struct PluginProvider {
    host: Host,
    name: String,
}

impl PluginProvider {
    /// None: the plugin, as it introduced itself, is no provider.
    pub fn new(host: Host) -> Option<Self> {
        let name = host.abilities()?.provider.as_ref()?.name.clone();
        Some(Self { host, name })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    fn ability(&self) -> Option<ProviderAbility> {
        self.host.abilities()?.provider.clone()
    }

    fn has(&self, method: &str) -> bool {
        self.ability().is_some_and(|ability| ability.methods.iter().any(|known| known == method))
    }
}

impl Provider for PluginProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn naming(&self, scope: &Scope) -> Naming {
        let documents = self.ability().map(|ability| ability.documents).unwrap_or_default();
        let name = match (documents, &scope.chat) {
            (Documents::Chat, Some(chat)) => document(chat.as_str()),
            (Documents::Chat, None) | (Documents::Session, _) => scope.session.to_string(),
        };
        Naming { name, otherwise: None }
    }

    fn every(&self) -> Option<u64> {
        let ability = self.ability()?;
        ability.methods.iter().any(|method| method == "retain").then_some(ability.every.max(1))
    }

    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(async move {
            if !self.has("recall") || query.trim().is_empty() {
                return Ok(String::new());
            }
            let asked = Recall { scope: of_memory(scope), query: query.to_owned() };
            let said =
                self.host.ask::<_, Option<Text>>(method::RECALL, &asked, self.host.deadlines().recall).await;
            said.map(|said| said.unwrap_or_default().text).map_err(error)
        })
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            let asked = Retain {
                scope: of_memory(&retention.scope),
                key: retention.key.clone(),
                document: retention.document.clone(),
                turn: retention.turn.0.0,
                index: retention.index,
                message_count: retention.message_count,
                at: retention.at.as_seconds(),
                said: retention.said.clone(),
                replied: retention.replied.clone(),
                tried: retention.tried,
            };
            // Any answer is an answer: that is the promise.
            let kept = self.host.ask::<_, IgnoredAny>(method::RETAIN, &asked, self.host.deadlines().retain);
            kept.await.map(drop).map_err(error)
        })
    }

    fn before_compression<'a>(
        &'a self,
        scope: &'a Scope,
        messages: &'a [Message],
    ) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(async move {
            if !self.has("before_compression") {
                return Ok(String::new());
            }
            let messages = to_wire(messages).map_err(MemoryError::Refused)?;
            let asked = BeforeCompression { scope: of_memory(scope), messages };
            let time = self.host.deadlines().before_compression;
            let said = self.host.ask::<_, Option<Text>>(method::BEFORE_COMPRESSION, &asked, time).await;
            said.map(|said| said.unwrap_or_default().text).map_err(error)
        })
    }

    fn follows_sessions(&self) -> bool {
        self.has("scope")
    }

    fn session_ended<'a>(&'a self, scope: &'a Scope, ending: &'a Ending) -> Promise<'a, Result<(), String>> {
        Box::pin(async move {
            let close = Close {
                scope: of_memory(scope),
                key: ending.key.clone(),
                part: Some(Part::Provider),
                reason: reason(ending).to_owned(),
                next: ending.next.as_ref().map(ToString::to_string),
                messages: to_wire(&ending.messages)?,
            };
            self.host.close(&close).await.map_err(|error| error.to_string())
        })
    }

    fn prompt(&self) -> Option<String> {
        self.ability().map(|ability| ability.prompt).filter(|prompt| !prompt.trim().is_empty())
    }

    fn tools(&self) -> Vec<Spec> {
        let tools = self.ability().map(|ability| specs(&self.host, &ability.tools)).unwrap_or_default();
        tools.into_iter().map(|tool| Spec { toolset: TOOLSET.to_owned(), ..tool }).collect()
    }

    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        Box::pin(async move {
            let Wanted { key, name, arguments } = wanted;
            match called(&self.host, of_memory(scope), key, name, arguments).await {
                Content::Text(text) if serde_json::from_str::<IgnoredAny>(&text).is_ok() => text,
                Content::Text(text) => json!(text).to_string(),
                other => content_to_json(&other).to_string(),
            }
        })
    }
}

/// What became of a turn, going by how the call ended.
fn error(error: CallError) -> MemoryError {
    let message = error.to_string();
    match error {
        CallError::Unasked(_) => MemoryError::Later(message),
        CallError::Unknown(_) => MemoryError::Unknown(message),
        CallError::TooLong(_) => MemoryError::Refused(message),
        CallError::Refused { code, .. } => match code {
            code::MAYBE_DONE => MemoryError::Unknown(message),
            code::REFUSED | code::UNKNOWN_PARAMETERS | code::NO_SUCH_METHOD => MemoryError::Refused(message),
            _ => MemoryError::Later(message),
        },
    }
}

/// How much of a chat's key stays readable.
const READABLE: usize = 80;

/// A chat's key as a name that any server takes: what is odd in it is replaced, and what tells it from
/// others that look the same stands behind it.
fn document(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.len() <= READABLE && key.chars().all(is_plain) {
        return key.to_owned();
    }
    let readable: String = key.chars().take(READABLE).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let hash: String =
        Sha256::digest(key.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}-{hash}")
}

/// Why a session is over, in the protocol's words: Hermes' are made for its own rows.
fn reason(ending: &Ending) -> &str {
    match (ending.reason.as_str(), &ending.next) {
        ("session_switch", _) => "resume", // `branch` and `undo` are the same word on both sides
        ("session_reset", Some(_)) => "new",
        ("session_reset" | "idle" | "daily", None) => "expired",
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::memory::REWOUND;

    #[test]
    fn a_chat_has_one_document_and_shares_it_with_no_other() {
        assert_eq!(document("plain-key_1.x"), "plain-key_1.x");
        let name = document("agent:main:telegram:dm:42");
        assert_eq!(name, document("agent:main:telegram:dm:42"));
        assert!(name.starts_with("agent-main-telegram-dm-42-"), "{name}");
        assert_ne!(name, document("agent-main-telegram:dm:42"));
        assert!(document(&"ü".repeat(300)).chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    }

    #[test]
    fn p24_what_may_have_arrived_is_told_from_what_has_not() {
        let refused = |code| error(CallError::Refused { code, message: "m".into() });
        assert_eq!(error(CallError::Unasked("m".into())), MemoryError::Later("m".into()));
        assert_eq!(error(CallError::Unknown("m".into())), MemoryError::Unknown("m".into()));
        assert_eq!(refused(code::FAILED), MemoryError::Later("m".into()));
        assert_eq!(refused(code::MAYBE_DONE), MemoryError::Unknown("m".into()));
        assert_eq!(refused(code::REFUSED), MemoryError::Refused("m".into()));
        assert_eq!(refused(-1), MemoryError::Later("m".into()));
    }

    #[test]
    fn p24_the_end_of_a_session_has_a_reason_that_the_protocol_knows() {
        let told = |word: &str, next: Option<&str>| {
            let next = next.map(|next| next.parse().unwrap());
            reason(&Ending { key: String::new(), reason: word.into(), next, messages: Vec::new() }).to_owned()
        };
        assert_eq!(told("session_reset", Some("after")), "new");
        assert_eq!(told("session_switch", Some("before")), "resume");
        assert_eq!(told("branch", Some("copy")), "branch");
        assert_eq!(told(REWOUND, Some("itself")), "undo");
        for word in ["session_reset", "idle", "daily"] {
            assert_eq!(told(word, None), "expired");
        }
    }
}
