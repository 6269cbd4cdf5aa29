//! Where skills lie, and which of them can be had.
//!
//! A skill is a directory with a `SKILL.md`, at any depth below the home's `skills/` or below an
//! external directory. What lies in a skill's own `references/`, `templates/`, `assets/` and
//! `scripts/` belongs to that skill and is no skill itself.
//!
//! Links are followed when skills are read and not when they are changed; a loop of links ends
//! where it would repeat itself.

use super::frontmatter::{self, SkillFields};
use super::settings::SkillSettings;
use crate::paths::FileReach;
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Directories of tools and caches. Nothing in them is a skill.
const EXCLUDED: [&str; 14] = [
    ".git",
    ".github",
    ".hub",
    ".archive",
    ".venv",
    "venv",
    "node_modules",
    "site-packages",
    "__pycache__",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
];

/// What belongs to a skill beside its SKILL.md.
pub const SUPPORT: [&str; 4] = ["references", "templates", "assets", "scripts"];

/// Skills lie two or three levels deep; a tree of links must end somewhere.
const DEPTH_MAX: usize = 16;
/// Directory entries looked at in one walk: some hundred times a full set of Hermes' own skills.
const ENTRIES_MAX: usize = 200_000;
/// Of a SKILL.md, to read its frontmatter: sixteen times the 4000 characters Hermes looks at.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// A file that is shown to the model whole. What the agent itself may write is half of it.
pub const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FollowLinks {
    Follow,
    Stay,
}

/// The directories of skills: the home's own first, there or not, then the external ones that are.
pub fn roots(settings: &SkillSettings) -> Vec<PathBuf> {
    let own = settings.skills_dir();
    let mut seen = vec![resolved(&own)];
    let mut roots = vec![own];
    for dir in &settings.external_dirs {
        let dir = resolved(&settings.home.join(dir));
        if dir.is_dir() && !seen.contains(&dir) {
            seen.push(dir.clone());
            roots.push(dir);
        }
    }
    roots
}

/// The files below `root` whose name is `wanted`, in the order of their paths.
pub fn files(root: &Path, links: FollowLinks, wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut walk = DirectoryWalk { links, wanted, entries: 0, found: Vec::new() };
    walk.enter(root, &mut vec![resolved(root)]);
    walk.found.sort_by(|one, other| one.to_string_lossy().cmp(&other.to_string_lossy()));
    walk.found
}

pub fn skill_files(root: &Path, links: FollowLinks) -> Vec<PathBuf> {
    files(root, links, &|name| name == "SKILL.md")
}

struct DirectoryWalk<'w> {
    links: FollowLinks,
    wanted: &'w dyn Fn(&str) -> bool,
    entries: usize,
    found: Vec<PathBuf>,
}

impl DirectoryWalk<'_> {
    /// `trail` holds where we are and all above it, without links.
    fn enter(&mut self, dir: &Path, trail: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let mut dirs = Vec::new();
        let mut is_skill = false;
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                tracing::warn!(dir = %dir.display(), "too many files below a skills directory; the rest is left out");
                return;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            match self.is_dir(&entry) {
                true => dirs.push((name, path)),
                false => {
                    is_skill |= name == "SKILL.md";
                    if (self.wanted)(&name) && path.is_file() {
                        self.found.push(path);
                    }
                }
            }
        }
        dirs.sort();
        for (name, path) in dirs {
            let is_support = is_skill && SUPPORT.contains(&name.as_str());
            let real = resolved(&path);
            if EXCLUDED.contains(&name.as_str())
                || is_support
                || trail.contains(&real)
                || trail.len() > DEPTH_MAX
            {
                continue;
            }
            trail.push(real);
            self.enter(&path, trail);
            trail.pop();
        }
    }

    fn is_dir(&self, entry: &std::fs::DirEntry) -> bool {
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => self.links == FollowLinks::Follow && entry.path().is_dir(),
            Ok(kind) => kind.is_dir(),
            Err(_) => false,
        }
    }
}

/// Lies in what belongs to a skill.
pub fn is_support(path: &Path) -> bool {
    let inner = path
        .ancestors()
        .skip(1)
        .filter(|dir| dir.file_name().is_some_and(|name| SUPPORT.contains(&name.to_string_lossy().as_ref())));
    inner.into_iter().any(|dir| dir.parent().is_some_and(|parent| parent.join("SKILL.md").exists()))
}

/// The path without links, as far as it exists.
pub fn resolved(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = existing.canonicalize() {
            return rest.iter().rev().fold(real, |real, name| real.join(name));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                existing = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// What Hermes says of a path that leads out of a directory; None if it does not.
pub fn escape(path: &Path, root: &Path) -> Option<String> {
    // A link that leads nowhere yet would be followed by the next write to it.
    let dangling = path.is_symlink() && !path.exists();
    let (path, root) = (resolved(path), resolved(root));
    (dangling || !path.starts_with(&root)).then(|| {
        format!(
            "Path escapes allowed directory: '{}' is not in the subpath of '{}' OR one path is relative and the other is absolute.",
            path.display(),
            root.display()
        )
    })
}

pub fn has_traversal(path: &str) -> bool {
    Path::new(path).components().any(|part| part == Component::ParentDir)
}

/// The text of a small file. A link in a skill may lead to what a tool may read, and nowhere else.
pub fn read(settings: &SkillSettings, path: &Path) -> Result<String, String> {
    let file = FileReach::of_home(&settings.home).open_named(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", FILE_BYTES_MAX / (1024 * 1024)));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// One SKILL.md, as far as its frontmatter goes.
pub struct Skill {
    pub file: PathBuf,
    pub fields: SkillFields,
    /// The beginning of what stands below the frontmatter.
    body: String,
}

impl Skill {
    /// None if it cannot be read.
    pub fn open(settings: &SkillSettings, file: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        FileReach::of_home(&settings.home)
            .open_named(file)
            .ok()?
            .take(HEAD_BYTES_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            // Cut within a character: the rest is fine. Anything else is no text.
            Err(error) if error.as_bytes().len() as u64 == HEAD_BYTES_MAX => {
                let valid = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                if bytes.len() - valid > 3 {
                    return None;
                }
                bytes.truncate(valid);
                String::from_utf8(bytes).ok()?
            }
            Err(_) => return None,
        };
        let (fields, body) = frontmatter::parse(&text);
        let body = frontmatter::head(body.trim(), 4000).to_owned();
        Some(Self { file: file.to_owned(), fields, body })
    }

    pub fn dir_name(&self) -> String {
        let name = self.file.parent().and_then(Path::file_name);
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// What it calls itself, else the name of its directory.
    pub fn name(&self) -> String {
        self.fields.get("name").map_or_else(|| self.dir_name(), frontmatter::text)
    }

    /// What it says it is for, else the first line of its text.
    fn description(&self) -> String {
        let said = frontmatter::field(&self.fields, "description");
        let lines =
            || self.body.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        said.or_else(|| lines().map(str::to_owned)).unwrap_or_default()
    }

    /// Whether it can work here and has to do with where this process runs.
    pub fn fits(&self, settings: &SkillSettings) -> bool {
        fits_platform(&self.fields) && fits_environment(&self.fields, settings)
    }
}

pub fn fits_platform(fields: &SkillFields) -> bool {
    let platforms = frontmatter::list(fields.get("platforms"));
    let here = std::env::consts::OS;
    platforms.is_empty()
        || platforms.iter().any(|platform| match platform.to_lowercase().trim() {
            "macos" | "darwin" => here == "macos",
            "windows" | "win32" => here == "windows",
            other => here.starts_with(other),
        })
}

/// An unknown tag hides nothing.
fn fits_environment(fields: &SkillFields, settings: &SkillSettings) -> bool {
    let environments = frontmatter::list(fields.get("environments"));
    let mut named =
        environments.iter().map(|tag| tag.to_lowercase().trim().to_owned()).filter(|tag| !tag.is_empty());
    let is_known = |tag: &str| matches!(tag, "kanban" | "docker" | "s6");
    environments.is_empty() || named.any(|tag| !is_known(&tag) || settings.environments.contains(&tag))
}

/// One line of `skills_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSkill {
    pub name: String,
    pub description: String,
    pub category: Option<String>,
}

/// All skills that are on where `source` is, by category and name.
pub fn list(settings: &SkillSettings, source: &str) -> Vec<ListedSkill> {
    let mut listed: Vec<ListedSkill> = Vec::new();
    let mut seen = HashSet::new();
    for root in roots(settings) {
        for file in skill_files(&root, FollowLinks::Follow) {
            let Some(skill) = Skill::open(settings, &file).filter(|skill| skill.fits(settings)) else {
                continue;
            };
            let name = frontmatter::head(&skill.name(), frontmatter::NAME_CHARS_MAX).to_owned();
            if settings.is_disabled(&name, source) || !seen.insert(name.clone()) {
                continue;
            }
            let category = category(&file, &root);
            listed.push(ListedSkill { name, description: shortened(skill.description()), category });
        }
    }
    listed.sort_by(|one, other| {
        let key = |listed: &ListedSkill| (listed.category.clone().unwrap_or_default(), listed.name.clone());
        key(one).cmp(&key(other))
    });
    listed
}

fn shortened(description: String) -> String {
    match description.chars().count() > frontmatter::DESCRIPTION_CHARS_MAX {
        true => frontmatter::head(&description, frontmatter::DESCRIPTION_CHARS_MAX - 3).to_owned() + "...",
        false => description,
    }
}

/// The first directory below the root, for a skill that is nested in one.
fn category(file: &Path, root: &Path) -> Option<String> {
    let parts: Vec<_> = file.strip_prefix(root).ok()?.components().collect();
    (parts.len() >= 3).then(|| parts[0].as_os_str().to_string_lossy().into_owned())
}

/// The directory of the skill that may be changed under this name: by directory name, without
/// following links.
pub fn find(settings: &SkillSettings, name: &str) -> Option<PathBuf> {
    roots(settings).iter().find_map(|root| find_in(root, name, FollowLinks::Stay))
}

pub fn find_in(root: &Path, name: &str, links: FollowLinks) -> Option<PathBuf> {
    let dirs = skill_files(root, links).into_iter().filter_map(|file| file.parent().map(Path::to_owned));
    dirs.into_iter().find(|dir| dir.file_name().is_some_and(|dir| dir == name))
}
