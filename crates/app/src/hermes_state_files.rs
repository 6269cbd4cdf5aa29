//! What a home says about its gateway to Hermes' tools: `gateway_state.json` and
//! `channel_directory.json`, kept up to date while it runs and left behind truthful when it ends.
//!
//! Written whole or not at all, for the owner alone, and only when something has changed. A file that
//! cannot be written does no harm: it is news, not memory.

use std::collections::BTreeMap;
use throughline_core::Time;
use throughline_core::input::AGENT_PLATFORM;
use throughline_core::port::{AgentApi, Health, Question, Reading, Status};
use throughline_hermes::entry::{SessionEntry, entry_from_json};
use throughline_hermes::local::system_zone;
use throughline_hermes::state::{GatewayState, Stage, directory};
use throughline_home::home::{self, CHANNELS_FILE, Home, STATE_FILE, replace_lightly};

const ALIASES_FILE: &str = "channel_aliases.json";

/// The API, as Hermes counts it among its platforms.
const API: &str = "api_server";

pub struct HermesStateFiles {
    home: Home,
    /// What the file says.
    told: GatewayState,
    /// Since when each platform is as it is.
    changed: BTreeMap<String, Time>,
}

impl HermesStateFiles {
    /// `profiles`: all that the same gateway serves, where it serves several.
    pub fn new(home: &Home, profiles: Vec<String>, now: Time) -> Self {
        let told = GatewayState {
            record: home::own_record(env!("CARGO_PKG_VERSION")),
            stage: Stage::Starting,
            exit_reason: None,
            restart_requested: false,
            active: 0,
            platforms: Vec::new(),
            profiles,
        };
        let presence = Self { home: home.clone(), told, changed: BTreeMap::new() };
        presence.write(now);
        presence
    }

    /// The gateway runs, and this is how. Writes only what is news.
    pub fn runs(&mut self, status: &Status, now: Time) {
        let mut platforms: Vec<_> =
            status.platforms.iter().filter(|(name, _)| name != AGENT_PLATFORM).cloned().collect();
        platforms.push((API.to_owned(), Health::Up));
        let stage = if status.draining { Stage::Draining } else { Stage::Running };
        let told = &mut self.told;
        if (stage, status.running_turns, &platforms) == (told.stage, told.active, &told.platforms) {
            return;
        }
        for platform in platforms.iter().filter(|platform| !told.platforms.contains(platform)) {
            self.changed.insert(platform.0.clone(), now);
        }
        (told.stage, told.active, told.platforms) = (stage, status.running_turns, platforms);
        self.write(now);
    }

    /// The last word.
    pub fn ends(mut self, stage: Stage, reason: Option<String>, restart_requested: bool, now: Time) {
        let platforms = Vec::new();
        self.told =
            GatewayState { stage, exit_reason: reason, restart_requested, active: 0, platforms, ..self.told };
        self.write(now);
    }

    fn write(&self, now: Time) {
        let text = self.told.emit(now, &self.changed);
        let _ = replace_lightly(&self.home.path().join(STATE_FILE), &text);
    }
}

/// Lists the chats that can be written to.
pub async fn list_channels(home: &Home, api: &dyn AgentApi) {
    let served = api.status().platforms.into_iter().map(|(name, _)| name);
    let served: Vec<String> = served.filter(|name| name != AGENT_PLATFORM).collect();
    let path = home.path().join(CHANNELS_FILE);
    if served.is_empty() && !path.exists() {
        return; // there are no chats, and no list of them
    }
    let entries: Vec<SessionEntry> = match served.is_empty() {
        true => Vec::new(),
        false => match api.read(Question::Routes).await {
            Ok(Reading::Routes(routes)) => {
                routes.iter().filter_map(|route| entry_from_json(route.as_str()).ok()).collect()
            }
            _ => return, // the store is away; the list is as good as before
        },
    };
    let aliases = std::fs::read_to_string(home.path().join(ALIASES_FILE)).ok();
    let text = directory(&entries, &served, aliases.as_deref(), api.now(), &system_zone());
    let _ = replace_lightly(&path, &text);
}
