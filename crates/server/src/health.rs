//! Whether the agent runs, whether it takes messages, and what it is called.

use crate::App;
use crate::error::ApiError;
use crate::path_and_query::PathName;
use crate::shared_listener::ByName;
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::redact::redacted;

/// Open to everybody, so it says little.
pub async fn alive(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"status": "ok", "platform": "throughline", "version": app.options.version}))
}

/// 200 when a message sent now would be accepted. Under an agent's name only its key holder hears it: whether there
/// is an agent of that name concerns no other caller.
pub async fn ready(State(app): State<Arc<App>>, request: Request) -> Response {
    if request.extensions().get::<ByName>().is_some() && !app.guard.admits(request.headers()) {
        return ApiError::unauthorised(request.headers().contains_key(http::header::AUTHORIZATION))
            .into_response();
    }
    let status = app.api.status();
    let reason = match (status.draining, status.unwritable, status.ready) {
        (true, ..) => "draining: the gateway is stopping".to_owned(),
        (_, Some(why), _) => format!("unwritable: {}", redacted(&why)),
        (_, None, false) => "starting: what was unfinished is taken up first".to_owned(),
        (_, None, true) => return Json(json!({"status": "ready"})).into_response(),
    };
    let body = Json(json!({"status": "unavailable", "reason": reason}));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

pub async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [shown(&app)]}))
}

pub async fn model(State(app): State<Arc<App>>, PathName(id): PathName) -> Result<Json<Value>, ApiError> {
    match id == app.options.model {
        true => Ok(Json(shown(&app))),
        false => {
            let message =
                format!("There is no model {id:?} here; the agent answers as {:?}.", app.options.model);
            Err(ApiError::new(StatusCode::NOT_FOUND, message).param("model").code("model_not_found"))
        }
    }
}

fn shown(app: &App) -> Value {
    json!({
        "id": app.options.model,
        "object": "model",
        "created": app.started.whole_seconds(),
        "owned_by": "throughline",
        "permission": [],
        "root": app.options.model,
        "parent": null,
    })
}
