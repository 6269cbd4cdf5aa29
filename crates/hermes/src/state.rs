//! What Hermes' tools read about a gateway that runs: `gateway_state.json` and `channel_directory.json`.
//!
//! The first says which process serves a home, how far it is, and how each platform is doing; it
//! outlives the process and then says how that ended. The second lists the chats that can be
//! written to, with names for people.
//!
//! Deliberately absent: files, the clock, and whether anything said here is true.

use crate::entry::SessionEntry;
use crate::local::LocalTime;
use crate::lock::Record;
use crate::source::Source;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use throughline_core::Time;
use throughline_core::port::Health;

/// How far a gateway is, in Hermes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Running,
    Draining,
    Stopped,
    /// It never came so far.
    Failed,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "startup_failed",
        }
    }
}

/// All of `gateway_state.json`, but for the times.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayState {
    pub record: Record,
    pub stage: Stage,
    pub exit_reason: Option<String>,
    pub restart_requested: bool,
    /// Turns that run.
    pub active: usize,
    pub platforms: Vec<(String, Health)>,
    /// Only where one gateway serves several.
    pub profiles: Vec<String>,
}

impl GatewayState {
    /// `changed`: since when each platform is as it is now.
    pub fn emit(&self, now: Time, changed: &BTreeMap<String, Time>) -> String {
        let mut fields = self.record.fields();
        fields.insert("gateway_state".into(), self.stage.word().into());
        fields.insert("exit_reason".into(), json!(self.exit_reason));
        fields.insert("restart_requested".into(), self.restart_requested.into());
        fields.insert("active_agents".into(), self.active.into());
        let platforms = self.platforms.iter().map(|(name, health)| {
            let (state, code, message) = words(health);
            let since = utc(changed.get(name).copied().unwrap_or(now));
            let told =
                json!({"state": state, "error_code": code, "error_message": message, "updated_at": since});
            (name.clone(), told)
        });
        fields.insert("platforms".into(), Value::Object(platforms.collect()));
        fields.insert("updated_at".into(), utc(now).into());
        if !self.profiles.is_empty() {
            fields.insert("served_profiles".into(), json!(self.profiles));
        }
        Value::Object(fields).to_string()
    }
}

/// How a platform is doing, in Hermes' words: a state, a code and a sentence.
fn words(health: &Health) -> (&'static str, Option<&'static str>, Option<&str>) {
    match health {
        Health::Starting => ("connecting", None, None),
        Health::Up => ("connected", None, None),
        Health::Waiting(why) => ("retrying", Some("retrying"), Some(why)),
        Health::Refused(why) => ("fatal", Some("refused"), Some(why)),
    }
}

/// Python's `datetime.now(timezone.utc).isoformat()`.
pub fn utc(time: Time) -> String {
    format!("{}+00:00", LocalTime::of(time, &TimeZone::UTC))
}

// -------------------------------------------------------------------------------------- directory

/// Sources that are no place to write to.
const NOWHERE: [&str; 6] = ["local", "api_server", "webhook", "cli", "agent", "tool"];

/// `channel_directory.json`: the chats of `platforms` that routes lead from, newest first, under the
/// names that `aliases` (the text of `channel_aliases.json`) gives them. A platform that is not
/// served now has no chats: what is listed can be written to.
pub fn directory(
    entries: &[SessionEntry],
    platforms: &[String],
    aliases: Option<&str>,
    now: Time,
    zone: &TimeZone,
) -> String {
    let served = platforms.iter().filter(|name| !NOWHERE.contains(&name.as_str()));
    let mut listed: BTreeMap<String, Vec<Value>> = served.map(|name| (name.clone(), Vec::new())).collect();
    let mut newest: Vec<&SessionEntry> = entries.iter().collect();
    newest.sort_by_key(|entry| std::cmp::Reverse(entry.updated_at));
    let mut known = BTreeSet::new();
    for entry in newest {
        let Some(source) = &entry.origin else { continue };
        let Some(list) = listed.get_mut(&source.platform) else { continue };
        let id = channel_id(source);
        if !source.chat_id.is_empty() && known.insert((source.platform.clone(), id.clone())) {
            let kind = Some(entry.chat_type.as_str()).filter(|kind| !kind.is_empty()).unwrap_or("dm");
            list.push(json!({
                "id": id, "name": channel_name(source), "type": kind, "thread_id": source.thread_id,
            }));
        }
    }
    apply(aliases, &mut listed);
    let platforms: Map<String, Value> = listed.into_iter().map(|(name, list)| (name, list.into())).collect();
    let directory = json!({"updated_at": LocalTime::of(now, zone).to_string(), "platforms": platforms});
    crate::json::dumps_indented(&directory)
}

/// The chats of a `channel_directory.json`, by platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory(BTreeMap<String, Vec<DirectoryChannel>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryChannel {
    /// Of the chat, or `chat:thread`.
    pub id: String,
    pub name: String,
    /// `dm`, `group`, `channel` …
    pub kind: String,
    /// The server it belongs to, on Discord.
    pub guild: Option<String>,
}

impl DirectoryChannel {
    /// As it is shown, and may be asked for.
    fn label(&self, platform: &str) -> String {
        match (platform, &self.guild) {
            ("discord", Some(_)) => format!("#{}", self.name),
            ("discord", None) => self.name.clone(),
            _ if self.kind.is_empty() => self.name.clone(),
            _ => format!("{} ({})", self.name, self.kind),
        }
    }
}

impl Directory {
    /// What makes no sense is left out.
    pub fn read(text: &str) -> Self {
        let file: Value = serde_json::from_str(text).unwrap_or_default();
        let platforms = file["platforms"].as_object().cloned().unwrap_or_default();
        let channel = |value: &Value| {
            let text = |name: &str| value[name].as_str().map(str::to_owned);
            let (id, name) = (text("id")?, text("name")?);
            Some(DirectoryChannel { id, name, kind: text("type").unwrap_or_default(), guild: text("guild") })
        };
        let channels = |list: &Value| list.as_array().into_iter().flatten().filter_map(channel).collect();
        Self(platforms.iter().map(|(platform, list)| (platform.clone(), channels(list))).collect())
    }

    /// Without those that the asker may not see.
    pub fn retain(&mut self, is_shown: impl Fn(&str, &DirectoryChannel) -> bool) {
        for (platform, channels) in &mut self.0 {
            channels.retain(|channel| is_shown(platform, channel));
        }
    }

    /// The id of a chat that is asked for by its id, its name, its server and name, or the beginning of one name alone:
    /// in this order, as Hermes finds it.
    pub fn find(&self, platform: &str, asked: &str) -> Option<&str> {
        let channels = self.0.get(platform)?;
        let plain = |text: &str| text.trim_start_matches('#').trim().to_lowercase();
        let wanted = plain(asked);
        let is_it = |channel: &&DirectoryChannel| {
            plain(&channel.name) == wanted || plain(&channel.label(platform)) == wanted
        };
        let in_guild = |channel: &&DirectoryChannel| {
            wanted.rsplit_once('/').is_some_and(|(guild, name)| {
                let own = channel.guild.as_deref().unwrap_or_default();
                own.trim().to_lowercase() == guild && plain(&channel.name) == name
            })
        };
        let found = channels.iter().find(|channel| channel.id == asked.trim());
        let found = found.or_else(|| channels.iter().find(is_it));
        let found = found.or_else(|| channels.iter().find(in_guild));
        let mut begun = channels.iter().filter(|channel| plain(&channel.name).starts_with(&wanted));
        let alone = begun.next().filter(|_| begun.next().is_none() && !wanted.is_empty());
        found.or(alone).map(|channel| channel.id.as_str())
    }

    /// For the model, in Hermes' words. None: there is no chat.
    pub fn shown(&self) -> Option<String> {
        let mut lines = vec!["Available messaging targets:\n".to_owned()];
        for (platform, channels) in self.0.iter().filter(|(_, channels)| !channels.is_empty()) {
            let mut letters = platform.chars();
            let title: String =
                letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
            let mut groups: BTreeMap<Option<&str>, Vec<&DirectoryChannel>> = BTreeMap::new();
            for channel in channels {
                let guild = channel.guild.as_deref().filter(|_| platform == "discord");
                groups.entry(guild).or_default().push(channel);
            }
            let direct = groups.remove(&None).map(|channels| (None, channels));
            for (guild, mut channels) in groups.into_iter().chain(direct) {
                match guild {
                    Some(guild) => {
                        channels.sort_by(|one, other| one.name.cmp(&other.name));
                        lines.push(format!("{title} ({guild}):"));
                    }
                    None if platform == "discord" => lines.push(format!("{title} (DMs):")),
                    None => lines.push(format!("{title}:")),
                }
                let label = |channel: &&DirectoryChannel| format!("  {platform}:{}", channel.label(platform));
                lines.extend(channels.iter().map(label));
            }
            lines.push(String::new());
        }
        lines.push("Use these as the \"target\" parameter when sending.".to_owned());
        lines.push("Bare platform name (e.g. \"telegram\") sends to home channel.".to_owned());
        self.0.values().any(|channels| !channels.is_empty()).then(|| lines.join("\n"))
    }
}

fn channel_id(source: &Source) -> String {
    match source.thread_id.as_deref().filter(|thread| !thread.is_empty()) {
        Some(thread) => format!("{}:{thread}", source.chat_id),
        None => source.chat_id.clone(),
    }
}

fn channel_name(source: &Source) -> String {
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let name = given(&source.chat_name).or_else(|| given(&source.user_name));
    let name = name.unwrap_or_else(|| source.chat_id.clone());
    match &source.thread_id {
        Some(thread) if !thread.is_empty() => {
            let topic = given(&source.chat_topic).unwrap_or_else(|| format!("topic {thread}"));
            format!("{name} / {topic}")
        }
        _ => name,
    }
}

/// Names that the owner gave, also for chats without a message yet.
fn apply(aliases: Option<&str>, listed: &mut BTreeMap<String, Vec<Value>>) {
    let parsed = aliases.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(Value::Object(platforms)) = parsed else { return };
    for (platform, names) in &platforms {
        let Some(names) = names.as_object() else { continue };
        let list = listed.entry(platform.clone()).or_default();
        for (id, name) in names {
            let Some(name) = name.as_str().map(str::trim).filter(|name| !name.is_empty()) else { continue };
            let mut found = false;
            for entry in list.iter_mut().filter(|entry| entry["id"] == id.as_str()) {
                entry["name"] = name.into();
                found = true;
            }
            if !found {
                let kind = if id.ends_with("@g.us") { "group" } else { "dm" };
                list.push(json!({"id": id, "name": name, "type": kind, "thread_id": null}));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_is_found_by_its_names_as_hermes_finds_it() {
        let file = json!({"platforms": {
            "discord": [
                {"id": "1", "name": "general", "guild": "Home", "type": "channel"},
                {"id": "2", "name": "general", "guild": "Work", "type": "channel"},
                {"id": "3", "name": "ada", "type": "dm"}, {"name": "nowhere"}, 7,
            ],
            "telegram": [
                {"id": "-100", "name": "Friends", "type": "group"}, {"id": "-200", "name": "Frequent", "type": "group"},
                {"id": "42:7", "name": "Ada / topic 7", "type": "dm"},
            ],
            "": [{"id": "x", "name": "y"}], "slack": [],
        }});
        let mut directory = Directory::read(&file.to_string());
        for (platform, asked, id) in [
            ("discord", "#General", Some("1")),
            ("discord", "work/general", Some("2")),
            ("discord", "2", Some("2")),
            ("discord", "a", Some("3")),
            ("telegram", "friends", Some("-100")),
            ("telegram", "Friends (group)", Some("-100")),
            ("telegram", "Fr", None), // two of them
            ("telegram", "#", None),
            ("telegram", "ada", Some("42:7")),
            ("telegram", "Bob", None),
            ("matrix", "general", None),
        ] {
            assert_eq!(directory.find(platform, asked), id, "{platform}:{asked}");
        }
        let shown = directory.shown().unwrap();
        let parts = [
            "Discord (Home):\n  discord:#general\nDiscord (Work):\n  discord:#general\nDiscord (DMs):\n  discord:ada\n",
            "Telegram:\n  telegram:Friends (group)\n",
        ];
        assert!(parts.iter().all(|part| shown.contains(part)) && !shown.contains("Slack"), "{shown}");
        directory.retain(|_, channel| channel.kind != "dm");
        assert_eq!(directory.find("discord", "ada"), None);
        directory.retain(|_, _| false);
        assert_eq!(directory.shown(), None);
        assert_eq!(Directory::read("rubbish"), Directory::default());
    }
}
