//! Hermes' Python: where it is, and what of a home is written for it.

use super::{DIRECTORY, HERMES, bundle, environment, expanded};
use crate::config::Settings;
use crate::home::Home;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_hermes::config::plugins::Hermes;
use throughline_plugins::{Deadlines, PluginSettings};

/// Hermes imports half of the world.
const START: Duration = Duration::from_secs(90);
/// Longer than it waits itself until a provider's own threads have come to rest.
const RETAIN: Duration = Duration::from_secs(120);
const CLOSE: Duration = Duration::from_secs(70);

/// How the process is started, or why it cannot be.
pub fn host(home: &Home, agent: &str, settings: &Settings, asked: Value) -> Result<PluginSettings, String> {
    let python = interpreter(home.path(), settings)?;
    let package = bundle::unpack(&home.path().join(DIRECTORY))
        .map_err(|error| format!("what runs Hermes' Python could not be written to {DIRECTORY}: {error}"))?;
    let given = settings.secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().to_owned()));
    let mut given: BTreeMap<String, String> = given.collect();
    given.insert("HERMES_HOME".into(), home.path().display().to_string());
    given.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
    let command = [&python, &package].map(|path| path.display().to_string());
    Ok(PluginSettings {
        environment: environment(settings, &settings.plugins.hermes.environment, given),
        // It is the user's own Hermes, at home in this home: what it may write, it always could.
        confined: false,
        settings: asked,
        home: home.path().to_owned(),
        agent: agent.to_owned(),
        deadlines: Deadlines { start: START, retain: RETAIN, close: CLOSE, ..Deadlines::default() },
        command: command.to_vec(),
        ..PluginSettings::new(HERMES, Vec::new(), home.path().join(DIRECTORY).join(HERMES))
    })
}

/// What the user named, else the environment that Hermes made for itself, else that of the `hermes` on the path.
fn interpreter(home: &Path, settings: &Settings) -> Result<PathBuf, String> {
    if let Some(written) = &settings.plugins.hermes.python {
        let python = expanded(written, settings);
        return match python.exists() {
            true => Ok(python),
            false => Err(format!("there is no {} (`throughline.hermes.python`)", python.display())),
        };
    }
    let root = match home.parent() {
        Some(parent) if parent.ends_with(throughline_hermes::profile::DIRECTORY) => parent.parent(),
        _ => Some(home),
    };
    let beside = root.into_iter().flat_map(|root| {
        ["venv", ".venv"].map(|venv| root.join("hermes-agent").join(venv).join("bin").join("python"))
    });
    let path = settings.environment.get("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("hermes"));
    let of_script = on_path.filter_map(|script| interpreter_of(&script));
    beside.chain(of_script).find(|python| python.exists()).ok_or_else(|| {
        "Hermes' Python was not found; name the interpreter that has `hermes-agent` under `throughline.hermes.python`"
            .to_owned()
    })
}

/// The interpreter in the first line of a script.
fn interpreter_of(script: &Path) -> Option<PathBuf> {
    let text = fs::read(script).ok()?;
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("#!")?.trim();
    let program = line.split_whitespace().next()?;
    Some(PathBuf::from(program)).filter(|program| program.to_string_lossy().contains("python"))
}

/// Hooks with a handler in Python, by the names of their directories.
pub fn handlers(home: &Path) -> Vec<String> {
    directories(&home.join("hooks"), |path| path.join("HOOK.yaml").exists())
}

/// Hermes' plugins in the home that its lists let run.
pub fn plugins(home: &Path, hermes: &Hermes) -> Vec<String> {
    let is_one = |path: &Path| path.join("__init__.py").exists() || path.join("plugin.yaml").exists();
    let mut found = directories(&home.join("plugins"), is_one);
    let enabled = hermes.plugins.as_deref().unwrap_or_default();
    found.retain(|name| enabled.contains(name) && !hermes.disabled.contains(name));
    found
}

fn directories(of: &Path, is_one: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let named = entries.filter(|entry| is_one(&entry.path()));
    let mut found: Vec<String> =
        named.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}
