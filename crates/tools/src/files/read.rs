//! The tool `read_file`.

use super::read_tracker::{FileStamp, ReadPage};
use super::text::{self, SAMPLE_BYTES};
use super::{FileCall, FileResult, FileTools, integer, said, string};
use crate::paths::FileOpenError;
use crate::spill::thousands;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;

const UNCHANGED: &str = "File unchanged since last read. The content from the earlier read_file result in this \
                         conversation is still current — refer to that instead of re-reading.";

/// From this size on, and a window wider than this, narrower reads are suggested.
const LARGE_BYTES: u64 = 512_000;
const NARROW_LINES: u64 = 200;

/// Lines are counted up to here: enough for any text, an end for what has none.
const SCAN_BYTES_MAX: u64 = 1 << 30;

/// Held of a file at a time, beside the page.
const PIECE_BYTES: usize = 64 << 10;

/// Larger notebooks are shown as the JSON they are.
const NOTEBOOK_BYTES_MAX: u64 = 50 << 20;

/// Names looked at for similar ones.
const NEIGHBOURS_MAX: usize = 50;

/// Lines of a file, and what is known of the rest.
#[derive(Default)]
struct LineWindow {
    lines: Vec<String>,
    /// The last of them ended where a line ends, not where the file does.
    closed: bool,
    total: u64,
}

impl FileTools {
    pub(super) fn read_file(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        let path = string(given, "path").unwrap_or_default();
        let offset = integer(given, "offset", 1).max(1).unsigned_abs();
        let limit = integer(given, "limit", 500).max(1).unsigned_abs().min(self.settings.lines_max);
        let resolved = self.resolve(job, path)?;
        self.may_read(job, &resolved, path)?;
        if let Some(extension) = text::binary_extension(&resolved) {
            return Err(format!(
                "Cannot read binary file '{path}' ({extension}). Use vision_analyze for images, or terminal to inspect \
                 binary files."
            )
            .into());
        }
        let (file, facts) = match self.reach.open(&resolved, path) {
            Ok(opened) => opened,
            Err(FileOpenError::Refused(refusal)) => return Err(refusal.into()),
            Err(unopened) => return self.unread(job, given, &unopened, path),
        };
        let (page, stamp) = (ReadPage { path: resolved.clone(), offset, limit }, FileStamp::of(&facts));
        if let Some(told) = self.known(job, &page, stamp, path) {
            return Ok(told);
        }
        let mut told = match self.look(job, file, &page, facts.len()) {
            Ok(told) => told,
            Err(error) => nothing(&format!("Failed to read file: {error}"), facts.len()),
        };
        let readable = !told.contains_key("error");
        if readable {
            self.fit(&mut told, offset);
            let partial = offset > 1 || told.get("truncated") == Some(&Value::Bool(true));
            if facts.len() > LARGE_BYTES && limit > NARROW_LINES && told["truncated"] == true {
                let hint = format!(
                    "This file is large ({} bytes). Consider reading only the section you need with offset and limit \
                     to keep context usage efficient.",
                    thousands(facts.len())
                );
                told.insert("_hint".into(), hint.into());
            }
            self.seen.read(job.who(), page, stamp, partial);
        }
        self.repeat(job, path, offset, limit, told)
    }

    /// The page was shown in this turn and has not changed since.
    fn known(&self, job: &FileCall, page: &ReadPage, stamp: FileStamp, path: &str) -> Option<String> {
        let again = self.seen.known(job.who(), page, stamp)?;
        let told = match again {
            1 => json!({
                "status": "unchanged",
                "message": UNCHANGED,
                "path": path,
                "dedup": true,
                "content_returned": false,
            }),
            again => json!({
                "error": format!(
                    "BLOCKED: You have called read_file on this exact region {} times and the file has NOT changed. \
                     STOP calling read_file for this path — the content from your earlier read_file result in this \
                     conversation is still current. Proceed with your task using the information you already have.",
                    again + 1
                ),
                "path": path,
                "already_read": again + 1,
            }),
        };
        Some(throughline_hermes::json::dumps_unicode(&told))
    }

    /// The same look again and again leads nowhere.
    fn repeat(
        &self,
        job: &FileCall,
        path: &str,
        offset: u64,
        limit: u64,
        mut told: Map<String, Value>,
    ) -> FileResult {
        let count = self.seen.repeated(job.who(), &format!("read\0{path}\0{offset}\0{limit}"));
        if count >= 4 {
            let error = format!(
                "BLOCKED: You have read this exact file region {count} times in a row. The content has NOT changed. \
                 You already have this information. STOP re-reading and proceed with your task."
            );
            let blocked = json!({"error": error, "path": path, "already_read": count});
            return Ok(throughline_hermes::json::dumps_unicode(&blocked));
        }
        if count == 3 {
            let warning = format!(
                "You have read this exact file region {count} times consecutively. The content has not changed since \
                 your last read. Use the information you already have. If you are stuck in a loop, stop reading and \
                 proceed with writing or responding."
            );
            told.insert("_warning".into(), warning.into());
        }
        Ok(said(told))
    }

    fn unread(
        &self,
        job: &FileCall,
        given: &Map<String, Value>,
        unopened: &FileOpenError,
        path: &str,
    ) -> FileResult {
        let shown = self.reach.expand(path).to_string_lossy().into_owned();
        let told = match unopened {
            FileOpenError::Directory => nothing(
                &format!(
                    "'{shown}' is a directory, not a file. List it with search_files (target='files', pattern='*')."
                ),
                0,
            ),
            FileOpenError::Failed(error) if error.kind() == io::ErrorKind::NotFound => {
                self.absent(job, &shown)
            }
            FileOpenError::Failed(error) => nothing(&format!("Failed to read file: {shown}: {error}"), 0),
            FileOpenError::Refused(refusal) => nothing(refusal, 0),
        };
        let offset = integer(given, "offset", 1).max(1).unsigned_abs();
        let limit = integer(given, "limit", 500).max(1).unsigned_abs();
        self.repeat(job, path, offset, limit, told)
    }

    /// No such file; perhaps one of its neighbours is meant.
    pub(super) fn absent(&self, job: &FileCall, shown: &str) -> Map<String, Value> {
        let mut told = nothing(&format!("File not found: {shown}"), 0);
        let path = Path::new(shown);
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let Ok(place) = self.resolve(job, &directory.to_string_lossy()) else { return told };
        let needs_nobody = self.reach.asks_to_read(&job.base, &place, shown).is_ok_and(|wish| wish.is_none());
        if !needs_nobody || self.reach.read_refusal(&place, shown, job.session.as_str()).is_some() {
            return told;
        }
        let mut scored: Vec<(u8, String)> = neighbours(&place)
            .into_iter()
            .filter_map(|neighbour| Some((likeness(&name, &neighbour.to_lowercase())?, neighbour)))
            .collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let similar: Vec<Value> = scored
            .into_iter()
            .take(5)
            .map(|(_, neighbour)| directory.join(neighbour).to_string_lossy().into_owned().into())
            .collect();
        if !similar.is_empty() {
            told.insert("similar_files".into(), similar.into());
        }
        told
    }

    fn look(
        &self,
        job: &FileCall,
        mut file: File,
        page: &ReadPage,
        length: u64,
    ) -> io::Result<Map<String, Value>> {
        let mut sample = Vec::with_capacity(SAMPLE_BYTES);
        (&mut file).take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
        if text::looks_binary(&sample) {
            let mut told = nothing(
                "Binary file - cannot display as text. Use appropriate tools to handle this file type.",
                length,
            );
            told.insert("is_binary".into(), true.into());
            return Ok(told);
        }
        file.rewind()?;
        if text::extension(&page.path) == "ipynb"
            && length <= NOTEBOOK_BYTES_MAX
            && let Some(notebook) = notebook(&mut file)
        {
            return Ok(self.document(&notebook, page, length));
        }
        file.rewind()?;
        let window = self.window(job, file, page)?;
        let (total, end) = (window.total, page.offset + page.limit - 1);
        let mut told = shape(self.numbered(window, page.offset), length);
        if total > end {
            let next = end + 1;
            let hint = format!(
                "Use offset={next} to continue reading (showing {}-{end} of {total} lines)",
                page.offset
            );
            told.insert("truncated".into(), true.into());
            let place = told.keys().position(|key| key == "truncated").map_or(0, |at| at + 1);
            told.shift_insert(place, "hint".into(), hint.into());
        }
        Ok(told)
    }

    fn document(&self, document: &str, page: &ReadPage, length: u64) -> Map<String, Value> {
        let lines = text::lines(document);
        let total = lines.len() as u64;
        let end = page.offset + page.limit - 1;
        let shown: Vec<String> = lines
            .into_iter()
            .skip(usize::try_from(page.offset - 1).unwrap_or(usize::MAX))
            .take(usize::try_from(page.limit).unwrap_or(usize::MAX))
            .map(str::to_owned)
            .collect();
        let content = match shown.is_empty() {
            true => String::new(),
            false => self.numbered(LineWindow { lines: shown, closed: false, total }, page.offset).0,
        };
        let mut told = Map::new();
        told.insert("content".into(), content.into());
        told.insert("total_lines".into(), total.into());
        told.insert("file_size".into(), length.into());
        told.insert("truncated".into(), (total > end).into());
        told.insert("extracted_document".into(), true.into());
        if total > end {
            let hint = format!(
                "Use offset={} to continue reading (showing {}-{} of {total} lines)",
                end + 1,
                page.offset,
                end.min(total)
            );
            told.insert("hint".into(), hint.into());
        }
        told
    }

    /// The lines of the page, in memory that does not depend on the file.
    fn window(&self, job: &FileCall, file: File, page: &ReadPage) -> io::Result<LineWindow> {
        // No character is longer than four bytes, and one more character tells that a line is too long.
        let line_bytes_max = self.settings.line_chars_max.saturating_mul(4).saturating_add(4);
        let wanted = page.offset..page.offset + page.limit;
        let mut reader = BufReader::with_capacity(PIECE_BYTES, file.take(SCAN_BYTES_MAX));
        let (mut window, mut line, mut piece) = (LineWindow::default(), Vec::new(), Vec::new());
        let (mut number, mut begun) = (1, false);
        while !job.is_stopped() {
            piece.clear();
            if (&mut reader).take(PIECE_BYTES as u64).read_until(b'\n', &mut piece)? == 0 {
                break;
            }
            let (body, closed) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece.as_slice(), false),
            };
            if wanted.contains(&number) {
                let room = line_bytes_max.saturating_sub(line.len()).min(body.len());
                line.extend_from_slice(&body[..room]);
                begun = !closed;
                if closed {
                    window.push(&mut line, number, true);
                }
            }
            number += u64::from(closed);
        }
        if begun {
            window.push(&mut line, number, false);
        }
        window.total = number - 1;
        Ok(window)
    }

    /// `LINE_NUM|CONTENT`, and how many lines the file has.
    fn numbered(&self, mut window: LineWindow, offset: u64) -> (String, u64) {
        // As a text is split at its line ends, what follows the last one is a line, too.
        if window.closed || window.lines.is_empty() {
            window.lines.push(String::new());
        }
        let max = self.settings.line_chars_max;
        let numbered = window.lines.iter().enumerate().map(|(nth, line)| {
            let number = offset + nth as u64;
            match line.char_indices().nth(max) {
                Some((cut, _)) => format!("{number}|{}... [truncated]", &line[..cut]),
                None => format!("{number}|{line}"),
            }
        });
        (numbered.collect::<Vec<_>>().join("\n"), window.total)
    }

    /// Cuts the content to what one read may return, at a line.
    fn fit(&self, told: &mut Map<String, Value>, offset: u64) {
        let Some(Value::String(content)) = told.get_mut("content").map(Value::take) else { return };
        let max = self.settings.read_chars_max;
        if content.chars().count() <= max {
            told.insert("content".into(), self.shown(content).into());
            return;
        }
        let (mut kept, mut lines, mut used) = (0, 0_u64, 0);
        for line in content.split('\n') {
            let chars = line.chars().count() + usize::from(lines > 0);
            if used + chars > max {
                break;
            }
            used += chars;
            kept += line.len() + usize::from(lines > 0);
            lines += 1;
        }
        let clamped = lines == 0;
        if clamped {
            kept = content.char_indices().nth(max).map_or(content.len(), |(at, _)| at);
            lines = 1;
        }
        let next = offset + lines;
        let mut hint = format!(
            "Output truncated at the {}-char read budget after {lines} line(s) (showing lines {offset}-{} of {}). Use \
             offset={next} to continue.",
            thousands(max as u64),
            next - 1,
            told.get("total_lines").and_then(Value::as_u64).unwrap_or_default(),
        );
        if clamped {
            hint.push_str(
                " Note: the first line alone exceeded the budget and was clamped mid-line; its remainder is not \
                 retrievable via offset.",
            );
        }
        told.insert("content".into(), self.shown(content[..kept].to_owned()).into());
        told.insert("truncated".into(), true.into());
        told.insert("truncated_by".into(), "bytes".into());
        told.insert("next_offset".into(), next.into());
        told.insert("hint".into(), hint.into());
    }
}

impl LineWindow {
    fn push(&mut self, line: &mut Vec<u8>, number: u64, closed: bool) {
        let mut text = String::from_utf8_lossy(line).into_owned();
        if number == 1 && text.starts_with(text::BOM) {
            text.remove(0);
        }
        self.lines.push(text);
        self.closed = closed;
        line.clear();
    }
}

fn shape((content, total): (String, u64), length: u64) -> Map<String, Value> {
    let mut told = Map::new();
    told.insert("content".into(), content.into());
    told.insert("total_lines".into(), total.into());
    told.insert("file_size".into(), length.into());
    told.insert("truncated".into(), false.into());
    told.insert("is_binary".into(), false.into());
    told.insert("is_image".into(), false.into());
    told
}

/// Hermes' result without content.
pub(super) fn nothing(error: &str, length: u64) -> Map<String, Value> {
    let mut told = shape((String::new(), 0), length);
    told.insert("error".into(), error.into());
    told
}

fn neighbours(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names.truncate(NEIGHBOURS_MAX);
    names
}

/// How like the wanted name another one is, both in lower case.
fn likeness(wanted: &str, name: &str) -> Option<u8> {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let extension = |name: &str| Path::new(name).extension().map(|extension| extension.to_owned());
    if name == wanted {
        return Some(100);
    }
    if stem(name) == stem(wanted) {
        return Some(90);
    }
    if name.starts_with(wanted) || wanted.starts_with(name) {
        return Some(70);
    }
    if name.contains(wanted) {
        return Some(60);
    }
    if wanted.contains(name) && name.chars().count() > 2 {
        return Some(40);
    }
    let common = {
        let mut letters: Vec<char> = wanted.chars().filter(|c| name.contains(*c)).collect();
        letters.sort_unstable();
        letters.dedup();
        letters.len()
    };
    let longest = wanted.chars().count().max(name.chars().count());
    let same = extension(wanted).is_some() && extension(wanted) == extension(name);
    (same && common as f64 >= longest as f64 * 0.4).then_some(30)
}

/// The cells of a notebook as text.
fn notebook(file: &mut File) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(NOTEBOOK_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let notebook: Value = serde_json::from_slice(&bytes).ok()?;
    let sheets = || {
        notebook
            .get("worksheets")?
            .as_array()
            .map(|sheets| sheets.iter().filter_map(|s| s.get("cells")?.as_array()).flatten().collect())
    };
    let cells: Vec<&Value> = match notebook.get("cells").and_then(Value::as_array) {
        Some(cells) => cells.iter().collect(),
        None => sheets()?,
    };
    let mut counts = [0; 2];
    let mut out: Vec<String> = Vec::new();
    for cell in cells {
        let title = match cell.get("cell_type").and_then(Value::as_str) {
            Some("markdown") => numbered_title("Markdown", &mut counts[0]),
            Some("code") => numbered_title("Code", &mut counts[1]),
            Some("raw") => "# ── Raw cell ──".to_owned(),
            _ => continue,
        };
        let source = match cell.get("source") {
            Some(Value::String(source)) => source.clone(),
            Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
            _ => String::new(),
        };
        out.extend([title, source.trim_end_matches('\n').to_owned(), String::new()]);
    }
    (!out.is_empty()).then(|| out.join("\n").trim_end_matches('\n').to_owned() + "\n")
}

fn numbered_title(kind: &str, count: &mut usize) -> String {
    *count += 1;
    format!("# ── {kind} cell {count} ──")
}
