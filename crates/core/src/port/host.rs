//! What only the program around the gateway can do: commands of the host, names that a user has given to things.

use super::Promise;
use crate::command::Found;
use crate::id::SessionId;
use crate::input::Destination;
use crate::session::Preferences;

/// Knows what can be set, shown and done around a conversation, and the names that a user has given to
/// things. All that it does is done once per [`Assignment::key`], however often it is asked.
pub trait HostCommands: Send + Sync {
    /// What an order means whose name is none of ours. None: nothing.
    fn expand<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Expansion>> {
        let _ = asked;
        Box::pin(async { None })
    }
    /// Carries it out. None: it does not know how.
    fn carry_out<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Found>> {
        let _ = asked;
        Box::pin(async { None })
    }
    /// Names that it would expand for this caller, each with a few words, for `/commands`.
    fn names<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Vec<(String, String)>> {
        let _ = asked;
        Box::pin(async { Vec::new() })
    }
    /// Starts the process again once nothing runs. That it was ordered is on disk.
    fn restart(&self) {}
}

/// What is asked of a clerk, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The same however often it is asked.
    pub key: String,
    /// Of the command, without its slash.
    pub name: String,
    pub argument: String,
    /// None: not known yet.
    pub session: Option<SessionId>,
    /// The surface it came through.
    pub source: String,
    pub user: Option<String>,
    /// As [`crate::tool::Caller::is_private`].
    pub is_private: bool,
    pub principal: Option<String>,
    /// Where the answer goes. None for a client that waits for it.
    pub place: Option<Destination>,
    pub preferences: Preferences,
}

/// What a name that the user has given to something stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// Words for the model.
    Words(String),
    /// Another order, as if it had been typed.
    Typed(String),
    /// Something that the clerk itself carries out.
    HostCommand,
}
