//! On whose behalf something is remembered.

use super::{Readable, StoredText, UnreadableColumn, borrowed, owned, parsed, session, written};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use throughline_core::id::{ChatKey, Generation, SessionId};
use throughline_core::memory::{Place, Scope};

#[derive(Serialize, Deserialize)]
struct StoredScope<'a> {
    agent: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<StoredText<'a>>,
    session: StoredText<'a>,
    #[serde(default)]
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<StoredText<'a>>,
    platform: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_name: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_name: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_type: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<StoredText<'a>>,
}

pub(crate) fn scope_text(scope: &Scope) -> String {
    written(&StoredScope::from(scope))
}

pub(crate) fn scope(text: &str) -> Readable<Scope> {
    parsed::<StoredScope<'_>>(text)?.try_into()
}

impl<'a> From<&'a Scope> for StoredScope<'a> {
    fn from(scope: &'a Scope) -> Self {
        Self {
            agent: Cow::Borrowed(&scope.agent),
            chat: scope.chat.as_ref().map(|chat| chat.as_str().into()),
            session: scope.session.as_str().into(),
            generation: scope.generation.0,
            parent: scope.parent.as_ref().map(|parent| parent.as_str().into()),
            platform: scope.platform.as_str().into(),
            user: borrowed(&scope.user),
            user_name: borrowed(&scope.user_name),
            chat_id: borrowed(&scope.place.chat),
            chat_name: borrowed(&scope.place.name),
            chat_type: borrowed(&scope.place.kind),
            thread: borrowed(&scope.place.thread),
            title: borrowed(&scope.title),
            document: borrowed(&scope.document),
        }
    }
}

impl TryFrom<StoredScope<'_>> for Scope {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredScope<'_>) -> Readable<Self> {
        let chat = |chat: StoredText<'_>| {
            chat.parse::<ChatKey>().map_err(|_| UnreadableColumn::Field("chat".into()))
        };
        let parent: Option<SessionId> = stored.parent.map(|id| session(&id, "parent")).transpose()?;
        Ok(Self {
            agent: stored.agent.into(),
            chat: stored.chat.map(chat).transpose()?,
            session: session(&stored.session, "session")?,
            generation: Generation(stored.generation),
            parent,
            platform: stored.platform.into_owned(),
            user: owned(stored.user),
            user_name: owned(stored.user_name),
            place: Place {
                chat: owned(stored.chat_id),
                name: owned(stored.chat_name),
                kind: owned(stored.chat_type),
                thread: owned(stored.thread),
            },
            title: owned(stored.title),
            document: owned(stored.document),
            meant: None, // what lies there has a name
        })
    }
}
