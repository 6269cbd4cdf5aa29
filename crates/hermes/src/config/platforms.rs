//! What the settings say about chat platforms, put together as Hermes 0.19 does it.
//!
//! A platform is described in up to five places: `gateway.json` (an old base layer), `gateway.platforms`,
//! `platforms`, a block of its own at the top (`telegram:`), and variables, of `.env` or the
//! environment. The later of the first three wins, key by key. Of the block, the keys that Hermes
//! carries over (`BRIDGED`) win over those; for the others a variable comes first, then the block.
//!
//! - a token in a variable switches its platform on, unless `enabled: false` is written
//! - what Hermes would fall back on is filled in: these are settings, not what was written
//! - keys that are unknown here stay in [`Platform::extra`], for the adapter that knows them
//! - a value that cannot be read is a [`Notice`], and closes rather than opens
//!
//! Deliberately absent: files, networks, and whether a token is any good.

use super::tree::{Node, Notice, Place, Value as Tree};
use crate::access::{AccessPolicy, Bots, NAMED, Orders, Strangers, UserRank};
use serde_json::{Map, Value};
use std::time::Duration;
use throughline_core::redact::Secret;

/// Keys of a platform's own block that are settings of the platform, wherever they stand.
const BRIDGED: [&str; 24] = [
    "unauthorized_dm_behavior",
    "notice_delivery",
    "reply_prefix",
    "reply_in_thread",
    "cron_continuable_surface",
    "require_mention",
    "allowed_chats",
    "group_allowed_chats",
    "allowed_topics",
    "free_response_channels",
    "mention_patterns",
    "exclusive_bot_mentions",
    "observe_unmentioned_group_messages",
    "dm_policy",
    "allow_from",
    "allow_admin_from",
    "user_allowed_commands",
    "group_policy",
    "group_allow_from",
    "group_allow_admin_from",
    "group_user_allowed_commands",
    "channel_skill_bindings",
    "channel_prompts",
    "gateway_restart_notification",
];
/// The same, and they stand beside `extra` rather than in it.
const BRIDGED_ASIDE: [&str; 2] = ["typing_indicator", "typing_status_text"];

/// Platforms that a token alone can switch on.
const BY_TOKEN: [(&str, &str); 3] =
    [("telegram", "TELEGRAM_BOT_TOKEN"), ("discord", "DISCORD_BOT_TOKEN"), ("slack", "SLACK_BOT_TOKEN")];

/// The default of `gateway.max_inbound_media_bytes`.
const MEDIA_BYTES_MAX: u64 = 128 << 20;

/// Everything about chat platforms.
#[derive(Clone, Debug, PartialEq)]
pub struct Platforms {
    /// Those that are mentioned anywhere, by name. See [`Platform::enabled`].
    pub all: Vec<Platform>,
    pub group_sessions_per_user: bool,
    pub thread_sessions_per_user: bool,
    /// What a person may send, in bytes. None: as much as there is.
    pub media_bytes_max: Option<u64>,
}

/// One platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    pub name: String,
    pub enabled: bool,
    pub token: Option<Secret>,
    pub home: Option<HomeChannelSetting>,
    pub reply_to_mode: ReplyMode,
    /// Whether people are told that the gateway is back.
    pub restart_notification: bool,
    pub access: AccessPolicy,
    pub mentions: Mentions,
    /// `channel_prompts`: by the id of a channel, or of the channel around a thread.
    pub prompts: Vec<(String, String)>,
    /// `channel_skill_bindings`, the same way.
    pub skills: Vec<(String, Vec<String>)>,
    pub display: Display,
    /// All other keys: for the adapter.
    pub extra: Map<String, Value>,
}

/// Where an agent writes by itself. What people call the place is not kept: no answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChannelSetting {
    pub chat: String,
    pub thread: Option<String>,
}

/// Which pieces of a reply point at the message they answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    Off,
    #[default]
    First,
    All,
}

/// When a message among others is for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// `require_mention`
    pub required: bool,
    /// `thread_require_mention`: also in threads in which the agent takes part.
    pub required_in_threads: bool,
    /// `strict_mention`: an answer to the agent, or a thread it takes part in, does not count.
    pub strict: bool,
    /// `free_response_channels`, `free_response_chats`: not in these. `*` is everywhere.
    pub free: Vec<String>,
    /// `free_response_topics`: `<chat>:<thread>`.
    pub free_topics: Vec<String>,
    /// `mention_patterns`: regular expressions that count as the agent's name, in any case.
    pub patterns: Vec<String>,
    /// `allowed_channels`, `allowed_chats`: nowhere else. Empty: everywhere.
    pub allowed: Vec<String>,
    /// `ignored_channels`
    pub ignored: Vec<String>,
    /// `allowed_topics`: nowhere else among the threads of a group. `1` is what is said in none.
    pub allowed_topics: Vec<String>,
    /// `ignored_threads`
    pub ignored_threads: Vec<String>,
    /// `guest_mode`: where the agent is named it answers outside `allowed`, too.
    pub guests: bool,
}

/// What people see of a turn while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Display {
    pub typing: bool,
    pub typing_text: Option<String>,
    pub tool_progress: ToolProgress,
    /// A message per tool rather than one that grows.
    pub progress_apart: bool,
    /// Characters of a call's argument that are shown. 0: 40, or all where everything is wanted.
    pub preview_chars: usize,
    /// What the model says between its calls.
    pub interim: bool,
    /// A word to a person who writes while a turn runs.
    pub busy_ack: bool,
    /// And in it what the turn is at.
    pub busy_ack_detail: bool,
    /// Lines about tools go when the reply is there.
    pub cleanup_progress: bool,
    /// Small signs on the messages of people.
    pub reactions: bool,
    /// None: replies come when they are done.
    pub streaming: Option<Streaming>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolProgress {
    Off,
    /// A line whenever another tool is called than before.
    New,
    #[default]
    All,
    Verbose,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Streaming {
    pub edit_interval: Duration,
    /// So many new characters are worth an edit before the interval is over.
    pub buffer_chars: usize,
    /// Stands behind what has been said so far.
    pub cursor: String,
}

impl Platforms {
    /// `legacy` is the text of `gateway.json`; `variable` looks a name up in `.env` and the environment.
    pub fn read(
        root: &Node,
        legacy: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> (Platforms, Vec<Notice>) {
        let mut notices = Vec::new();
        let base = legacy.map_or(Map::new(), |text| match serde_json::from_str(text) {
            Ok(Value::Object(base)) => base,
            _ => {
                notices.push(notice(root.place, "gateway.json is no JSON object, and has no effect"));
                Map::new()
            }
        });
        let tree = object(&plain(root));
        let reading = PlatformReading { base: &base, tree: &tree, variable };
        let all =
            reading.names().into_iter().map(|name| reading.platform(name, root, &mut notices)).collect();
        let flag = |key: &str, default: bool| reading.shared(key).as_ref().and_then(truth).unwrap_or(default);
        let media = reading.gateway("max_inbound_media_bytes").and_then(|value| value.as_i64());
        let platforms = Platforms {
            all,
            group_sessions_per_user: flag("group_sessions_per_user", true),
            thread_sessions_per_user: flag("thread_sessions_per_user", false),
            media_bytes_max: match media {
                None => Some(MEDIA_BYTES_MAX),
                Some(bytes) => u64::try_from(bytes).ok().filter(|bytes| *bytes > 0),
            },
        };
        (platforms, notices)
    }

    pub fn get(&self, name: &str) -> Option<&Platform> {
        self.all.iter().find(|platform| platform.name == name)
    }
}

impl Platform {
    /// What a channel adds to the prompt of its sessions. A thread has that of the channel around it.
    pub fn prompt(&self, channel: &str, parent: Option<&str>) -> Option<&str> {
        let find = |id: &str| self.prompts.iter().find(|(known, _)| known == id);
        find(channel).or_else(|| parent.and_then(find)).map(|(_, prompt)| prompt.as_str())
    }

    pub fn skills(&self, channel: &str, parent: Option<&str>) -> Vec<String> {
        let find = |id: &str| self.skills.iter().find(|(known, _)| known == id);
        find(channel).or_else(|| parent.and_then(find)).map(|(_, skills)| skills.clone()).unwrap_or_default()
    }
}

struct PlatformReading<'a> {
    base: &'a Map<String, Value>,
    tree: &'a Map<String, Value>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl PlatformReading<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn gateway(&self, key: &str) -> Option<Value> {
        self.tree.get("gateway")?.get(key).cloned()
    }

    /// At the top, else below `gateway`, else in the old file.
    fn shared(&self, key: &str) -> Option<Value> {
        let top = self.tree.get(key).cloned();
        top.or_else(|| self.gateway(key)).or_else(|| self.base.get(key).cloned())
    }

    /// Every platform that the settings mention.
    fn names(&self) -> Vec<String> {
        let maps = [
            self.base.get("platforms").cloned(),
            self.gateway("platforms"),
            self.tree.get("platforms").cloned(),
        ];
        let mut names: Vec<String> = Vec::new();
        let mut mention = |name: &str| {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        };
        for map in maps.iter().flatten().filter_map(Value::as_object) {
            map.keys().for_each(|name| mention(name));
        }
        for (name, token) in BY_TOKEN {
            if self.tree.get(name).is_some_and(Value::is_object) || self.variable(token).is_some() {
                mention(name);
            }
        }
        if self.tree.get("webhook").is_some_and(Value::is_object) || self.is_on("WEBHOOK_ENABLED") {
            mention("webhook");
        }
        names
    }

    fn is_on(&self, name: &str) -> bool {
        self.variable(name)
            .is_some_and(|value| matches!(value.to_lowercase().as_str(), "true" | "1" | "yes" | "on"))
    }

    fn platform(&self, name: String, root: &Node, notices: &mut Vec<Notice>) -> Platform {
        let layers = [
            self.base.get("platforms").and_then(|map| map.get(&name)).cloned(),
            self.gateway("platforms").and_then(|map| map.get(&name).cloned()),
            self.tree.get("platforms").and_then(|map| map.get(&name)).cloned(),
        ];
        let mut merged = Map::new();
        let mut extra = Map::new();
        let mut is_explicit = false;
        for (place, layer) in layers.iter().enumerate() {
            let Some(Value::Object(layer)) = layer else { continue };
            is_explicit |= place > 0 && layer.contains_key("enabled");
            extra.extend(layer.get("extra").and_then(Value::as_object).cloned().unwrap_or_default());
            merged.extend(layer.clone());
        }
        let own = self.tree.get(&name).and_then(Value::as_object);
        let nested = || layers[1..].iter().flatten().find_map(Value::as_object);
        let block = own.or_else(nested).cloned().unwrap_or_default();
        for key in BRIDGED {
            if let Some(value) = block.get(key) {
                extra.insert(key.to_owned(), value.clone());
            }
        }
        for key in BRIDGED_ASIDE {
            if let Some(value) = block.get(key) {
                merged.entry(key).or_insert_with(|| value.clone());
            }
        }
        if let (Some(own), true) = (own, own.is_some_and(|own| own.contains_key("enabled"))) {
            merged.insert("enabled".to_owned(), own["enabled"].clone());
            is_explicit = true;
        }
        let prefix = name.to_uppercase();
        PlatformSections { reading: self, root, name, prefix, merged, extra, block, is_explicit }
            .read(notices)
    }
}

/// One platform, its places put together.
struct PlatformSections<'a> {
    reading: &'a PlatformReading<'a>,
    root: &'a Node,
    name: String,
    prefix: String,
    merged: Map<String, Value>,
    extra: Map<String, Value>,
    block: Map<String, Value>,
    is_explicit: bool,
}

impl PlatformSections<'_> {
    fn read(self, notices: &mut Vec<Notice>) -> Platform {
        let by_token = BY_TOKEN.iter().find(|(name, _)| *name == self.name);
        let token = by_token.and_then(|(_, variable)| self.reading.variable(variable));
        let written = ["token", "api_key"].iter().find_map(|key| text(self.merged.get(*key)?));
        let enabled = self.merged.get("enabled").and_then(truth).unwrap_or(false);
        let switched_on = (token.is_some() && !self.is_explicit)
            || (self.name == "webhook" && self.reading.is_on("WEBHOOK_ENABLED"));
        // Adapters ask variables first, then this; Hermes has most of their keys in the block.
        let mut extra = self.extra.clone();
        for (key, value) in self.block.iter().filter(|(key, _)| *key != "extra") {
            extra.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Platform {
            enabled: enabled || switched_on,
            token: token.or(written).map(Secret::new),
            home: self.home(),
            reply_to_mode: self.reply_mode(notices),
            restart_notification: self.flag("gateway_restart_notification", true),
            access: self.access(),
            mentions: self.mentions(notices),
            prompts: self.prompts(),
            skills: self.skills(),
            display: self.display(),
            name: self.name,
            extra,
        }
    }

    /// A variable of this platform.
    fn own(&self, name: &str) -> Option<String> {
        self.reading.variable(&format!("{}_{name}", self.prefix))
    }

    /// What the platform's settings say, else its variable, else its own block.
    fn value(&self, key: &str, name: &str) -> Option<Value> {
        let set = self.extra.get(key).filter(|value| !value.is_null()).cloned();
        set.or_else(|| self.own(name).map(Value::String)).or_else(|| self.block.get(key).cloned())
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        let written = self.merged.get(key).or_else(|| self.extra.get(key)).or_else(|| self.block.get(key));
        written.and_then(truth).unwrap_or(default)
    }

    fn flagged(&self, key: &str, name: &str, default: bool) -> bool {
        self.value(key, name).as_ref().and_then(truth).unwrap_or(default)
    }

    fn list(&self, key: &str, name: &str) -> Vec<String> {
        self.value(key, name).map(|value| listed(&value)).unwrap_or_default()
    }

    /// Who may is said by variables first.
    fn people(&self, name: &str, key: &str) -> Vec<String> {
        let said = self.own(name).map(Value::String);
        let said = said.or_else(|| self.block.get(key).cloned()).or_else(|| self.extra.get(key).cloned());
        said.map(|value| listed(&value)).unwrap_or_default()
    }

    fn home(&self) -> Option<HomeChannelSetting> {
        if let Some(chat) = self.own("HOME_CHANNEL") {
            return Some(HomeChannelSetting { chat, thread: self.own("HOME_CHANNEL_THREAD_ID") });
        }
        let written = self.merged.get("home_channel")?;
        let chat = text(written.get("chat_id")?)?;
        Some(HomeChannelSetting { chat, thread: written.get("thread_id").and_then(text) })
    }

    fn reply_mode(&self, notices: &mut Vec<Notice>) -> ReplyMode {
        let written =
            [&self.merged, &self.block, &self.extra].iter().find_map(|map| map.get("reply_to_mode").cloned());
        let said = self.own("REPLY_TO_MODE").map(Value::String).or(written);
        // YAML reads a bare `off` as no.
        match said.as_ref().map(|value| if *value == Value::Bool(false) { "off".into() } else { word(value) })
        {
            None => ReplyMode::First,
            Some(mode) => match mode.as_str() {
                "off" => ReplyMode::Off,
                "first" => ReplyMode::First,
                "all" => ReplyMode::All,
                other => {
                    let text =
                        format!("`{}` has no reply_to_mode {other:?}; it is off, first or all", self.name);
                    notices.push(notice(self.place("reply_to_mode"), &text));
                    ReplyMode::First
                }
            },
        }
    }

    fn access(&self) -> AccessPolicy {
        let is_true = |value: Option<String>| {
            value.is_some_and(|value| matches!(value.to_lowercase().as_str(), "true" | "1" | "yes"))
        };
        let gateway_users = self.reading.variable("GATEWAY_ALLOWED_USERS").map(Value::String);
        let has_groups = self.name == "telegram";
        let bots = self.own("ALLOW_BOTS").or_else(|| self.block.get("allow_bots").map(word));
        let bots = bots.or_else(|| self.extra.get("allow_bots").map(word)).map(|bots| bots.to_lowercase());
        let mut policy = AccessPolicy {
            signed: matches!(self.name.as_str(), "webhook" | "homeassistant"),
            open: is_true(self.own("ALLOW_ALL_USERS")),
            gateway_open: is_true(self.reading.variable("GATEWAY_ALLOW_ALL_USERS")),
            users: self.people("ALLOWED_USERS", "allow_from"),
            gateway_users: gateway_users.map(|value| listed(&value)).unwrap_or_default(),
            group_users: match has_groups {
                true => self.people("GROUP_ALLOWED_USERS", "group_allow_from"),
                false => Vec::new(),
            },
            group_chats: match has_groups {
                true => self.people("GROUP_ALLOWED_CHATS", "group_allowed_chats"),
                false => Vec::new(),
            },
            roles: self.people("ALLOWED_ROLES", "allowed_roles"),
            bots: match bots.as_deref() {
                Some("mentions") => Bots::Mentions,
                Some("all") => Bots::All,
                _ => Bots::None,
            },
            strangers: Strangers::default(),
            orders: Orders {
                direct: self.rank("allow_admin_from", "user_allowed_commands"),
                group: self.rank("group_allow_admin_from", "group_user_allowed_commands"),
            },
        };
        if self.name == "discord" {
            // Hermes asks who has this name when it connects. Names that people show are not taken: anyone can
            // show any.
            let is_name = |user: &&String| *user != "*" && !user.chars().all(|c| c.is_ascii_digit());
            let names = policy.users.iter().filter(is_name);
            let names = names.map(|name| format!("{NAMED}{}", name.trim_start_matches(NAMED).to_lowercase()));
            policy.roles.extend(names.collect::<Vec<_>>());
        }
        if policy.orders.direct.commands.is_empty() {
            policy.orders.direct.commands.clone_from(&policy.orders.group.commands);
        }
        policy.strangers = self.strangers(&policy);
        policy
    }

    fn strangers(&self, policy: &AccessPolicy) -> Strangers {
        let said = |value: &Value| match word(value).as_str() {
            "ignore" => Some(Strangers::Ignore),
            "pair" => Some(Strangers::Pair),
            _ => None,
        };
        let everywhere = self.reading.shared("unauthorized_dm_behavior").as_ref().and_then(said);
        if let Some(written) = self.extra.get("unauthorized_dm_behavior") {
            return said(written).or(everywhere).unwrap_or_default();
        }
        let dm_policy = self.extra.get("dm_policy").map(word).unwrap_or_default();
        match (everywhere, dm_policy.as_str()) {
            (Some(Strangers::Ignore), _) => Strangers::Ignore,
            (_, "pairing") => Strangers::Pair,
            (_, "allowlist" | "disabled") => Strangers::Ignore,
            // Where people are listed, no one else is greeted.
            _ if policy.has_list() => Strangers::Ignore,
            _ => Strangers::Pair,
        }
    }

    fn rank(&self, admins: &str, commands: &str) -> UserRank {
        let list = |key: &str| self.extra.get(key).map(listed).unwrap_or_default();
        let commands = list(commands).into_iter();
        UserRank {
            admins: list(admins),
            commands: commands.map(|name| name.trim_start_matches('/').to_lowercase()).collect(),
        }
    }

    fn mentions(&self, notices: &mut Vec<Notice>) -> Mentions {
        let telegram = self.name == "telegram";
        let top = self.reading.tree.get("require_mention").filter(|_| telegram).and_then(truth);
        // Hermes asks for a mention everywhere but on Telegram. What cannot be read asks for one, too.
        let required = match self.value("require_mention", "REQUIRE_MENTION") {
            Some(value) => truth(&value).unwrap_or(true),
            None => top.unwrap_or(!telegram),
        };
        let free = match telegram {
            true => self.list("free_response_chats", "FREE_RESPONSE_CHATS"),
            false => self.list("free_response_channels", "FREE_RESPONSE_CHANNELS"),
        };
        let allowed = match telegram {
            true => self.list("allowed_chats", "ALLOWED_CHATS"),
            false => self.list("allowed_channels", "ALLOWED_CHANNELS"),
        };
        Mentions {
            required,
            required_in_threads: self.flagged("thread_require_mention", "THREAD_REQUIRE_MENTION", false),
            strict: self.flagged("strict_mention", "STRICT_MENTION", false),
            free,
            free_topics: self.list("free_response_topics", "FREE_RESPONSE_TOPICS"),
            patterns: self.patterns(notices),
            allowed,
            ignored: self.list("ignored_channels", "IGNORED_CHANNELS"),
            allowed_topics: self.list("allowed_topics", "ALLOWED_TOPICS"),
            ignored_threads: self.list("ignored_threads", "IGNORED_THREADS"),
            guests: self.flagged("guest_mode", "GUEST_MODE", false),
        }
    }

    /// A list, one text, or either of them as JSON in a variable.
    fn patterns(&self, notices: &mut Vec<Notice>) -> Vec<String> {
        let written = self.value("mention_patterns", "MENTION_PATTERNS");
        let parsed = |text: &str| match serde_json::from_str(text) {
            Ok(value @ (Value::Array(_) | Value::String(_))) => value,
            _ => Value::Array(
                text.split(['\n', ',']).map(|part| Value::String(part.trim().to_owned())).collect(),
            ),
        };
        let value = match (self.extra.contains_key("mention_patterns"), written) {
            (_, None) => return Vec::new(),
            (false, Some(Value::String(text))) => parsed(&text),
            (_, Some(value)) => value,
        };
        match &value {
            Value::String(pattern) => vec![pattern.clone()],
            Value::Array(patterns) => {
                patterns.iter().filter_map(text).filter(|pattern| !pattern.is_empty()).collect()
            }
            _ => {
                let text =
                    format!("mention_patterns of `{}` are a list of texts; they have no effect", self.name);
                notices.push(notice(self.place("mention_patterns"), &text));
                Vec::new()
            }
        }
    }

    fn prompts(&self) -> Vec<(String, String)> {
        let prompts = self.extra.get("channel_prompts").and_then(Value::as_object);
        let prompts = prompts.into_iter().flatten().filter_map(|(channel, prompt)| {
            let prompt = text(prompt)?.trim().to_owned();
            (!prompt.is_empty()).then(|| (channel.clone(), prompt))
        });
        prompts.collect()
    }

    fn skills(&self) -> Vec<(String, Vec<String>)> {
        let bindings = self.extra.get("channel_skill_bindings").and_then(Value::as_array);
        let bindings = bindings.into_iter().flatten().filter_map(|binding| {
            let mut skills = Vec::new();
            for name in binding.get("skills").or_else(|| binding.get("skill")).map(listed)? {
                if !skills.contains(&name) {
                    skills.push(name);
                }
            }
            Some((text(binding.get("id")?)?, skills)).filter(|(_, skills)| !skills.is_empty())
        });
        bindings.collect()
    }

    fn display(&self) -> Display {
        let quiet = matches!(self.name.as_str(), "webhook" | "homeassistant" | "email" | "sms");
        let progress = match self.shown("tool_progress") {
            Some(value) => tool_progress(&value),
            None if quiet || matches!(self.name.as_str(), "telegram" | "slack") => ToolProgress::Off,
            None => ToolProgress::All,
        };
        let shown = |key: &str, default: bool| self.shown(key).as_ref().and_then(truth).unwrap_or(default);
        let preview = self.shown("tool_preview_length").and_then(|value| value.as_u64()).unwrap_or(40);
        let reactions = self.value("reactions", "REACTIONS");
        let off = |value: &Value| matches!(word(value).as_str(), "false" | "0" | "no");
        let acknowledged = self.reading.variable("HERMES_GATEWAY_BUSY_ACK_ENABLED").map(Value::String);
        let acknowledged = self.display_setting("busy_ack_enabled").or(acknowledged);
        Display {
            typing: self.flag("typing_indicator", true),
            typing_text: self
                .merged
                .get("typing_status_text")
                .or_else(|| self.extra.get("typing_status_text"))
                .and_then(text),
            tool_progress: progress,
            progress_apart: self
                .shown("tool_progress_grouping")
                .is_some_and(|value| word(&value) == "separate"),
            preview_chars: usize::try_from(preview).unwrap_or(40),
            interim: shown("interim_assistant_messages", !quiet),
            busy_ack: acknowledged.as_ref().and_then(truth).unwrap_or(!quiet),
            busy_ack_detail: shown("busy_ack_detail", !quiet && self.name != "telegram"),
            cleanup_progress: shown("cleanup_progress", false),
            reactions: reactions.map_or(self.name != "telegram" && !quiet, |value| !off(&value)),
            streaming: self.streaming(quiet),
        }
    }

    fn display_setting(&self, key: &str) -> Option<Value> {
        self.reading.tree.get("display")?.get(key).filter(|value| !value.is_null()).cloned()
    }

    /// `display.platforms.<platform>.<key>`, else `display.<key>`.
    fn shown(&self, key: &str) -> Option<Value> {
        let here = self.shown_here(key);
        let old = || self.display_setting("tool_progress_overrides")?.get(&self.name).cloned();
        here.or_else(|| if key == "tool_progress" { old() } else { None })
            .or_else(|| self.display_setting(key))
    }

    fn shown_here(&self, key: &str) -> Option<Value> {
        self.display_setting("platforms")?.get(&self.name)?.get(key).filter(|value| !value.is_null()).cloned()
    }

    /// `display.streaming` is about the terminal; a platform's own word counts here.
    fn streaming(&self, quiet: bool) -> Option<Streaming> {
        let settings = match self.reading.shared("streaming") {
            Some(Value::Object(settings)) => settings,
            _ => Map::new(),
        };
        let transport = |key: &str| {
            settings
                .get(key)
                .map(|value| if *value == Value::Bool(false) { "off".into() } else { word(value) })
        };
        let by_mode = transport("mode").map(|mode| mode != "off");
        let enabled = match settings.get("enabled") {
            Some(value) => truth(value).unwrap_or(false),
            None => by_mode.unwrap_or(false),
        };
        let enabled = enabled && transport("transport").is_none_or(|transport| transport != "off");
        let here = self.shown_here("streaming").as_ref().and_then(truth);
        let seconds =
            settings.get("edit_interval").and_then(Value::as_f64).filter(|it| it.is_finite() && *it > 0.0);
        let buffer = settings.get("buffer_threshold").and_then(Value::as_u64);
        here.unwrap_or(enabled && !quiet).then(|| Streaming {
            edit_interval: Duration::from_secs_f64(seconds.unwrap_or(0.8).clamp(0.1, 60.0)),
            buffer_chars: usize::try_from(buffer.unwrap_or(24)).unwrap_or(24),
            cursor: settings.get("cursor").and_then(text).unwrap_or_else(|| " ▉".to_owned()),
        })
    }

    /// Where a key of this platform is written, as far as that can be told.
    fn place(&self, key: &str) -> Place {
        let paths = [format!("{}.{key}", self.name), format!("platforms.{}.{key}", self.name)];
        paths.iter().find_map(|path| self.root.get(path)).map_or(self.root.place, |node| node.place)
    }
}

fn notice(place: Place, text: &str) -> Notice {
    Notice { place, text: text.to_owned() }
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

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// In lower case, without spaces around it.
fn word(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        value => text(value).unwrap_or_default().trim().to_lowercase(),
    }
}

fn truth(value: &Value) -> Option<bool> {
    match (value, word(value).as_str()) {
        (Value::Bool(value), _) => Some(*value),
        (_, "true" | "1" | "yes" | "on") => Some(true),
        (_, "false" | "0" | "no" | "off") => Some(false),
        _ => None,
    }
}

/// A list, or a text with commas in it.
fn listed(value: &Value) -> Vec<String> {
    let entries: Vec<String> = match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        value => text(value).unwrap_or_default().split(',').map(str::to_owned).collect(),
    };
    entries.iter().map(|entry| entry.trim().to_owned()).filter(|entry| !entry.is_empty()).collect()
}

fn tool_progress(value: &Value) -> ToolProgress {
    match (truth(value), word(value).as_str()) {
        (Some(false), _) | (_, "log") => ToolProgress::Off,
        (_, "new") => ToolProgress::New,
        (_, "verbose") => ToolProgress::Verbose,
        _ => ToolProgress::All,
    }
}

#[cfg(test)]
mod tests;
