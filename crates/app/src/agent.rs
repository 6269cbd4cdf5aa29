//! One agent at work: what it claims, how it is put together, how it stops.
//!
//! An agent begins in two steps. [`claim`] takes what only one may have, in the order of the agents;
//! [`start`] puts the rest together, and several may do that side by side.
//!
//! Deliberately absent: when an agent is started, stopped or tried again ([`crate::host`]).

mod parts;

use crate::equip::plugins::{PluginPlace, Plugins};
use crate::equip::{self, Equipment, compressor, servers};
use crate::host::{AgentIntroduction, StartPlan};
use crate::host_commands::{HostCommandRunner, MemoryCommands, Providers};
use crate::http_listener::{self, HttpListener};
use crate::ledger::{self, SharedLedger};
use crate::platform_accounts::{self, AccountPlace, Listening, PlatformAccounts};
use crate::restart_notice;
use crate::token::Tokens;
use anyhow::Context;
use parts::{because, broken};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::port::{AgentApi, Model, Platform};
use throughline_core::redact::Secret;
use throughline_gateway::{Agent, Agents, Bridge, Clock, Compressor, Parts, Stopped, SystemClock};
use throughline_home::Home;
use throughline_home::config::{Environment, ModelChoice, Settings};
use throughline_home::home::{Address, Ownership};
use throughline_memory::Memory;
use throughline_net::Client;
use throughline_server::{AbsentAgent, RestartScope, SharedListener};

/// How long open responses may take to end once their turns have.
pub const RESPONSES_END: Duration = Duration::from_secs(2);

/// The agent that answers at the root of a listener that all share: Hermes' name for the profile that
/// is the root itself.
pub const FRONT: &str = throughline_hermes::profile::DEFAULT;

/// One agent at work, and its API.
pub struct Running {
    pub address: Address,
    pub key: Secret,
    name: String,
    /// What is off although it is built in, and why.
    off: Vec<String>,
    listening: Listening,
    agent: Agent,
    shared: ProcessShared,
    equipment: Equipment,
    listener: Option<HttpListener>,
    drain: Duration,
    home: Home,
    _ownership: Ownership,
}

/// What the agents of one process share.
#[derive(Clone)]
pub struct ProcessShared {
    /// Where they find each other.
    pub agents: Arc<Agents>,
    /// Whose homes they must not touch.
    pub homes: Vec<PathBuf>,
    /// Which bots are whose.
    pub tokens: Arc<Tokens>,
    /// What they may spend on each other, and on agents of other processes.
    pub ledger: Arc<SharedLedger>,
    /// They are there for people: chat platforms are connected.
    pub is_host: bool,
    /// What encoded histories weigh, in all.
    pub cached: Arc<AtomicUsize>,
    /// Connections to models, and the certificates that they trust.
    pub http: Client,
    /// The listener that all share, if they do.
    pub shared_listener: Option<Arc<SharedListener>>,
    /// The process: `/api/status` and `/restart` ask it.
    pub host: Arc<dyn throughline_server::ProcessHost>,
    /// What is done before an agent starts.
    pub upkeep: Upkeep,
    /// What carries out `/memory` as it was typed.
    pub memory_commands: Arc<dyn MemoryCommands>,
}

/// What an agent needs of the upkeep of its home, which is not this crate's.
#[derive(Clone, Copy)]
pub struct Upkeep {
    /// Finishes a forgetting that was interrupted, in a home that this process owns. Blocks.
    pub finish_forgetting: fn(&Path, &Memory, &throughline_store::Home, Time) -> anyhow::Result<()>,
}

impl ProcessShared {
    /// Of an agent that belongs to a command, and ends with it.
    pub fn of_one(
        environment: &Environment,
        upkeep: Upkeep,
        memory_commands: Arc<dyn MemoryCommands>,
    ) -> Self {
        Self {
            agents: Arc::default(),
            homes: Vec::new(),
            tokens: Arc::new(Tokens::new(environment)),
            ledger: SharedLedger::new(environment),
            is_host: false,
            cached: Arc::default(),
            http: crate::models::http(),
            shared_listener: None,
            host: Arc::new(throughline_server::SingleAgent),
            upkeep,
            memory_commands,
        }
    }
}

/// Where an agent's API answers.
pub enum ApiListener {
    /// At a listener of its own. `port` overrides the one that is configured.
    Own { port: Option<u16> },
    /// At the one that all share, which listens there; and at one of its own if it has a port.
    Shared { at: SocketAddr, own_port: Option<u16> },
}

/// What an agent has to itself before it begins.
pub struct Claim {
    home: Home,
    key: Secret,
    /// With the tokens of its bots.
    chats: PlatformAccounts,
    ownership: Ownership,
}

/// Takes what only one may have.
pub fn claim(name: &str, home: &Home, settings: &Settings, shared: &ProcessShared) -> anyhow::Result<Claim> {
    home.prepare()?;
    home.close_to_others(|name| settings.variable(name));
    let ownership = home.own(env!("CARGO_PKG_VERSION"))?;
    let key = match &settings.api.key {
        Some(key) => home.keep_key(key.value.clone())?,
        None => home.key_or_new()?,
    };
    let is_real = !matches!(settings.model, ModelChoice::Rehearsal);
    let place = AccountPlace {
        agent: name,
        home,
        homes: &shared.homes,
        tokens: &shared.tokens,
        now: SystemClock::new().now(),
    };
    let chats = match shared.is_host {
        true => PlatformAccounts::of(&place, settings, is_real),
        false => PlatformAccounts::default(), // the agent of a command serves that command alone
    };
    Ok(Claim { home: home.clone(), key, chats, ownership })
}

/// Begins to work in a home that is its own.
pub async fn start(
    name: &str,
    claim: Claim,
    settings: &Settings,
    api_listener: ApiListener,
    shared: &ProcessShared,
) -> anyhow::Result<Running> {
    let Claim { home, key, chats, ownership } = claim;
    let own_port = match &api_listener {
        ApiListener::Own { port } => Some(port.unwrap_or(settings.api.port.value)),
        ApiListener::Shared { own_port, .. } => *own_port,
    };
    let socket = match own_port {
        Some(port) => Some(http_listener::bind(&settings.api.host.value, port).await?),
        None => None,
    };
    let assembled = assemble(name, &home, settings, &chats, shared).await?;
    let Assembled { agent, equipment, model } = assembled;
    equipment.rings_at(agent.api());
    shared.agents.join(name, agent.api());
    if shared.is_host {
        shared.ledger.join(&ledger::name_of(home.path()), name, agent.api());
    }

    let surface = surface(name, &home, &key, settings, model.as_ref(), &equipment, shared);
    let router = throughline_server::router(agent.api(), surface);
    if let Some(shared_listener) = &shared.shared_listener {
        shared_listener.open(name, router.clone());
    }
    let listener = socket.map(|socket| HttpListener::serve(socket, router)).transpose()?;
    let address = address(name, listener.as_ref(), &api_listener);
    home.publish_address(&address)?;
    if shared.is_host {
        let now = SystemClock::new().now();
        restart_notice::tell(&home, &settings.platforms, agent.api().as_ref(), now).await;
    }
    let neighbours = platform_accounts::neighbours(name, &home, &shared.agents, &settings.profile_routes);
    let lost = chats.leads_nowhere(&neighbours);
    lost.iter().for_each(|words| tracing::error!(words, "messages will be refused"));
    let off = equipment.off.iter().chain(&chats.off).chain(&lost).cloned().collect();
    let reached: Vec<String> = chats.platforms().map(|platform| platform.name().to_owned()).collect();
    equipment.plugins.hear_of_the_start(&reached);
    let listening = chats.listen(&home, &agent.api(), settings.busy_input.value, &neighbours);
    Ok(Running {
        address,
        key,
        name: name.to_owned(),
        off,
        listening,
        agent,
        shared: shared.clone(),
        equipment,
        listener,
        drain: settings.drain.value,
        home,
        _ownership: ownership,
    })
}

/// An agent that lives, and what it works with.
struct Assembled {
    agent: Agent,
    equipment: Equipment,
    model: Arc<dyn Model>,
}

/// Puts the agent together and lets it go on with what its store holds.
async fn assemble(
    name: &str,
    home: &Home,
    settings: &Settings,
    chats: &PlatformAccounts,
    shared: &ProcessShared,
) -> anyhow::Result<Assembled> {
    let model_of = |choice: &ModelChoice| crate::models::model(choice, &settings.environment, &shared.http);
    let model = model_of(&settings.model).context("the configured model cannot be used")?;
    let mut store = throughline_store::Home::at(home.path());
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    finish_forgetting(home, settings, &store, shared.upkeep)
        .await
        .context("a forgetting that was interrupted could not be finished")?;
    let bridge = Arc::new(Bridge::new(name.into(), shared.agents.clone()));
    let summariser = settings.compression.summariser.as_ref().map(model_of).transpose();
    let summariser = summariser.context("the model of auxiliary.compression cannot be used")?;
    let summarisers = compressor::summarisers(settings, &model, summariser);
    if Plugins::need_python(home, settings) {
        // Hermes makes a store of its own in a home that has none: ours has to be there first.
        let now = SystemClock::new().now();
        drop(store.writer(now).map_err(|error| broken("open the store", error)).map_err(because)?);
    }
    let mut off = Vec::new();
    let place = PluginPlace { home, agent: name, homes: &shared.homes };
    let plugins = Arc::new(Plugins::start(&place, settings, summarisers.first().cloned(), &mut off).await);
    let (compressor, hard_tokens) = compressor::compressor(settings, summarisers, &plugins);
    let reviewer = settings.review.reviewer.as_ref().map(model_of).transpose();
    let reviewer = reviewer.context("the model of auxiliary.background_review cannot be used")?;
    let engine = compressor.engine.clone();
    let others = (&shared.agents, &shared.homes[..]);
    let equipment = equip::equip(home, settings, &model, others, engine, plugins, off).await;
    let memory = equipment.outside.as_ref().map(|outside| outside.provider.clone());
    let compressor = Compressor { memory, ..compressor };
    let platforms: Vec<Arc<dyn Platform>> = chats.platforms().chain([bridge as Arc<dyn Platform>]).collect();
    chats.platforms().for_each(|bot| shared.agents.lend(name, bot));
    let parts = Parts {
        reviewer: parts::reviewer(settings, reviewer, &equipment),
        host_commands: Arc::new(host_commands(name, home, settings, &equipment, shared)),
        models: Arc::new(Providers {
            home: home.clone(),
            environment: settings.environment.clone(),
            overrides: settings.overrides.clone(),
            http: shared.http.clone(),
        }),
        ..parts::parts(
            &store,
            model.clone(),
            settings,
            &equipment,
            compressor,
            platforms,
            shared.ledger.clone(),
        )
    };
    let options = parts::options(name, home, settings, hard_tokens, shared);
    let agent = Agent::start(parts, options).await.map_err(because)?;
    Ok(Assembled { agent, equipment, model })
}

/// What carries out the commands of a chat that only the process can.
fn host_commands(
    name: &str,
    home: &Home,
    settings: &Settings,
    equipment: &Equipment,
    shared: &ProcessShared,
) -> HostCommandRunner {
    let (host, identity) = (shared.host.clone(), home.identity());
    let restart = move || match host.restart(&identity, RestartScope::Agent) {
        Ok(_) => {}
        Err(why) => tracing::error!(why, "a restart was ordered in a chat, and cannot be"),
    };
    let (tools, memory) = (equipment.tools.clone(), equipment.memory.clone());
    let memory_commands = shared.memory_commands.clone();
    let mut runner =
        HostCommandRunner::new(home, name, &settings.environment, tools, memory, memory_commands);
    runner.overrides = settings.overrides.clone();
    runner.restart = shared.is_host.then(|| Box::new(restart) as Box<dyn Fn() + Send + Sync>);
    runner.servers = Some(equipment.mcp.clone());
    runner.plugins = Some((equipment.plugins.clone(), equipment.gateway_tools.clone()));
    runner.provider = equipment.outside.clone();
    runner
}

/// Where the API of an agent answers: at its own listener if it has one.
fn address(name: &str, own: Option<&HttpListener>, api_listener: &ApiListener) -> Address {
    match (own, api_listener) {
        (None, ApiListener::Shared { at, .. }) if name == FRONT => {
            Address { socket: *at, path: String::new() }
        }
        (None, ApiListener::Shared { at, .. }) => Address { socket: *at, path: SharedListener::path(name) },
        (Some(listener), _) => Address { socket: listener.address, path: String::new() },
        (None, ApiListener::Own { .. }) => unreachable!("an API listener of its own has a listener"),
    }
}

/// Finishes a forgetting that was interrupted, before anything else is done in the home.
async fn finish_forgetting(
    home: &Home,
    settings: &Settings,
    store: &throughline_store::Home,
    upkeep: Upkeep,
) -> anyhow::Result<()> {
    let memory = Memory::new(equip::memory_settings(home, settings));
    let (path, store) = (home.path().to_owned(), store.clone());
    let now = SystemClock::new().now();
    tokio::task::spawn_blocking(move || (upkeep.finish_forgetting)(&path, &memory, &store, now)).await?
}

fn surface(
    name: &str,
    home: &Home,
    key: &Secret,
    settings: &Settings,
    model: &dyn Model,
    equipment: &Equipment,
    shared: &ProcessShared,
) -> throughline_server::ServerOptions {
    let (plugins, mcp) = (equipment.plugins.clone(), equipment.servers.clone());
    throughline_server::ServerOptions {
        api_key: key.expose().to_owned(),
        body_bytes_max: usize::try_from(settings.api.body_limit_bytes.value).unwrap_or(usize::MAX),
        model: model.name().to_owned(),
        agent: name.to_owned(),
        home: home.identity(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        keep_alive: throughline_server::KEEP_ALIVE,
        cors_origins: settings.api.cors_origins.value.clone(),
        stop_on_disconnect: settings.api.stop_on_disconnect.value,
        host: shared.host.clone(),
        plugins: Arc::new(move || plugins.status()),
        servers: Arc::new(move || servers::shown(&mcp.status())),
    }
}

impl Running {
    pub fn api(&self) -> Arc<dyn AgentApi> {
        self.agent.api()
    }

    pub fn introduction(&self, plan: StartPlan) -> AgentIntroduction {
        AgentIntroduction {
            plan,
            address: self.address.clone(),
            key: self.key.clone(),
            off: self.off.clone(),
        }
    }

    /// Accepts nothing new, finishes what can be finished in time, and closes the home.
    pub async fn stop(self) -> anyhow::Result<Stopped> {
        let Running { name, key, listening, agent, shared, equipment, listener, drain, home, .. } = self;
        listening.stop().await;
        let server = listener.map(HttpListener::close);
        shared.agents.leave(&name);
        shared.ledger.leave(&ledger::name_of(home.path())).await;
        let stopped = agent.stop(drain).await.map_err(because);
        equipment.servers.stop().await;
        equipment.plugins.stop().await;
        if let Some(mut server) = server
            && tokio::time::timeout(RESPONSES_END, &mut server).await.is_err()
        {
            server.abort(); // a client that does not read its answer can ask for it again
        }
        if let Some(shared_listener) = &shared.shared_listener {
            let identity = home.identity();
            shared_listener.close(AbsentAgent { agent: &name, key: Some(key.expose()), home: &identity });
        }
        home.withdraw_address();
        stopped
    }
}
