//! Files in a reply: a line `MEDIA:<path>` stands for the file, on every platform.
//!
//! A path inside a block of code is an example and stays text. Which files may leave at all is
//! decided here too, once for all platforms: a model that was talked into `MEDIA:~/.ssh/id_rsa` gets
//! a refusal in words.

use std::path::{Path, PathBuf};

const TAG: &str = "MEDIA:";
/// Hermes' wishes for how a file is shown. They are for the platform, not for people.
const WISHES: [&str; 2] = ["[[audio_as_voice]]", "[[as_document]]"];

/// What a reply is made of, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// With its line breaks: joined, the texts are the reply without its files.
    Text(String),
    /// A path as it was written.
    File(String),
}

/// The texts and files of a reply.
pub fn items(text: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_none() && WISHES.contains(&trimmed) {
            continue;
        }
        match (fence.is_none().then(|| path(line)).flatten(), items.last_mut()) {
            (Some(path), _) => items.push(Item::File(path.to_owned())),
            (None, Some(Item::Text(text))) => text.push_str(line),
            (None, _) => items.push(Item::Text(line.to_owned())),
        }
    }
    items
}

/// The paths of a part that is nothing but files. None: it is text.
pub fn files(part: &str) -> Option<Vec<&str>> {
    let lines = part.lines().filter(|line| !line.trim().is_empty());
    let paths = lines.map(path).collect::<Option<Vec<_>>>()?;
    (!paths.is_empty()).then_some(paths)
}

/// The line that stands for a file.
pub fn line(path: &str) -> String {
    format!("{TAG}{path}")
}

fn path(line: &str) -> Option<&str> {
    let bare = |text: &str| matches!(text.as_bytes(), [b'`' | b'"' | b'\'', ..]);
    let quotes = ['`', '"', '\''];
    let line = line.trim();
    let line = if bare(line) { line.trim_matches(quotes) } else { line };
    let path = line.strip_prefix(TAG)?.trim().trim_matches(quotes).trim();
    let is_drive = |path: &str| matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    (path.starts_with('/') || path.starts_with("~/") || is_drive(path)).then_some(path)
}

/// Which files may leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// Directories and files that stay here, whoever asks.
    pub denied: Vec<PathBuf>,
    /// What leaves although it lies in one of those: caches of pictures and recordings.
    pub allowed: Vec<PathBuf>,
}

/// Of the system and of a person's home: Hermes' list.
const SYSTEM: [&str; 8] = ["/etc", "/proc", "/sys", "/dev", "/boot", "/var/log", "/var/lib", "/var/run"];
const PERSONAL: [&str; 9] =
    [".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config", ".azure", ".gcloud", "Library/Keychains"];
/// Of an agent's home: keys, tokens and who is paired.
const AGENT: [&str; 12] = [
    ".env",
    "auth.json",
    "auth.lock",
    "auth",
    "credentials",
    "config.yaml",
    ".anthropic_oauth.json",
    "google_token.json",
    "google_oauth_pending.json",
    "webhook_subscriptions.json",
    "mcp-tokens",
    "pairing",
];

impl Files {
    /// Hermes' rules, for a person's home and the agents' homes.
    pub fn of(home: Option<PathBuf>, agents: &[PathBuf]) -> Self {
        let system = SYSTEM.iter().map(PathBuf::from);
        let personal = home.iter().flat_map(|home| PERSONAL.iter().map(move |name| home.join(name)));
        let agent = agents.iter().flat_map(|agent| AGENT.iter().map(move |name| agent.join(name)));
        let denied = system.chain(personal).chain(agent).collect();
        let caches = ["images", "audio", "videos", "documents", "screenshots"];
        let allowed = agents.iter().flat_map(|agent| caches.map(|name| agent.join("cache").join(name)));
        Self { denied, allowed: allowed.collect(), home }
    }

    /// The file behind a path, if it exists and may leave. The error is a sentence.
    pub fn open(&self, path: &str) -> Result<Found, String> {
        let place = match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        };
        let real = place.canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("the file {path} does not exist; nothing was sent in its place")
            }
            _ => format!("the file {path} cannot be read: {error}"),
        })?;
        // Links are followed first: what counts is where the bytes lie.
        let within = |roots: &[PathBuf]| {
            roots.iter().any(|root| {
                real.starts_with(root) || root.canonicalize().is_ok_and(|root| real.starts_with(root))
            })
        };
        if within(&self.denied) && !within(&self.allowed) {
            return Err(format!("the file {path} lies where keys and passwords are kept, and stays there"));
        }
        match real.metadata() {
            Ok(about) if about.is_file() => Ok(Found { path: real, bytes: about.len() }),
            Ok(_) => Err(format!("{path} is not a file; a directory has to be packed first")),
            Err(error) => Err(format!("the file {path} cannot be read: {error}")),
        }
    }
}

/// A file that may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub bytes: u64,
}

impl Found {
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(|| "file".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

/// The ending of a path in small letters, without its dot.
pub fn ending(path: &Path) -> String {
    path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_is_a_file_and_code_is_not() {
        let text = "Here:\nMEDIA:/a/b c.png\n`MEDIA:/x.ogg`\n[[audio_as_voice]]\nEnd MEDIA:/not/this\n```\nMEDIA:/an/example\n```\n";
        assert_eq!(
            items(text),
            [
                Item::Text("Here:\n".to_owned()),
                Item::File("/a/b c.png".to_owned()),
                Item::File("/x.ogg".to_owned()),
                Item::Text("End MEDIA:/not/this\n```\nMEDIA:/an/example\n```\n".to_owned()),
            ]
        );
        assert_eq!(files("MEDIA:/a\n\nMEDIA: ~/b"), Some(vec!["/a", "~/b"]));
        assert_eq!(files("MEDIA:/a\nand more"), None);
        assert_eq!(files("MEDIA:relative"), None);
        assert_eq!(files(""), None);
        assert_eq!(files(&line("C:/x.png")), Some(vec!["C:/x.png"]));
    }

    #[test]
    fn keys_stay_even_behind_a_link() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(".ssh")).unwrap();
        std::fs::write(root.join(".ssh/id"), "key").unwrap();
        std::fs::write(root.join("fine.txt"), "fine").unwrap();
        let files = Files::of(Some(root.clone()), &[]);
        assert_eq!(files.open("~/fine.txt").unwrap().bytes, 4);
        assert!(files.open("~/.ssh/id").unwrap_err().contains("stays there"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join(".ssh/id"), root.join("harmless.txt")).unwrap();
            assert!(files.open("~/harmless.txt").is_err());
        }
        assert!(files.open("/etc/passwd").is_err());
        assert!(files.open("~/none").unwrap_err().contains("does not exist"));
        assert!(files.open("~/").unwrap_err().contains("not a file"));
    }
}
