//! What is remembered beyond one conversation, as far as its rules go: who may ask what of whom.
//!
//! A provider has no current session: every call names its scope, and a result belongs to the scope
//! that asked for it. What is to be kept is a [`Retention`]: fixed when its turn ends, committed with
//! it, and handed over later, in order, as often as it takes. Nothing here knows a provider's protocol.

use crate::id::{ChatKey, Generation, SessionId, TurnId};
use crate::message::Message;
use crate::port::Promise;
use crate::time::Time;
use crate::tool::Spec;
use std::sync::Arc;
use std::time::Duration;

pub use fence::{fenced, unfenced};

/// On whose behalf something is remembered or recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub agent: Arc<str>,
    pub chat: Option<ChatKey>,
    pub session: SessionId,
    pub generation: Generation,
    /// The session it grew out of: what a person branched from, or what was open in the chat before.
    pub parent: Option<SessionId>,
    /// The surface the session belongs to: `cli`, `telegram` …
    pub platform: String,
    /// The platform's id of the user, where it is known.
    pub user: Option<String>,
    pub user_name: Option<String>,
    pub place: Place,
    /// What a person called the session.
    pub title: Option<String>,
    /// What the provider calls the place where the turns of this chat lie, once something does.
    pub document: Option<String>,
    /// What it would call that place if something were kept now, as long as nothing is: an earlier
    /// reader there reads what will be this conversation's alone. It is looked up for each question.
    pub meant: Option<String>,
}

impl Scope {
    /// A session of which nothing else is known.
    pub fn of(session: SessionId) -> Self {
        Self {
            agent: Arc::default(),
            chat: None,
            session,
            generation: Generation::default(),
            parent: None,
            platform: String::new(),
            user: None,
            user_name: None,
            place: Place::default(),
            title: None,
            document: None,
            meant: None,
        }
    }

    /// Only the user reads along.
    pub fn is_private(&self) -> bool {
        is_private(self.place.kind.as_deref())
    }

    /// The same, on behalf of this user. Where others read along it names no user: what one of
    /// them told the agent alone is none of the others' business.
    pub fn on_behalf_of(self, user: Option<String>) -> Self {
        match self.is_private() {
            true => Self { user: user.or(self.user), ..self },
            false => Self { user: None, user_name: None, ..self },
        }
    }
}

/// Whether only the user reads in a chat of this kind (`dm`, `group` …). What is no chat has no other readers.
pub fn is_private(kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| matches!(kind, "dm" | "private" | "im"))
}

/// Where a conversation takes place, in the platform's own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub chat: Option<String>,
    pub name: Option<String>,
    /// `dm`, `group` …
    pub kind: Option<String>,
    pub thread: Option<String>,
}

/// One turn, as it is handed to a provider. Everything about it was fixed when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// `session/turn`: the same however often it is tried, and no other turn's.
    pub key: String,
    /// Where it goes. Two retentions of one document are handed over in order, never at once.
    pub document: String,
    pub scope: Scope,
    pub turn: TurnId,
    /// The how-manieth turn of its session that is kept, from 1.
    pub index: u64,
    /// How many messages the session had when the turn ended.
    pub message_count: u64,
    pub at: Time,
    /// What was said to the agent in the turn: each message by itself.
    pub said: Vec<String>,
    pub replied: String,
    /// An earlier try may have arrived: a provider that cannot recognise a key looks first.
    pub tried: bool,
}

/// The end of a conversation was taken back, and it goes on under its own id: what was kept in mind of it may no
/// longer hold.
pub const REWOUND: &str = "undo";

/// How a session ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// `session/epoch`; of one that goes on with another past, `session/rewound/generation`.
    pub key: String,
    /// As the session's hand-over has it, or [`REWOUND`].
    pub reason: String,
    /// What goes on in its place.
    pub next: Option<SessionId>,
    pub messages: Vec<Message>,
}

/// What a provider is asked to delete again: a person, a chat or a session was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    pub scope: Scope,
    /// Where the turns of the session lie.
    pub document: String,
    /// The keys of the turns that go. Empty: everything of the session does.
    pub turns: Vec<String>,
}

/// What a provider would call the place for the turns of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    pub name: String,
    /// What it is called if the name already belongs to another conversation. None: conversations
    /// that get the same name are meant to share it.
    pub otherwise: Option<String>,
}

/// To whom a kept turn goes, and as what. Fixed when it is committed, never looked up later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filing {
    pub provider: String,
    pub scope: Scope,
    pub naming: Naming,
    /// So many turns of the session go together.
    pub every: u64,
}

/// What became of a kept turn on its way to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionChange {
    /// About to be handed over. Found like this after a start, it may have arrived.
    Attempting,
    Kept,
    /// To be tried again at this time.
    Postponed {
        until: Time,
        error: String,
        arrived: bool,
    },
    /// The provider will never take it as it is. It stays, until a person has it tried again.
    Refused {
        error: String,
    },
    /// A person has it tried again.
    Retried,
}

/// How a kept turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits for more of its kind.
    Buffered,
    /// It is to be handed over.
    Due,
    Refused,
}

/// A kept turn as people are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRetention {
    pub retention: Retention,
    /// Nothing is handed over. The provider deletes what it has of the session: see [`PendingRetention::erasure`].
    pub erases: bool,
    pub provider: String,
    pub progress: Progress,
    pub attempts: u32,
    pub not_before: Time,
    pub error: Option<String>,
}

impl PendingRetention {
    /// What the provider is to delete, if it is. `said` of the retention lists the keys of the turns.
    pub fn erasure(&self) -> Option<Erasure> {
        let Retention { scope, document, said, .. } = &self.retention;
        self.erases.then(|| Erasure { scope: scope.clone(), document: document.clone(), turns: said.clone() })
    }
}

/// A memory outside: asked before a turn, told after it.
pub trait Provider: Send + Sync {
    /// As the user configures it: `hindsight`, `honcho` …
    fn name(&self) -> &str;

    /// What `scope` is called there. No IO: it is asked within a commit. A name that is already in
    /// use for a chat is kept by the store, even if another is answered here later.
    fn naming(&self, scope: &Scope) -> Naming;

    /// After how many turns of a session they are handed over. None: nothing is kept.
    fn every(&self) -> Option<u64>;

    /// What bears on `query`, as text; empty if nothing does. It creates nothing.
    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>>;

    /// Keeps a turn. Ok means kept: not queued, not accepted.
    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>>;

    /// Deletes what was kept. Ok means gone, also if nothing was there. It is asked in order with what is retained in
    /// the same document, and again after a failure. A provider that cannot delete refuses and says what to do.
    fn erase<'a>(&'a self, erasure: &'a Erasure) -> Promise<'a, Result<(), MemoryError>> {
        let words = format!(
            "{} offers no way to delete what it has kept of session {}. Delete it there by hand.",
            self.name(),
            erasure.scope.session
        );
        Box::pin(async move { Err(MemoryError::Refused(words)) })
    }

    /// These messages are about to be summarised. What it returns is shown to the summariser as data.
    /// It creates nothing: the conversation goes on.
    fn before_compression<'a>(
        &'a self,
        scope: &'a Scope,
        messages: &'a [Message],
    ) -> Promise<'a, Result<String, MemoryError>> {
        let _ = (scope, messages);
        Box::pin(async { Ok(String::new()) })
    }

    /// Whether it wants to know of sessions that end.
    fn follows_sessions(&self) -> bool {
        false
    }

    /// A session has ended; these were its last messages. Told once it is so on disk, and again after an
    /// error or a crash: [`Ending::key`] is the same then. What was retained has been, or will be, by itself.
    fn session_ended<'a>(&'a self, scope: &'a Scope, ending: &'a Ending) -> Promise<'a, Result<(), String>> {
        let _ = (scope, ending);
        Box::pin(async { Ok(()) })
    }

    /// Fixed words of its own for the system prompt.
    fn prompt(&self) -> Option<String> {
        None
    }

    /// What the model may ask of it, in an order that stays.
    fn tools(&self) -> Vec<Spec> {
        Vec::new()
    }

    /// Runs one of them; the answer is the tool's result, as JSON text, also if it failed.
    fn call<'a>(&'a self, scope: &'a Scope, wanted: Wanted<'a>) -> Promise<'a, String> {
        let _ = scope;
        Box::pin(async move { format!("{{\"error\":\"there is no tool {}\"}}", wanted.name) })
    }
}

/// A call of one of a provider's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// [`Call::key`](crate::tool::Call::key): the same however often it is tried, and no other call's.
    pub key: &'a str,
    pub name: &'a str,
    pub arguments: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// It has certainly not arrived. It is tried again.
    #[error("{0}")]
    Later(String),
    /// The same, and the provider has said when.
    #[error("{words}")]
    Busy { words: String, after: Duration },
    /// It may have arrived. It is tried again, marked as [`Retention::tried`].
    #[error("{0}")]
    Unknown(String),
    /// Never, as it is. In a sentence, free of secrets.
    #[error("{0}")]
    Refused(String),
}

mod fence;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_where_others_read_along_nobody_in_particular_is_remembered() {
        let scope = |kind: Option<&str>| Scope {
            agent: "me".into(),
            chat: None,
            session: "s".parse().expect("a plain id"),
            generation: Generation(1),
            parent: None,
            platform: "p".into(),
            user: Some("1".into()),
            user_name: Some("Ann".into()),
            place: Place { kind: kind.map(str::to_owned), ..Place::default() },
            title: None,
            document: None,
            meant: None,
        };
        for (kind, user) in
            [(None, Some("1")), (Some("dm"), Some("1")), (Some("group"), None), (Some("thread"), None)]
        {
            assert_eq!(scope(kind).on_behalf_of(None).user.as_deref(), user, "{kind:?}");
        }
        assert_eq!(scope(Some("dm")).on_behalf_of(Some("2".into())).user.as_deref(), Some("2"));
        assert_eq!(scope(Some("group")).on_behalf_of(Some("2".into())).user, None);
    }
}
