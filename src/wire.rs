//! Puts the parts together: a home, its model, its store, its listener. No logic.
//!
//! An agent begins in two steps. [`claim`] takes what only one may have, in the order of the agents;
//! [`start`] puts the rest together, and several may do that side by side.

use crate::client;
use crate::cmd;
use crate::cmd::chat::Chat;
use crate::cmd::eval::{Eval, Surroundings};
use crate::cmd::jobs::Retry;
use crate::cmd::mcp::Mcp;
use crate::cmd::memory::{Memory, Order};
use crate::cmd::pairing::Pairing;
use crate::cmd::plugin::{Known, Plugin};
use crate::cmd::prune::Prune;
use crate::cmd::sessions::snapshots::Restore;
use crate::cmd::status::{Place, outside as outside_of};
use crate::config::{
    Endpoint, Environment, ModelChoice, ModelTimeouts, Overrides, Review, Settings, Sourced, Written,
    unresolved,
};
use crate::descriptors;
use crate::equip::plugins::{self, Plugins};
use crate::equip::{self, Equipment, compressor};
use crate::home::{self, Address, ChosenBy, Home, Ownership};
use crate::host::{Introduction, Plan};
use crate::host_commands::{HostCommandRunner, Providers};
use crate::ledger::{self, SharedLedger};
use crate::out::Page;
use crate::platform_accounts::{self, Listening, PlatformAccounts};
use crate::restart_notice;
use crate::token::Tokens;
use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::guard::Limits;
use throughline_core::port::{AgentApi, Model, Platform, Promise, Read, Store, StoreError, Summariser};
use throughline_core::redact::Secret;
use throughline_core::session::Rules;
use throughline_core::session::review::Intervals;
use throughline_gateway::{
    Agent, Agents, Bridge, Clock, Compressor, Lifecycle, Mint, NoClerk, Notice, Notices, OneModel, Options,
    Parts, Reviewer, Stopped, SystemClock,
};
use throughline_hermes::env::Dotenv;
use throughline_hermes::{id, local};
use throughline_models::{Anthropic, AnthropicConfig, OpenAi, OpenAiConfig, Rehearsal, RehearsalScript};
use throughline_net::{Client, Timeouts};
use throughline_platforms::Pairings;
use throughline_plugins::Host;
use throughline_server::{AbsentAgent, RestartScope, SharedListener};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

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
    listener: Option<Listener>,
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
}

impl ProcessShared {
    /// Of an agent that belongs to a command, and ends with it.
    fn of_one(environment: &Environment) -> Self {
        Self {
            agents: Arc::default(),
            homes: Vec::new(),
            tokens: Arc::new(Tokens::new(environment)),
            ledger: SharedLedger::new(environment),
            is_host: false,
            cached: Arc::default(),
            http: http(),
            shared_listener: None,
            host: Arc::new(throughline_server::SingleAgent),
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

struct Listener {
    address: SocketAddr,
    server: JoinHandle<()>,
    close: oneshot::Sender<()>,
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
    let place = platform_accounts::Place {
        agent: name,
        home,
        homes: &shared.homes,
        tokens: &shared.tokens,
        now: SystemClock::new().now(),
    };
    let chats = match shared.is_host {
        true => PlatformAccounts::of(&place, settings, is_real),
        false => PlatformAccounts::default(), // a command that has its own agent for a while answers nobody else
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
        Some(port) => Some(bind(&settings.api.host.value, port).await?),
        None => None,
    };

    let model = model(&settings.model, &shared.http).context("the configured model cannot be used")?;
    let mut store = throughline_store::Home::at(home.path());
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    let clock = SystemClock::new();
    finish_forgetting(&home, settings, &store, clock.now())
        .await
        .context("a forgetting that was interrupted could not be finished")?;
    let bridge = Arc::new(Bridge::new(name.into(), shared.agents.clone()));
    let summariser =
        settings.compression.summariser.as_ref().map(|choice| self::model(choice, &shared.http)).transpose();
    let summariser = summariser.context("the model of auxiliary.compression cannot be used")?;
    let summarisers = compressor::summarisers(settings, &model, summariser);
    if Plugins::need_python(&home, settings) {
        // Hermes makes a store of its own in a home that has none: ours has to be there first.
        drop(store.writer(clock.now()).map_err(|error| broken("open the store", error)).map_err(because)?);
    }
    let mut off = Vec::new();
    let place = plugins::Place { home: &home, agent: name, homes: &shared.homes };
    let plugins = Plugins::start(&place, settings, summarisers.first().cloned(), &mut off).await;
    let plugins = Arc::new(plugins);
    let (compressor, hard_tokens) = compressor::compressor(settings, summarisers, &plugins);
    let reviewer =
        settings.review.reviewer.as_ref().map(|choice| self::model(choice, &shared.http)).transpose();
    let reviewer = reviewer.context("the model of auxiliary.background_review cannot be used")?;
    let engine = compressor.engine.clone();
    let company_of = (&shared.agents, &shared.homes[..]);
    let equipment = equip::equip(&home, settings, &model, company_of, engine, plugins, off).await;
    let memory = equipment.outside.as_ref().map(|outside| outside.provider.clone());
    let compressor = Compressor { memory, ..compressor };
    let tools = equipment.tools.clone();
    let platforms: Vec<Arc<dyn Platform>> = chats.platforms().chain([bridge as Arc<dyn Platform>]).collect();
    chats.platforms().for_each(|bot| shared.agents.lend(name, bot));
    let host = shared.host.clone();
    let identity = home.identity();
    let restart = move || match host.restart(&identity, RestartScope::Agent) {
        Ok(_) => {}
        Err(why) => tracing::error!(why, "a restart was ordered in a chat, and cannot be"),
    };
    let own = equipment.memory.clone();
    let mut attendant = HostCommandRunner::new(&home, name, &settings.environment, tools, own);
    attendant.overrides = settings.overrides.clone();
    attendant.restart = shared.is_host.then(|| Box::new(restart) as Box<dyn Fn() + Send + Sync>);
    attendant.servers = Some(equipment.mcp.clone());
    attendant.plugins = Some((equipment.plugins.clone(), equipment.gateway_tools.clone()));
    attendant.provider = equipment.outside.clone();
    let parts = Parts {
        reviewer: self::reviewer(settings, reviewer, &equipment),
        host_commands: Arc::new(attendant),
        models: Arc::new(Providers {
            home: home.clone(),
            environment: settings.environment.clone(),
            overrides: settings.overrides.clone(),
            http: shared.http.clone(),
        }),
        ..parts(&store, model.clone(), settings, &equipment, compressor, platforms, shared.ledger.clone())
    };
    let agent =
        Agent::start(parts, options(name, &home, settings, hard_tokens, shared)).await.map_err(because)?;
    equipment.rings_at(agent.api());
    shared.agents.join(name, agent.api());
    if shared.is_host {
        shared.ledger.join(&ledger::name_of(home.path()), name, agent.api());
    }

    let router = throughline_server::router(
        agent.api(),
        surface(name, &home, &key, settings, model.as_ref(), &equipment, shared),
    );
    if let Some(shared_listener) = &shared.shared_listener {
        shared_listener.open(name, router.clone());
    }
    let listener = socket.map(|socket| listen(socket, router)).transpose()?;
    let address = match (&listener, &api_listener) {
        (None, ApiListener::Shared { at, .. }) if name == FRONT => {
            Address { socket: *at, path: String::new() }
        }
        (None, ApiListener::Shared { at, .. }) => Address { socket: *at, path: SharedListener::path(name) },
        (Some(listener), _) => Address { socket: listener.address, path: String::new() },
        (None, ApiListener::Own { .. }) => unreachable!("an API listener of its own has a listener"),
    };
    home.publish_address(&address)?;
    if shared.is_host {
        restart_notice::tell(&home, &settings.platforms, agent.api().as_ref(), SystemClock::new().now())
            .await;
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

pub async fn bind(host: &str, port: u16) -> anyhow::Result<TcpListener> {
    let name = host.trim_matches(['[', ']']);
    let addresses: Vec<SocketAddr> = match tokio::net::lookup_host((name, port)).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => bail!("the API cannot listen on {host}:{port}: {}", unresolved(host, &error)),
    };
    TcpListener::bind(&addresses[..]).await.map_err(|error| unheard(host, port, &error))
}

/// Why the API cannot listen there, and what to do about it.
fn unheard(host: &str, port: u16, error: &std::io::Error) -> anyhow::Error {
    let of_the_port = port_advice(port, error, "--port or API_SERVER_PORT, 8642 for example");
    let advice = of_the_port.unwrap_or_else(|| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            "This machine does not have that address. Set --host or API_SERVER_HOST to 127.0.0.1, or to an address of this \
             machine"
                .to_owned()
        }
        _ => "Choose another address with --host and --port, or with API_SERVER_HOST and API_SERVER_PORT".to_owned(),
    });
    anyhow::anyhow!("the API cannot listen on {host}:{port} ({error}). {advice}")
}

/// What to do about a port that a program cannot listen on. `option` says how another one is chosen.
pub fn port_advice(port: u16, error: &std::io::Error, option: &str) -> Option<String> {
    match error.kind() {
        ErrorKind::PermissionDenied if port < 1024 => Some(format!(
            "Ports below 1024 need rights that this user does not have. Choose another with {option}, and let a proxy listen \
             on this one"
        )),
        ErrorKind::AddrInUse => {
            Some(format!("Another program listens there. Stop it, or choose another port with {option}"))
        }
        _ => None,
    }
}

fn listen(socket: TcpListener, router: throughline_server::Router) -> anyhow::Result<Listener> {
    let address = socket.local_addr().context("the API has no address")?;
    let (close, closed) = oneshot::channel();
    let server =
        tokio::spawn(throughline_server::serve(socket, router, descriptors::listener_limits(), async move {
            let _ = closed.await;
        }));
    Ok(Listener { address, server, close })
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
    let (plugins, servers) = (equipment.plugins.clone(), equipment.servers.clone());
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
        servers: Arc::new(move || cmd::mcp::shown(&servers.status())),
    }
}

/// What the agent is called among those of its process.
pub fn name(home: &Home) -> String {
    home.path().file_name().map_or("main".into(), |name| name.to_string_lossy().into_owned())
}

/// One agent on a port that is free, for as long as a command needs it.
async fn start_for_a_command(
    home: &Home,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<Running> {
    let (name, shared) = (name(home), ProcessShared::of_one(environment));
    let claim = claim(&name, home, settings, &shared)?;
    start(&name, claim, settings, ApiListener::Own { port: Some(0) }, &shared).await
}

impl Running {
    pub fn api(&self) -> Arc<dyn AgentApi> {
        self.agent.api()
    }

    pub fn introduction(&self, plan: Plan) -> Introduction {
        Introduction { plan, address: self.address.clone(), key: self.key.clone(), off: self.off.clone() }
    }

    /// Accepts nothing new, finishes what can be finished in time, and closes the home.
    pub async fn stop(self) -> anyhow::Result<Stopped> {
        let Running { name, key, listening, agent, shared, equipment, listener, drain, home, .. } = self;
        listening.stop().await;
        let server = listener.map(|listener| {
            let _ = listener.close.send(());
            listener.server
        });
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

/// An order from outside to whatever gateways run.
pub fn order(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
    order: impl AsyncFnOnce(Vec<client::Client>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let gateways = gateways(homes, all_profiles, environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(order(gateways))
}

/// Looks at the MCP servers of a home, or speaks for its gateway: for one of its own if none runs.
pub fn mcp(
    command: Mcp,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let serve = match command {
        Mcp::Serve(serve) => serve,
        command => return mcp_servers(command, &home, environment, page, out),
    };
    if home.owner().is_none() {
        home::take_title().context("could not start again under the name that Hermes knows")?;
    }
    let written = Written::read(&home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let (endpoint, own) = match published(&home, &settings)?.filter(|_| home.owner().is_some()) {
            Some(endpoint) => (endpoint, None),
            None => {
                let running = start_for_a_command(&home, &settings, environment).await?;
                (endpoint(&home, &running.address, &running.key), Some(running))
            }
        };
        let key = endpoint.key.clone();
        let code = serve.run(client::Client::new(endpoint)?, &key).await;
        if let Some(running) = own {
            running.stop().await?;
        }
        code
    });
    runtime.shutdown_background();
    code
}

/// What a home's settings say of MCP servers, and what a running gateway says.
fn mcp_servers(
    command: Mcp,
    home: &Home,
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let written = Written::read(home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    let servers = equip::servers::settings(&settings.tools);
    let surroundings = equip::servers::surroundings(home.path(), &settings);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = match command {
        Mcp::List(list) => list.run(&servers, running_servers(home, environment), page, out),
        Mcp::Test(test) => cmd::mcp::named(servers, test.name())
            .and_then(|server| runtime.block_on(test.run(server, surroundings, out))),
        Mcp::Login(login) => cmd::mcp::named(servers, login.name())
            .and_then(|server| runtime.block_on(login.run(server, surroundings, out))),
        Mcp::Serve(_) => unreachable!("taken care of by the caller"),
    };
    runtime.shutdown_background();
    code
}

/// How the MCP servers of a home are doing. None: no gateway runs that could say so.
pub fn running_servers(home: &Home, environment: &Environment) -> Option<serde_json::Value> {
    home.owner()?;
    let written = Written::read(home, environment, Overrides::default()).ok()?;
    let (settings, _) =
        written.map_or_else(|report| report, |written| written.report()).into_settings().ok()?;
    let endpoint = published(home, &settings).ok()??;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let mut standing = runtime.block_on(client::Client::new(endpoint).ok()?.home_status()).ok()?;
    Some(standing["mcp_servers"].take())
}

/// Runs an evaluation, with the model and the plugins of a home where they are asked for.
pub fn evaluate(
    command: Eval,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command.run(&Evaluated { homes, environment }, out))
}

struct Evaluated<'a> {
    homes: &'a [PathBuf],
    environment: &'a Environment,
}

impl Evaluated<'_> {
    fn settings(&self) -> anyhow::Result<(Home, Settings)> {
        let home = existing(self.homes, self.environment)?;
        let written = Written::read(&home, self.environment, Overrides::default())?;
        let (settings, _) =
            written.map_or_else(|report| report, |written| written.report()).into_settings()?;
        Ok((home, settings))
    }
}

impl Surroundings for Evaluated<'_> {
    fn writer(&self) -> anyhow::Result<Arc<dyn Summariser>> {
        let (_, settings) = self.settings()?;
        let http = http();
        let main = model(&settings.model, &http).context("the configured model cannot be used")?;
        let other = settings.compression.summariser.as_ref().map(|choice| model(choice, &http)).transpose();
        let other = other.context("the model of auxiliary.compression cannot be used")?;
        // The offline model rehearses gateways; what it says about a conversation measures nothing.
        if !other.as_ref().unwrap_or(&main).is_real() {
            bail!(
                "no model is configured that could be asked; set one in config.yaml, or use the scripted summariser"
            );
        }
        Ok(compressor::summarisers(&settings, &main, other).remove(0))
    }

    fn plugin<'a>(
        &'a self,
        engine: &'a str,
        writer: Arc<dyn Summariser>,
    ) -> Promise<'a, anyhow::Result<Host>> {
        Box::pin(async move {
            let (home, settings) = self.settings()?;
            let place = plugins::Place { home: &home, agent: "eval", homes: &[] };
            Plugins::with_engine(&place, &settings, engine, writer).await
        })
    }
}

/// What was said in the one home that is meant.
pub fn reader(
    homes: &[PathBuf],
    environment: &Environment,
) -> anyhow::Result<throughline_store::StoreReader> {
    let home = existing(homes, environment)?;
    Ok(throughline_store::Home::at(home.path()).reader()?)
}

/// On the files of a home, whoever has it.
pub fn pairing(
    command: Pairing,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let dotenv = std::fs::read(home.path().join(".env")).unwrap_or_default();
    let dotenv = Dotenv::parse(&dotenv, &|name| environment.get(name));
    let variable = |name: &str| match dotenv.get(name) {
        Some(variable) => Some(variable.value.expose().to_owned()),
        None => environment.get(name),
    };
    command.run(&Pairings::of(home.path()), &variable, SystemClock::new().now(), out)
}

/// In a home of its own, so that it damages none: a copy of what the one that is meant has for its plugins.
fn plugin_check(
    check: cmd::plugin::Check,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let place = tempfile::tempdir().context("there is no place for the plugin to work in")?;
    if homes.is_empty() && check.name().is_none() {
        let empty = cmd::plugin::copied(&place.path().join("nowhere"), place.path())?;
        let checked = check.command(&empty, Vec::new());
        return check.run(checked, out);
    }
    let home = only(homes, environment)?;
    home.refuse_mistyped()?;
    let copy = cmd::plugin::copied(home.path(), place.path())?;
    let untried = format!("what it keeps in {}", home.path().display());
    let by_name = match check.name() {
        Some(name) => {
            let written = Written::read(&home, environment, Overrides::default())?;
            let (mut settings, _) =
                written.map_or_else(|report| report, |written| written.report()).into_settings()?;
            Plugins::checked(&home, &Home::new(&copy, home.chosen_by), &mut settings, name)?
        }
        None => None,
    };
    let checked = match by_name {
        Some((settings, [engine, provider])) => {
            cmd::plugin::Checked { settings, engine, provider, untried: Some(untried) }
        }
        None => {
            let checked = check.command(&copy, vec![home.path().to_owned()]);
            cmd::plugin::Checked { untried: Some(untried).filter(|_| home.path().is_dir()), ..checked }
        }
    };
    check.run(checked, out)
}

/// What is configured, and what a gateway says that runs.
pub fn plugin(
    command: Plugin,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let command = match command {
        Plugin::Check(check) => return plugin_check(check, homes, environment, out),
        Plugin::New(new) => return new.run(out),
        command => command,
    };
    let home = existing(homes, environment)?;
    if let Plugin::Logs(logs) = &command {
        return logs.run(&home, out);
    }
    let written = Written::read(&home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    match command {
        Plugin::Enable(enable) => enable.run(&home, &settings.plugins, out),
        Plugin::Disable(disable) => disable.run(&home, &settings.plugins, out),
        Plugin::List(list) => {
            let endpoint = published(&home, &settings)?.filter(|_| home.owner().is_some());
            let running = match endpoint {
                None => None,
                Some(endpoint) => {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    let standing = runtime.block_on(client::Client::new(endpoint)?.home_status());
                    Some(standing.context("the running gateway does not say how its plugins are doing")?["plugins"].take())
                }
            };
            list.run(&Known { plugins: settings.plugins, running }, page, out)
        }
        Plugin::Check(_) | Plugin::New(_) | Plugin::Logs(_) => unreachable!("taken care of above"),
    }
}

/// On the files of a home, whoever has it: their lock keeps writers apart.
pub fn memory(
    command: Memory,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let command = match command {
        Memory::Jobs(jobs) => {
            let store = reader(homes, environment)?;
            return jobs.run(&store, SystemClock::new().now(), out);
        }
        Memory::Retry(retry) => return retry_memory(&retry, homes, environment, out),
        command => command,
    };
    let home = existing(homes, environment)?;
    let report = match Written::read(&home, environment, Overrides::default())? {
        Ok(written) => written.report(),
        Err(report) => report,
    };
    let (settings, _) = report.into_settings()?;
    let memory = throughline_memory::Memory::new(equip::memory_settings(&home, &settings));
    if let Memory::Status(overview) = command {
        let written = equip::memory_outside(&home, &settings);
        let occupied = home.owner().map(|owner| owner.to_string());
        let not_carried = Vec::new();
        let place = Place { gateway: gateway_of(&home)?, name: String::new(), home, occupied, not_carried };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outside = runtime.block_on(outside_of(&place, written));
        overview.run(&memory, Some(&outside), page, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let order = Order { source: "cli", now: SystemClock::new().now() };
    command.run(&memory, order, page, out)
}

/// By the home's gateway if one runs, else here.
fn retry_memory(
    command: &Retry,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    match held(&home, environment)? {
        Held::There(gateway, runtime) => runtime.block_on(command.there(&gateway, out)),
        Held::Here(mut store, _ownership) => command.here(&mut store, SystemClock::new().now(), out),
    }
}

/// Looks beside a running gateway, and deletes without one.
pub fn prune(
    command: &Prune,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let now = SystemClock::new().now();
    let reader = throughline_store::Home::at(home.path()).reader()?;
    let found = command.look(home.path(), &reader, now)?;
    if !command.deletes() {
        return command.tell(&found, page, out);
    }
    drop(reader);
    if let Some(occupied) = home.owner() {
        bail!("{occupied}. Nothing was deleted: a gateway owns what is in its home");
    }
    match held(&home, environment)? {
        Held::There(..) => {
            bail!("a gateway has just started in {}; nothing was deleted", home.path().display())
        }
        Held::Here(mut store, _ownership) => command.run(home.path(), found, &mut store, now, out),
    }
}

/// Looks beside a running gateway, and deletes without one.
pub fn forget(
    command: &cmd::forget::Forget,
    homes: &[PathBuf],
    environment: &Environment,
    page: &Page,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let reader = throughline_store::Home::at(home.path()).reader()?;
    if command.wants_receipts() {
        return command.show_receipts(&reader, page, out);
    }
    let written = Written::read(&home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    let memory = throughline_memory::Memory::new(equip::memory_settings(&home, &settings));
    let provider = equip::memory_outside(&home, &settings).unwrap_or_default();
    let agent = equip::agent_name(&home);
    let now = SystemClock::new().now();
    let site = cmd::forget::Site {
        home: home.path(),
        memory: &memory,
        provider: provider.as_deref(),
        agent: &agent,
        now,
    };
    let found = command.look(&site, &reader)?;
    drop(reader);
    match &found {
        Some(found) if !command.deletes() => return command.tell(found, out),
        _ => {}
    }
    if let Some(occupied) = home.owner() {
        bail!(
            "{occupied}. Nothing was deleted: a session in flight could write back what is forgotten. Stop the gateway, \
             run this again, and start it"
        );
    }
    match held(&home, environment)? {
        Held::There(..) => {
            bail!("a gateway has just started in {}; nothing was deleted", home.path().display())
        }
        Held::Here(mut store, _ownership) => {
            let code = command.run(found, &site, &mut store, out)?;
            // The lock tells how this process was started, and so who was forgotten.
            home.forget_command_line();
            Ok(code)
        }
    }
}

/// Finishes a forgetting that was interrupted, before anything else is done in the home.
async fn finish_forgetting(
    home: &Home,
    settings: &Settings,
    store: &throughline_store::Home,
    now: Time,
) -> anyhow::Result<()> {
    let Ok(reader) = store.reader() else { return Ok(()) }; // whatever is wrong with it is told when it is opened
    if reader.unfinished_forgettings()?.is_empty() {
        return Ok(());
    }
    drop(reader);
    let memory = throughline_memory::Memory::new(equip::memory_settings(home, settings));
    let (path, store) = (home.path().to_owned(), store.clone());
    let work = tokio::task::spawn_blocking(move || {
        let mut writer = store.writer(now)?;
        let open = crate::forget::carry_out_all(&path, &memory, &mut writer)?;
        match crate::forget::scrub(&open, &mut writer, now) {
            Ok(()) => tracing::info!(finished = open.len(), "finished a forgetting that was interrupted"),
            // A program that only reads keeps no gateway from starting: the next start tries again.
            Err(StoreError::Busy) => tracing::warn!(
                "what was forgotten is deleted, but still in free parts of state.db: another program has it open. Close \
                 it and start the gateway again, or run `throughline forget --resume` while it is stopped"
            ),
            Err(error) => return Err(error.into()),
        }
        writer.close(now)?;
        Ok(())
    });
    work.await?
}

/// A home that is about to be written to.
enum Held {
    There(client::Client, tokio::runtime::Runtime),
    Here(throughline_store::StoreWriter, Ownership),
}

fn held(home: &Home, environment: &Environment) -> anyhow::Result<Held> {
    let mut store = throughline_store::Home::at(home.path());
    let written = Written::read(home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    if let Some(occupied) = home.owner() {
        let endpoint = published(home, &settings)?.filter(|_| home.address().is_some());
        let Some(endpoint) = endpoint else { bail!(occupied) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return Ok(Held::There(client::Client::new(endpoint)?, runtime));
    }
    let ownership = home.own(env!("CARGO_PKG_VERSION"))?;
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    Ok(Held::Here(store.writer(SystemClock::new().now())?, ownership))
}

/// By the home's gateway if one runs, else here, where nobody else has the home meanwhile.
pub fn restore(
    command: &Restore,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = existing(homes, environment)?;
    let reader = throughline_store::Home::at(home.path()).reader()?;
    command.meant(&reader)?; // before anything else is looked at
    match held(&home, environment)? {
        Held::There(gateway, runtime) => runtime.block_on(command.there(&reader, &gateway, out)),
        Held::Here(mut store, _ownership) => {
            drop(reader);
            command.here(&mut store, SystemClock::new().now(), out)
        }
    }
}

/// A chat with the home's gateway; with one of its own, for as long as it lasts, if there is none.
pub fn chat(command: Chat, homes: &[PathBuf], environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
    home.refuse_mistyped()?;
    if home.owner().is_none() {
        home::take_title().context("could not start again under the name that Hermes knows")?;
    }
    let written = Written::read(&home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    let configured = published(&home, &settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut own = None;
        let begin = async || {
            let running = start_for_a_command(&home, &settings, environment).await?;
            let endpoint = endpoint(&home, &running.address, &running.key);
            own = Some(running);
            Ok(endpoint)
        };
        let code = command.run(home.path(), configured, begin).await;
        if let Some(running) = own {
            // Whoever does not want to wait for a slow turn need not: it goes on at the next start.
            tokio::select! {
                stopped = running.stop() => stopped.map(|_| ())?,
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        code
    });
    runtime.shutdown_background();
    code
}

/// Where a gateway of this home would answer. None: it has no key yet, so none has ever run.
fn published(home: &Home, settings: &Settings) -> anyhow::Result<Option<client::Endpoint>> {
    let api = &settings.api;
    let key = match &api.key {
        Some(key) => Some(key.value.clone()),
        None => home.key()?,
    };
    Ok(key.map(|key| match home.address() {
        Some(address) => endpoint(home, &address, &key),
        None => client::Endpoint::at(&api.host.value, api.port.value, key, home.identity()),
    }))
}

fn endpoint(home: &Home, address: &Address, key: &Secret) -> client::Endpoint {
    let (host, port) = (address.socket.ip().to_string(), address.socket.port());
    let mut endpoint = client::Endpoint::at(&host, port, key.clone(), home.identity());
    endpoint.url.push_str(&address.path);
    endpoint
}

/// The one home that is meant, which is there.
pub fn existing(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Home> {
    let home = only(homes, environment)?;
    home.refuse_absent()?;
    Ok(home)
}

/// The one home that is meant, which need not be there yet.
pub fn only(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Home> {
    let mut homes = home::choose(homes, &|name| environment.get(name))?;
    match (homes.pop(), homes.is_empty()) {
        (Some(home), true) => Ok(home),
        _ => bail!("this command looks at one home; give --home once"),
    }
}

fn parts(
    store: &throughline_store::Home,
    model: Arc<dyn Model>,
    settings: &Settings,
    equipment: &Equipment,
    compressor: Compressor,
    platforms: Vec<Arc<dyn Platform>>,
    ledger: Arc<SharedLedger>,
) -> Parts {
    let clock = Arc::new(SystemClock::new());
    let (writing, reading, time) = (store.clone(), store.clone(), clock.clone());
    let opened = std::sync::OnceLock::new();
    Parts {
        clock,
        model,
        tools: equipment.tools.clone(),
        gateway_tools: equipment.gateway_tools.clone(),
        prompts: equipment.prompts.clone(),
        compressor,
        memory: equipment.outside.clone(),
        reviewer: Reviewer::default(),
        hooks: equipment.hooks.clone(),
        platforms,
        host_commands: Arc::new(NoClerk),
        models: Arc::new(OneModel),
        ledger,
        mint: mint(settings),
        open: Box::new(move || {
            let writer = match opened.get() {
                None => writing.writer(time.now()),
                Some(file) => writing.writer_of(*file, time.now()),
            };
            let writer = writer.map_err(|error| broken("open the store", error))?;
            if let Some(file) = writer.file() {
                opened.get_or_init(|| file);
            }
            Ok(Box::new(writer) as Box<dyn Store>)
        }),
        readers: Some(Box::new(move || {
            let reader = reading.reader().map_err(|error| broken("open a reader of the store", error))?;
            Ok(Box::new(reader) as Box<dyn Read>)
        })),
    }
}

fn options(
    name: &str,
    home: &Home,
    settings: &Settings,
    hard_tokens: Option<u64>,
    shared: &ProcessShared,
) -> Options {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let limits = Limits {
        steps_max: small(settings.steps_max.value),
        turn_tokens_max: settings.turn_tokens_max.as_ref().map(|max| max.value),
        chain: settings.chain.clone(),
    };
    Options {
        rules: Rules {
            busy: settings.busy_input.value,
            hard_tokens,
            limits,
            agent: name.into(),
            home: ledger::name_of(home.path()).into(),
            review: intervals(settings),
            ..Rules::default()
        },
        reasoning: settings.reasoning_effort.as_ref().map(|effort| effort.value.clone()),
        recollects: settings.recollects.value && !matches!(settings.model, ModelChoice::Rehearsal),
        administrators: administrators(settings),
        owners: equip::people::owners(home, settings),
        lifecycle: lifecycle(settings),
        writer_thread: true,
        cached: shared.cached.clone(),
    }
}

/// Hermes' `allow_admin_from`, of every platform. Where nobody is named, nobody is one.
fn administrators(settings: &Settings) -> Vec<(String, String)> {
    let named = settings.platforms.all.iter().flat_map(|platform| {
        platform.access.orders.direct.admins.iter().map(|user| (platform.name.clone(), user.clone()))
    });
    named.collect()
}

/// When conversations are looked back at. The offline model has no use for it.
fn intervals(settings: &Settings) -> Intervals {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    match settings.model {
        ModelChoice::Rehearsal => Intervals::default(),
        ModelChoice::OpenAi(_) | ModelChoice::Anthropic(_) => {
            let Review { turns, steps, .. } = &settings.review;
            Intervals { turns: small(turns.value), steps: small(steps.value) }
        }
    }
}

fn reviewer(settings: &Settings, model: Option<Arc<dyn Model>>, equipment: &Equipment) -> Reviewer {
    let notice = |word: &str| match word {
        "off" => Notice::Off,
        "verbose" => Notice::Verbose,
        _ => Notice::On,
    };
    let Review { notices, notices_of, .. } = &settings.review;
    let of_platforms = notices_of.iter().map(|(platform, word)| (platform.clone(), notice(word))).collect();
    let notices = Notices { usual: notice(&notices.value), of_platforms };
    Reviewer::new(model, notices, equipment.fills.clone())
}

/// When conversations end by themselves, by the clock on the wall.
fn lifecycle(settings: &Settings) -> Lifecycle {
    let zone = zone(settings);
    let struck = Arc::new(move |now, hour| local::last_struck(now, hour, &zone));
    // Without any pause nobody would do anything else.
    let watch = Duration::from_secs(settings.expiry_watch.value.max(1));
    Lifecycle { watch, ..Lifecycle::new(settings.session_reset.policies.clone(), struck) }
}

fn zone(settings: &Settings) -> TimeZone {
    let named = settings.timezone.as_ref().and_then(|zone| TimeZone::get(&zone.value).ok());
    named.unwrap_or_else(local::system_zone)
}

/// The gateways that run: of the homes that are given, or of those that people usually have.
pub fn gateways(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
) -> anyhow::Result<Vec<client::Client>> {
    let mut found: Vec<client::Client> = Vec::new();
    for (_, home) in meant(homes, all_profiles, environment)? {
        let Some(client) = gateway_of(&home)? else { continue };
        // Two homes may have left the same address behind: one of them has its gateway there.
        if !found.iter().any(|known| (known.address(), known.home()) == (client.address(), client.home())) {
            found.push(client);
        }
    }
    Ok(found)
}

/// The homes that an order or a question is for, by name: those given, else all that people usually have.
fn meant(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
) -> anyhow::Result<Vec<(String, Home)>> {
    let variable = |name: &str| environment.get(name);
    let chosen = home::choose(homes, &variable)?;
    chosen.iter().try_for_each(Home::refuse_mistyped)?;
    let usual = if homes.is_empty() { home::usual(&variable) } else { Vec::new() };
    let mut found: Vec<(String, Home)> = Vec::new();
    for home in chosen.into_iter().chain(usual) {
        // A root whose gateway serves its profiles is all of them.
        let profiles = home::profiles(&home)?;
        let several = all_profiles || (profiles.len() > 1 && profiles[0].1 == home);
        let named = if several { profiles } else { vec![(name(&home), home)] };
        for (name, home) in named {
            if !found.iter().any(|(_, known)| known.path() == home.path()) {
                found.push((name, home));
            }
        }
    }
    // Two homes may have one name; what is shown of them is not the same then.
    let shared = |name: &str| found.iter().filter(|(other, _)| other == name).count() > 1;
    let homes: Vec<Home> =
        found.iter().filter(|(name, _)| shared(name)).map(|(_, home)| home.clone()).collect();
    let labels = home::labels(&homes);
    for (name, home) in &mut found {
        if let Some(nth) = homes.iter().position(|other| other.path() == home.path()) {
            name.clone_from(&labels[nth]);
        }
    }
    Ok(found)
}

pub fn gateway_of(home: &Home) -> anyhow::Result<Option<client::Client>> {
    match (home.address(), home.key()) {
        (Some(address), Ok(Some(key))) => client::Client::new(endpoint(home, &address, &key)).map(Some),
        _ => Ok(None),
    }
}

/// A question about every home that is meant, to its gateway or to its files.
pub fn look(
    homes: &[PathBuf],
    all_profiles: bool,
    environment: &Environment,
    look: impl AsyncFnOnce(Vec<Place>, Time) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let mut places = Vec::new();
    for (name, home) in meant(homes, all_profiles, environment)? {
        if home.chosen_by == ChosenBy::Default && !home.path().exists() {
            continue; // no agent was ever begun in the place that is looked at unasked
        }
        home.refuse_absent()?;
        let occupied = home.owner().map(|owner| owner.to_string());
        // A file that cannot be read is for `config check` and the start to say.
        let written = Written::read(&home, environment, Overrides::default()).ok().and_then(Result::ok);
        let not_carried = written.and_then(|written| written.report().settings);
        let not_carried = not_carried.map(|settings| settings.not_carried).unwrap_or_default();
        places.push(Place { gateway: gateway_of(&home)?, name, home, occupied, not_carried });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(look(places, SystemClock::new().now()))
}

/// Ids as Hermes makes them: by the clock on the wall, and told apart by where a session comes from.
fn mint(settings: &Settings) -> Mint {
    let zone = zone(settings);
    Arc::new(move |now, chance, source| {
        let [a, b, c, d, ..] = chance.to_le_bytes();
        match source {
            "api_server" => id::api_id(now, [a, b, c, d]),
            "cli" | "branch" => id::child_id(now, &zone, [a, b, c]),
            "background" => id::background_id(now, &zone, [a, b, c]),
            _ => id::gateway_id(now, &zone, [a, b, c, d]),
        }
    })
}

pub fn now() -> Time {
    SystemClock::new().now()
}

/// The way to models, which agents of one process share.
pub fn http() -> Client {
    Client::new(throughline_net::ClientSettings::default())
}

/// As long as the user has said. Nobody waits for a piece of an answer longer than for all of it.
fn patience(usual: Timeouts, written: &ModelTimeouts) -> Timeouts {
    // A day is as good as for ever, and no number of seconds is too large for a clock.
    let seconds = |written: &Sourced<f64>| Duration::from_secs_f64(written.value.clamp(1.0, 86_400.0));
    let whole = written.request.as_ref().map(seconds);
    let piece = written.stale.as_ref().map(seconds);
    let whole = whole.unwrap_or(usual.whole.max(piece.unwrap_or_default()));
    Timeouts {
        whole,
        first_byte: piece.unwrap_or(usual.first_byte).min(whole),
        silence: piece.unwrap_or(usual.silence).min(whole),
        ..usual
    }
}

pub fn model(choice: &ModelChoice, http: &Client) -> anyhow::Result<Arc<dyn Model>> {
    let client = match choice {
        ModelChoice::Rehearsal => http.clone(),
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
            http.waiting(patience(http.timeouts(), &endpoint.timeouts))
        }
    };
    let headers = |endpoint: &Endpoint| {
        endpoint.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
    };
    let key = |endpoint: &Endpoint| endpoint.key.as_ref().map(|key| key.value.clone());
    let max_tokens =
        |endpoint: &Endpoint| endpoint.max_tokens.as_ref().and_then(|max| u32::try_from(max.value).ok());
    Ok(match choice {
        ModelChoice::Rehearsal => Arc::new(rehearsal()?),
        ModelChoice::OpenAi(endpoint) => Arc::new(OpenAi::new(
            OpenAiConfig {
                key: key(endpoint),
                key_name: endpoint.key_name.clone(),
                headers: headers(endpoint),
                max_tokens: max_tokens(endpoint),
                ..OpenAiConfig::new(&endpoint.base_url.value, &endpoint.model.value)
            },
            client,
        )?),
        ModelChoice::Anthropic(endpoint) => {
            let usual = AnthropicConfig::new(&endpoint.base_url.value, &endpoint.model.value);
            let max_tokens = max_tokens(endpoint).unwrap_or(usual.max_tokens);
            let config = AnthropicConfig {
                key: key(endpoint),
                key_name: endpoint.key_name.clone(),
                headers: headers(endpoint),
                max_tokens,
                ..usual
            };
            Arc::new(Anthropic::new(config, client)?)
        }
    })
}

/// The offline model. Tests of the whole binary script it with `THROUGHLINE_REHEARSAL` (a file, see
/// `throughline_models::rehearsal`), and read what it was asked from `THROUGHLINE_REHEARSAL_LOG`.
fn rehearsal() -> anyhow::Result<Rehearsal> {
    let rehearsal = match std::env::var_os("THROUGHLINE_REHEARSAL") {
        Some(path) => {
            let shown = path.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {shown}"))?;
            Rehearsal::scripted(RehearsalScript::from_json(&text).with_context(|| shown)?)
        }
        None => Rehearsal::new(),
    };
    let Some(path) = std::env::var_os("THROUGHLINE_REHEARSAL_LOG") else { return Ok(rehearsal) };
    let log = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let log =
        std::sync::Mutex::new(log.with_context(|| format!("could not write {}", path.to_string_lossy()))?);
    Ok(rehearsal.watched_by(move |request| {
        let line = format!("{}\n", request.to_json());
        let _ = log.lock().map(|mut log| log.write_all(line.as_bytes()));
    }))
}

fn broken(doing: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Broken { doing, source: Box::new(error) }
}

/// What a person should read: the cause, where the outer words only say that there is one.
fn because(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Broken { source, .. } => anyhow::Error::from_boxed(source),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn nobody_waits_for_a_piece_of_an_answer_longer_than_for_all_of_it() {
        let usual = Timeouts::default();
        let waited = |request: Option<f64>, stale: Option<f64>| {
            let written = |seconds: f64| Sourced { value: seconds, origin: Origin::Environment };
            let timeouts = ModelTimeouts { request: request.map(written), stale: stale.map(written) };
            let Timeouts { first_byte, silence, whole, .. } = patience(usual, &timeouts);
            [first_byte, silence, whole].map(|time| time.as_secs())
        };
        assert_eq!(waited(None, None), [600, 300, 3600]);
        assert_eq!(waited(Some(60.0), None), [60, 60, 60]);
        assert_eq!(waited(Some(900.0), Some(20.0)), [20, 20, 900]);
        assert_eq!(waited(None, Some(7200.0)), [7200, 7200, 7200]);
        assert_eq!(waited(Some(1e300), Some(0.001)), [1, 1, 86_400]);
    }
}
