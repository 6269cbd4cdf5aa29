//! Keeps the table true: each key is tried, and what a file then means is compared with what it meant before.

use super::*;
use crate::config::Config;
use crate::config::platforms::Platforms;
use crate::config::tree;
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file in which every platform has a block, so that one key more in a block is one key more.
fn base() -> Value {
    let block = json!({"zz": 0});
    json!({
        "platforms": {"telegram": block, "discord": block, "slack": block, "webhook": block, "api_server": block},
        "telegram": block, "discord": block, "slack": block, "webhook": block,
        "terminal": {"zz": 0}, "honcho": {"zz": 0}, "model": {"zz": 0}, "streaming": {"enabled": true},
    })
}

fn variable(name: &str) -> Option<String> {
    let tokens = ["TELEGRAM_BOT_TOKEN", "DISCORD_BOT_TOKEN", "SLACK_BOT_TOKEN", "WEBHOOK_ENABLED"];
    tokens.contains(&name).then(|| "true".to_owned())
}

fn with(path: &str, value: &Value) -> Value {
    let mut root = base();
    put(&mut root, path, value);
    root
}

fn put(root: &mut Value, path: &str, value: &Value) {
    let mut at = root;
    let names: Vec<&str> = path.split('.').collect();
    let (last, sections) = names.split_last().unwrap();
    for name in sections {
        let name = if *name == "*" { "probe" } else { name };
        let fields = at.as_object_mut().unwrap();
        let below = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if !below.is_object() {
            *below = Value::Object(Map::new());
        }
        at = below;
    }
    let last = if *last == "*" { "probe" } else { last };
    at.as_object_mut().unwrap().insert(last.to_owned(), value.clone());
}

/// All that the program gets to know of a file, without places: with tokens in the environment, and without. In the
/// second, nothing streams.
fn meaning(file: &Value) -> [String; 2] {
    let mut still = file.clone();
    if still["streaming"]["enabled"] == true {
        still["streaming"].as_object_mut().unwrap().remove("enabled");
    }
    if still["streaming"] == json!({}) {
        still.as_object_mut().unwrap().remove("streaming");
    }
    [meant(file, &variable), meant(&still, &|_| None)]
}

fn meant(file: &Value, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let text = serde_json::to_string(file).unwrap();
    let mut config = Config::parse(&text, variable).unwrap();
    config.settings.variables.clear(); // any plain value at the top may be one
    let (mut platforms, _) = Platforms::read(&config.root, None, variable);
    // What is said of the API is among the settings.
    platforms.all.retain(|platform| BLOCKS[..4].contains(&platform.name.as_str()));
    for platform in &mut platforms.all {
        platform.extra.clear(); // for adapters: see `taken_by_adapters`
    }
    let Config { settings, tools, hooks, plugins, own, .. } = &config;
    let shown = format!("{settings:?}{tools:?}{hooks:?}{plugins:?}{own:?}{platforms:?}");
    let mut plain = String::new();
    let mut rest = shown.as_str();
    while let Some(start) = rest.find("Place {") {
        plain.push_str(&rest[..start]);
        rest = &rest[start + rest[start..].find('}').unwrap() + 1..];
    }
    plain + rest
}

fn probes() -> Vec<Value> {
    let words = [
        "probe",
        "off",
        "all",
        "docker",
        "debug",
        "low",
        "queue",
        "ignore",
        "first",
        "new",
        "separate",
        "both",
        "manual",
        "approve",
        "verbose",
        "allowlist",
        "pair",
    ];
    let words = words.map(Value::from).into_iter();
    let others = [
        json!(true),
        json!(false),
        json!(7),
        json!(0.37),
        json!(["probe"]),
        json!(["terminal"]),
        json!({"probe": ["probe"]}),
        json!({"probe": "text"}),
        json!({"chat_id": "1"}),
        json!({"enabled": true}),
        json!({"base_url": "http://x"}),
        json!({"probe": {"enabled": true, "url": "http://x", "command": "x", "mode": "idle", "base_url": "http://x"}}),
        json!({"mode": "idle"}),
        json!([{"platform": "telegram", "profile": "probe", "name": "x", "id": "1", "skills": ["a"], "base_url": "x"}]),
        json!({"on_session_start": [{"command": "true"}]}),
        json!({"disabled": ["probe"]}),
        json!({"telegram": "verbose"}),
        json!({"telegram": {"enabled": false}}),
    ];
    words.chain(others).collect()
}

/// Whether anything that is written there makes a difference.
fn is_read(path: &str, base: &[String; 2]) -> bool {
    let mut paths = vec![path.to_owned()];
    if let Some((platform, key)) = path.split_once('.').filter(|(platform, _)| BLOCKS.contains(platform)) {
        paths.extend([format!("platforms.{path}"), format!("platforms.{platform}.extra.{key}")]);
    }
    probes().iter().any(|value| paths.iter().any(|path| meaning(&with(path, value)) != *base))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(under: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(under)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let shown = path.to_string_lossy().into_owned();
            if !shown.contains("/tests") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                found.push((path, text));
            }
        }
    }
    found
}

/// The texts in `before"…"`.
fn literals(text: &str, before: &str) -> Vec<String> {
    let found = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    found.map(|rest| rest[..rest.find('"').unwrap()].to_owned()).collect()
}

/// Keys of a platform that only its adapter knows: `src/chats.rs` asks for them by name.
fn taken_by_adapters() -> BTreeSet<String> {
    let chats = std::fs::read_to_string(root().join("src/chats.rs")).unwrap();
    let parts: Vec<&str> = chats.split("    fn ").collect();
    let mut taken = BTreeSet::new();
    for platform in ["telegram", "discord", "slack", "webhook"] {
        let begins = format!("{platform}(&self");
        let part = parts.iter().find(|part| part.starts_with(&begins)).unwrap();
        for asked in ["text(\"", "flag(\"", "extra(\"", "extra.get(\""] {
            taken.extend(literals(part, asked).into_iter().map(|key| format!("{platform}.{key}")));
        }
        // Over more than one line.
        for part in part.split(".flag(").skip(1) {
            taken.extend(
                part.trim_start()
                    .strip_prefix('"')
                    .and_then(|rest| rest.split('"').next().map(|key| format!("{platform}.{key}"))),
            );
        }
    }
    let discord = std::fs::read_to_string(root().join("crates/platforms/src/discord.rs")).unwrap();
    let names = literals(&discord, "(\"DISCORD_").into_iter();
    taken.extend(names.map(|name| format!("discord.{}", name.to_lowercase())));
    taken.extend(["telegram.dm_topics", "telegram.group_topics"].map(str::to_owned));
    taken
}

/// Keys that the program looks up in the tree itself.
fn taken_by_the_program() -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for (_, text) in sources("src") {
        taken.extend(literals(&text, "root.get(\""));
    }
    taken
}

#[test]
fn a_key_is_honoured_if_and_only_if_the_program_reads_it() {
    let base = meaning(&base());
    let (adapters, program) = (taken_by_adapters(), taken_by_the_program());
    let is_taken = |path: &str| adapters.contains(path) || program.contains(path);
    let read: Vec<&Key> = table().iter().filter(|key| key.support == Support::Honoured).collect();
    let unread: Vec<&Key> = table()
        .iter()
        .filter(|key| matches!(key.support, Support::Python | Support::Harmless | Support::Named))
        .filter(|key| !key.path.ends_with('*'))
        .collect();
    let dead = read.iter().filter(|key| !is_taken(key.path) && !is_read(key.path, &base));
    let dead: Vec<&str> = dead.map(|key| key.path).collect();
    assert!(dead.is_empty(), "support.txt calls them honoured, and nothing reads them: {dead:#?}");
    // All at once, and one by one only if that makes a difference.
    let differs = probes().iter().any(|value| {
        let mut file = self::base();
        unread.iter().for_each(|key| put(&mut file, key.path, value));
        meaning(&file) != base
    });
    let used: Vec<&str> = unread
        .iter()
        .map(|key| key.path)
        .filter(|path| is_taken(path) || (differs && is_read(path, &base)))
        .collect();
    assert!(used.is_empty(), "support.txt says that nothing comes of them, and they are read: {used:#?}");
}

#[test]
fn every_key_that_the_program_looks_up_itself_is_in_the_table() {
    let known = |path: &str| {
        let below = format!("{path}.");
        table().iter().any(|key| key.path == path || key.path.starts_with(&below))
    };
    // Hermes has no such key; it is asked for, so that a name which stands there is offered.
    let ours =
        |path: &str| path == "throughline" || path.starts_with("throughline.") || path == "model.fallback";
    let unknown: Vec<String> =
        taken_by_the_program().into_iter().filter(|path| !known(path) && !ours(path)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// What the reader puts into a field that nobody uses is as good as not read.
#[test]
fn every_field_of_the_settings_is_used_outside_of_the_reader() {
    let mut users = String::new();
    for under in ["src", "crates"] {
        for (path, text) in sources(under) {
            if !path.to_string_lossy().contains("crates/hermes/src/config") {
                users.push_str(&text);
            }
        }
    }
    let mut unused = Vec::new();
    for file in ["read.rs", "tools.rs", "tools/server.rs", "platforms.rs", "plugins.rs", "hooks.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("    pub ")) {
            let Some((name, _)) = line.split_once(": ").filter(|(name, _)| !name.contains('(')) else {
                continue;
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let used = users.match_indices(name).any(|(at, _)| {
                !users[..at].ends_with(is_name) && !users[at + name.len()..].starts_with(is_name)
            });
            if !used {
                unused.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn a_variable_is_honoured_if_and_only_if_the_program_knows_it() {
    let mut text = String::new();
    for under in ["src", "crates"] {
        for (path, source) in sources(under) {
            // Commands do not get to see these; that is all that is known of them there.
            let only_hides = path.ends_with("terminal/environment.rs");
            if !path.ends_with("config/support.rs") && !only_hides {
                text.push_str(&source);
            }
        }
    }
    for variables in VARIABLES {
        for name in variables.names {
            let known = text.contains(&format!("\"{name}\""));
            let used_elsewhere = *name == "HASS_TOKEN"; // switches Hermes' tools on, not its chats
            let says = variables.support == Support::Honoured || used_elsewhere;
            assert_eq!(known, says, "{name}");
        }
    }
}

#[test]
fn the_table_is_whole_and_each_row_says_what_it_must() {
    let table = table();
    assert!(table.len() > 950);
    let mut seen = BTreeSet::new();
    for key in table {
        assert!(seen.insert(key.path), "{} stands there twice", key.path);
        match key.support {
            Support::Named => assert!(!key.feature.is_empty(), "{}", key.path),
            Support::Differs | Support::Harmless | Support::Python => {
                assert!(!key.why.is_empty(), "{}", key.path)
            }
            Support::Refused => {
                for toolset in key.feature.split(' ') {
                    assert!(crate::toolset::is_toolset(toolset), "{}: {toolset}", key.path);
                }
            }
            Support::Honoured => {}
        }
    }
}

fn told(yaml: &str) -> Vec<(String, &'static str)> {
    set(&tree::parse(yaml).unwrap().root).into_iter().map(|set| (set.path, set.key.feature)).collect()
}

#[test]
fn what_equals_a_default_of_hermes_is_not_told_of() {
    for yaml in [
        "stt: {enabled: true, echo_transcripts: true}\nkanban: {dispatch_interval_seconds: 60.0}\n",
        "approvals: {timeout: 60}\nmax_concurrent_sessions:\nwhatsapp: {}\nfallback_providers: []\n",
        "stt: {enabled: false, local: {model: large}}\n",
        "wake_word: {phrase: hello}\nlsp: {enabled: no, wait_timeout: 1}\n",
        "discord: {voice_fx: {ambient_gain: 1.0}}\n",
        "display: {runtime_footer: {fields: [model]}}\nmax_concurrent_sessions: null\n",
    ] {
        assert_eq!(told(yaml), [], "{yaml}");
    }
    let defaults: Value = table()
        .iter()
        .filter(|key| !key.path.contains('*') && !key.path.contains("resource_attributes"))
        .fold(json!({}), |mut root, key| {
            let Some(default) = key.defaults.last() else { return root };
            let mut at = &mut root;
            for name in key.path.split('.') {
                if !at.is_object() {
                    return root;
                }
                at = &mut at[name];
            }
            *at = default.clone();
            root
        });
    assert_eq!(told(&defaults.to_string()), [], "all of Hermes' defaults written out");
}

#[test]
fn what_differs_from_the_default_is_told_by_its_feature() {
    for (yaml, path, feature) in [
        ("stt: {local: {model: large}}", "stt.local.model", "stt"),
        ("max_concurrent_sessions: 3", "max_concurrent_sessions", "max_concurrent_sessions"),
        ("kanban: {dispatch_in_gateway: false}", "kanban.dispatch_in_gateway", "kanban"),
        ("fallback_model: {provider: openrouter, model: x}", "fallback_model", "fallback models"),
        ("compression: {in_place: false}", "compression.in_place", "compression.in_place"),
        ("auxiliary: {my_task: {model: x}}", "auxiliary.my_task.model", "auxiliary"),
        ("auxiliary: {vision: {temperature: 1}}", "auxiliary.vision.temperature", ""),
        (
            "platforms: {discord: {extra: {server_actions: x}}}",
            "platforms.discord.extra.server_actions",
            "discord.server_actions",
        ),
    ] {
        assert_eq!(told(yaml), [(path.to_owned(), feature)], "{yaml}");
    }
}

#[test]
fn p31_a_key_that_cannot_be_honoured_safely_switches_its_tools_off() {
    for key in table().iter().filter(|key| key.support == Support::Refused) {
        let off = |file: &Value| {
            let config = Config::parse(&serde_json::to_string(file).unwrap(), &variable).unwrap();
            config.tools.switches.off.iter().map(|off| off.toolset).collect::<Vec<_>>()
        };
        let asked = match &key.defaults[0] {
            Value::Bool(default) => json!(!default),
            Value::String(_) => json!("another"),
            Value::Array(_) => json!(["*.md"]),
            other => panic!("{}: {other}", key.path),
        };
        let toolsets: Vec<&str> = key.feature.split(' ').collect();
        assert_eq!(off(&with(key.path, &asked)), toolsets, "{}", key.path);
        assert_eq!(off(&with(key.path, &key.defaults[0])), [""; 0], "{}", key.path);
    }
}
