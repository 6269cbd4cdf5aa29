use super::*;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::message::{Body, ToolResult};

fn user(text: &str) -> Message {
    Message::user(Time(0), Content::text(text))
}

fn result(text: &str) -> Message {
    Message::new(
        Time(0),
        Body::Result(ToolResult { call_id: "c".into(), name: None, content: Content::text(text) }),
    )
}

fn asked(model: &Rehearsal, messages: &[Message]) -> Asked {
    let messages = messages.iter().map(|message| model.encode(message)).collect();
    Asked { session: "s1".into(), prompt: Prompt { messages, ..Prompt::default() }, sampling: None }
}

async fn ask(model: &Rehearsal, messages: &[Message]) -> (Result<Answer, ModelError>, Vec<Delta>) {
    let deltas = Mutex::new(Vec::new());
    let answer = model.ask(asked(model, messages), &|delta| deltas.lock().unwrap().push(delta)).await;
    (answer, deltas.into_inner().unwrap())
}

fn scripted(script: &str) -> Rehearsal {
    Rehearsal::scripted(RehearsalScript::from_json(script).unwrap())
}

async fn text(model: &Rehearsal, message: &str) -> String {
    ask(model, &[user(message)]).await.0.unwrap().said.content.plain()
}

#[tokio::test]
async fn it_says_what_it_is_and_repeats_what_it_heard() {
    let model = Rehearsal::new();
    assert!(!model.is_real());
    let (answer, deltas) = ask(&model, &[user("Grüß Gott")]).await;
    let answer = answer.unwrap();
    let said = answer.said.content.plain();
    assert!(said.starts_with("This is the rehearsal model: it answers offline"), "{said}");
    assert!(said.ends_with("You said: “Grüß Gott”"), "{said}");
    assert_eq!(answer.said.finish.as_deref(), Some("stop"));
    assert_eq!(answer.model, NAME);
    assert!(answer.usage.input > 0 && answer.usage.output > 0);
    assert!((2..=PIECES + 1).contains(&deltas.len()), "{deltas:?}");
    let streamed: String = deltas
        .into_iter()
        .map(|delta| match delta {
            Delta::Text(text) => text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(streamed, said);
}

#[tokio::test]
async fn p9_the_same_request_gets_the_same_answer() {
    let model = Rehearsal::new();
    let messages = [user("a"), user(&"long ".repeat(200))];
    let (first, _) = ask(&model, &messages).await;
    let (second, _) = ask(&Rehearsal::new(), &messages).await;
    assert_eq!(first, second);
    let said = first.unwrap().said.content.plain();
    assert!(said.contains("in 2 messages: “a”, “long") && said.len() < 500, "{said}");
    let (_, deltas) = ask(&model, &[user("")]).await;
    assert!(!deltas.is_empty());
}

#[tokio::test]
async fn results_of_tools_are_repeated_too() {
    let model = Rehearsal::new();
    let said = Message::new(Time(0), Body::Assistant(Assistant::default()));
    let (answer, _) = ask(&model, &[user("old"), said, result("r1"), result("r2")]).await;
    let said = answer.unwrap().said.content.plain();
    assert!(said.ends_with("The 2 tools returned: “r1”, “r2”"), "{said}");
}

#[tokio::test]
async fn a_script_is_followed_rule_by_rule() {
    let model = scripted(
        r#"{"rules": [
            {"when": {"contains": "once"}, "times": 1, "say": "first"},
            {"when": {"contains": "ONCE"}, "say": "again", "finish": "length", "think": "hm", "usage": {"input": 70000}},
            {"when": {"session": "s2"}, "say": "not here"},
            {"when": {"result_contains": "sunny"}, "say": "sun"},
            {"when": {"contains": "weather", "result": false}, "say": "wait",
             "call": [{"name": "forecast", "arguments": {"city": "Graz"}}, {"name": "bad", "arguments": "{", "id": "x"}]},
            {"when": {"contains": "busy"}, "fail": "wait", "after_seconds": 2, "message": "Busy."},
            {"when": {"contains": "key"}, "fail": "credentials"}
        ]}"#,
    );
    assert_eq!(text(&model, "only once").await, "first");
    let (again, deltas) = ask(&model, &[user("only once")]).await;
    let again = again.unwrap();
    assert_eq!(
        (again.said.content.plain().as_str(), again.said.finish.as_deref()),
        ("again", Some("length"))
    );
    assert_eq!((again.said.reasoning.text.as_deref(), again.usage.input), (Some("hm"), 70_000));
    assert_eq!(deltas[0], Delta::Reasoning("hm".into()));
    let (calling, _) = ask(&model, &[user("weather?")]).await;
    let calling = calling.unwrap().said;
    assert_eq!((calling.content.plain().as_str(), calling.finish.as_deref()), ("wait", Some("tool_calls")));
    assert_eq!(calling.calls[0].arguments, r#"{"city":"Graz"}"#);
    assert!(calling.calls[0].id.starts_with("call_"));
    assert_eq!((calling.calls[1].id.as_str(), calling.calls[1].arguments.as_str()), ("x", "{"));
    let rows = [user("weather?"), Message::new(Time(0), Body::Assistant(calling)), result("Sunny in Graz")];
    assert_eq!(ask(&model, &rows).await.0.unwrap().said.content.plain(), "sun");
    let error = ask(&model, &[user("busy")]).await.0.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Wait { after_seconds: Some(2) }, "Busy."));
    assert_eq!(ask(&model, &[user("key")]).await.0.unwrap_err().kind, FailureKind::Credentials);
    assert!(text(&model, "anything else").await.ends_with("“anything else”"));
}

#[tokio::test]
async fn it_can_break_off_and_it_can_stay_silent() {
    let model = scripted(
        r#"{"rules": [{"when": {"contains": "cut"}, "cut": "grün ist es", "after": 3}, {"never": true}]}"#,
    );
    let (answer, deltas) = ask(&model, &[user("cut")]).await;
    assert_eq!(answer.unwrap_err().kind, FailureKind::Broken);
    assert_eq!(deltas, [Delta::Text("gr".into())]); // three bytes end inside a letter
    let silent = tokio::time::timeout(Duration::from_millis(50), ask(&model, &[user("hello?")])).await;
    assert!(silent.is_err());
}

#[tokio::test]
async fn latency_is_the_scripts_or_the_rules() {
    let model = scripted(
        r#"{"latency_ms": 60, "rules": [{"when": {"contains": "quick"}, "latency_ms": 0, "say": "q"}]}"#,
    );
    let began = std::time::Instant::now();
    text(&model, "slow").await;
    assert!(began.elapsed() >= Duration::from_millis(60));
    assert!(tokio::time::timeout(Duration::from_millis(50), text(&model, "quick")).await.is_ok());
}

#[tokio::test]
async fn who_watches_sees_the_exact_requests() {
    let recorder = Recorder::holding(2);
    let model = Rehearsal::new().recorded_by(&recorder);
    for word in ["one", "two", "three"] {
        ask(&model, &[user(word)]).await.0.unwrap();
    }
    let requests = recorder.take();
    assert_eq!(requests.len(), 2, "only the latest are held");
    assert_eq!(requests[1].to_json(), r#"{"session":"s1","messages":[{"role":"user","content":"three"}]}"#);
    assert_eq!(requests[1].prompt, asked(&model, &[user("three")]).prompt);
    assert!(recorder.requests().is_empty());
}

#[test]
fn a_script_that_makes_no_sense_is_refused_with_its_place() {
    for (script, words) in [
        ("{", "line 1"),
        (r#"{"rule": []}"#, "unknown field `rule`"),
        (r#"{"rules": [{}, {"say": "a", "never": true}]}"#, "rule 2 does more than one thing: say, never"),
        (r#"{"rules": [{"fail": "maybe"}]}"#, "maybe"),
        (r#"{"rules": [{"call": [{"arguments": {}}]}]}"#, "name"),
    ] {
        let error = RehearsalScript::from_json(script).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
