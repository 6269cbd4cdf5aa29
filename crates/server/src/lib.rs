//! The HTTP surfaces of one agent: OpenAI's API for programs, a control API for the command line.
//!
//! Everything that comes in goes through the [`AgentApi`]; everything that goes out was committed
//! before. A response begins when the input is on disk and ends when its turn has settled, so a
//! client that saw `[DONE]`, or a whole JSON body, has seen the truth. A client that hangs up stops
//! nothing, unless it or the operator wants that: it asks again and gets the same bytes.
//!
//! - every route under `/v1` and `/api` needs the key, on loopback too; only health is open, and [`proof`], by
//!   which a gateway shows that it knows the key
//! - what a web page can have asked is refused on every route, unless it has the key
//! - strangers cannot take up the listener: heads and bodies have time limits, and who has shown no key gives up its
//!   connection when there are too many (`throughline_net::listener`)
//! - ids and times in answers derive from the turn, never from the request that asks for it
//! - every request gets an answer in OpenAI's shape; nothing that a client sends is a 500
//!
//! Deliberately absent: the store, the gateway, the model, retries, and a clock of its own. The
//! only time read here is the wait between two signs of life on a quiet stream.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod approvals;
mod auth;
mod chat_completions;
mod client_conversation;
mod client_options;
mod client_tools;
mod control;
mod error;
mod health;
mod json_response;
mod json_views;
#[cfg(test)]
mod linear;
mod message_content;
mod path_and_query;
pub mod proof;
mod request_body;
mod response_id;
mod response_input;
mod responses;
mod sampling;
mod sessions;
mod shared_listener;
mod sse;
mod status;
mod streamed_text;
mod submission;
mod turn_follower;

pub use response_id::ResponseId;
pub use shared_listener::{AbsentAgent, SharedListener};
pub use status::{
    AgentCondition, HostedAgent, ProcessHost, RestartOutcome, RestartScope, SingleAgent, home_status_json,
    remembering_json,
};
pub use submission::completion_id;

use crate::auth::{ApiKeyGuard, WebPages};
use crate::error::ApiError;
pub use axum::Router;
pub use throughline_net::listener::Limits;

use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::{get, post};
use http::{Method, StatusCode, Uri};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::port::AgentApi;
use tokio::net::TcpListener;
use tracing::Instrument;

/// Hermes' own limit: room for a long conversation with pictures, not for an archive.
pub const BODY_BYTES_MAX: usize = 10_000_000;

/// Shorter than the idle time after which common proxies cut a connection (30 to 60 s).
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Longer than libraries keep an idle connection to ask again by, so that they end it and not we.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Each is a socket and some kilobytes. The caller lowers it where the system grants fewer descriptors.
pub const CONNECTIONS_MAX: usize = 4096;

/// What the surfaces are told about the agent they speak for.
#[derive(Clone)]
pub struct ServerOptions {
    /// An empty key admits no caller.
    pub api_key: String,
    pub body_bytes_max: usize,
    /// The model's name as clients see it.
    pub model: String,
    /// What the agent is called, for people. Its home says which one it is.
    pub agent: String,
    /// The path of its home, as the file system resolves it.
    pub home: String,
    pub version: String,
    pub keep_alive: Duration,
    /// The process that this agent is part of.
    pub host: Arc<dyn ProcessHost>,
    /// Web pages of these origins may ask, if they have the key. `*`: any.
    pub cors_origins: Vec<String>,
    /// A turn ends when the client that asked for it hangs up, unless the request says otherwise.
    pub stop_on_disconnect: bool,
    /// Programs of others that work for this agent, as `/api/status` lists them.
    pub plugins: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// Servers of the Model Context Protocol that this agent uses, likewise.
    pub servers: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
}

/// What every handler sees.
struct App {
    api: Arc<dyn AgentApi>,
    options: ServerOptions,
    guard: Arc<ApiKeyGuard>,
    started: Time,
}

/// All routes of one agent.
pub fn router(api: Arc<dyn AgentApi>, options: ServerOptions) -> Router {
    let guard = Arc::new(ApiKeyGuard::new(&options.api_key, &options.home));
    let pages = Arc::new(WebPages { guard: guard.clone(), origins: options.cors_origins.clone() });
    let app = Arc::new(App { guard: guard.clone(), started: api.now(), api, options });
    let open = Router::new()
        .route("/health", get(health::alive))
        .route("/v1/health", get(health::alive))
        .route("/health/ready", get(health::ready))
        .route(&format!("/{}", proof::PATH.join("/")), post(proof::prove));
    let locked = Router::new()
        .route("/v1/chat/completions", post(chat_completions::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::retrieve))
        .route("/v1/models", get(health::models))
        .route("/v1/models/{id}", get(health::model))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/search", get(sessions::search))
        .route("/api/search", get(sessions::search))
        .route("/api/sessions/{id}", get(sessions::show))
        .route("/api/sessions/{id}/messages", get(sessions::messages))
        .route("/api/sessions/{id}/commands", post(control::command))
        .route("/api/sessions/{id}/restore", post(control::restore))
        .route("/api/control/memory/retry", post(control::retry_memory))
        .route("/api/control/chat", post(control::chat))
        .route("/api/control/status", get(control::status))
        .route("/api/control/why", get(control::why))
        .route("/api/control/counts", get(control::counts))
        .route("/api/control/check", get(control::check))
        .route("/api/status", get(status::status))
        .route("/api/control/restart", post(status::restart))
        .route("/api/control/halt", post(control::halt))
        .route("/api/control/release", post(control::release))
        .route("/api/approvals", get(approvals::list))
        .route("/api/approvals/{*call}", post(approvals::decide))
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(guard, auth::require));
    // At the gravest level, so that it is there at every log level.
    let span = tracing::error_span!("agent", agent = %app.options.agent);
    let around = move |request: Request, next: Next| {
        let span = span.clone();
        next.run(request).instrument(span)
    };
    open.merge(locked)
        .with_state(app)
        .layer(from_fn_with_state(pages, auth::refuse_pages))
        .layer(from_fn(around))
}

/// Answers on `listener` until `stop` resolves, then lets open responses end. They do when their
/// turns settle or the agent interrupts them, so stop the agent before waiting for this.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    throughline_net::listener::serve(listener, TowerToHyperService::new(router), limits, stop).await;
}

async fn nowhere(method: Method, uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("There is nothing at {method} {}.", uri.path()))
        .code("unknown_url")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not answer to {method}.", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
}
