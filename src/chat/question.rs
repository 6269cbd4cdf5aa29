//! Questions of tools: how they are put at a terminal, and what an answer means.
//!
//! What the agent asks about is what may destroy something, so a letter allows nothing: only a whole
//! word does. An answer that is neither yes nor no decides nothing, and the person is told so.

use crate::client::Asked;
use serde_json::{Value, json};

pub const PROMPT: &str = "answer › ";

/// What an answer comes to.
#[derive(Debug, PartialEq)]
pub enum Understood {
    /// The body that the gateway takes.
    Verdict(Value),
    /// What to say to the person. The question stays open.
    Unclear(String),
}

/// The question itself.
pub fn words(asked: &Asked) -> String {
    match (&asked.command, &asked.reason) {
        (Some(command), Some(reason)) => {
            format!("May I run this?\n\n  {}\n\nWhy I ask: {reason}", command.replace('\n', "\n  "))
        }
        _ => asked.text.clone(),
    }
}

/// How it can be answered.
pub fn how(asked: &Asked) -> &'static str {
    match (asked.is_open, asked.has_kind) {
        _ if asked.is_of_server => {
            "Answer in your own words or with the number of a choice; decline or cancel refuses."
        }
        (true, _) => "Answer in your own words, or with the number of a choice.",
        (false, true) => {
            "Type yes to allow it once, session or always to allow its kind, or no. A letter allows nothing."
        }
        (false, false) => "Type yes to allow it once, or no. A letter allows nothing.",
    }
}

/// What `typed` means as an answer to `asked`.
pub fn understand(asked: &Asked, typed: &str) -> Understood {
    let typed = typed.trim();
    let approve = |scope: &str| Understood::Verdict(json!({"decision": "approve", "scope": scope}));
    let deny = |reason: &str| match reason.trim() {
        "" => Understood::Verdict(json!({"decision": "deny"})),
        reason => Understood::Verdict(json!({"decision": "deny", "reason": reason})),
    };
    if typed.is_empty() {
        return Understood::Unclear(format!("Nothing was answered. {}", how(asked)));
    }
    if asked.is_open {
        return Understood::Verdict(json!({ "answer": typed }));
    }
    let lower = typed.to_lowercase();
    let (first, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    match lower.as_str() {
        "yes" | "once" | "approve" | "/approve" => approve("once"),
        "session" | "/approve session" if asked.has_kind => approve("session"),
        "always" | "/approve always" if asked.has_kind => approve("always"),
        "n" => deny(""),
        _ => match first.trim_end_matches([',', ':', '.']).to_lowercase().as_str() {
            "no" | "deny" | "/deny" => deny(rest),
            _ => {
                let shown: String = typed.chars().take(40).collect();
                Understood::Unclear(format!(
                    "{shown:?} is neither yes nor no, so nothing was decided. {}",
                    how(asked)
                ))
            }
        },
    }
}

pub const UNATTENDED: &str = "No person can answer here, so it was refused. To allow it beforehand, have it asked once in \
    a terminal (`throughline chat`) and answer always, which adds it to command_allowlist in config.yaml.";

/// What is said where no person can answer, while the gateway waits for one who is elsewhere.
pub const HELD: &str = "No person can answer here. The gateway has asked the owner, who is connected elsewhere, and waits for an answer \
    for as long as approvals.timeout says (60 seconds by default).";

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(is_open: bool, has_kind: bool) -> Asked {
        Asked {
            id: "s/1/1/0".into(),
            is_open,
            is_of_server: false,
            text: "?".into(),
            command: None,
            reason: None,
            has_kind,
        }
    }

    #[test]
    fn p31_only_a_whole_word_allows_anything() {
        let allowed = |asked: &Asked, typed: &str| match understand(asked, typed) {
            Understood::Verdict(verdict) => {
                let scope = verdict["scope"].as_str().unwrap_or_default().to_owned();
                format!("{} {scope}", verdict["decision"].as_str().unwrap_or("said"))
            }
            Understood::Unclear(_) => "unclear".to_owned(),
        };
        for (typed, expected) in [
            ("yes", "approve once"),
            (" YES ", "approve once"),
            ("/approve", "approve once"),
            ("session", "approve session"),
            ("always", "approve always"),
            ("y", "unclear"),
            ("Y", "unclear"),
            ("s", "unclear"),
            ("a", "unclear"),
            ("yes please do", "unclear"),
            ("ye", "unclear"),
            ("", "unclear"),
            ("   ", "unclear"),
            ("what would it delete?", "unclear"),
            ("n", "deny "),
            ("no", "deny "),
            ("No, not there", "deny "),
            ("/deny", "deny "),
            ("nothing", "unclear"),
        ] {
            assert_eq!(allowed(&asked(false, true), typed), expected, "{typed:?}");
        }
        assert_eq!(allowed(&asked(false, false), "always"), "unclear", "it has no kind");
        assert_eq!(allowed(&asked(true, false), "y"), "said ", "a question in words takes any");
        let Understood::Verdict(denied) = understand(&asked(false, true), "no, not there") else { panic!() };
        assert_eq!(denied["reason"], "not there");
        let Understood::Unclear(told) = understand(&asked(false, true), "y") else { panic!() };
        assert!(told.contains("\"y\" is neither yes nor no") && told.contains("Type yes"), "{told}");
    }
}
