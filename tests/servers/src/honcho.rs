//! Honcho, as a running server of version 3.0.12 behaves: everything is created when it is named, nothing
//! is idempotent, and what was stored twice stays.
//!
//! - a batch of messages is stored whole or not at all; the same batch again is stored again
//! - a client that hangs up does not keep a request from being worked off
//! - a path it has not thought of (`:` in a session's id) gives 500, and an unhandled 500 ends the connection
//!   without a word about it
//! - a complaint (422) repeats everything that was sent
//!
//! [`HonchoServer::before`] puts the same faults and the same memory for calls before a real server.
//!
//! Deliberately simplified: it models no person (summaries, cards, representations and answers are what a
//! test puts there), search is by words, and the slow first request after a write is not slow.

mod filter;
mod state;

use axum::Router;
use axum::body::Bytes;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequest, Multipart, Request, State as Extracted};
use axum::response::{IntoResponse, Response};
use axum::serve::{IncomingStream, Listener};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use state::{Answer, HonchoState, StateRequest, Uploaded};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What a request gets instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done, and the connection ends.
    DropRequest,
    /// It is done, and the connection ends.
    DropAnswer,
    /// The connection ends now, and it is done later.
    CommitLater(Duration),
    /// The connection ends now, and it is done as soon as the next request of this kind was answered: a client
    /// that looks for it once has looked too early.
    CommitBehind(&'static str),
    /// Nothing is done, and no answer comes.
    Hang,
    /// It is done, and no answer comes.
    HangAfter,
    /// It is done, and answered only then.
    Slow(Duration),
    /// It is done, and answered when [`HonchoServer::let_go`] is called.
    Held,
    /// Nothing is done, and this is answered.
    Status(u16),
    /// Nothing is done, this is answered, and clients are not to come again for so many seconds.
    Busy(u16, u64),
    /// It is done, and this is answered: something stands between.
    StatusAfter(u16),
    /// Nothing is done, and a page is shown with a success.
    Page,
}

/// A message as it lies there.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub session: String,
    pub peer: String,
    pub content: String,
    pub metadata: Value,
    pub created_at: String,
}

/// One request that came in, by what it asks: `POST messages`, `GET peers/context` …
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub operation: String,
    pub path: String,
    pub body: Value,
}

enum HonchoBackend {
    World {
        key: Option<String>,
        world: Mutex<HonchoState>,
    },
    /// Host and port.
    Real(String),
}

struct Shared {
    address: SocketAddr,
    behind: HonchoBackend,
    faults: Mutex<BTreeMap<String, VecDeque<Fault>>>,
    calls: Mutex<Vec<Call>>,
    behind_others: Mutex<Vec<DelayedRequest>>,
    let_go: Notify,
}

/// A request that is worked off when one of another kind was.
struct DelayedRequest {
    operation: &'static str,
    method: String,
    uri: String,
    body: Value,
    file: Option<Uploaded>,
    headers: HeaderMap,
}

/// A server on a free port. It ends with this handle.
pub struct HonchoServer {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for HonchoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HonchoServer {
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    pub async fn start_with(key: Option<&str>) -> Self {
        Self::standing(HonchoBackend::World { key: key.map(str::to_owned), world: Mutex::default() }).await
    }

    /// Before a real server: `http://host:port`.
    pub async fn before(url: &str) -> Self {
        let address = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        Self::standing(HonchoBackend::Real(address.to_owned())).await
    }

    async fn standing(behind: HonchoBackend) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            address,
            behind,
            faults: Mutex::default(),
            calls: Mutex::default(),
            behind_others: Mutex::default(),
            let_go: Notify::new(),
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let service = router.into_make_service_with_connect_info::<ConnectionsEnd>();
        let task = tokio::spawn(async move {
            let _ = axum::serve(EndableListener(listener), service).await;
        });
        Self { shared, task }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// The next requests of this kind get these, in order: `fail("POST messages", …)`.
    pub fn fail(&self, operation: &str, faults: impl IntoIterator<Item = Fault>) {
        locked(&self.shared.faults).entry(operation.to_owned()).or_default().extend(faults);
    }

    /// The answer that is held goes out; the next one, if none is.
    pub fn let_go(&self) {
        self.shared.let_go.notify_one();
    }

    /// What was still to fail does not.
    pub fn heal(&self) {
        locked(&self.shared.faults).clear();
    }

    /// Whether what search, chat and conclusions need is away.
    pub fn models_down(&self, down: bool) {
        self.world().models_down = down;
    }

    pub fn summarise(&self, workspace: &str, session: &str, text: &str) {
        let mut world = self.world();
        world.space(workspace).sessions.entry(session.to_owned()).or_default().summary =
            Some(text.to_owned());
    }

    pub fn represent(&self, workspace: &str, observer: &str, observed: &str, text: &str) {
        let pair = (observer.to_owned(), observed.to_owned());
        self.world().space(workspace).representations.insert(pair, text.to_owned());
    }

    pub fn describe(&self, workspace: &str, observer: &str, observed: &str, card: &[&str]) {
        let pair = (observer.to_owned(), observed.to_owned());
        self.world()
            .space(workspace)
            .cards
            .insert(pair, card.iter().map(|fact| (*fact).to_owned()).collect());
    }

    /// What a chat with `peer` about `target` answers.
    pub fn think(&self, workspace: &str, peer: &str, target: &str, answer: &str) {
        let pair = (peer.to_owned(), target.to_owned());
        self.world().space(workspace).answers.insert(pair, answer.to_owned());
    }

    // ------------------------------------------------------------------------------- what is there

    pub async fn messages(&self, workspace: &str, session: &str) -> Vec<Kept> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = self.all(workspace, &format!("sessions/{session}/messages/list")).await;
        let kept = items.iter().map(|message| Kept {
            session: text(&message["session_id"]),
            peer: text(&message["peer_id"]),
            content: text(&message["content"]),
            metadata: message["metadata"].clone(),
            created_at: text(&message["created_at"]),
        });
        kept.collect()
    }

    pub async fn sessions(&self, workspace: &str) -> Vec<String> {
        self.ids(workspace, "sessions/list").await
    }

    pub async fn peers(&self, workspace: &str) -> Vec<String> {
        self.ids(workspace, "peers/list").await
    }

    pub async fn conclusions(&self, workspace: &str) -> Vec<Value> {
        self.all(workspace, "conclusions/list").await
    }

    /// What a peer observes in a session.
    pub async fn watch(&self, workspace: &str, session: &str, peer: &str) -> Value {
        self.ask("GET", workspace, &format!("sessions/{session}/peers/{peer}/config"), Value::Null).await
    }

    /// A request of the test's own: no fault, and not counted.
    pub async fn ask(&self, method: &str, workspace: &str, path: &str, body: Value) -> Value {
        let uri = format!("/v3/workspaces/{workspace}/{path}");
        let mut headers = HeaderMap::new();
        let key = match &self.shared.behind {
            HonchoBackend::World { key, .. } => key.clone(),
            HonchoBackend::Real(_) => std::env::var("HONCHO_TEST_KEY").ok(),
        };
        if let Some(value) = key.and_then(|key| format!("Bearer {key}").parse().ok()) {
            headers.insert("authorization", value);
        }
        self.shared.perform(method, &uri, body, None, &headers).await.1
    }

    async fn ids(&self, workspace: &str, path: &str) -> Vec<String> {
        let items = self.all(workspace, path).await;
        items.iter().filter_map(|item| item["id"].as_str().map(str::to_owned)).collect()
    }

    async fn all(&self, workspace: &str, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        for page in 1.. {
            let path = format!("{path}?page={page}&size=100");
            let answer = self.ask("POST", workspace, &path, serde_json::json!({})).await;
            items.extend(answer["items"].as_array().cloned().unwrap_or_default());
            if answer["pages"].as_u64().unwrap_or(0) <= page {
                break;
            }
        }
        items
    }

    pub fn calls(&self) -> Vec<Call> {
        locked(&self.shared.calls).clone()
    }

    pub fn count(&self, operation: &str) -> usize {
        locked(&self.shared.calls).iter().filter(|call| call.operation == operation).count()
    }

    pub fn is_real(&self) -> bool {
        matches!(self.shared.behind, HonchoBackend::Real(_))
    }

    fn world(&self) -> MutexGuard<'_, HonchoState> {
        match &self.shared.behind {
            HonchoBackend::World { world, .. } => locked(world),
            HonchoBackend::Real(_) => {
                panic!("what a real server knows cannot be made up: ask is_real() first")
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ------------------------------------------------------------------------------------- requests

async fn answer(
    Extracted(shared): Extracted<Arc<Shared>>,
    ConnectInfo(ending): ConnectInfo<ConnectionsEnd>,
    request: Request,
) -> Response {
    let (method, uri, headers) =
        (request.method().to_string(), request.uri().clone(), request.headers().clone());
    let uri = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    let (body, file) = read(request, &headers).await;
    let operation = format!("{method} {}", kind(&segments(&uri)));
    locked(&shared.calls).push(Call { operation: operation.clone(), path: uri.clone(), body: body.clone() });

    let fault = locked(&shared.faults).get_mut(&operation).and_then(VecDeque::pop_front);
    match fault {
        Some(Fault::DropRequest) => hang_up(),
        Some(Fault::Hang) => silence().await,
        Some(Fault::Status(status)) => return shown(status, &complaint(status, &body), &ending),
        Some(Fault::Busy(status, seconds)) => {
            let mut shown = shown(status, &complaint(status, &body), &ending);
            shown.headers_mut().insert("retry-after", seconds.into());
            return shown;
        }
        Some(Fault::Page) => return (StatusCode::OK, "<html>Sign in</html>").into_response(),
        Some(Fault::CommitLater(delay)) => {
            let shared = shared.clone();
            tokio::spawn(async move {
                sleep(delay).await;
                shared.perform(&method, &uri, body, file, &headers).await;
            });
            hang_up()
        }
        Some(Fault::CommitBehind(operation)) => {
            let later = DelayedRequest { operation, method, uri, body, file, headers };
            locked(&shared.behind_others).push(later);
            hang_up()
        }
        None
        | Some(Fault::DropAnswer | Fault::HangAfter | Fault::Slow(_) | Fault::Held | Fault::StatusAfter(_)) =>
            {}
    }
    let (status, answer) = shared.perform(&method, &uri, body, file, &headers).await;
    shared.perform_what_waited_for(&operation).await;
    match fault {
        Some(Fault::DropAnswer) => hang_up(),
        Some(Fault::HangAfter) => silence().await,
        Some(Fault::StatusAfter(status)) => shown(status, &Value::Null, &ending),
        Some(Fault::Slow(delay)) => {
            sleep(delay).await;
            shown(status, &answer, &ending)
        }
        Some(Fault::Held) => {
            shared.let_go.notified().await;
            shown(status, &answer, &ending)
        }
        _ => shown(status, &answer, &ending),
    }
}

impl Shared {
    async fn perform_what_waited_for(&self, operation: &str) {
        let due: Vec<DelayedRequest> =
            locked(&self.behind_others).extract_if(.., |later| later.operation == operation).collect();
        for DelayedRequest { method, uri, body, file, headers, .. } in due {
            self.perform(&method, &uri, body, file, &headers).await;
        }
    }

    async fn perform(
        &self,
        method: &str,
        uri: &str,
        body: Value,
        file: Option<Uploaded>,
        headers: &HeaderMap,
    ) -> Answer {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let (key, world) = match &self.behind {
            HonchoBackend::World { key, world } => (key, world),
            HonchoBackend::Real(address) => {
                let answer = forwarded(address, method, uri, &body, given).await;
                return answer.unwrap_or((502, Value::Null));
            }
        };
        let wanted = key.as_ref().map(|key| format!("Bearer {key}"));
        if wanted.is_some() && given != wanted.as_deref() {
            return (401, serde_json::json!({"detail": "Invalid or missing token"}));
        }
        let path = segments(uri);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query = pairs(uri.split_once('?').map_or("", |(_, query)| query));
        let mut world = locked(world);
        match path.as_slice() {
            ["v3", "workspaces"] if method == "POST" => world.workspace(&body),
            ["v3", "workspaces", workspace] if method == "DELETE" => world.delete(workspace),
            ["v3", "workspaces", workspace, rest @ ..] if state::is_id(workspace) => {
                let asked = StateRequest { method, path: rest.to_vec(), query, body, file };
                world.perform(workspace, &asked)
            }
            _ => (404, serde_json::json!({"detail": "Not Found"})),
        }
    }
}

/// One request over a connection of its own, to a real server.
async fn forwarded(
    address: &str,
    method: &str,
    uri: &str,
    body: &Value,
    key: Option<&str>,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let key = key.map(|key| format!("authorization: {key}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {uri} HTTP/1.1\r\nhost: {address}\r\n{key}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(502);
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

fn segments(uri: &str) -> Vec<String> {
    let path = uri.split('?').next().unwrap_or_default();
    path.split('/').filter(|part| !part.is_empty()).map(decoded).collect()
}

/// The path without the ids in it.
fn kind(path: &[String]) -> String {
    let mut parts: Vec<&str> = path.iter().skip(3).map(String::as_str).collect();
    let has_id = matches!(parts.first(), Some(&("sessions" | "peers" | "conclusions")))
        && !matches!(parts.get(1), None | Some(&("list" | "query")));
    if has_id {
        parts.remove(1);
    }
    match parts.as_slice() {
        ["sessions", "messages", rest @ ..] => {
            ["messages"].iter().chain(rest).copied().collect::<Vec<_>>().join("/")
        }
        parts => parts.join("/"),
    }
}

fn complaint(status: u16, input: &Value) -> Value {
    match status {
        422 => state::invalid("Value error", input).1,
        500 => state::broken().1,
        _ => serde_json::json!({"detail": "on request"}),
    }
}

fn shown(status: u16, answer: &Value, ending: &ConnectionsEnd) -> Response {
    if status == 500 {
        ending.0.store(true, Ordering::SeqCst);
    }
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match answer {
        Value::Null => code.into_response(),
        answer => (code, [("content-type", "application/json")], answer.to_string()).into_response(),
    }
}

async fn read(request: Request, headers: &HeaderMap) -> (Value, Option<Uploaded>) {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("multipart/") {
        let bytes = Bytes::from_request(request, &()).await.unwrap_or_default();
        return (serde_json::from_slice(&bytes).unwrap_or(Value::Null), None);
    }
    let mut uploaded = Uploaded { kind: String::new(), bytes: Vec::new(), fields: BTreeMap::new() };
    let Ok(mut parts) = Multipart::from_request(request, &()).await else { return (Value::Null, None) };
    while let Ok(Some(part)) = parts.next_field().await {
        let name = part.name().unwrap_or_default().to_owned();
        let kind = part.content_type().unwrap_or("application/octet-stream").to_owned();
        let bytes = part.bytes().await.unwrap_or_default();
        match name.as_str() {
            "file" => (uploaded.kind, uploaded.bytes) = (kind, bytes.to_vec()),
            _ => drop(uploaded.fields.insert(name, String::from_utf8_lossy(&bytes).into_owned())),
        }
    }
    (Value::Null, Some(uploaded))
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decoded(key), decoded(&value.replace('+', " ")))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'%', [high, low, ..]) => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ends the connection's task without an answer, and without a word on the terminal.
fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("hung up on request"))
}

async fn silence() -> ! {
    loop {
        sleep(Duration::from_secs(3600)).await;
    }
}

// ---------------------------------------------------------------------------------- connections

/// Set: the connection ends after its answer, and nothing in the answer says so.
#[derive(Clone, Default)]
struct ConnectionsEnd(Arc<AtomicBool>);

struct EndableListener(TcpListener);

struct Connection {
    stream: TcpStream,
    ending: ConnectionsEnd,
}

impl Listener for EndableListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            if let Ok((stream, address)) = self.0.accept().await {
                return (Connection { stream, ending: ConnectionsEnd::default() }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, EndableListener>> for ConnectionsEnd {
    fn connect_info(stream: IncomingStream<'_, EndableListener>) -> Self {
        stream.io().ending.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.ending.0.load(Ordering::SeqCst) {
            true => Poll::Ready(Ok(())), // as if the other side had gone
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
