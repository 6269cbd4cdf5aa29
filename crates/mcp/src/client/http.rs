//! A server behind streamable HTTP. The protocol is the library's; what is ours is the size of an
//! answer, which the library bounds in event streams and not in plain JSON.

use super::MESSAGE_LENGTH_MAX;
use super::error_cause;
use super::oauth::LoginTokens;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::auth::AuthError;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpClientTransport,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const SESSION: &str = "Mcp-Session-Id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// What is read, and shown, of a page that is no answer.
const ERROR_LENGTH_MAX: usize = 64 * 1024;
const ERROR_SHOWN_MAX: usize = 300;
/// How often a stream that broke off is taken up again before the connection counts as lost.
const RESUMES_MAX: usize = 3;
const RESUME_PAUSE: Duration = Duration::from_secs(1);

pub fn transport(
    client: Client,
    url: &Url,
    bearer: Option<Arc<LoginTokens>>,
) -> StreamableHttpClientTransport<BoundedHttp> {
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.as_str()).max_sse_event_size(MESSAGE_LENGTH_MAX);
    let mut pause = FixedInterval::default();
    pause.max_times = Some(RESUMES_MAX);
    pause.duration = RESUME_PAUSE;
    config.retry_config = Arc::new(pause);
    StreamableHttpClientTransport::with_client(BoundedHttp { client, bearer }, config)
}

type PostResult = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;

type TransportError = StreamableHttpError<reqwest::Error>;

#[derive(Clone)]
pub struct BoundedHttp {
    client: Client,
    /// Where the server is one that a person logs in to.
    bearer: Option<Arc<LoginTokens>>,
}

impl BoundedHttp {
    async fn token(&self) -> Result<Option<String>, TransportError> {
        match &self.bearer {
            Some(bearer) => bearer.token().await.map(Some).map_err(unauthorised),
            None => Ok(None),
        }
    }

    async fn posted(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<&str>,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> PostResult {
        let mut request = self.client.post(uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.json(message).send().await?;
        let expects_answer = matches!(message, JsonRpcMessage::Request(_));
        judged(response, expects_answer, session.is_some()).await
    }
}

fn unauthorised(error: AuthError) -> TransportError {
    match error {
        AuthError::AuthorizationRequired => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
        }
        error => unexpected(format!("its login could not be renewed: {}", error_cause::of(&error))),
    }
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> PostResult {
        let token = self.token().await?;
        let session = session.as_deref();
        let answer = self.posted(&uri, &message, session, token.as_deref(), &headers).await;
        let (Err(StreamableHttpError::AuthRequired(_)), Some(bearer), Some(token)) =
            (&answer, &self.bearer, token)
        else {
            return answer;
        };
        // It was refused before anything was done with it: with another token it may be sent again.
        let token = bearer.renewed(&token).await.map_err(unauthorised)?;
        self.posted(&uri, &message, session, Some(&token), &headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        let token = self.token().await?;
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        let token = self.token().await?;
        self.client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, MESSAGE_LENGTH_MAX)
            .await
    }
}

async fn judged(response: Response, expects_answer: bool, had_session: bool) -> PostResult {
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        if status == StatusCode::FORBIDDEN && challenge.contains("insufficient_scope") {
            let scope = super::connection::scope_of(&challenge);
            let missing = InsufficientScopeError::new(challenge, scope);
            return Err(StreamableHttpError::InsufficientScope(missing));
        }
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
    }
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && had_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let session = header(HeaderName::from_static("mcp-session-id")).map(str::to_owned);
    let kind = header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    if !status.is_success() {
        return refused(response, status, session).await;
    }
    if kind.starts_with(EVENTS) {
        let events = SseStream::from_bytes_stream(bounded(response.bytes_stream()));
        return Ok(StreamableHttpPostResponse::Sse(events.boxed(), session));
    }
    if !expects_answer {
        return Ok(StreamableHttpPostResponse::Accepted); // a body that no call waits for
    }
    if !kind.starts_with(JSON) {
        return Err(StreamableHttpError::UnexpectedContentType(Some(kind)));
    }
    let BodyRead::Whole(body) = read(response, MESSAGE_LENGTH_MAX).await? else {
        let size = MESSAGE_LENGTH_MAX >> 20;
        return Err(unexpected(format!("it sent a message of more than {size} MB")));
    };
    match serde_json::from_slice(&body) {
        Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        Err(error) => {
            Err(unexpected(format!("it answered with no message of MCP ({error}): {}", shown(&body))))
        }
    }
}

/// A refusal may be a proper answer all the same: an error of the protocol.
async fn refused(response: Response, status: StatusCode, session: Option<String>) -> PostResult {
    let body = match read(response, ERROR_LENGTH_MAX).await? {
        BodyRead::Whole(body) | BodyRead::Beginning(body) => body,
    };
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message @ JsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(message, session)),
        _ => Err(unexpected(match shown(&body).trim() {
            "" => format!("it answered HTTP {status}"),
            body => format!("it answered HTTP {status}: {body}"),
        })),
    }
}

fn unexpected(what: String) -> StreamableHttpError<reqwest::Error> {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(what))
}

fn shown(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(ERROR_SHOWN_MAX).collect()
}

enum BodyRead {
    Whole(Vec<u8>),
    Beginning(Vec<u8>),
}

async fn read(mut response: Response, limit: usize) -> Result<BodyRead, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(BodyRead::Beginning(body));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(BodyRead::Whole(body))
}

#[derive(Debug, thiserror::Error)]
enum BrokenBody {
    #[error("it sent an event of more than {} MB", MESSAGE_LENGTH_MAX >> 20)]
    TooLong,
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
}

/// Fails once an event is longer than any message may be: an empty line ends one.
fn bounded<B: AsRef<[u8]>>(
    chunks: impl Stream<Item = Result<B, reqwest::Error>>,
) -> impl Stream<Item = Result<B, BrokenBody>> {
    let mut event = 0_usize;
    let mut line = 0_usize;
    chunks.map(move |chunk| {
        let chunk = chunk?;
        for byte in chunk.as_ref() {
            event += 1;
            match byte {
                b'\n' if line == 0 => event = 0,
                b'\n' => line = 0,
                b'\r' => {}
                _ => line += 1,
            }
            if event > MESSAGE_LENGTH_MAX {
                return Err(BrokenBody::TooLong);
            }
        }
        Ok(chunk)
    })
}
