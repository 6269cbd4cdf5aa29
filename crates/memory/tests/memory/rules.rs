//! What the tool promises beyond Hermes' answers.

use crate::common::{answer, call, call_in_turn, caller, json, memory_in, read, write};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_core::tool::{Call, Kit};
use throughline_memory::{Memory, MemoryOwners, MemorySettings, NotesSharing};

fn add(content: &str) -> Value {
    json!({"target": "memory", "action": "add", "content": content})
}

fn entries(home: &Path, number: usize, chars: usize) -> String {
    let entries = (0..number).map(|n| format!("{n:-<chars$}"));
    let text = entries.collect::<Vec<_>>().join("\n§\n");
    write(home, "MEMORY.md", &text);
    text
}

#[test]
fn p23_above_nine_tenths_a_saved_write_shows_sizes_and_entries_and_asks_to_consolidate() {
    let home = tempfile::tempdir().unwrap();
    entries(home.path(), 19, 100); // 1,954 characters
    let memory = memory_in(home.path());
    let below = json(&memory, add("x"));
    assert_eq!(below["note"], "Write saved. This update is complete — do not repeat it.");
    assert_eq!(below.get("current_entries"), None);

    let above = json(&memory, add("the one that makes it more than 1,980"));
    let note = above["note"].as_str().unwrap();
    assert!(
        note.starts_with("Write saved. This update is complete — do not repeat it. MEMORY.md is nearly full")
    );
    assert!(note.contains("1,998 of 2,200 chars in 21 entries, 202 left"), "{note}");
    assert!(note.contains("(100 chars)"), "{note}");
    assert_eq!(above["current_entries"].as_array().unwrap().len(), 21);
}

#[test]
fn p23_a_full_store_keeps_everything_and_says_what_to_give_up() {
    let home = tempfile::tempdir().unwrap();
    let before = entries(home.path(), 21, 101);
    let memory = memory_in(home.path());
    let full = json(&memory, add("one more fact of thirty chars"));
    assert_eq!(full["success"], false);
    assert_eq!(full["current_entries"].as_array().unwrap().len(), 21);
    assert_eq!(full["usage"], "2,181/2,200");
    let note = full["note"].as_str().unwrap();
    assert!(note.contains("At least 13 chars must go"), "{note}"); // 2,181 + 3 + 29 - 2,200
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), before);

    let batch = json!({"target": "memory", "operations": [
        {"action": "replace", "old_text": "20---", "content": "short"},
        {"action": "add", "content": "one more fact of thirty chars"},
    ]});
    assert_eq!(json(&memory, batch)["success"], true);
    assert!(read(home.path(), "MEMORY.md").unwrap().ends_with("\n§\none more fact of thirty chars"));
}

#[test]
fn an_add_keeps_what_a_person_wrote_to_the_byte() {
    let home = tempfile::tempdir().unwrap();
    let by_hand = "\n# Notes of mine\n\n\n  indented\n§\n\n§\ntwice\n§\ntwice  \n";
    write(home.path(), "MEMORY.md", by_hand);
    assert_eq!(json(&memory_in(home.path()), add("new"))["success"], true);
    let kept = by_hand.trim_end();
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), format!("{kept}\n§\nnew  \n"));
}

#[test]
fn what_would_take_away_a_text_that_no_tool_wrote_saves_a_copy_and_refuses() {
    let home = tempfile::tempdir().unwrap();
    let by_hand = format!("a fact\n§\n{}", "prose ".repeat(400));
    write(home.path(), "MEMORY.md", &by_hand);
    let memory = memory_in(home.path());
    for arguments in [
        json!({"target": "memory", "action": "remove", "old_text": "prose"}),
        json!({"target": "memory", "action": "replace", "old_text": "prose", "content": "x"}),
        json!({"target": "memory", "operations": [{"action": "remove", "old_text": "prose"}]}),
    ] {
        let refused = json(&memory, arguments);
        assert_eq!(refused["success"], false);
        let backup = refused["drift_backup"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(backup).unwrap(), by_hand);
    }
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), by_hand);
    let backups = std::fs::read_dir(home.path().join("memories")).unwrap().filter_map(Result::ok);
    assert_eq!(backups.filter(|file| file.file_name().to_string_lossy().contains(".bak.")).count(), 1);
    let beside = json(&memory, json!({"target": "memory", "action": "remove", "old_text": "a fact"}));
    assert_eq!(beside["success"], true, "{beside}");
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), "prose ".repeat(400));
}

#[test]
fn a_file_that_is_not_text_is_never_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let memory = memory_in(home.path());
    let path = home.path().join("memories/MEMORY.md");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let latin = b"caf\xe9".to_vec();
    let huge = vec![b'x'; 3 << 20];
    for bytes in [latin, huge] {
        std::fs::write(&path, &bytes).unwrap();
        for arguments in [add("x"), json!({"target": "memory", "action": "remove"})] {
            let refused = json(&memory, arguments);
            assert_eq!(refused["success"], false);
            assert!(refused["error"].as_str().unwrap().contains("MEMORY.md cannot be used"), "{refused}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(memory.blocks(), [""; 0]);
    }
}

#[test]
fn a_pipe_or_a_directory_in_place_of_a_file_is_named_and_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let memory = memory_in(home.path());
    let path = home.path().join("memories/MEMORY.md");
    std::fs::create_dir_all(&path).unwrap();
    assert!(json(&memory, add("x"))["error"].as_str().unwrap().contains("not a regular file"));
    std::fs::remove_dir(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(json(&memory, add("x"))["error"].as_str().unwrap().contains("not a regular file"));
}

#[test]
fn a_fact_that_fits_nowhere_does_not_hold_up_a_turn_for_ever() {
    let home = tempfile::tempdir().unwrap();
    entries(home.path(), 21, 101);
    let memory = memory_in(home.path());
    let ask = |turn| -> Value {
        serde_json::from_str(&answer(&memory, &call_in_turn(turn, add("one more fact of thirty chars"))))
            .unwrap()
    };
    for _ in 0..3 {
        assert!(ask(1).get("current_entries").is_some());
    }
    let given_up = ask(1);
    assert_eq!(given_up["done"], true);
    assert!(
        given_up["error"].as_str().unwrap().starts_with("Memory consolidation failed 4 times this turn.")
    );
    assert!(ask(2).get("current_entries").is_some()); // another turn
    assert!(ask(1).get("current_entries").is_some()); // a turn that is over is not remembered
}

#[test]
fn p31_the_memory_of_the_owner_is_neither_shown_to_others_nor_changed_by_them() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "USER.md", "Ada's secret");
    let owners = MemoryOwners::Those(Arc::new(|caller| caller.principal.as_deref() == Some("ada")));
    let memory = Memory::new(MemorySettings { owners, ..MemorySettings::new(home.path()) });
    let ask = |principal| {
        let arguments = json!({"target": "user", "action": "remove"}); // answered with the entries
        answer(&memory, &Call { caller: caller(principal), ..call(arguments) })
    };
    for stranger in [None, Some("bob")] {
        assert!(ask(stranger).starts_with("{\"success\": false, \"error\": \"This memory belongs to"));
        assert!(!ask(stranger).contains("secret"));
        assert_eq!(memory.blocks_for(&caller(stranger)), [""; 0]);
    }
    assert!(ask(Some("ada")).contains("Ada's secret"));
    assert_eq!(memory.blocks_for(&caller(Some("ada"))).len(), 1);
}

#[test]
fn p31_what_is_noted_of_one_person_is_in_no_other_prompt_tool_answer_or_file() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "MEMORY.md", "the owner's note");
    write(home.path(), "USER.md", "who the owner is");
    let notes =
        NotesSharing::PerPerson(Arc::new(|caller| caller.principal.clone().filter(|name| name != "ada")));
    let memory = Memory::new(MemorySettings { notes, ..MemorySettings::new(home.path()) });
    let ask = |principal, arguments| answer(&memory, &Call { caller: caller(principal), ..call(arguments) });
    let shown = |principal| memory.blocks_for(&caller(principal)).join("\n");
    for person in ["bob", "../bob", "eve"] {
        assert_eq!(shown(Some(person)), "", "{person} is told nothing of the owner");
        assert!(ask(Some(person), add(&format!("canary of {person}"))).contains("true"), "{person}");
        let refused = ask(Some(person), json!({"target": "user", "action": "remove"}));
        assert!(refused.contains("is about the owner") && !refused.contains("who the owner is"), "{refused}");
    }
    for person in ["bob", "../bob", "eve"] {
        let canary = format!("canary of {person}");
        assert!(shown(Some(person)).ends_with(&canary), "{}", shown(Some(person)));
        for other in [Some("bob"), Some("../bob"), Some("eve"), Some("ada"), None] {
            if other == Some(person) {
                continue;
            }
            let entries = ask(other, json!({"target": "memory", "action": "remove"}));
            let sizes = format!("{:?}", memory.sizes_for(&caller(other)));
            assert!(![shown(other), entries, sizes].iter().any(|text| text.contains(&canary)), "{other:?}");
        }
    }
    assert!(shown(Some("ada")).contains("the owner's note") && shown(None).contains("who the owner is"));
    assert!(!format!("{:?}", memory.sizes_for(&caller(Some("eve")))).contains("owner"));
    let own = std::fs::read_to_string(home.path().join("memories/MEMORY.md")).unwrap();
    assert!(!own.contains("canary"), "{own}");
    let people = std::fs::read_dir(home.path().join("memories/people")).unwrap();
    assert_eq!(people.count(), 3);
}

#[test]
fn p31_what_waits_for_approval_goes_into_the_notes_of_the_person_it_is_of() {
    let home = tempfile::tempdir().unwrap();
    let notes = NotesSharing::PerPerson(Arc::new(|caller| caller.principal.clone()));
    let settings = MemorySettings { notes, write_approval: true, ..MemorySettings::new(home.path()) };
    let memory = Memory::new(settings);
    let _ = answer(&memory, &Call { caller: caller(Some("bob")), ..call(add("likes tea")) });
    let [waiting] = &memory.pending()[..] else { panic!("one waits") };
    memory.approve(&waiting.id, throughline_core::Time::from_seconds(1.0)).unwrap();
    assert!(memory.blocks_for(&caller(Some("bob"))).join("").contains("likes tea"));
    assert!(!home.path().join("memories/MEMORY.md").exists());
}

#[test]
fn p31_what_is_switched_off_is_not_offered_shown_or_written() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "USER.md", "known");
    write(home.path(), "MEMORY.md", "noted");
    let with = |memory_enabled, user_profile_enabled| {
        Memory::new(MemorySettings {
            memory_enabled,
            user_profile_enabled,
            ..MemorySettings::new(home.path())
        })
    };
    let neither = with(false, false);
    assert!(neither.specs().is_empty() && neither.blocks().is_empty());
    let unavailable = "{\"error\": \"Memory is not available. It may be disabled in config or this environment.\", \
                       \"success\": false}";
    assert_eq!(answer(&neither, &call(add("x"))), unavailable);

    let notes = with(true, false);
    assert_eq!((notes.specs().len(), notes.blocks().len()), (1, 1));
    let refused = json(&notes, json!({"target": "user", "action": "add", "content": "x"}));
    assert!(refused["error"].as_str().unwrap().contains("memory.user_profile_enabled is false"));
    assert_eq!(read(home.path(), "USER.md").unwrap(), "known");
}

#[test]
fn a_write_that_needs_approval_is_kept_whole_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let memory = Memory::new(MemorySettings { write_approval: true, ..MemorySettings::new(home.path()) });
    let text = answer(&memory, &call(add("likes tea")));
    let staged: Value = serde_json::from_str(&text).unwrap();
    let id = staged["pending_id"].as_str().unwrap();
    let message =
        "Staged for approval (memory.write_approval is on). Not yet saved — review with /memory pending.";
    let expected = format!(
        "{{\"success\": true, \"staged\": true, \"pending_id\": \"{id}\", \"message\": \"{message}\"}}"
    );
    assert_eq!(text, expected);
    assert_eq!(read(home.path(), "MEMORY.md"), None);
    let record = std::fs::read_to_string(home.path().join(format!("pending/memory/{id}.json"))).unwrap();
    let expected = format!(
        r#"{{
  "id": "{id}",
  "subsystem": "memory",
  "action": "add",
  "summary": "add to memory: likes tea",
  "origin": "foreground",
  "created_at": 1780000000.25,
  "payload": {{
    "action": "add",
    "target": "memory",
    "content": "likes tea",
    "old_text": null
  }},
  "throughline": {{
    "source": "cli",
    "session": "20260528_093510_66bfaec7",
    "call": "20260528_093510_66bfaec7/1/1/0"
  }}
}}"#
    );
    assert_eq!(record, expected);
}

#[test]
fn a_write_that_cannot_be_kept_for_approval_is_not_called_staged() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("pending"), "a file in the way").unwrap();
    let memory = Memory::new(MemorySettings { write_approval: true, ..MemorySettings::new(home.path()) });
    let failed = json(&memory, add("likes tea"));
    assert_eq!(failed["success"], false);
    assert!(failed["error"].as_str().unwrap().contains("Nothing was saved"));
}

#[test]
fn a_prompt_shows_the_files_as_they_are_at_that_moment() {
    let home = tempfile::tempdir().unwrap();
    let memory = memory_in(home.path());
    assert_eq!(memory.blocks(), [""; 0]);
    json(&memory, add("likes tea"));
    let rule = "═".repeat(46);
    let block = format!("{rule}\nMEMORY (your personal notes) [0% — 9/2,200 chars]\n{rule}\nlikes tea");
    assert_eq!(memory.blocks(), [block]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_while_it_waits_writes_nothing_later() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "MEMORY.md", "old");
    let memory = memory_in(home.path());
    let lock = std::fs::File::create(home.path().join("memories/MEMORY.md.lock")).unwrap();
    lock.lock().unwrap();
    let call = call(add("new"));
    let dropped = tokio::time::timeout(Duration::from_millis(100), memory.call(&call)).await;
    assert!(dropped.is_err());
    drop(lock);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), "old");
}

#[test]
fn a_lock_that_is_never_released_is_answered_in_time_with_the_name_of_the_file() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "MEMORY.md", "old");
    let lock_patience = Duration::from_millis(300);
    let memory = Memory::new(MemorySettings { lock_patience, ..MemorySettings::new(home.path()) });
    let lock = std::fs::File::create(home.path().join("memories/MEMORY.md.lock")).unwrap();
    lock.lock().unwrap();
    let begun = Instant::now();
    let busy = json(&memory, add("new"));
    assert!(begun.elapsed() < Duration::from_secs(60), "it would never end");
    assert_eq!(busy["success"], false);
    assert!(busy["error"].as_str().unwrap().contains("memories/MEMORY.md is locked by another process"));
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), "old");
}
