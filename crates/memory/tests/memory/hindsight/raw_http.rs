//! HTTP by hand, for servers that misbehave: one request for each connection.

use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Debug)]
pub struct Request {
    /// `POST /v1/…`
    pub line: String,
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub enum Answer {
    Json(u16, Value),
    /// Status, more headers (each with its line end), body.
    Raw(u16, &'static str, String),
    HangUp,
    Hang,
}

/// A request, or None if the other side gave up in the middle.
pub async fn request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.unwrap_or(0);
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Request { line, head, body: bytes[end..end + length].to_vec() })
}

pub struct StandIn {
    pub url: String,
    pub requests: Arc<Mutex<Vec<Request>>>,
}

impl StandIn {
    /// `answer` is asked with each request and how many came before it.
    pub async fn start(answer: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(request) = request(&mut stream).await else { return };
                    let count = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    let (status, headers, body) = match answer(&request, count) {
                        Answer::Json(status, value) => (status, "", value.to_string()),
                        Answer::Raw(status, headers, body) => (status, headers, body),
                        Answer::HangUp => return,
                        Answer::Hang => return tokio::time::sleep(Duration::from_secs(600)).await,
                    };
                    let head = format!(
                        "HTTP/1.1 {status} Said\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes()).await;
                });
            }
        });
        Self { url, requests }
    }

    pub fn lines(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.line.clone()).collect()
    }

    pub fn sent(&self, place: usize) -> Value {
        self.requests.lock().unwrap()[place].json()
    }
}
