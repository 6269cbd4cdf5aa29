//! Our own server, asked by the library's client and by the official client for Node.

use crate::common::package;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::time::Time;
use throughline_mcp::serve::{
    OpenQuestion, QuestionDecision, SearchHit, SendOutcome, ServedAttachment, ServedConversation,
    ServedMessage, ServedSpeaker, Surface, SurfaceAnswer, SurfaceError, serve_on,
};

/// A gateway with one conversation, whose agent says everything twice.
#[derive(Default)]
struct Parrot {
    said: Mutex<Vec<ServedMessage>>,
    open: Mutex<Vec<OpenQuestion>>,
    decided: Mutex<Vec<(String, QuestionDecision)>>,
}

const KEY: &str = "agent:main:cli:dm:me";

impl Parrot {
    fn hears(&self, speaker: ServedSpeaker, text: &str) {
        let mut said = self.said.lock().unwrap();
        let count = said.len() as i64 + 1;
        said.push(ServedMessage {
            id: count.to_string(),
            speaker,
            text: text.to_owned(),
            at: Time(count * 1_000_000),
            attachments: Vec::new(),
        });
    }
}

impl Surface for Parrot {
    fn conversations(&self) -> SurfaceAnswer<'_, Vec<ServedConversation>> {
        Box::pin(async {
            let one = ServedConversation {
                session_key: KEY.to_owned(),
                session_id: "20260101_000000_abcdef01".to_owned(),
                platform: "cli".to_owned(),
                display_name: "Me at Home".to_owned(),
                updated_at: Time(self.said.lock().unwrap().len() as i64 * 1_000_000),
                input_tokens: 3,
                output_tokens: 4,
                ..ServedConversation::default()
            };
            let other = ServedConversation {
                session_key: "other".to_owned(),
                platform: "telegram".to_owned(),
                ..ServedConversation::default()
            };
            Ok(vec![other, one])
        })
    }

    fn said<'a>(&'a self, session_key: &'a str) -> SurfaceAnswer<'a, Vec<ServedMessage>> {
        Box::pin(async move {
            match session_key {
                KEY => Ok(self.said.lock().unwrap().clone()),
                "other" => Ok(Vec::new()),
                _ => Err(SurfaceError::NotFound(session_key.to_owned())),
            }
        })
    }

    fn search<'a>(&'a self, query: &'a str, limit: usize) -> SurfaceAnswer<'a, Vec<SearchHit>> {
        Box::pin(async move {
            let said = self.said.lock().unwrap();
            let found = said.iter().filter(|one| one.text.contains(query)).take(limit);
            let found = found.map(|one| SearchHit {
                session_key: KEY.to_owned(),
                message_id: one.id.clone(),
                excerpt: one.text.clone(),
                ..SearchHit::default()
            });
            Ok(found.collect())
        })
    }

    fn say<'a>(
        &'a self,
        session_key: Option<&'a str>,
        text: &'a str,
        _once: Option<&'a str>,
        patience: Duration,
    ) -> SurfaceAnswer<'a, SendOutcome> {
        Box::pin(async move {
            if session_key.is_some_and(|key| key != KEY) {
                return Err(SurfaceError::NotFound("there is no such session".to_owned()));
            }
            let (session_key, session_id) = (KEY.to_owned(), "20260101_000000_abcdef01".to_owned());
            self.hears(ServedSpeaker::User, text);
            if patience.is_zero() {
                return Ok(SendOutcome::Working { session_key, session_id });
            }
            let text = format!("{text} {text}");
            self.hears(ServedSpeaker::Assistant, &text);
            Ok(SendOutcome::Answered { session_key, session_id, text })
        })
    }

    fn questions(&self) -> SurfaceAnswer<'_, Vec<OpenQuestion>> {
        Box::pin(async { Ok(self.open.lock().unwrap().clone()) })
    }

    fn decide<'a>(&'a self, question: &'a str, decision: QuestionDecision) -> SurfaceAnswer<'a, ()> {
        Box::pin(async move {
            let mut open = self.open.lock().unwrap();
            let before = open.len();
            open.retain(|one| one.id != question);
            if open.len() == before {
                return Err(SurfaceError::NotFound(question.to_owned()));
            }
            self.decided.lock().unwrap().push((question.to_owned(), decision));
            Ok(())
        })
    }
}

async fn asked(surface: Arc<Parrot>) -> RunningService<RoleClient, ()> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(serve_on(surface, input, output));
    ().serve(theirs).await.unwrap()
}

/// What a tool answered, and whether it called it an error.
async fn ask(client: &RunningService<RoleClient, ()>, name: &'static str, arguments: Value) -> (Value, bool) {
    let params = CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
    let result = client.call_tool(params).await.unwrap();
    let ContentBlock::Text(text) = &result.content[0] else { panic!("{result:?} is no text") };
    match result.is_error {
        Some(true) => (json!(text.text), true),
        _ => (serde_json::from_str(&text.text).unwrap(), false),
    }
}

#[tokio::test]
async fn conversations_are_listed_read_and_searched() {
    let surface = Arc::new(Parrot::default());
    surface.hears(ServedSpeaker::User, "hello MEDIA:/tmp/a.png there");
    surface.said.lock().unwrap()[0].attachments =
        vec![ServedAttachment { kind: "image".to_owned(), url: "https://x/y.png".to_owned() }];
    surface.hears(ServedSpeaker::Assistant, &"long ".repeat(1000));
    let client = asked(surface).await;
    let tools: Vec<String> =
        client.list_all_tools().await.unwrap().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(
        tools,
        [
            "conversations_list",
            "conversation_get",
            "messages_read",
            "attachments_fetch",
            "sessions_search",
            "conversation_send",
            "events_poll",
            "events_wait",
            "permissions_list_open",
            "permissions_respond"
        ]
    );
    let (listed, _) = ask(&client, "conversations_list", json!({})).await;
    assert_eq!(listed["count"], 2);
    assert_eq!(listed["conversations"][0]["session_key"], KEY, "the latest first");
    assert_eq!(listed["conversations"][0]["updated_at"], "1970-01-01T00:00:02Z");
    let (listed, _) =
        ask(&client, "conversations_list", json!({"platform": "CLI", "search": "at home"})).await;
    assert_eq!(listed["count"], 1);
    let (listed, _) = ask(&client, "conversations_list", json!({"limit": "1"})).await;
    assert_eq!(listed["count"], 1);
    let (one, _) = ask(&client, "conversation_get", json!({"session_key": KEY})).await;
    assert_eq!(one["total_tokens"], 7);
    let (read, _) = ask(&client, "messages_read", json!({"session_key": KEY, "limit": 1})).await;
    assert_eq!((&read["count"], &read["total_in_session"]), (&json!(1), &json!(2)));
    assert_eq!(read["messages"][0]["content"].as_str().unwrap().len(), 2000);
    let (parts, _) = ask(&client, "attachments_fetch", json!({"session_key": KEY, "message_id": "1"})).await;
    assert_eq!(
        parts["attachments"],
        json!([{"type": "image", "url": "https://x/y.png"}, {"type": "media", "path": "/tmp/a.png"}])
    );
    let (found, _) = ask(&client, "sessions_search", json!({"query": "hello"})).await;
    assert_eq!(found["results"][0]["message_id"], "1");
}

#[tokio::test]
async fn what_goes_wrong_is_said_in_words() {
    let client = asked(Arc::new(Parrot::default())).await;
    for (tool, arguments, expected) in [
        ("conversation_get", json!({"session_key": "x"}), "Conversation not found: x"),
        ("messages_read", json!({"session_key": "x"}), "Conversation not found: x"),
        ("messages_read", json!({}), "Missing required parameter 'session_key'"),
        ("attachments_fetch", json!({"session_key": KEY, "message_id": "9"}), "Message not found: 9"),
        ("permissions_respond", json!({"id": "1", "decision": "deny"}), "Approval not found: 1"),
        (
            "permissions_respond",
            json!({"id": "1", "decision": "maybe"}),
            "Invalid decision: maybe. Must be allow-once, allow-always, or deny",
        ),
    ] {
        assert_eq!(ask(&client, tool, arguments).await, (json!(expected), true), "{tool}");
    }
    // Without a platform there is nothing to send to, and no tool that would.
    assert!(client.call_tool(CallToolRequestParams::new("messages_send")).await.is_err());
}

#[tokio::test]
async fn a_message_is_answered_or_kept_and_its_events_follow() {
    let surface = Arc::new(Parrot::default());
    surface.hears(ServedSpeaker::User, "before");
    let client = asked(surface.clone()).await;
    let (polled, _) = ask(&client, "events_poll", json!({})).await;
    assert_eq!(polled, json!({"events": [], "next_cursor": 0}), "what was there is no news");
    let (sent, _) = ask(&client, "conversation_send", json!({"session_key": KEY, "message": "hi"})).await;
    assert_eq!((&sent["status"], &sent["answer"]), (&json!("answered"), &json!("hi hi")));
    let (polled, _) = ask(&client, "events_poll", json!({"session_key": KEY})).await;
    let events: Vec<_> =
        polled["events"].as_array().unwrap().iter().map(|event| event["content"].clone()).collect();
    assert_eq!((events, &polled["next_cursor"]), (vec![json!("hi"), json!("hi hi")], &json!(2)));
    let (kept, _) = ask(&client, "conversation_send", json!({"message": "later", "timeout_ms": 0})).await;
    assert_eq!(kept["status"], "working");
    let (waited, _) = ask(&client, "events_wait", json!({"after_cursor": 2})).await;
    assert_eq!(waited["event"]["content"], "later");
    let (waited, _) = ask(&client, "events_wait", json!({"after_cursor": 3, "timeout_ms": 100})).await;
    assert_eq!(waited, json!({"event": null, "reason": "timeout"}));
}

#[tokio::test]
async fn a_question_of_the_agent_is_seen_and_answered() {
    let surface = Arc::new(Parrot::default());
    let client = asked(surface.clone()).await;
    let question = OpenQuestion {
        id: "7".into(),
        session_key: KEY.into(),
        what: "rm -r x".into(),
        ..OpenQuestion::default()
    };
    surface.open.lock().unwrap().push(question);
    let (open, _) = ask(&client, "permissions_list_open", json!({})).await;
    assert_eq!((&open["count"], &open["approvals"][0]["what"]), (&json!(1), &json!("rm -r x")));
    let (event, _) = ask(&client, "events_wait", json!({})).await;
    assert_eq!(
        (&event["event"]["type"], &event["event"]["approval_id"]),
        (&json!("approval_requested"), &json!("7"))
    );
    let (answered, _) =
        ask(&client, "permissions_respond", json!({"id": "7", "decision": "allow-once"})).await;
    assert_eq!(answered, json!({"resolved": true, "approval_id": "7", "decision": "allow-once"}));
    assert_eq!(*surface.decided.lock().unwrap(), [("7".to_owned(), QuestionDecision::AllowOnce)]);
    let (event, _) = ask(&client, "events_wait", json!({"after_cursor": 1})).await;
    assert_eq!(event["event"]["type"], "approval_resolved");
}

const SDK: &str = r#"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
// The SDK starts a program and speaks to its pipes; this one carries them to our port.
const pipes = "const s = require('net').connect(+process.argv[1], '127.0.0.1'); process.stdin.pipe(s); s.pipe(process.stdout)";
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command: process.execPath, args: ["-e", pipes, process.argv[2]] }));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const sent = await client.callTool({ name: "conversation_send", arguments: { message: "hi" } });
const wrong = await client.callTool({ name: "conversation_get", arguments: { session_key: "x" } });
console.log(JSON.stringify({ server: client.getServerVersion().name, tools, sent, wrong }));
await client.close();
"#;

#[tokio::test]
async fn the_official_client_for_node_understands_us() {
    let Some(package) = package("@modelcontextprotocol/sdk") else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let (input, output) = tokio::io::split(socket);
        serve_on(Arc::new(Parrot::default()), input, output).await
    });
    // Modules are found from where a script lies.
    let home = tempfile::tempdir_in(package.parent().unwrap().parent().unwrap().parent().unwrap()).unwrap();
    let script = home.path().join("client.mjs");
    std::fs::write(&script, SDK).unwrap();
    let mut command = tokio::process::Command::new("node");
    command.arg(script).arg(port.to_string()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.unwrap().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).expect("the client prints what it saw");
    assert_eq!(seen["server"], "throughline");
    assert_eq!(seen["tools"].as_array().unwrap().len(), 10);
    let sent: Value = serde_json::from_str(seen["sent"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(sent["answer"], "hi hi");
    assert_eq!(seen["wrong"]["isError"], true);
    tokio::time::timeout(Duration::from_secs(10), served).await.unwrap().unwrap().unwrap();
}
