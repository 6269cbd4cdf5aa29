//! `GET /api/sessions`, one of them, its messages, and search over all.
//!
//! The key opens all of an agent's sessions. A front end that serves several people names the one
//! it asks for (`X-Hermes-Session-Key`, or `?user=`), and then gets that caller's sessions and no
//! other's: those do not exist to it.

use crate::App;
use crate::auth;
use crate::error::ApiError;
use crate::json_views::{HitView, ListView, MessageView, PageRequest, SessionView};
use crate::path_and_query::{PathName, UrlQuery};
use crate::submission::named_session;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use throughline_core::SessionId;
use throughline_core::port::{Question, Reading, SessionFilter, SessionSummary};

/// As in Hermes.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 200;
/// Longer than any question a person asks of a search.
const QUERY_LENGTH_MAX: usize = 1000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct SessionQuery {
    limit: Option<usize>,
    offset: Option<usize>,
    source: Option<String>,
    session: Option<String>,
    user: Option<String>,
    q: Option<String>,
}

impl SessionQuery {
    fn filter(&self, app: &App, headers: &HeaderMap) -> Result<SessionFilter, ApiError> {
        let session = self.session.as_deref().filter(|name| !name.is_empty());
        Ok(SessionFilter {
            principal: caller(app, headers, self.user.as_deref())?,
            source: self.source.clone().filter(|source| !source.is_empty()),
            session: session.map(|name| named_session(name, "session")).transpose()?,
            limit: self.limit.unwrap_or(LIMIT).min(LIMIT_MAX),
            offset: self.offset.unwrap_or(0),
            ..SessionFilter::default()
        })
    }
}

/// None: the owner, who holds the key and may see everything.
fn caller(app: &App, headers: &HeaderMap, user: Option<&str>) -> Result<Option<String>, ApiError> {
    let user = user.filter(|user| !user.is_empty());
    let session_key = auth::session_key(headers)?;
    Ok((user.is_some() || session_key.is_some()).then(|| app.guard.principal(user, session_key)))
}

pub async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    UrlQuery(wanted): UrlQuery<SessionQuery>,
) -> Result<Response, ApiError> {
    let filter = wanted.filter(&app, &headers)?;
    let (limit, offset) = (filter.limit, filter.offset);
    let found = summaries(&app, filter).await?;
    let page = PageRequest { limit, offset, has_more: limit > 0 && found.len() == limit };
    Ok(Json(ListView::<SessionView<'_>>::of(&found, Some(page))).into_response())
}

pub async fn search(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    UrlQuery(wanted): UrlQuery<SessionQuery>,
) -> Result<Response, ApiError> {
    let filter = wanted.filter(&app, &headers)?;
    let query = wanted.q.unwrap_or_default();
    if query.trim().is_empty() || query.len() > QUERY_LENGTH_MAX {
        let message = format!("q must hold what to search for, in at most {QUERY_LENGTH_MAX} bytes.");
        return Err(ApiError::invalid("q", message));
    }
    let (limit, offset) = (filter.limit, filter.offset);
    let Reading::Hits(hits) = app.api.read(Question::Search { query, filter }).await? else {
        return Err(ApiError::unreadable());
    };
    let page = PageRequest { limit, offset, has_more: limit > 0 && hits.len() == limit };
    Ok(Json(ListView::<HitView<'_>>::of(&hits, Some(page))).into_response())
}

pub async fn show(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
    headers: HeaderMap,
    UrlQuery(wanted): UrlQuery<SessionQuery>,
) -> Result<Response, ApiError> {
    let summary = visible(&app, &name, &headers, &wanted).await?;
    Ok(Json(json!({"object": "hermes.session", "session": SessionView::from(&summary)})).into_response())
}

pub async fn messages(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
    headers: HeaderMap,
    UrlQuery(wanted): UrlQuery<SessionQuery>,
) -> Result<Response, ApiError> {
    let session = visible(&app, &name, &headers, &wanted).await?.id;
    let Reading::History(rows) = app.api.read(Question::History(session.clone())).await? else {
        return Err(ApiError::unreadable());
    };
    let data = rows.iter().map(|(row, message)| MessageView::new(&session, *row, message)).collect();
    Ok(Json(TranscriptView { object: "list", session_id: session.as_str(), data }).into_response())
}

#[derive(Serialize)]
struct TranscriptView<'a> {
    object: &'static str,
    session_id: &'a str,
    data: Vec<MessageView<'a>>,
}

/// The session of this name, if there is one that this caller may see.
pub async fn visible(
    app: &App,
    name: &str,
    headers: &HeaderMap,
    wanted: &SessionQuery,
) -> Result<SessionSummary, ApiError> {
    let session = named_session(name, "session")?;
    let principal = caller(app, headers, wanted.user.as_deref())?;
    find(app, session, principal).await
}

pub async fn find(
    app: &App,
    session: SessionId,
    principal: Option<String>,
) -> Result<SessionSummary, ApiError> {
    let found = match principal {
        None => match app.api.read(Question::Session(session.clone())).await? {
            Reading::Session(found) => found,
            _ => return Err(ApiError::unreadable()),
        },
        Some(_) => {
            let filter = SessionFilter {
                principal,
                session: Some(session.clone()),
                limit: 1,
                ..SessionFilter::default()
            };
            summaries(app, filter).await?.pop()
        }
    };
    found.ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, format!("There is no session {session}."))
            .code("session_not_found")
    })
}

async fn summaries(app: &App, filter: SessionFilter) -> Result<Vec<SessionSummary>, ApiError> {
    match app.api.read(Question::Sessions(filter)).await? {
        Reading::Sessions(found) => Ok(found),
        _ => Err(ApiError::unreadable()),
    }
}
