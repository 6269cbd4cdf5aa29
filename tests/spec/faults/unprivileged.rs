//! As a user without rights, even if root runs the tests: everything works that needs none, and what needs some is named,
//! with the file, the reason and what to do.

use super::is_root;
use crate::gateway::{Launch, Place};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

const NOBODY: u32 = 65534;
const AS_NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// A place that belongs to a user without rights, and what is run there is run as that user.
fn owned_by_no_process() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    fs::create_dir_all(place.file("user")).unwrap();
    for path in [place.path().to_owned(), place.home(), place.file("user")] {
        give(&path);
    }
    place
}

fn give(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn unprivileged(launch: Launch) -> Launch {
    if is_root() { launch.through(&AS_NOBODY) } else { launch }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_gateway_needs_no_rights_and_what_it_keeps_is_for_its_owner_alone() {
    let place = owned_by_no_process();
    let launch = unprivileged(place.launch());
    let gateway = launch.start();
    assert!(gateway.client.say("s", "hello").said().contains("hello"));
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    assert!(!status.contains("Uid:\t0"), "{status}");
    for name in ["state.db", "state.db-wal"] {
        let about = fs::metadata(place.home().join(name)).unwrap();
        assert_eq!(about.mode() & 0o777, 0o600, "{name}");
        assert!(!is_root() || about.uid() == NOBODY, "{name}");
    }
    let told = unprivileged(place.launch()).arg("status").run();
    assert!(told.status.success() && told.stdout.contains("running"), "{told:?}");
    assert!(gateway.stop().success());
}

/// A name, what is done to a fresh place, and what is said then.
type Row = (&'static str, fn(&Place), &'static [&'static str]);

const WITHOUT_RIGHTS: [Row; 6] = [
    ("a home that may not be written", |place| allow(&place.home(), 0o555), &["home", "Permission denied"]),
    ("a home that may not be entered", |place| allow(&place.home(), 0o000), &["home", "Permission denied"]),
    (
        "a database of another user",
        |place| allow(&place.write("home/state.db", ""), 0o000),
        &["state.db", "permissions"],
    ),
    (
        "settings of another user",
        |place| allow(&place.write("home/config.yaml", "{}"), 0o000),
        &["config.yaml", "Permission denied"],
    ),
    (
        "secrets of another user",
        |place| allow(&place.write("home/.env", "A=b"), 0o000),
        &[".env", "Permission denied"],
    ),
    (
        "a lock of another user",
        |place| allow(&place.write("home/gateway.lock", ""), 0o000),
        &["gateway.lock", "Permission denied"],
    ),
];

#[test]
fn what_a_gateway_may_not_touch_is_named_with_the_reason_and_left_as_it_is() {
    for (what, arrange, words) in WITHOUT_RIGHTS {
        let place = owned_by_no_process();
        arrange(&place);
        let ended = unprivileged(place.launch()).run();
        assert_eq!(ended.status.code(), Some(1), "{what}: {ended:?}");
        for word in words {
            assert!(ended.stderr.contains(word), "{what}: {word:?} is not in: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("panicked"), "{what}: {}", ended.stderr);
        allow(&place.home(), 0o755); // so that it can be tidied up
    }
}

#[test]
fn a_port_that_needs_rights_is_refused_with_what_to_do() {
    let first: u16 =
        fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap().trim().parse().unwrap();
    if first <= 80 {
        println!("not tried: everybody may listen on port 80 of this machine");
        return;
    }
    let place = owned_by_no_process();
    let ended = unprivileged(place.launch()).without("API_SERVER_PORT").arg("--port").arg("80").run();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for word in ["80", "1024"] {
        assert!(ended.stderr.contains(word), "{word:?} is not in: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("tries again"), "{}", ended.stderr);
}

/// What only some conversations need costs no other.
#[test]
fn p23_memory_that_may_not_be_read_costs_no_turn_and_is_left_as_it_is() {
    let place = owned_by_no_process();
    let file = place.write("home/memories/MEMORY.md", "kept");
    give(&place.file("home/memories"));
    allow(&file, 0o000);
    let gateway = unprivileged(place.launch()).start();
    assert!(gateway.client.say("s", "hello").said().contains("hello"));
    assert!(gateway.stop().success());
    allow(&file, 0o600);
    assert_eq!(fs::read_to_string(file).unwrap(), "kept");
}
