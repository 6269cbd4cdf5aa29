//! How a gateway says that a home, or a bot's token, is taken.
//!
//! Hermes keeps two files in a home: `gateway.lock`, held by `flock` for the life of the process,
//! and `gateway.pid`; both hold one [`Record`]. A token that only one gateway on a machine may use
//! has a file of its own under the user's state directory ([`token_lock`]).
//!
//! A record alone proves nothing, since processes die and numbers are used again. Hermes asks the
//! system: does the process live, did it start when the record says, does its command line look
//! like a gateway's? It deletes files that fail this test, lock and all, so the owner of a home
//! must pass it: see [`TITLE`].
//!
//! Deliberately absent: files, `/proc` and the clock. The caller hands in a [`Process`].

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The `kind` of every record.
pub const KIND: &str = "hermes-gateway";

/// What stands first on our command line while we own a home. Hermes 0.14 looks for
/// `hermes-gateway` in it, 0.19 for a word whose last part is that.
pub const TITLE: &str = "throughline/hermes-gateway";

/// The field by which we know our own records. Hermes does not read it.
const OWN_FIELD: &str = "throughline";

/// States of `gateway_state.json` in which no gateway runs.
const STATES_AT_REST: [&str; 2] = ["stopped", "startup_failed"];

/// Who wrote it, as far as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub pid: u32,
    pub kind: Option<String>,
    pub argv: Vec<String>,
    /// In ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_time: Option<i64>,
    /// Our version, if it is ours.
    pub throughline: Option<String>,
    /// Only in `gateway_state.json`.
    pub gateway_state: Option<String>,
}

/// What the system knows about a living process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub start_time: Option<i64>,
    /// Its arguments, joined by spaces. None: it may not be read.
    pub command_line: Option<String>,
    /// Halted by a signal, as with Ctrl+Z.
    pub is_stopped: bool,
}

impl Record {
    /// The record of this process, as Throughline writes it.
    pub fn own(pid: u32, argv: Vec<String>, start_time: Option<i64>, version: &str) -> Self {
        Self {
            pid,
            kind: Some(KIND.to_owned()),
            argv,
            start_time,
            throughline: Some(version.to_owned()),
            gateway_state: None,
        }
    }

    /// Reads `gateway.pid`, `gateway.lock`, `gateway_state.json` or a token's lock. Older files
    /// hold a bare number.
    pub fn parse(text: &str) -> Option<Record> {
        let value: Value = serde_json::from_str(text.trim()).ok()?;
        let fields = match value {
            Value::Number(_) => Map::from_iter([("pid".to_owned(), value)]),
            Value::Object(fields) => fields,
            _ => return None,
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let argv = fields.get("argv").and_then(Value::as_array).into_iter().flatten();
        Some(Record {
            pid: pid(fields.get("pid")?)?,
            kind: text("kind"),
            argv: argv.filter_map(|part| part.as_str().map(str::to_owned)).collect(),
            start_time: fields.get("start_time").and_then(Value::as_i64),
            throughline: text(OWN_FIELD),
            gateway_state: text("gateway_state"),
        })
    }

    /// As Hermes writes it, with our version behind.
    pub fn emit(&self) -> String {
        crate::json::dumps(&self.fields().into())
    }

    pub(crate) fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("pid".into(), self.pid.into());
        fields.insert("kind".into(), json!(self.kind));
        fields.insert("argv".into(), json!(self.argv));
        fields.insert("start_time".into(), json!(self.start_time));
        if let Some(version) = &self.throughline {
            fields.insert(OWN_FIELD.into(), json!(version));
        }
        fields
    }

    /// Hermes' test: is the process that this record names a gateway that runs now? `process` is
    /// what the system knows under that number; None: nothing lives there.
    pub fn is_running(&self, process: Option<&Process>) -> bool {
        let Some(process) = process else { return false };
        if !self.could_be(process) {
            return false;
        }
        match &process.command_line {
            Some(command_line) => is_gateway(command_line),
            None => self.kind.as_deref() == Some(KIND) && is_gateway(&self.argv.join(" ")),
        }
    }

    /// The same, for `gateway_state.json`, which outlives its process and says when it ended.
    pub fn is_running_by_its_state(&self, process: Option<&Process>) -> bool {
        let state = self.gateway_state.as_deref();
        state.is_some_and(|state| !STATES_AT_REST.contains(&state)) && self.is_running(process)
    }

    /// Hermes' test for a token's lock: does its owner still need it? One that is halted does not;
    /// one that cannot be looked at does, if it started when the record says.
    pub fn holds_token(&self, process: Option<&Process>) -> bool {
        let Some(process) = process else { return false };
        let is_the_same = self.start_time.is_some() && self.start_time == process.start_time;
        let unseen = process.command_line.is_none() && is_the_same;
        !process.is_stopped && (unseen || self.is_running(Some(process)))
    }

    fn could_be(&self, process: &Process) -> bool {
        match (self.start_time, process.start_time) {
            (Some(recorded), Some(living)) => recorded == living,
            _ => true,
        }
    }
}

fn pid(value: &Value) -> Option<u32> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_u64()?,
    };
    u32::try_from(number).ok().filter(|pid| *pid > 0)
}

/// Whether a command line can be that of a gateway: `hermes gateway run`, bare or as
/// `python -m hermes_cli.main`, its restart, or a program of its own. Hermes 0.19's rule.
pub fn is_gateway(command_line: &str) -> bool {
    let words: Vec<String> = words(command_line)
        .into_iter()
        .map(|word| word.trim_matches(['"', '\'']).replace('\\', "/").to_lowercase())
        .collect();
    let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    let program = |word: &String| {
        *word == "gateway/run.py"
            || word.ends_with("/gateway/run.py")
            || matches!(name(word).as_str(), "hermes-gateway" | "hermes-gateway.exe")
    };
    if words.iter().any(program) {
        return true;
    }
    let joined = words.join(" ");
    let hermes = joined.contains("hermes_cli.main")
        || joined.contains("hermes_cli/main.py")
        || words.iter().any(|word| matches!(name(word).as_str(), "hermes" | "hermes.exe"));
    hermes && matches!(subcommand(&words), Some("run" | "restart"))
}

/// What follows `gateway`. A profile is chosen anywhere on the line, and may be called `gateway`.
fn subcommand(words: &[String]) -> Option<&str> {
    let mut plain = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--profile" | "-p" => drop(rest.next()),
            word if word.starts_with("--profile=") || word.starts_with("-p=") => {}
            word => plain.push(word),
        }
    }
    let at = plain.iter().position(|word| *word == "gateway")?;
    Some(plain.get(at + 1).copied().unwrap_or("run"))
}

/// Words divided by spaces, except between quotes that begin a word. Where a quote is never
/// closed, quotes are letters.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' | '\'' => match rest[1..].find(first) {
                Some(close) => close + 2,
                None => return text.split_whitespace().collect(),
            },
            _ => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// The state directory's part that leads to the locks of tokens: below `$XDG_STATE_HOME`, else
/// `~/.local/state`. `HERMES_GATEWAY_LOCK_DIR` names the directory itself.
pub const TOKEN_LOCKS: &str = "hermes/gateway-locks";

/// A token that one gateway may use at a time: Hermes' name for what it is, and the token.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    /// `telegram-bot-token`, `discord-bot-token`, `slack-app-token` …
    pub scope: &'a str,
    pub identity: &'a str,
}

impl Token<'_> {
    fn hash(&self) -> String {
        let digest = Sha256::digest(self.identity.as_bytes());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of its file in the directory of locks. The token cannot be read off it.
    pub fn file_name(&self) -> String {
        format!("{}-{}.lock", self.scope, self.hash())
    }
}

/// The content of a token's lock. `updated_at` is the time in UTC, ISO 8601, as Python writes it;
/// `platform` is what Hermes notes under `metadata`.
pub fn token_lock(owner: &Record, token: Token<'_>, platform: &str, updated_at: &str) -> String {
    let mut fields = owner.fields();
    fields.insert("scope".into(), token.scope.into());
    fields.insert("identity_hash".into(), token.hash().into());
    fields.insert("metadata".into(), json!({ "platform": platform }));
    fields.insert("updated_at".into(), updated_at.into());
    crate::json::dumps(&fields.into())
}

#[cfg(test)]
mod tests;
