//! How Honcho is asked: JSON over HTTP, bounded in time and size, and what a failure means.
//!
//! What is read shares its connections. What is written gets one of its own: a server that has just
//! failed hangs up on a kept connection, and what is lost there cannot be told from what arrived.
//!
//! A server that asks to be left alone is, by everybody: until then nothing is sent.

use super::settings::HonchoSettings;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use throughline_core::memory::MemoryError;
use throughline_core::redact::redacted;
use throughline_net::{Secret, excerpt, retry_after};
use tokio::time::Instant;

/// A host that is there answers a connection sooner.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The longest answers are a session's last messages: 100,000 tokens.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const COMPLAINT_BYTES_MAX: usize = 16 << 10;
/// A server that asks for more is asked again after this all the same.
const REST_MAX: Duration = Duration::from_secs(300);
/// Complaints of a validation that are repeated, without what was complained about.
const COMPLAINTS_MAX: usize = 3;

pub struct HonchoApi {
    base: String,
    /// As it may be shown.
    host: String,
    workspace: String,
    key: Option<Secret>,
    timeout: Duration,
    /// Until when the server asks to be left alone.
    rest: Mutex<Option<Instant>>,
    reading: OnceLock<Client>,
    writing: OnceLock<Client>,
}

/// What became of a request.
#[derive(Debug)]
pub enum HonchoFailure {
    /// It never left.
    Unsent(String),
    /// The same: the server has asked to be left alone for so long.
    Resting {
        after: Duration,
        words: String,
    },
    /// It left; whether it arrived is unknown.
    Lost(String),
    /// The same: the connection ended before an answer began.
    HungUp(String),
    Status {
        status: u16,
        words: String,
    },
}

/// What a request does to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEffect {
    /// Nothing, or the same however often.
    None,
    Write,
}

pub struct HonchoRequest<'a> {
    pub method: Method,
    /// Below the workspace, without a slash at its beginning. Its segments are ids.
    pub path: String,
    pub query: &'a [(&'a str, &'a str)],
    pub body: Option<Value>,
    pub effect: RequestEffect,
}

impl HonchoApi {
    pub fn new(settings: &HonchoSettings) -> Self {
        let url = Url::parse(&settings.base_url).ok();
        let host = url.as_ref().and_then(|url| {
            let name = url.host_str()?;
            Some(url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}")))
        });
        Self {
            base: settings.base_url.clone(),
            host: host.unwrap_or_else(|| "the configured address".to_owned()),
            workspace: settings.workspace.clone(),
            key: settings.key.clone(),
            timeout: settings.timeout,
            rest: Mutex::default(),
            reading: OnceLock::new(),
            writing: OnceLock::new(),
        }
    }

    /// Where it is, without anything that must not be shown.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub async fn get(&self, path: String, query: &[(&str, &str)]) -> Result<Value, HonchoFailure> {
        self.ask(HonchoRequest { method: Method::GET, path, query, body: None, effect: RequestEffect::None })
            .await
    }

    pub async fn post(
        &self,
        path: String,
        body: Value,
        effect: RequestEffect,
    ) -> Result<Value, HonchoFailure> {
        self.ask(HonchoRequest { method: Method::POST, path, query: &[], body: Some(body), effect }).await
    }

    pub async fn ask(&self, request: HonchoRequest<'_>) -> Result<Value, HonchoFailure> {
        if let Some(after) = self.rests_for() {
            let words =
                format!("Honcho at {} asks to be left alone for {} s more", self.host, after.as_secs() + 1);
            return Err(HonchoFailure::Resting { after, words });
        }
        let unusable =
            || HonchoFailure::Unsent(format!("the address of Honcho, {}, cannot be used", self.host));
        let mut url = Url::parse(&format!("{}/v3/workspaces/{}/{}", self.base, self.workspace, request.path))
            .map_err(|_| unusable())?;
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        let built = |client: &Client| {
            let built = client.request(request.method.clone(), url.clone()).timeout(self.timeout);
            let built = match &self.key {
                Some(key) => built.bearer_auth(key.expose()),
                None => built,
            };
            match &request.body {
                Some(body) => built.json(body),
                None => built,
            }
        };
        match (request.effect, self.answer(built(self.client(request.effect)?)).await) {
            // A kept connection that the server has given up: no news, and nothing was done.
            (RequestEffect::None, Err(HonchoFailure::HungUp(_))) => {
                self.answer(built(self.client(RequestEffect::Write)?)).await
            }
            (_, answer) => answer,
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, HonchoFailure> {
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        let status = response.status();
        if !status.is_success() {
            if let (429 | 503, Some(after)) = (status.as_u16(), retry_after(response.headers())) {
                *self.rest() = Some(Instant::now() + after.min(REST_MAX));
            }
            let body = contents(response, COMPLAINT_BYTES_MAX).await.unwrap_or_else(|(read, _)| read);
            return Err(HonchoFailure::Status { status: status.as_u16(), words: self.complaint(&body) });
        }
        let body = match contents(response, ANSWER_BYTES_MAX).await {
            Ok(body) => body,
            Err((_, reason)) => {
                return Err(HonchoFailure::Lost(format!("the answer of {} broke off: {reason}", self.host)));
            }
        };
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| {
            HonchoFailure::Lost(format!("{} answered with something that is not Honcho's", self.host))
        })
    }

    fn rests_for(&self) -> Option<Duration> {
        let until = (*self.rest())?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // Each change is one assignment, so a panic elsewhere leaves nothing to mend.
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, error: &reqwest::Error) -> HonchoFailure {
        let words = self.clean(&root(error));
        match (error.is_connect() || error.is_builder(), error.is_timeout()) {
            (true, _) => HonchoFailure::Unsent(format!("no connection to Honcho at {}: {words}", self.host)),
            (false, true) => HonchoFailure::Lost(format!(
                "Honcho at {} did not answer within {} s",
                self.host,
                self.timeout.as_secs_f64()
            )),
            (false, false) => {
                HonchoFailure::HungUp(format!("Honcho at {} hung up before it answered: {words}", self.host))
            }
        }
    }

    /// The server's own words, without what was sent to it: it repeats the whole of that.
    fn complaint(&self, body: &[u8]) -> String {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let words = match &value["detail"] {
            Value::String(text) => text.clone(),
            Value::Array(complaints) => {
                let words =
                    complaints.iter().take(COMPLAINTS_MAX).filter_map(|complaint| complaint["msg"].as_str());
                words.collect::<Vec<_>>().join("; ")
            }
            _ => String::new(),
        };
        self.clean(&excerpt(&words))
    }

    fn clean(&self, text: &str) -> String {
        let key = self.key.as_ref().map(Secret::expose).filter(|key| key.len() >= 8);
        redacted(&key.map_or_else(|| text.to_owned(), |key| text.replace(key, "…")))
    }

    /// Built when first needed: reading the system's certificates takes a while.
    fn client(&self, effect: RequestEffect) -> Result<&Client, HonchoFailure> {
        let (slot, idle) = match effect {
            RequestEffect::None => (&self.reading, 8),
            RequestEffect::Write => (&self.writing, 0),
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        throughline_net::install_tls();
        let mut builder = Client::builder()
            .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none()) // a key must not follow one
            .referer(false)
            .connect_timeout(CONNECT_MAX.min(self.timeout / 2))
            .pool_idle_timeout(Duration::from_secs(50))
            .pool_max_idle_per_host(idle)
            .tcp_nodelay(true);
        if self.base.starts_with("http://") {
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            HonchoFailure::Unsent(format!(
                "no safe connection can be made from here: {}. Install the system's CA certificates",
                root(&error)
            ))
        })?;
        Ok(slot.get_or_init(|| client))
    }
}

impl HonchoFailure {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Status { status: 404, .. })
    }

    /// Whether what was written certainly did not arrive, and whether it ever can.
    pub fn of_write(self, what: &str) -> MemoryError {
        let sentence = self.sentence(what);
        match self {
            Self::Unsent(_) => MemoryError::Later(sentence),
            Self::Resting { after, .. } => MemoryError::Busy { words: sentence, after },
            Self::Lost(_) | Self::HungUp(_) => MemoryError::Unknown(sentence),
            // The key, the address, the account or another client's doing, and not what was sent.
            Self::Status { status: 300..=399 | 401..=407 | 409, .. } => MemoryError::Later(sentence),
            Self::Status { status: 408 | 425 | 429, .. } => MemoryError::Unknown(sentence),
            Self::Status { status: 400..=499, .. } => MemoryError::Refused(sentence),
            Self::Status { .. } => MemoryError::Unknown(sentence),
        }
    }

    /// What was only to be read can be read another time.
    pub fn of_read(self, what: &str) -> MemoryError {
        let words = self.sentence(what);
        match self {
            Self::Resting { after, .. } => MemoryError::Busy { words, after },
            _ => MemoryError::Later(words),
        }
    }

    pub fn sentence(&self, what: &str) -> String {
        match self {
            Self::Unsent(words) | Self::Resting { words, .. } | Self::Lost(words) | Self::HungUp(words) => {
                format!("Honcho did not get {what}: {words}.")
            }
            Self::Status { status, words } => {
                let words = if words.is_empty() { String::new() } else { format!(": {words}") };
                let advice = match status {
                    401 | 403 => " Check apiKey in honcho.json, or HONCHO_API_KEY.",
                    404 | 405 | 300..=399 => " Check baseUrl in honcho.json: it may not be a Honcho server.",
                    402 => " Check the account at the provider.",
                    408 | 429 | 500..=599 => " It is tried again later.",
                    _ => "",
                };
                format!("Honcho did not take {what} (status {status}{words}).{advice}")
            }
        }
    }
}

/// All of it, or what there was and why there is no more.
async fn contents(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, (Vec<u8>, String)> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= bytes_max => bytes.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err((bytes, format!("it is longer than {bytes_max} bytes"))),
            Err(error) => return Err((bytes, root(&error))),
        }
    }
}

/// The innermost cause: the outer ones say the address, which is known or must not be.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
