//! Hermes' Python: where it is, and what of a home is written for it.

use super::{DIRECTORY, HERMES, PluginPlace, bundle, environment, expanded, installed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use throughline_hermes::config::plugins::Hermes;
use throughline_hermes::toolset::Toolsets;
use throughline_home::config::Settings;
use throughline_plugins::{Deadlines, PluginSettings};

/// Hermes imports half of the world.
const START: Duration = Duration::from_secs(90);
/// Longer than it waits itself until a provider's own threads have come to rest.
const RETAIN: Duration = Duration::from_secs(120);
const CLOSE: Duration = Duration::from_secs(70);

/// How the process is started, or why it cannot be.
pub fn host(place: &PluginPlace<'_>, settings: &Settings, asked: Value) -> Result<PluginSettings, String> {
    let home = place.home;
    let python = interpreter(home.path(), settings)?;
    let package = bundle::unpack(&home.path().join(DIRECTORY))
        .map_err(|error| format!("what runs Hermes' Python could not be written to {DIRECTORY}: {error}"))?;
    let given = settings.secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().to_owned()));
    let mut given: BTreeMap<String, String> = given.collect();
    given.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
    let command = [&python, &package].map(|path| path.display().to_string());
    let directory = home.path().join(DIRECTORY).join(HERMES);
    let listed = &settings.plugins.hermes.environment;
    let foreign = place.foreign(settings);
    Ok(PluginSettings {
        environment: environment(settings, listed, given, (home.path(), &directory)),
        // It is the user's own Hermes, at home in this home: what it may write, it always could, but for other homes.
        confined: false,
        readable: installed(&foreign).into_iter().chain(surroundings(&python)).collect(),
        foreign,
        settings: asked,
        home: home.path().to_owned(),
        agent: place.agent.to_owned(),
        deadlines: Deadlines { start: START, retain: RETAIN, close: CLOSE, ..Deadlines::default() },
        command: command.to_vec(),
        ..PluginSettings::new(HERMES, Vec::new(), directory)
    })
}

/// The environment that an interpreter belongs to: of `venv/bin/python` that is `venv`.
fn surroundings(python: &Path) -> Option<PathBuf> {
    Some(python.parent()?.parent()?.to_owned()).filter(|place| place.join("pyvenv.cfg").exists())
}

/// Toolsets of Hermes that are not built in here, and whose tools do all their work when they are called. What only
/// works beside Hermes' own gateway (its jobs, its boards, what belongs to one platform) is not among them.
const CARRIED: [&str; 13] = [
    "web",
    "search",
    "x_search",
    "vision",
    "video",
    "image_gen",
    "video_gen",
    "browser",
    "computer_use",
    "code_execution",
    "tts",
    "homeassistant",
    "spotify",
];

/// Where people meet an agent, beside what its lists name.
const PLATFORMS: [&str; 6] = ["cli", "api_server", "telegram", "discord", "slack", "webhook"];

/// What is switched on somewhere and can come along, if there is a Python that has it.
pub fn toolsets(home: &Path, settings: &Settings) -> Vec<String> {
    match interpreter(home, settings) {
        Ok(_) => switched_on(settings),
        Err(_) => Vec::new(),
    }
}

/// The same, whether there is one or not.
pub fn switched_on(settings: &Settings) -> Vec<String> {
    let on = PLATFORMS.map(|platform| Toolsets::for_platform(&settings.tools.switches, platform));
    let is_on = |name: &&str| on.iter().any(|toolsets| toolsets.names().contains(name));
    CARRIED.iter().filter(|name| is_on(name)).map(|name| (*name).to_owned()).collect()
}

/// Another one whenever Hermes' tools may have become others, or be told of otherwise: by the user's settings and keys, by
/// what is installed beside the interpreter, or by a newer host.
pub fn mark(host: &PluginSettings) -> String {
    let mut beside = fs::read(host.home.join("config.yaml")).unwrap_or_default();
    bundle::bytes().for_each(|file| beside.extend(file));
    let python = host.command.first().map(Path::new);
    let libraries = python.and_then(Path::parent).and_then(Path::parent).map(|root| root.join("lib"));
    let packages =
        libraries.and_then(|libraries| fs::read_dir(libraries).ok()).into_iter().flatten().flatten();
    for packages in packages.map(|entry| entry.path().join("site-packages")) {
        let modified = fs::metadata(&packages).and_then(|packages| packages.modified());
        let since = modified.ok().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        beside.extend(since.unwrap_or_default().as_nanos().to_be_bytes());
    }
    host.mark(&beside)
}

/// What the user named, else the environment that Hermes made for itself, else that of the `hermes` on the path.
pub fn interpreter(home: &Path, settings: &Settings) -> Result<PathBuf, String> {
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

/// The version of the Hermes that an interpreter has, by what lies beside it: nothing is run.
pub fn version(python: &Path) -> Option<String> {
    let environment = python.parent()?.parent()?;
    let libraries = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let packages =
        libraries.flat_map(|entry| fs::read_dir(entry.path().join("site-packages"))).flatten().flatten();
    let installed = packages.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix("hermes_agent-")?.strip_suffix(".dist-info")?.to_owned())
    });
    // Hermes' own installer keeps its source beside its environment.
    let source = || {
        let text = fs::read_to_string(environment.parent()?.join("pyproject.toml")).ok()?;
        let version = text.lines().find_map(|line| line.strip_prefix("version")?.trim().strip_prefix('='))?;
        text.contains("\"hermes-agent\"").then(|| version.trim().trim_matches('"').to_owned())
    };
    installed.max().or_else(source)
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

/// Hermes' plugins that its lists let run. Where they lie (in the home, deeper in it, with Hermes, in a package) and
/// what they call themselves is for Hermes to find out; what it does not find it names.
pub fn plugins(hermes: &Hermes) -> Vec<String> {
    let enabled = hermes.plugins.iter().flatten();
    let mut wanted: Vec<String> = enabled.filter(|name| !hermes.disabled.contains(name)).cloned().collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// Whether a plugin of Hermes may want to forbid tools. One that lies elsewhere could.
pub fn may_guard(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return true };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return path.join("__init__.py").exists() && may_guard(&path);
        }
        let is_text =
            path.extension().is_some_and(|kind| ["py", "yaml", "yml"].iter().any(|known| kind == *known));
        is_text && fs::read_to_string(&path).map_or(true, |text| text.contains("pre_tool_call"))
    })
}

fn directories(of: &Path, is_one: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let named = entries.filter(|entry| is_one(&entry.path()));
    let mut found: Vec<String> =
        named.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}
