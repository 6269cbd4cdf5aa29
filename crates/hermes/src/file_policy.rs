//! Which files an agent may read, change and send: one table for everything that touches files.
//!
//! The terminal (Landlock), the file tools, `MEDIA:` lines, skills and plugins all ask here, so that no
//! door is narrower than another. A home is judged name by name: what lies right below it, and a few
//! paths further down. An unknown name is [`Kind::Unknown`]: reading it needs a person's yes,
//! writing it is closed, and `throughline.open_in_home` opens it.
//!
//! Outside homes the user's account decides, as in Hermes, except for the user's keys and for files
//! that run by themselves ([`runs_by_itself`]): changing those needs a person's yes.
//!
//! Everything here is data and decisions about names. Deliberately absent: the disk. The code that opens a
//! file resolves links first, and judges what was opened.

use sha2::{Digest as _, Sha256};
use std::path::{Component, Path};

/// Whether something may be done. In this order: the lesser of two holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Closed,
    /// A person says yes first. What cannot ask (a command in the terminal) may not.
    Asked,
    Open,
}

/// What a file of a home is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keys, tokens, backups, and who may talk to the agent.
    Secret,
    /// What the gateway keeps for its sessions: transcripts, to-do lists, results of tools.
    Record,
    /// Downloaded text that could carry instructions; it has a tool of its own.
    Download,
    /// Decides what agents do and may do. Its owner changes it.
    Rules,
    /// Text that makes the agent what it is. It may change, if a person agrees.
    Character,
    /// Known, and read only: logs, state, installed programs.
    Shown,
    /// Where an agent works.
    Work,
    /// Where an agent works, and what replies may carry.
    Sendable,
    /// A name that this table does not have.
    Unknown,
}

/// Whose home it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The agent's own.
    Own,
    /// Another agent's.
    Other,
}

/// What an agent may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    pub read: Access,
    pub write: Access,
    /// Whether a reply may carry it.
    pub send: bool,
}

impl Kind {
    pub fn rights(self, owner: Owner) -> Rights {
        use Access::{Asked, Closed, Open};
        let (read, write) = match self {
            Kind::Secret | Kind::Record | Kind::Download => (Closed, Closed),
            Kind::Rules | Kind::Shown => (Open, Closed),
            Kind::Character => (Open, Asked),
            Kind::Work | Kind::Sendable => (Open, Open),
            Kind::Unknown => (Asked, Closed),
        };
        let foreign = match owner {
            Owner::Own => Open,
            Owner::Other => Asked,
        };
        Rights { read, write: write.min(foreign), send: self == Kind::Sendable && owner == Owner::Own }
    }
}

/// What is in a home. The longest path that a file lies at or below decides.
const HOME: [(&str, Kind); 100] = [
    // Keys, tokens, and who may come in.
    (".env", Kind::Secret),
    (".anthropic_oauth.json", Kind::Secret),
    ("auth", Kind::Secret),
    ("auth.json", Kind::Secret),
    ("auth.lock", Kind::Secret),
    ("backups", Kind::Secret),
    ("byterover", Kind::Secret),
    ("cache/bws_cache.json", Kind::Secret), // a vault's secrets, in plain text
    ("credentials", Kind::Secret),
    ("gateway.json", Kind::Secret), // Hermes' older settings, with the bots' tokens
    ("google_oauth_pending.json", Kind::Secret),
    ("google_token.json", Kind::Secret),
    ("hindsight", Kind::Secret),
    ("honcho.json", Kind::Secret),
    ("mcp-tokens", Kind::Secret),
    ("mem0.json", Kind::Secret),
    ("pairing", Kind::Secret),
    ("platforms", Kind::Secret),
    ("slack_tokens.json", Kind::Secret),
    ("throughline.key", Kind::Secret),
    ("webhook_subscriptions.json", Kind::Secret),
    ("whatsapp", Kind::Secret),
    // What was said and done, in all sessions.
    ("cache/terminal", Kind::Record), // where long outputs lay before they had a directory for each session
    ("cache/tool-results", Kind::Record),
    ("memories/.throughline", Kind::Record), // what was forgotten, and whose it was
    ("memories/people", Kind::Record),       // what was noted of one person is not for the others
    ("pending", Kind::Record),
    ("processes.json", Kind::Record),
    ("session-exports", Kind::Record),
    ("sessions", Kind::Record),
    ("state-snapshots", Kind::Record),
    ("state.db", Kind::Record),
    ("throughline", Kind::Record),
    ("throughline.adoption", Kind::Record),
    ("throughline.history", Kind::Record),
    ("skills/.hub", Kind::Download),
    // Decided by the owner.
    ("config.yaml", Kind::Rules),
    ("cron", Kind::Rules),
    ("hooks", Kind::Rules),
    ("plugins", Kind::Rules),
    ("SOUL.md", Kind::Character),
    ("memories", Kind::Character),
    // State, logs, and what was installed.
    (".clean_shutdown", Kind::Shown),
    (".drain_request.json", Kind::Shown),
    (".hermes_history", Kind::Record),
    (".restart_failure_counts", Kind::Shown),
    (".restart_last_processed.json", Kind::Shown),
    (".restart_notify.json", Kind::Shown),
    (".restart_pending.json", Kind::Shown),
    (".skills_prompt_snapshot.json", Kind::Shown),
    (".update_check", Kind::Shown),
    (".venv", Kind::Shown),
    ("active_profile", Kind::Shown),
    ("active_sessions.lock", Kind::Shown),
    ("bin", Kind::Shown),
    ("channel_aliases.json", Kind::Shown),
    ("channel_directory.json", Kind::Shown),
    ("checkpoints", Kind::Shown),
    ("context_length_cache.yaml", Kind::Shown),
    ("cron.pid", Kind::Shown),
    ("gateway", Kind::Shown),
    ("gateway.lock", Kind::Shown),
    ("gateway.pid", Kind::Shown),
    ("gateway_state.json", Kind::Shown),
    ("gateway_voice_mode.json", Kind::Shown),
    ("hermes-agent", Kind::Shown),
    ("lib", Kind::Shown),
    ("logs", Kind::Shown),
    ("models_dev_cache.json", Kind::Shown),
    ("node", Kind::Shown),
    ("node_modules", Kind::Shown),
    ("optional-skills", Kind::Shown),
    ("profiles", Kind::Shown),
    ("share", Kind::Shown),
    ("skins", Kind::Shown),
    ("sticker_cache.json", Kind::Shown),
    ("throughline.address", Kind::Shown),
    ("venv", Kind::Shown),
    // Where an agent works. `scripts` because Hermes has agents write there what their schedules run, under
    // the same confinement; `home` is what Hermes gives the processes of a profile for `$HOME`.
    ("cache", Kind::Work),
    ("downloads", Kind::Work),
    ("home", Kind::Work),
    ("images", Kind::Work),
    ("pastes", Kind::Work),
    ("plans", Kind::Work),
    ("projects", Kind::Work),
    ("sandboxes", Kind::Work),
    ("scripts", Kind::Work),
    ("skills", Kind::Work),
    ("tmp", Kind::Work),
    // What people sent, what tools made, and where the agent works: there to be sent.
    ("audio_cache", Kind::Sendable),
    ("browser_screenshots", Kind::Sendable),
    ("cache/audio", Kind::Sendable),
    ("cache/documents", Kind::Sendable),
    ("cache/images", Kind::Sendable),
    ("cache/screenshots", Kind::Sendable),
    ("cache/videos", Kind::Sendable),
    ("document_cache", Kind::Sendable),
    ("image_cache", Kind::Sendable),
    ("video_cache", Kind::Sendable),
    ("workspace", Kind::Sendable),
];

/// Beginnings and parts of names right below a home by which copies and relatives of secrets are known.
const SECRET_BEGINNINGS: [&str; 6] =
    [".env", "auth.", "state.db", ".throughline", "throughline.", "throughline-"];
const SECRET_PARTS: [&str; 10] =
    ["token", "secret", "credential", "oauth", "password", ".key", ".pem", ".db", "pairing", ".partial"];

/// Where a session's own results of tools lie, below its home: `<this>/<session_directory(session)>/…`.
pub const TOOL_RESULTS: &str = "throughline/tool-results";

/// File systems know names of 255 bytes; longer ids are told apart by their digest.
const SESSION_NAME_MAX: usize = 120;

/// Backups that were interrupted hold what a backup does, wherever they lie.
const UNFINISHED_BACKUPS: [&str; 4] =
    [".tar.gz.partial", ".tar.gz.partial.earlier", ".tar.gz.age.partial", ".tar.gz.age.partial.earlier"];

/// What a path below a home is. `rest` has no `..` in it; empty, it is the home itself.
pub fn kind(rest: &Path) -> Kind {
    let names: Vec<String> =
        rest.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let Some(first) = names.first() else { return Kind::Shown };
    let known = (1..=names.len().min(2)).rev().find_map(|length| {
        let path = names[..length].join("/");
        // On many file systems `.ENV` is `.env`.
        HOME.iter().find(|(known, _)| known.eq_ignore_ascii_case(&path)).map(|(_, kind)| *kind)
    });
    match known {
        Some(kind) => kind,
        None if is_secret_name(&first.to_lowercase()) => Kind::Secret,
        None => Kind::Unknown,
    }
}

fn is_secret_name(name: &str) -> bool {
    SECRET_BEGINNINGS.iter().any(|start| name.starts_with(start))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// What an agent may do with `rest` of a home. `opened` are the names that the owner opened in it: they
/// are worked in, unless this table knows them.
pub fn rights(rest: &Path, owner: Owner, opened: &[String]) -> Rights {
    let kind = kind(rest);
    let first = rest.components().next().map(|name| name.as_os_str().to_string_lossy());
    let is_opened = first.is_some_and(|first| opened.iter().any(|name| *name == first));
    match kind == Kind::Unknown && is_opened {
        true => Kind::Work.rights(owner),
        false => kind.rights(owner),
    }
}

/// Whether this name of a home, where it is a link, takes its rule to what it leads to: people keep
/// their settings elsewhere, and no other name of a secret is less of one.
pub fn holds_through_links(name: &str) -> bool {
    use Kind::{Character, Record, Rules, Secret};
    matches!(kind(Path::new(name)), Secret | Record | Rules | Character)
}

/// Paths of a home that are less open than what surrounds them, for code that grants whole directories.
pub fn closed_within() -> impl Iterator<Item = &'static str> {
    let is_nested =
        |(path, kind): &&(&str, Kind)| path.contains('/') && matches!(kind, Kind::Secret | Kind::Record);
    HOME.iter().filter(is_nested).map(|(path, _)| *path)
}

/// Paths of a home that no tool reads.
pub fn closed() -> impl Iterator<Item = &'static str> {
    let is_closed = |(_, kind): &&(&str, Kind)| matches!(kind, Kind::Secret | Kind::Record);
    HOME.iter().filter(is_closed).map(|(path, _)| *path)
}

/// Whether an owner may have the agent work at this path of a home: not where secrets, transcripts and
/// rules are, and not in the home as a whole.
pub fn may_be_workspace(rest: &Path) -> bool {
    rest.components().next().is_some() && !matches!(kind(rest), Kind::Secret | Kind::Record | Kind::Rules)
}

/// Paths of a home that replies may carry files from.
pub fn sendable() -> impl Iterator<Item = &'static str> {
    HOME.iter().filter(|(_, kind)| *kind == Kind::Sendable).map(|(path, _)| *path)
}

/// The name of the directory that holds a session's own results: one name for every form of an id.
pub fn session_directory(session: &str) -> String {
    let mut name = String::with_capacity(session.len());
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            // No two ids share a name, not even where `A` is `a`: all else is written as its number.
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    if name.len() <= SESSION_NAME_MAX {
        return name;
    }
    let digest = Sha256::digest(session.as_bytes());
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}%-{digest}", &name[..SESSION_NAME_MAX / 2])
}

/// Where the results of one call lie, below [`TOOL_RESULTS`]: its key begins with its session. None: it
/// names none.
pub fn directory_of_call(key: &str) -> Option<String> {
    key.split_once('/').map(|(session, _)| session_directory(session))
}

/// Whether `rest` of its own home holds results of tools of this session: those it may read.
pub fn is_own_result(rest: &Path, session: &str) -> bool {
    let Ok(below) = rest.strip_prefix(TOOL_RESULTS) else { return false };
    let mut names = below.components().map(|name| name.as_os_str());
    let is_its = names.next().is_some_and(|name| name.eq_ignore_ascii_case(session_directory(session)));
    is_its && names.next().is_some()
}

/// Whether a file of this name is a backup that was not finished.
pub fn is_unfinished_backup(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    UNFINISHED_BACKUPS.iter().any(|ending| name.ends_with(ending))
}

// ------------------------------------------------------------------------------------ outside homes

/// Below the user's own directory: keys, and the ledger that ends loops between agents. Tools neither read nor write
/// them.
pub const USER_SECRET_FILES: [&str; 5] = [".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials"];
pub const USER_SECRET_DIRECTORIES: [&str; 9] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".config/gh",
    ".config/gcloud",
    ".local/state/throughline",
];
/// What of them may be read: it tells of no key.
pub const USER_READABLE: [&str; 3] = [".ssh/config", ".ssh/known_hosts", ".aws/config"];

/// Below the user's own directory: not in a reply to anyone.
pub const USER_UNSENDABLE: [&str; 14] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".config",
    ".azure",
    ".gcloud",
    "Library/Keychains",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
];
/// Where a system keeps secrets: not in a reply.
pub const SYSTEM_UNSENDABLE: [&str; 9] =
    ["/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/var/log", "/var/lib", "/var/run"];

/// Below the user's own directory: run by a shell, a desktop, a service manager or git, unasked.
const USER_STARTS: [&str; 41] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/git/config",
    ".config/git/hooks",
    ".config/nushell",
    ".config/plasma-workspace",
    ".config/powershell",
    ".config/systemd",
    ".config/zsh",
    ".forward",
    ".gitconfig",
    ".kshrc",
    ".local/share/autostart",
    ".local/share/systemd",
    ".login",
    ".logout",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".rhosts",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "Library/LaunchAgents",
    "AppData/Roaming/Microsoft/Windows/Start Menu/Programs/Startup",
    "Documents/PowerShell",
    "Documents/WindowsPowerShell",
];
/// The same anywhere on the machine; `/etc` is not written at all.
const SYSTEM_STARTS: [&str; 9] = [
    "/var/spool/cron",
    "/var/spool/at",
    "/var/at",
    "/usr/local/lib/systemd",
    "/lib/systemd",
    "/run/systemd",
    "/run/user",
    "/Library/LaunchAgents",
    "/Library/LaunchDaemons",
];

/// Whether what stands in this file is run later by itself: a shell's start files,
/// autostart, services, crontabs, git's hooks and settings. `below_user` is the path below the user's
/// own directory, where it lies there.
pub fn runs_by_itself(resolved: &Path, below_user: Option<&Path>) -> bool {
    let starts = |places: &[&str], path: &Path| places.iter().any(|place| path.starts_with(place));
    below_user.is_some_and(|path| starts(&USER_STARTS, path))
        || starts(&SYSTEM_STARTS, resolved)
        || is_git_machinery(resolved)
}

/// `.git/hooks/…`, `.git/config` (which names hooks and pagers), also of submodules and bare repositories.
fn is_git_machinery(path: &Path) -> bool {
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let Some(_) = names.by_ref().find(|name| name.ends_with(".git")) else { return false };
    names.any(|name| matches!(name, "hooks" | "config" | "config.worktree"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Asked, Closed, Open};

    fn of(rest: &str, owner: Owner) -> Rights {
        rights(Path::new(rest), owner, &["garden".to_owned(), ".env".to_owned()])
    }

    #[test]
    fn p31_each_name_of_a_home_has_one_rule() {
        for (rest, read, write) in [
            (".env", Closed, Closed),
            (".env.backup", Closed, Closed),
            (".ENV", Closed, Closed),
            ("state.db-wal", Closed, Closed),
            ("platforms/pairing/telegram-approved.json", Closed, Closed),
            ("honcho.json", Closed, Closed),
            ("backups/2026.tar.gz", Closed, Closed),
            ("home.tar.gz.partial", Closed, Closed),
            ("throughline-main-20260528T093510Z.tar.gz", Closed, Closed),
            ("backup.partial/state.db", Closed, Closed),
            ("throughline.history", Closed, Closed),
            ("throughline/todo/x.json", Closed, Closed),
            ("throughline/tool-results/s/k.txt", Closed, Closed),
            ("google_token.json", Closed, Closed),
            ("memories/.throughline/memory.jsonl", Closed, Closed),
            ("memories/people/0123/MEMORY.md", Closed, Closed),
            ("skills/.hub/index.json", Closed, Closed),
            ("hooks/mine/handler.py", Open, Closed),
            ("plugins/mine/plugin.py", Open, Closed),
            ("config.yaml", Open, Closed),
            ("cron/jobs.json", Open, Closed),
            ("logs/agent.log", Open, Closed),
            ("memories/MEMORY.md", Open, Asked),
            ("SOUL.md", Open, Asked),
            ("skills/x/SKILL.md", Open, Open),
            ("cache/mine/x", Open, Open),
            ("cache/bws_cache.json", Closed, Closed),
            ("workspace/token.txt", Open, Open),
            ("notes.txt", Asked, Closed),
            ("garden/notes.txt", Open, Open),
            ("", Open, Closed),
        ] {
            let rights = of(rest, Owner::Own);
            assert_eq!((rights.read, rights.write), (read, write), "{rest}");
            assert!(of(rest, Owner::Other).write < Open, "{rest}: another agent's is never written unasked");
            assert_eq!(of(rest, Owner::Other).read, read, "{rest}");
        }
    }

    #[test]
    fn only_what_is_there_to_be_sent_is_sent_and_only_of_ones_own_home() {
        assert!(of("workspace/a.png", Owner::Own).send && of("cache/images/a.png", Owner::Own).send);
        for rest in ["cache/x", "skills/x/SKILL.md", "notes.txt", "memories/MEMORY.md", "garden/x", ""] {
            assert!(!of(rest, Owner::Own).send, "{rest}");
        }
        assert!(!of("workspace/a.png", Owner::Other).send);
    }

    #[test]
    fn a_session_reads_its_own_results_and_nobody_elses() {
        let result = |session: &str| format!("{TOOL_RESULTS}/{}/k.txt", session_directory(session));
        assert!(is_own_result(Path::new(&result("api:1")), "api:1"));
        for other in ["api:12", "api", "api%3a1", "api_1", ""] {
            assert!(!is_own_result(Path::new(&result(other)), "api:1"), "{other}");
        }
        assert!(!is_own_result(Path::new(TOOL_RESULTS), "api:1"));
        assert_eq!(directory_of_call("api:1/2/0/1"), Some(session_directory("api:1")));
        let (long, longer) = ("é".repeat(100), "é".repeat(101));
        assert!(
            session_directory(&long).len() < 255 && session_directory(&long) != session_directory(&longer)
        );
    }

    #[test]
    fn p31_what_runs_by_itself_is_known() {
        let user = Path::new("/home/u");
        for path in [
            "/home/u/.bashrc",
            "/home/u/.config/systemd/user/x.service",
            "/home/u/.config/autostart/x.desktop",
            "/home/u/project/.git/hooks/pre-commit",
            "/home/u/project/.git/config",
            "/home/u/project/.git/modules/sub/hooks/post-merge",
            "/srv/bare.git/hooks/update",
            "/var/spool/cron/crontabs/u",
        ] {
            let path = Path::new(path);
            assert!(runs_by_itself(path, path.strip_prefix(user).ok()), "{}", path.display());
        }
        for path in [
            "/home/u/project/.bashrc",
            "/home/u/project/hooks/x.py",
            "/home/u/project/.git/info/exclude",
            "/home/u/.config/app/settings.json",
            "/srv/config",
        ] {
            let path = Path::new(path);
            assert!(!runs_by_itself(path, path.strip_prefix(user).ok()), "{}", path.display());
        }
    }

    #[test]
    fn no_name_is_listed_twice_and_none_is_deeper_than_is_looked() {
        for (at, (path, _)) in HOME.iter().enumerate() {
            assert!(HOME[..at].iter().all(|(other, _)| other != path), "{path} stands there twice");
            assert!(path.split('/').count() <= 2, "{path}");
        }
    }
}
