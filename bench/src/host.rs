//! Many agents at rest in one process: what they weigh, and what they cost.

use crate::Arguments;
use crate::client::Connection;
use crate::gateway::Gateway;
use anyhow::{Result, bail};
use std::time::Duration;

/// Long enough that no actor is awake any more, and that readers have been given back.
const REST: Duration = Duration::from_secs(45);
/// Sessions stay awake for five minutes after they were spoken to.
const AWAKE: Duration = Duration::from_secs(300);
const MEASURED: Duration = Duration::from_secs(30);
/// Agents that are spoken to at the same time.
const TALKING: usize = 16;

pub async fn measure(arguments: &Arguments) -> Result<()> {
    let root = arguments.directory.join("host");
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    let names: Vec<String> = (1..arguments.agents).map(|nth| format!("agent-{nth:03}")).collect();
    for name in &names {
        std::fs::create_dir_all(root.join("profiles").join(name))?;
    }
    std::fs::create_dir_all(&root)?;
    println!("\n{} agents with {} chats each, in one process", arguments.agents, arguments.chats);
    let gateway = Gateway::start_profiles(&root).await?;
    println!("  fresh: ready after {:.0} ms", gateway.ready_after.as_secs_f64() * 1e3);
    at_rest("no message yet", &gateway).await?;
    let all: Vec<String> = std::iter::once("default".to_owned()).chain(names).collect();
    for talking in all.chunks(TALKING) {
        let talks =
            talking.iter().map(|name| tokio::spawn(talk(gateway.port, name.clone(), arguments.chats)));
        for talk in talks.collect::<Vec<_>>() {
            talk.await??;
        }
    }
    println!("  just spoken to: {:.1} MB", gateway.resident_mb()?);
    tokio::time::sleep(AWAKE).await;
    at_rest("after everybody has spoken", &gateway).await?;
    gateway.stop().await?;
    let gateway = Gateway::start_profiles(&root).await?;
    println!("  started again: ready after {:.0} ms", gateway.ready_after.as_secs_f64() * 1e3);
    at_rest("after a start", &gateway).await?;
    gateway.stop().await
}

async fn talk(port: u16, agent: String, chats: usize) -> Result<()> {
    let mut connection = Connection::open(port).await?;
    let path = format!("/p/{agent}/v1/chat/completions");
    for chat in 0..chats {
        let session = format!("chat-{chat}");
        let body =
            format!(r#"{{"model":"bench","messages":[{{"role":"user","content":"hello from {session}"}}]}}"#);
        let (status, answer) =
            connection.request("POST", &path, &[("X-Hermes-Session-Id", &session)], &body).await?;
        if status != 200 {
            bail!("{agent}: HTTP {status}: {answer}");
        }
    }
    Ok(())
}

async fn at_rest(when: &str, gateway: &Gateway) -> Result<()> {
    gateway.wait_until_all_run().await?;
    tokio::time::sleep(REST).await;
    let before = gateway.cpu_seconds()?;
    tokio::time::sleep(MEASURED).await;
    let spent = (gateway.cpu_seconds()? - before) / MEASURED.as_secs_f64();
    let (resident, threads) = (gateway.resident_mb()?, gateway.threads()?);
    println!("  at rest, {when}: {resident:.1} MB, {:.2} % of a core, {threads} threads", spent * 100.0);
    Ok(())
}
