//! Keeps the table true: each key is tried, and what a file then means is compared with what it meant before.

use super::*;
use crate::config::Config;
use crate::config::platforms::Platforms;
use crate::config::tree;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
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
    put(&mut root, path, Some(value));
    root
}

/// What stands beside a key where nothing comes of it alone: a route without a profile is none.
fn companions(path: &str) -> Value {
    match path.split('.').next().unwrap() {
        "mcp_servers" => json!({"zz": 0, "command": "zz"}),
        "custom_providers" => json!({"zz": 0, "name": "zz"}),
        "hooks" => json!({"zz": 0, "command": "zz"}),
        _ if path.contains("profile_routes") => json!({"zz": 0, "platform": "telegram", "profile": "zz"}),
        _ => json!({"zz": 0}),
    }
}

/// A name where the table leaves it to the user.
fn chosen<'a>(path: &str, name: &'a str) -> &'a str {
    match name {
        "*" if path.starts_with("hooks.") => "pre_tool_call",
        "*" => "probe",
        "<platform>" => "telegram",
        name => name,
    }
}

/// Writes a value at a path; None writes only what is above it.
fn put(root: &mut Value, path: &str, value: Option<&Value>) {
    let names: Vec<&str> = path.split('.').collect();
    let (last, sections) = names.split_last().unwrap();
    let mut at = root;
    for (nth, name) in sections.iter().enumerate() {
        let companions = companions(path);
        let empty = match (names[nth + 1], nth + 1 == sections.len()) {
            ("[]", _) => json!([companions]),
            (_, true) => companions,
            (_, false) => json!({}),
        };
        at = match *name {
            "[]" => &mut at[0],
            name => {
                let fields = at.as_object_mut().unwrap();
                fields.entry(chosen(path, name)).or_insert_with(|| empty.clone())
            }
        };
        let fits = if names[nth + 1] == "[]" { at.is_array() } else { at.is_object() };
        if !fits {
            *at = empty;
        }
    }
    match (*last, value) {
        (_, None) => {}
        ("[]", Some(value)) => at[0] = value.clone(),
        (name, Some(value)) => {
            at.as_object_mut().unwrap().insert(chosen(path, name).to_owned(), value.clone());
        }
    }
}

/// All that the program gets to know of a file, without places: with tokens in the environment, and without. In the
/// second, nothing streams.
fn meaning(file: &Value) -> [String; 2] {
    [meant(file, &variable), meant(&still(file), &|_| None)]
}

/// Whether a file means something else. Of most that do, the first half tells.
fn differs(file: &Value, before: &[String; 2]) -> bool {
    meant(file, &variable) != before[0] || meant(&still(file), &|_| None) != before[1]
}

fn still(file: &Value) -> Value {
    let mut still = file.clone();
    if still["streaming"]["enabled"] == true {
        still["streaming"].as_object_mut().unwrap().remove("enabled");
    }
    if still["streaming"] == json!({}) {
        still.as_object_mut().unwrap().remove("streaming");
    }
    still
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
    let words = words.map(Value::from);
    let others = [
        json!(true),
        json!(false),
        json!(7),
        json!("probe"),
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
    others.into_iter().chain(words).collect() // what most keys take comes first
}

/// Where a key may stand: those of a platform have three places.
fn places(path: &str) -> Vec<String> {
    match path.split_once('.').filter(|(platform, _)| BLOCKS.contains(platform)) {
        None => vec![path.to_owned()],
        Some((platform, key)) => {
            vec![format!("platforms.{platform}.extra.{key}"), format!("platforms.{path}"), path.to_owned()]
        }
    }
}

/// Whether anything that is written there makes a difference.
fn is_read(path: &str, known: &mut HashMap<String, [String; 2]>) -> bool {
    let mut files = Vec::new();
    for place in places(path) {
        let mut file = base();
        put(&mut file, &place, None);
        if path.starts_with("gateway.streaming.") {
            // What stands at the top would hide it.
            file.as_object_mut().unwrap().remove("streaming");
            let mut on = file.clone();
            on["gateway"]["streaming"] = json!({"enabled": true});
            files.push((place.clone(), on));
        }
        if path.starts_with("mcp_servers.") {
            let mut remote = file.clone();
            remote["mcp_servers"]["probe"] = json!({"zz": 0, "url": "http://zz"});
            files.push((place.clone(), remote));
        }
        files.push((place, file));
    }
    files.into_iter().any(|(place, without)| {
        // Neighbours have the same file without them.
        let before = known.entry(without.to_string()).or_insert_with(|| meaning(&without)).clone();
        probes().iter().any(|value| {
            let mut file = without.clone();
            put(&mut file, &place, Some(value));
            differs(&file, &before)
        })
    })
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

/// Keys of a platform that only its adapter knows: `crates/app/src/platform_accounts.rs` asks for them by name.
fn taken_by_adapters() -> BTreeSet<String> {
    let chats = std::fs::read_to_string(root().join("crates/app/src/platform_accounts.rs")).unwrap();
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
    let discord = std::fs::read_to_string(root().join("crates/platforms/src/discord/settings.rs")).unwrap();
    let names = literals(&discord, "(\"DISCORD_").into_iter();
    taken.extend(names.map(|name| format!("discord.{}", name.to_lowercase())));
    taken.extend(["telegram.dm_topics", "telegram.group_topics"].map(str::to_owned));
    // A test of `crates/app/src/platform_accounts.rs` tries each of these.
    let whom = ["everyone", "roles", "users", "replied_user"];
    taken.extend(whom.map(|whom| format!("discord.allow_mentions.{whom}")));
    let routes = std::fs::read_to_string(root().join("crates/platforms/src/webhook/route.rs")).unwrap();
    for asked in ["fields.get(\"", "text(\""] {
        taken.extend(literals(&routes, asked).into_iter().map(|key| format!("webhook.routes.*.{key}")));
    }
    taken
}

/// Keys that the program looks up in the tree itself.
fn taken_by_the_program() -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for (_, text) in ["src", "crates/app", "crates/home", "crates/upkeep"].into_iter().flat_map(sources) {
        taken.extend(literals(&text, "root.get(\""));
    }
    let clerk = std::fs::read_to_string(root().join("crates/app/src/host_commands.rs")).unwrap();
    for asked in ["field(&quick, \"", "field(node, \""] {
        taken.extend(literals(&clerk, asked).into_iter().map(|key| format!("quick_commands.*.{key}")));
    }
    let manner = clerk.split("\nfn manner(").nth(1).unwrap().split("\n}").next().unwrap();
    let parts = manner.split("parts = [").nth(1).unwrap().split("];").next().unwrap();
    let parts = literals(parts, "(\"").into_iter();
    taken.extend(parts.map(|key| format!("agent.personalities.*.{key}")));
    taken.extend(["quick_commands.*", "agent.personalities.*"].map(str::to_owned));
    taken
}

#[test]
fn a_key_is_honoured_if_and_only_if_the_program_reads_it() {
    let (adapters, program) = (taken_by_adapters(), taken_by_the_program());
    let is_taken = |path: &str| adapters.contains(path) || program.contains(path);
    let read: Vec<&Key> = table().iter().filter(|key| key.support == Support::Honoured).collect();
    let unread: Vec<&Key> = table()
        .iter()
        .filter(|key| matches!(key.support, Support::Python | Support::Harmless | Support::Named))
        .filter(|key| !key.path.ends_with('*'))
        .collect();
    let mut known = HashMap::new();
    let dead = read.iter().filter(|key| !is_taken(key.path) && !is_read(key.path, &mut known));
    let dead: Vec<&str> = dead.map(|key| key.path).collect();
    assert!(dead.is_empty(), "support.txt calls them honoured, and nothing reads them: {dead:#?}");
    let mut used: Vec<&str> = unread.iter().map(|key| key.path).filter(|path| is_taken(path)).collect();
    for nth in 0..3 {
        let places: Vec<(&str, String)> = unread
            .iter()
            .filter_map(|key| Some((key.path, places(key.path).into_iter().nth(nth)?)))
            .collect();
        read_among(&places, &mut used);
    }
    assert!(used.is_empty(), "support.txt says that nothing comes of them, and they are read: {used:#?}");
}

/// Which of these keys make a difference: all are tried at once, and halves of them only where that does.
fn read_among<'k>(keys: &[(&'k str, String)], used: &mut Vec<&'k str>) {
    let mut without = base();
    keys.iter().for_each(|(_, place)| put(&mut without, place, None));
    let before = meaning(&without);
    let is_read = probes().iter().any(|value| {
        let mut file = without.clone();
        keys.iter().for_each(|(_, place)| put(&mut file, place, Some(value)));
        differs(&file, &before)
    });
    match keys {
        [] => {}
        _ if !is_read => {}
        [(key, _)] => used.push(key),
        _ => {
            let (first, second) = keys.split_at(keys.len() / 2);
            read_among(first, used);
            read_among(second, used);
        }
    }
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

/// A field of one of the reader's structures.
struct Field {
    of: String,
    name: String,
    /// As it is written.
    kind: String,
}

fn fields_of_the_settings() -> Vec<Field> {
    let mut found = Vec::new();
    for file in ["settings.rs", "tools.rs", "tools/server.rs", "platforms.rs", "plugins.rs", "hooks.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let mut of = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                of = rest.split([' ', '<', '(']).next().unwrap().to_owned();
            }
            if line == "}" {
                of.clear();
            }
            let Some(line) = line.strip_prefix("    pub ").filter(|_| !of.is_empty()) else { continue };
            let Some((name, kind)) = line.split_once(": ").filter(|(name, _)| !name.contains(['(', ' ']))
            else {
                continue;
            };
            found.push(Field {
                of: of.clone(),
                name: name.to_owned(),
                kind: kind.trim_end_matches(',').to_owned(),
            });
        }
    }
    found
}

/// What a variable of a structure is called in a file that takes it apart, beside the names of the fields that hold it.
const CALLED: &[(&str, &str, &str)] = &[
    ("HermesSettings", "crates/home/src/config/meaning.rs", "settings"),
    ("HermesSettings", "crates/home/src/config/model.rs", "settings"),
    ("HermesSettings", "crates/home/src/config.rs", "settings"),
    ("HermesSettings", "crates/app/src/platform_accounts.rs", "settings"),
    ("HermesSettings", "crates/upkeep/src/adopt/survey.rs", "settings"),
    ("ReviewSettings", "crates/home/src/config/meaning.rs", "written"),
    ("ReviewSettings", "crates/app/src/agent/parts.rs", "review"),
    ("ApprovalSettings", "crates/app/src/equip/terminal.rs", "written"),
    ("DelegationSettings", "crates/app/src/equip.rs", "written"),
    ("DockerSettings", "crates/app/src/equip/terminal.rs", "written"),
    ("LogSettings", "crates/home/src/config/meaning.rs", "written"),
    ("MediaDelivery", "crates/app/src/platform_accounts.rs", "written"),
    ("MemorySettings", "crates/app/src/equip/provider.rs", "written"),
    ("Mentions", "crates/platforms/src/intake/mention_rules.rs", "rules"),
    ("ModelSettings", "crates/home/src/config/model.rs", "written"),
    ("McpOAuth", "crates/app/src/equip/servers.rs", "written"),
    ("Platform", "crates/platforms/src/intake.rs", "platform"),
    ("Platform", "crates/app/src/platform_accounts.rs", "described"),
    ("NamedProvider", "crates/home/src/config/model.rs", "entry"),
    ("RemoteMcpServer", "crates/app/src/equip/servers.rs", "written"),
    ("Server", "crates/app/src/equip/servers.rs", "written"),
    ("SessionReset", "crates/home/src/config/meaning.rs", "written"),
    ("SshSettings", "crates/app/src/equip/terminal.rs", "written"),
];

/// Fields that a method of their structure looks into, which is called outside of the reader.
const BY_METHOD: &[(&str, &str, &str)] = &[("Platform", "prompts", "platform.prompt(")];

/// Fields that the reader itself uses, for what it says of a file.
const FOR_REMARKS: &[(&str, &str)] =
    &[("Given", "by"), ("Off", "by"), ("NamedProvider", "place"), ("Server", "place"), ("Hook", "place")];

/// What the reader puts into a field that no code takes out again is as good as not read. That the word occurs somewhere
/// is not enough: it has to be taken out of something that holds such a structure.
#[test]
fn every_field_of_the_settings_is_taken_out_of_its_structure_somewhere() {
    let users: Vec<(PathBuf, String)> = ["src", "crates"]
        .iter()
        .flat_map(|under| sources(under))
        .filter(|(path, _)| !path.to_string_lossy().contains("crates/hermes/src/config"))
        .collect();
    let fields = fields_of_the_settings();
    assert!(fields.len() > 200, "{}", fields.len());
    let unused: Vec<String> = fields
        .iter()
        .filter(|field| !FOR_REMARKS.contains(&(field.of.as_str(), field.name.as_str())))
        .filter(|field| !users.iter().any(|(path, text)| is_taken_out(field, &fields, path, text)))
        .map(|field| format!("{}.{}", field.of, field.name))
        .collect();
    assert!(unused.is_empty(), "nothing takes these out: {unused:#?}");
}

fn is_taken_out(field: &Field, fields: &[Field], path: &Path, text: &str) -> bool {
    let is_called =
        |(of, name, call): &(&str, &str, &str)| *of == field.of && *name == field.name && text.contains(call);
    if BY_METHOD.iter().any(is_called) {
        return true;
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let holds = |other: &&Field| other.kind.split(|c| !is_word(c)).any(|part| part == field.of);
    let called = CALLED.iter().filter(|(of, file, _)| *of == field.of && path.ends_with(file));
    let mut holders: Vec<&str> = fields.iter().filter(holds).map(|other| other.name.as_str()).collect();
    // A variable is called as its structure, or as what the structure is about.
    let own = field.of.to_lowercase();
    holders.extend([own.as_str(), own.trim_end_matches("settings")]);
    holders.extend(called.map(|(_, _, name)| *name));
    text.match_indices(&field.name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + field.name.len()..]);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return false;
        }
        // `holder.field`, with the path to the holder before that.
        let holder = before.trim_end().strip_suffix('.').map(|rest| {
            let rest = rest.trim_end().trim_end_matches(['?', ')', '(']);
            &rest[rest.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..]
        });
        // `Structure { field, .. }`, where it is taken apart.
        let is_taken_apart = before.rfind('{').is_some_and(|open| {
            !before[open..].contains(['}', ';'])
                && before[..open].trim_end().ends_with(field.of.as_str())
                && !after.trim_start().starts_with(": ")
        });
        holder.is_some_and(|holder| holders.contains(&holder)) || is_taken_apart
    })
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
    let defaults: Value =
        table().iter().filter(|key| !key.path.contains(['*', '<', '['])).fold(json!({}), |mut root, key| {
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
