//! Servers of the Model Context Protocol: MCP's own reference servers behind the agent, and the agent
//! behind MCP.

use crate::gateway::{Client, Gateway, KEY, Place, Whole, free_port};
use crate::peers;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn results(client: &crate::gateway::Client, session: &str) -> Vec<String> {
    let rows = client.transcript(session);
    rows.into_iter().filter(|(role, _)| role == "tool").map(|(_, text)| text).collect()
}

#[test]
fn the_agent_calls_the_reference_servers_and_outlives_one_that_dies() {
    let (Some(everything), Some(filesystem)) =
        (peers::mcp_server("server-everything"), peers::mcp_server("server-filesystem"))
    else {
        return;
    };
    let place = Place::new();
    fs::create_dir_all(place.file("work")).unwrap();
    place.write("work/note.txt", "the note");
    let work = place.file("work").display().to_string();
    let node = peers::node();
    place.write(
        "home/config.yaml",
        format!(
            "terminal: {{cwd: {work}}}\nmcp_servers:\n  everything:\n    command: {node}\n    args: [{}, stdio]\n    \
             tools: {{include: [echo, get-sum]}}\n  files:\n    command: {node}\n    args: [{}, {work}]\n  dead:\n    command: \"false\"\n",
            everything.display(),
            filesystem.display()
        ),
    );
    let calls = json!([
        {"name": "mcp__everything__echo", "arguments": {"message": "over there"}},
        {"name": "mcp__files__read_text_file", "arguments": {"path": format!("{work}/note.txt")}},
        {"name": "mcp__everything__no_such_tool", "arguments": {}},
        {"name": "mcp__files__read_text_file", "arguments": {"path": "/etc/passwd"}},
    ]);
    let script = json!({"rules": [
        {"when": {"contains": "go", "result": false}, "call": calls},
        {"when": {"contains": "go", "result": true}, "say": "done"},
    ]});
    let gateway = place.rehearsing(&script).start();
    let answer: Whole = gateway.client.say("s", "go");
    assert!(answer.text().contains("done"), "{}", answer.text());
    let told = results(&gateway.client, "s");
    assert!(told[0].contains("over there"), "{told:?}");
    assert!(told[1].contains("the note"), "{told:?}");
    assert!(told[2].contains("no_such_tool"), "{told:?}");
    assert!(!told[3].contains("root:"), "{told:?}");
    let offered = place.asked()[0]["tools"].to_string();
    assert!(
        offered.contains("mcp__everything__get-sum") || offered.contains("mcp__everything__get_sum"),
        "{offered}"
    );
    assert!(!offered.contains("mcp__everything__long"), "only what is included: {offered}");

    // One of them dies: the other still answers, and so does the agent.
    let mut children = Command::new("pgrep");
    children.args(["-P", &gateway.pid().to_string(), "-f", "server-everything"]);
    let pid = String::from_utf8(children.output().unwrap().stdout).unwrap().trim().to_owned();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success(), "{pid:?}");
    assert!(gateway.client.say("s2", "go").text().contains("done"));
    let told = results(&gateway.client, "s2");
    assert!(told.len() == 4 && told[1].contains("the note"), "{told:?}");
    assert!(gateway.stop().success());

    // The same tools in the same order after a restart: the prefix holds.
    let gateway = place.rehearsing(&script).start();
    gateway.client.say("s", "again");
    let asked = place.asked();
    assert_eq!(asked[0]["tools"], asked.last().unwrap()["tools"]);
}

#[test]
fn mcp_serve_offers_sessions_search_and_sending() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("first", "where is the blue teapot?");
    let mut child = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(["--home", &place.home().display().to_string(), "mcp", "serve"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", place.file("user"))
        .env("API_SERVER_KEY", crate::gateway::KEY)
        .env("API_SERVER_PORT", gateway.client.address.port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{line}").unwrap();
        loop {
            let answer: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    };
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "spec", "version": "1"}});
    assert_eq!(ask(1, "initialize", hello)["result"]["serverInfo"]["name"], "throughline");
    let tools = ask(2, "tools/list", json!({}))["result"]["tools"].to_string();
    for name in ["conversations_list", "messages_read", "sessions_search", "conversation_send"] {
        assert!(tools.contains(name), "{tools}");
    }
    let mut call = |id: u64, name: &str, arguments: Value| {
        ask(id, "tools/call", json!({"name": name, "arguments": arguments}))["result"].to_string()
    };
    let found = call(3, "sessions_search", json!({"query": "teapot"}));
    assert!(found.contains("first"), "{found}");
    let said = call(4, "conversation_send", json!({"session_key": "first", "message": "and the red one?"}));
    assert!(said.contains("red one"), "{said}");
    let read = call(5, "messages_read", json!({"session_key": "first"}));
    assert!(read.contains("teapot") && read.contains("red one"), "{read}");
    assert!(gateway.client.transcript("first").len() == 4);
    drop(child.stdin.take());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listens(port: u16) {
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "no listener at {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// MCP's reference server, over HTTP.
fn everything_over_http() -> Option<(Running, u16)> {
    let script = peers::mcp_server("server-everything")?;
    let port = free_port();
    let mut command = Command::new(peers::node());
    command.arg(script).arg("streamableHttp").env("PORT", port.to_string());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listens(port);
    Some((Running(child), port))
}

#[test]
fn the_first_message_of_a_gateway_has_the_tools_of_a_server_behind_http_and_everybody_is_told_how_it_is() {
    let Some((server, port)) = everything_over_http() else { return };
    let place = Place::new();
    place.write(
        "home/config.yaml",
        format!(
            "mcp_servers:\n  far:\n    url: http://127.0.0.1:{port}/mcp\n    tools: {{include: [echo]}}\n  \
             dead:\n    command: no-such-program\n  off:\n    command: cat\n    enabled: false\n"
        ),
    );
    let echo = json!([{"name": "mcp__far__echo", "arguments": {"message": "over there"}}]);
    let script = json!({"rules": [
        {"when": {"contains": "again", "result": false}, "call": echo},
        {"when": {"contains": "again", "result": true}, "say": "done"},
    ]});
    let gateway = place.rehearsing(&script).start();
    gateway.client.say("s", "hello");
    let offered = place.asked()[0]["tools"].to_string();
    assert!(offered.contains("mcp__far__echo"), "{offered}");
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());

    let status = gateway.client.read("/api/status");
    let servers: Vec<(&str, &str)> = status["mcp_servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["name"].as_str().unwrap(), server["state"].as_str().unwrap()))
        .collect();
    assert_eq!((servers[0], servers[2]), (("far", "connected"), ("off", "off")));
    let (far, dead) = (&status["mcp_servers"][0], &status["mcp_servers"][1]);
    assert!(far["tools"].as_array().unwrap().contains(&json!("mcp__far__echo")), "{far}");
    assert!(far["error"].is_null() && far["next_try"].is_null(), "{far}");
    assert_eq!(dead["last_error"], "missing executable 'no-such-program'");
    assert!(dead["last_error_at"].is_number(), "{dead}");

    let run = |words: &[&str]| {
        let launch = words.iter().fold(place.launch(), |launch, word| launch.arg(*word));
        launch.at_port(gateway.client.address.port()).run()
    };
    let ended = run(&["status"]);
    assert!(!ended.status.success(), "a server that is away needs a person: {ended:?}");
    assert!(ended.stdout.contains("MCP server far: connected, "), "{ended:?}");
    assert!(ended.stdout.contains("MCP server dead: "), "{ended:?}");
    assert!(ended.stdout.contains("missing executable 'no-such-program'"), "{ended:?}");
    let ended = run(&["doctor"]);
    assert!(ended.stdout.contains("MCP server far: connected, "), "{ended:?}");
    let ended = run(&["mcp", "list"]);
    assert!(ended.status.success() && ended.stdout.contains("connected"), "{ended:?}");
    assert!(ended.stdout.contains("no-such-program"), "{ended:?}");
    let ended = run(&["mcp", "test", "far", "--call", "echo", "--arguments", r#"{"message": "hi"}"#]);
    assert!(ended.status.success() && ended.stdout.contains(r#"{"result": "Echo: hi"}"#), "{ended:?}");
    let ended = run(&["mcp", "test", "dead"]);
    assert!(!ended.status.success() && ended.stdout.contains("missing executable"), "{ended:?}");
    let ended = run(&["mcp", "test", "gone"]);
    assert!(ended.stderr.contains("no MCP server 'gone'; it names far, dead, off"), "{ended:?}");
    let ended = run(&["mcp", "login", "dead"]);
    assert!(!ended.status.success() && ended.stderr.contains("it has no login"), "{ended:?}");

    // It goes, and that is seen.
    drop(server);
    gateway.client.say("s", "again");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let far = gateway.client.read("/api/status")["mcp_servers"][0].clone();
        if far["state"] == "away" && far["next_try"].is_number() && far["error"].is_string() {
            break;
        }
        assert!(Instant::now() < until, "{far}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn p30_a_server_that_is_away_is_named_with_its_cause_wherever_people_look() {
    let place = Place::new();
    let port = free_port();
    place.write("home/config.yaml", format!("mcp_servers:\n  far:\n    url: http://127.0.0.1:{port}/mcp\n"));
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("s", "hello");
    let cause = format!("connection refused at 127.0.0.1:{port}: no program listens there");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let far = gateway.client.read("/api/status")["mcp_servers"][0].clone();
        if far["error"] == cause.as_str() && far["last_error"] == cause.as_str() {
            break;
        }
        assert!(Instant::now() < until, "{far}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let run = |words: &[&str]| {
        let launch = words.iter().fold(place.launch(), |launch, word| launch.arg(*word));
        launch.at_port(gateway.client.address.port()).run()
    };
    for words in [&["status"][..], &["doctor"], &["mcp", "list"], &["mcp", "test", "far"]] {
        let ended = run(words);
        assert!(ended.stdout.contains(&cause), "{words:?}: {ended:?}");
        assert!(!ended.stdout.contains("::"), "{words:?}: {ended:?}");
    }
    let ended = run(&["doctor"]);
    assert!(!ended.stdout.contains("nothing is wrong\n"), "{ended:?}");
    assert!(
        ended.stdout.contains("nothing is wrong with what it holds; the MCP server far is away\n"),
        "{ended:?}"
    );
}

/// Some servers have their key in the path. The library that speaks the protocol would write the whole address down.
#[test]
fn p31_the_address_of_a_server_that_is_away_is_in_no_log() {
    const KEY: &str = "canary-7731";
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}/{KEY}/mcp", free_port());
    place.write("home/config.yaml", format!("mcp_servers:\n  far:\n    url: {url}\n"));
    let gateway = place.rehearsing(&json!({})).start();
    let until = Instant::now() + Duration::from_secs(30);
    while !gateway.client.read("/api/status")["mcp_servers"][0]["error"].is_string() {
        assert!(Instant::now() < until, "it is never said to be away");
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = gateway.log();
    assert!(shown.contains("MCP server is away"), "{shown}");
    assert!(!shown.contains(KEY) && !shown.contains("rmcp::"), "{shown}");
    assert!(gateway.stop().success());
    let logs = std::fs::read_dir(place.file("home/logs")).unwrap();
    let files = logs.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let written: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(written.contains("MCP server is away"), "{written}");
    assert!(!written.contains(KEY) && !written.contains("rmcp"), "{written}");
}

/// Lists a tool with a name that is too long, and one that is not.
const LONG: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "long", "version": "1"}}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("brew", "pour" * 30)]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn p30_a_tool_name_that_is_cut_is_named_at_each_start_and_by_a_test_of_the_server() {
    let place = Place::new();
    let script = place.write("server.py", LONG).display().to_string();
    place.write(
        "home/config.yaml",
        format!("mcp_servers:\n  kettle: {{command: python3, args: ['{script}']}}\n"),
    );
    let launch = place.rehearsing(&json!({}));
    // At the second start the gateway remembers what the server offered at the first.
    for start in 1..=2 {
        let gateway = launch.start();
        gateway.client.say("s", "hello");
        let offered = place.asked().last().unwrap()["tools"].to_string();
        let (_, name) = offered.split_once("mcp__kettle__pour").unwrap();
        let name = format!("mcp__kettle__pour{}", name.split('"').next().unwrap());
        assert_eq!(name.len(), 64, "{name}");
        let remark = format!("is cut to 64 characters; it is called {name}");
        crate::gateway::until("the log names it", || gateway.log().matches(&remark).count() == start);
        if start == 2 {
            let test = place.launch().arg("mcp").arg("test").arg("kettle").run();
            assert!(test.stdout.contains(&remark), "{test:?}");
        }
        assert!(gateway.stop().success());
    }
}

/// `throughline mcp serve --http` for a gateway, and the port at which it listens.
fn served_over_http(place: &Place, gateway: &Gateway) -> (Running, u16) {
    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command
        .args(["--home", &place.home().display().to_string(), "mcp", "serve", "--http", &port.to_string()])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.file("user"))
        .env("API_SERVER_KEY", KEY)
        .env("API_SERVER_PORT", gateway.client.address.port().to_string());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    listens(port);
    (Running(child), port)
}

#[test]
fn p31_mcp_serve_over_http_answers_programs_with_the_key_and_no_web_page() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("first", "where is the blue teapot?");
    let (server, port) = served_over_http(&place, &gateway);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "spec", "version": "1"}}});
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let accept = ("accept", "application/json, text/event-stream");
    let ask = |key: &str, path: &str, headers: &[(&str, &str)], body: &Value| {
        Client::new(address, key).post(path, &[&[accept], headers].concat(), body).unwrap()
    };
    assert_eq!(ask("wrong", "/mcp", &[], &hello).status, 401);
    assert_eq!(ask(KEY, "/", &[], &hello).status, 404);
    for refused in [("origin", "https://evil.example"), ("origin", "null")] {
        assert_eq!(ask(KEY, "/mcp", &[refused], &hello).status, 403, "{refused:?}");
    }
    let mut stream = TcpStream::connect(address).unwrap();
    let body = hello.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\
         Accept: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        accept.1,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains(" 403 "), "{answer}");
    assert_eq!(ask(KEY, "/mcp", &[("origin", "http://localhost:6274")], &hello).status, 200);
    let began = ask(KEY, "/mcp", &[], &hello);
    assert_eq!(began.status, 200, "{}", began.text());
    assert!(began.text().contains(r#""name":"throughline""#), "{}", began.text());
    let session = began.header("mcp-session-id").to_owned();
    let session = [("mcp-session-id", session.as_str())];
    ask(KEY, "/mcp", &session, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let search = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "sessions_search", "arguments": {"query": "teapot"}}});
    let found = ask(KEY, "/mcp", &session, &search);
    assert!(found.text().contains("first"), "{}", found.text());
    drop(server);
}

#[test]
fn the_inspector_lists_and_calls_what_is_served_on_both_ways() {
    let Some(inspector) = peers::mcp_checker("inspector-cli") else { return };
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("first", "where is the blue teapot?");
    let (_server, port) = served_over_http(&place, &gateway);
    let inspect = |target: &[&str], words: &[&str]| {
        let mut command = Command::new(peers::node());
        // It looks for its own version beside where it is started.
        command
            .arg(inspector.join("build/cli.js"))
            .arg("--cli")
            .args(target)
            .args(words)
            .current_dir(inspector.join("build"));
        command.env("API_SERVER_KEY", KEY).env("API_SERVER_PORT", gateway.client.address.port().to_string());
        let output = command.output().unwrap();
        let (said, wrong) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}{wrong}");
        said.into_owned()
    };
    let url = format!("http://127.0.0.1:{port}/mcp");
    let key = format!("Authorization: Bearer {KEY}");
    let home = place.home().display().to_string();
    let (api_key, api_port) =
        (format!("API_SERVER_KEY={KEY}"), format!("API_SERVER_PORT={}", gateway.client.address.port()));
    let program = env!("CARGO_BIN_EXE_throughline");
    let targets: [&[&str]; 2] = [
        &[&url, "--transport", "http", "--header", &key],
        &["-e", &api_key, "-e", &api_port, program, "--home", &home, "mcp", "serve"],
    ];
    for target in targets {
        let listed: Value = serde_json::from_str(&inspect(target, &["--method", "tools/list"])).unwrap();
        assert_eq!(listed["tools"].as_array().unwrap().len(), 10, "{listed}");
        let call = ["--method", "tools/call", "--tool-name", "sessions_search", "--tool-arg", "query=teapot"];
        let found = inspect(target, &call);
        assert!(found.contains("first"), "{found}");
    }
}

/// Which scenarios a run of the conformance suite passed, of those that it names.
fn conformance(words: &[&str], scenario: &str) -> Result<(), String> {
    let suite = peers::mcp_checker("conformance").expect("the caller has looked").join("dist/index.js");
    let place = Place::new();
    let mut command = Command::new(peers::node());
    command.arg("--import").arg(peers::root().join("tests/peers/fs_with_glob.mjs"));
    command.arg(suite).args(words).args(["--scenario", scenario]).current_dir(place.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{scenario}:\n{said}")) }
}

/// What the suite's own client and server would be asked for, and is none of ours: see docs/mcp.md.
const CLIENT_SCENARIOS: [&str; 21] = [
    "initialize",
    "tools_call",
    "sse-retry",
    "elicitation-sep1034-client-defaults",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
];

#[test]
fn the_client_passes_the_conformance_suite_of_mcp() {
    if peers::mcp_checker("conformance").is_none() {
        return;
    }
    let client = peers::root().join("tests/peers/mcp_conformance_client");
    let command = format!("{} {}", client.display(), env!("CARGO_BIN_EXE_throughline"));
    let run = |scenario: &&str| conformance(&["client", "--command", &command], scenario).err();
    // Two at a time: each is Node, Python and the binary, and waits more than it works.
    let (first, second) = CLIENT_SCENARIOS.split_at(CLIENT_SCENARIOS.len() / 2);
    let failed: Vec<String> = std::thread::scope(|threads| {
        let other = threads.spawn(|| second.iter().filter_map(run).collect::<Vec<_>>());
        first.iter().filter_map(run).chain(other.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn the_server_passes_the_conformance_suite_of_mcp() {
    if peers::mcp_checker("conformance").is_none() {
        return;
    }
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    let (_server, port) = served_over_http(&place, &gateway);
    let mut command = Command::new(peers::node());
    command.arg(peers::root().join("tests/peers/mcp_with_key.mjs")).args([&port.to_string(), KEY]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _proxy = Running(child);
    let url = format!("http://127.0.0.1:{}/mcp", line.trim());
    let scenarios =
        ["server-initialize", "ping", "tools-list", "logging-set-level", "dns-rebinding-protection"];
    let failed: Vec<String> = scenarios
        .iter()
        .filter_map(|scenario| conformance(&["server", "--url", &url], scenario).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
