//! Puts the parts together: a home, its model, its store, its door. No logic.

use crate::client;
use crate::cmd::chat::Chat;
use crate::cmd::eval::Eval;
use crate::cmd::mcp::Mcp;
use crate::cmd::pairing::Pairing;
use crate::cmd::sessions::snapshots::Restore;
use crate::config::{Endpoint, Environment, ModelChoice, Overrides, Settings, Written};
use crate::equip::{self, Equipment, compressor};
use crate::home::{self, Home, Ownership};
use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::guard::Limits;
use throughline_core::port::{Model, Read, Store, StoreError};
use throughline_core::redact::Secret;
use throughline_core::session::Rules;
use throughline_gateway::{
    Agent, Agents, Bridge, Clock, Compressor, Mint, Options, Parts, Stopped, SystemClock,
};
use throughline_hermes::env::Dotenv;
use throughline_hermes::{id, local};
use throughline_models::{Anthropic, AnthropicConfig, OpenAi, OpenAiConfig, Rehearsal, Script};
use throughline_net::Client;
use throughline_platforms::Pairings;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long open responses may take to end once their turns have.
const RESPONSES_END: Duration = Duration::from_secs(2);

/// One agent at work, and its API.
pub struct Running {
    pub address: SocketAddr,
    pub key: Secret,
    /// What is off although it is built in, and why.
    pub off: Vec<String>,
    agent: Agent,
    agents: Arc<Agents>,
    equipment: Equipment,
    server: JoinHandle<std::io::Result<()>>,
    close_door: oneshot::Sender<()>,
    drain: Duration,
    home: Home,
    _ownership: Ownership,
}

/// Where agents of one process find each other, and whose homes they must not touch.
#[derive(Clone, Default)]
pub struct Company {
    pub agents: Arc<Agents>,
    pub homes: Vec<PathBuf>,
}

/// Takes the home and begins to work. `port` overrides the one that is configured.
pub async fn start(
    home: &Home,
    settings: &Settings,
    port: Option<u16>,
    company: &Company,
) -> anyhow::Result<Running> {
    home.prepare()?;
    let ownership = home.own(env!("CARGO_PKG_VERSION"))?;
    let key = match &settings.api.key {
        Some(key) => home.keep_key(key.value.clone())?,
        None => home.key_or_new()?,
    };
    let host = settings.api.host.value.as_str();
    let port = port.unwrap_or(settings.api.port.value);
    let listener = TcpListener::bind((host.trim_matches(['[', ']']), port)).await.with_context(|| {
        format!("the API cannot listen on {host}:{port}; set API_SERVER_PORT to another port, or stop what uses this one")
    })?;
    let address = listener.local_addr().context("the API has no address")?;

    let model = model(&settings.model).context("the configured model cannot be used")?;
    let mut store = throughline_store::Home::at(home.path());
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    let clock = Arc::new(SystemClock::new());
    let name = name(home);
    let bridge = Arc::new(Bridge::new(name.as_str().into(), company.agents.clone()));
    let summariser = settings.compression.summariser.as_ref().map(self::model).transpose();
    let summariser = summariser.context("the model of auxiliary.compression cannot be used")?;
    let (compressor, hard_tokens) = compressor::compressor(settings, &model, summariser);
    let engine = compressor.engine.clone();
    let equipment = equip::equip(home, settings, &model, &company.agents, &company.homes, engine).await;
    let parts = parts(&store, clock, model.clone(), settings, &equipment, compressor, bridge);
    let agent = Agent::start(parts, options(&name, settings, hard_tokens)).await.map_err(because)?;
    equipment.rings_at(agent.desk());
    company.agents.join(&name, agent.desk());

    let surface = throughline_server::Options {
        api_key: key.expose().to_owned(),
        body_bytes_max: usize::try_from(settings.api.body_limit_bytes.value).unwrap_or(usize::MAX),
        model: model.name().to_owned(),
        agent: name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        keep_alive: throughline_server::KEEP_ALIVE,
        neighbours: {
            let agents = company.agents.clone();
            Arc::new(move || agents.all())
        },
    };
    let (close_door, door_closed) = oneshot::channel();
    let router = throughline_server::router(agent.desk(), surface);
    let server = tokio::spawn(throughline_server::serve(listener, router, async move {
        let _ = door_closed.await;
    }));
    home.publish_address(address)?;
    let drain = settings.drain.value;
    Ok(Running {
        address,
        key,
        off: equipment.off.clone(),
        agent,
        agents: company.agents.clone(),
        equipment,
        server,
        close_door,
        drain,
        home: home.clone(),
        _ownership: ownership,
    })
}

/// What the agent is called among those of its process.
pub fn name(home: &Home) -> String {
    home.path().file_name().map_or("main".into(), |name| name.to_string_lossy().into_owned())
}

impl Running {
    /// Accepts nothing new, finishes what can be finished in time, and closes the home.
    pub async fn stop(self) -> anyhow::Result<Stopped> {
        let Running { agent, agents, equipment, mut server, close_door, drain, home, .. } = self;
        let _ = close_door.send(());
        agents.leave(&name(&home));
        let stopped = agent.stop(drain).await.map_err(because)?;
        equipment.servers.stop().await;
        if tokio::time::timeout(RESPONSES_END, &mut server).await.is_err() {
            server.abort(); // a client that does not read its answer can ask for it again
        }
        home.withdraw_address();
        Ok(stopped)
    }
}

/// An order from outside to whatever gateways run.
pub fn order(
    homes: &[PathBuf],
    environment: &Environment,
    order: impl AsyncFnOnce(Vec<client::Client>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let gateways = gateways(homes, environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(order(gateways))
}

/// Speaks for the home's gateway; for one of its own if none runs.
pub fn mcp(command: Mcp, homes: &[PathBuf], environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
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
                let running = start(&home, &settings, Some(0), &Company::default()).await?;
                (endpoint(running.address, &running.key), Some(running))
            }
        };
        let code = command.run(client::Client::new(endpoint)?).await;
        if let Some(running) = own {
            running.stop().await?;
        }
        code
    });
    runtime.shutdown_background();
    code
}

/// Runs an evaluation, with the model of a home where one is asked for.
pub fn evaluate(
    command: Eval,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let configured = || {
        let home = only(homes, environment)?;
        let written = Written::read(&home, environment, Overrides::default())?;
        let (settings, _) =
            written.map_or_else(|report| report, |written| written.report()).into_settings()?;
        model(&settings.model).context("the configured model cannot be used")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command.run(&configured, out))
}

/// What was said in the one home that is meant.
pub fn reader(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<throughline_store::Reader> {
    let home = only(homes, environment)?;
    Ok(throughline_store::Home::at(home.path()).reader()?)
}

/// On the files of a home, whoever has it.
pub fn pairing(
    command: Pairing,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
    home.refuse_other_than_directory()?;
    let dotenv = std::fs::read(home.path().join(".env")).unwrap_or_default();
    let dotenv = Dotenv::parse(&dotenv, &|name| environment.get(name));
    let variable = |name: &str| match dotenv.get(name) {
        Some(variable) => Some(variable.value.expose().to_owned()),
        None => environment.get(name),
    };
    command.run(&Pairings::of(home.path()), &variable, SystemClock::new().now(), out)
}

/// By the home's gateway if one runs, else here, where nobody else has the home meanwhile.
pub fn restore(
    command: &Restore,
    homes: &[PathBuf],
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
    let mut store = throughline_store::Home::at(home.path());
    let reader = store.reader()?;
    command.meant(&reader)?; // before anything else is looked at
    let written = Written::read(&home, environment, Overrides::default())?;
    let (settings, _) = written.map_or_else(|report| report, |written| written.report()).into_settings()?;
    if let Some(occupied) = home.owner() {
        let endpoint = published(&home, &settings)?.filter(|_| home.address().is_some());
        let Some(endpoint) = endpoint else { bail!(occupied) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(command.there(&reader, &client::Client::new(endpoint)?, out));
    }
    drop(reader);
    let _ownership = home.own(env!("CARGO_PKG_VERSION"))?;
    if settings.allow_unsafe_filesystem.value {
        store.filesystem = throughline_store::FileSystem::Trusted;
    }
    let now = SystemClock::new().now();
    command.here(&mut store.writer(now)?, now, out)
}

/// A chat with the home's gateway; with one of its own, for as long as it lasts, if there is none.
pub fn chat(command: Chat, homes: &[PathBuf], environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = only(homes, environment)?;
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
            let running = start(&home, &settings, Some(0), &Company::default()).await?;
            let endpoint = endpoint(running.address, &running.key);
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
        Some(address) => endpoint(address, &key),
        None => client::Endpoint::at(&api.host.value, api.port.value, key),
    }))
}

fn endpoint(address: SocketAddr, key: &Secret) -> client::Endpoint {
    client::Endpoint::at(&address.ip().to_string(), address.port(), key.clone())
}

fn only(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Home> {
    let mut homes = home::choose(homes, &|name| environment.get(name))?;
    match (homes.pop(), homes.is_empty()) {
        (Some(home), true) => Ok(home),
        _ => bail!("this command looks at one home; give --home once"),
    }
}

fn parts(
    store: &throughline_store::Home,
    clock: Arc<SystemClock>,
    model: Arc<dyn Model>,
    settings: &Settings,
    equipment: &Equipment,
    compressor: Compressor,
    bridge: Arc<Bridge>,
) -> Parts {
    let (writing, reading, time) = (store.clone(), store.clone(), clock.clone());
    Parts {
        clock,
        model,
        tools: equipment.tools.clone(),
        hands: equipment.hands.clone(),
        briefing: equipment.briefing.clone(),
        compressor,
        platforms: vec![bridge],
        mint: mint(settings),
        open: Box::new(move || {
            let writer = writing.writer(time.now()).map_err(|error| broken("open the store", error))?;
            Ok(Box::new(writer) as Box<dyn Store>)
        }),
        readers: Some(Box::new(move || {
            let reader = reading.reader().map_err(|error| broken("open a reader of the store", error))?;
            Ok(Box::new(reader) as Box<dyn Read>)
        })),
    }
}

fn options(name: &str, settings: &Settings, hard_tokens: Option<u64>) -> Options {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let limits = Limits {
        steps_max: small(settings.steps_max.value),
        turn_tokens_max: settings.turn_tokens_max.as_ref().map(|max| max.value),
        hops_max: small(settings.hops_max.value),
        ..Limits::default()
    };
    Options {
        rules: Rules { busy: settings.busy_input.value, hard_tokens, limits, agent: name.into() },
        writer_thread: true,
    }
}

/// The gateways that run: of the homes that are given, or of those that people usually have.
pub fn gateways(homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Vec<client::Client>> {
    let variable = |name: &str| environment.get(name);
    let chosen = home::choose(homes, &variable)?;
    let usual = if homes.is_empty() { home::usual(&variable) } else { Vec::new() };
    let mut found: Vec<client::Client> = Vec::new();
    for home in chosen.into_iter().chain(usual) {
        let (Some(address), Ok(Some(key))) = (home.address(), home.key()) else { continue };
        let client = client::Client::new(endpoint(address, &key))?;
        if !found.iter().any(|known| known.address() == client.address()) {
            found.push(client);
        }
    }
    Ok(found)
}

/// Ids as Hermes makes them: by the clock on the wall, and told apart by where a session comes from.
fn mint(settings: &Settings) -> Mint {
    let named = settings.timezone.as_ref().and_then(|zone| TimeZone::get(&zone.value).ok());
    let zone = named.unwrap_or_else(local::system_zone);
    Arc::new(move |now, chance, source| {
        let [a, b, c, d, ..] = chance.to_le_bytes();
        match source {
            "api_server" => id::api_id(now, [a, b, c, d]),
            "cli" => id::child_id(now, &zone, [a, b, c]),
            _ => id::gateway_id(now, &zone, [a, b, c, d]),
        }
    })
}

fn model(choice: &ModelChoice) -> anyhow::Result<Arc<dyn Model>> {
    let client = Client::new(throughline_net::Settings::default());
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
            Rehearsal::scripted(Script::from_json(&text).with_context(|| shown)?)
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
