//! The gateway under test, as a process of its own.

use crate::client::Connection;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const KEY: &str = "bench-key-0123456789abcdef0123456789abcdef";

pub struct Gateway {
    child: Child,
    pub port: u16,
    pub ready_after: Duration,
}

/// What the control API says that matters here.
pub struct Status {
    pub batches: u64,
    pub tended: bool,
}

impl Gateway {
    pub async fn start(home: &Path, fresh: bool) -> Result<Self> {
        if fresh && home.exists() {
            std::fs::remove_dir_all(home)?;
        }
        Self::run(home, None).await
    }

    /// On a fresh home with these settings, and a script for the model.
    pub async fn start_with(home: &Path, config: &str, script: Option<&Path>) -> Result<Self> {
        if home.exists() {
            std::fs::remove_dir_all(home)?;
        }
        std::fs::create_dir_all(home)?;
        std::fs::write(home.join("config.yaml"), config)?;
        Self::run(home, script).await
    }

    /// On a root with all of its profiles.
    pub async fn start_profiles(root: &Path) -> Result<Self> {
        Self::run_with(root, None, &["--all-profiles"]).await
    }

    async fn run(home: &Path, script: Option<&Path>) -> Result<Self> {
        Self::run_with(home, script, &[]).await
    }

    async fn run_with(home: &Path, script: Option<&Path>, arguments: &[&str]) -> Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let binary = std::env::current_exe()?.with_file_name("throughline");
        if !binary.exists() {
            bail!("{} is not there; build it first: cargo build --release", binary.display());
        }
        let began = Instant::now();
        let child = Command::new(&binary)
            .arg("--home")
            .arg(home)
            .args(arguments)
            .env_clear()
            .env("HOME", home)
            .env("API_SERVER_PORT", port.to_string())
            .env("API_SERVER_KEY", KEY)
            .envs(script.map(|script| ("THROUGHLINE_REHEARSAL", script)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut gateway = Self { child, port, ready_after: Duration::ZERO };
        while !gateway.is_ready().await {
            if let Some(status) = gateway.child.try_wait()? {
                bail!("the gateway ended at once: {status}");
            }
            if began.elapsed() > Duration::from_secs(30) {
                bail!("the gateway is not ready after 30 s");
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        gateway.ready_after = began.elapsed();
        Ok(gateway)
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut connection) = Connection::open(self.port).await else { return false };
        matches!(connection.request("GET", "/health/ready", &[], "").await, Ok((200, _)))
    }

    pub async fn status(&self) -> Result<Status> {
        let mut connection = Connection::open(self.port).await?;
        let (status, body) = connection.request("GET", "/api/control/status", &[], "").await?;
        let body: serde_json::Value =
            serde_json::from_str(&body).with_context(|| format!("HTTP {status}: {body}"))?;
        let batches = body["batches"].as_u64().with_context(|| format!("no batches in {body}"))?;
        let tended = body["tended"].as_bool().with_context(|| format!("no tended in {body}"))?;
        Ok(Status { batches, tended })
    }

    /// No agent of the process is still about to start.
    pub async fn wait_until_all_run(&self) -> Result<()> {
        loop {
            let mut connection = Connection::open(self.port).await?;
            let (status, body) = connection.request("GET", "/api/status", &[], "").await?;
            let body: serde_json::Value =
                serde_json::from_str(&body).with_context(|| format!("HTTP {status}: {body}"))?;
            let agents = body["agents"].as_array().context("no agents")?;
            if agents.iter().all(|agent| agent["state"] == "running") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub async fn wait_until_indexed(&self) -> Result<()> {
        while !self.status().await?.tended {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// User and system time of the process so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        // The unit is fixed at 100 per second on every Linux that matters.
        Ok(ticks as f64 / 100.0)
    }

    pub fn threads(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?.count())
    }

    pub fn resident_mb(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    pub async fn stop(mut self) -> Result<()> {
        signal(&self.child, libc::SIGTERM);
        self.child.wait()?;
        Ok(())
    }

    pub async fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

#[allow(unsafe_code)]
fn signal(child: &Child, number: i32) {
    // SAFETY: kill takes two numbers and touches no memory; the child is ours and not yet waited for.
    unsafe { libc::kill(child.id().cast_signed(), number) };
}
