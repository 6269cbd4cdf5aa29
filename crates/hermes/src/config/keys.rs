//! Which keys Hermes knows, so that a slip of the pen is pointed out with the name that was meant.
//!
//! Nothing here refuses anything: Hermes takes any key, and so do we.

use super::tree::{Entry, Node, Notice, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Keys that Hermes once read, and what to write now.
const OBSOLETE: [(&str, &str); 16] = [
    ("provider", "write it as `model.provider`"),
    ("base_url", "write it as `model.base_url`"),
    ("api_base", "write it as `model.base_url`"),
    ("context_length", "write it as `model.context_length`"),
    ("max_turns", "write it as `agent.max_turns`"),
    ("model.api_base", "write it as `model.base_url`"),
    ("model.model", "write it as `model.default`"),
    ("model.name", "write it as `model.default`"),
    ("compression.summary_model", "write it as `auxiliary.compression.model`"),
    ("compression.summary_provider", "write it as `auxiliary.compression.provider`"),
    ("compression.summary_base_url", "write it as `auxiliary.compression.base_url`"),
    ("memory.write_mode", "write `memory.write_approval: true` or `false`"),
    ("skills.write_mode", "write `skills.write_approval: true` or `false`"),
    ("delegation.max_async_children", "write it as `delegation.max_concurrent_children`"),
    ("display.busy_text_mode", "write it as `display.busy_input_mode`"),
    ("auxiliary.session_search", "remove it: Hermes 0.19 has no such task"),
];

/// Keys that Hermes honours and Throughline does not, where something is set.
const IGNORED: [(&str, &str); 4] = [
    ("fallback_model", "Throughline asks one model; an error of it is reported, not passed to another"),
    ("fallback_providers", "Throughline asks one model; an error of it is reported, not passed to another"),
    ("credential_pool_strategies", "Throughline uses one key per model"),
    ("smart_model_routing", "Throughline asks one model"),
];

struct Section {
    keys: Vec<&'static str>,
    open: bool,
}

static KNOWN: LazyLock<HashMap<&'static str, Section>> = LazyLock::new(|| {
    let mut sections: HashMap<&'static str, Section> = HashMap::new();
    let mut current = "";
    for line in include_str!("known.txt").lines().filter(|line| !line.starts_with('#')) {
        let keys = match line.split_once(": ") {
            Some((name, keys)) => {
                current = if name == "." { "" } else { name };
                keys
            }
            None => line,
        };
        let section = sections.entry(current).or_insert(Section { keys: Vec::new(), open: false });
        for key in keys.split_whitespace() {
            match key {
                "*" => section.open = true,
                key => section.keys.push(key),
            }
        }
    }
    sections
});

/// What a reader of this file should know about its keys.
pub(super) fn notices(root: &Node) -> Vec<Notice> {
    let mut notices = Vec::new();
    walk(root, "", &mut notices);
    notices
}

fn walk(node: &Node, path: &str, notices: &mut Vec<Notice>) {
    let Some(section) = section(path) else { return };
    for entry in node.entries() {
        let full = join(path, &entry.key);
        if full == "throughline" {
            continue; // read strictly, elsewhere
        }
        match about(entry, path, &full, section) {
            Some(text) => notices.push(Notice { place: entry.place, text }),
            None => walk(&entry.node, &full, notices),
        }
    }
}

fn section(path: &str) -> Option<&'static Section> {
    KNOWN.get(path).or_else(|| {
        let parent = path.rsplit_once('.')?.0;
        KNOWN.get(format!("{parent}.*").as_str())
    })
}

fn about(entry: &Entry, path: &str, full: &str, section: &Section) -> Option<String> {
    if let Some((_, instead)) = OBSOLETE.iter().find(|(key, _)| *key == full) {
        return Some(format!("`{full}` is obsolete: {instead}"));
    }
    if let Some((_, why)) = IGNORED.iter().find(|(key, _)| *key == full).filter(|_| is_set(&entry.node)) {
        return Some(format!("`{full}` has no effect here: {why}"));
    }
    if section.keys.contains(&entry.key.as_str()) || section.open || is_private(path, entry) {
        return None;
    }
    Some(match nearest(&entry.key, path) {
        Some(name) => format!("`{full}` is not a key of Hermes; did you mean `{name}`?"),
        None => format!("`{full}` is not a key of Hermes, and has no effect"),
    })
}

fn is_set(node: &Node) -> bool {
    match &node.value {
        Value::Null | Value::Bool(false) => false,
        Value::Text(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
        _ => true,
    }
}

/// At the top, `_marks` are internal, and Hermes hands `NAMES: values` on as environment variables.
fn is_private(path: &str, entry: &Entry) -> bool {
    let variable = entry.key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && !matches!(entry.node.value, Value::List(_) | Value::Map(_));
    path.is_empty() && (entry.key.starts_with('_') || variable)
}

/// The known key that was probably meant: a neighbour by its letters, or the same name elsewhere.
fn nearest(key: &str, path: &str) -> Option<String> {
    let lower = key.to_lowercase().replace('-', "_");
    let limit = (lower.chars().count() / 3).max(1);
    let neighbours = section(path).map(|section| section.keys.as_slice()).unwrap_or_default();
    let closest = neighbours
        .iter()
        .map(|known| (distance(&lower, known), *known))
        .filter(|(distance, _)| *distance <= limit)
        .min();
    if let Some((_, known)) = closest {
        return Some(join(path, known));
    }
    let mut elsewhere: Vec<_> = KNOWN
        .iter()
        .filter(|(name, section)| !name.contains('*') && section.keys.contains(&lower.as_str()))
        .map(|(name, _)| join(name, &lower))
        .collect();
    // The shortest path is the one people mean: `agent.max_turns`, not a task's own.
    elsewhere.sort_by_key(|name| (name.matches('.').count(), name.clone()));
    elsewhere.into_iter().next()
}

/// How many letters must be changed, added, dropped or swapped to get from one word to the other.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let mut cost = last[column] + usize::from(letter != other);
            cost = cost.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *letter == to[column - 1] && from[row - 1] == *other {
                cost = cost.min(before[column - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

fn join(path: &str, key: &str) -> String {
    match path.is_empty() {
        true => key.to_owned(),
        false => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::parse;

    fn texts(yaml: &str) -> Vec<String> {
        notices(&parse(yaml).unwrap().root).into_iter().map(|notice| notice.text).collect()
    }

    #[test]
    fn an_unknown_key_is_pointed_out_with_the_nearest_known_name() {
        for (yaml, expected) in [
            ("compresion: {enabled: true}", Some("did you mean `compression`?")),
            ("compression: {treshold: 0.5}", Some("did you mean `compression.threshold`?")),
            ("agent: {max-turns: 3}", Some("did you mean `agent.max_turns`?")),
            ("agent: {mxa_turns: 3}", Some("did you mean `agent.max_turns`?")),
            ("busy_input_mode: queue", Some("did you mean `display.busy_input_mode`?")),
            ("display: {frobnicate: 1}", Some("has no effect")),
            ("auxiliary: {vision: {modle: x}}", Some("did you mean `auxiliary.vision.model`?")),
            ("OPENAI_API_KEY: x", None),
            ("_test: {anything: 1}", None),
            ("providers: {mine: {whatever: 1}}", None),
            ("telegram: {whatever: 1}", None),
            ("platforms: {api_server: {extra: {port: 1}}}", None),
            ("auxiliary: {my_plugin_task: {model: x}}", None),
            ("model: some/model", None),
            ("throughline: {anything: 1}", None),
        ] {
            let texts = texts(yaml);
            match expected {
                Some(part) => assert!(texts.iter().any(|text| text.contains(part)), "{yaml}: {texts:?}"),
                None => assert!(texts.is_empty(), "{yaml}: {texts:?}"),
            }
        }
    }

    #[test]
    fn obsolete_keys_and_keys_without_effect_are_said_to_be_so() {
        for (yaml, part) in [
            ("max_turns: 3", "`max_turns` is obsolete: write it as `agent.max_turns`"),
            ("compression: {summary_model: x}", "auxiliary.compression.model"),
            ("fallback_model: {provider: openrouter, model: x}", "has no effect here"),
            ("fallback_providers: [a]", "has no effect here"),
        ] {
            let texts = texts(yaml);
            assert!(texts.len() == 1 && texts[0].contains(part), "{yaml}: {texts:?}");
        }
        assert!(texts("fallback_providers: []\nfallback_model:\n").is_empty());
    }

    #[test]
    fn the_table_names_every_section_that_hermes_has() {
        for path in ["", "agent", "model", "compression", "display", "gateway.api_server", "auxiliary.*"] {
            assert!(KNOWN.get(path).is_some_and(|section| !section.keys.is_empty()), "{path}");
        }
        assert!(KNOWN[""].keys.len() > 100);
        assert!(KNOWN["sessions"].open && !KNOWN["agent"].open);
    }

    #[test]
    fn letters_are_counted_once() {
        for (from, to, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("max_turn", "max_turns", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }
}
