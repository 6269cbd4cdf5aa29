//! What can go wrong, by what the caller can do about it.

use std::fmt;
use std::time::Duration;

/// Enough of a server's own words to act on, short enough for a chat message.
const EXCERPT_LENGTH_MAX: usize = 400;

#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// There was no connection, so nothing was asked. Try again later.
    #[error("{0}")]
    Unreachable(String),
    /// The other side hung up without an answer. Whether it did what it was asked is unknown.
    #[error("{0}")]
    HungUp(String),
    /// It took too long. Try again later.
    #[error("{stage} took longer than {} s", limit.as_secs_f64())]
    TimedOut { stage: NetStage, limit: Duration },
    /// There was an answer, and it was not success. What to do depends on the status.
    #[error("the answer was status {}: {}", .0.status, .0.excerpt())]
    Status(Box<HttpRefusal>),
    /// The answer broke off in the middle. What came before is void.
    #[error("the connection was lost in the middle of the answer: {0}")]
    Lost(String),
    /// What came cannot be read.
    #[error("{0}")]
    Unreadable(UnreadableEvent),
    /// Asking again gives the same: something must be put right first.
    #[error("{0}")]
    Unusable(String),
}

/// What was being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetStage {
    Connecting,
    /// The request is out, and nothing of the answer has come.
    FirstByte,
    /// The answer has begun, and has gone silent.
    Silence,
    /// The answer as a whole, however lively.
    Whole,
}

impl fmt::Display for NetStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NetStage::Connecting => "connecting",
            NetStage::FirstByte => "the first byte of the answer",
            NetStage::Silence => "a silence in the middle of the answer",
            NetStage::Whole => "the whole answer",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableEvent {
    #[error("the answer is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("one event of the answer is longer than {limit} bytes")]
    EventTooLong { limit: usize },
    #[error("the answer is not valid UTF-8")]
    NotUtf8,
}

/// An answer other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRefusal {
    pub status: u16,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
    /// The beginning of what it said, without secrets.
    pub body: String,
    /// Where it would rather be asked, without path or query. Never followed.
    pub redirect: Option<String>,
}

impl HttpRefusal {
    pub fn excerpt(&self) -> String {
        excerpt(&self.body)
    }
}

/// `text` on one line, cut to what fits into a notice.
pub fn excerpt(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > EXCERPT_LENGTH_MAX {
            let end = line.floor_char_boundary(EXCERPT_LENGTH_MAX);
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_bounded_line() {
        assert_eq!(excerpt("  two\n\twords "), "two words");
        let long = excerpt(&"ü".repeat(10_000));
        assert!(long.len() <= EXCERPT_LENGTH_MAX + '…'.len_utf8());
        assert!(long.ends_with('…'));
    }
}
