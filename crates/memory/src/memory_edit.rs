//! The one way by which entries change: read, decide, record, replace, all under the file's lock.
//!
//! - What goes is in the journal, on disk, before the file changes; where that is impossible nothing
//!   goes. Where only something comes, it comes: a fact is worth more than the note of its origin.
//! - Every character of the file that the change does not name stays, however a person put it there.
//!   So a file that Hermes would refuse to touch (it calls it drifted) can be changed here. Refused is
//!   only what would take away a text that no tool can have written; a copy of the file is saved then.

use crate::change::{Change, Changed, Refused};
use crate::document::Document;
use crate::files::{FileError, Locked, MemoryFile};
use crate::origin::{Origin, Record, What};
use crate::settings::MemorySettings;
use crate::target::Target;

/// Times a change is decided anew because something that takes no lock wrote into the file.
const SWAPS_MAX: usize = 4;

pub struct MemoryEdit<'a> {
    settings: &'a MemorySettings,
    origin: &'a Origin,
    /// How what comes is recorded.
    arrival: What,
    abandoned: &'a dyn Fn() -> bool,
}

/// How a change ended with the file as it was found.
pub enum Ended {
    Saved(Changed),
    Refused { refused: Refused, entries: Vec<String> },
    Drifted { backup: String },
}

impl<'a> MemoryEdit<'a> {
    pub fn new(settings: &'a MemorySettings, origin: &'a Origin) -> Self {
        Self { settings, origin, arrival: What::Added, abandoned: &|| false }
    }

    /// Stops waiting for the lock once this is true.
    pub fn unless(self, abandoned: &'a dyn Fn() -> bool) -> Self {
        Self { abandoned, ..self }
    }

    /// What comes has been there before.
    pub fn restoring(self) -> Self {
        Self { arrival: What::Restored, ..self }
    }

    /// Again if something without a lock came between.
    pub fn change(&self, target: Target, change: &Change) -> Result<Ended, FileError> {
        let (file, limit) = (target.file(self.settings), target.limit(self.settings));
        let locked = file.lock(self.abandoned)?;
        let mut recorded = Vec::new();
        for _ in 0..SWAPS_MAX {
            let held = locked.read()?;
            let text = held.as_deref().unwrap_or_default();
            let document = Document::parse(text);
            let changed = match change.apply(&document, limit) {
                Ok(changed) if changed.takes_foreign_text(limit) => {
                    return Ok(Ended::Drifted { backup: self.back_up(&locked, &file, text) });
                }
                Ok(changed) => changed,
                Err(refused) => {
                    return Ok(Ended::Refused { refused, entries: document.entries().to_vec() });
                }
            };
            let records = self.records(&changed);
            if recorded != records {
                self.record(target, &records)?;
                recorded = records;
            }
            match changed.text.as_ref().map_or(Ok(()), |text| locked.replace(&held, text)) {
                Ok(()) => return Ok(Ended::Saved(changed)),
                Err(FileError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FileError::Changed(file.path().to_owned()))
    }

    fn records(&self, changed: &Changed) -> Vec<Record> {
        let record =
            |what, entry: &String| Record { what, entry: entry.clone(), origin: self.origin.clone() };
        let departed = changed.difference.departed.iter().map(|departed| match &departed.replaced_by {
            Some(by) => record(What::Replaced { by: by.clone() }, &departed.entry),
            None => record(What::Removed, &departed.entry),
        });
        let arrived = changed.difference.arrived.iter().map(|entry| record(self.arrival.clone(), entry));
        departed.chain(arrived).collect()
    }

    fn record(&self, target: Target, records: &[Record]) -> Result<(), FileError> {
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

    fn back_up(&self, locked: &Locked<'_>, file: &MemoryFile, text: &str) -> String {
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
