//! A provider whose every answer is given in advance.

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::message::{Content, Message};
use throughline_core::port::{Asked, Delta, Model, ModelError};
use throughline_core::prompt::Prompt;
use throughline_core::session::FailureKind;
use throughline_core::turn::Answer;
use throughline_net::{Client, ClientSettings, Limits, Timeouts};

pub const KEY: &str = "canary-key-0123456789";

/// What a server says to each request.
#[derive(Clone)]
pub enum Say {
    /// The body in these pieces, and how it ends.
    Pieces(Vec<Vec<u8>>, End),
    Status(u16, Vec<(&'static str, String)>, String),
    Gzip(String),
    /// Not even headers.
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Clean,
    /// The connection breaks.
    Broken,
    /// Nothing more comes, and the connection stays open.
    Hanging,
}

pub fn whole(body: &str) -> Say {
    Say::Pieces(vec![body.as_bytes().to_vec()], End::Clean)
}

pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
    pub peer: SocketAddr,
}

#[derive(Clone)]
pub struct Server {
    pub base: String,
    say: Say,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// How many answers no client waits for any more.
    let_go: Arc<AtomicUsize>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Server {
    pub async fn start(say: Say) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { base, say, seen: Arc::default(), let_go: Arc::default() };
        let router = Router::new().fallback(answer).with_state(server.clone());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        server
    }

    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    pub fn let_go(&self) -> usize {
        self.let_go.load(Ordering::SeqCst)
    }
}

async fn answer(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let seen = Seen { path: parts.uri.path().to_owned(), headers: parts.headers, body, peer };
    server.seen.lock().unwrap().push(seen);
    match server.say {
        Say::Pieces(pieces, end) => {
            Response::new(Body::from_stream(pieces_then(pieces, end, Open(server.let_go))))
        }
        Say::Status(status, headers, body) => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(body.into()).unwrap()
        }
        Say::Gzip(text) => {
            Response::builder().header("content-encoding", "gzip").body(gzip(text.as_bytes()).into()).unwrap()
        }
        Say::Nothing => std::future::pending().await,
    }
}

fn pieces_then(
    pieces: Vec<Vec<u8>>,
    end: End,
    open: Open,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    let pieces = stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))));
    let last = stream::once(async move {
        let _open = open;
        match end {
            End::Clean => Ok::<_, Infallible>(None),
            // Late enough that what came before is on its way.
            End::Broken => {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Ok(Some(Err(io::Error::other("cut"))))
            }
            End::Hanging => std::future::pending().await,
        }
    });
    pieces.chain(last.filter_map(|last| async move { last.unwrap_or_default() }))
}

/// A gzip file with its content as it is: the format allows it.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut crc = !0u32;
    for byte in content {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let length = u16::try_from(content.len()).unwrap();
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(content);
    file.extend((!crc).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    file
}

/// Patience for tests.
pub fn client() -> Client {
    let timeouts = Timeouts {
        connect: Duration::from_secs(2),
        first_byte: Duration::from_millis(400),
        silence: Duration::from_millis(400),
        whole: Duration::from_secs(20),
    };
    Client::new(ClientSettings {
        timeouts,
        limits: Limits { body: 1 << 20, event: 1 << 16, refusal: 1 << 14 },
    })
}

/// A request that says "hi" and nothing else.
pub fn hi(model: &dyn Model) -> Asked {
    let message = Message::user(Time(0), Content::text("hi"));
    Asked {
        session: "s1".into(),
        prompt: Prompt { messages: vec![model.encode(&message)], ..Prompt::default() },
        sampling: None,
    }
}

pub async fn ask(model: &dyn Model, asked: Asked) -> (Result<Answer, ModelError>, Vec<Delta>) {
    let deltas = Mutex::new(Vec::new());
    let answer = model.ask(asked, &|delta| deltas.lock().unwrap().push(delta)).await;
    (answer, deltas.into_inner().unwrap())
}

pub async fn failure(model: &dyn Model) -> ModelError {
    let error = ask(model, hi(model)).await.0.unwrap_err();
    assert!(!error.message.contains("canary"), "a secret in: {}", error.message);
    assert!(error.message.ends_with('.'), "not a sentence: {}", error.message);
    error
}

pub const WAIT: FailureKind = FailureKind::Wait { after_seconds: None };

/// All of `deltas` of one kind, joined.
pub fn heard(deltas: &[Delta]) -> (String, String) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Reasoning(piece) => reasoning.push_str(piece),
        }
    }
    (text, reasoning)
}
