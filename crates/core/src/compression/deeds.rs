//! What was done, as the transcript shows it: calls, their results, and which of them changed something.
//!
//! A deed is known by what its tool is called and what it was given: `send`, `write`, `commit`. A reading
//! tool does nothing that would have to be remembered. Lines made here carry no secrets and are bounded.

use super::arguments;
use super::identifiers::Found;
use super::text::{first, one_line, size};
use crate::history::{NOT_ASKED, OUTCOME_UNKNOWN, STOPPED};
use crate::message::{Body, Message, ToolCall};
use crate::redact::redacted;
use std::borrow::Cow;
use std::fmt;

/// Which result answers which call. Indices are those of the messages it was made of.
pub struct Pairs {
    calls: Vec<Option<(usize, usize)>>,
    results: Vec<Vec<Option<usize>>>,
}

impl Pairs {
    pub fn of(messages: &[Message]) -> Self {
        let mut calls = vec![None; messages.len()];
        let mut results: Vec<Vec<Option<usize>>> =
            messages.iter().map(|message| vec![None; message.calls().len()]).collect();
        let mut caller: Option<usize> = None;
        for (at, message) in messages.iter().enumerate() {
            match &message.body {
                Body::Result(result) => {
                    let Some(by) = caller else { continue };
                    let asked = messages[by].calls().iter().zip(&results[by]);
                    let open = asked
                        .enumerate()
                        .find(|(_, (call, answer))| answer.is_none() && call.id == result.call_id);
                    if let Some((place, _)) = open {
                        calls[at] = Some((by, place));
                        results[by][place] = Some(at);
                    }
                }
                Body::Other { .. } => {}
                _ => caller = (!message.calls().is_empty()).then_some(at),
            }
        }
        Self { calls, results }
    }

    /// The call that this result answers.
    pub fn call<'a>(&self, messages: &'a [Message], result: usize) -> Option<&'a ToolCall> {
        let (by, place) = self.calls[result]?;
        messages[by].calls().get(place)
    }

    /// Which of the calls before it this result answers.
    pub fn place(&self, result: usize) -> Option<usize> {
        self.calls[result].map(|(_, place)| place)
    }

    fn result<'a>(&self, messages: &'a [Message], caller: usize, place: usize) -> Option<&'a Message> {
        messages.get(self.results[caller][place]?)
    }
}

/// What was said, without a copy where it is one text.
pub fn said(message: &Message) -> Cow<'_, str> {
    match message.content() {
        crate::message::Content::Text(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.plain()),
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Exit(i64),
    Failed(String),
    /// It may or may not have taken effect.
    Unknown,
    NotRun,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ok => formatter.write_str("ok"),
            Status::Exit(code) => write!(formatter, "exit {code}"),
            Status::Failed(why) if why.is_empty() => formatter.write_str("failed"),
            Status::Failed(why) => write!(formatter, "failed: {why}"),
            Status::Unknown => formatter.write_str("outcome unknown"),
            Status::NotRun => formatter.write_str("not run"),
        }
    }
}

/// How far into a result its status is looked for, from either end. Output in between is output.
const STATUS_REACH: usize = 2_000;
const REASON_MAX: usize = 120;

impl Status {
    pub fn of(result: &str) -> Self {
        let text = result.trim();
        if text.starts_with(OUTCOME_UNKNOWN) || text.starts_with(STOPPED) {
            return Self::Unknown;
        }
        if text.starts_with(NOT_ASKED) {
            return Self::NotRun;
        }
        let (head, tail) = match text.len() <= STATUS_REACH {
            true => (text, ""),
            false => (first(text, STATUS_REACH), ending(text, STATUS_REACH)),
        };
        let code = [head, tail].into_iter().find_map(exit_code);
        let reason = error_field(head).or_else(|| error_field(tail));
        match (code, reason) {
            (Some(code), _) => Self::Exit(code),
            (None, Some(why)) => Self::Failed(one_line(&redacted(&why), REASON_MAX)),
            (None, None) if begins_as_error(head) => Self::Failed(one_line(&redacted(head), REASON_MAX)),
            (None, None) if is_false(head, "\"success\"") || is_false(head, "\"ok\"") => {
                Self::Failed(String::new())
            }
            (None, None) => Self::Ok,
        }
    }
}

fn ending(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

fn exit_code(text: &str) -> Option<i64> {
    if !text.contains("exit") && !text.contains("returncode") {
        return None; // most results: the list of names is long
    }
    let names = ["\"exit_code\"", "\"returncode\"", "exit code", "exit status", "exited with"];
    names.iter().find_map(|name| {
        let after = &text[text.find(name)? + name.len()..];
        let after = after.trim_start_matches([':', ' ', '=', '"']);
        let after = after.strip_prefix("code ").unwrap_or(after);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
        after[..end].parse().ok()
    })
}

/// The text of `"error": "…"`, unless it is empty or none.
fn error_field(text: &str) -> Option<String> {
    let after = text[text.find("\"error\"")? + "\"error\"".len()..].trim_start();
    let value = after.strip_prefix(':')?.trim_start();
    if ["null", "false", "\"\"", "0", "{}", "[]"].iter().any(|none| value.starts_with(none)) {
        return None;
    }
    let value = value.trim_start_matches(['"', '{', ' ']);
    Some(first(value, 2 * REASON_MAX).split('"').next().unwrap_or_default().to_owned())
}

fn begins_as_error(text: &str) -> bool {
    let start = first(text, 12).to_lowercase();
    ["error", "traceback", "fatal", "failed", "exception", "panic"].iter().any(|word| start.starts_with(word))
}

fn is_false(text: &str, field: &str) -> bool {
    text.find(field)
        .is_some_and(|at| text[at + field.len()..].trim_start_matches([':', ' ']).starts_with("false"))
}

/// What a call was given, in short.
const FIELDS_MAX: usize = 4;
const VALUE_MAX: usize = 80;
const COMMAND_MAX: usize = 160;

/// How much of what a call was given is looked at.
const ARGUMENTS_REACH: usize = 16_000;

pub fn described(call: &ToolCall) -> String {
    // Redacted as a whole: a field's name may be what gives its value away.
    described_as(&call.name, &redacted(first(&call.arguments, ARGUMENTS_REACH)))
}

/// The same of arguments without secrets.
pub fn described_as(name: &str, given: &str) -> String {
    let fields = arguments::fields(given);
    let mut words = one_line(name, 64);
    if fields.is_empty() && given.trim().len() > 2 {
        words.push_str(&format!(" {}", one_line(given, VALUE_MAX)));
    }
    for (key, value) in fields.iter().take(FIELDS_MAX) {
        let most = if is_command_field(key) { COMMAND_MAX } else { VALUE_MAX };
        let shown = match value.len() > 4 * most && !is_command_field(key) {
            true => format!("({})", size(value)),
            false => one_line(value, most),
        };
        words.push_str(&format!(" {}={shown}", one_line(key, 32)));
    }
    if fields.len() > FIELDS_MAX {
        words.push_str(&format!(" (+{} more)", fields.len() - FIELDS_MAX));
    }
    words
}

fn is_command_field(key: &str) -> bool {
    matches!(key, "command" | "cmd" | "code" | "script")
}

const READS: [&str; 20] = [
    "read", "get", "list", "search", "view", "fetch", "show", "find", "check", "query", "describe", "status",
    "browse", "look", "extract", "analyze", "inspect", "preview", "count", "recall",
];
const WRITES: [&str; 41] = [
    "send", "sent", "write", "patch", "edit", "create", "delete", "remove", "move", "rename", "commit",
    "push", "post", "publish", "upload", "deploy", "merge", "install", "update", "add", "schedule", "cancel",
    "pay", "transfer", "order", "book", "reply", "message", "email", "mail", "save", "insert", "append",
    "apply", "replace", "submit", "notify", "cronjob", "invite", "approve", "close",
];
/// What in a command line changes something beyond its output.
const COMMANDS: [&str; 40] = [
    "git commit",
    "git push",
    "git tag",
    "git merge",
    "git rebase",
    "git reset",
    "git revert",
    "git stash",
    "gh pr",
    "gh issue",
    "gh release",
    "npm publish",
    "cargo publish",
    "twine upload",
    "pip install",
    "npm install",
    "apt install",
    "apt-get install",
    "docker push",
    "docker run",
    "kubectl apply",
    "kubectl delete",
    "terraform apply",
    "systemctl",
    "sed -i",
    "rm ",
    "mv ",
    "cp ",
    "mkdir ",
    "touch ",
    "chmod ",
    "tee ",
    "scp ",
    "rsync ",
    "sendmail",
    "mail -s",
    "-x post",
    "-x put",
    "-x delete",
    "crontab",
];

/// Whether a call changed something in the world, or was meant to.
pub fn is_deed(call: &ToolCall) -> bool {
    let name = call.name.to_lowercase();
    let mut words = name.split(|character: char| !character.is_ascii_alphanumeric());
    let decided = words.find_map(|word| match word {
        _ if READS.contains(&word) => Some(false),
        _ if WRITES.contains(&word) => Some(true),
        _ => None,
    });
    decided.unwrap_or_else(|| does_something(call))
}

fn does_something(call: &ToolCall) -> bool {
    let fields = arguments::fields(&call.arguments);
    fields.iter().any(|(key, value)| match key.as_str() {
        "action" | "operation" | "method" => WRITES.contains(&value.to_lowercase().as_str()),
        _ if is_command_field(key) => changes_something(first(value, 4_000)),
        _ => false,
    })
}

fn changes_something(command: &str) -> bool {
    let command = command.to_lowercase();
    let redirected = command.contains("> ") && !command.contains("2> /dev/null");
    redirected || COMMANDS.iter().any(|part| command.contains(part))
}

/// Something that was done, in a line, with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub line: String,
    /// The names by which it can be told whether a text speaks of it.
    pub marks: Vec<String>,
}

const MARKS_MAX: usize = 6;
/// How much of a result is searched for the id it gave something.
const RESULT_REACH: usize = 1_500;

/// Everything that was done in these messages, in order.
pub fn deeds(messages: &[Message], pairs: &Pairs) -> Vec<Deed> {
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for (place, call) in message.calls().iter().enumerate() {
            if is_deed(call) {
                found.push(deed(call, pairs.result(messages, at, place)));
            }
        }
    }
    found
}

fn deed(call: &ToolCall, result: Option<&Message>) -> Deed {
    let mut line = described(call);
    let mut marks = Found::in_text(&line);
    match result.map(said) {
        None => line.push_str(" — no result"),
        Some(text) => {
            line.push_str(&format!(" — {}", Status::of(&text)));
            let given = Found::in_text(&redacted(first(&text, RESULT_REACH)));
            let new: Vec<_> =
                given.names.iter().filter(|name| !line.contains(name.as_str())).take(4).collect();
            if !new.is_empty() {
                let names: Vec<_> = new.iter().map(|name| one_line(name, VALUE_MAX)).collect();
                line.push_str(&format!(" ({})", names.join(", ")));
                new.iter().for_each(|name| marks.add(name));
            }
        }
    }
    let marks = marks.all().take(MARKS_MAX).map(str::to_owned).collect();
    Deed { line, marks }
}

impl Deed {
    /// From a line of an earlier record.
    pub fn of_line(line: &str) -> Self {
        let marks = Found::in_text(line).all().take(MARKS_MAX).map(str::to_owned).collect();
        Self { line: line.to_owned(), marks }
    }

    /// Whether a text names everything that this deed is known by.
    pub fn is_told_in(&self, text: &str) -> bool {
        match self.marks.is_empty() {
            true => text.contains(first(&self.line, 40)),
            false => self.marks.iter().all(|mark| text.contains(mark.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Assistant, Content, ToolResult};
    use crate::time::Time;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into(), extra: None }
    }

    #[test]
    fn the_status_of_a_result_is_read_off_its_text() {
        let long = format!("{{\"output\": \"{}\", \"exit_code\": 2}}", "x".repeat(9_000));
        for (result, status) in [
            ("all fine", "ok"),
            ("{\"output\":\"x\",\"exit_code\": 0}", "exit 0"),
            (long.as_str(), "exit 2"),
            ("Process exited with code 137", "exit 137"),
            ("{\"error\": \"no such room\"}", "failed: no such room"),
            ("{\"error\": null, \"id\": 4}", "ok"),
            ("{\"success\": false}", "failed"),
            ("Error: disk full", "failed: Error: disk full"),
            (OUTCOME_UNKNOWN, "outcome unknown"),
            (NOT_ASKED, "not run"),
        ] {
            assert_eq!(Status::of(result).to_string(), status, "{}", first(result, 60));
        }
    }

    #[test]
    fn deeds_are_told_from_looking() {
        for (name, arguments, is) in [
            ("send_message", "{}", true),
            ("write_file", "{}", true),
            ("mcp_mail_create_draft", "{}", true),
            ("read_file", "{}", false),
            ("search_messages", "{}", false),
            ("memory", r#"{"action":"add"}"#, true),
            ("terminal", r#"{"command":"cd x && git commit -m hi"}"#, true),
            ("terminal", r#"{"command":"ls -la"}"#, false),
            ("terminal", r#"{"command":"echo hi > out.txt"}"#, true),
        ] {
            assert_eq!(is_deed(&call(name, arguments)), is, "{name} {arguments}");
        }
    }

    #[test]
    fn a_deed_names_its_object_its_outcome_and_the_id_it_was_given() {
        let assistant = Assistant {
            calls: vec![call(
                "send_message",
                r##"{"to":"#ops","text":"done","token":"sk-proj-abcdefghijklmnop1234567890"}"##,
            )],
            ..Assistant::default()
        };
        let content = Content::text(r#"{"success": true, "message_id": "m-88123"}"#);
        let messages = [
            Message::new(Time(0), Body::Assistant(assistant)),
            Message::new(Time(0), Body::Result(ToolResult { call_id: "c".into(), name: None, content })),
        ];
        let found = deeds(&messages, &Pairs::of(&messages));
        assert_eq!(found.len(), 1);
        let line = &found[0].line;
        for part in ["send_message", "to=#ops", "ok", "m-88123"] {
            assert!(line.contains(part), "{line}");
        }
        assert!(!line.contains("abcdefghijklmnop"), "{line}");
        assert!(found[0].is_told_in("Sent to #ops as m-88123."), "{:?}", found[0].marks);
        assert!(!found[0].is_told_in("Sent to #ops."));
    }
}
