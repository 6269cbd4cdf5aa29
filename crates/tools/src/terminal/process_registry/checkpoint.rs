//! `processes.json`: what runs, for the gateway that comes after this one.
//!
//! The format is Hermes', with two fields more: whose session it is, and the pipe its output goes
//! through. Entries that Hermes wrote are its own: they stay while their processes live, and no
//! tool here shows them.

use super::super::process_group::ProcessIdentity;
use super::{BackgroundProcess, ProcessRequest, StartedProcess};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use throughline_core::id::SessionId;
use throughline_core::input::Trace;

pub struct Checkpoint {
    path: PathBuf,
    /// The directory of the pipes.
    pipes: PathBuf,
    /// Hermes' entries. Locked while the file is written, so that the newest state is the last.
    foreign: Mutex<Vec<Value>>,
}

pub struct RecoveredProcesses {
    pub alive: Vec<Arc<BackgroundProcess>>,
    /// Ended while no gateway ran: how is unknown.
    pub lost: Vec<Arc<BackgroundProcess>>,
}

impl Checkpoint {
    pub fn new(path: PathBuf, pipes: PathBuf) -> Self {
        Self { path, pipes, foreign: Mutex::default() }
    }

    pub fn recover(&self) -> RecoveredProcesses {
        let entries = match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice::<Vec<Value>>(&bytes).unwrap_or_else(|error| {
                tracing::warn!(path = %self.path.display(), %error, "the list of background processes cannot be read; beginning a new one");
                Vec::new()
            }),
            Err(_) => Vec::new(),
        };
        let mut found = RecoveredProcesses { alive: Vec::new(), lost: Vec::new() };
        for entry in entries {
            let Some(identity) = identity_of(&entry) else { continue };
            match process_of(&entry, identity) {
                None if is_here(&entry) && identity.is_alive() => super::locked(&self.foreign).push(entry),
                None => {}
                Some(process) if identity.is_alive() && identity.start.is_some() => {
                    found.alive.push(Arc::new(process))
                }
                Some(process) => found.lost.push(Arc::new(process)),
            }
        }
        self.clear_pipes(&found.alive);
        found
    }

    fn clear_pipes(&self, alive: &[Arc<BackgroundProcess>]) {
        let kept = alive.iter().filter_map(|process| process.pipe.clone()).collect::<BTreeSet<_>>();
        let Ok(entries) = std::fs::read_dir(&self.pipes) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "fifo") && !kept.contains(&path) {
                let _ = std::fs::remove_file(path); // the next start tries again
            }
        }
    }

    /// Replaces the file in one step. A failure costs the recovery, not the process.
    pub fn write(&self, processes: &[Arc<BackgroundProcess>]) {
        let foreign = super::locked(&self.foreign);
        let running = processes.iter().filter(|process| !process.is_over()).map(|process| entry_of(process));
        let entries = foreign.iter().cloned().chain(running).collect::<Vec<_>>();
        if entries.is_empty() && !self.path.exists() {
            return;
        }
        if let Err(error) = self.replace(&entries) {
            tracing::warn!(path = %self.path.display(), %error, "the list of background processes could not be written");
        }
    }

    /// Commands may hold secrets: the file is the owner's alone.
    fn replace(&self, entries: &[Value]) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(&self.pipes);
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut file, entries)?;
        file.flush()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn entry_of(process: &BackgroundProcess) -> Value {
    let life = process.life();
    json!({
        "session_id": process.id,
        "command": process.command,
        "pid": process.identity.pid,
        "pid_scope": "host",
        "host_start_time": process.identity.start,
        "cwd": process.cwd,
        "started_at": process.started_at,
        "task_id": "default",
        "session_key": process.session.as_str(),
        "watcher_platform": "",
        "watcher_chat_id": "",
        "watcher_user_id": "",
        "watcher_user_name": "",
        "watcher_thread_id": "",
        "watcher_message_id": "",
        "watcher_interval": 0,
        "notify_on_complete": life.notify_on_complete,
        "watch_patterns": life.watch.patterns,
        "throughline_session": process.session.as_str(),
        "throughline_pipe": process.pipe,
    })
}

fn identity_of(entry: &Value) -> Option<ProcessIdentity> {
    let pid = u32::try_from(entry.get("pid")?.as_u64()?).ok().filter(|pid| *pid > 0)?;
    Some(ProcessIdentity { pid, start: entry.get("host_start_time").and_then(Value::as_u64) })
}

fn is_here(entry: &Value) -> bool {
    entry.get("pid_scope").and_then(Value::as_str).is_none_or(|scope| scope == "host")
}

/// None: Hermes', or not to be read.
fn process_of(entry: &Value, identity: ProcessIdentity) -> Option<BackgroundProcess> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let session = text("throughline_session")?.parse::<SessionId>().ok()?;
    let patterns = entry.get("watch_patterns").and_then(Value::as_array).cloned().unwrap_or_default();
    let wish = ProcessRequest {
        command: text("command").unwrap_or("unknown").to_owned(),
        cwd: text("cwd").unwrap_or_default().to_owned(),
        notify_on_complete: entry.get("notify_on_complete").and_then(Value::as_bool).unwrap_or(false),
        watch_patterns: patterns.iter().filter_map(|pattern| pattern.as_str().map(String::from)).collect(),
        trace: Trace {
            origin: format!("process/{}", text("session_id").unwrap_or_default()).into(),
            ..Trace::default()
        },
    };
    let started = StartedProcess {
        id: text("session_id")?.to_owned(),
        child: None,
        identity,
        source: None,
        input: None,
        pipe: text("throughline_pipe").map(PathBuf::from),
        lease: None,
    };
    let process = BackgroundProcess::new(session, started, wish);
    Some(match entry.get("started_at").and_then(Value::as_f64) {
        Some(seconds) => process.started_at(seconds),
        None => process,
    })
}
