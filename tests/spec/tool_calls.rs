//! Turns with tools: what an agent does, through kill -9, and who may stop it.

use crate::gateway::{Client, Gateway, KEY, Launch, Place, said, until};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use throughline_core::history::OUTCOME_UNKNOWN;

const SESSION: &str = "X-Hermes-Session-Id";

/// A home whose terminal works beside it.
fn place(config: &str) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.file("work")).unwrap();
    let work = place.file("work");
    place.write("home/config.yaml", format!("terminal: {{cwd: {}}}\n{config}", work.display()));
    place
}

fn terminal(command: &str) -> Value {
    json!([{"name": "terminal", "arguments": {"command": command}}])
}

/// Calls once for this word, and says so when the result is there.
fn rules(word: &str, call: Value) -> [Value; 2] {
    [
        json!({"when": {"contains": word, "result": false}, "call": call}),
        json!({"when": {"contains": word, "result": true}, "say": format!("done {word}")}),
    ]
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Sends it, and does not wait for the answer.
fn begin(client: &Client, session: &str, text: &str) -> thread::JoinHandle<Option<String>> {
    let mut body = said(text);
    body["stream"] = json!(true);
    let headers = [(SESSION, session), ("Idempotency-Key", text)];
    let reply = client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap();
    assert_eq!(reply.status, 200);
    thread::spawn(move || reply.streamed().ok())
}

fn results(client: &Client, session: &str) -> Vec<String> {
    let rows = client.transcript(session);
    rows.into_iter().filter(|(role, _)| role == "tool").map(|(_, text)| text).collect()
}

fn counted(client: &Client, name: &str) -> u64 {
    let counts = client.read("/api/control/counts");
    let rows = counts["data"].as_array().cloned().unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).and_then(|row| row["count"].as_u64()).unwrap_or(0)
}

#[test]
fn p9_fifty_kills_during_a_call_repeat_no_side_effect() {
    let place = place("");
    let (begun, file) = (place.file("work/begun"), place.file("work/lines"));
    let words: Vec<String> = (0..50).map(|nth| format!("append-{nth:02}.")).collect();
    let script: Vec<Value> = words
        .iter()
        // It does not end by itself while the test looks: a kill after its first word is one during the call.
        .flat_map(|word| {
            let command = format!("echo {word} >> begun; sleep 0.05; echo {word} >> lines; sleep 30");
            rules(word, terminal(&command))
        })
        .collect();
    let launch = place.rehearsing(&json!({ "rules": script }));
    for (nth, word) in words.iter().enumerate() {
        let gateway = launch.start();
        let _ = begin(&gateway.client, &format!("s{nth}"), word);
        let seen = if nth % 2 == 0 { &file } else { &begun };
        until("it is in its call", || lines(seen).contains(word));
        gateway.kill();
    }
    let gateway = launch.start();
    for (nth, word) in words.iter().enumerate() {
        let answer = begin(&gateway.client, &format!("s{nth}"), word).join().unwrap().unwrap();
        assert!(answer.contains(&format!("done {word}")), "{answer}");
        let told = results(&gateway.client, &format!("s{nth}"));
        assert_eq!(told, [OUTCOME_UNKNOWN], "{word}: killed in its one call");
    }
    let written = lines(&file);
    for word in &words {
        assert!(
            written.iter().filter(|line| line == &word).count() <= 1,
            "{word} is there twice: {written:?}"
        );
    }
    assert!(written.len() >= words.len() / 2, "every other kill came after the deed: {written:?}");
    let violations = gateway.client.read("/api/control/check");
    assert_eq!(violations["data"], json!([]), "{violations}");
}

#[test]
fn p4_stop_frees_the_session_within_two_seconds_and_what_waits_is_next() {
    let place = place("");
    let mut script = rules("hang", terminal("trap '' TERM INT; touch began; sleep 600")).to_vec();
    script.extend(rules("later", terminal("echo later")));
    let gateway = place.rehearsing(&json!({ "rules": script })).start();
    let client = &gateway.client;
    // The same turn where nothing has to be stopped: a busy machine makes both slower.
    let began = Instant::now();
    assert!(begin(client, "free", "later").join().unwrap().unwrap().contains("done later"));
    let plain = began.elapsed();
    let hanging = begin(client, "stuck", "hang");
    until("it hangs", || place.file("work/began").exists());
    let waiting = begin(client, "stuck", "later at last"); // other words: they are the key, too
    let asked = Instant::now();
    let stopped = client.post("/api/sessions/stuck/commands", &[], &json!({"command": "/stop"})).unwrap();
    assert!(stopped.text().contains("Stopped"), "{}", stopped.text());
    assert!(waiting.join().unwrap().unwrap().contains("done later"), "what waited is answered");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2) + 3 * plain, "{took:?}, and {plain:?} without a stop");
    assert!(!hanging.join().unwrap().unwrap_or_default().contains("done hang"));
    assert!(results(client, "stuck")[0].contains("stopped by the user"), "{:?}", results(client, "stuck"));
    assert_eq!(client.read("/api/control/check")["data"], json!([]));
}

#[test]
fn p4_steering_joins_after_the_next_step() {
    let place = place("");
    let script = rules("walk", terminal("touch began; until [ -e go ]; do sleep 0.02; done; echo walked"));
    let gateway = place.rehearsing(&json!({ "rules": script })).start();
    let walking = begin(&gateway.client, "s", "walk");
    until("it walks", || place.file("work/began").exists());
    let order = json!({"command": "/steer walk to the left"});
    assert_eq!(gateway.client.post("/api/sessions/s/commands", &[], &order).unwrap().status, 200);
    place.write("work/go", "");
    assert!(walking.join().unwrap().unwrap().contains("done walk"));
    let roles: Vec<_> = gateway.client.transcript("s").into_iter().collect();
    let said: Vec<_> = roles.iter().map(|(role, text)| format!("{role}:{text}")).collect();
    let steer =
        said.iter().position(|row| row == "user:walk to the left").unwrap_or_else(|| panic!("{said:?}"));
    assert!(said[steer - 1].starts_with("tool:"), "after the step, within the turn: {said:?}");
    assert_eq!(said.iter().filter(|row| row.starts_with("user:")).count(), 2);
}

#[test]
fn p31_a_dangerous_command_waits_for_a_yes_across_a_restart_and_runs_once() {
    let place = place("approvals: {mode: manual, timeout: 60}\n");
    fs::create_dir_all(place.file("work/old")).unwrap();
    let script = rules("tidy", terminal("rm -rf old && echo gone >> lines"));
    let launch = place.rehearsing(&json!({ "rules": script }));
    let gateway = launch.start();
    let _ = begin(&gateway.client, "s", "tidy");
    let asks = |gateway: &Gateway| gateway.client.read("/api/approvals")["data"].as_array().cloned().unwrap();
    until("it asks", || asks(&gateway).len() == 1);
    assert!(place.file("work/old").exists(), "nothing happens before the answer");
    gateway.kill();
    let gateway = launch.start();
    until("it still asks", || asks(&gateway).len() == 1);
    let ask = asks(&gateway)[0].clone();
    assert!(ask["command"].as_str().unwrap().contains("rm -rf old"), "{ask}");
    let id = ask["id"].as_str().unwrap().to_owned();
    let yes = json!({"decision": "approve"});
    assert_eq!(gateway.client.post(&format!("/api/approvals/{id}"), &[], &yes).unwrap().status, 200);
    until("it ran", || lines(&place.file("work/lines")) == ["gone"]);
    assert_eq!(gateway.client.post(&format!("/api/approvals/{id}"), &[], &yes).unwrap().status, 404);
    assert!(!place.file("work/old").exists());
}

#[test]
fn p31_a_no_is_a_no_and_so_is_silence() {
    let place = place("approvals: {mode: manual, timeout: 60}\n");
    fs::create_dir_all(place.file("work/old")).unwrap();
    let launch = place.rehearsing(&json!({ "rules": rules("tidy", terminal("rm -rf old")) }));
    let gateway = launch.start();
    let asks = || gateway.client.read("/api/approvals")["data"].as_array().cloned().unwrap();
    let refused = begin(&gateway.client, "no", "tidy");
    until("it asks", || asks().len() == 1);
    let path = format!("/api/approvals/{}", asks()[0]["id"].as_str().unwrap());
    let no = json!({"decision": "deny", "reason": "it is still used"});
    assert_eq!(gateway.client.post(&path, &[], &no).unwrap().status, 200);
    assert!(refused.join().unwrap().unwrap().contains("done tidy"));
    let told = results(&gateway.client, "no").concat();
    assert!(told.contains("BLOCKED: Command denied by user") && told.contains("it is still used"), "{told}");
    assert!(place.file("work/old").exists());
    assert!(gateway.stop().success());

    let config = fs::read_to_string(place.file("home/config.yaml")).unwrap();
    place.write("home/config.yaml", config.replace("timeout: 60", "timeout: 1"));
    let gateway = launch.start();
    let asks_us = [(SESSION, "silent"), ("X-Throughline-Approvals", "ask")];
    assert!(gateway.client.chat(&asks_us, &said("tidy up")).unwrap().said().contains("done tidy"));
    let told = results(&gateway.client, "silent").concat();
    assert!(told.contains("BLOCKED: Command timed out without user response"), "{told}");
    assert!(place.file("work/old").exists());
}

#[test]
fn p31_what_is_allowed_for_good_is_in_the_users_list_and_is_not_asked_again() {
    let place = place("approvals: {mode: manual, timeout: 60}\n");
    let launch = place.rehearsing(&json!({ "rules": rules("tidy", terminal("rm -rf old")) }));
    let gateway = launch.start();
    let asks = || gateway.client.read("/api/approvals")["data"].as_array().cloned().unwrap();
    let tidied = |word: &str| {
        fs::create_dir_all(place.file("work/old")).unwrap();
        begin(&gateway.client, word, &format!("tidy {word}"))
    };
    // Once, and for a session: the list stays as it is.
    for (session, scope) in [("once", "once"), ("here", "session"), ("good", "always")] {
        let held = tidied(session);
        until("it asks", || asks().len() == 1);
        let path = format!("/api/approvals/{}", asks()[0]["id"].as_str().unwrap());
        let yes = json!({"decision": "approve", "scope": scope});
        assert_eq!(gateway.client.post(&path, &[], &yes).unwrap().status, 200);
        assert!(held.join().unwrap().unwrap().contains("done tidy"));
        assert!(!place.file("work/old").exists(), "{scope}");
        let config = fs::read_to_string(place.file("home/config.yaml")).unwrap();
        assert_eq!(config.contains("recursive delete"), scope == "always", "{scope}: {config}");
    }
    // Another conversation, and another process, are not asked.
    assert!(tidied("other").join().unwrap().unwrap().contains("done tidy"));
    assert!(!place.file("work/old").exists());
    assert!(gateway.stop().success());
    let gateway = launch.start();
    fs::create_dir_all(place.file("work/old")).unwrap();
    assert!(begin(&gateway.client, "later", "tidy later").join().unwrap().unwrap().contains("done tidy"));
    assert!(!place.file("work/old").exists());
    assert!(gateway.stop().success());
}

#[test]
fn p31_a_toolset_that_is_off_is_off_in_the_prompt_and_at_the_call() {
    let place = place(
        "agent: {disabled_toolsets: [terminal]}\nplatform_toolsets: {cli: [file], api_server: [terminal, file]}\n",
    );
    let script = rules("run", terminal("echo ran > ran"));
    let gateway = place.rehearsing(&json!({ "rules": script })).start();
    assert!(gateway.client.say("s", "run").text().contains("done run"));
    assert!(!place.file("work/ran").exists());
    let offered = place.asked()[0]["tools"].to_string();
    assert!(offered.contains("read_file") && !offered.contains("\"terminal\""), "{offered}");
}

#[test]
fn p31_secrets_stay_out_of_commands_files_and_reach() {
    let place = place("approvals: {mode: off}\n"); // what is left is what commands cannot do
    place.write("home/.env", "SECRET_TOKEN=canary-4711-canary\n");
    let script = [
        rules(
            "environment",
            terminal("env; cat ../home/.env; cat ../home/throughline.key; echo x >> ../home/config.yaml"),
        ),
        rules("file", json!([{"name": "read_file", "arguments": {"path": "../home/.env"}}])),
        rules(
            "link",
            json!([{"name": "terminal", "arguments": {"command": "ln -s ../home/.env innocent; ls"}},
                             {"name": "read_file", "arguments": {"path": "innocent"}}]),
        ),
    ]
    .concat();
    let before = fs::read_to_string(place.file("home/config.yaml")).unwrap();
    let gateway = place.rehearsing(&json!({ "rules": script })).start();
    for word in ["environment", "file", "link"] {
        assert!(gateway.client.say(word, word).text().contains(&format!("done {word}")));
        let told = results(&gateway.client, word).concat();
        assert!(!told.contains("canary-4711"), "{word}: {told}");
        assert!(!told.contains(KEY), "{word}: the key of the API is in {told}");
        assert!(word != "environment" || told.contains("PATH="), "the command ran: {told}");
        assert!(word != "link" || told.contains("innocent"), "the link was made: {told}");
    }
    assert_eq!(fs::read_to_string(place.file("home/config.yaml")).unwrap(), before, "policy is not writable");
    assert!(!gateway.log().contains("canary-4711"));
}

#[test]
fn p31_file_tools_keep_to_what_commands_may_do_in_a_home() {
    let place = place("approvals: {mode: manual, timeout: 60}\n");
    fs::create_dir_all(place.file("work/.git/hooks")).unwrap();
    place.write("home/backups/old.txt", "canary-4711-canary");
    let call = |tool: &str, path: &str| json!([{"name": tool, "arguments": {"path": path, "content": "{}"}}]);
    let closed = [
        ("stranger", "write_file", "../home/platforms/pairing/telegram-approved.json"),
        ("hook", "write_file", "../home/hooks/mine/handler.py"),
        ("server", "write_file", "../home/honcho.json"),
        ("backup", "read_file", "../home/backups/old.txt"),
    ];
    let mut script: Vec<Value> =
        closed.iter().flat_map(|(word, tool, path)| rules(word, call(tool, path))).collect();
    script.extend(rules("commit", call("write_file", ".git/hooks/pre-commit")));
    script.extend(rules("riddle", terminal("x=r; y=m; $x$y -r .git")));
    let gateway = place.rehearsing(&json!({ "rules": script })).start();
    for (word, tool, path) in closed {
        assert!(gateway.client.say(word, word).text().contains(&format!("done {word}")));
        let told = results(&gateway.client, word).concat();
        assert!(told.contains("denied") && !told.contains("canary"), "{word}: {told}");
        assert!(tool == "read_file" || !place.file("work").join(path).exists(), "{path} was written");
    }
    let asks = || gateway.client.read("/api/approvals")["data"].as_array().cloned().unwrap();
    let _commits = begin(&gateway.client, "commit", "commit");
    until("it asks about the hook", || asks().len() == 1);
    assert!(asks()[0]["command"].as_str().unwrap().contains(".git/hooks/pre-commit"), "{:?}", asks());
    assert!(!place.file("work/.git/hooks/pre-commit").exists(), "nothing happens before the answer");
    let id = asks()[0]["id"].as_str().unwrap().to_owned();
    let yes = json!({"decision": "approve"});
    assert_eq!(gateway.client.post(&format!("/api/approvals/{id}"), &[], &yes).unwrap().status, 200);
    until("it is written after the yes", || place.file("work/.git/hooks/pre-commit").exists());
    let _riddles = begin(&gateway.client, "riddle", "riddle");
    until("it asks about a name that is put together", || asks().len() == 1);
    assert!(place.file("work/.git").exists());
}

#[test]
fn bad_calls_get_results_the_model_can_act_on() {
    let place = place("");
    let calls = json!([
        {"name": "terminal", "arguments": "{\"command\":"},
        {"name": "read_file", "arguments": {"path": 7}},
        {"name": "frobnicate", "arguments": {}},
        {"name": "read_file", "arguments": {"path": "/dev/zero"}},
        {"name": "terminal", "arguments": {"command": "head -c 30000000 /dev/urandom"}},
        {"name": "delegate_task", "arguments": {"tasks": "many"}},
    ]);
    let gateway = place.rehearsing(&json!({"rules": rules("go", calls)})).start();
    assert!(gateway.client.say("s", "go").text().contains("done go"));
    let told = results(&gateway.client, "s");
    assert_eq!(told.len(), 6);
    for (nth, word) in [(0, "JSON"), (1, "7"), (2, "frobnicate"), (3, "/dev/zero"), (5, "task")] {
        let result = &told[nth];
        assert!(result.contains(word), "{nth}: {result}");
        assert!(["rror", "not exist"].iter().any(|trouble| result.contains(trouble)), "{nth}: {result}");
    }
    assert!(!told[4].is_empty());
    assert!(told.iter().all(|result| result.len() < 150_000), "capped");
    // Random bytes spell any short word now and then.
    let mut ours = told.iter().enumerate().filter(|(nth, _)| *nth != 4);
    assert!(ours.all(|(_, result)| !result.contains("bug")), "{told:?}");
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
}

#[test]
fn p9_a_delegated_task_outlives_its_process() {
    let place = place("");
    let task = json!([{"name": "delegate_task", "arguments": {"goal": "subtask: count"}}]);
    let mut script = rules("subtask", terminal("sleep 1.0; echo counted >> lines")).to_vec();
    script.extend(rules("delegate", task));
    let launch = place.rehearsing(&json!({ "rules": script }));
    let gateway = launch.start();
    let _ = begin(&gateway.client, "parent", "delegate");
    until("the child is at it", || gateway.client.read("/api/control/status")["running_turns"] == 2);
    gateway.kill();
    let gateway = launch.start();
    let answer = begin(&gateway.client, "parent", "delegate").join().unwrap().unwrap();
    assert!(answer.contains("done delegate"), "{answer}");
    let report = results(&gateway.client, "parent").concat();
    assert!(report.contains("completed") && report.contains("done subtask"), "{report}");
    assert!(lines(&place.file("work/lines")).len() <= 1);
    let children = place.asked().iter().filter(|asked| asked["session"] != "parent").count();
    assert!(children <= 4, "one child, asked anew after the kill at most: {children}");
}

/// Two agents that can write to each other. `limits` is a part of `throughline:`.
fn two_homes(place: &Place, script: &Value, limits: &str) -> Launch {
    let homes = ["alpha", "beta"].map(|name| place.file(name));
    for home in &homes {
        fs::create_dir_all(home).unwrap();
        let lists = "platform_toolsets: {api_server: [messaging], agent: [messaging]}";
        fs::write(home.join("config.yaml"), format!("{lists}\nthroughline: {{{limits}}}\n")).unwrap();
    }
    let beta = crate::gateway::free_port();
    fs::write(homes[1].join(".env"), format!("API_SERVER_PORT={beta}\n")).unwrap();
    let path = place.write("script.json", script.to_string());
    Launch::on(place, &[&homes[0], &homes[1]])
        .env("THROUGHLINE_REHEARSAL", &path)
        .env("THROUGHLINE_REHEARSAL_LOG", place.file("model.log"))
}

#[test]
fn p6_two_agents_that_answer_each_other_stop_at_the_budget_with_one_notice() {
    let place = Place::new();
    let send = json!([{"name": "send_message", "arguments": {"target": "agent:beta", "message": "."}}]);
    let script = json!({"rules": [
        {"when": {"contains": "[beta]"}, "say": "."},
        {"when": {"contains": "[alpha]"}, "say": ".."},
        {"when": {"contains": "greet", "result": false}, "call": send},
        {"when": {"contains": "greet", "result": true}, "say": "sent"},
    ]});
    let gateway = two_homes(&place, &script, "hops_max: 100, chain_turns_max: 6").start();
    until("both are there", || gateway.log().contains("ready   after"));
    let client = &gateway.client;
    assert!(client.say("talk", "greet beta").text().contains("sent"));
    until("it was cut", || counted(client, "notice") == 1);
    until("nothing goes on", || is_at_rest(client, 2));
    // The person's turn asks twice (a call, and what came of it), and each turn of the chain once.
    assert_eq!(place.asked().len(), 2 + 6, "so often the models were asked");
    assert_eq!(counted(client, "notice"), 1);
    let answer = client.say("talk", "still there?").text();
    assert!(answer.contains("still there?"), "a person is answered: {answer}");
    assert!(answer.contains("Agents have been answering each other"), "and told, having no chat: {answer}");
    let answer = client.say("talk", "and now?").text();
    assert!(!answer.contains("Agents have been answering each other"), "once: {answer}");
}

/// Homes that write to each other for every message.
fn fan_out(place: &Place, names: &[&str], limits: &str) -> Launch {
    let homes: Vec<PathBuf> = names.iter().map(|name| place.file(name)).collect();
    for (number, home) in homes.iter().enumerate() {
        fs::create_dir_all(home).unwrap();
        let lists = "platform_toolsets: {api_server: [messaging], agent: [messaging]}";
        fs::write(home.join("config.yaml"), format!("{lists}\nthroughline: {{{limits}}}\n")).unwrap();
        if number > 0 {
            let port = crate::gateway::free_port();
            fs::write(home.join(".env"), format!("API_SERVER_PORT={port}\n")).unwrap();
        }
    }
    let send = |name: &&str| json!({"name": "send_message", "arguments": {"target": format!("agent:{name}"), "message": "go"}});
    let sends: Vec<Value> = names.iter().map(send).collect();
    let script = json!({"rules": [
        {"when": {"result": false}, "call": sends},
        {"when": {"result": true}, "say": "."},
    ]});
    let path = place.write("script.json", script.to_string());
    let homes: Vec<&Path> = homes.iter().map(PathBuf::as_path).collect();
    Launch::on(place, &homes)
        .env("THROUGHLINE_REHEARSAL", &path)
        .env("THROUGHLINE_REHEARSAL_LOG", place.file("model.log"))
}

/// None of these agents has anything to do. Looked at twice: one may be asked before a letter comes that another
/// had until then.
fn is_at_rest(client: &Client, agents: usize) -> bool {
    let idle = |agent: &Value| {
        agent["running_turns"] == 0 && agent["waiting_inputs"] == 0 && agent["undelivered"] == 0
    };
    (0..2).all(|_| {
        let status = client.read("/api/status");
        let found = status["agents"].as_array().unwrap();
        found.len() == agents && found.iter().all(idle)
    })
}

/// Three agents that write to the other two for every message made 2,286 requests from one message.
#[test]
fn p6_what_one_message_causes_is_bounded_however_agents_fan_out_and_through_kill_9() {
    let place = Place::new();
    let (turns, calls) = (12, 30);
    let launch = fan_out(
        &place,
        &["alpha", "beta", "gamma"],
        &format!("chain_turns_max: {turns}, chain_calls_max: {calls}"),
    );
    let gateway = launch.start();
    until("all are there", || gateway.log().contains("ready   after"));
    begin(&gateway.client, "talk", "go").join().unwrap().unwrap();
    until("they are at it", || place.asked().len() > 6);
    gateway.kill();
    let gateway = launch.start();
    let client = &gateway.client;
    until("it was cut", || {
        client.read("/api/status")["cut_chains"].as_array().is_some_and(|cut| cut.len() == 1)
    });
    until("nothing goes on", || is_at_rest(client, 3));
    let asked = place.asked().len();
    assert!(
        asked <= 2 + calls,
        "{asked} requests from one message, where {calls} are allowed beside its own turn"
    );
    let rows = |session: &str| client.transcript(session).len();
    for session in client.read("/api/sessions")["data"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        assert!(rows(id) > 0, "{id} has no rows");
    }
    let told: Vec<String> = place.asked().iter().map(Value::to_string).collect();
    assert!(told.concat().contains("it begins none"), "a sender reads that no turn follows");
    // A start grants nothing, and a person does.
    gateway.kill();
    let gateway = launch.start();
    until("all are there", || gateway.log().contains("ready   after"));
    until("nothing goes on", || is_at_rest(&gateway.client, 3));
    assert_eq!(place.asked().len(), asked);
    let answer = gateway.client.say("talk", "and?").text();
    assert!(answer.contains("Agents have been answering each other"), "{answer}");
    assert!(place.asked().len() > asked);
}

#[test]
fn p6_stop_all_silences_every_agent_within_a_second() {
    let place = Place::new();
    let gateway = two_homes(&place, &json!({"latency_ms": 90_000}), "").start();
    until("both are there", || gateway.log().contains("ready   after"));
    let answer = begin(&gateway.client, "long", "think");
    let waits = begin(&gateway.client, "long", "and then?");
    until("it thinks", || place.asked().len() == 1);
    let alpha = place.file("alpha");
    let began = Instant::now();
    Launch::on(&place, &[&alpha]).arg("status").run();
    let plain = began.elapsed(); // of a command that waits for no agent
    let asked = Instant::now();
    let ended = Launch::on(&place, &[&alpha]).arg("stop").arg("--all").run();
    assert!(ended.status.success(), "{ended:?}");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(1) + 4 * plain, "{took:?}, and {plain:?} for a status");
    assert!(ended.stdout.contains("alpha silenced: 1 turn ended, 1 message waits"), "{}", ended.stdout);
    assert!(ended.stdout.contains("beta silenced"), "{}", ended.stdout);
    let status = gateway.client.read("/api/control/status");
    assert_eq!((&status["running_turns"], &status["halted"]), (&json!(0), &json!(true)), "{status}");
    assert_eq!(status["held"][0]["waiting"], 1, "{status}");
    assert_eq!(place.asked().len(), 1, "what waits was not begun");
    let resumed = Launch::on(&place, &[&alpha]).arg("resume").run();
    assert!(resumed.stdout.contains("alpha going on"), "{resumed:?}");
    until("what waited goes on", || place.asked().len() == 2);
    drop((answer, waits));
}

#[test]
fn p6_a_crash_between_the_end_of_a_silence_and_its_release_leaves_no_agent_silent() {
    let place = Place::new();
    let send = json!([{"name": "send_message", "arguments": {"target": "agent:beta", "message": "hello"}}]);
    let script = json!({"rules": [
        {"when": {"contains": "[alpha]"}, "say": "."},
        {"when": {"contains": "greet", "result": false}, "call": send},
        {"when": {"contains": "greet", "result": true}, "say": "sent"},
    ]});
    let launch = two_homes(&place, &script, "");
    let gateway = launch.start();
    until("both are there", || gateway.log().contains("ready   after"));
    assert!(gateway.client.say("talk", "greet beta").text().contains("sent"));
    let database = || rusqlite::Connection::open(place.file("beta/state.db")).unwrap();
    let silenced = || {
        let sql = "SELECT count(*) FROM tl_session WHERE halted = 1";
        database().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    until("beta was greeted", || place.asked().iter().any(|asked| asked.to_string().contains("[alpha]")));
    let ended = Launch::on(&place, &[&place.file("alpha")]).arg("stop").arg("--all").run();
    assert!(ended.status.success(), "{ended:?}");
    until("beta is silent", || silenced() == 1);
    gateway.kill();
    // What the disk holds when the end of the silence is written, and no agent was told of it yet.
    assert_eq!(database().execute("UPDATE tl_cursor SET value = '' WHERE platform = 'halt'", []).unwrap(), 1);
    let gateway = launch.start();
    until("beta goes on", || silenced() == 0);
    assert!(gateway.stop().success());
}

#[test]
fn p6_stop_all_without_a_gateway_makes_nothing_and_takes_no_other_process_for_one() {
    let place = Place::new();
    std::fs::create_dir_all(place.home()).unwrap();
    let state = place.file("state");
    let launch = |place: &Place| Launch::on(place, &[&place.home()]).env("XDG_STATE_HOME", &state);
    let stop = || launch(&place).arg("stop").arg("--all").run();
    let ended = stop();
    assert!(!ended.status.success() && ended.stderr.contains("no gateway runs"), "{ended:?}");
    assert!(!state.exists(), "a command that found nothing left something");
    let gateway = launch(&place).start();
    // Its number is that of another process afterwards: of this one.
    let take_over = || {
        let ledger = rusqlite::Connection::open(state.join("throughline/chains.db")).ok()?;
        ledger.busy_timeout(Duration::from_secs(5)).ok()?;
        ledger
            .execute("UPDATE gateway SET pid = ?1", [std::process::id()])
            .ok()
            .filter(|changed| *changed == 1)
    };
    until("it is in the ledger", || take_over().is_some());
    gateway.kill();
    let ended = stop();
    // It has left its address behind, and does not answer there.
    assert!(
        !ended.status.success() && ended.stderr.contains("not every gateway could be reached"),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("may hang"), "another process was taken for it: {}", ended.stderr);
}

/// Two processes know nothing of each other but the ledger of their user.
#[test]
fn p6_stop_all_reaches_every_process_of_the_user_and_a_restart_does_not_end_it() {
    let place = Place::new();
    let homes = ["one", "two"].map(|name| place.file(name));
    homes.iter().for_each(|home| fs::create_dir_all(home).unwrap());
    let [one, two] = homes.each_ref().map(|home| Launch::on(&place, &[home]));
    let (first, second) = (one.start(), two.start());
    let is_silent = |client: &Client| client.read("/api/control/status")["halted"] == true;
    let ended = Launch::on(&place, &[&homes[0]]).arg("stop").arg("--all").run();
    assert!(ended.status.success(), "{ended:?}");
    for name in ["one", "two"] {
        assert!(ended.stdout.contains(&format!("{name} silenced")), "{}", ended.stdout);
    }
    assert!(is_silent(&first.client) && is_silent(&second.client));
    second.kill();
    let second = two.start();
    assert!(is_silent(&second.client));
    let resumed = Launch::on(&place, &[&homes[0]]).arg("resume").arg("--all").run();
    assert!(resumed.stdout.contains("two going on"), "{resumed:?}");
    assert!(!is_silent(&first.client) && !is_silent(&second.client));
    // What was ordered once is over: no agent obeys it again after a restart.
    second.kill();
    let second = two.start();
    assert!(!is_silent(&second.client));
}

fn system(asked: &Value) -> String {
    asked["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// A later request of a session begins with all of the one before it.
fn continues(before: &Value, after: &Value) -> bool {
    let (before_rows, after_rows) =
        (before["messages"].as_array().unwrap(), after["messages"].as_array().unwrap());
    before["tools"] == after["tools"] && after_rows.starts_with(before_rows)
}

#[test]
fn the_prefix_of_a_prompt_survives_memory_writes_and_restarts_and_every_break_has_a_name() {
    let place = place("");
    place.write("work/AGENTS.md", "Always answer in rhyme.");
    let memory = json!([{"name": "memory", "arguments": {"target": "memory", "action": "add", "content": "likes tea"}}]);
    let launch = place.rehearsing(&json!({"rules": rules("remember", memory)}));
    let gateway = launch.start();
    gateway.client.say("s", "hello");
    gateway.client.say("s", "remember tea");
    gateway.client.say("s", "again");
    place.write("work/AGENTS.md", "Never rhyme.");
    place.write("home/SOUL.md", "You are a different agent.");
    assert!(gateway.stop().success());
    let gateway = launch.start();
    gateway.client.say("s", "after the restart");
    assert_eq!(counted(&gateway.client, "cache_break"), 0);
    let asked = place.asked();
    assert!(system(&asked[0]).contains("Always answer in rhyme."), "{}", asked[0]);
    for pair in asked.windows(2) {
        assert!(continues(&pair[0], &pair[1]), "{:#}\n{:#}", pair[0], pair[1]);
    }
    assert!(lines(&place.file("home/memories/MEMORY.md")).concat().contains("likes tea"));
    assert!(!system(asked.last().unwrap()).contains("likes tea"), "the snapshot is frozen");
    gateway.client.say("new", "who are you");
    let fresh = system(place.asked().last().unwrap());
    assert!(fresh.contains("likes tea") && fresh.contains("a different agent"), "{fresh}");
    gateway.stop();

    // Other tools are another prefix, and the break says why.
    place.append("home/config.yaml", "agent: {disabled_toolsets: [todo]}\n");
    let gateway = launch.start();
    gateway.client.say("s", "fewer tools");
    assert_eq!(counted(&gateway.client, "cache_break"), 1);
    gateway.client.say("s", "no further break");
    assert_eq!(counted(&gateway.client, "cache_break"), 1);
}
