//! What of a home makes the agent, and what is only there because something runs or ran.
//!
//! Everything is kept that is not known to be worthless elsewhere: what a user put into a home is theirs. Left out are
//! logs, caches, locks, sockets, records of processes, what can be installed again, and other backups; each is named, so
//! that none comes as a surprise after a restore. Profiles are homes of their own, and come along only if they are asked for.

use super::tree::Tree;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use throughline_hermes::{file_policy, profile};
use throughline_home::home::RESTORE_MARK;

/// Nowhere in a home.
const DIRECTORIES_NOWHERE: [&str; 11] = [
    "__pycache__",
    "node_modules",
    ".venv",
    "venv",
    "site-packages",
    ".cache",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
];
/// Not right below a home; a skill may be called so.
const DIRECTORIES_NOT_AT_TOP: [&str; 11] = [
    "logs",
    "cache",
    "image_cache",
    "audio_cache",
    "video_cache",
    "document_cache",
    "backups",
    "checkpoints",
    "hermes-agent",
    "tmp",
    STAGE,
];
/// Right there in a home: outputs of tools, which age like a cache, and pipes of processes that are gone.
const DIRECTORIES_WITHIN: [&str; 2] = [file_policy::TOOL_RESULTS, "throughline/pipes"];
/// About a process that is gone where this is restored.
const FILES_NOT_AT_TOP: [&str; 10] = [
    "active_sessions.lock",
    "auth.lock",
    // Says that this home is the one that was moved; a copy of it was not.
    "throughline.adoption",
    "gateway.lock",
    "gateway.pid",
    "gateway_state.json",
    "cron.pid",
    "processes.json",
    "throughline.address",
    RESTORE_MARK,
];
const ENDINGS_NOWHERE: [&str; 8] = [
    ".db-wal",
    ".db-shm",
    ".db-journal",
    ".pyc",
    ".pyo",
    ".tar.gz.partial",
    ".tar.gz.partial.earlier",
    ".tar.gz.age.partial",
];
/// Part of a copy already, or made again when it is needed: not worth a word.
const ENDINGS_UNSAID: [&str; 5] = [".db-wal", ".db-shm", ".db-journal", ".pyc", ".pyo"];

/// Where copies of databases lie until they are in the archive.
pub const STAGE: &str = "backup.partial";

/// Something to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeEntry {
    /// Below the home, with `/` between names.
    pub path: String,
    pub place: PathBuf,
    pub mode: u32,
    pub bytes: u64,
    /// Seconds since 1970.
    pub modified: u64,
    pub kind: HomeEntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeEntryKind {
    File,
    Database,
    Directory,
    Link,
}

/// Everything to keep, directories before what is in them; and what could not be looked at.
#[derive(Debug, Default)]
pub struct Survey {
    pub found: Vec<HomeEntry>,
    pub unread: Vec<String>,
    /// What is left out on purpose; a directory stands for what is in it.
    pub left_out: Vec<String>,
}

/// Whether the profiles below a home belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiles {
    Left,
    Taken,
}

impl Survey {
    /// `except`: what is being written right now, if it lies in the home.
    pub fn of(home: &Path, tree: &Tree, profiles: Profiles, except: &[PathBuf]) -> io::Result<Self> {
        let mut survey = Self::default();
        survey.walk(home, "", &Walk { tree, profiles, except })?;
        Ok(survey)
    }

    pub fn bytes(&self) -> u64 {
        self.found.iter().map(|found| found.bytes).sum()
    }

    /// What is listed here is only a list: names, and what they were. A backup opens it through the tree.
    fn walk(&mut self, directory: &Path, below: &str, walk: &Walk<'_>) -> io::Result<()> {
        let Walk { tree, profiles, except } = *walk;
        let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let place = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                self.unread.push(format!("{} has a name that is no text", place.display()));
                continue;
            };
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let about = match entry.metadata() {
                Ok(about) => about,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // gone meanwhile
                Err(error) => {
                    self.unread.push(format!("{}: {error}", place.display()));
                    continue;
                }
            };
            if except.contains(&place) || path == STAGE {
                continue;
            }
            if is_left_out(&path, about.is_dir(), profiles) {
                if !ENDINGS_UNSAID.iter().any(|ending| name.ends_with(ending)) {
                    self.left_out.push(path);
                }
                continue;
            }
            let kind = match () {
                () if about.is_symlink() => HomeEntryKind::Link,
                () if about.is_dir() => HomeEntryKind::Directory,
                () if !about.is_file() => continue, // a socket or a pipe
                () if is_database(tree, &path) => HomeEntryKind::Database,
                () => HomeEntryKind::File,
            };
            let bytes =
                if matches!(kind, HomeEntryKind::File | HomeEntryKind::Database) { about.len() } else { 0 };
            self.found.push(HomeEntry {
                path: path.clone(),
                place: place.clone(),
                mode: mode(&about),
                bytes,
                modified: modified(&about),
                kind,
            });
            if kind == HomeEntryKind::Directory
                && let Err(error) = self.walk(&place, &path, walk)
            {
                self.unread.push(format!("{}: {error}", place.display()));
            }
        }
        Ok(())
    }
}

/// What stays the same from directory to directory.
struct Walk<'a> {
    tree: &'a Tree,
    profiles: Profiles,
    except: &'a [PathBuf],
}

/// What is at the top of a home is so at the top of each of its profiles.
fn is_left_out(path: &str, is_directory: bool, profiles: Profiles) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    let (name, in_home) = match names[..] {
        [profile::DIRECTORY, _, ref rest @ ..] if !rest.is_empty() => (rest[rest.len() - 1], rest),
        ref all => (all[all.len() - 1], all),
    };
    let is_top = in_home.len() == 1;
    match is_directory {
        true => {
            DIRECTORIES_NOWHERE.contains(&name)
                || (is_top && DIRECTORIES_NOT_AT_TOP.contains(&name))
                || DIRECTORIES_WITHIN.contains(&in_home.join("/").as_str())
                || (path == profile::DIRECTORY && profiles == Profiles::Left)
        }
        false => {
            (is_top && FILES_NOT_AT_TOP.contains(&name))
                || is_lock(name)
                || ENDINGS_NOWHERE.iter().any(|ending| name.ends_with(ending))
        }
    }
}

/// Hermes' locks and ours are called after a file (`MEMORY.md.lock`) or are hidden (`.tick.lock`). What is called
/// `uv.lock` or `Cargo.lock` belongs to a user's work.
fn is_lock(name: &str) -> bool {
    name.strip_suffix(".lock").is_some_and(|of| of.contains('.'))
}

fn is_database(tree: &Tree, path: &str) -> bool {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let start = || -> io::Result<[u8; 16]> {
        let mut start = [0; 16];
        tree.file(path)?.read_exact(&mut start)?;
        Ok(start)
    };
    let ending = Path::new(path).extension();
    ending.is_some_and(|ending| ending == "db" || ending == "sqlite" || ending == "sqlite3")
        && start().is_ok_and(|start| start == MAGIC)
}

fn modified(about: &fs::Metadata) -> u64 {
    let since = about.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

#[cfg(unix)]
pub fn mode(about: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
}

#[cfg(not(unix))]
pub fn mode(about: &fs::Metadata) -> u32 {
    if about.is_dir() { 0o700 } else { 0o600 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_the_agent_is_kept_and_what_only_runs_is_not() {
        let kept = [
            "config.yaml",
            ".env",
            "SOUL.md",
            "state.db",
            "memories/MEMORY.md",
            "skills/logs/SKILL.md",
            "skills/hermes-agent/SKILL.md",
            "sessions/sessions.json",
            "cron/jobs.json",
            "throughline.key",
            ".throughline",
            "workspace/uv.lock",
            "workspace/Cargo.lock",
            "workspace/server.pid",
            "workspace/download.partial",
        ];
        let left = [
            "gateway.lock",
            "gateway.pid",
            "state.db-wal",
            "throughline.address",
            "throughline.adoption",
            "memories/MEMORY.md.lock",
            "cron/.tick.lock",
            "throughline-main-20260528T093510Z.tar.gz.partial",
            "throughline-main-20260528T093510Z.tar.gz.partial.earlier",
        ];
        for directory in
            ["throughline/tool-results", "throughline/pipes", "cache", "profiles/work/throughline/pipes"]
        {
            assert!(is_left_out(directory, true, Profiles::Taken), "{directory}");
        }
        assert!(!is_left_out("throughline/todo", true, Profiles::Taken));
        for path in kept {
            assert!(!is_left_out(path, false, Profiles::Left), "{path}");
            assert!(!is_left_out(&format!("profiles/work/{path}"), false, Profiles::Taken), "{path}");
        }
        for path in left {
            assert!(is_left_out(path, false, Profiles::Left), "{path}");
            assert!(is_left_out(&format!("profiles/work/{path}"), false, Profiles::Taken), "{path}");
        }
        for (path, is_left) in [
            ("logs", true),
            ("profiles/work/logs", true),
            ("skills/logs", false),
            ("cron", false),
            ("skills/own/.git", false),
        ] {
            assert_eq!(is_left_out(path, true, Profiles::Taken), is_left, "{path}");
        }
        assert!(
            is_left_out("profiles", true, Profiles::Left) && !is_left_out("profiles", true, Profiles::Taken)
        );
    }
}
