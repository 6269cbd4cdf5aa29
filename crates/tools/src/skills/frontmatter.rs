//! What a SKILL.md says about itself: the YAML between two `---` lines at its top.
//!
//! Read as PyYAML reads it. Text that is no YAML is split at its colons, line by line, as Hermes
//! does, so that a skill with one bad line is still found under its name.

use regex::Regex;
use serde_json::{Map, Value};
use std::sync::LazyLock;
use throughline_hermes::config::{self, Config};

/// Longest name and description that a skill may give itself, in characters.
pub const NAME_CHARS_MAX: usize = 64;
pub const DESCRIPTION_CHARS_MAX: usize = 1024;

pub type SkillFields = Map<String, Value>;

static CLOSING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\n---\s*\n").expect("a valid pattern"));

/// The YAML and the text below it. None: there is no frontmatter, or it has no end.
fn split(content: &str) -> Option<(&str, &str)> {
    let rest = content.strip_prefix("---")?;
    let end = CLOSING.find(rest)?;
    Some((&rest[..end.start()], &rest[end.end()..]))
}

/// The fields and the text below them. What cannot be read has no fields.
pub fn parse(content: &str) -> (SkillFields, &str) {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    match split(content) {
        None => (SkillFields::new(), content),
        Some((yaml, body)) => (read(yaml).unwrap_or_else(|_| by_colons(yaml)), body),
    }
}

/// What is wrong with a SKILL.md that is about to be written.
pub fn check(content: &str) -> Result<SkillFields, String> {
    if content.trim().is_empty() {
        return Err("Content cannot be empty.".to_owned());
    }
    let content = content.trim_start_matches('\u{feff}');
    if !content.starts_with("---") {
        return Err(
            "SKILL.md must start with YAML frontmatter (---). See existing skills for format.".to_owned()
        );
    }
    let Some((yaml, body)) = split(content) else {
        return Err("SKILL.md frontmatter is not closed. Ensure you have a closing '---' line.".to_owned());
    };
    let fields = read(yaml)?;
    if fields.is_empty() {
        return Err(NO_MAPPING.to_owned());
    }
    for required in ["name", "description"] {
        if !fields.contains_key(required) {
            return Err(format!("Frontmatter must include '{required}' field."));
        }
    }
    if text(&fields["description"]).chars().count() > DESCRIPTION_CHARS_MAX {
        return Err(format!("Description exceeds {DESCRIPTION_CHARS_MAX} characters."));
    }
    if body.trim().is_empty() {
        return Err(
            "SKILL.md must have content after the frontmatter (instructions, procedures, etc.).".to_owned()
        );
    }
    Ok(fields)
}

const NO_MAPPING: &str = "Frontmatter must be a YAML mapping (key: value pairs).";

fn read(yaml: &str) -> Result<SkillFields, String> {
    match Config::parse(yaml, &|_| None) {
        Ok(parsed) => match json(&parsed.root) {
            Value::Object(fields) => Ok(fields),
            _ => Err(NO_MAPPING.to_owned()),
        },
        Err(malformed) if malformed.message.starts_with("settings are a mapping") => {
            Err(NO_MAPPING.to_owned())
        }
        Err(malformed) => Err(format!("YAML frontmatter parse error: {malformed}")),
    }
}

fn json(node: &config::Node) -> Value {
    match &node.value {
        config::Value::Null => Value::Null,
        config::Value::Bool(value) => Value::Bool(*value),
        config::Value::Integer(value) => Value::from(*value),
        config::Value::Number(value) => Value::from(*value),
        config::Value::Text(text) => Value::String(text.clone()),
        config::Value::List(items) => items.iter().map(json).collect(),
        config::Value::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect())
        }
    }
}

fn by_colons(yaml: &str) -> SkillFields {
    let lines = yaml.trim().lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.trim().to_owned(), Value::String(value.trim().to_owned()))).collect()
}

/// A value as Python's `str` would show it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// The text of a field; None if it is missing or empty.
pub fn field(fields: &SkillFields, name: &str) -> Option<String> {
    fields.get(name).filter(|value| is_truthy(value)).map(text)
}

/// What Python's `if value` finds true.
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// A list, or one value that stands for a list of one.
pub fn list(value: Option<&Value>) -> Vec<String> {
    match value {
        None => Vec::new(),
        Some(value) if !is_truthy(value) => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    }
}

/// Tags: a list, or text with commas, brackets or not.
pub fn tags(value: Option<&Value>) -> Vec<String> {
    match value {
        None => Vec::new(),
        Some(value) if !is_truthy(value) => Vec::new(),
        Some(Value::Array(items)) => {
            items.iter().filter(|item| is_truthy(item)).map(|item| text(item).trim().to_owned()).collect()
        }
        Some(value) => {
            let text = text(value);
            let text = text.trim();
            let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
            let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| part.trim_matches(['"', '\'']).to_owned()).collect()
        }
    }
}

/// `metadata.hermes`.
pub fn hermes(fields: &SkillFields) -> Option<&SkillFields> {
    fields.get("metadata")?.get("hermes")?.as_object()
}

/// The first characters of a text; the whole of a shorter one.
pub fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
