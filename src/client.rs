//! The control API of a running gateway, from the side that asks.
//!
//! Every answer is read whole or is an error, told by what the caller can do about it: ask again
//! with the same key, wait, put something right, or look for another gateway. The key never
//! appears in a message.
//!
//! - nothing is sent to a listener before it has proved that it knows this home's key: each connection begins with
//!   a challenge ([`throughline_server::proof`]), and the key and the request follow on the same connection.
//!   A port that another program has taken since the gateway died gets a random number and nothing else
//! - nothing is sent to another machine: there is no encryption here, so only addresses of this one are dialled
//!
//! Deliberately absent: retries (the caller knows what it has already shown), connections that are kept (each
//! proves itself), redirects and proxies (a key must not travel), and any opinion on what is said.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use throughline_core::prompt::Digest;
use throughline_core::{SessionId, Time};
use throughline_hermes::config::Secret;
use throughline_net::{Parser, excerpt};
use throughline_server::proof::{self, Challenge};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// This machine answers within a millisecond; one across the room within this.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A commit behind a slow disk, or a long list.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Three signs of life that did not come: see `KEEP_ALIVE` of the server.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// One event may carry a whole answer.
const BODY_BYTES_MAX: usize = 32 << 20;
/// A proof is a hundred.
const PROOF_BYTES_MAX: usize = 16 << 10;

/// Where a gateway answers, and the key it asks for.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Scheme, host and port.
    pub url: String,
    pub key: Secret,
    /// The home whose gateway it is: its path, as the file system resolves it.
    pub home: String,
}

impl Endpoint {
    /// The gateway that listens on `host` and `port`, as one asks it from the same machine: an
    /// address that stands for all of them is none to connect to.
    pub fn at(host: &str, port: u16, key: Secret, home: String) -> Self {
        let host = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Ok(IpAddr::V4(_)) | Err(_) => host.to_owned(),
        };
        Self { url: format!("http://{host}:{port}"), key, home }
    }
}

/// By what the caller can do about it.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientError {
    /// No answer came, or it broke off. Asking again with the same key is safe.
    Lost(String),
    /// Not now. Ask again with the same key, after this.
    Later { after: Duration, message: String },
    /// The gateway has said no, and why.
    Refused { code: String, message: String },
    /// What listens there does not know this key: it is another home's gateway, or not even one, or the key has
    /// changed. It was told nothing.
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
            Self::WrongKey => formatter.write_str(
                "what listens there does not know this home's key, so nothing was sent to it: \
                 the gateway of another home, another program, or a gateway that has to be restarted",
            ),
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
    /// A person can answer what tools ask on the way.
    pub is_attended: bool,
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
    /// The model does not answer, and is asked again.
    Troubled {
        message: String,
    },
    /// A tool is called.
    Calling {
        id: String,
        tool: String,
        arguments: String,
    },
    /// A call needed a person's yes. No person could give it, so the gateway has refused it.
    Unattended {
        id: String,
        tool: String,
    },
    /// A tool waits for a person.
    Asked(Asked),
    /// A person has allowed what was asked under this id.
    Granted(String),
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
    /// An MCP server asks, and not the agent.
    pub is_of_server: bool,
    /// The whole question, as a chat shows it.
    pub text: String,
    /// What would be run, and why a person is asked.
    pub command: Option<String>,
    pub reason: Option<String>,
    /// A yes may hold for all of its kind.
    pub has_kind: bool,
}

/// A gateway to ask.
#[derive(Clone)]
pub struct Client {
    base: Url,
    endpoint: Endpoint,
}

/// What a gateway says, as it comes.
struct Response {
    headers: HeaderMap,
    body: Incoming,
    /// It ends with what is read of it.
    _connection: JoinSet<()>,
}

/// A connection to a process that has proved to be the gateway.
struct Proven {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    task: JoinSet<()>,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> anyhow::Result<Self> {
        let base = Url::parse(&endpoint.url)
            .map_err(|error| anyhow::anyhow!("{:?} is no address of a gateway: {error}", endpoint.url))?;
        Ok(Self { base, endpoint })
    }

    pub fn address(&self) -> &str {
        &self.endpoint.url
    }

    pub fn home(&self) -> &str {
        &self.endpoint.home
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

    /// What tools ask and is not answered yet.
    pub async fn asks(&self) -> Result<Vec<Value>, ClientError> {
        self.get(&["api", "approvals"], &[]).await.map(data)
    }

    /// Returns when the line is on disk, or has been refused.
    pub async fn say(&self, line: &Line) -> Result<Saying, ClientError> {
        let session = line.session.as_ref().map(SessionId::as_str);
        let answers = line.is_attended;
        let body = json!({"text": line.text, "session": session, "key": line.key, "answers": answers});
        let url = self.url(&["api", "control", "chat"], &[]);
        let response = self.send(Method::POST, &url, Some(&body)).await?;
        Ok(Saying { client: self.clone(), response, parser: Parser::new(BODY_BYTES_MAX), received: 0 })
    }

    /// Answers what a tool asked. `answer` is the body that the gateway takes: see its documentation.
    pub async fn decide(&self, asked: &str, answer: &Value) -> Result<(), ClientError> {
        let mut path = vec!["api", "approvals"];
        path.extend(asked.split('/'));
        self.post(&path, answer).await.map(drop)
    }

    /// Ends every turn of this home's agent, and names the other agents of its process: each has a key of its own.
    pub async fn halt(&self) -> Result<Value, ClientError> {
        self.post(&["api", "control", "halt"], &json!({"all": true})).await
    }

    /// Lets it go on, if it has this name where one is given.
    pub async fn release(&self, agent: Option<&str>) -> Result<Value, ClientError> {
        let order = match agent {
            Some(agent) => json!({"all": true, "agent": agent}),
            None => json!({"all": true}),
        };
        self.post(&["api", "control", "release"], &order).await
    }

    /// Where the agent stands, as the gateway shows it.
    pub async fn home_status(&self) -> Result<Value, ClientError> {
        self.get(&["api", "status"], &[]).await
    }

    /// The process finishes what runs and begins anew, once all its agents that run were asked. Returns the homes of
    /// those that have to be asked, too.
    pub async fn restart(&self) -> Result<Vec<String>, ClientError> {
        let told = self.post(&["api", "control", "restart"], &json!({"all": true})).await?;
        let others = told["others"].as_array().into_iter().flatten();
        Ok(others.filter_map(|other| other["home"].as_str()).map(str::to_owned).collect())
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
        let response = self.send(Method::POST, &self.url(path, &[]), Some(body)).await?;
        let body = self.whole(response).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Foreign("its answer is no JSON".into()))
    }

    async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, ClientError> {
        let response = self.send(Method::GET, &self.url(path, query), None).await?;
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

    async fn send(&self, method: Method, url: &Url, body: Option<&Value>) -> Result<Response, ClientError> {
        let mut key =
            HeaderValue::try_from(format!("Bearer {}", self.endpoint.key.expose())).map_err(|_| {
                ClientError::Foreign("it cannot be asked: the key has characters that cannot be sent".into())
            })?;
        key.set_sensitive(true);
        let mut proven = self.connect().await?;
        let mut request = request(method, url, proven.address, body)?;
        request.headers_mut().insert(header::AUTHORIZATION, key);
        let response = self.answer(&mut proven.sender, request).await?;
        let status = response.status();
        let (head, body) = response.into_parts();
        let response = Response { headers: head.headers, body, _connection: proven.task };
        match status {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED => Err(ClientError::WrongKey),
            status => Err(self.refusal(status, response).await),
        }
    }

    async fn answer(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<hyper::Response<Incoming>, ClientError> {
        // The end of an earlier answer on this connection may still be on its way through it.
        let asking = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        match timeout(ANSWER_MAX, asking).await {
            Ok(response) => response.map_err(|error| self.lost("lost the connection to", &error)),
            Err(_) => Err(self.silent(ANSWER_MAX)),
        }
    }

    /// A connection to the gateway, and to no program that only listens where it did.
    async fn connect(&self) -> Result<Proven, ClientError> {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.base.port_or_known_default().unwrap_or_default();
        let addresses =
            lookup_host((host, port)).await.map_err(|error| self.lost("no connection to", &error))?;
        let mut failed = ClientError::Lost(format!("{host} has no address"));
        // A name may stand for several, and the gateway listens on one of them.
        for address in addresses {
            match self.connect_to(address).await {
                Ok(proven) => return Ok(proven),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<Proven, ClientError> {
        if !is_this_machine(address.ip()) {
            return Err(ClientError::Foreign(format!(
                "{} is an address of another machine, and nothing is sent there without encryption; \
                 run this command where the gateway runs",
                address.ip()
            )));
        }
        let stream = match timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(stream) => stream.map_err(|error| self.lost("no connection to", &error))?,
            Err(_) => return Err(self.silent(CONNECT_MAX)),
        };
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.lost("no connection to", &error))?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _ = connection.await; // the caller that waits for an answer hears of it
        });
        self.challenge(&mut sender, address).await?;
        Ok(Proven { address, sender, task })
    }

    async fn challenge(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        address: SocketAddr,
    ) -> Result<(), ClientError> {
        let mut nonce = [0; proof::NONCE_LENGTH];
        SystemRandom::new().fill(&mut nonce).map_err(|_| {
            ClientError::Foreign("it cannot be asked: the system gives no random bytes".into())
        })?;
        let asked = json!({"nonce": Digest(nonce).to_hex()});
        let request = request(Method::POST, &self.url(&proof::PATH, &[]), address, Some(&asked))?;
        let response = self.answer(sender, request).await?;
        if !response.status().is_success() {
            return Err(ClientError::WrongKey); // it proves nothing
        }
        let body = self.read(response.into_body(), PROOF_BYTES_MAX).await?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let challenge = Challenge { nonce: &nonce, home: &self.endpoint.home, address };
        let said = answer["proof"].as_str().unwrap_or_default();
        match challenge.is_met_by(said, self.endpoint.key.expose()) {
            true => Ok(()),
            false => Err(ClientError::WrongKey),
        }
    }

    /// A refusal in words, if it is one of ours.
    async fn refusal(&self, status: StatusCode, response: Response) -> ClientError {
        let after = response.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
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

    async fn whole(&self, response: Response) -> Result<Vec<u8>, ClientError> {
        self.read(response.body, BODY_BYTES_MAX).await
    }

    async fn read(&self, mut from: Incoming, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk(&mut from).await? {
            body.extend_from_slice(&bytes);
            if body.len() > bytes_max {
                return Err(ClientError::Foreign(format!("its answer is longer than {bytes_max} bytes")));
            }
        }
        Ok(body)
    }

    async fn chunk(&self, body: &mut Incoming) -> Result<Option<Bytes>, ClientError> {
        loop {
            match timeout(SILENCE_MAX, body.frame()).await {
                Err(_) => return Err(self.silent(SILENCE_MAX)),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(self.lost("lost the connection to", &error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue, // headers behind a body say nothing to us
                },
            }
        }
    }

    fn lost(&self, what: &str, error: &dyn std::error::Error) -> ClientError {
        let mut cause = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        ClientError::Lost(format!("{what} the gateway at {} ({cause})", self.endpoint.url))
    }

    fn silent(&self, limit: Duration) -> ClientError {
        let seconds = limit.as_secs();
        ClientError::Lost(format!("the gateway at {} has been silent for {seconds} s", self.endpoint.url))
    }
}

/// A gateway is called by the address that was dialled: it answers under no names that others can give it.
fn request(
    method: Method,
    url: &Url,
    address: SocketAddr,
    body: Option<&Value>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, address.to_string());
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = request.body(Full::new(Bytes::from(body)));
    request.map_err(|error| ClientError::Foreign(format!("it cannot be asked: {error}")))
}

/// Whether what is sent there stays on this machine: the system lets a socket have only addresses of its own.
fn is_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
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
            let Some(bytes) = self.client.chunk(&mut self.response.body).await? else {
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
        "calling" => Event::Calling { id: text("id"), tool: text("tool"), arguments: text("arguments") },
        "unattended" => Event::Unattended { id: text("id"), tool: text("tool") },
        "asked" => Event::Asked(Asked {
            id: text("id"),
            is_open: matches!(data["kind"].as_str(), Some("clarify" | "elicitation")),
            is_of_server: data["kind"].as_str() == Some("elicitation"),
            text: text("text"),
            command: data["command"].as_str().map(str::to_owned),
            reason: data["reason"].as_str().map(str::to_owned),
            has_kind: data["patterns"].as_array().is_some_and(|patterns| !patterns.is_empty()),
        }),
        "granted" => Event::Granted(text("id")),
        "troubled" => Event::Troubled { message: text("message") },
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn line() -> Line {
        Line {
            text: "Hi \u{1f375}".into(),
            session: Some("a?b#c%d".parse().unwrap()),
            key: "k".into(),
            is_attended: false,
        }
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
            assert_eq!(Endpoint::at(host, 8642, Secret::new("k"), String::new()).url, url, "{host}");
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
        let body = json!({"text": "Hi \u{1f375}", "session": "a?b#c%d", "key": "k", "answers": false});
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

    /// Another program's listener: what it hears it keeps, and it answers with what `says` makes of it.
    async fn listener(
        says: impl AsyncFn(Vec<u8>) -> Vec<u8> + Clone + 'static,
    ) -> (u16, std::rc::Rc<std::cell::RefCell<Vec<u8>>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = std::rc::Rc::<std::cell::RefCell<Vec<u8>>>::default();
        let kept = heard.clone();
        tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (says, kept) = (says.clone(), kept.clone());
                tokio::task::spawn_local(async move {
                    let mut piece = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut piece).await {
                        kept.borrow_mut().extend_from_slice(&piece[..length]);
                        let _ = stream.write_all(&says(piece[..length].to_vec()).await).await;
                    }
                });
            }
        });
        (port, heard)
    }

    async fn locally(test: impl Future<Output = ()>) {
        tokio::task::LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn p31_whoever_has_taken_the_port_hears_neither_the_key_nor_what_is_said() {
        locally(async {
            let answers = [
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"proof\":\"00\"}",
                "HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 307 There\r\nlocation: /api/control/status\r\ncontent-length: 0\r\n\r\n",
            ];
            for answer in answers {
                let (port, heard) = listener(async |_| answer.as_bytes().to_vec()).await;
                let key = Secret::new("canary-of-this-home");
                let client = Client::new(Endpoint::at("127.0.0.1", port, key, "/h".into())).unwrap();
                assert_eq!(client.status().await.unwrap_err(), ClientError::WrongKey, "{answer}");
                assert_eq!(client.say(&line()).await.err(), Some(ClientError::WrongKey), "{answer}");
                let heard = String::from_utf8_lossy(&heard.borrow()).to_lowercase();
                assert!(heard.contains("/api/prove"), "{heard}");
                for told in ["canary", "authorization", "hi ", "/api/control"] {
                    assert!(!heard.contains(told), "{told:?} in {heard}");
                }
            }
        })
        .await;
    }

    #[tokio::test]
    async fn p31_a_listener_that_passes_everything_on_to_the_gateway_hears_no_key_either() {
        locally(async {
            let fake = Fake::start([]).await;
            let gateway = std::rc::Rc::new(tokio::sync::Mutex::new(
                TcpStream::connect(("127.0.0.1", fake.port)).await.unwrap(),
            ));
            let (port, heard) = listener(async move |said| {
                let mut gateway = gateway.lock().await;
                gateway.write_all(&said).await.unwrap();
                let mut piece = vec![0; 4096];
                let length = gateway.read(&mut piece).await.unwrap();
                piece.truncate(length);
                piece
            })
            .await;
            let there = Endpoint { url: format!("http://127.0.0.1:{port}"), ..fake.endpoint() };
            let error = Client::new(there).unwrap().status().await.unwrap_err();
            assert_eq!(error, ClientError::WrongKey, "the proof is for another address");
            assert!(!String::from_utf8_lossy(&heard.borrow()).to_lowercase().contains("authorization"));
            assert!(fake.client().status().await.is_ok(), "the gateway itself is taken for what it is");
        })
        .await;
    }

    #[tokio::test]
    async fn p31_nothing_is_sent_to_another_machine() {
        // An address that no machine has: it is for documentation.
        let there = Endpoint::at("192.0.2.1", 8642, Secret::new("canary"), "/h".into());
        let error = Client::new(there).unwrap().status().await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Foreign(words) if words.contains("another machine")),
            "{error}"
        );
    }
}
