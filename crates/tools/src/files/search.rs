//! `search_files`: ripgrep's engine, in this process.
//!
//! Results come in one order, by path (or by time, for files by name), so that pages fit together.
//! Files that must not be read are not looked into at all: even that something was found in them would
//! tell of it.

use super::{FileCall, FileResult, FileTools, integer, said, string};
use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Hermes' patience.
const SEARCH_MAX: Duration = Duration::from_secs(60);
/// Results are counted up to here; no caller turns so many pages.
const RESULTS_MAX: usize = 20_000;
const FILES_MAX: usize = 200_000;
const CONTEXT_MAX: usize = 100;
/// What is shown of one line, in characters.
const LINE_CHARS_MAX: usize = 500;
/// A line longer than this is looked at in parts.
const LINE_BYTES_MAX: usize = 16 << 20;
const CHUNK_BYTES: usize = 256 << 10;
/// Compiled patterns may need so much memory, no more.
const PATTERN_BYTES_MAX: usize = 16 << 20;

/// From so many matches on, each path is written once.
const GROUPED_FROM: usize = 5;
const GROUPED: &str = "path-grouped: each file path on its own line, followed by indented '<line>: <content>' rows \
                       for matches in that file";

struct SearchQuery<'a> {
    pattern: &'a str,
    target: &'a str,
    path: &'a str,
    glob: Option<&'a str>,
    offset: usize,
    limit: usize,
    mode: &'a str,
    context: usize,
}

/// Where to look, and how what is found there is called.
struct SearchRoot {
    resolved: PathBuf,
    shown: PathBuf,
}

struct SearchMatch {
    path: String,
    line: u64,
    content: String,
}

#[derive(Default)]
struct SearchResult {
    total: usize,
    matches: Vec<SearchMatch>,
    files: Vec<String>,
    counts: Vec<(String, u64)>,
    truncated: bool,
    timed_out: bool,
    omitted: usize,
    warning: Option<String>,
    error: Option<String>,
}

impl FileTools {
    pub(super) fn search_files(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        let count =
            |name, default| usize::try_from(integer(given, name, default).max(0)).unwrap_or(usize::MAX);
        let query = SearchQuery {
            pattern: string(given, "pattern").unwrap_or_default(),
            target: string(given, "target").unwrap_or("content"),
            path: string(given, "path").filter(|path| !path.is_empty()).unwrap_or("."),
            glob: string(given, "file_glob").filter(|glob| !glob.is_empty()),
            offset: count("offset", 0),
            limit: count("limit", 50).max(1),
            mode: string(given, "output_mode").unwrap_or("content"),
            context: count("context", 0).min(CONTEXT_MAX),
        };
        let key = format!(
            "search\0{}\0{}\0{}\0{}\0{}\0{}",
            query.pattern,
            query.target,
            query.path,
            query.glob.unwrap_or_default(),
            query.limit,
            query.offset
        );
        let repeated = self.seen.repeated(job.who(), &key);
        if repeated >= 4 {
            let error = format!(
                "BLOCKED: You have run this exact search {repeated} times in a row. The results have NOT changed. You \
                 already have this information. STOP re-searching and proceed with your task."
            );
            let blocked = json!({"error": error, "pattern": query.pattern, "already_searched": repeated});
            return Ok(throughline_hermes::json::dumps_unicode(&blocked));
        }
        let resolved = self.resolve(job, query.path)?;
        self.may_read(job, &resolved, query.path)?;
        let root = SearchRoot { resolved, shown: self.reach.expand(query.path) };
        let found = match root.resolved.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => absent(&root),
            Err(error) => SearchResult {
                error: Some(format!("Search failed: {}: {error}", query.path)),
                ..SearchResult::default()
            },
            Ok(_) if query.target == "files" => self.find(job, &query, &root),
            Ok(_) => self.grep(job, &query, &root),
        };
        Ok(self.told(&query, found, repeated))
    }

    fn told(&self, query: &SearchQuery<'_>, found: SearchResult, repeated: u32) -> String {
        let mut told = Map::new();
        told.insert("total_count".into(), found.total.into());
        if found.matches.len() >= GROUPED_FROM {
            told.insert("matches_format".into(), GROUPED.into());
            told.insert("matches_text".into(), self.shown(grouped(&found.matches)).into());
        } else if !found.matches.is_empty() {
            let matches: Vec<Value> = found
                .matches
                .into_iter()
                .map(|found| json!({"path": found.path, "line": found.line, "content": self.shown(found.content)}))
                .collect();
            told.insert("matches".into(), matches.into());
        }
        if !found.files.is_empty() {
            told.insert("files".into(), found.files.into());
        }
        if !found.counts.is_empty() {
            let counts: Map<String, Value> =
                found.counts.into_iter().map(|(path, count)| (path, count.into())).collect();
            told.insert("counts".into(), counts.into());
        }
        let truncated = found.truncated || found.timed_out;
        if truncated {
            told.insert("truncated".into(), true.into());
        }
        if found.timed_out {
            told.insert("limit_reason".into(), "search_timeout".into());
        }
        if let Some(warning) = found.warning {
            told.insert("warning".into(), warning.into());
        }
        if let Some(error) = found.error {
            told.insert("error".into(), error.into());
        }
        if found.omitted > 0 {
            let omitted = format!(
                "{} result(s) omitted because they target credential, token, cache, or secret-bearing environment \
                 files.",
                found.omitted
            );
            told.insert("_omitted".into(), omitted.into());
        }
        if repeated >= 3 {
            let warning = format!(
                "You have run this exact search {repeated} times consecutively. The results have not changed. Use the \
                 information you already have."
            );
            told.insert("_warning".into(), warning.into());
        }
        let mut text = said(told);
        if truncated {
            text.push_str(&format!(
                "\n\n[Hint: Results truncated. Use offset={} to see more, or narrow with a more specific pattern or \
                 file_glob.]",
                query.offset.saturating_add(query.limit)
            ));
        }
        text
    }

    /// Files by name, the last changed first.
    fn find(&self, job: &FileCall, query: &SearchQuery<'_>, root: &SearchRoot) -> SearchResult {
        let name = query.pattern.rsplit('/').next().unwrap_or_default();
        let glob = if name.starts_with('*') { name.to_owned() } else { format!("*{name}") };
        let mut found = SearchResult::default();
        let mut files: Vec<(Reverse<SystemTime>, PathBuf)> = Vec::new();
        let walked = self.walk(job, root, Some(&glob), &mut found, |entry, _| {
            let changed = entry.metadata().ok().and_then(|facts| facts.modified().ok());
            files.push((Reverse(changed.unwrap_or(SystemTime::UNIX_EPOCH)), entry.into_path()));
            files.len() < FILES_MAX
        });
        if let Err(error) = walked {
            found.error = Some(format!("Search failed: {error}"));
            return found;
        }
        files.sort();
        found.total = files.len();
        found.truncated = files.len() > query.offset.saturating_add(query.limit);
        let page = files.iter().skip(query.offset).take(query.limit);
        found.files = page.map(|(_, path)| root.name(path)).collect();
        found
    }

    fn grep(&self, job: &FileCall, query: &SearchQuery<'_>, root: &SearchRoot) -> SearchResult {
        let mut found = SearchResult::default();
        let pattern = match SearchPattern::new(query.pattern) {
            Ok(pattern) => pattern,
            Err(error) => {
                found.error = Some(format!("Search failed: {error}"));
                return found;
            }
        };
        let mut page =
            PagedMatches { offset: query.offset, limit: query.limit, seen: 0, matches: Vec::new() };
        let walked = self.walk(job, root, query.glob, &mut found, |entry, found| {
            let path = entry.path();
            let Ok((file, _)) = self.reach.open(path, &path.to_string_lossy()) else { return true };
            let name = root.name(path);
            let mut lines = 0;
            let mut hits = 0;
            // A file that fails on the way has shown what it had.
            let _ = scan(job, file, &pattern, query.context, |line, content, hit| {
                lines += 1;
                hits += u64::from(hit);
                if query.mode == "content" {
                    page.take(|| SearchMatch { path: name.clone(), line, content: clipped(content) });
                }
                let enough = query.mode == "files_only" || page.seen >= RESULTS_MAX;
                !enough
            });
            if lines == 0 {
                return true;
            }
            match query.mode {
                "files_only" => found.files.push(name),
                "count" => found.counts.push((name, hits)),
                _ => {}
            }
            page.seen < RESULTS_MAX && found.files.len() < FILES_MAX && found.counts.len() < FILES_MAX
        });
        if let Err(error) = walked {
            found.error = Some(format!("Search failed: {error}"));
            return found;
        }
        let end = query.offset.saturating_add(query.limit);
        let all = match query.mode {
            "files_only" => found.files.len(),
            "count" => found.counts.len(),
            _ => page.seen,
        };
        found.total = match query.mode {
            "count" => {
                found.counts.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum()
            }
            _ => all,
        };
        found.truncated = all > end;
        found.files =
            std::mem::take(&mut found.files).into_iter().skip(query.offset).take(query.limit).collect();
        found.counts =
            std::mem::take(&mut found.counts).into_iter().skip(query.offset).take(query.limit).collect();
        found.matches = page.matches;
        if found.total == 0 && pattern.spans_lines {
            found.warning = Some(
                "0 results found. Note: search_files content search is line-oriented and does not run ripgrep with \
                 -U/--multiline, so `\\n` in the regex does not match line breaks. Use context=N to inspect \
                 neighboring lines, or escape as `\\\\n` when searching for a literal backslash+n."
                    .to_owned(),
            );
        }
        found
    }

    /// Visits what ripgrep would, as long as `visit` wants more.
    fn walk(
        &self,
        job: &FileCall,
        root: &SearchRoot,
        glob: Option<&str>,
        found: &mut SearchResult,
        mut visit: impl FnMut(DirEntry, &mut SearchResult) -> bool,
    ) -> Result<(), String> {
        let mut builder = WalkBuilder::new(&root.resolved);
        builder.add_custom_ignore_filename(".rgignore").sort_by_file_path(Path::cmp);
        if let Some(glob) = glob {
            let mut overrides = OverrideBuilder::new(&root.resolved);
            overrides.add(glob).map_err(|error| error.to_string())?;
            builder.overrides(overrides.build().map_err(|error| error.to_string())?);
        }
        let started = Instant::now();
        for entry in builder.build() {
            if job.is_stopped() || started.elapsed() > SEARCH_MAX {
                found.timed_out = true;
                break;
            }
            // What cannot be entered has no results.
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            if !self.is_searched(job, root, entry.path()) {
                found.omitted += 1;
                continue;
            }
            if !visit(entry, found) {
                found.truncated = true;
                break;
            }
        }
        Ok(())
    }
}

impl FileTools {
    /// Whether what is found in this file may be shown. What a person must allow first is looked into only
    /// where the search was for that very place.
    fn is_searched(&self, job: &FileCall, root: &SearchRoot, path: &Path) -> bool {
        let name = path.to_string_lossy();
        let asks = self.reach.asks_to_read(&job.base, path, &name);
        let has_leave = match asks {
            Ok(None) => true,
            Ok(Some(_)) => self
                .reach
                .asks_to_read(&job.base, &root.resolved, &root.resolved.to_string_lossy())
                .is_ok_and(|wish| wish.is_some_and(|wish| job.allowed.contains(&wish))),
            Err(_) => false,
        };
        has_leave && self.reach.read_refusal(path, &name, job.session.as_str()).is_none()
    }
}

impl SearchRoot {
    /// The path as the caller would write it.
    fn name(&self, path: &Path) -> String {
        let name = match path.strip_prefix(&self.resolved) {
            Ok(rest) if rest.as_os_str().is_empty() => self.shown.clone(),
            Ok(rest) => self.shown.join(rest),
            Err(_) => path.to_owned(),
        };
        name.to_string_lossy().into_owned()
    }
}

/// One page of all results.
struct PagedMatches {
    offset: usize,
    limit: usize,
    seen: usize,
    matches: Vec<SearchMatch>,
}

impl PagedMatches {
    fn take(&mut self, make: impl FnOnce() -> SearchMatch) {
        if self.seen >= self.offset && self.matches.len() < self.limit {
            self.matches.push(make());
        }
        self.seen += 1;
    }
}

struct SearchPattern {
    regex: Regex,
    /// Where it finds nothing in a chunk, it finds nothing in any line of it. Not so with anchors that
    /// mean the whole text.
    by_chunk: bool,
    spans_lines: bool,
}

impl SearchPattern {
    fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text).multi_line(true).size_limit(PATTERN_BYTES_MAX).build();
        let regex = regex.map_err(|error| error.to_string())?;
        let whole = ["\\A", "\\z", "(?-"].iter().any(|special| text.contains(special));
        Ok(Self { regex, by_chunk: !whole, spans_lines: has_newline(text) })
    }

    fn may_match(&self, chunk: &[u8]) -> bool {
        !self.by_chunk || self.regex.is_match(chunk)
    }
}

/// A line end in the text, or `\n` with an odd number of backslashes.
fn has_newline(pattern: &str) -> bool {
    let mut escaped = false;
    for c in pattern.chars() {
        if c == '\n' || (escaped && c == 'n') {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}

/// Passes every matching line, and `context` lines around it, to `take`, until it has enough.
fn scan(
    job: &FileCall,
    mut file: File,
    pattern: &SearchPattern,
    context: usize,
    mut take: impl FnMut(u64, &[u8], bool) -> bool,
) -> io::Result<()> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut number = 0;
    let mut before: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let mut after = 0;
    let mut ended = false;
    while !ended && !job.is_stopped() {
        let filled = buffer.len();
        buffer.resize(filled + CHUNK_BYTES, 0);
        let read = match file.read(&mut buffer[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result.inspect(|read| ended = *read == 0)?,
        };
        buffer.truncate(filled + read);
        // Like ripgrep: where there is a zero byte there is no text.
        if buffer[filled..].contains(&0) {
            return Ok(());
        }
        // What was left over from before has no line end.
        let complete = match buffer[filled..].iter().rposition(|byte| *byte == b'\n') {
            _ if ended || buffer.len() >= LINE_BYTES_MAX => buffer.len(),
            Some(last) => filled + last + 1,
            None => continue,
        };
        let interesting = context > 0 || pattern.may_match(&buffer[..complete]);
        for line in buffer[..complete].split_inclusive(|byte| *byte == b'\n') {
            number += 1;
            if !interesting {
                continue;
            }
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if pattern.regex.is_match(line) {
                for (number, line) in before.drain(..) {
                    if !take(number, &line, false) {
                        return Ok(());
                    }
                }
                if !take(number, line, true) {
                    return Ok(());
                }
                after = context;
            } else if after > 0 {
                after -= 1;
                if !take(number, line, false) {
                    return Ok(());
                }
            } else if context > 0 {
                if before.len() == context {
                    before.pop_front();
                }
                before.push_back((number, line[..line.len().min(LINE_CHARS_MAX * 4)].to_vec()));
            }
        }
        buffer.drain(..complete);
    }
    Ok(())
}

fn clipped(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(&line[..line.len().min(LINE_CHARS_MAX * 4 + 4)]);
    text.chars().take(LINE_CHARS_MAX).collect()
}

fn grouped(matches: &[SearchMatch]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut current = "";
    for found in matches {
        if found.path != current {
            lines.push(found.path.clone());
            current = &found.path;
        }
        lines.push(format!("  {}: {}", found.line, found.content.trim_end()));
    }
    lines.join("\n")
}

/// Nothing there; perhaps something of a similar name.
fn absent(root: &SearchRoot) -> SearchResult {
    let mut error = format!("Path not found: {}", root.shown.display());
    let wanted = root.shown.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let start: String = wanted.chars().take(3).collect();
    let directory =
        root.shown.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut names: Vec<String> = root
        .resolved
        .parent()
        .and_then(|parent| std::fs::read_dir(parent).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    let similar: Vec<String> = names
        .into_iter()
        .take(20)
        .filter(|name| {
            let name = name.to_lowercase();
            !wanted.is_empty()
                && (name.contains(&wanted) || wanted.contains(&name) || name.starts_with(&start))
        })
        .take(5)
        .map(|name| directory.join(name).to_string_lossy().into_owned())
        .collect();
    if !similar.is_empty() {
        error.push_str(&format!(". Similar paths: {}", similar.join(", ")));
    }
    SearchResult { error: Some(error), ..SearchResult::default() }
}
