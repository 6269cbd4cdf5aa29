//! Output that is too long for a conversation is kept in a file.
//!
//! What does not fit is kept whole in a file, and the conversation gets its beginning and the file's
//! name, in Hermes' words. One call's output always goes to the file of its key, so a result that is
//! made twice is kept once, in a directory of its session, which alone may read it. Output that is still coming is never held whole: [`SpillWriter`] keeps its two
//! ends in memory and the rest on disk.
//!
//! Deliberately absent: what the output means. The tool that made the text redacts secrets.

use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};
use throughline_hermes::file_policy;
use throughline_private_files as private_files;

/// Hermes' limits, right for windows of 200,000 tokens and more.
const RESULT_CHARS_MAX: usize = 100_000;
const PREVIEW_CHARS: usize = 1_500;
/// Smaller windows get their share of it, never less than is of any use.
const RESULT_CHARS_MIN: usize = 8_000;
const CHARS_PER_TOKEN: u64 = 4;
const WINDOW_SHARE_PERCENT: u64 = 15;

/// A conversation may come back to an output for weeks, hardly for months.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// All spilled output of one home: a runaway build log must not fill the disk.
const TOTAL_BYTES_MAX: u64 = 1 << 30;
/// One output: beyond this it is a mistake, and its beginning and end tell which.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Looking through the directory costs more than one more file.
const TIDY_PAUSE: Duration = Duration::from_secs(600);

const NAME_CHARS_MAX: usize = 120;

/// Where long outputs of one home go.
pub struct SpillDirectory {
    directory: PathBuf,
    result_chars_max: usize,
    total_bytes_max: u64,
    file_bytes_max: u64,
    tidied: Mutex<Option<Instant>>,
}

impl SpillDirectory {
    /// `directory` is made when it is first needed.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            result_chars_max: RESULT_CHARS_MAX,
            total_bytes_max: TOTAL_BYTES_MAX,
            file_bytes_max: FILE_BYTES_MAX,
            tidied: Mutex::new(None),
        }
    }

    /// Where a home keeps them.
    pub fn of_home(home: &Path) -> Self {
        Self::new(home.join(file_policy::TOOL_RESULTS))
    }

    /// Limits for a model with this window, where it is known.
    #[must_use]
    pub fn for_window(mut self, tokens: Option<u64>) -> Self {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            let share = tokens.saturating_mul(CHARS_PER_TOKEN) / 100 * WINDOW_SHARE_PERCENT;
            let share = usize::try_from(share).unwrap_or(usize::MAX);
            self.result_chars_max = share.clamp(RESULT_CHARS_MIN, RESULT_CHARS_MAX);
        }
        self
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The result as the conversation gets it. Reading a file is never capped here: it has its own
    /// limit, and a result that must be read in turn would have no end.
    pub fn cap(&self, tool: &str, key: &str, text: String) -> String {
        if tool == "read_file" || text.len() <= self.result_chars_max {
            return text;
        }
        let chars = text.chars().count();
        if chars <= self.result_chars_max {
            return text;
        }
        let preview = preview(&text);
        match self.keep(key, text.as_bytes()) {
            Ok(path) => reference(preview, chars, text.len() as u64, &path),
            Err(error) => {
                tracing::warn!(%error, directory = %self.directory.display(), "a long result could not be kept");
                format!(
                    "{preview}\n\n[Truncated: tool response was {} chars. Full output could not be saved to \
                     sandbox.]",
                    thousands(chars as u64)
                )
            }
        }
    }

    /// For output that is still coming: `ends` is what stays in memory of it.
    pub fn writer(&self, key: &str, ends: OutputEnds) -> SpillWriter {
        self.tidy();
        let path = self.path(key);
        SpillWriter {
            directory: path.parent().unwrap_or(&self.directory).to_owned(),
            path,
            ends,
            bytes_max: self.file_bytes_max,
            held: Vec::new(),
            tail: VecDeque::new(),
            file: SpillFile::Unopened,
            total: 0,
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        let directory = file_policy::directory_of_call(key);
        directory.map_or_else(|| self.directory.clone(), |own| self.directory.join(own)).join(file_name(key))
    }

    fn keep(&self, key: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        self.tidy();
        let path = self.path(key);
        let directory = path.parent().unwrap_or(&self.directory);
        make_directory(directory)?;
        let mut file = tempfile::Builder::new().prefix(".spill-").tempfile_in(directory)?;
        let within = usize::try_from(self.file_bytes_max).unwrap_or(usize::MAX).min(bytes.len());
        file.write_all(&bytes[..within])?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }

    /// Removes what is old, and the oldest of what is too much. Failing at it is no reason to fail.
    fn tidy(&self) {
        {
            let mut tidied = self.tidied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if tidied.is_some_and(|at| at.elapsed() < TIDY_PAUSE) {
                return;
            }
            *tidied = Some(Instant::now());
        }
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let (sessions, single): (Vec<_>, Vec<_>) =
            entries.flatten().partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let is_old = |changed: SystemTime| changed.elapsed().is_ok_and(|age| age > AGE_MAX);
        for session in &sessions {
            // Only one that is empty goes.
            if session.metadata().and_then(|facts| facts.modified()).is_ok_and(is_old) {
                let _ = fs::remove_dir(session.path());
            }
        }
        let within =
            sessions.iter().filter_map(|session| fs::read_dir(session.path()).ok()).flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = single
            .into_iter()
            .chain(within)
            .filter_map(|entry| {
                let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((facts.modified().ok()?, facts.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
        for (changed, length, path) in files {
            if !is_old(changed) && total <= self.total_bytes_max {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
            }
        }
    }
}

/// How much of the beginning and of the end stays in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputEnds {
    pub head: usize,
    pub tail: usize,
}

impl OutputEnds {
    /// Hermes' division: errors often come first, what matters mostly last.
    pub fn of(bytes: usize) -> Self {
        let head = bytes / 5 * 2;
        Self { head, tail: bytes - head }
    }
}

enum SpillFile {
    /// All of it is still held.
    Unopened,
    Open(File),
    /// The disk failed: the ends are all there is.
    Failed,
}

/// Takes output as it comes, in constant memory.
///
/// Dropped without [`SpillWriter::finish`], its file goes with it.
pub struct SpillWriter {
    directory: PathBuf,
    path: PathBuf,
    ends: OutputEnds,
    bytes_max: u64,
    /// All of it, until it is longer than both ends; then the head.
    held: Vec<u8>,
    tail: VecDeque<u8>,
    file: SpillFile,
    total: u64,
}

/// What became of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpilledOutput {
    /// All of it if nothing was left out, else both ends with Hermes' notice between.
    pub text: String,
    pub total_bytes: u64,
    /// Where the whole is, if it did not fit and could be kept.
    pub path: Option<PathBuf>,
}

impl SpillWriter {
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if matches!(self.file, SpillFile::Unopened) {
            self.held.extend_from_slice(bytes);
            if self.held.len() > self.ends.head + self.ends.tail {
                self.spill();
            }
            return;
        }
        self.append(bytes);
        self.keep_tail(bytes);
    }

    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// How it stands now; the output may go on.
    pub fn so_far(&self) -> SpilledOutput {
        let path = matches!(self.file, SpillFile::Open(_)).then(|| self.path.clone());
        if matches!(self.file, SpillFile::Unopened) {
            let text = String::from_utf8_lossy(&self.held).into_owned();
            return SpilledOutput { text, total_bytes: self.total, path };
        }
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        let omitted = self.total - self.held.len() as u64 - tail.len() as u64;
        let mut text = head_text(&self.held);
        if omitted > 0 {
            let _ = write!(
                text,
                "\n\n... [OUTPUT TRUNCATED - {omitted} chars omitted out of {} total] ...\n\n",
                self.total
            );
        }
        text.push_str(&tail_text(&tail));
        SpilledOutput { text, total_bytes: self.total, path }
    }

    pub fn finish(mut self) -> SpilledOutput {
        let spilled = self.so_far();
        self.file = SpillFile::Unopened; // kept: nothing left to take away
        spilled
    }

    fn spill(&mut self) {
        self.file = match open(&self.directory, &self.path) {
            Ok(file) => SpillFile::Open(file),
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "a long output could not be kept");
                SpillFile::Failed
            }
        };
        let held = std::mem::take(&mut self.held);
        let begun = self.total;
        self.total = held.len() as u64; // what `append` compares with the limit
        self.append(&held);
        self.total = begun;
        let head = self.ends.head.min(held.len());
        self.keep_tail(&held[head..]);
        self.held = held;
        self.held.truncate(head);
        self.held.shrink_to_fit();
    }

    fn append(&mut self, bytes: &[u8]) {
        let SpillFile::Open(file) = &mut self.file else { return };
        let before = self.total - bytes.len() as u64;
        let room = self.bytes_max.saturating_sub(before).min(bytes.len() as u64) as usize;
        if let Err(error) = file.write_all(&bytes[..room]) {
            tracing::warn!(%error, path = %self.path.display(), "a long output could not be kept");
            self.file = SpillFile::Failed;
            let _ = fs::remove_file(&self.path);
        }
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.ends.tail)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(self.ends.tail);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }
}

impl Drop for SpillWriter {
    fn drop(&mut self) {
        if matches!(self.file, SpillFile::Open(_)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    private_files::create_directory(directory)
}

/// A file that no other program made: the name can be foreseen, and a link in its place would lead elsewhere.
fn open(directory: &Path, path: &Path) -> io::Result<File> {
    make_directory(directory)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private_files::file_options().write(true).create_new(true).open(path)
}

/// Hermes' name for the file of a call.
fn file_name(key: &str) -> String {
    let mut stem = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '.' | '-' => stem.push(c),
            _ if stem.ends_with('\u{0}') => {}
            _ => stem.push('\u{0}'),
        }
    }
    let stem = stem.replace('\u{0}', "_");
    let edges = ['.', '_', '-'];
    let trimmed = stem.trim_matches(edges);
    if !trimmed.is_empty() && trimmed == key && trimmed.len() <= NAME_CHARS_MAX {
        return format!("{trimmed}.txt");
    }
    let digest = Sha256::digest(key.as_bytes());
    let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let short = trimmed[..trimmed.len().min(NAME_CHARS_MAX)].trim_end_matches(edges);
    let short = if short.is_empty() { "tool_result" } else { short };
    format!("{short}_{digest}.txt")
}

/// The beginning, up to a line's end if one is near.
fn preview(text: &str) -> &str {
    let end = text.char_indices().nth(PREVIEW_CHARS).map_or(text.len(), |(at, _)| at);
    let cut = &text[..end];
    match cut.rfind('\n') {
        Some(newline) if cut[..newline].chars().count() > PREVIEW_CHARS / 2 => &cut[..=newline],
        _ => cut,
    }
}

fn reference(preview: &str, chars: usize, bytes: u64, path: &Path) -> String {
    let kilobytes = bytes as f64 / 1024.0;
    let size = match kilobytes >= 1024.0 {
        true => format!("{:.1} MB", kilobytes / 1024.0),
        false => format!("{kilobytes:.1} KB"),
    };
    format!(
        "<persisted-output>\n\
         This tool result was too large ({} characters, {size}).\n\
         Full output saved to: {}\n\
         Use the read_file tool with offset and limit to access specific sections of this output.\n\n\
         Preview (first {} chars):\n\
         {preview}\n...\n\
         </persisted-output>",
        thousands(chars as u64),
        path.display(),
        preview.chars().count(),
    )
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Without the part of a character at its end that the cut left over.
fn head_text(bytes: &[u8]) -> String {
    let end = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Without the part of a character at its start.
fn tail_text(bytes: &[u8]) -> String {
    let start = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

#[cfg(test)]
mod tests;
