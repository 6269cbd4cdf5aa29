//! Servers whose tools the agent may use: every entry of `mcp_servers`, as one kit.
//!
//! Connecting happens in the background, all servers at once. The gateway does not wait for a server that
//! is down, and its tools stay offered as it offered them last. A call reaches its server at most once.
//! What comes back is the result of a tool and nothing else: servers get no completions and no files from us. What they ask while
//! a tool runs is put to the person of that call (`elicitation`).
//!
//! Deliberately absent: configuration and environment (they are given), deciding who may call what.

mod connection;
mod elicitation;
mod environment;
mod error_cause;
mod form;
mod http;
pub(crate) mod http_client;
#[cfg(test)]
mod linear;
mod listing_cache;
mod media_files;
pub(crate) mod oauth;
mod offer;
mod python_json;
mod redact;
mod result;
mod server;
mod sse;
mod stderr_log;
mod stdio;
mod suspicious_commands;
mod tool_names;
mod tool_schema;

use crate::settings::{ServerReach, ServerSettings};
use offer::ServerAction;
use serde_json::{Map, Value};
use server::{McpCaller, McpServer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use stderr_log::ServerLog;
use throughline_core::port::Promise;
use throughline_core::tool::{Asker, Call, Kit, Returned, Spec};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tool_names::Prefix;

/// The largest message that a server may send. Pictures come in messages, and are large in base64;
/// several calls may be under way at once.
const MESSAGE_LENGTH_MAX: usize = 16 * 1024 * 1024;

/// Longer than the slowest goodbye of a server.
const STOP_WAIT: Duration = Duration::from_secs(8);

/// Where the client lives.
#[derive(Clone, Debug)]
pub struct McpSurroundings {
    /// The Hermes home: logs, caches, stored logins and what servers offered last time.
    pub home: PathBuf,
    /// The environment of the gateway, of which servers get the harmless part.
    pub environment: Vec<(String, String)>,
    /// There are people who can be asked what a server wants to know.
    pub asks: bool,
}

/// How things stand with one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: String,
    /// `stdio`, `http` or `sse`.
    pub transport: &'static str,
    pub phase: ServerPhase,
    /// The names under which its tools are offered.
    pub tools: Vec<String>,
    /// Why it is away, free of secrets.
    pub error: Option<String>,
    /// What went wrong last, also if it was mended since, and how long ago; free of secrets.
    pub last_error: Option<(String, Duration)>,
    /// How long until it is tried again by itself.
    pub next_try: Option<Duration>,
    /// It wants a login that is not there, or no longer valid.
    pub needs_login: bool,
    /// What is odd about its tools.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// Switched off in the configuration.
    Off,
    Connecting,
    Connected,
    /// Its process was sent to rest, and starts again with the next call.
    Resting,
    /// Lost, or never reached; the next attempt comes by itself.
    Away,
    Stopped,
}

pub struct McpClient {
    /// Those that are there now. Replaced as a whole.
    server_set: RwLock<Arc<ServerSet>>,
    /// One reload at a time.
    reloading: tokio::sync::Mutex<()>,
}

/// The servers of one reading of the settings.
struct ServerSet {
    servers: Vec<Arc<McpServer>>,
    /// What the revision was before them.
    before: u64,
    stop: watch::Sender<bool>,
    lives: Mutex<Vec<JoinHandle<()>>>,
    /// Names that the log has been told of.
    told: Mutex<BTreeSet<String>>,
}

/// A tool that is offered under another name than its server's list has.
struct NameClash {
    name: String,
    plain: Spec,
    server: Arc<McpServer>,
    action: ServerAction,
}

impl NameClash {
    fn remark(&self) -> String {
        let Self { name, plain, .. } = self;
        format!("another server's tool is already called {}; this one is called {name}", plain.name)
    }
}

impl ServerSet {
    fn start(servers: Vec<ServerSettings>, surroundings: McpSurroundings, before: u64) -> Arc<Self> {
        let log = ServerLog::open(&surroundings.home);
        let surroundings = Arc::new(surroundings);
        let stop = watch::Sender::new(false);
        let mut lives = Vec::new();
        let mut started = Vec::new();
        let prefixes = Prefix::distinct(servers.iter().map(|server| server.name.as_str()));
        for (settings, prefix) in servers.into_iter().zip(prefixes) {
            let server = Arc::new(McpServer::new(settings, prefix, surroundings.clone(), log.clone()));
            if server.settings.enabled {
                lives.push(tokio::spawn(server.clone().run(stop.subscribe())));
            }
            started.push(server);
        }
        Arc::new(Self { servers: started, before, stop, lives: Mutex::new(lives), told: Mutex::default() })
    }

    fn tells(&self, clash: &NameClash) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(clash.name.clone()) {
            tracing::warn!(server = clash.server.settings.name, "MCP server: {}", clash.remark());
        }
    }

    async fn stop(&self) {
        self.stop.send_replace(true);
        let lives = std::mem::take(&mut *self.lives.lock().unwrap_or_else(PoisonError::into_inner));
        let until = tokio::time::Instant::now() + STOP_WAIT;
        for mut life in lives {
            if tokio::time::timeout_at(until, &mut life).await.is_err() {
                life.abort();
            }
        }
    }

    /// Tools whose name a server before theirs has given to another: `a` with `b__c`, and `a__b` with `c`.
    fn clashes(&self) -> Vec<NameClash> {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut found = Vec::new();
        for server in &self.servers {
            let offer = server.offer();
            for spec in offer.specs.iter().filter(|spec| taken.contains(&spec.name)) {
                let Some(action) = offer.actions.get(&spec.name) else { continue };
                let name = server.prefix.marked(action.tool());
                if !taken.contains(&name) {
                    let (plain, server, action) = (spec.clone(), server.clone(), action.clone());
                    found.push(NameClash { name, plain, server, action });
                }
            }
            taken.extend(offer.specs.iter().map(|spec| spec.name.clone()));
        }
        found
    }

    /// Offers are only ever added to: the sum of their counts rises with each.
    fn revision(&self) -> u64 {
        self.before + self.servers.iter().map(|server| server.offers()).sum::<u64>()
    }
}

impl McpClient {
    /// Begins to connect and returns at once, with the tools that the servers offered last time.
    /// Must be called within a runtime. Reads one small file for each server.
    pub fn start(servers: Vec<ServerSettings>, surroundings: McpSurroundings) -> Arc<Self> {
        let server_set = RwLock::new(ServerSet::start(servers, surroundings, 0));
        Arc::new(Self { server_set, reloading: tokio::sync::Mutex::default() })
    }

    fn server_set(&self) -> Arc<ServerSet> {
        self.server_set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other servers instead of those that are there, or the same ones anew. The old ones have gone before
    /// the new ones come: a process may hold what only one can. Calls under way fail.
    pub async fn reload(&self, servers: Vec<ServerSettings>, surroundings: McpSurroundings) {
        let _alone = self.reloading.lock().await;
        let old = self.server_set();
        old.stop().await;
        let new = ServerSet::start(servers, surroundings, old.revision() + 1);
        *self.server_set.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Waits until every server has been reached or has failed once, but no longer than `patience`:
    /// for the caller that builds the first prompt and would like to have all tools in it.
    pub async fn settled(&self, patience: Duration) {
        let server_set = self.server_set();
        let all = async {
            for server in &server_set.servers {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }

    pub fn status(&self) -> Vec<ServerStatus> {
        let server_set = self.server_set();
        let clashes = server_set.clashes();
        let one = |server: &Arc<McpServer>| {
            let offer = server.offer();
            let clashes: Vec<&NameClash> =
                clashes.iter().filter(|clash| Arc::ptr_eq(&clash.server, server)).collect();
            let name = |spec: &Spec| {
                let clash = clashes.iter().find(|clash| clash.plain.name == spec.name);
                clash.map_or_else(|| spec.name.clone(), |clash| clash.name.clone())
            };
            let remarks = offer.remarks.iter().cloned();
            ServerStatus {
                name: server.settings.name.clone(),
                transport: match server.settings.reach {
                    ServerReach::Stdio { .. } => "stdio",
                    ServerReach::Http(_) => "http",
                    ServerReach::Sse(_) => "sse",
                },
                phase: server.phase(),
                tools: offer.specs.iter().map(name).collect(),
                error: server.error(),
                last_error: server.trouble(),
                next_try: server.next_try(),
                needs_login: server.needs_login(),
                remarks: remarks.chain(clashes.iter().map(|clash| clash.remark())).collect(),
            }
        };
        server_set.servers.iter().map(one).collect()
    }

    /// Ends every connection, and with them the processes that are ours. Calls under way fail.
    pub async fn stop(&self) {
        let _alone = self.reloading.lock().await;
        self.server_set().stop().await;
    }

    fn server_of(&self, tool: &str) -> Option<(Arc<McpServer>, ServerAction)> {
        let server_set = self.server_set();
        let plain = server_set
            .servers
            .iter()
            .find_map(|server| Some((server.clone(), server.offer().actions.get(tool)?.clone())));
        plain.or_else(|| {
            let clashes = server_set.clashes();
            let clash = clashes.into_iter().find(|clash| clash.name == tool)?;
            Some((clash.server, clash.action))
        })
    }

    /// Calls a tool for a person who tries a server out, by the server's own name of it or by ours. None: there is
    /// no such tool.
    pub async fn try_tool(&self, name: &str, arguments: &str, asker: Option<&dyn Asker>) -> Option<String> {
        let own = |server: &Arc<McpServer>| {
            let offer = server.offer();
            let found = offer.actions.values().find(|action| action.tool() == name);
            Some((server.clone(), found?.clone()))
        };
        let found = self.server_of(name).or_else(|| self.server_set().servers.iter().find_map(own));
        let (server, action) = found?;
        Some(Self::acted(&server, &action, arguments, &McpCaller { session: "", asker }).await)
    }

    async fn called(&self, call: &Call, asker: Option<&dyn Asker>) -> String {
        let Some((server, action)) = self.server_of(&call.name) else {
            return python_json::error(format!(
                "No MCP server offers '{}' any more. Use one of the tools that are listed now.",
                call.name
            ));
        };
        let person = McpCaller { session: call.caller.session.as_str(), asker };
        Self::acted(&server, &action, &call.arguments, &person).await
    }

    async fn acted(
        server: &Arc<McpServer>,
        action: &ServerAction,
        written: &str,
        person: &McpCaller<'_>,
    ) -> String {
        match arguments(written) {
            Ok(arguments) => server.call(action, arguments, person).await,
            Err(reason) => python_json::error(reason),
        }
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        self.server_set().stop.send_replace(true);
    }
}

impl Kit for McpClient {
    fn revision(&self) -> u64 {
        self.server_set().revision()
    }

    fn specs(&self) -> Vec<Spec> {
        let mut specs: BTreeMap<String, Spec> = BTreeMap::new();
        let server_set = self.server_set();
        for server in &server_set.servers {
            for spec in &server.offer().specs {
                specs.entry(spec.name.clone()).or_insert_with(|| spec.clone());
            }
        }
        for clash in server_set.clashes() {
            server_set.tells(&clash);
            let spec = Spec { name: clash.name.clone(), ..clash.plain };
            specs.entry(clash.name).or_insert(spec);
        }
        specs.into_values().collect()
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move { Returned::text(self.called(call, None).await) })
    }

    fn call_asking<'a>(&'a self, call: &'a Call, asker: &'a dyn Asker) -> Promise<'a, Returned> {
        Box::pin(async move { Returned::text(self.called(call, Some(asker)).await) })
    }
}

/// What the model wrote. Nothing at all counts as no arguments.
fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("The arguments of a tool must be a JSON object. Nothing was called.".to_owned()),
        Err(error) => Err(format!("The arguments are not valid JSON ({error}). Nothing was called.")),
    }
}
