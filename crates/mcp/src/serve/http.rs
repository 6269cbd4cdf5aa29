//! The MCP server over streamable HTTP, for programs that cannot start a process.
//!
//! Every request needs the key. A request that a foreign web page can have made is refused even with it, as the
//! protocol asks of servers on this machine: one with an `Origin` elsewhere, and one that came under a name which is not
//! this machine's.

use super::{ServedSessions, Surface};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use throughline_core::prompt::Digest;
use throughline_core::redact::Secret;
use throughline_net::listener::{self, Limits, Visit};
use tokio::net::TcpListener;

/// Where it is, below the address.
pub const PATH: &str = "/mcp";
/// What one request may hold: a message to the agent, and no file.
const BODY_LENGTH_MAX: usize = 4 * 1024 * 1024;

/// Pages of this machine's own programs; they need the key as well.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

type ServeBody = BoxBody<Bytes, Infallible>;

/// Serves until `stop` resolves. `listener` is one of this machine's own addresses.
pub async fn serve_http(
    surface: Arc<dyn Surface>,
    listener: TcpListener,
    key: &Secret,
    stop: impl Future<Output = ()>,
) {
    let config = StreamableHttpServerConfig::default()
        .with_max_request_body_bytes(BODY_LENGTH_MAX)
        .with_allowed_origins(ORIGINS);
    let ending = config.cancellation_token.clone();
    let served = move || Ok(ServedSessions::new(surface.clone()));
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(served, sessions, config);
    let key = fingerprint(key.expose().as_bytes());
    let answered = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move {
            if !admits(&key, request.headers()) {
                return Ok(unauthorised());
            }
            if let Some(visit) = request.extensions().get::<Visit>() {
                visit.trust();
            }
            if request.uri().path().trim_end_matches('/') != PATH {
                return Ok(said(StatusCode::NOT_FOUND, "MCP is spoken at /mcp."));
            }
            Ok::<_, Infallible>(service.handle(request).await)
        }
    });
    let stop = async move {
        stop.await;
        ending.cancel(); // streams of events would not end by themselves
    };
    listener::serve(listener, Arc::new(answered), Limits::default(), stop).await;
}

fn fingerprint(key: &[u8]) -> Digest {
    Digest::of(&[b"mcp key", key])
}

/// Takes as long for a wrong key as for the right one: what is compared are digests, whole.
fn admits(key: &Digest, headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some((scheme, offered)) = value.split_at_checked(b"Bearer ".len()) else { return false };
    let offered = fingerprint(offered.trim_ascii());
    let differing = key.0.iter().zip(offered.0).fold(0, |bits, (one, other)| bits | (one ^ other));
    std::hint::black_box(differing) == 0 && scheme.eq_ignore_ascii_case(b"Bearer ")
}

fn unauthorised() -> Response<ServeBody> {
    let mut response = said(
        StatusCode::UNAUTHORIZED,
        "This needs the gateway's key: send it as `Authorization: Bearer <API_SERVER_KEY>`.",
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn said(status: StatusCode, words: &'static str) -> Response<ServeBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
