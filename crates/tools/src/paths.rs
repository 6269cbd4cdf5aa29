//! Which files tools may read and change.
//!
//! Every path is resolved before anything is decided: `~`, the working directory, `..` and links, as
//! far as they exist. What is decided about is what is opened: files are opened at the resolved path
//! without following links, and where the opened thing lies is compared once more, so a link put in
//! between leads nowhere.
//!
//! What of a home may be read and changed, in this agent's and in every home beside it, stands in
//! [`file_policy`], which the sandbox and replies ask, too. Some of it needs a person's yes first
//! ([`FileApproval`]), and so do files that run by themselves. Never within reach are the user's keys, devices
//! and what the kernel tells about processes. All else depends on [`FileReach::confined`]: only the
//! workspace, or, as in Hermes, all that the user's account may touch.
//!
//! Deliberately absent: the terminal. What a command may touch is the sandbox's matter.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf, is_separator};
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::{HeldDirectory, real};
use throughline_hermes::file_policy::{
    self, Access, Kind, Owner, Rights, USER_READABLE, USER_SECRET_DIRECTORIES, USER_SECRET_FILES,
};

/// Areas of a home that change what its agent does next: another agent's need a word from the user.
const AREAS: [&str; 4] = ["skills", "plugins", "cron", "memories"];

const ENVIRONMENT_FILES: [&str; 7] =
    [".env", ".env.local", ".env.development", ".env.production", ".env.test", ".env.staging", ".envrc"];

/// How many files of a home are compared with one that has several names, before it is held for one of them.
const NAMES_MAX: usize = 50_000;

/// The settings from which reach is decided.
#[derive(Clone, Debug, Default)]
pub struct FileReach {
    /// Where relative paths begin.
    pub workspace: PathBuf,
    /// The agent's own home.
    pub home: PathBuf,
    /// Other homes of this process. Those beside `home` under one root are known without being named.
    pub homes: Vec<PathBuf>,
    /// What `~` means.
    pub user_home: PathBuf,
    /// Nothing outside the workspace, except `readable`.
    pub confined: bool,
    /// Read although outside, where `confined`: spilled output, say.
    pub readable: Vec<PathBuf>,
    /// Where not empty, nothing is written elsewhere (Hermes' `HERMES_WRITE_SAFE_ROOT`).
    pub write_roots: Vec<PathBuf>,
    /// Names in the home that its owner opened (`throughline.open_in_home`).
    pub opened: Vec<String>,
}

/// What a person must allow first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileApproval {
    /// What is to be done, with the real path.
    pub what: String,
    pub why: String,
    /// What a lasting yes would cover.
    pub key: String,
}

/// What is about to be done to a file, as the refusal calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Write,
    Delete,
    Move,
}

impl FileChange {
    fn word(self) -> &'static str {
        match self {
            Self::Write => "Write",
            Self::Delete => "Delete",
            Self::Move => "Move",
        }
    }
}

/// Which agent's home a path lies in, and where there.
struct HomePath {
    home: PathBuf,
    rest: PathBuf,
    owner: Owner,
}

impl FileReach {
    /// For what is read for the agent of a home without a call that names it: skills, instructions.
    pub fn of_home(home: &Path) -> Self {
        let user_home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        Self { home: home.to_owned(), user_home, ..Self::default() }
    }

    /// Opens a file of which only its name is known, unless no tool may read what that name leads to.
    pub fn open_named(&self, path: &Path) -> io::Result<File> {
        let (resolved, shown) = (real(path)?, path.to_string_lossy());
        let refused = |why: String| io::Error::new(io::ErrorKind::PermissionDenied, why);
        if let Some(why) = self.read_refusal(&resolved, &shown, "") {
            return Err(refused(why));
        }
        match self.open(&resolved, &shown) {
            Ok((file, _)) => Ok(file),
            Err(FileOpenError::Refused(why)) => Err(refused(why)),
            Err(FileOpenError::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Err(FileOpenError::Failed(error)) => Err(error),
        }
    }

    /// The real, absolute path that `path` means, seen from `base` (the workspace, or where the
    /// session's terminal stands). It need not exist.
    pub fn resolve(&self, base: &Path, path: &str) -> Result<PathBuf, String> {
        if path.contains('\0') {
            return Err("embedded null byte".to_owned());
        }
        let expanded = self.expand(path);
        let whole = if expanded.is_absolute() { expanded } else { self.workspace.join(base).join(expanded) };
        real(&whole).map_err(|error| format!("Cannot resolve '{path}': {error}."))
    }

    /// `~` and `~/…` written out.
    pub fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.user_home.clone(),
            Some(rest) if rest.starts_with(is_separator) => {
                self.user_home.join(rest.trim_start_matches(is_separator))
            }
            _ => PathBuf::from(path),
        }
    }

    /// Why this session may not read this. `resolved` comes from [`FileReach::resolve`], `path` is how it was
    /// named.
    pub fn read_refusal(&self, resolved: &Path, path: &str, session: &str) -> Option<String> {
        let named = |what: &str| Some(format!("Access denied: {} {what}", resolved.display()));
        if system::is_device(resolved) || system::is_device(&lexical(&self.workspace.join(self.expand(path))))
        {
            return Some(device(path));
        }
        if let Some(within) = self.within(resolved)
            && !self.is_worked_in(resolved, &within)
        {
            let is_own = within.owner == Owner::Own && file_policy::is_own_result(&within.rest, session);
            match file_policy::kind(&within.rest) {
                // What other sessions said, planned and started is theirs; there are tools to ask for one's own.
                Kind::Record if !is_own => {
                    return named("is kept by the gateway for its sessions, and is not read as a file.");
                }
                Kind::Download => {
                    return named(
                        "is an internal Hermes cache file and cannot be read directly to prevent prompt injection. Use \
                         the skills_list or skill_view tools instead.",
                    );
                }
                Kind::Secret if within.rest.starts_with("mcp-tokens") => {
                    return named("is a Hermes MCP token file and cannot be read directly.");
                }
                Kind::Secret => {
                    return named("is a Hermes credential store and cannot be read directly.");
                }
                _ => {}
            }
        }
        if file_policy::is_unfinished_backup(resolved) {
            return named("is an unfinished backup of a home and cannot be read directly.");
        }
        if is_environment(resolved) {
            return named(
                "is a secret-bearing environment file and cannot be read to prevent credential leakage. If you need \
                 to check the file structure, read .env.example instead.",
            );
        }
        if self.is_users_secret(resolved) || system::is_secret(resolved) {
            return named("is a protected system/credential file and cannot be read directly.");
        }
        if self.confined && !self.may_read(resolved) {
            return Some(self.outside(path));
        }
        None
    }

    /// Why this may not be changed.
    pub fn change_refusal(&self, resolved: &Path, path: &str, change: FileChange) -> Option<String> {
        let word = change.word();
        if system::is_protected(resolved) {
            return Some(format!(
                "Refusing to write to sensitive system path: {path}\nUse the terminal tool with sudo if you need to \
                 modify system files."
            ));
        }
        let within = self.within(resolved).filter(|within| !self.is_worked_in(resolved, within));
        if within.as_ref().is_some_and(|within| within.rest == Path::new("config.yaml")) {
            return Some(format!(
                "Refusing to write to Hermes config file: {path}\nAgent cannot modify security-sensitive \
                 configuration. Ask the user to edit it."
            ));
        }
        let shown = resolved.display();
        if let Some(within) = within.filter(|within| self.rights(within).write == Access::Closed) {
            return Some(match file_policy::kind(&within.rest) {
                Kind::Unknown => format!(
                    "{word} denied: '{shown}' lies in an agent's home, under a name that the agent does not work in. \
                     Write into the workspace, or ask the user to add the name to throughline.open_in_home."
                ),
                Kind::Rules | Kind::Shown => format!(
                    "{word} denied: '{shown}' belongs to the settings and the state of an agent's home. Ask the user \
                     to change it."
                ),
                _ => format!("{word} denied: '{shown}' is a protected system/credential file."),
            });
        }
        if self.is_users(resolved) {
            return Some(format!("{word} denied: '{shown}' is a protected system/credential file."));
        }
        if !self.write_roots.is_empty() && !under_any(resolved, &self.write_roots) {
            let roots: Vec<_> = self.write_roots.iter().map(|root| root.display().to_string()).collect();
            return Some(format!(
                "{word} denied: '{}' is outside HERMES_WRITE_SAFE_ROOT ({}). Unset the variable or add this path's \
                 directory prefix.",
                resolved.display(),
                roots.join(":")
            ));
        }
        if self.confined && !under(resolved, &self.workspace) {
            return Some(self.outside(path));
        }
        None
    }

    /// What a person must allow before this is read. Err: it must be named otherwise first.
    pub fn asks_to_read(
        &self,
        base: &Path,
        resolved: &Path,
        path: &str,
    ) -> Result<Option<FileApproval>, String> {
        let within = self.within(resolved).filter(|within| !self.is_worked_in(resolved, within));
        let is_asked = within.is_some_and(|within| self.rights(&within).read == Access::Asked);
        let why = "it lies in an agent's home, under a name that the agent does not work in";
        self.asked(is_asked.then_some(("read", why)), base, resolved, path)
    }

    /// What a person must allow before this is changed. Err: it must be named otherwise first.
    pub fn asks_to_change(
        &self,
        base: &Path,
        resolved: &Path,
        path: &str,
    ) -> Result<Option<FileApproval>, String> {
        let why = match self.within(resolved) {
            Some(within) if self.is_worked_in(resolved, &within) => None,
            Some(within) => (self.rights(&within).write == Access::Asked).then_some(match within.owner {
                Owner::Own => "it decides what the agent is and remembers",
                Owner::Other => "it belongs to another agent",
            }),
            None => None,
        };
        let runs = file_policy::runs_by_itself(resolved, self.users(resolved).as_deref());
        let why = why.or(runs.then_some("what stands in this file is run later without anybody starting it"));
        self.asked(why.map(|why| ("change", why)), base, resolved, path)
    }

    /// A yes is given to a path, so that path must be the file: a link could lead elsewhere by the time
    /// the answer is there.
    fn asked(
        &self,
        question: Option<(&str, &str)>,
        base: &Path,
        resolved: &Path,
        path: &str,
    ) -> Result<Option<FileApproval>, String> {
        let Some((verb, why)) = question else { return Ok(None) };
        let shown = resolved.display();
        if lexical(&self.workspace.join(base).join(self.expand(path))) != resolved {
            return Err(format!(
                "Access denied: a person must allow this first, and '{path}' leads there through a link. Name the file \
                 by its real path: {shown}"
            ));
        }
        let what = format!("{verb} the file {shown}");
        Ok(Some(FileApproval { key: what.clone(), what, why: why.to_owned() }))
    }

    fn rights(&self, within: &HomePath) -> Rights {
        file_policy::rights(&within.rest, within.owner, &self.opened)
    }

    /// Whether this lies in the workspace, where that lies within a home: its owner chose it. Not even then
    /// are secrets and rules worked in.
    fn is_worked_in(&self, resolved: &Path, within: &HomePath) -> bool {
        let Ok(workspace) = real(&self.workspace) else { return false };
        let Ok(rest) = workspace.strip_prefix(&within.home) else { return false };
        let may = file_policy::may_be_workspace(&folded(rest));
        may && resolved.starts_with(&workspace)
    }

    /// A word of warning before another agent's skills, plugins, jobs or memories are changed, or a
    /// copy that no program reads. The user may wish it all the same.
    pub fn foreign(&self, resolved: &Path) -> Option<String> {
        if let Some(within) = self.within(resolved) {
            let area = AREAS.iter().find(|area| within.rest.starts_with(area));
            if let Some(area) = area.filter(|_| within.owner == Owner::Other) {
                return Some(format!(
                    "Cross-profile write blocked by soft guard: {} belongs to Hermes profile '{}', but the agent is \
                     running under profile '{}'. Its {area}/ affect that profile's sessions, not this one. Confirm \
                     with the user; then retry the call with ``cross_profile=True``.",
                    resolved.display(),
                    profile(&within.home),
                    profile(&real(&self.home).unwrap_or_else(|_| self.home.clone())),
                ));
            }
        }
        let mirror = mirror(resolved)?;
        Some(format!(
            "Sandbox-mirror write blocked by soft guard: {} sits under '{}', a per-task copy that the agent never \
             reads. Address the file in the real home instead. If the user wants this copy changed, retry the call \
             with ``cross_profile=True``.",
            resolved.display(),
            mirror.display(),
        ))
    }

    /// Opens a regular file for reading, at a path that was resolved and is allowed.
    pub fn open(&self, resolved: &Path, path: &str) -> Result<(File, Metadata), FileOpenError> {
        let file = system::open(resolved)?;
        let facts = file.metadata()?;
        if !system::lies_at(&file, resolved) {
            return Err(FileOpenError::Refused(format!(
                "Access denied: {path} changed while it was being opened. Try again with its real path."
            )));
        }
        if facts.is_dir() {
            return Err(FileOpenError::Directory);
        }
        if !facts.is_file() {
            return Err(FileOpenError::Refused(device(path)));
        }
        if system::may_have_another_name(&facts) && self.is_closed_by_another_name(&file, &facts) {
            return Err(FileOpenError::Refused(format!(
                "Access denied: {} is a Hermes credential store and cannot be read directly.",
                resolved.display()
            )));
        }
        Ok((file, facts))
    }

    /// Holds the directory of a file that is about to be changed, so that it stays the one that was
    /// decided about.
    pub fn hold(&self, directory: &Path) -> io::Result<HeldDirectory> {
        HeldDirectory::open(directory)
    }

    fn outside(&self, path: &str) -> String {
        format!(
            "Path escapes allowed directory: '{path}' is outside the workspace ({}). Use a path within it.",
            self.workspace.display()
        )
    }

    fn may_read(&self, resolved: &Path) -> bool {
        under(resolved, &self.workspace) || under_any(resolved, &self.readable)
    }

    /// The root of all profiles: `<root>/profiles/<name>` is a home, and so is the root.
    fn root(&self) -> PathBuf {
        let home = real(&self.home).unwrap_or_else(|_| self.home.clone());
        match home.parent() {
            Some(parent) if parent.file_name().is_some_and(|name| name == "profiles") => {
                parent.parent().unwrap_or(parent).to_owned()
            }
            _ => home,
        }
    }

    /// The innermost home that holds this path.
    fn within(&self, resolved: &Path) -> Option<HomePath> {
        let root = self.root();
        let mut homes: Vec<PathBuf> = self
            .homes
            .iter()
            .chain([&self.home])
            .map(|home| real(home).unwrap_or_else(|_| home.clone()))
            .collect();
        if let Ok(rest) = resolved.strip_prefix(root.join("profiles"))
            && let Some(name) = rest.components().next()
        {
            homes.push(root.join("profiles").join(name));
        }
        homes.push(root);
        homes.retain(|home| !home.as_os_str().is_empty() && resolved.starts_with(home));
        let home = homes.into_iter().max_by_key(|home| home.as_os_str().len())?;
        let rest = folded(resolved.strip_prefix(&home).unwrap_or(Path::new("")));
        let own = real(&self.home).unwrap_or_else(|_| self.home.clone());
        let owner = if home == own { Owner::Own } else { Owner::Other };
        Some(HomePath { home, rest, owner })
    }

    fn users(&self, resolved: &Path) -> Option<PathBuf> {
        let home = real(&self.user_home).ok().filter(|home| home.parent().is_some())?;
        resolved.strip_prefix(home).ok().map(folded)
    }

    fn is_users(&self, resolved: &Path) -> bool {
        self.users(resolved).is_some_and(|rest| {
            USER_SECRET_FILES.iter().any(|file| rest == Path::new(file))
                || USER_SECRET_DIRECTORIES.iter().any(|directory| rest.starts_with(directory))
        })
    }

    fn is_users_secret(&self, resolved: &Path) -> bool {
        let Some(rest) = self.users(resolved) else { return false };
        let open = USER_READABLE.iter().any(|file| rest == Path::new(file))
            || rest.extension().is_some_and(|extension| extension == "pub");
        !open && self.is_users(resolved)
    }

    /// Whether this is a file that is closed, reached over a second name of it.
    fn is_closed_by_another_name(&self, file: &File, facts: &Metadata) -> bool {
        let mut homes: Vec<PathBuf> = self.homes.clone();
        homes.extend([self.home.clone(), self.root()]);
        let closed = homes.iter().flat_map(|home| file_policy::closed().map(move |name| home.join(name)));
        if closed.into_iter().any(|closed| system::is_same(file, &closed)) {
            return true;
        }
        let mut left = NAMES_MAX;
        system::has_several_names(facts)
            && homes
                .iter()
                .filter_map(|home| real(home).ok())
                .any(|home| self.is_named_in(facts, &home, &mut left))
    }

    /// Looks through a directory of a home for a closed name of this file. Too many names to look through
    /// count as one.
    fn is_named_in(&self, facts: &Metadata, directory: &Path, left: &mut usize) -> bool {
        let Ok(entries) = std::fs::read_dir(directory) else { return false };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else { return true };
            *left = fewer;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let is_closed = || {
                let within = self.within(&path).filter(|within| !self.is_worked_in(&path, within));
                within.is_some_and(|within| self.rights(&within).read < Access::Open)
            };
            // What is open may hold something that is closed, two names deep; further down it is all one.
            let is_deep = || self.within(&path).is_some_and(|within| within.rest.components().count() > 1);
            let found = match (kind.is_file(), kind.is_dir()) {
                (true, _) => system::is_file_of(facts, &path) && is_closed(),
                (_, true) => (is_closed() || !is_deep()) && self.is_named_in(facts, &path, left),
                _ => false,
            };
            if found {
                return true;
            }
        }
        false
    }
}

/// Why a file was not opened.
#[derive(Debug)]
pub enum FileOpenError {
    /// What the model is told.
    Refused(String),
    Directory,
    Failed(io::Error),
}

impl From<io::Error> for FileOpenError {
    fn from(error: io::Error) -> Self {
        // A link appeared where the resolved path had none.
        if system::met_a_link(&error) {
            return Self::Refused(
                "Access denied: the path became a link while it was being opened.".to_owned(),
            );
        }
        Self::Failed(error)
    }
}

/// The path with `..` taken back by name alone.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

fn under(path: &Path, directory: &Path) -> bool {
    real(directory).is_ok_and(|directory| path.starts_with(directory))
}

fn under_any(path: &Path, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| under(path, directory))
}

fn device(path: &str) -> String {
    format!("Cannot read '{path}': this is a device file that would block or produce infinite output.")
}

/// A name as the lists above have it: elsewhere than on Linux, `.ENV` may well open `.env`.
fn folded(path: &Path) -> PathBuf {
    match cfg!(target_os = "linux") {
        true => path.to_owned(),
        false => path.to_string_lossy().to_lowercase().into(),
    }
}

fn is_environment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    ENVIRONMENT_FILES.contains(&name.as_str())
}

/// `…/profiles/<name>` is called by its name, any other home `default`.
fn profile(home: &Path) -> String {
    let named = home.parent().is_some_and(|parent| parent.file_name().is_some_and(|name| name == "profiles"));
    match home.file_name().filter(|_| named) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "default".to_owned(),
    }
}

/// `…/sandboxes/<backend>/<task>/home/.hermes`, where a terminal backend keeps its own copy of a home.
fn mirror(resolved: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = resolved.components().map(Component::as_os_str).collect();
    let start = (0..parts.len().saturating_sub(5))
        .find(|at| parts[*at] == "sandboxes" && parts[at + 3] == "home" && parts[at + 4] == ".hermes")?;
    Some(parts[..start + 5].iter().collect())
}

#[cfg(all(test, unix))]
mod tests;
