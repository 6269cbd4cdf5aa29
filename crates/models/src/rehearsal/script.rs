//! What the rehearsal model does instead of repeating what it heard, rule by rule.
//!
//! A script is a JSON object:
//!
//! ```json
//! {
//!   "latency_ms": 5,
//!   "rules": [
//!     {"when": {"contains": "weather", "result": false}, "times": 1,
//!      "call": [{"name": "forecast", "arguments": {"city": "Graz"}}], "say": "One moment."},
//!     {"when": {"result_contains": "sunny"}, "say": "It will be sunny.", "think": "easy",
//!      "usage": {"input": 60000, "output": 12, "cache_read": 0, "cache_write": 0, "reasoning": 0}},
//!     {"when": {"contains": "busy"}, "fail": "wait", "after_seconds": 2, "message": "Too many requests.", "times": 2},
//!     {"when": {"contains": "half"}, "cut": "Only the beginning of this is heard.", "after": 10},
//!     {"when": {"session": "20260528_093510_66bfaec7"}, "latency_ms": 200, "say": "Late.", "finish": "length"},
//!     {"when": {"contains": "silence"}, "never": true}
//!   ]
//! }
//! ```
//!
//! The first rule that fits and has `times` left is followed; without one the model repeats what it
//! heard. A rule fits if everything in `when` does: `contains` is looked for in the user's last
//! message and `result_contains` in what tools have returned since the last answer, both without
//! regard to case; `result` asks whether a tool has returned anything since; `session` is the
//! session's id. Once tools have returned, `contains` counts only in a rule about results. A rule does one thing: `say`, `call` (with `say` for what is said along with it),
//! `fail` (`wait`, `too_long`, `credentials`, `refused`, `broken`), `cut` (the first `after` bytes
//! are streamed, then it breaks off) or `never`; one that does nothing but wait repeats what it
//! heard. `latency_ms` of a rule counts instead of the script's, and `think` is streamed before.

use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use throughline_core::session::FailureKind;
use throughline_core::turn::Usage;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rehearsal script cannot be used: {0}")]
pub struct InvalidScript(String);

/// Rules for the rehearsal model. Its JSON form is described at the top of `rehearsal/script.rs`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalScript {
    #[serde(default)]
    latency_ms: u64,
    #[serde(default)]
    rules: Vec<RehearsalRule>,
}

impl RehearsalScript {
    pub fn from_json(text: &str) -> Result<Self, InvalidScript> {
        let script: RehearsalScript =
            serde_json::from_str(text).map_err(|error| InvalidScript(error.to_string()))?;
        for (number, rule) in (1..).zip(&script.rules) {
            rule.check().map_err(|problem| InvalidScript(format!("rule {number} {problem}")))?;
        }
        Ok(script)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RehearsalRule {
    when: When,
    times: Option<u32>,
    latency_ms: Option<u64>,
    say: Option<String>,
    finish: Option<String>,
    think: Option<String>,
    call: Vec<CallText>,
    fail: Option<Failing>,
    after_seconds: Option<u32>,
    message: Option<String>,
    cut: Option<String>,
    after: usize,
    never: bool,
    usage: Option<UsageText>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct When {
    contains: Option<String>,
    result_contains: Option<String>,
    result: Option<bool>,
    session: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    name: String,
    id: Option<String>,
    /// An object, or a text for arguments that are none.
    #[serde(default)]
    arguments: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Failing {
    Wait,
    TooLong,
    Credentials,
    Refused,
    Broken,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UsageText {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl RehearsalRule {
    fn check(&self) -> Result<(), String> {
        let deeds = [
            (self.say.is_some() && self.call.is_empty(), "say"),
            (!self.call.is_empty(), "call"),
            (self.fail.is_some(), "fail"),
            (self.cut.is_some(), "cut"),
            (self.never, "never"),
        ];
        let done: Vec<&str> = deeds.iter().filter(|(done, _)| *done).map(|(_, name)| *name).collect();
        match done.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("does more than one thing: {}", done.join(", "))),
        }
    }

    fn fits(&self, session: &str, last: &Last<'_>) -> bool {
        let holds = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let When { contains, result_contains, result, session: wanted } = &self.when;
        let of_results = *result == Some(true) || result_contains.is_some();
        let text = if of_results { last.asked } else { last.text };
        contains.as_deref().is_none_or(|part| text.is_some_and(|text| holds(text, part)))
            && result_contains.as_deref().is_none_or(|part| last.results.iter().any(|text| holds(text, part)))
            && result.is_none_or(|wanted| wanted != last.results.is_empty())
            && wanted.as_deref().is_none_or(|wanted| wanted == session)
    }

    fn deed(&self) -> RehearsalDeed {
        let say = || self.say.clone().unwrap_or_default();
        match (self.fail, &self.cut) {
            (Some(failing), _) => self.failure(failing),
            (None, Some(text)) => RehearsalDeed::Cut { text: text.clone(), after: self.after },
            (None, None) if self.never => RehearsalDeed::Never,
            (None, None) if !self.call.is_empty() => {
                RehearsalDeed::Call { text: say(), calls: self.call.iter().map(CallText::call).collect() }
            }
            (None, None) if self.say.is_some() => {
                RehearsalDeed::Say { text: say(), finish: self.finish.clone() }
            }
            (None, None) => RehearsalDeed::Echo,
        }
    }

    fn failure(&self, failing: Failing) -> RehearsalDeed {
        let (kind, problem) = match failing {
            Failing::Wait => (FailureKind::Wait { after_seconds: self.after_seconds }, "is busy"),
            Failing::TooLong => (FailureKind::TooLong, "finds the conversation too long"),
            Failing::Credentials => (FailureKind::Credentials, "wants another key"),
            Failing::Refused => (FailureKind::Refused, "refuses the request"),
            Failing::Broken => (FailureKind::Broken, "answers rubbish"),
        };
        let usual = || format!("The rehearsal model {problem}, as its script says.");
        RehearsalDeed::Fail { kind, message: self.message.clone().unwrap_or_else(usual) }
    }
}

impl CallText {
    fn call(&self) -> ScriptedCall {
        let arguments = match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        ScriptedCall { id: self.id.clone(), name: self.name.clone(), arguments }
    }
}

/// What the rules are compared with.
pub(super) struct Last<'a> {
    pub text: Option<&'a str>,
    pub results: &'a [String],
    /// The user's last message, also where tools have returned since.
    pub asked: Option<&'a str>,
}

/// What happens in answer to one request.
pub(super) struct Scene {
    pub deed: RehearsalDeed,
    pub latency: Duration,
    pub reasoning: Option<String>,
    pub usage: Option<Usage>,
}

pub(super) enum RehearsalDeed {
    Echo,
    Say { text: String, finish: Option<String> },
    Call { text: String, calls: Vec<ScriptedCall> },
    Fail { kind: FailureKind, message: String },
    Cut { text: String, after: usize },
    Never,
}

pub(super) struct ScriptedCall {
    pub id: Option<String>,
    pub name: String,
    pub arguments: String,
}

/// A script, and how often each rule has been followed.
#[derive(Default)]
pub(super) struct Play {
    script: RehearsalScript,
    followed: Vec<AtomicU32>,
}

impl Play {
    pub fn of(script: RehearsalScript) -> Self {
        let followed = script.rules.iter().map(|_| AtomicU32::new(0)).collect();
        Self { script, followed }
    }

    pub fn next(&self, session: &str, last: &Last<'_>) -> Scene {
        let mut rules = self.script.rules.iter().zip(&self.followed);
        let rule = rules.find(|(rule, followed)| rule.fits(session, last) && claim(followed, rule.times));
        let rule = rule.map(|(rule, _)| rule);
        Scene {
            deed: rule.map_or(RehearsalDeed::Echo, RehearsalRule::deed),
            latency: Duration::from_millis(
                rule.and_then(|rule| rule.latency_ms).unwrap_or(self.script.latency_ms),
            ),
            reasoning: rule.and_then(|rule| rule.think.clone()),
            usage: rule.and_then(|rule| rule.usage).map(UsageText::usage),
        }
    }
}

impl UsageText {
    fn usage(self) -> Usage {
        let UsageText { input, output, cache_read, cache_write, reasoning } = self;
        Usage { input, output, cache_read, cache_write, reasoning }
    }
}

/// Takes one of the times a rule may be followed, if one is left.
fn claim(followed: &AtomicU32, times: Option<u32>) -> bool {
    let more = |count: u32| times.is_none_or(|times| count < times).then_some(count.saturating_add(1));
    followed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}
