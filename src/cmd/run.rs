//! `throughline`: the gateway itself, for one agent or for many.
//!
//! Homes that are given by name must all start: a user who names them means them. With `--all-profiles`,
//! or where the root's settings say so (`gateway.multiplex_profiles`), each profile stands for itself:
//! one that cannot start is named and tried again, and the others run. They share one listener, the
//! root's: each answers under `/p/<name>/`, the root also without. A profile whose own files say another
//! port answers there as well.

use crate::cmd::memory::InChat;
use crate::out::RedactedStderr;
use crate::signal::Stop;
use crate::wire;
use anyhow::{Context, bail};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use throughline_app::agent::{self, ApiListener, ProcessShared};
use throughline_app::descriptors;
use throughline_app::host::{
    self, AgentIntroduction, Candidate, Ending, FirstAttempt, Host, HostedAgents, StartPlan,
};
use throughline_app::ledger::SharedLedger;
use throughline_app::logs::{Logs, ModelSummariser};
use throughline_app::notify::{Notify, ServiceNews};
use throughline_app::token::Tokens;
use throughline_app::{http_listener, models};
use throughline_core::redact::Secret;
use throughline_gateway::Agents;
use throughline_home::config::{Environment, ModelChoice, Origin, Overrides, Remark, Settings, in_a_line};
use throughline_home::home::{self, Address, Home};
use throughline_server::{AbsentAgent, SharedListener};
use tokio::sync::oneshot;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Run the gateway (the default)
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Run {
    /// The model to ask, instead of the configured one
    #[arg(long)]
    model: Option<String>,
    /// Where the API listens: an address of this machine
    #[arg(long)]
    host: Option<String>,
    /// Where the API listens: a number from 1 to 65535; 0 takes one that is free
    #[arg(long, value_parser = super::port)]
    port: Option<u16>,
    /// What is logged: error, warn, info, debug, trace, or a filter for modules
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
}

/// Where the log says what the standard error hears anyway, as the last words of the process.
const LAST_WORDS: &str = "throughline::last_words";

/// Hermes' code for "start me again", from sysexits.h: a temporary failure.
const RESTART_CODE: u8 = 75;
/// What a supervisor that restarts us on that code may set, if it is not systemd.
const SUPERVISED: &str = "THROUGHLINE_SUPERVISED";

/// What is to be run, and how the agents stand to each other.
struct Assembly {
    candidates: Vec<Candidate>,
    /// What was read to decide it, of the first.
    first: anyhow::Result<StartPlan>,
    /// Each stands for itself, and they share a listener.
    profiles: bool,
}

impl Run {
    pub fn run(
        self,
        homes: &[PathBuf],
        all_profiles: bool,
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let began = Instant::now();
        home::take_title().context("could not start again under the name that Hermes knows")?;
        let assembly = self.assemble(homes, all_profiles, environment)?;
        let logs = Logs::start().context("could not start the thread that writes the logs")?;
        let filter = self.filter(assembly.first.as_ref().ok());
        log(&filter, &logs, assembly.candidates.len() > 1);
        // A reader of the log has to know where one process ends and the next begins.
        tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "throughline started");
        descriptors::raise_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(self.serve(assembly, environment, &logs, began, out));
        runtime.shutdown_background(); // what still waits for a model is on disk
        if let Err(error) = &ended {
            tracing::error!(target: LAST_WORDS, "{error:#}");
        }
        logs.flush();
        match ended? {
            Ended::Stopped { clean } => Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
            Ended::Restart if is_supervised(environment) => Ok(ExitCode::from(RESTART_CODE)),
            Ended::Restart => Err(home::begin_anew()).context("could not start again; start it by hand"),
        }
    }

    fn overrides(&self) -> Overrides {
        Overrides {
            model: self.model.clone(),
            host: self.host.clone(),
            port: self.port,
            log_level: self.log_level.clone(),
        }
    }

    fn assemble(
        &self,
        homes: &[PathBuf],
        all_profiles: bool,
        environment: &Environment,
    ) -> anyhow::Result<Assembly> {
        let mut homes = home::choose(homes, &|name| environment.get(name))?;
        if all_profiles && homes.len() > 1 {
            bail!("--all-profiles takes one home, the root; give --home once");
        }
        if homes.len() > 1 {
            if self.port.is_some() {
                bail!("--port cannot be the port of several homes; set API_SERVER_PORT in each home's .env");
            }
            let first = plan(&homes[0], environment, self.overrides());
            let names = home::labels(&homes);
            let candidates =
                names.into_iter().zip(homes.drain(..)).map(|(name, home)| Candidate { name, home }).collect();
            return Ok(Assembly { candidates, first, profiles: false });
        }
        let home = homes.remove(0);
        let first = plan(&home, environment, self.overrides());
        let multiplexed = first.as_ref().is_ok_and(|plan| plan.settings.multiplex_profiles.value);
        if !all_profiles && !multiplexed {
            let candidates = vec![Candidate { name: home.name(), home }];
            return Ok(Assembly { candidates, first, profiles: false });
        }
        let root = home::profiles(&home)?;
        if !root[0].1.path().is_dir() {
            bail!(
                "{} does not exist, so it has no profiles; give the root with --home",
                root[0].1.path().display()
            );
        }
        let first = match root[0].1 == home {
            true => first,
            false => plan(&root[0].1, environment, self.overrides()),
        };
        let candidates = root.into_iter().map(|(name, home)| Candidate { name, home }).collect();
        Ok(Assembly { candidates, first, profiles: true })
    }

    /// What goes to the standard error.
    fn filter(&self, first: Option<&StartPlan>) -> String {
        let written = first.map(|plan| plan.settings.log_level.value.clone());
        written.or_else(|| self.log_level.clone()).unwrap_or_else(|| "info".to_owned())
    }

    async fn serve(
        self,
        assembly: Assembly,
        environment: &Environment,
        logs: &Arc<Logs>,
        began: Instant,
        out: &mut dyn Write,
    ) -> anyhow::Result<Ended> {
        let mut stopped = Stop::listen()?;
        let notify = Arc::new(Notify::new(&|name| environment.get(name)));
        let Assembly { candidates, first, profiles } = assembly;
        let hosted = HostedAgents::new(&candidates);
        let shared = match profiles {
            true => Some(
                self.share(first.as_ref().ok().map(|plan| &plan.settings), &candidates, environment).await?,
            ),
            false => None,
        };
        let process = ProcessShared {
            is_host: true,
            homes: candidates.iter().map(|candidate| candidate.home.path().to_owned()).collect(),
            agents: Arc::new(Agents::expecting(crew_names(&candidates))),
            tokens: Arc::new(Tokens::new(environment)),
            ledger: SharedLedger::new(environment),
            cached: Arc::default(),
            http: models::http(),
            shared_listener: shared.as_ref().map(|shared| shared.shared_listener.clone()),
            host: hosted.clone(),
            upkeep: wire::upkeep(),
            memory_commands: Arc::new(InChat),
        };
        let api_listener = api_listeners(&candidates, shared.as_ref().map(|shared| shared.at));
        let (reading, overrides) = (environment.clone(), self.overrides());
        let read = move |home: &Home| plan(home, &reading, overrides.clone());
        let host = Host::new(hosted.clone(), process, logs.clone(), read, api_listener, profiles);
        let heart = tokio::spawn(host::heartbeat(hosted.clone(), notify.clone()));
        let (kept, first) = host.keep(candidates);
        let started = tokio::select! {
            started = first.all() => Some(started),
            () = stopped.asked() => None, // those that run already are stopped like any other
        };
        let ending = match started {
            None => Ending::Stop,
            Some(mut started) => {
                if !profiles && let Some(nth) = started.iter().position(|started| started.result.is_err()) {
                    kept.stop(Ending::Stop).await;
                    return Err(started.swap_remove(nth).result.err().context("the first that failed")?);
                }
                match &shared {
                    Some(shared) => introduce_all(&started, shared.at, out)?,
                    None => introduce_each(&started, environment, out)?,
                }
                writeln!(
                    out,
                    "ready   after {:.0} ms; Ctrl-C stops it",
                    began.elapsed().as_secs_f64() * 1e3
                )?;
                out.flush()?;
                notify.say(&ServiceNews::Ready);
                tokio::select! {
                    () = stopped.asked() => Ending::Stop,
                    () = hosted.restart_asked() => Ending::Restart,
                }
            }
        };
        notify.say(&ServiceNews::Stopping);
        tracing::info!("stopping: finishing what is running");
        let stopping = async {
            let clean = kept.stop(ending).await;
            if let Some(shared) = shared {
                shared.close().await;
            }
            clean
        };
        let clean = tokio::select! {
            clean = stopping => clean,
            () = stopped.asked() => {
                tracing::warn!("stopped at once; what was running goes on at the next start");
                return Ok(Ended::Stopped { clean: true });
            }
        };
        heart.abort();
        Ok(match ending {
            Ending::Stop => Ended::Stopped { clean },
            Ending::Restart => Ended::Restart,
        })
    }

    /// The key that an agent is going to have, as far as that can be told of one whose settings may be unreadable: its
    /// owner is to hear that it is down, and no one else that there is one.
    fn expected_key(&self, home: &Home, environment: &Environment) -> Option<Secret> {
        let written = plan(home, environment, self.overrides()).ok().and_then(|plan| plan.settings.api.key);
        if let Some(key) = written {
            return Some(key.value);
        }
        let said = home.variables(environment)("API_SERVER_KEY").filter(|key| !key.trim().is_empty());
        match said {
            Some(key) => Some(Secret::new(key.trim())),
            None => home.key().ok().flatten(),
        }
    }

    /// The one listener of all profiles: the root's, as far as its settings can be read.
    async fn share(
        &self,
        root: Option<&Settings>,
        candidates: &[Candidate],
        environment: &Environment,
    ) -> anyhow::Result<Shared> {
        let variable = |name: &str| environment.get(name).filter(|value| !value.trim().is_empty());
        let (host, port) = match root {
            Some(root) => (root.api.host.value.clone(), root.api.port.value),
            None => {
                let port = self.port.or_else(|| variable("API_SERVER_PORT")?.trim().parse().ok());
                let host = self.host.clone().or_else(|| variable("API_SERVER_HOST"));
                (host.unwrap_or_else(|| "127.0.0.1".into()), port.unwrap_or(8642))
            }
        };
        let listener = http_listener::bind(&host, port).await?;
        let at = listener.local_addr().context("the API has no address")?;
        let shared_listener = Arc::new(SharedListener::new(agent::FRONT, env!("CARGO_PKG_VERSION")));
        for Candidate { name, home } in candidates {
            let key = self.expected_key(home, environment);
            let key = key.as_ref().map(|key| key.expose());
            shared_listener.close(AbsentAgent { agent: name, key, home: &home.identity() });
        }
        let (close, closed) = oneshot::channel();
        let server = tokio::spawn(throughline_server::serve(
            listener,
            shared_listener.router(),
            descriptors::listener_limits(),
            async move {
                let _ = closed.await;
            },
        ));
        Ok(Shared { shared_listener, at, server, close })
    }
}

enum Ended {
    Stopped {
        clean: bool,
    },
    /// To be started again.
    Restart,
}

struct Shared {
    shared_listener: Arc<SharedListener>,
    at: SocketAddr,
    server: tokio::task::JoinHandle<()>,
    close: oneshot::Sender<()>,
}

impl Shared {
    async fn close(mut self) {
        let _ = self.close.send(());
        if tokio::time::timeout(agent::RESPONSES_END, &mut self.server).await.is_err() {
            self.server.abort(); // a client that does not read its answer can ask for it again
        }
    }
}

fn crew_names(candidates: &[Candidate]) -> Vec<String> {
    candidates.iter().map(|candidate| candidate.name.clone()).collect()
}

/// Homes that leave the port to us get neighbouring ones. Profiles share one, but for those whose own
/// files say another.
fn api_listeners(
    candidates: &[Candidate],
    shared: Option<SocketAddr>,
) -> impl Fn(&Candidate, &Settings) -> ApiListener + Send + Sync + 'static {
    let names = crew_names(candidates);
    move |candidate, settings| {
        let port = &settings.api.port;
        match shared {
            Some(at) => {
                let said = matches!(port.origin, Origin::Config { .. } | Origin::Dotenv { .. });
                let other = said && port.value != at.port() && candidate.name != agent::FRONT;
                ApiListener::Shared { at, own_port: other.then_some(port.value) }
            }
            None => {
                let nth = names.iter().position(|name| *name == candidate.name).unwrap_or(0);
                let nth = u16::try_from(nth).unwrap_or(0);
                let is_left_to_us = port.origin == Origin::Default && nth > 0;
                ApiListener::Own { port: is_left_to_us.then(|| port.value + nth) }
            }
        }
    }
}

fn plan(home: &Home, environment: &Environment, overrides: Overrides) -> anyhow::Result<StartPlan> {
    let report = home.report(environment, overrides)?;
    let (settings, warnings) =
        report.into_settings().with_context(|| format!("the settings of {}", home.path().display()))?;
    Ok(StartPlan { settings, warnings })
}

/// Whether a supervisor starts us again when we ask for it by our exit code.
fn is_supervised(environment: &Environment) -> bool {
    let pid = std::process::id().to_string();
    // Not `INVOCATION_ID`: a shell in a desktop's terminal has that, too.
    environment.get("SYSTEMD_EXEC_PID").is_some_and(|of| of.trim() == pid)
        || environment.get(SUPERVISED).is_some_and(|value| !matches!(value.trim(), "" | "0" | "false"))
}

// ------------------------------------------------------------------------------------ introduction

fn introduce_each(
    started: &[FirstAttempt],
    environment: &Environment,
    out: &mut dyn Write,
) -> io::Result<()> {
    for started in started {
        let Ok(introduction) = &started.result else { continue };
        for warning in &introduction.plan.warnings {
            warn(warning);
        }
        introduce(&started.candidate.home, introduction, environment, out)?;
    }
    Ok(())
}

/// What is on, what is off, and where the key is.
fn introduce(
    home: &Home,
    introduction: &AgentIntroduction,
    environment: &Environment,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = home.path().display();
    writeln!(out, "Throughline {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "home    {shown}")?;
    if let Some(hermes) = home::hermes_beside(home, &|name| environment.get(name)) {
        let hermes = hermes.display();
        writeln!(out, "        {hermes} is there as well; use it with `throughline --home {hermes}`")?;
    }
    match &introduction.plan.settings.model {
        ModelChoice::Rehearsal => {
            writeln!(out, "model   rehearsal, which works offline and only plays an agent")?;
            writeln!(
                out,
                "        for a real one put a key in {shown}/.env (OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY)"
            )?;
        }
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
            writeln!(out, "model   {} at {}", endpoint.model.value, endpoint.base_url.value)?;
        }
    }
    writeln!(out, "api     http://{}/v1", introduction.address)?;
    let file = home.key_file();
    match io::stdout().is_terminal() {
        true => writeln!(out, "        key {} (also in {})", introduction.key.expose(), file.display())?,
        false => writeln!(out, "        key in {}", file.display())?,
    }
    for off in &introduction.off {
        writeln!(out, "off     {off}")?;
    }
    if let Some(line) = in_a_line(&introduction.plan.settings.not_carried) {
        writeln!(out, "        not carried: {line}; `throughline config check` has the list")?;
    }
    Ok(())
}

/// A line for each of many.
fn introduce_all(started: &[FirstAttempt], at: SocketAddr, out: &mut dyn Write) -> io::Result<()> {
    let width = started.iter().map(|started| started.candidate.name.len()).max().unwrap_or(0).max(6);
    let root = started.first().map(|started| started.candidate.home.path().display().to_string());
    writeln!(out, "Throughline {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "root    {}", root.unwrap_or_default())?;
    let api = Address { socket: at, path: "/p/<agent>".into() };
    writeln!(out, "api     http://{api}/v1, {} also without /p/; each key in its home", agent::FRONT)?;
    for FirstAttempt { candidate, result } in started {
        let name = &candidate.name;
        match result {
            Ok(AgentIntroduction { plan, off, .. }) => {
                for warning in &plan.warnings {
                    warn(warning);
                }
                let model = match &plan.settings.model {
                    ModelChoice::Rehearsal => "rehearsal, which only plays an agent",
                    ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => &endpoint.model.value,
                };
                writeln!(out, "up      {name:width$}  {model}")?;
                for off in off {
                    writeln!(out, "off     {name:width$}  {off}")?;
                }
                if let Some(line) = in_a_line(&plan.settings.not_carried) {
                    writeln!(
                        out,
                        "        {name:width$}  not carried: {line}; `throughline config check` has the list"
                    )?;
                }
            }
            Err(error) => {
                let why = format!("{error:#}").replace('\n', "\n        ");
                writeln!(out, "down    {name:width$}  {why}")?;
            }
        }
    }
    let up = started.iter().filter(|started| started.result.is_ok()).count();
    match up == started.len() {
        true => writeln!(out, "        {up} agents"),
        false => writeln!(out, "        {up} of {} agents; the others are tried again", started.len()),
    }
}

fn warn(warning: &Remark) {
    let _ = writeln!(RedactedStderr::default(), "warning: {warning}");
}

// --------------------------------------------------------------------------------------- the process

/// To the standard error as ever, and to the files of the homes. Where there is one agent only, its
/// name on every line would say nothing.
fn log(filter: &str, logs: &Arc<Logs>, several: bool) {
    let named = filter_fn(move |metadata| {
        let is_name = metadata.is_span() && metadata.name() == "agent";
        (several || !is_name) && metadata.target() != LAST_WORDS
    });
    // It writes whole addresses of servers, which may hold a key. What happens to a server is told by our own client.
    let told = filter_fn(|metadata| !metadata.target().starts_with("rmcp"));
    let shown = tracing_subscriber::EnvFilter::new(filter);
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(RedactedStderr::default)
        .with_ansi(io::stderr().is_terminal());
    let files = ModelSummariser(logs.clone()).with_filter(LevelFilter::DEBUG);
    let stderr = stderr.with_filter(named).with_filter(shown);
    let _ = tracing_subscriber::registry().with(told).with(stderr).with(files).try_init();
}
