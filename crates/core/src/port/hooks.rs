//! The user's own programs: what they are told, and when.

use super::Promise;
use crate::id::SessionId;

/// Something that a user's own programs may want to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    pub occasion: Occasion,
    /// The same however often it is told. Another happening's is another.
    pub key: String,
    pub session: SessionId,
    /// The surface that the session belongs to.
    pub source: String,
    pub facts: Vec<(FactName, Fact)>,
}

/// When they may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// A session began.
    Begun,
    /// A user gave an order.
    Ordered,
    /// A turn began.
    TurnBegan,
    /// The model is asked, for the first time in its turn or after calls.
    Stepped,
    /// A turn ended, however it ended.
    TurnEnded,
    /// A session has ended and is handed over.
    Finalised,
    /// Another session goes on in the place of one that ended.
    Reset,
    /// A session that works for another one has done its part.
    HelperStopped,
}

/// What a fact is about. What a program calls it is a matter of its own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactName {
    Turn,
    Task,
    Model,
    Platform,
    User,
    Sender,
    IsFirstTurn,
    SaidInShort,
    Said,
    Command,
    Argument,
    ToolNames,
    Iteration,
    Completed,
    Interrupted,
    AnswerInShort,
    Answer,
    Parent,
    Child,
    ChildRole,
    ChildGoal,
    ChildSummary,
    ChildStatus,
    DurationMs,
    Reason,
    OldSession,
    NewSession,
    Epoch,
    Key,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Text(String),
    Number(u64),
    Flag(bool),
    Names(Vec<String>),
    Nothing,
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Fact::Text(text.to_owned())
    }
}

impl From<&SessionId> for Fact {
    fn from(id: &SessionId) -> Self {
        Fact::Text(id.to_string())
    }
}

/// The user's own programs that are told of things.
pub trait Hooks: Send + Sync {
    /// Those that are told on this occasion, in order. A name stays the same as long as what it names
    /// does, across restarts.
    fn names(&self, occasion: Occasion) -> Vec<String>;
    /// Tells one of them, and waits for its end. An error, in a sentence, is not done and may be tried
    /// again. Dropping the promise leaves the program running: it is found by its name and the
    /// happening's key, and not begun a second time.
    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>>;
    /// It is on disk that this one has done its part: all that was kept about it may go.
    fn forget(&self, name: &str, happening: &Happening) {
        let _ = (name, happening);
    }
    /// Tells all that want to know. The caller does not wait, and it is told once at most.
    fn tell(&self, happening: Happening);
}

/// No hook wants to know anything.
pub struct NoHooks;

impl Hooks for NoHooks {
    fn names(&self, _: Occasion) -> Vec<String> {
        Vec::new()
    }

    fn run<'a>(&'a self, _: &'a str, _: &'a Happening) -> Promise<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn tell(&self, _: Happening) {}
}
