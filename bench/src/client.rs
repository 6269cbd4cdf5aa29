//! Clients that cost little themselves: HTTP/1.1 by hand over one kept connection each.

use crate::gateway::{Gateway, KEY};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough for what a turn leaves to be done behind it.
const ALONE: Duration = Duration::from_millis(60);

pub struct Load {
    pub clients: usize,
    /// How many turns each client takes; None: as many as fit.
    pub turns: Option<usize>,
    pub seconds: u64,
    /// The first part of the sessions' names.
    pub name: &'static str,
}

pub struct Done {
    pub latencies: Vec<Duration>,
    pub seconds: f64,
}

impl Done {
    pub fn percentile(&mut self, percent: usize) -> f64 {
        self.latencies.sort();
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * percent / 100).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

pub async fn run(gateway: &Gateway, load: &Load) -> Result<Done> {
    run_saying(gateway, load, "").await
}

/// The same, with these words in every message.
pub async fn run_saying(gateway: &Gateway, load: &Load, words: &'static str) -> Result<Done> {
    let began = Instant::now();
    let until = began + Duration::from_secs(load.seconds);
    let mut clients = Vec::new();
    for client in 0..load.clients {
        let session = format!("bench-{}-{client}", load.name);
        clients.push(tokio::spawn(converse(gateway.port, session, words, load.turns, until)));
    }
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await??);
    }
    Ok(Done { latencies, seconds: began.elapsed().as_secs_f64() })
}

/// The same, but one session after the other, each left alone for a moment: what one of them costs by itself.
pub async fn run_in_turn(gateway: &Gateway, load: &Load, words: &'static str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(load.seconds);
    for client in 0..load.clients {
        let session = format!("bench-{}-{client}", load.name);
        converse(gateway.port, session, words, load.turns, until).await?;
        tokio::time::sleep(ALONE).await;
    }
    Ok(())
}

async fn converse(
    port: u16,
    session: String,
    words: &str,
    turns: Option<usize>,
    until: Instant,
) -> Result<Vec<Duration>> {
    let mut connection = Connection::open(port).await?;
    let mut latencies = Vec::new();
    while turns.is_none_or(|most| latencies.len() < most) && Instant::now() < until {
        let text = format!(
            "turn {} of {session}: {words} what is on the list for today, and what comes after it?",
            latencies.len()
        );
        let body = format!(r#"{{"model":"bench","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let began = Instant::now();
        let (status, answer) = connection
            .request("POST", "/v1/chat/completions", &[("X-Hermes-Session-Id", &session)], &body)
            .await?;
        if status != 200 {
            bail!("{session}: HTTP {status}: {answer}");
        }
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, String)> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.stream.write_all(request.as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u16, String)> {
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
        let status = text.split(' ').nth(1).context("a status line")?.parse()?;
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.context("a content-length")?.trim().parse()?;
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        let body = String::from_utf8(self.buffer[head..head + length].to_vec())?;
        self.buffer.drain(..head + length);
        Ok((status, body))
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => bail!("the gateway closed the connection"),
            _ => Ok(()),
        }
    }
}
