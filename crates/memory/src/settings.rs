//! What a user can set about memory.

use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::tool::Caller;

/// The part of `config.yaml` that lies under `memory`, and where the home is.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// The home directory: `memories/` and `pending/memory/` lie in it.
    pub home: PathBuf,
    /// `memory.memory_enabled`, true: the agent's own notes, `MEMORY.md`.
    pub memory_enabled: bool,
    /// `memory.user_profile_enabled`, true: what is known of the user, `USER.md`.
    pub user_profile_enabled: bool,
    /// `memory.memory_char_limit`, 2200: characters, not bytes, of all entries with their separators.
    pub memory_char_limit: usize,
    /// `memory.user_char_limit`, 1375.
    pub user_char_limit: usize,
    /// `memory.write_approval`, false: keep each write under `pending/` until a person approves it.
    pub write_approval: bool,
    /// Whose memory it is. Hermes has one for all who talk to a home.
    pub owners: MemoryOwners,
    /// Whom `USER.md` is about, and who may look through both files by order. No one else sees it.
    pub subjects: MemoryOwners,
    /// Who has notes of their own instead of `MEMORY.md`.
    pub notes: NotesSharing,
    /// Whose notes are meant, as a name of a directory. None: the home's own two files.
    pub person: Option<String>,
    /// How long a call waits for another process that holds a file's lock. Hermes holds it for one
    /// small write, so ten seconds mean that something hangs.
    pub lock_patience: Duration,
}

impl MemorySettings {
    /// Hermes' defaults.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            memory_enabled: true,
            user_profile_enabled: true,
            memory_char_limit: 2200,
            user_char_limit: 1375,
            write_approval: false,
            owners: MemoryOwners::Everyone,
            subjects: MemoryOwners::Everyone,
            notes: NotesSharing::Shared,
            person: None,
            lock_patience: Duration::from_secs(10),
        }
    }
}

/// Names the person that a caller's notes belong to.
pub type WhoseNotes = Arc<dyn Fn(&Caller) -> Option<String> + Send + Sync>;

/// Whether what the agent notes in one person's conversations is in the prompt of others.
#[derive(Clone, Default)]
pub enum NotesSharing {
    /// One `MEMORY.md` for all, as in Hermes.
    #[default]
    Shared,
    /// Whom a caller's notes belong to, in words that tell people apart. None: they are the owner's, in `MEMORY.md`.
    PerPerson(WhoseNotes),
}

impl NotesSharing {
    /// The directory of the caller's notes. A digest: what platforms call people is no safe name for a file.
    pub(crate) fn of(&self, caller: &Caller) -> Option<String> {
        let Self::PerPerson(whose) = self else { return None };
        Some(directory_of(&whose(caller)?))
    }
}

/// The name of the directory with the notes of those whom [`NotesSharing::PerPerson`] calls so.
pub fn directory_of(words: &str) -> String {
    let digest = Sha256::digest(words.as_bytes());
    digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Enough that no two people of a home share a directory.
const DIGEST_BYTES: usize = 16;

impl fmt::Debug for NotesSharing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shared => "Shared",
            Self::PerPerson(_) => "PerPerson(..)",
        })
    }
}

/// Who may read and change the memory of a home.
#[derive(Clone, Default)]
pub enum MemoryOwners {
    #[default]
    Everyone,
    /// Those for whom this says yes.
    Those(Arc<dyn Fn(&Caller) -> bool + Send + Sync>),
}

impl MemoryOwners {
    pub fn include(&self, caller: &Caller) -> bool {
        match self {
            Self::Everyone => true,
            Self::Those(is_owner) => is_owner(caller),
        }
    }
}

impl fmt::Debug for MemoryOwners {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Everyone => "Everyone",
            Self::Those(_) => "Those(..)",
        })
    }
}
