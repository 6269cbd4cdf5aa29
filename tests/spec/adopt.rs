//! An agent moves over from Hermes, and back: the real Hermes in two profiles, kept by something that takes
//! `Restart=always` at its word, and the real binary.

use crate::gateway::{self, Client, Launch, Place, free_port};
#[cfg(target_os = "linux")]
use crate::killed;
use crate::model::ModelServer;
use crate::peers;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Hermes asks for a strong one.
const KEY: &str = "tl-adopt-canary-5f0c2b7e9a1d4c3f8b6e";
/// Hermes takes its time to start.
const PATIENCE: Duration = Duration::from_secs(90);

/// A root with the profiles `default` and `coder`, a model to speak with, and a user's systemd.
struct World {
    place: Place,
    model: ModelServer,
    ports: [u16; 2],
}

impl World {
    fn new() -> Self {
        let place = Place::new();
        let model = ModelServer::start(Duration::ZERO);
        let world = Self { place, model, ports: [free_port(), free_port()] };
        for (home, port) in world.homes().iter().zip(world.ports) {
            fs::create_dir_all(home).unwrap();
            fs::create_dir_all(home.join("work")).unwrap();
            let config = format!(
                "model: {}\nterminal: {{backend: local, cwd: {}}}\ngateway: {{api_server: {{max_concurrent_runs: 0}}}}\n",
                world.model.setting("fake-model").replace('}', ", context_length: 131072}"),
                home.join("work").display(),
            );
            fs::write(home.join("config.yaml"), config).unwrap();
            let variables = format!(
                "API_SERVER_ENABLED=true\nAPI_SERVER_KEY={KEY}\nAPI_SERVER_HOST=127.0.0.1\nAPI_SERVER_PORT={port}\n"
            );
            fs::write(home.join(".env"), variables).unwrap();
        }
        world
    }

    fn root(&self) -> PathBuf {
        self.user().join(".hermes")
    }

    fn user(&self) -> PathBuf {
        self.place.file("user")
    }

    fn homes(&self) -> [PathBuf; 2] {
        [self.root(), self.root().join("profiles/coder")]
    }

    fn client(&self, nth: usize) -> Client {
        Client::new(([127, 0, 0, 1], self.ports[nth]).into(), KEY)
    }

    /// `throughline adopt` with these words.
    fn adopt(&self, words: &[&str]) -> Launch {
        let launch = Launch::on(&self.place, &[]).without("API_SERVER_PORT").without("API_SERVER_KEY");
        let launch = launch.env("PATH", self.path()).arg("adopt");
        words.iter().fold(launch, |launch, word| launch.arg(*word))
    }

    /// Before the machine's own programs, a systemctl of the test's.
    fn path(&self) -> String {
        let programs = self.place.file("programs");
        fs::create_dir_all(&programs).unwrap();
        let link = programs.join("systemctl");
        if !link.exists() {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/systemctl");
            std::os::unix::fs::symlink(script, link).unwrap();
        }
        format!("{}:/usr/bin:/bin", programs.display())
    }

    fn systemctl(&self, words: &[&str]) -> bool {
        let mut command = Command::new(self.place.file("programs").join("systemctl"));
        command.arg("--user").args(words).env_clear().env("PATH", self.path()).env("HOME", self.user());
        command.status().unwrap().success()
    }

    fn unit(&self, name: &str, text: &str) {
        self.path();
        self.place.write(&format!("user/.config/systemd/user/{name}"), text);
    }

    fn is(&self, state: &str, unit: &str) -> bool {
        self.user().join("systemd").join(format!("{unit}.{state}")).exists()
    }

    /// Hermes' gateways, as its own `gateway install` would have them run.
    fn install_hermes(&self, python: &Path) {
        for (name, home) in
            ["hermes-gateway.service", "hermes-gateway-coder.service"].iter().zip(self.homes())
        {
            self.unit(
                name,
                &format!(
                    "[Service]\nExecStart={} -m hermes_cli.main gateway run\nEnvironment=\"HERMES_HOME={}\"\n\
                     Environment=\"HOME={}\"\nRestart=always\n",
                    python.display(),
                    home.display(),
                    self.user().display()
                ),
            );
            assert!(self.systemctl(&["enable", "--now", name]));
        }
    }

    /// Says something to an agent, of Hermes or of ours.
    fn say(&self, nth: usize, text: &str) {
        let began = Instant::now();
        loop {
            let answer = self.client(nth).chat(
                &[("X-Hermes-Session-Id", "talk")],
                &json!({"model": "hermes-agent", "messages": [{"role": "user", "content": text}]}),
            );
            match answer {
                Ok(answer) if answer.status == 200 => return,
                Ok(answer) if began.elapsed() > PATIENCE => panic!("{}", answer.text()),
                Err(error) if began.elapsed() > PATIENCE => panic!("{error}"),
                _ => sleep(Duration::from_millis(200)),
            }
        }
    }
}

impl Drop for World {
    /// The processes that it keeps alive end with it.
    fn drop(&mut self) {
        let units = fs::read_dir(self.user().join(".config/systemd/user")).into_iter().flatten().flatten();
        for unit in units {
            self.systemctl(&["disable", "--now", &unit.file_name().to_string_lossy()]);
        }
        // And what a kill took the name of: a service whose unit is gone is not stopped by it.
        let files = || fs::read_dir(self.user().join("systemd")).into_iter().flatten().flatten();
        let with = |ending: &'static str| {
            files()
                .map(|file| file.path())
                .filter(move |path| path.extension().is_some_and(|it| it == ending))
        };
        with("active").for_each(|path| drop(fs::remove_file(path))); // so that none comes back
        for pid in with("pid").filter_map(|path| fs::read_to_string(path).ok()) {
            let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
        }
        for home in self.homes() {
            let Ok(record) = fs::read_to_string(home.join("gateway.pid")) else { continue };
            let record: Value = serde_json::from_str(&record).unwrap_or_default();
            if let Some(pid) = record["pid"].as_u64() {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
    }
}

/// Every file below a directory, with what is in it; but for what any reader of SQLite leaves beside a database: the
/// index of its log, and a log with nothing in it.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => {
                let (name, text) = (entry.file_name(), fs::read(&path).unwrap_or_default());
                let name = name.to_string_lossy();
                let is_left = name.ends_with("-shm") || name.ends_with("-wal") && text.is_empty();
                if !is_left {
                    found.insert(path, text);
                }
            }
        }
    }
    found
}

#[test]
fn p15_p31_a_dry_run_changes_nothing_and_names_what_is_left_behind() {
    let world = World::new();
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let [root, coder] = world.homes();
    for home in [&root, &coder] {
        let begun = json!(["create_session", ["talk", "telegram"], {}]);
        let written = json!(["append_message", ["talk", "user"], {"content": "Where is the map?"}]);
        hermes.does(home, &[begun, written]);
    }
    world
        .place
        .append("user/.hermes/.env", "SIGNAL_HTTP_URL=http://127.0.0.1:1\nSIGNAL_ACCOUNT=+15550001111\n");
    world.place.write(
        "user/.hermes/cron/jobs.json",
        r#"{"jobs": [{"id": "a1", "name": "morning news", "schedule_display": "0 8 * * *", "enabled": true}]}"#,
    );
    world.unit(
        "hermes-gateway.service",
        &format!(
            "[Service]\nExecStart=/x/python -m hermes_cli.main gateway run\nEnvironment=\"HERMES_HOME={}\"\n",
            root.display()
        ),
    );
    let before = contents(&root);
    let looked = world.adopt(&["--dry-run"]).run();
    assert!(looked.status.success(), "{}{}", looked.stdout, looked.stderr);
    for told in [
        "1 sessions with 1 messages",
        "the platform signal",
        "the scheduled job morning news (0 8 * * *)",
        "the unit hermes-gateway.service is switched off",
        "coder in",
        "no model is asked",
        "/kanban",
    ] {
        assert!(looked.stdout.contains(told), "no {told:?} in\n{}", looked.stdout);
    }
    assert!(!looked.stdout.contains("+15550001111") && !looked.stdout.contains(KEY), "{}", looked.stdout);
    let after = contents(&root);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "a dry run makes no file and removes none");
    for (path, text) in &before {
        assert!(after[path] == *text, "a dry run has changed {}", path.display());
    }

    let looked = world.adopt(&["--dry-run", "--json", "--profile", "coder"]).run();
    let told: Value = serde_json::from_str(&looked.stdout).unwrap();
    assert_eq!(told[0]["agent"], "coder");
    assert_eq!(told[0]["census"]["messages"], 1);

    let unknown = world.adopt(&["--dry-run", "--profile", "cobol"]).run();
    assert!(unknown.stderr.contains("has no profile cobol; it has default, coder"), "{}", unknown.stderr);
    let asked = world.adopt(&[]).run();
    assert!(asked.stderr.contains("say --yes"), "{}", asked.stderr);
    fs::write(coder.join("config.yaml"), "model: [\n").unwrap();
    let looked = world.adopt(&["--dry-run"]).run();
    assert_eq!(looked.status.code(), Some(2), "{}", looked.stdout);
    let refused = world.adopt(&["--yes"]).run();
    assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert!(!world.is("active", "throughline.service"));
    let never = world.adopt(&["--undo", "--yes"]).run();
    assert!(never.stderr.contains("was not moved here"), "{}", never.stderr);
}

#[test]
fn p15_p35_a_home_that_could_not_start_here_is_not_taken() {
    let world = World::new();
    let [root, _] = world.homes();
    let database = rusqlite::Connection::open(root.join("state.db")).unwrap();
    throughline_hermes::schema::FRESH.iter().for_each(|text| database.execute_batch(text).unwrap());
    database.execute("UPDATE schema_version SET version = 23", []).unwrap();
    drop(database);
    let looked = world.adopt(&["--dry-run"]).run();
    assert_eq!(looked.status.code(), Some(2), "{}{}", looked.stdout, looked.stderr);
    assert!(looked.stdout.contains("newer than 22"), "{}", looked.stdout);
    let refused = world.adopt(&["--yes"]).run();
    assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert!(!root.join("throughline.adoption").exists() && !root.join("backups").exists());
}

#[test]
fn p15_p35_two_profiles_move_over_from_the_real_hermes_and_back_with_every_message() {
    let world = World::new();
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    world.install_hermes(&python);
    world.say(0, "said to Hermes");
    world.say(1, "said to Hermes' coder");

    let moved = world.adopt(&["--yes"]).run();
    assert!(moved.status.success(), "{}{}", moved.stdout, moved.stderr);
    for unit in ["hermes-gateway.service", "hermes-gateway-coder.service"] {
        assert!(!world.is("enabled", unit) && !world.is("active", unit), "{unit} is off");
    }
    assert!(world.is("enabled", "throughline.service") && world.is("active", "throughline.service"));
    for nth in [0, 1] {
        let shown = world.client(nth).transcript("talk");
        assert!(shown.iter().any(|(_, text)| text.contains("said to Hermes")), "{shown:?}");
        world.say(nth, &format!("said to us, {nth}"));
    }
    let again = world.adopt(&["--yes"]).run();
    assert!(again.stderr.contains("was moved here"), "{}", again.stderr);
    let alone = world.adopt(&["--undo", "--yes", "--profile", "coder"]).run();
    assert!(alone.stderr.contains("leave out --profile"), "{}", alone.stderr);

    let back = world.adopt(&["--undo", "--yes"]).run();
    assert!(back.status.success(), "{}{}", back.stdout, back.stderr);
    assert!(back.stdout.contains("messages were added meanwhile"), "{}", back.stdout);
    assert!(!world.is("enabled", "throughline.service") && !world.is("active", "throughline.service"));
    for (nth, unit) in ["hermes-gateway.service", "hermes-gateway-coder.service"].iter().enumerate() {
        assert!(world.is("enabled", unit) && world.is("active", unit), "{unit} is back");
        world.say(nth, &format!("said to Hermes again, {nth}"));
    }
    // What Hermes asked the model last holds everything that was said, by whomever it was answered.
    for nth in [0, 1] {
        let asked = world.model.bodies();
        let last =
            asked.iter().rev().find(|body| body.contains(&format!("said to Hermes again, {nth}"))).unwrap();
        assert!(last.contains(&format!("said to us, {nth}")), "{last}");
        assert!(last.contains("said to Hermes"), "{last}");
    }
}

/// A root with one conversation in it, and a unit that something keeps running as Hermes' own would be.
fn kept_by_a_unit() -> World {
    let world = World::new();
    let [root, _] = world.homes();
    with_a_talk(&root);
    world.unit(
        HERMES,
        &format!(
            "[Service]\nExecStart=/bin/sleep 6000 # -m hermes_cli.main gateway run\nEnvironment=\"HERMES_HOME={}\"\nRestart=always\n",
            root.display()
        ),
    );
    assert!(world.systemctl(&["enable", "--now", HERMES]));
    world
}

fn with_a_talk(home: &Path) {
    let conn = Connection::open(home.join("state.db")).unwrap();
    throughline_hermes::schema::FRESH.iter().for_each(|text| conn.execute_batch(text).unwrap());
    conn.execute_batch(
        "INSERT INTO sessions (id, source, started_at, message_count, title) VALUES ('talk', 'telegram', 1763000000.0, 1, 'Maps');
         INSERT INTO messages (session_id, role, content, timestamp) VALUES ('talk', 'user', 'Where is the map?', 1763000001.0)",
    )
    .unwrap();
}

const HERMES: &str = "hermes-gateway.service";
const OURS: &str = "throughline.service";

/// Everything in Hermes' tables, row by row.
fn hermes_rows(home: &Path) -> Vec<String> {
    gateway::rows(
        home,
        &["sessions", "messages", "gateway_routing", "session_model_usage"].map(|table| (table, "true")),
    )
}

impl World {
    /// Hermes has the agent, and nothing of ours is left running or waiting.
    fn is_hermes_s(&self, when: &dyn std::fmt::Debug) {
        assert!(self.is("enabled", HERMES) && self.is("active", HERMES), "{when:?}");
        assert!(!self.is("enabled", OURS) && !self.is("active", OURS), "{when:?}");
        assert!(!self.user().join(".config/systemd/user").join(OURS).exists(), "{when:?}");
        assert!(!self.root().join("throughline.adoption").exists(), "{when:?}");
    }

    fn is_ours(&self, when: &dyn std::fmt::Debug) {
        assert!(self.is("enabled", OURS) && self.is("active", OURS), "{when:?}");
        assert!(!self.is("enabled", HERMES) && !self.is("active", HERMES), "{when:?}");
    }

    /// Gives the agent back, if it is not Hermes' anyway.
    fn undo(&self, when: &dyn std::fmt::Debug) {
        let back = self.adopt(&["--undo", "--yes"]).run();
        let never = back.stderr.contains("was not moved here");
        assert!(back.status.success() || never, "{when:?}: {}{}", back.stdout, back.stderr);
        self.is_hermes_s(when);
    }
}

/// How many calls it takes to wait for the gateway is not told beforehand, so the last moments may be missed.
#[cfg(target_os = "linux")]
fn most_were_hit(moments: &[killed::Moment], missed: &[&killed::Moment]) {
    let all = moments.len();
    assert!(missed.len() * 5 <= all, "it was killed at most moments, and not at {missed:?} of {all}");
}

#[test]
#[cfg(target_os = "linux")]
fn p35_a_move_killed_at_any_commit_is_gone_on_with_or_taken_back() {
    let world = kept_by_a_unit();
    let before = hermes_rows(&world.root());
    let launch = world.adopt(&["--yes"]);
    let Some(moments) = killed::moments(&launch, &world.place) else { return };
    world.is_ours(&"the first run");
    world.undo(&"the first run");
    let mut steps = BTreeSet::new();
    let mut missed = Vec::new();
    for (nth, moment) in moments.iter().enumerate() {
        if !moment.kills(&launch) {
            // It came to its end in fewer calls, which is a move like the first one.
            world.is_ours(moment);
            missed.push(moment);
        }
        assert!(!(world.is("active", OURS) && world.is("active", HERMES)), "{moment:?}: one at a time");
        let record = fs::read_to_string(world.root().join("throughline.adoption")).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        steps.insert(record["step"].as_str().unwrap_or("none").to_owned());
        if nth % 2 == 0 {
            let moved = world.adopt(&["--yes"]).run();
            let is_done = moved.status.success() || moved.stderr.contains("was moved here");
            assert!(is_done, "{moment:?}: {}{}", moved.stdout, moved.stderr);
            world.is_ours(moment);
        }
        world.undo(moment);
        assert_eq!(hermes_rows(&world.root()), before, "{moment:?}");
        // Each run makes one; a hundred of them prove no more than the last.
        let _ = fs::remove_dir_all(world.root().join("backups"));
    }
    most_were_hit(&moments, &missed);
    let all = ["backing_up", "none", "silencing", "starting"].map(str::to_owned);
    assert!(steps.is_superset(&BTreeSet::from(all)), "it was killed in every step: {steps:?}");
}

#[test]
fn p35_a_move_that_is_interrupted_says_how_to_go_on_and_goes_on() {
    let world = kept_by_a_unit();
    let before = hermes_rows(&world.root());
    crate::backup::noise(&world.place, "user/.hermes/skills/heavy");
    let written = || {
        let entries = fs::read_dir(world.root().join("backups")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).max().unwrap_or(0)
    };
    let ended = world.adopt(&["--yes"]).ended_by("INT", "it backs up", || written() > 5_000_000);
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    for word in ["not over", "same command again", "adopt --undo"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert!(world.is("active", HERMES) && !world.is("active", OURS), "Hermes runs on");
    let moved = world.adopt(&["--yes"]).run();
    assert!(moved.status.success(), "{}{}", moved.stdout, moved.stderr);
    assert!(moved.stdout.contains("going on with the move"), "{}", moved.stdout);
    world.is_ours(&"gone on with");
    let kept: Vec<_> = fs::read_dir(world.root().join("backups")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1, "one backup, and nothing beside it: {kept:?}");
    world.undo(&"and back");
    assert_eq!(hermes_rows(&world.root()), before);
}

#[test]
#[cfg(target_os = "linux")]
fn p35_a_move_that_does_not_run_here_gives_the_agent_back_also_if_it_is_killed_meanwhile() {
    let world = kept_by_a_unit();
    let before = hermes_rows(&world.root());
    world.place.write(&format!("user/systemd/{OURS}.broken"), "");
    let launch = world.adopt(&["--yes"]);
    let failed = launch.run();
    assert!(!failed.status.success(), "{}", failed.stdout);
    assert!(failed.stdout.contains("it goes back to Hermes"), "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains("was given back to Hermes"), "{}", failed.stderr);
    assert!(failed.stdout.contains("the backup of before stays in"), "{}", failed.stdout);
    world.is_hermes_s(&"given back");
    assert_eq!(hermes_rows(&world.root()), before);

    let Some(moments) = killed::moments(&launch, &world.place) else { return };
    let mut missed = Vec::new();
    for moment in &moments {
        if !moment.kills(&launch) {
            missed.push(moment);
        }
        world.undo(moment);
        assert_eq!(hermes_rows(&world.root()), before, "{moment:?}");
        let _ = fs::remove_dir_all(world.root().join("backups"));
    }
    most_were_hit(&moments, &missed);
}

#[test]
#[cfg(target_os = "linux")]
fn p35_an_undone_move_killed_at_any_commit_is_undone_by_the_next() {
    let world = kept_by_a_unit();
    let before = hermes_rows(&world.root());
    let moves = world.adopt(&["--yes"]);
    let launch = world.adopt(&["--undo", "--yes"]);
    assert!(moves.run().status.success());
    let Some(moments) = killed::moments(&launch, &world.place) else { return };
    let mut missed = Vec::new();
    for moment in &moments {
        let moved = moves.run();
        assert!(moved.status.success(), "{moment:?}: {}{}", moved.stdout, moved.stderr);
        world.is_ours(moment);
        if !moment.kills(&launch) {
            missed.push(moment);
        }
        assert!(!(world.is("active", OURS) && world.is("active", HERMES)), "{moment:?}: one at a time");
        world.undo(moment);
        assert_eq!(hermes_rows(&world.root()), before, "{moment:?}");
        let _ = fs::remove_dir_all(world.root().join("backups"));
    }
    most_were_hit(&moments, &missed);
}

#[test]
fn p15_p35_a_gateway_that_ends_at_once_is_not_waited_for_and_the_agent_stays_hermes_s() {
    let world = World::new();
    let [root, _] = world.homes();
    with_a_talk(&root);
    let before = hermes_rows(&root);
    // Another process has the port.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", world.ports[0])).unwrap();
    let failed = world.adopt(&["--yes"]).run();
    assert!(failed.stderr.contains("was given back to Hermes"), "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains("ended at once"), "{}", failed.stderr);
    assert!(!root.join("throughline.adoption").exists());
    assert_eq!(hermes_rows(&root), before);
}

#[test]
fn p15_p35_a_damaged_database_is_in_the_way_of_a_move() {
    let world = World::new();
    let [root, _] = world.homes();
    with_a_talk(&root);
    let database = root.join("state.db");
    let is_refused = |words: &str| {
        let bytes = fs::read(&database).unwrap();
        let looked = world.adopt(&["--dry-run"]).run();
        assert_eq!(looked.status.code(), Some(2), "{}{}", looked.stdout, looked.stderr);
        let told = format!("{} is damaged", database.display());
        assert!(looked.stdout.contains(&told) && looked.stdout.contains(words), "{}", looked.stdout);
        let refused = world.adopt(&["--yes"]).run();
        assert!(refused.stderr.contains("nothing was changed"), "{}{}", refused.stdout, refused.stderr);
        assert!(!root.join("throughline.adoption").exists() && !root.join("backups").exists());
        assert!(fs::read(&database).unwrap() == bytes, "and it is as it was");
    };
    // An index that lacks a row: everything can be read, and only SQLite's own check finds it.
    let change = |sql: &str| Connection::open(&database).unwrap().execute_batch(sql).unwrap();
    change(
        "PRAGMA writable_schema = ON; CREATE TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'idx_messages_session';
         DELETE FROM sqlite_master WHERE name = 'idx_messages_session'",
    );
    change(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('talk', 'user', 'And the key?', 1763000002.0)",
    );
    change(
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_master SELECT * FROM kept; DELETE FROM sqlite_master WHERE name = 'kept'",
    );
    is_refused("put it back from a backup first");
    // And one of which hardly anything can be read.
    let mut bytes = fs::read(&database).unwrap();
    bytes[8192..].fill(0x5a);
    fs::write(&database, &bytes).unwrap();
    is_refused("Restore a backup");
}

#[test]
fn p15_p35_the_proof_of_a_move_begins_nothing_asks_no_model_and_remembers_nothing() {
    let world = kept_by_a_unit();
    let [root, _] = world.homes();
    // Every write to a memory provider comes here.
    let provider = ModelServer::start(Duration::ZERO);
    world.place.append("user/.hermes/config.yaml", "memory: {provider: honcho}\n");
    let honcho = json!({"baseUrl": format!("http://{}", provider.address), "apiKey": "k", "workspace": "w"});
    fs::write(root.join("honcho.json"), honcho.to_string()).unwrap();
    fs::create_dir_all(root.join("memories")).unwrap();
    fs::write(root.join("memories/MEMORY.md"), "Ada likes maps.\n").unwrap();
    let before = hermes_rows(&root);
    let moved = world.adopt(&["--yes"]).run();
    assert!(moved.status.success(), "{}{}", moved.stdout, moved.stderr);
    assert!(moved.stdout.contains("its newest conversation is talk (Maps)"), "{}", moved.stdout);
    world.is_ours(&"moved");
    world.undo(&"and back");
    assert_eq!(hermes_rows(&root), before, "no session and no message more");
    let conn = Connection::open(root.join("state.db")).unwrap();
    for table in [
        "tl_session",
        "tl_inbox",
        "tl_step",
        "tl_call",
        "tl_outbox",
        "tl_retention",
        "tl_finalisation",
        "tl_review",
    ] {
        let rows: i64 =
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    assert_eq!(world.model.bodies(), [] as [String; 0], "no model was asked");
    let written: Vec<String> = provider.bodies().into_iter().filter(|body| !body.is_empty()).collect();
    assert_eq!(written, [] as [String; 0], "nothing was written to the provider");
    assert_eq!(fs::read_to_string(root.join("memories/MEMORY.md")).unwrap(), "Ada likes maps.\n");
}

#[test]
fn p15_p35_the_root_alone_is_kept_by_a_unit_of_its_own_name() {
    let world = kept_by_a_unit();
    let moved = world.adopt(&["--yes", "--profile", "default"]).run();
    assert!(moved.status.success(), "{}{}", moved.stdout, moved.stderr);
    world.is_ours(&"not throughline-.hermes.service");
    let back = world.adopt(&["--undo", "--yes", "--profile", "default"]).run();
    assert!(back.status.success(), "{}{}", back.stdout, back.stderr);
    world.is_hermes_s(&"and back");
}

#[test]
fn p35_what_is_said_here_after_an_interrupted_move_is_hermes_s_when_it_is_taken_back() {
    let world = World::new();
    let [root, _] = world.homes();
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let begun = json!(["create_session", ["talk", "telegram"], {}]);
    hermes
        .does(&root, &[begun, json!(["append_message", ["talk", "user"], {"content": "Where is the map?"}])]);
    world.unit(
        HERMES,
        &format!(
            "[Service]\nExecStart=/bin/sleep 600 # -m hermes_cli.main gateway run\nEnvironment=\"HERMES_HOME={}\"\nRestart=always\n",
            root.display()
        ),
    );
    assert!(world.systemctl(&["enable", "--now", HERMES]));
    crate::backup::noise(&world.place, "user/.hermes/skills/heavy"); // so that the backup takes its time
    let step = || {
        let record = fs::read_to_string(root.join("throughline.adoption")).unwrap_or_default();
        serde_json::from_str::<Value>(&record).unwrap_or_default()["step"].clone()
    };
    world.adopt(&["--yes"]).ended_by("KILL", "it backs up", || step() == "backing_up");
    assert_eq!(step(), "backing_up", "it was killed in the middle");
    // A command with other profiles than those of the move moves none.
    let other = world.adopt(&["--yes", "--profile", "default"]).run();
    let refused = other.stderr.contains("give the same profiles again");
    assert!(!other.status.success() && refused, "{}{}", other.stdout, other.stderr);
    let moved = world.adopt(&["--yes"]).run();
    assert!(moved.status.success(), "{}{}", moved.stdout, moved.stderr);
    assert!(moved.stdout.contains("going on with the move"), "{}", moved.stdout);
    world.say(0, "said to us");
    world.undo(&"and back");
    let told = hermes.did(&root, json!(["get_messages", ["talk"], {}])).to_string();
    for said in ["Where is the map?", "said to us"] {
        assert!(told.contains(said), "{said}: {told}");
    }
}
