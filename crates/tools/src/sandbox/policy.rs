//! What a command may do with each thing in an agent's home.

/// From nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    Nothing,
    /// See the names of what is there.
    List,
    /// Read and run.
    Read,
    All,
}

/// Secrets, and what people have said: never read, never written.
const SECRETS: [&str; 20] = [
    ".env",
    "auth.json",
    "auth.lock",
    "auth",
    ".anthropic_oauth.json",
    "throughline.key",
    "mcp-tokens",
    "pairing",
    "platforms",
    "sessions",
    "session-exports",
    "state-snapshots",
    "backups",
    "whatsapp",
    "webhook_subscriptions.json",
    "slack_tokens.json",
    "honcho.json",
    "mem0.json",
    "hindsight",
    "byterover",
];
/// Beginnings and parts of names by which copies and relatives of them are known.
const SECRET_BEGINNINGS: [&str; 4] = [".env", "auth.", "state.db", ".throughline"];
const SECRET_PARTS: [&str; 9] =
    ["token", "secret", "credential", "oauth", "password", ".key", ".pem", ".db", "pairing"];

/// Where an agent is meant to work: its own directories, and those that fill by themselves.
///
/// `scripts` is here because Hermes has agents write there what their schedules run; a schedule runs
/// it under the same confinement. `home` is what Hermes gives the processes of a profile for `$HOME`.
const WORKED_IN: [&str; 17] = [
    "workspace",
    "skills",
    "scripts",
    "cache",
    "tmp",
    "images",
    "image_cache",
    "audio_cache",
    "video_cache",
    "document_cache",
    "browser_screenshots",
    "downloads",
    "sandboxes",
    "pastes",
    "plans",
    "projects",
    "home",
];

/// What decides how agents behave: if such a name is a link, what it leads to is kept, too.
const RULES: [&str; 6] = ["config.yaml", "SOUL.md", "hooks", "plugins", "memories", "cron"];

/// Within `cache`: Hermes keeps secrets of a vault there in plain text.
pub const CACHED_SECRET: &str = "bws_cache.json";

/// `own`: the home belongs to the agent that runs the command.
pub fn rights(name: &str, own: bool) -> Rights {
    let lower = name.to_lowercase();
    if is_secret(&lower) {
        Rights::Nothing
    } else if own && WORKED_IN.contains(&name) {
        Rights::All
    } else {
        Rights::Read
    }
}

fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
        || SECRET_BEGINNINGS.iter().any(|start| name.starts_with(start))
        || (!WORKED_IN.contains(&name) && SECRET_PARTS.iter().any(|part| name.contains(part)))
}

/// Whether a link of this name extends the rule to what it leads to.
pub fn follows_links(name: &str) -> bool {
    is_secret(&name.to_lowercase()) || RULES.contains(&name)
}
