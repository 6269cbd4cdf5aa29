//! What stands in the address of a request, with errors in OpenAI's shape.

use crate::error::ApiError;
use axum::extract::{FromRequestParts, Path, Query};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

/// The one variable part of a path.
pub struct PathName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name)).map_err(|rejection| {
            let message = format!("The path cannot be read: {}", rejection.body_text());
            ApiError::new(StatusCode::BAD_REQUEST, message).code("invalid_path")
        })
    }
}

/// What follows the `?`.
pub struct UrlQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(asked)| Self(asked)).map_err(|rejection| {
            let message = format!("The query string cannot be read: {}", rejection.body_text());
            ApiError::new(StatusCode::BAD_REQUEST, message).code("invalid_query")
        })
    }
}
