//! What a compression costs: 194 messages of about 146,000 tokens in all, summarised at once.

use crate::Arguments;
use crate::client::{self, Load};
use crate::gateway::Gateway;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The clock of a process ticks a hundred times a second: one compression alone would not be seen.
const SESSIONS: usize = 20;
const MESSAGES: usize = 194;
/// About 146,000 tokens in all, at four characters each.
const CHARACTERS: usize = 3000;
/// Wanted from 146,600 tokens on.
const WINDOW: u64 = 230_000;
/// What fills the context to where it is worth compressing, and to where the next request has to wait.
const SOFT: u64 = 147_000;
const HARD: u64 = 229_000;
const LATENCY_MS: u64 = 2_000;
/// Part of every request for a summary.
const ASKS: &str = "Historical Task Snapshot";
const FULL: &str = "fill up";
const SUMMARY: &str = "## Goal\\nMeasure what a compression costs.\\n\\n## Completed Actions\\nMany long messages were sent and answered, one after the other.\\n\\n## Critical Context\\nNothing else is known about them, and nothing needs to be: they are filler.";

pub async fn measure(arguments: &Arguments) -> Result<()> {
    let quick = script(&arguments.directory, "quick", 0, SOFT)?;
    let slow = script(&arguments.directory, "slow", 60_000, SOFT)?;
    let waited = script(&arguments.directory, "waited", LATENCY_MS, HARD)?;
    let config = format!("model: {{default: rehearsal, context_length: {WINDOW}}}\n");
    let words: &'static str = Box::leak("box ".repeat(CHARACTERS / 4).into_boxed_str());

    let gateway =
        Gateway::start_with(&arguments.directory.join("compression"), &config, Some(&quick)).await?;
    let load = |turns| Load { clients: SESSIONS, turns: Some(turns), seconds: 600, name: "squeezed" };
    client::run_saying(&gateway, &load(MESSAGES / 2 - 2), words).await?;
    gateway.wait_until_indexed().await?;
    // One session after the other: twenty at once would measure how they get into each other's way.
    let say = async |words| client::run_in_turn(&gateway, &load(1), words).await;
    let before = gateway.cpu_seconds()?;
    say(words).await?;
    say(words).await?;
    gateway.wait_until_indexed().await?;
    let plain = gateway.cpu_seconds()? - before;
    let before = gateway.cpu_seconds()?;
    say(FULL).await?; // its summary is written while the next one is left alone
    say("go on").await?;
    gateway.wait_until_indexed().await?;
    let compressed = gateway.cpu_seconds()? - before;
    let each = (compressed - plain) * 1e3 / SESSIONS as f64;
    println!(
        "\ncompression of {MESSAGES} messages, instant summariser: {each:.1} ms CPU each, beyond the two turns"
    );
    gateway.stop().await?;

    let gateway = Gateway::start_with(&arguments.directory.join("waited"), &config, Some(&waited)).await?;
    let say = async |words, turns| {
        let load = Load { clients: 1, turns: Some(turns), seconds: 600, name: "waited" };
        client::run_saying(&gateway, &load, words).await
    };
    say(words, MESSAGES / 2 - 1).await?;
    say(FULL, 1).await?;
    let began = Instant::now();
    say("go on", 1).await?;
    println!(
        "a request that has to wait for a summariser of {LATENCY_MS} ms: {} ms",
        began.elapsed().as_millis()
    );
    gateway.stop().await?;

    let gateway = Gateway::start_with(&arguments.directory.join("beside"), &config, Some(&slow)).await?;
    let say = async |words, turns| {
        let load = Load { clients: SESSIONS, turns: Some(turns), seconds: 600, name: "beside" };
        client::run_saying(&gateway, &load, words).await
    };
    say("a short message ", 20).await?;
    gateway.wait_until_indexed().await?;
    let turns = 20;
    let before = gateway.cpu_seconds()?;
    say("a short message ", turns).await?;
    gateway.wait_until_indexed().await?;
    let alone = gateway.cpu_seconds()? - before;
    say(FULL, 1).await?;
    gateway.wait_until_indexed().await?;
    let before = gateway.cpu_seconds()?;
    say("a short message ", turns).await?;
    gateway.wait_until_indexed().await?;
    let beside = gateway.cpu_seconds()? - before;
    let each = |seconds: f64| seconds * 1e3 / (SESSIONS * turns) as f64;
    println!(
        "a turn alone: {:.3} ms CPU; while its session is being summarised for a minute: {:.3} ms",
        each(alone),
        each(beside)
    );
    gateway.kill().await
}

fn script(directory: &Path, name: &str, latency: u64, full: u64) -> Result<PathBuf> {
    let path = std::path::absolute(directory.join(format!("{name}.json")))?;
    // As long as what is said to it, so that the text weighs what the usage says.
    let noted = "note ".repeat(CHARACTERS / 5);
    let rules = format!(
        r#"{{"rules":[{{"when":{{"contains":"{ASKS}"}},"say":"{SUMMARY}","latency_ms":{latency}}},
            {{"when":{{"contains":"{FULL}"}},"say":"ok","usage":{{"input":{full},"output":5}}}},
            {{"when":{{"contains":"box box"}},"say":"{noted}","usage":{{"input":1000,"output":5}}}},
            {{"when":{{}},"say":"noted","usage":{{"input":1000,"output":5}}}}]}}"#
    );
    std::fs::write(&path, rules)?;
    Ok(path)
}
