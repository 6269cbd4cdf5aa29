//! A disk that cannot be written, or is full: nothing new is accepted, what was accepted is kept, and
//! when there is room again the work goes on, without a restart.

use super::{discreet, refused, says};
use crate::gateway::{Client, Gateway, Launch, Place, said};
use crate::model::ModelServer;
use crate::peers;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// A way to run out of room.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scarcity {
    /// A small file system of the gateway's own: writes fail with ENOSPC.
    SmallDisk,
    /// A limit on the size of files: writes fail with EFBIG.
    SmallFiles,
}

/// Runs the rest of its arguments on a home that is a small file system, which no other process sees.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size="$1" tmpfs "$0" && shift && exec "$@""#;
/// The same, with this configuration in it.
const CONFIGURED_ON_A_SMALL_DISK: &str =
    r#"mount -t tmpfs -o size="$1" tmpfs "$0" && cp "$2" "$0/config.yaml" && shift 2 && exec "$@""#;
/// Mounts its home again, to be read only.
const ON_A_READ_ONLY_DISK: &str = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;

pub(super) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

/// In a mount namespace of its own; without root, in a user namespace, too.
fn unshared() -> Vec<&'static str> {
    if is_root() { vec!["unshare", "--mount"] } else { vec!["unshare", "--mount", "--map-root-user"] }
}

/// Whether this machine lets a test mount. One that does not fails, unless such tests are to be left out.
fn can_mount(place: &Place) -> bool {
    fs::create_dir_all(place.home()).unwrap();
    let mut words = unshared();
    let home = place.home();
    words.extend(["sh", "-c", ON_A_SMALL_DISK, home.to_str().unwrap(), "64k", "true"]);
    let output = Command::new(words[0]).args(&words[1..]).output();
    let can = output.as_ref().is_ok_and(|output| output.status.success());
    assert!(can || peers::skips("mounting"), "a test cannot mount a file system of its own here: {output:?}");
    can
}

fn through(launch: Launch, place: &Place, script: &str, arguments: &[&str]) -> Launch {
    fs::create_dir_all(place.home()).unwrap();
    let home = place.home();
    let mut words = unshared();
    words.extend(["sh", "-c", script, home.to_str().unwrap()]);
    words.extend(arguments);
    launch.through(&words)
}

/// A gateway, and the tap on its room.
struct Tight {
    gateway: Gateway,
    scarcity: Scarcity,
}

impl Tight {
    fn start(place: &Place, scarcity: Scarcity, model: &ModelServer) -> Self {
        let config = format!("model: {}\nmemory: {{nudge_interval: 0}}\n", model.setting("m"));
        place.write("home/config.yaml", &config);
        let launch = match scarcity {
            Scarcity::SmallDisk => {
                let file = place.write("small.yaml", config).display().to_string();
                through(place.launch(), place, CONFIGURED_ON_A_SMALL_DISK, &["4m", &file])
            }
            // The limit is set later, and a write beyond it fails and kills no process.
            Scarcity::SmallFiles => place.launch(),
        };
        Self { gateway: launch.start(), scarcity }
    }

    /// The file that takes all room, where the gateway's own eyes see it.
    fn filler(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}/filler", self.gateway.pid(), self.gateway.home.display()))
    }

    fn fill(&self) {
        match self.scarcity {
            Scarcity::SmallDisk => {
                let mut filler = File::create(self.filler()).unwrap();
                for size in [65536, 4096, 1] {
                    while filler.write_all(&vec![0; size]).is_ok() {}
                }
            }
            Scarcity::SmallFiles => self.limit("16384:"),
        }
    }

    fn make_room(&self) {
        match self.scarcity {
            Scarcity::SmallDisk => fs::remove_file(self.filler()).unwrap(),
            Scarcity::SmallFiles => self.limit("unlimited:"),
        }
    }

    fn limit(&self, size: &str) {
        let pid = self.gateway.pid().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}")]).status();
        assert!(set.unwrap_or_else(|error| panic!("this test needs prlimit: {error}")).success());
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn send(client: &Client, text: &str) -> crate::gateway::Reply {
    let mut body = said(text);
    body["stream"] = json!(true);
    let headers = [("X-Hermes-Session-Id", "steady"), ("Idempotency-Key", text)];
    client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap()
}

/// An answer that a client waits for.
fn collected(text: &str, reply: crate::gateway::Reply) -> (String, JoinHandle<String>) {
    assert_eq!(reply.status, 200);
    (text.to_owned(), spawn(move || reply.streamed().unwrap()))
}

fn a_full_disk(scarcity: Scarcity) {
    let place = Place::new();
    if scarcity == Scarcity::SmallDisk && !can_mount(&place) {
        return;
    }
    let model = ModelServer::start(Duration::ZERO);
    let tight = Tight::start(&place, scarcity, &model);
    let client = &tight.gateway.client;
    client.say("steady", "while there is room").said();

    // One is accepted before the disk is full, and answered by the model when it is.
    model.hold();
    let mut accepted =
        vec![collected("a message, answered slowly", send(client, "a message, answered slowly"))];
    until("the model is asked", || model.asked().len() == 2);
    tight.fill();
    let refusal = loop {
        let text = format!("message {}", accepted.len());
        let reply = send(client, &text);
        if reply.status != 200 {
            break reply.whole().unwrap();
        }
        accepted.push(collected(&text, reply));
        assert!(accepted.len() < 2_000, "the disk never fills");
    };
    let (code, message) = refusal.error();
    assert_eq!((refusal.status, code.as_str()), (503, "unwritable"), "{message}");
    says(&message, &["cannot be written"]);
    assert!(!refusal.header("retry-after").is_empty());
    discreet(&refusal.text());
    until("it says that it is not ready", || !client.is_ready());
    says(&client.get("/health/ready").unwrap().text(), &["unwritable"]);
    assert!(client.transcript("steady").len() >= 2, "what is there can still be read");
    model.release();
    until("the model has answered", || model.answered() == 2);
    sleep(Duration::from_millis(2500)); // twice what the disk is given between two tries: nothing comes of them
    assert!(!client.is_ready(), "it believes in a disk that is still full");
    assert!(!accepted[0].1.is_finished(), "an answer left that is not on disk");

    tight.make_room();
    until("it notices that there is room again", || client.is_ready());
    let refused_before = format!("message {}", accepted.len());
    let mut sent = vec!["while there is room".to_owned()];
    for (text, answer) in accepted {
        assert_eq!(answer.join().unwrap(), format!("re: {text}"));
        sent.push(text);
    }
    assert_eq!(send(client, &refused_before).streamed().unwrap(), format!("re: {refused_before}"));
    sent.push(refused_before);
    let rows = client.transcript("steady");
    let users: Vec<_> =
        rows.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.clone()).collect();
    assert_eq!(users, sent);
    assert_eq!(rows.len(), sent.len() * 2);
    assert_eq!(client.read("/api/control/check")["data"], json!([]));
    discreet(&tight.gateway.log());
    assert_eq!(tight.gateway.stop().code(), Some(0));
    assert_eq!(model.asked(), sent, "no answer was asked for twice");
}

#[test]
fn p7_a_full_disk_accepts_nothing_keeps_everything_and_recovers() {
    a_full_disk(Scarcity::SmallDisk);
}

#[test]
fn p7_files_that_may_not_grow_are_a_full_disk_too() {
    a_full_disk(Scarcity::SmallFiles);
}

#[test]
fn p7_a_database_that_is_deleted_under_the_gateway_accepts_nothing_more() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    let client = &gateway.client;
    client.say("steady", "while it is there").said();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::remove_file(place.home().join(name)).unwrap();
    }
    let path = place.home().join("state.db");
    let expected = [path.to_str().unwrap(), "was deleted or moved away", "restore a backup"];
    for session in ["steady", "another"] {
        let refusal = client.say(session, "into the void");
        let (code, message) = refusal.error();
        assert_eq!((refusal.status, code.as_str()), (503, "unwritable"), "{session}: {message}");
        says(&message, &expected);
    }
    until("it notices", || !client.is_ready());
    says(&client.get("/health/ready").unwrap().text(), &expected);
    let status = place.launch().arg("status").run();
    says(&status.stdout, &expected);
    says(&gateway.log(), &expected);
    assert_eq!(gateway.stop().code(), Some(0));
    // A person who starts it again wants it to go on with what is there.
    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    gateway.client.say("steady", "afresh").said();
    assert_eq!(gateway.client.transcript("steady").len(), 2);
}

#[test]
fn p7_a_home_that_is_moved_away_under_the_gateway_is_used_again_when_it_is_back() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({"latency_ms": 5})).start();
    let client = &gateway.client;
    client.say("steady", "while it is there").said();
    // What is being written just now would not be known to stand, and only a start would find out.
    until("the writer comes to rest", || client.read("/api/control/status")["tended"] == true);
    fs::rename(place.home(), place.file("elsewhere")).unwrap();
    until("it notices, also without a write", || !client.is_ready());
    assert_eq!(client.say("steady", "while it is away").status, 503);
    assert!(!place.home().join("state.db").exists(), "nothing is made in its place");
    if place.home().exists() {
        fs::remove_dir_all(place.home()).unwrap(); // what else is kept there may have been made anew
    }
    fs::rename(place.file("elsewhere"), place.home()).unwrap();
    until("it is used again", || client.is_ready());
    client.say("steady", "it is back").said();
    let rows = client.transcript("steady");
    let users: Vec<_> =
        rows.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.as_str()).collect();
    assert_eq!(users, ["while it is there", "it is back"]);
    assert_eq!(client.read("/api/control/check")["data"], json!([]));
}

#[test]
fn a_disk_that_is_full_at_the_start_is_named() {
    let place = Place::new();
    let launches = match can_mount(&place) {
        true => ["16k", "128k"].map(|size| through(place.launch(), &place, ON_A_SMALL_DISK, &[size])),
        false => ["0", "64"].map(|blocks| {
            let script = format!(r#"ulimit -f {blocks}; exec "$@""#);
            place.launch().through(&["sh", "-c", &script, "sh"])
        }),
    };
    for launch in launches {
        let ended = launch.run();
        says(refused(&ended), &[place.home().to_str().unwrap()]);
        let reasons = ["database or disk is full", "No space left", "File too large", "disk I/O error"];
        assert!(reasons.iter().any(|reason| ended.stderr.contains(reason)), "{}", ended.stderr);
    }
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let place = Place::new();
    let home = place.home();
    fs::create_dir_all(&home).unwrap();
    if !is_root() {
        fs::set_permissions(&home, fs::Permissions::from_mode(0o555)).unwrap();
        says(refused(&place.launch().run()), &[home.to_str().unwrap(), "Permission denied"]);
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    } else if can_mount(&place) {
        // Root may write anywhere except where no user may.
        let ended = through(place.launch(), &place, ON_A_READ_ONLY_DISK, &[]).run();
        says(refused(&ended), &[home.to_str().unwrap(), "Read-only file system"]);
    }
    let nowhere = Path::new("/proc/throughline");
    says(
        refused(&Launch::on(&place, &[nowhere]).run()),
        &["could not make the directory", "/proc/throughline"],
    );
}
