//! For any calls on any file: no entry goes that no call named, none goes without being kept
//! in the history, and no call fills a store beyond its limit.

use crate::common::{answer, call_in_turn, read, write};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use throughline_memory::{Memory, MemorySettings, MemoryTarget};

const LIMIT: usize = 60;

/// As Hermes reads a file: an independent reading, to judge by.
fn entries(text: &str) -> BTreeSet<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let entries = text.split("\n§\n").map(|entry| entry.trim().to_owned());
    entries.filter(|entry| !entry.is_empty()).collect()
}

fn size(text: &str) -> usize {
    let entries: Vec<String> = entries(text).into_iter().collect();
    entries.join("\n§\n").chars().count()
}

/// Short, so that they meet; with all that could be taken for a separator.
fn text() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "b", "ä", "§", "\n", "\n§\n", "\r\n", " ", "long words ", "日本"]);
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn operation() -> impl Strategy<Value = Value> {
    (prop::sample::select(vec!["add", "add", "replace", "remove"]), text(), text()).prop_map(
        |(action, content, old_text)| json!({"action": action, "content": content, "old_text": old_text}),
    )
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => operation(),
        1 => prop::collection::vec(operation(), 1..4).prop_map(|operations| json!({"operations": operations})),
    ]
}

/// The parts of entries that a call names as what may go.
fn named(arguments: &Value) -> Vec<String> {
    let operations = arguments["operations"].as_array().cloned().unwrap_or_else(|| vec![arguments.clone()]);
    let naming = operations.iter().filter(|operation| operation["action"] != "add");
    let normal = |text: &str| text.trim().replace("\r\n", "\n").replace('\r', "\n");
    naming.map(|operation| normal(operation["old_text"].as_str().unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_entry_goes_unless_it_was_named(
        initial in prop::option::of(text()),
        calls in prop::collection::vec(arguments(), 1..12),
    ) {
        let home = tempfile::tempdir().unwrap();
        if let Some(initial) = &initial {
            write(home.path(), "MEMORY.md", initial);
        }
        let memory = Memory::new(MemorySettings { memory_char_limit: LIMIT, ..MemorySettings::new(home.path()) });
        for (turn, arguments) in calls.iter().enumerate() {
            let before = read(home.path(), "MEMORY.md");
            let said = answer(&memory, &call_in_turn(turn as u64, arguments));
            let said: Value = serde_json::from_str(&said).unwrap();
            let after = read(home.path(), "MEMORY.md");
            judge(arguments, &said, before.as_deref(), after.as_deref())?;
            let kept: BTreeSet<String> =
                memory.history(MemoryTarget::Memory).unwrap().into_iter().map(|past| past.record.entry).collect();
            for gone in gone(before.as_deref(), after.as_deref()) {
                prop_assert!(kept.contains(&gone), "{gone:?} went without a trace with {arguments}");
            }
        }
    }
}

/// What was an entry and is none any more. A separator left dangling is no part of one once another follows.
fn gone(before: Option<&str>, after: Option<&str>) -> Vec<String> {
    let left = entries(after.unwrap_or_default());
    let whole = |entry: &String| !entry.ends_with('§') && !left.contains(entry);
    entries(before.unwrap_or_default()).into_iter().filter(whole).collect()
}

fn judge(
    arguments: &Value,
    said: &Value,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), TestCaseError> {
    if said["success"] == false {
        prop_assert_eq!(before, after, "refused, yet changed: {}", said);
        return Ok(());
    }
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let named = named(arguments);
    let left = entries(after);
    for entry in entries(before) {
        // A separator that someone left dangling at the end is no part of an entry once another follows.
        let closed = entry.strip_suffix("\n§").unwrap_or(&entry).trim().to_owned();
        let is_only_a_separator = entry.trim() == "§";
        let may_go = is_only_a_separator || named.iter().any(|part| entry.contains(part.as_str()));
        prop_assert!(
            left.contains(&entry) || left.contains(&closed) || may_go,
            "{:?} went with {}",
            entry,
            arguments
        );
    }
    prop_assert!(
        size(after) <= LIMIT || size(after) <= size(before),
        "{} chars by {}",
        size(after),
        arguments
    );
    if arguments["action"] == "add" {
        let kept = before.trim_end_matches(char::is_whitespace);
        prop_assert!(after.starts_with(kept), "{:?} became {:?}", before, after);
    }
    Ok(())
}
