//! What a home asks for and does not get is said by the real program, at every start and whenever it is asked.

use crate::gateway::{Launch, Place};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(2));
    }
}

const JOBS: &str = r#"{"jobs": [{"id": "a", "name": "news"}, {"id": "b"}, {"id": "c", "enabled": false}]}"#;

fn asking_for_much() -> (Place, Launch) {
    let place = Place::new();
    let config = "stt: {local: {model: large}}\nvoice: {auto_tts: true}\nkanban: {failure_limit: 2}\n\
                  max_concurrent_sessions: 4\nmodle: x\n";
    place.write("home/config.yaml", config);
    place.write("home/.env", "SIGNAL_HTTP_URL=http://127.0.0.1:1\nSIGNAL_ACCOUNT=+15550001111\n");
    place.write("home/cron/jobs.json", JOBS);
    let launch = place.rehearsing(&json!({}));
    (place, launch)
}

const LINE: &str = "not carried: scheduled jobs (2 in cron/jobs.json), Signal, stt, voice, max_concurrent_sessions; \
                    `throughline config check` has the list";

#[test]
fn p31_every_start_and_every_status_names_what_is_not_carried() {
    let (_place, launch) = asking_for_much();
    for start in 1..=2 {
        let gateway = launch.start();
        until("the start says so", || gateway.log().matches(LINE).count() == start);
        let said = gateway.log();
        assert!(said.contains("`modle` is not a key of Hermes; did you mean `model`?"), "{said}");
        assert!(!said.contains("+15550001111"), "{said}");
        assert!(gateway.stop().success());
    }
}

#[test]
fn p31_every_start_and_every_check_names_mistyped_keys_at_any_depth() {
    let place = Place::new();
    place.write(
        "home/config.yaml",
        "memory: {nudge_intervall: 3, memory_enabledd: false}\nsessions: {auto_prunee: true}\nwebhook: {prot: 1}\n\
         platforms: {telegram: {tokenn: x}, matrixx: {}}\nagent: 5\nplatform_toolsets: {telegrm: [web]}\n\
         quick_commands: {my-own: {type: exec, command: uptime}}\nproviders: {mine: {base_url: 'http://127.0.0.1:1'}}\n",
    );
    let told = [
        "`memory.nudge_intervall` is not a key of Hermes; did you mean `memory.nudge_interval`?",
        "`memory.memory_enabledd` is not a key of Hermes; did you mean `memory.memory_enabled`?",
        "`sessions.auto_prunee` is not a key of Hermes; did you mean `sessions.auto_prune`?",
        "`webhook.prot` is not a key of Hermes; did you mean `webhook.port`?",
        "`platforms.telegram.tokenn` is not a key of Hermes; did you mean `platforms.telegram.token`?",
        "`platforms.matrixx` is not a key of Hermes; did you mean `platforms.matrix`?",
        "`agent` takes a mapping of settings, and this is a number: it has no effect",
        "`platform_toolsets.telegrm` is not a key of Hermes; did you mean `platform_toolsets.telegram`?",
    ];
    let checked = place.launch().arg("config").arg("check").run();
    let launch = place.rehearsing(&json!({}));
    let gateway = launch.start();
    until("the start has said it", || told.iter().all(|words| gateway.log().contains(words)));
    for said in [&checked.stdout, &gateway.log()] {
        told.iter().for_each(|words| assert!(said.contains(words), "{words} is not in {said}"));
        assert!(!said.contains("my-own` is") && !said.contains("mine` is"), "{said}");
    }
    assert!(gateway.stop().success());
}

/// Of a home that Hermes had.
#[test]
fn p31_shared_notes_are_named_at_each_start_with_the_setting_that_keeps_them_apart() {
    for (setting, is_named) in [("", true), ("throughline: {memory_per_person: true}\n", false)] {
        let place = Place::new();
        // No person reaches it through chats that are not served: the offline model answers none.
        place.write("home/config.yaml", format!("model: rehearsal\n{setting}"));
        place.write("home/.env", "TELEGRAM_BOT_TOKEN=1:a\nTELEGRAM_ALLOWED_USERS=42,43\n");
        place.write("home/sessions/sessions.json", "{}");
        let gateway = place.rehearsing(&json!({})).start();
        until("the start is told", || gateway.log().contains("key in"));
        let said = gateway.log();
        assert_eq!(said.contains("`throughline.memory_per_person: true` keeps it apart"), is_named, "{said}");
        assert!(gateway.stop().success());
    }
}

#[test]
fn p31_a_status_has_it_for_people_and_for_programs() {
    let (place, _) = asking_for_much();
    let ask = |words: &[&str]| {
        let home = place.home();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_throughline"));
        command
            .args(words)
            .arg("--home")
            .arg(home)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", place.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let told = ask(&["status"]);
    assert!(told.contains(LINE), "{told}");
    let told: Value = serde_json::from_str(&ask(&["status", "--json"])).unwrap();
    assert_eq!(told["data"][0]["not_carried"][1], "Signal", "{told}");
    let told = ask(&["config", "check"]);
    assert!(
        told.contains("stt.local.model") && told.contains("what is spoken is not written down"),
        "{told}"
    );
}
