//! What the server needs of the gateway, in plain data. The implementation decides what the client
//! may see; nothing here knows where it is kept.

use std::time::Duration;
use throughline_core::port::Promise;
use throughline_core::time::Time;

/// A conversation as clients know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedConversation {
    /// By this it is named in every other call: the key of its chat, or the id of its session where
    /// it has no chat.
    pub session_key: String,
    pub session_id: String,
    pub platform: String,
    pub chat_type: String,
    pub display_name: String,
    pub chat_name: String,
    pub user_name: String,
    pub chat_id: String,
    pub thread_id: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Something that a person or the agent said. Calls of tools and their results are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedMessage {
    pub id: String,
    pub speaker: ServedSpeaker,
    pub text: String,
    pub at: Time,
    /// Pictures and files beside the text.
    pub attachments: Vec<ServedAttachment>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServedSpeaker {
    #[default]
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedAttachment {
    /// `image`, `file` …
    pub kind: String,
    pub url: String,
}

/// Where a text was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHit {
    pub session_key: String,
    pub session_id: String,
    pub platform: String,
    pub message_id: String,
    pub speaker: ServedSpeaker,
    /// The words around it.
    pub excerpt: String,
    pub at: Time,
}

/// How a message fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The turn is over.
    Answered { session_key: String, session_id: String, text: String },
    /// It is kept and being worked on; the patience is over, the turn is not.
    Working { session_key: String, session_id: String },
}

/// A question of a tool that waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenQuestion {
    pub id: String,
    pub session_key: String,
    /// What would be done, free of secrets.
    pub what: String,
    pub why: String,
    pub asked: Time,
    pub until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionDecision {
    AllowOnce,
    AllowAlways,
    Deny,
}

/// A place on a platform that something can be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendTarget {
    /// `platform:chat_id`
    pub target: String,
    pub platform: String,
    pub name: String,
    pub chat_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurfaceError {
    /// There is nothing of that name: look again.
    #[error("{0}")]
    NotFound(String),
    /// It is there, and not possible: do something else.
    #[error("{0}")]
    Refused(String),
    /// The gateway cannot be reached or cannot answer now: try again later.
    #[error("{0}")]
    Unavailable(String),
}

pub type SurfaceAnswer<'a, T> = Promise<'a, Result<T, SurfaceError>>;

pub trait Surface: Send + Sync {
    /// Conversations that are open, in any order.
    fn conversations(&self) -> SurfaceAnswer<'_, Vec<ServedConversation>>;
    /// What was said in one of them, the oldest first; [`SurfaceError::NotFound`] if there is none.
    fn said<'a>(&'a self, session_key: &'a str) -> SurfaceAnswer<'a, Vec<ServedMessage>>;
    /// Full text over everything that was said, the best first.
    fn search<'a>(&'a self, query: &'a str, limit: usize) -> SurfaceAnswer<'a, Vec<SearchHit>>;
    /// Says something to the agent and waits for its answer, but no longer than `patience`. Without
    /// a key a conversation begins. `once` names the message: the same name is never two messages.
    fn say<'a>(
        &'a self,
        session_key: Option<&'a str>,
        text: &'a str,
        once: Option<&'a str>,
        patience: Duration,
    ) -> SurfaceAnswer<'a, SendOutcome>;
    fn questions(&self) -> SurfaceAnswer<'_, Vec<OpenQuestion>>;
    fn decide<'a>(&'a self, question: &'a str, decision: QuestionDecision) -> SurfaceAnswer<'a, ()>;

    /// Whether anything can be sent to platforms. If not, the tools that would are not offered, and
    /// the two functions below are not called.
    fn delivers(&self) -> bool {
        false
    }
    fn channels(&self) -> SurfaceAnswer<'_, Vec<SendTarget>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    /// Sends a text to a place, as the agent, once it is safely queued.
    fn deliver<'a>(&'a self, _target: &'a str, _text: &'a str) -> SurfaceAnswer<'a, ()> {
        Box::pin(async { Err(SurfaceError::Refused("no platform is connected".to_owned())) })
    }
}
