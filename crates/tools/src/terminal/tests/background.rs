//! Processes that outlive a call, and a gateway.

use super::*;
use throughline_core::input::Trace;

async fn process(terminal: &TerminalKit, session: &str, arguments: Value) -> Value {
    result(terminal, call("process", session, arguments)).await
}

async fn start(terminal: &TerminalKit, arguments: Value) -> (String, u32) {
    let mut arguments = arguments;
    arguments["background"] = json!(true);
    let started = shell(terminal, arguments).await;
    assert_eq!(started["output"], "Background process started", "{started}");
    let pid = started["pid"].as_u64().unwrap() as u32;
    (started["session_id"].as_str().unwrap().to_owned(), pid)
}

#[tokio::test]
async fn a_background_process_lives_is_read_and_ends() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (id, pid) =
        start(&terminal, json!({"command": "echo one; echo two; sleep 0.4; echo three; (exit 4)"})).await;
    assert!(id.starts_with("proc_") && id.len() == 17 && is_alive(pid));
    let list = process(&terminal, "s1", json!({"action": "list"})).await;
    assert_eq!(
        (list["processes"][0]["session_id"].as_str(), list["processes"][0]["status"].as_str()),
        (Some(id.as_str()), Some("running"))
    );
    let waited = process(&terminal, "s1", json!({"action": "wait", "session_id": id, "timeout": 10})).await;
    assert_eq!(
        waited,
        json!({
            "status": "exited",
            "command": "echo one; echo two; sleep 0.4; echo three; (exit 4)",
            "exit_code": 4,
            "completion_reason": "exited",
            "termination_source": "",
            "output": "one\ntwo\nthree\n",
        })
    );
    let log = process(&terminal, "s1", json!({"action": "log", "session_id": id, "limit": 2})).await;
    assert_eq!(
        (log["output"].as_str(), log["total_lines"].as_u64(), log["showing"].as_str()),
        (Some("two\nthree"), Some(3), Some("2 lines"))
    );
    let page =
        process(&terminal, "s1", json!({"action": "log", "session_id": id, "offset": 1, "limit": 1})).await;
    assert_eq!(page["output"], "two");
    let poll = process(&terminal, "s1", json!({"action": "poll", "session_id": id})).await;
    assert_eq!((poll["status"].as_str(), poll["exit_code"].as_i64()), (Some("exited"), Some(4)));
    let killed = process(&terminal, "s1", json!({"action": "kill", "session_id": id})).await;
    assert_eq!(killed["status"], "already_exited");
}

#[tokio::test]
async fn kill_ends_the_whole_family() {
    let mut world = TerminalFixture::new();
    world.settings.term_grace = Duration::from_millis(300);
    let terminal = world.terminal();
    let child = world.path("child");
    let (id, pid) = start(&terminal, json!({"command": format!("trap '' TERM; sleep 300 & echo $! > {}; wait; sleep 300", child.display())})).await;
    until("it has begun", || pid_in(&child).is_some()).await;
    let timeout = process(&terminal, "s1", json!({"action": "wait", "session_id": id, "timeout": 1})).await;
    assert_eq!(
        (timeout["status"].as_str(), timeout["timeout_note"].as_str()),
        (Some("timeout"), Some("Waited 1s, process still running"))
    );
    let killed = process(&terminal, "s1", json!({"action": "kill", "session_id": id})).await;
    assert_eq!(
        (killed["status"].as_str(), killed["termination_source"].as_str()),
        (Some("killed"), Some("process.kill"))
    );
    until("all are gone", || !is_alive(pid) && !is_alive(pid_in(&child).unwrap())).await;
    let poll = process(&terminal, "s1", json!({"action": "poll", "session_id": id})).await;
    assert_eq!((poll["exit_code"].as_i64(), poll["completion_reason"].as_str()), (Some(-15), Some("killed")));
}

#[tokio::test]
async fn p31_another_session_neither_sees_nor_kills_a_process() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (id, pid) = start(&terminal, json!({"command": "sleep 300"})).await;
    assert_eq!(process(&terminal, "s2", json!({"action": "list"})).await, json!({"processes": []}));
    for action in ["poll", "log", "wait", "kill", "write", "submit", "close"] {
        let answer = process(&terminal, "s2", json!({"action": action, "session_id": id, "data": "x"})).await;
        assert_eq!(
            answer,
            json!({"status": "not_found", "error": format!("No process with ID {id}")}),
            "{action}"
        );
    }
    assert!(is_alive(pid));
    assert_eq!(terminal.running(&"s1".parse().unwrap()), 1);
    assert_eq!(terminal.end_processes(Some(&"s2".parse().unwrap())).await, 0);
    assert_eq!(terminal.end_processes(None).await, 1);
    until("it is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    for (arguments, error) in [
        (
            json!({"action": "dance"}),
            "Unknown process action: dance. Use: list, poll, log, wait, kill, write, submit, close",
        ),
        (json!({}), "Unknown process action: . Use: list, poll, log, wait, kill, write, submit, close"),
        (json!({"action": "poll"}), "session_id is required for poll"),
    ] {
        assert_eq!(process(&terminal, "s1", arguments).await, json!({"error": error}));
    }
    let (id, _) = start(&terminal, json!({"command": "true"})).await;
    let wrong =
        process(&terminal, "s1", json!({"action": "wait", "session_id": id, "timeout": "soon"})).await;
    assert_eq!(wrong, json!({"error": "Invalid timeout: expected integer, got str"}));
    let number = process(&terminal, "s1", json!({"action": "poll", "session_id": 7})).await;
    assert_eq!(number["error"], "No process with ID 7");
}

#[tokio::test]
async fn the_end_is_told_once_and_not_to_whoever_has_it_in_hand() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (told, _) =
        start(&terminal, json!({"command": "echo out; (exit 2)", "notify_on_complete": true})).await;
    let notice = world.hear().await;
    assert_eq!(
        notice,
        ProcessNotice {
            key: format!("{told}/completion"),
            session: "s1".parse().unwrap(),
            text: format!(
                "[IMPORTANT: Background process {told} exited (exit code 2).\nCommand: echo out; (exit 2)\nOutput:\nout\n]"
            ),
            trace: Trace::default().onward(),
        }
    );
    let (waited, _) = start(&terminal, json!({"command": "sleep 0.3", "notify_on_complete": true})).await;
    process(&terminal, "s1", json!({"action": "wait", "session_id": waited})).await;
    let (given_up, _) = start(&terminal, json!({"command": "sleep 0.3", "notify_on_complete": true})).await;
    let wait = call("process", "s1", json!({"action": "wait", "session_id": given_up}));
    assert!(tokio::time::timeout(Duration::from_millis(50), terminal.call(&wait)).await.is_err());
    let notice = world.hear().await;
    assert_eq!(notice.key, format!("{given_up}/completion"), "and none of {waited}");
}

#[tokio::test]
async fn a_watched_line_is_told_and_flags_that_exclude_each_other_are_named() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (id, _) = start(&terminal, json!({"command": "echo starting; echo server ready; echo server ready; sleep 30", "watch_patterns": ["ready"]})).await;
    let notice = world.hear().await;
    assert!(
        notice.text.starts_with(&format!(
            "[IMPORTANT: Background process {id} matched watch pattern \"ready\".\nCommand: echo starting;"
        )),
        "{}",
        notice.text
    );
    let list = process(&terminal, "s1", json!({"action": "list"})).await;
    assert_eq!(list["processes"][0]["watch_hit"], true);
    let both = shell(
        &terminal,
        json!({"command": "true", "background": true, "notify_on_complete": true, "watch_patterns": ["x"]}),
    )
    .await;
    assert!(both["watch_patterns_ignored"].is_string() && both["notify_on_complete"] == true);
    let silent = shell(&terminal, json!({"command": "true", "background": true})).await;
    assert!(silent["hint"].as_str().unwrap().contains("runs SILENTLY"));
    let mut api =
        call("terminal", "s1", json!({"command": "true", "background": true, "notify_on_complete": true}));
    api.caller.source = "api_server".into();
    let deaf = result(&terminal, api).await;
    assert_eq!(deaf["notify_on_complete"], false);
    terminal.end_processes(None).await;
}

#[tokio::test]
async fn a_process_survives_the_gateway_and_the_next_one_reads_on() {
    let world = TerminalFixture::new();
    let first = world.terminal();
    let (id, pid) = start(&first, json!({"command": "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; sleep 0.2", "notify_on_complete": true})).await;
    until("it has begun", || first.registry.running(&"s1".parse().unwrap()) == 1).await;
    let checkpoint = std::fs::read_to_string(world.home.path().join("processes.json")).unwrap();
    let entries: Vec<Value> = serde_json::from_str(&checkpoint).unwrap();
    assert_eq!(
        (entries[0]["session_id"].as_str(), entries[0]["pid"].as_u64(), entries[0]["pid_scope"].as_str()),
        (Some(id.as_str()), Some(u64::from(pid)), Some("host"))
    );
    drop(first); // as a kill would: nothing is said, nothing is ended

    let second = world.terminal();
    assert!(is_alive(pid));
    let list = process(&second, "s1", json!({"action": "list"})).await;
    assert_eq!(
        (list["processes"][0]["status"].as_str(), list["processes"][0]["detached"].as_bool()),
        (Some("running"), Some(true))
    );
    assert_eq!(process(&second, "s2", json!({"action": "list"})).await, json!({"processes": []}));
    std::fs::write(world.path("go"), "").unwrap();
    let notice = world.hear().await;
    assert_eq!(notice.key, format!("{id}/completion"));
    assert!(notice.text.contains("after"), "{}", notice.text);
}

#[tokio::test]
async fn a_process_that_ended_while_nobody_looked_is_told_as_lost() {
    let world = TerminalFixture::new();
    let first = world.terminal();
    let (id, pid) = start(&first, json!({"command": "sleep 300", "notify_on_complete": true})).await;
    drop(first);
    process_group::end(ProcessIdentity::of(pid), Duration::from_secs(1));
    until("it is gone", || !is_alive(pid)).await;
    let second = world.terminal();
    let notice = world.heard.try_recv().unwrap();
    assert!(notice.text.starts_with(&format!("[IMPORTANT: Background process {id} marked lost because the process backend disappeared (exit code None).")), "{}", notice.text);
    let poll = process(&second, "s1", json!({"action": "poll", "session_id": id})).await;
    assert_eq!((poll["status"].as_str(), poll["completion_reason"].as_str()), (Some("exited"), Some("lost")));
}

#[tokio::test]
async fn p31_a_stranger_that_got_the_number_is_neither_adopted_nor_killed() {
    let world = TerminalFixture::new();
    let mut stranger = Command::new("sleep").arg("30").spawn().unwrap();
    let real = ProcessIdentity::of(stranger.id());
    let entry = |start: Option<u64>, id: &str| {
        json!({
            "session_id": id, "command": "sleep 300", "pid": real.pid, "pid_scope": "host", "host_start_time": start,
            "cwd": "/", "started_at": 1.0, "session_key": "s1", "throughline_session": "s1", "notify_on_complete": false,
        })
    };
    let entries = json!([entry(real.start.map(|start| start + 1), "proc_old"), entry(None, "proc_unknown")]);
    std::fs::write(world.home.path().join("processes.json"), entries.to_string()).unwrap();
    let terminal = world.terminal();
    for id in ["proc_old", "proc_unknown"] {
        let killed = process(&terminal, "s1", json!({"action": "kill", "session_id": id})).await;
        assert_eq!(killed["status"], "already_exited", "{id}");
    }
    assert_eq!(terminal.end_processes(None).await, 0);
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn entries_of_hermes_stay_hermes_while_they_live() {
    let world = TerminalFixture::new();
    let mut other = Command::new("sleep").arg("30").spawn().unwrap();
    let alive = ProcessIdentity::of(other.id());
    let entries = json!([
        {"session_id": "proc_hermes", "command": "x", "pid": alive.pid, "pid_scope": "host", "host_start_time": alive.start, "session_key": "agent:main:telegram:dm:1", "extra": [1]},
        {"session_id": "proc_dead", "command": "x", "pid": 999_999_999u32, "pid_scope": "host", "host_start_time": 1, "session_key": "k"},
    ]);
    let path = world.home.path().join("processes.json");
    std::fs::write(&path, entries.to_string()).unwrap();
    let terminal = world.terminal();
    assert_eq!(process(&terminal, "s1", json!({"action": "list"})).await, json!({"processes": []}));
    start(&terminal, json!({"command": "sleep 5"})).await;
    let written: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((written.len(), &written[0]), (2, &entries[0]));
    terminal.end_processes(None).await;
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn a_broken_list_of_processes_is_begun_anew() {
    let world = TerminalFixture::new();
    std::fs::write(world.home.path().join("processes.json"), "{not json").unwrap();
    let terminal = world.terminal();
    let (id, _) = start(&terminal, json!({"command": "true"})).await;
    let waited = process(&terminal, "s1", json!({"action": "wait", "session_id": id})).await;
    assert_eq!(waited["exit_code"], 0);
}

#[tokio::test]
async fn a_program_on_a_terminal_is_talked_to() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (id, _) = start(
        &terminal,
        json!({"command": "tty; stty size; read -r name; echo \"hello $name\"; cat", "pty": true}),
    )
    .await;
    let preview = async |terminal: &TerminalKit| {
        process(terminal, "s1", json!({"action": "poll", "session_id": id})).await["output_preview"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for _ in 0..200 {
        if preview(&terminal).await.contains("30 120") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let submitted =
        process(&terminal, "s1", json!({"action": "submit", "session_id": id, "data": "wörld"})).await;
    assert_eq!(submitted, json!({"status": "ok", "bytes_written": 6}));
    for _ in 0..200 {
        if preview(&terminal).await.contains("hello wörld") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(
        process(&terminal, "s1", json!({"action": "close", "session_id": id})).await,
        json!({"status": "ok", "message": "EOF sent"})
    );
    let waited = process(&terminal, "s1", json!({"action": "wait", "session_id": id, "timeout": 10})).await;
    assert_eq!(waited["exit_code"], 0, "{waited}");
    let output = waited["output"].as_str().unwrap();
    assert!(
        output.contains("/dev/pts/") && output.contains("30 120") && output.contains("hello wörld"),
        "{output}"
    );
}

#[tokio::test]
async fn without_a_terminal_there_is_no_input() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    let (id, _) = start(&terminal, json!({"command": "cat; echo ended; sleep 20"})).await;
    let written = process(&terminal, "s1", json!({"action": "write", "session_id": id, "data": "x"})).await;
    assert_eq!(
        written,
        json!({"status": "error", "error": "Process stdin not available (non-local backend or stdin closed)"})
    );
    let mut output = String::new();
    for _ in 0..200 {
        output =
            process(&terminal, "s1", json!({"action": "poll", "session_id": id})).await["output_preview"]
                .as_str()
                .unwrap()
                .to_owned();
        if !output.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(output, "ended\n");
    terminal.end_processes(None).await;
}

#[tokio::test]
async fn exports_of_the_session_hold_in_the_background() {
    let world = TerminalFixture::new();
    let terminal = world.terminal();
    sh(&terminal, "mkdir sub; cd sub; export GREETING=hi").await;
    let (id, _) = start(&terminal, json!({"command": "echo $GREETING; pwd"})).await;
    let waited = process(&terminal, "s1", json!({"action": "wait", "session_id": id})).await;
    assert_eq!(waited["output"], format!("hi\n{}\n", world.path("sub").display()));
}
