//! Lines of a log, ours or Hermes', as far as they are about compression.
//!
//! Ours, as the gateway writes them to its standard error, after what a supervisor puts before them:
//!
//! ```text
//! 2026-05-28T09:35:10.123456Z  INFO session{session=S}: throughline_gateway::session: [S] context compression started: session=S op=O messages=N tokens=~T model=M
//! ```
//!
//! Hermes', as it writes them to `logs/agent.log`, in 0.14 under `run_agent`, later under
//! `agent.conversation_compression`:
//!
//! ```text
//! 2026-05-28 09:35:10,123 INFO [tag] run_agent: context compression started: session=S messages=N tokens=~1,234 model=M focus=None
//! ```
//!
//! In the files of a home (`logs/agent.log`, `logs/gateway.log`, `logs/errors.log`) our lines have Hermes'
//! form, too ([`line()`]), so that its tools find their way in them.
//!
//! - only what stands at the beginning of a message counts: words that a user said, and that some line
//!   repeats, are no report
//! - a line that is not known, torn or no text at all is none; nothing here fails
//! - Hermes writes local time without a zone, and it is taken as it stands: only differences matter

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use throughline_core::Time;
use throughline_core::audit::{News, Report, Step};

#[cfg(test)]
mod tests;

/// A supervisor's prefix (host, unit, process) is shorter than this.
const PREFIX_MAX: usize = 160;
/// More spans than this around one line are not ours.
const SPANS_MAX: usize = 16;

/// What a line says, and when it was written.
pub fn read(line: &str) -> Option<(Time, News)> {
    // Nearly all lines of a log are about something else.
    const WORDS: [&str; 4] = ["ompression", "compaction", "throughline started", "Starting Hermes Gateway"];
    if !WORDS.iter().any(|word| line.contains(word)) {
        return None;
    }
    let line = without_colour(line);
    let (at, writer, rest) = head(&line)?;
    let news = match writer {
        LogWriter::Us => ours(rest),
        LogWriter::Hermes => hermes(rest),
    }?;
    Some((at, news))
}

/// Told apart by how they write the time.
#[derive(Clone, Copy)]
enum LogWriter {
    Us,
    Hermes,
}

/// Terminals get colours, and some people log what terminals get.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\x1b[") {
        plain.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        rest = match code.find(|c: char| !matches!(c, '0'..='9' | ';')) {
            Some(end) if code[end..].starts_with('m') => &code[end + 1..],
            _ => code,
        };
    }
    plain + rest
}

// ------------------------------------------------------------------------------------------ head

/// Time and level, wherever they begin; and what comes after them.
fn head(line: &str) -> Option<(Time, LogWriter, &str)> {
    let starts = line.char_indices().scan(' ', |before, (at, c)| {
        let is_start = *before == ' ' && c.is_ascii_digit();
        *before = c;
        Some((at, is_start))
    });
    let mut starts = starts.take_while(|(at, _)| *at < PREFIX_MAX).filter(|(_, is_start)| *is_start);
    starts.find_map(|(at, _)| headed(&line[at..]))
}

fn headed(line: &str) -> Option<(Time, LogWriter, &str)> {
    let (at, writer, rest) = time(line)?;
    let rest = rest.strip_prefix(' ')?.trim_start();
    let (level, rest) = rest.split_once(' ')?;
    let is_level = matches!(level, "TRACE" | "DEBUG" | "INFO" | "WARN" | "WARNING" | "ERROR" | "CRITICAL");
    is_level.then_some((at, writer, rest.trim_start()))
}

/// `2026-05-28T09:35:10.123456Z`, `2026-05-28 09:35:10,123` or `2026-05-28 09:35:10`.
fn time(line: &str) -> Option<(Time, LogWriter, &str)> {
    let date = line.get(..10)?;
    let clock = line.get(11..)?;
    let end = clock.find(|c: char| !matches!(c, '0'..='9' | ':' | '.' | ',')).unwrap_or(clock.len());
    let (clock, rest) = clock.split_at(end);
    let (writer, rest) = match (line.as_bytes()[10], rest.strip_prefix('Z')) {
        (b'T', Some(rest)) => (LogWriter::Us, rest),
        (b' ', None) => (LogWriter::Hermes, rest),
        _ => return None,
    };
    let civil: DateTime = format!("{date}T{}", clock.replacen(',', ".", 1)).parse().ok()?;
    let stamp: Timestamp = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some((Time(stamp.as_microsecond()), writer, rest))
}

// ------------------------------------------------------------------------------------------ ours

/// Spans and target, then the message.
fn ours(rest: &str) -> Option<News> {
    let mut agent = None;
    let mut pinned = None;
    let mut rest = rest;
    for _ in 0..SPANS_MAX {
        rest = rest.trim_start();
        if rest.starts_with("throughline started") {
            return Some(News::Began);
        }
        let (context, message) = match rest.strip_prefix('[').and_then(|tagged| tagged.split_once("] ")) {
            Some((context, message)) => (Some(context), message),
            None => (pinned, rest),
        };
        if let Some(message) = message.strip_prefix("context compression ") {
            let mut report = named(message)?;
            // Bracket and span say the same, or one of them is wrong: that one is looked at.
            let wrong = [pinned, context].into_iter().flatten().find(|named| *named != report.session);
            report.context = wrong.or(context).map(str::to_owned);
            report.agent = agent;
            return Some(News::Compression(report));
        }
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_:.-".contains(c)))?;
        if word == 0 {
            return None;
        }
        let after = &rest[word..];
        if let Some(fields) = after.strip_prefix('{') {
            let (fields, after) = fields.split_once("}:")?;
            agent = own(fields, "agent").map(str::to_owned).or(agent);
            pinned = own(fields, "session").or(pinned);
            rest = after;
        } else if rest[..word].ends_with(':') && after.starts_with(' ') {
            rest = after;
        } else {
            return None;
        }
    }
    None
}

/// `started: session=S op=O …`
fn named(message: &str) -> Option<Report> {
    let (step, fields) = message.split_once(": ")?;
    let fields = fields.split_once(" reason=").map_or(fields, |(fields, _)| fields);
    let session = own(fields, "session")?.to_owned();
    let operation = Some(own(fields, "op")?.to_owned());
    let step = match step {
        "started" => Step::Started { messages: number(fields, "messages"), tokens: number(fields, "tokens") },
        "done" => Step::Done {
            messages: number(fields, "messages"),
            left: field(fields, "messages").and_then(|both| both.split_once("->")?.1.parse().ok()),
            snapshot: own(fields, "snapshot").filter(|name| *name != "-").map(str::to_owned),
        },
        "skipped" => Step::Skipped,
        "failed" => Step::Failed,
        "stale" => Step::Stale,
        _ => return None,
    };
    Some(Report { agent: None, context: None, session, operation, step })
}

// ---------------------------------------------------------------------------------------- hermes

/// `[tag] logger: message`, the tag being optional.
fn hermes(rest: &str) -> Option<News> {
    let (context, rest) = match rest.strip_prefix('[') {
        Some(tagged) => {
            let (tag, rest) = tagged.split_once("] ")?;
            (Some(tag.to_owned()), rest)
        }
        None => (None, rest),
    };
    let (logger, message) = rest.split_once(": ")?;
    if logger.is_empty() || logger.contains(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c))) {
        return None;
    }
    let begins = ["Starting Hermes Gateway", "throughline started"];
    if logger == "gateway.run" && begins.iter().any(|words| message.starts_with(words)) {
        return Some(News::Began);
    }
    if let Some(running) = message.strip_prefix("context compression ")
        && let Some(report) = named(running)
    {
        return Some(News::Compression(Report { context, ..report }));
    }
    let (session, step) = unnamed(message)?;
    // Of an agent without a session nothing can be said.
    let session = Some(session).filter(|session| *session != "none" && !session.is_empty())?.to_owned();
    Some(News::Compression(Report { agent: None, context, session, operation: None, step }))
}

/// Whose it is, and how far it got.
fn unnamed(message: &str) -> Option<(&str, Step)> {
    let begins = |start: &str| message.strip_prefix(start);
    let running = begins("context compression ").or_else(|| begins("codex app-server compaction "));
    if let Some((step, fields)) = running.and_then(|running| running.split_once(": ")) {
        let fields = fields.split_once(" focus=").map_or(fields, |(fields, _)| fields);
        let messages = number(fields, "messages");
        let step = match step {
            "started" => Step::Started { messages, tokens: number(fields, "tokens") },
            "done" => Step::Done { messages, left: None, snapshot: None },
            "skipped" => Step::Skipped,
            _ => return None,
        };
        return Some((field(fields, "session")?, step));
    }
    // Where it says `session=`, this is the session's; what follows may be anything.
    let skipped = begins("compression skipped: ")
        .or_else(|| begins("compression lock lookup raised unexpectedly for "))
        .or_else(|| begins("compression lock acquisition raised unexpectedly for "))
        .or_else(|| begins("compression session ownership lookup failed for "))
        .or_else(|| begins("Compression made no progress "));
    let failed = || begins("context compression returned an empty transcript; refusing to rotate ");
    let (fields, step) = match skipped {
        Some(fields) => (fields, Step::Skipped),
        None => (failed()?, Step::Failed),
    };
    Some((field(fields, "session")?, step))
}

// --------------------------------------------------------------------------------------- writing

/// How grave something is, in Hermes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

/// What one line says.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    pub at: Time,
    pub level: Level,
    pub session: Option<&'a str>,
    /// The module that says it, as Rust names it.
    pub module: &'a str,
    pub message: &'a str,
}

/// One line as Hermes writes them, without its end. What would begin another line cannot.
pub fn line(said: &Said<'_>, zone: &TimeZone) -> String {
    let at = crate::local::civil(said.at, zone).strftime("%Y-%m-%d %H:%M:%S,%3f");
    let level = match said.level {
        Level::Debug => "DEBUG",
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
    };
    let tag = said.session.map(|session| format!(" [{session}]")).unwrap_or_default();
    // Where a message names its session itself, once is enough.
    let message = tag.trim_start();
    let message = said.message.strip_prefix(message).filter(|_| !tag.is_empty()).unwrap_or(said.message);
    let mut line = format!("{at} {level}{tag} {}: ", logger(said.module));
    for c in message.trim_start().chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push(c),
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// What Hermes calls the part of itself that does the same: `hermes logs --component` goes by it.
pub fn logger(module: &str) -> String {
    const PARTS: [(&str, &str); 8] = [
        ("throughline_gateway", "gateway"),
        ("throughline_platforms", "gateway.platforms"),
        ("throughline_server", "gateway.api_server"),
        ("throughline_store", "gateway.store"),
        ("throughline_tools", "tools"),
        ("throughline_mcp", "tools.mcp"),
        ("throughline_memory", "agent.memory"),
        ("throughline_models", "agent.models"),
    ];
    let (first, rest) = module.split_once("::").unwrap_or((module, ""));
    let known = PARTS.iter().find(|(name, _)| *name == first).map(|(_, part)| *part);
    let part = match known {
        Some(part) => part,
        // Its parts under names of their own.
        None if ["throughline", "throughline_app", "throughline_home", "throughline_upkeep"]
            .contains(&first) =>
        {
            return "gateway.run".to_owned();
        }
        None => first,
    };
    match rest.is_empty() {
        true => part.to_owned(),
        false => format!("{part}.{}", rest.replace("::", ".")),
    }
}

/// Whether a line of this logger belongs into `gateway.log`.
pub fn is_gateway(logger: &str) -> bool {
    logger == "gateway" || logger.starts_with("gateway.")
}

// ---------------------------------------------------------------------------------------- fields

/// The value of the first `name=` at the beginning of a word.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let mut words = fields.split([' ', '(', ')']);
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', ',']))
}

/// The same in a line of ours: an id may hold anything but a space.
fn own<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Of `~1,234` 1234, of `194->26` what was before.
fn number(fields: &str, name: &str) -> Option<u64> {
    let value = field(fields, name)?;
    let value = value.split_once("->").map_or(value, |(before, _)| before);
    value.trim_start_matches('~').replace(',', "").parse().ok()
}
