//! Reading, writing, patching and searching files.
//!
//! Each tool answers in Hermes' words, and looks at files as Hermes does: numbered lines, pages, a
//! budget of characters. What is written is there whole or not at all, with the mode, the byte order
//! mark and the line ends it had. What must not be touched is refused by [`crate::paths`], before and
//! after it is opened; what a person must allow first is asked before anything is done.
//!
//! Deliberately absent: other programs. Searching is ripgrep's engine in this process, and no linter or
//! compiler runs over what was written.

mod diff;
mod fuzzy;
#[cfg(test)]
mod linear;
mod lint;
mod patch;
mod read;
mod read_tracker;
mod search;
mod sequence_match;
mod text;
mod v4a;
mod write;

use crate::approval::{ApprovalRequest, CommandApprovals, Judgement};
use crate::arguments;
use crate::paths::{FileApproval, FileReach};
use read_tracker::{LookingCall, ReadTracker};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use throughline_core::id::SessionId;
use throughline_core::message::JsonText;
use throughline_core::port::Promise;
use throughline_core::redact::{Purpose, redacted_for};
use throughline_core::tool::{Call, Kit, Returned, Spec};
use throughline_hermes::json as python;

/// How much of a file one look shows, by Hermes' names in `config.yaml`.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// `file_read_max_chars`
    pub read_chars_max: usize,
    /// `tool_output.max_lines`
    pub lines_max: u64,
    /// `tool_output.max_line_length`
    pub line_chars_max: usize,
    /// `security.redact_secrets`
    pub redact: bool,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self { read_chars_max: 100_000, lines_max: 2000, line_chars_max: 2000, redact: true }
    }
}

/// Where the terminal of a session stands now. None: it has none yet.
pub type TerminalDirectory = dyn Fn(&SessionId) -> Option<PathBuf> + Send + Sync;

/// Replaces a text the way `patch` does, for other tools that edit text which a model quotes from memory.
/// Returns the new text and how often it was replaced.
pub fn replaced(content: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), String> {
    fuzzy::replace(content, old, new, all).map(|replaced| (replaced.text, replaced.count))
}

/// The tools `read_file`, `write_file`, `patch` and `search_files`.
pub struct FileKit {
    tools: Arc<FileTools>,
    standing: Option<Box<TerminalDirectory>>,
    /// Who decides about what a person must allow. Without it, none of that is done.
    judge: Option<Arc<CommandApprovals>>,
}

impl FileKit {
    pub fn new(reach: FileReach, settings: FileSettings) -> Self {
        let tools = Arc::new(FileTools { reach, settings, seen: ReadTracker::new() });
        Self { tools, standing: None, judge: None }
    }

    /// People are asked about files that need their leave, by the rules that hold for commands.
    #[must_use]
    pub fn asking(mut self, judge: Arc<CommandApprovals>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Relative paths begin where the session's terminal stands, instead of at the workspace.
    #[must_use]
    pub fn following(mut self, standing: Box<TerminalDirectory>) -> Self {
        self.standing = Some(standing);
        self
    }

    /// The session has used a tool that is not one of these: what it reads next is no repetition.
    pub fn interrupted(&self, session: &SessionId) {
        self.tools.seen.interrupt(session);
    }
}

impl Kit for FileKit {
    fn specs(&self) -> Vec<Spec> {
        TOOLS
            .iter()
            .map(|tool| Spec {
                name: tool.name.to_owned(),
                toolset: "file".to_owned(),
                description: tool.description.to_owned(),
                parameters: JsonText::from_valid(python::dumps_unicode(&(tool.schema)())),
                repeatable: tool.repeatable,
            })
            .collect()
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let wishes = match self.work(call, Vec::new()).await {
                FileOutcome::Told(text) => return Returned::text(text),
                FileOutcome::Asks(wishes) => wishes,
            };
            match self.leave(call, &wishes) {
                Judgement::Ask { question, patience } => return Returned::Ask { question, patience },
                Judgement::Block(text) => return Returned::text(text),
                Judgement::Run { .. } => {}
            }
            Returned::text(match self.work(call, wishes).await {
                FileOutcome::Told(text) => text,
                FileOutcome::Asks(_) => {
                    arguments::refusal("Access denied: the path changed while it was asked about.")
                }
            })
        })
    }

    fn forget(&self, session: &SessionId) {
        self.tools.seen.forget(session);
    }
}

impl FileKit {
    /// Does what is asked for, once all that a person must allow is allowed. Nothing is done before.
    async fn work(&self, call: &Call, allowed: Vec<FileApproval>) -> FileOutcome {
        let standing = self.standing.as_ref().and_then(|standing| standing(&call.caller.session));
        let job = FileCall {
            session: call.caller.session.clone(),
            turn: turn(&call.key).to_owned(),
            call: call.key.clone(),
            base: standing.unwrap_or_else(|| self.tools.reach.workspace.clone()),
            stopped: Arc::default(),
            allowed,
        };
        let _stop = StopOnDrop(Arc::clone(&job.stopped));
        let tools = Arc::clone(&self.tools);
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        let work = tokio::task::spawn_blocking(move || tools.run(&job, &name, &arguments));
        let failed = |_| {
            FileOutcome::Told(arguments::refusal(format!("{} failed inside. Try another way.", call.name)))
        };
        work.await.unwrap_or_else(failed)
    }

    /// Whether all of it may be done: one question for one call.
    fn leave(&self, call: &Call, wishes: &[FileApproval]) -> Judgement {
        let Some(judge) = &self.judge else {
            let what: Vec<&str> = wishes.iter().map(|wish| wish.what.as_str()).collect();
            return Judgement::Block(arguments::refusal(format!(
                "Access denied: a person must allow this first, and nobody can be asked here: {}.",
                what.join("; ")
            )));
        };
        let joined = |text: fn(&FileApproval) -> &str| {
            let mut texts: Vec<&str> = wishes.iter().map(text).collect();
            texts.dedup();
            texts.join("; ")
        };
        let (what, why) = (joined(|wish| &wish.what), joined(|wish| &wish.why));
        let patterns: Vec<String> = wishes.iter().map(|wish| wish.key.clone()).collect();
        judge.leave(call, &ApprovalRequest { what: &what, why: &why, patterns: &patterns })
    }
}

/// How far a call has come.
enum FileOutcome {
    Told(String),
    /// Nothing was done.
    Asks(Vec<FileApproval>),
}

/// A call's key is `session/turn/step/position`.
fn turn(key: &str) -> &str {
    let mut parts = key.rsplitn(3, '/');
    parts.nth(2).unwrap_or(key)
}

/// Long searches and reads look at this, so that a call that was given up ends soon.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One call, as far as files are concerned.
struct FileCall {
    session: SessionId,
    turn: String,
    call: String,
    base: PathBuf,
    stopped: Arc<AtomicBool>,
    /// What a person has allowed.
    allowed: Vec<FileApproval>,
}

impl FileCall {
    fn who(&self) -> LookingCall<'_> {
        LookingCall { session: &self.session, turn: &self.turn, call: &self.call }
    }

    /// Err: a person must allow some of it first.
    fn has_leave(&self, mut wishes: Vec<FileApproval>) -> Result<(), NoResult> {
        wishes.retain(|wish| !self.allowed.contains(wish));
        if wishes.is_empty() { Ok(()) } else { Err(NoResult::Asks(wishes)) }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

struct FileTools {
    reach: FileReach,
    settings: FileSettings,
    seen: ReadTracker,
}

/// The result of a tool: what it tells, or why it tells nothing.
type FileResult = Result<String, NoResult>;

enum NoResult {
    Refused(String),
    Asks(Vec<FileApproval>),
}

impl From<String> for NoResult {
    fn from(refusal: String) -> Self {
        Self::Refused(refusal)
    }
}

impl From<&str> for NoResult {
    fn from(refusal: &str) -> Self {
        Self::Refused(refusal.to_owned())
    }
}

impl FileTools {
    fn run(&self, job: &FileCall, name: &str, arguments: &str) -> FileOutcome {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            return FileOutcome::Told(arguments::refusal(format!("Unknown tool: {name}")));
        };
        let told = arguments::read(arguments, &(tool.schema)()).map(|given| (tool.run)(self, job, &given));
        match told {
            Ok(Ok(text)) => FileOutcome::Told(text),
            Ok(Err(NoResult::Refused(refusal))) => FileOutcome::Told(arguments::refusal(refusal)),
            Ok(Err(NoResult::Asks(wishes))) => FileOutcome::Asks(wishes),
            Err(error) => FileOutcome::Told(error),
        }
    }

    /// Whether this session may read this without asking a person.
    fn may_read(&self, job: &FileCall, resolved: &Path, path: &str) -> Result<(), NoResult> {
        if let Some(refusal) = self.reach.read_refusal(resolved, path, job.session.as_str()) {
            return Err(refusal.into());
        }
        let wish = self.reach.asks_to_read(&job.base, resolved, path)?;
        job.has_leave(wish.into_iter().collect())
    }

    fn resolve(&self, job: &FileCall, path: &str) -> Result<PathBuf, String> {
        self.reach.resolve(&job.base, path)
    }

    fn shown(&self, text: String) -> String {
        if self.settings.redact { redacted_for(Purpose::File, &text) } else { text }
    }

    /// A relative path that leads out of the directory the session works in.
    fn astray(&self, job: &FileCall, path: &str, resolved: &Path) -> Option<String> {
        let base = crate::paths::real(&job.base).unwrap_or_else(|_| job.base.clone());
        if self.reach.expand(path).is_absolute() || resolved.starts_with(&base) {
            return None;
        }
        Some(format!(
            "Relative path {} resolved to '{}', which is OUTSIDE the active workspace ('{}'). If this is not intended, \
             pass an absolute path under the workspace instead.",
            text::quoted(path),
            resolved.display(),
            base.display()
        ))
    }
}

fn said(object: Map<String, Value>) -> String {
    python::dumps_unicode(&Value::Object(object))
}

fn string<'a>(given: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    given.get(name).and_then(Value::as_str)
}

fn integer(given: &Map<String, Value>, name: &str, default: i64) -> i64 {
    given.get(name).and_then(Value::as_i64).unwrap_or(default)
}

fn flag(given: &Map<String, Value>, name: &str) -> bool {
    given.get(name).and_then(Value::as_bool).unwrap_or(false)
}

struct FileTool {
    name: &'static str,
    description: &'static str,
    schema: fn() -> Value,
    repeatable: bool,
    run: fn(&FileTools, &FileCall, &Map<String, Value>) -> FileResult,
}

const TOOLS: [FileTool; 4] = [
    FileTool {
        name: "read_file",
        description: "Read a text file as numbered lines ('LINE_NUM|CONTENT'), a page at a time. Prefer it to \
                      cat/head/tail in the terminal. Large files: use offset and limit; more than ~100K characters \
                      are cut at a line, with a next_offset to go on from. If the file is missing, similar names are \
                      suggested. Jupyter notebooks (.ipynb) are shown as text. Images and other binary files cannot \
                      be read; use vision_analyze for images.",
        schema: read_schema,
        repeatable: true,
        run: FileTools::read_file,
    },
    FileTool {
        name: "write_file",
        description: "Write a file, replacing ALL of its content; missing directories are made. Prefer it to echo or \
                      heredocs in the terminal, and use 'patch' to change a part of a file. JSON and YAML that does \
                      not parse is refused.",
        schema: write_schema,
        repeatable: false,
        run: FileTools::write_file,
    },
    FileTool {
        name: "patch",
        description: "Change parts of files. Prefer it to sed/awk in the terminal. Small differences in whitespace and \
                      indentation are forgiven (9 strategies). Returns a unified diff.\n\nREPLACE MODE \
                      (mode='replace', default): find a unique string and replace it. REQUIRED PARAMETERS: mode, path, \
                      old_string, new_string.\nPATCH MODE (mode='patch'): apply a V4A patch to several files. REQUIRED \
                      PARAMETERS: mode, patch.",
        schema: patch_schema,
        repeatable: false,
        run: FileTools::patch,
    },
    FileTool {
        name: "search_files",
        description: "Search in files, or for files. Prefer it to grep/rg/find/ls in the terminal; what .gitignore \
                      names is left out.\n\ntarget='content': a regex within files; shows matching lines, paths only, \
                      or counts.\n\ntarget='files': files by glob (e.g. '*.py', '*config*'), last changed first; also \
                      in place of ls.",
        schema: search_schema,
        repeatable: true,
        run: FileTools::search_files,
    },
];

fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to read (absolute, relative, or ~/path)"},
            "offset": {"type": "integer", "description": "First line to read (from 1, default: 1)", "default": 1, "minimum": 1},
            "limit": {"type": "integer", "description": "How many lines to read (default: 500, max: 2000)", "default": 500, "maximum": 2000},
        },
        "required": ["path"],
    })
}

const CROSS_PROFILE: &str = "Write although the file belongs to another profile's skills, plugins, cron or memories. \
                             Only after the user said so; default false.";

fn write_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to write (made if missing, overwritten if not)"},
            "content": {"type": "string", "description": "The whole content of the file"},
            "cross_profile": {"type": "boolean", "description": CROSS_PROFILE, "default": false},
        },
        "required": ["path", "content"],
    })
}

fn patch_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "mode": {
                "type": "string",
                "enum": ["replace", "patch"],
                "description": "'replace' (default) needs path, old_string and new_string; 'patch' needs patch alone.",
                "default": "replace",
            },
            "path": {"type": "string", "description": "REQUIRED when mode='replace'. The file to change."},
            "old_string": {
                "type": "string",
                "description": "REQUIRED when mode='replace'. The text to find: unique in the file, unless replace_all=true. Add surrounding lines until it is.",
            },
            "new_string": {
                "type": "string",
                "description": "REQUIRED when mode='replace'. What takes its place; '' deletes it.",
            },
            "replace_all": {
                "type": "boolean",
                "description": "Replace every occurrence (default: false)",
                "default": false,
            },
            "patch": {
                "type": "string",
                "description": "REQUIRED when mode='patch'. A V4A patch:\n*** Begin Patch\n*** Update File: path/to/file\n@@ context hint @@\n context line\n-removed line\n+added line\n*** End Patch",
            },
            "cross_profile": {"type": "boolean", "description": CROSS_PROFILE, "default": false},
        },
        "required": ["mode"],
    })
}

fn search_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "A regex to find within files, or a glob (e.g. '*.py') to find files by"},
            "target": {"type": "string", "enum": ["content", "files"], "description": "'content' looks inside files, 'files' for files by name", "default": "content"},
            "path": {"type": "string", "description": "The directory or file to search (default: current working directory)", "default": "."},
            "file_glob": {"type": "string", "description": "Only files like this, for target='content' (e.g. '*.py')"},
            "limit": {"type": "integer", "description": "How many results to return (default: 50)", "default": 50},
            "offset": {"type": "integer", "description": "Results to skip, for the next page (default: 0)", "default": 0},
            "output_mode": {"type": "string", "enum": ["content", "files_only", "count"], "description": "For target='content': matching lines with their numbers, paths alone, or how many match in each file", "default": "content"},
            "context": {"type": "integer", "description": "Lines to show around each match (target='content')", "default": 0},
        },
        "required": ["pattern"],
    })
}

#[cfg(test)]
mod tests;
