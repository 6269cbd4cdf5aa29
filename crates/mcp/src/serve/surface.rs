//! What the server needs of the gateway, in plain data. Whoever implements it decides what the
//! client may see; nothing here knows where it is kept.

use std::time::Duration;
use throughline_core::port::Promise;
use throughline_core::time::Time;

/// A conversation as clients know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
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
pub struct Said {
    pub id: String,
    pub speaker: Speaker,
    pub text: String,
    pub at: Time,
    /// Pictures and files beside the text.
    pub attachments: Vec<Attachment>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaker {
    #[default]
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// `image`, `file` …
    pub kind: String,
    pub url: String,
}

/// Where a text was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub session_key: String,
    pub session_id: String,
    pub platform: String,
    pub message_id: String,
    pub speaker: Speaker,
    /// The words around it.
    pub excerpt: String,
    pub at: Time,
}

/// How a message fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
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
pub enum Decision {
    AllowOnce,
    AllowAlways,
    Deny,
}

/// A place on a platform that something can be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
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

pub type Answer<'a, T> = Promise<'a, Result<T, SurfaceError>>;

pub trait Surface: Send + Sync {
    /// Conversations that are open, in any order.
    fn conversations(&self) -> Answer<'_, Vec<Conversation>>;
    /// What was said in one of them, the oldest first; [`SurfaceError::NotFound`] if there is none.
    fn said<'a>(&'a self, session_key: &'a str) -> Answer<'a, Vec<Said>>;
    /// Full text over everything that was said, the best first.
    fn search<'a>(&'a self, query: &'a str, limit: usize) -> Answer<'a, Vec<Found>>;
    /// Says something to the agent and waits for its answer, but no longer than `patience`. Without
    /// a key a conversation begins. `once` names the message: the same name is never two messages.
    fn say<'a>(
        &'a self,
        session_key: Option<&'a str>,
        text: &'a str,
        once: Option<&'a str>,
        patience: Duration,
    ) -> Answer<'a, Reply>;
    fn questions(&self) -> Answer<'_, Vec<OpenQuestion>>;
    fn decide<'a>(&'a self, question: &'a str, decision: Decision) -> Answer<'a, ()>;

    /// Whether anything can be sent to platforms. If not, the tools that would are not offered, and
    /// the two functions below are not called.
    fn delivers(&self) -> bool {
        false
    }
    fn channels(&self) -> Answer<'_, Vec<Channel>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    /// Sends a text to a place, as the agent, once it is safely queued.
    fn deliver<'a>(&'a self, _target: &'a str, _text: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Err(SurfaceError::Refused("no platform is connected".to_owned())) })
    }
}
