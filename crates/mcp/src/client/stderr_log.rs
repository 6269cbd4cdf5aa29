//! What servers say on standard error: `logs/mcp-stderr.log` of the home, where users of Hermes look.
//!
//! Reading never stops, because a server whose output is not taken stands still. Writing may: what
//! comes faster than the disk takes it is dropped, and the file is cut in two before it grows large.

use super::redact::ErrorRedactor;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use throughline_private_files as private_files;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// Enough to see how the last few starts went; twice this is on disk at most.
const FILE_LENGTH_MAX: u64 = 5 * 1024 * 1024;
/// A longer line is cut: it is a dump, not a message.
const LINE_LENGTH_MAX: usize = 8 * 1024;
/// Lines on their way to the disk.
const WAITING_MAX: usize = 256;

#[derive(Clone)]
pub struct ServerLog {
    lines: mpsc::Sender<String>,
}

impl ServerLog {
    /// Ends when the last clone is gone.
    pub fn open(home: &Path) -> Self {
        let (lines, mut waiting) = mpsc::channel::<String>(WAITING_MAX);
        let path = home.join("logs/mcp-stderr.log");
        tokio::task::spawn_blocking(move || {
            while let Some(line) = waiting.blocking_recv() {
                if let Err(error) = append(&path, &line) {
                    tracing::debug!(%error, "the standard error of an MCP server could not be kept");
                }
            }
        });
        Self { lines }
    }

    pub fn say(&self, line: String) {
        let _ = self.lines.try_send(line);
    }

    /// Takes all that comes until it ends.
    pub async fn follow(self, server: String, redactor: ErrorRedactor, mut from: impl AsyncRead + Unpin) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 4096];
        loop {
            let read = match from.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            for byte in &chunk[..read] {
                match byte {
                    b'\n' => self.end(&server, &redactor, &mut line),
                    byte if line.len() < LINE_LENGTH_MAX => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.end(&server, &redactor, &mut line);
    }

    fn end(&self, server: &str, redactor: &ErrorRedactor, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        if !text.trim().is_empty() {
            self.say(format!("[{server}] {}", redactor.clean(text.trim_end())));
        }
        line.clear();
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = private_files::file_options().create(true).append(true).open(path)?;
    if file.metadata()?.len() > FILE_LENGTH_MAX {
        fs::rename(path, older(path))?;
        file = private_files::file_options().create(true).append(true).open(path)?;
    }
    writeln!(file, "{line}")
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_stays_bounded() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("logs/mcp-stderr.log");
        let line = "x".repeat(1024 * 1024);
        for _ in 0..14 {
            append(&path, &line).unwrap();
        }
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(length(&path) + length(&older(&path)) < 2 * FILE_LENGTH_MAX + 3 * 1024 * 1024);
    }

    #[tokio::test]
    async fn p31_secrets_of_a_server_do_not_reach_its_log() {
        let home = tempfile::tempdir().unwrap();
        let log = ServerLog::open(home.path());
        log.clone().follow("s".into(), ErrorRedactor::default(), &b"one token=abcdef\n\ntwo"[..]).await;
        drop(log);
        let path = home.path().join("logs/mcp-stderr.log");
        let mut text = String::new();
        for _ in 0..200 {
            text = fs::read_to_string(&path).unwrap_or_default();
            if text.contains("two") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(text, "[s] one [REDACTED]\n[s] two\n");
    }
}
