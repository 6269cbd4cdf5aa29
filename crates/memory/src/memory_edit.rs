//! The one way by which entries change: read, decide, record, replace, all under the file's lock.
//!
//! - What goes is in the journal, on disk, before the file changes; where that is impossible nothing
//!   goes. Where only something comes, it comes: a fact is worth more than the note of its origin.
//! - Every character of the file that the change does not name stays, however a person put it there.
//!   So a file that Hermes would refuse to touch (it calls it drifted) can be changed here. Refused is
//!   only what would take away a text that no tool can have written; a copy of the file is saved then.

use crate::entry_change::{ChangeRefused, ChangedEntries, EntryChange};
use crate::entry_history::{EntryEvent, EntryOrigin, EntryRecord};
use crate::files::{FileError, LockedFile, MemoryFile};
use crate::memory_text::MemoryText;
use crate::settings::MemorySettings;
use crate::target::MemoryTarget;

/// Times a change is decided anew because something that takes no lock wrote into the file.
const SWAPS_MAX: usize = 4;

pub struct MemoryEdit<'a> {
    settings: &'a MemorySettings,
    origin: &'a EntryOrigin,
    /// How what comes is recorded.
    arrival: EntryEvent,
    abandoned: &'a dyn Fn() -> bool,
}

/// How a change ended with the file as it was found.
pub enum EditOutcome {
    Saved(ChangedEntries),
    Refused { refused: ChangeRefused, entries: Vec<String> },
    Drifted { backup: String },
}

impl<'a> MemoryEdit<'a> {
    pub fn new(settings: &'a MemorySettings, origin: &'a EntryOrigin) -> Self {
        Self { settings, origin, arrival: EntryEvent::Added, abandoned: &|| false }
    }

    /// Stops waiting for the lock once this is true.
    pub fn unless(self, abandoned: &'a dyn Fn() -> bool) -> Self {
        Self { abandoned, ..self }
    }

    /// What comes has been there before.
    pub fn restoring(self) -> Self {
        Self { arrival: EntryEvent::Restored, ..self }
    }

    /// Again if something without a lock came between.
    pub fn change(&self, target: MemoryTarget, change: &EntryChange) -> Result<EditOutcome, FileError> {
        let (file, limit) = (target.file(self.settings), target.limit(self.settings));
        let locked = file.lock(self.abandoned)?;
        let mut recorded = Vec::new();
        for _ in 0..SWAPS_MAX {
            let held = locked.read()?;
            let text = held.as_deref().unwrap_or_default();
            let document = MemoryText::parse(text);
            let changed = match change.apply(&document, limit) {
                Ok(changed) if changed.takes_foreign_text(limit) => {
                    return Ok(EditOutcome::Drifted { backup: self.back_up(&locked, &file, text) });
                }
                Ok(changed) => changed,
                Err(refused) => {
                    return Ok(EditOutcome::Refused { refused, entries: document.entries().to_vec() });
                }
            };
            let records = self.records(&changed);
            if recorded != records {
                self.record(target, &records)?;
                recorded = records;
            }
            match changed.text.as_ref().map_or(Ok(()), |text| locked.replace(&held, text)) {
                Ok(()) => return Ok(EditOutcome::Saved(changed)),
                Err(FileError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FileError::Changed(file.path().to_owned()))
    }

    fn records(&self, changed: &ChangedEntries) -> Vec<EntryRecord> {
        let record =
            |what, entry: &String| EntryRecord { what, entry: entry.clone(), origin: self.origin.clone() };
        let departed = changed.difference.departed.iter().map(|departed| match &departed.replaced_by {
            Some(by) => record(EntryEvent::Replaced { by: by.clone() }, &departed.entry),
            None => record(EntryEvent::Removed, &departed.entry),
        });
        let arrived = changed.difference.arrived.iter().map(|entry| record(self.arrival.clone(), entry));
        departed.chain(arrived).collect()
    }

    fn record(&self, target: MemoryTarget, records: &[EntryRecord]) -> Result<(), FileError> {
        if records.is_empty() {
            return Ok(());
        }
        let journal = target.journal(self.settings);
        match journal.append(records) {
            Ok(()) => Ok(()),
            Err(source) if records.iter().any(|record| record.what.is_departure()) => {
                Err(FileError::Unkept { path: journal.path().to_owned(), source })
            }
            Err(error) => {
                let path = journal.path().display();
                tracing::warn!(%path, %error, "where an entry of memory comes from is not recorded");
                Ok(())
            }
        }
    }

    fn back_up(&self, locked: &LockedFile<'_>, file: &MemoryFile, text: &str) -> String {
        let at = self.origin.at.whole_seconds();
        match locked.back_up(text, at) {
            Ok(path) => path.display().to_string(),
            Err(error) => {
                tracing::error!(%error, "no backup");
                format!("{} (BACKUP FAILED — file unchanged on disk)", file.backup_path(at).display())
            }
        }
    }
}
