//! Which of the two stores is meant, and what the settings say of it.

use crate::files::MemoryFile;
use crate::settings::MemorySettings;

/// One of the two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Memory,
    User,
}

impl Target {
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
        let path = settings.home.join("memories").join(self.file_name());
        MemoryFile::new(path, self.limit(settings), settings.lock_patience)
    }

    pub fn is_enabled(self, settings: &MemorySettings) -> bool {
        match self {
            Self::Memory => settings.memory_enabled,
            Self::User => settings.user_profile_enabled,
        }
    }
}
