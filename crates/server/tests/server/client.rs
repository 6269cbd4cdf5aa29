//! Requests, and what comes back.

use crate::agent_api::FakeDesk;
use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use throughline_server::{ServerOptions, router};
use tower::ServiceExt;

pub const KEY: &str = "the-key-of-the-test";
pub const BODY_MAX: usize = 100_000;

pub fn options() -> ServerOptions {
    ServerOptions {
        api_key: KEY.into(),
        body_bytes_max: BODY_MAX,
        model: "agent".into(),
        agent: "main".into(),
        home: "/home/main".into(),
        version: "1.2.3".into(),
        keep_alive: Duration::from_secs(15),
        cors_origins: Vec::new(),
        stop_on_disconnect: false,
        host: std::sync::Arc::new(throughline_server::SingleAgent),
        plugins: std::sync::Arc::new(|| serde_json::json!([])),
        servers: std::sync::Arc::new(|| serde_json::json!([])),
    }
}

pub struct Api {
    pub api: Arc<FakeDesk>,
    pub router: Router,
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status, code and message of an error.
    pub fn error(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        assert!(error["type"].is_string() && error.get("param").is_some(), "{}", self.text);
        (self.status.as_u16(), text("code"), text("message"))
    }

    /// The data of each event, in order.
    pub fn events(&self) -> Vec<String> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events();
        let chunks = events.iter().filter(|event| *event != "[DONE]");
        chunks.map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// What a client that joins the pieces has in the end.
    pub fn joined(&self) -> String {
        let chunks = self.chunks();
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    }
}

impl Api {
    pub fn new() -> Self {
        Self::with(options())
    }

    pub fn with(options: ServerOptions) -> Self {
        let api = FakeDesk::new();
        Self { router: router(api.clone(), options), api }
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: head.status, headers: head.headers, text }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path, &[], "")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_with(path, &[], body).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        self.send(request("POST", path, headers, body.to_string())).await
    }

    pub async fn chat(&self, body: Value) -> Reply {
        self.post("/v1/chat/completions", body).await
    }

    pub async fn chat_with(&self, headers: &[(&str, &str)], body: Value) -> Reply {
        self.post_with("/v1/chat/completions", headers, body).await
    }
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    request =
        request.header("authorization", format!("Bearer {KEY}")).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}

/// The client's layer of the system prompt in what was handed in.
pub fn system_of(submission: &throughline_core::port::Submission) -> Option<&str> {
    match &submission.kind {
        throughline_core::input::Kind::Request(request) => request.system.as_deref(),
        _ => None,
    }
}
