//! `throughline stop` and `throughline resume`: a person ends what agents are at, from outside.
//!
//! An order for one session or agent goes over the control API, past every queue. One for all stands in the user's
//! ledger, where every gateway of this user on the machine finds it, in any home, and reports back. Where the
//! ledger cannot be written, the gateways that can be found are told over their API, each with the key of its own
//! home: a key moves no other agent.

use crate::client::{Client, ClientError};
use crate::wire;
use anyhow::bail;
use futures_util::future::join_all;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_app::ledger::process_runs;
use throughline_core::SessionId;
use throughline_home::home::{ChosenBy, Home};
use throughline_store::{GatewayReport, LedgerFile, SilenceKind};
use tokio::time::sleep;

/// End a running turn, or silence every agent
#[derive(Debug, clap::Args)]
pub struct Stop {
    /// The session whose turn ends; what waits in it is next
    #[arg(value_name = "SESSION", conflicts_with = "all", required_unless_present = "all")]
    session: Option<SessionId>,
    /// End every turn of every agent; a conversation goes on when a person writes in it, all of them with
    /// `throughline resume`
    #[arg(long)]
    all: bool,
}

/// Let agents that were silenced go on, with what is held and what was set aside
#[derive(Debug, clap::Args)]
pub struct Resume {
    /// The agent that goes on; those of the gateways that are found if none is named
    #[arg(value_name = "AGENT", conflicts_with = "all")]
    agent: Option<String>,
    /// Every agent of every gateway of yours on this machine
    #[arg(long)]
    all: bool,
}

/// How long a gateway is waited for. It looks a few times a second.
const PATIENCE: Duration = Duration::from_secs(5);

impl Stop {
    pub async fn run(
        self,
        gateways: Vec<Client>,
        ledger: Option<LedgerFile>,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let ledger = ledger.filter(|_| self.all);
        if let Some(told) = order_all(ledger, &gateways, SilenceKind::Stop, out).await? {
            return Ok(told);
        }
        let Some(session) = self.session else {
            let (asked, halted) = every(gateways, async |gateway| gateway.halt().await).await;
            return told(&asked, halted, "silenced", out);
        };
        let mut refusals = Vec::new();
        for gateway in &gateways {
            match gateway.order(&session, "/stop").await {
                Ok(said) => {
                    writeln!(out, "{said}")?;
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => refusals.push(format!("{}: {error}", gateway.address())),
            }
        }
        bail!("{session} could not be stopped\n{}", refusals.join("\n"))
    }
}

impl Resume {
    pub async fn run(
        self,
        gateways: Vec<Client>,
        ledger: Option<LedgerFile>,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let ledger = ledger.filter(|_| self.all);
        if let Some(told) = order_all(ledger, &gateways, SilenceKind::Resume, out).await? {
            return Ok(told);
        }
        let agent = self.agent.as_deref().filter(|_| !self.all);
        let (asked, released) = every(gateways, async |gateway| gateway.release(agent).await).await;
        let heard = |answer: &Value| answer["agents"].as_array().is_some_and(|agents| !agents.is_empty());
        if let (Some(agent), false) = (agent, released.iter().flatten().any(heard)) {
            bail!(
                "no agent named {agent} runs in the gateways that were found; `throughline status` lists them"
            );
        }
        told(&asked, released, "going on", out)
    }
}

/// Tells every gateway of the user through the ledger, where there is one to be asked. None: that reached no gateway,
/// and these, of which there is one at least, have to be told each by itself.
async fn order_all(
    ledger: Option<LedgerFile>,
    gateways: &[Client],
    kind: SilenceKind,
    out: &mut dyn Write,
) -> anyhow::Result<Option<ExitCode>> {
    let told = match ledger {
        Some(ledger) => order_in(ledger, kind, out).await?,
        None => None,
    };
    if told.is_none() && gateways.is_empty() {
        bail!("no gateway runs in the homes that were looked at; give the home with --home");
    }
    Ok(told)
}

/// None: the ledger knows of no gateway that runs, or cannot be written.
async fn order_in(
    mut ledger: LedgerFile,
    kind: SilenceKind,
    out: &mut dyn Write,
) -> anyhow::Result<Option<ExitCode>> {
    let now = wire::now;
    let Ok(order) = ledger.write(now(), |page| page.order(kind)) else { return Ok(None) };
    let until = Instant::now() + PATIENCE;
    let reports = loop {
        let reports = ledger.read(now(), |page| page.reports(order))?;
        let running: Vec<_> = reports.into_iter().filter(|gateway| process_runs(gateway.process)).collect();
        let all_told = running.iter().all(|gateway| gateway.report.is_some());
        if all_told || Instant::now() >= until {
            break running;
        }
        sleep(Duration::from_millis(20)).await;
    };
    if reports.is_empty() {
        return Ok(None);
    }
    let mut failed = Vec::new();
    for GatewayReport { home, process, report } in reports {
        let report = report.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        match report {
            None => {
                let pid = process.pid;
                failed.push(format!("{home}: its gateway (process {pid}) has not answered yet; it may hang"))
            }
            Some(report) if report["error"].is_string() => {
                failed.push(format!("{home}: {}", report["error"].as_str().unwrap_or_default()));
            }
            Some(report) => {
                let count = |name: &str| report[name].as_u64().unwrap_or(0);
                let name = report["agent"].as_str().unwrap_or(&home);
                match kind {
                    SilenceKind::Stop => say(name, "silenced", count("turns"), count("waiting"), out)?,
                    SilenceKind::Resume => say(name, "going on", 0, 0, out)?,
                }
            }
        }
    }
    if !failed.is_empty() {
        bail!("not every gateway has carried it out\n{}", failed.join("\n"));
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn say(name: &str, what: &str, turns: u64, waiting: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let turns = if turns == 1 { "1 turn ended".into() } else { format!("{turns} turns ended") };
    let waiting = if waiting == 1 { "1 message waits".into() } else { format!("{waiting} messages wait") };
    match what {
        "silenced" => writeln!(out, "{name} {what}: {turns}, {waiting}")?,
        _ => writeln!(out, "{name} {what}")?,
    }
    Ok(())
}

/// Asks these gateways, and then those of the other agents in their processes, which their answers name.
async fn every(
    gateways: Vec<Client>,
    order: impl AsyncFn(&Client) -> Result<Value, ClientError>,
) -> (Vec<Client>, Vec<Result<Value, ClientError>>) {
    let (mut asked, mut answers) = (Vec::new(), Vec::new());
    let mut next = gateways;
    while !next.is_empty() {
        let heard = join_all(next.iter().map(|gateway| order(gateway))).await;
        asked.append(&mut next);
        let others = heard.iter().flatten().flat_map(|answer| answer["others"].as_array()).flatten();
        for home in others.filter_map(|other| other["home"].as_str()) {
            if asked.iter().chain(&next).any(|known| known.home() == home) {
                continue;
            }
            let home = Home::new(Path::new(home), ChosenBy::CommandLine);
            next.extend(wire::gateway_of(&home).ok().flatten());
        }
        answers.extend(heard);
    }
    (asked, answers)
}

/// One line per agent; several addresses may be of one process, and say the same.
fn told(
    gateways: &[Client],
    answers: Vec<Result<Value, ClientError>>,
    what: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut agents: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let mut failed = Vec::new();
    for (gateway, answer) in gateways.iter().zip(answers) {
        match answer {
            Ok(answer) => {
                for agent in answer["agents"].as_array().into_iter().flatten() {
                    let count = |name: &str| agent[name].as_u64().unwrap_or(0);
                    let text = |name: &str| agent[name].as_str().unwrap_or_default().to_owned();
                    let ended = agents.entry((text("agent"), text("home"))).or_default();
                    *ended = (*ended).max((count("turns"), count("waiting")));
                }
            }
            Err(error) => failed.push(format!("{}: {error}", gateway.address())),
        }
    }
    let names: Vec<String> = agents.keys().map(|(name, _)| name.clone()).collect();
    for ((name, home), (turns, waiting)) in agents {
        // Agents of two processes may have one name.
        let is_shared = names.iter().filter(|other| **other == name).count() > 1;
        let name = if is_shared { format!("{name} ({home})") } else { name };
        say(&name, what, turns, waiting, out)?;
    }
    if !failed.is_empty() {
        bail!("not every gateway could be reached\n{}", failed.join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}
