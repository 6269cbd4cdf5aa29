//! Backup and restore of a home, exports, and `prune`.

use crate::gateway::{Client, Ended, Gateway, Place};
use crate::model::{ModelServer, calls, last, said};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Part of every request for a summary, and of nothing else.
const ASKS: &str = "Historical Task Snapshot";
const SUMMARY: &str =
    "## Goal\nMove the archive, box by box.\n\n## Critical Context\nThe code word is heron-7731.";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(2));
    }
}

fn throughline(place: &Place, words: &[&str]) -> Ended {
    words.iter().fold(place.launch(), |launch, word| launch.arg(*word)).run()
}

fn succeeds(place: &Place, words: &[&str]) -> String {
    let ended = throughline(place, words);
    assert!(ended.status.success(), "{words:?}: {ended:?}");
    ended.stdout
}

fn fails(place: &Place, words: &[&str]) -> String {
    let ended = throughline(place, words);
    assert_eq!(ended.status.code(), Some(1), "{words:?}: {ended:?}");
    ended.stderr
}

fn file(place: &Place, name: &str) -> String {
    place.file(name).display().to_string()
}

fn order(client: &Client, session: &str, command: &str) -> String {
    let order = json!({ "command": command });
    let answer = client.post(&format!("/api/sessions/{session}/commands"), &[], &order).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["said"].as_str().unwrap().to_owned()
}

/// A model that summarises, remembers when it is told to, and otherwise repeats.
fn model() -> ModelServer {
    ModelServer::answering(Duration::ZERO, |request| match last(request) {
        text if request.to_string().contains(ASKS) && !text.is_empty() => said(SUMMARY),
        text if text.starts_with("remember") => {
            let entry = json!({"action": "add", "target": "memory", "content": "The user drinks green tea."});
            calls(&[("memory", entry)])
        }
        text => said(&format!("re: {}", text.chars().take(60).collect::<String>())),
    })
}

/// A home with a conversation that was compressed, and something remembered.
fn lived_in(place: &Place, model: &ModelServer) -> Gateway {
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    place.write("home/SOUL.md", "You are Ada, who keeps boxes.");
    place.write(
        "home/skills/boxes/SKILL.md",
        "---\nname: boxes\ndescription: how boxes are kept\n---\nUpright.\n",
    );
    place.write("home/logs/old.log", "not needed");
    let gateway = place.launch().start();
    let client = &gateway.client;
    for number in 0..12 {
        let text = format!("Box {number} stands on a shelf. {}", "It is grey and heavy. ".repeat(60));
        assert_eq!(client.say("s", &text).status, 200);
    }
    assert_eq!(client.say("s", "remember what I drink").status, 200);
    let said = order(client, "s", "/compress");
    assert!(said.contains("snapshot"), "{said}");
    gateway
}

/// Everything below a directory, with rights and contents, but for what comes and goes with a process.
fn tree(directory: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let contents = match () {
                () if about.is_dir() => {
                    open.push(path);
                    Vec::new()
                }
                () if about.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                () => fs::read(&path).unwrap(),
            };
            found.insert(name, (about.permissions().mode() & 0o777, contents));
        }
    }
    found
}

// ---------------------------------------------------------------------------------------- backup

#[test]
fn a_home_restored_elsewhere_asks_the_model_for_exactly_the_same_bytes() {
    let place = Place::new();
    let model = model();
    noise(&place, "home/skills/heavy");
    let gateway = lived_in(&place, &model);
    let (is_over, spoken) = (AtomicBool::new(false), AtomicUsize::new(0));
    let archive = file(&place, "kept.tar.gz");
    std::thread::scope(|scope| {
        let client = &gateway.client;
        let (is_over, spoken) = (&is_over, &spoken);
        for speaker in 0..4 {
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let answer = client.say(&format!("noise-{speaker}"), &format!("noise {number}"));
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    spoken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until("people talk", || spoken.load(Ordering::Relaxed) > 20);
        let before = spoken.load(Ordering::Relaxed);
        let told = place.file("told.json");
        let redirect = format!("exec \"$0\" \"$@\" > {}", told.display());
        let launch = place.launch().through(&["sh", "-c", &redirect]);
        let words = ["backup", "--to", &archive, "--json"];
        let backup = words.iter().fold(launch, |launch, word| launch.arg(*word)).spawn();
        // However fast it is, it is held in its middle until people have gone on talking.
        until("the backup is under way", || place.file("kept.tar.gz.partial").exists());
        backup.signal("STOP");
        assert!(!Path::new(&archive).exists(), "it is not over");
        let held = spoken.load(Ordering::Relaxed);
        until("turns go on beside it", || spoken.load(Ordering::Relaxed) > held + 8);
        backup.signal("CONT");
        assert!(backup.wait().success());
        is_over.store(true, Ordering::Relaxed);
        let told: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
        assert_eq!(
            (&told["verified"], &told["databases"][0]["path"]),
            (&json!(true), &json!("state.db")),
            "{told}"
        );
        assert!(told["databases"][0]["rows"]["messages"].as_u64().unwrap() >= 2 * before as u64, "{told}");
        assert_eq!(told["databases"][0]["damage"], json!([]), "{told}");
    });
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(gateway.stop().success());

    let restored = succeeds(&place, &["restore", &archive, "--to", &file(&place, "elsewhere")]);
    assert!(restored.contains("every digest is right"), "{restored}");
    let kept = tree(&place.file("elsewhere"));
    assert!(
        kept.contains_key("memories/MEMORY.md") && kept.contains_key("skills/boxes/SKILL.md"),
        "{:?}",
        kept.keys()
    );
    for gone in ["logs/old.log", "gateway.pid", "state.db-wal", "throughline.address"] {
        assert!(!kept.contains_key(gone), "{gone}");
    }
    let elsewhere = crate::gateway::Launch::on(&place, &[&place.file("elsewhere")]);
    let next = |launch: &crate::gateway::Launch, session: &str| {
        let gateway = launch.start();
        assert_eq!(gateway.client.say(session, "and now?").status, 200);
        assert!(gateway.stop().success());
        // Reviews of what was said before ask, too.
        let bodies = model.bodies().into_iter().rev();
        bodies.into_iter().find(|body| last(&serde_json::from_str(body).unwrap()) == "and now?").unwrap()
    };
    let mut first = String::new();
    for session in ["s", "another"] {
        let (here, there) = (next(&place.launch(), session), next(&elsewhere, session));
        assert!(here.contains("and now?") && (session != "s" || here.contains("heron-7731")), "{here}");
        assert!(session == "s" || here.contains("green tea"), "what is remembered is there: {here}");
        // Tools tell the model where its skills are.
        let moved = there.replace(&file(&place, "elsewhere"), &file(&place, "home"));
        assert_eq!(here, moved, "{session}");
        first = if first.is_empty() { here } else { first };
    }
    let audit = elsewhere.arg("audit").run();
    assert!(audit.status.success(), "{audit:?}");

    fs::rename(place.home(), place.file("before")).unwrap();
    succeeds(&place, &["restore", &archive]);
    assert_eq!(first, next(&place.launch(), "s"), "in the same place, byte for byte");
}

/// Enough, and nothing that can be compressed, that a test gets into the middle of it.
pub fn noise(place: &Place, directory: &str) {
    let mut noise = 0x9E37_79B9_7F4A_7C15u64;
    for nth in 0..12 {
        let bytes: Vec<u8> = (0..500_000)
            .flat_map(|_| {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                noise.to_le_bytes()
            })
            .collect();
        place.write(&format!("{directory}/{nth}.bin"), bytes);
    }
}

fn heavy(place: &Place) {
    noise(place, "home/skills/heavy");
    place.write("home/.env", "OPENAI_API_KEY=sk-canary-1\n");
    fs::set_permissions(place.file("home/.env"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir_all(place.file("home/cron/empty")).unwrap();
    std::os::unix::fs::symlink("skills/heavy/0.bin", place.file("home/first")).unwrap();
    drop(throughline_store::Home::at(&place.home()).writer(throughline_core::Time(1)).unwrap());
}

/// What a backup keeps of a home at rest, with what two ways to look at it have in common.
fn kept_tree(directory: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = tree(directory);
    for passing in ["state.db", "state.db-wal", "state.db-shm", "gateway.lock", "gateway_state.json"] {
        found.remove(passing);
    }
    found
}

/// Where the pieces of an archive begin. The last may be cut short.
fn members(archive: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(header) = archive.get(at..at + 24) {
        let length = u64::from_le_bytes(header[16..].try_into().unwrap());
        found.push(at);
        at += usize::try_from(length).unwrap();
    }
    found
}

#[test]
fn a_backup_that_is_killed_goes_on_where_it_stopped_with_the_home_as_it_is_now() {
    let place = Place::new();
    heavy(&place);
    let archive = place.file("kept.tar.gz");
    let (partial, earlier) = (place.file("kept.tar.gz.partial"), place.file("kept.tar.gz.partial.earlier"));
    let arguments = ["backup", "--to", archive.to_str().unwrap()];
    let launch = arguments.iter().fold(place.launch(), |launch, word| launch.arg(*word));
    let length = |path: &Path| fs::metadata(path).map_or(0, |about| about.len());
    // The second is killed while it still goes on with what the first one left.
    for past in [20_000_000, 1_000_000, 24_000_000] {
        let ended = launch.ended_by("KILL", "it writes", || length(&partial) >= past);
        assert!(!ended.status.success() && !archive.exists() && partial.exists());
    }
    // A mark on each piece, where gzip says on which system it was made: a piece that is compressed anew has none.
    let mut left = fs::read(&partial).unwrap();
    for at in members(&left) {
        assert_eq!(left[at + 9], 0xff);
        left[at + 9] = 3;
    }
    // And one that is not what it was.
    left[10_000_000] ^= 1;
    fs::write(&partial, left).unwrap();
    // Meanwhile the home has gone on.
    place.write("home/skills/heavy/3.bin", "shorter now");
    place.write("home/skills/heavy/new.bin", "not there before");
    fs::remove_file(place.file("home/skills/heavy/5.bin")).unwrap();
    database(&place)
        .execute_batch(
            "INSERT INTO sessions (id, source, started_at, system_prompt)
             VALUES ('meanwhile', 'cli', 1, hex(randomblob(1500000)))",
        )
        .unwrap();

    let told: Value =
        serde_json::from_str(&succeeds(&place, &[&arguments[..], &["--json"]].concat())).unwrap();
    assert_eq!((&told["continued"], &told["verified"]), (&json!(true), &json!(true)), "{told}");
    assert_eq!(told["databases"][0]["rows"]["sessions"], 1, "{told}");
    let reused = told["reused_bytes"].as_u64().unwrap();
    assert!(reused > 15_000_000 && reused < length(&archive), "{told}");
    let whole = fs::read(&archive).unwrap();
    let marked = members(&whole).iter().filter(|at| whole[*at + 9] == 3).count();
    assert!(marked > 15, "of a megabyte each, and not compressed again: {marked}");
    assert!(!partial.exists() && !earlier.exists() && !place.file("home/backup.partial").exists());
    succeeds(&place, &["restore", archive.to_str().unwrap(), "--to", &file(&place, "elsewhere")]);
    let (here, there) = (kept_tree(&place.home()), kept_tree(&place.file("elsewhere")));
    assert_eq!(here.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
    assert!(here == there, "it holds what is there now");

    // A database without new writes is copied again, and is the same bytes: nothing of it is compressed twice.
    fs::copy(&archive, &partial).unwrap();
    let words = [&arguments[..], &["--force", "--json"]].concat();
    let told: Value = serde_json::from_str(&succeeds(&place, &words)).unwrap();
    assert!(told["reused_bytes"].as_u64().unwrap() + 500_000 > length(&archive), "{told}");

    let again = fails(&place, &arguments);
    assert!(again.contains("is there already") && again.contains("--force"), "{again}");
    let plain = succeeds(&place, &[&arguments[..], &["--force"]].concat());
    assert!(!plain.contains("interrupted"), "{plain}");
}

#[test]
fn p31_an_encrypted_backup_that_is_killed_leaves_nothing_to_read_and_begins_anew() {
    let place = Place::new();
    heavy(&place);
    place.write("home/skills/heavy/a-word.txt", "the canary is called Tweety");
    let (archive, phrase) =
        (file(&place, "kept.tar.gz.age"), place.write("phrase", "the tea is in the tin\n"));
    let arguments = ["backup", "--encrypt", "--passphrase-file", phrase.to_str().unwrap(), "--to", &archive];
    let launch = arguments.iter().fold(place.launch(), |launch, word| launch.arg(*word));
    let partial = place.file("kept.tar.gz.age.partial");
    let is_written = || fs::metadata(&partial).is_ok_and(|about| about.len() > 1_000_000);
    launch.ended_by("KILL", "it writes", is_written);
    let left: Vec<String> = fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let ours = left.iter().filter(|name| name.starts_with("kept")).collect::<Vec<_>>();
    assert_eq!(ours, ["kept.tar.gz.age.partial"]);
    assert!(fs::read(&partial).unwrap().starts_with(b"age-encryption.org/v1\n"));
    let told = succeeds(&place, &arguments);
    assert!(told.contains("interrupted") && told.contains("begins anew"), "{told}");
    assert!(!partial.exists());
}

#[test]
fn a_backup_that_is_interrupted_says_how_to_go_on_and_goes_on() {
    let place = Place::new();
    heavy(&place);
    fs::create_dir_all(place.file("usb")).unwrap();
    // The command names the file: each is called after its time.
    let arguments = ["backup", "--to", &file(&place, "usb")];
    let launch = arguments.iter().fold(place.launch(), |launch, word| launch.arg(*word));
    let partials = || {
        let entries = fs::read_dir(place.file("usb")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".partial")).collect::<Vec<_>>()
    };
    let ended = launch.ended_by("INT", "it writes", || {
        partials().iter().any(|entry| entry.metadata().is_ok_and(|about| about.len() > 10_000_000))
    });
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let said = ended.stderr;
    assert!(said.contains("was not made") && said.contains("Run the same command again"), "{said}");
    assert_eq!(partials().len(), 1);
    let told = succeeds(&place, &arguments);
    assert!(told.contains("interrupted; this one went on with it"), "{told}");
    assert_eq!(fs::read_dir(place.file("usb")).unwrap().count(), 1, "one archive, and nothing beside it");
}

#[test]
fn a_restore_that_is_killed_goes_on_where_it_stopped() {
    let place = Place::new();
    heavy(&place);
    let archive = file(&place, "kept.tar.gz");
    succeeds(&place, &["backup", "--to", &archive]);
    let target = file(&place, "elsewhere");
    let restore = ["restore", &archive, "--to", &target];
    // Written in the order of their names: eight more come after these.
    for file in ["skills/heavy/1.bin", "skills/heavy/11.bin"] {
        let killed = restore.iter().fold(place.launch(), |launch, word| launch.arg(*word)).spawn();
        until("it writes", || Path::new(&target).join(file).exists());
        killed.kill();
        let half = crate::gateway::Launch::on(&place, &[Path::new(&target)]).run();
        assert!(!half.status.success() && half.stderr.contains("half restored"), "{half:?}");
    }
    let told = succeeds(&place, &restore);
    assert!(told.contains("was interrupted") && told.contains("were there already"), "{told}");
    let (before, after) = (kept_tree(&place.home()), kept_tree(Path::new(&target)));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "contents and rights are the same");
    let refused = fails(&place, &restore);
    assert!(refused.contains("is not empty"), "{refused}");
}

/// An archive whose entries would be written wherever a link of its own leads.
#[cfg(unix)]
#[test]
fn p31_a_restore_writes_nothing_below_a_link() {
    let place = Place::new();
    let outside = place.file("outside");
    fs::create_dir_all(&outside).unwrap();
    let list = json!({"format": "throughline-backup", "version": 1, "at": "now", "databases": [], "entries": [
        {"path": "a", "mode": "777", "link": outside.display().to_string()},
        {"path": "a/made", "mode": "700"},
    ]});
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut put = |path: &str, kind: tar::EntryType, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o700);
        if kind == tar::EntryType::Symlink {
            return tar.append_link(&mut header, path, &outside).unwrap();
        }
        tar.append_data(&mut header, path, bytes).unwrap();
    };
    put("home/a", tar::EntryType::Symlink, b"");
    put("home/a/made", tar::EntryType::Directory, b"");
    put("manifest.json", tar::EntryType::Regular, list.to_string().as_bytes());
    let archive = place.write("trap.tar.gz", tar.into_inner().unwrap().finish().unwrap());
    let target = place.file("elsewhere");
    let said =
        fails(&place, &["restore", &archive.display().to_string(), "--to", &target.display().to_string()]);
    assert!(said.contains("which is a link and may lead anywhere"), "{said}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was written outside");
    assert!(!target.exists(), "something was written");
}

#[test]
fn rubbish_is_refused_by_name_and_nothing_is_written() {
    let place = Place::new();
    place.write("home/SOUL.md", "You are Ada.");
    place.write("home/.env", "OPENAI_API_KEY=sk-canary-1\n");
    let archive = file(&place, "kept.tar.gz");
    succeeds(&place, &["backup", "--to", &archive]);
    let whole = fs::read(&archive).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    // A list that fits what is there, so that only the path is wrong.
    let leading = |path: &str| {
        let list = json!({"format": "throughline-backup", "version": 1, "at": "now", "databases": [],
            "entries": [{"path": path.trim_start_matches("home/"), "mode": "600", "bytes": 4,
                "sha256": "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589"}]});
        let mut tar =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (name, bytes) in [(path, &b"abcd"[..]), ("manifest.json", list.to_string().as_bytes())] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    };
    for (name, bytes, says) in [
        ("empty", Vec::new(), "no backup"),
        ("text", b"hello there".to_vec(), "no backup"),
        ("short", whole[..whole.len() - 20].to_vec(), "cannot be used"),
        ("half", whole[..whole.len() / 2].to_vec(), "cannot be used"),
        ("flipped", flipped, "cannot be used"),
        ("above", leading("home/../../escaped"), "leads out of the directory"),
        ("absolute", leading("/tmp/escaped"), "leads out of the directory"),
        ("beside", leading("other/file"), "no part of a home"),
        ("ours", leading("home/file"), ""),
    ] {
        let path = place.write(name, bytes);
        let target = file(&place, &format!("to-{name}"));
        let ended = throughline(&place, &["restore", path.to_str().unwrap(), "--to", &target]);
        assert_eq!(ended.status.success(), says.is_empty(), "{name}: {ended:?}");
        assert!(ended.stderr.contains(says), "{name}: {ended:?}");
        assert!(says.is_empty() || ended.stderr.contains(path.to_str().unwrap()), "{name}: {ended:?}");
        assert_eq!(Path::new(&target).exists(), says.is_empty(), "{name}: nothing was written");
    }
    assert!(!place.file("escaped").exists());
    let missing = fails(&place, &["restore", &file(&place, "nowhere"), "--to", &file(&place, "x")]);
    assert!(missing.contains("nowhere cannot be read"), "{missing}");

    let gateway = place.launch().start();
    let busy = fails(&place, &["restore", &archive]);
    assert!(
        busy.contains("is in use by another Throughline") && busy.contains("Nothing was written"),
        "{busy}"
    );
    gateway.stop();
    let full = fails(&place, &["restore", &archive]);
    assert!(full.contains("is not empty"), "{full}");
}

#[test]
fn p31_an_encrypted_backup_opens_with_its_passphrase_alone() {
    let place = Place::new();
    place.write("home/.env", "OPENAI_API_KEY=sk-canary-1\n");
    place.write("phrase", "the tea is in the tin\n");
    place.write("wrong", "in the fridge\n");
    let (archive, phrase) = (file(&place, "kept.tar.gz.age"), file(&place, "phrase"));
    let unasked = fails(&place, &["backup", "--encrypt", "--to", &archive]);
    assert!(unasked.contains("no terminal to ask for a passphrase"), "{unasked}");
    succeeds(&place, &["backup", "--encrypt", "--passphrase-file", &phrase, "--to", &archive]);
    let bytes = fs::read(&archive).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1\n-> scrypt "));
    let target = file(&place, "elsewhere");
    let wrong =
        fails(&place, &["restore", &archive, "--to", &target, "--passphrase-file", &file(&place, "wrong")]);
    assert!(wrong.contains("the passphrase does not open it") && !wrong.contains("fridge"), "{wrong}");
    assert!(!Path::new(&target).exists());
    let words = ["restore", &archive, "--to", &target];
    let launch = words.iter().fold(place.launch(), |launch, word| launch.arg(*word));
    let ended = launch.env("THROUGHLINE_PASSPHRASE", "the tea is in the tin").run();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(fs::read_to_string(place.file("elsewhere/.env")).unwrap(), "OPENAI_API_KEY=sk-canary-1\n");

    let mut changed = bytes.clone();
    let end = changed.len() - 3;
    changed[end] ^= 1;
    let changed = place.write("changed", changed);
    let target = file(&place, "never");
    let words = ["restore", changed.to_str().unwrap(), "--to", &target, "--passphrase-file", &phrase];
    assert!(fails(&place, &words).contains("changed or cut short"));
    assert!(!Path::new(&target).exists());
}

#[test]
fn a_backup_is_opened_by_everybodys_tools() {
    let place = Place::new();
    place.write("home/SOUL.md", "You are Ada.");
    let archive = file(&place, "kept.tar.gz");
    succeeds(&place, &["backup", "--to", &archive]);
    let mut tar = tar::Archive::new(flate2::read::MultiGzDecoder::new(fs::File::open(&archive).unwrap()));
    let mut soul = String::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap() == Path::new("home/SOUL.md") {
            entry.read_to_string(&mut soul).unwrap();
        }
    }
    assert_eq!(soul, "You are Ada.");
    let listed = std::process::Command::new("tar").args(["tzf", &archive]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("home/SOUL.md\n") && listed.ends_with("manifest.json\n"), "{listed}");
}

// ---------------------------------------------------------------------------------------- export

const NASTY: &str =
    "<script>alert(1)</script> <img src=\"https://example.com/x.png\"> & \"quotes\" 'single' \x1b[2J";

#[test]
fn an_export_shows_snapshots_in_order_and_is_a_page_that_loads_and_runs_nothing() {
    let place = Place::new();
    let model = model();
    let gateway = lived_in(&place, &model);
    assert_eq!(gateway.client.say("s", NASTY).status, 200);
    assert!(gateway.stop().success());
    let listed: Value =
        serde_json::from_str(&succeeds(&place, &["sessions", "snapshots", "s", "--json"])).unwrap();
    let snapshot = listed[0]["name"].as_str().unwrap();

    let lines = succeeds(&place, &["sessions", "export", "--session", "s", "--with-snapshots"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let marks: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(marks, ["session", "snapshot", "live"]);
    let live = lines.iter().position(|line| line["type"] == "live").unwrap();
    let text = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<String>();
    let (before, now) = (text(&lines[..live]), text(&lines[live..]));
    assert!(now.contains("heron-7731") && !before.contains("heron-7731"), "{before}\n{now}");
    // A summary repeats in short what was said: as messages of their own they are in the snapshot alone.
    let own = "\"content\":\"Box 5 stands";
    assert!(before.contains(own) && !now.contains(own), "{before}\n{now}");

    let alone = succeeds(&place, &["sessions", "export", snapshot, "--format", "markdown"]);
    assert!(alone.contains(&format!("# Snapshot {snapshot}")) && alone.contains("Box 0 stands"), "{alone}");

    let page = succeeds(&place, &["sessions", "export", "s", "--format", "html", "--with-snapshots"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(
        page.contains("default-src 'none'") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
    assert!(
        !page.contains("<script")
            && !page.contains("<img")
            && !page.contains("src=\"")
            && !page.contains('\x1b')
    );
    assert!(page.contains(&format!("Snapshot {snapshot}")) && page.contains("As it stands"));

    let all = succeeds(
        &place,
        &["sessions", "export", "--all", "-o", &file(&place, "all.html"), "--format", "html"],
    );
    assert_eq!(all, "");
    assert!(fs::read_to_string(place.file("all.html")).unwrap().contains("heron-7731"));
}

#[test]
fn a_long_conversation_is_exported_in_little_memory() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    drop(throughline_store::Home::at(&place.home()).writer(throughline_core::Time(1)).unwrap());
    let database = rusqlite::Connection::open(place.file("home/state.db")).unwrap();
    database.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    database
        .execute_batch(
            "BEGIN; INSERT INTO sessions (id, source, started_at) VALUES ('long', 'cli', 1);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO messages (session_id, role, content, timestamp)
             SELECT 'long', 'user', 'message ' || i || ' ' || hex(zeroblob(10000)), i FROM n; COMMIT",
        )
        .unwrap();
    drop(database);
    let out = file(&place, "long.jsonl");
    // 200 MB of words, and 150 MB of addresses.
    let launch = place.launch().through(&["sh", "-c", "ulimit -v 150000; exec \"$0\" \"$@\""]);
    let words = ["sessions", "export", "long", "-o", &out];
    let ended = words.iter().fold(launch, |launch, word| launch.arg(*word)).run();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 10_001);
}

// ----------------------------------------------------------------------------------------- prune

fn database(place: &Place) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(place.file("home/state.db")).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    database
}

fn count(place: &Place, sql: &str) -> i64 {
    database(place).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn is_sound(place: &Place) {
    let audit = throughline(place, &["audit"]);
    assert!(audit.status.success(), "{audit:?}");
}

#[test]
fn p20_what_is_pruned_is_over_and_everything_that_is_owed_or_led_to_stays() {
    let place = Place::new();
    let model = model();
    let gateway = lived_in(&place, &model);
    let client = &gateway.client;
    let answer = client.say("old", "the word is quokka");
    let request = answer.header("x-request-id").to_owned();
    for session in ["owed", "due", "child-of-none"] {
        assert_eq!(client.say(session, "hello").status, 200);
    }
    for session in ["old", "owed", "due"] {
        order(client, session, "/new");
    }
    until("everything is handed over", || {
        count(&place, "SELECT count(*) FROM tl_finalisation WHERE stage = 4") == 3
    });
    let busy = throughline(&place, &["prune", "--older-than", "0d", "--yes"]);
    assert!(!busy.status.success() && busy.stderr.contains("is in use"), "{busy:?}");
    let beside = succeeds(&place, &["prune", "--older-than", "0d"]);
    assert!(beside.contains("Nothing was deleted"), "looking is allowed: {beside}");
    assert!(gateway.stop().success());

    database(&place)
        .execute_batch(
            "UPDATE sessions SET ended_at = ended_at - 100 * 86400 WHERE ended_at IS NOT NULL;
             UPDATE tl_finalisation SET stage = 3 WHERE session = 'due';
             UPDATE tl_session SET stage = 3, unfinished = 1 WHERE id = 'due';
             INSERT INTO tl_outbox (key, session, state, attempts, marked, not_before, created, updated, destination, text)
             VALUES ('owed/9', 'owed', 0, 0, 0, 0, 0, 0, '{\"platform\":\"webhook\",\"chat\":\"x\"}', 'late');",
        )
        .unwrap();
    let look = succeeds(&place, &["prune"]);
    assert!(look.contains("\nold ") || look.contains("old  "), "{look}");
    assert!(look.contains("stays  owed: a reply is owed") && look.contains("stays  due: "), "{look}");
    assert!(look.contains("would go: 1 sessions") && look.contains("--yes"), "{look}");
    assert_eq!(count(&place, "SELECT count(*) FROM sessions WHERE id = 'old'"), 1, "nothing goes by itself");

    let gone: Value = serde_json::from_str(&succeeds(&place, &["prune", "--yes", "--json"])).unwrap();
    assert_eq!(gone["sessions"][0]["id"], "old", "{gone}");
    assert_eq!(gone["sessions"].as_array().unwrap().len(), 1, "{gone}");
    for table in ["tl_finalisation WHERE session", "tl_inbox WHERE session", "messages WHERE session_id"] {
        assert_eq!(count(&place, &format!("SELECT count(*) FROM {table} = 'old'")), 0, "{table}");
    }
    assert!(count(&place, "SELECT count(*) FROM tl_seen WHERE session = 'old' AND seq = 0") > 0, "keys stay");
    assert!(succeeds(&place, &["sessions", "search", "quokka"]).contains("No message matches"));
    assert!(!request.is_empty());
    for stays in ["s", "owed", "due"] {
        assert_eq!(
            count(&place, &format!("SELECT count(*) FROM sessions WHERE id = '{stays}'")),
            1,
            "{stays}"
        );
    }
    database(&place)
        .execute_batch(
            "DELETE FROM tl_outbox WHERE key = 'owed/9'; UPDATE tl_finalisation SET stage = 4 WHERE session = 'due';
             UPDATE tl_session SET stage = 4, unfinished = 0 WHERE id = 'due';",
        )
        .unwrap();
    is_sound(&place);
    let events = succeeds(&place, &["prune", "--events", "--older-than", "0d", "--yes"]);
    assert!(events.contains("events"), "{events}");
    assert_eq!(count(&place, "SELECT count(*) FROM tl_event"), 0);
    is_sound(&place);
}

#[test]
#[cfg(target_os = "linux")]
fn a_prune_that_is_killed_leaves_whole_sessions_and_goes_on_later() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    drop(throughline_store::Home::at(&place.home()).writer(throughline_core::Time(1)).unwrap());
    database(&place)
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO sessions (id, source, started_at, ended_at, end_reason, message_count)
             SELECT 'old-' || i, 'cli', i, i + 1, 'session_reset', 20 FROM n;
             INSERT INTO sessions (id, source, started_at) VALUES ('live', 'cli', 5);
             INSERT INTO messages (session_id, role, content, timestamp)
             SELECT s.id, 'user', 'words of ' || s.id || ' number ' || value, value FROM sessions s,
                    json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]');",
        )
        .unwrap();
    place.write("home/sessions/old-1.jsonl", "{}");
    let prune = ["prune", "--yes"];
    let left = || count(&place, "SELECT count(*) FROM sessions WHERE id LIKE 'old-%'");
    // Each session is a commit, and each commit is put on disk.
    let Some(moment) = crate::killed::before("fsync", 60) else { return };
    assert!(moment.kills(&prune.iter().fold(place.launch(), |launch, word| launch.arg(*word))));
    assert!((1..400).contains(&left()), "it was killed in the middle: {}", left());
    let torn = "SELECT count(*) FROM sessions s WHERE s.id LIKE 'old-%'
                AND 20 <> (SELECT count(*) FROM messages m WHERE m.session_id = s.id)";
    assert_eq!(count(&place, torn), 0, "each is there whole, or gone");
    assert_eq!(
        count(&place, "SELECT count(*) FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)"),
        0
    );
    is_sound(&place);
    let told = succeeds(&place, &prune);
    assert!(told.starts_with("gone: ") && left() == 0, "{told}");
    assert_eq!(count(&place, "SELECT count(*) FROM messages"), 20, "what lives stays");
    assert_eq!(count(&place, "SELECT count(*) FROM messages_fts"), 20, "and the search index follows");
    assert!(!place.file("home/sessions/old-1.jsonl").exists());
    is_sound(&place);
}
