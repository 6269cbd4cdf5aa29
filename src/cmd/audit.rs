//! `throughline audit`: whether the promises about messages and sessions were kept, by what logs and the store say.
//!
//! - the store is asked for P1, P3, P7, P8, P11, P12, P20 and P24, and for every other invariant that it has; a
//!   violation names the messages
//! - with `--since` only what was written since counts; older lines are still read, for what began with them
//! - a log is read once, from its beginning, of any size
//! - rotated files are one log, read in the order they were written
//! - what could not be read is named; an audit of nothing at all is an error, not a clean result
//!
//! Deliberately absent: what a line means (`hermes::log`), and what is wrong (`core::audit`).

use crate::out::{Column, Page, Table, Tint, one_line, visible, write_json};
use crate::span::Since;
use anyhow::{Context, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_core::Time;
use throughline_core::audit::{Audit as Judge, Entry, Finding, Kind, Place, Tally};
use throughline_gateway::{Clock, SystemClock};
use throughline_hermes::log;
use throughline_home::config::Environment;
use throughline_home::home::{self, Home};
use throughline_store::{Breach, OpenError};

#[cfg(test)]
mod tests;

/// No line about compression is longer; what is left of a longer one is skipped, not kept.
const LINE_MAX: u64 = 64 * 1024;
/// How many findings are kept of one log. All are counted.
const KEPT_MAX: usize = 1_000;
/// How many of them are shown to a person.
const SHOWN_MAX: usize = 20;
/// As opposed to a failure to look.
const WITH_VIOLATIONS: u8 = 2;
/// What an audit is about, before everything else.
const PROMISES: [&str; 8] = ["P1", "P3", "P7", "P8", "P11", "P12", "P20", "P24"];

/// What the contract calls it.
fn promise(kind: Kind) -> &'static str {
    match kind {
        Kind::IdChanged => "P1",
        Kind::Discontinuity => "P8",
        Kind::ForeignSnapshot => "P11",
        Kind::Overlap => "P12",
        Kind::ForeignContext | Kind::Unpaired => "P13",
    }
}

/// Where Hermes logs, and where our own log goes if it is kept in the home.
const NAMES: [&str; 2] = ["agent.log", "throughline.log"];

/// Verify that nothing was lost, doubled or misled, in logs and in the store; fails if anything was
#[derive(Debug, clap::Args)]
pub struct Audit {
    /// A log of this gateway, or Hermes' agent.log; - is standard input. Without --home only this is read
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Only what happened since: 24h, 7d, or 2026-05-28T09:35
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub fn run(
        self,
        homes: &[PathBuf],
        environment: &Environment,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let homes = match homes.is_empty() && self.log.is_some() {
            true => Vec::new(),
            false => home::choose(homes, &|name| environment.get(name))?,
        };
        let now = SystemClock::new().now();
        let since = self.since.map(|since| since.before(now));
        let mut verdict = Verdict { since, ..Verdict::default() };
        match &self.log {
            Some(path) if path == Path::new("-") => verdict.read_input(io::stdin().lock())?,
            Some(path) => verdict.read_file(path)?,
            None => {}
        }
        for home in &homes {
            home.refuse_absent()?;
            verdict.look_at(home)?;
        }
        match self.json {
            true => write_json(&verdict.in_json(), out)?,
            false => verdict.tell(page, out)?,
        }
        Ok(if verdict.violations() == 0 { ExitCode::SUCCESS } else { ExitCode::from(WITH_VIOLATIONS) })
    }
}

/// Everything that was looked at, and what came of it.
#[derive(Default)]
struct Verdict {
    since: Option<Time>,
    logs: Vec<Log>,
    stores: Vec<Checked>,
    /// What could not be looked at, and why.
    unread: Vec<String>,
}

/// One log, of one file or several.
struct Log {
    files: Vec<String>,
    lines: u64,
    tally: Tally,
    counts: BTreeMap<Kind, u64>,
    findings: Vec<Finding>,
}

struct Checked {
    database: PathBuf,
    breaches: Vec<Breach>,
}

/// How many messages of one breach are shown to a person; programs get [`KEPT_MAX`].
const NAMED_MAX: usize = 10;

fn in_words(breach: &Breach) -> String {
    let Breach { promise, name, says, found } = breach;
    let named: Vec<&str> = found.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = match found.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{promise} {name}: it should hold that {says}; it does not for {}{more}", named.join(", "))
}

impl Verdict {
    fn read_input(&mut self, input: impl BufRead) -> anyhow::Result<()> {
        let mut reading = Reading { since: self.since, ..Reading::default() };
        let file = Open { name: "standard input".into(), text: input };
        if !reading.take(file)? {
            bail!(
                "nothing came on standard input: give a log, as in `zcat agent.log.gz | throughline audit --log -`"
            );
        }
        self.logs.push(reading.end());
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let mut reading = Reading { since: self.since, ..Reading::default() };
        if !reading.take(open(path)?)? {
            bail!("{} is empty: there is nothing to verify", path.display());
        }
        self.logs.push(reading.end());
        Ok(())
    }

    /// All logs of a home, and its store.
    fn look_at(&mut self, home: &Home) -> anyhow::Result<()> {
        let before = self.logs.len();
        for name in NAMES {
            self.read_rotated(&home.path().join("logs"), name)?;
        }
        let has_logs = self.logs.len() > before;
        let store = throughline_store::Home::at(home.path());
        match store.reader() {
            Ok(reader) => {
                let breaches = reader.breaches(self.since)?;
                let rotations = reader.rotations(self.since)?;
                if rotations > 0 {
                    self.unread.push(format!(
                        "{rotations} compressions in {} gave a conversation another id, as Hermes' do. What became of those \
                         conversations is not judged here: `throughline doctor --home {}` finds it, and repairs it",
                        home.path().join("state.db").display(),
                        home.path().display()
                    ));
                }
                self.stores.push(Checked { database: home.path().join("state.db"), breaches });
            }
            Err(OpenError::Missing(_)) if has_logs => {
                self.unread
                    .push(format!("{} has no state.db: its logs were read, no store", home.path().display()));
            }
            Err(OpenError::Missing(_)) => bail!(
                "there is nothing to verify in {}: no state.db, and no agent.log or throughline.log in its logs directory",
                home.path().display()
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("the store of {}", home.path().display()));
            }
        }
        if !has_logs {
            let logs = home.path().join("logs");
            self.unread.push(format!(
                "no log in {}: only the store was verified. A gateway keeps agent.log there; give any other with --log",
                logs.display()
            ));
        }
        Ok(())
    }

    fn read_rotated(&mut self, directory: &Path, name: &str) -> anyhow::Result<()> {
        let mut reading = Reading { since: self.since, ..Reading::default() };
        for path in rotated(directory, name) {
            let taken = open(&path).and_then(|file| reading.take(file));
            if let Err(error) = taken {
                self.unread.push(format!("{error:#}"));
            }
        }
        if !reading.files.is_empty() {
            self.logs.push(reading.end());
        }
        Ok(())
    }

    fn count(&self, kind: Kind) -> u64 {
        self.logs.iter().filter_map(|log| log.counts.get(&kind)).sum()
    }

    fn broken(&self) -> u64 {
        self.stores.iter().map(|store| store.breaches.len() as u64).sum()
    }

    /// How often each promise was broken. Those that are always asked for are always there.
    fn promises(&self) -> BTreeMap<&'static str, u64> {
        let mut promises: BTreeMap<&str, u64> = PROMISES.into_iter().map(|promise| (promise, 0)).collect();
        for kind in Kind::ALL {
            *promises.entry(promise(kind)).or_default() += self.count(kind);
        }
        for breach in self.stores.iter().flat_map(|store| &store.breaches) {
            *promises.entry(breach.promise).or_default() += 1;
        }
        promises
    }

    fn violations(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.count(kind)).sum::<u64>() + self.broken()
    }
}

// --------------------------------------------------------------------------------------- reading

/// A file that is a text.
struct Open<R> {
    name: String,
    text: R,
}

fn open(path: &Path) -> anyhow::Result<Open<impl BufRead>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{shown} cannot be read"))?;
    let about = file.metadata().with_context(|| format!("{shown} cannot be read"))?;
    if about.is_dir() {
        bail!("{shown} is a directory: give a file, or an agent's home with `--home {shown}`");
    }
    Ok(Open { name: shown.to_string(), text: BufReader::with_capacity(LINE_MAX as usize, file) })
}

/// The file and those it was before, oldest first: `name.2`, `name.1`, `name`, or with dates.
fn rotated(directory: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(i64, PathBuf)> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let suffix = file.strip_prefix(name)?;
            if suffix.is_empty() {
                return Some((i64::MAX, entry.path()));
            }
            let suffix = suffix.strip_prefix(['.', '-'])?;
            let digits: String = suffix.chars().take_while(char::is_ascii_digit).take(17).collect();
            let number: i64 = digits.parse().ok()?;
            // Numbers count backwards from now, dates count forwards.
            Some((if number < 10_000 { -number } else { number }, entry.path()))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// What the logs of a home show about its compressions: whom it concerns, and the lines, as `logs/agent.log:24`.
pub fn shown_by_logs(home: &Path) -> anyhow::Result<Vec<(Vec<String>, String)>> {
    let mut verdict = Verdict::default();
    for name in NAMES {
        verdict.read_rotated(&home.join("logs"), name)?;
    }
    let mut shown = Vec::new();
    for log in &verdict.logs {
        for finding in &log.findings {
            let places: Vec<String> = finding.places.iter().map(|place| log.line(place, home)).collect();
            let text = format!("{}: {}", places.join(", "), one_line(&finding.says));
            shown.push((finding.sessions.clone(), text));
        }
    }
    Ok(shown)
}

#[derive(Default)]
struct Reading {
    /// What was found before is not told.
    since: Option<Time>,
    /// The first line that counts.
    first: Option<Place>,
    judge: Judge,
    files: Vec<String>,
    lines: u64,
    counts: BTreeMap<Kind, u64>,
    findings: Vec<Finding>,
}

impl Reading {
    /// Reads one file to its end; whether there was anything in it.
    fn take(&mut self, file: Open<impl BufRead>) -> anyhow::Result<bool> {
        let Open { name, mut text } = file;
        let unreadable = || format!("{name} cannot be read to its end");
        refuse_other_formats(&name, text.fill_buf().with_context(unreadable)?)?;
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        let mut line = Vec::new();
        let mut place = Place { file: number, line: 0 };
        while next_line(&mut text, &mut line).with_context(unreadable)? {
            place.line += 1;
            if let Some((at, news)) = log::read(&String::from_utf8_lossy(&line)) {
                let found = self.judge.read(&Entry { place, at: Some(at), news });
                if self.since.is_none_or(|since| moment(&line, at) >= since) {
                    self.first.get_or_insert(place);
                    self.keep(found);
                }
            }
        }
        self.files.push(name);
        self.lines += place.line;
        Ok(place.line > 0)
    }

    fn keep(&mut self, found: Vec<Finding>) {
        for finding in found {
            *self.counts.entry(finding.kind).or_default() += 1;
            if self.findings.len() < KEPT_MAX {
                self.findings.push(finding);
            }
        }
    }

    fn end(mut self) -> Log {
        let (mut found, tally) = std::mem::take(&mut self.judge).finish();
        // What only the end shows was written with its last line.
        found.retain(|finding| {
            finding.places.last().is_none_or(|last| self.first.is_some_and(|first| *last >= first))
        });
        self.keep(found);
        self.findings.sort_by(|one, other| one.places.cmp(&other.places));
        let Reading { files, lines, counts, findings, .. } = self;
        Log { files, lines, tally, counts, findings }
    }
}

/// When a line was written. Hermes' form is the clock on the wall, read as if that were in Greenwich.
fn moment(line: &[u8], at: Time) -> Time {
    let is_local = line.get(10) == Some(&b' ') && line.get(19) == Some(&b',');
    let local = || {
        let wall = TimeZone::UTC.to_datetime(Timestamp::from_microsecond(at.0).ok()?);
        Some(Time(wall.to_zoned(TimeZone::system()).ok()?.timestamp().as_microsecond()))
    };
    is_local.then(local).flatten().unwrap_or(at)
}

/// The next line without its end, at most [`LINE_MAX`] of it; false if there is none.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = text.by_ref().take(LINE_MAX).read_until(b'\n', line)? as u64;
    if read == LINE_MAX && !line.ends_with(b"\n") {
        while !skip_to_end(text)? {}
    }
    Ok(read > 0)
}

/// Drops what is buffered; whether that was the end of the line, or of the file.
fn skip_to_end(text: &mut impl BufRead) -> io::Result<bool> {
    let buffered = text.fill_buf()?;
    let end = buffered.iter().position(|byte| *byte == b'\n');
    let is_end = end.is_some() || buffered.is_empty();
    let dropped = end.map_or(buffered.len(), |at| at + 1);
    text.consume(dropped);
    Ok(is_end)
}

fn refuse_other_formats(name: &str, start: &[u8]) -> anyhow::Result<()> {
    if start.starts_with(&[0x1f, 0x8b]) {
        bail!("{name} is compressed with gzip: read it with `zcat {name} | throughline audit --log -`");
    }
    // A power failure may leave a few zeros in a log.
    let odd = start.iter().filter(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31)).count();
    if odd * 10 > start.len() {
        bail!("{name} is no text: give the log of a gateway, or Hermes' logs/agent.log");
    }
    Ok(())
}

// --------------------------------------------------------------------------------------- telling

impl Verdict {
    fn tell(&self, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
        for log in &self.logs {
            writeln!(out, "log    {}", log.in_words())?;
        }
        for store in &self.stores {
            let verdict = match store.breaches.len() {
                0 => "every invariant holds".to_owned(),
                1 => "an invariant is broken".to_owned(),
                many => format!("{many} times an invariant is broken"),
            };
            writeln!(out, "store  {}: {verdict}", store.database.display())?;
        }
        for unread in &self.unread {
            writeln!(out, "note   {}", visible(unread))?;
        }
        writeln!(out)?;
        self.table().write(page, out)?;
        writeln!(out)?;
        if !self.stores.is_empty() {
            let kept: Vec<String> =
                self.promises().iter().map(|(promise, count)| format!("{promise} {count}")).collect();
            writeln!(out, "Broken, by promise: {}", kept.join(", "))?;
        }
        match self.violations() {
            0 => writeln!(out, "{}", page.paint(Tint::Green, "No violations."))?,
            _ => self.tell_findings(page, out)?,
        }
        Ok(())
    }

    fn table(&self) -> Table<3> {
        let mut table =
            Table::new([Column::text("VIOLATION"), Column::number("COUNT"), Column::flexible("MEANING")]);
        for kind in Kind::ALL.into_iter().filter(|_| !self.logs.is_empty()) {
            table.row([kind.name().to_owned(), self.count(kind).to_string(), kind.says().to_owned()]);
        }
        if !self.stores.is_empty() {
            table.row([
                "store".to_owned(),
                self.broken().to_string(),
                "the store breaks an invariant".to_owned(),
            ]);
        }
        table
    }

    fn tell_findings(&self, page: &Page, out: &mut dyn Write) -> anyhow::Result<()> {
        let from_logs = self.logs.iter().flat_map(|log| {
            log.findings.iter().map(|finding| (finding.kind.name(), log.at(finding), one_line(&finding.says)))
        });
        let from_stores = self.stores.iter().flat_map(|store| {
            let database = store.database.display().to_string();
            store.breaches.iter().map(move |breach| ("store", database.clone(), one_line(&in_words(breach))))
        });
        for (kind, place, says) in from_logs.chain(from_stores).take(SHOWN_MAX) {
            writeln!(out, "{}  {}: {says}", page.paint(Tint::Red, kind), page.paint(Tint::Dim, &place))?;
        }
        let more = self.violations().saturating_sub(SHOWN_MAX as u64);
        if more > 0 {
            writeln!(out, "and {more} more; `--json` shows up to {KEPT_MAX} of each log")?;
        }
        Ok(())
    }

    fn in_json(&self) -> Value {
        let kinds = Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), json!(self.count(kind))));
        let counts: serde_json::Map<String, Value> =
            kinds.chain([("store".to_owned(), json!(self.broken()))]).collect();
        let promises: serde_json::Map<String, Value> =
            self.promises().into_iter().map(|(promise, count)| (promise.to_owned(), json!(count))).collect();
        let findings: Vec<Value> =
            self.logs.iter().flat_map(|log| log.findings.iter().map(|one| log.in_json(one))).collect();
        let found: u64 = self.logs.iter().flat_map(|log| log.counts.values()).sum();
        json!({
            "violations": self.violations(),
            "counts": counts,
            "promises": promises,
            "left_off": found - findings.len() as u64,
            "findings": findings,
            "logs": self.logs.iter().map(Log::about).collect::<Vec<_>>(),
            "stores": self.stores.iter().map(|store| json!({
                "database": store.database.display().to_string(),
                "breaches": store.breaches.iter().map(in_words).collect::<Vec<_>>(),
                "violations": store.breaches.iter().map(|breach| json!({
                    "promise": breach.promise,
                    "name": breach.name,
                    "says": breach.says,
                    "count": breach.found.len(),
                    "messages": &breach.found[..breach.found.len().min(KEPT_MAX)],
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "notes": self.unread,
        })
    }
}

impl Log {
    fn in_words(&self) -> String {
        let Tally { started, done, skipped, failed, stale, open, processes } = self.tally;
        let files = match self.files.as_slice() {
            [only] => only.clone(),
            [first, .., last] => format!("{last} and what was rotated from it, since {first}"),
            [] => String::new(),
        };
        let compressions = match started + done + skipped + failed + stale {
            0 => "nothing in it is about compression".to_owned(),
            _ => format!(
                "{started} compressions begun, {done} done, {skipped} skipped, {failed} failed, {stale} stale, \
                 {open} in flight at the end"
            ),
        };
        let lines = self.lines;
        format!("{}: {lines} lines, {processes} starts of a gateway; {compressions}", visible(&files))
    }

    /// `logs/agent.log:24`
    fn line(&self, place: &Place, home: &Path) -> String {
        let file = self.files.get(place.file as usize).map_or(Path::new(""), Path::new);
        format!("{}:{}", file.strip_prefix(home).unwrap_or(file).display(), place.line)
    }

    /// `lines 24 and 27`, with the file where there are several.
    fn at(&self, finding: &Finding) -> String {
        let name = |place: &Place| {
            let file = self.files.get(place.file as usize).map_or("", String::as_str);
            match self.files.len() {
                1 => place.line.to_string(),
                _ => format!(
                    "{}:{}",
                    Path::new(file).file_name().unwrap_or_default().to_string_lossy(),
                    place.line
                ),
            }
        };
        let places: Vec<String> = finding.places.iter().map(name).collect();
        match places.as_slice() {
            [only] => format!("line {only}"),
            [first @ .., last] => format!("lines {} and {last}", first.join(", ")),
            [] => String::new(),
        }
    }

    fn in_json(&self, finding: &Finding) -> Value {
        let lines = finding
            .places
            .iter()
            .map(|place| json!({"file": self.files.get(place.file as usize), "line": place.line}));
        json!({
            "kind": finding.kind.name(),
            "sessions": finding.sessions,
            "lines": lines.collect::<Vec<_>>(),
            "says": finding.says,
        })
    }

    fn about(&self) -> Value {
        json!({
            "files": self.files,
            "lines": self.lines,
            "processes": self.tally.processes,
            "started": self.tally.started,
            "done": self.tally.done,
            "skipped": self.tally.skipped,
            "failed": self.tally.failed,
            "stale": self.tally.stale,
            "open": self.tally.open,
        })
    }
}
