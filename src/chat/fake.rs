//! A gateway on loopback that says what a test wrote down for it.

use crate::client::{Client, Endpoint};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use throughline_core::prompt::Digest;
use throughline_hermes::config::Secret;
use throughline_server::proof::proof_of;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const KEY: &str = "the-key-of-this-home";
const HOME: &str = "/the/home";

/// What happens next on a connection that asked for an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    Event(&'static str, Value),
    /// Bytes that are no event.
    Raw(&'static str),
    /// Nothing more comes, and the connection stays.
    Silence,
    /// Nothing more comes until so many questions were answered.
    UntilDecided(usize),
    /// Nothing more comes until a command came beside the line.
    UntilOrdered,
}

/// The answer to one line. The connection ends with it, whether its last event is there or not.
#[derive(Clone, Debug)]
pub enum Reply {
    Stream(Vec<Piece>),
    Refusal {
        status: u16,
        headers: &'static str,
        code: &'static str,
        message: &'static str,
    },
    /// Not even a status.
    HangUp,
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    sessions: Vec<Value>,
    model: Option<String>,
    lines: Vec<Value>,
    paths: Vec<String>,
    decided: Vec<(String, Value)>,
    ordered: Vec<Value>,
}

#[derive(Clone)]
pub struct Fake {
    script: Arc<Mutex<Script>>,
    news: Arc<Notify>,
    pub port: u16,
}

impl Fake {
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::listen(listener, replies)
    }

    pub fn listen(listener: TcpListener, replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script { replies: replies.into_iter().collect(), ..Script::default() };
        let port = listener.local_addr().unwrap().port();
        let fake = Self { script: Arc::new(Mutex::new(script)), news: Arc::default(), port };
        let serving = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        fake
    }

    pub fn with_sessions(self, sessions: impl IntoIterator<Item = Value>) -> Self {
        self.script.lock().unwrap().sessions = sessions.into_iter().collect();
        self
    }

    pub fn with_model(self, model: &str) -> Self {
        self.script.lock().unwrap().model = Some(model.to_owned());
        self
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at("127.0.0.1", self.port, Secret::new(KEY), HOME.to_owned())
    }

    pub fn client(&self) -> Client {
        Client::new(self.endpoint()).unwrap()
    }

    /// The bodies of all lines that came in.
    pub fn lines(&self) -> Vec<Value> {
        self.script.lock().unwrap().lines.clone()
    }

    /// Which questions were answered, and how.
    pub fn decided(&self) -> Vec<(String, Value)> {
        self.script.lock().unwrap().decided.clone()
    }

    /// The commands that came beside the lines.
    pub fn ordered(&self) -> Vec<Value> {
        self.script.lock().unwrap().ordered.clone()
    }

    pub fn paths(&self) -> Vec<String> {
        self.script.lock().unwrap().paths.clone()
    }

    async fn serve(self, mut stream: TcpStream) {
        let Some((head, body)) = request(&mut stream).await else { return };
        assert!(
            head.starts_with("POST /api/prove ") && !head.to_lowercase().contains("authorization"),
            "{head}"
        );
        let asked: Value = serde_json::from_slice(&body).unwrap();
        let nonce = Digest::from_hex(asked["nonce"].as_str().unwrap()).unwrap().0;
        let proof = proof_of(KEY, HOME, &nonce, stream.local_addr().unwrap());
        let proof = json!({ "proof": proof }).to_string();
        let head = format!("HTTP/1.1 200 .\r\ncontent-length: {}\r\n\r\n{proof}", proof.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        let Some((head, body)) = request(&mut stream).await else { return };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        self.script.lock().unwrap().paths.push(path.clone());
        if !head.to_lowercase().contains(&format!("authorization: bearer {KEY}\r\n")) {
            return whole(
                &mut stream,
                401,
                "",
                &json!({"error": {"message": "no", "code": "invalid_api_key"}}),
            )
            .await;
        }
        match path.split('?').next().unwrap_or_default() {
            "/api/control/status" => whole(&mut stream, 200, "", &self.status()).await,
            "/api/control/chat" => {
                let reply = {
                    let mut script = self.script.lock().unwrap();
                    script.lines.push(serde_json::from_slice(&body).unwrap());
                    script.replies.pop_front().expect("more lines came than the test has answers for")
                };
                self.say(&mut stream, reply).await;
            }
            "/api/sessions" => whole(&mut stream, 200, "", &self.list(&path)).await,
            answered if answered.starts_with("/api/approvals/") => {
                let verdict = serde_json::from_slice(&body).unwrap();
                self.script.lock().unwrap().decided.push((answered.to_owned(), verdict));
                self.news.notify_one();
                whole(&mut stream, 200, "", &json!({"accepted": true})).await;
            }
            order if order.ends_with("/commands") => {
                self.script.lock().unwrap().ordered.push(serde_json::from_slice(&body).unwrap());
                self.news.notify_one();
                whole(&mut stream, 200, "", &json!({"said": "Stopped.", "successor": null})).await;
            }
            other => {
                let id = other.strip_prefix("/api/sessions/").unwrap_or_default();
                let found =
                    self.script.lock().unwrap().sessions.iter().find(|session| session["id"] == id).cloned();
                match found {
                    Some(session) => whole(&mut stream, 200, "", &json!({"session": session})).await,
                    None => {
                        let error = json!({"error": {"message": "none", "code": "session_not_found"}});
                        whole(&mut stream, 404, "", &error).await;
                    }
                }
            }
        }
    }

    fn status(&self) -> Value {
        let model = self.script.lock().unwrap().model.clone().unwrap_or("gpt-5.2".into());
        json!({"agent": "main", "version": "0.1.0", "model": model, "waiting_inputs": 2})
    }

    fn list(&self, path: &str) -> Value {
        let query = path.split_once('?').unwrap_or_default().1;
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        let number = |name: &str| field(name).and_then(|text| text.parse::<usize>().ok());
        let script = self.script.lock().unwrap();
        let wanted = script
            .sessions
            .iter()
            .filter(|session| field("source").is_none_or(|source| session["source"] == source));
        let part = wanted.skip(number("offset").unwrap_or(0)).take(number("limit").unwrap_or(50));
        json!({"data": part.collect::<Vec<_>>()})
    }
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end + 2]).into_owned();
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.parse().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return Some((head, bytes.split_off(end + 4)));
        }
    }
}

async fn whole(stream: &mut TcpStream, status: u16, headers: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} .\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

impl Fake {
    async fn until(&self, holds: impl Fn(&Script) -> bool) {
        while !holds(&self.script.lock().unwrap()) {
            self.news.notified().await;
        }
    }

    async fn say(&self, stream: &mut TcpStream, reply: Reply) {
        let pieces = match reply {
            Reply::HangUp => return,
            Reply::Refusal { status, headers, code, message } => {
                return whole(stream, status, headers, &json!({"error": {"message": message, "code": code}}))
                    .await;
            }
            Reply::Stream(pieces) => pieces,
        };
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            .await;
        for piece in pieces {
            let bytes = match piece {
                Piece::Event(name, data) => format!("event: {name}\ndata: {data}\n\n"),
                Piece::Raw(text) => text.to_owned(),
                Piece::Silence => std::future::pending().await,
                Piece::UntilDecided(count) => {
                    self.until(|script| script.decided.len() >= count).await;
                    continue;
                }
                Piece::UntilOrdered => {
                    self.until(|script| !script.ordered.is_empty()).await;
                    continue;
                }
            };
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.flush().await;
        }
    }
}
