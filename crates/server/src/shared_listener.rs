//! One listener for all agents of a process.
//!
//! The agent in front answers at the root; each one, that one included, answers under
//! `/p/<name>/` as well, as in a Hermes gateway that serves several profiles. Behind its prefix
//! every agent has its own key: one agent's key opens no other agent.
//!
//! Agents come and go while the listener stays. One that is not there now answers 503 to a caller with its key, who
//! then knows to ask again. A caller without the key gets the same answers for every name, whether an agent is
//! called so or not.

use crate::auth::{self, ApiKeyGuard, WebPages};
use crate::error::ApiError;
use crate::proof;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tower::ServiceExt;

/// What stands before the name of an agent.
const PREFIX: &str = "/p/";

/// A request carries it if its path named the agent.
#[derive(Clone, Copy)]
pub struct ByName;

pub struct SharedListener {
    front: String,
    version: String,
    routers: Mutex<BTreeMap<String, Router>>,
    /// Answers under names that no agent has.
    no_agent: Router,
}

/// An agent that is not there now.
pub struct AbsentAgent<'a> {
    pub agent: &'a str,
    /// None: it has never had a key.
    pub key: Option<&'a str>,
    /// See [`crate::ServerOptions`].
    pub home: &'a str,
}

impl SharedListener {
    pub fn new(front: &str, version: &str) -> Self {
        let no_agent = absent(ApiKeyGuard::closed(), String::new(), version.to_owned());
        Self { front: front.to_owned(), version: version.to_owned(), routers: Mutex::default(), no_agent }
    }

    fn routers(&self) -> MutexGuard<'_, BTreeMap<String, Router>> {
        self.routers.lock().expect("nothing panics while it holds the routers")
    }

    pub fn open(&self, agent: &str, router: Router) {
        self.routers().insert(agent.to_owned(), router);
    }

    /// The agent is away, or not here yet.
    pub fn close(&self, gone: AbsentAgent<'_>) {
        let guard = ApiKeyGuard::new(gone.key.unwrap_or_default(), gone.home);
        let router = absent(guard, gone.agent.to_owned(), self.version.clone());
        self.routers().insert(gone.agent.to_owned(), router);
    }

    /// The path under which an agent answers, beside the root for the one in front.
    pub fn path(agent: &str) -> String {
        format!("{PREFIX}{agent}")
    }

    /// Everything that comes in at the listener.
    pub fn router(self: &Arc<Self>) -> Router {
        let shared_listener = self.clone();
        Router::new().fallback(move |request: Request| {
            let shared_listener = shared_listener.clone();
            async move { shared_listener.answer(request).await }
        })
    }

    async fn answer(&self, mut request: Request) -> Response {
        let agent = match addressed(request.uri()) {
            Some((agent, rest)) => {
                *request.uri_mut() = rest;
                request.extensions_mut().insert(ByName);
                agent
            }
            None => self.front.clone(),
        };
        let router = self.routers().get(&agent).unwrap_or(&self.no_agent).clone();
        router.oneshot(request).await.unwrap_or_else(|impossible| match impossible {})
    }
}

/// Answers for an agent that is not there, with the same locks as [`crate::router`].
fn absent(guard: ApiKeyGuard, agent: String, version: String) -> Router {
    let guard = Arc::new(guard);
    // The process lives, with or without the agent.
    let alive = async move || -> Json<Value> {
        Json(json!({"status": "ok", "platform": "throughline", "version": version}))
    };
    let gone = move || {
        let message =
            format!("The agent {agent} is not running now; `throughline status` says why. Try again.");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).code("agent_unavailable")
    };
    let ready = {
        let gone = gone.clone();
        async move |State(guard): State<Arc<ApiKeyGuard>>, request: Request| match request
            .extensions()
            .get::<ByName>()
            .is_some()
            && !guard.admits(request.headers())
        {
            true => ApiError::unauthorised(request.headers().contains_key(http::header::AUTHORIZATION)),
            false => gone(),
        }
    };
    let prove =
        async |State(guard): State<Arc<ApiKeyGuard>>, request: Request| proof::answer(&guard, request).await;
    let open = Router::new()
        .route("/health", get(alive.clone()))
        .route("/v1/health", get(alive))
        .route("/health/ready", get(ready))
        .route(&format!("/{}", proof::PATH.join("/")), post(prove));
    let locked = Router::new()
        .fallback(async move || gone().into_response())
        .layer(from_fn_with_state(guard.clone(), auth::require));
    let pages = Arc::new(WebPages { guard: guard.clone(), origins: Vec::new() });
    open.merge(locked).with_state(guard).layer(from_fn_with_state(pages, auth::refuse_pages))
}

/// The agent that a path names, and what is asked of it.
fn addressed(uri: &Uri) -> Option<(String, Uri)> {
    let named = uri.path().strip_prefix(PREFIX)?;
    let (agent, rest) = named.split_once('/').unwrap_or((named, ""));
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let rest = format!("/{rest}{query}").parse().ok()?;
    (!agent.is_empty()).then(|| (agent.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_an_agent_and_what_is_asked_of_it() {
        for (path, agent, rest) in [
            ("/p/work/v1/models", "work", "/v1/models"),
            ("/p/work", "work", "/"),
            ("/p/work/", "work", "/"),
            ("/p/work/api/search?q=%2Fp%2Fx", "work", "/api/search?q=%2Fp%2Fx"),
            ("/p/work//v1", "work", "//v1"),
        ] {
            let (named, left) = addressed(&path.parse().unwrap()).unwrap();
            assert_eq!((named.as_str(), left.to_string().as_str()), (agent, rest), "{path}");
        }
        for path in ["/", "/p", "/p/", "/v1/p/work", "/pp/work"] {
            assert_eq!(addressed(&path.parse().unwrap()), None, "{path}");
        }
    }

    /// What a caller without a key sees of an agent's name.
    async fn seen(
        shared_listener: &Arc<SharedListener>,
        name: &str,
        method: &str,
        path: &str,
    ) -> (StatusCode, String) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/p/{name}{path}"))
            .header("content-type", "application/json")
            .body(axum::body::Body::from("{}"))
            .unwrap();
        let answer = shared_listener.router().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8_lossy(&body).replace(name, "<name>"))
    }

    #[tokio::test]
    async fn p31_nobody_without_a_key_learns_which_agents_there_are() {
        let shared_listener = Arc::new(SharedListener::new("default", "1"));
        shared_listener.close(AbsentAgent { agent: "work", key: Some("the-key-of-work"), home: "/h/work" });
        shared_listener.close(AbsentAgent { agent: "fresh", key: None, home: "/h/fresh" });
        for (method, path) in [
            ("GET", "/health"),
            ("GET", "/v1/health"),
            ("GET", "/health/ready"),
            ("GET", "/v1/models"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/api/prove"),
            ("GET", "/nowhere"),
            ("DELETE", "/health"),
        ] {
            let known = seen(&shared_listener, "work", method, path).await;
            assert_eq!(known, seen(&shared_listener, "no-agent", method, path).await, "{method} {path}");
            assert_eq!(known, seen(&shared_listener, "fresh", method, path).await, "{method} {path}");
        }
        let request =
            Request::builder().uri("/p/work/v1/models").header("authorization", "Bearer the-key-of-work");
        let answer =
            shared_listener.router().oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "its owner hears that it is away");
    }
}
