//! One listener for all agents of a process.
//!
//! The agent in front answers at the root; each one, that one included, answers under
//! `/p/<name>/` as well, as in a Hermes gateway that serves several profiles. Behind its prefix
//! every agent has its own key: one agent's key opens no other's door.
//!
//! Agents come and go while the listener stays. One that is not there now gets a 503, so that
//! whoever asked knows to ask again.

use crate::error::ApiError;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, Uri};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tower::ServiceExt;

/// What stands before the name of an agent.
const PREFIX: &str = "/p/";

pub struct Porch {
    front: String,
    version: String,
    /// None: it is known, and not there now.
    doors: Mutex<BTreeMap<String, Option<Router>>>,
}

impl Porch {
    pub fn new(front: &str, version: &str) -> Self {
        Self { front: front.to_owned(), version: version.to_owned(), doors: Mutex::default() }
    }

    fn doors(&self) -> MutexGuard<'_, BTreeMap<String, Option<Router>>> {
        self.doors.lock().expect("nothing panics while it holds the doors")
    }

    pub fn open(&self, agent: &str, router: Router) {
        self.doors().insert(agent.to_owned(), Some(router));
    }

    /// The agent is away, or not here yet.
    pub fn close(&self, agent: &str) {
        self.doors().insert(agent.to_owned(), None);
    }

    /// The path under which an agent answers, beside the root for the one in front.
    pub fn path(agent: &str) -> String {
        format!("{PREFIX}{agent}")
    }

    /// Everything that comes in at the listener.
    pub fn router(self: &Arc<Self>) -> Router {
        let porch = self.clone();
        Router::new().fallback(move |request: Request| {
            let porch = porch.clone();
            async move { porch.answer(request).await }
        })
    }

    async fn answer(&self, mut request: Request) -> Response {
        let agent = match addressed(request.uri()) {
            Some((agent, rest)) => {
                *request.uri_mut() = rest;
                agent
            }
            None => self.front.clone(),
        };
        let door = self.doors().get(&agent).cloned();
        match door {
            Some(Some(router)) => {
                router.oneshot(request).await.unwrap_or_else(|impossible| match impossible {})
            }
            // The process lives, whatever became of the agent in front.
            Some(None) if matches!(request.uri().path(), "/health" | "/v1/health") => {
                Json(json!({"status": "ok", "platform": "throughline", "version": self.version}))
                    .into_response()
            }
            Some(None) => {
                let message = format!(
                    "The agent {agent} is not running now; `throughline status` says why. Try again."
                );
                let refusal = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message);
                refusal.code("agent_unavailable").into_response()
            }
            None => {
                let message = format!("There is no agent called {agent:?} here.");
                ApiError::new(StatusCode::NOT_FOUND, message).code("unknown_agent").into_response()
            }
        }
    }
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
}
