//! `throughline memory jobs` and `retry`: turns that the memory provider does not have yet.

use crate::client::Client;
use crate::out::one_line;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use throughline_core::Time;
use throughline_core::memory::{PendingRetention, Progress, RetentionChange};
use throughline_core::port::{Commit, Read, Store};
use throughline_gateway::Memory;

/// Show turns that the memory provider does not have yet, and why
#[derive(Debug, clap::Args)]
pub struct Jobs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Hand over again what the memory provider has refused, or what waits for another try
#[derive(Debug, clap::Args)]
pub struct Retry {
    /// Only this turn, as `memory jobs` names it; all of them if not given
    turn: Option<String>,
}

impl Jobs {
    pub fn run(self, store: &dyn Read, now: Time, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        write!(out, "{}", self.told(&store.unkept()?, now))?;
        Ok(ExitCode::SUCCESS)
    }

    pub fn told(&self, unkept: &[PendingRetention], now: Time) -> String {
        match self.json {
            true => {
                let jobs: Vec<Value> = unkept.iter().map(in_json).collect();
                format!("{:#}\n", json!({"jobs": jobs}))
            }
            false => told(unkept, now),
        }
    }
}

/// One line for each, and how many there are of each kind.
fn told(unkept: &[PendingRetention], now: Time) -> String {
    if unkept.is_empty() {
        return "The memory provider has everything; nothing waits.\n".to_owned();
    }
    let count = |progress| unkept.iter().filter(|pending| pending.progress == progress).count();
    let mut text = format!(
        "{} to be handed over, {} kept until there is more of their conversation, {} refused.\n",
        count(Progress::Due),
        count(Progress::Buffered),
        count(Progress::Refused)
    );
    for pending in unkept {
        let PendingRetention { retention, erases, provider, progress, attempts, error, not_before } = pending;
        let how = match progress {
            Progress::Buffered => "waits for more".to_owned(),
            Progress::Due if *attempts == 0 => "next".to_owned(),
            Progress::Due if *not_before > now => {
                format!("tried {attempts} times, again in {} s", not_before.since(now).as_secs())
            }
            Progress::Due => format!("tried {attempts} times"),
            Progress::Refused => "refused".to_owned(),
        };
        let why = error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        let what = if *erases { "to be deleted there, " } else { "" };
        let line = format!("{}  {provider}  {what}{how}{why}", retention.key);
        text.push_str(&one_line(&line));
        text.push('\n');
    }
    if count(Progress::Refused) > 0 {
        text.push_str("`throughline memory retry` has what was refused tried again.\n");
    }
    text
}

fn in_json(pending: &PendingRetention) -> Value {
    let PendingRetention { retention, erases, provider, progress, attempts, error, not_before } = pending;
    let state = match progress {
        Progress::Buffered => "buffered",
        Progress::Due => "due",
        Progress::Refused => "refused",
    };
    json!({
        "turn": retention.key, "provider": provider, "document": retention.document, "state": state,
        "session": retention.scope.session.as_str(), "chat": retention.scope.chat.as_ref().map(|chat| chat.as_str()),
        "erases": erases, "attempts": attempts, "not_before": not_before.as_seconds(), "error": error, "at": retention.at.as_seconds(),
    })
}

/// Which of them a retry concerns.
fn meant(unkept: Vec<PendingRetention>, turn: Option<&str>) -> anyhow::Result<Vec<String>> {
    let waits = |pending: &PendingRetention| pending.progress != Progress::Buffered;
    let keys = unkept.into_iter().filter(waits).map(|pending| pending.retention.key);
    let keys: Vec<String> = keys.filter(|key| turn.is_none_or(|turn| turn == key)).collect();
    match (keys.is_empty(), turn) {
        (true, Some(turn)) => bail!(
            "no turn {turn} waits for the memory provider; `throughline memory jobs` lists those that do"
        ),
        _ => Ok(keys),
    }
}

impl Retry {
    /// On a home that this process owns.
    pub fn here(&self, store: &mut dyn Store, now: Time, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let keys = meant(store.reader().unkept()?, self.turn.as_deref())?;
        let change = RetentionChange::Retried;
        let commits: Vec<Commit> =
            keys.into_iter().map(|key| Commit::Retention { key, change: change.clone(), at: now }).collect();
        for result in store.commit(&commits) {
            result.context("it could not be written that a turn is to be handed over again")?;
        }
        store.close(now)?;
        said(commits.len(), "at the next start", out)
    }

    /// By the agent itself, for a person in one of its chats.
    pub async fn within(self, provider: &Memory) -> anyhow::Result<String> {
        let (retried, mut out) = (provider.retry(self.turn).await?, Vec::new());
        said(retried, "now", &mut out)?;
        Ok(String::from_utf8_lossy(&out).trim().to_owned())
    }

    /// On a home that a gateway has.
    pub async fn there(&self, gateway: &Client, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let retried = gateway.retry_memory(self.turn.as_deref()).await?;
        said(retried, "now", out)
    }
}

fn said(retried: usize, when: &str, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match retried {
        0 => writeln!(out, "Nothing waits for another try.")?,
        1 => writeln!(out, "1 turn is handed over again {when}.")?,
        many => writeln!(out, "{many} turns are handed over again {when}.")?,
    }
    Ok(ExitCode::SUCCESS)
}
