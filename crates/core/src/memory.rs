//! What is remembered beyond one conversation, as far as its rules go: who may ask what of whom.
//!
//! A provider has no current session: every call names its scope, and a result belongs to the scope
//! that asked for it. Nothing here knows a provider's protocol, and nothing here is durable: what is
//! retained is an act of the machine.

use crate::id::{ChatKey, Generation, SessionId};
use crate::message::Message;
use crate::port::Promise;
use std::sync::Arc;

/// On whose behalf something is remembered or recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub agent: Arc<str>,
    pub chat: Option<ChatKey>,
    pub session: SessionId,
    pub generation: Generation,
    /// The platform's id of the user, where it is known.
    pub user: Option<String>,
}

/// Asks a provider what it knows.
pub trait Recall: Send + Sync {
    /// What bears on `query`, as text; empty if nothing does.
    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>>;
}

/// Hands a provider what it should keep.
pub trait Retain: Send + Sync {
    /// What was said, under a key that stays the same however often it is tried.
    fn retain<'a>(
        &'a self,
        scope: &'a Scope,
        key: &'a str,
        messages: &'a [Message],
    ) -> Promise<'a, Result<(), MemoryError>>;

    /// These messages are about to be summarised. What it returns is shown to the summariser as data.
    /// It creates nothing at the provider's: the conversation goes on.
    fn before_compression<'a>(
        &'a self,
        scope: &'a Scope,
        messages: &'a [Message],
    ) -> Promise<'a, Result<String, MemoryError>>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Not now. It is tried again.
    #[error("{0}")]
    Later(String),
    /// Never. In a sentence, free of secrets.
    #[error("{0}")]
    Refused(String),
}
