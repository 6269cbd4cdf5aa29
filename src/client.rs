//! The control API of a running gateway, from the side that asks.
//!
//! Every answer is read whole or is an error, told by what the caller can do about it: ask again
//! with the same key, wait, put something right, or look for another gateway. The key never
//! appears in a message.
//!
//! Deliberately absent: retries (the caller knows what it has already shown), redirects and proxies
//! (a key must not travel), and any opinion on what is said.

use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::ops::Deref;
use std::time::Duration;
use throughline_core::{SessionId, Time};
use throughline_hermes::config::Secret;
use throughline_net::{Parser, excerpt};
use tokio::time::timeout;

/// This machine answers within a millisecond; one across the room within this.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A commit behind a slow disk, or a long list.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Three signs of life that did not come: see `KEEP_ALIVE` of the server.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// One event may carry a whole answer.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Where a gateway answers, and the key it asks for.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Scheme, host and port.
    pub url: String,
    pub key: Secret,
}

impl Endpoint {
    /// The gateway that listens on `host` and `port`, as one asks it from the same machine: an
    /// address that stands for all of them is none to connect to.
    pub fn at(host: &str, port: u16, key: Secret) -> Self {
        let host = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Ok(IpAddr::V4(_)) | Err(_) => host.to_owned(),
        };
        Self { url: format!("http://{host}:{port}"), key }
    }
}

/// By what the caller can do about it.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Nobody answered, or the answer broke off. Asking again with the same key is safe.
    Lost(String),
    /// Not now. Ask again with the same key, after this.
    Later { after: Duration, message: String },
    /// The gateway has said no, and why.
    Refused { code: String, message: String },
    /// The gateway there does not take this key: it is another home's, or the key has changed.
    WrongKey,
    /// Something answers, and it is no gateway of ours.
    Foreign(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(message) | Self::Later { message, .. } | Self::Refused { message, .. } => {
                formatter.write_str(message)
            }
            Self::WrongKey => formatter.write_str("the gateway does not take this home's key"),
            Self::Foreign(message) => {
                write!(formatter, "what answers is not a Throughline gateway: {message}")
            }
        }
    }
}

impl std::error::Error for ClientError {}

/// The gateway, as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub agent: String,
    pub version: String,
    pub model: String,
    /// Messages of all sessions that have yet to be taken up.
    pub waiting: u64,
}

impl Status {
    /// The built-in model that works offline and understands nothing.
    pub fn is_rehearsal(&self) -> bool {
        self.model == "rehearsal"
    }
}

/// A session as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub id: SessionId,
    pub title: Option<String>,
    pub preview: String,
    pub last_active: Time,
    pub ended: Option<String>,
}

/// One line for the agent. The same line twice is one message, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    /// None: the gateway begins a conversation.
    pub session: Option<SessionId>,
    pub key: String,
}

/// What happens to a line, in order. The last four end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is on disk.
    Accepted {
        session: SessionId,
    },
    Delta(String),
    Reasoning(String),
    /// What was streamed so far is void.
    Restarted,
    /// A tool is called.
    Calling {
        tool: String,
        arguments: String,
    },
    /// A tool waits for a person.
    Asked(Asked),
    Answer {
        text: String,
        finish: String,
    },
    /// An order was carried out.
    Done {
        said: String,
        successor: Option<SessionId>,
    },
    Failed {
        message: String,
    },
    /// The gateway is stopping; the line is kept.
    Interrupted {
        message: String,
    },
}

/// A question of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub id: String,
    /// It may be answered in any words, rather than with yes or no.
    pub is_open: bool,
    pub text: String,
}

/// A gateway to ask. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    endpoint: Endpoint,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> anyhow::Result<Self> {
        let base = Url::parse(&endpoint.url)
            .map_err(|error| anyhow::anyhow!("{:?} is no address of a gateway: {error}", endpoint.url))?;
        // Refused when someone was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_certs_only([])
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_MAX)
            .build()?;
        Ok(Self { http, base, endpoint })
    }

    pub fn address(&self) -> &str {
        &self.endpoint.url
    }

    /// Whose gateway answers there.
    pub async fn status(&self) -> Result<Status, ClientError> {
        let status = self.get(&["api", "control", "status"], &[]).await?;
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        if status["model"].as_str().is_none() {
            return Err(ClientError::Foreign("it has no status".into()));
        }
        Ok(Status {
            agent: text("agent"),
            version: text("version"),
            model: text("model"),
            waiting: status["waiting_inputs"].as_u64().unwrap_or(0),
        })
    }

    /// One page of sessions, latest first.
    pub async fn sessions(&self, source: Option<&str>, page: Page) -> Result<Vec<Known>, ClientError> {
        let (limit, offset) = (page.limit.to_string(), page.offset.to_string());
        let mut query = vec![("limit", limit.as_str()), ("offset", offset.as_str())];
        query.extend(source.map(|source| ("source", source)));
        let list = self.get(&["api", "sessions"], &query).await?;
        list["data"].as_array().into_iter().flatten().map(known).collect()
    }

    pub async fn session(&self, id: &SessionId) -> Result<Option<Known>, ClientError> {
        match self.get(&["api", "sessions", id.as_str()], &[]).await {
            Ok(found) => known(&found["session"]).map(Some),
            Err(ClientError::Refused { code, .. }) if code == "session_not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The latest sessions, as the gateway shows them.
    pub async fn session_list(&self, limit: usize) -> Result<Vec<Value>, ClientError> {
        let list = self.get(&["api", "sessions"], &[("limit", &limit.to_string())]).await?;
        Ok(data(list))
    }

    /// What was said in one of them.
    pub async fn messages(&self, id: &SessionId) -> Result<Vec<Value>, ClientError> {
        self.get(&["api", "sessions", id.as_str(), "messages"], &[]).await.map(data)
    }

    pub async fn search(&self, query: &str, limit: usize) -> Result<Vec<Value>, ClientError> {
        let limit = limit.to_string();
        self.get(&["api", "search"], &[("q", query), ("limit", &limit)]).await.map(data)
    }

    /// What tools ask and nobody has answered.
    pub async fn asks(&self) -> Result<Vec<Value>, ClientError> {
        self.get(&["api", "approvals"], &[]).await.map(data)
    }

    /// Returns when the line is on disk, or has been refused.
    pub async fn say(&self, line: &Line) -> Result<Saying, ClientError> {
        let session = line.session.as_ref().map(SessionId::as_str);
        let body = json!({"text": line.text, "session": session, "key": line.key});
        let url = self.url(&["api", "control", "chat"], &[]);
        let request = self.http.post(url).header("content-type", "application/json").body(body.to_string());
        let response = self.send(request).await?;
        Ok(Saying { client: self.clone(), response, parser: Parser::new(BODY_BYTES_MAX), received: 0 })
    }

    /// Answers what a tool asked. `answer` is the body that the gateway takes: see its documentation.
    pub async fn decide(&self, asked: &str, answer: &Value) -> Result<(), ClientError> {
        let mut path = vec!["api", "approvals"];
        path.extend(asked.split('/'));
        self.post(&path, answer).await.map(drop)
    }

    /// Ends every turn of every agent in the gateway's process.
    pub async fn halt(&self) -> Result<Value, ClientError> {
        self.post(&["api", "control", "halt"], &json!({"all": true})).await
    }

    /// Lets them go on: all, or the one of this name.
    pub async fn release(&self, agent: Option<&str>) -> Result<Value, ClientError> {
        let order = match agent {
            Some(agent) => json!({"all": true, "agent": agent}),
            None => json!({"all": true}),
        };
        self.post(&["api", "control", "release"], &order).await
    }

    /// Where the agent stands, as the gateway shows it.
    pub async fn standing(&self) -> Result<Value, ClientError> {
        self.get(&["api", "status"], &[]).await
    }

    /// The process finishes what runs and begins anew. Returns which one it is until then.
    pub async fn restart(&self) -> Result<String, ClientError> {
        let told = self.post(&["api", "control", "restart"], &json!({})).await?;
        Ok(told["instance"].as_str().unwrap_or_default().to_owned())
    }

    /// A snapshot becomes the view of its session again.
    pub async fn restore(&self, session: &SessionId, snapshot: &str) -> Result<(), ClientError> {
        let path = ["api", "sessions", session.as_str(), "restore"];
        self.post(&path, &json!({"snapshot": snapshot})).await.map(drop)
    }

    /// What the memory provider refused, or has to be asked for again, is handed over again.
    pub async fn retry_memory(&self, turn: Option<&str>) -> Result<usize, ClientError> {
        let told = self.post(&["api", "control", "memory", "retry"], &json!({"turn": turn})).await?;
        Ok(told["retried"].as_u64().and_then(|retried| usize::try_from(retried).ok()).unwrap_or_default())
    }

    /// An order to a session, and what it said.
    pub async fn order(&self, session: &SessionId, order: &str) -> Result<String, ClientError> {
        let path = ["api", "sessions", session.as_str(), "commands"];
        let done = self.post(&path, &json!({"command": order})).await?;
        Ok(done["said"].as_str().unwrap_or_default().to_owned())
    }

    async fn post(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        let request = self.http.post(self.url(path, &[])).header("content-type", "application/json");
        let body = self.whole(self.send(request.body(body.to_string())).await?).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Foreign("its answer is no JSON".into()))
    }

    async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, ClientError> {
        let response = self.send(self.http.get(self.url(path, query))).await?;
        let body = self.whole(response).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Foreign("its answer is no JSON".into()))
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let sent = timeout(ANSWER_MAX, request.bearer_auth(self.endpoint.key.expose()).send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_builder() => {
                return Err(ClientError::Foreign(
                    "it cannot be asked: the key has characters that cannot be sent".into(),
                ));
            }
            Ok(Err(error)) => return Err(self.lost(&error)),
            Err(_) => return Err(self.silent(ANSWER_MAX)),
        };
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED => Err(ClientError::WrongKey),
            status => Err(self.refusal(status, response).await),
        }
    }

    /// A refusal in words, if it is one of ours.
    async fn refusal(&self, status: StatusCode, response: Response) -> ClientError {
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = match self.whole(response).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let error = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let error = &error["error"];
        let Some(message) = error["message"].as_str() else {
            let words = excerpt(&String::from_utf8_lossy(&body));
            return ClientError::Foreign(format!("status {}. {words}", status.as_u16()));
        };
        match after {
            Some(seconds) if status == StatusCode::SERVICE_UNAVAILABLE => {
                ClientError::Later { after: Duration::from_secs(seconds), message: message.to_owned() }
            }
            _ => ClientError::Refused {
                code: error["code"].as_str().unwrap_or_default().to_owned(),
                message: message.to_owned(),
            },
        }
    }

    async fn whole(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk(&mut response).await? {
            body.extend_from_slice(&bytes);
            if body.len() > BODY_BYTES_MAX {
                return Err(ClientError::Foreign(format!(
                    "its answer is longer than {BODY_BYTES_MAX} bytes"
                )));
            }
        }
        Ok(body)
    }

    async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl Deref<Target = [u8]> + use<>>, ClientError> {
        match timeout(SILENCE_MAX, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| self.lost(&error)),
            Err(_) => Err(self.silent(SILENCE_MAX)),
        }
    }

    fn lost(&self, error: &reqwest::Error) -> ClientError {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let what = if error.is_connect() { "no connection to" } else { "lost the connection to" };
        ClientError::Lost(format!("{what} the gateway at {} ({cause})", self.endpoint.url))
    }

    fn silent(&self, limit: Duration) -> ClientError {
        let seconds = limit.as_secs();
        ClientError::Lost(format!("the gateway at {} has been silent for {seconds} s", self.endpoint.url))
    }
}

fn data(mut list: Value) -> Vec<Value> {
    match list["data"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

impl Line {
    /// A name that no other line has.
    pub fn unique() -> String {
        // Two hashes under keys that the system chose at random: nothing else here has chance.
        let chance = || RandomState::new().hash_one(std::process::id());
        format!("{:016x}{:016x}", chance(), chance())
    }
}

/// Which part of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub limit: usize,
    pub offset: usize,
}

fn known(session: &Value) -> Result<Known, ClientError> {
    let text = |name: &str| session[name].as_str().map(str::to_owned);
    Ok(Known {
        id: session_id(&session["id"])?,
        title: text("title").filter(|title| !title.is_empty()),
        preview: text("preview").unwrap_or_default(),
        last_active: Time::from_seconds(session["last_active"].as_f64().unwrap_or(0.0)),
        ended: text("end_reason"),
    })
}

fn session_id(value: &Value) -> Result<SessionId, ClientError> {
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.ok_or_else(|| ClientError::Foreign("it names a session by something that is no id".into()))
}

/// A line on its way through the gateway. Dropping it stops nothing there.
pub struct Saying {
    client: Client,
    response: Response,
    parser: Parser,
    received: usize,
}

impl Saying {
    /// What happens next. A stream that ends before its last event was cut off.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.parser.pop() {
                match read(event.name.as_deref().unwrap_or_default(), &event.data)? {
                    Some(event) => return Ok(event),
                    None => continue, // a later gateway may tell more than we understand
                }
            }
            let Some(bytes) = self.client.chunk(&mut self.response).await? else {
                let address = self.client.address();
                return Err(ClientError::Lost(format!("the gateway at {address} broke off its answer")));
            };
            self.received += bytes.len();
            let parsed = match self.received > BODY_BYTES_MAX {
                true => Err(format!("its answer is longer than {BODY_BYTES_MAX} bytes")),
                false => self.parser.push(&bytes).map_err(|error| error.to_string()),
            };
            parsed.map_err(ClientError::Foreign)?;
        }
    }
}

fn read(name: &str, data: &str) -> Result<Option<Event>, ClientError> {
    let data: Value = serde_json::from_str(data)
        .map_err(|_| ClientError::Foreign(format!("its event {name:?} holds no JSON")))?;
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    Ok(Some(match name {
        "accepted" => Event::Accepted { session: session_id(&data["session"])? },
        "delta" => Event::Delta(text("text")),
        "reasoning" => Event::Reasoning(text("text")),
        "restarted" => Event::Restarted,
        "calling" => Event::Calling { tool: text("tool"), arguments: text("arguments") },
        "asked" => Event::Asked(Asked {
            id: text("id"),
            is_open: data["kind"].as_str() == Some("clarify"),
            text: text("text"),
        }),
        "answer" => Event::Answer { text: text("text"), finish: text("finish") },
        "done" => Event::Done {
            said: text("said"),
            successor: match &data["successor"] {
                Value::Null => None,
                successor => Some(session_id(successor)?),
            },
        },
        "failed" => Event::Failed { message: text("message") },
        "interrupted" => Event::Interrupted { message: text("message") },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::fake::{Fake, Piece, Reply};

    fn line() -> Line {
        Line { text: "Hi \u{1f375}".into(), session: Some("a?b#c%d".parse().unwrap()), key: "k".into() }
    }

    async fn events(pieces: Vec<Piece>) -> Vec<Result<Event, ClientError>> {
        let fake = Fake::start([Reply::Stream(pieces)]).await;
        let mut saying = fake.client().say(&line()).await.unwrap();
        let mut events = Vec::new();
        loop {
            let event = saying.next().await;
            let is_error = event.is_err();
            events.push(event);
            if is_error {
                return events;
            }
        }
    }

    #[test]
    fn an_address_that_stands_for_all_is_asked_on_this_machine() {
        for (host, url) in [
            ("127.0.0.1", "http://127.0.0.1:8642"),
            ("0.0.0.0", "http://127.0.0.1:8642"),
            ("::", "http://[::1]:8642"),
            ("[::]", "http://[::1]:8642"),
            ("::1", "http://[::1]:8642"),
            ("localhost", "http://localhost:8642"),
        ] {
            assert_eq!(Endpoint::at(host, 8642, Secret::new("k")).url, url, "{host}");
        }
    }

    #[tokio::test]
    async fn every_event_is_read_and_unknown_ones_are_passed_over() {
        let event = |name, data| Piece::Event(name, data);
        let seen = events(vec![
            event("accepted", json!({"session": "s", "seq": 3, "duplicate": true})),
            Piece::Raw(": keep-alive\n\n"),
            event("delta", json!({"text": "a"})),
            event("reasoning", json!({"text": "b"})),
            event("invented_later", json!({"text": "c"})),
            event("restarted", json!({})),
            event("answer", json!({"text": "d", "finish": "length"})),
            event("done", json!({"said": "e", "successor": null})),
            event("done", json!({"said": "f", "successor": "t"})),
            event("failed", json!({"code": "x", "message": "g"})),
            event("interrupted", json!({"code": "x", "message": "h"})),
        ])
        .await;
        let session = |id: &str| id.parse::<SessionId>().unwrap();
        let expected = [
            Event::Accepted { session: session("s") },
            Event::Delta("a".into()),
            Event::Reasoning("b".into()),
            Event::Restarted,
            Event::Answer { text: "d".into(), finish: "length".into() },
            Event::Done { said: "e".into(), successor: None },
            Event::Done { said: "f".into(), successor: Some(session("t")) },
            Event::Failed { message: "g".into() },
            Event::Interrupted { message: "h".into() },
        ];
        let (last, seen) = seen.split_last().unwrap();
        assert_eq!(seen.iter().map(|event| event.as_ref().unwrap().clone()).collect::<Vec<_>>(), expected);
        assert!(matches!(last, Err(ClientError::Lost(_))), "a stream that just ends was cut off: {last:?}");
    }

    #[tokio::test]
    async fn rubbish_is_an_error_and_not_a_retry() {
        for pieces in [
            vec![Piece::Raw("data: no json\n\n")],
            vec![Piece::Event("accepted", json!({"session": "a/b", "seq": 1}))],
            vec![Piece::Event("done", json!({"said": "", "successor": 7}))],
        ] {
            let seen = events(pieces.clone()).await;
            assert!(matches!(seen.last(), Some(Err(ClientError::Foreign(_)))), "{pieces:?}: {seen:?}");
        }
    }

    #[tokio::test]
    async fn refusals_are_told_apart_by_what_one_can_do() {
        let refusal = |status, headers| Reply::Refusal { status, headers, code: "c", message: "m" };
        let fake = Fake::start([
            refusal(409, ""),
            refusal(429, "retry-after: 3\r\n"),
            refusal(503, "retry-after: 7\r\n"),
            Reply::HangUp,
        ])
        .await;
        let client = fake.client();
        let refused = || ClientError::Refused { code: "c".into(), message: "m".into() };
        let mut said = Vec::new();
        for _ in 0..4 {
            said.push(client.say(&line()).await.err().unwrap());
        }
        assert_eq!(said[..2], [refused(), refused()]);
        assert_eq!(said[2], ClientError::Later { after: Duration::from_secs(7), message: "m".into() });
        assert!(matches!(said[3], ClientError::Lost(_)), "{:?}", said[3]);
        let body = json!({"text": "Hi \u{1f375}", "session": "a?b#c%d", "key": "k"});
        assert_eq!(fake.lines(), vec![body; 4]);
    }

    #[tokio::test]
    async fn p31_a_wrong_key_is_named_and_never_shown() {
        let fake = Fake::start([]).await;
        let stranger = Endpoint { key: Secret::new("canary-of-another-home"), ..fake.endpoint() };
        assert!(!format!("{stranger:?}").contains("canary"));
        let error = Client::new(stranger).unwrap().status().await.unwrap_err();
        assert_eq!(error, ClientError::WrongKey);
        let unsendable = Endpoint { key: Secret::new("canary\n"), ..fake.endpoint() };
        let error = Client::new(unsendable).unwrap().status().await.unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
        assert!(matches!(error, ClientError::Foreign(_)));
    }

    #[tokio::test]
    async fn a_sessions_name_is_part_of_the_path_and_never_more() {
        let fake = Fake::start([]).await;
        let name = "a?b#c%d ü".replace(' ', "");
        assert_eq!(fake.client().session(&name.parse().unwrap()).await, Ok(None));
        assert_eq!(fake.paths(), ["/api/sessions/a%3Fb%23c%25d%C3%BC"]);
    }
}
