//! One server: connected again and again, and called.
//!
//! - what it offers stays offered while it is away, so that prompts do not change with the weather
//! - a call is sent at most once: no failure makes this module try it again
//! - a server that comes and goes is waited for longer each time; one that fails calls is left alone
//!   for a minute after three, and the model is told so

#![expect(deprecated, reason = "logging leaves the protocol, and servers do not know it yet")]

use super::connection::{self, Connection, ConnectionHandler, RequestError};
use super::elicitation::{Interview, ServerCalls};
use super::offer::{self, ServerAction, ServerListing, ServerOffer, ServerTool};
use super::python_json;
use super::redact::ErrorRedactor;
use super::result::{self, ResultReader};
use super::stderr_log::ServerLog;
use super::tool_names::Prefix;
use super::{McpSurroundings, ServerPhase, listing_cache};
use crate::settings::{KEEPALIVE_MIN, ServerReach, ServerSettings};
use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetPromptRequest, GetPromptRequestParams,
    ListPromptsRequest, ListResourcesRequest, ListToolsRequest, LoggingLevel, PaginatedRequestParams,
    PingRequest, ReadResourceRequest, ReadResourceRequestParams, SetLevelRequest, SetLevelRequestParams,
};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use throughline_core::tool::Asker;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// Pauses between attempts double from the first to the last of these.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// After so many attempts in a row the next one is not urgent.
const HASTY_ATTEMPTS: u32 = 10;
const PAUSE_LATE: Duration = Duration::from_secs(300);
/// A connection that held this long was none that dies at once.
const STEADY: Duration = Duration::from_secs(30);
/// How long a call waits for a server that is just coming back.
const RETURN_WAIT: Duration = Duration::from_secs(5);
/// The same for one that rests, and was sent to rest by us.
const WAKE_WAIT: Duration = Duration::from_secs(15);
/// A living server answers a ping in less.
const PING_WAIT: Duration = Duration::from_secs(30);
/// The same when a call has just gone wrong, and more calls wait for the verdict.
const DOUBT_WAIT: Duration = Duration::from_secs(10);
/// Between two looks at a list that changes all the time.
const REFRESH_PAUSE: Duration = Duration::from_millis(500);
/// How long a server may take to set its log level, before its tools can be used.
const LEVEL_WAIT: Duration = Duration::from_secs(5);
/// A connection that does not close by then is dropped, and its process with it.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// How long a call that failed waits to be told why.
const OBITUARY_WAIT: Duration = Duration::from_secs(3);
/// Calls in a row that may fail before the server counts as unreachable, and for how long it does.
const FAILURES_MAX: u32 = 3;
const UNREACHABLE: Duration = Duration::from_secs(60);
/// Pages of one list. A server that always has another is not listened to for ever.
const PAGES_MAX: usize = 50;
const ITEMS_MAX: usize = 10_000;
/// Calls that one server is given at the same time, if it takes more than one.
const PARALLEL_MAX: usize = 16;
const METHOD_NOT_FOUND: i32 = -32601;

pub struct McpServer {
    pub settings: ServerSettings,
    pub prefix: Prefix,
    surroundings: Arc<McpSurroundings>,
    log: ServerLog,
    redactor: ErrorRedactor,
    state: Mutex<ServerState>,
    link: watch::Sender<Option<Peer<RoleClient>>>,
    /// The first attempt to connect is over, however it went.
    settled: watch::Sender<bool>,
    /// A call wants the server while it is away.
    wanted: Notify,
    /// A call went wrong: is it still there?
    doubted: Notify,
    changed: Arc<Notify>,
    calls: Arc<ServerCalls>,
    turnstile: Semaphore,
}

/// On whose behalf a tool is called.
pub struct McpCaller<'a> {
    pub session: &'a str,
    /// A way to ask them what the server wants to know. None: there is none.
    pub asker: Option<&'a dyn Asker>,
}

struct ServerState {
    phase: ServerPhase,
    offer: Arc<ServerOffer>,
    /// How many offers there have been.
    offers: u64,
    /// What the log was told of the latest offer since this start.
    logged: BTreeSet<String>,
    /// Why it is away.
    error: Option<String>,
    /// The last that went wrong, whether it was mended since or not, and when.
    trouble: Option<(String, Instant)>,
    /// When it is tried again.
    next: Option<Instant>,
    needs_login: bool,
    failures: u32,
    failed: Instant,
    busy: usize,
    called: Instant,
}

enum ConnectionEnd {
    Stopped,
    /// Sent to rest for want of calls, or for its age.
    Resting,
    Lost(RequestError),
}

impl McpServer {
    /// Reads what the server offered last time: not for the async threads.
    pub fn new(
        settings: ServerSettings,
        prefix: Prefix,
        surroundings: Arc<McpSurroundings>,
        log: ServerLog,
    ) -> Self {
        let phase = if settings.enabled { ServerPhase::Connecting } else { ServerPhase::Off };
        let listing =
            settings.enabled.then(|| listing_cache::recall(&surroundings.home, &settings.name)).flatten();
        let offer = listing.map(|listing| offer::offered(&settings, &prefix, &listing)).unwrap_or_default();
        let now = Instant::now();
        let state = ServerState {
            phase,
            offer: Arc::new(offer),
            offers: 1,
            logged: BTreeSet::new(),
            error: None,
            trouble: None,
            next: None,
            needs_login: false,
            failures: 0,
            failed: now,
            busy: 0,
            called: now,
        };
        Self {
            redactor: ErrorRedactor::new(&settings),
            turnstile: Semaphore::new(if settings.parallel { PARALLEL_MAX } else { 1 }),
            settled: watch::Sender::new(!settings.enabled),
            settings,
            prefix,
            surroundings,
            log,
            state: Mutex::new(state),
            link: watch::Sender::new(None),
            wanted: Notify::new(),
            doubted: Notify::new(),
            changed: Arc::default(),
            calls: Arc::default(),
        }
    }

    pub fn offer(&self) -> Arc<ServerOffer> {
        self.state().offer.clone()
    }

    pub fn offers(&self) -> u64 {
        self.state().offers
    }

    pub fn phase(&self) -> ServerPhase {
        self.state().phase
    }

    pub fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// What went wrong last, and how long ago.
    pub fn trouble(&self) -> Option<(String, Duration)> {
        self.state().trouble.as_ref().map(|(reason, at)| (reason.clone(), at.elapsed()))
    }

    pub fn needs_login(&self) -> bool {
        self.state().needs_login
    }

    /// How long until it is tried again.
    pub fn next_try(&self) -> Option<Duration> {
        self.state().next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub async fn settled(&self) {
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        // Every change to it is a single assignment: a panic left it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Living

    /// Keeps the connection until it is told to stop.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut attempts = 0_u32;
        loop {
            {
                let mut state = self.state();
                (state.phase, state.next) = (ServerPhase::Connecting, None);
            }
            let began = Instant::now();
            let end = self.connection(&mut stop).await;
            let pause = match end {
                ConnectionEnd::Stopped => break,
                ConnectionEnd::Resting => {
                    self.state().phase = ServerPhase::Resting;
                    None
                }
                ConnectionEnd::Lost(trouble) => {
                    attempts = if began.elapsed() > STEADY { 0 } else { attempts.saturating_add(1) };
                    Some(self.lost(trouble, attempts))
                }
            };
            self.link.send_replace(None); // after the reason is known: calls that failed wait for this
            self.settled.send_replace(true);
            tokio::select! {
                () = stopped(&mut stop) => break,
                () = self.pause(pause) => {}
            }
        }
        self.link.send_replace(None);
        {
            let mut state = self.state();
            (state.phase, state.next) = (ServerPhase::Stopped, None);
        }
        self.settled.send_replace(true);
    }

    fn lost(&self, trouble: RequestError, attempts: u32) -> Duration {
        let pause = match attempts {
            0..HASTY_ATTEMPTS => (PAUSE_MIN * 2_u32.pow(attempts.saturating_sub(1).min(6))).min(PAUSE_MAX),
            _ => PAUSE_LATE,
        };
        let reason = self.noted(&trouble);
        tracing::warn!(
            server = self.settings.name,
            pause_s = pause.as_secs(),
            "MCP server is away: {reason}"
        );
        let mut state = self.state();
        (state.phase, state.next) = (ServerPhase::Away, Some(Instant::now() + pause));
        pause
    }

    fn noted(&self, trouble: &RequestError) -> String {
        let reason = self.redactor.clean(&self.words(trouble));
        let mut state = self.state();
        state.trouble = Some((reason.clone(), Instant::now()));
        state.error = Some(reason.clone());
        state.needs_login = matches!(trouble, RequestError::Unauthorised { .. });
        reason
    }

    /// Until the time is over or a call wants the server, but never shorter than the shortest pause.
    async fn pause(&self, pause: Option<Duration>) {
        let Some(pause) = pause else { return self.wanted.notified().await };
        sleep(PAUSE_MIN.min(pause)).await;
        let _ = timeout(pause.saturating_sub(PAUSE_MIN), self.wanted.notified()).await;
    }

    async fn connection(self: &Arc<Self>, stop: &mut watch::Receiver<bool>) -> ConnectionEnd {
        let connected = tokio::select! {
            () = stopped(stop) => return ConnectionEnd::Stopped,
            connected = timeout(self.settings.connect_timeout, self.connect()) => connected,
        };
        let Connection { running, obituary } = match connected {
            Ok(Ok(connection)) => connection,
            Ok(Err(trouble)) => return ConnectionEnd::Lost(trouble),
            Err(_) => {
                let seconds = self.settings.connect_timeout.as_secs_f64();
                return ConnectionEnd::Lost(RequestError::Lost(format!(
                    "it was not ready within {seconds:.0} s (connect_timeout)"
                )));
            }
        };
        let peer = running.peer().clone();
        let token = running.cancellation_token();
        let mut waiting = std::pin::pin!(running.waiting());
        self.arrived(&peer);
        let end = tokio::select! {
            _ = &mut waiting => {
                let reason = obituary.lock().ok().and_then(|mut reason| reason.take());
                return ConnectionEnd::Lost(RequestError::Lost(reason.unwrap_or_else(|| connection::CLOSED.to_owned())));
            }
            () = stopped(stop) => ConnectionEnd::Stopped,
            trouble = self.probing(&peer) => ConnectionEnd::Lost(trouble),
            () = self.refreshing(&peer) => ConnectionEnd::Stopped, // it never ends
            () = self.tired() => ConnectionEnd::Resting,
        };
        if let ConnectionEnd::Lost(trouble) = &end {
            self.noted(trouble);
        }
        self.link.send_replace(None); // no call begins on a connection that closes
        token.cancel();
        let _ = timeout(CLOSE_WAIT, waiting).await;
        end
    }

    async fn connect(self: &Arc<Self>) -> Result<Connection, RequestError> {
        let listener = ConnectionHandler {
            server: self.settings.name.clone(),
            changed: self.changed.clone(),
            redactor: self.redactor.clone(),
            calls: self.calls.clone(),
            asks: self.surroundings.asks,
        };
        self.calls.renewed();
        let connection = connection::connect(&self.settings, &self.surroundings, &self.log, listener).await?;
        let listing = self.listing(connection.running.peer()).await?;
        self.publish(listing);
        self.set_level(connection.running.peer()).await;
        Ok(connection)
    }

    /// A server that logs is told how much of it reaches our own log. One that does not listen is none the worse.
    async fn set_level(&self, peer: &Peer<RoleClient>) {
        let logs = peer.peer_info().is_some_and(|info| info.capabilities.logging.is_some());
        if !logs {
            return;
        }
        let level = match tracing::enabled!(tracing::Level::DEBUG) {
            true => LoggingLevel::Debug,
            false => LoggingLevel::Info,
        };
        let request = SetLevelRequest::new(SetLevelRequestParams::new(level));
        let asked = connection::ask(peer, ClientRequest::SetLevelRequest(request), LEVEL_WAIT).await;
        if let Err(trouble) = asked {
            let reason = self.redactor.clean(&self.words(&trouble));
            tracing::debug!(server = self.settings.name, "MCP server does not set its log level: {reason}");
        }
    }

    fn arrived(&self, peer: &Peer<RoleClient>) {
        {
            let mut state = self.state();
            state.phase = ServerPhase::Connected;
            state.error = None;
            state.needs_login = false;
            state.failures = 0;
            state.called = Instant::now();
        }
        let _ = self.wanted.notified().now_or_never(); // the call that wanted it has it
        self.link.send_replace(Some(peer.clone()));
        self.settled.send_replace(true);
    }

    async fn listing(&self, peer: &Peer<RoleClient>) -> Result<ServerListing, RequestError> {
        let capabilities = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
        let mut listing = ServerListing {
            tools: Vec::new(),
            resources: capabilities.resources.is_some(),
            prompts: capabilities.prompts.is_some(),
        };
        // A server of prompts and resources alone may not know the method at all.
        if capabilities.tools.is_some() {
            let listed = self.pages(peer, "tools", self.settings.connect_timeout).await?;
            for tool in listed {
                match serde_json::from_value::<ServerTool>(tool) {
                    Ok(tool) => listing.tools.push(tool),
                    Err(error) => {
                        tracing::warn!(server = self.settings.name, %error, "a tool that cannot be read is left out");
                    }
                }
            }
        }
        Ok(listing)
    }

    fn publish(self: &Arc<Self>, listing: ServerListing) {
        let offer = Arc::new(offer::offered(&self.settings, &self.prefix, &listing));
        let before = {
            let mut state = self.state();
            state.offers += 1;
            std::mem::replace(&mut state.offer, offer.clone())
        };
        let names = |offer: &ServerOffer| offer.actions.keys().cloned().collect::<BTreeSet<_>>();
        let (old, new) = (names(&before), names(&offer));
        if old != new && !old.is_empty() {
            let added: Vec<_> = new.difference(&old).cloned().collect();
            let removed: Vec<_> = old.difference(&new).cloned().collect();
            tracing::warn!(
                server = self.settings.name,
                ?added,
                ?removed,
                "the tools of an MCP server changed"
            );
        }
        // Not compared with the offer before it: that may be what is remembered of an earlier start.
        let remarks: BTreeSet<String> = offer.remarks.iter().cloned().collect();
        let logged = std::mem::replace(&mut self.state().logged, remarks.clone());
        for remark in remarks.difference(&logged) {
            tracing::warn!(server = self.settings.name, "MCP server: {remark}");
        }
        let server = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) =
                listing_cache::remember(&server.surroundings.home, &server.settings.name, &listing)
            {
                tracing::warn!(server = server.settings.name, %error, "the tools of an MCP server are not remembered");
            }
        });
    }

    async fn refreshing(self: &Arc<Self>, peer: &Peer<RoleClient>) {
        loop {
            self.changed.notified().await;
            match self.listing(peer).await {
                Ok(listing) => self.publish(listing),
                Err(trouble) => {
                    let reason = self.redactor.clean(&self.words(&trouble));
                    tracing::warn!(
                        server = self.settings.name,
                        "the changed list of tools was not had: {reason}"
                    );
                    self.doubted.notify_one();
                }
            }
            sleep(REFRESH_PAUSE).await;
        }
    }

    /// Ends with the reason when the server no longer answers.
    async fn probing(&self, peer: &Peer<RoleClient>) -> RequestError {
        let mut knows_ping = true;
        loop {
            let quiet = timeout(self.settings.keepalive.max(KEEPALIVE_MIN), self.doubted.notified()).await;
            let patience = if quiet.is_err() { PING_WAIT } else { DOUBT_WAIT };
            if knows_ping {
                match connection::ask(peer, ClientRequest::PingRequest(PingRequest::default()), patience)
                    .await
                {
                    Ok(_) => continue,
                    Err(RequestError::Refused { code: METHOD_NOT_FOUND, .. }) => knows_ping = false,
                    Err(RequestError::Refused { message, .. }) if is_unknown_method(&message) => {
                        knows_ping = false
                    }
                    Err(RequestError::Late) => return RequestError::Lost("it no longer answers".to_owned()),
                    Err(trouble) => return trouble,
                }
            }
            // To ping is optional; to list is not.
            match connection::ask(peer, page_of("tools", None), patience).await {
                Ok(_) | Err(RequestError::Refused { .. }) => {}
                Err(RequestError::Late) => return RequestError::Lost("it no longer answers".to_owned()),
                Err(trouble) => return trouble,
            }
        }
    }

    /// Ends when a process is to rest. Remote servers are not ours to send there.
    async fn tired(&self) {
        let began = Instant::now();
        let is_ours = matches!(self.settings.reach, ServerReach::Stdio { .. });
        let limits = (self.settings.idle_max, self.settings.lifetime_max);
        if !is_ours || limits == (None, None) {
            return std::future::pending().await;
        }
        loop {
            let (busy, called) = {
                let state = self.state();
                (state.busy, state.called)
            };
            let ends = [limits.0.map(|max| called + max), limits.1.map(|max| began + max)];
            let Some(end) = ends.into_iter().flatten().min() else { return };
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO if busy == 0 => return,
                Duration::ZERO => sleep(REFRESH_PAUSE).await,
                left => sleep(left).await,
            }
        }
    }

    // Being called

    /// Always a result that a model can read, after every failure.
    pub async fn call(
        self: &Arc<Self>,
        action: &ServerAction,
        arguments: Map<String, Value>,
        person: &McpCaller<'_>,
    ) -> String {
        if let Some(refusal) = self.refusal() {
            return python_json::error(refusal);
        }
        let peer = match self.peer().await {
            Ok(peer) => peer,
            Err(message) => return python_json::error(message),
        };
        let Ok(Ok(_turn)) = timeout(self.settings.timeout, self.turnstile.acquire()).await else {
            return python_json::error(format!(
                "MCP server '{}' is still busy with earlier calls; this one was not sent. Try again later.",
                self.settings.name
            ));
        };
        let _busy = BusyServer::new(self);
        let began = Instant::now();
        match self.acted(&peer, action, arguments, person).await {
            Ok(result) => {
                self.state().failures = 0;
                result
            }
            Err(trouble) => self.failed(trouble, began).await,
        }
    }

    /// After too many failures in a row, until a minute has passed.
    fn refusal(&self) -> Option<String> {
        let state = self.state();
        let age = state.failed.elapsed();
        (state.failures >= FAILURES_MAX && age < UNREACHABLE).then(|| {
            format!(
                "MCP server '{}' is unreachable after {} consecutive failures. Auto-retry available in ~{}s. \
                 Do NOT retry this tool yet — use alternative approaches or ask the user to check the MCP server.",
                self.settings.name,
                state.failures,
                (UNREACHABLE - age).as_secs().max(1)
            )
        })
    }

    async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.settings.name;
        let patience = match self.phase() {
            ServerPhase::Off | ServerPhase::Stopped => {
                return Err(format!("MCP server '{name}' is not connected"));
            }
            // The first start may take its time: the server has not failed yet.
            ServerPhase::Connecting if !*self.settled.borrow() => self.settings.connect_timeout,
            ServerPhase::Resting => WAKE_WAIT,
            ServerPhase::Connected | ServerPhase::Connecting | ServerPhase::Away => RETURN_WAIT,
        };
        let mut link = self.link.subscribe();
        let there = link.borrow().clone();
        if let Some(peer) = there {
            return Ok(peer);
        }
        self.wanted.notify_one();
        let arrived = timeout(patience.min(self.settings.timeout), link.wait_for(Option::is_some)).await;
        if let Ok(Ok(peer)) = arrived
            && let Some(peer) = peer.clone()
        {
            return Ok(peer);
        }
        self.count_failure();
        let reason = self.error().map(|error| format!(" Last error: {error}")).unwrap_or_default();
        Err(format!(
            "MCP server '{name}' transport is down; reconnect requested. Do NOT retry this tool immediately — \
             give it a few seconds to come back.{reason}"
        ))
    }

    async fn acted(
        self: &Arc<Self>,
        peer: &Peer<RoleClient>,
        action: &ServerAction,
        arguments: Map<String, Value>,
        person: &McpCaller<'_>,
    ) -> Result<String, RequestError> {
        let patience = self.settings.timeout;
        match action {
            ServerAction::Tool(name) => {
                let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments);
                let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
                let asker = person.asker.filter(|_| self.surroundings.asks);
                let line = self.calls.begin(person.session, asker.is_some());
                let (server, redactor) = (self.settings.name.as_str(), &self.redactor);
                let interview = asker.map(|asker| Interview { server, redactor, asker });
                let answer = connection::ask_for_work(peer, request, patience, line, interview).await?;
                self.rendered(answer, |reader, answer| reader.tool(answer)).await
            }
            ServerAction::ListResources => {
                Ok(result::resources(&self.pages(peer, "resources", patience).await?))
            }
            ServerAction::ListPrompts => Ok(result::prompts(&self.pages(peer, "prompts", patience).await?)),
            ServerAction::ReadResource => {
                let Some(uri) = text_of(&arguments, "uri") else { return Ok(missing("uri")) };
                let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
                let answer =
                    connection::ask(peer, ClientRequest::ReadResourceRequest(request), patience).await?;
                self.rendered(answer, |reader, answer| reader.resource(answer)).await
            }
            ServerAction::GetPrompt => {
                let Some(name) = text_of(&arguments, "name") else { return Ok(missing("name")) };
                let mut params = GetPromptRequestParams::new(name);
                if let Some(Value::Object(given)) = arguments.get("arguments") {
                    params = params.with_arguments(given.clone());
                }
                let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
                Ok(result::prompt(&connection::ask(peer, request, patience).await?))
            }
        }
    }

    /// Results may hold files, and files are written elsewhere.
    async fn rendered(
        self: &Arc<Self>,
        answer: Value,
        render: fn(&ResultReader<'_>, &Value) -> String,
    ) -> Result<String, RequestError> {
        match answer["resultType"].as_str() {
            None | Some("complete") => {}
            Some(kind) => {
                let message = format!("it answered with '{kind}', which this client does not take up");
                return Ok(python_json::error(format!("MCP call failed: {message}")));
            }
        }
        let server = self.clone();
        let rendered = tokio::task::spawn_blocking(move || {
            let home = &server.surroundings.home;
            let (name, prefix) = (&server.settings.name, &server.prefix);
            render(&ResultReader { server: name, prefix, home, redactor: &server.redactor }, &answer)
        });
        rendered.await.map_err(|error| RequestError::Lost(format!("the answer could not be read: {error}")))
    }

    async fn pages(
        &self,
        peer: &Peer<RoleClient>,
        key: &'static str,
        patience: Duration,
    ) -> Result<Vec<Value>, RequestError> {
        let until = Instant::now() + patience;
        let mut items = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let left = until.saturating_duration_since(Instant::now());
            let mut page = connection::ask(peer, page_of(key, cursor.take()), left).await?;
            let Value::Array(listed) = page[key].take() else {
                return Err(RequestError::Lost(format!("its answer to {key}/list has no list of {key}")));
            };
            items.extend(listed);
            cursor = page["nextCursor"].as_str().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
            if cursor.is_none() {
                return Ok(items);
            }
            if items.len() > ITEMS_MAX {
                break;
            }
        }
        tracing::warn!(server = self.settings.name, "a list of {key} does not end; {} are used", items.len());
        Ok(items)
    }

    /// What the model reads of a call that failed. People read [`McpServer::words`].
    async fn failed(&self, trouble: RequestError, began: Instant) -> String {
        let name = &self.settings.name;
        let trouble = match trouble {
            RequestError::Lost(reason) => {
                self.count_failure();
                self.doubted.notify_one();
                RequestError::Lost(self.last_words(reason).await)
            }
            trouble => trouble,
        };
        let told = self.redactor.clean(&format!("a call failed: {}", self.words(&trouble)));
        tracing::warn!(server = name, "MCP server: {told}");
        self.state().trouble = Some((told, Instant::now()));
        let message = match trouble {
            RequestError::Refused { message, .. } => {
                self.state().failures = 0; // it is there, and has an opinion
                if message.to_lowercase().contains("session") {
                    self.doubted.notify_one(); // perhaps ours has ended on its side
                }
                format!("MCP call failed: McpError: {message}")
            }
            RequestError::Unauthorised { scope } => {
                self.count_failure();
                let how = self.how_to_log_in(scope.as_deref());
                self.state().needs_login = true;
                let error = format!(
                    "MCP server '{name}' requires re-authentication. {how}. Do NOT retry this tool — ask the user to \
                     re-authenticate."
                );
                return python_json::written(&json!({"error": error, "needs_reauth": true, "server": name}));
            }
            RequestError::Late => {
                self.count_failure();
                self.doubted.notify_one();
                format!(
                    "MCP call failed: TimeoutError: MCP call timed out after {:.1}s (configured timeout: {:.1}s). \
                     Whether it took effect is not known.",
                    began.elapsed().as_secs_f64(),
                    self.settings.timeout.as_secs_f64()
                )
            }
            RequestError::Lost(reason) => format!(
                "MCP call failed: ConnectionError: the connection to MCP server '{name}' was lost: {reason}. \
                 Whether the call took effect is not known; the server is being connected again."
            ),
        };
        python_json::error(self.redactor.clean(&message))
    }

    /// Who runs the connection knows better why it closed, a moment after the call knows that it did.
    async fn last_words(&self, reason: String) -> String {
        if reason != connection::CLOSED {
            return reason;
        }
        let mut link = self.link.subscribe();
        let gone = timeout(OBITUARY_WAIT, link.wait_for(Option::is_none)).await.is_ok();
        self.error().filter(|_| gone).unwrap_or(reason)
    }

    fn count_failure(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        state.failed = Instant::now();
    }

    /// What a person has to do, told to the model as well.
    fn how_to_log_in(&self, scope: Option<&str>) -> String {
        let name = &self.settings.name;
        let is_login = match &self.settings.reach {
            ServerReach::Http(remote) | ServerReach::Sse(remote) => remote.oauth.is_some(),
            ServerReach::Stdio { .. } => false,
        };
        match (scope, is_login) {
            (Some(scope), _) => {
                format!("Run `throughline mcp login {name} --scope '{scope}'`: its login allows less")
            }
            (None, true) => format!("Run `throughline mcp login {name}`"),
            (None, false) => format!(
                "Set `auth: oauth` below `mcp_servers.{name}` and run `throughline mcp login {name}`, or set a valid \
                 Authorization below its headers"
            ),
        }
    }

    /// What happened, for people: in the status, in the log.
    fn words(&self, trouble: &RequestError) -> String {
        match trouble {
            RequestError::Refused { message, .. } => format!("it refused: {message}"),
            RequestError::Unauthorised { scope } => {
                format!("it requires a login. {}", self.how_to_log_in(scope.as_deref()))
            }
            RequestError::Late => "it did not answer in time".to_owned(),
            RequestError::Lost(reason) => reason.clone(),
        }
    }
}

/// Some servers say it in words only.
fn is_unknown_method(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("method not found") || message.contains("unknown method")
}

fn page_of(key: &str, cursor: Option<String>) -> ClientRequest {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    match key {
        "resources" => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
        "prompts" => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
        _ => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
    }
}

fn text_of(arguments: &Map<String, Value>, key: &str) -> Option<String> {
    arguments.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn missing(parameter: &str) -> String {
    python_json::error(format!("Missing required parameter '{parameter}'"))
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A call that is under way; the last one's end is when the server becomes idle.
struct BusyServer<'a>(&'a McpServer);

impl<'a> BusyServer<'a> {
    fn new(server: &'a McpServer) -> Self {
        server.state().busy += 1;
        Self(server)
    }
}

impl Drop for BusyServer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy -= 1;
        state.called = Instant::now();
    }
}
