//! A model behind OpenAI's API, for gateways that are processes of their own. It says what a test wants
//! to hear, remembers what it was asked, and can be made to think for as long as the test likes.

use crate::wire::{self, Answer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const ALL: usize = usize::MAX;

type Answers = dyn Fn(&Value) -> Value + Send + Sync;

pub struct ModelServer {
    pub address: SocketAddr,
    mind: Arc<Mind>,
}

struct Mind {
    answers: Box<Answers>,
    latency: Duration,
    /// As they came, byte by byte.
    asked: Mutex<Vec<String>>,
    answered: Mutex<usize>,
    /// So many more may be answered.
    free: Mutex<usize>,
    released: Condvar,
}

impl ModelServer {
    /// One that answers `re: <what was said last>`.
    pub fn start(latency: Duration) -> Self {
        Self::saying(latency, |request| format!("re: {}", last(request)))
    }

    pub fn saying(latency: Duration, says: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        Self::answering(latency, move |request| said(&says(request)))
    }

    /// One that answers with whole messages: [`said`], [`calls`].
    pub fn answering(latency: Duration, answers: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        let mind = Arc::new(Mind {
            answers: Box::new(answers),
            latency,
            asked: Mutex::default(),
            answered: Mutex::default(),
            free: Mutex::new(ALL),
            released: Condvar::new(),
        });
        let minded = mind.clone();
        let address = wire::serve(move |request| minded.answer(&request.body));
        Self { address, mind }
    }

    /// For `model:` in a `config.yaml`.
    pub fn setting(&self, name: &str) -> String {
        format!(
            "{{default: {name}, provider: custom, base_url: 'http://{}/v1', api_key: none}}",
            self.address
        )
    }

    /// The bodies of all requests, in order.
    pub fn bodies(&self) -> Vec<String> {
        self.mind.asked.lock().unwrap().clone()
    }

    pub fn requests(&self) -> Vec<Value> {
        self.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    /// What was said last in each request, in order.
    pub fn asked(&self) -> Vec<String> {
        self.requests().iter().map(last).collect()
    }

    /// Requests from now on wait …
    pub fn hold(&self) {
        *self.mind.free.lock().unwrap() = 0;
    }

    /// … until this.
    pub fn release(&self) {
        *self.mind.free.lock().unwrap() = ALL;
        self.mind.released.notify_all();
    }

    /// One that waits, or the next that asks, is answered; the others wait on.
    pub fn release_one(&self) {
        let mut free = self.mind.free.lock().unwrap();
        *free = free.saturating_add(1);
        self.mind.released.notify_one();
    }

    /// How many requests have been answered.
    pub fn answered(&self) -> usize {
        *self.mind.answered.lock().unwrap()
    }
}

/// An answer in words.
pub fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// An answer that calls tools, by name and arguments.
pub fn calls(calls: &[(&str, Value)]) -> Value {
    let call = |(place, (name, arguments)): (usize, &(&str, Value))| {
        json!({"index": place, "id": format!("call-{place}"), "type": "function",
               "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

/// What was said last, without what a memory adds to it for this request alone.
pub fn last(request: &Value) -> String {
    let last = request["messages"].as_array().and_then(|messages| messages.last()).map(text);
    let last = last.unwrap_or_default();
    last.split("\n\n<memory-context>").next().unwrap_or_default().to_owned()
}

pub fn text(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

impl Mind {
    fn answer(&self, body: &[u8]) -> Option<Answer> {
        let body = String::from_utf8(body.to_vec()).ok()?;
        let request: Value = serde_json::from_str(&body).ok()?;
        let tokens = body.len() / 4;
        self.asked.lock().unwrap().push(body);
        let message = (self.answers)(&request);
        thread::sleep(self.latency);
        let mut free = self.released.wait_while(self.free.lock().unwrap(), |free| *free == 0).unwrap();
        if *free != ALL {
            *free -= 1;
        }
        drop(free);
        *self.answered.lock().unwrap() += 1;
        let finish = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
        let usage = json!({"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5});
        if request["stream"] != json!(true) {
            let answer = json!({"id": "c", "object": "chat.completion", "usage": usage, "choices": [
                {"index": 0, "message": message, "finish_reason": finish}]});
            return Some(Answer { status: 200, kind: "application/json", content: answer.to_string() });
        }
        let delta = json!({"id": "c", "object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": message, "finish_reason": null}]});
        let end = json!({"id": "c", "object": "chat.completion.chunk", "usage": usage, "choices": [
            {"index": 0, "delta": {}, "finish_reason": finish}]});
        let content = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        Some(Answer { status: 200, kind: "text/event-stream", content })
    }
}
