//! Memory as a person looks at it: how full, what is in it and where that comes from, what was in it.
//!
//! Reads the files when it is asked and blocks meanwhile. The caller makes sure that only the owner sees it
//! ([`Memory::belongs_to`]).

use crate::entry_change::{ChangeRefused, EntryChange};
use crate::entry_history::{EntryOrigin, EntryRecord, PastEntry, PastId};
use crate::entry_journal::JournalRecords;
use crate::files::FileError;
use crate::memory_edit::{EditOutcome, MemoryEdit};
use crate::memory_text::{MemoryText, joined};
use crate::python_text::{chars, grouped};
use crate::target::MemoryTarget;
use crate::threats;
use crate::tool::Memory;
use crate::tool_result;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use throughline_core::time::Time;

/// How one of the two files is.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryStatus {
    pub target: MemoryTarget,
    pub path: PathBuf,
    pub is_enabled: bool,
    pub chars_max: usize,
    /// The error says why the file cannot be used, and what to do.
    pub contents: Result<MemoryContents, String>,
    /// When the file was last written, by any program.
    pub modified: Option<Time>,
    /// The last change that was recorded.
    pub last: Option<PastEntry>,
    /// Lines of the journal that cannot be read.
    pub unreadable_records: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryContents {
    pub entries: usize,
    /// With their separators, as the limit counts them.
    pub chars: usize,
    pub percent: u32,
    /// Above nine tenths: the agent is asked to consolidate.
    pub is_nearly_full: bool,
    /// Something other than a memory tool formatted it. Nothing is lost, but Hermes would refuse to
    /// replace or remove entries here.
    pub is_drifted: bool,
    /// Entries that are kept from prompts because they read like an attack.
    pub blocked: usize,
    /// Entries without a record of their writer: a person wrote them by hand, or Hermes.
    pub unattributed: usize,
}

/// One entry as it is in its file now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEntry {
    pub text: String,
    pub chars: usize,
    /// None: written by hand or by Hermes.
    pub origin: Option<EntryOrigin>,
    /// What it reads like, if it is kept from prompts.
    pub threats: Vec<String>,
}

/// An entry is back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredEntry {
    pub target: MemoryTarget,
    pub entry: String,
    /// `93% — 2,046/2,200 chars`.
    pub usage: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("There is no {0} in the history. Nothing was changed.")]
    Unknown(PastId),
    #[error("The entry of {id} is in {} already. Nothing was changed.", .id.target.file_name())]
    There { id: PastId },
    #[error(
        "The entry of {id} does not fit into {}: {} more characters would have to be free ({usage} are in use). \
         Nothing was changed; shorten or remove other entries first.",
        .id.target.file_name(),
        grouped(*.over_chars)
    )]
    Full { id: PastId, over_chars: usize, usage: String },
    #[error("The entry of {id} was not put back: {why}")]
    Refused { id: PastId, why: String },
    #[error(transparent)]
    File(#[from] FileError),
}

impl MemoryStatus {
    /// `93% — 2,046/2,200 chars`. None: the file cannot be used.
    pub fn usage(&self) -> Option<String> {
        let contents = self.contents.as_ref().ok()?;
        Some(tool_result::percent_usage(contents.chars, self.chars_max))
    }
}

impl Memory {
    /// The notes, then the profile.
    pub fn status(&self) -> [MemoryStatus; 2] {
        MemoryTarget::ALL.map(|target| self.status_of(target))
    }

    fn status_of(&self, target: MemoryTarget) -> MemoryStatus {
        let (settings, file) = (self.settings(), target.file(self.settings()));
        let read = self.document(target).map_err(|error| error.to_string());
        let told = self.told(target).unwrap_or_default(); // `history` says why it cannot be read
        let entries: &[String] = read.as_ref().map(MemoryText::entries).unwrap_or_default();
        let last = told.records.last().map(|(number, record)| past(target, *number, record, &held(entries)));
        let modified = std::fs::metadata(file.path()).and_then(|found| found.modified()).ok();
        let limit = target.limit(settings);
        MemoryStatus {
            target,
            path: file.path().to_owned(),
            is_enabled: target.is_enabled(settings),
            chars_max: limit,
            modified: modified
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .map(|since| Time::default().plus(since)),
            last,
            unreadable_records: told.unreadable,
            contents: read.map(|document| contents(&document, &told, limit)),
        }
    }

    /// What is in the file, in its order.
    pub fn show(&self, target: MemoryTarget) -> Result<Vec<MemoryEntry>, FileError> {
        let (document, told) = (self.document(target)?, self.told(target)?);
        let entries = document.entries().iter().map(|entry| MemoryEntry {
            text: entry.clone(),
            chars: chars(entry),
            origin: told.origin(entry).cloned(),
            threats: threats::findings(entry),
        });
        Ok(entries.collect())
    }

    /// The file as it is, to the byte. None: there is none.
    pub fn text(&self, target: MemoryTarget) -> Result<Option<String>, FileError> {
        target.file(self.settings()).read()
    }

    /// All that was recorded, the latest last.
    pub fn history(&self, target: MemoryTarget) -> Result<Vec<PastEntry>, FileError> {
        let (document, told) = (self.document(target)?, self.told(target)?);
        let held = held(document.entries());
        Ok(told.records.iter().map(|(number, record)| past(target, *number, record, &held)).collect())
    }

    /// Puts the entry of a record back, behind all others.
    pub fn restore(&self, id: PastId, origin: &EntryOrigin) -> Result<RestoredEntry, RestoreError> {
        let target = id.target;
        let told = self.told(target)?;
        let found = told.records.into_iter().find(|(number, _)| *number == id.number);
        let Some((_, EntryRecord { entry, .. })) = found else { return Err(RestoreError::Unknown(id)) };
        let add = EntryChange::Add { content: entry.clone() };
        if let Some(flaw) = add.flaw() {
            return Err(RestoreError::Refused { id, why: in_words(flaw) });
        }
        let limit = target.limit(self.settings());
        match MemoryEdit::new(self.settings(), origin).restoring().change(target, &add)? {
            EditOutcome::Saved(changed) if changed.text.is_none() => Err(RestoreError::There { id }),
            EditOutcome::Saved(changed) => {
                let usage = tool_result::percent_usage(chars(&joined(&changed.entries)), limit);
                Ok(RestoredEntry { target, entry, usage })
            }
            EditOutcome::Refused { refused: ChangeRefused::Unfit { over_chars, .. }, entries } => {
                Err(RestoreError::Full { id, over_chars, usage: crate::entry_change::usage(&entries, limit) })
            }
            EditOutcome::Refused { refused, .. } => Err(RestoreError::Refused { id, why: in_words(refused) }),
            EditOutcome::Drifted { backup } => {
                let why = format!("the file holds foreign text; a copy of it is {backup}.");
                Err(RestoreError::Refused { id, why })
            }
        }
    }

    pub(crate) fn document(&self, target: MemoryTarget) -> Result<MemoryText, FileError> {
        Ok(MemoryText::parse(&self.text(target)?.unwrap_or_default()))
    }

    pub(crate) fn told(&self, target: MemoryTarget) -> Result<JournalRecords, FileError> {
        let journal = target.journal(self.settings());
        journal
            .read()
            .map_err(|error| FileError::Unusable { path: journal.path().to_owned(), why: error.to_string() })
    }
}

fn contents(document: &MemoryText, told: &JournalRecords, limit: usize) -> MemoryContents {
    let entries = document.entries();
    let size = chars(&joined(entries));
    MemoryContents {
        entries: entries.len(),
        chars: size,
        percent: tool_result::percent(size, limit),
        is_nearly_full: tool_result::is_nearly_full(size, limit),
        is_drifted: document.is_drifted(limit),
        blocked: entries.iter().filter(|entry| !threats::findings(entry).is_empty()).count(),
        unattributed: entries.iter().filter(|entry| told.origin(entry).is_none()).count(),
    }
}

fn held(entries: &[String]) -> HashSet<&str> {
    entries.iter().map(String::as_str).collect()
}

fn past(target: MemoryTarget, number: u64, record: &EntryRecord, held: &HashSet<&str>) -> PastEntry {
    let is_there = held.contains(&*record.entry);
    PastEntry { id: PastId { target, number }, record: record.clone(), is_there }
}

pub(crate) fn in_words(refused: ChangeRefused) -> String {
    match refused {
        ChangeRefused::Plain(error)
        | ChangeRefused::Unmatched(error)
        | ChangeRefused::Ambiguous { error, .. }
        | ChangeRefused::Unfit { error, .. } => error,
    }
}
