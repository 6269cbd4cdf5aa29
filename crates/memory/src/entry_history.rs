//! Where an entry comes from, and what became of those that are no longer there. Plain data.

use crate::target::MemoryTarget;
use std::fmt;
use std::str::FromStr;
use throughline_core::id::SessionId;
use throughline_core::time::Time;
use throughline_core::tool::Call;

/// How the part of a call's key begins that names its turn, if it is not a turn but a review of some.
pub const REVIEW: &str = "review";

/// By whom something was written, from where, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryOrigin {
    pub writer: EntryWriter,
    /// The surface: `cli`, `api_server`, the name of a platform …
    pub source: String,
    pub session: Option<SessionId>,
    /// The key of the tool call, which names the turn. None: no call was made.
    pub call: Option<String>,
    pub at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryWriter {
    /// The agent, in a turn of the conversation.
    Chat,
    /// The agent, looking back at a conversation.
    Review,
    /// A person who ordered it: a restored entry.
    Person,
}

impl EntryWriter {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Review => "review",
            Self::Person => "person",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Chat, Self::Review, Self::Person].into_iter().find(|writer| writer.name() == name)
    }
}

impl EntryOrigin {
    pub fn of(call: &Call) -> Self {
        let mut parts = call.key.rsplit('/'); // position, step, turn
        let is_review = parts.nth(2).is_some_and(|turn| turn.starts_with(REVIEW));
        Self {
            writer: if is_review { EntryWriter::Review } else { EntryWriter::Chat },
            source: call.caller.source.clone(),
            session: Some(call.caller.session.clone()),
            call: Some(call.key.clone()),
            at: call.caller.now,
        }
    }

    /// A person who gives an order through `source`.
    pub fn person(source: &str, at: Time) -> Self {
        Self { writer: EntryWriter::Person, source: source.to_owned(), session: None, call: None, at }
    }
}

/// What happened to one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    pub what: EntryEvent,
    pub entry: String,
    pub origin: EntryOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryEvent {
    Added,
    Restored,
    Removed,
    Replaced { by: String },
}

impl EntryEvent {
    /// Whether the entry went.
    pub fn is_departure(&self) -> bool {
        matches!(self, Self::Removed | Self::Replaced { .. })
    }
}

/// A record, by which it can be named, and whether its entry is in the file now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEntry {
    pub id: PastId,
    pub record: EntryRecord,
    pub is_there: bool,
}

/// `memory-3`: the third line of what happened to the notes. It never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastId {
    pub target: MemoryTarget,
    pub number: u64,
}

impl fmt::Display for PastId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.target.name(), self.number)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names nothing that was; the history shows names like memory-3 and user-1")]
pub struct NoPastId(String);

impl FromStr for PastId {
    type Err = NoPastId;

    fn from_str(text: &str) -> Result<Self, NoPastId> {
        let parts = text.rsplit_once('-');
        let parsed = parts.and_then(|(target, number)| {
            Some(Self { target: target.parse().ok()?, number: number.parse().ok()? })
        });
        parsed.ok_or_else(|| NoPastId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_the_past_can_be_typed() {
        let id = PastId { target: MemoryTarget::User, number: 12 };
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "12", "memory", "memory-", "memory--1", "notes-1", "memory-1x"] {
            assert!(wrong.parse::<PastId>().is_err(), "{wrong}");
        }
    }
}
