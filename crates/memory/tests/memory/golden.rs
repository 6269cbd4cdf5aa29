//! The same calls on the same files as the real Hermes 0.19: the same answers, the same bytes.
//!
//! `golden.json` was written by `golden.py` with Hermes itself; `MEMORY_GOLDEN` names another such
//! file. Where we differ on purpose, this says how: what is ours in an answer comes after what is
//! Hermes', and what a person formatted keeps its format, so those files agree in their entries. What
//! Hermes calls drifted and leaves alone we may change: `never_lost` and `history` judge that.

use crate::common::{answer, call_in_turn};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use throughline_core::tool::Kit;
use throughline_memory::{Memory, MemorySettings};

fn golden() -> Value {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory/golden.json");
    let path = std::env::var_os("MEMORY_GOLDEN").map_or(default, Into::into);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn put(home: &Path, files: &Value) {
    for (name, text) in files.as_object().unwrap() {
        match text.as_str() {
            Some(text) => crate::common::write(home, name, text),
            None => drop(std::fs::remove_file(home.join("memories").join(name))),
        }
    }
}

/// As Hermes reads a file.
fn entries(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let text = text.replace("\r\n", "\n");
    let entries = text.split("\n§\n").map(|entry| entry.trim().to_owned());
    entries.filter(|entry| !entry.is_empty() && seen.insert(entry.clone())).collect()
}

/// What only tools have written reads back as it was written.
fn is_tool_shaped(text: &str) -> bool {
    entries(text).join("\n§\n") == text
}

/// Our answer begins with Hermes' keys and values in its order; a note may go on.
fn agree(ours: &str, theirs: &str, home: &Path) -> bool {
    let ours = ours.replace(home.to_str().unwrap(), "<HOME>").replace(".bak.1780000000", ".bak.<TIME>");
    if ours == theirs {
        return true;
    }
    let (ours, theirs): (Value, Value) =
        (serde_json::from_str(&ours).unwrap(), serde_json::from_str(theirs).unwrap());
    let (ours, theirs) = (ours.as_object().unwrap(), theirs.as_object().unwrap());
    let is_nearly_full = theirs["success"] == true;
    ours.len() > theirs.len()
        && ours.iter().zip(theirs).all(|((key, value), (their_key, their_value))| {
            let goes_on = |value: &Value| value.as_str().unwrap().starts_with(their_value.as_str().unwrap());
            key == their_key && (value == their_value || (is_nearly_full && key == "note" && goes_on(value)))
        })
}

fn blocks(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|block| block.as_str().unwrap()).collect()
}

#[test]
fn every_call_is_answered_as_hermes_answers_and_leaves_its_bytes() {
    let golden = golden();
    for (number, sequence) in golden["sequences"].as_array().unwrap().iter().enumerate() {
        play(sequence, number);
    }
}

fn play(sequence: &Value, number: usize) {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let limit = |target: &str| sequence["limits"][target].as_u64().unwrap() as usize;
    let memory = Memory::new(MemorySettings {
        memory_char_limit: limit("memory"),
        user_char_limit: limit("user"),
        ..MemorySettings::new(home)
    });
    put(home, &sequence["files"]);
    assert_eq!(memory.blocks(), blocks(&sequence["blocks"]), "sequence {number}");
    let mut files = sequence["files"].clone();
    for (at, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
        let place = format!("sequence {number}, step {at}: {}", step["arguments"]);
        let call = call_in_turn(step["turn"].as_u64().unwrap(), &step["arguments"]);
        let theirs = step["answer"].as_str().unwrap();
        if theirs.contains("\"drift_backup\"") {
            continue; // Hermes changed nothing, and counted nothing
        }
        let ours = answer(&memory, &call);
        assert!(agree(&ours, theirs, home), "{place}\nours:   {ours}\nHermes: {theirs}");
        let before = files.clone();
        files = step.get("files").cloned().unwrap_or(files);
        for name in ["MEMORY.md", "USER.md"] {
            compare(home, name, &before, &files, &place);
        }
        put(home, &files);
    }
    assert_eq!(memory.blocks(), blocks(&sequence["blocks_after"]), "sequence {number}, at its end");
}

fn compare(home: &Path, name: &str, before: &Value, after: &Value, place: &str) {
    let ours = crate::common::read(home, name);
    let theirs = after[name].as_str();
    let was_shaped = before[name].as_str().is_none_or(is_tool_shaped);
    let is_shaped = theirs.is_none_or(is_tool_shaped); // not if a new text held the same entry twice
    match was_shaped && is_shaped {
        true => assert_eq!(ours.as_deref(), theirs, "{name} after {place}"),
        false => assert_eq!(
            entries(&ours.unwrap_or_default()),
            entries(theirs.unwrap_or_default()),
            "entries of {name} after {place}"
        ),
    }
}

#[test]
fn the_patterns_find_what_hermes_finds() {
    let golden = golden();
    let home = tempfile::tempdir().unwrap();
    let memory =
        Memory::new(MemorySettings { memory_char_limit: 100_000, ..MemorySettings::new(home.path()) });
    for scan in golden["scans"].as_array().unwrap() {
        let text = scan["text"].as_str().unwrap();
        crate::common::write(home.path(), "MEMORY.md", &format!("x\n§\n{text}\n§\ny"));
        let block = memory.blocks().remove(0);
        let found =
            block.split("threat pattern(s): ").nth(1).map_or("", |rest| rest.split(". ").next().unwrap());
        let expected: Vec<&str> = blocks(&scan["findings"]);
        // What is at the edge of an entry is stripped before it is looked at.
        if text.trim() == text {
            assert_eq!(found, expected.join(", "), "{text:?}");
        }
    }
}

#[test]
fn the_schema_has_hermes_names_types_and_order() {
    fn bones(value: &Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(key, value)| *key != "description" || !value.is_string())
                .map(|(key, value)| (key.clone(), bones(value)))
                .collect(),
            other => other.clone(),
        }
    }
    let spec = Memory::new(MemorySettings::new("/nowhere")).specs().remove(0);
    let ours: Value = serde_json::from_str(spec.parameters.as_str()).unwrap();
    let theirs = &golden()["parameters"];
    assert_eq!(bones(&ours).to_string(), bones(theirs).to_string());
}
