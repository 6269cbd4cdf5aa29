//! The log files of each home, where people tail them: `logs/agent.log` has everything,
//! `logs/gateway.log` what the gateway itself did, `logs/errors.log` warnings and errors.
//!
//! - a line goes to the home of the agent in whose span it was said; what no agent said goes to the first
//! - lines have Hermes' form, files are rotated as Hermes rotates them, and only their owner can read them
//! - what is secret is redacted before it is queued
//! - a caller that logs never waits: lines that the disk cannot follow are dropped, counted, and the count is
//!   written once it can
//!
//! Files are opened anew for every burst of lines: a Hermes that rotates the same file, or a person who
//! deletes it, is no obstacle, and a home at rest holds no descriptor.
//!
//! Deliberately absent: what goes to the standard error, which is the supervisor's.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;
use throughline_core::redact::redacted;
use throughline_gateway::{Clock, SystemClock};
use throughline_hermes::local::system_zone;
use throughline_hermes::log::{self, Level, Said};
use throughline_home::config;
use throughline_home::home::private_file;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Some seconds of a gateway that logs every request; a few megabytes.
const QUEUE_MAX: usize = 8_192;
/// One line is no place for a document.
const LINE_CHARS_MAX: usize = 8_192;
/// Lines that are written with one opening of a file.
const BURST_MAX: usize = 1_024;
/// Hermes' own, also where others are set.
const ERRORS_BYTES_MAX: u64 = 2 << 20;
const ERRORS_BACKUPS: u64 = 2;

/// The files of every home, and the thread that writes them.
pub struct Logs {
    homes: RwLock<BTreeMap<String, Arc<HomeLog>>>,
    /// The one that gets what no agent said.
    first: OnceLock<String>,
    queue: SyncSender<LogEntry>,
    dropped: Arc<AtomicU64>,
    clock: SystemClock,
}

struct HomeLog {
    directory: PathBuf,
    keeping: config::Logs,
}

enum LogEntry {
    Line {
        home: Arc<HomeLog>,
        level: Level,
        is_gateway: bool,
        text: String,
    },
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

impl Logs {
    /// The writing thread ends with the last clone of the queue.
    pub fn start() -> io::Result<Arc<Self>> {
        let (queue, lines) = mpsc::sync_channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        std::thread::Builder::new().name("logs".into()).spawn(move || write(&lines, &counted))?;
        let (homes, first, clock) = (RwLock::default(), OnceLock::new(), SystemClock::new());
        Ok(Arc::new(Self { homes, first, queue, dropped, clock }))
    }

    /// From now on this agent's lines go to its home, which first hears that a process begins. The first
    /// one's home also gets what no agent said.
    pub fn keep(&self, agent: &str, home: &Path, keeping: &config::Logs) {
        let _ = self.first.set(agent.to_owned());
        let log = Arc::new(HomeLog { directory: home.join("logs"), keeping: keeping.clone() });
        let mut homes = self.homes.write().expect("nothing panics while it holds the homes");
        if homes.insert(agent.to_owned(), log.clone()).is_none() {
            let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
            let message = format!("throughline started version={version:?} pid={pid}");
            self.queue_line(log, Said { message: &message, ..self.own(Level::Info) });
        }
    }

    /// What this module itself has to say.
    fn own(&self, level: Level) -> Said<'static> {
        Said { at: self.clock.now(), level, session: None, module: env!("CARGO_CRATE_NAME"), message: "" }
    }

    fn queue_line(&self, home: Arc<HomeLog>, said: Said<'_>) {
        let is_gateway = log::is_gateway(&log::logger(said.module));
        let (level, text) = (said.level, log::line(&said, &system_zone()));
        if let Err(TrySendError::Full(_)) =
            self.queue.try_send(LogEntry::Line { home, level, is_gateway, text })
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Everything that was said so far is in its file, unless the disk takes too long.
    pub fn flush(&self) {
        let (written, done) = mpsc::sync_channel(1);
        if self.queue.send(LogEntry::Flush(written)).is_ok() {
            let _ = done.recv_timeout(Duration::from_secs(2));
        }
    }

    fn home_of(&self, agent: Option<&str>) -> Option<Arc<HomeLog>> {
        let homes = self.homes.read().expect("nothing panics while it holds the homes");
        agent.and_then(|agent| homes.get(agent)).or_else(|| homes.get(self.first.get()?)).cloned()
    }

    fn say(&self, agent: Option<&str>, session: Option<&str>, event: &Event<'_>) {
        let Some(home) = self.home_of(agent) else { return };
        let (level, module) = (level(*event.metadata().level()), event.metadata().target());
        // What libraries say in passing is their own business.
        let least = if module.starts_with("throughline") { home.keeping.level } else { Level::Warning };
        if level < least.min(Level::Warning) {
            return;
        }
        let mut words = EventText::default();
        event.record(&mut words);
        let mut message = redacted(&words.joined());
        if let Some((end, _)) = message.char_indices().nth(LINE_CHARS_MAX) {
            message.truncate(end);
            message.push('…');
        }
        self.queue_line(home, Said { at: self.clock.now(), level, session, module, message: &message });
    }
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

// -------------------------------------------------------------------------------------- the layer

/// GatewayTools every event to the home it belongs to.
pub struct ModelSummariser(pub Arc<Logs>);

/// What a span says of whose it is.
#[derive(Default)]
struct LineOwner {
    agent: Option<String>,
    session: Option<String>,
}

impl Visit for LineOwner {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "agent" => self.agent = Some(format!("{value:?}").trim_matches('"').to_owned()),
            "session" => self.session = Some(format!("{value:?}").trim_matches('"').to_owned()),
            _ => {}
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ModelSummariser {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut owner = LineOwner::default();
        attributes.record(&mut owner);
        if let (true, Some(span)) = (owner.agent.is_some() || owner.session.is_some(), context.span(id)) {
            span.extensions_mut().insert(owner);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut owner = LineOwner::default();
        event.record(&mut owner); // an event may name them itself
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(around) = extensions.get::<LineOwner>() else { continue };
            owner.agent = owner.agent.or_else(|| around.agent.clone());
            owner.session = owner.session.or_else(|| around.session.clone());
        }
        self.0.say(owner.agent.as_deref(), owner.session.as_deref(), event);
    }
}

/// The message of an event, and its fields behind it.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl EventText {
    fn joined(&self) -> String {
        format!("{}{}", self.message, self.fields)
    }
}

// ------------------------------------------------------------------------------------- the writer

/// What goes to one file in this burst.
type Burst = BTreeMap<PathBuf, (String, Keeping)>;

#[derive(Clone, Copy)]
struct Keeping {
    bytes_max: u64,
    backups: u64,
}

fn write(lines: &Receiver<LogEntry>, dropped: &AtomicU64) {
    while let Ok(first) = lines.recv() {
        let mut burst = Burst::new();
        let mut answers = Vec::new();
        let more = std::iter::once(first).chain(std::iter::from_fn(|| lines.try_recv().ok()));
        let mut last = None;
        for entry in more.take(BURST_MAX) {
            match entry {
                LogEntry::Line { home, level, is_gateway, text } => {
                    sort(&mut burst, &home, level, is_gateway, &text);
                    last = Some(home);
                }
                LogEntry::Flush(answer) => answers.push(answer),
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if let (1.., Some(home)) = (lost, &last) {
            let message = format!("{lost} lines of the log were dropped: the disk could not follow");
            let (at, level) = (SystemClock::new().now(), Level::Warning);
            let said = Said { at, level, session: None, module: "throughline", message: &message };
            sort(&mut burst, home, level, true, &log::line(&said, &system_zone()));
        }
        for (path, (text, keeping)) in burst {
            // A disk that is full is told about elsewhere; a log that cannot be written is no reason to stop.
            let _ = append(&path, &text, keeping);
        }
        for answer in answers {
            let _ = answer.send(()); // the caller may not have waited
        }
    }
}

fn sort(burst: &mut Burst, home: &HomeLog, level: Level, is_gateway: bool, line: &str) {
    let usual = Keeping { bytes_max: home.keeping.bytes_max, backups: home.keeping.backups };
    let errors = Keeping { bytes_max: ERRORS_BYTES_MAX.min(usual.bytes_max), backups: ERRORS_BACKUPS };
    let files = [
        ("agent.log", level >= home.keeping.level, usual),
        ("gateway.log", is_gateway && level >= home.keeping.level.max(Level::Info), usual),
        ("errors.log", level >= Level::Warning, errors),
    ];
    for (name, _, keeping) in files.into_iter().filter(|(_, wanted, _)| *wanted) {
        let (text, _) = burst.entry(home.directory.join(name)).or_insert((String::new(), keeping));
        text.push_str(line);
        text.push('\n');
    }
}

/// A file that would become too large is put aside first: `agent.log.1` is the latest of those.
fn append(path: &Path, text: &str, keeping: Keeping) -> io::Result<()> {
    let length = fs::metadata(path).map_or(0, |file| file.len());
    if length > 0 && length + text.len() as u64 > keeping.bytes_max {
        let aside = |nth: u64| PathBuf::from(format!("{}.{nth}", path.display()));
        for nth in (1..keeping.backups).rev() {
            let _ = fs::rename(aside(nth), aside(nth + 1));
        }
        fs::rename(path, aside(1))?;
    }
    private_file().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
