//! `throughline`: the gateway itself.

use crate::config::{Environment, ModelChoice, Origin, Overrides, Remark, Settings, Written};
use crate::home::{self, Home};
use crate::wire::{self, Company, Running};
use anyhow::{Context, bail};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use throughline_gateway::Agents;
use tokio::signal::unix::{SignalKind, signal};

/// Run the gateway (the default)
#[derive(clap::Args, Debug, Default)]
pub struct Run {
    /// The model to ask, instead of the configured one
    #[arg(long)]
    model: Option<String>,
    /// Where the API listens
    #[arg(long)]
    host: Option<String>,
    #[arg(long)]
    port: Option<u16>,
    /// What is logged: error, warn, info, debug, trace, or a filter for modules
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
}

/// A home, and what was written about it.
struct Plan {
    home: Home,
    settings: Settings,
    warnings: Vec<Remark>,
}

impl Run {
    pub fn run(
        self,
        homes: &[PathBuf],
        environment: &Environment,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let began = Instant::now();
        home::take_title().context("could not start again under the name that Hermes knows")?;
        let plans = self.plans(homes, environment)?;
        for plan in &plans {
            for warning in &plan.warnings {
                let _ = writeln!(io::stderr(), "warning: {warning}");
            }
        }
        log_to_stderr(&plans[0].settings);
        // Whoever reads the log later has to know where one process ends and the next begins.
        tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "throughline started");
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let code = runtime.block_on(serve(plans, environment, began, out));
        runtime.shutdown_background(); // whatever still waits for a model is on disk
        code
    }

    fn plans(&self, homes: &[PathBuf], environment: &Environment) -> anyhow::Result<Vec<Plan>> {
        let overrides = Overrides {
            model: self.model.clone(),
            host: self.host.clone(),
            port: self.port,
            log_level: self.log_level.clone(),
        };
        let homes = home::choose(homes, &|name| environment.get(name))?;
        if homes.len() > 1 && self.port.is_some() {
            bail!("--port cannot be the port of several homes; set API_SERVER_PORT in each home's .env");
        }
        homes.into_iter().map(|home| plan(home, environment, overrides.clone())).collect()
    }
}

fn plan(home: Home, environment: &Environment, overrides: Overrides) -> anyhow::Result<Plan> {
    let report = match Written::read(&home, environment, overrides)? {
        Ok(written) => written.report(),
        Err(report) => report,
    };
    let (settings, warnings) =
        report.into_settings().with_context(|| format!("the settings of {}", home.path().display()))?;
    Ok(Plan { home, settings, warnings })
}

async fn serve(
    plans: Vec<Plan>,
    environment: &Environment,
    began: Instant,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut stopped = Stop::listen()?;
    let mut agents = Vec::new();
    let company = Company {
        homes: plans.iter().map(|plan| plan.home.path().to_owned()).collect(),
        agents: Arc::new(Agents::expecting(plans.iter().map(|plan| wire::name(&plan.home)).collect())),
    };
    for (nth, plan) in (0u16..).zip(&plans) {
        // Homes that leave the port to us get neighbouring ones.
        let default = plan.settings.api.port.origin == Origin::Default;
        let port = (default && nth > 0).then(|| plan.settings.api.port.value + nth);
        match wire::start(&plan.home, &plan.settings, port, &company).await {
            Ok(running) => agents.push(running),
            Err(error) => {
                stop(agents).await;
                return Err(error);
            }
        }
        introduce(plan, &agents[usize::from(nth)], environment, out)?;
    }
    writeln!(out, "ready   after {:.0} ms; Ctrl-C stops it", began.elapsed().as_secs_f64() * 1e3)?;
    out.flush()?;
    stopped.asked().await;
    tracing::info!("stopping: finishing what is running");
    let clean = tokio::select! {
        clean = stop(agents) => clean,
        () = stopped.asked() => {
            tracing::warn!("stopped at once; what was running goes on at the next start");
            true
        }
    };
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn stop(agents: Vec<Running>) -> bool {
    let mut clean = true;
    let stopping: Vec<_> = agents.into_iter().map(|agent| tokio::spawn(agent.stop())).collect();
    for stopping in stopping {
        match stopping.await {
            Ok(Ok(left)) if left.is_clean() => {}
            Ok(Ok(left)) => tracing::warn!(
                turns = left.running_turns,
                waiting = left.waiting_inputs,
                undelivered = left.undelivered,
                "stopped with work left; it goes on at the next start"
            ),
            Ok(Err(error)) => {
                tracing::error!("{error:#}");
                clean = false;
            }
            Err(error) => {
                tracing::error!(%error, "an agent fell over while stopping");
                clean = false;
            }
        }
    }
    clean
}

/// What is on, what is off, and where the key is.
fn introduce(
    plan: &Plan,
    running: &Running,
    environment: &Environment,
    out: &mut dyn Write,
) -> io::Result<()> {
    let home = plan.home.path().display();
    writeln!(out, "Throughline {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "home    {home}")?;
    if let Some(hermes) = home::hermes_beside(&plan.home, &|name| environment.get(name)) {
        let hermes = hermes.display();
        writeln!(out, "        {hermes} is there as well; use it with `throughline --home {hermes}`")?;
    }
    match &plan.settings.model {
        ModelChoice::Rehearsal => {
            writeln!(out, "model   rehearsal, which works offline and only plays an agent")?;
            writeln!(
                out,
                "        for a real one put a key in {home}/.env (OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY)"
            )?;
        }
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
            writeln!(out, "model   {} at {}", endpoint.model.value, endpoint.base_url.value)?;
        }
    }
    writeln!(out, "api     http://{}/v1", running.address)?;
    let file = plan.home.key_file();
    match io::stdout().is_terminal() {
        true => writeln!(out, "        key {} (also in {})", running.key.expose(), file.display())?,
        false => writeln!(out, "        key in {}", file.display())?,
    }
    for off in &running.off {
        writeln!(out, "off     {off}")?;
    }
    writeln!(out, "off     chat platforms, memory providers: not in this version")
}

/// The signals by which a person or a supervisor asks to stop.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn log_to_stderr(settings: &Settings) {
    let filter = tracing_subscriber::EnvFilter::new(&settings.log_level.value);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let _ = log.with_ansi(io::stderr().is_terminal()).try_init();
}

/// Every client and every reader of the store is a descriptor; the usual 1,024 are soon gone.
#[allow(unsafe_code)]
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the one struct we pass.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
