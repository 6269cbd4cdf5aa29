//! What the host is told of a plugin, and what the plugin is told of the world.
//!
//! The gateway's own environment holds keys of every kind. A plugin gets a handful of variables that
//! carry none, and what the user wrote for it; nothing else passes.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variables that any plugin may see. `HOME` is among them because interpreters look there for
/// themselves; proxies are not, because their addresses carry passwords.
const PASSED: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The environment of a plugin: of `ours` what may pass and what the user `listed` by name, and over it
/// what he has `given`.
pub fn environment(
    ours: impl IntoIterator<Item = (String, String)>,
    listed: &[String],
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let passes = |name: &String| is_common(name) || listed.contains(name);
    let mut environment: BTreeMap<_, _> = ours.into_iter().filter(|(name, _)| passes(name)).collect();
    environment.extend(given.clone());
    environment
}

/// An environment in which `~` is the agent's own. What a plugin keeps below it without being asked (`~/.hermes`) would
/// else be shared by all agents of the user. The user's own directory stays where that is the same thing, because
/// `~/.hermes` is the home, and where the user has `listed` it by name.
pub fn at_home(
    mut environment: BTreeMap<String, String>,
    listed: &[String],
    home: &Path,
    directory: &Path,
) -> BTreeMap<String, String> {
    environment.insert("HERMES_HOME".to_owned(), home.display().to_string());
    let user = environment.get("HOME").map(PathBuf::from);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_at_home = user.as_ref().is_some_and(|user| real(&user.join(".hermes")) == real(home));
    if is_at_home || listed.iter().any(|name| name == "HOME") {
        return environment;
    }
    // Hermes' own place for what a profile's programs keep.
    let own = Some(home.join("home")).filter(|own| own.is_dir()).unwrap_or_else(|| directory.to_owned());
    environment.insert("HOME".to_owned(), own.display().to_string());
    // What was downloaded or installed for the user says nothing of any agent, and costs gigabytes twice.
    for (name, place) in [("XDG_CACHE_HOME", ".cache"), ("PYTHONUSERBASE", ".local")] {
        if let Some(user) = &user {
            environment.entry(name.to_owned()).or_insert_with(|| user.join(place).display().to_string());
        }
    }
    environment
}

/// Whether a variable is one that any plugin may see.
pub(crate) fn is_common(name: &str) -> bool {
    PASSED.contains(&name) || name.starts_with("LC_")
}

#[derive(Clone, Debug)]
pub struct PluginSettings {
    /// What the user calls it.
    pub name: String,
    /// The program and its arguments. No shell reads them.
    pub command: Vec<String>,
    /// All of its environment: see [`environment`].
    pub environment: BTreeMap<String, String>,
    /// Its own directory: it is run there, may write there, and its log lies there. It is made if
    /// it is not there.
    pub directory: PathBuf,
    /// Where else it may write.
    pub writable: Vec<PathBuf>,
    /// Whether the kernel is to keep it from writing anywhere else, where it can.
    pub confined: bool,
    /// Homes of other agents and the user's keys, which the kernel is to keep it out of, where it can …
    pub foreign: Vec<PathBuf>,
    /// … but for this, which lies in one of them: the program itself, and what the user lets it read.
    pub readable: Vec<PathBuf>,
    /// It is there to decide about tools: while its decisions are unknown, none is run.
    pub guards: bool,
    /// What the user wrote for it.
    pub settings: Value,
    /// The agent's home.
    pub home: PathBuf,
    pub agent: String,
    pub deadlines: Deadlines,
    pub limits: PluginLimits,
}

impl PluginSettings {
    pub fn new(name: impl Into<String>, command: Vec<String>, directory: PathBuf) -> Self {
        Self {
            name: name.into(),
            command,
            environment: BTreeMap::new(),
            home: directory.clone(),
            directory,
            writable: Vec::new(),
            confined: true,
            foreign: Vec::new(),
            readable: Vec::new(),
            guards: false,
            settings: Value::Null,
            agent: "main".to_owned(),
            deadlines: Deadlines::default(),
            limits: PluginLimits::default(),
        }
    }
}

impl PluginSettings {
    /// Another one whenever what the plugin is told of itself is another, or what lies `beside` it and may change what
    /// it can do.
    pub fn mark(&self, beside: &[u8]) -> String {
        let told = json!([self.command, self.environment, self.settings]).to_string();
        let digest = Sha256::new().chain_update(told).chain_update([0]).chain_update(beside).finalize();
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How long each thing may take, waiting included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the start of the process to its introduction. Interpreters take their time.
    pub start: Duration,
    /// A sign of life.
    pub ping: Duration,
    /// `engine/should_compress`: a turn waits for it, and no longer than the gateway lets it.
    pub decide: Duration,
    /// `engine/has_content`, `engine/status`.
    pub look: Duration,
    pub compress: Duration,
    /// A turn waits for it.
    pub recall: Duration,
    pub retain: Duration,
    pub before_compression: Duration,
    /// `scope/close`: what was buffered goes out.
    pub close: Duration,
    pub tool: Duration,
    pub hook: Duration,
    pub command: Duration,
    /// From the word that it is over to the end of the process.
    pub stop: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            start: seconds(30),
            ping: seconds(5),
            decide: seconds(1),
            look: seconds(5),
            compress: seconds(180),
            recall: seconds(8),
            retain: seconds(60),
            before_compression: seconds(5),
            close: seconds(30),
            tool: seconds(300),
            hook: seconds(60),
            command: seconds(60),
            stop: seconds(5),
        }
    }
}

impl Deadlines {
    /// All the same, for a check or a test.
    pub fn all(time: Duration) -> Self {
        Self {
            start: time,
            ping: time,
            decide: time,
            look: time,
            compress: time,
            recall: time,
            retain: time,
            before_compression: time,
            close: time,
            tool: time,
            hook: time,
            command: time,
            stop: time,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// So many calls are with the plugin at once, and as many of those that may take more than a minute.
    /// Others wait, within their own time.
    pub at_once: usize,
    /// After so many calls without an answer in a row it is left alone.
    pub failures_max: u32,
    /// For so long at first; twice as long each time it has not recovered.
    pub pause: Duration,
    pub pause_max: Duration,
    /// Between two deaths that are counted as one after the other.
    pub healthy: Duration,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            at_once: 8,
            failures_max: 3,
            pause: Duration::from_millis(500),
            pause_max: Duration::from_secs(120),
            healthy: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_plugin_sees_what_was_written_for_it_and_no_key_of_ours() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let ours = [
            pair("PATH", "/bin"),
            pair("LC_ALL", "C"),
            pair("OPENAI_API_KEY", "sk-ours"),
            pair("HTTPS_PROXY", "http://me:secret@proxy"),
            pair("HINDSIGHT_URL", "http://here"),
        ];
        let given = BTreeMap::from([pair("TOKEN", "theirs"), pair("PATH", "/opt/bin")]);
        let environment = environment(ours, &["HINDSIGHT_URL".to_owned()], &given);
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["HINDSIGHT_URL", "LC_ALL", "PATH", "TOKEN"]);
        assert_eq!(environment["PATH"], "/opt/bin");
    }

    #[test]
    fn p31_the_directory_of_a_plugins_user_holds_no_home_but_the_agents_own() {
        let place = tempfile::tempdir().unwrap();
        let user = place.path();
        let (usual, other) = (user.join(".hermes"), user.join("other"));
        std::fs::create_dir_all(&usual).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let shown = |path: &Path| path.display().to_string();
        let ours = || {
            let ours = [("HOME", shown(user)), ("HERMES_HOME", "/of/the/gateway".to_owned())];
            BTreeMap::from(ours.map(|(name, value)| (name.to_owned(), value)))
        };
        let listed = ["HOME".to_owned()];
        let directory = other.join("throughline.plugins/x");

        let seen = at_home(ours(), &[], &other, &directory);
        assert_eq!((&seen["HOME"], &seen["HERMES_HOME"]), (&shown(&directory), &shown(&other)));
        assert_eq!(seen["XDG_CACHE_HOME"], shown(&user.join(".cache")));
        let seen = at_home(ours(), &[], &usual, &directory);
        assert_eq!((&seen["HOME"], &seen["HERMES_HOME"]), (&shown(user), &shown(&usual)));
        let seen = at_home(ours(), &listed, &other, &directory);
        assert_eq!((&seen["HOME"], &seen["HERMES_HOME"]), (&shown(user), &shown(&other)));
        std::fs::create_dir_all(other.join("home")).unwrap();
        assert_eq!(at_home(ours(), &[], &other, &directory)["HOME"], shown(&other.join("home")));
    }
}
