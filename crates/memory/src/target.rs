//! Which of the two stores is meant, and what the settings say of it.

use crate::entry_journal::MemoryJournal;
use crate::files::MemoryFile;
use crate::settings::MemorySettings;
use std::path::PathBuf;
use std::str::FromStr;

/// One of the two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTarget {
    Memory,
    User,
}

impl MemoryTarget {
    pub const ALL: [Self; 2] = [Self::Memory, Self::User];

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }

    pub fn file_name(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY.md",
            Self::User => "USER.md",
        }
    }

    pub fn limit(self, settings: &MemorySettings) -> usize {
        match self {
            Self::Memory => settings.memory_char_limit,
            Self::User => settings.user_char_limit,
        }
    }

    pub fn file(self, settings: &MemorySettings) -> MemoryFile {
        let path = memories(settings).join(self.file_name());
        MemoryFile::new(path, self.limit(settings), settings.lock_patience)
    }

    pub(crate) fn journal(self, settings: &MemorySettings) -> MemoryJournal {
        MemoryJournal::of(&memories(settings), self)
    }

    pub fn is_enabled(self, settings: &MemorySettings) -> bool {
        match self {
            Self::Memory => settings.memory_enabled,
            Self::User => settings.user_profile_enabled,
        }
    }
}

fn memories(settings: &MemorySettings) -> PathBuf {
    let memories = settings.home.join("memories");
    match &settings.person {
        None => memories,
        Some(person) => memories.join("people").join(person),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither memory nor user")]
pub struct NoTarget(String);

impl FromStr for MemoryTarget {
    type Err = NoTarget;

    fn from_str(name: &str) -> Result<Self, NoTarget> {
        let found = Self::ALL.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| NoTarget(name.to_owned()))
    }
}
