//! An agent moves over from Hermes, and back: the real Hermes in two profiles, kept by something that takes
//! `Restart=always` at its word, and the real binary.

use crate::gateway::{Client, Launch, Place, free_port};
use crate::model::ModelServer;
use crate::peers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
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

    /// Says something to an agent, whoever serves it now.
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
    /// Whatever it keeps alive ends with it.
    fn drop(&mut self) {
        let units = fs::read_dir(self.user().join(".config/systemd/user")).into_iter().flatten().flatten();
        for unit in units {
            self.systemctl(&["disable", "--now", &unit.file_name().to_string_lossy()]);
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
fn p15_a_home_that_could_not_start_here_is_not_taken() {
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
fn p15_p16_two_profiles_move_over_from_the_real_hermes_and_back_with_every_message() {
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

#[test]
fn p16_kill_9_during_a_move_and_it_is_gone_on_with_or_taken_back() {
    let world = World::new();
    let [root, _] = world.homes();
    let Some(hermes) = peers::one_hermes("0.19.0") else { return };
    let begun = json!(["create_session", ["talk", "telegram"], {}]);
    hermes
        .does(&root, &[begun, json!(["append_message", ["talk", "user"], {"content": "Where is the map?"}])]);
    world.unit(
        "hermes-gateway.service",
        &format!(
            "[Service]\nExecStart=/bin/sleep 600 # -m hermes_cli.main gateway run\nEnvironment=\"HERMES_HOME={}\"\nRestart=always\n",
            root.display()
        ),
    );
    assert!(world.systemctl(&["enable", "--now", "hermes-gateway.service"]));
    for (nth, delay) in [20, 60, 120, 200, 300, 450, 700].into_iter().enumerate() {
        let moving = world.adopt(&["--yes"]).spawn();
        sleep(Duration::from_millis(delay));
        moving.kill();
        match nth % 2 {
            0 => {
                let moved = world.adopt(&["--yes"]).run();
                let done = moved.status.success() || moved.stderr.contains("was moved here");
                assert!(done, "after {delay} ms: {}{}", moved.stdout, moved.stderr);
                assert!(
                    world.is("active", "throughline.service")
                        && !world.is("active", "hermes-gateway.service")
                );
                world.say(0, &format!("said after {delay} ms"));
                let back = world.adopt(&["--undo", "--yes"]).run();
                assert!(back.status.success(), "after {delay} ms: {}{}", back.stdout, back.stderr);
            }
            _ => {
                let back = world.adopt(&["--undo", "--yes"]).run();
                let never = back.stderr.contains("was not moved here");
                assert!(back.status.success() || never, "after {delay} ms: {}{}", back.stdout, back.stderr);
            }
        }
        assert!(world.is("enabled", "hermes-gateway.service"), "after {delay} ms");
        assert!(world.is("active", "hermes-gateway.service"), "after {delay} ms");
        assert!(!world.is("active", "throughline.service"), "after {delay} ms");
    }
    // Whoever gives other profiles than those that were on their way moves nobody.
    let moving = world.adopt(&["--yes"]).spawn();
    while !root.join("throughline.adoption").exists() {
        sleep(Duration::from_millis(1));
    }
    moving.kill();
    let other = world.adopt(&["--yes", "--profile", "default"]).run();
    let refused =
        other.stderr.contains("give the same profiles again") || other.stderr.contains("was moved here");
    assert!(!other.status.success() && refused, "{}{}", other.stdout, other.stderr);
    assert!(world.adopt(&["--undo", "--yes"]).run().status.success());
    assert!(world.is("active", "hermes-gateway.service"));

    let told = hermes.did(&root, json!(["get_messages", ["talk"], {}])).to_string();
    for said in ["Where is the map?", "said after 20 ms", "said after 700 ms"] {
        assert!(told.contains(said), "{said}: {told}");
    }
}
