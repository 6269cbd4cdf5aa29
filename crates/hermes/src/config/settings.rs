//! The settings by section, as they were written. What was not written is None; which default then holds is not decided here.

use super::tree::Place;
use crate::profile::ProfileRoutes;
use throughline_core::redact::Secret;
use throughline_core::session::BusyInput;

/// A value and where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub place: Place,
}

impl<T> At<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> At<U> {
        At { value: change(self.value), place: self.place }
    }
}

/// What Hermes' part of the file says.
#[derive(Clone, Debug, Default)]
pub struct HermesSettings {
    pub model: ModelSettings,
    /// `providers:` and the older `custom_providers:`, in the order in which Hermes tries them.
    pub providers: Vec<NamedProvider>,
    pub agent: AgentSettings,
    pub compression: CompressionSettings,
    pub review: ReviewSettings,
    pub busy_input_mode: Option<At<BusyInput>>,
    pub session_reset: SessionReset,
    pub api_server: ApiServer,
    pub timezone: Option<At<String>>,
    pub log_level: Option<At<String>>,
    pub logs: LogSettings,
    /// One gateway serves every profile of the root.
    pub multiplex_profiles: Option<At<bool>>,
    pub profile_routes: ProfileRoutes,
    pub media_delivery: MediaDelivery,
    /// Plain values at the top: Hermes treats them as environment variables that are not set otherwise.
    pub variables: Vec<(String, At<Secret>)>,
}

/// Which files a reply may send. What stands here wins over the variables of the same meaning.
#[derive(Clone, Debug, Default)]
pub struct MediaDelivery {
    /// `gateway.strict`
    pub strict: Option<bool>,
    /// `gateway.media_delivery_allow_dirs`: a list, or one text with what separates paths.
    pub allow_dirs: Vec<String>,
    /// `gateway.trust_recent_files`
    pub trust_recent: Option<bool>,
    /// `gateway.trust_recent_files_seconds`
    pub recent_seconds: Option<f64>,
}

/// `model:` is a name, or a mapping with more to say.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    pub default: Option<At<String>>,
    pub provider: Option<At<String>>,
    pub base_url: Option<At<String>>,
    pub api_key: Option<At<Secret>>,
    pub api_mode: Option<At<String>>,
    pub context_length: Option<At<u64>>,
    pub max_tokens: Option<At<u64>>,
    pub headers: Vec<(String, Secret)>,
}

/// An endpoint that the user gave a name.
#[derive(Clone, Debug)]
pub struct NamedProvider {
    /// Its key under `providers:`, or its `name`.
    pub name: String,
    /// Its `name` for people, if that differs.
    pub title: Option<String>,
    pub place: Place,
    pub enabled: bool,
    pub base_url: Option<At<String>>,
    pub api_key: Option<At<Secret>>,
    /// The environment variable that holds its key.
    pub key_variable: Option<At<String>>,
    pub api_mode: Option<At<String>>,
    pub model: Option<At<String>>,
    pub context_length: Option<At<u64>>,
    pub max_tokens: Option<At<u64>>,
    pub headers: Vec<(String, Secret)>,
    pub timeouts: ModelTimeouts,
    /// Of some of its models, where they differ.
    pub timeouts_of: Vec<(String, ModelTimeouts)>,
}

/// How long to wait for a model, in seconds.
#[derive(Clone, Debug, Default)]
pub struct ModelTimeouts {
    /// `request_timeout_seconds`, or `timeout_seconds` of a model: for all of an answer.
    pub request: Option<At<f64>>,
    /// `stale_timeout_seconds`: for the next piece of it.
    pub stale: Option<At<f64>>,
}

#[derive(Clone, Debug, Default)]
pub struct AgentSettings {
    pub local_stream_stale_timeout: Option<At<f64>>,
    pub max_turns: Option<At<u64>>,
    /// How much the model is to think. `none` where the file says no in any of Hermes' ways.
    pub reasoning_effort: Option<At<String>>,
    pub restart_drain_timeout: Option<At<f64>>,
}

#[derive(Clone, Debug, Default)]
pub struct CompressionSettings {
    pub enabled: Option<At<bool>>,
    pub threshold: Option<At<f64>>,
    pub target_ratio: Option<At<f64>>,
    pub protect_first_n: Option<At<u64>>,
    pub protect_last_n: Option<At<u64>>,
    pub auxiliary: Auxiliary,
}

/// When a conversation is reviewed in the background, by which model, and how much people hear of it.
#[derive(Clone, Debug, Default)]
pub struct ReviewSettings {
    /// `memory.nudge_interval`, in turns.
    pub turns: Option<At<u64>>,
    /// `skills.creation_nudge_interval`, in steps with calls.
    pub steps: Option<At<u64>>,
    /// `display.memory_notifications`: `off`, `on` or `verbose`.
    pub notices: Option<At<String>>,
    /// And under `display.platforms`, by platform.
    pub notices_of: Vec<(String, At<String>)>,
    /// `auxiliary.background_review`.
    pub auxiliary: Auxiliary,
}

/// `auxiliary.<task>`: who works at it instead of the model that answers.
#[derive(Clone, Debug, Default)]
pub struct Auxiliary {
    pub provider: Option<At<String>>,
    pub model: Option<At<String>>,
    pub base_url: Option<At<String>>,
    pub api_key: Option<At<Secret>>,
    /// In seconds.
    pub timeout: Option<At<f64>>,
    pub context_length: Option<At<u64>>,
}

#[derive(Clone, Debug, Default)]
pub struct SessionReset {
    pub mode: Option<At<String>>,
    pub at_hour: Option<At<u64>>,
    pub idle_minutes: Option<At<u64>>,
    pub notify: Option<At<bool>>,
    pub notify_exclude_platforms: Option<At<Vec<String>>>,
    pub bg_process_max_age_hours: Option<At<u64>>,
    /// `reset_by_type` and `reset_by_platform`: what holds instead, as a whole.
    pub by_type: Vec<(String, SessionReset)>,
    pub by_platform: Vec<(String, SessionReset)>,
}

impl SessionReset {
    /// With what `gateway.json` says. It is the only file in which Hermes looks for types and platforms, so
    /// there it wins; what holds in general it says only where `session_reset` says nothing.
    #[must_use]
    pub fn with(self, legacy: SessionReset) -> SessionReset {
        let says_nothing = self.mode.is_none()
            && self.at_hour.is_none()
            && self.idle_minutes.is_none()
            && self.notify.is_none()
            && self.notify_exclude_platforms.is_none()
            && self.bg_process_max_age_hours.is_none();
        let (by_type, by_platform) = (
            over(self.by_type.clone(), &legacy.by_type),
            over(self.by_platform.clone(), &legacy.by_platform),
        );
        let common = if says_nothing { legacy } else { self };
        SessionReset { by_type, by_platform, ..common }
    }
}

fn over(
    mut written: Vec<(String, SessionReset)>,
    legacy: &[(String, SessionReset)],
) -> Vec<(String, SessionReset)> {
    written.retain(|(name, _)| !legacy.iter().any(|(known, _)| known == name));
    written.extend_from_slice(legacy);
    written
}

/// How the files of `logging:` are kept.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    pub max_size_mb: Option<At<f64>>,
    pub backup_count: Option<At<u64>>,
}

/// `platforms.api_server.extra`.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    pub host: Option<At<String>>,
    pub port: Option<At<u64>>,
    pub key: Option<At<Secret>>,
    /// A list, or one text with commas.
    pub cors_origins: Option<At<Vec<String>>>,
}

/// Origins of web pages as a text lists them.
pub fn split_origins(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|origin| !origin.is_empty()).map(str::to_owned).collect()
}

/// `throughline:`, where we alone decide what is right.
#[derive(Clone, Debug, Default)]
pub struct Own {
    pub log_level: Option<At<String>>,
    pub body_limit_bytes: Option<At<u64>>,
    /// A turn ends when the API client that asked for it hangs up.
    pub stop_on_disconnect: Option<At<bool>>,
    /// The user says that the home's file system can be trusted with a write-ahead log.
    pub allow_unsafe_filesystem: Option<At<bool>>,
    /// What one turn may cost, its children included.
    pub turn_tokens_max: Option<At<u64>>,
    /// Below so many tokens nothing is compressed ahead of time.
    pub compression_floor: Option<At<u64>>,
    /// Through how many agents a message may pass before it stops.
    pub hops_max: Option<At<u64>>,
    /// How many turns, and requests to models, one human message may cause among agents.
    pub chain_turns_max: Option<At<u64>>,
    pub chain_calls_max: Option<At<u64>>,
    /// The same for single platforms.
    pub chain_platforms: Vec<ChainPlatform>,
    /// After so many minutes without a word of theirs, bots of others are heard again.
    pub chain_quiet_minutes: Option<At<u64>>,
    /// Whether the local terminal is confined by the kernel.
    pub landlock: Option<At<bool>>,
    /// Names in a home, unknown to [`crate::file_policy`], that its agent may read and write.
    pub open_in_home: Option<At<Vec<String>>>,
    /// Whether a conversation that begins is reminded of earlier ones where no memory provider is.
    pub recall: Option<At<bool>>,
    /// Whether each person has notes of their own instead of one `MEMORY.md` for all.
    pub memory_per_person: Option<At<bool>>,
    /// How long a turn waits for what its memory knows, in milliseconds.
    pub recall_patience_ms: Option<At<u64>>,
    /// How often the gateway looks for expired conversations, in seconds.
    pub expiry_watch_seconds: Option<At<u64>>,
}

/// Limits of one platform. What is left out is as everywhere.
#[derive(Clone, Debug)]
pub struct ChainPlatform {
    pub platform: String,
    pub turns_max: Option<At<u64>>,
    pub calls_max: Option<At<u64>>,
}
