//! Servers of the Model Context Protocol: MCP's own reference servers behind the agent, and the agent
//! behind MCP.

use crate::gateway::{Place, Whole};
use crate::peers;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

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
