//! What must not reach a model or a log by way of an error: Hermes' patterns of credentials, and
//! what the user gave this very server in its environment and headers, and the tokens of its login.

use crate::settings::{ServerReach, ServerSettings};
use regex::Regex;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const MARK: &str = "[REDACTED]";

/// Shorter values are words (`true`, `debug`), which would tear holes into every sentence.
const VALUE_LENGTH_MIN: usize = 8;

/// A token is good for some minutes; what is older is worth nothing any more.
const LEARNED_MAX: usize = 8;

static CREDENTIALS: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#"[^\s&,;"']{1,255}"#;
    let pattern = format!(
        r"(?i)ghp_[A-Za-z0-9_]{{1,255}}|sk-[A-Za-z0-9_]{{1,255}}|Bearer\s+\S+|token={value}|key={value}|API_KEY={value}|password={value}|secret={value}"
    );
    Regex::new(&pattern).expect("the pattern is written just above")
});

#[derive(Clone, Default)]
pub struct ErrorRedactor {
    /// The longest first: one may contain another.
    values: Vec<String>,
    /// Tokens that were sent, the latest last. Clones share them.
    learned: Arc<Mutex<VecDeque<String>>>,
}

impl ErrorRedactor {
    pub fn new(settings: &ServerSettings) -> Self {
        let given = match &settings.reach {
            ServerReach::Stdio { env, .. } => env,
            ServerReach::Http(remote) | ServerReach::Sse(remote) => &remote.headers,
        };
        let mut values: Vec<String> = Vec::new();
        for (_, secret) in given {
            let value = secret.expose().trim();
            values.push(value.to_owned());
            // `Authorization: Bearer …` is quoted by servers without its first word.
            values.extend(value.split_whitespace().skip(1).map(str::to_owned));
        }
        values.retain(|value| is_secret(value));
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values, learned: Arc::default() }
    }

    /// Knows a token of the server's login from now on.
    pub fn learn(&self, token: &str) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if token.len() < VALUE_LENGTH_MIN || learned.iter().any(|known| known == token) {
            return;
        }
        learned.push_back(token.to_owned());
        if learned.len() > LEARNED_MAX {
            learned.pop_front();
        }
    }

    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        for value in self.values.iter().chain(learned.iter()) {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), MARK);
            }
        }
        CREDENTIALS.replace_all(&text, MARK).into_owned()
    }
}

/// Places are given to servers as often as secrets are, and an error without them says nothing.
fn is_secret(value: &str) -> bool {
    value.len() >= VALUE_LENGTH_MIN && !value.starts_with(['/', '~', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::redact::Secret;

    #[test]
    fn p31_what_was_given_to_a_server_is_not_in_its_errors() {
        let env = [("TOKEN", "abcdefgh12345"), ("MODE", "debug"), ("ROOT", "/srv/data/files")];
        let env = env.map(|(name, value)| (name.to_owned(), Secret::new(value))).to_vec();
        let reach = ServerReach::Stdio { command: "x".into(), args: vec![], env, cwd: None };
        let redactor = ErrorRedactor::new(&ServerSettings::new("s", reach));
        assert_eq!(
            redactor.clean("debug: abcdefgh12345 refused below /srv/data/files"),
            "debug: [REDACTED] refused below /srv/data/files"
        );
    }

    #[test]
    fn p31_credentials_are_cut_as_hermes_cuts_them() {
        for (text, expected) in [
            ("bad ghp_abc123 here", "bad [REDACTED] here"),
            ("GET /x?token=abc&y=1", "GET /x?[REDACTED]&y=1"),
            ("authorization: bearer abc.def", "authorization: [REDACTED]"),
            ("password=hunter2, again", "[REDACTED], again"),
            ("a plain sentence", "a plain sentence"),
        ] {
            assert_eq!(ErrorRedactor::default().clean(text), expected);
        }
    }
}
