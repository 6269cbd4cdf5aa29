//! What becomes of each of Hermes' settings here: one table for everything that tells people about it.
//!
//! `support.txt` has a line for each key of Hermes 0.20.5 and 0.19.0, with Hermes' defaults; [`VARIABLES`] has the
//! environment variables that switch on a platform or a feature.
//!
//! - a key that is [`Support::Honoured`] is read by this program, one that is [`Support::Named`] is not: a test walks the
//!   table and tries each ([`tests`])
//! - what equals a default of Hermes asks for nothing, and is not told of; neither is what belongs to a feature that is
//!   switched off
//! - nothing of Hermes' part of a file is refused as a whole: a [`Support::Refused`] key switches tools off
//!
//! Deliberately absent: files, the environment, and whether Hermes' Python is installed.

use super::keys;
use super::tree::{Node, Notice, Place, Value as Tree};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What this program does with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    Honoured,
    /// What it asks for holds, otherwise than in Hermes.
    Differs,
    /// Hermes' own Python reads it, which runs the tool that it is about.
    Python,
    /// Not honoured, and nothing is missing without it.
    Harmless,
    /// Not honoured, and said so at each start.
    Named,
    /// It cannot be honoured safely: the tools that it is about are off.
    Refused,
}

impl Support {
    /// For a table that people read.
    pub fn words(self) -> &'static str {
        match self {
            Support::Honoured => "honoured",
            Support::Differs => "honoured differently",
            Support::Python => "honoured by Hermes' Python",
            Support::Harmless => "not honoured, harmless",
            Support::Named => "not honoured",
            Support::Refused => "refused",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "honoured" => Support::Honoured,
            "differs" => Support::Differs,
            "python" => Support::Python,
            "harmless" => Support::Harmless,
            "named" => Support::Named,
            "refused" => Support::Refused,
            _ => return None,
        })
    }
}

/// One of Hermes' keys.
#[derive(Debug)]
pub struct Key {
    pub support: Support,
    /// Dotted; `*` stands for any one name.
    pub path: &'static str,
    /// What Hermes takes if nothing is written, in any version that we know.
    pub defaults: Vec<Value>,
    /// What people call the thing that is not carried. Of a refused key: the toolsets that are off.
    pub feature: &'static str,
    /// What happens instead, or why.
    pub why: &'static str,
}

/// A key that a file sets to something else than Hermes' default.
#[derive(Clone, Debug)]
pub struct Set {
    pub key: &'static Key,
    /// As it is written in the file.
    pub path: String,
    pub place: Place,
}

/// An environment variable of Hermes', or several that mean something together.
#[derive(Debug)]
pub struct Variables {
    pub support: Support,
    pub names: &'static [&'static str],
    /// The platform's name in the settings, if it is one.
    pub platform: Option<&'static str>,
    pub feature: &'static str,
}

static TABLE: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let lines = include_str!("support.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(parsed).collect()
});

/// Every key, in the order of the table.
pub fn table() -> &'static [Key] {
    &TABLE
}

fn parsed(line: &'static str) -> Key {
    let columns: Vec<&str> = line.split('\t').collect();
    let [word, path, defaults, rest @ ..] = columns.as_slice() else { panic!("no row: {line}") };
    let support = Support::of(word).unwrap_or_else(|| panic!("no kind of support: {line}"));
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| panic!("no default: {line}"));
    let defaults = match *defaults {
        "-" => Vec::new(),
        defaults => defaults.split(" or ").map(parse).collect(),
    };
    let column = |nth: usize| rest.get(nth).copied().filter(|text| *text != "-").unwrap_or_default();
    Key { support, path, defaults, feature: column(0), why: column(1) }
}

/// The table by names, level by level.
#[derive(Default)]
struct Level {
    key: Option<usize>,
    below: HashMap<&'static str, Level>,
}

static LEVELS: LazyLock<Level> = LazyLock::new(|| {
    let mut root = Level::default();
    for (nth, key) in TABLE.iter().enumerate() {
        let mut level = &mut root;
        for name in key.path.split('.') {
            level = level.below.entry(name).or_default();
        }
        level.key = Some(nth);
    }
    root
});

impl Level {
    fn get(&self, name: &str) -> Option<&Level> {
        self.below.get(name).or_else(|| self.below.get("*"))
    }

    fn key(&self) -> Option<&'static Key> {
        self.key.map(|nth| &TABLE[nth])
    }
}

/// Platforms whose settings may also stand below `platforms`, and there below `extra`.
const BLOCKS: [&str; 5] = ["telegram", "discord", "slack", "webhook", "api_server"];

/// The keys of a file that say something else than Hermes' default.
pub fn set(root: &Node) -> Vec<Set> {
    let mut found = Vec::new();
    walk(root, &LEVELS, "", &mut |seen| {
        if let Seen::Key(set, node) = seen
            && !is_default(set.key, node)
            && !is_off(set.key, root)
        {
            found.push(set);
        }
    });
    found
}

/// Keys that no version of Hermes knows, each with the name that was probably meant.
pub(super) fn unknown(root: &Node) -> Vec<Notice> {
    let mut notices = Vec::new();
    walk(root, &LEVELS, "", &mut |seen| {
        if let Seen::Unknown { path, place } = seen {
            let text = match nearest(&path) {
                Some(name) => format!("`{path}` is not a key of Hermes; did you mean `{name}`?"),
                None => format!("`{path}` is not a key of Hermes, and has no effect"),
            };
            notices.push(Notice { place, text });
        }
    });
    notices
}

enum Seen<'a> {
    Key(Set, &'a Node),
    Unknown { path: String, place: Place },
}

fn walk<'a>(node: &'a Node, level: &Level, path: &str, seen: &mut dyn FnMut(Seen<'a>)) {
    for entry in node.entries() {
        let path = join(path, &entry.key);
        if path == "throughline" {
            continue; // read strictly, elsewhere
        }
        if path == "platforms" || path == "gateway.platforms" {
            for platform in entry.node.entries() {
                let own = LEVELS.get(&platform.key).filter(|_| BLOCKS.contains(&platform.key.as_str()));
                if let Some(own) = own {
                    block(&platform.node, own, &join(&path, &platform.key), seen);
                }
            }
            continue;
        }
        let Some(below) = level.get(&entry.key) else {
            if !is_private(&path, &entry.key, &entry.node) {
                seen(Seen::Unknown { path, place: entry.place });
            }
            continue;
        };
        let is_map = matches!(entry.node.value, Tree::Map(_));
        match below.key() {
            _ if is_map && BLOCKS.contains(&path.as_str()) => block(&entry.node, below, &path, seen),
            _ if is_map && !below.below.is_empty() => walk(&entry.node, below, &path, seen),
            Some(key) => seen(Seen::Key(Set { key, path, place: entry.place }, &entry.node)),
            // A section that is no mapping says nothing.
            None => {}
        }
    }
}

/// A platform's own settings, some of which may stand in `extra`.
fn block<'a>(node: &'a Node, level: &Level, path: &str, seen: &mut dyn FnMut(Seen<'a>)) {
    for entry in node.entries() {
        let path = join(path, &entry.key);
        let is_map = matches!(entry.node.value, Tree::Map(_));
        if entry.key == "extra" && is_map {
            block(&entry.node, level, &path, seen);
            continue;
        }
        let Some(below) = level.get(&entry.key) else {
            seen(Seen::Unknown { path, place: entry.place });
            continue;
        };
        match below.key() {
            _ if is_map && !below.below.is_empty() => walk(&entry.node, below, &path, seen),
            Some(key) => seen(Seen::Key(Set { key, path, place: entry.place }, &entry.node)),
            None => {}
        }
    }
}

/// At the top, `_marks` are internal, and Hermes hands `NAMES: values` on as environment variables.
fn is_private(path: &str, key: &str, node: &Node) -> bool {
    let variable = key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && !matches!(node.value, Tree::List(_) | Tree::Map(_));
    path == key && (key.starts_with('_') || variable)
}

fn is_default(key: &Key, node: &Node) -> bool {
    let written = plain(node);
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match key.defaults.as_slice() {
        [] => is_nothing(&written) || written == Value::Bool(false),
        defaults => defaults.iter().any(|default| {
            same(default, &written) || (is_nothing(&written) && (is_nothing(default) || written.is_null()))
        }),
    }
}

fn same(default: &Value, written: &Value) -> bool {
    match (default, written) {
        (Value::Number(default), Value::Number(written)) => default.as_f64() == written.as_f64(),
        (Value::String(default), Value::String(written)) => default.trim() == written.trim(),
        // `off` without quotes is a boolean to YAML.
        (Value::String(default), Value::Bool(false)) => default == "off",
        (default, written) => default == written,
    }
}

/// Whether the feature is switched off that a key belongs to: then nothing of it is missing.
fn is_off(key: &Key, root: &Node) -> bool {
    let mut path = key.path;
    while let Some((section, name)) = path.rsplit_once('.') {
        let switch = format!("{section}.enabled");
        let known = TABLE.iter().find(|known| known.path == switch);
        let usual =
            known.and_then(|key| key.defaults.first()).is_some_and(|value| *value == Value::Bool(false));
        let written = root.get(&switch).and_then(|node| super::read::as_boolean(&node.value));
        let is_on = written.or(known.map(|_| !usual));
        if is_on == Some(false) && (name != "enabled" || written == Some(false)) {
            return true;
        }
        path = section;
    }
    false
}

fn plain(node: &Node) -> Value {
    match &node.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Integer(value) => Value::from(*value),
        Tree::Number(value) => Value::from(*value),
        Tree::Text(text) => Value::String(text.clone()),
        Tree::List(items) => Value::Array(items.iter().map(plain).collect()),
        Tree::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), plain(&entry.node))).collect(),
    }
}

/// The known key that was probably meant: a neighbour by its letters, or the same name elsewhere.
fn nearest(path: &str) -> Option<String> {
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    let lower = key.to_lowercase().replace('-', "_");
    let limit = (lower.chars().count() / 3).max(1);
    let mut level = Some(&*LEVELS);
    for name in section.split('.').filter(|name| !name.is_empty()) {
        level = level.and_then(|level| level.get(name));
    }
    let neighbours = level.into_iter().flat_map(|level| level.below.keys()).filter(|name| **name != "*");
    let closest = neighbours
        .map(|known| (keys::distance(&lower, known), *known))
        .filter(|(distance, _)| *distance <= limit)
        .min();
    if let Some((_, known)) = closest {
        return Some(join(section, known));
    }
    let elsewhere = TABLE.iter().map(|key| key.path).filter(|path| !path.contains('*'));
    let same_name = elsewhere.filter(|path| path.rsplit('.').next() == Some(lower.as_str()));
    // The shortest path is the one people mean: `agent.max_turns`, not a task's own.
    same_name.min_by_key(|path| (path.matches('.').count(), *path)).map(str::to_owned)
}

fn join(path: &str, key: &str) -> String {
    match path.is_empty() {
        true => key.to_owned(),
        false => format!("{path}.{key}"),
    }
}

const fn platform(
    platform: &'static str,
    feature: &'static str,
    names: &'static [&'static str],
) -> Variables {
    Variables { support: Support::Named, names, platform: Some(platform), feature }
}

const fn named(name: &'static [&'static str], feature: &'static str) -> Variables {
    Variables { support: Support::Named, names: name, platform: None, feature }
}

const fn honoured(names: &'static [&'static str]) -> Variables {
    Variables { support: Support::Honoured, names, platform: None, feature: "" }
}

/// Variables that switch a platform or a feature on, if all of a line are set to anything but "no".
pub const VARIABLES: &[Variables] = &[
    honoured(&["TELEGRAM_BOT_TOKEN"]),
    honoured(&["DISCORD_BOT_TOKEN"]),
    honoured(&["SLACK_BOT_TOKEN"]),
    honoured(&["SLACK_APP_TOKEN"]),
    honoured(&["WEBHOOK_ENABLED"]),
    honoured(&["API_SERVER_KEY"]),
    honoured(&["API_SERVER_HOST"]),
    honoured(&["API_SERVER_PORT"]),
    honoured(&["API_SERVER_CORS_ORIGINS"]),
    honoured(&["GATEWAY_ALLOWED_USERS"]),
    honoured(&["GATEWAY_ALLOW_ALL_USERS"]),
    honoured(&["GATEWAY_MULTIPLEX_PROFILES"]),
    honoured(&["HERMES_GATEWAY_BUSY_INPUT_MODE"]),
    honoured(&["HERMES_GATEWAY_BUSY_ACK_ENABLED"]),
    honoured(&["HERMES_REDACT_SECRETS"]),
    honoured(&["HERMES_RESTART_DRAIN_TIMEOUT"]),
    honoured(&["HERMES_TIMEZONE"]),
    honoured(&["HERMES_YOLO_MODE"]),
    honoured(&["TERMINAL_CWD"]),
    honoured(&["TERMINAL_ENV"]),
    honoured(&["TELEGRAM_PROXY"]),
    honoured(&["TELEGRAM_WEBHOOK_URL"]),
    platform("whatsapp", "WhatsApp", &["WHATSAPP_ENABLED"]),
    platform(
        "whatsapp_cloud",
        "WhatsApp",
        &["WHATSAPP_CLOUD_PHONE_NUMBER_ID", "WHATSAPP_CLOUD_ACCESS_TOKEN"],
    ),
    platform("signal", "Signal", &["SIGNAL_HTTP_URL", "SIGNAL_ACCOUNT"]),
    platform("mattermost", "Mattermost", &["MATTERMOST_TOKEN"]),
    platform("matrix", "Matrix", &["MATRIX_ACCESS_TOKEN"]),
    platform("matrix", "Matrix", &["MATRIX_PASSWORD"]),
    platform("homeassistant", "Home Assistant chats", &["HASS_TOKEN"]),
    platform("email", "email", &["EMAIL_ADDRESS", "EMAIL_PASSWORD", "EMAIL_IMAP_HOST", "EMAIL_SMTP_HOST"]),
    platform("sms", "SMS", &["TWILIO_ACCOUNT_SID"]),
    platform("msgraph_webhook", "msgraph_webhook", &["MSGRAPH_WEBHOOK_ENABLED"]),
    platform("dingtalk", "dingtalk", &["DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET"]),
    platform("feishu", "feishu", &["FEISHU_APP_ID", "FEISHU_APP_SECRET"]),
    platform("wecom", "wecom", &["WECOM_BOT_ID", "WECOM_SECRET"]),
    platform("wecom_callback", "wecom_callback", &["WECOM_CALLBACK_CORP_ID", "WECOM_CALLBACK_CORP_SECRET"]),
    platform("weixin", "weixin", &["WEIXIN_TOKEN"]),
    platform("bluebubbles", "bluebubbles", &["BLUEBUBBLES_SERVER_URL", "BLUEBUBBLES_PASSWORD"]),
    platform("qqbot", "qqbot", &["QQ_APP_ID", "QQ_CLIENT_SECRET"]),
    platform("yuanbao", "yuanbao", &["YUANBAO_APP_ID", "YUANBAO_APP_SECRET"]),
    platform("yuanbao", "yuanbao", &["YUANBAO_APP_KEY", "YUANBAO_APP_SECRET"]),
    platform("google_chat", "google_chat", &["GOOGLE_CHAT_SERVICE_ACCOUNT_JSON"]),
    platform("irc", "irc", &["IRC_SERVER"]),
    platform("line", "line", &["LINE_CHANNEL_ACCESS_TOKEN"]),
    platform("ntfy", "ntfy", &["NTFY_TOPIC"]),
    platform("teams", "teams", &["TEAMS_CLIENT_ID", "TEAMS_CLIENT_SECRET", "TEAMS_TENANT_ID"]),
    platform("photon", "photon", &["PHOTON_PROJECT_ID", "PHOTON_PROJECT_SECRET"]),
    platform("raft", "raft", &["RAFT_PROFILE"]),
    platform("simplex", "simplex", &["SIMPLEX_WS_URL"]),
    platform("relay", "relay", &["GATEWAY_RELAY_URL"]),
    named(&["GATEWAY_PROXY_URL"], "relay"),
    named(&["SESSION_IDLE_MINUTES"], "SESSION_IDLE_MINUTES (write session_reset.idle_minutes)"),
    named(&["SESSION_RESET_HOUR"], "SESSION_RESET_HOUR (write session_reset.at_hour)"),
    named(&["HERMES_EPHEMERAL_SYSTEM_PROMPT"], "agent.system_prompt"),
    named(&["HERMES_PREFILL_MESSAGES_FILE"], "agent.prefill_messages_file"),
    named(&["HERMES_MAX_ITERATIONS"], "HERMES_MAX_ITERATIONS (write agent.max_turns)"),
    named(&["HERMES_MAX_TOKENS"], "HERMES_MAX_TOKENS (write model.max_tokens)"),
    named(&["HERMES_TOOL_PROGRESS_MODE"], "HERMES_TOOL_PROGRESS_MODE (write display.tool_progress)"),
    named(&["HERMES_BACKGROUND_NOTIFICATIONS"], "display.background_process_notifications"),
    named(&["API_SERVER_MODEL_NAME"], "API_SERVER_MODEL_NAME"),
    named(&["TELEGRAM_FALLBACK_IPS"], "TELEGRAM_FALLBACK_IPS"),
];

/// Whether all variables of a line are set to something that means yes.
pub fn is_given(variables: &Variables, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let says_no =
        |value: &str| matches!(value.trim().to_lowercase().as_str(), "" | "0" | "false" | "no" | "off");
    variables.names.iter().all(|name| variable(name).is_some_and(|value| !says_no(&value)))
}

#[cfg(test)]
mod tests;
