//! What a client is told when it cannot have what it asked for, in OpenAI's shape.
//!
//! A message says what happened and what to do next. Nothing in it was not either written here,
//! sent by that client, or made for it by the agent; keys are cut from all of it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use throughline_core::port::{Refusal, StoreError};
use throughline_core::redact::redacted;
use throughline_core::session::{Failure, FailureKind};

/// OpenAI's libraries retry what this says, no matter what the status suggests.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// How long a client waits before it asks a gateway that is going down again: a restart.
const RESTART_SECONDS: u32 = 2;
/// How long a full disk is given before the next try.
const UNWRITABLE_SECONDS: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after_seconds: Option<u32>,
    should_retry: Option<bool>,
}

/// The `error` of a body or of an event.
#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

#[derive(Serialize)]
struct ErrorEnvelope<'a> {
    error: ErrorBody<'a>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl AsRef<str>) -> Self {
        Self {
            status,
            message: redacted(message.as_ref()),
            param: None,
            code: None,
            retry_after_seconds: None,
            should_retry: None,
        }
    }

    /// The request is wrong at `param`.
    pub fn invalid(param: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message).param(param)
    }

    pub fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn after(self, seconds: u32) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// The same request again would end the same way.
    fn hopeless(self) -> Self {
        Self { should_retry: Some(false), ..self }
    }

    /// In the words by which libraries tell a wrong key from other refusals. `offered`: there was one.
    pub fn unauthorised(offered: bool) -> Self {
        let what = match offered {
            true => "Incorrect API key provided.",
            false => "You didn't provide an API key.",
        };
        let message = format!(
            "{what} Send it as `Authorization: Bearer <key>`; the gateway keeps it in a file in the agent's home."
        );
        Self::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key")
    }

    pub fn stopping() -> Self {
        Self::interrupted(
            "The gateway is stopping. The message is kept and will be answered after the next start; \
             send the same request again to get the answer.",
        )
    }

    /// The gateway goes on, but the session had to be loaded again.
    pub fn reloading() -> Self {
        Self::interrupted(
            "The session could not go on and is being loaded again; the gateway's log says why. The message \
             is kept; send the same request again to get the answer.",
        )
    }

    fn interrupted(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("interrupted").after(RESTART_SECONDS)
    }

    /// An answer the agent knows of and cannot show.
    pub fn unreadable() -> Self {
        let message =
            "The answer could not be read back. GET /api/control/check says what is wrong with the store.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("answer_unreadable")
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn code_or<'a>(&'a self, other: &'a str) -> &'a str {
        self.code.unwrap_or(other)
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// `{"error": …}`, as a body or as the data of an event.
    pub fn json(&self) -> Vec<u8> {
        let Self { message, param, code, .. } = self;
        let error = ErrorBody { message, r#type: self.kind(), param: param.as_deref(), code: *code };
        serde_json::to_vec(&ErrorEnvelope { error }).expect("a shape of texts is JSON")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(should) = self.should_retry {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(if should { "true" } else { "false" }));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let (status, code) = match &refusal {
            Refusal::Ended(_) => (StatusCode::CONFLICT, "session_ended"),
            Refusal::NotYours(_) => (StatusCode::FORBIDDEN, "session_not_yours"),
            Refusal::OtherBody => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            Refusal::MovedOn => (StatusCode::CONFLICT, "conversation_moved_on"),
            Refusal::Busy(_) => (StatusCode::CONFLICT, "session_busy"),
            Refusal::Results(_) => (StatusCode::BAD_REQUEST, "invalid_tool_results"),
            Refusal::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            Refusal::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            Refusal::Unwritable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unwritable"),
            Refusal::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        };
        let error = Self::new(status, sentence(&refusal.to_string())).code(code);
        match refusal {
            Refusal::Ended(_) | Refusal::MovedOn => error.hopeless(),
            Refusal::Draining => error.after(RESTART_SECONDS),
            Refusal::Unwritable(_) => error.after(UNWRITABLE_SECONDS),
            _ => error,
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = sentence(&error.in_full());
        match error {
            StoreError::Busy | StoreError::Unwritable(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
                    .code("store_busy")
                    .after(UNWRITABLE_SECONDS)
            }
            _ => {
                let message = format!("{message} GET /api/control/check says what is wrong with the store.");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("store_broken")
            }
        }
    }
}

impl From<&Failure> for ApiError {
    /// By what the client can do about it. A retry of a failed turn is the same turn again.
    fn from(failure: &Failure) -> Self {
        let (status, code) = match failure.kind {
            FailureKind::Wait { after_seconds: Some(_) } => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
            }
            FailureKind::Wait { after_seconds: None } | FailureKind::Unreachable => {
                (StatusCode::SERVICE_UNAVAILABLE, "model_unavailable")
            }
            FailureKind::TooLong => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            FailureKind::Credentials => (StatusCode::BAD_GATEWAY, "model_credentials"),
            FailureKind::Refused => (StatusCode::BAD_REQUEST, "model_refused"),
            FailureKind::Broken => (StatusCode::BAD_GATEWAY, "model_broken"),
            FailureKind::Parked => (StatusCode::INTERNAL_SERVER_ERROR, "turn_parked"),
            FailureKind::Exhausted => (StatusCode::INTERNAL_SERVER_ERROR, "turn_budget_exhausted"),
            FailureKind::Stopped => (StatusCode::CONFLICT, "turn_stopped"),
        };
        let error = Self::new(status, &failure.message).code(code);
        match failure.kind {
            FailureKind::Wait { after_seconds: Some(seconds) } => error.after(seconds),
            FailureKind::TooLong => error.param("messages"),
            FailureKind::Credentials
            | FailureKind::Parked
            | FailureKind::Exhausted
            | FailureKind::Stopped => error.hopeless(),
            _ => error,
        }
    }
}

/// Messages of the core begin small and end open, to stand within a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}
