//! Programs of others beside the real binary: our examples, one that writes down what it hears, and what people
//! have written for Hermes, under the real Hermes' Python. People write on a local Bot API.

mod chaos;
mod engines;
mod hindsight;
mod lazy;
mod written;

use crate::chats::World;
use crate::gateway::Place;
use crate::model::{ModelServer, calls, last, said, text};
use crate::peers;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::telegram::{Chat, User};

const ADA: i64 = 4711;
const PATIENCE: Duration = Duration::from_secs(90);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A provider, a tool, an order and hooks that do next to nothing, and write down each call with its scope.
const WITNESS: &str = r#"
import json, os, sys

TOOL = {"name": "witness_look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
EVENTS = ["session:start", "session:end", "session:reset", "agent:start", "agent:step", "agent:end", "pre_llm_call",
          "post_tool_call", "on_session_end", "on_session_finalize"]
log = None
for line in sys.stdin:
    call = json.loads(line)
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        log = open(os.path.join(params["directory"], "heard.jsonl"), "a", buffering=1)
        result = {"protocol": 1, "name": "witness", "version": "1",
                  "provider": {"name": "witness",
                               "methods": ["recall", "retain", "before_compression", "memory_written", "scope"]},
                  "tools": [TOOL],
                  "hooks": [{"event": event, "name": "of " + event} for event in ["pre_tool_call"] + EVENTS],
                  "commands": [{"name": "wave", "description": "waves back"}]}
    else:
        log.write(json.dumps({"method": method, "params": params}) + "\n")
        result = {}
        if method == "provider/recall":
            result = {"text": "a witness remembers"}
        elif method == "tool/call":
            result = {"content": "it looked"}
        elif method == "hook/run" and params["facts"].get("tool_name") == "todo":
            result = {"block": "no lists here"}
        elif method == "command/run":
            result = {"text": "waving at " + params["arguments"]}
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
    if method == "shutdown":
        break
"#;

struct Company {
    world: World,
}

impl Company {
    /// `config` joins what is needed to write to the agent.
    fn with(model: ModelServer, config: &str) -> Self {
        let world = World::around(Place::new(), model, &format!("TELEGRAM_ALLOWED_USERS={ADA}"));
        world.place.append("home/config.yaml", config);
        Self { world }
    }

    fn with_witness(model: ModelServer) -> Self {
        let company = Self::with(model, "memory: {provider: witness, nudge_interval: 0}\n");
        let script = company.world.place.write("witness.py", WITNESS);
        let plugin =
            format!("throughline: {{plugins: {{witness: {{command: [python3, {}]}}}}}}\n", script.display());
        company.world.place.append("home/config.yaml", &plugin);
        company
    }

    fn directory(&self, plugin: &str) -> PathBuf {
        self.world.place.home().join("throughline.plugins").join(plugin)
    }

    fn says(&self, line: &str) {
        self.world.telegram.say(&Chat::private(ADA, "Ada"), &User::new(ADA, "Ada"), line);
    }

    /// Says it, and waits for the reply.
    fn hears(&self, line: &str) {
        self.says(line);
        let reply = format!("re: {line}");
        self.world.until(&reply, |world| world.times_shown(&reply) == 1);
    }

    /// Orders it, and reads what the agent has to say about it.
    fn orders(&self, order: &str) -> String {
        let before = self.world.shown().len();
        self.says(order);
        self.world.until(order, |world| world.shown().len() > before);
        self.world.shown().pop().unwrap()
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < PATIENCE, "waited for {what}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// All that the witness heard, in order.
    fn calls(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory("witness").join("heard.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect()
    }

    /// The same, by method.
    fn heard(&self, method: &str) -> Vec<Value> {
        let calls = self.calls().into_iter().filter(|call| call["method"] == method);
        calls.map(|mut call| call["params"].take()).collect()
    }

    fn plugins(&self) -> Value {
        let listed = self.world.place.launch().arg("plugin").arg("list").arg("--json").run();
        serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"))
    }
}

fn chatty() -> ModelServer {
    ModelServer::saying(Duration::ZERO, |request| format!("re: {}", last(request)))
}

/// A request with one message and without a prompt asks for a summary.
fn summarising() -> ModelServer {
    ModelServer::saying(Duration::ZERO, |request| match request["messages"].as_array().unwrap().len() {
        1 => {
            format!("## Goal\nTo talk.\n\n## Completed Actions\n{}", "1. Talked about the moon. ".repeat(20))
        }
        _ => format!("re: {}", last(request)),
    })
}

fn kill(pid: u64) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn p27_a_provider_hears_the_same_chat_key_across_new_compress_and_restart() {
    let company = Company::with_witness(summarising());
    let gateway = company.world.launch.start();
    for line in ["one", "two", "three", "four", "five", "six"] {
        company.hears(format!("{line} {}", "and more of it ".repeat(60)).trim_end());
    }
    company.orders("/compress here 1");
    company.hears("after the compression");
    company.orders("/new");
    company.hears("in another conversation");
    assert!(gateway.stop().success());
    let gateway = company.world.launch.start();
    company.hears("after the restart");
    company.until("nine turns", || company.heard("provider/retain").len() == 9);
    company.until("an end", || !company.heard("scope/close").is_empty());
    assert!(gateway.stop().success());

    let retained = company.heard("provider/retain");
    let of = |name: &str| {
        let mut all: Vec<String> =
            retained.iter().map(|kept| kept["scope"][name].as_str().unwrap_or_default().to_owned()).collect();
        all.dedup();
        all
    };
    assert_eq!(of("chat_key"), ["agent:main:telegram:dm:4711"]);
    assert_eq!(of("session").len(), 2, "one before /new and one after it: {:?}", of("session"));
    assert_eq!(of("user"), [ADA.to_string()]);
    let mut keys: Vec<_> = retained.iter().map(|kept| kept["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 9, "each turn once");
    // The end of the first conversation was told once, with what was said in it; a compression is no end.
    let closed = company.heard("scope/close");
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(closed[0]["scope"]["session"], retained[0]["scope"]["session"]);
    assert_eq!(closed[0]["next"], retained[8]["scope"]["session"]);
    assert_eq!((&closed[0]["reason"], &closed[0]["part"]), (&json!("new"), &json!("provider")));
    // Under the scope of every call before it (P27), and with all that was said: also what a summary stands for.
    for name in ["chat_key", "chat", "platform", "user", "user_name"] {
        assert_eq!(closed[0]["scope"][name], retained[6]["scope"][name], "{name}: {closed:?}");
    }
    let told: Vec<String> = closed[0]["messages"].as_array().unwrap().iter().map(text).collect();
    for line in ["one and", "two and", "three and", "four and", "five and", "six and", "after the"] {
        let said = told.iter().filter(|said| said.starts_with(line)).count();
        let replied = told.iter().filter(|said| said.starts_with(&format!("re: {line}"))).count();
        assert_eq!((said, replied), (1, 1), "{line}: {told:#?}");
    }
    assert!(!told.iter().any(|said| said.contains("Talked about the moon")), "no summary: {told:#?}");
}

#[test]
fn p26_each_turn_is_kept_once_by_a_plugin_that_is_killed_and_by_a_gateway_that_is() {
    let company = Company::with(chatty(), "memory: {provider: diary, nudge_interval: 0}\n");
    let script = root().join("plugins/examples/provider.py");
    let command = format!("[python3, {}]", script.display());
    // A turn waits for what it is reminded of, however busy the machine is.
    let plugin =
        format!("throughline: {{recall_patience_ms: 30000, plugins: {{diary: {{command: {command}}}}}}}\n");
    company.world.place.append("home/config.yaml", &plugin);
    let mut gateway = company.world.launch.start();
    for round in 0..3 {
        company.hears(&format!("first of round {round}"));
        let listed = company.plugins();
        assert_eq!(listed["data"][0]["name"], "diary", "{listed}");
        assert_eq!(listed["data"][0]["what"], "memory provider diary", "{listed}");
        company.until("its process", || company.plugins()["data"][0]["process"].is_u64());
        kill(company.plugins()["data"][0]["process"].as_u64().unwrap());
        company.hears(&format!("second of round {round}"));
        gateway.kill();
        gateway = company.world.launch.start();
        company.hears(&format!("third of round {round}"));
    }
    let database = company.directory("diary").join("diary.db");
    let kept = || -> Vec<String> {
        let Ok(database) = rusqlite::Connection::open(&database) else { return Vec::new() };
        let Ok(mut rows) = database.prepare("SELECT said FROM turn ORDER BY at") else { return Vec::new() };
        rows.query_map([], |row| row.get(0)).map(|rows| rows.flatten().collect()).unwrap_or_default()
    };
    company.until("all nine turns", || kept().len() >= 9);
    let expected: Vec<String> = (0..3)
        .flat_map(|round| ["first", "second", "third"].map(|word| format!("{word} of round {round}")))
        .collect();
    assert_eq!(kept(), expected);
    // And what was kept is recalled.
    let question = "what was said in round 1?";
    company.hears(question);
    let requests = company.world.model.requests();
    let words = |request: &Value| request["messages"].as_array()?.last().map(text);
    let words = requests.iter().rev().filter_map(words).find(|words| words.starts_with(question)).unwrap();
    assert!(words.contains("<memory-context>") && words.contains("second of round 1"), "{words}");
    assert!(gateway.stop().success());
}

#[test]
fn p18_an_engine_from_outside_compresses_and_the_session_stays_itself() {
    let company = Company::with(summarising(), "context: {engine: digest}\nmemory: {nudge_interval: 0}\n");
    let script = root().join("plugins/examples/engine.py");
    let plugin =
        format!("throughline: {{plugins: {{digest: {{command: [python3, {}]}}}}}}\n", script.display());
    company.world.place.append("home/config.yaml", &plugin);
    let gateway = company.world.launch.start();
    let lines: Vec<String> =
        (0..10).map(|nth| format!("line {nth} about the moon {}", "and on ".repeat(40))).collect();
    lines.iter().for_each(|line| company.hears(line.trim_end()));
    let told = company.orders("/compress the moon");
    assert!(told.contains("snapshot"), "{told}");
    company.hears("and now?");
    let asked = company.world.model.requests().pop().unwrap();
    let messages: Vec<String> = asked["messages"].as_array().unwrap().iter().map(text).collect();
    let summary = messages.iter().find(|message| message.starts_with("[Earlier in this conversation]"));
    assert!(summary.is_some_and(|summary| summary.contains("Talked about the moon")), "{messages:#?}");
    assert!(messages.len() < 16, "{messages:#?}");
    // The user's summariser wrote it, asked over the protocol: the plugin has no key of its own.
    let summaries = company.world.model.requests();
    let asked: Vec<&Value> =
        summaries.iter().filter(|request| request["messages"].as_array().unwrap().len() == 1).collect();
    assert_eq!(asked.len(), 1);
    assert!(text(&asked[0]["messages"][0]).contains("Above all keep what concerns: the moon"));
    let audit = company.world.place.launch().arg("audit").run();
    assert!(audit.status.success(), "{audit:?}");

    // It dies in the middle of everything: nothing is lost, and it is there again for the next one.
    let listed = company.plugins();
    kill(listed["data"][0]["process"].as_u64().unwrap());
    company.hears("still there?");
    assert!(gateway.stop().success());
}

#[test]
fn tools_hooks_and_commands_of_a_plugin_are_the_agents() {
    let model = ModelServer::answering(Duration::ZERO, |request| match last(request).as_str() {
        "look" => calls(&[("witness_look", json!({})), ("todo", json!({"todos": []}))]),
        other => said(&format!("re: {other}")),
    });
    let company = Company::with_witness(model);
    let gateway = company.world.launch.start();
    company.says("look");
    company.world.until("both results", |world| {
        world.model.requests().last().is_some_and(|request| {
            let results: Vec<String> = request["messages"].as_array().unwrap().iter().map(text).collect();
            results.iter().any(|result| result.contains("it looked"))
                && results.iter().any(|result| result.contains("no lists here"))
        })
    });
    company.world.until("the reply", |world| !world.shown().is_empty());
    let called = company.heard("tool/call");
    assert_eq!(called.len(), 1, "{called:?}");
    assert_eq!(called[0]["scope"]["chat_key"], "agent:main:telegram:dm:4711");
    assert_eq!(company.orders("/wave everybody"), "waving at everybody");
    let lists = |page: u32| company.orders(&format!("/commands {page}")).contains("/wave");
    assert!((1..=5).any(lists), "its order is listed");
    let session = company.sessions().pop().unwrap();
    let order = |order: &str| {
        let path = format!("/api/sessions/{session}/commands");
        gateway.client.post(&path, &[], &json!({"command": order})).unwrap()
    };
    assert_eq!(order("/wave the API").json()["said"], "waving at the API");
    assert_eq!(order("/wave_not").status, 400, "this command is unknown");
    let status = company.world.place.launch().arg("status").run();
    assert!(status.status.success(), "{status:?}");

    // A guard that cannot be asked lets nothing pass.
    let listed = company.plugins();
    fs::write(company.world.place.file("witness.py"), "raise SystemExit(1)").unwrap();
    kill(listed["data"][0]["process"].as_u64().unwrap());
    company.says("look");
    company.world.until("a refusal", |world| {
        world.model.requests().last().is_some_and(|request| {
            let results = request["messages"].as_array().unwrap();
            results.iter().map(text).any(|result| result.contains("could not be asked"))
        })
    });
    let status = company.world.place.launch().arg("status").run();
    assert!(!status.status.success() && status.stdout.contains("plugin witness"), "{status:?}");
    gateway.kill();
}

#[test]
fn p24_every_call_names_its_whole_scope_and_hooks_hear_what_hermes_tells_them() {
    let model = ModelServer::answering(Duration::ZERO, |request| match last(request).as_str() {
        "look" => calls(&[("witness_look", json!({}))]),
        other => said(&format!("re: {other}")),
    });
    let company = Company::with_witness(model);
    let gateway = company.world.launch.start();
    let looks = |times: usize| {
        company.says("look");
        let reply = "re: it looked";
        company.world.until("the reply", |world| world.times_shown(reply) == times);
        assert_eq!(company.orders("/wave everybody"), "waving at everybody");
    };
    company.hears("hello");
    company.orders("/title The moon");
    looks(1);
    company.orders("/undo");
    looks(2);
    company.orders("/branch");
    looks(3);
    company.orders("/new");
    company.hears("in another one");
    let ended = |reason: &str| {
        let closed = company.heard("scope/close");
        closed.into_iter().filter(|closed| closed["reason"] == reason).collect::<Vec<_>>()
    };
    let of_event = |event: &str| {
        let runs = company.heard("hook/run").into_iter();
        runs.filter(|run| run["event"] == event).collect::<Vec<_>>()
    };
    company.until("three ends", || ["undo", "branch", "new"].iter().all(|reason| ended(reason).len() == 1));
    company.until("every turn is kept", || company.heard("provider/retain").len() == 5);
    company.until("the last turn", || of_event("agent:end").len() == 5 && of_event("session:end").len() == 2);
    assert!(gateway.stop().success());

    let calls = company.calls();
    let mut methods = 0;
    for method in
        ["provider/recall", "provider/retain", "tool/call", "command/run", "hook/run", "scope/close"]
    {
        for call in calls.iter().filter(|call| call["method"] == method) {
            let scope = &call["params"]["scope"];
            let chat = json!({"id": ADA.to_string(), "name": "Ada", "kind": "dm"});
            assert_eq!(scope["chat_key"], "agent:main:telegram:dm:4711", "{call}");
            assert_eq!((&scope["platform"], &scope["user"]), (&json!("telegram"), &json!("4711")), "{call}");
            assert_eq!(scope["chat"], chat, "{call}");
            assert!(scope["session"].as_str().is_some_and(|session| !session.is_empty()), "{call}");
            methods += 1;
        }
    }
    assert!(methods > 40, "{calls:#?}");
    // The same session, parent, title and generation, for each of them.
    let asked = |method: &str, nth: usize| {
        let scope = &company.heard(method)[nth]["scope"];
        ["session", "parent", "title", "generation"].map(|name| scope[name].clone())
    };
    let of_guard = |nth: usize| {
        let scope = of_event("pre_tool_call")[nth]["scope"].take();
        ["session", "parent", "title", "generation"].map(|name| scope[name].clone())
    };
    for nth in 0..3 {
        // What the same turn was kept under: the first turn had no tool.
        let kept = asked("provider/retain", nth + 1);
        assert_eq!(asked("tool/call", nth), kept, "{nth}");
        assert_eq!(of_guard(nth), kept, "{nth}");
        assert_eq!(asked("command/run", nth), kept, "{nth}");
    }
    let [first, undone, copied] = [0, 1, 2].map(|nth| asked("tool/call", nth));
    assert_eq!((&first[0], &first[2]), (&undone[0], &json!("The moon")));
    assert!(undone[3].as_u64() > first[3].as_u64(), "the past was rewritten: {first:?}, {undone:?}");
    assert_ne!(copied[0], first[0]);
    assert_eq!(copied[1], first[0], "the copy knows what it was made of");
    // Each end has its own reason, and what goes on after it.
    let [undo, branch, new] = ["undo", "branch", "new"].map(|reason| ended(reason).remove(0));
    assert_eq!((&undo["next"], &undo["messages"]), (&undone[0], &json!([])), "it goes on as itself");
    assert_eq!((&undo["scope"]["session"], &branch["scope"]["session"]), (&first[0], &first[0]));
    assert_eq!((&branch["next"], &new["scope"]["session"]), (&copied[0], &copied[0]));

    // What Hermes gives its hooks, by its names.
    let user = json!(ADA.to_string());
    let key = json!("agent:main:telegram:dm:4711");
    for (event, facts) in [
        ("session:start", vec![("user_id", &user), ("session_key", &key)]),
        ("session:end", vec![("user_id", &user), ("session_key", &key)]),
        ("session:reset", vec![("user_id", &user), ("session_key", &key)]),
        ("agent:start", vec![("user_id", &user), ("chat_id", &user), ("chat_type", &json!("dm"))]),
        ("agent:start", vec![("thread_id", &json!("")), ("message", &json!("hello"))]),
        ("agent:step", vec![("user_id", &user), ("tools", &json!([]))]),
        ("agent:end", vec![("user_id", &user), ("chat_id", &user), ("response", &json!("re: hello"))]),
        ("pre_llm_call", vec![("sender_id", &user), ("is_first_turn", &json!(true)), ("task_id", &first[0])]),
        ("on_session_end", vec![("task_id", &first[0]), ("session_id", &first[0])]),
        ("pre_tool_call", vec![("task_id", &first[0]), ("middleware_trace", &json!([]))]),
        ("post_tool_call", vec![("task_id", &first[0]), ("status", &json!("ok"))]),
    ] {
        let told = &of_event(event)[0]["facts"];
        for (name, value) in facts {
            assert_eq!(&told[name], value, "{event}: {name}: {told}");
        }
    }
    assert_eq!(of_event("pre_llm_call")[1]["facts"]["is_first_turn"], false);
}

#[test]
fn p31_a_plugin_that_hangs_ends_with_the_next_start_after_its_gateway_was_killed() {
    let company = Company::with(chatty(), "memory: {provider: chaos, nudge_interval: 0}\n");
    let command = json!([chaos::program(), "hang", "provider/recall"]);
    // Long enough that it is not ended for it before the gateway is.
    let plugin = format!("throughline: {{plugins: {{chaos: {{command: {command}, call_seconds: 60}}}}}}\n");
    company.world.place.append("home/config.yaml", &plugin);
    let gateway = company.world.launch.start();
    company.hears("it hangs from now on");
    let process = company.plugins()["data"][0]["process"].as_u64().unwrap();
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.contains("(chaos) ") && !stat.contains("(chaos) Z")
    };
    gateway.kill();
    assert!(is_there(), "one that hangs does not see that its input has ended");
    let gateway = company.world.launch.start();
    company.until("it is ended", || !is_there());
    assert!(gateway.log().contains("of an earlier gateway was still there"), "{}", gateway.log());
    company.hears("and another one works");
    assert_ne!(company.plugins()["data"][0]["process"].as_u64(), Some(process));
    assert!(gateway.stop().success());
    let notes = fs::read_dir(company.directory("chaos").parent().unwrap()).unwrap().flatten();
    let notes: Vec<_> = notes.filter(|entry| entry.path().extension().is_some()).collect();
    assert!(notes.is_empty(), "nothing is left to be ended: {notes:?}");
}

/// Everything that a plugin may want to hear of, and an engine that follows sessions.
const EAR: &str = r#"
import json, os, sys

TOOL = {"name": "witness_look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
EVENTS = ["gateway:startup", "command:*", "command:status", "command:undo", "agent:start", "agent:step", "agent:end",
          "pre_llm_call", "post_llm_call", "pre_verify"]
for line in sys.stdin:
    call = json.loads(line)
    method, params, result = call["method"], call.get("params", {}), {}
    if method == "initialize":
        log = open(os.path.join(params["directory"], "heard.jsonl"), "a", buffering=1)
        result = {"protocol": 1, "name": "witness", "version": "1", "engine": {"name": "witness", "methods": ["scope"]},
                  "tools": [TOOL], "hooks": [{"event": event, "name": "of " + event} for event in EVENTS]}
    else:
        log.write(json.dumps({"method": method, "params": params}) + "\n")
        if method == "tool/call":
            result = {"content": "it looked"}
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
    if method == "shutdown":
        break
"#;

#[test]
fn what_happens_is_told_to_hooks_and_sessions_that_go_on_to_the_engine() {
    let model = ModelServer::answering(Duration::ZERO, |request| match last(request).as_str() {
        "look" => calls(&[("witness_look", json!({}))]),
        "it looked" => said("I have looked"),
        other => said(&format!("re: {other}")),
    });
    let company = Company::with(model, "context: {engine: witness}\nmemory: {nudge_interval: 0}\n");
    let script = company.world.place.write("ear.py", EAR);
    let plugin =
        format!("throughline: {{plugins: {{witness: {{command: [python3, {}]}}}}}}\n", script.display());
    company.world.place.append("home/config.yaml", &plugin);
    let gateway = company.world.launch.start();
    company.says("look");
    company.world.until("the reply", |world| world.times_shown("I have looked") == 1);
    company.orders("/status");
    // What is told under each event: by the name of its hook, so that nothing is told to the wrong one.
    let told = |event: &str| -> Vec<Value> {
        let runs = company.heard("hook/run").into_iter();
        runs.filter(|run| run["name"] == format!("of {event}")).collect()
    };
    company.until("the last of it", || {
        let last = ["command:*", "command:status", "post_llm_call", "gateway:startup"];
        last.iter().all(|event| !told(event).is_empty()) && told("agent:step").len() == 2
    });
    let [started] = &told("gateway:startup")[..] else { panic!("{:?}", told("gateway:startup")) };
    assert_eq!(started["facts"]["platforms"], json!(["telegram"]), "{started}");
    let steps = told("agent:step");
    let steps: Vec<_> =
        steps.iter().map(|step| (&step["facts"]["iteration"], &step["facts"]["tool_names"])).collect();
    assert_eq!(steps, [(&json!(1), &json!([])), (&json!(2), &json!(["witness_look"]))]);
    let before = &told("pre_llm_call")[0]["facts"];
    assert_eq!(
        (&before["user_message"], &before["conversation_history"]),
        (&json!("look"), &json!([])),
        "{before}"
    );
    let after = &told("post_llm_call")[0]["facts"];
    assert_eq!(
        (&after["user_message"], &after["assistant_response"]),
        (&json!("look"), &json!("I have looked"))
    );
    for hook in ["command:*", "command:status"] {
        let [ordered] = &told(hook)[..] else { panic!("{hook}: {:?}", told(hook)) };
        assert_eq!(ordered["event"], "command:status", "{ordered}");
        assert_eq!(
            (&ordered["facts"]["command"], &ordered["facts"]["user_id"]),
            (&json!("status"), &json!(ADA.to_string()))
        );
    }
    assert!(told("command:undo").is_empty());
    assert!(gateway.log().contains("nothing called pre_verify happens"), "{}", gateway.log());

    let opened = || -> Vec<Value> {
        company.heard("scope/opened").iter().map(|opened| opened["scope"]["session"].clone()).collect()
    };
    company.until("the engine knows of the session", || opened().len() == 1);
    assert!(gateway.stop().success());
    let gateway = company.world.launch.start();
    company.hears("after the restart");
    company.until("the engine knows that it goes on", || opened().len() == 2);
    assert_eq!(opened()[0], opened()[1]);
    company.until("once for each start", || told("gateway:startup").len() == 2);
    assert!(gateway.stop().success());
}

#[test]
fn p26_a_provider_that_cannot_be_started_today_is_owed_every_turn() {
    let company = Company::with_witness(chatty());
    let script = company.world.place.file("witness.py");
    let gateway = company.world.launch.start();
    company.hears("while it works");
    company.until("the first turn", || company.heard("provider/retain").len() == 1);
    assert!(gateway.stop().success());
    fs::write(&script, "raise SystemExit(1)").unwrap();
    let gateway = company.world.launch.start();
    company.hears("while it does not");
    company.hears("and once more");
    assert!(gateway.stop().success());
    fs::write(&script, WITNESS).unwrap();
    let gateway = company.world.launch.start();
    company.until("all that was said", || company.heard("provider/retain").len() == 3);
    let said: Vec<Value> =
        company.heard("provider/retain").iter().map(|kept| kept["said"][0].clone()).collect();
    assert_eq!(said, ["while it works", "while it does not", "and once more"]);
    assert!(gateway.stop().success());
}

#[test]
fn what_the_agent_writes_down_is_told_to_its_provider_under_its_scope() {
    let write = json!({"action": "add", "target": "user", "content": "Ada likes tea."});
    let model = ModelServer::answering(Duration::ZERO, move |request| match last(request).as_str() {
        "write it down" => calls(&[("memory", write.clone())]),
        other if other.contains("success") => said("it is written"),
        other => said(&format!("re: {other}")),
    });
    let company = Company::with_witness(model);
    let gateway = company.world.launch.start();
    company.says("write it down");
    company.world.until("the reply", |world| world.times_shown("it is written") == 1);
    company.until("the provider knows", || !company.heard("provider/memory_written").is_empty());
    let told = company.heard("provider/memory_written");
    let [written] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&written["action"], &written["target"]), (&json!("add"), &json!("user")), "{written}");
    assert_eq!(written["content"], "Ada likes tea.");
    assert_eq!(written["scope"]["chat_key"], "agent:main:telegram:dm:4711");
    assert!(gateway.stop().success());
}

#[test]
fn a_plugin_that_does_not_start_is_named_and_the_agent_answers() {
    let config = "memory: {provider: nowhere}\ncontext: {engine: lcm}\n\
                  throughline: {plugins: {gone: {command: [/no/such/program]}, mute: {command: [sleep, '60'], start_seconds: 1}}}\n";
    let company = Company::with(chatty(), config);
    let gateway = company.world.launch.start();
    company.hears("hello");
    for words in ["plugin gone", "plugin mute", "memory provider nowhere", "context engine lcm"] {
        company.until(words, || gateway.log().contains(words));
    }
    assert!(gateway.stop().success());
}

#[test]
fn p31_a_guard_that_does_not_start_blocks_tools_is_shown_and_is_tried_again() {
    let model = ModelServer::answering(Duration::ZERO, |request| match last(request).as_str() {
        "list" => calls(&[("todo", json!({"todos": []}))]),
        other => said(&format!("re: {other}")),
    });
    let company = Company::with(model, "memory: {provider: witness, nudge_interval: 0}\n");
    let script = company.world.place.write("witness.py", "raise SystemExit(1)");
    let plugin = format!(
        "throughline: {{plugins: {{witness: {{command: [python3, {}], guards: true}}}}}}\n",
        script.display()
    );
    company.world.place.append("home/config.yaml", &plugin);
    let gateway = company.world.launch.start();
    company.says("list");
    company.world.until("a refusal", |world| {
        world.model.requests().last().is_some_and(|request| {
            let results = request["messages"].as_array().unwrap();
            results.iter().map(text).any(|result| result.contains("has not been heard yet"))
        })
    });
    let status = company.world.place.launch().arg("status").run();
    assert!(!status.status.success() && status.stdout.contains("plugin witness"), "{status:?}");
    fs::write(&script, WITNESS).unwrap();
    company.until("it has been tried again", || company.plugins()["data"][0]["state"] == "running");
    // The agent began without a provider, and the status says until when that holds.
    company.until("it is said what does not count yet", || {
        company.plugins()["data"][0]["notes"]
            .to_string()
            .contains("its memory provider counts from the next start")
    });
    assert!(gateway.stop().success());
}

#[test]
fn hermes_own_provider_engine_hook_and_tool_run_under_our_host() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let model = ModelServer::answering(Duration::ZERO, |request| {
        let messages = request["messages"].as_array().unwrap();
        match (messages.len(), last(request).as_str()) {
            (1, _) => {
                said(&format!("## Goal\nTo talk.\n\n## Completed Actions\n{}", "1. Talked. ".repeat(40)))
            }
            (_, "compute") => calls(&[("execute_code", json!({"code": "print(6 * 7)"}))]),
            (_, other) => said(&format!("re: {other}")),
        }
    });
    let config = format!(
        "memory: {{provider: holographic, nudge_interval: 0}}\ncontext: {{engine: 'hermes:compressor'}}\n\
         approvals: {{mode: 'off'}}\nplugins: {{hermes-memory-store: {{auto_extract: true}}}}\n\
         throughline: {{hermes: {{python: {}, tools: [code_execution]}}}}\n",
        python.display()
    );
    let company = Company::with(model, &config);
    let place = &company.world.place;
    // A window in which Hermes finds something to summarise.
    let written = fs::read_to_string(place.file("home/config.yaml")).unwrap();
    place.write(
        "home/config.yaml",
        written.replace("api_key: none}", "api_key: none, context_length: 60000}"),
    );
    place.write(
        "home/hooks/scribe/HOOK.yaml",
        "name: scribe\ndescription: writes down\nevents: [agent:end, session:end, gateway:startup, 'command:*']\n",
    );
    place.write(
        "home/hooks/scribe/handler.py",
        "import os\ndef handle(event_type, context):\n    with open(os.path.join(os.environ['HERMES_HOME'], 'scribe.log'), 'a') as log:\n        \
         log.write(event_type + ' ' + str(context.get('session_id') or context.get('old_session_id')) + '\\n')\n",
    );
    let gateway = company.world.launch.start();
    for nth in 0..12 {
        let line = format!("line {nth}: I prefer tea number {nth} {}", "and so on ".repeat(300));
        company.hears(line.trim_end());
    }
    let told = company.orders("/compress tea");
    assert!(told.contains("snapshot"), "{told}\n{}", gateway.log());
    company.hears("after the compression");
    company.says("compute");
    company.world.until("the result of execute_code", |world| {
        world.model.requests().last().is_some_and(|request| {
            request["messages"].as_array().unwrap().iter().map(text).any(|result| result.contains("42"))
        })
    });
    gateway.kill();
    let gateway = company.world.launch.start();
    company.hears("after a kill");
    company.orders("/new");
    company.hears("and in another one");
    let scribe = || fs::read_to_string(place.home().join("scribe.log")).unwrap_or_default();
    company.until("the hook has heard of the end", || scribe().contains("session:end"));
    assert_eq!(scribe().matches("session:end").count(), 1, "{}", scribe());
    assert!(scribe().matches("agent:end").count() >= 10, "{}", scribe());
    assert_eq!(scribe().matches("gateway:startup").count(), 2, "{}", scribe());
    assert_eq!(scribe().matches("command:compress").count(), 1, "{}", scribe());
    let store = place.home().join("memory_store.db");
    // The end was told with all that was said, also with what the summary stands for.
    let facts = || -> Vec<String> {
        let Ok(database) = rusqlite::Connection::open(&store) else { return Vec::new() };
        let Ok(mut rows) = database.prepare("SELECT content FROM facts") else { return Vec::new() };
        rows.query_map([], |row| row.get(0)).map(|rows| rows.flatten().collect()).unwrap_or_default()
    };
    company.until("every tea is remembered", || {
        let facts = facts();
        (0..12).all(|nth| facts.iter().any(|fact| fact.contains(&format!("tea number {nth} "))))
    });
    assert!(gateway.stop().success());
}
