//! What becomes of each of Hermes' settings here: one table for everything that tells people about it.
//!
//! `support.txt` has a line for each key of Hermes 0.20.5 and 0.19.0, with Hermes' defaults; [`VARIABLES`] has the
//! environment variables that switch on a platform or a feature.
//!
//! - a key that is [`Support::Honoured`] is read by this program, one that is [`Support::Named`] is not: a test walks the
//!   table and tries each (`tests`)
//! - what equals a default of Hermes asks for nothing, and is not told of; neither is what belongs to a feature that is
//!   switched off
//! - nothing of Hermes' part of a file is refused as a whole: a [`Support::Refused`] key switches tools off
//!
//! Deliberately absent: files, the environment, and whether Hermes' Python is installed.

use super::keys;
use super::tree::{Node, Notice, Place, Value as Tree, YamlEntry};
use serde_json::Value;
use std::collections::BTreeMap;
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
    /// Dotted; `*` stands for any one name, `<platform>` for each of Hermes' platforms, `[]` for each item of a list.
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

/// Platforms that Hermes has, by their names in the settings. `<platform>` in the table stands for each of them.
const PLATFORMS: [&str; 35] = [
    "api_server",
    "bluebubbles",
    "cli",
    "cron",
    "dingtalk",
    "discord",
    "email",
    "feishu",
    "google_chat",
    "homeassistant",
    "irc",
    "line",
    "local",
    "matrix",
    "mattermost",
    "msgraph_webhook",
    "ntfy",
    "photon",
    "qqbot",
    "raft",
    "relay",
    "signal",
    "simplex",
    "slack",
    "sms",
    "teams",
    "telegram",
    "tui",
    "webhook",
    "wecom",
    "wecom_callback",
    "weixin",
    "whatsapp",
    "whatsapp_cloud",
    "yuanbao",
];

/// In the table: any name of the user's choice, one of [`PLATFORMS`], each item of a list.
const ANY: &str = "*";
const PLATFORM: &str = "<platform>";
const ITEM: &str = "[]";

/// The table by names, level by level.
#[derive(Default)]
struct KeyLevel {
    key: Option<usize>,
    below: BTreeMap<&'static str, KeyLevel>,
}

static LEVELS: LazyLock<KeyLevel> = LazyLock::new(|| {
    let mut root = KeyLevel::default();
    // A row for one platform counts there before the row for all of them.
    for is_for_all in [false, true] {
        for (nth, key) in TABLE.iter().enumerate() {
            let names: Vec<&'static str> = key.path.split('.').collect();
            if names.contains(&PLATFORM) == is_for_all {
                root.insert(&names, nth);
            }
        }
    }
    root
});

impl KeyLevel {
    fn insert(&mut self, names: &[&'static str], nth: usize) {
        match names {
            [] => self.key = self.key.or(Some(nth)),
            [PLATFORM, rest @ ..] => {
                PLATFORMS.iter().for_each(|name| self.below.entry(name).or_default().insert(rest, nth));
            }
            [name, rest @ ..] => self.below.entry(name).or_default().insert(rest, nth),
        }
    }

    /// What is known of a name that is written here.
    fn get(&self, name: &str, node: &Node) -> Option<&KeyLevel> {
        // What stands below a name of the user's choice is a mapping: a plain value is a key that was mistyped.
        let is_plain = !matches!(node.value, Tree::Map(_) | Tree::Null);
        let any = || self.below.get(ANY).filter(|any| !is_plain || !any.below.is_empty());
        self.below.get(name).or_else(any)
    }

    fn key(&self) -> Option<&'static Key> {
        self.key.map(|nth| &TABLE[nth])
    }

    /// The row of exactly this path.
    fn row(&self, path: &str) -> Option<&'static Key> {
        let mut level = self;
        for name in path.split('.') {
            level = level.below.get(name)?;
        }
        level.key()
    }

    fn items(&self) -> Option<&KeyLevel> {
        self.below.get(ITEM)
    }

    /// Whether keys are known that may stand here.
    fn is_section(&self) -> bool {
        self.below.keys().any(|name| *name != ITEM)
    }
}

/// Platforms whose settings may also stand below `platforms`, and there below `extra`.
const BLOCKS: [&str; 5] = ["telegram", "discord", "slack", "webhook", "api_server"];

/// Settings of the API that count below `platforms.api_server.extra` and nowhere else, in Hermes as here.
const ONLY_IN_EXTRA: [&str; 6] = ["host", "port", "key", "cors_origins", "model_name", "model_routes"];

/// The keys of a file that say something else than Hermes' default.
pub fn set(root: &Node) -> Vec<Set> {
    let mut found = Vec::new();
    walk(root, &LEVELS, "", &mut |seen| {
        if let SeenKeys::Key(set, node) = seen
            && !is_default(set.key, node)
            && !is_off(set.key, root)
        {
            found.push(set);
        }
    });
    found
}

/// Keys that no version of Hermes knows, each with the name that was probably meant, and values that stand where keys
/// are expected.
pub(super) fn unknown(root: &Node) -> Vec<Notice> {
    let mut notices = Vec::new();
    walk(root, &LEVELS, "", &mut |seen| {
        let (place, text) = match seen {
            SeenKeys::Key(..) => return,
            SeenKeys::Unknown { ref path, .. } if is_of_the_provider(root, path) => return,
            SeenKeys::Unknown { path, place, meant: Some(name) } => {
                (place, format!("`{path}` is not a key of Hermes; did you mean `{name}`?"))
            }
            SeenKeys::Unknown { path, place, meant: None } => {
                (place, format!("`{path}` is not a known key of Hermes, and has no effect"))
            }
            SeenKeys::Unfit { path, place, expected, kind } => {
                (place, format!("`{path}` takes {expected}, and this is {kind}: it has no effect"))
            }
            SeenKeys::Misplaced { path, place, right } => {
                (place, format!("`{path}` has no effect there; write it as `{right}`"))
            }
        };
        notices.push(Notice { place, text });
    });
    notices
}

enum SeenKeys<'a> {
    Key(Set, &'a Node),
    Unknown {
        path: String,
        place: Place,
        meant: Option<String>,
    },
    /// Something else than keys, or than a list, where those are expected.
    Unfit {
        path: String,
        place: Place,
        expected: &'static str,
        kind: &'static str,
    },
    /// A known key in a place where no program looks for it.
    Misplaced {
        path: String,
        place: Place,
        right: String,
    },
}

type See<'s, 'a> = &'s mut dyn FnMut(SeenKeys<'a>);

fn walk<'a>(node: &'a Node, level: &KeyLevel, path: &str, seen: See<'_, 'a>) {
    for entry in node.entries() {
        let here = join(path, &entry.key);
        match here.as_str() {
            "throughline" => continue, // read strictly, elsewhere
            "platforms" | "gateway.platforms" if matches!(entry.node.value, Tree::Map(_)) => {
                platforms(&entry.node, &here, seen);
                continue;
            }
            _ => {}
        }
        let Some(below) = level.get(&entry.key, &entry.node) else {
            if !is_private(&here, &entry.key, &entry.node) {
                seen(unknown_in(level, path, entry));
            }
            continue;
        };
        match matches!(entry.node.value, Tree::Map(_)) && BLOCKS.contains(&here.as_str()) {
            true => block(&entry.node, below, &here, seen),
            false => visit(&entry.node, below, here, entry.place, seen),
        }
    }
}

/// What is written for one key, of which something is known.
fn visit<'a>(node: &'a Node, level: &KeyLevel, path: String, place: Place, seen: See<'_, 'a>) {
    let is_plain = match (&node.value, level.items()) {
        (Tree::Map(_), _) if level.is_section() => return walk(node, level, &path, seen),
        (Tree::List(items), Some(level)) => {
            for (nth, item) in items.iter().enumerate() {
                visit(item, level, format!("{path}[{nth}]"), item.place, seen);
            }
            return;
        }
        _ if level.below.is_empty() => true,
        // As good as not written.
        (Tree::Null, _) => return,
        (Tree::Text(text), _) if text.trim().is_empty() => return,
        // `model: name`: what has a plain default takes a plain value, too.
        _ => level
            .key()
            .is_some_and(|key| key.defaults.iter().any(|value| !value.is_object() && !value.is_array())),
    };
    match level.key().filter(|_| is_plain) {
        Some(key) => seen(SeenKeys::Key(Set { key, path, place }, node)),
        None => {
            let expected = if level.is_section() { "a mapping of settings" } else { "a list" };
            seen(SeenKeys::Unfit { path, place, expected, kind: node.value.kind() });
        }
    }
}

/// `platforms:`, where a platform's settings may stand, too.
fn platforms<'a>(node: &'a Node, path: &str, seen: See<'_, 'a>) {
    for entry in node.entries() {
        let name = entry.key.as_str();
        let here = join(path, name);
        match (&entry.node.value, LEVELS.below.get(name)) {
            _ if !PLATFORMS.contains(&name) => {
                let meant = closest(name, PLATFORMS.into_iter()).map(|known| join(path, known));
                seen(SeenKeys::Unknown { path: here, place: entry.place, meant });
            }
            (Tree::Map(_), Some(level)) if BLOCKS.contains(&name) => block(&entry.node, level, &here, seen),
            // One without an adapter here: it is named as such.
            (Tree::Map(_) | Tree::Null, _) => {}
            (other, _) => {
                let (expected, kind) = ("a mapping of settings", other.kind());
                seen(SeenKeys::Unfit { path: here, place: entry.place, expected, kind });
            }
        }
    }
}

/// A platform's own settings, some of which may stand in `extra`.
fn block<'a>(node: &'a Node, level: &KeyLevel, path: &str, seen: See<'_, 'a>) {
    for entry in node.entries() {
        let here = join(path, &entry.key);
        if entry.key == "extra" && matches!(entry.node.value, Tree::Map(_)) {
            block(&entry.node, level, &here, seen);
            continue;
        }
        if path.ends_with("api_server") && ONLY_IN_EXTRA.contains(&entry.key.as_str()) {
            let right = format!("platforms.api_server.extra.{}", entry.key);
            seen(SeenKeys::Misplaced { path: here, place: entry.place, right });
            continue;
        }
        match level.get(&entry.key, &entry.node) {
            Some(below) => visit(&entry.node, below, here, entry.place, seen),
            None => seen(unknown_in(level, path, entry)),
        }
    }
}

fn unknown_in<'a>(level: &KeyLevel, section: &str, entry: &YamlEntry) -> SeenKeys<'a> {
    let meant = nearest(level, section, &entry.key);
    SeenKeys::Unknown { path: join(section, &entry.key), place: entry.place, meant }
}

/// `memory.<name>: {…}` of the memory provider that the file chooses, which may be a plugin that only its user knows.
fn is_of_the_provider(root: &Node, path: &str) -> bool {
    let is_map = root.get(path).is_some_and(|node| matches!(node.value, Tree::Map(_)));
    let provider = root.get("memory.provider").and_then(|node| super::read::as_text(&node.value));
    let provider = provider.as_deref().map(|name| name.strip_prefix("hermes:").unwrap_or(name));
    is_map && path.strip_prefix("memory.").is_some_and(|name| Some(name) == provider)
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
        let known = LEVELS.row(&switch);
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
fn nearest(level: &KeyLevel, section: &str, key: &str) -> Option<String> {
    let names = level.below.keys().copied().filter(|name| ![ANY, ITEM].contains(name));
    if let Some(known) = closest(key, names) {
        return Some(join(section, known));
    }
    let lower = key.to_lowercase().replace('-', "_");
    let elsewhere = TABLE.iter().map(|key| key.path).filter(|path| !path.contains(['*', '<', '[']));
    let same_name = elsewhere.filter(|path| path.rsplit('.').next() == Some(lower.as_str()));
    // The shortest path is the one people mean: `agent.max_turns`, not a task's own.
    same_name.min_by_key(|path| (path.matches('.').count(), *path)).map(str::to_owned)
}

/// The name that differs least, if it does not differ by much.
fn closest(key: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let lower = key.to_lowercase().replace('-', "_");
    let limit = (lower.chars().count() / 3).max(1);
    let names = names.map(|known| (keys::distance(&lower, known), known));
    names.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
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
