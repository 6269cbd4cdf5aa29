//! Libraries by which other programs speak to OpenAI's API, each streaming turns in which the agent uses its own tools,
//! and running tools of its own. What is said and checked is in `tests/peers/clients`; here also: through `kill -9`.

use crate::gateway::{Client, Gateway, Place, rows};
use crate::model::ModelServer;
use crate::peers;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// The agent's own tool for `files`, the client's for `weather`, both for the two together.
fn script() -> Value {
    let own = json!({"name": "terminal", "arguments": {"command": "echo one"}});
    let theirs = json!({"name": "weather", "arguments": {"city": "Graz"}});
    json!({"rules": [
        {"when": {"contains": "files and weather", "result": false}, "say": "Let me look.", "call": [own, theirs]},
        {"when": {"contains": "files", "result": false}, "say": "Let me look.", "call": [own]},
        {"when": {"contains": "weather", "result": false}, "call": [theirs]},
        {"when": {"contains": "piece by piece", "result": false}, "call": [{"name": "PartialPerson", "arguments": {"name": "Ada", "age": 36}}]},
        {"when": {"contains": "Ada", "result": false}, "call": [{"name": "Person", "arguments": {"name": "Ada", "age": 36}}]},
        {"when": {"contains": "structured", "result": false}, "call": [{"name": "final_result", "arguments": {"city": "Graz"}}]},
        {"when": {"result_contains": "sunny"}, "say": "It is sunny in Graz."},
        {"when": {"result": true, "contains": "files"}, "say": "There is one file."},
    ]})
}

fn converses(name: &str) {
    let place = Place::new();
    let launch = place.rehearsing(&script());
    let gateway = launch.start();
    let Some(client) = peers::api_client(name, launch.port(), &gateway.client.key) else { return };
    let ended = client.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{name}: {words}");
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    gateway.stop();
}

macro_rules! clients {
    ($($test:ident: $script:literal,)*) => {
        $(#[test]
        fn $test() {
            converses($script);
        })*
    };
}

clients! {
    openai_for_python_streams_turns_with_tools: "openai_sdk.py",
    openai_for_node_streams_turns_with_tools: "openai_sdk.mjs",
    the_vercel_ai_sdk_streams_turns_with_tools_on_both_apis: "ai_sdk.mjs",
    llm_streams_turns_with_tools: "llm_cli.py",
    litellm_streams_turns_with_tools: "litellm_sdk.py",
    langchain_streams_turns_with_tools: "langchain_sdk.py",
    instructor_extracts_by_a_tool_of_its_own: "instructor_sdk.py",
    pydantic_ai_streams_turns_with_tools: "pydantic_ai_sdk.py",
}

const SESSION: &str = "X-Hermes-Session-Id";

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])
}

fn called(client: &Client, words: &str) -> (String, String) {
    let body = json!({"messages": [{"role": "user", "content": words}], "tools": tools()});
    let reply = client.chat(&[], &body).unwrap();
    let (session, choice) = (reply.header(SESSION).to_owned(), reply.json()["choices"][0].clone());
    assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
    assert_eq!(
        choice["message"]["tool_calls"].as_array().unwrap().len(),
        1,
        "the agent's own calls are not shown"
    );
    (session, choice["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned())
}

fn bring(client: &Client, session: &str, call: &str, key: &str) -> (u16, Value) {
    let result = json!({"role": "tool", "tool_call_id": call, "content": "sunny"});
    let headers = [(SESSION, session), ("Idempotency-Key", key)];
    let reply = client.chat(&headers, &json!({"messages": [result], "tools": tools()})).unwrap();
    (reply.status, reply.json())
}

fn kill_and_start(gateway: Gateway, launch: &crate::gateway::Launch) -> Gateway {
    gateway.kill();
    launch.start()
}

#[test]
fn p9_calls_left_to_a_client_wait_through_kill_9_and_are_answered_once() {
    let place = Place::new();
    let launch = place.rehearsing(&script());
    let mut gateway = launch.start();
    for words in ["weather?", "files and weather?"] {
        let (session, call) = called(&gateway.client, words);
        gateway = kill_and_start(gateway, &launch);
        let (status, whole) = bring(&gateway.client, &session, &call, words);
        assert_eq!(
            (status, &whole["choices"][0]["message"]["content"]),
            (200, &json!("It is sunny in Graz."))
        );
        gateway = kill_and_start(gateway, &launch);
        assert_eq!(
            bring(&gateway.client, &session, &call, words),
            (200, whole),
            "a retry gets the same bytes"
        );
        let (status, error) = bring(&gateway.client, &session, &call, "another key");
        assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_tool_results")));
        let rows = gateway.client.transcript(&session);
        let results: Vec<_> = rows.iter().filter(|(role, _)| role == "tool").collect();
        assert_eq!(results.len(), words.split(" and ").count(), "{rows:?}");
        assert_eq!(results.last().unwrap().1, "sunny");
    }
    let (session, call) = called(&gateway.client, "weather?");
    gateway = kill_and_start(gateway, &launch);
    gateway.client.say(&session, "never mind");
    let rows = gateway.client.transcript(&session);
    let roles: Vec<_> = rows.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert!(rows[2].1.starts_with("[not run:"), "{rows:?}");
    assert_eq!(bring(&gateway.client, &session, &call, "late").0, 400);
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    gateway.stop();
}

#[test]
fn p31_a_request_without_a_session_is_not_reminded_and_reminds_no_other() {
    let model = ModelServer::start(Duration::ZERO); // the rehearsal model is reminded of nothing
    let place = Place::new();
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    let gateway = place.launch().start();
    let client = &gateway.client;
    let chat = |headers: &[(&str, &str)], words: &str| {
        let body = json!({"messages": [{"role": "user", "content": words}]});
        let reply = client.chat(headers, &body).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.header(SESSION).to_owned()
    };
    // What the model was told with these words.
    let told = |words: &str| {
        let requests = model.requests();
        let last =
            |request: &Value| crate::model::text(request["messages"].as_array().unwrap().last().unwrap());
        let found = requests.iter().map(last).rfind(|text| text.contains(words));
        found.unwrap_or_else(|| panic!("no request asked about {words}"))
    };
    // A turn waits 300 ms for its own store. One for which that was too short, which is counted, says nothing here:
    // another conversation asks with other words, which this gives.
    let missed = || {
        let counts = client.read("/api/control/counts")["data"].clone();
        let row = counts.as_array().unwrap().iter().find(|row| row["name"] == "recall_missed").cloned();
        row.map_or(0, |row| row["count"].as_u64().unwrap())
    };
    let in_time = |asks: &dyn Fn(usize) -> String| -> String {
        let words = (0..50).find_map(|nth| {
            let before = missed();
            let words = asks(nth);
            (missed() == before).then_some(words)
        });
        told(&words.expect("one of fifty turns is reminded in time"))
    };
    chat(&[(SESSION, "named")], "The harbour tax of Piran was abolished.");
    let stateless = chat(&[], "Extract the numbers: harbour tax Piran 12, quicksilver 7.");
    assert!(!told("Extract").contains("abolished"), "{}", told("Extract"));
    let tax = in_time(&|nth| {
        let words = format!("What of the harbour tax in Piran, {nth}?");
        chat(&[("X-Throughline-Memory", "recall")], &words);
        words
    });
    assert!(tax.contains("abolished"), "{tax}");
    let known = in_time(&|nth| {
        let words = format!("Do we know about quicksilver, {nth}?");
        chat(&[(SESSION, &format!("other-{nth}"))], &words);
        words
    });
    assert!(!known.contains("quicksilver 7"), "{known}");
    chat(&[(SESSION, &stateless)], "This conversation has a name now.");
    let metal = in_time(&|nth| {
        let words = format!("Who has quicksilver, {nth}?");
        chat(&[(SESSION, &format!("third-{nth}"))], &words);
        words
    });
    assert!(metal.contains("quicksilver 7"), "{metal}");
    gateway.stop();
}

#[test]
fn a_command_that_needs_a_yes_is_refused_at_once_where_no_person_can_give_it() {
    let place = Place::new();
    place.write("home/config.yaml", "approvals: {mode: manual}\n");
    let call = json!([{"name": "terminal", "arguments": {"command": "rm -rf nothing-there"}}]);
    let launch = place.rehearsing(&json!({"rules": [
        {"when": {"contains": "clean", "result": false}, "call": call},
        {"when": {"result_contains": "command_allowlist"}, "say": "I may not."},
    ]}));
    let gateway = launch.start();
    let began = Instant::now();
    let body = json!({"messages": [{"role": "user", "content": "clean up"}]});
    let reply = gateway.client.chat(&[], &body).unwrap();
    assert_eq!(reply.said(), "I may not.");
    assert!(began.elapsed() < Duration::from_secs(30), "it does not wait 60 s for absent people");
    // Who says that they can answer are asked.
    let held = thread::spawn({
        let client = gateway.client.clone();
        move || client.chat(&[("X-Throughline-Approvals", "ask")], &body).map(|reply| reply.said())
    });
    let asked = loop {
        let asked = gateway.client.read("/api/approvals")["data"].clone();
        if let Some(id) = asked[0]["id"].as_str() {
            break id.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it was never asked");
        thread::sleep(Duration::from_millis(5));
    };
    let path = format!("/api/approvals/{asked}");
    gateway.client.post(&path, &[], &json!({"decision": "deny", "reason": "see command_allowlist"})).unwrap();
    assert_eq!(held.join().unwrap().unwrap(), "I may not.");
    gateway.stop();
}

/// A client that disconnects before its turn begins withdraws it, also after a crash.
#[test]
fn a_request_that_only_waits_is_withdrawn_with_its_client_for_good() {
    let place = Place::new();
    let launch =
        place.rehearsing(&json!({"rules": [{"when": {"contains": "slowly"}, "latency_ms": 600_000}]}));
    let gateway = launch.start();
    let sent = |text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             X-Hermes-Session-Id: s\r\nX-Throughline-On-Disconnect: stop\r\nContent-Length: {}\r\n\r\n",
            gateway.client.address,
            gateway.client.key,
            body.len()
        );
        let mut stream = TcpStream::connect(gateway.client.address).unwrap();
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        stream
    };
    let until = |what: &str, condition: &str| {
        let began = Instant::now();
        while rows(&place.home(), &[("tl_inbox", condition)]).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let _running = sent("slowly");
    until("the first one runs", "seq = 1 AND state = 1");
    let waiting = sent("and then this");
    until("the second one waits", "seq = 2 AND state = 0");
    drop(waiting);
    until("the second one is withdrawn", "seq = 2 AND state = 2");
    gateway.kill();
    let gateway = launch.start();
    assert!(!place.asked().iter().any(|asked| asked.to_string().contains("and then this")));
    let waits = rows(&place.home(), &[("tl_inbox", "seq = 2 AND state <> 2")]);
    assert!(waits.is_empty(), "{waits:?}");
    gateway.kill();
}

#[test]
fn how_much_the_model_thinks_is_what_the_settings_say_unless_the_client_says_otherwise() {
    let place = Place::new();
    place.write("home/config.yaml", "agent: {reasoning_effort: High}\n");
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("s", "first");
    let body = json!({"messages": [{"role": "user", "content": "second"}], "reasoning_effort": "low"});
    gateway.client.chat(&[("X-Hermes-Session-Id", "s")], &body).unwrap();
    let asked = place.asked();
    let efforts: Vec<&Value> = asked.iter().map(|asked| &asked["sampling"]["reasoning_effort"]).collect();
    assert_eq!(efforts, ["high", "low"]);
    gateway.stop();
}
