//! Discord's HTTP API: one request at a time, told apart by whether it can have had an effect.
//!
//! - a limit that ends soon is waited out before asking; a longer one is an error at once, so that
//!   nothing here can hang
//! - nothing is asked twice: the caller knows whether that is safe
//! - the token goes to the API and nowhere else, and no address is put into an error: some of
//!   them carry a secret
//!
//! `twilight-http` is not used: it asks again by itself for as long as it is refused with 429, and
//! cannot send a nonce that Discord enforces.

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use throughline_core::port::SendError;
use throughline_core::redact::Secret;
use tokio::time::{Instant, sleep};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Ten files of ten megabytes over a slow line.
const UPLOAD_MAX: Duration = Duration::from_secs(180);
/// A limit that ends within this is waited out: a reply of several parts meets it all the time.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// If Discord asks for a longer wait, the next request comes after this all the same.
const LIMIT_MAX: Duration = Duration::from_secs(3600);
/// A hundred messages with all their embeds are half a megabyte.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Limits that are remembered; those that are over are forgotten first.
const GATES_MAX: usize = 1024;
const EXCERPT_CHARACTERS: usize = 300;

/// Why there is no answer, by what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// Nothing was asked.
    #[error("Discord cannot be reached: {0}")]
    Unreachable(String),
    /// It may have been done.
    #[error("Discord did not answer: {0}")]
    Lost(String),
    /// Nothing was done, and nothing will be before this.
    #[error("Discord asks to wait for {} s", .0.as_secs_f32())]
    Limited(Duration),
    #[error("Discord answered {status}: {message} ({code})")]
    Status {
        status: u16,
        /// Discord's own number for it; 0 where it gave none.
        code: u64,
        message: String,
    },
}

/// Discord's numbers for what can be done something about.
pub mod code {
    pub const UNKNOWN_CHANNEL: u64 = 10003;
    pub const UNKNOWN_MESSAGE: u64 = 10008;
    pub const INVALID_FORM: u64 = 50035;
    pub const HAS_THREAD: u64 = 160_004;
}

impl RestError {
    pub fn code(&self) -> u64 {
        match self {
            RestError::Status { code, .. } => *code,
            _ => 0,
        }
    }

    /// The token is not, or no longer, a bot's.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, RestError::Status { status: 401, .. })
    }

    /// Asking again could give something else.
    pub fn will_pass(&self) -> bool {
        match self {
            RestError::Unreachable(_) | RestError::Lost(_) | RestError::Limited(_) => true,
            RestError::Status { status, code, .. } => match status {
                401 | 408 | 409 | 500.. => true,
                403 => *code == 0, // not the API itself, but what stands before it
                _ => false,
            },
        }
    }

    /// What it means for something that was to be sent to this place.
    pub fn sending(self, place: &str) -> SendError {
        match self {
            RestError::Limited(after) => SendError::Later {
                after: Some(after),
                message: format!("Discord limits what is sent to {place}; it is tried again"),
            },
            RestError::Unreachable(reason) => {
                SendError::Later { after: None, message: format!("Discord cannot be reached: {reason}") }
            }
            RestError::Status { status: 401, .. } => {
                SendError::Later { after: Some(Duration::from_secs(300)), message: super::REVOKED.to_owned() }
            }
            RestError::Lost(_) | RestError::Status { status: 408 | 500.., .. } => {
                SendError::Unknown { message: format!("{self}, when asked to post to {place}") }
            }
            fault if fault.will_pass() => SendError::Later { after: None, message: fault.to_string() },
            RestError::Status { status, code, message } => {
                SendError::Never { message: refusal(place, status, code, &message) }
            }
        }
    }
}

/// What to do about a no.
fn refusal(place: &str, status: u16, code: u64, message: &str) -> String {
    let advice = match (status, code) {
        (_, code::UNKNOWN_CHANNEL) => "It was deleted, or the bot was removed from it.",
        (_, 50001) => "Let the bot see the channel.",
        (_, 50007) => "The person has blocked the bot, or takes no direct messages.",
        (_, 50013) => "Give the bot the permission to write there.",
        (_, 160_005) => "The thread is locked.",
        (413, _) | (_, 40005) => "The file is larger than Discord takes.",
        _ => "It will not take it the next time either.",
    };
    format!("Discord refused it for {place}: {message} ({code}). {advice}")
}

pub enum RestBody {
    Nothing,
    Json(Value),
    /// A message with files, in the order in which they are shown.
    Files(Value, Vec<FileUpload>),
}

#[derive(Clone)]
pub struct FileUpload {
    pub name: String,
    pub bytes: Vec<u8>,
}

pub struct Rest {
    base: String,
    token: Secret,
    patience: Duration,
    client: OnceLock<reqwest::Client>,
    gates: Mutex<Gates>,
}

/// Until when nothing may be asked. By route, and the empty one is all of them.
type Gates = HashMap<String, Instant>;

impl Rest {
    pub fn new(base: &str, token: Secret, patience: Duration) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            token,
            patience,
            client: OnceLock::new(),
            gates: Mutex::default(),
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RestError> {
        read(self.ask(Method::GET, path, RestBody::Nothing).await?)
    }

    pub async fn post(&self, path: &str, body: Value) -> Result<Value, RestError> {
        self.ask(Method::POST, path, RestBody::Json(body)).await
    }

    pub async fn ask(&self, method: Method, path: &str, body: RestBody) -> Result<Value, RestError> {
        let route = route(&method, path);
        self.pass(&route).await?;
        let limit = match &body {
            RestBody::Files(..) => UPLOAD_MAX,
            _ => self.patience,
        };
        let request = self.client()?.request(method, format!("{}{path}", self.base)).timeout(limit);
        let request = filled(request, body)?.header(AUTHORIZATION, format!("Bot {}", self.token.expose()));
        let response = request.send().await.map_err(fault)?;
        self.learn(&route, response.headers());
        let status = response.status();
        let body = contents(response, ANSWER_BYTES_MAX).await;
        if status.is_success() {
            // It is done, even if the answer is lost.
            return Ok(serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null));
        }
        let body: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null);
        match status.as_u16() {
            429 => Err(self.limited(&route, &body)),
            status => Err(RestError::Status {
                status,
                code: body["code"].as_u64().unwrap_or(0),
                message: excerpt(&body, status),
            }),
        }
    }

    /// What lies at an address that is not the API's: without the token.
    pub async fn download(&self, url: reqwest::Url, limit: usize) -> Result<Vec<u8>, RestError> {
        let response = self.client()?.get(url).timeout(UPLOAD_MAX).send().await.map_err(fault)?;
        match response.status().as_u16() {
            200..300 => contents(response, limit).await,
            status => Err(RestError::Status { status, code: 0, message: "the file is not to be had".into() }),
        }
    }

    /// Built when first needed: reading the system's certificates takes a while.
    fn client(&self) -> Result<&reqwest::Client, RestError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        throughline_net::install_tls();
        let mut builder = reqwest::Client::builder()
            // Discord turns away what does not call itself so.
            .user_agent(concat!("DiscordBot (throughline, ", env!("CARGO_PKG_VERSION"), ")"))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(Duration::from_secs(50))
            .tcp_nodelay(true);
        if self.base.starts_with("http://") {
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            let reason = root(&error);
            RestError::Unreachable(format!(
                "no safe connection can be made from here: {reason}. Install the system's CA certificates"
            ))
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Waits for a limit that ends soon.
    async fn pass(&self, route: &str) -> Result<(), RestError> {
        let until = {
            let gates = self.gates.lock().expect("nothing panics while it holds the gates");
            [gates.get(""), gates.get(route)].into_iter().flatten().max().copied()
        };
        let wait = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if wait > WAIT_MAX {
            return Err(RestError::Limited(wait));
        }
        sleep(wait).await;
        Ok(())
    }

    fn learn(&self, route: &str, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if text("x-ratelimit-remaining") == Some("0")
            && let Some(wait) = text("x-ratelimit-reset-after").and_then(seconds)
        {
            self.close(route, wait);
        }
    }

    fn limited(&self, route: &str, body: &Value) -> RestError {
        let wait = body["retry_after"].as_f64().and_then(|wait| Duration::try_from_secs_f64(wait).ok());
        let wait = wait.unwrap_or(Duration::from_secs(1)).min(LIMIT_MAX);
        match body["global"].as_bool() {
            Some(true) => self.close("", wait),
            _ => self.close(route, wait),
        }
        RestError::Limited(wait)
    }

    fn close(&self, route: &str, wait: Duration) {
        let mut gates = self.gates.lock().expect("nothing panics while it holds the gates");
        let now = Instant::now();
        if gates.len() >= GATES_MAX {
            gates.retain(|_, until| *until > now);
        }
        gates.insert(route.to_owned(), now + wait.min(LIMIT_MAX));
    }
}

pub fn read<T: DeserializeOwned>(answer: Value) -> Result<T, RestError> {
    serde_json::from_value(answer).map_err(|_| RestError::Lost("the answer cannot be read".into()))
}

/// Discord counts by method and by the first id of a path: what comes after the second is one route.
fn route(method: &Method, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let fixed = path.split('/').enumerate().map(|(place, segment)| {
        let is_id = place > 2 && segment.starts_with(|first: char| first.is_ascii_digit());
        if is_id { "" } else { segment }
    });
    format!("{method} {}", fixed.take(6).collect::<Vec<_>>().join("/"))
}

fn filled(request: RequestBuilder, body: RestBody) -> Result<RequestBuilder, RestError> {
    Ok(match body {
        RestBody::Nothing => request,
        RestBody::Json(value) => request.json(&value),
        RestBody::Files(payload, files) => {
            let mut form = Form::new().text("payload_json", payload.to_string());
            for (number, file) in files.into_iter().enumerate() {
                let part = Part::bytes(file.bytes).file_name(file.name);
                form = form.part(format!("files[{number}]"), part);
            }
            request.multipart(form)
        }
    })
}

async fn contents(mut response: Response, limit: usize) -> Result<Vec<u8>, RestError> {
    let too_long = || RestError::Status { status: 413, code: 0, message: format!("more than {limit} bytes") };
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(fault)? {
        if bytes.len() + chunk.len() > limit {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn fault(error: reqwest::Error) -> RestError {
    match error.is_connect() || error.is_builder() {
        true => RestError::Unreachable(root(&error)),
        false if error.is_timeout() => RestError::Lost("it took too long".into()),
        false => RestError::Lost(root(&error)),
    }
}

/// The innermost cause: the outer ones say the address, which is known or must not be.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok())
}

fn excerpt(body: &Value, status: u16) -> String {
    let message = body["message"].as_str().map(str::to_owned);
    let detail = body.get("errors").map(|errors| format!(" {errors}")).unwrap_or_default();
    let said = message.map(|message| message + &detail);
    let said = said.unwrap_or_else(|| format!("status {status} without a reason"));
    throughline_core::redact::redacted(&said.chars().take(EXCERPT_CHARACTERS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_counted_by_its_method_and_its_channel() {
        let of = |path: &str| route(&Method::POST, path);
        assert_eq!(of("/channels/1/messages"), "POST /channels/1/messages");
        assert_ne!(of("/channels/1/messages"), of("/channels/2/messages"));
        assert_eq!(of("/channels/1/messages/7/threads"), of("/channels/1/messages/8/threads"));
        assert_eq!(of("/channels/1/messages?after=3"), of("/channels/1/messages"));
    }

    #[test]
    fn what_may_have_arrived_is_told_apart_from_what_cannot_have() {
        let status = |status, code| RestError::Status { status, code, message: "x".into() };
        for (fault, expected) in [
            (RestError::Unreachable("refused".into()), "later"),
            (RestError::Limited(Duration::from_secs(9)), "later"),
            (status(401, 0), "later"),
            (status(403, 0), "later"),
            (RestError::Lost("reset".into()), "unknown"),
            (status(500, 0), "unknown"),
            (status(503, 0), "unknown"),
            (status(400, 50035), "never"),
            (status(403, 50001), "never"),
            (status(403, 50007), "never"),
            (status(404, 10003), "never"),
            (status(413, 40005), "never"),
        ] {
            let found = match fault.clone().sending("channel 1") {
                SendError::Later { .. } => "later",
                SendError::Unknown { .. } => "unknown",
                SendError::Never { .. } => "never",
            };
            assert_eq!(found, expected, "{fault:?}");
        }
    }
}
