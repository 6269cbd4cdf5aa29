//! Many writers, dying writers, and Hermes' lock: nothing that was confirmed is lost.

use crate::common::{json, memory_in, read, write};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use throughline_memory::{Memory, MemorySettings, MemoryTarget};

const EACH: usize = 200;
const EACH_THREAD: usize = 50;

fn roomy(home: &Path) -> Memory {
    Memory::new(MemorySettings {
        memory_char_limit: 1_000_000,
        lock_patience: Duration::from_secs(60), // a busy machine is no failure here
        ..MemorySettings::new(home)
    })
}

/// This test binary again, as a process that adds `name 0`, `name 1` … and prints each once it is saved.
fn writer(home: &Path, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "durable::child_that_adds", "--ignored", "--nocapture"]);
    command.env("WRITER_HOME", home).env("WRITER_NAME", name).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "a part of the tests below, in a process of its own"]
fn child_that_adds() {
    let Some(home) = std::env::var_os("WRITER_HOME") else { return };
    let name = std::env::var("WRITER_NAME").unwrap();
    let memory = roomy(Path::new(&home));
    for number in 0..EACH {
        let content = format!("{name} {number}");
        let saved = json(&memory, json!({"target": "memory", "action": "add", "content": content}));
        assert_eq!(saved["success"], true, "{saved}");
        println!("saved {content}");
        std::io::stdout().flush().unwrap();
    }
}

fn entries(home: &Path) -> Vec<String> {
    let text = read(home, "MEMORY.md").unwrap_or_default();
    text.split("\n§\n").map(str::to_owned).collect()
}

#[test]
fn processes_and_threads_that_write_at_the_same_time_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let children = [writer(home.path(), "one"), writer(home.path(), "two")];
    let memory = roomy(home.path());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let memory = &memory;
            scope.spawn(move || {
                for number in 0..EACH_THREAD {
                    let content = format!("thread {thread} {number}");
                    let saved =
                        json(memory, json!({"target": "memory", "action": "add", "content": content}));
                    assert_eq!(saved["success"], true, "{saved}");
                }
            });
        }
    });
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    const EXPECTED: usize = 2 * EACH + 2 * EACH_THREAD;
    let entries = entries(home.path());
    let distinct: std::collections::HashSet<&String> = entries.iter().collect();
    assert_eq!((entries.len(), distinct.len()), (EXPECTED, EXPECTED));
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_all_it_had_confirmed_and_a_whole_file() {
    let home = tempfile::tempdir().unwrap();
    let mut confirmed = Vec::new();
    for round in 0..20u64 {
        let name = format!("round {round}");
        let mut child = writer(home.path(), &name);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.find_map(|line| line.unwrap().split_once("saved ").map(|(_, it)| it.to_owned()));
        confirmed.extend(first);
        std::thread::sleep(Duration::from_micros(round * 1_700 % 9_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let saved =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("saved ").map(str::to_owned));
        confirmed.extend(saved);
        let entries = entries(home.path());
        for entry in &confirmed {
            assert!(entries.contains(entry), "{entry} is lost after {name}");
        }
        assert!(entries.iter().all(|entry| entry.starts_with("round ")), "a torn file after {name}");
    }
    assert!(confirmed.len() >= 20);
}

#[test]
#[ignore = "a part of the test below, in a process of its own"]
fn child_that_removes() {
    let Some(home) = std::env::var_os("WRITER_HOME") else { return };
    let memory = roomy(Path::new(&home));
    for number in 0..EACH {
        let old_text = format!("fact {number} of many");
        json(&memory, json!({"target": "memory", "action": "remove", "old_text": old_text}));
        println!("removed");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn p23_a_process_that_is_killed_while_it_removes_leaves_each_entry_in_the_file_or_in_the_history() {
    for round in 0..10u64 {
        let home = tempfile::tempdir().unwrap();
        let facts: Vec<String> = (0..EACH).map(|number| format!("fact {number} of many")).collect();
        write(home.path(), "MEMORY.md", &facts.join("\n§\n"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "durable::child_that_removes", "--ignored", "--nocapture"]);
        let mut child = command.env("WRITER_HOME", home.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("removed")).unwrap().unwrap();
        std::thread::sleep(Duration::from_micros(round * 1_300));
        child.kill().unwrap();
        child.wait().unwrap();
        let left = entries(home.path());
        let history = roomy(home.path()).history(MemoryTarget::Memory).unwrap();
        assert!(!history.is_empty());
        for fact in &facts {
            let is_kept = history.iter().any(|past| past.record.entry == *fact);
            assert!(left.contains(fact) || is_kept, "{fact} is lost in round {round}");
        }
    }
}

/// Holds the lock as Hermes does, and says so.
const HOLD: &str = "
import fcntl, sys, time
fd = open(sys.argv[1], 'a+', encoding='utf-8')
fcntl.flock(fd, fcntl.LOCK_EX)
print('held', flush=True)
time.sleep(float(sys.argv[2]))
open(sys.argv[1] + '.over', 'w').close()
";

/// Ends the process, also where an assertion fails.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python_holding(home: &Path, seconds: f64) -> Option<Holder> {
    if std::env::var("THROUGHLINE_PEERS").is_ok_and(|value| value == "skip") {
        println!("skipped: python3 (THROUGHLINE_PEERS=skip)");
        return None;
    }
    let mut command = Command::new("python3");
    command.args(["-c", HOLD]).arg(home.join("memories/MEMORY.md.lock")).arg(seconds.to_string());
    let mut child =
        command.stdout(Stdio::piped()).spawn().expect("python3 (THROUGHLINE_PEERS=skip does without)");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "held");
    Some(Holder(child))
}

#[test]
fn a_python_process_that_holds_the_lock_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "MEMORY.md", "old");
    let Some(_holder) = python_holding(home.path(), 1.0) else { return };
    let saved = json(&memory_in(home.path()), json!({"target": "memory", "action": "add", "content": "new"}));
    assert_eq!(saved["success"], true, "{saved}");
    assert!(home.path().join("memories/MEMORY.md.lock.over").exists(), "it was not waited for");
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), "old\n§\nnew");
}

#[test]
fn a_python_process_that_never_lets_go_is_waited_for_only_so_long() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "MEMORY.md", "old");
    let Some(_holder) = python_holding(home.path(), 60.0) else { return };
    let lock_patience = Duration::from_millis(300);
    let memory = Memory::new(MemorySettings { lock_patience, ..MemorySettings::new(home.path()) });
    let busy = json(&memory, json!({"target": "memory", "action": "add", "content": "new"}));
    assert_eq!(busy["success"], false);
    assert!(busy["error"].as_str().unwrap().contains("MEMORY.md is locked by another process"), "{busy}");
    assert_eq!(read(home.path(), "MEMORY.md").unwrap(), "old");
}
