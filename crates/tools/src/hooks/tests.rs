use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use throughline_core::SessionId;
use throughline_core::port::FactName;
use throughline_core::tool::{Caller, Witness};
use throughline_hermes::config::Config;

struct HooksFixture {
    directory: TempDir,
}

impl HooksFixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn script(&self, name: &str, body: &str) -> String {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn hooks(&self, yaml: &str) -> ShellHooks {
        let config = Config::parse(yaml, &|_| None).unwrap();
        let runs = self.path().join("runs");
        let process =
            ["PATH", "HOME"].iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let ours = [("THROUGHLINE_PASSPHRASE", "of ours"), ("OPENAI_API_KEY", "of the gateway")];
        let process = process.chain(ours.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let dotenv = [("OPENAI_API_KEY", "of the home"), ("throughline_secret", "of ours")];
        let dotenv = dotenv.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let surroundings = HookSurroundings::as_hermes_has_it(
            self.path().to_owned(),
            Path::new("/home/of/it"),
            process,
            dotenv,
        );
        ShellHooks::new(config.hooks.list, surroundings, runs, Some(self.path()))
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn call(name: &str, arguments: &str) -> Call {
    let caller = Caller::in_private("s".parse().unwrap(), "cli");
    Call { key: "s/1/0/0".into(), name: name.into(), arguments: arguments.into(), caller, grant: None }
}

fn ended(session: &str) -> Happening {
    let session: SessionId = session.parse().unwrap();
    Happening {
        occasion: Occasion::Finalised,
        key: format!("{session}/1"),
        facts: vec![(FactName::Reason, Fact::from("new_session")), (FactName::Epoch, Fact::Number(1))],
        session,
        source: "cli".into(),
    }
}

#[test]
fn both_ways_to_forbid_are_understood() {
    for (answer, why) in [
        (r#"{"decision": "block", "reason": "no"}"#, Some("no")),
        (r#"{"action": "block", "message": "no"}"#, Some("no")),
        (r#"{"action": "block", "reason": "other"}"#, Some("other")),
        (r#"{"decision": "block"}"#, Some(FORBIDDEN)),
        (r#"{"decision": "allow"}"#, None),
        (r#"["block"]"#, None),
        ("block", None),
        ("", None),
    ] {
        assert_eq!(decision(answer).as_deref(), why, "{answer}");
    }
}

#[tokio::test]
async fn p31_a_hook_forbids_a_call_and_so_does_one_that_cannot_be_asked() {
    let place = HooksFixture::new();
    let gate = place.script(
        "gate.sh",
        r#"cat > input; grep -q 'rm -rf' input && echo '{"decision": "block", "reason": "not that"}'; exit 0"#,
    );
    let hooks = |command: &str, rest: &str| {
        place.hooks(&format!("hooks: {{pre_tool_call: [{{command: '{command}', matcher: 'term.*'{rest}}}]}}"))
    };
    let gated = hooks(&gate, "");
    let harmless = call("terminal", r#"{"command": "ls"}"#);
    assert_eq!(gated.forbids(&harmless).await, None);
    assert_eq!(
        gated.forbids(&call("terminal", r#"{"command": "rm -rf /"}"#)).await.as_deref(),
        Some("not that")
    );
    let told: Value = serde_json::from_str(&fs::read_to_string(place.path().join("input")).unwrap()).unwrap();
    assert_eq!(told["hook_event_name"], "pre_tool_call");
    assert_eq!((&told["tool_name"], &told["session_id"]), (&json!("terminal"), &json!("s")));
    assert_eq!(told["tool_input"]["command"], "rm -rf /");
    assert_eq!(gated.forbids(&call("read_file", r#"{"command": "rm -rf /"}"#)).await, None, "another tool");

    let [fails, sleeps, missing] =
        [place.script("fails.sh", "exit 3"), place.script("sleeps.sh", "sleep 30"), "no-such-program".into()];
    assert_eq!(hooks(&fails, "").forbids(&harmless).await, None, "it ran, and has nothing against it");
    let began = std::time::Instant::now();
    for (command, rest, why) in [
        (&missing, "", "command not found"),
        (&sleeps, ", timeout: 1", "longer than 1 seconds"),
        (&"~/x \"y".to_owned(), "", "a quote"),
    ] {
        let refused = hooks(command, rest).forbids(&harmless).await.unwrap_or_default();
        assert!(refused.contains(why) && refused.contains("not run"), "{command}: {refused}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "no turn waits for what hangs");
}

#[tokio::test]
async fn p20_whoever_comes_after_finds_out_how_a_run_ended_and_does_not_begin_it_again() {
    let place = HooksFixture::new();
    let slow = place.script("slow.sh", "sleep 0.5; cat >> log; echo >> log");
    let hooks = || place.hooks(&format!("hooks: {{on_session_finalize: [{{command: '{slow}'}}]}}"));
    let name = format!("on_session_finalize: {slow}");
    let told = ended("one");
    // The gateway is killed while it waits; the one after it waits on.
    for patience in [50, 100, 150] {
        let given_up =
            tokio::time::timeout(Duration::from_millis(patience), hooks().run(&name, &told)).await.is_err();
        assert!(given_up, "it takes half a second");
    }
    hooks().run(&name, &told).await.unwrap();
    hooks().run(&name, &told).await.unwrap(); // killed before it could write that down
    assert_eq!(place.log().len(), 1, "{:?}", place.log());
    let input: Value = serde_json::from_str(&place.log()[0]).unwrap();
    assert_eq!((&input["session_id"], &input["extra"]["epoch"]), (&json!("one"), &json!(1)));
    hooks().forget(&name, &told);
    assert_eq!(fs::read_dir(place.path().join("runs")).unwrap().count(), 0, "nothing is left behind");
    hooks().run(&name, &ended("two")).await.unwrap();
    assert_eq!(place.log().len(), 2, "another session is another run");
}

#[tokio::test]
async fn p20_a_run_that_failed_is_begun_again_and_so_is_one_that_was_killed() {
    let place = HooksFixture::new();
    let fails = place
        .script("fails.sh", "echo tried >> log; [ $(wc -l < log) -gt 2 ] || { echo 'no luck' >&2; exit 4; }");
    let hooks = place.hooks(&format!(
        "hooks: {{on_session_finalize: [{{command: '{fails}'}}, {{command: no-such-program}}, {{command: 'sleep 30', timeout: 1}}]}}"
    ));
    let names = hooks.names(Occasion::Finalised);
    let told = ended("one");
    for attempt in 1..=2 {
        let why = hooks.run(&names[0], &told).await.unwrap_err();
        assert_eq!(why, "exit code 4: no luck", "attempt {attempt}");
    }
    hooks.run(&names[0], &told).await.unwrap();
    assert_eq!(place.log().len(), 3);
    assert_eq!(hooks.run(&names[1], &told).await.unwrap_err(), "command not found");
    assert!(hooks.run(&names[2], &told).await.unwrap_err().contains("longer than 1 seconds"));

    // A shell that was killed in the middle, in an earlier life.
    let run = hooks.apart.of(&names[0], "two/1");
    fs::create_dir_all(run.join("claim")).unwrap();
    fs::write(run.join("claim/pid"), format!("{} 1\n", std::process::id())).unwrap(); // another's number by now
    hooks.run(&names[0], &ended("two")).await.unwrap();
    assert_eq!(place.log().len(), 4);
}

#[tokio::test]
async fn p31_a_hook_finds_the_environment_that_hermes_would_give_it_and_nothing_of_the_gateway() {
    let place = HooksFixture::new();
    let dump = place.script("dump.sh", "env > $1; exit 0");
    let hooks = place.hooks(&format!(
        "hooks: {{pre_tool_call: [{{command: '{dump} asked'}}], on_session_finalize: [{{command: '{dump} told'}}]}}"
    ));
    assert_eq!(hooks.forbids(&call("terminal", "{}")).await, None);
    hooks.run(&format!("on_session_finalize: {dump} told"), &ended("one")).await.unwrap();
    for name in ["asked", "told"] {
        let found = fs::read_to_string(place.path().join(name)).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert!(lines.contains(&"OPENAI_API_KEY=of the home"), "{name}: {found}");
        assert!(lines.contains(&"HERMES_HOME=/home/of/it"), "{name}: {found}");
        assert!(lines.iter().any(|line| line.starts_with("PATH=")), "{name}: {found}");
        assert!(!found.contains("of ours"), "{name}: {found}");
        // Nothing else of this process. The shell makes up the rest.
        let known = ["PATH", "HOME", "OPENAI_API_KEY", "HERMES_HOME", "PWD", "OLDPWD", "SHLVL", "_"];
        let strange =
            lines.iter().filter(|line| !known.contains(&line.split('=').next().unwrap_or_default()));
        assert_eq!(strange.count(), 0, "{name}: {found}");
    }
}
