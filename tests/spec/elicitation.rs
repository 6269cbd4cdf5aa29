//! MCP servers that ask people, with the real binary: who is asked, where, and what becomes of it.

use crate::gateway::{Client, Gateway, Launch, Place};
use serde_json::{Value, json};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Asks for a number, and returns what it heard. What it was asked, it writes down.
const SERVER: &str = r#"
import json, os, sys
def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
              "serverInfo": {"name": "t", "version": "1"}}})
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "book", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        calling = id
        send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "How many seats?",
              "requestedSchema": {"type": "object", "properties": {"seats": {"type": "integer", "minimum": 1, "maximum": 9}},
                                  "required": ["seats"]}}})
    elif id == "q":
        open(sys.argv[1], "a").write(json.dumps(message["result"]) + "\n")
        text = json.dumps(message["result"], sort_keys=True)
        send({"jsonrpc": "2.0", "id": calling, "result": {"content": [{"type": "text", "text": "heard " + text}]}})
    elif method == "ping":
        send({"jsonrpc": "2.0", "id": id, "result": {}})
"#;

fn launch(place: &Place) -> Launch {
    let server = place.write("server.py", SERVER);
    let heard = place.file("heard");
    place.write(
        "home/config.yaml",
        format!(
            "mcp_servers:\n  travel:\n    command: python3\n    args: [-B, {}, {}]\n",
            server.display(),
            heard.display()
        ),
    );
    place.rehearsing(&json!({"rules": [
        {"when": {"contains": "book", "result": false}, "call": [{"name": "mcp__travel__book", "arguments": {}}]},
        {"when": {"result_contains": "accept"}, "say": "booked"},
        {"when": {"result_contains": "decline"}, "say": "declined"},
        {"when": {"result_contains": "cancel"}, "say": "cancelled"},
        {"when": {"result": true}, "say": "unknown"},
    ]}))
}

fn asking(client: &Client, session: &'static str) -> JoinHandle<Option<String>> {
    let client = client.clone();
    thread::spawn(move || {
        let headers = [("X-Throughline-Approvals", "ask"), ("X-Hermes-Session-Id", session)];
        let body = json!({"messages": [{"role": "user", "content": "book"}]});
        client.chat(&headers, &body).ok().map(|reply| reply.said())
    })
}

/// What is asked now, once something is.
fn asked(gateway: &Gateway, is_new: impl Fn(&str) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let asked = gateway.client.read("/api/approvals")["data"][0].clone();
        if asked["id"].as_str().is_some_and(&is_new) {
            return asked;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was asked");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn p31_a_server_that_asks_is_answered_by_the_person_of_the_session_and_once() {
    let place = Place::new();
    let gateway = launch(&place).start();
    // No client said that it can answer, and no owner is there: the server hears no at once.
    let began = Instant::now();
    let body = json!({"messages": [{"role": "user", "content": "book"}]});
    assert_eq!(gateway.client.chat(&[], &body).unwrap().said(), "declined");
    assert!(began.elapsed() < Duration::from_secs(30), "it does not wait for absent people");

    let held = asking(&gateway.client, "ada");
    let first = asked(&gateway, |_| true);
    assert_eq!((&first["kind"], &first["server"]), (&json!("elicitation"), &json!("travel")));
    assert_eq!(first["session"], "ada");
    let text = first["text"].as_str().unwrap();
    assert!(
        text.contains("The MCP server \"travel\" asks you") && text.contains("> How many seats?"),
        "{text}"
    );
    let decide = |id: &str, body: &Value| {
        gateway.client.post(&format!("/api/approvals/{}", id.replace('~', "%7E")), &[], body).unwrap()
    };
    let id = first["id"].as_str().unwrap();
    assert!(decide(id, &json!({"decision": "approve"})).status >= 400, "it is no leave that is asked for");
    // An answer that is none is asked for again; the first question is over.
    assert_eq!(decide(id, &json!({"answer": "many"})).status, 200);
    let second = asked(&gateway, |asked| asked != id);
    assert!(second["text"].as_str().unwrap().contains("not what is asked for"), "{second}");
    assert!(decide(id, &json!({"answer": "4"})).status >= 400, "a question is answered once");
    assert_eq!(decide(second["id"].as_str().unwrap(), &json!({"answer": "7"})).status, 200);
    assert_eq!(held.join().unwrap().as_deref(), Some("booked"));
    let heard = std::fs::read_to_string(place.file("heard")).unwrap();
    let heard: Vec<Value> = heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(heard, [json!({"action": "decline"}), json!({"action": "accept", "content": {"seats": 7}})]);

    let held = asking(&gateway.client, "bob");
    let third = asked(&gateway, |_| true);
    assert_eq!(decide(third["id"].as_str().unwrap(), &json!({"decision": "deny"})).status, 200);
    assert_eq!(held.join().unwrap().as_deref(), Some("declined"));
    assert!(!gateway.log().contains("seats\":"), "what was answered is not logged");
    assert!(gateway.stop().success());
}

#[test]
fn p9_kill_9_while_a_server_asks_ends_its_call_and_nothing_is_answered_later() {
    let place = Place::new();
    let launch = launch(&place);
    let gateway = launch.start();
    let held = asking(&gateway.client, "ada");
    let first = asked(&gateway, |_| true);
    gateway.kill();
    assert_eq!(held.join().unwrap(), None);
    let gateway = launch.start();
    let began = Instant::now();
    let said = loop {
        let rows = gateway.client.transcript("ada");
        if let Some((role, text)) = rows.last()
            && role == "assistant"
            && !text.is_empty()
        {
            break text.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{rows:?}");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(said, "unknown", "the call is of unknown outcome");
    assert_eq!(gateway.client.read("/api/approvals")["data"], json!([]));
    let path = format!("/api/approvals/{}", first["id"].as_str().unwrap().replace('~', "%7E"));
    assert!(gateway.client.post(&path, &[], &json!({"answer": "7"})).unwrap().status >= 400);
    assert!(!place.file("heard").exists(), "the server heard nothing");
    assert!(gateway.stop().success());
}

/// No person is asked on behalf of a task.
#[test]
fn p31_a_task_is_refused_at_once_what_needs_a_yes() {
    let place = Place::new();
    place.write("home/config.yaml", "approvals: {mode: manual}\n");
    let delegate = json!([{"name": "delegate_task", "arguments": {"goal": "clean the place"}}]);
    let remove = json!([{"name": "terminal", "arguments": {"command": "rm -rf nothing-there"}}]);
    let gateway = place
        .rehearsing(&json!({"rules": [
            {"when": {"contains": "tidy", "result": false}, "call": delegate},
            {"when": {"contains": "clean the place", "result": false}, "call": remove},
            {"when": {"result_contains": "User denied this command"}, "say": "I may not."},
            {"when": {"result_contains": "I may not."}, "say": "It was not allowed."},
        ]}))
        .start();
    let began = Instant::now();
    let body = json!({"messages": [{"role": "user", "content": "tidy up"}]});
    assert_eq!(gateway.client.chat(&[], &body).unwrap().said(), "It was not allowed.");
    assert!(began.elapsed() < Duration::from_secs(30), "it does not wait 60 s for absent people");
    gateway.stop();
}
