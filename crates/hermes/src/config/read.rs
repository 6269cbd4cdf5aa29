//! Reads the [settings](super::settings) from the tree, each with its place.
//!
//! Hermes forgives: a value of the wrong kind is as good as none, and is pointed out. What was
//! not written is None; which default then holds is not decided here.

use super::settings::{
    AgentSettings, ApiServer, At, Auxiliary, ChainPlatform, CompressionSettings, HermesSettings, LogSettings,
    MediaDelivery, ModelSettings, ModelTimeouts, NamedProvider, Own, ReviewSettings, SessionReset,
    split_origins,
};
use super::tree::{Node, Notice, Place, Value};
use super::{keys, reference};
use crate::profile::{self, ProfileRoute, ProfileRoutes};
use throughline_core::redact::Secret;
use throughline_core::session::BusyInput;
const OWN_KEYS: [&str; 19] = [
    "log_level",
    "body_limit_bytes",
    "stop_on_disconnect",
    "allow_unsafe_filesystem",
    "turn_tokens_max",
    "hops_max",
    "chain_turns_max",
    "chain_calls_max",
    "chain_platforms",
    "chain_quiet_minutes",
    "landlock",
    "open_in_home",
    "compression_floor",
    "recall",
    "memory_per_person",
    "recall_patience_ms",
    "expiry_watch_seconds",
    "plugins",
    "hermes",
];

/// Where a message of a bot may come from, and what it may spend there.
const CHAIN_PLATFORMS: [&str; 5] = ["agent", "discord", "slack", "telegram", "webhook"];
const CHAIN_KEYS: [&str; 2] = ["turns_max", "calls_max"];

pub(super) struct ConfigReader<'a> {
    root: &'a Node,
    pub notices: Vec<Notice>,
}

impl<'a> ConfigReader<'a> {
    pub fn new(root: &'a Node) -> Self {
        Self { root, notices: Vec::new() }
    }

    pub fn settings(&mut self) -> HermesSettings {
        HermesSettings {
            model: self.model(),
            providers: self.providers(),
            agent: self.agent(),
            compression: self.compression(),
            review: self.review(),
            busy_input_mode: self.busy_input_mode(),
            session_reset: self.session_reset(),
            api_server: self.api_server(),
            timezone: self.text("timezone"),
            log_level: self.text("logging.level"),
            logs: LogSettings {
                max_size_mb: self.number("logging.max_size_mb"),
                backup_count: self.count("logging.backup_count"),
            },
            multiplex_profiles: self
                .boolean("multiplex_profiles")
                .or_else(|| self.boolean("gateway.multiplex_profiles")),
            profile_routes: self.profile_routes(),
            media_delivery: self.media_delivery(),
            variables: self.variables(),
        }
    }

    fn media_delivery(&mut self) -> MediaDelivery {
        let written = self.root.get("gateway.media_delivery_allow_dirs").map(|node| &node.value);
        let allow_dirs = match written {
            Some(Value::List(items)) => items.iter().filter_map(|item| as_text(&item.value)).collect(),
            Some(value) if !is_nothing(value) => as_text(value).into_iter().collect(),
            _ => Vec::new(),
        };
        MediaDelivery {
            strict: self.boolean("gateway.strict").map(|at| at.value),
            allow_dirs,
            trust_recent: self.boolean("gateway.trust_recent_files").map(|at| at.value),
            recent_seconds: self.number("gateway.trust_recent_files_seconds").map(|at| at.value),
        }
    }

    fn model(&mut self) -> ModelSettings {
        let mut model = match self.root.get("model").map(|node| &node.value) {
            Some(Value::Map(_)) => ModelSettings {
                default: self.first_text(&["model.default", "model.model", "model.name"]),
                provider: self.text("model.provider"),
                base_url: self.first_text(&["model.base_url", "model.api_base"]),
                api_key: self.secret("model.api_key").or_else(|| self.secret("model.api")),
                api_mode: self.text("model.api_mode"),
                context_length: self.count("model.context_length"),
                max_tokens: self.count("model.max_tokens"),
                headers: [self.headers("model.default_headers"), self.headers("model.extra_headers")]
                    .concat(),
            },
            _ => ModelSettings { default: self.text("model"), ..ModelSettings::default() },
        };
        // Where older files have them. They never win over what stands in `model:`.
        model.provider = model.provider.or_else(|| self.text("provider"));
        model.base_url = model.base_url.or_else(|| self.first_text(&["base_url", "api_base"]));
        model.context_length = model.context_length.or_else(|| self.count("context_length"));
        model
    }

    fn providers(&mut self) -> Vec<NamedProvider> {
        let root = self.root;
        let mut providers = Vec::new();
        for entry in root.entry("providers").map(|entry| entry.node.entries()).unwrap_or_default() {
            providers.extend(self.provider(&entry.node, Some(&entry.key), entry.place));
        }
        let Some(older) = root.entry("custom_providers") else { return providers };
        match &older.node.value {
            Value::List(items) => {
                for item in items {
                    providers.extend(self.provider(item, None, item.place));
                }
            }
            Value::Null => {}
            other => {
                let kind = other.kind();
                let text = format!(
                    "`custom_providers` has no effect: it takes a list (`- name: …`), and this is {kind}"
                );
                self.notices.push(Notice { place: older.place, text });
            }
        }
        providers
    }

    fn provider(&mut self, node: &'a Node, key: Option<&str>, place: Place) -> Option<NamedProvider> {
        let outer = self.root;
        if !matches!(node.value, Value::Map(_)) {
            return None;
        }
        self.root = node;
        let title = self.text("name").map(|at| at.value);
        let name = key.map(str::to_owned).or_else(|| title.clone());
        let provider = name.map(|name| NamedProvider {
            title: title.filter(|title| *title != name),
            name,
            place,
            enabled: self.boolean("enabled").is_none_or(|at| at.value),
            base_url: self.first_text(&["api", "url", "base_url", "baseUrl"]),
            api_key: self.secret("api_key").or_else(|| self.secret("apiKey")),
            key_variable: self.first_text(&["key_env", "api_key_env", "keyEnv", "apiKeyEnv"]),
            api_mode: self.first_text(&["api_mode", "transport", "apiMode"]),
            model: self.first_text(&["model", "default_model", "defaultModel"]),
            context_length: self.count("context_length").or_else(|| self.count("contextLength")),
            max_tokens: self.count("max_output_tokens").or_else(|| self.count("max_tokens")),
            headers: self.headers("extra_headers"),
            timeouts: self.timeouts("request_timeout_seconds"),
            timeouts_of: self.timeouts_of_models(node),
        });
        self.root = outer;
        if provider.is_none() {
            let text = "this provider has no effect: give it a `name`".to_owned();
            self.notices.push(Notice { place, text });
        }
        provider
    }

    /// As Hermes: what is not more than nothing was not said.
    fn timeouts(&mut self, request: &str) -> ModelTimeouts {
        let positive = |seconds: &At<f64>| seconds.value > 0.0 && seconds.value.is_finite();
        ModelTimeouts {
            request: self.number(request).filter(positive),
            stale: self.number("stale_timeout_seconds").filter(positive),
        }
    }

    fn timeouts_of_models(&mut self, provider: &'a Node) -> Vec<(String, ModelTimeouts)> {
        let outer = self.root;
        let models = provider.entry("models").map(|entry| entry.node.entries()).unwrap_or_default();
        let mut found = Vec::new();
        for entry in models.iter().filter(|entry| matches!(entry.node.value, Value::Map(_))) {
            self.root = &entry.node;
            found.push((entry.key.clone(), self.timeouts("timeout_seconds")));
        }
        self.root = outer;
        found
    }

    fn agent(&mut self) -> AgentSettings {
        AgentSettings {
            local_stream_stale_timeout: self.number("agent.local_stream_stale_timeout"),
            max_turns: self.count("agent.max_turns").or_else(|| self.count("max_turns")),
            reasoning_effort: self.reasoning_effort(),
            restart_drain_timeout: self.number("agent.restart_drain_timeout"),
        }
    }

    fn reasoning_effort(&mut self) -> Option<At<String>> {
        const PATH: &str = "agent.reasoning_effort";
        let node = self.root.get(PATH)?;
        match as_boolean(&node.value) {
            Some(false) => return Some(At { value: "none".into(), place: node.place }),
            Some(true) => return None, // as in Hermes: the model's own measure
            None => {}
        }
        let effort = self.text(PATH)?.map(|effort| effort.trim().to_lowercase());
        Some(if effort.value == "disabled" { effort.map(|_| "none".to_owned()) } else { effort })
    }

    fn compression(&mut self) -> CompressionSettings {
        CompressionSettings {
            enabled: self.boolean("compression.enabled"),
            threshold: self.number("compression.threshold"),
            target_ratio: self.number("compression.target_ratio"),
            protect_first_n: self.count("compression.protect_first_n"),
            protect_last_n: self.count("compression.protect_last_n"),
            auxiliary: self.auxiliary("compression"),
        }
    }

    fn auxiliary(&mut self, task: &str) -> Auxiliary {
        let key = |name: &str| format!("auxiliary.{task}.{name}");
        Auxiliary {
            provider: self.text(&key("provider")),
            model: self.text(&key("model")).filter(|model| !model.value.is_empty()),
            base_url: self.text(&key("base_url")).filter(|url| !url.value.is_empty()),
            api_key: self.secret(&key("api_key")).filter(|api_key| !api_key.value.expose().is_empty()),
            timeout: self.number(&key("timeout")),
            context_length: self.count(&key("context_length")),
        }
    }

    fn review(&mut self) -> ReviewSettings {
        let platforms = self.root.get("display.platforms").map(Node::entries).unwrap_or_default();
        let platforms: Vec<String> = platforms.iter().map(|entry| entry.key.clone()).collect();
        let notices_of = platforms.into_iter().filter_map(|platform| {
            let notices = self.notices(&format!("display.platforms.{platform}.memory_notifications"))?;
            Some((platform, notices))
        });
        let notices_of = notices_of.collect();
        ReviewSettings {
            turns: self.count("memory.nudge_interval"),
            steps: self.count("skills.creation_nudge_interval"),
            notices: self.notices("display.memory_notifications"),
            notices_of,
            auxiliary: self.auxiliary("background_review"),
        }
    }

    /// As Hermes: a bare `off` is a boolean to YAML, and an unknown value means `on`.
    fn notices(&mut self, path: &str) -> Option<At<String>> {
        let node = self.root.get(path).filter(|node| !is_nothing(&node.value))?;
        let word = match &node.value {
            Value::Bool(true) => "on".to_owned(),
            Value::Bool(false) => "off".to_owned(),
            value => as_text(value).unwrap_or_default().trim().to_lowercase(),
        };
        let known = ["off", "on", "verbose"].contains(&word.as_str());
        if !known {
            let text =
                format!("`{path}` is `off`, `on` or `verbose`; Hermes takes this for `on`, and so do we");
            self.notices.push(Notice { place: node.place, text });
        }
        Some(At { value: if known { word } else { "on".to_owned() }, place: node.place })
    }

    /// As Hermes: anything but `queue` and `steer` means `interrupt`. An older home may
    /// say `busy_text_mode` only.
    fn busy_input_mode(&mut self) -> Option<At<BusyInput>> {
        let written = self.first_text(&["display.busy_input_mode", "display.busy_text_mode"])?;
        let mode = match written.value.to_lowercase().as_str() {
            "queue" => BusyInput::Queue,
            "steer" => BusyInput::Steer,
            "interrupt" => BusyInput::Interrupt,
            _ => {
                let text =
                    "`display.busy_input_mode` is `queue`, `steer` or `interrupt`; Hermes takes this for \
                            `interrupt`, and so do we"
                        .to_owned();
                self.notices.push(Notice { place: written.place, text });
                BusyInput::Interrupt
            }
        };
        Some(written.map(|_| mode))
    }

    fn session_reset(&mut self) -> SessionReset {
        // By presence, as Hermes: an empty table at the top hides the nested one.
        let section = match self.root.entry("session_reset") {
            Some(_) => "session_reset",
            None => "gateway.session_reset",
        };
        SessionReset {
            by_type: self.resets_by("reset_by_type"),
            by_platform: self.resets_by("reset_by_platform"),
            ..self.reset(section)
        }
    }

    /// As `gateway.json` has them.
    pub fn legacy_resets(&mut self) -> SessionReset {
        SessionReset {
            by_type: self.resets_by("reset_by_type"),
            by_platform: self.resets_by("reset_by_platform"),
            ..self.reset("default_reset_policy")
        }
    }

    fn reset(&mut self, section: &str) -> SessionReset {
        SessionReset {
            mode: self.text(&format!("{section}.mode")),
            at_hour: self.count(&format!("{section}.at_hour")),
            idle_minutes: self.count(&format!("{section}.idle_minutes")),
            notify: self.boolean(&format!("{section}.notify")),
            notify_exclude_platforms: self.texts(&format!("{section}.notify_exclude_platforms")),
            bg_process_max_age_hours: self.count(&format!("{section}.bg_process_max_age_hours")),
            ..SessionReset::default()
        }
    }

    fn resets_by(&mut self, name: &str) -> Vec<(String, SessionReset)> {
        let section = match self.root.entry(name) {
            Some(_) => name.to_owned(),
            None => format!("gateway.{name}"),
        };
        let entries = self.root.get(&section).map(Node::entries).unwrap_or_default();
        let names: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        names.into_iter().map(|key| (key.clone(), self.reset(&format!("{section}.{key}")))).collect()
    }

    fn texts(&mut self, path: &str) -> Option<At<Vec<String>>> {
        let node = self.root.get(path).filter(|node| !is_nothing(&node.value))?;
        match &node.value {
            Value::List(items) => {
                let value = items.iter().filter_map(|item| as_text(&item.value)).collect();
                Some(At { value, place: node.place })
            }
            _ => self.wrong(path, node, "a list"),
        }
    }

    fn api_server(&mut self) -> ApiServer {
        let [host, port, key] = ["host", "port", "key"].map(|name| {
            ["platforms", "gateway.platforms"].map(|platforms| format!("{platforms}.api_server.extra.{name}"))
        });
        ApiServer {
            host: self.text(&host[0]).or_else(|| self.text(&host[1])),
            port: self.count(&port[0]).or_else(|| self.count(&port[1])),
            key: self.secret(&key[0]).or_else(|| self.secret(&key[1])),
            cors_origins: self.cors_origins(),
        }
    }

    fn cors_origins(&self) -> Option<At<Vec<String>>> {
        let places =
            ["platforms", "gateway.platforms"].map(|it| format!("{it}.api_server.extra.cors_origins"));
        let node =
            places.iter().find_map(|place| self.root.get(place)).filter(|node| !is_nothing(&node.value))?;
        let value = match &node.value {
            Value::List(items) => items.iter().filter_map(|item| as_text(&item.value)).collect(),
            value => as_text(value).map(|text| split_origins(&text)).unwrap_or_default(),
        };
        Some(At { value, place: node.place })
    }

    /// A rule that Hermes would skip is skipped, and named.
    fn profile_routes(&mut self) -> ProfileRoutes {
        let root = self.root;
        let node = root.get("profile_routes").or_else(|| root.get("gateway.profile_routes"));
        let Some(Value::List(items)) = node.map(|node| &node.value) else { return ProfileRoutes::default() };
        ProfileRoutes::new(items.iter().filter_map(|item| self.profile_route(item)).collect())
    }

    fn profile_route(&mut self, node: &'a Node) -> Option<ProfileRoute> {
        let outer = std::mem::replace(&mut self.root, node);
        let enabled = self.boolean("enabled").is_none_or(|at| at.value);
        let mut text = |name: &str| self.text(name).map(|at| at.value);
        let route = ProfileRoute {
            name: text("name").unwrap_or_default(),
            platform: text("platform").unwrap_or_default(),
            profile: text("profile").unwrap_or_default().to_lowercase(),
            guild_id: text("guild_id"),
            chat_id: text("chat_id"),
            thread_id: text("thread_id"),
        };
        self.root = outer;
        let usable = !route.platform.is_empty() && profile::is_name(&route.profile);
        if enabled && !usable {
            let text = "this profile route has no effect: give it a `platform` and the name of a `profile`";
            self.notices.push(Notice { place: node.place, text: text.to_owned() });
        }
        (enabled && usable).then_some(route)
    }

    fn variables(&mut self) -> Vec<(String, At<Secret>)> {
        let scalar = |node: &Node| match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(true) => Some("True".to_owned()),
            Value::Bool(false) => Some("False".to_owned()),
            _ => None,
        };
        let at = |node: &Node, text| At { value: Secret::new(text), place: node.place };
        let entries = self.root.entries().iter();
        entries.filter_map(|e| scalar(&e.node).map(|text| (e.key.clone(), at(&e.node, text)))).collect()
    }

    /// Our own table. Every notice of this reader is an error.
    pub fn own(&mut self) -> Own {
        let Some(entry) = self.root.entry("throughline") else { return Own::default() };
        self.only(&entry.node, "throughline", &OWN_KEYS);
        Own {
            log_level: self.text("throughline.log_level"),
            body_limit_bytes: self.count("throughline.body_limit_bytes"),
            stop_on_disconnect: self.boolean("throughline.stop_on_disconnect"),
            allow_unsafe_filesystem: self.boolean("throughline.allow_unsafe_filesystem"),
            turn_tokens_max: self.count("throughline.turn_tokens_max"),
            hops_max: self.count("throughline.hops_max"),
            chain_turns_max: self.count("throughline.chain_turns_max"),
            chain_calls_max: self.count("throughline.chain_calls_max"),
            chain_platforms: self.chain_platforms(),
            chain_quiet_minutes: self.count("throughline.chain_quiet_minutes"),
            compression_floor: self.count("throughline.compression_floor"),
            landlock: self.boolean("throughline.landlock"),
            open_in_home: self.own_texts("throughline.open_in_home"),
            recall: self.boolean("throughline.recall"),
            memory_per_person: self.boolean("throughline.memory_per_person"),
            recall_patience_ms: self.count("throughline.recall_patience_ms"),
            expiry_watch_seconds: self.count("throughline.expiry_watch_seconds"),
        }
    }

    fn chain_platforms(&mut self) -> Vec<ChainPlatform> {
        const PATH: &str = "throughline.chain_platforms";
        let Some(node) = self.root.get(PATH) else { return Vec::new() };
        self.only(node, PATH, &CHAIN_PLATFORMS);
        let known = node.entries().iter().filter(|entry| CHAIN_PLATFORMS.contains(&entry.key.as_str()));
        let limits = known.map(|entry| {
            let path = format!("{PATH}.{}", entry.key);
            self.only(&entry.node, &path, &CHAIN_KEYS);
            let mut count = |key: &str| self.count(&format!("{path}.{key}"));
            let [turns_max, calls_max] = CHAIN_KEYS.map(&mut count);
            ChainPlatform { platform: entry.key.clone(), turns_max, calls_max }
        });
        limits.collect()
    }

    /// A list of ours. Hermes passes over what is no text in a list; here it is a mistake.
    fn own_texts(&mut self, path: &str) -> Option<At<Vec<String>>> {
        let texts = self.texts(path)?;
        let items = self.root.get(path).into_iter().flat_map(|node| match &node.value {
            Value::List(items) => items.as_slice(),
            _ => &[],
        });
        for item in items.filter(|item| as_text(&item.value).is_none()) {
            self.wrong::<()>(path, item, "a list of texts");
        }
        Some(texts)
    }

    /// A mapping of ours with these keys and no others.
    fn only(&mut self, node: &Node, path: &str, known: &[&str]) {
        self.notices.extend(misplaced(node, path, known));
    }

    // ------------------------------------------------------------------------------ plain values

    fn text(&mut self, path: &str) -> Option<At<String>> {
        let node = self.root.get(path)?;
        if is_nothing(&node.value) {
            return None;
        }
        let Some(text) = as_text(&node.value) else { return self.wrong(path, node, "text") };
        if let Some((_, name)) = reference(&text) {
            let text = format!("`{path}` refers to `${{{name}}}`, which is not set");
            self.notices.push(Notice { place: node.place, text });
        }
        Some(At { value: text, place: node.place })
    }

    fn first_text(&mut self, paths: &[&str]) -> Option<At<String>> {
        paths.iter().find_map(|path| self.text(path))
    }

    /// A secret that still holds a reference is none.
    fn secret(&mut self, path: &str) -> Option<At<Secret>> {
        let text = self.text(path)?;
        reference(&text.value).is_none().then(|| text.map(Secret::new))
    }

    fn count(&mut self, path: &str) -> Option<At<u64>> {
        self.plain(path, as_count, COUNT)
    }

    /// A number with or without a fraction, not negative.
    fn number(&mut self, path: &str) -> Option<At<f64>> {
        self.plain(path, as_number, NUMBER)
    }

    fn boolean(&mut self, path: &str) -> Option<At<bool>> {
        self.plain(path, as_boolean, BOOLEAN)
    }

    fn plain<T>(&mut self, path: &str, read: fn(&Value) -> Option<T>, expected: &str) -> Option<At<T>> {
        let node = self.root.get(path).filter(|node| !is_nothing(&node.value))?;
        match read(&node.value) {
            Some(value) => Some(At { value, place: node.place }),
            None => self.wrong(path, node, expected),
        }
    }

    /// Header values carry credentials as often as not.
    fn headers(&mut self, path: &str) -> Vec<(String, Secret)> {
        let entries = self.root.get(path).map(Node::entries).unwrap_or_default();
        entries
            .iter()
            .filter_map(|entry| match &entry.node.value {
                Value::Text(text) => Some((entry.key.clone(), Secret::new(text.as_str()))),
                Value::Integer(number) => Some((entry.key.clone(), Secret::new(number.to_string()))),
                _ => None,
            })
            .collect()
    }

    fn wrong<T>(&mut self, path: &str, node: &Node, expected: &str) -> Option<T> {
        let text = format!("`{path}` takes {expected}; what is written is not used");
        self.notices.push(Notice { place: node.place, text });
        None
    }
}

pub(super) const COUNT: &str = "a whole number, zero or more";
pub(super) const NUMBER: &str = "a number, zero or more";
pub(super) const BOOLEAN: &str = "`true` or `false`";

/// As good as not written.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Text(text) => text.trim().is_empty(),
        _ => false,
    }
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.trim().to_owned()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

pub(super) fn as_count(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Number(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => {
            Some(*number as u64)
        }
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn as_number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

pub(super) fn as_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Integer(0) => Some(false),
        Value::Integer(1) => Some(true),
        Value::Text(text) => match text.trim().to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// What stands in a mapping of ours that is none, or below a key that we do not have.
pub(super) fn misplaced(node: &Node, path: &str, known: &[&str]) -> Vec<Notice> {
    if !matches!(node.value, Value::Map(_) | Value::Null) {
        let text = format!("`{path}` is a mapping, and this is {}", node.value.kind());
        return vec![Notice { place: node.place, text }];
    }
    let unknown = node.entries().iter().filter(|entry| !known.contains(&entry.key.as_str()));
    unknown.map(|entry| Notice { place: entry.place, text: unknown_own(path, &entry.key, known) }).collect()
}

fn unknown_own(path: &str, key: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|known| (keys::distance(key, known), known)).min();
    match nearest.filter(|(distance, known)| *distance <= known.len() / 3) {
        Some((_, meant)) => format!("`{path}.{key}` does not exist; did you mean `{path}.{meant}`?"),
        None => format!("`{path}.{key}` does not exist; there are {}", known.join(", ")),
    }
}
