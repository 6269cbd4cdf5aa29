//! Ends: sessions are handed over once, through every kill of the gateway, and a home that was Hermes' before
//! is left in peace until a message comes.

use crate::gateway::{Client, Gateway, Launch, Place};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A home with this hook for every end of a session. What it is told is in `$input`.
fn place(hook: &str, config: &str) -> Place {
    let place = Place::new();
    let script = format!("#!/bin/sh\ninput=$(cat)\ncd {}\n{hook}\n", place.path().display());
    let path = place.write("hook.sh", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let path = path.display();
    let hooks = format!("hooks_auto_accept: true\nhooks:\n  on_session_finalize:\n    - command: {path}\n");
    place.write("home/config.yaml", format!("{hooks}{config}"));
    place
}

fn launch(place: &Place) -> Launch {
    place.rehearsing(&json!({ "rules": [] }))
}

fn order(client: &Client, session: &str, order: &str) -> u16 {
    let path = format!("/api/sessions/{session}/commands");
    client.post(&path, &[], &json!({ "command": order })).map_or(0, |answer| answer.status)
}

/// What the hook has written, one line of JSON per run.
fn log(place: &Place) -> Vec<Value> {
    told(place, "log")
}

fn told(place: &Place, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(place.file(file)).unwrap_or_default();
    // What is being written at this moment is read the next time.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn is_handed_over(gateway: &Gateway) -> bool {
    gateway.client.read("/api/control/status")["finalising"] == 0
}

fn assert_sound(gateway: &Gateway) {
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
}

#[test]
fn p20_kill_9_at_any_moment_of_a_hand_over_and_the_hook_hears_of_each_end_once() {
    let hook =
        "echo \"$input\" >> begun; while [ -e hold ]; do sleep 0.02; done; echo \"$input\" >> log; sleep 0.1";
    let place = place(hook, "");
    let launch = launch(&place);
    let sessions: Vec<String> = (0..16).map(|nth| format!("s{nth}")).collect();
    for (nth, session) in sessions.iter().enumerate() {
        let gateway = launch.start();
        let _ = fs::remove_file(place.file("hold"));
        gateway.client.say(session, "hello").said();
        if nth % 4 == 3 {
            until("nothing else is handed over", || is_handed_over(&gateway));
            place.write("hold", "");
        }
        assert_eq!(order(&gateway.client, session, "/new"), 200);
        let is_in = |file: &str| told(&place, file).iter().any(|told| told["session_id"] == session.as_str());
        let has_heard = || is_in("log");
        match nth % 4 {
            0 => {} // before the hook, or while it is begun
            1 => until("the hook has heard", has_heard),
            2 => until("it is handed over", || has_heard() && is_handed_over(&gateway)),
            _ => until("the hook has begun", || is_in("begun")),
        }
        assert!(nth % 4 != 3 || !has_heard(), "it is killed in the middle of the hook");
        gateway.kill();
        // The hook goes on while no gateway runs, or when the next one is there.
        if nth % 8 == 3 {
            fs::remove_file(place.file("hold")).unwrap();
        }
    }
    let gateway = launch.start();
    let _ = fs::remove_file(place.file("hold"));
    let is_clean = || fs::read_dir(place.file("home/throughline.hooks")).is_ok_and(|runs| runs.count() == 0);
    until("all is handed over, and nothing is left behind", || {
        log(&place).len() >= sessions.len() && is_handed_over(&gateway) && is_clean()
    });
    let mut heard: BTreeMap<String, u32> = BTreeMap::new();
    for told in log(&place) {
        assert_eq!(told["hook_event_name"], "on_session_finalize");
        assert_eq!((&told["extra"]["reason"], &told["extra"]["epoch"]), (&json!("new_session"), &json!(1)));
        *heard.entry(told["session_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(heard, sessions.iter().map(|session| (session.clone(), 1)).collect());
    assert_sound(&gateway);
}

#[test]
fn p20_a_hook_that_fails_twice_and_then_works_is_done_once() {
    let hook = "echo x >> tried; [ $(wc -l < tried) -gt 2 ] || { echo 'not yet' >&2; exit 1; }\necho \"$input\" >> log";
    let place = place(hook, "");
    let launch = launch(&place);
    let gateway = launch.start();
    gateway.client.say("once", "hello").said();
    assert_eq!(order(&gateway.client, "once", "/new"), 200);
    let tried = |place: &Place| fs::read_to_string(place.file("tried")).unwrap_or_default().lines().count();
    until("it was tried", || tried(&place) >= 1);
    gateway.kill(); // the backoff is on disk
    let gateway = launch.start();
    until("it is handed over", || tried(&place) == 3 && is_handed_over(&gateway));
    assert_eq!(log(&place).len(), 1);
    let story = gateway.client.read("/api/control/why?message=once/1").to_string();
    assert!(story.contains("hand-over: done"), "{story}");
    assert!(story.contains("not yet"), "what went wrong is told: {story}");
    assert_sound(&gateway);
}

#[test]
fn p20_a_hand_over_that_comes_to_nothing_is_set_aside_by_name_and_taken_up_on_request() {
    let hook = "[ -e repaired ] || { echo 'no paper' >&2; exit 7; }\necho \"$input\" >> log";
    let place = place(hook, "");
    let launch = launch(&place);
    let gateway = launch.start();
    gateway.client.say("once", "hello").said();
    assert_eq!(order(&gateway.client, "once", "/new"), 200);
    let tries = |conn: &Connection| {
        conn.query_row("SELECT attempts FROM tl_finalisation", [], |row| row.get::<_, i64>(0)).unwrap_or(0)
    };
    let conn = Connection::open(place.file("home/state.db")).unwrap();
    conn.busy_timeout(Duration::from_secs(30)).unwrap();
    until("it was tried", || tries(&conn) >= 1);
    gateway.kill();
    // Two hours later.
    conn.execute_batch("UPDATE tl_finalisation SET attempts = 7, not_before = 0").unwrap();
    let gateway = launch.start();
    let status = || place.launch().arg("status").run();
    until("it is set aside", || status().stdout.contains("hand-over set aside"));
    let told = status();
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(told.stdout.contains("of once at ") && told.stdout.contains("hook.sh"), "{told:?}");
    assert!(told.stdout.contains("no paper") && told.stdout.contains("after 8 attempts"), "{told:?}");
    let story = place.launch().arg("why").arg("once").run();
    assert!(story.stdout.contains("set aside after 8 attempts"), "{story:?}");
    gateway.kill();
    let told = status();
    assert!(told.stdout.contains("hand-over set aside"), "at rest as well: {told:?}");

    place.write("repaired", "");
    let gateway = launch.start();
    let resumed = place.launch().arg("resume").run();
    assert!(resumed.status.success(), "{resumed:?}");
    until("it is handed over", || log(&place).len() == 1 && is_handed_over(&gateway));
    assert!(!status().stdout.contains("set aside"), "{:?}", status());
    assert_sound(&gateway);
}

#[test]
fn p20_three_restarts_in_a_row_hand_over_nothing_twice_and_ask_no_model() {
    // Where nothing ever ends by itself the gateway does not check for ends.
    let config = "session_reset: {mode: idle, idle_minutes: 1440}\nthroughline: {expiry_watch_seconds: 1}\n";
    let place = place("echo \"$input\" >> log", config);
    let launch = watched(launch(&place));
    let gateway = launch.start();
    for session in ["a", "b"] {
        gateway.client.say(session, "hello").said();
    }
    assert_eq!(order(&gateway.client, "a", "/new"), 200);
    until("it is handed over", || log(&place).len() == 1 && is_handed_over(&gateway));
    let asked = place.asked().len();
    gateway.kill();
    for _ in 0..3 {
        let gateway = launch.start();
        let before = looks(&gateway);
        until("the watch has come round", || looks(&gateway) >= before + 2);
        assert!(is_handed_over(&gateway));
        gateway.kill();
    }
    assert_eq!((log(&place).len(), place.asked().len()), (1, asked));
}

#[test]
fn p31_a_hook_without_consent_does_not_run_and_is_named() {
    let place = place("echo \"$input\" >> log", "");
    let config = fs::read_to_string(place.file("home/config.yaml")).unwrap();
    place.write("home/config.yaml", config.replace("hooks_auto_accept: true", "hooks_auto_accept: false"));
    place.write("home/hooks/greeter/HOOK.yaml", "name: greeter\nevents: [session:start]\n");
    let gateway = launch(&place).start();
    gateway.client.say("a", "hello").said();
    assert_eq!(order(&gateway.client, "a", "/new"), 200);
    until("it is handed over", || is_handed_over(&gateway));
    assert_eq!(log(&place).len(), 0);
    let said = gateway.log();
    assert!(said.contains("off     hook on_session_finalize"), "{said}");
    assert!(said.contains("off     hook greeter: its handler.py"), "{said}");
}

#[test]
fn p31_a_hook_forbids_a_tool_in_its_own_words() {
    let place = Place::new();
    let gate = place
        .write("gate.sh", "#!/bin/sh\necho '{\"decision\": \"block\", \"reason\": \"not on a Sunday\"}'\n");
    fs::set_permissions(&gate, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "hooks_auto_accept: true\nhooks:\n  pre_tool_call:\n    - {{command: {}, matcher: terminal}}\n",
        gate.display()
    );
    place.write("home/config.yaml", config);
    let call = json!([{"name": "terminal", "arguments": {"command": "echo ran"}}]);
    let script = json!({"rules": [
        {"when": {"contains": "work", "result": false}, "call": call},
        {"when": {"contains": "work", "result": true}, "say": "so be it"},
    ]});
    let gateway = place.rehearsing(&script).start();
    assert!(gateway.client.say("a", "work").said().contains("so be it"));
    let results = gateway.client.transcript("a").into_iter().filter(|(role, _)| role == "tool");
    let results: Vec<String> = results.map(|(_, text)| text).collect();
    assert_eq!(results, [r#"{"error": "not on a Sunday"}"#]);
}

/// The gateway logs each check for ends.
pub fn watched(launch: Launch) -> Launch {
    launch.env("THROUGHLINE_LOG", "info,throughline_gateway::expiry=debug")
}

/// How often the gateway has checked for ends, in all lives of a gateway that is [`watched`].
pub fn looks(gateway: &Gateway) -> usize {
    gateway.log().matches("looked for conversations whose time has come").count()
}

/// A home as Hermes leaves it: so many chats, no message for a month, and in some of them a
/// turn was cut off, before an answer or in the middle of a tool.
pub fn hermes_home(place: &Place, chats: usize) -> PathBuf {
    let gateway = launch(place).start();
    assert_eq!(gateway.stop().code(), Some(0));
    let file = place.file("home/state.db");
    let mut conn = Connection::open(&file).unwrap();
    let ours: Vec<String> = {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tl!_%' ESCAPE '!'";
        let mut tables = conn.prepare(sql).unwrap();
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for table in ours {
        conn.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let then = now - 30.0 * 86_400.0;
    let transaction = conn.transaction().unwrap();
    let scope = fs::canonicalize(place.file("home/sessions")).unwrap_or_else(|_| place.file("home/sessions"));
    for nth in 0..chats {
        let (id, key) = (format!("20251001_101010_{nth:08x}"), format!("agent:main:telegram:dm:{nth}"));
        transaction
            .execute(
                "INSERT INTO sessions (id, source, user_id, started_at, message_count, session_key, chat_id, chat_type)
                 VALUES (?1, 'telegram', ?2, ?3, ?5, ?4, ?2, 'dm')",
                rusqlite::params![id, nth.to_string(), then, key, 2 + unfinished(nth).len() as i64],
            )
            .unwrap();
        let finished = [("user", "are you there?", None), ("assistant", "I am", None)];
        for (role, text, calls) in finished.into_iter().chain(unfinished(nth)) {
            transaction
                .execute(
                    "INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES (?1, ?2, ?3, ?4, ?5)",
                    rusqlite::params![id, role, text, calls, then],
                )
                .unwrap();
        }
        let entry = json!({
            "session_key": key, "session_id": id, "created_at": "2025-10-01T10:10:10",
            "updated_at": "2025-10-01T10:10:10", "platform": "telegram", "chat_type": "dm",
            "resume_pending": nth % 7 == 0, "resume_reason": "restart_interrupted", "expiry_finalized": nth % 3 == 0,
        });
        let row = rusqlite::params![scope.to_string_lossy(), key, entry.to_string(), then];
        let sql = "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)";
        transaction.execute(sql, row).unwrap();
    }
    transaction.commit().unwrap();
    file
}

/// What was being done in a chat when Hermes ended: role, text, calls.
fn unfinished(chat: usize) -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    const CALL: &str = r#"[{"id": "call_1", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"date\"}"}}]"#;
    match chat % 7 {
        0 => vec![("user", "and what time is it?", None)],
        1 => vec![("user", "and what time is it?", None), ("assistant", "", Some(CALL))],
        _ => Vec::new(),
    }
}

#[test]
fn a_home_with_400_idle_sessions_is_left_in_peace_on_the_first_start_and_after() {
    let config = "session_reset: {mode: both, idle_minutes: 1}\nthroughline: {expiry_watch_seconds: 1}\n";
    let place = place("echo \"$input\" >> log", config);
    let file = hermes_home(&place, 400);
    let _ = fs::remove_file(place.file("model.log"));
    let launch = watched(launch(&place));
    for _ in 0..3 {
        let gateway = launch.start();
        let before = looks(&gateway);
        until("the watch has come round", || looks(&gateway) >= before + 2);
        let status = gateway.client.read("/api/control/status");
        assert_eq!((&status["finalising"], &status["running_turns"]), (&json!(0), &json!(0)), "{status}");
        assert_sound(&gateway);
        gateway.kill();
    }
    assert_eq!(place.asked().len(), 0, "no message came, so no model is asked");
    assert_eq!(log(&place).len(), 0, "nothing has ended");
    let conn = Connection::open(&file).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM sessions WHERE ended_at IS NULL"), 400);
    assert_eq!(count("SELECT count(*) FROM tl_route"), 400, "and every chat still leads to its own");
    assert_eq!(count("SELECT count(*) FROM tl_finalisation") + count("SELECT count(*) FROM tl_outbox"), 0);
    assert_eq!(count("SELECT count(*) FROM tl_session"), 0, "none has been taken up");
}
