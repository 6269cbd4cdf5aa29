//! Files whose text becomes part of the prompt: the persona, and the instructions that lie in a
//! working directory.
//!
//! - of the instructions, the first kind that says anything counts, in Hermes' order
//! - a file with a known attack in it is replaced by a line that says so
//! - a long file keeps its beginning and its end; what is kept is scanned whole, and the part
//!   that Hermes would scan as well
//! - a file that cannot be read, is no UTF-8, or is no file, counts as missing, and the log names it
//! - a link from the working directory into the agent's home is not followed: secrets lie there

use super::threats::{self, ThreatScope};
use crate::paths::FileReach;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The limit for one file, in characters, where nothing else is set.
const FILE_CHARS_MAX: usize = 20_000;
/// What a large context window can raise it to.
const FILE_CHARS_CEILING: usize = 500_000;
/// Read of one file. Only the ends of a long one are kept, but the scan must see its beginning.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Rules files of one directory.
const RULES_MAX: usize = 100;
/// Directories between a working directory and the root of its repository.
const PARENTS_MAX: usize = 64;

/// How much of a file may stand in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub usize);

impl Limit {
    /// What the user set, else six percent of the model's window at four characters a token.
    pub fn of(set: Option<usize>, context_tokens: Option<u64>) -> Self {
        let of_window = |tokens: u64| usize::try_from(tokens.saturating_mul(24) / 100).unwrap_or(usize::MAX);
        let from_window = context_tokens.map_or(FILE_CHARS_MAX, of_window);
        Self(set.filter(|set| *set > 0).unwrap_or(from_window.clamp(FILE_CHARS_MAX, FILE_CHARS_CEILING)))
    }
}

/// What a persona file says, if it says anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persona {
    Missing,
    Text(String),
    /// The line that stands in its place.
    Blocked(String),
}

pub fn persona(home: &Path, limit: Limit) -> Persona {
    let file = home.join("SOUL.md");
    let Some(text) = read(&FileReach::of_home(home), &file) else { return Persona::Missing };
    match scanned(text.trim(), "SOUL.md", limit) {
        Ok(text) => Persona::Text(truncated(&text, "SOUL.md", &file, limit)),
        Err(blocked) => Persona::Blocked(blocked),
    }
}

/// The instructions of a working directory; empty if it has none.
pub fn instructions(workspace: &Path, home: &Path, limit: Limit) -> String {
    let finder = ContextFinder {
        workspace: crate::skills::resolved(workspace),
        home: crate::skills::resolved(home),
        limit,
    };
    let named = |names: [&str; 2]| finder.first_of(names);
    let found = finder
        .hermes()
        .or_else(|| named(["AGENTS.md", "agents.md"]))
        .or_else(|| named(["CLAUDE.md", "claude.md"]))
        .or_else(|| finder.cursor());
    match found {
        None => String::new(),
        Some(text) => format!(
            "# Project Context\n\nInstructions from files of the working directory. Follow them:\n\n{}",
            text.trim_end()
        ),
    }
}

struct ContextFinder {
    workspace: PathBuf,
    home: PathBuf,
    limit: Limit,
}

impl ContextFinder {
    /// `.hermes.md` here or in a directory above, as far as the repository reaches.
    fn hermes(&self) -> Option<String> {
        let above = || self.workspace.ancestors().take(PARENTS_MAX);
        let last = above().find(|dir| dir.join(".git").exists());
        for dir in above() {
            for name in [".hermes.md", "HERMES.md"] {
                let file = dir.join(name);
                if let Some(text) = self.read(&file) {
                    let shown = file.strip_prefix(&self.workspace).unwrap_or(Path::new(name));
                    let text = without_frontmatter(text.trim());
                    return Some(self.section(text, &shown.display().to_string(), ".hermes.md", &file));
                }
            }
            // Outside of a repository nothing above is ours: every user may write to /tmp.
            if last.is_none_or(|last| last == dir) {
                break;
            }
        }
        None
    }

    fn first_of(&self, names: [&str; 2]) -> Option<String> {
        names.into_iter().find_map(|name| {
            let file = self.workspace.join(name);
            Some(self.section(self.read(&file)?.trim(), name, names[0], &file))
        })
    }

    /// `.cursorrules`, and the rules beside it.
    fn cursor(&self) -> Option<String> {
        let main = self.workspace.join(".cursorrules");
        let mut files = vec![(".cursorrules".to_owned(), main.clone())];
        let rules = std::fs::read_dir(self.workspace.join(".cursor/rules")).into_iter().flatten().flatten();
        let rules = rules
            .map(|entry| (format!(".cursor/rules/{}", entry.file_name().to_string_lossy()), entry.path()));
        let mut rules: Vec<_> = rules.filter(|(name, _)| name.ends_with(".mdc")).collect();
        rules.sort();
        files.extend(rules.into_iter().take(RULES_MAX));
        let mut all = String::new();
        for (name, file) in files {
            // What would be cut away need not be read.
            if all.len() as u64 > FILE_BYTES_MAX {
                break;
            }
            if let Some(text) = self.read(&file) {
                let text = scanned(text.trim(), &name, self.limit).unwrap_or_else(|blocked| blocked);
                all.push_str(&format!("## {name}\n\n{text}\n\n"));
            }
        }
        (!all.is_empty()).then(|| {
            let kept = truncated(&all, ".cursorrules", &main, self.limit);
            // Two harmless halves may meet at the cut.
            match scanned(&kept, ".cursorrules", self.limit) {
                Ok(_) => kept,
                Err(blocked) => format!("## .cursorrules\n\n{blocked}"),
            }
        })
    }

    fn section(&self, text: &str, name: &str, label: &str, file: &Path) -> String {
        let text = scanned(text, name, self.limit).unwrap_or_else(|blocked| blocked);
        truncated(&format!("## {name}\n\n{text}"), label, file, self.limit)
    }

    fn read(&self, file: &Path) -> Option<String> {
        let real = file.canonicalize().ok()?;
        if real.starts_with(&self.home)
            && !real.starts_with(&self.workspace)
            && !self.workspace.starts_with(&self.home)
        {
            tracing::warn!(file = %file.display(), "not loaded: a link leads it into the agent's home");
            return None;
        }
        let reach = FileReach { workspace: self.workspace.clone(), ..FileReach::of_home(&self.home) };
        read(&reach, file)
    }
}

/// The text of a file that has one.
fn read(reach: &FileReach, file: &Path) -> Option<String> {
    match file.metadata() {
        Ok(known) if known.is_file() => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Ok(_) => return unreadable(file, "it is not a file"),
        Err(error) => return unreadable(file, &error.to_string()),
    }
    let mut bytes = Vec::new();
    let opened = reach.open_named(file);
    if let Err(error) = opened.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)) {
        return unreadable(file, &error.to_string());
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return unreadable(file, "it is larger than 16 MiB");
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() => None,
        Ok(text) => Some(text),
        Err(_) => unreadable(file, "it is not UTF-8 text"),
    }
}

fn unreadable(file: &Path, why: &str) -> Option<String> {
    tracing::warn!(file = %file.display(), why, "a file for the prompt was not loaded");
    None
}

/// The text, or the line that stands in its place.
fn scanned(text: &str, name: &str, limit: Limit) -> Result<String, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = threats::findings(text, ThreatScope::Context);
    for part in ends(text, limit).map_or(vec![text], |(head, tail)| vec![head, tail]) {
        let more = threats::findings_in_all(part, ThreatScope::Context);
        found.extend(more.into_iter().filter(|finding| !found.contains(finding)).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return Ok(text.to_owned());
    }
    let found = found.join(", ");
    tracing::warn!(file = name, found, "a file for the prompt was blocked");
    Err(format!("[BLOCKED: {name} contained potential prompt injection ({found}). Content not loaded.]"))
}

/// What is kept of a text that is too long: seven tenths of the limit at its beginning, two at its
/// end. Some room stays for the mark between them, and for a heading.
fn ends(text: &str, Limit(limit): Limit) -> Option<(&str, &str)> {
    let total = text.chars().count();
    if total <= limit {
        return None;
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    Some((&text[..at(limit * 7 / 10)], &text[at(total - limit / 5)..]))
}

fn truncated(text: &str, name: &str, file: &Path, limit: Limit) -> String {
    let Some((head, tail)) = ends(text, limit) else { return text.to_owned() };
    let chars = |text: &str| text.chars().count();
    tracing::warn!(file = %file.display(), chars = chars(text), limit = limit.0, "a file for the prompt was truncated");
    format!(
        "{head}\n\n[...truncated {name}: kept {}+{} of {} chars. The middle is omitted — if you need the full instructions, \
         read the complete file with the read_file tool: {}]\n\n{tail}",
        chars(head),
        chars(tail),
        chars(text),
        file.display()
    )
}

fn without_frontmatter(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}');
    let body = text.strip_prefix("---").and_then(|rest| rest.split_once("\n---"));
    match body.map(|(_, body)| body.trim_start_matches('\n')) {
        Some(body) if !body.is_empty() => body,
        _ => text,
    }
}
