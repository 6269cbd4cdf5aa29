//! Plugins: our own table of them, and what Hermes' file says about its own.
//!
//! `throughline.plugins` names a program for each; `throughline.hermes` says how Hermes' Python is reached and
//! which of its tools come along; `plugins.enabled` and `plugins.disabled` are Hermes' lists.
//!
//! - in our own table every mistake is an error: half a plugin is of no use
//! - a variable that is not named is not passed on
//!
//! Deliberately absent: files and processes.

use super::read::{as_boolean, as_count, as_text, is_nothing, misplaced};
use super::tree::{Node, Notice, Place, Value};
use serde_json::Value as Json;

const KEYS: [&str; 9] =
    ["command", "env", "settings", "enabled", "read", "write", "start_seconds", "call_seconds", "guards"];
const HERMES_KEYS: [&str; 4] = ["python", "tools", "enabled", "env"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    pub list: Vec<Plugin>,
    pub hermes: Hermes,
}

/// A program that speaks our protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    pub name: String,
    pub place: Place,
    pub enabled: bool,
    /// A program and its arguments.
    pub command: Vec<String>,
    /// The variables that are passed on to it.
    pub environment: Vec<String>,
    /// What it is told at the hand-shake.
    pub settings: Json,
    /// What it may read of the user's keys.
    pub readable: Vec<String>,
    /// Where it may write beside its own directory.
    pub writable: Vec<String>,
    pub start_seconds: Option<u64>,
    pub call_seconds: Option<u64>,
    /// It decides about tools: while it cannot be asked, none is run.
    pub guards: bool,
}

/// Hermes' own Python, and what of it is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hermes {
    /// `throughline.hermes.enabled: false`: nothing of it is.
    pub off: bool,
    /// The interpreter that has Hermes. None: it is looked for.
    pub python: Option<String>,
    /// Which of its toolsets come along. None: no tools of it.
    pub tools: Option<Vec<String>>,
    /// Variables that are passed on beside those of `.env`.
    pub environment: Vec<String>,
    /// `plugins.enabled`, Hermes' list. None: there is none.
    pub plugins: Option<Vec<String>>,
    /// `plugins.disabled`.
    pub disabled: Vec<String>,
}

pub(super) fn read(root: &Node) -> (Plugins, Vec<Notice>) {
    let mut reader = PluginSettingsReader { errors: Vec::new() };
    let list = match root.get("throughline.plugins") {
        None => Vec::new(),
        Some(node) => {
            reader.only_a_map(node, "throughline.plugins");
            node.entries()
                .iter()
                .filter_map(|entry| reader.plugin(&entry.key, &entry.node, entry.place))
                .collect()
        }
    };
    let hermes = reader.hermes(root);
    (Plugins { list, hermes }, reader.errors)
}

struct PluginSettingsReader {
    errors: Vec<Notice>,
}

impl PluginSettingsReader {
    fn wrong(&mut self, place: Place, text: String) {
        self.errors.push(Notice { place, text });
    }

    fn only_a_map(&mut self, node: &Node, path: &str) {
        if !matches!(node.value, Value::Map(_) | Value::Null) {
            self.wrong(node.place, format!("`{path}` is a mapping, and this is {}", node.value.kind()));
        }
    }

    fn only(&mut self, node: &Node, path: &str, known: &[&str]) {
        self.errors.extend(misplaced(node, path, known));
    }

    fn plugin(&mut self, name: &str, node: &Node, place: Place) -> Option<Plugin> {
        let path = format!("throughline.plugins.{name}");
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let text = format!("`{path}`: a plugin's name has up to 64 letters, digits, `-` and `_`");
            self.wrong(place, text);
            return None;
        }
        self.only(node, &path, &KEYS);
        let command = match node.get("command").map(|node| &node.value) {
            Some(Value::Text(program)) if !program.trim().is_empty() => vec![program.trim().to_owned()],
            _ => self.list(node, &path, "command"),
        };
        if command.is_empty() {
            self.wrong(place, format!("`{path}.command` is missing: a list of a program and its arguments"));
            return None;
        }
        Some(Plugin {
            name: name.to_owned(),
            place,
            enabled: self.boolean(node, &path, "enabled").unwrap_or(true),
            command,
            environment: self.list(node, &path, "env"),
            settings: node.get("settings").map_or(Json::Null, json),
            readable: self.list(node, &path, "read"),
            writable: self.list(node, &path, "write"),
            start_seconds: self.seconds(node, &path, "start_seconds"),
            call_seconds: self.seconds(node, &path, "call_seconds"),
            guards: self.boolean(node, &path, "guards").unwrap_or(false),
        })
    }

    fn hermes(&mut self, root: &Node) -> Hermes {
        const PATH: &str = "throughline.hermes";
        // A mistake in Hermes' own lists is Hermes' to complain about.
        let named = |path: &str| match root.get(path).map(|node| &node.value) {
            Some(Value::List(items)) => Some(items.iter().filter_map(|item| as_text(&item.value)).collect()),
            _ => None,
        };
        let lists = Hermes {
            plugins: named("plugins.enabled"),
            disabled: named("plugins.disabled").unwrap_or_default(),
            ..Hermes::default()
        };
        let Some(node) = root.get(PATH) else { return lists };
        self.only(node, PATH, &HERMES_KEYS);
        let text = |key: &str| node.get(key).filter(|node| !is_nothing(&node.value));
        Hermes {
            off: !self.boolean(node, PATH, "enabled").unwrap_or(true),
            python: match text("python").map(|node| (node.place, as_text(&node.value))) {
                Some((place, None)) => {
                    self.wrong(place, format!("`{PATH}.python` is the path of an interpreter"));
                    None
                }
                Some((_, path)) => path,
                None => None,
            },
            tools: node.get("tools").is_some().then(|| self.list(node, PATH, "tools")),
            environment: self.list(node, PATH, "env"),
            ..lists
        }
    }

    fn list(&mut self, node: &Node, path: &str, key: &str) -> Vec<String> {
        let Some(node) = node.get(key) else { return Vec::new() };
        let items = match &node.value {
            Value::Null => return Vec::new(),
            Value::List(items) => items.iter().map(|item| as_text(&item.value)).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        items.unwrap_or_else(|| {
            self.wrong(node.place, format!("`{path}.{key}` is a list of texts"));
            Vec::new()
        })
    }

    fn boolean(&mut self, node: &Node, path: &str, key: &str) -> Option<bool> {
        let node = node.get(key)?;
        let read = as_boolean(&node.value);
        if read.is_none() {
            self.wrong(node.place, format!("`{path}.{key}` takes `true` or `false`"));
        }
        read
    }

    fn seconds(&mut self, node: &Node, path: &str, key: &str) -> Option<u64> {
        let node = node.get(key)?;
        let read = as_count(&node.value).filter(|seconds| (1..=3600).contains(seconds));
        if read.is_none() {
            self.wrong(node.place, format!("`{path}.{key}` takes a number of seconds from 1 to 3600"));
        }
        read
    }
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer(number) => Json::from(*number),
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parse(text: &str) -> Config {
        Config::parse(text, &|name| (name == "KEY").then(|| "value".to_owned())).expect("it is YAML")
    }

    #[test]
    fn a_plugin_is_a_program_with_what_it_may_know() {
        let config = parse(
            "throughline:\n  plugins:\n    lcm:\n      command: [python3, engine.py]\n      env: [OPENAI_API_KEY]\n      \
             settings: {depth: 3, key: '${KEY}'}\n      write: [/srv/lcm]\n      call_seconds: 5\n      guards: true\n    other: {command: other, enabled: no}\n  \
             hermes: {python: /opt/python, tools: [web]}\nplugins: {enabled: [a], disabled: [b]}\n",
        );
        assert_eq!(config.errors.len(), 0, "{:?}", config.errors);
        let [lcm, other] = &config.plugins.list[..] else { panic!("two") };
        assert_eq!(lcm.command, ["python3", "engine.py"]);
        assert_eq!(lcm.environment, ["OPENAI_API_KEY"]);
        assert_eq!(lcm.settings.to_string(), r#"{"depth":3,"key":"value"}"#);
        assert_eq!((lcm.writable.len(), lcm.call_seconds, lcm.enabled, lcm.guards), (1, Some(5), true, true));
        assert_eq!((other.command.len(), other.enabled), (1, false));
        let hermes = &config.plugins.hermes;
        assert_eq!(hermes.python.as_deref(), Some("/opt/python"));
        assert_eq!(hermes.tools.as_deref(), Some(&["web".to_owned()][..]));
        assert_eq!(
            (hermes.plugins.as_ref().map(Vec::len), hermes.disabled.len(), hermes.off),
            (Some(1), 1, false)
        );
    }

    #[test]
    fn a_mistake_in_our_own_table_is_an_error_with_its_place() {
        for (yaml, line, text) in [
            ("throughline: {plugins: 5}", 1, "is a mapping"),
            (
                "throughline:\n  plugins:\n    a: {env: [X]}\n",
                3,
                "`throughline.plugins.a.command` is missing",
            ),
            (
                "throughline:\n  plugins:\n    a: {command: x, comand: y}\n",
                3,
                "`throughline.plugins.a.comand` does not exist",
            ),
            ("throughline:\n  plugins:\n    a/b: {command: x}\n", 3, "a plugin's name"),
            ("throughline:\n  plugins:\n    a: {command: x, env: X}\n", 3, "is a list of texts"),
            ("throughline:\n  plugins:\n    a: {command: x, call_seconds: 0}\n", 3, "from 1 to 3600"),
            ("throughline:\n  plugins:\n    a: {command: x, enabled: perhaps}\n", 3, "`true` or `false`"),
            ("throughline:\n  hermes: {python: [x]}\n", 2, "the path of an interpreter"),
            ("throughline:\n  hermes: {pyhton: x}\n", 2, "`throughline.hermes.pyhton` does not exist"),
        ] {
            let config = parse(yaml);
            let found = config.errors.iter().find(|error| error.text.contains(text));
            assert_eq!(found.map(|error| error.place.line), Some(line), "{yaml}: {:?}", config.errors);
        }
    }
}
