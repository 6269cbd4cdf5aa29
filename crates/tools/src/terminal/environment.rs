//! What a command finds in its environment: everything the user's own shell would, but no secret of
//! the gateway's.
//!
//! Three kinds of variable never reach a command: what Hermes manages (keys of providers, tokens of
//! platforms, who may talk to it), what it makes up at run time, and what `.env` defines. A
//! passthrough, from the configuration or from a skill, frees a variable of the third kind only: no
//! skill can ask for the gateway's own keys.

use super::settings::{HomeMode, TerminalSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use throughline_core::tool::Caller;

/// What Hermes 0.19 keeps to itself, sorted.
#[rustfmt::skip]
const MANAGED: [&str; 317] = [
    "AGENT_BROWSER_ENGINE", "ALIBABA_CODING_PLAN_API_KEY", "ALIBABA_CODING_PLAN_BASE_URL",
    "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_TOKEN", "API_SERVER_ENABLED",
    "API_SERVER_HOST", "API_SERVER_KEY", "API_SERVER_MODEL_NAME", "API_SERVER_PORT", "ARCEEAI_API_KEY",
    "ARCEE_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK", "AZURE_FOUNDRY_API_KEY", "AZURE_FOUNDRY_BASE_URL",
    "BEDROCK_BASE_URL", "BLUEBUBBLES_ALLOWED_USERS", "BLUEBUBBLES_ALLOW_ALL_USERS",
    "BLUEBUBBLES_PASSWORD", "BLUEBUBBLES_SERVER_URL", "BRAVE_SEARCH_API_KEY", "BROWSERBASE_API_KEY",
    "BROWSERBASE_PROJECT_ID", "BROWSER_USE_API_KEY", "BRV_API_KEY", "CAMOFOX_API_KEY", "CAMOFOX_URL",
    "COHERE_API_KEY", "COPILOT_ACP_BASE_URL", "COPILOT_API_BASE_URL", "COPILOT_GITHUB_TOKEN",
    "DASHSCOPE_API_KEY", "DASHSCOPE_BASE_URL", "DAYTONA_API_KEY", "DEEPINFRA_API_KEY",
    "DEEPINFRA_BASE_URL", "DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "DINGTALK_ALLOWED_USERS",
    "DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET", "DINGTALK_HOME_CHANNEL",
    "DINGTALK_HOME_CHANNEL_NAME", "DINGTALK_WEBHOOK_URL", "DISCORD_ALLOWED_USERS",
    "DISCORD_ALLOW_ALL_USERS", "DISCORD_AUTO_THREAD", "DISCORD_BOT_TOKEN",
    "DISCORD_FREE_RESPONSE_CHANNELS", "DISCORD_HOME_CHANNEL", "DISCORD_HOME_CHANNEL_NAME",
    "DISCORD_REPLY_TO_MODE", "DISCORD_REQUIRE_MENTION", "ELEVENLABS_API_KEY", "EMAIL_ADDRESS",
    "EMAIL_ALLOWED_USERS", "EMAIL_HOME_ADDRESS", "EMAIL_HOME_ADDRESS_NAME", "EMAIL_IMAP_HOST",
    "EMAIL_PASSWORD", "EMAIL_SMTP_HOST", "EMAIL_SMTP_PORT", "EXA_API_KEY", "FAL_KEY",
    "FEISHU_ALLOWED_USERS", "FEISHU_ALLOW_ALL_USERS", "FEISHU_APP_ID", "FEISHU_APP_SECRET",
    "FEISHU_DOMAIN", "FEISHU_HOME_CHANNEL", "FEISHU_HOME_CHANNEL_NAME", "FIRECRAWL_API_KEY",
    "FIRECRAWL_API_URL", "FIRECRAWL_BROWSER_TTL", "FIRECRAWL_GATEWAY_URL", "FIREWORKS_API_KEY",
    "GATEWAY_ALLOWED_USERS", "GATEWAY_ALLOW_ALL_USERS", "GATEWAY_PROXY_KEY", "GATEWAY_PROXY_URL",
    "GATEWAY_RELAY_DELIVERY_KEY", "GATEWAY_RELAY_ID", "GATEWAY_RELAY_SECRET", "GEMINI_API_KEY",
    "GEMINI_BASE_URL", "GH_TOKEN", "GITHUB_APP_ID", "GITHUB_APP_INSTALLATION_ID",
    "GITHUB_APP_PRIVATE_KEY_PATH", "GITHUB_TOKEN", "GLM_API_KEY", "GLM_BASE_URL", "GMI_API_KEY",
    "GMI_BASE_URL", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CHAT_ALLOWED_USERS",
    "GOOGLE_CHAT_HOME_CHANNEL", "GOOGLE_CHAT_HTTP_EVENTS_AUDIENCE",
    "GOOGLE_CHAT_HTTP_EVENTS_SERVICE_ACCOUNT_EMAIL", "GOOGLE_CHAT_HTTP_EVENTS_URL",
    "GOOGLE_CHAT_PROJECT_ID", "GOOGLE_CHAT_SERVICE_ACCOUNT_JSON", "GOOGLE_CHAT_SUBSCRIPTION_NAME",
    "GROQ_API_KEY", "HASS_TOKEN", "HASS_URL", "HELICONE_API_KEY", "HERMES_DASHBOARD_SESSION_TOKEN",
    "HERMES_LANGFUSE_BASE_URL", "HERMES_LANGFUSE_PUBLIC_KEY", "HERMES_LANGFUSE_SECRET_KEY",
    "HERMES_SIMPLEX_TEXT_BATCH_DELAY", "HF_BASE_URL", "HF_TOKEN", "HINDSIGHT_API_KEY",
    "HINDSIGHT_API_URL", "HONCHO_API_KEY", "HONCHO_BASE_URL", "IRC_ALLOWED_USERS",
    "IRC_ALLOW_ALL_USERS", "IRC_CHANNEL", "IRC_HOME_CHANNEL", "IRC_NICKNAME", "IRC_NICKSERV_PASSWORD",
    "IRC_PORT", "IRC_SERVER", "IRC_SERVER_PASSWORD", "IRC_USE_TLS", "KILOCODE_API_KEY",
    "KILOCODE_BASE_URL", "KIMI_API_KEY", "KIMI_BASE_URL", "KIMI_CN_API_KEY", "KIMI_CODING_API_KEY",
    "KREA_API_KEY", "LINE_ALLOWED_GROUPS", "LINE_ALLOWED_ROOMS", "LINE_ALLOWED_USERS",
    "LINE_ALLOW_ALL_USERS", "LINE_CHANNEL_ACCESS_TOKEN", "LINE_CHANNEL_SECRET", "LINE_HOME_CHANNEL",
    "LINE_HOST", "LINE_PORT", "LINE_PUBLIC_URL", "LINE_SLOW_RESPONSE_THRESHOLD", "LLM_MODEL",
    "LM_API_KEY", "LM_BASE_URL", "MATRIX_ACCESS_TOKEN", "MATRIX_ALLOWED_USERS",
    "MATRIX_ALLOW_ALL_USERS", "MATRIX_AUTO_THREAD", "MATRIX_DEVICE_ID", "MATRIX_DM_AUTO_THREAD",
    "MATRIX_FREE_RESPONSE_ROOMS", "MATRIX_HOMESERVER", "MATRIX_HOME_CHANNEL",
    "MATRIX_HOME_CHANNEL_NAME", "MATRIX_PASSWORD", "MATRIX_RECOVERY_KEY", "MATRIX_REQUIRE_MENTION",
    "MATRIX_USER_ID", "MATTERMOST_ALLOWED_CHANNELS", "MATTERMOST_ALLOWED_USERS",
    "MATTERMOST_ALLOW_ALL_USERS", "MATTERMOST_FREE_RESPONSE_CHANNELS", "MATTERMOST_HOME_CHANNEL",
    "MATTERMOST_REPLY_MODE", "MATTERMOST_REQUIRE_MENTION", "MATTERMOST_TOKEN", "MATTERMOST_URL",
    "MEM0_API_KEY", "MINIMAX_API_KEY", "MINIMAX_BASE_URL", "MINIMAX_CN_API_KEY", "MINIMAX_CN_BASE_URL",
    "MISTRAL_API_KEY", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "NOVITA_API_KEY", "NOVITA_BASE_URL",
    "NTFY_ALLOWED_USERS", "NTFY_ALLOW_ALL_USERS", "NTFY_HOME_CHANNEL", "NTFY_HOME_CHANNEL_NAME",
    "NTFY_MARKDOWN", "NTFY_PUBLISH_TOPIC", "NTFY_SERVER_URL", "NTFY_TOKEN", "NTFY_TOPIC",
    "NVIDIA_API_KEY", "NVIDIA_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_BASE_URL", "OPENAI_API_BASE",
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENCODE_GO_API_KEY",
    "OPENCODE_GO_BASE_URL", "OPENCODE_ZEN_API_KEY", "OPENCODE_ZEN_BASE_URL", "OPENROUTER_API_KEY",
    "OPENVIKING_API_KEY", "OPENVIKING_ENDPOINT", "PARALLEL_API_KEY", "PERPLEXITY_API_KEY",
    "PHOTON_ALLOWED_USERS", "PHOTON_ALLOW_ALL_USERS", "PHOTON_DASHBOARD_HOST", "PHOTON_HOME_CHANNEL",
    "PHOTON_HOME_CHANNEL_NAME", "PHOTON_MARKDOWN", "PHOTON_MENTION_PATTERNS", "PHOTON_NODE_BIN",
    "PHOTON_PROJECT_ID", "PHOTON_PROJECT_SECRET", "PHOTON_REACTIONS", "PHOTON_REQUIRE_MENTION",
    "PHOTON_SIDECAR_AUTOSTART", "PHOTON_SIDECAR_PORT", "PHOTON_SPECTRUM_HOST", "PHOTON_TELEMETRY",
    "QQBOT_HOME_CHANNEL", "QQBOT_HOME_CHANNEL_NAME", "QQ_ALLOWED_USERS", "QQ_ALLOW_ALL_USERS",
    "QQ_APP_ID", "QQ_CLIENT_SECRET", "QQ_GROUP_ALLOWED_USERS", "QQ_SANDBOX", "RETAINDB_API_KEY",
    "RETAINDB_BASE_URL", "SEARXNG_URL", "SIGNAL_ACCOUNT", "SIGNAL_ALLOWED_USERS",
    "SIGNAL_GROUP_ALLOWED_USERS", "SIGNAL_HOME_CHANNEL", "SIGNAL_HOME_CHANNEL_NAME", "SIGNAL_HTTP_URL",
    "SIGNAL_IGNORE_STORIES", "SIMPLEX_ALLOWED_USERS", "SIMPLEX_ALLOW_ALL_USERS", "SIMPLEX_AUTO_ACCEPT",
    "SIMPLEX_GROUP_ALLOWED", "SIMPLEX_HOME_CHANNEL", "SIMPLEX_HOME_CHANNEL_NAME", "SIMPLEX_WS_URL",
    "SLACK_ALLOWED_USERS", "SLACK_ALLOW_ALL_USERS", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN",
    "SLACK_HOME_CHANNEL", "SLACK_HOME_CHANNEL_NAME", "SMS_ALLOWED_USERS", "SMS_HOME_CHANNEL",
    "STEPFUN_API_KEY", "STEPFUN_BASE_URL", "SUDO_PASSWORD", "SUPERMEMORY_API_KEY", "TAVILY_API_KEY",
    "TEAMS_ALLOWED_USERS", "TEAMS_ALLOW_ALL_USERS", "TEAMS_CLIENT_ID", "TEAMS_CLIENT_SECRET",
    "TEAMS_HOME_CHANNEL", "TEAMS_HOME_CHANNEL_NAME", "TEAMS_PORT", "TEAMS_TENANT_ID",
    "TELEGRAM_ALLOWED_USERS", "TELEGRAM_ALLOW_ALL_USERS", "TELEGRAM_BOT_TOKEN",
    "TELEGRAM_HOME_CHANNEL", "TELEGRAM_HOME_CHANNEL_NAME", "TELEGRAM_PROXY", "TOGETHER_API_KEY",
    "TOKENHUB_API_KEY", "TOKENHUB_BASE_URL", "TOOL_GATEWAY_DOMAIN", "TOOL_GATEWAY_SCHEME",
    "TOOL_GATEWAY_USER_TOKEN", "TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN", "TWILIO_PHONE_NUMBER",
    "UPSTAGE_API_KEY", "UPSTAGE_BASE_URL", "VERTEX_CREDENTIALS_PATH", "VOICE_TOOLS_OPENAI_KEY",
    "WEBHOOK_ENABLED", "WEBHOOK_PORT", "WEBHOOK_SECRET", "WECOM_ALLOWED_USERS", "WECOM_BOT_ID",
    "WECOM_CALLBACK_AGENT_ID", "WECOM_CALLBACK_CORP_ID", "WECOM_CALLBACK_CORP_SECRET",
    "WECOM_CALLBACK_ENCODING_AES_KEY", "WECOM_CALLBACK_TOKEN", "WECOM_HOME_CHANNEL", "WECOM_SECRET",
    "WECOM_WEBSOCKET_URL", "WHATSAPP_ALLOWED_USERS", "WHATSAPP_ALLOW_ALL_USERS", "WHATSAPP_ENABLED",
    "WHATSAPP_HOME_CHANNEL", "WHATSAPP_HOME_CHANNEL_NAME", "WHATSAPP_MODE", "XAI_API_KEY",
    "XAI_BASE_URL", "XIAOMI_API_KEY", "XIAOMI_BASE_URL", "ZAI_API_KEY", "Z_AI_API_KEY",
];

/// Where programs are looked for when a service was started with little of a PATH.
const PATH_FALLBACKS: [&str; 8] = [
    "/opt/homebrew/bin",
    "/opt/homebrew/sbin",
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The gateway's own virtual environment would be taken for the project's.
const VIRTUAL_ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// A name by which Hermes hands down a secret that it made up, and any of the gateway's own settings: a
/// backup's passphrase is one of them.
fn is_internal(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    name.starts_with("_HERMES_FORCE_")
        || (name.starts_with("AUXILIARY_") && ends(&["_API_KEY", "_BASE_URL"]))
        || (name.starts_with("GATEWAY_RELAY_") && ends(&["_SECRET", "_KEY", "_TOKEN"]))
        || name.starts_with("THROUGHLINE_")
}

/// A variable that no passthrough can free.
pub fn is_managed(name: &str) -> bool {
    MANAGED.binary_search(&name).is_ok() || is_internal(name)
}

pub type EnvironmentVariables = BTreeMap<OsString, OsString>;

/// The environment of a command of this caller. `skills` are the names that skills of its session
/// have declared.
pub fn of_command(
    settings: &TerminalSettings,
    skills: &BTreeSet<String>,
    caller: &Caller,
) -> EnvironmentVariables {
    let mut variables = EnvironmentVariables::new();
    for (name, value) in &settings.inherited {
        if reaches(settings, skills, name) {
            variables.insert(name.clone(), value.clone());
        }
    }
    for name in passed(settings, skills) {
        if let Some(value) = settings.dotenv.get(name) {
            variables.entry(name.into()).or_insert_with(|| value.expose().into());
        }
    }
    let path = variables.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    variables.insert("PATH".into(), complete_path(&path));
    variables.insert("HERMES_HOME".into(), settings.home.clone().into());
    set_home(settings, &mut variables);
    set_session(&mut variables, caller);
    variables
}

/// Names that a passthrough frees.
pub fn passed<'a>(
    settings: &'a TerminalSettings,
    skills: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'a str> {
    let names = settings.env_passthrough.iter().chain(skills).map(|name| name.trim());
    names.filter(|name| !name.is_empty() && !is_managed(name))
}

fn reaches(settings: &TerminalSettings, skills: &BTreeSet<String>, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_foreign = name.starts_with("HERMES_SESSION_") || VIRTUAL_ENVIRONMENTS.contains(&name);
    if is_managed(name) || is_foreign {
        return false;
    }
    !settings.dotenv.contains_key(name) || passed(settings, skills).any(|passed| passed == name)
}

/// Empty entries would mean the current directory: they go, and so do doubles.
fn complete_path(path: &OsStr) -> OsString {
    let given = path.to_str().unwrap_or_default().split(':').filter(|entry| !entry.is_empty());
    let mut entries: Vec<&str> = Vec::new();
    for entry in given.chain(PATH_FALLBACKS) {
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries.join(":").into()
}

fn set_home(settings: &TerminalSettings, variables: &mut EnvironmentVariables) {
    if let Some(home) = variables.get(OsStr::new("HOME")).cloned() {
        variables.insert("HERMES_REAL_HOME".into(), home);
    }
    let profile = settings.home.join("home");
    if settings.home_mode == HomeMode::Profile && profile.is_dir() {
        variables.insert("HOME".into(), profile.into());
    }
}

fn set_session(variables: &mut EnvironmentVariables, caller: &Caller) {
    for (name, value) in [
        ("HERMES_SESSION_ID", caller.session.as_str()),
        ("HERMES_SESSION_PLATFORM", &caller.source),
        ("HERMES_SESSION_SOURCE", &caller.source),
        ("HERMES_SESSION_USER_ID", caller.user.as_deref().unwrap_or_default()),
    ] {
        variables.insert(name.into(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_managed_names_are_sorted_so_that_they_are_found() {
        assert!(MANAGED.is_sorted());
        assert!(
            is_managed("OPENAI_API_KEY") && is_managed("TELEGRAM_BOT_TOKEN") && is_managed("ZAI_API_KEY")
        );
        assert!(
            is_managed("THROUGHLINE_PASSPHRASE") && is_managed("THROUGHLINE_ANYTHING"),
            "every variable of ours"
        );
        assert!(
            is_managed("AUXILIARY_VISION_API_KEY") && !is_managed("GATEWAY_RELAY_URL") && !is_managed("PATH")
        );
    }

    #[test]
    fn a_path_is_completed_and_never_means_the_current_directory() {
        let path = complete_path(OsStr::new("/mine::/usr/bin:/mine:"));
        assert_eq!(
            path,
            "/mine:/usr/bin:/opt/homebrew/bin:/opt/homebrew/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
        );
    }
}
