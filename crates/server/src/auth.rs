//! Who may come in, and who they are to each other.
//!
//! One key admits to all of an agent. Behind it, the `user` field and the header
//! `X-Hermes-Session-Key` keep callers apart: together with the key they are the principal, and a
//! session belongs to the principal that began it.

use crate::App;
use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, header};
use std::sync::Arc;
use throughline_core::prompt::Digest;

pub const SESSION_KEY: HeaderName = HeaderName::from_static("x-hermes-session-key");

/// As in Hermes.
const SESSION_KEY_LENGTH_MAX: usize = 256;

/// 128 bits of a digest: enough that no two callers meet, short enough for every row and key.
const PRINCIPAL_LENGTH: usize = 32;

/// Knows the key, by its digest only.
pub struct Guard {
    key: Option<Digest>,
}

impl Guard {
    pub fn new(key: &str) -> Self {
        Self { key: (!key.is_empty()).then(|| fingerprint(key.as_bytes())) }
    }

    /// Takes as long for a wrong key as for the right one: what is compared are digests, whole.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let (Some(key), Some(offered)) = (&self.key, bearer(headers)) else { return false };
        let offered = fingerprint(offered);
        let differing = key.0.iter().zip(offered.0).fold(0, |bits, (one, other)| bits | (one ^ other));
        std::hint::black_box(differing) == 0
    }

    /// The name of a caller. Nobody can learn the key from it, or another caller's name.
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

fn fingerprint(key: &[u8]) -> Digest {
    Digest::of(&[b"api key", key])
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Stands before every route but health. A refusal is not counted in the store: whoever has no key
/// must not be able to make it write.
pub async fn require(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if app.guard.admits(request.headers()) {
        return next.run(request).await;
    }
    tracing::debug!(path = request.uri().path(), "refused a request without the right key");
    ApiError::unauthorised().into_response()
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
        let guard = Guard::new("k");
        let names = [
            guard.principal(None, None),
            guard.principal(Some(""), None),
            guard.principal(Some("a"), None),
            guard.principal(None, Some("a")),
            guard.principal(Some("a"), Some("a")),
            Guard::new("other").principal(None, None),
        ];
        for (i, one) in names.iter().enumerate() {
            assert_eq!(one.len(), PRINCIPAL_LENGTH);
            assert!(names[i + 1..].iter().all(|other| other != one), "{i}");
        }
    }

    #[test]
    fn p31_only_the_whole_key_opens_and_an_empty_one_never_does() {
        let offer = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        let guard = Guard::new("secret");
        assert!(guard.admits(&offer("Bearer secret")));
        assert!(guard.admits(&offer("bearer  secret ")));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer", "Bearer ", "secret", "Basic secret", ""] {
            assert!(!guard.admits(&offer(wrong)), "{wrong:?}");
        }
        assert!(!guard.admits(&HeaderMap::new()));
        assert!(!Guard::new("").admits(&offer("Bearer ")));
    }
}
