//! What tools ask, over the API; and tools at work in a stream.

use crate::agent_api::{Script, words};
use crate::client::Api;
use serde_json::{Value, json};
use std::time::Duration;
use throughline_core::port::{CallId, Pending, Update};
use throughline_core::tool::{Ask, Grant, Question, Verdict};
use throughline_core::{Seq, Time, TurnId};

fn pending(index: usize, question: Question) -> Pending {
    let call = CallId { session: "s".parse().unwrap(), turn: TurnId(Seq(1)), step: 0, index, question: 0 };
    let asked = Time(1_000_000);
    Pending {
        call,
        tool: "terminal".into(),
        ask: Ask { question, asked, until: asked.plus(Duration::from_secs(60)) },
    }
}

fn approval(index: usize) -> Pending {
    let patterns = vec!["recursive delete".into()];
    pending(index, Question::Approval { what: "rm -r x".into(), why: "recursive delete".into(), patterns })
}

#[tokio::test]
async fn p31_what_waits_for_a_person_is_listed_and_answered_once() {
    let api = Api::new();
    let clarify = Question::Clarify { question: "which?".into(), choices: vec!["a".into()] };
    api.api.state().asks = vec![approval(0), pending(1, clarify)];
    let list = api.get("/api/approvals").await.json();
    assert_eq!(list["data"][0]["id"], "s/1/0/0");
    assert_eq!(list["data"][0]["command"], "rm -r x");
    assert_eq!(list["data"][0]["expires_at"], 61.0);
    assert_eq!((&list["data"][1]["kind"], &list["data"][1]["choices"]), (&json!("clarify"), &json!(["a"])));

    let decided =
        api.post("/api/approvals/s/1/0/0", json!({"decision": "approve", "scope": "session"})).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    let said = api.post("/api/approvals/s/1/0/1", json!({"answer": "a"})).await;
    assert_eq!(said.status, 200, "{}", said.text);
    let verdicts: Vec<_> = api.api.state().decided.iter().map(|(_, verdict)| verdict.clone()).collect();
    assert_eq!(verdicts, [Verdict::Granted(Grant::Session), Verdict::Said("a".into())]);
    let again = api.post("/api/approvals/s/1/0/0", json!({"decision": "deny"})).await;
    assert_eq!(again.status, 404, "{}", again.text);
}

#[tokio::test]
async fn p31_an_unclear_answer_decides_nothing() {
    let api = Api::new();
    api.api.state().asks = vec![approval(0)];
    for (path, body) in [
        ("/api/approvals/s/1/0/0", json!({"decision": "maybe"})),
        ("/api/approvals/s/1/0/0", json!({})),
        ("/api/approvals/s/1/0/0", json!({"decision": "approve", "answer": "yes"})),
        ("/api/approvals/s/1/0/0", json!({"decision": "approve", "scope": "world"})),
        ("/api/approvals/s", json!({"decision": "approve"})),
        ("/api/approvals/s/x/0/0", json!({"decision": "approve"})),
    ] {
        let reply = api.post(path, body.clone()).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.text);
    }
    assert!(api.api.state().decided.is_empty());
}

#[tokio::test]
async fn a_stream_tells_of_tools_to_whoever_asks_for_it_and_ends_in_the_answer_alone() {
    let api = Api::new();
    let calling =
        Update::Calling { id: "c1".into(), tool: "terminal".into(), arguments: r#"{"command":"ls"}"#.into() };
    let called = Update::Called { id: "c1".into(), tool: "terminal".into() };
    let on_the_way =
        vec![words("Let me look."), calling, Update::Asked(approval(0)), called, words("Two files.")];
    api.api.next(Script::says("Two files.").after(on_the_way.clone()));
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "ls?"}]});
    let reply = api.chat_with(&[("x-throughline-events", "tools")], body.clone()).await;
    let progress: Vec<Value> = reply
        .text
        .split("event: hermes.tool.progress\ndata: ")
        .skip(1)
        .map(|rest| serde_json::from_str(rest.lines().next().unwrap()).unwrap())
        .collect();
    assert_eq!(
        progress[0],
        json!({"tool": "terminal", "label": r#"{"command":"ls"}"#, "toolCallId": "c1", "status": "running"})
    );
    assert_eq!((&progress[1]["status"], &progress[1]["id"]), (&json!("waiting"), &json!("s/1/0/0")));
    assert_eq!(progress[2]["status"], "completed");
    assert!(reply.text.contains(r#""content":"Let me look.""#), "{}", reply.text);
    assert!(
        reply.text.contains(r#""throughline":{"restarted":true,"content":"Two files."}"#),
        "{}",
        reply.text
    );

    // Any other client gets OpenAI's stream and nothing else: their libraries take every event for a chunk of it.
    api.api.next(Script::says("Two files.").after(on_the_way.clone()));
    let reply = api.chat(body).await;
    assert!(!reply.text.contains("event:") && !reply.text.contains("throughline"), "{}", reply.text);
    assert!(reply.chunks().iter().all(|chunk| chunk["object"] == "chat.completion.chunk"), "{}", reply.text);
    api.api.next(Script::says("Two files.").after(on_the_way.clone()));
    let options = json!({"throughline_events": true});
    let asked =
        json!({"stream": true, "stream_options": options, "messages": [{"role": "user", "content": "ls?"}]});
    assert!(api.chat(asked).await.text.contains("event: hermes.tool.progress"));
    for (headers, tells) in [(&[("x-throughline-events", "tools")][..], true), (&[], false)] {
        api.api.next(Script::says("Two files.").after(on_the_way.clone()));
        let reply = api.post_with("/v1/responses", headers, json!({"stream": true, "input": "ls?"})).await;
        assert_eq!(reply.text.contains("hermes.tool.progress"), tells, "{}", reply.text);
    }

    api.api.next(Script::says("Two files.").after(on_the_way));
    let reply = api.post("/api/control/chat", json!({"text": "ls?"})).await;
    let names: Vec<_> = reply.text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["accepted", "delta", "calling", "asked", "called", "delta", "answer"]);
}

#[tokio::test]
async fn p6_halt_and_release_are_one_request_each() {
    let api = Api::new();
    let halted = api.post("/api/control/halt", json!({"all": true})).await.json();
    assert_eq!((&halted["agents"][0]["turns"], &halted["agents"][0]["waiting"]), (&json!(2), &json!(1)));
    assert_eq!(api.get("/api/control/status").await.json()["halted"], true);
    api.post("/api/control/release", json!({})).await;
    assert_eq!(api.get("/api/control/status").await.json()["halted"], false);
}

/// A process with two agents.
struct Two(std::sync::Arc<crate::agent_api::FakeDesk>);

impl throughline_server::ProcessHost for Two {
    fn instance(&self) -> String {
        "1".into()
    }

    fn hosted_agents(&self) -> Vec<throughline_server::HostedAgent> {
        let member = |home: &str| throughline_server::HostedAgent {
            name: "main".into(), // a name says nothing about who it is
            home: home.into(),
            condition: throughline_server::AgentCondition::Running(self.0.clone()),
        };
        vec![member("/home/main"), member("/home/other")]
    }

    fn restart(
        &self,
        home: &str,
        scope: throughline_server::RestartScope,
    ) -> Result<throughline_server::RestartOutcome, String> {
        use throughline_server::{RestartOutcome, RestartScope};
        assert_eq!(home, "/home/main", "a key is its own agent's");
        Ok(match scope {
            RestartScope::Agent => RestartOutcome::Agent,
            RestartScope::Process => RestartOutcome::Awaits(vec!["/home/other".into()]),
        })
    }
}

#[tokio::test]
async fn p31_one_agents_key_restarts_no_other() {
    let host = std::sync::Arc::new(Two(crate::agent_api::FakeDesk::new()));
    let api = Api::with(throughline_server::ServerOptions { host, ..crate::client::options() });
    let own = api.post("/api/control/restart", json!({})).await.json();
    assert_eq!((&own["scope"], &own["others"]), (&json!("agent"), &json!([])), "{own}");
    let all = api.post("/api/control/restart", json!({"all": true})).await.json();
    assert_eq!((&all["scope"], &all["others"]), (&json!("none"), &json!([{"home": "/home/other"}])), "{all}");
    let named = api.post("/api/control/restart", json!({"agent": "elsewhere"})).await;
    assert_eq!(named.status, 403, "{}", named.text);
}

#[tokio::test]
async fn p31_one_agents_key_halts_and_releases_no_other() {
    let other = crate::agent_api::FakeDesk::new();
    let host = std::sync::Arc::new(Two(other.clone()));
    let api = Api::with(throughline_server::ServerOptions { host, ..crate::client::options() });
    for (order, halted) in [("halt", true), ("release", false)] {
        other.state().status.halted = !halted;
        let answer = api.post(&format!("/api/control/{order}"), json!({"all": true})).await.json();
        assert_eq!(answer["agents"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!(answer["agents"][0]["home"], "/home/main");
        assert_eq!(answer["others"], json!([{"agent": "main", "home": "/home/other"}]));
        assert_eq!(api.api.state().status.halted, halted);
        assert_eq!(other.state().status.halted, !halted, "it was not asked");
        let named = api.post(&format!("/api/control/{order}"), json!({"agent": "elsewhere"})).await.json();
        assert_eq!(named["agents"], json!([]));
    }
}
