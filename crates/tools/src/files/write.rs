//! `write_file`, and how any tool here puts a file in its place.

use super::lint::{self, LintResult};
use super::text;
use super::{FileCall, FileResult, FileTools, flag, said, string};
use crate::paths::{FileChange, FileOpenError};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::PoisonError;

const UNCHANGED_START: &str = "File unchanged since last read. The content from the earlier read_file result";

/// Enough of a file to see how its lines end.
const HEAD_BYTES: u64 = 4096;

/// What a file on disk is like, where there is one.
#[derive(Default)]
struct FileEncoding {
    bom: bool,
    crlf: bool,
}

impl FileTools {
    pub(super) fn write_file(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        let (path, content) =
            (string(given, "path").unwrap_or_default(), string(given, "content").unwrap_or_default());
        if path.is_empty() {
            return Err(
                "write_file: missing required field 'path'. Re-emit the tool call with both 'path' and \
                        'content' set."
                    .into(),
            );
        }
        let resolved = self.resolve(job, path)?;
        if let Some(refusal) = self.reach.change_refusal(&resolved, path, FileChange::Write) {
            return refused(refusal, &resolved);
        }
        self.domestic(&resolved, given)?;
        job.has_leave(self.reach.asks_to_change(&job.base, &resolved, path)?.into_iter().collect())?;
        if is_display(content) {
            return Err(
                "Refusing to write internal read_file display text as file content. Strip read_file \
                        line-number prefixes or reconstruct the intended file contents before writing."
                    .into(),
            );
        }
        self.seen.interrupt(&job.session);
        let turns = self.seen.turns(std::slice::from_ref(&resolved));
        let _turns: Vec<_> =
            turns.iter().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let warning = self.seen.stale(job.who(), &resolved).or_else(|| self.astray(job, path, &resolved));
        let stored = self.store(&resolved, content);
        let mut told = Map::new();
        let (bytes, error) = match &stored {
            Ok(bytes) => (*bytes, None),
            Err(error) => (0, Some(error.clone())),
        };
        told.insert("bytes_written".into(), bytes.into());
        told.insert("dirs_created".into(), error.is_none().into());
        match error {
            None => told.insert("lint".into(), lint::check(&resolved, content).told()),
            Some(error) => told.insert("error".into(), error.into()),
        };
        if let Some(warning) = warning {
            told.insert("_warning".into(), warning.into());
        }
        let place = resolved.to_string_lossy().into_owned();
        told.insert("resolved_path".into(), place.clone().into());
        if stored.is_ok() {
            told.insert("files_modified".into(), vec![place].into());
            self.seen.wrote(job.who(), &resolved);
        }
        Ok(said(told))
    }

    /// Not in what belongs to another agent, unless the user said so.
    pub(super) fn domestic(&self, resolved: &Path, given: &Map<String, Value>) -> Result<(), String> {
        match self.reach.foreign(resolved).filter(|_| !flag(given, "cross_profile")) {
            Some(warning) => Err(warning),
            None => Ok(()),
        }
    }

    /// Puts `content` in the place of a file, in that file's manner, and says how many bytes it has.
    pub(super) fn store(&self, resolved: &Path, content: &str) -> Result<u64, String> {
        if let LintResult::Broken(why) = lint::check(resolved, text::without_bom(content)) {
            return Err(format!(
                "Refusing to write '{}': candidate content fails .{} syntax validation ({why}). The file was NOT \
                 created or modified. Fix the content and retry.",
                resolved.display(),
                text::extension(resolved)
            ));
        }
        let failed = |error: io::Error| format!("Failed to write file: {}: {error}", resolved.display());
        let manner = self.manner(resolved)?;
        let mut content = match manner.crlf {
            true => text::with_ends(content, true),
            false => Cow::Borrowed(content),
        };
        if manner.bom && !content.starts_with(text::BOM) {
            content = Cow::Owned(format!("{}{content}", text::BOM));
        }
        let (Some(directory), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let held = self.reach.hold(directory).map_err(failed)?;
        text::replace(&held, name, content.as_bytes()).map_err(failed)?;
        Ok(content.len() as u64)
    }

    fn manner(&self, resolved: &Path) -> Result<FileEncoding, String> {
        let shown = resolved.display();
        let file = match self.reach.open(resolved, &shown.to_string()) {
            Ok((file, _)) => file,
            Err(FileOpenError::Directory) => {
                return Err(format!("Failed to write file: {shown} is a directory."));
            }
            Err(FileOpenError::Refused(refusal)) => return Err(refusal),
            // Absent, or not to be read: then there is no manner to keep, and writing tells more.
            Err(FileOpenError::Failed(_)) => return Ok(FileEncoding::default()),
        };
        let mut head = Vec::new();
        let _ = file.take(HEAD_BYTES).read_to_end(&mut head);
        let bom = head.starts_with("\u{feff}".as_bytes());
        Ok(FileEncoding { bom, crlf: text::has_crlf(&String::from_utf8_lossy(&head)) })
    }
}

/// A refusal as Hermes' write result tells it.
fn refused(refusal: String, resolved: &Path) -> FileResult {
    if !refusal.starts_with("Write denied") {
        return Err(refusal.into());
    }
    let mut told = Map::new();
    told.insert("bytes_written".into(), 0.into());
    told.insert("dirs_created".into(), false.into());
    told.insert("error".into(), refusal.into());
    told.insert("resolved_path".into(), resolved.to_string_lossy().into_owned().into());
    Ok(said(told))
}

/// Whether this is what `read_file` shows, and not what a file holds.
fn is_display(content: &str) -> bool {
    /// The message of an unchanged page is shorter; a text that quotes it in earnest is longer.
    const MESSAGE_MAX: usize = 300;
    let trimmed = content.trim();
    if trimmed.contains(UNCHANGED_START) && trimmed.chars().count() <= MESSAGE_MAX {
        return true;
    }
    let lines: Vec<&str> = text::lines(content).into_iter().filter(|line| !line.trim().is_empty()).collect();
    let numbers: Vec<u64> = lines
        .iter()
        .filter_map(|line| {
            let (number, _) = line.trim_start().split_once('|')?;
            number.chars().all(|c| c.is_ascii_digit()).then(|| number.parse().ok()).flatten()
        })
        .collect();
    lines.len() >= 2
        && numbers.len() >= 2
        && numbers.len() as f64 / lines.len() as f64 >= 0.6
        && numbers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}
