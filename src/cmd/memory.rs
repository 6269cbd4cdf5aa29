//! `throughline memory`: what an agent remembers in its home's files, where that comes from, and what is gone.
//!
//! Works on the files, with or without a running gateway. `/memory` in a chat is the same commands, run by
//! the gateway for those whose memory it is ([`Typed`]); only what would write a file elsewhere is missing there.

use crate::cmd::jobs::{Jobs, Retry};
use crate::cmd::sessions::{Existing, write_file};
use crate::cmd::status::remembering;
use crate::out::{Page, Tint, indented, one_line, visible, write_json};
use anyhow::{anyhow, bail, ensure};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_app::host_commands::{MemoryCommands, TypedMemory};
use throughline_core::Time;
use throughline_core::port::Promise;
use throughline_memory::{
    self as memory, EntryEvent, EntryOrigin, EntryRecord, EntryWriter, MemoryEntry, MemoryStatus,
    MemoryTarget, PastEntry, PastId, PendingWrite,
};

#[derive(Debug, clap::Subcommand)]
pub enum Memory {
    Status(Overview),
    Show(Show),
    History(History),
    Restore(Restore),
    Export(Export),
    Pending(Waiting),
    Approve(Approve),
    Reject(Reject),
    Jobs(Jobs),
    Retry(Retry),
}

/// Show how full memory is, and what was last changed
#[derive(Debug, clap::Args)]
pub struct Overview {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Show what is remembered, and where it comes from
#[derive(Debug, clap::Args)]
pub struct Show {
    /// memory or user; both if not given
    target: Option<MemoryTarget>,
    /// Only what is remembered
    #[arg(long)]
    brief: bool,
    /// As JSON
    #[arg(long, conflicts_with = "brief")]
    json: bool,
}

/// Show what was removed or replaced
#[derive(Debug, clap::Args)]
pub struct History {
    /// memory or user; both if not given
    target: Option<MemoryTarget>,
    /// Also what was added or put back
    #[arg(long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Put an entry back that the history shows
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// As the history names it: memory-3, user-1 …
    entry: PastId,
}

/// Write everything to one JSON document: files, entries, history, and what waits
#[derive(Debug, clap::Args)]
pub struct Export {
    /// Write to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// Show writes that wait for approval (memory.write_approval)
#[derive(Debug, clap::Args)]
pub struct Waiting {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Do what waits
#[derive(Debug, clap::Args)]
pub struct Approve {
    /// Its id, as `memory pending` shows it, or `all`
    id: String,
}

/// Forget what waits
#[derive(Debug, clap::Args)]
pub struct Reject {
    /// Its id, as `memory pending` shows it, or `all`
    id: String,
}

/// Who orders it, and when.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOrder<'a> {
    /// The surface it comes through.
    pub source: &'a str,
    pub now: Time,
}

impl Memory {
    /// A person wants to know how memory is, not what is in it.
    pub fn tells_of_provider(&self) -> bool {
        matches!(self, Memory::Status(Overview { json: false }) | Memory::Show(Show { brief: true, .. }))
    }

    pub fn run(
        self,
        memory: &memory::Memory,
        order: MemoryOrder<'_>,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        match self {
            Memory::Status(status) => status.run(memory, None, page, out)?,
            Memory::Show(show) => show.run(memory, page, out)?,
            Memory::History(history) => history.run(memory, page, out)?,
            Memory::Restore(restore) => restore.run(memory, order, out)?,
            Memory::Export(export) => export.run(memory, out)?,
            Memory::Pending(waiting) => waiting.run(memory, page, out)?,
            Memory::Approve(approve) => approve.run(memory, order, out)?,
            Memory::Reject(reject) => reject.run(memory, out)?,
            Memory::Jobs(_) | Memory::Retry(_) => {
                bail!("what the memory provider does not have yet lies in the store")
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// As it is: what memory says of a failure is whole sentences, with their cause.
fn told(error: impl fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

// ----------------------------------------------------------------------------------- as typed in a chat

/// What follows `/memory`.
#[derive(clap::Parser)]
#[command(name = "/memory", disable_help_flag = true, disable_help_subcommand = true)]
pub struct Typed {
    #[command(subcommand)]
    command: Option<Memory>,
}

/// In the words of a chat: a terminal's long list would not help there.
pub const USAGE: &str = "/memory, /memory status, /memory show [memory|user], /memory history [memory|user] [--all], \
                         /memory restore <name>, /memory pending, /memory approve <id|all>, /memory reject <id|all>, \
                         /memory jobs, /memory retry [turn]. On the machine itself `throughline memory export` writes \
                         all of it to a file.";

impl Typed {
    /// The error says what can be typed.
    pub fn parse(argument: &str) -> Result<Memory, String> {
        let words = std::iter::once("/memory").chain(argument.split_whitespace());
        let typed = <Self as clap::Parser>::try_parse_from(words);
        match typed.map(|typed| typed.command) {
            Ok(None) => Ok(Memory::Show(Show { target: None, brief: true, json: false })),
            Ok(Some(Memory::Export(_))) | Err(_) => Err(format!("This can be ordered: {USAGE}")),
            Ok(Some(command)) => Ok(command),
        }
    }
}

/// `/memory` in a chat: the same commands, for the owner that the gateway has recognised.
pub struct InChat;

impl MemoryCommands for InChat {
    fn run(&self, typed: TypedMemory) -> Promise<'static, String> {
        Box::pin(in_chat(typed))
    }
}

async fn in_chat(typed: TypedMemory) -> String {
    let TypedMemory { argument, source, now, memory, provider } = typed;
    let command = match Typed::parse(&argument) {
        Ok(command) => command,
        Err(usage) => return usage,
    };
    let tells_of_provider = command.tells_of_provider();
    let command = match of_provider(command, provider.as_ref(), now).await {
        Ok(said) => return said,
        Err(command) => command,
    };
    let run = move || {
        let mut out = Vec::new();
        let done = command.run(&memory, MemoryOrder { source: &source, now }, &Page::plain(), &mut out);
        let said = String::from_utf8_lossy(&out).trim().to_owned();
        match done {
            Ok(_) => said,
            Err(error) => format!("{said}\n{error:#}").trim().to_owned(),
        }
    };
    let said = tokio::task::spawn_blocking(run).await;
    let mut said = said.unwrap_or_else(|_| "Memory could not be looked at.".into());
    if let (true, Some(provider)) = (tells_of_provider, &provider) {
        let line = match provider.stands().await {
            Ok((standing, status)) => remembering(&throughline_server::remembering_json(&standing, &status)),
            Err(why) => Some(why.to_string()),
        };
        said.extend(line.map(|line| format!("\n\n{line}")));
    }
    said
}

/// What only the store and the provider know. Err: the command is about the files.
async fn of_provider(
    command: Memory,
    provider: Option<&throughline_gateway::Memory>,
    now: Time,
) -> Result<String, Memory> {
    let said = match (command, provider) {
        (Memory::Jobs(jobs), Some(provider)) => match provider.unkept().await {
            Ok(unkept) => jobs.told(&unkept, now),
            Err(why) => why.to_string(),
        },
        (Memory::Retry(retry), Some(provider)) => {
            retry.within(provider).await.unwrap_or_else(|why| format!("{why:#}"))
        }
        (Memory::Jobs(_) | Memory::Retry(_), None) => {
            "No memory provider is connected. On the machine itself `throughline memory jobs` shows what waits for one."
                .to_owned()
        }
        (command, _) => return Err(command),
    };
    Ok(said.trim().to_owned())
}

// ------------------------------------------------------------------------------------------ status

impl Overview {
    /// `outside`: the memory outside, as a status of the agent has it. None: the caller tells of it.
    pub fn run(
        self,
        memory: &memory::Memory,
        outside: Option<&Value>,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let (status, pending) = (memory.status(), memory.pending().len());
        if self.json {
            let files: Vec<Value> = status.iter().map(status_in_json).collect();
            let mut shown = json!({"files": files, "pending": pending});
            if let Some(outside) = outside {
                shown["outside"] = outside_in_json(outside);
            }
            return Ok(write_json(&shown, out)?);
        }
        for status in &status {
            writeln!(out, "{}", heading(status, page))?;
            for remark in remarks(status, page) {
                writeln!(out, "  {remark}")?;
            }
        }
        match pending {
            0 => {}
            1 => writeln!(out, "1 write waits for approval; `memory pending` shows it.")?,
            many => writeln!(out, "{many} writes wait for approval; `memory pending` shows them.")?,
        }
        if let Some(line) = outside.and_then(outside_in_words) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

/// None: there is no provider, and nothing waits for one.
fn outside_in_words(outside: &Value) -> Option<String> {
    let name = outside["memory"]["provider"].as_str();
    match (outside["memory"]["off"].as_str(), outside["unreadable"].as_str()) {
        (Some(why), _) => Some(one_line(why)),
        (None, Some(why)) => Some(format!(
            "memory provider {}: what it does not have yet cannot be said, because the store cannot be read: {}",
            name?,
            one_line(why)
        )),
        (None, None) => remembering(outside),
    }
}

fn outside_in_json(outside: &Value) -> Value {
    let mut shown = json!({});
    for name in ["provider", "state", "failures", "tools", "off"] {
        shown[name] = outside["memory"][name].clone();
    }
    for name in ["unkept", "unkept_refused", "unkept_error", "recalls_missed", "unreadable"] {
        shown[name] = outside[name].clone();
    }
    shown
}

/// `MEMORY.md  93% — 2,046/2,200 chars, 21 entries`
fn heading(status: &MemoryStatus, page: &Page) -> String {
    let name = page.paint(Tint::Bold, status.target.file_name());
    match (&status.contents, status.usage()) {
        (Ok(contents), Some(usage)) => {
            format!("{name}  {usage}, {}", counted(contents.entries, "entry", "entries"))
        }
        (Err(why), _) => format!("{name}  {}", page.paint(Tint::Red, why)),
        (Ok(_), None) => name.into_owned(),
    }
}

fn remarks(status: &MemoryStatus, page: &Page) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut remark = |holds: bool, text: String| remarks.extend(holds.then_some(text));
    let key = match status.target {
        MemoryTarget::Memory => "memory.memory_enabled",
        MemoryTarget::User => "memory.user_profile_enabled",
    };
    remark(!status.is_enabled, format!("switched off: {key} is false"));
    if let Ok(contents) = &status.contents {
        remark(contents.is_nearly_full, "nearly full: the agent is asked to consolidate".to_owned());
        remark(
            contents.is_drifted,
            "formatted by hand: it stays so, but Hermes would refuse to replace or remove entries here"
                .to_owned(),
        );
        remark(contents.blocked > 0, {
            let entries = counted(contents.blocked, "entry reads", "entries read");
            format!("{entries} like an attack and stay out of prompts; `memory show` names them")
        });
        remark(contents.unattributed > 0, {
            let entries = counted(contents.unattributed, "entry has", "entries have");
            format!("{entries} no recorded origin: written by hand or by Hermes")
        });
    }
    if let Some(PastEntry { id, record, .. }) = &status.last {
        remark(true, format!("last recorded change: {id}, {}", happened(record, page)));
    }
    if let Some(modified) = status.modified {
        remark(true, format!("last written: {}", page.minute(modified)));
    }
    remark(status.unreadable_records > 0, {
        format!("{} of the history cannot be read", counted(status.unreadable_records, "line", "lines"))
    });
    remarks
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn status_in_json(status: &MemoryStatus) -> Value {
    let mut shown = json!({
        "target": status.target.name(),
        "path": status.path.display().to_string(),
        "enabled": status.is_enabled,
        "chars_max": status.chars_max,
        "modified": status.modified.map(Time::as_seconds),
        "last_change": status.last.as_ref().map(past_in_json),
        "unreadable_records": status.unreadable_records,
    });
    match &status.contents {
        Ok(contents) => {
            shown["chars"] = contents.chars.into();
            shown["percent"] = contents.percent.into();
            shown["entries"] = contents.entries.into();
            shown["nearly_full"] = contents.is_nearly_full.into();
            shown["drifted"] = contents.is_drifted.into();
            shown["blocked"] = contents.blocked.into();
            shown["without_origin"] = contents.unattributed.into();
        }
        Err(why) => shown["error"] = why.clone().into(),
    }
    shown
}

// -------------------------------------------------------------------------------------------- show

fn targets(target: Option<MemoryTarget>) -> Vec<MemoryTarget> {
    target.map_or_else(|| MemoryTarget::ALL.to_vec(), |target| vec![target])
}

impl Show {
    fn run(self, memory: &memory::Memory, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
        let targets = targets(self.target);
        if self.json {
            let mut shown = serde_json::Map::new();
            for target in targets {
                let entries = memory.show(target).map_err(told)?;
                shown.insert(target.name().to_owned(), entries.iter().map(entry_in_json).collect());
            }
            return Ok(write_json(&shown.into(), out)?);
        }
        let status = memory.status();
        for status in status.iter().filter(|status| targets.contains(&status.target)) {
            writeln!(out, "{}", heading(status, page))?;
            // One file that cannot be read does not hide the other.
            for entry in memory.show(status.target).unwrap_or_default() {
                writeln!(out, "\n{}", visible(&entry.text))?;
                if !self.brief {
                    writeln!(out, "{}", page.paint(Tint::Dim, &about(&entry, page)))?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// `(44 chars; chat on telegram, 2026-05-28 09:35, call …)`
fn about(entry: &MemoryEntry, page: &Page) -> String {
    let origin = entry.origin.as_ref().map_or_else(
        || "no recorded origin: written by hand or by Hermes".to_owned(),
        |origin| written(origin, page),
    );
    let blocked = match entry.threats.as_slice() {
        [] => String::new(),
        threats => format!("; kept from prompts: {}", threats.join(", ")),
    };
    format!("({}; {origin}{blocked})", counted(entry.chars, "char", "chars"))
}

/// Who, from where, when.
fn written(origin: &EntryOrigin, page: &Page) -> String {
    let who = match origin.writer {
        EntryWriter::Chat => "chat",
        EntryWriter::Review => "review",
        EntryWriter::Person => "a person",
    };
    let mut parts = vec![match origin.source.as_str() {
        "" => who.to_owned(),
        source => format!("{who} on {source}"),
    }];
    parts.push(page.minute(origin.at));
    match (&origin.call, &origin.session) {
        (Some(call), _) => parts.push(format!("call {call}")),
        (None, Some(session)) => parts.push(format!("session {session}")),
        (None, None) => {}
    }
    one_line(&parts.join(", "))
}

fn entry_in_json(entry: &MemoryEntry) -> Value {
    json!({
        "entry": entry.text,
        "chars": entry.chars,
        "origin": entry.origin.as_ref().map(origin_in_json),
        "kept_from_prompts": entry.threats,
    })
}

fn origin_in_json(origin: &EntryOrigin) -> Value {
    json!({
        "writer": origin.writer.name(),
        "source": origin.source,
        "session": origin.session.as_ref().map(ToString::to_string),
        "call": origin.call,
        "at": origin.at.as_seconds(),
    })
}

// ----------------------------------------------------------------------------------------- history

impl History {
    fn run(self, memory: &memory::Memory, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut past = Vec::new();
        for target in targets(self.target) {
            past.extend(memory.history(target).map_err(told)?);
        }
        past.retain(|past| self.all || past.record.what.is_departure());
        past.sort_by_key(|past| std::cmp::Reverse(past.record.origin.at)); // the latest first
        if self.json {
            return Ok(write_json(&past.iter().map(past_in_json).collect(), out)?);
        }
        if past.is_empty() {
            writeln!(out, "Nothing was removed or replaced yet.")?;
        }
        for PastEntry { id, record, is_there } in &past {
            let there = match (is_there, record.what.is_departure()) {
                (true, true) => "; it is there now",
                (false, false) => "; it is gone",
                _ => "",
            };
            let line = format!("{}{there}", happened(record, page));
            writeln!(out, "{}  {line}", page.paint(Tint::Bold, &id.to_string()))?;
            write!(out, "{}", indented(&visible(&record.entry), "  "))?;
            if let EntryEvent::Replaced { by } = &record.what {
                write!(out, "{}", indented(&format!("→ {}", visible(by)), "  "))?;
            }
        }
        Ok(())
    }
}

/// `removed by chat on telegram, 2026-05-28 09:35, call …`
fn happened(record: &EntryRecord, page: &Page) -> String {
    let what = match record.what {
        EntryEvent::Added => "added",
        EntryEvent::Restored => "put back",
        EntryEvent::Removed => "removed",
        EntryEvent::Replaced { .. } => "replaced",
    };
    format!("{what} by {}", written(&record.origin, page))
}

fn past_in_json(PastEntry { id, record, is_there }: &PastEntry) -> Value {
    let (event, by) = match &record.what {
        EntryEvent::Added => ("added", None),
        EntryEvent::Restored => ("restored", None),
        EntryEvent::Removed => ("removed", None),
        EntryEvent::Replaced { by } => ("replaced", Some(by)),
    };
    json!({
        "id": id.to_string(),
        "target": id.target.name(),
        "event": event,
        "entry": record.entry,
        "replaced_by": by,
        "there_now": is_there,
        "origin": origin_in_json(&record.origin),
    })
}

impl Restore {
    fn run(self, memory: &memory::Memory, order: MemoryOrder<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let restored =
            memory.restore(self.entry, &EntryOrigin::person(order.source, order.now)).map_err(told)?;
        let (file, usage) = (restored.target.file_name(), restored.usage);
        writeln!(out, "{} is back in {file} ({usage}):", self.entry)?;
        write!(out, "{}", indented(&visible(&restored.entry), "  "))?;
        Ok(writeln!(out, "A conversation that runs sees it once its prompt is made again.")?)
    }
}

// ------------------------------------------------------------------------------------------ export

impl Export {
    fn run(self, memory: &memory::Memory, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut files = Vec::new();
        for status in memory.status() {
            let target = status.target;
            let mut file = status_in_json(&status);
            file["text"] = memory.text(target).map_err(told)?.into();
            file["contents"] = memory.show(target).map_err(told)?.iter().map(entry_in_json).collect();
            file["history"] = memory.history(target).map_err(told)?.iter().map(past_in_json).collect();
            files.push(file);
        }
        let pending: Vec<Value> = memory.pending().iter().map(pending_in_json).collect();
        let all = json!({"files": files, "pending": pending});
        let write = |out: &mut dyn Write| -> io::Result<()> { write_json(&all, out) };
        match &self.output {
            Some(path) if path.as_os_str() != "-" => {
                write_file(path, if self.force { Existing::Replaced } else { Existing::Kept }, write)
            }
            _ => Ok(write(out)?),
        }
    }
}

// ----------------------------------------------------------------------------------------- approval

impl Waiting {
    fn run(self, memory: &memory::Memory, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
        let pending = memory.pending();
        if self.json {
            return Ok(write_json(&pending.iter().map(pending_in_json).collect(), out)?);
        }
        if pending.is_empty() {
            return Ok(writeln!(out, "No pending memory writes.")?);
        }
        writeln!(out, "Pending memory writes ({}):", pending.len())?;
        for PendingWrite { id, summary, origin, .. } in &pending {
            writeln!(out, "{}  {}", page.paint(Tint::Bold, id), one_line(summary))?;
            writeln!(out, "  {}", page.paint(Tint::Dim, &written(origin, page)))?;
        }
        Ok(writeln!(
            out,
            "`memory approve <id>` does one, `memory reject <id>` forgets it; `all` means all."
        )?)
    }
}

fn pending_in_json(pending: &PendingWrite) -> Value {
    json!({"id": pending.id, "summary": pending.summary, "origin": origin_in_json(&pending.origin)})
}

/// The one that is meant, or all.
fn meant(memory: &memory::Memory, id: String) -> Vec<String> {
    match id.eq_ignore_ascii_case("all") {
        true => memory.pending().into_iter().map(|pending| pending.id).collect(),
        false => vec![id],
    }
}

impl Approve {
    fn run(self, memory: &memory::Memory, order: MemoryOrder<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let ids = meant(memory, self.id);
        let failed: Vec<String> = ids
            .iter()
            .filter_map(|id| memory.approve(id, order.now).err())
            .map(|error| error.to_string())
            .collect();
        writeln!(out, "Approved {} memory write(s).", ids.len() - failed.len())?;
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(())
    }
}

impl Reject {
    fn run(self, memory: &memory::Memory, out: &mut dyn Write) -> anyhow::Result<()> {
        let ids = meant(memory, self.id);
        for id in &ids {
            memory.reject(id).map_err(told)?;
        }
        Ok(writeln!(out, "Rejected {} pending memory write(s).", ids.len())?)
    }
}

#[cfg(test)]
mod tests;
