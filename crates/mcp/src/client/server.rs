//! One server: its connection, which is made again when it ends, and what it offers.
//!
//! - what it offers stays offered while it is away, so that prompts do not change with the connection
//! - a call is sent at most once: no failure makes this module try it again
//! - a server that comes and goes is waited for longer each time; one that fails calls is left alone
//!   for a minute after three, and the model is told so

#![expect(deprecated, reason = "logging leaves the protocol, and servers do not know it yet")]

mod calls;

use super::connection::{self, Connection, ConnectionHandler, RequestError};
use super::elicitation::ServerCalls;
use super::offer::{self, ServerListing, ServerOffer, ServerTool};
use super::redact::ErrorRedactor;
use super::stderr_log::ServerLog;
use super::tool_names::Prefix;
use super::{McpSurroundings, ServerPhase, listing_cache};
use crate::settings::{KEEPALIVE_MIN, ServerReach, ServerSettings};
use calls::is_unknown_method;
use futures_util::FutureExt;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourcesRequest, ListToolsRequest, LoggingLevel,
    PaginatedRequestParams, PingRequest, SetLevelRequest, SetLevelRequestParams,
};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
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
    call_permits: Semaphore,
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
            call_permits: Semaphore::new(if settings.parallel { PARALLEL_MAX } else { 1 }),
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
}

fn page_of(key: &str, cursor: Option<String>) -> ClientRequest {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    match key {
        "resources" => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
        "prompts" => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
        _ => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
