//! `throughline stop` and `throughline resume`: a person ends what agents are at, from outside.
//!
//! The order goes over the control API, past every queue. `--all` reaches every gateway that can be
//! found: those of the homes that are given, of the usual places, and whatever other agents share
//! their processes.

use crate::client::{Client, ClientError};
use anyhow::bail;
use futures_util::future::join_all;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use throughline_core::SessionId;

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
    /// The agent that goes on; all of them if none is named
    #[arg(value_name = "AGENT", conflicts_with = "all")]
    agent: Option<String>,
    /// Every agent of every gateway that is found
    #[arg(long)]
    all: bool,
}

impl Stop {
    pub async fn run(self, gateways: Vec<Client>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        if gateways.is_empty() {
            bail!("no gateway runs in the homes that were looked at; give the home with --home");
        }
        let Some(session) = self.session else {
            let halted = join_all(gateways.iter().map(Client::halt)).await;
            return told(&gateways, halted, "silenced", out);
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
    pub async fn run(self, gateways: Vec<Client>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        if gateways.is_empty() {
            bail!("no gateway runs in the homes that were looked at; give the home with --home");
        }
        let agent = self.agent.as_deref().filter(|_| !self.all);
        let released = join_all(gateways.iter().map(|gateway| gateway.release(agent))).await;
        let heard = |answer: &Value| answer["agents"].as_array().is_some_and(|agents| !agents.is_empty());
        if let (Some(agent), false) = (agent, released.iter().flatten().any(heard)) {
            bail!(
                "no agent named {agent} runs in the gateways that were found; `throughline status` lists them"
            );
        }
        told(&gateways, released, "going on", out)
    }
}

/// One line per agent; several addresses may be of one process, and say the same.
fn told(
    gateways: &[Client],
    answers: Vec<Result<Value, ClientError>>,
    what: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut agents: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut failed = Vec::new();
    for (gateway, answer) in gateways.iter().zip(answers) {
        match answer {
            Ok(answer) => {
                for agent in answer["agents"].as_array().into_iter().flatten() {
                    let count = |name: &str| agent[name].as_u64().unwrap_or(0);
                    let name = agent["agent"].as_str().unwrap_or_default().to_owned();
                    let ended = agents.entry(name).or_default();
                    *ended = (*ended).max((count("turns"), count("waiting")));
                }
            }
            Err(error) => failed.push(format!("{}: {error}", gateway.address())),
        }
    }
    for (name, (turns, waiting)) in agents {
        let turns = if turns == 1 { "1 turn ended".into() } else { format!("{turns} turns ended") };
        let waiting =
            if waiting == 1 { "1 message waits".into() } else { format!("{waiting} messages wait") };
        match what {
            "silenced" => writeln!(out, "{name} {what}: {turns}, {waiting}")?,
            _ => writeln!(out, "{name} {what}")?,
        }
    }
    if !failed.is_empty() {
        bail!("not every gateway could be reached\n{}", failed.join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}
