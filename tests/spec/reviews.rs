//! Reviews with the real binary: a local server speaks the Bot API, another stands in for the model and
//! keeps every request as it came.
//!
//! The tenth turn is followed by one review, which begins with the bytes of that turn's request, may only
//! write down, is told of once, and is run again when the process was killed in the middle of it.

use crate::gateway::{Launch, Place};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use throughline_servers::TelegramServer;
use throughline_servers::telegram::{Chat, TOKEN, User};

const PATIENCE: Duration = Duration::from_secs(60);
const ADA: i64 = 42;
const NOTICE: &str = "💾 Self-improvement review: User profile updated";

/// Answers `re: <what was said last>`. A review is answered with calls first, and then with a word.
#[derive(Clone, Default)]
struct Model {
    /// The bodies of all requests, in order.
    asked: Arc<Mutex<Vec<String>>>,
    /// How long a review waits for an answer, in milliseconds.
    hesitation: Arc<AtomicU64>,
    workspace: String,
}

impl Model {
    fn start(workspace: String) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let model = Self { workspace, ..Self::default() };
        let serving = model.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                thread::spawn(move || while serving.answer(&stream).is_some() {});
            }
        });
        (model, address)
    }

    fn requests(&self) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    /// Bodies of the requests with which a review begins.
    fn reviews(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap().clone();
        let begins = |body: &&String| {
            let request: Value = serde_json::from_str(body).unwrap();
            is_review(request["messages"].as_array().unwrap().last().unwrap())
        };
        asked.iter().filter(begins).cloned().collect()
    }

    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let request: Value = serde_json::from_str(&body).ok()?;
        let messages = request["messages"].as_array()?.clone();
        self.asked.lock().unwrap().push(body);
        let last = messages.last()?;
        let mut delta = json!({"role": "assistant", "content": format!("re: {}", text(last))});
        if is_review(last) {
            thread::sleep(Duration::from_millis(self.hesitation.load(Ordering::Relaxed)));
            let call = |place: usize, name: &str, arguments: Value| {
                json!({"index": place, "id": format!("call-{place}"), "type": "function",
                       "function": {"name": name, "arguments": arguments.to_string()}})
            };
            delta = json!({"role": "assistant", "content": "", "tool_calls": [
                call(0, "memory", json!({"action": "add", "target": "user", "content": "Ada likes tea"})),
                call(1, "terminal", json!({"command": format!("touch {}/ran", self.workspace)})),
                call(2, "memory", json!({"action": "add", "target": "memory",
                     "content": "Some earlier messages in this conversation are missing."})),
            ]});
        } else if last["role"] == "tool" {
            delta = json!({"role": "assistant", "content": "Nothing more."});
        }
        let finish = if delta.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
        let chunk = |delta: Value, finish: Value| {
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let content = match request["stream"] == json!(true) {
            true => {
                let (said, end) = (chunk(delta, Value::Null), chunk(json!({}), json!(finish)));
                format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n")
            }
            false => {
                let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
                json!({"id": "c", "object": "chat.completion", "usage": usage, "choices": [
                    {"index": 0, "message": delta, "finish_reason": finish}]})
                .to_string()
            }
        };
        let kind = if content.starts_with("data:") { "text/event-stream" } else { "application/json" };
        let mut stream = stream;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", content.len());
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(content.as_bytes()).ok()
    }
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

fn is_review(message: &Value) -> bool {
    message["role"] == "user" && text(message).starts_with("[Review]")
}

struct World {
    place: Place,
    telegram: TelegramServer,
    model: Model,
    launch: Launch,
}

impl World {
    fn new(config: &str) -> Self {
        let (place, telegram) = (Place::new(), TelegramServer::start_now());
        let (model, address) = Model::start(place.path().display().to_string());
        place.write(
            "home/config.yaml",
            format!(
                "model: {{default: test-model, provider: custom, base_url: 'http://{address}/v1', api_key: none}}\n\
                 platforms: {{telegram: {{extra: {{base_url: '{}/bot'}}}}}}\n{config}",
                telegram.url()
            ),
        );
        place.write("home/.env", format!("TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS={ADA}\n"));
        let launch = place.launch();
        Self { place, telegram, model, launch }
    }

    fn shown(&self) -> Vec<String> {
        let sent = self.telegram.sent().into_iter().filter(|sent| !sent.deleted);
        sent.map(|sent| sent.text).collect()
    }

    fn times_shown(&self, text: &str) -> usize {
        self.shown().iter().filter(|shown| shown.as_str() == text).count()
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        self.telegram.until(PATIENCE, what, |_| holds(self));
    }

    /// Ada says something, and is answered.
    fn turn(&self, said: &str) {
        self.telegram.say(&Chat::private(ADA, "Ada"), &User::new(ADA, "Ada"), said);
        self.until(said, |world| world.times_shown(&format!("re: {said}")) == 1);
    }

    /// What is asked of the model in this turn, as it was sent.
    fn asked_for(&self, said: &str) -> String {
        let asked = self.model.asked.lock().unwrap().clone();
        let is_it = |body: &String| {
            let request: Value = serde_json::from_str(body).unwrap();
            text(request["messages"].as_array().unwrap().last().unwrap()) == said
        };
        asked.into_iter().find(is_it).unwrap()
    }

    fn profile(&self) -> String {
        std::fs::read_to_string(self.place.home().join("memories/USER.md")).unwrap_or_default()
    }
}

/// A list in a request, byte by byte, without its end.
fn list<'a>(body: &'a str, name: &str) -> &'a str {
    let begins = body.find(&format!("\"{name}\":[")).unwrap_or_else(|| panic!("no {name}"));
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (place, c) in body[begins..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return &body[begins..begins + place];
                }
            }
            _ => {}
        }
    }
    panic!("{name} has no end")
}

#[test]
fn p22_the_tenth_turn_is_looked_back_at_on_its_own_bytes_and_told_once() {
    let world = World::new("");
    let gateway = world.launch.start();
    (1..=9).for_each(|turn| world.turn(&format!("message {turn}")));
    assert_eq!(world.model.reviews(), [""; 0], "it is not due yet");
    world.turn("message 10");
    world.until("the notice", |world| world.times_shown(NOTICE) == 1);

    let (live, review) = (world.asked_for("message 10"), world.model.reviews());
    assert_eq!(review.len(), 1);
    let (before, after) = (list(&live, "messages"), list(&review[0], "messages"));
    assert!(after.starts_with(before), "the review does not begin as the turn did:\n{before}\n{after}");
    assert_eq!(list(&review[0], "tools"), list(&live, "tools"));
    let added: Vec<Value> = {
        let request: Value = serde_json::from_str(&review[0]).unwrap();
        let live: Value = serde_json::from_str(&live).unwrap();
        request["messages"].as_array().unwrap()[live["messages"].as_array().unwrap().len()..].to_vec()
    };
    assert_eq!(added.len(), 2, "{added:?}");
    assert_eq!((text(&added[0]).as_str(), is_review(&added[1])), ("re: message 10", true));

    let requests = world.model.requests();
    let results: Vec<String> =
        requests.last().unwrap()["messages"].as_array().unwrap().iter().rev().take(3).map(text).collect();
    assert!(results[2].contains("\"success\": true"), "{results:?}");
    assert!(results[1].contains("terminal was not run"), "{results:?}");
    assert!(results[0].contains("Nothing was saved"), "{results:?}");
    assert!(!world.place.path().join("ran").exists(), "only memory and skill tools run");
    assert_eq!(world.profile().trim(), "Ada likes tea");

    // The conversation goes on as if nothing had been, from the bytes it had.
    world.turn("message 11");
    assert!(list(&world.asked_for("message 11"), "messages").starts_with(before));
    assert!(!world.asked_for("message 11").contains("[Review]"));
    let list = world.place.launch().arg("sessions").arg("list").run();
    assert!(list.status.success());
    assert!(gateway.stop().success());
    let gateway = world.launch.start();
    world.turn("message 12");
    assert_eq!((world.model.reviews().len(), world.times_shown(NOTICE)), (1, 1), "once is enough");
    assert!(gateway.stop().success());
}

#[test]
fn p22_a_review_that_is_killed_is_run_again_and_told_once() {
    let world = World::new("memory: {nudge_interval: 2}\n");
    world.model.hesitation.store(60_000, Ordering::Relaxed);
    let gateway = world.launch.start();
    world.turn("one");
    world.turn("two");
    world.until("a review", |world| world.model.reviews().len() == 1);
    world.turn("meanwhile"); // nobody waits for it
    gateway.kill();
    world.model.hesitation.store(0, Ordering::Relaxed);
    let gateway = world.launch.start();
    world.until("the notice", |world| world.times_shown(NOTICE) == 1);
    let reviews = world.model.reviews();
    assert_eq!(reviews.len(), 2);
    assert_eq!(reviews[0], reviews[1], "it is about the view it fell due on");
    assert!(!reviews[1].contains("meanwhile"));
    gateway.kill();
    let gateway = world.launch.start();
    world.turn("three");
    world.until("the next review", |world| world.model.reviews().len() == 3);
    let ends = |request: &Value| request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool";
    world
        .until("its end", |world| world.model.requests().iter().filter(|request| ends(request)).count() == 2);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(world.times_shown(NOTICE), 1, "nothing was changed by it");
    assert_eq!(world.profile().matches("Ada likes tea").count(), 1, "an entry that is there is not added");
    assert!(gateway.stop().success());
}

#[test]
fn p22_who_wants_no_reviews_gets_none() {
    let world = World::new("memory: {nudge_interval: 0}\nskills: {creation_nudge_interval: 0}\n");
    let gateway = world.launch.start();
    (1..=11).for_each(|turn| world.turn(&format!("message {turn}")));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(world.model.reviews(), [""; 0]);
    assert!(gateway.stop().success());
}
