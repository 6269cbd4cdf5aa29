//! `throughline sessions`: what was said, read from the store itself, whether a gateway runs or not.
//!
//! Nothing here writes to a home, but for `restore`. A session is named by its id or by any beginning of
//! it that only one id has, a snapshot by its name.

use crate::out::{Column, Page, Table, Tint, indented, one_line, visible, write_json};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use throughline_core::message::{Body, Content, Part, ToolCall};
use throughline_core::port::{Hit, Read, SessionFilter, SessionSummary};
use throughline_core::{Message, RowId, SessionId};
use throughline_hermes::row::message_to_json;
use throughline_store::StoreReader;

/// Show what was said
#[derive(Debug, clap::Subcommand)]
pub enum Sessions {
    List(List),
    Show(Show),
    Search(Search),
    Export(export::Export),
    Snapshots(snapshots::Snapshots),
    Restore(snapshots::Restore),
}

impl Sessions {
    pub fn run(self, store: &StoreReader, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        match self {
            Sessions::List(list) => list.run(store, page, out),
            Sessions::Show(show) => show.run(store, page, out),
            Sessions::Search(search) => search.run(store, page, out),
            Sessions::Export(export) => export.run(store, page, out),
            Sessions::Snapshots(snapshots) => snapshots.run(store, page, out),
            Sessions::Restore(_) => bail!("a restore writes, and was given a store that only reads"),
        }
    }
}

// ------------------------------------------------------------------------------------------ list

/// List sessions, the latest first
#[derive(Debug, clap::Args)]
pub struct List {
    /// Show this many
    #[arg(short = 'n', long, default_value = "20")]
    limit: NonZeroUsize,

    /// Only those that came from here: cli, api_server, telegram …
    #[arg(long)]
    source: Option<String>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl List {
    fn run(self, store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let limit = self.limit.get();
        let filter =
            SessionFilter { source: self.source, limit: limit.saturating_add(1), ..Default::default() };
        let mut found = store.sessions(&filter)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        if self.json {
            write_json(&found.iter().map(session_in_json).collect(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if found.is_empty() {
            let from = filter.source.map(|source| format!(" from {}", one_line(&source))).unwrap_or_default();
            writeln!(out, "There are no sessions{from} yet.")?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            Column::text("SESSION"),
            Column::text("SOURCE"),
            Column::flexible("TITLE"),
            Column::number("MESSAGES"),
            Column::text("LAST ACTIVE"),
        ]);
        for summary in &found {
            table.row([
                summary.id.to_string(),
                summary.source.clone(),
                about(summary).to_owned(),
                summary.messages.to_string(),
                page.minute(summary.last_active),
            ]);
        }
        table.write(page, out)?;
        if has_more {
            writeln!(
                out,
                "{}",
                page.paint(
                    Tint::Dim,
                    &format!("There are more; show them with --limit {}.", limit.saturating_mul(5))
                )
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

// ------------------------------------------------------------------------------------------ show

/// Show the transcript of a session, or what a snapshot has kept of one
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Its id, or the beginning of it; or a snapshot's name
    session: String,

    /// As JSON, with everything that is stored of each message
    #[arg(long)]
    json: bool,
}

/// What a tool returned is rarely read to its end.
const RESULT_LINES_MAX: usize = 12;

impl Show {
    fn run(self, store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        if snapshots::owner_of(&self.session).is_some() {
            let snapshot = snapshots::find_snapshot(store, &self.session)?;
            match self.json {
                true => snapshots::show_json(&snapshot, out)?,
                false => snapshots::show_text(&snapshot, page, out)?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let summary = find(store, &self.session)?;
        let history = store.history(&summary.id)?;
        match self.json {
            true => show_json(&summary, &history, out)?,
            false => show_text(&summary, &history, page, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Messages as they are stored, byte by byte: parsing them again could round a number.
fn show_json(summary: &SessionSummary, history: &[(RowId, Message)], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\n\"session\": {},\n\"messages\": [", session_in_json(summary))?;
    for (i, (row, message)) in history.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(out, "{comma}\n{{\"row\": {row}, \"message\": {}}}", message_to_json(message))?;
    }
    writeln!(out, "\n]\n}}")
}

fn show_text(
    summary: &SessionSummary,
    history: &[(RowId, Message)],
    page: &Page,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", page.paint(Tint::Bold, &one_line(about(summary))))?;
    writeln!(out, "{}", page.paint(Tint::Dim, &facts(summary, page)))?;
    let mut day = String::new();
    for (_, message) in history {
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

/// `Session 20260528_093510_66bfaec7, from cli, 4 messages, begun 2026-05-28 09:35, model gpt-5.2`
fn facts(summary: &SessionSummary, page: &Page) -> String {
    let mut facts = vec![format!("Session {}", summary.id), format!("from {}", summary.source)];
    facts.extend(summary.chat.as_ref().map(|chat| format!("chat {chat}")));
    facts.push(match summary.messages {
        1 => "1 message".to_owned(),
        many => format!("{many} messages"),
    });
    facts.push(format!("begun {}", page.minute(summary.started)));
    facts.extend(summary.model.as_ref().map(|model| format!("model {model}")));
    facts.extend(summary.ended.as_ref().map(|reason| format!("ended: {reason}")));
    one_line(&facts.join(", "))
}

fn heading(message: &Message, page: &Page) -> String {
    let tint = match &message.body {
        Body::User(_) => Tint::Green,
        Body::Assistant(_) => Tint::Cyan,
        Body::System(_) | Body::Result(_) | Body::Other { .. } => Tint::Dim,
    };
    let who = speaker(message);
    format!("{}  {}", page.paint(Tint::Dim, &page.clock(message.at)), page.paint(tint, &who))
}

/// Who speaks; a tool by its name.
fn speaker(message: &Message) -> String {
    let name = match &message.body {
        Body::Result(result) => result.name.as_deref().or(Some(&result.call_id)),
        _ => None,
    };
    let mut who = one_line(message.role());
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        who = format!("{who} {}", one_line(name));
    }
    if message.observed {
        who += " (overheard)";
    }
    who
}

fn said(message: &Message) -> String {
    const INDENT: &str = "  ";
    let text = readable(message.content());
    let mut said = match &message.body {
        Body::Result(_) => indented(&shortened(&visible(&text)), INDENT),
        _ => indented(&visible(&text), INDENT),
    };
    for ToolCall { name, arguments, .. } in message.calls() {
        let call = format!("→ {} {}", one_line(name), shortened(&visible(arguments)));
        said += &indented(&call, INDENT);
    }
    said
}

fn shortened(text: &str) -> String {
    let lines = text.lines().count();
    if lines <= RESULT_LINES_MAX + 1 {
        return text.to_owned(); // a line that says one is missing would take its place
    }
    let shown: Vec<_> = text.lines().take(RESULT_LINES_MAX).collect();
    let missing = lines - RESULT_LINES_MAX;
    format!("{}\n… {missing} more lines; `throughline sessions export` has them", shown.join("\n"))
}

/// Everything that a person can read of it, and the place of what they cannot.
fn readable(content: &Content) -> String {
    match content {
        Content::Nothing => String::new(),
        Content::Text(text) => text.clone(),
        Content::Opaque(json) => json.to_string(),
        Content::Parts(parts) => {
            let parts = parts.iter().map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Image { url, .. } if url.starts_with("data:") => "[picture]".to_owned(),
                Part::Image { url, .. } => format!("[picture {url}]"),
                Part::Opaque(json) => json.to_string(),
            });
            parts.collect::<Vec<_>>().join("\n")
        }
    }
}

// ---------------------------------------------------------------------------------------- search

/// Search everything that was said
#[derive(Debug, clap::Args)]
pub struct Search {
    /// Words that must occur; "a phrase" in quotes
    #[arg(required = true)]
    words: Vec<String>,

    /// Show this many
    #[arg(short = 'n', long, default_value = "20")]
    limit: NonZeroUsize,

    /// Only in sessions that came from here: cli, api_server, telegram …
    #[arg(long)]
    source: Option<String>,

    /// Only in what this snapshot has kept
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,

    /// As JSON, the match between >>> and <<<
    #[arg(long)]
    json: bool,
}

impl Search {
    fn run(self, store: &dyn Read, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let query = self.words.join(" ");
        if query.trim().is_empty() {
            bail!("there is nothing to search for: give at least one word");
        }
        let only = snapshots::only_in(store, self.snapshot)?;
        let filter = SessionFilter { source: self.source, limit: self.limit.get(), ..only };
        let hits = store.search(&query, &filter)?;
        if self.json {
            write_json(&hits.iter().map(hit_in_json).collect(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if hits.is_empty() {
            writeln!(out, "No message matches {}.", one_line(&query))?;
        }
        for hit in &hits {
            show_hit(hit, page, out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show_hit(hit: &Hit, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let when = page.minute(hit.at);
    let place = format!("{when}  {}  row {}", one_line(&hit.role), hit.row);
    let title = one_line(hit.title.as_deref().unwrap_or_default());
    let line = format!(
        "{}  {}  {title}",
        page.paint(Tint::Bold, hit.session.as_str()),
        page.paint(Tint::Dim, &place)
    );
    writeln!(out, "{}", line.trim_end())?;
    writeln!(out, "  {}", highlighted(&one_line(&hit.snippet), page))
}

/// The match in colour instead of between its marks.
fn highlighted(snippet: &str, page: &Page) -> String {
    let mut shown = String::new();
    let mut rest = snippet;
    while let Some((before, after)) = rest.split_once(">>>")
        && let Some((found, after)) = after.split_once("<<<")
    {
        shown += before;
        shown += &page.paint(Tint::Yellow, found);
        rest = after;
    }
    shown + rest
}

// ---------------------------------------------------------------------------------------- export

/// What becomes of a file that is in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Kept,
    Replaced,
}

/// Whole or not at all, and for its owner alone: it is a conversation.
pub fn write_file(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let doing = || format!("could not write {}", path.display());
    let in_the_way = || {
        format!(
            "{} is there already; nothing was written. Name another file, or replace it with --force",
            path.display()
        )
    };
    let found = fs::metadata(path);
    if let Ok(found) = &found
        && !found.is_file()
    {
        // A pipe or a device is written to, never replaced.
        let mut out = BufWriter::new(File::options().write(true).open(path).with_context(doing)?);
        return write(&mut out).and_then(|()| out.flush()).with_context(doing);
    }
    if found.is_ok() && existing == Existing::Kept {
        bail!(in_the_way());
    }
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()); // a link stays a link
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(directory).with_context(doing)?;
    let mut out = BufWriter::new(file);
    write(&mut out).with_context(doing)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(doing)?;
    file.as_file().sync_all().with_context(doing)?;
    let kept = match existing {
        Existing::Kept => file.persist_noclobber(path),
        Existing::Replaced => file.persist(path),
    };
    match kept.map_err(|error| error.error) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(in_the_way()),
        kept => kept.map(drop).with_context(doing),
    }
}

// ------------------------------------------------------------------------------------------ names

/// What a session is called by people.
fn about(summary: &SessionSummary) -> &str {
    summary.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&summary.preview)
}

fn find(store: &dyn Read, name: &str) -> anyhow::Result<SessionSummary> {
    let id: SessionId = name.trim().parse()?;
    if let Some(summary) = store.session(&id)? {
        return Ok(summary);
    }
    let mut all = store.sessions(&SessionFilter { limit: usize::MAX, ..Default::default() })?;
    let choices: Vec<_> =
        all.iter().map(|summary| Choice { id: summary.id.as_str(), about: about(summary) }).collect();
    let index = choose(id.as_str(), &choices)?;
    Ok(all.swap_remove(index))
}

/// A session that may be meant.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    pub id: &'a str,
    pub about: &'a str,
}

/// More than these would not be read.
const CHOICES_SHOWN: usize = 6;

/// The one whose id begins with `name`; if there is none, or more, an error that names the nearest.
pub fn choose(name: &str, choices: &[Choice<'_>]) -> anyhow::Result<usize> {
    let matches = |choice: &Choice<'_>| choice.id == name || choice.id.starts_with(name);
    let meant: Vec<usize> = (0..choices.len()).filter(|index| matches(&choices[*index])).collect();
    match meant.as_slice() {
        [only] => Ok(*only),
        [] if choices.is_empty() => {
            bail!("there is no session {name}: nothing has been said in this home yet")
        }
        [] => {
            let mut nearest: Vec<_> =
                choices.iter().map(|choice| (distance(name, choice.id), *choice)).collect();
            nearest.sort_by_key(|(distance, _)| *distance);
            let nearest: Vec<_> = nearest.into_iter().map(|(_, choice)| choice).take(3).collect();
            bail!("there is no session {name}. The nearest are:{}", listed(&nearest));
        }
        several => {
            let shown: Vec<_> = several.iter().take(CHOICES_SHOWN).map(|index| choices[*index]).collect();
            let more = match several.len() - shown.len() {
                0 => String::new(),
                more => format!("\n  and {more} more"),
            };
            bail!("{name} can be {} sessions; give more of the id:{}{more}", several.len(), listed(&shown));
        }
    }
}

fn listed(choices: &[Choice<'_>]) -> String {
    choices
        .iter()
        .map(|choice| format!("\n  {}  {}", choice.id, one_line(choice.about)).trim_end().to_owned())
        .collect()
}

/// How many letters must be put in, left out or changed.
pub fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

// ------------------------------------------------------------------------------------------- json

/// By the names that the API has for it.
fn session_in_json(summary: &SessionSummary) -> Value {
    json!({
        "id": summary.id.as_str(),
        "source": summary.source,
        "title": summary.title,
        "chat": summary.chat,
        "model": summary.model,
        "started_at": summary.started.as_seconds(),
        "last_active": summary.last_active.as_seconds(),
        "end_reason": summary.ended,
        "message_count": summary.messages,
        "tool_call_count": summary.tool_calls,
        "input_tokens": summary.usage.input,
        "output_tokens": summary.usage.output,
        "cache_read_tokens": summary.usage.cache_read,
        "cache_write_tokens": summary.usage.cache_write,
        "reasoning_tokens": summary.usage.reasoning,
        "preview": summary.preview,
    })
}

fn hit_in_json(hit: &Hit) -> Value {
    json!({
        "session_id": hit.session.as_str(),
        "message_id": hit.row.0,
        "role": hit.role,
        "timestamp": hit.at.as_seconds(),
        "snippet": hit.snippet,
        "title": hit.title,
    })
}

mod export;
pub mod snapshots;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;
