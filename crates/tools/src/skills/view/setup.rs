//! What a skill needs before it can be used, and what of it is missing.

use super::super::directories;
use super::super::frontmatter::{self, SkillFields};
use super::super::settings::SkillSettings;
use super::{NO_SECRETS_HERE, REMOTE_BACKENDS, VARIABLE};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use throughline_core::tool::Caller;

/// What a skill needs before it can be used, and what of it is missing.
pub(super) struct SkillSetup {
    pub(super) required: Vec<Value>,
    pub(super) missing_variables: Vec<String>,
    pub(super) missing_files: Vec<String>,
}

impl SkillSetup {
    pub(super) fn of(settings: &SkillSettings, fields: &SkillFields) -> Self {
        let required = required_variables(fields);
        let known = dotenv(&settings.home);
        let is_set = |name: &str| match known.get(name) {
            Some(has_value) => *has_value,
            None => settings.variables.contains(name),
        };
        let missing_variables = required
            .iter()
            .filter(|entry| entry.get("optional").is_none())
            .filter_map(|entry| entry["name"].as_str())
            .filter(|name| !is_set(name))
            .map(str::to_owned)
            .collect();
        Self { required, missing_variables, missing_files: missing_files(settings, fields) }
    }

    pub(super) fn is_needed(&self) -> bool {
        !self.missing_variables.is_empty() || !self.missing_files.is_empty()
    }

    pub(super) fn available_variables(&self) -> Vec<String> {
        let names = self.required.iter().filter_map(|entry| entry["name"].as_str());
        let missing: BTreeSet<&str> = self.missing_variables.iter().map(String::as_str).collect();
        names.filter(|name| !missing.contains(name)).map(str::to_owned).collect()
    }

    pub(super) fn annotate(&self, answer: &mut Value, settings: &SkillSettings, caller: &Caller) {
        let help = self.required.iter().find_map(|entry| entry["help"].as_str());
        if let Some(help) = help {
            answer["setup_help"] = json!(help);
        }
        if !self.missing_variables.is_empty() && caller.source != "cli" {
            answer["gateway_setup_hint"] = json!(NO_SECRETS_HERE);
        }
        if !self.is_needed() {
            return;
        }
        let variables = self.missing_variables.iter().map(|name| format!("env ${name}"));
        let missing: Vec<_> =
            variables.chain(self.missing_files.iter().map(|path| format!("file {path}"))).collect();
        let mut note = format!("Setup needed before using this skill: missing {}.", missing.join(", "));
        if let Some(help) = help {
            note = format!("{note} {help}");
        }
        let backend = settings.terminal_backend.trim().to_lowercase();
        if REMOTE_BACKENDS.contains(&backend.as_str()) {
            note = format!(
                "{note} {}-backed skills need these requirements available inside the remote environment as well.",
                backend.to_uppercase()
            );
        }
        answer["setup_note"] = json!(note);
    }
}

/// Names in the home's `.env`, and whether they have a value.
fn dotenv(home: &Path) -> HashMap<String, bool> {
    let bytes = std::fs::read(home.join(".env")).unwrap_or_default();
    let parsed = throughline_hermes::env::Dotenv::parse(&bytes, &|_| None);
    parsed.variables.into_iter().map(|known| (known.name, !known.value.expose().is_empty())).collect()
}

fn trimmed(entry: &SkillFields, key: &str) -> Option<String> {
    let text = entry.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `required_environment_variables`, `setup.collect_secrets` and `prerequisites.env_vars`: three
/// ways to say one thing.
pub fn required_variables(fields: &SkillFields) -> Vec<Value> {
    let setup = fields.get("setup").and_then(Value::as_object);
    // It is told with each variable.
    let help = setup.and_then(|setup| trimmed(setup, "help"));
    let help = help.map(|help| frontmatter::head(&help, frontmatter::DESCRIPTION_CHARS_MAX).to_owned());
    let mut required: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |entry: &SkillFields| {
        let named = |key| entry.get(key).filter(|value| frontmatter::is_truthy(value)).map(frontmatter::text);
        let name = named("name").or_else(|| named("env_var")).unwrap_or_default().trim().to_owned();
        if !VARIABLE.is_match(&name) || !seen.insert(name.clone()) {
            return;
        }
        let prompt = named("prompt").unwrap_or_else(|| format!("Enter value for {name}"));
        let mut normal = json!({"name": name, "prompt": prompt.trim()});
        let given = ["help", "provider_url", "url"].into_iter().find_map(|key| trimmed(entry, key));
        if let Some(help) = given.or_else(|| help.clone()) {
            normal["help"] = json!(help);
        }
        if let Some(purpose) = trimmed(entry, "required_for") {
            normal["required_for"] = json!(purpose);
        }
        if entry.get("optional").is_some_and(frontmatter::is_truthy) {
            normal["optional"] = json!(true);
        }
        required.push(normal);
    };
    let bare = |name: &str| SkillFields::from_iter([("name".to_owned(), json!(name))]);
    for item in many(fields.get("required_environment_variables")) {
        match item {
            Value::String(name) => add(&bare(name)),
            Value::Object(entry) => add(entry),
            _ => {}
        }
    }
    for item in many(setup.and_then(|setup| setup.get("collect_secrets"))) {
        if let Value::Object(entry) = item {
            let mut entry = entry.clone();
            entry.shift_remove("name");
            entry.shift_remove("help");
            add(&entry);
        }
    }
    let legacy = fields.get("prerequisites").and_then(|prerequisites| prerequisites.get("env_vars"));
    frontmatter::list(legacy).iter().for_each(|name| add(&bare(name)));
    required
}

/// The items of a list, or one mapping that stands for a list of one.
fn many(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        Some(value @ Value::Object(_)) => std::slice::from_ref(value),
        _ => &[],
    }
}

/// `required_credential_files` that are not in the home. One outside of it is never there.
fn missing_files(settings: &SkillSettings, fields: &SkillFields) -> Vec<String> {
    let Some(Value::Array(entries)) = fields.get("required_credential_files") else { return Vec::new() };
    let paths = entries.iter().filter_map(|entry| match entry {
        Value::String(path) => Some(path.trim().to_owned()),
        Value::Object(entry) => trimmed(entry, "path").or_else(|| trimmed(entry, "name")),
        _ => None,
    });
    let is_there = |path: &String| {
        let file = settings.home.join(path);
        Path::new(path).is_relative()
            && directories::escape(&file, &settings.home).is_none()
            && file.is_file()
    };
    paths.filter(|path| !path.is_empty() && !is_there(path)).collect()
}
