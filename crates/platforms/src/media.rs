//! Files that leave: which a reply may carry, and what they hold.
//!
//! A reply names a file by its path, and whoever talks to the agent can talk it into naming any. So a
//! path is resolved first, links and all, and then held against what must never leave. Of two places
//! that a file lies in, the deeper one decides: a cache is open within a home that is closed, and a
//! home is closed within a directory that is open.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a line of a reply that stands for a file begins with.
const TAG: &str = "MEDIA:";
/// Where a system keeps what is nobody else's business.
const SYSTEM: [&str; 9] =
    ["/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/var/log", "/var/lib", "/var/run"];
/// And a user, below their home.
const PERSONAL: [&str; 9] =
    [".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config", ".azure", ".gcloud", "Library/Keychains"];
/// And an agent, below its home. All of a home is closed; these are also closed where a link leads to.
const SECRETS: [&str; 19] = [
    ".env",
    "auth.json",
    "auth.lock",
    "auth",
    "credentials",
    "config.yaml",
    "state.db",
    "sessions.json",
    ".anthropic_oauth.json",
    "google_token.json",
    "google_oauth_pending.json",
    "webhook_subscriptions.json",
    "cache/bws_cache.json",
    "pairing",
    "mcp-tokens",
    "throughline.key",
    "honcho.json",
    "hindsight",
    "memories",
];
/// What of a home is there to be sent: what people sent, what tools made, and where the agent works.
const SENDABLE: [&str; 11] = [
    "cache/images",
    "cache/audio",
    "cache/videos",
    "cache/documents",
    "cache/screenshots",
    "image_cache",
    "audio_cache",
    "video_cache",
    "document_cache",
    "browser_screenshots",
    "workspace",
];
/// How old a file may be, in strict mode, to count as made for the reply; Hermes' own number.
pub const RECENT: Duration = Duration::from_secs(600);

/// What may leave as a file. Without any of it, only the system's own places are closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
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

impl Rules {
    /// What of an agent's own home may be sent.
    pub fn sendable(home: &Path) -> impl Iterator<Item = PathBuf> {
        SENDABLE.iter().map(|name| home.join(name))
    }
}

/// A file on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
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
pub async fn read(path: &str, rules: &Rules, limit: u64) -> Result<File, String> {
    let resolved = resolve(path, rules).await?;
    let broken = |error: std::io::Error| format!("the file {path} cannot be read: {error}");
    let size = tokio::fs::metadata(&resolved).await.map_err(broken)?.len();
    if size > limit {
        return Err(format!("the file {path} has {size} bytes; the platform takes {limit}"));
    }
    let bytes = tokio::fs::read(&resolved).await.map_err(broken)?;
    let name = resolved.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
    Ok(File { name, bytes })
}

async fn resolve(path: &str, rules: &Rules) -> Result<PathBuf, String> {
    let named = match (path.strip_prefix("~/"), &rules.user) {
        (Some(below), Some(user)) => user.join(below),
        _ => PathBuf::from(path),
    };
    let resolved = tokio::fs::canonicalize(&named)
        .await
        .map_err(|error| format!("the file {path} cannot be sent: {error}"))?;
    let is_file = tokio::fs::metadata(&resolved).await.is_ok_and(|data| data.is_file());
    if !is_file {
        return Err(format!("{path} is not a file, so it cannot be sent"));
    }
    match standing(&resolved, rules) {
        Standing::Open => Ok(resolved),
        Standing::Closed => Err(format!(
            "the file {path} may not leave: it lies where secrets and memories are kept; put a copy into the agent's \
             workspace, or name its directory in gateway.media_delivery_allow_dirs"
        )),
        Standing::Neither => match rules.trust {
            Trust::Everything => Ok(resolved),
            Trust::Recent(within) if is_recent(&resolved, within).await => Ok(resolved),
            Trust::Recent(_) => Err(format!(
                "the file {path} may not leave: gateway.strict is on, and it was not just made; name its directory in \
                 gateway.media_delivery_allow_dirs"
            )),
        },
    }
}

async fn is_recent(resolved: &Path, within: Duration) -> bool {
    let written = tokio::fs::metadata(resolved).await.and_then(|data| data.modified());
    // A time that lies ahead is not long ago.
    !within.is_zero()
        && written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age <= within))
}

enum Standing {
    Open,
    Closed,
    Neither,
}

fn standing(resolved: &Path, rules: &Rules) -> Standing {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // How deep the deepest of some places lies that the file is in.
    let depth = |places: &mut dyn Iterator<Item = PathBuf>| {
        let within = places.map(|place| real(&place)).filter(|place| resolved.starts_with(place));
        within.map(|place| place.components().count()).max()
    };
    if resolved.components().any(|part| part == Component::ParentDir) {
        return Standing::Closed;
    }
    let secrets = SECRETS.iter().flat_map(|name| rules.homes.iter().map(move |home| home.join(name)));
    let personal = rules.user.iter().flat_map(|user| PERSONAL.iter().map(move |name| user.join(name)));
    // A gateway that runs as root has its own files below a system directory.
    let own = rules.user.as_deref().map(real);
    let system = SYSTEM.iter().map(PathBuf::from).filter(|place| Some(place) != own.as_ref());
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
        (Some(open), Some(closed)) if open <= closed => Standing::Closed,
        (Some(_), _) => Standing::Open,
        (None, Some(_)) => Standing::Closed,
        (None, None) => Standing::Neither,
    }
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
        let rules = Rules {
            homes: vec![root.clone(), home.clone()],
            open: Rules::sendable(&home).chain([directory.path().to_owned()]).collect(),
            ..Rules::default()
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
            let rules = Rules { open: vec![path("open")], trust, ..Rules::default() };
            for name in ["open/old", "old", "new"] {
                let read = read(&path(name).display().to_string(), &rules, 100).await;
                assert_eq!(read.is_ok(), sent.contains(&name), "{name} {trust:?} {read:?}");
            }
        }
    }
}
