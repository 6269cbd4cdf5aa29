//! What tools ask people, and what people answer.
//!
//! - `GET /api/approvals`: every question that waits, oldest first
//! - `POST /api/approvals/{id}`: `{"decision": "approve", "scope": "once" | "session" | "always"}`,
//!   `{"decision": "deny", "reason": …}`, or `{"answer": …}` to a question in words. Answers when it
//!   is on disk; one that is not waited for any more is a 404
//!
//! The holder of the key owns the agent, and may answer for it. As long as this list is fetched now and then, questions of
//! clients that cannot answer themselves are held, too.

use crate::App;
use crate::error::ApiError;
use crate::json_views::{AskView, ListView};
use crate::request_body;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::port::{CallId, Question, Reading};
use throughline_core::tool::{Grant, Verdict};

pub async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.api.owner_is_here();
    let Reading::Asks(asks) = app.api.read(Question::Asks).await? else {
        return Err(ApiError::unreadable());
    };
    Ok(Json(ListView::<AskView<'_>>::of(&asks, None)).into_response())
}

pub async fn decide(
    State(app): State<Arc<App>>,
    Path(call): Path<String>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let call: CallId = call.parse().map_err(|message: String| ApiError::invalid("id", message))?;
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let mut fields = request_body::fields(&bytes)?;
    let (decision, scope) = (fields.text("decision")?, fields.text("scope")?);
    let (reason, answer) = (fields.text("reason")?, fields.text("answer")?);
    let verdict = match (decision.as_deref(), answer) {
        (Some("approve"), None) => Verdict::Granted(grant(scope.as_deref())?),
        (Some("deny"), None) => Verdict::Denied { reason: reason.filter(|reason| !reason.trim().is_empty()) },
        (None, Some(answer)) => Verdict::Said(answer),
        _ => {
            let message = "Give decision (\"approve\" or \"deny\"), or answer for a question in words.";
            return Err(ApiError::invalid("decision", message));
        }
    };
    app.api.decide(call.clone(), verdict).await?;
    Ok(Json(json!({"object": "throughline.decision", "id": call.to_string(), "accepted": true})))
}

fn grant(scope: Option<&str>) -> Result<Grant, ApiError> {
    match scope {
        None | Some("once") => Ok(Grant::Once),
        Some("session") => Ok(Grant::Session),
        Some("always") => Ok(Grant::Always),
        Some(other) => {
            let message = format!("scope is {other:?}; it can be once, session or always.");
            Err(ApiError::invalid("scope", message))
        }
    }
}
