//! The names of things. A value of one of these types has been checked where it entered, so
//! nothing downstream checks it again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longer than any id Hermes makes, short enough for every index and header.
const ID_LENGTH_MAX: usize = 256;

/// What divides a session's id from the time of a snapshot in a snapshot's name.
pub const SNAPSHOT_INFIX: &str = ".snapshot.";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("an id must have 1 to {ID_LENGTH_MAX} printable characters without '/', '\\' or '..': {0:?}")]
    Unprintable(String),
    /// The past can be shown and searched, but not written to.
    #[error("{0:?} names a snapshot, which is read-only history")]
    Snapshot(String),
}

/// Names one conversation. `/new` and expiry begin another; compression continues this one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = InvalidId;

    /// Accepts what a Hermes home may hold (`20260528_093510_66bfaec7`), never a snapshot's name:
    /// nothing can be routed to the past.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if !is_printable_id(text) || text.contains(['/', '\\']) || text.contains("..") {
            return Err(InvalidId::Unprintable(text.to_owned()));
        }
        if text.contains(SNAPSHOT_INFIX) {
            return Err(InvalidId::Snapshot(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

/// One place on one platform where a conversation happens, built only from stable ids
/// (`agent:main:telegram:dm:42`). It leads to one session at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChatKey(Arc<str>);

impl ChatKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChatKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match is_printable_id(text) {
            true => Ok(Self(text.into())),
            false => Err(InvalidId::Unprintable(text.to_owned())),
        }
    }
}

fn is_printable_id(text: &str) -> bool {
    (1..=ID_LENGTH_MAX).contains(&text.len()) && text.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

macro_rules! text_display {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )*};
}
text_display!(SessionId, ChatKey);

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )*};
}

number! {
    /// The place of an input in its session's inbox: 1, 2, 3 …
    Seq,
    /// The fencing token of a session's owner. The store refuses an owner with an older one.
    Generation,
    /// Counts the views of a history: compression and restore open the next.
    View,
    /// Counts the lives of one session id: `/resume` of an ended session opens the next.
    Epoch,
    /// A row of the transcript.
    RowId,
    /// One start of the process on this home. An attempt of an earlier one is of unknown outcome.
    Boot,
}

/// Names a turn within its session: the first input it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(pub Seq);

impl fmt::Display for TurnId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p11_a_snapshots_name_is_never_a_session() {
        for (text, good) in [
            ("20260528_093510_66bfaec7", true),
            ("api-0123456789abcdef", true),
            ("20260528_093510_66bfaec7.snapshot.20260528T093510000000Z", false),
            ("", false),
            ("a b", false),
            ("a\nb", false),
            ("../../etc/passwd", false),
            ("a/b", false),
            ("ünïcode", true),
        ] {
            assert_eq!(text.parse::<SessionId>().is_ok(), good, "{text:?}");
        }
        assert!("x".repeat(ID_LENGTH_MAX + 1).parse::<SessionId>().is_err());
    }

    #[test]
    fn p2_a_chat_key_may_hold_a_slash_inside() {
        assert!("agent:main:google_chat:group:spaces/AAA:users/1".parse::<ChatKey>().is_ok());
        assert!("agent:main:telegram:dm:4 2".parse::<ChatKey>().is_err());
    }
}
