//! A disk that does not confirm what is written, or becomes read-only: nothing is acknowledged that is not on disk, the
//! file and the remedy are named, and when the disk is well again the work goes on without a restart.
//!
//! After an fsync that failed, Linux takes the pages for clean: a later fsync says nothing about them. SQLite writes a
//! commit that failed again from the same place of its log, so the next success covers it; and a start settles what
//! log it finds in the database before it adds to it.

use super::{Control, Shim, assert_at_rest, is_root, until};
use crate::gateway::{Client, Gateway, Launch, Place, Reply, said};
use crate::peers;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{JoinHandle, spawn};

fn send(client: &Client, text: &str) -> Reply {
    let mut body = said(text);
    body["stream"] = json!(true);
    let headers = [("X-Hermes-Session-Id", "steady"), ("Idempotency-Key", text)];
    client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap()
}

fn accepted(client: &Client, text: &str) -> JoinHandle<Option<String>> {
    let reply = send(client, text);
    assert_eq!(reply.status, 200);
    spawn(move || reply.streamed().ok())
}

fn rehearsing(place: &Place) -> Launch {
    place.rehearsing(&json!({"rules": [{"when": {"contains": "slowly"}, "latency_ms": 500}]}))
}

/// Sent while the disk is broken: refused, with the file and what to do in words.
fn assert_refused(gateway: &Gateway, text: &str, place: &Place, words: &[&str]) {
    let refusal = send(&gateway.client, text).whole().unwrap();
    let (code, message) = refusal.error();
    assert_eq!((refusal.status, code.as_str()), (503, "unwritable"), "{message}");
    let database = place.file("home/state.db");
    for word in words.iter().chain(&[database.to_str().unwrap(), "dmesg", "What was acknowledged is kept"]) {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(!refusal.header("retry-after").is_empty());
    until("it says that it is not ready", || !gateway.client.is_ready());
    let ready = gateway.client.get("/health/ready").unwrap().text();
    assert!(ready.contains(database.to_str().unwrap()), "{ready}");
}

fn users(client: &Client) -> Vec<String> {
    let rows = client.transcript("steady");
    rows.into_iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect()
}

fn assert_whole(gateway: Gateway, place: &Place, sent: &[&str]) {
    assert_eq!(users(&gateway.client), sent);
    assert_eq!(gateway.client.transcript("steady").len(), sent.len() * 2);
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    assert!(!gateway.log().contains("panicked"));
    assert!(gateway.stop().success());
    assert_eq!(place.asked().len(), sent.len(), "no answer was asked for twice");
}

/// The fault comes while a turn runs, and goes again.
fn a_disk_that_fails_for_a_while(fault: Control, words: &[&str]) {
    let place = Place::new();
    let shim = Shim::in_place(&place);
    let gateway = shim.under(rehearsing(&place)).start();
    let client = &gateway.client;
    client.say("steady", "before").said();
    let slow = accepted(client, "answered slowly");
    until("the model is asked", || place.asked().len() == 2);
    shim.set(fault, 1);
    assert_refused(&gateway, "refused at first", &place, words);
    // The answer is there by now: it is tried to be written, over and over, and not shown.
    let failed = shim.get(Control::Failed);
    until("more is tried", || shim.get(Control::Failed) >= failed + 4);
    assert!(!slow.is_finished(), "an answer left that is not on disk");
    assert_eq!(users(client).len(), 2, "what is there can be read");
    assert_at_rest(&gateway, "while nothing can be written");
    shim.set(fault, 0);
    until("it is ready again", || client.is_ready());
    assert!(slow.join().unwrap().unwrap().ends_with("“answered slowly”"));
    assert!(send(client, "refused at first").streamed().unwrap().ends_with("“refused at first”"));
    assert_whole(gateway, &place, &["before", "answered slowly", "refused at first"]);
}

#[test]
fn p7_an_fsync_that_fails_acknowledges_nothing_names_the_file_and_recovers() {
    a_disk_that_fails_for_a_while(Control::SyncsFail, &["fsync", "disk I/O error"]);
}

#[test]
fn p7_a_disk_that_becomes_read_only_acknowledges_nothing_names_the_file_and_recovers() {
    a_disk_that_fails_for_a_while(Control::ReadOnly, &["its file system is still writable"]);
}

#[test]
fn p7_killed_while_fsync_fails_it_starts_only_on_a_disk_that_confirms_and_settles_what_it_finds() {
    let place = Place::new();
    let shim = Shim::in_place(&place);
    let launch = shim.under(rehearsing(&place));
    let gateway = launch.start();
    gateway.client.say("steady", "before").said();
    let slow = accepted(&gateway.client, "answered slowly");
    until("the model is asked", || place.asked().len() == 2);
    shim.set(Control::SyncsFail, 1);
    assert_refused(&gateway, "refused at first", &place, &["fsync"]);
    gateway.kill();
    assert_eq!(slow.join().unwrap(), None);

    let ended = launch.run();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let database = place.file("home/state.db");
    for words in [database.to_str().unwrap(), "disk I/O error"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }

    shim.set(Control::SyncsFail, 0);
    shim.set(Control::DatabaseSyncs, 0);
    let gateway = launch.start();
    assert!(
        shim.get(Control::DatabaseSyncs) > 0,
        "the log was added to before the database had what was in it"
    );
    until("what was accepted is answered", || {
        gateway.client.transcript("steady").iter().any(|(_, text)| text.ends_with("“answered slowly”"))
    });
    // Whether the one that was refused had arrived all the same or not: sent again, it is there once.
    assert!(send(&gateway.client, "refused at first").streamed().unwrap().ends_with("“refused at first”"));
    assert_eq!(users(&gateway.client), ["before", "answered slowly", "refused at first"]);
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    assert!(gateway.stop().success());
}

/// A file system of its own on a loop device, which gives up on its first error as ext4 does. It comes with a mount
/// namespace, and goes with it.
const ON_EXT4: &str = r#"mount -o loop,errors=remount-ro "$1" "$0" && shift && exec "$@""#;

/// Where the kernel is told that a file system has an error, as if it had found one.
fn trigger(gateway: &Gateway) -> PathBuf {
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", gateway.pid())).unwrap();
    let home = gateway.home.to_str().unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(home)).unwrap();
    let device = line.split(' ').next().unwrap().strip_prefix("/dev/loop").expect("a loop device");
    PathBuf::from(format!("/sys/fs/ext4/loop{device}/trigger_fs_error"))
}

#[test]
fn p7_a_file_system_that_the_kernel_makes_read_only_is_named_and_what_was_acknowledged_is_there_after_a_mount()
 {
    let place = Place::new();
    let disk = place.write("disk", []);
    fs::File::options().write(true).open(&disk).unwrap().set_len(32 << 20).unwrap();
    fs::create_dir_all(place.home()).unwrap();
    let mut making = Command::new("mkfs.ext4");
    making.args(["-q", "-O", "^has_journal"]).arg(&disk).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let made = making.output().is_ok_and(|output| output.status.success());
    let home = place.home();
    let words = ["unshare", "--mount", "sh", "-c", ON_EXT4, home.to_str().unwrap(), disk.to_str().unwrap()];
    let can = made
        && is_root()
        && Command::new(words[0]).args(&words[1..]).arg("true").output().is_ok_and(|it| it.status.success());
    if !can {
        assert!(peers::skips("loop devices"), "mounting a loop device needs root, and mkfs.ext4");
        return;
    }
    let launch = rehearsing(&place).through(&words);
    let gateway = launch.start();
    gateway.client.say("steady", "before").said();
    fs::write(trigger(&gateway), "a test").unwrap();
    assert_refused(&gateway, "refused at first", &place, &["its file system is still writable"]);
    assert_eq!(users(&gateway.client), ["before"], "what is there can be read");
    assert_at_rest(&gateway, "while nothing can be written");
    gateway.kill();
    let gateway = launch.start();
    assert!(send(&gateway.client, "refused at first").streamed().unwrap().ends_with("“refused at first”"));
    assert_whole(gateway, &place, &["before", "refused at first"]);
}
