//! Files that leave: which a reply may carry, and what they hold.
//!
//! A reply names a file by its path, and a person can talk the agent into naming any. So a
//! file is opened once, without following a link that was put in its way meanwhile, and what was opened
//! is judged: where it really lies, and whether it is another name of something that must never leave.
//! It is read from that handle, and by no name again. Of two places that a file lies in, the deeper one
//! decides: a cache is open within a home that is closed, and a home is closed within a directory that
//! is open. What of a home is open, [`file_policy`] knows.

#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod unsupported;

use std::fs::{File as Opened, Metadata};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};
use throughline_hermes::file_policy::{self, SYSTEM_UNSENDABLE, USER_SECRET_DIRECTORIES, USER_UNSENDABLE};
#[cfg(unix)]
use unix as system;
#[cfg(not(unix))]
use unsupported as system;

/// What a line of a reply that stands for a file begins with.
const TAG: &str = "MEDIA:";
/// How many files of a home are compared with one that has several names, before it is held for one of them.
const NAMES_MAX: usize = 50_000;
/// How old a file may be, in strict mode, to count as made for the reply; Hermes' own number.
pub const RECENT: Duration = Duration::from_secs(600);

/// What may leave as a file. Without any of it, only the system's own places are closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaRules {
    /// The user's home directory.
    pub user: Option<PathBuf>,
    /// The homes of the agents, and the root they share. Nothing below them leaves, unless it is open.
    pub homes: Vec<PathBuf>,
    /// Open although it lies in a place that is closed: caches, directories the operator named.
    pub open: Vec<PathBuf>,
    pub trust: Trust,
}

/// What may leave of all that is neither open nor closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    #[default]
    Everything,
    /// Hermes' strict mode: only what was written this short a time ago.
    Recent(Duration),
}

impl MediaRules {
    /// What of an agent's own home may be sent.
    pub fn sendable(home: &Path) -> impl Iterator<Item = PathBuf> {
        file_policy::sendable().map(|name| home.join(name))
    }
}

/// A file on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Keeps a file that a person sent in `directory` of a home. Agents may write there, so a link that leads
/// from there into a home, or to where files run by themselves, is not followed.
pub(crate) fn keep(home: &Path, directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let resolved = std::fs::canonicalize(directory)?;
    if !may_hold(home, directory, &resolved) {
        return Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            format!("{} is a link to {}, where nothing is kept", directory.display(), resolved.display()),
        ));
    }
    system::put(&resolved, name, bytes)
}

fn may_hold(home: &Path, directory: &Path, resolved: &Path) -> bool {
    let own = real(home);
    if directory.strip_prefix(home).is_ok_and(|rest| resolved == own.join(rest)) {
        return true;
    }
    let root = match own.parent() {
        Some(parent) if parent.ends_with("profiles") => parent.parent().unwrap_or(&own),
        _ => &own,
    };
    // Whose directory it is does not matter: what is started there is started.
    let mut below = resolved.components();
    let mut runs = false;
    while below.next().is_some() {
        runs |= file_policy::runs_by_itself(resolved, Some(below.as_path()));
    }
    !resolved.starts_with(root) && !runs
}

/// The path that a line of a reply stands for, if it stands for a file.
pub fn tagged(line: &str) -> Option<&str> {
    let line = line.trim().trim_matches(['`', '"', '\'']);
    let path = line.strip_prefix(TAG)?.trim().trim_matches(['`', '"', '\'']).trim();
    (path.starts_with(['/', '~']) || is_drive(path)).then_some(path)
}

/// The paths of a part that consists of nothing but files.
pub fn all_tagged(part: &str) -> Option<Vec<&str>> {
    let lines = part.lines().filter(|line| !line.trim().is_empty());
    let paths: Option<Vec<&str>> = lines.map(tagged).collect();
    paths.filter(|paths| !paths.is_empty())
}

/// What `path` holds, if it may leave and is no longer than `limit`. The error is a sentence.
pub async fn read(path: &str, rules: &MediaRules, limit: u64) -> Result<OutgoingFile, String> {
    let (path, rules) = (path.to_owned(), rules.clone());
    let read = tokio::task::spawn_blocking(move || {
        let candidate = FileCandidate::resolve(&path, &rules)?;
        candidate.open()?.judged(&rules)?.read(limit)
    });
    read.await.unwrap_or_else(|error| Err(format!("the file could not be read: {error}")))
}

/// What a server on this machine keeps for us at `path`, in the directory that is its own, up to `limit` bytes. The
/// server names any path it likes, so the file must lie in that directory itself, through no link, and neither in a home
/// nor where keys are kept. The error says nothing of the path: a Bot API server has the bot's token in it.
pub(crate) async fn read_kept(
    path: &Path,
    directory: &Path,
    rules: &MediaRules,
    limit: u64,
) -> Result<Vec<u8>, NotKept> {
    let (path, directory, rules) = (path.to_owned(), directory.to_owned(), rules.clone());
    let read = tokio::task::spawn_blocking(move || -> Result<Vec<u8>, NotKept> {
        let named = path.strip_prefix(&directory).map_err(|_| NotKept::Elsewhere)?;
        let resolved = std::fs::canonicalize(&directory)?.join(named);
        if std::fs::canonicalize(&resolved)? != resolved {
            return Err(NotKept::Elsewhere);
        }
        let file = system::open(&resolved)?;
        let facts = file.metadata()?;
        let Some(place) = system::place(&file, &resolved).filter(|_| facts.is_file()) else {
            return Err(NotKept::Elsewhere);
        };
        let handle = OpenedFile { path: String::new(), place, file, facts };
        if is_private(&handle.place, &rules) || handle.is_closed_by_another_name(&rules) {
            return Err(NotKept::Closed);
        }
        let mut bytes = Vec::new();
        handle.file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit {
            true => Err(NotKept::TooLong(handle.facts.len().max(bytes.len() as u64))),
            false => Ok(bytes),
        }
    });
    read.await.unwrap_or_else(|error| Err(NotKept::Unread(std::io::Error::other(error))))
}

/// Why a file of a server on this machine is not taken.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// Not in the server's directory, or through a link, or no file.
    Elsewhere,
    /// In a home, or where keys are.
    Closed,
    TooLong(u64),
    Unread(std::io::Error),
}

impl From<std::io::Error> for NotKept {
    fn from(error: std::io::Error) -> Self {
        Self::Unread(error)
    }
}

/// Whether this lies in an agent's home or where the user keeps keys. Nothing opens it for a server.
fn is_private(place: &Path, rules: &MediaRules) -> bool {
    let personal = rules.user.iter().flat_map(|user| {
        let names = USER_UNSENDABLE.iter().chain(&USER_SECRET_DIRECTORIES);
        names.map(move |name| user.join(name))
    });
    let links = rules.homes.iter().flat_map(|home| closed_links(home));
    rules.homes.iter().cloned().chain(personal).chain(links).any(|closed| place.starts_with(real(&closed)))
        || file_policy::is_unfinished_backup(place)
}

/// A file as it was named, and where that leads. Nothing is known of it yet.
struct FileCandidate {
    path: String,
    resolved: PathBuf,
}

/// A file that is open. From here on its name does not matter.
struct OpenedFile {
    path: String,
    place: PathBuf,
    file: Opened,
    facts: Metadata,
}

impl FileCandidate {
    fn resolve(path: &str, rules: &MediaRules) -> Result<Self, String> {
        let named = match (path.strip_prefix("~/"), &rules.user) {
            (Some(below), Some(user)) => user.join(below),
            _ => PathBuf::from(path),
        };
        let resolved = std::fs::canonicalize(&named)
            .map_err(|error| format!("the file {path} cannot be sent: {error}"))?;
        Ok(Self { path: path.to_owned(), resolved })
    }

    /// Opened where it was found to lie. A link that took its place since is not followed.
    fn open(self) -> Result<OpenedFile, String> {
        let path = self.path;
        let broken = |error: std::io::Error| format!("the file {path} cannot be read: {error}");
        let file = system::open(&self.resolved).map_err(broken)?;
        let facts = file.metadata().map_err(broken)?;
        if !facts.is_file() {
            return Err(format!("{path} is not a file, so it cannot be sent"));
        }
        match system::place(&file, &self.resolved) {
            Some(place) => Ok(OpenedFile { path, place, file, facts }),
            None => Err(format!(
                "the file {path} may not leave: it was moved or replaced by a link while it was being opened; send it \
                 again once it stays where it is"
            )),
        }
    }
}

impl OpenedFile {
    fn judged(self, rules: &MediaRules) -> Result<Self, String> {
        let path = &self.path;
        let closed = || {
            format!(
                "the file {path} may not leave: it lies where secrets and memories are kept; put a copy into the agent's \
                 workspace, or name its directory in gateway.media_delivery_allow_dirs"
            )
        };
        if file_policy::is_unfinished_backup(&self.place) {
            return Err(format!("the file {path} may not leave: it is an unfinished backup of a home"));
        }
        let standing = standing(&self.place, rules);
        if matches!(standing, FilePermission::Closed) || self.is_closed_by_another_name(rules) {
            return Err(closed());
        }
        match (standing, rules.trust) {
            (FilePermission::Neither, Trust::Recent(within)) if !self.is_recent(within) => Err(format!(
                "the file {path} may not leave: gateway.strict is on, and it was not just made; name its directory in \
                 gateway.media_delivery_allow_dirs"
            )),
            _ => Ok(self),
        }
    }

    fn is_recent(&self, within: Duration) -> bool {
        // A time that lies ahead is not long ago.
        !within.is_zero()
            && self
                .facts
                .modified()
                .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age <= within))
    }

    /// Whether one of its names (hard links) lies where nothing leaves from.
    fn is_closed_by_another_name(&self, rules: &MediaRules) -> bool {
        if !system::has_other_names(&self.facts) {
            return false;
        }
        let mut left = NAMES_MAX;
        let open: Vec<PathBuf> = rules.open.iter().map(|place| real(place)).collect();
        rules.homes.iter().any(|home| self.is_named_in(&real(home), &open, &mut left))
    }

    /// Looks through `directory`, but for what is open, for a name of this file. Too many names to look
    /// through count as one.
    fn is_named_in(&self, directory: &Path, open: &[PathBuf], left: &mut usize) -> bool {
        let Ok(entries) = std::fs::read_dir(directory) else { return false };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else { return true };
            *left = fewer;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let is_name = kind.is_file() && system::is_same(&self.facts, &path);
            let is_closed_directory = kind.is_dir() && !open.contains(&path);
            if is_name || (is_closed_directory && self.is_named_in(&path, open, left)) {
                return true;
            }
        }
        false
    }

    fn read(self, limit: u64) -> Result<OutgoingFile, String> {
        let Self { path, place, file, facts } = self;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| format!("the file {path} cannot be read: {error}"))?;
        if bytes.len() as u64 > limit {
            let size = facts.len().max(bytes.len() as u64);
            return Err(format!("the file {path} has {size} bytes; the platform takes {limit}"));
        }
        let name =
            place.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
        Ok(OutgoingFile { name, bytes })
    }
}

enum FilePermission {
    Open,
    Closed,
    Neither,
}

/// Where it lies, if it is there; otherwise where it would.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn standing(resolved: &Path, rules: &MediaRules) -> FilePermission {
    // How deep the deepest of some places lies that the file is in.
    let depth = |places: &mut dyn Iterator<Item = PathBuf>| {
        let within = places.map(|place| real(&place)).filter(|place| resolved.starts_with(place));
        within.map(|place| place.components().count()).max()
    };
    if resolved.components().any(|part| part == Component::ParentDir) {
        return FilePermission::Closed;
    }
    let secrets = rules.homes.iter().flat_map(|home| closed_links(home));
    let personal = rules.user.iter().flat_map(|user| USER_UNSENDABLE.iter().map(move |name| user.join(name)));
    // A gateway that runs as root has its own files below a system directory.
    let own = rules.user.as_deref().map(real);
    let system = SYSTEM_UNSENDABLE.iter().map(PathBuf::from).filter(|place| Some(place) != own.as_ref());
    let homes = rules.homes.iter().cloned();
    // A cache that is a link into a home, of whomever, opens nothing there.
    let stays = |place: &PathBuf| {
        let target = real(place);
        let at_home = |home: &PathBuf| match place.strip_prefix(home) {
            Ok(below) => target == real(home).join(below),
            Err(_) => false,
        };
        target == *place
            || rules.homes.iter().any(at_home)
            || !rules.homes.iter().any(|home| target.starts_with(real(home)))
    };
    let closed = depth(&mut homes.chain(secrets).chain(personal).chain(system));
    let open = depth(&mut rules.open.iter().filter(|place| stays(place)).cloned());
    match (open, closed) {
        (Some(open), Some(closed)) if open <= closed => FilePermission::Closed,
        (Some(_), _) => FilePermission::Open,
        (None, Some(_)) => FilePermission::Closed,
        (None, None) => FilePermission::Neither,
    }
}

/// Links in a home that take its rule to where they lead.
fn closed_links(home: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
    let links = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_symlink())
            && file_policy::holds_through_links(&entry.file_name().to_string_lossy())
    });
    links.map(|entry| entry.path()).collect()
}

fn is_drive(path: &str) -> bool {
    let mut letters = path.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && letters.next() == Some(':')
        && letters.next().is_some_and(|letter| matches!(letter, '/' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_file_only_if_it_names_a_path() {
        for (line, path) in [
            ("MEDIA:/tmp/a.png", Some("/tmp/a.png")),
            ("  MEDIA: `~/b c.pdf`", Some("~/b c.pdf")),
            ("`MEDIA:/tmp/a.png`", Some("/tmp/a.png")),
            ("MEDIA:C:\\x.png", Some("C:\\x.png")),
            ("MEDIA:", None),
            ("MEDIA: coverage", None),
            ("see MEDIA:/tmp/a.png", None),
        ] {
            assert_eq!(tagged(line), path, "{line}");
        }
        assert_eq!(all_tagged("MEDIA:/a\n\nMEDIA:/b\n"), Some(vec!["/a", "/b"]));
        assert_eq!(all_tagged("MEDIA:/a\nand"), None);
        assert_eq!(all_tagged(" \n"), None);
    }

    #[tokio::test]
    async fn p31_nothing_of_an_agents_home_leaves_but_what_is_there_to_be_sent_even_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("hermes");
        let (home, other) = (root.join("profiles/coder"), root.join("profiles/other"));
        let secrets = [
            ".env",
            "throughline.key",
            "state.db",
            "state.db-wal",
            "state.db-shm",
            "logs/agent.log",
            "sessions/sessions.json",
            "platforms/pairing/telegram-approved.json",
            "gateway.json",
            "honcho.json",
            "hindsight/config.json",
            "memories/MEMORY.md",
            "cache/bws_cache.json",
            "report.txt",
        ];
        let sendable =
            ["cache/images/a.png", "cache/documents/b.pdf", "image_cache/c.png", "workspace/d.txt"];
        let write = |path: PathBuf| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        for home in [&root, &home, &other] {
            secrets.iter().chain(&sendable).for_each(|name| write(home.join(name)));
        }
        write(directory.path().join("elsewhere.txt"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(home.join(".env"), home.join("workspace/innocent.txt")).unwrap();
            std::os::unix::fs::symlink(&root, home.join("video_cache")).unwrap();
            std::os::unix::fs::symlink(other.join("memories"), home.join("audio_cache")).unwrap();
        }
        let rules = MediaRules {
            homes: vec![root.clone(), home.clone()],
            open: MediaRules::sendable(&home).chain([directory.path().to_owned()]).collect(),
            ..MediaRules::default()
        };
        let read = async |path: PathBuf| read(&path.display().to_string(), &rules, 100).await;
        for name in sendable {
            assert!(read(home.join(name)).await.is_ok(), "{name}");
            assert!(read(other.join(name)).await.is_err(), "another agent's {name}");
        }
        for name in secrets {
            for home in [&root, &home, &other] {
                let told = read(home.join(name)).await.unwrap_err();
                assert!(told.contains("secrets"), "{name}: {told}");
            }
        }
        #[cfg(unix)]
        for name in ["workspace/innocent.txt", "video_cache/state.db", "audio_cache/MEMORY.md"] {
            assert!(read(home.join(name)).await.unwrap_err().contains("secrets"), "{name}");
        }
        assert!(read(directory.path().join("elsewhere.txt")).await.is_ok());
        assert!(read(home.join("workspace")).await.unwrap_err().contains("not a file"));
        assert!(read(home.join("gone.txt")).await.is_err());
        assert!(super::read("/etc/passwd", &rules, 1 << 20).await.is_err());
        assert!(super::read(&home.join("workspace/d.txt").display().to_string(), &rules, 0).await.is_err());
    }

    #[tokio::test]
    async fn p31_in_strict_mode_only_what_is_open_or_was_just_made_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("open")).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        for (name, at) in [("open/old", long_ago), ("old", long_ago), ("new", SystemTime::now())] {
            std::fs::File::create(path(name)).unwrap().set_modified(at).unwrap();
        }
        for (trust, sent) in [
            (Trust::Everything, vec!["open/old", "old", "new"]),
            (Trust::Recent(RECENT), vec!["open/old", "new"]),
            (Trust::Recent(Duration::ZERO), vec!["open/old"]),
        ] {
            let rules = MediaRules { open: vec![path("open")], trust, ..MediaRules::default() };
            for name in ["open/old", "old", "new"] {
                let read = read(&path(name).display().to_string(), &rules, 100).await;
                assert_eq!(read.is_ok(), sent.contains(&name), "{name} {trust:?} {read:?}");
            }
        }
    }

    /// A home with a secret, and a picture that may be sent.
    #[cfg(unix)]
    fn home() -> (tempfile::TempDir, PathBuf, MediaRules) {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap().join("home");
        std::fs::create_dir_all(home.join("workspace/sub")).unwrap();
        std::fs::write(home.join(".env"), "BOT_TOKEN=1:secret").unwrap();
        std::fs::write(home.join("workspace/pic.txt"), "a picture").unwrap();
        std::fs::write(home.join("workspace/sub/.env"), "of a project").unwrap();
        let rules = MediaRules {
            homes: vec![home.clone()],
            open: MediaRules::sendable(&home).collect(),
            ..MediaRules::default()
        };
        (directory, home, rules)
    }

    #[cfg(unix)]
    #[test]
    fn p31_a_link_swapped_in_after_the_path_was_resolved_leads_nowhere() {
        use std::os::unix::fs::symlink;
        let (_directory, home, rules) = home();
        let resolve =
            |name: &str| FileCandidate::resolve(&home.join(name).display().to_string(), &rules).unwrap();
        // The file itself becomes a link.
        let file = resolve("workspace/pic.txt");
        std::fs::rename(home.join("workspace/pic.txt"), home.join("workspace/kept.txt")).unwrap();
        symlink(home.join(".env"), home.join("workspace/pic.txt")).unwrap();
        assert!(file.open().is_err());
        // A directory above it becomes one.
        let file = resolve("workspace/sub/.env");
        std::fs::rename(home.join("workspace/sub"), home.join("workspace/moved")).unwrap();
        symlink(&home, home.join("workspace/sub")).unwrap();
        let told = file.open().err().unwrap();
        assert!(told.contains("replaced by a link"), "{told}");
    }

    #[cfg(unix)]
    #[test]
    fn p31_what_was_opened_is_what_is_sent_whatever_its_name_means_by_then() {
        use std::os::unix::fs::symlink;
        let (_directory, home, rules) = home();
        let path = home.join("workspace/pic.txt");
        let opened = FileCandidate::resolve(&path.display().to_string(), &rules).unwrap().open().unwrap();
        let judged = opened.judged(&rules).unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink(home.join(".env"), &path).unwrap();
        assert_eq!(judged.read(100).unwrap().bytes, b"a picture");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn p31_a_second_name_of_a_secret_is_a_secret() {
        let (_directory, home, rules) = home();
        let second = home.join("workspace/notes.txt");
        std::fs::hard_link(home.join(".env"), &second).unwrap();
        let told = read(&second.display().to_string(), &rules, 100).await.unwrap_err();
        assert!(told.contains("may not leave"), "{told}");
        // Two names of one picture are no secret.
        let copy = home.join("workspace/sub/pic.txt");
        std::fs::hard_link(home.join("workspace/pic.txt"), &copy).unwrap();
        assert!(read(&copy.display().to_string(), &rules, 100).await.is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn p31_a_file_that_somebody_sent_follows_no_link_that_an_agent_planted() {
        use std::os::unix::fs::symlink;
        let (_directory, home, _) = home();
        let documents = home.join("cache/documents");
        std::fs::create_dir_all(&documents).unwrap();
        // Its name can be foreseen.
        symlink(home.join(".env"), documents.join("doc_1.txt")).unwrap();
        keep(&home, &documents, "doc_1.txt", b"sent").unwrap();
        assert_eq!(std::fs::read(documents.join("doc_1.txt")).unwrap(), b"sent");
        assert_eq!(std::fs::read(home.join(".env")).unwrap(), b"BOT_TOKEN=1:secret");
        // The directory leads elsewhere.
        let elsewhere = home.parent().unwrap();
        for (target, may) in [
            (home.join("hooks"), false),
            (elsewhere.join(".config/autostart"), false),
            (elsewhere.join("disk"), true),
        ] {
            std::fs::create_dir_all(&target).unwrap();
            let link = home.join("cache/images");
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            assert_eq!(keep(&home, &link, "img.png", b"sent").is_ok(), may, "{}", target.display());
            assert_eq!(std::fs::read_dir(&target).unwrap().count(), usize::from(may), "{}", target.display());
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_no_file_is_not_waited_for() {
        let (_directory, home, rules) = home();
        let fifo = home.join("workspace/fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(read(&fifo.display().to_string(), &rules, 100).await.unwrap_err().contains("is not a file"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn p31_a_server_on_this_machine_hands_out_only_what_lies_in_its_own_directory() {
        let (directory, home, rules) = home();
        let top = directory.path().canonicalize().unwrap();
        let rules = MediaRules { user: Some(top.join("user")), ..rules };
        let server = top.join("server/123:token");
        let write = |path: &Path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "words").unwrap();
        };
        write(&server.join("photos/file_0.jpg"));
        write(&top.join("server/other/photos/file_0.jpg"));
        write(&top.join("user/.ssh/id"));
        std::os::unix::fs::symlink(home.join(".env"), server.join("photos/link.jpg")).unwrap();
        std::os::unix::fs::symlink(top.join("user/.ssh"), server.join("keys")).unwrap();
        std::fs::hard_link(home.join(".env"), server.join("photos/twin.jpg")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(server.join("fifo")).status().unwrap().success());
        // The directory itself may be reached through a link: the operator put it there.
        std::os::unix::fs::symlink(top.join("server"), top.join("mounted")).unwrap();
        let mounted = top.join("mounted/123:token");
        let got = |path: PathBuf, directory: PathBuf, limit| {
            let rules = rules.clone();
            async move { read_kept(&path, &directory, &rules, limit).await }
        };
        assert_eq!(got(server.join("photos/file_0.jpg"), server.clone(), 5).await.unwrap(), b"words");
        assert_eq!(got(mounted.join("photos/file_0.jpg"), mounted.clone(), 5).await.unwrap(), b"words");
        let long = got(server.join("photos/file_0.jpg"), server.clone(), 4).await;
        assert!(matches!(long, Err(NotKept::TooLong(5))), "{long:?}");
        for path in [
            server.join("photos/link.jpg"),
            server.join("keys/id"),
            server.join("fifo"),
            server.join("../other/photos/file_0.jpg"),
            top.join("server/other/photos/file_0.jpg"),
            PathBuf::from("/etc/passwd"),
        ] {
            let refused = got(path.clone(), server.clone(), 100).await;
            assert!(matches!(refused, Err(NotKept::Elsewhere)), "{}: {refused:?}", path.display());
        }
        let twin = got(server.join("photos/twin.jpg"), server.clone(), 100).await;
        assert!(matches!(twin, Err(NotKept::Closed)), "{twin:?}");
        // A setting which says that the server's directory is a home or the user's keys is not believed.
        for (path, directory) in
            [(home.join("workspace/a.txt"), home.clone()), (top.join("user/.ssh/id"), top.join("user/.ssh"))]
        {
            write(&path);
            let refused = got(path.clone(), directory, 100).await;
            assert!(matches!(refused, Err(NotKept::Closed)), "{}: {refused:?}", path.display());
        }
    }
}
