//! P23 with a model that does nothing but what the answers tell it.

use crate::common::{json, memory_in, read, write};
use serde_json::{Value, json};
use std::path::Path;

const LIMIT: usize = 2200;

/// Entries of a hundred characters and one that fills up to exactly `size`, with their separators.
fn filled(home: &Path, size: usize) {
    let mut entries = Vec::new();
    let mut left = size;
    while left > 203 {
        entries.push(format!("{:x<100}", format!("fact {} ", entries.len())));
        left -= 103;
    }
    entries.push("y".repeat(left));
    let text = entries.join("\n§\n");
    assert_eq!(text.chars().count(), size);
    write(home, "MEMORY.md", &text);
}

fn add(content: &str) -> Value {
    json!({"target": "memory", "action": "add", "content": content})
}

fn size(home: &Path) -> usize {
    read(home, "MEMORY.md").unwrap().chars().count()
}

/// What a model makes of an answer that shows entries and sizes: the largest become short ones until
/// `wanted` characters are free, all in one call. It looks at nothing else.
fn consolidation(answer: &Value, wanted: usize, content: Option<&str>) -> Value {
    let entries = answer["current_entries"].as_array().unwrap();
    let sizes = answer["entry_chars"].as_array().unwrap();
    assert_eq!(entries.len(), sizes.len());
    let sized =
        entries.iter().zip(sizes).map(|(entry, size)| (entry.as_str().unwrap(), size.as_u64().unwrap()));
    let mut sized: Vec<(&str, usize)> = sized.map(|(entry, size)| (entry, size as usize)).collect();
    assert!(sized.iter().all(|(entry, size)| entry.chars().count() == *size));
    sized.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let mut operations = Vec::new();
    let mut freed = 0;
    for (number, (entry, size)) in sized.iter().enumerate() {
        if freed >= wanted {
            break;
        }
        let short = format!("short {number}");
        freed += size - short.chars().count();
        operations.push(json!({"action": "replace", "old_text": entry, "content": short}));
    }
    operations.extend(content.map(|content| json!({"action": "add", "content": content})));
    json!({"target": "memory", "operations": operations})
}

#[test]
fn p23_at_89_percent_an_answer_says_no_more_than_hermes_does() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), LIMIT * 89 / 100 - 8);
    let saved = json(&memory_in(home.path()), add("small"));
    assert_eq!(saved["usage"], "89% — 1,958/2,200 chars");
    assert_eq!(saved["success"], true);
    assert!(saved.get("current_entries").is_none() && saved.get("entry_chars").is_none());
    assert_eq!(saved["note"], "Write saved. This update is complete — do not repeat it.");
}

#[test]
fn p23_at_91_percent_an_answer_holds_all_that_is_needed_to_consolidate_in_one_valid_call() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), LIMIT * 91 / 100 - 8);
    let memory = memory_in(home.path());
    let saved = json(&memory, add("small"));
    assert_eq!(saved["usage"], "91% — 2,002/2,200 chars");
    assert_eq!(saved["success"], true);
    assert!(saved["note"].as_str().unwrap().contains("consolidate in one call with 'operations'"));
    let done = json(&memory, consolidation(&saved, 400, None));
    assert_eq!(done["success"], true, "{done}");
    assert!(size(home.path()) < LIMIT * 9 / 10 && done.get("current_entries").is_none());
    assert_eq!(json(&memory, add(&"z".repeat(200)))["success"], true); // and there is room
}

#[test]
fn p23_at_100_percent_a_model_gets_out_with_one_call_and_no_invalid_one() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), LIMIT);
    let memory = memory_in(home.path());
    let fact = "a fact of thirty characters ok";
    let full = json(&memory, add(fact));
    assert_eq!(full["success"], false);
    assert_eq!(full["usage"], "2,200/2,200");
    let note = full["note"].as_str().unwrap();
    assert!(note.contains("At least 33 chars must go") && note.contains("Largest: "), "{note}");
    assert!(note.contains("One call with 'operations' can shorten or remove old entries"), "{note}");
    let done = json(&memory, consolidation(&full, 33, Some(fact)));
    assert_eq!(done["success"], true, "{done}");
    assert!(read(home.path(), "MEMORY.md").unwrap().ends_with(fact));
    assert!(size(home.path()) <= LIMIT);
    // The next one needs no refusal to know what to do: the answer before it has shown everything.
    let next = json(&memory, consolidation(&done, 100, Some("another fact")));
    assert_eq!(next["success"], true, "{next}");
}

#[test]
fn p23_a_store_that_a_person_overfilled_is_left_by_one_call_as_well() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), LIMIT + 500);
    let text = read(home.path(), "MEMORY.md").unwrap();
    write(home.path(), "MEMORY.md", &text.replace("\n§\n", "\n\n§\n\n")); // as people write it
    let memory = memory_in(home.path());
    let full = json(&memory, add("new"));
    assert!(full["note"].as_str().unwrap().contains("At least 506 chars must go"), "{full}");
    let done = json(&memory, consolidation(&full, 506, Some("new")));
    assert_eq!(done["success"], true, "{done}");
}

#[test]
fn p23_an_error_in_a_batch_for_a_full_store_shows_sizes_too() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), LIMIT);
    let memory = memory_in(home.path());
    let wrong = json!({"target": "memory", "operations": [
        {"action": "remove", "old_text": "nothing like it"},
        {"action": "add", "content": "new"},
    ]});
    let refused = json(&memory, wrong);
    assert_eq!(refused["success"], false);
    let done = json(&memory, consolidation(&refused, 6, Some("new")));
    assert_eq!(done["success"], true, "{done}");
}
