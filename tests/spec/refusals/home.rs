//! A home that another process has, or that holds something else than a home.

use super::{refused, says};
use crate::gateway::Place;
use rusqlite::Connection;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

// ------------------------------------------------------------------------------------------- owners

#[test]
fn p3_a_home_that_a_gateway_has_is_refused_to_a_second_one_by_pid() {
    let place = Place::new();
    let gateway = place.launch().start();
    let ended = place.launch().run();
    let pid = format!("(pid {})", gateway.pid());
    says(refused(&ended), &[place.home().to_str().unwrap(), "Throughline", &pid, "stop that one first"]);
    assert!(gateway.client.is_ready(), "the first one was disturbed");
    assert_eq!(gateway.stop().code(), Some(0));
}

#[test]
fn p3_a_home_that_hermes_has_is_refused_by_pid() {
    for holds in ["lock", "record"] {
        let place = Place::new();
        let hermes = Hermes::start(&place, holds);
        let pid = format!("(pid {})", hermes.0.id());
        let ended = place.launch().run();
        says(refused(&ended), &[place.home().to_str().unwrap(), "Hermes", &pid, "hermes gateway stop"]);
        let record = fs::read_to_string(place.file("home/gateway.pid")).unwrap();
        assert!(record.contains(&hermes.0.id().to_string()), "Hermes' record was touched: {record}");
        drop(hermes);
        // What it left behind is no obstacle.
        assert_eq!(place.launch().start().stop().code(), Some(0));
    }
}

/// A process that holds a home as Hermes' gateway does, or says so in its record only, as one whose
/// lock was deleted.
struct Hermes(Child);

const HERMES: &str = r#"
import fcntl, json, os, sys, time
home, holds = sys.argv[1:]
os.makedirs(home, exist_ok=True)
with open("/proc/self/stat") as stat:
    start_time = int(stat.read().split()[21])
record = json.dumps({"pid": os.getpid(), "kind": "hermes-gateway", "argv": sys.argv, "start_time": start_time})
if holds == "lock":
    lock = open(os.path.join(home, "gateway.lock"), "a+")
    fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.write(record)
    lock.flush()
with open(os.path.join(home, "gateway.pid"), "w") as file:
    file.write(record)
print("running", flush=True)
time.sleep(600)
"#;

impl Hermes {
    fn start(place: &Place, holds: &str) -> Self {
        let program = place.write("bin/hermes-gateway", HERMES);
        let mut command = Command::new("python3");
        command.arg(program).arg(place.home()).arg(holds).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("this test needs python3: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "running\n");
        Self(child)
    }
}

impl Drop for Hermes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// ------------------------------------------------------------------------------------------- contents

#[test]
fn a_file_that_is_no_home_is_named() {
    let place = Place::new();
    let file = place.write("home", "a letter");
    says(refused(&place.launch().run()), &[file.to_str().unwrap(), "not a directory"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "a letter");
}

#[test]
fn p15_a_store_that_is_none_is_left_as_it_is() {
    let place = Place::new();
    let file = place.write("home/state.db", "Dear diary, today I named a file state.db.");
    untouched(&place, &file, &["not a SQLite database", "left as it is", "Move it away"]);
}

#[test]
fn p15_a_store_of_another_program_is_left_as_it_is() {
    let place = Place::new();
    let file = place.write("home/state.db", "");
    let conn = Connection::open(&file).unwrap();
    conn.execute_batch("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('about:blank');")
        .unwrap();
    conn.close().unwrap();
    untouched(&place, &file, &["of something else", "left as it is", "Name another home"]);
}

#[test]
fn p15_a_store_of_a_newer_hermes_is_left_as_it_is() {
    let place = lived_in();
    let file = place.file("home/state.db");
    let conn = Connection::open(&file).unwrap();
    conn.execute_batch("UPDATE schema_version SET version = 30; PRAGMA journal_mode = DELETE").unwrap();
    conn.close().unwrap();
    untouched(&place, &file, &["schema 30, newer than 22", "can be read"]);
}

#[test]
fn p15_a_damaged_store_is_left_as_it_is() {
    let place = lived_in();
    let file = place.file("home/state.db");
    let whole = fs::read(&file).unwrap();
    let rubbish: Vec<u8> = (0..200u8).cycle().take(3996).collect();
    let damages: [(&str, Vec<u8>); 3] = [
        ("half of it is gone", whole[..whole.len() / 2].to_vec()),
        ("its first page is rubbish", [&whole[..100], &rubbish, &whole[4096..]].concat()),
        (
            "every page but the first is rubbish",
            [&whole[..4096], &rubbish.repeat(whole.len() / 3996)[4096..]].concat(),
        ),
    ];
    for (damage, bytes) in damages {
        println!("{damage}");
        fs::write(&file, bytes).unwrap();
        untouched(&place, &file, &["damaged", "left as it is", "Restore a backup"]);
    }
}

/// Refused with these words and the file's name; not a byte of it changed, and nothing put beside it.
fn untouched(place: &Place, file: &Path, words: &[&str]) {
    let before = fs::read(file).unwrap();
    let ended = place.launch().run();
    says(refused(&ended), &[file.to_str().unwrap()]);
    says(&ended.stderr, words);
    assert!(fs::read(file).unwrap() == before, "the file was changed");
    let log = PathBuf::from(format!("{}-wal", file.display()));
    assert!(fs::metadata(log).map_or(0, |log| log.len()) == 0, "a log was written");
    assert!(!place.file("home/gateway.pid").exists(), "a gateway that never was holds the home");
}

/// A home with a few pages of conversation in it, at rest.
fn lived_in() -> Place {
    let place = Place::new();
    let gateway = place.launch().start();
    for nth in 0..40 {
        let text = format!("message {nth}, {}", "long enough to fill some pages. ".repeat(20));
        gateway.client.say(&format!("s{}", nth % 2), &text).said();
    }
    assert_eq!(gateway.stop().code(), Some(0));
    for name in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(place.home().join(name)); // empty after a clean stop
    }
    place
}

/// What a start cannot see without reading everything: it costs the sessions that are hit, with a
/// word about it, and no other process.
#[test]
fn p30_a_damaged_page_is_named_and_costs_its_own_sessions_only() {
    let place = lived_in();
    let file = place.file("home/state.db");
    let mut bytes = fs::read(&file).unwrap();
    let page =
        bytes.chunks(4096).position(|page| page[0] == 0x0d && holds(page, b"message 20, long")).unwrap();
    bytes[page * 4096..page * 4096 + 200].fill(0xff);
    fs::write(&file, &bytes).unwrap();

    let gateway = place.launch().start();
    let hit = gateway.client.get("/api/sessions/s0/messages").unwrap();
    assert_eq!(hit.status, 500);
    says(&hit.error().1, &["malformed", "/api/control/check"]);
    let asked = gateway.client.say("s0", "are you there?");
    assert_eq!(asked.status, 503);
    says(&asked.error().1, &["loaded again", "log says why", "kept"]);
    gateway.client.say("another", "and you?").said();
    let found = gateway.client.read("/api/control/check")["data"].to_string();
    says(&found, &["integrity", "malformed"]);
    says(&gateway.log(), &["s0", "malformed"]);
    assert_eq!(gateway.stop().code(), Some(0));
}

fn holds(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}
