//! A model behind OpenAI's API, for gateways that are processes of their own. It says what a test wants
//! to hear, remembers what it was asked, and can be made to think for as long as the test likes.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

type Says = dyn Fn(&Value) -> String + Send + Sync;

pub struct ModelServer {
    pub address: SocketAddr,
    mind: Arc<Mind>,
}

struct Mind {
    says: Box<Says>,
    latency: Duration,
    asked: Mutex<Vec<Value>>,
    answered: Mutex<usize>,
    held: Mutex<bool>,
    released: Condvar,
}

impl ModelServer {
    /// One that answers `re: <what was said last>`.
    pub fn start(latency: Duration) -> Self {
        Self::saying(latency, |request| format!("re: {}", last(request)))
    }

    pub fn saying(latency: Duration, says: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mind = Arc::new(Mind {
            says: Box::new(says),
            latency,
            asked: Mutex::default(),
            answered: Mutex::default(),
            held: Mutex::default(),
            released: Condvar::new(),
        });
        let minded = mind.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mind = minded.clone();
                thread::spawn(move || while answer(&stream, &mind).is_some() {});
            }
        });
        Self { address, mind }
    }

    /// For `model:` in a `config.yaml`.
    pub fn setting(&self, name: &str) -> String {
        format!(
            "{{default: {name}, provider: custom, base_url: 'http://{}/v1', api_key: none}}",
            self.address
        )
    }

    pub fn requests(&self) -> Vec<Value> {
        self.mind.asked.lock().unwrap().clone()
    }

    /// What was said last in each request, in order.
    pub fn asked(&self) -> Vec<String> {
        self.requests().iter().map(last).collect()
    }

    /// Whoever asks from now on waits …
    pub fn hold(&self) {
        *self.mind.held.lock().unwrap() = true;
    }

    /// … until this.
    pub fn release(&self) {
        *self.mind.held.lock().unwrap() = false;
        self.mind.released.notify_all();
    }

    /// How many requests have been answered.
    pub fn answered(&self) -> usize {
        *self.mind.answered.lock().unwrap()
    }
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

fn answer(stream: &TcpStream, mind: &Mind) -> Option<()> {
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
    let request: Value = serde_json::from_slice(&body).ok()?;
    let said = (mind.says)(&request);
    let is_streamed = request["stream"] == json!(true);
    mind.asked.lock().unwrap().push(request);
    thread::sleep(mind.latency);
    drop(mind.released.wait_while(mind.held.lock().unwrap(), |held| *held).unwrap());
    let tokens = length / 4;
    let usage = json!({"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5});
    let (kind, content) = match is_streamed {
        true => {
            let delta = json!({"id": "c", "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": null}]});
            let end = json!({"id": "c", "object": "chat.completion.chunk", "usage": usage, "choices": [
                {"index": 0, "delta": {}, "finish_reason": "stop"}]});
            ("text/event-stream", format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
        }
        false => {
            let answer = json!({"id": "c", "object": "chat.completion", "usage": usage, "choices": [
                {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]});
            ("application/json", answer.to_string())
        }
    };
    let mut stream = stream;
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", content.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(content.as_bytes()).ok()?;
    *mind.answered.lock().unwrap() += 1;
    Some(())
}
