//! `patch`: one text in one file, or many changes in many files.
//!
//! A patch of many files is worked out whole before anything is written, so one that does not fit
//! changes nothing.

use super::diff::unified;
use super::fuzzy;
use super::lint;
use super::read_tracker::FileStamp;
use super::text;
use super::v4a::{self, Hunk, PatchOperation};
use super::{FileCall, FileResult, FileTools, flag, said, string};
use crate::paths::{FileApproval, FileChange, FileOpenError};
use serde_json::{Map, Value};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

/// Larger files are not text that a person edits.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file as it was read, to be written back in its manner.
struct OriginalFile {
    text: String,
    crlf: bool,
    stamp: FileStamp,
}

/// One operation, worked out.
struct PlannedOperation {
    operation: PatchOperation,
    path: PathBuf,
    to: Option<PathBuf>,
    before: Option<OriginalFile>,
    after: Option<String>,
}

impl PlannedOperation {
    fn lint(&self) -> Value {
        let text = self.after.as_deref().or(self.before.as_ref().map(|before| before.text.as_str()));
        lint::check(self.to.as_ref().unwrap_or(&self.path), text.unwrap_or_default()).told()
    }
}

impl FileTools {
    pub(super) fn patch(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        self.seen.interrupt(&job.session);
        match string(given, "mode").unwrap_or("replace") {
            "replace" => self.patch_text(job, given),
            "patch" => self.patch_files(job, given),
            mode => Err(format!("Unknown mode: {mode}").into()),
        }
    }

    fn patch_text(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        let path = string(given, "path").filter(|path| !path.is_empty()).ok_or("path required")?;
        let (Some(old), Some(new)) = (string(given, "old_string"), string(given, "new_string")) else {
            return Err("old_string and new_string required".into());
        };
        let resolved = self.resolve(job, path)?;
        job.has_leave(self.allowed(job, &resolved, path, given)?)?;
        let turns = self.seen.turns(std::slice::from_ref(&resolved));
        let _turns: Vec<_> =
            turns.iter().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let warning = self.seen.stale(job.who(), &resolved).or_else(|| self.astray(job, path, &resolved));
        let made = self.replaced(&resolved, old, new, flag(given, "replace_all"));
        let mut told = Map::new();
        told.insert("success".into(), made.is_ok().into());
        let place = resolved.to_string_lossy().into_owned();
        match made {
            Ok((diff, lint)) => {
                told.insert("diff".into(), diff.into());
                told.insert("files_modified".into(), vec![place.clone()].into());
                told.insert("lint".into(), lint);
                warn(&mut told, warning);
                told.insert("resolved_path".into(), place.into());
                self.seen.wrote(job.who(), &resolved);
            }
            Err(error) => {
                let hint = self.advice(job, &resolved, path, &error);
                told.insert("error".into(), error.into());
                warn(&mut told, warning);
                if let Some(hint) = hint {
                    told.insert("_hint".into(), hint.into());
                }
            }
        }
        Ok(said(told))
    }

    fn replaced(&self, resolved: &Path, old: &str, new: &str, all: bool) -> Result<(String, Value), String> {
        let shown = resolved.display();
        let original = self.original(resolved).map_err(|why| match why {
            UnreadFile::Absent => format!("Failed to read file: {shown}"),
            UnreadFile::Because(why) => format!("Failed to read file: {shown}: {why}"),
        })?;
        let (old, new) = (as_lines(old, original.crlf), as_lines(new, original.crlf));
        let replaced = fuzzy::replace(&original.text, &old, &new, all)
            .map_err(|error| format!("{error}{}", fuzzy::hint(&error, &old, &original.text)))?;
        self.put(resolved, &original, &replaced.text)
            .map_err(|error| format!("Failed to write changes: {error}"))?;
        let diff = unified(&original.text, &replaced.text, &format!("a/{shown}"), &format!("b/{shown}"));
        Ok((diff, lint::check(resolved, &replaced.text).told()))
    }

    /// What to try next, where the text was not found.
    fn advice(&self, job: &FileCall, resolved: &Path, path: &str, error: &str) -> Option<String> {
        if !error.contains("Could not find") {
            return None;
        }
        let failures = self.seen.failed(job.who(), resolved);
        if failures >= 3 {
            return Some(format!(
                "This is failure #{failures} patching {}. Stop retrying with variations of the same old_string. Either: \
                 (1) re-read the file fresh to verify current content, (2) use a longer / more unique old_string with \
                 surrounding context lines, or (3) use write_file to replace the entire file if the targeted region is \
                 hard to anchor.",
                text::quoted(path)
            ));
        }
        (!error.contains("Did you mean one of these sections?")).then(|| {
            "old_string not found. Use read_file to verify the current content, or search_files to locate the text."
                .to_owned()
        })
    }

    fn patch_files(&self, job: &FileCall, given: &Map<String, Value>) -> FileResult {
        let patch =
            string(given, "patch").filter(|patch| !patch.is_empty()).ok_or("patch content required")?;
        let operations = match v4a::parse(patch) {
            Ok(operations) => operations,
            Err(error) => return failed(format!("Failed to parse patch: {error}"), None),
        };
        let (moved, others): (Vec<_>, Vec<_>) =
            operations.iter().partition(|operation| matches!(operation, PatchOperation::Move { .. }));
        let paths: Vec<&str> = others.iter().chain(&moved).flat_map(|operation| operation.paths()).collect();
        let mut places: Vec<PathBuf> = Vec::new();
        let mut wishes: Vec<FileApproval> = Vec::new();
        for path in &paths {
            straight(path)?;
            let resolved = self.resolve(job, path)?;
            wishes.extend(self.allowed(job, &resolved, path, given)?);
            places.push(resolved);
        }
        job.has_leave(wishes)?;
        let turns = self.seen.turns(&places);
        let _turns: Vec<_> =
            turns.iter().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let warnings: Vec<String> = paths
            .iter()
            .zip(&places)
            .filter_map(|(path, place)| {
                self.seen.stale(job.who(), place).or_else(|| self.astray(job, path, place))
            })
            .collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join(" | "));
        let planned = match self.plan(job, operations) {
            Ok(planned) => planned,
            Err(errors) => {
                return failed(
                    format!("Patch validation failed (no files were modified):\n{}", listed(&errors)),
                    warning,
                );
            }
        };
        let mut told = self.apply(&planned);
        warn(&mut told, warning);
        if told["success"] == true {
            let places: Vec<String> =
                places.iter().map(|place| place.to_string_lossy().into_owned()).collect();
            if let [place] = places.as_slice() {
                told.insert("resolved_path".into(), place.clone().into());
            }
            told.insert("files_modified".into(), places.into());
        }
        for place in &places {
            self.seen.wrote(job.who(), place);
        }
        Ok(said(told))
    }

    /// Whether this file may be changed, and shown: a diff tells what was in it. What a person must allow
    /// first is returned.
    fn allowed(
        &self,
        job: &FileCall,
        resolved: &Path,
        path: &str,
        given: &Map<String, Value>,
    ) -> Result<Vec<FileApproval>, String> {
        let refusal = self
            .reach
            .change_refusal(resolved, path, FileChange::Write)
            .or_else(|| self.reach.read_refusal(resolved, path, job.session.as_str()));
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        self.domestic(resolved, given)?;
        let change = self.reach.asks_to_change(&job.base, resolved, path)?;
        let read = self.reach.asks_to_read(&job.base, resolved, path)?;
        Ok(change.into_iter().chain(read).collect())
    }

    fn plan(
        &self,
        job: &FileCall,
        operations: Vec<PatchOperation>,
    ) -> Result<Vec<PlannedOperation>, Vec<String>> {
        let mut errors = Vec::new();
        let mut planned = Vec::new();
        let mut changes = 0;
        for operation in operations {
            changes += match &operation {
                PatchOperation::Update { hunks, .. } => {
                    hunks.iter().filter(|hunk| !hunk.changes_nothing()).count()
                }
                _ => 1,
            };
            match self.work_out(job, operation) {
                Ok(plan) => planned.push(plan),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() && changes == 0 {
            errors.push("Patch contains no changes (only context lines were provided)".to_owned());
        }
        if errors.is_empty() { Ok(planned) } else { Err(errors) }
    }

    fn work_out(&self, job: &FileCall, operation: PatchOperation) -> Result<PlannedOperation, Vec<String>> {
        let resolve = |path: &str| self.resolve(job, path).map_err(|error| vec![format!("{path}: {error}")]);
        let whole = |path: &str, place: &Path, absent: &str| {
            self.original(place).map_err(|why| match why {
                UnreadFile::Absent if absent.is_empty() => vec![format!("{path}: File not found: {path}")],
                UnreadFile::Absent => vec![format!("{path}: {absent}")],
                UnreadFile::Because(why) => vec![format!("{path}: {why}")],
            })
        };
        let (path, to, before, after) = match &operation {
            PatchOperation::Add { path, lines } => (resolve(path)?, None, None, Some(lines.join("\n"))),
            PatchOperation::Delete { path } => {
                let place = resolve(path)?;
                let before = whole(path, &place, "file not found for deletion")?;
                (place, None, Some(before), None)
            }
            PatchOperation::Move { path, to } => {
                let (place, target) = (resolve(path)?, resolve(to)?);
                let before = whole(path, &place, "source file not found for move")?;
                if target.symlink_metadata().is_ok() {
                    return Err(vec![format!("{to}: destination already exists — move would overwrite")]);
                }
                (place, Some(target), Some(before), None)
            }
            PatchOperation::Update { path, hunks } => {
                let place = resolve(path)?;
                let before = whole(path, &place, "")?;
                let after = changed(path, &before, hunks)?;
                (place, None, Some(before), Some(after))
            }
        };
        Ok(PlannedOperation { operation, path, to, before, after })
    }

    fn apply(&self, planned: &[PlannedOperation]) -> Map<String, Value> {
        let (mut diffs, mut errors) = (Vec::new(), Vec::new());
        let (mut modified, mut created, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        let (mut modified_lints, mut created_lints) = (Vec::new(), Vec::new());
        for plan in planned {
            let named = plan.operation.paths().join(" -> ");
            let diff = match self.carry_out(plan) {
                Ok(diff) => diff,
                Err(error) => {
                    errors.push(format!("Failed to {} {named}: {error}", plan.operation.verb()));
                    continue;
                }
            };
            diffs.push(diff);
            match &plan.operation {
                PatchOperation::Delete { .. } => deleted.push(named),
                PatchOperation::Add { .. } => {
                    created_lints.push((named.clone(), plan.lint()));
                    created.push(named);
                }
                PatchOperation::Update { .. } | PatchOperation::Move { .. } => {
                    modified_lints.push((named.clone(), plan.lint()));
                    modified.push(named);
                }
            }
        }
        let lints: Map<String, Value> = modified_lints.into_iter().chain(created_lints).collect();
        let mut told = Map::new();
        told.insert("success".into(), errors.is_empty().into());
        told.insert("diff".into(), diffs.join("\n").into());
        // A patch that went through names all its files there; one that did not, those it changed.
        if errors.is_empty() || !modified.is_empty() {
            told.insert("files_modified".into(), modified.into());
        }
        for (name, list) in [("files_created", created), ("files_deleted", deleted)] {
            if !list.is_empty() {
                told.insert(name.into(), list.into());
            }
        }
        if !lints.is_empty() {
            told.insert("lint".into(), lints.into());
        }
        if !errors.is_empty() {
            let error = format!(
                "Apply phase failed (state may be inconsistent — run `git diff` to assess):\n{}",
                listed(&errors)
            );
            told.insert("error".into(), error.into());
        }
        told
    }

    /// Does what was worked out, and tells it as a diff.
    fn carry_out(&self, plan: &PlannedOperation) -> Result<String, String> {
        // It was read a moment ago; a program that changed it since did not ask for its turn.
        if plan.before.as_ref().is_some_and(|before| FileStamp::at(&plan.path) != Some(before.stamp)) {
            return Err("the file changed while it was being patched; read it and try again".to_owned());
        }
        match (&plan.operation, &plan.before, &plan.after) {
            (PatchOperation::Add { path, lines }, ..) => {
                self.store(&plan.path, &lines.join("\n"))?;
                let added: Vec<String> = lines.iter().map(|line| format!("+{line}")).collect();
                Ok(format!("--- /dev/null\n+++ b/{path}\n{}", added.join("\n")))
            }
            (PatchOperation::Update { path, .. }, Some(before), Some(after)) => {
                self.put(&plan.path, before, after)?;
                Ok(unified(&before.text, after, &format!("a/{path}"), &format!("b/{path}")))
            }
            (PatchOperation::Delete { path }, Some(before), _) => {
                self.remove(&plan.path).map_err(|error| error.to_string())?;
                let diff = unified(&before.text, "", &format!("a/{path}"), "/dev/null");
                Ok(if diff.is_empty() { format!("# Deleted: {path}") } else { diff })
            }
            (PatchOperation::Move { path, to }, ..) => {
                let target = plan.to.as_deref().ok_or("it has no destination")?;
                self.rename(&plan.path, target).map_err(|error| error.to_string())?;
                Ok(format!("# Moved: {path} -> {to}"))
            }
            _ => Err("it was not worked out".to_owned()),
        }
    }

    fn put(&self, resolved: &Path, original: &OriginalFile, text: &str) -> Result<(), String> {
        let text = if original.crlf { text::with_ends(text, true) } else { text.into() };
        self.store(resolved, &text).map(|_| ())
    }

    fn remove(&self, resolved: &Path) -> io::Result<()> {
        let held = self.reach.hold(resolved.parent().unwrap_or(resolved))?;
        std::fs::remove_file(held.path().join(resolved.file_name().unwrap_or_default()))?;
        held.sync()
    }

    /// Never over a file that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let directory = to.parent().unwrap_or(to);
        std::fs::create_dir_all(directory)?;
        let (source, target) = (self.reach.hold(from.parent().unwrap_or(from))?, self.reach.hold(directory)?);
        let source_path = source.path().join(from.file_name().unwrap_or_default());
        let target_path = target.path().join(to.file_name().unwrap_or_default());
        match std::fs::hard_link(&source_path, &target_path) {
            Ok(()) => std::fs::remove_file(&source_path)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Not every file system knows second names.
            Err(_) => std::fs::rename(&source_path, &target_path)?,
        }
        target.sync()?;
        source.sync()
    }

    fn original(&self, resolved: &Path) -> Result<OriginalFile, UnreadFile> {
        let because = |why: &str| Err(UnreadFile::Because(why.to_owned()));
        if text::binary_extension(resolved).is_some() {
            return because("Binary file — cannot display as text.");
        }
        let (file, facts) = match self.reach.open(resolved, &resolved.to_string_lossy()) {
            Ok(opened) => opened,
            Err(FileOpenError::Refused(refusal)) => return Err(UnreadFile::Because(refusal)),
            Err(FileOpenError::Directory) => return because("it is a directory"),
            Err(FileOpenError::Failed(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(UnreadFile::Absent);
            }
            Err(FileOpenError::Failed(error)) => return Err(UnreadFile::Because(error.to_string())),
        };
        if facts.len() > FILE_BYTES_MAX {
            return because("it is larger than 16 MB; change it with the terminal");
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| UnreadFile::Because(error.to_string()))?;
        if text::looks_binary(&bytes) {
            return because("Binary file — cannot display as text.");
        }
        // Replacing what cannot be shown would spoil it.
        let Ok(whole) = String::from_utf8(bytes) else {
            return because("it is not UTF-8 text; change it with the terminal");
        };
        let crlf = text::has_crlf(&whole);
        let plain = text::without_bom(&whole);
        let text = if crlf { text::with_ends(plain, false).into_owned() } else { plain.to_owned() };
        Ok(OriginalFile { text, crlf, stamp: FileStamp::of(&facts) })
    }
}

enum UnreadFile {
    Absent,
    Because(String),
}

/// What a model writes ends its lines in one way; a file may in another.
fn as_lines(text: &str, crlf: bool) -> String {
    if crlf { text::with_ends(text, false).into_owned() } else { text.to_owned() }
}

fn warn(told: &mut Map<String, Value>, warning: Option<String>) {
    if let Some(warning) = warning {
        told.insert("_warning".into(), warning.into());
    }
}

fn failed(error: String, warning: Option<String>) -> FileResult {
    let mut told = Map::new();
    told.insert("success".into(), false.into());
    let hint = error.contains("Could not find") && !error.contains("Did you mean one of these sections?");
    told.insert("error".into(), error.into());
    warn(&mut told, warning);
    if hint {
        let hint = "old_string not found. Use read_file to verify the current content, or search_files to locate the text.";
        told.insert("_hint".into(), hint.into());
    }
    Ok(said(told))
}

fn listed(errors: &[String]) -> String {
    errors.iter().map(|error| format!("  • {error}")).collect::<Vec<_>>().join("\n")
}

/// Paths in a patch come with its text, wherever that is from: they do not climb.
fn straight(path: &str) -> Result<(), String> {
    if !Path::new(path).components().any(|part| part == Component::ParentDir) {
        return Ok(());
    }
    Err(format!(
        "V4A patch header contains '..' traversal: {}. Use the agent's cwd-relative path (no '..') or an absolute path \
         in '*** Update File:' / '*** Add File:' / '*** Delete File:' / '*** Move File:' headers.",
        text::quoted(path)
    ))
}

/// The text with all hunks applied, each to what the ones before it left.
fn changed(path: &str, before: &OriginalFile, hunks: &[Hunk]) -> Result<String, Vec<String>> {
    let mut text = before.text.clone();
    let mut errors = Vec::new();
    for (nth, hunk) in hunks.iter().enumerate() {
        if hunk.changes_nothing() {
            continue; // an anchor between changes
        }
        let (old, new) = (hunk.before().join("\n"), hunk.after().join("\n"));
        if hunk.before().is_empty() {
            match inserted(&text, hunk, &new) {
                Ok(made) => text = made,
                Err(error) => errors.push(format!("{path}: {error}")),
            }
            continue;
        }
        match fuzzy::replace(&text, &old, &new, false) {
            Ok(replaced) => text = replaced.text,
            Err(error) => {
                let label = hunk.hint.as_ref().map_or("(no hint)".to_owned(), |hint| format!("'{hint}'"));
                let hint = fuzzy::hint(&error, &old, &text);
                errors.push(format!("{path}: hunk {} {label} not found — {error}{hint}", nth + 1));
            }
        }
    }
    if errors.is_empty() { Ok(text) } else { Err(errors) }
}

/// Lines without surroundings go behind the line of their hint, or to the end.
fn inserted(text: &str, hunk: &Hunk, new: &str) -> Result<String, String> {
    let Some(hint) = &hunk.hint else {
        return Ok(format!("{}\n{new}\n", text.trim_end_matches('\n')));
    };
    let mut places = text.match_indices(hint.as_str());
    let Some((at, _)) = places.next() else {
        return Err(format!("addition-only hunk context hint '{hint}' not found"));
    };
    let more = places.count();
    if more > 0 {
        return Err(format!(
            "addition-only hunk context hint '{hint}' is ambiguous ({} occurrences)",
            more + 1
        ));
    }
    Ok(match text[at..].find('\n') {
        Some(end) => format!("{}{new}\n{}", &text[..=at + end], &text[at + end + 1..]),
        None => format!("{text}\n{new}"),
    })
}
