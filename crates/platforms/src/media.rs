//! Files that leave: which a reply may carry, and what they hold.
//!
//! A reply names a file by its path, and whoever talks to the agent can talk it into naming any. So a
//! path is resolved first, links and all, and then held against what must never leave.

use std::path::{Component, Path, PathBuf};

/// What a line of a reply that stands for a file begins with.
const TAG: &str = "MEDIA:";
/// Where a system keeps what is nobody else's business.
const SYSTEM: [&str; 9] =
    ["/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/var/log", "/var/lib", "/var/run"];
/// And a user, below their home.
const PERSONAL: [&str; 9] =
    [".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config", ".azure", ".gcloud", "Library/Keychains"];
/// And Hermes, below its home.
const HERMES: [&str; 15] = [
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
];

/// What may leave as a file. Without any of it, only the system's own places are closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The user's home directory.
    pub user: Option<PathBuf>,
    /// The homes of the agents, and the root they share.
    pub homes: Vec<PathBuf>,
    /// Open whatever else is said: caches, directories the operator named.
    pub open: Vec<PathBuf>,
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
    match may_leave(&resolved, rules) {
        true => Ok(resolved),
        false => Err(format!("the file {path} may not leave: it lies where secrets are kept")),
    }
}

fn may_leave(resolved: &Path, rules: &Rules) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let within = |place: PathBuf| resolved.starts_with(real(&place));
    if resolved.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let secrets = HERMES.iter().flat_map(|name| rules.homes.iter().map(move |home| home.join(name)));
    if rules.open.iter().any(|place| within(place.clone())) {
        return true;
    }
    let personal = rules.user.iter().flat_map(|user| PERSONAL.iter().map(move |name| user.join(name)));
    // A gateway that runs as root has its own files below a system directory.
    let own = rules.user.as_deref().map(real);
    let system = SYSTEM.iter().map(PathBuf::from).filter(|place| Some(place) != own.as_ref());
    !secrets.chain(personal).chain(system).any(within)
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
    async fn what_must_not_leave_does_not_even_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("hermes");
        std::fs::create_dir_all(home.join("cache")).unwrap();
        for name in [".env", "report.txt", "cache/picture.png"] {
            std::fs::write(home.join(name), name).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(home.join(".env"), home.join("innocent.txt")).unwrap();
        let rules = Rules { homes: vec![home.clone()], ..Rules::default() };
        let read = async |name: &str| read(&home.join(name).display().to_string(), &rules, 100).await;
        assert_eq!(read("report.txt").await.unwrap().bytes, b"report.txt");
        assert_eq!(read("cache/picture.png").await.unwrap().name, "picture.png");
        assert!(read(".env").await.unwrap_err().contains("secrets"));
        #[cfg(unix)]
        assert!(read("innocent.txt").await.unwrap_err().contains("secrets"));
        assert!(read("cache").await.unwrap_err().contains("not a file"));
        assert!(read("gone.txt").await.is_err());
        assert!(super::read("/etc/passwd", &rules, 1 << 20).await.is_err());
        assert!(super::read(&home.join("report.txt").display().to_string(), &rules, 3).await.is_err());
    }
}
