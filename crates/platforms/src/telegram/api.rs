//! The Bot API over HTTP: one way to ask, and what can come of it.
//!
//! The token is part of every address, so no address is ever shown: errors name the method, and what
//! the server said passes the same sieve as every log line.
//!
//! Deliberately absent: retries. The caller knows whether asking twice does harm.

use bytes::{Bytes, BytesMut};
use reqwest::multipart::Form;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;
use throughline_core::redact::{Secret, redacted};
use throughline_net::excerpt;
use tokio::sync::OnceCell;

pub(crate) const ADDRESS: &str = "https://api.telegram.org";
/// A hundred updates of the longest kind are a few megabytes.
const ANSWER_MAX: usize = 16 << 20;
/// Longer than Telegram asks for in earnest.
const RETRY_AFTER_MAX: u64 = 3600;
/// A host across the world with one packet lost needs 4 s; more means it is not there.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Where the Bot API is, and who asks.
pub(crate) struct TelegramApi {
    root: String,
    files: String,
    token: Secret,
    proxy: Option<String>,
    http: OnceCell<reqwest::Client>,
}

/// What came instead of an answer, by what it says about the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TelegramFailure {
    /// Telegram never saw it.
    #[error("Telegram could not be reached: {0}")]
    Unreached(String),
    /// It was sent; its outcome is unknown.
    #[error("{0}")]
    Lost(String),
    /// Telegram said no, and did nothing.
    #[error("Telegram answered {code}: {description}")]
    Refused {
        code: u16,
        description: String,
        retry_after: Option<Duration>,
        /// The group has become a supergroup of this id.
        moved_to: Option<i64>,
    },
    /// The answer is longer than what is held of one.
    #[error("Telegram's answer is longer than {ANSWER_MAX} bytes")]
    TooLong,
}

impl TelegramFailure {
    pub fn code(&self) -> Option<u16> {
        match self {
            TelegramFailure::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            TelegramFailure::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether it is a refusal in these words.
    pub fn says(&self, words: &str) -> bool {
        matches!(self, TelegramFailure::Refused { description, .. } if description.to_lowercase().contains(words))
    }

    /// The token is not, or no longer, good.
    pub fn is_about_the_token(&self) -> bool {
        matches!(self.code(), Some(401 | 404))
    }
}

#[derive(Deserialize)]
struct TelegramEnvelope {
    ok: bool,
    result: Option<Box<RawValue>>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    migrate_to_chat_id: Option<i64>,
    retry_after: Option<u64>,
}

impl TelegramApi {
    /// `address` may be written as in Hermes' `base_url`: with `/bot` at its end, or with `{token}`.
    pub fn new(address: &str, files: Option<&str>, token: Secret, proxy: Option<String>) -> Self {
        let root = |address: &str| {
            let address = address.trim().trim_end_matches("{token}").trim_end_matches('/');
            address.trim_end_matches("/bot").trim_end_matches('/').to_owned()
        };
        let files = files.map(|files| root(files).trim_end_matches("/file").to_owned());
        let root = root(address);
        Self { files: files.unwrap_or_else(|| root.clone()), root, token, proxy, http: OnceCell::new() }
    }

    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
        patience: Duration,
    ) -> Result<R, TelegramFailure> {
        let request = self.http().await?.post(self.address(method)).json(parameters);
        self.answer(method, request, patience).await
    }

    /// With a file in it.
    pub async fn upload<R: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        patience: Duration,
    ) -> Result<R, TelegramFailure> {
        let request = self.http().await?.post(self.address(method)).multipart(form);
        self.answer(method, request, patience).await
    }

    /// What lies under a path that `getFile` gave.
    pub async fn download(
        &self,
        path: &str,
        limit: usize,
        patience: Duration,
    ) -> Result<Bytes, TelegramFailure> {
        let address = format!("{}/file/bot{}/{path}", self.files, self.token.expose());
        let request = self.http().await?.get(address).timeout(patience);
        let response = request.send().await.map_err(|error| self.broken("getting a file", error))?;
        let status = response.status().as_u16();
        let body = self.body("getting a file", response, limit).await?;
        match status {
            200..=299 => Ok(body),
            code => Err(self.refused(code, &String::from_utf8_lossy(&body))),
        }
    }

    async fn answer<R: DeserializeOwned>(
        &self,
        method: &str,
        request: reqwest::RequestBuilder,
        patience: Duration,
    ) -> Result<R, TelegramFailure> {
        let response = request.timeout(patience).send().await.map_err(|error| self.broken(method, error))?;
        let status = response.status().as_u16();
        tracing::debug!(method, status, "answered");
        let body = self.body(method, response, ANSWER_MAX).await?;
        let said = || self.shown(&String::from_utf8_lossy(&body));
        let Ok(envelope) = serde_json::from_slice::<TelegramEnvelope>(&body) else {
            // Not Telegram's words: something between here and there, or a Telegram that is unwell.
            return Err(match status {
                401 | 429 => self.refused(status, &said()),
                400..=499 => TelegramFailure::Unreached(format!(
                    "something on the way answered {method} with status {status}: {}",
                    said()
                )),
                _ => TelegramFailure::Lost(format!(
                    "the answer to {method}, with status {status}, is not one of Telegram's: {}",
                    said()
                )),
            });
        };
        match (envelope.ok, envelope.result) {
            (true, Some(result)) => serde_json::from_str(result.get()).map_err(|error| {
                TelegramFailure::Lost(format!("Telegram's answer to {method} cannot be read: {error}"))
            }),
            (true, None) => {
                Err(TelegramFailure::Lost(format!("Telegram's answer to {method} holds no result")))
            }
            (false, _) => {
                let code = envelope.error_code.unwrap_or(status);
                let description = self.shown(&envelope.description.unwrap_or_default());
                let parameters = envelope.parameters;
                let retry_after = parameters.as_ref().and_then(|parameters| parameters.retry_after);
                let moved_to = parameters.and_then(|parameters| parameters.migrate_to_chat_id);
                Err(match code {
                    // What it did before it fell over, it does not say.
                    500..=599 => TelegramFailure::Lost(format!("Telegram answered {code}: {description}")),
                    _ => TelegramFailure::Refused {
                        code,
                        description,
                        retry_after: retry_after
                            .map(|seconds| Duration::from_secs(seconds.min(RETRY_AFTER_MAX))),
                        moved_to,
                    },
                })
            }
        }
    }

    async fn body(
        &self,
        method: &str,
        mut response: reqwest::Response,
        limit: usize,
    ) -> Result<Bytes, TelegramFailure> {
        let mut body = BytesMut::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.broken(method, error))? {
            if body.len() + piece.len() > limit {
                return Err(TelegramFailure::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    fn address(&self, method: &str) -> String {
        format!("{}/bot{}/{method}", self.root, self.token.expose())
    }

    fn refused(&self, code: u16, said: &str) -> TelegramFailure {
        TelegramFailure::Refused { code, description: self.shown(said), retry_after: None, moved_to: None }
    }

    fn broken(&self, method: &str, error: reqwest::Error) -> TelegramFailure {
        let error = error.without_url();
        let reason = self.shown(&root_cause(&error));
        match (error.is_connect() || error.is_builder(), error.is_timeout()) {
            (true, true) => {
                TelegramFailure::Unreached(format!("connecting took longer than {} s", CONNECT_MAX.as_secs()))
            }
            (true, false) => TelegramFailure::Unreached(reason),
            (false, true) => {
                TelegramFailure::Lost(format!("Telegram took {method} and did not answer in time"))
            }
            (false, false) => TelegramFailure::Lost(format!(
                "the connection to Telegram was lost during {method}: {reason}"
            )),
        }
    }

    /// Without the token, and without any other secret.
    fn shown(&self, text: &str) -> String {
        excerpt(&redacted(&text.replace(self.token.expose(), "…")))
    }

    async fn http(&self) -> Result<&reqwest::Client, TelegramFailure> {
        let build = || async {
            let (proxy, loopback) = (self.proxy.clone(), self.is_loopback());
            let secure = self.root.starts_with("https:") || self.files.starts_with("https:");
            let built = tokio::task::spawn_blocking(move || build(proxy, loopback, secure)).await; // reads files
            built.map_err(|panic| panic.to_string()).and_then(|built| built).map_err(|reason| {
                TelegramFailure::Unreached(format!(
                    "no connection can be made from here: {}",
                    self.shown(&reason)
                ))
            })
        };
        self.http.get_or_try_init(build).await
    }

    fn is_loopback(&self) -> bool {
        let host = reqwest::Url::parse(&self.root).ok();
        let host = host.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
        host == "localhost"
            || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }
}

fn build(proxy: Option<String>, loopback: bool, secure: bool) -> Result<reqwest::Client, String> {
    throughline_net::install_tls();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none()) // the token must not follow one
        .referer(false)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(Duration::from_secs(50)) // load balancers hang up after 60
        .tcp_keepalive(Duration::from_secs(30))
        .tcp_nodelay(true);
    if !secure {
        builder = builder.tls_certs_only([]);
    }
    if let Some(proxy) = proxy {
        builder = builder.proxy(reqwest::Proxy::all(&proxy).map_err(|error| root_cause(&error))?);
    } else if loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_cause(&error))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => root_cause(source),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_understood_however_hermes_writes_it() {
        for address in
            ["https://a.b", "https://a.b/", "https://a.b/bot", "https://a.b/bot/", "https://a.b/bot{token}"]
        {
            let api = TelegramApi::new(address, None, Secret::new("1:x"), None);
            assert_eq!(api.address("getMe"), "https://a.b/bot1:x/getMe");
            assert_eq!(api.files, "https://a.b");
        }
        let api = TelegramApi::new("http://a/bot", Some("http://b/file/bot"), Secret::new("1:x"), None);
        assert_eq!(api.files, "http://b");
    }

    #[test]
    fn a_token_is_shown_to_nobody() {
        let api = TelegramApi::new(ADDRESS, None, Secret::new("12:AAbbCC"), None);
        assert!(!api.shown("no route /bot12:AAbbCC/getMe").contains("AAbbCC"));
    }
}
