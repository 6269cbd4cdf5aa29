//! Hermes' `config.yaml`, as written: the tree with the place of every value, and the settings
//! that this gateway reads from it.
//!
//! - text becomes a tree as PyYAML would build it ([`Node`]), then `${VAR}` is replaced in values
//!   as Hermes does it: a variable that is not set stays as written
//! - a key that is unknown, or that has no effect, is a [`Notice`]; nothing in Hermes' part of
//!   the file is refused, except text that is no YAML at all
//! - `throughline:` is our own table: an unknown key or a wrong value there is an error
//! - a value that was not written is absent here: defaults belong to the modules that use them
//!
//! Deliberately absent: files, the process environment, `gateway.json` and `/etc/hermes`.

pub mod context_window;
pub mod edit;
mod excerpt;
pub mod hooks;
mod keys;
pub mod platforms;
pub mod plugins;
pub mod provider;
mod read;
mod scalar;
mod settings;
pub mod support;
pub mod tools;
mod tree;

pub use excerpt::excerpt;
pub(crate) use keys::distance;
pub use settings::{
    AgentSettings, ApiServer, At, Auxiliary, ChainPlatform, CompressionSettings, HermesSettings,
    MediaDelivery, ModelSettings, NamedProvider, Own, ReviewSettings, SessionReset, split_origins,
};
pub use throughline_core::redact::Secret;
pub use tools::{By, Given, ListSetting, Off, Switches, Tools};
pub use tree::{Malformed, Node, Notice, Place, Value, YamlEntry};

/// One file, read once.
#[derive(Debug)]
pub struct Config {
    pub root: Node,
    pub settings: HermesSettings,
    pub tools: Tools,
    pub hooks: hooks::Hooks,
    pub plugins: plugins::Plugins,
    pub own: Own,
    /// The file works, and something in it may not do what its author thinks.
    pub warnings: Vec<Notice>,
    /// What must be corrected before a gateway can start.
    pub errors: Vec<Notice>,
}

impl Config {
    /// `variable` looks a name up in the environment, `.env` included.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Config, Malformed> {
        let tree::YamlDocument { mut root, notices } = tree::parse(text)?;
        let mut warnings = notices;
        let about_keys = keys::notices(&root);
        expand(&mut root, variable);
        let mut reader = read::ConfigReader::new(&root);
        let settings = reader.settings();
        warnings.append(&mut reader.notices);
        let (tools, mut notices) = tools::read(&root, variable);
        warnings.append(&mut notices);
        let (hooks, mut notices) = hooks::read(&root);
        warnings.append(&mut notices);
        let mut strict = read::ConfigReader::new(&root);
        let own = strict.own();
        let mut errors = strict.notices;
        let (plugins, mut notices) = plugins::read(&root);
        errors.append(&mut notices);
        errors.sort_by_key(|notice| notice.place);
        // The reader of a setting knows better what becomes of it.
        let is_told = |notice: &Notice| warnings.iter().any(|other| other.is_about_the_same(notice));
        let about_keys: Vec<Notice> = about_keys.into_iter().filter(|notice| !is_told(notice)).collect();
        warnings.extend(about_keys);
        warnings.sort_by_key(|notice| notice.place);
        Ok(Config { root, settings, tools, hooks, plugins, own, warnings, errors })
    }
}

/// What the old `gateway.json` says about resets. Nothing, if it makes no sense.
pub fn legacy_resets(text: &str) -> SessionReset {
    match tree::parse(text) {
        Ok(tree::YamlDocument { root, .. }) => read::ConfigReader::new(&root).legacy_resets(),
        Err(_) => SessionReset::default(),
    }
}

/// Replaces `${NAME}` in every text below, keys excepted.
fn expand(node: &mut Node, variable: &dyn Fn(&str) -> Option<String>) {
    match &mut node.value {
        Value::Text(text) if text.contains("${") => *text = expanded(text, variable),
        Value::List(items) => items.iter_mut().for_each(|item| expand(item, variable)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| expand(&mut entry.node, variable)),
        _ => {}
    }
}

fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, name)) = reference(rest) {
        let end = start + name.len() + 3;
        out.push_str(&rest[..start]);
        match variable(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The first `${NAME}` in `text`: where it starts, and the name. `${}` is none.
fn reference(text: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("${") {
        let start = from + found;
        let name = &text[start + 2..start + 2 + text[start + 2..].find('}')?];
        if !name.is_empty() {
            return Some((start, name));
        }
        from = start + 2;
    }
    None
}

#[cfg(test)]
mod tests;
