//! `throughline sessions export`: conversations to take away, whole and in order.
//!
//! - message by message: a long conversation needs no more memory than a short one, but for a snapshot, which is held
//!   while it is written
//! - a page of HTML loads nothing, runs nothing, and shows what was said as text, also where it looks like markup
//! - what compressions kept comes before what they left, in the order in which it was said

use super::snapshots::{self, find_snapshot, owner_of};
use super::{Existing, about, facts, find, readable, session_in_json, speaker, write_file};
use crate::out::{Page, one_line, visible};
use anyhow::bail;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use throughline_core::Message;
use throughline_core::message::Body;
use throughline_core::port::BrowseRead as _;
use throughline_core::port::SessionRead as _;
use throughline_core::port::{SessionFilter, SessionSummary, SnapshotSummary};
use throughline_hermes::row::message_to_json;
use throughline_store::StoreReader;

/// Write out a session with everything that is stored of it
#[derive(Debug, clap::Args)]
pub struct Export {
    /// Its id, or the beginning of it; or a snapshot's name
    #[arg(required_unless_present_any = ["named", "all"])]
    session: Option<String>,

    /// The same
    #[arg(long = "session", id = "named", value_name = "ID", conflicts_with = "session")]
    named: Option<String>,

    /// Every session, the oldest first
    #[arg(long, conflicts_with_all = ["session", "named"])]
    all: bool,

    /// With what its compressions have kept
    #[arg(long)]
    with_snapshots: bool,

    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,

    /// Write to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A line for the session, then a line for each message, nothing left out
    Jsonl,
    /// To be read
    Markdown,
    /// To be read in a browser: one page, which loads nothing
    Html,
}

/// What is written out.
enum Subject {
    Sessions(Vec<SessionSummary>),
    Snapshot(String),
}

impl Export {
    pub fn run(self, store: &StoreReader, page: &Page, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        let subject = match self.session.as_deref().or(self.named.as_deref()) {
            Some(name) if owner_of(name).is_some() => {
                Subject::Snapshot(find_snapshot(store, name)?.summary.name)
            }
            Some(name) => Subject::Sessions(vec![find(store, name)?]),
            None => {
                let all = SessionFilter { limit: usize::MAX, ..SessionFilter::default() };
                let mut sessions = store.sessions(&all)?;
                sessions.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
                if sessions.is_empty() {
                    bail!("nothing has been said in this home yet: there is nothing to export");
                }
                Subject::Sessions(sessions)
            }
        };
        let write = |out: &mut dyn Write| -> io::Result<()> {
            let mut sheet = Sheet { format: self.format, page, out, is_begun: false };
            sheet.begin(&subject)?;
            match &subject {
                Subject::Snapshot(name) => sheet.snapshot(store, name)?,
                Subject::Sessions(sessions) => {
                    for summary in sessions {
                        sheet.session(store, summary, self.with_snapshots)?;
                    }
                }
            }
            sheet.end()
        };
        match &self.output {
            None => write(out)?,
            Some(path) if path.as_os_str() == "-" => write(out)?,
            Some(path) => {
                let existing = if self.force { Existing::Replaced } else { Existing::Kept };
                write_file(path, existing, write)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Something to write on, in one of the formats.
struct Sheet<'a> {
    format: Format,
    page: &'a Page,
    out: &'a mut dyn Write,
    /// There is a conversation on it.
    is_begun: bool,
}

impl Sheet<'_> {
    fn begin(&mut self, subject: &Subject) -> io::Result<()> {
        if self.format != Format::Html {
            return Ok(());
        }
        let title = match subject {
            Subject::Snapshot(name) => name.clone(),
            Subject::Sessions(sessions) => match sessions.as_slice() {
                [only] => about(only).to_owned(),
                many => format!("{} conversations", many.len()),
            },
        };
        write!(self.out, "{HEAD}<title>{}</title>\n{STYLE}</head>\n<body>\n", escaped(&one_line(&title)))
    }

    fn end(&mut self) -> io::Result<()> {
        match self.format {
            Format::Html => writeln!(self.out, "</body>\n</html>"),
            Format::Jsonl | Format::Markdown => Ok(()),
        }
    }

    fn session(
        &mut self,
        store: &StoreReader,
        summary: &SessionSummary,
        with_snapshots: bool,
    ) -> io::Result<()> {
        let heading = one_line(about(summary));
        let facts = facts(summary, self.page);
        match self.format {
            Format::Jsonl => {
                let mut line = json!({"type": "session"});
                extend(&mut line, session_in_json(summary));
                writeln!(self.out, "{line}")?;
            }
            Format::Markdown if self.is_begun => writeln!(self.out, "\n# {heading}\n\n{facts}")?,
            Format::Markdown => writeln!(self.out, "# {heading}\n\n{facts}")?,
            Format::Html => {
                writeln!(
                    self.out,
                    "<h1>{}</h1>\n<p class=\"facts\">{}</p>",
                    escaped(&heading),
                    escaped(&facts)
                )?;
            }
        }
        self.is_begun = true;
        if with_snapshots {
            let snapshots = store.snapshots(&summary.id).map_err(io::Error::other)?;
            for snapshot in &snapshots {
                self.snapshot(store, &snapshot.name)?;
            }
            if !snapshots.is_empty() {
                self.live(summary)?;
            }
        }
        let mut written = Ok(());
        store
            .each(&summary.id, &mut |_, message| {
                written = self.message(message);
                written.is_ok()
            })
            .map_err(io::Error::other)?;
        written
    }

    /// From here on it is what the session shows today.
    fn live(&mut self, summary: &SessionSummary) -> io::Result<()> {
        match self.format {
            Format::Jsonl => writeln!(self.out, "{}", json!({"type": "live", "id": summary.id.as_str()})),
            Format::Markdown => writeln!(self.out, "\n# As it stands"),
            Format::Html => writeln!(self.out, "<h2 class=\"part\">As it stands</h2>"),
        }
    }

    fn snapshot(&mut self, store: &StoreReader, name: &str) -> io::Result<()> {
        let Some(snapshot) = store.snapshot(name).map_err(io::Error::other)? else { return Ok(()) };
        let facts = snapshots::facts(&snapshot.summary, snapshot.rows.len(), self.page);
        self.snapshot_heading(&snapshot.summary, &facts)?;
        snapshot.rows.iter().try_for_each(|(_, message)| self.message(message))
    }

    fn snapshot_heading(&mut self, summary: &SnapshotSummary, facts: &str) -> io::Result<()> {
        match self.format {
            Format::Jsonl => {
                let mut line = json!({"type": "snapshot"});
                extend(&mut line, snapshots::in_json(summary));
                writeln!(self.out, "{line}")
            }
            Format::Markdown => writeln!(self.out, "\n# Snapshot {}\n\n{facts}", one_line(&summary.name)),
            Format::Html => writeln!(
                self.out,
                "<h2 class=\"part\">Snapshot {}</h2>\n<p class=\"facts\">{}</p>",
                escaped(&summary.name),
                escaped(facts)
            ),
        }
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        match self.format {
            Format::Jsonl => writeln!(self.out, "{}", message_to_json(message)),
            Format::Markdown => self.message_in_markdown(message),
            Format::Html => self.message_in_html(message),
        }
    }

    fn message_in_markdown(&mut self, message: &Message) -> io::Result<()> {
        writeln!(self.out, "\n## {}, {}", speaker(message), self.page.second(message.at))?;
        let text = readable(message.content());
        match &message.body {
            _ if text.is_empty() => {}
            Body::Result(_) => writeln!(self.out, "\n{}", fenced(&text, ""))?,
            _ => writeln!(self.out, "\n{}", text.trim_end())?,
        }
        for call in message.calls() {
            writeln!(self.out, "\nCalls `{}`:\n\n{}", one_line(&call.name), fenced(&call.arguments, "json"))?;
        }
        Ok(())
    }

    /// What a tool was asked and what it returned can be long, and is folded.
    fn message_in_html(&mut self, message: &Message) -> io::Result<()> {
        let class = match &message.body {
            Body::User(_) => "user",
            Body::Assistant(_) => "assistant",
            Body::System(_) | Body::Result(_) | Body::Other { .. } => "other",
        };
        let (who, when) = (escaped(&speaker(message)), self.page.second(message.at));
        writeln!(self.out, "<article class=\"{class}\"><header>{who} <time>{when}</time></header>")?;
        let text = readable(message.content());
        let text = escaped(text.trim_end());
        match &message.body {
            _ if text.is_empty() => {}
            Body::Result(_) => {
                writeln!(self.out, "<details><summary>result</summary><pre>{text}</pre></details>")?
            }
            _ => writeln!(self.out, "<pre>{text}</pre>")?,
        }
        for call in message.calls() {
            let (name, arguments) = (escaped(&one_line(&call.name)), escaped(&call.arguments));
            writeln!(self.out, "<details><summary>calls {name}</summary><pre>{arguments}</pre></details>")?;
        }
        writeln!(self.out, "</article>")
    }
}

/// Nothing is fetched and nothing runs, even if a mistake of ours let something through.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

const STYLE: &str = "<style>\n\
    :root { color-scheme: light dark; }\n\
    body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }\n\
    h1 { font-size: 1.4rem; margin-top: 3rem; } h2.part { font-size: 1.1rem; margin-top: 2rem; }\n\
    .facts, time { color: gray; font-size: .85rem; } header { font-weight: 600; }\n\
    article { margin: 1rem 0; padding: .5rem .8rem; border-left: 4px solid gray; }\n\
    article.user { border-color: seagreen; } article.assistant { border-color: steelblue; }\n\
    pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; font: inherit; }\n\
    details pre { font-family: ui-monospace, monospace; font-size: .85rem; }\n\
    </style>\n";

/// As text, whatever it looks like.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in visible(text).chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            other => safe.push(other),
        }
    }
    safe
}

fn extend(line: &mut Value, fields: Value) {
    if let (Value::Object(line), Value::Object(fields)) = (line, fields) {
        line.extend(fields);
    }
}

/// In a block that nothing inside it can end.
pub fn fenced(text: &str, language: &str) -> String {
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(ticks.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
