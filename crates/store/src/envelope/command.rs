//! Orders to the gateway.

use super::call::{grant_from, grant_name};
use super::{Readable, StoredText, UnreadableColumn, borrowed, nullable, owned, session};
use serde::{Deserialize, Serialize};
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::session::ToolProgress;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredCommand<'a> {
    Deferred(StoredDeferredCommand<'a>),
    Approve {
        approve: StoredText<'a>,
        #[serde(default)]
        all: bool,
    },
    Deny {
        #[serde(deserialize_with = "nullable")]
        deny: Option<StoredText<'a>>,
        #[serde(default)]
        all: bool,
    },
    Compress {
        #[serde(deserialize_with = "nullable")]
        compress: Option<StoredText<'a>>,
        keep: Option<u32>,
        #[serde(default)]
        preview: bool,
    },
    Simple(SimpleCommand<'a>),
}

/// A word, as `"stop"`, or a word with one text, as `{"steer": "…"}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SimpleCommand<'a> {
    /// The session that follows.
    New(StoredText<'a>),
    Stop,
    Steer(StoredText<'a>),
    Queue(StoredText<'a>),
    Continue,
    Status,
    Help,
    Yolo,
    Verbose(Option<StoredText<'a>>),
    Notice(StoredText<'a>),
    Absent(StoredText<'a>),
    Unknown(StoredText<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredDeferredCommand<'a> {
    /// One that only the program knows by its name.
    Other {
        errand: StoredText<'a>,
        argument: StoredText<'a>,
    },
    Known(KnownDeferredCommand<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "errand", rename_all = "lowercase")]
pub(super) enum KnownDeferredCommand<'a> {
    New {
        session: StoredText<'a>,
        text: StoredText<'a>,
    },
    Undo {
        number: u32,
    },
    Retry,
    Branch {
        session: StoredText<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<StoredText<'a>>,
    },
    Resume {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<StoredText<'a>>,
        #[serde(default)]
        all: bool,
    },
    Title {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<StoredText<'a>>,
    },
    Background {
        session: StoredText<'a>,
        text: StoredText<'a>,
    },
}

impl<'a> From<&'a Command> for StoredCommand<'a> {
    fn from(command: &'a Command) -> Self {
        Self::Simple(match command {
            Command::New { successor } => SimpleCommand::New(successor.as_str().into()),
            Command::Stop => SimpleCommand::Stop,
            Command::Steer { text } => SimpleCommand::Steer(text.into()),
            Command::Queue { text } => SimpleCommand::Queue(text.into()),
            Command::Continue => SimpleCommand::Continue,
            Command::Status => SimpleCommand::Status,
            Command::Help => SimpleCommand::Help,
            Command::Yolo => SimpleCommand::Yolo,
            Command::Verbose { level } => SimpleCommand::Verbose(level.map(|level| level.as_str().into())),
            Command::Notice { text } => SimpleCommand::Notice(text.into()),
            Command::Absent { name } => SimpleCommand::Absent(name.into()),
            Command::Unknown { name } => SimpleCommand::Unknown(name.into()),
            Command::Approve { grant, all } => {
                return Self::Approve { approve: grant_name(*grant).into(), all: *all };
            }
            Command::Deny { reason, all } => return Self::Deny { deny: borrowed(reason), all: *all },
            Command::Compress { focus, keep, preview } => {
                return Self::Compress { compress: borrowed(focus), keep: *keep, preview: *preview };
            }
            Command::Deferred(deferred) => return Self::Deferred(deferred.into()),
        })
    }
}

impl TryFrom<StoredCommand<'_>> for Command {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredCommand<'_>) -> Readable<Self> {
        Ok(match stored {
            StoredCommand::Deferred(deferred) => Self::Deferred(deferred.try_into()?),
            StoredCommand::Approve { approve, all } => Self::Approve { grant: grant_from(&approve)?, all },
            StoredCommand::Deny { deny, all } => Self::Deny { reason: owned(deny), all },
            StoredCommand::Compress { compress, keep, preview } => {
                Self::Compress { focus: owned(compress), keep, preview }
            }
            StoredCommand::Simple(simple) => simple.try_into()?,
        })
    }
}

impl TryFrom<SimpleCommand<'_>> for Command {
    type Error = UnreadableColumn;

    fn try_from(stored: SimpleCommand<'_>) -> Readable<Self> {
        Ok(match stored {
            SimpleCommand::New(successor) => Self::New { successor: session(&successor, "new")? },
            SimpleCommand::Stop => Self::Stop,
            SimpleCommand::Steer(text) => Self::Steer { text: text.into_owned() },
            SimpleCommand::Queue(text) => Self::Queue { text: text.into_owned() },
            SimpleCommand::Continue => Self::Continue,
            SimpleCommand::Status => Self::Status,
            SimpleCommand::Help => Self::Help,
            SimpleCommand::Yolo => Self::Yolo,
            SimpleCommand::Verbose(level) => {
                Self::Verbose { level: level.and_then(|name| ToolProgress::named(&name)) }
            }
            SimpleCommand::Notice(text) => Self::Notice { text: text.into_owned() },
            SimpleCommand::Absent(name) => Self::Absent { name: name.into_owned() },
            SimpleCommand::Unknown(name) => Self::Unknown { name: name.into_owned() },
        })
    }
}

impl<'a> From<&'a DeferredCommand> for StoredDeferredCommand<'a> {
    fn from(deferred: &'a DeferredCommand) -> Self {
        Self::Known(match deferred {
            DeferredCommand::New { successor, title } => {
                KnownDeferredCommand::New { session: successor.as_str().into(), text: title.into() }
            }
            DeferredCommand::Undo { turns } => KnownDeferredCommand::Undo { number: *turns },
            DeferredCommand::Retry => KnownDeferredCommand::Retry,
            DeferredCommand::Branch { successor, name } => {
                KnownDeferredCommand::Branch { session: successor.as_str().into(), text: borrowed(name) }
            }
            DeferredCommand::Resume { wanted, everywhere } => {
                KnownDeferredCommand::Resume { text: borrowed(wanted), all: *everywhere }
            }
            DeferredCommand::Title { wanted } => KnownDeferredCommand::Title { text: borrowed(wanted) },
            DeferredCommand::Background { session, text } => {
                KnownDeferredCommand::Background { session: session.as_str().into(), text: text.into() }
            }
            DeferredCommand::Other { name, argument } => {
                return Self::Other { errand: name.into(), argument: argument.into() };
            }
        })
    }
}

impl TryFrom<StoredDeferredCommand<'_>> for DeferredCommand {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredDeferredCommand<'_>) -> Readable<Self> {
        let known = match stored {
            StoredDeferredCommand::Known(known) => known,
            StoredDeferredCommand::Other { errand, argument } => {
                return Ok(Self::Other { name: errand.into_owned(), argument: argument.into_owned() });
            }
        };
        Ok(match known {
            KnownDeferredCommand::New { session: id, text } => {
                Self::New { successor: session(&id, "session")?, title: text.into_owned() }
            }
            KnownDeferredCommand::Undo { number } => Self::Undo { turns: number },
            KnownDeferredCommand::Retry => Self::Retry,
            KnownDeferredCommand::Branch { session: id, text } => {
                Self::Branch { successor: session(&id, "session")?, name: owned(text) }
            }
            KnownDeferredCommand::Resume { text, all } => {
                Self::Resume { wanted: owned(text), everywhere: all }
            }
            KnownDeferredCommand::Title { text } => Self::Title { wanted: owned(text) },
            KnownDeferredCommand::Background { session: id, text } => {
                Self::Background { session: session(&id, "session")?, text: text.into_owned() }
            }
        })
    }
}
