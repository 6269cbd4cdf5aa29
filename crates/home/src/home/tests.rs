use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Child;
use tempfile::TempDir;

const VERSION: &str = "0.0.0-test";

fn fresh() -> (TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::new(&directory.path().join("home"), ChosenBy::CommandLine);
    (directory, home)
}

fn prepared() -> (TempDir, Home) {
    let (directory, home) = fresh();
    home.prepare().unwrap();
    (directory, home)
}

/// A process that looks like a Hermes gateway, and ends with the test.
struct Pretender(Child);

impl Pretender {
    fn new() -> Self {
        Self(Command::new("sleep").arg0("hermes-gateway").arg("600").spawn().unwrap())
    }

    fn record(&self) -> String {
        let pid = self.0.id();
        // Until it has begun its own program it is still a copy of this one.
        let seen =
            || process(pid).filter(|process| process.command_line.as_deref() == Some("hermes-gateway 600"));
        let start_time = loop {
            if let Some(process) = seen() {
                break process.start_time.unwrap();
            }
            std::thread::yield_now();
        };
        format!(
            r#"{{"pid": {pid}, "kind": "hermes-gateway", "argv": ["hermes", "gateway"], "start_time": {start_time}}}"#
        )
    }
}

impl Drop for Pretender {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_home_is_the_one_that_was_named_first() {
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&[&str], Variables<'_>, &str, ChosenBy); 6] = [
        (&["/a"], &[("THROUGHLINE_HOME", "/t"), ("HOME", "/u")], "/a", ChosenBy::CommandLine),
        (
            &[],
            &[("THROUGHLINE_HOME", " /t "), ("HERMES_HOME", "/h")],
            "/t",
            ChosenBy::Variable("THROUGHLINE_HOME"),
        ),
        (&[], &[("THROUGHLINE_HOME", " "), ("HERMES_HOME", "/h")], "/h", ChosenBy::Variable("HERMES_HOME")),
        (&[], &[("HOME", "/u")], "/u/.throughline", ChosenBy::Default),
        (&["/a/./b"], &[], "/a/b", ChosenBy::CommandLine),
        (&["/a", "/b"], &[], "/a", ChosenBy::CommandLine),
    ];
    for (given, variables, path, chosen_by) in cases {
        let given: Vec<_> = given.iter().map(PathBuf::from).collect();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let homes = choose(&given, &variable).unwrap();
        assert_eq!(homes[0], Home::new(Path::new(path), chosen_by), "{given:?} {variables:?}");
        assert_eq!(homes.len(), given.len().max(1));
    }
    assert!(choose(&[], &|_| None).unwrap_err().to_string().contains("--home"));
    let twice = choose(&["/a".into(), "/a".into()], &|_| None).unwrap_err();
    assert!(twice.to_string().contains("given twice"), "{twice}");
}

#[test]
fn a_hermes_home_is_mentioned_when_none_was_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let user = directory.path().to_str().unwrap().to_owned();
    let variable = |name: &str| (name == "HOME").then(|| user.clone());
    let home = &choose(&[], &variable).unwrap()[0];
    assert_eq!(hermes_beside(home, &variable), None);
    fs::create_dir(directory.path().join(".hermes")).unwrap();
    assert_eq!(hermes_beside(home, &variable), Some(directory.path().join(".hermes")));
    assert_eq!(hermes_beside(&Home::new(Path::new("/a"), ChosenBy::CommandLine), &variable), None);
}

#[test]
fn p31_a_new_home_is_for_its_owner_alone() {
    let (_directory, home) = prepared();
    for name in [""].iter().chain(&DIRECTORIES) {
        assert_eq!(mode(&home.path().join(name)), 0o700, "{name}");
    }
    home.prepare().unwrap();
}

#[test]
fn p31_a_home_that_was_open_to_others_is_closed_unless_the_operator_says_otherwise() {
    let open = || {
        let (directory, home) = prepared();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        for name in SPOKEN {
            fs::write(home.path().join(name), "words").unwrap();
            fs::set_permissions(home.path().join(name), Permissions::from_mode(0o644)).unwrap();
        }
        (directory, home)
    };
    for (variable, directory, file) in [
        ("", 0o700, 0o600),
        ("HERMES_HOME_MODE=0701", 0o701, 0o600),
        ("HERMES_SKIP_CHMOD=1", 0o700, 0o644),
        ("HERMES_MANAGED=1", 0o755, 0o644),
        ("HERMES_HOME_MODE=none", 0o700, 0o600),
    ] {
        let (_directory, home) = open();
        home.close_to_others(|name| variable.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
        assert_eq!(mode(home.path()), directory, "{variable}");
        for name in SPOKEN {
            assert_eq!(mode(&home.path().join(name)), file, "{variable}: {name}");
        }
    }
}

#[test]
fn a_home_is_fresh_if_nobody_spoke_in_it_before_us() {
    let (_directory, home) = fresh();
    assert!(home.is_fresh(), "not there yet");
    home.prepare().unwrap();
    fs::write(home.path().join("state.db"), "ours").unwrap();
    home.prepare().unwrap();
    assert!(home.is_fresh(), "what is there now is ours");

    for name in ["state.db", "sessions/sessions.json"] {
        let (_directory, home) = fresh();
        fs::create_dir_all(home.path().join("sessions")).unwrap();
        fs::write(home.path().join(name), "Hermes'").unwrap();
        assert!(!home.is_fresh(), "{name}");
        home.prepare().unwrap();
        assert!(!home.is_fresh(), "{name}, and it stays so");
    }
}

#[test]
fn what_is_no_home_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let profile = directory.path().join("profiles/gone");
    for (path, part) in [(&file, "is not a directory"), (&profile, "hermes profile create")] {
        let error = Home::new(path, ChosenBy::CommandLine).prepare().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!profile.exists(), "a deleted profile does not come back");
}

#[test]
fn p3_a_home_has_one_owner() {
    let (_directory, home) = prepared();
    assert_eq!(home.owner(), None);
    let ownership = home.own(VERSION).unwrap();
    let error = home.own(VERSION).unwrap_err();
    let occupied = error.downcast_ref::<Occupied>().unwrap();
    assert_eq!(occupied.owner.as_ref().unwrap().pid, std::process::id());
    let text = occupied.to_string();
    assert!(text.contains(&format!("another Throughline (pid {})", std::process::id())), "{text}");
    assert_eq!(home.owner().as_ref(), Some(occupied));

    let record = Record::parse(&fs::read_to_string(home.path().join(PID_FILE)).unwrap()).unwrap();
    assert_eq!(Some(&record), occupied.owner.as_ref(), "both files say the same");
    assert_eq!(record.start_time, process(std::process::id()).unwrap().start_time);
    drop(ownership);
    assert!(!home.path().join(PID_FILE).exists(), "gone with a clean exit");
    assert_eq!(home.owner(), None);
    home.own(VERSION).unwrap();
}

#[test]
fn p15_a_running_hermes_gateway_is_named_and_left_alone() {
    for file in [LOCK_FILE, PID_FILE, STATE_FILE] {
        let (_directory, home) = prepared();
        let hermes = Pretender::new();
        let record = match file {
            STATE_FILE => hermes.record().replace("\"kind\"", "\"gateway_state\": \"running\", \"kind\""),
            _ => hermes.record(),
        };
        let path = home.path().join(file);
        fs::write(&path, &record).unwrap();
        let held = File::open(&path).unwrap();
        if file == LOCK_FILE {
            held.lock().unwrap();
        }
        let error = home.own(VERSION).unwrap_err();
        let occupied = error.downcast_ref::<Occupied>().unwrap_or_else(|| panic!("{file}: {error:#}"));
        let text = occupied.to_string();
        assert!(text.contains(&format!("a Hermes gateway (pid {})", hermes.0.id())), "{file}: {text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), record, "{file} is as it was");
        drop((hermes, held));
        home.own(VERSION).unwrap_or_else(|error| panic!("{file} is stale now: {error:#}"));
    }
}

#[test]
fn what_the_dead_left_behind_is_no_obstacle() {
    let own = process(std::process::id()).unwrap().start_time.unwrap();
    let reused = format!(
        r#"{{"pid": {}, "kind": "hermes-gateway", "argv": ["hermes", "gateway"], "start_time": 1}}"#,
        std::process::id()
    );
    for record in ["", "not json", "{\"pid\": 4194304}", "4194304", reused.as_str(), "\0\0\0\0"] {
        let (_directory, home) = prepared();
        for file in [LOCK_FILE, PID_FILE, STATE_FILE] {
            fs::write(home.path().join(file), record).unwrap();
        }
        let _ownership = home.own(VERSION).unwrap_or_else(|error| panic!("{record:?}: {error:#}"));
        let text = fs::read_to_string(home.path().join(LOCK_FILE)).unwrap();
        assert_eq!(Record::parse(&text).unwrap().start_time, Some(own), "{record:?}");
    }
}

#[test]
fn the_record_of_a_successor_is_not_removed() {
    let (_directory, home) = prepared();
    let ownership = home.own(VERSION).unwrap();
    fs::write(home.path().join(PID_FILE), "{\"pid\": 1}").unwrap();
    drop(ownership);
    assert!(home.path().join(PID_FILE).exists());
}

#[test]
fn somebody_who_only_looks_does_not_stand_in_the_way() {
    let (_directory, home) = prepared();
    let looking = File::create(home.path().join(LOCK_FILE)).unwrap();
    looking.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(LOCK_PAUSE);
            looking.unlock().unwrap();
        });
        home.own(VERSION).unwrap();
    });
}

#[test]
fn p31_a_key_is_made_once_and_kept_from_others() {
    let (_directory, home) = prepared();
    assert_eq!(home.key().unwrap(), None);
    let key = home.key_or_new().unwrap();
    assert!(key.expose().len() >= 32 && key.expose().starts_with("tl-"), "{key}");
    assert_eq!(mode(&home.key_file()), 0o600);
    fs::set_permissions(home.key_file(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(home.key_or_new().unwrap(), key);
    assert_eq!(mode(&home.key_file()), 0o600);
    assert_eq!(home.key().unwrap(), Some(key.clone()));
    let (_other_directory, other) = prepared();
    assert_ne!(other.key_or_new().unwrap(), key);
}

#[test]
fn a_key_file_without_a_key_is_not_used() {
    let (_directory, home) = prepared();
    for text in ["", "short", "with spaces in between them", "ünïcödeünïcödeünïcöde"] {
        fs::write(home.key_file(), text).unwrap();
        let error = home.key_or_new().unwrap_err().to_string();
        assert!(error.contains("delete it, and a new one is made"), "{error}");
        assert!(text.is_empty() || !error.contains(text), "{error}");
    }
}

#[test]
fn p31_homes_with_the_same_last_name_are_told_apart() {
    let labels = |paths: &[&str]| {
        let homes: Vec<Home> =
            paths.iter().map(|path| Home::new(Path::new(path), ChosenBy::CommandLine)).collect();
        super::labels(&homes)
    };
    assert_eq!(labels(&["/a/work", "/b/play"]), ["work", "play"]);
    assert_eq!(labels(&["/x/agent", "/y/agent", "/y/other"]), ["x-agent", "y-agent", "other"]);
    assert_eq!(labels(&["/x/1/agent", "/y/1/agent"]), ["x-1-agent", "y-1-agent"]);
    assert_eq!(labels(&["/agent", "/y/agent"]), ["agent", "y-agent"]);
    let strange = labels(&["/a-b/c", "/a/b-c", "/c", "/b-c", "/"]);
    let distinct: std::collections::BTreeSet<_> = strange.iter().collect();
    assert_eq!(distinct.len(), strange.len(), "{strange:?}");
}
