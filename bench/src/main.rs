//! Load on the real binary, on loopback, with the built-in offline model: what a durable turn costs.
//!
//! Wall times on a shared machine are noise; CPU seconds and counts are the usable figures, so each
//! run prints both, and beside the latencies how long an fsync took during the same run.

mod client;
mod compression;
mod gateway;
mod host;
mod probe;

use anyhow::Result;
use clap::Parser;
use client::Load;
use gateway::Gateway;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measure the gateway: throughput, latency, CPU and memory
#[derive(Parser)]
struct Arguments {
    /// Numbers of clients, each with a session of its own
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,512")]
    clients: Vec<usize>,
    /// How long each number of clients is kept up
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many sessions the memory measurement begins
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// How long a history the long-conversation measurement builds
    #[arg(long, default_value_t = 1000)]
    messages: usize,
    /// How many agents share a process, and how many chats each of them has
    #[arg(long, default_value_t = 200)]
    agents: usize,
    #[arg(long, default_value_t = 50)]
    chats: usize,
    /// Only this measurement: throughput, start, long, tools, compression, memory, flight or host
    #[arg(long)]
    only: Option<String>,
    /// Where the homes are made; must be a real disk
    #[arg(long, default_value = ".cache/bench")]
    directory: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.directory)?;
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| only == name);
    if wanted("throughput") {
        throughput(&arguments).await?;
    }
    if wanted("start") {
        start_times(&arguments).await?;
    }
    if wanted("long") {
        long_conversation(&arguments).await?;
    }
    if wanted("tools") {
        tools(&arguments).await?;
    }
    if wanted("compression") {
        compression::measure(&arguments).await?;
    }
    if wanted("memory") {
        memory(&arguments).await?;
    }
    if wanted("flight") {
        flight(&arguments).await?;
    }
    if wanted("host") {
        host::measure(&arguments).await?;
    }
    Ok(())
}

/// Turns per second, latency, CPU and transactions per turn.
async fn throughput(arguments: &Arguments) -> Result<()> {
    println!(
        "clients  turns/s  p50 ms  p99 ms  fsync p99 ms  CPU ms/turn  batches/turn  index catch-up s (CPU ms/turn)"
    );
    for &clients in &arguments.clients {
        let gateway =
            Gateway::start(&arguments.directory.join(format!("throughput-{clients}")), true).await?;
        client::run(&gateway, &Load { clients, turns: Some(2), seconds: 60, name: "warm" }).await?;
        gateway.wait_until_indexed().await?;
        let (cpu, batches) = (gateway.cpu_seconds()?, gateway.status().await?.batches);
        let probe = probe::Fsync::start(&arguments.directory)?;
        let load = Load { clients, turns: None, seconds: arguments.seconds, name: "warm" };
        let mut done = client::run(&gateway, &load).await?;
        let fsync = probe.stop();
        let turns = done.latencies.len() as f64;
        let spent = gateway.cpu_seconds()? - cpu;
        let batches = (gateway.status().await?.batches - batches) as f64;
        let behind = Instant::now();
        gateway.wait_until_indexed().await?;
        let caught_up = behind.elapsed().as_secs_f64();
        let with_index = gateway.cpu_seconds()? - cpu;
        println!(
            "{clients:7}  {:7.0}  {:6.2}  {:6.2}  {:12.2}  {:11.3}  {:12.2}  {caught_up:8.1} ({:.3})",
            turns / done.seconds,
            done.percentile(50),
            done.percentile(99),
            fsync.p99_ms,
            spent * 1e3 / turns,
            batches / turns,
            with_index * 1e3 / turns,
        );
        gateway.stop().await?;
    }
    Ok(())
}

/// From exec to the first good answer of /health/ready.
async fn start_times(arguments: &Arguments) -> Result<()> {
    let home = arguments.directory.join("start");
    let mut times = Vec::new();
    for (name, fresh) in
        [("fresh home", true), ("existing home", false), ("existing home", false), ("existing home", false)]
    {
        let gateway = Gateway::start(&home, fresh).await?;
        times.push((name, gateway.ready_after));
        client::run(&gateway, &Load { clients: 4, turns: Some(2), seconds: 60, name: "start" }).await?;
        gateway.stop().await?;
    }
    let gateway = Gateway::start(&home, false).await?;
    gateway.kill().await?;
    let gateway = Gateway::start(&home, false).await?;
    times.push(("after a kill", gateway.ready_after));
    gateway.stop().await?;
    println!("\nstart to ready");
    for (name, time) in times {
        println!("  {name:14} {:6.1} ms", time.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// A turn late in a long conversation against one in a new one, by one client after the other.
async fn long_conversation(arguments: &Arguments) -> Result<()> {
    let gateway = Gateway::start(&arguments.directory.join("long"), true).await?;
    let talk = async |turns: usize, name: &'static str| {
        client::run(&gateway, &Load { clients: 1, turns: Some(turns), seconds: 600, name }).await
    };
    talk(arguments.messages / 2, "long").await?;
    gateway.wait_until_indexed().await?;
    let (runs, turns) = (20, 10);
    let before = gateway.cpu_seconds()?;
    for run in 0..runs {
        talk(turns, Box::leak(format!("short-{run}").into_boxed_str())).await?;
    }
    let short = gateway.cpu_seconds()? - before;
    gateway.wait_until_indexed().await?;
    let before = gateway.cpu_seconds()?;
    talk(runs * turns, "long").await?;
    let long = gateway.cpu_seconds()? - before;
    let each = |seconds: f64| seconds * 1e3 / (runs * turns) as f64;
    println!(
        "\nCPU per turn, one client: {:.3} ms on a new history, {:.3} ms after {} messages",
        each(short),
        each(long),
        arguments.messages
    );
    gateway.stop().await
}

/// What is said to begin steps of a tool that answers at once, or of one that reads files.
const LIGHT: &str = "ten light steps";
const WORKING: &str = "ten steps that read";
/// How many calls a turn with tools makes, one after the other.
const STEPS: usize = 10;

/// A turn with ten steps of tools against a plain one, and how many steps share an fsync.
async fn tools(arguments: &Arguments) -> Result<()> {
    let home = arguments.directory.join("tools");
    let (script, workspace) = ten_steps(&arguments.directory)?;
    let config = format!("terminal: {{cwd: {}}}\n", workspace.display());
    println!(
        "\nCPU per turn with indexing: plain, with {STEPS} steps of tools, and the ratio; fsyncs per step"
    );
    for clients in arguments.clients.iter().copied().filter(|clients| *clients <= 64) {
        let gateway = Gateway::start_with(&home, &config, Some(&script)).await?;
        let run = async |name: &'static str, word: &'static str, seconds| {
            client::run_saying(&gateway, &Load { clients, turns: None, seconds, name }, word).await
        };
        run("warm", "plain", 1).await?;
        gateway.wait_until_indexed().await?;
        // The index is written whenever the writer has nothing better to do, which is sooner where tools
        // take their time: counted in both, so that the same work is compared.
        let before = gateway.cpu_seconds()?;
        let plain = run("plain", "plain", arguments.seconds).await?.latencies.len() as f64;
        gateway.wait_until_indexed().await?;
        let plain = (gateway.cpu_seconds()? - before) * 1e3 / plain;
        for (name, word) in [("light", LIGHT), ("working", WORKING)] {
            let (before, batches) = (gateway.cpu_seconds()?, gateway.status().await?.batches);
            let turns = run(name, word, arguments.seconds).await?.latencies.len() as f64;
            let batches = (gateway.status().await?.batches - batches) as f64 / turns / STEPS as f64;
            gateway.wait_until_indexed().await?;
            let stepped = (gateway.cpu_seconds()? - before) * 1e3 / turns;
            println!(
                "  {clients:3} clients  {plain:.3} ms  {stepped:.3} ms  {:.1}x  {batches:.2}  {word}",
                stepped / plain
            );
        }
        gateway.stop().await?;
    }
    Ok(())
}

/// A workspace of files, and a model that reads one after the other.
fn ten_steps(directory: &std::path::Path) -> Result<(PathBuf, PathBuf)> {
    let workspace = std::path::absolute(directory.join("workspace"))?;
    std::fs::create_dir_all(&workspace)?;
    // One tool that answers from memory, which shows what the gateway itself adds, and one that works.
    let ask = |step| {
        format!(r#"[{{"name":"process","arguments":{{"action":"poll","session_id":"seen-{step}."}}}}]"#)
    };
    let read = |step| format!(r#"[{{"name":"read_file","arguments":{{"path":"step-{step}.txt"}}}}]"#);
    let mut rules = vec![
        format!(r#"{{"when":{{"contains":"{LIGHT}","result":false}},"call":{}}}"#, ask(0)),
        format!(r#"{{"when":{{"contains":"{WORKING}","result":false}},"call":{}}}"#, read(0)),
    ];
    for step in 0..STEPS {
        std::fs::write(workspace.join(format!("step-{step}.txt")), format!("the word is read-{step}.\n"))?;
        for (seen, call) in [("seen", ask(step + 1)), ("read", read(step + 1))] {
            let next = match step + 1 {
                STEPS => r#""say":"done""#.to_owned(),
                _ => format!(r#""call":{call}"#),
            };
            rules.push(format!(r#"{{"when":{{"result_contains":"{seen}-{step}."}},{next}}}"#));
        }
    }
    let script = std::path::absolute(directory.join("ten-steps.json"))?;
    std::fs::write(&script, format!(r#"{{"rules":[{}]}}"#, rules.join(",")))?;
    Ok((script, workspace))
}

/// Resident memory: idle, with 64 live sessions, with many known ones and 500 of them live.
async fn memory(arguments: &Arguments) -> Result<()> {
    let home = arguments.directory.join("memory");
    let gateway = Gateway::start(&home, true).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("\nresident memory");
    println!("  idle                         {:6.1} MB", gateway.resident_mb()?);
    client::run(&gateway, &Load { clients: 64, turns: Some(10), seconds: 60, name: "chat" }).await?;
    println!("  64 chats                     {:6.1} MB", gateway.resident_mb()?);
    for part in 0..arguments.sessions.div_ceil(500) {
        let name: &'static str = Box::leak(format!("known-{part}").into_boxed_str());
        client::run(&gateway, &Load { clients: 500, turns: Some(1), seconds: 120, name }).await?;
    }
    gateway.stop().await?;
    let gateway = Gateway::start(&home, false).await?;
    let ready = gateway.ready_after.as_secs_f64() * 1e3;
    client::run(&gateway, &Load { clients: 500, turns: Some(4), seconds: 120, name: "known-0" }).await?;
    let sessions = arguments.sessions;
    println!(
        "  {sessions} known, 500 active     {:6.1} MB (ready after {ready:.1} ms)",
        gateway.resident_mb()?
    );
    gateway.stop().await
}

/// As many questions to a slow model as the issue of many agents asks for.
const IN_FLIGHT: usize = 1_000;
const THINKS_MS: usize = 5_000;

/// What it takes to wait for a thousand answers at once.
async fn flight(arguments: &Arguments) -> Result<()> {
    let script = std::path::absolute(arguments.directory.join("thinks.json"))?;
    std::fs::write(
        &script,
        format!(r#"{{"rules":[{{"when":{{}},"say":"noted","latency_ms":{THINKS_MS}}}]}}"#),
    )?;
    let config = "model: {default: rehearsal}\n";
    let gateway = Gateway::start_with(&arguments.directory.join("flight"), config, Some(&script)).await?;
    let cpu = gateway.cpu_seconds()?;
    let load = Load { clients: IN_FLIGHT, turns: Some(1), seconds: 120, name: "flight" };
    let mut done = client::run(&gateway, &load).await?;
    println!(
        "\n{} of {IN_FLIGHT} questions in flight at once, a model that thinks for {THINKS_MS} ms: p50 {:.0} ms, p99 {:.0} ms, \
         {:.2} ms CPU each, {:.1} MB",
        done.latencies.len(),
        done.percentile(50),
        done.percentile(99),
        (gateway.cpu_seconds()? - cpu) * 1e3 / IN_FLIGHT as f64,
        gateway.resident_mb()?
    );
    gateway.stop().await
}
