//! `throughline prune`: what may go of a home, and only on request.
//!
//! Without `--yes` it only tells. Nothing goes that a person waits for or that a chat leads to; what that is, the store
//! says. A gateway that runs owns its home: pruning waits until it does not.
//!
//! Deliberately absent: snapshots of sessions that stay (P11), and what is not in the database or among old logs.

use crate::interrupt;
use crate::out::{Column, Page, Table, one_line, write_json};
use crate::span::Span;
use anyhow::Context;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use throughline_core::port::Store;
use throughline_core::{SessionId, Time};
use throughline_store::{Owed, Prunable, StoreReader, StoreWriter};
use throughline_upkeep::progress::{Progress, size};

/// Delete what is over and old: first look, then say --yes
#[derive(Debug, clap::Args)]
pub struct Prune {
    /// What ended or happened before that: 90d, 12h, 2w …
    #[arg(long, value_name = "SPAN", default_value = "90d")]
    older_than: Span,

    /// Conversations that have ended, with their snapshots; so if nothing else is named
    #[arg(long)]
    ended: bool,

    /// What was noted about messages on their way, which `why` tells
    #[arg(long)]
    events: bool,

    /// Logs that were rotated away
    #[arg(long)]
    logs: bool,

    /// Only tell what would go; so without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Delete it
    #[arg(long)]
    yes: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What may go, by what was asked for.
pub struct FoundToPrune {
    before: Time,
    sessions: Vec<Prunable>,
    owed: Vec<Owed>,
    events: u64,
    logs: Vec<(PathBuf, u64)>,
}

impl Prune {
    /// Whether anything is to be deleted, and not only told.
    pub fn deletes(&self) -> bool {
        self.yes
    }

    fn before(&self, now: Time) -> Time {
        let span = i64::try_from(self.older_than.0.as_micros()).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(span))
    }

    pub fn look(&self, home: &Path, store: &StoreReader, now: Time) -> anyhow::Result<FoundToPrune> {
        let before = self.before(now);
        let wants_ended = self.ended || !(self.events || self.logs);
        let (sessions, owed) = match wants_ended {
            true => store.prunable(before)?,
            false => Default::default(),
        };
        let events = if self.events { store.events_before(before)? } else { 0 };
        let logs = if self.logs { old_logs(&home.join("logs"), self.older_than.0) } else { Vec::new() };
        Ok(FoundToPrune { before, sessions, owed, events, logs })
    }

    /// Tells what would go.
    pub fn tell(&self, found: &FoundToPrune, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        if self.json {
            write_json(&found.in_json(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            Column::text("SESSION"),
            Column::flexible("TITLE"),
            Column::number("ROWS"),
            Column::number("BYTES"),
            Column::text("ENDED"),
        ]);
        for session in &found.sessions {
            table.row([
                session.session.to_string(),
                one_line(session.title.as_deref().unwrap_or_default()).to_string(),
                session.rows.to_string(),
                size(session.bytes),
                page.minute(session.ended),
            ]);
        }
        if !found.sessions.is_empty() {
            table.write(page, out)?;
        }
        for owed in &found.owed {
            writeln!(out, "stays  {}: {}", owed.session, owed.why)?;
        }
        writeln!(out, "{}", found.in_words("would go"))?;
        if !found.is_nothing() {
            writeln!(
                out,
                "Nothing was deleted. Do it with --yes; `throughline backup` first keeps a way back."
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Deletes it, and tells what went.
    pub fn run(
        &self,
        home: &Path,
        found: FoundToPrune,
        store: &mut StoreWriter,
        now: Time,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let mut gone =
            FoundToPrune { sessions: Vec::new(), owed: found.owed, logs: Vec::new(), events: 0, ..found };
        interrupt::explain("What went is gone, each session whole. Run the same command again to go on.");
        let mut progress = Progress::new("sessions", found.sessions.len() as u64);
        for session in found.sessions {
            if store.prune(&session.session, found.before).with_context(|| format!("{}", session.session))? {
                forget_files(&home.join("sessions"), &session.session);
                gone.sessions.push(session);
            }
            progress.advance(1);
        }
        drop(progress);
        let mut progress = Progress::new("events", found.events);
        if self.events {
            loop {
                let went = store.prune_events(found.before)?;
                if went == 0 {
                    break;
                }
                gone.events += went;
                progress.advance(went);
            }
        }
        drop(progress);
        for (log, bytes) in found.logs {
            fs::remove_file(&log).with_context(|| format!("could not delete {}", log.display()))?;
            gone.logs.push((log, bytes));
        }
        store.close(now)?;
        match self.json {
            true => write_json(&gone.in_json(), out)?,
            false => {
                writeln!(out, "{}", gone.in_words("gone"))?;
                writeln!(out, "The database keeps its size; what is free in it is used again.")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl FoundToPrune {
    fn is_nothing(&self) -> bool {
        self.sessions.is_empty() && self.events == 0 && self.logs.is_empty()
    }

    fn in_words(&self, verb: &str) -> String {
        let rows: u64 = self.sessions.iter().map(|session| session.rows).sum();
        let bytes: u64 = self.sessions.iter().map(|session| session.bytes).sum();
        let logs: u64 = self.logs.iter().map(|(_, bytes)| bytes).sum();
        let mut parts = vec![format!("{} sessions, {rows} rows, {}", self.sessions.len(), size(bytes))];
        if self.events > 0 {
            parts.push(format!("{} events", self.events));
        }
        if !self.logs.is_empty() {
            parts.push(format!("{} old logs, {}", self.logs.len(), size(logs)));
        }
        format!("{verb}: {}", parts.join("; "))
    }

    fn in_json(&self) -> serde_json::Value {
        json!({
            "sessions": self.sessions.iter().map(|session| json!({
                "id": session.session.as_str(),
                "title": session.title,
                "ended_at": session.ended.as_seconds(),
                "rows": session.rows,
                "bytes": session.bytes,
            })).collect::<Vec<_>>(),
            "kept": self.owed.iter().map(|owed| json!({"id": owed.session.as_str(), "why": owed.why})).collect::<Vec<_>>(),
            "events": self.events,
            "logs": self.logs.iter().map(|(path, bytes)| json!({"path": path.display().to_string(), "bytes": bytes})).collect::<Vec<_>>(),
        })
    }
}

/// What Hermes left beside the database about a session.
fn forget_files(directory: &Path, session: &SessionId) {
    let dump = format!("request_dump_{session}_");
    let own = [format!("{session}.json"), format!("{session}.jsonl"), format!("session_{session}.json")];
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if own.contains(&name) || (name.starts_with(&dump) && name.ends_with(".json")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Never one that is being written: `agent.log` itself stays, `agent.log.3` and `agent.log-20260101.gz` may go.
fn old_logs(directory: &Path, age: Duration) -> Vec<(PathBuf, u64)> {
    let Some(before) = SystemTime::now().checked_sub(age) else { return Vec::new() };
    let mut old = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_rotated = name.split_once(".log").is_some_and(|(_, rest)| rest.starts_with(['.', '-']));
        let Ok(about) = entry.metadata() else { continue };
        let is_old = about.modified().is_ok_and(|changed| changed < before);
        if is_rotated && is_old && about.is_file() {
            old.push((entry.path(), about.len()));
        }
    }
    old.sort();
    old
}
