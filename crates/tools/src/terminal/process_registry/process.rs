//! One background process.

use super::super::output::{Decoder, last_chars};
use super::super::output_watch::OutputWatch;
use super::super::process_group::{ProcessIdentity, code_of};
use super::super::pty::PtyInput;
use super::{ProcessRequest, StartedProcess, locked};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_core::id::SessionId;
use throughline_core::input::Trace;
use tokio::sync::watch;

/// As much of its output as is kept: Hermes' number.
const OUTPUT_MAX_CHARS: usize = 200_000;

/// What a shell says when it starts without a terminal.
const SHELL_NOISE: [&str; 3] = [
    "cannot set terminal process group",
    "no job control in this shell",
    "tcsetattr: Inappropriate ioctl for device",
];

pub struct BackgroundProcess {
    pub id: String,
    pub command: String,
    pub cwd: String,
    pub session: SessionId,
    /// The message it was started for.
    pub trace: Trace,
    pub identity: ProcessIdentity,
    /// Unix seconds.
    pub started_at: f64,
    /// Left over from an earlier gateway: not our child, so its exit code stays unknown.
    pub is_detached: bool,
    pub pipe: Option<PathBuf>,
    pub input: Option<PtyInput>,
    pub ended: watch::Sender<bool>,
    life: Mutex<ProcessState>,
    _lease: Option<Arc<()>>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    pub code: Option<i32>,
    pub reason: &'static str,
    pub source: &'static str,
}

impl ProcessEnd {
    pub fn tell(self, result: &mut Value) {
        result["exit_code"] = json!(self.code);
        result["completion_reason"] = json!(self.reason);
        result["termination_source"] = json!(self.source);
    }
}

/// What changes about a process.
#[derive(Default)]
pub struct ProcessState {
    pub child: Option<Child>,
    code: Option<i32>,
    pub ending: Option<ProcessEnd>,
    pub notify_on_complete: bool,
    pub watch: OutputWatch,
    /// Who has begun to end it.
    pub killed_by: Option<&'static str>,
    /// How many wait for its end.
    pub waiting: usize,
    /// The model has the end in hand.
    pub is_consumed: bool,
    is_told: bool,
    decoder: Decoder,
    text: String,
    chars: usize,
    has_spoken: bool,
}

impl BackgroundProcess {
    pub fn new(session: SessionId, started: StartedProcess, wish: ProcessRequest) -> Self {
        let is_detached = started.child.is_none();
        let life = ProcessState {
            child: started.child,
            notify_on_complete: wish.notify_on_complete,
            watch: OutputWatch::over(wish.watch_patterns),
            ..ProcessState::default()
        };
        Self {
            id: started.id,
            command: wish.command,
            cwd: wish.cwd,
            session,
            trace: wish.trace,
            identity: started.identity,
            started_at: seconds_now(),
            is_detached,
            pipe: started.pipe,
            input: started.input,
            ended: watch::Sender::new(false),
            life: Mutex::new(life),
            _lease: started.lease,
        }
    }

    pub fn started_at(mut self, seconds: f64) -> Self {
        self.started_at = seconds;
        self
    }

    pub fn life(&self) -> MutexGuard<'_, ProcessState> {
        locked(&self.life)
    }

    pub fn is_over(&self) -> bool {
        self.life().ending.is_some()
    }

    pub fn age(&self) -> Duration {
        Duration::try_from_secs_f64(seconds_now() - self.started_at).unwrap_or_default()
    }

    /// Its exit code, once it has ended: `Some(None)` where it cannot be known.
    pub fn try_wait(&self) -> Option<Option<i32>> {
        let mut life = self.life();
        if life.code.is_some() {
            return Some(life.code);
        }
        let Some(child) = &mut life.child else { return (!self.identity.is_alive()).then_some(None) };
        match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => {
                life.child = None;
                life.code = Some(code_of(status));
                Some(life.code)
            }
            Err(_) => Some(None),
        }
    }

    pub fn remove_pipe(&self) {
        if let Some(pipe) = &self.pipe {
            let _ = std::fs::remove_file(pipe); // the next start clears what is left
        }
    }
}

impl ProcessState {
    pub fn status(&self) -> &'static str {
        if self.ending.is_some() { "exited" } else { "running" }
    }

    pub fn text(&self) -> &str {
        last_chars(&self.text, OUTPUT_MAX_CHARS)
    }

    /// Takes in what was written, and returns it as text.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = self.decoder.decode(bytes);
        if !self.has_spoken && !text.is_empty() {
            text = without_noise(&text).to_owned();
            self.has_spoken = !text.is_empty();
        }
        self.text.push_str(&text);
        self.chars += text.chars().count();
        if self.chars > 2 * OUTPUT_MAX_CHARS {
            self.text = last_chars(&self.text, OUTPUT_MAX_CHARS).to_owned();
            self.chars = OUTPUT_MAX_CHARS;
        }
        text
    }

    /// Whether the end is news for the session; asked once, it is news no longer.
    pub fn takes_notice(&mut self) -> bool {
        let is_news = self.notify_on_complete && !self.is_consumed && !self.is_told && self.waiting == 0;
        self.is_told |= is_news;
        is_news
    }
}

fn without_noise(text: &str) -> &str {
    let mut rest = text;
    while let Some((first, after)) = rest.split_once('\n') {
        match SHELL_NOISE.iter().any(|noise| first.contains(noise)) {
            true => rest = after,
            false => break,
        }
    }
    rest
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_says_without_a_terminal_is_left_out() {
        let mut life = ProcessState::default();
        life.push(b"bash: cannot set terminal process group (-1): Inappropriate ioctl for device\n");
        life.push(b"bash: no job control in this shell\nhello\n");
        life.push(b"no job control in this shell\n");
        assert_eq!(life.text(), "hello\nno job control in this shell\n");
    }

    #[test]
    fn output_rolls_within_its_bound() {
        let mut life = ProcessState::default();
        for number in 0..100_000 {
            life.push(format!("line {number}\n").as_bytes());
        }
        assert_eq!(life.text().chars().count(), OUTPUT_MAX_CHARS);
        assert!(life.text().ends_with("line 99999\n") && life.text.len() <= 2 * OUTPUT_MAX_CHARS + 16);
    }
}
