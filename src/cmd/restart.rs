//! `throughline restart`: what runs is finished, the process begins anew, and this waits until it has.
//!
//! Nothing is lost: what was accepted is on disk, and what the time did not suffice for goes on.

use crate::client::Client;
use crate::wire;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use throughline_home::home::{ChosenBy, Home};
use tokio::time::sleep;

/// Start the running gateway anew, without losing a message
#[derive(Debug, clap::Args)]
pub struct Restart {
    /// How long to wait until it is back, in seconds
    #[arg(long, default_value_t = 180)]
    timeout: u64,
}

const PAUSE: Duration = Duration::from_millis(50);

/// Asks the process through each of its agents, with the key of that one's home: a key moves its own agent only.
async fn order(gateway: &Client) -> anyhow::Result<()> {
    let mut missing = gateway.restart().await?;
    let mut asked: Vec<String> = Vec::new();
    while let Some(home) = missing.iter().find(|home| !asked.contains(home)).cloned() {
        let other = wire::gateway_of(&Home::new(Path::new(&home), ChosenBy::CommandLine));
        let other = other.with_context(|| format!("the agent of {home} could not be asked to restart"))?;
        let Some(other) = other else { bail!(not_alone(gateway, &[home])) };
        missing = other.restart().await?;
        asked.push(home);
    }
    match missing.is_empty() {
        true => Ok(()),
        false => bail!(not_alone(gateway, &missing)),
    }
}

fn not_alone(gateway: &Client, homes: &[String]) -> String {
    format!(
        "the process at {} also runs the agents of {}, which could not be asked; restart its service, or end it and start it \
         again",
        gateway.address(),
        homes.join(", ")
    )
}

impl Restart {
    /// Several gateways may be of one process, which is asked once.
    pub async fn run(self, gateways: Vec<Client>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let mut processes = BTreeMap::new();
        for gateway in gateways {
            // One that does not answer has left its address behind.
            if let Ok(status) = gateway.home_status().await {
                let instance = status["instance"].as_str().unwrap_or_default().to_owned();
                processes.entry(instance).or_insert(gateway);
            }
        }
        if processes.is_empty() {
            bail!(
                "no gateway runs in the homes that were looked at; start one with `throughline`, or give the home with --home"
            );
        }
        for (instance, gateway) in processes {
            let began = Instant::now();
            order(&gateway).await?;
            writeln!(out, "{} is finishing what runs", gateway.address())?;
            out.flush()?;
            let status = self.new_one(&gateway, &instance).await?;
            let agents = status["agents"].as_array().map_or(1, Vec::len).max(1);
            let agents = if agents == 1 { "1 agent".to_owned() } else { format!("{agents} agents") };
            let seconds = began.elapsed().as_secs_f64();
            writeln!(
                out,
                "{} is back after {seconds:.1} s: pid {}, {agents}",
                gateway.address(),
                status["pid"]
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn new_one(&self, gateway: &Client, old: &str) -> anyhow::Result<serde_json::Value> {
        let deadline = Instant::now() + Duration::from_secs(self.timeout);
        loop {
            if let Ok(status) = gateway.home_status().await {
                let is_new = status["instance"].as_str().is_some_and(|instance| instance != old);
                let mut agents = status["agents"].as_array().into_iter().flatten();
                let all_tried = agents.all(|agent| agent["state"] != "starting");
                if is_new && all_tried && status["ready"] == true {
                    return Ok(status);
                }
            }
            if Instant::now() > deadline {
                bail!(
                    "the gateway at {} was asked to restart and is not back after {} s; what was accepted is on disk. \
                     Look at logs/gateway.log in its home, or start it with `throughline`",
                    gateway.address(),
                    self.timeout
                );
            }
            sleep(PAUSE).await;
        }
    }
}
