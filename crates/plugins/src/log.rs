//! What a plugin says beside the protocol: its standard error, and its `log` messages, in `plugin.log` of
//! its directory.
//!
//! - secrets are cut out: those that are known by their looks, and all that this very plugin was given
//! - the file is cut in two before it grows large
//! - a plugin that talks faster than it is written down waits; the gateway's memory does not grow

use crate::json_rpc::RateLimiter;
use crate::settings::{PluginSettings, is_common};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use throughline_core::redact::redacted;
use throughline_private_files as private_files;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// Enough to see how the last few starts went; twice this is on disk at most.
const FILE_LENGTH_MAX: u64 = 2 << 20;
/// A longer line is cut: it is a dump, not a message.
const LINE_LENGTH_MAX: usize = 8 << 10;
const CHUNK: usize = 8 << 10;
/// Lines on their way to the disk.
const WAITING_MAX: usize = 128;
/// Kilobytes that may come at once, and each second after them.
const STORE: u32 = 1024;
const PER_SECOND: u32 = 256;

/// The name of the log in a plugin's directory.
pub const FILE: &str = "plugin.log";

/// Takes out what must not be in a log or an error.
#[derive(Clone, Default)]
pub struct PluginRedactor {
    /// The longest first: one may contain another.
    values: Vec<String>,
}

/// Shorter values are words (`true`, `debug`), which would tear holes into every sentence.
const VALUE_LENGTH_MIN: usize = 8;

impl PluginRedactor {
    pub fn new(settings: &PluginSettings) -> Self {
        let given = settings.environment.iter().filter(|(name, _)| !is_common(name));
        let mut values: Vec<String> = given.map(|(_, value)| value.trim().to_owned()).collect();
        gather(&settings.settings, false, &mut values);
        // Places are given to plugins as often as secrets are, and an error without them says nothing.
        values.retain(|value| value.len() >= VALUE_LENGTH_MIN && !value.starts_with(['/', '~', '.']));
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.values.iter() {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), "[REDACTED]");
            }
        }
        redacted(&text)
    }
}

/// Of what the user wrote for a plugin, that which is called a secret.
fn gather(settings: &Value, secret: bool, values: &mut Vec<String>) {
    match settings {
        Value::String(text) if secret => values.push(text.trim().to_owned()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, secret, values)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase();
                let kinds = ["key", "token", "secret", "password", "credential"];
                gather(value, secret || kinds.iter().any(|kind| name.contains(kind)), values);
            }
        }
        _ => {}
    }
}

#[derive(Clone)]
pub(crate) struct PluginLog {
    plugin: Arc<str>,
    redactor: PluginRedactor,
    lines: mpsc::Sender<String>,
    last: Arc<Mutex<String>>,
}

impl PluginLog {
    pub fn new(plugin: &str, redactor: PluginRedactor) -> (Self, mpsc::Receiver<String>) {
        let (lines, waiting) = mpsc::channel(WAITING_MAX);
        (Self { plugin: plugin.into(), redactor, lines, last: Arc::default() }, waiting)
    }

    /// What comes faster than the disk takes it is dropped.
    pub fn say(&self, line: &str) {
        let _ = self.lines.try_send(self.redactor.clean(cut(line)));
    }

    /// The last words of its standard error: where a process has died they say why.
    pub fn last(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(last).filter(|last| !last.is_empty())
    }

    /// Takes all that comes until it ends, and writes it down.
    pub async fn follow(
        self,
        directory: PathBuf,
        mut from: impl AsyncRead + Unpin,
        mut waiting: mpsc::Receiver<String>,
    ) {
        let mut partial = Vec::new();
        let mut chunk = vec![0; CHUNK];
        let mut pace = RateLimiter::new(STORE, PER_SECOND);
        loop {
            let mut lines = Vec::new();
            let mut is_over = false;
            tokio::select! {
                read = from.read(&mut chunk) => match read {
                    Ok(0) | Err(_) => is_over = true,
                    Ok(read) => {
                        for byte in &chunk[..read] {
                            match byte {
                                b'\n' => lines.extend(self.ended(&mut partial)),
                                byte if partial.len() < LINE_LENGTH_MAX => partial.push(*byte),
                                _ => {}
                            }
                        }
                        let kilobytes = u32::try_from(read.div_ceil(1024)).unwrap_or(u32::MAX);
                        if let Some(wait) = pace.spend(kilobytes, Instant::now()) {
                            tokio::time::sleep(wait).await;
                        }
                    }
                },
                Some(line) = waiting.recv() => lines.push(line),
            }
            while let Ok(line) = waiting.try_recv() {
                lines.push(line);
            }
            if is_over {
                lines.extend(self.ended(&mut partial));
            }
            if !lines.is_empty() {
                let path = directory.join(FILE);
                let written = tokio::task::spawn_blocking(move || append(&path, &lines)).await;
                if let Ok(Err(error)) = written {
                    tracing::debug!(plugin = %self.plugin, %error, "the log of a plugin could not be written");
                }
            }
            if is_over {
                return;
            }
        }
    }

    fn ended(&self, line: &mut Vec<u8>) -> Option<String> {
        let text = self.redactor.clean(String::from_utf8_lossy(line).trim_end());
        line.clear();
        if text.trim().is_empty() {
            return None;
        }
        tracing::debug!(plugin = %self.plugin, "{text}");
        text.trim().clone_into(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        Some(text)
    }
}

fn cut(line: &str) -> &str {
    let mut end = line.len().min(LINE_LENGTH_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

fn append(path: &Path, lines: &[String]) -> io::Result<()> {
    let open = || private_files::file_options().create(true).append(true).open(path);
    let mut file = open()?;
    if file.metadata()?.len() > FILE_LENGTH_MAX {
        fs::rename(path, path.with_extension("log.1"))?;
        file = open()?;
    }
    let mut text = lines.join("\n");
    text.push('\n');
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn p31_secrets_of_a_plugin_do_not_reach_its_log() {
        let home = tempfile::tempdir().unwrap();
        let mut settings = PluginSettings::new("p", vec![], home.path().to_owned());
        settings.environment = [("THEIRS".to_owned(), "hunter2-hunter2".to_owned())].into();
        settings.settings =
            serde_json::json!({"nested": {"api_key": "abcdefgh-ijkl"}, "mode": "long-word-here"});
        let (log, waiting) = PluginLog::new("p", PluginRedactor::new(&settings));
        let errors = b"one hunter2-hunter2\n\ntwo abcdefgh-ijkl in long-word-here\nlast";
        log.clone().follow(home.path().to_owned(), &errors[..], waiting).await;
        let text = fs::read_to_string(home.path().join(FILE)).unwrap();
        assert_eq!(text, "one [REDACTED]\ntwo [REDACTED] in long-word-here\nlast\n");
        assert_eq!(log.last().as_deref(), Some("last"));
    }

    #[test]
    fn the_file_stays_bounded() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        let lines = vec!["x".repeat(1 << 20)];
        for _ in 0..9 {
            append(&path, &lines).unwrap();
        }
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(length(&path) + length(&path.with_extension("log.1")) < 2 * FILE_LENGTH_MAX + (3 << 20));
    }
}
