//! Keys that Hermes once read, and how far two names are apart.
//!
//! Nothing here refuses anything: Hermes takes any key, and so do we.

use super::support;
use super::tree::{Node, Notice};

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

/// What a reader of this file should know about its keys.
pub(super) fn notices(root: &Node) -> Vec<Notice> {
    let mut notices = support::unknown(root);
    for (key, instead) in OBSOLETE {
        let found = match key.rsplit_once('.') {
            Some((section, name)) => root.get(section).and_then(|node| node.entry(name)),
            None => root.entry(key),
        };
        if let Some(entry) = found {
            notices.retain(|notice| notice.place != entry.place);
            let text = format!("`{key}` is obsolete: {instead}");
            notices.push(Notice { place: entry.place, text });
        }
    }
    notices
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
    fn obsolete_keys_are_said_to_be_so() {
        for (yaml, part) in [
            ("max_turns: 3", "`max_turns` is obsolete: write it as `agent.max_turns`"),
            ("compression: {summary_model: x}", "auxiliary.compression.model"),
        ] {
            let texts = texts(yaml);
            assert!(texts.len() == 1 && texts[0].contains(part), "{yaml}: {texts:?}");
        }
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
