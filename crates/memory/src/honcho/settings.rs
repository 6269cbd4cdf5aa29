//! What the user wrote about Honcho, by the names that Hermes gave it.
//!
//! The first file that exists is the one that counts: the home's `honcho.json`, the default profile's,
//! `~/.honcho/config.json`. In it `hosts.<host>` goes before the rest; the environment fills what is
//! left. A file that cannot be read is an error: it may name another server, so going on without it
//! could send what was said to the wrong one.
//!
//! A value that cannot be meant is replaced by the default and named in [`HonchoSettings::notices`], except
//! where the default would share what ought to be apart.

use super::session_name;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use throughline_net::Secret;

const HOST: &str = "hermes";
const PRODUCTION: &str = "https://api.honcho.dev";
const LOCAL: &str = "http://localhost:8000";
/// A turn waits for nothing here, but a handing over that hangs holds up those behind it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A part shorter than this would be mostly the word that marks it as one.
const MESSAGE_CHARS_MIN: usize = 100;
/// What the server's own configuration goes up to in public use.
const CHARS_MAX: usize = 1_000_000;

/// The places where settings can lie.
#[derive(Clone, Debug, Default)]
pub struct SettingsSources<'a> {
    /// Those that exist, the first of which counts.
    pub files: &'a [SettingsFile<'a>],
    /// The profile of the home. None: the default one.
    pub profile: Option<&'a str>,
    /// `honcho.base_url` in `config.yaml`.
    pub base_url: Option<&'a str>,
    /// `honcho.timeout` or `honcho.request_timeout` in `config.yaml`, in seconds.
    pub timeout: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub struct SettingsFile<'a> {
    /// As it is shown.
    pub path: &'a str,
    pub text: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HonchoSettings {
    pub enabled: bool,
    /// It is known how to reach it: there is a key, or a server of its own.
    pub is_reachable: bool,
    /// Which block of the file applies, and the default name of workspace and agent.
    pub host: String,
    pub workspace: String,
    pub base_url: String,
    /// None: the server asks for none.
    pub key: Option<Secret>,
    pub timeout: Duration,
    pub peer_name: Option<String>,
    pub ai_peer: String,
    pub pin_user_peer: bool,
    pub user_peer_aliases: BTreeMap<String, String>,
    pub runtime_peer_prefix: String,
    pub save_messages: bool,
    pub write_frequency: WriteFrequency,
    pub context_tokens: Option<usize>,
    pub dialectic_level: ReasoningLevel,
    pub dialectic_dynamic: bool,
    pub dialectic_max_chars: usize,
    pub dialectic_depth: usize,
    pub dialectic_depth_levels: Option<Vec<ReasoningLevel>>,
    pub dialectic_max_input_chars: usize,
    pub reasoning_heuristic: bool,
    pub reasoning_level_cap: ReasoningLevel,
    pub message_max_chars: usize,
    pub recall_mode: RecallMode,
    pub injection: Injection,
    pub context_cadence: u64,
    pub dialectic_cadence: u64,
    pub observation: Observation,
    pub strategy: SessionStrategy,
    pub session_peer_prefix: bool,
    /// Directory to name.
    pub sessions: BTreeMap<String, String>,
    /// What was written and could not be meant, in sentences.
    pub notices: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFrequency {
    /// `async` and `turn`: the store keeps what waits, so there is nothing to choose between.
    Turn,
    Turns(u64),
    /// Only when the session ends or is left.
    Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallMode {
    Hybrid,
    Context,
    Tools,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    EveryTurn,
    FirstTurn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStrategy {
    PerDirectory,
    PerSession,
    PerRepository,
    Global,
}

/// How hard Honcho thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasoningLevel {
    Minimal,
    Low,
    Medium,
    High,
    Max,
}

impl ReasoningLevel {
    pub const ALL: [ReasoningLevel; 5] = [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Max];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }

    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// Who is modelled from what they say, and who models the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub user: PeerObservation,
    pub agent: PeerObservation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerObservation {
    pub observe_me: bool,
    pub observe_others: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSettings {
    #[error("{path} cannot be read as JSON ({reason}). Honcho stays off until it is put right.")]
    Broken { path: String, reason: String },
    #[error("{path}: {key} is {value}, which Honcho cannot use. Write one of {allowed}.")]
    Value { path: String, key: &'static str, value: String, allowed: &'static str },
    #[error(
        "Honcho has no key and no server. Set apiKey in {path} or HONCHO_API_KEY, or baseUrl or HONCHO_BASE_URL for a server of your own."
    )]
    Nowhere { path: String },
    #[error("the address of the Honcho server, {0}, cannot be used: it should look like https://host")]
    Address(String),
}

impl HonchoSettings {
    /// `environment` gives the value of a variable.
    pub fn parse(
        given: &SettingsSources<'_>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidSettings> {
        let variable = |name: &str| {
            environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let file = given.files.first();
        let path = file.map_or("honcho.json", |file| file.path).to_owned();
        let root = file.map(object).transpose()?.unwrap_or_default();
        let host = host(&root, given.profile, variable("HERMES_HONCHO_HOST"));
        let own = block(&root, &host);
        let mut read = HonchoSettingsReader { own, root: &root, path: &path, notices: Vec::new() };

        let environment_key = variable("HONCHO_API_KEY");
        let key = read.word("apiKey").or(environment_key);
        let base_url =
            read.root_word("baseUrl").or(read.root_word("base_url")).or(variable("HONCHO_BASE_URL"));
        let is_known = key.is_some() || base_url.is_some();
        let enabled = read.boolean(&["enabled"]).unwrap_or(is_known);
        let is_explicit = !own.is_empty() || root.get("enabled") == Some(&Value::Bool(true));

        let written =
            base_url.or_else(|| given.base_url.map(str::to_owned).filter(|url| !url.trim().is_empty()));
        if enabled && key.is_none() && written.is_none() {
            return Err(InvalidSettings::Nowhere { path });
        }
        let named = read.word("environment").or(variable("HONCHO_ENVIRONMENT").filter(|_| file.is_none()));
        let standard = match named.as_deref() {
            Some("local") => LOCAL,
            _ => PRODUCTION,
        };
        let base_url =
            address(&written.or_else(|| variable("HONCHO_URL")).unwrap_or_else(|| standard.to_owned()))?;
        // A key for the cloud would only break a server at home that asks for none.
        let key = match is_local(&base_url) {
            true => text(own.get("apiKey")),
            false => key,
        };
        let timeout = read.timeout(variable("HONCHO_TIMEOUT"), given.timeout);

        let workspace = read.word("workspace").unwrap_or_else(|| host.clone());
        let depth = read.number("dialecticDepth").unwrap_or(1).clamp(1, 3) as usize;
        let settings = Self {
            enabled,
            is_reachable: is_known,
            workspace: read.id("workspace", workspace),
            ai_peer: read.word("aiPeer").unwrap_or_else(|| host.clone()),
            host,
            base_url,
            key: key.map(Secret::new),
            timeout,
            peer_name: read.word("peerName"),
            pin_user_peer: read.boolean(&["pinUserPeer", "pinPeerName"]).unwrap_or(false),
            user_peer_aliases: read.map("userPeerAliases"),
            runtime_peer_prefix: read.optional("runtimePeerPrefix"),
            save_messages: read.boolean(&["saveMessages"]).unwrap_or(true),
            write_frequency: read.write_frequency(),
            context_tokens: read.context_tokens(),
            dialectic_level: read.level("dialecticReasoningLevel", ReasoningLevel::Low),
            dialectic_dynamic: read.boolean(&["dialecticDynamic"]).unwrap_or(true),
            dialectic_max_chars: read.size("dialecticMaxChars", 600, 0),
            dialectic_depth: depth,
            dialectic_depth_levels: read.levels("dialecticDepthLevels", depth),
            dialectic_max_input_chars: read.size("dialecticMaxInputChars", 10_000, 1),
            reasoning_heuristic: read.boolean(&["reasoningHeuristic"]).unwrap_or(true),
            reasoning_level_cap: read.level("reasoningLevelCap", ReasoningLevel::High),
            message_max_chars: read.size("messageMaxChars", 25_000, MESSAGE_CHARS_MIN),
            recall_mode: read.recall_mode(),
            injection: read.injection(),
            context_cadence: read.number("contextCadence").unwrap_or(1).max(1) as u64,
            dialectic_cadence: read.number("dialecticCadence").unwrap_or(1).max(1) as u64,
            observation: read.observation(is_explicit),
            strategy: read.strategy()?,
            session_peer_prefix: read.boolean(&["sessionPeerPrefix"]).unwrap_or(false),
            sessions: strings(root.get("sessions")),
            notices: Vec::new(),
        };
        Ok(Self { notices: read.notices, ..settings })
    }

    /// What names of sessions begin with, with its hyphen; empty for none.
    pub fn session_prefix(&self) -> String {
        let peer = self.peer_name.as_deref().filter(|_| self.session_peer_prefix);
        peer.map(session_name::readable)
            .filter(|peer| !peer.is_empty())
            .map(|peer| format!("{peer}-"))
            .unwrap_or_default()
    }
}

fn object(file: &SettingsFile<'_>) -> Result<Map<String, Value>, InvalidSettings> {
    let broken = |reason: String| InvalidSettings::Broken { path: file.path.to_owned(), reason };
    match serde_json::from_str(file.text) {
        Ok(Value::Object(root)) => Ok(root),
        Ok(_) => Err(broken("it is not an object".to_owned())),
        // serde names the place and never the text, which may be a key.
        Err(error) => Err(broken(format!("line {}, column {}", error.line(), error.column()))),
    }
}

/// Named profiles have a host of their own, so that none shares another's memory by accident.
fn host(root: &Map<String, Value>, profile: Option<&str>, wanted: Option<String>) -> String {
    if let Some(wanted) = wanted {
        return wanted;
    }
    match profile {
        None | Some("" | "default" | "custom") => {
            text(root.get("defaultHost")).unwrap_or_else(|| HOST.to_owned())
        }
        Some(profile) => {
            let clean: String = profile
                .chars()
                .map(|character| {
                    if character.is_alphanumeric() || matches!(character, '_' | '-') {
                        character
                    } else {
                        '_'
                    }
                })
                .collect();
            match clean.trim_matches('_') {
                "" => format!("{HOST}_profile"),
                clean => format!("{HOST}_{clean}"),
            }
        }
    }
}

/// The host's part of the file. Earlier versions wrote a dot where there is an underscore now.
fn block<'a>(root: &'a Map<String, Value>, host: &str) -> &'a Map<String, Value> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let hosts = root.get("hosts").and_then(Value::as_object);
    let find = |name: &str| {
        hosts.and_then(|hosts| hosts.get(name)).and_then(Value::as_object).filter(|block| !block.is_empty())
    };
    let legacy = host.strip_prefix("hermes_").map(|rest| format!("{HOST}.{rest}"));
    find(host).or_else(|| find(&legacy?)).unwrap_or(&NOTHING)
}

/// The server without the version at its end: every path begins with one.
fn address(url: &str) -> Result<String, InvalidSettings> {
    let url = url.trim().trim_end_matches('/');
    let bare = match url.rsplit_once('/') {
        Some((rest, last)) if is_version(last) => rest,
        _ => url,
    };
    let bare = bare.trim_end_matches('/');
    match reqwest::Url::parse(bare) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.host_str().is_some() => {
            Ok(bare.to_owned())
        }
        _ => {
            let shown = bare.split(['?', '#']).next().unwrap_or_default();
            let shown = shown.rsplit_once('@').map_or(shown, |(_, host)| host);
            Err(InvalidSettings::Address(shown.to_owned()))
        }
    }
}

fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// On this machine, or on a network that is not everybody's.
fn is_local(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            let is_shared = address.octets()[0] == 100 && (64..128).contains(&address.octets()[1]);
            address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || is_shared
                || address == Ipv4Addr::UNSPECIFIED
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => host == "localhost",
    }
}

/// Reads the host's part first, then the rest.
struct HonchoSettingsReader<'a> {
    own: &'a Map<String, Value>,
    root: &'a Map<String, Value>,
    path: &'a str,
    notices: Vec<String>,
}

impl HonchoSettingsReader<'_> {
    /// The host's part, the rest of the file, the environment, and at last what Hermes' own settings say.
    fn timeout(&self, variable: Option<String>, given: Option<f64>) -> Duration {
        let of = |part: &Map<String, Value>| {
            ["timeout", "requestTimeout"].iter().find_map(|name| seconds(part.get(*name)))
        };
        let timeout = of(self.own).or_else(|| of(self.root));
        let timeout = timeout.or_else(|| seconds(variable.map(Value::from).as_ref()));
        let timeout = timeout.or(given.filter(|seconds| *seconds > 0.0));
        timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(TIMEOUT)
    }

    fn injection(&self) -> Injection {
        match self.word("injectionFrequency").as_deref() {
            Some("first-turn") => Injection::FirstTurn,
            _ => Injection::EveryTurn,
        }
    }

    fn context_tokens(&self) -> Option<usize> {
        let tokens = self.number("contextTokens").map(|tokens| tokens.max(0) as usize);
        tokens.filter(|tokens| *tokens > 0)
    }

    /// The first that says something.
    fn word(&self, key: &str) -> Option<String> {
        text(self.own.get(key)).or_else(|| self.root_word(key))
    }

    fn root_word(&self, key: &str) -> Option<String> {
        text(self.root.get(key))
    }

    /// An empty text of the host's own hides the other.
    fn optional(&self, key: &str) -> String {
        text(self.own.get(key).or_else(|| self.root.get(key))).unwrap_or_default()
    }

    fn boolean(&self, keys: &[&str]) -> Option<bool> {
        let own = keys.iter().find_map(|key| boolean(self.own.get(*key)));
        own.or_else(|| keys.iter().find_map(|key| boolean(self.root.get(*key))))
    }

    fn number(&self, key: &str) -> Option<i64> {
        [self.own.get(key), self.root.get(key)].into_iter().flatten().find_map(number)
    }

    fn size(&mut self, key: &str, default: usize, min: usize) -> usize {
        let Some(wanted) = self.number(key) else { return default };
        let size = usize::try_from(wanted).unwrap_or(0).clamp(min, CHARS_MAX);
        if i64::try_from(size) != Ok(wanted) {
            self.note(key, &wanted.to_string(), &size.to_string());
        }
        size
    }

    /// The host's map replaces the other as a whole.
    fn map(&self, key: &str) -> BTreeMap<String, String> {
        strings(self.own.get(key).or_else(|| self.root.get(key)))
    }

    fn id(&mut self, key: &str, wanted: String) -> String {
        let id = session_name::bounded_id(&wanted);
        if id != wanted {
            self.note(key, &wanted, &id);
        }
        id
    }

    fn level(&mut self, key: &str, default: ReasoningLevel) -> ReasoningLevel {
        let Some(word) = self.word(key) else { return default };
        ReasoningLevel::named(&word).unwrap_or_else(|| {
            self.note(key, &word, default.as_str());
            default
        })
    }

    fn levels(&self, key: &str, depth: usize) -> Option<Vec<ReasoningLevel>> {
        let given = [self.own.get(key), self.root.get(key)].into_iter().flatten();
        let list = given.filter_map(Value::as_array).next()?;
        let level = |place: usize| {
            list.get(place)
                .and_then(Value::as_str)
                .and_then(ReasoningLevel::named)
                .unwrap_or(ReasoningLevel::Low)
        };
        Some((0..depth).map(level).collect())
    }

    fn write_frequency(&mut self) -> WriteFrequency {
        if let Some(turns) = self.number("writeFrequency").filter(|turns| *turns != 0) {
            return WriteFrequency::Turns(turns.max(1) as u64);
        }
        match self.word("writeFrequency").as_deref() {
            None | Some("async" | "turn" | "0") => WriteFrequency::Turn,
            Some("session") => WriteFrequency::Session,
            Some(other) => {
                self.note("writeFrequency", other, "turn");
                WriteFrequency::Turn
            }
        }
    }

    fn recall_mode(&mut self) -> RecallMode {
        match self.word("recallMode").as_deref() {
            None | Some("hybrid" | "auto") => RecallMode::Hybrid,
            Some("context") => RecallMode::Context,
            Some("tools") => RecallMode::Tools,
            Some(other) => {
                self.note("recallMode", other, "hybrid");
                RecallMode::Hybrid
            }
        }
    }

    /// An unknown one is an error: Hermes would put every chat of the workspace into one session.
    fn strategy(&self) -> Result<SessionStrategy, InvalidSettings> {
        match self.word("sessionStrategy").as_deref() {
            None | Some("per-directory") => Ok(SessionStrategy::PerDirectory),
            Some("per-session") => Ok(SessionStrategy::PerSession),
            Some("per-repo") => Ok(SessionStrategy::PerRepository),
            Some("global") => Ok(SessionStrategy::Global),
            Some(other) => Err(InvalidSettings::Value {
                path: self.path.to_owned(),
                key: "sessionStrategy",
                value: format!("{other:?}"),
                allowed: "per-directory, per-session, per-repo, global",
            }),
        }
    }

    /// A user who configured Honcho before there was a choice keeps what there was.
    fn observation(&mut self, is_explicit: bool) -> Observation {
        let mode = self.word("observationMode");
        let is_unified = match mode.as_deref() {
            Some("unified" | "shared") => true,
            Some("directional" | "separate" | "cross") => false,
            Some(other) => {
                self.note("observationMode", other, "directional");
                false
            }
            None => is_explicit,
        };
        let (user, agent) = match is_unified {
            true => ((true, false), (false, true)),
            false => ((true, true), (true, true)),
        };
        let filled = |value: &Value| value.as_object().is_some_and(|object| !object.is_empty());
        let given = [self.own, self.root]
            .into_iter()
            .filter_map(|map| map.get("observation"))
            .find(|value| filled(value));
        let watch = |who: &str, (observe_me, observe_others): (bool, bool)| {
            let chosen = |key: &str| given.and_then(|given| given.get(who)?.get(key)?.as_bool());
            PeerObservation {
                observe_me: chosen("observeMe").unwrap_or(observe_me),
                observe_others: chosen("observeOthers").unwrap_or(observe_others),
            }
        };
        Observation { user: watch("user", user), agent: watch("ai", agent) }
    }

    fn note(&mut self, key: &str, wanted: &str, taken: &str) {
        self.notices.push(format!(
            "{}: {key} is {wanted:?}, which Honcho cannot use; {taken:?} is used instead.",
            self.path
        ));
    }
}

/// As Python's truth: nothing, false, zero and an empty text say nothing.
fn text(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) if number.as_f64() != Some(0.0) => number.to_string(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

fn boolean(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(value) => Some(*value),
        Value::Number(number) => Some(number.as_f64() != Some(0.0)),
        // Python takes every text for true; a user who writes "false" does not mean that.
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" | "" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn seconds(value: Option<&Value>) -> Option<f64> {
    let number = match value? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|seconds| *seconds > 0.0 && seconds.is_finite())
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    let pairs = pairs.filter_map(|(key, value)| Some((key.trim().to_owned(), text(Some(value))?)));
    pairs.filter(|(key, _)| !key.is_empty()).collect()
}

impl fmt::Display for SessionStrategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PerDirectory => "per-directory",
            Self::PerSession => "per-session",
            Self::PerRepository => "per-repo",
            Self::Global => "global",
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
