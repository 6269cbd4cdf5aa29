//! P4 with the real binary: what people do to the past of a conversation, through a `kill -9`, and what the real
//! Hermes sees of it afterwards.

use crate::gateway::{Client, Place};
use crate::peers;
use serde_json::{Value, json};

const TALK: &str = "20260528_093510_66bfaec7";

/// Orders something, and says what came of it and where the conversation goes on.
fn orders(client: &Client, session: &str, order: &str) -> (String, Option<String>) {
    let path = format!("/api/sessions/{session}/commands");
    let answer = client.post(&path, &[], &json!({"command": order})).unwrap();
    assert_eq!(answer.status, 200, "{order}: {}", answer.text());
    let answer = answer.json();
    (answer["said"].as_str().unwrap().to_owned(), answer["successor"].as_str().map(str::to_owned))
}

fn users(client: &Client, session: &str) -> Vec<String> {
    let rows = client.transcript(session).into_iter();
    rows.filter(|(role, _)| role == "user").map(|(_, text)| text).collect()
}

fn call(method: &str, arguments: Value) -> Value {
    json!([method, arguments, {}])
}

/// Speaks as much of the Model Context Protocol as is needed to offer one tool.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
            "tools/list": {"tools": [{"name": "brew", "inputSchema": {"type": "object"}}]}}.get(asked.get("method"), {})
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
"#;

#[test]
fn p4_commands_name_skills_and_reload_mcp_says_what_it_found() {
    let place = Place::new();
    let server = place.write("server.py", SERVER).display().to_string();
    place.write(
        "home/skills/kitchen/tea-time/SKILL.md",
        "---\nname: tea-time\ndescription: How tea is made here.\n---\nBoil water.\n",
    );
    let gateway = place.rehearsing(&json!({})).start();
    let client = &gateway.client;
    client.say(TALK, "Hello.");
    let listed: String =
        ["/commands", "/commands 2"].iter().map(|order| orders(client, TALK, order).0).collect();
    assert!(listed.contains("/tea-time: How tea is made here."), "{listed}");
    let (said, _) = orders(client, TALK, "/reload-mcp");
    assert!(said.contains("no MCP servers"), "{said}");
    place.write(
        "home/config.yaml",
        format!(
            "mcp_servers:\n  kettle: {{command: python3, args: ['{server}']}}\n  dead: {{command: 'false'}}\n"
        ),
    );
    let (said, _) = orders(client, TALK, "/reload-mcp");
    assert!(said.contains("1 of 2 MCP servers are connected"), "{said}");
    assert!(said.contains("kettle: mcp__kettle__brew") && said.contains("dead: not reached"), "{said}");
    client.say(TALK, "And now?");
    let offered = place.asked().last().unwrap()["tools"].to_string();
    assert!(offered.contains("mcp__kettle__brew"), "{offered}");
    place.write("home/config.yaml", "mcp_servers: [");
    let (said, _) = orders(client, TALK, "/reload-mcp");
    assert!(said.contains("Nothing was changed"), "{said}");
    assert!(gateway.stop().success());
}

#[test]
fn p4_the_past_of_a_conversation_survives_a_kill_and_is_what_hermes_sees() {
    let place = Place::new();
    let launch = place.launch();
    let gateway = launch.start();
    let client = &gateway.client;
    for text in ["Pack the tent.", "And the stove.", "And the piano."] {
        client.say(TALK, text);
    }
    let (said, _) = orders(client, TALK, "/title  The\u{200b}  trip ");
    assert!(said.contains("\"The trip\""), "{said}");
    let (said, _) = orders(client, TALK, "/undo");
    assert!(said.ends_with("And the piano.") && said.contains("2 rows; 4 remain"), "{said}");
    assert_eq!(users(client, TALK), ["Pack the tent.", "And the stove."]);
    let (said, _) = orders(client, TALK, "/kanban");
    assert!(said.contains("no command /kanban"), "{said}");
    gateway.kill();

    let gateway = launch.start();
    let client = &gateway.client;
    assert_eq!(
        users(client, TALK),
        ["Pack the tent.", "And the stove."],
        "what was taken back stays taken back"
    );
    let (said, copy) = orders(client, TALK, "/branch");
    let copy = copy.expect("a copy has an id");
    assert!(said.contains("\"The trip #2\"") && said.contains(&copy) && said.contains(TALK), "{said}");
    client.say(&copy, "And a canoe.");
    let (said, back) = orders(client, &copy, "/resume The trip #3");
    assert!(back.is_none() && said.contains("No conversation of yours"), "{said}");
    let (_, back) = orders(client, &copy, &format!("/resume {TALK}"));
    assert_eq!(back.as_deref(), Some(TALK));
    client.say(TALK, "No stove after all.");
    assert_eq!(users(client, TALK), ["Pack the tent.", "And the stove.", "No stove after all."]);
    assert_eq!(users(client, &copy), ["Pack the tent.", "And the stove.", "And a canoe."]);
    assert!(gateway.stop().success());

    for hermes in peers::hermes() {
        let results = hermes.does(
            &place.home(),
            &[
                call("get_messages_as_conversation", json!([TALK])),
                call("get_messages_as_conversation", json!([copy])),
                call("get_session", json!([TALK])),
                call("get_session", json!([copy])),
                call("resolve_session_by_title", json!(["The trip"])),
            ],
        );
        let [talk, branch, session, copied, by_title] = results.as_slice() else { unreachable!() };
        let said = |rows: &Value| -> Vec<String> {
            let rows = rows.as_array().unwrap().iter().filter(|row| row["role"] == "user");
            rows.map(|row| row["content"].as_str().unwrap().to_owned()).collect()
        };
        println!("Hermes {}", hermes.version);
        if hermes.version.starts_with("0.19") {
            assert_eq!(said(talk), ["Pack the tent.", "And the stove.", "No stove after all."]);
            assert_eq!(said(branch), ["Pack the tent.", "And the stove.", "And a canoe."]);
        }
        assert_eq!((&session["title"], &session["ended_at"]), (&json!("The trip"), &Value::Null));
        assert_eq!((&copied["title"], &copied["parent_session_id"]), (&json!("The trip #2"), &json!(TALK)));
        assert_eq!(copied["end_reason"], "session_switch");
        assert_eq!(by_title, &json!(copy), "the newest of a lineage");
    }
}

#[test]
fn p4_what_the_user_has_named_is_a_command() {
    let place = Place::new();
    place.write(
        "home/config.yaml",
        "quick_commands:\n  uptime:\n    type: exec\n    command: echo up since ever\n  fresh:\n    type: alias\n    target: /status\n",
    );
    let gateway = place.launch().start();
    let client = &gateway.client;
    client.say(TALK, "Hello.");
    let said = |text: &str| {
        let body = json!({"text": text, "session": TALK});
        client.post("/api/control/chat", &[], &body).unwrap().text()
    };
    assert!(said("/uptime").contains("up since ever"));
    let status = orders(client, TALK, "/status").0;
    let first = status.lines().next().unwrap();
    assert!(said("/fresh").contains(first), "an alias is what it stands for: {first}");
    assert!(said("/frobnicate").contains("There is no command /frobnicate"));
    let said: String =
        ["/commands", "/commands 2"].iter().map(|order| orders(client, TALK, order).0).collect();
    assert!(said.contains("/uptime") && said.contains("/branch"), "{said}");
    let (said, _) = orders(client, TALK, "/model no-such-model");
    assert!(said.contains("Nothing was changed"), "{said}");
}
