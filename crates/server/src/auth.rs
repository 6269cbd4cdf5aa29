//! Which requests are admitted, and which caller each belongs to.
//!
//! Before anything else, on every route, health included: a request without the key that a web page can have made is
//! refused. It carries an `Origin`, or it reached a loopback address under a name that is not this machine's (a page
//! can make any name of its own stand for 127.0.0.1). No page knows the key, so a request with the key is no page's.
//!
//! One key admits to all of an agent. Behind it, the `user` field and the header
//! `X-Hermes-Session-Key` keep callers apart: together with the key they are the principal, and a
//! session belongs to the principal that began it.

use crate::error::ApiError;
use crate::proof::{Challenge, NONCE_LENGTH};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use throughline_core::prompt::Digest;
use throughline_net::listener::Visit;

pub const SESSION_KEY: HeaderName = HeaderName::from_static("x-hermes-session-key");

/// As in Hermes.
const SESSION_KEY_LENGTH_MAX: usize = 256;

/// 128 bits of a digest: enough that no two callers meet, short enough for every row and key.
const PRINCIPAL_LENGTH: usize = 32;

/// Knows the key, by its digest only, and whose it is.
pub struct ApiKeyGuard {
    key: Option<Digest>,
    home: String,
    /// Stands in for a key that is not there, so that what is asked of it looks like any other answer.
    chance: Digest,
}

impl ApiKeyGuard {
    /// `home`: its path, as the file system resolves it.
    pub fn new(key: &str, home: &str) -> Self {
        // Hashes under keys that the system chose at random.
        let chance = [0_u64; 4].map(|_| RandomState::new().hash_one(0).to_be_bytes());
        Self {
            key: (!key.is_empty()).then(|| fingerprint(key.as_bytes())),
            home: home.to_owned(),
            chance: Digest::of(&[b"chance", chance.as_flattened()]),
        }
    }

    /// Admits no caller.
    pub fn closed() -> Self {
        Self::new("", "")
    }

    /// Shows the sender of the nonce that the key is known here. See [`crate::proof`].
    pub fn proves(&self, nonce: &[u8; NONCE_LENGTH], address: SocketAddr) -> String {
        Challenge { nonce, home: &self.home, address }.proof(self.key.as_ref().unwrap_or(&self.chance))
    }

    /// Takes as long for a wrong key as for the right one: what is compared are digests, whole.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let (Some(key), Some(offered)) = (&self.key, bearer(headers)) else { return false };
        let offered = fingerprint(offered);
        let differing = key.0.iter().zip(offered.0).fold(0, |bits, (one, other)| bits | (one ^ other));
        std::hint::black_box(differing) == 0
    }

    /// The name of a caller. It gives away neither the key nor another caller's name.
    pub fn principal(&self, user: Option<&str>, session_key: Option<&str>) -> String {
        let key = self.key.as_ref().map_or([].as_slice(), |key| &key.0);
        // No user is another caller than a user without a name.
        let tagged = |text: Option<&str>| text.map(|text| format!("={text}")).unwrap_or_default();
        let (user, session_key) = (tagged(user), tagged(session_key));
        let mut name = Digest::of(&[b"principal", key, user.as_bytes(), session_key.as_bytes()]).to_hex();
        name.truncate(PRINCIPAL_LENGTH);
        name
    }

    /// A seal that only this agent can set on `fields`, and that shows if one was changed.
    pub fn seal(&self, fields: &[&[u8]]) -> Digest {
        let key = self.key.as_ref().map_or([].as_slice(), |key| &key.0);
        let all: Vec<_> = [b"seal", key].into_iter().chain(fields.iter().copied()).collect();
        Digest::of(&all)
    }
}

pub(crate) fn fingerprint(key: &[u8]) -> Digest {
    Digest::of(&[b"api key", key])
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Stands before every route but health. A refusal is not counted in the store: a caller without
/// the key must not be able to make it write.
pub async fn require(State(guard): State<Arc<ApiKeyGuard>>, request: Request, next: Next) -> Response {
    if guard.admits(request.headers()) {
        if let Some(visit) = request.extensions().get::<Visit>() {
            visit.trust();
        }
        return next.run(request).await;
    }
    tracing::debug!(path = request.uri().path(), "refused a request without the right key");
    ApiError::unauthorised(request.headers().contains_key(header::AUTHORIZATION)).into_response()
}

/// Which web pages may ask.
pub struct WebPages {
    pub guard: Arc<ApiKeyGuard>,
    /// As [`crate::ServerOptions::cors_origins`].
    pub origins: Vec<String>,
}

impl WebPages {
    /// What a page of this origin is told that it may read. None: nothing.
    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let origin = headers.get(header::ORIGIN)?;
        let any = self.origins.iter().any(|allowed| allowed == "*");
        if !any && !self.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()) {
            return None;
        }
        // A page's library sends headers of its own, and no page can do anything here without the key.
        let sent = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let mut told = HeaderMap::from_iter([
            (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS")),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                sent.unwrap_or_else(|| {
                    HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key")
                }),
            ),
            (
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("X-Hermes-Session-Id, X-Request-Id, Retry-After"),
            ),
            (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        ]);
        let origin = if any { HeaderValue::from_static("*") } else { origin.clone() };
        told.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if !any {
            told.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
        Some(told)
    }
}

/// Stands before every route there is. A page of an origin that the operator allowed is answered like any other program,
/// and asks beforehand whether it may, as browsers do.
pub async fn refuse_pages(State(pages): State<Arc<WebPages>>, request: Request, next: Next) -> Response {
    let guard = &pages.guard;
    if let Some(told) = pages.allowed(request.headers()) {
        let mut response = match *request.method() == Method::OPTIONS {
            true => Response::default(),
            false => next.run(request).await,
        };
        response.headers_mut().extend(told);
        return response;
    }
    match of_a_page(&request).filter(|_| !guard.admits(request.headers())) {
        None => next.run(request).await,
        Some(why) => {
            let message = format!("{why} Programs that know the key are answered whatever they send there.");
            ApiError::new(StatusCode::FORBIDDEN, message).code("forbidden_origin").into_response()
        }
    }
}

/// Why a web page in a browser may have made this request.
fn of_a_page(request: &Request) -> Option<&'static str> {
    if request.headers().contains_key(header::ORIGIN) {
        return Some(
            "A web page asked this (the request has an Origin), and none of its origin is answered here: the agent's \
             owner can allow it with API_SERVER_CORS_ORIGINS.",
        );
    }
    // On a network the operator may have given the machine any name.
    let on_loopback = request.extensions().get::<Visit>().is_some_and(|visit| visit.local.ip().is_loopback());
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let is_ours = host.is_some_and(is_this_machine) && hosts.next().is_none();
    (on_loopback && !is_ours).then_some(
        "The Host that was asked for is not this machine's own address; use 127.0.0.1 or localhost.",
    )
}

/// Names that no server of names can make stand for another machine. The port does not matter.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

/// What the client named its caller in the header, if it did.
pub fn session_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(SESSION_KEY) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).ok().map(str::trim);
    match text {
        Some("") => Ok(None),
        Some(text) if text.chars().count() <= SESSION_KEY_LENGTH_MAX => Ok(Some(text)),
        _ => Err(ApiError::invalid(
            SESSION_KEY.as_str(),
            format!(
                "X-Hermes-Session-Key must be UTF-8 text of at most {SESSION_KEY_LENGTH_MAX} characters."
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_callers_are_told_apart_by_key_user_and_session_key() {
        let guard = ApiKeyGuard::new("k", "");
        let names = [
            guard.principal(None, None),
            guard.principal(Some(""), None),
            guard.principal(Some("a"), None),
            guard.principal(None, Some("a")),
            guard.principal(Some("a"), Some("a")),
            ApiKeyGuard::new("other", "").principal(None, None),
        ];
        for (i, one) in names.iter().enumerate() {
            assert_eq!(one.len(), PRINCIPAL_LENGTH);
            assert!(names[i + 1..].iter().all(|other| other != one), "{i}");
        }
    }

    #[test]
    fn p31_only_the_whole_key_opens_and_an_empty_one_never_does() {
        let offer = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        let guard = ApiKeyGuard::new("secret", "");
        assert!(guard.admits(&offer("Bearer secret")));
        assert!(guard.admits(&offer("bearer  secret ")));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer", "Bearer ", "secret", "Basic secret", ""] {
            assert!(!guard.admits(&offer(wrong)), "{wrong:?}");
        }
        assert!(!guard.admits(&HeaderMap::new()));
        assert!(!ApiKeyGuard::closed().admits(&offer("Bearer ")));
    }

    #[test]
    fn p31_only_names_that_nobody_can_redirect_stand_for_this_machine() {
        for host in
            ["127.0.0.1:8642", "localhost", "LOCALHOST:1", "a.localhost:8642", "[::1]:8642", "10.0.0.7"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", "x"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
