//! Output too long for a conversation.
//!
//! What does not fit is kept whole in a file, and the conversation gets its beginning and the file's
//! name, in Hermes' words. One call's output always goes to the file of its key, so a result that is
//! made twice is kept once, in a directory of its session, which alone may read it. Output that is still coming is never held whole: [`Writer`] keeps its two
//! ends in memory and the rest on disk.
//!
//! Deliberately absent: what the output means. Secrets are redacted by whoever made the text.

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
pub struct Spill {
    directory: PathBuf,
    result_chars_max: usize,
    total_bytes_max: u64,
    file_bytes_max: u64,
    tidied: Mutex<Option<Instant>>,
}

impl Spill {
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
    pub fn writer(&self, key: &str, ends: Ends) -> Writer {
        self.tidy();
        let path = self.path(key);
        Writer {
            directory: path.parent().unwrap_or(&self.directory).to_owned(),
            path,
            ends,
            bytes_max: self.file_bytes_max,
            held: Vec::new(),
            tail: VecDeque::new(),
            file: Sink::Unopened,
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
pub struct Ends {
    pub head: usize,
    pub tail: usize,
}

impl Ends {
    /// Hermes' division: errors often come first, what matters mostly last.
    pub fn of(bytes: usize) -> Self {
        let head = bytes / 5 * 2;
        Self { head, tail: bytes - head }
    }
}

enum Sink {
    /// All of it is still held.
    Unopened,
    Open(File),
    /// The disk failed: the ends are all there is.
    Failed,
}

/// Takes output as it comes, in constant memory.
///
/// Dropped without [`Writer::finish`], its file goes with it.
pub struct Writer {
    directory: PathBuf,
    path: PathBuf,
    ends: Ends,
    bytes_max: u64,
    /// All of it, until it is longer than both ends; then the head.
    held: Vec<u8>,
    tail: VecDeque<u8>,
    file: Sink,
    total: u64,
}

/// What became of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spilled {
    /// All of it if nothing was left out, else both ends with Hermes' notice between.
    pub text: String,
    pub total_bytes: u64,
    /// Where the whole is, if it did not fit and could be kept.
    pub path: Option<PathBuf>,
}

impl Writer {
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if matches!(self.file, Sink::Unopened) {
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
    pub fn so_far(&self) -> Spilled {
        let path = matches!(self.file, Sink::Open(_)).then(|| self.path.clone());
        if matches!(self.file, Sink::Unopened) {
            let text = String::from_utf8_lossy(&self.held).into_owned();
            return Spilled { text, total_bytes: self.total, path };
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
        Spilled { text, total_bytes: self.total, path }
    }

    pub fn finish(mut self) -> Spilled {
        let spilled = self.so_far();
        self.file = Sink::Unopened; // kept: nothing left to take away
        spilled
    }

    fn spill(&mut self) {
        self.file = match open(&self.directory, &self.path) {
            Ok(file) => Sink::Open(file),
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "a long output could not be kept");
                Sink::Failed
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
        let Sink::Open(file) = &mut self.file else { return };
        let before = self.total - bytes.len() as u64;
        let room = self.bytes_max.saturating_sub(before).min(bytes.len() as u64) as usize;
        if let Err(error) = file.write_all(&bytes[..room]) {
            tracing::warn!(%error, path = %self.path.display(), "a long output could not be kept");
            self.file = Sink::Failed;
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

impl Drop for Writer {
    fn drop(&mut self) {
        if matches!(self.file, Sink::Open(_)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    private_files::create_directory(directory)
}

/// A file nobody else made: the name can be foreseen, and a link in its place would lead elsewhere.
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn spill() -> (tempfile::TempDir, Spill) {
        let home = tempfile::tempdir().unwrap();
        let spill = Spill::of_home(home.path());
        (home, spill)
    }

    #[test]
    fn a_short_result_stays_as_it_is() {
        let (_home, spill) = spill();
        let text = "é".repeat(RESULT_CHARS_MAX);
        assert_eq!(spill.cap("terminal", "k", text.clone()), text, "characters count, not bytes");
        assert!(!spill.directory().exists());
    }

    #[test]
    fn a_long_result_is_referenced_as_hermes_does_and_kept_whole() {
        let (_home, spill) = spill();
        let text = "a line of output\n".repeat(10_000);
        let told = spill.cap("terminal", "call_1", text.clone());
        let path = spill.directory().join("call_1.txt");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let start = format!(
            "<persisted-output>\nThis tool result was too large (170,000 characters, 166.0 KB).\nFull output saved \
             to: {}\nUse the read_file tool with offset and limit to access specific sections of this \
             output.\n\nPreview (first 1496 chars):\na line",
            path.display()
        );
        assert!(told.starts_with(&start), "{told}");
        assert!(told.ends_with("output\n\n...\n</persisted-output>"), "{told}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn reading_a_file_is_never_referenced() {
        let (_home, spill) = spill();
        let text = "x".repeat(RESULT_CHARS_MAX * 2);
        assert_eq!(spill.cap("read_file", "k", text.clone()), text);
    }

    #[test]
    fn a_result_made_twice_is_kept_once() {
        let (_home, spill) = spill();
        let text = "x".repeat(RESULT_CHARS_MAX + 1);
        let first = spill.cap("terminal", "session/1/2/0", text.clone());
        assert_eq!(spill.cap("terminal", "session/1/2/0", text), first);
        assert_eq!(fs::read_dir(spill.directory()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(spill.directory().join("session")).unwrap().count(), 1, "the session's own");
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_still_a_result() {
        let (home, _) = spill();
        fs::write(home.path().join("throughline"), "a file where a directory should be").unwrap();
        let told = Spill::of_home(home.path()).cap("terminal", "k", "y".repeat(RESULT_CHARS_MAX + 1));
        assert!(told.ends_with(
            "[Truncated: tool response was 100,001 chars. Full output could not be saved to sandbox.]"
        ));
    }

    #[test]
    fn small_windows_get_small_results() {
        for (tokens, chars) in
            [(None, 100_000), (Some(1_000_000), 100_000), (Some(65_536), 39_315), (Some(4_096), 8_000)]
        {
            assert_eq!(Spill::new("x").for_window(tokens).result_chars_max, chars, "{tokens:?}");
        }
    }

    #[test]
    fn names_are_those_of_hermes() {
        for (key, name) in [
            ("call_abc-1.2", "call_abc-1.2.txt"),
            ("../../etc/passwd", "etc_passwd_3754d6cb3a38.txt"),
            ("s/1/2/0", "s_1_2_0_fd49f76c7d6d.txt"),
            ("__x", "x_670321fce2d6.txt"),
        ] {
            assert_eq!(file_name(key), name, "{key}");
        }
        assert!(file_name(&"k".repeat(500)).len() <= NAME_CHARS_MAX + 17);
    }

    #[test]
    fn output_that_fits_needs_no_file() {
        let (_home, spill) = spill();
        let mut writer = spill.writer("k", Ends::of(10));
        writer.push(b"01234");
        writer.push(b"56789");
        assert_eq!(writer.finish(), Spilled { text: "0123456789".into(), total_bytes: 10, path: None });
        assert!(!spill.directory().exists());
    }

    #[test]
    fn two_hundred_megabytes_pass_in_constant_memory() {
        let (_home, spill) = spill();
        let mut writer = spill.writer("big", Ends::of(50_000));
        let block = [0xff_u8; 1 << 20];
        writer.push(b"begin");
        for _ in 0..200 {
            writer.push(&block);
        }
        writer.push("end é".as_bytes());
        assert!(writer.held.capacity() + writer.tail.capacity() < 256 << 10);
        let spilled = writer.finish();
        assert_eq!(spilled.total_bytes, (200 << 20) + 11);
        assert!(spilled.text.starts_with("begin\u{fffd}") && spilled.text.ends_with("\u{fffd}end é"));
        assert!(spilled.text.contains(&format!("out of {} total] ...", spilled.total_bytes)));
        assert_eq!(fs::metadata(spilled.path.unwrap()).unwrap().len(), spilled.total_bytes);
    }

    #[test]
    fn one_file_has_an_end_and_so_have_all() {
        let (_home, mut spill) = spill();
        spill.file_bytes_max = 1_000;
        spill.total_bytes_max = 2_500;
        for key in ["a", "b", "c", "d"] {
            let key = &format!("{key}/1/1/0");
            *spill.tidied.lock().unwrap() = None;
            let mut writer = spill.writer(key, Ends::of(10));
            writer.push(&[b'x'; 5_000]);
            let path = writer.finish().path.unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), 1_000);
            let older = SystemTime::now() - Duration::from_secs(60 * u64::from(b'e' - key.as_bytes()[0]));
            File::options().write(true).open(&path).unwrap().set_modified(older).unwrap();
        }
        spill.tidied.lock().unwrap().take();
        spill.tidy();
        let count = |key: &str| fs::read_dir(spill.directory().join(key)).unwrap().count();
        assert_eq!(["a", "b", "c", "d"].map(count), [0, 0, 1, 1], "the newest stay");
        let ancient = SystemTime::now() - AGE_MAX - Duration::from_secs(60);
        File::options().write(true).open(spill.path("d/1/1/0")).unwrap().set_modified(ancient).unwrap();
        spill.tidied.lock().unwrap().take();
        spill.tidy();
        assert_eq!(count("d"), 0);
    }

    #[test]
    fn an_output_that_is_abandoned_leaves_no_file() {
        let (_home, spill) = spill();
        let mut writer = spill.writer("k", Ends::of(10));
        writer.push(&[b'x'; 100]);
        assert!(writer.so_far().path.unwrap().exists());
        drop(writer);
        assert_eq!(fs::read_dir(spill.directory()).unwrap().count(), 0);
    }

    #[test]
    fn an_output_made_again_takes_the_place_of_the_first() {
        let (_home, spill) = spill();
        for text in ["first ", "second "] {
            let mut writer = spill.writer("k", Ends::of(10));
            writer.push(text.repeat(10).as_bytes());
            assert_eq!(fs::read_to_string(writer.finish().path.unwrap()).unwrap(), text.repeat(10));
        }
    }

    #[test]
    fn p31_a_link_where_the_output_should_go_leads_nowhere() {
        let (home, spill) = spill();
        let victim = home.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        fs::create_dir_all(spill.directory()).unwrap();
        std::os::unix::fs::symlink(&victim, spill.directory().join("k.txt")).unwrap();
        let mut writer = spill.writer("k", Ends::of(10));
        writer.push(&[b'x'; 100]);
        writer.finish();
        std::os::unix::fs::symlink(&victim, spill.directory().join("l.txt")).unwrap();
        spill.cap("terminal", "l", "x".repeat(RESULT_CHARS_MAX + 1));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    }

    proptest! {
        #[test]
        fn however_it_comes_the_whole_is_on_disk_and_the_ends_in_memory(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            head in 0_usize..30,
            tail in 0_usize..30,
        ) {
            let (_home, spill) = spill();
            let mut writer = spill.writer("k", Ends { head, tail });
            for piece in &pieces {
                writer.push(piece);
            }
            let whole = pieces.concat();
            let fits = whole.len() <= head + tail;
            let (held, kept) = (writer.held.clone(), writer.tail.iter().copied().collect::<Vec<_>>());
            let spilled = writer.finish();
            prop_assert_eq!(spilled.total_bytes, whole.len() as u64);
            prop_assert_eq!(spilled.path.is_none(), fits);
            if let Some(path) = spilled.path {
                prop_assert_eq!(fs::read(path).unwrap(), whole.clone());
                prop_assert_eq!(&held[..], &whole[..head]);
                prop_assert_eq!(&kept[..], &whole[whole.len() - tail..]);
            }
        }
    }
}
