//! What must never leave: keys and tokens, wherever a log line or an error would carry them.

use std::fmt;

/// A text that shows itself to nobody who does not ask for it by name: elsewhere it is only as long
/// as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "set, {} characters", self.0.chars().count())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({self})")
    }
}

/// Prefixes by which the secrets of common providers are known.
const PREFIXES: [&str; 12] =
    ["sk-", "sk_", "tl-", "xoxb-", "xoxp-", "xapp-", "ghp_", "gho_", "github_pat_", "AIza", "Bearer ", "eyJ"];

/// Shorter runs than this are words, not keys.
const SECRET_LENGTH_MIN: usize = 12;

/// `text` with everything that looks like a credential replaced by its first characters and `…`.
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, prefix)) = first_prefix(rest) {
        let after = start + prefix.len();
        let run = rest[after..].find(|c: char| !is_secret_char(c)).unwrap_or(rest.len() - after);
        let starts_word = rest[..start].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if run >= SECRET_LENGTH_MIN && starts_word {
            out.push_str(&rest[..after]);
            out.push('…');
        } else {
            out.push_str(&rest[..after + run]);
        }
        rest = &rest[after + run..];
    }
    out.push_str(rest);
    out
}

fn first_prefix(text: &str) -> Option<(usize, &'static str)> {
    PREFIXES.iter().filter_map(|prefix| text.find(prefix).map(|at| (at, *prefix))).min()
}

fn is_secret_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '=' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_keys_are_cut_and_words_are_not() {
        for (text, expected) in [
            ("key sk-proj-abcdefghijklmnop failed", "key sk-… failed"),
            ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer …"),
            ("a task-oriented-description here", "a task-oriented-description here"),
            ("sk-short", "sk-short"),
            ("two sk-aaaaaaaaaaaaaaaa xoxb-bbbbbbbbbbbbbbbb", "two sk-… xoxb-…"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}
