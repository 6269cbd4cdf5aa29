//! The control API, as the command line uses it.

use crate::agent_api::{Ending, Script, words};
use crate::client::{Api, Reply};
use serde_json::{Value, json};
use throughline_core::Content;
use throughline_core::command::Command;
use throughline_core::input::Kind;
use throughline_core::port::{Question, Update};
use throughline_core::route::Target;
use throughline_core::session::FailureKind;

impl Api {
    async fn line(&self, body: Value) -> Reply {
        self.post("/api/control/chat", body).await
    }
}

/// Each event's name and data.
fn told(reply: &Reply) -> Vec<(String, Value)> {
    assert_eq!(reply.header("content-type"), "text/event-stream", "{}", reply.text);
    let names = reply.text.lines().filter_map(|line| line.strip_prefix("event: ").map(str::to_owned));
    names.zip(reply.chunks()).collect()
}

#[tokio::test]
async fn a_line_begins_a_conversation_of_the_terminal() {
    let api = Api::new();
    let trouble = Update::Troubled("The model did not answer.".into());
    api.api.next(Script::says("Hello!").after(vec![
        words("Oh"),
        Update::Restarted,
        trouble,
        words("Hello!"),
    ]));
    let reply = api.line(json!({"text": "hi"})).await;
    let told = told(&reply);
    let session = told[0].1["session"].as_str().unwrap().to_owned();
    assert_eq!(
        told,
        [
            ("accepted".to_owned(), json!({"session": session, "seq": 1, "duplicate": false})),
            ("delta".to_owned(), json!({"text": "Oh"})),
            ("restarted".to_owned(), json!({})),
            ("troubled".to_owned(), json!({"message": "The model did not answer."})),
            ("delta".to_owned(), json!({"text": "Hello!"})),
            (
                "answer".to_owned(),
                json!({"text": "Hello!", "finish": "stop", "usage": {"input": 10, "output": 3, "cached": 2}})
            ),
        ]
    );
    let submission = api.api.last();
    assert_eq!(submission.target, Target::Fresh);
    assert_eq!(submission.kind, Kind::Chat(Content::text("hi")));
    assert_eq!(
        (submission.birth.source.as_str(), submission.birth.principal.as_deref()),
        ("cli", Some("cli"))
    );
    assert_eq!(api.api.state().written.len(), 1);
    api.line(json!({"text": "more", "session": session})).await;
    assert_eq!(api.api.last().target, Target::Session(session.parse().unwrap()));
    assert_eq!(api.api.last().birth.principal, None, "the owner speaks in any session there is");
}

#[tokio::test]
async fn p4_orders_are_recognised_and_need_no_session() {
    let api = Api::new();
    let first = api.line(json!({"text": "hi"})).await;
    let session = told(&first)[0].1["session"].clone();
    let reply = api.line(json!({"text": " /new ", "session": session})).await;
    let (name, data) = told(&reply).pop().unwrap();
    assert_eq!(name, "done");
    let Kind::Command(Command::New { successor }) = api.api.last().kind else { panic!("an order") };
    assert_eq!(data["successor"], successor.as_str());
    assert_eq!(api.line(json!({"text": "x", "session": session})).await.error().0, 409);
    let turns = api.api.turns();
    for (text, said) in [
        ("/help", "/status"),
        ("/status", "There is no conversation yet"),
        ("/kanban", "no command /kanban"),
        ("/new", "A new conversation has begun"),
    ] {
        let reply = api.line(json!({"text": text})).await;
        let (name, data) = told(&reply).pop().unwrap();
        assert_eq!(name, "done");
        assert!(data["said"].as_str().unwrap().contains(said), "{data}");
        assert_eq!(data["successor"].is_string(), text == "/new");
    }
    assert_eq!(api.api.turns(), turns, "nothing was stored for them");
    api.line(json!({"text": "/frobnicate it"})).await;
    let handed_in = api.api.last().kind;
    assert_eq!(
        handed_in,
        Kind::Chat(Content::text("/frobnicate it")),
        "the user may have named something so: the gateway knows"
    );
}

#[tokio::test]
async fn p7_a_line_sent_twice_under_one_key_is_one_message() {
    let api = Api::new();
    let body = json!({"text": "hi", "session": "mine", "key": "k"});
    api.line(body.clone()).await;
    let again = told(&api.line(body).await);
    assert_eq!((api.api.turns(), &again[0].1["duplicate"]), (1, &json!(true)));
    assert_eq!(again.last().unwrap().1["text"], "You said: hi");
    api.line(json!({"text": "hi", "session": "mine"})).await;
    assert_eq!(api.api.turns(), 2);
}

#[tokio::test]
async fn failures_and_stops_are_told() {
    let api = Api::new();
    api.api.next(Script::fails(FailureKind::Credentials, "The key is wrong."));
    assert_eq!(
        told(&api.line(json!({"text": "hi"})).await).pop().unwrap(),
        ("failed".into(), json!({"code": "model_credentials", "message": "The key is wrong."}))
    );
    api.api.next(Script { updates: vec![], ending: Ending::Interrupt, gate: None });
    assert_eq!(told(&api.line(json!({"text": "hi"})).await).pop().unwrap().0, "interrupted");
    assert!(api.api.state().written.is_empty());
    for body in [json!({}), json!({"text": " "}), json!({"text": 1}), json!({"text": "x", "session": "a/b"})]
    {
        assert_eq!(api.line(body.clone()).await.error().0, 400, "{body}");
    }
}

#[tokio::test]
async fn an_order_can_be_given_to_any_session() {
    let api = Api::new();
    api.chat_with(
        &[("x-hermes-session-id", "mine")],
        json!({"messages": [{"role": "user", "content": "hi"}]}),
    )
    .await;
    let order = |text: &str| json!({"command": text, "key": "k"});
    let reply = api.post("/api/sessions/mine/commands", order("/new")).await;
    let json = reply.json();
    assert!(json["successor"].is_string() && json["said"].is_string(), "{json}");
    assert_eq!(api.api.last().birth.principal, None);
    assert_eq!(
        api.post("/api/sessions/mine/commands", order("/new")).await.json(),
        json,
        "once, however often it is sent"
    );
    assert_eq!(api.post("/api/sessions/nobody/commands", order("/new")).await.error().0, 404);
    let restore = |name: &str| json!({"snapshot": name});
    for name in ["", "mine", "other.snapshot.20260528T093510000000Z"] {
        let refused = api.post("/api/sessions/mine/restore", restore(name)).await.error();
        assert_eq!(refused.0, 400, "{name:?} is no snapshot of that session");
    }
    for text in ["hello", "", "/frobnicate"] {
        assert_eq!(api.post("/api/sessions/mine/commands", order(text)).await.error().1, "unknown_command");
    }
}

#[tokio::test]
async fn p30_status_why_counts_and_check_answer() {
    let api = Api::new();
    api.api.state().status.running_turns = 3;
    let status = api.get("/api/control/status").await.json();
    assert_eq!(
        (&status["agent"], &status["model"], &status["running_turns"]),
        (&json!("main"), &json!("fake"), &json!(3))
    );
    assert_eq!(
        api.get("/api/control/counts").await.json()["data"],
        json!([{"name": "duplicate_dropped", "count": 2}])
    );
    assert_eq!(api.get("/api/control/check").await.json()["data"], json!([]));
    assert_eq!(api.get("/api/control/why?message=s1/1").await.json()["data"][0]["name"], "received");
    assert_eq!(api.get("/api/control/why?message=nobody").await.error().1, "message_not_found");
    assert_eq!(api.get("/api/control/why").await.error().0, 400);
    let response = api.post("/v1/responses", json!({"input": "hi"})).await;
    api.get(&format!("/api/control/why?message={}", response.json()["id"].as_str().unwrap())).await;
    let name = response.header("x-request-id").to_owned();
    assert_eq!(api.api.state().questions.last(), Some(&Question::Trace(name)));
}
