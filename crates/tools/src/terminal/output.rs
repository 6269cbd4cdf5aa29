//! What a command writes: its head and tail in memory, the whole on disk.
//!
//! However much is written, a [`OutputCapture`] holds a few hundred kilobytes. Once the text is longer
//! than a result may be, all of its bytes go to a file through a [`Spool`], which the result names.
//! Bytes that are no UTF-8 show as U+FFFD in the text and are kept as they are in the file.

use regex::Regex;
use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use throughline_hermes::file_policy;
use throughline_private_files as private_files;

/// Past this a file grows no further: a runaway command must not fill the disk.
const SPOOL_MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Whole outputs are for the conversation at hand, not for ever.
const SPOOL_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Room behind the tail for the line that tells the working directory: a path has 4 KiB at most.
const MARKER_ROOM: usize = 8 * 1024;

/// Where outputs go that are too long for a result.
pub trait Spool: Send + Sync {
    /// A new file for the call of this key, and where the model will find it.
    fn begin(&self, key: &str) -> io::Result<(PathBuf, File)>;
}

/// A directory of its own, readable by the owner only, with one for each session.
#[derive(Clone, Debug)]
pub struct OutputDirectory(pub PathBuf);

impl Spool for OutputDirectory {
    fn begin(&self, key: &str) -> io::Result<(PathBuf, File)> {
        let own = file_policy::directory_of_call(key);
        let directory = own.map_or_else(|| self.0.clone(), |own| self.0.join(own));
        private_files::create_directory(&directory)?;
        forget_old(&self.0);
        let path = directory.join(format!("output-{}.txt", token()));
        let file = private_files::file_options().read(true).write(true).create_new(true).open(&path)?;
        Ok((path, file))
    }
}

fn forget_old(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let Some(oldest) = SystemTime::now().checked_sub(SPOOL_KEPT) else { return };
    let (sessions, single): (Vec<_>, Vec<_>) =
        entries.flatten().partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let within = sessions.iter().filter_map(|session| fs::read_dir(session.path()).ok()).flatten().flatten();
    for entry in single.into_iter().chain(within) {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("output-"));
        let is_old = entry.metadata().and_then(|data| data.modified()).is_ok_and(|at| at < oldest);
        if is_ours && is_old {
            let _ = fs::remove_file(entry.path()); // the next one tries again
        }
    }
}

/// Twelve hexadecimal digits that cannot be foreseen.
pub fn token() -> String {
    format!("{:012x}", RandomState::new().build_hasher().finish() & 0xffff_ffff_ffff)
}

/// Collects one command's output.
pub struct OutputCapture {
    max_chars: usize,
    /// The first `max_chars` characters.
    head: String,
    head_chars: usize,
    /// What follows them: at least the last `max_chars` and a marker.
    tail: String,
    tail_chars: usize,
    dropped: bool,
    total_chars: usize,
    decoder: Decoder,
    /// All bytes, until there are too many.
    raw: Vec<u8>,
    spill: Option<OutputFile>,
    /// Why the whole could not be kept.
    failure: Option<String>,
}

struct OutputFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    is_kept: bool,
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path); // no result names it
        }
    }
}

/// What is told of an output.
#[derive(Debug, PartialEq, Eq)]
pub struct CapturedOutput {
    pub text: String,
    /// The working directory that stood between the markers.
    pub cwd: Option<String>,
    pub whole: Option<WholeOutput>,
}

/// Where the whole output lies.
#[derive(Debug, PartialEq, Eq)]
pub enum WholeOutput {
    At { path: PathBuf, bytes: u64, is_cut: bool },
    Lost(String),
}

impl OutputCapture {
    pub fn new(max_chars: usize) -> Self {
        Self {
            max_chars: max_chars.max(1),
            head: String::new(),
            head_chars: 0,
            tail: String::new(),
            tail_chars: 0,
            dropped: false,
            total_chars: 0,
            decoder: Decoder::default(),
            raw: Vec::new(),
            spill: None,
            failure: None,
        }
    }

    /// Whether the next bytes touch the disk.
    pub fn spills_with(&self, bytes: usize) -> bool {
        self.spill.is_some() || self.total_chars + bytes > self.max_chars
    }

    pub fn push(&mut self, bytes: &[u8], spool: &dyn Spool, key: &str) {
        let text = self.decoder.decode(bytes);
        self.add(&text);
        self.keep(bytes, spool, key);
    }

    fn add(&mut self, text: &str) {
        let chars = text.chars().count();
        self.total_chars += chars;
        let room = self.max_chars - self.head_chars;
        let (into_head, rest) = text.split_at(byte_of_char(text, room));
        self.head.push_str(into_head);
        self.head_chars += chars.min(room);
        self.tail.push_str(rest);
        self.tail_chars += chars - chars.min(room);
        let keep = self.max_chars + MARKER_ROOM;
        if self.tail_chars > 2 * keep {
            let cut = byte_of_char(&self.tail, self.tail_chars - keep);
            self.tail.drain(..cut);
            self.tail_chars = keep;
            self.dropped = true;
        }
    }

    fn keep(&mut self, bytes: &[u8], spool: &dyn Spool, key: &str) {
        if self.failure.is_some() {
            return;
        }
        if self.spill.is_none() {
            self.raw.extend_from_slice(bytes);
            if self.total_chars > self.max_chars {
                self.begin_spill(spool, key);
            }
        } else if let Some(Err(error)) = self.spill.as_mut().map(|spill| spill.write(bytes)) {
            self.failure = Some(error.to_string());
            self.spill = None;
        }
    }

    /// What was written so far goes to a file.
    fn begin_spill(&mut self, spool: &dyn Spool, key: &str) {
        let begun = spool.begin(key).map(|(path, file)| OutputFile { path, file, bytes: 0, is_kept: false });
        let raw = std::mem::take(&mut self.raw);
        match begun.and_then(|mut spill| spill.write(&raw).map(|()| spill)) {
            Ok(spill) => self.spill = Some(spill),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Ends the capture: takes the working directory out of the text, and cuts what is left to size,
    /// with `suffix` always in it.
    pub fn finish(mut self, marker: &str, suffix: &str, spool: &dyn Spool, key: &str) -> CapturedOutput {
        let rest = self.decoder.finish();
        self.add(&rest);
        let (mut text, shift) = match self.dropped {
            true => (std::mem::take(&mut self.tail), self.total_chars - self.tail_chars),
            false => (std::mem::take(&mut self.head) + &self.tail, 0),
        };
        let cwd = take_marked(&mut text, marker);
        let total = shift + text.chars().count();
        if total + suffix.chars().count() <= self.max_chars {
            return CapturedOutput { text: text + suffix, cwd, whole: None };
        }
        if self.spill.is_none() && self.failure.is_none() {
            // It is too long only with the suffix, or with a character that was cut off at its end.
            self.begin_spill(spool, key);
        }
        let head = if self.dropped { self.head.as_str() } else { text.as_str() };
        let shown = cut(head, &text, total, suffix, self.max_chars);
        let whole =
            self.spill.take().map(|spill| spill.finish(marker)).or(self.failure.map(WholeOutput::Lost));
        CapturedOutput { text: shown, cwd, whole }
    }
}

impl OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(SPOOL_MAX_BYTES.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        self.file.write_all(kept)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self, marker: &str) -> WholeOutput {
        let is_cut = self.bytes > SPOOL_MAX_BYTES;
        let bytes = self.without_marker(marker).unwrap_or(self.bytes.min(SPOOL_MAX_BYTES));
        self.is_kept = true;
        WholeOutput::At { path: self.path.clone(), bytes, is_cut }
    }

    /// The file without our last line, if that is its last line.
    fn without_marker(&mut self, marker: &str) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        let from = length.saturating_sub(MARKER_ROOM as u64);
        self.file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        (&self.file).take(MARKER_ROOM as u64).read_to_end(&mut end)?;
        let line = format!("\n{marker}");
        let at = end.windows(line.len()).rposition(|window| window == line.as_bytes());
        match at.filter(|_| end.ends_with(format!("{marker}\n").as_bytes())) {
            Some(at) => {
                self.file.set_len(from + at as u64)?;
                Ok(from + at as u64)
            }
            None => Ok(length),
        }
    }
}

/// Two fifths from the beginning, where errors often stand, and three from the end.
fn cut(head: &str, tail: &str, total: usize, suffix: &str, max_chars: usize) -> String {
    let available = max_chars.saturating_sub(suffix.chars().count());
    let shares = |notice: &str| {
        let budget = available.saturating_sub(notice.chars().count());
        let head = budget * 2 / 5;
        (head, budget - head)
    };
    let mut notice = String::new();
    for _ in 0..4 {
        let (head, tail) = shares(&notice);
        let omitted = total.saturating_sub(head + tail);
        notice = format!(
            "\n\n... [OUTPUT TRUNCATED - {} chars omitted out of {} total] ...\n\n",
            grouped(omitted),
            grouped(total)
        );
    }
    let (head_chars, tail_chars) = shares(&notice);
    format!("{}{notice}{}{suffix}", first_chars(head, head_chars), last_chars(tail, tail_chars))
}

/// `1,234,567`
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn byte_of_char(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

pub fn first_chars(text: &str, chars: usize) -> &str {
    &text[..byte_of_char(text, chars)]
}

pub fn last_chars(text: &str, chars: usize) -> &str {
    match chars {
        0 => "",
        _ => text.char_indices().rev().nth(chars - 1).map_or(text, |(at, _)| &text[at..]),
    }
}

/// Takes `\n<marker>path<marker>\n` out of the text: the line feed before it is ours, too.
fn take_marked(text: &mut String, marker: &str) -> Option<String> {
    if marker.is_empty() {
        return None;
    }
    let last = text.rfind(marker)?;
    let first = text[..last].rfind(marker)?;
    let path = text[first + marker.len()..last].trim().to_owned();
    let begin = text[..first].rfind('\n').unwrap_or(first);
    let after = last + marker.len();
    let end = text[after..].find('\n').map_or(text.len(), |at| after + at + 1);
    text.replace_range(begin..end, "");
    (!path.is_empty()).then_some(path)
}

/// Bytes to text, over chunks that may cut a character in two.
#[derive(Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    pub fn decode(&mut self, bytes: &[u8]) -> String {
        let joined: Cow<'_, [u8]> = match self.pending.is_empty() {
            true => Cow::Borrowed(bytes),
            false => Cow::Owned([std::mem::take(&mut self.pending).as_slice(), bytes].concat()),
        };
        let whole = joined.len() - unfinished(&joined);
        self.pending = joined[whole..].to_vec();
        String::from_utf8_lossy(&joined[..whole]).into_owned()
    }

    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// How many bytes at the end may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needs = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if needs > back { back } else { 0 };
    }
    0
}

static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        r"\x1b\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]",
        r"\x1b\](?s:.)*?(?:\x07|\x1b\\)",
        r"\x1b[PX^_](?s:.)*?\x1b\\",
        r"\x1b[\x20-\x2f]+[\x30-\x7e]",
        r"\x1b[\x30-\x7e]",
        r"\u{9b}[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]",
        r"\u{9d}(?s:.)*?(?:\x07|\u{9c})",
        r"[\u{80}-\u{9f}]",
    ];
    Regex::new(&alternatives.join("|")).expect("the alternatives above are valid")
});

/// The text without the escape sequences of terminals: a model would copy them into files.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    match text.contains(|c| c == '\u{1b}' || ('\u{80}'..='\u{9f}').contains(&c)) {
        true => ESCAPES.replace_all(text, ""),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured(max: usize, chunks: &[&[u8]], suffix: &str) -> (CapturedOutput, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let spool = OutputDirectory(directory.path().join("spool"));
        let mut capture = OutputCapture::new(max);
        chunks.iter().for_each(|chunk| capture.push(chunk, &spool, "key"));
        (capture.finish("__M__", suffix, &spool, "key"), directory)
    }

    #[test]
    fn a_short_output_is_kept_whole_and_its_marker_taken_out() {
        let (out, directory) = captured(100, &[b"hel", b"lo\n__M__/some/dir__M__\n"], "");
        assert_eq!(out, CapturedOutput { text: "hello".into(), cwd: Some("/some/dir".into()), whole: None });
        assert!(!directory.path().join("spool").exists());
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_names_the_file_with_the_whole() {
        let line = "0123456789".repeat(10_000);
        let (out, _directory) = captured(1_000, &[line.as_bytes(), b"\n__M__/x__M__\n"], "");
        assert_eq!(out.cwd.as_deref(), Some("/x"));
        assert!(
            out.text.contains("... [OUTPUT TRUNCATED - 99,074 chars omitted out of 100,000 total] ..."),
            "{}",
            out.text
        );
        assert_eq!(out.text.chars().count(), 1_000);
        assert!(out.text.starts_with("0123456789") && out.text.ends_with("0123456789"));
        let Some(WholeOutput::At { path, bytes, is_cut: false }) = out.whole else {
            panic!("{:?}", out.whole)
        };
        assert_eq!((bytes, fs::read(path).unwrap()), (100_000, line.into_bytes()));
    }

    #[test]
    fn a_status_always_shows_however_long_the_output_is() {
        let (out, _directory) =
            captured(200, &["x".repeat(5_000).as_bytes()], "\n[Command timed out after 1s]");
        assert!(out.text.ends_with("xx\n[Command timed out after 1s]"));
        assert_eq!(out.text.chars().count(), 200);
    }

    #[test]
    fn what_is_cut_at_the_very_end_is_kept_whole_too() {
        let with_a_suffix = captured(200, &[&[b'x'; 190]], "\n[Command timed out after 1s]");
        let half = [[b'x'; 200].as_slice(), b"\xe2\x82"].concat();
        let with_half_a_character = captured(200, &[&half], "");
        for ((out, _directory), bytes) in [(with_a_suffix, vec![b'x'; 190]), (with_half_a_character, half)] {
            let Some(WholeOutput::At { path, .. }) = out.whole else { panic!("{:?}", out.whole) };
            assert_eq!(fs::read(path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_spool_that_cannot_be_written_costs_the_file_not_the_result() {
        let spool = OutputDirectory(PathBuf::from("/proc/nowhere"));
        let mut capture = OutputCapture::new(10);
        capture.push(&[b'x'; 100], &spool, "key");
        assert!(matches!(capture.finish("", "", &spool, "key").whole, Some(WholeOutput::Lost(_))));
    }

    #[test]
    fn escapes_of_every_kind_go_and_text_stays() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}é\u{1b}(B ok\u{9b}2K";
        assert_eq!(strip_ansi(text), "red é ok");
    }

    proptest! {
        #[test]
        fn text_survives_any_cutting_of_its_bytes(text in "\\PC{0,200}", at in prop::collection::vec(0usize..800, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts = at.into_iter().map(|at| at.min(bytes.len())).collect::<Vec<_>>();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let mut out = String::new();
            for pair in cuts.windows(2) {
                out.push_str(&decoder.decode(&bytes[pair[0]..pair[1]]));
            }
            out.push_str(&decoder.finish());
            prop_assert_eq!(out, text);
        }

        #[test]
        fn whatever_comes_is_cut_to_size(bytes in prop::collection::vec(any::<u8>(), 0..4000), max in 150usize..400) {
            let (out, _directory) = captured(max, &bytes.chunks(37).collect::<Vec<_>>(), "");
            prop_assert!(out.text.chars().count() <= max);
            let lossy = String::from_utf8_lossy(&bytes);
            match out.whole {
                None => prop_assert_eq!(out.text, lossy),
                Some(WholeOutput::At { path, .. }) => prop_assert_eq!(fs::read(path).unwrap(), bytes),
                Some(WholeOutput::Lost(why)) => panic!("{why}"),
            }
        }
    }
}
