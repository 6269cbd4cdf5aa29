//! What the host is told of a plugin, and what the plugin is told of the world.
//!
//! The gateway's own environment holds keys of every kind. A plugin gets a handful of variables that
//! carry none, and what the user wrote for it; nothing else passes.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;
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
    /// Its own, for nobody else: it is run there, may write there, and its log lies there. It is made if
    /// it is not there.
    pub directory: PathBuf,
    /// Where else it may write.
    pub writable: Vec<PathBuf>,
    /// Whether the kernel is to keep it from writing anywhere else, where it can.
    pub confined: bool,
    /// It is there to decide about tools: while nobody knows what it says, none is run.
    pub guards: bool,
    /// What the user wrote for it.
    pub settings: Value,
    /// The agent's home.
    pub home: PathBuf,
    pub agent: String,
    pub deadlines: Deadlines,
    pub limits: Limits,
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
            guards: false,
            settings: Value::Null,
            agent: "main".to_owned(),
            deadlines: Deadlines::default(),
            limits: Limits::default(),
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
pub struct Limits {
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

impl Default for Limits {
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
}
