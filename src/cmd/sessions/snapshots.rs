//! `throughline sessions snapshots` and `restore`: what compressions have kept, and how it comes back.
//!
//! A snapshot is named in full: its name is an address. Restoring is the one thing here that writes; on
//! a home with a running gateway it is the gateway that does it.

use super::{find, heading, said};
use crate::client::Client;
use crate::out::{Column, Page, Table, Tint, one_line, write_json};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use throughline_core::compression::{Kind, weight_restored};
use throughline_core::id::SNAPSHOT_INFIX;
use throughline_core::port::{Commit, Read, SessionFilter, Snapshot, SnapshotSummary, Store, StoreError};
use throughline_core::session::{Act, Event, Phase, Rules};
use throughline_core::{SessionId, Time};
use throughline_hermes::row::message_to_json;

/// List what was kept when a session was compressed or restored
#[derive(Debug, clap::Args)]
pub struct Snapshots {
    /// Its id, or the beginning of it
    session: String,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Snapshots {
    pub fn run(self, store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let id = match owner_of(&self.session) {
            Some(owner) => find(store, owner)?.id,
            None => find(store, &self.session)?.id,
        };
        let found = store.snapshots(&id)?;
        if self.json {
            write_json(&found.iter().map(in_json).collect(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if found.is_empty() {
            writeln!(out, "{id} has no snapshots: it was never compressed.")?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            Column::text("SNAPSHOT"),
            Column::text("TAKEN"),
            Column::number("MESSAGES"),
            Column::text("WHAT FOLLOWED"),
        ]);
        for snapshot in &found {
            table.row([
                snapshot.name.clone(),
                page.minute(snapshot.at),
                snapshot.messages.to_string(),
                what_followed(snapshot),
            ]);
        }
        table.write(page, out)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `a summary: 194 messages became 24`
fn what_followed(snapshot: &SnapshotSummary) -> String {
    let what = match snapshot.kind {
        Kind::Summary => "a summary",
        Kind::Digest => "a digest made without a model",
        Kind::Restored => "a restore",
        Kind::Undone => "what was taken back",
        Kind::Mended => "a repair",
    };
    format!("{what}: {} messages became {}", snapshot.messages_before, snapshot.messages_after)
}

/// Whether a name has the form of a snapshot's, and the session in it.
pub fn owner_of(name: &str) -> Option<&str> {
    name.trim().split_once(SNAPSHOT_INFIX).map(|(owner, _)| owner)
}

/// The snapshot of this name, or words about what there is instead.
pub fn find_snapshot(store: &dyn Read, name: &str) -> anyhow::Result<Snapshot> {
    let name = name.trim();
    if let Some(found) = store.snapshot(name)? {
        return Ok(found);
    }
    let Some(owner) = owner_of(name) else {
        let summary = find(store, name)?;
        bail!(
            "{} is a session, not a snapshot; `throughline sessions snapshots {}` lists what was kept of it",
            summary.id,
            summary.id
        );
    };
    let id = find(store, owner)?.id;
    let known = store.snapshots(&id)?;
    if known.is_empty() {
        bail!("there is no snapshot {}: {id} was never compressed", one_line(name));
    }
    let names: String = known.iter().rev().take(6).map(|found| format!("\n  {}", found.name)).collect();
    bail!("there is no snapshot {}. {id} has, latest first:{names}", one_line(name));
}

pub fn show_json(snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\n\"snapshot\": {},\n\"messages\": [", in_json(&snapshot.summary))?;
    for (i, (row, message)) in snapshot.rows.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(out, "{comma}\n{{\"row\": {row}, \"message\": {}}}", message_to_json(message))?;
    }
    writeln!(out, "\n]\n}}")
}

pub fn show_text(snapshot: &Snapshot, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let Snapshot { summary, rows } = snapshot;
    writeln!(out, "{}", page.paint(Tint::Bold, &one_line(&summary.name)))?;
    let facts = facts(summary, rows.len(), page);
    writeln!(out, "{}", page.paint(Tint::Dim, &facts))?;
    let mut day = String::new();
    for (_, message) in rows {
        let today = page.day(message.at);
        if today != day {
            writeln!(out, "\n{}", page.paint(Tint::Dim, &format!("— {today} —")))?;
            day = today;
        }
        writeln!(out, "\n{}", heading(message, page))?;
        out.write_all(said(message).as_bytes())?;
    }
    Ok(())
}

/// `Of session a, taken 2026-05-28 09:35, 4 messages; then a summary: 4 messages became 3`
pub fn facts(summary: &SnapshotSummary, rows: usize, page: &Page) -> String {
    let (session, taken, then) = (&summary.session, page.minute(summary.at), what_followed(summary));
    format!("Of session {session}, taken {taken}, {rows} messages; then {then}")
}

/// By the names that a list of sessions has, where it has them.
pub fn in_json(snapshot: &SnapshotSummary) -> Value {
    json!({
        "name": snapshot.name,
        "session_id": snapshot.session.as_str(),
        "view": snapshot.view.0,
        "operation": snapshot.operation,
        "taken_at": snapshot.at.as_seconds(),
        "followed_by": snapshot.kind.to_string(),
        "message_count": snapshot.messages,
        "messages_before": snapshot.messages_before,
        "messages_after": snapshot.messages_after,
        "tokens_before": snapshot.tokens_before,
        "tokens_after": snapshot.tokens_after,
        "remark": snapshot.remark,
    })
}

// ---------------------------------------------------------------------------------------- restore

/// Make a snapshot the view of its session again, with all that was said since
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// The snapshot's name
    snapshot: String,
}

impl Restore {
    /// Which session and which snapshot are meant.
    pub fn meant(&self, store: &dyn Read) -> anyhow::Result<(SessionId, String)> {
        let Snapshot { summary, .. } = find_snapshot(store, &self.snapshot)?;
        Ok((summary.session, summary.name))
    }

    /// On a home that this process owns.
    pub fn here(&self, store: &mut dyn Store, now: Time, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let Snapshot { summary, rows } = find_snapshot(store.reader(), &self.snapshot)?;
        let (session, snapshot) = (summary.session, summary.name);
        if rows.len() < summary.messages {
            let gone = summary.messages - rows.len();
            bail!("{gone} messages of {snapshot} were deleted by another program: it cannot be restored");
        }
        let loaded =
            store.reader().load(&session)?.with_context(|| format!("there is no session {session}"))?;
        if let Some(reason) = &loaded.ended {
            bail!(
                "{session} has ended ({reason}) and stays as it is; `throughline sessions show {snapshot}` shows what was kept"
            );
        }
        let before = loaded.session;
        let rules = Rules::default();
        let (owned, mut acts) = before.step(Event::Loaded { repeatable: Vec::new() }, now, &rules);
        if matches!(before.phase, Phase::Turn(_)) || matches!(owned.phase, Phase::Turn(_)) {
            bail!(
                "a turn is under way in {session}; nothing was changed. Start the gateway, let the turn end, and try again"
            );
        }
        let live = store.reader().history(&session)?;
        let later = store.reader().kept_since(&session, &snapshot)?;
        let context = weight_restored(owned.upkeep.context, &live, &rows, &later);
        let (next, more) = owned.step(Event::Restored { snapshot: snapshot.clone(), context }, now, &rules);
        acts.extend(more);
        if !acts.iter().any(|act| matches!(act, Act::Restore { .. })) {
            bail!("{session} cannot be restored as it stands; nothing was changed");
        }
        let commit = Commit::Session { expect: before.generation, state: Box::new(next), acts, at: now };
        match store.commit(&[commit]).into_iter().next() {
            Some(Ok(_)) => {}
            Some(Err(StoreError::Fenced { .. })) | None => {
                bail!("another program has changed {session} meanwhile; nothing was changed. Try again")
            }
            Some(Err(error)) => return Err(error).with_context(|| format!("{snapshot} was not restored")),
        }
        store.close(now)?;
        told(store.reader(), &session, &snapshot, out)
    }

    /// On a home that a gateway has.
    pub async fn there(
        &self,
        store: &dyn Read,
        gateway: &Client,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let (session, snapshot) = self.meant(store)?;
        gateway.restore(&session, &snapshot).await?;
        told(store, &session, &snapshot, out)
    }
}

/// As the store has counted it.
fn told(
    store: &dyn Read,
    session: &SessionId,
    snapshot: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let kept = store.snapshots(session)?.pop().context("the restore left no trace")?;
    writeln!(
        out,
        "{session} is as in {snapshot} again, with all that was said since: {} messages are {} now. \
         What was there before is kept as {}; restore that to undo this.",
        kept.messages_before, kept.messages_after, kept.name
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A search within one snapshot.
pub fn only_in(store: &dyn Read, snapshot: Option<String>) -> anyhow::Result<SessionFilter> {
    let snapshot = match snapshot {
        Some(name) => Some(find_snapshot(store, &name)?.summary.name),
        None => None,
    };
    Ok(SessionFilter { snapshot, ..SessionFilter::default() })
}
