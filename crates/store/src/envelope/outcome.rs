//! What became of an input.

use super::{Readable, StoredText, UnreadableColumn, parsed, session, written};
use serde::{Deserialize, Serialize};
use throughline_core::id::{Seq, SessionId, TurnId};
use throughline_core::session::{Failure, FailureKind, Outcome};

/// The first field tells them apart. A query knows what has moved by the beginning of its text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredOutcome<'a> {
    Answered {
        answered: u64,
    },
    Failed {
        failed: u64,
        kind: StoredFailureKind,
        message: StoredText<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        after_seconds: Option<u32>,
        #[serde(default, skip_serializing_if = "super::is_false")]
        unreachable: bool,
    },
    Done {
        said: StoredText<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        successor: Option<StoredText<'a>>,
    },
    Moved {
        moved: StoredText<'a>,
        seq: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredFailureKind {
    /// Also one that is unreachable: an earlier version, to which a home may go back, knows the wait and not the reason.
    Wait,
    TooLong,
    Credentials,
    Refused,
    Broken,
    Parked,
    Exhausted,
    Stopped,
}

pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    written(&StoredOutcome::from(outcome))
}

pub(crate) fn outcome(text: &str) -> Readable<Outcome> {
    parsed::<StoredOutcome<'_>>(text)?.try_into()
}

impl<'a> From<&'a Outcome> for StoredOutcome<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Answered(turn) => Self::Answered { answered: turn.0.0 },
            Outcome::Failed(turn, Failure { kind, message }) => Self::Failed {
                failed: turn.0.0,
                kind: (*kind).into(),
                message: message.into(),
                after_seconds: match kind {
                    FailureKind::Wait { after_seconds } => *after_seconds,
                    _ => None,
                },
                unreachable: *kind == FailureKind::Unreachable,
            },
            Outcome::Done { said, successor } => {
                let successor = successor.as_ref().map(|id| id.as_str().into());
                Self::Done { said: said.into(), successor }
            }
            Outcome::Moved { session, seq } => Self::Moved { moved: session.as_str().into(), seq: seq.0 },
        }
    }
}

impl TryFrom<StoredOutcome<'_>> for Outcome {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredOutcome<'_>) -> Readable<Self> {
        Ok(match stored {
            StoredOutcome::Answered { answered } => Self::Answered(TurnId(Seq(answered))),
            StoredOutcome::Failed { failed, kind, message, after_seconds, unreachable } => {
                let kind = match kind {
                    StoredFailureKind::Wait if unreachable => FailureKind::Unreachable,
                    StoredFailureKind::Wait => FailureKind::Wait { after_seconds },
                    StoredFailureKind::TooLong => FailureKind::TooLong,
                    StoredFailureKind::Credentials => FailureKind::Credentials,
                    StoredFailureKind::Refused => FailureKind::Refused,
                    StoredFailureKind::Broken => FailureKind::Broken,
                    StoredFailureKind::Parked => FailureKind::Parked,
                    StoredFailureKind::Exhausted => FailureKind::Exhausted,
                    StoredFailureKind::Stopped => FailureKind::Stopped,
                };
                Self::Failed(TurnId(Seq(failed)), Failure { kind, message: message.into_owned() })
            }
            StoredOutcome::Done { said, successor } => {
                let successor: Option<SessionId> =
                    successor.map(|id| session(&id, "successor")).transpose()?;
                Self::Done { said: said.into_owned(), successor }
            }
            StoredOutcome::Moved { moved, seq } => {
                Self::Moved { session: session(&moved, "moved")?, seq: Seq(seq) }
            }
        })
    }
}

impl From<FailureKind> for StoredFailureKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Wait { .. } | FailureKind::Unreachable => Self::Wait,
            FailureKind::TooLong => Self::TooLong,
            FailureKind::Credentials => Self::Credentials,
            FailureKind::Refused => Self::Refused,
            FailureKind::Broken => Self::Broken,
            FailureKind::Parked => Self::Parked,
            FailureKind::Exhausted => Self::Exhausted,
            FailureKind::Stopped => Self::Stopped,
        }
    }
}
