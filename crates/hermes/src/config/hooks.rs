//! `hooks:`, the shell hooks of Hermes: programs that are told of things, and may forbid a call.
//!
//! - an entry that Hermes would skip is skipped, and pointed out
//! - a matcher counts for calls only, a timeout is a number of seconds from 1 to 300
//! - nothing runs that its owner has not agreed to: [`Allowlist`] is Hermes' own file
//!
//! Deliberately absent: files, processes, and which of the occasions exist here.

use super::read::{as_boolean, as_count};
use super::tree::{Node, Notice, Place, Value};
use serde_json::Value as Json;
use throughline_core::port::Occasion;

const TIMEOUT_SECONDS: u64 = 60;
const TIMEOUT_SECONDS_MAX: u64 = 300;

/// What Hermes knows as an event, in its order.
const EVENTS: [&str; 23] = [
    "pre_tool_call",
    "post_tool_call",
    "transform_terminal_output",
    "transform_tool_result",
    "transform_llm_output",
    "pre_llm_call",
    "post_llm_call",
    "pre_verify",
    "pre_api_request",
    "post_api_request",
    "api_request_error",
    "on_session_start",
    "on_session_end",
    "on_session_finalize",
    "on_session_reset",
    "subagent_start",
    "subagent_stop",
    "pre_gateway_dispatch",
    "pre_approval_request",
    "post_approval_response",
    "kanban_task_claimed",
    "kanban_task_completed",
    "kanban_task_blocked",
];

/// Keys below `hooks:` that are no events.
const RESERVED: [&str; 1] = ["output_spill"];

/// All of `hooks:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    pub list: Vec<Hook>,
    /// `hooks_auto_accept: true`: all that is written here is agreed to.
    pub auto_accept: bool,
}

/// One program on one occasion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub event: String,
    /// As written, without blanks around it: what the allowlist knows it by.
    pub command: String,
    /// A regular expression for the whole name of a tool.
    pub matcher: Option<String>,
    pub timeout_seconds: u64,
    pub place: Place,
}

impl Hook {
    /// What it is told of, where that is something that happens to a session.
    pub fn occasion(&self) -> Option<Occasion> {
        OCCASIONS.iter().find(|(_, name)| *name == self.event).map(|(occasion, _)| *occasion)
    }

    pub fn is_before_a_call(&self) -> bool {
        self.event == "pre_tool_call"
    }

    pub fn is_after_a_call(&self) -> bool {
        self.event == "post_tool_call"
    }

    /// Whether anything here ever happens that it wants to know of.
    pub fn has_its_occasion(&self) -> bool {
        self.is_before_a_call() || self.is_after_a_call() || self.occasion().is_some()
    }
}

const OCCASIONS: [(Occasion, &str); 5] = [
    (Occasion::Begun, "on_session_start"),
    (Occasion::TurnEnded, "on_session_end"),
    (Occasion::Finalised, "on_session_finalize"),
    (Occasion::Reset, "on_session_reset"),
    (Occasion::HelperStopped, "subagent_stop"),
];

/// What Hermes calls an occasion.
pub fn event_of(occasion: Occasion) -> &'static str {
    OCCASIONS.iter().find(|(known, _)| *known == occasion).map_or("", |(_, name)| name)
}

pub(super) fn read(root: &Node) -> (Hooks, Vec<Notice>) {
    let mut notices = Vec::new();
    let auto_accept = root.get("hooks_auto_accept").and_then(|node| as_boolean(&node.value)).unwrap_or(false);
    let mut hooks = Hooks { list: Vec::new(), auto_accept };
    for entry in root.get("hooks").map(Node::entries).unwrap_or_default() {
        if RESERVED.contains(&entry.key.as_str()) {
            continue;
        }
        if !EVENTS.contains(&entry.key.as_str()) {
            let nearest = EVENTS.iter().map(|known| (super::distance(&entry.key, known), known)).min();
            let meant = nearest.filter(|(distance, known)| *distance <= known.len() / 3);
            let text = match meant {
                Some((_, known)) => format!("`hooks.{}` is no event; did you mean `{known}`?", entry.key),
                None => format!("`hooks.{}` is no event; there are {}", entry.key, EVENTS.join(", ")),
            };
            notices.push(Notice { place: entry.place, text });
            continue;
        }
        match &entry.node.value {
            Value::Null => {}
            Value::List(items) => {
                hooks.list.extend(items.iter().filter_map(|item| hook(&entry.key, item, &mut notices)));
            }
            _ => {
                let text = format!("`hooks.{}` is a list of hooks; what is written is not used", entry.key);
                notices.push(Notice { place: entry.node.place, text });
            }
        }
    }
    (hooks, notices)
}

fn hook(event: &str, node: &Node, notices: &mut Vec<Notice>) -> Option<Hook> {
    let mut notice = |place: Place, text: String| notices.push(Notice { place, text });
    let command = match node.get("command").map(|node| &node.value) {
        Some(Value::Text(command)) if !command.trim().is_empty() => command.trim().to_owned(),
        _ => {
            notice(node.place, format!("this hook of `{event}` has no effect: give it a `command`"));
            return None;
        }
    };
    let takes_matcher = ["pre_tool_call", "post_tool_call"].contains(&event);
    let matcher = match node.get("matcher") {
        Some(Node { value: Value::Text(text), .. }) if takes_matcher => {
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        }
        Some(node) if !matches!(node.value, Value::Null) => {
            let text = match takes_matcher {
                true => "`matcher` is a regular expression; what is written is not used".to_owned(),
                false => format!("`matcher` counts for calls of tools only: this hook hears every `{event}`"),
            };
            notice(node.place, text);
            None
        }
        _ => None,
    };
    let timeout_seconds = match node.get("timeout").filter(|node| !matches!(node.value, Value::Null)) {
        None => TIMEOUT_SECONDS,
        Some(node) => match as_count(&node.value).filter(|seconds| *seconds >= 1) {
            Some(seconds) if seconds > TIMEOUT_SECONDS_MAX => {
                notice(
                    node.place,
                    format!("`timeout` is {TIMEOUT_SECONDS_MAX} seconds at most, and is that here"),
                );
                TIMEOUT_SECONDS_MAX
            }
            Some(seconds) => seconds,
            None => {
                let text =
                    format!("`timeout` is a whole number of seconds; {TIMEOUT_SECONDS} are used").to_owned();
                notice(node.place, text);
                TIMEOUT_SECONDS
            }
        },
    };
    Some(Hook { event: event.to_owned(), command, matcher, timeout_seconds, place: node.place })
}

/// `shell-hooks-allowlist.json`: what the owner of a home has agreed to, by event and command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist(Vec<(String, String)>);

impl Allowlist {
    pub const FILE: &'static str = "shell-hooks-allowlist.json";

    /// As Hermes reads it: what is no such file allows nothing.
    pub fn parse(text: &str) -> Self {
        let read: Json = serde_json::from_str(text).unwrap_or_default();
        let approvals = read.get("approvals").and_then(Json::as_array).map_or(&[] as &[_], Vec::as_slice);
        let word = |entry: &Json, name: &str| entry.get(name).and_then(Json::as_str).map(str::to_owned);
        Self(
            approvals
                .iter()
                .filter_map(|entry| Some((word(entry, "event")?, word(entry, "command")?)))
                .collect(),
        )
    }

    pub fn allows(&self, hook: &Hook) -> bool {
        self.0.iter().any(|(event, command)| *event == hook.event && *command == hook.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parsed(text: &str) -> (Hooks, Vec<String>) {
        let config = Config::parse(text, &|_| None).unwrap();
        (config.hooks, config.warnings.into_iter().map(|notice| notice.text).collect())
    }

    #[test]
    fn hooks_are_read_as_hermes_reads_them() {
        let (hooks, warnings) = parsed(
            "hooks:\n  pre_tool_call:\n    - {matcher: ' terminal|patch ', command: ' ~/gate.sh --strict ', timeout: 5}\n\
             \x20   - {command: other, timeout: 900}\n  on_session_finalize:\n    - {command: bye, matcher: x}\n    - {timeout: 3}\n\
             \x20 on_sesion_start: [{command: hi}]\n  on_session_end: hello\n  post_tool_call:\n  output_spill: {max: 3}\n\
             hooks_auto_accept: 'yes'\n",
        );
        let seen: Vec<_> = hooks
            .list
            .iter()
            .map(|hook| {
                (hook.event.as_str(), hook.command.as_str(), hook.matcher.as_deref(), hook.timeout_seconds)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("pre_tool_call", "~/gate.sh --strict", Some("terminal|patch"), 5),
                ("pre_tool_call", "other", None, 300),
                ("on_session_finalize", "bye", None, 60),
            ]
        );
        assert!(hooks.auto_accept);
        for part in
            ["300 seconds", "counts for calls", "give it a `command`", "`on_session_start`", "is a list"]
        {
            assert!(warnings.iter().any(|text| text.contains(part)), "{part}: {warnings:?}");
        }
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert_eq!(parsed("hooks: [1]").0, Hooks::default());
    }

    #[test]
    fn p31_only_what_was_agreed_to_word_for_word_is_allowed() {
        let (hooks, _) =
            parsed("hooks: {on_session_end: [{command: a.sh}], pre_tool_call: [{command: a.sh}]}");
        let list = Allowlist::parse(r#"{"approvals": [3, {"event": "on_session_end", "command": "a.sh"}]}"#);
        assert_eq!(hooks.list.iter().map(|hook| list.allows(hook)).collect::<Vec<_>>(), [true, false]);
        for broken in ["", "[]", "{", r#"{"approvals": 1}"#] {
            assert_eq!(Allowlist::parse(broken), Allowlist::default(), "{broken}");
        }
    }
}
